//! The run store.

use linkrate_terms::{Measurement, RunSpec};
use serde::{Deserialize, Serialize};

use crate::executor::RunFailure;

/// One stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Position in the order of execution, from 0.
    pub sequence: u32,
    /// Block, from 0.
    pub block: u32,
    /// Index of the cell in the plan; `None` for the block's idle run.
    pub cell: Option<u32>,
    /// Wall-clock start, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// What was asked.
    pub spec: RunSpec,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a run: figures or a reason, never a zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Figures.
    Measured(Box<Measurement>),
    /// The reason why there are none.
    Failed(RunFailure),
}
