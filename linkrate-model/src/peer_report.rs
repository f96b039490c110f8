//! What a third-party peer program (iperf3, netperf) reports of a run.

use serde::{Deserialize, Serialize};

use crate::is_zero;

/// What a program reports on its whole test without the beginning that it left out, which is longer than the
/// measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    /// The peer, as it was written: `iperf3:lab2`.
    pub program: String,
    /// Payload that it sent and received, by its own count.
    pub bytes: u64,
    /// The same payload as the system under test counted it.
    pub bytes_here: u64,
    /// Octets by which both counts may differ: both ends do not leave out the beginning at the same moment.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub edge_bytes: u64,
    /// Length of the beginning that it left out, s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_seconds: u64,
    /// Length of its test without that, by its own clock.
    pub seconds: f64,
    /// Its CPU use, by its own meter; absent where it does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// How it measures that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_method: Option<String>,
    /// Segments that it sent again; absent where it does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Of datagrams, what became of them; absent of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<PeerDatagrams>,
}

/// What both ends counted of the datagrams of a whole test. A way without streams has no octets.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PeerDatagrams {
    /// Those of the system under test.
    pub from_sut: PeerDirection,
    /// Those of the program.
    pub to_sut: PeerDirection,
    /// Their jitter where the program received them, s; absent where it does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<f64>,
}

/// One way of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PeerDirection {
    /// Payload that its sender counted.
    pub sent_bytes: u64,
    /// Payload that its receiver counted.
    pub received_bytes: u64,
}

impl PeerDirection {
    /// The part that arrived; `None` where nothing was sent.
    #[must_use]
    pub fn arrived(self) -> Option<f64> {
        let sent = (self.sent_bytes > 0).then_some(self.sent_bytes as f64);
        // the last ones may come behind the sender's count
        sent.map(|sent| (self.received_bytes as f64 / sent).min(1.0))
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_add(more.sent_bytes),
            received_bytes: self.received_bytes.saturating_add(more.received_bytes),
        }
    }
}

impl PeerReport {
    /// Tests of one program beside each other, as one.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let larger = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, other) => one.or(other),
        };
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            bytes_here: self.bytes_here.saturating_add(more.bytes_here),
            edge_bytes: self.edge_bytes.saturating_add(more.edge_bytes),
            seconds: self.seconds.max(more.seconds),
            // netserver tells the use of the whole host each time
            cpu_percent: larger(self.cpu_percent, more.cpu_percent),
            datagrams: match (self.datagrams, more.datagrams) {
                (Some(a), Some(b)) => Some(PeerDatagrams {
                    from_sut: a.from_sut.plus(b.from_sut),
                    to_sut: a.to_sut.plus(b.to_sut),
                    jitter_seconds: larger(a.jitter_seconds, b.jitter_seconds),
                }),
                (one, other) => one.or(other),
            },
            retransmits: match (self.retransmits, more.retransmits) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (one, other) => one.or(other),
            },
            ..self
        }
    }

    /// How far both counts of the payload are apart, as a part of the larger one. Of datagrams it is how much more a
    /// receiver has than was sent: the rest is what was lost.
    #[must_use]
    pub fn difference(&self) -> f64 {
        if let Some(report) = self.datagrams {
            let beyond = |direction: PeerDirection| {
                let more = direction.received_bytes.saturating_sub(direction.sent_bytes);
                more as f64 / direction.received_bytes.max(1) as f64
            };
            return beyond(report.from_sut).max(beyond(report.to_sut));
        }
        let most = self.bytes.max(self.bytes_here);
        let beyond = self.bytes.abs_diff(self.bytes_here).saturating_sub(self.edge_bytes);
        if most == 0 { 0.0 } else { beyond as f64 / most as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(from_sut: [u64; 2], to_sut: [u64; 2]) -> PeerReport {
        let direction =
            |[sent_bytes, received_bytes]: [u64; 2]| PeerDirection { sent_bytes, received_bytes };
        PeerReport {
            program: "iperf3:lab2".to_owned(),
            bytes: 0,
            bytes_here: 1000,
            edge_bytes: 0,
            omitted_seconds: 0,
            seconds: 1.0,
            cpu_percent: None,
            cpu_method: None,
            retransmits: None,
            datagrams: Some(PeerDatagrams {
                from_sut: direction(from_sut),
                to_sut: direction(to_sut),
                jitter_seconds: None,
            }),
        }
    }

    #[test]
    fn datagrams_may_be_lost_and_not_won() {
        assert_eq!(report([1000, 400], [0, 0]).difference(), 0.0);
        assert_eq!(report([1000, 400], [900, 1000]).difference(), 0.1);
        assert_eq!(PeerReport { datagrams: None, ..report([0, 0], [0, 0]) }.difference(), 1.0);
    }

    #[test]
    fn the_edge_of_what_is_left_out_is_no_difference() {
        let at =
            |bytes| PeerReport { bytes, edge_bytes: 50, datagrams: None, ..report([0, 0], [0, 0]) };
        assert_eq!([1050, 950, 1000].map(|bytes| at(bytes).difference()), [0.0; 3]);
        assert_eq!(at(900).difference(), 0.05);
    }

    #[test]
    fn tests_beside_each_other_lose_together() {
        let both = report([1000, 400], [0, 0]).plus(report([1000, 1000], [500, 100]));
        let datagrams = both.datagrams.unwrap();
        assert_eq!(datagrams.from_sut.arrived(), Some(0.7));
        assert_eq!(datagrams.to_sut.arrived(), Some(0.2));
        assert_eq!(PeerDirection::default().arrived(), None);
    }
}
