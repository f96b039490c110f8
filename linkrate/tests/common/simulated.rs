//! Result sets with known truth, stored as a study stores them. Nothing is measured.

use std::path::Path;

use linkrate_model::measurement::{
    AdapterEvidence, CpuTime, CpuUse, Evidence, InterfaceCounts, Interval, Latency, PortEvidence,
    SenderTimes, ThreadTime, Traffic,
};
use linkrate_model::spec::Adapter;
use linkrate_model::{CpuSet, Measurement, RunSpec, Task};
use linkrate_stats::stop::StopReason;
use linkrate_study::executor::{RunFailure, Stage};
use linkrate_study::fixture;
use linkrate_study::levels::Levels;
use linkrate_study::schedule::block_order;
use linkrate_study::store::{Ended, Outcome, RunStore, Store, StoredRun};
use linkrate_study::study::Study;

/// Two rungs in two directions, on a virtual adapter.
pub const STREAMS: &str = r#"title = "Simulated streams"
[testbed]
adapter = "gigabit"
[factors]
offload = ["none", "tso"]
direction = ["transmit", "bidirectional"]
[method]
run = "1 s"
blocks = { min = 5, max = 5 }
"#;

/// Transactions on one and on eight connections.
pub const TRANSACTIONS: &str = r#"title = "Simulated transactions"
[testbed]
adapter = "veth"
[workload]
kind = "request-response"
[factors]
connections = [1, 8]
[method]
run = "1 s"
blocks = { min = 5, max = 5 }
"#;

/// What a set is made with.
pub struct Set<'a> {
    pub study: &'a str,
    /// Blocks that are run.
    pub blocks: u32,
    /// Seed of the noise; sets with different ones are independent.
    pub seed: u64,
    /// When it began, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// The kernel it says it ran on.
    pub kernel: &'a str,
    /// Factor on the rate of a cell, 1 for the usual one.
    pub rate: fn(&Levels) -> f64,
    /// Whether a run of this block and cell fails.
    pub fails: fn(u32, &Levels) -> bool,
}

impl Default for Set<'_> {
    fn default() -> Self {
        Self {
            study: STREAMS,
            blocks: 5,
            seed: 1,
            started_unix_ms: fixture::STARTED_MS,
            kernel: "6.12.9",
            rate: |_| 1.0,
            fails: |_, _| false,
        }
    }
}

impl Set<'_> {
    #[track_caller]
    pub fn store(&self, directory: &Path) {
        let mut study = linkrate_study::file::parse("simulated", "simulated.toml", self.study)
            .unwrap_or_else(|errors| panic!("{errors}"));
        let facts = [
            ("kernel", self.kernel),
            ("cpu-model", "Example Core 4200"),
            ("idle-time", "/proc/timer_list"),
            ("sut-cpus", "0"),
        ];
        let facts = fixture::facts_of(facts);
        study.method.seed = Some(1);
        let mut store =
            Store::create(directory, &study, facts, self.started_unix_ms).expect("a new store");
        let mut noise = Noise(self.seed);
        for block in 0..self.blocks {
            for slot in block_order(&study, block) {
                let sequence = store.next_sequence();
                let (spec, outcome) = self.run(&study, block, slot.cell, &mut noise);
                let started_unix_ms = self.started_unix_ms + 1500 * u64::from(sequence);
                let spec = RunSpec { seed: slot.seed, ..spec };
                let run = fixture::stored_run(sequence, block, slot.cell, spec, outcome);
                store.append(&StoredRun { started_unix_ms, ..run }).expect("a run is stored");
            }
        }
        let ended = Ended::Rule(StopReason::MaxBlocks { blocks: self.blocks });
        store.finish(&ended).expect("the end is stored");
    }

    fn run(
        &self,
        study: &Study,
        block: u32,
        cell: Option<u32>,
        noise: &mut Noise,
    ) -> (RunSpec, Outcome) {
        let on_adapter = matches!(study.testbed.adapter, Adapter::Model(_));
        let Some(cell) = cell.and_then(|cell| study.cell(cell)) else {
            let spec = RunSpec { task: Task::Idle, ..study.cells[0].spec.clone() };
            let idle = measurement(Traffic::default(), 0.004, on_adapter);
            return (spec, Outcome::Measured(Box::new(idle)));
        };
        let (spec, levels) = (cell.spec.clone(), &cell.levels);
        if (self.fails)(block, levels) {
            let reason = "read back tx-tcp-segmentation: off, asked for on".to_owned();
            return (spec, Outcome::Failed(RunFailure::at(Stage::Knob, reason)));
        }
        let name = levels.to_string();
        let base = if name.contains("bidirectional") { 1.6 } else { 0.94 };
        let busy = if name.contains("tso") { 0.2 } else { 0.5 };
        let rate = base * (self.rate)(levels) * noise.around_one(0.006);
        let Task::Workload(workload) = &spec.task else { panic!("a cell with a workload") };
        let measured = if workload.kind.is_transactional() {
            let per_second = 20_000.0 * f64::from(workload.connections).sqrt() * rate;
            let mut measured = measurement(
                Traffic {
                    transactions: per_second as u64,
                    transaction_seconds: 1.0,
                    ..Traffic::default()
                },
                busy * noise.around_one(0.006),
                on_adapter,
            );
            let p50 = 1e9 * f64::from(workload.connections) / per_second;
            let ns = |times: f64, noise: &mut Noise| (p50 * times * noise.around_one(0.01)) as u64;
            measured.latency = Some(Latency {
                count: per_second as u64,
                mean_ns: p50 * 1.1,
                min_ns: ns(0.5, noise),
                p50_ns: Some(ns(1.0, noise)),
                p90_ns: Some(ns(1.3, noise)),
                p99_ns: Some(ns(2.0, noise)),
                p99_9_ns: Some(ns(4.0, noise)),
                p99_99_ns: Some(ns(9.0, noise)),
                max_ns: ns(30.0, noise),
                open_share: 0.0,
            });
            measured
        } else {
            let traffic = Traffic {
                transmit_bytes: (rate * 1e9 / 8.0) as u64,
                transmit_seconds: 1.0,
                ..Traffic::default()
            };
            measurement(traffic, busy * noise.around_one(0.01), on_adapter)
        };
        (spec, Outcome::Measured(Box::new(measured)))
    }
}

/// Numbers that look random and are the same everywhere (splitmix64).
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal around 1: twelve uniform numbers have a variance of one.
    fn around_one(&mut self, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        1.0 + deviation * (sum - 6.0)
    }
}

/// Four intervals of even traffic.
fn intervals(traffic: &Traffic) -> Vec<Interval> {
    let seconds = traffic.transmit_seconds.max(traffic.receive_seconds);
    let of = |number: u64| Interval {
        end_ns: (seconds * 1e9) as u64 / 4 * number,
        transmit_bytes: traffic.transmit_bytes / 4,
        receive_bytes: traffic.receive_bytes / 4,
        transactions: traffic.transactions / 4,
    };
    (1..=4).map(of).collect()
}

fn measurement(traffic: Traffic, busy: f64, on_adapter: bool) -> Measurement {
    let thread = |name: &str, cpu: u32, cpu_ns: u64| ThreadTime {
        name: name.to_owned(),
        affinity: CpuSet::from_iter([cpu]),
        cpu_ns,
        user_ns: cpu_ns / 10,
    };
    let cpu = |cpu, busy: f64, of| CpuUse {
        cpus: vec![CpuTime {
            cpu,
            interval_ns: 1_000_100_000,
            busy_ns: (busy * 1e9) as u64,
            steal_ns: 1000,
            uncertainty_ns: 0,
        }],
        threads: vec![thread("agent", cpu, 4_000_000)],
        ..of
    };
    let counters = [
        ("ifHCOutOctets", 117_000_000),
        ("ifHCOutUcastPkts", 77_000),
        ("ifHCInOctets", 2_600_000),
        ("ifHCInUcastPkts", 38_000),
        ("txSegments", 77_000),
        ("txSuperframes", 3500),
        ("rxMergedFrames", 10),
        ("rxSuperframes", 2),
        ("rxDropRingFull", 3),
        ("rxChecksumBad", 0),
    ];
    let mut measured = fixture::measurement(traffic, busy);
    measured.intervals = intervals(&traffic);
    measured.sut_cpu = cpu(0, busy, measured.sut_cpu);
    measured.client_cpu = cpu(1, 0.6, measured.client_cpu);
    measured.evidence = Evidence {
        interface: InterfaceCounts {
            tx_packets: 78_000,
            tx_bytes: 118_000_000,
            ..InterfaceCounts::default()
        },
        protocol: fixture::counts([("Ip.OutRequests", 3500), ("IpExt.OutOctets", 116_000_000)]),
        senders: SenderTimes { busy_us: 990_000, ..measured.evidence.senders },
        ..Evidence::default()
    };
    if on_adapter {
        measured.evidence.adapter = Some(Box::new(AdapterEvidence {
            interval_ns: 1_000_000_000,
            ports: vec![PortEvidence {
                name: "eth0".to_owned(),
                // full at the usual rate
                tx_link_percent: Some((traffic.transmit_bytes as f64 * 8.0 / 0.93e7).min(99.8)),
                rx_link_percent: Some(2.1),
                counters: fixture::counts(counters),
            }],
            bus_percent: vec![11.5],
            device_threads: vec![thread("dev wire0", 1, 310_000_000)],
            driver_threads: vec![thread("drv eth0.0", 0, 120_000_000)],
            ..AdapterEvidence::default()
        }));
    }
    measured
}
