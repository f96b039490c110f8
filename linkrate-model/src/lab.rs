//! Reports about a running lab and its virtual adapters.
//!
//! Counters count from the moment the port was made; the difference of two reports is the traffic
//! between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::aggregate::AggregateReport;
use crate::cpus::CpuSet;
use crate::knobs::InterfaceKnobs;
use crate::measurement::ThreadTime;
use crate::model::Model;
use crate::units::BitRate;

/// The environment variable that names the lab to programs in it.
pub const LAB_VARIABLE: &str = "LINKRATE_LAB";

/// A lab with its hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabReport {
    /// Its name.
    pub name: String,
    /// The process that holds it.
    pub pid: u32,
    /// The adapter that joins its hosts: `veth` or a model's name.
    pub adapter: String,
    /// Share of the model's rates at which links and buses run.
    pub scale: f64,
    /// Ports of the system under test; those of an aggregate have one interface.
    pub ports: u32,
    /// Congestion control of programs that choose none.
    pub congestion: String,
    /// Two switches and what is between them, as lines of text; empty with other fabrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fabric: Vec<String>,
    /// Whether its adapters take connections of programs in the system under test.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offloads: bool,
    /// The system under test, and its clients.
    pub hosts: Vec<HostReport>,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    /// `sut`, `client-0`, ...
    pub name: String,
    /// The process that holds its namespaces.
    pub pid: u32,
    /// The CPUs of its role.
    pub cpus: CpuSet,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceReport>,
}

/// One interface of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceReport {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_length: u8,
    /// The IPv6 address that its host is reached at over it; absent in labs without IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
}

/// TCP_INFO of a connection, where its state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TcpReport {
    /// Sending maximum segment size, bytes.
    pub mss: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Congestion window, segments.
    pub congestion_window: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
}

/// Connections at an adapter that somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// All that have not ended.
    All,
    /// Those that have carried bytes, have come or have ended since the last request of this kind, and those
    /// with bytes that are not acknowledged. Idle connections take no part, however many there are. One that
    /// has ended is told of once.
    News,
    /// That with this number, if it has not ended.
    One(u32),
}

/// A connection at an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectionStatus {
    /// Its number.
    pub id: u32,
    /// Bytes from the program since it came.
    pub sent: u64,
    /// Bytes for the program since it came.
    pub received: u64,
    /// Retransmission time-outs in sequence without an acknowledgement.
    pub timeouts: u8,
    /// The program's end, or the peer's, or an error has ended it. TCP may still have bytes to
    /// send.
    pub ended: bool,
    /// The descriptor of its socket in the agent, as long as it has not ended.
    pub descriptor: Option<i32>,
    /// TCP_INFO, as long as it has not ended.
    pub tcp: Option<TcpReport>,
}

/// The TCP connections over the ports of a lab that have a TCP offload engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToeReport {
    /// The lab.
    pub lab: String,
    /// The connections of the system under test, those at the adapter first.
    pub connections: Vec<ToeConnection>,
    /// Moves of connections, of all ports together: `down` to the adapter, `up.REASON` back to the host.
    pub moves: BTreeMap<String, u64>,
    /// Connections that were to move and stayed, by the reason: at the host, or, as `adapter-REASON`, at
    /// the adapter.
    pub stayed: BTreeMap<String, u64>,
}

/// Where the state of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionPlace {
    /// In the TCP of the adapter.
    Adapter,
    /// In the TCP of the host.
    Host,
}

/// One TCP connection of the system under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToeConnection {
    /// Where it is.
    pub at: ConnectionPlace,
    /// Its port.
    pub port: String,
    /// Address and port of this end.
    pub own: SocketAddr,
    /// Address and port of the peer.
    pub far: SocketAddr,
    /// The process that has it, as far as it can be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The name of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its first descriptor there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<i32>,
    /// Bytes sent there; at the host those that the peer has acknowledged.
    pub sent: u64,
    /// Bytes received there.
    pub received: u64,
    /// Time since it moved, ms; absent of one that has not moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// How often it has moved.
    pub moves: u32,
    /// Its program or its peer has ended it; TCP may still have bytes to send.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// TCP_INFO of the end that has the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpReport>,
}

/// All virtual adapters of a lab at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdapterReport {
    /// The lab.
    pub lab: String,
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// The model of the adapters, at the lab's scale.
    pub model: Model,
    /// Nanoseconds each adapter's bus was busy; empty where it has no limit.
    pub buses_busy_ns: Vec<u64>,
    /// CPU time of the driver threads, one for each CPU of the system under test.
    pub drivers: Vec<ThreadTime>,
    /// CPU time of the device threads, one for each adapter CPU. They also serve the ports of
    /// clients.
    pub devices: Vec<ThreadTime>,
    /// The ports of the system under test, and then those of its clients.
    pub ports: Vec<PortReport>,
    /// The aggregates of the system under test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<AggregateReport>,
}

impl AdapterReport {
    /// The aggregate of that name.
    pub fn aggregate(&self, name: &str) -> Option<&AggregateReport> {
        self.aggregates.iter().find(|aggregate| aggregate.name == name)
    }

    /// The port of that name.
    pub fn port(&self, name: &str) -> Option<&PortReport> {
        self.ports.iter().find(|port| port.name == name)
    }
}

/// One port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortReport {
    /// Its name: that of the interface in the system under test (`eth0`), or that of the client
    /// (`client-0`).
    pub name: String,
    /// The adapter of the system under test that it belongs to; absent for a client's.
    pub adapter: Option<u32>,
    /// `cable` or `switch`.
    #[serde(rename = "wire")]
    pub fabric: String,
    /// The other ports on its segment.
    pub reaches: Vec<String>,
    /// Whether its link is up.
    pub link_up: bool,
    /// Bits per second of its link; absent where frames take no time.
    pub link_rate: Option<BitRate>,
    /// The file that its packets are captured to; behind it the reason, where writing has failed.
    pub capture: Option<String>,
    /// Faults of its segment that are on, as they are written.
    pub faults: BTreeMap<String, String>,
    /// VLANs of the switch's port that it leads to, as they are written; empty where it is a member
    /// of all, or on a cable.
    pub vlans: BTreeMap<String, String>,
    /// The connections of an ATM port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionReport>,
    /// The client of an emulated LAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneReport>,
    /// The client of an ATMARP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atmarp: Option<AtmArpReport>,
    /// The knobs as read back; without those of the kernel where the kernel was not asked.
    pub knobs: InterfaceKnobs,
    /// Counters by name, as in
    /// [`PortEvidence::counters`](crate::measurement::PortEvidence::counters).
    pub counters: BTreeMap<String, u64>,
}

/// A connection of an ATM port, with the addresses of its other end: those of a permanent one were told
/// (InATMARP), those of a call are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// Virtual path identifier on the port's link.
    pub vpi: u8,
    /// Virtual channel identifier on the port's link.
    pub vci: u16,
    /// The use of a call, such as `data direct`; absent of permanent connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The IP address of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// The ATM address of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atm_address: Option<String>,
    /// Cells sent.
    pub tx_cells: u64,
    /// Cells received.
    pub rx_cells: u64,
    /// Units of AAL5 that it did not receive, by the name of their defect's counter; those of which there
    /// are none are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defects: BTreeMap<String, u64>,
}

/// The client of an ATMARP server (RFC 2225), and the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AtmArpReport {
    /// Why the client has no connection to the server; absent if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The addresses that the client knows.
    pub cache: Vec<AtmArpEntry>,
    /// The addresses that the server knows.
    pub server: Vec<AtmArpEntry>,
}

/// An address that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtmArpEntry {
    /// The IP address.
    pub address: Ipv4Addr,
    /// The ATM address of its end system.
    pub atm_address: String,
    /// Since it was learnt, or confirmed last.
    pub age_seconds: u64,
}

/// A client of an emulated LAN.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaneReport {
    /// How far it is: `operational` when it carries frames.
    pub state: String,
    /// Why it went back to its initial state last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fell_back: Option<String>,
    /// The name of its ELAN.
    pub elan: String,
    /// The largest data frame of the ELAN, bytes.
    pub size: u16,
    /// Its identifier; 0 before it has joined.
    pub lecid: u16,
    /// Its ATM address.
    pub atm_address: String,
    /// The stations that it knows or asks for (LE_ARP).
    pub cache: Vec<LaneStationReport>,
    /// It is the proxy of a bridge, with these stations behind it: their Ethernet addresses; absent of
    /// other clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Vec<String>>,
}

/// A station of an emulated LAN, as a client knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStationReport {
    /// Its Ethernet address.
    pub mac: String,
    /// The ATM address of its client; absent while it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atm_address: Option<String>,
    /// A bridge has told it.
    pub remote: bool,
    /// Frames take a data-direct connection, and not the BUS.
    pub direct: bool,
    /// Frames that wait.
    pub waiting: usize,
}

/// The result of a change of knobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingsReport {
    /// The port.
    pub port: String,
    /// The knobs that were named, each with its value as read back.
    pub settings: BTreeMap<String, String>,
    /// Those of them that the ports at the peer of the link got too.
    pub shared: Vec<String>,
    /// These ports.
    pub shared_with: Vec<String>,
}
