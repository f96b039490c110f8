//! A study small enough to be run many times, and what is looked at in its results directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linkrate_study::store::{PLAN_FILE, RUNS_FILE, Store, StoredRun};

use super::processes::OwnCopy;
use super::{command, wait_until};

/// Three cells in three blocks of 200 ms a run: some four seconds.
const STUDY: &str = r#"title = "A small study"
[testbed]
adapter = "veth"
[factors]
offload = ["none", "gso", "tso"]
direction = ["transmit"]
[method]
run = "200 ms"
warm-up = "50 ms"
idle = "100 ms"
blocks = { min = 3, max = 3 }
seed = 7
purpose = "functions"
"#;

/// Cells and blocks of the study.
pub const CELLS: usize = 3;
/// Blocks; each has an idle run beside its cells.
pub const BLOCKS: usize = 3;
/// Runs, idle ones included.
pub const RUNS: usize = BLOCKS * (CELLS + 1);

/// A run's place in the study: block, cell, seed.
pub type Slot = (u32, Option<u32>, u64);

/// The study as a file, and a program of this test's own to run it.
#[derive(Debug)]
pub struct SmallStudy {
    pub own: OwnCopy,
}

impl SmallStudy {
    /// Writes the file.
    pub fn new() -> Self {
        let own = OwnCopy::new();
        fs::write(own.beside("small.toml"), STUDY).expect("write the study file");
        Self { own }
    }

    /// The same, with runs that other programs can spoil.
    pub fn for_costs() -> Self {
        let study = Self::new();
        let text = STUDY.replace("\"functions\"", "\"costs\"").replace("\"200 ms\"", "\"300 ms\"");
        fs::write(study.file(), text).expect("write the study file");
        study
    }

    pub fn file(&self) -> PathBuf {
        self.own.beside("small.toml")
    }

    /// Where results go in these tests.
    pub fn results(&self) -> PathBuf {
        self.own.beside("results")
    }

    /// `linkrate run --json`.
    pub fn run(&self) -> Command {
        let mut run = command(self.own.program(), "run --json --output");
        run.arg(self.results()).arg(self.file());
        run
    }

    /// `linkrate study WHAT --json` on the results.
    pub fn again(&self, what: &str) -> Command {
        let mut again = command(self.own.program(), &format!("study {what} --json"));
        again.arg(self.results());
        again
    }

    /// Waits until there is a store.
    #[track_caller]
    pub fn await_plan(&self) {
        let plan = self.results().join(PLAN_FILE);
        assert!(wait_until(Duration::from_secs(60), || plan.exists()), "no {}", plan.display());
    }

    /// Waits until that many runs are stored.
    #[track_caller]
    pub fn await_runs(&self, count: usize) {
        await_stored(&self.results().join(RUNS_FILE), count);
    }

    /// The places of the stored runs, in the order they were run.
    #[track_caller]
    pub fn slots(&self) -> Vec<Slot> {
        slots(&stored(&self.results()))
    }
}

/// Waits until a file of runs has that many.
#[track_caller]
pub fn await_stored(runs: &Path, count: usize) {
    let stored = || fs::read(runs).map_or(0, |bytes| bytes.split(|b| *b == b'\n').count() - 1);
    assert!(wait_until(Duration::from_secs(60), || stored() >= count), "{} runs", stored());
}

/// Every run of a results directory.
#[track_caller]
pub fn stored(results: &Path) -> Vec<StoredRun> {
    Store::read(results).unwrap_or_else(|error| panic!("{error}")).runs
}

/// The places of these runs.
pub fn slots(runs: &[StoredRun]) -> Vec<Slot> {
    runs.iter().map(|run| (run.block, run.cell, run.spec.seed)).collect()
}

/// The places of all runs of the study as they must be, whatever happened to it: what its seed
/// gives.
pub fn planned(results: &Path) -> Vec<Slot> {
    let study = Store::read(results).unwrap_or_else(|error| panic!("{error}")).plan.study;
    let blocks = 0..study.method.max_blocks;
    let slots = blocks.flat_map(|block| {
        let order = linkrate_study::schedule::block_order(&study, block);
        order.into_iter().map(move |slot| (block, slot.cell, slot.seed))
    });
    slots.collect()
}
