//! Figures: what is measured, its unit, and its interval.

use linkrate_model::workload::Item;
pub use linkrate_stats::interval::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is measured of a cell, and compared between cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
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
    /// Payload per second that the clients received, in bidirectional traffic.
    Transmit,
    /// Payload per second that the SUT received, in bidirectional traffic.
    Receive,
    /// Median latency of a run's transactions.
    LatencyP50,
    /// 99th percentile of it.
    LatencyP99,
}

/// The unit of a figure. Documents have it as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
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
    /// Whether it is a rate, which links can bound.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::Throughput | Self::Transactions | Self::Transmit | Self::Receive)
    }

    /// Whether it is a percentile, which a run with few transactions does not have.
    pub fn is_percentile(self) -> bool {
        matches!(self, Self::LatencyP50 | Self::LatencyP99)
    }

    /// Whether it is about all traffic of a cell, and not about one direction of it.
    pub fn is_whole(self) -> bool {
        !matches!(self, Self::Transmit | Self::Receive)
    }

    /// Whether a study goes on until effects on it are precise. One direction alone and a percentile scatter more: a study
    /// would go on for them.
    pub fn is_stop_input(self) -> bool {
        matches!(self, Self::ServiceDemand | Self::Throughput | Self::Transactions)
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        self.is_rate()
    }

    /// What it is, as the field calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::ServiceDemand => "service demand",
            Self::Transactions => "transactions per second",
            Self::Cpu => "CPU use",
            Self::Transmit => "throughput of transmit",
            Self::Receive => "throughput of receive",
            // tables of cells have percentiles of all runs together, which are others
            Self::LatencyP50 => "median latency of a run",
            Self::LatencyP99 => "p99 latency of a run",
        }
    }

    /// The unit of its figures; `transactional` says whether the cell's unit of work is a
    /// transaction.
    pub fn unit(self, transactional: bool) -> Unit {
        match self {
            Self::Throughput | Self::Transmit | Self::Receive => Unit::BitsPerSecond,
            Self::Transactions => Unit::TransactionsPerSecond,
            Self::Cpu => Unit::Percent,
            Self::ServiceDemand if transactional => Unit::MicrosecondsPerTransaction,
            Self::ServiceDemand => Unit::MicrosecondsPerKb,
            Self::LatencyP50 | Self::LatencyP99 => Unit::Nanoseconds,
        }
    }
}

/// An [`Interval`] with the unit of its values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Quantity {
    /// The values.
    #[serde(flatten)]
    pub interval: Interval,
    /// Unit of the three. 1 KB is 1024 bytes.
    pub unit: Unit,
}
