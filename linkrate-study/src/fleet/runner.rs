//! Runs a study of a fleet: round after round, the turns of a round side by side, each run stored the
//! moment it ends.
//!
//! A node that cannot be reached costs its own turns: they are stored as failed, with its name and the reason, and
//! take no time. Turns of all nodes continue without it, unless it is in the middle. It is asked again when the next
//! block begins. A session without two nodes that can be reached ends. All other waits are those of the executors,
//! which have bounds of their own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::rounds::block_rounds;
use super::{ASKED_AT_ONCE, Fleet, Pair, places};
use crate::executor::{Executor, Facts, RunFailure, Stage};
use crate::runner::{
    Clock, Made, Observer, Run, RunnerError, Schedule, Session, asked, make, runs_of,
};
use crate::store::{Ended, Outcome, RunStore};
use crate::study::Study;

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
    let study = store.plan().study.clone();
    let Some(fleet) = &study.fleet else { return Err(RunnerError::NoFleet) };
    let (nodes, lost) = (fleet.now_at_places(), BTreeMap::new());
    let mut pairs = Pairs { study: &study, fleet, nodes, executor, clock, stop, lost };
    Session::new(&study, store, clock, stop, observer).run(&mut pairs, executor.facts())
}

/// The pairs of a fleet: each round is turns side by side.
struct Pairs<'a> {
    study: &'a Study,
    fleet: &'a Fleet,
    /// The node at each place.
    nodes: Vec<u32>,
    executor: &'a dyn FleetExecutor,
    clock: &'a (dyn Clock + Sync),
    stop: &'a (dyn Fn() -> bool + Sync),
    /// Nodes that cannot be reached, with the reason.
    lost: BTreeMap<u32, RunFailure>,
}

/// What a turn tells while it continues.
enum News {
    /// A run begins, without these nodes.
    Begun(Run, Vec<u32>),
    Ended(Run, Vec<u32>, Box<Made>),
    /// The turn gave a run up because the study is to end.
    Interrupted,
    /// A node cannot be reached.
    Lost(u32, RunFailure),
}

impl Schedule for Pairs<'_> {
    fn rounds(&self, block: u32) -> Vec<Vec<Run>> {
        let rounds = block_rounds(self.fleet, self.study.method.seed(), block).into_iter();
        rounds
            .map(|round| {
                let placed = |pair| Some(places::at(&self.nodes, pair));
                let turns = round.into_iter();
                turns.flat_map(|turn| runs_of(self.study, turn.number, placed(turn.pair))).collect()
            })
            .collect()
    }

    /// Asks the nodes that could not be reached again.
    fn begin_block(&mut self) {
        let nodes: Vec<u32> = std::mem::take(&mut self.lost).into_keys().collect();
        let asked = ask(self.executor, &nodes);
        let lost = asked.into_iter().filter_map(|(node, asked)| Some((node, asked.err()?)));
        self.lost = lost.collect();
    }

    fn round(
        &mut self,
        session: &mut Session<'_>,
        round: &[Run],
    ) -> Result<Option<Ended>, RunnerError> {
        let (given_up, mut now_lost) = (AtomicBool::new(false), self.lost.clone());
        let of = &*self;
        let ended = thread::scope(|scope| {
            let (news, heard) = channel();
            for runs in round.chunk_by(|a, b| a.turn == b.turn) {
                let Some(pair) = runs.first().and_then(|run| run.pair) else { continue };
                let absent = of.absent(&pair);
                let turn = Turn { of, pair, absent, given_up: &given_up, news: news.clone() };
                let theirs = turn.clone();
                let thread = thread::Builder::new();
                if let Err(error) = thread.spawn_scoped(scope, move || theirs.make(runs)) {
                    turn.fail(runs, &failed(format!("start thread: {error}")));
                }
            }
            drop(news);
            let ended = hear(&heard, session, &mut now_lost);
            // turns that continue after an error or an end find that nobody hears them
            given_up.store(true, Ordering::Relaxed);
            ended
        })?;
        self.lost = now_lost;
        Ok(ended.or_else(|| self.all_lost(round).map(Ended::TestbedLost)))
    }
}

/// Has what the turns of a round tell stored, until all have ended.
fn hear(
    heard: &Receiver<News>,
    session: &mut Session<'_>,
    lost: &mut BTreeMap<u32, RunFailure>,
) -> Result<Option<Ended>, RunnerError> {
    let mut interrupted = false;
    for news in heard {
        match news {
            News::Begun(run, absent) => session.begun(&run, &absent),
            News::Ended(run, absent, made) => {
                if let Some(ended) = session.ended(&run, absent, *made)? {
                    return Ok(Some(ended));
                }
            }
            News::Interrupted => interrupted = true,
            News::Lost(node, failure) => {
                lost.insert(node, failure);
            }
        }
    }
    Ok(interrupted.then_some(Ended::Interrupted))
}

impl Pairs<'_> {
    /// The nodes around the one in the middle of a turn that are lost; none of a turn that has none.
    fn absent(&self, pair: &Pair) -> Vec<u32> {
        let mut nodes = match self.fleet.pattern.hub() {
            Some(_) => self.fleet.around(pair.sender, u32::MAX, &[]),
            None => Vec::new(),
        };
        nodes.retain(|node| self.lost.contains_key(node));
        nodes
    }

    /// Why no pair of nodes is left: the job has ended, or the network of the controller. All nodes are asked if
    /// those of a round cannot be reached.
    fn all_lost(&mut self, round: &[Run]) -> Option<RunFailure> {
        let pairs = round.chunk_by(|a, b| a.turn == b.turn).filter_map(|runs| runs.first()?.pair);
        let took_part = pairs.flat_map(|pair| self.fleet.nodes_of(&pair));
        let there = took_part.filter(|node| !self.lost.contains_key(node)).count();
        // the node in the middle alone is no turn
        if there > usize::from(self.fleet.pattern.hub().is_some()) {
            return None;
        }
        let others: Vec<u32> =
            self.nodes.iter().copied().filter(|node| !self.lost.contains_key(node)).collect();
        for (node, answer) in ask(self.executor, &others) {
            if let Err(failure) = answer {
                self.lost.insert(node, failure);
            }
        }
        let (node, failure) = self.lost.first_key_value()?;
        (self.nodes.len() - self.lost.len() < 2).then(|| {
            failed(format!("node {} and all others: {}", self.fleet.name(*node), failure.reason))
        })
    }
}

/// One turn, in a thread of its own.
#[derive(Clone)]
struct Turn<'a> {
    of: &'a Pairs<'a>,
    pair: Pair,
    /// Nodes that it continues without.
    absent: Vec<u32>,
    given_up: &'a AtomicBool,
    news: Sender<News>,
}

impl Turn<'_> {
    /// Makes runs. Those that cannot be made have the reason as their outcome.
    fn make(&self, runs: &[Run]) {
        let mut runs = runs.iter();
        let lacking = self.lacking().map(Some);
        let Err(failure) = lacking.map_or_else(|| self.measure(&mut runs), Err) else { return };
        let Some(failure) = failure else { return drop(self.news.send(News::Interrupted)) };
        self.fail(runs.as_slice(), &failure);
    }

    /// Has runs stored that cannot be made.
    fn fail(&self, runs: &[Run], failure: &RunFailure) {
        for run in runs {
            let outcome = Outcome::Failed(failure.clone());
            let started_unix_ms = self.of.clock.unix_ms();
            self.tell(*run, Made { started_unix_ms, took: Duration::ZERO, outcome });
        }
    }

    fn ends(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) || (self.of.stop)()
    }

    /// Why the turn cannot be made, if a node that it needs is lost: one of the pair, or all around the one in the
    /// middle.
    fn lacking(&self) -> Option<RunFailure> {
        let Pair { sender, receiver, .. } = self.pair;
        let lost = &self.of.lost;
        let (node, failure) = match self.nodes().len() {
            0 | 1 => lost.first_key_value()?,
            _ => [sender, receiver].iter().find_map(|node| lost.get_key_value(node))?,
        };
        Some(failed(format!("node {} is lost: {}", self.of.fleet.name(*node), failure.reason)))
    }

    fn nodes(&self) -> Vec<u32> {
        let mut nodes = self.of.fleet.nodes_of(&self.pair);
        nodes.retain(|node| !self.absent.contains(node));
        nodes
    }

    /// Makes runs until one fails in a way that says that no other can succeed, which is the error, or the study is to
    /// end, which is none.
    fn measure(&self, runs: &mut std::slice::Iter<'_, Run>) -> Result<(), Option<RunFailure>> {
        let mut on = match self.of.executor.pair(&self.pair, &self.absent) {
            Ok(on) => on,
            Err(failure) if failure.stage == Stage::Interrupted || self.ends() => return Err(None),
            Err(failure) => {
                self.find_lost();
                return Err(Some(RunFailure { fatal: false, ..failure }));
            }
        };
        for run in runs {
            if self.ends() {
                return Err(None);
            }
            let _ = self.news.send(News::Begun(*run, self.absent.clone()));
            let (_, spec) = asked(self.of.study, &run.slot, &self.absent);
            let mut made = make(&mut *on, &spec, self.of.clock, &|| self.ends()).ok_or(None)?;
            let Outcome::Failed(failure) = &mut made.outcome else {
                self.tell(*run, made);
                continue;
            };
            // the testbed of this pair is no other pair's
            let fatal = std::mem::take(&mut failure.fatal);
            let failure = failure.clone();
            self.tell(*run, made);
            let lost = (fatal || failure.stage == Stage::Agent) && self.find_lost();
            if fatal || lost {
                return Err(Some(failure));
            }
        }
        Ok(())
    }

    /// Finds out which nodes of the turn cannot be reached. Says whether there is one.
    fn find_lost(&self) -> bool {
        let mut found = false;
        for (node, answer) in ask(self.of.executor, &self.nodes()) {
            if let Err(failure) = answer {
                found = true;
                let _ = self.news.send(News::Lost(node, failure));
            }
        }
        found
    }

    fn tell(&self, run: Run, made: Made) {
        let _ = self.news.send(News::Ended(run, self.absent.clone(), Box::new(made)));
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
            let ask = |node: &u32| {
                let node = *node;
                thread::Builder::new().spawn_scoped(scope, move || executor.reach(node))
            };
            let threads: Vec<_> = some.iter().map(ask).collect();
            let joined = threads.into_iter().map(|thread| {
                let thread = thread.map_err(|error| failed(format!("start thread: {error}")))?;
                thread.join().unwrap_or_else(panicked)
            });
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
