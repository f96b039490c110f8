//! Groups of a switch's ports that lead to one aggregate (IEEE 802.1AX).
//!
//! An address behind a group has one entry in the forwarding table. The switch balances the frames to
//! a group by the same choices as the host. The ports of a failover group are single ports: the switch
//! learns behind which of them the host is, and answers BFD on each.

use std::collections::HashMap;
use std::time::Duration;

use linkrate_terms::AggregateKnobs;
use linkrate_terms::knobs::AggregateMode;
use linkrate_wire::balance::Balancer;
use linkrate_wire::frame::MacAddress;

use super::QUEUE_BYTES;
use crate::aggregate::decisions::DecisionLog;
use crate::aggregate::fresh_balancer;
use crate::aggregate::membership::{Membership, Message, PortLink, Role};

/// A group to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    /// The numbers of the switch's ports.
    pub ports: Vec<usize>,
    /// Mode, balancing, and the number of ports in use, from the first. The others forward nothing.
    pub knobs: AggregateKnobs,
    /// Where the switch writes its decisions about these ports.
    pub decisions: DecisionLog,
}

/// A group. Its ports have places, from 0; a port that has left keeps its place.
#[derive(Debug)]
struct Group {
    ports: Vec<usize>,
    membership: Membership,
    balancer: Balancer,
    /// The decision that the balancer follows.
    follows: u64,
}

/// The groups of a switch.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The number of the switch among those of its fabric.
    switch: u8,
    /// By number.
    groups: Vec<Option<Group>>,
    /// The group of each port and its place there, by the port's number.
    of: Vec<Option<(usize, usize)>>,
    /// The links of the switch's ports.
    links: HashMap<usize, PortLink>,
}

/// The address of a switch in the group of that number.
fn address(switch: u8, group: usize) -> MacAddress {
    MacAddress([0x02, 0, 0xff, 0xff, group as u8, switch])
}

fn time(at_ps: u64) -> Duration {
    Duration::from_nanos(at_ps / 1000)
}

impl Groups {
    /// The groups of a switch with that number in its fabric.
    pub(super) fn of_switch(switch: u8) -> Self {
        Self { switch, ..Self::default() }
    }

    /// Makes or changes a group.
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
        // ports that stay keep their places and their state
        let mut group = self.groups[number].take().unwrap_or_else(|| Group {
            ports: Vec::new(),
            membership: Membership::new(Role::Switch, address(switch, number), knobs.clone()),
            balancer: fresh_balancer(knobs.switch_balance, 0, 0),
            follows: 0,
        });
        group.membership.log_to(decisions);
        group.membership.set_knobs(now, knobs.clone(), &mut messages);
        for (place, port) in group.ports.iter().enumerate() {
            if !ports.contains(port) {
                group.membership.remove(now, place, &mut messages);
            }
        }
        for (number_there, port) in ports.into_iter().enumerate() {
            let place = group.place(port);
            if self.of.len() <= port {
                self.of.resize(port + 1, None);
            }
            self.of[port] = Some((number, place));
            if number_there >= knobs.aggregate as usize {
                group.membership.remove(now, place, &mut messages);
                continue;
            }
            let link = self.links.get(&port).copied();
            let link = link.unwrap_or(PortLink { up: true, rate: None });
            group.membership.set_link(now, place, link, &mut messages);
        }
        if group.balancer.balance() != knobs.switch_balance {
            group.balancer = fresh_balancer(knobs.switch_balance, 0, 0);
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
        group.ports.get(place.at()).copied()
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

    /// When [`poll`](Self::poll) has something to do.
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

    /// The place of a port, a new one if it has none.
    fn place(&mut self, port: usize) -> usize {
        self.ports.iter().position(|other| *other == port).unwrap_or_else(|| {
            self.ports.push(port);
            self.ports.len() - 1
        })
    }

    /// Lets the balancer follow the decision, and appends the frames with the ports they leave by.
    fn settle(&mut self, at_ps: u64, messages: Vec<Message>, out: &mut Vec<Message>) {
        self.follow(at_ps);
        out.extend(messages.into_iter().map(|(place, frame)| (self.ports[place], frame)));
    }

    /// Lets the balancer follow the decision.
    fn follow(&mut self, at_ps: u64) {
        if self.follows != self.membership.changes() {
            self.follows = self.membership.changes();
            self.balancer.set_quiet(self.membership.quiet_ps(QUEUE_BYTES));
            // every port of a group has a place in its balancer
            let _ = self.balancer.set_active(at_ps, &self.membership.active());
        }
    }
}
