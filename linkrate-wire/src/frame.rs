//! The place of every header of a frame, found in one pass from Ethernet to the transport header.
//!
//! [`Headers::parse`] checks every length against the buffer and against the lengths around it,
//! and keeps offsets. An offload then reads the fields it needs from the same bytes with [`ipv4`],
//! [`ipv6`] and [`tcp`], so no frame is copied. A frame may be in two parts, of which the second is
//! payload only and may stay where it was cut from.
//!
//! A frame of another protocol than IP, TCP or UDP is not an error: an adapter carries it
//! unchanged. An error is a frame whose lengths contradict each other.

mod address;
mod emit;
mod error;
pub mod hop;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod tcp;
pub mod udp;

pub use address::{Cast, MacAddress, MacError};
pub use emit::{IpEnds, Route};
pub use error::FrameError;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use link::LinkLayer;

use crate::checksum::Sum;
use crate::lro::Parts;
use std::net::Ipv4Addr;
use std::ops::Range;

/// The IP protocol number of TCP.
pub const TCP: u8 = 6;
/// The IP protocol number of UDP.
pub const UDP: u8 = 17;
/// The IP protocol number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// The IP protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;

/// The headers of one frame, as offsets into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Ethernet, VLAN tags, LLC/SNAP.
    pub link: LinkLayer,
    /// The header behind the link layer.
    pub network: Network,
    /// The header behind IP.
    pub transport: Transport,
    /// Where the transport payload begins; where the IP payload begins if the transport is
    /// unknown.
    pub payload: usize,
    /// Where the packet ends. Bytes of the frame after it are Ethernet padding.
    pub end: usize,
}

/// The network layer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
    /// Neither; the link header has its EtherType.
    Other,
}

/// The transport layer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP with its header at this offset.
    Tcp {
        /// Bytes before the TCP header.
        at: usize,
    },
    /// UDP with its header at this offset.
    Udp {
        /// Bytes before the UDP header.
        at: usize,
    },
    /// A piece of a fragmented packet, first or not: it has no transport header to rely on.
    Fragment,
    /// Another protocol of IP, or no IP at all.
    Other,
}

impl Headers {
    /// Finds the headers of `frame`, which begins with the destination address and has no FCS. Fails if a header is
    /// cut off, or the bytes around a length contradict it.
    pub fn parse(frame: &[u8]) -> Result<Self, FrameError> {
        Self::parse_parts(frame, 0)
    }

    /// Finds the headers of a frame that begins with `head` and continues elsewhere for `tail` bytes. Offsets count
    /// through both. Fails as [`parse`](Self::parse), or if a header is not all in `head`. An 802.3 frame needs the
    /// eight bytes there that could be LLC and SNAP.
    #[inline]
    pub fn parse_parts(head: &[u8], tail: usize) -> Result<Self, FrameError> {
        let frame = Extent { head, length: head.len().saturating_add(tail) };
        let (link, end) = link::parse(frame)?;
        let frame = frame.until(end);
        let (network, protocol, at, end) = match link.ether_type {
            ipv4::ETHER_TYPE => {
                let (ip, end) = ipv4::parse(frame, link.length)?;
                let protocol = (!ip.fragment).then(|| head[link.length + ipv4::PROTOCOL]);
                (Network::V4(ip), protocol, ip.at + ip.length, end)
            }
            ipv6::ETHER_TYPE => {
                let (ip, protocol, end) = ipv6::parse(frame, link.length)?;
                (Network::V6(ip), protocol, ip.at + ip.length, end)
            }
            _ => {
                let (network, transport) = (Network::Other, Transport::Other);
                return Ok(Self { link, network, transport, payload: link.length, end });
            }
        };
        let packet = frame.until(end);
        let (transport, length) = match protocol {
            None => (Transport::Fragment, 0),
            Some(TCP) => (Transport::Tcp { at }, tcp::parse(packet, at)?),
            Some(UDP) => (Transport::Udp { at }, udp::parse(packet, at)?),
            Some(_) => (Transport::Other, 0),
        };
        Ok(Self { link, network, transport, payload: at + length, end })
    }

    /// The link header alone, as of a frame of another protocol: for one whose lengths contradict each other, which an
    /// adapter hands up all the same, since IP and LLC are its host's to judge (RFC 1122, 3.2.1; `IpInHdrErrors`). An
    /// 802.3 length that contradicts the frame is not read. Fails if the Ethernet header is cut off.
    pub fn of_link(head: &[u8], tail: usize) -> Result<Self, FrameError> {
        let frame = Extent { head, length: head.len().saturating_add(tail) };
        let parsed = link::parse(frame);
        let (link, end) =
            parsed.or_else(|_| link::parse_type(frame).map(|link| (link, frame.length)))?;
        let (network, transport) = (Network::Other, Transport::Other);
        Ok(Self { link, network, transport, payload: link.length, end })
    }

    /// Where the transport payload is in the frame.
    #[must_use]
    pub const fn payload_range(&self) -> Range<usize> {
        self.payload..self.end
    }

    /// The number of the protocol in an IP packet, a fragment or not; `None` of other frames and behind extension headers
    /// of IPv6. `head` must be that of the frame that was parsed.
    #[must_use]
    pub fn protocol(&self, head: &[u8]) -> Option<u8> {
        match self.network {
            Network::V4(ip) => head.get(ip.at + ipv4::PROTOCOL).copied(),
            Network::V6(ip) if ip.length == ipv6::HEADER => {
                head.get(ip.at + ipv6::NEXT_HEADER).copied()
            }
            Network::V6(_) | Network::Other => None,
        }
    }

    /// The addresses of the packet, if it is one of IP. `head` must be that of the frame that was parsed.
    #[must_use]
    pub fn ip_ends(&self, head: &[u8]) -> Option<IpEnds> {
        IpEnds::of(head, self.network)
    }

    /// Source and destination port, if the packet has any. `head` must be that of the frame that
    /// was parsed; a fragment has none.
    #[must_use]
    pub fn ports(&self, head: &[u8]) -> Option<(u16, u16)> {
        let (Transport::Tcp { at } | Transport::Udp { at }) = self.transport else {
            return None;
        };
        let ports = head.get(at..)?.first_chunk::<4>()?;
        Some((be16(ports, 0), be16(ports, 2)))
    }

    /// The flags of a TCP packet as the bits of [`tcp`], if it is one. `head` must be that of the
    /// frame that was parsed.
    #[must_use]
    pub fn tcp_flags(&self, head: &[u8]) -> Option<u16> {
        let Transport::Tcp { at } = self.transport else { return None };
        head.get(at..at + tcp::HEADER).map(|header| tcp::flags(header, 0))
    }

    /// Where the transport checksum is; `None` for a fragment and for other protocols.
    #[must_use]
    pub const fn checksum_place(&self) -> Option<ChecksumPlace> {
        match self.transport {
            Transport::Tcp { at } => {
                Some(ChecksumPlace { at, offset: tcp::CHECKSUM as u16, protocol: TCP })
            }
            Transport::Udp { at } => {
                Some(ChecksumPlace { at, offset: udp::CHECKSUM as u16, protocol: UDP })
            }
            Transport::Fragment | Transport::Other => None,
        }
    }

    /// The same packet behind another link header.
    pub(crate) fn behind(mut self, link: LinkLayer) -> Self {
        let moved = |at: usize| at - self.link.length + link.length;
        match &mut self.network {
            Network::V4(ip) => ip.at = moved(ip.at),
            Network::V6(ip) => ip.at = moved(ip.at),
            Network::Other => {}
        }
        match &mut self.transport {
            Transport::Tcp { at } | Transport::Udp { at } => *at = moved(*at),
            Transport::Fragment | Transport::Other => {}
        }
        Self { payload: moved(self.payload), end: moved(self.end), link, ..self }
    }

    /// Whether the IP header checksum is right. IPv6 has none, so the answer is always yes.
    ///
    /// `frame` must be the one that was parsed. For a shorter one the answer is no.
    #[must_use]
    pub fn network_checksum_verifies(&self, frame: &[u8]) -> bool {
        match self.network {
            Network::V4(ip) => {
                frame.get(ip.at..ip.at + ip.length).is_some_and(|header| Sum::of(header).verifies())
            }
            Network::V6(_) | Network::Other => true,
        }
    }

    /// Whether the TCP or UDP checksum is right, or cannot be verified. The frame is `head`
    /// followed by `tail` and must be the one that was parsed.
    #[must_use]
    pub fn transport_checksum_parts(&self, head: &[u8], tail: &[u8]) -> Verification {
        self.transport_checksum(&(head, tail))
    }

    /// [`transport_checksum_parts`](Self::transport_checksum_parts) of a frame that may know the sum
    /// of its tail.
    #[must_use]
    pub fn transport_checksum(&self, frame: &impl Parts) -> Verification {
        let (head, tail) = (frame.head(), frame.tail());
        let (at, protocol) = match self.transport {
            Transport::Tcp { at } => (at, TCP),
            Transport::Udp { at } => (at, UDP),
            Transport::Fragment | Transport::Other => return Verification::None,
        };
        let mut end = self.end;
        if self.payload > head.len() || end < at || end > head.len() + tail.len() {
            return Verification::Wrong;
        }
        if protocol == UDP {
            if at + udp::HEADER > head.len() {
                return Verification::Wrong;
            }
            // the checksum does not cover bytes beyond the UDP length
            end = end.min(at + usize::from(udp::length(head, at)));
            if udp::checksum(head, at) == 0 {
                return match self.network {
                    Network::V4(_) => Verification::None,
                    // RFC 8200, 8.1
                    _ => Verification::Wrong,
                };
            }
        }
        let Some(pseudo) = self.pseudo_header(head, protocol, end - at) else {
            return Verification::None;
        };
        let sum = if at <= head.len() && end == head.len() + tail.len() {
            pseudo.and(&head[at..]).then(frame.tail_sum())
        } else {
            let [first, second] = slices(head, tail, at..end);
            pseudo.and(first).and(second)
        };
        if sum.verifies() { Verification::Right } else { Verification::Wrong }
    }

    /// Whether the transport checksum covers everything from its header on, so that one who knows only where that begins
    /// (`csum_start`) computes the same. Not where bytes lie behind the length of UDP, as its options do
    /// (draft-ietf-tsvwg-udp-options), or behind the packet, unless these are zero and so change no sum.
    #[must_use]
    pub fn checksum_covers_rest(&self, frame: &impl Parts) -> bool {
        let (head, tail) = (frame.head(), frame.tail());
        let fills_packet = match self.transport {
            Transport::Tcp { .. } => true,
            Transport::Udp { at } => at + usize::from(udp::length(head, at)) == self.end,
            Transport::Fragment | Transport::Other => false,
        };
        let length = head.len() + tail.len();
        let is_zero = |part: &[u8]| part.iter().all(|octet| *octet == 0);
        fills_packet
            && (self.end == length || slices(head, tail, self.end..length).into_iter().all(is_zero))
    }

    /// The sum of the pseudo-header for `length` bytes of transport header and payload, if the
    /// packet has one: not when a routing header names another final destination.
    #[must_use]
    pub fn pseudo_header(&self, frame: &[u8], protocol: u8, length: usize) -> Option<Sum> {
        match self.network {
            Network::V4(ip) => ip.pseudo_header(frame, protocol, length),
            Network::V6(ip) => ip.pseudo_header(frame, protocol, length),
            Network::Other => None,
        }
    }
}

/// Where the transport checksum of a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumPlace {
    /// Where the transport header begins: `csum_start` of `virtio_net_hdr`.
    pub at: usize,
    /// Where its field is, from there: `csum_offset`.
    pub offset: u16,
    /// The protocol in the pseudo-header.
    pub protocol: u8,
}

/// The result of verifying a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// It was computed and is right.
    Right,
    /// It was computed and is wrong.
    Wrong,
    /// The packet has no checksum, or it cannot be computed from this packet alone.
    None,
}

/// A frame up to some end. Bytes that `head` does not have lie elsewhere.
#[derive(Debug, Clone, Copy)]
struct Extent<'a> {
    head: &'a [u8],
    /// Bytes up to the end, including those elsewhere.
    length: usize,
}

impl Extent<'_> {
    /// The same up to `end`, which is not beyond its end.
    fn until(self, end: usize) -> Self {
        Self { head: &self.head[..end.min(self.head.len())], length: end }
    }
}

/// Bytes `range` of a frame in two parts. Bytes beyond its end are left out.
pub(crate) fn slices<'a>(head: &'a [u8], tail: &'a [u8], range: Range<usize>) -> [&'a [u8]; 2] {
    let part = |bytes: &'a [u8], before: usize| {
        let from = range.start.saturating_sub(before).min(bytes.len());
        let to = range.end.saturating_sub(before).min(bytes.len());
        bytes.get(from..to).unwrap_or_default()
    };
    [part(head, 0), part(tail, head.len())]
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The EtherType of an IP packet without a link header, as a TUN has it, from its version; `None` of other octets.
#[must_use]
pub fn ether_type_of(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 if packet.len() >= ipv4::HEADER => Some(ipv4::ETHER_TYPE),
        6 if packet.len() >= ipv6::HEADER => Some(ipv6::ETHER_TYPE),
        _ => None,
    }
}

/// The address that such a packet of IPv4 is for; `None` of other packets.
#[must_use]
pub fn destination_of(packet: &[u8]) -> Option<Ipv4Addr> {
    let header = packet.first_chunk::<{ ipv4::HEADER }>()?;
    let [.., a, b, c, d] = *header;
    (ether_type_of(packet)? == ipv4::ETHER_TYPE).then(|| Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_tells_its_version_and_its_destination() {
        let mut packet = [0; 40];
        assert_eq!((ether_type_of(&packet), destination_of(&packet)), (None, None));
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[198, 18, 0, 2]);
        assert_eq!(ether_type_of(&packet), Some(ipv4::ETHER_TYPE));
        assert_eq!(destination_of(&packet), Some(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(destination_of(&packet[..19]), None);
        packet[0] = 0x60;
        assert_eq!(
            (ether_type_of(&packet), destination_of(&packet)),
            (Some(ipv6::ETHER_TYPE), None)
        );
        assert_eq!((ether_type_of(&packet[..39]), ether_type_of(&[])), (None, None));
    }
}
