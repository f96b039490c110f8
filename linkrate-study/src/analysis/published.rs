//! Published figures beside the measured ones.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::TestbedSpec;
use linkrate_model::spec::Adapter;

use crate::analysis::limit;
use crate::analysis::uncertainty::{self, Reach};
use crate::published::{Basis, Published, PublishedFigure};
use crate::quantity::{Interval, Measure, Unit};
use crate::results::{CellResult, PublishedKind, PublishedResult};
use crate::study::Study;
use linkrate_stats::interval::of_mean;
use linkrate_stats::paired;
use linkrate_stats::sample::mean;

use super::runs_by_cell::RunsByCell;

/// A cell's figure by block.
type ByBlock = BTreeMap<u32, f64>;

/// Every published figure with the measured one, whose interval has the given level: one level for
/// values, and one for figures that are paired within blocks. `cells` are those of the study, in order.
pub fn beside(
    study: &Study,
    runs: &RunsByCell<'_>,
    cells: &[CellResult],
    level: f64,
    level_of_effects: f64,
) -> Vec<PublishedResult> {
    let of_adapter: Vec<bool> = cells.iter().map(|cell| cell.verdict.is_of_the_adapter()).collect();
    let beside = |published| one(published, study, runs, &of_adapter, [level, level_of_effects]);
    study.published.iter().map(beside).collect()
}

/// The pairs of cells that the adapter limited, or all pairs if there is no such one.
fn limited_by_the_adapter(pairs: Vec<(usize, usize)>, of_adapter: &[bool]) -> Vec<(usize, usize)> {
    let is_of_it = |cell: usize| of_adapter.get(cell).copied().unwrap_or(false);
    let both = pairs.iter().filter(|(from, to)| is_of_it(*from) && is_of_it(*to));
    let both: Vec<(usize, usize)> = both.copied().collect();
    if both.is_empty() { pairs } else { both }
}

fn one(
    published: &Published,
    study: &Study,
    runs: &RunsByCell<'_>,
    of_adapter: &[bool],
    [level, level_of_effects]: [f64; 2],
) -> PublishedResult {
    let mut left_out = 0;
    let measure = published.measure;
    let levels = study.levels();
    let cells = published.cells(&levels);
    let transactional = cells
        .first()
        .and_then(|cell| study.cells.get(*cell))
        .is_some_and(|cell| cell.spec.is_transactional());
    let unit = measure.unit(transactional);
    let (kind, figure, measured, unit) = match &published.figure {
        PublishedFigure::Value(value) => {
            let measured = cells.first().and_then(|cell| {
                let values: Vec<f64> = runs.by_block(*cell, measure).into_values().collect();
                let uncertainty = uncertainty::of_cell(runs, *cell, measure);
                let limit = limit::of_figure(
                    measure,
                    &study.cells.get(*cell)?.spec,
                    &study.testbed,
                    runs.cell(*cell),
                );
                Some(uncertainty.widen_mean(of_mean(&values, level)?).within(limit))
            });
            (PublishedKind::Value, *value, measured, unit)
        }
        PublishedFigure::Effect(_, ratio) => {
            let all = published.pairs(&levels);
            let count = all.len();
            let pairs = limited_by_the_adapter(all, of_adapter);
            left_out = count - pairs.len();
            let measured = ratio_of(&pairs, measure, runs, level_of_effects);
            (PublishedKind::Effect, *ratio, measured, Unit::Ratio)
        }
        PublishedFigure::Difference(_, difference) => {
            let measured = published.pairs(&levels).first().and_then(|(from_cell, to_cell)| {
                let (from, to) =
                    (runs.by_block(*from_cell, measure), runs.by_block(*to_cell, measure));
                let differences: Vec<f64> =
                    to.iter().filter_map(|(block, to)| Some(to - from.get(block)?)).collect();
                let uncertainty = [(from_cell, &from), (to_cell, &to)].map(|(cell, values)| {
                    let all: Vec<f64> = values.values().copied().collect();
                    (mean(&all).unwrap_or(0.0), uncertainty::of_cell(runs, *cell, measure))
                });
                Some(uncertainty::of_difference(
                    of_mean(&differences, level_of_effects)?,
                    uncertainty,
                ))
            });
            (PublishedKind::Difference, *difference, measured, unit)
        }
    };
    let limits = match (&published.figure, measure, &cells[..]) {
        (PublishedFigure::Value(_), Measure::Throughput, [cell, ..]) => limits(study, *cell, runs),
        _ => None,
    };
    // a rate that the adapter or its link keeps is the rate that the model was given
    let pairs = || published.pairs(&levels).into_iter().flat_map(|(from, to)| [from, to]);
    let all: Vec<usize> =
        if published.step().is_some() { pairs().collect() } else { cells.clone() };
    let is_limited = |cell: &usize| of_adapter.get(*cell).copied().unwrap_or(false);
    let all_limited = !all.is_empty() && all.iter().all(is_limited);
    let is_kept = measure.is_rate() && (left_out > 0 || all_limited);
    let is_virtual = matches!(study.testbed.adapter, Adapter::Model(_));
    let step = published.step();
    let combinations = if step.is_some() { published.pairs(&levels).len() } else { cells.len() };
    PublishedResult {
        measure,
        basis: if is_kept && is_virtual { Basis::Parameter } else { published.basis },
        source: published.source.clone(),
        at: published.at.clone(),
        factor: step.map(|step| step.factor.clone()),
        from: step.map(|step| step.from.clone()),
        to: step.map(|step| step.to.clone()),
        kind,
        combinations: u32::try_from(combinations).unwrap_or(u32::MAX),
        left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
        published: figure,
        measured,
        unit,
        published_percent_of_limit: limits.map(|(at_full_rate, _)| figure * 100.0 / at_full_rate),
        measured_percent_of_limit: limits.zip(measured).map(|((_, limit), measured)| {
            let percent = |rate: f64| rate * 100.0 / limit;
            Interval {
                mean: percent(measured.mean),
                low: measured.low.map(percent),
                high: measured.high.map(percent),
            }
        }),
    }
}

/// The limits of a cell in bit/s: at the full rate of its links, and at the rate of the testbed.
fn limits(study: &Study, cell: usize, runs: &RunsByCell<'_>) -> Option<(f64, f64)> {
    let spec = &study.cells.get(cell)?.spec;
    let of = |testbed: &TestbedSpec| limit::of_cell(spec, testbed, runs.cell(cell));
    let at_full_rate = TestbedSpec { scale: 1.0, ..study.testbed.clone() };
    Some((of(&at_full_rate)?, of(&study.testbed)?))
}

/// The ratio over all pairs of cells together: the geometric mean of a block's cells before and
/// after, paired within blocks. A block counts if it has all of them.
fn ratio_of(
    pairs: &[(usize, usize)],
    measure: Measure,
    runs: &RunsByCell<'_>,
    level: f64,
) -> Option<Interval> {
    let figures: Vec<(ByBlock, ByBlock)> = pairs
        .iter()
        .map(|(from, to)| (runs.by_block(*from, measure), runs.by_block(*to, measure)))
        .collect();
    let blocks: BTreeSet<u32> = figures.iter().flat_map(|(from, _)| from.keys()).copied().collect();
    let ratios = blocks.into_iter().map(|block| {
        let geometric = |values: Vec<Option<f64>>| {
            let logs: Option<Vec<f64>> =
                values.into_iter().map(|value| value.map(f64::ln)).collect();
            logs.map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        let side = |pick: fn(&(ByBlock, ByBlock)) -> &ByBlock| {
            geometric(figures.iter().map(|pair| pick(pair).get(&block).copied()).collect())
        };
        (side(|pair| &pair.0), side(|pair| &pair.1))
    });
    let uncertainty = |pick: fn(&(usize, usize)) -> usize| {
        let shares = pairs.iter().map(|pair| uncertainty::of_cell(runs, pick(pair), measure));
        Reach::of_mean(shares)
    };
    let uncertainty = [uncertainty(|pair| pair.0), uncertainty(|pair| pair.1)];
    Some(Reach::of_ratio(uncertainty).widen(paired::ratio(ratios, level)?.ratio))
}
