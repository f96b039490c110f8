//! The receive queue of a packet: by its hash ([`Indirection`]) or by its destination port
//! ([`PortTable`]).
//!
//! A queue keeps its packets in order, but two queues are emptied independently. When the queue of
//! a flow changes, packets in the new queue could overtake those that wait in the old one. Here no
//! packet of a flow goes to another queue while one of its packets waits in the old one: a change
//! is noted at once and takes effect at the first packet that finds the old queue past the flow's
//! last packet. Linux's receive flow steering has the same rule (`rps_dev_flow`,
//! Documentation/networking/scaling.rst) and the same price: a flow that always has a packet in its
//! queue stays there.
//!
//! The queues belong to the caller, which tells with each call how far each queue is
//! ([`Progress`]).

mod indirection;
mod ports;

pub use indirection::{BUCKETS, Indirection};
pub use ports::{Counts, PortTable, SteeringError};

/// How far a queue is.
///
/// A packet belongs to its queue from the moment it was steered. A caller that holds packets to
/// merge them counts them as placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Packets that were ever put into it. A dropped packet does not count.
    pub placed: u64,
    /// Packets that were ever taken out of it and handed up.
    pub consumed: u64,
}

impl Progress {
    /// Whether the packet with this number, counted from 1, has left the queue or was never in it.
    pub(crate) fn is_past(&self, number: u64) -> bool {
        // a number that was expected and never placed belongs to a dropped packet
        number.min(self.placed) <= self.consumed
    }

    /// The number of the packet that is steered now, if it is placed.
    pub(crate) fn next(&self) -> u64 {
        self.placed.saturating_add(1)
    }
}

/// The progress of a queue; an unknown queue is empty.
pub(crate) fn progress(queues: &[Progress], queue: u16) -> Progress {
    queues.get(usize::from(queue)).copied().unwrap_or_default()
}
