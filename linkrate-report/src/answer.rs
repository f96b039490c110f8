//! The answer of a study: what it found, and how far to trust it. Terminal and report print the same.
//!
//! - `sentences`: what was found, a sentence for each level that is compared
//! - `findings`: what was found where levels are not compared
//! - [`checks`]: how far to trust it, a line each
//! - [`testbed`]: on what
//! - [`grid`]: the cells side by side

use linkrate_study::results::StudyResults;

pub mod checks;
mod findings;
pub mod grid;
mod sentences;
pub mod testbed;

use grid::Grid;
use linkrate_stats::interval::MIN_TO_CLAIM;

/// Most sentences.
const MAX_SENTENCES: usize = 3;
/// Of a study with few cells, whose table or figure says the rest.
const FEW_SENTENCES: usize = 2;
/// Most cells that stand in a row each, with all that is known of them.
pub const FEW_CELLS: usize = 8;

/// The title, with what all cells have in common.
pub fn title(results: &StudyResults) -> String {
    let title = &results.title;
    match &Grid::all(results)[..] {
        [only] if !only.common().is_empty() => format!("{title}: {}", only.common()),
        _ => title.clone(),
    }
}

/// What the study found. Where a busy machine is why it found little, that comes first.
pub fn sentences(results: &StudyResults) -> Vec<String> {
    let most = if results.cells.len() <= FEW_CELLS { FEW_SENTENCES } else { MAX_SENTENCES };
    match disturbance(results) {
        Some(cause) => std::iter::once(cause).chain(sentences::of(results, most - 1)).collect(),
        None => sentences::of(results, most),
    }
}

/// Why a cell has too few runs to claim anything: what ran beside one that does not count, with which its block falls.
fn disturbance(results: &StudyResults) -> Option<String> {
    let reason = &results.failures.iter().find(|run| run.disturbed)?.reason;
    is_disturbed(results).then(|| {
        let (count, all) = (results.failures.len() + results.left_out(), results.runs.len());
        let are = if count == 1 { "does" } else { "do" };
        format!("This machine was busy: {count} of {all} runs {are} not count; {reason}.")
    })
}

/// Whether something from outside spoiled so many runs that a cell has too few left to claim anything.
pub fn is_disturbed(results: &StudyResults) -> bool {
    results.failures.iter().any(|run| run.disturbed)
        && results.cells.iter().any(|cell| cell.runs < MIN_TO_CLAIM)
}
