//! What the interfaces of nodes counted: errors, drops and pause frames.

use linkrate_model::measurement::InterfaceCounts;

use super::Fleet;
use crate::results::fleet::{Counts, NodeResult};
use crate::store::StoredRun;
use linkrate_stats::sample::mean;
use linkrate_stats::trend::median;

/// A counter: its name in results, in sentences, and where it is.
type Counter = (&'static str, &'static str, fn(&InterfaceCounts) -> u64);

const COUNTERS: [Counter; 6] = [
    ("rx-errors", "receive errors", |counts| counts.rx_errors),
    ("tx-errors", "transmit errors", |counts| counts.tx_errors),
    ("rx-dropped", "packets dropped on receive", |counts| counts.rx_dropped),
    ("tx-dropped", "packets dropped on transmit", |counts| counts.tx_dropped),
    ("rx-pause-frames", "pause frames received", |counts| counts.rx_pause_frames),
    ("tx-pause-frames", "pause frames sent", |counts| counts.tx_pause_frames),
];

/// A count stands out from this many times the median of the other nodes on.
const APART: f64 = 10.0;

/// The mean counts of a run at each node, without those that are zero in all runs.
pub(super) fn counted(fleet: &Fleet, runs: &[StoredRun]) -> Vec<Counts> {
    let mut of_nodes: Vec<Vec<InterfaceCounts>> = vec![Vec::new(); fleet.count() as usize];
    for run in runs {
        let (Some(pair), Some(measured)) = (run.pair, run.measurement()) else { continue };
        // clients of a node in the middle are counted together
        let far = measured.evidence.client_interface.filter(|_| fleet.pattern.hub().is_none());
        let ends = [(pair.sender, Some(measured.evidence.interface)), (pair.receiver, far)];
        for (node, counts) in ends {
            if let (Some(of_node), Some(counts)) = (of_nodes.get_mut(node as usize), counts) {
                of_node.push(counts);
            }
        }
    }
    let of_node = |counts: Vec<InterfaceCounts>| {
        let of_counter = |(name, _, count): Counter| {
            let values: Vec<f64> = counts.iter().map(|counts| count(counts) as f64).collect();
            let mean = mean(&values).filter(|mean| *mean > 0.0)?;
            Some((name.to_owned(), mean))
        };
        COUNTERS.into_iter().filter_map(of_counter).collect()
    };
    of_nodes.into_iter().map(of_node).collect()
}

/// The counts of a node that other nodes do not have, each as a clause.
pub(super) fn unusual(nodes: &[NodeResult], node: usize) -> Vec<String> {
    let Some(own) = nodes.get(node) else { return Vec::new() };
    let clause = |(name, words, _): Counter| {
        let of = |node: &NodeResult| node.counters.get(name).copied().unwrap_or(0.0);
        let others = nodes.iter().enumerate().filter(|(number, _)| *number != node);
        let mut others: Vec<f64> = others.map(|(_, other)| of(other)).collect();
        let (mine, usual) = (of(own), median(&mut others)?);
        (mine >= 1.0 && mine > APART * usual).then(|| {
            format!(
                "{mine:.0} {words} a run at {}, where the median of the other nodes is {usual:.0}",
                own.name
            )
        })
    };
    COUNTERS.into_iter().filter_map(clause).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn node(name: &str, counters: &[(&str, f64)]) -> NodeResult {
        NodeResult {
            name: name.to_owned(),
            end: format!("ssh:{name}"),
            rack: None,
            switch: None,
            facts: BTreeMap::new(),
            counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        }
    }

    #[test]
    fn a_count_that_other_nodes_do_not_have_is_reported() {
        let mut nodes = vec![
            node("n0", &[("rx-dropped", 3.0)]),
            node("n1", &[("rx-errors", 1532.0), ("rx-dropped", 9.0), ("tx-pause-frames", 0.4)]),
            node("n2", &[("rx-dropped", 4.0)]),
        ];
        let reported = unusual(&nodes, 1);
        let expected = "1532 receive errors a run at n1, where the median of the other nodes is 0";
        assert_eq!(reported, [expected]);
        assert_eq!(unusual(&nodes, 0), [""; 0]);
        // errors that most nodes have explain nothing
        nodes[0].counters.insert("rx-errors".to_owned(), 900.0);
        nodes[2].counters.insert("rx-errors".to_owned(), 1100.0);
        assert_eq!(unusual(&nodes, 1), [""; 0]);
    }
}
