//! What is told of a session that has ended: one JSON line.

use std::net::SocketAddr;

use serde::Serialize;

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

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// The program whose protocol the client speaks.
    pub program: &'static str,
    /// The client.
    pub client: Option<SocketAddr>,
    /// The test by the name that its program has for it, where there are several.
    pub test: Option<&'static str>,
    /// The version that it says it has.
    pub client_version: Option<String>,
    /// `forward` from the client, `reverse` to it, or `both`; absent before it asked for a test.
    pub ways: Option<&'static str>,
    /// `tcp` or `udp`; absent before it asked for a test.
    pub transport: Option<&'static str>,
    /// Streams.
    pub streams: u32,
    /// Length of the streams without the beginning that is left out, s.
    pub seconds: f64,
    /// Octets that arrived in this time.
    pub received_bytes: u64,
    /// Octets that were sent in this time.
    pub sent_bytes: u64,
    /// Octets that arrived, bit/s; of a test in which nothing arrives here those that were sent.
    pub bits_per_second: f64,
    /// Transactions, where these were the test.
    pub transactions: Option<u64>,
    /// CPU time of the session's threads, per cent of one CPU.
    pub cpu_percent: f64,
    /// Segments that were sent again; absent where nothing is sent.
    pub retransmits: Option<u64>,
    /// What the datagrams did; absent for TCP.
    pub datagrams: Option<DatagramReport>,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
}

impl SessionReport {
    /// Of a client that has not asked for anything yet.
    pub(super) fn of(program: &'static str, client: Option<SocketAddr>) -> Self {
        Self {
            program,
            client,
            test: None,
            client_version: None,
            ways: None,
            transport: None,
            streams: 0,
            seconds: 0.0,
            received_bytes: 0,
            sent_bytes: 0,
            bits_per_second: 0.0,
            transactions: None,
            cpu_percent: 0.0,
            retransmits: None,
            datagrams: None,
            ending: Ending::ClientLeft,
        }
    }
}
