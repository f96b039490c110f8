//! Waiting for descriptors with nanosecond timeouts, ppoll(2), without allocation.
//!
//! The precision of a timeout depends on the timer slack of the thread, 50 µs unless it is
//! [set](crate::sched::set_timer_slack_ns).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most descriptors of one call.
pub const MAX_DESCRIPTORS: usize = 16;

/// The ready descriptors, by their place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(u16);

impl Ready {
    /// Whether the descriptor at `index` is readable, or has an error that a read returns.
    pub fn contains(self, index: usize) -> bool {
        index < MAX_DESCRIPTORS && self.0 >> index & 1 == 1
    }

    /// Whether any descriptor is ready.
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

/// Waits until one of `descriptors` is readable, at most `timeout_ns`; with `None` there is no
/// limit, and with zero it returns at once. A signal ends the wait early, like a timeout.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_DESCRIPTORS`]; otherwise as ppoll(2).
pub fn wait(descriptors: &[BorrowedFd<'_>], timeout_ns: Option<u64>) -> io::Result<Ready> {
    let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MAX_DESCRIPTORS];
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (entry, descriptor) in polled.iter_mut().zip(descriptors) {
        entry.fd = descriptor.as_raw_fd();
    }
    let timeout = timeout_ns.map(|ns| libc::timespec {
        // at most 2^64 / 10^9, which every time_t of this century holds
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `polled` has at least as many entries as are named and lives through the call, as
    // does `timeout` where it is not null; no signal mask is given. The descriptors are borrowed.
    let ready = unsafe {
        let count = descriptors.len() as libc::nfds_t;
        libc::ppoll(polled.as_mut_ptr(), count, timeout, std::ptr::null())
    };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(Ready::default()),
            _ => Err(error),
        };
    }
    let mask = |mask, (index, entry): (usize, &libc::pollfd)| {
        mask | u16::from(entry.revents != 0) << index
    };
    Ok(Ready(polled[..descriptors.len()].iter().enumerate().fold(0, mask)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::doorbell::Doorbell;

    #[test]
    fn says_which_are_ready() {
        let bells: Vec<Doorbell> = (0..MAX_DESCRIPTORS).map(|_| Doorbell::new().unwrap()).collect();
        let descriptors: Vec<_> = bells.iter().map(Doorbell::as_fd).collect();
        assert!(!wait(&descriptors, Some(0)).unwrap().any());
        for index in [0, 3, MAX_DESCRIPTORS - 1] {
            bells[index].ring();
        }
        let ready = wait(&descriptors, None).unwrap();
        let listed: Vec<usize> = (0..100).filter(|index| ready.contains(*index)).collect();
        assert_eq!(listed, [0, 3, MAX_DESCRIPTORS - 1]);
        let many = [descriptors[0]; MAX_DESCRIPTORS + 1];
        assert_eq!(wait(&many, None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn waits_as_long_as_told_and_not_much_longer() {
        crate::sched::set_timer_slack_ns(1).unwrap();
        let bell = Doorbell::new().unwrap();
        let mut shortest = Duration::MAX;
        for _ in 0..50 {
            let started = Instant::now();
            assert!(!wait(&[bell.as_fd()], Some(20_000)).unwrap().any());
            shortest = shortest.min(started.elapsed());
        }
        assert!(shortest >= Duration::from_micros(20), "{shortest:?}");
        // a timer slack of 50 µs, or a timeout rounded to milliseconds, would take longer
        assert!(shortest < Duration::from_millis(1), "{shortest:?}");
        assert!(!wait(&[], Some(1000)).unwrap().any());
    }

    #[test]
    fn a_bell_wakes_another_thread() {
        let bell = Doorbell::new().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&[bell.as_fd()], Some(10_000_000_000)).unwrap());
            bell.ring();
            assert!(waiter.join().unwrap().contains(0));
        });
    }
}
