//! Rebalancing: moves busy flows between ports when port loads are uneven.
//!
//! A worst case of how long packets may wait is longer than any gap of a busy flow. The driver knows
//! more: what it has posted to a port, and how much of that the device says has left. So it holds back the
//! packets of one entry, also those that wait for room, until what was posted to its port before has left,
//! about a millisecond. Then they go by the other port, in their order. Nothing can overtake: both links
//! have one rate, and what has left has passed the slower part of its way.

use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::balance::{PortIndex, RebalanceProposal};

use super::{AggregateDriver, MAX_DRAINING_NS, packet};
use crate::interface::rings::{MAX_BYTES, MAX_QUEUE, TxDescriptor};

/// A change of port under way.
#[derive(Debug)]
pub(super) struct Change {
    proposal: RebalanceProposal,
    /// When it is given up: the port does not send.
    until_ns: u64,
    /// Packets that waited for room before the port of the entry.
    waited: Vec<TxDescriptor>,
    /// Packets that came since.
    held: Vec<TxDescriptor>,
    /// Bytes of these.
    held_bytes: usize,
}

impl Change {
    /// When it must be looked at even if nothing has left.
    pub(super) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Whether packets that are held back may go by port `number` after all.
    pub(super) fn leaves(&self, number: usize) -> bool {
        self.proposal.from.at() == number
    }

    #[cfg(test)]
    pub(super) fn set_until(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    fn has_room(&self) -> bool {
        self.held.len() < MAX_QUEUE && self.held_bytes < MAX_BYTES
    }
}

impl AggregateDriver {
    /// Begins the change of port that evens out the loads, if there is one and the time for it.
    pub(super) fn even_out(&mut self, now_ns: u64) {
        if self.change.is_some() || self.draining.is_some() {
            return;
        }
        let Some(proposal) = self.balancer.proposal(now_ns * 1000) else { return };
        let Self { members, balancer, queue, .. } = self;
        let Some(Some(port)) = members.get_mut(proposal.from.at()) else { return };
        let is_meant = |descriptor: &TxDescriptor| {
            let (head, length) = packet(descriptor);
            balancer.entry_of(head, length, *queue as u16) == Some(proposal.entry)
        };
        let waited = port.queue_pair.take_waiting_of(is_meant);
        port.queue_pair.mark();
        let until_ns = now_ns + MAX_DRAINING_NS;
        self.change = Some(Change { proposal, until_ns, waited, held: Vec::new(), held_bytes: 0 });
        self.go_on();
    }

    /// Carries out the change under way, if what was posted before has left.
    pub(super) fn go_on(&mut self) {
        let Some(change) = &self.change else { return };
        let (proposal, until_ns, now_ns) = (change.proposal, change.until_ns, monotonic_ns());
        let port = self.members.get(proposal.from.at()).and_then(Option::as_ref);
        let has_left = port.and_then(|port| port.queue_pair.has_passed_mark()) == Some(true);
        if !has_left && now_ns < until_ns {
            return;
        }
        // a port that does not send keeps its flows
        let is_done = has_left && self.balancer.carry_out(now_ns * 1000, proposal);
        self.release(if is_done { proposal.to } else { proposal.from }, now_ns);
    }

    /// Sends what was held back, first what waited before the port of the entry, which goes by `port`.
    fn release(&mut self, port: PortIndex, now_ns: u64) {
        let Some(change) = self.end_change() else { return };
        // the line takes it from now on, and not from the time when it began to wait
        let now = |descriptor| TxDescriptor { posted_ns: now_ns, ..descriptor };
        for descriptor in change.waited {
            // it was counted when its port was chosen
            self.send_by(Some(port), now(descriptor));
        }
        change.held.into_iter().for_each(|descriptor| self.send(now(descriptor)));
    }

    /// Ends the change under way: ports come or go. Its packets are to be shared out again.
    pub(super) fn take_held(&mut self) -> impl Iterator<Item = TxDescriptor> + use<> {
        let change = self.end_change();
        change.into_iter().flat_map(|change| change.waited.into_iter().chain(change.held))
    }

    fn end_change(&mut self) -> Option<Change> {
        let change = self.change.take()?;
        if let Some(Some(port)) = self.members.get_mut(change.proposal.from.at()) {
            port.queue_pair.unmark();
        }
        Some(change)
    }

    /// Whether a packet is of the entry that changes its port now.
    pub(super) fn changes(&self, descriptor: &TxDescriptor) -> bool {
        let Some(change) = &self.change else { return false };
        let (head, length) = packet(descriptor);
        self.balancer.entry_of(head, length, self.queue as u16) == Some(change.proposal.entry)
    }

    /// Keeps a packet until its entry has changed its port. One too many is lost, as before a port.
    pub(super) fn hold_back(&mut self, descriptor: TxDescriptor) {
        match &mut self.change {
            Some(change) if change.has_room() => {
                change.held_bytes += descriptor.length;
                change.held.push(descriptor);
            }
            _ => self.shared.count_full(),
        }
    }
}
