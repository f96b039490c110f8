//! Packets into and out of a TAP.

use std::io;
use std::os::fd::OwnedFd;

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::tap;
use linkrate_wire::vnet;

use super::rings::{RxDescriptor, TxDescriptor};
use crate::frame::{Block, VNET_BYTES};
use crate::pool::Pool;

/// Most blocks that a queue keeps for its packets.
pub(crate) const BLOCKS: usize = 4096;

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
