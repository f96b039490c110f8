//! The results of a fleet: matrices of figures, and what stands out.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fleet::Pattern;
use crate::fleet::two_way::Subject;
use crate::levels::Levels;
use crate::quantity::Interval;

/// The results of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetResults {
    /// Who was measured with whom.
    pub pattern: Pattern,
    /// The nodes, in the order of switch and rack.
    pub nodes: Vec<NodeResult>,
    /// The matrix of each cell, in the order of the cells.
    pub cells: Vec<FleetCell>,
    /// Chance of naming anything where nothing stands out.
    pub error: f64,
    /// Smallest effect that is named, as a fraction.
    pub minimum_effect: f64,
    /// Nodes that took the places of others, as clauses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
    /// Pairs without figures and pairs of which some runs failed, with the reason, and nodes that were absent; as
    /// sentences.
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeResult {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub end: String,
    /// Its rack, if that was given.
    pub rack: Option<String>,
    /// Its switch, if that was given.
    pub switch: Option<String>,
    /// Its facts by name (`kernel`, `driver`, `rate`).
    pub facts: BTreeMap<String, String>,
    /// What its interface counted in the mean of a run (`rx-errors`), without what was never counted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: Counts,
}

/// One cell over all pairs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetCell {
    /// The levels of the cell.
    pub levels: Levels,
    /// Whether the rate is of transactions per second, and not of bits.
    pub transactional: bool,
    /// Each pair with its figures, by sender and receiver.
    pub pairs: Vec<PairResult>,
    /// The figures of all others together with each node in the middle; empty with patterns that have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubResult>,
    /// What stands out by its rate, the largest effect first.
    pub named: Vec<Named>,
    /// Facts that slow nodes have in common, and other nodes have not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<Shared>,
    /// Effects that were compared.
    pub comparisons: u32,
    /// Why nothing was compared, or not everything; a sentence.
    pub limits: Option<String>,
}

/// The figures of a pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairResult {
    /// Number of the sender.
    pub sender: u32,
    /// Number of the receiver.
    pub receiver: u32,
    /// Runs with figures.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Throughput, bit/s, or transactions per second.
    pub rate: Option<Interval>,
    /// CPU time of the sender, µs per KB or per transaction.
    pub service_demand: Option<Interval>,
    /// 99th percentile of the latency of all runs together, µs; absent for streams.
    pub p99_us: Option<f64>,
    /// Mean number of retransmitted segments of a run; absent without TCP.
    pub retransmits: Option<f64>,
}

/// The figures of all others together with a node in the middle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HubResult {
    /// Number of the node in the middle.
    pub node: u32,
    /// Runs with figures.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Throughput of all others together, bit/s, or transactions per second.
    pub rate: Option<Interval>,
    /// CPU time of the node in the middle, µs per KB or per transaction.
    pub service_demand: Option<Interval>,
    /// 99th percentile of the latency of all runs together, µs; absent for streams.
    pub p99_us: Option<f64>,
    /// Mean number of segments that all nodes sent again in a run; absent without TCP.
    pub retransmits: Option<f64>,
    /// Jain's index of the rates of the others, mean over the runs: 1 where all have the same, one over their number where
    /// one has everything.
    pub fairness: Option<f64>,
}

/// Something that stands out, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    /// What.
    pub subject: Subject,
    /// Its rate over that of its reference.
    pub ratio: Interval,
    /// Adjusted probability.
    pub p: f64,
    /// What differs from most other nodes, as clauses.
    pub evidence: Vec<String>,
}

/// A fact of slow nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shared {
    /// Its name.
    pub fact: String,
    /// Its value; absent where it is not known.
    pub value: Option<String>,
    /// Slow nodes that have it.
    pub slow: u32,
    /// All slow nodes.
    pub of_slow: u32,
    /// Other nodes that have it.
    pub others: u32,
    /// All other nodes.
    pub of_others: u32,
    /// Probability of so many or more among the slow nodes by chance (Fisher's exact test), adjusted for the number
    /// of facts by Holm's method.
    pub p: f64,
}

/// Counts by their name in results.
pub type Counts = BTreeMap<String, f64>;
