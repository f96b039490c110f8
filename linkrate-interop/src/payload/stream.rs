//! A stream of a test: its socket, its thread and its counters.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use linkrate_sys::bounded::is_passing;
use linkrate_sys::memory::PageBuffer;
use linkrate_sys::sched::own_thread_cpu_seconds;
use linkrate_sys::socket::{congestion, discard, set_receive_timeout, set_send_timeout, shut_down};
use linkrate_sys::tcp_info::{TcpInfo, tcp_info};
use linkrate_sys::tcp_repair::readable;
use linkrate_sys::unnamed_file::{memory_file, sendfile};

use super::{Counters, PACE, POLL_INTERVAL, Pace, Phase, Work, datagrams, shared_payload};
use crate::iperf3::{Arrivals, COOKIE_BYTES};

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

/// What a stream has carried.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    pub bytes: u64,
    /// Datagrams; of a sender the highest number alone.
    pub datagrams: Arrivals,
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
            let used = own_thread_cpu_seconds().unwrap_or_default();
            for (counter, seconds) in theirs.cpu_ns.iter().zip(used) {
                counter.store((seconds * 1e9) as u64, Ordering::Relaxed);
            }
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

    /// Waits for its end, and returns the CPU time of its thread, s: user and system.
    pub fn join(self) -> [f64; 2] {
        shut_down(&self.socket);
        // a panic is a thread without a time
        let _ = self.thread.join();
        self.counters.cpu_ns.each_ref().map(|ns| ns.load(Ordering::Relaxed) as f64 / 1e9)
    }
}

/// The work of a TCP stream. A connection that ends is no failure: the control connection tells whether it may.
fn carry(
    socket: &mut TcpStream,
    work: &Work,
    counters: &Counters,
    phase: &Phase,
) -> io::Result<()> {
    let sent = work.sends.then(|| shared_payload(work.block, work.fill)).transpose()?;
    let sent = sent.as_deref().map_or(&[][..], |payload| &payload[..work.block]);
    // its pages are touched as they are filled
    let copies = !work.sends && !work.discards;
    let mut buffer = PageBuffer::small(if copies { work.block } else { 1 })?;
    let file = (work.sends && work.zero_copy).then(|| memory_file(sent)).transpose()?;
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
            (true, None) => socket.write(&sent[..taken]),
            (true, Some(file)) => sendfile(&*socket, file, 0, taken),
            (false, _) if work.discards => discard(&*socket, work.block),
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
    use std::time::{Duration, Instant};

    use super::super::Fill;
    use super::*;
    use crate::iperf3::CounterWidth;

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

    /// Blocks of 1,000 octets, as fast as they go.
    fn unpaced(sends: bool) -> Work {
        Work {
            sends,
            block: 1000,
            bandwidth: 0,
            burst: 1,
            counters: CounterWidth::Narrow,
            zero_copy: false,
            fill: Fill::Random,
            discards: false,
            segments: false,
            merges: false,
            makes_up_for_loss: false,
        }
    }

    #[test]
    fn a_server_continues_slowly_for_a_client_that_has_lost_datagrams() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        for makes_up_for_loss in [true, false] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(far.local_addr().unwrap()).unwrap();
            let phase = Arc::new(Phase::default());
            phase.limit_to(Some(2500));
            let work = Work { makes_up_for_loss, ..unpaced(true) };
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
    fn datagrams_of_one_call_are_counted_one_by_one() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let phase = Arc::new(Phase::default());
        phase.limit_to(Some(100_000));
        let work = |sends| Work { segments: true, merges: true, ..unpaced(sends) };
        let start =
            |socket, sends| Stream::start(Socket::Udp(socket), work(sends), &phase).unwrap();
        let (receiver, sender) = (start(far, false), start(near, true));
        phase.begin();
        let deadline = Instant::now() + Duration::from_secs(10);
        while receiver.count().bytes < 100_000 {
            assert!(Instant::now() < deadline, "{:?} {:?}", sender.count(), receiver.count());
            std::thread::sleep(PACE);
        }
        phase.end();
        let [sent, found] = [sender.count(), receiver.count()];
        assert_eq!((sent.bytes, sent.datagrams.highest), (100_000, 100));
        let arrived = (found.bytes, found.datagrams.highest, found.datagrams.lost);
        assert_eq!(arrived, (100_000, 100, 0));
        sender.join();
        receiver.join();
    }

    #[test]
    fn octets_of_a_sender_count_when_tcp_has_sent_them() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // nobody reads
        let (_far, _) = listener.accept().unwrap();
        (&near).write_all(b"cookie").unwrap();
        let phase = Arc::new(Phase::default());
        let work = Work { block: 1 << 20, ..unpaced(true) };
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
