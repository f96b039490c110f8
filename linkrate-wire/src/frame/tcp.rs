//! The TCP header (RFC 9293): offsets, and the flags as bits.

use super::error::{FrameError, has};
use super::{Extent, be16};

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Offset of the sequence number in the header.
pub const SEQUENCE: usize = 4;
/// Offset of data offset, flags.
pub const OFFSET_AND_FLAGS: usize = 12;
/// Offset of the checksum in the header.
pub const CHECKSUM: usize = 16;

/// No more data from the sender.
pub const FIN: u16 = 0x001;
/// Synchronise sequence numbers.
pub const SYN: u16 = 0x002;
/// Reset the connection.
pub const RST: u16 = 0x004;
/// Push.
pub const PSH: u16 = 0x008;
/// The acknowledgement number is valid.
pub const ACK: u16 = 0x010;
/// The urgent pointer is valid.
pub const URG: u16 = 0x020;
/// Congestion was experienced (RFC 3168).
pub const ECE: u16 = 0x040;
/// The congestion window was reduced (RFC 3168).
pub const CWR: u16 = 0x080;

/// Flags and reserved bits of the header at `at`, without the data offset.
pub(crate) fn flags(frame: &[u8], at: usize) -> u16 {
    be16(frame, at + OFFSET_AND_FLAGS) & 0x0fff
}

/// The length of the header at `at`, options included.
#[inline]
pub(super) fn parse(packet: Extent<'_>, at: usize) -> Result<usize, FrameError> {
    has("bytes of TCP header", packet, at, HEADER)?;
    let length = usize::from(packet.head[at + OFFSET_AND_FLAGS] >> 4) * 4;
    let room = (packet.length - at).min(60);
    FrameError::within("TCP header length", at + OFFSET_AND_FLAGS, length, HEADER, room)?;
    has("bytes of TCP header", packet, at, length)?;
    Ok(length)
}
