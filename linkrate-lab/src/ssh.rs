//! Agents on other machines, started through `ssh`.
//!
//! `ssh` is the carrier and nothing more: what it is given stands in [`OPTIONS`], who may log in and
//! how is for its own configuration to say. The agent there ends with the connection, whichever
//! side loses it, and puts back what it has changed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use linkrate_agent::protocol::{PROTOCOL_VERSION, Refusal};
use linkrate_sys::host::{Isolation, Life, spawn_for};
use linkrate_sys::shell;

use crate::LabError;
use crate::connection::AgentError;
use crate::testbed::{Host, LabOptions, converse};

/// The program, in the search path.
const SSH: &str = "ssh";

/// No terminal and no question, no forwarding, and an end to hosts that no longer answer.
const OPTIONS: [&str; 11] = [
    "-T",
    "-a",
    "-x",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
];

/// What `ssh` ends with when it is its own failure, ssh(1).
const SSH_FAILED: i32 = 255;

/// What a shell ends with that finds no such program, and one it may not run.
const NO_PROGRAM: [i32; 2] = [127, 126];

/// How long the far agent may take to put things back.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts `program` at `destination` as an agent, called `name` in errors.
///
/// # Errors
/// What `ssh`, its far shell or the agent there did instead of answering, and the remedy.
pub(crate) fn start(
    name: &str,
    destination: &str,
    program: &str,
    options: &LabOptions,
) -> Result<Host, LabError> {
    // ssh joins its arguments with blanks, and a shell takes them apart
    let command = format!("{} agent --stdio", shell::word(program));
    let mut arguments: Vec<&OsStr> = OPTIONS.iter().map(OsStr::new).collect();
    arguments.extend(["--", destination, &command].map(OsStr::new));
    let life = Life::WithItsInput { patience: PATIENCE };
    let spawned = spawn_for(life, Path::new(SSH), &arguments, Isolation::None);
    let mut process = spawned.map_err(|error| LabError::CannotMeasure {
        what: format!("{name}: {error}"),
        hint: Some("ssh comes with the package openssh-client".to_owned()),
    })?;
    let answer = converse(name, &process, options);
    match answer {
        Ok((connection, hello)) => Ok(Host::new(name, connection, hello, process)?),
        Err(AgentError::Interrupted) => Err(AgentError::Interrupted.into()),
        Err(error) => {
            let status = process.end(PATIENCE).ok();
            Err(explained(name, destination, program, &error, status))
        }
    }
}

/// Why there is no agent, in words.
fn explained(
    name: &str,
    destination: &str,
    program: &str,
    error: &AgentError,
    status: Option<ExitStatus>,
) -> LabError {
    let refused = |what: String, hint: String| LabError::CannotMeasure { what, hint: Some(hint) };
    if let AgentError::Refused(Refusal { reason, hint }) = error {
        return LabError::CannotMeasure {
            what: format!(
                "{name}: {reason}; this linkrate is {} and speaks {PROTOCOL_VERSION}",
                env!("CARGO_PKG_VERSION")
            ),
            hint: hint.clone(),
        };
    }
    let try_it = format!("ssh -o BatchMode=yes {}", shell::word(destination));
    match status.and_then(|status| status.code()) {
        Some(SSH_FAILED) => refused(
            format!("{name}: ssh gave no connection, for the reason it has said"),
            format!("it must come in without a question: {try_it} true"),
        ),
        Some(code) if NO_PROGRAM.contains(&code) => refused(
            format!("{name}: there is no program {program} that could be run"),
            "install linkrate there, or name its path with agent in [testbed], or --agent"
                .to_owned(),
        ),
        Some(code) if code != 0 => refused(
            format!("{name}: {program} ended with exit code {code} before it answered"),
            format!("look at: {try_it} {} --version", shell::word(program)),
        ),
        _ => refused(
            format!("{name}: {error}"),
            format!("what a shell prints when it starts is no answer; look at: {try_it} true"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn told(error: &AgentError, code: i32) -> (String, String) {
        let status = ExitStatus::from_raw(code << 8);
        let error = explained("ssh:lab2", "lab2", "linkrate", error, Some(status));
        (error.to_string(), error.hint().unwrap_or_default())
    }

    #[test]
    fn what_went_wrong_names_the_host_and_has_a_remedy() {
        let died = AgentError::Lost { host: "ssh:lab2".to_owned(), reason: "died".to_owned() };
        for (code, what, hint) in [
            (255, "ssh gave no connection", "ssh -o BatchMode=yes lab2 true"),
            (127, "there is no program linkrate", "--agent"),
            (2, "ended with exit code 2", "linkrate --version"),
            (0, "agent of ssh:lab2: died", "what a shell prints"),
        ] {
            let (message, remedy) = told(&died, code);
            assert!(message.contains("ssh:lab2") && message.contains(what), "{message}");
            assert!(remedy.contains(hint), "{remedy}");
        }
        let refusal = Refusal {
            reason: "protocol version 4, this agent speaks 3".to_owned(),
            hint: Some("install the same linkrate on both hosts".to_owned()),
        };
        let (message, remedy) = told(&AgentError::Refused(refusal), 0);
        assert!(message.contains("ssh:lab2: protocol version 4, this agent speaks 3"), "{message}");
        assert_eq!(remedy, "install the same linkrate on both hosts");
    }
}
