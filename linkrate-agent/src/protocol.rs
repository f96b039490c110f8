//! The one protocol between the controller and an agent.
//!
//! Each request gets exactly one reply, in order. The carrier is any byte stream (a socketpair
//! here, the stdio of `ssh` elsewhere); [`crate::framing`] cuts it into messages. Both sides name
//! their [`PROTOCOL_VERSION`] first and refuse another one. Nothing the far end says is trusted:
//! frames are bounded, and [`decode_request`] refuses counts and names that no testbed needs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use linkrate_terms::interfaces::{InterfaceAddress, is_interface_name};
use linkrate_terms::measurement::{CpuUse, IdleSource, InterfaceCounts, SenderTimes};
use linkrate_terms::profile::Profile;
use linkrate_terms::workload::{MAX_FLOWS, MAX_PAYLOAD_MEMORY};
use linkrate_terms::{BitRate, CpuMeter, CpuSet, InterfaceKnobs, SocketKnobs, Workload};
use serde::{Deserialize, Serialize};

/// Changes whenever a message changes its meaning.
pub const PROTOCOL_VERSION: u32 = 4;

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
    /// Create a TAP in this host, with every offload left to whoever reads it. It is down.
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
    /// Close this agent's descriptors of a TAP, which then lives as long as those who took them.
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
    /// Process what an interface receives on these CPUs (receive packet steering).
    SteerReceive {
        /// Interface name.
        name: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Say what an interface is.
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
    /// Remember every setting of interfaces that are not linkrate's own, and put them back when
    /// this controller is gone.
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
    /// Process what an interface receives on these CPUs, by moving the interrupts of its adapter,
    /// or by receive packet steering where it has none.
    SteerInterface {
        /// Interface name.
        name: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Set knobs on interfaces and read them back.
    SetKnobs {
        /// The interfaces.
        interfaces: Vec<String>,
        /// The knobs.
        knobs: InterfaceKnobs,
    },
    /// Read the knobs of an interface and set nothing.
    ReadKnobs {
        /// Interface name.
        name: String,
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
    /// To [`Request::Account`]: what serves here for what was asked.
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
    /// To [`Request::SetKnobs`] and [`Request::ReadKnobs`]: every knob as read back.
    Knobs(InterfaceKnobs),
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
    /// Name of its driver; empty where it has none.
    pub driver: String,
    /// Version of the driver.
    pub driver_version: String,
    /// Version of the adapter's firmware; empty where nobody tells.
    pub firmware: String,
    /// Where the adapter is (`0000:3b:00.0`); empty where it is on no bus.
    pub bus: String,
    /// Rate of its link; `None` where it has none of its own or is down.
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

/// Bounds on what the far end may ask; each is far above what a testbed needs.
pub mod bounds {
    /// One message, bytes.
    pub const MESSAGE_BYTES: u64 = 64 << 20;
    /// One socket buffer, bytes.
    pub const BUFFER_BYTES: u64 = 1 << 30;
    /// Outstanding requests of one flow.
    pub const BURST: u32 = 4096;
    /// Interfaces named in one request.
    pub const INTERFACES: usize = 256;
    /// Addresses of one host.
    pub const ADDRESSES: usize = 4096;
    /// Bytes of a driver's name or version.
    pub const WORD_BYTES: usize = 64;
    /// TCP ports one host listens on.
    pub const LISTENERS: u32 = 64;
    /// Queue pairs.
    pub const QUEUES: u32 = 256;
    /// Frames that wait in one transmit queue.
    pub const QUEUE_LENGTH: u32 = 1 << 16;
    /// Functions named in a profile.
    pub const SYMBOLS: usize = 1024;
    /// Bytes of a function's name with its module's: KSYM_NAME_LEN and MODULE_NAME_LEN.
    pub const SYMBOL_BYTES: usize = 640;
    /// Threads named in a profile.
    pub const TASKS: usize = 256;
    /// CPUs in a profile.
    pub const SAMPLED_CPUS: usize = 8192;
}

/// Why a message was refused.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no JSON of the expected shape.
    #[error("message is not understood: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A value is out of bounds.
    #[error("{field} is {value}, expected {expected}")]
    OutOfBounds {
        /// The field.
        field: &'static str,
        /// What it was.
        value: String,
        /// What would be right.
        expected: String,
    },
}

/// Decodes a request and checks every count and name in it.
///
/// # Errors
/// [`DecodeError`] says which field is wrong.
pub fn decode_request(bytes: &[u8]) -> Result<Request, DecodeError> {
    let request: Request = serde_json::from_slice(bytes)?;
    check_request(&request)?;
    Ok(request)
}

/// Decodes a reply.
///
/// # Errors
/// [`DecodeError`] when it is no reply.
pub fn decode_reply(bytes: &[u8]) -> Result<Reply, DecodeError> {
    let reply: Reply = serde_json::from_slice(bytes)?;
    check_reply(&reply)?;
    Ok(reply)
}

fn check_reply(reply: &Reply) -> Result<(), DecodeError> {
    match reply {
        Reply::Window(report) if report.ended_ns < report.started_ns => {
            Err(DecodeError::OutOfBounds {
                field: "ended-ns",
                value: report.ended_ns.to_string(),
                expected: "a time after started-ns".to_owned(),
            })
        }
        Reply::Window(report) => report.profile.as_deref().map_or(Ok(()), check_profile),
        Reply::Tap { descriptors } => {
            at_least("descriptors", descriptors.len() as u64, 1)?;
            at_most("descriptors", descriptors.len() as u64, u64::from(bounds::QUEUES))?;
            match descriptors.iter().find(|descriptor| **descriptor < 0) {
                Some(descriptor) => Err(DecodeError::OutOfBounds {
                    field: "descriptors",
                    value: descriptor.to_string(),
                    expected: "0 or more".to_owned(),
                }),
                None => Ok(()),
            }
        }
        Reply::Interface(facts) => check_facts(facts),
        Reply::Addresses(addresses) => {
            at_most("addresses", addresses.len() as u64, bounds::ADDRESSES as u64)?;
            addresses.iter().try_for_each(|address| {
                check_name(&address.interface)?;
                at_most("prefix-length", u64::from(address.prefix_length), 32)
            })
        }
        Reply::Route { interface, .. } => check_name(interface),
        _ => Ok(()),
    }
}

/// What the far end says of itself goes into results, and must be no more than a line.
fn check_facts(facts: &InterfaceFacts) -> Result<(), DecodeError> {
    check_name(&facts.name)?;
    at_most("addresses", facts.addresses.len() as u64, bounds::ADDRESSES as u64)?;
    let words = [&facts.driver, &facts.driver_version, &facts.firmware, &facts.bus];
    for word in words.into_iter().chain(&facts.kind) {
        at_most("bytes of a word", word.len() as u64, bounds::WORD_BYTES as u64)?;
    }
    match facts.rate {
        Some(rate) if !(rate.0.is_finite() && rate.0 > 0.0) => Err(DecodeError::OutOfBounds {
            field: "rate",
            value: rate.0.to_string(),
            expected: "a finite rate above zero".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn check_request(request: &Request) -> Result<(), DecodeError> {
    match request {
        Request::Hello { .. }
        | Request::Clock
        | Request::Place { .. }
        | Request::PrepareProfile { .. }
        | Request::Account { .. }
        | Request::AwaitFlows
        | Request::Addresses
        | Request::RouteTo { .. }
        | Request::Begin
        | Request::Finish => Ok(()),
        Request::CreateWire { name, peer_name, queues, .. } => {
            check_name(name)?;
            check_name(peer_name)?;
            at_most("queues", u64::from(*queues), u64::from(bounds::QUEUES))
        }
        Request::CreateTap { name, queues, address, tx_queue_length } => {
            check_name(name)?;
            at_least("queues", u64::from(*queues), 1)?;
            at_most("queues", u64::from(*queues), u64::from(bounds::QUEUES))?;
            at_least("tx-queue-length", u64::from(*tx_queue_length), 1)?;
            at_most(
                "tx-queue-length",
                u64::from(*tx_queue_length),
                u64::from(bounds::QUEUE_LENGTH),
            )?;
            address.as_ref().map_or(Ok(()), check_address)
        }
        Request::ConfigureInterface(setup) => {
            check_name(&setup.name)?;
            at_most("prefix-length", u64::from(setup.prefix_length), 32)
        }
        Request::SteerReceive { name, .. }
        | Request::SteerInterface { name, .. }
        | Request::Describe { name }
        | Request::Borrow { name, .. }
        | Request::AwaitLink { name }
        | Request::ReadKnobs { name }
        | Request::ReleaseTap { name } => check_name(name),
        Request::SetKnobs { interfaces, .. } => check_names(interfaces),
        Request::Keep { names } => check_names(names),
        Request::Listen(spec) => {
            check_workload(&spec.workload, spec.clients)?;
            at_least("listeners", u64::from(spec.listeners), 1)?;
            at_most("listeners", u64::from(spec.listeners), u64::from(bounds::LISTENERS))?;
            check_buffer(&spec.socket)
        }
        Request::Connect(spec) => {
            check_workload(&spec.workload, 1)?;
            at_most("ports", spec.ports.len() as u64, MAX_FLOWS)?;
            at_least("ports", spec.ports.len() as u64, 1)?;
            check_buffer(&spec.socket)
        }
        Request::Measure(spec) => {
            check_names(&spec.interfaces)?;
            at_least("end-ns", spec.end_ns, spec.start_ns)
        }
    }
}

fn check_profile(profile: &Profile) -> Result<(), DecodeError> {
    at_least("period-ns", profile.period_ns, 1)?;
    at_most("profiled CPUs", profile.cpus.len() as u64, bounds::SAMPLED_CPUS as u64)?;
    at_most("functions", profile.kernel.len() as u64, bounds::SYMBOLS as u64)?;
    at_most("functions", profile.idle.len() as u64, bounds::SYMBOLS as u64)?;
    at_most("tasks", profile.tasks.len() as u64, bounds::TASKS as u64)?;
    let names = profile.kernel.iter().chain(&profile.idle).map(|(name, _)| name);
    for name in names.chain(profile.tasks.iter().map(|task| &task.name)) {
        at_most("bytes of a name", name.len() as u64, bounds::SYMBOL_BYTES as u64)?;
    }
    Ok(())
}

fn check_workload(workload: &Workload, clients: u32) -> Result<(), DecodeError> {
    at_least("connections", u64::from(workload.connections), 1)?;
    at_least("clients", u64::from(clients), 1)?;
    at_most("flows", workload.flows(clients), MAX_FLOWS)?;
    at_most("payload memory", workload.payload_memory(clients), MAX_PAYLOAD_MEMORY)?;
    at_least("burst", u64::from(workload.burst), 1)?;
    at_most("burst", u64::from(workload.burst), u64::from(bounds::BURST))?;
    for (field, size) in [
        ("message", workload.message),
        ("request", workload.request),
        ("response", workload.response),
    ] {
        at_least(field, size.smallest().0, 1)?;
        at_least(field, size.largest().0, size.smallest().0)?;
        at_most(field, size.largest().0, bounds::MESSAGE_BYTES)?;
    }
    if let Some(segment) = workload.udp_segment {
        at_least("udp-segment", segment.0, 1)?;
        at_most("udp-segment", segment.0, u64::from(u16::MAX))?;
    }
    Ok(())
}

fn check_buffer(socket: &SocketKnobs) -> Result<(), DecodeError> {
    match socket.buffer {
        Some(bytes) => at_most("buffer", bytes.0, bounds::BUFFER_BYTES),
        None => Ok(()),
    }
}

/// Hosts behind one switch reach the SUT through one interface, which must not count twice.
fn check_names(names: &[String]) -> Result<(), DecodeError> {
    at_most("interfaces", names.len() as u64, bounds::INTERFACES as u64)?;
    let mut seen = BTreeSet::new();
    for name in names {
        check_name(name)?;
        if !seen.insert(name) {
            return Err(DecodeError::OutOfBounds {
                field: "interfaces",
                value: format!("{name:?} twice"),
                expected: "each interface once".to_owned(),
            });
        }
    }
    Ok(())
}

/// As the kernel's is_valid_ether_addr (include/linux/etherdevice.h).
fn check_address(address: &[u8; 6]) -> Result<(), DecodeError> {
    if address[0] & 1 == 0 && *address != [0; 6] {
        return Ok(());
    }
    Err(DecodeError::OutOfBounds {
        field: "address",
        value: address.map(|byte| format!("{byte:02x}")).join(":"),
        expected: "the address of one station, such as 02:00:00:00:00:01".to_owned(),
    })
}

fn check_name(name: &str) -> Result<(), DecodeError> {
    if is_interface_name(name) {
        return Ok(());
    }
    Err(DecodeError::OutOfBounds {
        field: "interface name",
        value: format!("{name:?}"),
        expected: "1 to 15 printable characters without '/' and ':'".to_owned(),
    })
}

fn at_most(field: &'static str, value: u64, limit: u64) -> Result<(), DecodeError> {
    if value <= limit {
        return Ok(());
    }
    let expected = format!("at most {limit}");
    Err(DecodeError::OutOfBounds { field, value: value.to_string(), expected })
}

fn at_least(field: &'static str, value: u64, limit: u64) -> Result<(), DecodeError> {
    if value >= limit {
        return Ok(());
    }
    let expected = format!("at least {limit}");
    Err(DecodeError::OutOfBounds { field, value: value.to_string(), expected })
}

#[cfg(test)]
mod tests {
    use linkrate_terms::{ByteSize, MessageSize};

    use super::*;

    fn decoded(request: &Request) -> Result<Request, DecodeError> {
        decode_request(&serde_json::to_vec(request).unwrap())
    }

    fn listen(workload: Workload) -> Request {
        Request::Listen(ListenSpec {
            workload,
            socket: SocketKnobs::default(),
            clients: 1,
            listeners: 1,
            nonce: 1,
            seed: 1,
            shared_cpus: false,
        })
    }

    #[test]
    fn a_request_comes_back_as_it_went() {
        let request = listen(Workload::default());
        assert_eq!(decoded(&request).unwrap(), request);
    }

    #[test]
    fn sizes_and_counts_beyond_any_testbed_are_refused() {
        let huge = MessageSize::Fixed(ByteSize(1 << 40));
        for workload in [
            Workload { message: huge, ..Workload::default() },
            Workload { connections: 1 << 20, ..Workload::default() },
            Workload { connections: 0, ..Workload::default() },
            Workload { burst: u32::MAX, ..Workload::default() },
            Workload {
                request: MessageSize::Uniform { low: ByteSize(9), high: ByteSize(3) },
                ..Workload::default()
            },
        ] {
            let error = decoded(&listen(workload)).unwrap_err();
            assert!(matches!(error, DecodeError::OutOfBounds { .. }), "{error}");
        }
    }

    #[test]
    fn names_the_kernel_would_refuse_are_refused() {
        for name in ["", ".", "..", "a/b", "0123456789abcdef", "a b", "a:b"] {
            let request = Request::SetKnobs {
                interfaces: vec![name.to_owned()],
                knobs: InterfaceKnobs::default(),
            };
            assert!(decoded(&request).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_interface_is_named_once() {
        let measure = |interfaces: &[&str]| {
            decoded(&Request::Measure(MeasureSpec {
                start_ns: 0,
                end_ns: 1,
                interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
                cpus: CpuSet::default(),
                profile: false,
            }))
        };
        assert!(measure(&["p0", "p1"]).is_ok());
        let error = measure(&["p0", "p1", "p0"]).unwrap_err().to_string();
        assert_eq!(error, "interfaces is \"p0\" twice, expected each interface once");
    }

    #[test]
    fn a_tap_is_asked_for_within_bounds() {
        let tap = |queues, address, tx_queue_length| {
            let name = "p0".to_owned();
            let request = Request::CreateTap { name, queues, address, tx_queue_length };
            decoded(&request).map(|again| assert_eq!(again, request)).map_err(|e| e.to_string())
        };
        assert_eq!(tap(1, None, 512), Ok(()));
        assert_eq!(tap(256, Some([2, 0, 0, 0, 0, 1]), 1 << 16), Ok(()));
        for (answer, field) in [
            (tap(0, None, 512), "queues is 0"),
            (tap(257, None, 512), "queues is 257"),
            (tap(1, None, 0), "tx-queue-length is 0"),
            (tap(1, None, u32::MAX), "tx-queue-length is 4294967295"),
            (tap(1, Some([0; 6]), 512), "address is 00:00:00:00:00:00"),
            (tap(1, Some([1, 0, 94, 0, 0, 1]), 512), "address is 01:00:5e:00:00:01"),
        ] {
            let error = answer.unwrap_err();
            assert!(error.starts_with(field), "{error}");
        }
    }

    #[test]
    fn descriptors_that_cannot_be_are_refused() {
        let answer = |descriptors| {
            decode_reply(&serde_json::to_vec(&Reply::Tap { descriptors }).unwrap()).is_ok()
        };
        assert!(answer(vec![5, 6]));
        assert!(!answer(vec![]) && !answer(vec![5, -1]) && !answer(vec![5; 257]));
    }

    #[test]
    fn what_an_interface_is_said_to_be_is_bounded() {
        let answer = |facts: InterfaceFacts| {
            let reply = Reply::Interface(Box::new(facts));
            let decoded = decode_reply(&serde_json::to_vec(&reply).unwrap());
            decoded.map(|_| ()).map_err(|error| error.to_string())
        };
        let facts = InterfaceFacts { name: "eth1".to_owned(), ..InterfaceFacts::default() };
        assert_eq!(answer(facts.clone()), Ok(()));
        let address = InterfaceAddress {
            interface: "eth1".to_owned(),
            address: Ipv4Addr::LOCALHOST,
            prefix_length: 8,
        };
        for wrong in [
            InterfaceFacts { name: "a b".to_owned(), ..facts.clone() },
            InterfaceFacts { firmware: "x".repeat(65), ..facts.clone() },
            InterfaceFacts { rate: Some(BitRate(0.0)), ..facts.clone() },
            InterfaceFacts { addresses: vec![address; 5000], ..facts },
        ] {
            assert!(answer(wrong).is_err());
        }
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_panic() {
        for bytes in
            [&b""[..], b"{", b"null", b"{\"hello\":{}}", b"{\"hello\":{\"version\":-1}}", b"\xff"]
        {
            assert!(decode_request(bytes).is_err());
            assert!(decode_reply(bytes).is_err());
        }
    }

    /// A seed that no longer decodes leads the fuzzer nowhere.
    #[test]
    fn the_fuzzers_seeds_are_what_their_names_say() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/protocol");
        let mut messages = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some(name) = name.strip_suffix(".json") else { continue };
            let bytes = std::fs::read(&path).unwrap();
            let (request, reply) = (decode_request(&bytes), decode_reply(&bytes));
            let is_refused = ["-too-many", "-no-period"].iter().any(|end| name.ends_with(end));
            if is_refused {
                let out_of_bounds = matches!(request, Err(DecodeError::OutOfBounds { .. }))
                    || matches!(reply, Err(DecodeError::OutOfBounds { .. }));
                assert!(out_of_bounds, "{name}: {request:?}, {reply:?}");
            } else {
                assert!(request.is_ok() || reply.is_ok(), "{name}: {request:?}, {reply:?}");
            }
            messages += 1;
        }
        assert!(messages > 20, "{messages}");
    }
}
