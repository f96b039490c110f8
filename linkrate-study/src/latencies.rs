//! The latencies of a run, as a histogram with three significant digits: its figures, and the form in which it is
//! stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use linkrate_model::latency::{Latency, Percentile};
use linkrate_stats::pool::Pool;

/// The figures of a histogram of nanoseconds; `None` where it is empty.
pub fn figures(histogram: &Histogram<u64>) -> Option<Latency> {
    let pool = Pool::of(&[steps(histogram)]);
    let reported = |percentile: Percentile| {
        let is_reported = percentile.is_reported(histogram.len());
        is_reported.then(|| pool.quantile(percentile.quantile())).flatten()
    };
    (!histogram.is_empty()).then(|| Latency {
        count: histogram.len(),
        mean_ns: histogram.mean(),
        min_ns: histogram.min(),
        p50_ns: reported(Percentile::P50),
        p90_ns: reported(Percentile::P90),
        p99_ns: reported(Percentile::P99),
        p99_9_ns: reported(Percentile::P99_9),
        p99_99_ns: reported(Percentile::P99_99),
        max_ns: histogram.max(),
        open_share: 0.0,
    })
}

/// The share of what began, 0 to 1, that took longer than anything that ended: the end of Kaplan and Meier's estimate.
/// `all` are latencies and the ages of what was `open`, both ascending as (ns, count).
pub fn open_share(all: &[(u64, u64)], open: &[(u64, u64)]) -> f64 {
    let mut left = all.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let mut share = 1.0;
    let mut ages = open.iter().peekable();
    for (ns, count) in all {
        let mut open = 0_u64;
        while let Some((_, more)) = ages.next_if(|(age_ns, _)| age_ns <= ns) {
            open = open.saturating_add(*more);
        }
        share *= 1.0 - count.saturating_sub(open) as f64 / left.max(1) as f64;
        left = left.saturating_sub(*count);
    }
    if all.is_empty() { 0.0 } else { share }
}

/// How often each value occurred, ascending. A value is the largest of those that the histogram takes for equal.
pub fn steps(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let steps = histogram.iter_recorded();
    steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// The histogram as HdrHistogram logs have it: V2, compressed, as base64. `None` where it is empty.
pub fn encoded(histogram: &Histogram<u64>) -> Option<Box<str>> {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes).ok();
    written.filter(|_| !histogram.is_empty()).map(|_| STANDARD.encode(bytes).into())
}

/// The histogram of such a text; `None` if the text is none.
pub fn decoded(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut &bytes[..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(steps: &[(u64, u64)]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for (value, count) in steps {
            histogram.record_n(*value, *count).unwrap();
        }
        histogram
    }

    #[test]
    fn figures_are_of_all_values() {
        let latency = figures(&histogram(&[(1000, 980), (5000, 10), (9000, 10)])).unwrap();
        assert_eq!((latency.count, latency.min_ns), (1000, 1000));
        assert!(latency.p50_ns.unwrap().abs_diff(1000) <= 1);
        assert!(latency.p99_ns.unwrap().abs_diff(5000) <= 5);
        assert!(latency.max_ns.abs_diff(9000) <= 9);
        assert_eq!((figures(&histogram(&[])), encoded(&histogram(&[]))), (None, None));
    }

    /// One of 6,000 transactions in a stall of 100 ms: p99.99 would be the largest of them.
    #[test]
    fn a_percentile_without_ten_values_beyond_it_is_absent() {
        let latency = figures(&histogram(&[(150_000, 5999), (100_000_000, 1)])).unwrap();
        assert!(latency.p50_ns.is_some() && latency.p90_ns.is_some() && latency.p99_ns.is_some());
        assert_eq!((latency.p99_9_ns, latency.p99_99_ns), (None, None));
        let latency = figures(&histogram(&[(150_000, 19)])).unwrap();
        assert_eq!((latency.p50_ns, latency.max_ns.abs_diff(150_000) < 150), (None, true));
    }

    #[test]
    fn what_outlived_all_that_ended_is_a_share() {
        let near = |all: &[(u64, u64)], open: &[(u64, u64)], expected: f64| {
            let share = open_share(all, open);
            assert!((share - expected).abs() < 1e-12, "{share} {expected}");
        };
        near(&[], &[], 0.0);
        near(&[(5, 90), (9, 10)], &[], 0.0);
        // files of a backup that never ended
        near(&[(5, 20), (9, 4)], &[(5, 20), (9, 4)], 1.0);
        // a stall over the closing edge
        near(&[(5, 95), (900, 5)], &[(900, 5)], 0.05);
        // what began just before the close is as all the others
        near(&[(4, 10), (5, 90)], &[(4, 10)], 0.0);
        // 10 of 100 leave 90, of which one is left
        near(&[(4, 10), (5, 89), (9, 1)], &[(4, 10), (9, 1)], 1.0 / 90.0);
    }

    #[test]
    fn a_kept_histogram_reads_back() {
        let kept = histogram(&[(1000, 98), (5000, 1), (59_000_000_000, 1)]);
        let text = encoded(&kept).unwrap();
        assert_eq!(decoded(&text), Some(kept));
        assert!(text.len() < 400, "{} characters", text.len());
        assert_eq!((decoded("no base64!"), decoded("AAAA")), (None, None));
    }
}
