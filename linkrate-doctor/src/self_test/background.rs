//! CPU time of other processes on one CPU, from the CPU time of every thread and the CPU it ran on
//! last.
//!
//! The kernel reports the CPU time of a thread in nanoseconds (`/proc/PID/task/TID/schedstat`) and
//! the CPU it ran on last. If a thread was on the CPU in question at both ends of a window, its
//! time counts for that CPU; if it was on another CPU at both ends, its time does not count; if it
//! moved, its time is uncertain.

use std::collections::HashMap;

use linkrate_sys::error::SysError;
use linkrate_sys::processes::{self, ThreadPlace};
use linkrate_sys::sched;

/// CPU times of all threads except those of this process, at one moment.
#[derive(Debug)]
pub struct Background {
    /// CPU time of each process, ns.
    processes: HashMap<u32, u64>,
    threads: HashMap<u32, Vec<ThreadPlace>>,
    forks: u64,
}

/// CPU time of other processes between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackgroundUse {
    /// CPU time on the CPU in question, ns.
    pub here_ns: u64,
    /// CPU time that may have been spent on that CPU or on another one, ns.
    pub uncertain_ns: u64,
    /// Processes and threads started meanwhile, on any CPU.
    pub forks: u64,
}

impl Background {
    /// Reads all threads. It takes some 10 µs for each thread of the machine.
    pub fn now() -> Result<Self, SysError> {
        Self::look(|_, _| true)
    }

    /// Reads the threads of processes that used CPU time since `earlier`.
    pub fn after(earlier: &Self) -> Result<Self, SysError> {
        Self::look(|pid, cpu_ns| earlier.processes.get(&pid) != Some(&cpu_ns))
    }

    fn look(is_of_interest: impl Fn(u32, u64) -> bool) -> Result<Self, SysError> {
        let own = std::process::id();
        let all = processes::ids()?.into_iter().filter(|pid| *pid != own);
        // a process that has ended meanwhile is left out
        let processes: HashMap<u32, u64> =
            all.filter_map(|pid| Some((pid, sched::process_cpu_ns(pid).ok()?))).collect();
        let threads = processes
            .iter()
            .filter(|(pid, cpu_ns)| is_of_interest(**pid, **cpu_ns))
            .map(|(pid, _)| (*pid, processes::threads_of(*pid)))
            .collect();
        Ok(Self { processes, threads, forks: processes::forks()? })
    }

    /// CPU time used on `cpu` from `earlier` to this moment, except by `ksoftirqd`: its time
    /// belongs to the load, which records it itself, or to no process.
    pub fn since(&self, earlier: &Self, cpu: u32) -> BackgroundUse {
        let mut used = BackgroundUse {
            here_ns: 0,
            uncertain_ns: 0,
            forks: self.forks.saturating_sub(earlier.forks),
        };
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
                    _ => used.uncertain_ns += ns,
                }
            }
            // time of the process that is missing in its threads: some have ended, or are not
            // reported
            let then_ns = earlier.processes.get(pid).copied().unwrap_or(0);
            let of_process = self.processes.get(pid).map_or(0, |ns| ns.saturating_sub(then_ns));
            used.uncertain_ns += of_process.saturating_sub(of_threads);
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkrate_model::CpuSet;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn others(process_ns: u64, threads: &[(u32, u64, u32)], forks: u64) -> Background {
        let place = |(id, cpu_ns, cpu): &(u32, u64, u32)| ThreadPlace {
            id: *id,
            cpu_ns: *cpu_ns,
            cpu: *cpu,
            is_ksoftirqd: false,
        };
        Background {
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
        assert_eq!(used, BackgroundUse { here_ns: 10, uncertain_ns: 20 + 40, forks: 1 });
        assert_eq!(later.since(&earlier, 1).here_ns, 30);
    }

    #[test]
    fn finds_a_busy_process_on_its_cpu() {
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().last().unwrap();
        let cpus: CpuSet = [cpu].into_iter().collect();
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        sched::set_affinity(child.id().cast_signed(), &cpus).unwrap();
        let began = Instant::now();
        // it is where it was put once it has run there
        std::thread::sleep(Duration::from_millis(100));
        let earlier = Background::now().unwrap();
        let mut used = BackgroundUse::default();
        while used.here_ns + used.uncertain_ns < 5_000_000
            && began.elapsed() < Duration::from_secs(9)
        {
            std::thread::sleep(Duration::from_millis(10));
            used = Background::after(&earlier).unwrap().since(&earlier, cpu);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used.here_ns + used.uncertain_ns >= 5_000_000, "{used:?}");
    }
}
