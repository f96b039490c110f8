//! CPU time from the kernel's own books: idle time to the nanosecond, steal in ticks.
//!
//! Two sources give the same idle time. `/proc/timer_list` (kernel/time/timer_list.c) prints
//! `idle_sleeptime` and `iowait_sleeptime` of each CPU in nanoseconds, but only root may read it,
//! and it leaves out the idle period that is still under way: a CPU must be awake while it is read,
//! so the reader visits it. `/proc/stat` (fs/proc/stat.c) prints the same sums, the period under
//! way included, in ticks of 10 ms.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use crate::clock::monotonic_ns;
use crate::error::SysError;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Idle and stolen time of one CPU since boot, and when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// CPU number.
    pub cpu: u32,
    /// CLOCK_MONOTONIC at the reading, ns.
    pub at_ns: u64,
    /// Idle time, waiting for I/O included, ns.
    pub idle_ns: u64,
    /// Time that may have been idle or not, ns; the kernel's books have none.
    pub unsure_ns: u64,
    /// Time the hypervisor gave to others, ns in steps of one tick.
    pub steal_ns: u64,
    /// Time of threads, and of softirqs beside them, by [`AwakeTimes`](crate::awake::AwakeTimes), ns;
    /// the kernel's books have none.
    pub awake_ns: Option<u64>,
}

/// Whether this process may read `/proc/timer_list`, so that idle time comes in nanoseconds.
pub fn timer_list_is_readable() -> bool {
    fs::read_to_string("/proc/timer_list").is_ok_and(|text| !parse_timer_list(&text).is_empty())
}

/// Whether the kernel notes when each CPU goes idle and wakes, so that the idle time of
/// `/proc/stat` is exact but for its step, and not itself sampled by ticks: CONFIG_NO_HZ_COMMON
/// (only then there is a `timer_migration`, kernel/time/timer.c), not switched off at boot.
pub fn is_tickless() -> bool {
    let built_in = fs::exists("/proc/sys/kernel/timer_migration").unwrap_or(false);
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    built_in && !told_to_tick(&command_line)
}

/// `nohz=` as early_param takes it, kernel/time/tick-sched.c; the last one counts.
fn told_to_tick(command_line: &str) -> bool {
    let mut words = command_line.split_whitespace().rev();
    let last = words.find_map(|word| word.strip_prefix("nohz="));
    last.is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "off" | "0" | "n" | "no")
    })
}

/// Processes and threads that were started since boot, from `/proc/stat`.
///
/// # Errors
/// When the file cannot be read.
pub fn forks() -> Result<u64, SysError> {
    let path = "/proc/stat";
    let text = read(path)?;
    let count = text.lines().find_map(|line| line.strip_prefix("processes "));
    count.and_then(|count| count.trim().parse().ok()).ok_or_else(|| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "no number of processes");
        SysError::new("read", path, error)
    })
}

/// The ids of all processes, kernel threads included.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn processes() -> Result<Vec<u32>, SysError> {
    numbers("/proc").map_err(|error| SysError::new("read", "/proc", error))
}

/// The entries of a directory that are numbers.
pub(crate) fn numbers(directory: &str) -> io::Result<Vec<u32>> {
    let names =
        fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// A thread of any process: what it has used, and where it was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its kernel id.
    pub id: u32,
    /// CPU time, ns; what a running thread has used since the last tick may be missing.
    pub cpu_ns: u64,
    /// The CPU it runs on, or ran on last.
    pub cpu: u32,
    /// Whether it is the kernel's thread for softirqs that came too fast, `ksoftirqd/CPU`.
    pub is_ksoftirqd: bool,
}

/// The threads of process `pid`, of any user; none where the kernel does not keep their times
/// (CONFIG_SCHED_INFO), or the process has ended.
pub fn threads_of(pid: u32) -> Vec<ThreadPlace> {
    let place = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{id}/stat")).ok()?;
        Some(ThreadPlace {
            id,
            cpu_ns: thread_cpu_ns(pid, id)?,
            cpu: parse_processor(&stat)?,
            is_ksoftirqd: stat.contains(" (ksoftirqd/"),
        })
    };
    let tasks = numbers(&format!("/proc/{pid}/task")).unwrap_or_default();
    tasks.into_iter().filter_map(place).collect()
}

/// CPU time of a thread of any user, ns, from its `schedstat`
/// (Documentation/scheduler/sched-stats.rst); `None` once it has ended.
pub(crate) fn thread_cpu_ns(process: u32, thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// A field of `/proc/PID/stat` after the name, by its number in proc_pid_stat(5), from 3 on; the name
/// in field 2 may hold anything.
pub fn stat_field(stat: &str, number: usize) -> Option<&str> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(number.checked_sub(3)?)
}

/// The CPU a thread runs on, or ran on last, from the text of its `stat`.
pub fn parse_processor(stat: &str) -> Option<u32> {
    stat_field(stat, 39)?.parse().ok()
}

/// Reads the times of `cpu` from `/proc/timer_list`. The calling thread must be running on it.
///
/// # Errors
/// When the file cannot be read or does not list the CPU.
pub fn read_precise(cpu: u32) -> Result<CpuTimes, SysError> {
    let at_ns = monotonic_ns();
    let text = read("/proc/timer_list")?;
    let idle_ns = parse_timer_list(&text)
        .into_iter()
        .find(|(number, _)| *number == cpu)
        .map(|(_, idle)| idle)
        .ok_or_else(|| missing("/proc/timer_list", cpu))?;
    let steal_ns = read_coarse(cpu)?.steal_ns;
    Ok(CpuTimes { cpu, at_ns, idle_ns, unsure_ns: 0, steal_ns, awake_ns: None })
}

/// Reads the times of `cpu` from `/proc/stat`.
///
/// # Errors
/// When the file cannot be read or does not list the CPU.
pub fn read_coarse(cpu: u32) -> Result<CpuTimes, SysError> {
    let at_ns = monotonic_ns();
    let text = read("/proc/stat")?;
    let (idle_ticks, steal_ticks) =
        parse_stat(&text, cpu).ok_or_else(|| missing("/proc/stat", cpu))?;
    let ns_per_tick = NS_PER_SECOND / ticks_per_second();
    Ok(CpuTimes {
        cpu,
        at_ns,
        idle_ns: idle_ticks.saturating_mul(ns_per_tick),
        unsure_ns: 0,
        steal_ns: steal_ticks.saturating_mul(ns_per_tick),
        awake_ns: None,
    })
}

/// How often each CPU began to idle since boot, from `/proc/timer_list` (`idle_calls`): each time
/// an interrupt wakes it, it begins anew. Empty where the file cannot be read.
pub fn idle_entries() -> BTreeMap<u32, u64> {
    fs::read_to_string("/proc/timer_list").map(|text| parse_idle_entries(&text)).unwrap_or_default()
}

/// How often each CPU began to idle, from the text of `/proc/timer_list`.
pub fn parse_idle_entries(text: &str) -> BTreeMap<u32, u64> {
    let mut entries = BTreeMap::new();
    let mut cpu = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("cpu:") {
            cpu = number.trim().parse().ok();
        } else if let Some((name, value)) = line.trim_start().split_once(':')
            && name.trim() == ".idle_calls"
            && let (Some(cpu), Ok(count)) = (cpu, value.trim().parse())
        {
            entries.insert(cpu, count);
        }
    }
    entries
}

/// USER_HZ, the unit of `/proc/stat`.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

/// The CPUs that are online, from `/sys/devices/system/cpu/online`.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn online_cpus() -> Result<linkrate_terms::CpuSet, SysError> {
    cpu_list("/sys/devices/system/cpu/online")
}

/// The CPUs that may ever be there, from `/sys/devices/system/cpu/possible`.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn possible_cpus() -> Result<linkrate_terms::CpuSet, SysError> {
    cpu_list("/sys/devices/system/cpu/possible")
}

/// Hardware threads of the core of `cpu`, itself included; `cpu` alone where the kernel does not say
/// (`thread_siblings_list`, Documentation/admin-guide/cputopology.rst).
pub fn siblings_of(cpu: u32) -> linkrate_terms::CpuSet {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    cpu_list(&path).unwrap_or_else(|_| [cpu].into_iter().collect())
}

fn cpu_list(path: &str) -> Result<linkrate_terms::CpuSet, SysError> {
    let text = read(path)?;
    text.trim().parse().map_err(|error| {
        SysError::new("read", path, io::Error::new(io::ErrorKind::InvalidData, error))
    })
}

fn read(path: &str) -> Result<String, SysError> {
    fs::read_to_string(path).map_err(|error| SysError::new("read", path, error))
}

fn missing(path: &str, cpu: u32) -> SysError {
    let error = io::Error::new(io::ErrorKind::NotFound, format!("CPU {cpu} is not listed"));
    SysError::new("read", path, error)
}

/// CPUs with their idle time in ns, from the text of `/proc/timer_list`. Idle time that waits for I/O
/// is kept apart by the kernel and is idle all the same.
pub fn parse_timer_list(text: &str) -> Vec<(u32, u64)> {
    let mut cpus: Vec<(u32, u64)> = Vec::new();
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("cpu:") {
            if let Ok(number) = number.trim().parse() {
                cpus.push((number, 0));
            }
        } else if let Some((name, value)) = line.trim_start().split_once(':')
            && matches!(name.trim(), ".idle_sleeptime" | ".iowait_sleeptime")
            && let Some(cpu) = cpus.last_mut()
            && let Ok(ns) = value.trim().trim_end_matches("nsecs").trim().parse::<u64>()
        {
            cpu.1 = cpu.1.saturating_add(ns);
        }
    }
    // without tickless idle the kernel prints CPUs but no idle times
    cpus.retain(|(_, idle)| *idle > 0);
    cpus
}

/// Idle and stolen time of a CPU in ticks, from the text of `/proc/stat`; waiting for I/O is idle.
pub fn parse_stat(text: &str, cpu: u32) -> Option<(u64, u64)> {
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(name.as_str()))?;
    let fields: Vec<u64> =
        line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    Some((fields.get(3)?.saturating_add(*fields.get(4)?), fields.get(7).copied().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER_LIST: &str = "Timer List Version: v0.10\nnow at 672714705604 nsecs\n\ncpu: 0\n clock 0:\n\
        \x20 .idle_sleeptime : 557416138775 nsecs\n  .iowait_sleeptime: 144726910 nsecs\n\
        cpu: 1\n  .idle_sleeptime : 7 nsecs\n  .iowait_sleeptime: 1 nsecs\n\n\
        Tick Device: mode:     1\nPer CPU device: 0\n";

    #[test]
    fn timer_list_gives_nanoseconds_per_cpu() {
        assert_eq!(parse_timer_list(TIMER_LIST), [(0, 557_560_865_685), (1, 8)]);
    }

    #[test]
    fn timer_list_counts_idle_periods() {
        let text =
            "cpu: 0\n  .idle_calls      : 12\n  .idle_sleeps     : 9\ncpu: 3\n  .idle_calls: 7\n";
        assert_eq!(parse_idle_entries(text), BTreeMap::from([(0, 12), (3, 7)]));
        assert!(parse_idle_entries(".idle_calls: 9\ncpu: x\n .idle_calls: 1\n").is_empty());
    }

    #[test]
    fn stat_gives_idle_with_iowait_and_steal() {
        let text = "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 1 1 100 10 1 1 2 0 0\n";
        assert_eq!(parse_stat(text, 0), Some((9, 8)));
        assert_eq!(parse_stat(text, 1), Some((110, 2)));
        assert_eq!(parse_stat(text, 2), None);
        assert_eq!(parse_stat("cpu0 1 2", 0), None);
    }

    #[test]
    fn sums_past_the_end_stay_there() {
        let most = u64::MAX;
        let text = format!("cpu: 0\n .idle_sleeptime: {most} nsecs\n .iowait_sleeptime: 1 nsecs\n");
        assert_eq!(parse_timer_list(&text), [(0, most)]);
        assert_eq!(parse_stat(&format!("cpu0 1 1 1 {most} 1 0 0 7\n"), 0), Some((most, 7)));
        assert_eq!(stat_field("7 (a) S 1", 2), None);
    }

    #[test]
    fn the_command_line_can_keep_the_tick() {
        for (line, told) in [
            ("quiet nohz=off", true),
            ("nohz=0 x", true),
            ("nohz=off nohz=on", false),
            ("nohz_full=1-3 quiet", false),
            ("", false),
        ] {
            assert_eq!(told_to_tick(line), told, "{line}");
        }
    }

    #[test]
    fn this_process_is_one_of_all() {
        let before = forks().unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        assert!(forks().unwrap() > before);
        let own = std::process::id();
        assert!(processes().unwrap().contains(&own));
        let main = threads_of(own).into_iter().find(|thread| thread.id == own);
        match fs::exists("/proc/self/schedstat").unwrap() {
            true => assert!(online_cpus().unwrap().contains(main.unwrap().cpu)),
            false => assert_eq!(main, None),
        }
        assert_eq!(parse_processor("7 (a) b) S 1"), None);
    }

    #[test]
    fn this_host_lists_its_cpus() {
        let online = online_cpus().unwrap();
        for cpu in online.iter() {
            let first = read_coarse(cpu).unwrap();
            let second = read_coarse(cpu).unwrap();
            assert!(second.at_ns >= first.at_ns && second.idle_ns >= first.idle_ns);
        }
        assert!(read_coarse(8000).is_err());
    }
}
