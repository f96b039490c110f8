//! IP packets in Ethernet II frames, written whole: for control protocols and for flows that only
//! exist as addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::link::ETHERNET;
use super::{ICMP, ICMPV6, MacAddress, Network, UDP, be32, ipv4, ipv6, put16, udp};
use crate::checksum::{Sum, pseudo_v4, pseudo_v6};

/// Version 4, a header of five words.
const VERSION_4: u8 = 0x45;
const VERSION_6: u8 = 0x60;
const DONT_FRAGMENT: u16 = 0x4000;
/// Offset of the checksum in an ICMP message of both versions (RFC 792; RFC 4443, 2.1).
const ICMP_CHECKSUM: usize = 2;

/// Where a packet comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The station that sends the frame.
    pub source: MacAddress,
    /// The station or group that the frame goes to.
    pub destination: MacAddress,
    /// The addresses of the packet.
    pub ip: IpEnds,
    /// TTL or hop limit.
    pub hops: u8,
    /// The type of service or traffic class: differentiated services in the upper six bits
    /// (RFC 2474).
    pub class: u8,
}

/// Source and destination of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpEnds {
    /// Of IPv4.
    V4 {
        /// The sender.
        source: Ipv4Addr,
        /// The receiver.
        destination: Ipv4Addr,
    },
    /// Of IPv6.
    V6 {
        /// The sender.
        source: Ipv6Addr,
        /// The receiver.
        destination: Ipv6Addr,
    },
}

impl IpEnds {
    /// Both addresses; `None` if they are of two versions of IP.
    #[must_use]
    pub const fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::V4 { source, destination }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::V6 { source, destination }),
            _ => None,
        }
    }

    /// Those of a packet whose network layer was found in a frame that begins with `head`.
    pub(super) fn of(head: &[u8], network: Network) -> Option<Self> {
        match network {
            Network::V4(ip) => {
                let both = head.get(ip.at + ipv4::SOURCE..)?.first_chunk::<8>()?;
                let address = |at: usize| Ipv4Addr::from_bits(be32(both, at));
                Some(Self::V4 { source: address(0), destination: address(4) })
            }
            Network::V6(ip) => {
                let both = head.get(ip.at + ipv6::SOURCE..)?;
                let (source, rest) = both.split_first_chunk::<16>()?;
                let destination = rest.first_chunk::<16>()?;
                let [source, destination] = [source, destination].map(|one| Ipv6Addr::from(*one));
                Some(Self::V6 { source, destination })
            }
            Network::Other => None,
        }
    }

    /// The sender.
    #[must_use]
    pub fn source(self) -> IpAddr {
        match self {
            Self::V4 { source, .. } => source.into(),
            Self::V6 { source, .. } => source.into(),
        }
    }

    /// The receiver.
    #[must_use]
    pub fn destination(self) -> IpAddr {
        match self {
            Self::V4 { destination, .. } => destination.into(),
            Self::V6 { destination, .. } => destination.into(),
        }
    }

    /// The way back.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::V4 { source, destination } => {
                Self::V4 { source: destination, destination: source }
            }
            Self::V6 { source, destination } => {
                Self::V6 { source: destination, destination: source }
            }
        }
    }
}

impl Route {
    /// The frame of a UDP datagram with `payload`, without padding and FCS; `None` if the payload
    /// is too long for a packet.
    #[must_use]
    pub fn udp(&self, source: u16, destination: u16, payload: &[u8]) -> Option<Vec<u8>> {
        let length = u16::try_from(udp::HEADER + payload.len()).ok()?;
        let mut message = vec![0; udp::HEADER];
        put16(&mut message, 0, source);
        put16(&mut message, 2, destination);
        put16(&mut message, udp::LENGTH, length);
        message.extend_from_slice(payload);
        let checksum = self.sum(UDP, &message)?.udp_checksum();
        put16(&mut message, udp::CHECKSUM, checksum);
        self.packet(UDP, &message)
    }

    /// The frame of an ICMP message of the packet's version of IP, whose checksum is filled in; `None` as for
    /// [`icmpv6`](Self::icmpv6).
    #[must_use]
    pub fn icmp(&self, message: &[u8]) -> Option<Vec<u8>> {
        if matches!(self.ip, IpEnds::V6 { .. }) {
            return self.icmpv6(message);
        }
        let mut message = message.to_vec();
        message.get_mut(ICMP_CHECKSUM..ICMP_CHECKSUM + 2)?.fill(0);
        let checksum = Sum::of(&message).checksum();
        put16(&mut message, ICMP_CHECKSUM, checksum);
        self.packet(ICMP, &message)
    }

    /// The frame of an ICMPv6 message, whose checksum is filled in; `None` for IPv4, and for a
    /// message that has no checksum field or is too long for a packet.
    #[must_use]
    pub fn icmpv6(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut message = message.to_vec();
        if !matches!(self.ip, IpEnds::V6 { .. }) || message.len() < ICMP_CHECKSUM + 2 {
            return None;
        }
        put16(&mut message, ICMP_CHECKSUM, 0);
        let checksum = self.sum(ICMPV6, &message)?.checksum();
        put16(&mut message, ICMP_CHECKSUM, checksum);
        self.packet(ICMPV6, &message)
    }

    /// The sum of the pseudo-header and `message`.
    fn sum(&self, protocol: u8, message: &[u8]) -> Option<Sum> {
        let pseudo = match self.ip {
            IpEnds::V4 { source, destination } => {
                let length = u16::try_from(message.len()).ok()?;
                pseudo_v4(source.octets(), destination.octets(), protocol, length)
            }
            IpEnds::V6 { source, destination } => {
                let length = u32::try_from(message.len()).ok()?;
                pseudo_v6(source.octets(), destination.octets(), protocol, length)
            }
        };
        Some(pseudo.and(message))
    }

    fn packet(&self, protocol: u8, message: &[u8]) -> Option<Vec<u8>> {
        let mut frame = Vec::with_capacity(ETHERNET + ipv6::HEADER + message.len());
        frame.extend_from_slice(&self.destination.0);
        frame.extend_from_slice(&self.source.0);
        match self.ip {
            IpEnds::V4 { source, destination } => {
                let total = u16::try_from(ipv4::HEADER + message.len()).ok()?;
                frame.extend_from_slice(&ipv4::ETHER_TYPE.to_be_bytes());
                let mut header = vec![VERSION_4, self.class];
                for word in [total, 0, DONT_FRAGMENT] {
                    header.extend_from_slice(&word.to_be_bytes());
                }
                header.extend_from_slice(&[self.hops, protocol, 0, 0]);
                header.extend_from_slice(&source.octets());
                header.extend_from_slice(&destination.octets());
                let checksum = Sum::of(&header).checksum();
                put16(&mut header, ipv4::CHECKSUM, checksum);
                frame.extend_from_slice(&header);
            }
            IpEnds::V6 { source, destination } => {
                let length = u16::try_from(message.len()).ok()?;
                frame.extend_from_slice(&ipv6::ETHER_TYPE.to_be_bytes());
                // the traffic class lies across the first two bytes
                frame.extend_from_slice(&[VERSION_6 | self.class >> 4, self.class << 4, 0, 0]);
                frame.extend_from_slice(&length.to_be_bytes());
                frame.extend_from_slice(&[protocol, self.hops]);
                frame.extend_from_slice(&source.octets());
                frame.extend_from_slice(&destination.octets());
            }
        }
        frame.extend_from_slice(message);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Headers, Verification};

    fn route(ip: IpEnds) -> Route {
        let (source, destination) = (MacAddress([2; 6]), MacAddress([4; 6]));
        Route { source, destination, ip, hops: 255, class: 0xc0 }
    }

    fn ends() -> [IpEnds; 2] {
        [("10.0.0.1", "10.0.0.2"), ("fe80::1", "ff02::1")].map(|(source, destination)| {
            let address = |text: &str| text.parse().expect("an address");
            IpEnds::new(address(source), address(destination)).expect("one version")
        })
    }

    #[test]
    fn datagrams_read_back_with_right_checksums() {
        for ip in ends() {
            for payload in [&b""[..], b"odd", &[7; 1400]] {
                let frame = route(ip).udp(49152, 6784, payload).expect("it fits");
                let headers = Headers::parse(&frame).expect("a frame");
                assert_eq!(headers.ports(&frame), Some((49152, 6784)));
                assert_eq!((&frame[headers.payload_range()], headers.end), (payload, frame.len()));
                assert!(headers.network_checksum_verifies(&frame));
                let verified = headers.transport_checksum_parts(&frame, &[]);
                assert_eq!(verified, Verification::Right, "{ip:?}");
            }
            assert_eq!(route(ip).udp(1, 2, &[0; 65_528]), None, "too long");
        }
    }

    #[test]
    fn an_ipv4_datagram_byte_by_byte() {
        let frame = route(ends()[0]).udp(0xc000, 0x1a80, b"x").expect("it fits");
        #[rustfmt::skip]
        assert_eq!(frame, [
            4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 8, 0,
            0x45, 0xc0, 0, 29, 0, 0, 0x40, 0, 255, 17, 0x67, 0x0d, 10, 0, 0, 1, 10, 0, 0, 2,
            0xc0, 0, 0x1a, 0x80, 0, 9, 0x99, 0x58, b'x',
        ]);
    }

    #[test]
    fn icmpv6_has_its_checksum_and_class() {
        let [v4, v6] = ends();
        let frame = route(v6).icmpv6(&[136, 0, 9, 9, 1, 2]).expect("it fits");
        assert_eq!(frame[14..22], [0x6c, 0, 0, 0, 0, 6, 58, 255]);
        let message = &frame[54..];
        let IpEnds::V6 { source, destination } = v6 else { panic!("IPv6") };
        let sum = pseudo_v6(source.octets(), destination.octets(), ICMPV6, 6).and(message);
        assert!(sum.verifies());
        assert_eq!(route(v4).icmpv6(&[136, 0, 0, 0]), None);
        assert_eq!(route(v6).icmpv6(&[136, 0, 0]), None);
    }
}
