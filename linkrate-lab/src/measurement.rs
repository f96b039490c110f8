//! One measurement out of the reports of all hosts.

use hdrhistogram::Histogram;
use linkrate_agent::flow::latency_histogram;
use linkrate_model::discipline;
use linkrate_model::evidence::{ClientPart, FlowEnds};
use linkrate_model::measurement::{
    AdapterEvidence, CpuUse, Effective, Evidence, InterfaceCounts, Interval, Latency, LinkEvidence,
    PartMeasured, SenderTimes, ThreadTime, Traffic,
};
use linkrate_model::mix::MixPart;
use linkrate_model::peer_report::{PeerDatagrams, PeerReport};
use linkrate_model::{CpuSet, Event, InterfaceKnobs, Measurement, SocketKnobs, Workload};
use linkrate_protocol::{FlowFacts, IntervalReport, Latencies, MeasurementReport, PartReport};
use linkrate_study::latencies;

use crate::executor::event::Seen;
use crate::failure;
use crate::peer::{PeerMeasurement, TrafficReport, agents};

#[derive(Debug)]
pub struct Reports {
    pub sut: MeasurementReport,
    /// The clients that took part.
    pub clients: Vec<PeerMeasurement>,
    /// Latencies of all clients.
    pub latency: Latencies,
    /// The same of each workload of a mix; empty without one.
    pub parts: Vec<Latencies>,
    /// Sockets of the system under test; `None` in an idle run.
    pub flows: Option<FlowFacts>,
    /// The flows by their addresses; empty unless the run was on an aggregate.
    pub by_address: Vec<FlowEnds>,
    /// Interface knobs as read back.
    pub interface: InterfaceKnobs,
    pub adapter: Option<AdapterEvidence>,
    /// The event of the run, and what the controller saw of it.
    pub(crate) event: Option<(Event, Seen)>,
    /// The links of existing interfaces.
    pub links: Vec<LinkEvidence>,
    /// Flows that did not move steadily when the measurement began.
    pub unsettled_flows: u32,
    /// What third-party programs at the peers told.
    pub told: Vec<PeerReport>,
    /// Whether both roles share their CPUs.
    pub shared_cpus: bool,
}

pub fn of_reports(
    workload: Option<&Workload>,
    socket: &SocketKnobs,
    reports: Reports,
) -> Measurement {
    let (sut, peers) = (TrafficReport::of(&reports.sut), traffic_of_clients(&reports));
    let traffic =
        workload.map_or_else(Traffic::default, |workload| traffic_between(workload, &sut, &peers));
    let parts = workload.map_or_else(Vec::new, |workload| parts(workload, &reports));
    // times of different things have no percentiles together
    let timed = workload.is_none_or(|workload| workload.timed_item().is_some());
    let mut client_cpu = empty_like(&reports.sut.cpu);
    let mut sut_cpu = reports.sut.cpu.clone();
    for (number, client) in reports.clients.iter().enumerate() {
        let Some(report) = client.everything() else { continue };
        client_cpu.cpus.extend_from_slice(&report.cpu.cpus);
        client_cpu.background.extend_from_slice(&report.cpu.background);
        client_cpu.threads.extend(report.cpu.threads.iter().map(|thread| ThreadTime {
            name: format!("client {number}: {}", thread.name),
            ..thread.clone()
        }));
    }
    sut_cpu.shared = reports.shared_cpus;
    let adapter = reports.adapter.as_ref();
    let drivers = adapter.map_or(&[][..], |adapter| &adapter.driver_threads);
    let devices = adapter.map_or(&[][..], |adapter| &adapter.device_threads);
    sut_cpu.own_threads_ns = own_threads_ns(&sut_cpu, drivers);
    client_cpu.own_threads_ns = own_threads_ns(&client_cpu, devices);
    client_cpu.shared = reports.shared_cpus;
    let remarks = remarks(workload, &reports);
    let failure = reports.event.clone().map(|(event, seen)| {
        Box::new(failure::of_reports(event, seen, agents(&reports.sut, &reports.clients)))
    });
    let facts = reports.flows.clone().unwrap_or_default();
    let [disciplines_opened, disciplines_closed] = &reports.sut.disciplines;
    let known: Vec<_> = reports.clients.iter().map(PeerMeasurement::everything).collect();
    let client_disciplines = known.iter().enumerate().filter_map(|(number, report)| {
        let [opened, closed] = &report.as_ref()?.disciplines;
        Some(discipline::of_client(number, &discipline::over_measurement(opened, closed)))
    });
    let client_disciplines = client_disciplines.flatten().collect();
    // clients of a testbed that linkrate makes are all alike, and would make each stored run longer
    let apart = !reports.links.is_empty() && known.len() > 1 && known.iter().all(Option::is_some);
    let client_parts = known.iter().flatten().filter(|_| apart).map(client_part).collect();
    let of_clients = known.iter().flatten().map(|report| report.interface);
    let client_interface = (!reports.links.is_empty() && known.iter().any(Option::is_some))
        .then(|| of_clients.fold(InterfaceCounts::default(), InterfaceCounts::plus));
    let client_senders =
        known.iter().flatten().fold(SenderTimes::default(), |sum, report| sum.plus(report.senders));
    let (latency, histogram) = match timed {
        true => latencies_of_reports(&reports.latency),
        false => (None, None),
    };
    Measurement {
        traffic,
        latency,
        histogram,
        intervals: intervals_of_reports(&reports.sut, &reports.clients),
        parts,
        sut_cpu,
        client_cpu,
        effective: Effective {
            interface: reports.interface,
            socket: SocketKnobs {
                buffer: socket.buffer,
                congestion: facts.congestion.clone(),
                nodelay: facts.nodelay,
                family: facts.family,
            },
            granted_send_buffer_bytes: facts.send_buffer_bytes,
            granted_receive_buffer_bytes: facts.receive_buffer_bytes,
            mss_bytes: facts.mss_bytes,
        },
        evidence: Evidence {
            interface: reports.sut.interface,
            client_interface,
            protocol: reports.sut.protocol,
            senders: reports.sut.senders.plus(client_senders),
            client_senders: known.iter().all(Option::is_some).then_some(client_senders),
            client_receive_batches: known
                .iter()
                .flatten()
                .map(|report| report.receive_batches)
                .sum(),
            receive_packets_by_cpu: reports.sut.receive_packets_by_cpu,
            adapter: reports.adapter.map(Box::new),
            links: reports.links,
            unsettled_flows: reports.unsettled_flows,
            clients: client_parts,
            flows: reports.by_address,
            disciplines: discipline::over_measurement(disciplines_opened, disciplines_closed),
            client_disciplines,
            peer_reports: reports.told,
        },
        profile: reports.sut.profile,
        failure,
        remarks,
    }
}

fn client_part(report: &&MeasurementReport) -> ClientPart {
    let traffic = TrafficReport::of(report);
    ClientPart {
        seconds: traffic.seconds,
        sent_bytes: traffic.sent_bytes,
        received_bytes: traffic.received_bytes,
        transactions: traffic.transactions,
        retransmits: report.senders.retransmits,
    }
}

/// Largest skew between thread times and the CPU measurement, both edges together, ns per CPU.
const EDGES_NS: u64 = 4_000_000;

/// CPU time that linkrate's own threads had of the CPUs of a role, at least: those of its agents and, as
/// `threads`, those of the adapters. A thread that may run on other CPUs does not count.
fn own_threads_ns(cpu: &CpuUse, threads: &[ThreadTime]) -> u64 {
    let cpus: CpuSet = cpu.cpus.iter().map(|cpu| cpu.cpu).collect();
    let is_here = |thread: &&ThreadTime| {
        !thread.affinity.is_empty() && thread.affinity.iter().all(|cpu| cpus.contains(cpu))
    };
    let sum = |threads: &[ThreadTime]| {
        let here = threads.iter().filter(is_here);
        here.fold(0, |sum: u64, thread| sum.saturating_add(thread.cpu_ns))
    };
    let edges_ns = EDGES_NS * cpus.len() as u64;
    let (of_agents, of_adapters) = (sum(&cpu.threads), sum(threads));
    // an agent knows its own edges
    let reported = cpu.own_threads_ns.saturating_add(of_adapters.saturating_sub(edges_ns));
    reported.max(of_agents.saturating_add(of_adapters).saturating_sub(edges_ns))
}

fn empty_like(cpu: &CpuUse) -> CpuUse {
    CpuUse {
        cpus: Vec::new(),
        threads: Vec::new(),
        source: cpu.source,
        shared: cpu.shared,
        background: Vec::new(),
        own_threads_ns: 0,
        parts: None,
    }
}

/// Throughput is the payload that receivers got: of the SUT's payload, the clients' bytes over the
/// clients' measurements; of the clients' payload, the SUT's bytes over its own measurement.
fn traffic_between(workload: &Workload, sut: &TrafficReport, clients: &[TrafficReport]) -> Traffic {
    let total = |counter| total(clients, counter);
    let seconds = clients.iter().map(|client| client.seconds).sum::<f64>();
    let mean_seconds = seconds / clients.len().max(1) as f64;
    let (received, sent) =
        (total(|client| client.received_bytes), total(|client| client.sent_bytes));
    let transactional = workload.kind.is_transactional();
    let udp_stream = workload.kind.is_udp() && !transactional;
    // the hosts' measurements differ by some milliseconds, in which many datagrams fit: sent bytes are
    // scaled to the window of the receiver
    let scaled = |bytes: u64, from: f64, to: f64| {
        if from > 0.0 { bytes as f64 * to / from } else { 0.0 }
    };
    let sent_down = scaled(sut.sent_bytes, sut.seconds, mean_seconds);
    let sent_up = scaled(sent, mean_seconds, sut.seconds);
    let sent_bytes = if udp_stream { (sent_down + sent_up) as u64 } else { 0 };
    // datagrams on their way at the edges make it negative as often as they make it too large
    let lost_bytes = sent_down - received as f64 + sent_up - sut.received_bytes as f64;
    let datagram = workload.udp_segment.map_or_else(
        || (workload.message.smallest().0 + workload.message.largest().0) / 2,
        |segment| segment.0,
    );
    Traffic {
        transmit_bytes: received,
        receive_bytes: sut.received_bytes,
        transmit_seconds: mean_seconds,
        receive_seconds: sut.seconds,
        // counted where they begin, which of transfers may be the SUT
        transactions: total(|client| client.transactions).saturating_add(sut.transactions),
        transaction_seconds: if workload.item().is_some() { mean_seconds } else { 0.0 },
        lost_datagrams: match (workload.kind.is_udp(), transactional) {
            (false, _) => 0,
            (true, true) => i64::try_from(total(|client| client.timeouts)).unwrap_or(i64::MAX),
            (true, false) => (lost_bytes / datagram.max(1) as f64) as i64,
        },
        sent_datagrams: sent_bytes / datagram.max(1),
    }
}

fn traffic_of_clients(reports: &Reports) -> Vec<TrafficReport> {
    reports.clients.iter().map(PeerMeasurement::traffic).collect()
}

/// What each workload of a mix did.
fn parts(workload: &Workload, reports: &Reports) -> Vec<PartMeasured> {
    let of = |(number, part): (usize, &MixPart)| {
        let sut = TrafficReport::of_part(&reports.sut, number);
        // a third-party program runs one workload, which no mix has
        let clients = reports.clients.iter().filter_map(PeerMeasurement::everything);
        let clients: Vec<_> =
            clients.map(|report| TrafficReport::of_part(report, number)).collect();
        let timed = reports.parts.get(number).map(latencies_of_reports);
        let (latency, histogram) = timed.unwrap_or_default();
        let traffic = traffic_between(&part.workload, &sut, &clients);
        PartMeasured { traffic, latency, histogram }
    };
    workload.mix.iter().enumerate().map(of).collect()
}

/// A counter of all peers together; the sum stays at the largest number, whatever they report.
fn total(reports: &[TrafficReport], counter: fn(&TrafficReport) -> u64) -> u64 {
    reports.iter().map(counter).fold(0, u64::saturating_add)
}

/// What is known of third-party programs.
fn reported(reported: &[PeerReport]) -> String {
    let each = reported.iter().map(|reported| {
        let cpu = reported.cpu_percent.zip(reported.cpu_method.as_ref());
        let cpu = cpu.map(|(percent, method)| format!(", CPU {percent:.1} % ({method})"));
        let resent = reported.retransmits.map(|count| format!(", {count} segments sent again"));
        let bytes = reported.bytes;
        let (cpu, resent) = (cpu.unwrap_or_default(), resent.unwrap_or_default());
        let lost = reported.datagrams.as_ref().map(lost).unwrap_or_default();
        // iperf 3.1 tells no time
        let time = Some(reported.seconds).filter(|seconds| *seconds > 0.0);
        let time = time.map(|seconds| format!(" in {seconds:.2} s")).unwrap_or_default();
        let omitted = match reported.omitted_seconds {
            0 => String::new(),
            seconds => format!(" behind the first {seconds} s"),
        };
        format!("{} counted {bytes} B{time}{omitted}{cpu}{resent}{lost}", reported.program)
    });
    let each = each.collect::<Vec<_>>().join("; ");
    match reported.iter().any(|reported| reported.datagrams.is_some()) {
        false => format!(
            "payload to third-party programs is what they acknowledged during the measurement; of the whole test, {each}"
        ),
        true => format!(
            "what third-party programs lose during the measurement is not known: it is taken for the same part as in the \
             whole test, of which {each}"
        ),
    }
}

/// What was lost of datagrams.
fn lost(reported: &PeerDatagrams) -> String {
    let ways = [("to it", reported.from_sut), ("from it", reported.to_sut)];
    let lost = ways.into_iter().filter_map(|(way, both)| {
        both.arrived().map(|arrived| format!(", {:.2} % {way} lost", (1.0 - arrived) * 100.0))
    });
    let jitter = reported.jitter_seconds.map(|seconds| format!(", jitter {:.3} ms", seconds * 1e3));
    lost.chain(jitter).collect()
}

fn remarks(workload: Option<&Workload>, reports: &Reports) -> Vec<String> {
    let mut remarks = Vec::new();
    let completed = agents(&reports.sut, &reports.clients)
        .map(|report| report.zerocopy_completed)
        .fold(0, u64::saturating_add);
    let copied = agents(&reports.sut, &reports.clients)
        .map(|report| report.zerocopy_copied)
        .fold(0, u64::saturating_add);
    if copied > 0 {
        remarks.push(format!(
            "the kernel copied {copied} of {completed} sends that asked for MSG_ZEROCOPY: \
             packets that stay on this machine are copied for their receiver"
        ));
    }
    for (number, client) in reports.clients.iter().enumerate() {
        if client.everything().is_none() {
            remarks.push(match reports.told.is_empty() {
                true => format!(
                    "client {number} reports its traffic alone: its CPU use, sockets and latencies are \
                     unknown"
                ),
                false => reported(&reports.told),
            });
        }
    }
    let traffic: Vec<_> = reports.clients.iter().map(PeerMeasurement::traffic).collect();
    let timeouts = total(&traffic, |client| client.timeouts);
    if timeouts > 0 && workload.is_some_and(|workload| workload.kind.is_udp()) {
        remarks.push(format!(
            "{timeouts} requests had no answer in time: they are in the tail of the latencies, and others \
             took their place"
        ));
    }
    remarks
}

/// Figures of latencies, and their histogram as it is stored; neither where there are none.
pub fn latencies_of_reports(reported: &Latencies) -> (Option<Latency>, Option<Box<str>>) {
    let histogram = histogram_of(&reported.all);
    let open_share = latencies::open_share(&reported.all, &reported.open);
    let figures = latencies::figures(&histogram).map(|of| of.with_open_share(open_share));
    (figures, latencies::encoded(&histogram))
}

fn histogram_of(steps: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = latency_histogram();
    for (value, count) in steps {
        histogram.saturating_record_n(*value, *count);
    }
    histogram
}

/// The intervals of the system under test, with what the clients counted in theirs.
///
/// Each agent reads its counters when its thread gets the CPU, so intervals of the same number differ by some
/// 0.1 ms. What a client counted is scaled to the length that the interval has on the system under test.
pub fn intervals_of_reports(sut: &MeasurementReport, clients: &[PeerMeasurement]) -> Vec<Interval> {
    let known: Vec<&MeasurementReport> =
        clients.iter().filter_map(PeerMeasurement::everything).collect();
    let all_known = known.len() == clients.len();
    let lengths = |of: &[IntervalReport], number: usize| {
        let begin_ns =
            number.checked_sub(1).and_then(|before| of.get(before)).map_or(0, |one| one.end_ns);
        of.get(number).map(|one| one.end_ns.saturating_sub(begin_ns))
    };
    let of_clients = |number: usize, count: fn(&PartReport) -> u64| -> u64 {
        let length = lengths(&sut.intervals, number).unwrap_or(0) as f64;
        known.iter().fold(0, |sum: u64, client| {
            let own = lengths(&client.intervals, number).filter(|own| *own > 0);
            let Some((own, interval)) = own.zip(client.intervals.get(number)) else { return sum };
            sum.saturating_add((count(&interval.moved) as f64 * length / own as f64).round() as u64)
        })
    };
    let arrived: u64 = clients.iter().map(|client| client.traffic().received_bytes).sum();
    // of datagrams, a part of what was sent
    let arrived = if sut.sent_bytes > 0 { arrived as f64 / sut.sent_bytes as f64 } else { 1.0 };
    let of_sut = sut.intervals.iter().enumerate();
    of_sut
        .map(|(number, interval)| Interval {
            end_ns: interval.end_ns,
            // third-party programs tell nothing of single intervals
            transmit_bytes: match all_known {
                true => of_clients(number, |moved| moved.received_bytes),
                false => (interval.moved.sent_bytes as f64 * arrived).round() as u64,
            },
            receive_bytes: interval.moved.received_bytes,
            transactions: interval
                .moved
                .transactions
                .saturating_add(of_clients(number, |moved| moved.transactions)),
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use linkrate_model::measurement::{CpuTime, IdleSource};

    use super::*;
    use crate::peer::TrafficReport;

    /// An agent's report of a second in which it sent and received so much.
    pub(crate) fn interval(sent_bytes: u64, received_bytes: u64) -> MeasurementReport {
        MeasurementReport {
            started_ns: 0,
            ended_ns: 1_000_000_000,
            stalled_ns: 0,
            received_bytes,
            sent_bytes,
            transactions: 0,
            timeouts: 0,
            cpu: CpuUse {
                cpus: Vec::new(),
                threads: vec![ThreadTime {
                    name: "flow".to_owned(),
                    cpu_ns: 1,
                    user_ns: 1,
                    affinity: linkrate_model::CpuSet::default(),
                }],
                source: IdleSource::TimerList,
                shared: false,
                background: Vec::new(),
                own_threads_ns: 0,
                parts: None,
            },
            interface: InterfaceCounts::default(),
            protocol: BTreeMap::new(),
            senders: SenderTimes { sockets: 1, ..SenderTimes::default() },
            receive_packets_by_cpu: BTreeMap::new(),
            receive_batches: 0,
            zerocopy_copied: 0,
            zerocopy_completed: 0,
            disciplines: Default::default(),
            forks: 0,
            profile: None,
            intervals: Vec::new(),
            record: None,
            parts: Vec::new(),
            broken: None,
        }
    }

    #[test]
    fn the_own_time_of_a_role_is_that_of_threads_that_run_nowhere_else() {
        let thread = |cpus: &[u32], cpu_ns| ThreadTime {
            name: "drv 0".to_owned(),
            affinity: cpus.iter().copied().collect(),
            cpu_ns,
            user_ns: 0,
        };
        let cpu = |cpu| CpuTime { cpu, interval_ns: 0, busy_ns: 0, steal_ns: 0, uncertainty_ns: 0 };
        let mut cpu = CpuUse { cpus: vec![cpu(2), cpu(3)], ..interval(0, 0).cpu };
        cpu.threads = vec![thread(&[2], 30_000_000), thread(&[2, 3], 20_000_000)];
        cpu.threads.extend([thread(&[1, 2], 900_000_000), thread(&[], 900_000_000)]);
        assert_eq!(own_threads_ns(&cpu, &[]), 42_000_000);
        let drivers = [thread(&[3], 70_000_000), thread(&[0], 900_000_000)];
        assert_eq!(own_threads_ns(&cpu, &drivers), 112_000_000);
        // an agent that knows how far its readings are apart
        cpu.own_threads_ns = 49_900_000;
        assert_eq!(own_threads_ns(&cpu, &[]), 49_900_000);
        assert_eq!(own_threads_ns(&cpu, &[thread(&[3], 7_000_000)]), 49_900_000);
        cpu.own_threads_ns = 0;
        cpu.threads.truncate(1);
        cpu.threads[0].cpu_ns = 1;
        assert_eq!(own_threads_ns(&cpu, &[]), 0);
    }

    #[test]
    fn a_third_party_peer_counts_with_its_traffic_alone() {
        let foreign = TrafficReport {
            seconds: 1.5,
            received_bytes: 3_000,
            sent_bytes: 70,
            ..TrafficReport::default()
        };
        let reports = Reports {
            sut: interval(4_000, 500),
            clients: vec![interval(600, 1_000).into(), PeerMeasurement::Traffic(foreign)],
            latency: Latencies::default(),
            parts: Vec::new(),
            flows: None,
            by_address: Vec::new(),
            interface: InterfaceKnobs::default(),
            adapter: None,
            event: None,
            links: Vec::new(),
            unsettled_flows: 2,
            told: Vec::new(),
            shared_cpus: false,
        };
        let workload = Workload::default();
        let measured = of_reports(Some(&workload), &SocketKnobs::default(), reports);
        assert_eq!(measured.evidence.unsettled_flows, 2);
        let traffic = &measured.traffic;
        assert_eq!((traffic.transmit_bytes, traffic.receive_bytes), (4_000, 500));
        // the mean of both clients' measurements, and the SUT's own
        assert_eq!((traffic.transmit_seconds, traffic.receive_seconds), (1.25, 1.0));
        assert_eq!(measured.client_cpu.threads.len(), 1);
        assert_eq!(measured.evidence.senders.sockets, 2, "the SUT's and the agent's");
        assert_eq!(
            measured.remarks,
            ["client 1 reports its traffic alone: its CPU use, sockets and latencies are unknown"]
        );
    }

    #[test]
    fn a_remark_leaves_out_what_a_program_does_not_tell() {
        let old = PeerReport {
            program: "iperf3:lab2".to_owned(),
            bytes: 7,
            bytes_here: 7,
            edge_bytes: 0,
            omitted_seconds: 0,
            seconds: 0.0,
            cpu_percent: None,
            cpu_method: None,
            retransmits: None,
            datagrams: None,
        };
        assert!(
            reported(std::slice::from_ref(&old))
                .ends_with("of the whole test, iperf3:lab2 counted 7 B")
        );
        let new = PeerReport { seconds: 1.5, ..old };
        assert!(reported(std::slice::from_ref(&new)).ends_with("counted 7 B in 1.50 s"));
        let omits = PeerReport { omitted_seconds: 1, ..new };
        assert!(reported(&[omits]).ends_with("counted 7 B in 1.50 s behind the first 1 s"));
    }

    #[test]
    fn what_agents_report_is_what_is_stored() {
        let steps = [(1000, 98), (5000, 1), (59_000_000_000, 1)];
        let of = |all: &[(u64, u64)], open: &[(u64, u64)]| {
            latencies_of_reports(&Latencies { all: all.to_vec(), open: open.to_vec() })
        };
        let (figures, stored) = of(&steps, &[]);
        assert_eq!(figures.map(|figures| figures.count), Some(100));
        assert_eq!(stored.and_then(|text| latencies::decoded(&text)), Some(histogram_of(&steps)));
        assert_eq!(of(&[], &[]), (None, None));
        // half of them were open when the measurement closed
        let open = [(2_000_000, 50)];
        let figures = of(&[(1_000_000, 50), (2_000_000, 50)], &open).0.unwrap();
        assert_eq!((figures.open_share, figures.p90_ns), (0.5, None));
        assert!(figures.p50_ns.is_some(), "{figures:?}");
    }

    fn with(intervals: &[(u64, u64, u64, u64)]) -> MeasurementReport {
        let of = intervals.iter().map(|&(end_ns, sent_bytes, received_bytes, transactions)| {
            let moved = PartReport { sent_bytes, received_bytes, transactions, timeouts: 0 };
            IntervalReport { end_ns, moved }
        });
        MeasurementReport { intervals: of.collect(), ..interval(0, 0) }
    }

    #[test]
    fn what_a_client_counts_is_scaled_to_the_interval_of_the_system_under_test() {
        let sut = with(&[(100, 1000, 5, 0), (200, 1000, 5, 0)]);
        let clients = [
            PeerMeasurement::from(with(&[(50, 0, 400, 8), (150, 0, 900, 7)])),
            PeerMeasurement::from(with(&[(100, 0, 30, 0)])),
        ];
        let found = intervals_of_reports(&sut, &clients);
        let figures = found.iter().map(|one| (one.end_ns, one.transmit_bytes, one.transactions));
        assert_eq!(figures.collect::<Vec<_>>(), [(100, 830, 16), (200, 900, 7)]);
        assert_eq!(found[1].receive_bytes, 5);
    }

    #[test]
    fn with_a_program_as_peer_the_sender_counts() {
        let sut = MeasurementReport { sent_bytes: 1000, ..with(&[(100, 1000, 5, 9)]) };
        let clients = [PeerMeasurement::Traffic(TrafficReport::of_programs(&sut, &[]))];
        let found = intervals_of_reports(&sut, &clients);
        assert_eq!((found[0].transmit_bytes, found[0].transactions), (1000, 9));
    }
}
