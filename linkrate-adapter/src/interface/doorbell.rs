//! How one thread wakes another: the doorbell of a device thread, the interrupt of a driver.
//!
//! A side that is about to sleep says so first, and the other side rings only then, as the event
//! suppression of virtio has it. Under load neither side makes a system call.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::doorbell::Doorbell;
use linkrate_sys::error::SysResult;

/// The way to wake one thread.
#[derive(Debug)]
pub struct ThreadDoorbell {
    sleeps: AtomicBool,
    bell: Doorbell,
    /// When a sleeping thread was rung last, CLOCK_MONOTONIC ns.
    rung_ns: AtomicU64,
}

impl ThreadDoorbell {
    /// A waker whose thread is awake. Fails when descriptors have run out.
    pub fn new() -> SysResult<Self> {
        let (sleeps, rung_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self { sleeps, bell: Doorbell::new()?, rung_ns })
    }

    /// Says that the calling thread is about to sleep. After that call it must look at its work
    /// once more, and then wait for [`as_fd`](Self::as_fd) or call [`woken`](Self::woken).
    pub fn will_sleep(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        // this fence stands before the look at the work; the other side has one between work and
        // `wake`
        fence(Ordering::SeqCst);
    }

    /// Says that the calling thread is awake again. `readable` is whether its wait found the
    /// descriptor readable: a ring may come after the wake-up that it was meant for, and would end
    /// every later wait at once. Returns when the thread was rung, CLOCK_MONOTONIC ns, if that ended its sleep.
    pub fn woken(&self, readable: bool) -> Option<u64> {
        let rung = !self.sleeps.swap(false, Ordering::Relaxed);
        if rung || readable {
            self.bell.clear();
        }
        (rung && readable).then(|| self.rung_ns.load(Ordering::Relaxed))
    }

    /// Wakes the thread, or ends the next sleep that it begins. For commands and requests, which it takes
    /// up between two sleeps and does not look for after [`will_sleep`](Self::will_sleep).
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Wakes the thread if it sleeps. True if that needed a system call. For work that the thread looks
    /// for after [`will_sleep`](Self::will_sleep).
    pub fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let slept =
            self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed);
        if slept {
            self.rung_ns.store(monotonic_ns(), Ordering::Relaxed);
            self.bell.ring();
        }
        slept
    }
}

impl AsFd for ThreadDoorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use linkrate_sys::wait::wait;

    use super::*;

    #[test]
    fn only_a_sleeping_thread_is_rung() {
        let doorbell = ThreadDoorbell::new().unwrap();
        assert!(!doorbell.wake());
        doorbell.will_sleep();
        assert!(doorbell.wake());
        assert!(!doorbell.wake(), "it is awake already");
        assert!(wait(&[doorbell.as_fd()], Some(0)).unwrap().any());
        let rung_ns = doorbell.woken(true).unwrap();
        assert!((1..=monotonic_ns()).contains(&rung_ns));
        assert!(!wait(&[doorbell.as_fd()], Some(0)).unwrap().any());
        doorbell.will_sleep();
        assert_eq!(doorbell.woken(false), None);
        assert!(!doorbell.wake());
    }

    #[test]
    fn a_ring_that_comes_late_ends_one_wait() {
        let doorbell = ThreadDoorbell::new().unwrap();
        doorbell.will_sleep();
        // the other side has seen the sleeper, and rings only after it has woken by itself
        doorbell.sleeps.store(false, Ordering::Relaxed);
        doorbell.woken(false);
        doorbell.bell.ring();
        doorbell.will_sleep();
        assert!(wait(&[doorbell.as_fd()], Some(0)).unwrap().any());
        doorbell.woken(true);
        doorbell.will_sleep();
        assert!(!wait(&[doorbell.as_fd()], Some(0)).unwrap().any());
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it() {
        let doorbell = ThreadDoorbell::new().unwrap();
        doorbell.ring();
        doorbell.woken(false);
        doorbell.ring();
        doorbell.will_sleep();
        assert!(wait(&[doorbell.as_fd()], Some(0)).unwrap().any());
        doorbell.woken(true);
        assert!(!wait(&[doorbell.as_fd()], Some(0)).unwrap().any());
    }

    #[test]
    fn no_wake_up_is_lost() {
        // a ring of one number: the consumer sleeps whenever it has seen the latest
        let (doorbell, posted) =
            (Arc::new(ThreadDoorbell::new().unwrap()), Arc::new(AtomicU64::new(0)));
        let consumer = std::thread::spawn({
            let (doorbell, posted) = (Arc::clone(&doorbell), Arc::clone(&posted));
            move || {
                let mut seen = 0;
                while seen < 20_000 {
                    let now = posted.load(Ordering::Acquire);
                    if now > seen {
                        seen = now;
                        continue;
                    }
                    doorbell.will_sleep();
                    let mut rang = false;
                    if posted.load(Ordering::Acquire) == seen {
                        rang = wait(&[doorbell.as_fd()], Some(5_000_000_000)).unwrap().any();
                        assert!(rang, "asleep at {seen} for 5 s");
                    }
                    doorbell.woken(rang);
                }
            }
        });
        for number in 1..=20_000 {
            posted.store(number, Ordering::Release);
            doorbell.wake();
        }
        consumer.join().unwrap();
    }
}
