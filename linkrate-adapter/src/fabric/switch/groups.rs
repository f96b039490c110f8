//! Groups of a switch's ports that lead to one aggregate (IEEE 802.1AX).
//!
//! An address behind a group has one entry in the forwarding table. The switch balances the frames to
//! a group by the same choices as the host. The ports of a failover group are single ports: the switch
//! learns behind which of them the host is, and answers BFD on each.

use std::collections::HashMap;
use std::time::Duration;

use linkrate_model::AggregateKnobs;
use linkrate_model::knobs::AggregateMode;
use linkrate_wire::balance::{Balancer, PortIndex};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::lro::{Parts, Row};

use super::QUEUE_BYTES;
use crate::aggregate::decisions::DecisionLog;
use crate::aggregate::membership::{Membership, Message, PortLink, Role, fresh_balancer};
use crate::clock::time;
use crate::frame::Burst;

#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    pub ports: Vec<GroupPort>,
    /// Mode and balancing.
    pub knobs: AggregateKnobs,
    /// Where the switch writes its decisions about these ports.
    pub decisions: DecisionLog,
}

#[cfg(test)]
impl GroupSpec {
    /// A group of these ports in the order of their places. As many as the knobs say are in use.
    pub(crate) fn of(ports: impl IntoIterator<Item = usize>, knobs: AggregateKnobs) -> Self {
        let ports = ports.into_iter().enumerate().map(|(place, port)| {
            let in_use = place < knobs.aggregate as usize;
            GroupPort { port, place, in_use }
        });
        Self { ports: ports.collect(), knobs, decisions: DecisionLog::default() }
    }
}

/// A port of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPort {
    /// The number of the switch's port.
    pub port: usize,
    /// The place in the aggregate of the port that it leads to, less than
    /// [`MAX_PORTS`](linkrate_wire::balance::MAX_PORTS).
    pub place: usize,
    /// It may carry traffic. Another one forwards nothing.
    pub in_use: bool,
}

#[derive(Debug)]
struct Group {
    /// By their places in the aggregate; a port that has left leaves its place.
    ports: Vec<Option<usize>>,
    membership: Membership,
    balancer: Balancer,
    /// The decision that the balancer follows.
    follows: u64,
    /// Ports that flows have left since [`Groups::take_left`].
    left: Vec<usize>,
}

/// Ports of a group that flows have left for other ones.
#[derive(Debug)]
pub(super) struct Left {
    /// The ports that have a carrier. One without loses what waits before it.
    pub(super) ports: Vec<usize>,
    /// All ports of the group.
    pub(super) all: Vec<usize>,
    /// How long a frame may still take to the host's stack after it has left a port.
    pub(super) margin_ps: u64,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The number of the switch among those of its fabric.
    switch: u8,
    /// By number.
    groups: Vec<Option<Group>>,
    /// The group of each port and its place there, by the port's number.
    of: Vec<Option<(usize, usize)>>,
    links: HashMap<usize, PortLink>,
}

/// The address of a switch in the group of that number.
fn address(switch: u8, group: usize) -> MacAddress {
    MacAddress([0x02, 0, 0xff, 0xff, group as u8, switch])
}

impl Groups {
    /// The groups of a switch with that number in its fabric.
    pub(super) fn of_switch(switch: u8) -> Self {
        Self { switch, ..Self::default() }
    }

    /// Makes or changes a group. Ports that stay keep their state.
    pub(super) fn set(
        &mut self,
        number: usize,
        GroupSpec { ports, knobs, decisions }: GroupSpec,
        at_ps: u64,
        out: &mut Vec<Message>,
    ) {
        for of in &mut self.of {
            of.take_if(|(group, _)| *group == number);
        }
        if self.groups.len() <= number {
            self.groups.resize_with(number + 1, || None);
        }
        let (now, mut messages, switch) = (time(at_ps), Vec::new(), self.switch);
        let mut group = self.groups[number].take().unwrap_or_else(|| Group {
            ports: Vec::new(),
            membership: Membership::new(Role::Switch, address(switch, number), knobs.clone()),
            balancer: fresh_balancer(knobs.switch_balance, 0, 0),
            follows: 0,
            left: Vec::new(),
        });
        group.membership.log_to(decisions.about(ports.iter().map(|of| of.place)));
        group.membership.set_knobs(now, knobs.clone(), &mut messages);
        let stays =
            |place: usize, port: usize| ports.iter().any(|of| (of.place, of.port) == (place, port));
        for place in 0..group.ports.len() {
            if group.ports[place].is_some_and(|port| !stays(place, port)) {
                group.membership.remove(now, place, &mut messages);
                group.settle(at_ps, std::mem::take(&mut messages), out);
                group.ports[place] = None;
            }
        }
        for GroupPort { port, place, in_use } in ports {
            if self.of.len() <= port {
                self.of.resize(port + 1, None);
            }
            self.of[port] = Some((number, place));
            if group.ports.len() <= place {
                group.ports.resize(place + 1, None);
            }
            group.ports[place] = Some(port);
            if !in_use {
                group.membership.remove(now, place, &mut messages);
                continue;
            }
            let link = self.links.get(&port).copied();
            let link = link.unwrap_or(PortLink { up: true, rate: None });
            group.membership.set_link(now, place, link, &mut messages);
        }
        if group.balancer.balance() != knobs.switch_balance {
            // any flow may have another port now
            let before =
                std::mem::replace(&mut group.balancer, fresh_balancer(knobs.switch_balance, 0, 0));
            group.leave(before.active());
            group.follows = 0;
        }
        group.settle(at_ps, messages, out);
        self.groups[number] = Some(group);
    }

    /// Forgets a group and everything that it agreed on.
    pub(super) fn forget(&mut self, number: usize) {
        if let Some(group) = self.groups.get_mut(number) {
            *group = None;
        }
        for of in &mut self.of {
            of.take_if(|(group, _)| *group == number);
        }
    }

    /// The group of a port that frames to the group leave by; `None` for a single port, as each port of
    /// a failover group is.
    pub(super) fn of(&self, port: usize) -> Option<usize> {
        let (number, _) = self.place(port)?;
        self.groups.get(number)?.as_ref().filter(|group| group.is_one()).map(|_| number)
    }

    /// Whether a port leads to an aggregate.
    pub(super) fn has(&self, port: usize) -> bool {
        self.place(port).is_some()
    }

    /// Whether an address is that of the switch's own end of the link at a port.
    pub(super) fn is_own(&self, port: usize, address: MacAddress) -> bool {
        let Some((group, place)) = self.place(port) else { return false };
        let group = self.groups.get(group).and_then(Option::as_ref);
        group.is_some_and(|group| group.membership.port_address(place) == address)
    }

    /// The group of a port and its place there.
    fn place(&self, port: usize) -> Option<(usize, usize)> {
        self.of.get(port).copied().flatten()
    }

    /// The numbers of the groups that frames go to.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let groups = self.groups.iter().enumerate();
        let numbers: Vec<usize> = groups
            .filter(|(_, group)| group.as_ref().is_some_and(Group::is_one))
            .map(|(number, _)| number)
            .collect();
        numbers.into_iter()
    }

    /// Whether frames from a port of a group are taken.
    pub(super) fn collects(&self, port: usize) -> bool {
        self.place(port).is_some_and(|(number, place)| {
            let group = self.groups.get(number).and_then(Option::as_ref);
            group.is_some_and(|group| group.membership.collects(place))
        })
    }

    /// The port for a frame to a group; `None` while none of its ports carries traffic.
    pub(super) fn choose(
        &mut self,
        number: usize,
        head: &[u8],
        length: usize,
        at_ps: u64,
    ) -> Option<usize> {
        let group = self.groups.get_mut(number)?.as_mut()?;
        let place = group.balancer.choose(at_ps, head, length, 0)?;
        group.ports.get(place.at()).copied().flatten()
    }

    /// The port for frames of one flow to a group; `None` also where each frame needs
    /// [`choose`](Self::choose).
    pub(super) fn choose_together(
        &mut self,
        number: usize,
        burst: &Burst,
        at_ps: u64,
    ) -> Option<usize> {
        let group = self.groups.get_mut(number)?.as_mut()?;
        let (first, bytes) = (burst.lengths().next()?, burst.lengths().sum::<usize>());
        let all = (burst.frames() as u64, bytes as u64);
        let place = group.balancer.choose_together(at_ps, burst.head(), first, all)?;
        group.ports.get(place.at()).copied().flatten()
    }

    /// A port has another rate, or has got or lost its carrier.
    pub(super) fn set_link(
        &mut self,
        port: usize,
        link: PortLink,
        at_ps: u64,
        out: &mut Vec<Message>,
    ) {
        let changed = self.links.insert(port, link) != Some(link);
        if changed {
            self.with(port, at_ps, out, |membership, place, now, messages| {
                membership.set_link(now, place, link, messages);
            });
        }
    }

    /// Takes a frame that a port of a group brought and that is about the link.
    pub(super) fn receive(
        &mut self,
        port: usize,
        frame: &[u8],
        at_ps: u64,
        out: &mut Vec<Message>,
    ) {
        self.with(port, at_ps, out, |membership, place, now, messages| {
            membership.receive(now, place, frame, messages);
        });
    }

    pub(super) fn due_ps(&self) -> Option<u64> {
        let due = self.groups.iter().flatten().filter_map(|group| group.membership.due()).min()?;
        // a time that is due must not be a little before its moment
        Some(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX / 1000).saturating_mul(1000))
    }

    /// Does the work that is due, and appends frames with the ports that they leave by.
    pub(super) fn poll(&mut self, at_ps: u64, out: &mut Vec<Message>) -> bool {
        let now = time(at_ps);
        let mut any = false;
        for group in self.groups.iter_mut().flatten() {
            if group.membership.due().is_none_or(|due| due > now) {
                continue;
            }
            any = true;
            let mut messages = Vec::new();
            group.membership.poll(now, &mut messages);
            group.settle(at_ps, messages, out);
        }
        any
    }

    /// The ports that flows have left since the last call.
    pub(super) fn take_left(&mut self) -> impl Iterator<Item = Left> {
        let Self { groups, links, .. } = self;
        groups.iter_mut().flatten().filter(|group| !group.left.is_empty()).map(|group| {
            let mut ports = std::mem::take(&mut group.left);
            ports.retain(|port| links.get(port).is_some_and(|link| link.up));
            let all = group.ports.iter().copied().flatten().collect();
            Left { ports, all, margin_ps: group.membership.quiet_ps(0) }
        })
    }

    fn with(
        &mut self,
        port: usize,
        at_ps: u64,
        out: &mut Vec<Message>,
        work: impl FnOnce(&mut Membership, usize, Duration, &mut Vec<Message>),
    ) {
        let Some((number, place)) = self.place(port) else { return };
        let Some(Some(group)) = self.groups.get_mut(number) else { return };
        let mut messages = Vec::new();
        work(&mut group.membership, place, time(at_ps), &mut messages);
        group.settle(at_ps, messages, out);
    }
}

impl Group {
    /// Whether its ports act as one.
    fn is_one(&self) -> bool {
        self.membership.knobs().mode != AggregateMode::Failover
    }

    /// Lets the balancer follow the decision, and appends the frames with the ports they leave by.
    fn settle(&mut self, at_ps: u64, messages: Vec<Message>, out: &mut Vec<Message>) {
        self.follow(at_ps);
        let port = |place: usize| self.ports.get(place).copied().flatten();
        out.extend(messages.into_iter().filter_map(|(place, frame)| Some((port(place)?, frame))));
    }

    fn follow(&mut self, at_ps: u64) {
        if self.follows != self.membership.changes() {
            self.follows = self.membership.changes();
            let active = self.membership.active();
            let left = self.balancer.active().iter().filter(|place| !active.contains(place));
            let left: Vec<PortIndex> = left.copied().collect();
            self.leave(&left);
            self.balancer.set_quiet(self.membership.quiet_ps(QUEUE_BYTES));
            // every port of a group has a place in its balancer
            let _ = self.balancer.set_active(at_ps, &active);
        }
    }

    /// Notes that flows leave these ports.
    fn leave(&mut self, places: &[PortIndex]) {
        let ports = places.iter().filter_map(|place| self.ports.get(place.at()).copied().flatten());
        self.left.extend(ports);
    }
}
