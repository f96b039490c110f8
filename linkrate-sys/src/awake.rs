//! Time for which each CPU was awake: the time of all threads except the idle thread, and of
//! softirqs that interrupted the idle thread.
//!
//! The idle time of the kernel is wrong for these softirqs. If a hardware interrupt arrives during
//! such a softirq, the kernel starts idle time at the end of the interrupt (`tick_irq_exit`,
//! kernel/softirq.c, checks for the idle thread and for hardware interrupts only; Linux 6.18). If
//! the softirq then wakes a thread, the rest of the softirq stays counted as idle time.
//!
//! Three eBPF programs at tracepoints (`sched:sched_switch`, `irq:softirq_entry` and `_exit`) add
//! up the time in memory that this process maps. The sum leaves out hardware interrupts of an idle
//! CPU, so the CPU was awake for slightly longer.

use std::io;
use std::os::fd::OwnedFd;

use crate::bpf::per_cpu::{PerCpuFields, add_since};
use crate::bpf::{Instruction, Program, ProgramType, code, end, function, step};
use crate::error::{SysError, SysResult};

/// Offsets of the fields of a CPU, bytes: start of the present thread, start of the present
/// softirq, and the sum.
const THREAD_SINCE: i16 = 0;
const SOFTIRQ_SINCE: i16 = 8;
const AWAKE_NS: i16 = 16;

/// Adds up awake time on all CPUs, until dropped.
#[derive(Debug)]
pub struct AwakeTimes {
    lines: PerCpuFields,
    _attached: Vec<OwnedFd>,
}

impl AwakeTimes {
    /// Starts on all CPUs.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, `ENOENT` on a kernel without these tracepoints.
    pub fn start() -> SysResult<Self> {
        Self::begin().map_err(|error| SysError::new("trace", "threads and softirqs", error))
    }

    fn begin() -> io::Result<Self> {
        let lines = PerCpuFields::new()?;
        let load = |body: Vec<Instruction>| Program::load(ProgramType::RawTracepoint, &body);
        let attached = vec![
            load(switch(&lines))?.trace(c"sched_switch")?,
            load(softirq_exit(&lines))?.trace(c"softirq_exit")?,
            load(softirq_entry(&lines))?.trace(c"softirq_entry")?,
        ];
        Ok(Self { lines, _attached: attached })
    }

    /// Time for which `cpu` was awake until `at_ns` (CLOCK_MONOTONIC), ns. The caller must have run
    /// on `cpu` since then; otherwise, and for a CPU that is not traced, the result is `None`.
    pub fn on(&self, cpu: u32, at_ns: u64) -> Option<u64> {
        let since_ns = self.lines.read(cpu, THREAD_SINCE)?;
        let awake_ns = self.lines.read(cpu, AWAKE_NS)?;
        let is_same = self.lines.read(cpu, THREAD_SINCE)? == since_ns;
        (since_ns != 0 && is_same).then(|| Some(awake_ns + at_ns.checked_sub(since_ns)?))?
    }
}

/// At a switch: adds the time of the previous thread, unless it is the idle thread.
fn switch(lines: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let add = add_since(THREAD_SINCE, AWAKE_NS);
    let mut body =
        vec![step(CALL, 0, 0, 0, function::GET_CURRENT_PID_TGID), step(MOV_REGISTER, 6, 0, 0, 0)];
    body.extend(lines.find());
    body.push(step(CALL, 0, 0, 0, function::KTIME_GET_NS));
    body.push(step(JUMP_IF_EQUAL, 6, 0, add.len() as i16, 0));
    body.extend(add);
    body.push(step(STORE, 7, 0, THREAD_SINCE, 0));
    body.extend(end());
    body
}

/// Skips `body` unless the idle thread is interrupted.
fn if_idle(body: Vec<Instruction>) -> Vec<Instruction> {
    use code::*;
    let mut all = vec![
        step(CALL, 0, 0, 0, function::GET_CURRENT_PID_TGID),
        step(JUMP_IF_NOT_EQUAL, 0, 0, body.len() as i16, 0),
    ];
    all.extend(body);
    all.extend(end());
    all
}

fn softirq_entry(lines: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = lines.find();
    body.push(step(CALL, 0, 0, 0, function::KTIME_GET_NS));
    body.push(step(STORE, 7, 0, SOFTIRQ_SINCE, 0));
    if_idle(body)
}

fn softirq_exit(lines: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = lines.find();
    body.push(step(CALL, 0, 0, 0, function::KTIME_GET_NS));
    body.extend(add_since(SOFTIRQ_SINCE, AWAKE_NS));
    body.push(step(MOV_NUMBER, 1, 0, 0, 0));
    body.push(step(STORE, 7, 1, SOFTIRQ_SINCE, 0));
    if_idle(body)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::{sched, softirq_spin};

    #[test]
    fn threads_and_softirqs_are_added_up() {
        let test = "threads_and_softirqs_are_added_up";
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().last().unwrap();
        let awake = match AwakeTimes::start() {
            Ok(awake) => awake,
            Err(error) => return println!("SKIPPED {test}: {error}"),
        };
        softirq_spin::sending_on(cpu, move |send, spin| {
            let read = || loop {
                let at_ns = monotonic_ns();
                if let Some(awake_ns) = awake.on(cpu, at_ns) {
                    return (at_ns, awake_ns);
                }
            };
            // sleeping adds only the softirqs; working adds all of its time
            let (before, spun_before) = (read(), spin.spun().unwrap());
            for _ in 0..5 {
                send();
                std::thread::sleep(Duration::from_millis(10));
            }
            let (after, spun) = (read(), spin.spun().unwrap());
            let datagrams = spun.datagrams - spun_before.datagrams;
            let (window_ns, awake_ns) = (after.0 - before.0, after.1 - before.1);
            // receive processing may be steered to another CPU
            let least_ns = if datagrams == 5 { spun.ns - spun_before.ns } else { 0 };
            assert!((least_ns..=window_ns).contains(&awake_ns), "{awake_ns} of {window_ns}");
            let began = read();
            let own_ns = sched::thread_cpu_ns(sched::current_thread()).unwrap();
            while sched::thread_cpu_ns(sched::current_thread()).unwrap() < own_ns + 5_000_000 {}
            // the two clocks may differ slightly
            let awake_ns = read().1 - began.1;
            assert!(awake_ns >= 4_990_000, "{awake_ns}");
        });
        assert_eq!(awake_of_none(), None);
    }

    fn awake_of_none() -> Option<u64> {
        AwakeTimes::start().ok()?.on(1_000_000, monotonic_ns())
    }
}
