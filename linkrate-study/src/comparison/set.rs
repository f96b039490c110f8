//! One result set as comparisons read it: figures by cell and block.
//!
//! A block of a fleet is a turn of each pair, which has a number of its own in stored runs. Turns of a block share
//! what the block had, so their geometric mean is one observation.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::RunSpec;

use crate::analysis::effects::has_transactions;
use crate::analysis::measures;
use crate::analysis::runs_by_cell::RunsByCell;
use crate::analysis::uncertainty::Reach;
use crate::analysis::{adapter, shares, uncertainty};
use crate::comparison::SetSummary;
use crate::comparison::conditions::find;
use crate::quantity::{Measure, Unit};
use crate::store::directory::name;
use crate::store::{Ended, StoredRun, StoredStudy};
use crate::study::Study;
use crate::verdict::Verdict;

/// A sender and a receiver of a fleet, by their names.
pub type Ends = (String, String);

/// A result set with its runs sorted into cells.
pub struct Set<'a> {
    pub stored: &'a StoredStudy,
    pub runs: RunsByCell<'a>,
    /// The pairs of a fleet that are compared in each cell; empty in studies of one pair.
    pairs: Vec<BTreeSet<Ends>>,
}

impl<'a> Set<'a> {
    pub fn of(stored: &'a StoredStudy) -> Self {
        let mut set = Self {
            stored,
            runs: RunsByCell::of(&stored.plan.study, &stored.runs),
            pairs: Vec::new(),
        };
        let of_cell = |cell: usize| {
            let good = set.runs.cell(cell).iter().filter(|run| run.is_good());
            good.filter(|run| set.is_of_all_blocks(run)).filter_map(|run| set.ends(run)).collect()
        };
        set.pairs = (0..stored.plan.study.cells.len()).map(of_cell).collect();
        set
    }

    /// Whether the nodes of a run had their places in all blocks. With a node in the middle, a turn has all nodes.
    fn is_of_all_blocks(&self, run: &StoredRun) -> bool {
        let Some((fleet, pair)) = self.stored.plan.study.fleet.as_ref().zip(run.pair) else {
            return true;
        };
        match fleet.pattern.hub() {
            Some(_) => fleet.moves.is_empty() && run.missing_nodes.is_empty(),
            None => [pair.sender, pair.receiver].into_iter().all(|node| fleet.has_stayed(node)),
        }
    }

    /// The names of the pair of a run; `None` in studies of one pair.
    fn ends(&self, run: &StoredRun) -> Option<Ends> {
        let (sender, receiver) = self.stored.plan.study.fleet.as_ref()?.ends(run.pair.as_ref()?);
        Some((sender.to_owned(), receiver.to_owned()))
    }

    pub fn summary(&self) -> SetSummary {
        let plan = &self.stored.plan;
        let runs = &self.stored.runs;
        SetSummary {
            results: name(&plan.study.name, plan.started_unix_ms),
            started_unix_ms: plan.started_unix_ms,
            linkrate_version: plan.linkrate_version.clone(),
            blocks: self.runs.whole_blocks(&plan.study),
            failed: number(runs.iter().filter(|run| run.failure().is_some()).count()),
            complete: self.stored.ended.as_ref().is_some_and(Ended::is_complete),
            facts: plan.facts.facts.clone(),
            directory: self.stored.directory.display().to_string(),
        }
    }

    /// A cell's figure by block; blocks without one are absent. That of a fleet is the geometric mean over its pairs,
    /// and blocks that lack a pair are left out.
    pub fn by_block(&self, cell: usize, measure: Measure) -> BTreeMap<u32, f64> {
        let figures = self.figures(cell, measure);
        if self.stored.plan.study.fleet.is_none() {
            return figures.map(|(run, value)| (run.block, value)).collect();
        }
        let mut blocks: BTreeMap<u32, BTreeMap<Ends, f64>> = BTreeMap::new();
        for (run, value) in figures {
            if let Some(ends) = self.ends(run).filter(|ends| self.pairs[cell].contains(ends)) {
                blocks
                    .entry(run.block / self.stored.plan.study.turns())
                    .or_default()
                    .insert(ends, value.ln());
            }
        }
        let whole = blocks.into_iter().filter(|(_, pairs)| pairs.len() == self.pairs[cell].len());
        whole.map(|(block, pairs)| (block, geometric(pairs.into_values()))).collect()
    }

    /// The figures of a cell by pair, in the order of blocks.
    pub fn by_pair(&self, cell: usize, measure: Measure) -> BTreeMap<Ends, Vec<f64>> {
        let mut found: BTreeMap<Ends, Vec<f64>> = BTreeMap::new();
        for (run, value) in self.figures(cell, measure) {
            if let Some(ends) = self.ends(run) {
                found.entry(ends).or_default().push(value);
            }
        }
        found
    }

    /// The runs of a cell that have a figure.
    fn figures(
        &self,
        cell: usize,
        measure: Measure,
    ) -> impl Iterator<Item = (&'a StoredRun, f64)> + use<'a> {
        // the others share the link of a node that is absent
        let runs = self.runs.cell(cell).iter().filter(|run| run.missing_nodes.is_empty());
        let figures = measures::figures(measure, &runs.copied().collect::<Vec<_>>());
        figures.into_iter().filter(|(_, value)| value.is_finite() && *value > 0.0)
    }

    /// Whether a good run of a cell has too few transactions for a percentile.
    fn lacks_transactions(&self, cell: usize, measure: Measure) -> bool {
        let lacks = |run: &&StoredRun| run.is_good() && measures::figure(measure, run).is_none();
        measure.is_percentile() && self.runs.cell(cell).iter().any(lacks)
    }

    /// The ratios of two cells by block; of a fleet, the geometric mean over its pairs, each with itself.
    pub fn ratios(&self, from: usize, to: usize, measure: Measure) -> Vec<f64> {
        let (from, to) = (self.runs.by_block(from, measure), self.runs.by_block(to, measure));
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (block, from) in from {
            if let Some(to) = to.get(&block) {
                blocks
                    .entry(block / self.stored.plan.study.turns())
                    .or_default()
                    .push((to / from).ln());
            }
        }
        blocks.into_values().map(|ratios| geometric(ratios.into_iter())).collect()
    }

    /// How far a cell's figure may lie from what was measured.
    pub fn uncertainty(&self, cell: usize, measure: Measure) -> Reach {
        match measure {
            Measure::ServiceDemand => {
                uncertainty::of_cell(&self.runs, cell, Measure::ServiceDemand)
            }
            _ => Reach::NONE,
        }
    }

    /// Whether something other than the adapter limited a cell; `None` where nothing is known of it, or there is no
    /// adapter.
    pub fn is_of_the_host(&self, cell: usize) -> Option<bool> {
        if !adapter::has_one(&self.stored.plan.study) {
            return None;
        }
        let scale = self.stored.plan.study.testbed.scale;
        shares::verdict(self.runs.cell(cell).iter().copied(), scale).is_of_the_host()
    }

    /// Runs of a cell without figures.
    pub fn failed(&self, cell: usize) -> u32 {
        number(self.runs.cell(cell).iter().filter(|run| run.failure().is_some()).count())
    }
}

/// Leaves in each cell of fleets the pairs that have figures in all sets. `study` names the cells.
pub fn align(sets: &mut [Set<'_>], study: &Study) {
    for cell in &study.cells {
        let indices: Vec<Option<usize>> =
            sets.iter().map(|set| find(&set.stored.plan.study, &cell.levels)).collect();
        let of_sets = sets.iter().zip(&indices).filter_map(|(set, index)| set.pairs.get((*index)?));
        let Some(all) = of_sets.cloned().reduce(|some, others| &some & &others) else { continue };
        for (set, index) in sets.iter_mut().zip(indices) {
            if let Some(pairs) = index.and_then(|index| set.pairs.get_mut(index)) {
                pairs.clone_from(&all);
            }
        }
    }
}

/// The measures that are compared for a cell, with their units; the rate is the first.
pub fn measures(spec: &RunSpec) -> Vec<(Measure, Unit)> {
    let transactional = spec.is_transactional();
    let rate = if transactional { Measure::Transactions } else { Measure::Throughput };
    let mut found = vec![rate, Measure::ServiceDemand];
    if has_transactions(spec) {
        found.extend([Measure::LatencyP50, Measure::LatencyP99]);
    }
    found.into_iter().map(|measure| (measure, measure.unit(transactional))).collect()
}

/// The sets of one side of a comparison, of which the first decides on the cells and their order.
///
/// With one set, blocks are the observations. With several, sets are: what a session has in common (the layout of
/// memory, a neighbour on the hypervisor) is in all of its blocks.
pub struct Side<'a> {
    /// The sets, at least one.
    sets: Vec<Set<'a>>,
}

impl<'a> Side<'a> {
    /// A side of these sets, which are aligned; at least one.
    pub fn of(sets: Vec<Set<'a>>) -> Self {
        Self { sets }
    }

    pub fn first(&self) -> &Set<'a> {
        &self.sets[0]
    }

    pub fn count(&self) -> usize {
        self.sets.len()
    }

    pub fn summaries(&self) -> Vec<SetSummary> {
        self.sets.iter().map(Set::summary).collect()
    }

    /// The sets with the indices of this cell of the first one; those without it are left out.
    fn with_cell(&self, cell: usize) -> impl Iterator<Item = (&Set<'a>, usize)> + '_ {
        let levels = &self.first().stored.plan.study.cells[cell].levels;
        self.sets.iter().filter_map(move |set| Some((set, find(&set.stored.plan.study, levels)?)))
    }

    /// A cell's figure by block of the only set, or by set.
    pub fn by_unit(&self, cell: usize, measure: Measure) -> BTreeMap<u32, f64> {
        if let [only] = &self.sets[..] {
            return only.by_block(cell, measure);
        }
        let of_set = |(number, (set, cell)): (u32, (&Set<'a>, usize))| {
            Some((number, geometric_of(set.by_block(cell, measure).into_values())?))
        };
        (0..).zip(self.with_cell(cell)).filter_map(of_set).collect()
    }

    /// The figures of a cell by pair, in the order of blocks or sets.
    pub fn by_pair(&self, cell: usize, measure: Measure) -> BTreeMap<Ends, Vec<f64>> {
        if let [only] = &self.sets[..] {
            return only.by_pair(cell, measure);
        }
        let mut found: BTreeMap<Ends, Vec<f64>> = BTreeMap::new();
        for (set, cell) in self.with_cell(cell) {
            for (ends, values) in set.by_pair(cell, measure) {
                found.entry(ends).or_default().extend(geometric_of(values.into_iter()));
            }
        }
        found
    }

    /// The ratios of two cells by block of the only set, or by set.
    pub fn ratios(&self, from: usize, to: usize, measure: Measure) -> Vec<f64> {
        if let [only] = &self.sets[..] {
            return only.ratios(from, to, measure);
        }
        let both = self.with_cell(from).filter_map(|(set, from)| {
            let levels = &self.first().stored.plan.study.cells[to].levels;
            let to = find(&set.stored.plan.study, levels)?;
            geometric_of(set.ratios(from, to, measure).into_iter())
        });
        both.collect()
    }

    /// How far a cell's figure may lie from what was measured; mean over the sets.
    pub fn uncertainty(&self, cell: usize, measure: Measure) -> Reach {
        Reach::of_mean(self.with_cell(cell).map(|(set, cell)| set.uncertainty(cell, measure)))
    }

    /// Whether something other than the adapter limited a cell, in any set; `None` where nothing is known of it.
    pub fn is_of_the_host(&self, cell: usize) -> Option<bool> {
        Verdict::any_of_the_host(self.with_cell(cell).map(|(set, cell)| set.is_of_the_host(cell)))
    }

    /// Whether a good run of a cell has too few transactions for a percentile, in any set.
    pub fn lacks_transactions(&self, cell: usize, measure: Measure) -> bool {
        self.with_cell(cell).any(|(set, cell)| set.lacks_transactions(cell, measure))
    }

    /// Whether a run of a cell has failed for a reason of its own, in any set.
    pub fn fails_by_itself(&self, cell: usize) -> bool {
        let failures = |(set, cell): (&Set<'a>, usize)| {
            let mut failures = set.runs.cell(cell).iter().filter_map(|run| run.failure());
            failures.any(|failure| !failure.disturbed)
        };
        self.with_cell(cell).any(failures)
    }

    /// Whether a pair of a fleet has no figure in a cell for a reason of its own, in any set: a run of it failed so, or a
    /// study that came to its end has none of it, as where a node is gone.
    pub fn loses(&self, cell: usize, ends: &Ends) -> bool {
        let is_lost = |(set, cell): (&Set<'a>, usize)| {
            let of_pair = |run: &&&StoredRun| set.ends(run).as_ref() == Some(ends);
            let runs: Vec<&&StoredRun> = set.runs.cell(cell).iter().filter(of_pair).collect();
            let mut failures = runs.iter().filter_map(|run| run.failure());
            let is_whole = set.stored.ended.as_ref().is_some_and(Ended::is_complete);
            failures.any(|failure| !failure.disturbed) || runs.is_empty() && is_whole
        };
        self.with_cell(cell).any(is_lost)
    }

    /// Runs of a cell without figures, in all sets.
    pub fn failed(&self, cell: usize) -> u32 {
        self.with_cell(cell).map(|(set, cell)| set.failed(cell)).fold(0, u32::saturating_add)
    }
}

/// The geometric mean; `None` of nothing.
fn geometric_of(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    (values.len() > 0).then(|| geometric(values.map(f64::ln)))
}

/// The geometric mean of values, from their logarithms.
fn geometric(logs: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = logs.len().max(1) as f64;
    (logs.sum::<f64>() / count).exp()
}

/// A count, or the largest number that there is.
pub fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
