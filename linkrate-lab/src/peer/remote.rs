//! Agents on other machines. A [`Transport`] carries the protocol there: `ssh`, or a step of Slurm.
//!
//! The agent ends with the connection, whichever side loses it, and restores what it has changed. A
//! machine without this version of linkrate gets it for as long as the agent runs.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use linkrate_model::CpuSet;
use linkrate_model::interfaces::PEER_SERVER;
use linkrate_model::shell;
use linkrate_protocol::{PROTOCOL_VERSION, Refusal};
use linkrate_sys::host::{HostProcess, Isolation, Life, spawn_heard};
use linkrate_sys::stderr;

use super::deploy::{DeployError, Program};
use super::{Reach, StderrLines};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::{Carrier, Host};
use crate::options::{Deploy, LabOptions};

/// Exit codes of a shell that finds no such program, or may not run it.
const NO_PROGRAM: [i32; 2] = [127, 126];

/// Time that the far agent may take to restore settings.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Time that a carrier may take to tell how it ended, whose agent has never answered and holds nothing.
const ENDS: Duration = Duration::from_secs(5);

/// The remedy that always helps.
const INSTALL: &str = "install the same linkrate there";

/// What carries the protocol to another machine.
pub(crate) trait Transport {
    /// The program on this machine that does it.
    fn carrier(&self) -> &str;

    /// The Debian package that brings the program; `None` of one that the user has named.
    fn package(&self) -> Option<&'static str>;

    /// The arguments with which it runs `command` in a shell there.
    fn arguments(&self, command: &str) -> Vec<OsString>;

    /// Environment variables that would change what it does to the protocol.
    fn unwanted(&self) -> &'static [&'static str] {
        &[]
    }

    /// How long it may take until the peer can answer.
    fn timeout(&self) -> Duration;

    /// The program that is started there where nobody has named one.
    fn usual_program<'a>(&self, options: &'a LabOptions) -> &'a Path;

    /// The command with which a user tries `command` there.
    fn trial(&self, command: &str) -> String;

    /// If the exit code is the carrier's own: what it did not do.
    fn failed(&self, code: i32) -> Option<&'static str>;

    /// What it needs, for a user whose [`trial`](Self::trial) fails.
    fn needs(&self) -> &'static str;

    /// What else answers there instead of a program.
    fn talkers(&self) -> &'static str;
}

pub(crate) struct Remote<'a> {
    pub(crate) transport: &'a dyn Transport,
    /// The linkrate program there.
    pub(crate) program: &'a str,
    /// The CPUs it runs on; all of that machine unless they are named.
    pub(crate) cpus: Option<&'a CpuSet>,
}

impl Reach for Remote<'_> {
    fn start(&self, name: &str, options: &LabOptions) -> Result<Host, LabError> {
        let mut host = match self.run_installed(name, options) {
            Ok(host) => host,
            Err(Absent::Failed(error)) => return Err(*error),
            Err(Absent::Lacks { found, error }) => match &options.deploy {
                _ if self.is_named() => return Err(*error),
                Deploy::Never => {
                    return Err(LabError::CannotMeasure {
                        what: format!("{name} has {found}, and --no-deploy forbids a copy"),
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

impl Remote<'_> {
    /// Whether somebody has named a program there.
    fn is_named(&self) -> bool {
        self.program != PEER_SERVER
    }

    /// Whether a machine without the program gets a copy.
    fn copies(&self, options: &LabOptions) -> bool {
        !self.is_named() && options.deploy != Deploy::Never
    }

    /// Starts the carrier with a command; messages of the peer are held back until it is known whether they matter.
    fn spawn(&self, name: &str, command: &str) -> Result<(HostProcess, StderrLines), LabError> {
        let arguments = self.transport.arguments(command);
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        // the carrier holds nothing itself: without it, the far agent's input ends, and it restores
        let life = Life::WithItsInput { patience: TIMEOUT, holds: false };
        let (carrier, unwanted) = (Path::new(self.transport.carrier()), self.transport.unwanted());
        let spawned = spawn_heard(life, carrier, &arguments, unwanted, Isolation::None);
        let (process, heard) = spawned.map_err(|error| LabError::CannotMeasure {
            what: format!("{name}: {error}"),
            hint: Some(match self.transport.package() {
                Some(package) => format!("install the package {package}"),
                None => "name a program that this machine has".to_owned(),
            }),
        })?;
        Ok((process, StderrLines::hold(name, heard)?))
    }

    /// Starts the program that is installed there.
    fn run_installed(&self, name: &str, options: &LabOptions) -> Result<Host, Absent> {
        let program = match self.program {
            PEER_SERVER => self.transport.usual_program(options).to_string_lossy(),
            named => named.into(),
        };
        // a shell there takes the command apart
        let command = format!("{} agent --stdio", shell::word(&program));
        let failed = |error| Absent::Failed(Box::new(error));
        let (process, words) = self.spawn(name, &command).map_err(failed)?;
        match Host::greet_within(self.transport.timeout(), name, process, options) {
            Ok(host) => {
                words.pass_on();
                Ok(host.with_words(words))
            }
            Err(ended) => {
                let (error, mut carrier) = *ended;
                if matches!(error, AgentError::Interrupted) {
                    words.pass_on();
                    return Err(failed(error.into()));
                }
                let status = carrier.give_up(ENDS).ok();
                let found = lacks(&error, status);
                // of a shell without the program that is then copied nobody needs to hear that it lacks it
                if found.is_none() || !self.copies(options) {
                    words.pass_on();
                }
                // the reason may be among them
                words.finish();
                let error = explained(name, self.transport, &program, &error, status);
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
        stderr::note(format_args!(
            "{name} has {found}: {} ({}, without debug information) runs there from a temporary file{but}",
            file.display(),
            program.megabytes(),
        ));
        let (process, words) = self.spawn(name, &program.command())?;
        words.pass_on();
        let sent = program.send(process.socket(), self.transport.timeout(), &options.stop);
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
            Err(DeployError::Interrupted) => return Err(AgentError::Interrupted.into()),
            Err(error) => NotBrought::Copy(error),
        };
        let code = carrier.give_up(ENDS).ok().and_then(|status| status.code());
        // the reason may be among them
        words.finish();
        Err(not_brought(name, self.transport, found, &program, &failed, code))
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
    Copy(DeployError),
    Agent(AgentError),
}

/// Why a program that was brought along is no agent, with a remedy.
fn not_brought(
    name: &str,
    transport: &dyn Transport,
    found: &str,
    program: &Program,
    failed: &NotBrought,
    code: Option<i32>,
) -> LabError {
    let (elf, path) = (program.elf(), program.path().display());
    let (reason, hint) = match failed {
        NotBrought::Copy(DeployError::Machine(machine)) => (
            format!("it is {machine}, and {path} is for {}", elf.machine_name()),
            format!("name a static linkrate for {machine} with --deploy, or {INSTALL}"),
        ),
        NotBrought::Copy(DeployError::Answer(answer)) => (
            format!("its shell answered {answer:?} instead of taking a copy of {path}"),
            format!(
                "{} prevents a copy; try: {}; or {INSTALL}",
                transport.talkers(),
                transport.trial("true")
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
            _ => (
                format!("a copy of {path} does not work as an agent there: {error}"),
                INSTALL.to_owned(),
            ),
        },
    };
    LabError::CannotMeasure { what: format!("{name} has {found}; {reason}"), hint: Some(hint) }
}

/// Why there is no agent, with a remedy.
fn explained(
    name: &str,
    transport: &dyn Transport,
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
    let code = status.and_then(|status| status.code());
    if let Some(failed) = code.and_then(|code| transport.failed(code)) {
        return refused(
            format!("{name}: {failed}; its own message says why"),
            format!("{}; try: {}", transport.needs(), transport.trial("true")),
        );
    }
    match code {
        Some(code) if NO_PROGRAM.contains(&code) => refused(
            format!("{name}: program {program} is missing or cannot be run"),
            "install linkrate there, or give its path with agent in [testbed] or --agent"
                .to_owned(),
        ),
        Some(code) if code != 0 => refused(
            format!("{name}: {program} ended with exit code {code} before it answered"),
            format!("try: {}", transport.trial(&format!("{} --version", shell::word(program)))),
        ),
        _ => refused(
            format!("{name}: {error}"),
            format!(
                "{} breaks the protocol; try: {}",
                transport.talkers(),
                transport.trial("true")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::{Slurm, Ssh};
    use super::*;

    fn reported(transport: &dyn Transport, error: &AgentError, code: i32) -> (String, String) {
        let status = ExitStatus::from_raw(code << 8);
        let error = explained("lab2", transport, "linkrate", error, Some(status));
        (error.to_string(), error.hint().unwrap_or_default())
    }

    #[test]
    fn errors_name_the_host_and_have_a_remedy() {
        let died = AgentError::Lost { host: "lab2".to_owned(), reason: "died".to_owned() };
        let ssh: &dyn Transport = &Ssh { destination: "lab2" };
        let slurm: &dyn Transport = &Slurm::in_allocation("lab2", &[]);
        for (transport, code, what, hint) in [
            (ssh, 255, "ssh made no connection", "ssh -o BatchMode=yes lab2 true"),
            (ssh, 127, "program linkrate is missing", "--agent"),
            (ssh, 2, "ended with exit code 2", "linkrate --version"),
            (ssh, 0, "agent of lab2: died", "a shell that prints text"),
            (slurm, 1, "srun started no step", "srun --nodes=1 --ntasks=1 --nodelist=lab2"),
            (slurm, 127, "program linkrate is missing", "--agent"),
            (slurm, 137, "ended with exit code 137", "linkrate --version"),
        ] {
            let (message, remedy) = reported(transport, &died, code);
            assert!(message.contains("lab2") && message.contains(what), "{message}");
            assert!(remedy.contains(hint), "{remedy}");
        }
        let refusal = Refusal {
            reason: "protocol version 4, this agent speaks 3".to_owned(),
            hint: Some("install the same linkrate on both hosts".to_owned()),
        };
        let (message, remedy) = reported(ssh, &AgentError::Refused(refusal), 0);
        assert!(message.contains("lab2: protocol version 4, this agent speaks 3"), "{message}");
        assert_eq!(remedy, "install the same linkrate on both hosts");
    }
}
