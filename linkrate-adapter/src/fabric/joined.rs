//! Two switches with a link between them, or with a router on that link.
//!
//! The link has the rate of all ports together, so that it limits nothing. There is one link, and so no
//! loop.

use linkrate_model::BitRate;
use linkrate_model::topology::Gateways;
use linkrate_wire::link::LinkLaw;

use super::router::Router;
use super::{Fabric, FabricCommand, GroupPort, GroupSpec, InFlight, Switch};
use crate::clock::earlier;
use crate::link::LinkSpec;
use crate::pdu::Pdu;

/// The port of both switches that leads to the other one.
const BETWEEN: usize = 0;

#[derive(Debug, Clone, Copy)]
struct Port {
    switch: usize,
    rate: Option<BitRate>,
}

/// Two switches, and what is between them.
#[derive(Debug)]
pub(crate) struct Joined {
    switches: [Switch; 2],
    router: Option<Router>,
    /// By number; a port that was removed leaves its place.
    ports: Vec<Option<Port>>,
    linked: bool,
}

/// The number of a port of the fabric at its switch.
fn at_switch(port: usize) -> usize {
    BETWEEN + 1 + port
}

impl Joined {
    pub(crate) fn by_a_link() -> Self {
        let switches = [Switch::numbered(0), Switch::numbered(1)];
        Self { switches, router: None, ports: Vec::new(), linked: false }
    }

    pub(crate) fn by_a_router(gateways: Gateways) -> Self {
        Self { router: Some(Router::new(gateways)), ..Self::by_a_link() }
    }

    fn port(&self, number: usize) -> Option<Port> {
        self.ports.get(number).copied().flatten()
    }

    /// Gives the link between the switches the rate of all ports together.
    fn set_rate_between(&mut self, law: Option<LinkLaw>) {
        let rates = self.ports.iter().flatten().map(|port| port.rate.map(|rate| rate.0));
        let rate = rates.sum::<Option<f64>>().filter(|rate| *rate > 0.0).map(BitRate);
        for switch in &mut self.switches {
            match law.filter(|_| !self.linked) {
                Some(law) => switch.attach(BETWEEN, LinkSpec { law, rate }, 0),
                None => switch.set_link(BETWEEN, rate, true),
            }
        }
        self.linked |= law.is_some();
    }

    /// Each switch has the part of the group that is on it: it is a partner of its own.
    fn set_group(&mut self, number: usize, GroupSpec { ports, knobs, decisions }: &GroupSpec) {
        for switch in 0..self.switches.len() {
            let here = |of: &&GroupPort| self.port(of.port).is_some_and(|on| on.switch == switch);
            // a switch without a port of it forgets the group
            let ports = ports.iter().filter(here);
            let ports = ports.map(|of| GroupPort { port: at_switch(of.port), ..*of }).collect();
            let (knobs, decisions) = (knobs.clone(), decisions.clone());
            self.switches[switch].set_group(number, GroupSpec { ports, knobs, decisions });
        }
    }

    /// Carries the frames that leave a switch for the other one by `now_ps`.
    fn carry(&mut self, from: usize, now_ps: u64) -> bool {
        let mut any = false;
        let mut out = Vec::new();
        while let Some((at_ps, pdu)) =
            self.switches[from].to(BETWEEN).and_then(|in_flight| in_flight.arrived(now_ps))
        {
            any = true;
            let Some(router) = &mut self.router else {
                self.switches[1 - from].enter(BETWEEN, pdu, at_ps);
                continue;
            };
            let Some(burst) = pdu.into_frames() else { continue };
            burst.each().for_each(|frame| router.take(from, frame, at_ps, &mut out));
            for (to, frame) in out.drain(..) {
                self.switches[to].enter(BETWEEN, frame.into(), at_ps);
            }
        }
        any
    }
}

impl Fabric for Joined {
    fn attach(&mut self, number: usize, link: LinkSpec, switch: usize) {
        let switch = switch.min(1);
        if self.ports.len() <= number {
            self.ports.resize(number + 1, None);
        }
        self.ports[number] = Some(Port { switch, rate: link.rate });
        self.switches[switch].attach(at_switch(number), link, 0);
        self.set_rate_between(Some(link.law));
    }

    fn detach(&mut self, number: usize) {
        if let Some(port) = self.ports.get_mut(number).and_then(Option::take) {
            self.switches[port.switch].detach(at_switch(number));
            self.set_rate_between(None);
        }
    }

    fn set_link(&mut self, number: usize, rate: Option<BitRate>, up: bool) {
        let Some(Some(port)) = self.ports.get_mut(number) else { return };
        port.rate = rate;
        self.switches[port.switch].set_link(at_switch(number), rate, up);
        self.set_rate_between(None);
    }

    fn cut(&mut self, number: usize, now_ps: u64) {
        if let Some(port) = self.port(number) {
            self.switches[port.switch].cut(at_switch(number), now_ps);
        }
    }

    fn control(&mut self, command: FabricCommand) {
        match command {
            FabricCommand::SetGroup(number, group) => self.set_group(number, &group),
            FabricCommand::SetVlans(number, vlans, counters) => {
                let Some(port) = self.port(number) else { return };
                let command = FabricCommand::SetVlans(at_switch(number), vlans, counters);
                self.switches[port.switch].control(command);
            }
            FabricCommand::SetSwitchAlive(switch, alive) => {
                self.switches.get_mut(switch).into_iter().for_each(|one| one.set_alive(alive));
            }
            _ => {}
        }
    }

    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64) {
        if let Some(port) = self.port(from) {
            self.switches[port.switch].enter(at_switch(from), pdu, at_ps);
        }
    }

    fn forward(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        loop {
            let mut moved = false;
            for from in 0..self.switches.len() {
                moved |= self.switches[from].forward(now_ps);
                moved |= self.carry(from, now_ps);
            }
            if !moved {
                return any;
            }
            any = true;
        }
    }

    fn due_ps(&self, when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        let of =
            |switch: &Switch| earlier(switch.due_ps(when), switch.outwards(BETWEEN).and_then(when));
        let [one, other] = &self.switches;
        earlier(of(one), of(other))
    }

    fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        let switch = self.port(to)?.switch;
        self.switches[switch].to(at_switch(to))
    }
}

#[cfg(test)]
mod tests;
