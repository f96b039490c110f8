//! Time on the CPU: for which thread, softirq or interrupt each CPU worked, by a trace of all switches between them.
//!
//! The kernel's own clock of a thread (`CLOCK_THREAD_CPUTIME_ID`, schedstat, taskstats, cgroups) is wrong for threads that
//! are woken from another CPU. The waker brings the clock of the run queue up to date and asks for a switch
//! (`wakeup_preempt`, `rq_clock_skip_update`, kernel/sched/core.c), and the switch takes that old clock. So a thread is
//! charged from its wake-up on, and the one that ran until the switch is charged too little: tens of microseconds for
//! each wake-up where kernel code is not preempted (Linux 6.18). The trace takes times of its own at the switches.
//!
//! eBPF programs are at `sched:sched_switch` and at the entries and exits of softirqs and of hardware interrupts. Each
//! adds the time since the last event of its CPU to what ran until then. So all times of a CPU together are the time
//! that has passed, by construction. Interrupts without a tracepoint, and what the kernel does before it reaches one, count
//! as the thread that they interrupt. Time that a hypervisor takes counts as what it interrupted.
//!
//! The idle thread does something too: it leaves the idle state and its loop until the switch to what it was woken for. That is no
//! idle time of the kernel (`tick_nohz_idle_exit`, and no new one behind an interrupt that has woken a thread), and a time
//! of its own here, from the end of the state by `power:cpu_idle`. The way into the state is idle time, as for the kernel
//! (`tick_nohz_idle_enter`), and so is a loop that ends in the next state.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use crate::bpf::per_cpu::PerCpuFields;
use crate::bpf::per_cpu_hash::PerCpuHash;
use crate::bpf::{
    EXIT_STATE, INTERRUPTS, Instruction, Program, ProgramType, code, end, function, step,
};
use crate::clock::monotonic_ns;
use crate::error::{SysError, SysResult};
use crate::sched;

/// Offsets of the fields of a CPU, bytes. The last event; what runs, as the number of a sum; what a hardware interrupt
/// has interrupted; the sums, of which the first is the present thread's time since its switch, and the one of the idle loop is
/// the time since the end of an idle state; the times of the idle thread, of threads without a place in the map and of
/// the idle loop; what runs below softirqs; and when an idle state began that nothing has interrupted since.
const SINCE: i16 = 0;
const RUNS: i16 = 8;
const INTERRUPTED: i16 = 16;
const SUMS: i16 = 24;
const IDLE_NS: i16 = SUMS + 8 * 16;
const LOST_NS: i16 = IDLE_NS + 8;
const IDLE_LOOP_NS: i16 = LOST_NS + 8;
const BELOW: i16 = IDLE_LOOP_NS + 8;
const STATE_SINCE: i16 = BELOW + 8;

/// The number of the sum of threads, and of those of the idle loop and of hardware interrupts. Between them are softirqs by
/// their vector.
const THREAD: i32 = 0;
const IDLE_LOOP: i32 = 14;
const INTERRUPT: i32 = 15;

/// Between an interrupt and the end of the idle state, a time that is shorter is the way out of a state that the interrupt
/// has ended; a longer one is of a CPU that polls, ns.
const SHORT_NS: i32 = 5_000;

/// Softirqs that Linux has (include/linux/interrupt.h).
pub const SOFTIRQS: usize = 10;

/// Threads that the map has room for. The time of others is [lost](OnCpu::lost_ns), and told.
const MAX_THREADS: u32 = 8192;

/// The inode of the first PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Words of a value of the map: the time, and the name.
const WORDS: usize = 3;

/// A thread and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadOnCpu {
    /// Its process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// Its name when it first left this CPU, at most 15 bytes: that of the program that started it if that was before exec.
    pub name: String,
    /// Its time, without that of interrupts on top of it, ns.
    pub ns: u64,
}

/// What one CPU worked for since the trace began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnCpu {
    /// When it was read, CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// The idle thread, without interrupts on top of it and its loop, ns.
    pub idle_ns: u64,
    /// The idle thread from the end of an idle state to the switch to another thread, without interrupts, ns.
    pub idle_loop_ns: u64,
    /// Hardware interrupts, ns.
    pub interrupt_ns: u64,
    /// Softirqs by their vector, except those in a thread of their own (ksoftirqd), ns.
    pub softirq_ns: [u64; SOFTIRQS],
    /// Threads that found no place to be counted, ns.
    pub lost_ns: u64,
    /// By process and thread.
    threads: HashMap<(u32, u32), (u64, [u8; 16])>,
}

impl OnCpu {
    /// What it worked for since `earlier`. Threads without any time are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Worked {
        let threads = self.threads.iter().filter_map(|(id, (ns, name))| {
            let before_ns = earlier.threads.get(id).map_or(0, |(ns, _)| *ns);
            let ns = ns.saturating_sub(before_ns);
            let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            let name = String::from_utf8_lossy(&name[..length]).into_owned();
            (ns > 0).then_some(ThreadOnCpu { process: id.0, thread: id.1, name, ns })
        });
        Worked {
            interval_ns: self.at_ns.saturating_sub(earlier.at_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            idle_loop_ns: self.idle_loop_ns.saturating_sub(earlier.idle_loop_ns),
            interrupt_ns: self.interrupt_ns.saturating_sub(earlier.interrupt_ns),
            softirq_ns: std::array::from_fn(|vector| {
                self.softirq_ns[vector].saturating_sub(earlier.softirq_ns[vector])
            }),
            lost_ns: self.lost_ns.saturating_sub(earlier.lost_ns),
            threads: threads.collect(),
        }
    }
}

/// What one CPU worked for between two readings, ns. Everything together is the time between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Worked {
    /// The time between the readings.
    pub interval_ns: u64,
    /// The idle thread.
    pub idle_ns: u64,
    /// Its loop.
    pub idle_loop_ns: u64,
    /// Hardware interrupts.
    pub interrupt_ns: u64,
    /// Softirqs by their vector.
    pub softirq_ns: [u64; SOFTIRQS],
    /// Threads without a place.
    pub lost_ns: u64,
    /// All other threads.
    pub threads: Vec<ThreadOnCpu>,
}

/// Traces all CPUs, until dropped.
#[derive(Debug)]
pub struct OnCpuTrace {
    fields: PerCpuFields,
    threads: PerCpuHash<WORDS>,
    _attached: Vec<OwnedFd>,
}

impl OnCpuTrace {
    /// Starts on all CPUs.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, `ENOENT` on a kernel without these tracepoints. `EXDEV` in a PID namespace of a
    /// container, where threads have other numbers than the trace sees.
    pub fn start() -> SysResult<Self> {
        Self::begin().map_err(|error| SysError::new("trace", "time on the CPU", error))
    }

    fn begin() -> io::Result<Self> {
        if std::fs::metadata("/proc/self/ns/pid")?.ino() != FIRST_PID_NAMESPACE {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let fields = PerCpuFields::new()?;
        let threads = PerCpuHash::new(MAX_THREADS)?;
        // a program does not run on top of itself, and interrupts arrive in softirqs: each point has one of its own
        let at = |name: &CStr, body: Vec<Instruction>| {
            Program::load(ProgramType::RawTracepoint, &body)?.trace(name)
        };
        // an exit before its entry, so that no entry is without its exit; the switch, which ends the idle loop, is first
        let mut attached = vec![
            at(c"sched_switch", switch(&fields, &threads))?,
            at(c"cpu_idle", idle_state(&fields))?,
            at(c"softirq_exit", softirq_exit(&fields))?,
            at(c"softirq_entry", softirq_entry(&fields))?,
        ];
        for (begins, ends) in INTERRUPTS {
            let Ok(end) = at(ends, interrupt_exit(&fields)) else { continue };
            let Ok(begin) = at(begins, interrupt_entry(&fields)) else { continue };
            attached.extend([end, begin]);
        }
        let trace = Self { fields, threads, _attached: attached };
        // before Linux 5.6 the map cannot be read
        trace.forget()?;
        Ok(trace)
    }

    /// Makes room: forgets the threads and their times so far.
    pub fn forget(&self) -> io::Result<()> {
        self.threads.clear()
    }

    fn field(&self, cpu: u32, offset: i16) -> io::Result<u64> {
        self.fields.read(cpu, offset).ok_or(io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// For how long `cpu` was not idle until `at_ns` (CLOCK_MONOTONIC), ns, since an arbitrary moment. The caller must run
    /// on `cpu`. `None` for a CPU that is not traced.
    pub fn cpu_awake_ns(&self, cpu: u32, at_ns: u64) -> Option<u64> {
        at_ns.checked_sub(self.fields.read(cpu, IDLE_NS)?)
    }

    /// The time of the calling thread on all CPUs, ns, since it began or the last [`forget`](Self::forget).
    pub fn of_caller(&self) -> io::Result<u64> {
        let (process, thread) = caller();
        let key = u64::from(process) << 32 | u64::from(thread);
        loop {
            let cpu = rustix::thread::sched_getcpu();
            let (before_ns, since_ns, _) = self.present(cpu as u32, || self.threads.sum_of(key))?;
            if rustix::thread::sched_getcpu() == cpu {
                return Ok(before_ns + since_ns);
            }
        }
    }

    /// What `read` returns, the time since its last switch of the thread that runs on `cpu`, ns, and when that was.
    fn present<T>(&self, cpu: u32, read: impl Fn() -> io::Result<T>) -> io::Result<(T, u64, u64)> {
        let field = |offset| self.field(cpu, offset);
        loop {
            let since_ns = field(SINCE)?;
            let own_ns = field(SUMS + 8 * THREAD as i16)?;
            let read = read()?;
            let at_ns = monotonic_ns();
            // nothing has interrupted that
            if field(SINCE)? == since_ns {
                return Ok((read, own_ns + at_ns.saturating_sub(since_ns), at_ns));
            }
        }
    }

    /// The times of `cpu` until now. The caller must run on it.
    ///
    /// # Errors
    /// As bpf(2), and `ENOENT` for a CPU that is not traced.
    pub fn on(&self, cpu: u32) -> io::Result<OnCpu> {
        let field = |offset| self.field(cpu, offset);
        let sum = |number: i32| field(SUMS + 8 * number as i16);
        let (_, own_since_ns, at_ns) = self.present(cpu, || Ok(()))?;
        let mut softirq_ns = [0; SOFTIRQS];
        for (number, ns) in (1..).zip(&mut softirq_ns) {
            *ns = sum(number)?;
        }
        let of_thread = |(key, value): (u64, [u64; WORDS])| {
            let [ns, name @ ..] = value;
            let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let name = std::array::from_fn(|byte| bytes[byte]);
            (((key >> 32) as u32, key as u32), (ns, name))
        };
        let mut threads: HashMap<_, _> =
            self.threads.of_cpu(cpu)?.into_iter().map(of_thread).collect();
        threads.entry(caller()).or_default().0 += own_since_ns;
        Ok(OnCpu {
            at_ns,
            idle_ns: field(IDLE_NS)?,
            idle_loop_ns: field(IDLE_LOOP_NS)?,
            interrupt_ns: sum(INTERRUPT)?,
            softirq_ns,
            lost_ns: field(LOST_NS)?,
            threads,
        })
    }
}

/// Process and number of the calling thread.
fn caller() -> (u32, u32) {
    (std::process::id(), sched::current_thread() as u32)
}

/// Adds the time since the last event to the sum of what runs. Then the fields of the CPU are at r7, the time of that event in
/// r1, the time since in r3, and the present time in r8. Uses r0 to r4.
fn charge(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = fields.find();
    body.extend([
        step(CALL, 0, 0, 0, function::KTIME_GET_NS),
        step(MOV_REGISTER, 8, 0, 0, 0),
        step(LOAD, 1, 7, SINCE, 0),
        // an interrupt from here on finds its own time only
        step(STORE, 7, 8, SINCE, 0),
        step(MOV_NUMBER, 3, 0, 0, 0),
        // zero: the first event
        step(JUMP_IF_EQUAL, 1, 0, 9, 0),
        step(MOV_REGISTER, 3, 8, 0, 0),
        step(SUBTRACT, 3, 1, 0, 0),
        step(LOAD, 2, 7, RUNS, 0),
        // numbers are always below; the mask proves it to the verifier
        step(AND_NUMBER, 2, 0, 0, 15),
        step(SHIFT_LEFT, 2, 0, 0, 3),
        step(ADD, 2, 7, 0, 0),
        step(LOAD, 4, 2, SUMS, 0),
        step(ADD, 4, 3, 0, 0),
        step(STORE, 2, 4, SUMS, 0),
    ]);
    body
}

/// From now on that runs; uses r1.
fn runs(number: i32) -> [Instruction; 2] {
    use code::*;
    [step(MOV_NUMBER, 1, 0, 0, number), step(STORE, 7, 1, RUNS, 0)]
}

/// At a switch, the time of the thread that ran goes to its entry in the map, or to that of the idle thread.
fn switch(fields: &PerCpuFields, threads: &PerCpuHash<WORDS>) -> Vec<Instruction> {
    use code::*;
    // r6: process and thread, r9: its time. On the stack: the key, and below it a new value
    const KEY: i16 = -8;
    const VALUE: i16 = KEY - 8 * WORDS as i16;
    let add = |field: i16| {
        [step(LOAD, 1, 7, field, 0), step(ADD, 1, 9, 0, 0), step(STORE, 7, 1, field, 0)]
    };
    let stop = end();

    let mut idle = add(IDLE_NS).to_vec();
    idle.push(step(LOAD, 9, 7, SUMS + 8 * IDLE_LOOP as i16, 0));
    idle.extend(add(IDLE_LOOP_NS));
    idle.extend([
        step(MOV_NUMBER, 1, 0, 0, 0),
        step(STORE, 7, 1, SUMS + 8 * IDLE_LOOP as i16, 0),
        step(STORE, 7, 1, BELOW, 0),
    ]);
    idle.extend(stop);

    let mut known = vec![step(LOAD, 1, 0, 0, 0), step(ADD, 1, 9, 0, 0), step(STORE, 0, 1, 0, 0)];
    known.extend(stop);

    let mut unknown = vec![
        step(STORE, 10, 9, VALUE, 0),
        step(MOV_REGISTER, 1, 10, 0, 0),
        step(ADD_NUMBER, 1, 0, 0, i32::from(VALUE) + 8),
        step(MOV_NUMBER, 2, 0, 0, 16),
        step(CALL, 0, 0, 0, function::GET_CURRENT_COMM),
    ];
    unknown.extend(threads.load(1));
    unknown.extend([
        step(MOV_REGISTER, 2, 10, 0, 0),
        step(ADD_NUMBER, 2, 0, 0, i32::from(KEY)),
        step(MOV_REGISTER, 3, 10, 0, 0),
        step(ADD_NUMBER, 3, 0, 0, i32::from(VALUE)),
        step(MOV_NUMBER, 4, 0, 0, 0),
        step(CALL, 0, 0, 0, function::MAP_UPDATE_ELEM),
    ]);
    let lost = add(LOST_NS);
    unknown.push(step(JUMP_IF_EQUAL, 0, 0, lost.len() as i16, 0));
    unknown.extend(lost);
    unknown.extend(stop);

    let mut body =
        vec![step(CALL, 0, 0, 0, function::GET_CURRENT_PID_TGID), step(MOV_REGISTER, 6, 0, 0, 0)];
    body.extend(charge(fields));
    body.extend([
        step(LOAD, 9, 7, SUMS, 0),
        step(MOV_NUMBER, 1, 0, 0, 0),
        step(STORE, 7, 1, SUMS, 0),
        // no interrupt is on top of a switch: an event that was missed is made good for
        step(STORE, 7, 1, RUNS, 0),
        step(JUMP_IF_NOT_EQUAL, 6, 0, idle.len() as i16, 0),
    ]);
    body.extend(idle);
    body.push(step(STORE, 10, 6, KEY, 0));
    body.extend(threads.load(1));
    body.extend([
        step(MOV_REGISTER, 2, 10, 0, 0),
        step(ADD_NUMBER, 2, 0, 0, i32::from(KEY)),
        step(CALL, 0, 0, 0, function::MAP_LOOKUP_ELEM),
        step(JUMP_IF_EQUAL, 0, 0, known.len() as i16, 0),
    ]);
    body.extend(known);
    body.extend(unknown);
    body
}

/// The first argument of the tracepoint is the state. At its end the loop begins; if it comes to the next state and not
/// to a switch, its time was idle time.
fn idle_state(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    const LOOP_SUM: i16 = SUMS + 8 * IDLE_LOOP as i16;
    let moves = |from: i16, to: i16| {
        // the time in r3
        [
            step(LOAD, 1, 7, from, 0),
            step(SUBTRACT, 1, 3, 0, 0),
            step(STORE, 7, 1, from, 0),
            step(LOAD, 1, 7, to, 0),
            step(ADD, 1, 3, 0, 0),
            step(STORE, 7, 1, to, 0),
        ]
    };
    // from now on that runs, also below softirqs
    let runs = |number: i32| {
        let [number, store] = runs(number);
        [number, store, step(STORE, 7, 1, BELOW, 0)]
    };

    let mut begins = vec![step(STORE, 7, 8, STATE_SINCE, 0), step(LOAD, 3, 7, LOOP_SUM, 0)];
    begins.extend(moves(LOOP_SUM, SUMS));
    begins.extend(runs(THREAD));
    begins.extend(end());

    // the way out behind the interrupt that ended the state
    let way_out = moves(SUMS, LOOP_SUM);
    let past = way_out.len() as i16;
    let mut ends = vec![
        step(LOAD, 2, 7, STATE_SINCE, 0),
        step(SUBTRACT, 1, 2, 0, 0),
        step(JUMP_IF_EQUAL, 1, 0, past + 3, 0),
        step(JUMP_IF_NOT_LESS, 3, 0, past + 2, SHORT_NS),
        // it is in another sum where an event was missed
        step(LOAD, 2, 7, RUNS, 0),
        step(JUMP_IF_NOT_EQUAL, 2, 0, past, THREAD),
    ];
    ends.extend(way_out);
    ends.extend(runs(IDLE_LOOP));
    ends.extend(end());

    let mut body = vec![step(LOAD, 6, 1, 0, 0)];
    body.extend(charge(fields));
    body.extend([
        // compared as a word, since the state is one
        step(MOV_WORD_NUMBER, 2, 0, 0, EXIT_STATE),
        step(MOV_WORD, 6, 6, 0, 0),
        step(SUBTRACT, 2, 6, 0, 0),
        step(JUMP_IF_EQUAL, 2, 0, begins.len() as i16, 0),
    ]);
    body.extend(begins);
    body.extend(ends);
    body
}

/// The first argument of the tracepoint is the vector.
fn softirq_entry(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = vec![step(LOAD, 6, 1, 0, 0), step(MOV_WORD, 6, 6, 0, 0)];
    body.extend(charge(fields));
    body.extend([step(ADD_NUMBER, 6, 0, 0, 1), step(STORE, 7, 6, RUNS, 0)]);
    body.extend(end());
    body
}

fn softirq_exit(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = charge(fields);
    body.extend([step(LOAD, 1, 7, BELOW, 0), step(STORE, 7, 1, RUNS, 0)]);
    body.extend(end());
    body
}

fn interrupt_entry(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = charge(fields);
    let keep = step(STORE, 7, 2, INTERRUPTED, 0);
    body.extend([
        step(LOAD, 2, 7, RUNS, 0),
        // one on top of another
        step(JUMP_IF_EQUAL, 2, 0, 1, INTERRUPT),
        keep,
    ]);
    body.extend(runs(INTERRUPT));
    body.extend(end());
    body
}

fn interrupt_exit(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = charge(fields);
    body.extend([step(LOAD, 1, 7, INTERRUPTED, 0), step(STORE, 7, 1, RUNS, 0)]);
    body.extend(end());
    body
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::skip::skip;
    use crate::{procstat, softirq_spin};

    fn spin(ns: u64) {
        let until_ns = monotonic_ns() + ns;
        while monotonic_ns() < until_ns {
            std::hint::spin_loop();
        }
    }

    fn last_cpu() -> u32 {
        sched::affinity(sched::current_thread()).unwrap().iter().last().unwrap()
    }

    /// Runs `body` on `cpu` with a trace; says so if there is none.
    fn traced(cpu: u32, body: impl FnOnce(&OnCpuTrace) + Send + 'static) {
        let trace = or_skip!(OnCpuTrace::start());
        let there = std::thread::spawn(move || {
            sched::set_affinity(sched::current_thread(), &[cpu].into_iter().collect()).unwrap();
            body(&trace);
        });
        there.join().unwrap();
    }

    fn sum(worked: &Worked) -> u64 {
        worked.idle_ns
            + worked.idle_loop_ns
            + worked.interrupt_ns
            + worked.softirq_ns.iter().sum::<u64>()
            + worked.lost_ns
            + worked.threads.iter().map(|thread| thread.ns).sum::<u64>()
    }

    #[test]
    fn all_times_together_are_the_time_that_passed() {
        let cpu = last_cpu();
        traced(cpu, move |trace| {
            let once = || {
                let opened = trace.on(cpu).unwrap();
                for _ in 0..40 {
                    spin(2_000_000);
                    std::thread::sleep(Duration::from_millis(3));
                }
                let worked = trace.on(cpu).unwrap().since(&opened);
                let off = sum(&worked) as f64 / worked.interval_ns as f64 - 1.0;
                (off.abs(), worked)
            };
            // a reader that loses its CPU between its clock and the sums has read those of two times
            let tries = (0..5).map(|_| once());
            let (off, worked) =
                tries.reduce(|best, next| if next.0 < best.0 { next } else { best }).unwrap();
            assert!(off < 0.002, "{off}: {worked:?}");
            let own = |thread: &&ThreadOnCpu| thread.thread == sched::current_thread() as u32;
            let own = worked.threads.iter().find(own).expect("this thread");
            assert_eq!(own.process, std::process::id());
            // what others took of its 2 ms is not in its time
            assert!(own.ns <= worked.interval_ns && own.ns > 1_000_000, "{worked:?}");
            assert_eq!(worked.lost_ns, 0);
            assert_eq!(trace.on(1_000_000).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        });
    }

    #[test]
    fn a_softirq_is_no_time_of_the_thread_below_it() {
        let cpu = last_cpu();
        let trace = or_skip!(OnCpuTrace::start());
        softirq_spin::sending_on(cpu, move |send, spun_by| {
            let once = || {
                let opened = trace.on(cpu).unwrap();
                let before = spun_by.spun().unwrap();
                (0..5).for_each(|_| send());
                let worked = trace.on(cpu).unwrap().since(&opened);
                let spun = spun_by.spun().unwrap();
                // NET_RX_SOFTIRQ; what interrupts it while it spins is time of interrupts
                let network_ns = worked.softirq_ns[3] + worked.interrupt_ns;
                let own = |thread: &&ThreadOnCpu| thread.thread == sched::current_thread() as u32;
                let own_ns = worked.threads.iter().find(own).map_or(0, |thread| thread.ns);
                let fits = own_ns + network_ns <= worked.interval_ns;
                let all_arrived = spun.datagrams - before.datagrams == 5;
                let all_seen = network_ns >= spun.ns - before.ns;
                (all_arrived, fits && all_seen, format!("{worked:?} {spun:?}"))
            };
            // a reader that loses its CPU between its clock and the sums has read those of two times
            let tries: Vec<_> = (0..5).map(|_| once()).collect();
            // receive processing may be steered to another CPU
            if tries.iter().all(|(all_arrived, ..)| !all_arrived) {
                return skip(format!("{tries:?}"));
            }
            assert!(tries.iter().any(|(arrived, right, _)| *arrived && *right), "{tries:?}");
        });
    }

    /// The kernel's idle time, which no part contains, is a second opinion.
    #[test]
    fn a_cpu_that_wakes_up_often_was_busy_for_its_parts() {
        const WAKE_UPS: u64 = 3000;
        if !procstat::timer_list_is_readable() {
            return skip("/proc/timer_list cannot be read");
        }
        let cpu = last_cpu();
        traced(cpu, move |trace| {
            sched::set_timer_slack_ns(1).unwrap();
            let read = || (procstat::read_precise(cpu).unwrap(), trace.on(cpu).unwrap());
            let once = || {
                let (times, opened) = read();
                (0..WAKE_UPS).for_each(|_| std::thread::sleep(Duration::from_micros(50)));
                let (closed_times, closed) = read();
                let worked = closed.since(&opened);
                let idle_ns = closed_times.idle_ns - times.idle_ns;
                // in either sign
                let off = worked.idle_ns.abs_diff(idle_ns) as f64 / worked.interval_ns as f64;
                let calm =
                    closed_times.steal_ns == times.steal_ns && idle_ns > worked.interval_ns / 5;
                (calm, off, worked)
            };
            let calm: Vec<_> = (0..5).map(|_| once()).filter(|(calm, ..)| *calm).collect();
            if calm.is_empty() {
                return skip("other work had the CPU");
            }
            // others' work lets it be idle less often
            let is_right = |(_, off, worked): &(bool, f64, Worked)| {
                let each_ns = worked.idle_loop_ns / WAKE_UPS;
                *off < 0.05 && (100..20_000).contains(&each_ns)
            };
            assert!(calm.iter().any(is_right), "{calm:?}");
        });
    }

    #[test]
    fn a_process_that_lives_for_a_millisecond_is_seen() {
        let cpu = last_cpu();
        traced(cpu, move |trace| {
            let opened = trace.on(cpu).unwrap();
            for _ in 0..5 {
                let mut child = std::process::Command::new("true").spawn().unwrap();
                let process = child.id();
                assert!(child.wait().unwrap().success());
                let worked = trace.on(cpu).unwrap().since(&opened);
                let its = worked.threads.iter().find(|one| one.process == process);
                assert!(its.is_some_and(|its| its.ns > 10_000), "{process}: {worked:?}");
            }
        });
    }

    #[test]
    fn a_thread_reads_its_own_time_without_its_sleeps() {
        traced(last_cpu(), move |trace| {
            let begun_ns = monotonic_ns();
            let own_ns = trace.of_caller().unwrap();
            for _ in 0..10 {
                spin(1_000_000);
                std::thread::sleep(Duration::from_millis(2));
            }
            let own_ns = trace.of_caller().unwrap() - own_ns;
            let passed_ns = monotonic_ns() - begun_ns;
            // what others took of its 10 ms is not in its time
            assert!(own_ns > 1_000_000 && own_ns < passed_ns - 20_000_000, "{own_ns} {passed_ns}");
        });
    }

    /// The fault of the kernel's clock: a thread that another CPU wakes, while this CPU is in the kernel.
    #[test]
    fn a_thread_is_not_charged_for_its_wait_for_the_cpu() {
        let cpus: Vec<u32> =
            sched::affinity(sched::current_thread()).unwrap().iter().take(2).collect();
        let [cpu, other] = cpus[..] else {
            return skip("one CPU");
        };
        traced(cpu, move |trace| {
            let done = Arc::new(AtomicBool::new(false));
            let (mut rings, mut waits) = UnixStream::pair().unwrap();
            let on = |cpu: u32| {
                sched::set_affinity(sched::current_thread(), &[cpu].into_iter().collect()).unwrap();
            };
            let until = done.clone();
            let waker = std::thread::spawn(move || {
                on(other);
                while !until.load(Ordering::Relaxed) {
                    rings.write_all(&[1]).unwrap();
                    spin(150_000);
                }
            });
            // it does nothing but wait, and is ended by the end of the waker
            let woken = std::thread::spawn(move || {
                on(cpu);
                let _ = sched::become_napi();
                while waits.read(&mut [0]).unwrap() > 0 {}
                sched::current_thread() as u32
            });
            // long calls, in which kernel code is not preempted
            let mut zeroes = std::fs::File::open("/dev/zero").unwrap();
            let mut memory = vec![0; 1 << 20];
            let opened = trace.on(cpu).unwrap();
            let end_ns = monotonic_ns() + 300_000_000;
            while monotonic_ns() < end_ns {
                zeroes.read_exact(&mut memory).unwrap();
            }
            let worked = trace.on(cpu).unwrap().since(&opened);
            done.store(true, Ordering::Relaxed);
            waker.join().unwrap();
            let woken = woken.join().unwrap();
            let ns = worked.threads.iter().find(|one| one.thread == woken).map_or(0, |one| one.ns);
            // 2,000 turns of some microseconds; by its wake-ups it would be above 64 ms
            assert!(ns < 60_000_000, "{ns}: {worked:?}");
        });
    }
}
