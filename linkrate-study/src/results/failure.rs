//! What the event of a cell showed.

use linkrate_model::Fault;
use serde::Serialize;

use crate::quantity::Quantity;

/// What the event of one cell showed, over its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailureFigures {
    /// What failed.
    pub fault: Fault,
    /// When it was to fail, from the beginning of the measurement.
    pub at_seconds: f64,
    /// When it was to recover; absent if it was not to recover within the measurement.
    pub recover_seconds: Option<f64>,
    /// Runs behind the figures.
    pub runs: u32,
    /// From the fault until the host sent nothing by the port any more; absent without an aggregate,
    /// which has other ports.
    pub host_detection: Option<Moment>,
    /// The same at the switch; absent also where the switch has no part in the aggregate.
    pub switch_detection: Option<Moment>,
    /// From the fault until the first frame of a connection of the port left the host by another port;
    /// absent without an aggregate.
    pub host_move: Option<Moment>,
    /// The same of frames to the host.
    pub switch_move: Option<Moment>,
    /// The longest time without a received byte, over all flows together, that ended after the fault.
    pub gap: Option<Quantity>,
    /// The same of the flow that was hit worst.
    pub flow_gap: Option<Quantity>,
    /// The longest time without a received byte of a flow before the fault.
    pub gap_before: Option<Quantity>,
    /// From the fault until the rate was at least 95 % of that before.
    pub restored: Moment,
    /// Frames that were lost between the devices.
    pub frames_lost: Option<Quantity>,
    /// Frames that arrived after a later frame of the same connection.
    pub frames_reordered: Option<Quantity>,
    /// Payload that TCP sent again over the measurement.
    pub resent: Option<Quantity>,
    /// The part of it from the fault on.
    pub resent_after: Option<Quantity>,
    /// The same in segments.
    pub segments_after: Option<Quantity>,
    /// Received bytes of all runs. Each was the one that was sent at its place.
    pub verified_bytes: u64,
}

/// A moment that not every run has reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    /// When it was, from the fault, in the runs that reached it; absent if no run did.
    pub after: Option<Quantity>,
    /// Runs that reached it before the recovery, or before the measurement ended.
    pub runs: u32,
}
