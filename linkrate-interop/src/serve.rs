//! A server for clients of other programs: many tests at once, each with threads of its own.
//!
//! - [`session`](self): a test of iperf3, from its cookie to its results
//! - `udp_acceptor`: where UDP streams begin
//! - `options`: options of the streams' sockets
//! - [`netperf`]: control connections of netperf, and their tests
//! - [`limits`](Limits): what is granted, and to whom
//! - `admission`: connections and tests, of all clients and of each
//! - [`budget`](Budget): memory and open files of all tests
//! - `guesses`: wrong passwords
//! - [`recorder`](Printed): what the server prints of its tests, and their intervals
//! - [`report`](SessionReport): what is told of a session that has ended
//! - [`interface`](InterfaceReport): the interface by which a client came, and its limit
//! - [`verdict`](Verdict): what bounded a session
//!
//! A connection of iperf3 begins with a cookie. If a test with this cookie waits for streams, the connection is one of
//! them; otherwise it begins a test. Every wait for a client has a bound, and so has every octet that it is to take: a client that
//! vanishes or lies costs its own session alone.

mod admission;
mod budget;
mod guesses;
mod interface;
mod limits;
mod netperf;
mod options;
mod recorder;
mod report;
mod session;
mod udp_acceptor;
mod verdict;

use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use budget::{Budget, InUse};
pub use interface::InterfaceReport;
pub use limits::{Limits, Network, NetworkError};
pub use netperf::netperf;
pub use recorder::Printed;
pub use report::{DatagramReport, Ending, SessionReport, TcpReport, Verdict};

use linkrate_sys::bounded::Bound;
use linkrate_sys::socket::wait_ready;

use admission::{Admission, Pending};
use guesses::Guesses;
use udp_acceptor::UdpAcceptor;

use crate::iperf3::{COOKIE_BYTES, Cookie, State, Users};

/// How long a client may take for its cookie, for a document and for all its streams, and for taking what it is sent.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the listener checks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Tests that wait for streams, by their cookies.
type Waiting = Mutex<HashMap<Cookie, SyncSender<Joined>>>;

/// A connection that is a stream, with its place in the order in which all were accepted: that in which its client
/// opened them.
#[derive(Debug)]
struct Joined {
    place: u64,
    stream: Arc<TcpStream>,
}

/// A connection that has not begun a test.
#[derive(Debug)]
struct Accepted<'a> {
    stream: Arc<TcpStream>,
    pending: Pending<'a>,
}

/// What all sessions share.
struct Shared<'a> {
    admission: &'a Admission<'a>,
    budget: &'a Budget,
    users: Option<&'a Users>,
    printed: Printed<'a>,
    guesses: Guesses,
    waiting: Waiting,
    udp_acceptor: UdpAcceptor,
    stop: &'a AtomicBool,
}

/// Serves the clients of iperf3 that connect to `listener` until `stop` is set, over TCP and, at the same address and
/// port, over UDP. With `users`, a client must be one of them. `printed` is what is printed of a test; `ended` hears of each
/// session.
pub fn iperf3(
    listener: &TcpListener,
    limits: &Limits,
    budget: &Budget,
    users: Option<&Users>,
    printed: Printed<'_>,
    stop: &AtomicBool,
    ended: &(impl Fn(&SessionReport) + Send + Sync),
) -> io::Result<()> {
    let admission = Admission::new("iperf3", limits, budget.pending);
    let shared = Shared {
        admission: &admission,
        budget,
        users,
        printed,
        guesses: Guesses::default(),
        waiting: Mutex::default(),
        // the same address and port, which iperf3 expects
        udp_acceptor: UdpAcceptor::open(listener.local_addr()?)?,
        stop,
    };
    std::thread::scope(|scope| {
        let udp_acceptor = std::thread::Builder::new().name("door".to_owned());
        udp_acceptor.spawn_scoped(scope, || shared.udp_acceptor.run(stop))?;
        let served = accept_each(listener, &admission, stop, ended, &|accepted| {
            greet(&shared, accepted, ended);
        });
        if served.is_err() {
            // the door ends with it
            stop.store(true, Ordering::Relaxed);
        }
        served
    })
}

/// One of the threads that run, until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn of(threads: &'a AtomicUsize) -> Self {
        threads.fetch_add(1, Ordering::Relaxed);
        Self(threads)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives each connection of a client that is admitted a thread of its own, until `stop` is set and all threads have
/// ended. Others are closed at once.
fn accept_each<'a>(
    listener: &TcpListener,
    admission: &'a Admission<'a>,
    stop: &AtomicBool,
    ended: &(impl Fn(&SessionReport) + Sync),
    serve: &(impl Fn(Accepted<'a>) + Sync),
) -> io::Result<()> {
    let most = admission.most_threads();
    let threads = AtomicUsize::new(0);
    let threads = &threads;
    let here = listener.local_addr()?;
    let refused = |client, reason: String| admission.say_of(client, Ending::Refused(reason), ended);
    listener.set_nonblocking(true)?;
    let mut active = Instant::now();
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            admission.say_rest(ended);
            if threads.load(Ordering::Relaxed) > 0 {
                active = Instant::now();
            } else if admission.limits.idle.is_some_and(|idle| active.elapsed() > idle) {
                stop.store(true, Ordering::Relaxed);
                break;
            }
            // whether there is one is asked for next
            let _ = wait_ready(listener, false, POLL_INTERVAL);
            let (stream, client) = match listener.accept() {
                Ok((stream, client)) => (Arc::new(stream), client),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // one that has gone, or no descriptor for it: the next may fare better
                Err(error) => {
                    admission.say_of(here, Ending::Failed(format!("accept: {error}")), ended);
                    std::thread::sleep(POLL_INTERVAL);
                    continue;
                }
            };
            if !admission.limits.admit(client.ip()) {
                let address = client.ip().to_canonical();
                refused(client, format!("clients at {address} are not admitted"));
                continue;
            }
            if threads.load(Ordering::Relaxed) >= most {
                refused(client, format!("more than {most} connections"));
                continue;
            }
            let (pending, is_crowded) = admission.arrived(&stream, client.ip());
            if is_crowded {
                let reason = "too many connections without a test; the oldest is closed";
                refused(client, reason.to_owned());
            }
            let counted = Counted::of(threads);
            let body = move || {
                let _counted = counted;
                serve(Accepted { stream, pending });
            };
            let thread = std::thread::Builder::new().name("session".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, body) {
                admission.say_of(client, Ending::Failed(format!("a thread: {error}")), ended);
            }
        }
    });
    admission.say_rest(ended);
    Ok(())
}

/// Finds out what a connection is for.
fn greet(shared: &Shared, accepted: Accepted, ended: &impl Fn(&SessionReport)) {
    let Accepted { stream, pending } = accepted;
    let Some(octets) = first_octets(shared, &stream) else { return };
    let Some(cookie) = Cookie::of(octets) else {
        // HTTP, TLS, iperf 2
        let ending = Ending::Refused("the first octets are not those of iperf3".to_owned());
        let report = SessionReport::of("iperf3", stream.peer_addr().ok());
        return shared.admission.say(SessionReport { ending, ..report }, ended);
    };
    let waits = {
        let waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.get(&cookie).cloned()
    };
    if let Some(session) = waits {
        let place = pending.place;
        drop(pending);
        // it may have all its streams by now, and then this one is closed
        let _ = session.try_send(Joined { place, stream });
        return;
    }
    if shared.admission.is_full() {
        session::announce(&stream, State::AccessDenied);
        let client = stream.peer_addr().ok();
        let ending = Ending::Refused(shared.admission.limits.full());
        let report = SessionReport { ending, ..SessionReport::of("iperf3", client) };
        return shared.admission.say(report, ended);
    }
    let report = session::serve(shared, &stream, pending, cookie);
    match report.transport {
        Some(_) => ended(&report),
        // it has asked for nothing
        None => shared.admission.say(report, ended),
    }
}

fn first_octets(shared: &Shared, stream: &TcpStream) -> Option<[u8; COOKIE_BYTES]> {
    stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true)).ok()?;
    let mut octets = [0; COOKIE_BYTES];
    Bound::within(TIMEOUT, shared.stop).read_exact(stream, &mut octets).ok()?;
    Some(octets)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;

    #[test]
    fn a_session_that_panics_gives_its_thread_back() {
        let limits = Limits { sessions: 0, ..Limits::default() };
        let admission = Admission::new("iperf3", &limits, 1);
        let most = admission.most_threads();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
        let refused = Mutex::new(Vec::new());
        let ended = |report: &SessionReport| refused.lock().unwrap().push(report.ending.clone());
        let panics = |_: Accepted| {
            served.fetch_add(1, Ordering::Relaxed);
            // without a word on stderr
            resume_unwind(Box::new(()));
        };
        let accepts = || accept_each(&listener, &admission, &stop, &ended, &panics);
        std::thread::scope(|scope| {
            scope.spawn(|| catch_unwind(AssertUnwindSafe(accepts)));
            let deadline = Instant::now() + TIMEOUT;
            for number in 0..=most {
                drop(TcpStream::connect(here).unwrap());
                while served.load(Ordering::Relaxed) <= number && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(served.into_inner(), most + 1, "{:?}", refused.into_inner());
    }
}
