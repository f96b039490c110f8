//! Facts that limit the trust in figures, as full sentences.
//!
//! - [`disciplines`]: queue disciplines that were set between two runs
//! - [`hosts`]: other programs, and a wall clock that went back
//! - [`impossible`]: figures above what theory allows
//! - [`scatter`]: runs far from the others, and drift

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use linkrate_model::measurement::{CpuTime, CpuUse, IdleSource};
use linkrate_model::spec::Adapter;
use linkrate_model::units::format_duration;
use linkrate_model::{CpuSet, Measurement};
use linkrate_wire::link::LinkLaw;

use crate::analysis::measures::{drops, figure, lost_percent};
use crate::analysis::{adapter, imported, members, shares};
use crate::attribution;
use crate::labels;
use crate::quantity::Measure;
use crate::store::directory::minute_stamp;
use crate::store::{Ended, StoredRun, StoredStudy};
use crate::study::Study;
use crate::validity;
use crate::verdict::REQUEST_RATE_PERCENT;
use linkrate_stats::interval::MIN_TO_CLAIM;
use linkrate_stats::sample::mean;
use linkrate_stats::stop::StopReason;

use super::runs_by_cell::{RunsByCell, left_out};

pub mod disciplines;
pub mod hosts;
pub mod impossible;
pub mod scatter;

/// How the warning of a cell begins of which every run failed; its end is a reason.
pub const EVERY_RUN_FAILED: &str = "Every run of ";

/// Part of the transactions that had not ended, above which they hide a 99th percentile.
const OPEN_SHARE: f64 = 0.01;

/// CPU use without load, in per cent, above which service demands contain something else.
pub const BACKGROUND_CPU_PERCENT: f64 = 2.0;

/// Share of a measurement, in per cent, above which time taken by the hypervisor is told.
pub const STEAL_PERCENT: f64 = 1.0;

/// Uncertain share of the busy time, in per cent, from which a warning names it.
pub const UNCERTAINTY_PERCENT: f64 = 0.5;

/// Step of the idle time in `/proc/stat`: USER_HZ is 100 on every architecture that matters here.
pub const PROC_STAT_TICK: Duration = Duration::from_millis(10);

/// Share of a measurement, in per cent, from which the tick is told: at half a per cent it is a good
/// part of the precision that studies ask for.
pub const COARSE_TICK_PERCENT: f64 = 0.5;

/// Share of datagrams, in per cent, from which a loss is told.
pub const LOST_PERCENT: f64 = 0.1;

/// Share of the busy time, in per cent, from which functions without a category are told.
pub const UNKNOWN_PERCENT: f64 = 5.0;

/// The mark of a study that did not end as it was planned: who ends a study when a claim appears finds
/// effects that do not exist. A budget that was set again with `resume` is such an end too, and so are
/// the death of linkrate or of its testbed and a run that failed, which someone may have caused.
pub fn unplanned_end(stored: &StoredStudy, runs: &RunsByCell<'_>) -> Option<String> {
    let end = match &stored.ended {
        Some(Ended::Interrupted) => "was ended by hand",
        Some(Ended::Rule(StopReason::Budget { .. })) if !stored.plan.resumed.is_empty() => {
            "was ended by hand"
        }
        Some(Ended::TestbedLost(_)) => "lost its testbed",
        Some(Ended::RunFailed(_)) => "was ended by a run that failed",
        None => "is still running, or was killed,",
        Some(Ended::Rule(_) | Ended::Imported) => return None,
    };
    let blocks = runs.whole_blocks(&stored.plan.study);
    (blocks >= MIN_TO_CLAIM).then(|| {
        format!(
            "The study {end} after {blocks} blocks. If you stopped it because of what you saw, false \
             positives are more likely: of simulated studies of one effect that were ended at the \
             first significant result, a fifth found an effect that does not exist. `linkrate resume` completes the study."
        )
    })
}

/// The mark of a study that continued after the end that was planned: who continues until there is a claim
/// has more than one chance of a false one.
pub fn went_on(stored: &StoredStudy, runs: &RunsByCell<'_>) -> Option<String> {
    // a session may find that there is nothing to do
    let ran = |from_ms| stored.runs.iter().any(|run| run.started_unix_ms >= from_ms);
    let sessions = stored.plan.resumed.iter();
    let times =
        sessions.filter(|session| session.after_rule && ran(session.started_unix_ms)).count();
    let blocks = runs.whole_blocks(&stored.plan.study);
    (times > 0 && blocks >= MIN_TO_CLAIM).then(|| {
        format!(
            "The study went on after its stop rule had ended it, {}. If its figures were the reason to go \
             on, its claims are wrong more often than its confidence says: of simulated studies of one \
             effect that went on to twice their blocks because there was no claim, {GONE_ON_PERCENT} % \
             claimed an effect that does not exist, in place of 5 %.",
            if times == 1 { "once".to_owned() } else { format!("{times} times") },
        )
    })
}

/// Simulated in the tests of `analysis::claims`.
pub(super) const GONE_ON_PERCENT: u32 = 8;

/// Every warning, in a fixed order. `background` is the SUT's CPU use without load in per cent.
pub fn warnings(
    stored: &StoredStudy,
    runs: &RunsByCell<'_>,
    background: Option<f64>,
) -> Vec<String> {
    let mut found = imported::warnings(stored);
    found.extend(adapter::scaled(&stored.plan.study.testbed));
    found.extend(unplanned_end(stored, runs));
    found.extend(went_on(stored, runs));
    found.extend(torn(stored));
    found.extend(changed_testbed(stored));
    found.extend(failed(stored, runs));
    found.extend(shared_cpus(runs));
    found.extend(contention(stored));
    found.extend(coarse_idle(runs));
    found.extend(counted_idle(runs));
    found.extend(background_load(background));
    found.extend(steal(runs));
    found.extend(steal_of_clients(runs));
    let counted: Vec<_> = runs.all_with_aa().collect();
    found.extend(hosts::warnings(counted.iter().copied()));
    // the nodes of a fleet may have others
    if stored.plan.study.fleet.is_none() {
        let cells = (0..stored.plan.study.cells.len()).map(|cell| runs.cell(cell));
        found.extend(disciplines::warnings(cells));
    }
    for (index, cell) in stored.plan.study.cells.iter().enumerate() {
        let name = labels::cell(&cell.levels);
        let law = match &stored.plan.study.testbed.of_run(&cell.spec).adapter {
            Adapter::Model(model) => LinkLaw::of(model),
            Adapter::Veth | Adapter::Interfaces(_) | Adapter::Unknown => LinkLaw::Ethernet,
        };
        found.extend(contradictions(law, &name, runs.cell(index)));
        found.extend(dropped(&name, runs.cell(index)));
        found.extend(lost(&name, runs.cell(index)));
        found.extend(few_transactions(&name, runs.cell(index)));
        found.extend(unsteady(&name, runs.cell(index)));
        found.extend(not_answered(&name, runs.cell(index)));
        found.extend(attributed(&name, runs.cell(index)));
        found.extend(members::uneven(&name, runs.cell(index)));
        found.extend(clients_disturbed(&name, runs.cell(index)));
        let Study { testbed, method, .. } = &stored.plan.study;
        let of_cell = runs.cell(index);
        found.extend(impossible::warnings(&name, cell, testbed, of_cell, method.confidence));
        found.extend(adapter::warnings(&name, of_cell));
    }
    found.extend(profiled(runs));
    found.extend(scatter::warnings(&stored.plan.study, runs));
    found.extend(remarks(runs));
    found
}

/// A machine whose other CPUs slow the SUT by more than the precision asked for. What the slowdown is under
/// the load of a cell is not known: the figure is that of CPUs that copy memory all the time.
fn contention(stored: &StoredStudy) -> Option<String> {
    let contention = stored.plan.facts.contention?;
    let precision = stored.plan.study.method.precision;
    (contention.slowdown() > precision).then(|| {
        format!(
            "Memory contention: a fixed loop on the SUT's CPU takes {contention} more CPU time while the CPUs of \
             clients and devices copy memory, more than the goal of precision ({:.1} %). They share a core, \
             caches, memory or the clock. A part of this is in each service demand, and levels that load \
             the other CPUs differently differ by it too.",
            precision * 100.0
        )
    })
}

fn torn(stored: &StoredStudy) -> Option<String> {
    stored.torn.then(|| {
        "The last stored run is incomplete, after a crash or because it is being stored now; it \
         is left out."
            .to_owned()
    })
}

fn changed_testbed(stored: &StoredStudy) -> Vec<String> {
    let plan = &stored.plan;
    plan.resumed
        .iter()
        .flat_map(|session| {
            let moment = minute_stamp(session.started_unix_ms);
            plan.changed_facts(&session.facts)
                .into_iter()
                .map(move |change| format!("Resumed {moment} UTC on another testbed: {change}."))
        })
        .collect()
}

fn failed(stored: &StoredStudy, runs: &RunsByCell<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let count = stored.runs.iter().filter(|run| run.failure().is_some()).count();
    if count > 0 {
        let (have, are) = if count == 1 { ("has", "is") } else { ("have", "are") };
        let all = stored.runs.len();
        found.push(match left_out(&stored.runs, runs.fallen()) {
            0 => format!("{count} of {all} runs {have} failed and {are} not in the results."),
            others => {
                let were = if others == 1 { "was" } else { "were" };
                format!(
                    "{count} of {all} runs {have} failed, and {others} more {were} left out with their blocks: they are \
                     not in the results."
                )
            }
        });
    }
    for (index, cell) in stored.plan.study.cells.iter().enumerate() {
        let of_cell = runs.cell(index);
        if let [first, ..] = of_cell
            && of_cell.iter().all(|run| run.failure().is_some())
        {
            let reason = first.failure().map(ToString::to_string).unwrap_or_default();
            found.push(format!(
                "{EVERY_RUN_FAILED}{} failed; the first because: {reason}.",
                labels::cell(&cell.levels)
            ));
        }
    }
    found
}

fn shared_cpus(runs: &RunsByCell<'_>) -> Option<String> {
    let shared: CpuSet = good(runs)
        .filter(|(_, run)| run.sut_cpu.shared || run.client_cpu.shared)
        .flat_map(|(_, run)| run.sut_cpu.cpus.iter().map(|cpu| cpu.cpu))
        .collect();
    let any = good(runs).any(|(_, run)| run.sut_cpu.shared || run.client_cpu.shared);
    any.then(|| {
        let which = if shared.is_empty() { String::new() } else { format!(" (CPU {shared})") };
        format!(
            "The SUT shares its CPUs{which} with another role: CPU use and service demand contain \
             the work of both."
        )
    })
}

fn coarse_idle(runs: &RunsByCell<'_>) -> Option<String> {
    let shortest = good(runs)
        .filter(|(_, run)| run.sut_cpu.source == IdleSource::ProcStat)
        .flat_map(|(_, run)| run.sut_cpu.cpus.iter().map(|cpu| cpu.interval_ns))
        .filter(|interval_ns| *interval_ns > 0)
        .min()
        .map(Duration::from_nanos)?;
    let percent = PROC_STAT_TICK.as_secs_f64() * 100.0 / shortest.as_secs_f64();
    (percent >= COARSE_TICK_PERCENT).then(|| {
        format!(
            "Idle time was read from /proc/stat in steps of {} of an interval of {} ({percent:.1} %); \
             root can read the exact time in /proc/timer_list.",
            format_duration(PROC_STAT_TICK),
            format_duration(shortest)
        )
    })
}

/// The idle counter changes the host that it measures.
fn counted_idle(runs: &RunsByCell<'_>) -> Option<String> {
    let counted = good(runs).any(|(_, run)| run.sut_cpu.source == IdleSource::IdleCounter);
    counted.then(|| {
        "Threads of idle priority counted the idle time, so no CPU slept: latency and the CPU \
         time of waking are lower than on CPUs that sleep."
            .to_owned()
    })
}

fn background_load(background: Option<f64>) -> Option<String> {
    let percent = background.filter(|percent| *percent > BACKGROUND_CPU_PERCENT)?;
    Some(format!(
        "The SUT's CPUs are {percent:.1} % busy without load; all service demands include \
         that."
    ))
}

/// What the hypervisor took from the CPUs of one end in the runs, if that is more than little.
fn taken(runs: &RunsByCell<'_>, end: fn(&Measurement) -> &CpuUse, whose: &str) -> Option<String> {
    let share =
        |cpu: &CpuTime| cpu.steal_ns as f64 * 100.0 / (cpu.interval_ns as f64).max(f64::EPSILON);
    let of_run = |run: &StoredRun| end(run.measurement()?).cpus.iter().map(share).reduce(f64::max);
    let shares = runs.all_with_aa().filter_map(of_run);
    let shares: Vec<f64> = shares.filter(|percent| *percent > STEAL_PERCENT).collect();
    let most = shares.iter().copied().reduce(f64::max)?;
    // rounded up: it is more than the threshold
    let most = (most * 10.0 - 1e-6).ceil() / 10.0;
    Some(format!(
        "The hypervisor took CPU from {whose} for more than {STEAL_PERCENT} % of the time in {}, {most:.1} % at most",
        count(shares.len(), "run")
    ))
}

fn steal_of_clients(runs: &RunsByCell<'_>) -> Option<String> {
    let is_apart = good(runs).any(|(_, run)| !run.sut_cpu.shared);
    let text = taken(runs, |run| &run.client_cpu, "clients and devices").filter(|_| is_apart)?;
    Some(format!("{text}."))
}

fn steal(runs: &RunsByCell<'_>) -> Option<String> {
    let mut text = taken(runs, |run| &run.sut_cpu, "the SUT")?;
    // an idle run has next to no busy time to know
    let uncertainty = good(runs)
        .filter(|(stored, _)| stored.cell.is_some())
        .map(|(_, run)| {
            run.sut_cpu.uncertainty_ns() as f64 * 100.0 / run.sut_cpu.busy_ns().max(1) as f64
        })
        .reduce(f64::max)
        .filter(|percent| *percent >= UNCERTAINTY_PERCENT);
    if let Some(percent) = uncertainty {
        // writing to a String does not fail
        let _ = write!(
            text,
            "; how much of that was idle time is unknown, so CPU time is uncertain by \
             ±{percent:.1} %"
        );
    }
    text.push('.');
    Some(text)
}

/// Counters of the cell that contradict its settings.
fn contradictions(law: LinkLaw, name: &str, runs: &[&StoredRun]) -> Vec<String> {
    let Some(first) = runs.first() else { return Vec::new() };
    let good: Vec<&Measurement> = runs.iter().filter_map(|run| run.measurement()).collect();
    let found = validity::contradictions::of_cell(law, &first.spec, &good);
    found.into_iter().map(|found| format!("{name}: {found}.")).collect()
}

fn dropped(name: &str, runs: &[&StoredRun]) -> Option<String> {
    let counts: Vec<u64> = runs
        .iter()
        .filter_map(|run| run.measurement())
        .map(drops)
        .filter(|dropped| *dropped > 0)
        .collect();
    let total = counts.iter().fold(0u64, |sum, dropped| sum.saturating_add(*dropped));
    let packets = if total == 1 { "packet" } else { "packets" };
    (total > 0).then(|| {
        format!(
            "{name}: the SUT's interface dropped {total} {packets} in {}.",
            count(counts.len(), "run")
        )
    })
}

/// UDP has no flow control: datagrams without room at the receiver are lost, and throughput counts the
/// received ones.
fn lost(name: &str, runs: &[&StoredRun]) -> Option<String> {
    let shares: Vec<f64> = runs.iter().filter_map(|run| lost_percent(run.measurement()?)).collect();
    let percent = mean(&shares).filter(|percent| *percent >= LOST_PERCENT)?;
    Some(format!("{name}: {percent:.1} % of the datagrams sent were lost."))
}

/// Runs with too few transactions for a percentile that others have.
fn few_transactions(name: &str, runs: &[&StoredRun]) -> Option<String> {
    let good = runs.iter().filter(|run| run.is_good()).count();
    let without = |run: &&&StoredRun| run.is_good() && figure(Measure::LatencyP99, run).is_none();
    // the percentile is of a time that some of them had not ended yet
    let is_open = |run: &&&StoredRun| {
        let latency = run.measurement().and_then(|run| run.latency.as_ref());
        latency.is_some_and(|latency| latency.open_share > OPEN_SHARE)
    };
    let without: Vec<&&StoredRun> = runs.iter().filter(without).collect();
    let open = without.iter().copied().filter(is_open).count();
    let causes =
        [(without.len() - open, "too few transactions"), (open, "too many that had not ended")];
    let causes = causes.into_iter().filter(|(runs, _)| *runs > 0).map(|(runs, what)| {
        let have = if runs == 1 { "has" } else { "have" };
        format!("{} {have} {what}", count(runs, "run"))
    });
    let causes: Vec<String> = causes.collect();
    (!without.is_empty() && without.len() < good).then(|| {
        format!(
            "{name}: {} for a 99th percentile of latency. No effect on it is computed, which would be that of the fast \
             runs.",
            causes.join(", and ")
        )
    })
}

/// A run waits for flows that do not move steadily yet, for some seconds at most.
fn unsteady(name: &str, runs: &[&StoredRun]) -> Option<String> {
    let flows = runs.iter().filter_map(|run| Some(run.measurement()?.evidence.unsettled_flows));
    let flows: Vec<u32> = flows.filter(|flows| *flows > 0).collect();
    let most = flows.iter().max()?;
    Some(format!(
        "{name}: some flows did not move steadily when the measurement began, in {}, {most} at most.",
        count(flows.len(), "run")
    ))
}

/// Where an open loop is not kept up with, requests queue, and what they wait depends on the measurement.
fn not_answered(name: &str, runs: &[&StoredRun]) -> Option<String> {
    let answered =
        runs.iter().filter_map(|run| shares::request_rate_percent(&run.spec, run.measurement()?));
    let percent = mean(&answered.collect::<Vec<_>>())?;
    (percent < REQUEST_RATE_PERCENT).then(|| {
        format!(
            "{name}: {percent:.1} % of the requests that were due were answered, so the rest queued, and latency grew \
             with the interval."
        )
    })
}

/// Figures of profiled runs are not to stand beside others unknowingly.
fn profiled(runs: &RunsByCell<'_>) -> Option<String> {
    let profiles = || good(runs).filter_map(|(_, run)| run.profile.as_deref());
    let number = profiles().count();
    if number == 0 {
        return None;
    }
    let lost = profiles().fold(0u64, |sum, profile| sum.saturating_add(profile.lost));
    let lost = match lost {
        0 => String::new(),
        lost => format!(" The kernel lost {lost} samples for lack of room."),
    };
    Some(format!(
        "{} profiled, which costs the SUT CPU time: do not compare their figures with those of \
         other runs.{lost}",
        if number == 1 { "1 run was".to_owned() } else { format!("{number} runs were") }
    ))
}

/// Whether the samples agree with the meter, and whether the table of categories is complete enough.
fn attributed(name: &str, runs: &[&StoredRun]) -> Vec<String> {
    let measured = runs.iter().filter_map(|run| run.measurement());
    let Some(found) = attribution::of_runs(measured) else { return Vec::new() };
    let mut reported = Vec::new();
    let (sampled, meter) = (found.sampled_percent, found.meter_percent);
    if (sampled - meter).abs() > found.error_points {
        reported.push(format!(
            "{name}: by the samples the SUT's CPUs were {sampled:.1} % busy, by the meter \
             {meter:.1} %; sampling explains {:.1} points of difference at most: do not trust the attribution of CPU time.",
            found.error_points
        ));
    }
    let unknown = found.shares.iter().find(|share| share.category == "unknown");
    let unknown = unknown.map_or(0.0, |share| share.percent);
    if meter > 0.0 && unknown * 100.0 / meter > UNKNOWN_PERCENT {
        let symbols: Vec<&str> = found.unknown.iter().map(|(name, _)| name.as_str()).collect();
        reported.push(format!(
            "{name}: {:.1} % of the busy time is in functions without a category, most of it in \
             {}.",
            unknown * 100.0 / meter,
            symbols.join(", ")
        ));
    }
    reported
}

/// Other programs on clients' CPUs that were the bound, by name: the figure may be theirs.
fn clients_disturbed(name: &str, runs: &[&StoredRun]) -> Option<String> {
    // the scale of the links changes no bound
    let verdict = shares::verdict(runs.iter().copied(), 1.0);
    let percent = verdict.client_others_percent?;
    let used = runs.iter().filter_map(|run| run.measurement()).map(|run| &run.client_cpu);
    let most = used.max_by_key(|cpu| cpu.others_at_most_ns())?;
    Some(format!(
        "{name}: the clients' CPUs were the bottleneck, and other programs used {percent:.1} % of one \
         of them, most in one run {}: the SUT may be able to do more.",
        validity::programs::listed(most)
    ))
}

/// What the runs themselves remarked, each remark once.
fn remarks(runs: &RunsByCell<'_>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, run) in good(runs) {
        for remark in &run.remarks {
            *counts.entry(remark).or_default() += 1;
        }
    }
    counts.iter().map(|(remark, n)| format!("{remark} ({})", count(*n, "run"))).collect()
}

/// Every run with figures.
fn good<'a>(runs: &'a RunsByCell<'_>) -> impl Iterator<Item = (&'a StoredRun, &'a Measurement)> {
    runs.all().filter_map(|run| Some((run, run.measurement()?)))
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}
