//! What other processes do to a CPU: the CPU time of every thread, and where it ran.
//!
//! The kernel keeps each thread's CPU time to the nanosecond (`/proc/PID/task/TID/schedstat`) and
//! tells on which CPU it ran last. A thread that was on the CPU in question at both ends of a window
//! is taken to have spent its time there, one that was elsewhere at both ends not; of one that moved
//! it is not known.

use std::collections::HashMap;

use linkrate_sys::error::SysError;
use linkrate_sys::procstat::{self, ThreadPlace};
use linkrate_sys::sched;

/// All threads but this process's own at one moment.
#[derive(Debug)]
pub struct Others {
    /// CPU time of each process, ns.
    processes: HashMap<u32, u64>,
    threads: HashMap<u32, Vec<ThreadPlace>>,
    forks: u64,
}

/// What others used between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OthersUse {
    /// CPU time on the CPU in question, ns.
    pub here_ns: u64,
    /// CPU time that may have been spent there, ns.
    pub unsure_ns: u64,
    /// Processes and threads that were started, on whatever CPU.
    pub forks: u64,
}

impl Others {
    /// Now. It takes some 10 µs for each thread of the machine.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn now() -> Result<Self, SysError> {
        Self::look(|_, _| true)
    }

    /// Now, at the threads of processes that have used CPU time since `earlier`.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn after(earlier: &Self) -> Result<Self, SysError> {
        Self::look(|pid, cpu_ns| earlier.processes.get(&pid) != Some(&cpu_ns))
    }

    fn look(is_of_interest: impl Fn(u32, u64) -> bool) -> Result<Self, SysError> {
        let own = std::process::id();
        let all = procstat::processes()?.into_iter().filter(|pid| *pid != own);
        // one that has ended meanwhile is left out
        let processes: HashMap<u32, u64> =
            all.filter_map(|pid| Some((pid, sched::process_cpu_ns(pid).ok()?))).collect();
        let threads = processes
            .iter()
            .filter(|(pid, cpu_ns)| is_of_interest(**pid, **cpu_ns))
            .map(|(pid, _)| (*pid, procstat::threads_of(*pid)))
            .collect();
        Ok(Self { processes, threads, forks: procstat::forks()? })
    }

    /// What was used on `cpu` from `earlier` to this moment. What `ksoftirqd` does is left out:
    /// it is a load's, which the load knows itself, or nobody's.
    pub fn since(&self, earlier: &Self, cpu: u32) -> OthersUse {
        let mut used =
            OthersUse { here_ns: 0, unsure_ns: 0, forks: self.forks.saturating_sub(earlier.forks) };
        for (pid, threads) in &self.threads {
            let mut of_threads = 0;
            let before = earlier.threads.get(pid).map_or(&[][..], Vec::as_slice);
            for thread in threads {
                let then = before.iter().find(|then| then.id == thread.id);
                let ns = thread.cpu_ns.saturating_sub(then.map_or(0, |then| then.cpu_ns));
                of_threads += ns;
                if thread.is_ksoftirqd {
                    continue;
                }
                match then.map(|then| (then.cpu == cpu, thread.cpu == cpu)) {
                    Some((true, true)) => used.here_ns += ns,
                    Some((false, false)) => {}
                    _ => used.unsure_ns += ns,
                }
            }
            // what its threads do not account for: some have ended, or the kernel does not tell
            let then_ns = earlier.processes.get(pid).copied().unwrap_or(0);
            let of_process = self.processes.get(pid).map_or(0, |ns| ns.saturating_sub(then_ns));
            used.unsure_ns += of_process.saturating_sub(of_threads);
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkrate_terms::CpuSet;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn others(process_ns: u64, threads: &[(u32, u64, u32)], forks: u64) -> Others {
        let place = |(id, cpu_ns, cpu): &(u32, u64, u32)| ThreadPlace {
            id: *id,
            cpu_ns: *cpu_ns,
            cpu: *cpu,
            is_ksoftirqd: false,
        };
        Others {
            processes: HashMap::from([(7, process_ns)]),
            threads: HashMap::from([(7, threads.iter().map(place).collect())]),
            forks,
        }
    }

    #[test]
    fn time_is_charged_where_a_thread_stayed() {
        let earlier = others(1000, &[(7, 100, 3), (8, 200, 3), (9, 300, 1)], 5);
        let later = others(1100, &[(7, 110, 3), (8, 220, 1), (9, 330, 1)], 6);
        let used = later.since(&earlier, 3);
        // 10 stayed, 20 moved, 40 of the process are no thread's
        assert_eq!(used, OthersUse { here_ns: 10, unsure_ns: 20 + 40, forks: 1 });
        assert_eq!(later.since(&earlier, 1).here_ns, 30);
    }

    #[test]
    fn a_busy_process_is_seen_where_it_is() {
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().last().unwrap();
        let cpus: CpuSet = [cpu].into_iter().collect();
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        sched::set_affinity(child.id().cast_signed(), &cpus).unwrap();
        let began = Instant::now();
        // it is where it was put once it has run there
        std::thread::sleep(Duration::from_millis(100));
        let earlier = Others::now().unwrap();
        let mut used = OthersUse::default();
        while used.here_ns + used.unsure_ns < 5_000_000 && began.elapsed() < Duration::from_secs(9)
        {
            std::thread::sleep(Duration::from_millis(10));
            used = Others::after(&earlier).unwrap().since(&earlier, cpu);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used.here_ns + used.unsure_ns >= 5_000_000, "{used:?}");
    }
}
