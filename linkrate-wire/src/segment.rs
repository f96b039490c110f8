//! What cutting TCP and UDP superframes has in common: what is asked, what comes out, and the
//! headers below the transport.

use crate::checksum::Sum;
use crate::frame::{FrameError, Headers, Network, be16, ipv4, ipv6, link, put16};
use std::ops::{Deref, Range};

/// The longest headers that are cut. Ethernet with two tags and SNAP, IPv4 and TCP with all
/// options come to 150 bytes; the rest is room for IPv6 extension headers.
pub const LONGEST_HEADER: usize = 256;

/// How to cut a superframe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Bytes of payload in each segment but the last: `gso_size` of `virtio_net_hdr`.
    pub segment_size: u16,
    /// What becomes of the IPv4 identification.
    pub identification: Identification,
    /// What becomes of the TCP flag CWR.
    pub cwr: Cwr,
    /// Turn the Ethernet II header of the superframe into 802.3 with LLC/SNAP. A superframe that
    /// has SNAP keeps it either way.
    pub snap: bool,
}

impl Request {
    /// Segments of this size as Linux cuts them.
    #[must_use]
    pub const fn new(segment_size: u16) -> Self {
        Self {
            segment_size,
            identification: Identification::Increments,
            cwr: Cwr::FirstOnly,
            snap: false,
        }
    }
}

/// The IPv4 identification from segment to segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identification {
    /// One more than the segment before.
    Increments,
    /// The same in all (`SKB_GSO_TCP_FIXEDID`), but only when DF is set: without it the
    /// identification must tell packets apart (RFC 6864), and it increments.
    Fixed,
}

/// The TCP flag CWR when a superframe has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cwr {
    /// The receiver is told once (RFC 3168, 6.1.2; `tcp_gso_segment`).
    FirstOnly,
    /// It is part of a counter, which every segment carries (AccECN, RFC 9768).
    All,
}

/// Why a superframe cannot be cut. It is to be dropped and counted, never guessed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Its headers contradict each other.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It is not the protocol that was to be cut.
    #[error("superframe is not {expected} over IPv4 or IPv6")]
    Protocol {
        /// What it should be.
        expected: &'static str,
    },
    /// It is a fragment.
    #[error("superframe is an IP fragment, which has no segments")]
    Fragment,
    /// The checksum of the segments would cover a destination that is not known.
    #[error("superframe has an IPv6 routing header with segments left, expected none left")]
    Routed,
    /// The size of the segments is zero.
    #[error("segment size is 0, expected at least 1")]
    SegmentSize,
    /// The frame goes on after the packet, or the datagram ends before it.
    #[error("superframe has {found} bytes, expected {expected} from the length of {of}")]
    Length {
        /// Bytes there are.
        found: usize,
        /// Bytes that the length field leaves.
        expected: usize,
        /// The field.
        of: &'static str,
    },
    /// The headers are too long.
    #[error("superframe has {found} bytes of headers, expected at most {LONGEST_HEADER}")]
    Headers {
        /// Bytes of headers.
        found: usize,
    },
    /// A segment would not fit the 802.3 length field.
    #[error("802.3 length of a segment is {found}, expected at most {}", link::LARGEST_LENGTH)]
    SnapLength {
        /// The length it would have.
        found: usize,
    },
}

/// One frame that was cut off: its headers, and which bytes of the superframe follow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// From the destination address to the end of the transport header, complete.
    pub header: Header,
    /// The payload, in the superframe.
    pub payload: Range<usize>,
}

impl Segment {
    /// The whole frame, copied together.
    #[must_use]
    pub fn to_frame(&self, superframe: &[u8]) -> Vec<u8> {
        let payload = superframe.get(self.payload.clone()).unwrap_or_default();
        [&self.header, payload].concat()
    }
}

/// The headers of a frame, owned without an allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; LONGEST_HEADER],
    length: usize,
}

impl Header {
    /// The bytes of `parts`, one after the other, or none if they are too many.
    pub(crate) fn concat(parts: &[&[u8]]) -> Option<Self> {
        let mut header = Self { bytes: [0; LONGEST_HEADER], length: 0 };
        for part in parts {
            let end = header.length + part.len();
            header.bytes.get_mut(header.length..end)?.copy_from_slice(part);
            header.length = end;
        }
        Some(header)
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Header").field(&&**self).finish()
    }
}

/// The headers of a superframe made ready: what differs between segments is zero, and what does
/// not is already summed, so that a segment costs a copy and a few additions.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) header: Header,
    /// The superframe's headers with the link header it is to have.
    pub(crate) headers: Headers,
    /// The payload in the superframe.
    pub(crate) payload: Range<usize>,
    /// Where the transport header is.
    pub(crate) transport: usize,
    /// Pseudo-header without its length, and transport header as it stands.
    pub(crate) transport_sum: Sum,
    ip_sum: Sum,
    increments: bool,
}

impl Template {
    /// Prepares a superframe whose transport header is at `transport` and has its varying fields,
    /// given as ranges from there, zeroed.
    pub(crate) fn new(
        superframe: &[u8],
        mut headers: Headers,
        request: &Request,
        (transport, protocol): (usize, u8),
        varying: &[Range<usize>],
    ) -> Result<Self, SegmentError> {
        if request.segment_size == 0 {
            return Err(SegmentError::SegmentSize);
        }
        if headers.end != superframe.len() {
            let (found, expected) = (superframe.len(), headers.end);
            return Err(SegmentError::Length { found, expected, of: "IP" });
        }
        let payload = headers.payload_range();
        let pseudo = headers.pseudo_header(superframe, protocol, 0).ok_or(SegmentError::Routed)?;

        let mut header = encapsulate(superframe, &mut headers, request.snap)
            .ok_or(SegmentError::Headers { found: payload.start })?;
        let transport = transport + header.len() - payload.start;
        if headers.link.snap {
            let largest = payload.len().min(usize::from(request.segment_size));
            let found = header.len() - (headers.link.length - link::SNAP) + largest;
            if found > link::LARGEST_LENGTH {
                return Err(SegmentError::SnapLength { found });
            }
        }
        let bytes = header.as_mut();
        for range in varying {
            bytes[transport + range.start..transport + range.end].fill(0);
        }
        let (mut ip_sum, mut increments) = (Sum::ZERO, false);
        if let Network::V4(ip) = &headers.network {
            let ip_header = &mut bytes[ip.at..ip.at + ip.length];
            put16(ip_header, ipv4::TOTAL_LENGTH, 0);
            put16(ip_header, ipv4::CHECKSUM, 0);
            put16(ip_header, ipv4::IDENTIFICATION, 0);
            ip_sum = Sum::of(ip_header);
            increments = request.identification == Identification::Increments || !ip.dont_fragment;
        }
        let transport_sum = pseudo.and(&bytes[transport..]);
        Ok(Self { header, headers, payload, transport, transport_sum, ip_sum, increments })
    }

    /// The headers of segment `index` with `payload` bytes, complete but for the transport, and
    /// the sum of the transport so far: it lacks the payload and the varying fields.
    pub(crate) fn instance(&self, index: usize, payload: usize) -> (Header, Sum) {
        let mut header = self.header.clone();
        let total = header.len() + payload;
        let bytes = header.as_mut();
        let link = &self.headers.link;
        if link.snap {
            put16(bytes, link.type_or_length_at(), narrow(total + link::SNAP - link.length));
        }
        match &self.headers.network {
            Network::V4(ip) => {
                let length = narrow(total - ip.at);
                let step = if self.increments { narrow(index & 0xffff) } else { 0 };
                let identification = ip.identification.wrapping_add(step);
                let sum = self.ip_sum.then(Sum::word(length)).then(Sum::word(identification));
                put16(bytes, ip.at + ipv4::TOTAL_LENGTH, length);
                put16(bytes, ip.at + ipv4::IDENTIFICATION, identification);
                put16(bytes, ip.at + ipv4::CHECKSUM, sum.checksum());
            }
            Network::V6(ip) => {
                let length = narrow(total - ip.at - ipv6::HEADER);
                put16(bytes, ip.at + ipv6::PAYLOAD_LENGTH, length);
            }
            Network::Other => {}
        }
        let covered = narrow(total - self.transport);
        (header, self.transport_sum.then(Sum::word(covered)))
    }
}

/// A segment is never longer than its superframe, whose lengths are 16 bits wide.
#[expect(clippy::cast_possible_truncation, reason = "at most the length of the superframe")]
pub(crate) const fn narrow(length: usize) -> u16 {
    debug_assert!(length <= 0xffff);
    length as u16
}

/// The headers of a frame, with SNAP inserted if it is wanted; `headers` moves along.
fn encapsulate(frame: &[u8], headers: &mut Headers, snap: bool) -> Option<Header> {
    let bytes = &frame[..headers.payload];
    if !snap || headers.link.snap {
        return Header::concat(&[bytes]);
    }
    let type_at = headers.link.type_or_length_at();
    let (before, after) = bytes.split_at(type_at);
    let header = Header::concat(&[before, &[0, 0], &link::SNAP_PREFIX, after])?;
    headers.link.snap = true;
    headers.link.length += link::SNAP;
    headers.payload += link::SNAP;
    match &mut headers.network {
        Network::V4(ip) => ip.at += link::SNAP,
        Network::V6(ip) => ip.at += link::SNAP,
        Network::Other => {}
    }
    debug_assert_eq!(be16(&header, headers.link.length - 2), headers.link.ether_type);
    Some(header)
}

/// Which part of `payload` segment `index` carries, if there is such a segment. A superframe
/// without payload is one segment.
pub(crate) fn cut(payload: &Range<usize>, size: u16, index: usize) -> Option<(Range<usize>, bool)> {
    let size = usize::from(size);
    let start = payload.start + index * size;
    if start >= payload.end && index > 0 {
        return None;
    }
    let end = payload.end.min(start + size);
    Some((start..end, end == payload.end))
}
