//! Packets of a connection that moves, and that have not left.
//!
//! They are revoked: the TCP that has the connection next sends their payload. Otherwise this TCP would take for
//! sent what waits in a queue of the other one, and its own packets would overtake them.
//!
//! Each driver revokes what waits before its ring. What is in the ring is the device's, and so is the queue of the
//! adapter's own TCP.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use linkrate_wire::frame::tcp::Segment;

use super::rings::TxDescriptor;
use super::{Ends, Interface};

/// A connection by its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionEnds {
    /// Address and port of the host.
    pub own: SocketAddr,
    /// Address and port of the peer.
    pub far: SocketAddr,
}

/// Payload of a packet, by sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// That of the first byte.
    pub from: u32,
    /// The one behind the last byte.
    pub to: u32,
}

/// How far sequence number `one` is behind `other` (RFC 9293, 3.4).
const fn behind(one: u32, other: u32) -> i32 {
    one.wrapping_sub(other) as i32
}

/// The last piece of the payload of all spans, by sequence numbers. Before it there is a gap: packets before a gap were
/// sent again, and the peer's acknowledgements tell whether it has them. So may those of the piece be, which the
/// TCP that sent them can tell.
#[must_use]
pub fn last_piece(mut spans: Vec<Span>) -> Option<Range<u32>> {
    let end =
        spans.iter().map(|span| span.to).reduce(|a, b| if behind(a, b) > 0 { a } else { b })?;
    // from the end, as sequence numbers go round
    spans.sort_by_key(|span| end.wrapping_sub(span.to));
    let mut first = end;
    for span in spans {
        if behind(span.to, first) < 0 {
            break;
        }
        if behind(first, span.from) > 0 {
            first = span.from;
        }
    }
    Some(first..end)
}

/// What is revoked of a connection: all of its packets, except the latest acknowledgement. The TCP that has it next
/// sends none before it has received something, and the peer may wait for it.
#[derive(Debug)]
pub(crate) struct Revoked {
    ends: ConnectionEnds,
    /// The payload of each packet.
    pub(crate) spans: Vec<Span>,
    pub(crate) packets: u64,
    /// The acknowledgement number of the packet that is to leave.
    latest: Option<u32>,
}

impl Revoked {
    pub(crate) fn new(ends: ConnectionEnds) -> Self {
        Self { ends, spans: Vec::new(), packets: 0, latest: None }
    }

    /// The segment that a packet carries, if it is one of the connection's stream.
    fn segment(&self, descriptor: &TxDescriptor) -> Option<Segment> {
        let ConnectionEnds { own, far } = self.ends;
        let segment = descriptor.tcp_segment()?;
        (segment.is_of_stream() && (segment.source, segment.destination) == (own, far))
            .then_some(segment)
    }

    /// Whether a packet is one of the connection's stream.
    pub(crate) fn concerns(&self, descriptor: &TxDescriptor) -> bool {
        self.segment(descriptor).is_some()
    }

    /// Revokes the packets of the connection among these, in their order. Returns the place of the one that is to
    /// leave.
    pub(crate) fn take<'a>(
        &mut self,
        packets: impl IntoIterator<Item = &'a TxDescriptor>,
    ) -> Option<usize> {
        let mut leaves = None;
        for (place, descriptor) in packets.into_iter().enumerate() {
            let Some(segment) = self.segment(descriptor) else { continue };
            self.packets += 1;
            if !segment.is_empty() {
                self.spans.push(Span { from: segment.sequence, to: segment.end() });
                // it would show a sequence number that the peer does not know yet
                leaves = None;
            } else if self.spans.iter().all(|span| behind(segment.sequence, span.from) <= 0)
                && self.latest.is_none_or(|latest| behind(segment.acknowledgement, latest) > 0)
            {
                leaves = Some(place);
                self.latest = Some(segment.acknowledgement);
            }
        }
        self.packets -= u64::from(leaves.is_some());
        leaves
    }

    fn extend(&mut self, other: Self) {
        self.spans.extend(other.spans);
        self.packets += other.packets;
        self.latest = match (self.latest, other.latest) {
            (Some(one), Some(other)) if behind(one, other) > 0 => Some(one),
            (one, other) => other.or(one),
        };
    }
}

/// Packets of a host's connection that the device drops when their turn comes.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// By queue: the number of the first packet that came later, and that of the one before it that is to leave.
    rings: Vec<(u64, Option<u64>)>,
    /// The first byte that has not left.
    first_unsent: Option<u32>,
}

impl Dropped {
    /// Whether a packet of the connection's stream was taken back: that with this number of its queue.
    pub(crate) fn has(&self, queue: usize, number: u64) -> bool {
        let (end, leaves) = self.rings.get(queue).copied().unwrap_or_default();
        number < end && leaves != Some(number)
    }

    /// Whether the peer does not know a sequence number yet, because what lies before it was taken back.
    pub(crate) fn hides(&self, sequence: u32) -> bool {
        self.first_unsent.is_some_and(|first| behind(sequence, first) > 0)
    }
}

/// What the device asks of the drivers of an interface, one connection at a time.
#[derive(Debug, Default)]
pub(crate) struct Revocations {
    /// The number of the latest one; drivers say which they have answered
    /// ([`QueueShared::revoked_to`](super::rings::QueueShared::revoked_to)).
    latest: AtomicU64,
    current: Mutex<Option<Revoked>>,
}

impl Revocations {
    fn lock(&self) -> MutexGuard<'_, Option<Revoked>> {
        // a holder that panicked left whole values
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the latest one. For a driver.
    pub(crate) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    /// The connection whose packets are to be revoked, unless nobody waits any more. For a driver.
    pub(crate) fn connection(&self) -> Option<ConnectionEnds> {
        self.lock().as_ref().map(|current| current.ends)
    }

    /// Adds what a driver has revoked.
    pub(crate) fn add(&self, revoked: Revoked) {
        if let Some(current) = self.lock().as_mut().filter(|current| current.ends == revoked.ends) {
            current.extend(revoked);
        }
    }

    pub(super) fn begin(&self, ends: ConnectionEnds) -> u64 {
        *self.lock() = Some(Revoked::new(ends));
        self.latest.fetch_add(1, Ordering::AcqRel) + 1
    }
}

impl Interface {
    /// Asks the drivers to revoke the packets of a connection. Returns the number of the question.
    pub(crate) fn ask_to_revoke(&self, ends: ConnectionEnds) -> u64 {
        let number = self.shared.revocations.begin(ends);
        for queue in &self.queues {
            if let Ends::Driver { shared, .. } = &queue.ends {
                shared.interrupt.wake();
            }
        }
        number
    }

    /// Whether all drivers have answered this question.
    pub(crate) fn has_revoked(&self, number: u64) -> bool {
        self.queues.iter().all(|queue| match &queue.ends {
            Ends::Driver { shared, .. } => shared.revoked_to.load(Ordering::Acquire) >= number,
            Ends::Polled(_) => true,
        })
    }

    /// What was revoked of the connection that drivers were asked for last: by them, and in the rings. `None` if
    /// they were not asked. Packets in the rings are to be dropped when their turn comes.
    pub(crate) fn revoked(&mut self) -> Option<(Revoked, Dropped)> {
        let mut revoked = self.shared.revocations.lock().take()?;
        let mut rings = Vec::with_capacity(self.queues.len());
        for queue in &mut self.queues {
            let Ends::Driver { tx, .. } = &mut queue.ends else {
                rings.push((0, None));
                continue;
            };
            // as many as there are
            let Ok(posted) = tx.read_chunk(tx.slots()) else { return None };
            let (head, tail) = posted.as_slices();
            let leaves = revoked.take(head.iter().chain(tail)).map(|place| place as u64);
            let end = queue.popped + (head.len() + tail.len()) as u64;
            rings.push((end, leaves.map(|place| queue.popped + place)));
        }
        let first_unsent = last_piece(revoked.spans.clone()).map(|piece| piece.start);
        Some((revoked, Dropped { rings, first_unsent }))
    }

    /// The number of the packet that was taken from a queue last.
    pub(crate) fn last_popped(&self, queue: usize) -> u64 {
        self.queues.get(queue).map_or(0, |queue| queue.popped.saturating_sub(1))
    }

    /// Revokes the packets of a connection in the queue of the adapter's own TCP.
    pub(crate) fn revoke_own(&mut self, ends: ConnectionEnds) -> Revoked {
        let mut revoked = Revoked::new(ends);
        self.polled().for_each(|polled| polled.revoke(&mut revoked));
        revoked
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(from: u32, to: u32) -> Span {
        Span { from, to }
    }

    const ENDS: ConnectionEnds = {
        let address = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
        let far = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
        ConnectionEnds {
            own: std::net::SocketAddr::new(address, 5001),
            far: std::net::SocketAddr::new(far, 40000),
        }
    };

    #[test]
    fn what_has_not_left_begins_behind_the_last_gap() {
        assert_eq!(last_piece(Vec::new()), None);
        assert_eq!(last_piece(vec![span(5, 9)]), Some(5..9));
        // a segment that was sent again lies before
        assert_eq!(last_piece(vec![span(1, 3), span(7, 9), span(5, 7)]), Some(5..9));
        assert_eq!(last_piece(vec![span(5, 7), span(5, 9), span(9, 12)]), Some(5..12));
    }

    #[test]
    fn an_answer_to_a_question_that_is_over_is_for_nobody() {
        let revocations = Revocations::default();
        assert_eq!(
            (revocations.begin(ENDS), revocations.latest(), revocations.connection()),
            (1, 1, Some(ENDS))
        );
        assert!(revocations.lock().take().is_some());
        revocations.add(Revoked::new(ENDS));
        assert_eq!(revocations.connection(), None);
    }

    proptest! {
        /// Wherever sequence numbers go round, and in whatever order the packets are found.
        #[test]
        fn a_stream_in_pieces_has_left_up_to_its_first_piece(
            begin: u32,
            lengths in prop::collection::vec(1_u32..70_000, 1..50),
            seed: u64,
        ) {
            let mut at = begin;
            let mut spans = Vec::new();
            for length in lengths {
                let to = at.wrapping_add(length);
                spans.push(span(at, to));
                at = to;
            }
            let count = spans.len();
            (0..count).for_each(|one| spans.swap(one, (seed as usize).wrapping_mul(one + 1) % count));
            prop_assert_eq!(last_piece(spans), Some(begin..at));
        }
    }
}
