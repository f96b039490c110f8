//! A run that another program measured, as its output tells it.
//!
//! Everything that the output does not report is absent, and never zero. Rates are those that the
//! program printed: most programs print no counts from which they could be computed again.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::knobs::Family;
use crate::latency::LatencyFigures;
use crate::workload::{Direction, Item, Protocol, SendPath};

/// Most samples of one series that are kept.
pub const MAX_SAMPLES: usize = 4096;

/// Most series of one run that are kept.
pub const MAX_SERIES: usize = 256;

/// One run of another program. The *system under test* is the machine on which the program wrote its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Name of the file, without its directories.
    pub file: String,
    /// Where in the file the run is (`line 7`); absent where the file has one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The program, with its version where the file tells it (`iperf 3.12`).
    pub program: String,
    /// The test, as the program calls it (`TCP_STREAM`).
    pub test: String,
    /// The name of the test, which the outputs of both its ends have alike (iperf3's cookie).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// When it began, milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ms: Option<u64>,
    /// What was asked.
    pub asked: Asked,
    /// What was found.
    pub found: Found,
    /// Figures over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Facts of the host by name, as the file tells them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Sentences that a reader of the figures needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Imported {
    /// A number that copies of an output share, whatever file they are in.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let alike = Self { file: String::new(), place: None, ..self.clone() };
        let mut hasher = DefaultHasher::new();
        format!("{alike:?}").hash(&mut hasher);
        hasher.finish()
    }
}

/// What was asked of the program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// The shape of the exchange.
    pub kind: Protocol,
    /// Which way payload flows, seen from the system under test.
    pub direction: Direction,
    /// The IP that carried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Connections, or datagram flows, in each loaded direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Bytes of one message or datagram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// Bytes of one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// Bytes of one response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<u64>,
    /// Requests outstanding on each connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// How payload enters the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_path: Option<SendPath>,
    /// Socket buffers that were asked for, bytes; 0 where the kernel was to tune them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u64>,
    /// Congestion control of the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// TCP_NODELAY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// The rate that senders were held to, bit/s; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Traffic before the measurement, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_seconds: Option<f64>,
}

impl Asked {
    /// A test of this kind of which nothing else is known.
    #[must_use]
    pub fn of(kind: Protocol, direction: Direction) -> Self {
        Self { kind, direction, ..Self::default() }
    }
}

/// What the program found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Found {
    /// The length of the measurement, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Payload that the peer received, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_bits_per_second: Option<f64>,
    /// Payload that the system under test received, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_bits_per_second: Option<f64>,
    /// Completed transactions per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
    /// Datagrams sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_datagrams: Option<u64>,
    /// Datagrams sent and not received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_datagrams: Option<u64>,
    /// Latency of transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyFigures>,
    /// Busy share of all CPUs of the system under test, per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Busy share of all CPUs of the peer, per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_percent: Option<f64>,
    /// CPU time of the system under test in µs for each 1024 bytes of payload, or for each transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_demand_us: Option<f64>,
    /// Retransmitted segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// SO_SNDBUF of the sockets of the system under test as granted, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF of the sockets of the system under test as granted, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_receive_buffer_bytes: Option<u64>,
    /// TCP maximum segment size, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
}

impl Found {
    /// Received payload in bit/s, both directions together; `None` where neither is known.
    pub fn bits_per_second(&self) -> Option<f64> {
        let ways = [self.transmit_bits_per_second, self.receive_bits_per_second];
        ways.into_iter().flatten().reduce(|transmit, receive| transmit + receive)
    }

    /// Datagrams lost in per cent of those sent.
    pub fn lost_percent(&self) -> Option<f64> {
        let sent = self.sent_datagrams.filter(|sent| *sent > 0)?;
        Some(self.lost_datagrams? as f64 * 100.0 / sent as f64)
    }
}

/// One figure over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name (`flow 1`).
    pub name: String,
    /// Unit of its values (`bit/s`).
    pub unit: String,
    /// Moments in seconds since the begin of the test, with their values; a moment without one has none.
    pub samples: Vec<(f64, Option<f64>)>,
}

impl Imported {
    /// Whether its unit of work is a transaction.
    pub fn is_transactional(&self) -> bool {
        self.asked.kind.item() == Some(Item::Transaction)
    }

    /// Where it comes from: `tcp.csv, line 7`.
    pub fn source(&self) -> String {
        match &self.place {
            Some(place) => format!("{}, {place}", self.file),
            None => self.file.clone(),
        }
    }

    /// What its output does not report on what a run of linkrate measures, in words, in a fixed order.
    pub fn lacks(&self) -> Vec<&'static str> {
        let found = &self.found;
        let transactional = self.is_transactional();
        let latency = found.latency.unwrap_or_default();
        let is_tcp = !self.asked.kind.is_udp();
        let of = [
            ("CPU use of the system under test", found.cpu_percent.is_some()),
            ("service demand", found.service_demand_us.is_some()),
            ("CPU use of the clients", found.client_cpu_percent.is_some()),
            ("latency", !transactional || latency.is_known()),
            (
                "latency percentiles above the 99th",
                !transactional || !latency.is_known() || latency.p99_99_ns.is_some(),
            ),
            ("lost datagrams", is_tcp || transactional || found.lost_datagrams.is_some()),
            ("retransmissions", !is_tcp || found.retransmits.is_some()),
            ("granted socket buffers", found.granted_send_buffer_bytes.is_some()),
            ("MSS", !is_tcp || found.mss_bytes.is_some()),
            ("warm-up", self.asked.warm_up_seconds.is_some()),
            ("time of day", self.started_unix_ms.is_some()),
        ];
        of.into_iter().filter(|(_, known)| !known).map(|(what, _)| what).collect()
    }
}
