//! A store in memory, for a measurement that is printed and not kept.

use std::path::{Path, PathBuf};

use super::{Ended, RunStore, Session, StoreError, StoredPlan, StoredRun, StoredStudy, line};
use crate::executor::Facts;
use crate::study::Study;

/// Runs in memory. They are those that a directory would give back.
#[derive(Debug)]
pub struct MemoryStore {
    plan: StoredPlan,
    runs: Vec<StoredRun>,
    ended: Option<Ended>,
}

impl MemoryStore {
    pub fn new(study: Study, facts: Facts, started_unix_ms: u64) -> Self {
        Self { plan: StoredPlan::new(study, facts, started_unix_ms), runs: Vec::new(), ended: None }
    }

    /// The study with its runs, for the analysis.
    pub fn into_study(self) -> StoredStudy {
        let Self { plan, runs, ended } = self;
        StoredStudy { directory: PathBuf::new(), plan, runs, torn: false, ended }
    }
}

impl RunStore for MemoryStore {
    fn plan(&self) -> &StoredPlan {
        &self.plan
    }

    fn runs(&self) -> &[StoredRun] {
        &self.runs
    }

    fn begin_session(&mut self, facts: Facts, started_unix_ms: u64) -> Result<(), StoreError> {
        if !self.runs.is_empty() {
            let session = Session::new(facts, started_unix_ms, self.ended.as_ref());
            self.plan = self.plan.with_session(session);
        }
        Ok(())
    }

    fn append(&mut self, run: &StoredRun) -> Result<(), StoreError> {
        // written and read as in a directory, so that a figure that is no number is found
        let stored = line::encode(run).and_then(|line| line::decode(line.trim_ascii_end()));
        let unreadable =
            |reason| StoreError::Unreadable { path: Path::new("memory").to_owned(), reason };
        self.runs.push(stored.map_err(unreadable)?);
        Ok(())
    }

    fn finish(&mut self, ended: &Ended) -> Result<(), StoreError> {
        self.ended = Some(ended.clone());
        Ok(())
    }
}
