//! TCP packet reassembly: frames of one flow become a superframe, as long as cutting it again
//! would give back the very same frames.
//!
//! The rules are those of `tcp_gro_receive` and `inet_gro_receive` of Linux, and stricter where
//! these would lose something: a frame with CWR is never merged, and IPv4 packets without DF must
//! have ascending identifications, since only those a segmentation would restore (the identification
//! may stand still when DF is set, RFC 6864).
//!
//! A [`Coalescer`] is bounded: it holds a fixed number of flows, each up to an IP packet of 65535
//! bytes. It knows no time: the caller flushes it at the end of a batch or when its timer says so.

mod merge;

pub use merge::{Piece, Superframe};

use crate::frame::tcp::{ACK, CWR, FIN, PSH, RST, SYN, URG};
use crate::frame::{Headers, Transport, Verification, tcp};
use merge::{Addresses, Candidate, Held};

/// Why frames were handed up rather than held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is no TCP packet over IP, or has IPv4 options or more headers than are kept.
    NotTcp,
    /// It is a fragment.
    Fragment,
    /// Its lengths contradict each other. Better dropped than handed up.
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
    /// Another frame could have made it larger than an IP packet can be.
    Full,
    /// The next frame of the flow did not fit: another header field, another sequence number, or
    /// longer.
    Mismatch,
    /// Its place was needed for another flow; it was the one held longest.
    Evicted,
    /// The caller asked for it.
    Flushed,
}

/// Something to hand up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery<F> {
    /// A frame as it came in.
    Frame {
        /// The frame.
        frame: F,
        /// Why it is alone.
        reason: Reason,
    },
    /// Several frames as one.
    Superframe {
        /// The merged frames.
        superframe: Box<Superframe<F>>,
        /// Why it is not larger.
        reason: Reason,
    },
}

/// What became of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered<F> {
    /// To be handed up now, in this order.
    pub flushed: Vec<Delivery<F>>,
    /// Whether the frame is held; if not, it is the last of `flushed` or part of it.
    pub kept: bool,
}

/// Holds frames until they can be handed up.
#[derive(Debug, Clone)]
pub struct Coalescer<F> {
    flows: usize,
    /// The one held longest comes first.
    held: Vec<Held<F>>,
}

impl<F: AsRef<[u8]>> Coalescer<F> {
    /// Holds at most `flows` flows, at least one. Eight is what Linux holds per hash bucket
    /// (`MAX_GRO_SKBS`).
    #[must_use]
    pub fn new(flows: usize) -> Self {
        let flows = flows.max(1);
        Self { flows, held: Vec::with_capacity(flows) }
    }

    /// How many flows are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes a frame as it came from the wire, without FCS.
    pub fn offer(&mut self, frame: F) -> Offered<F> {
        let headers = match Headers::parse(frame.as_ref()) {
            Ok(headers) => headers,
            Err(_) => return passed(Vec::new(), frame, Reason::Malformed),
        };
        let Some(addresses) = Addresses::of(frame.as_ref(), &headers) else {
            return passed(Vec::new(), frame, Reason::NotTcp);
        };
        match examine(frame.as_ref(), &headers) {
            Ok(at) => {
                let candidate = Candidate::new(frame, headers, at, addresses);
                self.take(candidate)
            }
            Err(reason) => {
                // what is held of the flow must not be overtaken
                let flushed = self.release(reason, |held| held.addresses().may_be(&addresses));
                passed(flushed, frame, reason)
            }
        }
    }

    /// Hands up all that is held, the longest held first.
    pub fn flush(&mut self) -> Vec<Delivery<F>> {
        self.held.drain(..).map(|held| held.deliver(Reason::Flushed)).collect()
    }

    fn take(&mut self, candidate: Candidate<F>) -> Offered<F> {
        let mut flushed = Vec::new();
        if let Some(place) =
            self.held.iter().position(|held| held.addresses() == candidate.addresses())
        {
            match self.held[place].admits(&candidate) {
                Ok(()) => {
                    let held = &mut self.held[place];
                    let Some(reason) = held.push(candidate) else {
                        return Offered { flushed, kept: true };
                    };
                    flushed.push(self.held.remove(place).deliver(reason));
                    return Offered { flushed, kept: false };
                }
                Err(reason) => flushed.push(self.held.remove(place).deliver(reason)),
            }
        }
        if candidate.flags() & (PSH | FIN) != 0 {
            return passed(flushed, candidate.into_frame(), Reason::Pushed);
        }
        let held = match Held::new(candidate) {
            Ok(held) => held,
            Err(frame) => return passed(flushed, frame, Reason::NotTcp),
        };
        if self.held.len() == self.flows {
            flushed.push(self.held.remove(0).deliver(Reason::Evicted));
        }
        self.held.push(held);
        Offered { flushed, kept: true }
    }

    fn release(&mut self, reason: Reason, which: impl Fn(&Held<F>) -> bool) -> Vec<Delivery<F>> {
        // nothing is moved or allocated in the usual case
        if !self.held.iter().any(&which) {
            return Vec::new();
        }
        let (out, kept) = self.held.drain(..).partition(which);
        self.held = kept;
        let out: Vec<Held<F>> = out;
        out.into_iter().map(|held| held.deliver(reason)).collect()
    }
}

fn passed<F>(mut flushed: Vec<Delivery<F>>, frame: F, reason: Reason) -> Offered<F> {
    flushed.push(Delivery::Frame { frame, reason });
    Offered { flushed, kept: false }
}

/// Where the TCP header is, if the frame by itself could be part of a superframe.
fn examine(frame: &[u8], headers: &Headers) -> Result<usize, Reason> {
    let at = match headers.transport {
        Transport::Tcp { at } => at,
        Transport::Fragment => return Err(Reason::Fragment),
        _ => return Err(Reason::NotTcp),
    };
    if merge::has_ipv4_options(headers) {
        return Err(Reason::NotTcp);
    }
    let flags = tcp::flags(frame, at);
    if flags & (SYN | RST | URG | CWR) != 0 || flags & ACK == 0 {
        return Err(Reason::Flags);
    }
    if headers.payload_range().is_empty() {
        return Err(Reason::NoPayload);
    }
    // last, because it costs most
    if !headers.network_checksum_verifies(frame)
        || headers.transport_checksum(frame) != Verification::Right
    {
        return Err(Reason::Checksum);
    }
    Ok(at)
}
