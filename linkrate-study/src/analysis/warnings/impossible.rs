//! Figures above what theory allows are errors of the instrument.

use linkrate_model::{Measurement, TestbedSpec};

use crate::analysis::limit;
use crate::store::StoredRun;
use crate::study::Cell;
use crate::validity::limits::{self, Over};
use crate::verdict::FlowDirection;
use linkrate_stats::interval::of_mean;

/// Runs that are named one by one.
const NAMED: usize = 3;

/// Runs from which the mean of a cell is judged.
const MIN_RUNS: usize = 5;

/// Payload on the wrong side of an edge, in per cent of that of the measurement, from which a warning names it.
const MISPLACED_PERCENT: f64 = 0.1;

/// The warnings of one cell: each run that moved more than is possible, in its direction or in both
/// together, and with its value. Runs with much more are refused and have no figures; results of earlier
/// versions have them. Where every run is within what may be on its way when a measurement opens, and their interval all the same
/// lies above the limit, chance does not explain the mean. Otherwise those that are above it are named with this cause.
pub fn warnings(
    name: &str,
    cell: &Cell,
    testbed: &TestbedSpec,
    runs: &[&StoredRun],
    confidence: f64,
) -> Vec<String> {
    let good = || runs.iter().filter_map(|run| Some((run.block, run.measurement()?)));
    let over: Vec<String> = good()
        .filter_map(|(block, run)| {
            let over = limits::over(testbed, &cell.spec, run)?;
            let way = limits::way_words(over.direction);
            let repaired = match over.behind_gaps_bytes {
                0 => "",
                _ => " (TCP repaired a loss)",
            };
            Some(format!("{way} in block {} {:.2} %{repaired}", block + 1, over.percent()))
        })
        .collect();
    let mut found: Vec<String> =
        repaired(name, cell, &good().collect::<Vec<_>>()).into_iter().collect();
    if !over.is_empty() {
        found.push(format!(
            "{name}: runs moved more than is possible, which is an error of the instrument: \
             {} of the limit.",
            first_of(&over)
        ));
        return found;
    }
    let means = limits::WAYS.into_iter().filter_map(|direction| {
        let percent = |(_, run)| limits::percent(testbed, &cell.spec, run, direction);
        let percents: Vec<f64> = good().filter_map(percent).collect();
        let mean = of_mean(&percents, confidence)?;
        let low = mean.low.filter(|low| percents.len() >= MIN_RUNS && *low > 100.0)?;
        Some(format!(
            "{name}: {} is {:.3} % ({low:.3} to {:.3}) of what is possible, which is an \
                 error of the instrument.",
            limits::way_words(direction),
            mean.mean,
            mean.high.unwrap_or(f64::NAN)
        ))
    });
    let means: Vec<String> = means.collect();
    match means.is_empty() {
        true => found.extend(above(name, cell, testbed, &good().collect::<Vec<_>>())),
        false => found.extend(means),
    }
    found
}

/// Runs that are above their limit by no more than what may have been on its way when their measurement opened. No figure
/// above what theory allows goes without its cause.
fn above(
    name: &str,
    cell: &Cell,
    testbed: &TestbedSpec,
    runs: &[(u32, &Measurement)],
) -> Option<String> {
    let above: Vec<(u32, Over, f64)> = runs
        .iter()
        .filter_map(|(block, run)| {
            let (over, seconds) = limits::above(testbed, &cell.spec, run)?;
            Some((*block, over, seconds))
        })
        .collect();
    let cause = match above.first()?.1.of_drives {
        true => {
            "tape drives take, because of payload that the sink had accepted and the drives had not"
        }
        false => {
            "links can carry, because payload had crossed them before the measurement began, and \
             reached TCP after that"
        }
    };
    let most = above.iter().map(|(_, _, seconds)| *seconds).fold(0.0, f64::max);
    let above = above.iter().map(|(block, over, _)| {
        let way = limits::way_words(over.direction);
        format!("{way} in block {} {:.3} %", block + 1, over.percent())
    });
    Some(format!(
        "{name}: figures are above what {cause}: {} of the limit. Up to {:.2} ms of payload may do so.",
        first_of(&above.collect::<Vec<_>>()),
        most * 1e3
    ))
}

/// The first of these, and how many more there are.
fn first_of(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    if more > 0 { format!("{named}, and {more} more") } else { named }
}

/// Runs whose window opened or closed while TCP sent lost segments again: payload that waited behind the gap counts on
/// the wrong side of the edge.
fn repaired(name: &str, cell: &Cell, runs: &[(u32, &Measurement)]) -> Option<String> {
    let of = |(block, run): &(u32, &Measurement)| {
        let percents =
            [FlowDirection::Transmit, FlowDirection::Receive].into_iter().filter_map(|way| {
                let (bytes, _) = limit::moved(run, way).filter(|(bytes, _)| *bytes > 0)?;
                let percent =
                    limits::gaps(&cell.spec, run, Some(way)) as f64 * 100.0 / bytes as f64;
                let block = block + 1;
                (percent.abs() > MISPLACED_PERCENT)
                    .then(|| format!("{} in block {block} {percent:+.2} %", way.word()))
            });
        percents.collect::<Vec<_>>()
    };
    let misplaced: Vec<String> = runs.iter().flat_map(of).collect();
    (!misplaced.is_empty()).then(|| {
        format!(
            "{name}: a measurement interval began or ended while TCP repaired a loss, so payload was counted in the wrong \
             interval: {}. A longer warm-up keeps the losses of the start out.",
            first_of(&misplaced)
        )
    })
}

#[cfg(test)]
mod tests;
