//! `linkrate serve`: a server for clients of other programs.

use std::net::TcpListener;

use linkrate_interop::serve::{self, Grants, SessionReport};
use linkrate_sys::tell;

use crate::args::serve::ServeArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;

/// Serves until Ctrl-C.
pub fn run(arguments: &ServeArgs) -> Result<Exit, Failure> {
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let (address, port) = (arguments.bind, arguments.iperf3_port);
    let refused =
        |error| Failure::new(Exit::Failure, format!("listen on {address}, port {port}: {error}"));
    let listener = TcpListener::bind((address, port)).map_err(refused)?;
    let here = listener.local_addr().map_err(refused)?;
    tell::line(format!("listening on {here} for iperf3 (TCP)"));
    let grants =
        Grants { sessions: arguments.sessions, seconds: arguments.seconds, ..Grants::default() };
    let ended = |session: &SessionReport| {
        if let Ok(line) = serde_json::to_string(session) {
            // a reader that has gone away does not end the tests of others
            let _ = print(&format!("{line}\n"));
        }
    };
    serve::iperf3(&listener, grants, &stop, &ended).map_err(refused)?;
    Ok(Exit::Success)
}
