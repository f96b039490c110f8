//! Tables of text: width, alignment, rules, and colour where it is wanted.

use comfy_table::{
    CellAlignment, Column, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle,
    Width,
};
use serde::Serialize;

/// Width taken where there is no terminal to ask.
const PIPE_WIDTH: u16 = 120;
/// Blanks between columns: one of padding, one where a rule would cross.
pub(crate) const GAP: usize = 2;

pub(crate) const RULED: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Text in lines of at most `room` columns, broken between words; a longer word has a line of its own.
pub(crate) fn filled(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// How the text may be dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether escape sequences for colour and bold type may be used.
    pub color: bool,
}

impl Style {
    pub(crate) fn bold(self, text: &str) -> String {
        if self.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The page: its columns, and whether it has colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paper {
    pub(crate) width: u16,
    pub(crate) style: Style,
}

impl Paper {
    /// `width` is the terminal's in columns; `None` when there is none.
    pub(crate) fn new(width: Option<u16>, style: Style) -> Self {
        Self { width: width.unwrap_or(PIPE_WIDTH).max(40), style }
    }

    pub(crate) fn new_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(RULED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(self.width);
        table
    }

    /// The table as text; with colour, a bold header and marks that stand out. Where words would break, each row
    /// becomes a record.
    pub(crate) fn print(&self, table: &Table) -> String {
        let as_records = least_width(table) > usize::from(self.width);
        let text = if as_records { records(table) } else { trimmed(&whole_words(table)) };
        if !self.style.color {
            return text;
        }
        let mut in_header = !as_records;
        let mut lines = Vec::new();
        for line in text.lines() {
            in_header &= !line.starts_with('─');
            lines.push(if in_header {
                self.style.bold(line)
            } else {
                let marks = [('✓', "32"), ('▲', "32"), ('▼', "1;31")];
                marks.iter().fold(line.to_owned(), |line, (mark, color)| {
                    line.replace(*mark, &format!("\u{1b}[{color}m{mark}\u{1b}[0m"))
                })
            });
        }
        lines.join("\n")
    }
}

/// Alignment of a column, whether it is never wrapped, and the gaps between all columns.
pub(crate) fn shape(table: &mut Table, index: usize, right: bool, whole: bool) {
    if let Some(column) = table.column_mut(index) {
        if right {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if whole {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let columns = table.column_count();
    for index in 0..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, if index + 1 == columns { 0 } else { 1 }));
        }
    }
}

/// The columns that a table needs.
fn least_width(table: &Table) -> usize {
    least_widths(table).iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// What each column needs: whole columns take their longest line, the others their longest word.
fn least_widths(table: &Table) -> Vec<usize> {
    let rows = || table.header().into_iter().chain(table.row_iter());
    let longest = |index: usize, whole: bool| {
        let texts = rows().filter_map(|row| Some(row.cell_iter().nth(index)?.content()));
        let width = |text: String| {
            let pieces = text.split(if whole { &['\n'][..] } else { &['\n', ' '] });
            pieces.map(|piece| piece.chars().count()).max().unwrap_or(0)
        };
        texts.map(width).max().unwrap_or(0)
    };
    let whole = |column: &Column| column.constraint() == Some(&ColumnConstraint::ContentWidth);
    table.column_iter().enumerate().map(|(at, column)| longest(at, whole(column))).collect()
}

/// The table with no column narrower than its longest word: by themselves they share the room evenly.
fn whole_words(table: &Table) -> Table {
    let mut table = table.clone();
    let columns = table.column_count();
    for (index, width) in least_widths(&table).into_iter().enumerate() {
        let column = table.column_mut(index).filter(|column| column.constraint().is_none());
        if let Some(column) = column {
            // with the padding, which the last one lacks
            let least = width + usize::from(index + 1 < columns);
            let least = u16::try_from(least).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    table
}

/// Each row as a record: its first field, and below it the others behind their headers.
fn records(table: &Table) -> String {
    let fields = |row: &Row| -> Vec<String> {
        row.cell_iter().map(|cell| cell.content().replace('\n', " ")).collect()
    };
    let header = table.header().map(fields).unwrap_or_default();
    let wide = header.iter().skip(1).map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in table.row_iter().map(fields) {
        let first = row.first().map(|name| name.trim_end()).unwrap_or_default();
        let indent = first.chars().take_while(|c| *c == ' ').count() + 2;
        text.push_str(&format!("{first}\n"));
        let named = header.iter().zip(&row).skip(1).filter(|(_, field)| !field.is_empty());
        for (name, field) in named {
            text.push_str(&format!("{:indent$}{name:<wide$}  {field}\n", ""));
        }
    }
    text.trim_end().to_owned()
}

/// A sentence with the word in front of it.
#[derive(Debug, Serialize)]
pub struct Note {
    pub word: &'static str,
    pub text: String,
}

/// Sentences, each behind its word.
pub(crate) fn notes(notes: &[Note], paper: &Paper, style: TableStyle) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut table = paper.new_table();
    table.load_style(style);
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
        Some((word @ ("failed" | "incomplete"), rest)) => {
            format!("\u{1b}[1;31m{word}\u{1b}[0m {rest}")
        }
        Some(("result", rest)) => format!("\u{1b}[1mresult {rest}\u{1b}[0m"),
        _ => line.to_owned(),
    };
    text.lines().map(dress).collect::<Vec<_>>().join("\n")
}

/// Trailing blanks only make a pipe's output hard to compare.
pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Text from outside without control characters: a study title must not drive the terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
