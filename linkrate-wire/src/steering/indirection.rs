//! Receive-side scaling: the hash of a packet picks an entry of the indirection table, and that
//! names the queue.

use super::{Progress, progress};

/// Entries of the table, as most adapters have them. The lower seven bits of the hash choose one.
pub const BUCKETS: usize = 128;

/// The indirection table.
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

    /// Names another queue for entry `bucket`, counted around the table. Packets follow once the
    /// old queue has none of the entry.
    pub fn set(&mut self, bucket: usize, queue: u16) {
        self.buckets[bucket % BUCKETS].wanted = queue;
    }

    /// The queue for a packet with this hash. `queues` says how far each queue is.
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
