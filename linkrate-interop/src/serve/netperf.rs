//! A server for netperf: control connections, and the tests that they ask for one after another.
//!
//! - `test`: one test, from its request to its results
//! - `flow`: its payload and its connections
//! - `source`: where its data may come from
//! - `watch`: when it ends, and a test over one connection that ends so
//! - `cpu`: the use of the host's CPUs in the meantime

mod cpu;
mod flow;
mod source;
mod test;
mod watch;

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_sys::bounded::{self, Bound};
use linkrate_sys::procstat::{cpu_states, ticks_per_second};
use linkrate_sys::socket::{end_without_peer, wait_ready};

use super::admission::{Admission, Pending};
use super::report::{Ending, SessionReport};
use super::{Accepted, Budget, Limits, accept_each};
use crate::netperf::{Form, Kind, Layout, MESSAGE_BYTES, Message, SHORT_MESSAGE_BYTES};

/// How long a client may take for a message that it has begun, and for taking one.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the rest of a long message may be on its way behind the octets of a short one. A client writes both in one
/// call.
const REST: Duration = Duration::from_millis(200);
/// How long it may take for its next request. A netperf with a looper calibrates its CPU for 40 s.
const BETWEEN: Duration = Duration::from_secs(60);

/// Says whether a test continues.
trait Keep {
    /// Whether the timer has not fired yet; an error when the test is over for another reason.
    fn goes_on(&mut self) -> Result<bool, Ending>;

    /// The same, with the octets that the test has moved.
    fn goes_on_with(&mut self, bytes: u64) -> Result<bool, Ending>;

    /// Has a call on `socket` return when the test is over.
    fn before_sending(&self, socket: &TcpStream) -> io::Result<()>;
}

/// Why a test has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// By its timer.
    TimeUp,
    /// The client has closed its connection, or all is done.
    Done,
}

/// Errors that a client shows in the words of its own system, by the numbers of Linux.
mod refusal {
    /// EPERM: it is not granted.
    pub(super) const NOT_GRANTED: u32 = 1;
    /// EBUSY: too many sessions.
    pub(super) const BUSY: u32 = 16;
    /// EINVAL: a number is wrong.
    pub(super) const INVALID: u32 = 22;
    /// EOPNOTSUPP: not in this server.
    pub(super) const UNSUPPORTED: u32 = 95;
    /// ETIMEDOUT: no end within the granted time.
    pub(super) const TIMED_OUT: u32 = 110;
    /// No number of a system: what a netserver says to a request that it does not know.
    pub(super) const UNKNOWN: u32 = 998;
}

/// What all sessions share.
#[derive(Debug)]
struct Shared<'a> {
    admission: &'a Admission<'a>,
    budget: &'a Budget,
    /// The address that the server listens on.
    address: IpAddr,
    stop: &'a AtomicBool,
}

/// Serves the clients of netperf that connect to `listener` until `stop` is set. `ended` hears of each test.
pub fn netperf(
    listener: &TcpListener,
    limits: &Limits,
    budget: &Budget,
    stop: &AtomicBool,
    ended: &(impl Fn(&SessionReport) + Send + Sync),
) -> io::Result<()> {
    let address = listener.local_addr()?.ip();
    let admission = Admission::new("netperf", limits, budget.pending);
    let shared = Shared { admission: &admission, budget, address, stop };
    accept_each(listener, &admission, stop, ended, &|accepted| serve(&shared, accepted, ended))
}

/// Serves a client.
fn serve<'a>(shared: &'a Shared<'a>, accepted: Accepted<'a>, ended: &impl Fn(&SessionReport)) {
    let report = SessionReport::of("netperf", accepted.stream.peer_addr().ok());
    let Ok(mut control) = Control::of(accepted, shared) else { return };
    let failed = |ending| {
        shared.admission.say(SessionReport { ending, ..report.clone() }, ended);
    };
    loop {
        let message = match control.next() {
            Ok(Some(message)) => message,
            // a client that has nothing more to ask has nothing to report on
            Ok(None) | Err(Ending::Stopped) => return,
            Err(ending) => return failed(ending),
        };
        let reported = match message.kind() {
            Kind::DebugOn | Kind::DebugOff => control.tell(&Message::new(Kind::DebugOk)),
            Kind::CpuCalibrate => control.tell(&Message::calibrated(rate(), cpus())),
            // a client that is not told continues without
            Kind::System => {
                let mut message = Message::new(Kind::System);
                message.set_error(refusal::UNKNOWN);
                control.asks_for_system = true;
                control.tell(&message)
            }
            // asked of nobody here, and without an answer
            Kind::Passphrase => Ok(()),
            kind => match Form::of(kind) {
                Some(form) => {
                    let test = test::serve(shared, &mut control, form, &message, report.clone());
                    ended(&test);
                    match test.ending {
                        Ending::Complete => Ok(()),
                        _ => return,
                    }
                }
                None => {
                    let reason = format!("request {}, expected a test of netperf", kind.number());
                    Err(control.refuse(kind, refusal::UNKNOWN, reason))
                }
            },
        };
        if let Err(ending) = reported {
            return failed(ending);
        }
    }
}

/// The rate of a CPU whose use is read from `/proc/stat`: its ticks in a second.
fn rate() -> f32 {
    ticks_per_second() as f32
}

/// CPUs of this host; zero if it does not report.
fn cpus() -> u32 {
    cpu_states().map_or(0, |cpus| cpus.len() as u32)
}

fn failed(error: io::Error) -> Ending {
    Ending::Failed(error.to_string())
}

/// The server's end of a control connection.
#[derive(Debug)]
struct Control<'a> {
    stream: Arc<TcpStream>,
    /// While no test runs.
    pending: Option<Pending<'a>>,
    /// Octets of each message, which the first one shows.
    length: Option<usize>,
    /// Whether it has asked for the name of the system.
    asks_for_system: bool,
    /// When its session ends.
    ends: Instant,
    shared: &'a Shared<'a>,
}

impl<'a> Control<'a> {
    fn of(accepted: Accepted<'a>, shared: &'a Shared<'a>) -> io::Result<Self> {
        let Accepted { stream, pending } = accepted;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        end_without_peer(&stream)?;
        let ends =
            Instant::now() + Duration::from_secs(shared.admission.limits.session_seconds.into());
        let pending = Some(pending);
        Ok(Self { stream, pending, length: None, asks_for_system: false, ends, shared })
    }

    fn tell(&mut self, message: &Message) -> Result<(), Ending> {
        let length = self.length.unwrap_or(MESSAGE_BYTES);
        let bound = Bound::within(TIMEOUT, self.shared.stop);
        bound.write_all(&self.stream, &message.octets()[..length]).map_err(|_| Ending::ClientLeft)
    }

    /// The results that this client reads.
    fn layout(&self) -> Layout {
        match self.length {
            Some(SHORT_MESSAGE_BYTES) => Layout::TwoFive,
            // one of 2.7 does not ask
            _ if self.asks_for_system => Layout::TwoSix,
            _ => Layout::TwoSeven,
        }
    }

    /// Says that a request cannot be served, with the number of the reason.
    fn refuse(&mut self, kind: Kind, errno: u32, reason: String) -> Ending {
        let mut message = Message::new(kind);
        message.set_error(errno);
        // one that has gone does not want to know
        let _ = self.tell(&message);
        Ending::Refused(reason)
    }

    /// The next message; `None` if the client has closed its end.
    fn next(&mut self) -> Result<Option<Message>, Ending> {
        let mut octets = [0; MESSAGE_BYTES];
        let mut have = 0;
        let waits = if self.length.is_none() { TIMEOUT } else { BETWEEN };
        let mut deadline = Instant::now() + waits;
        while have < self.length.unwrap_or(MESSAGE_BYTES) {
            if self.length.is_none()
                && have == SHORT_MESSAGE_BYTES
                && !wait_ready(&self.stream, false, REST).unwrap_or(true)
            {
                self.length = Some(have);
                break;
            }
            if Instant::now() >= self.ends {
                return Err(Ending::Refused(self.shared.admission.limits.outlasted()));
            }
            let bound = Bound::until(deadline.min(self.ends), self.shared.stop);
            match bound.read_some(&self.stream, &mut octets[have..]) {
                Ok(_) if have > 0 && Instant::now() >= deadline => return Err(broken(have)),
                Ok(count) => {
                    if have == 0 {
                        deadline = Instant::now() + TIMEOUT;
                    }
                    have += count;
                }
                Err(bounded::Ended::Stopped) => return Err(Ending::Stopped),
                Err(bounded::Ended::Late) if Instant::now() >= self.ends => {
                    return Err(Ending::Refused(self.shared.admission.limits.outlasted()));
                }
                Err(bounded::Ended::Late) if have == 0 => {
                    return Err(Ending::Refused(format!("no request in {} s", waits.as_secs())));
                }
                Err(bounded::Ended::Late | bounded::Ended::Closed) if have > 0 => {
                    return Err(broken(have));
                }
                Err(_) => return Ok(None),
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Err(Ending::Stopped);
            }
        }
        let length = *self.length.get_or_insert(MESSAGE_BYTES);
        match octets.first_chunk() {
            Some(short) if length == SHORT_MESSAGE_BYTES => Ok(Some(Message::of_short(short))),
            _ => Ok(Some(Message::of(&octets))),
        }
    }

    /// Whether the client has closed its end.
    fn has_closed(&self) -> bool {
        match wait_ready(&self.stream, false, Duration::ZERO) {
            Ok(false) => false,
            Ok(true) => !matches!(self.stream.peek(&mut [0]), Ok(1..)),
            Err(_) => true,
        }
    }
}

fn broken(octets: usize) -> Ending {
    Ending::Refused(format!("a message of {octets} octets, expected {MESSAGE_BYTES}"))
}
