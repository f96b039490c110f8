//! `[factors]` and `[workload]`: every combination of levels, each checked.

use linkrate_terms::{Protocol, RunSpec, Task, TestbedSpec};
use toml::de::DeValue;

use super::reader::{Entry, Reader, Table, described};
use super::{MAX_CELLS, MAX_LEVELS};
use crate::keys::{self, Combination, KeyError, Setup};
use crate::results::{Level, Levels};
use crate::study::{Cell, Factor, Method};

/// A factor with the place of its key and of each level.
struct PlacedFactor {
    factor: Factor,
    key_at: usize,
    levels_at: Vec<usize>,
}

/// A setting of `[workload]` with its place.
struct Setting {
    key: String,
    path: String,
    at: usize,
}

/// The factors and the cells; the factors are `None` after an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    factors: Option<Table<'_>>,
    workload: Option<Table<'_>>,
    testbed: &TestbedSpec,
    method: &Method,
) -> (Option<Vec<Factor>>, Vec<Cell>) {
    let mut base = Setup { clients: testbed.clients, ..Setup::default() };
    let settings = self::workload(reader, workload, &mut base);
    let factors = self::factors(reader, factors, &settings);
    let (Some(settings), Some(factors)) = (settings, factors) else { return (None, Vec::new()) };
    let setups = combinations(&factors, &base);
    let mut sound = check_cells(reader, &factors, &settings, &setups);
    sound = sound && check_used(reader, &factors, &settings, &setups);
    if !sound {
        return (None, Vec::new());
    }
    let cells = setups
        .into_iter()
        .map(|(choice, setup)| Cell {
            levels: levels(&factors, &choice),
            spec: RunSpec {
                task: Task::Workload(setup.workload),
                interface: setup.interface,
                socket: setup.socket,
                clients: setup.clients,
                ports: None,
                warm_up: method.warm_up,
                window: method.run,
                seed: 0,
            },
        })
        .collect();
    (Some(factors.into_iter().map(|placed| placed.factor).collect()), cells)
}

/// Applies `[workload]`; `None` after an error.
fn workload(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    base: &mut Setup,
) -> Option<Vec<Setting>> {
    let mut sound = true;
    let mut settings = Vec::new();
    for entry in table.map(|table| table.entries).unwrap_or_default() {
        if reader.is_full() {
            return None;
        }
        let applied = known_key(reader, &entry)
            && reader.level(entry.value(), &entry.path(), entry.value_at()).is_some_and(|level| {
                keys::apply(base, &entry.name, &level)
                    .map_err(|error| refuse(reader, &entry, entry.value_at(), &error, "value"))
                    .is_ok()
            });
        sound &= applied;
        let (path, at) = (entry.path(), entry.key_at());
        settings.push(Setting { key: entry.name, path, at });
    }
    sound.then_some(settings)
}

/// Whether the entry's key is one of the table's; an error if not.
fn known_key(reader: &mut Reader<'_>, entry: &Entry<'_>) -> bool {
    match keys::find(&entry.name) {
        Ok(_) => true,
        Err(error) => {
            let (message, hint) = error.parts("value");
            let table = entry.path();
            let table = table.split_once('.').map_or("", |(table, _)| table);
            reader.error(entry.key_at(), table, message, hint);
            false
        }
    }
}

fn refuse(reader: &mut Reader<'_>, entry: &Entry<'_>, at: usize, error: &KeyError, noun: &str) {
    let (message, hint) = error.parts(noun);
    reader.error(at, &entry.path(), message, hint);
}

/// The factors; `None` after an error.
fn factors(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    settings: &Option<Vec<Setting>>,
) -> Option<Vec<PlacedFactor>> {
    let hint =
        || Some("give at least one factor, for example offload = [\"none\", \"tso\"]".into());
    let Some(table) = table else {
        // a `factors` that is no table was already refused
        if !reader.has_errors_about("factors") {
            reader.error(0, "factors", "a study without cells".to_owned(), hint());
        }
        return None;
    };
    if table.entries.is_empty() {
        reader.error(table.at, "factors", "a study without cells".to_owned(), hint());
        return None;
    }
    let mut factors = Vec::new();
    let mut sound = true;
    let mut cells = 1usize;
    for entry in &table.entries {
        if reader.is_full() {
            return None;
        }
        if !known_key(reader, entry) {
            sound = false;
            continue;
        }
        if settings.iter().flatten().any(|setting| setting.key == entry.name) {
            let message = "is both a factor and set in [workload]".to_owned();
            let hint = "leave it in one of them".to_owned();
            reader.error(entry.key_at(), &entry.path(), message, Some(hint));
            sound = false;
        }
        match factor(reader, entry) {
            Some(factor) => {
                cells = cells.saturating_mul(factor.factor.levels.len());
                factors.push(factor);
            }
            None => sound = false,
        }
    }
    if cells > MAX_CELLS {
        let message = format!("the levels combine to {cells} cells, more than {MAX_CELLS}");
        let hint = "ask fewer questions in one study".to_owned();
        reader.error(table.at, "factors", message, Some(hint));
        sound = false;
    }
    sound.then_some(factors)
}

/// One factor: an array of levels, each valid, no two the same.
fn factor(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<PlacedFactor> {
    let DeValue::Array(array) = entry.value() else {
        let message = format!("{} is not an array of levels", described(entry.value()));
        reader.refuse(entry, message, "what is not varied belongs in [workload]");
        return None;
    };
    if array.is_empty() {
        reader.refuse(entry, "a study without cells".to_owned(), "give at least one level");
        return None;
    }
    if array.len() > MAX_LEVELS {
        let message = format!("{} levels are more than {MAX_LEVELS}", array.len());
        reader.refuse(entry, message, "leave some out");
        return None;
    }
    let mut sound = true;
    let mut levels: Vec<Level> = Vec::new();
    let mut levels_at = Vec::new();
    // two spellings of one level ("1 KiB", 1024) are one level: they set the same
    let mut setups: Vec<Setup> = Vec::new();
    for value in array.iter() {
        let at = value.span().start;
        let Some(level) = reader.level(value.get_ref(), &entry.path(), at) else {
            sound = false;
            continue;
        };
        let mut setup = Setup::default();
        if let Err(error) = keys::apply(&mut setup, &entry.name, &level) {
            refuse(reader, entry, at, &error, "level");
            sound = false;
            continue;
        }
        if let Some(same) = setups.iter().position(|other| *other == setup) {
            let message = match levels.get(same) {
                Some(first) if *first != level => {
                    format!("level {level} is the same as {first}")
                }
                _ => format!("level {level} stands twice"),
            };
            reader.error(at, &entry.path(), message, Some("leave one out".to_owned()));
            sound = false;
            continue;
        }
        setups.push(setup);
        levels.push(level);
        levels_at.push(at);
    }
    let factor = Factor { name: entry.name.clone(), levels };
    sound.then_some(PlacedFactor { factor, key_at: entry.key_at(), levels_at })
}

/// Every choice of one level per factor, by index, with the setup it makes; the last factor
/// varies fastest.
fn combinations(factors: &[PlacedFactor], base: &Setup) -> Vec<(Vec<usize>, Setup)> {
    let mut setups = vec![(Vec::new(), base.clone())];
    for placed in factors {
        let mut wider = Vec::with_capacity(setups.len() * placed.factor.levels.len());
        for (choice, setup) in &setups {
            for (index, level) in placed.factor.levels.iter().enumerate() {
                let mut setup = setup.clone();
                // every level was applied once before, and apply looks at nothing else
                if keys::apply(&mut setup, &placed.factor.name, level).is_ok() {
                    let mut choice = choice.clone();
                    choice.push(index);
                    wider.push((choice, setup));
                }
            }
        }
        setups = wider;
    }
    setups
}

fn levels(factors: &[PlacedFactor], choice: &[usize]) -> Levels {
    let chosen = factors.iter().zip(choice).filter_map(|(placed, index)| {
        let level = placed.factor.levels.get(*index)?;
        Some((placed.factor.name.clone(), level.clone()))
    });
    Levels(chosen.collect())
}

/// Refuses impossible cells. One cause is told once, with the first cell it spoils.
fn check_cells(
    reader: &mut Reader<'_>,
    factors: &[PlacedFactor],
    settings: &[Setting],
    setups: &[(Vec<usize>, Setup)],
) -> bool {
    let mut causes: Vec<(Combination, &Vec<usize>, usize)> = Vec::new();
    for (choice, setup) in setups {
        if let Err(refused) = keys::check(setup) {
            match causes.iter_mut().find(|(cause, _, _)| *cause == refused) {
                Some((_, _, cells)) => *cells += 1,
                None => causes.push((refused, choice, 1)),
            }
        }
    }
    for (cause, choice, cells) in &causes {
        let (at, path) = blame(factors, settings, cause, choice);
        let others = match cells {
            1 => String::new(),
            2 => " and 1 other".to_owned(),
            _ => format!(" and {} others", cells - 1),
        };
        let cell = format!("cell \"{}\"{others}: {}", levels(factors, choice), cause.sentence);
        reader.error(at, &path, cell, None);
    }
    causes.is_empty()
}

/// Where the cause of an impossible cell stands: at the level of a factor, rather than at a
/// setting of `[workload]`.
fn blame(
    factors: &[PlacedFactor],
    settings: &[Setting],
    cause: &Combination,
    choice: &[usize],
) -> (usize, String) {
    for key in [cause.key, cause.other] {
        let found = factors.iter().zip(choice).find(|(placed, _)| placed.factor.name == key);
        if let Some((placed, index)) = found {
            let at = placed.levels_at.get(*index).copied().unwrap_or(placed.key_at);
            return (at, format!("factors.{key}"));
        }
    }
    for key in [cause.key, cause.other] {
        if let Some(setting) = settings.iter().find(|setting| setting.key == key) {
            return (setting.at, setting.path.clone());
        }
    }
    (factors.first().map_or(0, |placed| placed.key_at), "factors".to_owned())
}

/// Refuses settings that no cell uses and factors that some cell does not: their cells would
/// differ in name only.
fn check_used(
    reader: &mut Reader<'_>,
    factors: &[PlacedFactor],
    settings: &[Setting],
    setups: &[(Vec<usize>, Setup)],
) -> bool {
    let mut kinds: Vec<Protocol> = Vec::new();
    for (_, setup) in setups {
        if !kinds.contains(&setup.workload.kind) {
            kinds.push(setup.workload.kind);
        }
    }
    let mut sound = true;
    for placed in factors {
        let name = &placed.factor.name;
        if let Some(kind) = kinds.iter().find(|kind| !keys::is_used(name, **kind)) {
            let kind = keys::kind_name(*kind);
            let message = format!("means nothing to kind {kind}; its cells would be the same");
            reader.error(placed.key_at, &format!("factors.{name}"), message, None);
            sound = false;
        }
    }
    for setting in settings {
        if !kinds.iter().any(|kind| keys::is_used(&setting.key, *kind)) {
            let kinds: Vec<&str> = kinds.iter().map(|kind| keys::kind_name(*kind)).collect();
            let message = format!("means nothing to kind {}", kinds.join(", "));
            let hint = Some("leave it out, or set another kind".to_owned());
            reader.error(setting.at, &setting.path, message, hint);
            sound = false;
        }
    }
    sound
}
