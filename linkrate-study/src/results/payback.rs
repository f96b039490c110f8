//! What a study shows about connection offloads.

use serde::Serialize;

use crate::levels::Levels;
use crate::quantity::{Interval, Quantity};

/// The factor that says which TCP has the connections.
pub const FACTOR: &str = "toe";

/// What a study shows about connection offloads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paybacks {
    /// What a connection offload cost, for each cell that has some.
    pub costs: Vec<OffloadCost>,
    /// After how many bytes it has paid, for each pair of cells without and with TOE and each cell with
    /// connection offloads beside them.
    pub paybacks: Vec<Payback>,
    /// What it would add to connections that carry one request each.
    pub short_lived: Vec<ShortLived>,
}

/// What a connection offload cost in one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffloadCost {
    /// The levels of the cell.
    pub at: Levels,
    /// Whether the connections carried traffic when they were offloaded.
    pub busy: bool,
    /// Connection offloads of a run.
    pub per_run: f64,
    /// CPU time of the host for one.
    pub cpu: Quantity,
    /// How long the frames of the peer waited: the median of a run.
    pub peer_wait: Option<Quantity>,
    /// How long the program's calls stalled: the median of a run.
    pub stall: Option<Quantity>,
}

/// What becomes of the cost of a connection offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The adapter saves CPU time: the connection offload has paid after so many bytes.
    Pays,
    /// Each KB costs more at the adapter: it never pays.
    Never,
    /// No change in service demand is claimed, so nothing is said.
    Open,
}

/// After how many bytes a connection offload has paid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Payback {
    /// The levels that both cells share.
    pub at: Levels,
    /// Whether the connections carried traffic when they were offloaded.
    pub busy: bool,
    /// CPU time that the adapter saves the host for each KB; negative where each costs more.
    pub saved: Quantity,
    /// The same beside the emulated driver and what the host received in it: the least. Absent where the parts of the
    /// service demands are not known.
    pub saved_without_driver: Option<Quantity>,
    /// What becomes of the cost.
    pub outcome: Outcome,
    /// The bytes that a connection must carry after its connection offload; absent unless it pays.
    pub bytes: Option<Quantity>,
    /// The same by what is saved beside the emulated driver and what the host received in it: the most. Absent unless
    /// it pays so, and where the parts of the service demands are not known.
    pub bytes_without_driver: Option<Quantity>,
    /// Blocks with all runs.
    pub pairs: u32,
    /// Whether something other than the adapter limited one of both cells, so that the saving is one of this machine.
    pub host_limited: bool,
}

/// A cell whose connections carry one request each, at the host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShortLived {
    /// Its levels.
    pub at: Levels,
    /// CPU time of the host for one connection, all in all.
    pub connection: Quantity,
    /// The ratio by which a connection offload of each, before it carries traffic, would raise that, if
    /// it saved nothing.
    pub with_offload: Interval,
}
