//! The part of one client in the traffic of a run, where clients are distinguished.

use serde::{Deserialize, Serialize};

/// What one client sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientPart {
    /// Its measurement, s.
    pub seconds: f64,
    /// Payload that it gave to its sockets in the measurement, bytes.
    pub sent_bytes: u64,
    /// Payload that it received in the measurement, bytes.
    pub received_bytes: u64,
    /// Transactions that it began.
    pub transactions: u64,
    /// Segments that it sent again.
    pub retransmits: u64,
}

impl ClientPart {
    /// Payload per second, bit/s: what it sent, or what it received.
    pub fn bits_per_second(&self, sends: bool) -> Option<f64> {
        let bytes = if sends { self.sent_bytes } else { self.received_bytes };
        (self.seconds > 0.0).then(|| bytes as f64 * 8.0 / self.seconds)
    }

    /// Transactions per second.
    pub fn transactions_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.transactions as f64 / self.seconds)
    }
}
