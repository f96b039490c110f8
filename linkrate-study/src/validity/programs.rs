//! Other programs on the CPUs of a run, and a hypervisor that takes them away.

use linkrate_model::Task;
use linkrate_model::measurement::{CpuUse, ENDED};

use super::{Rejection, Run};
use crate::executor::Stage;
use crate::study::Purpose;

/// Share of the system under test's CPUs, in per cent, from which other programs make a run
/// unbelievable. Below it, the cost of traffic is still most of what was measured.
pub const REFUSED_PERCENT: f64 = 10.0;

/// CPU time that they must have used besides: a daemon that wakes for a moment would be a large part
/// of a very short measurement. On one CPU, from 0.2 s on, the share alone decides.
const REFUSED_NS: u64 = 20_000_000;

/// Time that a hypervisor must have taken besides. It comes in ticks of up to 10 ms: fewer than five of them say little,
/// unless they are a quarter of the measurement.
const STOLEN_NS: u64 = 50_000_000;

/// Time that may be of other programs, or not, in per cent of the measurement's time on the system under test's CPUs, from which
/// a run is unbelievable. It is the same time for each cell of a study: measured by the busy time, runs of cheap cells
/// would be refused more often than those of dear ones, and those that are left would not be a fair sample.
pub const UNCERTAINTY_PERCENT: f64 = 2.5;

/// CPU time that it must be besides: what a daemon that wakes for a moment uses is less.
const UNCERTAINTY_NS: u64 = 10_000_000;

/// CPU time of a process that starts a program and ends, ns: a half or twice of it, by the machine and the program.
const PROCESS_NS: u64 = 1_000_000;

/// Refuses a run whose system under test worked for others, or whose clients did: where the CPUs of clients and devices
/// are short, the traffic is slower.
///
/// The time of programs that may run on these CPUs only is taken out of the figures, so it makes a run unbelievable by what it does to the traffic
/// alone. The time of programs that may have run elsewhere stays in, and what it leaves uncertain is [in the
/// intervals](crate::analysis::uncertainty) of all costs. An idle run has none. A run with an event is there for the failure: its traffic stalls
/// for a time, which leaves little busy time, and its figures are moments. A run for its rate is not refused for its cost, and one for its
/// functions not at all.
pub(super) fn check(run: &Run<'_>) -> Result<(), Rejection> {
    let (spec, cpu) = (run.spec, &run.measured.sut_cpu);
    if run.purpose == Purpose::Functions {
        return Ok(());
    }
    let asks_for_cost =
        run.purpose == Purpose::Costs && spec.task != Task::Idle && spec.event.is_none();
    let (used_ns, uncertain_ns) = (cpu.others_at_most_ns(), cpu.others_uncertain_ns());
    let (percent, uncertainty_percent) =
        (cpu.percent_of(used_ns), cpu.uncertainty_interval_percent());
    let reason = if percent >= REFUSED_PERCENT && used_ns >= REFUSED_NS {
        format!(
            "other programs used {percent:.1} % of the CPUs of the system under test, expected \
             less than {REFUSED_PERCENT} %: {}",
            listed(cpu)
        )
    } else if asks_for_cost
        && uncertainty_percent >= UNCERTAINTY_PERCENT
        && uncertain_ns >= UNCERTAINTY_NS
    {
        format!(
            "other programs used {:.0} ms on CPUs of the system under test or elsewhere, up to \
             {uncertainty_percent:.1} % of the measurement, expected less than {UNCERTAINTY_PERCENT} %: {}",
            uncertain_ns as f64 / 1e6,
            listed(cpu)
        )
    } else if asks_for_cost && let Some(reason) = short_lived(run) {
        reason
    } else {
        return of_clients(run).and_then(|()| stolen(run));
    };
    let named =
        cpu.background.first().map_or_else(String::new, |other| format!("{:?}", other.name));
    Err(Rejection { stage: Stage::Measure, named, reason })
}

/// Why a run is rejected beside which many processes began, none of which lived until its end, and what ran was not traced.
fn short_lived(run: &Run<'_>) -> Option<String> {
    let (begun, cpu) = (run.observed.untraced_forks?, &run.measured.sut_cpu);
    let used_ns = begun.saturating_mul(PROCESS_NS);
    let percent = cpu.percent_of(used_ns);
    (percent >= REFUSED_PERCENT && used_ns >= REFUSED_NS).then(|| {
        format!(
            "{begun} processes or threads began during the measurement, which may have used {percent:.0} % of the CPUs of the \
             system under test, expected less than {REFUSED_PERCENT} %: without a trace, which needs root, their CPU time \
             is not known"
        )
    })
}

/// Refuses a run whose clients and devices had to share their CPUs. What may have been elsewhere does not count: the figures of
/// the system under test contain none of it.
fn of_clients(run: &Run<'_>) -> Result<(), Rejection> {
    let cpu = &run.measured.client_cpu;
    let used_ns = cpu.others_bound_ns();
    let percent = cpu.percent_of(used_ns);
    if run.spec.task == Task::Idle || percent < REFUSED_PERCENT || used_ns < REFUSED_NS {
        return Ok(());
    }
    let named =
        cpu.background.first().map_or_else(String::new, |other| format!("{:?}", other.name));
    let reason = format!(
        "other programs used {percent:.1} % of the CPUs of clients and devices, expected less than \
         {REFUSED_PERCENT} %: {}",
        listed(cpu)
    );
    Err(Rejection { stage: Stage::Measure, named, reason })
}

/// Refuses a run of which a hypervisor gave a CPU to others for as much time as other programs may not use: how fast the traffic was
/// and what it cost is then the hypervisor's doing.
fn stolen(run: &Run<'_>) -> Result<(), Rejection> {
    if run.spec.task == Task::Idle {
        return Ok(());
    }
    let roles = [
        (&run.measured.sut_cpu, "the system under test"),
        (&run.measured.client_cpu, "clients and devices"),
    ];
    for (used, role) in roles {
        // one flow may run on one CPU of many
        let shares = used.cpus.iter().filter(|cpu| {
            cpu.interval_ns > 0 && cpu.steal_ns >= STOLEN_NS.min(cpu.interval_ns / 4)
        });
        let percent = shares.map(|cpu| cpu.steal_ns as f64 * 100.0 / cpu.interval_ns as f64);
        let percent = percent.fold(0.0, f64::max);
        if percent >= REFUSED_PERCENT {
            let reason = format!(
                "the hypervisor took {percent:.1} % of a CPU of {role}, expected less than {REFUSED_PERCENT} %"
            );
            return Err(Rejection {
                stage: Stage::Measure,
                named: "hypervisor".to_owned(),
                reason,
            });
        }
    }
    Ok(())
}

/// The programs by name and process id, with their shares.
pub(crate) fn listed(cpu: &CpuUse) -> String {
    let named = cpu.background.iter().take(3).map(|other| {
        let percent = cpu.percent_of(other.cpu_ns);
        let process = match other.pid {
            ENDED => "processes that have ended".to_owned(),
            pid => format!("process {pid}"),
        };
        match other.name.is_empty() {
            true => format!("unnamed programs ({process}) {percent:.1} %"),
            // a program may call itself anything
            false => format!("{:?} ({process}) {percent:.1} %", other.name),
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

/// What a reader must know of a run with threaded NAPI on interfaces whose threads are not placed. Those of virtual adapters
/// are, and a system under test with a machine of its own counts all CPUs.
pub(super) fn unplaced(run: &Run<'_>) -> Option<String> {
    let asked = run.spec.interface.threaded == Some(true);
    let placed = run.measured.evidence.adapter.is_some();
    let counts_all = run.measured.sut_cpu.shared || run.testbed.adapter.has_remote_sut();
    (asked && !placed && !counts_all).then(|| {
        "The threads of threaded NAPI may also have run on CPUs of the clients, where their time is no part of the service \
         demand."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use linkrate_model::{Measurement, TestbedSpec};

    use super::super::{Observed, Validity, judge};
    use super::*;
    use crate::fixture;
    use crate::study::Purpose;

    #[test]
    fn many_processes_that_nobody_traced_refuse_a_run() {
        let run = fixture::stream(9.4e8, 0.5);
        let refused = |untraced_forks: Option<u64>, purpose: Purpose| {
            let observed = Observed { untraced_forks, ..Observed::default() };
            let (testbed, spec) = (TestbedSpec::default(), &fixture::ladder().cells[0].spec);
            match judge(&Run {
                testbed: &testbed,
                spec,
                purpose,
                measured: &run,
                observed: &observed,
            }) {
                Validity::Disturbed(rejection) => Some(rejection.reason),
                Validity::Rejected(rejection) => panic!("{rejection:?}"),
                Validity::Valid { .. } => None,
            }
        };
        // in a measurement of two seconds, /bin/true every 4 ms
        let reason = refused(Some(500), Purpose::Costs).unwrap();
        assert!(
            reason.starts_with(
                "500 processes or threads began during the measurement, which may have used 25 %"
            ),
            "{reason}"
        );
        assert_eq!(refused(Some(190), Purpose::Costs), None);
        assert_eq!(refused(None, Purpose::Costs), None, "a trace tells what they used");
        assert_eq!(refused(Some(500), Purpose::Rates), None);
    }

    #[test]
    fn a_run_whose_cpus_a_hypervisor_took_is_refused() {
        // a measurement of two seconds
        let refused = |sut_ns: u64, client_ns: u64, purpose: Purpose| {
            let mut run = fixture::stream(1e9, 0.5);
            run.sut_cpu.cpus[0].steal_ns = sut_ns;
            run.client_cpu.cpus[0].steal_ns = client_ns;
            let (testbed, observed) = (TestbedSpec::default(), Observed::default());
            let spec = &fixture::ladder().cells[0].spec;
            let run = Run { testbed: &testbed, spec, purpose, measured: &run, observed: &observed };
            match judge(&run) {
                Validity::Disturbed(rejection) => Some(rejection.reason),
                Validity::Rejected(rejection) => panic!("{rejection:?}"),
                Validity::Valid { .. } => None,
            }
        };
        let reason = refused(210_000_000, 0, Purpose::Costs).unwrap();
        assert_eq!(
            reason,
            "the hypervisor took 10.5 % of a CPU of the system under test, expected less than 10 %"
        );
        let reason = refused(0, 800_000_000, Purpose::Rates).unwrap();
        assert!(reason.contains("of a CPU of clients and devices"), "{reason}");
        assert_eq!(refused(190_000_000, 0, Purpose::Costs), None);
        assert_eq!(refused(800_000_000, 0, Purpose::Functions), None);
    }

    fn remarked(asked: Option<bool>, change: impl FnOnce(&mut Measurement)) -> bool {
        let (testbed, observed) = (TestbedSpec::default(), Observed::default());
        let mut spec = fixture::ladder().cells[0].spec.clone();
        spec.interface.threaded = asked;
        let mut measured = fixture::stream(1e9, 0.5);
        change(&mut measured);
        let purpose = Purpose::Costs;
        let run = Run {
            testbed: &testbed,
            spec: &spec,
            purpose,
            measured: &measured,
            observed: &observed,
        };
        unplaced(&run).is_some()
    }

    #[test]
    fn threads_that_are_not_placed_are_remarked() {
        assert!(remarked(Some(true), |_| {}));
        assert!(!remarked(Some(false), |_| {}) && !remarked(None, |_| {}));
        assert!(!remarked(Some(true), |run| run.sut_cpu.shared = true));
        let adapter =
            |run: &mut Measurement| run.evidence.adapter = Some(fixture::counted(1.0, 1.0));
        assert!(!remarked(Some(true), adapter));
    }
}
