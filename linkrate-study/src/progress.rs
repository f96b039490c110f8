//! A look at a study while it runs, from its stored runs alone: how far each figure's interval has
//! shrunk, what the stop rule waits for, how long it is likely to take.
//!
//! A look needs nothing from the process that runs the study, and sees the same as its stop rule
//! sees, because both make it of the same runs by the same functions.

use std::time::Duration;

use serde::Serialize;

use crate::analysis::effects::comparisons;
use crate::analysis::runs_by_cell::RunsByCell;
use crate::analysis::stop_inputs::stop_inputs;
use crate::analysis::{adapter, shares, uncertainty};
use crate::levels::Levels;
use crate::quantity::{Interval, Measure, Quantity};
use crate::store::{StoredPlan, StoredStudy};
use crate::study::Study;
use linkrate_stats::interval::{of_mean, relative_half_width};
use linkrate_stats::stop::{self, Decision, Progress, Rule, StopInput, Wanting};

/// A study at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyProgress {
    /// Name of the study.
    pub study: String,
    /// Its title.
    pub title: String,
    /// Blocks of which every run is stored.
    pub blocks: u32,
    /// The block after which precision is looked at first.
    pub first_check: u32,
    /// Most blocks.
    pub max_blocks: u32,
    /// Stored runs of the block under way, the idle run included.
    pub run: u32,
    /// Runs of a block, the idle run included.
    pub runs_per_block: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Half-width to reach, as a fraction of the mean.
    pub precision: f64,
    /// Figures the stop rule looks at: those of the cells and every effect.
    pub metrics: u32,
    /// Those as precise as they must be.
    pub precise: u32,
    /// The least precise of them; absent until every figure has an interval.
    pub widest: Option<Widest>,
    /// What the stop rule waits for, as a clause; absent when it waits for nothing.
    pub wanting: Option<String>,
    /// Time left; absent before the first run and after the last.
    pub left: Option<TimeLeft>,
    /// Why the study ended; absent while it runs, or if it was killed.
    pub ended: Option<String>,
    /// Each cell.
    pub cells: Vec<CellProgress>,
}

/// The least precise figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Widest {
    /// Its name, for people.
    pub name: String,
    /// Half-width as a fraction of the mean.
    pub half_width: f64,
}

/// An estimate of the time left, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeLeft {
    /// If half-widths shrink as they should.
    pub likely_seconds: f64,
    /// If the most blocks are run, or the budget is spent.
    pub at_most_seconds: f64,
}

/// A cell at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellProgress {
    /// Its levels.
    pub levels: Levels,
    /// Good runs.
    pub runs: u32,
    /// Whether something other than the adapter limits it, so that its figures are of this machine; absent without a
    /// good run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_limited: Option<bool>,
    /// Its rate and its service demand; those without a good run are left out.
    pub metrics: Vec<FigureProgress>,
}

/// A figure of a cell at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureProgress {
    /// What is measured.
    pub measure: Measure,
    /// Its mean, with the interval that the stop rule looks at.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Half-width as a fraction of the mean; absent with one run.
    pub half_width: Option<f64>,
    /// The same after two runs, after three, and so on to now.
    pub history: Vec<f64>,
}

impl StudyProgress {
    /// Looks at a study as it is stored. `now_unix_ms` is the time of day, for the budget.
    pub fn of(stored: &StoredStudy, now_unix_ms: u64) -> Self {
        let study = &stored.plan.study;
        let method = &study.method;
        let runs = RunsByCell::of(study, &stored.runs);
        let blocks = runs.complete_blocks(study);
        let rule = method.stop_rule();
        let figures = stop_inputs(study, &comparisons(study), &runs, blocks);
        let widths: Option<Vec<f64>> =
            figures.iter().map(|figure| relative_half_width(&figure.interval)).collect();
        let widest = widths.and_then(|widths| {
            let of_goal = |(half, figure): &(&f64, &StopInput)| **half / figure.goal;
            let most = widths.iter().zip(&figures);
            let most = most.max_by(|a, b| of_goal(a).total_cmp(&of_goal(b)));
            most.map(|(half, figure)| Widest { name: figure.name.clone(), half_width: *half })
        });
        let precise = figures.iter().filter(|figure| {
            relative_half_width(&figure.interval).is_some_and(|half| half <= figure.goal)
        });
        let timing = Timing::of(stored, blocks, now_unix_ms);
        let progress = timing.progress(blocks);
        let waits_for = match stop::decide(&Rule { budget: None, ..rule }, &progress, &figures) {
            _ if stored.ended.is_some() => None,
            Decision::Continue(wanting) => Some(clause(&wanting)),
            Decision::Stop(_) => None,
        };
        let level = stop::level(method.confidence, blocks, method.max_blocks);
        let left = timing.left(&rule, blocks, || {
            let looked_at = if blocks < rule.first_look() { &[] } else { &figures[..] };
            stop::blocks_to_go(&rule, &progress, looked_at)
        });
        Self {
            study: study.name.clone(),
            title: study.title.clone(),
            blocks,
            first_check: rule.first_look(),
            max_blocks: method.max_blocks,
            run: timing.run,
            runs_per_block: timing.runs_per_block,
            failed: count(stored.runs.iter().filter(|run| run.failure().is_some()).count()),
            precision: method.precision,
            metrics: count(figures.len()),
            precise: count(precise.count()),
            widest,
            wanting: waits_for,
            left: left.filter(|_| stored.ended.is_none()),
            ended: stored.ended.as_ref().map(ToString::to_string),
            cells: (0..study.cells.len())
                .map(|cell| cell_progress(study, &runs, cell, level))
                .collect(),
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn clause(wanting: &Wanting) -> String {
    match wanting {
        Wanting::Blocks { missing: 1 } => "one more block before precision counts".to_owned(),
        Wanting::Blocks { missing } => {
            format!("{missing} more blocks before precision counts")
        }
        Wanting::Runs { name } => format!("a second good run for {name}"),
        Wanting::Precision { name, half_width, goal } => {
            format!("{name}: ±{:.2} %, expected ±{:.2} %", half_width * 100.0, goal * 100.0)
        }
    }
}

fn cell_progress(study: &Study, runs: &RunsByCell<'_>, index: usize, level: f64) -> CellProgress {
    let cell = &study.cells[index];
    let transactional = cell.spec.is_transactional();
    let rate = if transactional { Measure::Transactions } else { Measure::Throughput };
    let figures = [rate, Measure::ServiceDemand].into_iter().filter_map(|measure| {
        let values: Vec<f64> = runs.by_block(index, measure).into_values().collect();
        let interval: Interval = of_mean(&values, level)?;
        let interval = uncertainty::of_cell(runs, index, measure).widen_mean(interval);
        let so_far = (2..=values.len()).filter_map(|n| of_mean(&values[..n], level));
        Some(FigureProgress {
            measure,
            quantity: Quantity { interval, unit: measure.unit(transactional) },
            half_width: relative_half_width(&interval),
            history: so_far.filter_map(|interval| relative_half_width(&interval)).collect(),
        })
    });
    let good = runs.cell(index).iter().filter(|run| run.is_good());
    let verdict = shares::verdict(runs.cell(index).iter().copied(), study.testbed.scale);
    CellProgress {
        levels: cell.levels.clone(),
        runs: count(good.count()),
        host_limited: verdict.is_of_the_host().filter(|_| adapter::has_one(study)),
        metrics: figures.collect(),
    }
}

/// What the times at which runs began say about how long it all takes.
struct Timing {
    /// Stored runs of the block under way.
    run: u32,
    runs_per_block: u32,
    /// From the beginning of a run to that of the next one, on average; absent before two runs.
    run_time: Option<Duration>,
    /// Time since the session began.
    elapsed: Duration,
}

impl Timing {
    fn of(stored: &StoredStudy, blocks: u32, now_unix_ms: u64) -> Self {
        let (plan, study) = (&stored.plan, &stored.plan.study);
        let idle = u32::from(!study.method.idle.is_zero());
        let runs_per_block = study.runs_of_cells().saturating_add(idle);
        let whole = blocks.saturating_mul(runs_per_block);
        let began = session_began(plan, u64::MAX);
        let gaps: Vec<u64> = stored
            .runs
            .windows(2)
            // a pause between two sessions is no run's time
            .filter(|pair| {
                let [from, to] = [pair[0].started_unix_ms, pair[1].started_unix_ms];
                session_began(plan, from) == session_began(plan, to)
            })
            .map(|pair| pair[1].started_unix_ms.saturating_sub(pair[0].started_unix_ms))
            .collect();
        let total: u64 = gaps.iter().fold(0, |sum, gap| sum.saturating_add(*gap));
        Self {
            run: count(stored.runs.len()).saturating_sub(whole),
            runs_per_block,
            run_time: Duration::from_millis(total).checked_div(count(gaps.len())),
            elapsed: Duration::from_millis(now_unix_ms.saturating_sub(began)),
        }
    }

    fn progress(&self, blocks: u32) -> Progress {
        let block_time = self.run_time.map(|run| run.saturating_mul(self.runs_per_block));
        Progress { blocks, elapsed: self.elapsed, block_time }
    }

    fn left(&self, rule: &Rule, blocks: u32, to_go: impl Fn() -> u32) -> Option<TimeLeft> {
        let run_time = self.run_time?;
        let for_blocks = |more: u32| {
            let runs = more.saturating_mul(self.runs_per_block).saturating_sub(self.run);
            run_time.saturating_mul(runs)
        };
        // the budget holds for blocks not yet begun; the rest of this one is run in any case
        let rest = if self.run > 0 { for_blocks(1) } else { Duration::ZERO };
        let cap = rule
            .budget
            .map_or(Duration::MAX, |budget| budget.saturating_sub(self.elapsed).max(rest));
        let to_go = to_go().max(u32::from(self.run > 0));
        Some(TimeLeft {
            likely_seconds: for_blocks(to_go).min(cap).as_secs_f64(),
            at_most_seconds: for_blocks(rule.max_blocks.saturating_sub(blocks))
                .min(cap)
                .as_secs_f64(),
        })
    }
}

/// When the session began that was under way at a time.
fn session_began(plan: &StoredPlan, at_unix_ms: u64) -> u64 {
    let resumed = plan.resumed.iter().map(|session| session.started_unix_ms);
    let before = resumed.filter(|began| *began <= at_unix_ms);
    before.fold(plan.started_unix_ms, u64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Facts;
    use crate::fixture;
    use crate::store::plan::Session;
    use crate::store::{Ended, StoredRun};

    const BEGAN: u64 = 1_795_273_920_000;

    /// The first `count` runs of the ladder without idle runs, three seconds apart, with the
    /// throughput of `none` scattering by 10 %.
    fn ladder(count: u32) -> StoredStudy {
        let mut study = fixture::ladder();
        study.method.idle = Duration::ZERO;
        study.method.max_blocks = 12;
        let runs: Vec<StoredRun> = (0..count)
            .map(|n| {
                let (block, cell) = (n / 3, n % 3);
                let swing = if block % 2 == 0 { 1.1 } else { 0.9 };
                let rate = [6e9 * swing, 12e9, 24e9][cell as usize];
                fixture::run(n, block, Some(cell), fixture::stream(rate, 0.5))
            })
            .collect();
        let plan = StoredPlan::new(study.clone(), Facts::default(), BEGAN);
        StoredStudy { plan, ..fixture::under_way(study, runs) }
    }

    /// A cost looks as uncertain while the study runs as in its results.
    #[test]
    fn what_other_programs_leave_uncertain_is_in_a_look() {
        let demand = |stored: &StoredStudy| {
            let look = StudyProgress::of(stored, BEGAN);
            let cost = |figure: &&FigureProgress| figure.measure == Measure::ServiceDemand;
            look.cells[1].metrics.iter().find(cost).unwrap().quantity.interval
        };
        let mut stored = ladder(9);
        let calm = demand(&stored);
        for run in &mut stored.runs {
            if let crate::store::Outcome::Measured(run) = &mut run.outcome {
                let cpu_ns = run.sut_cpu.busy_ns() / 50;
                run.sut_cpu.background = fixture::roaming(cpu_ns);
            }
        }
        let uncertainty = demand(&stored);
        assert_eq!((uncertainty.mean, uncertainty.high), (calm.mean, calm.high));
        let lower = (calm.low.unwrap() - uncertainty.low.unwrap()) / calm.mean;
        assert!((lower - 0.02).abs() < 1e-9, "{uncertainty:?}");
    }

    #[test]
    fn shows_the_figure_that_the_stop_rule_waits_for() {
        let look = StudyProgress::of(&ladder(0), BEGAN);
        assert_eq!((look.blocks, look.first_check, look.left), (0, 5, None));
        let waits = "5 more blocks before precision counts";
        assert_eq!(look.wanting.as_deref(), Some(waits));

        let look = StudyProgress::of(&ladder(3 * 6 + 2), BEGAN);
        assert_eq!((look.blocks, look.run, look.runs_per_block), (6, 2, 3));
        // both figures of three cells, and two of three effects each
        assert_eq!(look.metrics, 12);
        // those of none and of what is compared with it are not
        assert_eq!(look.precise, 6);
        let widest = look.widest.unwrap();
        assert!(widest.half_width > 0.09, "{widest:?}");
        assert_eq!(widest.name, "service demand of TSO over no offload");
        assert!(look.wanting.unwrap().starts_with(&widest.name));
        let none = &look.cells[0].metrics[0];
        assert_eq!((none.measure, look.cells[0].runs), (Measure::Throughput, 7));
        assert_eq!(none.history.len(), 6);
        assert_eq!(none.history.last().copied(), none.half_width);
        assert_eq!(look.cells[2].metrics[0].half_width, Some(0.0));
        // a veth is no adapter, and without a run nothing is known
        let of_host = |stored: &StoredStudy| -> Vec<Option<bool>> {
            let look = StudyProgress::of(stored, BEGAN);
            look.cells.iter().map(|cell| cell.host_limited).collect()
        };
        assert_eq!(of_host(&ladder(20)), [None; 3]);
        let on_adapter = |runs| {
            let mut stored = ladder(runs);
            stored.plan.study.testbed.adapter = fixture::gigabit();
            stored
        };
        assert_eq!(of_host(&on_adapter(20)), [Some(true); 3]);
        assert_eq!(of_host(&on_adapter(0)), [None; 3]);
    }

    #[test]
    fn time_runs_down_and_a_pause_is_no_run() {
        let left = |stored: &StoredStudy, now| StudyProgress::of(stored, now).left.unwrap();
        let three = left(&ladder(9), BEGAN + 27_000);
        assert!((three.likely_seconds - 18.0).abs() < 1e-9, "two of five blocks: {three:?}");
        assert!((three.at_most_seconds - 81.0).abs() < 1e-9);
        let some = left(&ladder(11), BEGAN + 33_000);
        assert!((some.likely_seconds - 12.0).abs() < 1e-9, "{some:?}");

        let mut resumed = ladder(11);
        for run in &mut resumed.runs[6..] {
            run.started_unix_ms += 3_600_000;
        }
        let session = Session::new(Facts::default(), BEGAN + 3_600_000 + 17_000, None);
        resumed.plan.resumed.push(session);
        assert!((left(&resumed, BEGAN).likely_seconds - 12.0).abs() < 1e-9);

        let mut budgeted = ladder(9);
        budgeted.plan.study.method.budget = Some(Duration::from_secs(40));
        let capped = left(&budgeted, BEGAN + 27_000);
        assert!((capped.at_most_seconds - 13.0).abs() < 1e-9, "{capped:?}");
    }

    #[test]
    fn reports_the_end_without_waiting() {
        let mut stored = ladder(9);
        stored.ended = Some(Ended::Interrupted);
        let look = StudyProgress::of(&stored, BEGAN);
        assert_eq!(look.ended.as_deref(), Some("interrupted"));
        assert_eq!((look.wanting, look.left), (None, None));
    }
}
