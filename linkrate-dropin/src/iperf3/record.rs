//! What there is to tell of a test, apart from how it is printed.

use std::net::SocketAddr;

use linkrate_interop::iperf3::{Parameters, Transport, Ways};

/// A stream that is open.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// The descriptor of its socket, which names it.
    pub socket: i32,
    /// This end.
    pub local: SocketAddr,
    /// The server's end.
    pub remote: SocketAddr,
}

/// A test whose streams are open.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The server as it was named.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What was asked for.
    pub parameters: Parameters,
    /// The name of the test, which its streams repeat.
    pub cookie: String,
    /// The maximum segment size of the control connection, octets.
    pub mss: Option<u32>,
    /// Buffers of the first stream as the kernel has them, octets: sending and receiving.
    pub buffers: (u64, u64),
    /// The streams, in the order in which they were opened.
    pub streams: Vec<Connection>,
    /// When it began, s since 1970.
    pub unix_seconds: u64,
}

impl Start {
    /// Whether its streams are of UDP.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        self.parameters.transport == Transport::Udp
    }
}

/// Datagrams of a stream in a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Datagrams {
    /// Those that were sent; at a receiver those that should have arrived.
    pub packets: u64,
    /// Those of them that have not arrived. Less than zero when late ones of an earlier interval arrive.
    pub lost: i64,
    /// Those that arrived behind one with a higher number.
    pub out_of_order: u64,
    /// Interarrival jitter at the end of the time (RFC 1889, 6.3.1), s.
    pub jitter_seconds: f64,
}

impl Datagrams {
    /// Lost ones of a hundred.
    #[must_use]
    pub fn lost_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.lost as f64 * 100.0 / self.packets as f64 }
    }
}

/// The path of a sender, by TCP_INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// Segments that were sent again in the time.
    pub retransmits: u64,
    /// Congestion window at its end, octets.
    pub snd_cwnd: u64,
    /// Window of the receiver at its end, octets.
    pub snd_wnd: u64,
    /// Smoothed round-trip time at its end, µs.
    pub rtt_us: u32,
    /// Its mean deviation, µs.
    pub rttvar_us: u32,
    /// Path MTU, octets.
    pub path_mtu: u32,
}

/// A stream in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamInterval {
    /// Its name.
    pub socket: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// Octets.
    pub bytes: u64,
    /// Datagrams; `None` of a connection.
    pub datagrams: Option<Datagrams>,
    /// The path; `None` of a receiver and of datagrams.
    pub path: Option<Path>,
}

/// An interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its beginning, s.
    pub start: f64,
    /// Its end, s.
    pub end: f64,
    /// Whether it is of the beginning that is in no figure.
    pub is_omitted: bool,
    /// The streams.
    pub streams: Vec<StreamInterval>,
}

/// What the path of a sender was over all intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// Largest congestion window, octets.
    pub max_snd_cwnd: u64,
    /// Largest window of the receiver, octets.
    pub max_snd_wnd: u64,
    /// Longest, shortest and mean smoothed round-trip time, µs.
    pub max_rtt_us: u32,
    /// The shortest.
    pub min_rtt_us: u32,
    /// The mean.
    pub mean_rtt_us: u32,
}

/// A stream at the end of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamEnd {
    /// Its name.
    pub socket: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// Octets of its sender.
    pub sent_bytes: u64,
    /// Octets of its receiver.
    pub received_bytes: u64,
    /// Time of its sender, s.
    pub sent_seconds: f64,
    /// Time of its receiver, s.
    pub received_seconds: f64,
    /// Segments that its sender sent again; `None` where it does not know, and of datagrams.
    pub retransmits: Option<u64>,
    /// Its path; zero where the server sends.
    pub spread: Spread,
    /// Datagrams as the receiver saw them; `None` of a connection.
    pub received: Option<Datagrams>,
    /// Datagrams that were sent.
    pub sent_packets: u64,
}

/// The end of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The streams.
    pub streams: Vec<StreamEnd>,
    /// CPU time of this process in per cent of the test: all, user, system.
    pub own_cpu_percent: [f64; 3],
    /// That of the server.
    pub remote_cpu_percent: [f64; 3],
    /// Congestion control of the connections of this end.
    pub own_congestion: Option<String>,
    /// That of the server.
    pub remote_congestion: Option<String>,
    /// Whether the person ended the test.
    pub is_interrupted: bool,
}

impl Datagrams {
    /// Those of several streams; the jitter is the mean of theirs.
    #[must_use]
    pub fn sum(each: impl Iterator<Item = Self>) -> Self {
        let (mut all, mut streams) = (Self::default(), 0.0);
        for one in each {
            all.packets += one.packets;
            all.lost += one.lost;
            all.out_of_order += one.out_of_order;
            all.jitter_seconds += one.jitter_seconds;
            streams += 1.0;
        }
        all.jitter_seconds /= f64::max(streams, 1.0);
        all
    }
}

impl End {
    /// Congestion control of the sender and of the receiver; with both ways this end is the sender.
    #[must_use]
    pub fn congestion(&self, ways: Ways) -> [Option<&str>; 2] {
        let (own, remote) = (self.own_congestion.as_deref(), self.remote_congestion.as_deref());
        if ways == Ways::Reverse { [remote, own] } else { [own, remote] }
    }
}
