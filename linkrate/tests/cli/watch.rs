//! `watch` over a store that grows, breaks off and ends. No traffic: the runs have failed.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{LINKRATE, Running, command};
use linkrate_study::executor::{Facts, RunFailure, Stage};
use linkrate_study::fixture::stored_run;
use linkrate_study::runner::{Clock, SystemClock};
use linkrate_study::schedule::block_order;
use linkrate_study::store::{Ended, RUNS_FILE, RunStore, Store, StoredRun};
use linkrate_study::{builtin, file};
use rustix::process::Signal;
use serde_json::Value;

/// Longer than the time between two polls.
const LONGER_THAN_POLL: Duration = Duration::from_millis(1500);

pub struct Growing {
    _home: tempfile::TempDir,
    pub path: PathBuf,
    store: Store,
    began: u64,
}

impl Growing {
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("results");
        let found = builtin::find("a-a").expect("a built-in study");
        let study = file::parse(found.name, &found.path(), found.text).expect("it parses");
        let began = SystemClock::start().unix_ms();
        let store = Store::create(&path, &study, Facts::default(), began).expect("a store");
        Self { _home: home, path, store, began }
    }

    /// Stores the first `count` runs of a block.
    pub fn block(&mut self, block: u32, count: usize) {
        let study = self.store.plan().study.clone();
        for slot in block_order(&study, block).into_iter().take(count) {
            let failure = RunFailure::at(Stage::Connect, "nobody listens");
            let (sequence, spec) = (self.store.next_sequence(), study.cells[0].spec.clone());
            let run = stored_run(sequence, block, slot.cell, spec, failure);
            let started_unix_ms = self.began + 1000 * u64::from(sequence);
            self.store.append(&StoredRun { started_unix_ms, ..run }).expect("store a run");
        }
    }

    fn watch(&self, options: &str) -> Running {
        watch(&self.path, options)
    }
}

fn watch(path: &Path, options: &str) -> Running {
    Running::start(command(LINKRATE, "watch").args(options.split_whitespace()).arg(path))
}

/// Twelve cells and the idle run.
pub const RUNS: usize = 13;

#[test]
fn a_line_for_each_block_until_the_study_ends() {
    let mut growing = Growing::new();
    let watching = growing.watch("");
    std::thread::sleep(LONGER_THAN_POLL);
    growing.block(0, RUNS);
    std::thread::sleep(LONGER_THAN_POLL);
    // a run that is being stored while it is looked at
    let runs = growing.path.join(RUNS_FILE);
    let mut torn = OpenOptions::new().append(true).open(&runs).expect("open the runs");
    let whole = torn.metadata().expect("its length").len();
    torn.write_all(b"{\"crc\":\"0000").expect("half a line");
    std::thread::sleep(LONGER_THAN_POLL);
    torn.set_len(whole).expect("take it back");
    growing.block(1, RUNS);
    growing.block(2, 4);
    std::thread::sleep(LONGER_THAN_POLL);
    growing.store.finish(&Ended::Interrupted).expect("end it");
    let finished = watching.wait().expect_code(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].starts_with("0 of 5 to 20 blocks, 0 of 13 runs of the next"), "{lines:#?}");
    assert!(lines[1].starts_with("1 of 5 to 20 blocks, 0 of 13 runs"), "{lines:#?}");
    assert!(
        lines[1].contains("; about 52 s left, at most 4 min 7 s; 0 of 0 figures"),
        "{lines:#?}"
    );
    assert!(lines[1].ends_with("; 13 runs failed"), "{lines:#?}");
    assert!(lines[2].starts_with("2 of 5 to 20 blocks, 4 of 13 runs"), "{lines:#?}");
    assert_eq!(lines[3], "ended: interrupted");
}

#[test]
fn json_has_a_document_for_each_block() {
    let mut growing = Growing::new();
    growing.block(0, RUNS);
    growing.store.finish(&Ended::Interrupted).expect("end it");
    let finished = growing.watch("--json").wait().expect_code(0);
    let document: Value = serde_json::from_str(finished.stdout.trim_end()).expect("one line");
    assert_eq!((&document["blocks"], &document["ended"]), (&1.into(), &"interrupted".into()));
    assert_eq!(document["cells"].as_array().map(Vec::len), Some(RUNS - 1));
}

#[test]
fn ctrl_c_ends_the_watch_and_not_the_study() {
    let growing = Growing::new();
    let watching = growing.watch("");
    std::thread::sleep(LONGER_THAN_POLL);
    watching.signal(Signal::INT);
    watching.wait().expect_code(0);
    assert!(Store::is_running(&growing.path).expect("a store"));
}

#[test]
fn does_not_wait_for_a_killed_study() {
    let Growing { _home, path, store, .. } = Growing::new();
    drop(store);
    assert!(!Store::is_running(&path).expect("a store"));
    let finished = watch(&path, "").wait().expect_code(1);
    let hint = format!("hint: linkrate resume {}\n", path.display());
    assert!(finished.stderr.ends_with(&hint), "{}", finished.stderr);
}

#[test]
fn refuses_a_directory_that_is_not_a_store() {
    let home = tempfile::tempdir().expect("a directory");
    let finished = watch(home.path(), "").wait().expect_code(2);
    assert!(finished.stderr.contains("linkrate run"), "{}", finished.stderr);
}
