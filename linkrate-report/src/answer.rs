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

/// What the study found.
pub fn sentences(results: &StudyResults) -> Vec<String> {
    let few = results.cells.len() <= FEW_CELLS;
    sentences::of(results, if few { FEW_SENTENCES } else { MAX_SENTENCES })
}
