//! Result sets of one study over time.
//!
//! - [`table`]: for a terminal
//! - [`markdown`]: for the summary of a job or an issue
//! - [`page`]: HTML with a chart for each series
//! - [`document`]: the one JSON document of `--json`
//!
//! `view` turns figures into the strings that the first three share.

use linkrate_study::trend::StudyTrend;

use crate::ReportError;
use crate::comparison::notes;
use crate::layout::{Paper, Style, clean, shape};
use crate::paper::render;

mod view;

use view::{Charts, Group, View};

const MARKDOWN: &str = include_str!("../templates/trend.md");
const PAGE: &str = include_str!("../templates/trend.html");

/// The document, indented, with a newline at its end. Keys are only ever added within a format.
///
/// # Panics
/// Never: every map in a trend has strings for keys, and nothing else can fail in memory.
pub fn document(trend: &StudyTrend) -> String {
    let mut text = serde_json::to_string_pretty(trend).expect("trends have only string keys");
    text.push('\n');
    text
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
    let mut sections = vec![paper.bold(&clean(&view.title))];
    sections.push(groups("cell", &view.cells, &paper));
    if !view.effects.is_empty() {
        sections.push(groups("effect", &view.effects, &paper));
    }
    if !view.conditions.is_empty() {
        let mut table = paper.new_table();
        table.set_header(["conditions that changed", "condition", "before", "since"]);
        for one in &view.conditions {
            table.add_row([&one.set, &one.name, &one.before, &one.after].map(|text| clean(text)));
        }
        shape(&mut table, 0, false, true);
        sections.push(paper.print(&table));
    }
    sections.push(notes(&view.notes, &paper));
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

/// One table of all groups, each under the name of its measure.
fn groups(first: &str, groups: &[Group], paper: &Paper) -> String {
    let mut table = paper.new_table();
    table.set_header([first, "history", "newest", "change points"]);
    for group in groups {
        table.add_row([group.title.clone()]);
        for line in &group.lines {
            let name = format!("  {}", clean(&line.name));
            let changes: Vec<String> =
                line.changes.iter().map(|change| clean(&change.text)).collect();
            let changes = match changes.is_empty() {
                true => "none shown".to_owned(),
                false => changes.join("; "),
            };
            table.add_row([name, line.history.clone(), line.newest.clone(), changes]);
        }
    }
    shape(&mut table, 0, false, true);
    shape(&mut table, 1, false, true);
    shape(&mut table, 2, true, true);
    let text = paper.print(&table);
    if !paper.style.color {
        return text;
    }
    text.replace('▼', "\u{1b}[1;31m▼\u{1b}[0m").replace('▲', "\u{1b}[32m▲\u{1b}[0m")
}
