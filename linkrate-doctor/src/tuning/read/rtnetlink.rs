//! Interfaces with their kinds and limits, addresses and routes, through rtnetlink(7).

use std::collections::BTreeMap;

use linkrate_sys::bonding;
use linkrate_sys::netlink::{LinkEntry, RouteSocket};
use linkrate_sys::team;
use linkrate_sys::tree::Tree;

use crate::tuning::facts::{Host, Interface};

/// Adds interfaces, addresses and routes to `host`, which holds the facts from files.
pub(super) fn complete(host: &mut Host) {
    match RouteSocket::open() {
        Ok(mut socket) => routing(host, &mut socket),
        Err(error) => host.unseen.push(("routes", error.to_string())),
    }
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
    // a sysfs of another network namespace lists other interfaces
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
        if interface.aggregate.is_none() {
            let tree = Tree::of_this_host();
            interface.aggregate = bonding::aggregate(&tree, &entry.name, entry.kind.as_deref());
        }
        let name_of_port = |index| name_of(Some(index));
        team::complete(&mut interface.aggregate, entry.link.index, name_of_port);
        interface.max_mtu = (entry.max_mtu > 0).then_some(entry.max_mtu);
        interface.controller = name_of(entry.controller);
        interface.lower = name_of(entry.lower);
        interface.queue_discipline.clone_from(&entry.queue_discipline);
        interface.gso_max_size = if superframe > 0 { superframe } else { entry.link.gso_max_size };
        interface.gso_max_segs = entry.link.gso_max_segs;
        interface.tso_max_size = entry.link.tso_max_size;
    }
    if foreign || missing > 0 {
        let why = "/sys shows another network namespace, so queues, interrupts, counters and bus cannot be \
                   read; run `mount -t sysfs sysfs /sys` in a separate mount namespace";
        host.unseen.push(("interfaces", why.to_owned()));
    }
}
