//! CPU times of the kernel: idle time in nanoseconds, steal in ticks.
//!
//! Two files have the same idle time. `/proc/timer_list` (kernel/time/timer_list.c) has
//! `idle_sleeptime` and `iowait_sleeptime` of each CPU in nanoseconds. Only root may read it, and
//! it leaves out the present idle period, so the reader must run on the CPU that it reads.
//! `/proc/stat` (fs/proc/stat.c) has the same sums, with the present period, in ticks of 10 ms.

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
    /// Time that may have been idle or busy, ns; zero for the times of the kernel.
    pub uncertain_ns: u64,
    /// Time that the hypervisor gave to other machines, ns in steps of one tick.
    pub steal_ns: u64,
    /// Time in which it was not idle by an [`OnCpuTrace`](crate::on_cpu::OnCpuTrace), ns since an arbitrary moment; `None`
    /// for the times of the kernel.
    pub cpu_awake_ns: Option<u64>,
}

/// Whether this process may read `/proc/timer_list`, which has idle time in nanoseconds.
pub fn timer_list_is_readable() -> bool {
    fs::read_to_string("/proc/timer_list").is_ok_and(|text| !parse_timer_list(&text).is_empty())
}

/// Whether the kernel records when each CPU goes idle and wakes up. The idle time of `/proc/stat`
/// is then exact except for its step, and not sampled by ticks. This needs CONFIG_NO_HZ_COMMON
/// (only then `timer_migration` exists, kernel/time/timer.c), and no `nohz=off` at boot.
pub fn is_tickless() -> bool {
    let built_in = fs::exists("/proc/sys/kernel/timer_migration").unwrap_or(false);
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    built_in && !is_told_to_tick(&command_line)
}

/// Whether `nohz=` turns it off, as in kernel/time/tick-sched.c; the last one counts.
fn is_told_to_tick(command_line: &str) -> bool {
    let mut words = command_line.split_whitespace().rev();
    let last = words.find_map(|word| word.strip_prefix("nohz="));
    last.is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "off" | "0" | "n" | "no")
    })
}

/// Reads the times of `cpu` from `/proc/timer_list`. The calling thread must run on `cpu`.
pub fn read_precise(cpu: u32) -> Result<CpuTimes, SysError> {
    let at_ns = monotonic_ns();
    let text = read("/proc/timer_list")?;
    let idle_ns = parse_timer_list(&text)
        .into_iter()
        .find(|(number, _)| *number == cpu)
        .map(|(_, idle)| idle)
        .ok_or_else(|| missing("/proc/timer_list", cpu))?;
    let steal_ns = read_coarse(cpu)?.steal_ns;
    Ok(CpuTimes { cpu, at_ns, idle_ns, uncertain_ns: 0, steal_ns, cpu_awake_ns: None })
}

/// Reads the times of `cpu` from `/proc/stat`.
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
        uncertain_ns: 0,
        steal_ns: steal_ticks.saturating_mul(ns_per_tick),
        cpu_awake_ns: None,
    })
}

/// Number of idle periods of each CPU since boot, from `/proc/timer_list` (`idle_calls`); an
/// interrupt starts a new period. Empty if the file cannot be read.
pub fn idle_entries() -> BTreeMap<u32, u64> {
    fs::read_to_string("/proc/timer_list").map(|text| parse_idle_entries(&text)).unwrap_or_default()
}

/// Number of idle periods of each CPU, from the text of `/proc/timer_list`.
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

/// Where the time of one CPU has gone since boot, in ticks: the columns of `/proc/stat`, proc(5). Time of
/// guests is part of `user` and `nice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStates {
    /// CPU number.
    pub cpu: u32,
    /// Programs of normal priority.
    pub user: u64,
    /// Programs of lower priority.
    pub nice: u64,
    /// The kernel on behalf of programs.
    pub system: u64,
    /// Nothing.
    pub idle: u64,
    /// Nothing, while I/O is on its way.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Other machines of the hypervisor.
    pub steal: u64,
}

impl CpuStates {
    /// All ticks.
    pub fn total(&self) -> u64 {
        let busy = [self.user, self.nice, self.system, self.irq, self.softirq, self.steal];
        let idle = self.idle.saturating_add(self.iowait);
        busy.into_iter().fold(idle, u64::saturating_add)
    }

    /// The ticks since `earlier`; none in a column that went back.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu,
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// Where the time of each CPU that is online has gone.
pub fn cpu_states() -> Result<Vec<CpuStates>, SysError> {
    read("/proc/stat").map(|text| parse_cpu_states(&text))
}

/// The same from the text of `/proc/stat`. A kernel that lacks a column has no time in it.
pub fn parse_cpu_states(text: &str) -> Vec<CpuStates> {
    let of_line = |line: &str| {
        // the line of all CPUs has no number
        let (number, columns) = line.strip_prefix("cpu")?.split_once(' ')?;
        let cpu = number.parse().ok()?;
        let mut words = columns.split_ascii_whitespace();
        let mut column = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        Some(CpuStates {
            cpu,
            user: column(),
            nice: column(),
            system: column(),
            idle: column(),
            iowait: column(),
            irq: column(),
            softirq: column(),
            steal: column(),
        })
    };
    text.lines().filter_map(of_line).collect()
}

/// USER_HZ, the unit of `/proc/stat`.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

fn read(path: &str) -> Result<String, SysError> {
    fs::read_to_string(path).map_err(|error| SysError::new("read", path, error))
}

fn missing(path: &str, cpu: u32) -> SysError {
    let error = io::Error::new(io::ErrorKind::NotFound, format!("CPU {cpu} is not listed"));
    SysError::new("read", path, error)
}

/// CPUs with their idle time, ns, from the text of `/proc/timer_list`. Time waiting for I/O, which
/// the kernel records separately, counts as idle.
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
    // without tickless idle the kernel lists CPUs without idle times
    cpus.retain(|(_, idle)| *idle > 0);
    cpus
}

/// Idle and stolen time of a CPU in ticks, from the text of `/proc/stat`; waiting for I/O counts as
/// idle.
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
    fn stat_gives_the_columns_of_each_cpu() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu11 1 1 1 100\nintr 7\ncpux 1\n";
        let states = parse_cpu_states(text);
        let [first, second] = states[..] else { panic!("two CPUs") };
        assert_eq!((first.cpu, first.user, first.steal, first.total()), (0, 1, 8, 36));
        assert_eq!((second.cpu, second.idle, second.total()), (11, 100, 103));
        let later = CpuStates { user: 11, idle: 0, ..first };
        assert_eq!(later.since(&first), CpuStates { user: 10, ..CpuStates::default() });
        let here = cpu_states().unwrap();
        assert!(!here.is_empty() && here.iter().all(|cpu| cpu.total() > 0));
    }

    #[test]
    fn sums_past_the_end_stay_there() {
        let most = u64::MAX;
        let text = format!("cpu: 0\n .idle_sleeptime: {most} nsecs\n .iowait_sleeptime: 1 nsecs\n");
        assert_eq!(parse_timer_list(&text), [(0, most)]);
        assert_eq!(parse_stat(&format!("cpu0 1 1 1 {most} 1 0 0 7\n"), 0), Some((most, 7)));
    }

    #[test]
    fn the_command_line_can_keep_the_tick() {
        for (line, reported) in [
            ("quiet nohz=off", true),
            ("nohz=0 x", true),
            ("nohz=off nohz=on", false),
            ("nohz_full=1-3 quiet", false),
            ("", false),
        ] {
            assert_eq!(is_told_to_tick(line), reported, "{line}");
        }
    }

    #[test]
    fn this_host_lists_its_cpus() {
        let online = crate::cpus::online().unwrap();
        for cpu in online.iter() {
            let first = read_coarse(cpu).unwrap();
            let second = read_coarse(cpu).unwrap();
            assert!(second.at_ns >= first.at_ns && second.idle_ns >= first.idle_ns);
        }
        assert!(read_coarse(8000).is_err());
    }
}
