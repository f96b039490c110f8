//! Facts that only sockets report: interfaces with their kinds and limits, addresses and routes,
//! through rtnetlink(7); TCP connections to other hosts, through sock_diag(7), and the processes
//! that own them.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::clean;
use linkrate_sys::netlink::{LinkEntry, RouteSocket};
use linkrate_sys::team;
use linkrate_sys::tree::Tree;
use linkrate_sys::{bonding, sock_diag};

use crate::tuning::facts::{Host, Interface, Process};

/// Adds interfaces, addresses and routes to `host`, which holds the facts from files.
pub(super) fn complete_routes(host: &mut Host) {
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

/// Adds connections and their processes to `host`.
pub(super) fn complete_connections(host: &mut Host, tree: &Tree) {
    match sock_diag::connections() {
        Ok(mut connections) => {
            connections.retain(|connection| !connection.stays_here());
            host.connections = connections;
        }
        Err(error) => host.unseen.push(("round-trip", error.to_string())),
    }
    host.processes = owners(host, tree);
}

/// Processes that own the connections, where this process may read `/proc/PID/fd`.
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
    // its owner chose it
    let name = tree.text(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = clean::line(&name).into_owned();
    Some(Process { pid, name, cpus: cpus.trim().parse().ok()?, sockets })
}

/// `socket:[12345]`.
fn socket_inode(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::tuning::read::sockets::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_name_of_a_process_does_not_drive_a_terminal() {
        let root = std::env::temp_dir().join(format!("linkrate-owner-{}", std::process::id()));
        let process = root.join("proc/777");
        fs::create_dir_all(process.join("fd")).unwrap();
        symlink("socket:[12345]", process.join("fd/3")).unwrap();
        fs::write(process.join("status"), "Cpus_allowed_list:\t0-3\n").unwrap();
        fs::write(process.join("comm"), "\u{1b}[2Jx\n").unwrap();
        let found = owner(777, &[12345].into(), &Tree::below(&root)).unwrap();
        assert_eq!((found.name.as_str(), found.sockets), ("\u{fffd}[2Jx", vec![12345]));
        fs::remove_dir_all(root).unwrap();
    }
}
