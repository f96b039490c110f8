//! Runs a study of a fleet: round after round, the turns of a round side by side, each run stored the
//! moment it ends.
//!
//! A node that cannot be reached costs its own turns: they are stored as failed, with its name and the reason, and
//! take no time. Turns of all nodes continue without it, unless it is in the middle. It is asked again when the next
//! block begins. A session without two nodes that can be reached ends. All other waits are those of the executors,
//! which have bounds of their own.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use linkrate_model::RunSpec;

use super::rounds::{Turn, block_rounds, rounds};
use super::{ASKED_AT_ONCE, Fleet, Pair, places, results};
use crate::executor::{Executor, Facts, RunFailure, Stage};
use crate::levels::Levels;
use crate::runner::{
    Clock, Event, Observer, Remaining, RunnerError, asked, begin, ends_it, finish, number,
    store_run,
};
use crate::schedule::{RUN_OVERHEAD, Slot, block_order, estimate};
use crate::store::{Ended, Outcome, RunStore, StoredRun};
use crate::study::Study;
use linkrate_stats::stop::{self, Decision, Progress, StopReason};

/// Makes executors for the pairs of a fleet. Several are used at the same time, for pairs without a common node.
pub trait FleetExecutor: Sync {
    /// Facts about the nodes that travel with every result.
    fn facts(&self) -> Facts;

    /// An executor for the runs between two nodes, or around one, then without the `absent` ones.
    fn pair(&self, pair: &Pair, absent: &[u32]) -> Result<Box<dyn Executor + '_>, RunFailure>;

    /// Finds out whether a node can take part, or why it cannot.
    fn reach(&self, node: u32) -> Result<(), RunFailure>;
}

/// Runs the study of a fleet in `store` until its stop rule, a failure that ends it, or `stop` says yes, and writes
/// down why it ended. The budget is that of a session, and at least one block is run, as in
/// [`run_study`](crate::runner::run_study). Failures of runs are no errors but results.
pub fn run_fleet(
    executor: &dyn FleetExecutor,
    store: &mut dyn RunStore,
    clock: &(dyn Clock + Sync),
    stop: &(dyn Fn() -> bool + Sync),
    observer: &mut dyn Observer,
) -> Result<Ended, RunnerError> {
    let (study, changed_facts) = begin(executor.facts(), store, clock)?;
    let Some(fleet) = study.fleet.clone() else { return Err(RunnerError::NoFleet) };
    let mut session = Session {
        study: &study,
        fleet: &fleet,
        nodes: fleet.now_at_places(),
        clock,
        stop,
        began: clock.elapsed(),
        rounds_of_block: number(rounds(&fleet).len()),
        rounds: (Duration::ZERO, 0),
        blocks: (Duration::ZERO, 0),
        lost: BTreeMap::new(),
    };
    let stored = store.runs().len();
    let remaining = session.remaining(0, 0);
    observer.event(&Event::SessionStarted { study: &study, stored, changed_facts, remaining });
    let ended = session.run(executor, store, observer)?;
    finish(ended, store, observer)
}

struct Session<'a> {
    study: &'a Study,
    fleet: &'a Fleet,
    /// The node at each place.
    nodes: Vec<u32>,
    clock: &'a (dyn Clock + Sync),
    stop: &'a (dyn Fn() -> bool + Sync),
    began: Duration,
    /// Rounds of a block.
    rounds_of_block: u32,
    /// Time and number of the rounds of this session.
    rounds: (Duration, u32),
    /// The same of whole blocks.
    blocks: (Duration, u32),
    /// Nodes that cannot be reached, with the reason.
    lost: BTreeMap<u32, RunFailure>,
}

/// What a turn tells while it continues.
enum News {
    Begun {
        turn: Turn,
        position: usize,
        slot: Slot,
        absent: Vec<u32>,
    },
    Ended {
        turn: Turn,
        slot: Slot,
        absent: Vec<u32>,
        started_unix_ms: u64,
        took: Duration,
        outcome: Box<Outcome>,
    },
    /// The turn gave a run up because the study is to end.
    Interrupted,
    /// A node cannot be reached.
    Lost {
        node: u32,
        failure: RunFailure,
    },
}

impl Session<'_> {
    fn run(
        &mut self,
        executor: &dyn FleetExecutor,
        store: &mut dyn RunStore,
        observer: &mut dyn Observer,
    ) -> Result<Ended, RunnerError> {
        let stored: HashSet<(u32, Option<u32>)> =
            store.runs().iter().map(|run| (run.block, run.cell)).collect();
        let last = store.runs().iter().map(|run| run.block / self.fleet.turns().max(1)).max();
        for block in 0..self.study.method.max_blocks {
            let missing = |turn: &Turn| -> Vec<Slot> {
                let order = block_order(self.study, turn.number).into_iter();
                order.filter(|slot| !stored.contains(&(turn.number, slot.cell))).collect()
            };
            let placed = |turn: Turn| Turn { pair: places::at(&self.nodes, turn.pair), ..turn };
            let rounds: Vec<Vec<(Turn, Vec<Slot>)>> =
                block_rounds(self.fleet, self.study.method.seed(), block)
                    .into_iter()
                    .map(|round| {
                        let left = round.into_iter().map(|turn| (placed(turn), missing(&turn)));
                        left.filter(|(_, slots)| !slots.is_empty()).collect::<Vec<_>>()
                    })
                    .filter(|round| !round.is_empty())
                    .collect();
            if rounds.is_empty() && last.is_some_and(|last| last > block) {
                // the rule was asked after this block when it was run, and said to continue
                continue;
            }
            let (began, whole) = (self.clock.elapsed(), rounds.len());
            self.ask_the_lost(executor);
            for (done, round) in rounds.into_iter().enumerate() {
                if (self.stop)() {
                    return Ok(Ended::Interrupted);
                }
                let began = self.clock.elapsed();
                let left = number(whole - done - 1);
                let took_part: Vec<u32> =
                    round.iter().flat_map(|(turn, _)| self.fleet.nodes_of(&turn.pair)).collect();
                if let Some(ended) = self.round(executor, store, observer, block, left, round)? {
                    return Ok(ended);
                }
                if let Some(failure) = self.all_lost(executor, &took_part) {
                    return Ok(Ended::TestbedLost(failure));
                }
                self.rounds =
                    (self.rounds.0 + self.clock.elapsed().saturating_sub(began), self.rounds.1 + 1);
            }
            if whole > 0 {
                let took = self.clock.elapsed().saturating_sub(began);
                self.blocks = (self.blocks.0 + took, self.blocks.1 + 1);
            }
            if let Some(reason) = self.after_block(store, observer, block, whole > 0) {
                return Ok(Ended::Rule(reason));
            }
        }
        Ok(Ended::Rule(StopReason::MaxBlocks { blocks: self.study.method.max_blocks }))
    }

    /// Asks the nodes that could not be reached again.
    fn ask_the_lost(&mut self, executor: &dyn FleetExecutor) {
        let nodes: Vec<u32> = std::mem::take(&mut self.lost).into_keys().collect();
        let asked = ask(executor, &nodes);
        let lost = asked.into_iter().filter_map(|(node, asked)| Some((node, asked.err()?)));
        self.lost = lost.collect();
    }

    /// Why no pair of nodes is left: the job has ended, or the network of the controller. All nodes are asked if
    /// those of a round cannot be reached.
    fn all_lost(&mut self, executor: &dyn FleetExecutor, took_part: &[u32]) -> Option<RunFailure> {
        let there = took_part.iter().filter(|node| !self.lost.contains_key(node)).count();
        // the node in the middle alone is no turn
        if there > usize::from(self.fleet.pattern.hub().is_some()) {
            return None;
        }
        let others: Vec<u32> =
            self.nodes.iter().copied().filter(|node| !self.lost.contains_key(node)).collect();
        for (node, answer) in ask(executor, &others) {
            if let Err(failure) = answer {
                self.lost.insert(node, failure);
            }
        }
        let (node, failure) = self.lost.first_key_value()?;
        (self.nodes.len() - self.lost.len() < 2).then(|| {
            failed(format!("node {} and all others: {}", self.fleet.name(*node), failure.reason))
        })
    }

    /// Makes the missing runs of a round; gives back why the study must end, if it must.
    fn round(
        &mut self,
        executor: &dyn FleetExecutor,
        store: &mut dyn RunStore,
        observer: &mut dyn Observer,
        block: u32,
        left: u32,
        round: Vec<(Turn, Vec<Slot>)>,
    ) -> Result<Option<Ended>, RunnerError> {
        store.check()?;
        let (given_up, study, clock, stop) =
            (AtomicBool::new(false), self.study, self.clock, self.stop);
        let lost = std::mem::take(&mut self.lost);
        let mut now_lost = lost.clone();
        let outcome = thread::scope(|scope| {
            let (news, heard) = channel();
            for (turn, slots) in round {
                let (news, lost, given_up, fleet) = (news.clone(), &lost, &given_up, self.fleet);
                let ends = || given_up.load(Ordering::Relaxed) || stop();
                scope.spawn(move || {
                    let absent = absent(fleet, &turn.pair, lost);
                    let of = TurnOf { study, fleet, turn, absent, clock, news };
                    of.make(executor, slots, lost, &ends);
                });
            }
            drop(news);
            let reported = self.hear(&heard, store, observer, (block, left), &mut now_lost);
            // turns that continue after an error or an end find that nobody hears them
            given_up.store(true, Ordering::Relaxed);
            reported
        });
        self.lost = now_lost;
        outcome
    }

    /// Stores what the turns of a round tell, until all have ended.
    fn hear(
        &self,
        heard: &Receiver<News>,
        store: &mut dyn RunStore,
        observer: &mut dyn Observer,
        (block, left): (u32, u32),
        lost: &mut BTreeMap<u32, RunFailure>,
    ) -> Result<Option<Ended>, RunnerError> {
        let of = number(block_order(self.study, 0).len());
        let mut interrupted = false;
        for news in heard {
            match news {
                News::Begun { turn, position, slot, absent } => {
                    let (levels, spec) = asked_without(self.study, &slot, &absent);
                    observer.event(&Event::RunStarted {
                        block,
                        position: number(position),
                        of,
                        cell: slot.cell,
                        levels: &levels,
                        spec: &spec,
                        pair: Some(self.fleet.ends(&turn.pair)),
                    });
                }
                News::Ended { turn, slot, absent, started_unix_ms, took, outcome } => {
                    let (_, spec) = asked_without(self.study, &slot, &absent);
                    let sequence = store.next_sequence();
                    let (block, cell, pair) = (turn.number, slot.cell, Some(turn.pair));
                    let outcome = *outcome;
                    let run = StoredRun {
                        sequence,
                        block,
                        cell,
                        pair,
                        missing_nodes: absent,
                        started_unix_ms,
                        spec,
                        outcome,
                    };
                    store_run(store, run)?;
                    let Some(run) = store.runs().last() else { continue };
                    let remaining = self.remaining(left, block / self.fleet.turns().max(1) + 1);
                    observer.event(&Event::RunEnded { run, took, remaining });
                    if let Some(failure) = run.failure()
                        && let Some(ended) = ends_it(self.study, failure)
                    {
                        return Ok(Some(ended));
                    }
                }
                News::Interrupted => interrupted = true,
                News::Lost { node, failure } => {
                    lost.insert(node, failure);
                }
            }
        }
        Ok(interrupted.then_some(Ended::Interrupted))
    }

    /// Asks the stop rule after a block: it looks at the means over the pairs.
    fn after_block(
        &self,
        store: &dyn RunStore,
        observer: &mut dyn Observer,
        block: u32,
        ran: bool,
    ) -> Option<StopReason> {
        let mut rule = self.study.method.stop_rule();
        if !ran {
            rule.budget = None;
        }
        let stop_inputs = results::stop_inputs(self.study, self.fleet, store.runs(), block + 1);
        let elapsed = self.clock.elapsed().saturating_sub(self.began);
        let block_time = self.blocks.0.checked_div(self.blocks.1);
        let progress = Progress { blocks: block + 1, elapsed, block_time };
        let decision = stop::decide(&rule, &progress, &stop_inputs);
        if ran {
            let remaining = match &decision {
                Decision::Continue(_) => self.remaining(0, block + 1),
                Decision::Stop(_) => Remaining { likely: Duration::ZERO, at_most: Duration::ZERO },
            };
            observer.event(&Event::BlockEnded {
                block,
                cells: &[],
                effects: &[],
                decision: &decision,
                remaining,
            });
        }
        match decision {
            Decision::Continue(_) => None,
            Decision::Stop(reason) => Some(reason),
        }
    }

    /// The time for the rest of a block and for those that follow, `begun` blocks being begun already.
    fn remaining(&self, rounds_left: u32, begun: u32) -> Remaining {
        let of_block = self.rounds_of_block;
        let round = self
            .rounds
            .0
            .checked_div(self.rounds.1)
            .unwrap_or_else(|| estimate(self.study, RUN_OVERHEAD).block / of_block.max(1));
        let blocks = |count: u32| {
            let rounds = count.saturating_sub(begun).saturating_mul(of_block);
            round.saturating_mul(rounds.saturating_add(rounds_left))
        };
        let method = &self.study.method;
        let likely = blocks(method.stop_rule().first_look());
        Remaining { likely, at_most: blocks(method.max_blocks).max(likely) }
    }
}

/// One turn, in a thread of its own.
struct TurnOf<'a> {
    study: &'a Study,
    fleet: &'a Fleet,
    turn: Turn,
    /// Nodes that it continues without.
    absent: Vec<u32>,
    clock: &'a (dyn Clock + Sync),
    news: Sender<News>,
}

/// The nodes around the one in the middle of a turn that are lost; none of a turn that has none.
fn absent(fleet: &Fleet, pair: &Pair, lost: &BTreeMap<u32, RunFailure>) -> Vec<u32> {
    let mut nodes = match fleet.pattern.hub() {
        Some(_) => fleet.around(pair.sender, u32::MAX, &[]),
        None => Vec::new(),
    };
    nodes.retain(|node| lost.contains_key(node));
    nodes
}

/// What is asked for in a slot: fewer clients if nodes are absent.
fn asked_without(study: &Study, slot: &Slot, absent: &[u32]) -> (Levels, RunSpec) {
    let (levels, mut spec) = asked(study, slot);
    spec.clients = spec.clients.saturating_sub(number(absent.len()));
    (levels, spec)
}

impl TurnOf<'_> {
    /// Makes the runs of `slots`. Those that cannot be made have the reason as their outcome.
    fn make(
        &self,
        executor: &dyn FleetExecutor,
        slots: Vec<Slot>,
        lost: &BTreeMap<u32, RunFailure>,
        ends: &dyn Fn() -> bool,
    ) {
        let mut slots = slots.into_iter().enumerate();
        let failure = match self.lacking(lost) {
            Some(failure) => failure,
            None => match self.measure(executor, &mut slots, ends) {
                Ok(()) => return,
                Err(failure) => failure,
            },
        };
        for (_, slot) in slots {
            self.tell(slot, self.clock.unix_ms(), Duration::ZERO, Outcome::Failed(failure.clone()));
        }
    }

    /// Why the turn cannot be made, if a node that it needs is lost: one of the pair, or all around the one in the
    /// middle.
    fn lacking(&self, lost: &BTreeMap<u32, RunFailure>) -> Option<RunFailure> {
        let of_turn = self.nodes();
        let Pair { sender, receiver, .. } = self.turn.pair;
        let (node, failure) = match of_turn.len() {
            0 | 1 => lost.first_key_value()?,
            _ => [sender, receiver].iter().find_map(|node| lost.get_key_value(node))?,
        };
        Some(failed(format!("node {} is lost: {}", self.fleet.name(*node), failure.reason)))
    }

    fn nodes(&self) -> Vec<u32> {
        let mut nodes = self.fleet.nodes_of(&self.turn.pair);
        nodes.retain(|node| !self.absent.contains(node));
        nodes
    }

    /// Makes runs until one fails in a way that says that no other can succeed, which is the error.
    fn measure(
        &self,
        executor: &dyn FleetExecutor,
        slots: &mut dyn Iterator<Item = (usize, Slot)>,
        ends: &dyn Fn() -> bool,
    ) -> Result<(), RunFailure> {
        let mut on = match executor.pair(&self.turn.pair, &self.absent) {
            Ok(on) => on,
            Err(failure) if failure.stage == Stage::Interrupted || ends() => {
                let _ = self.news.send(News::Interrupted);
                return Ok(());
            }
            Err(failure) => {
                self.find_lost(executor);
                return Err(RunFailure { fatal: false, ..failure });
            }
        };
        for (position, slot) in slots {
            if ends() {
                let _ = self.news.send(News::Interrupted);
                return Ok(());
            }
            let (turn, absent) = (self.turn, self.absent.clone());
            let _ = self.news.send(News::Begun { turn, position, slot, absent });
            let (_, spec) = asked_without(self.study, &slot, &self.absent);
            let (started, began) = (self.clock.unix_ms(), self.clock.elapsed());
            let outcome = on.run(&spec);
            let took = self.clock.elapsed().saturating_sub(began);
            match outcome {
                Ok(measured) => {
                    self.tell(slot, started, took, Outcome::Measured(Box::new(measured)))
                }
                Err(failure) if failure.stage == Stage::Interrupted || ends() => {
                    let _ = self.news.send(News::Interrupted);
                    return Ok(());
                }
                Err(failure) => {
                    // the testbed of this pair is no other pair's
                    let fatal = failure.fatal;
                    let failure = RunFailure { fatal: false, ..failure };
                    self.tell(slot, started, took, Outcome::Failed(failure.clone()));
                    let lost = (fatal || failure.stage == Stage::Agent) && self.find_lost(executor);
                    if fatal || lost {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds out which nodes of the turn cannot be reached. Says whether there is one.
    fn find_lost(&self, executor: &dyn FleetExecutor) -> bool {
        let mut found = false;
        for (node, answer) in ask(executor, &self.nodes()) {
            if let Err(failure) = answer {
                found = true;
                let _ = self.news.send(News::Lost { node, failure });
            }
        }
        found
    }

    fn tell(&self, slot: Slot, started_unix_ms: u64, took: Duration, outcome: Outcome) {
        let (turn, absent) = (self.turn, self.absent.clone());
        let outcome = Box::new(outcome);
        let _ = self.news.send(News::Ended { turn, slot, absent, started_unix_ms, took, outcome });
    }
}

fn failed(reason: String) -> RunFailure {
    RunFailure::at(Stage::Testbed, reason)
}

/// Asks nodes whether they can take part, at most [`ASKED_AT_ONCE`] at the same time.
fn ask(executor: &dyn FleetExecutor, nodes: &[u32]) -> Vec<(u32, Result<(), RunFailure>)> {
    let panicked = |_| Err(failed("the thread that asked it has panicked".to_owned()));
    let mut asked = Vec::new();
    for some in nodes.chunks(ASKED_AT_ONCE) {
        let answers = thread::scope(|scope| {
            let threads: Vec<_> =
                some.iter().map(|node| scope.spawn(move || executor.reach(*node))).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            joined.collect::<Vec<_>>()
        });
        asked.extend(some.iter().copied().zip(answers));
    }
    asked
}

#[cfg(test)]
mod lost;
#[cfg(test)]
mod moved;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts those that are asked at the same time; odd nodes cannot be reached.
    #[derive(Default)]
    struct Counting {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl FleetExecutor for Counting {
        fn facts(&self) -> Facts {
            Facts::default()
        }

        fn pair(&self, _: &Pair, _: &[u32]) -> Result<Box<dyn Executor + '_>, RunFailure> {
            Err(failed("no testbed".to_owned()))
        }

        fn reach(&self, node: u32) -> Result<(), RunFailure> {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
            self.now.fetch_sub(1, Ordering::SeqCst);
            if node.is_multiple_of(2) { Ok(()) } else { Err(failed(format!("node {node}"))) }
        }
    }

    #[test]
    fn a_thousand_lost_nodes_are_not_asked_at_once() {
        let executor = Counting::default();
        let nodes: Vec<u32> = (0..1000).collect();
        let asked = ask(&executor, &nodes);
        let most = executor.most.load(Ordering::SeqCst);
        assert!((2..=ASKED_AT_ONCE).contains(&most), "{most} at once");
        assert_eq!(asked.len(), 1000);
        for (number, (node, answer)) in (0u32..).zip(&asked) {
            assert_eq!((*node, answer.is_ok()), (number, number.is_multiple_of(2)));
        }
    }
}
