//! Limits that the surroundings set to this process, and which of them it has met.
//!
//! A call that meets one is refused with an error that has other causes too (`EAGAIN` of clone(2)), or a process is
//! killed, as the kernel chooses. So what control groups refuse is counted from the beginning of a command to its failure;
//! of getrlimit(2) the errors say it, together with a limit that is set.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{Resource, geteuid, getrlimit};

use crate::cgroup;

mod witness;

pub use witness::Witness;

/// A limit of a control group: its controller, its file, the file and the word that count what it refused, and what of.
const OF_GROUPS: [(&str, &str, &str, &str, &str); KINDS] = [
    ("pids", "pids.max", "pids.events", "max", "processes and threads"),
    ("memory", "memory.max", "memory.events", "oom_kill", "bytes of memory"),
    // version 1
    ("memory", "memory.limit_in_bytes", "memory.oom_control", "oom_kill", "bytes of memory"),
];

const KINDS: usize = 3;

/// That of processes among [`OF_GROUPS`]; the others are of memory.
const PROCESSES: usize = 0;

/// What version 1 has for no limit is above it.
const NO_LIMIT: u64 = 1 << 62;

/// A limit of processes that is farther away than this explains no failure: labs have some threads for each host.
const NEAR: u64 = 200;

/// What control groups had refused when this process began, for each of [`OF_GROUPS`]; the periods of quotas of CPU time by
/// then, and those of them whose quota was used up.
static BEFORE: OnceLock<([u64; KINDS], [u64; 2])> = OnceLock::new();

/// One of so many periods that is used up explains a failure.
const OFTEN: u64 = 10;

/// A limit that was met, as a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    what: String,
    /// How to raise it.
    pub hint: &'static str,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Where memory is short, has the kernel end this process rather than its controller, which can then say what has happened:
/// it counts as larger by 30 % of the limit. A program that has taken most of the memory still ends first.
pub fn prefer_to_end() {
    // a kernel that refuses chooses as it likes
    let _ = fs::write("/proc/self/oom_score_adj", "300");
}

/// Counts from now on what control groups refuse.
pub fn watch() {
    BEFORE.get_or_init(|| {
        let own = own_groups();
        (refused(&groups(&own), &read), periods(&own))
    });
}

/// The limit that explains a failure with these reasons, each as [`io::Error`] prints it; `None` where no limit does.
#[must_use]
pub fn reached(reasons: &str) -> Option<Reached> {
    let own = own_groups();
    let before = BEFORE.get();
    let of_groups = before.and_then(|(refused, _)| of_groups(*refused, &groups(&own), &read));
    of_groups.or_else(|| {
        let limit = |resource| {
            let most = getrlimit(resource).current?;
            // processes are those of a user all together, and root has no such limit
            let is_far = || geteuid().is_root() || tasks_of_user() + NEAR < most;
            (resource != Resource::Nproc || !is_far()).then_some(most)
        };
        of_process(reasons, &limit).or_else(|| of_cpu_time(before?.1, periods(&own)))
    })
}

/// The quota of CPU time, if it was used up often.
fn of_cpu_time(before: [u64; 2], now: [u64; 2]) -> Option<Reached> {
    let [all, used_up] = [0, 1].map(|of| now[of].saturating_sub(before[of]));
    if used_up == 0 || used_up * OFTEN < all {
        return None;
    }
    let hint = "raise the quota there (systemd: CPUQuota=, docker: --cpus)";
    Some(Reached { what: cgroup::cpu_quota()?.to_string(), hint })
}

/// The periods of quotas of CPU time so far, and those whose quota was used up.
fn periods(own: &str) -> [u64; 2] {
    let stats: Vec<String> = cgroup::directories(own, "cpu")
        .iter()
        .filter_map(|group| read(&group.join("cpu.stat")))
        .collect();
    ["nr_periods", "nr_throttled"].map(|name| {
        let counts = stats.iter().filter_map(|text| count_in(text, name));
        counts.fold(0, u64::saturating_add)
    })
}

/// The count behind a name, of a file with one of each a line.
fn count_in(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(known, _)| *known == name)?.1.trim().parse().ok()
}

/// Whether an error is a lack of descriptors or of memory, so that it says nothing about what was looked at.
#[must_use]
pub fn is_lack(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Processes and threads of the user of this process.
fn tasks_of_user() -> u64 {
    let user = geteuid().as_raw().to_string();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tasks = all.filter_map(|entry| {
        let status = read(&entry.path().join("status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let is_own = field("Uid:")?.split_whitespace().next() == Some(&user);
        is_own.then(|| field("Threads:")?.trim().parse::<u64>().ok())?
    });
    tasks.sum()
}

/// The control groups of this process, as the kernel prints them.
fn own_groups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// Their directories for each of [`OF_GROUPS`].
fn groups(own: &str) -> [Vec<PathBuf>; KINDS] {
    OF_GROUPS.map(|(controller, ..)| cgroup::directories(own, controller))
}

/// What groups have refused, all together.
fn refused(groups: &[Vec<PathBuf>; KINDS], read: &dyn Fn(&Path) -> Option<String>) -> [u64; KINDS] {
    std::array::from_fn(|kind| {
        let (_, _, events, word, _) = OF_GROUPS[kind];
        let counts =
            groups[kind].iter().filter_map(|group| count_in(&read(&group.join(events))?, word));
        counts.fold(0, u64::saturating_add)
    })
}

fn of_groups(
    before: [u64; KINDS],
    groups: &[Vec<PathBuf>; KINDS],
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<Reached> {
    let now = refused(groups, read);
    let kind = (0..OF_GROUPS.len()).find(|kind| now[*kind] > before[*kind])?;
    let (_, _, _, _, what) = OF_GROUPS[kind];
    let what = match least(kind, groups, read) {
        Some((most, path)) => {
            format!("a control group allows {most} {what} ({})", path.display())
        }
        // one above those that a container sees
        None => format!("a control group allows no more {what}"),
    };
    let hint = match kind {
        PROCESSES => {
            "raise the limit there (systemd: TasksMax=, docker: --pids-limit), or ask for fewer clients and ports"
        }
        _ => {
            "raise the limit there (systemd: MemoryMax=, docker: --memory), or ask for fewer clients and ports"
        }
    };
    Some(Reached { what, hint })
}

/// The least limit of a kind that groups set, and its file.
fn least(
    kind: usize,
    groups: &[Vec<PathBuf>; KINDS],
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<(u64, PathBuf)> {
    let (_, file, ..) = OF_GROUPS[kind];
    let limits = groups[kind].iter().filter_map(|group| {
        let path = group.join(file);
        let most = read(&path)?.trim().parse::<u64>().ok()?;
        (most < NO_LIMIT).then_some((most, path))
    });
    limits.min()
}

fn of_process(reasons: &str, limit: &dyn Fn(Resource) -> Option<u64>) -> Option<Reached> {
    let has = |errno: i32| reasons.contains(&format!("(os error {errno})"));
    let may = |most: u64, what: &str, option: &str| format!("{most} {what} (ulimit -{option})");
    if has(libc::EMFILE) || reasons.contains("open files, the limit of the process") {
        let what = limit(Resource::Nofile).map(|most| may(most, "open files", "n"))?;
        let hint = "raise the limit on open files: ulimit -n, or LimitNOFILE= of its unit";
        return Some(Reached { what: format!("this process may have {what}"), hint });
    }
    if has(libc::ENFILE) {
        let what = "this machine has no more open files (fs.file-max)".to_owned();
        return Some(Reached { what, hint: "raise it: sysctl -w fs.file-max=NUMBER" });
    }
    if has(libc::EAGAIN) {
        let what = limit(Resource::Nproc).map(|most| may(most, "processes and threads", "u"))?;
        let hint = "raise the limit on processes: ulimit -u, or LimitNPROC= of its unit";
        return Some(Reached { what: format!("this user may have {what}"), hint });
    }
    if has(libc::ENOMEM) {
        let what = limit(Resource::As).map(|most| may(most, "bytes of memory", "v"))?;
        let hint = "raise the limit on memory: ulimit -v, or LimitAS= of its unit";
        return Some(Reached { what: format!("this process may have {what}"), hint });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_has_refused_since_the_beginning_names_the_least_limit() {
        let files = |count: u32| {
            move |path: &Path| {
                let text = match path.to_str()? {
                    "/a/pids.events" => format!("max {count}\n"),
                    "/a/b/pids.max" => "max\n".to_owned(),
                    "/a/pids.max" => "12\n".to_owned(),
                    "/memory.events" => "low 0\noom 3\noom_kill 2\n".to_owned(),
                    _ => return None,
                };
                Some(text)
            }
        };
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let groups = [paths(&["/a/b", "/a", "/"]), paths(&["/"]), paths(&["/"])];
        let before = refused(&groups, &files(5));
        assert_eq!(before, [5, 2, 0]);
        assert_eq!(of_groups(before, &groups, &files(5)), None);
        let reached = of_groups(before, &groups, &files(6)).unwrap().to_string();
        assert_eq!(reached, "a control group allows 12 processes and threads (/a/pids.max)");
        let reached = of_groups([6, 1, 0], &groups, &files(6)).unwrap().to_string();
        assert_eq!(reached, "a control group allows no more bytes of memory");
    }

    #[test]
    fn a_limit_of_the_process_needs_an_error_and_a_limit() {
        let limit = |resource| match resource {
            Resource::Nofile => Some(64),
            Resource::Nproc => Some(7),
            _ => None,
        };
        let reached =
            |reasons: &str| of_process(reasons, &limit).map(|reached| reached.to_string());
        assert_eq!(
            reached("open a: Too many open files (os error 24)").unwrap(),
            "this process may have 64 open files (ulimit -n)"
        );
        assert_eq!(
            reached("connect: Resource temporarily unavailable (os error 11)").unwrap(),
            "this user may have 7 processes and threads (ulimit -u)"
        );
        assert_eq!(reached("map: Cannot allocate memory (os error 12)"), None);
        assert_eq!(reached("agent of sut: died (os error 110)"), None);
    }

    #[test]
    fn a_lack_of_descriptors_is_one_of_this_process() {
        assert!(is_lack(&io::Error::from_raw_os_error(libc::EMFILE)));
        assert!(!is_lack(&io::ErrorKind::NotFound.into()));
    }
}
