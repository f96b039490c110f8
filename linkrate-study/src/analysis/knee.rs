//! Where a larger window stops to help: the knee of throughput over the size of the socket buffers, as
//! it was measured, and as the round trip says.
//!
//! A connection sends one window each round trip ([`path`]). The smallest window gives the round trip
//! of a path without a queue, and the limit of the links then gives the window that fills them.

use std::time::Duration;

use linkrate_model::BitRate;
use linkrate_wire::limits::path;

use crate::labels;
use crate::levels::{Level, Levels};
use crate::results::{CellResult, Knee};

/// The factor that sets the measurement.
pub const FACTOR: &str = "socket";

/// The share of the limit from which a window is taken to fill the line, as the verdict does.
const FULL: f64 = crate::verdict::LINK_BOUND_PERCENT / 100.0;

/// Fewest sizes of a knee.
const MIN_SIZES: usize = 3;

/// The knees of the sweeps among the cells, in the order of the study: those of at least three windows, of
/// which the smallest does not fill the line, and is not bound by a CPU: its round trip would be the time that the CPU took.
pub fn of(cells: &[CellResult]) -> Vec<Knee> {
    let mut sweeps: Vec<Levels> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.levels.get(FACTOR).is_some()) {
        let others = others(cell);
        if !sweeps.contains(&others) {
            sweeps.push(others);
        }
    }
    sweeps.into_iter().filter_map(|at| one(cells, at)).collect()
}

fn others(cell: &CellResult) -> Levels {
    Levels(cell.levels.0.iter().filter(|(factor, _)| factor != FACTOR).cloned().collect())
}

fn one(cells: &[CellResult], at: Levels) -> Option<Knee> {
    let mut sweep: Vec<(f64, &Level, f64, f64, bool)> = cells
        .iter()
        .filter(|cell| cell.levels.get(FACTOR).is_some() && others(cell) == at)
        .filter_map(|cell| {
            let level = cell.levels.get(FACTOR)?;
            let (rate, limit) = (cell.throughput?.interval.mean, cell.limit?.interval.mean);
            let of_cpu = cell.verdict.is_bound_by_a_cpu();
            Some((labels::number(level)?, level, rate, limit, of_cpu))
        })
        .collect();
    sweep.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (window, smallest, rate, limit, of_cpu) = *sweep.first()?;
    if sweep.len() < MIN_SIZES || rate <= 0.0 || rate >= limit * FULL || of_cpu {
        return None;
    }
    let round_trip = Duration::try_from_secs_f64(window * 8.0 / rate).ok()?;
    Some(Knee {
        at,
        smallest: smallest.clone(),
        largest: sweep.last()?.1.clone(),
        round_trip,
        fills: path::bandwidth_delay(BitRate(limit), round_trip),
        reached: sweep.iter().find(|cell| cell.2 >= cell.3 * FULL).map(|cell| cell.1.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::quantity::{Interval, Quantity, Unit};
    use crate::verdict::{Bottleneck, CpuShare, Judged};

    fn cells(sweep: &[(&str, f64)]) -> Vec<CellResult> {
        let stored = fixture::under_way(fixture::ladder(), Vec::new());
        let results = crate::analysis::analyse(&stored);
        let quantity = |mean| Quantity {
            interval: Interval { mean, low: None, high: None },
            unit: Unit::BitsPerSecond,
        };
        let cell = |(window, rate): &(&str, f64)| CellResult {
            levels: Levels(vec![
                ("message".to_owned(), Level::Number(1)),
                (FACTOR.to_owned(), Level::Text((*window).to_owned())),
            ]),
            throughput: Some(quantity(*rate)),
            limit: Some(quantity(500e6)),
            ..results.cells[0].clone()
        };
        sweep.iter().map(cell).collect()
    }

    /// 16 KiB each 500 µs are 262 Mb/s; 500 Mb/s take 31.25 KB.
    #[test]
    fn the_window_that_fills_the_line_follows_from_the_smallest() {
        let rate = 16_384.0 * 8.0 / 500e-6;
        let sweep = cells(&[("64 KiB", 499e6), ("16 KiB", rate), ("32 KiB", 490e6)]);
        let [knee] = &of(&sweep)[..] else { panic!("one sweep") };
        assert_eq!(knee.smallest, Level::Text("16 KiB".to_owned()));
        assert!((knee.round_trip.as_secs_f64() - 500e-6).abs() < 1e-9);
        assert!((31_250..=31_251).contains(&knee.fills), "{}", knee.fills);
        assert_eq!(knee.reached, Some(Level::Text("32 KiB".to_owned())));
        assert_eq!(knee.at.0.len(), 1);
    }

    #[test]
    fn a_window_beside_a_full_cpu_tells_no_round_trip() {
        let mut sweep = cells(&[("16 KiB", 100e6), ("32 KiB", 101e6), ("64 KiB", 499e6)]);
        assert_eq!(of(&sweep).len(), 1);
        let sut = CpuShare { percent: 99.0, of_thread: false };
        sweep[0].verdict.directions = vec![Judged {
            direction: None,
            bottleneck: Bottleneck::SutCpu { sut },
            link_percent: None,
            shortfall: Vec::new(),
            agreeing: (5, 5),
        }];
        assert_eq!(of(&sweep), []);
    }

    #[test]
    fn a_sweep_without_a_knee_has_none() {
        // the smallest fills the line already; two are no sweep
        assert_eq!(of(&cells(&[("16 KiB", 490e6), ("32 KiB", 499e6), ("64 KiB", 499e6)])), []);
        assert_eq!(of(&cells(&[("16 KiB", 100e6), ("32 KiB", 499e6)])), []);
        let never = of(&cells(&[("16 KiB", 100e6), ("32 KiB", 200e6), ("64 KiB", 400e6)]));
        assert_eq!(never[0].reached, None);
    }
}
