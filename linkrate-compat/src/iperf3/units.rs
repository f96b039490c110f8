//! Octets and rates in the four places that iperf3 has for them.

/// The unit of rates (`-f`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Bits, with the prefix that fits.
    #[default]
    Adaptive,
    /// Always this power of 1,000 bits.
    Bits(u32),
    /// Octets, with the prefix that fits.
    AdaptiveBytes,
    /// Always this power of 1,024 octets.
    Bytes(u32),
}

impl Format {
    /// The unit that a letter of `-f` stands for; upper case stands for octets.
    #[must_use]
    pub fn of(letter: char) -> Option<Self> {
        let power = |lower| "kmgt".find(lower).map(|place| place as u32 + 1);
        match letter {
            'a' => Some(Self::Adaptive),
            'A' => Some(Self::AdaptiveBytes),
            _ if letter.is_ascii_lowercase() => power(letter).map(Self::Bits),
            _ => power(letter.to_ascii_lowercase()).map(Self::Bytes),
        }
    }
}

/// Octets, or octets a second, in a unit.
pub(super) fn unit(bytes: f64, format: Format) -> String {
    let is_bits = matches!(format, Format::Adaptive | Format::Bits(_));
    let (number, step): (f64, f64) = if is_bits { (bytes * 8.0, 1000.0) } else { (bytes, 1024.0) };
    let power = match format {
        Format::Bits(power) | Format::Bytes(power) => power.min(4),
        Format::Adaptive | Format::AdaptiveBytes => {
            (0..4).find(|power| number < step.powi(*power as i32 + 1)).unwrap_or(4)
        }
    };
    let scaled = number / step.powi(power as i32);
    let prefix = ["", "K", "M", "G", "T"][power as usize];
    let word = if is_bits { "bit" } else { "Byte" };
    // each bound is where rounding would need one more place
    let places = match scaled {
        small if small < 9.995 => 2,
        middle if middle < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:4.places$} {prefix}{word}")
}

/// A share of 100 with two digits; a hundred is a hundred.
pub(super) fn percent(share: f64) -> String {
    if share >= 99.5 {
        return format!("{share:.0}");
    }
    if share < 0.0001 {
        return "0".to_owned();
    }
    let before_point = share.log10().floor() as i32 + 1;
    let places = (2 - before_point).max(0) as usize;
    let text = format!("{share:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_four_places() {
        for (bytes, expected) in [
            (0.0, "0.00 Byte"),
            (1023.0, "1023 Byte"),
            (131_072.0, " 128 KByte"),
            (895.4 * 1024.0, " 895 KByte"),
            (5.0 * 1024.0 * 1024.0, "5.00 MByte"),
            (2_445_803_520.0, "2.28 GByte"),
        ] {
            assert_eq!(unit(bytes, Format::AdaptiveBytes), expected);
        }
        assert_eq!(unit(131_072.0, Format::Adaptive), "1.05 Mbit");
        assert_eq!(unit(2.35e9, Format::Adaptive), "18.8 Gbit");
        assert_eq!(unit(2.35e9, Format::Bits(2)), "18800 Mbit");
        assert_eq!(unit(1048576.0, Format::Bytes(1)), "1024 KByte");
        for (letter, format) in [
            ('k', Some(Format::Bits(1))),
            ('T', Some(Format::Bytes(4))),
            ('a', Some(Format::Adaptive)),
            ('x', None),
            ('ä', None),
        ] {
            assert_eq!(Format::of(letter), format);
        }
    }

    #[test]
    fn shares_have_two_digits() {
        for (share, expected) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (1.25, "1.2"),
            (12.4, "12"),
            (99.7, "100"),
            (100.0, "100"),
            (50.0, "50"),
            (0.5, "0.5"),
        ] {
            assert_eq!(percent(share), expected);
        }
    }
}
