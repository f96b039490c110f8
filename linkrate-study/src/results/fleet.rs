//! The results of a fleet: matrices of figures, and what stands out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fleet::Pattern;
use crate::fleet::two_way::Subject;
use crate::levels::Levels;
use crate::quantity::Interval;

/// The results of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetResults {
    /// Which pairs were measured.
    pub pattern: Pattern,
    /// The nodes, in the order of switch and rack; other places name them by their number, from 0.
    pub nodes: Vec<NodeResult>,
    /// All pairs of each cell, in the order of the cells.
    pub cells: Vec<FleetCell>,
    /// Chance of naming anything where nothing stands out, over all cells.
    #[schemars(range(min = 0, max = 1))]
    pub error: f64,
    /// Smallest effect that is named, as a fraction.
    #[schemars(range(min = 0))]
    pub minimum_effect: f64,
    /// Nodes that took the places of others when the study went on, as clauses; absent if all nodes kept theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
    /// Failed runs with their pairs and the reason, as sentences.
    pub failures: Vec<String>,
}

impl FleetResults {
    /// The name of a node.
    pub fn name(&self, node: u32) -> &str {
        self.nodes.get(node as usize).map_or("?", |node| node.name.as_str())
    }

    /// A subject in words.
    pub fn subject(&self, subject: Subject) -> String {
        let name = |node: u32| self.name(node);
        match subject {
            Subject::Node { node } => format!("node {}", name(node)),
            Subject::Sender { node } => format!("{} as a sender", name(node)),
            Subject::Receiver { node } => format!("{} as a receiver", name(node)),
            Subject::Pair { sender, receiver } => {
                format!("pair {} → {}", name(sender), name(receiver))
            }
        }
    }
}

/// A node of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NodeResult {
    /// Its name in the list.
    pub name: String,
    /// How it is reached.
    pub end: String,
    /// Its rack; null where the list does not have it.
    pub rack: Option<String>,
    /// Its switch; null where the list does not have it.
    pub switch: Option<String>,
    /// Its facts by name; sysctls only where nodes differ in them. Empty where it could not be reached.
    pub facts: BTreeMap<String, String>,
    /// What its interface counted in the mean of a run: rx-errors, tx-errors, rx-dropped, tx-dropped, rx-pause-frames,
    /// tx-pause-frames, without what was never counted; absent where nothing was.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: Counts,
}

/// One cell over all pairs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetCell {
    /// The levels of the cell.
    pub levels: Levels,
    /// Whether rates are transactions per second, and not bit/s.
    pub transactional: bool,
    /// The pairs, by sender and receiver.
    pub pairs: Vec<PairResult>,
    /// All others together with each node in the middle; absent with patterns that have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubResult>,
    /// What stands out by its rate, the largest effect first.
    pub named: Vec<Named>,
    /// Facts that slow nodes have in common and other nodes have not; absent without such facts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<Shared>,
    /// Effects of senders, receivers and pairs that were compared.
    pub comparisons: u32,
    /// Why nothing was compared, or not everything; null where everything was.
    pub limits: Option<String>,
}

/// The figures of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PairResult {
    /// Number of the sender: the system under test.
    pub sender: u32,
    /// Number of the receiver: its peer.
    pub receiver: u32,
    /// Runs with figures.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Bit/s, or transactions per second.
    pub rate: Option<Interval>,
    /// CPU time of the sender, µs per KB of 1024 bytes, or per transaction.
    pub service_demand: Option<Interval>,
    /// 99th percentile of the latency of all runs together, µs; null for streams, and with fewer than ten transactions
    /// beyond it.
    pub p99_us: Option<f64>,
    /// Mean number of retransmitted segments of a run; null without TCP.
    pub retransmits: Option<f64>,
}

/// The figures of all others together with a node in the middle.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HubResult {
    /// Number of the node: the system under test.
    pub node: u32,
    /// Runs with figures.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Rate of all others together: bit/s, or transactions per second.
    pub rate: Option<Interval>,
    /// CPU time of the node, µs per KB of 1024 bytes, or per transaction.
    pub service_demand: Option<Interval>,
    /// 99th percentile of the latency of all runs together, µs; null for streams, and with fewer than ten transactions
    /// beyond it.
    pub p99_us: Option<f64>,
    /// Mean number of segments that all nodes sent again in a run; null without TCP.
    pub retransmits: Option<f64>,
    /// Jain's index of the rates of all others, mean over the runs; null without figures.
    pub fairness: Option<f64>,
}

/// Something that stands out, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Named {
    /// A node, a node as a sender or as a receiver, or a pair.
    pub subject: Subject,
    /// Its rate over that of its reference.
    pub ratio: Interval,
    /// Probability of an effect so large where there is none, adjusted for all comparisons of the cell.
    #[schemars(range(min = 0, max = 1))]
    pub p: f64,
    /// What differs between it and most other nodes, as clauses.
    pub evidence: Vec<String>,
}

/// A fact of slow nodes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Shared {
    /// Its name.
    pub fact: String,
    /// Its value; null where it is not known.
    pub value: Option<String>,
    /// Slow nodes that have it.
    pub slow: u32,
    /// All slow nodes.
    pub of_slow: u32,
    /// Other nodes that have it.
    pub others: u32,
    /// All other nodes.
    pub of_others: u32,
    /// Probability of so many or more among the slow nodes by chance (Fisher's exact test), adjusted for the number of
    /// facts by Holm's method.
    #[schemars(range(min = 0, max = 1))]
    pub p: f64,
}

/// Counts by their name in results.
pub type Counts = BTreeMap<String, f64>;
