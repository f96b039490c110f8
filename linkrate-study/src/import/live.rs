//! Runs of two commands that other programs measured in turn, in blocks: a result set with effects.
//!
//! What changed on the machine meanwhile changed for both commands of a block, and their order is random. So the runs are
//! paired, as those of a study are, and the effect of B over A is claimed by the same rules.

use linkrate_model::clean::short_line;
use linkrate_model::spec::Adapter;
use linkrate_model::{BitRate, Imported, TestbedSpec};
use linkrate_stats::order::Order;

use super::{facts, spec};
use crate::levels::{Level, Levels};
use crate::store::{ImportedSet, Outcome, StoredRun};
use crate::study::{Cell, Factor, Family, Method, Study};

/// Name of the study, and of its factor.
pub const NAME: &str = "live";
pub const FACTOR: &str = "command";

/// The levels: the commands by their places.
pub const SIDES: [&str; 2] = ["A", "B"];

/// Most characters of a command in a title and in a fact.
const SHOWN: usize = 80;
const MAX_FACT: usize = 1000;

/// What is compared, and how.
#[derive(Debug, Clone)]
pub struct Live<'a> {
    /// The commands.
    pub commands: [&'a str; 2],
    /// Blocks of one run of each.
    pub blocks: u32,
    /// Its seed and its minimum effect count.
    pub method: Method,
}

/// Why two commands cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// A block lacks a run of a side.
    #[error("no run of {0}")]
    NoRun(&'static str),
    /// One has a rate, the other transactions.
    #[error("A measured {a} and B {b}, expected the same kind of test")]
    Kinds {
        /// The test of A.
        a: String,
        /// The test of B.
        b: String,
    },
}

/// The study that the runs of a first block are of, without its runs.
pub fn assemble(live: &Live<'_>, first: &[StoredRun]) -> Result<ImportedSet, LiveError> {
    let of = |side: usize| {
        let mut runs = first.iter().filter(|run| run.cell == u32::try_from(side).ok());
        runs.find_map(StoredRun::imported).ok_or(LiveError::NoRun(SIDES[side]))
    };
    let (a, b) = (of(0)?, of(1)?);
    if a.is_transactional() != b.is_transactional() {
        return Err(LiveError::Kinds { a: a.test.clone(), b: b.test.clone() });
    }
    let cells: Vec<Cell> = SIDES
        .into_iter()
        .zip([a, b])
        .map(|(name, run)| Cell { levels: levels(name), spec: spec(run) })
        .collect();
    let [shown_a, shown_b] = live.commands.map(|command| short_line(command, SHOWN).into_owned());
    let mut facts = facts(&[a.clone(), b.clone()]);
    for (side, command) in SIDES.into_iter().zip(live.commands) {
        let command = short_line(command, MAX_FACT).into_owned();
        facts.facts.insert(format!("{FACTOR}-{}", side.to_lowercase()), command);
    }
    let study = Study {
        name: NAME.to_owned(),
        title: format!("B ({shown_b}) instead of A ({shown_a})"),
        paper: None,
        testbed: TestbedSpec { adapter: Adapter::Unknown, ..TestbedSpec::default() },
        factors: vec![Factor {
            name: FACTOR.to_owned(),
            levels: SIDES.map(|side| Level::Text(side.to_owned())).to_vec(),
            effects: true,
        }],
        parts: Vec::new(),
        published: Vec::new(),
        method: Method {
            precision: 1.0,
            min_blocks: live.blocks,
            max_blocks: live.blocks,
            run: cells[0].spec.duration,
            warm_up: std::time::Duration::ZERO,
            idle: std::time::Duration::ZERO,
            order: Order::Mirrored,
            family: Family::Study,
            aa: false,
            ..live.method.clone()
        },
        cells,
        quick: None,
        fleet: None,
        source: String::new(),
    };
    Ok(ImportedSet { study, facts, runs: Vec::new() })
}

fn levels(side: &str) -> Levels {
    Levels(vec![(FACTOR.to_owned(), Level::Text(side.to_owned()))])
}

/// A run of a block as it is stored; `place` is its place in the block.
pub fn stored(
    block: u32,
    side: u32,
    started_unix_ms: u64,
    place: usize,
    measured: Imported,
) -> StoredRun {
    let sides = SIDES.len() as u32;
    StoredRun {
        pair: None,
        missing_nodes: Vec::new(),
        sequence: block * sides + u32::try_from(place).unwrap_or(sides),
        block,
        cell: Some(side),
        started_unix_ms,
        spec: spec(&measured),
        outcome: Outcome::Imported(Box::new(measured)),
    }
}

/// The rate of a run, as a line of progress has it.
pub fn rate(run: &Imported) -> String {
    match (run.found.transactions_per_second, run.found.bits_per_second()) {
        (Some(rate), _) => format!("{rate:.0} /s"),
        (None, Some(rate)) => BitRate(rate).to_string(),
        (None, None) => "no rate".to_owned(),
    }
}

/// Whether these runs were measured in blocks, so that they have effects.
pub fn is_live(study: &Study) -> bool {
    matches!(study.testbed.adapter, Adapter::Unknown) && study.factors.iter().any(|one| one.effects)
}

#[cfg(test)]
mod tests;
