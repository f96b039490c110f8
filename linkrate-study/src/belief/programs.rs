//! Other programs on the CPUs of a run.

use linkrate_terms::Task;
use linkrate_terms::measurement::CpuUse;

use super::{Purpose, Refusal, Run};
use crate::executor::Stage;

/// Share of the system under test's CPUs, in per cent, from which other programs make a run
/// unbelievable. Below it, the cost of traffic is still most of what was measured.
pub const REFUSED_PERCENT: f64 = 10.0;

/// CPU time that they must have used besides: a daemon that wakes for a moment would be a large part
/// of a short window.
const REFUSED_NS: u64 = 100_000_000;

/// Time that may be of other programs, or not, in per cent of the busy time, from which a run is
/// unbelievable: the cost of its traffic is not known to that much.
pub const UNSURE_PERCENT: f64 = 10.0;

/// CPU time that it must be besides. A short window or one with little traffic has little busy time, which a
/// few milliseconds change: what a daemon that wakes for a moment uses is less.
const UNSURE_NS: u64 = 10_000_000;

/// Refuses a run whose system under test worked for others. CPU time that others took from the
/// clients is no part of its cost; a warning names them.
///
/// The time of programs that may run on these CPUs only is taken out of the figures, so it makes a run
/// unbelievable by what it does to the traffic alone. The time of programs that may have run elsewhere
/// stays in, and what it leaves unsure is [in the intervals](crate::analysis::unsure) of all costs. It is compared with the busy
/// time of the run: above a tenth, the cost is hardly that of the traffic. An idle run has none. A run with an event
/// is there for the failure: its traffic stands still for a time, which leaves little busy time, and its figures are
/// moments. A run for its rate is not refused for its cost, and one for its functions not at all.
pub(super) fn check(run: &Run<'_>) -> Result<(), Refusal> {
    let (spec, cpu) = (run.spec, &run.measured.sut_cpu);
    if run.purpose == Purpose::Functions {
        return Ok(());
    }
    let asks_for_cost =
        run.purpose == Purpose::Costs && spec.task != Task::Idle && spec.event.is_none();
    let (used_ns, unsure_ns) = (cpu.others_at_most_ns(), cpu.others_unsure_ns());
    let (percent, unsure_percent) = (cpu.percent_of(used_ns), cpu.unsure_percent());
    let reason = if percent >= REFUSED_PERCENT && used_ns >= REFUSED_NS {
        format!(
            "other programs used {percent:.1} % of the CPUs of the system under test, expected \
             less than {REFUSED_PERCENT} %: {}",
            listed(cpu)
        )
    } else if asks_for_cost && unsure_percent >= UNSURE_PERCENT && unsure_ns >= UNSURE_NS {
        format!(
            "other programs used {:.0} ms on CPUs of the system under test or elsewhere, up to \
             {unsure_percent:.1} % of the run's own CPU time, expected less than {UNSURE_PERCENT} %: {}",
            unsure_ns as f64 / 1e6,
            listed(cpu)
        )
    } else {
        return Ok(());
    };
    let named = cpu.others.first().map_or_else(String::new, |other| format!("{:?}", other.name));
    Err(Refusal { stage: Stage::Measure, named, reason })
}

/// The programs by name and process id, with their shares.
pub(crate) fn listed(cpu: &CpuUse) -> String {
    let named = cpu.others.iter().take(3).map(|other| {
        let percent = cpu.percent_of(other.cpu_ns);
        // a program may call itself anything
        format!("{:?} (process {}) {percent:.1} %", other.name, other.pid)
    });
    named.collect::<Vec<_>>().join(", ")
}
