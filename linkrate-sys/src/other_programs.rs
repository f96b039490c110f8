//! Other programs that used the CPUs: the CPU time of the threads of every program, from `/proc`.
//!
//! `schedstat` of a thread has its CPU time in nanoseconds
//! (Documentation/scheduler/sched-stats.rst), `stat` the CPU it ran on last. Kernel threads belong
//! to the host and are left out.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use linkrate_terms::CpuSet;
use linkrate_terms::measurement::OtherProgram;

use crate::clock::monotonic_ns;
use crate::processes::{self, numbers, parse_processor, stat_field, thread_cpu_ns};
use crate::sched;

/// Time limit of a reading; on a machine with very many threads, the rest is left out.
const PATIENCE: Duration = Duration::from_millis(40);

/// The most programs to report.
const MOST_PROGRAMS: usize = 8;

/// Programs with less CPU time are not reported: reading `/proc` itself wakes some.
const LEAST_NS: u64 = 1_000_000;

/// `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// CPU time of all threads of all programs except linkrate's own.
#[derive(Debug)]
pub struct ProgramTimes {
    /// Nanoseconds by process and thread.
    threads: HashMap<(u32, u32), u64>,
    is_whole: bool,
    /// When the reading began, CLOCK_MONOTONIC.
    at_ns: u64,
}

/// Fields of the `stat` file of a process or thread.
#[derive(Debug, PartialEq)]
struct Stat {
    name: String,
    parent: u32,
    is_kernel: bool,
    last_cpu: u32,
}

impl ProgramTimes {
    /// Reads the CPU times now. It leaves out the calling process, its parent, and the children of
    /// its parent that run the same program: a controller and its agents.
    pub fn read() -> Self {
        Self::read_without(&[])
    }

    /// As [`read`](Self::read), without `agents` either: agents of the same controller that another
    /// program has started, such as a server of ssh.
    pub fn read_without(agents: &[u32]) -> Self {
        let deadline = Instant::now() + PATIENCE;
        let own = Own::find();
        let mut program_times =
            Self { threads: HashMap::new(), is_whole: true, at_ns: monotonic_ns() };
        for process in processes::ids().unwrap_or_default() {
            if Instant::now() > deadline {
                program_times.is_whole = false;
                break;
            }
            let Some(stat) = read_stat(&format!("/proc/{process}/stat")) else { continue };
            if stat.is_kernel || own.owns(process, &stat) || agents.contains(&process) {
                continue;
            }
            for thread in numbers(&format!("/proc/{process}/task")).unwrap_or_default() {
                // a thread that has just ended is left out
                if let Some(ns) = thread_cpu_ns(process, thread) {
                    program_times.threads.insert((process, thread), ns);
                }
            }
        }
        program_times
    }

    /// The programs that used `cpus` since `earlier`, the busiest first. A thread that may also run
    /// on other CPUs counts if it ran on one of `cpus` last; its figure is an upper bound. The time of
    /// threads that are bound to `cpus` is taken as even between the readings, of which `window_ns` counts.
    pub fn since(&self, earlier: &Self, cpus: &CpuSet, window_ns: u64) -> Vec<OtherProgram> {
        let mut programs: HashMap<u32, (u64, u64)> = HashMap::new();
        let between_ns = self.at_ns.saturating_sub(earlier.at_ns).max(window_ns).max(1);
        let within =
            |ns: u64| (u128::from(ns) * u128::from(window_ns) / u128::from(between_ns)) as u64;
        for ((process, thread), ns) in &self.threads {
            let before = match earlier.threads.get(&(*process, *thread)) {
                Some(ns) => *ns,
                // a new thread, unless the earlier reading was incomplete
                None if earlier.is_whole => 0,
                None => continue,
            };
            let used = ns.saturating_sub(before);
            if used < LEAST_NS {
                continue;
            }
            let bound = match was_on(cpus, *process, *thread) {
                Presence::Bound => within(used),
                Presence::Last => 0,
                Presence::Elsewhere => continue,
            };
            let (all_ns, bound_ns) = programs.entry(*process).or_default();
            *all_ns += used;
            *bound_ns += bound;
        }
        let mut told: Vec<OtherProgram> = programs
            .into_iter()
            .map(|(pid, (cpu_ns, bound_ns))| {
                let stat = read_stat(&format!("/proc/{pid}/stat"));
                let name = stat.map_or_else(String::new, |stat| stat.name);
                OtherProgram { pid, name, cpu_ns, bound_ns }
            })
            .collect();
        told.sort_by_key(|program| (std::cmp::Reverse(program.cpu_ns), program.pid));
        told.truncate(MOST_PROGRAMS);
        told
    }
}

/// Where a thread used its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// On the CPUs: it may run nowhere else.
    Bound,
    /// It ran on them last, and may have run elsewhere before.
    Last,
    /// Not on them, as far as is known.
    Elsewhere,
}

fn was_on(cpus: &CpuSet, process: u32, thread: u32) -> Presence {
    let affinity = sched::affinity(thread as i32).unwrap_or_default();
    if !affinity.overlaps(cpus) {
        return Presence::Elsewhere;
    }
    if affinity.iter().all(|cpu| cpus.contains(cpu)) {
        return Presence::Bound;
    }
    let last = read_stat(&format!("/proc/{process}/task/{thread}/stat"));
    match last.is_some_and(|stat| cpus.contains(stat.last_cpu)) {
        true => Presence::Last,
        false => Presence::Elsewhere,
    }
}

/// The processes of linkrate itself.
struct Own {
    process: u32,
    parent: u32,
    name: String,
}

impl Own {
    fn find() -> Self {
        let process = std::process::id();
        let stat = read_stat("/proc/self/stat");
        let (parent, name) = stat.map_or((0, String::new()), |stat| (stat.parent, stat.name));
        Self { process, parent, name }
    }

    fn owns(&self, process: u32, stat: &Stat) -> bool {
        let is_sibling = stat.parent == self.parent && stat.name == self.name;
        process == self.process || process == self.parent || is_sibling
    }
}

fn read_stat(path: &str) -> Option<Stat> {
    parse_stat(&fs::read_to_string(path).ok()?)
}

/// Parses proc_pid_stat(5). The name is in parentheses and may contain parentheses itself.
fn parse_stat(text: &str) -> Option<Stat> {
    let name = text.rsplit_once(')')?.0.split_once('(')?.1.to_owned();
    Some(Stat {
        name,
        parent: stat_field(text, 4)?.parse().ok()?,
        is_kernel: stat_field(text, 9)?.parse::<u64>().ok()? & KERNEL_THREAD != 0,
        last_cpu: parse_processor(text)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_may_have_anything_in_it() {
        let tail =
            "S 7 1 1 0 -1 4194560 0 0 0 0 5 6 0 0 20 0 1 0 9 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 3 0";
        let stat = parse_stat(&format!("12 (a) b (c) {tail}")).unwrap();
        let name = "a) b (c".to_owned();
        assert_eq!(stat, Stat { name, parent: 7, is_kernel: false, last_cpu: 3 });
        let kernel = tail.replace("4194560", "2129984");
        assert!(parse_stat(&format!("2 (kthreadd) {kernel}")).unwrap().is_kernel);
        assert_eq!(parse_stat("12 (short) S 7"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_busy_program_is_found_and_this_one_is_not() {
        let cpus = sched::affinity(sched::current_thread()).unwrap();
        let before = ProgramTimes::read();
        // a shell that spins, and this thread beside it
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let after = ProgramTimes::read();
        let between_ns = after.at_ns - before.at_ns;
        let told = after.since(&before, &cpus, between_ns);
        let half = after.since(&before, &cpus, between_ns / 2);
        let first: CpuSet = cpus.iter().take(1).collect();
        let narrow = after.since(&before, &first, between_ns);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let of = |told: &[OtherProgram]| told.iter().find(|one| one.pid == busy.id()).cloned();
        let found = of(&told).unwrap_or_else(|| panic!("not in {told:?}"));
        assert!(found.cpu_ns > 20_000_000, "{told:?}");
        assert_eq!(found.name, "sh");
        // it may run on these CPUs only: all of it counts, half of it in half of the time
        assert_eq!(found.bound_ns, found.cpu_ns);
        let half = of(&half).expect("the same program");
        assert!((half.bound_ns as f64 * 2.0 / found.cpu_ns as f64 - 1.0).abs() < 0.01, "{half:?}");
        // where it may also run elsewhere, its time is an upper bound
        if cpus.iter().count() > 1
            && let Some(narrow) = of(&narrow)
        {
            assert_eq!((narrow.cpu_ns, narrow.bound_ns), (found.cpu_ns, 0));
        }
        assert!(told.iter().all(|program| program.pid != std::process::id()), "{told:?}");
    }

    #[test]
    fn an_agent_of_the_same_controller_is_no_other_program() {
        let cpus = sched::affinity(sched::current_thread()).unwrap();
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = ProgramTimes::read_without(&[busy.id()]);
        std::thread::sleep(Duration::from_millis(200));
        let told = ProgramTimes::read_without(&[busy.id()]).since(&before, &cpus, 200_000_000);
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(told.iter().all(|program| program.pid != busy.id()), "{told:?}");
    }

    #[test]
    fn what_ran_on_other_cpus_is_not_told() {
        let before = ProgramTimes { threads: HashMap::new(), is_whole: true, at_ns: 0 };
        let nowhere: CpuSet = [4000].into_iter().collect();
        assert_eq!(ProgramTimes::read().since(&before, &nowhere, 1), []);
    }
}
