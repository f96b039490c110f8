//! One table for every output: the white paper in HTML and Markdown, and the terminal.

use linkrate_study::labels;
use linkrate_study::results::CellResult;
use serde::Serialize;

use crate::layout::{Paper, clean, shape};
use crate::number::ABSENT;
use crate::words::{capitalised, marks};

/// A table: names of columns and rows of fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// What it is, for its caption.
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<TableRow>,
    pub note: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    pub title: String,
    /// The title at a terminal, which has no caption.
    #[serde(skip)]
    pub head: &'static str,
    pub kind: Kind,
}

/// What is in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// What style sheets know it by.
    pub class: &'static str,
    /// Whether a terminal sets it to the right.
    #[serde(skip)]
    pub right: bool,
    /// Whether a terminal never breaks it.
    #[serde(skip)]
    pub whole: bool,
}

impl Kind {
    const fn of(class: &'static str, right: bool, whole: bool) -> Self {
        Self { class, right, whole }
    }
}

pub const NAME: Kind = Kind::of("name", false, false);
pub const NUMBER: Kind = Kind::of("number", true, true);
/// Numbers that a narrow terminal breaks between words.
pub const NUMBERS: Kind = Kind::of("number", true, false);
/// What is never broken, to the left.
pub const WHOLE: Kind = Kind::of("number", false, true);
/// A sentence.
pub const SAY: Kind = Kind::of("say", false, false);
/// A few words.
pub const SHORT: Kind = Kind::of("short", false, false);
/// Words of one line each.
pub const STEP: Kind = Kind::of("step", false, false);
/// The same of numbers.
pub const STEPS: Kind = Kind::of("step", true, false);
/// Why something is not claimed.
pub const REASON: Kind = Kind::of("reason", false, false);

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TableRow {
    /// What the rows below have in common, in a row of its own; empty in rows with fields.
    pub group: String,
    /// The fields, as many as columns.
    pub fields: Vec<Field>,
}

impl TableRow {
    pub fn of(fields: impl IntoIterator<Item = impl Into<Field>>) -> Self {
        Self { group: String::new(), fields: fields.into_iter().map(Into::into).collect() }
    }

    pub fn group(group: String) -> Self {
        Self { group, fields: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Field {
    pub text: String,
    /// The text beside or below it in smaller type.
    pub small: String,
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self { text, small: String::new() }
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<(String, Option<String>)> for Field {
    fn from((text, small): (String, Option<String>)) -> Self {
        Self { text, small: small.unwrap_or_default() }
    }
}

impl Field {
    pub fn or_absent(text: Option<String>) -> Self {
        text.unwrap_or_else(|| ABSENT.to_owned()).into()
    }
}

pub fn column(title: &str, kind: Kind) -> Column {
    Column { title: title.to_owned(), head: "", kind }
}

pub fn columns(titles: &[(&str, Kind)]) -> Vec<Column> {
    titles.iter().map(|(title, kind)| column(title, *kind)).collect()
}

impl Table {
    /// `None` without rows.
    pub fn of(
        title: &str,
        columns: Vec<Column>,
        rows: impl IntoIterator<Item = TableRow>,
        note: impl Into<String>,
    ) -> Option<Self> {
        let rows = rows.into_iter().collect();
        Self { title: title.to_owned(), columns, rows, note: note.into() }.filled()
    }

    /// `None` without rows.
    pub fn filled(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// The same with a note of what the mark of figures of this host means, where one of the rows has it.
    pub fn marked(self) -> Self {
        let notes = [Some(self.note).filter(|note| !note.is_empty()), mark_of(&self.rows)];
        Self { note: notes.into_iter().flatten().collect::<Vec<_>>().join(" "), ..self }
    }

    /// A table without a column.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), columns: Vec::new(), rows: Vec::new(), note: String::new() }
    }

    /// Adds a column, with a field for each row.
    pub fn push(
        &mut self,
        title: &str,
        kind: Kind,
        fields: impl IntoIterator<Item = impl Into<Field>>,
    ) {
        let is_first = self.columns.is_empty();
        self.columns.push(column(title, kind));
        for (index, field) in fields.into_iter().enumerate() {
            if is_first {
                self.rows.push(TableRow::default());
            }
            self.rows[index].fields.push(field.into());
        }
    }

    /// Figures of cells; `head` stands above their names at a terminal.
    pub fn of_cells<'c, const COLUMNS: usize>(
        [title, head]: [&'static str; 2],
        titles: [(&'static str, Kind); COLUMNS],
        rows: impl Iterator<Item = (&'c CellResult, [String; COLUMNS])>,
        note: &str,
    ) -> Option<Self> {
        let named = |(cell, fields): (&CellResult, [String; COLUMNS])| {
            TableRow::of([labels::cell(&cell.levels)].into_iter().chain(fields))
        };
        Self::of(title, headed(["Cell", head], titles), rows.map(named), note).map(Self::marked)
    }

    /// The table at a terminal.
    pub(crate) fn text(&self, paper: &Paper) -> String {
        let mut table = paper.new_table();
        let head = |column: &Column| match column.head {
            "" => clean(&column.title),
            head => head.to_owned(),
        };
        table.set_header(self.columns.iter().map(head));
        for TableRow { group, fields } in &self.rows {
            let group = Some(clean(group)).filter(|group| !group.is_empty());
            table.add_row(group.into_iter().chain(fields.iter().map(|field| clean(&field.text))));
        }
        for (index, column) in self.columns.iter().enumerate() {
            shape(&mut table, index, column.kind.right, column.kind.whole);
        }
        paper.print(&table)
    }

    /// The same with the name of each cell once.
    pub(crate) fn named_once(mut self) -> Self {
        let mut last = None;
        for first in self.rows.iter_mut().filter_map(|row| row.fields.first_mut()) {
            let name = first.text.clone();
            if last.as_ref() == Some(&name) {
                first.text.clear();
            }
            last = Some(name);
        }
        self
    }
}

/// Lines of one measure.
#[derive(Debug, Serialize)]
pub struct Group<Line> {
    pub title: String,
    pub lines: Vec<Line>,
}

impl<Line> Group<Line> {
    /// Adds a line to the group with this title, or a new group with it.
    pub fn add(groups: &mut Vec<Self>, title: String, line: Line) {
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.lines.push(line),
            None => groups.push(Self { title, lines: vec![line] }),
        }
    }

    /// All lines as rows, each group below its title.
    pub fn rows(groups: &[Self], row: impl Fn(&Line) -> TableRow) -> Vec<TableRow> {
        let rows = |group: &Self| {
            let lines = group.lines.iter().map(&row);
            [TableRow::group(group.title.clone())].into_iter().chain(lines).collect::<Vec<_>>()
        };
        groups.iter().flat_map(rows).collect()
    }
}

/// Columns that have another title at a terminal: the one of the names, and those of figures.
pub fn headed<const COLUMNS: usize>(
    [title, head]: [&'static str; 2],
    titles: [(&'static str, Kind); COLUMNS],
) -> Vec<Column> {
    let figures =
        titles.map(|(title, kind)| Column { title: capitalised(title), head: title, kind });
    [Column { head, ..column(title, NAME) }].into_iter().chain(figures).collect()
}

/// What the mark of figures of this host means, where one of the rows has it.
pub fn mark_of(rows: &[TableRow]) -> Option<String> {
    let mut fields = rows.iter().flat_map(|row| &row.fields);
    let marked = fields.any(|field| field.text.contains(marks::HOST_LIMITED));
    marked.then(|| format!("{} {}.", marks::HOST_LIMITED.trim(), marks::OF_THE_HOST))
}

/// Sentences without their capitals and full stops, as a text.
pub fn sentences(sentences: &[&str]) -> String {
    let sentences = sentences.iter().map(|sentence| format!("{}.", capitalised(sentence)));
    sentences.collect::<Vec<_>>().join(" ")
}
