//! A lane: the driver's ends of the rings of one queue pair of a port.
//!
//! The driver of an ordinary interface has one lane. The driver of an aggregate has one lane for each
//! of its ports.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use linkrate_terms::Steering;
use linkrate_wire::frame::{Headers, tcp};
use rtrb::{Consumer, Producer};

use super::InterfaceShared;
use super::rings::{QueueShared, RxDescriptor, TxDescriptor};
use super::tap_io;
use super::waker::Waker;
use crate::frame::VNET_BYTES;

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

/// A driver's ends of the rings to a device.
#[derive(Debug)]
pub(crate) struct DriverRings {
    pub(crate) tx: Producer<TxDescriptor>,
    pub(crate) rx: Consumer<RxDescriptor>,
    pub(crate) steering: Producer<SteeringUpdate>,
    /// Of a port of an aggregate: frames of its protocols, which wait behind no packet.
    pub(crate) control: Option<ControlRings>,
}

/// A driver's ends of the rings for frames of the protocols of an aggregate.
#[derive(Debug)]
pub(crate) struct ControlRings {
    pub(crate) tx: Producer<TxDescriptor>,
    pub(crate) rx: Consumer<RxDescriptor>,
}

/// The driver's end of one queue pair of a port.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Number of the queue.
    number: u16,
    rings: DriverRings,
    /// Shared with the device.
    queue: Arc<QueueShared>,
    /// The device's doorbell.
    doorbell: Arc<Waker>,
    /// The port's interface.
    interface: Arc<InterfaceShared>,
    /// Packets posted so far, and how many may be outstanding.
    posted: u64,
    ring: u64,
    /// There was room in the transmit ring when the driver looked before its sleep.
    had_room: bool,
}

impl Lane {
    /// The lane of queue `number`.
    pub(crate) fn new(
        number: u16,
        rings: DriverRings,
        queue: Arc<QueueShared>,
        doorbell: Arc<Waker>,
        interface: Arc<InterfaceShared>,
    ) -> Self {
        let ring = rings.tx.slots() as u64;
        Self { number, rings, queue, doorbell, interface, posted: 0, ring, had_room: true }
    }

    /// Takes the next packet of the device.
    pub(crate) fn pop(&mut self) -> Option<RxDescriptor> {
        self.rings.rx.pop().ok()
    }

    /// Takes the next frame of the protocols of an aggregate.
    pub(crate) fn pop_control(&mut self) -> Option<RxDescriptor> {
        self.rings.control.as_mut()?.rx.pop().ok()
    }

    /// Posts a frame of the protocols of an aggregate, before all packets. False if there is no room.
    pub(crate) fn post_control(&mut self, descriptor: TxDescriptor) -> bool {
        let Some(control) = &mut self.rings.control else { return false };
        let posted = control.tx.push(descriptor).is_ok();
        // as after a batch of packets
        fence(Ordering::SeqCst);
        self.ring_doorbell();
        posted
    }

    /// Hands a packet of the device to the host.
    ///
    /// # Errors
    /// The TAP is gone.
    pub(crate) fn hand_up(&self, tap: &OwnedFd, descriptor: &RxDescriptor) -> io::Result<()> {
        if !tap_io::write(tap, descriptor)? {
            self.queue.counters.rx_refused.add(1);
        }
        self.taken(descriptor);
        Ok(())
    }

    /// The device may use the places of a packet again.
    pub(crate) fn taken(&self, descriptor: &RxDescriptor) {
        // only this thread writes it
        let consumed = self.queue.consumed.load(Ordering::Relaxed) + descriptor.frames();
        self.queue.consumed.store(consumed, Ordering::Release);
    }

    /// Counts packets that were handed to the host.
    pub(crate) fn received(&self, count: usize) {
        self.queue.counters.rx_packets.add(count as u64);
    }

    /// Whether a packet can be posted.
    pub(crate) fn has_room(&self) -> bool {
        self.posted - self.queue.completed.load(Ordering::Acquire) < self.ring
            && self.rings.tx.slots() > 0
    }

    /// Posts a packet of the host. There must be [room](Self::has_room). The device begins at once,
    /// while the rest of the batch is fetched.
    pub(crate) fn post(&mut self, descriptor: TxDescriptor) {
        // the ring has as many places as descriptors may be outstanding
        if self.rings.tx.push(descriptor).is_ok() {
            self.posted += 1;
            self.ring_doorbell();
        }
    }

    /// Ends a batch of `count` packets. The device may have begun to want the doorbell since. Either
    /// it sees what was posted, or this sees what it wants: both have a fence between their two
    /// steps.
    pub(crate) fn posted(&self, count: usize) {
        fence(Ordering::SeqCst);
        self.ring_doorbell();
        self.queue.counters.tx_packets.add(count as u64);
    }

    fn ring_doorbell(&self) {
        if self.interface.wants_doorbell.load(Ordering::Relaxed) && self.doorbell.wake() {
            self.queue.counters.doorbells.add(1);
        }
    }

    /// Whether everything that was posted has left.
    pub(crate) fn is_drained(&self) -> bool {
        self.posted == self.queue.completed.load(Ordering::Acquire)
    }

    /// The driver thread spent its budget.
    pub(crate) fn budget_spent(&self) {
        self.queue.counters.budgets.add(1);
    }

    /// The driver thread is about to sleep. `waits` says that a packet would be posted if there were
    /// room. Says whether there is room, or nobody waits for it.
    pub(crate) fn will_sleep(&mut self, waits: bool) -> bool {
        self.had_room = !waits || self.has_room();
        self.queue.starved.store(!self.had_room, Ordering::Release);
        if !self.had_room {
            // the device must know that this driver waits for completions
            self.doorbell.wake();
        }
        self.queue.counters.sleeps.add(1);
        self.had_room
    }

    /// Whether there is still nothing to do, after the thread has said that it will sleep.
    pub(crate) fn is_idle(&self) -> bool {
        let no_control = self.rings.control.as_ref().is_none_or(|control| control.rx.is_empty());
        no_control && self.rings.rx.is_empty() && (self.had_room || !self.has_room())
    }

    /// The driver thread is awake again.
    pub(crate) fn woken(&self) {
        self.queue.starved.store(false, Ordering::Release);
    }

    /// Whether the driver tells the device the queues of its flows.
    pub(crate) fn steers(&self) -> bool {
        self.interface.steers()
    }

    /// The flow of a packet of the host that the device must be told of, if it is the turn of this
    /// packet.
    pub(crate) fn steering(&self, descriptor: &TxDescriptor) -> Option<SteeringUpdate> {
        // short packets and the first bytes of long ones have all headers
        let length = descriptor.length;
        let head = descriptor.block.bytes(VNET_BYTES..length.min(VNET_BYTES + 256));
        let tail = length.saturating_sub(VNET_BYTES + head.len());
        let headers = Headers::parse_parts(head, tail).ok()?;
        let flags = headers.tcp_flags(head)?;
        let is_due = self.posted.is_multiple_of(STEERING_SAMPLE) || flags & tcp::SYN != 0;
        let (port, _) = headers.ports(head).filter(|_| is_due)?;
        Some(SteeringUpdate { port, queue: self.number })
    }

    /// Tells the device the queue on which a flow is transmitted, so that it is received there too.
    pub(crate) fn steer(&mut self, update: SteeringUpdate) {
        // the table may miss an update; the next packets bring another
        if self.rings.steering.push(update).is_ok() {
            self.queue.counters.steering_updates.add(1);
        }
    }
}

/// Whether drivers tell the device the queues of their flows.
pub(crate) fn learns(steering: Steering, queues: usize) -> bool {
    steering == Steering::DestinationPort && queues > 1
}
