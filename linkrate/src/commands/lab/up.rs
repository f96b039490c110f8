//! `linkrate lab up`: builds a lab, and keeps it up.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_lab::control::client::ControlError;
use linkrate_lab::control::messages::{Refused, Setting};
use linkrate_lab::control::server::{Ended, OpenLab, Supervised};
use linkrate_lab::control::settings;
use linkrate_lab::{LabError, LabOptions};
use linkrate_model::lab::LAB_VARIABLE;
use linkrate_model::spec::Adapter;
use linkrate_model::{InterfaceKnobs, TestbedSpec};
use linkrate_sys::host::join::{Guest, Lifetime, Namespaces};
use linkrate_sys::seccomp::{Listener as Calls, Receiver};
use linkrate_sys::{local_socket, stderr};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::supervise;
use crate::args::lab::UpArgs;
use crate::args::testbed::{parse_cpus, testbed_of};
use crate::exit::{Exit, Failure};
use crate::interrupt::{is_ignored, note};
use crate::program::this_program;

/// The shell where the variable SHELL is not set.
const SHELL: &str = "/bin/sh";

/// The number that a shell adds to the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Builds the lab and serves it to its end.
pub fn run(arguments: &UpArgs) -> Result<ExitCode, Failure> {
    let spec = spec_of(arguments)?;
    linkrate_lab::congestion::check([arguments.congestion.as_str()])?;
    let signals = Signals::take()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let options = LabOptions {
        route_congestion: Some(arguments.congestion.clone()),
        ..LabOptions::new(this_program()?, Arc::clone(&signals.end))
    };
    let settings = settings_of(arguments, &spec)?;
    let mut lab = OpenLab::build(arguments.name.clone(), &spec, options)?;
    lab.prepare(&settings).map_err(refusal)?;
    for warning in lab.warnings() {
        stderr::line(format_args!("warning: {warning}"));
    }
    stderr::line(format_args!(
        "{}\n{}",
        linkrate_report::lab::text(&lab.report()),
        advice(arguments)
    ));
    let guest = if arguments.wait { None } else { Some(start(arguments, &lab, &signals)?) };
    let ended = lab.serve(guest).map_err(LabError::Io)?;
    drop(lab);
    Ok(match ended {
        Ended::Program(status) => code_of(status),
        // no program was cut short
        Ended::Down | Ended::Stopped if arguments.wait => Exit::Success.into(),
        Ended::Down | Ended::Stopped => Exit::Interrupted.into(),
        Ended::Broken(reason) => {
            return Err(Failure::new(Exit::Failure, format!("lab {}: {reason}", arguments.name)));
        }
    })
}

fn spec_of(arguments: &UpArgs) -> Result<TestbedSpec, Failure> {
    let spec = testbed_of(&arguments.adapter, arguments.clients_per_port, arguments.scale)?;
    let aggregate = arguments.aggregate.unwrap_or(0);
    if aggregate > 0 && !matches!(spec.adapter, Adapter::Model(_)) {
        let message = "--aggregate does not apply to a veth pair; leave it out, or choose a model, \
                       for example --adapter gigabit";
        return Err(Failure::new(Exit::Usage, message.to_owned()));
    }
    let ports = if aggregate > 0 { aggregate } else { arguments.ports };
    let clients = match spec.adapter {
        _ if aggregate > 0 => arguments.clients.unwrap_or(aggregate),
        Adapter::Veth | Adapter::Unknown => arguments.ports,
        Adapter::Model(_) | Adapter::Interfaces(_) => {
            let elans = arguments.elans.len().max(1) as u32;
            arguments.ports.saturating_mul(spec.clients_per_port).saturating_mul(elans)
        }
    };
    let most = linkrate_study::bounds::MAX_CLIENTS;
    if clients > most {
        let message = format!(
            "--ports: {} with {} clients each are {clients} clients; at most {most} are possible",
            arguments.ports, spec.clients_per_port
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut spec = arguments.fabric.apply(spec)?;
    if !arguments.elans.is_empty() {
        spec = spec.with_elans(&arguments.elans).map_err(|error| {
            let message = format!("--elans: {error}; {}", error.hint());
            Failure::new(Exit::Usage, message)
        })?;
    }
    Ok(TestbedSpec {
        clients,
        ports,
        aggregate,
        sut_cpus: parse_cpus("--sut-cpus", &arguments.sut_cpus)?,
        client_cpus: parse_cpus("--client-cpus", &arguments.client_cpus)?,
        ..spec
    })
}

/// The knobs of the aggregate, which it takes.
fn settings_of(arguments: &UpArgs, spec: &TestbedSpec) -> Result<Vec<Setting>, Failure> {
    let settings = arguments.settings();
    if let Adapter::Model(model) = &spec.adapter {
        let fresh = InterfaceKnobs::default();
        settings::over(&fresh, &settings, model, spec.aggregate as usize).map_err(refusal)?;
    }
    Ok(settings)
}

fn refusal(refused: Refused) -> Failure {
    ControlError::from(refused).into()
}

fn advice(arguments: &UpArgs) -> String {
    let here = if arguments.wait {
        "From another shell:"
    } else {
        "This shell is in the system under test. From here or another shell:"
    };
    let down = format!("linkrate lab down --name {}", arguments.name);
    let end = if arguments.wait { "end the lab, as Ctrl-C does" } else { "end the lab" };
    let lines = [
        ("linkrate lab exec client-0 -- PROGRAM", "run a program in another host"),
        ("linkrate adapter show", "show settings and counters of the ports"),
        (&down, end),
    ];
    let lines = lines.map(|(command, what)| format!("  {command:<38}  {what}\n"));
    format!("{here}\n{}", lines.concat())
}

/// Starts the program, or a shell.
fn start(arguments: &UpArgs, lab: &OpenLab, signals: &Signals) -> Result<Supervised, Failure> {
    let shell = || std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let program = match arguments.program.first() {
        Some(program) => program.clone(),
        None => shell().unwrap_or_else(|| SHELL.into()),
    };
    let mut command = Command::new(program);
    command.args(arguments.program.iter().skip(1)).env(LAB_VARIABLE, arguments.name.to_string());
    let (pid, cpus) = lab.sut();
    // from now on Ctrl-C reaches only the program
    signals.leave_interrupt();
    Namespaces::of(pid)
        .and_then(|host| host.enter_with(&mut command, cpus, Lifetime::OfItsParent))
        .map_err(|error| Failure::from_error(Exit::Failure, &error))?;
    let ours = if lab.offloads() { Some(sends_its_calls(&mut command)?) } else { None };
    let guest =
        Guest::start(&mut command).map_err(|error| Failure::from_error(Exit::Failure, &error))?;
    drop(command);
    Ok(Supervised { guest, calls: ours.and_then(calls) })
}

/// Makes a program send the descriptor of its calls to the socket that is returned.
fn sends_its_calls(command: &mut Command) -> Result<UnixStream, Failure> {
    let failed = |error| Failure::new(Exit::Failure, format!("socket pair: {error}"));
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    // this process, without which the program ends, takes the listener after its start
    let (socket, message) = (theirs.into(), vec![0]);
    supervise(command, Receiver { socket, message, answer: None, may_have_it: false });
    Ok(ours)
}

/// The listener that a program has sent before it was executed, unless it runs as it is.
fn calls(ours: UnixStream) -> Option<Calls> {
    let mut descriptors = Vec::new();
    local_socket::receive(&ours, &mut [0], &mut descriptors).ok()?;
    descriptors.pop().map(Calls::from)
}

/// The exit code of a program, as a shell reports it.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failure as u8))
}

/// The signals that end a lab.
struct Signals {
    end: Arc<AtomicBool>,
    /// The handler of SIGINT, unless SIGINT is ignored.
    interrupt: Option<SigId>,
}

impl Signals {
    fn take() -> io::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        // a handler would undo what nohup(1) has set
        let handle = |signal| match is_ignored(signal) {
            true => Ok(None),
            false => flag::register(signal, Arc::clone(&end)).map(Some),
        };
        for signal in [SIGTERM, SIGHUP] {
            handle(signal)?;
            if !is_ignored(signal) {
                note(signal)?;
            }
        }
        let interrupt = handle(SIGINT)?;
        Ok(Self { end, interrupt })
    }

    /// From now on this process ignores Ctrl-C; the programs it starts do not.
    fn leave_interrupt(&self) {
        if let Some(handler) = self.interrupt {
            low_level::unregister(handler);
        }
    }
}
