//! The parts of a service demand: what the host does for an application, and what the driver of a virtual
//! adapter does.
//!
//! The CPU time of the driver threads is counted, so the division between them and the rest needs no
//! samples. Of their time, a part is that of the system calls and copies at the TAP, which a real adapter
//! does not cost its host: the calls of the run at the [prices](linkrate_terms::tap) that were measured in
//! the lab.

use linkrate_terms::Measurement;
use linkrate_terms::measurement::AdapterEvidence;
use linkrate_terms::tap::TapPrices;

use super::{adapter, measures};
use crate::results::{DemandParts, TapPart};
use crate::stats::sample::mean;
use crate::store::StoredRun;

/// Parts of the busy time of one run's SUT, as fractions of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shares {
    driver: f64,
    tap: Option<[f64; 3]>,
}

/// The parts; `None` without an emulated driver, and where other roles share the SUT's CPUs.
pub fn of_cell(runs: &[&StoredRun]) -> Option<DemandParts> {
    let parts = runs.iter().filter_map(|run| {
        let measured = run.measurement()?;
        let demand = measures::service_demand(measured, run.spec.is_transactional())?;
        Some((demand, shares(measured)?))
    });
    let parts: Vec<(f64, Shares)> = parts.collect();
    let mean_of = |of: &dyn Fn(&Shares) -> Option<f64>| {
        let values: Option<Vec<f64>> =
            parts.iter().map(|(demand, shares)| Some(demand * of(shares)?)).collect();
        mean(&values?)
    };
    let of_tap = |which: usize| mean_of(&|shares| Some(shares.tap?[which]));
    let tap = of_tap(0).zip(of_tap(1).zip(of_tap(2)));
    Some(DemandParts {
        application_and_stack: mean_of(&|shares| Some(1.0 - shares.driver))?,
        driver: mean_of(&|shares| Some(shares.driver))?,
        tap: tap.map(|(mean, (low, high))| TapPart { mean, low, high }),
    })
}

fn shares(run: &Measurement) -> Option<Shares> {
    let counted = adapter::evidence(run).filter(|_| !run.sut_cpu.shared)?;
    let busy_cpus = run.sut_cpu.own_busy_cpus();
    if counted.driver_threads.is_empty() || counted.window_ns == 0 || busy_cpus <= 0.0 {
        return None;
    }
    let share = |ns: f64| ns / counted.window_ns as f64 / busy_cpus;
    // times of threads and of CPUs are not read at one moment
    let driver = share(driver_ns(counted) as f64).min(1.0);
    let cost = counted.tap.as_ref().and_then(|tap| tap.cost());
    let tap = cost.map(|cost| [cost.ns, cost.low_ns, cost.high_ns].map(|ns| share(ns).min(driver)));
    Some(Shares { driver, tap })
}

/// CPU time of the driver threads together, ns.
fn driver_ns(counted: &AdapterEvidence) -> u64 {
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
            TapPrices { read, ..TapPrices::default() }
        });
        counted.tap = Some(Box::new(TapEvidence { calls, prices }));
        measured.evidence.adapter = Some(counted);
        fixture::run(0, 0, Some(0), measured)
    }

    fn parts(runs: &[StoredRun]) -> Option<DemandParts> {
        of_cell(&runs.iter().collect::<Vec<_>>())
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
