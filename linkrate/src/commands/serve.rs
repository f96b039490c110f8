//! `linkrate serve`: a server for clients of other programs.

mod tally;

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use linkrate_compat::iperf3::served;
use linkrate_interop::iperf3::{Padding, PrivateKey, Users};
use linkrate_interop::serve::{self, Budget, Limits, Printed, SessionReport};
use linkrate_sys::stderr;

use super::metrics;
use crate::args::serve::{Program, ServeArgs};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::lines::Lines;
use crate::output::print;
use tally::Tally;

/// Serves until Ctrl-C.
pub fn run(arguments: &ServeArgs) -> Result<Exit, Failure> {
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let limits = Limits {
        sessions: arguments.sessions,
        client_sessions: arguments.client_sessions,
        seconds: arguments.duration,
        session_seconds: arguments.session_duration,
        bytes: arguments.max_bytes.map_or(u64::MAX, |size| size.0),
        networks: arguments.allow.clone(),
        ..Limits::default()
    };
    let lines = lines(|line| {
        // a reader that has gone away does not end the tests of others
        let _ = print(line);
    })?;
    let names = |program: &Program| match program {
        Program::Iperf3 => "iperf3",
        Program::Netperf => "netperf",
    };
    let tally = Arc::new(Tally::of(arguments.programs.iter().map(names)));
    let ended = |session: &SessionReport| {
        tally.add(session);
        add(&lines, session);
    };
    let budget = Arc::new(Budget::new(arguments.max_memory.0));
    let users = users(arguments)?;
    let listens = |program| arguments.programs.contains(&program);
    let iperf3 = listens(Program::Iperf3)
        .then(|| listen(arguments.bind, arguments.iperf3_port, "iperf3", "--iperf3-port PORT"))
        .transpose()?;
    let netperf = listens(Program::Netperf)
        .then(|| listen(arguments.bind, arguments.netperf_port, "netperf", "--netperf-port PORT"))
        .transpose()?;
    let (admitted, counted, used) = (limits.clone(), Arc::clone(&tally), Arc::clone(&budget));
    let admits = move |client| admitted.admit(client);
    let text = move || counted.text(used.in_use());
    let _metrics = metrics::answer(&arguments.metrics, admits, text)?;
    let served = std::thread::scope(|scope| {
        let beside = netperf.map(|listener| {
            let (stop, ended, limits, budget) = (&stop, &ended, &limits, &budget);
            let thread = std::thread::Builder::new().name("netperf".to_owned());
            let serve = move || serve::netperf(&listener, limits, budget, stop, ended);
            thread.spawn_scoped(scope, serve)
        });
        let beside = beside.transpose()?;
        let first = iperf3.map_or(Ok(()), |listener| {
            let printed = Printed { document: &served::output, ..Printed::default() };
            serve::iperf3(&listener, &limits, &budget, users.as_ref(), printed, &stop, &ended)
        });
        if first.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        // a panic has been told of
        let second = beside.map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())));
        first.and(second)
    });
    lines.end();
    served.map_err(|error| Failure::new(Exit::Failure, format!("listen: {error}")))?;
    Ok(Exit::Success)
}

/// Lines of sessions, which `write` writes.
pub(super) fn lines(write: impl Fn(&str) + Send + 'static) -> Result<Lines, Failure> {
    Lines::new(write).map_err(|error| Failure::new(Exit::Failure, format!("a thread: {error}")))
}

/// Adds the line of a session.
pub(super) fn add(lines: &Lines, session: &SessionReport) {
    if let Ok(line) = serde_json::to_string(session) {
        lines.add(format!("{line}\n"));
    }
}

/// Listens, and says so. `option` chooses another port.
pub(super) fn listen(
    address: IpAddr,
    port: u16,
    program: &str,
    option: &str,
) -> Result<TcpListener, Failure> {
    let refused = |error: io::Error| {
        let busy = error.kind() == io::ErrorKind::AddrInUse;
        Failure::new(Exit::Failure, format!("cannot listen on {address}, port {port}: {error}"))
            .with_hint(busy.then(|| format!("choose another port: {option}")))
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
    let padding = if arguments.pkcs1_padding { Padding::Pkcs1 } else { Padding::Oaep };
    read_users(users, key, padding, arguments.time_skew).map(Some)
}

/// The users in a file, with the file of the key for their names and passwords.
pub(super) fn read_users(
    users: &Path,
    key: &Path,
    padding: Padding,
    skew_seconds: u32,
) -> Result<Users, Failure> {
    let read = |file: &Path| {
        read_text(file)
            .map_err(|error| Failure::new(Exit::Failure, format!("{}: {error}", file.display())))
    };
    let wrong = |file: &Path| {
        let file = file.display().to_string();
        move |error| Failure::new(Exit::Failure, format!("{file}: {error}"))
    };
    let private = PrivateKey::of_pem(&read(key)?).map_err(wrong(key))?;
    Users::read(&read(users)?, private, padding, skew_seconds.into()).map_err(wrong(users))
}

/// The text of a file of users, or of a key.
fn read_text(file: &Path) -> io::Result<String> {
    const MAX_BYTES: u64 = 1 << 20;
    let mut text = String::new();
    File::open(file)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("more than 1 MiB")),
        false => Ok(text),
    }
}
