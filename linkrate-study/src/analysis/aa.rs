//! The A/A test: the first cell of a study, measured twice in each block.
//!
//! The two runs are alike in all that the study sets, and come at random places of the block. The ratio of the later to the
//! earlier is 1, but for what time does within blocks (drift, a state that one run leaves to the next), and its interval is
//! what two identical cells differ by: an effect of that size is no news.

use std::collections::BTreeMap;

use crate::analysis::effects;
use crate::analysis::measures::figures;
use crate::analysis::uncertainty::{self, Reach};
use crate::labels;
use crate::quantity::Measure;
use crate::results::{Aa, AaRatio};
use crate::study::Study;
use linkrate_stats::interval::MIN_TO_CLAIM;
use linkrate_stats::paired;

use super::runs_by_cell::RunsByCell;

/// The ratios, with intervals of the given level; `None` without an A/A test, or a pair of good runs.
pub fn of(study: &Study, runs: &RunsByCell<'_>, level: f64) -> Option<Aa> {
    let cell = study.cells.first()?;
    let cells = [0, study.aa_cell()? as usize];
    let measures = effects::measures(&cell.spec, &cell.spec);
    let ratios = measures.iter().filter_map(|measure| {
        let [first, second] = cells.map(|cell| in_order(runs, cell, *measure));
        let pairs = first.iter().filter_map(|(block, one)| {
            let other = second.get(block)?;
            let (earlier, later) = if one < other { (one, other) } else { (other, one) };
            Some((Some(earlier.1), Some(later.1)))
        });
        let found = paired::ratio(pairs, level)?;
        let uncertainty = cells.map(|cell| uncertainty::of_cell(runs, cell, *measure));
        let ratio = Reach::of_ratio(uncertainty).widen(found.ratio);
        Some(AaRatio { measure: *measure, ratio, blocks: found.pairs })
    });
    let ratios: Vec<AaRatio> = ratios.collect();
    (!ratios.is_empty()).then(|| Aa { levels: cell.levels.clone(), ratios })
}

/// The figures of a cell by block, each behind the place of its run.
fn in_order(runs: &RunsByCell<'_>, cell: usize, measure: Measure) -> BTreeMap<u32, (u32, f64)> {
    let found = figures(measure, runs.cell(cell));
    found.into_iter().map(|(run, figure)| (run.block, (run.sequence, figure))).collect()
}

/// A warning where the two runs differ by more than the smallest effect that is claimed, a fraction.
pub fn warning(found: &Aa, minimum: f64) -> Option<String> {
    let beyond = found.ratios.iter().filter(|ratio| ratio.is_beyond(minimum));
    let beyond: Vec<String> = beyond
        .map(|of| {
            let percent = (of.ratio.mean - 1.0) * 100.0;
            format!("{percent:+.1} % of {}", of.measure.word())
        })
        .collect();
    (!beyond.is_empty()).then(|| {
        format!(
            "The same cell measured twice in each block differs by {} from the earlier run to the \
             later. Effects of this size may not come from the levels.",
            labels::listed(&beyond)
        )
    })
}

impl AaRatio {
    /// Whether there are enough blocks, and the interval lies beyond the smallest effect that is claimed, a fraction, on
    /// one side.
    pub fn is_beyond(&self, minimum: f64) -> bool {
        if self.blocks < MIN_TO_CLAIM {
            return false;
        }
        self.ratio.low.is_some_and(|low| low > 1.0 + minimum)
            || self.ratio.high.is_some_and(|high| high < 1.0 / (1.0 + minimum))
    }
}

#[cfg(test)]
mod tests {

    use crate::analysis::analyse;
    use crate::fixture;
    use crate::quantity::Measure;
    use crate::store::{Outcome, StoredStudy};
    use linkrate_model::{Protocol, Task, Workload};

    /// Five blocks of three cells, in which the first cell's second run is `factor` times as fast as its first.
    fn study(factor: f64) -> StoredStudy {
        let mut study = fixture::ladder();
        (study.method.aa, study.method.idle) = (true, std::time::Duration::ZERO);
        let mut runs = Vec::new();
        for block in 0..5 {
            // blocks drift, the two runs of each with them
            let base = 1e9 * (1.0 + 0.1 * f64::from(block));
            for (cell, rate) in [(0, base), (1, base * 2.0), (2, base * 3.0), (3, base * factor)] {
                let measured = fixture::stream(rate * (1.0 + 1e-4 * f64::from(block)), 0.5);
                runs.push(fixture::run(runs.len() as u32, block, Some(cell), measured));
            }
        }
        fixture::stored(study, runs, 1)
    }

    #[test]
    fn the_second_runs_are_in_no_cell_and_in_no_effect() {
        let (twice, three) = (analyse(&study(2.0)), analyse(&study(1.0)));
        assert_eq!((twice.cells.len(), twice.blocks), (3, 5));
        assert_eq!(twice.cells, three.cells);
        assert_eq!(twice.effects, three.effects);
        let names: Vec<_> = twice.runs.iter().map(|run| twice.cell_of(run).unwrap()).collect();
        assert_eq!(names[3].levels, names[0].levels);
    }

    /// Those of the runs that have it would be the fast ones.
    #[test]
    fn a_percentile_that_a_run_lacks_is_in_no_ratio() {
        let has_p99 = |stored: &StoredStudy| {
            let ratios = analyse(stored).aa.unwrap().ratios;
            ratios.iter().any(|of| of.measure == Measure::LatencyP99)
        };
        let mut stored = study(1.0);
        let requests = Workload { kind: Protocol::RequestResponse, ..Workload::default() };
        stored.plan.study.cells[0].spec.task = Task::Workload(requests.clone());
        for run in stored.runs.iter_mut().filter(|run| matches!(run.cell, Some(0 | 3))) {
            run.spec.task = Task::Workload(requests.clone());
            let mut measured = fixture::transactions(20_000.0 + f64::from(run.block), 0.5);
            measured.latency = Some(fixture::latency(40_000, Some(60_000)));
            run.outcome = measured.into();
        }
        assert!(has_p99(&stored));
        let lacks = stored.runs.iter_mut().find(|run| run.cell == Some(3)).unwrap();
        if let Outcome::Measured(measured) = &mut lacks.outcome {
            measured.latency = Some(fixture::latency(40_000, None));
        }
        assert!(!has_p99(&stored));
    }

    #[test]
    fn the_ratio_of_the_two_is_paired_and_one_beyond_the_minimum_is_a_warning() {
        let of = |results: &crate::results::StudyResults| {
            let found = results.aa.as_ref().unwrap();
            let throughput = found.ratios.iter().find(|of| of.measure == Measure::Throughput);
            throughput.unwrap().clone()
        };
        let warned = |results: &crate::results::StudyResults| {
            results.warnings.iter().filter(|text| text.contains("measured twice")).count()
        };
        let alike = analyse(&study(1.0));
        assert!((of(&alike).ratio.mean - 1.0).abs() < 1e-9);
        assert_eq!((of(&alike).blocks, warned(&alike)), (5, 0));
        // the minimum is 2 %
        for (factor, warnings) in [(1.019, 0), (1.03, 1), (0.985, 0), (0.97, 1)] {
            let found = analyse(&study(factor));
            assert!((of(&found).ratio.mean - factor).abs() < 1e-6, "{factor}");
            assert_eq!(warned(&found), warnings, "{factor}: {:?}", found.warnings);
        }
        let mut without = study(1.0);
        without.plan.study.method.aa = false;
        assert_eq!(analyse(&without).aa, None);
    }
}
