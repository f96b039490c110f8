//! IPv4 addresses with their networks, and the route to an address of either family.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use linkrate_model::interfaces::InterfaceAddress;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::RouteSocket;
use crate::error::{SysError, SysResult};

impl RouteSocket {
    /// Every IPv4 address of this network namespace, with its interface and network.
    pub fn ipv4_addresses(&mut self) -> SysResult<Vec<InterfaceAddress>> {
        let names: BTreeMap<u32, String> =
            self.links()?.into_iter().map(|entry| (entry.link.index, entry.name)).collect();
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Inet;
        let replies = self.dump("list addresses", RouteNetlinkMessage::GetAddress(request))?;
        let found = replies.iter().filter_map(|reply| match reply {
            RouteNetlinkMessage::NewAddress(message) => {
                let interface = names.get(&message.header.index)?.clone();
                let address = own(message)?;
                let prefix_length = message.header.prefix_len;
                Some(InterfaceAddress { interface, address, prefix_length })
            }
            _ => None,
        });
        Ok(found.collect())
    }

    /// The interface on which packets to `address` leave, and their source address; `ENETUNREACH` without a route.
    pub fn route_to(&mut self, address: IpAddr) -> SysResult<(String, Option<IpAddr>)> {
        let subject = || format!("to {address}");
        let mut request = RouteMessage::default();
        let (family, bits, destination) = match address {
            IpAddr::V4(address) => (AddressFamily::Inet, 32, RouteAddress::Inet(address)),
            IpAddr::V6(address) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(address)),
        };
        request.header.address_family = family;
        request.header.destination_prefix_length = bits;
        request.attributes = vec![RouteAttribute::Destination(destination)];
        let replies: Vec<RouteNetlinkMessage> = self
            .0
            .request(RouteNetlinkMessage::GetRoute(request), 0)
            .map_err(|refusal| refusal.during("look up route", subject()))?;
        let route = replies.into_iter().find_map(|reply| match reply {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        let (mut index, mut source) = (None, None);
        for attribute in route.into_iter().flat_map(|route| route.attributes) {
            match attribute {
                RouteAttribute::Oif(oif) => index = Some(oif),
                RouteAttribute::PrefSource(RouteAddress::Inet(address)) => {
                    source = Some(address.into());
                }
                RouteAttribute::PrefSource(RouteAddress::Inet6(address)) => {
                    source = Some(address.into());
                }
                _ => {}
            }
        }
        let links = self.links()?;
        let name = links.into_iter().find(|entry| Some(entry.link.index) == index);
        name.map(|entry| (entry.name, source)).ok_or_else(|| {
            let cause = std::io::Error::from_raw_os_error(libc::ENETUNREACH);
            SysError::new("look up route", subject(), cause)
        })
    }
}

/// On a point-to-point interface the other attribute is the address of the peer.
fn own(message: &AddressMessage) -> Option<Ipv4Addr> {
    let of = |local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(IpAddr::V4(address)) if local => Some(*address),
            AddressAttribute::Address(IpAddr::V4(address)) if !local => Some(*address),
            _ => None,
        })
    };
    of(true).or_else(|| of(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;

    #[test]
    fn the_loopback_has_its_address_and_the_route_to_it() {
        let mut socket = RouteSocket::open().unwrap();
        if !socket.link("lo").unwrap().up {
            return skip("lo is down");
        }
        let all = socket.ipv4_addresses().unwrap();
        let loopback = all.iter().find(|found| found.interface == "lo").unwrap();
        assert_eq!((loopback.address, loopback.prefix_length), (Ipv4Addr::LOCALHOST, 8));
        let (interface, source) = socket.route_to(Ipv4Addr::new(127, 1, 2, 3).into()).unwrap();
        assert_eq!((interface.as_str(), source), ("lo", Some(Ipv4Addr::LOCALHOST.into())));
        if !std::path::Path::new("/proc/net/if_inet6").exists() {
            return skip("the kernel has no IPv6");
        }
        let (interface, _) = socket.route_to(std::net::Ipv6Addr::LOCALHOST.into()).unwrap();
        assert_eq!(interface, "lo");
    }
}
