//! What files do not tell: offloads, rings and link modes through ethtool, kinds and limits of
//! interfaces, routes and connections through netlink.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::netlink::{LinkEntry, RouteSocket};
use linkrate_sys::sock_diag;
use linkrate_sys::tree::Tree;

use crate::tuning::facts::{Host, Interface, Process};

/// Adds to `host`, which holds what the files of this host told.
pub(super) fn complete(host: &mut Host, tree: &Tree) {
    match RouteSocket::open() {
        Ok(mut socket) => routing(host, &mut socket),
        Err(error) => host.unseen.push(("routes", error.to_string())),
    }
    match Ethtool::open() {
        Ok(mut ethtool) => {
            for interface in host.interfaces.iter_mut().filter(|interface| interface.up) {
                adapter(interface, &mut ethtool);
            }
        }
        Err(error) => host.unseen.push(("offloads", error.to_string())),
    }
    match sock_diag::connections() {
        Ok(mut connections) => {
            connections.retain(|connection| !connection.stays_here());
            host.connections = connections;
        }
        Err(error) => host.unseen.push(("round-trip", error.to_string())),
    }
    host.processes = owners(host, tree);
}

fn routing(host: &mut Host, socket: &mut RouteSocket) {
    match socket.links() {
        Ok(links) => interfaces(host, &links),
        Err(error) => host.unseen.push(("interfaces", error.to_string())),
    }
    if let Ok(mut addresses) = socket.addresses() {
        for interface in &mut host.interfaces {
            interface.addresses = addresses.remove(&interface.index).unwrap_or_default();
        }
    }
    match socket.routes() {
        Ok(routes) => host.routes = routes,
        Err(error) => host.unseen.push(("routes", error.to_string())),
    }
}

fn interfaces(host: &mut Host, links: &[LinkEntry]) {
    let names: BTreeMap<u32, &str> =
        links.iter().map(|entry| (entry.link.index, entry.name.as_str())).collect();
    let name_of = |index: Option<u32>| {
        index.and_then(|index| names.get(&index)).map(|name| (*name).to_owned())
    };
    // a sysfs of another network namespace shows interfaces that are not ours
    let ours = |interface: &Interface| {
        links.iter().any(|l| l.name == interface.name && l.link.index == interface.index)
    };
    let foreign = host.interfaces.iter().any(|interface| !ours(interface));
    host.interfaces.retain(ours);
    let mut missing = 0;
    for entry in links.iter().filter(|entry| entry.name != "lo") {
        let place = host.interfaces.iter().position(|interface| interface.name == entry.name);
        let interface = match place {
            Some(place) => &mut host.interfaces[place],
            None => {
                missing += 1;
                let of = Interface { name: entry.name.clone(), ..Interface::default() };
                host.interfaces.push(of);
                host.interfaces.last_mut().expect("just pushed")
            }
        };
        let superframe = entry.link.gso_ipv4_max_size;
        interface.index = entry.link.index;
        interface.up = entry.link.up;
        interface.mtu = entry.link.mtu;
        interface.kind.clone_from(&entry.kind);
        interface.max_mtu = (entry.max_mtu > 0).then_some(entry.max_mtu);
        interface.controller = name_of(entry.controller);
        interface.lower = name_of(entry.lower);
        interface.queue_discipline.clone_from(&entry.queue_discipline);
        interface.gso_max_size = if superframe > 0 { superframe } else { entry.link.gso_max_size };
        interface.gso_max_segs = entry.link.gso_max_segs;
        interface.tso_max_size = entry.link.tso_max_size;
    }
    if foreign || missing > 0 {
        let why = "/sys shows another network namespace: no queues, interrupts, counters or bus; \
                   `mount -t sysfs sysfs /sys` in a mount namespace of its own shows them";
        host.unseen.push(("interfaces", why.to_owned()));
    }
}

/// What the driver does not have is `None`, and no failure.
fn adapter(interface: &mut Interface, ethtool: &mut Ethtool) {
    let name = &interface.name;
    interface.features = ethtool.features(name).ok();
    interface.rings = ethtool.rings(name).ok();
    interface.coalescing = ethtool.coalescing(name).ok();
    interface.pause = ethtool.pause(name).ok();
    interface.channels = ethtool.channels(name).ok();
    interface.modes = ethtool.link_modes(name).ok();
    if let Some(modes) = &interface.modes {
        interface.speed_mbps = interface.speed_mbps.or(modes.speed_mbps);
        interface.full_duplex = interface.full_duplex.or(modes.full_duplex);
    }
}

/// Processes that own the connections, as far as `/proc/PID/fd` may be looked into.
fn owners(host: &Host, tree: &Tree) -> Vec<Process> {
    let wanted: BTreeSet<u32> = host.connections.iter().map(|c| c.inode).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    super::processes(tree).filter_map(|pid| owner(pid, &wanted, tree)).collect()
}

fn owner(pid: u32, wanted: &BTreeSet<u32>, tree: &Tree) -> Option<Process> {
    let directory = format!("/proc/{pid}/fd");
    let sockets: Vec<u32> = tree
        .names(&directory)
        .iter()
        .filter_map(|fd| socket_inode(&tree.link_name(format!("{directory}/{fd}"))?))
        .filter(|inode| wanted.contains(inode))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let status = tree.text(format!("/proc/{pid}/status"))?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let name = tree.text(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Process { pid, name, cpus: cpus.trim().parse().ok()?, sockets })
}

/// `socket:[12345]`.
fn socket_inode(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}
