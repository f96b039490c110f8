//! Groups of a switch's ports that lead to one aggregate (IEEE 802.1AX).
//!
//! An address behind a group has one entry in the forwarding table. The switch balances the frames to
//! a group by the same choices as the host.

use std::collections::HashSet;

use linkrate_terms::AggregateKnobs;
use linkrate_wire::balance::Balancer;

/// A group to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    /// The numbers of the switch's ports.
    pub ports: Vec<usize>,
    /// Mode and balancing. The number of ports in use is that of `ports`.
    pub knobs: AggregateKnobs,
}

#[derive(Debug)]
struct Group {
    ports: Vec<usize>,
    balancer: Balancer,
}

/// The groups of a switch.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By number.
    groups: Vec<Option<Group>>,
    /// The group of each port, by the port's number.
    of: Vec<Option<usize>>,
    /// Ports without a carrier.
    down: HashSet<usize>,
}

impl Groups {
    /// Makes, changes or removes a group.
    pub(super) fn set(&mut self, number: usize, spec: Option<GroupSpec>) {
        for of in &mut self.of {
            of.take_if(|of| *of == number);
        }
        if self.groups.len() <= number {
            self.groups.resize_with(number + 1, || None);
        }
        let Some(GroupSpec { ports, knobs }) = spec else {
            self.groups[number] = None;
            return;
        };
        for port in &ports {
            if self.of.len() <= *port {
                self.of.resize(port + 1, None);
            }
            self.of[*port] = Some(number);
        }
        self.groups[number] = Some(Group { ports, balancer: Balancer::new(knobs.balance) });
        self.share(number);
    }

    /// The group of a port.
    pub(super) fn of(&self, port: usize) -> Option<usize> {
        self.of.get(port).copied().flatten()
    }

    /// The numbers of the groups.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let groups = self.groups.iter().enumerate();
        let numbers: Vec<usize> =
            groups.filter_map(|(number, group)| group.is_some().then_some(number)).collect();
        numbers.into_iter()
    }

    /// Whether frames from a port of a group are taken.
    pub(super) fn collects(&self, port: usize) -> bool {
        !self.down.contains(&port)
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
        let index = group.balancer.choose(at_ps / 1000, head, length, 0)?;
        group.ports.get(index).copied()
    }

    /// A port has got or lost its carrier.
    pub(super) fn set_link(&mut self, port: usize, up: bool) {
        let changed = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if let Some(number) = self.of(port).filter(|_| changed) {
            self.share(number);
        }
    }

    /// Decides which ports of a group carry traffic.
    fn share(&mut self, number: usize) {
        let Some(Some(group)) = self.groups.get_mut(number) else { return };
        let up = |index: &usize| !self.down.contains(&group.ports[*index]);
        let active: Vec<usize> = (0..group.ports.len()).filter(up).collect();
        group.balancer.set_active(&active);
    }
}
