//! A study: a question, made ready to run.
//!
//! [`crate::file`] parses a study file into this; the runner, the statistics and the report take
//! it from here and never look at TOML again.

use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::time::Duration;

use linkrate_model::{Model, RunSpec, TestbedSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Fleet;
use crate::levels::{Level, Levels};
use crate::published::Published;
use linkrate_stats::order::Order;
use linkrate_stats::stop::Rule;

pub mod check;

/// A validated study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Short name: the file's stem, for example `tso`.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The paper whose figures stand beside the measured ones.
    pub paper: Option<String>,
    /// The testbed all runs share. `clients` and `ports` are the most that any cell needs.
    pub testbed: TestbedSpec,
    /// What is varied, in the file's order. With several parts the first is [`PART`], and the
    /// others are those of all parts, each with every level that some part has.
    pub factors: Vec<Factor>,
    /// The questions of a study that has several; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Every combination of levels, part after part, the last factor varying fastest. Never empty.
    pub cells: Vec<Cell>,
    /// What was published about these cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// The nodes of a study over many hosts; `testbed` is then that of its first pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// How it is measured.
    pub method: Method,
    /// The cells of a quick run, if the file names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<Quick>,
    /// The file's text, kept with the results.
    pub source: String,
}

impl Study {
    /// Turns of a block: those of all pairs of a fleet, 1 in a study of one pair.
    pub fn turns(&self) -> u32 {
        self.fleet.as_ref().map_or(1, |fleet| fleet.turns().max(1))
    }

    /// `testbed` with as many clients, ports and queues as the cells need, and the models that they ask
    /// for.
    pub fn fitted(&self, testbed: &TestbedSpec) -> TestbedSpec {
        let specs = || self.cells.iter().map(|cell| &cell.spec);
        let asked = |model: &&Model| specs().any(|spec| spec.adapter.as_ref() == Some(&model.name));
        TestbedSpec {
            others: testbed.others.iter().filter(asked).cloned().collect(),
            clients: specs().map(|spec| spec.clients).max().unwrap_or(1),
            ports: specs().filter_map(|spec| spec.ports).max().unwrap_or(1),
            queues: specs().filter_map(|spec| spec.interface.queues).max().unwrap_or(1),
            aggregate: specs()
                .filter_map(|spec| spec.interface.aggregate.aggregate)
                .max()
                .unwrap_or(0),
            ..testbed.clone()
        }
    }

    /// Runs of a block beside its idle run: one of each cell, and that of the A/A test.
    pub fn runs_of_cells(&self) -> u32 {
        u32::try_from(self.cells.len()).unwrap_or(u32::MAX).saturating_add(self.method.aa.into())
    }

    /// The number that the second runs of the first cell have in the store, one past those of the cells; `None` without an
    /// A/A test.
    pub fn aa_cell(&self) -> Option<u32> {
        self.method.aa.then(|| self.runs_of_cells() - 1)
    }

    /// The cell of a number in the store.
    pub fn cell(&self, number: u32) -> Option<&Cell> {
        let index = if self.aa_cell() == Some(number) { 0 } else { number as usize };
        self.cells.get(index)
    }

    /// How many numbers of blocks the store may have: turns in a study of a fleet, see [`crate::fleet`]. In others, blocks that
    /// [fall](crate::analysis::runs_by_cell::fallen_blocks) have numbers too, at most as many as there are blocks.
    pub fn most_turns(&self) -> u32 {
        let turns = self.fleet.as_ref().map_or(2, Fleet::turns);
        self.method.max_blocks.saturating_mul(turns)
    }

    pub fn levels(&self) -> Vec<&Levels> {
        self.cells.iter().map(|cell| &cell.levels).collect()
    }

    pub fn profile_runs(&mut self) {
        self.method.profile = true;
        for cell in &mut self.cells {
            cell.spec.profile = true;
        }
    }
}

/// What stands in a cell's levels for the name of its part.
pub const PART: &str = "part";

/// One of several questions that share a testbed and a method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name, the level of [`PART`] in its cells.
    pub name: String,
    /// What it varies, in the file's order.
    pub factors: Vec<Factor>,
}

/// One factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Its key (`offload`).
    pub name: String,
    /// Its levels; the first is the baseline of every effect.
    pub levels: Vec<Level>,
    /// Whether its effects are asked: computed, shown, and watched by the stop rule.
    #[serde(default = "asked")]
    pub effects: bool,
}

/// What a factor is taken for in plans that are older than the question.
fn asked() -> bool {
    true
}

/// One combination of levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The levels, in the order of the factors.
    pub levels: Levels,
    /// What one run of it does. The runner replaces `seed` for each run.
    pub spec: RunSpec,
}

/// How a study is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// Confidence level of every interval, in (0, 1).
    pub confidence: f64,
    /// Half-width of the interval to reach, as a fraction of the mean.
    pub precision: f64,
    /// The change that effects must be able to show in [nine of ten](linkrate_stats::power::POWER) such sessions, as a fraction;
    /// it takes the place of the precision.
    pub find: Option<f64>,
    /// Smallest effect that is claimed, as a fraction.
    pub minimum_effect: f64,
    /// Fewest blocks, at least 2.
    pub min_blocks: u32,
    /// Most blocks.
    pub max_blocks: u32,
    /// The measurement of one run.
    pub run: Duration,
    /// Traffic before the measurement.
    pub warm_up: Duration,
    /// The measurement of each block's idle run; zero leaves it out.
    pub idle: Duration,
    /// No block is begun that would end after this much time since the start.
    pub budget: Option<Duration>,
    /// Whether runs are profiled.
    pub profile: bool,
    /// The rule of the run order.
    pub order: Order,
    /// Seed of the run order and of everything random inside runs; `None` until it is
    /// [drawn](Self::draw_seed) for a session, so that what follows from an order averages out over sessions.
    pub seed: Option<u64>,
    /// What a failed run means.
    pub on_failure: OnFailure,
    /// What the figures are for.
    pub purpose: Purpose,
    /// The effects that are claimed together.
    pub family: Family,
    /// Whether each block has a testbed of its own. What a testbed is born with (addresses, hash seeds,
    /// memory) then differs from block to block, and is in the intervals.
    pub rebuild: bool,
    /// Whether each block runs the study's first cell [twice](Study::aa_cell), an A/A test.
    pub aa: bool,
}

impl Method {
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    /// Draws a seed, unless the study names one.
    pub fn draw_seed(&mut self) {
        // the keys of each hasher are random; people read and type seeds, so 32 bits are kept
        self.seed.get_or_insert_with(|| RandomState::new().hash_one("seed") >> 32);
    }

    /// When a study with this method has run enough blocks.
    pub fn stop_rule(&self) -> Rule {
        Rule { min_blocks: self.min_blocks, max_blocks: self.max_blocks, budget: self.budget }
    }
}

/// The effects that are one family: the chance of a false claim anywhere in it is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// All effects of the study.
    #[default]
    Study,
    /// The effects of each part.
    Part,
    /// Each effect by itself: the chance of a false claim grows with their number.
    Effect,
}

/// What a failed run means for the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// It is recorded, and the study continues.
    Continue,
    /// It is recorded and the study stops.
    Stop,
}

/// What a study file asks of its quick form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quick {
    /// Indices of its cells in the study, ascending. Never empty.
    pub cells: Vec<u32>,
    /// The measurement of one run.
    pub run: Duration,
    /// Traffic before the measurement.
    pub warm_up: Duration,
}

/// What the figures of a run are for. Other programs on its CPUs spoil some of them, and not others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// What the traffic costs, and its rate.
    #[default]
    Costs,
    /// Its rate alone, as of a pair of a fleet.
    Rates,
    /// Neither: what matters is that the traffic flows and which counters it moves.
    Functions,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Costs, Self::Rates, Self::Functions];

    /// Its word in study files and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Costs => "costs",
            Self::Rates => "rates",
            Self::Functions => "functions",
        }
    }
}

impl FromStr for Purpose {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|purpose| purpose.word() == word);
        found.ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            format!("no purpose \"{word}\"; expected one of {words}")
        })
    }
}
