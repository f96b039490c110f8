//! What other processes do to a CPU: the CPU time of every process that may run there.
//!
//! The kernel keeps it per process and to the nanosecond, and tells it to everyone
//! (clock_getcpuclockid(3)). It does not say on which CPU the time was spent, so what is found is
//! an upper bound.

use std::collections::BTreeMap;

use linkrate_sys::error::SysError;
use linkrate_sys::{procstat, sched};
use linkrate_terms::CpuSet;

/// CPU time of all processes but this one at one moment.
#[derive(Debug)]
pub struct Others {
    cpu_ns: BTreeMap<u32, u64>,
    forks: u64,
}

/// What others used between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OthersUse {
    /// CPU time of processes that may run on the CPUs in question, ns.
    pub cpu_ns: u64,
    /// Processes and threads that were started, on whatever CPU.
    pub forks: u64,
}

impl Others {
    /// Now.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn now() -> Result<Self, SysError> {
        let own = std::process::id();
        let all = procstat::processes()?.into_iter().filter(|pid| *pid != own);
        // one that has ended meanwhile is left out
        let cpu_ns = all.filter_map(|pid| Some((pid, sched::process_cpu_ns(pid).ok()?))).collect();
        Ok(Self { cpu_ns, forks: procstat::forks()? })
    }

    /// What was used from `earlier` to this moment by those who may run on `cpus`.
    pub fn since(&self, earlier: &Self, cpus: &CpuSet) -> OthersUse {
        let mut used = OthersUse { cpu_ns: 0, forks: self.forks.saturating_sub(earlier.forks) };
        for (pid, now_ns) in &self.cpu_ns {
            let ns = now_ns.saturating_sub(earlier.cpu_ns.get(pid).copied().unwrap_or(0));
            if ns > 0 && may_run_on(*pid, cpus) {
                used.cpu_ns = used.cpu_ns.saturating_add(ns);
            }
        }
        used
    }
}

/// Its first thread's CPUs stand for all; one that cannot be asked may run anywhere.
fn may_run_on(pid: u32, cpus: &CpuSet) -> bool {
    sched::affinity(pid.cast_signed()).map_or(true, |allowed| allowed.overlaps(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn a_busy_process_is_seen_where_it_may_run() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let cpus = sched::affinity(sched::current_thread()).unwrap();
        let began = Instant::now();
        let earlier = Others::now().unwrap();
        let mut used = OthersUse::default();
        while used.cpu_ns < 5_000_000 && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
            used = Others::now().unwrap().since(&earlier, &cpus);
        }
        assert!(earlier.cpu_ns.contains_key(&child.id()));
        assert!(!may_run_on(child.id(), &[8000].into_iter().collect()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used.cpu_ns >= 5_000_000, "{used:?}");
    }
}
