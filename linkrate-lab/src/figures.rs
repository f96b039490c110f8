//! From the agents' reports to one measurement.

use linkrate_agent::flow::latency_histogram;
use linkrate_agent::protocol::{FlowFacts, WindowReport};
use linkrate_terms::measurement::{
    AdapterEvidence, CpuUse, Effective, Evidence, Latency, LinkEvidence, SenderTimes, ThreadTime,
    Traffic,
};
use linkrate_terms::{InterfaceKnobs, Measurement, SocketKnobs, Workload};

/// Everything the hosts reported of one run.
#[derive(Debug)]
pub struct Reports {
    /// The system under test.
    pub sut: WindowReport,
    /// The clients that took part.
    pub clients: Vec<WindowReport>,
    /// Latencies as (nanoseconds, count), all clients.
    pub latency: Vec<(u64, u64)>,
    /// Sockets of the system under test; none in an idle run.
    pub flows: Option<FlowFacts>,
    /// Interface knobs as read back.
    pub interface: InterfaceKnobs,
    /// What virtual adapters counted.
    pub adapter: Option<AdapterEvidence>,
    /// The links of existing interfaces.
    pub links: Vec<LinkEvidence>,
    /// Whether both roles share their CPUs.
    pub shared_cpus: bool,
}

/// Makes one measurement of all reports.
pub fn measurement(
    workload: Option<&Workload>,
    socket: &SocketKnobs,
    mut reports: Reports,
) -> Measurement {
    let traffic = workload.map_or_else(Traffic::default, |workload| traffic(workload, &reports));
    let mut client_cpu = empty_like(&reports.sut.cpu);
    let mut sut_cpu = reports.sut.cpu.clone();
    for (number, client) in reports.clients.iter_mut().enumerate() {
        client_cpu.cpus.append(&mut client.cpu.cpus);
        client_cpu.others.append(&mut client.cpu.others);
        client_cpu.threads.extend(client.cpu.threads.drain(..).map(|thread| ThreadTime {
            name: format!("client {number}: {}", thread.name),
            ..thread
        }));
    }
    sut_cpu.shared = reports.shared_cpus;
    client_cpu.shared = reports.shared_cpus;
    let remarks = remarks(workload, &reports);
    let facts = reports.flows.clone().unwrap_or_default();
    let client_senders =
        reports.clients.iter().fold(SenderTimes::default(), |sum, report| sum.plus(report.senders));
    Measurement {
        traffic,
        latency: percentiles(&reports.latency),
        sut_cpu,
        client_cpu,
        effective: Effective {
            interface: reports.interface,
            socket: SocketKnobs {
                buffer: socket.buffer,
                congestion: facts.congestion.clone(),
                nodelay: facts.nodelay,
            },
            granted_send_buffer_bytes: facts.send_buffer_bytes,
            granted_receive_buffer_bytes: facts.receive_buffer_bytes,
            mss_bytes: facts.mss_bytes,
        },
        evidence: Evidence {
            interface: reports.sut.interface,
            protocol: reports.sut.protocol,
            senders: reports.sut.senders.plus(client_senders),
            client_senders: Some(client_senders),
            receive_packets_by_cpu: reports.sut.receive_packets_by_cpu,
            adapter: reports.adapter.map(Box::new),
            links: reports.links,
        },
        profile: reports.sut.profile,
        remarks,
    }
}

fn empty_like(cpu: &CpuUse) -> CpuUse {
    CpuUse {
        cpus: Vec::new(),
        threads: Vec::new(),
        source: cpu.source,
        shared: cpu.shared,
        others: Vec::new(),
    }
}

fn seconds(report: &WindowReport) -> f64 {
    (report.ended_ns - report.started_ns) as f64 / 1e9
}

/// Throughput is what receivers got: of what the SUT sent, the clients' bytes over the clients'
/// windows; of what they sent, the SUT's over its own.
fn traffic(workload: &Workload, reports: &Reports) -> Traffic {
    let clients = &reports.clients;
    let mean_seconds = clients.iter().map(seconds).sum::<f64>() / clients.len().max(1) as f64;
    let received: u64 = total(clients, |report| report.received_bytes);
    let sent: u64 = total(clients, |report| report.sent_bytes);
    let transactional = workload.kind.is_transactional();
    let udp_stream = workload.kind.is_udp() && !transactional;
    // the hosts' windows differ by some milliseconds, in which many datagrams fit: what was sent is
    // scaled to the window of who received
    let scaled = |bytes: u64, from: f64, to: f64| {
        if from > 0.0 { bytes as f64 * to / from } else { 0.0 }
    };
    let (sut_seconds, sut) = (seconds(&reports.sut), &reports.sut);
    let sent_down = scaled(sut.sent_bytes, sut_seconds, mean_seconds);
    let sent_up = scaled(sent, mean_seconds, sut_seconds);
    let sent_bytes = if udp_stream { (sent_down + sent_up) as u64 } else { 0 };
    let lost_bytes = ((sent_down - received as f64).max(0.0)
        + (sent_up - sut.received_bytes as f64).max(0.0)) as u64;
    let datagram = workload.udp_segment.map_or_else(
        || (workload.message.smallest().0 + workload.message.largest().0) / 2,
        |segment| segment.0,
    );
    let timeouts: u64 = total(clients, |report| report.timeouts);
    Traffic {
        transmit_bytes: received,
        receive_bytes: reports.sut.received_bytes,
        transmit_seconds: mean_seconds,
        receive_seconds: seconds(&reports.sut),
        transactions: total(clients, |report| report.transactions),
        transaction_seconds: if transactional { mean_seconds } else { 0.0 },
        lost_datagrams: match (workload.kind.is_udp(), transactional) {
            (false, _) => 0,
            (true, true) => timeouts,
            (true, false) => lost_bytes / datagram.max(1),
        },
        sent_datagrams: sent_bytes / datagram.max(1),
    }
}

/// A counter of all hosts, never past the largest number whatever they say.
fn total(reports: &[WindowReport], counter: fn(&WindowReport) -> u64) -> u64 {
    reports.iter().map(counter).fold(0, u64::saturating_add)
}

/// Percentiles of the latencies of all clients together.
fn percentiles(latency: &[(u64, u64)]) -> Option<Latency> {
    let mut histogram = latency_histogram();
    for (value, count) in latency {
        histogram.saturating_record_n(*value, *count);
    }
    (!histogram.is_empty()).then(|| Latency {
        count: histogram.len(),
        mean_ns: histogram.mean(),
        min_ns: histogram.min(),
        p50_ns: histogram.value_at_quantile(0.5),
        p90_ns: histogram.value_at_quantile(0.9),
        p99_ns: histogram.value_at_quantile(0.99),
        p99_9_ns: histogram.value_at_quantile(0.999),
        p99_99_ns: histogram.value_at_quantile(0.9999),
        max_ns: histogram.max(),
    })
}

fn remarks(workload: Option<&Workload>, reports: &Reports) -> Vec<String> {
    let mut remarks = Vec::new();
    let ends = || std::iter::once(&reports.sut).chain(&reports.clients);
    let completed = ends().map(|report| report.zerocopy_completed).fold(0, u64::saturating_add);
    let copied = ends().map(|report| report.zerocopy_copied).fold(0, u64::saturating_add);
    if copied > 0 {
        remarks.push(format!(
            "the kernel copied {copied} of {completed} sends that asked for MSG_ZEROCOPY: \
             packets that stay on this machine are copied for their receiver"
        ));
    }
    let timeouts = total(&reports.clients, |report| report.timeouts);
    if timeouts > 0 && workload.is_some_and(|workload| workload.kind.is_udp()) {
        remarks.push(format!("{timeouts} requests were not answered in time and asked again"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_clients_together() {
        let latency = percentiles(&[(1000, 98), (5000, 1), (9000, 1)]).unwrap();
        assert_eq!((latency.count, latency.min_ns), (100, 1000));
        assert!(latency.p50_ns.abs_diff(1000) <= 1);
        assert!(latency.p99_ns.abs_diff(5000) <= 5);
        assert!(latency.max_ns.abs_diff(9000) <= 9);
        assert!(percentiles(&[]).is_none());
    }
}
