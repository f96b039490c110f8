//! `plan.json`: the study and its testbed; and `ended.json`: why the last session ended.

use std::fmt;
use std::path::Path;

use linkrate_model::clean;
use linkrate_model::spec::Adapter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::executor::{Facts, RunFailure};
use crate::fleet::Fleet;
use crate::fleet::facts::of_both;
use crate::store::error::StoreError;
use crate::store::files::Files;
use crate::store::{ENDED_FILE, PLAN_FILE, json};
use crate::study::Study;
use linkrate_stats::stop::StopReason;

/// The version of the store. A store of a later one is refused, never guessed at.
pub const STORE_FORMAT: u32 = 1;

/// Most bytes of `plan.json` and `ended.json` that are read, and so that are written.
pub const MAX_DOCUMENT_BYTES: u64 = 16 << 20;

/// Most sessions of a study. Each look at a running study goes through all of them.
const MAX_SESSIONS: usize = 4096;

/// The study, its facts, and the time of its begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredPlan {
    /// [`STORE_FORMAT`].
    pub format: u32,
    /// The linkrate that made the store.
    pub linkrate_version: String,
    /// When the store was made, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// The study in force: source text, cells, method after overrides, seed.
    pub study: Study,
    /// Facts about the testbed when the store was made.
    pub facts: Facts,
    /// Later sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Session>,
}

/// A session that continued with a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// When it began, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// The linkrate that ran it.
    pub linkrate_version: String,
    /// Facts about its testbed.
    pub facts: Facts,
    /// The stop rule had ended the study before, as when its budget was spent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_rule: bool,
}

impl Session {
    /// One that begins now; `before` is why the last session ended.
    pub(crate) fn new(facts: Facts, started_unix_ms: u64, before: Option<&Ended>) -> Self {
        let linkrate_version = env!("CARGO_PKG_VERSION").to_owned();
        let after_rule = matches!(before, Some(Ended::Rule(_)));
        Self { started_unix_ms, linkrate_version, facts: facts.cleaned(), after_rule }
    }
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By the study's stop rule.
    Rule(StopReason),
    /// By nothing: its runs were imported.
    Imported,
    /// The user stopped the study.
    Interrupted,
    /// A run failed in a study that stops on failure.
    RunFailed(RunFailure),
    /// The testbed was lost.
    TestbedLost(RunFailure),
}

impl Ended {
    /// Whether the study ran to its stop rule and found something, or its runs were imported.
    pub fn is_complete(&self) -> bool {
        matches!(
            self,
            Self::Rule(
                StopReason::Precision { .. }
                    | StopReason::MaxBlocks { .. }
                    | StopReason::Budget { .. }
            ) | Self::Imported
        )
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(reason) => reason.fmt(f),
            Self::Imported => f.write_str("imported from the output of other programs"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::RunFailed(failure) => {
                write!(f, "a run failed, and the study stops on failure ({failure})")
            }
            Self::TestbedLost(failure) => write!(f, "the testbed was lost ({failure})"),
        }
    }
}

/// What every version of the plan begins with.
#[derive(Deserialize)]
struct Header {
    format: u32,
    linkrate_version: String,
}

impl StoredPlan {
    /// The plan of a study that begins now.
    pub fn new(study: Study, facts: Facts, started_unix_ms: u64) -> Self {
        Self {
            format: STORE_FORMAT,
            linkrate_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ms,
            study,
            facts: facts.cleaned(),
            resumed: Vec::new(),
        }
    }

    /// The same plan with another session.
    pub(crate) fn with_session(&self, session: Session) -> Self {
        let mut plan = self.clone();
        plan.resumed.push(session);
        plan
    }

    /// The same plan with another assignment of nodes to places.
    pub(crate) fn with_fleet(&self, fleet: Fleet) -> Self {
        let mut plan = self.clone();
        plan.study.fleet = Some(fleet);
        plan
    }

    /// Whether its runs were measured by other programs.
    pub fn is_imported(&self) -> bool {
        matches!(self.study.testbed.adapter, Adapter::Unknown)
    }

    /// What differs between the facts stored and those of today's testbed, as full sentences. A
    /// study resumed on another kernel measures another thing.
    pub fn changed_facts(&self, now: &Facts) -> Vec<String> {
        let stored = &self.facts.facts;
        // nothing is known of a node that was not there
        let is_comparable = |name: &str| of_both(name, &self.facts, now);
        let stored_of_both = stored.iter().filter(|(name, _)| is_comparable(name));
        let changed = stored_of_both.filter_map(|(name, before)| match now.facts.get(name) {
            Some(after) if after == before => None,
            Some(after) => Some(format!("{name} was {before} when the study began, now {after}")),
            None => Some(format!("{name} was {before} when the study began, now it is not known")),
        });
        let added =
            now.facts.iter().filter(|(name, _)| !stored.contains_key(*name) && is_comparable(name));
        let added = added
            .map(|(name, after)| format!("{name} was not known when the study began, now {after}"));
        // another kernel has others
        let sysctls = self.facts.sysctls.iter().filter_map(|(name, before)| {
            let after = now.sysctls.get(name).filter(|after| *after != before)?;
            Some(format!("{name} was {before} when the study began, now {after}"))
        });
        changed.chain(added).chain(sysctls).collect()
    }

    /// The text for `path`, once it is sure that it reads back.
    pub(crate) fn encode(&self, path: &Path) -> Result<String, StoreError> {
        let unreadable = |reason| StoreError::Unreadable { path: path.to_owned(), reason };
        let text = document(self).map_err(unreadable)?;
        let read: Self = read_back(text.as_bytes()).map_err(unreadable)?;
        read.check().map_err(unreadable)?;
        Ok(text)
    }

    pub(crate) fn read(files: &Files) -> Result<Self, StoreError> {
        let path = files.path_of(PLAN_FILE);
        let damaged = |reason| StoreError::DamagedFile { path: path.clone(), reason };
        let Some(text) = files.read(PLAN_FILE, MAX_DOCUMENT_BYTES)? else {
            let directory = path.parent().unwrap_or(Path::new("")).to_owned();
            return Err(StoreError::NotAStore { directory });
        };
        // the number of the format first: all else may have another meaning in a later one
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| damaged(clean::short_line(&error.to_string(), 300).into_owned()))?;
        if header.format > STORE_FORMAT {
            return Err(StoreError::Newer {
                path,
                found: header.format,
                known: STORE_FORMAT,
                written_by: clean::short_line(&header.linkrate_version, 64).into_owned(),
            });
        }
        if header.format == 0 {
            return Err(damaged("store format 0 does not exist".to_owned()));
        }
        let plan: Self = read_back(&text).map_err(damaged)?;
        plan.check().map_err(damaged)?;
        Ok(plan)
    }

    /// The checks that a study file goes through, and those of the store.
    fn check(&self) -> Result<(), String> {
        if self.resumed.len() > MAX_SESSIONS {
            let sessions = self.resumed.len();
            return Err(format!("{sessions} sessions, expected at most {MAX_SESSIONS}"));
        }
        self.study.check()
    }
}

pub(crate) fn write_ended(files: &Files, ended: &Ended) -> Result<(), StoreError> {
    let text = document(ended)
        .map_err(|reason| StoreError::Unreadable { path: files.path_of(ENDED_FILE), reason })?;
    files.write_whole(ENDED_FILE, text.as_bytes())
}

/// Reads `ended.json`; `None` when there is none.
pub(crate) fn read_ended(files: &Files) -> Result<Option<Ended>, StoreError> {
    let Some(text) = files.read(ENDED_FILE, MAX_DOCUMENT_BYTES)? else { return Ok(None) };
    let path = files.path_of(ENDED_FILE);
    read_back(&text).map(Some).map_err(|reason| StoreError::DamagedFile { path, reason })
}

/// A value as a document that its reader takes.
fn document(value: &impl Serialize) -> Result<String, String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    text.push('\n');
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        let bytes = text.len();
        return Err(format!(
            "the document has {bytes} bytes, expected at most {MAX_DOCUMENT_BYTES}"
        ));
    }
    Ok(text)
}

/// The value of a document, cleaned.
fn read_back<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    let text = json::harmless(text)?;
    serde_json::from_slice(&text)
        .map_err(|error| clean::short_line(&error.to_string(), 300).into_owned())
}
