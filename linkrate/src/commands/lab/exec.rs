//! `linkrate lab exec`: a program in a host.

use std::os::unix::process::CommandExt;
use std::process::Command;

use linkrate_model::lab::LAB_VARIABLE;
use linkrate_model::nearest::did_you_mean;
use linkrate_sys::host::join::{Lifetime, Namespaces};

use super::ask::report;
use super::supervised::supervise;
use crate::args::lab::ExecArgs;
use crate::exit::{Exit, Failure};

/// The name of the system under test.
const SUT: &str = "sut";

/// Becomes the program, in the host's namespaces and on its CPUs. Returns only on an error.
pub fn run(arguments: &ExecArgs) -> Failure {
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
        let (to, message) = lab.to_supervise()?;
        supervise(&mut command, to, message);
    }
    let error = command.exec();
    let name = program.to_string_lossy();
    Ok(Failure::new(Exit::Failure, format!("start {name} in {wanted}: {error}")))
}
