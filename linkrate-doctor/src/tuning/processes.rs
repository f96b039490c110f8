//! Where the processes run whose connections go over an adapter, against where its interrupts go.

use std::collections::BTreeMap;

use linkrate_terms::CpuSet;

use super::advice::Advice;
use super::facts::{Host, Interface, Process};
use super::interrupts;
use super::measured;

/// A process that moved less does not live by its network.
const BUSY_BYTES: u64 = 1 << 30;

/// Processes that may run, or do run, away from the cache that the interrupts' CPUs share.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(device) = &interface.device else { return Vec::new() };
    let taking = interrupts::cpus_of(device);
    let near = caches(host, &taking);
    if taking.is_empty() || near.len() >= host.cpus.len() {
        // every CPU is near
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
        "process {name} ({pid}), which moved {:.1} GB over it, {word} away from the CPUs of its \
         interrupts ({taking})",
        bytes as f64 / 1e9
    );
    Advice::consider("processes", detail, measured::unbound())
        .on(&interface.name)
        .seen(format!("CPUs {cpus}"), format!("/proc/{pid}/status, Cpus_allowed_list"))
        .seen(
            format!("CPUs {near} share a cache with {taking}"),
            "/sys/devices/system/cpu/cpu*/cache",
        )
        .run(format!("taskset --all-tasks --cpu-list --pid {near} {pid}"))
}

/// All CPUs that share the last cache with one of `cpus`.
fn caches(host: &Host, cpus: &CpuSet) -> CpuSet {
    let taking = host.cpus.iter().filter(|cpu| cpus.contains(cpu.number));
    taking.flat_map(|cpu| cpu.cache.iter().chain([cpu.number]).collect::<Vec<_>>()).collect()
}

/// Processes with many bytes over `interface`, the busiest first.
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
