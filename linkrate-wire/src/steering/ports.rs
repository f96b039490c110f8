//! Destination-port steering: a table in the adapter from destination port to queue, which the
//! driver updates as conditions change (paper ten-gigabit).
//!
//! The table is bounded. An entry that was idle too long is removed, and a full table removes the
//! one that was idle longest. An entry with a packet still in its queue stays, since later packets
//! could go to another queue.

use super::{Progress, progress};

const NONE: u16 = u16::MAX;

/// The table.
#[derive(Debug, Clone)]
pub struct PortTable {
    capacity: usize,
    idle_ns: u64,
    entries: Vec<Entry>,
    /// The place of each port's entry.
    places: Vec<u16>,
    counts: Counts,
}

/// Counters of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets whose port was in the table, whether or not they went to the wanted queue already.
    pub hits: u64,
    /// Packets whose port was not in the table.
    pub misses: u64,
    /// Ports whose packets began to go to the queue that was set.
    pub moves: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
    /// Entries that were removed after being idle too long.
    pub aged: u64,
    /// Ports that were refused because every entry had packets waiting.
    pub refused: u64,
}

/// Why a port was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// The queue does not exist.
    #[error("port {port}: queue is {queue}, expected less than {queues}")]
    Queue {
        /// The port.
        port: u16,
        /// The queue.
        queue: u16,
        /// How many queues there are.
        queues: usize,
    },
    /// The table is full and no entry can be removed.
    #[error("port {port}: all {capacity} entries have packets waiting, expected one without any")]
    Full {
        /// The port.
        port: u16,
        /// Entries of the table.
        capacity: usize,
    },
}

#[derive(Debug, Clone)]
struct Entry {
    port: u16,
    wanted: u16,
    used_ns: u64,
    route: Route,
}

/// The queue that the packets of a port go to at present.
#[derive(Debug, Clone)]
enum Route {
    /// The queue without the entry: earlier packets may wait in any queue. For each queue, the
    /// number of the last packet that may be of this port.
    Unsettled(Box<[u64]>),
    /// To one queue, where the last one has this number.
    Settled { queue: u16, last: u64 },
}

impl Entry {
    /// Whether no packet of the port waits in a queue other than `except`.
    fn is_past(&self, queues: &[Progress], except: Option<u16>) -> bool {
        match &self.route {
            Route::Unsettled(last) => (0..).zip(last).all(|(queue, last)| {
                Some(queue) == except || progress(queues, queue).is_past(*last)
            }),
            Route::Settled { queue, last } => {
                Some(*queue) == except || progress(queues, *queue).is_past(*last)
            }
        }
    }
}

impl PortTable {
    /// A table of at most `capacity` ports, at least one, whose entries are removed when they were
    /// not used for more than `idle_ns`.
    #[must_use]
    pub fn new(capacity: usize, idle_ns: u64) -> Self {
        let capacity = capacity.clamp(1, usize::from(NONE));
        let places = vec![NONE; 1 << 16];
        Self { capacity, idle_ns, entries: Vec::new(), places, counts: Counts::default() }
    }

    /// Whether it has no port.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its counters so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The ports, each with the queue that was set for it, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (u16, u16)> {
        self.entries.iter().map(|entry| (entry.port, entry.wanted))
    }

    /// Steers packets for `port` to `queue`, from the first packet on that cannot overtake another. `queues` tells
    /// how far each queue is. If the queue does not exist or the table has no room, the table is unchanged.
    pub fn set(
        &mut self,
        port: u16,
        queue: u16,
        now_ns: u64,
        queues: &[Progress],
    ) -> Result<(), SteeringError> {
        if usize::from(queue) >= queues.len() {
            return Err(SteeringError::Queue { port, queue, queues: queues.len() });
        }
        if let Some(entry) = self.entries.get_mut(usize::from(self.places[usize::from(port)])) {
            entry.wanted = queue;
            entry.used_ns = now_ns;
            return Ok(());
        }
        if self.entries.len() >= self.capacity {
            self.age(now_ns, queues);
        }
        if self.entries.len() >= self.capacity && !self.evict(queues) {
            self.counts.refused += 1;
            return Err(SteeringError::Full { port, capacity: self.capacity });
        }
        // any packet that was steered so far may be of this port
        let last = queues.iter().map(|queue| queue.placed).collect();
        let route = Route::Unsettled(last);
        self.places[usize::from(port)] = place(self.entries.len());
        self.entries.push(Entry { port, wanted: queue, used_ns: now_ns, route });
        Ok(())
    }

    /// The queue for a packet to `port`. `fallback` chooses the queue when the table does not, and
    /// must itself keep a flow in order. `queues` tells how far each queue is.
    pub fn lookup(
        &mut self,
        port: u16,
        now_ns: u64,
        queues: &[Progress],
        fallback: impl FnOnce() -> u16,
    ) -> u16 {
        let at = usize::from(self.places[usize::from(port)]);
        let Some(entry) = self.entries.get_mut(at) else {
            self.counts.misses += 1;
            return fallback();
        };
        if now_ns.saturating_sub(entry.used_ns) > self.idle_ns && entry.is_past(queues, None) {
            self.remove(at);
            self.counts.aged += 1;
            self.counts.misses += 1;
            return fallback();
        }
        self.counts.hits += 1;
        entry.used_ns = now_ns;
        let settled = matches!(entry.route, Route::Settled { queue, .. } if queue == entry.wanted);
        if !settled && entry.is_past(queues, Some(entry.wanted)) {
            entry.route = Route::Settled { queue: entry.wanted, last: 0 };
            self.counts.moves += 1;
        }
        match &mut entry.route {
            Route::Settled { queue, last } => {
                *last = progress(queues, *queue).next();
                *queue
            }
            Route::Unsettled(last) => {
                let queue = fallback();
                if let Some(last) = last.get_mut(usize::from(queue)) {
                    *last = progress(queues, queue).next();
                }
                queue
            }
        }
    }

    /// Removes the entries that were idle too long and have no packet waiting, and returns their
    /// number.
    pub fn age(&mut self, now_ns: u64, queues: &[Progress]) -> usize {
        let before = self.entries.len();
        for at in (0..before).rev() {
            let entry = &self.entries[at];
            let idle = now_ns.saturating_sub(entry.used_ns) > self.idle_ns;
            if idle && entry.is_past(queues, None) {
                self.remove(at);
                self.counts.aged += 1;
            }
        }
        before - self.entries.len()
    }

    /// Removes the entry that was idle longest of those without a packet waiting.
    fn evict(&mut self, queues: &[Progress]) -> bool {
        let candidates =
            self.entries.iter().enumerate().filter(|(_, entry)| entry.is_past(queues, None));
        let Some((at, _)) = candidates.min_by_key(|(_, entry)| entry.used_ns) else {
            return false;
        };
        self.remove(at);
        self.counts.evicted += 1;
        true
    }

    fn remove(&mut self, at: usize) {
        let removed = self.entries.swap_remove(at);
        self.places[usize::from(removed.port)] = NONE;
        if let Some(moved) = self.entries.get(at) {
            self.places[usize::from(moved.port)] = place(at);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the capacity is below 2^16")]
const fn place(at: usize) -> u16 {
    at as u16
}
