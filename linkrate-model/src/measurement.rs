//! The result of one run: counts, effective knobs and evidence.
//!
//! Raw counts are stored, and rates are derived from them here. Times are nanoseconds unless the name says otherwise.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::is_zero;
use crate::knobs::{InterfaceKnobs, SocketKnobs};
use crate::profile::Profile;

pub use crate::cpu_use::{CpuTime, CpuUse, ENDED, IdleSource, OtherProgram, ThreadTime};
pub use crate::evidence::{
    AdapterEvidence, Evidence, LinkEvidence, MAX_FLOWS_READ, MAX_REPORTED_FLOWS, PortEvidence,
    SenderPath, SenderTimes,
};
pub use crate::interface_counts::InterfaceCounts;
pub use crate::latency::Latency;

/// One KB in a service demand is 1024 bytes, as in netperf.
pub const BYTES_PER_KB: f64 = 1024.0;

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What flowed, counted by the receivers.
    pub traffic: Traffic,
    /// Latency of transactions; absent for streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// All latencies in ns, as HdrHistogram logs have them: V2, compressed, as base64. Absent for streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Box<str>>,
    /// What flowed over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// What each workload of a mix did, in their order; empty without a mix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartMeasured>,
    /// CPU of the system under test.
    pub sut_cpu: CpuUse,
    /// CPU of all clients together; absent when it cannot be told from the SUT's.
    pub client_cpu: CpuUse,
    /// The effective knobs of the interface and the sockets.
    pub effective: Effective,
    /// The evidence of the counters.
    pub evidence: Evidence,
    /// The profile of the SUT's CPUs; absent unless the run was profiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Box<Profile>>,
    /// What the event of the run showed; absent without an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<Failure>>,
    /// Remarks that a reader of the result needs, as full sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What one workload of a mix did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PartMeasured {
    /// What flowed, counted by the receivers.
    pub traffic: Traffic,
    /// Latency of its transactions or transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// All of these latencies, as [`Measurement::histogram`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Box<str>>,
}

/// What flowed in the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Payload bytes the clients received from the SUT.
    pub transmit_bytes: u64,
    /// Payload bytes the SUT received from the clients.
    pub receive_bytes: u64,
    /// Seconds of the measurement over which transmit_bytes were counted.
    pub transmit_seconds: f64,
    /// Seconds of the measurement over which receive_bytes were counted.
    pub receive_seconds: f64,
    /// Completed transactions; zero for streams.
    pub transactions: u64,
    /// Seconds over which transactions were counted.
    pub transaction_seconds: f64,
    /// Datagrams sent in the measurement; zero for TCP.
    pub sent_datagrams: u64,
    /// Datagrams sent less those received in the measurement; zero for TCP. What was on its way at an edge makes it less or
    /// more by some, so that it may be negative where hardly any is lost.
    pub lost_datagrams: i64,
}

impl Traffic {
    /// Payload bits per second received, both directions together.
    pub fn bits_per_second(&self) -> f64 {
        self.bits_per_second_each_direction().iter().sum()
    }

    /// Payload bits per second received: from the system under test, and by it.
    pub fn bits_per_second_each_direction(&self) -> [f64; 2] {
        let rate = |bytes: u64, seconds: f64| {
            if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
        };
        [
            rate(self.transmit_bytes, self.transmit_seconds),
            rate(self.receive_bytes, self.receive_seconds),
        ]
    }

    /// Transactions per second.
    pub fn transactions_per_second(&self) -> f64 {
        if self.transaction_seconds > 0.0 {
            self.transactions as f64 / self.transaction_seconds
        } else {
            0.0
        }
    }
}

impl Measurement {
    /// µs of SUT CPU per KB of payload received, both directions' bytes together, without the time
    /// that is known to be of other programs. `None` when nothing was received.
    pub fn service_demand_us_per_kb(&self) -> Option<f64> {
        let kb_per_second = self.traffic.bits_per_second() / 8.0 / BYTES_PER_KB;
        (kb_per_second > 0.0).then(|| self.sut_cpu.own_busy_cpus() * 1e6 / kb_per_second)
    }

    /// µs of SUT CPU per transaction, without the time that is known to be of other programs. `None`
    /// without transactions.
    pub fn service_demand_us_per_transaction(&self) -> Option<f64> {
        let rate = self.traffic.transactions_per_second();
        (rate > 0.0).then(|| self.sut_cpu.own_busy_cpus() * 1e6 / rate)
    }
}

/// The effective knobs, as read back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    /// The SUT's interface.
    pub interface: InterfaceKnobs,
    /// The test sockets; `buffer` is what was asked for.
    pub socket: SocketKnobs,
    /// SO_SNDBUF as the kernel granted it (twice what was asked, when it was granted).
    pub granted_send_buffer_bytes: u64,
    /// SO_RCVBUF as the kernel granted it.
    pub granted_receive_buffer_bytes: u64,
    /// TCP maximum segment size in bytes; zero for UDP.
    pub mss_bytes: u32,
}

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
