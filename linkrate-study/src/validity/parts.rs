//! The parts of the busy time beside the busy time: two independent meters of the same CPUs.

use linkrate_model::Task;

use super::{Rejection, Run};
use crate::executor::Stage;
use crate::study::Purpose;

/// What may be in no part, or in the parts alone, in per cent of the measurement's time on these CPUs: the same time for each
/// cell of a study. By their busy time, runs of cheap cells would be refused more often than those of dear ones.
/// Each idle period leaves some 1.3 µs: the way into the interrupt before its tracepoint, and that from the switch to the idle
/// thread until idle time begins (`docs/internals/attribution.md`). This is 40,000 of them a second.
pub const NOT_ATTRIBUTED_PERCENT: f64 = 5.0;

/// The same where it is half of the busy time too, which makes the cost itself doubtful. In 1,600 runs with
/// traffic, a tenth of the busy time was in no part at most.
const OF_LITTLE_PERCENT: f64 = 2.5;

/// The same as a time: a daemon that wakes for a moment is no reason in a short measurement.
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
    let off_ns = off_ns.unsigned_abs();
    let percent = cpu.percent_of(off_ns);
    let (expected, of) = match off_ns.saturating_mul(2) > busy_ns {
        true => (OF_LITTLE_PERCENT, ", more than half of the busy time"),
        false => (NOT_ATTRIBUTED_PERCENT, ""),
    };
    if percent < expected || off_ns < permitted_ns {
        return Ok(());
    }
    let reason = format!(
        "what ran on the CPUs of the system under test differs from their busy time by {percent:.1} % of the \
         measurement{of}, expected less than {expected} %"
    );
    Err(Rejection { stage: Stage::Measure, named: "CPU time".to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use linkrate_model::TestbedSpec;
    use linkrate_model::cpu_use::CpuParts;

    use crate::fixture;
    use crate::validity::tests::{check, refused};

    #[test]
    fn parts_that_are_not_the_busy_time_refuse_a_run() {
        // busy for 1 s of 2 s
        let with = |application_ms: u64, steal_ms: u64| {
            let mut run = fixture::stream(9.4e8, 0.5);
            let application_ns = application_ms * 1_000_000;
            run.sut_cpu.parts = Some(CpuParts { application_ns, ..CpuParts::default() });
            run.sut_cpu.cpus[0].steal_ns = steal_ms * 1_000_000;
            run
        };
        let testbed = TestbedSpec::default();
        for (application_ms, steal_ms) in [(1000, 0), (920, 0), (1080, 0), (1190, 190)] {
            assert_eq!(
                check(&testbed, &with(application_ms, steal_ms)),
                Ok(()),
                "{application_ms}"
            );
        }
        let reason = refused(&testbed, &with(880, 0));
        assert!(
            reason.contains("differs from their busy time by 6.0 % of the measurement"),
            "{reason}"
        );
        assert!(refused(&testbed, &with(1200, 100)).contains("by 10.0 % of the measurement"));
        // as much of a measurement with little traffic refuses it too, and less where it is half of its cost
        let mut little = with(0, 0);
        for (busy_ms, application_ms, is_refused) in
            [(150, 70, true), (150, 80, false), (100, 40, true), (100, 60, false), (60, 20, false)]
        {
            little.sut_cpu.cpus[0].busy_ns = busy_ms * 1_000_000;
            let application_ns = application_ms * 1_000_000;
            little.sut_cpu.parts = Some(CpuParts { application_ns, ..CpuParts::default() });
            assert_eq!(check(&testbed, &little).is_err(), is_refused, "{application_ms}");
        }
    }
}
