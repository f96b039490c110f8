//! The CPU meter: busy time = measurement − idle − steal, with one of three sources of idle time.
//!
//! The source is chosen once, by trying: idle time of the kernel in nanoseconds
//! (`/proc/timer_list`), the same in steps of 10 ms (`/proc/stat`) where the kernel records it
//! exactly, and [`IdleCounters`] where it does not. The counters are the last choice because they
//! change what they measure: their CPUs never sleep.
//!
//! Idle time of the kernel contains a part of steal: `tick_nohz_stop_idle`
//! (kernel/time/tick-sched.c) adds all of the time since the CPU went to sleep. For a CPU that is
//! woken and waits for the hypervisor, the wait counts both as idle and as steal (Linux 6.18; the
//! same in 4.x to 6.x). Subtracting both would subtract that part twice. The kernel does not report
//! its size; CPU clocks of threads (`update_rq_clock_task`, kernel/sched/core.c) leave out all
//! steal. So [`busy`] gives bounds, and [`at_least`] uses the known CPU time of threads.
//!
//! The kernel's idle time also contains a part of some softirqs. If a hardware interrupt arrives during a softirq that has
//! interrupted the idle thread, the kernel starts idle time at the end of the interrupt (`tick_irq_exit`,
//! kernel/softirq.c, checks for the idle thread and for hardware interrupts only; Linux 6.18). If the softirq then wakes
//! a thread, the rest of the softirq stays counted as idle time. A [trace](OnCpuTrace) of what ran shows it.

use std::sync::Arc;

use linkrate_model::CpuSet;
use linkrate_model::measurement::{CpuTime, IdleSource};
use linkrate_model::spec::CpuMeter as Choice;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::error::SysError;
use linkrate_sys::on_cpu::{OnCpu, OnCpuTrace};
use linkrate_sys::procstat::{self, CpuTimes};
use linkrate_sys::sched::{self, ThreadId};

use crate::idle_counter::IdleCounters;

#[derive(Debug)]
pub struct CpuMeter {
    source: IdleSource,
    cpus: CpuSet,
    /// `Some` if they are the source.
    counters: Option<IdleCounters>,
    /// `Some` if idle time of the kernel is the source, it was asked for, and this process may trace.
    trace: Option<Arc<OnCpuTrace>>,
}

#[derive(Debug, Clone)]
pub struct CpuReading {
    pub times: CpuTimes,
    /// What it worked for; `None` without a trace.
    pub on_cpu: Option<OnCpu>,
}

/// The source on this host for the requested meter.
pub fn choose(asked: Choice) -> IdleSource {
    let may = (procstat::timer_list_is_readable(), procstat::is_tickless());
    choose_among(asked, may.0, may.1)
}

fn choose_among(asked: Choice, timer_list: bool, tickless: bool) -> IdleSource {
    match (asked, timer_list, tickless) {
        (Choice::IdleCounter, ..) => IdleSource::IdleCounter,
        (_, true, _) => IdleSource::TimerList,
        // requested explicitly, even if sampled by ticks
        (Choice::IdleTime, false, _) | (Choice::Auto, false, true) => IdleSource::ProcStat,
        (Choice::Auto, false, false) => IdleSource::IdleCounter,
    }
}

impl CpuMeter {
    /// A meter of `cpus`, none of which should be busy yet. Fails when the idle counters cannot be started.
    pub fn new(source: IdleSource, cpus: &CpuSet) -> Result<Self, SysError> {
        let counters = match source {
            IdleSource::IdleCounter => Some(IdleCounters::start(cpus)?),
            IdleSource::TimerList | IdleSource::ProcStat => None,
        };
        Ok(Self { source, cpus: cpus.clone(), counters, trace: None })
    }

    /// Also traces what ran on the CPUs, if this process may.
    #[must_use]
    pub fn tracing(self) -> Self {
        let trace = match self.source {
            IdleSource::TimerList => OnCpuTrace::start().ok().map(Arc::new),
            // /proc/stat is too coarse beside a trace, and the threads of the counter are always on their CPUs
            IdleSource::ProcStat | IdleSource::IdleCounter => None,
        };
        Self { trace, ..self }
    }

    /// A meter without CPUs.
    pub fn unasked() -> Self {
        let source = choose(Choice::IdleTime);
        Self { source, cpus: CpuSet::default(), counters: None, trace: None }
    }

    pub fn source(&self) -> IdleSource {
        self.source
    }

    pub fn is_tracing(&self) -> bool {
        self.trace.is_some()
    }

    pub fn trace(&self) -> Option<Arc<OnCpuTrace>> {
        self.trace.clone()
    }

    /// The threads that run while a CPU has nothing to do, beside the kernel's.
    pub fn idle_threads(&self) -> Vec<ThreadId> {
        self.counters.iter().flat_map(IdleCounters::threads).collect()
    }

    /// Prepares for readings. Call it before the warm-up, so that warm-up and measurement have the same
    /// conditions.
    pub fn run(&self) {
        if let Some(trace) = &self.trace {
            // without room, the time of new threads is lost, and told
            let _ = trace.forget();
        }
        if let Some(counters) = &self.counters {
            counters.run();
        }
    }

    /// Rests until the next [`run`](Self::run).
    pub fn rest(&self) {
        if let Some(counters) = &self.counters {
            counters.rest();
        }
    }

    /// Reads `cpus`, which must be CPUs of the meter. The meter must not rest between the two
    /// readings of a measurement. Fails when a source cannot be read, or a CPU does not belong to the meter.
    pub fn read(&self, cpus: &CpuSet) -> Result<Vec<CpuReading>, SysError> {
        let without = |times| CpuReading { times, on_cpu: None };
        match (self.source, &self.counters) {
            (IdleSource::TimerList, _) => visit(cpus, self.trace.as_deref()),
            (IdleSource::IdleCounter, Some(counters)) => {
                cpus.iter().map(|cpu| self.read_counter(counters, cpu).map(without)).collect()
            }
            (IdleSource::ProcStat | IdleSource::IdleCounter, _) => {
                cpus.iter().map(|cpu| procstat::read_coarse(cpu).map(without)).collect()
            }
        }
    }

    /// The same without what ran.
    pub fn times(&self, cpus: &CpuSet) -> Result<Vec<CpuTimes>, SysError> {
        Ok(self.read(cpus)?.into_iter().map(|reading| reading.times).collect())
    }

    fn read_counter(&self, counters: &IdleCounters, cpu: u32) -> Result<CpuTimes, SysError> {
        // steal comes in ticks, so it may be read later
        let (at_ns, idle_ns) = (monotonic_ns(), counters.idle_ns(cpu));
        let uncertain_ns = counters.uncertain_ns(cpu).unwrap_or(0);
        let steal_ns = procstat::read_coarse(cpu)?.steal_ns;
        let idle_ns = idle_ns.ok_or_else(|| {
            let error = std::io::Error::other(format!("the meter covers only CPUs {}", self.cpus));
            SysError::new("read idle counter of CPU", cpu.to_string(), error)
        })?;
        Ok(CpuTimes { cpu, at_ns, idle_ns, uncertain_ns, steal_ns, cpu_awake_ns: None })
    }
}

/// Reads each CPU while running on it: `/proc/timer_list` leaves out the present idle period and a trace the present
/// thread, and a CPU that runs this thread is not idle.
fn visit(cpus: &CpuSet, trace: Option<&OnCpuTrace>) -> Result<Vec<CpuReading>, SysError> {
    let thread = sched::current_thread();
    let home = sched::affinity(thread)?;
    let readings = cpus.iter().map(|cpu| {
        let there: CpuSet = [cpu].into_iter().collect();
        if home != there {
            sched::set_affinity(thread, &there)?;
        }
        let times = procstat::read_precise(cpu)?;
        let cpu_awake_ns = trace.and_then(|trace| trace.cpu_awake_ns(cpu, times.at_ns));
        let on_cpu = trace.map(|trace| trace.on(cpu)).transpose();
        let on_cpu = on_cpu
            .map_err(|error| SysError::new("read the trace of CPU", cpu.to_string(), error))?;
        Ok(CpuReading { times: CpuTimes { cpu_awake_ns, ..times }, on_cpu })
    });
    let readings: Result<Vec<_>, _> = readings.collect();
    sched::set_affinity(thread, &home)?;
    readings
}

/// Busy time of a measurement, and its uncertainty.
///
/// Where the CPU was traced, busy time is at least the time in which it was not idle by the trace.
///
/// The CPU of an idle counter never sleeps, so its idle time contains no steal. Idle time of the
/// kernel contains a part of steal: at most all of the idle time, at least what the rest of the
/// measurement cannot contain. Between these bounds, idle time gets its proportional share, which is
/// exact for a CPU that was always or never idle.
pub fn busy(source: IdleSource, opened: &CpuTimes, closed: &CpuTimes) -> CpuTime {
    let interval_ns = closed.at_ns.saturating_sub(opened.at_ns);
    let idle_ns = closed.idle_ns.saturating_sub(opened.idle_ns).min(interval_ns);
    let steal_ns = closed.steal_ns.saturating_sub(opened.steal_ns);
    let watched_ns = closed.cpu_awake_ns.zip(opened.cpu_awake_ns);
    let watched_ns = watched_ns.map(|(closed, opened)| closed.saturating_sub(opened));
    let cpu_awake_ns = (interval_ns - idle_ns).max(watched_ns.unwrap_or(0)).min(interval_ns);
    let idle_ns = interval_ns - cpu_awake_ns;
    let (busy_ns, uncertain_ns) = match source {
        IdleSource::IdleCounter => {
            let uncertain_ns = closed.uncertain_ns.saturating_sub(opened.uncertain_ns);
            let busy_ns = cpu_awake_ns.saturating_sub(steal_ns);
            (busy_ns, uncertain_ns.min(busy_ns))
        }
        IdleSource::TimerList | IdleSource::ProcStat => {
            let steal_ns = steal_ns.min(interval_ns);
            let least = cpu_awake_ns.saturating_sub(steal_ns);
            let most = cpu_awake_ns - steal_ns.saturating_sub(idle_ns);
            let share = cpu_awake_ns as f64 / interval_ns.max(1) as f64;
            let busy_ns = cpu_awake_ns - (steal_ns as f64 * share) as u64;
            let busy_ns = busy_ns.clamp(least, most);
            (busy_ns, (busy_ns - least).max(most - busy_ns))
        }
    };
    CpuTime { cpu: opened.cpu, interval_ns, busy_ns, steal_ns, uncertainty_ns: uncertain_ns }
}

/// Raises the busy time to `known_ns`, the known CPU time of threads on the CPU.
pub fn at_least(known_ns: u64, time: CpuTime) -> CpuTime {
    let known_ns = known_ns.min(time.interval_ns);
    let least = time.busy_ns.saturating_sub(time.uncertainty_ns).max(known_ns);
    let most = time.busy_ns.saturating_add(time.uncertainty_ns).max(known_ns);
    let busy_ns = time.busy_ns.max(known_ns);
    let uncertain_ns = (busy_ns - least).max(most - busy_ns).min(time.uncertainty_ns);
    CpuTime { busy_ns, uncertainty_ns: uncertain_ns, ..time }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(at_ns: u64, idle_ns: u64, steal_ns: u64) -> CpuTimes {
        CpuTimes { cpu: 3, at_ns, idle_ns, uncertain_ns: 0, steal_ns, cpu_awake_ns: None }
    }

    #[test]
    fn busy_is_interval_less_idle_less_steal() {
        use IdleSource::{IdleCounter, TimerList};
        // idle and steal of a measurement of 1000, busy time, and its uncertainty
        for (source, idle, steal, busy_ns, uncertain_ns) in [
            (TimerList, 250, 0, 750, 0),
            // never idle: idle time contains no steal
            (TimerList, 0, 100, 900, 0),
            // idle except for 5: a tick of steal does not make busy time negative
            (TimerList, 995, 10, 5, 5),
            (TimerList, 500, 100, 450, 50),
            // more steal than awake time: idle time contains some of it for certain
            (TimerList, 900, 300, 70, 70),
            (TimerList, 100, 900, 90, 90),
            // the CPU of an idle counter does not sleep
            (IdleCounter, 250, 50, 700, 0),
            (IdleCounter, 995, 10, 0, 0),
            (IdleCounter, 1010, 0, 0, 0),
        ] {
            let time = busy(source, &times(1000, 7, 5), &times(2000, 7 + idle, 5 + steal));
            let case = format!("{source:?} {idle} {steal}");
            assert_eq!((time.cpu, time.interval_ns, time.steal_ns), (3, 1000, steal), "{case}");
            assert_eq!((time.busy_ns, time.uncertainty_ns), (busy_ns, uncertain_ns), "{case}");
        }
        // a part of a softirq that the kernel counts as idle time
        for (idle, cpu_awake, steal, busy_ns) in
            [(250, 760, 0, 760), (250, 740, 0, 750), (250, 1003, 0, 1000), (600, 500, 100, 450)]
        {
            let watched = |cpu_awake_ns, times| CpuTimes { cpu_awake_ns, ..times };
            let opened = watched(Some(50), times(1000, 7, 5));
            let closed = times(2000, 7 + idle, 5 + steal);
            let time = busy(TimerList, &opened, &watched(Some(50 + cpu_awake), closed));
            assert_eq!(time.busy_ns, busy_ns, "{idle} {cpu_awake} {steal}");
            // not traced at both ends
            assert_eq!(
                busy(TimerList, &opened, &closed).busy_ns,
                busy(TimerList, &times(1000, 7, 5), &closed).busy_ns
            );
        }
        let unsure = |uncertain_ns, times: CpuTimes| CpuTimes { uncertain_ns, ..times };
        let (opened, closed) = (unsure(3, times(0, 0, 0)), unsure(43, times(100, 30, 0)));
        let time = busy(IdleCounter, &opened, &closed);
        assert_eq!((time.busy_ns, time.uncertainty_ns), (70, 40));
    }

    /// Two measurements of a second of a CPU with one thread, on a virtual machine: awake time, steal,
    /// and CPU time of the thread, µs. Subtracting all of the steal would leave less than the
    /// thread's time.
    #[test]
    fn recorded_steal_is_not_taken_off_twice() {
        for (cpu_awake, steal, thread) in [(56_800, 10_000, 50_400), (68_800, 10_000, 60_000)] {
            assert!(cpu_awake - steal < thread);
            let time = busy(
                IdleSource::TimerList,
                &times(0, 0, 0),
                &times(1_000_000, 1_000_000 - cpu_awake, steal),
            );
            assert!(time.busy_ns >= thread && time.busy_ns <= cpu_awake, "{time:?}");
            assert!(time.busy_ns - time.uncertainty_ns <= thread, "{time:?}");
        }
    }

    #[test]
    fn no_cpu_was_busy_for_less_than_its_threads() {
        let time =
            CpuTime { cpu: 0, interval_ns: 1000, busy_ns: 450, steal_ns: 100, uncertainty_ns: 50 };
        for (known_ns, busy_ns, uncertain_ns) in
            [(0, 450, 50), (430, 450, 50), (480, 480, 20), (600, 600, 0), (2000, 1000, 0)]
        {
            let least = at_least(known_ns, time);
            assert_eq!(
                (least.busy_ns, least.uncertainty_ns),
                (busy_ns, uncertain_ns),
                "{known_ns}"
            );
        }
    }

    #[test]
    fn the_counter_serves_where_idle_time_is_not_exact() {
        use IdleSource::{IdleCounter, ProcStat, TimerList};
        for (asked, timer_list, tickless, expected) in [
            (Choice::Auto, true, true, TimerList),
            (Choice::Auto, false, true, ProcStat),
            (Choice::Auto, false, false, IdleCounter),
            (Choice::IdleTime, true, true, TimerList),
            (Choice::IdleTime, false, false, ProcStat),
            (Choice::IdleCounter, true, true, IdleCounter),
        ] {
            assert_eq!(choose_among(asked, timer_list, tickless), expected, "{asked:?}");
        }
    }

    #[test]
    fn every_source_reads_this_hosts_cpus() {
        let home = sched::affinity(sched::current_thread()).unwrap();
        for source in [choose(Choice::IdleTime), IdleSource::ProcStat, IdleSource::IdleCounter] {
            let meter = CpuMeter::new(source, &home).unwrap();
            meter.run();
            let (opened, closed) = (meter.read(&home).unwrap(), meter.read(&home).unwrap());
            meter.rest();
            assert_eq!((opened.len(), closed.len()), (home.iter().count(), home.iter().count()));
            for (before, after) in opened.iter().zip(&closed) {
                let (before, after) = (before.times, after.times);
                assert!(after.at_ns > before.at_ns && after.idle_ns >= before.idle_ns);
            }
            assert_eq!(sched::affinity(sched::current_thread()).unwrap(), home);
        }
    }

    #[test]
    fn a_counter_that_is_not_there_is_named() {
        let home = sched::affinity(sched::current_thread()).unwrap();
        let meter = CpuMeter::new(IdleSource::IdleCounter, &home).unwrap();
        let other = home.iter().last().unwrap() + 1;
        let cpus: CpuSet = [other].into_iter().collect();
        assert!(meter.read(&cpus).is_err());
    }
}
