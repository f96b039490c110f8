//! Interfaces and the adapters behind them: from `/sys/class/net`, `/sys/bus/pci` and
//! `/proc/interrupts`, and, with the settings of the driver, through ethtool's netlink family.

use std::collections::BTreeMap;
use std::path::Path;

use linkrate_sys::bonding;
use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::irq_affinity::{self, pci_function};
use linkrate_sys::pcie::{LinkSpeed, numa_node};
use linkrate_sys::tree::Tree;
use linkrate_wire::limits::PcieLink;

use crate::tuning::facts::{Bus, Device, Host, Interface, Interrupt, RxQueue};

const CLASS: &str = "/sys/class/net";

/// `IFF_UP` of linux/if.h.
const IFF_UP: u32 = 1;

/// `ARPHRD_LOOPBACK` of linux/if_arp.h.
const LOOPBACK: u32 = 772;

/// Facts that could not be read, as (name, reason).
type Unseen = Vec<(&'static str, String)>;

/// Every interface except loopback.
pub(super) fn interfaces(tree: &Tree) -> (Vec<Interface>, Unseen) {
    let table = InterruptTable::read(tree);
    let names = tree.names(CLASS);
    let mut unseen = Vec::new();
    if names.is_empty() {
        unseen.push(("interfaces", format!("{CLASS} is missing or empty: is /sys mounted?")));
    }
    let all = names
        .into_iter()
        // the directory also has the file bonding_masters
        .filter(|name| tree.has(format!("{CLASS}/{name}/ifindex")))
        .filter(|name| tree.number::<u32>(format!("{CLASS}/{name}/type")) != Some(LOOPBACK))
        .map(|name| interface(tree, name, &table))
        .collect();
    (all, unseen)
}

fn interface(tree: &Tree, name: String, table: &InterruptTable) -> Interface {
    let base = format!("{CLASS}/{name}");
    let flags = tree.text(format!("{base}/flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
    let statistics = tree
        .names(format!("{base}/statistics"))
        .into_iter()
        .filter_map(|counter| {
            let value = tree.number(format!("{base}/statistics/{counter}"))?;
            Some((counter, value))
        })
        .collect();
    let queues = tree.names(format!("{base}/queues"));
    let count = |prefix: &str| queues.iter().filter(|queue| queue.starts_with(prefix)).count();
    let rx_queues = (0..count("rx-"))
        .map(|queue| RxQueue {
            steering: tree
                .cpu_mask(format!("{base}/queues/rx-{queue}/rps_cpus"))
                .unwrap_or_default(),
            flows: tree.number(format!("{base}/queues/rx-{queue}/rps_flow_cnt")).unwrap_or(0),
        })
        .collect();
    Interface {
        index: tree.number(format!("{base}/ifindex")).unwrap_or(0),
        up: flags & IFF_UP != 0,
        mtu: tree.number(format!("{base}/mtu")).unwrap_or(0),
        controller: tree.link_name(format!("{base}/master")),
        lower: lower(tree, &base),
        // -1 stands for unknown
        speed_mbps: tree.number::<i64>(format!("{base}/speed")).and_then(|speed| {
            u32::try_from(speed).ok().filter(|mbps| *mbps > 0 && *mbps < u32::MAX)
        }),
        full_duplex: match tree.text(format!("{base}/duplex")).as_deref() {
            Some("full") => Some(true),
            Some("half") => Some(false),
            _ => None,
        },
        device: device(tree, &base, &name, table),
        rx_queues,
        tx_queues: count("tx-"),
        statistics,
        kind: kind(tree, &base),
        aggregate: bonding::aggregate(tree, &name, kind(tree, &base).as_deref()),
        name,
        ..Interface::default()
    }
}

/// The lower interface of a VLAN or a macvlan. A bridge or bond has several; they name it as their
/// controller instead.
fn lower(tree: &Tree, base: &str) -> Option<String> {
    let names = tree.names(base);
    let mut lowers = names.iter().filter_map(|name| name.strip_prefix("lower_"));
    let first = lowers.next()?.to_owned();
    lowers.next().is_none().then_some(first)
}

/// The kind by `DEVTYPE` in `uevent`; netlink reports more kinds.
fn kind(tree: &Tree, base: &str) -> Option<String> {
    let events = tree.text(format!("{base}/uevent"))?;
    events.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
}

fn device(tree: &Tree, base: &str, name: &str, table: &InterruptTable) -> Option<Device> {
    let own = tree.resolve(format!("{base}/device"))?;
    // virtio and a few others are devices below the PCI function
    let function = pci_function(&own);
    let at = function.as_deref().unwrap_or(&own);
    let interrupts = irq_affinity::of_device(tree, &own)
        .into_iter()
        .filter_map(|number| interrupt(tree, number, table))
        .collect();
    Some(Device {
        driver: tree.link_name(own.join("driver")),
        pci_address: function.as_deref().and_then(last_part),
        bus: function.as_deref().and_then(|function| bus(tree, function)),
        node: numa_node(tree, at),
        interrupts,
        sharing: function.as_deref().map(|own| sharing(tree, own, name)).unwrap_or_default(),
    })
}

fn last_part(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// Interfaces of other functions of the same card, which share its bus.
fn sharing(tree: &Tree, function: &Path, own: &str) -> Vec<String> {
    let address = last_part(function).unwrap_or_default();
    let Some((card, _)) = address.rsplit_once('.') else { return Vec::new() };
    let Some(parent) = function.parent() else { return Vec::new() };
    let functions = tree.names(parent).into_iter().filter(|n| n.starts_with(&format!("{card}.")));
    let nets = functions.flat_map(|function| tree.names(parent.join(function).join("net")));
    nets.filter(|net| net != own).collect()
}

fn bus(tree: &Tree, function: &Path) -> Option<Bus> {
    let link =
        |speed: LinkSpeed| PcieLink { gigatransfers: speed.gigatransfers, lanes: speed.lanes };
    let card = LinkSpeed::most(tree, function)?;
    // the maximum of the port above is that of the slot
    let slot = function.parent().filter(|parent| pci_function(parent).as_deref() == Some(*parent));
    Some(Bus {
        current: link(LinkSpeed::current(tree, function)?),
        card: link(card),
        slot: slot.and_then(|slot| LinkSpeed::most(tree, slot)).map(link),
    })
}

fn interrupt(tree: &Tree, number: u32, table: &InterruptTable) -> Option<Interrupt> {
    let (name, counts) = table.0.get(&number)?.clone();
    let allowed = irq_affinity::affinity(tree, number).unwrap_or_default();
    let effective = irq_affinity::effective(tree, number).unwrap_or_default();
    Some(Interrupt { number, name, counts, allowed, effective })
}

/// `/proc/interrupts`: name and counts by CPU of each numbered interrupt.
struct InterruptTable(BTreeMap<u32, (String, BTreeMap<u32, u64>)>);

impl InterruptTable {
    fn read(tree: &Tree) -> Self {
        Self::parse(&tree.text("/proc/interrupts").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        let cpus: Vec<u32> = header
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
            .collect();
        let rows = lines.filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number: u32 = number.trim().parse().ok()?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let counts =
                cpus.iter().zip(&words).map_while(|(cpu, word)| Some((*cpu, word.parse().ok()?)));
            let name = words.last().copied().unwrap_or_default().to_owned();
            Some((number, (name, counts.collect())))
        });
        Self(rows.collect())
    }
}

/// Adds driver settings to the interfaces of `host` that are up.
pub(super) fn complete_by_driver(host: &mut Host) {
    match Ethtool::open() {
        Ok(mut ethtool) => {
            for interface in host.interfaces.iter_mut().filter(|interface| interface.up) {
                settings(interface, &mut ethtool);
            }
        }
        Err(error) => host.unseen.push(("offloads", error.to_string())),
    }
}

/// A setting that the driver does not report is `None`; this is not a failure.
fn settings(interface: &mut Interface, ethtool: &mut Ethtool) {
    let name = &interface.name;
    interface.features = ethtool.features(name).ok();
    interface.rings = ethtool.rings(name).ok();
    interface.coalescing = ethtool.coalescing(name).ok();
    interface.pause = ethtool.pause(name).ok();
    interface.channels = ethtool.channels(name).ok();
    interface.modes = ethtool.link_modes(name).ok();
    if let Some(modes) = &interface.modes {
        interface.speed_mbps = interface.speed_mbps.or(modes.speed_mbps);
        interface.full_duplex = interface.full_duplex.or(modes.full_duplex);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interrupts_are_read_with_their_names_and_counts() {
        let table = InterruptTable::parse(
            "           CPU0       CPU2\n 38:          7      11547 PCI-MSIX-0000:00:03.0   1-edge      \
             eth0-TxRx-0\nNMI:          0          0   Non-maskable interrupts\n",
        );
        let (name, counts) = &table.0[&38];
        assert_eq!(name, "eth0-TxRx-0");
        assert_eq!(*counts, BTreeMap::from([(0, 7), (2, 11547)]));
        assert_eq!(table.0.len(), 1);
    }

    proptest! {
        #[test]
        fn any_table_is_read_without_a_fault(text in ".{0,400}") {
            InterruptTable::parse(&text);
        }
    }
}
