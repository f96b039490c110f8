//! The latencies of a run, as the agents report them.

use hdrhistogram::Histogram;
use linkrate_agent::flow::latency_histogram;
use linkrate_model::measurement::Latency;
use linkrate_protocol::Latencies;
use linkrate_study::latencies;

/// Figures of latencies, and their histogram as it is stored; neither where there are none.
pub fn of_reports(reported: &Latencies) -> (Option<Latency>, Option<Box<str>>) {
    let histogram = histogram(&reported.all);
    let open_share = latencies::open_share(&reported.all, &reported.open);
    let figures = latencies::figures(&histogram).map(|of| of.with_open_share(open_share));
    (figures, latencies::encoded(&histogram))
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
        let of = |all: &[(u64, u64)], open: &[(u64, u64)]| {
            of_reports(&Latencies { all: all.to_vec(), open: open.to_vec() })
        };
        let (figures, stored) = of(&steps, &[]);
        assert_eq!(figures.map(|figures| figures.count), Some(100));
        assert_eq!(stored.and_then(|text| latencies::decoded(&text)), Some(histogram(&steps)));
        assert_eq!(of(&[], &[]), (None, None));
        // half of them were open when the measurement closed
        let open = [(2_000_000, 50)];
        let figures = of(&[(1_000_000, 50), (2_000_000, 50)], &open).0.unwrap();
        assert_eq!((figures.open_share, figures.p90_ns), (0.5, None));
        assert!(figures.p50_ns.is_some(), "{figures:?}");
    }
}
