//! What is known of a host before anything is judged. Plain values: what could not be read is
//! `None`, and is nowhere taken for zero.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linkrate_sys::ethtool::{Channels, Coalescing, Features, LinkModes, Pause, Rings};
use linkrate_sys::netlink::RouteEntry;
use linkrate_sys::sock_diag::Connection;
use linkrate_terms::{BitRate, CpuSet};
use linkrate_wire::limits::PcieLink;

/// A host, and everything of it that bears on its network's speed.
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
    /// The CPU says that it runs under a hypervisor.
    pub virtual_machine: bool,
    /// Interfaces but loopback, those that are down included.
    pub interfaces: Vec<Interface>,
    /// Routes, and what they have learned.
    pub routes: Vec<RouteEntry>,
    /// Established TCP connections that leave this host.
    pub connections: Vec<Connection>,
    /// Processes that own such connections, as far as they may be seen.
    pub processes: Vec<Process>,
    /// What could not be read, as (what, why).
    pub unseen: Vec<(&'static str, String)>,
}

/// One CPU.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// CPUs of the same core, itself included.
    pub core: CpuSet,
    /// CPUs that share its last cache, itself included.
    pub cache: CpuSet,
    /// NUMA node.
    pub node: Option<u32>,
    /// Governor of the clock rate.
    pub governor: Option<String>,
    /// Governors there are.
    pub governors: Vec<String>,
    /// Energy against performance (`energy_performance_preference`).
    pub energy: Option<String>,
    /// Lowest and highest clock rate, kHz.
    pub khz: Option<(u64, u64)>,
    /// Idle states, the shallowest first.
    pub idle_states: Vec<IdleState>,
}

/// A way for a CPU to be idle.
#[derive(Debug, Clone, Default)]
pub struct IdleState {
    /// Its number on this CPU.
    pub number: u32,
    /// The driver's name for it.
    pub name: String,
    /// How long the CPU takes to come back, µs.
    pub exit_us: u64,
    /// Whether it may be entered.
    pub enabled: bool,
}

/// Settings of the kernel; `None` where there is no such file.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `net.ipv4.tcp_rmem`: least, first and largest receive buffer, bytes.
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
    /// Which CPU.
    pub cpu: u32,
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because its backlog was full.
    pub dropped: u64,
    /// Rounds that ended with work left, for want of budget or time.
    pub squeezed: u64,
}

/// A process with connections.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Where it may run.
    pub cpus: CpuSet,
    /// Inodes of its sockets.
    pub sockets: Vec<u32>,
}

/// An interface.
#[derive(Debug, Clone, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// What made it (`veth`, `bridge`); `None` for adapters.
    pub kind: Option<String>,
    /// Administratively up.
    pub up: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Largest MTU the driver takes, bytes; `None` where it does not say.
    pub max_mtu: Option<u32>,
    /// Name of the bridge, bond or team it is a member of.
    pub controller: Option<String>,
    /// Name of the interface it stands on or is joined to.
    pub lower: Option<String>,
    /// The root queueing discipline.
    pub queue_discipline: String,
    /// Largest superframe of IPv4, bytes.
    pub gso_max_size: u32,
    /// Most segments of a superframe.
    pub gso_max_segs: u32,
    /// The driver's own limit on superframes, bytes; zero where it does not say.
    pub tso_max_size: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Link rate in megabits per second.
    pub speed_mbps: Option<u32>,
    /// Whether both directions go at once.
    pub full_duplex: Option<bool>,
    /// The adapter behind it; `None` for interfaces that are only software.
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
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Pause frames.
    pub pause: Option<Pause>,
    /// Queues in use and how many there could be.
    pub channels: Option<Channels>,
    /// What the link could negotiate.
    pub modes: Option<LinkModes>,
}

/// A receive queue.
#[derive(Debug, Clone, Default)]
pub struct RxQueue {
    /// CPUs that it spreads its packets to; none: off.
    pub steering: CpuSet,
    /// Flows that it steers to their process.
    pub flows: u64,
}

/// The adapter behind an interface.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Name of its driver.
    pub driver: Option<String>,
    /// Its PCI address, if it is on such a bus.
    pub pci_address: Option<String>,
    /// The PCI Express link it has and the one it could have.
    pub bus: Option<Bus>,
    /// NUMA node that it is on.
    pub node: Option<u32>,
    /// Interrupts of its queues.
    pub interrupts: Vec<Interrupt>,
    /// Other interfaces that share the bus, as other functions of the same card.
    pub sharing: Vec<String>,
}

/// The PCI Express link of an adapter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bus {
    /// As it is.
    pub current: PcieLink,
    /// As the card could have it.
    pub card: PcieLink,
    /// As the slot above it could have it.
    pub slot: Option<PcieLink>,
}

/// An interrupt.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// The name the driver gave it.
    pub name: String,
    /// How often it came, by CPU, since boot.
    pub counts: BTreeMap<u32, u64>,
    /// CPUs that it may go to.
    pub allowed: CpuSet,
    /// CPUs that it goes to.
    pub effective: CpuSet,
}

impl Interrupt {
    /// How often it came.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

impl Interface {
    /// The rate of its link; `None` where it has none, whatever it says: a veth says 10 Gb/s.
    pub fn rate(&self) -> Option<BitRate> {
        let aggregate = matches!(self.kind.as_deref(), Some("bond" | "team"));
        if self.device.is_none() && !aggregate {
            return None;
        }
        self.speed_mbps.map(|mbps| BitRate(f64::from(mbps) * 1e6))
    }

    /// A counter, zero where there is none of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.statistics.get(name).copied().unwrap_or(0)
    }

    /// The share that `lost` packets are of those and all that were received, 0 to 1.
    pub fn share_lost(&self, lost: u64) -> f64 {
        lost as f64 / (self.count("rx_packets") as f64 + lost as f64).max(1.0)
    }

    /// Where a counter is read.
    pub fn counter_path(&self, name: &str) -> String {
        format!("/sys/class/net/{}/statistics/{name}", self.name)
    }

    /// Whether the far end of its link is software of this host or of the one it runs on.
    pub fn is_paravirtual(&self) -> bool {
        const GUESTS: [&str; 7] =
            ["virtio_net", "vmxnet3", "xen_netfront", "hv_netvsc", "ena", "gve", "mana"];
        let driver = self.device.as_ref().and_then(|device| device.driver.as_deref());
        driver.is_some_and(|driver| GUESTS.contains(&driver))
    }
}

impl Host {
    /// The interface of that name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// Every CPU that is online.
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// The CPUs of a NUMA node.
    pub fn node_cpus(&self, node: u32) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.number).collect()
    }
}
