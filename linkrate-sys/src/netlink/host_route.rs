//! Routes to single hosts of IPv6.

use std::io;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::RouteSocket;
use crate::error::{SysError, SysResult};

/// Bits of an address.
const ALL_BITS: u8 = 128;

/// How long the kernel may take for the rest of an addition, and the time between two polls.
const TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

impl RouteSocket {
    /// Reaches `host` over an interface that is up, from the address `source` of any interface. TCP sockets
    /// of all programs use `congestion` there, as with
    /// [`set_route_congestion`](Self::set_route_congestion).
    ///
    /// The kernel removes the route when the interface goes down, or its MTU falls below 1280.
    ///
    /// # Errors
    /// `EINVAL` for a source that no interface has, `EACCES` where IPv6 is off on the interface,
    /// `ENETDOWN` when it is down.
    pub fn set_host_route(
        &mut self,
        name: &str,
        host: Ipv6Addr,
        source: Ipv6Addr,
        congestion: Option<&str>,
    ) -> SysResult<()> {
        let message = host_route(self.link(name)?.index, host, source, congestion);
        self.act(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.during("set route", format!("to {host} over \"{name}\"")))
    }
}

impl RouteSocket {
    /// Waits until packets to `address`, which was added, are for this host: the kernel does the rest of the
    /// addition later, by a thread of its own (`addrconf_dad_start`, net/ipv6/addrconf.c).
    ///
    /// # Errors
    /// `TimedOut` after five seconds, as for an interface that is down.
    pub fn await_address(&mut self, address: Ipv6Addr) -> SysResult<()> {
        const OPERATION: &str = "wait for address";
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mut request = RouteMessage::default();
            request.header.address_family = AddressFamily::Inet6;
            request.header.destination_prefix_length = ALL_BITS;
            request.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet6(address))];
            // no route at all is an error of the request
            let request = RouteNetlinkMessage::GetRoute(request);
            let replies = self.0.request::<_, RouteNetlinkMessage>(request, 0).unwrap_or_default();
            let is_local = |reply: &RouteNetlinkMessage| matches!(reply, RouteNetlinkMessage::NewRoute(of) if of.header.kind == RouteType::Local);
            if replies.iter().any(is_local) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let cause = io::Error::from(io::ErrorKind::TimedOut);
                return Err(SysError::new(OPERATION, address.to_string(), cause));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn host_route(
    index: u32,
    host: Ipv6Addr,
    source: Ipv6Addr,
    congestion: Option<&str>,
) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet6,
        destination_prefix_length: ALL_BITS,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    let metrics = |name: &str| RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(name.to_owned())]);
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet6(host)),
        RouteAttribute::PrefSource(RouteAddress::Inet6(source)),
        RouteAttribute::Oif(index),
    ];
    message.attributes.extend(congestion.map(metrics));
    message
}
