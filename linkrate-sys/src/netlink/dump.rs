//! Dumps: all interfaces, addresses and routes of the network namespace, and learned path MTUs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Link, RouteSocket};
use crate::error::SysResult;

/// One interface, and its relations to others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkEntry {
    /// Its name.
    pub name: String,
    /// Its own state.
    pub link: Link,
    /// Its kind by the kernel's name (`veth`, `bridge`, `vlan`, `bond`); `None` for adapters.
    pub kind: Option<String>,
    /// Index of the bridge, bond or team it is a member of.
    pub controller: Option<u32>,
    /// Index of its lower interface (of a VLAN) or of its veth peer, if that is in this namespace.
    pub lower: Option<u32>,
    /// The root queueing discipline.
    pub queue_discipline: String,
    /// Smallest MTU the driver allows, bytes; zero if it does not report one.
    pub min_mtu: u32,
    /// Largest MTU the driver allows, bytes; zero if it does not report one.
    pub max_mtu: u32,
}

/// One route, and its attributes that affect speed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteEntry {
    /// `10.0.0.0/8`, `default`, or one address with a learned MTU.
    pub destination: String,
    /// Index of the interface; `None` for multipath routes.
    pub interface: Option<u32>,
    /// MTU of the route, bytes, if it has one.
    pub mtu: Option<u32>,
    /// Round-trip time metric, µs, if it has one.
    pub round_trip_us: Option<u32>,
    /// Congestion control of connections over it, if it has one.
    pub congestion: Option<String>,
    /// Learned by the kernel (a path MTU), not configured.
    pub learned: bool,
}

impl RouteSocket {
    /// Every interface of this network namespace.
    pub fn links(&mut self) -> SysResult<Vec<LinkEntry>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let replies = self.dump("list interfaces", request)?;
        Ok(replies
            .iter()
            .filter_map(|reply| match reply {
                RouteNetlinkMessage::NewLink(message) => Some(LinkEntry::from(message)),
                _ => None,
            })
            .collect())
    }

    /// The addresses of each interface, by its index.
    pub fn addresses(&mut self) -> SysResult<BTreeMap<u32, Vec<IpAddr>>> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let mut addresses: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for reply in self.dump("list addresses", request)? {
            let RouteNetlinkMessage::NewAddress(message) = reply else { continue };
            let of = |local: bool| {
                message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(address) if local => Some(*address),
                    AddressAttribute::Address(address) if !local => Some(*address),
                    _ => None,
                })
            };
            // on a point-to-point interface the other attribute is the peer
            let own = of(true).or_else(|| of(false));
            addresses.entry(message.header.index).or_default().extend(own);
        }
        Ok(addresses)
    }

    /// Every unicast route, and the learned MTU of single destinations.
    pub fn routes(&mut self) -> SysResult<Vec<RouteEntry>> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            // learned entries are listed with RTM_F_CLONED only, all others without it
            // (inet_dump_fib, net/ipv4/fib_frontend.c)
            for flags in [RouteFlags::empty(), RouteFlags::Cloned] {
                let mut message = RouteMessage::default();
                message.header.address_family = family;
                message.header.flags = flags;
                let request = RouteNetlinkMessage::GetRoute(message);
                for reply in self.dump("list routes", request)? {
                    let RouteNetlinkMessage::NewRoute(message) = reply else { continue };
                    routes.push(RouteEntry::from(&message));
                }
            }
        }
        Ok(routes)
    }

    pub(super) fn dump(
        &mut self,
        operation: &str,
        request: RouteNetlinkMessage,
    ) -> SysResult<Vec<RouteNetlinkMessage>> {
        self.0.request(request, NLM_F_DUMP).map_err(|refusal| refusal.during(operation, ""))
    }
}

impl From<&LinkMessage> for LinkEntry {
    fn from(message: &LinkMessage) -> Self {
        let mut entry = Self { link: Link::from(message), ..Self::default() };
        let mut elsewhere = false;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => entry.name.clone_from(name),
                LinkAttribute::Controller(index) => entry.controller = Some(*index),
                // an interface without a lower one names itself
                LinkAttribute::Link(index) if *index != entry.link.index && *index > 0 => {
                    entry.lower = Some(*index);
                }
                LinkAttribute::LinkNetNsId(_) => elsewhere = true,
                LinkAttribute::Qdisc(name) => entry.queue_discipline.clone_from(name),
                LinkAttribute::MinMtu(bytes) => entry.min_mtu = *bytes,
                LinkAttribute::MaxMtu(bytes) => entry.max_mtu = *bytes,
                LinkAttribute::LinkInfo(parts) => {
                    entry.kind = parts.iter().find_map(|part| match part {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        if elsewhere {
            // the index belongs to another namespace, and may be taken in this one
            entry.lower = None;
        }
        entry
    }
}

impl From<&RouteMessage> for RouteEntry {
    fn from(message: &RouteMessage) -> Self {
        let mut route = Self {
            destination: "default".to_owned(),
            learned: message.header.flags.contains(RouteFlags::Cloned),
            ..Self::default()
        };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(address) => {
                    let address = match address {
                        RouteAddress::Inet(address) => IpAddr::V4(*address),
                        RouteAddress::Inet6(address) => IpAddr::V6(*address),
                        _ => continue,
                    };
                    let length = message.header.destination_prefix_length;
                    let whole = if address.is_ipv4() { 32 } else { 128 };
                    route.destination = match length == whole {
                        true => address.to_string(),
                        false => format!("{address}/{length}"),
                    };
                }
                RouteAttribute::Oif(index) => route.interface = Some(*index),
                RouteAttribute::Metrics(metrics) => {
                    for metric in metrics {
                        match metric {
                            RouteMetric::Mtu(bytes) => route.mtu = Some(*bytes),
                            // in units of an eighth of a millisecond (RTAX_RTT)
                            RouteMetric::Rtt(eighths) => {
                                route.round_trip_us = Some(eighths.saturating_mul(125));
                            }
                            RouteMetric::CcAlgo(name) => route.congestion = Some(name.clone()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        route
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use netlink_packet_route::link::InfoKind;

    use super::*;

    #[test]
    fn a_peer_in_another_namespace_is_not_mistaken_for_a_neighbour() {
        let mut message = LinkMessage::default();
        message.header.index = 3;
        message.attributes = vec![
            LinkAttribute::IfName("v0".to_owned()),
            LinkAttribute::Link(2),
            LinkAttribute::MaxMtu(65535),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]),
        ];
        let here = LinkEntry::from(&message);
        assert_eq!(
            (here.lower, here.kind.as_deref(), here.max_mtu),
            (Some(2), Some("veth"), 65535)
        );
        message.attributes.push(LinkAttribute::LinkNetNsId(0));
        assert_eq!(LinkEntry::from(&message).lower, None);
        message.attributes = vec![LinkAttribute::Link(3)];
        assert_eq!(LinkEntry::from(&message).lower, None);
    }

    #[test]
    fn what_a_route_learned_is_reported_from_what_was_set() {
        let mut message = RouteMessage::default();
        message.header.destination_prefix_length = 32;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(Ipv4Addr::new(192, 0, 2, 1))),
            RouteAttribute::Oif(2),
            RouteAttribute::Metrics(vec![RouteMetric::Mtu(1400), RouteMetric::Rtt(16)]),
        ];
        let set = RouteEntry::from(&message);
        assert_eq!(
            (set.destination.as_str(), set.mtu, set.learned),
            ("192.0.2.1", Some(1400), false)
        );
        assert_eq!(set.round_trip_us, Some(2000));
        message.header.flags = RouteFlags::Cloned;
        assert!(RouteEntry::from(&message).learned);
        assert_eq!(RouteEntry::from(&RouteMessage::default()).destination, "default");
    }

    #[test]
    fn this_namespace_has_a_loopback_with_its_address() {
        let mut socket = RouteSocket::open().unwrap();
        let links = socket.links().unwrap();
        let loopback = links.iter().find(|entry| entry.name == "lo").unwrap();
        assert!(loopback.link.index > 0 && loopback.kind.is_none(), "{loopback:?}");
        socket.routes().unwrap();
        if loopback.link.up {
            let addresses = socket.addresses().unwrap();
            assert!(addresses[&loopback.link.index].iter().all(IpAddr::is_loopback));
        }
    }
}
