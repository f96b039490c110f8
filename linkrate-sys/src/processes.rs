//! Processes and their threads, as `/proc` lists them.

use std::fs;
use std::io;

use crate::error::SysError;

/// Processes and threads that were started since boot, from `/proc/stat`.
pub fn forks() -> Result<u64, SysError> {
    let path = "/proc/stat";
    let text = fs::read_to_string(path).map_err(|error| SysError::new("read", path, error))?;
    let count = text.lines().find_map(|line| line.strip_prefix("processes "));
    count.and_then(|count| count.trim().parse().ok()).ok_or_else(|| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "the line \"processes\" is missing");
        SysError::new("read", path, error)
    })
}

/// The ids of all processes, kernel threads included.
pub fn ids() -> Result<Vec<u32>, SysError> {
    numbers("/proc").map_err(|error| SysError::new("read", "/proc", error))
}

/// The process that a thread belongs to; `NotFound` when it has ended.
pub fn process_of(thread: u32) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let process = text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    process.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The name of the program of a process or a thread, at most 15 bytes (`comm` in proc(5)).
///
/// # Errors
/// `NotFound` when it has ended.
pub fn program_of(process: u32) -> io::Result<String> {
    let name = fs::read(format!("/proc/{process}/comm"))?;
    Ok(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// The numeric names in a directory.
pub(crate) fn numbers(directory: &str) -> io::Result<Vec<u32>> {
    let names =
        fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// CPU time of a thread of any process, and the CPU it ran on last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its kernel id.
    pub id: u32,
    /// CPU time, ns; the time of a running thread since the last tick may be missing.
    pub cpu_ns: u64,
    /// The CPU it runs on, or ran on last.
    pub cpu: u32,
    /// Whether it is `ksoftirqd/CPU`, the kernel thread for softirqs under load.
    pub is_ksoftirqd: bool,
}

/// The threads of process `pid`, of any user; empty if the kernel does not record their times
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

/// A field of `/proc/PID/stat` by its number in proc_pid_stat(5), from 3 on. Field 2, the name, may
/// contain any character.
pub fn stat_field(stat: &str, number: usize) -> Option<&str> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(number.checked_sub(3)?)
}

/// The CPU a thread runs on, or ran on last, from the text of its `stat`.
pub fn parse_processor(stat: &str) -> Option<u32> {
    stat_field(stat, 39)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_one_of_all() {
        let before = forks().unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        assert!(forks().unwrap() > before);
        let own = std::process::id();
        assert!(ids().unwrap().contains(&own));
        let thread = crate::sched::current_thread() as u32;
        assert_eq!(process_of(thread).unwrap(), own);
        assert!(!program_of(own).unwrap().is_empty() && program_of(u32::MAX).is_err());
        let main = threads_of(own).into_iter().find(|thread| thread.id == own);
        match fs::exists("/proc/self/schedstat").unwrap() {
            true => assert!(crate::cpus::online().unwrap().contains(main.unwrap().cpu)),
            false => assert_eq!(main, None),
        }
        assert_eq!(parse_processor("7 (a) b) S 1"), None);
        assert_eq!(stat_field("7 (a) S 1", 2), None);
    }
}
