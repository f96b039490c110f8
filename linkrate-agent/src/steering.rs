//! Where the packets that an interface receives are processed.

use linkrate_model::CpuSet;
use linkrate_sys::error::SysError;
use linkrate_sys::tree::Tree;
use linkrate_sys::{irq_affinity, sysfs};

use linkrate_protocol::Steered;

/// Confines the processing of received packets to `cpus`: moves the interrupts of the interface's
/// adapter there, one CPU each in turn, or steers its queues where it has no interrupts. Interrupts that cannot be
/// moved are in the answer.
pub fn steer(name: &str, cpus: &CpuSet) -> Result<Steered, SysError> {
    let tree = Tree::of_this_host();
    let numbers = irq_affinity::of_interface(&tree, name);
    if numbers.is_empty() {
        steer_queues(name, cpus)?;
        return Ok(Steered::default());
    }
    let mut steered = Steered::default();
    let turns = cpus.iter().collect::<Vec<_>>();
    for (number, cpu) in numbers.into_iter().zip(turns.into_iter().cycle()) {
        let Some(now) = irq_affinity::affinity(&tree, number) else { continue };
        let inside = !now.is_empty() && now.iter().all(|cpu| cpus.contains(cpu));
        let moved =
            inside || irq_affinity::set_affinity(number, &[cpu].into_iter().collect()).is_ok();
        if moved { steered.interrupts += 1 } else { steered.stuck.push(number) }
    }
    Ok(steered)
}

/// Sets receive packet steering of every receive queue in use whose CPUs differ.
pub fn steer_queues(interface: &str, cpus: &CpuSet) -> Result<(), SysError> {
    for queue in 0..sysfs::rx_queue_count(interface)? {
        if sysfs::receive_steering(interface, queue)? != *cpus {
            sysfs::set_receive_steering(interface, queue, cpus)?;
        }
    }
    Ok(())
}
