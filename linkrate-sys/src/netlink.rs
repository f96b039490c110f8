//! Interfaces, addresses and routes through rtnetlink(7), in the calling thread's namespace.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::error::{SysError, SysResult};

mod address;
mod attached;
mod dependents;
mod discipline;
mod dump;
pub(crate) mod exchange;
pub(crate) mod generic;
mod host_route;
mod link;
mod neighbour;
mod raw;
mod relocation;

pub use attached::{CARRIER_CHANGES, nf_tables_generation};
pub use dependents::netfilter_on;
pub use discipline::{DatagramLimit, Disciplines};
pub use dump::{LinkEntry, RouteEntry};
pub use link::Link;
pub use neighbour::Neighbours;
pub use relocation::Addressing;

use exchange::{Exchange, Refusal};

/// `IFNAMSIZ` of linux/if.h with its terminating zero.
const NAME_SIZE: usize = 16;

/// A routing socket in the network namespace of the thread that opened it, even if the thread later
/// enters another one.
#[derive(Debug)]
pub struct RouteSocket(Exchange);

impl RouteSocket {
    /// Opens the socket; fails when netlink sockets are forbidden or descriptors have run out.
    pub fn open() -> SysResult<Self> {
        Exchange::open(netlink_sys::protocols::NETLINK_ROUTE, "route").map(Self)
    }

    /// Creates a veth pair: `name` in this namespace, `peer_name` in `peer_netns`, each with
    /// `queues` transmit and receive queues. Both are down.
    ///
    /// # Errors
    /// `EEXIST` when a name is taken, `EPERM` without CAP_NET_ADMIN over both namespaces.
    pub fn create_veth(
        &mut self,
        name: &str,
        peer_name: &str,
        peer_netns: BorrowedFd<'_>,
        queues: u32,
    ) -> SysResult<()> {
        const OPERATION: &str = "create veth pair";
        check_name(OPERATION, name)?;
        check_name(OPERATION, peer_name)?;
        let end = |name: &str| {
            link_message(vec![
                LinkAttribute::IfName(name.to_owned()),
                LinkAttribute::NumTxQueues(queues),
                LinkAttribute::NumRxQueues(queues),
            ])
        };
        let mut peer = end(peer_name);
        peer.attributes.push(LinkAttribute::NetNsFd(peer_netns.as_raw_fd()));
        let mut near = end(name);
        near.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.act(RouteNetlinkMessage::NewLink(near), NLM_F_CREATE | NLM_F_EXCL).map_err(|refusal| {
            refusal.during(OPERATION, format!("\"{name}\" and \"{peer_name}\" (queues: {queues})"))
        })
    }

    /// The present state of interface `name`; `ENODEV` when this namespace has no interface of that name.
    pub fn link(&mut self, name: &str) -> SysResult<Link> {
        const OPERATION: &str = "read link";
        let message = named_link(OPERATION, name, Vec::new())?;
        let replies: Vec<RouteNetlinkMessage> = self
            .0
            .request(RouteNetlinkMessage::GetLink(message), 0)
            .map_err(|refusal| refusal.during(OPERATION, quoted(name)))?;
        replies
            .into_iter()
            .find_map(|reply| match reply {
                RouteNetlinkMessage::NewLink(message) => Some(Link::from(&message)),
                _ => None,
            })
            .ok_or_else(|| {
                let cause = io::Error::from_raw_os_error(libc::ENODEV);
                SysError::new(OPERATION, quoted(name), cause)
            })
    }

    /// Sets the largest IP packet in bytes.
    ///
    /// # Errors
    /// `EINVAL` outside the limits of the driver, which the kernel's text in the error names.
    pub fn set_mtu(&mut self, name: &str, bytes: u32) -> SysResult<()> {
        self.set("set mtu of", name, Some(&bytes), vec![LinkAttribute::Mtu(bytes)])
    }

    /// Sets the length of the transmit queue in packets (`txqueuelen`); on a TAP, also that of the
    /// ring of each queue.
    ///
    /// # Errors
    /// `EPERM` from a TAP without memory for the rings.
    pub fn set_tx_queue_length(&mut self, name: &str, packets: u32) -> SysResult<()> {
        let attributes = vec![LinkAttribute::TxQueueLen(packets)];
        self.set("set txqueuelen of", name, Some(&packets), attributes).map_err(|error| {
            match error.errno() {
                // NOTIFY_BAD of tun_device_event (drivers/net/tun.c) also becomes EPERM
                Some(libc::EPERM) => error.with_hint(
                    "run with CAP_NET_ADMIN; on a TAP, try a shorter queue, which needs less memory",
                ),
                _ => error,
            }
        })
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` for a group address or a zero address, `EBUSY` while the interface is up, if
    /// the driver cannot change the address then.
    pub fn set_hardware_address(&mut self, name: &str, address: [u8; 6]) -> SysResult<()> {
        let attributes = vec![LinkAttribute::Address(address.to_vec())];
        let address = address.map(|byte| format!("{byte:02x}")).join(":");
        self.set("set hardware address of", name, Some(&address), attributes)
    }

    /// Brings the interface up; `ENODEV` when this namespace has no interface of that name.
    pub fn set_up(&mut self, name: &str) -> SysResult<()> {
        self.set_flag_up("bring up", name, LinkFlags::Up)
    }

    /// Takes the interface down; `ENODEV` when this namespace has no interface of that name.
    pub fn set_down(&mut self, name: &str) -> SysResult<()> {
        self.set_flag_up("take down", name, LinkFlags::empty())
    }

    /// Waits until [`Link::running`]. A connection that is opened earlier loses its first segment
    /// and waits a second for the next.
    ///
    /// # Errors
    /// `TimedOut` after `timeout`.
    pub fn wait_running(&mut self, name: &str, timeout: Duration) -> SysResult<()> {
        let deadline = Instant::now() + timeout;
        while !self.link(name)?.running {
            if Instant::now() >= deadline {
                let cause = io::Error::new(io::ErrorKind::TimedOut, "the link is not running");
                return Err(SysError::new("wait for link", quoted(name), cause)
                    .with_hint("bring both ends of the link up"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sets the largest superframe in bytes for IPv6 and IPv4 (`IFLA_GSO_MAX_SIZE` and
    /// `IFLA_GSO_IPV4_MAX_SIZE`, include/uapi/linux/if_link.h). On kernels before 6.3, which
    /// ignore the second, the first holds for both. Sockets learn it when they next look up
    /// their route, so set it before connections are made.
    ///
    /// # Errors
    /// `ERANGE` or `EINVAL` below the largest TCP header or above
    /// [`Link::tso_max_size`].
    pub fn set_gso_max_size(&mut self, name: &str, bytes: u32) -> SysResult<()> {
        self.set_gso_max_sizes(name, bytes, bytes)
    }

    /// Sets both sizes: `all` for IPv6, and on kernels before 6.3 for IPv4 too.
    pub fn set_gso_max_sizes(&mut self, name: &str, all: u32, ipv4: u32) -> SysResult<()> {
        let attributes = vec![LinkAttribute::GsoMaxSize(all), LinkAttribute::GsoIpv4MaxSize(ipv4)];
        self.set("set gso_max_size of", name, Some(&ipv4), attributes)
    }

    /// Sets the largest packet in bytes that GRO merges, for IPv6 and IPv4 (`IFLA_GRO_MAX_SIZE` and
    /// `IFLA_GRO_IPV4_MAX_SIZE`, include/uapi/linux/if_link.h). On kernels before 6.3, which ignore the
    /// second, the first holds for both.
    ///
    /// # Errors
    /// `ERANGE` or `EINVAL` above the kernel's limit.
    pub fn set_gro_max_size(&mut self, name: &str, bytes: u32) -> SysResult<()> {
        self.set_gro_max_sizes(name, bytes, bytes)
    }

    /// Sets both sizes: `all` for IPv6, and on kernels before 6.3 for IPv4 too.
    pub fn set_gro_max_sizes(&mut self, name: &str, all: u32, ipv4: u32) -> SysResult<()> {
        let attributes = vec![LinkAttribute::GroMaxSize(all), LinkAttribute::GroIpv4MaxSize(ipv4)];
        self.set("set gro_max_size of", name, Some(&ipv4), attributes)
    }

    /// Sets the most segments of a superframe; 1 turns superframes off.
    ///
    /// # Errors
    /// `EINVAL` above [`Link::tso_max_segs`].
    pub fn set_gso_max_segs(&mut self, name: &str, segments: u32) -> SysResult<()> {
        let attributes = vec![LinkAttribute::GsoMaxSegs(segments)];
        self.set("set gso_max_segs of", name, Some(&segments), attributes)
    }

    /// Prevents IPv6 link-local addresses on the interface, so that neighbour discovery and router
    /// solicitations do not disturb measurements. Call it before [`set_up`](Self::set_up). Succeeds
    /// on a kernel without IPv6.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name.
    pub fn disable_ipv6(&mut self, name: &str) -> SysResult<()> {
        const OPERATION: &str = "disable IPv6 on";
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let mode = LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]);
        let message = named_link(OPERATION, name, vec![mode])?;
        match self.act(RouteNetlinkMessage::SetLink(message), 0) {
            Err(refusal) if refusal.errno() == Some(libc::EAFNOSUPPORT) => Ok(()),
            result => result.map_err(|refusal| refusal.during(OPERATION, quoted(name))),
        }
    }

    /// Removes an interface; if it is one end of a veth pair, the other end too.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name, `EOPNOTSUPP` for one that cannot
    /// be removed.
    pub fn delete_link(&mut self, name: &str) -> SysResult<()> {
        const OPERATION: &str = "delete link";
        let message = named_link(OPERATION, name, Vec::new())?;
        self.act(RouteNetlinkMessage::DelLink(message), 0)
            .map_err(|refusal| refusal.during(OPERATION, quoted(name)))
    }

    /// Adds an address; the kernel adds the connected route of its network. Nobody is asked whether another
    /// host has it (`IFA_F_NODAD`), as the caller knows.
    ///
    /// # Errors
    /// `EEXIST` when it has that address already.
    pub fn add_address(
        &mut self,
        name: &str,
        address: impl Into<IpAddr>,
        prefix_len: u8,
    ) -> SysResult<()> {
        let address = address.into();
        let message = address_message(self.link(name)?.index, address, prefix_len);
        self.act(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL).map_err(
            |refusal| {
                refusal.during("add address", format!("{address}/{prefix_len} to \"{name}\""))
            },
        )
    }

    /// Adds an address unless the interface has it.
    pub fn keep_address(
        &mut self,
        name: &str,
        address: impl Into<IpAddr>,
        prefix_len: u8,
    ) -> SysResult<()> {
        match self.add_address(name, address, prefix_len) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            added => added,
        }
    }

    /// Removes an address, and with it the routes that the kernel added for it.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` when it has no such address.
    pub fn delete_address(
        &mut self,
        name: &str,
        address: impl Into<IpAddr>,
        prefix_len: u8,
    ) -> SysResult<()> {
        let address = address.into();
        let message = address_message(self.link(name)?.index, address, prefix_len);
        self.act(RouteNetlinkMessage::DelAddress(message), 0).map_err(|refusal| {
            refusal.during("delete address", format!("{address}/{prefix_len} of \"{name}\""))
        })
    }

    /// Makes the TCP sockets of all programs use `congestion` over this network from the first
    /// segment: replaces the connected route of `network` with one that names the algorithm
    /// (`RTAX_CC_ALGO`).
    ///
    /// If TCP_CONGESTION is set on a socket that started with bbr, the pacing of bbr stays on; with
    /// such a route it never starts. The route also overrides TCP_CONGESTION set before connect.
    /// The interface must be up, and no other interface may have the same network: the kernel
    /// replaces the first route it finds.
    ///
    /// # Errors
    /// `EINVAL` for an algorithm this kernel does not have, or a network with host bits set;
    /// `ENETDOWN` when the interface is down.
    pub fn set_route_congestion(
        &mut self,
        name: &str,
        network: Ipv4Addr,
        prefix_len: u8,
        source: Ipv4Addr,
        congestion: &str,
    ) -> SysResult<()> {
        let index = self.link(name)?.index;
        let message = congestion_route(index, network, prefix_len, source, congestion);
        self.act(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE).map_err(
            |refusal| {
                let subject = format!("{network}/{prefix_len} on \"{name}\" to {congestion}");
                let error = refusal.during("set congestion control of route", subject);
                if error.errno() == Some(libc::EINVAL) {
                    error.with_hint(
                        "/proc/sys/net/ipv4/tcp_available_congestion_control lists the algorithms of \
                         this kernel",
                    )
                } else {
                    error
                }
            },
        )
    }

    /// Reaches all other networks by `gateway`, over an interface that is up and has an address in
    /// the gateway's network. TCP sockets of all programs use `congestion` there, as with
    /// [`set_route_congestion`](Self::set_route_congestion).
    ///
    /// # Errors
    /// `ENETUNREACH` for a gateway in no network of the interface, `ENETDOWN` when it is down.
    pub fn set_default_route(
        &mut self,
        name: &str,
        gateway: Ipv4Addr,
        congestion: Option<&str>,
    ) -> SysResult<()> {
        let index = self.link(name)?.index;
        let message = default_route(index, gateway, congestion);
        self.act(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE).map_err(
            |refusal| refusal.during("set default route", format!("{gateway} on \"{name}\"")),
        )
    }

    fn set(
        &mut self,
        operation: &str,
        name: &str,
        value: Option<&dyn Display>,
        attributes: Vec<LinkAttribute>,
    ) -> SysResult<()> {
        let message = named_link(operation, name, attributes)?;
        let to = value.map_or_else(String::new, |value| format!(" to {value}"));
        self.act(RouteNetlinkMessage::SetLink(message), 0)
            .map_err(|refusal| refusal.during(operation, quoted(name) + &to))
    }

    fn set_flag_up(&mut self, operation: &str, name: &str, flags: LinkFlags) -> SysResult<()> {
        let mut message = named_link(operation, name, Vec::new())?;
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        self.act(RouteNetlinkMessage::SetLink(message), 0)
            .map_err(|refusal| refusal.during(operation, quoted(name)))
    }

    fn act(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Refusal> {
        self.0.request::<_, RouteNetlinkMessage>(message, flags).map(|_| ())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Refuses an invalid interface name (`dev_valid_name`, net/core/dev.c), for which netlink would
/// only report "out of range".
pub(crate) fn check_name(operation: &str, name: &str) -> SysResult<()> {
    let allowed = |c: char| !c.is_whitespace() && c != '/' && c != ':' && c != '\0';
    let valid = !name.is_empty()
        && name.len() < NAME_SIZE
        && name != "."
        && name != ".."
        && name.chars().all(allowed);
    if valid {
        return Ok(());
    }
    let cause = io::Error::from_raw_os_error(libc::EINVAL);
    Err(SysError::new(operation, quoted(name), cause)
        .with_detail("an interface name has 1 to 15 bytes, without spaces, \"/\" and \":\""))
}

fn link_message(attributes: Vec<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = attributes;
    message
}

/// A message about the interface of that name, if it can be one.
fn named_link(
    operation: &str,
    name: &str,
    mut attributes: Vec<LinkAttribute>,
) -> SysResult<LinkMessage> {
    check_name(operation, name)?;
    attributes.push(LinkAttribute::IfName(name.to_owned()));
    Ok(link_message(attributes))
}

fn default_route(index: u32, gateway: Ipv4Addr, congestion: Option<&str>) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    let metrics = |name: &str| RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(name.to_owned())]);
    message.attributes =
        vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway)), RouteAttribute::Oif(index)];
    message.attributes.extend(congestion.map(metrics));
    message
}

fn address_message(index: u32, address: IpAddr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => {
            message.header.flags = AddressHeaderFlags::Nodad;
            AddressFamily::Inet6
        }
    };
    message.header.prefix_len = prefix_len;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

fn congestion_route(
    index: u32,
    network: Ipv4Addr,
    prefix_len: u8,
    source: Ipv4Addr,
    congestion: &str,
) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: prefix_len,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Kernel,
        scope: RouteScope::Link,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(network)),
        RouteAttribute::PrefSource(RouteAddress::Inet(source)),
        RouteAttribute::Oif(index),
        RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(congestion.to_owned())]),
    ];
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_are_refused_before_the_kernel_sees_them() {
        for name in ["v0", "a-b_c.d", "fifteen-letters"] {
            assert!(check_name("read link", name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a b", "a:1", "a\0", "sixteen-letters!"] {
            let error = check_name("read link", name).unwrap_err();
            assert!(error.to_string().contains("1 to 15 bytes"), "{error}");
        }
    }
}
