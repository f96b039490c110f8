//! The workloads of a mix, as a table.

use linkrate_model::latency::Percentile;
use linkrate_study::quantity::Quantity;
use linkrate_study::results::{CellResult, MixFigures, StudyResults};

use crate::table::{NAME, NUMBER, Table, sentences};
use crate::words::marks;
use crate::{number, words};

/// The titles beside the cell's.
const TITLES: [&str; 8] =
    ["workload", "share", "throughput", "completed", "loop", "p50", "p99", "p99.9"];

/// What the table does not say by itself.
const NOTE: &str = "CPU time and service demand are of all workloads together; p50, p99 and p99.9 \
                        are percentiles of latency, or of the response time of transfers. Loop: in a closed \
                        one a request waits for the answer to the one before, in an open one requests have a rate";

/// Every workload of every cell with a mix.
fn all(results: &StudyResults) -> impl Iterator<Item = (&CellResult, &MixFigures)> {
    results.cells.iter().flat_map(|cell| cell.mix.iter().map(move |figures| (cell, figures)))
}

/// The table; `None` without a mix.
pub fn table(results: &StudyResults) -> Option<Table> {
    let rows = all(results).map(|(cell, figures)| (cell, fields(results, cell, figures)));
    let titles = TITLES.map(|title| (title, if title == "workload" { NAME } else { NUMBER }));
    let note = sentences(&[NOTE]);
    Table::of_cells(["The workloads of the mix", "workloads of the mix"], titles, rows, &note)
}

/// The fields beside the cell's name.
fn fields(results: &StudyResults, cell: &CellResult, figures: &MixFigures) -> [String; 8] {
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
