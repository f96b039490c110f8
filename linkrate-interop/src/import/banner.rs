//! What banners of netperf say, and the names of its tests.

use linkrate_model::imported::Asked;
use linkrate_model::{Direction, Family, Protocol};

/// What a banner has between the name of the test and the addresses.
const FROM: &str = " TEST from ";

/// The same of netperf 2.2 and of ESXi, which do not name the local address.
const TO: &str = " TEST to ";

/// Whether a line is the banner of a test.
pub(super) fn is_banner(line: &str) -> bool {
    let is_known = |line: &str| TESTS.iter().any(|(name, ..)| *name == title(line));
    line.contains(FROM) || line.contains(TO) && is_known(line)
}

/// Whether a text has a banner.
pub(super) fn has_banner(text: &str) -> bool {
    text.contains(FROM) || text.contains(TO) && text.lines().any(is_banner)
}

/// A test with a name: what the banner calls it, its name, its kind and direction.
pub(super) const TESTS: &[(&str, &str, Protocol, Direction)] = &[
    ("TCP STREAM", "TCP_STREAM", Protocol::Stream, Direction::Transmit),
    ("TCP MAERTS", "TCP_MAERTS", Protocol::Stream, Direction::Receive),
    ("TCP SENDFILE", "TCP_SENDFILE", Protocol::Stream, Direction::Transmit),
    ("UDP STREAM", "UDP_STREAM", Protocol::UdpStream, Direction::Transmit),
    ("TCP REQUEST/RESPONSE", "TCP_RR", Protocol::RequestResponse, Direction::Transmit),
    (
        "TCP Connect/Request/Response",
        "TCP_CRR",
        Protocol::ConnectRequestResponse,
        Direction::Transmit,
    ),
    ("UDP REQUEST/RESPONSE", "UDP_RR", Protocol::UdpRequestResponse, Direction::Transmit),
];

/// Lines of one test, each with its number from 1.
pub(super) type Lines<'a> = [(usize, &'a str)];

pub(super) fn place(line: usize) -> String {
    format!("line {line}")
}

/// The words of a banner before its addresses, without a word that says how the test is carried out.
pub(super) fn title(banner: &str) -> &str {
    let title = banner.split(FROM).next().and_then(|title| title.split(TO).next());
    let title = title.unwrap_or_default().trim();
    title.strip_prefix("MIGRATED ").unwrap_or(title)
}

/// What a banner says behind the addresses: `first burst 0`.
pub(super) fn asked_by(banner: &str, mut asked: Asked) -> Asked {
    asked.connections = Some(1);
    asked.family = match banner.split_once(" AF_INET") {
        Some((_, rest)) if rest.starts_with('6') => Some(Family::Ipv6),
        Some(_) => Some(Family::Ipv4),
        None => None,
    };
    if let Some((_, rest)) = banner.split_once("first burst ") {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        asked.burst = digits.parse::<u32>().ok().and_then(|more| more.checked_add(1));
    }
    if !asked.kind.is_udp() {
        asked.nodelay = Some(banner.contains(": nodelay"));
    }
    asked
}

/// Bits per second of one of what a head calls `10^6bits/sec` or `MBytes/sec`; `None` for no such unit.
pub(super) fn bits_per_unit(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix("ec").unwrap_or(unit);
    Some(match unit {
        "10^3bits/s" => 1e3,
        "10^6bits/s" => 1e6,
        "10^9bits/s" => 1e9,
        "Bytes/s" => 8.0,
        "KBytes/s" => 8.0 * 1024.0,
        "MBytes/s" => 8.0 * 1_048_576.0,
        "GBytes/s" => 8.0 * 1_073_741_824.0,
        _ => return None,
    })
}
