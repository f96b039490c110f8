//! What a far end reports of a window.

use linkrate_agent::protocol::WindowReport;

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

    /// The traffic of the programs at the far ends in a window of the system under test: what they have
    /// acknowledged in it.
    pub fn of_programs(sut: &WindowReport) -> Self {
        let Self { seconds, received_bytes, sent_bytes, .. } = Self::of(sut);
        Self { seconds, received_bytes: sent_bytes, sent_bytes: received_bytes, ..Self::default() }
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
