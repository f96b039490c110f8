//! The choice of a queue for a received frame.
//!
//! The hash picks an entry of the indirection table. With destination-port steering, the table of
//! ports comes first. The drivers fill it, so that a flow comes in on the queue of its process, on
//! which it also goes out. A flow changes its queue only when none of its frames waits in the old
//! queue, whatever has changed.

use linkrate_model::Steering;
use linkrate_wire::frame::Headers;
use linkrate_wire::lro::Parts;
use linkrate_wire::steering::{BUCKETS, Indirection, PortTable, Progress};
use linkrate_wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

use super::Nic;
use crate::frame::WireFrame;
use crate::interface::Interface;

/// Most queues a port has.
pub(super) const MAX_QUEUES: usize = 64;
/// Entries of the destination-port table.
const ENTRIES: usize = 256;
/// An entry that is not used for this time is removed.
const IDLE_NS: u64 = 10_000_000_000;

/// Both ways to steer.
#[derive(Debug)]
pub(super) struct Steer {
    hash: Toeplitz,
    indirection: Indirection,
    ports: PortTable,
    /// The steering and the number of queues that the tables were made for.
    made_for: (Steering, usize),
}

impl Steer {
    pub(super) fn new(queues: usize) -> Self {
        Self {
            hash: Toeplitz::new(&MICROSOFT_KEY),
            indirection: Indirection::new(queues as u16),
            ports: PortTable::new(ENTRIES, IDLE_NS),
            made_for: (Steering::Rss, queues),
        }
    }

    /// Points both tables at the queues in use. Ports stay in their table until they are idle, even
    /// without destination-port steering.
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
fn progress(interface: &Interface) -> [Progress; MAX_QUEUES] {
    let mut far = [Progress::default(); MAX_QUEUES];
    for (far, queue) in far.iter_mut().zip(interface.progress()) {
        *far = queue;
    }
    far
}

impl Nic {
    /// Takes up the queues of flows that drivers have reported.
    pub(super) fn learn(&mut self) {
        if self.host_queues() == 1 {
            return;
        }
        let updates: Vec<_> = self.host.interface.steering_updates().collect();
        if updates.is_empty() {
            return;
        }
        let now_ns = self.host.clock.now_ps() / 1000;
        let far = progress(&self.host.interface);
        let far = &far[..self.host_queues()];
        let in_use = self.host.interface.shared.queues_in_use();
        for update in updates.into_iter().filter(|update| usize::from(update.queue) < in_use) {
            // a full table learns it from a later packet
            let _ = self.steer.ports.set(update.port, update.queue, now_ns, far);
        }
    }

    pub(super) fn steer(&mut self, frame: &WireFrame, headers: &Headers, at_ps: u64) -> usize {
        let queues = self.host_queues();
        if queues == 1 {
            return 0;
        }
        let (in_use, now_ns) = (self.host.interface.shared.queues_in_use(), at_ps / 1000);
        let far = progress(&self.host.interface);
        let far = &far[..queues];
        let Self { steer, knobs, shared, .. } = self;
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
        usize::from(queue).min(queues - 1)
    }
}
