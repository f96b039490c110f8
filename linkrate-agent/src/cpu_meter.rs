//! The CPU meter: window less idle less steal, and where idle time comes from.
//!
//! Which source serves is found out once, by trying: the kernel's idle time to the nanosecond
//! (`/proc/timer_list`), the same in steps of 10 ms (`/proc/stat`) where the kernel keeps it
//! exactly, and [`IdleCounters`] where it does not. The counters come last because they change what
//! they measure: their CPUs never sleep.

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::error::SysError;
use linkrate_sys::procstat::{self, CpuTimes};
use linkrate_sys::sched;
use linkrate_terms::CpuSet;
use linkrate_terms::measurement::{CpuTime, IdleSource};
use linkrate_terms::spec::CpuMeter as Choice;

use crate::idle_counter::IdleCounters;

/// The meter of some CPUs.
#[derive(Debug)]
pub struct CpuMeter {
    source: IdleSource,
    cpus: CpuSet,
    /// There when they are the source.
    counters: Option<IdleCounters>,
}

/// The source that serves here for what is asked.
pub fn choose(asked: Choice) -> IdleSource {
    let may = (procstat::timer_list_is_readable(), procstat::is_tickless());
    choose_among(asked, may.0, may.1)
}

fn choose_among(asked: Choice, timer_list: bool, tickless: bool) -> IdleSource {
    match (asked, timer_list, tickless) {
        (Choice::IdleCounter, ..) => IdleSource::IdleCounter,
        (_, true, _) => IdleSource::TimerList,
        // sampled by ticks or not: it was asked for
        (Choice::IdleTime, false, _) | (Choice::Auto, false, true) => IdleSource::ProcStat,
        (Choice::Auto, false, false) => IdleSource::IdleCounter,
    }
}

impl CpuMeter {
    /// The meter of `cpus`, none of which should be busy yet.
    ///
    /// # Errors
    /// When counters cannot be started.
    pub fn new(source: IdleSource, cpus: &CpuSet) -> Result<Self, SysError> {
        let counters = match source {
            IdleSource::IdleCounter => Some(IdleCounters::start(cpus)?),
            IdleSource::TimerList | IdleSource::ProcStat => None,
        };
        Ok(Self { source, cpus: cpus.clone(), counters })
    }

    /// The meter of no CPUs.
    pub fn unasked() -> Self {
        Self { source: choose(Choice::IdleTime), cpus: CpuSet::default(), counters: None }
    }

    /// Where idle time comes from.
    pub fn source(&self) -> IdleSource {
        self.source
    }

    /// Makes ready for readings. Call it before the warm-up, so that the CPUs do in it what they
    /// do in the window.
    pub fn run(&self) {
        if let Some(counters) = &self.counters {
            counters.run();
        }
    }

    /// No reading will follow soon.
    pub fn rest(&self) {
        if let Some(counters) = &self.counters {
            counters.rest();
        }
    }

    /// Reads `cpus`, which are some of the meter's; between two readings that belong together it
    /// must not rest.
    ///
    /// # Errors
    /// When the kernel's books cannot be read, or a CPU is not one of the meter's.
    pub fn read(&self, cpus: &CpuSet) -> Result<Vec<CpuTimes>, SysError> {
        match (self.source, &self.counters) {
            (IdleSource::TimerList, _) => visit(cpus),
            (IdleSource::IdleCounter, Some(counters)) => {
                cpus.iter().map(|cpu| self.read_counter(counters, cpu)).collect()
            }
            (IdleSource::ProcStat | IdleSource::IdleCounter, _) => {
                cpus.iter().map(procstat::read_coarse).collect()
            }
        }
    }

    fn read_counter(&self, counters: &IdleCounters, cpu: u32) -> Result<CpuTimes, SysError> {
        // steal has time: it comes in ticks
        let (at_ns, idle_ns) = (monotonic_ns(), counters.idle_ns(cpu));
        let steal_ns = procstat::read_coarse(cpu)?.steal_ns;
        let idle_ns = idle_ns.ok_or_else(|| {
            let error = std::io::Error::other(format!("the meter is that of CPUs {}", self.cpus));
            SysError::new("read idle counter of CPU", cpu.to_string(), error)
        })?;
        Ok(CpuTimes { cpu, at_ns, idle_ns, steal_ns })
    }
}

/// Reads each CPU from that CPU: `/proc/timer_list` leaves out an idle period that is still under
/// way, and a CPU that runs this thread is in none.
fn visit(cpus: &CpuSet) -> Result<Vec<CpuTimes>, SysError> {
    let thread = sched::current_thread();
    let home = sched::affinity(thread)?;
    let times = cpus.iter().map(|cpu| {
        let there: CpuSet = [cpu].into_iter().collect();
        if home != there {
            sched::set_affinity(thread, &there)?;
        }
        procstat::read_precise(cpu)
    });
    let times: Result<Vec<_>, _> = times.collect();
    sched::set_affinity(thread, &home)?;
    times
}

/// Window less idle less steal, never below zero.
pub fn busy(opened: &CpuTimes, closed: &CpuTimes) -> CpuTime {
    let window_ns = closed.at_ns.saturating_sub(opened.at_ns);
    let idle_ns = closed.idle_ns.saturating_sub(opened.idle_ns);
    let steal_ns = closed.steal_ns.saturating_sub(opened.steal_ns);
    let busy_ns = window_ns.saturating_sub(idle_ns).saturating_sub(steal_ns);
    CpuTime { cpu: opened.cpu, window_ns, busy_ns, steal_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(at_ns: u64, idle_ns: u64, steal_ns: u64) -> CpuTimes {
        CpuTimes { cpu: 3, at_ns, idle_ns, steal_ns }
    }

    #[test]
    fn busy_is_window_less_idle_less_steal() {
        let time = busy(&times(1000, 100, 5), &times(2000, 350, 55));
        assert_eq!((time.cpu, time.window_ns, time.busy_ns, time.steal_ns), (3, 1000, 700, 50));
        // steal comes in ticks and may overshoot a window that was all idle
        assert_eq!(busy(&times(0, 0, 0), &times(100, 95, 10)).busy_ns, 0);
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
