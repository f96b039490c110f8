//! Which queue a received frame goes to.
//!
//! The hash picks an entry of the indirection table. With destination-port steering the table of
//! ports comes first, which the drivers fill: a flow comes in on the queue it goes out on, where
//! its process runs. Whatever changes, a flow changes its queue only when none of its frames waits
//! in the old one.

use std::sync::atomic::Ordering;

use linkrate_terms::Steering;
use linkrate_wire::frame::Headers;
use linkrate_wire::lro::Parts;
use linkrate_wire::steering::{BUCKETS, Indirection, PortTable, Progress};
use linkrate_wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

use super::{DevicePort, DeviceQueue};
use crate::driver::SteeringUpdate;
use crate::frame::WireFrame;

/// Most queues a port has.
pub(crate) const MOST_QUEUES: usize = 64;
/// Entries of the destination-port table.
const ENTRIES: usize = 256;
/// An entry unused for so long goes.
const IDLE_NS: u64 = 10_000_000_000;

/// Both ways to steer.
#[derive(Debug)]
pub(crate) struct Steer {
    hash: Toeplitz,
    indirection: Indirection,
    ports: PortTable,
    /// What the tables are made for: how to steer, and over how many queues.
    made_for: (Steering, usize),
}

impl Steer {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            hash: Toeplitz::new(&MICROSOFT_KEY),
            indirection: Indirection::new(queues as u16),
            ports: PortTable::new(ENTRIES, IDLE_NS),
            made_for: (Steering::Rss, queues),
        }
    }

    /// Points both tables at the queues in use. Ports that are in the table stay there until they
    /// are idle, whatever comes after destination-port steering.
    fn make_for(&mut self, steering: Steering, queues: usize, now_ns: u64, far: &[Progress]) {
        if self.made_for == (steering, queues) {
            return;
        }
        self.made_for = (steering, queues);
        let queue = |number: usize| if steering == Steering::Off { 0 } else { number % queues };
        for bucket in 0..BUCKETS {
            self.indirection.set(bucket, queue(bucket) as u16);
        }
        let ports: Vec<_> = self.ports.entries().collect();
        for (port, now) in ports {
            // it is in the table and the queue is one of them: nothing to refuse
            let _ = self.ports.set(port, queue(now.into()) as u16, now_ns, far);
        }
    }
}

/// How far each queue is, in frames.
fn progress(queues: &[DeviceQueue]) -> [Progress; MOST_QUEUES] {
    let mut far = [Progress::default(); MOST_QUEUES];
    for (far, queue) in far.iter_mut().zip(queues) {
        let consumed = queue.shared.consumed.load(Ordering::Acquire) + queue.dropped;
        *far = Progress { placed: queue.placed, consumed };
    }
    far
}

impl DevicePort {
    /// Takes up what a driver saw.
    pub(crate) fn learn(&mut self, update: SteeringUpdate) {
        let now_ns = self.clock.now_ps() / 1000;
        let far = progress(&self.queues);
        if usize::from(update.queue) < self.shared.queues_in_use() {
            // a full table learns it from a later packet
            let far = &far[..self.queues.len()];
            let _ = self.steer.ports.set(update.port, update.queue, now_ns, far);
        }
    }

    /// The queue for a frame.
    pub(crate) fn steer(&mut self, frame: &WireFrame, headers: &Headers, at_ps: u64) -> usize {
        if self.queues.len() == 1 {
            return 0;
        }
        let (in_use, now_ns) = (self.shared.queues_in_use(), at_ps / 1000);
        let Self { steer, queues, knobs, shared, .. } = self;
        let far = progress(queues);
        let far = &far[..queues.len()];
        steer.make_for(knobs.steering, in_use, now_ns, far);
        let Steer { hash, indirection, ports, .. } = steer;
        let head = frame.head();
        let mut by_hash = || {
            let hash = hash.hash_frame(head, headers).unwrap_or(0);
            indirection.lookup(hash, far)
        };
        let queue = match headers.ports(head) {
            Some((_, port)) if !ports.is_empty() => {
                let queue = ports.lookup(port, now_ns, far, by_hash);
                let counts = ports.counts();
                shared.counters.steering_hits.set(counts.hits);
                shared.counters.steering_misses.set(counts.misses);
                shared.counters.steering_moves.set(counts.moves);
                queue
            }
            _ => by_hash(),
        };
        usize::from(queue).min(self.queues.len() - 1)
    }
}
