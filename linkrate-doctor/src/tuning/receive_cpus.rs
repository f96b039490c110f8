//! The CPUs that do the work of receiving: how many take part by queues or steering, which handle
//! the interrupts, and which run the processes.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::CpuSet;
use linkrate_model::shell;

use super::advice::{Advice, Cost};
use super::facts::{Device, Host, Interface, Interrupt, Process};

/// On most adapters, more queues than this add interrupts and no throughput.
const ENOUGH: u32 = 16;

/// Advice on fewer queues than CPUs, and on steering instead of queues.
pub(super) fn queues(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(device) = &interface.device else { return Vec::new() };
    let cpus = near(host, device);
    if cpus.len() < 2 {
        let detail = "one CPU needs only one queue";
        return vec![Advice::good("queues", detail).on(&interface.name)];
    }
    let mut all = vec![channels(interface, &cpus)];
    all.extend(steering(host, interface, &cpus));
    all
}

/// The CPUs of the adapter's node; all CPUs if the node is unknown.
fn near(host: &Host, device: &Device) -> CpuSet {
    let node = device.node.map(|node| host.node_cpus(node)).filter(|cpus| !cpus.is_empty());
    node.unwrap_or_else(|| host.online())
}

fn channels(interface: &Interface, cpus: &CpuSet) -> Advice {
    let name = "queues";
    let word = shell::word(&interface.name);
    let Some(channels) = interface.channels else {
        let detail = format!(
            "{} receive queues, {} transmit queues",
            interface.rx_queues.len(),
            interface.tx_queues
        );
        return Advice::good(name, detail).on(&interface.name);
    };
    // a driver counts either pairs or single queues
    let (kind, now, most) = match channels.combined_max {
        0 => ("rx", channels.rx, channels.rx_max),
        most => ("combined", channels.combined, most),
    };
    let useful = most.min(cpus.len() as u32).min(ENOUGH);
    let evidence = |advice: Advice| {
        advice
            .on(&interface.name)
            .seen(format!("{kind} {now} of {most}"), format!("ethtool -l {word}"))
            .seen(format!("CPUs {cpus}"), "/sys/devices/system/cpu, numa_node of the device")
    };
    if now >= useful {
        return evidence(Advice::good(name, format!("{now} queues, {} CPUs", cpus.len())));
    }
    let text = "one connection loses nothing; with several, the CPU of each queue limits its receive \
                rate (the ten-gigabit paper: several connections on four or more processors)";
    let detail = format!(
        "{now} of {most} queues are in use, and the adapter's node has {} CPUs",
        cpus.len()
    );
    evidence(Advice::improve(name, detail, Cost::unknown(text)))
        .run(format!("ethtool -L {word} {kind} {useful}"))
        .note("it interrupts traffic for a moment and resets the indirection table of RSS")
}

/// Steering by the kernel, for an adapter with one receive queue.
fn steering(host: &Host, interface: &Interface, cpus: &CpuSet) -> Option<Advice> {
    let [queue] = &interface.rx_queues[..] else { return None };
    let most = interface.channels.map_or(1, |channels| channels.combined_max.max(channels.rx_max));
    if most > 1 {
        // more queues are better than steering
        return None;
    }
    let name = "receive-steering";
    let word = shell::word(&interface.name);
    let base = format!("/sys/class/net/{word}/queues/rx-0");
    let entries = host.settings.flow_entries;
    if queue.steering.is_empty() {
        let cost = Cost::unknown(
            "one CPU processes all received packets; steering wakes other CPUs for them, which helps \
             with several busy connections and costs latency with one",
        );
        let detail = "the only receive queue does not spread its packets over the CPUs (RPS)";
        return Some(
            Advice::consider(name, detail, cost)
                .on(&interface.name)
                .seen("none", format!("{base}/rps_cpus"))
                .run(format!("echo {} > {base}/rps_cpus", mask(cpus))),
        );
    }
    if queue.flows == 0 || entries == Some(0) {
        let cost =
            Cost::unknown("packets are processed on another CPU than the one that reads them");
        let detail =
            "packets are spread over CPUs (RPS) without regard to the CPU of their reader (RFS)";
        return Some(
            Advice::consider(name, detail, cost)
                .on(&interface.name)
                .seen(queue.flows.to_string(), format!("{base}/rps_flow_cnt"))
                .run("sysctl -w net.core.rps_sock_flow_entries=32768")
                .run(format!("echo 32768 > {base}/rps_flow_cnt")),
        );
    }
    let detail =
        format!("the only receive queue spreads its packets over CPUs {} by flow", queue.steering);
    Some(Advice::good(name, detail).on(&interface.name))
}

/// `cpus` as a mask for `rps_cpus`, without leading zeroes.
fn mask(cpus: &CpuSet) -> String {
    let mask = cpus.to_kernel_mask();
    let short = mask.trim_start_matches(['0', ',']);
    if short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

/// Whether the interrupts of the queues are spread over the CPUs of the adapter's node.
pub(super) fn interrupts(host: &Host, interface: &Interface) -> Option<Advice> {
    let device = interface.device.as_ref()?;
    let name = "interrupts";
    if device.interrupts.is_empty() {
        let detail = "the interrupts of the adapter are not in /proc/interrupts and msi_irqs";
        return Some(Advice::unseen(name, detail).on(&interface.name));
    }
    let queues: Vec<&Interrupt> = device.interrupts.iter().filter(|one| is_queue(one)).collect();
    let used: CpuSet =
        queues.iter().flat_map(|one| one.effective.iter().collect::<Vec<_>>()).collect();
    let near = near(host, device);
    let evidence = |advice: Advice| {
        let listed: Vec<String> = queues
            .iter()
            .take(8)
            .map(|one| {
                format!("{} ({}) on {}: {}", one.number, one.name, one.effective, one.total())
            })
            .collect();
        let rest = queues.len().saturating_sub(8);
        let more = if rest > 0 { format!(", {rest} more") } else { String::new() };
        advice.on(&interface.name).seen(
            listed.join(", ") + &more,
            "/proc/interrupts, /proc/irq/*/effective_affinity_list",
        )
    };
    let far: CpuSet = used.iter().filter(|cpu| !near.contains(*cpu)).collect();
    let (detail, cost) = if !far.is_empty() {
        let detail = format!(
            "interrupts go to CPU {far}, outside node {} of the adapter (CPUs {near})",
            device.node.unwrap_or(0)
        );
        (detail, "each packet and its memory cross between the nodes")
    } else if queues.len() > 1 && used.len() == 1 && near.len() > 1 {
        let detail = format!("all {} queue interrupts go to CPU {used}", queues.len());
        (
            detail,
            "one CPU does the work of all queues and limits the receive rate of several connections",
        )
    } else if let Some((pair, core)) = shared_core(host, &used, &near) {
        let detail = format!(
            "interrupts go to CPUs {pair}, which are threads of one core; the core of CPU {core} has none"
        );
        (detail, "two threads of one core process less than two cores")
    } else {
        let detail = format!("{} queue interrupts on CPU {used}", queues.len());
        return Some(evidence(Advice::good(name, detail)));
    };
    let mut advice = evidence(Advice::improve(name, detail, Cost::unknown(cost)));
    let targets = one_of_each_core(host, &near);
    for (one, cpu) in queues.iter().zip(targets.iter().cycle()) {
        advice = advice.run(format!("echo {cpu} > /proc/irq/{}/smp_affinity_list", one.number));
    }
    if host.irqbalance {
        advice =
            advice.note("irqbalance moves them again; stop it with `systemctl stop irqbalance`");
    }
    Some(advice)
}

/// Whether this is the interrupt of a queue, and not one for events of the adapter.
fn is_queue(one: &Interrupt) -> bool {
    const EVENTS: [&str; 9] =
        ["config", "async", "cmd", "misc", "mgmt", "event", "mbox", "fdir", "control"];
    let name = one.name.to_ascii_lowercase();
    !EVENTS.iter().any(|event| name.contains(event))
}

/// CPUs in the order in which interrupts are assigned: one thread of each core first, then the
/// others.
fn one_of_each_core(host: &Host, near: &CpuSet) -> Vec<u32> {
    let mut cores = BTreeSet::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for cpu in host.cpus.iter().filter(|cpu| near.contains(cpu.number)) {
        let core = cpu.core.iter().next().unwrap_or(cpu.number);
        if cores.insert(core) { &mut first } else { &mut rest }.push(cpu.number);
    }
    first.append(&mut rest);
    first
}

/// CPUs of one core among `used`, and a CPU of `near` whose core has none of them.
fn shared_core(host: &Host, used: &CpuSet, near: &CpuSet) -> Option<(CpuSet, u32)> {
    let crowded = host.cpus.iter().find_map(|cpu| {
        let threads: CpuSet = cpu.core.iter().filter(|thread| used.contains(*thread)).collect();
        (threads.len() > 1).then_some(threads)
    })?;
    let idle =
        host.cpus.iter().find(|cpu| near.contains(cpu.number) && !cpu.core.overlaps(used))?;
    Some((crowded, idle.number))
}

/// CPUs that handle the queue interrupts of `device`.
fn cpus_of(device: &Device) -> CpuSet {
    let queues = device.interrupts.iter().filter(|one| is_queue(one) && one.total() > 0);
    queues.flat_map(|one| one.effective.iter().collect::<Vec<_>>()).collect()
}

/// A process that moved fewer bytes is not network-bound.
const BUSY_BYTES: u64 = 1 << 30;

/// Advice on processes that may run on CPUs that share no cache with the CPUs of the interrupts.
pub(super) fn processes(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(device) = &interface.device else { return Vec::new() };
    let taking = cpus_of(device);
    let near = caches(host, &taking);
    if taking.is_empty() || near.len() >= host.cpus.len() {
        // every CPU shares the cache
        return Vec::new();
    }
    busy(host, interface)
        .into_iter()
        .filter(|(process, _)| process.cpus.iter().any(|cpu| !near.contains(cpu)))
        .map(|(process, bytes)| away(interface, process, bytes, &taking, &near))
        .collect()
}

fn away(
    interface: &Interface,
    process: &Process,
    bytes: u64,
    taking: &CpuSet,
    near: &CpuSet,
) -> Advice {
    let Process { pid, name, cpus, .. } = process;
    let word = if cpus.overlaps(near) { "may run" } else { "runs" };
    let detail = format!(
        "process {name} ({pid}) moved {:.1} GB over this interface and {word} on CPUs that share no \
         cache with the CPUs of its interrupts ({taking})",
        bytes as f64 / 1e9
    );
    Advice::consider("processes", detail, Cost::unbound())
        .on(&interface.name)
        .seen(format!("CPUs {cpus}"), format!("/proc/{pid}/status, Cpus_allowed_list"))
        .seen(
            format!("CPUs {near} share a cache with {taking}"),
            "/sys/devices/system/cpu/cpu*/cache",
        )
        .run(format!("taskset --all-tasks --cpu-list --pid {near} {pid}"))
}

/// All CPUs that share the last-level cache with one of `cpus`.
fn caches(host: &Host, cpus: &CpuSet) -> CpuSet {
    let taking = host.cpus.iter().filter(|cpu| cpus.contains(cpu.number));
    taking.flat_map(|cpu| cpu.cache.iter().chain([cpu.number]).collect::<Vec<_>>()).collect()
}

/// Processes that moved many bytes over `interface`, the busiest first.
fn busy<'a>(host: &'a Host, interface: &Interface) -> Vec<(&'a Process, u64)> {
    let bytes: BTreeMap<u32, u64> = host
        .connections
        .iter()
        .filter(|connection| interface.addresses.contains(&connection.local.ip()))
        .map(|c| (c.inode, c.path.bytes_acked + c.path.bytes_received))
        .collect();
    let moved = |process: &Process| -> u64 {
        process.sockets.iter().filter_map(|inode| bytes.get(inode)).sum()
    };
    let mut busy: Vec<(&Process, u64)> = host
        .processes
        .iter()
        .map(|process| (process, moved(process)))
        .filter(|(_, bytes)| *bytes >= BUSY_BYTES)
        .collect();
    busy.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    busy.truncate(3);
    busy
}

#[cfg(test)]
mod tests {
    use crate::tuning::receive_cpus::*;

    #[test]
    fn writes_short_cpu_masks() {
        assert_eq!(mask(&"0-1".parse().unwrap()), "3");
        assert_eq!(mask(&"0-32".parse().unwrap()), "1,ffffffff");
    }
}
