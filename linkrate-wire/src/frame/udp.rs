//! The UDP header (RFC 768).

use super::error::{FrameError, has};
use super::{Extent, be16};

/// Bytes of the header.
pub const HEADER: usize = 8;
/// Offset of the length in the header.
pub const LENGTH: usize = 4;
/// Offset of the checksum in the header.
pub const CHECKSUM: usize = 6;

/// The length field of the header at `at`: header and payload.
pub(crate) fn length(frame: &[u8], at: usize) -> u16 {
    be16(frame, at + LENGTH)
}

/// The checksum field of the header at `at`; zero when there is none.
pub(crate) fn checksum(frame: &[u8], at: usize) -> u16 {
    be16(frame, at + CHECKSUM)
}

/// The length of the header, once the length field is known to fit the packet.
#[inline]
pub(super) fn parse(packet: Extent<'_>, at: usize) -> Result<usize, FrameError> {
    has("bytes of UDP header", packet, at, HEADER)?;
    let found = usize::from(length(packet.head, at));
    FrameError::within("UDP length", at + LENGTH, found, HEADER, packet.length - at)?;
    Ok(HEADER)
}
