//! Whether a run can be believed: figures that another program, another link rate or another clock
//! made must not stand as those of the system under test.
//!
//! Checked on each run before it is stored, from its own counters alone. A run that fails is
//! stored with the reason and without figures. What is too small to refuse a run for is told in
//! the report (`analysis::warnings`).

use linkrate_terms::measurement::{CpuUse, PortEvidence};
use linkrate_terms::spec::Adapter;
use linkrate_terms::{BitRate, ByteSize, Measurement, TestbedSpec};
use linkrate_wire::link::LinkLaw;

use crate::store::StoredRun;

/// Share of the system under test's CPUs, in per cent, that a program other than linkrate may use
/// before the run is refused. Below it, the cost of traffic is still most of what was measured.
pub const OTHERS_REFUSED_PERCENT: f64 = 10.0;

/// CPU time that they must have used besides: a daemon that wakes for a moment would be a large part
/// of a short window.
const OTHERS_REFUSED_NS: u64 = 100_000_000;

/// Share from which it is told.
pub const OTHERS_TOLD_PERCENT: f64 = 1.0;

/// How far the rate that a link's counters show may be from its model's, in per cent. Octets and
/// busy time are counted frame by frame, so that only the frames at the ends of the window
/// disagree.
const RATE_PERCENT: f64 = 1.0;

/// Occupied time, in ns, from which a link's counters tell its rate.
const RATE_BUSY_NS: u64 = 10_000_000;

/// How far a host's clock may have moved against the controller's since it was measured, in ns.
/// Clocks of two machines drift by some 10 µs a second, and a study takes minutes.
pub const CLOCK_NS: u64 = 5_000_000;

/// Why the figures of a run cannot be believed, as a sentence without its full stop.
///
/// # Errors
/// The first reason found.
pub fn check(testbed: &TestbedSpec, run: &Measurement) -> Result<(), String> {
    others(&run.sut_cpu)?;
    carried(testbed, run)?;
    link_rates(testbed, run)
}

/// The programs by name and process id, with their shares.
pub(crate) fn others_listed(cpu: &CpuUse) -> String {
    let named = cpu.others.iter().take(3).map(|other| {
        let percent = cpu.percent_of(other.cpu_ns);
        // a program may call itself anything
        format!("{:?} (process {}) {percent:.1} %", other.name, other.pid)
    });
    named.collect::<Vec<_>>().join(", ")
}

/// What others take of the clients' CPUs is no part of the system under test's cost; it is told.
fn others(cpu: &CpuUse) -> Result<(), String> {
    let used_ns = cpu.others_ns();
    let percent = cpu.percent_of(used_ns);
    if percent < OTHERS_REFUSED_PERCENT || used_ns < OTHERS_REFUSED_NS {
        return Ok(());
    }
    Err(format!(
        "other programs used {percent:.1} % of the CPUs of the system under test, expected less \
         than {OTHERS_REFUSED_PERCENT} %: {}",
        others_listed(cpu)
    ))
}

/// What of stored runs, in their order, must be told beside their figures, as full sentences: other
/// programs that were too small to refuse a run for, and a wall clock that went back.
pub fn told<'a>(runs: impl Iterator<Item = &'a StoredRun> + Clone) -> Vec<String> {
    let mut found = Vec::new();
    type Cpus = fn(&Measurement) -> &CpuUse;
    let roles: [(&str, Cpus); 2] =
        [("the system under test", |run| &run.sut_cpu), ("the clients", |run| &run.client_cpu)];
    for (role, cpu) in roles {
        let used: Vec<_> = runs
            .clone()
            .filter_map(|run| {
                let cpu = cpu(run.measurement()?);
                Some((run, cpu, cpu.percent_of(cpu.others_ns())))
            })
            .filter(|(.., percent)| *percent >= OTHERS_TOLD_PERCENT)
            .collect();
        if let Some((run, cpu, _)) = used.iter().max_by(|a, b| a.2.total_cmp(&b.2)) {
            let times =
                if used.len() == 1 { "1 run".to_owned() } else { format!("{} runs", used.len()) };
            found.push(format!(
                "Other programs used more than {OTHERS_TOLD_PERCENT} % of the CPUs of {role} in \
                 {times}, most in run {}: {}.",
                run.sequence,
                others_listed(cpu)
            ));
        }
    }
    // in the order in which they were made, however they are given
    let mut in_order: Vec<_> = runs.collect();
    in_order.sort_by_key(|run| run.sequence);
    for pair in in_order.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if after.started_unix_ms < before.started_unix_ms {
            found.push(format!(
                "The wall clock went back by {:.1} s between runs {} and {}: times of day are not \
                 in order. Figures do not depend on them.",
                (before.started_unix_ms - after.started_unix_ms) as f64 / 1e3,
                before.sequence,
                after.sequence
            ));
        }
    }
    found
}

/// Share of a run's payload that existing interfaces must have counted. Some drivers count only
/// once a second; what went another way is not there at all.
const CARRIED: f64 = 0.1;

/// Traffic must have gone over the interfaces it was sent to measure.
fn carried(testbed: &TestbedSpec, run: &Measurement) -> Result<(), String> {
    let Adapter::Interfaces(interfaces) = &testbed.adapter else { return Ok(()) };
    let (traffic, counted) = (&run.traffic, &run.evidence.interface);
    for (way, payload, bytes) in [
        ("sent", traffic.transmit_bytes, counted.tx_bytes),
        ("received", traffic.receive_bytes, counted.rx_bytes),
    ] {
        if (bytes as f64) < payload as f64 * CARRIED {
            return Err(format!(
                "{} {way} {} of {} of payload by its counters: the traffic went another way",
                interfaces.names.join(", "),
                ByteSize(bytes),
                ByteSize(payload)
            ));
        }
    }
    Ok(())
}

/// The rate of the octets on a port's line, from its counters: the octets that left over the time
/// for which they occupied the line.
fn observed_rate(law: LinkLaw, port: &PortEvidence) -> Option<BitRate> {
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

fn link_rates(testbed: &TestbedSpec, run: &Measurement) -> Result<(), String> {
    let Adapter::Model(model) = &testbed.adapter else { return Ok(()) };
    let Some(BitRate(nominal)) = model.rate else { return Ok(()) };
    let law = LinkLaw::of(model);
    let expected = law.payload_rate(BitRate(nominal * testbed.scale));
    let ports = run.evidence.adapter.iter().flat_map(|adapter| &adapter.ports);
    for port in ports {
        let Some(observed) = observed_rate(law, port) else { continue };
        if (observed.0 / expected.0 - 1.0).abs() * 100.0 > RATE_PERCENT {
            return Err(format!(
                "the link of {} ran at {observed} by its counters, expected {expected}",
                port.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
