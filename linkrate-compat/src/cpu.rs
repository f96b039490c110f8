//! The use of this host's CPUs during a test, by linkrate's CPU meter.
//!
//! Other programs read what their own process used, or the columns of `/proc/stat`, which the kernel may fill by
//! sampling. Here busy time is what is neither idle nor stolen, of all CPUs, whoever used it: softirqs and kernel
//! threads that serve a connection are in no process's account.

use linkrate_agent::cpu_meter::{self, CpuMeter};
use linkrate_model::CpuSet;
use linkrate_model::measurement::IdleSource;
use linkrate_model::spec::CpuMeter as Choice;
use linkrate_sys::cpus;
use linkrate_sys::error::SysError;
use linkrate_sys::procstat::CpuTimes;

/// A meter that has begun.
#[derive(Debug)]
pub struct HostCpu {
    meter: CpuMeter,
    cpus: CpuSet,
    begun: Vec<CpuTimes>,
}

/// The use of all CPUs of this host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostCpuUse {
    pub cpus: u32,
    /// Length of the window, s; mean of the CPUs.
    pub seconds: f64,
    /// Neither idle nor stolen, CPU seconds, sum of the CPUs.
    pub busy_seconds: f64,
    /// Largest error of the busy time because of steal, CPU seconds.
    pub uncertainty_seconds: f64,
    /// The CPU that was busiest, and its use in per cent.
    pub busiest: Option<(u32, f64)>,
    /// Where idle time comes from.
    pub source: IdleSource,
}

impl HostCpuUse {
    /// Use of all CPUs, per cent of all of them.
    #[must_use]
    pub fn percent_of_host(&self) -> f64 {
        self.percent_of_one() / f64::from(self.cpus.max(1))
    }

    /// Use of all CPUs, per cent of one: two full CPUs are 200.
    #[must_use]
    pub fn percent_of_one(&self) -> f64 {
        if self.seconds > 0.0 { self.busy_seconds * 100.0 / self.seconds } else { 0.0 }
    }

    /// CPU time for each KB (1,024 octets) of payload, µs; `None` without payload.
    #[must_use]
    pub fn us_per_kb(&self, bytes: u64) -> Option<f64> {
        (bytes > 0).then(|| self.busy_seconds * 1e6 * 1024.0 / bytes as f64)
    }
}

impl HostCpu {
    /// Begins to measure all CPUs of this host. It takes idle time of the kernel, in steps of 10 ms where this user
    /// may not read it more precisely.
    pub fn start() -> Result<Self, SysError> {
        let cpus = cpus::online()?;
        let meter = CpuMeter::new(cpu_meter::choose(Choice::IdleTime), &cpus)?;
        meter.run();
        let begun = meter.times(&cpus)?;
        Ok(Self { meter, cpus, begun })
    }

    /// The use since the beginning. It may be asked for again.
    pub fn used(&self) -> Result<HostCpuUse, SysError> {
        let now = self.meter.times(&self.cpus)?;
        Ok(used(self.meter.source(), &self.begun, &now))
    }
}

fn used(source: IdleSource, begun: &[CpuTimes], now: &[CpuTimes]) -> HostCpuUse {
    const SECOND_NS: f64 = 1e9;
    let mut all = HostCpuUse {
        cpus: begun.len() as u32,
        seconds: 0.0,
        busy_seconds: 0.0,
        uncertainty_seconds: 0.0,
        busiest: None,
        source,
    };
    for (opened, closed) in begun.iter().zip(now) {
        let time = cpu_meter::busy(source, opened, closed);
        all.seconds += time.interval_ns as f64 / SECOND_NS / begun.len() as f64;
        all.busy_seconds += time.busy_ns as f64 / SECOND_NS;
        all.uncertainty_seconds += time.uncertainty_ns as f64 / SECOND_NS;
        let percent = time.busy_ns as f64 * 100.0 / time.interval_ns.max(1) as f64;
        if all.busiest.is_none_or(|(_, most)| percent > most) {
            all.busiest = Some((opened.cpu, percent));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_that_of_all_cpus() {
        let times = |cpu, at_ns, idle_ns| CpuTimes {
            cpu,
            at_ns,
            idle_ns,
            uncertain_ns: 0,
            steal_ns: 0,
            cpu_awake_ns: None,
        };
        let begun = [times(0, 0, 0), times(1, 0, 0)];
        let now = [times(0, 2_000_000_000, 2_000_000_000), times(1, 2_000_000_000, 500_000_000)];
        let all = used(IdleSource::TimerList, &begun, &now);
        assert_eq!((all.cpus, all.seconds, all.busy_seconds), (2, 2.0, 1.5));
        assert_eq!((all.percent_of_one(), all.percent_of_host()), (75.0, 37.5));
        assert_eq!(all.busiest, Some((1, 75.0)));
        assert_eq!((all.us_per_kb(1024), all.us_per_kb(0)), (Some(1.5e6), None));
    }
}
