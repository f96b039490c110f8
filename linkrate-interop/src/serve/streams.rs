//! The threads that carry the payload of a session.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_sys::sched::{current_thread, thread_cpu_ns};
use linkrate_sys::tcp_info::tcp_info;

use crate::iperf3::COOKIE_BYTES;

/// A stream with a rate sends when it is behind, and looks again after this time. iperf3 has the same pause.
const PACE: Duration = Duration::from_millis(1);

/// How long a call may wait before it looks whether the test has ended.
const GLANCE: Duration = Duration::from_millis(100);

/// What a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// Sends, or receives.
    pub(super) sends: bool,
    /// Octets of a call.
    pub(super) block: usize,
    /// Bit/s that it sends at most; 0 has no bound.
    pub(super) bandwidth: u64,
}

/// The counters of a stream. Its thread alone writes them.
#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
}

/// A stream that runs.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sends: bool,
    socket: TcpStream,
    counters: Arc<Counters>,
    thread: JoinHandle<()>,
}

impl Stream {
    /// Starts to send or to receive, until `stop` is set or the far end closes.
    pub(super) fn start(socket: TcpStream, work: Work, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        socket.set_read_timeout(Some(GLANCE))?;
        socket.set_write_timeout(Some(GLANCE))?;
        let counters = Arc::new(Counters::default());
        let (mut here, theirs, stop) =
            (socket.try_clone()?, Arc::clone(&counters), Arc::clone(stop));
        let body = move || {
            carry(&mut here, work, &theirs.bytes, &stop);
            // a thread that cannot tell has used no time that is known
            let used = thread_cpu_ns(current_thread()).unwrap_or(0);
            theirs.cpu_ns.store(used, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("stream".to_owned()).spawn(body)?;
        Ok(Self { sends: work.sends, socket, counters, thread })
    }

    /// Octets so far.
    pub(super) fn bytes(&self) -> u64 {
        self.counters.bytes.load(Ordering::Relaxed)
    }

    /// Whether TCP has received octets that the thread has not read yet.
    pub(super) fn has_unread(&self) -> bool {
        let arrived = tcp_info(&self.socket).map_or(0, |info| info.bytes_received);
        !self.sends && arrived > self.bytes() + COOKIE_BYTES as u64
    }

    /// Segments that it has sent again; `None` of a receiver.
    pub(super) fn retransmits(&self) -> Option<u64> {
        let info = self.sends.then(|| tcp_info(&self.socket).ok()).flatten()?;
        Some(info.total_retrans.into())
    }

    /// Waits for its end, and returns the CPU time of its thread, ns.
    pub(super) fn join(self) -> u64 {
        let _ = self.socket.shutdown(Shutdown::Both);
        // a panic is a thread without a time
        let _ = self.thread.join();
        self.counters.cpu_ns.load(Ordering::Relaxed)
    }
}

fn carry(socket: &mut TcpStream, work: Work, bytes: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = vec![0x5a; work.block];
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let so_far = bytes.load(Ordering::Relaxed);
        if work.sends && work.bandwidth > 0 {
            let due = begun.elapsed().as_secs_f64() * work.bandwidth as f64 / 8.0;
            if so_far as f64 > due {
                std::thread::sleep(PACE);
                continue;
            }
        }
        let moved = match work.sends {
            true => socket.write(&buffer),
            false => socket.read(&mut buffer),
        };
        match moved {
            Ok(0) => return,
            Ok(count) => bytes.store(so_far + count as u64, Ordering::Relaxed),
            Err(error) if is_passing(&error) => {}
            Err(_) => return,
        }
    }
}

/// Whether a call failed for its time, and not for its connection.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
