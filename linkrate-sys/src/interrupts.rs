//! Interrupts of each CPU: the time and number of softirqs, and the number of hardware interrupts.
//! The kernel itself accounts softirqs in ticks at best.
//!
//! eBPF programs at tracepoints (`irq:softirq_entry` and `_exit`, `irq:irq_handler_entry`, and the
//! inter-processor interrupts of `irq_vectors`) write into memory that this process maps, so
//! reading costs no system call. The timer interrupt and the softirqs of the tick are not counted,
//! since a CPU ticks because a thread observes it. When the last interrupt began is known of each.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use crate::bpf::per_cpu::{PerCpuFields, add_since};
use crate::bpf::{Instruction, Program, ProgramType, code, end, function, step};
use crate::error::{SysError, SysResult};

/// Offsets of the fields of a CPU, bytes.
const SINCE: i16 = 0;
const SOFTIRQ_NS: i16 = 8;
const SOFTIRQS: i16 = 16;
const INTERRUPTS: i16 = 24;
const BEGAN_NS: i16 = 32;

/// Softirqs of the tick: TIMER, SCHED, HRTIMER and RCU (include/linux/interrupt.h).
const OF_THE_TICK: [i32; 4] = [1, 7, 8, 9];

/// Tracepoints of hardware interrupts, where the kernel has them; x86 has separate ones for
/// interrupts between processors.
const INTERRUPT_POINTS: [&CStr; 4] = [
    c"irq_handler_entry",
    c"reschedule_entry",
    c"call_function_entry",
    c"call_function_single_entry",
];

/// The tracepoint of the timer interrupt, where the kernel has it separately.
const TIMER_POINT: &CStr = c"local_timer_entry";

/// Interrupts on one CPU since counting began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Time in softirqs that have ended, ns.
    pub softirq_ns: u64,
    /// Softirqs.
    pub softirqs: u64,
    /// Hardware interrupts.
    pub hardware: u64,
}

impl Interrupts {
    /// The difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            softirq_ns: self.softirq_ns.saturating_sub(earlier.softirq_ns),
            softirqs: self.softirqs.saturating_sub(earlier.softirqs),
            hardware: self.hardware.saturating_sub(earlier.hardware),
        }
    }

    /// Whether there were none.
    pub fn is_none(self) -> bool {
        self.softirqs == 0 && self.hardware == 0
    }
}

/// Counts on all CPUs, until dropped.
#[derive(Debug)]
pub struct InterruptCounts {
    lines: PerCpuFields,
    _attached: Vec<OwnedFd>,
}

impl InterruptCounts {
    /// Starts counting on all CPUs.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, `ENOENT` on a kernel without these tracepoints.
    pub fn start() -> SysResult<Self> {
        Self::begin().map_err(|error| SysError::new("trace", "interrupts", error))
    }

    fn begin() -> io::Result<Self> {
        let lines = PerCpuFields::new()?;
        let load = |body: Vec<Instruction>| Program::load(ProgramType::RawTracepoint, &body);
        let mut attached = Vec::new();
        // exit before entry, so that no entry is without its exit
        attached.push(load(softirq_exit(&lines))?.trace(c"softirq_exit")?);
        attached.push(load(softirq_entry(&lines))?.trace(c"softirq_entry")?);
        let interrupt = load(hardware(&lines))?;
        let points = INTERRUPT_POINTS.iter().filter_map(|name| interrupt.trace(name).ok());
        attached.extend(points);
        attached.extend(load(timer(&lines))?.trace(TIMER_POINT).ok());
        Ok(Self { lines, _attached: attached })
    }

    /// The counts of `cpu` so far; `None` for a CPU that is not traced.
    pub fn on(&self, cpu: u32) -> Option<Interrupts> {
        Some(Interrupts {
            softirq_ns: self.lines.read(cpu, SOFTIRQ_NS)?,
            softirqs: self.lines.read(cpu, SOFTIRQS)?,
            hardware: self.lines.read(cpu, INTERRUPTS)?,
        })
    }

    /// When the last hardware interrupt of `cpu` began, CLOCK_MONOTONIC, ns; zero if there was none.
    /// `None` for a CPU that is not traced.
    pub fn last_began_ns(&self, cpu: u32) -> Option<u64> {
        self.lines.read(cpu, BEGAN_NS)
    }
}

/// Adds one to a field.
fn count(field: i16) -> [Instruction; 3] {
    use code::*;
    [step(LOAD, 1, 7, field, 0), step(ADD_NUMBER, 1, 0, 0, 1), step(STORE, 7, 1, field, 0)]
}

/// Skips `body` for softirqs of the tick; the first argument of the tracepoint is the softirq
/// number.
fn unless_of_the_tick(body: Vec<Instruction>) -> Vec<Instruction> {
    use code::*;
    let mut all = vec![step(LOAD, 6, 1, 0, 0)];
    for (passed, number) in OF_THE_TICK.into_iter().enumerate() {
        let left = OF_THE_TICK.len() - 1 - passed;
        all.push(step(JUMP_IF_EQUAL, 6, 0, (left + body.len()) as i16, number));
    }
    all.extend(body);
    all.extend(end());
    all
}

fn softirq_entry(lines: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = lines.find();
    body.extend(count(SOFTIRQS));
    body.extend([step(CALL, 0, 0, 0, function::KTIME_GET_NS), step(STORE, 7, 0, SINCE, 0)]);
    unless_of_the_tick(body)
}

fn softirq_exit(lines: &PerCpuFields) -> Vec<Instruction> {
    use code::*;
    let mut body = lines.find();
    body.push(step(CALL, 0, 0, 0, function::KTIME_GET_NS));
    body.extend(add_since(SINCE, SOFTIRQ_NS));
    unless_of_the_tick(body)
}

fn hardware(lines: &PerCpuFields) -> Vec<Instruction> {
    let mut body = lines.find();
    body.extend(count(INTERRUPTS));
    body.extend(begins());
    body.extend(end());
    body
}

fn timer(lines: &PerCpuFields) -> Vec<Instruction> {
    let mut body = lines.find();
    body.extend(begins());
    body.extend(end());
    body
}

/// Stores the present time as the beginning of the last interrupt.
fn begins() -> [Instruction; 2] {
    use code::*;
    [step(CALL, 0, 0, 0, function::KTIME_GET_NS), step(STORE, 7, 0, BEGAN_NS, 0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;
    use crate::softirq_spin::MAX_NS;
    use crate::{sched, softirq_spin};

    #[test]
    fn softirqs_are_counted_by_their_length() {
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().last().unwrap();
        let counts = or_skip!(InterruptCounts::start());
        softirq_spin::sending_on(cpu, move |send, spin| {
            // softirqs of others on this CPU are counted too: least are between two polls when nobody has it
            let mut least = None;
            for sent in 1..=50 {
                let (before, spun_before) = (counts.on(cpu).unwrap(), spin.spun().unwrap().ns);
                send();
                let seen = counts.on(cpu).unwrap().since(before);
                let spun = spin.spun().unwrap();
                // receive processing may be steered to another CPU
                if spun.datagrams != sent || seen.softirqs == 0 {
                    return skip(format!("{seen:?} {spun:?}"));
                }
                let spun_ns = spun.ns - spun_before;
                assert!(
                    seen.softirq_ns >= spun_ns && spun_ns >= u64::from(MAX_NS),
                    "{seen:?} {spun:?}"
                );
                let more_ns = seen.softirq_ns - spun_ns;
                least = Some(least.map_or(more_ns, |least: u64| least.min(more_ns)));
            }
            assert!(least.is_some_and(|ns| ns < u64::from(MAX_NS)), "{least:?} ns more");
            // a sleep ends by a timer interrupt
            let slept_ns = crate::clock::monotonic_ns();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let began_ns = counts.last_began_ns(cpu).unwrap();
            let timer_is_traced = cfg!(target_arch = "x86_64");
            assert!(!timer_is_traced || began_ns > slept_ns, "{began_ns} {slept_ns}");
            assert_eq!((counts.on(10_000), counts.last_began_ns(10_000)), (None, None));
        });
    }
}
