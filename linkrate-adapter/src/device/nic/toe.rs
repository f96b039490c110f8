//! The TCP offload engine of a port: frames of connections that are at the adapter go to its own TCP,
//! and come from there.
//!
//! The adapter's TCP has a TAP in a namespace of the adapter's. It is one more queue of the interface,
//! which the device thread serves itself. Its frames are cut, put on the bus and on the link as those of
//! the host are. Frames for it are merged, whatever the host has chosen for itself.

use std::collections::HashMap;

use linkrate_wire::frame::Headers;
use linkrate_wire::frame::tcp::{RST, Segment, URG};
use linkrate_wire::lro::Parts;

use super::Nic;
use crate::clock::PS_PER_US;
use crate::counters::DeviceCounters;
use crate::flow_steering::{Asks, Order};
use crate::frame::WireFrame;
use crate::interface::rings::TxDescriptor;
use crate::interface::tx_revoke::{ConnectionEnds, Dropped};

/// Frames that a connection that moves may have kept: a window of 4 MiB in frames of 1500 bytes. The
/// peer sends further ones again.
const MAX_HELD: usize = 4096;

/// How long packets of a connection that has returned may wait in the adapter's queue: the buffers of its TCP at a
/// hundredth of the rate.
const LEAVING_PS: u64 = 5_000_000 * PS_PER_US;

/// Time between two checks whether the host has taken what it was given.
const POLL_INTERVAL_PS: u64 = 20 * PS_PER_US;

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
    /// Frames of the peer that wait, while the connection moves.
    held: Option<Vec<(WireFrame, u64)>>,
    /// The controller was asked to bring it back.
    asked: bool,
    /// The host may have it already.
    returns: bool,
    /// The TCP that it has moved to last has sent. Acknowledgements of the other one are older, and the peer
    /// would take their timestamps for those of an old duplicate (RFC 7323, 5).
    has_sent: bool,
    /// Its packets in the rings that were taken back.
    dropped: Dropped,
}

impl Entry {
    /// A connection whose frames go to the host.
    fn at_host() -> Self {
        Self {
            place: Place::Host,
            held: None,
            asked: false,
            returns: false,
            has_sent: false,
            dropped: Dropped::default(),
        }
    }

    /// Whether a packet of the adapter's TCP is sent.
    fn lets_out_own(&mut self, segment: &Segment) -> bool {
        if self.returns {
            return !(self.has_sent && segment.is_empty());
        }
        self.has_sent = true;
        true
    }

    /// Whether a packet of the host is sent: that of a queue with a number.
    fn lets_out_of_host(
        &mut self,
        (queue, number): (usize, u64),
        segment: &Segment,
        counters: &DeviceCounters,
    ) -> bool {
        if segment.is_of_stream() && self.dropped.has(queue, number) {
            // counted when it was taken back
            return false;
        }
        if self.returns {
            self.has_sent = true;
            return true;
        }
        if let Place::Adapter(send_next) = self.place
            && !(segment.is_of_stream() && segment.is_before(send_next))
        {
            counters.toe_host_segments.add(1);
            return false;
        }
        let is_late = self.has_sent || self.dropped.hides(segment.sequence);
        if is_late && segment.is_empty() {
            counters.toe_taken_back.add(1);
            return false;
        }
        counters.toe_let_out.add(u64::from(self.place != Place::Host));
        true
    }
}

/// What the adapter has sent for a connection that has returned.
#[derive(Debug)]
struct Leaving {
    /// Until when it may leave.
    until_ps: u64,
    /// The host has sent for the connection.
    host_has_sent: bool,
}

/// The engine's table.
#[derive(Debug)]
pub(super) struct Toe {
    /// The adapter's queue.
    queue: usize,
    table: HashMap<ConnectionEnds, Entry>,
    /// Connections that have returned.
    leaving: HashMap<ConnectionEnds, Leaving>,
    /// When nothing more leaves for the last of them.
    last_leaves_ps: u64,
    /// The number of the latest order that was taken up.
    taken: u64,
    /// Orders that are carried out once somebody else has done a part of them.
    settling: Vec<(u64, Awaits)>,
}

/// What an order waits for.
#[derive(Debug)]
enum Awaits {
    /// The host and the adapter have taken so many frames of each queue.
    Taken(Vec<u64>),
    /// The drivers have revoked the packets of a connection: their answer to this question.
    Revoked(ConnectionEnds, u64),
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
        Self { queue, table, leaving, last_leaves_ps: 0, taken: 0, settling: Vec::new() }
    }
}

impl Nic {
    pub(super) fn host_queues(&self) -> usize {
        self.toe.as_ref().map_or(self.host.interface.queues(), |toe| toe.queue)
    }

    pub(super) fn adapter_queue(&self) -> Option<usize> {
        self.toe.as_ref().map(|toe| toe.queue)
    }

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
                let entry = toe.table.entry(ends).or_insert_with(Entry::at_host);
                entry.held.get_or_insert_default();
                entry.returns = matches!(order, Order::Return(_));
                entry.has_sent = false;
                self.hand_over_everything();
                let targets = self.host.interface.progress().map(|queue| queue.placed).collect();
                if let Some(toe) = &mut self.toe {
                    toe.settling.push((number, Awaits::Taken(targets)));
                }
                self.settle();
                return;
            }
            Order::TakeBack(ends) => {
                match toe.table.get(&ends).map(|entry| entry.place) {
                    Some(Place::Adapter(_)) => {
                        let revoked = self.host.interface.revoke_own(ends);
                        self.shared.counters.toe_taken_back.add(revoked.packets);
                        self.shared.orders.took_back(number, revoked.spans);
                    }
                    Some(Place::Host) => {
                        let question = self.host.interface.ask_to_revoke(ends);
                        toe.settling.push((number, Awaits::Revoked(ends, question)));
                        self.settle();
                    }
                    None => self.shared.orders.acknowledge(number),
                }
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
                let now_ps = self.host.clock.now_ps();
                toe.leaving.retain(|_, leaves| leaves.until_ps > now_ps);
                let entry = toe.table.remove(&ends);
                let host_has_sent = entry.as_ref().is_some_and(|entry| entry.has_sent);
                toe.last_leaves_ps = now_ps + LEAVING_PS;
                let leaves = Leaving { until_ps: toe.last_leaves_ps, host_has_sent };
                toe.leaving.insert(ends, leaves);
                released = entry.and_then(|entry| entry.held);
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
        let now_ps = self.host.clock.now_ps();
        for queue in 0..self.host.interface.queues() {
            for delivery in self.coalescers[queue].flush() {
                self.deliver(queue, delivery, true, now_ps);
            }
            // before its time, because somebody asks
            self.host.interrupt(queue, now_ps, now_ps);
        }
    }

    /// Acknowledges the orders whose frames were taken by now. Says whether there was one.
    pub(super) fn settle(&mut self) -> bool {
        let Some(toe) = &mut self.toe else { return false };
        if toe.settling.is_empty() {
            return false;
        }
        let consumed: Vec<u64> =
            self.host.interface.progress().map(|queue| queue.consumed).collect();
        let interface = &self.host.interface;
        let settled = toe.settling.extract_if(.., |(_, awaits)| match awaits {
            Awaits::Taken(targets) => consumed.iter().zip(targets).all(|(at, target)| at >= target),
            Awaits::Revoked(_, question) => interface.has_revoked(*question),
        });
        let settled: Vec<_> = settled.collect();
        for (number, awaited) in &settled {
            match awaited {
                Awaits::Taken(_) => self.shared.orders.acknowledge(*number),
                Awaits::Revoked(ends, _) => self.take_back(*number, *ends),
            }
        }
        !settled.is_empty()
    }

    /// The drivers have revoked what they had of a connection. What they have posted is dropped when its turn
    /// comes.
    fn take_back(&mut self, number: u64, ends: ConnectionEnds) {
        let Some((revoked, dropped)) = self.host.interface.revoked() else { return };
        self.shared.counters.toe_taken_back.add(revoked.packets);
        let entry = self.toe.as_mut().and_then(|toe| toe.table.get_mut(&ends));
        if let Some(entry) = entry {
            entry.dropped = dropped;
        }
        self.shared.orders.took_back(number, revoked.spans);
    }

    /// When the device must look again whether frames were taken.
    pub(super) fn settling_due_ps(&self, now_ps: u64) -> Option<u64> {
        let waits = self.toe.as_ref().is_some_and(|toe| !toe.settling.is_empty());
        waits.then_some(now_ps + POLL_INTERVAL_PS)
    }

    /// Where a frame from the link goes. One that waits was kept.
    pub(super) fn offloaded(&mut self, frame: &WireFrame, headers: &Headers, at_ps: u64) -> To {
        let Some(toe) = self.toe.as_mut().filter(|toe| !toe.table.is_empty()) else {
            return To::Host;
        };
        let counters = &self.shared.counters;
        let Some(segment) = headers.tcp_segment(frame.head()) else {
            // errors about segments of the adapter are for its TCP
            if let Some((own, far)) = headers.quoted_ends(frame) {
                let is_there = |entry: &Entry| matches!(entry.place, Place::Adapter(_));
                let entry = toe.table.get(&ConnectionEnds { own, far });
                return if entry.is_some_and(is_there) { To::Adapter } else { To::Host };
            }
            // only the first fragment tells its connection; the others wait for it at the host
            let Some((far, own)) = headers.fragment_ends(frame.head()) else { return To::Host };
            let ends = ConnectionEnds { own, far };
            let stays = |entry: &&mut Entry| {
                entry.place != Place::Host && entry.held.is_none() && !entry.asked
            };
            let Some(entry) = toe.table.get_mut(&ends).filter(stays) else { return To::Host };
            entry.asked = true;
            counters.toe_held.add(1);
            entry.held = Some(vec![(frame.clone(), at_ps)]);
            self.shared.orders.ask(ends, Asks::Fragment);
            return To::Later;
        };
        let ends = ConnectionEnds { own: segment.destination, far: segment.source };
        let Some(entry) = toe.table.get_mut(&ends) else { return To::Host };
        if let Some(held) = &mut entry.held {
            if held.len() < MAX_HELD {
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
        let Some(toe) = &mut self.toe else { return true };
        let of_adapter = queue == toe.queue;
        if !toe.leaving.is_empty() && self.host.clock.now_ps() >= toe.last_leaves_ps {
            toe.leaving.clear();
        }
        if toe.table.is_empty() && toe.leaving.is_empty() {
            // the adapter's kernel sends nothing else that anybody has asked for
            return !of_adapter;
        }
        let Some(segment) = descriptor.tcp_segment() else { return !of_adapter };
        let ends = ConnectionEnds { own: segment.source, far: segment.destination };
        let counters = &self.shared.counters;
        match (toe.table.get_mut(&ends), of_adapter) {
            (Some(entry), true) => {
                let lets_out = entry.lets_out_own(&segment);
                match lets_out {
                    true => {
                        counters.toe_tx_packets.add(1);
                        counters.toe_tx_bytes.add(segment.length.into());
                    }
                    false => counters.toe_taken_back.add(1),
                }
                lets_out
            }
            (Some(entry), false) => {
                let number = self.host.interface.last_popped(queue);
                entry.lets_out_of_host((queue, number), &segment, counters)
            }
            (None, true) => {
                let leaves = toe
                    .leaving
                    .get(&ends)
                    .filter(|leaves| self.host.clock.now_ps() < leaves.until_ps);
                let Some(leaves) = leaves.filter(|_| segment.is_of_stream()) else { return false };
                let is_late = leaves.host_has_sent && segment.is_empty();
                match is_late {
                    true => counters.toe_taken_back.add(1),
                    false => counters.toe_let_out.add(1),
                }
                !is_late
            }
            (None, false) => {
                if let Some(leaves) = toe.leaving.get_mut(&ends) {
                    leaves.host_has_sent = true;
                }
                true
            }
        }
    }
}
