//! The driver of one queue of an aggregate: it shares out the packets of the host to the ports, and
//! hands the host the packets of all ports.
//!
//! Packets that a full port cannot take wait before this port alone, as before the queue discipline
//! of the port. The other ports continue. The host chooses the port, so that balancing runs on the
//! CPUs of the host and is a part of its service demand.

mod rebalance;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::balance::{Balancer, PortIndex};
use linkrate_wire::control::is_of_aggregates;
use linkrate_wire::frame::Cast;
use linkrate_wire::frame::link::destination;
use linkrate_wire::lro::{Delivery, Parts};

use super::AggregateShared;
use super::control::Control;
use super::membership::{GRACE, bit};
use crate::clock::earlier;
use crate::frame::VNET_BYTES;
use crate::interface::driver::TxSink;
use crate::interface::flow_queue::HEADERS;
use crate::interface::host_end::{HostEnd, WEIGHT};
use crate::interface::queue_pair::QueuePair;
use crate::interface::rings::{RxDescriptor, TxDescriptor};
use rebalance::Change;

/// A port of the aggregate, in one of its queues.
#[derive(Debug)]
struct Member {
    queue_pair: QueuePair,
    /// Packets handed up in this batch.
    received: usize,
}

/// The ports of an aggregate, as the driver of one queue has them.
#[derive(Debug)]
pub(crate) struct AggregateDriver {
    queue: usize,
    shared: Arc<AggregateShared>,
    /// By number; a port that has left leaves its place.
    members: Vec<Option<Member>>,
    /// The decisions about ports; the driver of the first queue has it.
    control: Option<Box<Control>>,
    /// The port whose received packets come first.
    turn: usize,
    balancer: Balancer,
    /// The decision that the balancer follows.
    sharing: u64,
    /// While packets of the host wait for the ports to drain, so that flows can change them in order.
    draining: Option<Draining>,
    /// When flows try again to change their ports that could not in time.
    again_ns: Option<u64>,
    /// The ports on which the partner was asked, after they had drained.
    asked: Vec<usize>,
    /// The flows that change their port because the loads of ports are uneven.
    change: Option<Change>,
}

/// A wait for ports to drain.
#[derive(Debug, Clone, Copy)]
struct Draining {
    /// The ports, a bit each.
    ports: u64,
    /// When the wait ends in any case.
    until_ns: u64,
    /// When to look again.
    look_ns: u64,
}

/// How long packets of the host wait at most for ports to drain: shorter than the other end takes
/// frames from a port that leaves.
const MAX_DRAINING_NS: u64 = GRACE.as_nanos() as u64 * 4 / 5;

/// The time between two polls.
const POLL_INTERVAL_NS: u64 = 50_000;

/// After this time flows that could not change their ports try it again.
const AGAIN_NS: u64 = 500_000_000;

impl TxSink for AggregateDriver {
    fn add(&mut self, member: usize, queue_pair: QueuePair) {
        if self.members.len() <= member {
            self.members.resize_with(member + 1, || None);
        }
        self.members[member] = Some(Member { queue_pair, received: 0 });
    }

    fn remove(&mut self, member: usize) {
        let Some(mut gone) = self.members.get_mut(member).and_then(Option::take) else { return };
        let waited = gone.queue_pair.take_waiting().collect::<Vec<_>>();
        waited.into_iter().chain(self.take_held()).for_each(|descriptor| self.send(descriptor));
        self.end_batch();
    }

    fn is_drained(&self, member: usize) -> bool {
        let port = self.members.get(member).and_then(Option::as_ref);
        let is_left = self.change.as_ref().is_some_and(|change| change.leaves(member));
        port.is_none_or(|port| port.queue_pair.is_drained()) && !is_left
    }

    fn poll(&mut self, host: &mut HostEnd) -> io::Result<usize> {
        self.take_control();
        let decided = self.decide(host);
        let received = self.receive(host)?;
        let sent = self.transmit(host)?;
        Ok(decided + received + sent)
    }

    fn will_sleep(&mut self) -> bool {
        for member in self.members.iter_mut().flatten() {
            member.queue_pair.will_sleep();
        }
        true
    }

    fn budget_spent(&self) {
        self.queue_pairs().for_each(QueuePair::budget_spent);
    }

    fn woken(&self) {
        self.queue_pairs().for_each(QueuePair::woken);
    }

    fn is_idle(&self) -> bool {
        let decides = self.control.is_some() && self.shared.has_news();
        !decides && self.queue_pairs().all(QueuePair::is_idle)
    }

    fn due_ns(&self) -> Option<u64> {
        let due = self.control.as_ref().and_then(|control| control.due());
        let decision_ns = due.map(|due| u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
        let waiting_ns = match &self.draining {
            Some(draining) => Some(draining.look_ns),
            None => self.change.as_ref().map(Change::until_ns),
        };
        earlier(decision_ns, earlier(waiting_ns, self.again_ns))
    }
}

impl AggregateDriver {
    /// The ports in queue `queue`. With `control`, its driver decides which ports carry traffic.
    pub(crate) fn new(
        queue: usize,
        shared: Arc<AggregateShared>,
        control: Option<Box<Control>>,
    ) -> Self {
        let balancer = shared.balancer(queue);
        Self {
            queue,
            shared,
            members: Vec::new(),
            control,
            turn: 0,
            balancer,
            sharing: 0,
            draining: None,
            again_ns: None,
            asked: Vec::new(),
            change: None,
        }
    }

    /// Whether everything that was posted to a port has left.
    fn has_left(&self, member: usize) -> bool {
        let port = self.members.get(member).and_then(Option::as_ref);
        port.is_none_or(|port| port.queue_pair.has_left())
    }

    fn queue_pairs(&self) -> impl Iterator<Item = &QueuePair> {
        self.members.iter().flatten().map(|member| &member.queue_pair)
    }

    /// Takes the frames of the protocols, before any packet.
    fn take_control(&mut self) {
        let Self { members, shared, control, .. } = self;
        for (number, member) in members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            while let Some(descriptor) = member.queue_pair.pop_control() {
                shared.message(number, whole(&descriptor), control.is_some());
            }
        }
    }

    /// Lets the control look at ports and messages, and carries out its decisions.
    fn decide(&mut self, host: &mut HostEnd) -> usize {
        let Some(control) = &mut self.control else { return 0 };
        let due = control.due();
        // most polls have neither, and do not ask for the time
        if due.is_none() && !self.shared.has_news() {
            return 0;
        }
        let mut messages = Vec::new();
        let now = Duration::from_nanos(monotonic_ns());
        if self.shared.has_news() || due.is_some_and(|due| due <= now) {
            control.turn(&self.shared, now, &mut messages);
        }
        let count = messages.len();
        for (member, frame) in messages {
            self.send_control(host, member, &frame);
        }
        count
    }

    /// Sends a message of the aggregate itself, before the packets that wait for the port.
    fn send_control(&mut self, host: &mut HostEnd, member: usize, frame: &[u8]) {
        let Some(Some(port)) = self.members.get_mut(member) else { return };
        let filled = host.pool.with_free(|block| {
            let length = VNET_BYTES + frame.len();
            let bytes = &mut block.bytes_mut()[..length];
            bytes[..VNET_BYTES].fill(0);
            bytes[VNET_BYTES..].copy_from_slice(frame);
            Ok::<_, Infallible>(length)
        });
        let Ok((block, length)) = filled;
        let descriptor = TxDescriptor { block, length, posted_ns: monotonic_ns() };
        if is_of_aggregates(frame) {
            self.shared.counters.control_out.count(frame.len());
        }
        if !port.queue_pair.post_control(descriptor) {
            self.shared.counters.control_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hands packets of the ports to the host, port by port in turn. Says how many.
    fn receive(&mut self, host: &mut HostEnd) -> io::Result<usize> {
        let ports = self.members.len();
        let mut count = 0;
        let first = self.turn;
        for step in 0..ports {
            let number = (first + step) % ports;
            let Some(member) = &mut self.members[number] else { continue };
            let collects = self.shared.collects(number);
            let has_copies = self.shared.has_copies(number);
            while count < WEIGHT {
                let Some(descriptor) = member.queue_pair.pop() else { break };
                count += 1;
                member.received += 1;
                if is_of_the_aggregate(&descriptor) {
                    member.queue_pair.taken(descriptor.frames());
                    let is_awake = self.control.is_some();
                    self.shared.message(number, whole(&descriptor), is_awake);
                } else if has_copies && is_for_a_group(&descriptor) {
                    member.queue_pair.taken(descriptor.frames());
                } else if collects {
                    host.queue(descriptor);
                } else {
                    // a port that the partner has not been told of (802.1AX, Frame Collection)
                    member.queue_pair.taken(descriptor.frames());
                    self.shared.count_uncollected(descriptor.frames());
                }
            }
            if member.received > 0 {
                member.queue_pair.hand_up(host)?;
            }
            if count >= WEIGHT {
                self.turn = (number + 1) % ports;
                break;
            }
        }
        for member in self.members.iter_mut().flatten() {
            match std::mem::take(&mut member.received) {
                0 => {}
                received => member.queue_pair.received(received),
            }
        }
        if count > 0 {
            // what the host sends in return, acknowledgements above all, is in the TAP by now
            host.may_have = true;
        }
        Ok(count)
    }

    /// Takes packets of the host and posts them to the ports. Says how many.
    fn transmit(&mut self, host: &mut HostEnd) -> io::Result<usize> {
        let mut count = self.send_waiting();
        let is_revoking = self.queue_pairs().any(QueuePair::is_revoking);
        host.may_have |= is_revoking;
        while host.may_have && count < WEIGHT && self.draining.is_none() {
            let Some(descriptor) = host.read()? else {
                host.may_have = false;
                break;
            };
            self.send(descriptor);
            count += 1;
        }
        if is_revoking && !(host.may_have && self.draining.is_none()) {
            let queue_pairs =
                self.members.iter_mut().flatten().map(|member| &mut member.queue_pair);
            queue_pairs.filter(|queue_pair| queue_pair.is_revoking()).for_each(QueuePair::revoke);
        }
        if count > 0 && self.shared.evens_out() {
            self.even_out(monotonic_ns());
        }
        self.end_batch();
        Ok(count)
    }

    /// Posts what waited for room. Where flows change their ports, packets that waited are shared out again.
    fn send_waiting(&mut self) -> usize {
        let mut count = 0;
        if self.changes_are_due() && self.may_change() {
            let now_ns = monotonic_ns();
            self.sharing = self.shared.sharing();
            self.shared.follow(&mut self.balancer, now_ns, self.queue);
            let mut moved = Vec::new();
            for number in 0..self.members.len() {
                if let (true, Ok(port)) = (self.has_left(number), u8::try_from(number)) {
                    self.balancer.marker_answered(PortIndex(port), now_ns * 1000);
                } else if self.shared.distributes(number) {
                    // a flow that continues by this port must not overtake what has not left yet
                    continue;
                }
                if let Some(member) = &mut self.members[number] {
                    moved.extend(member.queue_pair.take_waiting());
                }
            }
            moved.extend(self.take_held());
            for descriptor in moved {
                // the other line takes it from now on, and not from the time when it began to wait
                self.send(TxDescriptor { posted_ns: now_ns, ..descriptor });
            }
        }
        if self.draining.is_none() {
            self.go_on();
        }
        let leaving = self.draining.map_or(0, |draining| draining.ports);
        for (number, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            // what waits before a port that flows leave may go by another one; one without a carrier would lose it
            let is_left = leaving != 0 && !self.shared.distributes(number);
            member.queue_pair.hold(is_left || leaving & bit(number) != 0);
            count += member.queue_pair.post_waiting();
        }
        count
    }

    /// Whether there is a decision that flows do not follow yet, or could not follow before.
    fn changes_are_due(&self) -> bool {
        self.shared.sharing() != self.sharing
            || self.draining.is_some()
            || self.again_ns.is_some_and(|again_ns| again_ns <= monotonic_ns())
    }

    /// Whether flows can change their ports now without overtaking themselves: everything has left
    /// that was posted to the ports that they leave. What waits before these ports waits on meanwhile. A
    /// port without a carrier is left at once. When ports join, flows leave any of the others.
    fn may_change(&mut self) -> bool {
        let has_others = self.shared.shares_otherwise(&self.balancer);
        let is_new = self.shared.sharing() != self.sharing;
        let leaves = |port: &PortIndex| match is_new {
            true => has_others || !self.shared.distributes(port.at()),
            false => self.balancer.waiting(*port) > 0,
        };
        let holds = |port: &usize| self.shared.has_carrier(*port);
        let active = self.balancer.active().iter().filter(|port| leaves(port));
        let left: Vec<usize> = active.map(|port| port.at()).filter(holds).collect();
        let now_ns = monotonic_ns();
        let have_left = left.iter().all(|port| self.has_left(*port));
        if have_left && self.have_arrived(&left) {
            self.again_ns = None;
        } else {
            let until_ns = self.draining.map_or(now_ns + MAX_DRAINING_NS, |wait| wait.until_ns);
            if now_ns < until_ns {
                let ports = left.iter().fold(0, |set, port| set | bit(*port));
                self.draining =
                    Some(Draining { ports, until_ns, look_ns: now_ns + POLL_INTERVAL_NS });
                return false;
            }
            // a partner that does not answer is not asked again: what was posted has left all the same
            self.again_ns = (!have_left).then_some(now_ns + AGAIN_NS);
        }
        self.draining = None;
        self.asked.clear();
        true
    }

    /// Whether everything that has left by these ports is at the partner, as far as that is asked for.
    fn have_arrived(&mut self, ports: &[usize]) -> bool {
        if ports.is_empty() || !self.shared.asks_partner() {
            return true;
        }
        if self.asked != ports {
            ports.clone_into(&mut self.asked);
            self.shared.ask_partner(self.queue, ports);
            return false;
        }
        !self.shared.awaits_partner(self.queue)
    }

    /// Posts a packet to the port that balancing chooses.
    fn send(&mut self, descriptor: TxDescriptor) {
        if self.changes(&descriptor) {
            return self.hold_back(descriptor);
        }
        let now_ps = descriptor.posted_ns * 1000;
        let (head, length) = packet(&descriptor);
        let chosen = self.balancer.choose(now_ps, head, length, self.queue as u16);
        self.send_by(chosen, descriptor);
    }

    fn send_by(&mut self, port: Option<PortIndex>, descriptor: TxDescriptor) {
        let port = port.and_then(|port| self.members.get_mut(port.at())?.as_mut());
        let Some(member) = port else {
            self.shared.counters.no_port.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let update = match member.queue_pair.steers() {
            true => member.queue_pair.steering(&descriptor),
            false => None,
        };
        if !member.queue_pair.send(descriptor) {
            self.shared.count_full();
        }
        // the other direction of the flow may come by any port
        if let Some(update) = update {
            self.members.iter_mut().flatten().for_each(|member| member.queue_pair.steer(update));
        }
    }

    fn end_batch(&mut self) {
        self.members.iter_mut().flatten().for_each(|member| member.queue_pair.end_batch());
    }
}

/// The headers of a packet of the host, and its length.
fn packet(descriptor: &TxDescriptor) -> (&[u8], usize) {
    let end = descriptor.length.min(VNET_BYTES + HEADERS);
    (descriptor.block.bytes(VNET_BYTES..end), descriptor.length.saturating_sub(VNET_BYTES))
}

/// Whether a received packet is a message for the aggregate itself.
fn is_of_the_aggregate(descriptor: &RxDescriptor) -> bool {
    matches!(&descriptor.delivery, Delivery::Frame { frame, .. } if is_of_aggregates(frame.head()))
}

fn is_for_a_group(descriptor: &RxDescriptor) -> bool {
    let Delivery::Frame { frame, .. } = &descriptor.delivery else { return false };
    destination(frame.head()).is_some_and(|destination| destination.cast() != Cast::Unicast)
}

/// The bytes of a received packet.
fn whole(descriptor: &RxDescriptor) -> Vec<u8> {
    let mut bytes = Vec::new();
    descriptor.for_each_piece(|piece| bytes.extend_from_slice(piece));
    bytes
}

#[cfg(test)]
mod tests;
