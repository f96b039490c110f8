//! The NAPI threads of TAPs. Nothing tells them: a TAP's NAPI instances have no number (`netif_napi_add_tx`), so that generic
//! netlink leaves them out. They are found by their name among the processes that have just begun.

use std::fs;
use std::io;

/// The most processes that may begin meanwhile.
const MAX_PROCESSES: u32 = 4096;

/// The length of a process's name, `TASK_COMM_LEN` without its zero.
const NAME_LENGTH: usize = 15;

/// The process that began last on this machine, proc_loadavg(5).
pub(super) fn newest_process() -> io::Result<u32> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let last = text.split_whitespace().last().and_then(|word| word.parse().ok());
    last.ok_or_else(|| io::Error::other(format!("unexpected content \"{text}\" of /proc/loadavg")))
}

/// The NAPI thread of an interface that began behind process `before`, and not behind `newest`.
pub(super) fn of_interface(interface: &str, before: u32, newest: u32) -> io::Result<u32> {
    let name = name(interface);
    let highest = fs::read_to_string("/proc/sys/kernel/pid_max")?;
    let highest = highest.trim().parse().unwrap_or(u32::MAX);
    let found: Vec<u32> = between(before, newest, highest)
        .filter(|process| {
            let is = fs::read_to_string(format!("/proc/{process}/comm"));
            is.is_ok_and(|is| is.trim_end().starts_with(&name))
        })
        .collect();
    match found[..] {
        [thread] => Ok(thread),
        _ => Err(io::Error::other(format!("{} threads \"{name}\" began, not 1", found.len()))),
    }
}

/// How the kernel names it (`napi_kthread_create`, net/core/dev.c), without the number.
fn name(interface: &str) -> String {
    let name = format!("napi/{interface}-");
    name.get(..NAME_LENGTH).map_or(name.clone(), str::to_owned)
}

/// The numbers behind `before` up to `newest`, which go around at `highest`.
fn between(before: u32, newest: u32, highest: u32) -> impl Iterator<Item = u32> {
    let count = match newest.checked_sub(before) {
        Some(count) => count,
        None => highest.saturating_sub(before).saturating_add(newest),
    };
    (1..=count.min(MAX_PROCESSES)).map(move |step| {
        let number = before.saturating_add(step);
        if number < highest { number } else { number - highest }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_processes_go_around() {
        let all = |before, newest| between(before, newest, 100).collect::<Vec<_>>();
        assert_eq!(all(7, 7), [0; 0]);
        assert_eq!(all(7, 10), [8, 9, 10]);
        assert_eq!(all(98, 2), [99, 0, 1, 2]);
        assert_eq!(between(1, u32::MAX, u32::MAX).count(), MAX_PROCESSES as usize);
    }

    #[test]
    fn the_kernel_cuts_long_names() {
        assert_eq!(name("eth0"), "napi/eth0-");
        assert_eq!(name("a-long-interface"), "napi/a-long-int");
    }

    #[test]
    fn a_process_that_has_begun_is_the_newest_one_or_older() {
        let before = newest_process().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let newest = newest_process().unwrap();
        assert!(between(before, newest, u32::MAX).any(|process| process == child.id()));
        child.wait().unwrap();
    }
}
