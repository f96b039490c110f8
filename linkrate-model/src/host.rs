//! What is known of a host beside the knobs of a run: the parameters of its kernel that bear on performance, and what
//! its network stack is made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whole names of parameters. The others say where a machine lies, how it is booted and who may enter it: nobody needs
/// those to understand a result, and nothing keeps or prints them.
const NAMES: [&str; 34] = [
    "clocksource",
    "cpuidle.governor",
    "cpuidle.off",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "iomem",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "maxcpus",
    "mce",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "nr_cpus",
    "numa_balancing",
    "page_poison",
    "preempt",
    "processor.max_cstate",
    "skew_tick",
    "slub_debug",
    "swiotlb",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
];

/// How the names of parameters of one subject begin.
const PREFIXES: [&str; 8] = [
    "amd_iommu",
    "amd_pstate",
    "intel_iommu",
    "intel_pstate",
    "init_on_",
    "rcu_nocb",
    "spec",
    "pcie_",
];

/// What a value has that is a path, an address or a text.
const PRIVATE: [char; 4] = ['/', '"', '@', '\\'];

/// The parameters that bear on performance, in their order. What is behind ` -- ` is for the first process.
pub fn of_performance(command_line: &str) -> String {
    let words = command_line.split_whitespace().take_while(|word| *word != "--");
    let kept = words.filter(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let is_known =
            NAMES.contains(&name) || PREFIXES.iter().any(|start| name.starts_with(start));
        is_known && !value.contains(PRIVATE)
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// Settings and objects of the network stack by name, with their values as the kernel tells them. It serves to see a
/// change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Stack {
    /// What holds for the whole host, and what no run sets: sysctls, netfilter, sockets that get copies of packets.
    pub host: BTreeMap<String, String>,
    /// What belongs to the interfaces of a run and to its peers. Knobs set some of it.
    pub interfaces: BTreeMap<String, String>,
}

impl Stack {
    /// Everything by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let both = self.host.iter().chain(&self.interfaces);
        both.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use crate::host::*;

    #[test]
    fn only_what_bears_on_performance_is_kept() {
        let line = "BOOT_IMAGE=/boot/vmlinuz root=UUID=1-2 quiet isolcpus=2-3 nohz_full=2-3 mitigations=off \
                    ip=10.0.0.1::10.0.0.2 spectre_v2=off intel_idle.max_cstate=1 tsc=/secret token=abc -- --auth idle=poll";
        let kept =
            "isolcpus=2-3 nohz_full=2-3 mitigations=off spectre_v2=off intel_idle.max_cstate=1";
        assert_eq!(of_performance(line), kept);
        assert_eq!(of_performance("quiet splash"), "");
    }
}
