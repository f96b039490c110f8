//! The host's end of a driver: packets of a queue of a TAP, each direction in batches.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_sys::tap;

use super::rings::{RxDescriptor, TxDescriptor};
use super::tap_io::{self, Packet};
use super::thread_counters::ThreadCounters;
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
    pub(super) counters: Arc<ThreadCounters>,
}

impl HostEnd {
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

    /// Reads the next packet that the host transmits; `None` when there is no packet. Fails when the TAP is gone.
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

    /// Hands the batch to the host. Fails when the TAP is gone.
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
