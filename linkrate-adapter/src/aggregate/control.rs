//! The decisions of an aggregate at its host: which of its ports carry traffic.
//!
//! The driver of the first queue has the control. It calls it when a link changes, a message comes,
//! settings are requested, or a time has come.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::membership::{Membership, Message, PortLink, Role};
use super::{AggregateShared, in_use, lock};
use crate::link::LinkShared;

#[derive(Debug)]
pub(crate) struct Control {
    membership: Membership,
    request: u64,
    /// The decision that was published last.
    published: u64,
    /// The addresses that were taken up last.
    addresses: u64,
    /// The ports as they were seen last: the link, and its state.
    seen: Vec<Option<(Weak<LinkShared>, PortLink)>>,
    /// The frames of users that each port had received at the last look.
    received: Vec<u64>,
    /// The interface has a carrier.
    carrier: bool,
}

impl Control {
    pub(crate) fn new(shared: &AggregateShared) -> Self {
        let (_, knobs) = shared.settings.requested();
        let mut membership = Membership::new(Role::Host, shared.address, knobs);
        membership.log_to(shared.decisions.clone());
        Self {
            membership,
            request: 0,
            published: 0,
            addresses: 0,
            seen: Vec::new(),
            received: Vec::new(),
            carrier: true,
        }
    }

    /// When it must be called even if nothing happens, CLOCK_MONOTONIC.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.membership.due()
    }

    /// Takes up what happened, and appends the frames that are to be sent.
    pub(crate) fn turn(
        &mut self,
        shared: &AggregateShared,
        now: Duration,
        messages: &mut Vec<Message>,
    ) {
        // before the look: what happens during the look is looked at again
        shared.take_news();
        let asked = shared.asked();
        let (request, knobs) = shared.settings.requested();
        if request != self.request {
            self.membership.set_knobs(now, knobs, messages);
        }
        self.take_addresses(shared, now);
        self.look_at_links(shared, now, messages);
        if shared.anew.swap(false, Ordering::AcqRel) {
            self.membership.begin_anew(now, messages);
        }
        // before the work that is due: a partner is not silent whose frames only waited for this thread
        let received = lock(&shared.messages).take();
        for (port, frame) in received {
            self.membership.receive(now, port, &frame, messages);
        }
        if self.membership.asks_for_heard(now) {
            self.look_at_counters(shared, now);
        }
        for request in lock(&shared.markers).take() {
            self.membership.request_marker(now, request.port, request.transaction, messages);
        }
        self.membership.poll(now, messages);
        for transaction in self.membership.take_ended_markers() {
            lock(&shared.markers).end(transaction);
        }
        if self.membership.changes() != self.published || request != self.request {
            self.published = self.membership.changes();
            shared.share(&self.membership);
            self.set_carrier(shared, !self.membership.distributing().is_empty());
        }
        if request != self.request {
            self.request = request;
            shared.settings.acknowledge(request, self.membership.knobs().clone());
        }
        shared.answer(asked, |port| self.membership.state(now, port));
    }

    fn take_addresses(&mut self, shared: &AggregateShared, now: Duration) {
        let (changes, addresses) = &*lock(&shared.addresses);
        if *changes != self.addresses {
            self.addresses = *changes;
            self.membership.set_addresses(now, addresses.clone());
        }
    }

    /// Tells which ports received frames of users since the last look. Polls go to a group of stations.
    fn look_at_counters(&mut self, shared: &AggregateShared, now: Duration) {
        let members = lock(&shared.members).clone();
        self.received.resize(members.len(), 0);
        for (number, member) in members.iter().enumerate() {
            let Some(counters) = member.as_ref().map(|member| &member.link.counters) else {
                continue;
            };
            let received = counters.in_unicast.get() + counters.in_broadcast.get();
            if std::mem::replace(&mut self.received[number], received) != received {
                self.membership.heard(now, number);
            }
        }
    }

    /// Compares the links with their state at the last look.
    fn look_at_links(
        &mut self,
        shared: &AggregateShared,
        now: Duration,
        messages: &mut Vec<Message>,
    ) {
        let most = self.membership.knobs().aggregate;
        let members = lock(&shared.members).clone();
        if self.seen.len() < members.len() {
            self.seen.resize(members.len(), None);
        }
        let mut links = vec![None; self.seen.len()];
        for (number, member) in in_use(&members, most) {
            links[number] = Some(&member.link);
        }
        for (number, link) in links.into_iter().enumerate() {
            let before = self.seen[number].take();
            let Some(link) = link else {
                if before.is_some() {
                    self.membership.remove(now, number, messages);
                }
                continue;
            };
            let state = PortLink { up: link.is_up(), rate: link.rate() };
            let weak = Arc::downgrade(link);
            // another port may have taken the place of one that has left
            let same = before.as_ref().is_some_and(|(before, _)| before.ptr_eq(&weak));
            if before.is_some() && !same {
                self.membership.remove(now, number, messages);
            }
            if !(same && before.is_some_and(|(_, before)| before == state)) {
                self.membership.set_link(now, number, state, messages);
            }
            self.seen[number] = Some((weak, state));
        }
    }

    fn set_carrier(&mut self, shared: &AggregateShared, carrier: bool) {
        if carrier != self.carrier {
            self.carrier = carrier;
            // an interface that is gone has no carrier to set
            let _ = shared.interface.set_carrier(carrier);
        }
    }
}
