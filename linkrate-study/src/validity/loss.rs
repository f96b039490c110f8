//! Loss that was asked for and did not happen.

use linkrate_model::{Measurement, RunSpec, Task};

use super::Rejection;
use crate::executor::Stage;

/// Frames that must be expected to be lost before none is no chance any more: one in e^20 runs.
const CERTAIN: f64 = 20.0;

/// The counter of frames or cells from a port that the line lost.
const LOST: &str = "txLostOnLine";

/// Refuses a run whose lines lost nothing although they should.
pub(super) fn check(spec: &RunSpec, run: &Measurement) -> Result<(), Rejection> {
    let Some(adapter) = run.evidence.adapter.as_deref() else { return Ok(()) };
    if spec.task == Task::Idle {
        return Ok(());
    }
    let sum = |name: &str| {
        let counts = adapter.ports.iter().filter_map(|port| port.counters.get(name));
        counts.copied().fold(0, u64::saturating_add)
    };
    let (lost, sent) = (sum(LOST), sum("ifHCOutUcastPkts"));
    let share = f64::from(spec.loss_ppm) / 1e6;
    if lost > 0 || (sent as f64 * share) < CERTAIN {
        return Ok(());
    }
    Err(Rejection {
        stage: Stage::Knob,
        named: "loss".to_owned(),
        reason: format!(
            "loss of {} % was asked for, and none of {sent} frames was lost",
            share * 100.0
        ),
    })
}
