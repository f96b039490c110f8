//! Messages about connections that move between a host and a TCP offload engine.
//!
//! States and descriptors do not travel in messages: an agent names the numbers of its open files, and
//! the other agent takes them from its process.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use linkrate_model::lab::{Asked, ConnectionStatus, TcpReport};
use serde::{Deserialize, Serialize};

/// A file that another agent of this machine has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileOf {
    pub pid: u32,
    pub descriptor: i32,
}

/// A request about connections that move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToeRequest {
    /// To a host: list the TCP connections of the flows.
    Connections,
    /// To a host: open a second connection to this agent, for requests of this kind alone. They are then
    /// answered while it measures.
    Channel,
    /// To a host: the connection of a flow is to move soon. Its socket takes little from the program from
    /// now on that it cannot send at once.
    Prepare { flow: u32 },
    /// To a host: take the connection of a flow out of its socket. The flow continues at its end of a
    /// stream pair; what it sends waits there for the adapter.
    Offload { flow: u32 },
    /// To a host: the adapter has the connection of a flow.
    Taken { flow: u32 },
    /// To a host: make a flow stand still, whose connection is at the adapter.
    Halt { flow: u32 },
    /// To a host: put a connection back into its socket, and let the flow continue.
    Reclaim {
        /// The number of the flow, which was halted.
        flow: u32,
        /// The state; `None` for that of `offload`, which was not taken.
        state: Option<FileOf>,
        /// Sequence range of the revoked packets' payload. The saved TCP state counts these bytes as sent.
        unsent: Option<Range<u32>>,
    },
    /// To a host: a flow that was halted continues at the adapter.
    Resume { flow: u32 },
    /// To an adapter: an interface has this neighbour, without asking for it.
    Neighbour { name: String, address: IpAddr, hardware_address: [u8; 6] },
    /// Leave a round trip time between two addresses behind, for the first time-outs of connections that are
    /// restored. Nothing was sent to the peer yet.
    RoundTrip {
        /// The address of this end.
        own: IpAddr,
        /// That of the peer.
        far: IpAddr,
    },
    /// To an adapter: take a connection.
    Import {
        /// Its number here.
        id: u32,
        state: FileOf,
        /// The adapter's end of the stream pair.
        pair: FileOf,
        /// Sequence range of the revoked packets' payload. The saved TCP state counts these bytes as sent.
        unsent: Option<Range<u32>>,
    },
    /// To an adapter: give a connection back.
    Export { id: u32 },
    /// To an adapter: close all connections.
    Forget,
    /// To an adapter: make a stream pair and an empty file for the state of a connection, whose owner
    /// has no agent. The controller takes both from the adapter's agent.
    Open,
    /// To an adapter: take the connection whose state is in the file that was opened last.
    ImportOpened { id: u32 },
    /// To an adapter: say how connections fare.
    Status(Asked),
    /// List the established TCP connections of all programs.
    HostConnections {
        /// And those that close.
        closing: bool,
    },
}

/// A reply to the [`ToeRequest`] of the same name, unless it tells another; `Done` to those without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToeReply {
    Done,
    Channel {
        /// The descriptor of the controller's end, a stream socket.
        descriptor: i32,
    },
    Connections(Vec<FlowConnection>),
    /// To [`ToeRequest::Prepare`].
    Prepared {
        /// Bytes that the socket has taken and not sent yet.
        unsent: u64,
    },
    /// To [`ToeRequest::Offload`].
    Offloaded {
        /// The descriptor of the state.
        state: i32,
        /// The descriptor of the adapter's end of the stream pair.
        pair: i32,
        /// SND.NXT: the host has sent all before this sequence number.
        send_next: u32,
        /// Time that the flow stood still, µs.
        stalled_us: u64,
    },
    Taken {
        /// CPU time of this host for the move, ns: that of the thread which carried out its requests.
        cpu_ns: u64,
    },
    /// To [`ToeRequest::Offload`] and [`ToeRequest::Export`]: the connection stays where it is.
    Stays(Stays),
    /// To [`ToeRequest::Export`].
    Exported {
        /// The descriptor of the state.
        state: i32,
    },
    /// To [`ToeRequest::Open`].
    Opened {
        /// The descriptor of the file for the state.
        state: i32,
        /// The descriptor of the program's end of the stream pair.
        pair: i32,
    },
    Status(Vec<ConnectionStatus>),
    HostConnections(Vec<HostConnection>),
}

/// A connection of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostConnection {
    /// Address and port of this end.
    pub own: SocketAddr,
    /// Address and port of the peer.
    pub far: SocketAddr,
    /// The inode of its socket.
    pub inode: u32,
    /// Bytes that the peer has acknowledged.
    pub sent: u64,
    pub received: u64,
    pub tcp: TcpReport,
}

/// Why a connection stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Stays {
    /// A word for counters.
    pub word: String,
    /// A sentence.
    pub reason: String,
}

/// The connection of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowConnection {
    pub flow: u32,
    /// Address and port of this end.
    pub own: SocketAddr,
    /// Address and port of the peer.
    pub far: SocketAddr,
    /// Bytes of both directions that the flow has carried.
    pub carried: u64,
    /// Time since the agent learned of it, ms.
    pub age_ms: u64,
}

impl ToeRequest {
    /// The flow whose connection it moves to the adapter, or prepares for that.
    pub fn offloads(&self) -> Option<u32> {
        match self {
            Self::Prepare { flow } | Self::Offload { flow } | Self::Taken { flow } => Some(*flow),
            _ => None,
        }
    }

    /// The names of interfaces in it.
    pub(super) fn interface(&self) -> Option<&str> {
        match self {
            Self::Neighbour { name, .. } => Some(name),
            _ => None,
        }
    }
}

impl ToeReply {
    /// Descriptors in it, which cannot be negative, and the number of flows that it names.
    pub(super) fn bounded(&self) -> (Vec<i32>, usize) {
        match self {
            Self::Done
            | Self::Stays(_)
            | Self::Prepared { .. }
            | Self::Taken { .. }
            | Self::HostConnections(_) => (Vec::new(), 0),
            Self::Channel { descriptor } => (vec![*descriptor], 0),
            Self::Connections(all) => {
                let flows: BTreeSet<u32> = all.iter().map(|connection| connection.flow).collect();
                (Vec::new(), flows.len().max(all.len()))
            }
            Self::Offloaded { state, pair, .. } => (vec![*state, *pair], 0),
            Self::Exported { state } => (vec![*state], 0),
            Self::Opened { state, pair } => (vec![*state, *pair], 0),
            Self::Status(all) => (all.iter().filter_map(|of| of.descriptor).collect(), 0),
        }
    }
}
