//! LRO that was on and merged nothing.
//!
//! An adapter that has LRO on and does not merge measures another adapter. But merging nothing may
//! be right: a segment with PSH ends merging, and a batch may end before a second segment of the
//! connection comes. So a run is refused only where segments of the same connection
//! must have lain in one batch, and were neither pushed nor short. Elsewhere
//! [`super::contradictions`] tells it.

use linkrate_model::measurement::PortEvidence;
use linkrate_model::spec::Adapter;
use linkrate_model::{Direction, Measurement, Protocol, RunSpec, Task, TestbedSpec};

use super::Rejection;
use crate::executor::Stage;

/// Received segments with payload from which a port must have merged some: those of the first round
/// trips come one by one.
const SEGMENTS: u64 = 500;

/// Segments per batch and connection from which two of a connection must have come in one batch.
const PER_BATCH: u64 = 2;

/// Connections whose segments an adapter can hold at a time; those of more than that evict each
/// other.
const CONNECTIONS: u64 = 16;

/// Refuses a run in which a port with LRO merged none of many segments that it could have merged.
pub(super) fn check(
    testbed: &TestbedSpec,
    spec: &RunSpec,
    run: &Measurement,
) -> Result<(), Rejection> {
    let Some(adapter) = run.evidence.adapter.as_deref() else { return Ok(()) };
    let Some(connections) = mergeable_connections(spec, run) else { return Ok(()) };
    let idle = adapter.ports.iter().find(|port| {
        let segments = segments(port);
        let must_merge = |batches: u64| {
            segments >= batches.saturating_mul(connections).saturating_mul(PER_BATCH)
        };
        merged(port) == 0
            && segments >= SEGMENTS
            && batches(testbed, run, adapter.interval_ns, segments).is_some_and(must_merge)
    });
    let Some(port) = idle else { return Ok(()) };
    Err(Rejection {
        stage: Stage::Knob,
        named: "lro".to_owned(),
        reason: format!(
            "knob \"lro\" on {}: on, but the adapter merged none of {} received segments",
            port.name,
            segments(port)
        ),
    })
}

/// Whether LRO was on and no port merged anything, although the workload receives a bulk stream.
pub(super) fn merged_nothing(spec: &RunSpec, run: &Measurement) -> bool {
    let Some(adapter) = run.evidence.adapter.as_deref() else { return false };
    let received: u64 = adapter.ports.iter().map(segments).fold(0, u64::saturating_add);
    receives_stream(spec)
        && has_lro(spec, run)
        && received > 0
        && adapter.ports.iter().all(|port| merged(port) == 0)
}

fn has_lro(spec: &RunSpec, run: &Measurement) -> bool {
    run.effective.interface.port.lro.or(spec.interface.port.lro) == Some(true)
}

fn receives_stream(spec: &RunSpec) -> bool {
    matches!(&spec.task, Task::Workload(workload)
        if matches!(workload.kind, Protocol::Stream | Protocol::Transfer)
            && workload.mix.is_empty()
            && workload.direction != Direction::Transmit)
}

/// The most batches in which a port can have handed up its segments: one for each tick of the
/// receive timer, and one for each `rx-frames`. `None` where batches may be as short as a segment:
/// without a timer or a link rate, and where the timer adapts to the traffic.
fn batches(
    testbed: &TestbedSpec,
    run: &Measurement,
    interval_ns: u64,
    segments: u64,
) -> Option<u64> {
    let Adapter::Model(model) = &testbed.adapter else { return None };
    model.rate?;
    let knobs = &run.effective.interface;
    if knobs.values().iter().any(|(knob, value)| *knob == "adaptive-rx" && value == "on") {
        return None;
    }
    let period_ns = u64::from(knobs.port.rx_usecs?) * 1000;
    let ticks = interval_ns.checked_div(period_ns)?.saturating_add(1);
    let by_number = segments.checked_div(u64::from(knobs.port.rx_frames?)).unwrap_or(0);
    Some(ticks.saturating_add(by_number))
}

/// Connections of a port whose segments follow each other without PSH; `None` if the run has none,
/// or so many that they evict each other.
fn mergeable_connections(spec: &RunSpec, run: &Measurement) -> Option<u64> {
    let Task::Workload(workload) = &spec.task else { return None };
    if !receives_stream(spec) || !has_lro(spec, run) {
        return None;
    }
    // the last segment of each write may be pushed: a write must be several segments
    let mtu = run.effective.interface.mtu.or(spec.interface.mtu)?;
    let transfer = match workload.kind {
        Protocol::Transfer => workload.transfer.0,
        _ => u64::MAX,
    };
    if workload.message.smallest().0.min(transfer) < 4 * u64::from(mtu) {
        return None;
    }
    let clients =
        u64::from(spec.clients.max(1)).div_ceil(u64::from(spec.ports.unwrap_or(1).max(1)));
    let connections = clients.saturating_mul(u64::from(workload.connections.max(1)));
    (connections <= CONNECTIONS).then_some(connections)
}

fn counter(port: &PortEvidence, name: &str) -> u64 {
    port.counters.get(name).copied().unwrap_or(0)
}

fn merged(port: &PortEvidence) -> u64 {
    counter(port, "rxMergedFrames")
}

/// Received TCP segments with payload for the host: frames less acknowledgements and other protocols, and
/// less those for connections at a TCP offload engine, whose merging has no counter.
fn segments(port: &PortEvidence) -> u64 {
    ["rxUnmergedFlags", "rxUnmergedKind", "toeRxFrames"]
        .iter()
        .fold(counter(port, "ifHCInUcastPkts"), |left, name| {
            left.saturating_sub(counter(port, name))
        })
}
