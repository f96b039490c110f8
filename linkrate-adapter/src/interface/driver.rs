//! The driver of one queue pair: it moves packets between the TAP and the rings and does nothing
//! else.
//!
//! Reading the TAP stands for taking a packet off the queue discipline; writing it runs the host's
//! receive processing in the calling thread. A driver thread polls it
//! (`driver_threads`), in batches as long as there is work.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use linkrate_terms::Steering;
use linkrate_wire::frame::{Headers, tcp};
use rtrb::{Consumer, Producer};

use super::InterfaceShared;
use super::rings::{QueueShared, RxDescriptor, TxDescriptor};
use super::tap_io;
use super::waker::Waker;
use crate::frame::{Block, VNET_BYTES};
use crate::pool::Pool;

/// Packets in each direction before the driver looks at the other direction: NAPI's weight
/// (`NAPI_POLL_WEIGHT`, include/linux/netdevice.h).
const WEIGHT: usize = 64;

/// The driver tells the adapter the queue of a flow at each SYN, and with every packet of this
/// number on a queue.
const STEERING_SAMPLE: u64 = 20;

/// A flow's port and the queue that its received frames go to.
#[derive(Debug, Clone, Copy)]
pub struct SteeringUpdate {
    /// Destination port of the frames that the flow receives.
    pub port: u16,
    /// The queue.
    pub queue: u16,
}

/// What a driver works with.
#[derive(Debug)]
pub(crate) struct Driver {
    /// The queue of the TAP.
    tap: OwnedFd,
    /// Number of the queue.
    number: u16,
    /// Packets for the device.
    tx: Producer<TxDescriptor>,
    /// Packets from the device.
    rx: Consumer<RxDescriptor>,
    /// Changes of the steering table for the device.
    steering: Producer<SteeringUpdate>,
    /// Shared with the device.
    queue: Arc<QueueShared>,
    /// The device's doorbell.
    doorbell: Arc<Waker>,
    /// The interface.
    interface: Arc<InterfaceShared>,
    pool: Pool<Block>,
    /// Packets posted so far, and how many may be outstanding.
    posted: u64,
    ring: u64,
    /// The TAP may have a packet: it had one left, or something was written, or its event came.
    may_have: bool,
    /// There was room in the transmit ring when the driver looked before its sleep.
    had_room: bool,
    /// A packet of the host wakes the driver thread.
    watched: bool,
    /// The TAP is gone.
    broken: bool,
}

/// A driver's ends of the rings to its device.
#[derive(Debug)]
pub(crate) struct DriverRings {
    pub(crate) tx: Producer<TxDescriptor>,
    pub(crate) rx: Consumer<RxDescriptor>,
    pub(crate) steering: Producer<SteeringUpdate>,
}

impl Driver {
    /// The driver of queue `number`.
    pub(crate) fn new(
        tap: OwnedFd,
        number: u16,
        rings: DriverRings,
        queue: Arc<QueueShared>,
        doorbell: Arc<Waker>,
        interface: Arc<InterfaceShared>,
    ) -> Self {
        let DriverRings { tx, rx, steering } = rings;
        Self {
            ring: tx.slots() as u64,
            tap,
            number,
            tx,
            rx,
            steering,
            queue,
            doorbell,
            interface,
            pool: tap_io::blocks(),
            posted: 0,
            may_have: true,
            had_room: true,
            watched: true,
            broken: false,
        }
    }

    /// The queue of the TAP.
    pub(crate) fn tap(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// Moves at most NAPI's weight of packets in each direction. Says how many.
    pub(crate) fn poll(&mut self) -> usize {
        if self.broken {
            return 0;
        }
        match self.receive().and_then(|received| Ok(received + self.transmit()?)) {
            Ok(packets) => packets,
            Err(_) => {
                self.fail();
                0
            }
        }
    }

    /// The TAP is gone: whoever looks at the interface learns it.
    pub(crate) fn fail(&mut self) {
        self.broken = true;
        self.interface.broken.store(true, Ordering::Relaxed);
    }

    /// The driver thread spent its budget.
    pub(crate) fn budget_spent(&self) {
        self.queue.counters.budgets.add(1);
    }

    /// The driver thread is about to sleep.
    pub(crate) fn will_sleep(&mut self) {
        self.had_room = self.has_room();
        self.queue.starved.store(!self.had_room, Ordering::Release);
        if !self.had_room {
            // the device must know that this driver waits for completions
            self.doorbell.wake();
        }
        self.queue.counters.sleeps.add(1);
    }

    /// Whether the TAP shall wake the driver thread during the coming sleep; `None` if that stays as
    /// it was. While the transmit ring is full, a packet of the host has nowhere to go: only the
    /// device's next completion wakes the thread.
    pub(crate) fn watch_tap(&mut self) -> Option<bool> {
        let before = std::mem::replace(&mut self.watched, self.had_room);
        (before != self.watched).then_some(self.watched)
    }

    /// Whether there is still nothing to do, after the thread has said that it will sleep.
    pub(crate) fn is_idle(&self) -> bool {
        self.broken || (self.rx.is_empty() && self.has_room() == self.had_room)
    }

    /// The driver thread is awake again, `readable` if because of this TAP.
    pub(crate) fn woken(&mut self, readable: bool) {
        self.may_have |= readable;
        self.queue.starved.store(false, Ordering::Release);
    }

    /// Hands packets of the device to the host. Says how many.
    fn receive(&mut self) -> io::Result<usize> {
        let mut count = 0;
        while count < WEIGHT {
            let Ok(descriptor) = self.rx.pop() else { break };
            count += 1;
            if !tap_io::write(&self.tap, &descriptor)? {
                self.queue.counters.rx_refused.add(1);
            }
            // only this thread writes it
            let consumed = self.queue.consumed.load(Ordering::Relaxed) + descriptor.frames();
            self.queue.consumed.store(consumed, Ordering::Release);
        }
        if count > 0 {
            self.queue.counters.rx_packets.add(count as u64);
            // what the host sends in return, acknowledgements above all, is in the TAP by now
            self.may_have = true;
        }
        Ok(count)
    }

    /// Takes packets of the host and posts them. Says how many.
    fn transmit(&mut self) -> io::Result<usize> {
        let mut count = 0;
        while self.may_have && count < WEIGHT && self.has_room() {
            let Some(descriptor) = tap_io::read(&self.tap, &mut self.pool)? else {
                self.may_have = false;
                break;
            };
            if self.interface.steers() {
                self.steer(&descriptor);
            }
            // the ring has as many places as descriptors may be outstanding
            if self.tx.push(descriptor).is_err() {
                break;
            }
            self.posted += 1;
            count += 1;
            // the device begins while the rest of the batch is fetched
            self.ring_doorbell();
        }
        // The device may have begun to want the doorbell since. Either it sees what was posted
        // above, or this sees what it wants: both have a fence between their two steps.
        if count > 0 {
            fence(Ordering::SeqCst);
            self.ring_doorbell();
            self.queue.counters.tx_packets.add(count as u64);
        }
        Ok(count)
    }

    fn ring_doorbell(&self) {
        if self.interface.wants_doorbell.load(Ordering::Relaxed) && self.doorbell.wake() {
            self.queue.counters.doorbells.add(1);
        }
    }

    fn has_room(&self) -> bool {
        self.posted - self.queue.completed.load(Ordering::Acquire) < self.ring
            && self.tx.slots() > 0
    }

    /// Tells the adapter the queue on which a flow is transmitted, so that it is received there
    /// too.
    fn steer(&mut self, descriptor: &TxDescriptor) {
        // short packets and the first bytes of long ones have all headers
        let length = descriptor.length;
        let head = descriptor.block.bytes(VNET_BYTES..length.min(VNET_BYTES + 256));
        let tail = length.saturating_sub(VNET_BYTES + head.len());
        let Ok(headers) = Headers::parse_parts(head, tail) else { return };
        let Some(flags) = headers.tcp_flags(head) else { return };
        if self.posted.is_multiple_of(STEERING_SAMPLE) || flags & tcp::SYN != 0 {
            let Some((port, _)) = headers.ports(head) else { return };
            let update = SteeringUpdate { port, queue: self.number };
            // the table may miss an update; the next packets bring another
            if self.steering.push(update).is_ok() {
                self.queue.counters.steering_updates.add(1);
            }
        }
    }
}

/// Whether drivers tell the device the queues of their flows.
pub(crate) fn learns(steering: Steering, queues: usize) -> bool {
    steering == Steering::DestinationPort && queues > 1
}
