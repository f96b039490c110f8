//! The driver of one queue of an interface: it moves packets between the TAP and rings, and does
//! nothing else.
//!
//! Reading the TAP stands for taking a packet off the queue discipline; writing it runs the host's
//! receive processing in the calling thread. A driver thread polls it
//! (`driver_threads`), in batches as long as there is work. The interface is that of one port, or that
//! of an aggregate, whose driver has the rings of several ports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use linkrate_sys::tap;

use super::InterfaceShared;
use super::queue_pair::QueuePair;
use super::rings::{RxDescriptor, TxDescriptor};
use super::tap_io::{self, Packet};
use super::thread_counters::ThreadCounters;
use crate::aggregate::driver::AggregateDriver;
use crate::frame::Block;
use crate::pool::Pool;

/// Packets in each direction before the driver looks at the other direction: NAPI's weight
/// (`NAPI_POLL_WEIGHT`, include/linux/netdevice.h).
pub(crate) const WEIGHT: usize = 64;

/// The host's end of a driver: a queue of a TAP.
#[derive(Debug)]
pub(crate) struct HostEnd {
    pub(crate) tap: OwnedFd,
    pub(crate) pool: Pool<Block>,
    /// The TAP may have a packet: it had one left, or something was written, or its event came.
    pub(crate) may_have: bool,
    /// Packets for the host.
    batch: Vec<Packet>,
    writes: Writes,
    /// Where its packets are counted.
    counters: Arc<ThreadCounters>,
}

impl HostEnd {
    /// The host's end at a queue of a TAP.
    pub(crate) fn new(tap: OwnedFd) -> Self {
        Self {
            writes: Writes::new(&tap),
            tap,
            pool: tap_io::blocks(),
            may_have: true,
            batch: Vec::with_capacity(WEIGHT),
            counters: Arc::default(),
        }
    }

    /// Reads the next packet that the host transmits; `None` when there is no packet.
    ///
    /// # Errors
    /// The TAP is gone.
    pub(crate) fn read(&mut self) -> io::Result<Option<TxDescriptor>> {
        let descriptor = tap_io::read(&self.tap, &mut self.pool)?;
        match &descriptor {
            Some(_) => self.counters.reads.add(1),
            None => self.counters.empty_reads.add(1),
        }
        Ok(descriptor)
    }

    /// Lets a packet for the host wait for the end of the batch. Space is as in NAPI's weight.
    pub(crate) fn queue(&mut self, descriptor: RxDescriptor) {
        self.batch.push(Packet::new(descriptor));
    }

    /// Hands the batch to the host.
    ///
    /// # Errors
    /// The TAP is gone.
    pub(crate) fn hand_up(&mut self) -> io::Result<HandedUp> {
        let mut done = HandedUp::default();
        let (mut gone, mut writes) = (None, 0);
        let batch = std::mem::take(&mut self.batch);
        let mut written = |result: io::Result<usize>| match tap_io::taken(result) {
            Ok(Some(_)) => writes += 1,
            Ok(None) => done.refused += 1,
            Err(error) => gone = Some(error),
        };
        match self.writes.ring(&self.tap, batch.len()) {
            Some(ring) => {
                let pieces = batch.chunks(tap::WriteRing::MAX_PACKETS);
                pieces.for_each(|piece| ring.write(piece, |_, result| written(result)));
            }
            None => batch.iter().for_each(|packet| written(tap::write_packet(&self.tap, packet))),
        }
        done.frames = batch.iter().map(|packet| packet.descriptor.frames()).sum();
        self.counters.writes.add(writes);
        // its memory is used again
        self.batch = batch;
        self.batch.clear();
        gone.map_or(Ok(done), Err)
    }
}

/// What became of a batch of packets for the host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HandedUp {
    /// Frames that they were made of.
    pub(crate) frames: u64,
    /// Packets that the host refused.
    pub(crate) refused: u64,
}

/// How the packets of a batch are written.
#[derive(Debug)]
enum Writes {
    /// By one call each: the host processes each in its write, or there is no other way.
    Each,
    /// By one call for all, which costs less where a NAPI instance processes them. The thread that makes the ring is
    /// the one that uses it.
    Together(Option<Box<tap::WriteRing>>),
}

impl Writes {
    fn new(queue: &OwnedFd) -> Self {
        match tap::has_napi(queue) {
            true => Self::Together(None),
            false => Self::Each,
        }
    }

    /// The ring for a batch of so many; `None` where each is written by itself.
    fn ring(&mut self, queue: &OwnedFd, count: usize) -> Option<&mut tap::WriteRing> {
        if count < 2 {
            return None;
        }
        if matches!(self, Self::Together(None)) {
            *self = match tap::WriteRing::open(queue) {
                Ok(ring) => Self::Together(Some(Box::new(ring))),
                Err(_) => Self::Each,
            };
        }
        match self {
            Self::Together(ring) => ring.as_deref_mut(),
            Self::Each => None,
        }
    }
}

/// Where a driver's packets go.
#[derive(Debug)]
pub(crate) enum TxSink {
    /// To one port.
    Port(Box<QueuePair>),
    /// To the ports of an aggregate.
    Aggregate(Box<AggregateDriver>),
}

/// A driver.
#[derive(Debug)]
pub(crate) struct Driver {
    host: HostEnd,
    pub(crate) sink: TxSink,
    /// The interface of the host.
    interface: Arc<InterfaceShared>,
    /// A packet of the host can be posted, or kept for a port.
    had_room: bool,
    /// A packet of the host wakes the driver thread.
    watched: bool,
    /// The TAP is gone.
    broken: bool,
}

impl Driver {
    /// The driver between a queue of a TAP and `sink`.
    pub(crate) fn new(tap: OwnedFd, sink: TxSink, interface: Arc<InterfaceShared>) -> Self {
        let host = HostEnd::new(tap);
        Self { host, sink, interface, had_room: true, watched: true, broken: false }
    }

    /// Lets its packets be counted there from now on.
    pub(crate) fn count_in(&mut self, counters: Arc<ThreadCounters>) {
        self.host.counters = counters;
    }

    /// The queue of the TAP.
    pub(crate) fn tap(&self) -> BorrowedFd<'_> {
        self.host.tap.as_fd()
    }

    /// Moves at most NAPI's weight of packets in each direction. Says how many.
    pub(crate) fn poll(&mut self) -> usize {
        if self.broken {
            return 0;
        }
        let moved = match &mut self.sink {
            TxSink::Port(queue_pair) => poll_port(&mut self.host, queue_pair),
            TxSink::Aggregate(aggregate_driver) => aggregate_driver.poll(&mut self.host),
        };
        moved.unwrap_or_else(|_| {
            self.fail();
            0
        })
    }

    /// The TAP is gone: whoever looks at the interface learns it.
    pub(crate) fn fail(&mut self) {
        self.broken = true;
        self.interface.broken.store(true, Ordering::Relaxed);
    }

    /// The driver thread spent its budget.
    pub(crate) fn budget_spent(&self) {
        match &self.sink {
            TxSink::Port(queue_pair) => queue_pair.budget_spent(),
            TxSink::Aggregate(aggregate_driver) => {
                aggregate_driver.queue_pairs().for_each(QueuePair::budget_spent)
            }
        }
    }

    /// The driver thread is about to sleep.
    pub(crate) fn will_sleep(&mut self) {
        self.had_room = match &mut self.sink {
            TxSink::Port(queue_pair) => queue_pair.will_sleep(),
            TxSink::Aggregate(aggregate_driver) => aggregate_driver.will_sleep(),
        };
    }

    /// Whether the TAP shall wake the driver thread during the coming sleep; `None` if that stays as
    /// it was. While there is no room, a packet of the host has nowhere to go: only the device's next
    /// completion wakes the thread.
    pub(crate) fn watch_tap(&mut self) -> Option<bool> {
        let before = std::mem::replace(&mut self.watched, self.had_room);
        (before != self.watched).then_some(self.watched)
    }

    /// Whether there is still nothing to do, after the thread has said that it will sleep.
    pub(crate) fn is_idle(&self) -> bool {
        self.broken
            || match &self.sink {
                TxSink::Port(queue_pair) => queue_pair.is_idle(),
                TxSink::Aggregate(aggregate_driver) => aggregate_driver.is_idle(),
            }
    }

    /// When the driver must be polled even if nothing arrives and nothing is sent, CLOCK_MONOTONIC ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        match &self.sink {
            TxSink::Port(_) => None,
            TxSink::Aggregate(aggregate_driver) => aggregate_driver.due_ns(),
        }
    }

    /// The driver thread is awake again, `readable` if because of this TAP.
    pub(crate) fn woken(&mut self, readable: bool) {
        self.host.may_have |= readable;
        match &mut self.sink {
            TxSink::Port(queue_pair) => queue_pair.woken(),
            TxSink::Aggregate(aggregate_driver) => {
                aggregate_driver.queue_pairs().for_each(QueuePair::woken)
            }
        }
    }
}

/// Moves packets between a TAP and one port. Says how many.
fn poll_port(host: &mut HostEnd, queue_pair: &mut QueuePair) -> io::Result<usize> {
    let mut received = 0;
    while received < WEIGHT {
        let Some(descriptor) = queue_pair.pop() else { break };
        received += 1;
        host.queue(descriptor);
    }
    if received > 0 {
        queue_pair.hand_up(host)?;
        queue_pair.received(received);
        // what the host sends in return, acknowledgements above all, is in the TAP by now
        host.may_have = true;
    }
    let waited = queue_pair.post_waiting();
    let is_revoking = queue_pair.is_revoking();
    host.may_have |= is_revoking;
    let mut sent = 0;
    while host.may_have && sent < WEIGHT && queue_pair.takes() {
        let Some(descriptor) = host.read()? else {
            host.may_have = false;
            break;
        };
        if queue_pair.steers()
            && let Some(update) = queue_pair.steering(&descriptor)
        {
            queue_pair.steer(update);
        }
        queue_pair.send(descriptor);
        sent += 1;
    }
    if is_revoking && !(host.may_have && queue_pair.takes()) {
        queue_pair.revoke();
    }
    queue_pair.end_batch();
    Ok(received + waited + sent)
}
