//! `[[when]]`: settings that a level brings along.
//!
//! What a cell is, its factors and `[workload]` say; a `[[when]]` looks at nothing else. So it
//! does not matter in which order they stand, and no condition can depend on another.

use linkrate_model::TestbedSpec;

use super::question::{self, Choice, Question, Setting, kinds, same, used};
use super::reader::{Reader, Table};
use crate::keys;

/// One `[[when]]`.
pub(super) struct When {
    /// Where it stands.
    at: usize,
    /// What a cell must be, all of it.
    is: Vec<Setting>,
    /// What it then has.
    pub(super) set: Vec<Setting>,
}

impl When {
    /// Whether a cell is as it must be.
    pub(super) fn matches(&self, question: &Question, choice: &[usize]) -> bool {
        self.is.iter().all(|is| {
            let level = question.level(choice, &is.key);
            level.is_some_and(|level| same(&is.key, level, &is.level))
        })
    }
}

/// The tables, each valid by itself; `None` after an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tables: Vec<Table<'_>>,
    testbed: &TestbedSpec,
) -> Option<Vec<When>> {
    let mut whens = Vec::new();
    let mut sound = true;
    for mut table in tables {
        if reader.is_full() {
            return None;
        }
        let at = table.at;
        let mut side = |name, missing: &str| {
            let before = reader.errors();
            let inner = table.table(reader, name);
            let settings = question::settings(reader, inner, testbed);
            if settings.as_ref().is_some_and(Vec::is_empty) && reader.errors() == before {
                let path = format!("when.{name}");
                reader.error(at, &path, "missing".to_owned(), Some(missing.to_owned()));
            }
            settings.filter(|settings| !settings.is_empty())
        };
        let is = side("is", "name the cells, for example is = { mtu = 9000 }");
        let set = side("set", "name their settings, for example set = { message = \"128 KiB\" }");
        table.finish(reader);
        match (is, set) {
            (Some(is), Some(set)) => whens.push(When { at, is, set }),
            _ => sound = false,
        }
    }
    (sound & independent(reader, &whens)).then_some(whens)
}

/// Refuses a condition on a key that another `[[when]]` sets.
fn independent(reader: &mut Reader<'_>, whens: &[When]) -> bool {
    let mut sound = true;
    for is in whens.iter().flat_map(|when| &when.is) {
        if whens.iter().flat_map(|when| &when.set).any(|set| set.key == is.key) {
            let message = format!("{} is itself set by a [[when]]", is.key);
            let hint = Some("name a factor, or a setting of [workload]".to_owned());
            reader.error(is.at, &is.path, message, hint);
            sound = false;
        }
    }
    sound
}

/// Applies the settings to the cells of each question; false after an error.
pub(super) fn apply(
    reader: &mut Reader<'_>,
    whens: &[When],
    questions: &[Question],
    choices: &mut [Vec<Choice>],
) -> bool {
    let mut sound = true;
    for (index, when) in whens.iter().enumerate() {
        let mut met: Vec<Choice> = Vec::new();
        for (question, choices) in questions.iter().zip(choices.iter_mut()) {
            let mut reported = false;
            for (choice, setup) in choices.iter_mut() {
                if !when.matches(question, choice) {
                    continue;
                }
                for set in &when.set {
                    if !reported {
                        reported = clashes(reader, set, question, choice, &whens[..index]);
                    }
                    // it was applied once before, and apply looks at nothing else
                    let _ = keys::apply(setup, &set.key, &set.level);
                }
                met.push((Vec::new(), setup.clone()));
            }
            sound &= !reported;
        }
        if met.is_empty() {
            sound = false;
            refuse_unmet(reader, when, questions);
        } else {
            let kinds = kinds(&met);
            for set in &when.set {
                sound &= used(reader, set, &kinds);
            }
        }
    }
    sound
}

/// Refuses a key that the question varies itself, or that an earlier `[[when]]` sets to something
/// else in the same cell.
fn clashes(
    reader: &mut Reader<'_>,
    set: &Setting,
    question: &Question,
    choice: &[usize],
    earlier: &[When],
) -> bool {
    if let Some(placed) = question.factors.iter().find(|placed| placed.overlaps(&set.key)) {
        let message = match keys::overlap(&placed.factor.name, &set.key) {
            true => "is a factor".to_owned(),
            false => format!("is set by factor {}", placed.factor.name),
        };
        let hint = Some("remove it from set, or from the factors".to_owned());
        reader.error(set.at, &set.path, message, hint);
        return true;
    }
    let others = earlier.iter().filter(|when| when.matches(question, choice));
    let other = others
        .flat_map(|when| &when.set)
        .find(|other| other.key == set.key && !same(&set.key, &other.level, &set.level));
    let Some(other) = other else { return false };
    let cell = question.levels(choice);
    let message = format!(
        "cell \"{cell}\": another [[when]] sets {} to {}, this one to {}",
        set.key, other.level, set.level
    );
    let hint = Some("let the two hold for different cells".to_owned());
    reader.error(set.at, &set.path, message, hint);
    true
}

fn refuse_unmet(reader: &mut Reader<'_>, when: &When, questions: &[Question]) {
    let has = |is: &Setting| {
        questions.iter().any(|question| {
            let factor = question.factor(&is.key);
            let levels = factor.map(|placed| placed.factor.levels.as_slice()).unwrap_or_default();
            let set = question.settings.iter().filter(|set| set.key == is.key);
            levels
                .iter()
                .chain(set.map(|set| &set.level))
                .any(|level| same(&is.key, level, &is.level))
        })
    };
    let (at, path, what) = match when.is.iter().find(|is| !has(is)) {
        Some(is) => (is.at, is.path.clone(), format!("no cell has {} {}", is.key, is.level)),
        None => (when.at, "when.is".to_owned(), "no cell has all of these levels".to_owned()),
    };
    let hint = Some("name levels of factors, or settings of [workload]".to_owned());
    reader.error(at, &path, what, hint);
}
