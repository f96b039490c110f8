//! The common part of cutting TCP and UDP superframes: the request, the result, and the headers
//! below the transport.
//!
//! The headers of all segments are written one after the other into memory of the caller, and a
//! [`Cut`] says which of them and which payload make a frame. Nothing is allocated once that memory
//! has grown, and several superframes may share it.

use crate::checksum::Sum;
use crate::encapsulation::{Encapsulation, EncapsulationError, link_header};
use crate::frame::{FrameError, Headers, Network, ipv4, ipv6, link, put16};
use crate::header::{Header, MAX_HEADER, narrow};
use std::ops::Range;

/// The number of segments for which payload is fetched ahead: enough for the latency of memory, few
/// enough for the first-level cache.
const FETCH_AHEAD: usize = 2;

/// How to cut a superframe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Bytes of payload in each segment but the last: `gso_size` of `virtio_net_hdr`.
    pub segment_size: u16,
    /// The IPv4 identification of each segment.
    pub identification: Identification,
    /// The segments that carry the TCP flag CWR.
    pub cwr: Cwr,
    /// Insert an 802.1Q tag (0x8100) with this tag control information (priority, drop eligible,
    /// VLAN) in front of all other tags.
    pub vlan: Option<u16>,
    /// Turn the Ethernet II header of the superframe into 802.3 with LLC/SNAP. A superframe that
    /// has SNAP keeps it either way; one with segments too long for an 802.3 length stays
    /// Ethernet II ([`encapsulation`](crate::encapsulation)).
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
            vlan: None,
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

/// Why a superframe cannot be cut. The caller drops and counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Its headers contradict each other.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It is of another protocol.
    #[error("superframe is not {expected} over IPv4 or IPv6")]
    Protocol {
        /// What it should be.
        expected: &'static str,
    },
    /// It is a fragment.
    #[error("superframe is an IP fragment, which has no segments")]
    Fragment,
    /// The checksum of the segments covers the final destination, which is not known.
    #[error("superframe has an IPv6 routing header with segments left, expected none left")]
    Routed,
    /// The size of the segments is zero.
    #[error("segment size is 0, expected at least 1")]
    SegmentSize,
    /// The frame continues after the packet, or the datagram ends before it.
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
    #[error("superframe has {found} bytes of headers, expected at most {MAX_HEADER}")]
    Headers {
        /// Its bytes of headers.
        found: usize,
    },
    /// The VLAN tag cannot be inserted.
    #[error(transparent)]
    Encapsulation(#[from] EncapsulationError),
    /// The caller's memory for headers would pass what a [`Cut`] can point at.
    #[error("batch would have {found} bytes of headers, expected at most {}", u32::MAX)]
    Batch {
        /// Bytes it would have.
        found: usize,
    },
}

/// One frame that was cut off: where its headers are in the caller's memory, and which bytes of the
/// superframe follow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// From the destination address to the end of the transport header, complete.
    pub header: Range<u32>,
    /// The payload, in the superframe.
    pub payload: Range<u32>,
    /// The sum of the payload, where the checksum of the frame was made. Whoever verifies the frame
    /// where the payload has not moved need not read it again.
    pub sum: Option<Sum>,
}

impl Cut {
    /// The headers, in what was written.
    #[must_use]
    pub fn header<'a>(&self, headers: &'a [u8]) -> &'a [u8] {
        headers.get(widened(&self.header)).unwrap_or_default()
    }

    /// The payload, in the superframe.
    #[must_use]
    pub fn payload<'a>(&self, superframe: &'a [u8]) -> &'a [u8] {
        superframe.get(widened(&self.payload)).unwrap_or_default()
    }

    /// Appends `header` to `headers`, to be followed by `payload` of the superframe.
    pub(crate) fn append(
        headers: &mut Vec<u8>,
        header: &[&[u8]],
        payload: &Range<usize>,
    ) -> Option<Self> {
        let start = u32::try_from(headers.len()).ok()?;
        let length = header.iter().map(|part| part.len()).sum::<usize>();
        let end = u32::try_from(headers.len() + length).ok()?;
        let payload = u32::try_from(payload.start).ok()?..u32::try_from(payload.end).ok()?;
        header.iter().for_each(|part| headers.extend_from_slice(part));
        Some(Self { header: start..end, payload, sum: None })
    }
}

fn widened(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// The headers of a superframe, prepared: fields that differ between segments are zero, and the
/// others are summed already, so that a segment costs a copy and a few additions.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    header: Header,
    /// The superframe's headers behind the link header that the segments have.
    headers: Headers,
    /// The payload in the superframe.
    pub(crate) payload: Range<usize>,
    /// Where the transport header is.
    pub(crate) transport: usize,
    /// The sum of the pseudo-header without its length and of the prepared transport header.
    transport_sum: Sum,
    ip_sum: Sum,
    increments: bool,
    /// Bytes of payload in each segment but the last.
    size: usize,
}

impl Template {
    /// Prepares a superframe whose transport header is at `transport` and has its varying fields,
    /// given as ranges from there, zeroed.
    pub(crate) fn new(
        superframe: &[u8],
        headers: &Headers,
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

        let size = usize::from(request.segment_size);
        let packet = payload.start - headers.link.length;
        let wanted = Encapsulation { vlan: request.vlan, snap: request.snap };
        let longest = packet + payload.len().min(size);
        let (ethernet, link) = link_header(superframe, &headers.link, wanted, longest)?;
        let parts = [&*ethernet, &superframe[headers.link.length..payload.start]];
        let mut header =
            Header::concat(&parts).ok_or(SegmentError::Headers { found: link.length + packet })?;
        let transport = transport - headers.link.length + link.length;
        let headers = headers.behind(link);
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
        Ok(Self { header, headers, payload, transport, transport_sum, ip_sum, increments, size })
    }

    /// Part `index`, if there is one. A superframe without payload is one segment.
    fn part(&self, index: usize) -> Option<Part> {
        let start = self.payload.start + index * self.size;
        if start >= self.payload.end && index > 0 {
            return None;
        }
        let end = self.payload.end.min(start + self.size);
        Some(Part { index, payload: start..end, last: end == self.payload.end })
    }

    fn parts(&self) -> usize {
        self.payload.len().div_ceil(self.size).max(1)
    }

    /// Completes the headers of a segment except the transport header. `header` is a copy of the
    /// template's. The result is the sum of the transport without payload and varying fields.
    pub(crate) fn complete(&self, part: &Part, header: &mut [u8]) -> Sum {
        let total = header.len() + part.payload.len();
        let link = &self.headers.link;
        if link.snap {
            put16(header, link.type_or_length_at(), narrow(total + link::SNAP - link.length));
        }
        match &self.headers.network {
            Network::V4(ip) => {
                let length = narrow(total - ip.at);
                let step = if self.increments { narrow(part.index & 0xffff) } else { 0 };
                let identification = ip.identification.wrapping_add(step);
                let sum = self.ip_sum.then(Sum::word(length)).then(Sum::word(identification));
                put16(header, ip.at + ipv4::TOTAL_LENGTH, length);
                put16(header, ip.at + ipv4::IDENTIFICATION, identification);
                put16(header, ip.at + ipv4::CHECKSUM, sum.checksum());
            }
            Network::V6(ip) => {
                let length = narrow(total - ip.at - ipv6::HEADER);
                put16(header, ip.at + ipv6::PAYLOAD_LENGTH, length);
            }
            Network::Other => {}
        }
        let covered = narrow(total - self.transport);
        self.transport_sum.then(Sum::word(covered))
    }
}

/// The payload of a segment.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) index: usize,
    /// In the superframe.
    pub(crate) payload: Range<usize>,
    pub(crate) last: bool,
}

/// Cutting for one protocol.
pub(crate) trait Cutter {
    fn template(&self) -> &Template;

    /// Completes all headers of a segment, in a copy of the template's. `payload` is the sum of its
    /// payload.
    fn complete(&self, part: &Part, payload: Sum, header: &mut [u8]);
}

/// All segments. `fetch` is told of payload before it is looked at.
pub(crate) fn cut_into(
    cutter: &impl Cutter,
    superframe: &[u8],
    headers: &mut Vec<u8>,
    cuts: &mut Vec<Cut>,
    fetch: impl Fn(&[u8]),
) -> Result<(), SegmentError> {
    let template = cutter.template();
    let found = headers.len().saturating_add(template.parts() * template.header.len());
    if u32::try_from(found).is_err() {
        return Err(SegmentError::Batch { found });
    }
    headers.reserve(template.parts() * template.header.len());
    cuts.reserve(template.parts());
    let soon = |index: usize| {
        if let Some(part) = template.part(index) {
            fetch(&superframe[part.payload]);
        }
    };
    (0..FETCH_AHEAD).for_each(soon);
    let mut index = 0;
    while let Some(part) = template.part(index) {
        soon(index + FETCH_AHEAD);
        let start = headers.len();
        let cut = Cut::append(headers, &[&template.header], &part.payload);
        let sum = Sum::of(&superframe[part.payload.clone()]);
        cutter.complete(&part, sum, &mut headers[start..]);
        cuts.extend(cut.map(|cut| Cut { sum: Some(sum), ..cut }));
        index += 1;
    }
    Ok(())
}
