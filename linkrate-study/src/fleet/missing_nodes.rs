//! Turns around a node in the middle that continued without some nodes, because these could not be reached.
//!
//! Such a turn is another measurement than one with all nodes: the others share the link of the node in the middle. No
//! figure is made of both. The turns whose nodes most turns have make the figures; the rest stay in the store, and a
//! sentence reports on them.

use std::collections::{BTreeMap, BTreeSet};

use super::Fleet;
use crate::store::{StoredRun, StoredStudy};

/// The places of the nodes that were absent.
type MissingNodes = BTreeSet<u32>;

/// The places without a node in a run.
fn places(fleet: &Fleet, run: &StoredRun) -> MissingNodes {
    if run.missing_nodes.is_empty() {
        return MissingNodes::new();
    }
    let nodes = (0..).zip(fleet.at_places(run.sequence));
    nodes.filter(|(_, node)| run.missing_nodes.contains(node)).map(|(place, _)| place).collect()
}

/// The runs that have figures by the places without a node.
fn counted(fleet: &Fleet, runs: &[StoredRun]) -> BTreeMap<MissingNodes, usize> {
    let mut counts = BTreeMap::new();
    for run in runs.iter().filter(|run| run.cell.is_some() && run.is_good()) {
        *counts.entry(places(fleet, run)).or_default() += 1;
    }
    counts
}

/// The places without a node in most runs; of equally many runs, those with the most nodes.
fn of_most(counts: &BTreeMap<MissingNodes, usize>) -> MissingNodes {
    let most = counts.iter().max_by_key(|(absent, count)| (**count, usize::MAX - absent.len()));
    most.map(|(absent, _)| absent.clone()).unwrap_or_default()
}

/// The runs that make figures: those with the same nodes as most, and all that failed.
pub(super) fn alike<'a>(fleet: &Fleet, runs: &'a [StoredRun]) -> Vec<&'a StoredRun> {
    let absent = of_most(&counted(fleet, runs));
    runs.iter().filter(|run| !run.is_good() || places(fleet, run) == absent).collect()
}

/// The study without the runs that make no figures, and a sentence: which nodes were absent from how many runs, and which
/// runs make the figures. `None` if no node was absent from a run with figures.
pub fn of(stored: &StoredStudy) -> Option<(StoredStudy, String)> {
    let fleet = stored.plan.study.fleet.as_ref()?;
    let with_figures = |run: &&StoredRun| run.cell.is_some() && run.is_good();
    let mut by_node: BTreeMap<u32, usize> = BTreeMap::new();
    for node in stored.runs.iter().filter(with_figures).flat_map(|run| &run.missing_nodes) {
        *by_node.entry(*node).or_default() += 1;
    }
    if by_node.is_empty() {
        return None;
    }
    let was =
        |(node, runs): (&u32, &usize)| format!("{} was absent from {runs}", fleet.name(*node));
    let nodes = by_node.iter().map(was).collect::<Vec<_>>().join(", and ");
    let all = stored.runs.iter().filter(with_figures).count();
    let alike = alike(fleet, &stored.runs);
    let figures = alike.iter().copied().filter(with_figures).count();
    let of_figures = alike.iter().copied().find(with_figures);
    let those = match of_figures.map_or(0, |run| run.missing_nodes.len()) {
        0 => "all nodes".to_owned(),
        1 => "all nodes except one".to_owned(),
        some => format!("all nodes except {some}"),
    };
    let reported = format!(
        "{nodes} of {all} runs with figures; the figures are of the {figures} runs with {those}"
    );
    let study = StoredStudy {
        directory: stored.directory.clone(),
        plan: stored.plan.clone(),
        runs: alike.into_iter().cloned().collect(),
        torn: stored.torn,
        ended: stored.ended.clone(),
    };
    Some((study, reported))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fleet::rounds::block_rounds;
    use crate::fleet::rounds::tests::study_of;
    use crate::fleet::{Pattern, results};

    const BLOCKS: u32 = 10;

    /// An incast of four nodes. From block `from` on, node 3 is absent, and the others have twice the rate.
    fn measured(from: u32) -> StoredStudy {
        let text = "title = \"t\"\n[fleet]\nat-once = 1\n[factors]\nmessage = [\"64 KiB\"]\n[method]\nidle = \"0 s\"\n\
                    blocks = { min = 10, max = 10 }\n";
        let study = study_of(4, Pattern::Incast, text);
        let fleet = study.fleet.clone().unwrap();
        let mut runs = Vec::new();
        for turn in (0..BLOCKS).flat_map(|block| block_rounds(&fleet, 1, block)).flatten() {
            let is_absent = turn.number / fleet.turns() >= from;
            if is_absent && turn.pair.sender == 3 {
                continue;
            }
            let rate = if is_absent { 2e9 } else { 1e9 };
            let sequence = u32::try_from(runs.len()).unwrap();
            let made = fixture::run(sequence, turn.number, Some(0), fixture::stream(rate, 0.5));
            let absent = if is_absent { vec![3] } else { Vec::new() };
            runs.push(StoredRun { pair: Some(turn.pair), missing_nodes: absent, ..made });
        }
        fixture::under_way(study, runs)
    }

    fn rates(stored: &StoredStudy) -> Vec<Option<f64>> {
        let results = crate::analysis::analyse(stored).fleet.unwrap();
        results.cells[0].hubs.iter().map(|hub| hub.rate.map(|rate| rate.mean.round())).collect()
    }

    #[test]
    fn figures_are_of_the_turns_with_the_nodes_of_most() {
        let (late, early) = (measured(8), measured(3));
        assert_eq!(rates(&late), [Some(1e9); 4]);
        assert_eq!(rates(&early), [Some(2e9), Some(2e9), Some(2e9), None]);
        let reported = |stored: &StoredStudy| of(stored).unwrap().1;
        assert_eq!(
            reported(&late),
            "n3 was absent from 6 of 38 runs with figures; the figures are of the 32 runs with all nodes"
        );
        assert_eq!(
            reported(&early),
            "n3 was absent from 21 of 33 runs with figures; the figures are of the 21 runs with all nodes except one"
        );
        let failures = crate::analysis::analyse(&early).fleet.unwrap().failures;
        assert_eq!(failures, [reported(&early)]);
    }

    #[test]
    fn nothing_is_reported_where_all_nodes_were_there() {
        let stored = measured(BLOCKS);
        assert_eq!(of(&stored), None);
        assert_eq!(results::of(&stored).unwrap().failures, [""; 0]);
    }

    #[test]
    fn of_equally_many_runs_those_with_all_nodes_make_the_figures() {
        let one = BTreeSet::from([3]);
        let counts = BTreeMap::from([(MissingNodes::new(), 5), (one.clone(), 5)]);
        assert_eq!(of_most(&counts), MissingNodes::new());
        assert_eq!(of_most(&BTreeMap::from([(MissingNodes::new(), 5), (one.clone(), 6)])), one);
    }
}
