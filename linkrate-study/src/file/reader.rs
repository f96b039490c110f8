//! TOML with positions: tables whose entries come in the order of the file, and the errors found
//! on the way.

use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use linkrate_model::clean::is_harmful;
use linkrate_model::nearest::{name_hint, shortened};
use linkrate_model::units::{UnitError, format_duration, parse_duration};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{FileError, FileErrors};
use crate::bounds::MAX_FILE_TABLES;
use crate::levels::Level;

/// Most errors of one file: a file that is no study file at all has one in every line.
const MAX_ERRORS: usize = 64;

/// Most tables of one name.
const MAX_TABLES: usize = MAX_FILE_TABLES;

/// Longest text that is read as a quantity.
const MAX_QUANTITY: usize = 256;

/// The text's positions and the errors so far.
pub(super) struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    /// Byte offset of each line's first character.
    lines: Vec<usize>,
    errors: Vec<FileError>,
}

/// One `key = value`.
pub(super) struct Entry<'t> {
    /// The table's name with a dot, empty for the top level.
    prefix: Rc<str>,
    pub(super) name: String,
    key_at: usize,
    value: Spanned<DeValue<'t>>,
}

impl<'t> Entry<'t> {
    /// The key with its table, for messages.
    pub(super) fn path(&self) -> String {
        format!("{}{}", self.prefix, shortened(&self.name))
    }

    /// Where the key stands.
    pub(super) fn key_at(&self) -> usize {
        self.key_at
    }

    pub(super) fn value_at(&self) -> usize {
        self.value.span().start
    }

    pub(super) fn value(&self) -> &DeValue<'t> {
        self.value.get_ref()
    }

    /// What is in it, where it is a table with names of the file's own.
    pub(super) fn own_table(&self) -> Option<Table<'t>> {
        let DeValue::Table(map) = self.value() else { return None };
        Some(Table::new(&format!("{}.", self.path()), self.key_at, map.clone()))
    }

    /// The table that it is; `None` after an error.
    pub(super) fn into_table(self, reader: &mut Reader<'_>) -> Option<Table<'t>> {
        let prefix = match (&*self.prefix, self.name.as_str()) {
            (_, "testbed") => "testbed.",
            (_, "fleet") => "fleet.",
            ("part.", "factors") => "part.factors.",
            ("part.", _) => "part.workload.",
            (_, "factors") => "factors.",
            (_, "workload") => "workload.",
            (_, "method") => "method.",
            (_, "is") => "when.is.",
            (_, "set") => "when.set.",
            (_, "quick") => "quick.",
            ("quick.", _) => "quick.at.",
            (_, "at") => "published.at.",
            _ => "method.blocks.",
        };
        let (at, path) = (self.key_at, self.path());
        match self.value.into_inner() {
            DeValue::Table(map) => Some(Table::new(prefix, at, map)),
            other => {
                let message = format!("{} is not a table", described(&other));
                let hint = match prefix {
                    "method.blocks." => {
                        "expected a number, or for example { min = 5, max = 30 }".to_owned()
                    }
                    "when.is." => "expected for example { mtu = 9000 }".to_owned(),
                    "when.set." => "expected for example { message = \"128 KiB\" }".to_owned(),
                    "published.at." | "quick.at." => {
                        "expected for example { direction = \"transmit\" }".into()
                    }
                    _ => format!("expected [{}]", prefix.trim_end_matches('.')),
                };
                reader.error(at, &path, message, Some(hint));
                None
            }
        }
    }
}

/// A table, its entries in the order of the file.
pub(super) struct Table<'t> {
    prefix: Rc<str>,
    /// Where the table stands, for errors about something it lacks.
    pub(super) at: usize,
    pub(super) entries: Vec<Entry<'t>>,
    /// Every key asked for so far: the valid ones.
    known: Vec<&'static str>,
}

impl<'t> Table<'t> {
    fn new(prefix: &str, at: usize, map: DeTable<'t>) -> Self {
        let prefix: Rc<str> = prefix.into();
        let mut entries: Vec<Entry<'t>> = map
            .into_iter()
            .map(|(key, value)| Entry {
                prefix: Rc::clone(&prefix),
                key_at: key.span().start,
                name: key.into_inner().into_owned(),
                value,
            })
            .collect();
        // the parser's map is ordered by name
        entries.sort_by_key(|entry| entry.key_at);
        Self { prefix, at, entries, known: Vec::new() }
    }

    /// Takes the entry of that name out.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Entry<'t>> {
        self.known.push(name);
        let index = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(index))
    }

    /// Takes out the line of that name, which the table must have, with up to `most` characters.
    pub(super) fn line(
        &mut self,
        reader: &mut Reader<'_>,
        name: &'static str,
        most: usize,
        hint: &str,
    ) -> Option<String> {
        if let Some(entry) = self.take(name) {
            return reader.line(&entry, most, hint);
        }
        let path = format!("{}{name}", self.prefix);
        reader.error(self.at, &path, "missing".to_owned(), Some(hint.to_owned()));
        None
    }

    /// Whether an entry of that name is left.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// Takes the table of that name out.
    pub(super) fn table(
        &mut self,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Option<Table<'t>> {
        self.take(name)?.into_table(reader)
    }

    /// Takes the tables of that name out: every `[[part]]` of the file.
    pub(super) fn tables(&mut self, reader: &mut Reader<'_>, name: &'static str) -> Vec<Table<'t>> {
        let Some(entry) = self.take(name) else { return Vec::new() };
        let prefix = match name {
            "part" => "part.",
            "when" => "when.",
            "mix" => "mix.",
            _ => "published.",
        };
        let (at, path) = (entry.key_at, entry.path());
        let hint = || Some(format!("expected [[{name}]]"));
        let DeValue::Array(array) = entry.value.into_inner() else {
            reader.error(at, &path, "is not a list of tables".to_owned(), hint());
            return Vec::new();
        };
        if array.len() > MAX_TABLES {
            let message = format!("{} tables, more than {MAX_TABLES}", array.len());
            reader.error(at, &path, message, Some("leave some out".to_owned()));
            return Vec::new();
        }
        let mut tables = Vec::new();
        for value in array {
            let at = value.span().start;
            match value.into_inner() {
                DeValue::Table(map) => tables.push(Table::new(prefix, at, map)),
                other => {
                    let message = format!("{} is not a table", described(&other));
                    reader.error(at, &path, message, hint());
                }
            }
        }
        tables
    }

    /// Reports every entry that was not taken: its key is unknown.
    pub(super) fn finish(self, reader: &mut Reader<'_>) {
        for entry in &self.entries {
            if reader.is_full() {
                return;
            }
            let message = format!("unknown key {:?}", shortened(&entry.name));
            let path = self.prefix.trim_end_matches('.');
            let hint = name_hint(&entry.name, &self.known);
            reader.error(entry.key_at, path, message, Some(hint));
        }
    }
}

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { file, text, lines, errors: Vec::new() }
    }

    /// Parses the whole text; `None` after syntax errors, which are recorded.
    pub(super) fn document(&mut self, text: &'t str) -> Option<Table<'t>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let places = errors.iter().map(|error| error.span().map_or(0, |span| span.start));
        let mut placed: Vec<_> = places.zip(&errors).collect();
        placed.sort_by_key(|(at, _)| *at);
        let mut last_line = 0;
        for (at, error) in placed {
            let (line, _) = self.position(at);
            // the parser continues after an error, and what follows it in the line is its echo
            if line != last_line {
                self.error(at, "", error.message().to_owned(), None);
            }
            last_line = line;
        }
        errors.is_empty().then(|| Table::new("", 0, table.into_inner()))
    }

    /// Line and column of a byte offset, from 1; the column counts characters.
    fn position(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|index| self.lines.get(index)).copied();
        let before = self.text.get(start.unwrap_or(0)..at).unwrap_or("");
        (line.max(1), before.chars().count() + 1)
    }

    /// Records an error at byte offset `at`.
    pub(super) fn error(&mut self, at: usize, key: &str, message: String, hint: Option<String>) {
        if !self.is_full() {
            let (line, column) = self.position(at);
            let (file, key) = (self.file.to_owned(), key.to_owned());
            self.errors.push(FileError { file, line, column, key, message, hint });
        }
    }

    /// Records an error about an entry's key.
    pub(super) fn refuse_key(&mut self, entry: &Entry<'_>, message: String, hint: impl Display) {
        self.error(entry.key_at, &entry.path(), message, Some(hint.to_string()));
    }

    /// Records an error about an entry's value.
    pub(super) fn refuse(&mut self, entry: &Entry<'_>, message: String, hint: impl Display) {
        self.error(entry.value_at(), &entry.path(), message, Some(hint.to_string()));
    }

    pub(super) fn errors(&self) -> usize {
        self.errors.len()
    }

    pub(super) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Whether no further error would be kept, so that looking for more is in vain.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// Whether an error about exactly this key was recorded.
    pub(super) fn has_errors_about(&self, key: &str) -> bool {
        self.errors.iter().any(|error| error.key == key)
    }

    pub(super) fn into_errors(mut self) -> FileErrors {
        self.errors.sort_by_key(|error| (error.line, error.column));
        FileErrors(self.errors)
    }

    /// A text of one line, with up to `most` characters.
    pub(super) fn line(&mut self, entry: &Entry<'_>, most: usize, hint: &str) -> Option<String> {
        let line = self.text(entry, "a line of text")?.trim();
        let wrong = match line {
            "" => "is empty".to_owned(),
            _ if line.chars().count() > most => format!("is longer than {most} characters"),
            _ if line.contains(is_harmful) => "has a line break or control character".to_owned(),
            _ => return Some(line.to_owned()),
        };
        let message = format!("the {} {wrong}", entry.name);
        self.refuse(entry, message, hint);
        None
    }

    pub(super) fn text<'e>(&mut self, entry: &'e Entry<'_>, expected: &str) -> Option<&'e str> {
        let text = entry.value().as_str();
        if text.is_none() {
            let message = format!("{} is not text", described(entry.value()));
            self.refuse(entry, message, format_args!("expected {expected}"));
        }
        text
    }

    /// One of `words`.
    pub(super) fn word(
        &mut self,
        entry: &Entry<'_>,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let expected = format!("one of {}", words.join(", "));
        let text = self.text(entry, &expected)?;
        let word = words.iter().find(|word| **word == text).copied();
        if word.is_none() {
            let message = format!("unknown value {:?}", shortened(text));
            self.refuse(entry, message, name_hint(text, words));
        }
        word
    }

    /// A whole number from `low` to `high`.
    pub(super) fn number(&mut self, entry: &Entry<'_>, low: u64, high: u64) -> Option<u64> {
        let number = whole_number(entry.value()).filter(|n| (low..=high).contains(n));
        if number.is_none() {
            let message = match entry.value() {
                DeValue::Integer(_) => format!("{} is out of range", described(entry.value())),
                other => format!("{} is not a whole number", described(other)),
            };
            self.refuse(entry, message, format_args!("expected a number from {low} to {high}"));
        }
        number
    }

    /// A whole number from `low` to `high`, as 32 bits have it.
    pub(super) fn count(&mut self, entry: &Entry<'_>, low: u32, high: u32) -> Option<u32> {
        let number = self.number(entry, low.into(), high.into())?;
        u32::try_from(number).ok()
    }

    /// On or off.
    pub(super) fn switch(&mut self, entry: &Entry<'_>) -> Option<bool> {
        match entry.value() {
            DeValue::Boolean(switch) => Some(*switch),
            DeValue::String(word) if word == "on" => Some(true),
            DeValue::String(word) if word == "off" => Some(false),
            other => {
                let message = format!("{} is neither on nor off", described(other));
                self.refuse(entry, message, "expected on or off");
                None
            }
        }
    }

    /// A quantity with its unit, read by `parse`.
    pub(super) fn quantity<T>(
        &mut self,
        entry: &Entry<'_>,
        example: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        let text = self.text(entry, example)?;
        if text.len() > MAX_QUANTITY {
            let message = format!("{:?} is not a quantity", shortened(text));
            self.refuse(entry, message, format_args!("expected {example}"));
            return None;
        }
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(entry.value_at(), &entry.path(), error.to_string(), None);
                None
            }
        }
    }

    /// A duration from `low` to `high`, or exactly zero where `zero` allows it.
    pub(super) fn duration(
        &mut self,
        entry: &Entry<'_>,
        (low, high): (Duration, Duration),
        zero: bool,
    ) -> Option<Duration> {
        let duration = self.quantity(entry, "a time such as \"2 s\"", parse_duration)?;
        if (low..=high).contains(&duration) || zero && duration.is_zero() {
            return Some(duration);
        }
        let message = format!("{} is out of range", described(entry.value()));
        let or_zero = if zero { ", or \"0 s\"" } else { "" };
        let (low, high) = (format_duration(low), format_duration(high));
        self.refuse(entry, message, format_args!("expected a time from {low} to {high}{or_zero}"));
        None
    }

    /// One level: a whole number, a switch or text. `path` and `at` say where it stands.
    pub(super) fn level(&mut self, value: &DeValue<'_>, path: &str, at: usize) -> Option<Level> {
        let level = match value {
            DeValue::String(text) => Some(Level::Text(text.to_string())),
            DeValue::Boolean(on) => Some(Level::Switch(*on)),
            _ => whole_number(value).map(Level::Number),
        };
        if level.is_none() {
            let hint = match value {
                DeValue::Array(_) => "put several levels into [factors]",
                _ => "expected a whole number, true, false or text",
            };
            let message = format!("{} is not a value of a setting", described(value));
            self.error(at, path, message, Some(hint.to_owned()));
        }
        level
    }
}

fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A value as a message shows it.
pub(super) fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{:?}", shortened(text)),
        DeValue::Integer(integer) => shortened(&integer.to_string()),
        DeValue::Float(float) => shortened(&float.to_string()),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
