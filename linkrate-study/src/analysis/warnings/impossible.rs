//! Figures above what theory allows are errors of the instrument.

use linkrate_terms::TestbedSpec;

use crate::belief::limits;
use crate::stats::interval::of_mean;
use crate::store::StoredRun;
use crate::study::Cell;

/// Runs that are named one by one.
const NAMED: usize = 3;

/// Runs from which the mean of a cell is judged.
const FEWEST: usize = 5;

/// The warnings of one cell: each run that moved more than is possible, in its direction or in both
/// together, and with its value. Runs with much more are refused and have no figures; results of earlier
/// versions have them. Where every run is within what may be on its way when a window opens, and their interval all the same
/// lies above the limit, chance does not explain the mean.
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
            Some(format!("{way} in block {} {:.2} %", block + 1, over.percent()))
        })
        .collect();
    if !over.is_empty() {
        let more = over.len().saturating_sub(NAMED);
        let mut named = over[..over.len() - more].join(", ");
        if more > 0 {
            named += &format!(", and {more} more");
        }
        return vec![format!(
            "{name}: runs moved more than their links can carry, which is an error of the instrument: \
             {named} of the limit."
        )];
    }
    limits::WAYS
        .into_iter()
        .filter_map(|direction| {
            let percent = |(_, run)| limits::percent(testbed, &cell.spec, run, direction);
            let percents: Vec<f64> = good().filter_map(percent).collect();
            let mean = of_mean(&percents, confidence)?;
            let low = mean.low.filter(|low| percents.len() >= FEWEST && *low > 100.0)?;
            Some(format!(
                "{name}: {} is {:.3} % ({low:.3} to {:.3}) of what its links can carry, which is an \
                 error of the instrument.",
                limits::way_words(direction),
                mean.mean,
                mean.high.unwrap_or(f64::NAN)
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests;
