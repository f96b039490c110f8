//! The IPv6 header (RFC 8200) and its extension headers, walked to the transport.

use super::error::{FrameError, has};
use super::{Extent, be16};
use crate::checksum::{Sum, pseudo_v6};

/// The EtherType.
pub const ETHER_TYPE: u16 = 0x86dd;
/// Bytes of the header without extensions.
pub const HEADER: usize = 40;
/// Offset of the payload length in the header.
pub const PAYLOAD_LENGTH: usize = 4;
/// Offset of the field that names the next header.
pub const NEXT_HEADER: usize = 6;
/// Offset of the hop limit.
pub const HOP_LIMIT: usize = 7;
/// Offset of the source address, which the destination follows.
pub const SOURCE: usize = 8;
/// The most extension headers that are walked. In a proper packet each kind occurs once, except
/// destination options, which occur twice (RFC 8200, 4.1).
pub const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;

/// Where an IPv6 header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6 {
    /// Bytes before it.
    pub at: usize,
    /// Its bytes, extension headers included up to a fragment header.
    pub length: usize,
    /// The packet has a fragment header, even if it is the only piece.
    pub fragment: bool,
    /// A routing header has segments left, so the final destination, which the checksum of the
    /// transport covers, is not in the IPv6 header.
    pub routed: bool,
}

impl Ipv6 {
    pub(super) fn pseudo_header(&self, frame: &[u8], protocol: u8, length: usize) -> Option<Sum> {
        if self.routed {
            return None;
        }
        let addresses = frame.get(self.at + SOURCE..self.at + HEADER)?;
        let (source, destination) = addresses.split_first_chunk::<16>()?;
        let destination = destination.first_chunk::<16>()?;
        Some(pseudo_v6(*source, *destination, protocol, u32::try_from(length).ok()?))
    }
}

/// The length of an extension header by its kind and length field.
fn extension(kind: u8, units: u8) -> usize {
    let units = usize::from(units);
    // RFC 4302 counts the authentication header in words of 4 bytes
    if kind == AUTHENTICATION { (units + 2) * 4 } else { (units + 1) * 8 }
}

/// The header, the protocol after its extensions (none for a fragment), and where the packet ends.
pub(super) fn parse(
    extent: Extent<'_>,
    at: usize,
) -> Result<(Ipv6, Option<u8>, usize), FrameError> {
    has("bytes of IPv6 header", extent, at, HEADER)?;
    let frame = extent.head;
    FrameError::within("IP version", at, usize::from(frame[at] >> 4), 6, 6)?;
    let payload = usize::from(be16(frame, at + PAYLOAD_LENGTH));
    let room = extent.length - at - HEADER;
    FrameError::within("IPv6 payload length", at + PAYLOAD_LENGTH, payload, 0, room)?;
    let end = at + HEADER + payload;
    let packet = extent.until(end);

    let mut ip = Ipv6 { at, length: HEADER, fragment: false, routed: false };
    let mut next = frame[at + NEXT_HEADER];
    let mut extensions = 0;
    while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY)
    {
        let header = at + ip.length;
        extensions += 1;
        FrameError::within(
            "number of IPv6 extension headers",
            header,
            extensions,
            0,
            MAX_EXTENSIONS,
        )?;
        has("bytes of IPv6 extension header", packet, header, 8)?;
        if next == FRAGMENT {
            ip.fragment = true;
            return Ok((ip, None, end));
        }
        let length = extension(next, frame[header + 1]);
        FrameError::within("IPv6 extension header length", header + 1, length, 8, end - header)?;
        ip.routed |= next == ROUTING && frame[header + 3] != 0;
        next = frame[header];
        ip.length += length;
    }
    has("bytes of IPv6 headers", packet, at, ip.length)?;
    Ok((ip, Some(next), end))
}
