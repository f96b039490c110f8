//! Built-in studies with runs that follow simple laws: everything a real results directory has, by
//! the same way from stored runs to results.

use std::path::PathBuf;

use hdrhistogram::Histogram;
use linkrate_model::measurement::Traffic;
use linkrate_model::spec::Adapter;
use linkrate_model::{Direction, MessageSize, Offload, Task};
use linkrate_stats::stop::StopReason;
use linkrate_study::analysis::analyse;
use linkrate_study::fixture::facts_of;
use linkrate_study::latencies;
use linkrate_study::results::{Attribution, CategoryShare, StudyResults};
use linkrate_study::store::{Ended, StoredPlan, StoredStudy};
use linkrate_study::study::{Cell, Study};

use crate::fixture;

const BLOCKS: u32 = 5;

/// The results of a built-in study.
pub fn study(name: &str) -> StudyResults {
    analyse(&runs_of(name))
}

/// Its stored runs.
pub fn runs_of(name: &str) -> StoredStudy {
    stored(built_in(name))
}

/// The same, of its quick form.
pub fn quick(name: &str) -> StudyResults {
    analyse(&quick_runs_of(name))
}

/// The stored runs of its quick form.
pub fn quick_runs_of(name: &str) -> StoredStudy {
    stored(linkrate_study::quick::form(built_in(name)).unwrap())
}

fn built_in(name: &str) -> Study {
    let text = linkrate_study::builtin::find(name).unwrap().text;
    let mut study = linkrate_study::file::parse(name, name, text).unwrap();
    study.method.seed = Some(1);
    study
}

/// The study `tso` with where its CPU time went.
pub fn profiled() -> StudyResults {
    let mut results = study("tso");
    let categories = [
        ("data-copy", "data copy", 0.31),
        ("tcp-ip", "TCP/IP", 0.22),
        ("skb", "skb handling", 0.12),
        ("driver", "driver and netdev", 0.11),
        ("memory", "memory", 0.07),
        ("scheduling", "scheduling", 0.05),
        ("locks", "locks", 0.03),
        ("checksum", "checksum", 0.02),
        ("system-call", "system call entry", 0.03),
        ("application", "application", 0.02),
        ("unknown", "unknown", 0.02),
    ];
    for cell in &mut results.cells {
        let busy = cell.cpu.map_or(0.0, |cpu| cpu.interval.mean);
        let share = |category: &str, title: &str, percent: f64| CategoryShare {
            category: category.to_owned(),
            title: title.to_owned(),
            percent,
        };
        let mut shares: Vec<CategoryShare> =
            categories.iter().map(|(name, title, part)| share(name, title, busy * part)).collect();
        shares.push(share("idle", "idle", 100.0 - busy));
        cell.attribution = Some(Attribution {
            runs: BLOCKS,
            shares,
            meter_percent: busy + 0.4,
            sampled_percent: busy,
            error_points: 1.5,
            samples: 1987.4,
            unknown: vec![("strange_symbol".to_owned(), 1.2)],
        });
    }
    results
}

fn stored(study: Study) -> StoredStudy {
    let facts = facts_of([
        ("adapter", study.testbed.adapter.name()),
        ("client-cpus", "4-7"),
        ("cpu-model", "Example Core 4200 at 2.10 GHz"),
        ("kernel", "6.12.9"),
        ("sut-cpus", "0-3"),
    ]);
    let gigabits = match &study.testbed.adapter {
        Adapter::Model(model) => model.rate.map_or(1.0, |rate| rate.0 / 1e9),
        Adapter::Veth | Adapter::Interfaces(_) | Adapter::Unknown => 20.0,
    };
    let mut runs = Vec::new();
    for block in 0..BLOCKS {
        for (index, cell) in study.cells.iter().enumerate() {
            let sequence = u32::try_from(runs.len()).unwrap();
            // a wobble of 2 % that is not the same in any two runs of a block
            let wobble = 1.0 + 0.02 * (scattered(sequence) - 0.5);
            let (cell_index, spec) = (Some(u32::try_from(index).unwrap()), cell.spec.clone());
            let measured = measure(cell, gigabits, wobble);
            runs.push(fixture::stored_run(sequence, block, cell_index, spec, measured));
        }
    }
    let reason = StopReason::Precision { blocks: BLOCKS, half_width: 0.0213 };
    StoredStudy {
        directory: PathBuf::from("results/simulated"),
        plan: StoredPlan::new(study, facts, fixture::STARTED_MS),
        runs,
        torn: false,
        ended: Some(Ended::Rule(reason)),
    }
}

/// A number from 0 to 1 of which no distance between runs repeats (the finalizer of MurmurHash3).
fn scattered(sequence: u32) -> f64 {
    let mut bits = sequence.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    f64::from(bits ^ (bits >> 16)) / f64::from(u32::MAX)
}

/// A run of a cell: rates grow with ports and message size, costs fall with offloads.
fn measure(cell: &Cell, link: f64, wobble: f64) -> linkrate_model::Measurement {
    let Task::Workload(workload) = &cell.spec.task else { panic!("a cell without work") };
    let knobs = &cell.spec.interface;
    let ports = f64::from(cell.spec.ports.unwrap_or(1));
    let saving = match knobs.offload {
        Some(Offload::Tso) => 0.4,
        Some(Offload::Gso) => 0.7,
        _ => 1.0,
    };
    let merging = match (knobs.port.lro, knobs.gro) {
        (Some(true), _) => 0.5,
        (_, Some(true)) => 0.8,
        _ => 1.0,
    };
    let jumbo = if knobs.mtu == Some(9000) { 0.6 } else { 1.0 };
    let size = match workload.message {
        MessageSize::Fixed(size) => size.0 as f64,
        MessageSize::Uniform { high, .. } => high.0 as f64,
    };
    let cost = 2.2 * saving * merging * jumbo * (1.0 + 2000.0 / size) * wobble;
    let ways = if workload.direction == Direction::Bidirectional { 1.8 } else { 1.0 };
    let gigabits = (0.92 * link * ports * ways).min(20.0 / cost) * wobble;
    let busy = (gigabits * 1e9 / 8.0 / 1024.0 * cost / 1e6 / 4.0).clamp(0.01, 0.99);
    let mut measurement =
        fixture::measurement(gigabits, busy, knobs.offload.unwrap_or(Offload::Tso));
    if workload.direction == Direction::Bidirectional {
        let traffic = &mut measurement.traffic;
        traffic.receive_bytes = traffic.transmit_bytes / 2;
        traffic.transmit_bytes -= traffic.receive_bytes;
        traffic.receive_seconds = traffic.transmit_seconds;
    }
    if workload.kind.is_transactional() {
        let MessageSize::Fixed(request) = workload.request else { panic!("sizes that vary") };
        let rate =
            24_000.0 * f64::from(workload.burst).sqrt() / (1.0 + request.0 as f64 / 40_000.0);
        measurement.traffic = Traffic {
            transactions: (rate * wobble * 2.0) as u64,
            transaction_seconds: 2.0,
            ..Traffic::default()
        };
        let p50 = (41_000.0 * wobble * (1.0 + request.0 as f64 / 30_000.0)) as u64;
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for (count, quarters) in
            [(24_000, 4), (19_200, 5), (4320, 8), (432, 20), (43, 160), (5, 360)]
        {
            histogram.record_n(p50 * quarters / 4, count).unwrap();
        }
        measurement.latency = latencies::figures(&histogram);
        measurement.histogram = latencies::encoded(&histogram);
    }
    measurement
}
