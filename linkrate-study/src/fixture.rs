//! A small study and runs with chosen figures, for tests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use linkrate_model::failure::{Failure, Timeline};
use linkrate_model::latency::Latency;
use linkrate_model::measurement::{
    AdapterEvidence, CpuTime, CpuUse, Effective, Evidence, IdleSource, InterfaceCounts,
    OtherProgram, PortEvidence, SenderTimes, ThreadTime, Traffic,
};
use linkrate_model::spec::{Adapter, Task};
use linkrate_model::{
    CpuSet, Event, Fault, InterfaceKnobs, Measurement, Offload, RunSpec, SocketKnobs, TestbedSpec,
    Workload, model,
};

use crate::executor::{Facts, RunFailure, Stage};
use crate::levels::{Level, Levels};
use crate::store::{Ended, Outcome, StoredPlan, StoredRun, StoredStudy};
use crate::study::{Cell, Factor, Method, Study};
use linkrate_stats::simulate::Simulator;
use linkrate_stats::stop::StopReason;

/// When the first of them began, milliseconds since 1970-01-01 UTC.
pub const STARTED_MS: u64 = 1_795_273_920_000;

/// An adapter, for studies of another one than a veth.
pub fn gigabit() -> Adapter {
    Adapter::Model(Box::new(model::find("gigabit").unwrap()))
}

/// `offload = ["none", "gso", "tso"]` over one stream.
pub fn ladder() -> Study {
    let rungs = [Offload::None, Offload::Gso, Offload::Tso];
    let cells = rungs.map(|rung| Cell {
        levels: Levels(vec![("offload".to_owned(), Level::Text(rung.name().to_owned()))]),
        spec: RunSpec {
            interface: InterfaceKnobs { offload: Some(rung), ..InterfaceKnobs::default() },
            warm_up: Duration::from_millis(300),
            ..RunSpec::new(Task::Workload(Workload::default()), Duration::from_secs(2))
        },
    });
    Study {
        name: "ladder".to_owned(),
        title: "The transmit ladder".to_owned(),
        paper: None,
        testbed: TestbedSpec::default(),
        factors: vec![Factor {
            name: "offload".to_owned(),
            levels: rungs.map(|rung| Level::Text(rung.name().to_owned())).to_vec(),
            effects: true,
        }],
        parts: Vec::new(),
        cells: cells.to_vec(),
        published: Vec::new(),
        method: Method {
            min_blocks: 3,
            max_blocks: 6,
            seed: Some(1),
            aa: false,
            ..Method::default()
        },
        quick: None,
        fleet: None,
        source: "title = \"The transmit ladder\"\n".to_owned(),
    }
}

/// A stream transmitted at `bits_per_second` over two seconds, with the SUT's one CPU busy for
/// `busy` of the time.
pub fn stream(bits_per_second: f64, busy: f64) -> Measurement {
    let traffic = Traffic {
        transmit_bytes: (bits_per_second / 4.0) as u64,
        transmit_seconds: 2.0,
        ..Traffic::default()
    };
    measurement(traffic, busy)
}

/// What a silent fault of a second showed.
pub fn failure() -> Failure {
    const MS: u64 = 1_000_000;
    Failure {
        event: Event {
            fault: Fault::Silent,
            at: Duration::from_millis(500),
            recover: Some(Duration::from_millis(1500)),
        },
        port: "eth0".to_owned(),
        at_ns: 501 * MS,
        recovered_ns: Some(1500 * MS),
        host_detected_ns: None,
        switch_detected_ns: None,
        host_moved_ns: None,
        switch_moved_ns: None,
        gap_ns: 0,
        flows: Vec::new(),
        gap_before_ns: 0,
        restored_ns: None,
        rate_before: 1e9,
        frames_lost: 900,
        frames_reordered: 0,
        resent_bytes: 1 << 20,
        resent_after: None,
        verified_bytes: 1 << 30,
        wrong_bytes: 0,
        timeline: Timeline::default(),
    }
}

/// Nothing flowed.
pub fn idle(busy: f64) -> Measurement {
    measurement(Traffic::default(), busy)
}

/// `rate` transactions per second over two seconds.
pub fn transactions(rate: f64, busy: f64) -> Measurement {
    let traffic = Traffic {
        transactions: (rate * 2.0) as u64,
        transaction_seconds: 2.0,
        ..Traffic::default()
    };
    measurement(traffic, busy)
}

/// A program that had this CPU time, and may have had it on the CPUs of a role or elsewhere.
pub fn roaming(cpu_ns: u64) -> Vec<OtherProgram> {
    vec![OtherProgram { pid: 7, name: "hog".to_owned(), cpu_ns, bound_ns: 0 }]
}

/// What two hosts of one CPU each measured in two seconds; the SUT's was busy for `busy` of the time.
pub fn measurement(traffic: Traffic, busy: f64) -> Measurement {
    let interval_ns = 2_000_000_000;
    let cpu = |cpu, busy| CpuUse {
        cpus: vec![CpuTime {
            cpu,
            interval_ns,
            busy_ns: (busy * interval_ns as f64) as u64,
            steal_ns: 0,
            uncertainty_ns: 0,
        }],
        threads: Vec::new(),
        source: IdleSource::TimerList,
        shared: false,
        background: Vec::new(),
        own_threads_ns: 0,
        parts: None,
    };
    Measurement {
        traffic,
        latency: None,
        histogram: None,
        intervals: Vec::new(),
        parts: Vec::new(),
        sut_cpu: cpu(0, busy),
        client_cpu: cpu(1, 0.5),
        effective: Effective {
            interface: InterfaceKnobs { mtu: Some(1500), ..InterfaceKnobs::default() },
            socket: SocketKnobs::default(),
            granted_send_buffer_bytes: 262_144,
            granted_receive_buffer_bytes: 262_144,
            mss_bytes: 1448,
        },
        evidence: Evidence {
            interface: InterfaceCounts {
                tx_packets: 1000,
                tx_bytes: 1_400_000,
                ..InterfaceCounts::default()
            },
            protocol: counts([("IpExt.OutOctets", 1_386_000), ("Ip.OutRequests", 1000)]),
            senders: SenderTimes { sockets: 1, busy_us: 1_900_000, ..SenderTimes::default() },
            ..Evidence::default()
        },
        profile: None,
        failure: None,
        remarks: Vec::new(),
    }
}

/// Counters by name.
pub fn counts<const N: usize>(named: [(&str, u64); N]) -> BTreeMap<String, u64> {
    named.map(|(name, count)| (name.to_owned(), count)).into()
}

/// What a two-port adapter counted over two seconds: full frames outwards, and the links occupied
/// for these shares of the time.
pub fn counted(tx_link: f64, rx_link: f64) -> Box<AdapterEvidence> {
    let port = |name: &str| PortEvidence {
        name: name.to_owned(),
        tx_link_percent: Some(tx_link),
        rx_link_percent: Some(rx_link),
        counters: counts([
            ("ifHCOutOctets", 1_518_000),
            ("ifHCOutUcastPkts", 1000),
            ("ifHCInOctets", 70_000),
            ("ifHCInUcastPkts", 1000),
            ("txSuperframes", 50),
            ("txSegments", 1000),
            ("rxChecksumGood", 1000),
        ]),
    };
    let thread = ThreadTime {
        name: "device".to_owned(),
        affinity: CpuSet::from_iter([1]),
        cpu_ns: 600_000_000,
        user_ns: 0,
    };
    Box::new(AdapterEvidence {
        interval_ns: 2_000_000_000,
        ports: vec![port("eth0"), port("eth1")],
        bus_percent: vec![23.0],
        device_threads: vec![thread.clone(), ThreadTime { cpu_ns: 200_000_000, ..thread }],
        ..AdapterEvidence::default()
    })
}

/// Latencies of this median, of which the 99th percentile may not be known.
pub fn latency(p50_ns: u64, p99_ns: Option<u64>) -> Latency {
    Latency {
        count: 40_000,
        mean_ns: 42e3,
        min_ns: 20_000,
        p50_ns: Some(p50_ns),
        p90_ns: Some(50_000),
        p99_ns,
        p99_9_ns: Some(200_000),
        p99_99_ns: Some(300_000),
        max_ns: 400_000,
        open_share: 0.0,
    }
}

/// A run that failed at a knob.
pub fn failed(reason: &str) -> RunFailure {
    RunFailure::at(Stage::Knob, reason)
}

/// A stored run of [`ladder`], or of its A/A test.
pub fn run(sequence: u32, block: u32, cell: Option<u32>, outcome: impl Into<Outcome>) -> StoredRun {
    let mut study = ladder();
    study.method.aa = true;
    let spec = match cell.and_then(|cell| study.cell(cell)) {
        Some(cell) => cell.spec.clone(),
        None => RunSpec { task: Task::Idle, ..study.cells[0].spec.clone() },
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
    StoredRun {
        sequence,
        block,
        cell,
        pair: None,
        missing_nodes: Vec::new(),
        started_unix_ms: STARTED_MS + 3000 * u64::from(sequence),
        spec,
        outcome: outcome.into(),
    }
}

/// A run of a cell of `study`.
pub fn run_of(
    study: &Study,
    sequence: u32,
    block: u32,
    cell: u32,
    outcome: impl Into<Outcome>,
) -> StoredRun {
    let spec = study.cells[cell as usize].spec.clone();
    stored_run(sequence, block, Some(cell), spec, outcome)
}

impl From<Measurement> for Outcome {
    fn from(measurement: Measurement) -> Self {
        Self::Measured(Box::new(measurement))
    }
}

impl From<RunFailure> for Outcome {
    fn from(failure: RunFailure) -> Self {
        Self::Failed(failure)
    }
}

/// What makes one set unlike another: factors on the rate and on the CPU time of each cell.
pub type Truth = [(f64, f64); 3];

/// No difference.
pub const SAME: Truth = [(1.0, 1.0); 3];

/// The ladder in `blocks` blocks: rates of 6, 12 and 24 Gb/s with `noise` of their own in each run
/// and `drift` that the runs of a block share, both as deviations of the logarithm.
pub fn set(seed: u64, blocks: u32, truth: Truth, noise: f64, drift: f64) -> StoredStudy {
    let mut simulator = Simulator::new(seed);
    let mut runs = Vec::new();
    for block in 0..blocks {
        let level = simulator.lognormal(drift);
        for (cell, (rate, busy)) in truth.into_iter().enumerate() {
            let rate = 6e9 * f64::from(1 << cell) * rate * level * simulator.lognormal(noise);
            let measured = stream(rate, 0.5 * busy * simulator.lognormal(noise));
            runs.push(run(runs.len() as u32, block, Some(cell as u32), measured));
        }
    }
    stored(ladder(), runs, seed)
}

/// What is stored of a study that is still running, on a host of which nothing is known.
pub fn under_way(study: Study, runs: Vec<StoredRun>) -> StoredStudy {
    let plan = StoredPlan::new(study, Facts::default(), 0);
    StoredStudy { directory: PathBuf::new(), plan, runs, torn: false, ended: None }
}

/// Facts by name.
pub fn facts_of<const N: usize>(named: [(&str, &str); N]) -> Facts {
    let facts = named.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Facts { facts, ..Facts::default() }
}

/// A result set of these runs, which began `seed` minutes after a fixed moment.
pub fn stored(study: Study, runs: Vec<StoredRun>, seed: u64) -> StoredStudy {
    let facts = [("kernel", "6.12.9"), ("cpu-model", "Example"), ("idle-time", "/proc/timer_list")];
    let facts = facts_of(facts);
    StoredStudy {
        directory: PathBuf::from("results/some"),
        plan: StoredPlan::new(study, facts, STARTED_MS + seed * 60_000),
        runs,
        torn: false,
        ended: Some(Ended::Rule(StopReason::MaxBlocks { blocks: 5 })),
    }
}
