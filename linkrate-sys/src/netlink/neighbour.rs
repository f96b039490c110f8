//! Neighbours that somebody set: static ones, proxies, and addresses that an interface receives.
//!
//! The kernel removes them with the interface that moves to another network namespace, the first
//! also when it goes down, and those of IPv6 when its MTU falls below 1280.

use std::fs;
use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage,
    NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::relocation::{of_bytes, to_bytes};
use super::{RouteSocket, quoted};
use crate::error::{SysError, SysResult};

/// The groups of each interface of the calling thread's network namespace.
const GROUPS: &str = "/proc/thread-self/net/dev_mcast";

/// The neighbours of one interface that nobody learns again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Neighbours(Vec<NeighbourMessage>);

impl Neighbours {
    /// As rtnetlink messages, for a file.
    pub fn to_messages(&self) -> Vec<Vec<u8>> {
        to_bytes(&self.0)
    }

    /// Reads what [`to_messages`](Self::to_messages) wrote; `InvalidData` for bytes that are no such messages.
    pub fn of_messages(messages: &[Vec<u8>]) -> io::Result<Self> {
        of_bytes(messages).map(Self)
    }
}

impl RouteSocket {
    /// The static neighbours and the proxies of an interface, and the addresses beside its own that
    /// it was told to receive.
    pub fn static_neighbours(&mut self, name: &str) -> SysResult<Neighbours> {
        let index = self.link(name)?.index;
        let mut found = Vec::new();
        for (family, flags) in [
            (AddressFamily::Inet, NeighbourFlags::empty()),
            (AddressFamily::Inet6, NeighbourFlags::empty()),
            // a dump has either neighbours or proxies (neigh_dump_info, net/core/neighbour.c)
            (AddressFamily::Inet, NeighbourFlags::Proxy),
            (AddressFamily::Inet6, NeighbourFlags::Proxy),
            (AddressFamily::Bridge, NeighbourFlags::empty()),
        ] {
            let mut request = NeighbourMessage::default();
            request.header.family = family;
            request.header.flags = flags;
            let request = RouteNetlinkMessage::GetNeighbour(request);
            for reply in self.dump("list neighbours", request)? {
                let RouteNetlinkMessage::NewNeighbour(message) = reply else { continue };
                // a kernel without a family lists another
                let asked = message.header.ifindex == index && message.header.family == family;
                if asked && is_set(&message) {
                    found.push(restorable(message));
                }
            }
        }
        let groups =
            fs::read_to_string(GROUPS).map_err(|error| SysError::new("read", GROUPS, error))?;
        found.extend(static_groups(&groups, name).map(group));
        Ok(Neighbours(found))
    }

    /// Sets the Ethernet address of a neighbour, which nobody asks for then.
    ///
    /// # Errors
    /// `ENODEV` without an interface of that name, `ENETDOWN` while it is down.
    pub fn set_neighbour(
        &mut self,
        name: &str,
        address: impl Into<IpAddr>,
        hardware_address: [u8; 6],
    ) -> SysResult<()> {
        let mut message = NeighbourMessage::default();
        let address = address.into();
        let (family, destination) = match address {
            IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
            IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
        };
        message.header.family = family;
        message.header.ifindex = self.link(name)?.index;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(hardware_address.to_vec()),
        ];
        let request = RouteNetlinkMessage::NewNeighbour(message);
        self.act(request, NLM_F_CREATE | NLM_F_REPLACE).map_err(|refusal| {
            refusal.during("set neighbour", format!("{address} on {}", quoted(name)))
        })
    }

    /// Restores those that are missing or differ. Before, the interface must be up, if it was, and
    /// have its addresses.
    pub fn restore_static_neighbours(
        &mut self,
        name: &str,
        neighbours: &Neighbours,
    ) -> SysResult<()> {
        let index = self.link(name)?.index;
        let Neighbours(there) = self.static_neighbours(name)?;
        for message in neighbours.0.iter().filter(|message| !there.contains(message)) {
            let mut message = message.clone();
            message.header.ifindex = index;
            let request = RouteNetlinkMessage::NewNeighbour(message);
            self.act(request, NLM_F_CREATE | NLM_F_REPLACE)
                .map_err(|refusal| refusal.during("restore a neighbour on", quoted(name)))?;
        }
        Ok(())
    }
}

/// Whether a user or a program set the entry.
fn is_set(message: &NeighbourMessage) -> bool {
    let header = &message.header;
    if header.family == AddressFamily::Bridge {
        // those of groups do not report who joined; those with a controller belong to a bridge
        return header.flags.contains(NeighbourFlags::Own)
            && message.attributes.iter().any(|attribute| {
                let unicast = |address: &Vec<u8>| address.first().is_some_and(|byte| byte & 1 == 0);
                matches!(attribute, NeighbourAttribute::LinkLayerAddress(to) if unicast(to))
            });
    }
    let managed = message.attributes.iter().any(|attribute| {
        matches!(attribute, NeighbourAttribute::ExtFlags(flags)
            if flags.contains(NeighbourExtFlags::Managed))
    });
    managed
        || header.state == NeighbourState::Permanent
        || header.flags.intersects(NeighbourFlags::Proxy | NeighbourFlags::ExtLearned)
}

/// The entry as a request, without what the kernel counts, and without the index, which may change.
fn restorable(mut message: NeighbourMessage) -> NeighbourMessage {
    message.header.ifindex = 0;
    message.attributes.retain(|attribute| {
        !matches!(attribute, NeighbourAttribute::CacheInfo(_) | NeighbourAttribute::Probes(_))
    });
    if message.header.flags.contains(NeighbourFlags::Proxy) {
        // IFINDEX of an entry for all interfaces would name none
        message.header.state = NeighbourState::None;
    }
    message
}

/// The groups that `ip maddress add` joined: those with a count in the fourth field. The others
/// belong to protocols and sockets, which join them again or have lost them.
fn static_groups<'a>(listed: &'a str, name: &'a str) -> impl Iterator<Item = Vec<u8>> + 'a {
    listed.lines().filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let (interface, global, address) = (fields.nth(1)?, fields.nth(1)?, fields.next()?);
        let pairs = (0..address.len()).step_by(2);
        let bytes = pairs.map(|at| u8::from_str_radix(address.get(at..at + 2)?, 16).ok());
        let address: Option<Vec<u8>> = bytes.collect();
        if interface == name && global != "0" { address } else { None }
    })
}

/// A forwarding entry makes the interface join a group (`ndo_dflt_fdb_add`, net/core/rtnetlink.c).
fn group(address: Vec<u8>) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    message.header.state = NeighbourState::Permanent;
    message.header.flags = NeighbourFlags::Own;
    message.attributes = vec![NeighbourAttribute::LinkLayerAddress(address)];
    message
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn neighbour(state: NeighbourState) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = 7;
        message.header.state = state;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(Ipv4Addr::new(192, 0, 2, 1))),
            NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 1]),
            NeighbourAttribute::Probes(3),
        ];
        message
    }

    #[test]
    fn only_entries_that_somebody_set_are_kept() {
        assert!(is_set(&neighbour(NeighbourState::Permanent)));
        assert!(!is_set(&neighbour(NeighbourState::Reachable)));
        let mut proxy = neighbour(NeighbourState::None);
        proxy.header.flags = NeighbourFlags::Proxy;
        assert!(is_set(&proxy));
        let mut managed = neighbour(NeighbourState::Reachable);
        managed.attributes.push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
        assert!(is_set(&managed));
        assert!(is_set(&group(vec![2, 0, 0, 0, 0, 1])));
        assert!(!is_set(&group(vec![0x33, 0x33, 0, 0, 0, 1])), "a group, by whomever");
    }

    #[test]
    fn neighbours_survive_a_file_without_their_counters() {
        let kept = restorable(neighbour(NeighbourState::Permanent));
        assert_eq!((kept.header.ifindex, kept.attributes.len()), (0, 2));
        let all = Neighbours(vec![kept, group(vec![1, 0, 0x5e, 0, 0, 1])]);
        assert_eq!(Neighbours::of_messages(&all.to_messages()).unwrap(), all);
        assert!(Neighbours::of_messages(&[vec![1]]).is_err());
    }

    #[test]
    fn groups_that_a_person_joined_are_reported_by_their_count() {
        let listed = "2    eth2            1     0     3333ff000042\n\
                      2    eth2            1     1     333300000098\n\
                      3    eth3            1     1     01005e000001\n\
                      2    eth2            1     1     33zz\n2 eth2\n";
        let found: Vec<_> = static_groups(listed, "eth2").collect();
        assert_eq!(found, [[0x33, 0x33, 0, 0, 0, 0x98]]);
    }
}
