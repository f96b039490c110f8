//! What flowed over the time of a measurement, interval by interval, as iperf3 and flent have it.

use serde::{Deserialize, Serialize};

use crate::skip::is_zero;

/// Most intervals of one measurement.
pub const MAX_INTERVALS: usize = 1024;

/// What flowed in one interval of a measurement. The sums of all intervals may differ from the traffic of the measurement
/// by what socket buffers hold: programs count here, and TCP there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Its end, ns since the measurement opened. It begins where the one before ends, the first one at 0.
    pub end_ns: u64,
    /// Payload from the system under test that was received; of a third-party program as a peer, what it
    /// was sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub transmit_bytes: u64,
    /// Payload that the system under test received.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receive_bytes: u64,
    /// Transactions that were completed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub transactions: u64,
}

/// The rate of a count in each interval, 1/s, with the end of the interval in seconds since the measurement opened.
pub fn rates(intervals: &[Interval], count: fn(&Interval) -> u64) -> Vec<(f64, f64)> {
    let begins = std::iter::once(0).chain(intervals.iter().map(|interval| interval.end_ns));
    let rate = |(begin_ns, interval): (u64, &Interval)| {
        let length_ns = interval.end_ns.checked_sub(begin_ns).filter(|length| *length > 0)?;
        Some((interval.end_ns as f64 / 1e9, count(interval) as f64 * 1e9 / length_ns as f64))
    };
    begins.zip(intervals).filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_length_of_each_interval() {
        let interval =
            |end_ns, transmit_bytes| Interval { end_ns, transmit_bytes, ..Interval::default() };
        let intervals =
            [interval(500_000_000, 100), interval(500_000_000, 7), interval(1_500_000_000, 300)];
        let found = rates(&intervals, |interval| interval.transmit_bytes);
        assert_eq!(found, [(0.5, 200.0), (1.5, 300.0)], "an interval without length has no rate");
        assert_eq!(rates(&[], |interval| interval.transactions), []);
    }
}
