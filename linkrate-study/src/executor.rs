//! The interface between a study and its testbed.

use std::collections::BTreeMap;

use linkrate_terms::{Measurement, RunSpec, clean};
use serde::{Deserialize, Serialize};

/// Carries out runs. The lab implements it on real hosts; tests implement it on simulated ones.
pub trait Executor {
    /// Facts about hosts and placement that travel with every result.
    fn facts(&self) -> Facts;

    /// Sets the knobs, reads them back, warms up, measures all ends over one window.
    ///
    /// # Errors
    /// A [`RunFailure`] whenever the figures would not be the requested ones. After a failure
    /// that is not fatal the executor is ready for the next run.
    fn run(&mut self, spec: &RunSpec) -> Result<Measurement, RunFailure>;

    /// Gives the testbed up. The next run has one that was built for it.
    fn rebuild(&mut self);
}

/// Facts about the testbed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Facts by name (`kernel`, `cpu-model`, `sut-cpus`, ...), values as text.
    pub facts: BTreeMap<String, String>,
    /// Sysctls of the network by name (`net.ipv4.tcp_rmem`): those of the system under test, and those
    /// that hold for its whole host. Empty in results of earlier versions. No report lists them all;
    /// comparisons name those that differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Facts that were measured when the testbed was built, as facts. They differ a little from session to
    /// session, so nothing compares them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, String>,
    /// Warnings before a reader trusts the figures, as full sentences.
    pub warnings: Vec<String>,
}

impl Facts {
    /// The same with every text cleaned: a far end tells some of them.
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
}

/// The step of a run at which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
