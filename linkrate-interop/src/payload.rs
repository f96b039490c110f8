//! The payload of a test, at either end of it: threads that send and receive, each with its counters.
//!
//! - [`Stream`]: a stream and its thread
//! - `datagrams`: the work of a stream of datagrams
//! - [`guarded`]: a test whose end another thread watches

mod datagrams;
mod guarded;
mod stream;

use std::io;

use linkrate_sys::memory::PageBuffer;

pub use guarded::guarded;
pub use stream::{Count, Phase, Socket, Stream, Work};

/// Whether a call failed for its time, and not for its connection. `TimedOut` is what a connection says whose peer does
/// not answer any more.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

/// Payload of so many octets, from the beginning of a page on, where iperf3 has it too.
///
/// # Errors
/// When memory is refused.
pub fn payload(octets: usize) -> io::Result<PageBuffer> {
    let mut buffer = PageBuffer::small(octets.max(1))?;
    buffer.fill(0x5a);
    Ok(buffer)
}
