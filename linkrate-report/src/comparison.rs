//! Two result sets of the same study, one against the other.
//!
//! - [`table`]: for a terminal
//! - [`markdown`]: for a pull request
//! - [`document`]: the one JSON document of `--json`
//!
//! `view` turns figures into the strings that the first two share.

use linkrate_study::comparison::StudyComparison;

use crate::ReportError;
use crate::layout::{GAP, Paper, RULED, Style, clean, shape, trimmed};
use crate::paper::render;

pub(crate) mod view;

use view::{Group, Mark, Note, View};

const TEMPLATE: &str = include_str!("../templates/comparison.md");

/// Room that verdicts need beside the figures: two words.
const VERDICT: usize = 14;

/// The document, indented, with a newline at its end. Keys are only ever added within a format.
///
/// # Panics
/// Never: every map in a comparison has strings for keys, and nothing else can fail in memory.
pub fn document(comparison: &StudyComparison) -> String {
    let mut text =
        serde_json::to_string_pretty(comparison).expect("comparisons have only string keys");
    text.push('\n');
    text
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
    let heading = format!("{}\n{}", paper.bold(&clean(&view.title)), clean(&view.result));
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
    sections.push(notes(&view.notes, &paper));
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

/// The two sets, with a mark at each difference.
fn sets(view: &View, paper: &Paper) -> String {
    let mut table = paper.new_table();
    table.set_header(["", "baseline", "candidate", ""]);
    for fact in &view.facts {
        let mark = if fact.differs { "← under test" } else { "" };
        table.add_row([
            clean(&fact.name),
            clean(&fact.baseline),
            clean(&fact.candidate),
            mark.to_owned(),
        ]);
    }
    shape(&mut table, 0, false, true);
    paper.print(&table)
}

/// One table of all groups, each under the name of its measure. Where it is too wide, the figures of
/// both sets are left out: change, interval and verdict are the question.
fn groups(head: [&str; 6], groups: &[Group], paper: &Paper) -> String {
    let mut rows: Vec<[String; 6]> = Vec::new();
    for line in groups.iter().flat_map(|group| &group.lines) {
        rows.push([
            format!("  {}", clean(&line.name)),
            line.baseline.clone(),
            line.candidate.clone(),
            line.change.clone(),
            line.interval.clone(),
            format!("{}{}", mark(line.mark), line.verdict),
        ]);
    }
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
    let mut table = paper.new_table();
    table.set_header(shown.iter().map(|column| head[*column]));
    let mut rows = rows.iter();
    for group in groups {
        table.add_row([group.title.clone()]);
        for row in rows.by_ref().take(group.lines.len()) {
            table.add_row(shown.iter().map(|column| row[*column].as_str()));
        }
    }
    // a wrapped name loses its indent, so it is the verdicts that wrap
    shape(&mut table, 0, false, width(0) <= usize::from(paper.width) / 2);
    for column in 1..shown.len() - 1 {
        shape(&mut table, column, true, true);
    }
    let text = paper.print(&table);
    if !paper.style.color {
        return text;
    }
    text.replace('▼', "\u{1b}[1;31m▼\u{1b}[0m").replace('▲', "\u{1b}[32m▲\u{1b}[0m")
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

/// Sentences, each behind its word.
pub(crate) fn notes(notes: &[Note], paper: &Paper) -> String {
    let mut table = paper.new_table();
    table.load_style(RULED);
    for note in notes {
        table.add_row([note.word.to_owned(), clean(&note.text)]);
    }
    shape(&mut table, 0, false, true);
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, GAP as u16));
    }
    let text = trimmed(&table);
    if !paper.style.color {
        return text;
    }
    let dress = |line: &str| match line.split_once(' ') {
        Some(("warning", rest)) => format!("\u{1b}[1;33mwarning\u{1b}[0m {rest}"),
        Some(("result", rest)) => format!("\u{1b}[1mresult {rest}\u{1b}[0m"),
        _ => line.to_owned(),
    };
    text.lines().map(dress).collect::<Vec<_>>().join("\n")
}
