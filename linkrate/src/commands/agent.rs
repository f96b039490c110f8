//! `linkrate agent`: what runs in each host. Started by the lab, or at the far end of `ssh`.

use std::io;
use std::os::fd::AsFd;

use crate::args::AgentArgs;
use crate::exit::{Exit, Failure};

/// Serves one controller on standard input and output.
pub fn run(arguments: &AgentArgs) -> Result<Exit, Failure> {
    if !arguments.stdio {
        return Err(Failure::new(
            Exit::Usage,
            "an agent needs to know how to reach its controller",
        )
        .with_hint(Some("linkrate agent --stdio")));
    }
    // Ctrl-C at the controller's terminal is for the controller; it fails only for a process that
    // leads a group already, which no terminal signals as part of another
    let _ = rustix::process::setsid();
    let (input, output) = (io::stdin(), io::stdout());
    linkrate_agent::server::serve(&mut input.lock(), &mut output.lock(), input.as_fd())
        .map(|()| Exit::Success)
        .map_err(|error| Failure::new(Exit::Failure, format!("agent: {error}")))
}
