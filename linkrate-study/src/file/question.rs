//! `[factors]`, `[workload]` and `[[part]]`: the questions and their common settings.

use linkrate_model::{Protocol, TestbedSpec};
use toml::de::DeValue;

use super::named;
use super::reader::{Entry, Reader, Table, described};
use crate::bounds::{MAX_CELLS, MAX_LEVELS};
use crate::keys::{self, KeyError, Setup, Values};
use crate::levels::{Level, Levels};
use crate::study::{Factor, PART};

/// A factor with the place of its key and of each level.
pub(super) struct PlacedFactor {
    pub(super) factor: Factor,
    pub(super) path: String,
    pub(super) key_at: usize,
    pub(super) levels_at: Vec<usize>,
    /// What each level sets, where the factor is no setting but has a name of the file's own.
    pub(super) sets: Option<Vec<Vec<Setting>>>,
}

impl PlacedFactor {
    /// What a level sets; empty where the factor is a setting itself.
    pub(super) fn set_by(&self, level: usize) -> &[Setting] {
        self.sets.as_ref().and_then(|sets| sets.get(level)).map_or(&[], Vec::as_slice)
    }

    /// A setting that some level has, if it sets what `key` sets.
    fn setting(&self, key: &str) -> Option<&Setting> {
        let mut all = self.sets.iter().flatten().flatten();
        all.find(|setting| keys::overlap(&setting.key, key))
    }

    /// Whether it sets what `key` sets, itself or in some level.
    pub(super) fn overlaps(&self, key: &str) -> bool {
        keys::overlap(&self.factor.name, key) || self.setting(key).is_some()
    }

    /// Whether no level leaves `key` as it is.
    pub(super) fn always_sets(&self, key: &str) -> bool {
        let has = |level: &Vec<Setting>| level.iter().any(|set| keys::overlap(&set.key, key));
        self.sets.as_ref().is_some_and(|levels| levels.iter().all(has))
    }
}

#[derive(Clone)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) level: Level,
    pub(super) path: String,
    pub(super) at: usize,
}

/// One question: its factors, and the settings that all its cells share.
pub(super) struct Question {
    /// The part's name; `None` for the only question of a study.
    pub(super) name: Option<String>,
    pub(super) factors: Vec<PlacedFactor>,
    /// Those of `[workload]` that the part leaves as they are, then its own.
    pub(super) settings: Vec<Setting>,
}

/// A choice of one level per factor, by index, and the setup it makes.
pub(super) type Choice = (Vec<usize>, Setup);

impl Question {
    pub(super) fn factor(&self, key: &str) -> Option<&PlacedFactor> {
        self.factors.iter().find(|placed| placed.factor.name == key)
    }

    /// What `key` is set to in a cell, by a factor or by a setting; `None` where it has its
    /// default.
    pub(super) fn level(&self, choice: &[usize], key: &str) -> Option<&Level> {
        let factor = self.factors.iter().zip(choice).find(|(placed, _)| placed.factor.name == key);
        let mut named = self.factors.iter().zip(choice).flat_map(|(of, index)| of.set_by(*index));
        match (factor, named.find(|set| set.key == key)) {
            (Some((placed, index)), _) => placed.factor.levels.get(*index),
            (None, Some(set)) => Some(&set.level),
            (None, None) => self.settings.iter().find(|set| set.key == key).map(|set| &set.level),
        }
    }

    /// The levels of a cell, headed by the part's name where there are several parts.
    pub(super) fn levels(&self, choice: &[usize]) -> Levels {
        let part = self.name.iter().map(|name| (PART.to_owned(), Level::Text(name.clone())));
        let chosen = self.factors.iter().zip(choice).filter_map(|(placed, index)| {
            let level = placed.factor.levels.get(*index)?;
            Some((placed.factor.name.clone(), level.clone()))
        });
        Levels(part.chain(chosen).collect())
    }

    /// Every choice of one level per factor; the last factor varies fastest.
    pub(super) fn choices(&self, testbed: &TestbedSpec) -> Vec<Choice> {
        let mut base = Setup { clients: testbed.clients, ..Setup::default() };
        apply_all(&mut base, &self.settings);
        let mut setups = vec![(Vec::new(), base)];
        for placed in &self.factors {
            let mut wider = Vec::with_capacity(setups.len() * placed.factor.levels.len());
            for (choice, setup) in &setups {
                for (index, level) in placed.factor.levels.iter().enumerate() {
                    let mut setup = setup.clone();
                    match &placed.sets {
                        Some(_) => apply_all(&mut setup, placed.set_by(index)),
                        None => apply_one(&mut setup, &placed.factor.name, level),
                    }
                    let mut choice = choice.clone();
                    choice.push(index);
                    wider.push((choice, setup));
                }
            }
            setups = wider;
        }
        setups
    }

    fn cells(&self) -> usize {
        let levels = self.factors.iter().map(|placed| placed.factor.levels.len());
        levels.fold(1, usize::saturating_mul)
    }
}

/// Every setting and every level was applied once before, and apply looks at nothing else.
fn apply_one(setup: &mut Setup, key: &str, level: &Level) {
    let _ = keys::apply(setup, key, level);
}

pub(super) fn apply_all(setup: &mut Setup, settings: &[Setting]) {
    settings.iter().for_each(|set| apply_one(setup, &set.key, &set.level));
}

/// The only question of a study without parts; `None` after an error.
pub(super) fn only(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    common: Vec<Setting>,
    testbed: &TestbedSpec,
) -> Option<Question> {
    let hint =
        || Some("give at least one factor, for example offload = [\"none\", \"tso\"]".into());
    let Some(table) = table else {
        // a `factors` that is no table was already refused
        if !reader.has_errors_about("factors") {
            reader.error(0, "factors", "the study has no cells".to_owned(), hint());
        }
        return None;
    };
    if table.entries.is_empty() {
        reader.error(table.at, "factors", "the study has no cells".to_owned(), hint());
        return None;
    }
    let at = table.at;
    let factors = factors(reader, table, &common, "[workload]", testbed)?;
    let question = Question { name: None, factors, settings: common };
    fits(reader, at, "factors", question.cells()).then_some(question)
}

/// The questions of a study with parts; `None` after an error.
pub(super) fn parts(
    reader: &mut Reader<'_>,
    tables: Vec<Table<'_>>,
    common: &[Setting],
    testbed: &TestbedSpec,
) -> Option<Vec<Question>> {
    let mut questions: Vec<Question> = Vec::new();
    let mut sound = true;
    let mut cells = 0usize;
    // one part is the whole study, and needs no name before its cells
    let named = tables.len() > 1;
    let first_at = tables.first().map_or(0, |table| table.at);
    for table in tables {
        if reader.is_full() {
            return None;
        }
        let name = table.entries.iter().find(|entry| entry.name == "name").map(Entry::value_at);
        match part(reader, table, common, testbed) {
            Some(part) if questions.iter().any(|other| other.name == part.name) => {
                let message = "two parts have this name".to_owned();
                let hint = Some("give each part its own name".to_owned());
                reader.error(name.unwrap_or(0), "part.name", message, hint);
                sound = false;
            }
            Some(part) => {
                cells = cells.saturating_add(part.cells());
                questions.push(part);
            }
            None => sound = false,
        }
    }
    sound &= fits(reader, first_at, "part", cells);
    for question in &mut questions {
        question.name = question.name.take().filter(|_| named);
    }
    sound.then_some(questions)
}

/// One part; `None` after an error.
fn part(
    reader: &mut Reader<'_>,
    mut table: Table<'_>,
    common: &[Setting],
    testbed: &TestbedSpec,
) -> Option<Question> {
    let hint = "give a few words that name the question; they head its cells";
    let name = table.line(reader, "name", 40, hint);
    let factors = table.table(reader, "factors");
    let own = table.table(reader, "workload");
    table.finish(reader);
    let own = settings(reader, own, testbed);
    let factors = match factors {
        Some(table) => {
            self::factors(reader, table, own.as_deref().unwrap_or(&[]), "[part.workload]", testbed)
        }
        // a part without factors is one cell
        None => Some(Vec::new()),
    };
    let (own, factors) = (own?, factors?);
    let kept = common.iter().filter(|setting| {
        let same = |key: &str| key == setting.key;
        !own.iter().any(|own| same(&own.key))
            && !factors.iter().any(|placed| same(&placed.factor.name))
    });
    let settings = kept.cloned().chain(own.iter().cloned()).collect();
    Some(Question { name: Some(name?), factors, settings })
}

fn fits(reader: &mut Reader<'_>, at: usize, path: &str, cells: usize) -> bool {
    if cells > MAX_CELLS {
        let message = format!("the levels combine to {cells} cells, more than {MAX_CELLS}");
        let hint = "split the study, or leave out levels".to_owned();
        reader.error(at, path, message, Some(hint));
    }
    cells <= MAX_CELLS
}

/// The settings of a table, each valid by itself; `None` after an error.
pub(super) fn settings(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    testbed: &TestbedSpec,
) -> Option<Vec<Setting>> {
    let mut sound = true;
    let mut settings = Vec::new();
    for entry in table.map(|table| table.entries).unwrap_or_default() {
        if reader.is_full() {
            return None;
        }
        match setting(reader, &entry, testbed) {
            Some(setting) => settings.push(setting),
            None => sound = false,
        }
    }
    sound.then_some(settings)
}

fn setting(reader: &mut Reader<'_>, entry: &Entry<'_>, testbed: &TestbedSpec) -> Option<Setting> {
    if !at_home(reader, entry, testbed) {
        return None;
    }
    let (path, at) = (entry.path(), entry.value_at());
    if keys::find(&entry.name).is_ok_and(|key| matches!(key.values, Values::Label(_))) {
        let hint = "name it under [factors], with a level for each repetition";
        reader.refuse_key(entry, "sets nothing".to_owned(), hint);
        return None;
    }
    let level = reader.level(entry.value(), &path, at)?;
    if let Err(error) = keys::apply(&mut Setup::default(), &entry.name, &level) {
        refuse(reader, entry, at, &error, "value");
        return None;
    }
    Some(Setting { key: entry.name.clone(), level, path, at: entry.key_at() })
}

/// Whether the entry's key is one of the table's, and one the adapter has; an error if not.
fn at_home(reader: &mut Reader<'_>, entry: &Entry<'_>, testbed: &TestbedSpec) -> bool {
    if let Err(error) = keys::find(&entry.name) {
        let (message, hint) = error.parts("value");
        let path = entry.path();
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        reader.error(entry.key_at(), table, message, hint);
        return false;
    }
    // an error of the testbed is not repeated for each key
    let of_the_testbed = ["testbed.adapter", "testbed.interface", "testbed.clients"];
    if !of_the_testbed.iter().any(|key| reader.has_errors_about(key))
        && let Some((message, hint)) = keys::misplaced(&entry.name, testbed)
    {
        reader.refuse_key(entry, message, hint);
        return false;
    }
    true
}

pub(super) fn refuse(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    at: usize,
    error: &KeyError,
    noun: &str,
) {
    let (message, hint) = error.parts(noun);
    reader.error(at, &entry.path(), message, hint);
}

/// The factors of a table; `None` after an error. `beside` names the table of `settings`, none of
/// which may be a factor.
fn factors(
    reader: &mut Reader<'_>,
    table: Table<'_>,
    settings: &[Setting],
    beside: &str,
    testbed: &TestbedSpec,
) -> Option<Vec<PlacedFactor>> {
    let mut factors = Vec::new();
    let mut sound = true;
    for entry in &table.entries {
        if reader.is_full() {
            return None;
        }
        if let Some(levels) = entry.own_table() {
            match named::read(reader, entry, levels, testbed) {
                Some(factor) => factors.push(factor),
                None => sound = false,
            }
            continue;
        }
        if !at_home(reader, entry, testbed) {
            sound = false;
            continue;
        }
        let set = settings.iter().find(|setting| keys::overlap(&setting.key, &entry.name));
        if let Some(set) = set {
            let (message, hint) = if set.key == entry.name {
                (format!("is both a factor and set in {beside}"), "leave it in one of them")
            } else {
                (format!("sets {} as well, which is in {beside}", set.key), "leave one out")
            };
            reader.refuse_key(entry, message, hint);
            sound = false;
        }
        let earlier = factors.iter().find(|placed: &&PlacedFactor| {
            placed.factor.name != entry.name && keys::overlap(&placed.factor.name, &entry.name)
        });
        if let Some(earlier) = earlier {
            let message = format!("sets what factor {} sets", earlier.factor.name);
            reader.refuse_key(entry, message, "leave one out");
            sound = false;
        }
        match factor(reader, entry) {
            Some(factor) => factors.push(factor),
            None => sound = false,
        }
    }
    sound &= named::apart(reader, &factors);
    sound.then_some(factors)
}

/// One factor: an array of levels, each valid, no two the same.
fn factor(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<PlacedFactor> {
    let DeValue::Array(array) = entry.value() else {
        let message = format!("{} is not an array of levels", described(entry.value()));
        reader.refuse(entry, message, "put a single value into [workload]");
        return None;
    };
    if array.is_empty() {
        reader.refuse(entry, "the factor has no levels".to_owned(), "give at least one level");
        return None;
    }
    if array.len() > MAX_LEVELS {
        let message = format!("{} levels, more than {MAX_LEVELS}", array.len());
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
                _ => format!("level {level} occurs twice"),
            };
            reader.error(at, &entry.path(), message, Some("leave one out".to_owned()));
            sound = false;
            continue;
        }
        setups.push(setup);
        levels.push(level);
        levels_at.push(at);
    }
    let factor = Factor { name: entry.name.clone(), levels, effects: true };
    let (path, key_at) = (entry.path(), entry.key_at());
    sound.then_some(PlacedFactor { factor, path, key_at, levels_at, sets: None })
}

/// Whether two levels of a key set the same.
pub(super) fn same(key: &str, one: &Level, other: &Level) -> bool {
    let setup = |level| {
        let mut setup = Setup::default();
        keys::apply(&mut setup, key, level).ok().map(|()| setup)
    };
    one == other || setup(one).is_some_and(|one| setup(other) == Some(one))
}

/// The kinds of workload among cells, each once.
pub(super) fn kinds<'c>(choices: impl IntoIterator<Item = &'c Choice>) -> Vec<Protocol> {
    let mut kinds: Vec<Protocol> = Vec::new();
    for (_, setup) in choices {
        let workload = &setup.workload;
        let whole = workload.mix.is_empty().then_some(workload.kind);
        for kind in workload.mix.iter().map(|part| part.workload.kind).chain(whole) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// Whether any of these kinds uses the setting; an error if not.
pub(super) fn used(reader: &mut Reader<'_>, setting: &Setting, kinds: &[Protocol]) -> bool {
    if kinds.iter().any(|kind| keys::is_used(&setting.key, *kind)) {
        return true;
    }
    let mut names: Vec<&str> = Vec::new();
    for kind in kinds {
        let name = keys::kind_name(*kind);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let message = format!("workloads of kind {} do not use it", names.join(", "));
    let hint = Some("leave it out, or set another kind".to_owned());
    reader.error(setting.at, &setting.path, message, hint);
    false
}
