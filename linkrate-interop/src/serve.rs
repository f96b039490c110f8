//! A server for clients of other programs: many tests at once, each with threads of its own.
//!
//! - [`session`](self): a test of iperf3, from its cookie to its results
//! - `udp_acceptor`: where UDP streams begin
//! - `options`: options of the streams' sockets
//! - [`netperf`]: control connections of netperf, and their tests
//! - [`limits`](Limits): what is granted, and to whom
//! - [`report`](SessionReport): what is told of a session that has ended
//! - [`interface`](InterfaceReport): the interface by which a client came, and its limit
//! - [`verdict`](Verdict): what bounded a session
//!
//! A connection of iperf3 begins with a cookie. If a test with this cookie waits for streams, the connection is one of
//! them; otherwise it begins a test. Every wait for a client has a bound, and so has every octet that it is to take: a client that
//! vanishes or lies costs its own session alone.

mod interface;
mod limits;
mod netperf;
mod options;
mod report;
mod session;
mod udp_acceptor;
mod verdict;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use interface::InterfaceReport;
pub use limits::{Limits, Network, NetworkError};
pub use netperf::netperf;
pub use report::{DatagramReport, Ending, SessionReport, TcpReport, Verdict};

use linkrate_sys::socket::wait_ready;

use udp_acceptor::UdpAcceptor;

use crate::iperf3::{COOKIE_BYTES, Cookie, State, Users};
use crate::payload::is_passing;

/// How long a client may take for its cookie.
const GREETING: Duration = Duration::from_secs(5);
/// How long it may take for a document and for all its streams, and for taking what it is sent.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the listener checks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Most connections beside the sessions that have not said yet what they are for.
const GREETINGS: u32 = 1024;

/// Tests that wait for streams, by their cookies.
type Waiting = Mutex<HashMap<Cookie, Sender<Accepted>>>;

/// A connection, with its place in the order in which all were accepted: that in which its client opened them.
#[derive(Debug)]
struct Accepted {
    place: u64,
    stream: TcpStream,
}

/// What all sessions share.
#[derive(Debug)]
struct Shared<'a> {
    limits: &'a Limits,
    users: Option<&'a Users>,
    waiting: Waiting,
    udp_acceptor: UdpAcceptor,
    sessions: AtomicU32,
    stop: Arc<AtomicBool>,
}

/// Serves the clients of iperf3 that connect to `listener` until `stop` is set, over TCP and, at the same address and
/// port, over UDP. With `users`, a client must be one of them. `ended` hears of each session.
pub fn iperf3(
    listener: &TcpListener,
    limits: &Limits,
    users: Option<&Users>,
    stop: &Arc<AtomicBool>,
    ended: &(impl Fn(&SessionReport) + Send + Sync),
) -> io::Result<()> {
    let shared = Shared {
        limits,
        users,
        waiting: Mutex::default(),
        // the same address and port, which iperf3 expects
        udp_acceptor: UdpAcceptor::open(listener.local_addr()?)?,
        sessions: AtomicU32::new(0),
        stop: Arc::clone(stop),
    };
    std::thread::scope(|scope| {
        let udp_acceptor = std::thread::Builder::new().name("door".to_owned());
        udp_acceptor.spawn_scoped(scope, || shared.udp_acceptor.run(stop))?;
        let refused = |client| ended(&SessionReport::not_admitted("iperf3", client));
        let serve = |accepted| greet(&shared, accepted, ended);
        let served = accept_each(listener, limits, stop, &refused, &serve);
        if served.is_err() {
            // the door ends with it
            stop.store(true, Ordering::Relaxed);
        }
        served
    })
}

/// Gives each connection of a client that is admitted a thread of its own, until `stop` is set and all threads have
/// ended. Others are closed at once.
fn accept_each(
    listener: &TcpListener,
    limits: &Limits,
    stop: &AtomicBool,
    refused: &impl Fn(SocketAddr),
    serve: &(impl Fn(Accepted) + Sync),
) -> io::Result<()> {
    let most = limits.sessions.saturating_add(GREETINGS);
    let threads = AtomicU32::new(0);
    let threads = &threads;
    listener.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        let mut place = 0;
        while !stop.load(Ordering::Relaxed) {
            // whether there is one is asked for next
            let _ = wait_ready(listener, false, POLL_INTERVAL);
            match listener.accept() {
                Ok((_, client)) if !limits.admit(client.ip()) => refused(client),
                // without a thread the client sees its connection close
                Ok(_) if threads.load(Ordering::Relaxed) >= most => {}
                Ok((stream, _)) => {
                    place += 1;
                    threads.fetch_add(1, Ordering::Relaxed);
                    let body = move || {
                        serve(Accepted { place, stream });
                        threads.fetch_sub(1, Ordering::Relaxed);
                    };
                    let thread = std::thread::Builder::new().name("session".to_owned());
                    if thread.spawn_scoped(scope, body).is_err() {
                        threads.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // one that has gone, or no descriptor for it: the next may fare better
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    });
    Ok(())
}

/// Finds out what a connection is for.
fn greet(shared: &Shared, mut accepted: Accepted, ended: &impl Fn(&SessionReport)) {
    let Ok(cookie) = cookie_of(&mut accepted.stream) else { return };
    let waits = {
        let waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.get(&cookie).cloned()
    };
    if let Some(session) = waits {
        // it may have all its streams by now, and then closes this one
        let _ = session.send(accepted);
        return;
    }
    let place = shared.sessions.fetch_add(1, Ordering::Relaxed);
    if place < shared.limits.sessions {
        ended(&session::serve(shared, accepted.stream, cookie));
    } else {
        let _ = session::announce(&mut accepted.stream, State::AccessDenied);
        let ending = Ending::Refused(shared.limits.full());
        let client = accepted.stream.peer_addr().ok();
        ended(&SessionReport { ending, ..SessionReport::of("iperf3", client) });
    }
    shared.sessions.fetch_sub(1, Ordering::Relaxed);
}

fn cookie_of(stream: &mut TcpStream) -> io::Result<Cookie> {
    let deadline = Instant::now() + GREETING;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut octets = [0; COOKIE_BYTES];
    let mut have = 0;
    while have < octets.len() {
        // a time-out of zero is an error
        stream.set_read_timeout(Some(deadline.saturating_duration_since(Instant::now())))?;
        match stream.read(&mut octets[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => have += count,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Cookie::of(octets).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
