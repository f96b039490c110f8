//! The TCP header (RFC 9293): offsets, and the flags as bits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::error::{FrameError, has};
use super::{Extent, Headers, Network, Transport, be16, be32, ipv4, ipv6};

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Offset of the sequence number in the header.
pub const SEQUENCE: usize = 4;
/// Offset of the acknowledgement number.
pub const ACKNOWLEDGEMENT: usize = 8;
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

/// A TCP segment: its connection, and its place in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledgement: u32,
    /// The flags.
    pub flags: u16,
    /// Bytes of payload.
    pub length: u32,
}

impl Segment {
    /// The sequence number behind the segment; SYN and FIN take one (RFC 9293, 3.4).
    #[must_use]
    pub const fn end(&self) -> u32 {
        let controls = (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32;
        self.sequence.wrapping_add(self.length).wrapping_add(controls)
    }

    /// Whether it is a part of the stream of an established connection.
    #[must_use]
    pub const fn is_of_stream(&self) -> bool {
        self.flags & (RST | SYN) == 0
    }

    /// Whether it carries neither payload nor a beginning or end of the stream.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end() == self.sequence
    }

    /// Whether all of it lies before sequence number `next`.
    #[must_use]
    pub const fn is_before(&self, next: u32) -> bool {
        (self.end().wrapping_sub(next) as i32) <= 0
    }
}

impl Headers {
    /// The TCP segment that a frame carries, or the superframe that several of them make. `head` must
    /// be that of the frame that was parsed.
    #[must_use]
    pub fn tcp_segment(&self, head: &[u8]) -> Option<Segment> {
        let Transport::Tcp { at } = self.transport else { return None };
        let tcp = head.get(at..at + HEADER)?;
        let (source, destination): (IpAddr, IpAddr) = match self.network {
            Network::V4(ip) => {
                let both = head.get(ip.at + ipv4::SOURCE..)?.first_chunk::<8>()?;
                let address = |at: usize| Ipv4Addr::from_bits(be32(both, at)).into();
                (address(0), address(4))
            }
            Network::V6(ip) => {
                let both = head.get(ip.at + ipv6::SOURCE..)?.first_chunk::<32>()?;
                let (source, destination) = both.split_at(16);
                let address = |bytes: &[u8]| {
                    bytes.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes).into())
                };
                (address(source)?, address(destination)?)
            }
            Network::Other => return None,
        };
        Some(Segment {
            source: SocketAddr::new(source, be16(tcp, 0)),
            destination: SocketAddr::new(destination, be16(tcp, 2)),
            sequence: be32(tcp, SEQUENCE),
            acknowledgement: be32(tcp, ACKNOWLEDGEMENT),
            flags: flags(head, at),
            length: self.end.saturating_sub(self.payload) as u32,
        })
    }
}
