//! Other programs that used the CPUs: the CPU time of the threads of every program, from `/proc`.
//!
//! `schedstat` of a thread has its CPU time in nanoseconds
//! (Documentation/scheduler/sched-stats.rst), `stat` the CPU it ran on last, and `sched` how often it moved to
//! another CPU (kernel/sched/debug.c). A thread that has not moved used its time where it is. A thread
//! that has moved may have been on any CPU that its affinity allows. Kernel threads belong to the host and are
//! left out.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use linkrate_model::CpuSet;
use linkrate_model::measurement::OtherProgram;

use crate::clock::monotonic_ns;
use crate::processes::{self, numbers, parse_processor, stat_field, thread_cpu_ns};
use crate::sched;

/// Time limit of a reading; on a machine with very many threads, the rest is left out.
const TIMEOUT: Duration = Duration::from_millis(40);

/// The most programs to report.
const MAX_PROGRAMS: usize = 8;

/// Programs with less CPU time are not reported: reading `/proc` itself wakes some.
const MIN_NS: u64 = 1_000_000;

/// `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// CPU time of all threads of all programs except linkrate's own.
#[derive(Debug)]
pub struct ProgramTimes {
    /// By process and thread.
    threads: HashMap<(u32, u32), ThreadTimes>,
    is_whole: bool,
    /// When the reading began, CLOCK_MONOTONIC.
    at_ns: u64,
}

/// One thread at a reading.
#[derive(Debug, Clone, PartialEq)]
struct ThreadTimes {
    /// CPU time, ns.
    ns: u64,
    /// Unknown where the time of the reading did not suffice for it.
    place: Option<Place>,
}

/// Where a thread was at a reading, and where it may go.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    last_cpu: u32,
    /// How often it moved to another CPU so far; `None` where the kernel does not report.
    moves: Option<u64>,
    affinity: CpuSet,
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
        let deadline = Instant::now() + TIMEOUT;
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
                    let times = ThreadTimes { ns, place: None };
                    program_times.threads.insert((process, thread), times);
                }
            }
        }
        // Behind the times: without them a program is not seen, without a place it counts as an upper bound. Those
        // that used most so far are the likeliest to use more.
        let mut by_time: Vec<_> = program_times.threads.iter_mut().collect();
        by_time.sort_by_key(|(_, times)| std::cmp::Reverse(times.ns));
        for ((process, thread), times) in by_time {
            if Instant::now() > deadline {
                break;
            }
            times.place = Place::read(*process, *thread);
        }
        program_times
    }

    /// The programs that used `cpus` since `earlier`, the busiest first. The figure of a thread that moved and may
    /// have been on one of `cpus` meanwhile is an upper bound. The time of threads that were on `cpus` alone is taken as
    /// even between the readings, of which `interval_ns` counts.
    pub fn since(&self, earlier: &Self, cpus: &CpuSet, interval_ns: u64) -> Vec<OtherProgram> {
        let mut programs: HashMap<u32, (u64, u64)> = HashMap::new();
        let between_ns = self.at_ns.saturating_sub(earlier.at_ns).max(interval_ns).max(1);
        let within =
            |ns: u64| (u128::from(ns) * u128::from(interval_ns) / u128::from(between_ns)) as u64;
        for ((process, thread), now) in &self.threads {
            let before = match earlier.threads.get(&(*process, *thread)) {
                Some(before) => Some(before),
                // a new thread, unless the earlier reading was incomplete
                None if earlier.is_whole => None,
                None => continue,
            };
            let used = now.ns.saturating_sub(before.map_or(0, |before| before.ns));
            if used < MIN_NS {
                continue;
            }
            // a thread that has ended since used its time as well, at an unknown place
            let place = now.place.clone().or_else(|| Place::read(*process, *thread));
            let bound = match presence(cpus, before, place.as_ref()) {
                Presence::Here => within(used),
                Presence::Perhaps => 0,
                Presence::Elsewhere => continue,
            };
            let (all_ns, bound_ns) = programs.entry(*process).or_default();
            *all_ns += used;
            *bound_ns += bound;
        }
        busiest(programs.into_iter().map(|(pid, (cpu_ns, bound_ns))| {
            let name = kind_of(pid).map_or_else(String::new, |(name, _)| name);
            OtherProgram { pid, name, cpu_ns, bound_ns }
        }))
    }
}

/// The programs to report, the busiest first.
pub fn busiest(programs: impl IntoIterator<Item = OtherProgram>) -> Vec<OtherProgram> {
    let mut reported: Vec<OtherProgram> = programs.into_iter().collect();
    reported.sort_by_key(|program| (std::cmp::Reverse(program.cpu_ns), program.pid));
    reported.truncate(MAX_PROGRAMS);
    reported
}

/// Where a thread used its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// On the CPUs.
    Here,
    /// It moved, and may have been on them.
    Perhaps,
    /// Not on them.
    Elsewhere,
}

/// Where a thread used its time between its place at an earlier reading and that of now. `before` is `None` for a
/// thread that has begun since.
fn presence(cpus: &CpuSet, before: Option<&ThreadTimes>, now: Option<&Place>) -> Presence {
    let is_here = |cpu: u32| cpus.contains(cpu);
    let Some(now) = now else {
        let earlier = before.and_then(|before| before.place.as_ref());
        let may_be = earlier.is_none_or(|earlier| earlier.affinity.overlaps(cpus));
        return if may_be { Presence::Perhaps } else { Presence::Elsewhere };
    };
    let earlier = match before {
        Some(before) => before.place.clone(),
        // the count of a thread begins with zero, on the CPU where it runs first
        None => Some(Place { moves: now.moves.map(|_| 0), ..now.clone() }),
    };
    // an affinity that was set in between does not report where the thread was before
    let of_both = |is_so: &dyn Fn(&CpuSet) -> bool| {
        is_so(&now.affinity) && earlier.as_ref().is_none_or(|earlier| is_so(&earlier.affinity))
    };
    if of_both(&|affinity| !affinity.overlaps(cpus)) {
        return Presence::Elsewhere;
    }
    if of_both(&|affinity| affinity.iter().all(is_here)) {
        return Presence::Here;
    }
    let stayed = earlier.as_ref().is_some_and(|earlier| {
        now.moves.is_some() && earlier.moves == now.moves && earlier.last_cpu == now.last_cpu
    });
    match (stayed, is_here(now.last_cpu)) {
        (true, true) => Presence::Here,
        (true, false) => Presence::Elsewhere,
        (false, _) => Presence::Perhaps,
    }
}

impl Place {
    /// The place of a thread now; `None` once it has ended.
    fn read(process: u32, thread: u32) -> Option<Self> {
        let path = format!("/proc/{process}/task/{thread}");
        let moves = fs::read_to_string(format!("{path}/sched")).ok();
        Some(Self {
            last_cpu: read_stat(&format!("{path}/stat"))?.last_cpu,
            moves: moves.and_then(|text| parse_moves(&text)),
            affinity: sched::affinity(thread as i32).ok()?,
        })
    }
}

/// How often a thread moved to another CPU, from the text of its `sched`.
fn parse_moves(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.trim_start().strip_prefix(':')?.trim().parse().ok()
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

/// The name of a process, and whether it is a thread of the kernel; `None` once it has ended.
pub fn kind_of(process: u32) -> Option<(String, bool)> {
    let stat = read_stat(&format!("/proc/{process}/stat"))?;
    Some((stat.name, stat.is_kernel))
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
    use std::process::Command;

    use super::*;

    /// A reading that was not cut short. On a busy machine it takes several.
    fn whole(agents: &[u32]) -> ProgramTimes {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let times = ProgramTimes::read_without(agents);
            if times.is_whole || Instant::now() > deadline {
                return times;
            }
        }
    }

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
        let before = whole(&[]);
        // a shell that spins, and this thread beside it
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let after = whole(&[]);
        let between_ns = after.at_ns - before.at_ns;
        let reported = after.since(&before, &cpus, between_ns);
        let half = after.since(&before, &cpus, between_ns / 2);
        let first: CpuSet = cpus.iter().take(1).collect();
        let narrow = after.since(&before, &first, between_ns);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let of =
            |reported: &[OtherProgram]| reported.iter().find(|one| one.pid == busy.id()).cloned();
        let found = of(&reported).unwrap_or_else(|| panic!("not in {reported:?}"));
        assert!(found.cpu_ns > 20_000_000, "{reported:?}");
        assert_eq!(found.name, "sh");
        // it may run on these CPUs only: all of it counts, half of it in half of the time
        assert_eq!(found.bound_ns, found.cpu_ns);
        let half = of(&half).expect("the same program");
        assert!((half.bound_ns as f64 * 2.0 / found.cpu_ns as f64 - 1.0).abs() < 0.01, "{half:?}");
        // where it may also run elsewhere, its time is an upper bound, unless it stayed
        if let Some(narrow) = of(&narrow) {
            assert!(narrow.bound_ns == 0 || narrow.bound_ns == found.cpu_ns, "{narrow:?}");
            assert_eq!(narrow.cpu_ns, found.cpu_ns);
        }
        assert!(reported.iter().all(|program| program.pid != std::process::id()), "{reported:?}");
    }

    fn place(last_cpu: u32, moves: Option<u64>, affinity: &[u32]) -> Place {
        Place { last_cpu, moves, affinity: affinity.iter().copied().collect() }
    }

    fn at(place: Place) -> ThreadTimes {
        ThreadTimes { ns: 0, place: Some(place) }
    }

    #[test]
    fn a_thread_that_moved_may_have_been_anywhere_it_may_run() {
        let cpus: CpuSet = [1].into_iter().collect();
        for (before, now, expected) in [
            // no move: it is where it was
            (place(0, Some(7), &[0, 1]), place(0, Some(7), &[0, 1]), Presence::Elsewhere),
            (place(1, Some(7), &[0, 1]), place(1, Some(7), &[0, 1]), Presence::Here),
            // there and back, unless its affinity has no such CPU
            (place(0, Some(7), &[0, 1]), place(0, Some(9), &[0, 1]), Presence::Perhaps),
            (place(1, Some(7), &[0, 1]), place(1, Some(9), &[0, 1]), Presence::Perhaps),
            (place(0, Some(7), &[0, 1]), place(1, Some(8), &[0, 1]), Presence::Perhaps),
            (place(0, Some(7), &[0, 2]), place(0, Some(9), &[0, 2]), Presence::Elsewhere),
            (place(1, Some(7), &[1]), place(1, Some(7), &[1]), Presence::Here),
            // an affinity that was changed in between
            (place(1, Some(7), &[1]), place(0, Some(8), &[0]), Presence::Perhaps),
            (place(0, Some(7), &[0]), place(1, Some(8), &[1]), Presence::Perhaps),
            // a kernel that does not count moves
            (place(0, None, &[0, 1]), place(0, None, &[0, 1]), Presence::Perhaps),
        ] {
            let found = presence(&cpus, Some(&at(before.clone())), Some(&now));
            assert_eq!(found, expected, "{before:?}, then {now:?}");
        }
        let new = |place: &Place| presence(&cpus, None, Some(place));
        assert_eq!(new(&place(0, Some(0), &[0, 1])), Presence::Elsewhere);
        assert_eq!(new(&place(1, Some(0), &[0, 1])), Presence::Here);
        assert_eq!(new(&place(0, Some(2), &[0, 1])), Presence::Perhaps);
        // a place that was not read
        let unknown = ThreadTimes { ns: 0, place: None };
        let now =
            |affinity: &[u32]| presence(&cpus, Some(&unknown), Some(&place(0, Some(1), affinity)));
        assert_eq!([now(&[0, 1]), now(&[0])], [Presence::Perhaps, Presence::Elsewhere]);
        let ended =
            |affinity: &[u32]| presence(&cpus, Some(&at(place(0, Some(1), affinity))), None);
        assert_eq!([ended(&[0, 1]), ended(&[0])], [Presence::Perhaps, Presence::Elsewhere]);
    }

    #[test]
    fn the_moves_of_a_thread_are_in_its_sched_file() {
        let text = "sh (7, #threads: 1)\n---\nse.vruntime      :   5.1\nse.nr_migrations  :   12\n";
        assert_eq!(parse_moves(text), Some(12));
        assert_eq!(parse_moves("sh (7, #threads: 1)\n"), None);
        assert_eq!(parse_moves("se.nr_migrations  :   x\n"), None);
    }

    /// It works on the second CPU and goes back to the first before the second reading.
    #[test]
    fn a_program_that_moved_off_the_cpus_is_reported() {
        let all = sched::affinity(sched::current_thread()).unwrap();
        let cpus: Vec<u32> = all.iter().take(2).collect();
        let [first, second] = cpus[..] else { return };
        let only = |cpu: u32| [cpu].into_iter().collect::<CpuSet>();
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let go = |cpus: &CpuSet| sched::set_affinity(busy.id() as i32, cpus).unwrap();
        go(&only(first));
        std::thread::sleep(Duration::from_millis(20));
        let before = whole(&[]);
        // what it used so far, ns: proc_pid_schedstat(5)
        let schedstat = format!("/proc/{}/schedstat", busy.id());
        let used_ns = || -> u64 {
            let times = std::fs::read_to_string(&schedstat).unwrap();
            times.split(' ').next().unwrap().parse().unwrap()
        };
        for cpu in [second, first] {
            go(&only(cpu));
            // on a busy machine it waits for its turns
            let until_ns = used_ns() + 60_000_000;
            while used_ns() < until_ns {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        go(&all);
        let after = whole(&[]);
        let reported = after.since(&before, &only(second), after.at_ns - before.at_ns);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let found = reported.iter().find(|one| one.pid == busy.id());
        let found = found.unwrap_or_else(|| panic!("not in {reported:?}"));
        assert!(found.cpu_ns > 20_000_000 && found.bound_ns == 0, "{found:?}");
    }

    #[test]
    fn an_agent_of_the_same_controller_is_no_other_program() {
        let cpus = sched::affinity(sched::current_thread()).unwrap();
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = whole(&[busy.id()]);
        std::thread::sleep(Duration::from_millis(200));
        let reported = whole(&[busy.id()]).since(&before, &cpus, 200_000_000);
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(reported.iter().all(|program| program.pid != busy.id()), "{reported:?}");
    }

    #[test]
    fn what_ran_on_other_cpus_is_not_told() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let before = ProgramTimes { threads: HashMap::new(), is_whole: true, at_ns: 0 };
        let nowhere: CpuSet = [4000].into_iter().collect();
        let reported = whole(&[]).since(&before, &nowhere, 1);
        busy.kill().unwrap();
        busy.wait().unwrap();
        // a program that ended meanwhile is told, because it may have been anywhere
        let is_alive = |one: &OtherProgram| !one.name.is_empty();
        assert!(!reported.iter().any(is_alive), "{reported:?}");
    }
}
