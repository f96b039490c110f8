//! What lies between a driver and its device: bounded rings of descriptors, the doorbell one way
//! and the interrupt the other.
//!
//! A side that sleeps says so first, and the other rings only then, as virtio's event suppression
//! has it: under load neither system call is made.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use linkrate_sys::doorbell::Doorbell;
use linkrate_sys::error::SysResult;
use linkrate_wire::encapsulation::LinkHeader;
use linkrate_wire::lro::{Delivery, Parts};
use linkrate_wire::vnet::VnetHeader;

use crate::counters::DriverCounters;
use crate::frame::{Block, Burst};

/// A packet the host handed over, vnet header first.
#[derive(Debug)]
pub struct TxDescriptor {
    /// Where it lies.
    pub block: Arc<Block>,
    /// Its bytes, vnet header included.
    pub length: usize,
    /// When it was posted, CLOCK_MONOTONIC ns.
    pub posted_ns: u64,
}

/// A packet for the host.
#[derive(Debug)]
pub struct RxDescriptor {
    /// What the host is told about it.
    pub vnet: VnetHeader,
    /// The packet.
    pub delivery: Delivery<Burst>,
    /// A link header that stands for so many of the packet's first bytes: the port's tag or SNAP
    /// was taken off.
    pub replaced: Option<(LinkHeader, usize)>,
    /// Two bytes that stand for the frame's own at this place: its checksum was verified and is
    /// left to be made, which is how a TAP is told so.
    pub unmade: Option<(usize, [u8; 2])>,
}

impl RxDescriptor {
    /// How many frames of the wire it is.
    pub(crate) fn frames(&self) -> u64 {
        match &self.delivery {
            Delivery::Frame { .. } => 1,
            Delivery::Superframe { superframe, .. } => superframe.segments as u64,
        }
    }

    /// The pieces the packet is made of after its vnet header, in order.
    pub fn for_each_piece<'a>(&'a self, mut piece: impl FnMut(&'a [u8])) {
        let mut head = |head: &'a [u8]| {
            let mut from = 0;
            if let Some((link, covered)) = &self.replaced {
                piece(link);
                from = *covered;
            }
            if let Some((at, checksum)) = &self.unmade {
                piece(head.get(from..*at).unwrap_or_default());
                piece(checksum);
                from = at + checksum.len();
            }
            piece(head.get(from..).unwrap_or_default());
        };
        match &self.delivery {
            Delivery::Frame { frame, .. } => {
                head(frame.head());
                piece(frame.tail());
            }
            Delivery::Superframe { superframe, .. } => {
                head(&superframe.header);
                let mut run: Option<Payloads<'a>> = None;
                for part in &superframe.pieces {
                    let [head, tail] = part.slices();
                    if head.is_empty()
                        && tail.len() == part.frame.tail().len()
                        && let Some(next) = Payloads::of(&part.frame)
                    {
                        if !run.as_mut().is_some_and(|run| run.extend(&next))
                            && let Some(run) = run.replace(next)
                        {
                            piece(run.bytes());
                        }
                        continue;
                    }
                    if let Some(run) = run.take() {
                        piece(run.bytes());
                    }
                    piece(head);
                    piece(tail);
                }
                if let Some(run) = run {
                    piece(run.bytes());
                }
            }
        }
    }
}

/// Payloads that lie one after the other in one block, which is how a superframe's own come.
struct Payloads<'a> {
    block: &'a Block,
    range: std::ops::Range<usize>,
}

impl<'a> Payloads<'a> {
    fn of(burst: &'a Burst) -> Option<Self> {
        burst.place().map(|(block, range)| Self { block, range })
    }

    fn extend(&mut self, next: &Self) -> bool {
        let follows = std::ptr::eq(self.block, next.block) && self.range.end == next.range.start;
        if follows {
            self.range.end = next.range.end;
        }
        follows
    }

    fn bytes(&self) -> &'a [u8] {
        self.block.bytes(self.range.clone())
    }
}

/// One side's way to be woken.
#[derive(Debug)]
pub struct Waker {
    sleeps: AtomicBool,
    bell: Doorbell,
}

impl Waker {
    /// Nobody sleeps yet.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> SysResult<Self> {
        Ok(Self { sleeps: AtomicBool::new(false), bell: Doorbell::new()? })
    }

    /// Says that the caller is about to sleep. It must look at its work once more after that,
    /// and then wait for [`as_fd`](Self::as_fd), or call [`woken`](Self::woken).
    pub fn will_sleep(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        // before the look at the work; the other side has its fence between work and `wake`
        fence(Ordering::SeqCst);
    }

    /// The caller is awake again.
    pub fn woken(&self) {
        if !self.sleeps.swap(false, Ordering::Relaxed) {
            // someone rang
            self.bell.clear();
        }
    }

    /// Wakes the other side if it sleeps, and says whether that was needed.
    pub fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let slept =
            self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed);
        if slept {
            self.bell.ring();
        }
        slept
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// What the driver and the device of one queue pair share beside the rings.
#[derive(Debug)]
pub struct QueueShared {
    /// Transmit descriptors whose last bit has left, since the beginning.
    pub completed: AtomicU64,
    /// Received frames the driver has handed to the host, since the beginning; a superframe counts
    /// as the frames it was merged of.
    pub consumed: AtomicU64,
    /// The driver waits for completions: its transmit ring is full.
    pub starved: AtomicBool,
    /// The queue's interrupt.
    pub interrupt: Waker,
    /// The driver is to end.
    pub stop: AtomicBool,
    /// What the driver counts.
    pub counters: DriverCounters,
}

impl QueueShared {
    /// A fresh queue pair.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> SysResult<Self> {
        Ok(Self {
            completed: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            interrupt: Waker::new()?,
            stop: AtomicBool::new(false),
            counters: DriverCounters::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkrate_sys::wait::wait;

    #[test]
    fn only_who_sleeps_is_rung() {
        let waker = Waker::new().unwrap();
        assert!(!waker.wake());
        waker.will_sleep();
        assert!(waker.wake());
        assert!(!waker.wake(), "it is awake already");
        assert!(wait(&[waker.as_fd()], Some(0)).unwrap().any());
        waker.woken();
        assert!(!wait(&[waker.as_fd()], Some(0)).unwrap().any());
        waker.will_sleep();
        waker.woken();
        assert!(!waker.wake());
    }

    #[test]
    fn no_wake_up_is_lost() {
        // a ring of one number: the consumer sleeps whenever it has seen the latest
        let (waker, posted) = (Arc::new(Waker::new().unwrap()), Arc::new(AtomicU64::new(0)));
        let consumer = std::thread::spawn({
            let (waker, posted) = (Arc::clone(&waker), Arc::clone(&posted));
            move || {
                let mut seen = 0;
                while seen < 20_000 {
                    let now = posted.load(Ordering::Acquire);
                    if now > seen {
                        seen = now;
                        continue;
                    }
                    waker.will_sleep();
                    if posted.load(Ordering::Acquire) == seen {
                        let ready = wait(&[waker.as_fd()], Some(5_000_000_000)).unwrap();
                        assert!(ready.any(), "asleep at {seen} for 5 s");
                    }
                    waker.woken();
                }
            }
        });
        for number in 1..=20_000 {
            posted.store(number, Ordering::Release);
            waker.wake();
        }
        consumer.join().unwrap();
    }
}
