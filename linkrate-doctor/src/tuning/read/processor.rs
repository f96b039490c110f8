//! CPUs: cores, caches, nodes, clock rates and idle states, from `/sys/devices/system/cpu`.

use linkrate_model::CpuSet;
use linkrate_sys::tree::Tree;

use crate::tuning::facts::{Cpu, IdleState};

const CPUS: &str = "/sys/devices/system/cpu";

/// Every CPU that is online.
pub(super) fn cpus(tree: &Tree) -> Vec<Cpu> {
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
