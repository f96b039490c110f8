//! A stream of a test: its socket, its thread and its counters.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_sys::memory_file::{memory_file, sendfile};
use linkrate_sys::sched::{current_thread, thread_cpu_ns};
use linkrate_sys::socket::{congestion, set_receive_timeout, set_send_timeout, shut_down};
use linkrate_sys::tcp_info::{TcpInfo, tcp_info};
use linkrate_sys::tcp_repair::readable;

use super::{datagrams, is_passing, payload};
use crate::iperf3::{Arrivals, COOKIE_BYTES, CounterWidth, Datagram};

/// A stream that cannot go on looks again after this time. iperf3 has the same pause.
pub(crate) const PACE: Duration = Duration::from_millis(1);

/// How long a call may wait before it looks whether the test has ended.
const GLANCE: Duration = Duration::from_millis(100);

/// The socket of a stream.
#[derive(Debug)]
pub enum Socket {
    /// A connection.
    Tcp(TcpStream),
    /// A socket that is connected to the client's.
    Udp(UdpSocket),
}

impl Socket {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Udp(socket) => Self::Udp(socket.try_clone()?),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// What a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Sends, or receives.
    pub sends: bool,
    /// Octets of a call.
    pub block: usize,
    /// Bit/s that it sends at most; 0 has no bound.
    pub bandwidth: u64,
    /// Messages that it sends before it looks at the rate.
    pub burst: u32,
    /// How datagrams are numbered.
    pub counters: CounterWidth,
    /// Sends out of a file with sendfile(2); of a connection.
    pub zero_copy: bool,
}

/// How far a test is.
#[derive(Debug)]
pub struct Phase {
    runs: AtomicBool,
    is_over: AtomicBool,
    /// Octets that all streams together have sent.
    sent: AtomicU64,
    /// Octets after which they send no more.
    most: AtomicU64,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            runs: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
        }
    }
}

impl Phase {
    /// Lets the streams send.
    pub fn begin(&self) {
        self.runs.store(true, Ordering::Relaxed);
    }

    /// Ends the streams.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether the streams have been ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Lets all streams together send `bytes` more, and then wait for the end. Each may send one message too many.
    pub fn limit(&self, bytes: u64) {
        let sent = self.sent.load(Ordering::Relaxed);
        self.most.store(sent.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Whether the streams have sent what they may.
    pub fn is_spent(&self) -> bool {
        self.sent.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed)
    }

    /// Counts octets of a stream.
    pub(crate) fn spend(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits until the streams may send: a client counts nothing before it knows that the test runs.
    fn wait(&self) {
        while !self.runs.load(Ordering::Relaxed) && !self.is_over() {
            std::thread::sleep(PACE);
        }
    }
}

/// The rate of a stream, from its beginning on.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    bandwidth: f64,
}

impl Pace {
    pub(crate) fn of(work: &Work) -> Self {
        Self { begun: Instant::now(), bandwidth: work.bandwidth as f64 }
    }

    /// Whether a stream that has sent `bytes` is ahead of its rate. Then it has waited until it is not, or for a
    /// tenth of a second.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        if self.bandwidth == 0.0 {
            return false;
        }
        let due = bytes as f64 * 8.0 / self.bandwidth;
        let ahead = due - self.begun.elapsed().as_secs_f64();
        if ahead > 0.0 {
            std::thread::sleep(GLANCE.min(Duration::from_secs_f64(ahead.min(1.0))));
        }
        ahead > 0.0
    }
}

/// What a stream has carried.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    /// Octets.
    pub bytes: u64,
    /// Datagrams; of a sender the highest number alone.
    pub datagrams: Arrivals,
}

/// The counters of a stream. Its thread alone writes them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
    datagrams: Mutex<Arrivals>,
    failure: Mutex<Option<String>>,
}

impl Counters {
    /// Counts the last of a sender's datagrams, and its octets so far.
    pub(crate) fn sent(&self, bytes: u64, number: u64) {
        let mut datagrams = self.datagrams();
        datagrams.highest = number;
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts a datagram that has arrived.
    pub(crate) fn arrived(&self, bytes: u64, datagram: Datagram, now_us: u64) {
        let mut datagrams = self.datagrams();
        datagrams.add(datagram, now_us);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn datagrams(&self) -> MutexGuard<'_, Arrivals> {
        self.datagrams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that runs.
#[derive(Debug)]
pub struct Stream {
    /// Whether it sends; otherwise it receives.
    pub sends: bool,
    socket: Socket,
    counters: Arc<Counters>,
    thread: JoinHandle<()>,
}

impl Stream {
    /// Starts to send or to receive, until the end of the test or until the far end closes.
    ///
    /// # Errors
    /// As setsockopt(2) and clone(2).
    pub fn start(socket: Socket, work: Work, phase: &Arc<Phase>) -> io::Result<Self> {
        set_receive_timeout(&socket, GLANCE)?;
        set_send_timeout(&socket, Some(GLANCE))?;
        let counters = Arc::new(Counters::default());
        let (here, theirs, phase) = (socket.try_clone()?, Arc::clone(&counters), Arc::clone(phase));
        let body = move || {
            if work.sends {
                phase.wait();
            }
            let ended = match here {
                Socket::Tcp(mut stream) => carry(&mut stream, &work, &theirs, &phase),
                Socket::Udp(socket) => match work.sends {
                    true => datagrams::send(&socket, &work, &theirs, &phase),
                    false => datagrams::receive(&socket, &work, &theirs, &phase),
                },
            };
            *theirs.failure() = ended.err().map(|error| error.to_string());
            // a thread that cannot tell has used no time that is known
            let used = thread_cpu_ns(current_thread()).unwrap_or(0);
            theirs.cpu_ns.store(used, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("stream".to_owned()).spawn(body)?;
        Ok(Self { sends: work.sends, socket, counters, thread })
    }

    /// Octets and datagrams so far.
    pub fn count(&self) -> Count {
        let datagrams = self.counters.datagrams();
        Count { bytes: self.counters.bytes.load(Ordering::Relaxed), datagrams: *datagrams }
    }

    /// Forgets the jitter of the beginning that is left out, and counts what it has carried.
    pub fn leave_out(&self) -> Count {
        self.counters.datagrams().restart_jitter();
        self.count()
    }

    /// Why it cannot go on.
    pub fn failure(&self) -> Option<String> {
        self.counters.failure().clone()
    }

    /// Whether octets have arrived that the thread has not read yet.
    pub fn has_unread(&self) -> bool {
        match &self.socket {
            _ if self.sends => false,
            Socket::Tcp(stream) => {
                let arrived = tcp_info(stream).map_or(0, |info| info.bytes_received);
                arrived > self.counters.bytes.load(Ordering::Relaxed) + COOKIE_BYTES as u64
            }
            Socket::Udp(socket) => readable(socket).is_ok_and(|octets| octets > 0),
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// TCP_INFO; `None` of a stream of datagrams.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match &self.socket {
            Socket::Tcp(stream) => tcp_info(stream).ok(),
            Socket::Udp(_) => None,
        }
    }

    /// The congestion control; `None` of a stream of datagrams.
    pub(crate) fn congestion(&self) -> Option<String> {
        match &self.socket {
            Socket::Tcp(stream) => congestion(stream).ok(),
            Socket::Udp(_) => None,
        }
    }

    /// Waits for its end, and returns the CPU time of its thread, ns.
    pub fn join(self) -> u64 {
        shut_down(&self.socket);
        // a panic is a thread without a time
        let _ = self.thread.join();
        self.counters.cpu_ns.load(Ordering::Relaxed)
    }
}

/// The work of a TCP stream. A connection that ends is no failure: the control connection tells whether it may.
fn carry(
    socket: &mut TcpStream,
    work: &Work,
    counters: &Counters,
    phase: &Phase,
) -> io::Result<()> {
    let mut buffer = payload(work.block)?;
    let file = (work.sends && work.zero_copy).then(|| memory_file(&buffer)).transpose()?;
    let pace = Pace::of(work);
    let mut bytes = 0;
    while !phase.is_over() {
        if work.sends && phase.is_spent() {
            std::thread::sleep(PACE);
            continue;
        }
        if work.sends && pace.holds(bytes) {
            continue;
        }
        let moved = match (work.sends, &file) {
            (true, None) => socket.write(&buffer),
            (true, Some(file)) => sendfile(&*socket, file, 0, work.block),
            (false, _) => socket.read(&mut buffer),
        };
        match moved {
            Ok(0) => break,
            Ok(count) => {
                bytes += count as u64;
                counters.bytes.store(bytes, Ordering::Relaxed);
                if work.sends {
                    phase.spend(count as u64);
                }
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => break,
        }
    }
    Ok(())
}
