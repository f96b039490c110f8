//! What a study found that compares nothing, or something else than levels: failures, connection offloads, cells.

use linkrate_study::labels;
use linkrate_study::results::figures::{FailureFigures, Paybacks};
use linkrate_study::results::{CellResult, StudyResults};

use crate::{number, words};
use linkrate_stats::interval::MIN_TO_CLAIM;

/// Most cells that are described one by one.
const MAX_CELLS: usize = 4;

/// The findings, the most important one first. Too few blocks have none, and one sentence says so.
pub(super) fn all(results: &StudyResults) -> Vec<String> {
    let mut found: Vec<String> = failures(results).into_iter().collect();
    let enough = |worth: &&Paybacks| worth.paybacks.iter().any(|of| of.pairs >= MIN_TO_CLAIM);
    let pays = results.payback.as_ref().filter(enough);
    found.extend(pays.and_then(|worth| words::payback::sentences(worth).into_iter().next()));
    if results.effects.is_empty() {
        found.extend(cells(results));
    }
    if found.is_empty() && results.cells.iter().any(|cell| cell.runs > 0) {
        found.push(format!("Nothing is significant: {}.", words::too_few()));
    }
    found
}

/// The failures with the shortest and the longest gap.
fn failures(results: &StudyResults) -> Option<String> {
    let cells = words::failure::cells(results);
    let gap = |of: &FailureFigures| of.gap.map_or(f64::NAN, |gap| gap.interval.mean);
    let order = |one: &&(_, &FailureFigures), other: &&(_, &FailureFigures)| {
        gap(one.1).total_cmp(&gap(other.1))
    };
    let with_gap = || cells.iter().filter(|(_, of)| of.gap.is_some());
    let reported = |(cell, of): &(&CellResult, &FailureFigures)| {
        let name = match cell.levels.0.is_empty() {
            true => of.fault.phrase().to_owned(),
            false => labels::cell(&cell.levels),
        };
        let bound = if words::failure::is_open(of) { "more than " } else { "" };
        format!("{bound}{} ({name})", number::duration(gap(of)))
    };
    let (shortest, longest) = (with_gap().min_by(order)?, with_gap().max_by(order)?);
    Some(match with_gap().count() {
        1 => {
            format!("The failure interrupts all flows together for {} (median).", reported(longest))
        }
        _ => format!(
            "A failure interrupts all flows together for {} to {} (medians).",
            reported(shortest),
            reported(longest)
        ),
    })
}

/// The cells of a study without effects.
fn cells(results: &StudyResults) -> Vec<String> {
    let enough = results.cells.iter().filter(|cell| cell.runs >= MIN_TO_CLAIM);
    enough.take(MAX_CELLS).filter_map(cell_sentence).collect()
}

fn cell_sentence(cell: &CellResult) -> Option<String> {
    let whom = if cell.levels.0.is_empty() {
        String::new()
    } else {
        format!("{}: ", labels::cell(&cell.levels))
    };
    let with_ends = |quantity: &linkrate_study::quantity::Quantity| match number::ends(quantity) {
        Some(ends) => format!("{} ({ends})", number::mean(quantity)),
        None => number::mean(quantity),
    };
    let rate = cell.transactions.or(cell.throughput)?;
    let share = cell.limit.filter(|_| cell.transactions.is_none()).map(|limit| {
        let percent = rate.interval.mean / limit.interval.mean * 100.0;
        format!(", {percent:.1} % of the theoretical maximum")
    });
    let what = if cell.transactions.is_some() { "" } else { "throughput " };
    let mut parts = vec![format!("{what}{}{}", with_ends(&rate), share.unwrap_or_default())];
    let percentiles = cell.latency.and_then(|latency| latency.p50_ns.zip(latency.p99_ns));
    if let Some((p50_ns, p99_ns)) = percentiles {
        parts.push(format!(
            "with a median {} of {} and {} at the 99th percentile",
            if cell.is_transactional() { "latency" } else { "response time" },
            number::duration(p50_ns as f64),
            number::duration(p99_ns as f64)
        ));
    }
    if let Some(demand) = &cell.service_demand {
        parts.push(format!("at a service demand of {}", with_ends(demand)));
    }
    let verdict = cell.verdict.brief();
    Some(words::capitalised(&format!("{whom}{}; {verdict}.", parts.join(" "))))
}
