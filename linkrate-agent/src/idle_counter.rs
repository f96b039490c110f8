//! The idle counter: a thread on each CPU that runs only when no other thread is ready, and counts.
//!
//! netperf's looper, and LOC_CPU and REM_CPU in the papers, use the same idea: other work used the
//! time that an idle thread did not get. A looper counts passes and divides by the rate on an idle
//! CPU, so a different clock rate, or work on the other hardware thread of the core, looks like
//! load. Here each pass reads the clock. A pass of about the usual length was undisturbed, and its
//! length is added to idle time. A much longer pass was interrupted. Calibration only finds the
//! limit between the two, and no pass is near it: a pass takes some tens of nanoseconds, an
//! interrupt a microsecond or more.
//!
//! Not every interruption is work. After a long pass, the thread reads its own CPU clock, which
//! stalls while another thread runs and during reported steal, and the number of interrupts
//! ([`InterruptCounts`], where this process may count them). `tally` then distinguishes another
//! thread; an interrupt; the tick, which runs only because a thread counts; and unreported steal,
//! which would cost a sleeping CPU nothing. Where interrupts cannot be counted, a long pass in
//! which the own clock advanced is either work or unreported steal, and its time is uncertain.
//!
//! Time in which the thread makes these readings is not counted, and where interrupts cannot be
//! counted, neither is the tick. Like a looper, each counter therefore first measures the largest
//! share of its own CPU time that it can count; this share stands for a fully idle CPU. It is a
//! share of CPU time and not of wall-clock time, since other threads and the hypervisor may run
//! during calibration.
//!
//! The counter shares no assumption with the idle time of the kernel except CLOCK_MONOTONIC. Its
//! disadvantage: a CPU that counts never sleeps, so no work is charged for waking it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use linkrate_model::CpuSet;
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::error::SysError;
use linkrate_sys::interrupts::{InterruptCounts, Interrupts};
use linkrate_sys::sched::{self, ThreadId};

/// Prefix of the names of counting threads.
pub const THREAD: &str = "idle-counter-";

/// Number of passes that calibrate the usual length.
const CALIBRATION_PASSES: usize = 4096;

const CALIBRATION_SLICES: usize = 8;

/// Length of a slice, ns: many ticks, so that one more or less hardly matters.
const CALIBRATION_SLICE_NS: u64 = 40_000_000;

/// Smallest plausible share. A counter with a smaller one was interrupted all the time, so its
/// share is not used.
const MIN_COUNTED: f64 = 0.95;

/// Smallest own CPU time of a usable slice, ns.
const MIN_OWN_NS: u64 = CALIBRATION_SLICE_NS / 8;

/// A pass of more than this many usual lengths was disturbed. A slower clock rate or a cache miss
/// makes it less long, any switch to other work longer.
const DISTURBED_FACTOR: u64 = 10;

/// Longest usual pass with which short disturbances can be detected, ns. Clocks that need a system
/// call take longer.
const MAX_PASS_NS: u64 = 150;

/// Longest undisturbed reading of the own CPU clock, ns.
const MAX_POLL_NS: u64 = 10_000;

/// Largest difference of the two clocks between two readings, ns: the clock of the thread follows
/// the counter of the CPU, CLOCK_MONOTONIC is slewed by up to 500 ppm of the 4 ms between two
/// ticks.
const CLOCKS_DIFFER_NS: u64 = 5_000;

/// Hardware interrupts take less time than this, ns: the tick takes some tens of microseconds in a
/// virtual machine. A longer interruption is a softirq, or the hypervisor.
const LONG_NS: u64 = 200_000;

/// One counter on each of some CPUs. They rest until [`run`](Self::run), and end when dropped.
#[derive(Debug)]
pub struct IdleCounters {
    counters: Vec<Counter>,
    sees_interrupts: bool,
}

#[derive(Debug)]
struct Counter {
    cpu: u32,
    /// Share of its own CPU time that it counts on an idle CPU.
    all: f64,
    thread_id: ThreadId,
    shared: Arc<Shared>,
    /// A message starts it; closing the channel ends it.
    run: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// On a separate cache line, which only its thread writes while it counts.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared {
    idle_ns: AtomicU64,
    uncertain_ns: AtomicU64,
    rest: AtomicBool,
}

impl IdleCounters {
    /// Starts a counter on each of `cpus`, which must be idle for a part of the 0.3 s this takes.
    /// Fails when a thread cannot be started or bound, or reading the clock takes too long.
    pub fn start(cpus: &CpuSet) -> Result<Self, SysError> {
        let pass_ns = usual_pass_ns();
        if pass_ns > MAX_PASS_NS {
            let error = std::io::Error::other(format!(
                "reading the clock takes {pass_ns} ns, expected at most {MAX_PASS_NS} ns"
            ));
            return Err(SysError::new("count idle time on CPUs", cpus.to_string(), error)
                .with_hint("use clock source tsc, which needs no system call"));
        }
        // this needs privilege
        let interrupts = InterruptCounts::start();
        let interrupts = interrupts.ok().map(Arc::new);
        let mut counters = Self { counters: Vec::new(), sees_interrupts: interrupts.is_some() };
        for cpu in cpus.iter() {
            let passes = Passes {
                cpu,
                disturbed_ns: pass_ns * DISTURBED_FACTOR,
                interrupts: interrupts.clone(),
            };
            counters.counters.push(Counter::start(passes)?);
        }
        counters.calibrate();
        Ok(counters)
    }

    fn calibrate(&mut self) {
        let mut shares = vec![Vec::with_capacity(CALIBRATION_SLICES); self.counters.len()];
        self.run();
        for _ in 0..CALIBRATION_SLICES {
            // uncertain time is not used
            let read = |counter: &Counter| {
                let own_ns = counter.own_clock_ns();
                (own_ns.saturating_sub(counter.uncertain_ns()), counter.counted_ns())
            };
            let opened: Vec<_> = self.counters.iter().map(read).collect();
            sleep_until_ns(monotonic_ns() + CALIBRATION_SLICE_NS);
            let closed: Vec<_> = self.counters.iter().map(read).collect();
            for ((shares, opened), closed) in shares.iter_mut().zip(opened).zip(closed) {
                let own_ns = closed.0.saturating_sub(opened.0);
                if own_ns >= MIN_OWN_NS {
                    shares.push((closed.1 - opened.1) as f64 / own_ns as f64);
                }
            }
        }
        self.rest();
        for (counter, mut shares) in self.counters.iter_mut().zip(shares) {
            counter.all = share_of_own_time(&mut shares, self.sees_interrupts);
        }
    }

    pub fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.counters.iter().map(|counter| counter.thread_id)
    }

    pub fn run(&self) {
        for counter in &self.counters {
            counter.shared.rest.store(false, Ordering::Relaxed);
            if let Some(run) = &counter.run {
                // a thread that has ended counts nothing, so its CPU appears busy
                let _ = run.send(());
            }
        }
    }

    /// Lets the CPUs sleep again.
    pub fn rest(&self) {
        for counter in &self.counters {
            counter.shared.rest.store(true, Ordering::Relaxed);
        }
    }

    /// Idle time that the counter of `cpu` has counted, ns; `None` for a CPU without a counter.
    pub fn idle_ns(&self, cpu: u32) -> Option<u64> {
        let counter = self.counters.iter().find(|counter| counter.cpu == cpu)?;
        Some((counter.counted_ns() as f64 / counter.all) as u64)
    }

    /// Time that may have been idle or busy, ns; [`idle_ns`](Self::idle_ns) does not include it.
    /// `None` for a CPU without a counter.
    pub fn uncertain_ns(&self, cpu: u32) -> Option<u64> {
        let counter = self.counters.iter().find(|counter| counter.cpu == cpu)?;
        Some(counter.uncertain_ns())
    }
}

impl Counter {
    fn start(passes: Passes) -> Result<Self, SysError> {
        let cpu = passes.cpu;
        let shared = Arc::new(Shared::default());
        let (run, woken) = channel();
        let (ready, is_ready) = channel();
        let theirs = Arc::clone(&shared);
        let body = move || {
            let id = sched::current_thread();
            let placed = sched::set_affinity(id, &[cpu].into_iter().collect());
            let placed = placed.and_then(|()| sched::become_idle()).map(|()| id);
            let may_count = placed.is_ok();
            let _ = ready.send(placed);
            if may_count {
                count(&theirs, &woken, &passes);
            }
        };
        let name = format!("{THREAD}{cpu}");
        let failed = |error| SysError::new("start idle counter on CPU", cpu.to_string(), error);
        let thread = std::thread::Builder::new().name(name).spawn(body).map_err(failed)?;
        let (run, thread) = (Some(run), Some(thread));
        match is_ready.recv() {
            Ok(placed) => {
                placed.map(|thread_id| Self { cpu, all: 1.0, thread_id, shared, run, thread })
            }
            Err(_) => Err(failed(std::io::Error::other("the thread ended at once"))),
        }
    }
}

impl Counter {
    /// If the clock cannot be read, the slice is not usable.
    fn own_clock_ns(&self) -> u64 {
        sched::thread_cpu_ns(self.thread_id).unwrap_or(0)
    }

    fn uncertain_ns(&self) -> u64 {
        self.shared.uncertain_ns.load(Ordering::Relaxed)
    }

    fn counted_ns(&self) -> u64 {
        self.shared.idle_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.shared.rest.store(true, Ordering::Relaxed);
        self.run = None;
        if let Some(thread) = self.thread.take() {
            // a panic of the thread needs no cleanup
            let _ = thread.join();
        }
    }
}

/// Calibration and counts of a counting thread.
#[derive(Debug)]
struct Passes {
    cpu: u32,
    /// A pass of at least this length was disturbed.
    disturbed_ns: u64,
    interrupts: Option<Arc<InterruptCounts>>,
}

fn count(shared: &Shared, woken: &Receiver<()>, passes: &Passes) {
    let thread = sched::current_thread();
    // the own clock can always be read; an error counts as a clock that stalled
    let own_clock = || sched::thread_cpu_ns(thread).unwrap_or(0);
    let interrupts = || passes.interrupts.as_ref().and_then(|counts| counts.on(passes.cpu));
    let interrupt_began =
        || passes.interrupts.as_ref().and_then(|counts| counts.last_began_ns(passes.cpu));
    let (mut idle_ns, mut uncertain_ns) = (0, 0);
    while woken.recv().is_ok() {
        let (mut own_then, mut interrupts_then) = (own_clock(), interrupts());
        // undisturbed since the last reading of the own clock
        let mut since_ns = 0;
        let mut last = monotonic_ns();
        while !shared.rest.load(Ordering::Relaxed) {
            let now = monotonic_ns();
            let pass = now - last;
            if pass < passes.disturbed_ns {
                (idle_ns, since_ns, last) = (idle_ns + pass, since_ns + pass, now);
            } else {
                let (own_now, interrupts_now) = (own_clock(), interrupts());
                let own_ns = (own_now.saturating_sub(own_then)).saturating_sub(since_ns).min(pass);
                let seen = interrupts_now.zip(interrupts_then).map(|(now, then)| now.since(then));
                let before_ns = interrupt_began().and_then(|began| began.checked_sub(last));
                let tally = tally(pass, own_ns, seen, before_ns);
                last = monotonic_ns();
                let look = (last - now).min(MAX_POLL_NS);
                idle_ns += tally.idle_ns + look;
                uncertain_ns += tally.uncertain_ns;
                (own_then, interrupts_then, since_ns) = (own_now, interrupts_now, 0);
                shared.uncertain_ns.store(uncertain_ns, Ordering::Relaxed);
            }
            shared.idle_ns.store(idle_ns, Ordering::Relaxed);
        }
    }
}

/// Idle time of a disturbed pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    /// Time in which this kernel had no work.
    idle_ns: u64,
    /// Time that was idle or busy.
    uncertain_ns: u64,
}

/// Judges a disturbed pass of `pass_ns`, in which the thread's own clock advanced by `own_ns`, by
/// the counted interrupts; `None` if they cannot be counted. The last interrupt began `before_ns`
/// after the beginning of the pass; `None` if that is not known.
///
/// | own clock | interrupts except the tick | verdict |
/// |---|---|---|
/// | stalled | | another thread, or reported steal: not idle |
/// | advanced | none, and no other thread ran | the tick, or unreported steal: idle |
/// | advanced | none, and another thread ran | if short, the interrupt that woke it: idle before it |
/// | advanced | some | if short, idle before it; if long, idle except for the softirqs |
/// | advanced | cannot be counted | if short, an interrupt: not idle; if long, uncertain |
///
/// A hypervisor takes some microseconds to deliver an interrupt. The own clock advances meanwhile,
/// and a CPU that sleeps would lose nothing, so this time is idle. An interrupt that began after the
/// own time was another thread's, and tells nothing.
fn tally(pass_ns: u64, own_ns: u64, seen: Option<Interrupts>, before_ns: Option<u64>) -> Tally {
    let is_alone = pass_ns - own_ns < CLOCKS_DIFFER_NS;
    let own_ns = if is_alone { pass_ns } else { own_ns };
    let is_long = own_ns >= LONG_NS;
    let idle = |idle_ns| Tally { idle_ns, uncertain_ns: 0 };
    let idle_before = || idle(before_ns.filter(|before_ns| *before_ns <= own_ns).unwrap_or(0));
    match seen {
        Some(seen) if seen.is_none() && (is_alone || is_long) => idle(own_ns),
        Some(seen) if is_long => idle(own_ns.saturating_sub(seen.softirq_ns)),
        Some(_) => idle_before(),
        None if is_long => Tally { idle_ns: 0, uncertain_ns: own_ns },
        None => Tally::default(),
    }
}

/// The share of its own CPU time that a counter counts on an idle CPU, from the shares of all
/// slices. With counts of interrupts it is the largest, since interruptions only reduce a share.
/// Without, the tick reduces each share by an amount that varies with the hypervisor, and the
/// median is typical.
fn share_of_own_time(shares: &mut [f64], sees_interrupts: bool) -> f64 {
    shares.sort_unstable_by(f64::total_cmp);
    let at = if sees_interrupts { shares.len().saturating_sub(1) } else { shares.len() / 2 };
    let share = shares.get(at).copied().unwrap_or(0.0);
    // an implausible share is not used; the tick then counts as load
    if share < MIN_COUNTED { 1.0 } else { share.min(1.0) }
}

/// Median length of a pass: disturbed passes are always a small minority.
fn usual_pass_ns() -> u64 {
    let mut last = monotonic_ns();
    let mut passes: Vec<u64> = (0..CALIBRATION_PASSES)
        .map(|_| {
            let now = monotonic_ns();
            now - std::mem::replace(&mut last, now)
        })
        .collect();
    passes.sort_unstable();
    passes[passes.len() / 2].max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_between_is_distinguished() {
        const US: u64 = 1000;
        let none = Some(Interrupts::default());
        let softirq = |us: u64| Some(Interrupts { softirq_ns: us * US, softirqs: 1, hardware: 1 });
        let hardware = Some(Interrupts { hardware: 1, ..Interrupts::default() });
        // a timer that woke a thread after a time that the hypervisor took to deliver it
        for (before_us, idle_us) in [(Some(7), 7), (Some(30), 30), (Some(31), 0), (None, 0)] {
            let before_ns = before_us.map(|us: u64| us * US);
            let found = [none, hardware].map(|seen| tally(4000 * US, 30 * US, seen, before_ns));
            assert_eq!(
                found,
                [Tally { idle_ns: idle_us * US, uncertain_ns: 0 }; 2],
                "{before_us:?}"
            );
        }
        for (what, pass_us, own_us, seen, idle_us, unsure_us) in [
            ("another thread", 4000, 6, none, 0, 0),
            ("another thread, or reported steal, interrupts not counted", 4000, 6, None, 0, 0),
            ("the tick", 45, 45, none, 45, 0),
            ("the tick, and clocks that differ", 45, 43, none, 45, 0),
            ("the tick, interrupts not counted: part of calibration", 45, 45, None, 0, 0),
            ("the hypervisor", 7000, 6998, none, 7000, 0),
            ("the hypervisor, interrupts not counted", 7000, 6998, None, 0, 7000),
            ("a timer that woke a thread", 4000, 30, none, 0, 0),
            ("a thread, and the hypervisor beside it", 9000, 5000, none, 5000, 0),
            ("an interrupt of the network", 30, 30, hardware, 0, 0),
            ("its softirq", 150, 150, softirq(120), 0, 0),
            ("a long softirq", 2010, 2010, softirq(2003), 7, 0),
            ("a softirq, and the hypervisor", 7000, 7000, softirq(100), 6900, 0),
            ("a softirq longer than the own clock", 900, 400, softirq(500), 0, 0),
        ] {
            let tally = tally(pass_us * US, own_us * US, seen, None);
            let expected = Tally { idle_ns: idle_us * US, uncertain_ns: unsure_us * US };
            assert_eq!(tally, expected, "{what}");
        }
    }

    #[test]
    fn calibration_takes_the_best_of_its_own_time() {
        let of = |shares: &[f64]| share_of_own_time(&mut shares.to_vec(), true);
        let unseen = |shares: &[f64]| share_of_own_time(&mut shares.to_vec(), false);
        // interrupted most of the time
        assert_eq!(of(&[0.97, 0.5, 0.7, 0.989, 0.96, 0.3, 0.988, 0.7]), 0.989);
        // interrupted all of the time; and a clock that was read late
        assert_eq!(of(&[0.6, 0.7, 0.94, 0.5]), 1.0);
        assert_eq!(of(&[1.01, 1.01]), 1.0);
        assert_eq!(of(&[]), 1.0);
        assert_eq!(unseen(&[0.97, 0.96, 0.99, 0.98, 0.5]), 0.97);
        assert_eq!(unseen(&[]), 1.0);
    }

    #[test]
    fn counters_count_only_between_run_and_rest() {
        let home = sched::affinity(sched::current_thread()).unwrap();
        let cpu = home.iter().last().unwrap();
        let counters = match IdleCounters::start(&[cpu].into_iter().collect()) {
            Ok(counters) => counters,
            Err(error) => {
                println!("SKIPPED counters_count_only_between_run_and_rest: {error}");
                return;
            }
        };
        let idle = || counters.idle_ns(cpu).unwrap();
        let sleep = |ms: u64| sleep_until_ns(monotonic_ns() + ms * 1_000_000);
        assert_eq!(counters.idle_ns(cpu + 1), None);
        for _ in 0..2 {
            let (before, began) = (idle(), monotonic_ns());
            counters.run();
            // other threads may have the CPU for a while
            while idle() == before && monotonic_ns() < began + 5_000_000_000 {
                sleep(5);
            }
            counters.rest();
            sleep(50);
            let after = idle();
            assert!(counters.uncertain_ns(cpu).is_some());
            assert!(after > before && after - before < monotonic_ns() - began);
            sleep(20);
            assert_eq!(idle(), after, "it rests");
        }
    }
}
