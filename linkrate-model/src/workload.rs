//! What traffic flows: the words of netperf and iperf3 as types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backup::Backup;
use crate::units::ByteSize;

/// Which way the payload of a stream flows, seen from the system under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The system under test sends.
    #[default]
    Transmit,
    /// The system under test receives.
    Receive,
    /// Both at once, on separate connections, as a TCP_STREAM beside a TCP_MAERTS.
    Bidirectional,
}

/// The shape of the exchange; netperf's test name in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP bulk data (TCP_STREAM, TCP_MAERTS).
    #[default]
    Stream,
    /// TCP transactions on connections that stay open (TCP_RR).
    RequestResponse,
    /// A TCP connection per transaction (TCP_CRR).
    ConnectRequestResponse,
    /// UDP datagrams one way (UDP_STREAM).
    UdpStream,
    /// UDP transactions (UDP_RR).
    UdpRequestResponse,
    /// TCP transfers on connections that stay open: a file's worth of bytes, then the word of the
    /// peer that it arrived, then the next (the high performance script of Chariot).
    Transfer,
    /// Trees of files that all clients send at once to one sink on the system under test, which takes no
    /// more than its tape drives do.
    Backup,
}

/// What makes a request, or a transfer, begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// The response to an earlier one: a peer that stalls stops the requests, so that few see it.
    Closed,
    /// The clock: latency counts from the time that it was due.
    Open,
}

/// What a workload completes one by one, each with a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// A request and its response; the unit of the workload's figures.
    Transaction,
    /// A file's worth of bytes and the word that they arrived.
    Transfer,
    /// A file of a backup and the word that it arrived.
    File,
}

impl Protocol {
    /// What it completes one by one; `None` for streams, which have no end.
    pub fn item(self) -> Option<Item> {
        match self {
            Self::RequestResponse | Self::ConnectRequestResponse | Self::UdpRequestResponse => {
                Some(Item::Transaction)
            }
            Self::Transfer => Some(Item::Transfer),
            Self::Backup => Some(Item::File),
            Self::Stream | Self::UdpStream => None,
        }
    }

    /// Whether the unit of work is a transaction, so that latency is measured.
    pub fn is_transactional(self) -> bool {
        self.item() == Some(Item::Transaction)
    }

    /// Whether it is bulk data over TCP, in messages of any size.
    pub fn is_tcp_bulk(self) -> bool {
        matches!(self, Self::Stream | Self::Transfer | Self::Backup)
    }

    /// Whether it is carried in UDP datagrams.
    pub fn is_udp(self) -> bool {
        matches!(self, Self::UdpStream | Self::UdpRequestResponse)
    }
}

/// How payload gets from the process into the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendPath {
    /// `send(2)`: the kernel copies.
    Plain,
    /// `send(2)` with MSG_ZEROCOPY: pages are pinned and completion is notified.
    MsgZerocopy,
    /// `sendfile(2)` from a file in memory.
    Sendfile,
    /// `tee(2)` from a pipe that keeps the pages, `splice(2)` to the socket.
    Splice,
}

/// How payload gets from the socket to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceivePath {
    /// `recv(2)`: the kernel copies.
    Plain,
    /// `recv(2)` with MSG_TRUNC: TCP payload is discarded in the kernel without a copy, tcp(7).
    Truncate,
}

/// The size of one message, request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageSize {
    /// Always the same.
    Fixed(ByteSize),
    /// Drawn again for each message, every whole byte count from `low` to `high` equally likely.
    Uniform {
        /// Smallest size.
        low: ByteSize,
        /// Largest size.
        high: ByteSize,
    },
}

impl MessageSize {
    /// Sizes with a name: word, name in prose, size. They are the buffer sizes of the scripts in HP's
    /// "Performance Brief for TCP/IP Offload Engine with the NC370T", May 2006, appendix A.
    pub const NAMED: [(&str, &str, Self); 3] = [
        ("sm-mix", "SmMix", Self::Uniform { low: ByteSize(128), high: ByteSize(4 << 10) }),
        ("med-mix", "MedMix", Self::Uniform { low: ByteSize(4 << 10), high: ByteSize(32 << 10) }),
        ("hi-perf", "HiPerf", Self::Fixed(ByteSize(64 << 10))),
    ];

    /// The size of that name in [`NAMED`](Self::NAMED).
    pub fn named(word: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(name, ..)| *name == word).map(|(.., size)| size)
    }

    /// The largest size that can be drawn.
    pub fn largest(self) -> ByteSize {
        match self {
            Self::Fixed(size) => size,
            Self::Uniform { high, .. } => high,
        }
    }

    /// The smallest size that can be drawn.
    pub fn smallest(self) -> ByteSize {
        match self {
            Self::Fixed(size) => size,
            Self::Uniform { low, .. } => low,
        }
    }
}

impl std::fmt::Display for MessageSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Uniform { low, high } => write!(f, "{low} to {high}"),
        }
    }
}

/// One workload between the system under test and its clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Workload {
    /// The shape of the exchange.
    pub kind: Protocol,
    /// Which way stream payload flows. Transactions always go from client to SUT and back.
    pub direction: Direction,
    /// Connections per client; for bidirectional streams, per client and direction.
    pub connections: u32,
    /// Bytes handed to the kernel in one call of a stream or a transfer, or the payload of one datagram.
    pub message: MessageSize,
    /// Bytes of one request.
    pub request: MessageSize,
    /// Bytes of one response.
    pub response: MessageSize,
    /// Bytes of one transfer, a file's worth. Its last message is as short as it must be.
    #[serde(default = "transfer", skip_serializing_if = "is_default_transfer")]
    pub transfer: ByteSize,
    /// Requests outstanding per connection, in a closed loop.
    pub burst: u32,
    /// Requests that begin on each connection in a second, whatever is outstanding (an open loop); `None` is a closed
    /// loop, in which a request begins when a response has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate_per_s: Option<u32>,
    /// How payload enters the socket.
    pub send_path: SendPath,
    /// How payload leaves the socket.
    pub receive_path: ReceivePath,
    /// UDP_SEGMENT: the message is cut by the kernel into datagrams of this many payload bytes.
    pub udp_segment: Option<ByteSize>,
    /// UDP_GRO: the receiver takes coalesced datagrams.
    pub udp_gro: bool,
    /// Memory of each end of a flow that plain payload is sent from, or received into; `None` is as
    /// netperf has it ([`sent_from`](Self::sent_from), [`received_into`](Self::received_into)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<ByteSize>,
    /// Receivers of bulk data at clients sleep shortly while much data arrives, so that it gathers.
    #[serde(default, skip_serializing_if = "is_false")]
    pub receive_batching: bool,
    /// Each flow of the system under test is bound to the CPU that takes the interrupts of its interface.
    /// Otherwise the scheduler chooses among the CPUs of the host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cpu_binding: bool,
    /// What a backup reads, and how fast it is taken.
    #[serde(default, skip_serializing_if = "Backup::is_default")]
    pub backup: Backup,
    /// The workloads that run at once; empty for one workload. The other fields then stand for all
    /// ([`of_mix`](Self::of_mix)), with the connections of a client altogether.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<MixPart>,
}

/// So few bytes that a measurement of seconds has hundreds of transfers, as percentiles of the response
/// time need.
const TRANSFER: ByteSize = ByteSize(1 << 20);

fn is_false(switch: &bool) -> bool {
    !switch
}

fn transfer() -> ByteSize {
    TRANSFER
}

fn is_default_transfer(size: &ByteSize) -> bool {
    *size == TRANSFER
}

/// Send buffer of a new TCP socket, bytes: the second value of `net.ipv4.tcp_wmem`, tcp(7).
const SEND_BUFFER: u64 = 16 << 10;

/// Receive buffer of a new TCP socket, bytes: the second value of `net.ipv4.tcp_rmem`.
const RECEIVE_BUFFER: u64 = 128 << 10;

/// Largest message, request or response, bytes.
pub const MAX_MESSAGE: u64 = 64 << 20;

/// Largest transfer, bytes.
pub const MAX_TRANSFER: u64 = 1 << 40;

/// Most requests outstanding on a connection.
pub const MAX_BURST: u32 = 4096;

/// The highest rate of an open loop on one connection, requests a second: less than a thread can send.
pub const MAX_REQUEST_RATE: u32 = 100_000;

/// Most flows of one run. Each is a thread at both ends.
pub const MAX_FLOWS: u64 = 4096;

/// Most bytes that all flows of a run may need for their largest messages, at one end.
pub const MAX_PAYLOAD_MEMORY: u64 = 4 << 30;

impl Workload {
    /// What it completes one by one; `None` for streams, and for a mix of several such things.
    pub fn item(&self) -> Option<Item> {
        let own = self.kind.item();
        self.mix.iter().all(|part| part.workload.kind.item() == own).then_some(own)?
    }

    /// What of it takes a time of its own: of a mix the one thing that some of its workloads complete, beside streams;
    /// `None` for streams, and for a mix of several such things.
    pub fn timed_item(&self) -> Option<Item> {
        if self.mix.is_empty() {
            return self.kind.item();
        }
        let mut items = self.mix.iter().filter_map(|part| part.workload.kind.item());
        let first = items.next()?;
        items.all(|other| other == first).then_some(first)
    }

    /// What makes its items begin; `None` for streams, for files of a backup, which wait for no answer, and for a mix
    /// of both loops.
    pub fn loop_of_items(&self) -> Option<Loop> {
        if !self.mix.is_empty() {
            let mut loops = self.mix.iter().filter_map(|part| part.workload.loop_of_items());
            let first = loops.next()?;
            return loops.all(|other| other == first).then_some(first);
        }
        match self.kind.item()? {
            Item::Transaction if self.request_rate_per_s.is_some() => Some(Loop::Open),
            Item::Transaction | Item::Transfer => Some(Loop::Closed),
            Item::File => None,
        }
    }

    /// Sets what follows from the kind: files of a backup go to the system under test.
    pub fn settle(&mut self) {
        if self.kind == Protocol::Backup {
            self.direction = Direction::Receive;
        }
    }

    /// The same with what follows from the kind.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.settle();
        self
    }

    /// Flows of a run with that many clients: bidirectional streams have one each way.
    pub fn flows(&self, clients: u32) -> u64 {
        let ways = match (self.kind.is_transactional(), self.direction) {
            (false, Direction::Bidirectional) => 2,
            _ => 1,
        };
        u64::from(self.connections).saturating_mul(u64::from(clients)).saturating_mul(ways)
    }

    /// Requests that are in flight at once in a closed loop with that many clients; `None` in an open one.
    pub fn requests_in_flight(&self, clients: u32) -> Option<u64> {
        let of_one = |workload: &Self| match workload.loop_of_items() {
            Some(Loop::Closed) => {
                Some(workload.flows(clients).saturating_mul(workload.burst.into()))
            }
            _ => None,
        };
        if self.mix.is_empty() {
            return of_one(self);
        }
        self.mix.iter().filter_map(|part| of_one(&part.workload)).reduce(u64::saturating_add)
    }

    /// Bytes of the ring of buffers that a flow sends plain payload from: as many messages as a send
    /// buffer of 16 KiB has room for, and one more, at least two. So does netperf (`-W`) at the send
    /// buffer that Linux gives a new socket.
    pub fn sent_from(&self) -> u64 {
        let message = self.message.largest().0.max(1);
        let buffers = (SEND_BUFFER / message).saturating_add(1).max(2);
        self.working_set.map_or(message.saturating_mul(buffers), |size| size.0)
    }

    /// Bytes of the ring of buffers that a flow receives plain payload into: twice the receive buffer
    /// that Linux gives a new socket, as netperf has it.
    pub fn received_into(&self) -> u64 {
        self.working_set.map_or(2 * RECEIVE_BUFFER, |size| size.0)
    }

    /// Bytes that the flows of a run need for their largest messages, at one end.
    pub fn payload_memory(&self, clients: u32) -> u64 {
        if self.kind == Protocol::Backup {
            let trees = self.backup.extent().1.saturating_mul(clients.into());
            return trees
                .saturating_add(self.flows(clients).saturating_mul(self.message.largest().0));
        }
        let each = if self.kind.is_tcp_bulk() {
            let sender = match self.send_path {
                SendPath::Plain => self.sent_from(),
                // the pages of one message
                _ => self.message.largest().0,
            };
            let receiver = match self.receive_path {
                ReceivePath::Plain => self.received_into(),
                ReceivePath::Truncate => 0,
            };
            sender.max(receiver)
        } else if self.kind.is_transactional() {
            self.request.largest().0.saturating_add(self.response.largest().0)
        } else {
            self.message.largest().0
        };
        self.flows(clients).saturating_mul(each)
    }
}

impl Default for Workload {
    fn default() -> Self {
        let one_byte = MessageSize::Fixed(ByteSize(1));
        Self {
            kind: Protocol::Stream,
            direction: Direction::Transmit,
            connections: 1,
            message: MessageSize::Fixed(ByteSize(128 * 1024)),
            request: one_byte,
            response: one_byte,
            transfer: TRANSFER,
            burst: 1,
            request_rate_per_s: None,
            send_path: SendPath::Plain,
            receive_path: ReceivePath::Plain,
            udp_segment: None,
            udp_gro: false,
            working_set: None,
            receive_batching: false,
            cpu_binding: false,
            backup: Backup::default(),
            mix: Vec::new(),
        }
    }
}

/// One workload of a mix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MixPart {
    /// Its name in results.
    pub name: String,
    /// Its share of the connections, beside those of the others.
    pub share: u32,
    /// What its flows do. The number of connections is that of the whole mix.
    pub workload: Workload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_lies_in_rings_as_large_as_those_of_netperf() {
        let of = |message| Workload {
            message: MessageSize::Fixed(ByteSize(message)),
            ..Workload::default()
        };
        let rings = |workload: &Workload| (workload.sent_from(), workload.received_into());
        let received_into = 256 << 10;
        assert_eq!(rings(&of(64 << 10)), (128 << 10, received_into));
        assert_eq!(rings(&of(16 << 10)), (32 << 10, received_into));
        assert_eq!(rings(&of(4 << 10)), (20 << 10, received_into));
        assert_eq!(rings(&of(1)), ((16 << 10) + 1, received_into));
        let asked = Workload { working_set: Some(ByteSize(4 << 20)), ..of(64 << 10) };
        assert_eq!(rings(&asked), (4 << 20, 4 << 20));
    }
}
