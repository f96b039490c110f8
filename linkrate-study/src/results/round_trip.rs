//! The parts of the latency of transactions.

use serde::Serialize;

/// The parts of the mean latency of transactions, µs; means over the runs. A part that was not measured is
/// absent, and in `unexplained_us`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RoundTripParts {
    /// The mean latency.
    pub latency_us: f64,
    /// The frames waited for interrupts by the rules of moderation, both ends together. Absent without
    /// virtual adapters, and where a transaction is not one frame each way.
    pub moderation_us: Option<f64>,
    /// Interrupts came later than these rules say.
    pub device_us: Option<f64>,
    /// The frames were on the wire, or waited before it.
    pub wire_us: Option<f64>,
    /// CPU time of the SUT for each transaction.
    pub sut_us: f64,
    /// CPU time of the clients for each transaction, with that of the devices; absent where they share the
    /// SUT's CPUs, whose time is in `sut_us` then.
    pub clients_us: Option<f64>,
    /// What the parts leave of the latency. Below zero, they are more than it.
    pub unexplained_us: f64,
}

impl RoundTripParts {
    /// The sum of the parts, µs.
    pub fn explained_us(&self) -> f64 {
        let parts = [self.moderation_us, self.device_us, self.wire_us, self.clients_us];
        self.sut_us + parts.into_iter().flatten().sum::<f64>()
    }

    /// What the parts leave, in per cent of the latency.
    pub fn unexplained_percent(&self) -> f64 {
        self.unexplained_us * 100.0 / self.latency_us
    }
}
