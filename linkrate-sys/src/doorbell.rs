//! Doorbells: how one thread wakes another that waits on descriptors, eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{SysError, SysResult};

/// A bell that stays rung until it is cleared, however often it was rung. Its descriptor is
/// readable while it is rung.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A bell that is not rung; fails when descriptors have run out.
    pub fn new() -> SysResult<Self> {
        eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map(Self)
            .map_err(|error| SysError::new("create doorbell", "", error))
    }

    /// Rings it, which wakes who waits.
    pub fn ring(&self) {
        // it can only fail because the counter is full, and then it is rung
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it quiet, and says whether it was rung.
    pub fn clear(&self) -> bool {
        let mut count = [0; 8];
        matches!(rustix::io::read(&self.0, &mut count), Ok(8))
    }

    /// Another handle to the same bell, for another thread to own; fails when descriptors have run out.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_stays_rung_until_it_is_cleared() {
        let bell = Doorbell::new().unwrap();
        assert!(!bell.clear());
        let other = bell.try_clone().unwrap();
        for _ in 0..3 {
            other.ring();
        }
        assert!(bell.clear());
        assert!(!bell.clear() && !other.clear());
    }

    #[test]
    fn a_full_bell_does_not_wait() {
        let bell = Doorbell::new().unwrap();
        rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        bell.ring();
        assert!(bell.clear());
    }
}
