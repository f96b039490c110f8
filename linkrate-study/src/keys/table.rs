//! The table itself.

use linkrate_terms::knobs::KNOBS;
use linkrate_terms::{Direction, Protocol, ReceivePath, SendPath};

use super::{Key, MAX_CLIENTS, MAX_DATAGRAM, Values};

/// One byte to 64 MiB.
const MESSAGE: (u64, u64) = (1, 64 << 20);

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
        help: "shape of the exchange (netperf: TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, UDP_RR)",
        values: Values::Word(&[
            ("stream", |s| s.workload.kind = Protocol::Stream),
            ("request-response", |s| s.workload.kind = Protocol::RequestResponse),
            ("connect-request-response", |s| s.workload.kind = Protocol::ConnectRequestResponse),
            ("udp-stream", |s| s.workload.kind = Protocol::UdpStream),
            ("udp-request-response", |s| s.workload.kind = Protocol::UdpRequestResponse),
        ]),
    },
    Key {
        name: "direction",
        help: "which way the payload of a stream flows, seen from the system under test",
        values: Values::Word(&[
            ("transmit", |s| s.workload.direction = Direction::Transmit),
            ("receive", |s| s.workload.direction = Direction::Receive),
            ("bidirectional", |s| s.workload.direction = Direction::Bidirectional),
        ]),
    },
    Key {
        name: "connections",
        help: "connections per client; for bidirectional streams per client and direction",
        values: Values::Count { range: (1, 1024), set: |s, n| s.workload.connections = n },
    },
    Key {
        name: "clients",
        help: "how many client hosts take part",
        values: Values::Count { range: (1, MAX_CLIENTS), set: |s, n| s.clients = n },
    },
    Key {
        name: "ports",
        help: "how many ports of virtual adapters, or interfaces of this host, take part",
        values: Values::Count { range: (1, 16), set: |s, n| s.ports = Some(n) },
    },
    Key {
        name: "message",
        help: "bytes handed to the kernel in one call of a stream, or payload of one datagram",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.message = size },
    },
    Key {
        name: "request",
        help: "bytes of one request",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.request = size },
    },
    Key {
        name: "response",
        help: "bytes of one response",
        values: Values::Message { range: MESSAGE, set: |s, size| s.workload.response = size },
    },
    Key {
        name: "burst",
        help: "requests outstanding per connection",
        values: Values::Count { range: (1, 4096), set: |s, n| s.workload.burst = n },
    },
    Key {
        name: "send-path",
        help: "how payload enters the socket: copied, pinned, or handed over from a file",
        values: Values::Word(&[
            ("plain", |s| s.workload.send_path = SendPath::Plain),
            ("msg-zerocopy", |s| s.workload.send_path = SendPath::MsgZerocopy),
            ("sendfile", |s| s.workload.send_path = SendPath::Sendfile),
            ("splice", |s| s.workload.send_path = SendPath::Splice),
        ]),
    },
    Key {
        name: "receive-path",
        help: "how payload leaves the socket: copied, or discarded in the kernel (MSG_TRUNC)",
        values: Values::Word(&[
            ("plain", |s| s.workload.receive_path = ReceivePath::Plain),
            ("truncate", |s| s.workload.receive_path = ReceivePath::Truncate),
        ]),
    },
    Key {
        name: "udp-segment",
        help: "UDP_SEGMENT: the kernel cuts a message into datagrams of this much payload",
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
];

/// Keys of the test sockets, and the name that changes nothing.
const SOCKETS: &[Key] = &[
    Key {
        name: "socket",
        help: "socket buffers as the application asks; \"auto\" leaves the kernel's autotuning on",
        values: Values::Size {
            range: (4096, 1 << 30),
            absent: Some("auto"),
            set: |s, size| s.socket.buffer = size,
        },
    },
    Key {
        name: "congestion",
        help: "congestion control of every test socket",
        values: Values::Congestion(|s, name| s.socket.congestion = name),
    },
    Key {
        name: "nodelay",
        help: "TCP_NODELAY",
        values: Values::Switch(|s, on| s.socket.nodelay = on),
    },
    Key {
        name: "repeat",
        help: "a factor whose levels are the same but in name: what a study claims of them is wrong",
        values: Values::Label(|s, name| s.repeat = Some(name)),
    },
];
