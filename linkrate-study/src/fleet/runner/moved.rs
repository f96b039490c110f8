//! Tests of a study that continues with other nodes.

use std::sync::atomic::{AtomicUsize, Ordering};

use linkrate_model::spec::Task;
use linkrate_model::{Measurement, RunSpec};

use super::*;
use crate::comparison::{Criteria, compare};
use crate::fixture;
use crate::fleet::facts::fact_name;
use crate::fleet::places::Candidate;
use crate::fleet::rounds::tests::study_of;
use crate::fleet::two_way::Subject;
use crate::fleet::{Node, Pattern, results};
use crate::results::fleet::FleetCell;
use crate::runner::Silent;
use crate::store::{Store, StoredStudy};

/// Blocks of each session.
const BLOCKS: u32 = 7;

/// Nodes that all have the same rate, except for one.
struct Nodes {
    fleet: Fleet,
    slow: &'static str,
    /// Runs that are left before someone ends the session, or the job ends.
    left: AtomicUsize,
    job_ends: bool,
}

impl Nodes {
    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    fn expect_job(&self) -> Result<(), RunFailure> {
        match self.job_ends && self.is_over() {
            true => Err(failed("the job has ended".to_owned())),
            false => Ok(()),
        }
    }
}

struct Between<'a> {
    nodes: &'a Nodes,
    is_slow: bool,
}

impl FleetExecutor for Nodes {
    fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        for number in self.fleet.now_at_places() {
            let name = fact_name(self.fleet.name(number), "kernel");
            facts.facts.insert(name, "6.12".to_owned());
        }
        facts
    }

    fn pair(&self, pair: &Pair, _: &[u32]) -> Result<Box<dyn Executor + '_>, RunFailure> {
        let now = self.fleet.now_at_places();
        assert!([pair.sender, pair.receiver].iter().all(|node| now.contains(node)), "{pair:?}");
        let names = [pair.sender, pair.receiver].map(|node| self.fleet.name(node));
        Ok(Box::new(Between { nodes: self, is_slow: names.contains(&self.slow) }))
    }

    fn reach(&self, _: u32) -> Result<(), RunFailure> {
        self.expect_job()
    }
}

impl Executor for Between<'_> {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn run(&mut self, spec: &RunSpec) -> Result<Measurement, RunFailure> {
        let gone = |failure| RunFailure { stage: Stage::Agent, ..failure };
        self.nodes.expect_job().map_err(gone)?;
        let left = |left: usize| Some(left.saturating_sub(1));
        let _ = self.nodes.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        let noise = 1.0 + (spec.seed % 1000) as f64 * 1e-5;
        let rate = if self.is_slow { 5e9 } else { 1e10 };
        Ok(match spec.task {
            Task::Idle => fixture::idle(0.01),
            Task::Workload(_) => fixture::stream(rate * noise, 0.5),
        })
    }

    fn rebuild(&mut self) {}
}

pub(super) struct Standing;

impl Clock for Standing {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        1_795_273_920_000
    }
}

fn session(fleet: &Fleet, store: &mut Store, slow: &'static str, runs: u32) -> Ended {
    let left = AtomicUsize::new(runs as usize);
    let nodes = Nodes { fleet: fleet.clone(), slow, left, job_ends: false };
    let stop = || nodes.is_over();
    run_fleet(&nodes, store, &Standing, &stop, &mut Silent).unwrap()
}

/// A study of four nodes.
fn study(pattern: Pattern) -> Study {
    let text = format!(
        "title = \"t\"\n[fleet]\nat-once = 1\n[factors]\nmessage = [\"64 KiB\"]\n\
         [method]\nidle = \"0 s\"\nblocks = {{ min = {0}, max = {0} }}\n",
        2 * BLOCKS
    );
    study_of(4, pattern, &text)
}

/// A study whose second half has `later` in place of n3.
fn measured(
    directory: &std::path::Path,
    pattern: Pattern,
    later: &str,
    slow: &'static str,
) -> StoredStudy {
    let study = study(pattern);
    let fleet = study.fleet.clone().unwrap();
    let facts = Facts::default();
    let mut store = Store::create(directory, &study, facts, 1_795_273_920_000).unwrap();
    let first = fleet.turns() * BLOCKS;
    assert_eq!(session(&fleet, &mut store, slow, first), Ended::Interrupted);
    assert_eq!(store.runs().len(), first as usize);
    drop(store);

    let mut store = Store::resume(directory).unwrap();
    let other = Node { name: later.to_owned(), ..fleet.nodes[3].clone() };
    let present = fleet.nodes[..3].iter().chain([&other]).cloned().map(Candidate::Listed);
    let (moved, _) = fleet.moved(&present.collect::<Vec<_>>(), store.next_sequence()).unwrap();
    let moved = moved.unwrap();
    store.set_fleet(moved.clone()).unwrap();
    assert!(session(&moved, &mut store, slow, u32::MAX).is_complete());
    drop(store);
    Store::read(directory).unwrap()
}

/// The runs of a pair; `None` without the pair.
fn runs(cell: &FleetCell, sender: u32, receiver: u32) -> Option<u32> {
    let mut pairs = cell.pairs.iter();
    pairs.find(|pair| (pair.sender, pair.receiver) == (sender, receiver)).map(|pair| pair.runs)
}

#[test]
fn a_study_continues_with_another_node_which_has_figures_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let stored = measured(&directory.path().join("a"), Pattern::AllPairs, "late", "late");
    assert_eq!(stored.runs.len(), 12 * 2 * BLOCKS as usize);
    let of = results::of(&stored).unwrap();
    let names: Vec<&str> = of.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["n0", "n1", "n2", "n3", "late"]);
    assert_eq!(of.replaced, ["from run 84 on, late has the place of n3"]);
    let cell = &of.cells[0];
    let runs = |sender, receiver| runs(cell, sender, receiver);
    assert_eq!(
        (runs(0, 1), runs(0, 3), runs(4, 0)),
        (Some(2 * BLOCKS), Some(BLOCKS), Some(BLOCKS))
    );
    assert_eq!(cell.pairs.len(), 12 + 6, "n3 and its successor have no pair together");
    let named: Vec<Subject> = cell.named.iter().map(|named| named.subject).collect();
    assert_eq!(named, [Subject::Node { node: 4 }]);
    // facts of a node that left, and of one that came, are no changes of the testbed
    assert_eq!(stored.plan.changed_facts(&stored.plan.resumed[0].facts), [""; 0]);
    assert_eq!(of.nodes[3].facts.len() + of.nodes[4].facts.len(), 1, "those of the last session");
}

#[test]
fn comparisons_take_the_pairs_that_were_there_all_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let before = measured(&directory.path().join("a"), Pattern::AllPairs, "one", "one");
    let after = measured(&directory.path().join("b"), Pattern::AllPairs, "two", "none");
    let compared = compare(&[&before], &[&after], &Criteria::default()).unwrap();
    let row = &compared.cells[0].rows[0];
    assert_eq!(row.baseline.unwrap().runs, 2 * BLOCKS, "{row:?}");
    let ratio = row.ratio.unwrap().mean;
    assert!(
        (ratio - 1.0).abs() < 0.01,
        "a slow node that came later is not in the results: {ratio}"
    );
    let reported =
        compared.warnings.iter().filter(|reported| reported.contains("went on with other nodes"));
    assert_eq!(reported.count(), 2, "{:?}", compared.warnings);
}

#[test]
fn clients_of_a_node_in_the_middle_are_those_of_their_time() {
    let directory = tempfile::tempdir().unwrap();
    let stored = measured(&directory.path().join("a"), Pattern::Incast, "late", "none");
    let of = results::of(&stored).unwrap();
    let cell = &of.cells[0];
    let hubs: Vec<(u32, u32)> = cell.hubs.iter().map(|hub| (hub.node, hub.runs)).collect();
    let (half, all) = (BLOCKS, 2 * BLOCKS);
    assert_eq!(hubs, [(0, all), (1, all), (2, all), (3, half), (4, half)]);
    let runs = |sender, receiver| runs(cell, sender, receiver);
    assert_eq!((runs(1, 0), runs(3, 0), runs(4, 0)), (Some(all), Some(half), Some(half)));
    assert_eq!((runs(3, 4), runs(4, 3)), (None, None));
}

#[test]
fn the_end_of_the_job_ends_the_session_and_loses_the_runs_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let study = study(Pattern::AllPairs);
    let fleet = study.fleet.clone().unwrap();
    let mut store = Store::create(directory.path(), &study, Facts::default(), 0).unwrap();
    let nodes = Nodes { fleet, slow: "none", left: AtomicUsize::new(5), job_ends: true };
    let ended = run_fleet(&nodes, &mut store, &Standing, &|| false, &mut Silent).unwrap();
    let Ended::TestbedLost(failure) = &ended else { panic!("{ended:?}") };
    assert!(failure.reason.contains("and all others: the job has ended"), "{failure}");
    assert_eq!(store.runs().len(), 6, "one run at a time was in flight");
    drop(store);
    let mut store = Store::resume(directory.path()).unwrap();
    let fleet = study.fleet.clone().unwrap();
    assert!(session(&fleet, &mut store, "none", u32::MAX).is_complete());
    assert_eq!(
        store.runs().iter().filter(|run| run.is_good()).count(),
        12 * 2 * BLOCKS as usize - 1
    );
}
