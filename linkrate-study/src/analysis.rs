//! From stored runs to results.
//!
//! A pure function of the results directory: the same runs give the same document, byte for byte,
//! whenever and wherever it is made.
//!
//! - [`adapter`]: counters of virtual adapters
//! - [`demand`]: the parts of service demands
//! - [`disciplines`]: queue disciplines, and the one that limited
//! - [`imported`]: where imported runs come from, and what they lack
//! - [`knee`]: where a larger window stops to help
//! - [`limit`]: the limit of a cell's links
//! - [`mod@line`]: where the time of a cell's lines went
//! - [`pooled`]: the latency of the runs of a cell
//! - [`predicted`]: how balancing spreads a cell's flows over the ports of an aggregate
//! - [`published`]: published figures beside the measured ones
//! - [`measures`]: the figures of one run, and of the runs of one cell
//! - [`round_trip`]: the parts of the latency of transactions
//! - [`shares`]: the evidence behind a cell's verdict
//! - [`effects`]: which levels are compared, and how they compare
//! - [`claims`]: which effects are claimed, which are excluded, and which are open
//! - [`failure`]: what the event of a cell cost
//! - [`stop_inputs`]: the figures of the stop rule
//! - [`warnings`]: facts that limit the trust in figures
//! - [`payback`]: whether connection offloads to a TCP offload engine pay

use std::time::Duration;

use linkrate_model::workload::Item;
use linkrate_model::{Imported, Task};

use crate::attribution;
use crate::fleet::{self, missing_nodes};
use crate::import::live;
use crate::levels::Levels;
use crate::quantity::{Interval, Measure, Quantity, Unit};
use crate::results::{
    CellEvidence, CellResult, Effect, Fact, FailedRun, RESULTS_FORMAT, StudyResults,
};
use crate::store::{Ended, StoredStudy, directory};
use crate::verdict;
use linkrate_stats::interval::{excludes, of_mean};
use linkrate_stats::order;
use linkrate_stats::stop::{self, StopReason};

pub mod aa;
pub mod adapter;
pub mod claims;
pub mod demand;
pub mod directions;
pub mod disciplines;
pub mod effects;
pub mod failure;
pub mod imported;
pub mod knee;
pub mod limit;
pub mod line;
pub mod measures;
pub mod members;
pub mod payback;
pub mod pooled;
pub mod predicted;
pub mod published;
pub mod round_trip;
pub mod runs_by_cell;
pub mod shares;
pub mod stop_inputs;
pub mod uncertainty;
pub mod warnings;

use effects::Comparison;
use runs_by_cell::RunsByCell;

pub fn analyse(stored: &StoredStudy) -> StudyResults {
    let Some((alike, reported)) = missing_nodes::of(stored) else { return of_alike(stored) };
    let mut results = of_alike(&alike);
    if let Some(fleet) = &mut results.fleet {
        fleet.failures.push(reported);
    }
    results
}

/// Results of a study in which every run has figures (none imported).
fn of_alike(stored: &StoredStudy) -> StudyResults {
    let study = &stored.plan.study;
    let method = &study.method;
    let runs = RunsByCell::of(study, &stored.runs);
    let level = interval_confidence(stored);
    let level_of_effects = order::level_of_effects(method.order, level);
    let background = uncertainty::background_cpu(&runs, level);
    let cells: Vec<CellResult> =
        (0..study.cells.len()).map(|cell| cell_result(stored, &runs, cell, level)).collect();
    let comparisons = effects::comparisons(study);
    let limit = |cell: usize, measure| {
        limit::of_figure(measure, &study.cells[cell].spec, &study.testbed, runs.cell(cell))
    };
    let mut effects: Vec<Effect> = comparisons
        .iter()
        .flat_map(|comparison| {
            let mut effects = directions::compare(comparison, study, &runs, level_of_effects);
            of_the_machine(comparison, &cells, &limit, method.minimum_effect, &mut effects);
            if !adapter::has_one(study) {
                effects.iter_mut().for_each(|effect| effect.host_limited = None);
            }
            effects
        })
        .collect();
    claims::claim(&mut effects, method.family, method.minimum_effect, level_of_effects);
    let published = published::beside(study, &runs, &cells, level, level_of_effects);
    let is_imported = stored.plan.is_imported();
    let in_blocks = !is_imported || live::is_live(study);
    let of_all = |planned: Duration, reported: fn(&Imported) -> Option<f64>| match is_imported {
        true => imported::of_all(stored, reported),
        false => Some(planned.as_secs_f64()),
    };
    let aa = aa::of(study, &runs, level_of_effects);
    let mut warnings = warnings::warnings(stored, &runs, background.map(|interval| interval.mean));
    warnings.extend(aa.as_ref().and_then(|found| aa::warning(found, method.minimum_effect)));
    StudyResults {
        format: RESULTS_FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        results: match stored.directory.as_os_str().is_empty() {
            true => String::new(),
            false => directory::name(&study.name, stored.plan.started_unix_ms),
        },
        started_unix_ms: stored.plan.started_unix_ms,
        linkrate_version: stored.plan.linkrate_version.clone(),
        seed: method.seed.filter(|_| in_blocks),
        run_seconds: of_all(method.run, |run| run.found.seconds),
        warm_up_seconds: of_all(method.warm_up, |run| run.asked.warm_up_seconds),
        confidence: method.confidence,
        interval_confidence: level,
        effect_interval_confidence: level_of_effects,
        minimum_effect: method.minimum_effect,
        family: method.family,
        adapter: adapter::names(study),
        scale: study.testbed.scale,
        complete: stored.ended.as_ref().is_some_and(Ended::is_complete),
        stopped: stored
            .ended
            .as_ref()
            .map_or_else(|| "still running, or killed".to_owned(), Ended::to_string),
        // runs of other programs are in no blocks
        blocks: if in_blocks { runs.whole_blocks(study) } else { 0 },
        fleet: fleet::results::of(stored),
        imported: imported::runs(stored),
        windows: knee::of(&cells),
        aa,
        payback: payback::of(study, &runs, &effects, level, level_of_effects),
        cells,
        effects,
        published,
        background_cpu: background.map(|interval| Quantity { interval, unit: Unit::Percent }),
        facts: stored.plan.facts.clone(),
        failures: failures(stored),
        warnings,
        directory: stored.directory.display().to_string(),
        runs: stored.runs.clone(),
        plan: Some(Box::new(stored.plan.clone())),
    }
}

/// Says of the effects of a comparison whether they are of this machine, and which of them are the same fact. `limit` is what
/// a cell's figure can be at most, and `minimum` the smallest change that matters, a fraction.
fn of_the_machine(
    comparison: &Comparison,
    cells: &[CellResult],
    limit: &dyn Fn(usize, Measure) -> Option<f64>,
    minimum: f64,
    effects: &mut [Effect],
) {
    let ends = [comparison.from_cell, comparison.to_cell];
    let verdicts = ends.map(|cell| cells.get(cell).map(|cell| &cell.verdict));
    let all = |holds: fn(&verdict::Verdict) -> bool| {
        verdicts.iter().all(|verdict| verdict.is_some_and(holds))
    };
    let at_limits = all(verdict::Verdict::is_at_its_limit);
    let host_limited = verdict::Verdict::any_of_the_host(
        verdicts.iter().map(|verdict| verdict.and_then(verdict::Verdict::is_of_the_host)),
    );
    // whether the change is that of the limits, as far as can be seen
    let is_of_limits = |effect: &Effect| {
        let [Some(from), Some(to)] = ends.map(|cell| limit(cell, effect.measure)) else {
            return false;
        };
        let of_set = |ratio: f64| ratio * from / to;
        let ratio = Interval {
            mean: of_set(effect.ratio.mean),
            low: effect.ratio.low.map(of_set),
            high: effect.ratio.high.map(of_set),
        };
        from != to && (!excludes(&ratio, 1.0) || claims::is_within(&ratio, minimum))
    };
    // a full CPU beside one that is not leaves the throughput free
    let is_full = |cell: usize| {
        let cpu = cells.get(cell).and_then(|cell| cell.cpu);
        cpu.is_some_and(|cpu| cpu.interval.mean >= verdict::CPU_BOUND_PERCENT)
    };
    let is_inverse =
        all(verdict::Verdict::is_bound_by_the_suts_cpu) && ends.into_iter().all(is_full);
    for effect in effects {
        effect.host_limited = host_limited;
        let is_rate = effect.measure.is_rate();
        effect.same_as = if is_inverse && is_rate && effect.measure.is_whole() {
            Some(Fact::ServiceDemand)
        } else {
            (at_limits && is_rate && is_of_limits(effect)).then_some(Fact::Limit)
        };
    }
}

/// The level at which t intervals are computed so that they cover the truth with the study's
/// confidence: higher if the study ended early because its figures were precise.
pub(crate) fn interval_confidence(stored: &StoredStudy) -> f64 {
    let method = &stored.plan.study.method;
    match stored.ended {
        Some(Ended::Rule(StopReason::Precision { blocks, .. })) => {
            stop::level(method.confidence, blocks, method.max_blocks)
        }
        // no other end of a study depends on widths
        _ => method.confidence,
    }
}

fn cell_result(
    stored: &StoredStudy,
    runs: &RunsByCell<'_>,
    index: usize,
    level: f64,
) -> CellResult {
    let study = &stored.plan.study;
    let cell = &study.cells[index];
    let transactional = cell.spec.is_transactional();
    let of_cell = runs.cell(index);
    let good = of_cell.iter().filter(|run| run.is_good()).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let limit_of = |measure| limit::of_figure(measure, &cell.spec, &study.testbed, of_cell);
    let quantity = |measure: Measure| {
        let values: Vec<f64> =
            of_cell.iter().filter_map(|run| measures::figure(measure, run)).collect();
        let interval: Option<Interval> = of_mean(&values, level);
        let interval = uncertainty::of_runs(of_cell, measure).widen_mean(interval?);
        let interval = interval.within(limit_of(measure));
        Some(Quantity { interval, unit: measure.unit(transactional) })
    };
    let measured: Vec<_> = of_cell.iter().filter_map(|run| run.measurement()).collect();
    CellResult {
        levels: cell.levels.clone(),
        runs: count(good),
        failed: count(of_cell.len() - good),
        left_out: runs.left_out(index),
        two_groups: warnings::scatter::two_groups(
            runs,
            index,
            study.method.precision,
            match transactional {
                true => &[Measure::Transactions, Measure::ServiceDemand],
                false => &[Measure::Throughput, Measure::ServiceDemand],
            },
        ),
        shared_cpus: (!stored.plan.is_imported())
            .then(|| measured.iter().any(|measurement| measurement.sut_cpu.shared)),
        throughput: quantity(Measure::Throughput),
        directions: directions::of_cell(&cell.spec, &study.testbed, of_cell, level),
        predicted: predicted::of_cell(of_cell, &study.testbed),
        limit: limit_of(Measure::Throughput).map(|mean| Quantity {
            interval: Interval { mean, low: None, high: None },
            unit: Unit::BitsPerSecond,
        }),
        transactions: quantity(Measure::Transactions).filter(|_| transactional),
        completed: cell.spec.item().filter(|item| *item != Item::Transaction).and_then(|item| {
            let rate = quantity(Measure::Transactions)?;
            Some(Quantity { unit: Unit::rate_of(item), ..rate })
        }),
        mix: pooled::of_mix(&cell.spec, of_cell, &limit_of, pooled::Method::of(study, level)),
        service_demand: quantity(Measure::ServiceDemand),
        service_demand_parts: demand::of_cell(of_cell, level),
        cpu: quantity(Measure::Cpu),
        latency: measures::latency(of_cell, pooled::Method::of(study, level)),
        of_loop: match &cell.spec.task {
            Task::Workload(workload) => workload.loop_of_items(),
            Task::Idle => None,
        },
        round_trip: round_trip::of_cell(of_cell),
        evidence: CellEvidence {
            line: line::of_cell(&cell.spec, &study.testbed, &measured),
            ..measures::evidence(of_cell)
        },
        attribution: attribution::of_runs(of_cell.iter().filter_map(|run| run.measurement())),
        failure: failure::of_runs(
            &cell.spec,
            of_cell.iter().filter_map(|run| run.measurement()),
            level,
        ),
        verdict: match stored.plan.is_imported() {
            true => verdict::Verdict::of_imported(),
            false => shares::verdict(of_cell.iter().copied(), study.testbed.scale),
        },
    }
}

fn failures(stored: &StoredStudy) -> Vec<FailedRun> {
    stored
        .runs
        .iter()
        .filter_map(|run| {
            let failure = run.failure()?;
            Some(FailedRun {
                block: run.block,
                idle: run.cell.is_none(),
                levels: run
                    .cell
                    .and_then(|cell| stored.plan.study.cell(cell))
                    .map_or_else(Levels::default, |cell| cell.levels.clone()),
                stage: failure.stage,
                reason: failure.reason.clone(),
                disturbed: failure.disturbed,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
