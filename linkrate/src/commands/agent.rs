//! `linkrate agent`: what runs in each host. Started by the lab, or at the far end of `ssh`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::AgentArgs;
use crate::exit::{Exit, Failure};

/// Serves one controller on standard input and output.
pub fn run(arguments: &AgentArgs) -> Result<Exit, Failure> {
    if !arguments.stdio {
        return Err(Failure::new(Exit::Usage, "linkrate agent needs --stdio")
            .with_hint(Some("linkrate agent --stdio")));
    }
    // Ctrl-C at the controller's terminal is for the controller; it fails only for a process that
    // leads a group already, which no terminal signals as part of another
    let _ = rustix::process::setsid();
    // after a signal the agent restores the settings that it changed, and then ends
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    }
    // without a buffer, so that poll(2) sees everything that waits to be read
    let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let input = input.map_err(|error| Failure::new(Exit::Failure, format!("stdin: {error}")))?;
    linkrate_agent::server::serve(&mut &input, &mut io::stdout().lock(), input.as_fd(), &stop)
        .map(|()| Exit::Success)
        .map_err(|error| Failure::new(Exit::Failure, format!("agent: {error}")))
}
