//! One flow that is held: which frame may be added, and what is handed up in the end.

use super::{Delivery, Reason};
use crate::checksum::Sum;
use crate::frame::tcp::{
    ACKNOWLEDGEMENT, CHECKSUM, FIN, HEADER, OFFSET_AND_FLAGS, PSH, SEQUENCE, WINDOW,
};
use crate::frame::{Headers, Network, TCP, Transport, be16, be32, ipv4, ipv6, link, put16, tcp};
use crate::segment::{Header, narrow};
use std::ops::Range;

/// The largest IP packet: what its length field can hold.
const LARGEST_PACKET: usize = 65_535;

/// Frames merged into one.
///
/// It is what a TAP accepts as a GSO packet: the checksum field holds the folded sum of the
/// pseudo-header and waits for completion (NEEDS_CSUM), so a host can hand it up or forward it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superframe<F> {
    /// From the destination address to the end of the TCP header. Always Ethernet II, since no
    /// 802.3 length field could hold the length.
    pub header: Header,
    /// The payload, where it lies in the frames that came in.
    pub pieces: Vec<Piece<F>>,
    /// Bytes of payload in every frame but the last: `gso_size`.
    pub segment_size: u16,
    /// Whether it is IPv6 rather than IPv4: `gso_type` TCPV6 or TCPV4.
    pub ipv6: bool,
    /// Where the TCP header is: `csum_start`. The checksum is 16 bytes further: `csum_offset`.
    pub transport: usize,
    /// The frames had LLC/SNAP.
    pub snap: bool,
    /// The IPv4 identification was the same in all frames.
    pub fixed_identification: bool,
}

/// A part of a superframe's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<F> {
    /// The frame that came in.
    pub frame: F,
    /// Its payload.
    pub payload: Range<usize>,
}

impl<F: AsRef<[u8]>> Piece<F> {
    /// The payload.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.frame.as_ref().get(self.payload.clone()).unwrap_or_default()
    }
}

impl<F: AsRef<[u8]>> Superframe<F> {
    /// How many frames were merged.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.pieces.len()
    }

    /// The whole superframe, copied together.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = self.header.to_vec();
        for piece in &self.pieces {
            frame.extend_from_slice(piece.bytes());
        }
        frame
    }
}

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    /// Those of IPv4 fill the first 8 bytes.
    ip: [u8; 32],
    ipv6: bool,
    /// Both ports; none in a fragment.
    ports: Option<u32>,
}

impl Addresses {
    /// Of an IP packet.
    pub(super) fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        let mut ip = [0; 32];
        let ipv6 = match headers.network {
            Network::V4(header) => {
                let from = header.at + ipv4::SOURCE;
                ip[..8].copy_from_slice(&frame[from..from + 8]);
                false
            }
            Network::V6(header) => {
                let from = header.at + ipv6::SOURCE;
                ip.copy_from_slice(&frame[from..from + 32]);
                true
            }
            Network::Other => return None,
        };
        let ports = match headers.transport {
            Transport::Tcp { at } => Some(be32(frame, at)),
            Transport::Fragment => None,
            Transport::Udp { .. } | Transport::Other => return None,
        };
        Some(Self { ip, ipv6, ports })
    }

    /// Whether a packet with the addresses `other` may belong to this flow.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        self.ip == other.ip
            && self.ipv6 == other.ipv6
            && (other.ports.is_none() || self.ports == other.ports)
    }
}

/// With options, an IPv4 packet is left alone.
pub(super) fn has_ipv4_options(headers: &Headers) -> bool {
    matches!(headers.network, Network::V4(ip) if ip.length != ipv4::HEADER)
}

/// A frame that could be part of a superframe.
#[derive(Debug, Clone)]
pub(super) struct Candidate<F> {
    frame: F,
    headers: Headers,
    /// Where the TCP header is.
    at: usize,
    addresses: Addresses,
}

impl<F: AsRef<[u8]>> Candidate<F> {
    pub(super) fn new(frame: F, headers: Headers, at: usize, addresses: Addresses) -> Self {
        Self { frame, headers, at, addresses }
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    pub(super) fn flags(&self) -> u16 {
        tcp::flags(self.bytes(), self.at)
    }

    pub(super) fn into_frame(self) -> F {
        self.frame
    }

    fn bytes(&self) -> &[u8] {
        self.frame.as_ref()
    }

    fn sequence(&self) -> u32 {
        be32(self.bytes(), self.at + SEQUENCE)
    }

    fn identification(&self) -> Option<u16> {
        match self.headers.network {
            Network::V4(ip) => Some(ip.identification),
            Network::V6(_) | Network::Other => None,
        }
    }

    /// Whether all header bytes are the same, but for those that a segmentation makes anew.
    fn same_headers(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.headers, &other.headers);
        if ours.payload != theirs.payload || self.at != other.at || ours.link != theirs.link {
            return false;
        }
        let (a, b) = (self.bytes(), other.bytes());
        let same = |range: Range<usize>| a[range.clone()] == b[range];
        let length_at = ours.link.type_or_length_at();
        let link = same(0..length_at) && same(length_at + 2..ours.link.length);
        let network = match (&ours.network, &theirs.network) {
            (Network::V4(ip), Network::V4(_)) => {
                let at = ip.at;
                same(at..at + ipv4::TOTAL_LENGTH)
                    && same(at + ipv4::FRAGMENT..at + ipv4::CHECKSUM)
                    && same(at + ipv4::SOURCE..at + ip.length)
            }
            (Network::V6(ip), Network::V6(_)) => {
                let at = ip.at;
                same(at..at + ipv6::PAYLOAD_LENGTH)
                    && same(at + ipv6::PAYLOAD_LENGTH + 2..at + ip.length)
            }
            _ => false,
        };
        let at = self.at;
        let flags = (self.flags() ^ other.flags()) & !(FIN | PSH);
        link && network
            && flags == 0
            && same(at..at + SEQUENCE)
            && same(at + ACKNOWLEDGEMENT..at + OFFSET_AND_FLAGS)
            && same(at + WINDOW..at + CHECKSUM)
            // the urgent pointer and all options
            && same(at + CHECKSUM + 2..ours.payload)
            && ours.payload >= at + HEADER
    }
}

/// A flow that is held.
#[derive(Debug, Clone)]
pub(super) struct Held<F> {
    first: Candidate<F>,
    /// Its headers as Ethernet II.
    header: Header,
    /// Where TCP begins in them.
    transport: usize,
    /// The sum of the pseudo-header without its length.
    pseudo: Sum,
    /// The frames after the first.
    more: Vec<Piece<F>>,
    /// Bytes of payload so far.
    payload: usize,
    /// What FIN and PSH the last frame brought.
    last_flags: u16,
    /// What the identification grows by; known from the second frame on.
    step: Option<u16>,
}

impl<F: AsRef<[u8]>> Held<F> {
    /// Gives the frame back if its headers are too long to be kept.
    pub(super) fn new(first: Candidate<F>) -> Result<Self, F> {
        let (headers, bytes) = (&first.headers, first.bytes());
        let length_at = headers.link.type_or_length_at();
        let removed = if headers.link.snap { link::SNAP } else { 0 };
        let parts = [&bytes[..length_at], &bytes[length_at + removed..headers.payload]];
        let (Some(header), Some(pseudo)) =
            (Header::concat(&parts), headers.pseudo_header(bytes, TCP, 0))
        else {
            return Err(first.frame);
        };
        let payload = headers.payload_range().len();
        let transport = first.at - removed;
        let more = Vec::new();
        Ok(Self { first, header, transport, pseudo, more, payload, last_flags: 0, step: None })
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.first.addresses
    }

    fn segment_size(&self) -> usize {
        self.first.headers.payload_range().len()
    }

    /// The IP packet with `payload` bytes.
    fn packet(&self, payload: usize) -> usize {
        self.first.headers.payload - self.first.headers.link.length + payload
    }

    /// Whether `next` may be added.
    pub(super) fn admits(&self, next: &Candidate<F>) -> Result<(), Reason> {
        let length = next.headers.payload_range().len();
        #[expect(clippy::cast_possible_truncation, reason = "at most 65535")]
        let expected = self.first.sequence().wrapping_add(self.payload as u32);
        if next.sequence() != expected
            || length > self.segment_size()
            || !self.first.same_headers(next)
            || self.step_to(next).is_err()
        {
            return Err(Reason::Mismatch);
        }
        if self.packet(self.payload + length) > LARGEST_PACKET {
            return Err(Reason::Full);
        }
        Ok(())
    }

    /// What the identification grows by if `next` comes next.
    fn step_to(&self, next: &Candidate<F>) -> Result<Option<u16>, Reason> {
        let (Some(first), Some(next)) = (self.first.identification(), next.identification()) else {
            return Ok(None);
        };
        let distance = next.wrapping_sub(first);
        let count = narrow(self.more.len() + 1);
        let atomic = matches!(self.first.headers.network, Network::V4(ip) if ip.dont_fragment);
        match (self.step, distance) {
            (None | Some(0), 0) if atomic => Ok(Some(0)),
            (None | Some(1), distance) if distance == count => Ok(Some(1)),
            _ => Err(Reason::Mismatch),
        }
    }

    /// Adds a frame that is admitted, and says whether it is the last one.
    pub(super) fn push(&mut self, next: Candidate<F>) -> Option<Reason> {
        self.step = self.step_to(&next).unwrap_or(self.step);
        let payload = next.headers.payload_range();
        let (length, flags) = (payload.len(), next.flags() & (FIN | PSH));
        self.payload += length;
        self.last_flags = flags;
        self.more.push(Piece { frame: next.frame, payload });
        if flags != 0 {
            return Some(Reason::Pushed);
        }
        (length < self.segment_size()).then_some(Reason::Short)
    }

    /// Hands up: as it came if it is only one frame.
    pub(super) fn deliver(self, reason: Reason) -> Delivery<F> {
        if self.more.is_empty() {
            return Delivery::Frame { frame: self.first.frame, reason };
        }
        let headers = self.first.headers;
        let segment_size = narrow(self.segment_size());
        let header = self.complete_header();
        let mut pieces = Vec::with_capacity(self.more.len() + 1);
        pieces.push(Piece { frame: self.first.frame, payload: headers.payload_range() });
        pieces.extend(self.more);
        let superframe = Box::new(Superframe {
            header,
            pieces,
            segment_size,
            ipv6: matches!(headers.network, Network::V6(_)),
            transport: self.transport,
            snap: headers.link.snap,
            fixed_identification: self.step == Some(0),
        });
        Delivery::Superframe { superframe, reason }
    }

    /// The header of all frames together.
    fn complete_header(&self) -> Header {
        let mut header = self.header.clone();
        let transport = self.transport;
        let covered = narrow(header.len() - transport + self.payload);
        let packet = self.packet(self.payload);
        let removed = self.first.at - transport;
        let out = header.as_mut();
        match self.first.headers.network {
            Network::V4(ip) => {
                let ip_header = &mut out[ip.at - removed..transport];
                put16(ip_header, ipv4::TOTAL_LENGTH, narrow(packet));
                put16(ip_header, ipv4::CHECKSUM, 0);
                let checksum = Sum::of(ip_header).checksum();
                put16(ip_header, ipv4::CHECKSUM, checksum);
            }
            Network::V6(ip) => {
                let length = narrow(packet - ipv6::HEADER);
                put16(out, ip.at - removed + ipv6::PAYLOAD_LENGTH, length);
            }
            Network::Other => {}
        }
        let flags = be16(out, transport + OFFSET_AND_FLAGS) | self.last_flags;
        put16(out, transport + OFFSET_AND_FLAGS, flags);
        put16(out, transport + CHECKSUM, self.pseudo.then(Sum::word(covered)).folded());
        header
    }
}
