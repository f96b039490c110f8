//! The columns that imported runs fill: where they come from, and those that mean the same for them. All others stay empty.

use linkrate_model::Imported;
use linkrate_study::keys::{direction_name, kind_name};

use super::{Field, figure, text};

/// The value of the column; `None` where the program tells nothing of it.
pub(super) fn field(column: &str, run: &Imported) -> Field {
    let (asked, found) = (&run.asked, &run.found);
    let latency = found.latency.unwrap_or_default();
    let transactional = run.is_transactional();
    let whole = |value: Option<u64>| value.and_then(text);
    let of_stream = |value: Option<f64>| value.filter(|_| !transactional).and_then(figure);
    let of_transactions = |value: Option<f64>| value.filter(|_| transactional).and_then(figure);
    match column {
        "status" => text("imported"),
        "started_unix_ms" => whole(run.started_unix_ms),
        "warm_up_s" => asked.warm_up_seconds.and_then(figure),
        "duration_s" => found.seconds.and_then(figure),
        "requested_workload" => text(kind_name(asked.kind)),
        "requested_direction" if !transactional => text(direction_name(asked.direction)),
        "requested_connections" => whole(asked.connections.map(u64::from)),
        "requested_message_min_bytes" | "requested_message_max_bytes" => whole(asked.message),
        "requested_request_min_bytes" | "requested_request_max_bytes" => whole(asked.request),
        "requested_response_min_bytes" | "requested_response_max_bytes" => whole(asked.response),
        "requested_burst" => whole(asked.burst.map(u64::from)),
        "throughput_bit_per_s" => found.bits_per_second().and_then(figure),
        "service_demand_us_per_kb" => of_stream(found.service_demand_us),
        "transactions_per_s" => found.transactions_per_second.and_then(figure),
        "service_demand_us_per_transaction" => of_transactions(found.service_demand_us),
        "latency_count" => whole(latency.count),
        "latency_mean_ns" => latency.mean_ns.and_then(figure),
        "latency_min_ns" => whole(latency.min_ns),
        "latency_p50_ns" => whole(latency.p50_ns),
        "latency_p90_ns" => whole(latency.p90_ns),
        "latency_p99_ns" => whole(latency.p99_ns),
        "latency_p99_9_ns" => whole(latency.p99_9_ns),
        "latency_p99_99_ns" => whole(latency.p99_99_ns),
        "latency_max_ns" => whole(latency.max_ns),
        "sent_datagrams" => whole(found.sent_datagrams),
        "lost_datagrams" => whole(found.lost_datagrams),
        "sut_cpu_percent" => found.cpu_percent.and_then(figure),
        "client_cpu_percent" => found.client_cpu_percent.and_then(figure),
        "requested_buffer_bytes" => whole(asked.socket.filter(|bytes| *bytes > 0)),
        "granted_send_buffer_bytes" => whole(found.granted_send_buffer_bytes),
        "granted_receive_buffer_bytes" => whole(found.granted_receive_buffer_bytes),
        "mss_bytes" => whole(found.mss_bytes.map(u64::from)),
        "retransmitted_segments" => whole(found.retransmits),
        "imported_file" => text(&run.file),
        "imported_place" => run.place.clone(),
        "imported_program" => text(&run.program),
        "imported_test" => text(&run.test),
        "remarks" => Some(run.remarks.join(" ")).filter(|remarks| !remarks.is_empty()),
        _ => None,
    }
}
