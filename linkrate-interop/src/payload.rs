//! The payload of a test, at either end of it: threads that send and receive, each with its counters.
//!
//! - [`Stream`]: a stream and its thread
//! - `datagrams`: the work of a stream of datagrams
//! - [`guarded`]: a test whose end another thread watches

mod datagrams;
mod guarded;
mod stream;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use linkrate_sys::memory::PageBuffer;

pub(crate) use datagrams::MAX_CALL;
pub use guarded::guarded;
pub use stream::{Count, Socket, Stream};

use crate::iperf3::{Arrivals, CounterWidth, Datagram};

/// What payload is. Links and tunnels that compress carry more of what repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The same octet.
    Constant,
    /// Octets that do not compress, as iperf3's.
    Random,
    /// The digits again and again (iperf3's `--repeating-payload`).
    Digits,
}

impl Fill {
    fn fill(self, buffer: &mut [u8]) {
        match self {
            Self::Constant => buffer.fill(0x5a),
            Self::Random => {
                // xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators)
                let mut state = 0x9e37_79b9_7f4a_7c15_u64;
                for octets in buffer.chunks_mut(8) {
                    state ^= state >> 12;
                    state ^= state << 25;
                    state ^= state >> 27;
                    let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
                    octets.copy_from_slice(&word[..octets.len()]);
                }
            }
            Self::Digits => {
                buffer
                    .iter_mut()
                    .zip((b'0'..=b'9').cycle())
                    .for_each(|(octet, digit)| *octet = digit);
            }
        }
    }
}

/// Payload of so many octets, from the beginning of a page on, where iperf3 has it too.
pub(crate) fn payload(octets: usize, fill: Fill) -> io::Result<PageBuffer> {
    let mut buffer = PageBuffer::small(octets.max(1))?;
    fill.fill(&mut buffer);
    Ok(buffer)
}

/// The same, of so many octets or more, which all streams of the process send from.
pub(crate) fn shared_payload(octets: usize, fill: Fill) -> io::Result<Arc<PageBuffer>> {
    static SHARED: [Mutex<Weak<PageBuffer>>; 3] = [const { Mutex::new(Weak::new()) }; 3];
    let mut shared = SHARED[fill as usize].lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(payload) = shared.upgrade().filter(|payload| payload.len() >= octets) {
        return Ok(payload);
    }
    let payload = Arc::new(payload(octets, fill)?);
    *shared = Arc::downgrade(&payload);
    Ok(payload)
}

/// A stream that cannot continue looks again after this time. iperf3 has the same pause.
pub(crate) const PACE: Duration = Duration::from_millis(1);

/// Octets of a test that its time ends.
const NO_BOUND: u64 = u64::MAX;

/// How long a call may wait before it checks whether the test has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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
    /// What it sends.
    pub fill: Fill,
    /// Leaves what it receives in the kernel; of a connection.
    pub discards: bool,
    /// Lets the kernel cut a call into datagrams (UDP_SEGMENT).
    pub segments: bool,
    /// Lets the kernel merge datagrams for a call (UDP_GRO).
    pub merges: bool,
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

    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

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

/// The counters of a stream. Its thread alone writes them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes: AtomicU64,
    /// CPU time of the thread, ns: user and system.
    cpu_ns: [AtomicU64; 2],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_send_share_their_payload() {
        let shared = |octets| shared_payload(octets, Fill::Constant).unwrap();
        let [first, second] = [1 << 20, 1 << 10].map(shared);
        assert!(Arc::ptr_eq(&first, &second) && first.len() >= 1 << 20);
        let more = shared(first.len() + 1);
        assert!(more.len() > first.len() && more.iter().all(|octet| *octet == 0x5a));
    }

    #[test]
    fn payload_of_iperf3_is_random_or_digits() {
        let digits = payload(25, Fill::Digits).unwrap();
        assert!(digits.starts_with(b"0123456789012345678901234"));
        let random = payload(1 << 16, Fill::Random).unwrap();
        let mut counts = [0_u32; 256];
        random.iter().for_each(|octet| counts[usize::from(*octet)] += 1);
        // 256 on the average, with a standard deviation of 16
        assert!(counts.iter().all(|count| (150..400).contains(count)), "{counts:?}");
    }
}
