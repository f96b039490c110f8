//! The latencies of a run, as the agents report them: percentiles, and the histogram to keep.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use linkrate_agent::flow::latency_histogram;
use linkrate_terms::measurement::Latency;

/// Percentiles of latencies, given as (ns, count); `None` where there are none.
pub fn percentiles(latency: &[(u64, u64)]) -> Option<Latency> {
    let histogram = histogram(latency)?;
    Some(Latency {
        count: histogram.len(),
        mean_ns: histogram.mean(),
        min_ns: histogram.min(),
        p50_ns: histogram.value_at_quantile(0.5),
        p90_ns: histogram.value_at_quantile(0.9),
        p99_ns: histogram.value_at_quantile(0.99),
        p99_9_ns: histogram.value_at_quantile(0.999),
        p99_99_ns: histogram.value_at_quantile(0.9999),
        max_ns: histogram.max(),
    })
}

/// The histogram in the form of HdrHistogram logs: V2, compressed, as base64.
pub fn encoded(latency: &[(u64, u64)]) -> Option<Box<str>> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram(latency)?, &mut bytes).ok()?;
    Some(STANDARD.encode(bytes).into())
}

fn histogram(latency: &[(u64, u64)]) -> Option<hdrhistogram::Histogram<u64>> {
    let mut histogram = latency_histogram();
    for (value, count) in latency {
        histogram.saturating_record_n(*value, *count);
    }
    (!histogram.is_empty()).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    #[test]
    fn percentiles_are_of_all_values() {
        let latency = percentiles(&[(1000, 98), (5000, 1), (9000, 1)]).unwrap();
        assert_eq!((latency.count, latency.min_ns), (100, 1000));
        assert!(latency.p50_ns.abs_diff(1000) <= 1);
        assert!(latency.p99_ns.abs_diff(5000) <= 5);
        assert!(latency.max_ns.abs_diff(9000) <= 9);
        assert_eq!((percentiles(&[]), encoded(&[])), (None, None));
    }

    #[test]
    fn a_kept_histogram_reads_back() {
        let steps = [(1000, 98), (5000, 1), (59_000_000_000, 1)];
        let text = encoded(&steps).unwrap();
        let bytes = STANDARD.decode(&*text).unwrap();
        let read = Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]).unwrap();
        assert_eq!(Some(read), histogram(&steps));
        assert!(text.len() < 400, "{} characters", text.len());
    }
}
