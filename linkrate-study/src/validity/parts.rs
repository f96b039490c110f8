//! The parts of the busy time beside the busy time: two independent meters of the same CPUs.

use linkrate_terms::Task;

use super::{Purpose, Rejection, Run};
use crate::executor::Stage;

/// What may be in no part, or in the parts alone, in per cent of the busy time.
pub const NOT_ATTRIBUTED_PERCENT: f64 = 15.0;

/// The same as a time: a short measurement or one with little traffic has little busy time.
const NOT_ATTRIBUTED_NS: u64 = 10_000_000;

/// Refuses a run whose parts are not its busy time, where its cost is asked for. Steal and the uncertainty of the CPU meter may
/// be the difference.
pub(super) fn check(run: &Run<'_>) -> Result<(), Rejection> {
    let cpu = &run.measured.sut_cpu;
    let Some(parts) = cpu.parts.filter(|_| run.purpose == Purpose::Costs) else { return Ok(()) };
    if run.spec.task == Task::Idle || run.spec.event.is_some() {
        return Ok(());
    }
    let busy_ns = cpu.busy_ns();
    let steal_ns = cpu.cpus.iter().fold(0, |sum: u64, cpu| sum.saturating_add(cpu.steal_ns));
    let off_ns = parts.not_attributed_ns(busy_ns);
    let permitted_ns =
        steal_ns.saturating_add(cpu.uncertainty_ns()).saturating_add(NOT_ATTRIBUTED_NS);
    let percent = off_ns as f64 * 100.0 / busy_ns.max(1) as f64;
    if percent.abs() < NOT_ATTRIBUTED_PERCENT || off_ns.unsigned_abs() < permitted_ns {
        return Ok(());
    }
    let reason = format!(
        "what ran on the CPUs of the system under test differs by {percent:.1} % from their busy time, expected less \
         than {NOT_ATTRIBUTED_PERCENT} %"
    );
    Err(Rejection { stage: Stage::Measure, named: "CPU time".to_owned(), reason })
}
