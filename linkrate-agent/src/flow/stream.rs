//! TCP bulk data.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_sys::memory::PageBuffer;
use linkrate_sys::sched::become_batch;
use linkrate_sys::socket;
use linkrate_terms::{ReceivePath, SendPath};

use super::FlowContext;
use super::send_path::{Sender, region_bytes};
use super::sizes::Sizes;

/// Most bytes taken off a socket in one call. A message of the workload is what the sender hands
/// over; a receiver takes what is there.
const RECEIVE_BYTES: usize = 256 << 10;

/// Most bytes discarded in one call: discarding touches no memory, so more is only fewer calls.
const DISCARD_BYTES: usize = 1 << 20;

/// Bytes after which a sender lets its receiver have the CPU they share, so that payload is taken
/// while it is still in the second-level cache.
const TURN_BYTES: usize = 512 << 10;

/// Sends messages until told to stop. With `takes_turns` the receiver is on the same CPU.
///
/// # Errors
/// As the socket's.
pub fn transmit(
    flow: &mut FlowContext,
    socket: Arc<OwnedFd>,
    path: SendPath,
    mut sizes: Sizes,
    takes_turns: bool,
) -> io::Result<()> {
    let mut sender = Sender::new(socket, path, sizes.largest())?;
    // payload that is not copied does not care for caches
    let turn_bytes = if takes_turns && path == SendPath::Plain { TURN_BYTES } else { usize::MAX };
    let mut since_turn = 0;
    while !flow.control.stopped() {
        let length = sizes.draw();
        sender.send(length, &flow.control, &flow.counters)?;
        since_turn += length;
        if since_turn >= turn_bytes {
            since_turn = 0;
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Receives until told to stop. With `takes_turns` the sender is on the same CPU.
///
/// # Errors
/// As the socket's; `UnexpectedEof` when the sender closes first.
pub fn receive(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    path: ReceivePath,
    takes_turns: bool,
) -> io::Result<()> {
    if takes_turns {
        // or every segment that arrives would take the CPU from the sender
        become_batch()?;
    }
    let mut region = PageBuffer::zeroed(region_bytes(RECEIVE_BYTES))?;
    while !flow.control.stopped() {
        let received = match path {
            ReceivePath::Plain => socket::receive_repeated(socket, &mut region, RECEIVE_BYTES)?,
            ReceivePath::Truncate => socket::discard(socket, DISCARD_BYTES)?,
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        flow.counters.add_received(received as u64);
    }
    Ok(())
}
