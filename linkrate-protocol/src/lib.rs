//! The one protocol between the controller and an agent.
//!
//! Each request has a number and gets exactly one reply with that number, in order. The carrier is
//! any byte stream (a socket pair on one machine, the stdio of `ssh` between machines);
//! [`framing`] cuts it into messages. Both sides name their [`PROTOCOL_VERSION`] first and
//! refuse another one. Neither side trusts the other: frames are bounded, [`decode_request`] refuses
//! counts and names that no testbed needs, and [`decode_reply`] bounds and cleans every string.
//! This file has the messages; `decode` has their bounds, `text` cleans strings.

// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]

mod decode;
pub mod framing;
mod text;
pub mod toe;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkrate_model::discipline::Discipline;
use linkrate_model::existing_aggregate::ExistingAggregate;
use linkrate_model::failure::Resent;
use linkrate_model::host::Stack;
use linkrate_model::interfaces::InterfaceAddress;
use linkrate_model::measurement::{CpuUse, IdleSource, InterfaceCounts, SenderTimes};
use linkrate_model::profile::Profile;
use linkrate_model::{
    BitRate, CpuMeter, CpuSet, Direction, Family, InterfaceKnobs, SocketKnobs, Workload,
};
use linkrate_sys::error::SysError;
use serde::{Deserialize, Serialize};

use framing::write_frame;

pub use decode::{DecodeError, bounds, decode_reply, decode_request};
pub use text::cleaned;
use toe::{ToeReply, ToeRequest};

/// Changes whenever a message changes its meaning.
pub const PROTOCOL_VERSION: u32 = 1;

/// The number of [`Request::Hello`] and its reply, which are sent without a number: two versions
/// can so refuse each other whatever their other messages look like.
pub const HELLO_NUMBER: u64 = 0;

/// A message with the number of its request.
#[derive(Debug, Serialize)]
struct Numbered<'a, M> {
    number: u64,
    message: &'a M,
}

/// Writes `message` with the number of its request as one frame.
pub fn write_message(
    stream: &mut impl Write,
    number: u64,
    message: &impl Serialize,
) -> io::Result<()> {
    match number {
        HELLO_NUMBER => write_frame(stream, message),
        number => write_frame(stream, &Numbered { number, message }),
    }
}

/// What an interface carries whose packets a program reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carries {
    /// Ethernet frames (a TAP). The reader does every offload.
    #[default]
    Frames,
    /// Ethernet frames (a TAP). The reader has no offloads.
    PlainFrames,
    /// IP packets (a TUN). The reader has no offloads.
    Packets,
}

/// A request of the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The first request: names the version of the controller, and asks for that of the agent.
    Hello { version: u32 },
    /// Read CLOCK_MONOTONIC, to relate the clocks of two machines.
    Clock,
    /// Bind this agent, and every thread it will start, to these CPUs.
    Place { cpus: CpuSet },
    /// Account for the time of CPUs that are not busy yet, whenever [`Request::Measure`] names them.
    Account {
        cpus: CpuSet,
        meter: CpuMeter,
        /// Whether to trace what runs there, if the agent may. One agent of a machine is enough.
        traces: bool,
    },
    /// Create a veth pair from this host to another agent's host on the same machine.
    CreateWire {
        name: String,
        peer_name: String,
        /// Process id of the other host's agent, which names its network namespace.
        peer_pid: u32,
        /// Most queue pairs of each end.
        queues: u32,
    },
    /// Create a TAP or TUN in this host. It is down.
    CreateTap {
        name: String,
        carries: Carries,
        /// Queue pairs.
        queues: u32,
        /// Its Ethernet address; the kernel chooses one if `None`.
        address: Option<[u8; 6]>,
        /// Its MTU; the kernel chooses one if `None`.
        mtu: Option<u32>,
        /// The most frames that wait in each queue to be read.
        tx_queue_length: u32,
        /// Whether NAPI threads are to process what is written to it, and not the writer.
        napi: bool,
    },
    /// Limit the rate of the datagrams that leave a TAP, or change the limit. A refusal means that
    /// datagrams have no limit.
    LimitDatagrams {
        name: String,
        bytes_per_second: u64,
        /// How much leaves at once after a pause, as its time at this rate, µs.
        burst_us: u32,
        /// Octets that each packet takes on the link beside its own.
        overhead: u16,
        /// A packet with its overhead leaves in cells of ATM.
        in_cells: bool,
    },
    /// Close this agent's descriptors of a TAP, which then lives as long as copies of them.
    ReleaseTap { name: String },
    /// Give an interface its address and bring it up.
    ConfigureInterface(InterfaceSetup),
    /// Let an interface reach neighbours over IPv6, without asking for them.
    ReachOverIpv6(Ipv6Setup),
    /// Wait until packets can pass an interface; both of its ends are up.
    AwaitLink { name: String },
    /// Process the packets that an interface receives on these CPUs (receive packet steering).
    SteerReceive { name: String, cpus: CpuSet },
    /// Describe an interface.
    Describe { name: String },
    /// List every IPv4 address of this host.
    Addresses,
    /// Look up the interface by which packets to an address leave.
    RouteTo { address: IpAddr },
    /// Lock existing interfaces, write their settings down, and restore them when the carrier
    /// closes. Settings that a killed process has left are restored first.
    Keep { names: Vec<String> },
    /// Move a kept interface, with its addresses, to another agent's host on the same machine, and
    /// back when the carrier closes.
    Lend {
        name: String,
        /// Process id of the other host's agent, which names its network namespace.
        pid: u32,
    },
    /// Process the packets that an interface receives on these CPUs: move the interrupts of its
    /// adapter, or set receive packet steering where it has no interrupts.
    SteerInterface { name: String, cpus: CpuSet },
    /// Set knobs on interfaces and read each interface back.
    SetKnobs { interfaces: Vec<String>, knobs: InterfaceKnobs },
    /// Read the knobs of interfaces and set nothing.
    ReadKnobs { interfaces: Vec<String> },
    /// Read what the network stack is made of beside the knobs.
    ReadStack {
        /// The interfaces of a run.
        interfaces: Vec<String>,
        /// The peers of its connections.
        peers: Vec<IpAddr>,
    },
    /// Prepare for the connections of a workload.
    Listen(ListenSpec),
    /// Connect a client's flows to a listening host.
    Connect(ConnectSpec),
    /// Connect flows to a third-party program, which listens at the peer.
    Dial(DialSpec),
    /// Wait until every flow that [`Request::Listen`] expects has arrived.
    AwaitFlows,
    /// Let the flows run.
    Begin,
    /// Tell the bytes of each flow so far.
    Progress,
    /// Prepare to sample these CPUs: read the names of the kernel's functions, and try whether
    /// sampling is allowed.
    PrepareProfile { cpus: CpuSet },
    /// Measure from one time to another.
    Measure(MeasureSpec),
    /// About connections that move between a host and a TCP offload engine.
    Toe(ToeRequest),
    /// Let the flows that send come to their end, and wait until what they sent is acknowledged.
    Settle {
        /// Whether to wait until all flows have ended, those that receive too.
        all: bool,
    },
    /// Stop and close all flows.
    Finish,
}

/// Address and route of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InterfaceSetup {
    pub name: String,
    pub address: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_length: u8,
    /// Congestion control of the route to that network, for programs that cannot choose it before
    /// they connect. It overrides the choice of a test socket, so runs leave it out.
    pub route_congestion: Option<String>,
    /// The router that all other networks are reached by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
}

/// An IPv6 address of this host, and the neighbours of an interface that are reached from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ipv6Setup {
    pub name: String,
    /// The host's address.
    pub address: Ipv6Addr,
    /// The addresses of the neighbours with their Ethernet addresses.
    pub neighbours: Vec<(Ipv6Addr, [u8; 6])>,
    /// Congestion control of the routes to them, as for [`InterfaceSetup::route_congestion`].
    pub route_congestion: Option<String>,
}

/// The two addresses between which a client and the listening host exchange packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ends {
    pub client: IpAddr,
    pub listener: IpAddr,
}

/// The connections that a listening host expects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListenSpec {
    pub workload: Workload,
    pub socket: SocketKnobs,
    /// The addresses of each client that will connect, in the order of their numbers. Test sockets
    /// listen on these addresses and accept these clients only.
    pub clients: Vec<Ends>,
    /// TCP ports over which connections are spread: an adapter that steers by destination port
    /// distinguishes connections by it.
    pub listeners: u32,
    /// Number of the run, which every flow must present.
    pub nonce: u64,
    /// Seed of all random numbers of the run.
    pub seed: u64,
    /// Whether both ends run on the same CPUs, so that streams take turns.
    pub shared_cpus: bool,
    /// For a run with an event: every byte is verified, and receivers keep records.
    pub record: Option<RecordSpec>,
    /// Number of the workload in a mix.
    pub part: u8,
    /// Whether the flows stand beside those of the requests before, and do not replace them.
    pub concurrent: bool,
    /// CPUs that the flows of a client are bound to, one each in turn, by the number of the client; flows
    /// of other clients are left to the scheduler.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bind: BTreeMap<u16, CpuSet>,
}

/// The name of an agent's own thread in its reports. All others are flows.
pub const AGENT_THREAD: &str = "agent";

/// The connections that a client makes. A field without a doc is as in [`ListenSpec`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectSpec {
    pub workload: Workload,
    pub socket: SocketKnobs,
    /// This client's number, from 0.
    pub client: u32,
    pub ends: Ends,
    /// The ports of the listening host for this client: for UDP one for each flow, for TCP those
    /// over which connections are spread.
    pub ports: Vec<u16>,
    pub nonce: u64,
    pub seed: u64,
    pub shared_cpus: bool,
    pub record: Option<RecordSpec>,
    pub part: u8,
    pub concurrent: bool,
}

/// The connections that a host makes to a third-party program. A field without a doc is as in [`ListenSpec`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DialSpec {
    /// The workload; its directions are those of this host.
    pub workload: Workload,
    pub socket: SocketKnobs,
    /// Number of the client for which the program stands, from 0.
    pub client: u32,
    /// The program's address as the client's, and the address that connections come from as the listener's.
    pub ends: Ends,
    /// The ports of the program, one for each flow; the flows take turns where there are fewer.
    pub ports: Vec<u16>,
    /// The first octets of each connection, which the program knows them by. Of datagrams they are the first one, and
    /// the program answers it.
    pub first_octets: Vec<u8>,
    /// What the program expects of datagrams.
    pub datagrams: DatagramHabit,
    pub seed: u64,
    pub concurrent: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bind: BTreeMap<u16, CpuSet>,
}

/// What a third-party program expects of the datagrams that it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DatagramHabit {
    /// Each begins with the time of its sender and its number.
    #[default]
    Numbered,
    /// Each is payload alone, and an empty one tells the end.
    EmptyAtEnd,
}

/// A measurement between two times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeasureSpec {
    /// Start of the measurement on this host's CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Interfaces whose counters are the evidence.
    pub interfaces: Vec<String>,
    /// CPUs to account for, among those of [`Request::Account`]; empty if another agent does.
    pub cpus: CpuSet,
    /// Whether to sample them too; [`Request::PrepareProfile`] comes first.
    pub profile: bool,
    /// Process ids of the agents of this run on this machine, which are not other programs.
    pub agents: Vec<u32>,
    /// Driver threads of virtual adapters on these CPUs, by thread id.
    pub drivers: Vec<u32>,
    /// NAPI threads of these adapters, by thread id; empty where they are not known.
    pub napi_threads: Vec<u32>,
    /// Agents of this run that read their counters on the CPUs of this one, itself included.
    pub readers: u32,
    /// Whether this agent looks often if it stalled. Each look costs some CPU time, so that of the system under test does
    /// not, unless it has no CPUs of its own.
    pub samples_often: bool,
    /// When the event of the run comes, ns; records tell gaps before it from those after it.
    pub event_ns: Option<u64>,
}

/// A reply of an agent, to the request of the same name unless it tells another; `Done` to those without one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Hello(Hello),
    Clock {
        monotonic_ns: u64,
    },
    /// To [`Request::Place`]: the affinity as read back.
    Placed {
        cpus: CpuSet,
    },
    /// To [`Request::Account`]: the meter that was chosen.
    Accounts {
        source: IdleSource,
    },
    /// To [`Request::CreateTap`].
    Tap {
        /// The agent's descriptors of it, a queue each, for the agent's parent to take.
        descriptors: Vec<i32>,
        /// The NAPI thread of each queue; empty where the writer processes what it writes.
        napi_threads: Vec<u32>,
        /// Why there are none, although they were asked for.
        napi_refused: Option<String>,
    },
    /// To [`Request::Describe`].
    Interface(Box<InterfaceFacts>),
    /// To [`Request::Addresses`].
    Addresses(Vec<InterfaceAddress>),
    /// To [`Request::RouteTo`].
    Route {
        interface: String,
        /// Their source address, where the route has one.
        source: Option<IpAddr>,
    },
    /// To [`Request::SteerInterface`].
    Steered(Steered),
    Done,
    /// To [`Request::SetKnobs`] and [`Request::ReadKnobs`]: every knob as read back, by interface.
    Knobs(BTreeMap<String, InterfaceKnobs>),
    /// To [`Request::ReadStack`].
    Stack(Box<Stack>),
    /// To [`Request::Listen`].
    Listening {
        /// The ports for each client, in the order of their numbers.
        ports: Vec<Vec<u16>>,
    },
    /// To [`Request::Connect`], [`Request::Dial`] and [`Request::AwaitFlows`].
    Flows(FlowFacts),
    Progress {
        /// Payload bytes sent and received since the flow began, by flow.
        bytes: Vec<u64>,
        /// The part of them that a third-party program has not acknowledged yet, all flows together.
        unacknowledged: u64,
    },
    /// To [`Request::Measure`].
    Measured(Box<MeasurementReport>),
    Toe(ToeReply),
    /// To [`Request::Finish`].
    Finished(Finished),
    /// The request could not be carried out.
    Refused(Refusal),
}

/// An agent and its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Hello {
    /// The agent's [`PROTOCOL_VERSION`].
    pub version: u32,
    pub pid: u32,
    /// Kernel release.
    pub kernel: String,
    pub cpu_model: String,
    pub online_cpus: CpuSet,
    /// The kernel's boot id: the same for all agents of one running kernel.
    pub boot_id: String,
    /// The sysctls of the network namespace (`net.ipv4.tcp_rmem`).
    pub sysctls: BTreeMap<String, String>,
    /// The settings of CPUs and kernel that change what traffic costs (`cpu-governor`).
    pub settings: BTreeMap<String, String>,
}

/// Description of an interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InterfaceFacts {
    pub name: String,
    /// Its kind (`veth`, `bond`); `None` for adapters.
    pub kind: Option<String>,
    /// The bridge, bond or team that it is a member of.
    pub belongs_to: Option<String>,
    /// Its upper interfaces, such as VLANs.
    pub carries: Vec<String>,
    /// Name of its driver; empty without a driver.
    pub driver: String,
    pub driver_version: String,
    /// Version of the adapter's firmware; empty where the driver reports no version.
    pub firmware: String,
    /// Bus address of the adapter (`0000:3b:00.0`); empty without a bus.
    pub bus: String,
    /// Its link on that bus as negotiated, and what it could be (`8 GT/s x4 of x8`); empty without such a link.
    pub bus_link: String,
    /// The NUMA node that the adapter is at; absent on machines with one node.
    pub node: Option<u32>,
    /// Its interrupts and the CPUs that handle them (`8 on CPUs 0-7`); empty without interrupts of its own.
    pub interrupts: String,
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
    /// Its Ethernet address; absent for other kinds of links.
    pub hardware_address: Option<[u8; 6]>,
    /// Its IPv4 addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// What a bond or a team reports on itself; absent for other interfaces.
    pub aggregate: Option<ExistingAggregate>,
}

/// How receive processing was confined to its CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Steered {
    /// Interrupts that go to those CPUs now; zero where the interface has no interrupts, so that
    /// its queues are steered.
    pub interrupts: u32,
    /// Interrupts that could not be moved, by number.
    pub stuck: Vec<u32>,
}

/// The effective options of the sockets of an agent's flows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowFacts {
    pub flows: u32,
    /// Smallest SO_SNDBUF granted, bytes.
    pub send_buffer_bytes: u64,
    /// Smallest SO_RCVBUF granted, bytes.
    pub receive_buffer_bytes: u64,
    /// Congestion control of every flow; empty for UDP.
    pub congestion: String,
    pub nodelay: bool,
    /// The address family of every flow.
    pub family: Family,
    /// Sending maximum segment size, bytes; zero for UDP and while there is no connection.
    pub mss_bytes: u32,
    /// The ports of the flows of a client that has connected, in their order: so many as a run keeps
    /// ([`MAX_REPORTED_FLOWS`](linkrate_model::measurement::MAX_REPORTED_FLOWS)). Empty where each transaction is a
    /// connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<FlowPorts>,
}

/// The ports of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowPorts {
    pub listener: u16,
    pub client: u16,
    /// Who sends payload, seen from the listening host.
    pub direction: Direction,
}

/// The counts of one agent over the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeasurementReport {
    /// When payload counters were first read, CLOCK_MONOTONIC ns: the mean of their moments.
    pub started_ns: u64,
    /// When they were read again.
    pub ended_ns: u64,
    /// How long the agent, and the flows in its process, stalled in between, ns, as far as it was late for what was due.
    pub stalled_ns: u64,
    /// Payload bytes this host's flows received. Of bulk receivers over TCP, bytes count when TCP
    /// receives them, whether their program has read them or not.
    pub received_bytes: u64,
    /// Payload bytes they sent.
    pub sent_bytes: u64,
    /// Transactions completed (counted where the request began).
    pub transactions: u64,
    /// UDP transactions without an answer in time.
    pub timeouts: u64,
    /// CPU time of this agent's threads, and of the CPUs it accounts for.
    pub cpu: CpuUse,
    pub interface: InterfaceCounts,
    /// IP and TCP counters, by the kernel's names.
    pub protocol: BTreeMap<String, u64>,
    /// TCP_INFO of the flows that send.
    pub senders: SenderTimes,
    /// Packets handled by receive processing, by CPU.
    pub receive_packets_by_cpu: BTreeMap<u32, u64>,
    /// Short sleeps of receivers that let data gather.
    pub receive_batches: u64,
    /// Sends for which MSG_ZEROCOPY fell back to a copy.
    pub zerocopy_copied: u64,
    /// Sends with MSG_ZEROCOPY that completed.
    pub zerocopy_completed: u64,
    /// The queue disciplines of the interfaces, when the measurement began and when it closed.
    pub disciplines: [Vec<Discipline>; 2],
    /// Processes and threads that began on this machine meanwhile.
    pub forks: u64,
    /// The profile of the CPUs, if it was requested.
    pub profile: Option<Box<Profile>>,
    /// What the flows moved, interval by interval; empty without flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<IntervalReport>,
    /// The records of the flows, in a run with an event.
    pub record: Option<Box<RecordReport>>,
    /// The counts of each workload of a mix; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReport>,
    /// Why a flow broke, if one did before the measurement ended.
    pub broken: Option<String>,
}

/// The counts of all flows in one interval of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IntervalReport {
    /// Its end, ns since the measurement opened.
    pub end_ns: u64,
    /// What the programs moved in it.
    pub moved: PartReport,
}

/// The counts of the flows of one workload in a mix, or of one interval, as in [`MeasurementReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartReport {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub transactions: u64,
    pub timeouts: u64,
}

impl PartReport {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let Self { received_bytes, sent_bytes, transactions, timeouts } = other;
        Self {
            received_bytes: self.received_bytes.saturating_add(received_bytes),
            sent_bytes: self.sent_bytes.saturating_add(sent_bytes),
            transactions: self.transactions.saturating_add(transactions),
            timeouts: self.timeouts.saturating_add(timeouts),
        }
    }

    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let Self { received_bytes, sent_bytes, transactions, timeouts } = earlier;
        Self {
            received_bytes: self.received_bytes.saturating_sub(received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(sent_bytes),
            transactions: self.transactions.saturating_sub(transactions),
            timeouts: self.timeouts.saturating_sub(timeouts),
        }
    }
}

/// Latencies as (nanoseconds, count), ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Latencies {
    pub all: Vec<(u64, u64)>,
    /// Those that had not ended when the measurement closed, with their ages.
    pub open: Vec<(u64, u64)>,
}

/// The report after all flows have ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finished {
    /// Latencies inside the measurement.
    pub latency: Latencies,
    /// The same of each workload of a mix; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Latencies>,
    /// Why a flow broke, if one did before the measurement ended.
    pub broken: Option<String>,
    /// Connections and datagrams that did not belong to the run.
    pub unexpected_peers: UnexpectedPeers,
}

/// Connections and datagrams that did not belong to the run, and were refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UnexpectedPeers {
    pub refused: u64,
    /// Where they came from: the first addresses.
    pub addresses: Vec<IpAddr>,
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

impl From<SysError> for Refusal {
    fn from(error: SysError) -> Self {
        Self { reason: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), hint: None }
    }
}

/// The slots of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecordSpec {
    pub slots: u32,
    /// Length of each, µs.
    pub slot_us: u32,
}

/// What the record of one flow says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowRecord {
    pub flow: String,
    /// The longest time without a byte that ended after the event, ns.
    pub gap_ns: u64,
    /// The same before the event.
    pub gap_before_ns: u64,
    /// Bytes that were compared with the expected ones since the flow began.
    pub verified_bytes: u64,
    /// Bytes among them that differ.
    pub wrong_bytes: u64,
}

/// What the records of all flows of an agent say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecordReport {
    pub slot_us: u32,
    /// Bytes that all flows received in each slot from the beginning of the measurement.
    pub received: Vec<u64>,
    /// Each flow that receives.
    pub flows: Vec<FlowRecord>,
    /// What the flows that send sent again from the event on.
    pub resent: Resent,
}
