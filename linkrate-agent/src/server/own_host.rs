//! What a server does to its host beside the knobs of runs: it reaches neighbours over IPv6, confines receive
//! processing to CPUs, and ends with its carrier.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use linkrate_model::CpuSet;
use linkrate_protocol::{Ipv6Setup, Refusal, Steered};
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tree::Tree;
use linkrate_sys::{irq_affinity, socket, sysfs};

use crate::existing::Lease;

/// The interface that has the addresses of IPv6. An interface of a lab sends nothing by itself: an address of its
/// own would join its solicited-node group, which the kernel reports to routers (`addrconf_join_solict`,
/// net/ipv6/addrconf.c). Linux accepts packets to any of its addresses on any interface.
const LOOPBACK: &str = "lo";

/// Bits of an address that stands alone.
const ALONE: u8 = 128;

/// Lets an interface reach its neighbours over IPv6 from an address of this host. Neighbours are set, so that nobody
/// asks for them. It may be done again: the
/// kernel forgets routes and neighbours of an interface whose MTU falls below 1280. Fails where the kernel has no
/// IPv6, or it is off in this network namespace.
pub(super) fn reach_over_ipv6(setup: &Ipv6Setup) -> Result<(), Refusal> {
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

/// Confines the processing of received packets to `cpus`: moves the interrupts of the interface's
/// adapter there, one CPU each in turn, or steers its queues where it has no interrupts. Interrupts that cannot be
/// moved are in the answer.
pub(super) fn steer(name: &str, cpus: &CpuSet) -> Result<Steered, SysError> {
    let tree = Tree::of_this_host();
    let numbers = irq_affinity::of_interface(&tree, name);
    if numbers.is_empty() {
        steer_queues(name, cpus)?;
        return Ok(Steered::default());
    }
    let mut steered = Steered::default();
    let turns = cpus.iter().collect::<Vec<_>>();
    for (number, cpu) in numbers.into_iter().zip(turns.into_iter().cycle()) {
        let Some(now) = irq_affinity::affinity(&tree, number) else { continue };
        let inside = !now.is_empty() && now.iter().all(|cpu| cpus.contains(cpu));
        let moved =
            inside || irq_affinity::set_affinity(number, &[cpu].into_iter().collect()).is_ok();
        if moved { steered.interrupts += 1 } else { steered.stuck.push(number) }
    }
    Ok(steered)
}

/// Sets receive packet steering of every receive queue in use whose CPUs differ.
pub(super) fn steer_queues(interface: &str, cpus: &CpuSet) -> Result<(), SysError> {
    for queue in 0..sysfs::rx_queue_count(interface)? {
        if sysfs::receive_steering(interface, queue)? != *cpus {
            sysfs::set_receive_steering(interface, queue, cpus)?;
        }
    }
    Ok(())
}

/// How long the main thread may take to end by itself once the carrier has closed. It answers the
/// requests that had arrived before, and reports a stream that ended inside a message.
const GRACE: Duration = Duration::from_secs(2);

const THREAD: &str = "watch";

/// Starts a thread that ends the agent when its carrier closes or a signal arrives, whatever the other threads wait
/// for. It restores existing interfaces first. `signals` can be read once a signal asks the agent to end.
pub(super) fn watch(carrier: BorrowedFd<'_>, signals: OwnedFd, lease: &Lease) -> io::Result<()> {
    let carrier = carrier.try_clone_to_owned()?;
    let lease = lease.clone();
    std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        // an error means that nothing can be watched: the main thread still sees the end
        let Ok(closed) = socket::wait_closed(&carrier, &signals) else { return };
        lease.give_back();
        if closed {
            std::thread::sleep(GRACE);
        }
        std::process::exit(0);
    })?;
    Ok(())
}
