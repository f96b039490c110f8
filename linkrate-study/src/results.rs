//! The results of a study: the document that the terminal table, `--json`, CSV and the report are
//! made from. It is derived from the stored runs alone.

pub mod figures;
pub mod fleet;

use std::collections::BTreeMap;
use std::time::Duration;

use linkrate_model::latency::LatencyFigures;
use linkrate_model::workload::Loop;
use serde::{Serialize, Serializer};

use crate::analysis::runs_by_cell::{fallen_blocks, left_out};
use crate::executor::{Facts, Stage};
use crate::levels::{Level, Levels};
use crate::published::Basis;
use crate::quantity::{Interval, Measure, Quantity, Unit};
use crate::store::{StoredPlan, StoredRun};
use crate::study::Family;
use crate::verdict::{FlowDirection, Verdict};
use figures::{FailureFigures, Paybacks, RoundTripParts};
use fleet::FleetResults;
use linkrate_stats::interval::excludes;

/// Version of the JSON document.
pub const RESULTS_FORMAT: u32 = 1;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyResults {
    /// [`RESULTS_FORMAT`].
    pub format: u32,
    /// Name of the study.
    pub study: String,
    /// Its title.
    pub title: String,
    /// What the results are called, wherever they lie: `tso-20261121-1512`, the study and the
    /// minute (UTC) in which it began. Empty for a measurement that is not stored.
    pub results: String,
    /// When it began, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// The linkrate that began it.
    pub linkrate_version: String,
    /// Seed of the run order and of everything random inside runs; absent for imported runs.
    pub seed: Option<u64>,
    /// The measurement of one run, seconds; absent where imported runs differ in it, or do not report it.
    pub run_seconds: Option<f64>,
    /// Traffic before the measurement, seconds; absent as above.
    pub warm_up_seconds: Option<f64>,
    /// How often intervals cover the truth, for example 0.95.
    pub confidence: f64,
    /// The level at which their t intervals were computed: higher than `confidence` if the study
    /// stopped because its figures were precise, which favours small scatter.
    pub interval_confidence: f64,
    /// The same for figures that are paired within blocks, measured effects and those published vs measured:
    /// higher than `interval_confidence` if blocks are mirrored, which has a price.
    pub effect_interval_confidence: f64,
    /// Smallest effect that is claimed, as a fraction, for example 0.02.
    pub minimum_effect: f64,
    /// The effects whose claims are adjusted together.
    pub family: Family,
    /// What joins the hosts: `veth`, the name of a model, or `not known` for imported runs.
    pub adapter: String,
    /// Links and buses ran at this share of their rates: 1, or less on a scaled testbed.
    pub scale: f64,
    /// Whether the study ran to its stop rule.
    pub complete: bool,
    /// Why it stopped: precision reached, budget spent, interrupted, ..., as a sentence.
    pub stopped: String,
    /// Blocks of which every run is stored.
    pub blocks: u32,
    /// Where imported runs come from, in the order of the runs; empty for runs of linkrate.
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
    /// The first cell measured twice; absent without an A/A test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aa: Option<Aa>,
    /// Whether connection offloads to a TCP offload engine pay; absent unless the study compares TOE on
    /// with off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payback: Option<Paybacks>,
    /// Matrices of the pairs of a fleet, and what stands out; absent in studies of one pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetResults>,
    /// The SUT's CPU use without load, in per cent; absent without an idle run.
    pub background_cpu: Option<Quantity>,
    /// Facts about the testbed.
    pub facts: Facts,
    /// Failed runs with their reasons.
    pub failures: Vec<FailedRun>,
    /// Things a reader must know, as full sentences.
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
        let fallen = self.plan.as_ref().map(|plan| fallen_blocks(&plan.study, &self.runs));
        left_out(&self.runs, &fallen.unwrap_or_default())
    }

    /// Whether a run is the second one of an A/A test, which is behind no figure of its cell.
    pub fn is_aa(&self, run: &StoredRun) -> bool {
        let of_plan = self.plan.as_ref().and_then(|plan| plan.study.aa_cell());
        of_plan.is_some() && run.cell == of_plan
    }
}

/// An A/A test: one cell measured twice in each block. Its ratios are 1 but for what moves figures beside the levels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aa {
    /// The levels of the cell.
    pub levels: Levels,
    /// Later runs over earlier ones, by measure.
    pub ratios: Vec<AaRatio>,
}

/// One figure of an A/A test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AaRatio {
    /// What is measured.
    pub measure: Measure,
    /// The ratio of the means, with its interval.
    pub ratio: Interval,
    /// Blocks that have both runs.
    pub blocks: u32,
}

/// Where an imported run comes from, and what is not known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportedRun {
    /// Name of the file, without its directories.
    pub file: String,
    /// Where in the file; absent where the file has one run.
    pub place: Option<String>,
    /// The program, with its version where it tells it.
    pub program: String,
    /// The test by the program's name.
    pub test: String,
    /// The levels of its cell.
    pub levels: Levels,
    /// When it began, milliseconds since 1970-01-01 UTC; absent where the file does not report it.
    pub started_unix_ms: Option<u64>,
    /// What its output does not report on what a run of linkrate measures.
    pub lacks: Vec<String>,
}

/// The probabilities of a measured ratio under both hypotheses, wherever other programs ran.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Probabilities {
    /// Of a ratio as far from 1, if nothing changed; `None` without an interval.
    pub p: Option<f64>,
    /// The same, adjusted for the ratios of its family by Holm's method.
    pub adjusted_p: Option<f64>,
    /// Of a ratio as far from 1, if the change were the minimum; `None` without an interval.
    pub p_beyond: Option<f64>,
    /// The same, adjusted.
    pub adjusted_p_beyond: Option<f64>,
}

/// A sweep of the window with all else equal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knee {
    /// The levels of the other factors.
    pub at: Levels,
    /// The smallest measurement.
    pub smallest: Level,
    /// The largest one.
    pub largest: Level,
    /// The round trip that follows from the smallest window and its throughput.
    #[serde(rename = "round_trip_seconds", serialize_with = "seconds")]
    pub round_trip: Duration,
    /// The window that fills the line with this round trip, bytes.
    #[serde(rename = "fills_bytes")]
    pub fills: u64,
    /// The smallest measurement of the study that filled the line; `None` where no measurement did.
    pub reached: Option<Level>,
}

fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellResult {
    /// Its levels.
    pub levels: Levels,
    /// Runs behind the figures.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Good runs that are left out, because something from outside spoiled another run of their block.
    pub left_out: u32,
    /// Figures of which the runs are in two groups with nothing between them, so that the mean is that of neither.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub two_groups: Vec<Measure>,
    /// Whether the SUT and its clients ran on the same CPUs, so that `cpu` and `service_demand`
    /// are of both together. Not known of imported runs.
    pub shared_cpus: Option<bool>,
    /// Received payload; absent without a good run.
    pub throughput: Option<Quantity>,
    /// Payload that the cell's links and buses can carry at most, without an interval; absent on
    /// adapters without a rate, and for transactions.
    pub limit: Option<Quantity>,
    /// The part of `throughput` in each direction; empty except for bidirectional streams.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionRate>,
    /// How balancing spreads the flows over the ports of an aggregate, by direction; empty without
    /// an aggregate of several ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predicted: Vec<Predicted>,
    /// Transactions per second; absent for streams.
    pub transactions: Option<Quantity>,
    /// Transfers per second; absent for workloads without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<Quantity>,
    /// Each workload of a mix, in the order of the study file; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<MixFigures>,
    /// SUT CPU time per KB, or per transaction for request/response.
    pub service_demand: Option<Quantity>,
    /// Its parts, in the same unit; absent unless all runs were traced, and where other roles share the SUT's CPUs.
    pub service_demand_parts: Option<DemandParts>,
    /// Busy share of the SUT's CPUs.
    pub cpu: Option<Quantity>,
    /// Latency of the transactions of all runs together, or response time of their transfers.
    pub latency: Option<LatencyFigures>,
    /// What made these transactions or transfers begin; absent for other workloads.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of_loop: Option<Loop>,
    /// The parts of the latency of transactions; absent for other workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTripParts>,
    /// The evidence of the counters; means over the runs.
    pub evidence: CellEvidence,
    /// Where the SUT's CPU time went; absent unless the runs were profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// What the event inside the measurement cost; absent without an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureFigures>,
    /// What bound the cell, by direction.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// One workload of a mix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MixFigures {
    /// Its name.
    pub name: String,
    /// Its share of the connections.
    pub share: u32,
    /// Received payload; absent without a good run.
    pub throughput: Option<Quantity>,
    /// Transactions or transfers per second; absent for streams.
    pub completed: Option<Quantity>,
    /// Latency of its transactions of all runs together, or response time of its transfers.
    pub latency: Option<LatencyFigures>,
    /// What made these transactions or transfers begin; absent for other workloads.
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DemandParts {
    /// The threads of the flows, and what the stack does in their calls.
    pub application: Interval,
    /// The driver threads of virtual adapters; absent without an emulated driver.
    pub driver: Option<Interval>,
    /// Whether that part has the receive processing of the host too, as without NAPI threads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub receives_in_driver: bool,
    /// The NAPI threads of the kernel.
    pub napi: Interval,
    /// Softirqs.
    pub softirqs: Interval,
    /// Hardware interrupts.
    pub interrupts: Interval,
    /// Other threads of the kernel.
    pub kernel: Interval,
    /// Threads of linkrate that are no part of the traffic.
    pub linkrate: Interval,
    /// What is busy and in no part.
    pub not_attributed: f64,
}

/// The throughput of one direction of a bidirectional cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DirectionRate {
    /// The direction.
    pub direction: FlowDirection,
    /// Received payload.
    pub rate: Quantity,
}

/// How balancing spreads the flows of a cell over the ports of an aggregate in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// The direction, which decides who chooses: the host, or the switch.
    pub direction: FlowDirection,
    /// The balancing that chooses: `mac`, `ip`, `port`, ...
    pub balance: String,
    /// The ports, from the fullest to the emptiest; means over the runs.
    pub ports: Vec<PredictedPort>,
    /// Throughput at most, without an interval: each port with a flow at its limit, as far as the
    /// links of the clients allow. Absent without a rate, and where nothing is predicted.
    pub limit: Option<Quantity>,
    /// Why nothing is predicted: the balancing is no hash of a flow's addresses.
    pub unpredictable: Option<String>,
}

/// One port of [`Predicted`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedPort {
    /// Flows that the hash gives it.
    pub flows: Option<f64>,
    /// The part of the throughput that it has, in per cent, if greedy flows share links evenly.
    pub share_percent: Option<f64>,
    /// The part of the octets that it had, in per cent.
    pub measured_percent: Option<f64>,
}

/// Where the CPU time of the SUT went in one cell; means over its profiled runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Attribution {
    /// Runs behind it.
    pub runs: u32,
    /// By category, in the order of the categories' file; idle comes last. In per cent of the
    /// SUT's CPUs, so that all of them together are 100.
    pub shares: Vec<CategoryShare>,
    /// Busy share of the SUT's CPUs by the meter, in per cent, for the same runs.
    pub meter_percent: f64,
    /// Busy share by the samples alone, in per cent. They say how the meter's busy share is divided
    /// in `shares`, not how large it is; their agreement shows how reliable they are.
    pub sampled_percent: f64,
    /// The largest difference that the limits of sampling explain, in percentage points.
    pub error_points: f64,
    /// Samples per run.
    pub samples: f64,
    /// The commonest symbols that no category claims, with their share in per cent.
    pub unknown: Vec<(String, f64)>,
}

/// One category's share of the SUT's CPU time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CategoryShare {
    /// Its name in JSON (`data-copy`).
    pub category: String,
    /// Its name for people (`data copy`).
    pub title: String,
    /// Per cent of the SUT's CPUs.
    pub percent: f64,
}

/// The evidence of the counters of one cell's runs; means over the runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CellEvidence {
    /// Mean bytes of an IP packet as the SUT's TCP built it.
    pub stack_packet_bytes: Option<f64>,
    /// Mean bytes of a packet handed to the SUT's driver.
    pub driver_packet_bytes: Option<f64>,
    /// Mean frames of the link in a packet that the SUT's IP received: those that GRO or LRO merged.
    pub frames_per_received_packet: Option<f64>,
    /// Busy share of the clients' CPUs in per cent.
    pub client_cpu_percent: Option<f64>,
    /// Share of the SUT's CPUs that other programs had, in per cent. `cpu` and `service_demand` do not
    /// contain it. Absent where it is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_cpu_percent: Option<f64>,
    /// Share of the SUT's CPUs that other programs may have had, in per cent; they may also have run
    /// elsewhere. `cpu` and `service_demand` contain it. Absent where it is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_uncertainty_cpu_percent: Option<f64>,
    /// Service demand with the time of other programs, in the unit of `service_demand`. Absent where no
    /// time was taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_demand_with_others: Option<f64>,
    /// Share of sending time limited by the receiver's window, in per cent.
    pub rwnd_limited_percent: Option<f64>,
    /// Share of sending time limited by the send buffer, in per cent.
    pub sndbuf_limited_percent: Option<f64>,
    /// Retransmitted segments per run.
    pub retransmits: Option<f64>,
    /// Acknowledgements that the peer sent for each segment of bulk data, transmit direction; absent
    /// where the SUT sends no bulk data over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledgements_per_segment: Option<f64>,
    /// Short sleeps of the clients' receivers that let data gather, per run; absent where there were
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_receive_batches: Option<f64>,
    /// Datagrams sent but not received, in per cent of those sent; absent for TCP.
    pub lost_percent: Option<f64>,
    /// Packets dropped by the SUT's interface per run.
    pub drops: Option<f64>,
    /// SO_SNDBUF as granted, bytes.
    pub granted_send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF as granted, bytes.
    pub granted_receive_buffer_bytes: Option<u64>,
    /// TCP maximum segment size, bytes.
    pub mss_bytes: Option<u32>,
    /// The address family of the sockets, as read back; absent where the SUT has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<linkrate_model::Family>,
    /// Where the CPU figure came from.
    pub idle_source: Option<linkrate_model::measurement::IdleSource>,
    /// What the SUT's virtual adapters counted; absent on other adapters.
    pub adapter: Option<AdapterFigures>,
    /// The shares of the members of bonds and teams of the host; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberFigures>,
    /// The queue disciplines of the SUT's interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disciplines: Vec<DisciplineFigures>,
    /// The same of the interfaces of clients that are agents (`client 0: eth0`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_disciplines: Vec<DisciplineFigures>,
    /// Where the time of the lines went, by direction; empty where no virtual adapter counted, where
    /// links have no rate, and for transactions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub line: Vec<LineTax>,
}

/// Where the time of the lines went in one direction, all ports together; means over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineTax {
    /// The direction.
    pub direction: FlowDirection,
    /// The parts, from the payload to the time in which nothing was sent.
    pub parts: Vec<LinePart>,
    /// The payload's share of a line that is full of such packets, in per cent; absent where the cell
    /// has no limit.
    pub payload_percent_at_most: Option<f64>,
}

/// A part of the lines' time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinePart {
    /// Its name: `payload`, `cell headers`, `idle`.
    pub name: String,
    /// Per cent of the line rate.
    pub percent: f64,
}

/// What one queue discipline of the SUT's interfaces counted; means over the runs that had it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct DisciplineFigures {
    /// The interface.
    pub interface: String,
    /// Its kind by the kernel's name.
    pub kind: String,
    /// `root`, `ingress`, or the class of another discipline.
    pub parent: String,
    /// Runs that had it.
    pub runs: u32,
    /// The rate that it holds packets back to; absent without one.
    pub rate_bits_per_second: Option<f64>,
    /// What left it, in per cent of that rate.
    pub rate_percent: Option<f64>,
    /// Packets dropped per run.
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
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct MemberFigures {
    /// The bond or team (`bond0`).
    pub aggregate: String,
    /// The member (`eth2`).
    pub member: String,
    /// Its share of the bytes that were sent.
    pub tx_percent: Option<f64>,
    /// Its share of the bytes that were received.
    pub rx_percent: Option<f64>,
}

/// The counters of the virtual adapters in one cell's runs; means over the runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AdapterFigures {
    /// Mean bytes of a frame the SUT's ports sent, Ethernet header and FCS included.
    pub sent_frame_bytes: Option<f64>,
    /// Mean bytes of a frame they received, before any were merged.
    pub received_frame_bytes: Option<f64>,
    /// Mean frames that a superframe of the host was cut into.
    pub segments_per_superframe: Option<f64>,
    /// Mean received frames that were merged into a superframe for the host.
    pub merges_per_superframe: Option<f64>,
    /// Share of time in which the links were occupied outwards, in per cent, mean over the ports.
    pub tx_link_percent: Option<f64>,
    /// The same inwards.
    pub rx_link_percent: Option<f64>,
    /// Each port's own shares.
    pub ports: Vec<PortFigures>,
    /// Share of time in which the busiest adapter's bus was occupied, in per cent; absent where
    /// the bus does not limit.
    pub bus_percent: Option<f64>,
    /// CPU time of the device threads, in CPUs.
    pub device_cpus: Option<f64>,
    /// CPU time of the device threads on the CPU that they use most, in per cent of that CPU.
    pub device_busiest_percent: Option<f64>,
    /// Whether device threads may run on CPUs that the clients have too.
    pub device_shares_cpus: bool,
    /// Mean time from an interrupt that ended a sleep of a driver thread until the thread had its CPU, µs.
    pub interrupt_delay_us: Option<f64>,
    /// Frames dropped per run, by reason; reasons without a drop are left out.
    pub drops: BTreeMap<String, f64>,
    /// Received frames with a wrong checksum, per run.
    pub checksum_failures: Option<f64>,
    /// Frames that arrived after a later frame of their connection, per run; absent where they were
    /// not counted, since nothing reorders flows.
    pub frames_overtaken: Option<f64>,
}

/// One port's share of [`AdapterFigures`].
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PortFigures {
    /// The port (`eth0`).
    pub port: String,
    /// Share of time in which its link was occupied outwards, in per cent.
    pub tx_link_percent: Option<f64>,
    /// The same inwards.
    pub rx_link_percent: Option<f64>,
}

/// A ratio between two levels of one factor, all else equal, paired within blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The factor that changes.
    pub factor: String,
    /// The level in the denominator.
    pub from: Level,
    /// The level in the numerator.
    pub to: Level,
    /// The levels of the other factors.
    pub at: Levels,
    /// What is compared.
    pub measure: Measure,
    /// Geometric mean of the ratios, with its interval.
    pub ratio: Interval,
    /// The same ratio of service demands with the cell in the numerator at the mix of directions of the
    /// other; absent unless both are bidirectional and the study has the cells of one direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix_adjusted: Option<Interval>,
    /// The same ratio of service demands without the driver threads in either; absent unless both cells had parts, and an
    /// emulated driver without the receive processing of the host. For `toe`, what the host received in the driver is left
    /// out too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_driver: Option<Interval>,
    /// Whether that ratio is not known, because it and [`ratio`](Self::ratio) exclude each other's sign: then its ends are the
    /// outermost of both.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_driver_unknown: bool,
    /// Blocks with both runs.
    pub pairs: u32,
    /// Those of the ratio. Only effects with at least five pairs that are no other effect's fact are of a
    /// [family](crate::study::Family).
    #[serde(flatten)]
    pub probabilities: Probabilities,
    /// Whether the effect is shown to be larger than the study's minimum.
    pub significant: bool,
    /// Whether it is shown to exist, and may be smaller or larger than the minimum.
    pub different: bool,
    /// Whether an effect larger than the study's minimum is excluded: the whole interval lies within it. An effect
    /// that is neither claimed, nor different, nor excluded is open.
    pub equivalent: bool,
    /// Whether something other than the adapter limited the throughput of one of both cells, so that the effect is one
    /// of this machine.
    pub host_limited: bool,
    /// The fact that it is the same as, so that it is not judged.
    pub same_as: Option<Fact>,
}

/// What an effect on a rate may be the same as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The effect on service demand, which is judged in its place: where a CPU of the SUT is full in both cells, a rate is its
    /// inverse.
    ServiceDemand,
    /// The limits of both cells, which differ, and are what bound them: a rate that the study itself set.
    Limit,
}

impl Effect {
    /// An effect that is not judged: the ratio of `pairs` pairs between two levels of `factor`.
    pub fn of(
        factor: &str,
        [from, to]: [Level; 2],
        at: Levels,
        measure: Measure,
        ratio: Interval,
        pairs: u32,
    ) -> Self {
        Self {
            factor: factor.to_owned(),
            from,
            to,
            at,
            measure,
            ratio,
            mix_adjusted: None,
            without_driver: None,
            without_driver_unknown: false,
            pairs,
            probabilities: Probabilities::default(),
            significant: false,
            different: false,
            equivalent: false,
            host_limited: false,
            same_as: None,
        }
    }

    /// Whether the same effect under another condition is shown to go the same way.
    pub fn agrees_with(&self, other: &Interval) -> bool {
        excludes(other, 1.0) && (other.mean < 1.0) == (self.ratio.mean < 1.0)
    }

    /// Whether it is more than a shift between the directions of a bidirectional cell, of which one costs less.
    pub fn holds_at_equal_mix(&self) -> bool {
        self.mix_adjusted.is_none_or(|other| self.agrees_with(&other))
    }

    /// Whether another effect is of the same two cells.
    pub fn is_beside(&self, other: &Self) -> bool {
        (&self.factor, &self.from, &self.to, &self.at)
            == (&other.factor, &other.from, &other.to, &other.at)
    }
}

impl StudyResults {
    /// The effect that is judged in place of another one, because it is the same fact.
    pub fn fact_behind(&self, effect: &Effect) -> Option<&Effect> {
        let demand = Measure::ServiceDemand;
        let of_demand = |one: &&Effect| one.measure == demand && one.is_beside(effect);
        self.effects.iter().filter(|_| effect.same_as == Some(Fact::ServiceDemand)).find(of_demand)
    }

    /// Whether an effect is more than a part of another one: that of a single direction is where the sum of both
    /// directions is not shown to go the same way, and where it may fall by more than the minimum.
    pub fn says_more(&self, effect: &Effect) -> bool {
        if effect.measure.is_whole() {
            return true;
        }
        let is_sum =
            |other: &&Effect| other.measure == Measure::Throughput && other.is_beside(effect);
        let goes_up = |effect: &Effect| effect.ratio.mean > 1.0;
        let sum = self.effects.iter().find(is_sum).filter(|sum| sum.significant);
        let falls = effect.ratio.mean < 1.0 - self.minimum_effect && !effect.equivalent;
        (effect.significant || falls) && sum.is_none_or(|sum| goes_up(sum) != goes_up(effect))
    }
}

/// A published figure beside the measured one.
///
/// They stand by themselves rather than in cells and effects, because most of them are neither:
/// a difference in throughput, a mean over several combinations of levels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedResult {
    /// What was measured.
    pub measure: Measure,
    /// Where the published figure comes from.
    pub basis: Basis,
    /// The levels of the cells it is about.
    pub at: Levels,
    /// The factor that changes; absent for a value.
    pub factor: Option<String>,
    /// The level before; absent for a value.
    pub from: Option<Level>,
    /// The level after; absent for a value.
    pub to: Option<Level>,
    /// What kind of figure it is.
    pub kind: PublishedKind,
    /// Cells, or pairs of cells, that it is about: an effect over several is their mean.
    pub combinations: u32,
    /// Those that the measured figure leaves out, because a CPU was the bound of one of their cells. If that is so
    /// of all, none is left out.
    pub left_out: u32,
    /// The published figure; an effect is a ratio, 0.53 for −47 %.
    pub published: f64,
    /// The measured one in the same unit; absent without runs to make it of.
    pub measured: Option<Interval>,
    /// Unit of both.
    pub unit: Unit,
    /// The published figure in per cent of the limit of links and buses at full rate; absent unless
    /// it is the throughput of one cell that has a limit.
    pub published_percent_of_limit: Option<f64>,
    /// The measured one in per cent of its limit, at the rate of its links.
    pub measured_percent_of_limit: Option<Interval>,
}

/// What a published figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedRun {
    /// Block, from 0.
    pub block: u32,
    /// Whether it was the block's idle run.
    pub idle: bool,
    /// The cell's levels; empty for the idle run, and in a study without factors.
    pub levels: Levels,
    /// The step at which it failed.
    pub stage: Stage,
    /// The reason.
    pub reason: String,
    /// Whether something from outside spoiled the run, such as another program.
    pub disturbed: bool,
}
