//! The counters of a run against each other: payload against octets, octets against time.

use linkrate_model::measurement::PortEvidence;
use linkrate_model::spec::Adapter;
use linkrate_model::{BitRate, ByteSize, Measurement, TestbedSpec};
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
