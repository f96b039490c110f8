//! `linkrate serve`: a server for clients of other programs.

use std::fs;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::Ordering;

use linkrate_interop::iperf3::{Padding, PrivateKey, Users};
use linkrate_interop::serve::{self, Limits, SessionReport};
use linkrate_sys::stderr;

use crate::args::serve::{Program, ServeArgs};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;

/// Serves until Ctrl-C.
pub fn run(arguments: &ServeArgs) -> Result<Exit, Failure> {
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let limits = Limits {
        sessions: arguments.sessions,
        seconds: arguments.duration,
        session_seconds: arguments.session_duration,
        bytes: arguments.max_bytes.map_or(u64::MAX, |size| size.0),
        networks: arguments.allow.clone(),
    };
    let ended = |session: &SessionReport| {
        if let Ok(line) = serde_json::to_string(session) {
            // a reader that has gone away does not end the tests of others
            let _ = print(&format!("{line}\n"));
        }
    };
    let users = users(arguments)?;
    let listens = |program| arguments.programs.contains(&program);
    let iperf3 = listens(Program::Iperf3)
        .then(|| listen(arguments.bind, arguments.iperf3_port, "iperf3"))
        .transpose()?;
    let netperf = listens(Program::Netperf)
        .then(|| listen(arguments.bind, arguments.netperf_port, "netperf"))
        .transpose()?;
    std::thread::scope(|scope| {
        let beside = netperf.map(|listener| {
            let (stop, ended, limits) = (&stop, &ended, &limits);
            let thread = std::thread::Builder::new().name("netperf".to_owned());
            thread.spawn_scoped(scope, move || serve::netperf(&listener, limits, stop, ended))
        });
        let beside = beside.transpose()?;
        let first = iperf3.map_or(Ok(()), |listener| {
            serve::iperf3(&listener, &limits, users.as_ref(), &stop, &ended)
        });
        if first.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        // a panic has been told of
        let second = beside.map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())));
        first.and(second)
    })
    .map_err(|error| Failure::new(Exit::Failure, format!("listen: {error}")))?;
    Ok(Exit::Success)
}

/// Listens, and says so.
pub(super) fn listen(address: IpAddr, port: u16, program: &str) -> Result<TcpListener, Failure> {
    let refused = |error: io::Error| {
        let busy = error.kind() == io::ErrorKind::AddrInUse;
        Failure::new(Exit::Failure, format!("cannot listen on {address}, port {port}: {error}"))
            .with_hint(busy.then(|| format!("choose another port: --{program}-port PORT")))
    };
    let listener = TcpListener::bind((address, port)).map_err(refused)?;
    let here = listener.local_addr().map_err(refused)?;
    stderr::line(format!("listening on {here} for {program}"));
    Ok(listener)
}

/// The users whom clients of iperf3 must be.
fn users(arguments: &ServeArgs) -> Result<Option<Users>, Failure> {
    let (Some(users), Some(key)) = (&arguments.users, &arguments.rsa_private_key) else {
        return Ok(None);
    };
    if arguments.programs.contains(&Program::Netperf) {
        let message = "--users: netperf has no users, so its clients would be served without one";
        return Err(
            Failure::new(Exit::Usage, message.to_owned()).with_hint(Some("add --programs iperf3"))
        );
    }
    let read = |file: &Path| {
        fs::read_to_string(file)
            .map_err(|error| Failure::new(Exit::Failure, format!("{}: {error}", file.display())))
    };
    let wrong = |file: &Path| {
        let file = file.display().to_string();
        move |error| Failure::new(Exit::Failure, format!("{file}: {error}"))
    };
    let private = PrivateKey::of_pem(&read(key)?).map_err(wrong(key))?;
    let padding = match arguments.pkcs1_padding {
        true => Padding::Pkcs1,
        false => Padding::Oaep,
    };
    let skew_seconds = arguments.time_skew.into();
    Users::read(&read(users)?, private, padding, skew_seconds).map(Some).map_err(wrong(users))
}
