//! The two directions of a bidirectional stream, and its service demand at another mix of them.
//!
//! Sending and receiving cost differently, and what changes the cost of one also moves their shares. A change in
//! service demand is then partly a change of the mix. The cells of one direction tell the two costs, `t` and `r`
//! in µs/KB. At share `w` of transmit, a run in both directions costs `c · (w · t + (1 − w) · r)`, where `c` is
//! what running together adds or saves. With `c` from the run itself, the same run at share `v` of the baseline
//! costs `(v · t + (1 − v) · r) / (w · t + (1 − w) · r)` times as much. It takes `c` as that of both directions
//! alike. What [other programs leave uncertain](super::uncertainty) of all four costs is in the interval.

use std::collections::BTreeMap;

use linkrate_model::{RunSpec, TestbedSpec};

use crate::analysis::effects::{self, Comparison};
use crate::analysis::uncertainty::{self, Reach};
use crate::analysis::{demand, limit};
use crate::levels::Level;
use crate::quantity::{Interval, Measure, Quantity, Unit};
use crate::results::{DirectionRate, Effect};
use crate::store::StoredRun;
use crate::study::Study;
use crate::verdict::FlowDirection;
use linkrate_stats::interval::of_mean;
use linkrate_stats::paired;

use super::measures::{bits_per_second, figure};
use super::runs_by_cell::RunsByCell;

/// The factor whose levels are the directions.
const FACTOR: &str = "direction";

/// The rate of each direction; empty unless the cell is bidirectional and has a good run.
pub fn of_cell(
    spec: &RunSpec,
    testbed: &TestbedSpec,
    runs: &[&StoredRun],
    level: f64,
) -> Vec<DirectionRate> {
    if !spec.is_bidirectional() {
        return Vec::new();
    }
    let rate = |(direction, measure)| {
        let rates: Vec<f64> = runs.iter().filter_map(|run| figure(measure, run)).collect();
        let limit = limit::of_figure(measure, spec, testbed, runs);
        let interval = of_mean(&rates, level)?.within(limit);
        Some(DirectionRate { direction, rate: Quantity { interval, unit: Unit::BitsPerSecond } })
    };
    let ways =
        [(FlowDirection::Transmit, Measure::Transmit), (FlowDirection::Receive, Measure::Receive)];
    ways.into_iter().filter_map(rate).collect()
}

/// The share of transmit in the payload, by block.
fn shares(runs: &RunsByCell<'_>, cell: usize) -> BTreeMap<u32, f64> {
    let share = |run: &&StoredRun| {
        let traffic = &run.measurement()?.traffic;
        let share = bits_per_second(traffic, FlowDirection::Transmit) / traffic.bits_per_second();
        share.is_finite().then_some((run.block, share))
    };
    runs.cell(cell).iter().filter_map(share).collect()
}

/// The change in service demand with the second cell at the mix of the first; `None` unless both are
/// bidirectional and the study has the second in each direction alone.
pub fn at_equal_mix(
    comparison: &Comparison,
    study: &Study,
    runs: &RunsByCell<'_>,
    level: f64,
) -> Option<Interval> {
    let cells = [comparison.from_cell, comparison.to_cell];
    let [from, to] = cells.map(|cell| study.cells.get(cell));
    if !from?.spec.is_bidirectional() || !to?.spec.is_bidirectional() {
        return None;
    }
    let alone = |direction: &str| {
        to?.levels.get(FACTOR)?;
        let wanted = to?.levels.with(FACTOR, &Level::Text(direction.to_owned()));
        let cell = study.cells.iter().position(|cell| cell.levels == wanted)?;
        let uncertainty = uncertainty::of_cell(runs, cell, Measure::ServiceDemand);
        Some((runs.by_block(cell, Measure::ServiceDemand), uncertainty))
    };
    let ((transmit, uncertainty_sent), (receive, uncertainty_received)) =
        (alone("transmit")?, alone("receive")?);
    let [before, after] = cells.map(|cell| runs.by_block(cell, Measure::ServiceDemand));
    let [mix, own_mix] = cells.map(|cell| shares(runs, cell));
    // with this much of the costs of each direction alone
    let with = |[of_sent, of_received]: [f64; 2]| {
        let pairs = before.iter().map(|(block, demand)| {
            let equal = || {
                let (sent, received) = (transmit.get(block)?, receive.get(block)?);
                let cost =
                    |share: f64| share * sent * of_sent + (1.0 - share) * received * of_received;
                Some(after.get(block)? * cost(*mix.get(block)?) / cost(*own_mix.get(block)?))
            };
            (Some(*demand), equal())
        });
        Some(paired::ratio(pairs, level)?.ratio)
    };
    let corners = uncertainty::corners([uncertainty_sent, uncertainty_received]).map(with);
    let ratio = uncertainty::with_corners(with([1.0; 2])?, corners);
    let uncertainty = cells.map(|cell| uncertainty::of_cell(runs, cell, Measure::ServiceDemand));
    Some(Reach::of_ratio(uncertainty).widen(ratio))
}

/// The effects of a comparison as [`effects::compare`] has them, with the change at equal mix and that without the
/// driver's part.
pub fn compare(
    comparison: &Comparison,
    study: &Study,
    runs: &RunsByCell<'_>,
    level: f64,
) -> Vec<Effect> {
    let mut effects = effects::compare(comparison, runs, level, study.method.minimum_effect);
    let demand = effects.iter_mut().find(|effect| effect.measure == Measure::ServiceDemand);
    if let Some(effect) = demand {
        effect.mix_adjusted = at_equal_mix(comparison, study, runs, level);
        effect.without_driver = demand::without_driver(comparison, runs, level);
        let bounds =
            effect.without_driver.and_then(|without| demand::bounds(effect.ratio, without));
        effect.without_driver_unknown = bounds.is_some();
        effect.without_driver = bounds.or(effect.without_driver);
    }
    effects
}

#[cfg(test)]
mod tests {
    use linkrate_model::{Direction, Task};

    use super::*;
    use crate::fixture;

    /// Sending costs 1 µs/KB and receiving 3 with `none`, both half as much with `tso`; together they cost a
    /// tenth more. Transmit has 40 % of the bytes with `none` and 60 % with `tso`.
    fn study(directions: &str) -> (Study, Vec<StoredRun>) {
        let text = format!(
            "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\ndirection = [{directions}]\n"
        );
        let study = crate::file::parse("t", "t.toml", &text).unwrap();
        let mut runs = Vec::new();
        for block in 0..5 {
            for (index, cell) in (0..).zip(&study.cells) {
                let Task::Workload(workload) = &cell.spec.task else { unreachable!() };
                let tso = cell.levels.get("offload") == Some(&Level::Text("tso".to_owned()));
                let (share, together) = match workload.direction {
                    Direction::Transmit => (1.0, 1.0),
                    Direction::Receive => (0.0, 1.0),
                    Direction::Bidirectional => (if tso { 0.6 } else { 0.4 }, 1.1),
                };
                let cost = (share + 3.0 * (1.0 - share)) * together * if tso { 0.5 } else { 1.0 };
                // 1 GB in the fixture's two seconds
                let bytes = 1e9 * (1.0 + 0.01 * f64::from(block));
                let mut run = fixture::stream(4e9, cost * bytes / 1024.0 / 2e6);
                run.traffic.transmit_bytes = (bytes * share) as u64;
                run.traffic.receive_bytes = (bytes * (1.0 - share)) as u64;
                run.traffic.receive_seconds = run.traffic.transmit_seconds;
                runs.push(fixture::run_of(&study, runs.len() as u32, block, index, run));
            }
        }
        (study, runs)
    }

    #[test]
    fn the_mix_of_the_baseline_is_kept() {
        let (study, stored) = study("\"transmit\", \"receive\", \"bidirectional\"");
        let runs = RunsByCell::of(&study, &stored);
        let comparisons = effects::comparisons(&study);
        let both = |one: &&Comparison| {
            one.factor == "offload" && study.cells[one.from_cell].spec.is_bidirectional()
        };
        let comparison = comparisons.iter().find(both).unwrap();
        let raw = compare(comparison, &study, &runs, 0.95);
        let raw = raw.iter().find(|effect| effect.measure == Measure::ServiceDemand).unwrap();
        // 1.8 / 2.2 of the difference is of the mix
        assert!((raw.ratio.mean - 0.5 * 1.8 / 2.2).abs() < 1e-3, "{:?}", raw.ratio);
        let equal = raw.mix_adjusted.unwrap();
        assert!((equal.mean - 0.5).abs() < 1e-3, "{equal:?}");
        // one direction has no mix
        for other in comparisons.iter().filter(|one| !both(one)) {
            assert_eq!(at_equal_mix(other, &study, &runs, 0.95), None);
        }
        let cell = comparison.from_cell;
        let of =
            |cell: usize| of_cell(&study.cells[cell].spec, &study.testbed, runs.cell(cell), 0.95);
        let rates = of(cell);
        let shares: Vec<f64> = rates.iter().map(|rate| rate.rate.interval.mean).collect();
        assert!((shares[0] / (shares[0] + shares[1]) - 0.4).abs() < 1e-6, "{rates:?}");
        assert_eq!(of(0), []);
    }

    /// Where other programs may have had 40 ms of each run of these directions with `tso`, so much is open at equal
    /// mix.
    fn equal_mix(disturbed: &[Direction]) -> Interval {
        let (study, mut stored) = study("\"transmit\", \"receive\", \"bidirectional\"");
        for run in &mut stored {
            let cell = &study.cells[run.cell.unwrap() as usize];
            let Task::Workload(workload) = &cell.spec.task else { unreachable!() };
            let tso = cell.levels.get("offload") == Some(&Level::Text("tso".to_owned()));
            if let crate::store::Outcome::Measured(measured) = &mut run.outcome
                && tso
                && disturbed.contains(&workload.direction)
            {
                let cpu_ns = measured.sut_cpu.busy_ns() / 20;
                measured.sut_cpu.background = fixture::roaming(cpu_ns);
            }
        }
        let runs = RunsByCell::of(&study, &stored);
        let comparisons = effects::comparisons(&study);
        let mut equal = comparisons.iter().filter(|one| one.factor == "offload");
        equal.find_map(|one| at_equal_mix(one, &study, &runs, 0.95)).unwrap()
    }

    #[test]
    fn what_may_be_of_others_is_in_the_interval_at_equal_mix() {
        let calm = equal_mix(&[]);
        let ends = |interval: Interval| (interval.low.unwrap(), interval.high.unwrap());
        // 5 % of the run in both directions may be of others
        let both = equal_mix(&[Direction::Bidirectional]);
        assert!((both.low.unwrap() / calm.low.unwrap() - 0.95).abs() < 1e-9, "{both:?}");
        assert_eq!((both.mean, both.high), (calm.mean, calm.high));
        // of sending alone, whose share is higher than that of the baseline: with 0.475 for 0.5, the mix is worth more
        let sent = equal_mix(&[Direction::Transmit]);
        let worth = |sent: f64| (0.4 * sent + 0.9) / (0.6 * sent + 0.6);
        let expected = worth(0.475) / worth(0.5);
        assert!(
            expected > 1.0 && (sent.high.unwrap() / calm.high.unwrap() - expected).abs() < 1e-3
        );
        assert_eq!((sent.mean, sent.low), (calm.mean, calm.low));
        let (low, high) = ends(equal_mix(&[Direction::Receive]));
        assert!(low < calm.low.unwrap() && high == calm.high.unwrap(), "{low} {high}");
    }

    #[test]
    fn without_cells_of_one_direction_there_is_no_equal_mix() {
        let (study, stored) = study("\"transmit\", \"bidirectional\"");
        let runs = RunsByCell::of(&study, &stored);
        for comparison in effects::comparisons(&study) {
            assert_eq!(at_equal_mix(&comparison, &study, &runs, 0.95), None);
        }
    }
}
