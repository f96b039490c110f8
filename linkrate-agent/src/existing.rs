//! Existing interfaces: interfaces of the host that linkrate did not create.
//!
//! [`describe`] reads driver, link and addresses. [`Lease`] locks an interface, writes its
//! settings down (`record`, `settings`), lends it to a client, and restores it. [`restore_all`]
//! restores what a process that was killed could not.

mod lease;
mod preconditions;
mod record;
mod settings;

use std::path::Path;

use linkrate_model::{BitRate, CpuSet};
use linkrate_sys::bonding;
use linkrate_sys::error::SysError;
use linkrate_sys::ethtool::{Driver, Ethtool};
use linkrate_sys::irq_affinity::{self, pci_function};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::pcie::{LinkSpeed, numa_node};
use linkrate_sys::team;
use linkrate_sys::tree::Tree;

use linkrate_protocol::{InterfaceFacts, bounds};

pub use lease::{Change, Lease, Left, Outcome, restore_all};
pub use record::TIMEOUT;

/// `ENODEV` when no interface of this host has that name.
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
    // as in the doctor: an interface without hardware has no rate, whatever its driver reports
    let has_rate = matches!(kind.as_deref(), None | Some("bond" | "team"));
    let speed = modes.speed_mbps.filter(|_| has_rate);
    let addresses = route.ipv4_addresses()?;
    let tree = Tree::of_this_host();
    let device = tree.resolve(format!("/sys/class/net/{name}/device"));
    let function = device.and_then(|device| pci_function(&device));
    let mut carries = carried_by(&tree, name);
    // some that stand on it are no upper interfaces for the kernel, such as tunnels
    let on_it = entries.iter().filter(|entry| entry.lower == Some(link.index));
    let on_it = on_it.filter(|entry| entry.kind.as_deref() != Some("veth"));
    carries.extend(on_it.map(|entry| entry.name.clone()));
    carries.sort();
    carries.dedup();
    let mut aggregate = bonding::aggregate(&tree, name, kind.as_deref());
    team::complete(&mut aggregate, link.index, |index| {
        let entry = entries.iter().find(|entry| entry.link.index == index)?;
        Some(entry.name.clone())
    });
    Ok(InterfaceFacts {
        name: name.to_owned(),
        aggregate,
        carries,
        kind,
        belongs_to,
        driver: driver.name,
        driver_version: driver.version,
        firmware: driver.firmware,
        bus: driver.bus,
        bus_link: function.as_deref().map(|at| bus_link(&tree, at)).unwrap_or_default(),
        node: function.as_deref().and_then(|at| numa_node(&tree, at)),
        interrupts: interrupts(&tree, name),
        rate: speed.map(|mbps| BitRate(f64::from(mbps) * 1e6)),
        half_duplex: modes.full_duplex == Some(false),
        mtu: link.mtu,
        up: link.up,
        running: link.running,
        hardware_address: link.hardware_address,
        addresses: addresses.into_iter().filter(|address| address.interface == name).collect(),
    })
}

fn bus_link(tree: &Tree, function: &Path) -> String {
    let Some(now) = LinkSpeed::current(tree, function) else { return String::new() };
    match LinkSpeed::most(tree, function) {
        Some(most) if most != now => format!("{now} of {most}"),
        _ => now.to_string(),
    }
}

fn interrupts(tree: &Tree, name: &str) -> String {
    let numbers = irq_affinity::of_interface(tree, name);
    if numbers.is_empty() {
        return String::new();
    }
    let cpus = numbers.iter().filter_map(|number| irq_affinity::effective(tree, *number));
    let cpus: CpuSet = cpus.flat_map(|cpus| cpus.iter().collect::<Vec<_>>()).collect();
    let reported = format!("{} on CPUs {cpus}", numbers.len());
    match reported.len() <= bounds::WORD_BYTES {
        true => reported,
        false => format!("{} on {} CPUs", numbers.len(), cpus.len()),
    }
}

/// Upper interfaces of this one, such as VLANs: they disappear when it moves.
fn carried_by(tree: &Tree, name: &str) -> Vec<String> {
    let names = tree.names(format!("/sys/class/net/{name}"));
    names.iter().filter_map(|entry| entry.strip_prefix("upper_")).map(str::to_owned).collect()
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
