//! Whether intervals cover what changes from session to session: a small study, five times with a
//! fresh lab in a process of its own, and how often the mean of one session lies outside the
//! interval of another one. Run by `cargo xtask sessions`, which says what its arguments mean, and by
//! `cargo xtask bench`.

mod common;
#[path = "sessions/judge.rs"]
mod judge;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use common::Failed;
use judge::Judgement;

/// Sessions.
const SESSIONS: usize = 5;

/// The exit code of a study some of whose runs were refused.
const RUNS_FAILED: i32 = 4;

const STUDY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/sessions.toml");

fn main() -> Result<(), Failed> {
    if !common::can_run("sessions", &[]) {
        return Ok(());
    }
    let temporary;
    let mut arguments = common::words();
    let folder = match arguments.next() {
        Some(folder) => PathBuf::from(folder),
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path().to_path_buf()
        }
    };
    let more = arguments.next().map_or(Ok(SESSIONS), |count| count.parse::<usize>())?;
    fs::create_dir_all(&folder)?;
    let there = stored(&folder)?.len();
    for number in there..SESSIONS.min(there + more) {
        session(&folder.join(format!("session-{number}")))?;
    }
    let documents = stored(&folder)?;
    println!("{} sessions of {STUDY}", documents.len());
    if documents.len() < 2 {
        return Ok(());
    }
    let judgement = Judgement::of(&documents)?;
    println!("{judgement}");
    Ok(judgement.check()?)
}

/// Runs the study in a process of its own, which builds its own lab. Runs that were rejected leave the other ones to
/// be judged, and the study names them.
fn session(directory: &Path) -> Result<(), Failed> {
    let status = Command::new(env!("CARGO_BIN_EXE_linkrate"))
        .args(["run", STUDY, "--output"])
        .arg(directory)
        .stdout(Stdio::null())
        .status()?;
    match status.code() {
        Some(0 | RUNS_FAILED) => Ok(()),
        _ => Err(format!("the study ended with {status}").into()),
    }
}

/// The documents of the sessions in `folder`, in their order.
fn stored(folder: &Path) -> Result<Vec<Value>, Failed> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path().join("results.json")))
        .filter(|path| path.exists())
        .collect();
    paths.sort();
    paths.iter().map(|path| Ok(serde_json::from_slice(&fs::read(path)?)?)).collect()
}
