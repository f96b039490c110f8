//! One wait for many descriptors (epoll(7)), with a time-out in nanoseconds (epoll_pwait2(2),
//! Linux 5.11). Before, ppoll(2) waits for the set, and a look at it follows: two calls in place of one.
//!
//! A descriptor is either watched all the time, or once: after its event was delivered it is
//! silent until it is armed again. A descriptor that became readable and was read empty before the
//! wait costs no wake-up, since the kernel looks again before it delivers the event
//! (`ep_send_events`, fs/eventpoll.c).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{SysError, SysResult};

/// Events that one wait returns at most; the next wait returns the others.
const EVENTS: usize = 64;

/// Whether the kernel has no epoll_pwait2(2), once that was found out.
static IS_OLD: AtomicBool = AtomicBool::new(false);

/// How long a descriptor is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Until it is removed: each wait names it as long as it is readable.
    Always,
    /// Until it is removed: a wait names it when it has become readable, or more so, since the last
    /// wait that named it.
    Changes,
    /// Not yet: until [`Epoll::arm`], and then for one event.
    Once,
    /// Until it is removed: each wait names it as long as it is writable.
    Writable,
}

impl Watch {
    fn flags(self) -> EventFlags {
        match self {
            Self::Always => EventFlags::IN,
            Self::Changes => EventFlags::IN | EventFlags::ET,
            Self::Once => EventFlags::ONESHOT,
            Self::Writable => EventFlags::OUT,
        }
    }
}

/// A set of descriptors, each with a number of the caller's choice.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// The numbers of the descriptors that are readable, as the last wait found them.
#[derive(Debug, Default)]
pub struct Readable(Vec<u64>);

impl Readable {
    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

impl Epoll {
    /// An empty set; fails when descriptors have run out.
    pub fn new() -> SysResult<Self> {
        epoll::create(CreateFlags::CLOEXEC)
            .map(Self)
            .map_err(|error| SysError::new("create epoll set", "", error))
    }

    /// Adds a descriptor under `number`; `EEXIST` when it is in the set, `ENOSPC` when the user's watches have run out.
    pub fn add(&self, descriptor: impl AsFd, number: u64, watch: Watch) -> SysResult<()> {
        epoll::add(&self.0, descriptor, EventData::new_u64(number), watch.flags())
            .map_err(|error| SysError::new("watch descriptor number", number.to_string(), error))
    }

    /// Watches a descriptor for one more event. A descriptor that is readable already ends the
    /// next wait at once.
    ///
    /// # Errors
    /// `ENOENT` when it is not in the set.
    pub fn arm(&self, descriptor: impl AsFd, number: u64) -> SysResult<()> {
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        epoll::modify(&self.0, descriptor, EventData::new_u64(number), flags)
            .map_err(|error| SysError::new("arm descriptor number", number.to_string(), error))
    }

    /// Watches a descriptor as `watch` says from now on. If it is readable already, the next wait
    /// names it.
    ///
    /// # Errors
    /// `ENOENT` when it is not in the set.
    pub fn change(&self, descriptor: impl AsFd, number: u64, watch: Watch) -> SysResult<()> {
        epoll::modify(&self.0, descriptor, EventData::new_u64(number), watch.flags())
            .map_err(|error| SysError::new("watch descriptor number", number.to_string(), error))
    }

    /// Takes a descriptor out of the set. A descriptor whose last handle is closed leaves by
    /// itself.
    ///
    /// # Errors
    /// `ENOENT` when it is not in the set.
    pub fn remove(&self, descriptor: impl AsFd) -> SysResult<()> {
        epoll::delete(&self.0, descriptor)
            .map_err(|error| SysError::new("stop watching descriptor", "", error))
    }

    /// Waits until a descriptor is readable, at most `timeout_ns`, without end if `None`. Zero
    /// looks and does not wait. A signal ends the wait early, as if the time were up.
    pub fn wait(&self, readable: &mut Readable, timeout_ns: Option<u64>) -> io::Result<()> {
        let timeout = timeout_ns.map(|ns| Timespec {
            // at most 2^64 / 10^9, which fits
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        readable.0.clear();
        let mut waited = Err(Errno::NOSYS);
        if !IS_OLD.load(Ordering::Relaxed) {
            waited = self.wait_by_pwait2(readable, timeout.as_ref());
        }
        if waited == Err(Errno::NOSYS) {
            IS_OLD.store(true, Ordering::Relaxed);
            waited = self.wait_by_ppoll(readable, timeout.as_ref());
        }
        match waited {
            Err(error) if error != Errno::INTR => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn wait_by_pwait2(
        &self,
        readable: &mut Readable,
        timeout: Option<&Timespec>,
    ) -> Result<(), Errno> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let (ready, _) = epoll::wait(&self.0, &mut events, timeout)?;
        readable.0.extend(ready.iter().map(|event| event.data.u64()));
        Ok(())
    }

    fn wait_by_ppoll(
        &self,
        readable: &mut Readable,
        timeout: Option<&Timespec>,
    ) -> Result<(), Errno> {
        let mut set = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut set, timeout)? == 0 {
            return Ok(());
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: the array has room for as many events, and outlives the call.
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, 0)
        };
        let count = usize::try_from(count)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))?;
        readable.0.extend(events.iter().take(count).map(|event| event.u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::doorbell::Doorbell;

    fn ready(set: &Epoll, timeout_ns: u64) -> Vec<u64> {
        let mut readable = Readable::default();
        set.wait(&mut readable, Some(timeout_ns)).unwrap();
        let mut numbers: Vec<u64> = readable.numbers().collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn a_wait_names_what_is_readable() {
        let (set, bells) = (Epoll::new().unwrap(), [(); 3].map(|()| Doorbell::new().unwrap()));
        for (bell, number) in bells.iter().zip(7..) {
            set.add(bell, number, Watch::Always).unwrap();
        }
        assert!(ready(&set, 0).is_empty());
        bells[0].ring();
        bells[2].ring();
        assert_eq!(ready(&set, 1_000_000_000), [7, 9]);
        assert_eq!(ready(&set, 0), [7, 9], "it stays readable until it is read");
        bells[0].clear();
        set.remove(&bells[2]).unwrap();
        assert!(ready(&set, 0).is_empty());
    }

    #[test]
    fn a_kernel_without_epoll_pwait2_names_the_same() {
        let (set, bells) = (Epoll::new().unwrap(), [(); 3].map(|()| Doorbell::new().unwrap()));
        for (bell, (number, watch)) in
            bells.iter().zip([(7, Watch::Always), (8, Watch::Once), (9, Watch::Changes)])
        {
            set.add(bell, number, watch).unwrap();
        }
        let old = |timeout_ns: i64| {
            let (timeout, mut readable) =
                (Timespec { tv_sec: 0, tv_nsec: timeout_ns }, Readable::default());
            set.wait_by_ppoll(&mut readable, Some(&timeout)).unwrap();
            let mut numbers: Vec<u64> = readable.numbers().collect();
            numbers.sort_unstable();
            numbers
        };
        assert!(old(0).is_empty());
        bells.iter().for_each(Doorbell::ring);
        assert_eq!(old(900_000_000), [7, 9], "8 is not armed");
        assert_eq!(old(0), [7]);
        set.arm(&bells[1], 8).unwrap();
        assert_eq!(old(0), [7, 8]);
        assert_eq!(old(0), [7], "delivered");
        bells[0].clear();
        let started = Instant::now();
        assert!(old(20_000).is_empty());
        assert!(started.elapsed() >= Duration::from_micros(20));
    }

    #[test]
    fn a_descriptor_that_is_watched_once_is_silent_until_it_is_armed() {
        let (set, bell) = (Epoll::new().unwrap(), Doorbell::new().unwrap());
        set.add(&bell, 1, Watch::Once).unwrap();
        bell.ring();
        assert!(ready(&set, 0).is_empty(), "not armed yet");
        set.arm(&bell, 1).unwrap();
        assert_eq!(ready(&set, 0), [1]);
        assert!(ready(&set, 0).is_empty(), "delivered");
        set.arm(&bell, 1).unwrap();
        bell.clear();
        assert!(ready(&set, 0).is_empty(), "read before the wait");
        bell.ring();
        assert_eq!(ready(&set, 0), [1], "and still armed");
    }

    #[test]
    fn a_change_is_named_once() {
        let (set, bell) = (Epoll::new().unwrap(), Doorbell::new().unwrap());
        set.add(&bell, 1, Watch::Changes).unwrap();
        bell.ring();
        assert_eq!(ready(&set, 0), [1]);
        assert!(ready(&set, 0).is_empty());
        bell.ring();
        assert_eq!(ready(&set, 0), [1], "more so");
        bell.ring();
        bell.clear();
        assert!(ready(&set, 0).is_empty(), "read before the wait");
    }

    #[test]
    fn a_descriptor_is_silent_until_it_is_watched_again() {
        let (set, bell) = (Epoll::new().unwrap(), Doorbell::new().unwrap());
        set.add(&bell, 1, Watch::Changes).unwrap();
        set.change(&bell, 1, Watch::Once).unwrap();
        bell.ring();
        assert!(ready(&set, 0).is_empty(), "silent");
        set.change(&bell, 1, Watch::Changes).unwrap();
        assert_eq!(ready(&set, 0), [1], "it was readable already");
        assert!(ready(&set, 0).is_empty(), "and is named once");
    }

    #[test]
    fn a_wait_ends_in_nanoseconds_and_not_in_milliseconds() {
        crate::sched::set_timer_slack_ns(1).unwrap();
        let set = Epoll::new().unwrap();
        let mut shortest = Duration::MAX;
        for _ in 0..50 {
            let started = Instant::now();
            assert!(ready(&set, 20_000).is_empty());
            shortest = shortest.min(started.elapsed());
        }
        assert!(shortest >= Duration::from_micros(20), "{shortest:?}");
        assert!(shortest < Duration::from_millis(1), "{shortest:?}");
    }
}
