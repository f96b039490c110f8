//! Other programs on the CPUs of a run.

use linkrate_terms::measurement::CpuUse;

use super::Refusal;
use crate::executor::Stage;

/// Share of the system under test's CPUs, in per cent, from which other programs make a run
/// unbelievable. Below it, the cost of traffic is still most of what was measured.
pub const REFUSED_PERCENT: f64 = 10.0;

/// CPU time that they must have used besides: a daemon that wakes for a moment would be a large part
/// of a short window.
const REFUSED_NS: u64 = 100_000_000;

/// Refuses a run whose system under test worked for others. CPU time that others took from the
/// clients is no part of its cost; a warning names them.
pub(super) fn check(cpu: &CpuUse) -> Result<(), Refusal> {
    let used_ns = cpu.others_ns();
    let percent = cpu.percent_of(used_ns);
    if percent < REFUSED_PERCENT || used_ns < REFUSED_NS {
        return Ok(());
    }
    Err(Refusal {
        stage: Stage::Measure,
        named: cpu.others.first().map_or_else(String::new, |other| format!("{:?}", other.name)),
        reason: format!(
            "other programs used {percent:.1} % of the CPUs of the system under test, expected \
             less than {REFUSED_PERCENT} %: {}",
            listed(cpu)
        ),
    })
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
