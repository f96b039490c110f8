//! Made-up results, close to what a small machine gives.

// an example includes this file by its path too
#[path = "fixture/fleet.rs"]
mod fleet;
#[path = "fixture/requests.rs"]
mod requests;

use std::collections::BTreeMap;
use std::time::Duration;

use linkrate_model::failure::{Failure, FlowGap, PortTimeline, Resent, Timeline};
use linkrate_model::latency::{LatencyFigures, LatencyIntervals};
use linkrate_model::measurement::{Evidence, IdleSource, InterfaceCounts, Latency, SenderTimes};
use linkrate_model::workload::Loop;
use linkrate_model::{Direction, Event, Fault, Measurement, Offload, RunSpec, Task, Workload};
use linkrate_study::executor::{Contention, Facts, RunFailure, Stage};
use linkrate_study::fixture as made_up;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::published::Basis;
use linkrate_study::quantity::{Interval, Measure, Quantity, Unit};
use linkrate_study::results::figures::{FailureFigures, Moment, RoundTripParts};
use linkrate_study::results::{
    AdapterFigures, CellEvidence, CellResult, DemandParts, DisciplineFigures, Effect, FailedRun,
    LinePart, LineTax, MemberFigures, PortFigures, Predicted, PredictedPort, Probabilities,
    PublishedKind, PublishedResult, RESULTS_FORMAT, StudyResults,
};
use linkrate_study::store::{Outcome, StoredRun};
use linkrate_study::study::Family;
use linkrate_study::verdict::{Bottleneck, CpuShare, FlowDirection, Judged, Verdict};

pub use self::fleet::{fleet, incast};
pub use self::requests::request_response;

/// The effect as it was judged.
fn judged(effect: Effect, claimed: bool) -> Effect {
    let p = |claimed_p, other_p| Some(if claimed { claimed_p } else { other_p });
    let probabilities = Probabilities {
        p: p(1e-4, 0.4),
        adjusted_p: p(1e-3, 1.0),
        p_beyond: p(2e-4, 1.0),
        adjusted_p_beyond: p(2e-3, 1.0),
    };
    Effect { probabilities, significant: claimed, ..effect }
}

fn quantity(mean: f64, half: f64, unit: Unit) -> Quantity {
    let interval = Interval { mean, low: Some(mean - half), high: Some(mean + half) };
    Quantity { interval, unit }
}

fn relative(mean: f64, fraction: f64, unit: Unit) -> Quantity {
    quantity(mean, mean * fraction, unit)
}

fn text(level: &str) -> Level {
    Level::Text(level.to_owned())
}

fn levels(pairs: &[(&str, Level)]) -> Levels {
    Levels(pairs.iter().map(|(factor, level)| ((*factor).to_owned(), level.clone())).collect())
}

fn share(percent: f64) -> CpuShare {
    CpuShare { percent, of_thread: false }
}

/// What bound each direction of a cell on links without a rate.
pub fn verdict(bounds: &[(Option<FlowDirection>, Bottleneck)]) -> Verdict {
    let judged = |(direction, bound): &(Option<FlowDirection>, Bottleneck)| Judged {
        direction: *direction,
        bottleneck: bound.clone(),
        link_percent: None,
        agreeing: (5, 5),
        shortfall: Vec::new(),
    };
    Verdict {
        directions: bounds.iter().map(judged).collect(),
        shared_cpus: false,
        device_shares_cpus: false,
        client_others_percent: None,
        scale: 1.0,
        imported: false,
    }
}

fn evidence(packet: f64, driver: f64, rwnd: f64) -> CellEvidence {
    CellEvidence {
        acknowledgements_per_segment: Some(0.06),
        client_receive_batches: Some(12.0),
        stack_packet_bytes: Some(packet),
        frames_per_received_packet: Some(1.0),
        received_packet_bytes: Some(52.0),
        driver_packet_bytes: Some(driver),
        client_cpu_percent: Some(61.2),
        rwnd_limited_percent: Some(rwnd),
        sndbuf_limited_percent: Some(0.4),
        retransmits: Some(0.0),
        drops: Some(0.0),
        granted_send_buffer_bytes: Some(262_144),
        granted_receive_buffer_bytes: Some(262_144),
        mss_bytes: Some(1448),
        family: Some(linkrate_model::Family::Ipv4),
        idle_source: Some(IdleSource::TimerList),
        ..CellEvidence::default()
    }
}

fn facts() -> Facts {
    let facts = [
        ("adapter", "veth pair per client, MTU 1500"),
        ("client-cpus", "1"),
        ("cpu-model", "Example Core 4200 at 2.10 GHz"),
        ("kernel", "Linux 6.12.9"),
        ("linkrate", "0.1.0"),
        ("sut-cpus", "0"),
        ("virtualisation", "none"),
    ];
    Facts {
        contention: Some(Contention {
            loop_ns: 2_100_000,
            slowdown_ppm: 11_000,
            low_ppm: 9_000,
            high_ppm: 14_000,
        }),
        measured: BTreeMap::from([(
            "tap-prices".to_owned(),
            "read 0.41 µs a call (0.40 to 0.43)".to_owned(),
        )]),
        warnings: vec![
            "The CPU frequency governor is powersave: service demand varies with the clock."
                .to_owned(),
        ],
        ..made_up::facts_of(facts)
    }
}

/// A run of two seconds at that rate, with the SUT's one CPU busy for that share of it.
pub fn measurement(gigabits: f64, busy: f64, offload: Offload) -> Measurement {
    let mut measured = made_up::stream(gigabits * 1e9, busy);
    measured.client_cpu.cpus[0].busy_ns = 1_224_000_000;
    for used in [&mut measured.sut_cpu, &mut measured.client_cpu] {
        used.cpus[0].steal_ns = 1_200_000;
    }
    measured.effective.interface.offload = Some(offload);
    measured.evidence = Evidence {
        interface: InterfaceCounts {
            tx_packets: 100_000,
            tx_bytes: 4_500_000_000,
            ..InterfaceCounts::default()
        },
        protocol: made_up::counts([
            ("Ip.OutRequests", 100_000),
            ("IpExt.OutOctets", 4_498_600_000),
        ]),
        senders: SenderTimes { busy_us: 1_990_000, ..measured.evidence.senders },
        receive_packets_by_cpu: BTreeMap::from([(0, 64_000)]),
        ..Evidence::default()
    };
    measured
}

/// When these runs began, milliseconds since 1970-01-01 UTC.
pub const STARTED_MS: u64 = 1_700_000_000_000;

fn run(sequence: u32, block: u32, cell: Option<u32>, task: Task, outcome: Outcome) -> StoredRun {
    let spec = RunSpec {
        warm_up: Duration::from_millis(500),
        seed: 1000 + u64::from(sequence),
        ..RunSpec::new(task, Duration::from_secs(2))
    };
    stored_run(sequence, block, cell, spec, outcome)
}

/// A run as it is stored, three seconds after the one before it.
pub fn stored_run(
    sequence: u32,
    block: u32,
    cell: Option<u32>,
    spec: RunSpec,
    outcome: impl Into<Outcome>,
) -> StoredRun {
    let started_unix_ms = STARTED_MS + 3000 * u64::from(sequence);
    StoredRun { started_unix_ms, ..made_up::stored_run(sequence, block, cell, spec, outcome) }
}

/// The offload ladder in two directions, with a failed run, an idle run in each block, effects
/// that are claimed and effects that are not.
pub fn stream() -> StudyResults {
    let figures = [
        // Gb/s, CPU per cent, µs/KB, bytes of a packet, bound
        (6.10, 99.8, 2.16, 1500.0, Bottleneck::SutCpu { sut: share(99.8) }),
        (5.02, 99.9, 2.61, 1500.0, Bottleneck::SutCpu { sut: share(99.9) }),
        (13.2, 99.7, 1.00, 44_800.0, Bottleneck::SutCpu { sut: share(99.7) }),
        (9.31, 99.9, 1.41, 39_200.0, Bottleneck::SutCpu { sut: share(99.9) }),
        (24.8, 70.3, 0.36, 63_900.0, Bottleneck::ClientCpu { client: share(98.9) }),
        (14.4, 90.0, 0.873, 60_100.0, Bottleneck::ReceiverWindow { percent: 68.0, path: None }),
    ];
    let offloads = [Offload::None, Offload::Gso, Offload::Tso];
    let directions = [Direction::Transmit, Direction::Bidirectional];
    let names = ["transmit", "bidirectional"];
    let mut cells = Vec::new();
    for (index, (gigabits, cpu, demand, packet, bound)) in figures.clone().into_iter().enumerate() {
        let (offload, direction) = (offloads[index / 2], names[index % 2]);
        let wobble = [0.012, 0.018, 0.009, 0.024, 0.021, 0.004][index];
        cells.push(CellResult {
            levels: levels(&[("offload", text(offload.name())), ("direction", text(direction))]),
            runs: if index == 5 { 4 } else { 5 },
            failed: u32::from(index == 5),
            left_out: 0,
            two_groups: Vec::new(),
            throughput: Some(relative(gigabits * 1e9, wobble, Unit::BitsPerSecond)),
            limit: None,
            directions: Vec::new(),
            predicted: Vec::new(),
            transactions: None,
            completed: None,
            mix: Vec::new(),
            service_demand: Some(relative(demand, wobble * 1.2, Unit::MicrosecondsPerKb)),
            service_demand_parts: None,
            cpu: Some(quantity(cpu, 0.2 + wobble * 10.0, Unit::Percent)),
            latency: None,
            of_loop: None,
            round_trip: None,
            evidence: evidence(
                packet,
                if index < 4 { 1514.0 } else { packet + 14.0 },
                wobble * 100.0,
            ),
            shared_cpus: Some(false),
            verdict: match index % 2 {
                0 => verdict(&[(Some(FlowDirection::Transmit), bound)]),
                _ => verdict(&[
                    (Some(FlowDirection::Transmit), bound.clone()),
                    (Some(FlowDirection::Receive), bound),
                ]),
            },
            attribution: None,
            failure: None,
        });
    }
    let effect = |to: &str, at: &str, measure, [mean, low, high]: [f64; 3], claimed| {
        let ratio = Interval { mean, low: Some(low), high: Some(high) };
        let (ends, at) = ([text("none"), text(to)], levels(&[("direction", text(at))]));
        judged(Effect::of("offload", ends, at, measure, ratio, 5), claimed)
    };
    let effects = vec![
        effect("gso", names[0], Measure::Throughput, [2.164, 2.12, 2.21], true),
        effect("gso", names[1], Measure::Throughput, [1.855, 1.80, 1.91], true),
        effect("tso", names[0], Measure::Throughput, [4.066, 3.96, 4.17], true),
        effect("tso", names[1], Measure::Throughput, [2.869, 2.81, 2.92], true),
        effect("gso", names[0], Measure::ServiceDemand, [0.463, 0.452, 0.475], true),
        effect("gso", names[1], Measure::ServiceDemand, [1.012, 0.975, 1.051], false),
        effect("tso", names[0], Measure::ServiceDemand, [0.167, 0.162, 0.172], true),
        effect("tso", names[1], Measure::ServiceDemand, [0.985, 0.975, 0.994], false),
    ];
    let failure = "read back rx-gro: on, asked for off";
    let mut runs = Vec::new();
    for block in 0..5u32 {
        let mut idle = measurement(0.0, 0.004, Offload::None);
        idle.effective.mss_bytes = 0;
        let sequence = runs.len() as u32;
        runs.push(run(sequence, block, None, Task::Idle, Outcome::Measured(Box::new(idle))));
        for step in 0..6u32 {
            // a fixed shuffle: 5 shares no divisor with 6
            let cell = (step * 5 + block) % 6;
            let (gigabits, cpu, ..) = figures[cell as usize];
            let drift = 1.0 + f64::from(block) * 0.004 - 0.008;
            let outcome = if (block, cell) == (3, 5) {
                let reason = failure.to_owned();
                Outcome::Failed(RunFailure::at(Stage::Knob, reason))
            } else {
                let offload = offloads[cell as usize / 2];
                Outcome::Measured(Box::new(measurement(gigabits * drift, cpu / 100.0, offload)))
            };
            let direction = directions[cell as usize % 2];
            let task = Task::Workload(Workload { direction, ..Workload::default() });
            runs.push(run(runs.len() as u32, block, Some(cell), task, outcome));
        }
    }
    StudyResults {
        format: RESULTS_FORMAT,
        study: "tso".to_owned(),
        title: "TCP segmentation offload: what each rung of the ladder buys".to_owned(),
        results: "tso-20231114-2213".to_owned(),
        started_unix_ms: 1_700_000_000_000,
        linkrate_version: "0.1.0".to_owned(),
        seed: Some(1),
        run_seconds: Some(2.0),
        warm_up_seconds: Some(0.5),
        imported: Vec::new(),
        directory: "results/tso".to_owned(),
        confidence: 0.95,
        interval_confidence: 0.95,
        effect_interval_confidence: 0.96,
        minimum_effect: 0.02,
        family: Family::Study,
        adapter: "veth".to_owned(),
        scale: 1.0,
        complete: true,
        stopped: "Every interval is within 2.5 % of its mean.".to_owned(),
        blocks: 5,
        cells,
        effects,
        published: Vec::new(),
        windows: Vec::new(),
        aa: None,
        payback: None,
        fleet: None,
        background_cpu: Some(quantity(0.42, 0.05, Unit::Percent)),
        facts: facts(),
        failures: vec![FailedRun {
            block: 3,
            idle: false,
            levels: levels(&[("offload", text("tso")), ("direction", text("bidirectional"))]),
            stage: Stage::Knob,
            reason: failure.to_owned(),
            disturbed: false,
        }],
        warnings: vec![
            "The hypervisor took 1.3 % of the SUT's CPU time in 2 of 35 runs; those runs carry \
             their steal time in runs.csv."
                .to_owned(),
        ],
        runs,
        plan: None,
    }
}

/// What `measure` prints: one cell, one run, no interval, no effects.
pub fn single() -> StudyResults {
    let mut results = stream();
    let mut cell = results.cells.swap_remove(4);
    cell.levels = Levels::default();
    cell.runs = 1;
    for figure in
        [&mut cell.throughput, &mut cell.service_demand, &mut cell.cpu].into_iter().flatten()
    {
        figure.interval.low = None;
        figure.interval.high = None;
    }
    cell.evidence.members = [("eth2", 70.0, 51.2), ("eth3", 30.0, 48.8)]
        .map(|(member, sent, received)| MemberFigures {
            aggregate: "bond0".to_owned(),
            member: member.to_owned(),
            tx_percent: Some(sent),
            rx_percent: Some(received),
        })
        .into();
    cell.evidence.disciplines = vec![DisciplineFigures {
        interface: "eth0".to_owned(),
        kind: "noqueue".to_owned(),
        parent: "root".to_owned(),
        runs: 1,
        ..DisciplineFigures::default()
    }];
    cell.evidence.client_disciplines = vec![DisciplineFigures {
        interface: "client 0: eth0".to_owned(),
        ..cell.evidence.disciplines[0].clone()
    }];
    let mut only = results.runs.swap_remove(1);
    only.cell = Some(0);
    StudyResults {
        study: "measure".to_owned(),
        title: "Stream to lab2, transmit".to_owned(),
        results: String::new(),
        directory: String::new(),
        stopped: "One run was asked for.".to_owned(),
        blocks: 1,
        cells: vec![cell],
        effects: Vec::new(),
        background_cpu: None,
        failures: Vec::new(),
        warnings: Vec::new(),
        facts: Facts::default(),
        runs: vec![only],
        ..results
    }
}

/// Two events: a lost carrier that both ends detect, and silent loss that nothing detects. Each has a
/// run with a timeline.
pub fn failed() -> StudyResults {
    const MS: f64 = 1e6;
    let mut results = stream();
    let found =
        |ms: f64| Moment { after: Some(relative(ms * MS, 0.1, Unit::Nanoseconds)), runs: 5 };
    let never = Moment { after: None, runs: 0 };
    let ms = |ms: f64| Some(relative(ms * MS, 0.05, Unit::Nanoseconds));
    let figures = |fault, detected: &Moment, gap: f64| FailureFigures {
        fault,
        at_seconds: 0.5,
        recover_seconds: None,
        runs: 5,
        open_runs: 0,
        reordered_runs: 0,
        host_detection: Some(detected.clone()),
        switch_detection: Some(detected.clone()),
        host_move: Some(detected.clone()),
        switch_move: Some(detected.clone()),
        gap: ms(gap),
        flow_gap: ms(gap * 1.2),
        gap_before: ms(2.1),
        restored: detected.clone(),
        frames_lost: Some(relative(212.0, 0.07, Unit::Frames)),
        frames_reordered: Some(quantity(0.0, 0.0, Unit::Frames)),
        resent: Some(relative(341e3, 0.07, Unit::Bytes)),
        resent_after: Some(relative(338e3, 0.07, Unit::Bytes)),
        segments_after: Some(relative(233.0, 0.07, Unit::Frames)),
        verified_bytes: 807_000_000,
    };
    results.cells.truncate(2);
    for (cell, (name, failure)) in results.cells.iter_mut().zip([
        ("carrier", figures(Fault::Carrier, &found(0.07), 5.0)),
        ("silent", figures(Fault::Silent, &never, 1500.0)),
    ]) {
        cell.levels = levels(&[("event", text(name))]);
        cell.failure = Some(failure);
    }
    results.runs.retain(|run| run.cell.is_some_and(|cell| cell < 2));
    for run in &mut results.runs {
        let fault = if run.cell == Some(0) { Fault::Carrier } else { Fault::Silent };
        let event = Event { fault, at: Duration::from_millis(500), recover: None };
        run.spec.event = Some(event);
        if let Outcome::Measured(measured) = &mut run.outcome {
            measured.failure = Some(Box::new(failure_of(event)));
        }
    }
    StudyResults { effects: Vec::new(), failures: Vec::new(), ..results }
}

fn failure_of(event: Event) -> Failure {
    let port = |port: &str, before: u64, after: u64| PortTimeline {
        port: port.to_owned(),
        octets: (0..200).map(|slot| if slot < 50 { before } else { after }).collect(),
    };
    Failure {
        event,
        port: "eth0".to_owned(),
        at_ns: 500_040_000,
        recovered_ns: None,
        host_detected_ns: (event.fault == Fault::Carrier).then_some(70_000),
        switch_detected_ns: None,
        host_moved_ns: (event.fault == Fault::Carrier).then_some(110_000),
        switch_moved_ns: None,
        gap_ns: 5_000_000,
        flows: vec![FlowGap { flow: "receive 0.0".to_owned(), gap_ns: 6_000_000 }],
        gap_before_ns: 2_100_000,
        restored_ns: None,
        rate_before: 188e6,
        frames_lost: 212,
        frames_reordered: 3,
        resent_bytes: 341_000,
        resent_after: Some(Resent { bytes: 338_000, segments: 233 }),
        verified_bytes: 80_700_000,
        wrong_bytes: 0,
        timeline: Timeline {
            slot_ns: 10_000_000,
            received: vec![235_000; 200],
            ports: vec![port("eth0", 250_000, 0), port("eth1", 0, 250_000)],
        },
    }
}

/// Where the time of a line went outwards.
pub fn line(parts: &[(&str, f64)], at_most: f64) -> LineTax {
    let part =
        |(name, percent): &(&str, f64)| LinePart { name: (*name).to_owned(), percent: *percent };
    LineTax {
        direction: FlowDirection::Transmit,
        parts: parts.iter().map(part).collect(),
        payload_percent_at_most: Some(at_most),
    }
}

/// Two ports of a modelled adapter at a tenth of their rate, with what a paper found.
pub fn adapter() -> StudyResults {
    let mut results = stream();
    let shares = [(36.1, 1.4), (98.9, 2.2)];
    results.cells.truncate(1);
    results.cells.extend(stream().cells.into_iter().skip(4).take(1));
    for (cell, (tx, rx)) in results.cells.iter_mut().zip(shares) {
        cell.throughput = Some(relative(tx * 1.88e6, 0.004, Unit::BitsPerSecond));
        cell.limit = Some(Quantity {
            interval: Interval { mean: 188_296_489.0, low: None, high: None },
            unit: Unit::BitsPerSecond,
        });
        cell.service_demand_parts = cell.service_demand.map(parts_of);
        cell.evidence.adapter = Some(AdapterFigures {
            sent_frame_bytes: Some(1511.3),
            received_frame_bytes: Some(70.1),
            segments_per_superframe: (tx > 90.0).then_some(21.4),
            merges_per_superframe: None,
            tx_link_percent: Some(tx),
            rx_link_percent: Some(rx),
            ports: ["eth0", "eth1"]
                .map(|port| PortFigures {
                    port: port.to_owned(),
                    tx_link_percent: Some(tx),
                    rx_link_percent: Some(rx),
                })
                .into(),
            bus_percent: Some(tx / 4.0),
            device_cpus: Some(0.314),
            device_busiest_percent: Some(18.2),
            device_shares_cpus: true,
            interrupt_delay_us: Some(21.4),
            drops: BTreeMap::from([("rxDropRingFull".to_owned(), 2.5)]),
            checksum_failures: Some(0.0),
            frames_overtaken: None,
        });
    }
    results.cells[1].evidence.line = vec![line(
        &[
            ("payload", 93.1),
            ("TCP/IP headers", 3.4),
            ("Ethernet header", 0.9),
            ("frame check sequence", 0.3),
            ("preamble", 0.5),
            ("inter-frame gap", 0.7),
            ("idle", 1.1),
        ],
        94.1,
    )];
    let published = |measure, kind, published, measured: [f64; 3], unit| PublishedResult {
        basis: Basis::Printed,
        source: None,
        measure,
        at: levels(&[("direction", text("transmit"))]),
        factor: Some("offload".to_owned()),
        from: Some(text("none")),
        to: Some(text("tso")),
        kind,
        combinations: if kind == PublishedKind::Effect { 3 } else { 1 },
        left_out: 0,
        published,
        measured: Some(Interval {
            mean: measured[0],
            low: Some(measured[1]),
            high: Some(measured[2]),
        }),
        unit,
        published_percent_of_limit: None,
        measured_percent_of_limit: None,
    };
    let value = PublishedResult {
        basis: Basis::Parameter,
        at: results.cells[0].levels.clone(),
        factor: None,
        from: None,
        to: None,
        measured: None,
        ..published(
            Measure::ServiceDemand,
            PublishedKind::Value,
            1.35,
            [0.0; 3],
            Unit::MicrosecondsPerKb,
        )
    };
    let rate = PublishedResult {
        kind: PublishedKind::Value,
        published_percent_of_limit: Some(97.8),
        measured_percent_of_limit: Some(Interval { mean: 98.9, low: Some(98.6), high: Some(99.2) }),
        measured: Some(Interval { mean: 744.6e6, low: Some(742.1e6), high: Some(747.1e6) }),
        source: Some("A. Author, a letter (2022)".to_owned()),
        ..PublishedResult {
            measure: Measure::Throughput,
            unit: Unit::BitsPerSecond,
            published: 3682e6,
            ..value.clone()
        }
    };
    let difference = [118.1e6, 117.2e6, 119.0e6];
    results.published = vec![
        published(
            Measure::ServiceDemand,
            PublishedKind::Effect,
            0.53,
            [0.167, 0.162, 0.172],
            Unit::Ratio,
        ),
        value,
        published(
            Measure::Throughput,
            PublishedKind::Difference,
            178.63e6,
            difference,
            Unit::BitsPerSecond,
        ),
        rate,
    ];
    let port = |flows, share, measured| PredictedPort {
        flows: Some(flows),
        share_percent: Some(share),
        measured_percent: Some(measured),
    };
    let none = PredictedPort { flows: None, share_percent: None, measured_percent: Some(50.0) };
    if let Some(adapter) = &mut results.cells[0].evidence.adapter {
        adapter.frames_overtaken = Some(12_340.0);
    }
    results.cells[0].predicted = vec![
        Predicted {
            direction: FlowDirection::Transmit,
            balance: "port".to_owned(),
            ports: vec![port(5.4, 61.0, 58.5), port(2.6, 39.0, 41.5)],
            limit: Some(Quantity {
                interval: Interval { mean: 376.6e6, low: None, high: None },
                unit: Unit::BitsPerSecond,
            }),
            unpredictable: None,
        },
        Predicted {
            direction: FlowDirection::Receive,
            balance: "round-robin".to_owned(),
            ports: vec![none.clone(), none],
            limit: None,
            unpredictable: Some("each frame takes the next port".to_owned()),
        },
    ];
    StudyResults {
        adapter: "gigabit".to_owned(),
        scale: 0.1,
        effects: Vec::new(),
        failures: Vec::new(),
        runs: Vec::new(),
        ..results
    }
}

/// A study whose every text tries to leave its place.
pub fn hostile() -> StudyResults {
    let attack = "<script>alert('x')</script>\u{1b}[31m & \"";
    let mut results = stream();
    results.title = attack.to_owned();
    results.study = attack.to_owned();
    results.stopped = attack.to_owned();
    results.results = attack.to_owned();
    results.warnings = vec![attack.to_owned()];
    results.facts.facts.insert(attack.to_owned(), attack.to_owned());
    for cell in &mut results.cells {
        cell.levels.0[0] = (attack.to_owned(), text(attack));
    }
    for effect in &mut results.effects {
        effect.factor = attack.to_owned();
        effect.to = text(attack);
    }
    results.published = adapter().published;
    for published in &mut results.published {
        published.at.0[0] = (attack.to_owned(), text(attack));
        published.factor = Some(attack.to_owned());
        (published.from, published.to) = (Some(text(attack)), Some(text(attack)));
    }
    for failure in &mut results.failures {
        failure.reason = attack.to_owned();
    }
    results
}

/// The parts of this service demand, which scatter as it does: a third and more is the application's, half the driver's.
pub fn parts_of(demand: Quantity) -> DemandParts {
    let whole = demand.interval;
    let part = |fraction: f64| Interval {
        mean: whole.mean * fraction,
        low: whole.low.map(|low| low * fraction),
        high: whole.high.map(|high| high * fraction),
    };
    DemandParts {
        application: part(0.36),
        driver: Some(part(0.5)),
        receives_in_driver: false,
        napi: part(0.05),
        softirqs: part(0.02),
        interrupts: part(0.01),
        idle_loop: part(0.04),
        kernel: part(0.0),
        linkrate: part(0.0),
        not_attributed: whole.mean * 0.02,
    }
}
