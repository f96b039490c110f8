//! The table of keys.

use std::time::Duration;

use linkrate_model::backup::FileSizes;
use linkrate_model::event::MIN_PART;
use linkrate_model::knobs::{KNOBS, Merge};
use linkrate_model::workload::MAX_REQUEST_RATE;
use linkrate_model::{Direction, Family, Fault, Protocol, ReceivePath, SendPath};

use super::{Key, MAX_DATAGRAM, Values};
use crate::bounds::MAX_CLIENTS;

/// One byte to 64 MiB.
const MESSAGE: (u64, u64) = (1, 64 << 20);

/// The moments that an event may have: those of the longest measurement.
const MOMENTS: (Duration, Duration) = (MIN_PART, Duration::from_secs(3600));

/// The largest loss, in millionths: beyond it a run may not even begin.
const MAX_LOSS: u32 = 500_000;

/// Every key: the workload, the knobs of the interface, the sockets.
pub const KEYS: &[Key] = &ALL;

const ALL: [Key; WORKLOAD.len() + KNOBS.len() + SOCKETS.len()] = {
    let mut all = [WORKLOAD[0]; WORKLOAD.len() + KNOBS.len() + SOCKETS.len()];
    let mut at = 0;
    while at < WORKLOAD.len() {
        all[at] = WORKLOAD[at];
        at += 1;
    }
    while at < WORKLOAD.len() + KNOBS.len() {
        let knob = &KNOBS[at - WORKLOAD.len()];
        all[at] = Key { name: knob.key, help: knob.help, values: Values::Knob(knob) };
        at += 1;
    }
    while at < all.len() {
        all[at] = SOCKETS[at - WORKLOAD.len() - KNOBS.len()];
        at += 1;
    }
    all
};

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
    },
    Key {
        name: "direction",
        help: "Direction of streams and transfers, seen from the system under test",
        values: Values::Word(&[
            ("transmit", |s| s.workload.direction = Direction::Transmit),
            ("receive", |s| s.workload.direction = Direction::Receive),
            ("bidirectional", |s| s.workload.direction = Direction::Bidirectional),
        ]),
    },
    Key {
        name: "connections",
        help: "Connections per client; with direction bidirectional, per client and direction",
        values: Values::Count { range: (1, 1024), set: |s, n| s.workload.connections = n },
    },
    Key {
        name: "clients",
        help: "Clients with traffic; veth only",
        values: Values::Count { range: (1, MAX_CLIENTS), set: |s, n| s.clients = n },
    },
    Key {
        name: "ports",
        help: "Ports or real interfaces with traffic, counted from the first",
        values: Values::Count { range: (1, 16), set: |s, n| s.ports = Some(n) },
    },
    Key {
        name: "adapter",
        help: "Adapter model of a cell, instead of the one in [testbed]",
        values: Values::Model(|s, name| s.adapter = Some(name)),
    },
    Key {
        name: "merge",
        help: "What merges received segments: nothing, the kernel (gro) or the adapter (lro)",
        values: Values::Word(&[
            ("none", |s| s.merge(Merge::None)),
            ("gro", |s| s.merge(Merge::Gro)),
            ("lro", |s| s.merge(Merge::Lro)),
        ]),
    },
    Key {
        name: "message",
        help: "Bytes per send() call of streams, transfers and backups, or payload of a datagram",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.message = size },
    },
    Key {
        name: "request",
        help: "Bytes of a request",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.request = size },
    },
    Key {
        name: "response",
        help: "Bytes of a response",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.response = size },
    },
    Key {
        name: "transfer",
        help: "Size of one transfer; complete when the receiver acknowledges it",
        values: Values::Size {
            range: (1, 1 << 40),
            absent: None,
            set: |s, size| s.workload.transfer = size.unwrap_or(s.workload.transfer),
        },
    },
    Key {
        name: "files",
        help: "File size of a backup; mixed: from 8 KiB to 128 MiB, equally many of each",
        values: Values::Size {
            range: (1, 1 << 30),
            absent: Some("mixed"),
            set: |s, size| {
                s.workload.backup.files = size.map_or(FileSizes::Mixed, FileSizes::One);
            },
        },
    },
    Key {
        name: "tree",
        help: "Bytes of files per client; at least one file",
        values: Values::Size {
            range: (1, 1 << 32),
            absent: None,
            set: |s, size| s.workload.backup.tree = size.unwrap_or(s.workload.backup.tree),
        },
    },
    Key {
        name: "directory",
        help: "Directory for the clients' backup files",
        values: Values::Directory(|s, name| s.workload.backup.directory = name),
    },
    Key {
        name: "cache",
        help: "Whether files are read from the page cache (warm) or from disk (cold)",
        values: Values::Word(&[
            ("warm", |s| s.workload.backup.cold = false),
            ("cold", |s| s.workload.backup.cold = true),
        ]),
    },
    Key {
        name: "drives",
        help: "Tape drives, shared by the clients",
        values: Values::Count { range: (1, 64), set: |s, n| s.workload.backup.drives = n },
    },
    Key {
        name: "drive-rate",
        help: "Bytes per second of a tape drive",
        values: Values::Size {
            range: (1 << 10, 1 << 40),
            absent: None,
            set: |s, size| {
                s.workload.backup.drive_rate = size.unwrap_or(s.workload.backup.drive_rate);
            },
        },
    },
    Key {
        name: "burst",
        help: "Outstanding requests per connection",
        values: Values::Count { range: (1, 4096), set: |s, n| s.workload.burst = n },
    },
    Key {
        name: "request-rate",
        help: "Requests per second and connection, whatever is outstanding (open loop); off is a \
               closed loop",
        values: Values::Rate {
            range: (1, MAX_REQUEST_RATE),
            absent: "off",
            set: |s, rate| s.workload.request_rate_per_s = rate,
        },
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
    },
    Key {
        name: "receive-path",
        help: "How payload leaves the socket: recv(), or discarded in the kernel (MSG_TRUNC)",
        values: Values::Word(&[
            ("plain", |s| s.workload.receive_path = ReceivePath::Plain),
            ("truncate", |s| s.workload.receive_path = ReceivePath::Truncate),
        ]),
    },
    Key {
        name: "working-set",
        help: "Size of the send and receive buffer rings; auto as in netperf: two messages or \
               more, and 256 KiB",
        values: Values::Size {
            range: (4096, 1 << 30),
            absent: Some("auto"),
            set: |s, size| s.workload.working_set = size,
        },
    },
    Key {
        name: "receive-batching",
        help: "Clients batch receives (10 \u{b5}s sleep under load)",
        values: Values::Switch(|s, on| s.workload.receive_batching = on),
    },
    Key {
        name: "udp-segment",
        help: "UDP_SEGMENT: payload of the datagrams into which the kernel segments a message",
        values: Values::Size {
            range: (1, MAX_DATAGRAM),
            absent: Some("off"),
            set: |s, size| s.workload.udp_segment = size,
        },
    },
    Key {
        name: "udp-gro",
        help: "UDP_GRO: receive coalesced datagrams",
        values: Values::Switch(|s, on| s.workload.udp_gro = on),
    },
    Key {
        name: "cpu-binding",
        help: "Bind each flow to the CPU that handles its interface's interrupts (netperf -T); \
               needs at least two SUT CPUs",
        values: Values::Switch(|s, on| s.workload.cpu_binding = on),
    },
    Key {
        name: "load",
        help: "In a mix: streams next to transactions (loaded), or transactions alone (idle)",
        values: Values::Word(&[("loaded", |s| s.idle = false), ("idle", |s| s.idle = true)]),
    },
    Key {
        name: "loss",
        help: "Share of frames or ATM cells that links lose, both ways",
        values: Values::Share { range: (0, MAX_LOSS), set: |s, ppm| s.loss_ppm = ppm },
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
    },
    Key {
        name: "event-at",
        help: "When it fails, from the start of the measurement interval; default: after 25 %",
        values: Values::Time { range: MOMENTS, absent: None, set: |s, at| s.event.at = at },
    },
    Key {
        name: "event-recover",
        help: "When it recovers, from the start of the measurement interval",
        values: Values::Time {
            range: MOMENTS,
            absent: Some("never"),
            set: |s, recover| s.event.recover = recover,
        },
    },
];

/// Keys of the test sockets, and the name that changes nothing.
const SOCKETS: &[Key] = &[
    Key {
        name: "socket",
        help: "SO_SNDBUF and SO_RCVBUF; auto: kernel autotuning",
        values: Values::Size {
            range: (4096, 1 << 30),
            absent: Some("auto"),
            set: |s, size| s.socket.buffer = size,
        },
    },
    Key {
        name: "congestion",
        help: "Congestion control",
        values: Values::Congestion(|s, name| s.socket.congestion = name),
    },
    Key {
        name: "nodelay",
        help: "TCP_NODELAY: send small segments at once",
        values: Values::Switch(|s, on| s.socket.nodelay = on),
    },
    Key {
        name: "family",
        help: "Address family",
        values: Values::Word(&[
            ("ipv4", |s| s.socket.family = Family::Ipv4),
            ("ipv6", |s| s.socket.family = Family::Ipv6),
        ]),
    },
    Key {
        name: "repeat",
        help: "Factor that changes nothing: its levels differ in name only",
        values: Values::Label(|s, name| s.repeat = Some(name)),
    },
];
