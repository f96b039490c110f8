//! What receiving flows got over time, for a run with an event.

use linkrate_model::failure::Resent;
use serde::{Deserialize, Serialize};

/// The slots of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecordSpec {
    pub slots: u32,
    /// Length of each, µs.
    pub slot_us: u32,
}

/// What the record of one flow says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowRecord {
    pub flow: String,
    /// The longest time without a byte that ended after the event, ns.
    pub gap_ns: u64,
    /// The same before the event.
    pub gap_before_ns: u64,
    /// Bytes that were compared with the expected ones since the flow began.
    pub verified_bytes: u64,
    /// Bytes among them that differ.
    pub wrong_bytes: u64,
}

/// What the records of all flows of an agent say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecordReport {
    pub slot_us: u32,
    /// Bytes that all flows received in each slot from the beginning of the measurement.
    pub received: Vec<u64>,
    /// Each flow that receives.
    pub flows: Vec<FlowRecord>,
    /// What the flows that send sent again from the event on.
    pub resent: Resent,
}
