//! Whether hand-overs to a TCP offload engine pay.

use linkrate_study::analysis::worth::{HandOver, Payback, Worth};
use linkrate_study::levels::Levels;
use linkrate_study::names;
use linkrate_study::results::StudyResults;
use serde::Serialize;

use super::Numbered;
use super::tables::{Field, Table, TableRow, column};
use crate::words::{self, worth};

/// What the section says.
#[derive(Debug, Serialize)]
pub struct Section {
    /// The conclusion, and what is behind it.
    pub said: Vec<String>,
    /// After how many bytes hand-overs have paid, and what they cost.
    pub tables: Vec<Numbered>,
}

/// The section; `None` without a comparison of TOE on with off.
pub fn section(results: &StudyResults) -> Option<Section> {
    let of = results.worth.as_ref()?;
    let tables = [paybacks(of), costs(of)];
    Some(Section {
        said: worth::sentences(of),
        tables: tables.into_iter().map(|table| Numbered { number: 0, table }).collect(),
    })
}

fn row<const COLUMNS: usize>(at: &Levels, fields: [String; COLUMNS]) -> TableRow {
    let fields = std::iter::once(words::capitalised(&names::cell(at))).chain(fields);
    let fields = fields.map(|text| Field { text, small: String::new() }).collect();
    TableRow { id: String::new(), fields }
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

fn paybacks(of: &Worth) -> Table {
    let rows = of.paybacks.iter().map(|payback: &Payback| row(&payback.at, worth::fields(payback)));
    table("After how many bytes a hand-over has paid", worth::TITLES, rows.collect(), worth::NOTE)
}

fn costs(of: &Worth) -> Table {
    let rows = of.hand_overs.iter().map(|one: &HandOver| row(&one.at, worth::cost_fields(one)));
    let note = "Waiting and standing still are medians of a run, and means over the runs.";
    table("What a hand-over costs", worth::COSTS, rows.collect(), note)
}
