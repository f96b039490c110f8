//! `plan.json`: the study and its testbed; and `ended.json`: why the last session ended.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::executor::{Facts, RunFailure};
use crate::stats::stop::StopReason;
use crate::store::error::{IoContext, StoreError};
use crate::store::{ENDED_FILE, PLAN_FILE, directory};
use crate::study::Study;

/// Version of the store. A store of a later one is refused, never guessed at.
pub const STORE_FORMAT: u32 = 1;

/// Most bytes of `plan.json` and `ended.json` that are read.
pub const MAX_DOCUMENT_BYTES: u64 = 16 << 20;

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

/// A session that went on with a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// When it began, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// The linkrate that ran it.
    pub linkrate_version: String,
    /// Facts about its testbed.
    pub facts: Facts,
}

impl Session {
    pub(crate) fn new(facts: Facts, started_unix_ms: u64) -> Self {
        let linkrate_version = env!("CARGO_PKG_VERSION").to_owned();
        Self { started_unix_ms, linkrate_version, facts }
    }
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By the study's stop rule.
    Rule(StopReason),
    /// The user stopped the study.
    Interrupted,
    /// A run failed in a study that stops on failure.
    RunFailed(RunFailure),
    /// The testbed was lost.
    TestbedLost(RunFailure),
}

impl Ended {
    /// Whether the study ran to its stop rule and found something.
    pub fn is_complete(&self) -> bool {
        matches!(
            self,
            Self::Rule(
                StopReason::Precision { .. }
                    | StopReason::MaxBlocks { .. }
                    | StopReason::Budget { .. }
            )
        )
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(reason) => reason.fmt(f),
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
    #[serde(default)]
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
            facts,
            resumed: Vec::new(),
        }
    }

    /// What differs between the facts stored and those of today's testbed, as full sentences. A
    /// study resumed on another kernel measures another thing.
    pub fn changed_facts(&self, now: &Facts) -> Vec<String> {
        let stored = &self.facts.facts;
        let changed = stored.iter().filter_map(|(name, before)| match now.facts.get(name) {
            Some(after) if after == before => None,
            Some(after) => Some(format!("{name} was {before} when the study began, now {after}")),
            None => Some(format!("{name} was {before} when the study began, now it is not known")),
        });
        let added =
            now.facts.iter().filter(|(name, _)| !stored.contains_key(*name)).map(
                |(name, after)| format!("{name} was not known when the study began, now {after}"),
            );
        changed.chain(added).collect()
    }

    /// The text for `path`, once it is sure that it reads back.
    pub(crate) fn encode(&self, path: &Path) -> Result<String, StoreError> {
        let unreadable = |reason| StoreError::Unreadable { path: path.to_owned(), reason };
        let mut text =
            serde_json::to_string_pretty(self).map_err(|error| unreadable(error.to_string()))?;
        text.push('\n');
        let read: Self =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        check(&read.study).map_err(unreadable)?;
        Ok(text)
    }

    /// Reads the plan of a results directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(PLAN_FILE);
        let damaged = |reason| StoreError::DamagedFile { path: path.clone(), reason };
        let Some(text) = read_document(&path)? else {
            return Err(StoreError::NotAStore { directory: directory.to_owned() });
        };
        let header: Header = parse(&text, &path)?;
        if header.format > STORE_FORMAT {
            return Err(StoreError::Newer {
                path,
                found: header.format,
                known: STORE_FORMAT,
                written_by: header.linkrate_version,
            });
        }
        if header.format == 0 {
            return Err(damaged("store format 0 does not exist".to_owned()));
        }
        let plan: Self = parse(&text, &path)?;
        check(&plan.study).map_err(damaged)?;
        Ok(plan)
    }
}

/// What the runner and the statistics rely on; the study file's parser promises more than this.
fn check(study: &Study) -> Result<(), String> {
    let method = &study.method;
    if study.cells.is_empty() {
        return Err("the study has no cells".to_owned());
    }
    if !(method.confidence > 0.0 && method.confidence < 1.0) {
        return Err(format!("confidence {} is not between 0 and 1", method.confidence));
    }
    if method.precision.is_nan() || method.precision <= 0.0 {
        return Err(format!("precision {} is not above zero", method.precision));
    }
    if method.max_blocks == 0 || method.min_blocks > method.max_blocks {
        return Err(format!("blocks from {} to {}", method.min_blocks, method.max_blocks));
    }
    Ok(())
}

/// Writes `ended.json`.
pub(crate) fn write_ended(directory: &Path, ended: &Ended) -> Result<(), StoreError> {
    let path = directory.join(ENDED_FILE);
    let mut text = serde_json::to_string_pretty(ended).map_err(|error| StoreError::Unreadable {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    text.push('\n');
    directory::write_whole(&path, text.as_bytes())
}

/// Reads `ended.json`; `None` when there is none.
pub(crate) fn read_ended(directory: &Path) -> Result<Option<Ended>, StoreError> {
    let path = directory.join(ENDED_FILE);
    read_document(&path)?.map(|text| parse(&text, &path)).transpose()
}

/// The bytes of a small file; `None` when there is none.
fn read_document(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).during("opening", path),
    };
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).during("reading", path)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(StoreError::DamagedFile {
            path: path.to_owned(),
            reason: format!("it is longer than {MAX_DOCUMENT_BYTES} bytes"),
        });
    }
    Ok(Some(bytes))
}

fn parse<T: DeserializeOwned>(text: &[u8], path: &Path) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|error| StoreError::DamagedFile {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
