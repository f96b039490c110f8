//! `[[published]]`: a paper's figures for these cells.

use linkrate_model::BitRate;
use linkrate_model::nearest::name_hint;
use linkrate_model::spec::Task;
use linkrate_model::units::parse_percent;
use toml::de::DeValue;

use super::cells::Cells;
use super::effects::known_factor;
use super::question::same;
use super::reader::{Entry, Reader, Table, described};
use crate::bounds::MAX_SOURCE;
use crate::levels::{Level, Levels};
use crate::published::{Basis, Published, PublishedFigure, Step, cells_at, pairs_at};
use crate::quantity::Measure;
use crate::study::PART;

const MEASURES: [(&str, Measure); 4] = [
    ("throughput", Measure::Throughput),
    ("service-demand", Measure::ServiceDemand),
    ("transactions", Measure::Transactions),
    ("cpu", Measure::Cpu),
];

/// The published figures, each about cells that there are; those that are refused are left out,
/// with an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tables: Vec<Table<'_>>,
    cells: &Cells,
) -> Vec<Published> {
    let mut all = Vec::new();
    for table in tables {
        if reader.is_full() {
            break;
        }
        all.extend(one(reader, table, cells));
    }
    all
}

/// One of them; `None` after an error.
fn one(reader: &mut Reader<'_>, mut table: Table<'_>, cells: &Cells) -> Option<Published> {
    let table_at = table.at;
    let measure = table.take("measure");
    let at = table.table(reader, "at");
    let (factor, from, to) = (table.take("factor"), table.take("from"), table.take("to"));
    let (basis, source) = (table.take("basis"), table.take("source"));
    let figures = [table.take("effect"), table.take("difference"), table.take("value")];
    table.finish(reader);
    let missing = |reader: &mut Reader<'_>, key: &str, hint: &str| {
        reader.error(table_at, &format!("published.{key}"), "missing".into(), Some(hint.into()));
    };
    let at = match at {
        Some(table) => levels(reader, table, cells),
        None => Some(Levels::default()),
    };
    let Some(measure) = measure else {
        missing(reader, "measure", "expected one of throughput, service-demand, transactions, cpu");
        return None;
    };
    let words = MEASURES.map(|(word, _)| word);
    let word = reader.word(&measure, &words)?;
    let measure = MEASURES.iter().find(|(known, _)| *known == word).map(|(_, measure)| *measure)?;
    let at = at?;
    let basis = match &basis {
        Some(entry) => {
            let word = reader.word(entry, &Basis::ALL.map(|(word, _)| word))?;
            Basis::ALL.iter().find(|(known, _)| *known == word).map(|(_, basis)| *basis)?
        }
        None => Basis::default(),
    };
    let source = match &source {
        Some(entry) => {
            Some(reader.line(entry, MAX_SOURCE, "name the paper or letter, and its year")?)
        }
        None => None,
    };
    let mut given = figures.iter().flatten();
    let (Some(entry), None) = (given.next(), given.next()) else {
        missing(reader, "effect", "give one of effect, difference and value");
        return None;
    };
    let step = if entry.name == "value" {
        if let Some(entry) = [&factor, &from, &to].into_iter().flatten().next() {
            let message = "a published value has no such key".to_owned();
            let hint = "leave it out, or give effect or difference instead of value";
            reader.refuse_key(entry, message, hint);
            return None;
        }
        None
    } else {
        let (Some(factor), Some(from), Some(to)) = (&factor, &from, &to) else {
            missing(reader, "factor", "give factor, from and to");
            return None;
        };
        Some(step(reader, [factor, from, to], &at, cells)?)
    };
    let found = matching(reader, entry, step.as_ref(), &at, cells)?;
    let transactional = kinds(reader, entry, measure, &found, cells)?;
    let figure = figure(reader, entry, measure, transactional, step)?;
    Some(Published { measure, at, figure, basis, source })
}

/// The levels of `at`, as the factors have them; `None` after an error.
fn levels(reader: &mut Reader<'_>, table: Table<'_>, cells: &Cells) -> Option<Levels> {
    let mut found = Vec::new();
    let mut sound = true;
    for entry in &table.entries {
        if known_factor(reader, entry, entry.key_at(), &entry.name, &cells.factors)
            && let Some(level) = level(reader, entry, &entry.name, cells)
        {
            found.push((entry.name.clone(), level));
        } else {
            sound = false;
        }
    }
    sound.then_some(Levels(found))
}

/// A level of that factor, as the factor has it; `None` after an error.
fn level(reader: &mut Reader<'_>, entry: &Entry<'_>, factor: &str, cells: &Cells) -> Option<Level> {
    level_of(reader, (&entry.path(), entry.value_at()), entry.value(), factor, cells)
}

/// The level of that factor which `value` at a place names, as the factor has it; `None` after an
/// error.
pub(super) fn level_of(
    reader: &mut Reader<'_>,
    (path, at): (&str, usize),
    value: &DeValue<'_>,
    factor: &str,
    cells: &Cells,
) -> Option<Level> {
    let given = reader.level(value, path, at)?;
    let levels =
        cells.factors.iter().filter(|known| known.name == factor).flat_map(|known| &known.levels);
    let found = levels.clone().find(|level| match factor {
        PART => **level == given,
        _ => same(factor, level, &given),
    });
    if found.is_none() {
        let names: Vec<String> = levels.map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = match &given {
            Level::Text(text) => name_hint(text, &names),
            _ => format!("expected one of {}", names.join(", ")),
        };
        let message = format!("{} is not a level of {factor}", described(value));
        reader.error(at, path, message, Some(hint));
    }
    found.cloned()
}

/// What changes; `None` after an error.
fn step(
    reader: &mut Reader<'_>,
    [factor, from, to]: [&Entry<'_>; 3],
    at: &Levels,
    cells: &Cells,
) -> Option<Step> {
    let name = reader.text(factor, "the name of a factor")?.to_owned();
    if !known_factor(reader, factor, factor.value_at(), &name, &cells.factors) {
        return None;
    }
    if at.get(&name).is_some() || name == PART {
        let message = format!("{name} is fixed in at and cannot change too");
        reader.refuse(factor, message, "leave it out of at; compare within one part");
        return None;
    }
    if !cells.factors.iter().any(|known| known.name == name && known.effects) {
        let message = format!("{name} is not among the effects of [method]");
        reader.refuse(factor, message, "add it there, or remove this figure");
        return None;
    }
    let (before, after) = (level(reader, from, &name, cells), level(reader, to, &name, cells));
    let (before, after) = (before?, after?);
    if before == after {
        reader.refuse(to, format!("from and to are both {after}"), "name two levels");
        return None;
    }
    Some(Step { factor: name, from: before, to: after })
}

/// Indices of the cells it is about; `None` after an error.
fn matching(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    step: Option<&Step>,
    at: &Levels,
    cells: &Cells,
) -> Option<Vec<usize>> {
    let all: Vec<&Levels> = cells.cells.iter().map(|cell| &cell.levels).collect();
    let (found, what): (Vec<usize>, _) = match step {
        Some(step) => {
            (pairs_at(at, step, &all).iter().map(|(from, _)| *from).collect(), "pair of cells")
        }
        None => (cells_at(at, all.iter().copied()).collect(), "cell"),
    };
    // a ratio has a mean over ports or parts; bits per second of unlike cells have none
    if found.len() > 1 && entry.name != "effect" {
        let message = format!("{} needs one {what}, but at matches {}", entry.name, found.len());
        reader.refuse_key(entry, message, "name the levels of the other factors too");
        return None;
    }
    if found.is_empty() {
        let hint = "name levels that occur together in a cell";
        reader.refuse_key(entry, format!("at matches no {what}"), hint);
        return None;
    }
    Some(found)
}

/// Whether the cells are made of transactions; `None` after an error, as when the measure is not
/// of their kind.
fn kinds(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    measure: Measure,
    found: &[usize],
    cells: &Cells,
) -> Option<bool> {
    let transactional = |index: &usize| match &cells.cells[*index].spec.task {
        Task::Workload(workload) => workload.kind.is_transactional(),
        Task::Idle => false,
    };
    let some = found.iter().any(transactional);
    let wrong = match measure {
        Measure::Throughput if some => {
            "throughput is a measure of streams; these cells are transactions"
        }
        Measure::Transactions if !some => {
            "transactions are a measure of request/response; these cells are streams"
        }
        _ if some != found.iter().all(transactional) => "at matches both streams and transactions",
        _ => return Some(some),
    };
    reader.refuse_key(entry, wrong.to_owned(), "choose another measure or other levels");
    None
}

/// The figure; `None` after an error.
fn figure(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    measure: Measure,
    transactional: bool,
    step: Option<Step>,
) -> Option<PublishedFigure> {
    let example = match (entry.name.as_str(), measure) {
        ("effect", _) => "a change such as \"-47 %\"",
        (_, Measure::Throughput | Measure::Transmit | Measure::Receive) => {
            "a rate such as \"9.47 Gb/s\""
        }
        (_, Measure::Transactions) => "a rate such as \"12000 /s\"",
        (_, Measure::LatencyP50 | Measure::LatencyP99) => "a latency such as \"35 us\"",
        (_, Measure::Cpu) => "a percentage such as \"6.5 %\"",
        (_, Measure::ServiceDemand) if transactional => "a cost such as \"17.1 us/transaction\"",
        (_, Measure::ServiceDemand) => "a cost such as \"1.35 us/KB\"",
    };
    let text = reader.text(entry, example)?.trim();
    // papers print a minus sign, keyboards have a hyphen
    let (sign, size) = match text.strip_prefix(['-', '−']) {
        Some(size) => (-1.0, size),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = if text.len() > 64 {
        None
    } else if entry.name == "effect" {
        parse_percent(size).ok()
    } else {
        match measure {
            Measure::Throughput | Measure::Transmit | Measure::Receive => {
                size.parse::<BitRate>().ok().map(|rate| rate.0)
            }
            Measure::Transactions => number(size, &["/s", "transaction/s"]),
            Measure::LatencyP50 | Measure::LatencyP99 => {
                number(size, &["us", "µs"]).map(|us| us * 1e3)
            }
            Measure::Cpu => parse_percent(size).ok().map(|fraction| fraction * 100.0),
            Measure::ServiceDemand if transactional => {
                number(size, &["us/transaction", "µs/transaction"])
            }
            Measure::ServiceDemand => number(size, &["us/KB", "µs/KB"]),
        }
    };
    let number = number.map(|number| sign * number).filter(|number| {
        number.is_finite()
            && match entry.name.as_str() {
                "effect" => *number > -1.0,
                "value" => *number >= 0.0,
                _ => true,
            }
    });
    let Some(number) = number else {
        let message =
            format!("{} is not a valid {} of this measure", described(entry.value()), entry.name);
        reader.refuse(entry, message, format_args!("expected {example}"));
        return None;
    };
    Some(match step {
        None => PublishedFigure::Value(number),
        Some(step) if entry.name == "effect" => PublishedFigure::Effect(step, 1.0 + number),
        Some(step) => PublishedFigure::Difference(step, number),
    })
}

/// A number in one of these units, the longer name of a unit last.
fn number(text: &str, units: &[&str]) -> Option<f64> {
    units.iter().rev().find_map(|unit| text.strip_suffix(unit))?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
