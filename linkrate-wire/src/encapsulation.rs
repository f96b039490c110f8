//! VLAN tags and LLC/SNAP around a packet: put on before the wire, taken off after it.
//!
//! Only the link header is made anew; what follows it stays where it is.
//!
//! LLC/SNAP is how RFC 1042 sends IP and ARP over IEEE 802: the type becomes a length, and moves
//! behind it. That length is at most 1500 (IEEE 802.3, 3.2.6), since larger values are types. A
//! packet too long for it stays Ethernet II, as jumbo frames do on real links, rather than being
//! lost; a receiver tells the two apart frame by frame. For the same reason a superframe whose
//! segments are too long is cut as Ethernet II, every one of its segments, the short one too. What
//! is neither IP nor ARP keeps its type: link protocols such as LACP are known by it.

use crate::control::arp;
use crate::frame::link::{
    ADDRESSES, CUSTOMER_TAG, ETHERNET, LARGEST_LENGTH, MOST_TAGS, SERVICE_TAG, SMALLEST_TYPE, SNAP,
    SNAP_PREFIX, TAG,
};
use crate::frame::{Headers, LinkLayer, be16, ipv4, ipv6};
use crate::segment::{Header, narrow};

/// Bytes of the longest link header: two tags and SNAP.
pub const LONGEST_LINK_HEADER: usize = ETHERNET + MOST_TAGS as usize * TAG + SNAP;

/// A link header, owned without an allocation.
pub type LinkHeader = Header<LONGEST_LINK_HEADER>;

/// What is put around a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encapsulation {
    /// An 802.1Q tag (0x8100) with this tag control information (priority, drop eligible, VLAN),
    /// before all others.
    pub vlan: Option<u16>,
    /// LLC/SNAP rather than Ethernet II, where the length allows it.
    pub snap: bool,
}

/// Why nothing can be put around a frame, or taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncapsulationError {
    /// There would be more tags than a receiver looks for.
    #[error("frame has {MOST_TAGS} VLAN tags, expected fewer where one is inserted")]
    Tags,
    /// The headers are not those of this frame.
    #[error("frame has {found} bytes in front, expected the {expected} of its headers")]
    Headers {
        /// Bytes there are.
        found: usize,
        /// Bytes that the headers take.
        expected: usize,
    },
}

/// The link header for a frame that begins with `head` and has these headers. Behind it belongs
/// what the frame has from `headers.link.length` to `headers.end`.
///
/// # Errors
/// There is no room for a tag.
pub fn encapsulate(
    head: &[u8],
    headers: &Headers,
    wanted: Encapsulation,
) -> Result<LinkHeader, EncapsulationError> {
    let carried = headers.end.saturating_sub(headers.link.length);
    Ok(link_header(head, &headers.link, wanted, carried)?.0)
}

/// What becomes of the outermost VLAN tag of a frame that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// It stays, for a host that knows VLANs.
    Keep,
    /// It is taken off if it is one of 802.1Q.
    Strip,
}

/// A frame as it is handed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decapsulated {
    /// The link header: Ethernet II if the frame was SNAP. Behind it belongs what the frame has
    /// from `headers.link.length` to `headers.end`.
    pub link: LinkHeader,
    /// The tag control information of the tag that was taken off; its lower 12 bits are the VLAN.
    pub vlan: Option<u16>,
}

/// Takes off LLC/SNAP, and the VLAN tag if that is wanted, of a frame that begins with `head` and
/// has these headers.
///
/// SNAP stays on where Ethernet II would mean something else: with a type that would be read as a
/// length, or as a tag.
///
/// # Errors
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
        && link.ether_type >= SMALLEST_TYPE
        && !matches!(link.ether_type, CUSTOMER_TAG | SERVICE_TAG);
    let end = &ethernet[if plain { type_at + SNAP } else { type_at }..];
    let link = Header::concat(&[&ethernet[..ADDRESSES], tags, end]).unwrap_or_default();
    Ok(Decapsulated { link, vlan })
}

/// The link header for a frame with `carried` bytes behind it, or for segments of which the longest
/// has so many, and what it is then.
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
        if link.tags >= MOST_TAGS {
            return Err(EncapsulationError::Tags);
        }
        new.tags += 1;
        new.length += TAG;
    }
    let known = matches!(link.ether_type, ipv4::ETHER_TYPE | ipv6::ETHER_TYPE | arp::ETHER_TYPE);
    let length = carried.saturating_add(SNAP);
    if (link.snap || wanted.snap && known) && length <= LARGEST_LENGTH {
        if !link.snap {
            new.snap = true;
            new.length += SNAP;
        }
        // also of a frame that had SNAP: its padding is not carried along
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
        Some(ethernet) if link.length == expected && link.tags <= MOST_TAGS => {
            Ok((ethernet, type_at))
        }
        _ => Err(EncapsulationError::Headers { found: head.len(), expected }),
    }
}
