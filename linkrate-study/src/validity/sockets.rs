//! Socket options: those in effect must be those that the run asked for.

use linkrate_model::{Measurement, RunSpec, Task};

use super::Rejection;
use crate::executor::Stage;

/// Compares address family, congestion control and TCP_NODELAY with the request. UDP has only the first, and
/// an idle run has no sockets. The kernel grants the buffers before any traffic, or the run ends there.
pub(super) fn check(spec: &RunSpec, run: &Measurement) -> Result<(), Rejection> {
    let Task::Workload(workload) = &spec.task else { return Ok(()) };
    let (asked, is) = (&spec.socket, &run.effective.socket);
    equal("family", &asked.family, &is.family)?;
    if workload.kind.is_udp() {
        return Ok(());
    }
    equal("congestion", &asked.congestion, &is.congestion)?;
    equal("nodelay", &asked.nodelay, &is.nodelay)
}

fn equal<T: PartialEq + std::fmt::Display>(knob: &str, asked: &T, is: &T) -> Result<(), Rejection> {
    if asked == is {
        return Ok(());
    }
    Err(Rejection {
        stage: Stage::Knob,
        named: knob.to_owned(),
        reason: format!("knob \"{knob}\": requested {asked}, effective is {is}"),
    })
}
