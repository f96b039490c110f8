//! Ports that become an aggregate while a lab is up, that join one or leave it, and ports of an aggregate
//! that become interfaces of their own.

use super::{AGGREGATE, Fabric, PortEnd, Segment, Topology, free};
use crate::knobs::MAX_PORTS;

/// Why ports cannot become an aggregate, or an aggregate cannot be taken apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegroupError {
    /// The aggregate would have no port.
    #[error("an aggregate of no ports, expected 1 port or more")]
    NoPort,
    /// A port was named twice.
    #[error("port {port} is named twice, expected each port once")]
    Twice {
        /// The port.
        port: String,
    },
    /// The system under test has no such port.
    #[error("no port {port:?}; the ports are {}", ports.join(", "))]
    Unknown {
        /// The name.
        port: String,
        /// Those that it has.
        ports: Vec<String>,
    },
    /// The port belongs to an aggregate already.
    #[error("port {port} is a port of {aggregate} already, expected an interface of its own")]
    Member {
        /// The port.
        port: String,
        /// Its aggregate.
        aggregate: String,
    },
    /// The ports are not on one segment.
    #[error(
        "ports {one} and {other} have no switch in common, expected one that is the partner of all ports"
    )]
    Apart {
        /// A port.
        one: String,
        /// A port on another segment.
        other: String,
    },
    /// A port of the segment was left out.
    #[error("port {port} is on the same segment and not named, expected all of its ports")]
    LeftOut {
        /// The port.
        port: String,
    },
    /// Ports have links of different rates.
    #[error("port {one} runs at {rate} and port {other} at {other_rate}, expected one rate")]
    Rates {
        /// A port.
        one: String,
        /// Its rate.
        rate: String,
        /// A port with another rate.
        other: String,
        /// That rate.
        other_rate: String,
    },
    /// No aggregate has the name.
    #[error("no aggregate {name:?}; {}", known(aggregates))]
    NoAggregate {
        /// The name.
        name: String,
        /// Those that there are.
        aggregates: Vec<String>,
    },
    /// An aggregate has all the ports that it can have.
    #[error("{aggregate} has {MAX_PORTS} ports, expected no more")]
    Full {
        /// The aggregate.
        aggregate: String,
    },
    /// The clients are reached through a router.
    #[error("the clients of {name} are behind a router, which has one address for its ports")]
    Routed {
        /// The aggregate.
        name: String,
    },
}

impl RegroupError {
    /// The remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Apart { .. } => {
                "ports come to one switch when the lab starts: linkrate lab up --aggregate 2"
            }
            Self::LeftOut { .. } => {
                "name all of them; linkrate adapter set agg0 aggregate=NUMBER then leaves some out of use"
            }
            Self::Rates { .. } => "linkrate adapter link PORT RATE",
            Self::Full { .. } => "linkrate adapter show",
            Self::Routed { .. } => "linkrate lab up --aggregate 2, without --router",
            Self::Member { .. } => "linkrate adapter aggregate remove agg0",
            Self::NoPort | Self::Twice { .. } => "linkrate adapter aggregate create eth0 eth1",
            Self::Unknown { .. } | Self::NoAggregate { .. } => "linkrate adapter show",
        }
    }
}

fn known(aggregates: &[String]) -> String {
    match aggregates {
        [] => "the lab has none".to_owned(),
        some => format!("the lab has {}", some.join(", ")),
    }
}

impl Topology {
    /// The segment whose ports may become an aggregate: all of its ports are named, each once, and
    /// each has an interface of its own.
    pub fn to_aggregate(&self, ports: &[String]) -> Result<&Segment, RegroupError> {
        let mut segments = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            if ports[..at].contains(port) {
                return Err(RegroupError::Twice { port: port.clone() });
            }
            let has = |segment: &&Segment| segment.ports.iter().any(|end| end.interface == *port);
            let segment = self.segments.iter().find(has).ok_or_else(|| {
                let all = self.segments.iter().flat_map(|segment| &segment.ports);
                let ports = all.map(|end| end.interface.clone()).collect();
                RegroupError::Unknown { port: port.clone(), ports }
            })?;
            if let Some(aggregate) = segment.aggregate.clone() {
                return Err(RegroupError::Member { port: port.clone(), aggregate });
            }
            segments.push((port, segment));
        }
        let Some((first, segment)) = segments.first() else { return Err(RegroupError::NoPort) };
        if let Some((other, _)) = segments.iter().find(|(_, other)| other.number != segment.number)
        {
            return Err(RegroupError::Apart { one: (*first).clone(), other: (*other).clone() });
        }
        if segment.fabric == Fabric::Cable {
            return Ok(segment);
        }
        match segment.ports.iter().find(|end| !ports.contains(&end.interface)) {
            Some(end) => Err(RegroupError::LeftOut { port: end.interface.clone() }),
            None => Ok(segment),
        }
    }

    /// The segment of an aggregate that may be taken apart; refuses one whose clients are behind a router.
    pub fn to_take_apart(&self, name: &str) -> Result<&Segment, RegroupError> {
        let of_name = |segment: &&Segment| segment.aggregate.as_deref() == Some(name);
        let Some(segment) = self.segments.iter().find(of_name) else {
            let all = self.segments.iter();
            let aggregates = all.filter_map(|segment| segment.aggregate.clone()).collect();
            return Err(RegroupError::NoAggregate { name: name.to_owned(), aggregates });
        };
        match segment.gateways() {
            Some(_) => Err(RegroupError::Routed { name: name.to_owned() }),
            None => Ok(segment),
        }
    }
}

impl Topology {
    /// The segment of the first aggregate that a port can join, with one port more, and the name of this port. It takes
    /// the lowest number and the lowest place that are free. `None` if there is no such aggregate; fails if it is full.
    pub fn widened(&self) -> Result<Option<(Segment, String)>, RegroupError> {
        let takes = |segment: &&Segment| segment.fabric != Fabric::Cable;
        let mut aggregates = self.segments.iter().filter(|segment| segment.aggregate.is_some());
        let Some(segment) = aggregates.find(takes) else { return Ok(None) };
        if segment.ports.len() >= MAX_PORTS as usize {
            let aggregate = segment.aggregate.clone().unwrap_or_default();
            return Err(RegroupError::Full { aggregate });
        }
        let number = self.free_port(|other| other.number != segment.number);
        let place = free(segment.ports.iter().map(|port| port.place as u32)).next().unwrap_or(0);
        let mut wider = segment.clone();
        let port = PortEnd::made(number, place as usize);
        let name = port.interface.clone();
        let at = wider.ports.partition_point(|other| other.place < port.place);
        wider.ports.insert(at, port);
        Ok(Some((wider, name)))
    }

    /// The segment of an aggregate without port `port`; `None` if the port is no port of an aggregate, or
    /// its only one. The other ports keep their places.
    #[must_use]
    pub fn narrowed(&self, port: &str) -> Option<Segment> {
        let has = |end: &PortEnd| end.interface == port;
        let segment = self.segments.iter().find(|segment| segment.ports.iter().any(has))?;
        if segment.aggregate.is_none() || segment.ports.len() < 2 {
            return None;
        }
        let mut narrower = segment.clone();
        narrower.ports.retain(|end| !has(end));
        Some(narrower)
    }

    /// Puts a segment in the place of the one with its number.
    pub fn replace(&mut self, segment: Segment) {
        if let Some(place) = self.segments.iter_mut().find(|other| other.number == segment.number) {
            *place = segment;
        }
    }
}

impl Segment {
    /// The same segment with its ports as an aggregate, from place 0 on.
    #[must_use]
    pub fn aggregated(&self) -> Self {
        let mut aggregated = Self { aggregate: Some(AGGREGATE.to_owned()), ..self.clone() };
        aggregated.ports.iter_mut().enumerate().for_each(|(place, port)| port.place = place);
        aggregated
    }

    /// The same segment with an interface for each port.
    #[must_use]
    pub fn taken_apart(&self) -> Self {
        Self { aggregate: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;
    use crate::spec::{Adapter, TestbedSpec};

    fn topology(aggregate: u32, ports: u32) -> Topology {
        let adapter = Adapter::Model(Box::new(model::find("gigabit").unwrap()));
        Topology::of(&TestbedSpec {
            adapter,
            clients: 2,
            ports,
            aggregate,
            ..TestbedSpec::default()
        })
    }

    fn refused(topology: &Topology, ports: &[&str]) -> String {
        let ports: Vec<String> = ports.iter().map(|port| (*port).to_owned()).collect();
        topology.to_aggregate(&ports).unwrap_err().to_string()
    }

    fn names(segment: &Segment) -> Vec<&str> {
        segment.ports.iter().map(|port| port.interface.as_str()).collect()
    }

    /// A port joins; its name.
    fn widen(topology: &mut Topology) -> String {
        let (wider, name) = topology.widened().unwrap().unwrap();
        topology.replace(wider);
        name
    }

    fn narrow(topology: &mut Topology, port: &str) {
        topology.replace(topology.narrowed(port).unwrap());
    }

    #[test]
    fn any_port_leaves_an_aggregate_and_the_next_takes_its_place() {
        let mut topology = topology(2, 2);
        assert_eq!(widen(&mut topology), "eth2");
        assert_eq!(names(&topology.segments[0]), ["eth0", "eth1", "eth2"]);
        let addresses = |topology: &Topology| {
            let segment = &topology.segments[0];
            (segment.port_address(0), segment.client_address(1))
        };
        let before = addresses(&topology);
        narrow(&mut topology, "eth1");
        narrow(&mut topology, "eth0");
        assert_eq!(names(&topology.segments[0]), ["eth2"]);
        assert_eq!(topology.segments[0].ports[0].place, 2, "it keeps its place");
        assert_eq!(addresses(&topology), before, "the aggregate keeps its network");
        assert_eq!(topology.narrowed("eth2"), None, "the only port");
        assert_eq!(topology.narrowed("agg0"), None, "all of it");
        assert_eq!([widen(&mut topology), widen(&mut topology)], ["eth0", "eth1"]);
        let places = topology.segments[0].ports.iter().map(|port| port.place);
        assert!(places.eq(0..3), "the free places are filled");
        while topology.segments[0].ports.len() < MAX_PORTS as usize {
            widen(&mut topology);
        }
        assert!(topology.widened().unwrap_err().to_string().contains("agg0 has 64 ports"));
        // ports with interfaces of their own have no aggregate to join
        assert_eq!(self::topology(0, 2).widened(), Ok(None));
        assert_eq!(self::topology(0, 2).narrowed("eth1"), None);
    }

    #[test]
    fn ports_keep_their_switch_when_others_leave() {
        let mut topology = topology(3, 3);
        topology.segments[0].fabric = Fabric::Switches;
        narrow(&mut topology, "eth0");
        let switches = |topology: &Topology| {
            let segment = &topology.segments[0];
            segment.ports.iter().map(|port| segment.switch_of_port(port)).collect::<Vec<_>>()
        };
        assert_eq!(switches(&topology), [1, 0]);
        widen(&mut topology);
        assert_eq!(switches(&topology), [0, 1, 0]);
    }

    #[test]
    fn no_other_segment_gets_the_addresses_of_an_aggregate_whose_first_port_has_left() {
        let mut topology = topology(2, 2);
        narrow(&mut topology, "eth0");
        let apart = topology.to_take_apart("agg0").unwrap().taken_apart();
        topology.replace(apart);
        let added = topology.next(1);
        assert_eq!(names(&added), ["eth2"], "eth0 and its addresses stay free");
        topology.add(added);
        let together = topology.to_aggregate(&["eth1".to_owned()]).unwrap().aggregated();
        assert_eq!((together.home, together.ports[0].place), (0, 0));
        topology.replace(together);
        assert_eq!(widen(&mut topology), "eth0");
    }

    #[test]
    fn ports_of_one_segment_become_an_aggregate_and_back() {
        let mut topology = topology(2, 2);
        let apart = topology.to_take_apart("agg0").unwrap().taken_apart();
        assert_eq!((apart.interface_of(0), apart.interface_of(1)), ("eth0", "eth1"));
        topology.segments = vec![apart];
        let ports = ["eth1", "eth0"].map(str::to_owned);
        let together = topology.to_aggregate(&ports).unwrap().aggregated();
        assert_eq!(together.interface_of(1), "agg0");
        assert_eq!(
            refused(&topology, &["eth0"]),
            "port eth1 is on the same segment and not named, expected all of its ports"
        );
    }

    #[test]
    fn what_is_no_aggregate_is_reported() {
        let apart = topology(0, 2);
        assert_eq!(refused(&apart, &[]), "an aggregate of no ports, expected 1 port or more");
        assert_eq!(
            refused(&apart, &["eth0", "eth0"]),
            "port eth0 is named twice, expected each port once"
        );
        assert_eq!(
            refused(&apart, &["eth0", "eth1"]),
            "ports eth0 and eth1 have no switch in common, expected one that is the partner of all ports"
        );
        assert_eq!(refused(&apart, &["eth7"]), "no port \"eth7\"; the ports are eth0, eth1");
        let together = topology(2, 2);
        assert_eq!(
            refused(&together, &["eth1"]),
            "port eth1 is a port of agg0 already, expected an interface of its own"
        );
        let none = apart.to_take_apart("agg0").unwrap_err().to_string();
        assert_eq!(none, "no aggregate \"agg0\"; the lab has none");
        let other = together.to_take_apart("agg1").unwrap_err().to_string();
        assert_eq!(other, "no aggregate \"agg1\"; the lab has agg0");
    }
}
