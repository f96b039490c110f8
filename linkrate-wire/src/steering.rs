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

mod ports;

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
fn progress(queues: &[Progress], queue: u16) -> Progress {
    queues.get(usize::from(queue)).copied().unwrap_or_default()
}

/// Entries of the table, as most adapters have them. The lower seven bits of the hash choose one.
pub const BUCKETS: usize = 128;

/// The indirection table of receive-side scaling: the hash of a packet chooses an entry, which names the queue.
#[derive(Debug, Clone)]
pub struct Indirection {
    buckets: [Bucket; BUCKETS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    queue: u16,
    wanted: u16,
    /// The number of its last packet in `queue`.
    last: u64,
}

impl Indirection {
    /// Spreads the entries evenly over `queues` queues, at least one.
    #[must_use]
    pub fn new(queues: u16) -> Self {
        let mut buckets = [Bucket::default(); BUCKETS];
        for (bucket, queue) in buckets.iter_mut().zip((0..queues.max(1)).cycle()) {
            *bucket = Bucket { queue, wanted: queue, last: 0 };
        }
        Self { buckets }
    }

    /// Names another queue for entry `bucket`, counted around the table. Packets go there once the
    /// old queue has no packet of the entry.
    pub fn set(&mut self, bucket: usize, queue: u16) {
        self.buckets[bucket % BUCKETS].wanted = queue;
    }

    /// The queue for a packet with this hash. `queues` tells how far each queue is.
    pub fn lookup(&mut self, hash: u32, queues: &[Progress]) -> u16 {
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        if bucket.wanted != bucket.queue && progress(queues, bucket.queue).is_past(bucket.last) {
            bucket.queue = bucket.wanted;
        }
        bucket.last = progress(queues, bucket.queue).next();
        bucket.queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_seven_bits_choose() {
        let mut table = Indirection::new(3);
        let queues = [Progress::default(); 3];
        let mut lookup = |hash| table.lookup(hash, &queues);
        assert_eq!([0, 1, 2, 3, 127, 128, 0xffff_ff81].map(&mut lookup), [0, 1, 2, 0, 1, 0, 1]);
        let all: Vec<u16> = (0..BUCKETS as u32).map(lookup).collect();
        assert_eq!(all.iter().filter(|queue| **queue == 2).count(), 42);
        assert_eq!(Indirection::new(0).lookup(77, &[]), 0);
    }

    #[test]
    fn a_new_queue_waits_for_the_old_one() {
        let mut table = Indirection::new(1);
        let mut queues = [Progress::default(); 2];
        assert_eq!(table.lookup(5, &queues), 0);
        queues[0].placed = 1;
        table.set(5 + BUCKETS, 1);
        assert_eq!(table.lookup(5, &queues), 0);
        // that one was dropped, and the first has left
        queues[0].consumed = 1;
        assert_eq!(table.lookup(5, &queues), 1);
        assert_eq!(table.lookup(6, &queues), 0);
    }
}
