//! Values of options, as netperf writes them.

use std::net::Ipv4Addr;
use std::time::Duration;

use linkrate_interop::netperf::Shape;

use super::{Length, MAX_QUANTITY, OptionsError, Question, Test};

/// A size with netperf's letters: K, M, G for powers of 1024, k, m, g for those of 1000.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        (at, 'k') => (&text[..at], 1000),
        (at, 'm') => (&text[..at], 1_000_000),
        (at, 'g') => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A value with its letter.
pub(super) struct Value<'a>(pub(super) char, pub(super) &'a str);

impl Value<'_> {
    pub(super) fn wrong<T>(&self, expected: &'static str) -> Result<T, OptionsError> {
        Err(OptionsError::Value { option: self.0, found: self.1.to_owned(), expected })
    }

    pub(super) fn whole(
        &self,
        least: u32,
        most: u32,
        expected: &'static str,
    ) -> Result<u32, OptionsError> {
        match self.1.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => self.wrong(expected),
        }
    }

    /// Both halves of `first,second`. One value alone is both, and an empty half is open.
    pub(super) fn halves(&self) -> [&str; 2] {
        match self.1.split_once(',') {
            Some((first, second)) => [first, second],
            None => [self.1; 2],
        }
    }

    /// Both halves of `first,second`, of which each may be missing.
    fn split_pair(&self) -> [&str; 2] {
        self.1.split_once(',').map_or([self.1, ""], |(first, second)| [first, second])
    }

    /// Two sizes, of which one alone is both.
    pub(super) fn sizes(&self, most: u32) -> Result<[Option<u32>; 2], OptionsError> {
        self.sizes_of(self.halves(), most)
    }

    /// Two sizes, of which one alone is the first.
    pub(super) fn split_sizes(&self, most: u32) -> Result<[Option<u32>; 2], OptionsError> {
        self.sizes_of(self.split_pair(), most)
    }

    fn sizes_of(&self, halves: [&str; 2], most: u32) -> Result<[Option<u32>; 2], OptionsError> {
        let mut sizes = [None; 2];
        for (half, text) in sizes.iter_mut().zip(halves) {
            // a negative one is open, as an empty one
            if text.is_empty() || text.starts_with('-') && size(&text[1..]).is_some() {
                continue;
            }
            *half = match size(text).and_then(|size| u32::try_from(size).ok()) {
                // a size of zero is open, as in netperf
                Some(0) => None,
                Some(size) if size <= most => Some(size),
                _ => return self.wrong("a size such as 16K, or two with a comma, up to 64 MiB"),
            };
        }
        Ok(sizes)
    }

    pub(super) fn seconds(&self) -> Result<Duration, OptionsError> {
        let text = self.1.split_once(',').map_or(self.1, |(first, _)| first);
        // a negative one makes netperf look at the clock after each call, which is done here anyway
        match text.trim_start_matches('-').parse::<f64>() {
            Ok(seconds) if (0.01..=3600.0).contains(&seconds) => {
                Ok(Duration::from_secs_f64(seconds))
            }
            _ => self.wrong("seconds from 0.01 to 3600"),
        }
    }

    /// The host of `-- -H host[/width][,family]`; `None` where there is only a family.
    pub(super) fn data_host(&self) -> Result<Option<String>, OptionsError> {
        let [address, family] = self.split_pair();
        if !matches!(family, "" | "4" | "inet" | "INET" | "AF_INET" | "0" | "unspec" | "AF_UNSPEC")
        {
            return self
                .wrong("a host and a family of IPv4; data connections of IPv6 are not there yet");
        }
        let host = address.split('/').next().unwrap_or_default();
        Ok(Some(host.to_owned()).filter(|host| !host.is_empty()))
    }

    /// Calls of this end in an interval; none for 0, as in netperf.
    pub(super) fn interval_burst(&self) -> Result<Option<u32>, OptionsError> {
        match self.split_pair() {
            [own, ""] if own.parse::<u32>().is_ok() => Ok(own.parse().ok().filter(|own| *own > 0)),
            _ => self.wrong("a number of calls of this end; the server is not paced"),
        }
    }

    /// The interval of this end: ms, or with a letter ms, s or µs (`u`).
    pub(super) fn interval(&self) -> Result<Duration, OptionsError> {
        let wrong = || {
            self.wrong("a time of this end such as 10, 10m, 500u or 1s; the server is not paced")
        };
        let digits = self.1.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let Ok(number) = digits.parse::<u32>() else { return wrong() };
        let time = match &self.1[digits.len()..] {
            "" | "m" | "ms" => Duration::from_millis(number.into()),
            "u" | "us" => Duration::from_micros(number.into()),
            "s" => Duration::from_secs(number.into()),
            _ => return wrong(),
        };
        if time.is_zero() { wrong() } else { Ok(time) }
    }

    pub(super) fn length(&self) -> Result<Length, OptionsError> {
        match self.1.strip_prefix('-') {
            Some(units) => match size(units) {
                Some(units) if (1..=1 << 31).contains(&units) => Ok(Length::Units(units)),
                _ => self.wrong("a negative number of bytes or transactions up to 2^31"),
            },
            None => self.whole(1, MAX_QUANTITY, "seconds from 1 to 86400").map(Length::Seconds),
        }
    }

    pub(super) fn test(&self) -> Result<Test, OptionsError> {
        let plain = |shape, udp| Test { shape, udp, sends_files: false, omni: false };
        Ok(match self.1.to_ascii_uppercase().as_str() {
            "TCP_STREAM" => plain(Shape::Stream, false),
            "TCP_SENDFILE" => Test { sends_files: true, ..plain(Shape::Stream, false) },
            "TCP_MAERTS" => plain(Shape::Maerts, false),
            "TCP_RR" => plain(Shape::RequestResponse, false),
            "TCP_CRR" => plain(Shape::ConnectRequestResponse, false),
            "TCP_CC" => plain(Shape::Connect, false),
            "UDP_STREAM" => plain(Shape::Stream, true),
            "UDP_RR" => plain(Shape::RequestResponse, true),
            "OMNI" => Test { omni: true, ..plain(Shape::Stream, false) },
            _ => {
                return self.wrong(
                    "one of TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, TCP_RR, TCP_CRR, TCP_CC, UDP_STREAM, UDP_RR, \
                     OMNI, TCP_MSS, LOC_CPU, REM_CPU",
                );
            }
        })
    }

    pub(super) fn question(&self) -> Option<Question> {
        match self.1.to_ascii_uppercase().as_str() {
            "TCP_MSS" => Some(Question::Mss),
            "LOC_CPU" => Some(Question::CpuRate { far: false }),
            "REM_CPU" => Some(Question::CpuRate { far: true }),
            _ => None,
        }
    }
}

/// Types of service of both ends: numbers, or names of RFC 2474, 2597, 3246 and 1349.
pub(super) fn types_of_service(value: &Value<'_>) -> Result<[Option<u8>; 2], OptionsError> {
    let mut both = [None; 2];
    for (tos, text) in both.iter_mut().zip(value.halves()) {
        if text.is_empty() {
            continue;
        }
        *tos = match type_of_service(text) {
            Some(found) => Some(found),
            None => return value.wrong("a number up to 0xff, or a name such as EF, CS5, AF21"),
        };
    }
    Ok(both)
}

fn type_of_service(text: &str) -> Option<u8> {
    let text = text.to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        return u8::from_str_radix(digits, 16).ok();
    }
    let digit = |name: &str| name.parse::<u8>().ok();
    match text.as_str() {
        "ef" => Some(46 << 2),
        "lowdelay" => Some(0x10),
        "throughput" => Some(0x08),
        "reliability" => Some(0x04),
        name => match (name.strip_prefix("cs"), name.strip_prefix("af")) {
            (Some(class), _) => digit(class).filter(|class| *class < 8).map(|class| class << 5),
            (_, Some(numbers)) => {
                let number = digit(numbers)?;
                let (class, drop) = (number / 10, number % 10);
                ((1..=4).contains(&class) && (1..=3).contains(&drop))
                    .then_some((class << 5) | (drop << 3))
            }
            _ => digit(name),
        },
    }
}

/// An address of this host, without the family behind it; `None` for any.
pub(super) fn local(value: &Value<'_>) -> Result<Option<Ipv4Addr>, OptionsError> {
    match value.1.split(',').next().unwrap_or_default() {
        "" => Ok(None),
        text => match text.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => value.wrong("an IPv4 address of this host"),
        },
    }
}

/// `N`: both programs on CPU N; `N,`: this one; `,N`: the server.
pub(super) fn cpus(value: &Value<'_>) -> Result<[Option<u32>; 2], OptionsError> {
    let mut cpus = [None; 2];
    for (cpu, text) in cpus.iter_mut().zip(value.halves()) {
        *cpu = match text {
            "" => None,
            text => match text.parse() {
                Ok(number) => Some(number),
                Err(_) => return value.wrong("the number of a CPU, or two with a comma"),
            },
        };
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_size_reads_back(number in 0_u64..1 << 20, unit in "[KMGkmg]?") {
            let factor = match unit.as_str() {
                "K" => 1 << 10, "M" => 1 << 20, "G" => 1 << 30,
                "k" => 1000, "m" => 1_000_000, "g" => 1_000_000_000, _ => 1,
            };
            prop_assert_eq!(size(&format!("{number}{unit}")), Some(number * factor));
        }
    }
}
