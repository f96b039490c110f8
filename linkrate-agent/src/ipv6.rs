//! Traffic over IPv6 between hosts of a lab.
//!
//! An interface of a lab sends nothing by itself. Therefore the address of the host is one of `lo`: an
//! address of the interface itself would join its solicited-node group, which the kernel reports to
//! routers (`addrconf_join_solict`, net/ipv6/addrconf.c). Linux accepts packets to any of its addresses on
//! any interface. Neighbours are set, so that nobody asks for them.

use linkrate_sys::error::SysResult;
use linkrate_sys::netlink::RouteSocket;

use linkrate_protocol::{Ipv6Setup, Refusal};

/// The interface that has the addresses.
const LOOPBACK: &str = "lo";

/// Bits of an address that stands alone.
const ALONE: u8 = 128;

/// Lets an interface reach its neighbours from an address of this host. It may be done again: the
/// kernel forgets routes and neighbours of an interface whose MTU falls below 1280. Fails where the kernel has no
/// IPv6, or it is off in this network namespace.
pub fn reach(setup: &Ipv6Setup) -> Result<(), Refusal> {
    try_reach(setup).map_err(|error| {
        let hint = error.hint().unwrap_or("set net.ipv6.conf.default.disable_ipv6 to 0").to_owned();
        Refusal { hint: Some(hint), ..error.into() }
    })
}

fn try_reach(setup: &Ipv6Setup) -> SysResult<()> {
    let mut route = RouteSocket::open()?;
    route.set_up(LOOPBACK)?;
    route.keep_address(LOOPBACK, setup.address, ALONE)?;
    route.await_address(setup.address)?;
    for (neighbour, hardware_address) in &setup.neighbours {
        route.set_neighbour(&setup.name, *neighbour, *hardware_address)?;
        let congestion = setup.route_congestion.as_deref();
        route.set_host_route(&setup.name, *neighbour, setup.address, congestion)?;
    }
    Ok(())
}
