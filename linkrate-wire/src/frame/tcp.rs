//! The TCP header (RFC 9293): offsets, and the flags as bits.

use std::net::SocketAddr;

use super::error::{FrameError, has};
use super::{
    Extent, Headers, ICMP, ICMPV6, IpEnds, Ipv4, Ipv6, Network, TCP, Transport, be16, be32, ipv4,
    ipv6, slices,
};
use crate::lro::Parts;

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

/// Sender and receiver of a packet whose ports are at `at`.
fn ends(head: &[u8], network: Network, at: usize) -> Option<(SocketAddr, SocketAddr)> {
    let ip = IpEnds::of(head, network)?;
    let ports = head.get(at..)?.first_chunk::<4>()?;
    let source = SocketAddr::new(ip.source(), be16(ports, 0));
    Some((source, SocketAddr::new(ip.destination(), be16(ports, 2))))
}

/// Octets of an ICMP error before the packet that it quotes (RFC 792; RFC 4443, 2.1).
const ICMP_HEADER: usize = 8;
/// Octets of the quoted packet up to its ports: the longest header of IPv4.
const QUOTED: usize = 60 + 4;

impl Headers {
    /// Sender and receiver of a TCP segment of which this is the first fragment. `head` must be that of the frame that
    /// was parsed.
    #[must_use]
    pub fn fragment_ends(&self, head: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        if self.transport != Transport::Fragment {
            return None;
        }
        let octets = head.get(self.payload..)?;
        let (protocol, offset, at) = match self.network {
            Network::V4(ip) => {
                (self.protocol(head)?, ipv4::fragment_offset(head, ip.at), self.payload)
            }
            // RFC 8200, 4.5
            Network::V6(_) => {
                let [protocol, _, high, low, ..] = *octets.first_chunk::<8>()?;
                (protocol, u16::from_be_bytes([high, low]) & !7, self.payload + 8)
            }
            Network::Other => return None,
        };
        (protocol == TCP && offset == 0).then(|| ends(head, self.network, at))?
    }

    /// Sender and receiver of the TCP segment that an ICMP error is about. The frame must be the one that was parsed.
    #[must_use]
    pub fn quoted_ends(&self, frame: &impl Parts) -> Option<(SocketAddr, SocketAddr)> {
        let head = frame.head();
        // destination unreachable, time exceeded, parameter problem; packet too big
        let kinds: &[u8] = match (self.network, self.protocol(head)?) {
            _ if self.transport != Transport::Other => return None,
            (Network::V4(_), ICMP) => &[3, 11, 12],
            (Network::V6(_), ICMPV6) => &[1, 2, 3, 4],
            _ => return None,
        };
        let mut octets = [0; ICMP_HEADER + QUOTED];
        let range = self.payload..self.end.min(self.payload + octets.len());
        let mut length = 0;
        for part in slices(head, frame.tail(), range) {
            octets.get_mut(length..length + part.len())?.copy_from_slice(part);
            length += part.len();
        }
        let octets = octets.get(..length)?;
        octets.first().filter(|kind| kinds.contains(kind))?;
        let at = ICMP_HEADER;
        let first = *octets.get(at)?;
        match first >> 4 {
            4 => {
                let (protocol, length) =
                    (*octets.get(at + ipv4::PROTOCOL)?, usize::from(first & 15) * 4);
                let is_first = ipv4::fragment_offset(octets, at) == 0;
                let ip =
                    Ipv4 { at, length, fragment: false, dont_fragment: false, identification: 0 };
                (protocol == TCP && is_first).then(|| ends(octets, Network::V4(ip), at + length))?
            }
            6 => {
                let ip = Ipv6 { at, length: ipv6::HEADER, fragment: false, routed: false };
                let is_tcp = *octets.get(at + ipv6::NEXT_HEADER)? == TCP;
                is_tcp.then(|| ends(octets, Network::V6(ip), at + ipv6::HEADER))?
            }
            _ => None,
        }
    }

    /// The TCP segment that a frame carries, or the superframe that several of them make. `head` must
    /// be that of the frame that was parsed.
    #[must_use]
    pub fn tcp_segment(&self, head: &[u8]) -> Option<Segment> {
        let Transport::Tcp { at } = self.transport else { return None };
        let tcp = head.get(at..at + HEADER)?;
        let (source, destination) = ends(head, self.network, at)?;
        Some(Segment {
            source,
            destination,
            sequence: be32(tcp, SEQUENCE),
            acknowledgement: be32(tcp, ACKNOWLEDGEMENT),
            flags: flags(head, at),
            length: self.end.saturating_sub(self.payload) as u32,
        })
    }
}
