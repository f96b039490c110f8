//! The topology of a testbed: which ports of the system under test (SUT) and which clients share a
//! segment, and which fabric joins them.
//!
//! Computed once from the [`TestbedSpec`] by [`Topology::of`]. Ports and clients have numbers that
//! are unique in the testbed; interface names, host names and addresses follow from the numbers.

mod regroup;

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::spec::{Adapter, TestbedSpec};

pub use regroup::RegroupError;

/// The last byte of a router's addresses.
const LAST: u8 = 254;

/// The SUT's interface of an aggregate.
const AGGREGATE: &str = "agg0";

/// The segments of a testbed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// In the order of their numbers.
    pub segments: Vec<Segment>,
}

/// A part of the topology: ports and clients that one fabric joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number, from 0.
    pub number: u32,
    /// What joins the ports and clients.
    pub fabric: Fabric,
    /// The number of the first port that it was made with. An aggregate and its clients keep the network
    /// and the Ethernet addresses of this number when that port leaves.
    pub home: u32,
    /// The SUT's ports, in the order of their places.
    pub ports: Vec<PortEnd>,
    /// Numbers of the clients, from 0.
    pub clients: Vec<u32>,
    /// The SUT's interface that all of these ports act as; `None` where each has its own.
    pub aggregate: Option<String>,
    /// With two switches, whether clients are on both in turn.
    pub spread_clients: bool,
    /// Clients on Ethernet, behind a bridge into the emulated LAN of the others: the last ones.
    pub bridged: u32,
    /// The emulated LANs of an ATM port: `ports` are then its clients, one for each, with an interface of
    /// the SUT. Empty where each port has its own.
    pub elans: Vec<String>,
}

/// A port of the SUT on a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortEnd {
    /// Its number, from 0, through all adapters of the SUT; the number of its network.
    pub number: u32,
    /// Its place among the ports of the segment, from 0. A port that leaves an aggregate leaves its place
    /// free, and the other ports keep theirs.
    pub place: usize,
    /// The name of its interface in the SUT.
    pub interface: String,
}

impl PortEnd {
    /// The port of that number on adapters that linkrate makes.
    fn made(number: u32, place: usize) -> Self {
        Self { number, place, interface: sut_interface(number) }
    }
}

/// What joins the ports and clients of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fabric {
    /// A cable between two ends.
    Cable,
    /// A switch.
    Switch,
    /// An ATM switch with the servers of an emulated LAN, and an Ethernet switch that is bridged into it:
    /// the last [`Segment::bridged`] clients are on Ethernet.
    Bridged,
    /// Two switches with a link between them that is as fast as all ports together.
    Switches,
    /// A switch with the SUT's ports, one with the clients, and a router between them.
    Router(Gateways),
}

/// The addresses of a router in the networks of the SUT and of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateways {
    /// Towards the SUT, and towards the clients.
    pub addresses: [Ipv4Addr; 2],
    /// Prefix length of both networks.
    pub prefix_length: u8,
}

impl Gateways {
    /// Its Ethernet addresses, towards the SUT and towards the clients.
    pub const MACS: [[u8; 6]; 2] = [[0x02, 0, 0xff, 0xfe, 0, 0], [0x02, 0, 0xff, 0xfe, 0, 1]];

    /// Whether the network of the clients has this address.
    #[must_use]
    pub fn leads_to(&self, client: Ipv4Addr) -> bool {
        let network =
            |of: Ipv4Addr| of.to_bits() >> (32 - u32::from(self.prefix_length.clamp(1, 32)));
        network(client) == network(self.addresses[1])
    }
}

impl Fabric {
    /// The fabric between `ends` ports and clients: a cable joins two, a switch more. An emulated LAN
    /// needs a switch, which has its servers.
    #[must_use]
    fn between(ends: usize, emulated: bool) -> Self {
        if ends > 2 || emulated { Self::Switch } else { Self::Cable }
    }

    /// The fabric between the ports of an aggregate and the clients.
    fn of_an_aggregate(spec: &TestbedSpec) -> Self {
        match (spec.router, spec.switches) {
            (true, _) => Self::Router(Gateways {
                addresses: [[198, 18, 0, LAST], [198, 19, 255, LAST]].map(Ipv4Addr::from),
                prefix_length: 24,
            }),
            (false, 2..) => Self::Switches,
            (false, _) => Self::Switch,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::Switch => "switch",
            Self::Bridged => "switch with a bridge",
            Self::Switches => "pair of switches",
            Self::Router(_) => "router",
        }
    }
}

impl Topology {
    /// The topology that `spec` asks for: on veth a segment for each client, with an aggregate one
    /// segment, otherwise a segment for each port with its share of the clients.
    #[must_use]
    pub fn of(spec: &TestbedSpec) -> Self {
        if spec.aggregate > 0 && matches!(spec.adapter, Adapter::Model(_)) {
            let port = |number: u32| PortEnd::made(number, number as usize);
            return Self {
                segments: vec![Segment {
                    number: 0,
                    fabric: Fabric::of_an_aggregate(spec),
                    home: 0,
                    ports: (0..spec.aggregate).map(port).collect(),
                    clients: (0..spec.clients.max(1)).collect(),
                    aggregate: Some(AGGREGATE.to_owned()),
                    spread_clients: spec.spread_clients,
                    bridged: 0,
                    elans: Vec::new(),
                }],
            };
        }
        let (names, per_segment, clients) = match &spec.adapter {
            Adapter::Veth | Adapter::Unknown => (None, 1, spec.clients.max(1)),
            Adapter::Model(_) => (None, spec.clients_per_port.max(1), spec.clients.max(1)),
            Adapter::Interfaces(on) => {
                let (ports, per_port) = (on.ports().min(spec.ports.max(1)), on.clients_per_port());
                (Some(&on.names), per_port.max(1), ports.saturating_mul(per_port))
            }
        };
        let emulated = matches!(&spec.adapter, Adapter::Model(model) if model.needs_switch());
        // the clients of a port's emulated LANs are on one switch
        let per_port = spec.elans.len().max(1) as u32;
        let per_segment = per_segment.saturating_mul(per_port);
        let segment = |number: u32| {
            let first = number * per_segment;
            let named = names.and_then(|names| names.get(number as usize)).cloned();
            let interface = named.unwrap_or_else(|| sut_interface(number));
            let last = first.saturating_add(per_segment).min(clients);
            let clients: Vec<u32> = (first..last).collect();
            let fabric = Fabric::between(1 + clients.len(), emulated);
            let bridged = spec.bridged_clients.min(clients.len() as u32);
            let port = PortEnd { number, place: 0, interface };
            let segment = Segment::new(number, fabric, port, clients);
            segment.bridging(bridged).emulating(&spec.elans)
        };
        Self { segments: (0..clients.div_ceil(per_segment)).map(segment).collect() }
    }

    /// The segment that one more port with `clients` clients makes; it takes the lowest numbers
    /// that are free.
    #[must_use]
    pub fn next(&self, clients: u32) -> Segment {
        let number = free(self.segments.iter().map(|segment| segment.number)).next().unwrap_or(0);
        let port = self.free_port(|_| true);
        let taken = self.segments.iter().flat_map(|segment| segment.clients.iter().copied());
        let clients: Vec<u32> = free(taken).take(clients as usize).collect();
        let emulated = self.segments.iter().any(Segment::is_emulated);
        let fabric = Fabric::between(1 + clients.len(), emulated);
        Segment::new(number, fabric, PortEnd::made(port, 0), clients)
    }

    /// The lowest number that no port has. The segments for which `keeps` is true keep the number of their
    /// first port, whose addresses are in use, also when this port has left.
    fn free_port(&self, keeps: impl Fn(&Segment) -> bool) -> u32 {
        let ports = self.segments.iter().flat_map(|segment| &segment.ports);
        let homes = self.segments.iter().filter(|segment| keeps(segment)).map(|of| of.home);
        free(ports.map(|port| port.number).chain(homes)).next().unwrap_or(0)
    }

    /// Adds a segment, in the order of numbers.
    pub fn add(&mut self, segment: Segment) {
        let at = self.segments.partition_point(|other| other.number < segment.number);
        self.segments.insert(at, segment);
    }

    /// The segment with the SUT's port or aggregate of that name.
    #[must_use]
    pub fn of_interface(&self, interface: &str) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.has_interface(interface))
    }
}

impl Segment {
    fn new(number: u32, fabric: Fabric, port: PortEnd, clients: Vec<u32>) -> Self {
        let (home, aggregate, spread_clients) = (port.number, None, false);
        let (ports, bridged, elans) = (vec![port], 0, Vec::new());
        Self { number, fabric, home, ports, clients, aggregate, spread_clients, bridged, elans }
    }

    /// With a client of each of these emulated LANs instead of its port.
    fn emulating(self, elans: &[String]) -> Self {
        if elans.is_empty() {
            return self;
        }
        let first = self.number * elans.len() as u32;
        let ports =
            (first..).zip(0..elans.len()).map(|(number, place)| PortEnd::made(number, place));
        Self { home: first, ports: ports.collect(), elans: elans.to_vec(), ..self }
    }

    /// The number of its ATM port among those of the SUT, or of its first port.
    #[must_use]
    pub fn adapter_port(&self, port: u32) -> u32 {
        port / self.elans.len().max(1) as u32
    }

    /// How many ports of the SUT are on it: an ATM port counts once, with all its emulated LANs.
    #[must_use]
    pub fn adapter_ports(&self) -> u32 {
        self.ports.len() as u32 / self.elans.len().max(1) as u32
    }

    /// With so many of its clients on Ethernet, behind a bridge.
    fn bridging(self, bridged: u32) -> Self {
        let fabric = if bridged > 0 { Fabric::Bridged } else { self.fabric };
        Self { fabric, bridged, ..self }
    }

    /// Whether its client `index` is on Ethernet, behind a bridge.
    #[must_use]
    pub fn is_bridged(&self, index: usize) -> bool {
        index + self.bridged as usize >= self.clients.len()
    }

    /// Two ends that have a switch nevertheless: it has the servers that they call.
    fn is_emulated(&self) -> bool {
        let is_pair = self.ports.len() == 1 && self.clients.len() < 2;
        let has_servers =
            self.fabric == Fabric::Bridged || is_pair && self.fabric == Fabric::Switch;
        has_servers && self.aggregate.is_none()
    }

    /// Whether it has the SUT's port or aggregate of that name.
    #[must_use]
    pub fn has_interface(&self, interface: &str) -> bool {
        self.aggregate.as_deref() == Some(interface)
            || self.ports.iter().any(|port| port.interface == interface)
    }

    /// The index of the port that leads to client `index`. The clients are shared out in blocks. All ports
    /// of an aggregate do, and the first stands for them.
    #[must_use]
    pub fn port_of(&self, index: usize) -> usize {
        match self.aggregate {
            Some(_) => 0,
            None => index * self.ports.len() / self.clients.len().max(1),
        }
    }

    /// The switch of the fabric that a port of the SUT leads to, from 0.
    #[must_use]
    pub fn switch_of_port(&self, port: &PortEnd) -> usize {
        if self.fabric == Fabric::Switches { port.place % 2 } else { 0 }
    }

    /// The switch of the fabric that client `index` leads to, from 0.
    #[must_use]
    pub fn switch_of_client(&self, index: usize) -> usize {
        match self.fabric {
            Fabric::Switches if self.spread_clients => index % 2,
            Fabric::Switches | Fabric::Router(_) => 1,
            Fabric::Cable | Fabric::Switch | Fabric::Bridged => 0,
        }
    }

    /// The router between the SUT and the clients, if there is one.
    #[must_use]
    pub fn gateways(&self) -> Option<Gateways> {
        match self.fabric {
            Fabric::Router(gateways) => Some(gateways),
            Fabric::Cable | Fabric::Switch | Fabric::Bridged | Fabric::Switches => None,
        }
    }

    /// Two switches, a line each, with what is between them; empty with another fabric.
    #[must_use]
    pub fn drawn(&self) -> Vec<String> {
        let between = match self.fabric {
            Fabric::Cable | Fabric::Switch | Fabric::Bridged => return Vec::new(),
            Fabric::Switches => "link as fast as all ports together".to_owned(),
            Fabric::Router(Gateways { addresses: [sut, clients], .. }) => {
                format!("router, {sut} to the sut and {clients} to the clients")
            }
        };
        let switch = |number: usize| {
            let ports = self.ports.iter().filter(|port| self.switch_of_port(port) == number);
            let clients = self.clients.iter().enumerate();
            let clients = clients.filter(|(index, _)| self.switch_of_client(*index) == number);
            let names: Vec<String> = ports
                .map(|port| port.interface.clone())
                .chain(clients.map(|(_, client)| format!("client-{client}")))
                .collect();
            format!("switch {number}: {}", names.join(", "))
        };
        vec![switch(0), format!("  │ {between}"), switch(1)]
    }

    /// The interface of the SUT that leads to client `index`.
    #[must_use]
    pub fn interface_of(&self, index: usize) -> &str {
        let of_port = || self.ports.get(self.port_of(index)).map_or("", |port| &port.interface);
        self.aggregate.as_deref().unwrap_or_else(of_port)
    }

    /// The address of its port `index`, for segments whose addresses linkrate chooses. Each port and
    /// its clients have a /24 of RFC 2544's benchmarking network 198.18.0.0/15, by the number of the
    /// port: the port has .1, and clients have addresses from .2 on. An aggregate has the network of the
    /// port that its segment was made with.
    #[must_use]
    pub fn port_address(&self, index: usize) -> Ipv4Addr {
        self.address(index, 0)
    }

    /// The address of its client `index`, in the network of the port that leads to it, or behind the
    /// router.
    #[must_use]
    pub fn client_address(&self, index: usize) -> Ipv4Addr {
        match self.gateways() {
            Some(Gateways { addresses: [_, gateway], .. }) => {
                let [a, b, c, _] = gateway.octets();
                Ipv4Addr::new(a, b, c, 2 + index as u8)
            }
            None => self.address(self.port_of(index), 1 + index),
        }
    }

    fn address(&self, port: usize, end: usize) -> Ipv4Addr {
        let network = match self.aggregate {
            Some(_) => self.home,
            None => self.ports.get(port).map_or(self.number, |port| port.number),
        };
        let second = 18 + (network / 256) as u8;
        Ipv4Addr::new(198, second, (network % 256) as u8, 1 + end as u8)
    }
}

/// The IPv6 address of the end that has this IPv4 address, for ends whose addresses linkrate chooses: it is
/// the last 32 bits of an address in RFC 5180's benchmarking network 2001:2::/48.
#[must_use]
pub fn ipv6_address(of: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = of.octets().map(u16::from);
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, a << 8 | b, c << 8 | d)
}

/// The IPv4 address of the end that has this IPv6 address; `None` of an address that linkrate did not choose.
#[must_use]
pub fn ipv4_address(of: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = of.octets();
    let address = Ipv4Addr::new(a, b, c, d);
    (ipv6_address(address) == of).then_some(address)
}

/// The SUT's interface of port `number` on adapters that linkrate makes.
fn sut_interface(number: u32) -> String {
    format!("eth{number}")
}

/// Numbers from 0 that are not taken, ascending.
fn free(taken: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let taken: Vec<u32> = taken.collect();
    (0..).filter(move |number| !taken.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::Interfaces;
    use crate::model;

    fn on_model(clients: u32, clients_per_port: u32) -> TestbedSpec {
        let adapter = Adapter::Model(Box::new(model::find("gigabit").unwrap()));
        TestbedSpec { adapter, clients, clients_per_port, ..TestbedSpec::default() }
    }

    #[test]
    fn the_last_clients_of_a_port_are_behind_a_bridge() {
        let adapter = Adapter::Model(Box::new(model::find("atm-155-lane-1516").unwrap()));
        let spec =
            TestbedSpec { adapter, clients: 4, clients_per_port: 2, ..TestbedSpec::default() };
        let spec = TestbedSpec { bridged_clients: 1, ports: 2, ..spec };
        assert_eq!(spec.check_bridge(), Ok(()));
        let topology = Topology::of(&spec);
        let expected = ["eth0 switch with a bridge [0, 1]", "eth1 switch with a bridge [2, 3]"];
        assert_eq!(drawn(&topology), expected);
        let segment = &topology.segments[0];
        assert_eq!([0, 1].map(|index| segment.is_bridged(index)), [false, true]);
        // a port that is added has the servers, and no bridge
        assert_eq!(topology.next(1).fabric, Fabric::Switch);
        let too_many = TestbedSpec { bridged_clients: 3, ..spec.clone() };
        let error = too_many.check_bridge().unwrap_err().to_string();
        assert_eq!(error, "3 clients of each port, which has 2");
        for name in ["atm-155-lane-9234", "atm-155", "gigabit"] {
            let adapter = Adapter::Model(Box::new(model::find(name).unwrap()));
            let error = TestbedSpec { adapter, ..spec.clone() }.check_bridge().unwrap_err();
            let expected =
                format!("adapter {name} has no emulated LAN with the frames of Ethernet");
            assert_eq!(error.to_string(), expected);
            assert!(error.hint().contains("atm-155-lane-1516"));
        }
        let none = TestbedSpec { bridged_clients: 0, ..spec };
        assert_eq!(none.check_bridge(), Ok(()));
        let stored = serde_json::to_string(&none).unwrap();
        assert!(!stored.contains("bridged"), "stored plans stay as they were: {stored}");
    }

    #[test]
    fn a_port_may_be_a_client_of_several_emulated_lans() {
        let adapter = Adapter::Model(Box::new(model::find("atm-155-lane-1516").unwrap()));
        let spec =
            TestbedSpec { adapter, clients: 8, clients_per_port: 2, ..TestbedSpec::default() };
        let spec = spec.with_elans(&["blue".to_owned(), "red".to_owned()]).unwrap();
        let topology = Topology::of(&spec);
        let expected = ["eth0,eth1 switch [0, 1, 2, 3]", "eth2,eth3 switch [4, 5, 6, 7]"];
        assert_eq!(drawn(&topology), expected);
        let second = &topology.segments[1];
        assert_eq!([0, 1, 2, 3].map(|client| second.port_of(client)), [0, 0, 1, 1]);
        assert_eq!([2, 3].map(|port| second.adapter_port(port)), [1, 1]);
        assert_eq!(second.port_address(1), Ipv4Addr::new(198, 18, 3, 1));
        let next = topology.next(1);
        assert_eq!((next.ports[0].interface.as_str(), next.elans.len()), ("eth4", 0));
    }

    /// Interface, fabric and clients of each segment.
    fn drawn(topology: &Topology) -> Vec<String> {
        let segment = |segment: &Segment| {
            let ports: Vec<&str> =
                segment.ports.iter().map(|port| port.interface.as_str()).collect();
            format!("{} {} {:?}", ports.join(","), segment.fabric.name(), segment.clients)
        };
        topology.segments.iter().map(segment).collect()
    }

    #[test]
    fn an_emulated_lan_has_a_switch() {
        let on = |name: &str, per_port| {
            let adapter = Adapter::Model(Box::new(crate::model::find(name).unwrap()));
            let clients_per_port = per_port;
            Topology::of(&TestbedSpec { adapter, clients_per_port, ..TestbedSpec::default() })
        };
        for (name, fabric) in [("atm-155", Fabric::Cable), ("atm-155-lane-1516", Fabric::Switch)] {
            let topology = on(name, 1);
            assert_eq!(topology.segments[0].fabric, fabric, "{name}");
            assert_eq!(topology.next(1).fabric, fabric, "{name}");
        }
        assert_eq!(on("atm-155", 2).next(1).fabric, Fabric::Cable);
    }

    #[test]
    fn an_address_of_ipv6_follows_from_that_of_ipv4() {
        let address = ipv6_address(Ipv4Addr::new(198, 18, 3, 1));
        assert_eq!(address.to_string(), "2001:2::c612:301");
        assert_eq!(ipv4_address(address), Some(Ipv4Addr::new(198, 18, 3, 1)));
        let others = ["2001:2:0:1::c612:301", "fe80::c612:301"].map(|other| other.parse().unwrap());
        assert_eq!(others.map(ipv4_address), [None; 2]);
    }

    #[test]
    fn veth_has_a_segment_for_each_client() {
        let spec = TestbedSpec { clients: 2, clients_per_port: 4, ..TestbedSpec::default() };
        assert_eq!(drawn(&Topology::of(&spec)), ["eth0 cable [0]", "eth1 cable [1]"]);
    }

    #[test]
    fn ports_of_a_model_share_out_the_clients() {
        assert_eq!(drawn(&Topology::of(&on_model(1, 1))), ["eth0 cable [0]"]);
        let four = drawn(&Topology::of(&on_model(4, 2)));
        assert_eq!(four, ["eth0 switch [0, 1]", "eth1 switch [2, 3]"]);
        // fewer clients than the last port could have
        let three = drawn(&Topology::of(&on_model(3, 2)));
        assert_eq!(three, ["eth0 switch [0, 1]", "eth1 cable [2]"]);
    }

    #[test]
    fn existing_interfaces_keep_their_names() {
        let ends = ["ssh:a", "ssh:b", "ssh:c", "ssh:d"].map(|end| end.parse().unwrap());
        let names = ["enp3s0", "enp4s0"].map(str::to_owned);
        let on = Interfaces::new(names.to_vec(), ends.to_vec(), None).unwrap();
        let both = TestbedSpec::default().on_interfaces(on);
        assert_eq!(drawn(&Topology::of(&both)), ["enp3s0 switch [0, 1]", "enp4s0 switch [2, 3]"]);
        let first = TestbedSpec { ports: 1, ..both };
        assert_eq!(drawn(&Topology::of(&first)), ["enp3s0 switch [0, 1]"]);
    }

    #[test]
    fn a_new_segment_takes_the_lowest_free_numbers() {
        let mut topology = Topology::of(&on_model(6, 2));
        topology.segments.remove(1);
        let next = topology.next(3);
        assert_eq!((next.number, next.clients.as_slice()), (1, &[2, 3, 6][..]));
        topology.add(next);
        let all = ["eth0 switch [0, 1]", "eth1 switch [2, 3, 6]", "eth2 switch [4, 5]"];
        assert_eq!(drawn(&topology), all);
        assert_eq!(topology.of_interface("eth2").unwrap().number, 2);
        assert_eq!(topology.next(1).clients, [7]);
    }

    #[test]
    fn an_aggregate_joins_its_ports_and_all_clients_by_one_switch() {
        let spec = TestbedSpec { aggregate: 2, ports: 2, ..on_model(3, 1) };
        let topology = Topology::of(&spec);
        assert_eq!(drawn(&topology), ["eth0,eth1 switch [0, 1, 2]"]);
        let segment = topology.of_interface("agg0").unwrap();
        assert_eq!([0, 1, 2].map(|client| segment.interface_of(client)), ["agg0"; 3]);
        let addresses = [0, 2].map(|client| segment.client_address(client).to_string());
        assert_eq!(addresses, ["198.18.0.2", "198.18.0.4"]);
        assert!(segment.has_interface("eth1") && !segment.has_interface("eth2"));
    }

    #[test]
    fn ports_of_an_aggregate_take_two_switches_in_turn() {
        let spec = TestbedSpec { aggregate: 3, ports: 3, switches: 2, ..on_model(2, 1) };
        let segment = Topology::of(&spec).segments.remove(0);
        assert_eq!([0, 1, 2].map(|port| segment.switch_of_port(&segment.ports[port])), [0, 1, 0]);
        assert_eq!([0, 1].map(|client| segment.switch_of_client(client)), [1, 1]);
        let drawn = [
            "switch 0: eth0, eth2",
            "  │ link as fast as all ports together",
            "switch 1: eth1, client-0, client-1",
        ];
        assert_eq!(segment.drawn(), drawn);
        let spread = Topology::of(&TestbedSpec { spread_clients: true, ..spec }).segments.remove(0);
        assert_eq!([0, 1].map(|client| spread.switch_of_client(client)), [0, 1]);
        // the addresses are those of one switch
        assert_eq!(spread.client_address(1).to_string(), "198.18.0.3");
    }

    #[test]
    fn clients_behind_a_router_have_a_network_of_their_own() {
        let spec = TestbedSpec { aggregate: 2, ports: 2, router: true, ..on_model(2, 1) };
        let segment = Topology::of(&spec).segments.remove(0);
        assert_eq!(segment.port_address(0).to_string(), "198.18.0.1");
        assert_eq!(segment.client_address(1).to_string(), "198.19.255.3");
        let gateways = segment.gateways().expect("a router");
        assert_eq!(gateways.addresses.map(|a| a.to_string()), ["198.18.0.254", "198.19.255.254"]);
        assert!(gateways.leads_to(segment.client_address(1)));
        assert!(!gateways.leads_to(segment.port_address(0)));
        assert_eq!(segment.switch_of_client(0), 1);
        assert_eq!(Topology::of(&on_model(2, 2)).segments[0].drawn(), [""; 0]);
    }

    #[test]
    fn addresses_are_unique_in_the_benchmarking_network() {
        let segment = Segment {
            number: 3,
            fabric: Fabric::Switch,
            home: 256,
            ports: vec![PortEnd::made(256, 0), PortEnd::made(257, 1)],
            clients: vec![7, 8, 9],
            aggregate: None,
            spread_clients: false,
            bridged: 0,
            elans: Vec::new(),
        };
        let text = |address: Ipv4Addr| address.to_string();
        assert_eq!(
            [0, 1].map(|port| text(segment.port_address(port))),
            ["198.19.0.1", "198.19.1.1"]
        );
        assert_eq!([0, 1, 2].map(|client| segment.port_of(client)), [0, 0, 1]);
        assert_eq!(
            [0, 1, 2].map(|client| text(segment.client_address(client))),
            ["198.19.0.2", "198.19.0.3", "198.19.1.4"]
        );
        let usual = Topology::of(&on_model(1, 1)).segments.remove(0);
        assert_eq!(text(usual.client_address(0)), "198.18.0.2");
    }
}
