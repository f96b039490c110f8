//! Figures of single cells and questions: what an event showed, the parts of the latency of
//! transactions, and what connection offloads cost and bring.

use linkrate_model::Fault;
use schemars::JsonSchema;
use serde::Serialize;

use crate::levels::Levels;
use crate::quantity::{Interval, Quantity};

/// What the event of one cell showed, over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailureFigures {
    /// What failed.
    pub fault: Fault,
    /// When it was to fail, from the beginning of the measurement.
    #[schemars(range(min = 0))]
    pub at_seconds: f64,
    /// When it was to recover; null for not within the measurement.
    #[schemars(range(min = 0))]
    pub recover_seconds: Option<f64>,
    /// Runs behind the figures.
    pub runs: u32,
    /// When the host sent nothing by the port any more; null without an aggregate.
    pub host_detection: Option<Moment>,
    /// The same at the switch; null also where the switch has no part in the aggregate.
    pub switch_detection: Option<Moment>,
    /// When the first frame of a connection of the port had left the host by another port; null without an aggregate.
    pub host_move: Option<Moment>,
    /// The same of frames to the host.
    pub switch_move: Option<Moment>,
    /// Runs in which nothing arrived at the end: their gaps are at least so long.
    pub open_runs: u32,
    /// Longest time without a received byte of all flows together, after the fault.
    pub gap: Option<Quantity>,
    /// The same of the flow that was hit worst.
    pub flow_gap: Option<Quantity>,
    /// Longest time without a received byte of a flow, before the fault.
    pub gap_before: Option<Quantity>,
    /// From the fault until the rate was at least 95 % of that before.
    pub restored: Moment,
    /// Frames lost between the devices.
    pub frames_lost: Option<Quantity>,
    /// Runs in which a frame arrived after a later one of its connection.
    pub reordered_runs: u32,
    /// Such frames.
    pub frames_reordered: Option<Quantity>,
    /// Payload that TCP sent again over the measurement.
    pub resent: Option<Quantity>,
    /// Payload that TCP sent again from the fault on; null where it is not known.
    pub resent_after: Option<Quantity>,
    /// The same in segments.
    pub segments_after: Option<Quantity>,
    /// Received bytes that were compared with the sent ones, of all runs.
    pub verified_bytes: u64,
}

/// A moment that not every run has reached.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// When it was, from the fault; null if no run reached it.
    pub after: Option<Quantity>,
    /// Runs that reached it before the recovery, or before the measurement closed.
    pub runs: u32,
}

/// The parts of the mean latency of transactions, µs; means over the runs. A part that was not measured is
/// absent, and in `unexplained_us`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RoundTripParts {
    /// The mean latency.
    pub latency_us: f64,
    /// Frames waited for interrupts by the rules of moderation, both ends together; null where that was not measured.
    pub moderation_us: Option<f64>,
    /// Interrupts came later than these rules say; null as before.
    pub device_us: Option<f64>,
    /// Frames were on the wire or waited before it; null as before.
    pub wire_us: Option<f64>,
    /// CPU time of the SUT for each transaction.
    pub sut_us: f64,
    /// CPU time of the clients and devices for each transaction; null where they share the SUT's CPUs.
    pub clients_us: Option<f64>,
    /// What the parts leave of the latency; below zero if they are more.
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

/// The factor that says which TCP has the connections.
pub const TOE_FACTOR: &str = "toe";

/// What a study shows about connection offloads.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Paybacks {
    /// What an offload cost, for each cell that has some.
    pub costs: Vec<OffloadCost>,
    /// After how many bytes it has paid, for each pair of cells without and with TOE and each cell with
    /// connection offloads beside them.
    pub paybacks: Vec<Payback>,
    /// What it would add to connections that carry one request each.
    pub short_lived: Vec<ShortLived>,
}

/// What a connection offload cost in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OffloadCost {
    /// The levels of the cell.
    pub at: Levels,
    /// Whether the connections carried traffic when they were offloaded.
    pub busy: bool,
    /// Offloads of a run.
    #[schemars(range(min = 0))]
    pub per_run: f64,
    /// CPU time of the host for one.
    pub cpu: Quantity,
    /// How long the frames of the peer waited: the median of a run.
    pub peer_wait: Option<Quantity>,
    /// How long the calls of the program stalled: the median of a run.
    pub stall: Option<Quantity>,
}

/// What becomes of the cost of a connection offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The adapter saves CPU time: the connection offload has paid after so many bytes.
    Pays,
    /// Each KB costs more at the adapter: it never pays.
    Never,
    /// No saving is claimed, or its break-even has fewer than five blocks or no bounds.
    Open,
}

/// After how many bytes a connection offload has paid.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Payback {
    /// The levels that both cells share.
    pub at: Levels,
    /// Whether the connections carried traffic when they were offloaded.
    pub busy: bool,
    /// CPU time that the adapter saves the host for each KB; negative where each costs more.
    pub saved: Quantity,
    /// The same beside the emulated driver and what the host received in it: the least; null where the parts are not
    /// known.
    pub saved_without_driver: Option<Quantity>,
    /// `pays`; `never`: each KB costs more at the adapter; `open`: no saving is shown.
    pub outcome: Outcome,
    /// The bytes that a connection must carry after its offload, with Fieller's interval; null unless it pays.
    pub bytes: Option<Quantity>,
    /// The same by what is saved beside the emulated driver and what the host received in it: the most; null unless it
    /// pays so, and where the parts of the service demands are not known.
    pub bytes_without_driver: Option<Quantity>,
    /// Blocks with all runs.
    #[schemars(range(min = 1))]
    pub pairs: u32,
    /// Whether something other than the adapter limited one of both cells, so that the saving is one of this machine.
    pub host_limited: bool,
}

/// A cell whose connections carry one request each, at the host.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShortLived {
    /// Its levels.
    pub at: Levels,
    /// CPU time of the host for one connection, all in all.
    pub connection: Quantity,
    /// The ratio by which an offload of each, before it carries traffic, would raise that, if it saved nothing.
    pub with_offload: Interval,
}
