//! The results of a study: the document that the terminal table, `--json`, CSV and the report are
//! made from. It is derived from the stored runs alone.

mod effect;
pub mod figures;
pub mod fleet;

use std::collections::BTreeMap;
use std::time::Duration;

use linkrate_model::latency::LatencyFigures;
use linkrate_model::workload::Loop;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::analysis::runs_by_cell::fallen_blocks;
use crate::executor::{Facts, Stage};
use crate::levels::{Level, Levels};
use crate::published::Basis;
use crate::quantity::{Interval, Measure, Quantity, Unit};
use crate::store::{StoredPlan, StoredRun};
use crate::study::Family;
use crate::verdict::{FlowDirection, Verdict};
pub use effect::{Effect, Fact, Probabilities};
use figures::{FailureFigures, Paybacks, RoundTripParts};
use fleet::FleetResults;

/// Version of the JSON document.
pub const RESULTS_FORMAT: u32 = 1;

/// The document that run, resume, report and measure print with --json. A figure that does not exist is null, never
/// zero. Later versions of a format only add keys.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StudyResults {
    /// Version of this document.
    #[schemars(extend("const" = RESULTS_FORMAT))]
    pub format: u32,
    /// Name of the study; measure for linkrate measure.
    pub study: String,
    /// Its title.
    pub title: String,
    /// Name of the results, independent of their place: the study and the second (UTC) in which it began; empty if
    /// nothing is stored.
    pub results: String,
    /// Start of the study, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Version of linkrate that began the study.
    pub linkrate_version: String,
    /// Seed of the run order and of everything random inside runs; null for imported runs.
    pub seed: Option<u64>,
    /// The measurement interval of one run; null where imported runs differ in it, or do not report it.
    #[schemars(range(min = 0))]
    pub run_seconds: Option<f64>,
    /// Traffic before the measurement interval; null where imported runs differ in it, or do not report it.
    #[schemars(range(min = 0))]
    pub warm_up_seconds: Option<f64>,
    /// How often intervals cover the truth.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
    /// Level of the t intervals: higher than confidence if the study stopped because its figures were precise.
    #[schemars(range(min = 0, max = 1))]
    pub interval_confidence: f64,
    /// The same for effects, and for published effects and differences: higher than interval_confidence if blocks are
    /// mirrored.
    #[schemars(range(min = 0, max = 1))]
    pub effect_interval_confidence: f64,
    /// Smallest effect that is claimed, as a fraction.
    #[schemars(range(min = 0))]
    pub minimum_effect: f64,
    /// The effects whose claims are adjusted together: all of the study, those of each part, or each by itself.
    pub family: Family,
    /// veth, or the name of a model.
    pub adapter: String,
    /// Links and buses ran at this share of their rates.
    #[schemars(range(min = 0))]
    pub scale: f64,
    /// Whether the stop rule ended the study.
    pub complete: bool,
    /// Why it stopped, as a sentence.
    pub stopped: String,
    /// Blocks of which every run is stored.
    pub blocks: u32,
    /// Where imported runs come from, in the order of the runs; absent for runs of linkrate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<ImportedRun>,
    /// One per combination of levels, in the order of the study file.
    pub cells: Vec<CellResult>,
    /// Ratios between levels.
    pub effects: Vec<Effect>,
    /// Published figures beside the measured ones, in the order of the study file.
    pub published: Vec<PublishedResult>,
    /// Where a larger window stops to help, for each sweep of `socket` that shows it; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Knee>,
    /// The first cell, measured twice in each block; absent without an A/A test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aa: Option<Aa>,
    /// Whether connection offloads to a TCP offload engine pay; absent unless the study compares TOE on with off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payback: Option<Paybacks>,
    /// The pairs of a fleet, and what stands out among them; absent in studies of one pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetResults>,
    /// The SUT's CPU use without load; null without an idle run.
    pub background_cpu: Option<Quantity>,
    /// Facts about the testbed.
    pub facts: Facts,
    /// Failed runs.
    pub failures: Vec<FailedRun>,
    /// Sentences about the figures.
    pub warnings: Vec<String>,
    /// The results directory as it was given, for the terminal; empty when nothing is stored. No
    /// document has it: the same runs give the same bytes in every directory.
    #[serde(skip)]
    pub directory: String,
    /// Every stored run, for CSV and the report's raw data.
    #[serde(skip)]
    pub runs: Vec<StoredRun>,
    /// What was planned and with what, for the report's account of how it was measured; absent
    /// from made-up results. Not in the document: `plan.json` lies beside it.
    #[serde(skip)]
    pub plan: Option<Box<StoredPlan>>,
}

impl StudyResults {
    /// The cell of a run; `None` for an idle one.
    pub fn cell_of(&self, run: &StoredRun) -> Option<&CellResult> {
        let number = run.cell?;
        self.cells.get(if self.is_aa(run) { 0 } else { number as usize })
    }

    /// Good runs that are behind no figure, because something from outside spoiled another run of their block.
    pub fn left_out(&self) -> usize {
        self.counts(|_| true)[2]
    }

    /// Of some of the runs, those that count, those that were refused or failed, and those that are left out.
    pub fn counts(&self, is: impl Fn(&StoredRun) -> bool) -> [usize; 3] {
        let fallen = self.plan.as_ref().map(|plan| fallen_blocks(&plan.study, &self.runs));
        let fallen = fallen.unwrap_or_default();
        let mut counts = [0; 3];
        for run in self.runs.iter().filter(|run| is(run)) {
            counts
                [if !run.is_good() { 1 } else { usize::from(fallen.contains(&run.block)) * 2 }] +=
                1;
        }
        counts
    }

    /// Whether a run is the second one of an A/A test, which is behind no figure of its cell.
    pub fn is_aa(&self, run: &StoredRun) -> bool {
        let of_plan = self.plan.as_ref().and_then(|plan| plan.study.aa_cell());
        of_plan.is_some() && run.cell == of_plan
    }
}

/// An A/A test: one cell measured twice in each block. Its ratios are 1 but for what moves figures beside the levels.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Aa {
    /// The levels of the cell.
    pub levels: Levels,
    /// One ratio for each measure.
    pub ratios: Vec<AaRatio>,
}

/// One figure of an A/A test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AaRatio {
    /// The measure.
    pub measure: Measure,
    /// Geometric mean of the paired ratios; 1 is no difference.
    pub ratio: Interval,
    /// Blocks with both runs.
    pub blocks: u32,
}

/// Where an imported run comes from, and what is not known of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ImportedRun {
    /// Name of the file, without its directories.
    pub file: String,
    /// Where in the file; null where the file has one run.
    pub place: Option<String>,
    /// The program, with its version where it tells it.
    pub program: String,
    /// The test by the program's name.
    pub test: String,
    /// The levels of its cell.
    pub levels: Levels,
    /// When it began, milliseconds since 1970-01-01 UTC; null where the file does not have it.
    pub started_unix_ms: Option<u64>,
    /// What its output does not report on what a run of linkrate measures.
    pub lacks: Vec<String>,
}

/// A sweep of the window with all else equal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Knee {
    /// The levels of the other factors.
    pub at: Levels,
    /// The smallest window.
    pub smallest: Level,
    /// The largest window.
    pub largest: Level,
    /// The round trip that follows from the smallest window and its throughput.
    #[serde(rename = "round_trip_seconds", serialize_with = "seconds")]
    #[schemars(with = "f64", range(min = 0))]
    pub round_trip: Duration,
    /// The window that fills the line with this round trip.
    #[serde(rename = "fills_bytes")]
    pub fills: u64,
    /// The smallest window of the study that filled the line; null where no window did.
    pub reached: Option<Level>,
}

fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellResult {
    /// Factor to level, in the order of the study file.
    pub levels: Levels,
    /// Runs behind the figures.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Good runs that are left out, because something from outside spoiled another run of their block.
    pub left_out: u32,
    /// Measures of which the runs are in two groups; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub two_groups: Vec<Measure>,
    /// Whether the SUT and its clients ran on the same CPUs, so that cpu and service_demand are those of both together;
    /// null for imported runs.
    pub shared_cpus: Option<bool>,
    /// Payload received, both directions together, bit/s.
    pub throughput: Option<Quantity>,
    /// The most payload that the cell's links and buses can carry; null on adapters without a rate, and for
    /// transactions.
    pub limit: Option<Quantity>,
    /// The part of throughput in each direction; absent except for bidirectional streams.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionRate>,
    /// How balancing spreads the flows over the ports of an aggregate, by direction; absent without an aggregate of
    /// several ports, and for runs of earlier versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predicted: Vec<Predicted>,
    /// Transactions per second; null for streams.
    pub transactions: Option<Quantity>,
    /// Transfers, or files of a backup, per second; absent for other workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<Quantity>,
    /// The workloads of a mix, in the order of the study file; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<MixFigures>,
    /// SUT CPU time per KB, or per transaction.
    pub service_demand: Option<Quantity>,
    /// The parts of the service demand in its unit; null unless all runs were traced, and where other roles share the
    /// SUT's CPUs.
    pub service_demand_parts: Option<DemandParts>,
    /// Busy share of the SUT's CPUs.
    pub cpu: Option<Quantity>,
    /// Latency of the transactions, or response time of transfers and of files of a backup; null for streams.
    pub latency: Option<LatencyFigures>,
    /// What makes the transactions or transfers begin: the answer to an earlier one (closed), or a rate (open); absent
    /// for other workloads.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of_loop: Option<Loop>,
    /// The parts of the latency; absent unless the workload is made of transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTripParts>,
    /// Evidence from counters; means over the runs.
    pub evidence: CellEvidence,
    /// Where the SUT's CPU time went; absent unless the runs were profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// What the event inside the measurement cost, over the runs; absent without an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureFigures>,
    /// What bound the cell, by direction.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// One workload of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MixFigures {
    /// Its name.
    pub name: String,
    /// Its share of the connections, beside those of the others.
    #[schemars(range(min = 1))]
    pub share: u32,
    /// Received payload; null without a good run.
    pub throughput: Option<Quantity>,
    /// Transactions, transfers or files per second; null for streams.
    pub completed: Option<Quantity>,
    /// Latency or response time; null for streams.
    pub latency: Option<LatencyFigures>,
    /// What makes its transactions or transfers begin: the answer to an earlier one (closed), or a rate (open); absent
    /// for other workloads.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of_loop: Option<Loop>,
}

impl CellResult {
    /// Whether the SUT and its clients are known to have run on the same CPUs.
    pub fn has_shared_cpus(&self) -> bool {
        self.shared_cpus == Some(true)
    }

    /// Its rate: transactions, or throughput.
    pub fn rate(&self) -> Option<Quantity> {
        if self.is_transactional() { self.transactions } else { self.throughput }
    }

    /// Whether its unit of work is a transaction, so that it stands beside other figures than streams.
    pub fn is_transactional(&self) -> bool {
        let timed_alone = self.latency.is_some() && self.mix.is_empty();
        self.transactions.is_some() || timed_alone && self.completed.is_none()
    }
}

/// The parts of a service demand by what ran, in its unit: means over the runs with their intervals, which what is not
/// attributed widens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DemandParts {
    /// The threads of the flows, and what the stack does in their calls.
    pub application: Interval,
    /// The driver threads of virtual adapters; null without an emulated driver.
    pub driver: Option<Interval>,
    /// Whether the driver's part has the receive processing of the host too, as without NAPI threads; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub receives_in_driver: bool,
    /// The NAPI threads of the kernel.
    pub napi: Interval,
    /// Softirqs.
    pub softirqs: Interval,
    /// Hardware interrupts.
    pub interrupts: Interval,
    /// The idle loop of the kernel: from the end of an idle state to the switch to what the CPU was woken for.
    pub idle_loop: Interval,
    /// Other threads of the kernel.
    pub kernel: Interval,
    /// Threads of linkrate that are no part of the traffic, such as its meters.
    pub linkrate: Interval,
    /// What is busy and in no part, which widens the intervals.
    pub not_attributed: f64,
}

/// The throughput of one direction of a bidirectional cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DirectionRate {
    /// As the system under test sees it.
    pub direction: FlowDirection,
    /// Received payload.
    pub rate: Quantity,
}

/// How balancing spreads the flows of a cell over the ports of an aggregate in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// Who chooses the port: for transmit the host, for receive the switch.
    pub direction: FlowDirection,
    /// The balancing that chooses.
    #[schemars(extend("enum" = ["mac", "ip", "port", "cpu", "round-robin", "adaptive"]))]
    pub balance: String,
    /// The ports, from the fullest to the emptiest; means over the runs.
    pub ports: Vec<PredictedPort>,
    /// Throughput at most: each port with a flow at its limit, as far as the links of the clients allow; null without a
    /// rate, and where nothing is predicted.
    pub limit: Option<Quantity>,
    /// Why nothing is predicted: the balancing is no hash of a flow's addresses; null where it is.
    pub unpredictable: Option<String>,
}

/// One port of the aggregate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PredictedPort {
    /// Flows that the hash gives it; null where nothing is predicted.
    pub flows: Option<f64>,
    /// The part of the throughput that it has, in per cent, if greedy flows share links evenly; null where nothing is
    /// predicted.
    pub share_percent: Option<f64>,
    /// The part of the octets that it had, in per cent; null where no adapter counted.
    pub measured_percent: Option<f64>,
}

/// Where the CPU time of the SUT went in one cell; means over its profiled runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Attribution {
    /// Runs behind it.
    pub runs: u32,
    /// By category; idle comes last. All together are 100.
    pub shares: Vec<CategoryShare>,
    /// Busy share of the SUT's CPUs by the meter, of the same runs.
    pub meter_percent: f64,
    /// Busy share by the samples.
    pub sampled_percent: f64,
    /// The largest difference of the two that sampling can cause, in percentage points.
    #[schemars(range(min = 0))]
    pub error_points: f64,
    /// Samples per run.
    pub samples: f64,
    /// The most frequent symbols without a category, with their share in per cent.
    pub unknown: Vec<(String, f64)>,
}

/// One category's share of the SUT's CPU time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CategoryShare {
    /// Its name in JSON (`data-copy`).
    pub category: String,
    /// Its name for people (`data copy`).
    pub title: String,
    /// Per cent of the SUT's CPUs.
    #[schemars(range(min = 0))]
    pub percent: f64,
}

/// The evidence of the counters of one cell's runs; means over the runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct CellEvidence {
    /// Mean IP packet as the SUT's TCP built it, bytes.
    pub stack_packet_bytes: Option<f64>,
    /// Mean packet handed to the SUT's driver, bytes.
    pub driver_packet_bytes: Option<f64>,
    /// Mean frames of the link in a packet that the SUT's IP received.
    pub frames_per_received_packet: Option<f64>,
    /// Mean bytes of an IP packet as IP received it.
    pub received_packet_bytes: Option<f64>,
    /// Busy share of the clients' CPUs.
    pub client_cpu_percent: Option<f64>,
    /// Share of the SUT's CPUs that other programs had; cpu and service_demand do not contain it. Absent where it is
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_cpu_percent: Option<f64>,
    /// Share of the SUT's CPUs that other programs may have had, or run elsewhere; cpu and service_demand contain it.
    /// Absent where it is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_uncertainty_cpu_percent: Option<f64>,
    /// Service demand with the time of other programs, in the unit of service_demand. Absent where no time was
    /// subtracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_demand_with_others: Option<f64>,
    /// Share of sending time limited by the receiver's window.
    pub rwnd_limited_percent: Option<f64>,
    /// Share of sending time limited by the send buffer.
    pub sndbuf_limited_percent: Option<f64>,
    /// Retransmitted segments, per run.
    pub retransmits: Option<f64>,
    /// Segments without payload that the peer sent for each segment of bulk data; absent where the SUT sends none over
    /// TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledgements_per_segment: Option<f64>,
    /// Short sleeps of the clients' receivers that let data gather, per run; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_receive_batches: Option<f64>,
    /// Datagrams sent but not received, in per cent of those sent; null for TCP.
    pub lost_percent: Option<f64>,
    /// Packets dropped by the SUT's interface, per run.
    pub drops: Option<f64>,
    /// SO_SNDBUF of the SUT's sockets as granted.
    pub granted_send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF of the SUT's sockets as granted.
    pub granted_receive_buffer_bytes: Option<u64>,
    /// The smallest TCP maximum segment size of any run.
    pub mss_bytes: Option<u32>,
    /// The address family of the sockets, as read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<linkrate_model::Family>,
    /// Source of the idle time; if runs differ, the least exact source.
    pub idle_source: Option<linkrate_model::measurement::IdleSource>,
    /// Counters of the SUT's virtual adapters; null on veth.
    pub adapter: Option<AdapterFigures>,
    /// Shares of the members of bonds and teams of the host; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberFigures>,
    /// Queue disciplines of the SUT's interfaces, as means over the runs that had them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disciplines: Vec<DisciplineFigures>,
    /// The same of the interfaces of clients that are agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_disciplines: Vec<DisciplineFigures>,
    /// Where the time of the lines went, by direction, all ports together; absent where no virtual adapter counted,
    /// where links have no rate, and for transactions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub line: Vec<LineTax>,
}

/// Where the time of the lines went in one direction, all ports together; means over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LineTax {
    /// The direction, seen from the system under test.
    pub direction: FlowDirection,
    /// From the payload to the time in which nothing was sent; together the whole line.
    pub parts: Vec<LinePart>,
    /// The payload's share of a line that is full of such packets, in per cent; null where the cell has no limit.
    pub payload_percent_at_most: Option<f64>,
}

/// A part of the lines' time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LinePart {
    /// The part: payload, TCP/IP headers, cell headers, idle, ...
    pub name: String,
    /// Per cent of the line rate.
    pub percent: f64,
}

/// What one queue discipline of the SUT's interfaces counted; means over the runs that had it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct DisciplineFigures {
    /// The interface.
    pub interface: String,
    /// Its kind by the kernel's name: noqueue, tbf, fq_codel, ...
    pub kind: String,
    /// `root`, `ingress`, or the class of another discipline.
    pub parent: String,
    /// Runs that had it.
    pub runs: u32,
    /// The rate that it holds packets back to; null without one.
    pub rate_bits_per_second: Option<f64>,
    /// What left it, in per cent of that rate.
    pub rate_percent: Option<f64>,
    /// Packets dropped, per run.
    pub drops: f64,
    /// How often it held packets back, per run.
    pub overlimits: f64,
    /// Packets that the driver did not take at first, per run.
    pub requeues: f64,
    /// Bytes that waited when the measurement closed.
    pub backlog_bytes: f64,
}

/// What one member of a bond or team of the host carried of its aggregate's bytes, in per cent; absent
/// where nothing moved.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct MemberFigures {
    /// The bond or team (`bond0`).
    pub aggregate: String,
    /// The member (`eth2`).
    pub member: String,
    /// Its share of the bytes that the aggregate sent, from before the runs until after them; null if it sent nothing.
    pub tx_percent: Option<f64>,
    /// Its share of the bytes that the aggregate received; null if it received nothing.
    pub rx_percent: Option<f64>,
}

/// The counters of the virtual adapters in one cell's runs; means over the runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct AdapterFigures {
    /// Mean frame on the wire outwards, bytes, Ethernet header and FCS included.
    pub sent_frame_bytes: Option<f64>,
    /// The same inwards, before any were merged.
    pub received_frame_bytes: Option<f64>,
    /// Frames that a superframe of the host was cut into.
    pub segments_per_superframe: Option<f64>,
    /// Received frames that were merged into one for the host.
    pub merges_per_superframe: Option<f64>,
    /// Share of time in which the links were occupied outwards, mean over the ports, per cent.
    pub tx_link_percent: Option<f64>,
    /// The same inwards.
    pub rx_link_percent: Option<f64>,
    /// Each port's own shares.
    pub ports: Vec<PortFigures>,
    /// Share of time in which the busiest adapter's bus was occupied; null if the bus has no rate.
    pub bus_percent: Option<f64>,
    /// CPU time of the device threads, in CPUs; not the SUT's.
    pub device_cpus: Option<f64>,
    /// CPU time of the device threads on the CPU that they use most, in per cent of that CPU.
    pub device_busiest_percent: Option<f64>,
    /// Whether device threads may run on CPUs that the clients have too.
    pub device_shares_cpus: bool,
    /// Mean time from an interrupt that ended a sleep of a driver thread until the thread had its CPU, microseconds.
    pub interrupt_delay_us: Option<f64>,
    /// Frames dropped per run, by reason; reasons without a drop are left out.
    pub drops: BTreeMap<String, f64>,
    /// Received frames with a wrong checksum, per run.
    pub checksum_failures: Option<f64>,
    /// Frames that arrived after a later frame of their connection, per run; null where they were not counted.
    pub frames_overtaken: Option<f64>,
}

/// One port's own shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct PortFigures {
    /// The port (`eth0`).
    pub port: String,
    /// Outwards, per cent.
    pub tx_link_percent: Option<f64>,
    /// Inwards, per cent.
    pub rx_link_percent: Option<f64>,
}

/// A published figure beside the measured one.
///
/// They stand by themselves rather than in cells and effects, because most of them are neither:
/// a difference in throughput, a mean over several combinations of levels.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PublishedResult {
    /// The measure.
    pub measure: Measure,
    /// Where the published figure comes from: the paper prints it; it was computed from figures that the paper prints;
    /// or the model of the adapter was made from it, so that agreement is no prediction.
    pub basis: Basis,
    /// Who published it; absent where that is the paper of the study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The levels of its cells; other factors can have any level.
    pub at: Levels,
    /// The factor that changes; null for a value.
    pub factor: Option<String>,
    /// The level before; null for a value.
    pub from: Option<Level>,
    /// The level after; null for a value.
    pub to: Option<Level>,
    /// Kind of the figure.
    pub kind: PublishedKind,
    /// Number of its cells, or pairs of cells.
    pub combinations: u32,
    /// Those of them that the measured figure leaves out, because a CPU limited one of their cells; 0 if that is so of
    /// all.
    pub left_out: u32,
    /// The published figure; an effect is a ratio, 0.53 for −47 %.
    pub published: f64,
    /// The measured figure in the same unit; null without the runs for it.
    pub measured: Option<Interval>,
    /// Unit of both; ratio for an effect.
    pub unit: Unit,
    /// The published figure in per cent of the limit of links and buses at full rate; null unless it is the throughput
    /// of one cell that has a limit.
    pub published_percent_of_limit: Option<f64>,
    /// The measured figure in per cent of its limit, at the rate of its links; null without either.
    pub measured_percent_of_limit: Option<Interval>,
}

/// What a published figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublishedKind {
    /// The figure of one cell.
    Value,
    /// The ratio of two levels; over several combinations of the others their geometric mean.
    Effect,
    /// The difference of two cells.
    Difference,
}

/// A run without figures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailedRun {
    /// Block, from 0.
    pub block: u32,
    /// Whether it was the block's idle run.
    pub idle: bool,
    /// The cell's levels; empty for the idle run.
    pub levels: Levels,
    /// The step at which it failed.
    pub stage: Stage,
    /// The reason.
    pub reason: String,
    /// Whether something from outside spoiled the run, such as another program.
    pub disturbed: bool,
}
