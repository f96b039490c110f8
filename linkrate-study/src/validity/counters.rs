//! What a run counted and was given, beside what was asked of it and what was counted elsewhere:
//! socket options, the payload of both ends and of interfaces, octets and time of links, losses,
//! and connections at an adapter.

use linkrate_model::knobs::Toe;
use linkrate_model::measurement::PortEvidence;
use linkrate_model::spec::Adapter;
use linkrate_model::{BitRate, ByteSize, Measurement, RunSpec, Task, TestbedSpec};
use linkrate_wire::link::LinkLaw;

use super::Rejection;
use crate::executor::Stage;

/// How far the rate that a link's counters show may be from its model's, in per cent. Octets and
/// busy time are counted frame by frame, so that only the frames at the ends of the measurement
/// disagree.
pub(super) const RATE_PERCENT: f64 = 1.0;

/// Occupied time, in ns, from which a link's counters tell its rate.
const RATE_BUSY_NS: u64 = 10_000_000;

/// Share of a run's payload that existing interfaces must have counted. Some drivers count only
/// once a second; of traffic that went another way they count nothing.
const CARRIED: f64 = 0.1;

/// Traffic must have gone over the interfaces it was sent to measure.
pub(super) fn carried(testbed: &TestbedSpec, run: &Measurement) -> Result<(), Rejection> {
    let Adapter::Interfaces(interfaces) = &testbed.adapter else { return Ok(()) };
    let (traffic, counted) = (&run.traffic, &run.evidence.interface);
    for (way, payload, bytes) in [
        ("sent", traffic.transmit_bytes, counted.tx_bytes),
        ("received", traffic.receive_bytes, counted.rx_bytes),
    ] {
        if (bytes as f64) < payload as f64 * CARRIED {
            let named = interfaces.names.join(", ");
            let reason = format!(
                "{named} {way} {} of {} of payload by its counters: the traffic did not use this interface",
                ByteSize(bytes),
                ByteSize(payload)
            );
            return Err(Rejection { stage: Stage::Measure, named, reason });
        }
    }
    Ok(())
}

/// The rate of the octets on a port's line, from its counters: the octets that left over the time
/// for which they occupied the line.
pub(super) fn observed_rate(law: LinkLaw, port: &PortEvidence) -> Option<BitRate> {
    let counter = |name: &str| port.counters.get(name).copied().unwrap_or(0);
    let busy_ns = counter("txLinkBusyNs");
    if busy_ns < RATE_BUSY_NS {
        return None;
    }
    let frames = ["ifHCOutUcastPkts", "ifHCOutMulticastPkts", "ifHCOutBroadcastPkts"]
        .iter()
        .fold(0u64, |sum, name| sum.saturating_add(counter(name)));
    let octets = law.line_octets_of_counters(counter("ifHCOutOctets"), frames);
    Some(BitRate(octets as f64 * 8e9 / busy_ns as f64))
}

/// Every link must have carried its octets at its model's rate.
pub(super) fn link_rates(testbed: &TestbedSpec, run: &Measurement) -> Result<(), Rejection> {
    let Adapter::Model(model) = &testbed.adapter else { return Ok(()) };
    let Some(BitRate(nominal)) = model.rate else { return Ok(()) };
    let law = LinkLaw::of(model);
    let expected = law.payload_rate(BitRate(nominal * testbed.scale));
    let ports = run.evidence.adapter.iter().flat_map(|adapter| &adapter.ports);
    for port in ports {
        let Some(observed) = observed_rate(law, port) else { continue };
        if (observed.0 / expected.0 - 1.0).abs() * 100.0 > RATE_PERCENT {
            let named = port.name.clone();
            let reason = format!(
                "the link of {named} ran at {observed} by its counters, expected {expected}"
            );
            return Err(Rejection { stage: Stage::Measure, named, reason });
        }
    }
    Ok(())
}

/// Frames that must be expected to be lost before none is no chance any more: one in e^20 runs.
const CERTAIN: f64 = 20.0;

/// The counter of frames or cells from a port that the line lost.
const LOST: &str = "txLostOnLine";

/// Refuses a run whose lines lost nothing although they should.
pub(super) fn losses(spec: &RunSpec, run: &Measurement) -> Result<(), Rejection> {
    let Some(adapter) = run.evidence.adapter.as_deref() else { return Ok(()) };
    if spec.task == Task::Idle {
        return Ok(());
    }
    let sum = |name: &str| {
        let counts = adapter.ports.iter().filter_map(|port| port.counters.get(name));
        counts.copied().fold(0, u64::saturating_add)
    };
    let (lost, sent) = (sum(LOST), sum("ifHCOutUcastPkts"));
    let share = f64::from(spec.loss_ppm) / 1e6;
    if lost > 0 || (sent as f64 * share) < CERTAIN {
        return Ok(());
    }
    Err(Rejection {
        stage: Stage::Knob,
        named: "loss".to_owned(),
        reason: format!(
            "loss of {} % was asked for, and none of {sent} frames was lost",
            share * 100.0
        ),
    })
}

/// Connections that stay at the host would be measured as if they were not.
pub(super) fn offloaded(run: &Measurement) -> Result<(), Rejection> {
    let toe = run.effective.interface.port.toe.unwrap_or(Toe::Off);
    if toe == Toe::Off {
        return Ok(());
    }
    let refused =
        |reason: String| Err(Rejection { stage: Stage::Measure, named: "toe".to_owned(), reason });
    let ports = || run.evidence.adapter.iter().flat_map(|adapter| &adapter.ports);
    let sum = |name: &str| ports().filter_map(|port| port.counters.get(name)).sum::<u64>();
    let segments = sum("toeHostSegments");
    if segments > 0 {
        return refused(format!(
            "TCP of the host sent {segments} packets for connections that are at the adapter"
        ));
    }
    // which ones are at the adapter, and when, is the question of `auto`
    if toe == Toe::Auto {
        return Ok(());
    }
    let stayed: Vec<String> = ports()
        .flat_map(|port| &port.counters)
        .filter_map(|(name, count)| Some((name.strip_prefix("toeStayed.")?, count)))
        .map(|(reason, count)| format!("{count} for {reason}"))
        .collect();
    if sum("toeConnections") == 0 || !stayed.is_empty() {
        return refused(format!(
            "toe was on with {} connections at the adapter; at the host stayed {}",
            sum("toeConnections"),
            if stayed.is_empty() { "the others".to_owned() } else { stayed.join(", ") }
        ));
    }
    Ok(())
}

/// How far both counts may be apart. Both are of the same whole test, after all of it was acknowledged.
const APART: f64 = 0.005;

/// Refuses a run of whose payload both ends tell different amounts.
pub(super) fn peer_reports(measured: &Measurement) -> Result<(), Rejection> {
    match measured.evidence.peer_reports.iter().find(|reported| reported.difference() > APART) {
        None => Ok(()),
        Some(reported) => Err(Rejection {
            stage: Stage::Measure,
            named: reported.program.clone(),
            reason: format!(
                "{} counted {} B of payload, and the system under test {} B; expected the same within \
                 {:.1} %",
                reported.program,
                reported.bytes,
                reported.bytes_here,
                APART * 100.0
            ),
        }),
    }
}

/// Compares address family, congestion control and TCP_NODELAY with the request. UDP has only the first, and
/// an idle run has no sockets. The kernel grants the buffers before any traffic, or the run ends there.
pub(super) fn sockets(spec: &RunSpec, run: &Measurement) -> Result<(), Rejection> {
    let Task::Workload(workload) = &spec.task else { return Ok(()) };
    let (asked, is) = (&spec.socket, &run.effective.socket);
    equal("family", &asked.family, &is.family)?;
    if workload.kind.is_udp() {
        return Ok(());
    }
    equal("congestion", &asked.congestion, &is.congestion)?;
    equal("nodelay", &asked.nodelay, &is.nodelay)
}

fn equal<T: PartialEq + std::fmt::Display>(knob: &str, asked: &T, is: &T) -> Result<(), Rejection> {
    if asked == is {
        return Ok(());
    }
    Err(Rejection {
        stage: Stage::Knob,
        named: knob.to_owned(),
        reason: format!("knob \"{knob}\": requested {asked}, effective is {is}"),
    })
}
