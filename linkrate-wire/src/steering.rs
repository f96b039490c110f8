//! Which receive queue a packet goes to: by its hash ([`Indirection`]), or by its destination port
//! ([`PortTable`]).
//!
//! A queue keeps its packets in order, but two queues are emptied at their own pace. So when the
//! queue of a flow changes, packets in the new one could overtake those that wait in the old one.
//! Here no packet of a flow goes to another queue while one of its packets waits in the old one:
//! a change is noted at once and takes effect at the first packet that finds the old queue past
//! the flow's last packet. It is the rule of Linux's receive flow steering (`rps_dev_flow`,
//! Documentation/networking/scaling.rst), and shares its price: a flow that never lets its queue
//! run empty of it stays where it is.
//!
//! The queues are the caller's, who says with each question how far each one is ([`Progress`]).

mod indirection;
mod ports;

pub use indirection::{BUCKETS, Indirection};
pub use ports::{Counts, PortTable, SteeringError};

/// How far a queue is.
///
/// A packet belongs to its queue from the moment it was steered. A caller that holds packets back
/// in between, to merge them, counts them as placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Packets that were ever put into it. One that was dropped instead does not count.
    pub placed: u64,
    /// Packets that were ever taken out of it and handed up.
    pub consumed: u64,
}

impl Progress {
    /// Whether the packet with this number, counted from 1, has left the queue or was never in it.
    pub(crate) fn is_past(&self, number: u64) -> bool {
        // a number that was expected but never placed was that of a dropped packet
        number.min(self.placed) <= self.consumed
    }

    /// The number of the packet that is steered now, if it is placed.
    pub(crate) fn next(&self) -> u64 {
        self.placed.saturating_add(1)
    }
}

/// Of a queue that the caller has not; nothing is in it.
pub(crate) fn progress(queues: &[Progress], queue: u16) -> Progress {
    queues.get(usize::from(queue)).copied().unwrap_or_default()
}
