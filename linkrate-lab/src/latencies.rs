//! The latencies of a run, as the agents report them.

use hdrhistogram::Histogram;
use linkrate_agent::flow::latency_histogram;
use linkrate_model::measurement::Latency;
use linkrate_study::latencies;

/// Figures of latencies that are given as (ns, count), and their histogram as it is stored; neither where there are
/// none.
pub fn of_steps(steps: &[(u64, u64)]) -> (Option<Latency>, Option<Box<str>>) {
    let histogram = histogram(steps);
    (latencies::figures(&histogram), latencies::encoded(&histogram))
}

fn histogram(steps: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = latency_histogram();
    for (value, count) in steps {
        histogram.saturating_record_n(*value, *count);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_report_is_what_is_stored() {
        let steps = [(1000, 98), (5000, 1), (59_000_000_000, 1)];
        let (figures, stored) = of_steps(&steps);
        assert_eq!(figures.map(|figures| figures.count), Some(100));
        assert_eq!(stored.and_then(|text| latencies::decoded(&text)), Some(histogram(&steps)));
        assert_eq!(of_steps(&[]), (None, None));
    }
}
