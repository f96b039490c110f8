//! VLAN tags and LLC/SNAP around a packet: added before the wire, removed after it.
//!
//! Only the link header is written again. The bytes behind it stay where they are.
//!
//! RFC 1042 sends IP and ARP over IEEE 802 with LLC/SNAP: a length takes the place of the type,
//! which moves behind it. That length is at most 1500 (IEEE 802.3, 3.2.6), since larger values are
//! types. A packet that is too long for it stays Ethernet II, as jumbo frames do on real links; a
//! receiver tells the two apart frame by frame. If the segments of a superframe are too long, all
//! of them are cut as Ethernet II, including the short last one. Protocols other than IP and ARP
//! keep their type: LACP, for example, is recognised by it.

use crate::control::arp;
use crate::frame::link::{
    ADDRESSES, CUSTOMER_TAG, ETHERNET, MAX_LENGTH, MAX_TAGS, MIN_TYPE, SERVICE_TAG, SNAP,
    SNAP_PREFIX, TAG,
};
use crate::frame::{Headers, LinkLayer, be16, ipv4, ipv6};
use crate::header::{Header, narrow};

/// Bytes of the longest link header: two tags and SNAP.
pub const MAX_LINK_HEADER: usize = ETHERNET + MAX_TAGS as usize * TAG + SNAP;

/// A link header, owned without an allocation.
pub type LinkHeader = Header<MAX_LINK_HEADER>;

/// The encapsulation that a packet is to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encapsulation {
    /// An 802.1Q tag (0x8100) with this tag control information (priority, drop eligible, VLAN) in
    /// front of all other tags.
    pub vlan: Option<u16>,
    /// LLC/SNAP rather than Ethernet II, where the length allows it.
    pub snap: bool,
}

/// Why the encapsulation of a frame cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncapsulationError {
    /// The frame would have more tags than a receiver reads.
    #[error("frame has {MAX_TAGS} VLAN tags, expected fewer where one is inserted")]
    Tags,
    /// The headers are not those of this frame.
    #[error("frame begins with {found} bytes, expected the {expected} of its link header")]
    Headers {
        /// Bytes there are.
        found: usize,
        /// Bytes that the headers take.
        expected: usize,
    },
}

/// The new link header for a frame that begins with `head` and has these headers. The bytes
/// `headers.link.length..headers.end` of the frame belong behind it. Fails if the frame has no room for a tag, or
/// the headers are not those of this frame.
pub fn encapsulate(
    head: &[u8],
    headers: &Headers,
    wanted: Encapsulation,
) -> Result<LinkHeader, EncapsulationError> {
    let carried = headers.end.saturating_sub(headers.link.length);
    Ok(link_header(head, &headers.link, wanted, carried)?.0)
}

/// The treatment of the outermost VLAN tag of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// It stays, for a host with VLAN interfaces.
    Keep,
    /// It is removed if it is an 802.1Q tag.
    Strip,
}

/// The link header of a frame for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decapsulated {
    /// The link header: Ethernet II if the frame had SNAP. The bytes
    /// `headers.link.length..headers.end` of the frame belong behind it.
    pub link: LinkHeader,
    /// The tag control information of the tag that was removed; its lower 12 bits are the VLAN.
    pub vlan: Option<u16>,
}

/// Removes LLC/SNAP, and the VLAN tag if `tag` says so, from a frame that begins with `head` and has these headers.
/// Fails if the headers are not those of this frame.
///
/// SNAP stays where Ethernet II would have another meaning: with a type that would be read as a length or as a tag.
/// The headers are not those of this frame.
pub fn decapsulate(
    head: &[u8],
    headers: &Headers,
    tag: Tag,
) -> Result<Decapsulated, EncapsulationError> {
    let link = &headers.link;
    let (ethernet, type_at) = whole(head, link)?;
    let tagged = link.tags > 0 && be16(ethernet, ADDRESSES) == CUSTOMER_TAG;
    let stripped = tag == Tag::Strip && tagged;
    let vlan = stripped.then(|| be16(ethernet, ADDRESSES + 2));
    let tags = &ethernet[if stripped { ADDRESSES + TAG } else { ADDRESSES }..type_at];
    let plain = link.snap
        && link.ether_type >= MIN_TYPE
        && !matches!(link.ether_type, CUSTOMER_TAG | SERVICE_TAG);
    let end = &ethernet[if plain { type_at + SNAP } else { type_at }..];
    let link = Header::concat(&[&ethernet[..ADDRESSES], tags, end]).unwrap_or_default();
    Ok(Decapsulated { link, vlan })
}

/// The link header for a frame with `carried` bytes behind it, or for segments of which the longest
/// has that many; and its description.
pub(crate) fn link_header(
    head: &[u8],
    link: &LinkLayer,
    wanted: Encapsulation,
    carried: usize,
) -> Result<(LinkHeader, LinkLayer), EncapsulationError> {
    let (ethernet, type_at) = whole(head, link)?;
    let (addresses, tags) = ethernet[..type_at].split_at(ADDRESSES);
    let mut new = *link;

    let [kind, tci] = [CUSTOMER_TAG, wanted.vlan.unwrap_or(0)].map(u16::to_be_bytes);
    let tag = [kind[0], kind[1], tci[0], tci[1]];
    let tag = if wanted.vlan.is_some() { &tag[..] } else { &[] };
    if wanted.vlan.is_some() {
        if link.tags >= MAX_TAGS {
            return Err(EncapsulationError::Tags);
        }
        new.tags += 1;
        new.length += TAG;
    }
    let known = matches!(link.ether_type, ipv4::ETHER_TYPE | ipv6::ETHER_TYPE | arp::ETHER_TYPE);
    let length = carried.saturating_add(SNAP);
    if (link.snap || wanted.snap && known) && length <= MAX_LENGTH {
        if !link.snap {
            new.snap = true;
            new.length += SNAP;
        }
        // a frame that had SNAP needs a new length too: its padding is left behind
        let length = narrow(length).to_be_bytes();
        let kind = &ethernet[link.length - 2..];
        let parts = [addresses, tag, tags, &length, &SNAP_PREFIX, kind];
        return Ok((Header::concat(&parts).unwrap_or_default(), new));
    }
    let parts = [addresses, tag, tags, &ethernet[type_at..]];
    Ok((Header::concat(&parts).unwrap_or_default(), new))
}

/// The link header of a frame, and where its type or length is.
fn whole<'a>(head: &'a [u8], link: &LinkLayer) -> Result<(&'a [u8], usize), EncapsulationError> {
    let type_at = link.type_or_length_at();
    let expected = type_at + 2 + if link.snap { SNAP } else { 0 };
    match head.get(..link.length) {
        Some(ethernet) if link.length == expected && link.tags <= MAX_TAGS => {
            Ok((ethernet, type_at))
        }
        _ => Err(EncapsulationError::Headers { found: head.len(), expected }),
    }
}
