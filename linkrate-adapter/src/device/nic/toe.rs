//! The TCP offload engine of a port: frames of connections that are at the adapter go to its own TCP,
//! and come from there.
//!
//! The adapter's TCP has a TAP in a namespace of the adapter's. It is one more queue of the interface,
//! which the device thread serves itself. Its frames are cut, put on the bus and on the link as those of
//! the host are. Frames for it are merged, whatever the host has chosen for itself.

use std::collections::HashMap;

use linkrate_wire::frame::Headers;
use linkrate_wire::frame::tcp::{RST, SYN, URG};
use linkrate_wire::lro::Parts;

use super::Nic;
use crate::clock::PS_PER_US;
use crate::connections::{Asks, ConnectionEnds, Order};
use crate::device::host_side;
use crate::frame::{VNET_BYTES, WireFrame};
use crate::interface::rings::TxDescriptor;

/// Frames that a connection that moves may have kept: a window of 4 MiB in frames of 1500 bytes. The
/// far end sends further ones again.
const MOST_HELD: usize = 4096;

/// How long packets of a connection that has returned may wait in the adapter's queue: the buffers of its TCP at a
/// hundredth of the rate.
const LEAVING_PS: u64 = 5_000_000 * PS_PER_US;

/// Time between two looks whether the host has taken what it was given.
const LOOK_PS: u64 = 20 * PS_PER_US;

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    /// At the adapter. The host had sent all before this sequence number.
    Adapter(u32),
}

#[derive(Debug)]
struct Entry {
    place: Place,
    /// Frames of the far end that wait, while the connection moves.
    held: Option<Vec<(WireFrame, u64)>>,
    /// The controller was asked to bring it back.
    asked: bool,
    /// The host may have it already.
    returns: bool,
}

/// The engine's table.
#[derive(Debug)]
pub(super) struct Toe {
    /// The adapter's queue.
    queue: usize,
    table: HashMap<ConnectionEnds, Entry>,
    /// Connections that have returned, and until when what the adapter has sent for them may leave.
    leaving: HashMap<ConnectionEnds, u64>,
    /// The number of the latest order that was taken up.
    taken: u64,
    /// Orders that are carried out once the host and the adapter have taken so many frames of each
    /// queue.
    settling: Vec<(u64, Vec<u64>)>,
}

/// Where a received frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Host,
    Adapter,
    /// To neither: it was kept, or there was no room for it.
    Later,
}

impl Toe {
    pub(super) fn new(queue: usize) -> Self {
        let (table, leaving) = (HashMap::new(), HashMap::new());
        Self { queue, table, leaving, taken: 0, settling: Vec::new() }
    }
}

impl Nic {
    /// Queues of the host.
    pub(super) fn host_queues(&self) -> usize {
        self.toe.as_ref().map_or(self.interface.queues(), |toe| toe.queue)
    }

    /// The adapter's queue.
    pub(super) fn adapter_queue(&self) -> Option<usize> {
        self.toe.as_ref().map(|toe| toe.queue)
    }

    /// Takes up the orders of the controller.
    pub(super) fn take_orders(&mut self) {
        let latest = self.shared.orders.latest();
        let Some(toe) = &mut self.toe else { return };
        if toe.taken == latest {
            return;
        }
        toe.taken = latest;
        for (number, order) in self.shared.orders.take() {
            self.carry_out(number, order);
        }
    }

    fn carry_out(&mut self, number: u64, order: Order) {
        let Some(toe) = &mut self.toe else { return };
        let mut released = None;
        match order {
            Order::Hold(ends) | Order::Return(ends) => {
                let entry = Entry { place: Place::Host, held: None, asked: false, returns: false };
                let entry = toe.table.entry(ends).or_insert(entry);
                entry.held.get_or_insert_default();
                entry.returns = matches!(order, Order::Return(_));
                self.hand_over_everything();
                let targets = self.interface.progress().map(|queue| queue.placed).collect();
                if let Some(toe) = &mut self.toe {
                    toe.settling.push((number, targets));
                }
                self.settle();
                return;
            }
            Order::ToAdapter(ends, send_next) => {
                if let Some(entry) = toe.table.get_mut(&ends) {
                    entry.place = Place::Adapter(send_next);
                    entry.asked = false;
                    released = entry.held.take();
                }
            }
            Order::ToHost(ends) => {
                // what the adapter has sent may still be on its way to the link, and the host takes it for sent
                let now_ps = self.clock.now_ps();
                toe.leaving.retain(|_, until_ps| *until_ps > now_ps);
                toe.leaving.insert(ends, now_ps + LEAVING_PS);
                released = toe.table.remove(&ends).and_then(|entry| entry.held);
            }
            Order::Release(ends) => {
                released = toe.table.get_mut(&ends).and_then(|entry| {
                    entry.returns = false;
                    entry.held.take()
                });
            }
            Order::Forget => {
                toe.table.clear();
                toe.leaving.clear();
            }
        }
        for (frame, at_ps) in released.into_iter().flatten() {
            self.take_one(frame, at_ps);
        }
        self.shared.orders.acknowledge(number);
    }

    /// Raises the receive interrupts of all queues, so that nothing waits here.
    fn hand_over_everything(&mut self) {
        let now_ps = self.clock.now_ps();
        for queue in 0..self.interface.queues() {
            for delivery in self.coalescers[queue].flush() {
                self.deliver(queue, delivery, true, now_ps);
            }
            // before its time, because somebody asks
            host_side::interrupt(&self.shared, &mut self.interface, queue, (now_ps, now_ps));
        }
    }

    /// Acknowledges the orders whose frames were taken by now. Says whether there was one.
    pub(super) fn settle(&mut self) -> bool {
        let Some(toe) = &mut self.toe else { return false };
        if toe.settling.is_empty() {
            return false;
        }
        let consumed: Vec<u64> = self.interface.progress().map(|queue| queue.consumed).collect();
        let before = toe.settling.len();
        toe.settling.retain(|(number, targets)| {
            let waits = consumed.iter().zip(targets).any(|(consumed, target)| consumed < target);
            if !waits {
                self.shared.orders.acknowledge(*number);
            }
            waits
        });
        toe.settling.len() < before
    }

    /// When the device must look again whether frames were taken.
    pub(super) fn settling_due_ps(&self, now_ps: u64) -> Option<u64> {
        let waits = self.toe.as_ref().is_some_and(|toe| !toe.settling.is_empty());
        waits.then_some(now_ps + LOOK_PS)
    }

    /// Where a frame from the link goes. One that waits was kept.
    pub(super) fn offloaded(&mut self, frame: &WireFrame, headers: &Headers, at_ps: u64) -> To {
        let Some(toe) = self.toe.as_mut().filter(|toe| !toe.table.is_empty()) else {
            return To::Host;
        };
        let Some(segment) = headers.tcp_segment(frame.head()) else { return To::Host };
        let ends = ConnectionEnds { own: segment.destination, far: segment.source };
        let Some(entry) = toe.table.get_mut(&ends) else { return To::Host };
        let counters = &self.shared.counters;
        if let Some(held) = &mut entry.held {
            if held.len() < MOST_HELD {
                counters.toe_held.add(1);
                held.push((frame.clone(), at_ps));
            } else {
                counters.toe_drop_held.add(1);
            }
            return To::Later;
        }
        if entry.place == Place::Host {
            return To::Host;
        }
        let why = match segment.flags {
            flags if flags & RST != 0 => Some(Asks::Reset),
            flags if flags & URG != 0 => Some(Asks::Urgent),
            _ => None,
        };
        if let Some(why) = why.filter(|_| !entry.asked) {
            // the host's TCP takes this frame once it has the connection
            entry.asked = true;
            counters.toe_held.add(1);
            entry.held = Some(vec![(frame.clone(), at_ps)]);
            self.shared.orders.ask(ends, why);
            return To::Later;
        }
        counters.toe_rx_frames.add(1);
        counters.toe_rx_bytes.add(segment.length.into());
        To::Adapter
    }

    /// Whether a packet of the host or of the adapter's TCP is sent.
    pub(super) fn lets_out(&mut self, queue: usize, descriptor: &TxDescriptor) -> bool {
        let Some(toe) = &self.toe else { return true };
        let of_adapter = queue == toe.queue;
        if toe.table.is_empty() && (!of_adapter || toe.leaving.is_empty()) {
            // the adapter's kernel sends nothing else that anybody has asked for
            return !of_adapter;
        }
        let packet = descriptor.block.bytes(VNET_BYTES.min(descriptor.length)..descriptor.length);
        let segment = Headers::parse(packet).ok().and_then(|headers| headers.tcp_segment(packet));
        let Some(segment) = segment else { return !of_adapter };
        let ends = ConnectionEnds { own: segment.source, far: segment.destination };
        let counters = &self.shared.counters;
        let entry = toe.table.get(&ends);
        let place = entry.map(|entry| if entry.returns { Place::Host } else { entry.place });
        let is_of_stream = segment.flags & (RST | SYN) == 0;
        match (place, of_adapter) {
            (Some(_), true) => {
                counters.toe_tx_packets.add(1);
                counters.toe_tx_bytes.add(segment.length.into());
                true
            }
            (None, true) => {
                let until_ps = toe.leaving.get(&ends).copied().unwrap_or(0);
                let was_sent = is_of_stream && self.clock.now_ps() < until_ps;
                if was_sent {
                    counters.toe_let_out.add(1);
                }
                was_sent
            }
            (Some(Place::Adapter(send_next)), false) => {
                let of_before = is_of_stream && segment.is_before(send_next);
                match of_before {
                    true => counters.toe_let_out.add(1),
                    false => counters.toe_host_segments.add(1),
                }
                of_before
            }
            (Some(Place::Host) | None, false) => true,
        }
    }
}
