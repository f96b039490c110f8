//! Whether connection offloads to a TCP offload engine pay.

use linkrate_study::labels;
use linkrate_study::levels::Levels;
use linkrate_study::results::StudyResults;
use linkrate_study::results::figures::{OffloadCost, Payback, Paybacks};
use serde::Serialize;

use super::Numbered;
use super::tables::{Field, Table, TableRow, column, noted};
use crate::words::{self, payback};

/// What the section says.
#[derive(Debug, Serialize)]
pub struct Section {
    /// The conclusion, and what is behind it.
    pub said: Vec<String>,
    /// After how many bytes connection offloads have paid, and what they cost.
    pub tables: Vec<Numbered>,
}

/// The section; `None` without a comparison of TOE on with off.
pub fn section(results: &StudyResults) -> Option<Section> {
    let of = results.payback.as_ref()?;
    let tables = [paybacks(of), costs(of)];
    Some(Section {
        said: payback::sentences(of),
        tables: tables.into_iter().map(|table| Numbered { number: 0, table }).collect(),
    })
}

fn row<const COLUMNS: usize>(at: &Levels, fields: [String; COLUMNS]) -> TableRow {
    let fields = std::iter::once(words::capitalised(&labels::cell(at))).chain(fields);
    TableRow::of(fields.map(Field::of))
}

fn table<const COLUMNS: usize>(
    title: &str,
    titles: [&str; COLUMNS],
    rows: Vec<TableRow>,
    note: &str,
) -> Table {
    let named = [column("At", "name"), column(&words::capitalised(titles[0]), "name")];
    let figures = titles.iter().skip(1).map(|title| column(&words::capitalised(title), "number"));
    Table {
        title: title.to_owned(),
        columns: named.into_iter().chain(figures).collect(),
        rows,
        note: note.to_owned(),
    }
}

fn paybacks(of: &Paybacks) -> Table {
    let rows =
        of.paybacks.iter().map(|payback: &Payback| row(&payback.at, payback::fields(payback)));
    let rows: Vec<TableRow> = rows.collect();
    let note = noted(payback::NOTE.to_owned(), &rows);
    table("After how many bytes an offload has paid", payback::TITLES, rows, &note)
}

fn costs(of: &Paybacks) -> Table {
    let rows = of.costs.iter().map(|one: &OffloadCost| row(&one.at, payback::cost_fields(one)));
    let note = "Waiting and standing still are medians of a run, and means over the runs.";
    table("What an offload costs", payback::COSTS, rows.collect(), note)
}
