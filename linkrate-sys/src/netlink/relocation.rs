//! Moves an interface to another network namespace, and restores its addresses and routes.
//!
//! The kernel removes addresses and routes of an interface that moves
//! (`__dev_change_net_namespace`, net/core/dev.c) and takes it down; MTU and features stay.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{Emitable, NLM_F_CREATE, NLM_F_EXCL, Parseable};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{RouteSocket, quoted};
use crate::error::{SysError, SysResult};

/// Addresses and routes of an interface, and whether it was up.
#[derive(Debug, Clone)]
pub struct Addressing {
    addresses: Vec<AddressMessage>,
    routes: Vec<RouteMessage>,
    up: bool,
}

impl Addressing {
    /// Whether it has an IPv4 address.
    pub fn has_ipv4(&self) -> bool {
        self.addresses.iter().any(|message| message.header.family == AddressFamily::Inet)
    }

    /// Whether the interface was up.
    pub fn was_up(&self) -> bool {
        self.up
    }

    /// The addresses without those that expire: whoever leased them renews them.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.addresses
            .retain(|message| message.header.flags.contains(AddressHeaderFlags::Permanent));
        self
    }

    /// The addresses and the routes as rtnetlink messages, for a file.
    pub fn to_messages(&self) -> [Vec<Vec<u8>>; 2] {
        fn bytes(message: &impl Emitable) -> Vec<u8> {
            let mut bytes = vec![0; message.buffer_len()];
            message.emit(&mut bytes);
            bytes
        }
        [self.addresses.iter().map(bytes).collect(), self.routes.iter().map(bytes).collect()]
    }

    /// Reads what [`to_messages`](Self::to_messages) wrote.
    ///
    /// # Errors
    /// `InvalidData` for bytes that are no such messages.
    pub fn of_messages([addresses, routes]: &[Vec<Vec<u8>>; 2], up: bool) -> io::Result<Self> {
        fn read<M: Parseable<[u8]>>(messages: &[Vec<u8>]) -> io::Result<Vec<M>> {
            let read = |bytes: &Vec<u8>| M::parse(bytes.as_slice());
            messages
                .iter()
                .map(read)
                .collect::<Result<_, _>>()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
        }
        Ok(Self { addresses: read(addresses)?, routes: read(routes)?, up })
    }
}

impl RouteSocket {
    /// A socket in another network namespace, which a temporary thread enters.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN over it.
    pub fn open_in(namespace: BorrowedFd<'_>) -> SysResult<Self> {
        let open = || {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
                .map_err(|error| SysError::new("enter network namespace", "", error))?;
            Self::open()
        };
        std::thread::scope(|scope| scope.spawn(open).join()).unwrap_or_else(|_| {
            let cause = std::io::Error::other("the thread that enters it panicked");
            Err(SysError::new("enter network namespace", "", cause))
        })
    }

    /// Moves an interface from this socket's network namespace to another.
    ///
    /// # Errors
    /// `EINVAL` for an interface that cannot move (loopback, a bridge), `EEXIST` when its name is
    /// taken in the other namespace.
    pub fn move_to(&mut self, name: &str, namespace: BorrowedFd<'_>) -> SysResult<()> {
        let attributes = vec![LinkAttribute::NetNsFd(namespace.as_raw_fd())];
        self.set("move to another network namespace", name, None, attributes)
    }

    /// The present addresses and routes of an interface.
    ///
    /// # Errors
    /// `ENODEV` without an interface of that name; or the kernel refuses a dump.
    pub fn addressing(&mut self, name: &str) -> SysResult<Addressing> {
        let link = self.link(name)?;
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let addresses = self.dump("list addresses", request)?.into_iter();
        let addresses = addresses.filter_map(|reply| match reply {
            RouteNetlinkMessage::NewAddress(message) => {
                (message.header.index == link.index && is_to_restore(&message)).then_some(message)
            }
            _ => None,
        });
        let addresses = addresses.collect();
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            for reply in self.dump("list routes", RouteNetlinkMessage::GetRoute(message))? {
                let RouteNetlinkMessage::NewRoute(route) = reply else { continue };
                if leads_over(&route, link.index) && is_configured(&route) {
                    routes.push(route);
                }
            }
        }
        // routes through a gateway need the direct routes first
        routes.sort_by_key(|route| std::cmp::Reverse(u8::from(route.header.scope)));
        Ok(Addressing { addresses, routes, up: link.up })
    }

    /// Restores addresses, and brings the interface up if it was up. `with_routes` also restores
    /// routes, in the original namespace; in another one the routes to its own networks are enough.
    ///
    /// # Errors
    /// The first refusal.
    pub fn restore_addressing(
        &mut self,
        name: &str,
        addressing: &Addressing,
        with_routes: bool,
    ) -> SysResult<()> {
        let index = self.link(name)?.index;
        for message in &addressing.addresses {
            let mut message = message.clone();
            message.header.index = index;
            let given =
                self.act(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL);
            accept_existing(given)
                .map_err(|refusal| refusal.during("restore an address of", quoted(name)))?;
        }
        if !addressing.up {
            return Ok(());
        }
        self.set_up(name)?;
        for message in addressing.routes.iter().filter(|_| with_routes) {
            let mut message = message.clone();
            message
                .attributes
                .retain(|attribute| !matches!(attribute, RouteAttribute::CacheInfo(_)));
            for attribute in &mut message.attributes {
                if let RouteAttribute::Oif(oif) = attribute {
                    *oif = index;
                }
            }
            let given = self.act(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL);
            accept_existing(given)
                .map_err(|refusal| refusal.during("restore a route over", quoted(name)))?;
        }
        Ok(())
    }
}

/// Accepts `EEXIST`: the kernel has restored the object itself.
fn accept_existing(
    given: Result<(), super::exchange::Refusal>,
) -> Result<(), super::exchange::Refusal> {
    match given {
        Err(refusal) if refusal.errno() == Some(libc::EEXIST) => Ok(()),
        given => given,
    }
}

/// Whether to restore the address: the kernel creates IPv6 link-local addresses itself.
fn is_to_restore(message: &AddressMessage) -> bool {
    let own_making =
        message.header.family == AddressFamily::Inet6 && message.header.scope == AddressScope::Link;
    let known = message.attributes.iter().any(|attribute| {
        matches!(attribute, AddressAttribute::Address(IpAddr::V4(_) | IpAddr::V6(_)))
    });
    known && !own_making
}

fn leads_over(route: &RouteMessage, index: u32) -> bool {
    route
        .attributes
        .iter()
        .any(|attribute| matches!(attribute, RouteAttribute::Oif(i) if *i == index))
}

/// Whether the route was configured: the kernel adds routes to the interface's own networks, and
/// routers announce theirs again.
fn is_configured(route: &RouteMessage) -> bool {
    !matches!(route.header.protocol, RouteProtocol::Kernel | RouteProtocol::Ra)
        && !route.header.flags.contains(RouteFlags::Cloned)
        && route.header.scope != RouteScope::Host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_routes_survive_a_file() {
        let mut address = AddressMessage::default();
        address.header.family = AddressFamily::Inet;
        address.header.prefix_len = 24;
        address.header.flags = AddressHeaderFlags::Permanent;
        address.attributes.push(AddressAttribute::Address(IpAddr::from([198, 51, 100, 1])));
        let mut leased = address.clone();
        leased.header.flags = AddressHeaderFlags::empty();
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.attributes.push(RouteAttribute::Oif(7));
        let all = Addressing { addresses: vec![address, leased], routes: vec![route], up: true };
        assert!(all.has_ipv4() && all.was_up());
        let permanent = all.permanent();
        assert_eq!(permanent.addresses.len(), 1);
        let messages = permanent.to_messages();
        let read = Addressing::of_messages(&messages, true).unwrap();
        assert_eq!((&read.addresses, &read.routes), (&permanent.addresses, &permanent.routes));
        assert!(Addressing::of_messages(&[vec![vec![1]], Vec::new()], true).is_err());
    }
}
