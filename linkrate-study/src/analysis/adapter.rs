//! Counters of virtual adapters: figures of a cell, and warnings.

use std::collections::BTreeMap;

use linkrate_model::measurement::{AdapterEvidence, PortEvidence};
use linkrate_model::spec::Adapter;
use linkrate_model::{Measurement, TestbedSpec};

use crate::results::{AdapterFigures, PortFigures};
use crate::store::StoredRun;
use crate::study::Study;
use crate::verdict::FlowDirection;
use linkrate_stats::sample::mean;

pub fn evidence(run: &Measurement) -> Option<&AdapterEvidence> {
    run.evidence.adapter.as_deref()
}

fn mean_of<'a, T: 'a>(items: &'a [T], pick: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> =
        items.iter().filter_map(pick).filter(|value| value.is_finite()).collect();
    mean(&values)
}

/// Share of time in which the links were occupied outwards, mean over the ports.
pub fn tx_link_percent(adapter: &AdapterEvidence) -> Option<f64> {
    mean_of(&adapter.ports, |port| port.tx_link_percent)
}

/// The same inwards.
pub fn rx_link_percent(adapter: &AdapterEvidence) -> Option<f64> {
    mean_of(&adapter.ports, |port| port.rx_link_percent)
}

/// Share of the measurement in which the links were idle while superframes were fetched into the store of
/// their adapter, mean over the ports. `None` where no superframe was stored.
pub fn store_percent(run: &Measurement) -> Option<f64> {
    let interval_ns =
        run.sut_cpu.cpus.iter().map(|cpu| cpu.interval_ns).max().filter(|ns| *ns > 0)?;
    let of_port = |port: &PortEvidence| {
        let ns = port.counters.get("txStoreNs").copied().filter(|ns| *ns > 0)?;
        Some(ns as f64 * 100.0 / interval_ns as f64)
    };
    mean_of(&evidence(run)?.ports, of_port)
}

/// Share of time in which the busiest adapter's bus was occupied.
pub fn bus_percent(adapter: &AdapterEvidence) -> Option<f64> {
    adapter.bus_percent.iter().copied().filter(|share| share.is_finite()).reduce(f64::max)
}

/// Share of time in which the links were occupied in one direction, mean over the ports; without a
/// direction that of the busier one.
pub fn link_percent(run: &Measurement, direction: Option<FlowDirection>) -> Option<f64> {
    let adapter = evidence(run)?;
    match direction {
        Some(FlowDirection::Transmit) => tx_link_percent(adapter),
        Some(FlowDirection::Receive) => rx_link_percent(adapter),
        None => Some(tx_link_percent(adapter)?.max(rx_link_percent(adapter)?)),
    }
}

/// Share of time in which the link of each port was occupied in one direction, in the order of the
/// ports; `None` where no adapter counted, or links have no rate.
pub fn port_percents(run: &Measurement, direction: FlowDirection) -> Option<Vec<f64>> {
    let ports = evidence(run)?.ports.iter();
    let percents = ports.map(|port| match direction {
        FlowDirection::Transmit => port.tx_link_percent,
        FlowDirection::Receive => port.rx_link_percent,
    });
    percents.collect()
}

/// Whether device threads may run on CPUs that the clients have too.
pub fn device_shares_cpus(run: &Measurement) -> bool {
    let Some(adapter) = evidence(run) else { return false };
    let clients = &run.client_cpu.cpus;
    let on_clients =
        |affinity: &linkrate_model::CpuSet| clients.iter().any(|cpu| affinity.contains(cpu.cpu));
    adapter.device_threads.iter().any(|thread| on_clients(&thread.affinity))
}

/// Means over the good runs of a cell; `None` where no adapter counted.
pub fn figures(good: &[&Measurement]) -> Option<AdapterFigures> {
    let found: Vec<&AdapterEvidence> = good.iter().filter_map(|run| evidence(run)).collect();
    if found.is_empty() {
        return None;
    }
    let of = |pick: fn(&AdapterEvidence) -> Option<f64>| mean_of(&found, |adapter| pick(adapter));
    let mut ports: Vec<&str> = Vec::new();
    for port in found.iter().flat_map(|adapter| &adapter.ports) {
        if !ports.contains(&port.name.as_str()) {
            ports.push(&port.name);
        }
    }
    let share = |name: &str, pick: fn(&PortEvidence) -> Option<f64>| {
        mean_of(&found, |adapter| pick(adapter.ports.iter().find(|port| port.name == name)?))
    };
    let mut drops: BTreeMap<String, f64> = BTreeMap::new();
    for (reason, count) in found.iter().flat_map(|adapter| adapter.drops()) {
        *drops.entry(reason).or_default() += count as f64 / found.len() as f64;
    }
    Some(AdapterFigures {
        sent_frame_bytes: of(AdapterEvidence::mean_wire_frame_bytes),
        received_frame_bytes: of(AdapterEvidence::mean_received_frame_bytes),
        segments_per_superframe: of(AdapterEvidence::segments_per_superframe),
        merges_per_superframe: of(AdapterEvidence::merges_per_superframe),
        tx_link_percent: of(tx_link_percent),
        rx_link_percent: of(rx_link_percent),
        ports: ports
            .into_iter()
            .map(|name| PortFigures {
                port: name.to_owned(),
                tx_link_percent: share(name, |port| port.tx_link_percent),
                rx_link_percent: share(name, |port| port.rx_link_percent),
            })
            .collect(),
        bus_percent: of(bus_percent),
        device_cpus: of(|adapter| Some(adapter.device_cpus())),
        device_busiest_percent: of(AdapterEvidence::busiest_device_percent),
        device_shares_cpus: good.iter().any(|run| device_shares_cpus(run)),
        interrupt_delay_us: of(|adapter| adapter.driver_counts.mean_interrupt_delay_us()),
        drops,
        checksum_failures: of(|adapter| Some(adapter.checksum_failures() as f64)),
        frames_overtaken: of(|adapter| Some(adapter.frames_overtaken? as f64)),
    })
}

/// The adapters of a study's cells, each once: `atm-155, atm-622`.
pub fn names(study: &Study) -> String {
    let mut names: Vec<&str> = Vec::new();
    for cell in &study.cells {
        let name = cell.spec.adapter.as_deref().unwrap_or(study.testbed.adapter.name());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Whether a study has an adapter whose figures could be told from those of the machine. Of imported runs it is not known.
pub fn has_one(study: &Study) -> bool {
    !matches!(study.testbed.adapter, Adapter::Unknown) && is_told(&names(study))
}

/// Whether there is an adapter, by its [names], whose figures could be told from those of the machine.
pub fn is_told(names: &str) -> bool {
    names != Adapter::Veth.name()
}

/// The warning of a scaled testbed.
pub fn scaled(testbed: &TestbedSpec) -> Option<String> {
    let Adapter::Model(model) = &testbed.adapter else { return None };
    (testbed.scale < 1.0).then(|| {
        format!(
            "Links and buses ran at {} of the rates of adapter {}: throughput and verdicts are \
             those of slower links, and service demands contain more waiting than at full rate.",
            testbed.scale, model.name
        )
    })
}

pub fn warnings(name: &str, runs: &[&StoredRun]) -> Vec<String> {
    let good: Vec<&Measurement> = runs.iter().filter_map(|run| run.measurement()).collect();
    let mut found = Vec::new();
    let Some(mut figures) = figures(&good) else { return found };
    if good.iter().any(|run| run.failure.is_some()) {
        // what a link that was taken down drops is the question
        figures.drops.remove("txDropLinkDown");
    }
    if !figures.drops.is_empty() {
        let reasons: Vec<String> = figures
            .drops
            .iter()
            .map(|(reason, count)| format!("{reason} {}", rounded(*count)))
            .collect();
        found.push(format!("{name}: the adapter dropped frames, per run: {}.", reasons.join(", ")));
    }
    if let Some(count) = figures.checksum_failures.filter(|count| *count > 0.0) {
        found.push(format!(
            "{name}: {} received frames per run had a wrong checksum.",
            rounded(count)
        ));
    }
    found
}

/// A mean count: as a whole number if it is one, otherwise with decimals.
fn rounded(count: f64) -> String {
    if count < 10.0 && count.fract() != 0.0 { format!("{count:.1}") } else { format!("{count:.0}") }
}

#[cfg(test)]
mod tests;
