//! The descriptors of another process, as `/proc` shows them, and what epoll(7) knows of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::{processes, sched};

/// The name of an epoll set in `/proc/PID/fd`.
const SET: &str = "anon_inode:[eventpoll]";

/// A descriptor of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its number.
    pub number: RawFd,
    /// Whether it is closed when its process executes another program.
    pub close_on_exec: bool,
}

/// A descriptor in an epoll set of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The descriptor of the epoll set.
    pub set: RawFd,
    /// The descriptor in it.
    pub number: RawFd,
    /// What is waited for.
    pub events: u32,
    /// What the program gets back.
    pub data: u64,
}

/// The descriptors of a process or thread that name a socket.
///
/// # Errors
/// When the process has ended, or may not be looked at.
pub fn of_socket(process: u32, inode: u64) -> io::Result<Vec<Held>> {
    let name = format!("socket:[{inode}]");
    let held = with_name(process, &name)?.into_iter().filter_map(|number| {
        closes_on_exec(process, number).ok().map(|close_on_exec| Held { number, close_on_exec })
    });
    Ok(held.collect())
}

/// A descriptor of a process or thread, if it names a socket.
pub fn of_number(process: u32, number: RawFd, inode: u64) -> io::Result<Option<Held>> {
    let target = match fs::read_link(format!("/proc/{process}/fd/{number}")) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if target.as_os_str() != format!("socket:[{inode}]").as_str() {
        return Ok(None);
    }
    let close_on_exec = closes_on_exec(process, number)?;
    Ok(Some(Held { number, close_on_exec }))
}

/// The processes that have a descriptor of a socket, as far as the caller may look.
pub fn holders(inode: u64) -> Vec<u32> {
    let name = format!("socket:[{inode}]");
    let all = processes::ids().unwrap_or_default();
    let has = |process: &u32| with_name(*process, &name).is_ok_and(|held| !held.is_empty());
    all.into_iter().filter(has).collect()
}

/// The first descriptor of each of these sockets that a process has, by inode, as far as the caller may
/// look.
pub fn owners(inodes: &BTreeSet<u64>) -> BTreeMap<u64, (u32, RawFd)> {
    let mut found = BTreeMap::new();
    if inodes.is_empty() {
        return found;
    }
    for process in processes::ids().unwrap_or_default() {
        let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
        for entry in entries.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let inode = target.to_str().and_then(|target| {
                target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
            });
            let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
            if let (Some(inode), Some(number)) = (inode, number)
                && inodes.contains(&inode)
            {
                let first = found.entry(inode).or_insert((process, number));
                if first.0 == process {
                    first.1 = number.min(first.1);
                }
            }
        }
    }
    found
}

/// The registrations of descriptors in the epoll sets of a process.
pub fn registrations(process: u32, numbers: &[RawFd]) -> io::Result<Vec<Registration>> {
    let mut found = Vec::new();
    for set in with_name(process, SET)? {
        // one that was closed meanwhile has none
        let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{set}")).unwrap_or_default();
        let all = text.lines().filter_map(|line| registration(set, line));
        found.extend(all.filter(|of| numbers.contains(&of.number)));
    }
    Ok(found)
}

/// Whether a process has an epoll set.
pub fn has_sets(process: u32) -> io::Result<bool> {
    Ok(!with_name(process, SET)?.is_empty())
}

/// Parses a line of the `fdinfo` of an epoll set (`ep_show_fdinfo`, fs/eventpoll.c).
pub fn registration(set: RawFd, line: &str) -> Option<Registration> {
    let mut words = line.split_ascii_whitespace();
    let mut value = |key: &str| (words.next() == Some(key)).then(|| words.next())?;
    let number = value("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(value("events:")?, 16).ok()?;
    let data = u64::from_str_radix(value("data:")?, 16).ok()?;
    Some(Registration { set, number, events, data })
}

/// Lets an epoll set of a process wait for `new` where it waited for `old`, under the same number. Both
/// are files of that process, and `set` is its epoll set.
///
/// # Errors
/// As epoll_ctl(2); `EBADF` when the number is above the limit on open files.
pub fn move_registration(
    set: BorrowedFd<'_>,
    registration: Registration,
    old: BorrowedFd<'_>,
    new: BorrowedFd<'_>,
) -> io::Result<()> {
    // the set knows files by their numbers, so a thread with a table of its own gives them these
    let body = || {
        // SAFETY: from here on the calling thread has a copy of the table, and ends soon.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let Registration { number, events, data, .. } = registration;
        let aside = |file: BorrowedFd<'_>| {
            Ok::<OwnedFd, io::Error>(rustix::io::fcntl_dupfd_cloexec(file, number.max(0) + 1)?)
        };
        let (set, old, new) = (aside(set)?, aside(old)?, aside(new)?);
        let mut event = libc::epoll_event { events, u64: data };
        let change = |operation, file: &OwnedFd, event: *mut libc::epoll_event| {
            // SAFETY: the number is one of this thread's own table, and what it named is not used any
            // more; `event` is live, or null where it is not read.
            let result = unsafe {
                match libc::dup2(file.as_raw_fd(), number) {
                    -1 => -1,
                    _ => libc::epoll_ctl(set.as_raw_fd(), operation, number, event),
                }
            };
            if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        change(libc::EPOLL_CTL_DEL, &old, std::ptr::null_mut())?;
        change(libc::EPOLL_CTL_ADD, &new, &raw mut event)
    };
    sched::apart(body)?
}

/// The inode of an open file, which `/proc` names sockets by.
pub fn inode(file: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_ino)
}

/// The descriptors of a process whose file has that name in `/proc/PID/fd`.
fn with_name(process: u32, name: &str) -> io::Result<Vec<RawFd>> {
    let entries = fs::read_dir(format!("/proc/{process}/fd"))?;
    let number = |entry: fs::DirEntry| {
        let named = fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == name);
        named.then(|| entry.file_name().to_str()?.parse().ok())?
    };
    Ok(entries.filter_map(|entry| number(entry.ok()?)).collect())
}

/// Whether a descriptor of a thread is closed when the thread executes another program.
///
/// # Errors
/// `NotFound` when there is no such descriptor or thread.
pub fn closes_on_exec(thread: u32, descriptor: RawFd) -> io::Result<bool> {
    let text = fs::read_to_string(format!("/proc/{thread}/fdinfo/{descriptor}"))?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    let flags = flags.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(flags & libc::O_CLOEXEC as u32 != 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::epoll::{Epoll, Readable, Watch};

    #[test]
    fn a_descriptor_tells_whether_it_is_closed() {
        let (near, _far) = UnixStream::pair().unwrap();
        let own = std::process::id();
        assert!(closes_on_exec(own, near.as_raw_fd()).unwrap());
        rustix::io::fcntl_setfd(&near, rustix::io::FdFlags::empty()).unwrap();
        assert!(!closes_on_exec(own, near.as_raw_fd()).unwrap());
        assert!(closes_on_exec(own, 1_000_000).is_err());
    }

    #[test]
    fn every_descriptor_of_a_socket_is_found() {
        let (near, _far) = UnixStream::pair().unwrap();
        let again = near.try_clone().unwrap();
        let found = of_socket(std::process::id(), inode(&near).unwrap()).unwrap();
        let mut numbers: Vec<RawFd> = found.iter().map(|held| held.number).collect();
        numbers.sort_unstable();
        let mut expected = [near.as_raw_fd(), again.as_raw_fd()];
        expected.sort_unstable();
        assert_eq!(numbers, expected);
        let inode = inode(&near).unwrap();
        let number = near.as_raw_fd();
        let held = |number, inode| of_number(std::process::id(), number, inode).unwrap();
        assert_eq!(held(number, inode), Some(Held { number, close_on_exec: true }));
        assert_eq!((held(number, inode + 1), held(1_000_000, inode)), (None, None));
        assert!(holders(inode).contains(&std::process::id()));
        let found = owners(&BTreeSet::from([inode]));
        assert_eq!(found[&inode], (std::process::id(), expected[0]));
    }

    #[test]
    fn an_epoll_set_waits_for_another_file_under_the_same_number() {
        let (old, mut old_far) = UnixStream::pair().unwrap();
        let (new, mut new_far) = UnixStream::pair().unwrap();
        let set = Epoll::new().unwrap();
        set.add(&old, 0xfeed, Watch::Always).unwrap();
        let found = registrations(std::process::id(), &[old.as_raw_fd()]).unwrap();
        let [registration] = found[..] else { panic!("{found:?}") };
        assert_eq!((registration.number, registration.data), (old.as_raw_fd(), 0xfeed));
        let own = std::process::id();
        assert!(has_sets(own).unwrap());
        let taken = crate::socket_swap::descriptor_of(own, registration.set).unwrap();
        move_registration(taken.as_fd(), registration, old.as_fd(), new.as_fd()).unwrap();
        let mut readable = Readable::default();
        old_far.write_all(b"x").unwrap();
        set.wait(&mut readable, Some(1_000_000)).unwrap();
        assert_eq!(readable.numbers().count(), 0, "it still waits for the old file");
        new_far.write_all(b"x").unwrap();
        set.wait(&mut readable, Some(1_000_000_000)).unwrap();
        assert_eq!(readable.numbers().collect::<Vec<_>>(), [0xfeed]);
    }

    #[test]
    fn lines_that_are_no_registrations_are_none() {
        let line = "tfd:        5 events:       19 data:         8000000ff  pos:0 ino:1 sdev:8";
        let parsed = registration(3, line).unwrap();
        let expected = Registration { set: 3, number: 5, events: 0x19, data: 0x8_0000_00ff };
        assert_eq!(parsed, expected);
        for line in ["", "pos:\t0", "tfd: x events: 1 data: 1", "tfd: 5 data: 1"] {
            assert_eq!(registration(3, line), None, "{line:?}");
        }
    }
}
