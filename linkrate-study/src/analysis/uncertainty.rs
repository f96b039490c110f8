//! What other programs leave uncertain of a cost, as a part of its interval.
//!
//! The time of programs that are bound to the CPUs of the system under test is taken out of every run. The time
//! of programs that may also have run elsewhere is known as a sum: of what is left as the cost of the traffic, up to that
//! much is theirs. A run may so be too high by its share, and never too low. The interval of a mean reaches down
//! by the mean of these shares, on top of what scatters. The interval of a ratio reaches down by the share of its
//! numerator, and up by that of its denominator. So an effect that is claimed or excluded is so wherever these
//! programs ran.
//!
//! A run with more than [`UNCERTAINTY_PERCENT`](crate::validity::programs::UNCERTAINTY_PERCENT) is refused where its cost is asked for:
//! not with an event, and not in a fleet.

use crate::analysis::measures::{RunsByCell, figure};
use crate::quantity::{Interval, Measure};
use crate::store::StoredRun;
use linkrate_stats::mean_test::MeanTest;

/// The share by which a run's figure may be too high, at most 1; zero for figures that are no CPU time.
fn of_run(measure: Measure, run: &StoredRun) -> f64 {
    match (measure, run.measurement()) {
        (Measure::ServiceDemand | Measure::Cpu, Some(measured)) => {
            (measured.sut_cpu.uncertainty_percent() / 100.0).min(1.0)
        }
        _ => 0.0,
    }
}

/// The share by which the mean figure of a cell may be too high, at most 1.
pub fn of_cell(runs: &RunsByCell<'_>, cell: usize, measure: Measure) -> f64 {
    of_runs(runs.cell(cell), measure)
}

/// The same of these runs.
pub fn of_runs(runs: &[&StoredRun], measure: Measure) -> f64 {
    let figures = runs.iter().filter_map(|run| {
        let value = figure(measure, run)?;
        Some((value, value * of_run(measure, run)))
    });
    let (all, uncertainty) = figures.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if all > 0.0 { uncertainty / all } else { 0.0 }
}

/// The interval of a mean of which `share` may be the work of other programs.
#[must_use]
pub fn of_mean(interval: Interval, share: f64) -> Interval {
    Interval { low: interval.low.map(|low| low - interval.mean.abs() * share), ..interval }
}

/// How far a ratio may lie from what was measured, as factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Down to this, at most 1.
    low: f64,
    /// Up to this, at least 1.
    high: f64,
}

impl Reach {
    /// That of a ratio whose denominator and numerator may be too high by these shares.
    pub fn of_ratio([from, to]: [f64; 2]) -> Self {
        Self { low: (1.0 - to).max(0.0), high: 1.0 / (1.0 - from).max(0.0) }
    }

    /// That of a ratio of two figures that may each be too low and too high by these shares, as a ratio of costs is by
    /// those of its denominator and its numerator.
    pub fn of_change(before: [f64; 2], after: [f64; 2]) -> Self {
        let (before, after) = (Self::of_ratio([before[1], before[0]]), Self::of_ratio(after));
        Self { low: before.low * after.low, high: before.high * after.high }
    }

    /// The interval of the ratio.
    #[must_use]
    pub fn widen(self, ratio: Interval) -> Interval {
        Interval {
            low: ratio.low.map(|low| low * self.low),
            high: ratio.high.map(|high| high * self.high),
            ..ratio
        }
    }

    /// The probability of a measured ratio as far from no change, if in truth it differed from that by no more than
    /// `minimum`, a fraction, wherever other programs ran. `test` is of logarithms.
    pub fn p_beyond(self, test: MeanTest, minimum: f64) -> f64 {
        let low = (1.0 - minimum).max(0.0) / self.high;
        test.outside(low.ln(), ((1.0 + minimum) / self.low).ln())
    }
}

/// The interval of the difference `to − from`, whose parts `[from, to]` may be too high by these, in its unit.
#[must_use]
pub fn of_difference(difference: Interval, [from, to]: [f64; 2]) -> Interval {
    Interval {
        low: difference.low.map(|low| low - to),
        high: difference.high.map(|high| high + from),
        ..difference
    }
}

/// The interval of a figure of several costs that each may be too high: that of all costs as measured, with the ends of
/// those `at` the corners, where one cost alone is as low as it may be. Between the corners, the figure must rise or fall
/// with each cost throughout. An end that is open at a corner is open.
#[must_use]
pub fn with_corners(
    measured: Interval,
    at: impl IntoIterator<Item = Option<Interval>>,
) -> Interval {
    at.into_iter().fold(measured, |all, corner| Interval {
        low: all.low.zip(corner.and_then(|corner| corner.low)).map(|(a, b)| a.min(b)),
        high: all.high.zip(corner.and_then(|corner| corner.high)).map(|(a, b)| a.max(b)),
        ..all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::fixture;
    use crate::levels::Level;
    use crate::store::StoredStudy;

    /// Seven blocks of the fixture's ladder, whose runs are all busy 50 % of 2 s. Programs that may have run
    /// elsewhere used these ms in each run of TSO.
    fn ladder(uncertainty_ms: u64, busy: [f64; 2]) -> StoredStudy {
        let mut stored = fixture::stored(fixture::ladder(), Vec::new(), 1);
        let cells = stored.plan.study.cells.clone();
        for block in 0..7 {
            for (index, cell) in (0u32..).zip(&cells) {
                let is_tso = cell.levels.get("offload") == Some(&Level::Text("tso".to_owned()));
                let jitter = 1.0 + 0.001 * f64::from((block + index) % 3);
                let mut run = fixture::stream(9.4e8, busy[usize::from(is_tso)] * jitter);
                let cpu_ns = uncertainty_ms * 1_000_000;
                if is_tso {
                    run.sut_cpu.background = fixture::roaming(cpu_ns);
                }
                let sequence = block * cells.len() as u32 + index;
                stored.runs.push(fixture::run(sequence, block, Some(index), run));
            }
        }
        stored
    }

    #[test]
    fn the_interval_of_a_cost_contains_what_may_be_the_work_of_others() {
        // 40 ms of 1000: the cost is between 96 and 100 % of what was measured
        let (calm, uncertainty) = (analyse(&ladder(0, [0.5; 2])), analyse(&ladder(40, [0.5; 2])));
        let cell = |results: &crate::results::StudyResults| {
            let tso = |cell: &&crate::results::CellResult| {
                cell.levels.get("offload") == Some(&Level::Text("tso".to_owned()))
            };
            results.cells.iter().find(tso).unwrap().clone()
        };
        let (calm_cell, uncertain_cell) = (cell(&calm), cell(&uncertainty));
        for (calm, uncertainty) in [
            (calm_cell.service_demand, uncertain_cell.service_demand),
            (calm_cell.cpu, uncertain_cell.cpu),
        ] {
            let (calm, uncertainty) = (calm.unwrap().interval, uncertainty.unwrap().interval);
            assert_eq!((calm.mean, calm.high), (uncertainty.mean, uncertainty.high));
            let truth = uncertainty.mean * 0.96;
            assert!(
                calm.low.unwrap() > truth && uncertainty.low.unwrap() < truth,
                "{uncertainty:?}"
            );
        }
        assert_eq!(calm_cell.throughput, uncertain_cell.throughput);
    }

    #[test]
    fn an_effect_that_other_programs_may_have_made_is_open() {
        // TSO costs 3 % more, and 40 of its 1030 ms may be of others
        let effect = |uncertainty_ms| {
            let results = analyse(&ladder(uncertainty_ms, [0.5, 0.515]));
            let to_tso = |effect: &&crate::results::Effect| {
                effect.measure == Measure::ServiceDemand
                    && effect.to == Level::Text("tso".to_owned())
            };
            results.effects.iter().find(to_tso).unwrap().clone()
        };
        let (calm, uncertainty) = (effect(0), effect(40));
        assert!(calm.significant && !calm.equivalent, "{calm:?}");
        assert!(!uncertainty.significant && !uncertainty.equivalent, "{uncertainty:?}");
        assert_eq!(calm.ratio.mean, uncertainty.ratio.mean);
        assert!(uncertainty.ratio.low.unwrap() < 0.99, "{uncertainty:?}");
    }

    #[test]
    fn a_ratio_reaches_to_both_sides() {
        let ratio = Interval { mean: 0.5, low: Some(0.4), high: Some(0.6) };
        let found = Reach::of_ratio([0.25, 0.1]).widen(ratio);
        assert!((found.low.unwrap() - 0.36).abs() < 1e-12, "{found:?}");
        assert!((found.high.unwrap() - 0.8).abs() < 1e-12, "{found:?}");
        assert_eq!(Reach::of_ratio([0.0; 2]).widen(ratio), ratio);
    }

    #[test]
    fn corners_widen_an_interval_and_open_it() {
        let of = |mean, low, high| Interval { mean, low, high };
        let measured = of(0.5, Some(0.4), Some(0.6));
        let low = of(0.3, Some(0.2), Some(0.4));
        let high = of(0.8, Some(0.7), None);
        assert_eq!(with_corners(measured, [Some(low)]), of(0.5, Some(0.2), Some(0.6)));
        assert_eq!(with_corners(measured, [Some(low), Some(high)]), of(0.5, Some(0.2), None));
        assert_eq!(with_corners(measured, [None]), of(0.5, None, None));
        assert_eq!(with_corners(measured, []), measured);
    }
}
