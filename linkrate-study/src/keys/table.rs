//! The table itself.

use linkrate_terms::{ByteSize, Direction, Offload, Protocol, ReceivePath, SendPath, Steering};

use super::{Key, MAX_CLIENTS, MAX_DATAGRAM, Values};

/// One byte to 64 MiB.
const MESSAGE: (u64, u64) = (1, 64 << 20);

/// The ranges of the keys that are narrowed end far below 2^32.
fn narrow(size: ByteSize) -> u32 {
    u32::try_from(size.0).unwrap_or(u32::MAX)
}

/// Every key.
pub const KEYS: &[Key] = &[
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
    Key {
        name: "offload",
        help: "rung of the transmit ladder: one segment per buffer, software GSO, adapter TSO",
        values: Values::Word(&[
            ("none", |s| s.interface.offload = Some(Offload::None)),
            ("gso", |s| s.interface.offload = Some(Offload::Gso)),
            ("tso", |s| s.interface.offload = Some(Offload::Tso)),
        ]),
    },
    Key {
        name: "gro",
        help: "generic receive offload of the SUT's interface",
        values: Values::Switch(|s, on| s.interface.gro = Some(on)),
    },
    Key {
        name: "tx-checksum",
        help: "transmit checksum offload",
        values: Values::Switch(|s, on| s.interface.tx_checksum = Some(on)),
    },
    Key {
        name: "rx-checksum",
        help: "receive checksum offload",
        values: Values::Switch(|s, on| s.interface.rx_checksum = Some(on)),
    },
    Key {
        name: "mtu",
        help: "largest IP packet, set on both ends of the wire",
        values: Values::Size {
            // RFC 791 lets no link have less than 68; the total length field ends at 65535
            range: (68, 65535),
            absent: None,
            set: |s, size| s.interface.mtu = size.map(narrow),
        },
    },
    Key {
        name: "gso-max-size",
        help: "largest superframe that TCP builds: the virtual MTU",
        values: Values::Size {
            // GSO_MAX_SIZE, include/linux/netdevice.h: 8 * 65535
            range: (1500, 524_280),
            absent: None,
            set: |s, size| s.interface.gso_max_size = size.map(narrow),
        },
    },
    Key {
        name: "queues",
        help: "receive and transmit queue pairs of the SUT's interface",
        values: Values::Count { range: (1, 64), set: |s, n| s.interface.queues = Some(n) },
    },
    Key {
        name: "lro",
        help: "the adapter merges received TCP segments (packet reassembly)",
        values: Values::Switch(|s, on| s.interface.port.lro = Some(on)),
    },
    Key {
        name: "steering",
        help: "how the adapter shares out received frames to queues",
        values: Values::Word(&[
            ("off", |s| s.interface.port.steering = Some(Steering::Off)),
            ("rss", |s| s.interface.port.steering = Some(Steering::Rss)),
            ("destination-port", |s| {
                s.interface.port.steering = Some(Steering::DestinationPort);
            }),
        ]),
    },
    Key {
        name: "rx-usecs",
        help: "microseconds from a received frame to its interrupt; 0 for at once",
        values: Values::Count {
            range: (0, 10_000),
            set: |s, n| s.interface.port.rx_usecs = Some(n),
        },
    },
    Key {
        name: "rx-frames",
        help: "received frames that raise an interrupt before its time; 0 for by time only",
        values: Values::Count {
            range: (0, 16_384),
            set: |s, n| s.interface.port.rx_frames = Some(n),
        },
    },
    Key {
        name: "tx-usecs",
        help: "microseconds from a sent frame to its completion interrupt",
        values: Values::Count {
            range: (0, 10_000),
            set: |s, n| s.interface.port.tx_usecs = Some(n),
        },
    },
    Key {
        name: "vlan",
        help: "802.1Q VLAN on the wire; 0 for no tag",
        values: Values::Count {
            range: (0, 4094),
            // the range ends below 2^16
            set: |s, n| s.interface.port.vlan = Some(u16::try_from(n).unwrap_or(0)),
        },
    },
    Key {
        name: "snap",
        help: "LLC/SNAP frames on the wire instead of Ethernet II",
        values: Values::Switch(|s, on| s.interface.port.snap = Some(on)),
    },
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
