//! The workloads of a mix, as rows that the terminal and the white paper share.

use linkrate_model::latency::Percentile;
use linkrate_study::quantity::Quantity;
use linkrate_study::results::{CellResult, MixFigures, StudyResults};

use crate::words::marks;
use crate::{number, words};

/// The titles beside the cell's.
pub const TITLES: [&str; 8] =
    ["workload", "share", "throughput", "completed", "loop", "p50", "p99", "p99.9"];

/// What the table does not say by itself.
pub const NOTE: &str = "CPU time and service demand are of all workloads together; p50, p99 and p99.9 \
                        are percentiles of latency, or of the response time of transfers. Loop: in a closed \
                        one a request waits for the answer to the one before, in an open one requests have a rate";

/// Every workload of every cell with a mix.
pub fn all(results: &StudyResults) -> impl Iterator<Item = (&CellResult, &MixFigures)> {
    results.cells.iter().flat_map(|cell| cell.mix.iter().map(move |figures| (cell, figures)))
}

/// The fields beside the cell's name.
pub fn fields(results: &StudyResults, cell: &CellResult, figures: &MixFigures) -> [String; 8] {
    let mark = marks::of_cell(results, cell);
    let with_margin = |quantity: Option<Quantity>| {
        let text = quantity.as_ref().map(number::brief_with_margin);
        text.map_or_else(|| number::ABSENT.to_owned(), |text| format!("{text}{mark}"))
    };
    let percentile = |percentile| {
        let text = figures.latency.as_ref().and_then(|of| number::percentile(of, percentile));
        text.unwrap_or_else(|| number::ABSENT.to_owned())
    };
    let of_loop = figures.of_loop.map_or(number::ABSENT, words::of_loop);
    [
        figures.name.clone(),
        figures.share.to_string(),
        with_margin(figures.throughput),
        with_margin(figures.completed),
        of_loop.to_owned(),
        percentile(Percentile::P50),
        percentile(Percentile::P99),
        percentile(Percentile::P99_9),
    ]
}
