//! What a host's interfaces are, as they stand: who drives them, what they carry, where they lead.

use linkrate_sys::error::SysError;
use linkrate_sys::ethtool::{Driver, Ethtool};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tree::Tree;
use linkrate_sys::{irq_affinity, sysfs};
use linkrate_terms::{BitRate, CpuSet};

use crate::protocol::{InterfaceFacts, Steered};

/// Describes interface `name`.
///
/// # Errors
/// `ENODEV` when there is none of that name here.
pub fn describe(name: &str) -> Result<InterfaceFacts, SysError> {
    let mut route = RouteSocket::open()?;
    let link = route.link(name)?;
    let entries = route.links()?;
    let entry = entries.iter().find(|entry| entry.link.index == link.index);
    let kind = entry.and_then(|entry| entry.kind.clone());
    let belongs_to = entry
        .and_then(|entry| entry.controller)
        .and_then(|index| entries.iter().find(|entry| entry.link.index == index))
        .map(|entry| entry.name.clone());
    let driver = match Driver::of(name) {
        Ok(driver) => driver,
        Err(error) if error.is_unsupported() => Driver::default(),
        Err(error) => return Err(error),
    };
    let modes = Ethtool::open()?.link_modes(name).unwrap_or_default();
    // as in the doctor: what is only software has no rate, whatever it says
    let has_rate = matches!(kind.as_deref(), None | Some("bond" | "team"));
    let speed = modes.speed_mbps.filter(|_| has_rate);
    let addresses = route.ipv4_addresses()?;
    Ok(InterfaceFacts {
        name: name.to_owned(),
        carries: carried_by(&Tree::of_this_host(), name),
        kind,
        belongs_to,
        driver: driver.name,
        driver_version: driver.version,
        firmware: driver.firmware,
        bus: driver.bus,
        rate: speed.map(|mbps| BitRate(f64::from(mbps) * 1e6)),
        half_duplex: modes.full_duplex == Some(false),
        mtu: link.mtu,
        up: link.up,
        running: link.running,
        addresses: addresses.into_iter().filter(|address| address.interface == name).collect(),
    })
}

/// Interfaces that stand on this one, such as VLANs: they go when it moves.
fn carried_by(tree: &Tree, name: &str) -> Vec<String> {
    let names = tree.names(format!("/sys/class/net/{name}"));
    names.iter().filter_map(|entry| entry.strip_prefix("upper_")).map(str::to_owned).collect()
}

/// Lets what an interface receives be processed on `cpus` only: by moving the interrupts of its
/// adapter there, one CPU each in turn, or, where it has none, by receive packet steering.
///
/// # Errors
/// When steering is refused. Interrupts that cannot be moved are in the answer.
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

/// Steers every receive queue in use that is not steered so already.
///
/// # Errors
/// As [`sysfs::set_receive_steering`].
pub fn steer_queues(interface: &str, cpus: &CpuSet) -> Result<(), SysError> {
    for queue in 0..sysfs::rx_queue_count(interface)? {
        if sysfs::receive_steering(interface, queue)? != *cpus {
            sysfs::set_receive_steering(interface, queue, cpus)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_described_and_has_no_rate() {
        let facts = describe("lo").unwrap();
        assert_eq!((facts.rate, facts.belongs_to.as_deref()), (None, None));
        assert!(facts.mtu >= 65_535 - 100 && facts.carries.is_empty(), "{facts:?}");
        assert!(describe("no-such-if").unwrap_err().to_string().contains("no-such-if"));
    }
}
