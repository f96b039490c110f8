//! A queue that the device thread serves itself: it reads and writes the TAP.
//!
//! Client ports are test equipment. A write runs the client's receive processing in the device
//! thread, and what that transmits, acknowledgements above all, is in the TAP when the write
//! returns: the next read finds it without a wake-up. Only what a program of the client sends by
//! itself must end the device thread's sleep, and only while the link has nothing to send.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linkrate_sys::epoll::{Epoll, Watch};
use linkrate_sys::error::SysResult;

use super::flow_queue::FlowQueue;
use super::host_end::{self, Packet};
use super::rings::{MAX_BYTES, MAX_QUEUE, RxDescriptor, TxDescriptor};
use super::tx_revoke::Revoked;
use crate::counters::DriverCounters;
use crate::frame::Block;
use crate::pool::Pool;

/// Packets read in one turn, so that one client does not keep the others waiting.
const BUDGET: usize = 64;

/// The two ends of one queue.
#[derive(Debug)]
pub(crate) struct Polled {
    tap: OwnedFd,
    /// The number under which the wait of the device thread knows the TAP.
    number: u64,
    pool: Pool<Block>,
    /// Read and not sent yet.
    tx: FlowQueue,
    /// For the host, at its next interrupt.
    rx: Vec<RxDescriptor>,
    /// Frames handed to the host.
    consumed: u64,
    /// The TAP may have a packet: it had one left, or something was written, or its event came.
    may_have: bool,
    /// The TAP's next packet ends the wait.
    armed: bool,
    counters: Arc<DriverCounters>,
    /// The TAP is gone.
    broken: bool,
}

impl Polled {
    pub(crate) fn new(tap: OwnedFd, number: u64, counters: Arc<DriverCounters>) -> Self {
        Self {
            tap,
            number,
            pool: host_end::blocks(),
            tx: FlowQueue::new(MAX_QUEUE),
            rx: Vec::new(),
            consumed: 0,
            may_have: true,
            armed: false,
            counters,
            broken: false,
        }
    }

    pub(super) fn pop(&mut self) -> Option<TxDescriptor> {
        self.tx.pop()
    }

    pub(super) fn has_posted(&self) -> bool {
        !self.tx.is_empty()
    }

    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(super) fn push(&mut self, descriptor: RxDescriptor) {
        self.rx.push(descriptor);
    }

    /// Reads what the host transmits, until `bytes` wait to be sent.
    pub(super) fn fetch(&mut self, bytes: usize) {
        self.read(bytes, BUDGET);
    }

    /// The same, `most` packets at most.
    fn read(&mut self, bytes: usize, most: usize) {
        let mut count = 0;
        while self.may_have
            && !self.broken
            && self.tx.has_room()
            && self.tx.bytes() < bytes
            && count < most
        {
            match host_end::read(&self.tap, &mut self.pool) {
                Ok(Some(descriptor)) => {
                    self.tx.push(descriptor);
                    count += 1;
                }
                Ok(None) => self.may_have = false,
                Err(_) => self.broken = true,
            }
        }
        if count > 0 {
            self.counters.tx_packets.add(count as u64);
        }
    }

    /// Revokes the packets of a connection that moves. Its host sends no further ones.
    pub(super) fn revoke(&mut self, revoked: &mut Revoked) {
        self.may_have = true;
        self.read(MAX_BYTES, MAX_QUEUE);
        self.tx.revoke(revoked);
    }

    /// Hands the host what was pushed. Says whether there was anything.
    pub(super) fn interrupt(&mut self) -> bool {
        if self.rx.is_empty() {
            return false;
        }
        self.counters.rx_packets.add(self.rx.len() as u64);
        for descriptor in self.rx.drain(..) {
            self.consumed += descriptor.frames();
            match host_end::write(&self.tap, &Packet::new(descriptor)) {
                Ok(Some(_)) => {}
                Ok(None) => self.counters.rx_refused.add(1),
                Err(_) => self.broken = true,
            }
        }
        self.may_have = true;
        true
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Adds the TAP to the device thread's wait.
    pub(crate) fn watch(&self, epoll: &Epoll) -> SysResult<()> {
        epoll.add(self.tap.as_fd(), self.number, Watch::Once)
    }

    /// Takes the TAP out of the device thread's wait.
    pub(crate) fn unwatch(&self, epoll: &Epoll) {
        // it was added; a TAP that is gone is no longer in there
        let _ = epoll.remove(self.tap.as_fd());
    }

    /// The device thread slept: a TAP that it did not watch may have got a packet.
    pub(crate) fn look_again(&mut self) {
        self.may_have |= !self.armed;
    }

    /// Lets the TAP's next packet end the device thread's wait.
    pub(crate) fn arm(&mut self, epoll: &Epoll) -> SysResult<()> {
        if !self.armed && !self.broken {
            epoll.arm(self.tap.as_fd(), self.number)?;
            self.armed = true;
        }
        Ok(())
    }

    /// The TAP's event came.
    pub(crate) fn has_packet(&mut self) {
        self.armed = false;
        self.may_have = true;
    }
}
