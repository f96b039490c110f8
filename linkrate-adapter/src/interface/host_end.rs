//! The host's end of a driver: packets of a queue of a TAP, each direction in batches.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_model::driver_counts::DriverCounts;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::tap;
use linkrate_wire::vnet;

use super::rings::{RxDescriptor, TxDescriptor};
use crate::counters::Counter;
use crate::frame::{Block, VNET_BYTES};
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
            pool: blocks(),
            may_have: true,
            batch: Vec::with_capacity(WEIGHT),
            counters: Arc::default(),
        }
    }

    /// Reads the next packet that the host transmits; `None` when there is no packet. Fails when the TAP is gone.
    pub(crate) fn read(&mut self) -> io::Result<Option<TxDescriptor>> {
        let descriptor = read(&self.tap, &mut self.pool)?;
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
        let mut written = |result: io::Result<usize>| match taken(result) {
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

/// The counters of one driver thread, which alone counts.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    /// Packets that were read.
    pub(crate) reads: Counter,
    pub(crate) empty_reads: Counter,
    pub(crate) writes: Counter,
    pub(crate) sleeps: Counter,
    /// Interrupts that ended a sleep.
    pub(crate) interrupts: Counter,
    /// The time from those interrupts until the thread had its CPU, ns.
    pub(crate) interrupt_delay_ns: Counter,
}

impl ThreadCounters {
    pub(crate) fn get(&self) -> DriverCounts {
        DriverCounts {
            reads: self.reads.get(),
            empty_reads: self.empty_reads.get(),
            writes: self.writes.get(),
            sleeps: self.sleeps.get(),
            interrupts: self.interrupts.get(),
            interrupt_delay_ns: self.interrupt_delay_ns.get(),
        }
    }
}

/// Most blocks that a queue keeps for its packets.
const BLOCKS: usize = 4096;

/// Reads the next packet that the host transmits; `None` when there is no packet. Fails when the interface of the
/// TAP is gone.
pub(crate) fn read(tap: &OwnedFd, pool: &mut Pool<Block>) -> io::Result<Option<TxDescriptor>> {
    match pool.with_free(|block| tap::read(tap, block.bytes_mut())) {
        Ok((block, length)) => Ok(Some(TxDescriptor { block, length, posted_ns: monotonic_ns() })),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// A packet for the host behind its vnet header.
#[derive(Debug)]
pub(crate) struct Packet {
    vnet: [u8; vnet::MAX_LENGTH],
    pub(crate) descriptor: RxDescriptor,
}

impl Packet {
    pub(crate) fn new(descriptor: RxDescriptor) -> Self {
        Self { vnet: descriptor.vnet.emit(), descriptor }
    }
}

impl tap::Packet for Packet {
    fn for_each_piece<'a>(&'a self, mut piece: impl FnMut(&'a [u8])) {
        piece(&self.vnet[..VNET_BYTES]);
        self.descriptor.for_each_piece(piece);
    }
}

/// Hands one packet to the host. Returns the bytes of the call; `None` when the host refuses this packet; others
/// may still pass. Fails when the interface of the TAP is gone.
pub(crate) fn write(tap: &OwnedFd, packet: &Packet) -> io::Result<Option<usize>> {
    taken(tap::write_packet(tap, packet))
}

/// What a write has returned, as [`write`] does.
pub(crate) fn taken(written: io::Result<usize>) -> io::Result<Option<usize>> {
    match written {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_gone(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether the interface of the TAP is gone (EBADFD).
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::BADFD.raw_os_error())
}

/// A pool of blocks for one queue.
pub(crate) fn blocks() -> Pool<Block> {
    Pool::new(BLOCKS, Block::new)
}
