//! Runs of other programs as a result set.
//!
//! Runs of the same test with the same settings are one cell, and what differs between the cells is a factor.
//! The factors have the keys of study files. Nothing is known of what else changed between two runs, so they
//! are in no blocks: no factor has effects, and so nothing is claimed. A store wants a block for each run; it
//! is the number of the run within its cell.

pub mod live;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linkrate_model::imported::Asked;
use linkrate_model::spec::{Adapter, Task};
use linkrate_model::{
    ByteSize, Imported, MessageSize, RunSpec, SocketKnobs, TestbedSpec, Workload,
};

use crate::bounds::{MAX_BLOCKS, MAX_CELLS, MAX_RUN};
use crate::executor::Facts;
use crate::keys::{self, Setup};
use crate::labels::UNKNOWN;
use crate::levels::{Level, Levels};
use crate::store::{ImportedSet, Outcome, StoredRun};
use crate::study::{Cell, Factor, Family, Method, Study};
use linkrate_model::units::format_duration;
use linkrate_stats::order::Order;

/// Name of the study that imported runs seem to be of.
pub const NAME: &str = "import";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("no runs to import")]
    NoRuns,
    /// Two outputs of one test that contradict each other.
    #[error("{first} and {second} are of one test ({cookie}) and differ, expected each test once")]
    Twice {
        first: String,
        second: String,
        /// The name of the test.
        cookie: String,
    },
    /// More combinations of settings than a study may have.
    #[error("{found} different tests, expected at most {most}")]
    Cells { found: usize, most: usize },
    /// More runs of one test than a study may have blocks.
    #[error("{found} runs of the same test, expected at most {most}")]
    Runs { found: usize, most: u32 },
}

/// A setting by which runs are distinguished: its key, whether it means something for the run's kind of test, and
/// whether the output of the run reports it.
type Setting = (&'static str, fn(&Imported) -> bool, fn(&Asked) -> bool);

fn is_stream(run: &Imported) -> bool {
    !run.is_transactional()
}

fn is_tcp(run: &Imported) -> bool {
    !run.asked.kind.is_udp()
}

const SETTINGS: [Setting; 15] = [
    (PROGRAM, |_| true, |_| true),
    (TEST, |_| true, |_| true),
    ("kind", |_| true, |_| true),
    ("direction", is_stream, |_| true),
    ("family", |_| true, |asked| asked.family.is_some()),
    ("connections", |_| true, |asked| asked.connections.is_some()),
    ("message", is_stream, |asked| asked.message.is_some()),
    ("request", Imported::is_transactional, |asked| asked.request.is_some()),
    ("response", Imported::is_transactional, |asked| asked.response.is_some()),
    ("burst", Imported::is_transactional, |asked| asked.burst.is_some()),
    ("send-path", is_stream, |asked| asked.send_path.is_some()),
    ("socket", |_| true, |asked| asked.socket.is_some()),
    ("congestion", is_tcp, |asked| asked.congestion.is_some()),
    ("nodelay", is_tcp, |asked| asked.nodelay.is_some()),
    (RATE, is_stream, |asked| asked.rate.is_some()),
];

/// Settings that are no keys of study files.
const PROGRAM: &str = "program";
const TEST: &str = "test";
const RATE: &str = "rate";

/// A cell in the making: the settings that its runs share, and the runs.
type Group = (Vec<(&'static str, Level)>, Vec<Imported>);

/// The settings of a run that mean something for it.
fn settings(run: &Imported) -> Vec<(&'static str, Level)> {
    let setup = Setup::of(&spec(run));
    let level = |name: &str| match name {
        PROGRAM => Some(Level::Text(run.program.split(' ').next().unwrap_or_default().to_owned())),
        TEST => Some(Level::Text(run.test.clone())),
        RATE => run.asked.rate.map(|rate| {
            Level::Text(match rate {
                0 => "no rate limit".to_owned(),
                rate => linkrate_model::BitRate(rate as f64).to_string(),
            })
        }),
        key => keys::get(key)?.values.level(&setup),
    };
    let mean_something =
        SETTINGS.into_iter().filter(|(_, means_something, _)| means_something(run));
    let levels = mean_something.map(|(name, _, is_reported)| {
        let reported = level(name).filter(|_| is_reported(&run.asked));
        (name, reported.unwrap_or_else(|| Level::Text(format!("{name}{UNKNOWN}"))))
    });
    levels.collect()
}

/// Each test once. Outputs of one test have one name: copies of a document, and the documents of both ends. As runs of their
/// own they would have no scatter.
fn each_once(imported: Vec<Imported>) -> Result<Vec<Imported>, ImportError> {
    let mut tests: Vec<Vec<Imported>> = Vec::new();
    let mut by_cookie: BTreeMap<String, usize> = BTreeMap::new();
    for run in imported {
        let next = tests.len();
        let known = run.cookie.clone().map_or(next, |name| *by_cookie.entry(name).or_insert(next));
        match tests.get_mut(known) {
            Some(outputs) => outputs.push(run),
            None => tests.push(vec![run]),
        }
    }
    tests.into_iter().filter_map(one_of).collect()
}

/// The run of all outputs of a test: the first, with what the other end knows of it. `None` without outputs.
fn one_of(outputs: Vec<Imported>) -> Option<Result<Imported, ImportError>> {
    let mut outputs = outputs.into_iter();
    let mut run = outputs.next()?;
    let reported = run.found.clone();
    let mut other_end: Option<Imported> = None;
    for output in outputs {
        let is_copy = |of: &Imported| (&of.asked, &of.found) == (&output.asked, &output.found);
        if (&run.asked, &reported) == (&output.asked, &output.found)
            || other_end.as_ref().is_some_and(is_copy)
        {
            run.remarks
                .push(format!("{} is a copy of this test, which counts once.", output.source()));
        } else if other_end.is_none() && is_other_end(&run, &output) {
            let rate = output.found.bits_per_second();
            let rate =
                rate.map_or("no rate".to_owned(), |rate| linkrate_model::BitRate(rate).to_string());
            run.remarks.push(format!(
                "{} is this test as its other end reported it ({rate}): one run, with what the \
                 first file does not report.",
                output.source()
            ));
            let (found, other) = (&mut run.found, &output.found);
            found.transmit_bits_per_second =
                found.transmit_bits_per_second.or(other.receive_bits_per_second);
            found.receive_bits_per_second =
                found.receive_bits_per_second.or(other.transmit_bits_per_second);
            found.sent_datagrams = found.sent_datagrams.or(other.sent_datagrams);
            found.lost_datagrams = found.lost_datagrams.or(other.lost_datagrams);
            found.retransmits = found.retransmits.or(other.retransmits);
            other_end = Some(output);
        } else {
            return Some(Err(ImportError::Twice {
                first: run.source(),
                second: output.source(),
                cookie: run.cookie.unwrap_or_default(),
            }));
        }
    }
    Some(Ok(run))
}

/// Whether a run is another as its other end saw it.
fn is_other_end(run: &Imported, other: &Imported) -> bool {
    use linkrate_model::Direction::{Bidirectional, Receive, Transmit};
    run.asked.kind == other.asked.kind
        && matches!(
            (run.asked.direction, other.asked.direction),
            (Transmit, Receive) | (Receive, Transmit) | (Bidirectional, Bidirectional)
        )
}

/// Makes a result set of imported runs. `now_unix_ms` is the time of the import in milliseconds since
/// 1970-01-01 UTC.
pub fn assemble(imported: Vec<Imported>, now_unix_ms: u64) -> Result<ImportedSet, ImportError> {
    let imported = each_once(imported)?;
    let facts = facts(&imported);
    let mut groups: Vec<Group> = Vec::new();
    let mut known: BTreeMap<_, usize> = BTreeMap::new();
    for run in imported {
        let settings = settings(&run);
        match known.get(&settings) {
            Some(group) => groups[*group].1.push(run),
            None => {
                known.insert(settings.clone(), groups.len());
                groups.push((settings, vec![run]));
            }
        }
    }
    let most_runs = groups.iter().map(|(_, runs)| runs.len()).max().ok_or(ImportError::NoRuns)?;
    if groups.len() > MAX_CELLS {
        return Err(ImportError::Cells { found: groups.len(), most: MAX_CELLS });
    }
    let blocks = u32::try_from(most_runs).ok().filter(|blocks| *blocks <= MAX_BLOCKS);
    let blocks = blocks.ok_or(ImportError::Runs { found: most_runs, most: MAX_BLOCKS })?;
    let factors = factors(&groups);
    let common = groups.first().map(|(settings, _)| settings.clone()).unwrap_or_default();
    let mut cells = Vec::new();
    let mut runs: Vec<StoredRun> = Vec::new();
    for ((settings, of_group), cell) in groups.into_iter().zip(0u32..) {
        let levels =
            settings.into_iter().filter(|(name, _)| factors.iter().any(|f| f.name == *name));
        let levels = Levels(levels.map(|(name, level)| (name.to_owned(), level)).collect());
        let Some(spec) = of_group.first().map(spec) else { continue };
        for (run, block) in of_group.into_iter().zip(0u32..) {
            runs.push(StoredRun {
                pair: None,
                missing_nodes: Vec::new(),
                sequence: u32::try_from(runs.len()).unwrap_or(u32::MAX),
                block,
                cell: Some(cell),
                started_unix_ms: now_unix_ms,
                spec: spec.clone(),
                outcome: Outcome::Imported(Box::new(run)),
            });
        }
        cells.push(Cell { levels, spec });
    }
    let interval = cells.first().map_or(SECOND, |cell| cell.spec.duration);
    let mut study = Study {
        name: NAME.to_owned(),
        title: title(&runs),
        paper: None,
        testbed: TestbedSpec { adapter: Adapter::Unknown, ..TestbedSpec::default() },
        factors,
        parts: Vec::new(),
        cells,
        published: Vec::new(),
        method: Method {
            precision: 1.0,
            min_blocks: blocks.min(2),
            max_blocks: blocks,
            run: interval,
            warm_up: Duration::ZERO,
            idle: Duration::ZERO,
            order: Order::Independent,
            family: Family::Study,
            aa: false,
            ..Method::default()
        },
        quick: None,
        fleet: None,
        source: String::new(),
    };
    study.source = again(&study, &common).unwrap_or_default();
    Ok(ImportedSet { study, facts, runs })
}

/// What differs between the groups. A test's name says what its kind and direction say, so it is left out
/// where these tell all groups apart.
fn factors(groups: &[Group]) -> Vec<Factor> {
    // whether a setting means something is decided by the kind, which is a setting too
    let of = |name: &'static str| -> Vec<&Level> {
        let mut levels: Vec<&Level> = Vec::new();
        for (_, level) in
            groups.iter().flat_map(|(settings, _)| settings).filter(|(key, _)| *key == name)
        {
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        levels
    };
    let varied: Vec<(&'static str, Vec<&Level>)> = SETTINGS
        .iter()
        .map(|(name, ..)| (*name, of(name)))
        .filter(|(_, levels)| levels.len() > 1)
        .collect();
    let without_test: BTreeSet<Vec<&(&'static str, Level)>> = groups
        .iter()
        .map(|(settings, _)| {
            let kept = |setting: &&(&'static str, Level)| {
                setting.0 != TEST && varied.iter().any(|(name, _)| *name == setting.0)
            };
            settings.iter().filter(kept).collect()
        })
        .collect();
    let tests_needed = without_test.len() < groups.len();
    varied
        .into_iter()
        .filter(|(name, _)| *name != TEST || tests_needed)
        .map(|(name, levels)| Factor {
            name: name.to_owned(),
            levels: levels.into_iter().cloned().collect(),
            // the runs are not paired
            effects: false,
        })
        .collect()
}

/// A study file that measures the same cells again; `None` where no study file can. `common` are the settings of a cell.
fn again(study: &Study, common: &[(&'static str, Level)]) -> Option<String> {
    let toml = |level: &Level| match level {
        Level::Text(text) => toml::Value::from(text.as_str()).to_string(),
        other => other.to_string(),
    };
    let is_key = |name: &str| keys::find(name).is_ok();
    let is_known = |level: &Level| !level.to_string().ends_with(UNKNOWN);
    let title = toml(&Level::Text(study.title.replacen("Imported: ", "", 1)));
    let mut text = format!("title = {title}\n\n[workload]\n");
    for (name, level) in common {
        let varied = study.factors.iter().any(|factor| factor.name == *name);
        if is_key(name) && is_known(level) && !varied {
            text.push_str(&format!("{name} = {}\n", toml(level)));
        }
    }
    text.push_str(match study.factors.is_empty() {
        true => "\n[[part]]\nname = \"imported\"\n",
        false => "\n[factors]\n",
    });
    for factor in &study.factors {
        let levels: Vec<String> = factor.levels.iter().map(toml).collect();
        text.push_str(&format!("{} = [{}]\n", factor.name, levels.join(", ")));
    }
    let run = format_duration(study.method.run);
    text.push_str(&format!(
        "\n[method]\nrun = \"{run}\"\nwarm-up = \"0 s\"\nblocks = {{ min = 5, max = 10 }}\n"
    ));
    let read = crate::file::parse(NAME, "study.toml", &text).ok()?;
    let same = |cell: &Cell| {
        let is_it = |other: &&Cell| other.levels == cell.levels;
        read.cells.iter().find(is_it).is_some_and(|other| {
            (&other.spec.task, &other.spec.socket) == (&cell.spec.task, &cell.spec.socket)
        })
    };
    (read.cells.len() == study.cells.len() && study.cells.iter().all(same)).then_some(text)
}

/// The longest names of tests that a title lists.
const LISTED: usize = 4;

fn title(runs: &[StoredRun]) -> String {
    let mut names: Vec<String> = Vec::new();
    for run in runs.iter().filter_map(StoredRun::imported) {
        let program = run.program.split(' ').next().unwrap_or_default();
        let name = format!("{} of {program}", run.test);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    linkrate_model::clean::short_line(&format!("Imported: {}{rest}", names.join(", ")), 200)
        .into_owned()
}

const SECOND: Duration = Duration::from_secs(1);

/// The run as a study would ask for it. What the output does not report has the value of a study file that
/// does not set it; the figures and reports of imported runs do not use it.
fn spec(run: &Imported) -> RunSpec {
    let asked = &run.asked;
    let message = |bytes: Option<u64>, otherwise| {
        bytes.map_or(otherwise, |bytes| MessageSize::Fixed(ByteSize(bytes)))
    };
    let default = Workload::default();
    let workload = Workload {
        kind: asked.kind,
        direction: asked.direction,
        connections: asked.connections.unwrap_or(default.connections),
        message: message(asked.message, default.message),
        request: message(asked.request, default.request),
        response: message(asked.response, default.response),
        burst: asked.burst.unwrap_or(default.burst),
        send_path: asked.send_path.unwrap_or(default.send_path),
        ..default
    };
    let socket = SocketKnobs::default();
    let seconds = run.found.seconds.filter(|seconds| seconds.is_finite()).unwrap_or(1.0);
    RunSpec {
        task: Task::Workload(workload),
        socket: SocketKnobs {
            buffer: asked.socket.filter(|bytes| *bytes > 0).map(ByteSize),
            congestion: asked.congestion.clone().unwrap_or(socket.congestion),
            nodelay: asked.nodelay.unwrap_or(socket.nodelay),
            family: asked.family.unwrap_or(socket.family),
        },
        clients: 1,
        // programs end their measurements some ms late
        duration: Duration::from_secs_f64(seconds.round().clamp(1.0, MAX_RUN.as_secs_f64())),
        ..RunSpec::default()
    }
}

/// The facts that all files tell alike; each of the others is named in a warning.
fn facts(runs: &[Imported]) -> Facts {
    let mut values: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for (name, value) in runs.iter().flat_map(|run| &run.facts) {
        values.entry(name).or_default().insert(value);
    }
    let mut facts = Facts::default();
    for (name, values) in values {
        match values.iter().next() {
            Some(only) if values.len() == 1 => {
                let reported = runs.iter().filter(|run| run.facts.contains_key(name)).count();
                let of = if reported == runs.len() {
                    String::new()
                } else {
                    format!(" (reported by {reported} of {} runs)", runs.len())
                };
                facts.facts.insert(name.clone(), format!("{only}{of}"));
            }
            _ => {
                let listed: Vec<&str> =
                    values.iter().take(LISTED).map(|value| value.as_str()).collect();
                facts.warnings.push(format!(
                    "The files report {} different values of {name}, first {}: the runs are not of \
                     one testbed.",
                    values.len(),
                    listed.join(" and ")
                ));
            }
        }
    }
    facts
}

#[cfg(test)]
mod tests;
