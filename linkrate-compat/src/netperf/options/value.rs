//! Values of options, as netperf writes them.

use std::time::Duration;

use linkrate_interop::netperf::{Placement, Shape};
use linkrate_model::Family;

use super::{Length, MAX_QUANTITY, OptionsError, Question, Test};

/// The number that a text begins with, whatever is behind it, as atoi(3) reads it; `None` where it begins with none,
/// which atoi takes for 0.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_ascii_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    text[..sign + digits].parse().ok()
}

/// A size with netperf's letters, anywhere behind the number: K, M, G for powers of 1024, k, m, g for those of 1000.
fn size(text: &str) -> Option<i64> {
    const UNITS: [(char, i64); 6] = [
        ('K', 1 << 10),
        ('M', 1 << 20),
        ('G', 1 << 30),
        ('k', 1000),
        ('m', 1_000_000),
        ('g', 1_000_000_000),
    ];
    let units = UNITS.iter().filter(|(letter, _)| text.contains(*letter));
    units.map(|(_, unit)| *unit).try_fold(number(text)?, i64::checked_mul)
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
        self.part(self.1, least, most, expected)
    }

    /// A number that is this part of the value.
    fn part(
        &self,
        text: &str,
        least: u32,
        most: u32,
        expected: &'static str,
    ) -> Result<u32, OptionsError> {
        match number(text).and_then(|number| u32::try_from(number).ok()) {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            _ => self.wrong(expected),
        }
    }

    /// Two numbers up to `most`, of which one alone is both, and each may be missing.
    pub(super) fn numbers(
        &self,
        most: u32,
        expected: &'static str,
    ) -> Result<[Option<u32>; 2], OptionsError> {
        let mut numbers = [None; 2];
        for (number, text) in numbers.iter_mut().zip(self.halves()) {
            if !text.is_empty() {
                *number = Some(self.part(text, 0, most, expected)?);
            }
        }
        Ok(numbers)
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
            if text.is_empty() {
                continue;
            }
            *half = match size(text).map(|size| (size, u32::try_from(size))) {
                // zero and negative ones are open, as in netperf
                Some((..=0, _)) => None,
                Some((_, Ok(size))) if size <= most => Some(size),
                _ => return self.wrong("a size such as 16K, or two with a comma, up to 64 MiB"),
            };
        }
        Ok(sizes)
    }

    /// Where the buffers of sends and receives begin: both alignments (`-a`), or both offsets (`-o`).
    pub(super) fn place(
        &self,
        placements: &mut [Placement; 2],
        with: impl Fn(Placement, u32) -> (u32, u32),
    ) -> Result<(), OptionsError> {
        for (placement, text) in placements.iter_mut().zip(self.halves()) {
            if text.is_empty() {
                continue;
            }
            let number = size(text).and_then(|size| u32::try_from(size).ok());
            let found = number.map(|number| with(*placement, number));
            *placement = match found.and_then(|(to, offset)| Placement::of(to, offset)) {
                Some(placement) => placement,
                None => {
                    return self.wrong(
                        "an alignment that is a power of two up to 4096, or an offset up to 65536",
                    );
                }
            };
        }
        Ok(())
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

    /// The host and the family of `host[/width][,family]`, of which each may be missing. A host may have a zone.
    pub(super) fn host(&self) -> Result<(Option<String>, Option<Family>), OptionsError> {
        let [address, family] = self.split_pair();
        let family = family.to_ascii_lowercase();
        let family = match family.as_str() {
            "" => None,
            name if name.contains('6') => Some(Family::Ipv6),
            name if name.contains('4') || name.contains("inet") => Some(Family::Ipv4),
            name if name.contains("unspec") || name.contains('0') => None,
            _ => return self.wrong("a host, and with a comma 4, 6, inet, inet6 or unspec"),
        };
        let host = address.split('/').next().unwrap_or_default();
        Ok((Some(host.to_owned()).filter(|host| !host.is_empty()), family))
    }

    /// Names of files here and there.
    pub(super) fn files(&self) -> Result<[Option<String>; 2], OptionsError> {
        /// Most octets of a name that a request has room for.
        const MAX_NAME: usize = 31;
        let files = self.split_pair();
        if files[1].len() > MAX_NAME {
            return self
                .wrong("a local file, and after a comma one of the server with at most 31 octets");
        }
        Ok(files.map(|file| Some(file.to_owned()).filter(|file| !file.is_empty())))
    }

    /// Calls in an interval, here and there; none for 0, as in netperf.
    pub(super) fn bursts(&self) -> Result<[Option<u32>; 2], OptionsError> {
        let mut bursts = [None; 2];
        for (burst, text) in bursts.iter_mut().zip(self.split_pair()) {
            if !text.is_empty() {
                let calls = self.part(
                    text,
                    0,
                    u32::MAX,
                    "local calls, and after a comma those of the server",
                )?;
                *burst = Some(calls).filter(|calls| *calls > 0);
            }
        }
        Ok(bursts)
    }

    /// The intervals here and there: ms, or with a letter ms, s or µs (`u`).
    pub(super) fn intervals(&self) -> Result<[Option<Duration>; 2], OptionsError> {
        const EXPECTED: &str =
            "a local time such as 10, 500u or 1s, and after a comma that of the server";
        let mut intervals = [None; 2];
        for (interval, text) in intervals.iter_mut().zip(self.split_pair()) {
            if text.is_empty() {
                continue;
            }
            // up to an hour
            let number = u64::from(self.part(text, 1, 3_600_000, EXPECTED)?);
            *interval = Some(match text {
                text if text.contains('m') => Duration::from_millis(number),
                text if text.contains('u') => Duration::from_micros(number),
                text if text.contains('s') => Duration::from_secs(number.min(3600)),
                _ => Duration::from_millis(number),
            });
        }
        Ok(intervals)
    }

    pub(super) fn length(&self) -> Result<Length, OptionsError> {
        match size(self.1) {
            Some(units @ ..0) if units >= -(1 << 31) => Ok(Length::Units(units.unsigned_abs())),
            Some(..0) => self.wrong("a negative number of bytes or transactions up to 2^31"),
            Some(seconds) if (1..=i64::from(MAX_QUANTITY)).contains(&seconds) => {
                Ok(Length::Seconds(seconds as u32))
            }
            _ => self.wrong("seconds from 1 to 86400"),
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
            "TCP_NBRR" | "TCP_TRR" => {
                return self.wrong("TCP_RR or TCP_CRR; no package of netperf has these two either");
            }
            _ => {
                return self.wrong(
                    "one of TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, TCP_RR, TCP_CRR, TCP_CC, UDP_STREAM, UDP_RR, \
                     OMNI, TCP_MSS, LOC_CPU, REM_CPU, UUID",
                );
            }
        })
    }

    pub(super) fn question(&self) -> Option<Question> {
        match self.1.to_ascii_uppercase().as_str() {
            "TCP_MSS" => Some(Question::Mss),
            "LOC_CPU" => Some(Question::CpuRate { far: false }),
            "REM_CPU" => Some(Question::CpuRate { far: true }),
            "UUID" => Some(Question::Uuid),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_size_reads_back(number in 0_i64..1 << 20, unit in "[KMGkmg]?") {
            let factor = match unit.as_str() {
                "K" => 1 << 10, "M" => 1 << 20, "G" => 1 << 30,
                "k" => 1000, "m" => 1_000_000, "g" => 1_000_000_000, _ => 1,
            };
            prop_assert_eq!(size(&format!("{number}{unit}")), Some(number * factor));
        }
    }

    #[test]
    fn a_number_is_read_as_by_atoi() {
        for (text, expected) in [
            ("80000:80000", Some(80_000)),
            ("1400b", Some(1400)),
            (" +64KB", Some(64 << 10)),
            ("-2M", Some(-(2 << 20))),
            ("1.5", Some(1)),
            ("K", None),
            ("-", None),
            ("", None),
            ("9g9G9M", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
