//! A router's hop: other Ethernet addresses, and one hop less to live (RFC 1812, 5.3.1).

use std::net::Ipv4Addr;

use super::link::{self, LinkLayer};
use super::{Extent, MacAddress, be16, ipv4};

/// Offsets within an IPv4 header.
const TIME_TO_LIVE: usize = 8;
const DESTINATION: usize = ipv4::SOURCE + 4;

/// The IPv4 header of a frame that begins with `head`: its offset.
fn network(head: &[u8]) -> Option<usize> {
    let (LinkLayer { ether_type, length, .. }, _) =
        link::parse(Extent { head, length: usize::MAX / 2 }).ok()?;
    (ether_type == ipv4::ETHER_TYPE && head.len() >= length + ipv4::HEADER).then_some(length)
}

/// The IPv4 address that a frame is for; `None` where it holds no IPv4 packet.
#[must_use]
pub fn final_destination(head: &[u8]) -> Option<Ipv4Addr> {
    let at = network(head)? + DESTINATION;
    Some(Ipv4Addr::from(*head.get(at..)?.first_chunk::<4>()?))
}

/// A copy of `head`, the first bytes of a frame with an IPv4 packet, as a router sends it on: from and
/// to these stations, with one hop less to live. The checksum is updated, not computed again, so that
/// a wrong one stays wrong (RFC 1624, equation 3). `None` where no hop is left, or no IPv4 packet is.
#[must_use]
pub fn hop(head: &[u8], source: MacAddress, destination: MacAddress) -> Option<Vec<u8>> {
    let at = network(head)?;
    let left = head[at + TIME_TO_LIVE].checked_sub(1).filter(|left| *left > 0)?;
    let mut out = head.to_vec();
    out[..6].copy_from_slice(&destination.0);
    out[6..12].copy_from_slice(&source.0);
    let word = at + TIME_TO_LIVE;
    let (before, sum) = (be16(head, word), be16(head, at + ipv4::CHECKSUM));
    out[word] = left;
    let after = be16(&out, word);
    let parts = [!sum, !before, after].map(u32::from);
    let mut folded: u32 = parts.iter().sum();
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    let at = at + ipv4::CHECKSUM;
    out[at..at + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use crate::frame::{Headers, IpEnds, Route};

    use super::*;

    fn frame(hops: u8, last: u8) -> Vec<u8> {
        let ip = IpEnds::new([198, 18, 0, 1].into(), [198, 19, 255, last].into()).expect("ends");
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
            proptest::prop_assert_eq!(final_destination(&after), Some([198, 19, 255, last].into()));
        }
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
