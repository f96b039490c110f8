//! A server in the background (`--daemon`), and the file with the number of its process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linkrate_sys::stderr;
use rustix::process::{Pid, setsid, test_kill_process};

use crate::exit::{Exit, Failure};
use crate::program;

/// Set for the process in the background.
const HERE: &str = "LINKRATE_IN_BACKGROUND";

/// Whether this process is the one in the background. Then it leads a session of its own from now on.
pub(super) fn is_here() -> bool {
    let is_here = std::env::var_os(HERE).is_some();
    if is_here {
        // it fails for one that leads a session already
        let _ = setsid();
    }
    is_here
}

/// Starts this program again in the background, and returns when it listens: a client that is started next finds it. What
/// it says until then is said here.
pub(super) fn start() -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::Failure, format!("--daemon: {error}"));
    let words = program::words();
    let mut command = Command::new(program::this_program()?);
    command.args(words.iter().skip(1)).env(HERE, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    for line in child.stderr.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let line = line.map_err(failed)?;
        stderr::line(&line);
        if line.starts_with("listening on ") {
            return Ok(Exit::Success);
        }
    }
    let ended = child.wait().map_err(failed)?;
    Err(Failure::new(Exit::Failure, format!("--daemon: the server has ended with {ended}")))
}

/// A file with the number of this process, removed when it is dropped.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it. Fails where the process of its number lives.
    pub(super) fn write(path: &Path) -> Result<Self, Failure> {
        let failed =
            |reason: String| Failure::new(Exit::Failure, format!("{}: {reason}", path.display()));
        let found = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        if let Some(pid) =
            found.and_then(Pid::from_raw).filter(|pid| test_kill_process(*pid).is_ok())
        {
            return Err(failed(format!("process {pid} runs already", pid = pid.as_raw_nonzero())));
        }
        fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // one that somebody else has removed is gone too
        let _ = fs::remove_file(&self.0);
    }
}
