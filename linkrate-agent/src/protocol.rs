//! The one protocol between the controller and an agent.
//!
//! Each request gets exactly one reply, in order. The carrier is any byte stream (a socketpair
//! here, the stdio of `ssh` elsewhere); [`crate::framing`] cuts it into messages. Both sides name
//! their [`PROTOCOL_VERSION`] first and refuse another one. Nothing the far end says is trusted:
//! frames are bounded, and [`decode_request`] refuses counts and names that no testbed needs.
//! Here are the messages; `decode` has their bounds.

mod decode;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use linkrate_terms::interfaces::InterfaceAddress;
use linkrate_terms::measurement::{CpuUse, IdleSource, InterfaceCounts, SenderTimes};
use linkrate_terms::profile::Profile;
use linkrate_terms::{BitRate, CpuMeter, CpuSet, InterfaceKnobs, SocketKnobs, Workload};
use serde::{Deserialize, Serialize};

pub use decode::{DecodeError, bounds, decode_reply, decode_request};

/// Changes whenever a message changes its meaning.
pub const PROTOCOL_VERSION: u32 = 5;

/// What the controller asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Who are you? The controller's first request.
    Hello {
        /// The controller's [`PROTOCOL_VERSION`].
        version: u32,
    },
    /// Read CLOCK_MONOTONIC, to relate the clocks of two machines.
    Clock,
    /// Bind this agent, and every thread it will start, to these CPUs.
    Place {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Account for the time of CPUs that are not busy yet, whenever [`Request::Measure`] names them.
    Account {
        /// The CPUs.
        cpus: CpuSet,
        /// How.
        meter: CpuMeter,
        /// Whether idle CPUs are interrupted by receive processing, which the kernel's idle time alone
        /// does not account for rightly.
        softirqs: bool,
    },
    /// Create a veth pair from this host to another agent's host on the same machine.
    CreateWire {
        /// Name of the end in this host.
        name: String,
        /// Name of the end in the other host.
        peer_name: String,
        /// Process id of the other host's agent, which names its network namespace.
        peer_pid: u32,
        /// Queue pairs the wire's ends can have at most.
        queues: u32,
    },
    /// Create a TAP in this host, with every offload left to its reader. It is down.
    CreateTap {
        /// Interface name.
        name: String,
        /// Queue pairs.
        queues: u32,
        /// Its Ethernet address; the kernel makes one up if `None`.
        address: Option<[u8; 6]>,
        /// Frames that wait to be read from each queue, at most.
        tx_queue_length: u32,
    },
    /// Limit the rate of the datagrams that leave a TAP, or change the limit. A refusal means that
    /// nothing limits them.
    LimitDatagrams {
        /// Interface name.
        name: String,
        /// Bytes per second.
        bytes_per_second: u64,
        /// How much leaves at once after a pause, as its time at this rate, µs.
        burst_us: u32,
        /// Octets that each packet takes on the link beside its own.
        overhead: u16,
    },
    /// Close this agent's descriptors of a TAP, which then lives as long as the copies that others
    /// took.
    ReleaseTap {
        /// Interface name.
        name: String,
    },
    /// Give an interface its address and bring it up.
    ConfigureInterface(InterfaceSetup),
    /// Wait until packets can pass an interface whose both ends are up.
    AwaitLink {
        /// Interface name.
        name: String,
    },
    /// Process the packets that an interface receives on these CPUs (receive packet steering).
    SteerReceive {
        /// Interface name.
        name: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Describe an interface.
    Describe {
        /// Interface name.
        name: String,
    },
    /// Name every IPv4 address of this host.
    Addresses,
    /// Say where packets to an address go.
    RouteTo {
        /// The address.
        address: Ipv4Addr,
    },
    /// Remember every setting of existing interfaces, and restore them when this controller is gone.
    Keep {
        /// The interfaces.
        names: Vec<String>,
    },
    /// Take an interface from another network namespace of this machine, with its addresses, and
    /// bring it back when this controller is gone.
    Borrow {
        /// Interface name.
        name: String,
        /// A process in that namespace.
        pid: u32,
    },
    /// Process the packets that an interface receives on these CPUs: move the interrupts of its
    /// adapter, or set receive packet steering where it has no interrupts.
    SteerInterface {
        /// Interface name.
        name: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Set knobs on interfaces and read each interface back.
    SetKnobs {
        /// The interfaces.
        interfaces: Vec<String>,
        /// The knobs.
        knobs: InterfaceKnobs,
    },
    /// Read the knobs of interfaces and set nothing.
    ReadKnobs {
        /// The interfaces.
        interfaces: Vec<String>,
    },
    /// Make ready for connections of a workload.
    Listen(ListenSpec),
    /// Connect a client's flows to a listening host.
    Connect(ConnectSpec),
    /// Wait until every flow that [`Request::Listen`] expects has arrived.
    AwaitFlows,
    /// Let the flows run.
    Begin,
    /// Make ready to sample these CPUs: read the names of the kernel's functions, and see that
    /// sampling is allowed.
    PrepareProfile {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Measure from one time to another.
    Measure(MeasureSpec),
    /// Stop and close all flows.
    Finish,
}

/// Address and route of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InterfaceSetup {
    /// Interface name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_length: u8,
    /// Congestion control of the route to that network, for programs that cannot choose one
    /// before they connect. It overrides what a test socket chooses, so runs leave it out.
    pub route_congestion: Option<String>,
}

/// What a listening host is to expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListenSpec {
    /// The workload.
    pub workload: Workload,
    /// Options of the sockets.
    pub socket: SocketKnobs,
    /// Clients that will connect.
    pub clients: u32,
    /// TCP ports to share the connections out to: an adapter that steers by destination port can
    /// only tell apart what comes to different ones.
    #[serde(default = "one")]
    pub listeners: u32,
    /// Number that a flow must present, so that no stranger's connection is taken for one.
    pub nonce: u64,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Whether both ends run on the same CPUs, so that streams take turns.
    pub shared_cpus: bool,
}

fn one() -> u32 {
    1
}

/// What a client is to connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectSpec {
    /// The workload.
    pub workload: Workload,
    /// Options of the sockets.
    pub socket: SocketKnobs,
    /// This client's number, from 0.
    pub client: u32,
    /// The listening host as this client reaches it.
    pub address: Ipv4Addr,
    /// Its ports: for TCP as many as it listens on, for UDP one per flow of all clients.
    pub ports: Vec<u16>,
    /// As in [`ListenSpec`].
    pub nonce: u64,
    /// As in [`ListenSpec`].
    pub seed: u64,
    /// As in [`ListenSpec`].
    pub shared_cpus: bool,
}

/// What to measure, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeasureSpec {
    /// Start of the window on this host's CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// End of the window, ns.
    pub end_ns: u64,
    /// Interfaces whose counters are evidence.
    pub interfaces: Vec<String>,
    /// CPUs whose time is wanted, among those of [`Request::Account`]; empty leaves that to
    /// another agent.
    pub cpus: CpuSet,
    /// Whether to sample them too; [`Request::PrepareProfile`] comes first.
    #[serde(default)]
    pub profile: bool,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello(Hello),
    /// To [`Request::Clock`].
    Clock {
        /// CLOCK_MONOTONIC, ns.
        monotonic_ns: u64,
    },
    /// To [`Request::Place`]: the affinity as read back.
    Placed {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// To [`Request::Account`]: the meter that was chosen.
    Accounts {
        /// Where idle time comes from.
        source: IdleSource,
    },
    /// To [`Request::CreateTap`].
    Tap {
        /// The agent's descriptors of it, a queue each, for the agent's parent to take.
        descriptors: Vec<i32>,
    },
    /// To [`Request::Describe`].
    Interface(Box<InterfaceFacts>),
    /// To [`Request::Addresses`].
    Addresses(Vec<InterfaceAddress>),
    /// To [`Request::RouteTo`].
    Route {
        /// The interface they leave by.
        interface: String,
        /// The address they carry, where the route says it.
        source: Option<Ipv4Addr>,
    },
    /// To [`Request::SteerInterface`].
    Steered(Steered),
    /// Done, with nothing to tell.
    Done,
    /// To [`Request::SetKnobs`] and [`Request::ReadKnobs`]: every knob as read back, by interface.
    Knobs(BTreeMap<String, InterfaceKnobs>),
    /// To [`Request::Listen`].
    Listening {
        /// The ports.
        ports: Vec<u16>,
    },
    /// To [`Request::Connect`] and [`Request::AwaitFlows`].
    Flows(FlowFacts),
    /// To [`Request::Measure`].
    Window(Box<WindowReport>),
    /// To [`Request::Finish`].
    Finished(Finished),
    /// The request could not be carried out.
    Refused(Refusal),
}

/// Who an agent is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Hello {
    /// The agent's [`PROTOCOL_VERSION`].
    pub version: u32,
    /// Its process id.
    pub pid: u32,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu_model: String,
    /// CPUs online.
    pub online_cpus: CpuSet,
    /// Which machine it runs on, since when: two agents of one running kernel say the same.
    pub boot_id: String,
}

/// What an interface is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// What made it (`veth`, `bond`); `None` for adapters.
    pub kind: Option<String>,
    /// The bridge, bond or team that it is a member of.
    pub belongs_to: Option<String>,
    /// Interfaces that stand on it, such as VLANs.
    pub carries: Vec<String>,
    /// Name of its driver; empty without a driver.
    pub driver: String,
    /// Version of the driver.
    pub driver_version: String,
    /// Version of the adapter's firmware; empty where the driver reports no version.
    pub firmware: String,
    /// Where the adapter is (`0000:3b:00.0`); empty where it is on no bus.
    pub bus: String,
    /// Rate of its link; `None` where the link is down or virtual.
    pub rate: Option<BitRate>,
    /// Both directions share the rate.
    pub half_duplex: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Ready to send: up, with a link.
    pub running: bool,
    /// Its IPv4 addresses.
    pub addresses: Vec<InterfaceAddress>,
}

/// How receive processing was brought to its CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Steered {
    /// Interrupts that go to those CPUs now; zero where the interface has none, and its queues
    /// are steered instead.
    pub interrupts: u32,
    /// Interrupts that could not be moved, by number.
    pub stuck: Vec<u32>,
}

/// What the sockets of an agent's flows really have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowFacts {
    /// Flows.
    pub flows: u32,
    /// Smallest SO_SNDBUF granted, bytes.
    pub send_buffer_bytes: u64,
    /// Smallest SO_RCVBUF granted, bytes.
    pub receive_buffer_bytes: u64,
    /// Congestion control of every flow; empty for UDP.
    pub congestion: String,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// Sending maximum segment size, bytes; zero for UDP and while there is no connection.
    pub mss_bytes: u32,
}

/// What one agent counted over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WindowReport {
    /// When payload counters were first read, CLOCK_MONOTONIC ns.
    pub started_ns: u64,
    /// When they were read again.
    pub ended_ns: u64,
    /// Payload bytes this host's flows received.
    pub received_bytes: u64,
    /// Payload bytes they sent.
    pub sent_bytes: u64,
    /// Transactions completed (counted where the request began).
    pub transactions: u64,
    /// UDP transactions given up after a time-out.
    pub timeouts: u64,
    /// CPU time of this agent's threads, and of the CPUs it accounts for.
    pub cpu: CpuUse,
    /// Interface counters.
    pub interface: InterfaceCounts,
    /// IP and TCP counters by the kernel's names.
    pub protocol: BTreeMap<String, u64>,
    /// TCP_INFO of the flows that send.
    pub senders: SenderTimes,
    /// Packets handled by receive processing, by CPU.
    pub receive_packets_by_cpu: BTreeMap<u32, u64>,
    /// Sends for which MSG_ZEROCOPY fell back to a copy.
    pub zerocopy_copied: u64,
    /// Sends with MSG_ZEROCOPY that completed.
    pub zerocopy_completed: u64,
    /// What the CPUs were doing, if that was asked.
    #[serde(default)]
    pub profile: Option<Box<Profile>>,
    /// Why a flow broke, if one did before the window closed.
    pub broken: Option<String>,
}

/// What remains to be told after the flows have ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finished {
    /// Latencies inside the window as (nanoseconds, count), ascending.
    pub latency: Vec<(u64, u64)>,
    /// Why a flow broke, if one did before the window closed.
    pub broken: Option<String>,
}

/// Why a request could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The reason, with the identifying value.
    pub reason: String,
    /// The remedy, if there is one.
    pub hint: Option<String>,
}
