//! Reads the facts of a host: files below a root, which may be a copy of another host's, and for
//! this host also the facts that only sockets report.

mod adapter;
mod sockets;

use linkrate_model::CpuSet;
use linkrate_sys::tree::Tree;

use super::facts::{Host, Settings, Softnet};
use crate::tuning::facts::{Cpu, IdleState};

/// Facts from the files below `tree`. Offloads, rings, link modes, routes and connections are not
/// in files; [`this_host`] adds them.
pub fn from_files(tree: &Tree) -> Host {
    let (interfaces, unseen) = adapter::interfaces(tree);
    let cpuinfo = tree.text("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    Host {
        cpus: cpus(tree),
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
    sockets::complete_routes(&mut host);
    adapter::complete_by_driver(&mut host);
    sockets::complete_connections(&mut host, &tree);
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

const CPUS: &str = "/sys/devices/system/cpu";

/// Every CPU that is online.
fn cpus(tree: &Tree) -> Vec<Cpu> {
    let online = tree.cpu_list(format!("{CPUS}/online")).unwrap_or_default();
    online.iter().map(|number| cpu(tree, number)).collect()
}

fn cpu(tree: &Tree, number: u32) -> Cpu {
    let base = format!("{CPUS}/cpu{number}");
    let itself = || [number].into_iter().collect::<CpuSet>();
    let words = |file: &str| -> Vec<String> {
        let text = tree.text(format!("{base}/{file}")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let node = tree.names(&base).iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
    let khz = |file: &str| tree.number(format!("{base}/cpufreq/{file}"));
    Cpu {
        number,
        core: tree.cpu_list(format!("{base}/topology/thread_siblings_list")).unwrap_or_else(itself),
        cache: last_cache(tree, &base).unwrap_or_else(itself),
        node,
        governor: tree.text(format!("{base}/cpufreq/scaling_governor")),
        governors: words("cpufreq/scaling_available_governors"),
        energy: tree.text(format!("{base}/cpufreq/energy_performance_preference")),
        khz: khz("cpuinfo_min_freq").zip(khz("cpuinfo_max_freq")),
        idle_states: idle_states(tree, &base),
    }
}

/// CPUs of the cache of the highest level.
fn last_cache(tree: &Tree, base: &str) -> Option<CpuSet> {
    let caches = tree.names(format!("{base}/cache"));
    let level = |cache: &&String| tree.number::<u32>(format!("{base}/cache/{cache}/level"));
    let last = caches.iter().filter(|name| name.starts_with("index")).max_by_key(level)?;
    tree.cpu_list(format!("{base}/cache/{last}/shared_cpu_list"))
}

fn idle_states(tree: &Tree, base: &str) -> Vec<IdleState> {
    let directory = format!("{base}/cpuidle");
    let mut states: Vec<IdleState> = tree
        .names(&directory)
        .iter()
        .filter_map(|name| {
            let number = name.strip_prefix("state")?.parse().ok()?;
            let state = format!("{directory}/{name}");
            Some(IdleState {
                number,
                name: tree.text(format!("{state}/name")).unwrap_or_default(),
                exit_us: tree.number(format!("{state}/latency"))?,
                enabled: tree.number::<u64>(format!("{state}/disable")).unwrap_or(0) == 0,
            })
        })
        .collect();
    states.sort_by_key(|state| state.number);
    states
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
