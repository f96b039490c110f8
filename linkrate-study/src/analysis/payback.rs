//! Whether it is worth it to hand connections to a TCP offload engine: what a connection offload costs, what the
//! adapter saves for each KB afterwards, and after how many bytes the one has paid for the other.
//!
//! Everything is made of the runs of the study: the cost of a connection offload from its counters, in the cells whose
//! connections were offloaded; what is saved from the effect of `toe` with all else equal. Both are paired within
//! blocks. What [other programs leave uncertain](super::uncertainty) of the service demands is in all intervals that are
//! made of them; the cost of a connection offload is the time of linkrate's own threads.
//!
//! The driver that a connection at the adapter does without is an emulated one, whose system calls no host with a real
//! adapter makes, but the TCP of the host receives in these calls. So a payback is a range: with all that is saved, and
//! without the driver and all that ran in it, which is the least that is saved.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::knobs::Toe;
use linkrate_model::measurement::{BYTES_PER_KB, PortEvidence};
use linkrate_model::{Protocol, Task};

use crate::analysis::uncertainty::Reach;
use crate::analysis::{demand, uncertainty};
use crate::levels::Level;
use crate::quantity::{Interval, Measure, Quantity, Unit};
use crate::results::Effect;
use crate::results::figures::{OffloadCost, Outcome, Payback, Paybacks, ShortLived, TOE_FACTOR};
use crate::store::StoredRun;
use crate::study::{Cell, Study};
use linkrate_stats::interval::{MIN_TO_CLAIM, of_mean};
use linkrate_stats::sample::mean;
use linkrate_stats::{paired, quotient};

use super::runs_by_cell::RunsByCell;

/// The worth of connection offloads; `None` for a study that does not compare TOE on with off.
pub fn of(
    study: &Study,
    runs: &RunsByCell<'_>,
    effects: &[Effect],
    level: f64,
    level_of_pairs: f64,
) -> Option<Paybacks> {
    let costs: Vec<BTreeMap<u32, f64>> =
        (0..study.cells.len()).map(|cell| by_block(runs, cell, cost_ns)).collect();
    let paybacks: Vec<Payback> = effects
        .iter()
        .filter(|effect| {
            let is = |level: &Level, toe: Toe| *level == word(toe);
            (effect.factor.as_str(), effect.measure) == (TOE_FACTOR, Measure::ServiceDemand)
                && is(&effect.from, Toe::Off)
                && is(&effect.to, Toe::On)
        })
        .flat_map(|effect| paybacks(study, runs, &costs, effect, level_of_pairs))
        .collect();
    if paybacks.is_empty() {
        return None;
    }
    let of_cells =
        (0..study.cells.len()).filter_map(|cell| offload_cost(study, runs, &costs, cell, level));
    Some(Paybacks {
        costs: of_cells.collect(),
        paybacks,
        short_lived: short(study, runs, &costs, level, level_of_pairs),
    })
}

fn word(toe: Toe) -> Level {
    Level::Text(toe.name().to_owned())
}

/// Which TCP has the connections of a cell.
fn toe(cell: &Cell) -> Toe {
    cell.spec.interface.port.toe.unwrap_or(Toe::Off)
}

/// A figure of the runs of a cell, by block.
fn by_block(
    runs: &RunsByCell<'_>,
    cell: usize,
    figure: fn(&StoredRun) -> Option<f64>,
) -> BTreeMap<u32, f64> {
    let of_cell = runs.cell(cell).iter();
    of_cell.filter_map(|run| Some((run.block, figure(run)?))).collect()
}

fn ports(run: &StoredRun) -> &[PortEvidence] {
    let counted = run.measurement().and_then(|measured| measured.evidence.adapter.as_deref());
    counted.map_or(&[], |adapter| &adapter.ports)
}

/// The sum of a counter over the ports of a run; `None` where no port has it.
fn sum(run: &StoredRun, name: &str) -> Option<f64> {
    let counts = ports(run).iter().filter_map(|port| port.counters.get(name));
    counts.copied().reduce(u64::saturating_add).map(|count| count as f64)
}

/// Connections that went to the adapter.
fn moves(run: &StoredRun) -> Option<f64> {
    sum(run, "toeMoves.down").filter(|moves| *moves > 0.0)
}

/// CPU time of the host for one of them, ns.
fn cost_ns(run: &StoredRun) -> Option<f64> {
    Some(sum(run, "toeDownCpuNs")? / moves(run)?)
}

fn nanoseconds(interval: Interval) -> Quantity {
    Quantity { interval: interval.within(None), unit: Unit::Nanoseconds }
}

fn offload_cost(
    study: &Study,
    runs: &RunsByCell<'_>,
    costs: &[BTreeMap<u32, f64>],
    cell: usize,
    level: f64,
) -> Option<OffloadCost> {
    let mean_of =
        |values: BTreeMap<u32, f64>| of_mean(&values.into_values().collect::<Vec<_>>(), level);
    let median_us = |figure: fn(&StoredRun) -> Option<f64>| {
        let values = by_block(runs, cell, figure);
        mean_of(values.into_iter().map(|(block, us)| (block, us * 1e3)).collect()).map(nanoseconds)
    };
    Some(OffloadCost {
        at: study.cells[cell].levels.clone(),
        busy: toe(&study.cells[cell]) == Toe::Auto,
        per_run: mean_of(by_block(runs, cell, moves))?.mean,
        cpu: nanoseconds(mean_of(costs[cell].clone())?),
        peer_wait: median_us(|run| sum(run, "toeMovedUs")),
        stall: median_us(|run| sum(run, "toeStoodUs")),
    })
}

/// What becomes of the cost of connection offloads before traffic, and of those under it where the study
/// has a cell with them beside the two of `effect`.
fn paybacks(
    study: &Study,
    runs: &RunsByCell<'_>,
    costs: &[BTreeMap<u32, f64>],
    effect: &Effect,
    level: f64,
) -> Vec<Payback> {
    let find = |toe: Toe| {
        let is_it = |cell: &Cell| {
            cell.levels.get(TOE_FACTOR) == Some(&word(toe))
                && cell.levels.without(TOE_FACTOR) == effect.at
        };
        study.cells.iter().position(is_it)
    };
    let (Some(off), Some(on)) = (find(Toe::Off), find(Toe::On)) else { return Vec::new() };
    if study.cells[off].spec.is_transactional() {
        return Vec::new();
    }
    let whole = |cell| runs.by_block(cell, Measure::ServiceDemand);
    let (at_host, at_adapter) = (whole(off), whole(on));
    let uncertainty =
        [on, off].map(|cell| uncertainty::of_cell(runs, cell, Measure::ServiceDemand));
    // as measured, and where one of the costs is as low or as high as it may be
    let saved = |at_host: &BTreeMap<u32, f64>, at_adapter: &BTreeMap<u32, f64>, reaches| {
        let saved = |[of_adapter, of_host]: [f64; 2]| -> BTreeMap<u32, f64> {
            let pairs = at_host.iter().filter_map(|(block, before)| {
                Some((*block, before * of_host - at_adapter.get(block)? * of_adapter))
            });
            pairs.collect()
        };
        (saved([1.0; 2]), uncertainty::corners(reaches).map(saved).collect::<Vec<_>>())
    };
    let (measured, corners) = saved(&at_host, &at_adapter, uncertainty);
    let beside = |cell| demand::beside_the_driver(runs, cell, true);
    let beside = beside(off).zip(beside(on));
    let without_driver = beside.as_ref().map(|((before, of_host), (after, of_adapter))| {
        saved(before, after, [*of_adapter, *of_host])
    });
    let values = |of: &BTreeMap<u32, f64>| of.values().copied().collect::<Vec<_>>();
    // what each KB saves, by the costs of both ends and how far each may be off
    let saved_per_kb = |saved: &BTreeMap<u32, f64>, ends: [(&BTreeMap<u32, f64>, Reach); 2]| {
        let at_most = ends.map(|(costs, reach)| (mean(&values(costs)).unwrap_or(0.0), reach));
        let interval = uncertainty::of_difference(of_mean(&values(saved), level)?, at_most);
        Some(Quantity { interval, unit: Unit::MicrosecondsPerKb })
    };
    let saved_whole =
        saved_per_kb(&measured, [(&at_adapter, uncertainty[0]), (&at_host, uncertainty[1])]);
    let saved_beside = beside.as_ref().zip(without_driver.as_ref()).and_then(
        |(((before, of_host), (after, of_adapter)), (saved, _))| {
            saved_per_kb(saved, [(after, *of_adapter), (before, *of_host)])
        },
    );
    let one = |(cell, busy): (usize, bool)| {
        let paid_after = |saved: &BTreeMap<u32, f64>| {
            // bytes of a KB for each µs that they save
            let pairs = saved.iter().map(|(block, saved)| {
                let cost_us = costs[cell].get(block).map(|ns| ns / 1e3);
                (cost_us.map(|us| us * BYTES_PER_KB), Some(*saved))
            });
            quotient::of_pairs(pairs, level)
        };
        let with_corners = |quotient: Interval, corners: &[BTreeMap<u32, f64>]| {
            let at_corners = corners.iter().map(|saved| Some(paid_after(saved)?.quotient));
            uncertainty::with_corners(quotient, at_corners)
        };
        let found = paid_after(&measured)?;
        let bytes = with_corners(found.quotient, &corners);
        let is_bounded = |bytes: &Interval| bytes.low.is_some_and(|low| low > 0.0);
        let beside = without_driver
            .as_ref()
            .and_then(|(saved, corners)| Some(with_corners(paid_after(saved)?.quotient, corners)))
            .filter(&is_bounded)
            // as the saving by itself, of which the uncertainty of both costs takes what it may
            .filter(|_| saved_beside.is_some_and(|saved| is_bounded(&saved.interval)));
        let outcome = match (effect.significant, effect.ratio.mean < 1.0) {
            (true, true) if is_bounded(&bytes) && found.pairs >= MIN_TO_CLAIM => Outcome::Pays,
            (true, false) => Outcome::Never,
            _ => Outcome::Open,
        };
        let pays = outcome == Outcome::Pays;
        Some(Payback {
            at: effect.at.clone(),
            busy,
            saved: saved_whole?,
            saved_without_driver: saved_beside,
            outcome,
            bytes: pays.then_some(Quantity { interval: bytes, unit: Unit::Bytes }),
            bytes_without_driver: beside
                .filter(|_| pays)
                .map(|interval| Quantity { interval, unit: Unit::Bytes }),
            pairs: found.pairs,
            host_limited: effect.host_limited == Some(true),
        })
    };
    let with = [Some((on, false)), find(Toe::Auto).map(|cell| (cell, true))];
    with.into_iter().flatten().filter_map(one).collect()
}

/// What connection offloads would add to connections that carry one request each, at the host.
fn short(
    study: &Study,
    runs: &RunsByCell<'_>,
    costs: &[BTreeMap<u32, f64>],
    level: f64,
    level_of_pairs: f64,
) -> Vec<ShortLived> {
    let fresh: Vec<&BTreeMap<u32, f64>> = (0..study.cells.len())
        .filter(|cell| toe(&study.cells[*cell]) == Toe::On)
        .map(|cell| &costs[cell])
        .collect();
    let blocks: BTreeSet<u32> = fresh.iter().flat_map(|costs| costs.keys().copied()).collect();
    let cost_us = |block: &u32| {
        let all: Vec<f64> = fresh.iter().filter_map(|costs| costs.get(block).copied()).collect();
        mean(&all).map(|ns| ns / 1e3)
    };
    let is_short = |cell: &Cell| match &cell.spec.task {
        Task::Workload(workload) => {
            workload.kind == Protocol::ConnectRequestResponse && toe(cell) == Toe::Off
        }
        Task::Idle => false,
    };
    let one = |cell: usize| {
        let demand = runs.by_block(cell, Measure::ServiceDemand);
        let uncertainty = uncertainty::of_cell(runs, cell, Measure::ServiceDemand);
        // with this much of the cost of a connection
        let with_offload = |of_alone: f64| {
            let pairs = blocks.iter().map(|block| {
                let alone = demand.get(block).map(|alone| alone * of_alone);
                (alone, alone.zip(cost_us(block)).map(|(alone, cost)| alone + cost))
            });
            Some(paired::ratio(pairs, level_of_pairs)?.ratio)
        };
        let connection = of_mean(&demand.values().copied().collect::<Vec<_>>(), level)?;
        Some(ShortLived {
            at: study.cells[cell].levels.without(TOE_FACTOR),
            connection: Quantity {
                interval: uncertainty.widen_mean(connection),
                unit: Unit::MicrosecondsPerTransaction,
            },
            with_offload: uncertainty::with_corners(
                with_offload(1.0)?,
                uncertainty.ends().map(with_offload),
            ),
        })
    };
    (0..study.cells.len()).filter(|cell| is_short(&study.cells[*cell])).filter_map(one).collect()
}

#[cfg(test)]
mod tests;
