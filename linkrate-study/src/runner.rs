//! Runs a study: block after block, each run stored the moment it ends.
//!
//! A block has rounds, which a `Schedule` gives: of a study alone each run is one, of a [fleet](crate::fleet::runner)
//! the turns of several pairs.
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

use linkrate_model::RunSpec;

use crate::analysis::effects::{Comparison, comparisons};
use crate::analysis::runs_by_cell::{RunsByCell, fallen_blocks};
use crate::analysis::stop_inputs::{self, CellPrecision};
use crate::executor::{Executor, Facts, RunFailure, Stage};
use crate::fleet::{self, Pair};
use crate::levels::Levels;
use crate::schedule::{Estimate, RUN_OVERHEAD, Slot, block_order, estimate};
use crate::store::{Ended, Outcome, RunStore, StoreError, StoredRun};
use crate::study::{Cell, OnFailure, Study};
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

/// What a session runs: rounds of one run, or of turns of a fleet.
pub(crate) trait Schedule {
    /// The rounds of a block in their order.
    fn rounds(&self, block: u32) -> Vec<Vec<Run>>;

    /// A block begins of which runs are missing.
    fn begin_block(&mut self);

    /// Makes the missing runs of a round, which `session` stores; gives back why the study must end, if it must.
    fn round(
        &mut self,
        session: &mut Session<'_>,
        round: &[Run],
    ) -> Result<Option<Ended>, RunnerError>;
}

/// A run that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Its block, or its turn in a study of a fleet.
    pub turn: u32,
    pub pair: Option<Pair>,
    /// Its position in the block or turn, from 0.
    pub position: u32,
    pub slot: Slot,
}

/// A run that was made.
pub(crate) struct Made {
    pub started_unix_ms: u64,
    pub took: Duration,
    pub outcome: Outcome,
}

/// The runs of a block, or of a turn of a fleet, in their order.
pub(crate) fn runs_of(study: &Study, turn: u32, pair: Option<Pair>) -> impl Iterator<Item = Run> {
    let slots = (0..).zip(block_order(study, turn));
    slots.map(move |(position, slot)| Run { turn, pair, position, slot })
}

/// Makes a run. `None` where it was given up because the study is to end.
pub(crate) fn make(
    executor: &mut dyn Executor,
    spec: &RunSpec,
    clock: &dyn Clock,
    ends: &dyn Fn() -> bool,
) -> Option<Made> {
    let (started_unix_ms, began) = (clock.unix_ms(), clock.elapsed());
    let outcome = match executor.run(spec) {
        Ok(measurement) => Outcome::Measured(Box::new(measurement)),
        // a failure after the user asked to stop says nothing about the cell
        Err(failure) if failure.stage == Stage::Interrupted || ends() => return None,
        Err(failure) => Outcome::Failed(failure),
    };
    Some(Made { started_unix_ms, took: clock.elapsed().saturating_sub(began), outcome })
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
    let study = store.plan().study.clone();
    let facts = executor.facts();
    let session = Session::new(&study, store, clock, stop, observer);
    session.run(&mut Alone { study: &study, executor, used: false }, facts)
}

/// A study alone: each round is one run.
struct Alone<'a> {
    study: &'a Study,
    executor: &'a mut dyn Executor,
    /// Whether the testbed has made runs.
    used: bool,
}

impl Schedule for Alone<'_> {
    fn rounds(&self, block: u32) -> Vec<Vec<Run>> {
        runs_of(self.study, block, None).map(|run| vec![run]).collect()
    }

    fn begin_block(&mut self) {
        // a session begins on a testbed of its own
        if self.used && self.study.method.rebuild {
            self.executor.rebuild();
        }
        self.used = true;
    }

    fn round(
        &mut self,
        session: &mut Session<'_>,
        round: &[Run],
    ) -> Result<Option<Ended>, RunnerError> {
        let [run] = round else { return Ok(None) };
        session.begun(run, &[]);
        let (_, spec) = asked(self.study, &run.slot, &[]);
        match make(self.executor, &spec, session.clock, session.stop) {
            Some(made) => session.ended(run, Vec::new(), made),
            None => Ok(Some(Ended::Interrupted)),
        }
    }
}

/// One session and the times it has measured.
pub(crate) struct Session<'a> {
    study: &'a Study,
    comparisons: Vec<Comparison>,
    store: &'a mut dyn RunStore,
    clock: &'a dyn Clock,
    stop: &'a dyn Fn() -> bool,
    observer: &'a mut dyn Observer,
    planned: Estimate,
    started: Duration,
    /// Time and number of the rounds of this session.
    round_time: (Duration, u32),
    /// Time and number of its blocks.
    block_time: (Duration, u32),
    /// How many more blocks were to be expected when the stop rule was last asked.
    blocks_to_go: u32,
    /// The block under way.
    block: u32,
    /// Its rounds after the one under way.
    rounds_left: usize,
    round_began: Duration,
    /// Runs of the round that are still to be stored.
    runs_left: usize,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        study: &'a Study,
        store: &'a mut dyn RunStore,
        clock: &'a dyn Clock,
        stop: &'a dyn Fn() -> bool,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let overhead = study.fleet.as_ref().map_or(Duration::ZERO, |_| RUN_OVERHEAD);
        Self {
            study,
            comparisons: comparisons(study),
            store,
            clock,
            stop,
            observer,
            planned: estimate(study, overhead),
            started: clock.elapsed(),
            round_time: (Duration::ZERO, 0),
            block_time: (Duration::ZERO, 0),
            blocks_to_go: 0,
            block: 0,
            rounds_left: 0,
            round_began: Duration::ZERO,
            runs_left: 0,
        }
    }

    /// Writes down that the session begins on hosts with these facts, runs blocks until the study must end, and writes
    /// down why.
    pub(crate) fn run(
        mut self,
        schedule: &mut dyn Schedule,
        facts: Facts,
    ) -> Result<Ended, RunnerError> {
        let changed_facts = self.store.plan().changed_facts(&facts);
        self.store.begin_session(facts, self.clock.unix_ms())?;
        let blocks = RunsByCell::of(self.study, self.store.runs()).whole_blocks(self.study);
        self.expect(blocks, &self.stop_inputs(blocks).0);
        let remaining = self.time_for(0, self.blocks_to_go, blocks);
        let (study, stored) = (self.study, self.store.runs().len());
        self.observer.event(&Event::SessionStarted { study, stored, changed_facts, remaining });
        let ended = self.blocks(schedule)?;
        self.store.finish(&ended)?;
        self.observer.event(&Event::SessionEnded { ended: &ended });
        Ok(ended)
    }

    fn blocks(&mut self, schedule: &mut dyn Schedule) -> Result<Ended, RunnerError> {
        let stored: HashSet<(u32, Option<u32>)> =
            self.store.runs().iter().map(|run| (run.block, run.cell)).collect();
        let last_block = stored.iter().map(|(turn, _)| turn / self.study.turns()).max();
        // a block that falls is repeated
        for block in 0..self.study.most_turns() {
            let fallen = fallen_blocks(self.study, self.store.runs());
            let blocks = block.saturating_sub(number(fallen.range(..block).count()));
            if blocks >= self.study.method.max_blocks {
                return Ok(Ended::Rule(StopReason::MaxBlocks { blocks }));
            }
            if fallen.contains(&block) {
                continue;
            }
            let mut rounds = schedule.rounds(block);
            let all = rounds.len();
            for round in &mut rounds {
                round.retain(|run| !stored.contains(&(run.turn, run.slot.cell)));
            }
            rounds.retain(|round| !round.is_empty());
            let missing = rounds.len();
            if missing == 0 && last_block.is_some_and(|last| last > block) {
                // the rule was asked after this block when it was run, and said to continue
                continue;
            }
            let began = self.clock.elapsed();
            if missing > 0 {
                schedule.begin_block();
            }
            for (done, round) in (1..).zip(rounds) {
                if (self.stop)() {
                    return Ok(Ended::Interrupted);
                }
                self.store.check()?;
                (self.block, self.rounds_left) = (block, missing - done);
                (self.round_began, self.runs_left) = (self.clock.elapsed(), round.len());
                if let Some(ended) = schedule.round(self, &round)? {
                    return Ok(ended);
                }
                // its other runs would be left out
                if fallen_blocks(self.study, self.store.runs()).contains(&block) {
                    break;
                }
            }
            if missing > 0 {
                // of a block that an earlier session began, only a part
                let took = self.clock.elapsed().saturating_sub(began);
                let whole = took.mul_f64(all as f64 / missing as f64);
                self.block_time = (self.block_time.0 + whole, self.block_time.1 + 1);
            }
            if let Decision::Stop(reason) = self.after_block(block, missing > 0) {
                return Ok(Ended::Rule(reason));
            }
        }
        let blocks = RunsByCell::of(self.study, self.store.runs()).whole_blocks(self.study);
        Ok(Ended::Rule(StopReason::Disturbed { blocks }))
    }

    /// A run begins, without some nodes of a fleet.
    pub(crate) fn begun(&mut self, run: &Run, missing_nodes: &[u32]) {
        let (levels, spec) = asked(self.study, &run.slot, missing_nodes);
        self.observer.event(&Event::RunStarted {
            block: self.block,
            position: run.position,
            of: number(block_order(self.study, 0).len()),
            cell: run.slot.cell,
            levels: &levels,
            spec: &spec,
            pair: self.study.fleet.as_ref().zip(run.pair).map(|(fleet, pair)| fleet.ends(&pair)),
        });
    }

    /// Stores a run; gives back why the study must end, if it must.
    pub(crate) fn ended(
        &mut self,
        run: &Run,
        missing_nodes: Vec<u32>,
        Made { started_unix_ms, took, outcome }: Made,
    ) -> Result<Option<Ended>, RunnerError> {
        let (_, spec) = asked(self.study, &run.slot, &missing_nodes);
        let run = StoredRun {
            sequence: self.store.next_sequence(),
            block: run.turn,
            cell: run.slot.cell,
            pair: run.pair,
            missing_nodes,
            started_unix_ms,
            spec,
            outcome,
        };
        store_run(self.store, run)?;
        self.runs_left = self.runs_left.saturating_sub(1);
        if self.runs_left == 0 {
            let round = self.clock.elapsed().saturating_sub(self.round_began);
            self.round_time = (self.round_time.0 + round, self.round_time.1 + 1);
        }
        // this block is one of those that were to be expected
        let to_go = self.blocks_to_go.saturating_sub(1);
        let remaining = self.time_for(self.rounds_left, to_go, self.block + 1);
        let Some(run) = self.store.runs().last() else { return Ok(None) };
        self.observer.event(&Event::RunEnded { run, took, remaining });
        Ok(run.failure().and_then(|failure| ends_it(self.study, failure)))
    }

    /// Asks the stop rule after a block. A block that was stored by an earlier session says
    /// nothing about this one's budget.
    fn after_block(&mut self, block: u32, ran: bool) -> Decision {
        let fallen = fallen_blocks(self.study, self.store.runs());
        let blocks = (block + 1).saturating_sub(number(fallen.range(..=block).count()));
        let (stop_inputs, of_cells, cells) = self.stop_inputs(blocks);
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
            self.observer.event(&Event::BlockEnded {
                block,
                cells: &cells,
                effects: &stop_inputs[of_cells..],
                decision: &decision,
                remaining,
            });
        }
        decision
    }

    /// What the stop rule looks at after `blocks`, with the number of figures of cells, which come before those of
    /// effects; and how precise the cells are. Of a fleet it looks at the means over the pairs.
    fn stop_inputs(&self, blocks: u32) -> (Vec<StopInput>, usize, Vec<CellPrecision>) {
        let (study, runs) = (self.study, self.store.runs());
        if let Some(fleet) = &study.fleet {
            let of_cells = fleet::results::stop_inputs(study, fleet, runs, blocks);
            let count = of_cells.len();
            return (of_cells, count, Vec::new());
        }
        let runs = RunsByCell::of(study, runs);
        let mut found = stop_inputs::of_cells(study, &runs, blocks);
        let of_cells = found.len();
        found.extend(stop_inputs::of_effects(study, &self.comparisons, &runs, blocks));
        (found, of_cells, stop_inputs::precisions(study, &runs, blocks))
    }

    /// Learns how many blocks are to be expected after `blocks` complete ones.
    fn expect(&mut self, blocks: u32, stop_inputs: &[StopInput]) {
        let rule = self.study.method.stop_rule();
        // widths from two or three runs forecast nothing; until the first look, that block is the
        // forecast
        let stop_inputs = if blocks < rule.first_look() { &[] } else { stop_inputs };
        self.blocks_to_go = stop::blocks_to_go(&rule, &self.progress(blocks), stop_inputs);
    }

    fn progress(&self, blocks: u32) -> Progress {
        let elapsed = self.clock.elapsed().saturating_sub(self.started);
        let (time, count) = self.block_time;
        Progress { blocks, elapsed, block_time: time.checked_div(count) }
    }

    /// The time for some rounds and blocks, `begun` blocks being run already.
    fn time_for(&self, rounds_left: usize, blocks_to_go: u32, begun: u32) -> Remaining {
        let (of_block, (time, count)) = (self.planned.rounds_per_block, self.round_time);
        let planned = || self.planned.block / of_block.max(1);
        let round = time.checked_div(count).unwrap_or_else(planned);
        let progress = self.progress(begun);
        let block = progress.block_time.unwrap_or_else(|| round.saturating_mul(of_block));
        let rest = round.saturating_mul(number(rounds_left));
        let method = &self.study.method;
        let most = method.max_blocks.saturating_sub(begun);
        let at_most = rest.saturating_add(block.saturating_mul(most));
        let likely = rest.saturating_add(block.saturating_mul(blocks_to_go));
        // the budget holds for blocks not yet begun; the rest of this one is run in any case
        let cap = method
            .stop_rule()
            .time_limit(progress.blocks)
            .map_or(Duration::MAX, |limit| limit.saturating_sub(progress.elapsed).max(rest));
        Remaining { likely: likely.min(cap), at_most: at_most.min(cap) }
    }
}

/// Whether a failure ends the study.
fn ends_it(study: &Study, failure: &RunFailure) -> Option<Ended> {
    if failure.fatal {
        Some(Ended::TestbedLost(failure.clone()))
    } else if study.method.on_failure == OnFailure::Stop {
        Some(Ended::RunFailed(failure.clone()))
    } else {
        None
    }
}

/// What a slot asks for: fewer clients where nodes of a fleet are missing.
pub(crate) fn asked(study: &Study, slot: &Slot, missing_nodes: &[u32]) -> (Levels, RunSpec) {
    match slot.cell.and_then(|cell| study.cell(cell)) {
        Some(Cell { levels, spec }) => {
            let clients = spec.clients.saturating_sub(number(missing_nodes.len()));
            (levels.clone(), RunSpec { seed: slot.seed, clients, ..spec.clone() })
        }
        None => {
            let (duration, profile) = (study.method.idle, study.method.profile);
            let idle = RunSpec { duration, profile, seed: slot.seed, ..RunSpec::default() };
            (Levels::default(), idle)
        }
    }
}

/// Stores a run. Figures that the store cannot hold are no figures: the run has failed.
fn store_run(store: &mut dyn RunStore, mut run: StoredRun) -> Result<(), StoreError> {
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
