//! What a program of others at the far end tells of a run.

use serde::{Deserialize, Serialize};

/// What a program tells of its whole test, which is longer than the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The far end, as it was written: `iperf3:lab2`.
    pub program: String,
    /// Payload that it sent and received, by its own count.
    pub bytes: u64,
    /// The same payload as the system under test counted it.
    pub bytes_here: u64,
    /// Length of its test, by its own clock.
    pub seconds: f64,
    /// Its CPU use, by its own meter; absent where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// How it measures that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_method: Option<String>,
    /// Segments that it sent again; absent where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
}

impl Told {
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
            seconds: self.seconds.max(more.seconds),
            // netserver tells the use of the whole host each time
            cpu_percent: larger(self.cpu_percent, more.cpu_percent),
            retransmits: match (self.retransmits, more.retransmits) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (one, other) => one.or(other),
            },
            ..self
        }
    }

    /// How far both counts of the payload are apart, as a part of the larger one.
    #[must_use]
    pub fn apart(&self) -> f64 {
        let most = self.bytes.max(self.bytes_here);
        if most == 0 { 0.0 } else { self.bytes.abs_diff(self.bytes_here) as f64 / most as f64 }
    }
}
