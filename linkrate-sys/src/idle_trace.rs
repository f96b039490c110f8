//! Idle time of each CPU by a trace, as a second opinion on the idle times of the kernel.
//!
//! The kernel adds up idle time in `tick-sched.c`, out of the paths of the tick. The trace takes it
//! from other places: `sched:sched_switch`, `power:cpu_idle`, and the entries and exits of interrupts
//! and softirqs. A CPU is idle from the switch to its idle thread until an interrupt arrives or the
//! idle state ends. It is idle again after an interrupt that has woken no thread.
//!
//! Between the end of an interrupt and the next switch or interrupt, the CPU is on its way out of
//! the idle state or back into it. The trace cannot tell the two apart, and counts these short times
//! separately ([`IdleTimes::leaving_ns`]).
//!
//! Threads may be named that count as idle threads: those of an idle counter.
//!
//! The trace is exact to the length of its own programs, some 0.1 µs at each point. It costs CPU
//! time in the paths that it watches, so it belongs into a test of meters and not into a
//! measurement.

use std::io;
use std::os::fd::OwnedFd;

use crate::bpf::per_cpu::PerCpuFields;
use crate::bpf::{
    EXIT_STATE, INTERRUPTS, Instruction, Program, ProgramType, code, end, function, step,
};
use crate::error::{SysError, SysResult};
use crate::sched::ThreadId;

/// Offsets of the fields of a CPU, bytes: since when it is idle (zero: it is not), whether an
/// interrupt has ended then, how many interrupts are on top of each other, and the sums.
const SINCE: i16 = 0;
const AFTER_INTERRUPT: i16 = 8;
const DEPTH: i16 = 16;
const IDLE_NS: i16 = 24;
const LEAVING_NS: i16 = 32;
const WAKE_UPS: i16 = 40;
const INTERRUPTS_SEEN: i16 = 48;

/// A time after an interrupt that is shorter is a way out of the idle state, or into a softirq. ns
const SHORT_NS: i32 = 5_000;

/// Idle times of one CPU since the trace began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdleTimes {
    /// Time for which it was idle, ns.
    pub idle_ns: u64,
    /// Time between the end of an interrupt and what came next, which may be idle or not, ns.
    pub leaving_ns: u64,
    /// Number of switches from an idle thread to another one.
    pub wake_ups: u64,
    /// Number of hardware interrupts of an idle thread. What the kernel does before their tracepoint
    /// counts as idle here.
    pub interrupts: u64,
}

impl IdleTimes {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            leaving_ns: self.leaving_ns.saturating_sub(earlier.leaving_ns),
            wake_ups: self.wake_ups.saturating_sub(earlier.wake_ups),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
        }
    }
}

/// Traces all CPUs, until dropped.
#[derive(Debug)]
pub struct IdleTrace {
    fields: PerCpuFields,
    _attached: Vec<OwnedFd>,
}

impl IdleTrace {
    /// Starts on all CPUs. The threads `also_idle` count as idle threads.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, `ENOENT` on a kernel without these tracepoints.
    pub fn start(also_idle: &[ThreadId]) -> SysResult<Self> {
        Self::begin(also_idle).map_err(|error| SysError::new("trace", "idle times", error))
    }

    fn begin(also_idle: &[ThreadId]) -> io::Result<Self> {
        let fields = PerCpuFields::new()?;
        let load = |body: Vec<Instruction>| Program::load(ProgramType::RawTracepoint, &body);
        let entry = |is_hardware| load(entry(&fields, also_idle, is_hardware));
        let exit = || load(exit(&fields, also_idle));
        let mut attached = vec![
            load(switch(&fields, also_idle))?.trace(c"sched_switch")?,
            load(state(&fields))?.trace(c"cpu_idle")?,
        ];
        // an exit before its entry, so that no entry is without its exit. A program does not run on
        // top of itself, and interrupts arrive in softirqs: each pair has programs of its own
        attached.push(exit()?.trace(c"softirq_exit")?);
        attached.push(entry(false)?.trace(c"softirq_entry")?);
        for (begins, ends) in INTERRUPTS {
            let Ok(end) = exit()?.trace(ends) else { continue };
            let Ok(begin) = entry(true)?.trace(begins) else { continue };
            attached.extend([end, begin]);
        }
        Ok(Self { fields, _attached: attached })
    }

    /// The times of `cpu` until now. The caller must run on `cpu`. `None` for a CPU that is not
    /// traced.
    pub fn on(&self, cpu: u32) -> Option<IdleTimes> {
        Some(IdleTimes {
            idle_ns: self.fields.read(cpu, IDLE_NS)?,
            leaving_ns: self.fields.read(cpu, LEAVING_NS)?,
            wake_ups: self.fields.read(cpu, WAKE_UPS)?,
            interrupts: self.fields.read(cpu, INTERRUPTS_SEEN)?,
        })
    }
}

/// Sets r6 to zero if the present thread is an idle one; uses r0.
fn is_idle_thread(also_idle: &[ThreadId]) -> Vec<Instruction> {
    use code::*;
    let mut body = vec![
        step(CALL, 0, 0, 0, function::GET_CURRENT_PID_TGID),
        // the lower half is the thread's number
        step(MOV_WORD, 6, 0, 0, 0),
    ];
    for thread in also_idle {
        body.push(step(JUMP_IF_NOT_EQUAL, 6, 0, 1, *thread));
        body.push(step(MOV_NUMBER, 6, 0, 0, 0));
    }
    body
}

/// Puts the clock into r0, and ends a time that has begun: adds it to the sum of its kind, and
/// stores that none runs. Uses r1 to r3.
fn close() -> Vec<Instruction> {
    use code::*;
    let sum = |field: i16| {
        [step(LOAD, 2, 7, field, 0), step(ADD, 2, 3, 0, 0), step(STORE, 7, 2, field, 0)]
    };
    let mut leaving = sum(LEAVING_NS).to_vec();
    let idle = sum(IDLE_NS);
    leaving.push(step(JUMP, 0, 0, idle.len() as i16, 0));
    let past_leaving = leaving.len() as i16;
    let mut known = vec![
        step(MOV_REGISTER, 3, 0, 0, 0),
        step(SUBTRACT, 3, 1, 0, 0),
        step(MOV_NUMBER, 1, 0, 0, 0),
        step(STORE, 7, 1, SINCE, 0),
        step(LOAD, 2, 7, AFTER_INTERRUPT, 0),
        step(JUMP_IF_EQUAL, 2, 0, 1 + past_leaving, 0),
        step(JUMP_IF_NOT_LESS, 3, 0, past_leaving, SHORT_NS),
    ];
    known.extend(leaving);
    known.extend(idle);
    let mut body = vec![
        step(CALL, 0, 0, 0, function::KTIME_GET_NS),
        step(LOAD, 1, 7, SINCE, 0),
        step(JUMP_IF_EQUAL, 1, 0, known.len() as i16, 0),
    ];
    body.extend(known);
    body
}

/// Begins a time at r0; uses r1.
fn open(after_interrupt: bool) -> [Instruction; 3] {
    use code::*;
    [
        step(STORE, 7, 0, SINCE, 0),
        step(MOV_NUMBER, 1, 0, 0, i32::from(after_interrupt)),
        step(STORE, 7, 1, AFTER_INTERRUPT, 0),
    ]
}

/// Skips `body` if r`register` is not zero.
fn if_zero(register: u8, body: Vec<Instruction>) -> Vec<Instruction> {
    let length = body.len() as i16;
    let test = step(code::JUMP_IF_NOT_EQUAL, register, 0, length, 0);
    [vec![test], body].concat()
}

/// At a switch, the idle time of the previous thread ends. That of the next one begins; if it is no
/// idle thread, the switch away from it begins another time, and this one is forgotten.
fn switch(fields: &PerCpuFields, also_idle: &[ThreadId]) -> Vec<Instruction> {
    use code::*;
    let mut ends = close();
    ends.extend(add_to(WAKE_UPS, 1));
    ends.extend([
        // no interrupt is on top of a switch: an event that was missed is made good for
        step(MOV_NUMBER, 1, 0, 0, 0),
        step(STORE, 7, 1, DEPTH, 0),
    ]);
    let mut body = is_idle_thread(also_idle);
    body.extend(fields.find());
    body.extend(if_zero(6, ends));
    body.push(step(CALL, 0, 0, 0, function::KTIME_GET_NS));
    body.extend(open(false));
    body.extend(end());
    body
}

/// At the beginning of an idle state, idle time begins unless it has; at its end it ends. The first
/// argument is the state.
fn state(fields: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut begins = vec![step(CALL, 0, 0, 0, function::KTIME_GET_NS), step(LOAD, 1, 7, SINCE, 0)];
    begins.extend(if_zero(1, open(false).to_vec()));
    let ends = close();
    begins.push(step(JUMP, 0, 0, ends.len() as i16, 0));
    let mut body = vec![step(LOAD, 6, 1, 0, 0), step(MOV_WORD, 6, 6, 0, 0)];
    body.extend(fields.find());
    // compared as a word, since the state is one
    body.push(step(MOV_WORD_NUMBER, 1, 0, 0, EXIT_STATE));
    body.push(step(SUBTRACT, 1, 6, 0, 0));
    let past_begins = begins.len() as i16;
    body.push(step(JUMP_IF_EQUAL, 1, 0, past_begins, 0));
    body.extend(begins);
    body.extend(ends);
    body.extend(end());
    body
}

/// An interrupt of an idle thread begins, and idle time ends.
fn entry(fields: &PerCpuFields, also_idle: &[ThreadId], is_hardware: bool) -> Vec<Instruction> {
    let mut happens = fields.find();
    happens.extend(add_to(DEPTH, 1));
    if is_hardware {
        happens.extend(add_to(INTERRUPTS_SEEN, 1));
    }
    happens.extend(close());
    let mut body = is_idle_thread(also_idle);
    body.extend(if_zero(6, happens));
    body.extend(end());
    body
}

/// An interrupt of an idle thread ends, and idle time begins if it is the last one.
fn exit(fields: &PerCpuFields, also_idle: &[ThreadId]) -> Vec<Instruction> {
    use code::*;
    let mut last = vec![step(CALL, 0, 0, 0, function::KTIME_GET_NS)];
    last.extend(open(true));
    let mut leaves = add_to(DEPTH, -1).to_vec();
    leaves.extend(if_zero(1, last));
    let mut happens = fields.find();
    // zero: it began before the trace
    happens.push(step(LOAD, 1, 7, DEPTH, 0));
    happens.push(step(JUMP_IF_EQUAL, 1, 0, leaves.len() as i16, 0));
    happens.extend(leaves);
    let mut body = is_idle_thread(also_idle);
    body.extend(if_zero(6, happens));
    body.extend(end());
    body
}

/// Adds to a field, whose new value is in r1 then.
fn add_to(field: i16, change: i32) -> [Instruction; 3] {
    use code::*;
    [step(LOAD, 1, 7, field, 0), step(ADD_NUMBER, 1, 0, 0, change), step(STORE, 7, 1, field, 0)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::sched;
    use crate::skip::skip;

    #[test]
    fn a_thread_that_sleeps_is_idle_and_one_that_works_is_not() {
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().last().unwrap();
        let body = move || {
            let thread = sched::current_thread();
            sched::set_affinity(thread, &[cpu].into_iter().collect()).unwrap();
            let trace = or_skip!(IdleTrace::start(&[]));
            // with this thread as an idle one, all of its time is idle too
            let also_this = IdleTrace::start(&[thread]).unwrap();
            // the clock is read outside, because this thread may have to wait between the two readings
            let begin = |trace: &IdleTrace| (monotonic_ns(), trace.on(cpu).unwrap());
            let end = |trace: &IdleTrace| {
                let times = trace.on(cpu).unwrap();
                (monotonic_ns(), times)
            };
            // a time that runs counts when it ends: that of this thread as an idle one begins behind this sleep
            let before_ns = monotonic_ns();
            std::thread::sleep(Duration::from_millis(1));
            let (began, began_also) = (begin(&trace), also_this.on(cpu).unwrap());
            for _ in 0..50 {
                let own_ns = sched::thread_cpu_ns(thread).unwrap();
                while sched::thread_cpu_ns(thread).unwrap() < own_ns + 200_000 {}
                std::thread::sleep(Duration::from_millis(1));
            }
            let (ended, ended_also) = (end(&trace), end(&also_this));
            let (interval_ns, idle) = (ended.0 - began.0, ended.1.since(began.1));
            // it worked for 10 ms
            assert!(idle.idle_ns + 10_000_000 <= interval_ns, "{idle:?} of {interval_ns}");
            let also = ended_also.1.since(began_also);
            assert!(also.idle_ns <= ended_also.0 - before_ns, "{also:?}");
            // other tests may have the CPU, so there may be nothing but work
            if idle.wake_ups < 50 || idle.idle_ns < 50 * 900_000 {
                return skip(format!("other work had the CPU, {idle:?}"));
            }
            // a part of idle time, and a small one: how long a wake-up takes is the machine's
            assert!(idle.leaving_ns < idle.idle_ns / 10, "{idle:?}");
            // interrupts take their part of the time in which it worked
            assert!(also.idle_ns > idle.idle_ns + 5_000_000, "{also:?} {idle:?}");
            assert_eq!(trace.on(1_000_000), None);
        };
        std::thread::spawn(body).join().unwrap();
    }
}
