//! What is told of a session that has ended: one JSON line.

use std::net::SocketAddr;

use linkrate_sys::tcp_info::TcpInfo;
use serde::Serialize;

use super::interface::InterfaceReport;
use crate::measured::Measured;

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "ended", content = "reason")]
pub enum Ending {
    /// As it should.
    Complete,
    /// The client has gone, or has ended the test before its time.
    ClientLeft,
    /// The client asked for something that is not granted, or said something that is not of its program.
    Refused(String),
    /// The server ends.
    Stopped,
    /// The system refused something.
    Failed(String),
}

impl Ending {
    /// The words of all endings, as a line has them.
    pub const WORDS: [&'static str; 5] =
        ["complete", "client-left", "refused", "stopped", "failed"];

    /// Its word among [`Self::WORDS`].
    #[must_use]
    pub fn word(&self) -> &'static str {
        let at = match self {
            Self::Complete => 0,
            Self::ClientLeft => 1,
            Self::Refused(_) => 2,
            Self::Stopped => 3,
            Self::Failed(_) => 4,
        };
        Self::WORDS[at]
    }
}

/// What bounded a session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "limited_by")]
pub enum Verdict {
    /// The link of the interface by which the client came.
    Link {
        /// Throughput, per cent of the limit.
        percent: f64,
    },
    /// The rate that the client asked for.
    RateAskedFor {
        /// Throughput, per cent of that rate.
        percent: f64,
    },
    /// A thread of the session at this end.
    ServerCpu {
        /// Its CPU time, per cent of one CPU.
        percent: f64,
    },
    /// The window of the client, which receives.
    ReceiverWindow {
        /// Per cent of the time with something to send.
        percent: f64,
    },
    /// The send buffer at this end.
    SendBuffer {
        /// Per cent of the time with something to send.
        percent: f64,
    },
    /// Loss on the path to the client.
    Loss {
        /// Payload that was sent again, per cent of all.
        percent: f64,
    },
    /// Something that this end does not see: the client, its link, or the path.
    NotSeenHere,
}

/// The datagrams of a session, without the beginning that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct DatagramReport {
    /// Those that this end sent.
    pub sent_packets: u64,
    /// Those that should have arrived here: the highest numbers of the streams.
    pub expected_packets: u64,
    /// Those of them that have not.
    pub lost_packets: u64,
    /// Those that arrived behind one with a higher number.
    pub out_of_order_packets: u64,
    /// Interarrival jitter at the end (RFC 1889, 6.3.1), s, mean of the streams; absent where nothing arrives
    /// here.
    pub jitter_seconds: Option<f64>,
}

/// TCP_INFO of the session's connections at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TcpReport {
    /// Smallest maximum segment size, octets.
    pub snd_mss: u32,
    /// Longest smoothed round trip, µs.
    pub rtt_us: u32,
    /// Shortest round trip, µs; absent before the first.
    pub min_rtt_us: Option<u32>,
    /// Congestion windows, segments, sum.
    pub snd_cwnd: u64,
    /// Time with something to send, µs, sum.
    pub busy_us: u64,
    /// Part of it in which the receiver's window was full, µs, sum.
    pub rwnd_limited_us: u64,
    /// Part of it in which the send buffer was full, µs, sum.
    pub sndbuf_limited_us: u64,
    /// Payload that was sent again, octets, sum.
    pub resent_bytes: u64,
}

impl TcpReport {
    /// Of all connections; `None` without one.
    pub(super) fn of(connections: impl IntoIterator<Item = TcpInfo>) -> Option<Self> {
        connections.into_iter().map(Self::of_one).reduce(|all, one| Self {
            snd_mss: all.snd_mss.min(one.snd_mss),
            rtt_us: all.rtt_us.max(one.rtt_us),
            min_rtt_us: [all.min_rtt_us, one.min_rtt_us].into_iter().flatten().min(),
            snd_cwnd: all.snd_cwnd + one.snd_cwnd,
            busy_us: all.busy_us + one.busy_us,
            rwnd_limited_us: all.rwnd_limited_us + one.rwnd_limited_us,
            sndbuf_limited_us: all.sndbuf_limited_us + one.sndbuf_limited_us,
            resent_bytes: all.resent_bytes + one.resent_bytes,
        })
    }

    fn of_one(info: TcpInfo) -> Self {
        Self {
            snd_mss: info.snd_mss,
            rtt_us: info.rtt_us,
            min_rtt_us: Some(info.min_rtt_us).filter(|us| *us < u32::MAX),
            snd_cwnd: info.snd_cwnd.into(),
            busy_us: info.busy_time_us,
            rwnd_limited_us: info.rwnd_limited_us,
            sndbuf_limited_us: info.sndbuf_limited_us,
            resent_bytes: info.resent_bytes,
        }
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// The program whose protocol the client speaks.
    pub program: &'static str,
    /// The client.
    pub client: Option<SocketAddr>,
    /// The user that the client has authenticated as; absent where the server asks for no user.
    pub user: Option<String>,
    /// The interface by which it came; absent before it asked for a test, and where the kernel does not
    /// report.
    pub interface: Option<InterfaceReport>,
    /// The test by the name that its program has for it, where there are several.
    pub test: Option<&'static str>,
    /// The version that it says it has.
    pub client_version: Option<String>,
    /// `forward` from the client, `reverse` to it, or `both`; absent before it asked for a test.
    pub direction: Option<&'static str>,
    /// `tcp` or `udp`; absent before it asked for a test.
    pub transport: Option<&'static str>,
    /// What the client asked for and the server has not done, by the names of the program's fields.
    pub ignored: Vec<&'static str>,
    /// Streams.
    pub streams: u32,
    /// Length of the streams without the beginning that is left out, s.
    pub seconds: f64,
    /// Octets that arrived in this time.
    pub received_bytes: u64,
    /// Octets that were sent in this time.
    pub sent_bytes: u64,
    /// All of it, where it is printed: no part of the line.
    #[serde(skip)]
    pub measured: Option<Box<Measured>>,
    /// Throughput at the receiver, bit/s: octets that arrived here; of a test in which nothing arrives here, those that
    /// the client says it has received or its TCP has acknowledged, or else those that were sent.
    pub bits_per_second: f64,
    /// Transactions, where these were the test.
    pub transactions: Option<u64>,
    /// CPU time of the session's threads, per cent of one CPU.
    pub cpu_percent: f64,
    /// Segments that were sent again; absent where nothing is sent.
    pub retransmits: Option<u64>,
    /// TCP_INFO at the end; absent for UDP, and where a connection serves one transaction.
    pub tcp: Option<TcpReport>,
    /// What the datagrams did; absent for TCP.
    pub datagrams: Option<DatagramReport>,
    /// What bounded it; absent where it is not complete.
    pub verdict: Option<Verdict>,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// Further clients without a test, for which it stands; its reason tells them.
    #[serde(skip)]
    pub others: u64,
}

impl SessionReport {
    /// Of a client that has not asked for anything yet.
    #[must_use]
    pub fn of(program: &'static str, client: Option<SocketAddr>) -> Self {
        Self {
            program,
            // an address of IPv4 as such, where the server listens on those of IPv6 too
            client: client.map(|client| SocketAddr::new(client.ip().to_canonical(), client.port())),
            user: None,
            interface: None,
            test: None,
            client_version: None,
            direction: None,
            transport: None,
            ignored: Vec::new(),
            streams: 0,
            seconds: 0.0,
            received_bytes: 0,
            sent_bytes: 0,
            measured: None,
            bits_per_second: 0.0,
            transactions: None,
            cpu_percent: 0.0,
            retransmits: None,
            tcp: None,
            datagrams: None,
            verdict: None,
            ending: Ending::ClientLeft,
            others: 0,
        }
    }

    /// Takes how the session ended. One that ended as it should and has figures that cannot be right has failed.
    pub(super) fn end(&mut self, ended: Result<(), Ending>) {
        let complete = || self.defect().map_or(Ending::Complete, Ending::Failed);
        self.ending = ended.err().unwrap_or_else(complete);
    }

    /// Why the figures cannot be a result; `None` where they can.
    fn defect(&self) -> Option<String> {
        if self.seconds <= 0.0 {
            return Some("the test has no time".to_owned());
        }
        if self.bits_per_second <= 0.0 && self.transactions.unwrap_or(0) == 0 {
            return Some(match self.transactions {
                Some(_) => "no transaction was completed".to_owned(),
                None => "no payload arrived".to_owned(),
            });
        }
        self.interface.as_ref()?.refutes(self.bits_per_second)
    }

    /// Whether it had transactions and no stream.
    pub(super) fn transacts(&self) -> bool {
        self.transactions.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(report: &SessionReport) -> Ending {
        let mut report = report.clone();
        report.end(Ok(()));
        report.ending
    }

    #[test]
    fn a_line_has_the_word_of_its_ending() {
        let reason = String::new;
        let all = [
            Ending::Complete,
            Ending::ClientLeft,
            Ending::Refused(reason()),
            Ending::Stopped,
            Ending::Failed(reason()),
        ];
        for (ending, word) in all.iter().zip(Ending::WORDS) {
            assert_eq!(serde_json::to_value(ending).unwrap()["ended"], word);
            assert_eq!(ending.word(), word);
        }
    }

    #[test]
    fn figures_that_cannot_be_right_are_no_result() {
        let interface = InterfaceReport::gigabit();
        let good = SessionReport {
            seconds: 1.0,
            bits_per_second: 941e6,
            interface: Some(interface),
            ..SessionReport::of("iperf3", None)
        };
        assert_eq!(ended(&good), Ending::Complete);
        let connections =
            SessionReport { transactions: Some(7), bits_per_second: 0.0, ..good.clone() };
        assert_eq!(ended(&connections), Ending::Complete);
        for (wrong, said) in [
            (SessionReport { seconds: 0.0, ..good.clone() }, "the test has no time"),
            (SessionReport { bits_per_second: 0.0, ..good.clone() }, "no payload arrived"),
            (
                SessionReport { transactions: Some(0), ..connections },
                "no transaction was completed",
            ),
            (
                SessionReport { bits_per_second: 1e9, ..good.clone() },
                "1.000 Gb/s of payload arrived, expected at most the 941.5 Mb/s that the link can carry",
            ),
        ] {
            assert_eq!(ended(&wrong), Ending::Failed(said.to_owned()));
        }
        let mut left = SessionReport { seconds: 0.0, ..good };
        left.end(Err(Ending::ClientLeft));
        assert_eq!(left.ending, Ending::ClientLeft);
    }
}
