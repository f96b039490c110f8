//! Figures as people read them: significant digits, a unit, an interval.
//!
//! Every figure has three significant digits, or four when its interval is so narrow that the
//! fourth says something. The interval is printed as its half-width: relative to the mean for
//! rates and costs (`13.2 Gb/s ±1.8 %`), in percentage points for percentages (`98.7 % ±0.4 pp`),
//! since a per cent of a per cent would be misread.

use linkrate_model::latency::{LatencyFigures, Percentile};
use linkrate_study::quantity::{Interval, Quantity, Unit};
use linkrate_study::store::directory::minute_stamp;

/// The mark for a figure that does not exist.
pub const ABSENT: &str = "–";

/// A half-width below which the fourth digit is worth printing, as a fraction of the mean.
const NARROW: f64 = 0.003;

/// `value` rounded to `digits` significant digits, with commas between thousands from 10,000 on.
pub fn significant(value: f64, digits: u32) -> String {
    fixed(value, decimals(value, digits), digits)
}

/// Decimals that `value` needs for `digits` significant digits; negative left of the point.
fn decimals(value: f64, digits: u32) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let needed = |value: f64| digits as i32 - 1 - value.abs().log10().floor() as i32;
    // 9.999 rounds to 10.0, which has one decimal less
    let first = needed(value);
    needed(round_to(value, first)).min(first)
}

fn round_to(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

fn fixed(value: f64, decimals: i32, digits: u32) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    if decimals >= 0 {
        // beyond this many decimals a figure is noise
        let places = decimals.min(digits as i32 + 3) as usize;
        return signed(format!("{value:.places$}"));
    }
    signed(grouped(round_to(value, decimals)))
}

/// A whole number with commas between thousands from 10,000 on.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if digits.len() > 4 && index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 && out != "0" { format!("-{out}") } else { out }
}

/// A real minus sign instead of the hyphen.
fn signed(text: String) -> String {
    text.replace('-', "−")
}

/// The divisor of a figure, and the unit of the quotient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Divisor of the stored value.
    pub divisor: f64,
    /// The unit of the quotient, as people write it.
    pub unit: &'static str,
}

/// Bytes are counted as in µs/KB, whose KB is 1024 of them.
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

impl Scale {
    /// The scale that suits values of a `unit` up to `largest`.
    pub fn of(unit: Unit, largest: f64) -> Self {
        let scale = |divisor, unit| Self { divisor, unit };
        match unit {
            // the limits are those at which three digits would round up to 1000
            Unit::BitsPerSecond => match largest.abs() {
                rate if rate >= 999.5e9 => scale(1e12, "Tb/s"),
                rate if rate >= 999.5e6 => scale(1e9, "Gb/s"),
                rate if rate >= 999.5e3 => scale(1e6, "Mb/s"),
                rate if rate >= 999.5 => scale(1e3, "kb/s"),
                _ => scale(1.0, "b/s"),
            },
            Unit::MicrosecondsPerKb => scale(1.0, "µs/KB"),
            Unit::MicrosecondsPerTransaction => scale(1.0, "µs/transaction"),
            Unit::TransactionsPerSecond => scale(1.0, "transactions/s"),
            Unit::TransfersPerSecond => scale(1.0, "transfers/s"),
            Unit::FilesPerSecond => scale(1.0, "files/s"),
            Unit::Percent => scale(1.0, "%"),
            Unit::Nanoseconds => scale(1.0, "ns"),
            Unit::Frames => scale(1.0, "frames"),
            Unit::Bytes => match largest.abs() {
                bytes if bytes >= 999.5 * MIB => scale(1024.0 * MIB, "GiB"),
                bytes if bytes >= 999.5 * KIB => scale(MIB, "MiB"),
                bytes if bytes >= 999.5 => scale(KIB, "KiB"),
                _ => scale(1.0, "B"),
            },
            Unit::Ratio => scale(1.0, ""),
        }
    }
}

/// Half-width of the interval in the unit of its values: the longer side, so that an interval
/// that is not symmetric is never flattered.
pub fn half_width(interval: &Interval) -> Option<f64> {
    let (low, high) = (interval.low?, interval.high?);
    Some((interval.mean - low).max(high - interval.mean).max(0.0))
}

fn digits_for(interval: &Interval) -> u32 {
    match half_width(interval) {
        Some(half) if half < NARROW * interval.mean.abs() => 4,
        _ => 3,
    }
}

/// The mean with its unit: `13.2 Gb/s`.
pub fn mean(quantity: &Quantity) -> String {
    let scale = Scale::of(quantity.unit, quantity.interval.mean);
    format!("{} {}", mean_without_unit(quantity), scale.unit)
}

/// The mean with the short unit of a table whose heads say "transaction" often enough:
/// `24,100/s`, `17.1 µs each`.
pub fn brief_mean(quantity: &Quantity) -> String {
    let value = mean_without_unit(quantity);
    match quantity.unit {
        Unit::TransfersPerSecond | Unit::FilesPerSecond if quantity.interval.mean == 0.0 => {
            "none ended".to_owned()
        }
        Unit::TransactionsPerSecond | Unit::TransfersPerSecond => format!("{value}/s"),
        Unit::MicrosecondsPerTransaction => format!("{value} µs each"),
        _ => mean(quantity),
    }
}

/// The mean alone, in the scale that [`mean`] would choose.
pub fn mean_without_unit(quantity: &Quantity) -> String {
    let scale = Scale::of(quantity.unit, quantity.interval.mean);
    let value = quantity.interval.mean / scale.divisor;
    let digits = digits_for(&quantity.interval);
    fixed(value, places(quantity.unit, value, digits), digits)
}

/// Decimals of a figure: as many as its digits need, but a percentage never has more than one
/// from 10 on and two below, or idle CPUs would look measured to the microsecond.
fn places(unit: Unit, value: f64, digits: u32) -> i32 {
    match decimals(value, digits) {
        places if unit != Unit::Percent => places,
        places if value.abs() >= 9.995 => places.min(1),
        places => places.min(2),
    }
}

/// How much shorter one side of an interval is than the other where both are told.
const LOPSIDED: f64 = 0.5;

/// The half-width of the interval: `±1.8 %`, or `±0.4 pp` for a percentage. Where one side is much shorter, both:
/// `−1.8/+0.2 %`. `None` without an interval.
pub fn margin(quantity: &Quantity) -> Option<String> {
    let Interval { mean, low, high } = quantity.interval;
    let sides = [mean - low?, high? - mean].map(|side| side.max(0.0));
    let (scale, unit) = match quantity.unit {
        Unit::Percent => (1.0, "pp"),
        _ if mean.abs() > 0.0 => (100.0 / mean.abs(), "%"),
        _ => return None,
    };
    let [down, up] = sides.map(|side| side * scale);
    let longer = down.max(up);
    // nor does a CPU have more than all of its time
    let is_cut = quantity.unit == Unit::Percent && mean + longer > 100.0;
    Some(match down.min(up) < LOPSIDED * longer || is_cut && down > up {
        true => format!("−{}/+{} {unit}", small(down), small(up)),
        false => format!("±{} {unit}", small(longer)),
    })
}

/// The mean with its unit and the half-width, where there is one: `13.2 Gb/s ±1.8 %`.
pub fn with_margin(quantity: &Quantity) -> String {
    behind(mean(quantity), margin(quantity))
}

/// The same with the short unit of a table.
pub fn brief_with_margin(quantity: &Quantity) -> String {
    behind(brief_mean(quantity), margin(quantity))
}

fn behind(mean: String, margin: Option<String>) -> String {
    match margin {
        Some(margin) => format!("{mean} {margin}"),
        None => mean,
    }
}

/// A half-width: one decimal below 10, two below 0.1, and no bare zero when there is some width.
/// Above 1000 it says no more than that.
fn small(value: f64) -> String {
    match value {
        v if v > 1000.0 => ">1000".to_owned(),
        v if v >= 9.95 => format!("{v:.0}"),
        v if v >= 0.095 => format!("{v:.1}"),
        v if v >= 0.005 => format!("{v:.2}"),
        v if v > 0.0 => "<0.01".to_owned(),
        _ => "0".to_owned(),
    }
}

/// The ends of the interval with their unit: `13.0 to 13.4 Gb/s`. `None` without one.
pub fn ends(quantity: &Quantity) -> Option<String> {
    let (low, high) = (quantity.interval.low?, quantity.interval.high?);
    let scale = Scale::of(quantity.unit, quantity.interval.mean);
    let digits = digits_for(&quantity.interval);
    // both ends with the decimals of the mean, so that they line up with it
    let places = places(quantity.unit, quantity.interval.mean / scale.divisor, digits);
    let end = |value: f64| fixed(value / scale.divisor, places, digits);
    Some(format!("{} to {} {}", end(low), end(high), scale.unit))
}

/// The mean with the unit that suits it, and counts as whole numbers: `1.98 s`, `1,204`, `3.1 MB`.
pub fn plain(quantity: &Quantity) -> String {
    match quantity.unit {
        Unit::Nanoseconds => duration(quantity.interval.mean),
        Unit::Frames => grouped(quantity.interval.mean.round()),
        Unit::Bytes => amount(quantity.interval.mean),
        _ => mean(quantity),
    }
}

/// Bytes in the unit that suits them: `3.10 MB`.
pub fn amount(bytes: f64) -> String {
    let scale = Scale::of(Unit::Bytes, bytes);
    format!("{} {}", significant(bytes / scale.divisor, 3), scale.unit)
}

/// Nanoseconds in the unit that suits them: `21.3 µs`.
pub fn duration(nanoseconds: f64) -> String {
    let (divisor, unit) = match nanoseconds {
        ns if ns >= 999.5e6 => (1e9, "s"),
        ns if ns >= 999.5e3 => (1e6, "ms"),
        ns if ns >= 999.5 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    format!("{} {unit}", significant(nanoseconds / divisor, 3))
}

/// A percentile of latency in the unit that suits it, or a bound where it is among what did not end: `> 1.31 s`; `None`
/// where it is not told.
pub fn percentile(latency: &LatencyFigures, percentile: Percentile) -> Option<String> {
    if let Some(ns) = percentile.of(latency) {
        return Some(duration(ns as f64));
    }
    latency.count.filter(|count| percentile.is_reported(*count))?;
    Some(format!("> {}", duration(latency.at_least_ns? as f64)))
}

/// Half of the interval of a percentile, relative to it: `±1.2 %`; `None` without an interval.
pub fn percentile_margin(latency: &LatencyFigures, percentile: Percentile) -> Option<String> {
    let [low, high] = latency.intervals?.of(percentile)?.map(|ns| Some(ns as f64));
    let interval = Interval { mean: percentile.of(latency)? as f64, low, high };
    margin(&Quantity { interval, unit: Unit::Nanoseconds })
}

/// Nanoseconds without digits that only fill up, for labels of axes: `20 µs`, `2.5 ms`.
pub fn duration_label(nanoseconds: f64) -> String {
    let text = duration(nanoseconds);
    let Some((digits, unit)) = text.split_once(' ') else { return text };
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits} {unit}")
}

/// The text with figures and their units on one line: the blank between them does not break.
pub fn unbroken(text: &str) -> String {
    const UNITS: [&str; 14] = [
        "%", "pp", "µs", "ms", "ns", "s", "b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "B", "KiB", "MiB",
    ];
    let mut out = String::with_capacity(text.len());
    let mut after_digit = false;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let unit = || {
            let word = rest.as_str().split([' ', ',', '.', ')', ';', ':']).next().unwrap_or("");
            UNITS.contains(&word) || word.starts_with("µs/")
        };
        out.push(if c == ' ' && after_digit && unit() { '\u{a0}' } else { c });
        after_digit = c.is_ascii_digit();
    }
    out
}

/// `2026-11-21 15:12 UTC`.
pub fn moment(unix_ms: u64) -> String {
    let stamp = minute_stamp(unix_ms);
    let part = |range: std::ops::Range<usize>| stamp.get(range).unwrap_or_default();
    // the year may have more digits one day, so the parts are counted from the end
    let end = stamp.len();
    format!(
        "{}-{}-{} {}:{} UTC",
        part(0..end.saturating_sub(9)),
        part(end.saturating_sub(9)..end.saturating_sub(7)),
        part(end.saturating_sub(7)..end.saturating_sub(5)),
        part(end.saturating_sub(4)..end.saturating_sub(2)),
        part(end.saturating_sub(2)..end),
    )
}

/// A fraction as a percentage: 0.95 is `95 %`, 0.025 is `2.5 %`.
pub fn percent(fraction: f64) -> String {
    // rounded first: 0.07 * 100 is 7.000000000000001
    format!("{} %", (fraction * 1e6).round() / 1e4)
}

/// A ratio as the change it means: 0.29 is −71 %, with the ends of its interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `−71 %`.
    pub mean: String,
    /// `−73 to −69 %`; absent without an interval.
    pub ends: Option<String>,
}

/// How a ratio is printed as a change in per cent. The upper end of an interval so wide that it
/// says nothing of a size is cut: `−100 to > +1000 %`.
pub fn change(ratio: &Interval) -> Change {
    let points = |ratio: f64| (ratio - 1.0) * 100.0;
    let width = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => Some(points(high) - points(low)),
        _ => None,
    };
    // enough decimals that the ends of a narrow interval do not read the same
    let places = match (width, points(ratio.mean).abs()) {
        (Some(width), _) if width < 0.2 => 2,
        (Some(width), _) if width < 2.0 => 1,
        (_, mean) if mean < 9.95 => 1,
        _ => 0,
    };
    Change {
        mean: format!("{} %", with_sign(points(ratio.mean), places)),
        ends: ratio.low.zip(ratio.high).map(|(low, high)| {
            let low = with_sign(points(low), places);
            match cut(ratio.mean, high) {
                Some(limit) => format!("{low} to > +{limit:.0} %"),
                None => format!("{low} to {} %", with_sign(points(high), places)),
            }
        }),
    }
}

/// [`change`] with as many digits as an eye compares: `−62 %` and ` (−66 to −58)`, empty without an interval.
pub fn brief_change(ratio: &Interval) -> (String, String) {
    let points = |ratio: f64| (ratio - 1.0) * 100.0;
    let places = if points(ratio.mean).abs() < 9.95 { 1 } else { 0 };
    // beyond that an end says no size
    let end = |ratio: f64| match points(ratio) {
        points if points > 999.0 => "> +999".to_owned(),
        points => with_sign(points, places),
    };
    let ends = ratio.low.zip(ratio.high);
    let ends = ends.map(|(low, high)| format!(" ({} to {})", end(low), end(high)));
    (format!("{} %", with_sign(points(ratio.mean), places)), ends.unwrap_or_default())
}

/// Changes from the least ratio to the largest: `−39 to −21 %`, or one where they read the same.
pub fn changes(low: f64, high: f64) -> String {
    let of = |mean| brief_change(&Interval { mean, low: None, high: None }).0;
    match (of(low), of(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{} to {high}", low.trim_end_matches(" %")),
    }
}

/// The change in per cent above which the upper end of an interval is not printed; `None` where it
/// is within ten times the mean, or below the limit, which then is a size of its own.
fn cut(mean: f64, high: f64) -> Option<f64> {
    let points = |ratio: f64| (ratio - 1.0) * 100.0;
    let mut limit = 1000.0;
    // not below the mean, which is printed beside it
    while limit < points(mean) && limit.is_finite() {
        limit *= 10.0;
    }
    (high > 10.0 * mean && points(high) > limit).then_some(limit)
}

/// A published figure with all the digits it was published with, up to five, and its unit.
pub fn published(value: f64, unit: Unit) -> String {
    let scale = Scale::of(unit, value);
    let digits = significant(value / scale.divisor, 5);
    let shortest = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits.as_str(),
    };
    format!("{shortest} {}", scale.unit)
}

/// A difference with its sign; `text` is from [`published`] or [`mean`].
pub fn difference(value: f64, text: String) -> String {
    if value > 0.0 { format!("+{text}") } else { text }
}

/// The size of a change without its sign, for sentences that say "lower" or "higher".
pub fn change_size(ratio: f64) -> String {
    let points = ((ratio - 1.0) * 100.0).abs();
    if points < 9.95 { format!("{points:.1}") } else { grouped(points) }
}

/// [`change_size`] of the upper end of an interval, which is cut as in [`change`].
pub fn upper_size(mean: f64, high: f64) -> String {
    match cut(mean, high) {
        Some(limit) => format!("more than {limit:.0}"),
        None => change_size(high),
    }
}

fn with_sign(value: f64, places: usize) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let size = format!("{:.places$}", value.abs());
    let zero = size.chars().all(|c| c == '0' || c == '.');
    match value {
        _ if zero => size,
        v if v < 0.0 => format!("−{size}"),
        _ => format!("+{size}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(mean: f64, half: Option<f64>, unit: Unit) -> Quantity {
        let interval = Interval { mean, low: half.map(|h| mean - h), high: half.map(|h| mean + h) };
        Quantity { interval, unit }
    }

    #[test]
    fn digits_are_significant_ones() {
        for (value, digits, text) in [
            (13.1999, 3, "13.2"),
            (9.999, 3, "10.0"),
            (0.998, 3, "0.998"),
            (0.9996, 3, "1.00"),
            (100.0, 3, "100"),
            (48213.0, 4, "48,210"),
            (1448.0, 4, "1448"),
            (0.04123, 3, "0.0412"),
            (0.0, 3, "0"),
            (-3.456, 3, "−3.46"),
            (1_234_567.0, 3, "1,230,000"),
            (f64::NAN, 3, ABSENT),
        ] {
            assert_eq!(significant(value, digits), text, "{value}");
        }
    }

    #[test]
    fn rates_choose_their_unit() {
        for (rate, text) in [
            (13.2e9, "13.2 Gb/s"),
            (941.4e6, "941 Mb/s"),
            (999.7e6, "1.00 Gb/s"),
            (12.0, "12.0 b/s"),
        ] {
            assert_eq!(mean(&quantity(rate, None, Unit::BitsPerSecond)), text);
        }
    }

    #[test]
    fn published_figures_keep_their_digits() {
        for (value, unit, text) in [
            (12.02e9, Unit::BitsPerSecond, "12.02 Gb/s"),
            (9.9e9, Unit::BitsPerSecond, "9.9 Gb/s"),
            (43e9, Unit::BitsPerSecond, "43 Gb/s"),
            (178.63e6, Unit::BitsPerSecond, "178.63 Mb/s"),
            (-3.95e6, Unit::BitsPerSecond, "−3.95 Mb/s"),
            (2.2, Unit::MicrosecondsPerKb, "2.2 µs/KB"),
            (12_000.0, Unit::TransactionsPerSecond, "12000 transactions/s"),
            (0.0, Unit::Percent, "0 %"),
        ] {
            assert_eq!(published(value, unit), text);
        }
        assert_eq!(difference(1.0, "1 Mb/s".to_owned()), "+1 Mb/s");
        assert_eq!(difference(-1.0, "−1 Mb/s".to_owned()), "−1 Mb/s");
    }

    #[test]
    fn margins_are_relative_except_for_percentages() {
        assert_eq!(
            margin(&quantity(10e9, Some(0.18e9), Unit::BitsPerSecond)).as_deref(),
            Some("±1.8 %")
        );
        assert_eq!(margin(&quantity(98.7, Some(0.4), Unit::Percent)).as_deref(), Some("±0.4 pp"));
        let full = Interval { mean: 88.3, low: Some(71.3), high: Some(100.0) };
        let full = Quantity { interval: full, unit: Unit::Percent };
        assert_eq!(margin(&full).as_deref(), Some("−17/+12 pp"));
        assert_eq!(
            margin(&quantity(10e9, Some(1.2e9), Unit::BitsPerSecond)).as_deref(),
            Some("±12 %")
        );
        assert_eq!(
            margin(&quantity(10e9, Some(1e5), Unit::BitsPerSecond)).as_deref(),
            Some("±<0.01 %")
        );
        assert_eq!(margin(&quantity(0.42, Some(0.05), Unit::Percent)).as_deref(), Some("±0.05 pp"));
        assert_eq!(
            margin(&quantity(1e9, Some(2e13), Unit::BitsPerSecond)).as_deref(),
            Some("±>1000 %")
        );
        assert_eq!(margin(&quantity(10e9, None, Unit::BitsPerSecond)), None);
        // an interval that ends at a limit
        let interval = Interval { mean: 1.87e9, low: Some(1.85e9), high: Some(1.883e9) };
        let cut = Quantity { interval, unit: Unit::BitsPerSecond };
        assert_eq!(margin(&cut).as_deref(), Some("±1.1 %"));
        let interval = Interval { high: Some(1.872e9), ..interval };
        let cut = Quantity { interval, unit: Unit::BitsPerSecond };
        assert_eq!(margin(&cut).as_deref(), Some("−1.1/+0.1 %"));
        assert_eq!(margin(&quantity(0.0, Some(0.0), Unit::MicrosecondsPerKb)), None);
    }

    #[test]
    fn prints_the_longer_side_of_an_uneven_interval() {
        let interval = Interval { mean: 10.0, low: Some(9.7), high: Some(10.5) };
        assert_eq!(
            margin(&Quantity { interval, unit: Unit::MicrosecondsPerKb }).as_deref(),
            Some("±5.0 %")
        );
    }

    #[test]
    fn a_narrow_interval_has_a_fourth_digit() {
        let narrow = quantity(941.48e6, Some(0.5e6), Unit::BitsPerSecond);
        assert_eq!(mean(&narrow), "941.5 Mb/s");
        assert_eq!(ends(&narrow).as_deref(), Some("941.0 to 942.0 Mb/s"));
    }

    #[test]
    fn percentages_keep_to_a_tenth() {
        for (percent, text) in [(99.84, "99.8 %"), (100.0, "100.0 %"), (0.4234, "0.42 %")] {
            assert_eq!(mean(&quantity(percent, Some(0.01), Unit::Percent)), text);
        }
    }

    #[test]
    fn ends_share_the_decimals_of_the_mean() {
        let near_ten = quantity(9.9e9, Some(0.3e9), Unit::BitsPerSecond);
        assert_eq!(ends(&near_ten).as_deref(), Some("9.60 to 10.20 Gb/s"));
    }

    #[test]
    fn changes_have_a_sign_and_distinct_ends() {
        let ratio = |mean, low, high| Interval { mean, low: Some(low), high: Some(high) };
        let wide = change(&ratio(0.29, 0.27, 0.31));
        assert_eq!((wide.mean.as_str(), wide.ends.as_deref()), ("−71 %", Some("−73 to −69 %")));
        let narrow = change(&ratio(0.29, 0.288, 0.292));
        assert_eq!(narrow.ends.as_deref(), Some("−71.2 to −70.8 %"));
        assert_eq!(change(&ratio(1.0, 0.99, 1.01)).mean, "0.0 %");
        // as two runs give it
        let ends = |mean, high| change(&ratio(mean, 1e-9, high)).ends;
        assert_eq!(ends(1.13, 4_774_063.7).as_deref(), Some("−100 to > +1000 %"));
        assert_eq!(ends(1.13, f64::INFINITY).as_deref(), Some("−100 to > +1000 %"));
        assert_eq!(ends(51.0, 4_774_063.7).as_deref(), Some("−100 to > +10000 %"));
        assert_eq!(ends(5.0, 12.0).as_deref(), Some("−100 to +1100 %"));
        let far = change(&ratio(25.0, 24.0, 26.0));
        assert_eq!(far.ends.as_deref(), Some("+2300 to +2500 %"));
        let single = change(&Interval { mean: 2.164, low: None, high: None });
        assert_eq!((single.mean.as_str(), single.ends), ("+116 %", None));
    }

    #[test]
    fn figures_and_units_stay_together() {
        let text = unbroken("reduces by 64 % (62 to 66 %), 2.2 µs/KB or 3 runs");
        assert_eq!(text, "reduces by 64\u{a0}% (62 to 66\u{a0}%), 2.2\u{a0}µs/KB or 3 runs");
    }

    #[test]
    fn durations_and_percentages() {
        assert_eq!(duration(21_340.0), "21.3 µs");
        assert_eq!(duration(999_900.0), "1.00 ms");
        assert_eq!(duration(812.0), "812 ns");
        assert_eq!(duration_label(20_000.0), "20 µs");
        assert_eq!(duration_label(100_000.0), "100 µs");
        assert_eq!(duration_label(2_500_000.0), "2.5 ms");
        assert_eq!(percent(0.95), "95 %");
        assert_eq!(percent(0.07), "7 %");
        assert_eq!(percent(0.025), "2.5 %");
    }
}
