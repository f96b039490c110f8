//! Agents on other machines, started through `ssh`.
//!
//! `ssh` only carries the protocol. linkrate passes [`OPTIONS`]; the user's own configuration of
//! `ssh` decides who may log in and how. The agent ends with the connection, whichever side loses
//! it, and restores what it has changed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use linkrate_agent::protocol::{PROTOCOL_VERSION, Refusal};
use linkrate_sys::host::{Isolation, Life, spawn_heard};
use linkrate_sys::shell;
use linkrate_terms::CpuSet;

use super::{Reach, Words};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;

/// The program `ssh`, in the search path.
const SSH: &str = "ssh";

/// No terminal, no questions, no forwarding; hosts that no longer answer are given up.
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

/// Exit code of `ssh` when `ssh` itself failed, ssh(1).
const SSH_FAILED: i32 = 255;

/// Exit codes of a shell that finds no such program, or may not run it.
const NO_PROGRAM: [i32; 2] = [127, 126];

/// Time that the far agent may take to restore settings.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent on another machine.
#[derive(Debug)]
pub(crate) struct Ssh<'a> {
    /// The destination for `ssh`: `lab2`, `root@lab2`, `ssh://root@lab2:2222`.
    pub(crate) destination: &'a str,
    /// The linkrate program there.
    pub(crate) program: &'a str,
    /// The CPUs it runs on; all of that machine unless they are named.
    pub(crate) cpus: Option<&'a CpuSet>,
}

impl Reach for Ssh<'_> {
    fn start(&self, name: &str, options: &LabOptions) -> Result<Host, LabError> {
        // ssh joins its arguments with blanks, and a shell takes them apart
        let command = format!("{} agent --stdio", shell::word(self.program));
        let mut arguments: Vec<&OsStr> = OPTIONS.iter().map(OsStr::new).collect();
        arguments.extend(["--", self.destination, &command].map(OsStr::new));
        // ssh holds nothing itself: without it, the far agent's input ends, and it restores
        let life = Life::WithItsInput { patience: PATIENCE, holds: false };
        let spawned = spawn_heard(life, Path::new(SSH), &arguments, Isolation::None);
        let (process, heard) = spawned.map_err(|error| LabError::CannotMeasure {
            what: format!("{name}: {error}"),
            hint: Some("install the package openssh-client".to_owned()),
        })?;
        let words = Words::pass_on(name, heard)?;
        let mut host = match Host::greet(name, process, options) {
            Ok(host) => host.with_words(words),
            Err(failed) => {
                let (error, mut carrier) = *failed;
                if matches!(error, AgentError::Interrupted) {
                    return Err(error.into());
                }
                let status = carrier.end().ok();
                // the reason may be among them
                words.finish();
                return Err(explained(name, self.destination, self.program, &error, status));
            }
        };
        let all = host.hello.online_cpus.clone();
        host.place(self.cpus.unwrap_or(&all))?;
        Ok(host)
    }
}

/// Why there is no agent, with a remedy.
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
            format!("{name}: ssh made no connection; its own message says why"),
            format!("ssh must log in without asking a question; try: {try_it} true"),
        ),
        Some(code) if NO_PROGRAM.contains(&code) => refused(
            format!("{name}: program {program} is missing or cannot be run"),
            "install linkrate there, or give its path with agent in [testbed] or --agent"
                .to_owned(),
        ),
        Some(code) if code != 0 => refused(
            format!("{name}: {program} ended with exit code {code} before it answered"),
            format!("try: {try_it} {} --version", shell::word(program)),
        ),
        _ => refused(
            format!("{name}: {error}"),
            format!(
                "a shell that prints text when it starts breaks the protocol; try: {try_it} true"
            ),
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
    fn errors_name_the_host_and_have_a_remedy() {
        let died = AgentError::Lost { host: "ssh:lab2".to_owned(), reason: "died".to_owned() };
        for (code, what, hint) in [
            (255, "ssh made no connection", "ssh -o BatchMode=yes lab2 true"),
            (127, "program linkrate is missing", "--agent"),
            (2, "ended with exit code 2", "linkrate --version"),
            (0, "agent of ssh:lab2: died", "a shell that prints text"),
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
