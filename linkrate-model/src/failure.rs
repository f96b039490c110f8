//! What a run with an event measured, from frames on the wire and from the sockets.

use serde::{Deserialize, Serialize};

use crate::event::Event;

/// What one run showed of its event. Times are in ns from the beginning of the measurement, unless they say
/// otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The event that was asked for.
    pub event: Event,
    /// The interface of the port that failed (`eth0`), or the name of the switch.
    pub port: String,
    /// When it failed.
    pub at_ns: u64,
    /// When it recovered; absent if it did not within the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_ns: Option<u64>,
    /// From the fault until the host's end of the aggregate sent nothing by the port any more; absent
    /// if that did not happen within the measurement, or without an aggregate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_detected_ns: Option<u64>,
    /// The same at the switch's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_detected_ns: Option<u64>,
    /// From the fault until the first frame of a connection that the port had carried left the host by
    /// another port; absent if there was none before the recovery or without an aggregate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_moved_ns: Option<u64>,
    /// The same of frames that came to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_moved_ns: Option<u64>,
    /// The longest time without a received byte, over all flows together, that ended after the fault.
    pub gap_ns: u64,
    /// The same for each flow.
    pub flows: Vec<FlowGap>,
    /// The longest time without a received byte of any flow before the fault: what the traffic does
    /// by itself.
    pub gap_before_ns: u64,
    /// From the fault until the rate of all flows was at least 95 % of that before, with no gap that the
    /// traffic did not have before; absent if it was not within the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_ns: Option<u64>,
    /// Bit/s of payload before the fault.
    pub rate_before: f64,
    /// Frames that were lost between the devices over the measurement.
    pub frames_lost: u64,
    /// Frames that arrived after a later frame of the same connection.
    pub frames_reordered: u64,
    /// Payload that TCP sent again over the measurement, bytes.
    pub resent_bytes: u64,
    /// The part of it from the fault on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent_after: Option<Resent>,
    /// Received bytes that were compared with those that were sent.
    pub verified_bytes: u64,
    /// Bytes among them that were another than expected at their place.
    pub wrong_bytes: u64,
    /// The rate over time.
    pub timeline: Timeline,
}

/// What TCP sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resent {
    /// Payload, bytes.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
}

impl Resent {
    /// The sum of both. Sums stay at the largest number, whatever a peer reports.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            segments: self.segments.saturating_add(more.segments),
        }
    }
}

/// The longest time without a received byte of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowGap {
    /// The flow (`receive 0.0`).
    pub flow: String,
    /// Its longest gap that ended after the fault, ns.
    pub gap_ns: u64,
}

/// Bytes over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of a slot, ns.
    pub slot_ns: u64,
    /// Payload that all flows received in each slot, from the beginning of the measurement.
    pub received: Vec<u64>,
    /// Octets on the line of each port of the system under test, both ways.
    pub ports: Vec<PortTimeline>,
}

/// Octets of one port over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PortTimeline {
    /// The port (`eth0`).
    pub port: String,
    /// Octets in each slot.
    pub octets: Vec<u64>,
}

/// The share of the rate before the fault that counts as restored.
pub const RESTORED: f64 = 0.95;
