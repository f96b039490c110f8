//! What an aggregate delivers: the balancing decides which flows share a port.
//!
//! A flow never leaves by two ports, except with round robin. So an aggregate is as fast as all its
//! ports together only if each port has a flow. Flows are greedy and equal: those of one port share
//! it evenly. Two figures follow from the number of flows on each port:
//!
//! - *throughput*: the ports in use, each at its limit
//! - *slowest flow*: the limit of a port, divided by the number of flows on the fullest one
//!
//! Flows that are [named](Named) are put through the [`Balancer`] itself. Of [random](Random) flows,
//! which take each entry of the table with the same probability, both figures have a distribution.

mod random;
mod sharing;

pub use random::{Distribution, Random, SAMPLED_FLOWS};

use std::net::SocketAddr;

use crate::balance::{Balance, Balancer, BalancerError, ENTRIES, PortIndex};
use crate::frame::{IpEnds, MacAddress, Route};

/// Rounds in which all flows send once, until adaptive balancing has come to rest.
const ROUNDS: u64 = 32;
/// Time between two rounds, as long as the loads of adaptive balancing need to be halved.
const ROUND_PS: u64 = 1 << 33;
const ROUND_BYTES: usize = 1 << 20;

/// The ports of an aggregate and their balancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    /// Ports, 1 to [`MAX_PORTS`](crate::balance::MAX_PORTS).
    pub ports: usize,
    /// What chooses the port of a frame.
    pub balance: Balance,
    /// Queues that send, at least 1. Only balancing by CPU looks at it.
    pub queues: u16,
}

/// Why there is no limit of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AggregateError {
    /// A number of ports that no aggregate has.
    #[error(transparent)]
    Ports(#[from] BalancerError),
    /// No flow, or more than can be sampled.
    #[error("{flows} flows, expected 1 to {SAMPLED_FLOWS}")]
    Flows {
        /// The number.
        flows: usize,
    },
    /// No queue, or more than entries.
    #[error("{queues} queues, expected 1 to {ENTRIES}")]
    Queues {
        /// The number.
        queues: u16,
    },
    /// The balancing looks at a field that a flow does not name.
    #[error(
        "flow {number} has no Ethernet address of its destination, which balancing by MAC needs"
    )]
    NoMac {
        /// Which flow, counted from 1.
        number: usize,
    },
    /// Source and destination are of two versions of IP.
    #[error("flow {number} is from {flow}, expected two addresses of one version of IP")]
    Versions {
        /// Which flow, counted from 1.
        number: usize,
        /// Its ends: `10.0.0.1:5000 to [::1]:80`.
        flow: String,
    },
    /// No field of a flow says which queue sends it.
    #[error("balancing by CPU looks at no field of a flow, expected another one for named flows")]
    Queue,
}

/// A flow by its addresses, as a frame of it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    /// The Ethernet address that the frames go to: the receiver's, or the router's.
    pub mac: Option<MacAddress>,
    /// The Ethernet address that they come from. A host has one alone, so that it does not tell flows
    /// apart; to a switch it does.
    pub source_mac: Option<MacAddress>,
}

/// The ports of flows that are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The place of each flow, in the order given.
    pub flows: Vec<Place>,
    /// The flows of each port. With round robin, each flow is on each port.
    pub per_port: Vec<usize>,
}

/// The entry and port of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its entry in the table; `None` with round robin, and for frames to a group of stations.
    pub entry: Option<u8>,
    /// Its port; `None` with round robin.
    pub port: Option<PortIndex>,
}

impl Aggregate {
    fn check(&self, flows: usize) -> Result<Balancer, AggregateError> {
        if !(1..=SAMPLED_FLOWS).contains(&flows) {
            return Err(AggregateError::Flows { flows });
        }
        if !(1..=ENTRIES).contains(&self.queues.into()) {
            return Err(AggregateError::Queues { queues: self.queues });
        }
        // a gap of any length lets adaptive balancing move a flow
        Ok(Balancer::new(self.balance, self.ports, 0)?)
    }

    /// The ports of `flows`, which begin in this order. Fails if ports or flows are out of range, or a flow lacks a
    /// field that the balancing looks at.
    pub fn named(&self, flows: &[Flow]) -> Result<Named, AggregateError> {
        let mut balancer = self.check(flows.len())?;
        if self.balance == Balance::Cpu {
            return Err(AggregateError::Queue);
        }
        let heads: Vec<Vec<u8>> = (1..)
            .zip(flows)
            .map(|(number, flow)| self.head(number, flow))
            .collect::<Result<_, _>>()?;
        let ports = settled(&mut balancer, &heads);
        let mut per_port = vec![0; self.ports];
        if self.balance == Balance::RoundRobin {
            per_port.fill(flows.len());
        } else {
            ports.iter().for_each(|port| per_port[port.at()] += 1);
        }
        let place = |(head, port): (&Vec<u8>, PortIndex)| {
            let entry = balancer.entry_of(head, head.len(), 0);
            Place { entry, port: (!self.balance.reorders()).then_some(port) }
        };
        Ok(Named { flows: heads.iter().zip(ports).map(place).collect(), per_port })
    }

    /// The head of a frame of the flow.
    fn head(&self, number: usize, flow: &Flow) -> Result<Vec<u8>, AggregateError> {
        let destination = match flow.mac {
            None if self.balance == Balance::Mac => return Err(AggregateError::NoMac { number }),
            mac => mac.unwrap_or(MacAddress::UNKNOWN),
        };
        let ends = (flow.source, flow.destination);
        let frame = IpEnds::new(ends.0.ip(), ends.1.ip()).and_then(|ip| {
            let source = flow.source_mac.unwrap_or(MacAddress::UNKNOWN);
            let route = Route { source, destination, ip, hops: 64, class: 0 };
            // UDP and TCP have their ports at the same place
            route.udp(ends.0.port(), ends.1.port(), &[])
        });
        let error =
            || AggregateError::Versions { number, flow: format!("{} to {}", ends.0, ends.1) };
        frame.ok_or_else(error)
    }
}

/// The last port of each frame, after so many rounds that adaptive balancing has come to rest.
fn settled(balancer: &mut Balancer, heads: &[impl AsRef<[u8]>]) -> Vec<PortIndex> {
    let mut ports = Vec::with_capacity(heads.len());
    for round in 0..rounds(balancer) {
        ports.clear();
        for head in heads {
            let head = head.as_ref();
            ports.extend(balancer.choose((1 + round) * ROUND_PS, head, ROUND_BYTES, 0));
        }
    }
    ports
}

/// How often all flows send.
fn rounds(balancer: &Balancer) -> u64 {
    if balancer.balance() == Balance::Adaptive { ROUNDS } else { 1 }
}

impl Named {
    /// Ports with a flow.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.per_port.iter().filter(|flows| **flows > 0).count()
    }

    /// The rate of flow `at` as a share of the limit of one port.
    #[must_use]
    pub fn share(&self, at: usize) -> f64 {
        match self.flows.get(at).map(|place| place.port) {
            Some(Some(port)) => 1.0 / self.per_port[port.at()] as f64,
            Some(None) => self.per_port.len() as f64 / self.flows.len() as f64,
            None => 0.0,
        }
    }

    /// The smallest share of a flow.
    #[must_use]
    pub fn slowest(&self) -> f64 {
        (0..self.flows.len()).map(|at| self.share(at)).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u8, mac: Option<u8>) -> Flow {
        let end = |last: u8, port: u16| SocketAddr::from(([10, 0, 0, last], port));
        let mac = mac.map(|last| MacAddress([2, 0, 0, 0, 0, last]));
        Flow {
            source: end(1, 40_000 + u16::from(number)),
            destination: end(2, 5201),
            mac,
            source_mac: None,
        }
    }

    fn aggregate(balance: Balance) -> Aggregate {
        Aggregate { ports: 4, balance, queues: 1 }
    }

    /// Eight clients, each with its own address, and eight clients behind one router.
    #[test]
    fn clients_behind_a_router_share_a_port_by_mac() {
        let clients: Vec<Flow> = (0..8).map(|number| flow(number, Some(number))).collect();
        let routed: Vec<Flow> = (0..8).map(|number| flow(number, Some(9))).collect();
        let named = aggregate(Balance::Mac).named(&clients).expect("eight flows");
        assert_eq!((named.busy(), &named.per_port[..]), (4, &[2; 4][..]));
        assert_eq!((named.share(0), named.slowest()), (0.5, 0.5));
        let named = aggregate(Balance::Mac).named(&routed).expect("eight flows");
        assert_eq!((named.busy(), &named.per_port[..]), (1, &[8, 0, 0, 0][..]));
        assert_eq!(named.slowest(), 0.125);
        let named = aggregate(Balance::Port).named(&routed).expect("eight flows");
        assert_eq!(named.busy(), 4);
    }

    /// To a switch, frames of eight clients to one host differ by their source alone.
    #[test]
    fn a_switch_tells_flows_apart_by_their_source() {
        let from = |client: u8| Flow {
            source_mac: Some(MacAddress([2, 0, 0, 0, 0, client])),
            ..flow(client, Some(1))
        };
        let flows: Vec<Flow> = (2..10).map(from).collect();
        let named = aggregate(Balance::Mac).named(&flows).expect("eight flows");
        assert_eq!(named.per_port, [2; 4]);
        let behind_a_router: Vec<Flow> = (2..10).map(|_| from(9)).collect();
        let named = aggregate(Balance::Mac).named(&behind_a_router).expect("eight flows");
        assert_eq!(named.per_port, [8, 0, 0, 0]);
    }

    #[test]
    fn round_robin_gives_each_flow_all_ports() {
        let named = aggregate(Balance::RoundRobin).named(&[flow(1, None)]).expect("a flow");
        assert_eq!(named.flows, [Place { entry: None, port: None }]);
        assert_eq!((named.busy(), named.share(0)), (4, 4.0));
        let flows: Vec<Flow> = (0..8).map(|number| flow(number, None)).collect();
        let named = aggregate(Balance::RoundRobin).named(&flows).expect("flows");
        assert_eq!((named.busy(), named.slowest()), (4, 0.5));
    }

    /// Frames to a group have no entry, and leave by the first port.
    #[test]
    fn a_flow_to_a_group_has_one_port() {
        let flow = Flow { mac: Some(MacAddress::BROADCAST), ..flow(1, None) };
        let named = aggregate(Balance::Port).named(&[flow, flow]).expect("flows");
        assert_eq!(named.flows, [Place { entry: None, port: Some(PortIndex(0)) }; 2]);
        assert_eq!((named.busy(), named.slowest()), (1, 0.5));
    }

    #[test]
    fn a_flow_without_the_field_is_refused() {
        let error = aggregate(Balance::Mac).named(&[flow(1, Some(1)), flow(2, None)]);
        assert_eq!(error, Err(AggregateError::NoMac { number: 2 }));
        let error = aggregate(Balance::Cpu).named(&[flow(1, None)]);
        assert_eq!(error, Err(AggregateError::Queue));
        let mixed = Flow { destination: "[::1]:80".parse().expect("an address"), ..flow(1, None) };
        let error = aggregate(Balance::Ip).named(&[mixed]).expect_err("refused").to_string();
        assert_eq!(
            error,
            "flow 1 is from 10.0.0.1:40001 to [::1]:80, expected two addresses of one version of IP"
        );
        let error = Aggregate { ports: 65, ..aggregate(Balance::Ip) }.named(&[flow(1, None)]);
        assert_eq!(error, Err(AggregateError::Ports(BalancerError::Ports { ports: 65 })));
        let error = aggregate(Balance::Ip).named(&[]);
        assert_eq!(error, Err(AggregateError::Flows { flows: 0 }));
    }
}
