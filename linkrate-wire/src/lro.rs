//! Large receive offload: frames of one TCP flow become a superframe if cutting it again would give
//! back exactly the same frames.
//!
//! The rules are those of `tcp_gro_receive` and `inet_gro_receive` of Linux, and stricter where
//! these would lose information. IPv4 packets without DF must
//! have ascending identifications, since a segmentation restores only those; with DF the
//! identification may also be constant (RFC 6864).
//!
//! A frame with CWR is never merged, although Linux merges equal ones since AccECN (RFC 9768): a vnet header cannot tell
//! that all segments have it, and a host that cut the superframe again would leave it on the first alone
//! (`tcp_gso_segment`).
//!
//! A [`Coalescer`] is bounded: it holds a fixed number of flows, each up to an IP packet of 65535
//! bytes. It has no timer: the caller flushes it at the end of a batch or when its own timer
//! expires.
//!
//! A frame is any type with [`Parts`], so payload may lie apart from its headers and is merged
//! without being moved. An adapter that has parsed and verified a frame already offers it with
//! [`Coalescer::offer_verified`].

mod merge;
mod parts;
mod superframe;

pub use parts::{Parts, Row};
pub use superframe::{Piece, Superframe};

use crate::frame::tcp::{ACK, CWR, HEADER, RST, SYN, URG};
use crate::frame::{Headers, Network, Transport, Verification, ipv4, ipv6, link, tcp};
use merge::{Addresses, Candidate, Held, MAX_PACKET};
use superframe::Spare;

/// Why frames were handed up instead of held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is not TCP over IP, or it has IPv4 options or more headers than are kept.
    NotTcp,
    /// It is a fragment.
    Fragment,
    /// Its lengths contradict each other. The caller may drop it.
    Malformed,
    /// A checksum is wrong or cannot be verified.
    Checksum,
    /// It carries no data.
    NoPayload,
    /// It carries SYN, RST, URG or CWR, or lacks ACK.
    Flags,
    /// It ended with a frame shorter than the first.
    Short,
    /// It ended with PSH or FIN.
    Pushed,
    /// With another frame it would be larger than an IP packet can be.
    Full,
    /// The next frame of the flow did not fit: another header field, another sequence number, or
    /// longer.
    Mismatch,
    /// It was held longest, and another flow needed its place.
    Evicted,
    /// The caller asked for it.
    Flushed,
}

/// A packet for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery<F> {
    /// A frame as it came in.
    Frame {
        /// The frame.
        frame: F,
        /// Why it was not merged.
        reason: Reason,
    },
    /// Several frames as one.
    Superframe {
        /// The merged frames.
        superframe: Box<Superframe<F>>,
        /// Why it ended.
        reason: Reason,
    },
}

/// The result of offering a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered<F> {
    /// Packets to hand up now, in this order.
    pub flushed: Vec<Delivery<F>>,
    /// Whether the frame is held. If not, it is the last of `flushed` or part of the last.
    pub kept: bool,
}

/// The result of offering frames in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedRow<F> {
    /// The packet to hand up now: the superframe that the last frame taken has completed.
    pub flushed: Option<Delivery<F>>,
    /// The number of frames taken.
    pub taken: usize,
    /// The other frames, which the caller offers one by one.
    pub rest: Option<F>,
}

/// Holds frames until they can be handed up.
#[derive(Debug, Clone)]
pub struct Coalescer<F> {
    flows: usize,
    /// The one held longest comes first.
    held: Vec<Held<F>>,
    /// The place of the flow that the last frame went to, if it is still held.
    recent: usize,
    spare: Spare<F>,
}

impl<F: Parts> Coalescer<F> {
    /// Holds at most `flows` flows, at least one. Linux holds eight per hash bucket
    /// (`MAX_GRO_SKBS`).
    #[must_use]
    pub fn new(flows: usize) -> Self {
        let flows = flows.max(1);
        let (held, spare) = (Vec::with_capacity(flows), Spare::new(flows * 2));
        Self { flows, held, recent: 0, spare }
    }

    /// Takes a frame from the wire, without FCS.
    pub fn offer(&mut self, frame: F) -> Offered<F> {
        match Headers::parse_parts(frame.head(), frame.tail().len()) {
            Ok(headers) => self.take(frame, &headers, false),
            Err(_) => passed(Vec::new(), frame, Reason::Malformed),
        }
    }

    /// Takes a frame whose headers the caller has parsed and whose checksums it has verified.
    /// Neither is done again.
    ///
    /// A frame with a wrong checksum must not be offered here: merged, it would get a right one.
    /// With the headers of another frame, the frame comes back as malformed or is merged with
    /// frames of another flow.
    pub fn offer_verified(&mut self, frame: F, headers: &Headers) -> Offered<F> {
        self.take(frame, headers, true)
    }

    /// Takes frames from the begin of a row as long as each continues where the one before it
    /// ended, without parsing them: their heads equal the head of the flow's first frame except for
    /// the fields that a segmentation computes. Everything that [`offer`](Self::offer) checks is
    /// checked, including checksums, and the result is the same. The first other frame comes back
    /// with all frames after it, as do the frames after the end of a superframe.
    pub fn offer_row(&mut self, row: F) -> OfferedRow<F>
    where
        F: Row,
    {
        let place = self.recent;
        let (taken, reason) = self.held.get_mut(place).map_or((0, None), |held| held.follow(&row));
        if taken == 0 {
            return OfferedRow { flushed: None, taken, rest: Some(row) };
        }
        let (row, rest) = row.split(taken);
        self.held[place].keep(row);
        OfferedRow { flushed: reason.map(|reason| self.hand_up(place, reason)), taken, rest }
    }

    /// Hands up everything that is held, the flow held longest first.
    pub fn flush(&mut self) -> Vec<Delivery<F>> {
        let Self { held, spare, .. } = self;
        held.drain(..).map(|held| held.deliver(Reason::Flushed, spare)).collect()
    }

    fn take(&mut self, frame: F, headers: &Headers, verified: bool) -> Offered<F> {
        let head = frame.head();
        let Some(addresses) = Addresses::of(head, headers) else {
            return passed(Vec::new(), frame, Reason::NotTcp);
        };
        match examine(&frame, headers, verified) {
            Ok(at) => {
                let candidate = Candidate::new(head, headers, at, addresses);
                self.add(frame, candidate)
            }
            Err(reason) => {
                // held frames of the flow must not be overtaken
                let flushed = self.release(reason, |held| held.addresses().may_be(&addresses));
                passed(flushed, frame, reason)
            }
        }
    }

    fn add(&mut self, frame: F, candidate: Candidate) -> Offered<F> {
        let mut flushed = Vec::new();
        if let Some(place) =
            self.held.iter().position(|held| held.addresses() == candidate.addresses())
        {
            self.recent = place;
            match self.held[place].admits(frame.head(), &candidate) {
                Ok(()) => {
                    let next = candidate.as_next();
                    let Some(reason) = self.held[place].push(frame, &next) else {
                        return Offered { flushed, kept: true };
                    };
                    flushed.push(self.hand_up(place, reason));
                    return Offered { flushed, kept: false };
                }
                Err(reason) => flushed.push(self.hand_up(place, reason)),
            }
        }
        if candidate.ends() {
            return passed(flushed, frame, Reason::Pushed);
        }
        let held = match Held::new(frame, candidate, self.spare.take()) {
            Ok(held) => held,
            Err(frame) => return passed(flushed, frame, Reason::NotTcp),
        };
        if self.held.len() == self.flows {
            flushed.push(self.hand_up(0, Reason::Evicted));
        }
        self.recent = self.held.len();
        self.held.push(held);
        Offered { flushed, kept: true }
    }

    fn hand_up(&mut self, place: usize, reason: Reason) -> Delivery<F> {
        self.held.remove(place).deliver(reason, &mut self.spare)
    }

    fn release(&mut self, reason: Reason, which: impl Fn(&Held<F>) -> bool) -> Vec<Delivery<F>> {
        let mut out = Vec::new();
        let mut place = 0;
        while place < self.held.len() {
            if which(&self.held[place]) {
                out.push(self.hand_up(place, reason));
            } else {
                place += 1;
            }
        }
        out
    }
}

fn passed<F>(mut flushed: Vec<Delivery<F>>, frame: F, reason: Reason) -> Offered<F> {
    flushed.push(Delivery::Frame { frame, reason });
    Offered { flushed, kept: false }
}

/// The place of the TCP header, if the frame alone could be part of a superframe.
fn examine(frame: &impl Parts, headers: &Headers, verified: bool) -> Result<usize, Reason> {
    let (head, tail) = (frame.head(), frame.tail());
    let at = match headers.transport {
        Transport::Tcp { at } => at,
        Transport::Fragment => return Err(Reason::Fragment),
        _ => return Err(Reason::NotTcp),
    };
    if merge::has_ipv4_options(headers) {
        return Err(Reason::NotTcp);
    }
    if !belong(headers, at, head.len(), tail.len()) {
        return Err(Reason::Malformed);
    }
    let flags = tcp::flags(head, at);
    if flags & (SYN | RST | URG | CWR) != 0 || flags & ACK == 0 {
        return Err(Reason::Flags);
    }
    if headers.payload_range().is_empty() {
        return Err(Reason::NoPayload);
    }
    // last, because it is the most expensive check
    if !verified
        && (!headers.network_checksum_verifies(head)
            || headers.transport_checksum(frame) != Verification::Right)
    {
        return Err(Reason::Checksum);
    }
    Ok(at)
}

/// Whether these can be the headers of a frame of this length, in their order. They always are,
/// unless a caller offers a frame with the headers of another one.
fn belong(headers: &Headers, at: usize, head: usize, tail: usize) -> bool {
    let Headers { link: ethernet, payload, end, .. } = *headers;
    let (ip, length, shortest) = match headers.network {
        Network::V4(ip) => (ip.at, ip.length, ipv4::HEADER),
        Network::V6(ip) => (ip.at, ip.length, ipv6::HEADER),
        Network::Other => return false,
    };
    let room = payload..=payload.saturating_add(MAX_PACKET);
    let link_header = ethernet.type_or_length_at() + 2 + if ethernet.snap { link::SNAP } else { 0 };
    link_header == ethernet.length
        && ethernet.length == ip
        && length >= shortest
        && ip.saturating_add(length) == at
        && at.saturating_add(HEADER) <= payload
        && payload <= head
        && room.contains(&end)
        && end <= head.saturating_add(tail)
}
