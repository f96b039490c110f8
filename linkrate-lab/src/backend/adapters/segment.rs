//! A segment of virtual adapters: the ports on one fabric, of the system under test and of clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use linkrate_adapter::{Aggregate, Discard, Port};
use linkrate_model::model::LinkKind;
use linkrate_model::topology::{self, Fabric};
use linkrate_model::{AtmKnobs, BitRate, InterfaceKnobs, Model};

use super::{Vlans, client_knobs, effective_knobs, with_aggregate, with_port};
use crate::error::LabError;
use crate::host::typed_name;

#[derive(Debug)]
pub struct Segment {
    /// Its part of the topology.
    pub topology: topology::Segment,
    /// The ports of the system under test; at least one.
    pub ports: Vec<SutPort>,
    pub clients: Vec<Port>,
    /// The aggregate of these ports. It ends after them.
    pub aggregate: Option<Arc<Aggregate>>,
    /// The fabric with its device thread. It ends after its ports.
    pub joined: linkrate_adapter::Segment,
}

#[derive(Debug)]
pub struct SutPort {
    /// Its number, through all adapters.
    pub number: u32,
    pub port: Port,
}

impl SutPort {
    pub(super) fn name(&self) -> &str {
        self.port.name()
    }
}

impl Segment {
    /// Sets the knobs of the SUT's ports and of the aggregate that `interfaces` name, and at the ports
    /// of their clients those that must be the same. Adds the effective knobs of each interface to
    /// `effective`.
    pub(super) fn set_knobs(
        &self,
        model: &Model,
        interfaces: &[String],
        asked: &InterfaceKnobs,
        effective: &mut BTreeMap<String, InterfaceKnobs>,
    ) -> Result<(), LabError> {
        let named = |name: &str| interfaces.iter().any(|on| on == name);
        let aggregate = self.aggregate.as_deref().filter(|aggregate| named(aggregate.name()));
        let of_named = |port: &SutPort| aggregate.is_some() || named(port.name());
        let knobs = model.defaults.with(asked);
        let atm = asked.atm.over(&AtmKnobs::default());
        if self.ports.iter().any(of_named) && model.link == LinkKind::Atm {
            let (early, partial) = (atm.early_discard, atm.partial_discard);
            self.joined.set_discard(Discard { early, partial })?;
        }
        for port in self.ports.iter().filter(|port| of_named(port)) {
            port.port.set_knobs(knobs.clone());
            port.port.set_atm_knobs(atm.clone());
        }
        for (index, client) in self.clients.iter().enumerate() {
            // a client behind a bridge has a link of its own
            let shares_link = !self.topology.is_bridged(index);
            if shares_link && of_named(&self.ports[self.topology.port_of(index)]) {
                client.set_knobs(client_knobs(&model.defaults, &knobs));
            }
        }
        for port in self.ports.iter().filter(|port| of_named(port)) {
            let of_the_port = effective_knobs(&port.port)?;
            let interface = self.interface_of(port);
            if let Some(knobs) = effective.get_mut(interface) {
                *knobs = with_port(knobs.clone(), of_the_port);
            }
        }
        if let Some(aggregate) = aggregate
            && let Some(knobs) = effective.get_mut(aggregate.name())
        {
            *knobs = with_aggregate(knobs.clone(), aggregate)?;
        }
        Ok(())
    }

    /// The number of the emulated LAN that a port is in; `None` where all are in one, or in none.
    pub(super) fn elan_of(&self, port: &Port) -> Option<usize> {
        let is_it = |other: &Port| other.name() == port.name();
        let of_client = || {
            let client = self.clients.iter().position(is_it)?;
            Some(self.topology.port_of(client))
        };
        let elan = self.ports.iter().position(|end| is_it(&end.port)).or_else(of_client);
        elan.filter(|_| !self.topology.elans.is_empty())
    }

    /// The ports that have the link of one of them: itself, and other clients of emulated LANs on it.
    pub(super) fn sharing<'a>(&'a self, port: &'a Port) -> Vec<&'a Port> {
        let of_sut = self.ports.iter().any(|end| end.name() == port.name());
        if of_sut && !self.topology.elans.is_empty() {
            return self.ports.iter().map(|end| &end.port).collect();
        }
        vec![port]
    }

    /// The clients' ports, by the names that people use.
    pub(crate) fn client_names(&self) -> Vec<String> {
        self.clients.iter().map(|port| typed_name(port.name())).collect()
    }

    /// The SUT's interface that a port belongs to.
    pub(super) fn interface_of<'a>(&'a self, port: &'a SutPort) -> &'a str {
        self.aggregate.as_deref().map_or(port.name(), Aggregate::name)
    }

    /// Makes the switch's ports what the ports of the SUT are: a group, or each apart from the others.
    pub(super) fn group(&self) -> Result<(), LabError> {
        match (&self.aggregate, &self.ports[..]) {
            (Some(aggregate), _) => {
                self.undivide()?;
                self.follow(&aggregate.applied_knobs()?)
            }
            (None, [_, _, ..]) => self.divide(),
            (None, _) => Ok(()),
        }
    }

    /// Gives each of several ports a VLAN of its own with the clients that it leads to. Otherwise the
    /// SUT would answer ARP requests for the address of one port on the others as well.
    fn divide(&self) -> Result<(), LabError> {
        let ports = self.ports.iter().map(|port| &port.port).enumerate();
        let clients = self.clients.iter().enumerate();
        let clients = clients.map(|(index, client)| (self.topology.port_of(index), client));
        for (port, end) in ports.chain(clients) {
            let vlan = Vlans::Access(1 + port as u16);
            // an ATM switch has none: the clients of a port are in emulated LANs of their own
            let mut links = end.links().filter(|link| link.vlans().is_some());
            links.try_for_each(|link| link.set_vlans(vlan.clone()))?;
        }
        Ok(())
    }

    /// Makes each port a member of all VLANs, as the ports of an aggregate and their clients are.
    fn undivide(&self) -> Result<(), LabError> {
        let all = self.all_ports().flat_map(|port| port.links().collect::<Vec<_>>());
        for link in all.filter(|link| link.vlans().is_some()) {
            link.set_vlans(Vlans::All)?;
        }
        Ok(())
    }

    /// Every port, those of the system under test first.
    pub(super) fn all_ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().map(|port| &port.port).chain(&self.clients)
    }

    /// Lets the links of one of its ports run at another rate: both ends of a cable, or the port and
    /// the switch's port that it leads to.
    pub fn set_link_rate(&self, port: &Port, rate: BitRate) {
        let set = |port: &Port| port.links().for_each(|link| link.set_rate(rate));
        match self.topology.fabric {
            Fabric::Switch | Fabric::Bridged | Fabric::Switches | Fabric::Router(_) => set(port),
            Fabric::Cable => self.all_ports().for_each(set),
        }
    }
}
