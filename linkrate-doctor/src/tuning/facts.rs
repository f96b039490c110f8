//! Facts about a host, before any judgement. A value that could not be read is `None`, never zero.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linkrate_model::existing_aggregate::ExistingAggregate;
use linkrate_model::{BitRate, CpuSet};
use linkrate_sys::ethtool::{Channels, Coalescing, Features, LinkModes, Pause, Rings};
use linkrate_sys::netlink::RouteEntry;
use linkrate_sys::sock_diag::Connection;
use linkrate_wire::limits::PcieLink;

/// A host, and everything on it that affects the speed of its network.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// CPUs that are online.
    pub cpus: Vec<Cpu>,
    /// Settings of TCP and of receive processing.
    pub settings: Settings,
    /// Receive processing of each CPU since boot.
    pub softnet: Vec<Softnet>,
    /// Whether irqbalance(1) runs.
    pub irqbalance: bool,
    /// The CPU reports a hypervisor.
    pub virtual_machine: bool,
    /// Interfaces except loopback; also those that are down.
    pub interfaces: Vec<Interface>,
    /// Routes, and the path MTUs the kernel learned.
    pub routes: Vec<RouteEntry>,
    /// Established TCP connections to other hosts.
    pub connections: Vec<Connection>,
    /// Processes that own such connections, where this process may see them.
    pub processes: Vec<Process>,
    /// Facts that could not be read, as (name, reason).
    pub unseen: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Default)]
pub struct Cpu {
    pub number: u32,
    /// CPUs of the same core, itself included.
    pub core: CpuSet,
    /// CPUs that share its last cache, itself included.
    pub cache: CpuSet,
    /// NUMA node.
    pub node: Option<u32>,
    /// Governor of the clock rate.
    pub governor: Option<String>,
    pub governors: Vec<String>,
    /// Preference between energy and performance (`energy_performance_preference`).
    pub energy: Option<String>,
    /// Lowest and highest clock rate, kHz.
    pub khz: Option<(u64, u64)>,
    /// Idle states, the shallowest first.
    pub idle_states: Vec<IdleState>,
}

#[derive(Debug, Clone, Default)]
pub struct IdleState {
    /// Its number on this CPU.
    pub number: u32,
    /// Its name by the driver.
    pub name: String,
    /// Exit latency, µs.
    pub exit_us: u64,
    /// Whether the kernel may use it.
    pub enabled: bool,
}

/// Settings of the kernel; `None` if the file does not exist.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `net.ipv4.tcp_rmem`: minimum, initial and maximum receive buffer, bytes.
    pub tcp_rmem: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`: the same for sending.
    pub tcp_wmem: Option<[u64; 3]>,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: Option<u64>,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max: Option<u64>,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: Option<u64>,
    /// `net.ipv4.tcp_sack`.
    pub selective_acknowledgements: Option<u64>,
    /// `net.ipv4.tcp_congestion_control`.
    pub congestion: Option<String>,
    /// `net.ipv4.tcp_available_congestion_control`.
    pub congestion_available: Vec<String>,
    /// `net.core.default_qdisc`.
    pub default_queue_discipline: Option<String>,
    /// `net.ipv4.ip_forward`.
    pub forwarding: Option<u64>,
    /// `net.core.netdev_max_backlog`, packets.
    pub backlog: Option<u64>,
    /// `net.core.netdev_budget`, packets.
    pub budget: Option<u64>,
    /// `net.core.netdev_budget_usecs`, µs.
    pub budget_us: Option<u64>,
    /// `net.core.rps_sock_flow_entries`.
    pub flow_entries: Option<u64>,
}

/// Receive processing of one CPU since boot (`/proc/net/softnet_stat`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Softnet {
    pub cpu: u32,
    pub processed: u64,
    /// Packets dropped because its backlog was full.
    pub dropped: u64,
    /// Rounds that ended with packets left, because budget or time was used up.
    pub squeezed: u64,
}

/// A process with connections.
#[derive(Debug, Clone, Default)]
pub struct Process {
    pub pid: u32,
    pub name: String,
    /// CPUs it may run on.
    pub cpus: CpuSet,
    /// Inodes of its sockets.
    pub sockets: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    /// Its kind (`veth`, `bridge`); `None` for adapters.
    pub kind: Option<String>,
    /// Administratively up.
    pub up: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Largest MTU the driver allows, bytes; `None` if it does not report one.
    pub max_mtu: Option<u32>,
    /// Name of the bridge, bond or team it is a member of.
    pub controller: Option<String>,
    /// What a bond or a team reports on itself.
    pub aggregate: Option<ExistingAggregate>,
    /// Name of its lower interface, or of its veth peer.
    pub lower: Option<String>,
    /// The root queueing discipline.
    pub queue_discipline: String,
    /// Largest superframe of IPv4, bytes.
    pub gso_max_size: u32,
    /// Most segments of a superframe.
    pub gso_max_segs: u32,
    /// Limit of the driver on superframes, bytes; zero if it does not report one.
    pub tso_max_size: u32,
    pub addresses: Vec<IpAddr>,
    pub speed_mbps: Option<u32>,
    pub full_duplex: Option<bool>,
    /// The adapter of the interface; `None` for a software interface.
    pub device: Option<Device>,
    /// Receive queues in use.
    pub rx_queues: Vec<RxQueue>,
    /// How many transmit queues are in use.
    pub tx_queues: usize,
    /// Counters by the kernel's names (`rx_missed_errors`).
    pub statistics: BTreeMap<String, u64>,
    /// Offloads.
    pub features: Option<Features>,
    /// Descriptor rings.
    pub rings: Option<Rings>,
    pub coalescing: Option<Coalescing>,
    pub pause: Option<Pause>,
    /// Queues in use, and their maximum.
    pub channels: Option<Channels>,
    pub modes: Option<LinkModes>,
}

#[derive(Debug, Clone, Default)]
pub struct RxQueue {
    /// CPUs that it spreads its packets to (RPS); empty if off.
    pub steering: CpuSet,
    /// Size of its flow table (RFS); zero if off.
    pub flows: u64,
}

/// The adapter of an interface.
#[derive(Debug, Clone, Default)]
pub struct Device {
    pub driver: Option<String>,
    /// Its PCI address, if it is on such a bus.
    pub pci_address: Option<String>,
    pub bus: Option<Bus>,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// Interrupts of its queues.
    pub interrupts: Vec<Interrupt>,
    /// Interfaces of other functions of the same card, which share the bus.
    pub sharing: Vec<String>,
}

/// The PCI Express link of an adapter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bus {
    pub current: PcieLink,
    /// The maximum of the card.
    pub card: PcieLink,
    /// The maximum of the slot.
    pub slot: Option<PcieLink>,
}

#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    pub number: u32,
    /// Its name by the driver.
    pub name: String,
    /// Its count since boot, by CPU.
    pub counts: BTreeMap<u32, u64>,
    /// CPUs that may handle it.
    pub allowed: CpuSet,
    /// CPUs that handle it.
    pub effective: CpuSet,
}

impl Interrupt {
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

impl Interface {
    /// The rate of its link; `None` for software interfaces, even if the driver reports a rate (a
    /// veth reports 10 Gb/s).
    pub fn rate(&self) -> Option<BitRate> {
        let aggregate = matches!(self.kind.as_deref(), Some("bond" | "team"));
        if self.device.is_none() && !aggregate {
            return None;
        }
        self.speed_mbps.map(|mbps| BitRate(f64::from(mbps) * 1e6))
    }

    /// A counter by name; zero if the interface has none of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.statistics.get(name).copied().unwrap_or(0)
    }

    /// The share of `lost` packets among lost and received packets, 0 to 1.
    pub fn share_lost(&self, lost: u64) -> f64 {
        lost as f64 / (self.count("rx_packets") as f64 + lost as f64).max(1.0)
    }

    pub fn counter_path(&self, name: &str) -> String {
        format!("/sys/class/net/{}/statistics/{name}", self.name)
    }

    /// Whether a hypervisor or another program emulates the adapter.
    pub fn is_paravirtual(&self) -> bool {
        const GUESTS: [&str; 7] =
            ["virtio_net", "vmxnet3", "xen_netfront", "hv_netvsc", "ena", "gve", "mana"];
        let driver = self.device.as_ref().and_then(|device| device.driver.as_deref());
        driver.is_some_and(|driver| GUESTS.contains(&driver))
    }
}

impl Host {
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    pub fn online(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    pub fn node_cpus(&self, node: u32) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.number).collect()
    }
}
