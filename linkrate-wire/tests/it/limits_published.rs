//! The limits against published values, each with the rounding that reproduces it.

use linkrate_model::{BitRate, ByteSize};
use linkrate_wire::limits::{Cut, IpVersion, Limit, Traffic, Transport};
use linkrate_wire::link::atm::{OC3C, OC12C};
use linkrate_wire::link::{Framing, Link};

const MB: f64 = 1e6;

/// The rate in Mb/s, rounded to `decimals` as a user would.
fn rounded(rate: BitRate, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (rate.0 / MB * scale).round() / scale
}

fn ethernet(rate: f64, tags: u8, traffic: Traffic) -> Limit {
    let framing = Framing::Ethernet { vlan_tags: tags, snap: false };
    Link { line_rate: BitRate(rate), framing }.limit(&traffic).unwrap()
}

fn without_timestamps(mtu: u32) -> Traffic {
    Traffic { transport: Transport::Tcp { timestamps: false }, ..Traffic::tcp(mtu) }
}

#[test]
fn ethernet_with_timestamps() {
    for (rate, mtu, tags, decimals, published) in [
        (1e9, 1500, 0, 2, 941.48),
        (1e9, 9000, 0, 2, 990.04),
        (1e9, 1500, 1, 2, 939.04),
        (10e9, 1500, 0, 1, 9414.8),
        (10e9, 9000, 0, 1, 9900.4),
    ] {
        let limit = ethernet(rate, tags, Traffic::tcp(mtu)).payload_rate();
        assert_eq!(rounded(limit, decimals), published, "{rate} b/s, MTU {mtu}, {tags} tags");
    }
}

/// The `tso` and `ten-gigabit` papers predate timestamps by default: their transmit figures of
/// 9.47 and 9.90 Gb/s lie below these, and 9.47 lies above the limit with timestamps (9.41).
#[test]
fn ethernet_without_timestamps() {
    for (mtu, expected) in [(1500, 9492.8), (9000, 9913.7)] {
        let limit = ethernet(10e9, 0, without_timestamps(mtu)).payload_rate();
        assert_eq!(rounded(limit, 1), expected, "MTU {mtu}");
    }
}

#[test]
fn ethernet_packet_rate_of_smallest_frames() {
    // the well-known 1,488,095 frames per second of 64 bytes at 1 Gb/s, from a one-byte datagram
    let traffic = Traffic { cut: Cut::Message(ByteSize(1)), ..Traffic::udp(1500) };
    let limit = ethernet(1e9, 0, traffic);
    assert_eq!(limit.packets_per_second().floor(), 1_488_095.0);
    let padding = limit.layers.iter().find(|layer| layer.name == "frame padding").unwrap();
    assert_eq!(padding.bytes, 46.0 - 29.0);
}

#[test]
fn ethernet_other_headers() {
    let framing = Framing::Ethernet { vlan_tags: 0, snap: true };
    let snap = Link { line_rate: BitRate(1e9), framing };
    for (what, limit, payload, line) in [
        ("two tags", ethernet(1e9, 2, Traffic::tcp(1500)), 1448, 1546.0),
        (
            "SNAP",
            snap.limit(&Traffic::tcp(1492)).unwrap(),
            1440,
            1538.0, // the same frame: SNAP takes its eight bytes from the packet
        ),
        (
            "IPv6",
            ethernet(1e9, 0, Traffic { ip: IpVersion::V6, ..Traffic::tcp(1500) }),
            1428,
            1538.0,
        ),
        ("UDP", ethernet(1e9, 0, Traffic::udp(1500)), 1472, 1538.0),
        (
            "UDP over IPv6",
            ethernet(1e9, 0, Traffic { ip: IpVersion::V6, ..Traffic::udp(1500) }),
            1452,
            1538.0,
        ),
    ] {
        assert_eq!((limit.payload, limit.line_bytes()), (payload, line), "{what}");
    }
}

/// The ten values of the `atm` paper's appendix, in Mb/s without decimals.
const PUBLISHED_ATM: [(u64, f64, f64); 5] = [
    (128, 90.0, 362.0),
    (256, 103.0, 413.0),
    (1024, 126.0, 503.0),
    (4096, 133.0, 535.0),
    (65536, 135.0, 542.0),
];

/// All five values of the 155 adapter come out at 155.52 Mb/s, rounded to the nearest integer.
/// Cutting decimals off would miss 126 (125.80); at 155 Mb/s flat it would be 125.
#[test]
fn atm_paper_155() {
    for (message, published, _) in PUBLISHED_ATM {
        let rate = Link::classical_ip(OC3C).published_formula(message).unwrap();
        assert_eq!(rounded(rate, 0), published, "message of {message}");
    }
}

/// Four of the five values of the 622 adapter come out, rounded to the nearest integer, both at
/// the 622 Mb/s that the paper writes and at the 622.08 Mb/s that OC-12c is: the integers cannot
/// tell which was used. The fifth, 535 for 4096 bytes, does not: the formula gives 532.07 at 622
/// and 532.13 at 622.08. It is what the formula gives with the padding p left out (535.14 and
/// 535.21). That is the only value of the ten where it was; the same row of the 155 adapter, 133,
/// needs the padding (without it: 133.80, so 134). It is kept here as published, and asserted to
/// be what it is.
#[test]
fn atm_paper_622() {
    for line_rate in [BitRate(622e6), OC12C] {
        for (message, _, published) in PUBLISHED_ATM {
            let rate = Link::classical_ip(line_rate).published_formula(message).unwrap();
            if message == 4096 {
                assert_eq!(rounded(rate, 0), 532.0, "with padding, at {line_rate}");
                let unpadded = 4096.0 / (4096.0 + 56.0) * 48.0 / 53.0 * 26.0 / 27.0;
                let rate = BitRate(unpadded * line_rate.0);
                assert_eq!(rounded(rate, 0), published, "without padding, at {line_rate}");
            } else {
                assert_eq!(rounded(rate, 0), published, "message of {message} at {line_rate}");
            }
        }
    }
}

/// The link table that linkrate holds measurements against: OC-3c at 155.52, OC-12c at 622.08
/// Mb/s, IPv4, TCP *with* timestamps, full segments. The first three are the exact value rounded
/// to two decimals. The fourth is tabled as 511.45 and is 511.4445, so 511.44 when rounded: the
/// table has it 0.0055 Mb/s (0.001 %) too high, and its own value times four at 155.52 says so.
#[test]
fn atm_link_table() {
    for (line_rate, mtu, published) in
        [(OC3C, 9180, 134.34), (OC12C, 9180, 537.35), (OC3C, 1500, 127.86)]
    {
        let limit = Link::classical_ip(line_rate).limit(&Traffic::tcp(mtu)).unwrap();
        assert_eq!(rounded(limit.payload_rate(), 2), published, "{line_rate}, MTU {mtu}");
    }
    let limit = Link::classical_ip(OC12C).limit(&Traffic::tcp(1500)).unwrap();
    assert_eq!(rounded(limit.payload_rate(), 4), 511.4445);
    assert!((limit.payload_rate().0 / MB - 511.45).abs() < 0.006);
}

/// What the `atm` paper measured with Classical IP at MTU 9180, against the limit without
/// timestamps. The figures of the 622 adapter (538.14) and of one 155 system (134.85) lie above
/// it, by 0.02 and 0.25 %: published figures, to be shown as such, are not limits.
#[test]
fn atm_measured_figures_beside_the_limit() {
    for (line_rate, limit, measured, above) in [
        (OC3C, 134.51, 134.45, false),
        (OC3C, 134.51, 134.85, true),
        (OC12C, 538.05, 538.14, true),
        (OC12C, 538.05, 535.42, false),
    ] {
        let link = Link::classical_ip(line_rate);
        let computed = link.limit(&without_timestamps(9180)).unwrap().payload_rate();
        assert_eq!(rounded(computed, 2), limit, "{line_rate}");
        assert_eq!(measured > computed.0 / MB, above, "{measured}");
    }
}

/// LAN Emulation puts 16 bytes before the packet where Classical IP puts 8.
#[test]
fn the_lane_mtu_of_the_paper_is_a_unit() {
    // "LANE MTU 1516" of the paper: as an IP MTU it could not have measured its 128.4 Mb/s
    let emulated = Link { line_rate: OC3C, framing: Framing::LanEmulation };
    let limit = |mtu| emulated.limit(&without_timestamps(mtu)).unwrap().payload_rate();
    assert_eq!(rounded(limit(1516), 2), 126.38);
    assert_eq!(rounded(limit(1500), 2), 128.92);
    assert_eq!(rounded(limit(9218), 2), 134.37);
}

#[test]
fn atm_account_of_a_full_packet() {
    let limit = Link::classical_ip(OC3C).limit(&Traffic::tcp(9180)).unwrap();
    assert_eq!((limit.payload, limit.packets, limit.cells), (9128, 1, Some(192)));
    let account: Vec<(&str, f64)> =
        limit.layers.iter().map(|layer| (layer.name, layer.bytes)).collect();
    assert_eq!(
        account[..7],
        [
            ("TCP header", 20.0),
            ("TCP timestamps", 12.0),
            ("IPv4 header", 20.0),
            ("LLC/SNAP header", 8.0),
            ("AAL5 padding", 20.0),
            ("AAL5 trailer", 8.0),
            ("cell headers", 960.0),
        ]
    );
    assert_eq!(account[7].0, "SONET overhead");
    // 149.76 Mb/s of cells is what OC-3c carries
    let cells = limit.cells_per_second().unwrap();
    assert!((cells * 53.0 * 8.0 - 149.76e6).abs() < 1.0, "{cells}");
}
