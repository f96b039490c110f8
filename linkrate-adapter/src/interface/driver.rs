//! The driver of one queue of an interface: it moves packets between the TAP and rings, and does
//! nothing else.
//!
//! Reading the TAP stands for taking a packet off the queue discipline; writing it runs the host's
//! receive processing in the calling thread. A driver thread polls it
//! (`driver_threads`), in batches as long as there is work. The interface is that of one port, or that
//! of an aggregate, whose driver has the rings of several ports ([`TxSink`]).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::InterfaceShared;
use super::host_end::{HostEnd, ThreadCounters, WEIGHT};
use super::queue_pair::QueuePair;

/// Where a driver's packets go: one port, or the ports of an aggregate.
pub(crate) trait TxSink: fmt::Debug + Send {
    /// Moves at most NAPI's weight of packets in each direction. Says how many.
    fn poll(&mut self, host: &mut HostEnd) -> io::Result<usize>;

    /// The driver thread spent its budget.
    fn budget_spent(&self);

    /// The driver thread is about to sleep. Says whether a packet of the host can be taken.
    fn will_sleep(&mut self) -> bool;

    /// Whether there is still nothing to do.
    fn is_idle(&self) -> bool;

    /// When it must be polled even if nothing arrives and nothing is sent, CLOCK_MONOTONIC ns.
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// The driver thread is awake again.
    fn woken(&self);

    /// Adds a port of an aggregate.
    fn add(&mut self, _member: usize, _queue_pair: QueuePair) {}

    /// Removes a port of an aggregate. Packets that wait for it go to the others.
    fn remove(&mut self, _member: usize) {}

    /// Whether everything that was posted to a port of an aggregate has left, and nothing waits for it.
    fn is_drained(&self, _member: usize) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct PortSink(pub(crate) QueuePair);

impl TxSink for PortSink {
    fn poll(&mut self, host: &mut HostEnd) -> io::Result<usize> {
        let queue_pair = &mut self.0;
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

    fn budget_spent(&self) {
        self.0.budget_spent();
    }

    fn will_sleep(&mut self) -> bool {
        self.0.will_sleep()
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn woken(&self) {
        self.0.woken();
    }
}

#[derive(Debug)]
pub(crate) struct Driver {
    host: HostEnd,
    pub(super) sink: Box<dyn TxSink>,
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
    pub(crate) fn new(
        tap: OwnedFd,
        sink: Box<dyn TxSink>,
        interface: Arc<InterfaceShared>,
    ) -> Self {
        let host = HostEnd::new(tap);
        Self { host, sink, interface, had_room: true, watched: true, broken: false }
    }

    /// Lets its packets be counted there from now on.
    pub(crate) fn count_in(&mut self, counters: Arc<ThreadCounters>) {
        self.host.counters = counters;
    }

    pub(crate) fn tap(&self) -> BorrowedFd<'_> {
        self.host.tap.as_fd()
    }

    pub(crate) fn poll(&mut self) -> usize {
        if self.broken {
            return 0;
        }
        self.sink.poll(&mut self.host).unwrap_or_else(|_| {
            self.fail();
            0
        })
    }

    /// The TAP is gone: whoever looks at the interface learns it.
    pub(crate) fn fail(&mut self) {
        self.broken = true;
        self.interface.broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn budget_spent(&self) {
        self.sink.budget_spent();
    }

    pub(crate) fn will_sleep(&mut self) {
        self.had_room = self.sink.will_sleep();
    }

    /// Whether the TAP shall wake the driver thread during the coming sleep; `None` if that stays as
    /// it was. While there is no room, a packet of the host has nowhere to go: only the device's next
    /// completion wakes the thread.
    pub(crate) fn watch_tap(&mut self) -> Option<bool> {
        let before = std::mem::replace(&mut self.watched, self.had_room);
        (before != self.watched).then_some(self.watched)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.broken || self.sink.is_idle()
    }

    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.sink.due_ns()
    }

    /// The driver thread is awake again, `readable` if because of this TAP.
    pub(crate) fn woken(&mut self, readable: bool) {
        self.host.may_have |= readable;
        self.sink.woken();
    }
}
