//! The payload of a test of iperf3, at either end of it: threads that send and receive, each with its counters.
//!
//! - [`Stream`]: a stream and its thread
//! - `datagrams`: the work of a stream of datagrams

mod datagrams;
mod stream;

use std::io;

pub use stream::{Count, Phase, Socket, Stream, Work};

/// Whether a call failed for its time, and not for its connection.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
