//! Result sets of one study over time.
//!
//! - [`table`]: for a terminal
//! - [`markdown`]: for the summary of a job or an issue
//! - [`page`]: HTML with a chart for each series
//! - [`document`]: the one JSON document of `--json`
//!
//! `view` turns figures into the strings that the first three share.

use linkrate_study::trend::StudyTrend;

use crate::layout::{Paper, RULED, Style, clean, notes};
use crate::paper::render;
use crate::table::{Group, NAME, NUMBER, SAY, Table, TableRow, WHOLE, columns};
use crate::{ReportError, json};

mod view;

use view::{Charts, Line, View};

const MARKDOWN: &str = include_str!("../templates/trend.md");
const PAGE: &str = include_str!("../templates/trend.html");

/// The document. Keys are only ever added within a format.
pub fn document(trend: &StudyTrend) -> String {
    json::document(trend)
}

/// The trend as Markdown that GitHub shows as tables. The same sets give the same bytes.
pub fn markdown(trend: &StudyTrend) -> Result<String, ReportError> {
    render("trend.md", MARKDOWN, &View::new(trend))
}

/// The trend as one page that needs no network.
pub fn page(trend: &StudyTrend) -> Result<String, ReportError> {
    render("trend.html", PAGE, &Charts::new(trend)?)
}

/// The trend for a terminal. `width` is the terminal's in columns; `None` when there is none.
pub fn table(trend: &StudyTrend, width: Option<u16>, style: Style) -> String {
    let view = View::new(trend);
    let paper = Paper::new(width, style);
    let mut sections = vec![style.bold(&clean(&view.title))];
    sections.push(groups("cell", &view.cells, &paper));
    if !view.effects.is_empty() {
        sections.push(groups("effect", &view.effects, &paper));
    }
    if !view.conditions.is_empty() {
        let mut table = Table::new("");
        let all = || view.conditions.iter();
        table.push("conditions that changed", WHOLE, all().map(|one| one.set.as_str()));
        table.push("condition", NAME, all().map(|one| one.name.as_str()));
        table.push("before", NAME, all().map(|one| one.before.as_str()));
        table.push("since", NAME, all().map(|one| one.after.as_str()));
        sections.push(table.text(&paper));
    }
    sections.push(notes(&view.notes, &paper, RULED));
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

/// One table of all groups, each under the name of its measure.
fn groups(first: &str, groups: &[Group<Line>], paper: &Paper) -> String {
    let row = |line: &Line| {
        let changes: Vec<&str> = line.changes.iter().map(|change| change.text.as_str()).collect();
        let changes = if changes.is_empty() { "none shown".to_owned() } else { changes.join("; ") };
        let name = format!("  {}", line.name);
        TableRow::of([name, line.history.clone(), line.newest.clone(), changes])
    };
    let rows = Group::rows(groups, row);
    let columns =
        columns(&[(first, WHOLE), ("history", WHOLE), ("newest", NUMBER), ("change points", SAY)]);
    Table::of("", columns, rows, "").map_or_else(String::new, |table| table.text(paper))
}
