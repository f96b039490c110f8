//! How many files a process may have open, RLIMIT_NOFILE of getrlimit(2).

use std::io;
use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// What a process opens beside what was asked for: sockets, counters, and itself.
const BESIDE: u64 = 5_000;

/// That of this process when it began, once it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process open `count` files more than it usually has. Its hard limit is raised as well, where
/// the process may do so.
///
/// # Errors
/// `QuotaExceeded` with the limit, if it is lower.
pub fn allow(count: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let Some(wanted) = above(&limit, count) else { return Ok(()) };
    BEFORE.get_or_init(|| limit);
    setrlimit(Resource::Nofile, wanted).map_err(|error| refused(&limit, count, error.into()))
}

/// Lets this process open `most` files in all, or as many as its hard limit allows. Returns how many it may open.
pub fn raise(most: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(most, |hard| hard.min(most));
    let Some(current) = limit.current else { return most };
    if current >= wanted {
        return current;
    }
    BEFORE.get_or_init(|| limit);
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_or(current, |()| wanted)
}

/// The same as [`allow`] for another process of the same user.
///
/// # Errors
/// As [`allow`]; `ESRCH` when it has ended.
pub fn allow_of(process: u32, count: u64) -> io::Result<()> {
    let none = || io::Error::from(io::ErrorKind::InvalidInput);
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(none)?;
    let text = std::fs::read_to_string(format!("/proc/{process}/limits"))?;
    let limit = of_text(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let Some(wanted) = above(&limit, count) else { return Ok(()) };
    let set = prlimit(Some(pid), Resource::Nofile, wanted);
    set.map(|_| ()).map_err(|error| refused(&limit, count, error.into()))
}

/// The limit that programs are started with, which know nothing of the raised one; `None` where it was not
/// raised.
pub(crate) fn of_programs() -> Option<Rlimit> {
    BEFORE.get().copied()
}

/// The limits that allow `count` files; `None` where `limit` does.
fn above(limit: &Rlimit, count: u64) -> Option<Rlimit> {
    let wanted = count.saturating_add(BESIDE);
    limit.current.filter(|current| *current < wanted)?;
    Some(Rlimit { current: Some(wanted), maximum: limit.maximum.map(|most| most.max(wanted)) })
}

fn refused(limit: &Rlimit, count: u64, error: io::Error) -> io::Error {
    match limit.maximum {
        Some(most) if error.raw_os_error() != Some(libc::ESRCH) => {
            let message = format!("{count} open files, the limit of the process is {most} in all");
            io::Error::new(io::ErrorKind::QuotaExceeded, message)
        }
        _ => error,
    }
}

/// The limit in `/proc/PID/limits`.
fn of_text(text: &str) -> Option<Rlimit> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_ascii_whitespace();
    let mut limit = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Rlimit { current: limit()?, maximum: limit()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_suffice_stay() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let of = |current, maximum| above(&limit(current, maximum), 10_000);
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(15_000), Some(15_000)), None);
        assert_eq!(of(Some(1024), Some(500_000)), Some(limit(Some(15_000), Some(500_000))));
        assert_eq!(of(Some(1024), None), Some(limit(Some(15_000), None)));
        assert_eq!(of(Some(1024), Some(4096)), Some(limit(Some(15_000), Some(15_000))));
    }

    #[test]
    fn more_files_than_the_kernel_allows_are_refused() {
        allow(10).unwrap();
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let error = allow(u64::MAX / 2).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded, "{error}");
        }
    }

    #[test]
    fn the_limit_is_raised_as_far_as_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
        assert_eq!(raise(1 << 40), hard);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(hard));
        assert_eq!(raise(1), hard, "it is never lowered");
    }

    #[test]
    fn the_limit_of_another_process_is_raised() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let read = |pid: u32| {
            of_text(&std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap()).unwrap()
        };
        let pid = child.id();
        let most = read(pid).maximum.map_or(50_000, |most| most.min(50_000));
        let small = Rlimit { current: Some(64), maximum: read(pid).maximum };
        prlimit(Pid::from_raw(pid as i32), Resource::Nofile, small).unwrap();
        let raised = allow_of(pid, most - BESIDE);
        let after = read(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        raised.unwrap();
        assert_eq!(after.current, Some(most));
        assert!(allow_of(pid, u64::MAX / 2).is_err());
    }

    #[test]
    fn text_without_the_limit_has_none() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  unlimited  files\n";
        let limit = Rlimit { current: Some(1024), maximum: None };
        assert_eq!(of_text(text), Some(limit));
        assert_eq!(of_text("Max open files"), None);
        assert_eq!(of_text(""), None);
    }
}
