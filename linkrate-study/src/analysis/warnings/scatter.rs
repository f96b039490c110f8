//! Warnings of runs far from the others of their cell, and of drift and autocorrelation over a study.
//! These runs stay in every figure.

use std::collections::BTreeMap;

use linkrate_model::BitRate;

use crate::analysis::runs_by_cell::RunsByCell;
use crate::labels;
use crate::quantity::Measure;
use crate::study::Study;
use linkrate_stats::autocorrelation;
use linkrate_stats::trend::{self, median};

/// Distance from the median of its cell from which a run is named, in robust standard deviations (1.4826 times
/// the median absolute deviation; Iglewicz and Hoaglin 1993). Among normal runs of four cells or
/// more, five each, this is so for one in a study of a hundred or fewer.
pub const FAR: f64 = 6.0;

/// Fewest good runs of a cell for the comparison of one with the others.
pub const MIN_RUNS: usize = 5;

/// Makes the median absolute deviation of normal values their standard deviation.
const NORMAL: f64 = 1.4826;

/// A warning is given if a drift or an autocorrelation as strong has at most this probability by
/// chance.
pub const DRIFT_CHANCE: f64 = 0.01;

/// A cell's figures by block, and how far each is from the cell's median.
struct CellRuns {
    name: String,
    values: BTreeMap<u32, f64>,
    middle: f64,
    /// Robust standard deviation of the logarithms.
    spread: f64,
}

/// What is told about one study.
pub(super) fn warnings(study: &Study, runs: &RunsByCell<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for measure in [Measure::Throughput, Measure::Transactions, Measure::ServiceDemand] {
        let unit = |transactional: bool| match measure {
            Measure::Throughput => !transactional,
            Measure::Transactions => transactional,
            _ => true,
        };
        let cells: Vec<(usize, CellRuns)> = (0..study.cells.len())
            .filter(|index| unit(study.cells[*index].spec.is_transactional()))
            .filter_map(|index| Some((index, cell_runs(study, runs, index, measure)?)))
            .collect();
        // with few runs a cell's own spread may be close to nothing by chance
        let common = median(&mut cells.iter().map(|(_, cell)| cell.spread).collect::<Vec<_>>());
        let precision = study.method.precision;
        let far_blocks: Vec<Vec<u32>> = cells
            .iter()
            .map(|(_, cell)| far(cell, cell.spread.max(common.unwrap_or(0.0)), precision))
            .collect();
        let of_many = blocks_of_many(&far_blocks);
        found.extend(of_many.iter().map(|block| many(*block, &cells, &far_blocks, measure)));
        for ((index, cell), far) in cells.iter().zip(&far_blocks) {
            let transactional = study.cells[*index].spec.is_transactional();
            found.extend(alone(cell, far, &of_many, measure, transactional));
            found.extend(of_two_groups(cell, precision, measure, transactional));
        }
        let medians = block_medians(&cells);
        // a drift makes neighbours alike too
        let drift = drift(&medians, study.method.precision, measure);
        found.extend(drift.or_else(|| wandering(&medians, measure)));
    }
    found
}

fn cell_runs(
    study: &Study,
    runs: &RunsByCell<'_>,
    index: usize,
    measure: Measure,
) -> Option<CellRuns> {
    let values = runs.by_block(index, measure);
    let middle = median(&mut values.values().copied().collect::<Vec<_>>())?;
    let n = values.len() as f64;
    let mut deviations: Vec<f64> = values.values().map(|value| distance(*value, middle)).collect();
    // the middle run has no deviation from itself: with few runs that makes the median too small
    let spread = NORMAL * median(&mut deviations)? * (n / (n - 1.0).max(1.0)).sqrt();
    let name = labels::cell(&study.cells[index].levels);
    Some(CellRuns { name, values, middle, spread })
}

/// How far a figure is from another as a logarithm; infinite if one of them is zero.
fn distance(value: f64, middle: f64) -> f64 {
    if value == middle { 0.0 } else { (value / middle).ln().abs() }
}

/// The blocks whose runs are far from the others of their cell. Those that differ by less than the precision that the
/// study looks for do not matter.
fn far(cell: &CellRuns, spread: f64, precision: f64) -> Vec<u32> {
    if cell.values.len() < MIN_RUNS {
        return Vec::new();
    }
    let is_far = |value: f64| {
        let distance = distance(value, cell.middle);
        distance > FAR * spread && distance > precision
    };
    let far = cell.values.iter().filter(|(_, value)| is_far(**value));
    far.map(|(block, _)| *block).collect()
}

/// From so many cells on, outliers of one block have one warning: what did it was not in the cells.
const MANY_CELLS: usize = 4;

/// The blocks with outliers of many cells.
fn blocks_of_many(far: &[Vec<u32>]) -> Vec<u32> {
    let mut cells: BTreeMap<u32, usize> = BTreeMap::new();
    far.iter().flatten().for_each(|block| *cells.entry(*block).or_default() += 1);
    let many = cells.into_iter().filter(|(_, cells)| *cells >= MANY_CELLS);
    many.map(|(block, _)| block).collect()
}

/// One warning for the outliers of a block.
fn many(block: u32, cells: &[(usize, CellRuns)], far: &[Vec<u32>], measure: Measure) -> String {
    let hit = cells.iter().zip(far).filter(|(_, far)| far.contains(&block));
    let ratios: Vec<f64> = hit.map(|((_, cell), _)| cell.values[&block] / cell.middle).collect();
    let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
    let low = percent(ratios.iter().copied().fold(f64::INFINITY, f64::min));
    let high = percent(ratios.iter().copied().fold(0.0, f64::max));
    // blocks are counted from 1 for people, as the progress display does
    format!(
        "Block {}: {} outliers in {} of {} cells, {low} to {high} of the cell's median; they are kept in the results.",
        block + 1,
        measure.word(),
        ratios.len(),
        cells.len(),
    )
}

/// The outliers of a cell in blocks that have few.
fn alone(
    cell: &CellRuns,
    far: &[u32],
    of_many: &[u32],
    measure: Measure,
    transactional: bool,
) -> Option<String> {
    let (far, near): (Vec<_>, Vec<_>) =
        cell.values.iter().partition(|(block, _)| far.contains(block));
    let far: Vec<_> = far.into_iter().filter(|(block, _)| !of_many.contains(block)).collect();
    if far.is_empty() {
        return None;
    }
    let show = |value: f64| figure(value, measure, transactional);
    // blocks are counted from 1 for people, as the progress display does
    let named: Vec<String> = far
        .iter()
        .map(|(block, value)| format!("{} (block {})", show(**value), **block + 1))
        .collect();
    let ends = |pick: fn(f64, f64) -> f64| near.iter().map(|(_, value)| **value).reduce(pick);
    let others = match (ends(f64::min), ends(f64::max)) {
        (Some(low), Some(high)) => format!("{} to {}", show(low), show(high)),
        _ => show(cell.middle),
    };
    Some(format!(
        "{}: {} outlier {}; the other runs had {others} (median {}); it is kept in the results.",
        cell.name,
        measure.word(),
        named.join(", "),
        show(cell.middle),
    ))
}

/// Fewest runs of a group.
const GROUP: usize = 2;

/// How many times as wide as either group the gap between them is: of normal runs, one set of 200 looks so by chance.
fn gap_of_groups(runs: usize) -> f64 {
    match runs {
        ..=5 => 6.3,
        6 => 4.1,
        _ => 3.0,
    }
}

/// The measures of which the runs of a cell are in two groups with nothing between them: their means are figures of none.
pub fn two_groups(
    runs: &RunsByCell<'_>,
    cell: usize,
    precision: f64,
    measures: &[Measure],
) -> Vec<Measure> {
    let is_split = |measure: &Measure| groups(&runs.by_block(cell, *measure), precision).is_some();
    measures.iter().copied().filter(is_split).collect()
}

/// Two groups of values, each in order, if there are two.
fn groups(values: &BTreeMap<u32, f64>, precision: f64) -> Option<[Vec<f64>; 2]> {
    let mut values: Vec<f64> = values.values().copied().filter(|value| *value > 0.0).collect();
    if values.len() < MIN_RUNS {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let between = |low: f64, high: f64| (high / low).ln();
    let is_gap = |cut: &usize| {
        let (low, high) = values.split_at(*cut);
        let width = |group: &[f64]| between(group[0], group[group.len() - 1]);
        let gap = between(low[low.len() - 1], high[0]);
        gap > precision && gap > gap_of_groups(values.len()) * width(low).max(width(high))
    };
    let cut = (GROUP..=values.len() - GROUP).find(is_gap)?;
    let (low, high) = values.split_at(cut);
    Some([low, high].map(<[f64]>::to_vec))
}

fn of_two_groups(
    cell: &CellRuns,
    precision: f64,
    measure: Measure,
    transactional: bool,
) -> Option<String> {
    let show = |value: f64| figure(value, measure, transactional);
    let [low, high] = groups(&cell.values, precision)?.map(|group| {
        format!("{} to {} ({} runs)", show(group[0]), show(group[group.len() - 1]), group.len())
    });
    Some(format!(
        "{}: {} is in two groups, {low} and {high}, and the mean describes neither (median {}).",
        cell.name,
        measure.word(),
        show(cell.middle),
    ))
}

/// How each block differs from the others: the median over all cells, as a logarithm.
fn block_medians(cells: &[(usize, CellRuns)]) -> Vec<f64> {
    let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (_, cell) in cells {
        for (block, value) in &cell.values {
            let log = (value / cell.middle).ln();
            if log.is_finite() {
                by_block.entry(*block).or_default().push(log);
            }
        }
    }
    by_block.values_mut().filter_map(|logs| median(logs)).collect()
}

/// Whether all cells together rise or fall from block to block.
fn drift(medians: &[f64], precision: f64, measure: Measure) -> Option<String> {
    let trend = trend::of(medians)?;
    let change = (trend.slope * (medians.len() - 1) as f64).exp() - 1.0;
    if trend.chance > DRIFT_CHANCE || change.abs() <= precision {
        return None;
    }
    Some(format!(
        "{} {} by {:.1} % over the {} blocks, more steadily than by chance ({:.2} %). Effects are \
         paired within blocks and free of it; the intervals of the cells are not.",
        capital(measure.word()),
        if change > 0.0 { "rose" } else { "fell" },
        change.abs() * 100.0,
        medians.len(),
        trend.chance * 100.0,
    ))
}

/// Whether all cells together are more like they were in the block before than by chance.
fn wandering(medians: &[f64], measure: Measure) -> Option<String> {
    let wander = autocorrelation::of(medians).filter(|wander| wander.chance <= DRIFT_CHANCE)?;
    Some(format!(
        "{} drifts from block to block: each of the {} blocks is more like the one before it than by \
         chance ({:.2} %). The intervals of the cells assume independent blocks and should be about \
         {:.1} times as wide; effects are paired within blocks and free of it.",
        capital(measure.word()),
        medians.len(),
        wander.chance * 100.0,
        wander.widening(),
    ))
}

fn capital(word: &str) -> String {
    let mut word = word.to_owned();
    word[..1].make_ascii_uppercase();
    word
}

/// A figure with its unit.
fn figure(value: f64, measure: Measure, transactional: bool) -> String {
    match measure {
        Measure::Throughput | Measure::Transmit | Measure::Receive => BitRate(value).to_string(),
        Measure::Transactions => format!("{value:.0}/s"),
        Measure::ServiceDemand if transactional => format!("{value:.2} µs"),
        Measure::ServiceDemand => format!("{value:.3} µs/KB"),
        Measure::Cpu => format!("{value:.1} %"),
        Measure::LatencyP50 | Measure::LatencyP99 => format!("{:.1} µs", value / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::fixture;
    use crate::store::{Ended, StoredRun, StoredStudy};
    use linkrate_stats::simulate::Simulator;
    use linkrate_stats::stop::StopReason;

    /// Runs of the ladder with 1 % of noise, changed by `change` (block, cell).
    fn ladder(blocks: u32, seed: u64, change: impl Fn(u32, u32) -> f64) -> StoredStudy {
        let mut simulator = Simulator::new(seed);
        let mut runs: Vec<StoredRun> = Vec::new();
        for block in 0..blocks {
            for (cell, rate) in [(0, 6e9), (1, 12e9), (2, 24e9)] {
                let factor = change(block, cell) * simulator.lognormal(0.01);
                let mut run = fixture::stream(rate * factor, 0.5);
                // no contradiction of the ladder, which is not what this is about
                run.evidence.interface.tx_bytes = if cell == 2 { 60_000_000 } else { 1_400_000 };
                runs.push(fixture::run(runs.len() as u32, block, Some(cell), run));
            }
        }
        let ended = Some(Ended::Rule(StopReason::MaxBlocks { blocks }));
        StoredStudy { ended, ..fixture::under_way(fixture::ladder(), runs) }
    }

    #[test]
    fn outliers_of_many_cells_in_one_block_are_one_warning() {
        let cell = |factor: f64| {
            let values =
                (0..6).map(|block| (block, if block == 2 { 100.0 * factor } else { 100.0 }));
            CellRuns { name: String::new(), values: values.collect(), middle: 100.0, spread: 0.01 }
        };
        let cells = |factors: &[f64]| -> Vec<(usize, CellRuns)> {
            factors.iter().map(|factor| cell(*factor)).enumerate().collect()
        };
        let far = |cells: &[(usize, CellRuns)]| -> Vec<Vec<u32>> {
            cells.iter().map(|(_, cell)| super::far(cell, 0.01, 0.02)).collect()
        };
        let three = far(&cells(&[0.5, 1.0, 0.75, 0.7]));
        assert!(blocks_of_many(&three).is_empty(), "they have a warning each");
        let cells = cells(&[0.5, 1.0, 0.75, 0.7, 0.9]);
        let far = far(&cells);
        let blocks = blocks_of_many(&far);
        assert_eq!(blocks, [2]);
        assert_eq!(
            many(2, &cells, &far, Measure::Throughput),
            "Block 3: throughput outliers in 4 of 5 cells, 50 % to 90 % of the cell's median; they are kept in the results."
        );
        let alone = |cell: usize, of_many: &[u32]| {
            alone(&cells[cell].1, &far[cell], of_many, Measure::Throughput, false)
        };
        assert_eq!(alone(0, &blocks), None);
        assert!(alone(0, &[]).is_some() && alone(1, &[]).is_none());
    }

    #[test]
    fn a_run_far_from_the_others_is_named_and_kept() {
        let stored = ladder(6, 1, |block, cell| if (block, cell) == (3, 1) { 0.8 } else { 1.0 });
        let results = analyse(&stored);
        let [rate, demand] = &results.warnings[..] else { panic!("{:?}", results.warnings) };
        assert_eq!(
            rate,
            "GSO: throughput outlier 9.498 Gb/s (block 4); the other runs had 11.95 Gb/s to 12.26 \
             Gb/s (median 12.05 Gb/s); it is kept in the results."
        );
        assert!(
            demand.starts_with("GSO: service demand outlier 0.431 µs/KB (block 4)"),
            "{demand}"
        );
        let values: Vec<f64> = RunsByCell::of(&stored.plan.study, &stored.runs)
            .by_block(1, Measure::Throughput)
            .into_values()
            .collect();
        let cell = &results.cells[1];
        assert_eq!(cell.runs, 6);
        let mean = values.iter().sum::<f64>() / 6.0;
        assert!((cell.throughput.unwrap().interval.mean / mean - 1.0).abs() < 1e-12);
    }

    #[test]
    fn runs_in_two_groups_are_reported_with_both() {
        let stored =
            ladder(8, 9, |block, cell| if cell == 1 && block % 2 == 0 { 0.75 } else { 1.0 });
        let results = analyse(&stored);
        let warnings = &results.warnings;
        let reported = warnings.iter().find(|text| text.contains("throughput is in two groups"));
        let reported = reported.unwrap_or_else(|| panic!("{warnings:?}"));
        let groups: Vec<Vec<Measure>> =
            results.cells.iter().map(|cell| cell.two_groups.clone()).collect();
        let both = vec![Measure::Throughput, Measure::ServiceDemand];
        assert_eq!(groups, [vec![], both, vec![]]);
        assert!(reported.starts_with("GSO: ") && reported.contains("(4 runs) and "), "{reported}");
    }

    #[test]
    fn normal_runs_are_seldom_in_two_groups() {
        let mut simulator = Simulator::new(11);
        for runs in 5..9 {
            let sets = (0..4000).filter(|_| {
                let values = (0..runs).map(|block| (block, simulator.lognormal(0.1)));
                groups(&values.collect(), 0.0).is_some()
            });
            let found = sets.count();
            assert!(found <= 40, "{found} of 4000 with {runs} runs");
        }
    }

    #[test]
    fn a_run_without_traffic_is_far_from_the_others() {
        let stored = ladder(5, 2, |block, cell| if (block, cell) == (0, 0) { 0.0 } else { 1.0 });
        let warnings = analyse(&stored).warnings;
        assert!(warnings[0].contains("throughput outlier 0.000 b/s (block 1)"), "{warnings:?}");
    }

    #[test]
    fn rarely_warns_of_scatter_alone() {
        let reported = (0..300).filter(|seed| {
            let stored = ladder(5 + (*seed as u32) % 8, 100 + seed, |_, _| 1.0);
            !analyse(&stored).warnings.is_empty()
        });
        let reported = reported.count();
        assert!(reported <= 9, "{reported} of 300");
    }

    #[test]
    fn warns_of_a_wandering_machine() {
        // up and down again: no trend
        let wave = |block: u32| 1.0 + 0.05 * (f64::from(block) * 0.7).sin();
        let results = analyse(&ladder(18, 5, |block, _| wave(block)));
        let [rate, demand] = &results.warnings[..] else { panic!("{:?}", results.warnings) };
        assert!(
            rate.starts_with("Throughput drifts from block to block: each of the 18"),
            "{rate}"
        );
        assert!(rate.contains("should be about") && rate.ends_with("free of it."), "{rate}");
        assert!(demand.starts_with("Service demand drifts"), "{demand}");
        // too few blocks to tell
        assert_eq!(analyse(&ladder(9, 5, |block, _| wave(block))).warnings, Vec::<String>::new());
    }

    #[test]
    fn few_runs_have_no_outlier_and_no_drift() {
        let stored = ladder(4, 3, |block, cell| if (block, cell) == (3, 1) { 0.5 } else { 1.0 });
        assert_eq!(analyse(&stored).warnings, Vec::<String>::new());
    }

    #[test]
    fn warns_of_a_drift() {
        let slowing = ladder(8, 4, |block, _| 1.0 - 0.02 * f64::from(block));
        let results = analyse(&slowing);
        let reported =
            |what: &str| results.warnings.iter().any(|warning| warning.starts_with(what));
        assert!(reported("Throughput fell by 14."), "{:?}", results.warnings);
        assert!(reported("Service demand rose by 1"), "{:?}", results.warnings);
        assert_eq!(results.warnings.len(), 2);
    }
}
