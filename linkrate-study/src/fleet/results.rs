//! The results of a fleet: matrices of figures, and what stands out. A pure function of the stored runs.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::clean;

use super::facts::facts_of;
use super::hubs;
use super::pairs::{measure_of, pair_result};
use super::ports;
use super::shared;
use super::two_way::{self, Blocks, MIN_BLOCKS, MIN_NODES, Search, Standard, Subject};
use super::{Fleet, Pair, Pattern, missing_nodes};
use crate::analysis::measures::figure;
use crate::results::fleet::{FleetCell, FleetResults, Named, NodeResult, PairResult};
use crate::store::{StoredPlan, StoredRun, StoredStudy};
use crate::study::Study;
use linkrate_stats::interval::of_mean;
use linkrate_stats::sample::mean;
use linkrate_stats::stop::{self, StopInput};

/// The results of a fleet; `None` of a study of one pair.
pub fn of(stored: &StoredStudy) -> Option<FleetResults> {
    let study = &stored.plan.study;
    let fleet = study.fleet.as_ref()?;
    let nodes: Vec<NodeResult> = fleet
        .all_nodes()
        .zip(ports::counted(fleet, &stored.runs))
        .map(|(node, counters)| NodeResult {
            name: node.name.clone(),
            end: node.end.name(),
            rack: node.rack.clone(),
            switch: node.switch.clone(),
            facts: latest_facts(&stored.plan, &node.name),
            counters,
        })
        .collect();
    let error = 1.0 - study.method.confidence;
    let cells =
        (0..study.cells.len()).map(|cell| of_cell(study, fleet, &nodes, &stored.runs, cell));
    Some(FleetResults {
        pattern: fleet.pattern,
        cells: cells.collect(),
        nodes,
        error,
        minimum_effect: study.method.minimum_effect,
        replaced: fleet.changes(),
        failures: failures(fleet, &stored.runs),
    })
}

/// The facts about a node in the last session that had it.
fn latest_facts(plan: &StoredPlan, node: &str) -> BTreeMap<String, String> {
    let sessions = plan.resumed.iter().rev().map(|session| &session.facts);
    let mut reported = sessions.chain([&plan.facts]).map(|facts| facts_of(facts, node));
    reported.find(|facts| !facts.is_empty()).unwrap_or_default()
}

/// The good runs of a cell, each with its block and its pair.
fn good<'a>(
    fleet: &Fleet,
    runs: impl IntoIterator<Item = &'a StoredRun>,
    cell: usize,
) -> impl Iterator<Item = (u32, Pair, &'a StoredRun)> {
    let turns = fleet.turns().max(1);
    let of_cell = runs.into_iter().filter(move |run| run.cell == u32::try_from(cell).ok());
    of_cell
        .filter_map(move |run| Some((run.block / turns, run.pair?, run)).filter(|_| run.is_good()))
}

/// Logarithms of the rates of a cell.
fn logs<'a>(
    study: &Study,
    fleet: &Fleet,
    runs: impl IntoIterator<Item = &'a StoredRun>,
    cell: usize,
) -> Blocks {
    let measure = measure_of(study, cell);
    let mut blocks = Blocks::new();
    // with a node in the middle, the rates of all others together: they share its link
    for (block, pair, run) in good(fleet, runs, cell) {
        if let Some(rate) = figure(measure, run).filter(|rate| *rate > 0.0) {
            blocks.entry(block).or_default().insert((pair.sender, pair.receiver), rate.ln());
        }
    }
    blocks
}

/// The figures of the stop rule after `blocks`: the mean rate over the pairs, of each cell.
pub(crate) fn stop_inputs(
    study: &Study,
    fleet: &Fleet,
    runs: &[StoredRun],
    blocks: u32,
) -> Vec<StopInput> {
    let level = stop::level(study.method.confidence, blocks, study.method.max_blocks);
    let alike = missing_nodes::alike(fleet, runs);
    let of_cell = |cell: usize| {
        let by_block = logs(study, fleet, alike.iter().copied(), cell);
        let means = by_block.values().filter_map(|block| {
            let logs: Vec<f64> = block.values().copied().collect();
            mean(&logs).map(f64::exp)
        });
        let name = format!(
            "mean rate of {} over all pairs",
            crate::labels::cell(&study.cells[cell].levels)
        );
        let interval = of_mean(&means.collect::<Vec<_>>(), level)?;
        Some(StopInput { name, interval, goal: study.method.precision })
    };
    (0..study.cells.len()).filter_map(of_cell).collect()
}

fn of_cell(
    study: &Study,
    fleet: &Fleet,
    nodes: &[NodeResult],
    runs: &[StoredRun],
    cell: usize,
) -> FleetCell {
    let method = &study.method;
    let pairs = match fleet.pattern.hub() {
        None => pairs(study, fleet, runs, cell),
        Some(hub) => hubs::pairs(study, fleet, runs, cell, hub),
    };
    let standard = Standard {
        // all cells together have the error of the study
        error: (1.0 - method.confidence) / study.cells.len().max(1) as f64,
        confidence: method.confidence,
        minimum: method.minimum_effect,
        two_way: fleet.pattern == Pattern::AllPairs && fleet.nodes.len() >= MIN_NODES,
    };
    let search = two_way::search(&logs(study, fleet, runs, cell), &standard);
    let named = search.found.iter().map(|found| {
        let subject = hubs::subject(fleet, found.subject);
        let evidence = evidence(nodes, &pairs, subject);
        Named { subject, ratio: found.ratio, p: found.p, evidence }
    });
    let named: Vec<Named> = named.collect();
    let slow = named.iter().filter(|named| named.ratio.mean < 1.0);
    let slow = slow.filter_map(|named| named.subject.node()).collect();
    FleetCell {
        shared: shared::of(nodes, &slow, standard.error),
        levels: study.cells[cell].levels.clone(),
        transactional: study.cells[cell].spec.is_transactional(),
        named,
        comparisons: search.comparisons,
        limits: limits(fleet, &search),
        hubs: hubs::of_cell(study, fleet, runs, cell),
        pairs,
    }
}

/// Why not everything could be compared.
fn limits(fleet: &Fleet, search: &Search) -> Option<String> {
    if search.blocks < MIN_BLOCKS {
        return Some(format!(
            "no node or pair is named before {MIN_BLOCKS} blocks; there are {}",
            search.blocks
        ));
    }
    if fleet.pattern.hub().is_some() {
        return Some(format!(
            "with pattern {} all other nodes share the link of one, so nodes are compared by the rate of all others \
             together, and the shares of the others are not compared",
            fleet.pattern.word()
        ));
    }
    if fleet.pattern != Pattern::AllPairs {
        return Some(format!(
            "each node sends to one other node with pattern {}, so pairs are compared, and not nodes",
            fleet.pattern.word()
        ));
    }
    (fleet.nodes.len() < MIN_NODES).then(|| {
        format!("pairs are compared, and not nodes: there are fewer than {MIN_NODES} nodes")
    })
}

fn pairs(study: &Study, fleet: &Fleet, runs: &[StoredRun], cell: usize) -> Vec<PairResult> {
    let mut by_pair: BTreeMap<(u32, u32), Vec<&StoredRun>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.cell == u32::try_from(cell).ok()) {
        if let Some(pair) = run.pair {
            by_pair.entry((pair.sender, pair.receiver)).or_default().push(run);
        }
    }
    let places = super::rounds::rounds(fleet).concat();
    let at = |nodes: Vec<u32>| {
        let pairs = places.iter().map(|pair| super::places::at(&nodes, *pair));
        pairs.map(|pair| (pair.sender, pair.receiver)).collect::<Vec<_>>()
    };
    let all: BTreeSet<(u32, u32)> = fleet.times().into_iter().flat_map(at).collect();
    let of_pair = |nodes: (u32, u32)| {
        pair_result(study, cell, nodes, by_pair.get(&nodes).map_or(&[][..], Vec::as_slice))
    };
    all.into_iter().map(of_pair).collect()
}

/// What differs between a subject and most other nodes.
fn evidence(nodes: &[NodeResult], pairs: &[PairResult], subject: Subject) -> Vec<String> {
    let of_node = |node: u32| {
        let facts = unusual_facts(nodes, node as usize);
        facts.into_iter().chain(ports::unusual(nodes, node as usize))
    };
    let mut found: Vec<String> = subject.nodes().into_iter().flat_map(of_node).collect();
    let retransmits = |ours: bool| {
        let those =
            pairs.iter().filter(|pair| subject.concerns(pair.sender, pair.receiver) == ours);
        mean(&those.filter_map(|pair| pair.retransmits).collect::<Vec<_>>())
    };
    if let (Some(own), Some(others)) = (retransmits(true), retransmits(false))
        && own > 10.0 + 2.0 * others
    {
        found.push(format!(
            "{own:.0} retransmitted segments a run, where other pairs have {others:.0}"
        ));
    }
    found
}

/// The facts of a node that more than half of the nodes have otherwise, each as a clause. A fact that differs from
/// node to node (a serial number, an address) is none of them.
fn unusual_facts(nodes: &[NodeResult], node: usize) -> Vec<String> {
    let Some(own) = nodes.get(node) else { return Vec::new() };
    let mut names: Vec<&String> = nodes.iter().flat_map(|node| node.facts.keys()).collect();
    names.sort();
    names.dedup();
    let clause = |name: &String| {
        let value = |node: &NodeResult| node.facts.get(name).cloned();
        let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(value(node)).or_default() += 1);
        let (usual, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let mine = value(own);
        if mine == usual || count * 2 <= nodes.len() {
            return None;
        }
        let reported = |value: Option<String>| match value {
            Some(value) => clean::short_line(&value, 80).into_owned(),
            None => "not known".to_owned(),
        };
        let of = nodes.len();
        Some(format!(
            "{name} of {} is {}, where {count} of {of} nodes have {}",
            own.name,
            reported(mine),
            reported(usual)
        ))
    };
    names.into_iter().filter_map(clause).collect()
}

/// Pairs of which runs failed, those with the same reason together.
fn failures(fleet: &Fleet, runs: &[StoredRun]) -> Vec<String> {
    let mut by_reason: BTreeMap<String, (u32, Vec<Pair>)> = BTreeMap::new();
    for run in runs {
        if let (Some(pair), Some(failure)) = (run.pair, run.failure()) {
            let entry = by_reason.entry(failure.to_string()).or_default();
            entry.0 += 1;
            if !entry
                .1
                .iter()
                .any(|other| (other.sender, other.receiver) == (pair.sender, pair.receiver))
            {
                entry.1.push(pair);
            }
        }
    }
    let reported = |(reason, (runs, pairs)): (String, (u32, Vec<Pair>))| {
        const SHOWN: usize = 8;
        let arrow = |pair: &Pair| {
            let (sender, receiver) = fleet.ends(pair);
            format!("{sender} → {receiver}")
        };
        let shown: Vec<String> = pairs.iter().take(SHOWN).map(arrow).collect();
        let more = match pairs.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let plural = if runs == 1 { "run" } else { "runs" };
        format!("{runs} failed {plural} of {}{more}: {reason}", shown.join(", "))
    };
    by_reason.into_iter().map(reported).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_cost_of_a_pair_is_as_uncertain_as_what_other_programs_leave_of_it() {
        let study = fixture::ladder();
        let pair = |uncertainty: bool| {
            let run = |block: u32| {
                let mut run = fixture::stream(9.4e8, 0.5 + 0.001 * f64::from(block));
                let cpu_ns = if uncertainty { run.sut_cpu.busy_ns() / 25 } else { 0 };
                run.sut_cpu.background = fixture::roaming(cpu_ns);
                fixture::run(block, block, Some(0), run)
            };
            let runs: Vec<StoredRun> = (0..4).map(run).collect();
            pair_result(&study, 0, (0, 1), &runs.iter().collect::<Vec<_>>())
        };
        let (calm, uncertainty) = (pair(false), pair(true));
        let [calm_cost, uncertain_cost] =
            [&calm, &uncertainty].map(|pair| pair.service_demand.unwrap());
        assert_eq!((calm_cost.mean, calm_cost.high), (uncertain_cost.mean, uncertain_cost.high));
        let lower = calm_cost.low.unwrap() - uncertain_cost.low.unwrap();
        assert!((lower / calm_cost.mean - 0.04).abs() < 1e-6, "{uncertain_cost:?}");
        assert_eq!(calm.rate, uncertainty.rate);
    }
}
