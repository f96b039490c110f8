//! What every device does towards its host: packets into the receive rings, completions, interrupts,
//! and their counters.

use std::sync::Arc;

use crate::clock::{DeviceClock, PS_PER_NS};
use crate::interface::Interface;
use crate::interface::moderation::Moderation;
use crate::interface::rings::{RxDescriptor, TxDescriptor};
use crate::port_shared::PortShared;

/// The interface of a device's host.
#[derive(Debug)]
pub(super) struct HostRing {
    pub(super) shared: Arc<PortShared>,
    pub(super) interface: Interface,
    pub(super) clock: DeviceClock,
}

impl HostRing {
    /// Puts a packet, which came at `at_ps`, into the receive ring of a queue.
    pub(super) fn push(&mut self, queue: usize, descriptor: RxDescriptor, at_ps: u64) {
        let Self { shared, interface, clock } = self;
        let counters = &shared.counters;
        if shared.capture.is_on() {
            let mut pieces: Vec<&[u8]> = Vec::new();
            descriptor.for_each_piece(|piece| pieces.push(piece));
            shared.capture.host(clock.monotonic_ns(at_ps), false, &pieces, counters);
        }
        let frames = descriptor.frames();
        if interface.push(queue, descriptor) {
            // the queue of the adapter itself is none of the host's
            if let Some(count) = shared.queue_frames.get(queue) {
                count.add(frames);
            }
        } else {
            counters.rx_drop_ring.add(frames);
            shared.first_link().counters.in_discards.add(frames);
        }
    }

    /// Completes the packets of a queue that have left. Says whether there was anything to do.
    pub(super) fn complete(&mut self, queue: usize, moderation: Moderation, now_ps: u64) -> bool {
        let completed = self.interface.complete(queue, moderation, now_ps);
        self.shared.counters.tx_interrupts.add(u64::from(completed.interrupted));
        completed.any
    }

    /// A packet of a queue was posted, and its last bit leaves at `end_ps`.
    pub(super) fn sent(&mut self, queue: usize, descriptor: &TxDescriptor, end_ps: u64) {
        let took_ps = end_ps.saturating_sub(self.clock.at_ps(descriptor.posted_ns));
        self.shared.counters.tx_wire_ns.add(took_ps / PS_PER_NS);
        self.interface.sent(queue, descriptor.length, end_ps);
    }

    /// Raises the receive interrupt of a queue, which was due at `due_ps`.
    pub(super) fn interrupt(&mut self, queue: usize, due_ps: u64, now_ps: u64) {
        let Self { shared, interface, .. } = self;
        let counters = &shared.counters;
        let of_adapter = interface.adapter_queue() == Some(queue);
        if !of_adapter {
            let waiting = interface.waiting(queue, due_ps);
            let late_ns = now_ps.saturating_sub(due_ps) / PS_PER_NS;
            counters.rx_waited.add(waiting.frames);
            counters.rx_wait_ns.add(waiting.wait_ps / PS_PER_NS);
            counters.rx_late_ns.add(waiting.frames.saturating_mul(late_ns));
        }
        if interface.interrupt(queue) && !of_adapter {
            counters.rx_interrupts.add(1);
        }
    }
}
