//! Ethernet II and IEEE 802.3 with LLC/SNAP (RFC 1042), with up to two VLAN tags (802.1Q, 802.1ad).

use super::error::{FrameError, has, within};
use super::{Extent, be16};

/// Bytes of the two addresses and the type or length.
pub const ETHERNET: usize = 14;
/// Bytes of the two addresses.
pub const ADDRESSES: usize = 12;
/// Most VLAN tags a frame may have.
pub const MOST_TAGS: u8 = 2;
/// Bytes of one VLAN tag.
pub const TAG: usize = 4;
/// Bytes of LLC and SNAP, with the EtherType.
pub const SNAP: usize = 8;
/// The largest value that is a length rather than a type (IEEE 802.3, 3.2.6).
pub const LARGEST_LENGTH: usize = 1500;
/// LLC for SNAP, unnumbered information, and the organisation code of RFC 1042.
pub const SNAP_PREFIX: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// The type of a VLAN tag of IEEE 802.1Q.
pub const CUSTOMER_TAG: u16 = 0x8100;
/// The type of a service tag of IEEE 802.1ad.
pub const SERVICE_TAG: u16 = 0x88a8;
/// The smallest value that is a type rather than a length.
pub const SMALLEST_TYPE: u16 = 0x600;

/// The link header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// VLAN tags: 0 to 2.
    pub tags: u8,
    /// Whether it is 802.3 with LLC/SNAP rather than Ethernet II.
    pub snap: bool,
    /// Of what is carried; zero when an 802.3 frame carries something other than SNAP.
    pub ether_type: u16,
    /// Bytes up to what is carried.
    pub length: usize,
}

impl Link {
    /// Where the type of Ethernet II or the length of 802.3 is.
    #[must_use]
    pub const fn type_or_length_at(&self) -> usize {
        ETHERNET - 2 + self.tags as usize * TAG
    }
}

/// The header, and where the 802.3 length, if there is one, says that the frame ends.
pub(super) fn parse(extent: Extent<'_>) -> Result<(Link, usize), FrameError> {
    has("bytes of Ethernet header", extent, 0, ETHERNET)?;
    let frame = extent.head;
    let mut length = ETHERNET;
    let mut tags = 0;
    let mut value = be16(frame, length - 2);
    while matches!(value, CUSTOMER_TAG | SERVICE_TAG) && tags < MOST_TAGS {
        has("bytes of VLAN tag", extent, length, TAG)?;
        length += TAG;
        tags += 1;
        value = be16(frame, length - 2);
    }
    if value >= SMALLEST_TYPE {
        return Ok((Link { tags, snap: false, ether_type: value, length }, extent.length));
    }
    let highest = LARGEST_LENGTH.min(extent.length - length);
    let payload = within("802.3 length", length - 2, usize::from(value), 0, highest)?;
    let end = length + payload;
    if payload >= SNAP {
        has("bytes of LLC and SNAP", extent, length, SNAP)?;
    }
    if payload >= SNAP && frame[length..length + SNAP_PREFIX.len()] == SNAP_PREFIX {
        length += SNAP;
        let ether_type = be16(frame, length - 2);
        return Ok((Link { tags, snap: true, ether_type, length }, end));
    }
    // spanning tree and the like: LLC that is not for IP
    Ok((Link { tags, snap: false, ether_type: 0, length }, end))
}
