//! Programs that people started in a host, and the children of these programs.
//!
//! They keep the host's namespaces alive, so an orderly end of a host ends them too.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Interval of the checks whether they have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The same while they are killed.
const CHASE: Duration = Duration::from_millis(1);

/// Looks in a row that must find nobody. What begins while `/proc` is listed may be missing in the list.
const EMPTY_POLLS: u32 = 3;

/// How long after the first SIGKILL what others have started is killed too.
const OFFSPRING: Duration = Duration::from_secs(2);

/// A network namespace by device and inode, namespaces(7).
type Identity = (u64, u64);

/// Ends every process in the network namespaces of the processes `hosts`, except these and the
/// caller: by SIGTERM, and after `timeout` by SIGKILL, as long as new ones are found. Processes that the caller may
/// not access keep running.
pub fn end_programs(hosts: &[u32], timeout: Duration) {
    let namespaces: BTreeSet<Identity> =
        hosts.iter().filter_map(|host| network_of(&host.to_string())).collect();
    let spared: BTreeSet<u32> = hosts.iter().copied().chain([std::process::id()]).collect();
    let own = network_of("self");
    // a host without isolation shares the caller's namespace, which has other processes
    if namespaces.is_empty() || own.is_none_or(|own| namespaces.contains(&own)) {
        return;
    }
    let mut deadline = Instant::now() + timeout;
    let mut signal = Signal::TERM;
    let mut reported = BTreeSet::new();
    let mut looks_left = EMPTY_POLLS;
    loop {
        let mut is_empty = true;
        // each one is told as soon as it is found, before it can leave its place to a child
        for pid in programs_in(&namespaces, &spared) {
            is_empty = false;
            // each process gets a signal once
            if reported.insert(pid) {
                tell(pid, signal, &namespaces);
            }
        }
        if is_empty {
            looks_left -= 1;
            if looks_left == 0 {
                return;
            }
            continue;
        }
        looks_left = EMPTY_POLLS;
        let late = Instant::now() >= deadline;
        match (late, signal) {
            (true, Signal::KILL) => return,
            (true, _) => {
                signal = Signal::KILL;
                deadline = Instant::now() + OFFSPRING;
                reported.clear();
            }
            (false, _) => {}
        }
        // what others have started is killed before it starts more
        std::thread::sleep(if signal == Signal::KILL { CHASE } else { POLL_INTERVAL });
    }
}

/// Sends a signal to a process that is still in one of the namespaces, and not to another process
/// that has got its id meanwhile.
fn tell(pid: u32, signal: Signal, namespaces: &BTreeSet<Identity>) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if network_of(&pid.as_raw_nonzero().to_string()).is_some_and(|n| namespaces.contains(&n)) {
        // the process may have ended meanwhile
        let _ = pidfd_send_signal(process, signal);
    }
}

fn programs_in(
    namespaces: &BTreeSet<Identity>,
    spared: &BTreeSet<u32>,
) -> impl Iterator<Item = u32> {
    let inside = |name: &str| network_of(name).is_some_and(|n| namespaces.contains(&n));
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(move |entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let pid: u32 = name.parse().ok()?;
        (!spared.contains(&pid) && inside(name)).then_some(pid)
    })
}

/// A process that has ended, waited for or not, has no namespace.
fn network_of(process: &str) -> Option<Identity> {
    let namespace = fs::metadata(format!("/proc/{process}/ns/net")).ok()?;
    Some((namespace.dev(), namespace.ino()))
}
