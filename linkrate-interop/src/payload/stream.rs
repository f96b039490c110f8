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

/// A stream that cannot continue looks again after this time. iperf3 has the same pause.
pub(crate) const PACE: Duration = Duration::from_millis(1);

/// Octets of a test that its time ends.
const NO_BOUND: u64 = u64::MAX;

/// How long a call may wait before it checks whether the test has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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
    /// Sends one datagram each millisecond when the amount of the test is sent. Its receiver ends the test, and waits for
    /// the whole amount although some of it may be lost.
    pub makes_up_for_loss: bool,
}

/// How far a test is.
#[derive(Debug)]
pub struct Phase {
    runs: AtomicBool,
    is_over: AtomicBool,
    /// Octets that all streams together have sent since they have a bound.
    sent: AtomicU64,
    /// Octets after which they send no more.
    most: AtomicU64,
    /// Part of it that no call has taken yet.
    left: AtomicU64,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            runs: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            most: AtomicU64::new(NO_BOUND),
            left: AtomicU64::new(NO_BOUND),
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

    /// Lets all streams together send `bytes` more, and then wait for the end. What is within a call at this moment counts.
    /// `None` sets no bound.
    pub fn limit_to(&self, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return };
        self.sent.store(0, Ordering::Relaxed);
        self.left.store(bytes, Ordering::Relaxed);
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Whether the streams have sent what they may.
    pub fn is_spent(&self) -> bool {
        self.sent.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed)
    }

    /// Octets of a message that a stream may send: fewer at the end of the amount, none behind it.
    pub(crate) fn take(&self, message: usize) -> usize {
        if self.left.load(Ordering::Relaxed) == NO_BOUND {
            return message;
        }
        let less = |left: u64| Some(left.saturating_sub(message as u64));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let left = left.unwrap_or_else(|left| left);
        usize::try_from(left).map_or(message, |left| left.min(message))
    }

    /// Counts octets of a stream, of so many that it has taken.
    pub(crate) fn spend(&self, taken: usize, sent: usize) {
        if self.left.load(Ordering::Relaxed) != NO_BOUND {
            self.left.fetch_add(taken.saturating_sub(sent) as u64, Ordering::Relaxed);
        }
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
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
            std::thread::sleep(POLL_INTERVAL.min(Duration::from_secs_f64(ahead.min(1.0))));
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
    /// Octets that TCP had taken before: a client's cookie.
    before: u64,
    counters: Arc<Counters>,
    thread: JoinHandle<()>,
}

impl Stream {
    /// Starts to send or to receive, until the end of the test or until the peer closes.
    ///
    /// # Errors
    /// As setsockopt(2) and clone(2).
    pub fn start(socket: Socket, work: Work, phase: &Arc<Phase>) -> io::Result<Self> {
        set_receive_timeout(&socket, POLL_INTERVAL)?;
        set_send_timeout(&socket, Some(POLL_INTERVAL))?;
        let before = match &socket {
            Socket::Tcp(stream) => tcp_info(stream).map_or(0, |info| info.taken_bytes),
            Socket::Udp(_) => 0,
        };
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
        Ok(Self { sends: work.sends, socket, before, counters, thread })
    }

    /// Octets and datagrams so far. Of a sender over TCP, octets count when TCP has sent them: a link does not carry what
    /// waits in the send buffer.
    pub fn count(&self) -> Count {
        let datagrams = *self.counters.datagrams();
        let bytes = self.counters.bytes.load(Ordering::Relaxed);
        let sent = self.tcp_info().filter(|_| self.sends).and_then(|info| {
            let taken = info.taken_bytes.checked_sub(self.before)?;
            // a connection that was moved does not know of what it had sent before
            (taken >= bytes).then(|| taken.saturating_sub(info.notsent_bytes.into()))
        });
        Count { bytes: sent.unwrap_or(bytes), datagrams }
    }

    /// Forgets the jitter of the beginning that is left out, and counts what it has carried.
    pub fn leave_out(&self) -> Count {
        self.counters.datagrams().restart_jitter();
        self.count()
    }

    /// Why it cannot continue.
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
        if work.sends && pace.holds(bytes) {
            continue;
        }
        let taken = if work.sends { phase.take(work.block) } else { work.block };
        if taken == 0 {
            std::thread::sleep(PACE);
            continue;
        }
        let moved = match (work.sends, &file) {
            (true, None) => socket.write(&buffer[..taken]),
            (true, Some(file)) => sendfile(&*socket, file, 0, taken),
            (false, _) => socket.read(&mut buffer),
        };
        let count = *moved.as_ref().unwrap_or(&0);
        bytes += count as u64;
        counters.bytes.store(bytes, Ordering::Relaxed);
        if work.sends {
            phase.spend(taken, count);
        }
        match moved {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(_) => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn an_amount_is_shared_by_streams_to_the_octet() {
        let phase = Phase::default();
        assert_eq!(phase.take(1000), 1000);
        phase.limit_to(Some(2500));
        assert_eq!(
            [1000, 1000, 1000, 1000].map(|message| phase.take(message)),
            [1000, 1000, 500, 0]
        );
        // of the second message a part was sent
        phase.spend(1000, 1000);
        phase.spend(1000, 300);
        assert!(!phase.is_spent());
        assert_eq!(phase.take(1000), 700);
        phase.spend(500, 500);
        phase.spend(700, 700);
        assert!(phase.is_spent());
        assert_eq!(phase.take(1000), 0);
    }

    #[test]
    fn a_server_continues_slowly_for_a_client_that_has_lost_datagrams() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        for makes_up_for_loss in [true, false] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(far.local_addr().unwrap()).unwrap();
            let phase = Arc::new(Phase::default());
            phase.limit_to(Some(2500));
            let work = Work {
                sends: true,
                block: 1000,
                bandwidth: 0,
                burst: 1,
                counters: CounterWidth::Narrow,
                zero_copy: false,
                makes_up_for_loss,
            };
            let stream = Stream::start(Socket::Udp(socket), work, &phase).unwrap();
            phase.begin();
            let deadline = Instant::now() + Duration::from_secs(10);
            let enough = || match makes_up_for_loss {
                true => stream.count().datagrams.highest > 5,
                false => phase.is_spent(),
            };
            while !enough() {
                assert!(Instant::now() < deadline, "{:?}", stream.count());
                std::thread::sleep(PACE);
            }
            let sent = stream.count();
            phase.end();
            assert!(makes_up_for_loss || sent.bytes == 3000, "{sent:?}");
            stream.join();
        }
    }

    #[test]
    fn octets_of_a_sender_count_when_tcp_has_sent_them() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // nobody reads
        let (_far, _) = listener.accept().unwrap();
        (&near).write_all(b"cookie").unwrap();
        let phase = Arc::new(Phase::default());
        let work = Work {
            sends: true,
            block: 1 << 20,
            bandwidth: 0,
            burst: 1,
            counters: CounterWidth::Narrow,
            zero_copy: false,
            makes_up_for_loss: false,
        };
        let stream = Stream::start(Socket::Tcp(near), work, &phase).unwrap();
        phase.begin();
        let deadline = Instant::now() + Duration::from_secs(10);
        while stream.tcp_info().is_none_or(|info| info.notsent_bytes == 0) {
            assert!(Instant::now() < deadline, "{:?}", stream.tcp_info());
            std::thread::sleep(PACE);
        }
        let (sent, info) = (stream.count().bytes, stream.tcp_info().unwrap());
        assert!(sent > 0 && sent + 6 < info.taken_bytes, "{sent} {info:?}");
        phase.end();
        stream.join();
    }
}
