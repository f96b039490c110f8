//! IP packets without a link header, as a TUN has them.

use std::net::Ipv4Addr;

use super::{ipv4, ipv6};

/// The EtherType of an IP packet, from its version; `None` of other octets.
#[must_use]
pub fn ether_type(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 if packet.len() >= ipv4::HEADER => Some(ipv4::ETHER_TYPE),
        6 if packet.len() >= ipv6::HEADER => Some(ipv6::ETHER_TYPE),
        _ => None,
    }
}

/// The address that an IPv4 packet is for; `None` of other packets.
#[must_use]
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let header = packet.first_chunk::<{ ipv4::HEADER }>()?;
    let [.., a, b, c, d] = *header;
    (ether_type(packet)? == ipv4::ETHER_TYPE).then(|| Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_tells_its_version_and_its_destination() {
        let mut packet = [0; 40];
        assert_eq!((ether_type(&packet), destination(&packet)), (None, None));
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[198, 18, 0, 2]);
        assert_eq!(ether_type(&packet), Some(ipv4::ETHER_TYPE));
        assert_eq!(destination(&packet), Some(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(destination(&packet[..19]), None);
        packet[0] = 0x60;
        assert_eq!((ether_type(&packet), destination(&packet)), (Some(ipv6::ETHER_TYPE), None));
        assert_eq!((ether_type(&packet[..39]), ether_type(&[])), (None, None));
    }
}
