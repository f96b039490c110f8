//! Numbers with suffixes: K, M, G and T are powers of 1,024 for octets and powers of 1,000 for rates.

/// The step from one suffix to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// 1,024: octets and blocks.
    Binary,
    /// 1,000: bit/s.
    Decimal,
}

/// The largest number that a document has exactly: 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A text that is no number with a suffix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}, expected a number with K, M, G, T or no suffix")]
pub struct NoQuantity(String);

/// Reads `10`, `1.5M`, `64k`. A fraction of an octet is dropped. Fails for negative numbers, and those above 2^53.
pub fn quantity(text: &str, base: Base) -> Result<u64, NoQuantity> {
    let step: f64 = if base == Base::Binary { 1024.0 } else { 1000.0 };
    let wrong = || NoQuantity(text.to_owned());
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let scaled = number * step.powi(power);
    if (0.0..=MAX_EXACT).contains(&scaled) { Ok(scaled as u64) } else { Err(wrong()) }
}

/// Reads a rate and the messages of a burst behind it, from 1 to 1,000 of them: `10M`, `10M/5`.
pub fn rate(text: &str) -> Result<(u64, u32), NoQuantity> {
    let (rate, burst) = text.split_once('/').unwrap_or((text, "1"));
    let burst = burst.parse().ok().filter(|burst| (1..=1000).contains(burst));
    let burst = burst.ok_or_else(|| NoQuantity(text.to_owned()))?;
    Ok((quantity(rate, Base::Decimal)?, burst))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes_are_powers() {
        for (text, binary, decimal) in [
            ("0", 0, 0),
            ("128K", 131_072, 128_000),
            ("1.5m", 1_572_864, 1_500_000),
            ("2G", 2 << 30, 2_000_000_000),
            ("1t", 1 << 40, 1_000_000_000_000),
            ("0.5", 0, 0),
        ] {
            assert_eq!(quantity(text, Base::Binary), Ok(binary), "{text}");
            assert_eq!(quantity(text, Base::Decimal), Ok(decimal), "{text}");
        }
        assert_eq!(rate("20M/10"), Ok((20_000_000, 10)));
        for wrong in ["", "K", "-1", "1KB", "1x", "inf", "nan", "9999999T", "1e400"] {
            assert!(quantity(wrong, Base::Binary).is_err(), "{wrong}");
        }
        for wrong in ["10M/", "10M/0", "10M/1001", "/5"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in any::<String>()) {
            let _ = quantity(&text, Base::Binary);
            let _ = rate(&text);
        }

        #[test]
        fn whole_numbers_are_exact(number in 0_u64..1 << 53) {
            prop_assert_eq!(quantity(&number.to_string(), Base::Decimal), Ok(number));
        }
    }
}
