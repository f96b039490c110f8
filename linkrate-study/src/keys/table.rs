//! The table of keys.

use std::time::Duration;

use linkrate_model::backup::FileSizes;
use linkrate_model::event::MIN_PART;
use linkrate_model::knobs::{KNOBS, Knob, MAX_SOCKET_BUFFER, Merge};
use linkrate_model::workload::{MAX_BURST, MAX_MESSAGE, MAX_REQUEST_RATE, MAX_TRANSFER};
use linkrate_model::{Direction, Family, Fault, Protocol, ReceivePath, SendPath};

use super::Field::{Always, Optional, Through};
use super::{Key, MAX_DATAGRAM, Things, Values};
use crate::bounds::MAX_CLIENTS;

/// The moments that an event may have: those of the longest measurement.
const MOMENTS: (Duration, Duration) = (MIN_PART, Duration::from_secs(3600));

/// The largest loss, in millionths: beyond it a run may not even begin.
const MAX_LOSS: u32 = 500_000;

/// Every key: the workload, the knobs of the interface, the sockets. A new setting is a field of its type and a row here,
/// from which come its option, its checks, its condition of comparisons, its words in reports and its line of the manual.
pub const KEYS: &[Key] = &ALL;

const ALL: [Key; WORKLOAD.len() + KNOBS.len() + SOCKETS.len()] = {
    let mut all = [WORKLOAD[0]; WORKLOAD.len() + KNOBS.len() + SOCKETS.len()];
    let mut at = 0;
    while at < WORKLOAD.len() {
        all[at] = WORKLOAD[at];
        at += 1;
    }
    while at < WORKLOAD.len() + KNOBS.len() {
        all[at] = of_knob(&KNOBS[at - WORKLOAD.len()]);
        at += 1;
    }
    while at < all.len() {
        all[at] = SOCKETS[at - WORKLOAD.len() - KNOBS.len()];
        at += 1;
    }
    all
};

const fn of_knob(knob: &'static Knob) -> Key {
    let (base, things) = match knob.key.as_bytes() {
        // reassembly is of TCP segments
        b"lro" => (TCP, Things::Titled),
        b"txqueuelen" => {
            (KEY, Things::Counted("packet of transmit queue", "packets of transmit queue"))
        }
        b"queues" => (KEY, Things::Counted("queue", "queues")),
        b"aggregate" => (KEY, Things::Counted("port in the aggregate", "ports in the aggregate")),
        _ => (KEY, Things::Titled),
    };
    let values = Values::Knob(knob);
    Key { name: knob.key, help: knob.help, values, title: Some(knob.name), things, ..base }
}

/// What a row leaves out: every kind of workload uses the key, and all workloads of a mix have the
/// same.
const KEY: Key = Key {
    name: "",
    help: "",
    values: Values::Word(&[]),
    used_by: |_| true,
    remedy: "",
    of_one_workload: false,
    title: None,
    things: Things::Titled,
};

/// A key that each workload of a mix may have of its own.
const OWN: Key = Key { of_one_workload: true, ..KEY };

const STREAMS: Key = Key { used_by: |kind| !kind.is_transactional(), ..OWN };
const TRANSACTIONS: Key = Key { used_by: Protocol::is_transactional, ..OWN };
const BACKUP: Key = Key { used_by: |kind| kind == Protocol::Backup, ..OWN };
const REQUESTS: Key = Key {
    used_by: |kind| matches!(kind, Protocol::RequestResponse | Protocol::UdpRequestResponse),
    ..OWN
};
const BULK: Key = Key {
    used_by: |kind| matches!(kind, Protocol::Stream | Protocol::Transfer),
    remedy: "it needs kind stream or transfer",
    ..OWN
};
const DATAGRAMS: Key =
    Key { used_by: |kind| kind == Protocol::UdpStream, remedy: "it needs kind udp-stream", ..OWN };
const FAILURES: Key = Key { used_by: |kind| kind == Protocol::Stream, ..KEY };
const TCP: Key = Key { used_by: |kind| !kind.is_udp(), ..KEY };

/// Keys of the workload, and of the hosts that take part.
const WORKLOAD: &[Key] = &[
    Key {
        name: "kind",
        help: "Traffic type; the first five are netperf's TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM \
               and UDP_RR",
        values: Values::Word(&[
            ("stream", |s| s.workload.kind = Protocol::Stream),
            ("request-response", |s| s.workload.kind = Protocol::RequestResponse),
            ("connect-request-response", |s| s.workload.kind = Protocol::ConnectRequestResponse),
            ("udp-stream", |s| s.workload.kind = Protocol::UdpStream),
            ("udp-request-response", |s| s.workload.kind = Protocol::UdpRequestResponse),
            ("transfer", |s| s.workload.kind = Protocol::Transfer),
            ("backup", |s| s.workload.kind = Protocol::Backup),
        ]),
        ..OWN
    },
    Key {
        name: "direction",
        help: "Direction of streams and transfers, seen from the system under test",
        values: Values::Word(&[
            ("transmit", |s| s.workload.direction = Direction::Transmit),
            ("receive", |s| s.workload.direction = Direction::Receive),
            ("bidirectional", |s| s.workload.direction = Direction::Bidirectional),
        ]),
        used_by: |kind| !kind.is_transactional() && kind != Protocol::Backup,
        remedy: "transactions always go from client to SUT and back, so leave direction out",
        ..OWN
    },
    Key {
        name: "connections",
        help: "Connections per client; with direction bidirectional, per client and direction",
        values: Values::Count((1, 1024), Always(|s| &mut s.workload.connections)),
        things: Things::Counted("connection", "connections"),
        ..KEY
    },
    Key {
        name: "clients",
        help: "Clients with traffic; veth only",
        values: Values::Count((1, MAX_CLIENTS), Always(|s| &mut s.clients)),
        things: Things::Counted("client", "clients"),
        ..KEY
    },
    Key {
        name: "ports",
        help: "Ports or real interfaces with traffic, counted from the first",
        values: Values::Count((1, 16), Optional(None, |s| &mut s.ports)),
        things: Things::Counted("port", "ports"),
        ..KEY
    },
    Key {
        name: "adapter",
        help: "Adapter model of a cell, instead of the one in [testbed]",
        values: Values::Model(|s| &mut s.adapter),
        ..KEY
    },
    Key {
        name: "merge",
        help: "What merges received segments: nothing, the kernel (gro) or the adapter (lro)",
        values: Values::Word(&[
            ("none", |s| s.merge(Merge::None)),
            ("gro", |s| s.merge(Merge::Gro)),
            ("lro", |s| s.merge(Merge::Lro)),
        ]),
        title: Some("merging of received segments"),
        ..TCP
    },
    Key {
        name: "message",
        help: "Bytes per send() call of streams, transfers and backups, or payload of a datagram",
        values: Values::Message((1, MAX_MESSAGE), |s| &mut s.workload.message),
        title: Some("message size"),
        things: Things::Sized("messages"),
        ..STREAMS
    },
    Key {
        name: "request",
        help: "Bytes of a request",
        values: Values::Message((1, MAX_MESSAGE), |s| &mut s.workload.request),
        title: Some("request size"),
        things: Things::Sized("requests"),
        ..TRANSACTIONS
    },
    Key {
        name: "response",
        help: "Bytes of a response",
        values: Values::Message((1, MAX_MESSAGE), |s| &mut s.workload.response),
        title: Some("response size"),
        things: Things::Sized("responses"),
        ..TRANSACTIONS
    },
    Key {
        name: "transfer",
        help: "Size of one transfer; complete when the receiver acknowledges it",
        values: Values::Size((1, MAX_TRANSFER), Always(|s| &mut s.workload.transfer)),
        used_by: |kind| kind == Protocol::Transfer,
        title: Some("transfer size"),
        things: Things::Sized("transfers"),
        ..OWN
    },
    Key {
        name: "files",
        help: "File size of a backup; mixed: from 8 KiB to 128 MiB, equally many of each",
        values: Values::Size(
            (1, 1 << 30),
            Through(
                "mixed",
                |s| match s.workload.backup.files {
                    FileSizes::One(size) => Some(size),
                    FileSizes::Mixed => None,
                },
                |s, size| {
                    s.workload.backup.files = size.map_or(FileSizes::Mixed, FileSizes::One);
                },
            ),
        ),
        title: Some("file size"),
        things: Things::Sized("files"),
        ..BACKUP
    },
    Key {
        name: "tree",
        help: "Bytes of files per client; at least one file",
        values: Values::Size((1, 1 << 32), Always(|s| &mut s.workload.backup.tree)),
        title: Some("bytes of files"),
        ..BACKUP
    },
    Key {
        name: "directory",
        help: "Directory for the clients' backup files",
        values: Values::Directory(|s| &mut s.workload.backup.directory),
        ..BACKUP
    },
    Key {
        name: "cache",
        help: "Whether files are read from the page cache (warm) or from disk (cold)",
        values: Values::Word(&[
            ("warm", |s| s.workload.backup.cold = false),
            ("cold", |s| s.workload.backup.cold = true),
        ]),
        title: Some("page cache"),
        ..BACKUP
    },
    Key {
        name: "drives",
        help: "Tape drives, shared by the clients",
        values: Values::Count((1, 64), Always(|s| &mut s.workload.backup.drives)),
        things: Things::Counted("tape drive", "tape drives"),
        ..BACKUP
    },
    Key {
        name: "drive-rate",
        help: "Bytes per second of a tape drive",
        values: Values::Size((1 << 10, 1 << 40), Always(|s| &mut s.workload.backup.drive_rate)),
        title: Some("rate of a drive"),
        ..BACKUP
    },
    Key {
        name: "burst",
        help: "Outstanding requests per connection",
        values: Values::Count((1, MAX_BURST), Always(|s| &mut s.workload.burst)),
        remedy: "only request-response and udp-request-response keep several requests outstanding",
        title: Some("requests outstanding"),
        things: Things::Counted("request outstanding", "requests outstanding"),
        ..REQUESTS
    },
    Key {
        name: "request-rate",
        help: "Requests per second and connection, whatever is outstanding (open loop); off is a \
               closed loop",
        values: Values::Rate(
            (1, MAX_REQUEST_RATE),
            Optional(Some("off"), |s| &mut s.workload.request_rate_per_s),
        ),
        remedy: "only request-response and udp-request-response begin requests at a rate",
        title: Some("requests a second"),
        things: Things::Counted("request a second", "requests a second"),
        ..REQUESTS
    },
    Key {
        name: "send-path",
        help: "How payload enters the socket: send(), MSG_ZEROCOPY, sendfile() or splice()",
        values: Values::Word(&[
            ("plain", |s| s.workload.send_path = SendPath::Plain),
            ("msg-zerocopy", |s| s.workload.send_path = SendPath::MsgZerocopy),
            ("sendfile", |s| s.workload.send_path = SendPath::Sendfile),
            ("splice", |s| s.workload.send_path = SendPath::Splice),
        ]),
        remedy: "paths other than plain need kind stream or transfer",
        title: Some("send path"),
        ..BULK
    },
    Key {
        name: "receive-path",
        help: "How payload leaves the socket: recv(), or discarded in the kernel (MSG_TRUNC)",
        values: Values::Word(&[
            ("plain", |s| s.workload.receive_path = ReceivePath::Plain),
            ("truncate", |s| s.workload.receive_path = ReceivePath::Truncate),
        ]),
        remedy: "MSG_TRUNC discards payload on TCP only, so use kind stream or transfer, or plain",
        title: Some("receive path"),
        ..BULK
    },
    Key {
        name: "working-set",
        help: "Size of the send and receive buffer rings; auto as in netperf: two messages or \
               more, and 256 KiB",
        values: Values::Size(
            (4096, 1 << 30),
            Optional(Some("auto"), |s| &mut s.workload.working_set),
        ),
        title: Some("working set"),
        ..BULK
    },
    Key {
        name: "receive-batching",
        help: "Clients batch receives (10 \u{b5}s sleep under load)",
        values: Values::Switch(|s| &mut s.workload.receive_batching),
        title: Some("receive batching at clients"),
        ..BULK
    },
    Key {
        name: "udp-segment",
        help: "UDP_SEGMENT: payload of the datagrams into which the kernel segments a message",
        values: Values::Size(
            (1, MAX_DATAGRAM),
            Optional(Some("off"), |s| &mut s.workload.udp_segment),
        ),
        title: Some("UDP_SEGMENT"),
        ..DATAGRAMS
    },
    Key {
        name: "udp-gro",
        help: "UDP_GRO: receive coalesced datagrams",
        values: Values::Switch(|s| &mut s.workload.udp_gro),
        title: Some("UDP GRO"),
        ..DATAGRAMS
    },
    Key {
        name: "cpu-binding",
        help: "Bind each flow to the CPU that handles its interface's interrupts (netperf -T); \
               needs at least two SUT CPUs",
        values: Values::Switch(|s| &mut s.workload.cpu_binding),
        // one thread there serves a connection of any client
        used_by: |kind| kind != Protocol::ConnectRequestResponse,
        remedy: "a thread of connect-request-response serves all clients",
        title: Some("CPU binding"),
        ..KEY
    },
    Key {
        name: "load",
        help: "In a mix: streams next to transactions (loaded), or transactions alone (idle)",
        values: Values::Word(&[("loaded", |s| s.idle = false), ("idle", |s| s.idle = true)]),
        ..KEY
    },
    Key {
        name: "loss",
        help: "Share of frames or ATM cells that links lose, both ways",
        values: Values::Share((0, MAX_LOSS), |s| &mut s.loss_ppm),
        ..KEY
    },
    Key {
        name: "event",
        help: "What fails during the run: the link, silently or not, a switch, or a port is \
               removed",
        values: Values::Word(&[
            ("none", |s| s.event.fault = None),
            ("carrier", |s| s.event.fault = Some(Fault::Carrier)),
            ("silent", |s| s.event.fault = Some(Fault::Silent)),
            ("silent-transmit", |s| s.event.fault = Some(Fault::SilentTransmit)),
            ("silent-receive", |s| s.event.fault = Some(Fault::SilentReceive)),
            ("switch", |s| s.event.fault = Some(Fault::Switch)),
            ("removed", |s| s.event.fault = Some(Fault::Removed)),
        ]),
        ..FAILURES
    },
    Key {
        name: "event-at",
        help: "When it fails, from the start of the measurement interval; default: after 25 %",
        values: Values::Time(MOMENTS, Optional(None, |s| &mut s.event.at)),
        ..FAILURES
    },
    Key {
        name: "event-recover",
        help: "When it recovers, from the start of the measurement interval",
        values: Values::Time(MOMENTS, Optional(Some("never"), |s| &mut s.event.recover)),
        ..FAILURES
    },
];

/// Keys of the test sockets, and the name that changes nothing.
const SOCKETS: &[Key] = &[
    Key {
        name: "socket",
        help: "SO_SNDBUF and SO_RCVBUF; auto: kernel autotuning",
        values: Values::Size(
            (4096, MAX_SOCKET_BUFFER),
            Optional(Some("auto"), |s| &mut s.socket.buffer),
        ),
        title: Some("socket buffer"),
        ..KEY
    },
    Key {
        name: "congestion",
        help: "Congestion control",
        values: Values::Congestion(|s| &mut s.socket.congestion),
        title: Some("congestion control"),
        ..TCP
    },
    Key {
        name: "nodelay",
        help: "TCP_NODELAY: send small segments at once",
        values: Values::Switch(|s| &mut s.socket.nodelay),
        remedy: "it is an option of TCP sockets",
        title: Some("TCP_NODELAY"),
        ..TCP
    },
    Key {
        name: "family",
        help: "Address family",
        values: Values::Word(&[
            ("ipv4", |s| s.socket.family = Family::Ipv4),
            ("ipv6", |s| s.socket.family = Family::Ipv6),
        ]),
        title: Some("address family"),
        ..KEY
    },
    Key {
        name: "repeat",
        help: "Factor that changes nothing: its levels differ in name only",
        values: Values::Label(|s| &mut s.repeat),
        ..KEY
    },
];
