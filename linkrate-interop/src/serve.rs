//! A server for clients of other programs: many tests at once, each with threads of its own.
//!
//! - [`session`](self): a test of iperf3, from its cookie to its results
//! - `door`: where UDP streams begin
//! - [`netperf`]: control connections of netperf, and their tests
//! - [`report`](SessionReport): what is told of a session that has ended
//!
//! A connection of iperf3 begins with a cookie. If a test with this cookie waits for streams, the connection is one of
//! them; otherwise it begins a test. Every wait has a bound, and a client that vanishes or lies costs its own
//! session alone.

mod door;
mod netperf;
mod report;
mod session;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use netperf::netperf;
pub use report::{DatagramReport, Ending, SessionReport};

use linkrate_sys::socket::wait_ready;

use door::Door;

use crate::iperf3::{COOKIE_BYTES, Cookie, State};

/// How long a client may take for its cookie.
const GREETING: Duration = Duration::from_secs(5);
/// How often the listener looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(50);

/// What a server grants its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grants {
    /// Most tests at once.
    pub sessions: u32,
    /// Most seconds of a test, its beginning that is left out included.
    pub seconds: u32,
    /// Most octets of a test that names their number.
    pub bytes: u64,
}

impl Default for Grants {
    fn default() -> Self {
        Self { sessions: 64, seconds: 3600, bytes: 1 << 50 }
    }
}

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
struct Shared {
    grants: Grants,
    waiting: Waiting,
    door: Door,
    sessions: AtomicU32,
    stop: Arc<AtomicBool>,
}

/// Serves the clients of iperf3 that connect to `listener` until `stop` is set, over TCP and, at the same address and
/// port, over UDP. `ended` hears of each session.
///
/// # Errors
/// When the listener cannot be used.
pub fn iperf3(
    listener: &TcpListener,
    grants: Grants,
    stop: &Arc<AtomicBool>,
    ended: &(impl Fn(&SessionReport) + Send + Sync),
) -> io::Result<()> {
    let shared = Shared {
        grants,
        waiting: Mutex::default(),
        // the same address and port, which iperf3 expects
        door: Door::open(listener.local_addr()?)?,
        sessions: AtomicU32::new(0),
        stop: Arc::clone(stop),
    };
    std::thread::scope(|scope| {
        let door = std::thread::Builder::new().name("door".to_owned());
        door.spawn_scoped(scope, || shared.door.run(stop))?;
        let served = accept_each(listener, stop, &|accepted| greet(&shared, accepted, ended));
        if served.is_err() {
            // the door ends with it
            stop.store(true, Ordering::Relaxed);
        }
        served
    })
}

/// Gives each connection a thread of its own, until `stop` is set and all threads have ended.
fn accept_each(
    listener: &TcpListener,
    stop: &AtomicBool,
    serve: &(impl Fn(Accepted) + Sync),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        let mut place = 0;
        while !stop.load(Ordering::Relaxed) {
            // whether there is one is asked for next
            let _ = wait_ready(listener, false, GLANCE);
            match listener.accept() {
                Ok((stream, _)) => {
                    place += 1;
                    let thread = std::thread::Builder::new().name("session".to_owned());
                    // without a thread the client sees its connection close
                    let _ = thread.spawn_scoped(scope, move || serve(Accepted { place, stream }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // one that has gone, or no descriptor for it: the next may fare better
                Err(_) => std::thread::sleep(GLANCE),
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
    if place < shared.grants.sessions {
        ended(&session::serve(shared, accepted.stream, cookie));
    } else {
        let _ = session::announce(&mut accepted.stream, State::AccessDenied);
    }
    shared.sessions.fetch_sub(1, Ordering::Relaxed);
}

fn cookie_of(stream: &mut TcpStream) -> io::Result<Cookie> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING))?;
    let mut octets = [0; COOKIE_BYTES];
    stream.read_exact(&mut octets)?;
    Cookie::of(octets).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
