//! `linkrate lab`: up, exec, show, list, down.

mod up;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use linkrate_lab::control::client::{self, ControlError, LabClient};
use linkrate_lab::control::messages::{Reply, Request};
use linkrate_model::lab::{LAB_VARIABLE, LabReport};
use linkrate_model::nearest::did_you_mean;
use linkrate_report::lab as tables;
use linkrate_sys::host::join::{Lifetime, Namespaces};
use linkrate_sys::seccomp::{self, Receiver};
use linkrate_sys::stderr;

use crate::args::lab::{ExecArgs, LabCommand};
use crate::exit::{Exit, Failure};
use crate::output::print;

pub fn run(command: LabCommand) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Up(arguments) => return up::run(&arguments),
        LabCommand::Exec(arguments) => return Err(exec(&arguments)),
        LabCommand::Show { which, json } => {
            let lab = report(&which.find()?)?;
            print(&if json { tables::document(&lab) } else { tables::text(&lab) })?;
        }
        LabCommand::List { json } => {
            let names: Vec<String> = client::list()?.iter().map(ToString::to_string).collect();
            let names = names.iter().map(String::as_str);
            print(&if json { tables::list_document(names) } else { tables::list(names) })?;
        }
        LabCommand::Down { which, json } => {
            let lab = which.find()?;
            lab.down()?;
            if json {
                print(&tables::down_document(&lab.name().to_string()))?;
            }
        }
    }
    Ok(Exit::Success.into())
}

/// The report of a lab about its hosts.
fn report(lab: &LabClient) -> Result<LabReport, ControlError> {
    match lab.ask(Request::Lab)? {
        Reply::Lab(report) => Ok(report),
        _ => Err(lab.unexpected()),
    }
}

/// Makes the calls of a program wait for the lab behind `to`: so its connections can move to the adapter.
fn supervise(command: &mut Command, to: Receiver) {
    if seccomp::is_supported() {
        seccomp::supervise(command, to);
    } else {
        stderr::line(
            "warning: this kernel has no seccomp user notification: connections of programs stay at the \
             host\nhint: use Linux 5.14 or later",
        );
    }
}

/// The name of the system under test.
const SUT: &str = "sut";

/// Becomes the program, in the host's namespaces and on its CPUs. Returns only on an error.
fn exec(arguments: &ExecArgs) -> Failure {
    become_program(arguments).unwrap_or_else(|failure| failure)
}

fn become_program(arguments: &ExecArgs) -> Result<Failure, Failure> {
    let lab = arguments.which.find()?;
    let report = report(&lab)?;
    let wanted = arguments.host.replace(' ', "-");
    let Some(host) = report.hosts.iter().find(|host| host.name == wanted) else {
        let names: Vec<&str> = report.hosts.iter().map(|host| host.name.as_str()).collect();
        let tail = did_you_mean(&wanted, names.iter().copied());
        let message = format!("no host {:?} in lab {}{tail}", arguments.host, report.name);
        let hint = format!("its hosts are {}", names.join(", "));
        return Err(Failure::new(Exit::Usage, message).with_hint(Some(hint)));
    };
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Failure::new(Exit::Usage, "no program is given"));
    };
    let mut command = Command::new(program);
    command.args(rest).env(LAB_VARIABLE, &report.name);
    Namespaces::of(host.pid)
        .and_then(|spaces| spaces.enter_with(&mut command, &host.cpus, Lifetime::ItsOwn))
        .map_err(|error| Failure::from_error(Exit::Failure, &error))?;
    if report.offloads && wanted == SUT {
        // within this lab, programs may be supervised already
        let is_within = std::env::var_os(LAB_VARIABLE).is_some_and(|name| *name == *report.name);
        supervise(&mut command, lab.to_supervise(is_within)?);
    }
    let error = command.exec();
    let name = program.to_string_lossy();
    Ok(Failure::new(Exit::Failure, format!("start {name} in {wanted}: {error}")))
}
