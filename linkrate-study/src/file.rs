//! Study files.
//!
//! A study file is TOML: a title, a testbed, what is varied, what stays the same, and how it is
//! measured. [`parse`] turns one into a [`Study`] or into every error it has, each with its line
//! and column. The settings of `[workload]` and `[factors]` are those of [`crate::keys`].
//!
//! ```toml
//! title = "Does TSO pay?"
//! [factors]
//! offload = ["none", "gso", "tso"]
//! [workload]
//! message = "32 KiB"
//! [method]
//! precision = "2.5 %"
//! ```

mod cells;
mod method;
mod reader;
mod testbed;

use std::fmt;

use crate::study::Study;
use reader::Reader;

pub use method::quick;

/// Largest study file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Most levels of one factor.
pub const MAX_LEVELS: usize = 64;

/// Most cells of one study.
pub const MAX_CELLS: usize = 4096;

/// The papers whose published figures can stand beside the measured ones.
pub const PAPERS: [&str; 5] = ["tso", "ten-gigabit", "atm", "apa", "toe"];

/// One error of a study file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file as the person named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key with its table (`factors.offload`); empty where there is none.
    pub key: String,
    /// What is wrong, with the value that is.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl fmt::Display for FileError {
    /// `studies/tso.toml:9:13: factors.offload: unknown level "tos"; did you mean "tso"?`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FileError {}

/// Every error of a study file, in the order of its lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileError>);

impl fmt::Display for FileErrors {
    /// One error a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

/// Reads a study. `name` becomes [`Study::name`]; `path_for_messages` opens every error.
///
/// # Errors
/// Every error of the file, as far as they can be told apart; at most 64 of them.
pub fn parse(name: &str, path_for_messages: &str, text: &str) -> Result<Study, FileErrors> {
    let mut reader = Reader::new(path_for_messages, text);
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_FILE_BYTES}", text.len());
        reader.error(0, "", message, None);
        return Err(reader.into_errors());
    }
    match read(name, text, &mut reader) {
        Some(study) if !reader.has_errors() => Ok(study),
        _ => Err(reader.into_errors()),
    }
}

/// `None` only after at least one error was recorded.
fn read<'t>(name: &str, text: &'t str, reader: &mut Reader<'t>) -> Option<Study> {
    let mut top = reader.document(text)?;
    let title = title(reader, &mut top);
    let paper = top.take("paper").and_then(|entry| reader.word(&entry, &PAPERS));
    let testbed = top.table(reader, "testbed");
    let testbed = testbed::read(reader, testbed);
    let factors = top.table(reader, "factors");
    let workload = top.table(reader, "workload");
    let method = top.table(reader, "method");
    let method = method::read(reader, method);
    top.finish(reader);
    let (factors, cells) = cells::read(reader, factors, workload, &testbed, &method.method);
    if let (Some(factors), false) = (&factors, reader.has_errors()) {
        method.check_budget(reader, cells.len());
        let clients = cells.iter().map(|cell| cell.spec.clients).max().unwrap_or(1);
        let queues = cells.iter().filter_map(|cell| cell.spec.interface.queues).max().unwrap_or(1);
        return Some(Study {
            name: name.to_owned(),
            title,
            paper: paper.map(str::to_owned),
            testbed: linkrate_terms::TestbedSpec { clients, queues, ..testbed },
            factors: factors.clone(),
            cells,
            method: method.method,
            source: text.to_owned(),
        });
    }
    None
}

/// The required title: one line that can head a report.
fn title(reader: &mut Reader<'_>, top: &mut reader::Table<'_>) -> String {
    let Some(entry) = top.take("title") else {
        let hint = "say in one line what the study asks".to_owned();
        reader.error(0, "title", "missing".to_owned(), Some(hint));
        return String::new();
    };
    let Some(title) = reader.text(&entry, "a line of text") else { return String::new() };
    let title = title.trim();
    let right = match title {
        "" => Some("is empty"),
        _ if title.chars().count() > 200 => Some("is longer than 200 characters"),
        _ if title.chars().any(char::is_control) => Some("has a line break or control character"),
        _ => None,
    };
    if let Some(wrong) = right {
        let hint = "say in one line what the study asks".to_owned();
        reader.error(entry.value_at(), &entry.path(), format!("the title {wrong}"), Some(hint));
    }
    title.to_owned()
}

#[cfg(test)]
mod tests;
