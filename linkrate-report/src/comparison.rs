//! Two result sets of the same study, one against the other.
//!
//! - [`table`]: for a terminal
//! - [`markdown`]: for a pull request
//! - [`document`]: the one JSON document of `--json`
//!
//! `view` turns figures into the strings that the first two share.

use linkrate_study::comparison::StudyComparison;

use crate::layout::{GAP, Paper, RULED, Style, clean, notes};
use crate::paper::render;
use crate::table::{Group, NAME, NUMBER, Table, TableRow, WHOLE, column};
use crate::{ReportError, json};

pub(crate) mod view;

use view::{Mark, PrintedRow, View};
pub use view::{result, unjudged};

const TEMPLATE: &str = include_str!("../templates/comparison.md");

/// Room that verdicts need beside the figures: two words.
const VERDICT: usize = 14;

/// The document. Keys are only ever added within a format.
pub fn document(comparison: &StudyComparison) -> String {
    json::document(comparison)
}

/// The comparison as Markdown that GitHub shows as tables. The same sets give the same bytes.
pub fn markdown(comparison: &StudyComparison) -> Result<String, ReportError> {
    render("comparison.md", TEMPLATE, &View::new(comparison))
}

/// The comparison for a terminal: the sets, every cell, the effects, notes, and the conclusion.
/// `width` is the terminal's in columns; `None` when there is none.
pub fn table(comparison: &StudyComparison, width: Option<u16>, style: Style) -> String {
    let view = View::new(comparison);
    let paper = Paper::new(width, style);
    let heading = format!("{}\n{}", style.bold(&clean(&view.title)), clean(&view.result));
    let mut sections = vec![heading, sets(&view, &paper)];
    let head = |first| [first, "baseline", "candidate", "change", "interval", "verdict"];
    sections.push(groups(head("cell"), &view.cells, &paper));
    if !view.pairs.is_empty() {
        sections.push(groups(head("pair"), &view.pairs, &paper));
    }
    if !view.effects.is_empty() {
        let head = ["effect", "baseline", "candidate", "ratio", "interval", "verdict"];
        sections.push(groups(head, &view.effects, &paper));
    }
    sections.push(notes(&view.notes, &paper, RULED));
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

/// The two sets, with a mark at each difference.
fn sets(view: &View, paper: &Paper) -> String {
    let mut table = Table::new("");
    let facts = || view.facts.iter();
    table.push("", WHOLE, facts().map(|fact| fact.name.as_str()));
    table.push("baseline", NAME, facts().map(|fact| fact.baseline.as_str()));
    table.push("candidate", NAME, facts().map(|fact| fact.candidate.as_str()));
    table.push("", NAME, facts().map(|fact| if fact.differs { "← under test" } else { "" }));
    table.text(paper)
}

/// One table of all groups, each under the name of its measure. Where it is too wide, the figures of
/// both sets are left out: change, interval and verdict are the question.
fn groups(head: [&str; 6], groups: &[Group<PrintedRow>], paper: &Paper) -> String {
    let fields = |line: &PrintedRow| {
        [
            format!("  {}", line.name),
            line.baseline.clone(),
            line.candidate.clone(),
            line.change.clone(),
            line.interval.clone(),
            format!("{}{}", mark(line.mark), line.verdict),
        ]
    };
    let rows: Vec<[String; 6]> = groups.iter().flat_map(|group| &group.lines).map(fields).collect();
    let width = |column: usize| {
        let texts = rows.iter().map(|row| row[column].as_str()).chain([head[column]]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0) + GAP
    };
    let titles = groups.iter().map(|group| group.title.chars().count()).max().unwrap_or(0);
    let whole: usize = width(0).max(titles + GAP) + (1..5).map(width).sum::<usize>();
    let shown: &[usize] = match whole + VERDICT <= usize::from(paper.width) {
        true => &[0, 1, 2, 3, 4, 5],
        false => &[0, 3, 4, 5],
    };
    // a wrapped name loses its indent, so it is the verdicts that wrap
    let kind = |column: usize| match column {
        0 if width(0) <= usize::from(paper.width) / 2 => WHOLE,
        0 | 5 => NAME,
        _ => NUMBER,
    };
    let columns = shown.iter().map(|of| column(head[*of], kind(*of))).collect();
    let row = |line: &PrintedRow| {
        let fields = fields(line);
        TableRow::of(shown.iter().map(|column| fields[*column].as_str()))
    };
    let rows = Group::rows(groups, row);
    Table::of("", columns, rows, "").map_or_else(String::new, |table| table.text(paper))
}

/// The mark that makes a row stand out without colour too.
fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::Worse => "▼ ",
        Mark::Better => "▲ ",
        Mark::Changed => "◆ ",
        Mark::None => "",
    }
}
