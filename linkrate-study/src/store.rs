//! The run store: a directory per study run, in which every run is safe the moment it ends.
//!
//! ```text
//! results/tso-20261121-1512/
//!   plan.json        the study, the testbed's facts, the start; its presence makes the directory a store
//!   study.toml       the study file, verbatim, if there is one
//!   runs.jsonl       one line per run with its checksum, only ever appended to
//!   ended.json       why the last session ended; absent while one runs or after a kill
//!   runs.jsonl.torn  incomplete lines after a crash, kept for inspection
//! ```
//!
//! One session writes at a time: it holds a lock on `runs.jsonl` (flock(2)), which the kernel
//! lets go of when the process dies. Reading needs no lock.
//!
//! A results directory may come from another user. What is read from it goes through the checks
//! that a study file goes through, no link in it is followed, and a pipe or a device in the place of
//! a file is refused.
//!
//! [`RunStore`] is the runner's view of a store; [`MemoryStore`] keeps nothing on disk.
//!
//! - [`memory`]: runs in memory
//! - [`mod@line`]: one run as a line with a checksum
//! - [`log`]: the file of lines; torn ends, damage, rollback
//! - [`plan`]: `plan.json` and `ended.json`, versions
//! - [`directory`]: names of results directories
//! - [`files`]: files of a directory that other people may write to
//! - [`mod@json`]: texts and counts of others, made harmless
//! - [`error`]: errors, each with the path

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linkrate_model::{Imported, Measurement, RunSpec};
use serde::{Deserialize, Serialize};

use crate::executor::{Facts, RunFailure};
use crate::fleet::{Fleet, Pair};
use crate::study::Study;

pub mod directory;
pub mod error;
pub mod files;
pub mod json;
pub mod line;
pub mod log;
pub mod memory;
pub mod plan;

pub use error::StoreError;
pub use memory::MemoryStore;
pub use plan::{Ended, Session, StoredPlan};

use error::IoContext;
use files::Files;
use log::RunLog;

pub const RUNS_FILE: &str = "runs.jsonl";
pub const PLAN_FILE: &str = "plan.json";
pub const STUDY_FILE: &str = "study.toml";
pub const ENDED_FILE: &str = "ended.json";
/// Name of the file that keeps torn lines.
pub const TORN_FILE: &str = "runs.jsonl.torn";

/// One stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Position in the order of execution, from 0.
    pub sequence: u32,
    /// Block, from 0.
    pub block: u32,
    /// Index of the cell in the plan; `None` for the block's idle run.
    pub cell: Option<u32>,
    /// The nodes of a fleet between which it was; `block` then counts [turns](crate::fleet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
    /// The nodes that could not be reached and were left out of a turn of all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_nodes: Vec<u32>,
    /// Wall-clock start, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// What was asked.
    pub spec: RunSpec,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a run: figures or a reason, never a zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Figures.
    Measured(Box<Measurement>),
    /// Figures of another program, without evidence.
    Imported(Box<Imported>),
    /// The reason why there are none.
    Failed(RunFailure),
}

impl StoredRun {
    pub fn measurement(&self) -> Option<&Measurement> {
        match &self.outcome {
            Outcome::Measured(measurement) => Some(measurement),
            Outcome::Imported(_) | Outcome::Failed(_) => None,
        }
    }

    /// The figures of another program, if the run was imported.
    pub fn imported(&self) -> Option<&Imported> {
        match &self.outcome {
            Outcome::Imported(imported) => Some(imported),
            Outcome::Measured(_) | Outcome::Failed(_) => None,
        }
    }

    /// Whether it has figures.
    pub fn is_good(&self) -> bool {
        self.failure().is_none()
    }

    pub fn failure(&self) -> Option<&RunFailure> {
        match &self.outcome {
            Outcome::Measured(_) | Outcome::Imported(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }
}

/// A results directory as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredStudy {
    /// The directory, as it was given; empty when nothing is stored.
    pub directory: PathBuf,
    pub plan: StoredPlan,
    /// Every whole run, in the order of execution.
    pub runs: Vec<StoredRun>,
    /// Whether the last line was cut short, and so left out.
    pub torn: bool,
    /// Why the last session ended; `None` while one runs or after it was killed.
    pub ended: Option<Ended>,
}

/// Keeps the runs of one study while the runner makes them.
pub trait RunStore {
    fn plan(&self) -> &StoredPlan;

    /// Every run stored so far, in the order of execution.
    fn runs(&self) -> &[StoredRun];

    /// Writes down that a session begins, and on which testbed.
    fn begin_session(&mut self, facts: Facts, started_unix_ms: u64) -> Result<(), StoreError>;

    /// Checks, before a run begins, that it can be stored: [`StoreError::Gone`] when the results directory was removed.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Stores a run. When this returns, the run is as safe as the store makes it. [`StoreError::Unreadable`], before
    /// anything is written, when the run would not read back (a figure that is no number).
    fn append(&mut self, run: &StoredRun) -> Result<(), StoreError>;

    /// Writes down why the session ended.
    fn finish(&mut self, ended: &Ended) -> Result<(), StoreError>;

    fn next_sequence(&self) -> u32 {
        u32::try_from(self.runs().len()).unwrap_or(u32::MAX)
    }
}

/// A results directory that this process alone may write to.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    files: Files,
    plan: StoredPlan,
    runs: Vec<StoredRun>,
    log: RunLog<File>,
    resumed: bool,
    /// Why the last session ended, in a store that is resumed.
    before: Option<Ended>,
    recovered: Option<Recovered>,
}

/// A torn line that resuming took off the file of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes taken off.
    pub bytes: u64,
    /// Where they are kept.
    pub kept_in: PathBuf,
}

impl std::fmt::Display for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the last run was cut short while it was stored; its {} bytes are kept in {}",
            self.bytes,
            self.kept_in.display()
        )
    }
}

impl Store {
    /// Makes a store in `directory`, which must be absent or empty; parents are made as needed. [`directory::fresh`]
    /// finds a name that is free. A study that would not read back is refused.
    pub fn create(
        directory: &Path,
        study: &Study,
        facts: Facts,
        started_unix_ms: u64,
    ) -> Result<Self, StoreError> {
        let plan = StoredPlan::new(study.clone(), facts, started_unix_ms);
        let text = plan.encode(&directory.join(PLAN_FILE))?;
        let files = files::make(directory)?;
        if !files.is_empty()? {
            return Err(StoreError::NotEmpty { directory: directory.to_owned() });
        }
        let path = directory.join(RUNS_FILE);
        // created new: of two processes that found the directory empty one loses here
        let file = files.create(RUNS_FILE)?;
        lock(&file, directory, &path)?;
        // a measurement has no file
        if !study.source.is_empty() {
            files.write_whole(STUDY_FILE, study.source.as_bytes())?;
        }
        // the plan comes last: with it the directory is a store
        files.write_whole(PLAN_FILE, text.as_bytes())?;
        let log = RunLog::new(file, path, 0);
        Ok(Self {
            directory: directory.to_owned(),
            files,
            plan,
            runs: Vec::new(),
            log,
            resumed: false,
            before: None,
            recovered: None,
        })
    }

    /// Opens a store to continue with it. A last line cut short by a crash is taken off and kept in
    /// [`TORN_FILE`], see [`Store::recovered`].
    ///
    /// # Errors
    /// [`StoreError::Locked`] while another process writes; [`StoreError::Damaged`] with file and
    /// line for damage that no crash explains, in which case nothing is changed on disk;
    /// [`StoreError::Newer`] for a store of a later linkrate; [`StoreError::Io`].
    pub fn resume(directory: &Path) -> Result<Self, StoreError> {
        let files = open(directory)?;
        if StoredPlan::read(&files)?.is_imported() {
            return Err(StoreError::Imported { directory: directory.to_owned() });
        }
        let path = directory.join(RUNS_FILE);
        let mut file = files.open_to_append(RUNS_FILE)?.ok_or_else(|| absent(&path))?;
        lock(&file, directory, &path)?;
        // another process may have written it before it gave the lock back
        let plan = StoredPlan::read(&files)?;
        let scan = log::scan(&mut file, &path, &plan.study)?;
        let mut recovered = None;
        if !scan.torn.is_empty() {
            let kept_in = directory.join(TORN_FILE);
            files.append_line(TORN_FILE, &scan.torn)?;
            file.set_len(scan.whole_bytes).during("truncating", &path)?;
            file.sync_all().during("syncing", &path)?;
            recovered = Some(Recovered { bytes: scan.torn.len() as u64, kept_in });
        }
        let before = plan::read_ended(&files)?;
        files.remove(ENDED_FILE)?;
        let log = RunLog::new(file, path, scan.whole_bytes);
        Ok(Self {
            directory: directory.to_owned(),
            files,
            plan,
            runs: scan.runs,
            log,
            resumed: true,
            before,
            recovered,
        })
    }

    /// Reads a store without changing it. A run being stored at this moment looks torn.
    pub fn read(directory: &Path) -> Result<StoredStudy, StoreError> {
        let files = open(directory)?;
        let plan = StoredPlan::read(&files)?;
        let path = directory.join(RUNS_FILE);
        let mut file = files.open(RUNS_FILE)?.ok_or_else(|| absent(&path))?;
        let scan = log::scan(&mut file, &path, &plan.study)?;
        Ok(StoredStudy {
            directory: directory.to_owned(),
            plan,
            runs: scan.runs,
            torn: !scan.torn.is_empty(),
            ended: plan::read_ended(&files)?,
        })
    }

    /// Whether a process runs the study of a store at this moment: whether its lock is held.
    pub fn is_running(directory: &Path) -> Result<bool, StoreError> {
        let files = open(directory)?;
        let path = directory.join(RUNS_FILE);
        let Some(file) = files.open(RUNS_FILE)? else {
            // gives the error of the directory, if it has one
            StoredPlan::read(&files)?;
            return Err(absent(&path));
        };
        // shared, so that two callers of this function do not see each other's lock
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(error).during("locking", &path),
        }
    }

    /// Writes down that nodes of a fleet have other places from now on.
    pub fn set_fleet(&mut self, fleet: Fleet) -> Result<(), StoreError> {
        self.set_plan(self.plan.with_fleet(fleet))
    }

    fn set_plan(&mut self, plan: StoredPlan) -> Result<(), StoreError> {
        let text = plan.encode(&self.directory.join(PLAN_FILE))?;
        self.files.write_whole(PLAN_FILE, text.as_bytes())?;
        self.plan = plan;
        Ok(())
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What opening the store had to repair.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }
}

impl RunStore for Store {
    fn plan(&self) -> &StoredPlan {
        &self.plan
    }

    fn runs(&self) -> &[StoredRun] {
        &self.runs
    }

    /// Does nothing in a store that this process made: its plan has the facts.
    fn begin_session(&mut self, facts: Facts, started_unix_ms: u64) -> Result<(), StoreError> {
        if !self.resumed {
            return Ok(());
        }
        let session = Session::new(facts, started_unix_ms, self.before.as_ref());
        self.set_plan(self.plan.with_session(session))
    }

    fn check(&self) -> Result<(), StoreError> {
        self.log.check_place()
    }

    /// When this returns, the run is on the disk. When writing failed, the part of the line that
    /// was written is taken back, so that the store stays whole.
    fn append(&mut self, run: &StoredRun) -> Result<(), StoreError> {
        self.log.check_place()?;
        let stored = self.log.append(run, self.next_sequence())?;
        self.runs.push(stored);
        Ok(())
    }

    fn finish(&mut self, ended: &Ended) -> Result<(), StoreError> {
        plan::write_ended(&self.files, ended)
    }
}

/// A result set of imported runs, ready to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedSet {
    /// The study that the runs seem to be of.
    pub study: Study,
    /// What all files tell alike of the host.
    pub facts: Facts,
    /// The runs, cell after cell as the cells first appear, each in the order of the files.
    pub runs: Vec<StoredRun>,
}

/// Writes a store of imported runs.
pub fn write_imported(
    directory: &Path,
    set: &ImportedSet,
    now_unix_ms: u64,
) -> Result<(), StoreError> {
    let mut store = Store::create(directory, &set.study, set.facts.clone(), now_unix_ms)?;
    for run in &set.runs {
        store.append(run)?;
    }
    store.finish(&Ended::Imported)
}

fn open(directory: &Path) -> Result<Files, StoreError> {
    Files::of(directory).map_err(|error| match &error {
        // a place that does not exist has no plan either
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            StoreError::NotAStore { directory: directory.to_owned() }
        }
        _ => error,
    })
}

/// The error of a store without its file of runs.
fn absent(path: &Path) -> StoreError {
    let source = std::io::ErrorKind::NotFound.into();
    StoreError::Io { operation: "opening", path: path.to_owned(), source }
}

/// How long a lock may be held by a process that only looks.
const TIMEOUT: Duration = Duration::from_millis(100);

/// How often it is tried meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Takes the lock of a writer, once no reader looks whether somebody writes.
fn lock(file: &File, directory: &Path, path: &Path) -> Result<(), StoreError> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        return match file.try_lock() {
            Ok(()) => Ok(()),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(StoreError::Locked { directory: directory.to_owned() })
            }
            Err(std::fs::TryLockError::Error(error)) => Err(error).during("locking", path),
        };
    }
}

#[cfg(test)]
mod tests;
