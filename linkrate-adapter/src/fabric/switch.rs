//! A learning Ethernet switch with VLANs (IEEE 802.1Q) and groups of ports (IEEE 802.1AX): store and
//! forward, one line out of each port, a bounded queue before it.

pub(crate) mod groups;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use linkrate_model::BitRate;
use linkrate_wire::control::{bfd, is_of_the_link};
use linkrate_wire::frame::link::{Addresses, TagControl, retagged};
use linkrate_wire::frame::{Cast, MacAddress};
use linkrate_wire::lro::{Parts, Row};

use super::ports::{InFlightBoth, Ports, SwitchPort};
use super::vlans::{Tagging, Vlans};
use super::{Fabric, FabricCommand, InFlight};
use crate::aggregate::membership::{Message, PortLink};
use crate::clock::{PS_PER_NS, earlier};
use crate::counters::SwitchCounters;
use crate::frame::{Burst, WireFrame};
use crate::link::LinkSpec;
use crate::pacing::Line;
use crate::pdu::Pdu;
use groups::{GroupSpec, Groups, Left};

/// An address that was not seen for this time is forgotten (IEEE 802.1Q, 8.8.3).
const AGEING_PS: u64 = 300_000_000_000_000;
/// Most addresses that the switch knows.
const ADDRESSES: usize = 8192;
/// The longest queue before a port, in bytes on the line.
const QUEUE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
struct Port {
    in_flight: InFlightBoth,
    line: Line,
    /// No frame leaves before: it could overtake one of its flow that waits before another port.
    not_before_ps: u64,
    queue_ps: u64,
    vlans: Vlans,
    counters: Arc<SwitchCounters>,
    /// Where the last frame from this port went: the next frames of a train go there too.
    recent: Option<Recent>,
}

impl SwitchPort for Port {
    fn in_flight(&mut self) -> &mut InFlightBoth {
        &mut self.in_flight
    }

    fn in_flight_ref(&self) -> &InFlightBoth {
        &self.in_flight
    }

    fn lost_in_flight(&self, count: u64) {
        self.counters.in_flight.add(count);
    }

    fn lost_dead(&self, count: u64) {
        self.counters.dead.add(count);
    }
}

/// Where an address is: behind a port, or behind a group of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Egress {
    Port(usize),
    Group(usize),
}

/// The VLAN of a frame, and the tag that it came with.
type Tags = (u16, Option<TagControl>);

/// A forwarding decision that holds until the table changes, for a while.
#[derive(Debug, Clone, Copy)]
struct Recent {
    addresses: Addresses,
    vlan: u16,
    to: Egress,
    at_ps: u64,
    changes: u64,
}

/// How long a decision holds. The source's entry is that much older at most.
const RECENT_PS: u64 = 1_000_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Switch {
    ports: Ports<Port>,
    /// Way and time by VLAN and address.
    table: HashMap<(u16, MacAddress), (Egress, u64)>,
    groups: Groups,
    /// What the groups were told to be, by number.
    specs: BTreeMap<usize, GroupSpec>,
    /// It forwards, sends and takes nothing.
    dead: bool,
    /// The latest time that the switch was called at.
    now_ps: u64,
    /// Grows when an address comes, moves or goes, and when a port changes.
    changes: u64,
}

impl Fabric for Switch {
    fn attach(&mut self, number: usize, link: LinkSpec, _switch: usize) {
        self.changes += 1;
        let line = link.line();
        let queue_ps = line.time_ps(QUEUE_BYTES);
        let (vlans, counters) = (Vlans::default(), Arc::default());
        let (in_flight, recent, not_before_ps) = (InFlightBoth::default(), None, 0);
        let port = Port { in_flight, line, not_before_ps, queue_ps, vlans, counters, recent };
        self.ports.put(number, port);
        self.link_changed(number, PortLink { up: true, rate: link.rate });
    }

    /// Removes a port and the addresses behind it.
    fn detach(&mut self, number: usize) {
        self.changes += 1;
        self.ports.remove(number);
        self.forget(Egress::Port(number));
        self.link_changed(number, PortLink { up: false, rate: None });
    }

    fn set_link(&mut self, number: usize, rate: Option<BitRate>, up: bool) {
        if let Some(port) = self.ports.get_mut(number) {
            port.line.set_rate(rate);
            port.queue_ps = port.line.time_ps(QUEUE_BYTES);
        }
        self.link_changed(number, PortLink { up, rate });
        if !up {
            // the stations behind it may be reached by another port now (802.1Q, 17.29.4)
            self.forget(Egress::Port(number));
            self.changes += 1;
        }
    }

    fn cut(&mut self, number: usize, now_ps: u64) {
        self.ports.cut(number, now_ps);
    }

    fn control(&mut self, command: FabricCommand) {
        match command {
            FabricCommand::SetGroup(number, spec) => self.set_group(number, spec),
            FabricCommand::SetVlans(number, vlans, counters) => {
                self.changes += 1;
                // the addresses behind it
                self.forget(self.groups.of(number).map_or(Egress::Port(number), Egress::Group));
                if let Some(port) = self.ports.get_mut(number) {
                    port.vlans = vlans;
                    port.counters = counters;
                }
            }
            FabricCommand::SetSwitchAlive(0, alive) => self.set_alive(alive),
            _ => {}
        }
    }

    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64) {
        self.ports.enter(from, pdu, at_ps, self.dead);
    }

    /// Forwards in the order of arrival at any port.
    fn forward(&mut self, now_ps: u64) -> bool {
        self.now_ps = self.now_ps.max(now_ps);
        if self.dead {
            return false;
        }
        let mut any = false;
        while let Some((at_ps, from, pdu)) = self.ports.first_arrived(now_ps) {
            any = true;
            let Some(burst) = pdu.into_frames() else { continue };
            if burst.is_damaged() {
                // store and forward: the check sequence comes before all other checks
                if let Some(port) = self.ports.get(from) {
                    port.counters.fcs.add(burst.frames() as u64);
                }
            } else {
                self.forward_burst(from, burst, at_ps);
            }
        }
        // behind what came: a partner is not silent whose frames only waited for this thread
        let mut out = Vec::new();
        any |= self.groups.poll(now_ps, &mut out);
        self.follow_groups(out, now_ps);
        any
    }

    fn due_ps(&self, when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        if self.dead {
            return None;
        }
        let frames = self.ports.due_ps(when);
        earlier(frames, self.groups.due_ps())
    }

    fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        self.ports.to(to)
    }
}

impl Switch {
    /// A switch among several of a fabric: each is another system to its partners.
    pub(super) fn numbered(number: u8) -> Self {
        Self { groups: Groups::of_switch(number), ..Self::default() }
    }

    /// Frames on their way out of a port.
    pub(super) fn outwards(&self, port: usize) -> Option<&InFlight> {
        Some(&self.ports.get(port)?.in_flight.outwards)
    }

    pub(super) fn set_group(&mut self, number: usize, spec: GroupSpec) {
        self.changes += 1;
        self.forget(Egress::Group(number));
        if spec.ports.is_empty() {
            // its ports are ports like others again
            self.specs.remove(&number);
            self.groups.forget(number);
            return;
        }
        self.specs.insert(number, spec.clone());
        for of in &spec.ports {
            self.forget(Egress::Port(of.port));
        }
        let mut out = Vec::new();
        self.groups.set(number, spec, self.now_ps, &mut out);
        self.follow_groups(out, self.now_ps);
    }

    /// Ends or begins the switch's life. What it learnt and held is lost, and its groups begin again.
    pub(super) fn set_alive(&mut self, alive: bool) {
        if alive != self.dead {
            return;
        }
        self.dead = !alive;
        self.changes += 1;
        self.table.clear();
        self.ports.lose_in_flight();
        if alive {
            for (number, spec) in std::mem::take(&mut self.specs) {
                self.groups.forget(number);
                self.set_group(number, spec);
            }
        }
    }

    fn link_changed(&mut self, number: usize, link: PortLink) {
        let mut out = Vec::new();
        self.groups.set_link(number, link, self.now_ps, &mut out);
        self.follow_groups(out, self.now_ps);
    }

    /// Follows decisions of groups, and sends their frames.
    fn follow_groups(&mut self, messages: Vec<Message>, at_ps: u64) {
        self.hold_for_order();
        self.send_messages(messages, at_ps);
    }

    /// Holds all frames to a group until everything has left that waits before ports that flows leave.
    fn hold_for_order(&mut self) {
        for Left { ports, all, margin_ps } in self.groups.take_left() {
            let lines = ports.iter().filter_map(|port| Some(&self.ports.get(*port)?.line));
            let Some(free_at_ps) = lines.map(Line::free_at_ps).max() else { continue };
            for to in all {
                if let Some(port) = self.ports.get_mut(to) {
                    port.not_before_ps = port.not_before_ps.max(free_at_ps + margin_ps);
                }
            }
        }
    }

    /// Sends frames of the switch itself, before the frames that wait for the line. No queue is full for
    /// them.
    fn send_messages(&mut self, messages: Vec<Message>, at_ps: u64) {
        if self.dead {
            return;
        }
        for (to, frame) in messages {
            let Some(port) = self.ports.get_mut(to) else { continue };
            let out = port.line.occupy_first(at_ps, frame.len());
            port.in_flight.outwards.add(out.end_ps, WireFrame::copied(frame));
        }
    }

    /// Forgets the addresses behind a port or a group.
    fn forget(&mut self, gone: Egress) {
        self.table.retain(|_, (egress, _)| *egress != gone);
    }

    /// Forwards frames that came together. Segments of one superframe have the same addresses, so that
    /// they take the way of the frame before them together.
    fn forward_burst(&mut self, from: usize, burst: Burst, at_ps: u64) {
        if burst.is_cut()
            && burst.frames() > 1
            && let Some((to, tags)) = self.egress_together(from, &burst, at_ps)
        {
            self.queue_burst(to, burst, tags, at_ps);
        } else {
            burst.each().for_each(|frame| self.forward_one(from, frame, at_ps));
        }
    }

    /// The port that segments of one superframe leave by, if that is known without a look at each.
    fn egress_together(&mut self, from: usize, burst: &Burst, at_ps: u64) -> Option<(usize, Tags)> {
        if self.groups.of(from).is_some() && !self.groups.collects(from) {
            return None;
        }
        let addresses = Addresses::of(burst.head())?;
        let Recent { vlan, to, .. } = self.recent(from, addresses, at_ps)?;
        let to = match to {
            Egress::Port(port) => port,
            Egress::Group(group) => self.groups.choose_together(group, burst, at_ps)?,
        };
        Some((to, (vlan, addresses.tag)))
    }

    /// The decision for the frame before, if it holds for a frame with these addresses.
    fn recent(&self, from: usize, addresses: Addresses, at_ps: u64) -> Option<Recent> {
        self.ports.get(from)?.recent.filter(|recent| {
            recent.changes == self.changes
                && recent.addresses == addresses
                && at_ps.saturating_sub(recent.at_ps) < RECENT_PS
        })
    }

    fn forward_one(&mut self, from: usize, frame: WireFrame, at_ps: u64) {
        let Some(port) = self.ports.get(from) else { return };
        let Some(addresses) = Addresses::of(frame.head()) else {
            port.counters.malformed.add(1);
            return;
        };
        let is_of_the_link = addresses.destination.is_link_local()
            || self.groups.has(from)
                && (is_of_the_link(frame.head())
                    || bfd::is_to_a_station(frame.head())
                        && self.groups.is_own(from, addresses.destination));
        if is_of_the_link {
            // for this end of the link: no bridge forwards it (802.1Q, table 8-1; RFC 7130, 2.3)
            let mut out = Vec::new();
            self.groups.receive(from, &frame.to_vec(), at_ps, &mut out);
            self.follow_groups(out, at_ps);
            return;
        }
        let group = self.groups.of(from);
        if group.is_some() && !self.groups.collects(from) {
            port.counters.uncollected.add(1);
            return;
        }
        if let Some(Recent { vlan, to, .. }) = self.recent(from, addresses, at_ps) {
            self.send(to, frame, (vlan, addresses.tag), at_ps);
            return;
        }
        let Addresses { destination, source, tag } = addresses;
        let Some(vlan) = port.vlans.of_incoming(tag.map(TagControl::vlan)) else {
            port.counters.vlan.add(1);
            return;
        };
        let counters = Arc::clone(&port.counters);
        let tags = (vlan, tag);
        let came = group.map_or(Egress::Port(from), Egress::Group);
        if source.cast() == Cast::Unicast {
            self.learn((vlan, source), came, at_ps);
        }
        let known =
            self.table.get(&(vlan, destination)).filter(|_| destination.cast() == Cast::Unicast);
        match known {
            Some((to, seen_ps)) if at_ps.saturating_sub(*seen_ps) < AGEING_PS => {
                let to = *to;
                if to != came {
                    let changes = self.changes;
                    if let Some(port) = self.ports.get_mut(from) {
                        port.recent = Some(Recent { addresses, vlan, to, at_ps, changes });
                    }
                    self.send(to, frame, tags, at_ps);
                }
            }
            _ => {
                counters.flooded.add(1);
                for to in self.ports.numbers().filter(|to| *to != from) {
                    if self.groups.of(to).is_none() {
                        self.queue(to, frame.clone(), tags, at_ps);
                    }
                }
                // a group gets one copy, by the port that balancing chooses
                for to in self.groups.numbers().filter(|to| Egress::Group(*to) != came) {
                    self.send(Egress::Group(to), frame.clone(), tags, at_ps);
                }
            }
        }
    }

    /// Queues a frame before the port that leads to `to`.
    fn send(&mut self, to: Egress, frame: WireFrame, tags: Tags, at_ps: u64) {
        let port = match to {
            Egress::Port(port) => Some(port),
            Egress::Group(group) => self.groups.choose(group, frame.head(), frame.len(), at_ps),
        };
        if let Some(port) = port {
            self.queue(port, frame, tags, at_ps);
        }
    }

    fn learn(&mut self, key: (u16, MacAddress), egress: Egress, now_ps: u64) {
        if self.table.len() >= ADDRESSES && !self.table.contains_key(&key) {
            self.table.retain(|_, (_, seen_ps)| now_ps.saturating_sub(*seen_ps) < AGEING_PS);
            self.changes += 1;
        }
        // a full table learns nothing more, and floods
        if self.table.len() < ADDRESSES || self.table.contains_key(&key) {
            let before = self.table.insert(key, (egress, now_ps));
            self.changes += u64::from(before.is_none_or(|(before, _)| before != egress));
        }
    }

    /// Queues frames that came together before a port. Where nothing takes time, they leave together
    /// too.
    fn queue_burst(&mut self, to: usize, burst: Burst, tags: Tags, at_ps: u64) {
        let Some(port) = self.ports.get_mut(to) else { return };
        let (vlan, tag) = tags;
        let tagging = port.vlans.of_outgoing(vlan, tag.map(TagControl::vlan));
        let as_it_came = tagging.is_some_and(|tagging| wanted_tag(tagging, tags).is_none());
        if as_it_came && !port.line.takes_time() {
            let out = port.line.occupy(at_ps.max(port.not_before_ps), 0);
            port.in_flight.outwards.add(out.end_ps, burst);
        } else {
            burst.each().for_each(|frame| self.queue(to, frame, tags, at_ps));
        }
    }

    /// Queues a frame before a port, if the port is a member of its VLAN.
    fn queue(&mut self, to: usize, frame: WireFrame, tags: Tags, at_ps: u64) {
        let Some(port) = self.ports.get_mut(to) else { return };
        let (vlan, tag) = tags;
        let Some(tagging) = port.vlans.of_outgoing(vlan, tag.map(TagControl::vlan)) else { return };
        let frame = match wanted_tag(tagging, tags) {
            Some(wanted) => {
                retagged(frame.head(), wanted).map_or(frame.clone(), |head| frame.with_head(head))
            }
            None => frame,
        };
        let ready_ps = at_ps.max(port.not_before_ps);
        if port.line.free_at_ps().saturating_sub(ready_ps) > port.queue_ps {
            port.counters.full.add(1);
            return;
        }
        let out = port.line.occupy(ready_ps, frame.len());
        port.counters.transit_ns.add(out.end_ps.saturating_sub(at_ps) / PS_PER_NS);
        port.in_flight.outwards.add(out.end_ps, frame);
    }
}

/// The tag, or its absence, that a frame leaves with; `None` if it leaves as it came.
fn wanted_tag(tagging: Tagging, (vlan, tag): Tags) -> Option<Option<TagControl>> {
    match (tagging, tag) {
        (Tagging::Tagged, None) => Some(Some(TagControl(vlan))),
        // it had a priority, which it keeps
        (Tagging::Tagged, Some(had)) if had.vlan() != vlan => Some(Some(had.with_vlan(vlan))),
        (Tagging::Untagged, Some(_)) => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
