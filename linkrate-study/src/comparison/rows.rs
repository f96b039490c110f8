//! Cells and effects of one set against those of the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::claims::Shown;
use crate::analysis::effects::comparisons;
use crate::analysis::uncertainty::Reach;
use crate::comparison::conditions::find;
use crate::comparison::set::{Ends, Set, Side, align, measures, number};
use crate::comparison::{
    CellComparison, EffectRow, EffectVerdict, Finding, MeasureRow, PairComparison, SetFigure,
    SetSummary,
};
use crate::quantity::{Interval, Measure, Unit};
use crate::results::Probabilities;
use crate::store::StoredStudy;
use crate::verdict::Verdict;
use linkrate_stats::independent::{self, IndependentRatio};
use linkrate_stats::interval::{MIN_TO_CLAIM, excludes, of_mean};
use linkrate_stats::paired;

/// Fewest sets of each side for a verdict, where sets are the observations.
pub const MIN_SETS: u32 = 3;

/// A cell's figure by block, or by set.
type ByBlock = BTreeMap<u32, f64>;

/// How far figures may be off beside their scatter.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// How far those of each side may lie from what was measured.
    uncertainty: [Reach; 2],
    /// The measure whose scatter between sessions those of each side have.
    scatters_as: [Measure; 2],
}

/// Both sets with their runs sorted into cells.
pub struct Rows<'a> {
    baseline: Side<'a>,
    candidate: Side<'a>,
    confidence: f64,
    minimum_effect: f64,
    sessions: Option<SessionScatter>,
}

impl<'a> Rows<'a> {
    /// Sorts the runs of both sides, each of at least one set. The studies have the same cells; their order may differ.
    pub fn new(
        baselines: &[&'a StoredStudy],
        candidates: &[&'a StoredStudy],
        confidence: f64,
        minimum_effect: f64,
        sessions: Option<SessionScatter>,
    ) -> Self {
        let all = baselines.iter().chain(candidates);
        let mut sets: Vec<Set<'_>> = all.map(|set| Set::of(set)).collect();
        align(&mut sets, &baselines[0].plan.study);
        let candidate = Side::of(sets.split_off(baselines.len()));
        Self { baseline: Side::of(sets), candidate, confidence, minimum_effect, sessions }
    }

    /// The sets of each side as a whole, the baseline's first.
    pub fn summaries(&self) -> [Vec<SetSummary>; 2] {
        [self.baseline.summaries(), self.candidate.summaries()]
    }

    /// Pairs of the same cell in both, in the order of the baseline.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let cells = self.baseline.first().stored.plan.study.cells.iter().enumerate();
        cells.filter_map(|(index, cell)| {
            Some((index, find(&self.candidate.first().stored.plan.study, &cell.levels)?))
        })
    }

    /// Every cell by itself, not judged yet.
    pub fn cells(&mut self) -> Vec<CellComparison> {
        let cells = &self.baseline.first().stored.plan.study.cells;
        let compared = self.pairs().map(|(a, b)| {
            let measures = measures(&cells[a].spec).into_iter();
            let rows = measures.filter_map(|(measure, unit)| {
                let first: Vec<f64> = self.baseline.by_unit(a, measure).into_values().collect();
                let second: Vec<f64> = self.candidate.by_unit(b, measure).into_values().collect();
                // what another program does not report is not lost
                let untold = |side: &Side, figures: &[f64]| {
                    figures.is_empty() && side.first().stored.plan.is_imported()
                };
                if untold(&self.baseline, &first) || untold(&self.candidate, &second) {
                    return None;
                }
                let doubt = self.doubt((a, b), measure);
                let mut row = self.row((measure, unit), [&first, &second], doubt)?;
                let lack = self.baseline.lacks_transactions(a, measure)
                    || self.candidate.lacks_transactions(b, measure);
                if lack && row.probabilities.p.is_none() {
                    row.verdict = Finding::TooFewTransactions;
                } else if row.verdict == Finding::Lost && !self.candidate.fails_by_itself(b) {
                    row.verdict = Finding::NotMeasured;
                }
                Some(row)
            });
            CellComparison {
                levels: cells[a].levels.clone(),
                baseline_failed: self.baseline.failed(a),
                candidate_failed: self.candidate.failed(b),
                host_limited: self.baseline.is_of_the_host(a),
                candidate_host_limited: self.candidate.is_of_the_host(b),
                rows: rows.collect(),
            }
        });
        compared.collect()
    }

    /// The rate of each pair of a fleet in each cell, not judged yet; empty in studies of one pair.
    pub fn of_pairs(&self) -> Vec<PairComparison> {
        let cells = &self.baseline.first().stored.plan.study.cells;
        let of_cell = |(a, b): (usize, usize)| {
            // the rate is the first
            let (measure, unit) = measures(&cells[a].spec)[0];
            let mut first = self.baseline.by_pair(a, measure);
            let mut second = self.candidate.by_pair(b, measure);
            let ends: BTreeSet<Ends> = first.keys().chain(second.keys()).cloned().collect();
            let pairs = ends.into_iter().filter_map(|ends| {
                let first = first.remove(&ends).unwrap_or_default();
                let second = second.remove(&ends).unwrap_or_default();
                let doubt = Doubt { uncertainty: [Reach::NONE; 2], ..self.doubt((a, b), measure) };
                let mut row = self.row((measure, unit), [&first, &second], doubt)?;
                if row.verdict == Finding::Lost && !self.candidate.loses(b, &ends) {
                    row.verdict = Finding::NotMeasured;
                }
                let (sender, receiver) = ends;
                Some(PairComparison { sender, receiver, levels: cells[a].levels.clone(), row })
            });
            pairs.collect::<Vec<_>>()
        };
        self.pairs().flat_map(of_cell).collect()
    }

    /// How far the figures of a pair of cells may be off.
    fn doubt(&self, (a, b): (usize, usize), measure: Measure) -> Doubt {
        Doubt {
            uncertainty: [
                self.baseline.uncertainty(a, measure),
                self.candidate.uncertainty(b, measure),
            ],
            scatters_as: [
                scatters_as(&self.baseline, &[a], measure),
                scatters_as(&self.candidate, &[b], measure),
            ],
        }
    }

    /// A row that is not judged yet; `None` when neither set has a figure.
    fn row(
        &self,
        (measure, unit): (Measure, Unit),
        [first, second]: [&[f64]; 2],
        Doubt { uncertainty, scatters_as }: Doubt,
    ) -> Option<MeasureRow> {
        let figure = |values: &[f64], reach: Reach| {
            let interval = reach.widen_mean(of_mean(values, self.confidence)?);
            Some(SetFigure { interval, runs: number(values.len()) })
        };
        let (baseline, candidate) = (figure(first, uncertainty[0]), figure(second, uncertainty[1]));
        let verdict = match (&baseline, &candidate) {
            (None, None) => return None,
            (Some(_), None) => Finding::Lost,
            (None, Some(_)) => Finding::Gained,
            (Some(_), Some(_)) if self.enough(first, second) && !self.knows_scatter(measure) => {
                Finding::UnknownScatter
            }
            (Some(_), Some(_)) => Finding::TooFew,
        };
        let found = independent::ratio(first, second, self.confidence);
        let found =
            found.map(|found| self.between_sessions(found, scatters_as, false, self.confidence));
        let test = found.and_then(|found| found.test).filter(|_| self.enough(first, second));
        let reach = Reach::of_ratio(uncertainty);
        Some(MeasureRow {
            measure,
            unit,
            baseline,
            candidate,
            ratio: found.map(|found| reach.widen(found.ratio)),
            probabilities: Probabilities::of(test, reach, self.minimum_effect),
            verdict,
        })
    }

    /// All cells together: in each block the geometric mean over the cells, so that what the runs
    /// of a block share is one observation and not one for each cell. Cells that lack a figure in
    /// either set altogether are left out of both, and so are blocks that lack one of the others. Without a block that has all
    /// there is no row. Beside cells that the
    /// adapter limits in the baseline, those that something else does are left out: they are of this machine. What limits the
    /// candidate does not count, or a cell that the host came to limit would be left out for its regression.
    /// Imported runs are in no blocks, so that there is nothing of this kind.
    pub fn overall(&self) -> Vec<MeasureRow> {
        if self.baseline.first().stored.plan.is_imported()
            || self.candidate.first().stored.plan.is_imported()
        {
            return Vec::new();
        }
        let cells = &self.baseline.first().stored.plan.study.cells;
        let mut all: Vec<(Measure, Unit)> = Vec::new();
        for of_cell in cells.iter().flat_map(|cell| measures(&cell.spec)) {
            if !all.contains(&of_cell) {
                all.push(of_cell);
            }
        }
        let mut rows = Vec::new();
        for (measure, unit) in all {
            // service demand per KB and per transaction are two measures
            let of_unit = |a: &usize| measures(&cells[*a].spec).contains(&(measure, unit));
            let mut pairs: Vec<_> = self.pairs().filter(|(a, _)| of_unit(a)).collect();
            if pairs.iter().any(|(a, _)| self.baseline.is_of_the_host(*a) == Some(false)) {
                pairs.retain(|(a, _)| self.baseline.is_of_the_host(*a) == Some(false));
            }
            let (figures, doubts): (Vec<(ByBlock, ByBlock)>, Vec<Doubt>) = pairs
                .into_iter()
                .map(|(a, b)| {
                    let figures =
                        (self.baseline.by_unit(a, measure), self.candidate.by_unit(b, measure));
                    (figures, self.doubt((a, b), measure))
                })
                .filter(|((a, b), _)| !a.is_empty() && !b.is_empty())
                .unzip();
            if figures.len() < 2 {
                continue;
            }
            let uncertainty =
                [0, 1].map(|set| Reach::of_mean(doubts.iter().map(|of| of.uncertainty[set])));
            let scatters_as = [0, 1].map(|side| {
                let other = doubts.iter().map(|of| of.scatters_as[side]).find(|of| *of != measure);
                other.unwrap_or(measure)
            });
            let doubt = Doubt { uncertainty, scatters_as };
            let first = by_block_over_cells(figures.iter().map(|(a, _)| a));
            let second = by_block_over_cells(figures.iter().map(|(_, b)| b));
            // no block with all cells is no loss: each cell has its figures
            if first.is_empty() || second.is_empty() {
                continue;
            }
            let row = self.row((measure, unit), [&first, &second], doubt);
            rows.extend(row.map(|row| MeasureRow { baseline: None, candidate: None, ..row }));
        }
        rows
    }

    /// Whether both sides have enough blocks, or sets, for a verdict. Fewer blocks can scatter far too little by
    /// chance, and the test then finds differences that do not exist.
    fn enough(&self, first: &[f64], second: &[f64]) -> bool {
        let fewest = if self.baseline.count() > 1 { MIN_SETS } else { MIN_TO_CLAIM };
        number(first.len().min(second.len())) >= fewest
    }

    /// Whether it is known how far sessions scatter in a measure, or in the intervals.
    fn knows_scatter(&self, measure: Measure) -> bool {
        self.sessions.is_none_or(|sessions| sessions.of(measure, false).is_some())
    }

    /// A ratio of two sets, each of which is one session: as uncertain as sessions scatter. Without a test where that is not
    /// known.
    fn between_sessions(
        &self,
        found: IndependentRatio,
        measures: [Measure; 2],
        of_effects: bool,
        confidence: f64,
    ) -> IndependentRatio {
        let Some((test, sessions)) = found.test.zip(self.sessions) else { return found };
        let scatter = measures.iter().map(|measure| sessions.of(*measure, of_effects));
        let Some(scatter) = scatter.collect::<Option<Vec<f64>>>() else {
            let ratio = Interval { low: None, high: None, ..found.ratio };
            return IndependentRatio { ratio, test: None };
        };
        let variance = scatter.iter().map(|scatter| scatter * scatter).sum();
        let test = test.beside(variance, sessions.degrees);
        let log = test.interval(confidence);
        let ends = [log.low, log.high].map(|end| end.map(f64::exp));
        let ratio = Interval { mean: found.ratio.mean, low: ends[0], high: ends[1] };
        IndependentRatio { ratio, test: Some(test) }
    }

    /// How the effects differ: the ratio of the ratios. Each set's effect is paired within its own
    /// blocks, so whatever made a whole set slower or faster has cancelled before they meet.
    /// Intervals and verdicts are of the given level.
    pub fn effects(&self, level: f64) -> Vec<EffectRow> {
        let mut rows = Vec::new();
        for comparison in comparisons(&self.baseline.first().stored.plan.study) {
            let cells = &self.baseline.first().stored.plan.study.cells;
            let other =
                |cell: usize| find(&self.candidate.first().stored.plan.study, &cells[cell].levels);
            let (Some(from), Some(to)) = (other(comparison.from_cell), other(comparison.to_cell))
            else {
                continue;
            };
            for measure in comparison.measures.iter().copied().filter(|one| one.is_whole()) {
                let first = self.baseline.ratios(comparison.from_cell, comparison.to_cell, measure);
                let second = self.candidate.ratios(from, to, measure);
                let uncertainty_of = |side: &Side, cells: [usize; 2]| {
                    Reach::of_ratio(cells.map(|cell| side.uncertainty(cell, measure)))
                };
                let [before, after] = [
                    uncertainty_of(&self.baseline, [comparison.from_cell, comparison.to_cell]),
                    uncertainty_of(&self.candidate, [from, to]),
                ];
                let effect = |ratios: &[f64], reach: Reach| {
                    let pairs = ratios.iter().map(|ratio| (Some(1.0), Some(*ratio)));
                    let ratio = paired::ratio(pairs, level)?.ratio;
                    Some(reach.widen(ratio))
                };
                let (Some(baseline), Some(candidate)) =
                    (effect(&first, before), effect(&second, after))
                else {
                    continue;
                };
                let Some(found) = independent::ratio(&first, &second, level) else {
                    continue;
                };
                let own = [comparison.from_cell, comparison.to_cell];
                let scatters_as = [
                    scatters_as(&self.baseline, &own, measure),
                    scatters_as(&self.candidate, &[from, to], measure),
                ];
                let of_host = |side: &Side<'_>, cells: &[usize]| {
                    Verdict::any_of_the_host(cells.iter().map(|cell| side.is_of_the_host(*cell)))
                };
                let host_limited = Verdict::any_of_the_host([
                    of_host(&self.baseline, &own),
                    of_host(&self.candidate, &[from, to]),
                ]);
                let found = self.between_sessions(found, scatters_as, true, level);
                let enough = self.enough(&first, &second);
                let test = found.test.filter(|_| enough);
                let reach = Reach::of_ratio([before, after]);
                rows.push(EffectRow {
                    factor: comparison.factor.clone(),
                    from: comparison.from.clone(),
                    to: comparison.to.clone(),
                    at: comparison.at.clone(),
                    measure,
                    baseline,
                    candidate,
                    host_limited,
                    ratio: reach.widen(found.ratio),
                    probabilities: Probabilities::of(test, reach, self.minimum_effect),
                    verdict: match enough && !self.knows_scatter(measure) {
                        true => EffectVerdict::UnknownScatter,
                        false => EffectVerdict::TooFew,
                    },
                });
            }
        }
        let mut all: Vec<_> = rows.iter_mut().map(|row| &mut row.probabilities).collect();
        Probabilities::adjust(&mut all, 1.0);
        for row in rows.iter_mut().filter(|row| row.probabilities.p.is_some()) {
            row.verdict = match row.probabilities.shown(&row.ratio, level, self.minimum_effect) {
                Shown::Beyond => {
                    let (a, b) = (row.baseline.mean.ln(), row.candidate.mean.ln());
                    let both = excludes(&row.baseline, 1.0) && excludes(&row.candidate, 1.0);
                    match (both, a * b > 0.0, b.abs() > a.abs()) {
                        (false, ..) => EffectVerdict::Changed,
                        (true, false, _) => EffectVerdict::Reversed,
                        (true, true, true) => EffectVerdict::Stronger,
                        (true, true, false) => EffectVerdict::Weaker,
                    }
                }
                Shown::Within => EffectVerdict::BelowMinimum,
                Shown::Different => EffectVerdict::Different,
                Shown::Nothing => EffectVerdict::NotShown,
            };
        }
        rows
    }
}

/// The measure whose scatter between sessions is that of this one in some cells of a side: a rate that something other than
/// the adapter limited is as uncertain as a cost.
fn scatters_as(side: &Side<'_>, cells: &[usize], measure: Measure) -> Measure {
    match !measure.is_rate() || cells.iter().all(|cell| side.is_of_the_host(*cell) == Some(false)) {
        true => measure,
        false => Measure::ServiceDemand,
    }
}

/// The geometric mean over the cells in each block that has a figure of every cell.
fn by_block_over_cells<'a>(cells: impl Iterator<Item = &'a BTreeMap<u32, f64>>) -> Vec<f64> {
    let cells: Vec<&BTreeMap<u32, f64>> = cells.collect();
    let blocks: BTreeSet<u32> = cells.iter().flat_map(|cell| cell.keys()).copied().collect();
    let means = blocks.into_iter().filter_map(|block| {
        let logs: Option<Vec<f64>> =
            cells.iter().map(|cell| cell.get(&block).map(|value| value.ln())).collect();
        let logs = logs?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
    });
    means.collect()
}

/// Gives every row its adjusted probability and its verdict. All rows of cells are one family: the
/// question is whether the candidate is worse anywhere. The pairs of a fleet are another one, and both share the error
/// in equal parts: hundreds of pairs would hide a change of all cells.
pub fn judge(
    overall: &mut [MeasureRow],
    cells: &mut [CellComparison],
    pairs: &mut [PairComparison],
    confidence: f64,
    minimum_effect: f64,
) {
    let families = if pairs.is_empty() { 1.0 } else { 2.0 };
    let of_cells = overall.iter_mut().chain(cells.iter_mut().flat_map(|cell| &mut cell.rows));
    judge_family(of_cells.collect(), families, confidence, minimum_effect);
    let of_pairs = pairs.iter_mut().map(|pair| &mut pair.row);
    judge_family(of_pairs.collect(), families, confidence, minimum_effect);
}

/// The same of one of so many families.
fn judge_family(
    mut all: Vec<&mut MeasureRow>,
    families: f64,
    confidence: f64,
    minimum_effect: f64,
) {
    let mut probabilities: Vec<_> = all.iter_mut().map(|row| &mut row.probabilities).collect();
    Probabilities::adjust(&mut probabilities, families);
    for row in all.iter_mut().filter(|row| row.probabilities.p.is_some()) {
        let Some(ratio) = &row.ratio else { continue };
        row.verdict = match row.probabilities.shown(ratio, confidence, minimum_effect) {
            Shown::Beyond if (ratio.mean > 1.0) == row.measure.more_is_better() => Finding::Better,
            Shown::Beyond => Finding::Worse,
            Shown::Within => Finding::BelowMinimum,
            Shown::Different => Finding::Different,
            Shown::Nothing => Finding::NotShown,
        };
    }
}

/// A word of caution where all cells moved alike. One cell that moved far moves the mean of all too.
pub fn together(overall: &[MeasureRow], cells: &[CellComparison]) -> Option<String> {
    let is_shown =
        |verdict| matches!(verdict, Finding::Better | Finding::Worse | Finding::Different);
    let rises = |row: &MeasureRow| row.ratio.map(|ratio| ratio.mean > 1.0);
    let all_move_like = |all: &MeasureRow| {
        let of_it = |row: &&MeasureRow| (row.measure, row.unit) == (all.measure, all.unit);
        let mut rows = cells.iter().flat_map(|cell| &cell.rows).filter(of_it);
        is_shown(all.verdict) && rows.all(|row| is_shown(row.verdict) && rises(row) == rises(all))
    };
    let moved = overall.iter().any(all_move_like);
    moved.then(|| {
        "All cells changed at once, which usually means that the machine changed. Measure both sets again, alternately. The effects below are free of it."
            .to_owned()
    })
}

/// How far figures of the same thing lie apart from one session to the next: standard deviations of logarithms, as
/// fractions.
///
/// Runs of a session share what it has: the layout of memory, a neighbour on the hypervisor, a warm room. Their scatter does
/// not contain it. So two sets of one session each are as uncertain of their difference as sessions scatter, which these two
/// cannot tell. It is taken from sessions of the same study on the same machine: five to ten of them on two machines (`cargo
/// xtask sessions`; ten sessions of `tso --quick` on 2026-11-29).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionScatter {
    /// Of throughput.
    pub throughput: f64,
    /// Of service demand and transactions.
    pub cost: f64,
    /// Of effects on these.
    pub effect: f64,
    /// Of latency, and of effects on it; `None` where it is not known.
    pub latency: Option<f64>,
    /// Degrees of freedom with which they are known.
    pub degrees: f64,
}

impl Default for SessionScatter {
    /// What was measured: service demands 3.3 %, effects on them 2.4 %, throughput at most 0.2 %.
    fn default() -> Self {
        Self { throughput: 0.002, cost: 0.033, effect: 0.024, latency: None, degrees: 9.0 }
    }
}

impl SessionScatter {
    /// One for all measures, as a user knows it of a machine.
    pub fn of_all(scatter: f64) -> Self {
        Self {
            throughput: scatter,
            cost: scatter,
            effect: scatter,
            latency: Some(scatter),
            ..Self::default()
        }
    }

    /// That of a measure of cells, or of effects on it; `None` where it is not known.
    pub fn of(self, measure: Measure, of_effects: bool) -> Option<f64> {
        match measure {
            Measure::Throughput | Measure::Transmit | Measure::Receive => Some(self.throughput),
            Measure::LatencyP50 | Measure::LatencyP99 => self.latency,
            _ if of_effects => Some(self.effect),
            _ => Some(self.cost),
        }
    }
}
