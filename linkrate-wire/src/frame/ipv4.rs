//! The IPv4 header (RFC 791), with options.

use super::error::{FrameError, has};
use super::{Extent, be16};
use crate::checksum::{Sum, pseudo_v4};

/// The EtherType.
pub const ETHER_TYPE: u16 = 0x0800;
/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Offset of the total length in the header.
pub const TOTAL_LENGTH: usize = 2;
/// Offset of the identification in the header.
pub const IDENTIFICATION: usize = 4;
/// Offset of flags and fragment offset in the header.
pub const FRAGMENT: usize = 6;
/// Offset of the time to live in the header.
pub const TTL: usize = 8;
/// Offset of the number of the protocol behind the header.
pub const PROTOCOL: usize = 9;
/// Offset of the header checksum in the header.
pub const CHECKSUM: usize = 10;
/// Offset of the source address, which the destination follows.
pub const SOURCE: usize = 12;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS_OR_OFFSET: u16 = 0x3fff;
const OFFSET: u16 = 0x1fff;

/// Where an IPv4 header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4 {
    /// Bytes before it.
    pub at: usize,
    /// Its bytes, options included.
    pub length: usize,
    /// The packet is a piece of a larger one.
    pub fragment: bool,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// The identification.
    pub identification: u16,
}

/// The fragment offset of the header at `at`, in units of eight octets; of a header that is cut off, none that a packet
/// has.
pub(crate) fn fragment_offset(frame: &[u8], at: usize) -> u16 {
    let field = frame.get(at + FRAGMENT..).and_then(|rest| rest.first_chunk());
    field.map_or(u16::MAX, |field| u16::from_be_bytes(*field) & OFFSET)
}

impl Ipv4 {
    pub(super) fn pseudo_header(&self, frame: &[u8], protocol: u8, length: usize) -> Option<Sum> {
        let addresses = frame.get(self.at + SOURCE..self.at + HEADER)?.first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *addresses;
        let length = u16::try_from(length).ok()?;
        Some(pseudo_v4([a, b, c, d], [e, f, g, h], protocol, length))
    }
}

/// The header, and where the packet ends.
#[inline]
pub(super) fn parse(extent: Extent<'_>, at: usize) -> Result<(Ipv4, usize), FrameError> {
    has("bytes of IPv4 header", extent, at, HEADER)?;
    let frame = extent.head;
    FrameError::within("IP version", at, usize::from(frame[at] >> 4), 4, 4)?;
    let room = extent.length - at;
    let length = usize::from(frame[at] & 15) * 4;
    FrameError::within("IPv4 header length", at, length, HEADER, room.min(60))?;
    has("bytes of IPv4 header", extent, at, length)?;
    let total = usize::from(be16(frame, at + TOTAL_LENGTH));
    FrameError::within("IPv4 total length", at + TOTAL_LENGTH, total, length, room)?;
    let flags = be16(frame, at + FRAGMENT);
    let ip = Ipv4 {
        at,
        length,
        fragment: flags & MORE_FRAGMENTS_OR_OFFSET != 0,
        dont_fragment: flags & DONT_FRAGMENT != 0,
        identification: be16(frame, at + IDENTIFICATION),
    };
    Ok((ip, at + total))
}
