//! LLC/SNAP before routed packets in units of AAL5 (RFC 2684, 5.1).
//!
//! ```text
//!  LLC   AA-AA-03
//!  OUI   00-00-00
//!  type  2 octets, an EtherType
//! ```

use crate::frame::link::SNAP_PREFIX;

/// Octets of the header.
pub const HEADER: usize = crate::link::atm::LLC_SNAP as usize;

/// The header of a packet with this EtherType.
#[must_use]
pub const fn header(ether_type: u16) -> [u8; HEADER] {
    let [a, b, c, d, e, f] = SNAP_PREFIX;
    let [high, low] = ether_type.to_be_bytes();
    [a, b, c, d, e, f, high, low]
}

/// The EtherType that a unit begins with, and the packet behind it; `None` with another
/// encapsulation.
#[must_use]
pub fn split(unit: &[u8]) -> Option<(u16, &[u8])> {
    let ([high, low], packet) = unit.strip_prefix(&SNAP_PREFIX)?.split_first_chunk()?;
    Some((u16::from_be_bytes([*high, *low]), packet))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::ipv4;

    #[test]
    fn a_header_is_read_again() {
        let unit = [&header(ipv4::ETHER_TYPE)[..], b"packet"].concat();
        assert_eq!(unit[..8], [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        assert_eq!(split(&unit), Some((ipv4::ETHER_TYPE, &b"packet"[..])));
        assert_eq!(split(&unit[..7]), None);
        assert_eq!(split(&[&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7], &b"bridged"[..]].concat()), None);
    }
}
