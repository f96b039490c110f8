//! One held flow: the rules for adding a frame, and the packet that is handed up.

use super::superframe::Spare;
use super::{Delivery, Parts, Piece, Reason, Row, Superframe};
use crate::checksum::Sum;
use crate::frame::tcp::{CHECKSUM, FIN, OFFSET_AND_FLAGS, PSH, SEQUENCE};
use crate::frame::{
    Headers, Network, TCP, Transport, be16, be32, ipv4, ipv6, link, put16, put32, tcp,
};
use crate::header::{Header, MAX_HEADER, narrow};
use std::ops::Range;

/// The largest IP packet that its length field can express.
pub(super) const MAX_PACKET: usize = 65_535;

/// The addresses and ports of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    /// IPv4 addresses fill the first 8 bytes.
    ip: [u8; 32],
    ipv6: bool,
    /// Both ports; none in a fragment.
    ports: Option<u32>,
}

impl Addresses {
    /// The addresses of a TCP packet or fragment; `None` for other packets.
    pub(super) fn of(head: &[u8], headers: &Headers) -> Option<Self> {
        let mut ip = [0; 32];
        let ipv6 = match headers.network {
            Network::V4(header) => {
                let from = header.at + ipv4::SOURCE;
                ip[..8].copy_from_slice(head.get(from..from + 8)?);
                false
            }
            Network::V6(header) => {
                let from = header.at + ipv6::SOURCE;
                ip.copy_from_slice(head.get(from..from + 32)?);
                true
            }
            Network::Other => return None,
        };
        let ports = match headers.transport {
            Transport::Tcp { at } => Some(be32(head.get(at..at + 4)?, 0)),
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

/// Whether it is an IPv4 packet with options, which is never merged.
pub(super) fn has_ipv4_options(headers: &Headers) -> bool {
    matches!(headers.network, Network::V4(ip) if ip.length != ipv4::HEADER)
}

/// A frame that could be part of a superframe, without the frame.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    headers: Headers,
    /// Where the TCP header is.
    at: usize,
    addresses: Addresses,
    sequence: u32,
    flags: u16,
}

impl Candidate {
    /// The candidate of a frame with this head, which has all `headers`.
    pub(super) fn new(head: &[u8], headers: &Headers, at: usize, addresses: Addresses) -> Self {
        let (sequence, flags) = (be32(head, at + SEQUENCE), tcp::flags(head, at));
        Self { headers: *headers, at, addresses, sequence, flags }
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Whether its PSH or FIN ends the superframe.
    pub(super) fn ends(&self) -> bool {
        self.flags & (PSH | FIN) != 0
    }

    fn payload(&self) -> usize {
        self.headers.payload_range().len()
    }

    pub(super) fn as_next(&self) -> Next {
        let (payload, flags) = (self.headers.payload_range(), self.flags);
        Next { payload, flags, identification: self.identification() }
    }

    fn identification(&self) -> Option<u16> {
        match self.headers.network {
            Network::V4(ip) => Some(ip.identification),
            Network::V6(_) | Network::Other => None,
        }
    }

    /// The bits that must be equal in all frames of a superframe: all header bytes except the
    /// fields that a segmentation computes. The headers must fit a mask.
    fn mask(&self) -> [u8; MAX_HEADER] {
        let Headers { link, network, payload, .. } = &self.headers;
        let mut mask = [0; MAX_HEADER];
        mask[..*payload].fill(0xff);
        if link.snap {
            put16(&mut mask, link.type_or_length_at(), 0);
        }
        match network {
            Network::V4(ip) => {
                for field in [ipv4::TOTAL_LENGTH, ipv4::IDENTIFICATION, ipv4::CHECKSUM] {
                    put16(&mut mask, ip.at + field, 0);
                }
            }
            Network::V6(ip) => put16(&mut mask, ip.at + ipv6::PAYLOAD_LENGTH, 0),
            Network::Other => {}
        }
        put32(&mut mask, self.at + SEQUENCE, 0);
        put16(&mut mask, self.at + OFFSET_AND_FLAGS, !(FIN | PSH));
        put16(&mut mask, self.at + CHECKSUM, 0);
        mask
    }
}

/// The contribution of a frame to a superframe.
#[derive(Debug, Clone)]
pub(super) struct Next {
    /// Where its payload is, through head and tail.
    payload: Range<usize>,
    flags: u16,
    /// The identification of an IPv4 packet.
    identification: Option<u16>,
}

/// Whether `a` and `b` are equal where `mask` has ones. The length of `a` counts.
fn same(a: &[u8], b: &[u8], mask: &[u8]) -> bool {
    let (Some(b), Some(mask)) = (b.get(..a.len()), mask.get(..a.len())) else {
        return false;
    };
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let (mask, mask_rest) = mask.as_chunks::<8>();
    let number = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let numbers = a.iter().zip(b).zip(mask);
    let differs =
        numbers.fold(0, |all, ((a, b), mask)| all | ((number(a) ^ number(b)) & number(mask)));
    let rest = a_rest.iter().zip(b_rest).zip(mask_rest);
    differs == 0 && rest.fold(0, |all, ((a, b), mask)| all | ((a ^ b) & mask)) == 0
}

#[derive(Debug, Clone)]
pub(super) struct Held<F> {
    first: Candidate,
    /// The mask of the first frame.
    mask: [u8; MAX_HEADER],
    /// The sum of the pseudo-header without its length.
    pseudo: Sum,
    /// All frames, at least one, some of them in rows.
    pieces: Vec<Piece<F>>,
    frames: usize,
    /// Bytes of payload so far.
    payload: usize,
    /// FIN and PSH of the last frame.
    last_flags: u16,
    /// The step of the identification; known from the second frame on.
    step: Option<u16>,
}

impl<F: Parts> Held<F> {
    /// Holds a first frame, or gives it back if its headers are too long. `room` is an empty vector
    /// for the frames.
    pub(super) fn new(frame: F, first: Candidate, mut room: Vec<Piece<F>>) -> Result<Self, F> {
        let headers = &first.headers;
        if headers.payload > MAX_HEADER {
            return Err(frame);
        }
        let Some(pseudo) = headers.pseudo_header(frame.head(), TCP, 0) else {
            return Err(frame);
        };
        let payload = headers.payload_range();
        let length = payload.len();
        room.push(Piece { frame, payload });
        Ok(Self {
            mask: first.mask(),
            first,
            pseudo,
            pieces: room,
            frames: 1,
            payload: length,
            last_flags: 0,
            step: None,
        })
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.first.addresses
    }

    /// The length of the IP packet with `payload` bytes.
    fn packet(&self, payload: usize) -> usize {
        self.first.headers.payload - self.first.headers.link.length + payload
    }

    /// Whether `next`, with this head, may be added.
    pub(super) fn admits(&self, head: &[u8], next: &Candidate) -> Result<(), Reason> {
        let length = next.payload();
        #[expect(clippy::cast_possible_truncation, reason = "at most 65535")]
        let expected = self.first.sequence.wrapping_add(self.payload as u32);
        if next.sequence != expected
            || length > self.first.payload()
            || next.headers.payload != self.first.headers.payload
            || !self.same_headers(head)
            || self.step_to(next.identification()).is_err()
        {
            return Err(Reason::Mismatch);
        }
        if self.packet(self.payload + length) > MAX_PACKET {
            return Err(Reason::Full);
        }
        Ok(())
    }

    /// Whether a frame whose head has headers only continues where this flow ends. Its headers then
    /// equal those of the first frame, and parsing them would give the same result. Its lengths,
    /// its place in the stream and its checksums are checked here; `payload` gives the sum of its
    /// `length` bytes of payload. Unusual frames are left to
    /// [`Coalescer::offer`](super::Coalescer::offer).
    fn follows(&self, head: &[u8], length: usize, payload: impl FnOnce() -> Sum) -> Option<Next> {
        let headers = &self.first.headers;
        let total = head.len() + length;
        #[expect(clippy::cast_possible_truncation, reason = "at most 65535")]
        let expected = self.first.sequence.wrapping_add(self.payload as u32);
        let at = self.first.at;
        if head.len() != headers.payload
            || headers.link.snap
            || length == 0
            || length > self.first.payload()
            || self.packet(self.payload + length) > MAX_PACKET
            || be32(head, at + SEQUENCE) != expected
            || !self.same_headers(head)
        {
            return None;
        }
        let identification = match headers.network {
            Network::V4(ip) => {
                let header = head.get(ip.at..ip.at + ip.length)?;
                let right = usize::from(be16(header, ipv4::TOTAL_LENGTH)) == total - ip.at
                    && Sum::of(header).verifies();
                right.then(|| Some(be16(header, ipv4::IDENTIFICATION)))?
            }
            Network::V6(ip) => {
                let stated = usize::from(be16(head, ip.at + ipv6::PAYLOAD_LENGTH));
                (stated == total - ip.at - ipv6::HEADER).then_some(None)?
            }
            Network::Other => return None,
        };
        self.step_to(identification).ok()?;
        let covered = Sum::word(narrow(total - at));
        let sum = self.pseudo.then(covered).and(&head[at..]).then(payload());
        sum.verifies().then(|| Next {
            payload: head.len()..total,
            flags: tcp::flags(head, at),
            identification,
        })
    }

    /// Whether a frame with this head is equal in all fields that must be. Its headers are then at
    /// the same places.
    fn same_headers(&self, head: &[u8]) -> bool {
        let first = self.pieces[0].frame.head();
        first.get(..self.first.headers.payload).is_some_and(|first| same(first, head, &self.mask))
    }

    /// The step of the identification if `next` is added.
    fn step_to(&self, next: Option<u16>) -> Result<Option<u16>, Reason> {
        let (Some(first), Some(next)) = (self.first.identification(), next) else {
            return Ok(None);
        };
        let distance = next.wrapping_sub(first);
        let count = narrow(self.frames);
        let atomic = matches!(self.first.headers.network, Network::V4(ip) if ip.dont_fragment);
        match (self.step, distance) {
            (None | Some(0), 0) if atomic => Ok(Some(0)),
            (None | Some(1), distance) if distance == count => Ok(Some(1)),
            _ => Err(Reason::Mismatch),
        }
    }

    /// Adds an admitted frame, and tells why it is the last one if it is.
    pub(super) fn push(&mut self, frame: F, next: &Next) -> Option<Reason> {
        self.pieces.push(Piece { frame, payload: next.payload.clone() });
        self.count(next)
    }

    /// Adds the frames at the begin of a row that continue this flow. Returns their number, and why
    /// the last of them ends the superframe if it does.
    pub(super) fn follow(&mut self, row: &F) -> (usize, Option<Reason>)
    where
        F: Row,
    {
        let mut count = 0;
        while count < row.frames() {
            let (head, tail) = row.frame(count);
            let sum = || row.frame_sum(count);
            let Some(next) = self.follows(head, tail.len(), sum) else { break };
            count += 1;
            if let Some(reason) = self.count(&next) {
                return (count, Some(reason));
            }
            // two frames show how the identification continues
            if count == 2 && row.is_cut() {
                count += self.segments(next.payload.len(), row.frames().saturating_sub(3));
            }
        }
        (count, None)
    }

    /// Adds `count` segments of a superframe with `length` bytes each, or as many as there is room
    /// for, behind two segments of the same superframe. Returns their number.
    fn segments(&mut self, length: usize, count: usize) -> usize {
        let room = MAX_PACKET - self.packet(self.payload);
        let count = count.min(room.checked_div(length).unwrap_or(0));
        self.frames += count;
        self.payload += count * length;
        count
    }

    /// Keeps the frames that [`follow`](Self::follow) has added.
    pub(super) fn keep(&mut self, row: F) {
        let (head, tail) = (row.head().len(), row.tail().len());
        self.pieces.push(Piece { frame: row, payload: head..head + tail });
    }

    fn count(&mut self, next: &Next) -> Option<Reason> {
        self.step = self.step_to(next.identification).unwrap_or(self.step);
        let (length, flags) = (next.payload.len(), next.flags & (FIN | PSH));
        self.frames += 1;
        self.payload += length;
        self.last_flags = flags;
        if flags != 0 {
            return Some(Reason::Pushed);
        }
        (length < self.first.payload()).then_some(Reason::Short)
    }

    /// Hands up: a single frame unchanged, several as a superframe. The room of a single frame goes
    /// to `spare`.
    pub(super) fn deliver(mut self, reason: Reason, spare: &mut Spare<F>) -> Delivery<F> {
        if self.frames == 1
            && let Some(only) = self.pieces.pop()
        {
            spare.put(self.pieces);
            return Delivery::Frame { frame: only.frame, reason };
        }
        let headers = &self.first.headers;
        let (header, transport) = self.header();
        let superframe = Box::new(Superframe {
            header,
            segment_size: narrow(self.first.payload()),
            ipv6: matches!(headers.network, Network::V6(_)),
            transport,
            snap: headers.link.snap,
            fixed_identification: self.step == Some(0),
            pieces: self.pieces,
            segments: self.frames,
        });
        Delivery::Superframe { superframe, reason }
    }

    /// The header of the superframe as Ethernet II, and the place of TCP in it.
    fn header(&self) -> (Header, usize) {
        let Candidate { headers, at, .. } = &self.first;
        let head = self.pieces[0].frame.head();
        let length_at = headers.link.type_or_length_at();
        let removed = if headers.link.snap { link::SNAP } else { 0 };
        let parts = [&head[..length_at], &head[length_at + removed..headers.payload]];
        let mut header = Header::concat(&parts).unwrap_or_default();
        let transport = at - removed;
        let covered = narrow(header.len() - transport + self.payload);
        let packet = self.packet(self.payload);
        let out = header.as_mut();
        match headers.network {
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
        (header, transport)
    }
}
