//! What there is to report on a test of iperf3, at either end of it, apart from how it is printed.
//!
//! - [`Sampler`]: the counters of its streams, as intervals

mod sampler;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use serde_json::Value;

pub use sampler::Sampler;

use crate::iperf3::{Directions, Parameters, Role, StreamResult, Transport, stream_id};
use crate::payload::{Count, Socket};
use crate::serve::InterfaceReport;

/// A stream that is open.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// The descriptor of its socket, which names it.
    pub socket: i32,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

impl Connection {
    /// # Errors
    /// As getsockname(2) and getpeername(2): the other end may have gone.
    pub fn of(socket: &Socket) -> io::Result<Self> {
        let (local, remote) = match socket {
            Socket::Tcp(stream) => (stream.local_addr()?, stream.peer_addr()?),
            Socket::Udp(socket) => (socket.local_addr()?, socket.peer_addr()?),
        };
        Ok(Self { socket: socket.as_fd().as_raw_fd(), local, remote })
    }
}

/// A test whose streams are open.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// This end.
    pub role: Role,
    /// The other end: the server as it was named, or the client by the address of its control connection.
    pub host: String,
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
    /// When it began, ms since 1970.
    pub unix_milliseconds: u64,
    /// Seconds between two reports.
    pub interval_seconds: f64,
}

impl Start {
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
    /// Segments that the path has reordered since the connection was made.
    pub reordered: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamInterval {
    /// Its name.
    pub socket: i32,
    /// Whether this end sends.
    pub sends: bool,
    pub bytes: u64,
    /// Datagrams; `None` of a connection.
    pub datagrams: Option<Datagrams>,
    /// The path; `None` of a receiver and of datagrams.
    pub path: Option<Path>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its beginning, s.
    pub start: f64,
    /// Its end, s.
    pub end: f64,
    /// Whether it is of the beginning that is in no figure.
    pub is_omitted: bool,
    pub streams: Box<[StreamInterval]>,
}

impl Interval {
    /// Takes the one behind it, of the same streams, as a part of it.
    pub fn append(&mut self, next: &Self) {
        self.end = next.end;
        for (stream, next) in self.streams.iter_mut().zip(&next.streams) {
            stream.append(next);
        }
    }
}

impl StreamInterval {
    fn append(&mut self, next: &Self) {
        self.bytes += next.bytes;
        self.datagrams = self.datagrams.zip(next.datagrams).map(|(all, next)| Datagrams {
            packets: all.packets + next.packets,
            lost: all.lost + next.lost,
            out_of_order: all.out_of_order + next.out_of_order,
            ..next
        });
        let paths = self.path.zip(next.path);
        self.path = paths
            .map(|(all, next)| Path { retransmits: all.retransmits + next.retransmits, ..next });
    }
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
    /// Segments that the path has reordered.
    pub reordered: u32,
}

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
    /// Its path; zero where the other end sends.
    pub spread: Spread,
    /// Datagrams as the receiver saw them; `None` of a connection.
    pub received: Option<Datagrams>,
    pub sent_packets: u64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    pub streams: Vec<StreamEnd>,
    /// CPU time of this process in per cent of the test: all, user, system.
    pub own_cpu_percent: [f64; 3],
    /// That of the other end; 0 where it is not known.
    pub remote_cpu_percent: [f64; 3],
    /// Congestion control of the connections of this end.
    pub own_congestion: Option<String>,
    /// That of the other end.
    pub remote_congestion: Option<String>,
    /// What the server has printed: text, or a document. Asked for alone.
    pub server_output: Option<Value>,
    /// Whether the user ended the test.
    pub is_interrupted: bool,
}

/// The counters of a stream at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    pub count: Count,
    pub retransmits: u32,
}

/// What one end alone knows of a stream at the end of a test.
#[derive(Debug, Clone, Copy)]
pub struct OwnEnd {
    /// Its name.
    pub socket: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// Its counters where the figures begin, behind what is left out, and at their end.
    pub marks: [Mark; 2],
    pub spread: Spread,
}

impl OwnEnd {
    /// Octets in the figures.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let [from, to] = self.marks;
        to.count.bytes.saturating_sub(from.count.bytes)
    }

    /// What this end tells the other one of stream `index`.
    #[must_use]
    pub fn result(&self, index: u32, seconds: f64, is_udp: bool) -> StreamResult {
        let [from, to] = self.marks;
        let retransmits = to.retransmits.wrapping_sub(from.retransmits);
        StreamResult {
            id: stream_id(index),
            bytes: self.bytes(),
            retransmits: (self.sends && !is_udp).then(|| retransmits.into()),
            jitter_seconds: to.count.datagrams.jitter_us / 1e6,
            lost: to.count.datagrams.lost,
            omitted_lost: from.count.datagrams.lost,
            packets: to.count.datagrams.highest,
            omitted_packets: from.count.datagrams.highest,
            seconds,
        }
    }

    /// The stream by what this end tells of it, and the other one; one that tells nothing has moved nothing.
    #[must_use]
    pub fn with(
        &self,
        own: &StreamResult,
        their: Option<&StreamResult>,
        is_udp: bool,
    ) -> StreamEnd {
        let their = their.copied().unwrap_or(StreamResult { bytes: 0, ..*own });
        let [sent, received] = if self.sends { [own, &their] } else { [&their, own] };
        // versions before 3.14 do not report on datagrams that were left out
        let omitted = match their.omitted_packets {
            0 => own.omitted_packets,
            reported => reported,
        };
        let their_packets = their.packets.saturating_sub(omitted);
        let own_datagrams = datagrams(&self.marks[0].count, &self.marks[1].count);
        let received_datagrams = match self.sends {
            true => Datagrams {
                packets: their_packets,
                lost: their.lost.saturating_sub(their.omitted_lost).cast_signed(),
                out_of_order: 0,
                jitter_seconds: their.jitter_seconds,
            },
            false => own_datagrams,
        };
        // 3.1 tells of no time
        let seconds =
            |end: &StreamResult| if end.seconds > 0.0 { end.seconds } else { own.seconds };
        StreamEnd {
            socket: self.socket,
            sends: self.sends,
            sent_bytes: sent.bytes,
            received_bytes: received.bytes,
            sent_seconds: seconds(sent),
            received_seconds: seconds(received),
            retransmits: sent.retransmits,
            spread: self.spread,
            received: is_udp.then_some(received_datagrams),
            sent_packets: if self.sends { own_datagrams.packets } else { their_packets },
        }
    }
}

/// The datagrams between two moments.
#[must_use]
pub fn datagrams(from: &Count, to: &Count) -> Datagrams {
    let [from, to] = [from.datagrams, to.datagrams];
    Datagrams {
        packets: to.highest.saturating_sub(from.highest),
        lost: to.lost.cast_signed().saturating_sub(from.lost.cast_signed()),
        out_of_order: to.out_of_order.saturating_sub(from.out_of_order),
        jitter_seconds: to.jitter_us / 1e6,
    }
}

/// A test from its first to its last moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub start: Start,
    pub intervals: Vec<Interval>,
    pub end: End,
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
    /// Why the figures cannot be a result; `None` where they can. `link` is the interface of this end.
    #[must_use]
    pub fn defect(&self, link: Option<&InterfaceReport>) -> Option<String> {
        if self.is_interrupted {
            return None;
        }
        [true, false].into_iter().find_map(|sends| {
            let streams: Vec<_> =
                self.streams.iter().filter(|stream| stream.sends == sends).collect();
            let bytes: u64 = streams.iter().map(|stream| stream.received_bytes).sum();
            let seconds = streams.iter().map(|stream| stream.received_seconds).reduce(f64::max)?;
            if bytes == 0 || seconds <= 0.0 {
                return Some(format!("the receiver has {bytes} octets in {seconds} s"));
            }
            link?.refutes(bytes as f64 * 8.0 / seconds)
        })
    }

    /// Congestion control of the sender and of the receiver; with both ways this end is the sender.
    #[must_use]
    pub fn congestion(&self, role: Role, ways: Directions) -> [Option<&str>; 2] {
        let (own, remote) = (self.own_congestion.as_deref(), self.remote_congestion.as_deref());
        if ways.has_sender(role) { [own, remote] } else { [remote, own] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test of an hour with ten intervals a second and eight streams keeps 288,000 of these.
    #[test]
    fn a_stream_costs_few_octets_an_interval() {
        assert!(size_of::<StreamInterval>() <= 112 && size_of::<Interval>() <= 40);
    }

    #[test]
    fn an_interval_takes_the_next_one() {
        let datagrams = |packets, jitter_seconds| {
            Some(Datagrams { packets, lost: 1, out_of_order: 2, jitter_seconds })
        };
        let path = |retransmits, rtt_us| Some(Path { retransmits, rtt_us, ..Path::default() });
        let interval = |start, bytes, datagrams, path| Interval {
            start,
            end: start + 1.0,
            is_omitted: false,
            streams: [StreamInterval { socket: 5, sends: true, bytes, datagrams, path }].into(),
        };
        let mut all = interval(0.0, 10, datagrams(5, 0.5), path(3, 70));
        all.append(&interval(1.0, 20, datagrams(6, 0.25), path(4, 80)));
        let both = Some(Datagrams { packets: 11, lost: 2, out_of_order: 4, jitter_seconds: 0.25 });
        assert_eq!(all, Interval { end: 2.0, ..interval(0.0, 30, both, path(7, 80)) });
    }

    #[test]
    fn figures_that_cannot_be_right_are_no_result() {
        let link = InterfaceReport::gigabit();
        let stream = |sends, received_bytes, received_seconds| StreamEnd {
            socket: 5,
            sends,
            sent_bytes: received_bytes,
            received_bytes,
            sent_seconds: 1.0,
            received_seconds,
            retransmits: None,
            spread: Spread::default(),
            received: None,
            sent_packets: 0,
        };
        let end = |streams| End { streams, ..End::default() };
        let second = 117_000_000;
        let good = end(vec![stream(true, second, 1.0), stream(false, second, 1.0)]);
        assert_eq!(good.defect(Some(&link)), None);
        let slow = end(vec![stream(true, second, 1.0), stream(false, 262_144, 3.5e-7)]);
        assert_eq!((slow.defect(None), slow.defect(Some(&link)).is_some()), (None, true));
        for (bytes, seconds, said) in [
            (0, 1.0, "the receiver has 0 octets in 1 s"),
            (5, 0.0, "the receiver has 5 octets in 0 s"),
        ] {
            let wrong = end(vec![stream(true, second, 1.0), stream(false, bytes, seconds)]);
            assert_eq!(wrong.defect(None).as_deref(), Some(said));
            assert_eq!(End { is_interrupted: true, ..wrong }.defect(None), None);
        }
    }
}
