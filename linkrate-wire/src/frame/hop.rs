//! A router's hop: other Ethernet addresses, and one hop less to live (RFC 1812, 5.3.1; RFC 8200, 3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::link::{self, LinkLayer};
use super::{Extent, MacAddress, be16, ipv4, ipv6};

/// The IP header of a frame that begins with `head`.
#[derive(Clone, Copy)]
enum At {
    V4(usize),
    V6(usize),
}

impl At {
    fn of(head: &[u8]) -> Option<Self> {
        let (LinkLayer { ether_type, length, .. }, _) =
            link::parse(Extent { head, length: usize::MAX / 2 }).ok()?;
        let has = |header: usize| head.len() >= length + header;
        match ether_type {
            ipv4::ETHER_TYPE if has(ipv4::HEADER) => Some(Self::V4(length)),
            ipv6::ETHER_TYPE if has(ipv6::HEADER) => Some(Self::V6(length)),
            _ => None,
        }
    }

    /// Where the hops left are.
    fn hops(self) -> usize {
        match self {
            Self::V4(at) => at + ipv4::TTL,
            Self::V6(at) => at + ipv6::HOP_LIMIT,
        }
    }
}

/// The address that a frame is for; `None` where it holds no IP packet.
#[must_use]
pub fn final_destination(head: &[u8]) -> Option<IpAddr> {
    Some(match At::of(head)? {
        At::V4(at) => {
            Ipv4Addr::from(*head.get(at + ipv4::SOURCE + 4..)?.first_chunk::<4>()?).into()
        }
        At::V6(at) => {
            Ipv6Addr::from(*head.get(at + ipv6::SOURCE + 16..)?.first_chunk::<16>()?).into()
        }
    })
}

/// Hops that a packet has left; `None` where a frame holds no IP packet.
#[must_use]
pub fn hops(head: &[u8]) -> Option<u8> {
    Some(head[At::of(head)?.hops()])
}

/// A copy of `head`, the first bytes of a frame with an IP packet, as a router sends it on: from and
/// to these stations, with one hop less to live. The checksum of IPv4 is updated, not computed again, so that
/// a wrong one stays wrong (RFC 1624, equation 3). `None` where no hop is left, or no IP packet is.
#[must_use]
pub fn hop(head: &[u8], source: MacAddress, destination: MacAddress) -> Option<Vec<u8>> {
    let network = At::of(head)?;
    let word = network.hops();
    let left = head[word].checked_sub(1).filter(|left| *left > 0)?;
    let mut out = head.to_vec();
    out[..6].copy_from_slice(&destination.0);
    out[6..12].copy_from_slice(&source.0);
    out[word] = left;
    let At::V4(at) = network else { return Some(out) };
    let at = at + ipv4::CHECKSUM;
    let (before, after, sum) = (be16(head, word), be16(&out, word), be16(head, at));
    let parts = [!sum, !before, after].map(u32::from);
    let mut folded: u32 = parts.iter().sum();
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    out[at..at + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use crate::frame::{Headers, IpEnds, Route};

    use super::*;

    fn frame(hops: u8, last: u8) -> Vec<u8> {
        between([198, 18, 0, 1].into(), [198, 19, 255, last].into(), hops)
    }

    fn between(from: IpAddr, to: IpAddr, hops: u8) -> Vec<u8> {
        let ip = IpEnds::new(from, to).expect("ends");
        let (source, destination) = (MacAddress([2; 6]), MacAddress([4; 6]));
        Route { source, destination, ip, hops, class: 0 }.udp(7, 9, b"hello").expect("a frame")
    }

    proptest::proptest! {
        /// The updated checksum is that of the new header, and nothing else has changed.
        #[test]
        fn a_hop_changes_addresses_and_time_to_live_alone(hops in 2u8.., last in 0u8..) {
            let before = frame(hops, last);
            let (source, destination) = (MacAddress([6; 6]), MacAddress([8; 6]));
            let after = hop(&before, source, destination).expect("hops left");
            let headers = Headers::parse(&after).expect("headers");
            proptest::prop_assert!(headers.network_checksum_verifies(&after));
            let same = frame(hops - 1, last);
            proptest::prop_assert_eq!(&after[12..], &same[12..]);
            proptest::prop_assert_eq!(&after[..12], [8, 8, 8, 8, 8, 8, 6, 6, 6, 6, 6, 6]);
            proptest::prop_assert_eq!(final_destination(&after), Some(IpAddr::from([198, 19, 255, last])));
        }
    }

    #[test]
    fn ipv6_has_a_hop_limit_and_no_checksum() {
        let [from, to] =
            ["2001:2::1", "2001:2::2"].map(|address| address.parse().expect("an address"));
        let (one, other) = (MacAddress([6; 6]), MacAddress([8; 6]));
        let before = between(from, to, 9);
        assert_eq!((final_destination(&before), hops(&before)), (Some(to), Some(9)));
        let after = hop(&before, one, other).expect("hops left");
        assert_eq!(after[12..], between(from, to, 8)[12..]);
        assert_eq!(hop(&between(from, to, 1), one, other), None);
        assert_eq!((hop(&before[..53], one, other), hops(&before[..53])), (None, None));
    }

    #[test]
    fn the_last_hop_is_not_taken_and_a_wrong_checksum_stays_wrong() {
        let (one, other) = (MacAddress([6; 6]), MacAddress([8; 6]));
        assert_eq!(hop(&frame(1, 2), one, other), None);
        assert_eq!(hop(&frame(0, 2), one, other), None);
        assert_eq!(hop(&frame(9, 2)[..20], one, other), None);
        let mut wrong = frame(9, 2);
        wrong[24] ^= 0x10;
        let after = hop(&wrong, one, other).expect("a hop");
        assert!(!Headers::parse(&after).expect("headers").network_checksum_verifies(&after));
        let arp = crate::control::frame(one, other, 0x0806, &[0; 28]);
        assert_eq!((hop(&arp, one, other), final_destination(&arp)), (None, None));
    }
}
