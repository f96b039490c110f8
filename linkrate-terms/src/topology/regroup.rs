//! Ports that become an aggregate while a lab is up, and ports of an aggregate that become interfaces of
//! their own.

use super::{AGGREGATE, Fabric, Segment, Topology};

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
    ///
    /// # Errors
    /// Why they may not.
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

    /// The segment of an aggregate that may be taken apart.
    ///
    /// # Errors
    /// There is no such aggregate, or its clients are behind a router.
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

impl Segment {
    /// The same segment with its ports as an aggregate.
    #[must_use]
    pub fn aggregated(&self) -> Self {
        Self { aggregate: Some(AGGREGATE.to_owned()), ..self.clone() }
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
    fn what_is_no_aggregate_is_told() {
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
