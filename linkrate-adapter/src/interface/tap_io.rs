//! Packets into and out of a TAP.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::tap;

use super::rings::{RxDescriptor, TxDescriptor};
use crate::frame::{Block, VNET_BYTES};
use crate::pool::Pool;

/// Most blocks that a queue keeps for its packets.
pub(crate) const BLOCKS: usize = 4096;

/// Pieces of a packet that go to the kernel without an allocation.
const PIECES: usize = 64;

/// Reads the next packet that the host transmits; `None` when there is no packet.
///
/// # Errors
/// The TAP's own: its interface is gone.
pub(crate) fn read(tap: &OwnedFd, pool: &mut Pool<Block>) -> io::Result<Option<TxDescriptor>> {
    match pool.with_free(|block| tap::read(tap, block.bytes_mut())) {
        Ok((block, length)) => Ok(Some(TxDescriptor { block, length, posted_ns: monotonic_ns() })),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Hands one packet to the host. Returns the bytes of the call; `None` when the host refuses this
/// packet; others may still pass.
///
/// # Errors
/// The TAP's own: its interface is gone.
pub(crate) fn write(tap: &OwnedFd, descriptor: &RxDescriptor) -> io::Result<Option<usize>> {
    let vnet = descriptor.vnet.emit();
    let mut pieces = [IoSlice::new(&[]); PIECES];
    pieces[0] = IoSlice::new(&vnet[..VNET_BYTES]);
    let mut count = 1;
    let mut rest = Vec::new();
    descriptor.for_each_piece(|piece| {
        if piece.is_empty() {
            return;
        }
        match pieces.get_mut(count) {
            Some(place) => {
                *place = IoSlice::new(piece);
                count += 1;
            }
            None => rest.push(IoSlice::new(piece)),
        }
    });
    let written = if rest.is_empty() {
        tap::write_vectored(tap, &pieces[..count])
    } else {
        let all: Vec<_> = pieces.into_iter().chain(rest).collect();
        tap::write_vectored(tap, &all)
    };
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
