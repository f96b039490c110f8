//! The table of keys.

use std::time::Duration;

use linkrate_terms::backup::FileSizes;
use linkrate_terms::event::SHORTEST_PART;
use linkrate_terms::knobs::{KNOBS, Merge};
use linkrate_terms::workload::MAX_REQUEST_RATE;
use linkrate_terms::{Direction, Family, Fault, Protocol, ReceivePath, SendPath};

use super::{Key, MAX_CLIENTS, MAX_DATAGRAM, Values};

/// One byte to 64 MiB.
const MESSAGE: (u64, u64) = (1, 64 << 20);

/// The moments that an event may have: those of the longest window.
const MOMENTS: (Duration, Duration) = (SHORTEST_PART, Duration::from_secs(3600));

/// The largest loss, in millionths: beyond it a run may not even begin.
const MOST_LOSS: u32 = 500_000;

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
        help: "Type of traffic (netperf: TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, UDP_RR; \
               Chariot: transfers; Data Protector: backup)",
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
        help: "Direction of the payload of streams and transfers, seen from the system under test",
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
        help: "Number of client hosts that take part",
        values: Values::Count { range: (1, MAX_CLIENTS), set: |s, n| s.clients = n },
    },
    Key {
        name: "ports",
        help: "Number of ports of virtual adapters, or of existing interfaces, that take part",
        values: Values::Count { range: (1, 16), set: |s, n| s.ports = Some(n) },
    },
    Key {
        name: "adapter",
        help: "Model of the virtual adapters of a cell, instead of the one in [testbed]",
        values: Values::Model(|s, name| s.adapter = Some(name)),
    },
    Key {
        name: "merge",
        help: "What merges received TCP segments: nothing, the kernel (gro alone), or the adapter (lro \
               alone)",
        values: Values::Word(&[
            ("none", |s| s.merge(Merge::None)),
            ("gro", |s| s.merge(Merge::Gro)),
            ("lro", |s| s.merge(Merge::Lro)),
        ]),
    },
    Key {
        name: "message",
        help: "Bytes per send call of a stream or a transfer, or payload of one datagram",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.message = size },
    },
    Key {
        name: "request",
        help: "Bytes of one request",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.request = size },
    },
    Key {
        name: "response",
        help: "Bytes of one response",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.response = size },
    },
    Key {
        name: "transfer",
        help: "Size of one transfer, which is complete when the receiver acknowledges it",
        values: Values::Size {
            range: (1, 1 << 40),
            absent: None,
            set: |s, size| s.workload.transfer = size.unwrap_or(s.workload.transfer),
        },
    },
    Key {
        name: "files",
        help: "Size of the files of a backup; \"mixed\": as many of each from 8 KiB to 128 MiB as the \
               tree has room for",
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
        help: "Bytes of files that each client of a backup has; at least one file",
        values: Values::Size {
            range: (1, 1 << 32),
            absent: None,
            set: |s, size| s.workload.backup.tree = size.unwrap_or(s.workload.backup.tree),
        },
    },
    Key {
        name: "directory",
        help: "Directory for the files of a backup's clients",
        values: Values::Directory(|s, name| s.workload.backup.directory = name),
    },
    Key {
        name: "cache",
        help: "Whether files of a backup are read from the page cache (warm) or from the disk (cold)",
        values: Values::Word(&[
            ("warm", |s| s.workload.backup.cold = false),
            ("cold", |s| s.workload.backup.cold = true),
        ]),
    },
    Key {
        name: "drives",
        help: "Tape drives that a backup goes to",
        values: Values::Count { range: (1, 64), set: |s, n| s.workload.backup.drives = n },
    },
    Key {
        name: "drive-rate",
        help: "Bytes that a tape drive takes in a second",
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
        help: "Requests outstanding per connection",
        values: Values::Count { range: (1, 4096), set: |s, n| s.workload.burst = n },
    },
    Key {
        name: "request-rate",
        help: "Requests that begin on each connection in a second, whatever is outstanding (an open loop), with \
               latency from the time that each was due; \"off\" is a closed loop",
        values: Values::Rate {
            range: (1, MAX_REQUEST_RATE),
            absent: "off",
            set: |s, rate| s.workload.request_rate_per_s = rate,
        },
    },
    Key {
        name: "send-path",
        help: "How payload enters the socket: copied, pinned, from a file, or from a pipe",
        values: Values::Word(&[
            ("plain", |s| s.workload.send_path = SendPath::Plain),
            ("msg-zerocopy", |s| s.workload.send_path = SendPath::MsgZerocopy),
            ("sendfile", |s| s.workload.send_path = SendPath::Sendfile),
            ("splice", |s| s.workload.send_path = SendPath::Splice),
        ]),
    },
    Key {
        name: "receive-path",
        help: "How payload leaves the socket: copied, or discarded in the kernel (MSG_TRUNC)",
        values: Values::Word(&[
            ("plain", |s| s.workload.receive_path = ReceivePath::Plain),
            ("truncate", |s| s.workload.receive_path = ReceivePath::Truncate),
        ]),
    },
    Key {
        name: "working-set",
        help: "Size of the buffer rings that plain payload is sent from and received into; \"auto\": as netperf, two messages or more to send, 256 KiB to receive",
        values: Values::Size {
            range: (4096, 1 << 30),
            absent: Some("auto"),
            set: |s, size| s.workload.working_set = size,
        },
    },
    Key {
        name: "gathering",
        help: "Clients batch receives: they sleep for 10 \u{b5}s under load and read in large pieces",
        values: Values::Switch(|s, on| s.workload.gathering = on),
    },
    Key {
        name: "udp-segment",
        help: "UDP_SEGMENT: the kernel segments a message into datagrams of this payload",
        values: Values::Size {
            range: (1, MAX_DATAGRAM),
            absent: Some("off"),
            set: |s, size| s.workload.udp_segment = size,
        },
    },
    Key {
        name: "udp-gro",
        help: "UDP_GRO: the receiver takes coalesced datagrams",
        values: Values::Switch(|s, on| s.workload.udp_gro = on),
    },
    Key {
        name: "cpu-binding",
        help: "Bind each flow of the system under test to the CPU that handles its interface's interrupts (netperf -T); needs at least two SUT CPUs",
        values: Values::Switch(|s, on| s.workload.cpu_binding = on),
    },
    Key {
        name: "load",
        help: "Whether the streams of a mix flow beside its transactions (loaded), or its transactions are alone \
               (idle)",
        values: Values::Word(&[("loaded", |s| s.idle = false), ("idle", |s| s.idle = true)]),
    },
    Key {
        name: "loss",
        help: "Share of frames, or of ATM cells, that the links lose while traffic flows, both ways",
        values: Values::Share { range: (0, MOST_LOSS), set: |s, ppm| s.loss_ppm = ppm },
    },
    Key {
        name: "event",
        help: "What fails during the measurement: the link, silently or not, a switch, or a port of \
               an aggregate is removed",
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
        help: "When it fails, from the beginning of the measurement; default: after a quarter of it",
        values: Values::Time { range: MOMENTS, absent: None, set: |s, at| s.event.at = at },
    },
    Key {
        name: "event-recover",
        help: "When it recovers, from the beginning of the measurement; default: never",
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
        help: "Size of the socket buffers; \"auto\" leaves it to the kernel's autotuning",
        values: Values::Size {
            range: (4096, 1 << 30),
            absent: Some("auto"),
            set: |s, size| s.socket.buffer = size,
        },
    },
    Key {
        name: "congestion",
        help: "Congestion control of every test socket",
        values: Values::Congestion(|s, name| s.socket.congestion = name),
    },
    Key {
        name: "nodelay",
        help: "TCP_NODELAY: send small segments without waiting for acknowledgements",
        values: Values::Switch(|s, on| s.socket.nodelay = on),
    },
    Key {
        name: "family",
        help: "Address family of every test socket: the IP that carries the traffic",
        values: Values::Word(&[
            ("ipv4", |s| s.socket.family = Family::Ipv4),
            ("ipv6", |s| s.socket.family = Family::Ipv6),
        ]),
    },
    Key {
        name: "repeat",
        help: "A factor that changes nothing: its levels differ only in name, so that an effect which \
               a study claims between them is false",
        values: Values::Label(|s, name| s.repeat = Some(name)),
    },
];
