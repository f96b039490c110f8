//! The interface between a study and its testbed.

use std::collections::BTreeMap;
use std::fmt;

use linkrate_model::{Measurement, RunSpec, clean};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Carries out runs. The lab implements it on real hosts; tests implement it on simulated ones.
pub trait Executor {
    /// Facts about hosts and placement that travel with every result.
    fn facts(&self) -> Facts;

    /// Sets the knobs, reads them back, warms up, measures all ends over one measurement.
    ///
    /// # Errors
    /// A [`RunFailure`] whenever the figures would not be the requested ones. After a failure
    /// that is not fatal the executor is ready for the next run.
    fn run(&mut self, spec: &RunSpec) -> Result<Measurement, RunFailure>;

    /// Gives the testbed up. The next run has one that was built for it.
    fn rebuild(&mut self);
}

/// Facts about the testbed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
pub struct Facts {
    /// Facts by name (`kernel`, `cpu-model`, `sut-cpus`, ...), values as text.
    pub facts: BTreeMap<String, String>,
    /// Sysctls of the network by name (`net.ipv4.tcp_rmem`): those of the system under test, and
    /// those that hold for its whole host. No report lists them all; comparisons name those that
    /// differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Facts that were measured when the testbed was built, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, String>,
    /// How much longer a fixed loop on the SUT's CPU takes while the CPUs of clients and devices work; absent where
    /// that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<Contention>,
    /// Sentences about the testbed.
    pub warnings: Vec<String>,
}

/// How much longer a fixed loop takes on a CPU of the system under test while the CPUs of clients and devices
/// work than while they rest, by its CPU time; the median of several rounds and their quartiles, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Contention {
    /// CPU time of the loop while the others rest, median.
    pub loop_ns: u64,
    /// The slowdown in millionths, median.
    pub slowdown_ppm: i64,
    /// Its first quartile.
    pub low_ppm: i64,
    /// Its third quartile.
    pub high_ppm: i64,
}

impl Contention {
    /// From rounds, each with the times of the loop while the others rest and while they work, ns. `None`
    /// without rounds.
    pub fn of(rounds: &[(u64, u64)]) -> Option<Self> {
        let slowdown = |(rest, work): &(u64, u64)| {
            (*work as f64 / (*rest).max(1) as f64 * 1e6 - 1e6).round() as i64
        };
        let sorted = |mut values: Vec<i64>| {
            values.sort_unstable();
            values
        };
        let slowdowns = sorted(rounds.iter().map(slowdown).collect());
        let loops = sorted(rounds.iter().map(|(rest, _)| *rest as i64).collect());
        let last = rounds.len().checked_sub(1)?;
        let at = |values: &[i64], quarter: usize| values[(last * quarter + 2) / 4];
        Some(Self {
            loop_ns: at(&loops, 2).unsigned_abs(),
            slowdown_ppm: at(&slowdowns, 2),
            low_ppm: at(&slowdowns, 1),
            high_ppm: at(&slowdowns, 3),
        })
    }

    /// The slowdown as a fraction.
    pub fn slowdown(&self) -> f64 {
        self.slowdown_ppm as f64 / 1e6
    }
}

impl fmt::Display for Contention {
    /// `3.1 % (2.9 to 3.4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ppm: i64| ppm as f64 / 1e4;
        let Self { slowdown_ppm, low_ppm, high_ppm, .. } = *self;
        let [median, low, high] = [slowdown_ppm, low_ppm, high_ppm].map(percent);
        write!(f, "{median:.1} % ({low:.1} to {high:.1})")
    }
}

impl Facts {
    /// The same with every text cleaned: a peer tells some of them.
    #[must_use]
    pub fn cleaned(self) -> Self {
        let line = |text: String| clean::line(&text).into_owned();
        let lines = |values: BTreeMap<String, String>| {
            values.into_iter().map(|(name, value)| (line(name), line(value))).collect()
        };
        Self {
            facts: lines(self.facts),
            sysctls: lines(self.sysctls),
            measured: lines(self.measured),
            contention: self.contention,
            warnings: self.warnings.into_iter().map(line).collect(),
        }
    }
}

/// Why a run has no figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{stage}: {reason}")]
pub struct RunFailure {
    /// The step.
    pub stage: Stage,
    /// The reason, with the identifying value.
    pub reason: String,
    /// Whether the testbed is lost, so that no further run can succeed.
    pub fatal: bool,
    /// Whether something from outside spoiled the run, such as another program, which could as well have met another run of the
    /// block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
}

impl RunFailure {
    /// A failure of this run alone, which nothing from outside has spoiled.
    pub fn at(stage: Stage, reason: impl Into<String>) -> Self {
        Self { stage, reason: reason.into(), fatal: false, disturbed: false }
    }
}

/// The step of a run at which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Bringing up the testbed.
    Testbed,
    /// Setting a knob or reading it back.
    Knob,
    /// Listening and connecting.
    Connect,
    /// Traffic and measurement.
    Measure,
    /// An agent died, or its answer could not be decoded.
    Agent,
    /// The user stopped the study.
    Interrupted,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Testbed => "testbed",
            Self::Knob => "knob",
            Self::Connect => "connect",
            Self::Measure => "measure",
            Self::Agent => "agent",
            Self::Interrupted => "interrupted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowdown_is_the_median_of_its_rounds() {
        let rounds = [(1000, 1030), (1000, 1050), (1010, 1010), (2000, 2080), (990, 9900)];
        let contention = Contention::of(&rounds).unwrap();
        assert_eq!((contention.loop_ns, contention.slowdown_ppm), (1000, 40_000));
        assert_eq!((contention.low_ppm, contention.high_ppm), (30_000, 50_000));
        assert_eq!(contention.to_string(), "4.0 % (3.0 to 5.0)");
        assert_eq!(Contention::of(&[]), None);
    }
}
