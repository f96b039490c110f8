//! What a peer reports of a measurement.

use linkrate_model::peer_report::{PeerDatagrams, PeerDirection, PeerReport};
use linkrate_protocol::MeasurementReport;

#[derive(Debug, Clone, PartialEq)]
pub enum PeerMeasurement {
    /// An agent's: traffic, CPU time, counters, sockets, latencies.
    Everything(Box<MeasurementReport>),
    /// A third-party program's, such as netperf or iperf3: traffic alone.
    Traffic(TrafficReport),
}

/// The traffic of a peer, counted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrafficReport {
    /// Length of its measurement, by its own clock.
    pub seconds: f64,
    /// Payload bytes it received.
    pub received_bytes: u64,
    /// Payload bytes it sent.
    pub sent_bytes: u64,
    pub transactions: u64,
    /// UDP transactions it gave up after a time-out.
    pub timeouts: u64,
}

impl PeerMeasurement {
    /// Its traffic, which every peer reports.
    pub fn traffic(&self) -> TrafficReport {
        match self {
            Self::Everything(report) => TrafficReport::of(report),
            Self::Traffic(traffic) => *traffic,
        }
    }

    /// The report of an agent; `None` from a third-party program.
    pub fn everything(&self) -> Option<&MeasurementReport> {
        match self {
            Self::Everything(report) => Some(report),
            Self::Traffic(_) => None,
        }
    }
}

impl TrafficReport {
    /// The traffic in an agent's report.
    pub fn of(report: &MeasurementReport) -> Self {
        Self {
            seconds: (report.ended_ns - report.started_ns) as f64 / 1e9,
            received_bytes: report.received_bytes,
            sent_bytes: report.sent_bytes,
            transactions: report.transactions,
            timeouts: report.timeouts,
        }
    }

    /// The traffic of the programs at the peers in a measurement of the system under test. Of TCP it is what they have
    /// acknowledged in it. Of datagrams they tell what arrived in the whole test, and the part of the window is taken
    /// for the same.
    pub fn of_programs(sut: &MeasurementReport, reported: &[PeerReport]) -> Self {
        let Self { seconds, received_bytes, sent_bytes, timeouts, .. } = Self::of(sut);
        let arrived = |way: fn(&PeerDatagrams) -> PeerDirection| {
            let all = reported.iter().filter_map(|reported| reported.datagrams.as_ref()).map(way);
            all.fold(PeerDirection::default(), PeerDirection::plus).arrived()
        };
        let [down, up] =
            [arrived(|reported| reported.from_sut), arrived(|reported| reported.to_sut)];
        Self {
            seconds,
            received_bytes: (sent_bytes as f64 * down.unwrap_or(1.0)).round() as u64,
            sent_bytes: match up.filter(|part| *part > 0.0) {
                Some(part) => (received_bytes as f64 / part).round() as u64,
                None => received_bytes,
            },
            timeouts,
            ..Self::default()
        }
    }

    /// The traffic of one workload of a mix. An agent whose flows all run the first workload does not
    /// tell workloads apart.
    pub fn of_part(report: &MeasurementReport, number: usize) -> Self {
        let all = Self::of(report);
        if report.parts.is_empty() && number == 0 {
            return all;
        }
        let part = report.parts.get(number).copied().unwrap_or_default();
        Self {
            seconds: all.seconds,
            received_bytes: part.received_bytes,
            sent_bytes: part.sent_bytes,
            transactions: part.transactions,
            timeouts: part.timeouts,
        }
    }
}

impl From<MeasurementReport> for PeerMeasurement {
    fn from(report: MeasurementReport) -> Self {
        Self::Everything(Box::new(report))
    }
}

/// The reports of agents, that of the system under test first.
pub(crate) fn agents<'a>(
    sut: &'a MeasurementReport,
    clients: &'a [PeerMeasurement],
) -> impl Iterator<Item = &'a MeasurementReport> {
    std::iter::once(sut).chain(clients.iter().filter_map(PeerMeasurement::everything))
}
