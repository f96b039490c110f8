//! Runs a study: block after block, each run stored the moment it ends.
//!
//! The runner is a function of the store, the executor and the clock. A run that is stored is
//! not run again, and the order of the other runs comes from the study's seed alone, so that an
//! interrupted study, resumed, makes exactly the runs it would have made.
//!
//! A block of which something from outside spoiled a run falls as a whole, and another one is run in its place.
//!
//! Any other failed run is a result: stored, and not tried again. A retry would hide that
//! it failed, and a cell that always fails would hold up the others. A cell that fails in every
//! block is therefore asked once per block until the stop rule, which ignores it, ends the study.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linkrate_model::spec::Task;
use linkrate_model::{InterfaceKnobs, RunSpec, SocketKnobs};

use crate::analysis::effects::{Comparison, comparisons};
use crate::analysis::runs_by_cell::{RunsByCell, fallen_blocks};
use crate::analysis::stop_inputs::{self, CellPrecision};
use crate::executor::{Executor, Facts, RunFailure, Stage};
use crate::levels::Levels;
use crate::schedule::{Slot, block_order, estimate};
use crate::store::{Ended, Outcome, RunStore, StoreError, StoredRun};
use crate::study::{OnFailure, Study};
use linkrate_stats::stop::{self, Decision, Progress, StopInput, StopReason};

/// Time, so that tests need not wait for it.
pub trait Clock {
    /// Time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
    /// Milliseconds since 1970-01-01 UTC.
    fn unix_ms(&self) -> u64;
}

/// The system's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    since: Instant,
}

impl SystemClock {
    /// A clock whose [`Clock::elapsed`] counts from now.
    pub fn start() -> Self {
        Self { since: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    fn unix_ms(&self) -> u64 {
        // a clock before 1970 is wrong in any case, and no reason to lose a run
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Receives the events of a session, for progress bars and logs.
pub trait Observer {
    fn event(&mut self, event: &Event<'_>);
}

/// An observer that ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}

/// What happens while a study runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The session begins.
    SessionStarted {
        study: &'a Study,
        /// Runs that are stored already.
        stored: usize,
        /// What has changed on the testbed since the study began, as sentences.
        changed_facts: Vec<String>,
        remaining: Remaining,
    },
    /// A run begins.
    RunStarted {
        /// Its block, from 0.
        block: u32,
        /// Its position in the block, from 0.
        position: u32,
        /// Runs of a block.
        of: u32,
        /// Its cell; `None` for the idle run.
        cell: Option<u32>,
        /// The cell's levels; empty for the idle run.
        levels: &'a Levels,
        spec: &'a RunSpec,
        /// Names of the nodes of a fleet between which it is.
        pair: Option<(&'a str, &'a str)>,
    },
    /// A run has ended and is stored.
    RunEnded {
        run: &'a StoredRun,
        /// How long it took, knobs and evidence included.
        took: Duration,
        remaining: Remaining,
    },
    /// Every run of a block is stored.
    BlockEnded {
        /// The block, from 0.
        block: u32,
        cells: &'a [CellPrecision],
        /// The effects that the stop rule looks at.
        effects: &'a [StopInput],
        decision: &'a Decision,
        remaining: Remaining,
    },
    /// The session is over.
    SessionEnded { ended: &'a Ended },
}

/// An estimate of the time left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    /// If half-widths shrink as they should.
    pub likely: Duration,
    /// If the most blocks are run, or the budget is spent.
    pub at_most: Duration,
}

/// Why a study could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A run could not be stored. Going on would measure for nothing.
    #[error("cannot store the study's runs")]
    Store(#[from] StoreError),
    /// The study has no nodes.
    #[error("this is not a fleet study")]
    NoFleet,
}

impl RunnerError {
    /// The remedy, for a `hint:` line below the message and its causes.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::NoFleet => None,
        }
    }
}

/// Runs the study in `store` until its stop rule, a failure that ends it, or `stop` says yes
/// (asked before each run), and writes down why it ended.
///
/// The budget counts the time of this session alone: a study resumed after its budget was spent gets it again. At least
/// one block is run in each session, because only then the time of a block is known. Failures of runs are no errors but
/// results.
pub fn run_study(
    executor: &mut dyn Executor,
    store: &mut dyn RunStore,
    clock: &dyn Clock,
    stop: &dyn Fn() -> bool,
    observer: &mut dyn Observer,
) -> Result<Ended, RunnerError> {
    let (study, changed_facts) = begin(executor.facts(), store, clock)?;
    let mut session = Session::new(&study, store, clock);
    let remaining = session.time_for(0, session.blocks_to_go, session.blocks);
    let stored = store.runs().len();
    observer.event(&Event::SessionStarted { study: &study, stored, changed_facts, remaining });
    let ended = session.run(executor, store, stop, observer)?;
    finish(ended, store, observer)
}

/// Writes down that a session begins on hosts with these facts. Gives back the study, and the facts that are
/// other ones than those of the first session.
pub(crate) fn begin(
    facts: Facts,
    store: &mut dyn RunStore,
    clock: &dyn Clock,
) -> Result<(Study, Vec<String>), RunnerError> {
    let changed_facts = store.plan().changed_facts(&facts);
    store.begin_session(facts, clock.unix_ms())?;
    Ok((store.plan().study.clone(), changed_facts))
}

/// Writes down why a session has ended, and tells it.
pub(crate) fn finish(
    ended: Ended,
    store: &mut dyn RunStore,
    observer: &mut dyn Observer,
) -> Result<Ended, RunnerError> {
    store.finish(&ended)?;
    observer.event(&Event::SessionEnded { ended: &ended });
    Ok(ended)
}

/// One session and the times it has measured.
struct Session<'a> {
    study: &'a Study,
    comparisons: Vec<Comparison>,
    clock: &'a dyn Clock,
    started: Duration,
    /// Time and number of the runs of this session.
    run_time: (Duration, u32),
    /// Time and number of its blocks.
    block_time: (Duration, u32),
    /// Blocks that were complete when the stop rule was last asked.
    blocks: u32,
    /// How many more were to be expected then.
    blocks_to_go: u32,
}

impl<'a> Session<'a> {
    fn new(study: &'a Study, store: &dyn RunStore, clock: &'a dyn Clock) -> Self {
        let mut session = Self {
            study,
            comparisons: comparisons(study),
            clock,
            started: clock.elapsed(),
            run_time: (Duration::ZERO, 0),
            block_time: (Duration::ZERO, 0),
            blocks: 0,
            blocks_to_go: 0,
        };
        let runs = RunsByCell::of(study, store.runs());
        let blocks = runs.complete_blocks(study);
        let stop_inputs = stop_inputs::stop_inputs(study, &session.comparisons, &runs, blocks);
        session.expect(blocks, &stop_inputs);
        session
    }

    fn run(
        &mut self,
        executor: &mut dyn Executor,
        store: &mut dyn RunStore,
        stop: &dyn Fn() -> bool,
        observer: &mut dyn Observer,
    ) -> Result<Ended, RunnerError> {
        let mut stored: HashSet<(u32, Option<u32>)> =
            store.runs().iter().map(|run| (run.block, run.cell)).collect();
        let last_block = store.runs().iter().map(|run| run.block).max();
        let mut used = false;
        let max_blocks = self.study.method.max_blocks;
        // a block that falls is repeated
        for block in 0..self.study.most_turns() {
            let fallen = fallen_blocks(self.study, store.runs());
            let whole = block.saturating_sub(number(fallen.range(..block).count()));
            if whole >= max_blocks {
                return Ok(Ended::Rule(StopReason::MaxBlocks { blocks: whole }));
            }
            if fallen.contains(&block) {
                continue;
            }
            let order = block_order(self.study, block);
            let missing = order.iter().filter(|slot| !stored.contains(&(block, slot.cell))).count();
            if missing == 0 && last_block.is_some_and(|last| last > block) {
                // the rule was asked after this block when it was run, and said to continue
                continue;
            }
            let began = self.clock.elapsed();
            // a session begins on a testbed of its own
            if used && missing > 0 && self.study.method.rebuild {
                executor.rebuild();
            }
            used |= missing > 0;
            let mut left = missing;
            for (position, slot) in order.iter().enumerate() {
                if !stored.insert((block, slot.cell)) {
                    continue;
                }
                if stop() {
                    return Ok(Ended::Interrupted);
                }
                left = left.saturating_sub(1);
                let place = Place { block, position, of: order.len(), left };
                if let Some(ended) = self.one_run(executor, store, stop, observer, &place, slot)? {
                    return Ok(ended);
                }
                // its other runs would be left out
                if store.runs().last().is_some_and(is_disturbed)
                    && fallen_blocks(self.study, store.runs()).contains(&block)
                {
                    break;
                }
            }
            self.block_took(self.clock.elapsed().saturating_sub(began), missing, order.len());
            if let Some(reason) = self.after_block(store, observer, block, missing > 0) {
                return Ok(Ended::Rule(reason));
            }
        }
        let blocks = RunsByCell::of(self.study, store.runs()).complete_blocks(self.study);
        Ok(Ended::Rule(StopReason::MaxBlocks { blocks }))
    }

    /// Makes and stores one run; gives back why the study must end, if it must.
    fn one_run(
        &mut self,
        executor: &mut dyn Executor,
        store: &mut dyn RunStore,
        stop: &dyn Fn() -> bool,
        observer: &mut dyn Observer,
        place: &Place,
        slot: &Slot,
    ) -> Result<Option<Ended>, RunnerError> {
        store.check()?;
        let (levels, spec) = asked(self.study, slot);
        observer.event(&Event::RunStarted {
            block: place.block,
            position: number(place.position),
            of: number(place.of),
            cell: slot.cell,
            levels: &levels,
            spec: &spec,
            pair: None,
        });
        let started_unix_ms = self.clock.unix_ms();
        let began = self.clock.elapsed();
        let outcome = match executor.run(&spec) {
            Ok(measurement) => Outcome::Measured(Box::new(measurement)),
            // a failure after the user asked to stop says nothing about the cell
            Err(failure) if failure.stage == Stage::Interrupted || stop() => {
                return Ok(Some(Ended::Interrupted));
            }
            Err(failure) => Outcome::Failed(failure),
        };
        let took = self.clock.elapsed().saturating_sub(began);
        self.run_time = (self.run_time.0 + took, self.run_time.1 + 1);

        let sequence = store.next_sequence();
        let (block, cell) = (place.block, slot.cell);
        let run = StoredRun {
            sequence,
            block,
            cell,
            pair: None,
            missing_nodes: Vec::new(),
            started_unix_ms,
            spec,
            outcome,
        };
        store_run(store, run)?;
        // this block is one of those that were to be expected
        let to_go = self.blocks_to_go.saturating_sub(1);
        let remaining = self.time_for(place.left, to_go, place.block + 1);
        let Some(run) = store.runs().last() else { return Ok(None) };
        observer.event(&Event::RunEnded { run, took, remaining });
        Ok(run.failure().and_then(|failure| ends_it(self.study, failure)))
    }

    /// Asks the stop rule after a block. A block that was stored by an earlier session says
    /// nothing about this one's budget.
    fn after_block(
        &mut self,
        store: &dyn RunStore,
        observer: &mut dyn Observer,
        block: u32,
        ran: bool,
    ) -> Option<StopReason> {
        let runs = RunsByCell::of(self.study, store.runs());
        let blocks = (block + 1).saturating_sub(number(runs.fallen().range(..=block).count()));
        let mut stop_inputs = stop_inputs::of_cells(self.study, &runs, blocks);
        let of_cells = stop_inputs.len();
        stop_inputs.extend(stop_inputs::of_effects(self.study, &self.comparisons, &runs, blocks));
        let mut rule = self.study.method.stop_rule();
        if !ran {
            rule.budget = None;
        }
        let decision = stop::decide(&rule, &self.progress(blocks), &stop_inputs);
        self.expect(blocks, &stop_inputs);
        if ran {
            let remaining = match &decision {
                Decision::Continue(_) => self.time_for(0, self.blocks_to_go, blocks),
                Decision::Stop(_) => Remaining { likely: Duration::ZERO, at_most: Duration::ZERO },
            };
            observer.event(&Event::BlockEnded {
                block,
                cells: &stop_inputs::precisions(self.study, &runs, blocks),
                effects: &stop_inputs[of_cells..],
                decision: &decision,
                remaining,
            });
        }
        match decision {
            Decision::Continue(_) => None,
            Decision::Stop(reason) => Some(reason),
        }
    }

    /// Learns how many blocks are to be expected after `blocks` complete ones.
    fn expect(&mut self, blocks: u32, stop_inputs: &[StopInput]) {
        let rule = self.study.method.stop_rule();
        // widths from two or three runs forecast nothing; until the first look, that block is the
        // forecast
        let stop_inputs = if blocks < rule.first_look() { &[] } else { stop_inputs };
        self.blocks = blocks;
        self.blocks_to_go = stop::blocks_to_go(&rule, &self.progress(blocks), stop_inputs);
    }

    fn progress(&self, blocks: u32) -> Progress {
        let elapsed = self.clock.elapsed().saturating_sub(self.started);
        let (time, count) = self.block_time;
        Progress { blocks, elapsed, block_time: time.checked_div(count) }
    }

    /// Learns how long a block takes; one of which `missing` of `all` runs were made is scaled.
    fn block_took(&mut self, took: Duration, missing: usize, all: usize) {
        if missing > 0 {
            let whole = took.mul_f64(all as f64 / missing as f64);
            self.block_time = (self.block_time.0 + whole, self.block_time.1 + 1);
        }
    }

    /// The time for some runs and blocks, `begun` blocks being run already.
    fn time_for(&self, runs_left: usize, blocks_to_go: u32, begun: u32) -> Remaining {
        let planned = estimate(self.study, Duration::ZERO);
        let run = self
            .run_time
            .0
            .checked_div(self.run_time.1)
            .unwrap_or_else(|| planned.block / planned.runs_per_block.max(1));
        let progress = self.progress(begun);
        let block =
            progress.block_time.unwrap_or_else(|| run.saturating_mul(planned.runs_per_block));
        let rest = run.saturating_mul(number(runs_left));
        let most = self.study.method.max_blocks.saturating_sub(begun);
        let at_most = rest.saturating_add(block.saturating_mul(most));
        let likely = rest.saturating_add(block.saturating_mul(blocks_to_go));
        // the budget holds for blocks not yet begun; the rest of this one is run in any case
        let cap = self
            .study
            .method
            .stop_rule()
            .time_limit(progress.blocks)
            .map_or(Duration::MAX, |limit| limit.saturating_sub(progress.elapsed).max(rest));
        Remaining { likely: likely.min(cap), at_most: at_most.min(cap) }
    }
}

/// Whether something from outside spoiled a run.
fn is_disturbed(run: &StoredRun) -> bool {
    run.failure().is_some_and(|failure| failure.disturbed)
}

/// Where in a study a run stands.
struct Place {
    block: u32,
    position: usize,
    of: usize,
    /// Runs of the block still to make after this one.
    left: usize,
}

/// Whether a failure ends the study.
pub(crate) fn ends_it(study: &Study, failure: &RunFailure) -> Option<Ended> {
    if failure.fatal {
        Some(Ended::TestbedLost(failure.clone()))
    } else if study.method.on_failure == OnFailure::Stop {
        Some(Ended::RunFailed(failure.clone()))
    } else {
        None
    }
}

/// What a slot asks for.
pub(crate) fn asked(study: &Study, slot: &Slot) -> (Levels, RunSpec) {
    match slot.cell.and_then(|cell| study.cell(cell)) {
        Some(cell) => (cell.levels.clone(), RunSpec { seed: slot.seed, ..cell.spec.clone() }),
        None => (
            Levels::default(),
            RunSpec {
                task: Task::Idle,
                interface: InterfaceKnobs::default(),
                socket: SocketKnobs::default(),
                clients: 0,
                ports: None,
                adapter: None,
                warm_up: Duration::ZERO,
                duration: study.method.idle,
                profile: study.method.profile,
                event: None,
                loss_ppm: 0,
                seed: slot.seed,
            },
        ),
    }
}

/// Stores a run. Figures that the store cannot hold are no figures: the run has failed.
pub(crate) fn store_run(store: &mut dyn RunStore, mut run: StoredRun) -> Result<(), StoreError> {
    match (store.append(&run), &run.outcome) {
        (Err(StoreError::Unreadable { reason, .. }), Outcome::Measured(_)) => {
            run.outcome = Outcome::Failed(RunFailure::at(
                Stage::Measure,
                format!("a figure is not a number ({reason})"),
            ));
            store.append(&run)
        }
        (result, _) => result,
    }
}

pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
