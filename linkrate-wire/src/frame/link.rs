//! Ethernet II and IEEE 802.3 with LLC/SNAP (RFC 1042), with up to two VLAN tags (802.1Q, 802.1ad).

use super::error::{FrameError, has};
use super::{Extent, MacAddress, be16};

/// Bytes of an Ethernet header: two addresses, type or length.
pub const ETHERNET: usize = 14;
/// Bytes of the two addresses.
pub const ADDRESSES: usize = 12;
/// Most VLAN tags a frame may have.
pub const MAX_TAGS: u8 = 2;
/// Bytes of one VLAN tag.
pub const TAG: usize = 4;
/// Bytes of LLC and SNAP, with the EtherType.
pub const SNAP: usize = 8;
/// The largest value that is a length rather than a type (IEEE 802.3, 3.2.6).
pub const MAX_LENGTH: usize = 1500;
/// LLC for SNAP, unnumbered information, and the organisation code of RFC 1042.
pub const SNAP_PREFIX: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// The type of a VLAN tag of IEEE 802.1Q.
pub const CUSTOMER_TAG: u16 = 0x8100;
/// The type of a service tag of IEEE 802.1ad.
pub const SERVICE_TAG: u16 = 0x88a8;
/// The smallest value that is a type rather than a length.
pub const MIN_TYPE: u16 = 0x600;

/// The link header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLayer {
    /// VLAN tags: 0 to 2.
    pub tags: u8,
    /// Whether it is 802.3 with LLC/SNAP rather than Ethernet II.
    pub snap: bool,
    /// The EtherType of the packet; zero when an 802.3 frame has no SNAP header.
    pub ether_type: u16,
    /// Bytes before the packet.
    pub length: usize,
}

impl LinkLayer {
    /// The place of the type of Ethernet II or the length of 802.3.
    #[must_use]
    pub const fn type_or_length_at(&self) -> usize {
        ETHERNET - 2 + self.tags as usize * TAG
    }

    /// Bytes beyond a plain Ethernet II header: tags and SNAP, which do not count against the MTU.
    #[must_use]
    pub const fn encapsulation(&self) -> usize {
        self.length.saturating_sub(ETHERNET)
    }

    /// The tag control information of the outermost tag, of either type. `head` must be that of
    /// the frame that was parsed.
    #[must_use]
    pub fn outer_tag(&self, head: &[u8]) -> Option<TagControl> {
        let tci = head.get(ADDRESSES + 2..)?.first_chunk()?;
        (self.tags > 0).then_some(TagControl(u16::from_be_bytes(*tci)))
    }
}

/// The tag control information of a VLAN tag (IEEE 802.1Q, 9.6): priority in the upper three bits,
/// drop eligible, VLAN in the lower twelve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TagControl(pub u16);

impl TagControl {
    const VLAN: u16 = 0xfff;

    /// The VLAN; 0 for a priority without a VLAN.
    #[inline]
    #[must_use]
    pub const fn vlan(self) -> u16 {
        self.0 & Self::VLAN
    }

    /// The same priority with another VLAN, of which the lower twelve bits count.
    #[must_use]
    pub const fn with_vlan(self, vlan: u16) -> Self {
        Self(self.0 & !Self::VLAN | vlan & Self::VLAN)
    }
}

/// The fields that a bridge forwards by: addresses, and the outermost tag if it is an 802.1Q tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The station or group that the frame goes to.
    pub destination: MacAddress,
    /// The station that sent it.
    pub source: MacAddress,
    /// The outermost tag if it is an 802.1Q tag (0x8100). Service tags are not read.
    pub tag: Option<TagControl>,
}

impl Addresses {
    /// Of a frame that begins with `head`; `None` when the header or its tag is cut off.
    #[inline]
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        let (destination, rest) = head.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let tag = match u16::from_be_bytes(*kind) {
            CUSTOMER_TAG => Some(TagControl(u16::from_be_bytes(*rest.first_chunk()?))),
            _ => None,
        };
        Some(Self { destination: MacAddress(*destination), source: MacAddress(*source), tag })
    }
}

/// The destination of a frame that begins with `head`.
#[inline]
#[must_use]
pub fn destination(head: &[u8]) -> Option<MacAddress> {
    head.first_chunk().copied().map(MacAddress)
}

/// A copy of `head`, the first bytes of a frame, with `tag` as its outermost 802.1Q tag: inserted,
/// instead of the one it has, or without one. `None` when the header or its tag is cut off.
#[must_use]
pub fn retagged(head: &[u8], tag: Option<TagControl>) -> Option<Vec<u8>> {
    let had = if Addresses::of(head)?.tag.is_some() { TAG } else { 0 };
    let (addresses, rest) = head.split_at_checked(ADDRESSES)?;
    let mut out = Vec::with_capacity(head.len() + TAG);
    out.extend_from_slice(addresses);
    if let Some(TagControl(tci)) = tag {
        out.extend_from_slice(&CUSTOMER_TAG.to_be_bytes());
        out.extend_from_slice(&tci.to_be_bytes());
    }
    out.extend_from_slice(rest.get(had..)?);
    Some(out)
}

/// Bytes of the VLAN tags of a frame that begins with `head`. They do not count against the largest frame (IEEE
/// 802.3, 3.2.7).
#[inline]
#[must_use]
pub fn tag_bytes(head: &[u8]) -> usize {
    let is_tag = |number: &usize| {
        let kind = head.get(ADDRESSES + number * TAG..).and_then(|rest| rest.first_chunk());
        kind.is_some_and(|kind| matches!(u16::from_be_bytes(*kind), CUSTOMER_TAG | SERVICE_TAG))
    };
    (0..usize::from(MAX_TAGS)).take_while(is_tag).count() * TAG
}

/// Tags, bytes of header, and the type or length at its end.
#[inline]
fn ethernet(extent: Extent<'_>) -> Result<(u8, usize, u16), FrameError> {
    has("bytes of Ethernet header", extent, 0, ETHERNET)?;
    let frame = extent.head;
    let mut length = ETHERNET;
    let mut tags = 0;
    let mut value = be16(frame, length - 2);
    while matches!(value, CUSTOMER_TAG | SERVICE_TAG) && tags < MAX_TAGS {
        has("bytes of VLAN tag", extent, length, TAG)?;
        length += TAG;
        tags += 1;
        value = be16(frame, length - 2);
    }
    Ok((tags, length, value))
}

/// The header of a frame whose 802.3 length, if it has one, is not read.
pub(super) fn parse_type(extent: Extent<'_>) -> Result<LinkLayer, FrameError> {
    let (tags, length, value) = ethernet(extent)?;
    let ether_type = if value >= MIN_TYPE { value } else { 0 };
    Ok(LinkLayer { tags, snap: false, ether_type, length })
}

/// The header, and the end of the frame as an 802.3 length tells it.
#[inline]
pub(super) fn parse(extent: Extent<'_>) -> Result<(LinkLayer, usize), FrameError> {
    let (tags, mut length, value) = ethernet(extent)?;
    let frame = extent.head;
    if value >= MIN_TYPE {
        return Ok((LinkLayer { tags, snap: false, ether_type: value, length }, extent.length));
    }
    let highest = MAX_LENGTH.min(extent.length - length);
    let payload = FrameError::within("802.3 length", length - 2, usize::from(value), 0, highest)?;
    let end = length + payload;
    if payload >= SNAP {
        has("bytes of LLC and SNAP", extent, length, SNAP)?;
    }
    if payload >= SNAP && frame[length..length + SNAP_PREFIX.len()] == SNAP_PREFIX {
        length += SNAP;
        let ether_type = be16(frame, length - 2);
        return Ok((LinkLayer { tags, snap: true, ether_type, length }, end));
    }
    // LLC of another protocol, spanning tree for example
    Ok((LinkLayer { tags, snap: false, ether_type: 0, length }, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const FROM: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    fn frame(tags: &[[u8; 4]]) -> Vec<u8> {
        [&TO.0[..], &FROM.0, tags.as_flattened(), &[8, 0, 0x45, 0]].concat()
    }

    #[test]
    fn addresses_and_tag() {
        let of = |tags: &[[u8; 4]]| Addresses::of(&frame(tags)).expect("whole");
        let plain = Addresses { destination: TO, source: FROM, tag: None };
        assert_eq!(of(&[]), plain);
        let tag = TagControl(0xa00c);
        let tagged = Addresses { tag: Some(tag), ..plain };
        assert_eq!(of(&[[0x81, 0, 0xa0, 12], [0x81, 0, 0, 9]]), tagged);
        assert_eq!(of(&[[0x88, 0xa8, 0, 7]]), plain, "a service tag is not looked at");
        assert_eq!((tag.vlan(), tag.with_vlan(0xf064)), (12, TagControl(0xa064)));
        assert_eq!(destination(&frame(&[])), Some(TO));
    }

    #[test]
    fn a_truncated_header_has_no_addresses() {
        let tagged = frame(&[[0x81, 0, 0, 5]]);
        for length in 0..16 {
            assert_eq!(Addresses::of(&tagged[..length]), None, "{length}");
            assert_eq!(retagged(&tagged[..length], None), None, "{length}");
        }
        assert!(Addresses::of(&tagged[..16]).is_some());
        assert!(Addresses::of(&frame(&[])[..14]).is_some());
        assert_eq!(destination(&tagged[..5]), None);
    }

    #[test]
    fn a_tag_is_inserted_replaced_and_removed() {
        let [plain, five, nine] = [vec![], vec![[0x81, 0, 0, 5]], vec![[0x81, 0, 0x60, 9]]];
        let tag = |tags: &Vec<[u8; 4]>| Addresses::of(&frame(tags)).unwrap().tag;
        for had in [&plain, &five, &nine] {
            for wanted in [&plain, &five, &nine] {
                assert_eq!(retagged(&frame(had), tag(wanted)), Some(frame(wanted)));
            }
        }
        let double = frame(&[[0x81, 0, 0, 5], [0x81, 0, 0, 6]]);
        assert_eq!(retagged(&double, None), Some(frame(&[[0x81, 0, 0, 6]])));
        let service = frame(&[[0x88, 0xa8, 0, 7]]);
        assert_eq!(retagged(&service, None), Some(service));
    }

    #[test]
    fn the_outer_tag_of_either_type() {
        let outer = |tags: &[[u8; 4]]| {
            let frame = frame(tags);
            let layer = parse(Extent { head: &frame, length: frame.len() }).expect("whole").0;
            (layer.encapsulation(), layer.outer_tag(&frame))
        };
        assert_eq!(outer(&[]), (0, None));
        assert_eq!(outer(&[[0x81, 0, 0, 5], [0x81, 0, 0, 6]]), (8, Some(TagControl(5))));
        assert_eq!(outer(&[[0x88, 0xa8, 0x20, 7]]), (4, Some(TagControl(0x2007))));
    }
}
