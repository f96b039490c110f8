//! Agents on other machines, started through `ssh`.
//!
//! `ssh` only carries the protocol. linkrate passes [`OPTIONS`]; the user's own configuration of
//! `ssh` decides who may log in and how. The agent ends with the connection, whichever side loses
//! it, and restores what it has changed. A machine without this version of linkrate gets it for as long
//! as the agent runs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use linkrate_agent::protocol::{PROTOCOL_VERSION, Refusal};
use linkrate_sys::host::{HostProcess, Isolation, Life, spawn_heard};
use linkrate_sys::{shell, tell};
use linkrate_terms::CpuSet;
use linkrate_terms::interfaces::FAR_PROGRAM;

use super::carry::{CarryError, Program};
use super::{Reach, Words};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::{Carrier, Host};
use crate::options::{Deploy, LabOptions};

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

/// The remedy that always helps.
const INSTALL: &str = "install the same linkrate there";

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
        let mut host = match self.run_installed(name, options) {
            Ok(host) => host,
            Err(Absent::Failed(error)) => return Err(*error),
            Err(Absent::Lacks { found, error }) => match &options.deploy {
                // somebody has named a program there
                _ if self.program != FAR_PROGRAM => return Err(*error),
                Deploy::Never => {
                    return Err(LabError::CannotMeasure {
                        what: format!("{name} has {found}, and --no-deploy forbids to copy one"),
                        hint: Some(format!("{INSTALL}, or leave out --no-deploy")),
                    });
                }
                Deploy::Own => self.bring(name, &found, &options.program, options)?,
                Deploy::File(file) => self.bring(name, &found, file, options)?,
            },
        };
        let all = host.hello.online_cpus.clone();
        host.place(self.cpus.unwrap_or(&all))?;
        Ok(host)
    }
}

/// Why the program there did not become an agent.
#[derive(Debug)]
enum Absent {
    /// There is no program, or one of another version.
    Lacks { found: String, error: Box<LabError> },
    /// Something else is wrong.
    Failed(Box<LabError>),
}

impl Ssh<'_> {
    /// Starts `ssh` with a command; messages of the far end are passed on.
    fn spawn(&self, name: &str, command: &str) -> Result<(HostProcess, Words), LabError> {
        let mut arguments: Vec<&OsStr> = OPTIONS.iter().map(OsStr::new).collect();
        arguments.extend(["--", self.destination, command].map(OsStr::new));
        // ssh holds nothing itself: without it, the far agent's input ends, and it restores
        let life = Life::WithItsInput { patience: PATIENCE, holds: false };
        let spawned = spawn_heard(life, Path::new(SSH), &arguments, Isolation::None);
        let (process, heard) = spawned.map_err(|error| LabError::CannotMeasure {
            what: format!("{name}: {error}"),
            hint: Some("install the package openssh-client".to_owned()),
        })?;
        Ok((process, Words::pass_on(name, heard)?))
    }

    /// Starts the program that is installed there.
    fn run_installed(&self, name: &str, options: &LabOptions) -> Result<Host, Absent> {
        // ssh joins its arguments with blanks, and a shell takes them apart
        let command = format!("{} agent --stdio", shell::word(self.program));
        let failed = |error| Absent::Failed(Box::new(error));
        let (process, words) = self.spawn(name, &command).map_err(failed)?;
        match Host::greet(name, process, options) {
            Ok(host) => Ok(host.with_words(words)),
            Err(ended) => {
                let (error, mut carrier) = *ended;
                if matches!(error, AgentError::Interrupted) {
                    return Err(failed(error.into()));
                }
                let status = carrier.end().ok();
                // the reason may be among them
                words.finish();
                let found = lacks(&error, status);
                let error = explained(name, self.destination, self.program, &error, status);
                Err(match found {
                    Some(found) => Absent::Lacks { found, error: Box::new(error) },
                    None => failed(error),
                })
            }
        }
    }

    /// Copies `file` there and starts it. `found` is what is there.
    fn bring(
        &self,
        name: &str,
        found: &str,
        file: &Path,
        options: &LabOptions,
    ) -> Result<Host, LabError> {
        let mut program = Program::open(file).map_err(|error| LabError::CannotMeasure {
            what: format!("{name} has {found}, and {} cannot be copied: {error}", file.display()),
            hint: Some(format!("name a static linkrate with --deploy, or {INSTALL}")),
        })?;
        let but = match program.elf().is_static {
            true => "",
            false => " (dynamically linked: it may not run there; name a static one with --deploy)",
        };
        tell::line(format_args!(
            "note: {name} has {found}: {} ({}) runs there from a temporary file{but}",
            file.display(),
            program.megabytes(),
        ));
        let (process, words) = self.spawn(name, &program.command())?;
        let sent = program.send(process.socket(), &options.stop);
        let mut carrier = Carrier::from(process);
        let failed = match sent {
            Ok(()) => match Host::greet(name, carrier, options) {
                Ok(host) => return Ok(host.with_words(words)),
                Err(failed) => {
                    let (error, back) = *failed;
                    carrier = back;
                    match error {
                        AgentError::Interrupted => return Err(error.into()),
                        error => NotBrought::Agent(error),
                    }
                }
            },
            Err(CarryError::Interrupted) => return Err(AgentError::Interrupted.into()),
            Err(error) => NotBrought::Copy(error),
        };
        let code = carrier.end().ok().and_then(|status| status.code());
        // the reason may be among them
        words.finish();
        Err(not_brought(name, self.destination, found, &program, &failed, code))
    }
}

/// What a machine has instead of this linkrate, if that is why there is no agent.
fn lacks(error: &AgentError, status: Option<ExitStatus>) -> Option<String> {
    if let AgentError::Refused(Refusal { reason, .. }) = error {
        return Some(format!("another version of linkrate ({reason})"));
    }
    let code = status.and_then(|status| status.code())?;
    NO_PROGRAM.contains(&code).then(|| "no linkrate that can be run".to_owned())
}

/// The step at which a program that was brought along failed.
#[derive(Debug)]
enum NotBrought {
    Copy(CarryError),
    Agent(AgentError),
}

/// Why a program that was brought along is no agent, with a remedy.
fn not_brought(
    name: &str,
    destination: &str,
    found: &str,
    program: &Program,
    failed: &NotBrought,
    code: Option<i32>,
) -> LabError {
    let (elf, path) = (program.elf(), program.path().display());
    let try_it = format!("ssh -o BatchMode=yes {}", shell::word(destination));
    let (reason, hint) = match failed {
        NotBrought::Copy(CarryError::Machine(machine)) => (
            format!("it is {machine}, and {path} is for {}", elf.machine_name()),
            format!("name a static linkrate for {machine} with --deploy, or {INSTALL}"),
        ),
        NotBrought::Copy(CarryError::Answer(answer)) => (
            format!("its shell answered {answer:?} instead of taking a copy of {path}"),
            format!(
                "a forced command of the key, or a shell that prints text when it starts, prevents a copy; \
                 try: {try_it} true; or {INSTALL}"
            ),
        ),
        NotBrought::Copy(_) => (
            format!(
                "the connection ended before a copy of {path} was there; messages above may say why"
            ),
            format!(
                "it needs a shell with mktemp, head and wc, /proc, and {} in its temporary directory \
                 (TMPDIR); or {INSTALL}",
                program.megabytes()
            ),
        ),
        NotBrought::Agent(error) => match code {
            Some(126) => (
                format!("its temporary directory runs no programs (a copy of {path})"),
                format!("set TMPDIR there to one that is not mounted noexec, or {INSTALL}"),
            ),
            _ if !elf.is_static => (
                format!(
                    "a copy of {path}, which is dynamically linked, does not run there: {error}"
                ),
                format!("name a static linkrate with --deploy, or {INSTALL}"),
            ),
            _ => (format!("a copy of {path} is no agent there: {error}"), INSTALL.to_owned()),
        },
    };
    LabError::CannotMeasure { what: format!("{name} has {found}; {reason}"), hint: Some(hint) }
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
