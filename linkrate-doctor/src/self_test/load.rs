//! Loads of known size: a thread that works for a share of each period and sleeps for the rest.
//!
//! A load records its size by a clock that is not under test: the CPU time of the thread, which the
//! scheduler keeps in nanoseconds. For a softirq load, whose time may be missing there
//! (CONFIG_IRQ_TIME_ACCOUNTING), it is the time from the beginning to the end of the work. Both are
//! read; their difference is the time for which other work had the CPU.
//!
//! Long periods make waking up and going to sleep a small part of a load. Short ones are those of
//! drivers and of programs that wait for packets, which wake some thousand times a second.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::sched::{self, ThreadId};
use serde::Serialize;

/// `part` of `whole`, per cent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// How often a load wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// 50 times a second.
    Slow,
    /// 5,000 times a second.
    Fast,
}

impl Pace {
    /// The period, ns. It is not a multiple of the kernel's tick, so ticks sample all parts of it.
    pub fn period_ns(self) -> u64 {
        match self {
            Self::Slow => 19_700_000,
            Self::Fast => 199_000,
        }
    }
}

/// The kind of work of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Computes.
    User,
    /// Makes the kernel clear memory.
    System,
    /// Makes the kernel process packets.
    Softirq,
}

impl LoadKind {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::Softirq => "softirq",
        }
    }
}

/// Work that a load has done until one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReading {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Time it worked, ns.
    pub busy_ns: u64,
    /// Time in which it was ready to work and other work had the CPU, ns.
    pub lost_ns: u64,
}

impl LoadReading {
    /// The load from here to `later`, per cent of one CPU.
    pub fn percent_until(&self, later: &Self) -> f64 {
        let (busy, window) = (later.busy_ns - self.busy_ns, later.at_ns - self.at_ns);
        percent(busy, window)
    }
}

/// A load on one CPU; it ends when dropped.
pub trait Load {
    fn cpu(&self) -> u32;

    /// Whether the CPU time of other threads may include its work, because it interrupts them, or
    /// because it counts work that interrupts it.
    fn overlaps_others(&self) -> bool;

    /// Reads its work until now. The calling thread must run on its CPU.
    fn read(&self) -> SysResult<LoadReading>;
}

/// The clock that tells the size of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    ByThreadClock,
    ByWallClock,
}

/// A thread with a duty cycle.
#[derive(Debug)]
pub struct DutyLoad {
    cpu: u32,
    known: Known,
    thread_id: ThreadId,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Sum of the work phases that have ended, ns of wall-clock time.
    worked_ns: AtomicU64,
    /// CLOCK_MONOTONIC at the beginning of the present work phase; zero between two of them.
    since_ns: AtomicU64,
    lost_ns: AtomicU64,
}

impl DutyLoad {
    /// Starts a load of `share` of `cpu`. For a softirq load, the thread's own system calls process
    /// the packets.
    pub fn start(kind: LoadKind, cpu: u32, share: f64, pace: Pace) -> SysResult<Self> {
        let subject = format!("{} load on CPU {cpu}", kind.word());
        let failed = |error| SysError::new("start", &subject, error);
        let mut work = Work::new(kind, pace).map_err(failed)?;
        let known = match kind {
            LoadKind::User | LoadKind::System => Known::ByThreadClock,
            LoadKind::Softirq => Known::ByWallClock,
        };
        let shared = Arc::new(Shared::default());
        let (ready, is_ready) = channel();
        let theirs = Arc::clone(&shared);
        let body = move || {
            let id = sched::current_thread();
            let placed = sched::set_affinity(id, &[cpu].into_iter().collect());
            let is_placed = placed.is_ok();
            let _ = ready.send(placed.map(|()| id));
            if is_placed {
                let period = Period { share, ns: pace.period_ns() };
                keep_to(period, id, known, &theirs, &mut work);
            }
        };
        let thread = std::thread::Builder::new().name(format!("load-{cpu}")).spawn(body);
        let thread = Some(thread.map_err(failed)?);
        let load = |thread_id| Self { cpu, known, thread_id, shared, thread };
        match is_ready.recv() {
            Ok(id) => id.map(load),
            Err(_) => Err(failed(io::Error::other("the thread ended at once"))),
        }
    }
}

impl Load for DutyLoad {
    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn overlaps_others(&self) -> bool {
        self.known == Known::ByWallClock
    }

    fn read(&self) -> SysResult<LoadReading> {
        let lost_ns = self.shared.lost_ns.load(Ordering::Relaxed);
        match self.known {
            Known::ByThreadClock => {
                let busy_ns = sched::thread_cpu_ns(self.thread_id)?;
                Ok(LoadReading { at_ns: monotonic_ns(), busy_ns, lost_ns })
            }
            // the thread does not run while the reader has its CPU, so the two values match
            Known::ByWallClock => {
                let at_ns = monotonic_ns();
                let since_ns = self.shared.since_ns.load(Ordering::SeqCst);
                let worked_ns = self.shared.worked_ns.load(Ordering::SeqCst);
                let now_ns = if since_ns == 0 { 0 } else { at_ns.saturating_sub(since_ns) };
                Ok(LoadReading { at_ns, busy_ns: worked_ns + now_ns, lost_ns })
            }
        }
    }
}

impl Drop for DutyLoad {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // a load that has ended early shows in its figures
            let _ = thread.join();
        }
    }
}

/// The share of a period for which a load works.
#[derive(Debug, Clone, Copy)]
struct Period {
    share: f64,
    ns: u64,
}

/// In each period, works until the total due so far is done, then sleeps until the next period.
fn keep_to(each: Period, id: ThreadId, known: Known, shared: &Shared, work: &mut Work) {
    // a wake-up must not wait for others of about the same time
    let _ = sched::set_timer_slack_ns(1);
    let began_ns = monotonic_ns();
    let used = || sched::thread_cpu_ns(id).unwrap_or(u64::MAX);
    let (mut due_ns, mut done_ns) = (0.0, 0);
    for period in 1u64.. {
        due_ns += each.share * each.ns as f64;
        let (opened_ns, opened_used) = (monotonic_ns(), used());
        shared.since_ns.store(opened_ns, Ordering::SeqCst);
        let (now_ns, now_used) = loop {
            work.a_little();
            let (now_ns, now_used) = (monotonic_ns(), used());
            let worked = match known {
                Known::ByThreadClock => now_used - opened_used,
                Known::ByWallClock => now_ns - opened_ns,
            };
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            if (done_ns + worked) as f64 >= due_ns {
                done_ns += worked;
                break (now_ns, now_used);
            }
        };
        let (hours, used) = (now_ns - opened_ns, now_used - opened_used);
        shared.since_ns.store(0, Ordering::SeqCst);
        shared.worked_ns.fetch_add(hours, Ordering::SeqCst);
        if known == Known::ByThreadClock {
            shared.lost_ns.fetch_add(hours.saturating_sub(used), Ordering::Relaxed);
        }
        sleep_until_ns(began_ns + period * each.ns);
    }
}

/// The work, in pieces that are short beside the share of a period.
enum Work {
    Compute { state: u64, steps: u32 },
    Clear { zeros: File, buffer: Vec<u8> },
    Send { from: UdpSocket, to: UdpSocket, datagrams: u32 },
}

impl Work {
    fn new(kind: LoadKind, pace: Pace) -> io::Result<Self> {
        // about 10 µs, and about 1 µs
        let (steps, octets, datagrams) = match pace {
            Pace::Slow => (5000, 64 << 10, 4),
            Pace::Fast => (500, 4 << 10, 1),
        };
        Ok(match kind {
            LoadKind::User => Self::Compute { state: 1, steps },
            LoadKind::System => {
                Self::Clear { zeros: File::open("/dev/zero")?, buffer: vec![0; octets] }
            }
            LoadKind::Softirq => {
                let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
                let (from, to) = (socket()?, socket()?);
                from.connect(to.local_addr()?)?;
                from.send(&[0])?;
                Self::Send { from, to, datagrams }
            }
        })
    }

    fn a_little(&mut self) {
        match self {
            Self::Compute { state, steps } => {
                for _ in 0..*steps {
                    *state = black_box(state.wrapping_mul(6364136223846793005).wrapping_add(1));
                }
            }
            Self::Clear { zeros, buffer } => {
                // a failure would only reduce the work
                let _ = zeros.read(buffer);
            }
            // nothing reads the socket, so the softirq drops datagrams once the buffer is full
            Self::Send { from, to, datagrams } => {
                for _ in 0..*datagrams {
                    let _ = from.send(&[0; 1024]);
                }
                let _ = black_box(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_about_the_requested_size_and_reports_it() {
        let cpus = sched::affinity(sched::current_thread()).unwrap();
        let cpu = cpus.iter().last().unwrap();
        for kind in [LoadKind::User, LoadKind::System, LoadKind::Softirq] {
            for pace in [Pace::Slow, Pace::Fast] {
                let load = DutyLoad::start(kind, cpu, 0.3, pace).unwrap();
                assert_eq!(load.cpu(), cpu);
                let opened = load.read().unwrap();
                sleep_until_ns(monotonic_ns() + 20 * Pace::Slow.period_ns());
                let closed = load.read().unwrap();
                let percent = opened.percent_until(&closed);
                // other work may delay it, and it then makes up for as much as was due in the meantime
                let most = if pace == Pace::Slow { 36.0 } else { 100.0 };
                assert!((1.0..=most).contains(&percent), "{kind:?}, {pace:?}: {percent}");
            }
        }
    }
}
