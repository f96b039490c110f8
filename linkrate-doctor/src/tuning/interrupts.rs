//! The CPUs, nodes and cores that handle the interrupts of an adapter.

use std::collections::BTreeSet;

use linkrate_model::CpuSet;

use super::advice::{Advice, Cost};
use super::facts::{Device, Host, Interface, Interrupt};
use super::queues::near;

/// Whether the interrupts of the queues are spread over the CPUs of the adapter's node.
pub(super) fn advice(host: &Host, interface: &Interface) -> Option<Advice> {
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
pub(super) fn cpus_of(device: &Device) -> CpuSet {
    let queues = device.interrupts.iter().filter(|one| is_queue(one) && one.total() > 0);
    queues.flat_map(|one| one.effective.iter().collect::<Vec<_>>()).collect()
}
