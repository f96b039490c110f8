//! Settings of a host that change what traffic costs: frequency of the CPUs, mitigations, microcode,
//! boot parameters, the source of its clock, and the sysctls of the network.
//!
//! What a host does not have, or does not let this process read, is absent.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

const CPUS: &str = "/sys/devices/system/cpu";

/// What a reading of the clock costs depends on it.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Settings of the kernel that change what all of its code costs, by name and file.
const CHANGEABLE: [(&str, &str); 6] = [
    ("transparent-hugepages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("numa-balancing", "/proc/sys/kernel/numa_balancing"),
    ("timer-migration", "/proc/sys/kernel/timer_migration"),
    ("nmi-watchdog", "/proc/sys/kernel/nmi_watchdog"),
    ("scheduler-of-bpf", "/sys/kernel/sched_ext/state"),
    ("tracer", "/sys/kernel/tracing/current_tracer"),
];

/// Sysctls that are no settings: secrets, one-way switches, and what modules have registered.
const NO_SETTINGS: [&str; 6] = [
    "net.core.netdev_rss_key",
    "net.core.flow_limit_cpu_bitmap",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_available_ulp",
    "net.ipv4.tcp_fastopen_key",
];

/// Directories of an address family whose sysctls hold for all interfaces, or for those that come.
const BELOW_A_FAMILY: [&str; 4] = ["conf/all", "conf/default", "neigh/default", "route"];

/// The longest value of a sysctl, bytes.
const MAX_LENGTH: usize = 256;

/// The settings of CPUs and kernel by name.
pub fn of_host(tree: &Tree) -> BTreeMap<String, String> {
    let found = [
        ("cpu-governor", governor(tree)),
        ("cpu-turbo", turbo(tree)),
        ("smt", tree.text(format!("{CPUS}/smt/control"))),
        ("mitigations", mitigations(tree)),
        ("microcode", microcode(tree)),
        ("kernel-command-line", command_line(tree)),
        ("clock-source", tree.text(CLOCK_SOURCE)),
    ];
    let known = found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// The governors of all CPUs, each once.
fn governor(tree: &Tree) -> Option<String> {
    let cpus = tree.names(CPUS).into_iter().filter(|name| {
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let read = |cpu: String| tree.text(format!("{CPUS}/{cpu}/cpufreq/scaling_governor"));
    let governors: BTreeSet<String> = cpus.filter_map(read).collect();
    let governors: Vec<String> = governors.into_iter().collect();
    (!governors.is_empty()).then(|| governors.join(", "))
}

/// Whether CPUs may run faster than their nominal rate.
fn turbo(tree: &Tree) -> Option<String> {
    let intel = tree.number::<u8>(format!("{CPUS}/intel_pstate/no_turbo")).map(|off| off == 0);
    let on = intel.or_else(|| Some(tree.number::<u8>(format!("{CPUS}/cpufreq/boost"))? == 1))?;
    Some(if on { "on" } else { "off" }.to_owned())
}

/// What the kernel does against the faults of the CPUs that are affected.
fn mitigations(tree: &Tree) -> Option<String> {
    let directory = format!("{CPUS}/vulnerabilities");
    let names = tree.names(&directory);
    let found: Vec<String> = names
        .iter()
        .filter_map(|name| Some((name, tree.text(format!("{directory}/{name}"))?)))
        .filter(|(_, state)| state != "Not affected")
        .map(|(name, state)| format!("{name}: {state}"))
        .collect();
    match (names.is_empty(), found.is_empty()) {
        (true, _) => None,
        (false, true) => Some("not affected".to_owned()),
        (false, false) => Some(found.join("; ")),
    }
}

/// The revisions of all CPUs, each once.
fn microcode(tree: &Tree) -> Option<String> {
    let text = tree.text("/proc/cpuinfo")?;
    let revisions: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("microcode")?.split_once(':'))
        .map(|(_, revision)| revision.trim())
        .collect();
    let revisions: Vec<&str> = revisions.into_iter().collect();
    (!revisions.is_empty()).then(|| revisions.join(", "))
}

/// Of the kernel's command line what bears on performance.
fn command_line(tree: &Tree) -> Option<String> {
    Some(linkrate_model::host::of_performance(&tree.text("/proc/cmdline")?))
}

/// The sysctls `net.core.*`, `net.ipv4.*` and `net.ipv6.*` of this process's network namespace, without those
/// of single interfaces: of `conf` and `neigh` the ones for all interfaces and for new ones, and those of
/// `route`. A namespace of its own does not show the ones that hold for the whole host.
pub fn network_sysctls(tree: &Tree) -> BTreeMap<String, String> {
    let families = ["ipv4", "ipv6"].into_iter().flat_map(|family| {
        let below = BELOW_A_FAMILY.map(|part| format!("{family}/{part}"));
        std::iter::once(family.to_owned()).chain(below)
    });
    sysctls_in(tree, std::iter::once("core".to_owned()).chain(families))
}

/// The sysctls in these directories below `/proc/sys/net` (`ipv4/conf/eth0`), without those below them.
pub fn sysctls_in(
    tree: &Tree,
    directories: impl IntoIterator<Item = String>,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in directories {
        let directory = format!("/proc/sys/net/{part}");
        let prefix = format!("net.{}", part.replace('/', "."));
        for name in tree.names(&directory) {
            let (path, name) = (format!("{directory}/{name}"), format!("{prefix}.{name}"));
            if NO_SETTINGS.contains(&name.as_str()) || is_of_this_namespace(&name) {
                continue;
            }
            // directories and files that can only be written have no text
            let Some(text) = tree.text(path) else { continue };
            let value = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // masks of many CPUs are no settings of the traffic
            if value.len() <= MAX_LENGTH {
                found.insert(name, value);
            }
        }
    }
    found
}

/// Settings of CPUs and kernel that can change while the machine runs, by name.
pub fn changeable(tree: &Tree) -> BTreeMap<String, String> {
    let found = [
        ("cpu-governor", governor(tree)),
        ("cpu-turbo", turbo(tree)),
        ("smt", tree.text(format!("{CPUS}/smt/control"))),
        ("online-cpus", tree.text(format!("{CPUS}/online"))),
        ("clock-source", tree.text(CLOCK_SOURCE)),
    ];
    let files = CHANGEABLE.iter().map(|(name, path)| (*name, tree.text(path)));
    let known = found.into_iter().chain(files);
    known.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Whether a sysctl is an identity of the namespace, made when it began, or no setting at all: writing it
/// empties the cache of routes.
fn is_of_this_namespace(name: &str) -> bool {
    name.ends_with(".stable_secret") || name.ends_with(".route.flush")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let tree = Tree::below(root.path());
        (root, tree)
    }

    #[test]
    fn a_machine_that_has_them_tells_all_settings() {
        let cpu = "sys/devices/system/cpu";
        let (_root, tree) = tree(&[
            (&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "performance"),
            (&format!("{cpu}/cpu1/cpufreq/scaling_governor"), "powersave"),
            (&format!("{cpu}/cpu10/cpufreq/scaling_governor"), "powersave"),
            (&format!("{cpu}/cpufreq/boost"), "0"),
            (&format!("{cpu}/intel_pstate/no_turbo"), "0"),
            (&format!("{cpu}/smt/control"), "off"),
            (&format!("{cpu}/vulnerabilities/l1tf"), "Not affected"),
            (&format!("{cpu}/vulnerabilities/spectre_v2"), "Mitigation: Retpolines"),
            (&format!("{cpu}/vulnerabilities/mds"), "Vulnerable"),
            ("proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0x1\nprocessor\t: 1\nmicrocode\t: 0x2"),
            (CLOCK_SOURCE.trim_start_matches('/'), "tsc"),
            ("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.18 quiet  mitigations=auto initrd=/boot/i"),
        ]);
        let found: Vec<(String, String)> = of_host(&tree).into_iter().collect();
        let expected = [
            ("clock-source", "tsc"),
            ("cpu-governor", "performance, powersave"),
            // the driver's own switch counts
            ("cpu-turbo", "on"),
            ("kernel-command-line", "mitigations=auto"),
            ("microcode", "0x1, 0x2"),
            ("mitigations", "mds: Vulnerable; spectre_v2: Mitigation: Retpolines"),
            ("smt", "off"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn settings_that_can_change_are_read_by_themselves() {
        let (_root, tree) = tree(&[
            ("sys/devices/system/cpu/online", "0-1"),
            ("sys/kernel/tracing/current_tracer", "function"),
            ("proc/sys/net/ipv4/conf/eth0/rp_filter", "1"),
            ("proc/sys/net/ipv4/tcp_rmem", "1\t2\t3"),
        ]);
        let expected = [("online-cpus", "0-1"), ("tracer", "function")];
        let found: Vec<(String, String)> = changeable(&tree).into_iter().collect();
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let of = |directory: &str| sysctls_in(&tree, [directory.to_owned()]);
        let rp_filter = ("net.ipv4.conf.eth0.rp_filter".to_owned(), "1".to_owned());
        assert_eq!(of("ipv4/conf/eth0"), BTreeMap::from([rp_filter]));
        assert_eq!(of("ipv4").len(), 1, "not what is below");
    }

    #[test]
    fn what_a_machine_lacks_is_absent() {
        let (_root, empty) = tree(&[]);
        assert_eq!(of_host(&empty), BTreeMap::new());
        assert_eq!(network_sysctls(&empty), BTreeMap::new());
        let (_root, amd) = tree(&[("sys/devices/system/cpu/cpufreq/boost", "1")]);
        assert_eq!(of_host(&amd), BTreeMap::from([("cpu-turbo".to_owned(), "on".to_owned())]));
    }

    #[test]
    fn sysctls_are_settings_alone() {
        let (_root, tree) = tree(&[
            ("proc/sys/net/core/rmem_max", "212992"),
            ("proc/sys/net/core/netdev_rss_key", "a1:b2"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
            ("proc/sys/net/ipv4/tcp_fastopen_key", "0-0-0-0"),
            ("proc/sys/net/ipv4/conf/eth0/rp_filter", "1"),
        ]);
        let found: Vec<(String, String)> = network_sysctls(&tree).into_iter().collect();
        let expected =
            [("net.core.rmem_max", "212992"), ("net.ipv4.tcp_rmem", "4096 131072 6291456")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn this_host_has_sysctls() {
        let found = network_sysctls(&Tree::of_this_host());
        assert!(found.contains_key("net.ipv4.tcp_rmem"), "{found:?}");
    }
}
