//! Disturbances on the hosts that were too small to refuse a run for.

use linkrate_model::measurement::CpuUse;
use linkrate_model::{Measurement, Task};

use crate::store::StoredRun;
use crate::validity::programs;

/// Share of a role's CPUs, in per cent, from which other programs are named.
pub const OTHERS_PERCENT: f64 = 1.0;

/// Part of the own CPU time of the system under test, in per cent, from which a cost is called
/// uncertain.
pub const UNCERTAINTY_PERCENT: f64 = 1.0;

/// Other programs that used too little to refuse a run for, and a wall clock that went back.
pub fn warnings<'a>(runs: impl Iterator<Item = &'a StoredRun> + Clone) -> Vec<String> {
    let mut found = Vec::new();
    type Cpus = fn(&Measurement) -> &CpuUse;
    let roles: [(&str, Cpus); 2] =
        [("the system under test", |run| &run.sut_cpu), ("the clients", |run| &run.client_cpu)];
    for (role, cpu) in roles {
        let used: Vec<_> = runs
            .clone()
            .filter_map(|run| {
                let cpu = cpu(run.measurement()?);
                Some((run, cpu, cpu.percent_of(cpu.others_at_most_ns())))
            })
            .filter(|(.., percent)| *percent >= OTHERS_PERCENT)
            .collect();
        if let Some((run, cpu, _)) = used.iter().max_by(|a, b| a.2.total_cmp(&b.2)) {
            let times =
                if used.len() == 1 { "1 run".to_owned() } else { format!("{} runs", used.len()) };
            found.push(format!(
                "Other programs used more than {OTHERS_PERCENT} % of the CPUs of {role} in \
                 {times}, most in run {}: {}.",
                run.sequence,
                programs::listed(cpu)
            ));
        }
    }
    found.extend(uncertain_cost(runs.clone()));
    // the caller may give them in any order
    let mut in_order: Vec<_> = runs.collect();
    in_order.sort_by_key(|run| run.sequence);
    for pair in in_order.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if after.started_unix_ms < before.started_unix_ms {
            found.push(format!(
                "The system clock stepped back by {:.1} s between runs {} and {}: timestamps are out \
                 of order; results are unaffected.",
                (before.started_unix_ms - after.started_unix_ms) as f64 / 1e3,
                before.sequence,
                after.sequence
            ));
        }
    }
    found
}

/// Time of other programs that CPU time and service demand contain, or not. What is small beside the
/// CPUs may be large beside the busy time.
fn uncertain_cost<'a>(runs: impl Iterator<Item = &'a StoredRun>) -> Option<String> {
    let uncertainty = runs.filter(|run| run.spec.task != Task::Idle).filter_map(|run| {
        let cpu = &run.measurement()?.sut_cpu;
        let percent = cpu.uncertainty_percent();
        (percent >= UNCERTAINTY_PERCENT && percent.is_finite()).then_some((run, cpu, percent))
    });
    let (run, cpu, percent) = uncertainty.max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(format!(
        "CPU use and service demand may be up to {percent:.1} % too high in run {}: on which CPUs these \
         programs ran is not known: {}.",
        run.sequence,
        programs::listed(cpu)
    ))
}

#[cfg(test)]
mod tests {
    use linkrate_model::measurement::OtherProgram;

    use super::*;
    use crate::fixture;

    #[test]
    fn names_programs_with_a_small_share() {
        let mut busy = fixture::stream(9.4e9, 0.8);
        // the fixture's measurement is two seconds
        let name = "cron".to_owned();
        busy.sut_cpu.background =
            vec![OtherProgram { pid: 4711, name, cpu_ns: 60_000_000, bound_ns: 60_000_000 }];
        let calm = || fixture::run(0, 0, Some(0), fixture::stream(9.4e9, 0.8));
        let runs = [calm(), fixture::run(1, 0, Some(1), busy)];
        assert_eq!(
            warnings(runs.iter()),
            [
                "Other programs used more than 1 % of the CPUs of the system under test in 1 run, most \
                 in run 1: \"cron\" (process 4711) 3.0 %."
            ]
        );
        assert_eq!(warnings([calm()].iter()), [""; 0]);
    }

    #[test]
    fn a_cost_is_uncertain_by_its_own_size() {
        // 0.5 % of the CPUs, of which the traffic used 10 %
        let mut cheap = fixture::stream(9.4e8, 0.1);
        let other = |bound_ns| OtherProgram {
            pid: 4711,
            name: "cron".to_owned(),
            cpu_ns: 10_000_000,
            bound_ns,
        };
        cheap.sut_cpu.background = vec![other(0)];
        let warned = |run| warnings([fixture::run(7, 0, Some(0), run)].iter());
        assert_eq!(
            warned(cheap.clone()),
            [
                "CPU use and service demand may be up to 5.0 % too high in run 7: on which CPUs these \
              programs ran is not known: \"cron\" (process 4711) 0.5 %."
            ]
        );
        // what is known to be theirs is in no figure
        cheap.sut_cpu.background = vec![other(10_000_000)];
        assert_eq!(warned(cheap), [""; 0]);
        let mut dear = fixture::stream(9.4e9, 0.8);
        dear.sut_cpu.background = vec![other(0)];
        assert_eq!(warned(dear), [""; 0]);
    }

    #[test]
    fn warns_of_a_wall_clock_that_went_back() {
        let run = |sequence| fixture::run(sequence, 0, Some(0), fixture::stream(9.4e9, 0.8));
        let mut later = run(2);
        later.started_unix_ms -= 60_000;
        let said = warnings([run(0), run(1), later].iter());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("The system clock stepped back by 57.0 s between runs 1 and 2"),
            "{said:?}"
        );
    }
}
