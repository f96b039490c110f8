//! Which levels are compared, and how they compare.

use std::collections::{BTreeSet, HashMap};

use crate::analysis::uncertainty::{self, Reach};
use crate::levels::{Level, Levels};
use crate::quantity::Measure;
use crate::results::{Effect, Probabilities};
use crate::study::{Factor, PART, Study};
use linkrate_model::workload::Item;
use linkrate_model::{RunSpec, Task};
use linkrate_stats::paired;

use super::runs_by_cell::RunsByCell;

/// Two cells that differ in one factor only.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The factor that changes.
    pub factor: String,
    /// Its level in the denominator.
    pub from: Level,
    /// Its level in the numerator.
    pub to: Level,
    /// The levels of the other factors.
    pub at: Levels,
    /// Index of the cell in the denominator.
    pub from_cell: usize,
    /// Index of the cell in the numerator.
    pub to_cell: usize,
    /// What can be compared between the two.
    pub measures: &'static [Measure],
}

/// Every comparison of a study: for each factor whose effects are asked the first level, its baseline, with each other
/// one, and each level with the next; at every combination of the other factors. Streams and transactions have nothing
/// that can be compared, and neither have
/// cells of different parts, which differ in more than a level.
pub fn comparisons(study: &Study) -> Vec<Comparison> {
    let cells: HashMap<&Levels, usize> =
        study.cells.iter().enumerate().map(|(index, cell)| (&cell.levels, index)).collect();
    if study.parts.is_empty() {
        return within(study, &cells, &study.factors, None);
    }
    let parts = study.parts.iter().map(|part| (&part.factors, Level::Text(part.name.clone())));
    parts.flat_map(|(factors, part)| within(study, &cells, factors, Some(&part))).collect()
}

/// The comparisons among the cells of one part, or of a study without parts.
fn within(
    study: &Study,
    cells: &HashMap<&Levels, usize>,
    factors: &[Factor],
    part: Option<&Level>,
) -> Vec<Comparison> {
    let mut found = Vec::new();
    for factor in factors.iter().filter(|factor| factor.effects) {
        for (from, to) in pairs(factor.levels.len()) {
            let (from, to) = (&factor.levels[from], &factor.levels[to]);
            for (from_cell, cell) in study.cells.iter().enumerate() {
                let elsewhere = part.is_some() && cell.levels.get(PART) != part;
                if elsewhere || cell.levels.get(&factor.name) != Some(from) {
                    continue;
                }
                let counterpart = cell.levels.with(&factor.name, to);
                let Some(&to_cell) = cells.get(&counterpart) else { continue };
                let to_spec = &study.cells[to_cell].spec;
                let mut measures = measures(&cell.spec, to_spec);
                if changes_load(&factor.name, &cell.spec, to_spec) {
                    let whole = measures.iter().take_while(|measure| !measure.is_percentile());
                    measures = &measures[..whole.count()];
                }
                if measures.is_empty() {
                    continue;
                }
                found.push(Comparison {
                    factor: factor.name.clone(),
                    from: from.clone(),
                    to: to.clone(),
                    at: cell.levels.without(&factor.name),
                    from_cell,
                    to_cell,
                    measures,
                });
            }
        }
    }
    found
}

/// What can be compared between two cells. Of transactions and of transactions beside streams that is their latency.
pub(crate) fn measures(from: &RunSpec, to: &RunSpec) -> &'static [Measure] {
    let both = |holds: fn(&RunSpec) -> bool| holds(from) && holds(to);
    if from.is_transactional() != to.is_transactional() {
        let latency = both(has_transactions).then_some(&[Measure::LatencyP50, Measure::LatencyP99]);
        latency.map_or(&[], |measures| measures)
    } else if both(has_transactions) && !from.is_transactional() {
        &[Measure::ServiceDemand, Measure::Throughput, Measure::LatencyP50, Measure::LatencyP99]
    } else if from.is_transactional() {
        &[Measure::ServiceDemand, Measure::Transactions, Measure::LatencyP50, Measure::LatencyP99]
    } else if both(RunSpec::is_bidirectional) {
        // a sum hides what one direction loses to the other
        &[Measure::ServiceDemand, Measure::Throughput, Measure::Transmit, Measure::Receive]
    } else {
        &[Measure::ServiceDemand, Measure::Throughput]
    }
}

/// Whether a factor that is not itself the number of requests changes it all the same, as ports do that have a client each:
/// the mean latency of a closed loop is that number divided by the rate (Little's law), and no news beside it.
pub(super) fn changes_load(factor: &str, from: &RunSpec, to: &RunSpec) -> bool {
    !["burst", "connections", "clients"].contains(&factor) && in_flight(from) != in_flight(to)
}

/// Transactions of a closed loop that are in flight at once.
fn in_flight(spec: &RunSpec) -> Option<u64> {
    let Task::Workload(workload) = &spec.task else { return None };
    workload.requests_in_flight(spec.clients)
}

/// Whether there are transactions, alone or in a mix.
pub(crate) fn has_transactions(spec: &RunSpec) -> bool {
    let Task::Workload(workload) = &spec.task else { return false };
    workload.timed_item() == Some(Item::Transaction)
}

/// First with each, then each with its next; every pair once.
fn pairs(levels: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..levels).map(|to| (0, to)).chain((2..levels).map(|to| (to - 1, to)))
}

/// The effects of a comparison, with intervals of the given level, and tests against the minimum, a fraction; those without a single pair of
/// runs are left out. [`super::claims`] says which of them are claimed, [`super::directions`] what they are at
/// equal mix, and [`super::demand`] without the driver.
pub fn compare(
    comparison: &Comparison,
    runs: &RunsByCell<'_>,
    level: f64,
    minimum: f64,
) -> Vec<Effect> {
    comparison
        .measures
        .iter()
        .filter_map(|measure| {
            let from = runs.by_block(comparison.from_cell, *measure);
            let to = runs.by_block(comparison.to_cell, *measure);
            let blocks: BTreeSet<u32> = from.keys().chain(to.keys()).copied().collect();
            let pairs =
                blocks.iter().map(|block| (from.get(block).copied(), to.get(block).copied()));
            let found = paired::ratio(pairs, level)?;
            let uncertainty = [comparison.from_cell, comparison.to_cell]
                .map(|cell| uncertainty::of_cell(runs, cell, *measure));
            let reach = Reach::of_ratio(uncertainty);
            let ends = [comparison.from.clone(), comparison.to.clone()];
            let (at, ratio) = (comparison.at.clone(), reach.widen(found.ratio));
            Some(Effect {
                probabilities: Probabilities::of(found.test, reach, minimum),
                ..Effect::of(&comparison.factor, ends, at, *measure, ratio, found.pairs)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_comes_once() {
        let all = |levels| pairs(levels).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(1), []);
        assert_eq!(all(2), [(0, 1)]);
        assert_eq!(all(3), [(0, 1), (0, 2), (1, 2)]);
        assert_eq!(all(4), [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]);
    }
}
