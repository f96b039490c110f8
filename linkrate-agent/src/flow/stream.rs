//! TCP bulk data.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket;
use linkrate_terms::{ReceivePath, SendPath};

use super::FlowContext;
use super::send_path::Sender;
use super::sizes::Sizes;

/// Most bytes taken off a socket in one call. A message of the workload is what the sender hands
/// over; a receiver takes what is there.
const RECEIVE_BYTES: usize = 256 << 10;

/// Sends messages until told to stop.
///
/// # Errors
/// As the socket's.
pub fn transmit(
    flow: &mut FlowContext,
    socket: Arc<OwnedFd>,
    path: SendPath,
    mut sizes: Sizes,
) -> io::Result<()> {
    let mut sender = Sender::new(socket, path, sizes.largest())?;
    while !flow.control.stopped() {
        sender.send(sizes.draw(), &flow.control, &flow.counters)?;
    }
    Ok(())
}

/// Receives until told to stop.
///
/// # Errors
/// As the socket's; `UnexpectedEof` when the sender closes first.
pub fn receive(flow: &mut FlowContext, socket: &OwnedFd, path: ReceivePath) -> io::Result<()> {
    let mut buffer = PageBuffer::zeroed(RECEIVE_BYTES)?;
    while !flow.control.stopped() {
        let received = match path {
            ReceivePath::Plain => socket::receive(socket, &mut buffer)?,
            ReceivePath::Truncate => socket::discard(socket, DISCARD_BYTES)?,
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        flow.counters.add_received(received as u64);
    }
    Ok(())
}

/// Most bytes discarded in one call: discarding touches no memory, so more is only fewer calls.
const DISCARD_BYTES: usize = 1 << 20;
