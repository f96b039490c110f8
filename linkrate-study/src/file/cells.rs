//! Every combination of levels, each checked.

use std::time::Duration;

use linkrate_model::{Protocol, RunSpec, TestbedSpec};

use super::mix::{self, Mixed};
use super::question::{self, Choice, Question, Setting, kinds, used};
use super::reader::{Reader, Table};
use super::when::{self, When};
use crate::keys::{self, Combination};
use crate::levels::Level;
use crate::study::{Cell, Factor, Method, PART, Part};

/// The tables that cells come from.
pub(super) struct Tables<'t> {
    pub(super) factors: Option<Table<'t>>,
    pub(super) workload: Option<Table<'t>>,
    pub(super) whens: Vec<Table<'t>>,
    pub(super) parts: Vec<Table<'t>>,
    pub(super) mix: Vec<Table<'t>>,
}

pub(super) struct Cells {
    pub(super) factors: Vec<Factor>,
    pub(super) parts: Vec<Part>,
    pub(super) cells: Vec<Cell>,
}

/// The cells; `None` after an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tables: Tables<'_>,
    testbed: &TestbedSpec,
    method: &Method,
) -> Option<Cells> {
    let common = question::settings(reader, tables.workload, testbed);
    let has_parts = !tables.parts.is_empty();
    let known = common.as_deref().unwrap_or(&[]);
    let questions = match tables.factors {
        Some(factors) if has_parts => {
            let message = "[factors] cannot be combined with [[part]]";
            let hint = Some("move the factors into [part.factors] of each part".to_owned());
            reader.error(factors.at, "factors", message.to_owned(), hint);
            None
        }
        _ if has_parts => question::parts(reader, tables.parts, known, testbed),
        factors => question::only(reader, factors, known.to_vec(), testbed).map(|one| vec![one]),
    };
    let whens = when::read(reader, tables.whens, testbed);
    let mix = mix::read(reader, tables.mix, testbed);
    let (common, questions, whens, mix) = (common?, questions?, whens?, mix?);
    let mut choices: Vec<Vec<Choice>> =
        questions.iter().map(|question| question.choices(testbed)).collect();
    let mut sound = when::apply(reader, &whens, &questions, &mut choices);
    sound = sound && mix::apply(reader, &mix, &questions, &mut choices);
    for (question, choices) in questions.iter().zip(&mut choices) {
        for (_, setup) in choices.iter_mut() {
            setup.settle(testbed);
        }
        let brought = Brought { whens: &whens, mix: &mix };
        sound = sound && check_cells(reader, question, brought, choices, (testbed, method.run));
    }
    sound = sound && check_used(reader, &common, &questions, &choices);
    if !sound {
        return None;
    }
    let cells = questions.iter().zip(choices).flat_map(|(question, choices)| {
        choices.into_iter().map(|(choice, setup)| Cell {
            levels: question.levels(&choice),
            spec: RunSpec { profile: method.profile, ..setup.into_run(method.warm_up, method.run) },
        })
    });
    let cells = cells.collect();
    let parts: Vec<Part> = questions
        .iter()
        .filter_map(|question| {
            let factors = question.factors.iter().map(|placed| placed.factor.clone()).collect();
            Some(Part { name: question.name.clone()?, factors })
        })
        .collect();
    Some(Cells { factors: all_factors(&questions), parts, cells })
}

/// The factors of all questions, each with every level that some question has; the parts first,
/// where there are several.
fn all_factors(questions: &[Question]) -> Vec<Factor> {
    let names: Vec<Level> =
        questions.iter().filter_map(|question| question.name.clone().map(Level::Text)).collect();
    let mut all = Vec::new();
    if !names.is_empty() {
        // parts differ in more than a level
        all.push(Factor { name: PART.to_owned(), levels: names, effects: false });
    }
    for placed in questions.iter().flat_map(|question| &question.factors) {
        let factor = &placed.factor;
        match all.iter_mut().find(|known| known.name == factor.name) {
            None => all.push(factor.clone()),
            Some(known) => {
                for level in &factor.levels {
                    if !known.levels.contains(level) {
                        known.levels.push(level.clone());
                    }
                }
            }
        }
    }
    all
}

/// The settings that come to those of a question.
#[derive(Clone, Copy)]
struct Brought<'a> {
    whens: &'a [When],
    mix: &'a [Mixed],
}

/// Refuses impossible cells: one error for each cause, with the first cell that has it.
fn check_cells(
    reader: &mut Reader<'_>,
    question: &Question,
    brought: Brought<'_>,
    choices: &[Choice],
    (testbed, interval): (&TestbedSpec, Duration),
) -> bool {
    let mut causes: Vec<(Combination, &Vec<usize>, usize)> = Vec::new();
    for (choice, setup) in choices {
        let checked = keys::check(setup, testbed).and_then(|()| setup.event.check(interval));
        if let Err(refused) = checked {
            match causes.iter_mut().find(|(cause, _, _)| *cause == refused) {
                Some((_, _, cells)) => *cells += 1,
                None => causes.push((refused, choice, 1)),
            }
        }
    }
    for (cause, choice, cells) in &causes {
        let (at, path) = blame(question, brought, cause, choice);
        let others = match cells {
            1 => String::new(),
            2 => " and 1 other".to_owned(),
            _ => format!(" and {} others", cells - 1),
        };
        let levels = question.levels(choice);
        let cell = format!("cell \"{levels}\"{others}: {}", cause.sentence);
        reader.error(at, &path, cell, None);
    }
    causes.is_empty()
}

/// The place of the cause of an impossible cell: the level of a factor if it has one, else a setting
/// of a `[[when]]`, else one of `[workload]`.
fn blame(
    question: &Question,
    brought: Brought<'_>,
    cause: &Combination,
    choice: &[usize],
) -> (usize, String) {
    for key in [cause.key, cause.other] {
        let found =
            question.factors.iter().zip(choice).find(|(placed, _)| placed.factor.name == key);
        if let Some((placed, index)) = found {
            let at = placed.levels_at.get(*index).copied().unwrap_or(placed.key_at);
            return (at, placed.path.clone());
        }
    }
    let named = question.factors.iter().zip(choice).flat_map(|(of, index)| of.set_by(*index));
    let brought = || {
        let matching = brought.whens.iter().filter(|when| when.matches(question, choice));
        let mixed = brought.mix.iter().flat_map(|mixed| &mixed.settings);
        named.clone().chain(mixed).chain(matching.flat_map(|when| &when.set))
    };
    for key in [cause.key, cause.other] {
        let found = brought().chain(&question.settings).find(|setting| setting.key == key);
        if let Some(setting) = found {
            return (setting.at, setting.path.clone());
        }
    }
    match question.factors.first() {
        Some(placed) => (placed.key_at, "factors".to_owned()),
        None => (0, String::new()),
    }
}

/// Refuses settings that no cell uses, and factors that some cell does not use: their cells would
/// differ in name only.
fn check_used(
    reader: &mut Reader<'_>,
    common: &[Setting],
    questions: &[Question],
    choices: &[Vec<Choice>],
) -> bool {
    let mut sound = true;
    let mixed = choices.iter().flatten().any(|(_, setup)| !setup.workload.mix.is_empty());
    let kinds: Vec<Vec<Protocol>> = choices.iter().map(kinds).collect();
    for (question, kinds) in questions.iter().zip(&kinds) {
        for placed in &question.factors {
            if let Some(sets) = &placed.sets {
                sets.iter().flatten().for_each(|setting| sound &= used(reader, setting, kinds));
                continue;
            }
            let name = &placed.factor.name;
            let mut unused = kinds.iter().filter(|kind| !keys::is_used(name, **kind));
            // of a mix one workload is enough
            let needed = if mixed { kinds.len() } else { 1 };
            if let Some(kind) = unused.nth(needed.saturating_sub(1)) {
                let kind = keys::kind_name(*kind);
                let message =
                    format!("workloads of kind {kind} do not use it; its cells would be the same");
                reader.error(placed.key_at, &placed.path, message, None);
                sound = false;
            }
        }
        for setting in &question.settings {
            if setting.path.starts_with("part.") {
                sound &= used(reader, setting, kinds);
            }
        }
    }
    for setting in common {
        // a part with a setting or a factor of its own does not take the common one
        let takes = |question: &Question| {
            let always = question.factors.iter().any(|placed| placed.always_sets(&setting.key));
            !always && question.settings.iter().any(|set| set.at == setting.at)
        };
        let kinds: Vec<Protocol> = questions
            .iter()
            .zip(&kinds)
            .filter(|(question, _)| takes(question))
            .flat_map(|(_, kinds)| kinds.iter().copied())
            .collect();
        if kinds.is_empty() {
            let message = "no cell uses this setting: each part or level sets its own".to_owned();
            let hint = Some("leave it out of [workload]".to_owned());
            reader.error(setting.at, &setting.path, message, hint);
            sound = false;
        } else {
            sound &= used(reader, setting, &kinds);
        }
    }
    sound
}
