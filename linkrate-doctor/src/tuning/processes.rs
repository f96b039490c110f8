//! Compares the CPUs of processes with those of the interrupts of the adapter they use.

use std::collections::BTreeMap;

use linkrate_model::CpuSet;

use super::advice::Advice;
use super::facts::{Host, Interface, Process};
use super::interrupts;
use super::measured_costs;

/// A process that moved fewer bytes is not network-bound.
const BUSY_BYTES: u64 = 1 << 30;

/// Advice on processes that may run on CPUs that share no cache with the CPUs of the interrupts.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(device) = &interface.device else { return Vec::new() };
    let taking = interrupts::cpus_of(device);
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
    Advice::consider("processes", detail, measured_costs::unbound())
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
