//! Bytes, bit rates, durations and percentages as people write them.
//!
//! Sizes take IEC units (`32 KiB`) and, for what is sold in them, SI units (`1500 B`, `64 kB`).
//! A bare number is bytes. Rates are bits per second with SI units (`10 Gbit/s`, `155.52 Mbit/s`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nearest::did_you_mean;

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// There is no number at the start.
    #[error("\"{given}\" does not begin with a number; expected a value such as {example}")]
    NoNumber {
        /// What was given.
        given: String,
        /// A value that would be right.
        example: &'static str,
    },
    /// There is no unit, and the quantity needs one.
    #[error("\"{given}\" has no unit; expected a value such as {example}")]
    NoUnit {
        /// What was given.
        given: String,
        /// A value that would be right.
        example: &'static str,
    },
    /// The unit is not one of the known ones.
    #[error("unknown unit \"{unit}\" in \"{given}\"; expected one of {expected}{hint}")]
    UnknownUnit {
        /// What was given.
        given: String,
        /// The part taken for the unit.
        unit: String,
        /// The valid units, separated by commas.
        expected: String,
        /// A `did you mean` tail or nothing.
        hint: String,
    },
    /// The value is too small or too large.
    #[error("\"{given}\" is out of range; {range}")]
    OutOfRange {
        /// What was given.
        given: String,
        /// What would be right.
        range: &'static str,
    },
}

fn number_and_factor(
    given: &str,
    units: &[(&str, f64)],
    example: &'static str,
) -> Result<f64, UnitError> {
    let text = given.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let digits: String = text[..end].chars().filter(|c| *c != '_').collect();
    let number: f64 =
        digits.parse().map_err(|_| UnitError::NoNumber { given: given.to_owned(), example })?;
    let unit = text[end..].trim();
    let factor = units
        .iter()
        // case counts: a b is a bit and a B a byte
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| {
            if unit.is_empty() {
                return UnitError::NoUnit { given: given.to_owned(), example };
            }
            let names: Vec<&str> =
                units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
            UnitError::UnknownUnit {
                given: given.to_owned(),
                unit: unit.to_owned(),
                expected: names.join(", "),
                hint: did_you_mean(unit, names.iter().copied()),
            }
        })?;
    Ok(number * factor)
}

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

const BYTE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    // iperf3 and netperf write a bare K or k for 1024
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("k", 1024.0),
    ("m", 1_048_576.0),
    ("g", 1_073_741_824.0),
];

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(given: &str) -> Result<Self, UnitError> {
        let bytes = number_and_factor(given, BYTE_UNITS, "\"32 KiB\"")?;
        if bytes.fract() != 0.0 || bytes > (1u64 << 53) as f64 {
            return Err(UnitError::OutOfRange {
                given: given.to_owned(),
                range: "expected a whole number of bytes below 2^53",
            });
        }
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A rate in bits per second. ATM line rates are not whole megabits, so the unit is one bit.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(pub f64);

const RATE_UNITS: &[(&str, f64)] = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("Tbit/s", 1e12),
    ("Mb/s", 1e6),
    ("Gb/s", 1e9),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
];

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(given: &str) -> Result<Self, UnitError> {
        let rate = number_and_factor(given, RATE_UNITS, "\"10 Gbit/s\"")?;
        if rate <= 0.0 {
            return Err(UnitError::OutOfRange {
                given: given.to_owned(),
                range: "expected a rate above zero",
            });
        }
        Ok(Self(rate))
    }
}

impl fmt::Display for BitRate {
    /// Four significant digits, as the field prints rates: `941.5 Mb/s`, `9.415 Gb/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            r if r >= 999.95e6 => (r / 1e9, "Gb/s"),
            r if r >= 999.95e3 => (r / 1e6, "Mb/s"),
            r if r >= 999.95 => (r / 1e3, "kb/s"),
            r => (r, "b/s"),
        };
        let decimals = match value {
            v if v >= 99.995 => 1,
            v if v >= 9.9995 => 2,
            _ => 3,
        };
        write!(f, "{value:.decimals$} {unit}")
    }
}

const TIME_UNITS: &[(&str, f64)] = &[
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("min", 60.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Reads a duration such as `2 s`, `1.5 min` or `300 ms`. A bare number is refused.
pub fn parse_duration(given: &str) -> Result<Duration, UnitError> {
    let mut seconds = 0.0;
    // "4 min 30 s" is read as the sum of its parts
    let mut rest = given.trim();
    if rest.is_empty() {
        return Err(UnitError::NoNumber { given: given.to_owned(), example: "\"2 s\"" });
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| c.is_alphabetic()).unwrap_or(rest.len());
        let unit_end = rest[unit_at..]
            .find(|c: char| !c.is_alphabetic())
            .map_or(rest.len(), |length| unit_at + length);
        seconds += number_and_factor(&rest[..unit_end], TIME_UNITS, "\"2 s\"")?;
        rest = rest[unit_end..].trim_start();
    }
    if seconds > 366.0 * 86400.0 {
        return Err(UnitError::OutOfRange {
            given: given.to_owned(),
            range: "expected at most one year",
        });
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Writes a duration for people: `4 min 30 s`, `2 s`, `300 ms`.
pub fn format_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    if milliseconds < 10_000 && !milliseconds.is_multiple_of(1000) {
        return format!("{:.1} s", duration.as_secs_f64());
    }
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Reads `2.5 %` as the fraction 0.025.
pub fn parse_percent(given: &str) -> Result<f64, UnitError> {
    number_and_factor(given, &[("%", 0.01)], "\"2.5 %\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_iec_and_si_units() {
        for (text, bytes) in [
            ("1500", 1500),
            ("1500 B", 1500),
            ("32 KiB", 32768),
            ("32K", 32768),
            ("64 kB", 64000),
            ("1.5 MiB", 1_572_864),
            ("65_536", 65536),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn suggests_the_nearest_unit() {
        let error = "32 KIBB".parse::<ByteSize>().unwrap_err();
        assert!(error.to_string().contains("did you mean \"KiB\""), "{error}");
        assert!("KiB".parse::<ByteSize>().is_err());
        assert!("0.3 B".parse::<ByteSize>().is_err());
        assert!("-5 B".parse::<ByteSize>().is_err());
        assert!("9 kb".parse::<ByteSize>().is_err());
    }

    #[test]
    fn rates_need_a_unit() {
        assert_eq!("155.52 Mbit/s".parse(), Ok(BitRate(155.52e6)));
        assert_eq!("10G".parse(), Ok(BitRate(10e9)));
        assert!("10".parse::<BitRate>().is_err());
        assert!("10 GB/s".parse::<BitRate>().is_err());
        assert!("0 Gbit/s".parse::<BitRate>().is_err());
    }

    #[test]
    fn rates_print_four_digits() {
        assert_eq!(BitRate(941.482e6).to_string(), "941.5 Mb/s");
        assert_eq!(BitRate(9.4148e9).to_string(), "9.415 Gb/s");
        assert_eq!(BitRate(24.83e9).to_string(), "24.83 Gb/s");
        assert_eq!(BitRate(999.99e6).to_string(), "1.000 Gb/s");
    }

    #[test]
    fn durations_add_their_parts() {
        assert_eq!(parse_duration("2 s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("4 min 30 s"), Ok(Duration::from_secs(270)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert!(parse_duration("2").is_err());
        assert!(parse_duration("").is_err());
        assert!(parse_duration("2 parsecs").is_err());
    }

    #[test]
    fn durations_print_and_read_back() {
        for (seconds, text) in
            [(0.3, "300 ms"), (2.0, "2 s"), (2.5, "2.5 s"), (270.0, "4 min 30 s")]
        {
            assert_eq!(format_duration(Duration::from_secs_f64(seconds)), text);
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)));
        }
    }

    #[test]
    fn percent_is_a_fraction() {
        assert!((parse_percent("2.5 %").unwrap() - 0.025).abs() < 1e-12);
        assert!(parse_percent("2.5").is_err());
    }
}
