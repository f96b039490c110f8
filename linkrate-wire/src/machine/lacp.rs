//! Link aggregation control: the machines of IEEE 802.1AX-2014, 6.4 and 6.5, for a host or a switch.
//!
//! A [`System`] is one actor. It has ports, and groups of ports: a group is made of the ports with
//! one administrative key, and becomes one aggregate. A host has one group or few; a switch has one
//! for each of its neighbours. Both are the same value with other settings.
//!
//! ```text
//! PDU, link ──▶ Receive ──▶ Selection ──▶ Mux ──▶ collecting, distributing
//!                  │                       │
//!                  ▼                       ▼
//!              Periodic ─────────────▶ Transmit ──▶ PDU
//! ```
//!
//! - [`receive`]: what is known of the partner
//! - [`selection`]: which ports make the aggregate
//! - [`mux`]: when frames may go in and out
//! - [`periodic`]: PDUs that keep the partner from giving up
//! - [`churn`]: links that do not come into operation
//!
//! The work for an event is bounded by the number of ports, whatever a partner sends: a port reads
//! at most as many frames a second as the standard lets its partner send, and sends at most three
//! LACPDUs, five markers and five answers a second.
//!
//! Version 1 of the protocol. The modules name the clauses of IEEE 802.1AX-2014. Departures are said where
//! they are made.

mod counters;
mod event;
mod port;
pub mod selection;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

pub use counters::Counters;
pub use event::{
    Action, End, Event, GroupSettings, Link, MarkerOutcome, Notice, PortSettings, Reason, Selection,
};
pub use port::{churn, mux, periodic, receive};
pub use status::{GroupStatus, PortStatus};

use super::Machine;
use crate::control::lacp::SystemId;
use crate::control::slow::{self, Subtype};
use crate::control::{Control, Lacpdu, Marker};
use crate::frame::Headers;
use port::{Port, Sent};
use selection::Group;

/// An actor: a host or a switch.
#[derive(Debug, Clone)]
pub struct System {
    id: SystemId,
    ports: BTreeMap<u16, Port>,
    groups: BTreeMap<u16, Group>,
    /// What ports that were removed have sent: the limit is that of the link, and outlives them.
    removed: BTreeMap<u16, Sent>,
    /// When all machines last ran until they rested.
    settled: Duration,
    due: Option<Duration>,
}

impl System {
    /// A system without ports and groups.
    #[must_use]
    pub const fn new(id: SystemId) -> Self {
        Self {
            id,
            ports: BTreeMap::new(),
            groups: BTreeMap::new(),
            removed: BTreeMap::new(),
            settled: Duration::ZERO,
            due: None,
        }
    }

    /// Its identifier.
    #[must_use]
    pub const fn id(&self) -> SystemId {
        self.id
    }

    /// A port, if there is one with this number.
    #[must_use]
    pub fn port(&self, number: u16) -> Option<PortStatus> {
        self.ports.get(&number).map(PortStatus::of)
    }

    /// All ports, by their numbers.
    pub fn ports(&self) -> impl Iterator<Item = PortStatus> {
        self.ports.values().map(PortStatus::of)
    }

    /// A group, if there is one with this key.
    #[must_use]
    pub fn group(&self, key: u16) -> Option<GroupStatus> {
        self.groups.get(&key).map(|group| GroupStatus::of(key, group, self.ports.values()))
    }

    /// All groups, by their keys.
    pub fn groups(&self) -> impl Iterator<Item = GroupStatus> {
        self.groups.iter().map(|(key, group)| GroupStatus::of(*key, group, self.ports.values()))
    }

    /// Takes a frame that arrived at a port, as [`Event::Frame`] does. Says whether it is one of a
    /// slow protocol, or to their address: such a frame goes no further.
    pub fn receive(
        &mut self,
        now: Duration,
        port: u16,
        frame: &[u8],
        actions: &mut Vec<Action>,
    ) -> bool {
        let headers = Headers::parse(frame).ok();
        let is_slow = headers.as_ref().is_some_and(|headers| {
            let link = &headers.link;
            link.ether_type == slow::ETHER_TYPE && link.tags == 0 && !link.snap
        });
        if !is_slow && !frame.starts_with(&slow::GROUP.0) {
            return false;
        }
        let Some(at) = self.enabled(port) else { return true };
        let control = headers.map(|headers| Control::of(frame, &headers));
        let Some(Ok(Some(Control::Slow(message)))) = control else {
            let illegal = is_slow || control.is_none();
            at.counters.illegal_rx += u64::from(illegal);
            at.counters.unknown_rx += u64::from(!illegal);
            return true;
        };
        match message.subtype {
            Subtype::Lacp if !at.reads_lacpdu(now) => {}
            Subtype::Lacp => match Lacpdu::parse(message.data) {
                Ok(pdu) => self.receive_lacpdu(now, port, &pdu, actions),
                Err(_) => at.counters.illegal_rx += 1,
            },
            Subtype::Marker if !at.reads_marker(now) => {}
            Subtype::Marker => match Marker::parse(message.data) {
                Ok(pdu) => self.receive_marker(now, port, &pdu, actions),
                Err(_) => at.counters.illegal_rx += 1,
            },
            _ => at.counters.unknown_rx += 1,
        }
        true
    }

    /// The port, if its link is up.
    fn enabled(&mut self, port: u16) -> Option<&mut Port> {
        self.ports.get_mut(&port).filter(|port| port.enabled())
    }

    fn receive_lacpdu(
        &mut self,
        now: Duration,
        port: u16,
        pdu: &Lacpdu,
        actions: &mut Vec<Action>,
    ) {
        let (system, number) = (pdu.actor.system, pdu.actor.port.number);
        let mut changes = false;
        for (other, moved) in &mut self.ports {
            let partner = moved.known_partner();
            let is_there =
                partner.is_some_and(|one| (one.system, one.port.number) == (system, number));
            if *other != port && is_there {
                changes |= moved.forget_moved_partner();
            }
        }
        let Some(port) = self.ports.get_mut(&port) else { return };
        port.counters.lacpdus_rx += 1;
        let before = port.picture();
        port.receive_lacpdu(now, pdu);
        changes |= port.picture() != before;
        if changes {
            self.settle(now, actions);
        } else {
            // most PDUs say nothing new, and a switch with many ports gets many of them
            port.finish(now, actions);
            self.set_due();
        }
    }

    fn receive_marker(
        &mut self,
        now: Duration,
        port: u16,
        pdu: &Marker,
        actions: &mut Vec<Action>,
    ) {
        if let Some(port) = self.ports.get_mut(&port) {
            port.receive_marker(now, pdu, actions);
        }
        self.set_due();
    }

    fn set_port(
        &mut self,
        now: Duration,
        number: u16,
        settings: PortSettings,
        actions: &mut Vec<Action>,
    ) {
        let Some(port) = self.ports.get_mut(&number) else {
            let mut port = Port::new(self.id, number, settings);
            port.sent = self.removed.remove(&number).unwrap_or(Sent::new());
            self.ports.insert(number, port);
            return;
        };
        let identity = |of: PortSettings| (of.key, of.priority, of.aggregatable);
        let before = std::mem::replace(&mut port.settings, settings);
        if identity(before) != identity(settings) {
            // before the key changes: it is detached from the aggregate that it is in
            port.detach(now, Reason::NoGroup, actions);
        }
        port.follow_settings();
        if before.short_timeout != settings.short_timeout {
            port.restart_current_while(now);
        }
        port.ntt |= before != settings;
    }

    fn remove_port(&mut self, now: Duration, number: u16, actions: &mut Vec<Action>) {
        let Some(mut port) = self.ports.remove(&number) else { return };
        port.detach(now, Reason::Retired, actions);
        port.lose_markers(actions);
        port.transmit(now, actions);
        self.removed.retain(|_, sent| !sent.is_free(now));
        self.removed.insert(number, port.sent);
    }

    /// Lets all machines run until they rest.
    fn settle(&mut self, now: Duration, actions: &mut Vec<Action>) {
        for port in self.ports.values_mut() {
            port.follow_link(now);
            // a port that is to be detached is detached before it may be selected again
            port.settle_mux(now, false, actions);
            if !self.groups.contains_key(&port.actor.key) {
                port.follow_selection(Selection::Unselected(Reason::NoGroup));
            }
        }
        let chosen: Vec<_> = self.groups.values().map(|group| group.chosen).collect();
        // again, because a port that makes way for a better one may have been what kept the partner
        for _ in 0..=self.ports.len() {
            if !self.select(now, actions) {
                break;
            }
        }
        for (before, (key, group)) in chosen.iter().zip(&self.groups) {
            let partner = |set: &selection::Set| (set.system, set.key);
            let (from, to) = (before.as_ref().map(partner), group.chosen.as_ref().map(partner));
            if from != to {
                let notice = Notice::AggregateChanged { key: *key, partner: to };
                actions.push(Action::Notice(notice));
            }
        }
        self.attach(now, actions);
        for port in self.ports.values_mut() {
            port.finish(now, actions);
        }
        self.settled = now;
        self.set_due();
    }

    /// Selects the ports of each group once. Says whether that changed something.
    fn select(&mut self, now: Duration, actions: &mut Vec<Action>) -> bool {
        let mut changed = false;
        for (key, group) in &mut self.groups {
            let ports = self.ports.values_mut().filter(|port| port.actor.key == *key);
            for (number, selection) in group.select(now, ports) {
                if let Some(port) = self.ports.get_mut(&number) {
                    changed |= port.follow_selection(selection);
                }
            }
        }
        self.ports.values_mut().for_each(|port| port.settle_mux(now, false, actions));
        changed
    }

    fn set_due(&mut self) {
        self.due = self.ports.values().filter_map(|port| port.due(self.settled)).min();
    }

    /// Attaches the ports of each group that has no port which is still to wait (the variable
    /// Ready).
    fn attach(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let waits = |port: &Port| {
            port.selection == Selection::Selected && port.mux.ready_at().is_some_and(|at| at > now)
        };
        for key in self.groups.keys() {
            let of_group = |port: &&mut Port| port.actor.key == *key;
            if !self.ports.values().any(|port| port.actor.key == *key && waits(port)) {
                for port in self.ports.values_mut().filter(of_group) {
                    port.settle_mux(now, true, actions);
                }
            }
        }
    }
}

impl Machine for System {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Duration, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::SetGroup { key, settings } => {
                self.groups.entry(key).or_insert(Group::new(settings)).settings = settings;
            }
            Event::RemoveGroup { key } => {
                if self.groups.remove(&key).is_some_and(|group| group.chosen.is_some()) {
                    let notice = Notice::AggregateChanged { key, partner: None };
                    actions.push(Action::Notice(notice));
                }
            }
            Event::SetPort { port, settings } => self.set_port(now, port, settings, actions),
            Event::RemovePort { port } => self.remove_port(now, port, actions),
            Event::SetSystemPriority { priority } => {
                self.id.priority = priority;
                for port in self.ports.values_mut() {
                    port.detach(now, Reason::NoPartner, actions);
                    port.actor.system = self.id;
                    port.ntt = true;
                }
            }
            Event::LinkUp { port, link } => {
                if let Some(port) = self.ports.get_mut(&port) {
                    port.link_up(now, link, actions);
                }
            }
            Event::LinkDown { port } => {
                if let Some(port) = self.ports.get_mut(&port) {
                    port.link_down(actions);
                }
            }
            Event::Frame { port, frame } => {
                self.receive(now, port, &frame, actions);
                return;
            }
            Event::Lacpdu { port, pdu } => {
                if self.enabled(port).is_some_and(|port| port.reads_lacpdu(now)) {
                    self.receive_lacpdu(now, port, &pdu, actions);
                }
                return;
            }
            Event::Marker { port, pdu } => {
                if self.enabled(port).is_some_and(|port| port.reads_marker(now)) {
                    self.receive_marker(now, port, &pdu, actions);
                }
                return;
            }
            Event::RequestMarker { port, transaction, patience } => {
                match self.ports.get_mut(&port) {
                    Some(port) => port.request_marker(now, transaction, patience, actions),
                    None => {
                        let outcome = MarkerOutcome::PortLost;
                        actions.push(Action::Marker { port, transaction, outcome });
                    }
                }
                self.set_due();
                return;
            }
        }
        self.settle(now, actions);
    }

    fn due(&self) -> Option<Duration> {
        self.due
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let mut changes = false;
        for port in self.ports.values_mut() {
            changes |= port.expire_receive(now);
            changes |= port.waits(self.settled).any(|end| end <= now);
            port.expire_periodic(now);
            port.poll_markers(now, actions);
        }
        if changes {
            self.settle(now, actions);
        } else {
            self.ports.values_mut().for_each(|port| port.finish(now, actions));
            self.set_due();
        }
    }
}
