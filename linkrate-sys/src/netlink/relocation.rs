//! Moves an interface to another network namespace, and restores its addresses and routes.
//!
//! The kernel takes an interface that moves down (`__dev_change_net_namespace`, net/core/dev.c). It
//! removes its addresses, the routes over it and from its addresses, its neighbours
//! ([`Neighbours`](super::Neighbours)) and its traffic control ([`Disciplines`](super::Disciplines)).
//! MTU, features and XDP programs stay.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{Emitable, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Parseable};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressProtocol, AddressScope,
};
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteProtocol,
    RouteScope,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{RouteSocket, quoted};
use crate::error::{SysError, SysResult};
use crate::sched;

/// Addresses and routes of an interface, and whether it was up.
#[derive(Debug, Clone)]
pub struct Addressing {
    addresses: Vec<AddressMessage>,
    routes: Vec<RouteMessage>,
    up: bool,
    /// The index that the interface had; zero if it is not known.
    index: u32,
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

    /// The index that the interface had; zero if it is not known.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The addresses without those that expire: whoever leased them renews them.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.addresses
            .retain(|message| message.header.flags.contains(AddressHeaderFlags::Permanent));
        self
    }

    /// The addresses that a program leased for a time. Those that the kernel makes from the
    /// announcements of a router are not among them: it makes them again.
    pub fn leased(&self) -> Vec<IpAddr> {
        let expires = |message: &&AddressMessage| {
            !message.header.flags.contains(AddressHeaderFlags::Permanent)
        };
        // before Linux 5.18 an address does not report who made it; the kernel makes none of 128 bits
        let by_a_program = |message: &&AddressMessage| {
            message.header.family == AddressFamily::Inet || message.header.prefix_len == 128
        };
        let leased = self.addresses.iter().filter(expires).filter(by_a_program);
        leased.filter_map(own_address).collect()
    }

    /// The addresses and the routes as rtnetlink messages, for a file.
    pub fn to_messages(&self) -> [Vec<Vec<u8>>; 2] {
        [to_bytes(&self.addresses), to_bytes(&self.routes)]
    }

    /// Reads what [`to_messages`](Self::to_messages) wrote; `InvalidData` for bytes that are no such messages.
    pub fn of_messages(
        [addresses, routes]: &[Vec<Vec<u8>>; 2],
        up: bool,
        index: u32,
    ) -> io::Result<Self> {
        Ok(Self { addresses: of_bytes(addresses)?, routes: of_bytes(routes)?, up, index })
    }

    /// The addresses and routes that `now` does not have, as texts.
    pub fn missing_from(&self, now: &Self) -> Vec<String> {
        let key = |message: &AddressMessage| (message.header.prefix_len, own_address(message));
        let addresses = self.addresses.iter().map(key);
        let there: Vec<_> = now.addresses.iter().map(key).collect();
        let lost = addresses.filter(|address| !there.contains(address));
        let mut missing: Vec<String> = lost
            .filter_map(|(length, address)| Some(format!("the address {}/{length}", address?)))
            .collect();
        let there: Vec<_> = now.routes.iter().map(|route| restorable(route, 0, 0)).collect();
        let lost = self.routes.iter().filter(|_| self.up);
        let lost = lost.filter(|route| !there.contains(&restorable(route, self.index, now.index)));
        missing.extend(lost.map(|route| {
            let to = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(to)) => Some(IpAddr::V4(*to)),
                RouteAttribute::Destination(RouteAddress::Inet6(to)) => Some(IpAddr::V6(*to)),
                _ => None,
            });
            match (to, route.header.destination_prefix_length) {
                (Some(to), length) => format!("the route to {to}/{length}"),
                (None, _) => "the default route".to_owned(),
            }
        }));
        missing
    }
}

/// Messages as bytes, for a file.
pub(super) fn to_bytes(messages: &[impl Emitable]) -> Vec<Vec<u8>> {
    let bytes = |message: &_| {
        let mut bytes = vec![0; Emitable::buffer_len(message)];
        Emitable::emit(message, &mut bytes);
        bytes
    };
    messages.iter().map(bytes).collect()
}

/// Reads what [`to_bytes`] wrote.
pub(super) fn of_bytes<M: Parseable<[u8]>>(messages: &[Vec<u8>]) -> io::Result<Vec<M>> {
    let read = |bytes: &Vec<u8>| M::parse(bytes.as_slice());
    messages
        .iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

impl RouteSocket {
    /// A socket in another network namespace, which a temporary thread enters; `EPERM` without CAP_SYS_ADMIN over it.
    pub fn open_in(namespace: BorrowedFd<'_>) -> SysResult<Self> {
        let failed = |error: io::Error| SysError::new("enter network namespace", "", error);
        let open = || {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
                .map_err(|error| failed(error.into()))?;
            Self::open()
        };
        sched::apart(open).map_err(failed)?
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
        let addresses: Vec<AddressMessage> = addresses.collect();
        let own: Vec<IpAddr> = addresses.iter().filter_map(own_address).collect();
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            for reply in self.dump("list routes", RouteNetlinkMessage::GetRoute(message))? {
                let RouteNetlinkMessage::NewRoute(route) = reply else { continue };
                let is_lost = leads_over(&route, link.index) || comes_from(&route, &own);
                if is_lost && is_configured(&route) {
                    routes.push(route);
                }
            }
        }
        // routes through a gateway need the direct routes first
        routes.sort_by_key(|route| std::cmp::Reverse(u8::from(route.header.scope)));
        Ok(Addressing { addresses, routes, up: link.up, index: link.index })
    }

    /// Restores addresses, and brings the interface up if it was up. `with_routes` also restores
    /// routes, in the original namespace; in another one the routes to its own networks are enough.
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
            let message = restorable(message, addressing.index, index);
            // of an IPv6 route with several next hops, the kernel keeps those of other interfaces
            let remains = message.header.address_family == AddressFamily::Inet6
                && message
                    .attributes
                    .iter()
                    .any(|part| matches!(part, RouteAttribute::MultiPath(_)));
            let flag = if remains { NLM_F_REPLACE } else { NLM_F_EXCL };
            let given = self.act(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | flag);
            accept_existing(given)
                .map_err(|refusal| refusal.during("restore a route over", quoted(name)))?;
        }
        Ok(())
    }
}

/// The route as a request to add it, for an interface whose index was `was` and is `is`. Index zero
/// stands for every interface.
fn restorable(route: &RouteMessage, was: u32, is: u32) -> RouteMessage {
    let now = |index: u32| if index == was || (was == 0 && is != 0) { is } else { index };
    let mut route = route.clone();
    // the others are states that the kernel refuses in a request
    route.header.flags &= RouteFlags::Onlink | RouteFlags::Pervasive;
    let by_object = route.attributes.iter().any(|part| matches!(part, RouteAttribute::NhId(_)));
    route.attributes.retain(|attribute| match attribute {
        RouteAttribute::CacheInfo(_) => false,
        // told beside the number of a nexthop object, and refused beside it
        RouteAttribute::Oif(_)
        | RouteAttribute::Gateway(_)
        | RouteAttribute::Via(_)
        | RouteAttribute::MultiPath(_) => !by_object,
        _ => true,
    });
    for attribute in &mut route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => *index = now(*index),
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    hop.interface_index = now(hop.interface_index);
                    hop.flags &= RouteNextHopFlags::Onlink | RouteNextHopFlags::Pervasive;
                }
            }
            _ => {}
        }
    }
    route
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

/// Whether to restore the address: the kernel creates its own IPv6 link-local address again. Before
/// Linux 5.18 it does not report which that is; one that is restored before is the same.
fn is_to_restore(message: &AddressMessage) -> bool {
    let own_making = message.header.family == AddressFamily::Inet6
        && message.header.scope == AddressScope::Link
        && message.attributes.contains(&AddressAttribute::Protocol(AddressProtocol::LinkLocal));
    own_address(message).is_some() && !own_making
}

fn own_address(message: &AddressMessage) -> Option<IpAddr> {
    let of = |local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    // on a point-to-point interface the other attribute is the peer
    of(true).or_else(|| of(false))
}

fn leads_over(route: &RouteMessage, index: u32) -> bool {
    route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Oif(oif) => *oif == index,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == index),
        _ => false,
    })
}

/// Whether the preferred source of an IPv4 route is one of these addresses: the kernel removes it
/// with the address (`fib_sync_down_addr`, net/ipv4/fib_semantics.c), whatever interface it leads
/// over.
fn comes_from(route: &RouteMessage, addresses: &[IpAddr]) -> bool {
    route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::PrefSource(RouteAddress::Inet(source)) => {
            addresses.contains(&IpAddr::V4(*source))
        }
        _ => false,
    })
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
        let (addresses, routes) = (vec![address, leased], vec![route]);
        let all = Addressing { addresses, routes, up: true, index: 7 };
        assert!(all.has_ipv4() && all.was_up());
        assert_eq!(all.leased(), [IpAddr::from([198, 51, 100, 1])]);
        let permanent = all.permanent();
        assert_eq!((permanent.addresses.len(), permanent.leased().len()), (1, 0));
        let messages = permanent.to_messages();
        let mut read = Addressing::of_messages(&messages, true, 7).unwrap();
        assert_eq!((&read.addresses, &read.routes), (&permanent.addresses, &permanent.routes));
        assert!(Addressing::of_messages(&[vec![vec![1]], Vec::new()], true, 7).is_err());
        assert!(permanent.missing_from(&read).is_empty());
        (read.addresses, read.routes) = (Vec::new(), Vec::new());
        let missing = permanent.missing_from(&read);
        assert_eq!(missing, ["the address 198.51.100.1/24", "the default route"]);
    }

    #[test]
    fn a_route_is_restored_over_the_new_index_and_without_states() {
        let mut route = RouteMessage::default();
        route.header.flags = RouteFlags::Linkdown | RouteFlags::Onlink;
        let mut hop = netlink_packet_route::route::RouteNextHop::default();
        (hop.interface_index, hop.flags) = (7, RouteNextHopFlags::Dead);
        let other = {
            let mut other = hop.clone();
            other.interface_index = 3;
            other
        };
        route.attributes = vec![RouteAttribute::MultiPath(vec![hop, other])];
        assert!(leads_over(&route, 7) && leads_over(&route, 3) && !leads_over(&route, 4));
        let again = restorable(&route, 7, 9);
        assert_eq!(again.header.flags, RouteFlags::Onlink);
        let RouteAttribute::MultiPath(hops) = &again.attributes[0] else { panic!("{again:?}") };
        let seen: Vec<_> = hops.iter().map(|hop| (hop.interface_index, hop.flags.bits())).collect();
        assert_eq!(seen, [(9, 0), (3, 0)]);
        route.attributes = vec![RouteAttribute::Oif(3), RouteAttribute::NhId(5)];
        assert_eq!(restorable(&route, 7, 9).attributes, [RouteAttribute::NhId(5)]);
        route.attributes = vec![RouteAttribute::Oif(3)];
        assert_eq!(restorable(&route, 0, 9).attributes, [RouteAttribute::Oif(9)]);
        let source = RouteAddress::Inet([198, 51, 100, 1].into());
        route.attributes = vec![RouteAttribute::PrefSource(source)];
        assert!(comes_from(&route, &[[198, 51, 100, 1].into()]) && !comes_from(&route, &[]));
    }
}
