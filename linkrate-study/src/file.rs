//! Study files.
//!
//! A study file is TOML: a title, a testbed, the factors, the common settings, and the method. [`parse`] turns one into a [`Study`] or into every error it has, each with its line
//! and column. The settings of `[workload]` and `[factors]` are those of [`crate::keys`].
//!
//! `[quick]` names the cells of a quick run. `[[when]]` lets a level bring other settings along, `[[part]]` asks several questions in one
//! study, `[[published]]` holds a paper's figures. A study file that names the file of an
//! adapter's model is read by [`parse_with`], which asks its caller for that file, and [`parse_on`]
//! runs a study on interfaces of this host instead of its file's testbed.
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
mod effects;
mod fleet;
mod interfaces;
mod method;
mod mix;
mod named;
mod published;
mod question;
mod quick;
mod reader;
mod testbed;
mod when;

use std::fmt;
use std::ops::Range;

use crate::adapter::LoadFile;
use crate::bounds::{MAX_FILE_BYTES, MAX_TITLE, PAPERS};
pub use crate::bounds::{SCALE_EXPECTED, SCALES};
use crate::fleet::Given;
use crate::study::Study;
use linkrate_model::nearest::shortened;
use linkrate_model::{Interfaces, TestbedSpec};
use linkrate_stats::order::Order;
use reader::Reader;
use toml::de::{DeTable, DeValue};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key with its table (`factors.offload`); empty without a key.
    pub key: String,
    /// The error, with the value.
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

/// Reads a study that needs no other file. `name` becomes [`Study::name`]; `path_for_messages` opens every error, of
/// which there are at most 64.
pub fn parse(name: &str, path_for_messages: &str, text: &str) -> Result<Study, FileErrors> {
    let mut none = |path: &str| Err(format!("{}: no file can be read here", shortened(path)));
    parse_with(name, path_for_messages, text, &mut none)
}

/// As [`parse`]; the file of an adapter's model is read by `load`, which takes the path as the
/// study file has it.
pub fn parse_with(
    name: &str,
    path_for_messages: &str,
    text: &str,
    load: &mut LoadFile<'_>,
) -> Result<Study, FileErrors> {
    parse_on(name, path_for_messages, text, load, None)
}

/// As [`parse_with`], on these interfaces, if any, instead of the file's testbed. A setting that an interface does not
/// have is an error.
pub fn parse_on(
    name: &str,
    path_for_messages: &str,
    text: &str,
    load: &mut LoadFile<'_>,
    on: Option<&Interfaces>,
) -> Result<Study, FileErrors> {
    parse_at(
        name,
        path_for_messages,
        text,
        load,
        on.map_or(TestbedSource::OfFile, TestbedSource::Interfaces),
    )
}

/// As [`parse_with`], on a fleet of these nodes instead of the file's testbed and nodes.
pub fn parse_nodes(
    name: &str,
    path_for_messages: &str,
    text: &str,
    load: &mut LoadFile<'_>,
    given: &Given,
) -> Result<Study, FileErrors> {
    parse_at(name, path_for_messages, text, load, TestbedSource::Nodes(given))
}

#[derive(Clone, Copy)]
enum TestbedSource<'a> {
    /// Where its file says.
    OfFile,
    Interfaces(&'a Interfaces),
    Nodes(&'a Given),
}

fn parse_at(
    name: &str,
    path_for_messages: &str,
    text: &str,
    load: &mut LoadFile<'_>,
    testbed_source: TestbedSource<'_>,
) -> Result<Study, FileErrors> {
    let mut reader = Reader::new(path_for_messages, text);
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_FILE_BYTES}", text.len());
        reader.error(0, "", message, None);
        return Err(reader.into_errors());
    }
    match read(name, text, &mut reader, load, testbed_source) {
        Some(study) if !reader.has_errors() => Ok(study),
        _ => Err(reader.into_errors()),
    }
}

/// `None` only after at least one error was recorded.
fn read<'t>(
    name: &str,
    text: &'t str,
    reader: &mut Reader<'t>,
    load: &mut LoadFile<'_>,
    testbed_source: TestbedSource<'_>,
) -> Option<Study> {
    let mut top = reader.document(text)?;
    let title = title(reader, &mut top);
    let paper = top.take("paper").and_then(|entry| reader.word(&entry, &PAPERS));
    let testbed = top.table(reader, "testbed");
    let of_fleet = top.table(reader, "fleet");
    let beside_fleet =
        of_fleet.is_some() && !matches!(testbed_source, TestbedSource::Interfaces(_));
    let fleet = match testbed_source {
        TestbedSource::OfFile if of_fleet.is_none() => None,
        TestbedSource::OfFile => fleet::read(reader, of_fleet, load, None),
        TestbedSource::Nodes(given) => fleet::read(reader, of_fleet, load, Some(given)),
        TestbedSource::Interfaces(_) => None,
    };
    // the cells of a fleet are checked on its first pair
    let of_pair = fleet.as_ref().and_then(|fleet| fleet.interfaces(&fleet.first_pair(), &[]).ok());
    let on = match testbed_source {
        TestbedSource::Interfaces(on) => Some(on),
        _ => of_pair.as_ref(),
    };
    let testbed = testbed::read(reader, testbed, load, on, beside_fleet);
    let workload = top.table(reader, "workload");
    let directed = workload.as_ref().is_some_and(|workload| workload.has("direction"));
    let tables = cells::Tables {
        factors: top.table(reader, "factors"),
        workload,
        whens: top.tables(reader, "when"),
        parts: top.tables(reader, "part"),
        mix: top.tables(reader, "mix"),
    };
    let published = top.tables(reader, "published");
    let quick = top.table(reader, "quick");
    let method = top.table(reader, "method");
    let mut method = method::read(reader, method);
    if fleet.is_some() {
        // rounds have a random order of their own
        method.method.order = Order::Independent;
        // pairs with the same levels are a fleet's own repetition
        if let Some(entry) = method.aa_at.take() {
            reader.refuse(&entry, "a fleet has no A/A test".to_owned(), "leave out aa");
        }
        method.method.aa = false;
    }
    top.finish(reader);
    let mut cells = cells::read(reader, tables, &testbed, &method.method)?;
    if let Some(fleet) = &fleet {
        fleet::direct(reader, fleet, &mut cells.cells, directed);
    }
    if let Some(asked) = &method.effects {
        effects::choose(reader, asked, &mut cells);
    }
    let published = published::read(reader, published, &cells);
    let quick = quick::read(reader, quick, &cells, &method.method);
    if reader.has_errors() {
        return None;
    }
    method.check_budget(reader, cells.cells.len());
    let mut study = Study {
        name: name.to_owned(),
        title,
        paper: paper.map(str::to_owned),
        testbed: TestbedSpec::default(),
        factors: cells.factors,
        parts: cells.parts,
        cells: cells.cells,
        published,
        fleet,
        method: method.method,
        quick,
        source: text.to_owned(),
    };
    study.testbed = study.fitted(&testbed);
    // a plan that is read again goes through the same
    if let Err(reason) = study.check() {
        reader.error(0, "", reason, None);
        return None;
    }
    Some(study)
}

/// The required title: one line that can head a report.
fn title(reader: &mut Reader<'_>, top: &mut reader::Table<'_>) -> String {
    let hint = "give one line with the question of the study";
    top.line(reader, "title", MAX_TITLE, hint).unwrap_or_default()
}

/// Keys of `[method]`; all others are those of `[workload]`.
const OF_METHOD: [&str; 4] = ["run", "warm-up", "idle", "purpose"];

/// The text with `KEY = "VALUE"` in `[workload]`, or in `[method]` for keys of the method, in place of what the
/// file has there. A text that is no TOML stays as it is: its reader says why.
pub fn with_setting(text: &str, key: &str, value: &str) -> String {
    let table = if OF_METHOD.contains(&key) { "method" } else { "workload" };
    let value = toml::Value::from(value).to_string();
    let Ok(document) = DeTable::parse(text) else { return text.to_owned() };
    let found = document.get_ref().iter().find(|(name, _)| name.get_ref() == table);
    let (at, new): (Range<usize>, String) = match found.map(|(name, of)| (name, of.get_ref())) {
        Some((name, DeValue::Table(entries))) => {
            match entries.iter().find(|(name, _)| name.get_ref() == key) {
                Some((_, old)) => (old.span(), value),
                None => {
                    let header = name.span().end;
                    let line = text[header..].find('\n').map_or(text.len(), |end| header + end);
                    (line..line, format!("\n{key} = {value}"))
                }
            }
        }
        _ => (text.len()..text.len(), format!("\n[{table}]\n{key} = {value}\n")),
    };
    format!("{}{new}{}", &text[..at.start], &text[at.end..])
}

#[cfg(test)]
mod tests;
