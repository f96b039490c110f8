//! `linkrate agent`: the process of each host. The lab starts it, or a server of ssh.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use linkrate_agent::permissions::Permissions;
use linkrate_sys::limits;
use rustix::process::Signal;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::args::AgentArgs;
use crate::exit::{Exit, Failure};

/// The signals with a name that would end the process at once. Missing: SIGKILL, which cannot be handled; those
/// of a fault, after which nothing can be relied on; SIGPIPE, which every Rust program ignores.
const ENDING: [Signal; 15] = [
    Signal::TERM,
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::ABORT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::XCPU,
    Signal::XFSZ,
    Signal::IO,
    Signal::POWER,
    Signal::STKFLT,
];

/// The real-time signals, which end a process as well. The lowest are the C library's own.
const REAL_TIME: RangeInclusive<i32> = if cfg!(target_env = "musl") { 35..=64 } else { 34..=64 };

/// Serves one controller on standard input and output.
pub fn run(arguments: &AgentArgs) -> Result<Exit, Failure> {
    if !arguments.stdio {
        return Err(Failure::new(Exit::Usage, "linkrate agent needs --stdio")
            .with_hint(Some("linkrate agent --stdio")));
    }
    let failed =
        |what: &'static str| move |error| Failure::new(Exit::Failure, format!("{what}: {error}"));
    // Ctrl-C at the controller's terminal is for the controller; it fails only for a process that
    // leads a group already, which no terminal signals as part of another
    let _ = rustix::process::setsid();
    // after a signal the agent restores the settings that it changed, and then ends
    let (signals, signalled) = UnixStream::pair().map_err(failed("signals"))?;
    let all = ENDING.map(Signal::as_raw).into_iter().chain(REAL_TIME);
    let kept = signals.try_clone().map_err(failed("signals"))?;
    // whichever comes, data waits at the one socket
    let _handlers = SignalDelivery::with_pipe(kept, signalled, SignalOnly, all)
        .map_err(failed("signal handlers"))?;
    let duty = match arguments {
        AgentArgs { lab: true, .. } => {
            limits::prefer_to_end();
            Permissions::Lab
        }
        AgentArgs { lends, interface, .. } => Permissions::Existing {
            lends: *lends,
            interfaces: Some(interface.clone()).filter(|names| !names.is_empty()),
        },
    };
    // without a buffer, so that data that waits to be read is seen by a poll
    let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let input = input.map_err(failed("stdin"))?;
    let mut output = io::stdout().lock();
    linkrate_agent::server::serve(
        &mut &input,
        &mut output,
        input.as_fd(),
        OwnedFd::from(signals),
        duty,
    )
    .map(|()| Exit::Success)
    .map_err(failed("agent"))
}
