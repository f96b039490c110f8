//! Flows: the threads that send and receive traffic.
//!
//! A flow is one thread at one end of one connection. It waits at the gate until the controller
//! starts it, counts its work in its own [`Counters`] (one writer, any reader, no locks), and ends
//! when it is told to stop. A flow that ends for another reason is broken, and reports the reason.
//!
//! - [`stream`]: TCP bulk data, sending and receiving
//! - [`verified`], [`record`]: the same for a run with an event: every byte is verified, and every
//!   gap is seen
//! - [`transfer`]: a file's worth of bytes, and the word of the peer that it arrived
//! - [`backup`]: trees of files, and the sink that verifies them at the rate of tape drives
//! - [`transact`]: request/response on connections that stay open
//! - [`outstanding`]: requests without a response, and when the next one begins
//! - [`single`]: one connection for each transaction
//! - [`datagram`]: UDP streams and transactions
//! - [`third_party`]: the same with third-party programs
//! - [`ring`]: the memory that plain payload is sent from and received into
//! - [`send_path`]: the ways to send payload into a socket
//! - [`accept`], [`preamble`]: accepted connections, and their first bytes, which name the flow
//! - [`unexpected_peers`]: connections and datagrams that do not belong to the run
//! - [`sizes`]: message sizes

pub mod accept;
pub mod backup;
pub mod datagram;
pub mod outstanding;
pub mod preamble;
pub mod record;
pub mod ring;
pub mod send_path;
pub mod single;
pub mod sizes;
pub mod stream;
pub mod third_party;
pub mod transact;
pub mod transfer;
pub mod unexpected_peers;
pub mod verified;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::sched::{Ahead, ThreadId, current_thread, set_timer_slack_ns};
use linkrate_sys::tcp_info::{TcpInfo, tcp_info};
use linkrate_toe::program::Parking;

use outstanding::{Outstanding, Pace, Pending};

/// How often a flow that is to end is looked at.
const END_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// At most this many flows are served in turn on one CPU; each turn takes a few milliseconds, so
/// none starves the others.
const FEW_FLOWS: usize = 2;

/// Shared control of the flows of one run: the gate, and the signals.
#[derive(Debug, Default)]
pub struct Control {
    open: Mutex<bool>,
    opened: Condvar,
    stop: AtomicBool,
    sending_ends: AtomicBool,
    recording: AtomicBool,
    /// When the measurement closed; 0 before.
    closed_ns: AtomicU64,
    /// When the measurement opens and its event comes, for records.
    pub moments: record::Moments,
}

impl Control {
    /// Starts all flows.
    pub fn begin(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Whether [`begin`](Self::begin) was called. Before, no flow uses its socket.
    pub fn has_begun(&self) -> bool {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all flows to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.begin();
    }

    /// Tells flows that send streams and requests to end, and no others.
    pub fn end_sending(&self) {
        self.sending_ends.store(true, Ordering::Relaxed);
        self.begin();
    }

    /// Opens the measurement: latencies are recorded from now on.
    pub fn open_measurement(&self) {
        self.closed_ns.store(0, Ordering::Relaxed);
        self.recording.store(true, Ordering::Relaxed);
    }

    /// Closes the measurement: of what ends from now on, the age at this moment is recorded, and a peer may
    /// close first.
    pub fn close_measurement(&self) {
        self.closed_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    #[inline]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether flows should send no more payload of streams, and no more requests.
    #[inline]
    pub fn sending_ended(&self) -> bool {
        self.stopped() || self.sending_ends.load(Ordering::Relaxed)
    }

    #[inline]
    fn phase(&self) -> Phase {
        match (self.closed_ns.load(Ordering::Relaxed), self.recording.load(Ordering::Relaxed)) {
            (0, false) => Phase::Awaited,
            (0, true) => Phase::Open,
            (closed_ns, _) => Phase::Closed(closed_ns),
        }
    }

    fn wait_for_begin(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Awaited,
    Open,
    /// It closed at that time, ns.
    Closed(u64),
}

/// Counters of one flow. Only the thread of the flow writes them, so a plain store suffices, and
/// they have separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    transactions: AtomicU64,
    timeouts: AtomicU64,
    zerocopy_completed: AtomicU64,
    zerocopy_copied: AtomicU64,
    receive_batches: AtomicU64,
}

macro_rules! counter {
    ($add:ident, $get:ident, $field:ident, $doc:literal) => {
        #[doc = concat!("Adds to the ", $doc, "; by the thread of the flow only.")]
        #[inline]
        pub fn $add(&self, count: u64) {
            let now = self.$field.load(Ordering::Relaxed);
            self.$field.store(now + count, Ordering::Relaxed);
        }

        #[doc = concat!("The ", $doc, " so far.")]
        pub fn $get(&self) -> u64 {
            self.$field.load(Ordering::Relaxed)
        }
    };
}

impl Counters {
    counter!(add_received, received, received_bytes, "payload bytes received");
    counter!(add_sent, sent, sent_bytes, "payload bytes sent");
    counter!(add_transactions, transactions, transactions, "completed transactions");
    counter!(add_timeouts, timeouts, timeouts, "transactions without an answer in time");
    counter!(add_completed, completed, zerocopy_completed, "completed zero-copy sends");
    counter!(
        add_receive_batches,
        receive_batches,
        receive_batches,
        "short sleeps that let data gather"
    );
    counter!(add_copied, copied, zerocopy_copied, "zero-copy sends the kernel copied");
}

/// How often the end of the run is checked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long an accepted connection may take to send the number of the run.
const GREETING: Duration = Duration::from_secs(2);

/// Errors after which accepting or receiving continues.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

/// A histogram of latencies in nanoseconds, three significant digits, up to a minute.
pub fn latency_histogram() -> Histogram<u64> {
    // the bounds are constants that the constructor accepts
    Histogram::new_with_bounds(1, 60_000_000_000, 3)
        .unwrap_or_else(|_| unreachable!("constant histogram bounds"))
}

/// Latencies of a flow inside the measurement.
#[derive(Debug)]
pub struct Recorded {
    pub all: Histogram<u64>,
    /// Those that had not ended when the measurement closed, as (age in ns, count).
    pub open: Vec<(u64, u64)>,
}

impl Default for Recorded {
    fn default() -> Self {
        Self { all: latency_histogram(), open: Vec::new() }
    }
}

#[derive(Debug)]
pub struct FlowContext {
    pub control: Arc<Control>,
    pub counters: Arc<Counters>,
    /// Latencies inside the measurement.
    recorded: Recorded,
    /// The shortest that ended inside the measurement, ns.
    shortest_ns: u64,
    /// What has begun and not ended.
    pub(crate) outstanding: Outstanding,
    pace: Pace,
    /// Where its thread stalls while its socket is replaced.
    pub parking: Arc<Parking>,
}

impl FlowContext {
    /// Lets requests begin as `pace` says.
    fn keep(&mut self, pace: Pace) -> io::Result<()> {
        if pace.is_open() {
            // otherwise each request would begin 50 µs later
            set_timer_slack_ns(1)?;
        }
        self.pace = pace;
        Ok(())
    }

    /// A request, a transfer or a file begins now.
    fn begin(&mut self) {
        self.begin_at(monotonic_ns());
    }

    fn begin_at(&mut self, begun_ns: u64) {
        self.outstanding.begin(Pending { number: 0, begun_ns, sent_ns: begun_ns });
    }

    fn begin_if_due(&mut self) -> bool {
        let begins = self.pace.next(monotonic_ns(), self.outstanding.len());
        begins.map(|begun_ns| self.begin_at(begun_ns)).is_some()
    }

    /// Time until a request is due; `None` where one must end first.
    fn due_in(&mut self) -> Option<Duration> {
        self.pace.due_in(monotonic_ns(), self.outstanding.len())
    }

    /// The oldest transaction has ended: counts it, and keeps its latency.
    fn completed(&mut self) {
        self.counters.add_transactions(1);
        self.ended();
    }

    /// The oldest of what is outstanding has ended: keeps its time.
    fn ended(&mut self) {
        if let Some(begun_ns) = self.outstanding.end_oldest() {
            self.timed(begun_ns);
        }
    }

    /// Keeps the time of what began at `begun_ns` and ended now. What was open when the measurement closed counts with its
    /// age at that moment: it takes at least so long, and a stall over the closing edge leaves its trace.
    fn timed(&mut self, begun_ns: u64) {
        match self.control.phase() {
            Phase::Awaited => {}
            Phase::Open => {
                let latency_ns = monotonic_ns().saturating_sub(begun_ns).max(1);
                self.shortest_ns = self.shortest_ns.min(latency_ns);
                self.recorded.all.saturating_record(latency_ns);
            }
            Phase::Closed(closed_ns) => self.open_at_close(begun_ns, closed_ns, 1),
        }
    }

    /// Keeps the age of so many that began at `begun_ns`, when the measurement closed.
    fn open_at_close(&mut self, begun_ns: u64, closed_ns: u64, count: u64) {
        let age_ns = closed_ns.saturating_sub(begun_ns);
        // one that is younger than all that ended tells nothing, in Kaplan and Meier's estimate either
        let tells = self.shortest_ns == u64::MAX || age_ns >= self.shortest_ns;
        if age_ns > 0 && tells {
            self.recorded.all.saturating_record_n(age_ns, count);
            self.recorded.open.push((age_ns, count));
        }
    }

    /// Keeps the ages of what is outstanding, and of what was due and did not begin.
    fn keep_ages(&mut self) {
        let Phase::Closed(closed_ns) = self.control.phase() else { return };
        while let Some(begun_ns) = self.outstanding.end_oldest() {
            self.open_at_close(begun_ns, closed_ns, 1);
        }
        while let Some((due_ns, count)) = self.pace.overdue(closed_ns) {
            self.open_at_close(due_ns, closed_ns, count);
        }
    }
}

/// A running flow, for its agent.
#[derive(Debug)]
pub struct Flow {
    /// Its name in reports: `transmit 0`.
    pub name: String,
    pub counters: Arc<Counters>,
    pub thread_id: ThreadId,
    /// Its socket, if it keeps one for the whole run.
    pub socket: Option<Arc<OwnedFd>>,
    /// Whether it sends bulk data, so that the sender times of TCP_INFO are meaningful.
    pub sends: bool,
    /// Whether all that its TCP receives is payload of a stream, so that what its program has not read
    /// yet counts too.
    pub counts_arrivals: bool,
    /// Whether its payload counts as sent when the peer has acknowledged it: where a third-party program
    /// receives it, nothing else says what has arrived.
    pub counts_acknowledged: bool,
    /// Where its thread stalls while its socket is replaced.
    pub parking: Arc<Parking>,
    /// Whether it discards in the socket what it receives, which TCP sockets alone do.
    pub discards: bool,
    /// Number of its workload in a mix.
    pub part: u8,
    /// What it receives over time, in a run with an event.
    pub record: Option<Arc<record::Record>>,
    thread: JoinHandle<(io::Result<()>, Recorded)>,
}

impl Flow {
    /// Starts a thread that waits at the gate and then runs `body`.
    pub fn spawn(
        name: String,
        control: &Arc<Control>,
        socket: Option<Arc<OwnedFd>>,
        sends: bool,
        body: impl FnOnce(&mut FlowContext) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        Self::spawn_prepared(name, control, socket, sends, || Ok(()), |flow, ()| body(flow))
    }

    /// The same, where the thread prepares before it waits. It has done so when this returns: memory
    /// that is filled after the gate takes its time from the warm-up, and a large ring all of it. A
    /// preparation that fails breaks the flow.
    pub fn spawn_prepared<P>(
        name: String,
        control: &Arc<Control>,
        socket: Option<Arc<OwnedFd>>,
        sends: bool,
        prepare: impl FnOnce() -> io::Result<P> + Send + 'static,
        body: impl FnOnce(&mut FlowContext, P) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let counters = Arc::new(Counters::default());
        let parking = Arc::new(Parking::default());
        let mut context = FlowContext {
            control: Arc::clone(control),
            counters: Arc::clone(&counters),
            recorded: Recorded::default(),
            shortest_ns: u64::MAX,
            outstanding: Outstanding::default(),
            pace: Pace::default(),
            parking: Arc::clone(&parking),
        };
        let (id_sender, id_receiver) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let prepared = prepare();
            // the receiver waits for exactly this message
            let _ = id_sender.send(current_thread());
            let ended = prepared.and_then(|prepared| {
                context.control.wait_for_begin();
                body(&mut context, prepared)
            });
            context.keep_ages();
            // after the measurement, errors of closing sockets are ignored
            let has_closed = matches!(context.control.phase(), Phase::Closed(_));
            let expected = context.control.stopped() || has_closed;
            let ended = if expected { Ok(()) } else { ended };
            (ended, context.recorded)
        })?;
        let thread_id = id_receiver.recv().map_err(io::Error::other)?;
        Ok(Self {
            name,
            counters,
            thread_id,
            socket,
            sends,
            counts_arrivals: false,
            counts_acknowledged: false,
            parking,
            discards: false,
            part: 0,
            record: None,
            thread,
        })
    }

    /// The flow as one of a workload in a mix.
    #[must_use]
    pub fn of_part(self, part: u8) -> Self {
        Self { part, ..self }
    }

    /// TCP_INFO of its socket; `None` for other sockets. `flows` is how many there are on this host.
    ///
    /// A socket that its program is reading from answers when the program lets go of it. Among many
    /// threads on one CPU the scheduler takes its time for that: with 64 connections meters waited up to
    /// 1.2 s. So the thread of the flow goes before the others until the socket has answered.
    pub fn tcp_info(&self, flows: usize) -> Option<TcpInfo> {
        let socket = self.socket.as_deref()?;
        let _lent = (flows > FEW_FLOWS).then(|| Ahead::lent_to(self.thread_id));
        tcp_info(socket).ok()
    }

    /// Whether the flow has ended; before the end of the run this means that it is broken.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the flow until `deadline`. Returns the reason if it broke, and its
    /// latencies.
    pub fn join(self, deadline: Instant) -> (Option<String>, Recorded) {
        while !self.thread.is_finished() {
            if Instant::now() >= deadline {
                let reason = format!("flow \"{}\" did not end", self.name);
                return (Some(reason), Recorded::default());
            }
            std::thread::sleep(END_POLL_INTERVAL);
        }
        match self.thread.join() {
            Ok((Ok(()), recorded)) => (None, recorded),
            Ok((Err(error), recorded)) => {
                (Some(format!("flow \"{}\": {error}", self.name)), recorded)
            }
            Err(_) => (Some(format!("flow \"{}\" panicked", self.name)), Recorded::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawned(
        control: &Arc<Control>,
        prepared: &Arc<AtomicBool>,
        preparation: io::Result<u64>,
    ) -> Flow {
        let prepared = Arc::clone(prepared);
        let prepare = move || {
            std::thread::sleep(Duration::from_millis(50));
            prepared.store(true, Ordering::Relaxed);
            preparation
        };
        let body = |flow: &mut FlowContext, bytes| {
            flow.counters.add_sent(bytes);
            Ok(())
        };
        Flow::spawn_prepared("send 0.0".to_owned(), control, None, true, prepare, body).unwrap()
    }

    #[test]
    fn a_flow_is_prepared_before_it_waits_at_the_gate() {
        let (control, prepared) = (Arc::default(), Arc::default());
        let flow = spawned(&control, &prepared, Ok(7));
        assert!(prepared.load(Ordering::Relaxed));
        assert!(!flow.has_ended());
        let counters = Arc::clone(&flow.counters);
        assert_eq!(counters.sent(), 0);
        control.begin();
        assert_eq!(flow.join(Instant::now() + Duration::from_secs(5)).0, None);
        assert_eq!(counters.sent(), 7);
    }

    #[test]
    fn a_preparation_that_fails_breaks_the_flow_at_once() {
        let flow =
            spawned(&Arc::default(), &Arc::default(), Err(io::ErrorKind::OutOfMemory.into()));
        let reason = flow.join(Instant::now() + Duration::from_secs(5)).0;
        assert_eq!(reason.as_deref(), Some("flow \"send 0.0\": out of memory"));
    }
}
