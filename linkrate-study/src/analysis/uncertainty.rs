//! What other programs and the hypervisor leave uncertain of a cost, as a part of its interval.
//!
//! The time of programs that are bound to the CPUs of the system under test is taken out of every run. Without a trace, a part
//! of it may have been before or after the measurement, so that a run may be too low by its share. The time
//! of programs that may also have run elsewhere is known as a sum: of what is left as the cost of the traffic, up to that
//! much is theirs, so that a run may be too high by its share. How much of the time that a hypervisor took fell into idle
//! time is known within bounds, so that a run may be too high or too low by its share. The interval of a mean reaches
//! by the mean of these shares further, on top of what scatters; that of a ratio by those of its numerator and its
//! denominator. So an effect that is significant or equivalent is so wherever these programs ran, and whatever was stolen.
//!
//! A run with more than [`UNCERTAINTY_PERCENT`](crate::validity::programs::UNCERTAINTY_PERCENT) is refused where its cost is asked for:
//! not with an event, and not in a fleet.

use crate::analysis::limit::ALL_BUSY;
use crate::analysis::measures::{figure, sut_cpu_percent};
use crate::quantity::{Interval, Measure};
use crate::store::StoredRun;
use linkrate_model::measurement::CpuUse;
use linkrate_stats::interval::of_mean;
use linkrate_stats::mean_test::MeanTest;
use linkrate_stats::sample::mean;

use super::runs_by_cell::RunsByCell;

/// How far a figure may lie from what was measured, as factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Down to this, from 0 to 1.
    low: f64,
    /// Up to this, at least 1.
    high: f64,
}

impl Default for Reach {
    fn default() -> Self {
        Self::NONE
    }
}

impl Reach {
    /// Of a figure that is known but for its scatter.
    pub const NONE: Self = Self { low: 1.0, high: 1.0 };

    /// That of a figure that may be too high and too low by these shares of it.
    pub fn of_shares(too_high: f64, too_low: f64) -> Self {
        Self { low: (1.0 - too_high).clamp(0.0, 1.0), high: 1.0 + too_low.max(0.0) }
    }

    /// That of the cost of a run.
    fn of_cost(cpu: &CpuUse) -> Self {
        let share = |part_ns: u64| part_ns as f64 / cpu.own_busy_ns().max(1) as f64;
        let stolen = share(cpu.uncertainty_ns());
        let too_low = stolen.min(1.0) + share(cpu.others_outside_ns());
        Self::of_shares(cpu.uncertainty_percent() / 100.0 + stolen, too_low)
    }

    /// That of the ratio of two figures that have these, `[denominator, numerator]`.
    pub fn of_ratio([from, to]: [Self; 2]) -> Self {
        Self { low: to.low / from.high, high: to.high / from.low }
    }

    /// That of a figure that has both, for two reasons.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { low: self.low * other.low, high: self.high * other.high }
    }

    /// That of a mean over figures that have these.
    pub fn of_mean(all: impl IntoIterator<Item = Self>) -> Self {
        let (low, high): (Vec<f64>, Vec<f64>) =
            all.into_iter().map(|reach| (reach.low, reach.high)).unzip();
        Self { low: mean(&low).unwrap_or(1.0), high: mean(&high).unwrap_or(1.0) }
    }

    /// The factors at both ends.
    pub fn ends(self) -> [f64; 2] {
        [self.low, self.high]
    }

    #[must_use]
    pub fn widen(self, ratio: Interval) -> Interval {
        Interval {
            low: ratio.low.map(|low| low * self.low),
            high: ratio.high.map(|high| high * self.high),
            ..ratio
        }
    }

    /// The interval of the mean of amounts.
    #[must_use]
    pub fn widen_mean(self, mean: Interval) -> Interval {
        let size = mean.mean.abs();
        let widened = Interval {
            low: mean.low.map(|low| low - size * (1.0 - self.low)),
            high: mean.high.map(|high| high + size * (self.high - 1.0)),
            ..mean
        };
        widened.within(None)
    }

    /// The probability of a measured ratio as far from no change, if in truth it differed from that by no more than
    /// `minimum`, a fraction, wherever it may lie. `test` is of logarithms.
    pub fn p_beyond(self, test: MeanTest, minimum: f64) -> f64 {
        let low = (1.0 - minimum).max(0.0) / self.high;
        test.outside(low.ln(), ((1.0 + minimum) / self.low).ln())
    }
}

/// That of a run's figure; none for figures that are no CPU time.
fn of_run(measure: Measure, run: &StoredRun) -> Reach {
    match (measure, run.measurement()) {
        (Measure::ServiceDemand | Measure::Cpu, Some(measured)) => {
            Reach::of_cost(&measured.sut_cpu)
        }
        _ => Reach::NONE,
    }
}

/// That of the mean figure of a cell.
pub fn of_cell(runs: &RunsByCell<'_>, cell: usize, measure: Measure) -> Reach {
    of_runs(runs.cell(cell), measure)
}

/// The same of these runs.
pub fn of_runs(runs: &[&StoredRun], measure: Measure) -> Reach {
    let figures = runs.iter().filter_map(|run| {
        let (value, reach) = (figure(measure, run)?, of_run(measure, run));
        Some([value, value * reach.low, value * reach.high])
    });
    let [all, low, high] =
        figures.fold([0.0; 3], |sum, one| std::array::from_fn(|at| sum[at] + one[at]));
    if all > 0.0 { Reach { low: low / all, high: high / all } } else { Reach::NONE }
}

/// The interval of the difference `to − from` of two means, which have these.
#[must_use]
pub fn of_difference(difference: Interval, [from, to]: [(f64, Reach); 2]) -> Interval {
    let below = |(mean, reach): (f64, Reach)| mean * (1.0 - reach.low);
    let above = |(mean, reach): (f64, Reach)| mean * (reach.high - 1.0);
    Interval {
        low: difference.low.map(|low| low - below(to) - above(from)),
        high: difference.high.map(|high| high + above(to) + below(from)),
        ..difference
    }
}

/// The interval of a figure of several costs: that of all costs as measured, with the ends of those `at` the corners,
/// where each cost is as low or as high as it may be. Between the corners, the figure must rise or fall with each cost
/// throughout. An end that is open at a corner is open.
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

/// The corners of two costs with these, as factors of each: either may be as low or as high as it may be, whatever the other is.
pub fn corners([first, second]: [Reach; 2]) -> impl Iterator<Item = [f64; 2]> {
    first.ends().into_iter().flat_map(move |one| second.ends().map(|other| [one, other]))
}

/// The SUT's CPU use without load, in per cent; `None` without a good idle run.
pub fn background_cpu(runs: &RunsByCell<'_>, confidence: f64) -> Option<Interval> {
    let values: Vec<f64> =
        runs.idle().iter().filter_map(|run| sut_cpu_percent(run.measurement()?)).collect();
    let uncertainty = of_runs(runs.idle(), Measure::Cpu);
    Some(uncertainty.widen_mean(of_mean(&values, confidence)?).within(Some(ALL_BUSY)))
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
    fn both_costs_may_be_off_at_once() {
        let reach = |off| Reach::of_shares(off, off);
        let all: Vec<[f64; 2]> = corners([reach(0.1), reach(0.2)]).collect();
        assert_eq!(all, [[0.9, 0.8], [0.9, 1.2], [1.1, 0.8], [1.1, 1.2]]);
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
    fn what_a_hypervisor_may_have_taken_reaches_to_both_sides() {
        // 20 ms of 1000 in each run of both cells
        let mut stored = ladder(0, [0.5; 2]);
        for run in &mut stored.runs {
            if let crate::store::Outcome::Measured(measured) = &mut run.outcome {
                let cpu = &mut measured.sut_cpu.cpus[0];
                (cpu.steal_ns, cpu.uncertainty_ns) = (cpu.busy_ns / 25, cpu.busy_ns / 50);
            }
        }
        let (calm, stolen) = (analyse(&ladder(0, [0.5; 2])), analyse(&stored));
        let [calm_demand, demand] =
            [&calm, &stolen].map(|results| results.cells[0].service_demand.unwrap().interval);
        let off = |to: Option<f64>, from: Option<f64>| (to.unwrap() - from.unwrap()) / demand.mean;
        assert!((off(calm_demand.low, demand.low) - 0.02).abs() < 1e-6, "{demand:?}");
        assert!((off(demand.high, calm_demand.high) - 0.02).abs() < 1e-6, "{demand:?}");
        let of_demand = |effect: &&crate::results::Effect| effect.measure == Measure::ServiceDemand;
        let [calm, stolen] =
            [&calm, &stolen].map(|all| all.effects.iter().find(of_demand).unwrap().ratio);
        let near = |a: Option<f64>, b: Option<f64>, factor: f64| {
            assert!((a.unwrap() / b.unwrap() - factor).abs() < 1e-6, "{calm:?} {stolen:?}");
        };
        near(stolen.low, calm.low, 0.98 / 1.02);
        near(stolen.high, calm.high, 1.02 / 0.98);
    }

    #[test]
    fn a_ratio_reaches_to_both_sides() {
        let ratio = Interval { mean: 0.5, low: Some(0.4), high: Some(0.6) };
        let found =
            Reach::of_ratio([0.25, 0.1].map(|share| Reach::of_shares(share, 0.0))).widen(ratio);
        assert!((found.low.unwrap() - 0.36).abs() < 1e-12, "{found:?}");
        assert!((found.high.unwrap() - 0.8).abs() < 1e-12, "{found:?}");
        assert_eq!(Reach::of_ratio([Reach::NONE; 2]).widen(ratio), ratio);
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
