//! TCP bulk data whose every byte the receiver verifies, for a run with an event.
//!
//! The payload of each flow is a pattern that does not repeat within a mebibyte. The receiver compares
//! each byte with the one that is due at its place in the stream: a byte that is lost, doubled, out of
//! order or changed makes the rest of the stream differ. Both ends touch more memory than those of a
//! [plain stream](super::stream), which keep their payload in the first-level cache.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket;

use super::FlowContext;
use super::record::Record;
use super::send_path::payload;
use super::sizes::Sizes;
use super::stream::Taking;

/// After so many bytes the pattern repeats: the largest prime below a mebibyte, so that nothing that
/// is lost or doubled in pieces of segments, pages or messages is a whole number of repetitions.
const PERIOD: usize = 1_048_573;

/// The most bytes that one call sends or receives.
const CHUNK: usize = 256 << 10;

/// The payload of every verified stream.
#[derive(Debug)]
pub struct Pattern {
    /// A period, and its beginning once more.
    bytes: Vec<u8>,
}

impl Pattern {
    pub fn new() -> Self {
        let mut bytes = payload(PERIOD);
        bytes.extend_from_within(..CHUNK);
        Self { bytes }
    }

    /// The bytes from `offset` of the stream, at most [`CHUNK`] of them.
    fn at(&self, offset: u64, length: usize) -> &[u8] {
        let from = (offset % PERIOD as u64) as usize;
        &self.bytes[from..from + length.min(CHUNK)]
    }

    /// How many of `received`, which begins at `offset`, are others than those that were sent.
    fn differences(&self, offset: u64, received: &[u8]) -> usize {
        let expected = self.at(offset, received.len());
        if received == expected {
            return 0;
        }
        let differ = received.iter().zip(expected).filter(|(got, sent)| got != sent).count();
        differ + received.len().saturating_sub(expected.len())
    }
}

impl Default for Pattern {
    fn default() -> Self {
        Self::new()
    }
}

/// Sends messages until told to stop; `WriteZero` when the peer accepts no more data.
pub fn transmit(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    pattern: &Pattern,
    mut sizes: Sizes,
) -> io::Result<()> {
    let mut offset = 0_u64;
    while !flow.control.stopped() {
        let mut left = sizes.draw();
        while left > 0 && !flow.control.stopped() {
            let bytes = pattern.at(offset, left);
            let sent = flow.parking.call(|| socket::send(socket, bytes))?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            offset += sent as u64;
            left -= sent.min(left);
            flow.counters.add_sent(sent as u64);
        }
    }
    Ok(())
}

/// Receives and verifies until told to stop; `UnexpectedEof` when the sender closes first.
pub fn receive(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    pattern: &Pattern,
    record: &Arc<Record>,
    taking: Taking,
) -> io::Result<()> {
    taking.prepare()?;
    let mut region = PageBuffer::zeroed(CHUNK)?;
    let mut offset = 0_u64;
    while !flow.control.stopped() {
        let received = flow.parking.call(|| socket::receive(socket, &mut region))?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        record.received(&flow.control.moments, monotonic_ns(), received);
        flow.counters.add_received(received as u64);
        record.verified(received, pattern.differences(offset, &region[..received]));
        offset += received as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_at_their_place_are_right_and_moved_or_changed_ones_are_not(
            offset in 0_u64..10_000_000, length in 64_usize..CHUNK, by in 1_u64..1_048_000,
        ) {
            let pattern = Pattern::new();
            let sent = pattern.at(offset, length).to_vec();
            prop_assert_eq!(pattern.differences(offset, &sent), 0);
            // lost or doubled before: nearly every byte is another
            prop_assert!(pattern.differences(offset + by, &sent) > length / 2);
            let mut changed = sent;
            changed[length / 2] ^= 1;
            prop_assert_eq!(pattern.differences(offset, &changed), 1);
        }
    }

    #[test]
    fn the_pattern_repeats_after_its_period_without_a_seam() {
        let pattern = Pattern::new();
        let across = pattern.at(PERIOD as u64 - 10, 30).to_vec();
        assert_eq!(across[..10], *pattern.at(2 * PERIOD as u64 - 10, 10));
        assert_eq!(across[10..], *pattern.at(0, 20));
    }
}
