//! What every device does towards its host: packets into the receive rings, completions, interrupts,
//! and their counters.

use crate::clock::DeviceClock;
use crate::interface::Interface;
use crate::interface::moderation::Moderation;
use crate::interface::rings::RxDescriptor;
use crate::port::PortShared;

/// Puts a packet, which came at `at_ps`, into the receive ring of a queue.
pub(super) fn push(
    shared: &PortShared,
    interface: &mut Interface,
    clock: &DeviceClock,
    queue: usize,
    descriptor: RxDescriptor,
    at_ps: u64,
) {
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
pub(super) fn complete(
    shared: &PortShared,
    interface: &mut Interface,
    queue: usize,
    moderation: Moderation,
    now_ps: u64,
) -> bool {
    let completed = interface.complete(queue, moderation, now_ps);
    if completed.interrupted {
        shared.counters.tx_interrupts.add(1);
    }
    completed.any
}

/// Raises the receive interrupt of a queue.
pub(super) fn interrupt(shared: &PortShared, interface: &mut Interface, queue: usize) {
    let of_adapter = interface.adapter_queue() == Some(queue);
    if interface.interrupt(queue) && !of_adapter {
        shared.counters.rx_interrupts.add(1);
    }
}
