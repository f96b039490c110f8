//! Figures: what is measured, its unit, and its interval.

pub use linkrate_stats::interval::Interval;
use linkrate_terms::workload::Item;
use serde::{Deserialize, Serialize};

/// What is measured of a cell, and compared between cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Received payload per second.
    Throughput,
    /// SUT CPU time per KB or per transaction.
    ServiceDemand,
    /// Completed transactions per second.
    Transactions,
    /// Busy share of the SUT's CPUs. No effect is computed of it; papers publish it.
    Cpu,
}

/// The unit of a figure. Documents have it as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Unit {
    /// `bit/s`, payload.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// `us/KB`: µs of SUT CPU time for each 1024 bytes of payload.
    #[serde(rename = "us/KB")]
    MicrosecondsPerKb,
    /// `us/transaction`: µs of SUT CPU time for each transaction.
    #[serde(rename = "us/transaction")]
    MicrosecondsPerTransaction,
    /// `transaction/s`.
    #[serde(rename = "transaction/s")]
    TransactionsPerSecond,
    /// `transfer/s`.
    #[serde(rename = "transfer/s")]
    TransfersPerSecond,
    /// `file/s`.
    #[serde(rename = "file/s")]
    FilesPerSecond,
    /// `%`.
    #[serde(rename = "%")]
    Percent,
    /// `ns`, of latencies.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// `frame`.
    #[serde(rename = "frame")]
    Frames,
    /// `byte`.
    #[serde(rename = "byte")]
    Bytes,
    /// `ratio`: one figure over another.
    #[serde(rename = "ratio")]
    Ratio,
}

impl Unit {
    /// The rate at which items are completed.
    pub fn rate_of(item: Item) -> Self {
        match item {
            Item::Transaction => Self::TransactionsPerSecond,
            Item::Transfer => Self::TransfersPerSecond,
            Item::File => Self::FilesPerSecond,
        }
    }
}

impl Measure {
    /// Whether it is a rate, which links can bound. The others are costs of a host.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::Throughput | Self::Transactions)
    }

    /// The unit of its figures; `transactional` says whether the cell's unit of work is a
    /// transaction.
    pub fn unit(self, transactional: bool) -> Unit {
        match self {
            Self::Throughput => Unit::BitsPerSecond,
            Self::Transactions => Unit::TransactionsPerSecond,
            Self::Cpu => Unit::Percent,
            Self::ServiceDemand if transactional => Unit::MicrosecondsPerTransaction,
            Self::ServiceDemand => Unit::MicrosecondsPerKb,
        }
    }
}

/// An [`Interval`] with the unit of its values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantity {
    /// The values.
    #[serde(flatten)]
    pub interval: Interval,
    /// Their unit.
    pub unit: Unit,
}
