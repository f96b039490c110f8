//! Descriptors that pass between a host and its device, and the state that a driver thread and the
//! device thread share about one queue pair.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use linkrate_wire::encapsulation::LinkHeader;
use linkrate_wire::frame::Headers;
use linkrate_wire::frame::tcp::Segment;
use linkrate_wire::lro::{Delivery, Parts};
use linkrate_wire::vnet::VnetHeader;

use super::doorbell::ThreadDoorbell;
use crate::counters::DriverCounters;
use crate::frame::{Block, Burst, VNET_BYTES};

/// Bytes of packets that a driver or a device lets wait before a port. The others wait in the TAP, or are
/// lost before a port of an aggregate, whose other ports must continue. Blocks are kept for all of them.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// Packets that may wait before one port. More than the connections of a run have in flight.
pub(crate) const MAX_QUEUE: usize = 2048;

/// A packet that the host transmits, behind its vnet header.
#[derive(Debug)]
pub struct TxDescriptor {
    pub block: Arc<Block>,
    /// Bytes of the packet with its vnet header.
    pub length: usize,
    /// Time of posting, CLOCK_MONOTONIC ns.
    pub posted_ns: u64,
}

impl TxDescriptor {
    /// The TCP segment that it carries.
    pub(crate) fn tcp_segment(&self) -> Option<Segment> {
        let packet = self.block.bytes(VNET_BYTES.min(self.length)..self.length);
        Headers::parse(packet).ok()?.tcp_segment(packet)
    }
}

/// A packet that the host receives.
#[derive(Debug)]
pub struct RxDescriptor {
    pub vnet: VnetHeader,
    pub delivery: Delivery<Burst>,
    /// A link header that replaces this number of the packet's first bytes: the device took the
    /// port's tag or SNAP off.
    pub replaced: Option<(LinkHeader, usize)>,
    /// Two bytes that replace those of the packet at this place. They say that the device has
    /// verified the checksum: a TAP is told so by a checksum that is still to be made.
    pub unmade: Option<(usize, [u8; 2])>,
}

impl RxDescriptor {
    /// The number of frames that it was made of.
    pub(crate) fn frames(&self) -> u64 {
        match &self.delivery {
            Delivery::Frame { .. } => 1,
            Delivery::Superframe { superframe, .. } => superframe.segments as u64,
        }
    }

    /// Calls `piece` for each piece of the packet behind its vnet header, in order.
    pub fn for_each_piece<'a>(&'a self, mut piece: impl FnMut(&'a [u8])) {
        let mut head = |head: &'a [u8]| {
            let mut from = 0;
            if let Some((link, covered)) = &self.replaced {
                piece(link);
                from = *covered;
            }
            if let Some((at, checksum)) = &self.unmade {
                piece(head.get(from..*at).unwrap_or_default());
                piece(checksum);
                from = at + checksum.len();
            }
            piece(head.get(from..).unwrap_or_default());
        };
        match &self.delivery {
            Delivery::Frame { frame, .. } => {
                head(frame.head());
                piece(frame.tail());
            }
            Delivery::Superframe { superframe, .. } => {
                head(&superframe.header);
                let mut run: Option<Payloads<'a>> = None;
                for part in &superframe.pieces {
                    let [head, tail] = part.slices();
                    if head.is_empty()
                        && tail.len() == part.frame.tail().len()
                        && let Some(next) = Payloads::of(&part.frame)
                    {
                        if !run.as_mut().is_some_and(|run| run.extend(&next))
                            && let Some(run) = run.replace(next)
                        {
                            piece(run.bytes());
                        }
                        continue;
                    }
                    if let Some(run) = run.take() {
                        piece(run.bytes());
                    }
                    piece(head);
                    piece(tail);
                }
                if let Some(run) = run {
                    piece(run.bytes());
                }
            }
        }
    }
}

/// Payloads that lie one after the other in one block, as those of one superframe do.
struct Payloads<'a> {
    block: &'a Block,
    range: std::ops::Range<usize>,
}

impl<'a> Payloads<'a> {
    fn of(burst: &'a Burst) -> Option<Self> {
        burst.place().map(|(block, range)| Self { block, range })
    }

    fn extend(&mut self, next: &Self) -> bool {
        let follows = std::ptr::eq(self.block, next.block) && self.range.end == next.range.start;
        if follows {
            self.range.end = next.range.end;
        }
        follows
    }

    fn bytes(&self) -> &'a [u8] {
        self.block.bytes(self.range.clone())
    }
}

/// The state that a driver thread and the device thread share about one queue pair, beside the rings.
#[derive(Debug)]
pub struct QueueShared {
    /// Transmit descriptors whose last bit has left the port, since the beginning.
    pub completed: AtomicU64,
    /// Bytes of their packets.
    pub completed_bytes: AtomicU64,
    /// How much later than the adapter would have the device thread interrupted the driver for these
    /// completions, ns.
    pub late_ns: AtomicU64,
    /// Received frames that the driver has handed to the host, since the beginning. A superframe
    /// counts as the frames that it was merged of.
    pub consumed: AtomicU64,
    /// The latest of the device's questions for packets that the driver has answered
    /// (`ask_to_revoke`).
    pub revoked_to: AtomicU64,
    /// The driver waits for completions: its transmit ring is full.
    pub starved: AtomicBool,
    /// The interrupt: it wakes the driver's thread.
    pub interrupt: Arc<ThreadDoorbell>,
    pub counters: Arc<DriverCounters>,
}

impl QueueShared {
    /// A queue pair without traffic yet.
    pub(crate) fn new(interrupt: Arc<ThreadDoorbell>) -> Self {
        Self {
            completed: AtomicU64::new(0),
            completed_bytes: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            revoked_to: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            interrupt,
            counters: Arc::default(),
        }
    }
}
