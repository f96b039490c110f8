//! What the work of clients and devices costs a CPU of the system under test, though no time is charged to it:
//! CPUs of one machine share caches, memory, a power budget, and perhaps a core.
//!
//! A loop of fixed work runs on the SUT's CPU, in turn while the other CPUs rest and while each of them copies
//! memory, as clients and devices do. Its CPU time is compared, so programs that take the CPU itself do
//! not count.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use linkrate_model::CpuSet;
use linkrate_study::executor::Contention;
use linkrate_study::study::Purpose;
use linkrate_sys::sched::{apart, current_thread, set_affinity, thread_cpu_ns};
use linkrate_wire::checksum::Sum;

use crate::error::LabError;
use crate::placement::Placement;
use crate::testbed::Testbed;

/// Times that the loop runs without and with load.
const ROUNDS: usize = 15;

/// Bytes that the loop copies at a time: the payload of a superframe, which second-level caches hold.
const PAYLOAD: usize = 64 << 10;

/// Copies of one loop: some milliseconds.
const COPIES: usize = 150;

/// Bytes that the load copies in turn: what sockets hold, more than second-level caches do.
const LOAD: usize = 8 << 20;

/// Time for the other CPUs to begin and to end.
const SETTLE: Duration = Duration::from_millis(2);

/// Measures it on the first CPU of the system under test. `None` where the clients have no CPUs of their own
/// on this machine.
pub(super) fn measure(placement: &Placement) -> Result<Option<Contention>, LabError> {
    if placement.apart || placement.is_shared() {
        return Ok(None);
    }
    let Some(cpu) = placement.sut.iter().next() else { return Ok(None) };
    let (end, loaded) = (AtomicBool::new(false), AtomicBool::new(false));
    let times = thread::scope(|scope| {
        let started = placement.clients.iter().try_for_each(|other| {
            let (end, loaded) = (&end, &loaded);
            let thread = thread::Builder::new();
            thread.spawn_scoped(scope, move || load(other, end, loaded)).map(drop)
        });
        let measured = started.and_then(|()| apart(|| rounds(cpu, &loaded)));
        // also those that run where one more could not be created
        end.store(true, Ordering::Relaxed);
        measured
    });
    Ok(Contention::of(&times??))
}

/// CPU time of the loop in each round, ns: while the others rest, and while they work.
fn rounds(cpu: u32, loaded: &AtomicBool) -> Result<Vec<(u64, u64)>, LabError> {
    set_affinity(current_thread(), &CpuSet::from_iter([cpu]))?;
    let mut memory = vec![1; 2 * PAYLOAD];
    let mut timed = |is_loaded| -> Result<u64, LabError> {
        loaded.store(is_loaded, Ordering::Relaxed);
        thread::sleep(SETTLE);
        let before_ns = thread_cpu_ns(current_thread())?;
        fixed_work(&mut memory);
        Ok(thread_cpu_ns(current_thread())?.saturating_sub(before_ns))
    };
    // the first one takes the memory
    timed(false)?;
    let round = |_| Ok((timed(false)?, timed(true)?));
    let times = (0..ROUNDS).map(round).collect();
    loaded.store(false, Ordering::Relaxed);
    times
}

/// Copies payload and sums it, as the stack does, always the same.
fn fixed_work(memory: &mut [u8]) {
    let (from, to) = memory.split_at_mut(PAYLOAD);
    for _ in 0..COPIES {
        to.copy_from_slice(black_box(from));
        black_box(Sum::of(to));
    }
}

/// Copies memory on one CPU while `loaded`, until `end`.
fn load(cpu: u32, end: &AtomicBool, loaded: &AtomicBool) {
    // without its place it loads another CPU, and the figure is too low
    let _ = set_affinity(current_thread(), &CpuSet::from_iter([cpu]));
    let mut memory = vec![1u8; LOAD];
    while !end.load(Ordering::Relaxed) {
        if !loaded.load(Ordering::Relaxed) {
            thread::sleep(SETTLE / 8);
            continue;
        }
        let (from, to) = memory.split_at_mut(LOAD / 2);
        for (to, from) in to.chunks_mut(PAYLOAD).zip(black_box(from).chunks(PAYLOAD)) {
            to.copy_from_slice(from);
        }
        black_box(&mut memory);
    }
}

/// What a lab measures of its machine before the first run. It holds for all testbeds of the lab: it depends on the CPUs and the kernel alone.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    /// What the work of the other CPUs costs the SUT's; `None` before it was measured.
    contention: Option<Result<Option<Contention>, String>>,
}

impl Calibration {
    /// Measures what runs of this purpose need, was not measured yet and can be measured on this testbed. Nothing must
    /// flow.
    pub(super) fn complete(&mut self, testbed: &mut Testbed, purpose: Purpose) {
        if purpose == Purpose::Functions {
            return;
        }
        if self.contention.is_none() {
            let measured = measure(&testbed.placement);
            self.contention = Some(measured.map_err(|error| error.to_string()));
        }
    }

    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let contention = self.contention.as_ref().map(|contention| match contention {
            Ok(Some(contention)) => format!(
                "a loop of {:.1} ms on the SUT's CPU takes {contention} more CPU time while the other CPUs \
                 copy memory; quartiles in brackets",
                contention.loop_ns as f64 / 1e6
            ),
            Ok(None) => "not applicable: the clients have no CPUs of their own on this machine".to_owned(),
            Err(reason) => format!("not measured: {reason}"),
        });
        contention.map(|fact| ("contention".to_owned(), fact)).into_iter().collect()
    }

    /// What the work of the other CPUs costs the SUT's; `None` where that was not measured.
    pub(super) fn contention(&self) -> Option<Contention> {
        self.contention.as_ref()?.as_ref().ok().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_the_same_work_each_time() {
        let cpus = linkrate_sys::sched::affinity(current_thread()).unwrap();
        let cpu = cpus.iter().next().unwrap();
        let times = rounds(cpu, &AtomicBool::new(false)).unwrap();
        assert_eq!(times.len(), ROUNDS);
        let contention = Contention::of(&times).unwrap();
        assert!(contention.loop_ns > 100_000, "{contention:?}");
        // nobody works: the middle of the rounds shows it, whatever a busy machine does to some
        assert!(contention.low_ppm < 300_000 && contention.high_ppm > -300_000, "{contention:?}");
    }

    #[test]
    fn others_work_in_each_second_round() {
        let cpus = linkrate_sys::sched::affinity(current_thread()).unwrap();
        let cpu = cpus.iter().next().unwrap();
        let (end, loaded) = (AtomicBool::new(false), AtomicBool::new(false));
        let changes = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let (mut before, mut changes) = (false, 0);
                while !end.load(Ordering::Relaxed) {
                    let now = loaded.load(Ordering::Relaxed);
                    changes += usize::from(now != before);
                    before = now;
                    thread::sleep(SETTLE / 8);
                }
                changes
            });
            let measured = rounds(cpu, &loaded);
            end.store(true, Ordering::Relaxed);
            measured.unwrap();
            watcher.join().unwrap()
        });
        // a watcher that gets no CPU misses some
        assert!((ROUNDS..=2 * ROUNDS).contains(&changes), "{changes}");
        assert!(!loaded.load(Ordering::Relaxed));
    }

    #[test]
    fn the_load_uses_its_cpu_only_while_it_is_asked_to() {
        let cpus = linkrate_sys::sched::affinity(current_thread()).unwrap();
        let cpu = cpus.iter().last().unwrap();
        let (end, loaded) = (AtomicBool::new(false), AtomicBool::new(false));
        let used = |is_loaded| {
            let (end, loaded) = (&end, &loaded);
            end.store(false, Ordering::Relaxed);
            loaded.store(is_loaded, Ordering::Relaxed);
            thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    load(cpu, end, loaded);
                    thread_cpu_ns(current_thread()).unwrap()
                });
                thread::sleep(SETTLE * 50);
                end.store(true, Ordering::Relaxed);
                worker.join().unwrap()
            })
        };
        let (rests, works) = (used(false), used(true));
        assert!(works > 2 * rests, "{works} ns of CPU time, {rests} at rest");
    }

    #[test]
    fn nothing_is_measured_without_cpus_of_the_clients() {
        let cpus = linkrate_sys::sched::affinity(current_thread()).unwrap();
        let one: CpuSet = cpus.iter().take(1).collect();
        let (sut, clients, controller) = (one.clone(), one.clone(), one);
        let placement = Placement { sut, clients, controller, apart: false };
        assert_eq!(measure(&placement).unwrap(), None);
    }
}
