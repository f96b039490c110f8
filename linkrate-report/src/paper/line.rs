//! Where the time of the lines went: the cell tax, as a drawing and as a table.

use linkrate_study::labels;
use linkrate_study::levels::Levels;
use linkrate_study::results::{CellResult, LineTax, StudyResults};
use linkrate_study::study::PART;
use linkrate_wire::limits::tax;

use super::figure::{Figure, both};
use crate::charts::stacks::{self, Stack};
use crate::table::{Field, NAME, NUMBER, Table};
use crate::{ReportError, words};

/// What drawing and table show.
const TITLE: &str = "Where the time of the lines went";

/// Most bars of a drawing: more do not fit a page. The table has all of them.
const MAX_BARS: usize = 24;

/// Parts that are told together, from the payload to the time in which nothing was sent.
const GROUPS: [(&str, &[&str]); 9] = [
    ("payload", &[tax::PAYLOAD]),
    ("TCP/IP headers", &[tax::HEADERS]),
    ("link headers", &["LLC/SNAP header", "LANE header", "VLAN tags", "Ethernet header"]),
    (
        "FCS, preamble and gap",
        &["frame padding", "frame check sequence", "preamble", "inter-frame gap"],
    ),
    ("AAL5 padding and trailer", &["AAL5 padding", "AAL5 trailer"]),
    ("cell headers", &["cell headers"]),
    ("SONET", &[tax::SONET]),
    ("sent again", &[tax::NOT_DELIVERED]),
    ("idle", &[tax::IDLE]),
];

/// The account of one line.
struct Account<'a> {
    /// The part of the study; empty in a study without parts.
    part: String,
    /// The cell within its part, and the direction where the cell has both.
    name: String,
    tax: &'a LineTax,
}

impl<'a> Account<'a> {
    fn of(cell: &CellResult, tax: &'a LineTax) -> Self {
        let (parts, levels): (Vec<_>, Vec<_>) =
            cell.levels.0.iter().cloned().partition(|(factor, _)| factor == PART);
        // short: a bar has little room for its name
        let cell_name = match levels.is_empty() {
            true => labels::cell(&cell.levels),
            false => Levels(levels).to_string(),
        };
        let name = match cell.evidence.line.len() {
            1 => cell_name,
            _ => format!("{cell_name}: {}", tax.direction.word()),
        };
        Self { part: Levels(parts).to_string(), name, tax }
    }
}

/// The accounts, cell by cell.
fn accounts(results: &StudyResults) -> Vec<Account<'_>> {
    fn of_cell(cell: &CellResult) -> impl Iterator<Item = Account<'_>> {
        cell.evidence.line.iter().map(move |tax| Account::of(cell, tax))
    }
    results.cells.iter().flat_map(of_cell).collect()
}

/// The title of a column, which has less room than the legend of the drawing.
fn short(group: &str) -> String {
    match group {
        "TCP/IP headers" => "TCP/IP".to_owned(),
        "FCS, preamble and gap" => "FCS, gap".to_owned(),
        "AAL5 padding and trailer" => "AAL5".to_owned(),
        other => other.to_owned(),
    }
}

/// A group's share of the line in per cent.
fn share(tax: &LineTax, parts: &[&str]) -> f64 {
    let of_group = tax.parts.iter().filter(|part| parts.contains(&part.name.as_str()));
    // the sum of nothing is a negative zero
    of_group.map(|part| part.percent).fold(0.0, |sum, percent| sum + percent)
}

/// The groups that some account has.
fn groups(accounts: &[Account<'_>]) -> Vec<(&'static str, &'static [&'static str])> {
    let some = |parts: &[&str]| accounts.iter().any(|account| share(account.tax, parts) > 0.0);
    GROUPS.into_iter().filter(|(_, parts)| some(parts)).collect()
}

/// Whether a line carries cells.
fn has_cells(tax: &LineTax) -> bool {
    tax.parts.iter().any(|part| tax::is_of_cells(&part.name))
}

/// A drawing for each part of the study, with a bar for each line; nothing unless some line carries
/// cells.
pub fn figures(results: &StudyResults) -> Result<Vec<Figure>, ReportError> {
    let accounts = accounts(results);
    if !accounts.iter().any(|account| has_cells(account.tax)) {
        return Ok(Vec::new());
    }
    accounts.chunk_by(|one, other| one.part == other.part).map(figure).collect()
}

/// The lines of one part.
fn figure(accounts: &[Account<'_>]) -> Result<Figure, ReportError> {
    let shown = &accounts[..accounts.len().min(MAX_BARS)];
    let groups = groups(shown);
    let titles: Vec<String> = groups.iter().map(|(name, _)| (*name).to_owned()).collect();
    let shares = |tax: &LineTax| -> Vec<f64> {
        let of_line = groups.iter().map(|(_, parts)| share(tax, parts));
        // payload and counters are not read at the same instant
        let mut left = 100.0;
        let shares = of_line.map(|share: f64| {
            let share = share.min(left);
            left -= share;
            share
        });
        shares.collect()
    };
    let reported = |account: &Account<'_>| {
        let shares = groups.iter().map(|(group, parts)| (group, share(account.tax, parts)));
        let parts = shares
            .filter(|(_, share)| *share > 0.0)
            .map(|(group, share)| format!("{group} {share:.1} %"));
        format!("{}: {}", account.name, parts.collect::<Vec<_>>().join(", "))
    };
    let sentences: Vec<String> = shown.iter().map(reported).collect();
    let stack =
        |account: &Account<'_>| Stack { name: account.name.clone(), shares: shares(account.tax) };
    let stacks: Vec<Stack> = shown.iter().map(stack).collect();
    let title = match accounts.first().map_or("", |first| first.part.as_str()) {
        "" => TITLE.to_owned(),
        part => format!("{TITLE} ({part})"),
    };
    let picture = both(title.clone(), sentences.join("; "), |size| {
        stacks::shares(&title, &titles, &stacks, size)
    })?;
    let rest = match accounts.len() - shown.len() {
        0 => String::new(),
        rest => format!(" {rest} more are in the table."),
    };
    let note = format!(
        "Per cent of the line rate; the numbers are those of the legend, from left to right. Of a line \
         of cells, idle time is idle cell slots.{rest}"
    );
    Ok(Figure { number: 0, title, note, panels: vec![picture] })
}

/// The same as a table; `None` where nothing was counted.
pub fn table(results: &StudyResults) -> Option<Table> {
    let accounts = accounts(results);
    let percent = |share: f64| format!("{share:.1} %");
    let mut table = Table::new(TITLE);
    table.push(
        "Cell",
        NAME,
        accounts.iter().map(|account| match account.part.as_str() {
            "" => account.name.clone(),
            part => format!("{part}, {}", account.name),
        }),
    );
    for (title, parts) in groups(&accounts) {
        // frames have no cells, and cells no preamble
        let shares = accounts.iter().map(|account| {
            let share = Some(share(account.tax, parts)).filter(|share| *share != 0.0);
            Field::or_absent(share.map(percent))
        });
        table.push(&words::capitalised(&short(title)), NUMBER, shares);
    }
    let at_most = accounts.iter().map(|account| account.tax.payload_percent_at_most.map(percent));
    table.push("At most", NUMBER, at_most.map(Field::or_absent));
    table.note = "Per cent of the line rate, all ports together, means over the runs. At most: payload of a line \
                  that is full of such packets. From counters, by the \
                  law of the link: padding is that of full packets and bare acknowledgements."
        .to_owned();
    table.filled()
}
