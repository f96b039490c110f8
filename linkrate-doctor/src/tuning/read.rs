//! Reads the facts of a host: files below a root, which may be a copy of another host's, and for
//! this host also the facts that only sockets report.

mod adapter;
mod connections;
mod driver;
mod processor;
mod rtnetlink;

use linkrate_sys::tree::Tree;

use super::facts::{Host, Settings, Softnet};

/// Facts from the files below `tree`. Offloads, rings, link modes, routes and connections are not
/// in files; [`this_host`] adds them.
pub fn from_files(tree: &Tree) -> Host {
    let (interfaces, unseen) = adapter::interfaces(tree);
    let cpuinfo = tree.text("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    Host {
        cpus: processor::cpus(tree),
        settings: settings(tree),
        softnet: softnet(&tree.text("/proc/net/softnet_stat").unwrap_or_default()),
        irqbalance: processes(tree).any(|pid| {
            tree.text(format!("/proc/{pid}/comm")).is_some_and(|name| name == "irqbalance")
        }),
        virtual_machine: flags.split_whitespace().any(|flag| flag == "hypervisor"),
        interfaces,
        unseen,
        ..Host::default()
    }
}

pub fn this_host() -> Host {
    let tree = Tree::of_this_host();
    let mut host = from_files(&tree);
    rtnetlink::complete(&mut host);
    driver::complete(&mut host);
    connections::complete(&mut host, &tree);
    host
}

/// Numbers of all processes.
fn processes(tree: &Tree) -> impl Iterator<Item = u32> {
    tree.names("/proc").into_iter().filter_map(|name| name.parse().ok())
}

fn settings(tree: &Tree) -> Settings {
    let ipv4 = |name: &str| format!("/proc/sys/net/ipv4/{name}");
    let core = |name: &str| format!("/proc/sys/net/core/{name}");
    let three = |name: &str| tree.numbers(ipv4(name))?.try_into().ok();
    let available = tree.text(ipv4("tcp_available_congestion_control")).unwrap_or_default();
    Settings {
        tcp_rmem: three("tcp_rmem"),
        tcp_wmem: three("tcp_wmem"),
        rmem_max: tree.number(core("rmem_max")),
        wmem_max: tree.number(core("wmem_max")),
        window_scaling: tree.number(ipv4("tcp_window_scaling")),
        selective_acknowledgements: tree.number(ipv4("tcp_sack")),
        congestion: tree.text(ipv4("tcp_congestion_control")),
        congestion_available: available.split_whitespace().map(str::to_owned).collect(),
        default_queue_discipline: tree.text(core("default_qdisc")),
        forwarding: tree.number(ipv4("ip_forward")),
        backlog: tree.number(core("netdev_max_backlog")),
        budget: tree.number(core("netdev_budget")),
        budget_us: tree.number(core("netdev_budget_usecs")),
        flow_entries: tree.number(core("rps_sock_flow_entries")),
    }
}

/// Columns in hexadecimal: processed, dropped, squeezed, and the CPU in the thirteenth, which
/// kernels before 5.10 do not have (net/core/net-procfs.c).
fn softnet(text: &str) -> Vec<Softnet> {
    text.lines()
        .enumerate()
        .filter_map(|(row, line)| {
            let columns: Vec<u64> = line
                .split_whitespace()
                .map_while(|word| u64::from_str_radix(word, 16).ok())
                .collect();
            let [processed, dropped, squeezed, ..] = columns[..] else { return None };
            let cpu = columns.get(12).copied().unwrap_or(row as u64) as u32;
            Some(Softnet { cpu, processed, dropped, squeezed })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_rows_carry_their_cpu_or_are_in_order() {
        let rows = softnet("a 1 2 0 0 0 0 0 0 0 0 0 7 0 0\nff 0 0\nnonsense\n");
        let seen: Vec<_> =
            rows.iter().map(|r| (r.cpu, r.processed, r.dropped, r.squeezed)).collect();
        assert_eq!(seen, [(7, 10, 1, 2), (1, 255, 0, 0)]);
    }

    #[test]
    fn this_host_reads_without_a_fault_and_has_cpus() {
        let host = this_host();
        assert!(!host.cpus.is_empty());
        assert!(host.interfaces.iter().all(|interface| interface.name != "lo"));
        assert!(host.settings.tcp_rmem.is_some(), "{:?}", host.settings);
    }

    #[test]
    fn an_empty_tree_gives_no_facts() {
        let root = tempfile::tempdir().unwrap();
        let host = from_files(&Tree::below(root.path()));
        assert!(host.cpus.is_empty() && host.interfaces.is_empty() && host.softnet.is_empty());
        assert!(host.settings.tcp_rmem.is_none());
    }
}
