//! Values of iperf3's options, as it reads them.

use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};
use std::time::Duration;

use linkrate_compat::iperf3::Format;
use linkrate_compat::iperf3::quantity::{Base, quantity, rate};
use linkrate_interop::iperf3::{MAX_CPU, MAX_FLOW_LABEL};
use linkrate_sys::connect::Keepalive;

/// Whole seconds, of a text that may have had a part of one, which is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds {
    pub whole: u32,
    pub is_cut: bool,
}

/// A rate, bit/s, and the messages of a burst. A rate below zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub bits_per_second: u64,
    pub burst: u32,
    pub is_below_zero: bool,
}

/// The address of this end, and the interface behind its `%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub address: IpAddr,
    pub device: Option<String>,
}

/// Seconds as atoi(3) reads them, also with the unit behind them.
fn seconds(text: &str, most: u32) -> Result<Seconds, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    match number.map(|number| (number, number.trunc())) {
        Ok((number, whole)) if number >= 0.0 && whole <= f64::from(most) => {
            Ok(Seconds { whole: whole as u32, is_cut: whole < number })
        }
        _ => Err(format!("expected 0 to {most} s")),
    }
}

/// The length of a test; `inf` has no end, as 0.
pub fn time(text: &str) -> Result<Seconds, String> {
    match text {
        "inf" => Ok(Seconds { whole: 0, is_cut: false }),
        _ => seconds(text, 86_400),
    }
}

/// The beginning that is left out.
pub fn omit(text: &str) -> Result<Seconds, String> {
    seconds(text, 600)
}

/// Octets, or a number, with suffixes that are powers of 1,024.
pub fn octets(text: &str) -> Result<u64, String> {
    quantity(text, Base::Binary).map_err(|error| error.to_string())
}

/// A rate, bit/s, with suffixes that are powers of 1,000.
pub fn decimal(text: &str) -> Result<u64, String> {
    quantity(text, Base::Decimal).map_err(|error| error.to_string())
}

fn up_to(text: &str, most: u64, what: &str) -> Result<u32, String> {
    let found = octets(text)?;
    match u32::try_from(found) {
        Ok(number) if found <= most => Ok(number),
        _ => Err(format!("{found}, expected 0 to {most} {what}")),
    }
}

/// Octets of a message; 0 stands for the usual ones.
pub fn block(text: &str) -> Result<u32, String> {
    up_to(text, 1 << 20, "octets")
}

/// Octets of a socket buffer.
pub fn window(text: &str) -> Result<u32, String> {
    up_to(text, 512 << 20, "octets")
}

/// A rate and the messages of a burst. iperf3 makes a rate below zero the largest number, which is no bound.
pub fn bit_rate(text: &str) -> Result<Rate, String> {
    let above = text.strip_prefix('-');
    let (found, burst) = rate(above.unwrap_or(text)).map_err(|error| error.to_string())?;
    let is_below_zero = above.is_some() && found > 0;
    Ok(Rate { bits_per_second: if is_below_zero { 0 } else { found }, burst, is_below_zero })
}

/// The most bit/s of a test, and the time over which they are counted.
pub fn limit(text: &str) -> Result<(u64, Duration), String> {
    let (rate, time) = text.split_once('/').unwrap_or((text, "5"));
    let time: Option<f64> = time.parse().ok().filter(|time| (0.1..=60.0).contains(time));
    let time = time.ok_or("expected 0.1 to 60 s behind the slash")?;
    Ok((decimal(rate)?, Duration::from_secs_f64(time)))
}

/// A whole number in decimal, hexadecimal (0x) or octal (0) form, as strtol(3) reads it.
fn of_any_base(text: &str) -> Option<u32> {
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8),
        _ => text.parse(),
    }
    .ok()
}

/// The octet of the type of service.
pub fn tos(text: &str) -> Result<u8, String> {
    let octet = of_any_base(text).and_then(|number| u8::try_from(number).ok());
    octet.ok_or_else(|| "expected 0 to 255, also as 0x10 or 020".to_owned())
}

/// The octet of the type of service with a code point: that of a name (RFC 2474, 2597, 3246, 5865) or a number, or with the
/// bits of an older name (RFC 1349).
pub fn dscp(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_lowercase();
    let class = |prefix: &str, most: u8| {
        let digits = name.strip_prefix(prefix)?;
        let number: u8 = digits.parse().ok()?;
        (digits.len() == usize::from(most != 7) + 1 && number <= most).then_some(number)
    };
    let assured = class("af", 43).filter(|number| (1..=3).contains(&(number % 10)) && *number > 10);
    let point = match name.as_str() {
        "ef" => Some(46),
        "va" => Some(44),
        "lowdelay" => return Ok(0x10),
        "throughput" => return Ok(0x08),
        "reliability" => return Ok(0x04),
        _ => (class("cs", 7).map(|class| class * 8))
            .or(assured.map(|number| number / 10 * 8 + number % 10 * 2))
            .or_else(|| of_any_base(text).and_then(|number| u8::try_from(number).ok())),
    };
    let point = point.filter(|point| *point < 64);
    point
        .map(|point| point << 2)
        .ok_or_else(|| "expected 0 to 63, or ef, va, af11, cs1, ...".to_owned())
}

/// A flow label.
pub fn flow_label(text: &str) -> Result<u32, String> {
    let label = of_any_base(text).filter(|label| (1..=MAX_FLOW_LABEL).contains(label));
    label.ok_or_else(|| format!("expected 1 to {MAX_FLOW_LABEL}"))
}

/// Times of keepalive, in seconds, and a count, each of which may be empty.
pub fn keepalive(text: &str) -> Result<Keepalive, String> {
    let mut numbers = [None; 3];
    for (index, part) in text.split('/').enumerate() {
        let place = numbers.get_mut(index).ok_or("expected at most three numbers")?;
        if !part.is_empty() {
            let number = part.parse::<u32>().ok().filter(|number| *number > 0);
            *place = Some(number.ok_or_else(|| format!("{part}, expected a number from 1"))?);
        }
    }
    let [idle, interval, count] = numbers;
    if let (Some(idle), Some(interval), Some(count)) = (idle, interval, count)
        && idle <= interval.saturating_mul(count)
    {
        return Err("expected the idle time to be longer than all probes together".to_owned());
    }
    let time = |seconds: u32| Duration::from_secs(seconds.into());
    Ok(Keepalive { idle: idle.map(time), interval: interval.map(time), count })
}

/// An address, or the first one of a name, and the interface behind a `%`.
pub fn bind(text: &str) -> Result<Bind, String> {
    let (host, device) = match text.split_once('%') {
        Some((host, device)) => (host, Some(device.to_owned())),
        None => (text, None),
    };
    let found = || (host, 0).to_socket_addrs().ok()?.next().map(|found| found.ip());
    let address = host.parse().ok().or_else(found);
    let address = address.ok_or_else(|| format!("{host} is no address of this host"))?;
    Ok(Bind { address, device })
}

/// A host and the interface behind its `%`. That of an address of a link is a part of it.
pub fn host(text: &str) -> (&str, Option<&str>) {
    match text.split_once('%') {
        Some((host, _))
            if host.parse().is_ok_and(|host: Ipv6Addr| host.is_unicast_link_local()) =>
        {
            (text, None)
        }
        Some((host, device)) => (host, Some(device)),
        None => (text, None),
    }
}

/// The unit that the first letter stands for.
pub fn format(text: &str) -> Result<Format, String> {
    let found = text.chars().next().and_then(Format::of);
    found.ok_or_else(|| "expected one of k, m, g, t, K, M, G, T".to_owned())
}

/// The CPU of the client, and behind a comma that of the server.
pub fn cpus(text: &str) -> Result<(u32, Option<u32>), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu <= MAX_CPU);
    let read = match text.split_once(',') {
        None => number(text).map(|own| (own, None)),
        Some((own, server)) => {
            number(own).zip(number(server)).map(|(own, server)| (own, Some(server)))
        }
    };
    read.ok_or_else(|| "expected the number of a CPU, or two of them with a comma".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_iperf3_reads_them() {
        assert_eq!(
            [tos("16"), tos("0x10"), tos("020"), tos("0")].map(Result::ok),
            [Some(16), Some(16), Some(16), Some(0)]
        );
        assert!(tos("256").is_err());
        assert_eq!(cpus("1"), Ok((1, None)));
        assert_eq!(cpus("1,0"), Ok((1, Some(0))));
        assert!(
            ["", ",1", "1,", "1,2,3", "-1", "9000"].into_iter().all(|text| cpus(text).is_err())
        );
        assert_eq!(block("128K"), Ok(131_072));
        assert!(block("2M").is_err() && window("1G").is_err());
        assert_eq!((block("0"), window("0")), (Ok(0), Ok(0)));
        assert!(format("m").is_ok() && format("Kbits").is_ok() && format("x").is_err());
    }

    #[test]
    fn times_are_whole_seconds() {
        let of = |whole, is_cut| Ok(Seconds { whole, is_cut });
        assert_eq!(
            ["2", "2.0", "1.5", "10s", "inf", "0"].map(time),
            [of(2, false), of(2, false), of(1, true), of(10, false), of(0, false), of(0, false)]
        );
        assert_eq!((omit("1.0"), omit("600")), (of(1, false), of(600, false)));
        assert!(
            ["", "-1", "abc", "nan", "86401", "1m"].into_iter().all(|text| time(text).is_err())
        );
        assert!(omit("601").is_err() && omit("inf").is_err());
    }

    #[test]
    fn rates_below_zero_are_no_bound() {
        let of = |bits_per_second, burst, is_below_zero| {
            Ok(Rate { bits_per_second, burst, is_below_zero })
        };
        assert_eq!(bit_rate("10M/5"), of(10_000_000, 5, false));
        assert_eq!((bit_rate("-1"), bit_rate("-0")), (of(0, 1, true), of(0, 1, false)));
        assert!(bit_rate("--1").is_err() && bit_rate("-x").is_err());
        assert_eq!(limit("1G"), Ok((1_000_000_000, Duration::from_secs(5))));
        assert_eq!(limit("1G/0.5"), Ok((1_000_000_000, Duration::from_millis(500))));
        assert!(limit("1G/0").is_err() && limit("x").is_err());
    }

    #[test]
    fn code_points_have_names() {
        for (text, octet) in [
            ("ef", 0xb8),
            ("EF", 0xb8),
            ("va", 0xb0),
            ("af11", 0x28),
            ("af43", 0x98),
            ("cs0", 0),
            ("cs7", 0xe0),
            ("46", 0xb8),
            ("0x2e", 0xb8),
            ("lowdelay", 0x10),
        ] {
            assert_eq!(dscp(text), Ok(octet), "{text}");
        }
        for wrong in ["", "64", "af10", "af44", "af51", "af1", "cs8", "cs", "xy", "-1"] {
            assert!(dscp(wrong).is_err(), "{wrong}");
        }
        assert_eq!((flow_label("5"), flow_label("0xfffff")), (Ok(5), Ok(0xf_ffff)));
        assert!(flow_label("0").is_err() && flow_label("0x100000").is_err());
    }

    #[test]
    fn interfaces_stand_behind_addresses() {
        let of = |address: &str, device: Option<&str>| {
            Ok(Bind { address: address.parse().unwrap(), device: device.map(str::to_owned) })
        };
        assert_eq!(bind("192.0.2.7"), of("192.0.2.7", None));
        assert_eq!(bind("192.0.2.7%eth0"), of("192.0.2.7", Some("eth0")));
        assert_eq!(bind("fe80::1%eth0"), of("fe80::1", Some("eth0")));
        assert_eq!(host("lab2%eth0"), ("lab2", Some("eth0")));
        assert_eq!(host("fe80::1%eth0"), ("fe80::1%eth0", None));
        assert_eq!(host("2001:db8::1"), ("2001:db8::1", None));
    }

    #[test]
    fn keepalive_has_three_numbers() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(keepalive(""), Ok(Keepalive::default()));
        let all = Keepalive { idle: seconds(60), interval: seconds(5), count: Some(4) };
        assert_eq!(keepalive("60/5/4"), Ok(all));
        assert_eq!(keepalive("//4"), Ok(Keepalive { count: Some(4), ..Keepalive::default() }));
        for wrong in ["x", "0", "20/5/4", "1/2/3/4"] {
            assert!(keepalive(wrong).is_err(), "{wrong}");
        }
    }
}
