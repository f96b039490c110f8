//! The parts of a service demand: what ran on the CPUs of the system under test.
//!
//! A [trace](linkrate_model::cpu_use::CpuParts) has the time on the CPU of each part. What is busy by the CPU meter and in no part is
//! *not attributed*. It may belong to any of them, so it widens the interval of each. Where the parts are more than the busy time, as
//! by time that a hypervisor took from them, each is taken as less by the same share, and may be off by that share.
//!
//! A driver of a real adapter costs something else than that of a virtual one. A ratio of service demands holds for both as
//! far as it is the same [without the driver](without_driver).

use std::collections::BTreeMap;

use linkrate_model::Measurement;

use super::effects::Comparison;
use super::runs_by_cell::RunsByCell;
use super::uncertainty::{self, Reach};
use super::{adapter, measures};
use crate::quantity::{Interval, Measure};
use crate::results::DemandParts;
use crate::results::figures::TOE_FACTOR;
use crate::store::StoredRun;
use linkrate_stats::interval::of_mean;
use linkrate_stats::paired;
use linkrate_stats::sample::mean;

/// Parts of the service demand of one run, in its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parts {
    /// In the order of [`CpuParts::own`](linkrate_model::cpu_use::CpuParts::own).
    known: [f64; 8],
    not_attributed: f64,
    /// The share by which the parts were more than all.
    excess: f64,
    /// The share of what a hypervisor may have taken from each.
    stolen: f64,
    driver_is: Driver,
}

/// What the part of the driver contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// There is no emulated driver.
    Absent,
    /// The driver.
    Alone,
    /// The driver, and the receive processing of the host in its writes.
    Receiving,
}

impl Driver {
    fn of(run: &Measurement) -> Self {
        match adapter::evidence(run).filter(|counted| !counted.driver_threads.is_empty()) {
            None => Self::Absent,
            Some(counted) if counted.receives_in_drivers => Self::Receiving,
            Some(_) => Self::Alone,
        }
    }
}

/// Where the driver's part is.
const DRIVER: usize = 1;

impl Parts {
    fn driver(&self) -> f64 {
        self.known[DRIVER]
    }

    /// Everything but the driver.
    fn rest(&self) -> f64 {
        self.known.iter().sum::<f64>() + self.not_attributed - self.driver()
    }
}

/// The parts of a run; `None` where it was not traced, and where other roles share the CPUs.
fn of_run(run: &StoredRun) -> Option<Parts> {
    let measured = run.measurement()?;
    let demand = measures::service_demand(measured, run.spec.is_transactional())?;
    parts(measured, demand)
}

fn parts(run: &Measurement, demand: f64) -> Option<Parts> {
    let parts = run.sut_cpu.parts.filter(|_| !run.sut_cpu.shared)?;
    let busy_ns = run.sut_cpu.busy_ns();
    let own_ns = run.sut_cpu.own_busy_ns();
    if own_ns == 0 {
        return None;
    }
    let not_attributed_ns = parts.not_attributed_ns(busy_ns) as f64;
    let known_ns: f64 = parts.own().iter().map(|ns| *ns as f64).sum();
    let excess = (-not_attributed_ns / known_ns.max(1.0)).clamp(0.0, 1.0);
    let share = |ns: f64| demand * ns / own_ns as f64;
    Some(Parts {
        known: parts.own().map(|ns| share(ns as f64) * (1.0 - excess)),
        not_attributed: share(not_attributed_ns.max(0.0)),
        excess,
        stolen: (run.sut_cpu.uncertainty_ns() as f64 / own_ns as f64).min(1.0),
        driver_is: Driver::of(run),
    })
}

/// An interval of a part, to which all that is not attributed may belong, and which may be off by a share.
fn widened(interval: Interval, not_attributed: f64, share: f64) -> Interval {
    let off = interval.mean * share;
    let widened = Interval {
        low: interval.low.map(|low| low - off),
        high: interval.high.map(|high| high + off + not_attributed),
        ..interval
    };
    widened.within(None)
}

/// The parts with intervals of this level; `None` unless all good runs have them.
pub fn of_cell(runs: &[&StoredRun], level: f64) -> Option<DemandParts> {
    let good = runs.iter().filter(|run| run.is_good());
    let parts = good.map(|run| of_run(run)).collect::<Option<Vec<Parts>>>()?;
    let values = |of: &dyn Fn(&Parts) -> f64| -> Vec<f64> { parts.iter().map(of).collect() };
    let not_attributed = mean(&values(&|parts| parts.not_attributed))?;
    let off = mean(&values(&|parts| parts.excess + parts.stolen))?;
    let of = |part: usize| {
        let interval = of_mean(&values(&|parts| parts.known[part]), level)?;
        Some(widened(interval, not_attributed, off))
    };
    let has_driver = parts.iter().all(|parts| parts.driver_is != Driver::Absent);
    Some(DemandParts {
        application: of(0)?,
        driver: of(DRIVER).filter(|_| has_driver),
        receives_in_driver: parts.iter().any(|parts| parts.driver_is == Driver::Receiving),
        napi: of(2)?,
        softirqs: of(3)?,
        interrupts: of(4)?,
        idle_loop: of(5)?,
        kernel: of(6)?,
        linkrate: of(7)?,
        not_attributed,
    })
}

/// The service demand of a cell's runs beside the part of the driver, by block, and how far they may lie from it; `None`
/// unless all runs had an emulated driver and parts. What a host received in the driver is taken out with it if that is
/// permitted; otherwise there is nothing to take out.
pub fn beside_the_driver(
    runs: &RunsByCell<'_>,
    cell: usize,
    with_receiving: bool,
) -> Option<(BTreeMap<u32, f64>, Reach)> {
    let is_apart = |driver: Driver| match driver {
        Driver::Absent => false,
        Driver::Alone => true,
        Driver::Receiving => with_receiving,
    };
    let good = runs.cell(cell).iter().filter(|run| run.is_good());
    let of_block = |run: &&StoredRun| {
        let parts = of_run(run).filter(|parts| is_apart(parts.driver_is))?;
        Some((run.block, parts))
    };
    let parts: BTreeMap<u32, Parts> = good.map(of_block).collect::<Option<_>>()?;
    // what is not attributed may be the driver's
    let sum = |of: fn(&Parts) -> f64| -> f64 { parts.values().map(of).sum() };
    let share = sum(|parts| parts.not_attributed + parts.rest() * parts.excess) / sum(Parts::rest);
    // without a rest there is nothing to be uncertain of
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let whole = uncertainty::of_cell(runs, cell, Measure::ServiceDemand);
    let reach = Reach::of_shares(share, share).and(whole);
    Some((parts.iter().map(|(block, parts)| (*block, parts.rest())).collect(), reach))
}

/// The change in service demand of a comparison without the driver's part in either cell; `None` unless both have
/// parts, and an emulated driver that has one of its own. Hosts of a TCP offload engine receive in the driver: what
/// the engine saves beside all of that is the least.
pub fn without_driver(
    comparison: &Comparison,
    runs: &RunsByCell<'_>,
    level: f64,
) -> Option<Interval> {
    let of_engine = comparison.factor == TOE_FACTOR;
    let (from, of_from) = beside_the_driver(runs, comparison.from_cell, of_engine)?;
    let (to, of_to) = beside_the_driver(runs, comparison.to_cell, of_engine)?;
    let pairs = from.iter().map(|(block, rest)| (Some(*rest), to.get(block).copied()));
    let ratio = paired::ratio(pairs, level)?.ratio;
    Some(Reach::of_ratio([of_from, of_to]).widen(ratio))
}

/// The bounds of a change without the driver that excludes the sign of the whole change, and is excluded by it: a driver that
/// turns the sign is less likely than parts that are wrong. `None` where both may have one sign.
pub fn bounds(whole: Interval, without: Interval) -> Option<Interval> {
    let (lower, upper) =
        if whole.mean < without.mean { (whole, without) } else { (without, whole) };
    let exclude_each_other = lower.high? < 1.0 && upper.low? > 1.0;
    exclude_each_other.then_some(Interval { mean: without.mean, low: lower.low, high: upper.high })
}

#[cfg(test)]
mod tests {
    use linkrate_model::cpu_use::CpuParts;
    use linkrate_model::measurement::ThreadTime;

    use super::*;
    use crate::fixture;
    use crate::store::Outcome;

    /// A run whose SUT was busy for half of two seconds, of which the driver and the NAPI thread took these shares and
    /// this share is in no part. The application has the rest.
    fn run(driver: f64, napi: f64, not_attributed: f64) -> StoredRun {
        let mut measured = fixture::stream(1e9, 0.5);
        let ns = |share: f64| (share * 1e9).round() as u64;
        measured.sut_cpu.parts = Some(CpuParts {
            application_ns: ns(1.0 - driver - napi - not_attributed),
            driver_ns: ns(driver),
            napi_ns: ns(napi),
            ..CpuParts::default()
        });
        let mut counted = fixture::counted(90.0, 1.0);
        let thread = counted.device_threads[0].clone();
        counted.driver_threads = vec![ThreadTime { name: "drv 0".to_owned(), ..thread }];
        measured.evidence.adapter = Some(counted);
        fixture::run(0, 0, Some(0), measured)
    }

    fn changed(mut run: StoredRun, change: impl FnOnce(&mut Measurement)) -> StoredRun {
        if let Outcome::Measured(measured) = &mut run.outcome {
            change(measured);
        }
        run
    }

    fn of(runs: &[StoredRun]) -> Option<DemandParts> {
        of_cell(&runs.iter().collect::<Vec<_>>(), 0.95)
    }

    fn demand(run: &StoredRun) -> f64 {
        measures::service_demand(run.measurement().unwrap(), false).unwrap()
    }

    #[test]
    fn the_parts_of_a_service_demand_are_all_of_it() {
        let runs = [run(0.6, 0.1, 0.02), run(0.5, 0.2, 0.04)];
        let parts = of(&runs).unwrap();
        let whole = demand(&runs[0]);
        let near = |part: f64, of_whole: f64| {
            assert!((part / whole - of_whole).abs() < 1e-6, "{part} of {whole}: {of_whole}");
        };
        near(parts.application.mean, 0.27);
        near(parts.driver.unwrap().mean, 0.55);
        near(parts.napi.mean, 0.15);
        near(parts.not_attributed, 0.03);
        near(parts.kernel.mean, 0.0);
        // Student's t with 1 degree of freedom times 0.05; and what is not attributed may be the driver's
        let driver = parts.driver.unwrap();
        near(driver.low.unwrap(), 0.0);
        near(driver.high.unwrap() - driver.mean, 12.7062 * 0.05 + 0.03);
    }

    #[test]
    fn parts_that_are_more_than_all_are_less_by_one_share() {
        // 1.25 s where 1 s was busy
        let parts = of(&[run(0.6, 0.1, -0.25), run(0.6, 0.1, -0.25)]).unwrap();
        let whole = demand(&run(0.6, 0.1, 0.0));
        let driver = parts.driver.unwrap();
        assert!((driver.mean / whole - 0.48).abs() < 1e-6, "{driver:?}");
        assert!((driver.high.unwrap() / whole - 0.48 * 1.2).abs() < 1e-6, "{driver:?}");
        assert!((driver.low.unwrap() / whole - 0.48 * 0.8).abs() < 1e-6, "{driver:?}");
        assert_eq!(parts.not_attributed, 0.0);
    }

    #[test]
    fn what_a_hypervisor_may_have_taken_is_in_the_interval_of_each_part() {
        let stolen =
            |run| changed(run, |measured| measured.sut_cpu.cpus[0].uncertainty_ns = 50_000_000);
        let [calm, stolen] = [run(0.6, 0.1, 0.0), stolen(run(0.6, 0.1, 0.0))]
            .map(|one| of(&[one.clone(), one]).unwrap().driver.unwrap());
        let off = (stolen.high.unwrap() - calm.high.unwrap()) / calm.mean;
        assert!((off - 0.05).abs() < 1e-6, "{calm:?} {stolen:?}");
        assert!(stolen.low.unwrap() < calm.low.unwrap());
    }

    #[test]
    fn the_time_of_other_programs_is_in_no_part() {
        let alone = run(0.6, 0.1, 0.0);
        let beside = changed(run(0.6, 0.1, 0.0), |measured| {
            measured.sut_cpu.cpus[0].busy_ns += 400_000_000;
            measured.sut_cpu.parts.as_mut().unwrap().others_ns = 400_000_000;
        });
        let [alone, beside] = [alone, beside].map(|run| of(&[run]).unwrap());
        assert!((alone.driver.unwrap().mean - beside.driver.unwrap().mean).abs() < 1e-9);
        assert!(beside.not_attributed.abs() < 1e-9, "{beside:?}");
    }

    #[test]
    fn what_was_not_traced_has_no_parts() {
        let traced = || run(0.6, 0.1, 0.0);
        assert_eq!(of(&[traced(), not_traced(traced())]), None);
        // the SUT's CPUs do the work of clients and devices too
        assert_eq!(of(&[changed(traced(), |measured| measured.sut_cpu.shared = true)]), None);
        assert_eq!(of(&[]), None);
        // without an emulated driver
        let bare = changed(traced(), |measured| measured.evidence.adapter = None);
        assert_eq!(of(&[bare]).unwrap().driver, None);
    }

    /// The drivers of the run process what it receives.
    fn receiving_in_drivers(run: StoredRun) -> StoredRun {
        changed(run, |measured| {
            measured.evidence.adapter.as_mut().unwrap().receives_in_drivers = true;
        })
    }

    #[test]
    fn a_driver_with_receive_processing_is_named_and_not_taken_out() {
        let [alone, with] = [run(0.6, 0.1, 0.0), receiving_in_drivers(run(0.6, 0.0, 0.0))]
            .map(|run| of(&[run]).unwrap());
        assert_eq!((alone.receives_in_driver, with.receives_in_driver), (false, true));
        assert!(change([0.6, 0.0], [0.9, 0.0], |_, run| run).is_some());
        let in_one = |cell, run| if cell == 0 { receiving_in_drivers(run) } else { run };
        assert_eq!(change([0.6, 0.0], [0.9, 0.0], in_one), None);
    }

    fn not_traced(run: StoredRun) -> StoredRun {
        changed(run, |measured| measured.sut_cpu.parts = None)
    }

    /// The change without the driver between two cells; `with` may change each run of a cell.
    fn change(
        from: [f64; 2],
        to: [f64; 2],
        with: impl Fn(usize, StoredRun) -> StoredRun,
    ) -> Option<Interval> {
        let study = fixture::ladder();
        let comparison = &super::super::effects::comparisons(&study)[0];
        let mut stored = Vec::new();
        for block in 0..5 {
            let cells = [(comparison.from_cell, from), (comparison.to_cell, to)];
            for (cell, [driver, not_attributed]) in cells {
                let mut run = with(cell, run(driver, 0.0, not_attributed));
                run.block = block;
                run.cell = Some(cell as u32);
                stored.push(run);
            }
        }
        let runs = RunsByCell::of(&study, &stored);
        let found = super::super::directions::compare(comparison, &study, &runs, 0.95);
        let of = |measure| found.iter().find(|effect| effect.measure == measure).unwrap().clone();
        assert_eq!(of(Measure::Throughput).without_driver, None);
        let effect = of(Measure::ServiceDemand);
        assert!((effect.ratio.mean - 1.0).abs() < 1e-9, "{effect:?}");
        effect.without_driver
    }

    #[test]
    fn a_change_that_contradicts_the_whole_is_not_known() {
        let of = |low: f64, high: f64| Interval {
            mean: (low * high).sqrt(),
            low: Some(low),
            high: Some(high),
        };
        let (cheaper, dearer) = (of(0.6, 0.8), of(1.3, 1.8));
        for (whole, without) in [(cheaper, dearer), (dearer, cheaper)] {
            let bounds = bounds(whole, without).unwrap();
            assert_eq!((bounds.low, bounds.high), (Some(0.6), Some(1.8)));
        }
        for (whole, without) in [
            (cheaper, cheaper),
            (dearer, dearer),
            // one of them may have either sign, or any size
            (cheaper, of(0.9, 1.4)),
            (of(0.9, 1.05), dearer),
            (cheaper, Interval { low: None, high: None, ..dearer }),
        ] {
            assert_eq!(bounds(whole, without), None);
        }
    }

    #[test]
    fn a_change_without_the_driver_is_that_of_the_rest() {
        let ratio = change([0.6, 0.0], [0.9, 0.0], |_, run| run).unwrap();
        assert!((ratio.mean - 0.1 / 0.4).abs() < 1e-6, "{ratio:?}");
        // a twentieth of 0.4, and a tenth of 0.1
        let uncertainty = change([0.6, 0.02], [0.9, 0.01], |_, run| run).unwrap();
        assert!((uncertainty.mean - ratio.mean).abs() < 1e-9, "{uncertainty:?}");
        let (low, high) = (
            uncertainty.low.unwrap() / ratio.low.unwrap(),
            uncertainty.high.unwrap() / ratio.high.unwrap(),
        );
        assert!(
            (low - 0.9 / 1.05).abs() < 0.01 && (high - 1.1 / 0.95).abs() < 0.02,
            "{low} {high}"
        );
        assert_eq!(change([0.6, 0.0], [0.9, 0.0], |_, run| not_traced(run)), None);
    }
}
