//! `runs.csv`: one row a run, one column a variable, for other people's statistics.
//!
//! Every column has its unit in its name. A value that a run does not have is an empty field: all
//! figures of a failed run, traffic of an idle run, transactions of a stream. An idle run has no
//! cell and `idle` as its kind.

use linkrate_model::discipline::{Discipline, DisciplineCounts};
use linkrate_model::failure::Failure;
use linkrate_model::knobs::{KNOBS, Knob, Unit, Value, Values};
use linkrate_model::measurement::{AdapterEvidence, CpuUse, PartMeasured, ThreadTime};
use linkrate_model::workload::Item;
use linkrate_model::{Measurement, RunSpec, Task, Workload};
use linkrate_study::analysis::predicted::{self, RunPrediction};
use linkrate_study::analysis::{adapter, limit, round_trip};
use linkrate_study::keys::{direction_name, kind_name};
use linkrate_study::results::StudyResults;
use linkrate_study::results::figures::RoundTripParts;
use linkrate_study::store::StoredRun;
use linkrate_study::verdict::FlowDirection;

use crate::ReportError;

mod imported;

/// The file, with a header line.
pub fn runs(results: &StudyResults) -> Result<Vec<u8>, ReportError> {
    // cells of different parts have different factors
    let mut factors: Vec<&str> = Vec::new();
    for (factor, _) in results.cells.iter().flat_map(|cell| &cell.levels.0) {
        if !factors.contains(&factor.as_str()) {
            factors.push(factor);
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header(&factors).into_iter().map(no_formula))?;
    for run in &results.runs {
        writer.write_record(row(results, &factors, run).into_iter().map(no_formula))?;
    }
    writer.into_inner().map_err(|error| ReportError::Csv(error.into_error().into()))
}

/// The field as no spreadsheet takes it for a formula: text that begins like one gets an apostrophe
/// in front, which spreadsheets read as "this is text". Numbers stay as they are.
pub(crate) fn no_formula(field: String) -> String {
    // the wide forms are read as the narrow ones in East Asian locales
    let begins =
        |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠') || c.is_control();
    if field.trim_start().starts_with(begins) || field.starts_with(char::is_control) {
        let number = field.parse::<f64>().is_ok_and(f64::is_finite);
        return if number { field } else { format!("'{field}") };
    }
    field
}

/// What a field holds: text, or nothing.
type Field = Option<String>;
/// A column: its name and where its value comes from.
type Column<T> = (&'static str, fn(&T) -> Field);

/// What a run is for.
const KIND: &str = "kind";

const RUN: &[Column<StoredRun>] = &[
    ("sequence", |run| text(run.sequence)),
    // imported runs are in no blocks
    ("block", |run| text(run.block).filter(|_| run.imported().is_none())),
    (KIND, |run| text(if run.cell.is_none() { "idle" } else { "workload" })),
    ("cell", |run| run.cell.and_then(text)),
];

const OUTCOME: &[Column<StoredRun>] = &[
    ("status", |run| text(if run.is_good() { "measured" } else { "failed" })),
    ("failure_stage", |run| run.failure().and_then(|failure| text(failure.stage))),
    ("failure_reason", |run| run.failure().map(|failure| failure.reason.clone())),
    ("started_unix_ms", |run| text(run.started_unix_ms)),
    ("seed", |run| text(run.spec.seed)),
    ("warm_up_s", |run| figure(run.spec.warm_up.as_secs_f64())),
    ("duration_s", |run| figure(run.spec.duration.as_secs_f64())),
    ("clients", |run| text(run.spec.clients)),
    ("ports", |run| run.spec.ports.and_then(text)),
];

/// Values that are the same for all runs. Each row has them, so that the file is complete without its
/// directory.
const TESTBED: &[OfRun] = &[
    // so that rows of several result sets can stand in one table
    ("results", |results, _| Some(results.results.clone())),
    ("linkrate_version", |results, _| text(&results.linkrate_version)),
    ("adapter", adapter),
    ("scale", |results, _| figure(results.scale)),
];

/// The adapter that a run names, or that of the testbed.
fn adapter(results: &StudyResults, run: &StoredRun) -> Field {
    let plan = results.plan.as_ref();
    let of_testbed =
        || plan.map_or(results.adapter.as_str(), |plan| plan.study.testbed.adapter.name());
    text(run.spec.adapter.as_deref().unwrap_or_else(of_testbed))
}

/// What was asked of the workload, whether or not it is a factor; empty for idle runs, and where
/// the kind of workload does not have it.
const REQUESTED: &[Column<RunSpec>] = &[
    ("requested_workload", |run| asked(run, |_| true, |w| text(kind_name(w.kind)))),
    ("requested_direction", |run| asked(run, streams, |w| text(direction_name(w.direction)))),
    ("requested_connections", |run| asked(run, |_| true, |w| text(w.connections))),
    ("requested_message_min_bytes", |run| asked(run, streams, |w| text(w.message.smallest().0))),
    ("requested_message_max_bytes", |run| asked(run, streams, |w| text(w.message.largest().0))),
    ("requested_request_min_bytes", |run| asked(run, transacts, |w| text(w.request.smallest().0))),
    ("requested_request_max_bytes", |run| asked(run, transacts, |w| text(w.request.largest().0))),
    ("requested_response_min_bytes", |run| {
        asked(run, transacts, |w| text(w.response.smallest().0))
    }),
    ("requested_response_max_bytes", |run| asked(run, transacts, |w| text(w.response.largest().0))),
    ("requested_transfer_bytes", |run| asked(run, transfers, |w| text(w.transfer.0))),
    ("requested_files", |run| asked(run, backs_up, |w| text(w.backup.files))),
    ("requested_tree_bytes", |run| asked(run, backs_up, |w| text(w.backup.tree.0))),
    ("requested_drives_bytes_per_s", |run| asked(run, backs_up, |w| text(w.backup.rate()))),
    ("requested_mix_shares", |run| {
        let shares = |w: &Workload| w.mix.iter().map(|part| part.share).collect::<Vec<_>>();
        asked(run, |w| !w.mix.is_empty(), |w| Some(separated(&shares(w))))
    }),
    ("requested_burst", |run| asked(run, transacts, |w| text(w.burst))),
    ("requested_request_rate_per_s", |run| asked(run, transacts, |w| text(w.request_rate_per_s?))),
];

fn asked(run: &RunSpec, of: fn(&Workload) -> bool, value: impl Fn(&Workload) -> Field) -> Field {
    match &run.task {
        Task::Workload(workload) if of(workload) => value(workload),
        Task::Workload(_) | Task::Idle => None,
    }
}

fn streams(workload: &Workload) -> bool {
    !workload.kind.is_transactional()
}

fn backs_up(workload: &Workload) -> bool {
    workload.kind.item() == Some(Item::File)
}

fn transfers(workload: &Workload) -> bool {
    workload.kind.item() == Some(Item::Transfer)
}

fn transacts(workload: &Workload) -> bool {
    workload.kind.is_transactional()
}

/// What flowed; empty for idle runs, where nothing was asked to.
const TRAFFIC: &[Column<Measurement>] = &[
    ("throughput_bit_per_s", |run| figure(run.traffic.bits_per_second())),
    ("transmit_bytes", |run| text(run.traffic.transmit_bytes)),
    ("receive_bytes", |run| text(run.traffic.receive_bytes)),
    ("transmit_s", |run| figure(run.traffic.transmit_seconds)),
    ("receive_s", |run| figure(run.traffic.receive_seconds)),
    ("service_demand_us_per_kb", |run| run.service_demand_us_per_kb().and_then(figure)),
];

/// Empty for streams and idle runs.
const TRANSACTIONS: &[Column<Measurement>] = &[
    ("transactions", |run| text(run.traffic.transactions)),
    ("transactions_per_s", |run| figure(run.traffic.transactions_per_second())),
    ("transactions_s", |run| figure(run.traffic.transaction_seconds)),
    ("service_demand_us_per_transaction", |run| {
        run.service_demand_us_per_transaction().and_then(figure)
    }),
];

/// Of transactions, and the response time of transfers. Empty for other workloads.
const LATENCY: &[Column<Measurement>] = &[
    ("latency_count", |run| run.latency.and_then(|latency| text(latency.count))),
    ("latency_mean_ns", |run| run.latency.and_then(|latency| figure(latency.mean_ns))),
    ("latency_min_ns", |run| run.latency.and_then(|latency| text(latency.min_ns))),
    ("latency_p50_ns", |run| run.latency.and_then(|latency| text(latency.p50_ns?))),
    ("latency_p90_ns", |run| run.latency.and_then(|latency| text(latency.p90_ns?))),
    ("latency_p99_ns", |run| run.latency.and_then(|latency| text(latency.p99_ns?))),
    ("latency_p99_9_ns", |run| run.latency.and_then(|latency| text(latency.p99_9_ns?))),
    ("latency_p99_99_ns", |run| run.latency.and_then(|latency| text(latency.p99_99_ns?))),
    ("latency_max_ns", |run| run.latency.and_then(|latency| text(latency.max_ns))),
];

/// The parts of the mean latency of transactions. Empty for other workloads.
const ROUND_TRIP: &[Column<StoredRun>] = &[
    ("round_trip_moderation_us", |run| parts(run)?.moderation_us.and_then(figure)),
    ("round_trip_device_us", |run| parts(run)?.device_us.and_then(figure)),
    ("round_trip_wire_us", |run| parts(run)?.wire_us.and_then(figure)),
    ("round_trip_sut_us", |run| figure(parts(run)?.sut_us)),
    ("round_trip_clients_us", |run| parts(run)?.clients_us.and_then(figure)),
    ("round_trip_unexplained_us", |run| figure(parts(run)?.unexplained_us)),
];

fn parts(run: &StoredRun) -> Option<RoundTripParts> {
    round_trip::of_run(&run.spec, run.measurement()?)
}

/// Empty for all other workloads.
const TRANSFERS: &[Column<Measurement>] = &[
    ("transfers", |run| text(run.traffic.transactions)),
    ("transfers_per_s", |run| figure(run.traffic.transactions_per_second())),
    ("transfers_s", |run| figure(run.traffic.transaction_seconds)),
];

/// Empty for all workloads except backups.
const FILES: &[Column<Measurement>] = &[
    ("files", |run| text(run.traffic.transactions)),
    ("files_per_s", |run| figure(run.traffic.transactions_per_second())),
    ("files_s", |run| figure(run.traffic.transaction_seconds)),
];

/// Of the workloads of a mix, separated by blanks in the order of the study file; empty without one. Of
/// a workload without transactions and transfers they are 0.
const MIX: &[Column<Measurement>] = &[
    ("mix_throughput_bit_per_s", |run| of_mix(run, |part| part.traffic.bits_per_second())),
    ("mix_completed_per_s", |run| of_mix(run, |part| part.traffic.transactions_per_second())),
    ("mix_latency_p50_ns", |run| {
        of_mix(run, |part| part.latency.and_then(|l| l.p50_ns).unwrap_or(0))
    }),
    ("mix_latency_p99_ns", |run| {
        of_mix(run, |part| part.latency.and_then(|l| l.p99_ns).unwrap_or(0))
    }),
];

fn of_mix<T: ToString>(run: &Measurement, pick: fn(&PartMeasured) -> T) -> Field {
    let values: Vec<T> = run.parts.iter().map(pick).collect();
    (!values.is_empty()).then(|| separated(&values))
}

/// Empty for TCP, which loses no datagrams, and for idle runs.
const DATAGRAMS: &[Column<Measurement>] = &[
    ("sent_datagrams", |run| text(run.traffic.sent_datagrams)),
    ("lost_datagrams", |run| text(run.traffic.lost_datagrams)),
];

const CPU: &[Column<Measurement>] = &[
    ("shared_cpus", |run| text(run.sut_cpu.shared)),
    // the instrument's own threads on the SUT's CPUs; user time comes in ticks of 10 ms
    ("sut_threads_cpu_ns", |run| text(cpu_ns(&run.sut_cpu.threads))),
    ("sut_threads_user_ns", |run| {
        text(run.sut_cpu.threads.iter().map(|thread| thread.user_ns).sum::<u64>())
    }),
    ("sut_cpus", |run| text(run.sut_cpu.cpus.len())),
    ("sut_interval_ns", |run| text(interval_ns(&run.sut_cpu))),
    ("sut_busy_ns", |run| text(run.sut_cpu.busy_ns())),
    // of other programs: all that may be in the busy time, and what is
    ("sut_background_ns", |run| text(run.sut_cpu.others_ns())),
    ("sut_background_removed_ns", |run| text(run.sut_cpu.others_bound_ns())),
    ("sut_background_uncertainty_ns", |run| text(run.sut_cpu.others_uncertain_ns())),
    // what ran; empty where it was not traced
    ("sut_application_ns", |run| text(run.sut_cpu.parts?.application_ns)),
    ("sut_driver_ns", |run| text(run.sut_cpu.parts?.driver_ns)),
    ("sut_napi_ns", |run| text(run.sut_cpu.parts?.napi_ns)),
    ("sut_softirq_ns", |run| text(run.sut_cpu.parts?.softirq_ns)),
    ("sut_interrupt_ns", |run| text(run.sut_cpu.parts?.interrupt_ns)),
    ("sut_idle_loop_ns", |run| text(run.sut_cpu.parts?.idle_loop_ns)),
    ("sut_kernel_ns", |run| text(run.sut_cpu.parts?.kernel_ns)),
    ("sut_linkrate_ns", |run| text(run.sut_cpu.parts?.linkrate_ns)),
    ("sut_cpu_percent", |run| figure(run.sut_cpu.percent())),
    ("sut_busiest_cpu_percent", |run| figure(run.sut_cpu.busiest_percent())),
    ("sut_busy_cpus", |run| figure(run.sut_cpu.busy_cpus())),
    ("sut_steal_ns", |run| text(run.sut_cpu.cpus.iter().map(|cpu| cpu.steal_ns).sum::<u64>())),
    ("sut_uncertainty_ns", |run| text(run.sut_cpu.uncertainty_ns())),
    ("client_cpus", |run| text(run.client_cpu.cpus.len())),
    ("client_interval_ns", |run| text(interval_ns(&run.client_cpu))),
    ("client_busy_ns", |run| text(run.client_cpu.busy_ns())),
    ("client_cpu_percent", |run| {
        // the time of a client that shares the SUT's CPUs cannot be separated
        (!run.client_cpu.shared).then(|| figure(run.client_cpu.percent())).flatten()
    }),
    ("client_steal_ns", |run| {
        text(run.client_cpu.cpus.iter().map(|cpu| cpu.steal_ns).sum::<u64>())
    }),
    ("idle_source", |run| text(run.sut_cpu.source.word())),
];

/// The name of a knob's column: `effective_mtu_bytes`.
fn knob_column(knob: &Knob) -> String {
    let unit = match knob.values {
        Values::Number { unit: Unit::Bytes, .. } => "_bytes",
        _ => "",
    };
    format!("effective_{}{unit}", knob.key.replace('-', "_"))
}

/// The effective value of a knob. A switch is `true` or `false`, as statistics programs read it.
fn knob_value(knob: &Knob, run: &Measurement) -> Field {
    match knob.get(&run.effective.interface)? {
        Value::Switch(on) => text(on),
        value => text(value),
    }
}

/// What virtual adapters counted; empty on other adapters.
const ADAPTER: &[Column<Measurement>] = &[
    ("adapter_sent_frame_bytes", |run| counted(run)?.mean_wire_frame_bytes().and_then(figure)),
    ("adapter_received_frame_bytes", |run| {
        counted(run)?.mean_received_frame_bytes().and_then(figure)
    }),
    ("adapter_segments_per_superframe", |run| {
        counted(run)?.segments_per_superframe().and_then(figure)
    }),
    ("adapter_merges_per_superframe", |run| counted(run)?.merges_per_superframe().and_then(figure)),
    ("adapter_tx_link_percent", |run| adapter::tx_link_percent(counted(run)?).and_then(figure)),
    ("adapter_rx_link_percent", |run| adapter::rx_link_percent(counted(run)?).and_then(figure)),
    ("adapter_bus_percent", |run| adapter::bus_percent(counted(run)?).and_then(figure)),
    ("adapter_interval_ns", |run| text(counted(run)?.interval_ns)),
    ("adapter_device_ns", |run| text(cpu_ns(&counted(run)?.device_threads))),
    ("adapter_driver_ns", |run| text(cpu_ns(&counted(run)?.driver_threads))),
    // what the driver threads count
    ("adapter_tap_reads", |run| text(counted(run)?.driver_counts.reads)),
    ("adapter_tap_empty_reads", |run| text(counted(run)?.driver_counts.empty_reads)),
    ("adapter_tap_writes", |run| text(counted(run)?.driver_counts.writes)),
    ("adapter_driver_sleeps", |run| text(counted(run)?.driver_counts.sleeps)),
    ("adapter_interrupts", |run| text(counted(run)?.driver_counts.interrupts)),
    ("adapter_interrupt_delay_us", |run| {
        counted(run)?.driver_counts.mean_interrupt_delay_us().and_then(figure)
    }),
    ("adapter_device_cpus", |run| figure(counted(run)?.device_cpus())),
    ("adapter_device_busiest_percent", |run| {
        counted(run)?.busiest_device_percent().and_then(figure)
    }),
    ("adapter_drops", |run| text(counted(run)?.drops().values().sum::<u64>())),
    ("adapter_checksum_failures", |run| text(counted(run)?.checksum_failures())),
];

/// The windows of a group's CPUs together.
fn interval_ns(cpus: &CpuUse) -> u64 {
    cpus.cpus.iter().map(|cpu| cpu.interval_ns).sum()
}

/// CPU time of threads together.
fn cpu_ns(threads: &[ThreadTime]) -> u64 {
    threads.iter().map(|thread| thread.cpu_ns).sum()
}

fn counted(run: &Measurement) -> Option<&AdapterEvidence> {
    adapter::evidence(run)
}

/// What only test sockets have; empty for idle runs.
const SOCKETS: &[Column<Measurement>] = &[
    ("requested_buffer_bytes", |run| run.effective.socket.buffer.and_then(|size| text(size.0))),
    ("effective_congestion", |run| text(&run.effective.socket.congestion)),
    ("effective_nodelay", |run| text(run.effective.socket.nodelay)),
    ("effective_family", |run| text(run.effective.socket.family)),
    ("granted_send_buffer_bytes", |run| text(run.effective.granted_send_buffer_bytes)),
    ("granted_receive_buffer_bytes", |run| text(run.effective.granted_receive_buffer_bytes)),
    ("mss_bytes", |run| {
        // zero stands for UDP, which has no MSS
        Some(run.effective.mss_bytes).filter(|mss| *mss > 0).and_then(text)
    }),
    ("mean_stack_packet_bytes", |run| run.evidence.mean_stack_packet_bytes().and_then(figure)),
    ("mean_driver_packet_bytes", |run| run.evidence.mean_driver_packet_bytes().and_then(figure)),
    ("mean_received_packet_bytes", |run| {
        run.evidence.mean_received_packet_bytes().and_then(figure)
    }),
    ("mean_frames_per_received_packet", |run| {
        run.evidence.mean_frames_per_received_packet().and_then(figure)
    }),
    ("sender_sockets", |run| text(run.evidence.senders.sockets)),
    ("sender_busy_us", |run| text(run.evidence.senders.busy_us)),
    ("rwnd_limited_us", |run| text(run.evidence.senders.rwnd_limited_us)),
    ("rwnd_limited_unqueued_us", |run| {
        run.evidence.senders.rwnd_limited_unqueued_us.and_then(text)
    }),
    ("sndbuf_limited_us", |run| text(run.evidence.senders.sndbuf_limited_us)),
    ("client_sender_busy_us", |run| run.evidence.client_senders.and_then(|s| text(s.busy_us))),
    ("client_rwnd_limited_unqueued_us", |run| {
        run.evidence.client_senders.and_then(|s| s.rwnd_limited_unqueued_us).and_then(text)
    }),
    ("client_sndbuf_limited_us", |run| {
        run.evidence.client_senders.and_then(|s| text(s.sndbuf_limited_us))
    }),
    ("send_buffer_samples", |run| text(run.evidence.senders.buffer_samples)),
    ("send_buffer_full_samples", |run| text(run.evidence.senders.buffer_full_samples)),
    ("data_segments", |run| text(run.evidence.senders.data_segments)),
    ("acknowledgements", |run| text(run.evidence.senders.acknowledgements)),
    ("client_receive_batches", |run| text(run.evidence.client_receive_batches)),
    ("retransmitted_segments", |run| text(run.evidence.senders.retransmits)),
];

const INTERFACE: &[Column<Measurement>] = &[
    ("interface_tx_packets", |run| text(run.evidence.interface.tx_packets)),
    ("interface_tx_bytes", |run| text(run.evidence.interface.tx_bytes)),
    ("interface_rx_packets", |run| text(run.evidence.interface.rx_packets)),
    ("interface_rx_bytes", |run| text(run.evidence.interface.rx_bytes)),
    ("interface_tx_dropped", |run| text(run.evidence.interface.tx_dropped)),
    ("interface_rx_dropped", |run| text(run.evidence.interface.rx_dropped)),
    ("interface_tx_errors", |run| text(run.evidence.interface.tx_errors)),
    ("interface_rx_errors", |run| text(run.evidence.interface.rx_errors)),
    ("interface_tx_pause_frames", |run| text(run.evidence.interface.tx_pause_frames)),
    ("interface_rx_pause_frames", |run| text(run.evidence.interface.rx_pause_frames)),
    ("queue_disciplines", |run| disciplines(&run.evidence.disciplines)),
    ("client_queue_disciplines", |run| disciplines(&run.evidence.client_disciplines)),
    ("discipline_dropped", |run| of_roots(run, |counts| counts.dropped)),
    ("discipline_overlimits", |run| of_roots(run, |counts| counts.overlimits)),
    ("discipline_requeues", |run| of_roots(run, |counts| counts.requeues)),
    ("discipline_backlog_bytes", |run| of_roots(run, |counts| counts.backlog_bytes)),
    ("remarks", |run| Some(run.remarks.join(" ")).filter(|remarks| !remarks.is_empty())),
];

/// The queue disciplines with their interfaces; empty for runs of earlier versions.
fn disciplines(all: &[Discipline]) -> Field {
    let words: Vec<String> = all.iter().map(|one| format!("{} {one}", one.interface)).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// A counter of the root disciplines of all interfaces, which include what is below them.
fn of_roots(run: &Measurement, counter: fn(&DisciplineCounts) -> u64) -> Field {
    let roots = run.evidence.disciplines.iter().filter(|one| one.parent == "root");
    let counts: Vec<u64> = roots.map(|one| counter(&one.counts)).collect();
    (!counts.is_empty()).then(|| counts.into_iter().fold(0, u64::saturating_add).to_string())
}

/// What the event showed; empty for runs without an event. Times are from the fault, except `event_at_ns`
/// and `event_recovered_ns`, which are from the beginning of the measurement.
const FAILURE: &[Column<Measurement>] = &[
    ("event", |run| failed(run).map(|of| of.event.fault.word().to_owned())),
    ("event_port", |run| failed(run).map(|of| of.port.clone())),
    ("event_at_ns", |run| failed(run).and_then(|of| text(of.at_ns))),
    ("event_recovered_ns", |run| failed(run)?.recovered_ns.and_then(text)),
    ("host_detected_ns", |run| failed(run)?.host_detected_ns.and_then(text)),
    ("switch_detected_ns", |run| failed(run)?.switch_detected_ns.and_then(text)),
    ("host_moved_ns", |run| failed(run)?.host_moved_ns.and_then(text)),
    ("switch_moved_ns", |run| failed(run)?.switch_moved_ns.and_then(text)),
    ("gap_ns", |run| text(failed(run)?.gap_ns)),
    ("flow_gap_ns", |run| failed(run)?.flows.iter().map(|flow| flow.gap_ns).max().and_then(text)),
    ("gap_before_ns", |run| text(failed(run)?.gap_before_ns)),
    ("restored_ns", |run| failed(run)?.restored_ns.and_then(text)),
    ("rate_before_bit_per_s", |run| figure(failed(run)?.rate_before)),
    ("frames_lost", |run| text(failed(run)?.frames_lost)),
    ("frames_reordered", |run| text(overtaken(run)?)),
    ("resent_bytes", |run| text(failed(run)?.resent_bytes)),
    ("resent_after_bytes", |run| text(failed(run)?.resent_after?.bytes)),
    ("resent_after_segments", |run| text(failed(run)?.resent_after?.segments)),
    ("verified_bytes", |run| text(failed(run)?.verified_bytes)),
    ("wrong_bytes", |run| text(failed(run)?.wrong_bytes)),
];

/// Frames that were overtaken, in a run with an event or with a balancing that reorders flows.
fn overtaken(run: &Measurement) -> Option<u64> {
    let counted = || run.evidence.adapter.as_deref()?.frames_overtaken;
    failed(run).map(|failure| failure.frames_reordered).or_else(counted)
}

fn failed(run: &Measurement) -> Option<&Failure> {
    run.failure.as_deref()
}

/// A column of one run among the results.
type OfRun = (&'static str, fn(&StudyResults, &StoredRun) -> Field);

/// How balancing spreads a run's flows over the ports of an aggregate; empty where it does not report.
/// Values of several ports are in one field, separated by blanks: predicted ones in the order in which
/// ports take turns, measured ones in the order of the ports.
const PREDICTED: &[OfRun] = &[
    ("predicted_transmit_flows", |_, run| predicted_flows(run, FlowDirection::Transmit)),
    ("predicted_transmit_percent", |_, run| predicted_percent(run, FlowDirection::Transmit)),
    ("predicted_transmit_limit_bit_per_s", |all, run| {
        predicted_limit(all, run, FlowDirection::Transmit)
    }),
    ("measured_transmit_percent", |_, run| measured_percent(run, FlowDirection::Transmit)),
    ("predicted_receive_flows", |_, run| predicted_flows(run, FlowDirection::Receive)),
    ("predicted_receive_percent", |_, run| predicted_percent(run, FlowDirection::Receive)),
    ("predicted_receive_limit_bit_per_s", |all, run| {
        predicted_limit(all, run, FlowDirection::Receive)
    }),
    ("measured_receive_percent", |_, run| measured_percent(run, FlowDirection::Receive)),
];

fn prediction(run: &StoredRun, direction: FlowDirection) -> Option<RunPrediction> {
    predicted::of_run(run.measurement()?, direction)?.ok()
}

fn predicted_flows(run: &StoredRun, direction: FlowDirection) -> Field {
    Some(separated(&prediction(run, direction)?.flows))
}

fn predicted_percent(run: &StoredRun, direction: FlowDirection) -> Field {
    Some(separated(&prediction(run, direction)?.shares))
}

fn predicted_limit(results: &StudyResults, run: &StoredRun, direction: FlowDirection) -> Field {
    let testbed = &results.plan.as_ref()?.study.testbed;
    let full = prediction(run, direction)?.ports_full as f64;
    figure(limit::of_port(&run.spec, testbed)? * full)
}

fn measured_percent(run: &StoredRun, direction: FlowDirection) -> Field {
    let good = run.measurement()?;
    // with the reason why a share is not predicted, the measured one stands alone
    let shares =
        predicted::of_run(good, direction).and(predicted::measured_shares(good, direction));
    shares.map(|shares| separated(&shares))
}

fn separated(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Where imported runs come from; empty for runs of linkrate.
const IMPORTED: [&str; 4] =
    ["imported_file", "imported_place", "imported_program", "imported_test"];

/// What a measured run must be for a group of columns to mean something.
type Applies = fn(&Task) -> bool;

/// Columns that stand together.
enum Group {
    /// Of the measurement.
    Measured(&'static [Column<Measurement>]),
    /// The effective value of each knob, one column a knob.
    Knobs,
}

impl Group {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Measured(columns) => columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            Self::Knobs => KNOBS.iter().map(knob_column).collect(),
        }
    }

    fn fields(&self, run: Option<&Measurement>) -> Vec<Field> {
        match self {
            Self::Measured(columns) => columns.iter().map(|(_, value)| value(run?)).collect(),
            Self::Knobs => KNOBS.iter().map(|knob| knob_value(knob, run?)).collect(),
        }
    }
}

const MEASURED: &[(&str, Group, Applies)] = &[
    ("payload", Group::Measured(TRAFFIC), |task| matches!(task, Task::Workload(_))),
    ("transactions", Group::Measured(TRANSACTIONS), |task| item(task) == Some(Item::Transaction)),
    (
        "latency of transactions, response time of transfers and files",
        Group::Measured(LATENCY),
        |task| item(task).is_some(),
    ),
    ("transfers", Group::Measured(TRANSFERS), |task| item(task) == Some(Item::Transfer)),
    ("files of a backup", Group::Measured(FILES), |task| item(task) == Some(Item::File)),
    ("workloads of a mix", Group::Measured(MIX), |_| true),
    (
        "UDP",
        Group::Measured(DATAGRAMS),
        |task| matches!(task, Task::Workload(w) if w.kind.is_udp()),
    ),
    ("CPU time", Group::Measured(CPU), |_| true),
    (SETTINGS, Group::Knobs, |_| true),
    ("emulated adapters", Group::Measured(ADAPTER), |_| true),
    ("sockets", Group::Measured(SOCKETS), |task| matches!(task, Task::Workload(_))),
    ("failure", Group::Measured(FAILURE), |_| true),
    ("interfaces of the SUT", Group::Measured(INTERFACE), |_| true),
];

/// The title of the columns that settings have.
pub const SETTINGS: &str = "settings as read back";

/// The columns of every file in their order, by group, each group with its title. Those of factors
/// follow the first group.
pub fn groups() -> Vec<(&'static str, Vec<String>)> {
    fn names<T>(columns: &[(&'static str, T)]) -> Vec<String> {
        columns.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
    let mut groups = vec![
        ("run", names(RUN)),
        ("outcome", names(OUTCOME)),
        ("results", names(TESTBED)),
        ("requested workload", names(REQUESTED)),
    ];
    groups.extend(MEASURED.iter().map(|(title, group, _)| (*title, group.names())));
    groups.extend([
        ("flows on the ports of an aggregate", names(PREDICTED)),
        ("parts of the latency of transactions", names(ROUND_TRIP)),
        ("imported runs", IMPORTED.map(str::to_owned).to_vec()),
    ]);
    groups
}

fn item(task: &Task) -> Option<Item> {
    match task {
        Task::Workload(workload) => workload.item(),
        Task::Idle => None,
    }
}

fn header(factors: &[&str]) -> Vec<String> {
    let mut columns: Vec<String> = groups().into_iter().flat_map(|(_, names)| names).collect();
    let factors: Vec<String> = factors
        .iter()
        .map(|factor| {
            // a factor `clients` stands beside the column of that name
            if columns.iter().any(|name| name == factor) {
                format!("factor_{factor}")
            } else {
                (*factor).to_owned()
            }
        })
        .collect();
    columns.splice(RUN.len()..RUN.len(), factors);
    columns
}

fn row(results: &StudyResults, factors: &[&str], run: &StoredRun) -> Vec<String> {
    let cell = results.cell_of(run);
    let level = |factor: &&str| cell.and_then(|cell| cell.levels.get(factor)).and_then(text);
    let of_run = RUN.iter().map(|(name, value)| match *name {
        // whoever groups by levels leaves them out
        KIND if results.is_aa(run) => text("a-a"),
        _ => value(run),
    });
    let mut fields: Vec<Field> = of_run.collect();
    fields.extend(factors.iter().map(level));
    let imported = |name: &str| run.imported().map(|run| imported::field(name, run));
    fields.extend(OUTCOME.iter().map(|(name, value)| imported(name).unwrap_or_else(|| value(run))));
    fields.extend(TESTBED.iter().map(|(_, value)| value(results, run)));
    fields.extend(
        REQUESTED.iter().map(|(name, value)| imported(name).unwrap_or_else(|| value(&run.spec))),
    );
    for (_, group, applies) in MEASURED {
        let measured = run.measurement().filter(|_| applies(&run.spec.task));
        let fields_of_run = group.names().into_iter().zip(group.fields(measured));
        fields.extend(fields_of_run.map(|(name, field)| imported(&name).unwrap_or(field)));
    }
    fields.extend(PREDICTED.iter().map(|(_, value)| value(results, run)));
    fields.extend(ROUND_TRIP.iter().map(|(_, value)| value(run)));
    fields.extend(IMPORTED.map(|name| imported(name).flatten()));
    fields.into_iter().map(Option::unwrap_or_default).collect()
}

fn text(value: impl ToString) -> Field {
    Some(value.to_string())
}

/// All the digits that a figure has; readers round for themselves.
fn figure(value: f64) -> Field {
    value.is_finite().then(|| value.to_string())
}
