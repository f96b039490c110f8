//! `[[mix]]`: several workloads at once in every cell.
//!
//! Each is what `[workload]` and the factors say, with its own settings in their place. In cells with `load = "idle"`
//! the transactions of the mix are alone, on as many connections as beside the streams.

use linkrate_model::mix::{MAX_PARTS, MAX_SHARE, MixPart};
use linkrate_model::{TestbedSpec, Workload};

use super::question::{self, Choice, Question, Setting, used};
use super::reader::{Reader, Table};
use crate::keys;

/// One `[[mix]]`.
pub(super) struct Mixed {
    /// Where it stands.
    at: usize,
    name: String,
    share: u32,
    /// What it has of its own.
    pub(super) settings: Vec<Setting>,
}

/// The tables, each valid by itself; `None` after an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tables: Vec<Table<'_>>,
    testbed: &TestbedSpec,
) -> Option<Vec<Mixed>> {
    let mut all: Vec<Mixed> = Vec::new();
    let mut sound = true;
    if let Some(first) = tables.first().filter(|_| tables.len() > MAX_PARTS || tables.len() == 1) {
        let message = format!("{} workloads, expected 2 to {MAX_PARTS}", tables.len());
        let hint = "a mix has several [[mix]]; one workload stands in [workload]".to_owned();
        reader.error(first.at, "mix", message, Some(hint));
        return None;
    }
    for table in tables {
        if reader.is_full() {
            return None;
        }
        match one(reader, table, testbed) {
            Some(mixed) if all.iter().any(|other| other.name == mixed.name) => {
                let message = format!("two workloads have the name {:?}", mixed.name);
                let hint = Some("give each its own name".to_owned());
                reader.error(mixed.at, "mix.name", message, hint);
                sound = false;
            }
            Some(mixed) => all.push(mixed),
            None => sound = false,
        }
    }
    sound.then_some(all)
}

fn one(reader: &mut Reader<'_>, mut table: Table<'_>, testbed: &TestbedSpec) -> Option<Mixed> {
    let at = table.at;
    let hint = "give a word or two that name the workload in results";
    let name = table.line(reader, "name", 24, hint);
    let share = match table.take("share") {
        Some(entry) => reader.count(&entry, 1, MAX_SHARE),
        None => Some(1),
    };
    let settings = question::settings(reader, Some(table), testbed);
    let mut settings = settings?;
    let before = settings.len();
    settings.retain(|setting| {
        let own = keys::get(&setting.key).is_some_and(|key| key.of_one_workload);
        if !own {
            let message = "is the same for all workloads of a mix".to_owned();
            let hint = Some("set it in [workload], or make it a factor".to_owned());
            reader.error(setting.at, &setting.path, message, hint);
        }
        own
    });
    let sound = settings.len() == before;
    let (name, share) = (name?, share?);
    sound.then_some(Mixed { at, name, share, settings })
}

/// Makes a mix of the workload of every cell; false after an error.
pub(super) fn apply(
    reader: &mut Reader<'_>,
    mix: &[Mixed],
    questions: &[Question],
    choices: &mut [Vec<Choice>],
) -> bool {
    if mix.is_empty() {
        return true;
    }
    let mut sound = true;
    for (question, choices) in questions.iter().zip(choices) {
        for placed in &question.factors {
            let key = &placed.factor.name;
            if mix.iter().all(|mixed| mixed.settings.iter().any(|setting| setting.key == *key)) {
                let message = "is set by every [[mix]]; its cells would be the same".to_owned();
                let hint = Some("leave it out of a [[mix]], or of the factors".to_owned());
                reader.error(placed.key_at, &placed.path, message, hint);
                sound = false;
            }
        }
        let mut kinds = vec![Vec::new(); mix.len()];
        for (_, setup) in choices.iter_mut() {
            let part = |mixed: &Mixed| {
                let mut of_part = setup.clone();
                for setting in &mixed.settings {
                    // it was applied once before, and apply looks at nothing else
                    let _ = keys::apply(&mut of_part, &setting.key, &setting.level);
                }
                let (name, share) = (mixed.name.clone(), mixed.share);
                MixPart { name, share, workload: of_part.workload.settled() }
            };
            let parts: Vec<MixPart> = mix.iter().map(part).collect();
            for (kinds, part) in kinds.iter_mut().zip(&parts) {
                kinds.push(part.workload.kind);
            }
            setup.workload = match std::mem::take(&mut setup.idle) {
                false => setup.workload.of_mix(parts),
                true => match alone(&setup.workload, parts) {
                    Ok(workload) => workload,
                    Err(message) => {
                        let hint = Some("leave out load, or change the mix".to_owned());
                        reader.error(mix[0].at, "mix", message, hint);
                        return false;
                    }
                },
            };
        }
        for (mixed, kinds) in mix.iter().zip(&kinds) {
            for setting in &mixed.settings {
                sound &= used(reader, setting, kinds);
            }
        }
    }
    sound
}

/// The transactions of a mix without its streams, or what is wrong with that.
fn alone(common: &Workload, mut parts: Vec<MixPart>) -> Result<Workload, String> {
    let shares = |parts: &[MixPart]| parts.iter().map(|part| part.share).sum::<u32>().max(1);
    let all = shares(&parts);
    parts.retain(|part| part.workload.kind.is_transactional());
    if parts.is_empty() {
        return Err(
            "load idle leaves transactions alone, and no workload of the mix has any".to_owned()
        );
    }
    let theirs = common.connections.saturating_mul(shares(&parts));
    if theirs % all != 0 {
        return Err(format!(
            "connections {} cannot be divided by the shares of each client, as load idle needs; \
             make it a multiple of {all}",
            common.connections
        ));
    }
    let connections = theirs / all;
    Ok(match &parts[..] {
        [one] => Workload { connections, ..one.workload.clone() },
        _ => Workload { connections, ..common.clone() }.of_mix(parts),
    })
}

#[cfg(test)]
mod tests;
