//! The figures that the stop rule looks at.

use crate::analysis::effects::{self, Comparison};
use crate::analysis::uncertainty;
use crate::labels;
use crate::levels::Level;
use crate::quantity::Measure;
use crate::study::{Family, PART, Study};
use linkrate_stats::interval::{of_mean, relative_half_width};
use linkrate_stats::order;
use linkrate_stats::power;
use linkrate_stats::stop::{self, StopInput};

use super::runs_by_cell::RunsByCell;

/// How precise a cell is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellPrecision {
    /// Index of the cell.
    pub cell: u32,
    /// Runs with figures.
    pub runs: u32,
    /// The wider half-width of the cell's two figures as a fraction of its mean; `None` while
    /// there are too few runs.
    pub half_width: Option<f64>,
}

/// Every figure that must become precise: throughput (or transactions per second) and service
/// demand of every cell, and every effect, after `blocks`; effects alone where a change is to be found. Those without
/// any run are left out: they could never become precise. Intervals are of the [level](stop::level) that holds then, those
/// of effects of [theirs](order::level_of_effects).
pub fn stop_inputs(
    study: &Study,
    comparisons: &[Comparison],
    runs: &RunsByCell<'_>,
    blocks: u32,
) -> Vec<StopInput> {
    let mut found = of_cells(study, runs, blocks);
    found.extend(of_effects(study, comparisons, runs, blocks));
    found
}

pub fn of_cells(study: &Study, runs: &RunsByCell<'_>, blocks: u32) -> Vec<StopInput> {
    if study.method.find.is_some() {
        return Vec::new();
    }
    let level = stop::level(study.method.confidence, blocks, study.method.max_blocks);
    (0..study.cells.len()).flat_map(|index| of_cell(study, index, runs, level)).collect()
}

pub fn of_effects(
    study: &Study,
    comparisons: &[Comparison],
    runs: &RunsByCell<'_>,
    blocks: u32,
) -> Vec<StopInput> {
    let level = stop::level(study.method.confidence, blocks, study.method.max_blocks);
    let level = order::level_of_effects(study.method.order, level);
    let goal = match study.method.find {
        Some(find) => power::half_width(find, blocks, level, tests(study, comparisons)),
        None => study.method.precision,
    };
    let mut found = Vec::new();
    for comparison in comparisons {
        let all = effects::compare(comparison, runs, level, study.method.minimum_effect);
        for effect in all.into_iter().filter(|effect| effect.measure.is_stop_input()) {
            let place = match effect.at.0.is_empty() {
                true => String::new(),
                false => format!(" at {}", labels::cell(&effect.at)),
            };
            found.push(StopInput {
                name: format!(
                    "{} of {} over {}{place}",
                    effect.measure.word(),
                    labels::level(&effect.factor, &effect.to),
                    labels::level(&effect.factor, &effect.from)
                ),
                interval: effect.ratio,
                goal,
            });
        }
    }
    found
}

/// The most effects that can be judged together with one.
fn tests(study: &Study, comparisons: &[Comparison]) -> usize {
    let of = |part: Option<&Level>| -> usize {
        let in_part = |one: &&Comparison| part.is_none_or(|part| one.at.get(PART) == Some(part));
        comparisons.iter().filter(in_part).map(|one| one.measures.len()).sum()
    };
    match study.method.family {
        Family::Effect => 1,
        Family::Study => of(None),
        Family::Part => comparisons.iter().map(|one| of(one.at.get(PART))).max().unwrap_or(1),
    }
}

/// How precise each cell is after `blocks`, in the order of the cells.
pub fn precisions(study: &Study, runs: &RunsByCell<'_>, blocks: u32) -> Vec<CellPrecision> {
    let level = stop::level(study.method.confidence, blocks, study.method.max_blocks);
    (0u32..)
        .zip(0..study.cells.len())
        .map(|(cell, index)| {
            let widths: Option<Vec<f64>> = of_cell(study, index, runs, level)
                .iter()
                .map(|figure| relative_half_width(&figure.interval))
                .collect();
            let good = runs.cell(index).iter().filter(|run| run.is_good()).count();
            CellPrecision {
                cell,
                runs: u32::try_from(good).unwrap_or(u32::MAX),
                half_width: widths
                    .filter(|widths| !widths.is_empty())
                    .map(|widths| widths.into_iter().fold(0.0, f64::max)),
            }
        })
        .collect()
}

fn of_cell(study: &Study, index: usize, runs: &RunsByCell<'_>, level: f64) -> Vec<StopInput> {
    let cell = &study.cells[index];
    let rate = match cell.spec.is_transactional() {
        true => Measure::Transactions,
        false => Measure::Throughput,
    };
    [rate, Measure::ServiceDemand]
        .into_iter()
        .filter_map(|measure| {
            let values: Vec<f64> = runs.by_block(index, measure).into_values().collect();
            let uncertainty = uncertainty::of_cell(runs, index, measure);
            let interval = uncertainty.widen_mean(of_mean(&values, level)?);
            let name = format!("{} of {}", measure.word(), labels::cell(&cell.levels));
            Some(StopInput { name, interval, goal: study.method.precision })
        })
        .collect()
}
