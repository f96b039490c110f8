//! Reads what the network stack of this network namespace is made of beside the knobs of a run: sysctls, steering, interrupts,
//! netfilter, programs of BPF, sockets that get copies of packets, and routes.
//!
//! What a kernel does not have, or does not let this process read, is absent. No program is started, and nothing is changed.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use linkrate_model::discipline::Discipline;
use linkrate_model::host::Stack;

use crate::bpf::loaded;
use crate::ethtool::Ethtool;
use crate::host_settings::{changeable, sysctls_in};
use crate::netlink::{RouteSocket, nf_tables_generation};
use crate::processes::{self, program_of};
use crate::tree::Tree;
use crate::{cgroup, irq_affinity, network_namespace};

mod iptables;

/// The most queues of an interface whose steering is read, and the most interrupts.
const MAX_QUEUES: usize = 128;

/// The longest value, characters.
const MAX_LENGTH: usize = 1000;

/// The files of a receive queue and of a transmit queue that change traffic (Documentation/ABI/testing/sysfs-class-net-queues).
const RECEIVE: [&str; 2] = ["rps_cpus", "rps_flow_cnt"];
const TRANSMIT: [&str; 5] = [
    "xps_cpus",
    "xps_rxqs",
    "tx_maxrate",
    "byte_queue_limits/limit_max",
    "byte_queue_limits/limit_min",
];

/// Protocols of raw(7) sockets that get a copy of each packet of test traffic: TCP and UDP.
const COPIED: [&str; 2] = ["0006", "0011"];

/// Reads it again and again.
#[derive(Debug, Default)]
pub struct StackReader {
    /// The programs that hold a socket, by its inode.
    owners: HashMap<u64, String>,
}

impl StackReader {
    /// The present state, with these interfaces, and the routes to `peers`.
    pub fn read(&mut self, interfaces: &[String], peers: &[IpAddr]) -> Stack {
        let tree = Tree::of_this_host();
        let mut stack =
            Stack { host: sysctls(&tree, peers), interfaces: of_interfaces(&tree, interfaces) };
        stack.host.extend(netfilter());
        if let Ok(namespace) = network_namespace::own() {
            let programs = loaded::in_namespace(&namespace).into_iter();
            stack.host.extend(programs.map(|(place, ids)| (format!("BPF at {place}"), ids)));
        }
        if let Ok(mut route) = RouteSocket::open() {
            stack.host.extend(self.listeners(&mut route));
            let routes = peers.iter().filter_map(|address| {
                Some((format!("route to {address}"), route.route_in_words(*address)?))
            });
            stack.interfaces.extend(routes);
        }
        for value in stack.host.values_mut().chain(stack.interfaces.values_mut()) {
            if let Some((end, _)) = value.char_indices().nth(MAX_LENGTH) {
                value.truncate(end);
            }
        }
        stack
    }

    /// The sockets that get copies of packets, with the programs that hold them.
    fn listeners(&mut self, route: &mut RouteSocket) -> BTreeMap<String, String> {
        let text = |name: &str| {
            fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
        };
        let packet = packet_sockets(&text("packet"));
        let raw = ["raw", "raw6"].iter().flat_map(|name| raw_sockets(&text(name)));
        let raw: Vec<_> = raw.collect();
        let links = match packet.is_empty() {
            true => Vec::new(),
            false => route.links().unwrap_or_default(),
        };
        let packet = packet.into_iter().map(|(inode, protocol, index)| {
            let link = links.iter().find(|entry| entry.link.index == index);
            let place = link.map_or("all interfaces", |entry| entry.name.as_str());
            (inode, format!("protocol 0x{protocol}, {place}"))
        });
        let found: [Vec<(u64, String)>; 2] = [packet.collect(), raw];
        let named = ["packet sockets", "raw sockets"].into_iter().zip(found);
        let reported = named.filter(|(_, sockets)| !sockets.is_empty()).map(|(name, sockets)| {
            let words = sockets.into_iter().map(|(inode, what)| {
                let owner = self.owners.entry(inode).or_insert_with(|| owner_of(inode));
                format!("{owner}: {what}")
            });
            (name.to_owned(), words.collect::<Vec<_>>().join("; "))
        });
        reported.collect()
    }
}

/// Settings and programs of the whole machine that change what its kernel's code costs. Those of a network namespace are
/// left out.
pub fn of_machine() -> BTreeMap<String, String> {
    let mut found = changeable(&Tree::of_this_host());
    let tracing = loaded::tracing();
    if !tracing.is_empty() {
        found.insert("BPF programs that trace".to_owned(), tracing.join("; "));
    }
    if let Some(quota) = cgroup::cpu_quota() {
        found.insert("CPU quota".to_owned(), quota.to_string());
    }
    for group in cgroup::own_group().iter().filter_map(|path| fs::File::open(path).ok()) {
        let programs = loaded::in_control_group(&group.into()).into_iter();
        found.extend(programs.map(|(place, ids)| (format!("BPF at {place}"), ids)));
    }
    found
}

/// Those of the namespace and of the families of the peers.
fn sysctls(tree: &Tree, peers: &[IpAddr]) -> BTreeMap<String, String> {
    let mut directories = vec!["core", "ipv4", "ipv4/conf/all", "ipv4/route"];
    if peers.iter().any(IpAddr::is_ipv6) {
        directories.extend(["ipv6", "ipv6/conf/all", "ipv6/route"]);
    }
    sysctls_in(tree, directories.into_iter().map(str::to_owned))
}

fn of_interfaces(tree: &Tree, interfaces: &[String]) -> BTreeMap<String, String> {
    let mut found = sysctls_in(tree, interfaces.iter().map(|name| format!("ipv4/conf/{name}")));
    for name in interfaces {
        let mut add =
            |what: String, value: String| found.insert(format!("{what} of {name}"), value);
        for (file, value) in steering(tree, name) {
            add(file, value);
        }
        for number in irq_affinity::of_interface(tree, name).into_iter().take(MAX_QUEUES) {
            if let Some(cpus) = irq_affinity::affinity(tree, number) {
                add(format!("CPUs for interrupt {number}"), cpus.to_string());
            }
        }
        if let Ok(mut route) = RouteSocket::open() {
            for (what, value) in route.attached(name).unwrap_or_default() {
                add(what, value);
            }
            let disciplines = route.disciplines(name).unwrap_or_default();
            let words: Vec<String> = disciplines.iter().map(discipline).collect();
            add("queue disciplines".to_owned(), words.join("; "));
            for (place, ids) in
                route.link(name).map_or(Vec::new(), |l| loaded::at_interface(l.index))
            {
                add(format!("BPF at {place}"), ids);
            }
        }
        for (what, value) in of_driver(name) {
            add(what.to_owned(), value);
        }
    }
    found
}

/// `tbf, 500.0 Mb/s, parameters 1f3a5c77`: a number that changes with them. The kernel chooses handles
/// again.
fn discipline(one: &Discipline) -> String {
    let rate = one.rate.map_or_else(String::new, |rate| format!(", {rate}"));
    let parameters = match one.parameters.is_empty() {
        true => String::new(),
        false => format!(", parameters {:08x}", digest(&one.parameters)),
    };
    format!("{}{rate}{parameters}", one.kind)
}

/// A number that changes with a value that is too long to print, or a secret.
fn digest(of: &impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() as u32
}

/// The steering of each queue, as `rps_cpus, queue rx-0`.
fn steering(tree: &Tree, interface: &str) -> Vec<(String, String)> {
    let directory = format!("/sys/class/net/{interface}/queues");
    let queues = tree.names(&directory).into_iter().take(2 * MAX_QUEUES);
    let files = queues.flat_map(|queue| {
        let files = if queue.starts_with("rx-") { &RECEIVE[..] } else { &TRANSMIT[..] };
        files.iter().map(move |file| (queue.clone(), *file))
    });
    let known = files.filter_map(|(queue, file)| {
        let value = tree.text(format!("{directory}/{queue}/{file}"))?;
        Some((format!("{file}, queue {queue}"), value))
    });
    known.collect()
}

/// What ethtool(8) tells beside the knobs.
fn of_driver(interface: &str) -> Vec<(&'static str, String)> {
    let Ok(mut ethtool) = Ethtool::open() else { return Vec::new() };
    let features = ethtool.features(interface).ok().map(|features| {
        let active = features.iter().filter(|(_, feature)| feature.active);
        active.map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(" ")
    });
    let rings = ethtool.rings(interface).ok();
    let rings = rings.map(|rings| format!("receive {}, transmit {}", rings.rx, rings.tx));
    let coalescing = ethtool.coalescing(interface).ok().map(|reported| {
        let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let adaptive = if reported.adaptive_rx == Some(true) { ", adaptive" } else { "" };
        let [rx_usecs, rx_frames, tx_usecs] =
            [reported.rx_usecs, reported.rx_frames, reported.tx_usecs].map(number);
        format!("rx-usecs {rx_usecs}, rx-frames {rx_frames}, tx-usecs {tx_usecs}{adaptive}")
    });
    let pause = ethtool.pause(interface).ok().map(|pause| {
        let word = |on| if on { "on" } else { "off" };
        let [rx, tx, autoneg] = [pause.rx, pause.tx, pause.autoneg].map(word);
        format!("receive {rx}, transmit {tx}, negotiated {autoneg}")
    });
    let rss = ethtool.rss(interface).ok().map(|rss| {
        let [table, key] = [digest(&rss.table), digest(&rss.key)];
        format!("functions {}, table {table:08x}, key {key:08x}", rss.functions)
    });
    let known = [
        ("features", features),
        ("rings", rings),
        ("receive side scaling", rss),
        ("coalescing", coalescing),
        ("pause frames", pause),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn netfilter() -> BTreeMap<String, String> {
    let generation = nf_tables_generation().map(|generation| {
        ("netfilter rules of nf_tables".to_owned(), format!("generation {generation}"))
    });
    let tables = iptables::tables().into_iter();
    let tables =
        tables.map(|(table, rules)| (format!("netfilter rules of iptables, table {table}"), rules));
    generation.into_iter().chain(tables).collect()
}

/// The inode, the protocol in hexadecimal digits and the interface of each socket, from the text of `/proc/net/packet`
/// (`packet_seq_show`, net/packet/af_packet.c).
fn packet_sockets(text: &str) -> Vec<(u64, String, u32)> {
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let socket = |row: Vec<&str>| {
        let [_, _, _, protocol, interface, .., inode] = row[..] else { return None };
        Some((inode.parse().ok()?, protocol.to_owned(), interface.parse().ok()?))
    };
    rows.filter_map(socket).collect()
}

/// The inode of each socket that gets copies, and its protocol, from the text of `/proc/net/raw` (`raw_sock_seq_show`,
/// net/ipv4/raw.c): the local port is the protocol.
fn raw_sockets(text: &str) -> Vec<(u64, String)> {
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let socket = |row: Vec<&str>| {
        let (_, protocol) = row.get(1)?.rsplit_once(':')?;
        let inode = row.get(9)?.parse().ok()?;
        COPIED.contains(&protocol).then(|| (inode, format!("protocol 0x{protocol}")))
    };
    rows.filter_map(socket).collect()
}

/// The first program that has a socket: `"tcpdump" (process 55)`.
fn owner_of(inode: u64) -> String {
    let name = format!("socket:[{inode}]");
    let has = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.as_os_str() == name.as_str())
    };
    match processes::ids().unwrap_or_default().into_iter().find(has) {
        Some(process) => {
            format!("{:?} (process {process})", program_of(process).unwrap_or_default())
        }
        None => "an unknown program".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_get_copies_are_reported_from_others() {
        let packet = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                      ffff8880 3      3    0003   2     1 0      0      4711\n\
                      ffff8881 3      2    88cc   0     1 0      0      4712\nbroken\n";
        let expected = [(4711, "0003".to_owned(), 2), (4712, "88cc".to_owned(), 0)];
        assert_eq!(packet_sockets(packet), expected);
        let raw = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n   \
                   1: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12 2 ffff 0\n   \
                   6: 00000000:0006 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 13 2 ffff 0\n";
        assert_eq!(raw_sockets(raw), [(13, "protocol 0x0006".to_owned())]);
        assert!(packet_sockets("").is_empty() && raw_sockets("x\ny:z\n").is_empty());
    }

    #[test]
    fn the_queues_of_an_interface_are_reported_one_by_one() {
        let root = tempfile::tempdir().unwrap();
        let queues = root.path().join("sys/class/net/eth0/queues");
        for (file, text) in
            [("rx-0/rps_cpus", "2\n"), ("tx-0/xps_cpus", "1\n"), ("tx-1/traffic_class", "0")]
        {
            let path = queues.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = steering(&Tree::below(root.path()), "eth0");
        let expected = [("rps_cpus, queue rx-0", "2"), ("xps_cpus, queue tx-0", "1")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(steering(&Tree::below(root.path()), "eth1").is_empty());
    }

    #[test]
    fn two_readings_without_a_change_are_equal() {
        let mut reader = StackReader::default();
        let lo = ["lo".to_owned()];
        let peer = ["127.0.0.1".parse().unwrap()];
        let mut read = || reader.read(&lo, &peer);
        // another test may open a socket meanwhile
        let same = (0..20).any(|_| read() == read());
        assert!(same, "{:?}", read());
        let stack = read();
        assert!(stack.host.contains_key("net.ipv4.tcp_rmem"), "{stack:?}");
        assert!(stack.interfaces["route to 127.0.0.1"].contains("dev lo"), "{stack:?}");
        assert!(stack.interfaces.contains_key("features of lo"), "{stack:?}");
    }
}
