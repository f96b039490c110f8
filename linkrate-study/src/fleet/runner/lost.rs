//! Tests of turns of all nodes, of which one is lost.

use std::sync::atomic::AtomicU32;

use linkrate_model::evidence::ClientPart;
use linkrate_model::spec::Task;
use linkrate_model::{Measurement, RunSpec};

use super::moved::Standing;
use super::*;
use crate::fixture;
use crate::fleet::rounds::tests::study_of;
use crate::fleet::{Pattern, results};
use crate::runner::{Silent, number};
use crate::store::{MemoryStore, StoredStudy};

const BLOCKS: u32 = 3;

/// Nodes of which one cannot be reached, after the first runs.
struct Nodes {
    lost: u32,
    left: AtomicU32,
}

struct Around<'a> {
    nodes: &'a Nodes,
    clients: Vec<u32>,
    needs_it: bool,
}

impl Nodes {
    fn is_lost(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl FleetExecutor for Nodes {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn pair(&self, pair: &Pair, absent: &[u32]) -> Result<Box<dyn Executor + '_>, RunFailure> {
        let clients: Vec<u32> =
            (0..4).filter(|node| *node != pair.sender && !absent.contains(node)).collect();
        let needs_it = pair.sender == self.lost || clients.contains(&self.lost);
        match needs_it && self.is_lost() {
            true => Err(failed("no agent".to_owned())),
            false => Ok(Box::new(Around { nodes: self, clients, needs_it })),
        }
    }

    fn reach(&self, node: u32) -> Result<(), RunFailure> {
        match node == self.lost && self.is_lost() {
            true => Err(failed("no route".to_owned())),
            false => Ok(()),
        }
    }
}

impl Executor for Around<'_> {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn run(&mut self, spec: &RunSpec) -> Result<Measurement, RunFailure> {
        if self.needs_it && self.nodes.is_lost() {
            let reason = "the agent is silent".to_owned();
            return Err(RunFailure::at(Stage::Agent, reason));
        }
        let _ = self.nodes.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(1))
        });
        assert_eq!(spec.clients as usize, self.clients.len(), "clients of the testbed");
        assert!(matches!(spec.task, Task::Workload(_)));
        let mut measured = fixture::stream(1e9, 0.5);
        // each client sends at 100 times its number plus one
        let part = |node: &u32| ClientPart {
            seconds: 1.0,
            sent_bytes: u64::from(100 * (node + 1)),
            ..ClientPart::default()
        };
        measured.evidence.clients = self.clients.iter().map(part).collect();
        Ok(measured)
    }

    fn rebuild(&mut self) {}
}

fn measured(lost: u32, after: u32) -> StoredStudy {
    let text = "title = \"t\"\n[fleet]\nat-once = 1\n[factors]\nmessage = [\"64 KiB\"]\n[method]\nidle = \"0 s\"\n\
                blocks = { min = 3, max = 3 }\n";
    let study = study_of(4, Pattern::Incast, text);
    let mut store = MemoryStore::new(study, Facts::default(), 0);
    let nodes = Nodes { lost, left: AtomicU32::new(after) };
    let ended = run_fleet(&nodes, &mut store, &Standing, &|| false, &mut Silent).unwrap();
    assert!(ended.is_complete(), "{ended}");
    store.into_study()
}

#[test]
fn turns_of_all_nodes_continue_without_one_that_is_lost() {
    let stored = measured(2, 0);
    assert_eq!(stored.runs.len(), 4 * BLOCKS as usize);
    let (good, bad): (Vec<_>, Vec<_>) = stored.runs.iter().partition(|run| run.is_good());
    // its own turns, and the one in which it was found to be lost
    assert!((BLOCKS..=BLOCKS + 1).contains(&number(bad.len())), "{bad:?}");
    for run in &good {
        assert_eq!((run.missing_nodes.as_slice(), run.spec.clients), (&[2][..], 2));
    }
    let of_its_own = bad.iter().filter(|run| run.pair.unwrap().sender == 2);
    assert_eq!(of_its_own.count(), BLOCKS as usize);
    let cell = &results::of(&stored).unwrap().cells[0];
    let rate = |sender, receiver| {
        let mut pairs = cell.pairs.iter();
        let pair = pairs.find(|pair| (pair.sender, pair.receiver) == (sender, receiver));
        pair.and_then(|pair| pair.rate).map(|rate| rate.mean.round())
    };
    // bit/s of 400 octets a second: clients are distinguished without the one that is absent
    assert_eq!((rate(3, 0), rate(3, 1), rate(0, 1)), (Some(3200.0), Some(3200.0), Some(800.0)));
    assert_eq!((rate(2, 0), rate(0, 2)), (None, None));
}

#[test]
fn the_run_in_flight_fails_and_no_figure_is_made_of_both_kinds_of_turns() {
    let stored = measured(3, 6);
    let with_all =
        stored.runs.iter().filter(|run| run.is_good() && run.missing_nodes.is_empty()).count();
    assert_eq!(with_all, 6);
    let results = crate::analysis::analyse(&stored);
    let fleet = results.fleet.unwrap();
    let runs: u32 = fleet.cells[0].hubs.iter().map(|hub| hub.runs).sum();
    assert_eq!(runs, 6, "{:?}", fleet.cells[0].hubs);
    assert!(fleet.failures.iter().any(|reported| reported.starts_with("n3 was absent from ")));
}
