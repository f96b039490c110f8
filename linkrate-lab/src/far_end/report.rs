//! What a far end reports of a window.

use linkrate_agent::protocol::WindowReport;
use linkrate_terms::told::{Told, ToldDatagrams, ToldWay};

/// The report of a far end.
#[derive(Debug, Clone, PartialEq)]
pub enum FarEndReport {
    /// An agent's: traffic, CPU time, counters, sockets, latencies.
    Everything(Box<WindowReport>),
    /// A foreign program's, such as netperf or iperf3: traffic alone.
    Traffic(TrafficReport),
}

/// The traffic of a far end, counted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrafficReport {
    /// Length of its window, by its own clock.
    pub seconds: f64,
    /// Payload bytes it received.
    pub received_bytes: u64,
    /// Payload bytes it sent.
    pub sent_bytes: u64,
    /// Transactions it completed.
    pub transactions: u64,
    /// UDP transactions it gave up after a time-out.
    pub timeouts: u64,
}

impl FarEndReport {
    /// Its traffic, which every far end reports.
    pub fn traffic(&self) -> TrafficReport {
        match self {
            Self::Everything(report) => TrafficReport::of(report),
            Self::Traffic(traffic) => *traffic,
        }
    }

    /// The report of an agent; `None` from a foreign program.
    pub fn everything(&self) -> Option<&WindowReport> {
        match self {
            Self::Everything(report) => Some(report),
            Self::Traffic(_) => None,
        }
    }
}

impl TrafficReport {
    /// The traffic in an agent's report.
    pub fn of(report: &WindowReport) -> Self {
        Self {
            seconds: (report.ended_ns - report.started_ns) as f64 / 1e9,
            received_bytes: report.received_bytes,
            sent_bytes: report.sent_bytes,
            transactions: report.transactions,
            timeouts: report.timeouts,
        }
    }

    /// The traffic of the programs at the far ends in a window of the system under test. Of TCP it is what they have
    /// acknowledged in it. Of datagrams they tell what arrived in the whole test, and the part of the window is taken
    /// for the same.
    pub fn of_programs(sut: &WindowReport, told: &[Told]) -> Self {
        let Self { seconds, received_bytes, sent_bytes, timeouts, .. } = Self::of(sut);
        let arrived = |way: fn(&ToldDatagrams) -> ToldWay| {
            let all = told.iter().filter_map(|told| told.datagrams.as_ref()).map(way);
            all.fold(ToldWay::default(), ToldWay::plus).arrived()
        };
        let [down, up] = [arrived(|told| told.from_sut), arrived(|told| told.to_sut)];
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
    pub fn of_part(report: &WindowReport, number: usize) -> Self {
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

impl From<WindowReport> for FarEndReport {
    fn from(report: WindowReport) -> Self {
        Self::Everything(Box::new(report))
    }
}

/// The reports of agents, that of the system under test first.
pub(crate) fn agents<'a>(
    sut: &'a WindowReport,
    clients: &'a [FarEndReport],
) -> impl Iterator<Item = &'a WindowReport> {
    std::iter::once(sut).chain(clients.iter().filter_map(FarEndReport::everything))
}
