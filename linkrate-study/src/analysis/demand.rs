//! The parts of a service demand: what the host does for an application, and what the driver of a virtual
//! adapter does.
//!
//! The CPU time of the driver threads is counted. The host's stack works in these threads too: its receive
//! processing, and what TCP sends because of it. How much of it is in which thread depends on the load, so all of it
//! is the stack's part, and a driver has [its own work](linkrate_terms::tap::TapEvidence::driver_ns) only.
//! Of this, a part is that of the system calls and copies at the TAP, which a real adapter does not cost
//! its host: the calls of the run at the [prices](linkrate_terms::tap) that were measured in the lab.
//!
//! A driver of a real adapter costs something else than this one. A ratio of service demands holds for both as far
//! as it is the same [without the driver](without_driver).

use std::collections::BTreeMap;

use linkrate_terms::Measurement;
use linkrate_terms::measurement::AdapterEvidence;
use linkrate_terms::tap::TapPrices;

use super::effects::Comparison;
use super::measures::RunsByCell;
use super::{adapter, measures, unsure};
use crate::quantity::{Interval, Measure};
use crate::results::{DemandParts, PartIntervals, TapPart};
use crate::store::StoredRun;
use linkrate_stats::interval::of_mean;
use linkrate_stats::paired;
use linkrate_stats::sample::mean;

/// Parts of the busy time of one run's SUT, as fractions of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shares {
    /// The driver threads, with the stack's work in them.
    threads: f64,
    /// The stack's work in them, where it is known.
    stack: Option<f64>,
    tap: Option<[f64; 3]>,
}

impl Shares {
    /// The driver: its threads, without the stack's work in them if `is_divided`.
    fn driver(&self, is_divided: bool) -> f64 {
        self.threads - self.stack.filter(|_| is_divided).unwrap_or(0.0)
    }
}

/// Whether the stack's work in the driver threads is known of all these runs. Otherwise it counts as the driver's in all.
fn is_divided<'a>(shares: impl IntoIterator<Item = &'a Shares>) -> bool {
    shares.into_iter().all(|shares| shares.stack.is_some())
}

/// The service demand of a run and the parts of it.
fn of_run(run: &StoredRun) -> Option<(f64, Shares)> {
    let measured = run.measurement()?;
    let demand = measures::service_demand(measured, run.spec.is_transactional())?;
    Some((demand, shares(measured)?))
}

/// The parts with intervals of this level; `None` without an emulated driver, and where other roles share the SUT's CPUs.
pub fn of_cell(runs: &[&StoredRun], level: f64) -> Option<DemandParts> {
    let parts: Vec<(f64, Shares)> = runs.iter().filter_map(|run| of_run(run)).collect();
    let values_of = |of: &dyn Fn(&Shares) -> Option<f64>| -> Option<Vec<f64>> {
        parts.iter().map(|(demand, shares)| Some(demand * of(shares)?)).collect()
    };
    let of_tap = |which: usize| mean(&values_of(&|shares| Some(shares.tap?[which]))?);
    let tap = of_tap(0).zip(of_tap(1).zip(of_tap(2)));
    let divided = is_divided(parts.iter().map(|(_, shares)| shares));
    let driver = of_mean(&values_of(&|shares| Some(shares.driver(divided)))?, level)?;
    let rest = of_mean(&values_of(&|shares| Some(1.0 - shares.driver(divided)))?, level)?;
    let share = unsure_of_rest(runs, driver.mean, rest.mean);
    Some(DemandParts {
        application_and_stack: rest.mean,
        driver: driver.mean,
        stack_in_driver: mean(&values_of(&|shares| shares.stack).unwrap_or_default()),
        tap: tap.map(|(mean, (low, high))| TapPart { mean, low, high }),
        intervals: PartIntervals { application_and_stack: unsure::of_mean(rest, share), driver },
    })
}

/// The share of everything except the driver that may be the work of other programs, at most 1: the time of
/// the driver's threads is known.
fn unsure_of_rest(runs: &[&StoredRun], driver: f64, rest: f64) -> f64 {
    let share = unsure::of_runs(runs, Measure::ServiceDemand) * (driver + rest) / rest;
    // without a rest there is nothing to be unsure of
    if share.is_finite() { share.min(1.0) } else { 0.0 }
}

/// The change in service demand of a comparison without the driver's part in either cell; `None` unless both have
/// an emulated driver.
pub fn without_driver(
    comparison: &Comparison,
    runs: &RunsByCell<'_>,
    level: f64,
) -> Option<Interval> {
    let cells = [comparison.from_cell, comparison.to_cell];
    let parts = cells.map(|cell| {
        let part = |run: &&StoredRun| Some((run.block, of_run(run)?));
        (runs.cell(cell), runs.cell(cell).iter().filter_map(part).collect::<Vec<_>>())
    });
    let all = parts.iter().flat_map(|(_, parts)| parts.iter().map(|(_, (_, shares))| shares));
    let divided = is_divided(all);
    let [(from, from_unsure), (to, to_unsure)] = parts.map(|(runs, parts)| {
        let sum = |of: fn(f64) -> f64| -> f64 {
            parts.iter().map(|(_, (demand, shares))| demand * of(shares.driver(divided))).sum()
        };
        let unsure = unsure_of_rest(runs, sum(|driver| driver), sum(|driver| 1.0 - driver));
        let rest = parts
            .iter()
            .map(|(block, (demand, shares))| (*block, demand * (1.0 - shares.driver(divided))));
        (rest.collect::<BTreeMap<u32, f64>>(), unsure)
    });
    let pairs = from.iter().map(|(block, rest)| (Some(*rest), to.get(block).copied()));
    let ratio = paired::ratio(pairs, level)?.ratio;
    Some(unsure::of_ratio(ratio, [from_unsure, to_unsure]))
}

fn shares(run: &Measurement) -> Option<Shares> {
    let counted = adapter::evidence(run).filter(|_| !run.sut_cpu.shared)?;
    let busy_cpus = run.sut_cpu.own_busy_cpus();
    if counted.driver_threads.is_empty() || counted.window_ns == 0 || busy_cpus <= 0.0 {
        return None;
    }
    let share = |ns: f64| ns / counted.window_ns as f64 / busy_cpus;
    // times of threads and of CPUs are not read at one moment
    let threads = share(threads_ns(counted) as f64).min(1.0);
    let own = own_ns(counted).map(|ns| share(ns).min(threads));
    let (stack, own) = (own.map(|own| threads - own), own.unwrap_or(threads));
    let cost = counted.tap.as_ref().and_then(|tap| tap.cost());
    let tap = cost.map(|cost| [cost.ns, cost.low_ns, cost.high_ns].map(|ns| share(ns).min(own)));
    Some(Shares { threads, stack, tap })
}

/// CPU time of the driver's own work, ns; `None` if a part of it is not known.
pub fn own_ns(counted: &AdapterEvidence) -> Option<f64> {
    let user_ns = counted.driver_threads.iter().map(|thread| thread.user_ns).sum();
    counted.tap.as_ref()?.driver_ns(user_ns)
}

/// CPU time of the driver threads together, ns.
fn threads_ns(counted: &AdapterEvidence) -> u64 {
    counted.driver_threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.cpu_ns))
}

/// The prices that the runs were reckoned with, if any was.
pub fn prices(run: &Measurement) -> Option<&TapPrices> {
    adapter::evidence(run)?.tap.as_ref()?.prices.as_ref()
}

#[cfg(test)]
mod tests {
    use linkrate_terms::measurement::ThreadTime;
    use linkrate_terms::tap::{CallPrice, Calls, Price, TapCalls, TapEvidence};

    use super::*;
    use crate::fixture;

    /// A run whose SUT was busy for half of two seconds, of which the driver took this share. It read a
    /// million packets at `price_ns` each.
    fn run(driver: f64, price_ns: Option<f64>) -> StoredRun {
        divided_run(driver, price_ns, None)
    }

    /// The same, where it is known how often the driver slept, for 1 ms of CPU time each. Its threads have no user time.
    fn divided_run(driver: f64, price_ns: Option<f64>, sleeps: Option<u64>) -> StoredRun {
        let mut measured = fixture::stream(1e9, 0.5);
        let mut counted = fixture::counted(90.0, 1.0);
        let thread = counted.device_threads[0].clone();
        let cpu_ns = (driver * 0.5 * counted.window_ns as f64) as u64;
        counted.driver_threads = vec![ThreadTime { name: "drv 0".to_owned(), cpu_ns, ..thread }];
        let mut calls = TapCalls::default();
        calls.reads[0] = Calls { calls: 1_000_000, bytes: 64_000_000 };
        let price = |ns| Price { ns, low_ns: ns * 0.9, high_ns: ns * 1.1 };
        let prices = price_ns.map(|ns| {
            let read = CallPrice { call: price(ns), ..CallPrice::default() };
            TapPrices { read, sleep: price(1e6), ..TapPrices::default() }
        });
        calls.sleeps = sleeps;
        counted.tap = Some(Box::new(TapEvidence { calls, prices }));
        measured.evidence.adapter = Some(counted);
        fixture::run(0, 0, Some(0), measured)
    }

    fn parts(runs: &[StoredRun]) -> Option<DemandParts> {
        of_cell(&runs.iter().collect::<Vec<_>>(), 0.95)
    }

    fn demand(run: &StoredRun) -> f64 {
        measures::service_demand(run.measurement().unwrap(), false).unwrap()
    }

    #[test]
    fn the_parts_of_a_service_demand_are_all_of_it() {
        // a million calls of 200 ns are 0.2 s of 1 s
        let runs = [run(0.6, Some(200.0)), run(0.8, Some(200.0))];
        let parts = parts(&runs).unwrap();
        let whole = (demand(&runs[0]) + demand(&runs[1])) / 2.0;
        let near = |part: f64, of_whole: f64| {
            assert!((part / whole - of_whole).abs() < 1e-6, "{part} of {whole}: {of_whole}");
        };
        near(parts.application_and_stack, 0.3);
        near(parts.driver, 0.7);
        let tap = parts.tap.unwrap();
        near(tap.mean, 0.2);
        near(tap.low, 0.18);
        near(tap.high, 0.22);
    }

    #[test]
    fn the_work_of_the_stack_in_the_drivers_threads_is_the_stacks() {
        // of 0.8 s, a million calls of 200 ns and 300 sleeps are 0.5 s
        let divided = || divided_run(0.8, Some(200.0), Some(300));
        let whole = demand(&divided());
        let of = |runs: &[StoredRun]| {
            let parts = parts(runs).unwrap();
            let stack = parts.stack_in_driver;
            [parts.application_and_stack, parts.driver, stack.unwrap_or(f64::NAN)]
                .map(|part| (part / whole * 1e6).round() / 1e6)
        };
        assert_eq!(of(&[divided(), divided()]), [0.5, 0.5, 0.3]);
        // a driver has no more than its threads had
        assert_eq!(of(&[divided_run(0.4, Some(200.0), Some(900))]), [0.6, 0.4, 0.0]);
        // if it is not known of a run, as of earlier versions, it is the driver's in all
        let [rest, driver, stack] = of(&[divided(), run(0.8, Some(200.0))]);
        assert!([rest, driver] == [0.2, 0.8] && stack.is_nan());
    }

    #[test]
    fn changes_without_the_driver_have_the_stack_of_both_cells_or_of_neither() {
        let study = fixture::ladder();
        let comparison = &super::super::effects::comparisons(&study)[0];
        let ratio = |sleeps_of: [Option<u64>; 2]| {
            let mut stored = Vec::new();
            for block in 0..5 {
                let cells = [(comparison.from_cell, 0.9), (comparison.to_cell, 0.6)];
                for ((cell, driver), sleeps) in cells.into_iter().zip(sleeps_of) {
                    let mut run = divided_run(driver, Some(100.0), sleeps);
                    run.block = block;
                    run.cell = Some(cell as u32);
                    stored.push(run);
                }
            }
            without_driver(comparison, &RunsByCell::of(&study, &stored), 0.95).unwrap().mean
        };
        // 0.1 and 0.4 outside of the driver's threads; the driver has 0.2 and 0.5, and the stack the rest
        assert!((ratio([Some(100), Some(400)]) - 0.5 / 0.8).abs() < 1e-6);
        assert!((ratio([Some(100), None]) - 0.4 / 0.1).abs() < 1e-6);
    }

    /// Where other programs may have had this share of the busy time.
    fn disturbed(mut run: StoredRun, share: f64) -> StoredRun {
        if let crate::store::Outcome::Measured(measured) = &mut run.outcome {
            let cpu_ns = (measured.sut_cpu.busy_ns() as f64 * share) as u64;
            measured.sut_cpu.others = fixture::roaming(cpu_ns);
        }
        run
    }

    #[test]
    fn each_part_has_the_interval_of_its_runs() {
        let of = |unsure| {
            let runs = [0.6, 0.7, 0.8].map(|driver| disturbed(run(driver, None), unsure));
            (demand(&runs[0]), parts(&runs).unwrap())
        };
        let ((whole, calm), (_, unsure)) = (of(0.0), of(0.03));
        let intervals = calm.intervals;
        let half = |of: Interval| (of.high.unwrap() - of.low.unwrap()) / 2.0 / whole;
        // Student's t with 2 degrees of freedom times 0.1 over the root of 3
        let expected = 4.3027 * 0.1 / 3.0_f64.sqrt();
        assert!((half(intervals.driver) - expected).abs() < 1e-3, "{intervals:?}");
        assert!((half(intervals.application_and_stack) - expected).abs() < 1e-3);
        assert_eq!(
            [intervals.driver.mean, intervals.application_and_stack.mean],
            [calm.driver, calm.application_and_stack]
        );
        // what may be of others is no part of the driver: 3 % of the whole
        assert_eq!(unsure.intervals.driver, intervals.driver);
        let rest = [unsure.intervals, intervals].map(|of| of.application_and_stack.low.unwrap());
        assert!(((rest[1] - rest[0]) / whole - 0.03).abs() < 1e-6, "{rest:?}");
    }

    #[test]
    fn a_change_without_the_driver_is_that_of_the_rest() {
        let study = fixture::ladder();
        let comparisons = super::super::effects::comparisons(&study);
        let comparison = &comparisons[0];
        // the driver saves nothing, the rest three quarters
        let change = |share: f64, unsure: f64| {
            let mut stored = Vec::new();
            for block in 0..5 {
                for (cell, driver) in [(comparison.from_cell, 0.6), (comparison.to_cell, share)] {
                    let mut run = disturbed(run(driver, None), unsure);
                    run.block = block;
                    run.cell = Some(cell as u32);
                    stored.push(run);
                }
            }
            let runs = RunsByCell::of(&study, &stored);
            let found = super::super::ways::compare(comparison, &study, &runs, 0.95);
            let of =
                |measure| found.iter().find(|effect| effect.measure == measure).unwrap().clone();
            assert_eq!(of(Measure::Throughput).without_driver, None);
            of(Measure::ServiceDemand)
        };
        let effect = change(0.9, 0.0);
        let ratio = effect.without_driver.unwrap();
        assert!((effect.ratio.mean - 1.0).abs() < 1e-9, "{effect:?}");
        assert!((ratio.mean - 0.1 / 0.4).abs() < 1e-6, "{ratio:?}");
        // 2 % of the whole are 20 % of a tenth of it, and 5 % of 0.4
        let unsure = change(0.9, 0.02).without_driver.unwrap();
        assert_eq!(unsure.mean, ratio.mean);
        assert!((unsure.low.unwrap() / ratio.low.unwrap() - 0.8).abs() < 1e-6, "{unsure:?}");
        assert!((unsure.high.unwrap() / ratio.high.unwrap() - 1.0 / 0.95).abs() < 1e-6);
    }

    #[test]
    fn no_part_is_larger_than_the_driver() {
        let tap = parts(&[run(0.6, Some(900.0))]).unwrap().tap.unwrap();
        let parts = parts(&[run(0.6, Some(900.0))]).unwrap();
        assert_eq!((tap.mean, tap.high), (parts.driver, parts.driver));
    }

    #[test]
    fn what_was_not_measured_is_absent_and_not_zero() {
        // without prices, as in runs of earlier versions
        let unpriced = parts(&[run(0.6, None)]).unwrap();
        assert!(unpriced.driver > 0.0 && unpriced.tap.is_none());
        assert_eq!(parts(&[run(0.6, None), run(0.6, Some(200.0))]).unwrap().tap, None);
        // without an emulated driver
        let bare = fixture::run(0, 0, Some(0), fixture::stream(1e9, 0.5));
        assert_eq!(parts(&[bare]), None);
        // the SUT's CPUs do the work of clients and devices too
        let mut shared = run(0.6, Some(200.0));
        if let crate::store::Outcome::Measured(measured) = &mut shared.outcome {
            measured.sut_cpu.shared = true;
        }
        assert_eq!(parts(&[shared]), None);
        assert_eq!(parts(&[]), None);
    }
}
