//! One result set as comparisons read it: figures by cell and block.

use std::collections::BTreeMap;

use crate::analysis::measures::{self, RunsByCell};
use crate::analysis::unsure;
use crate::comparison::{Compared, SetSummary};
use crate::quantity::{Measure, Unit};
use crate::store::directory::name;
use crate::store::{Ended, StoredRun, StoredStudy};

/// A result set with its runs sorted into cells.
pub struct Set<'a> {
    /// The set.
    pub stored: &'a StoredStudy,
    /// Its runs.
    pub runs: RunsByCell<'a>,
}

impl<'a> Set<'a> {
    /// Sorts the runs.
    pub fn of(stored: &'a StoredStudy) -> Self {
        Self { stored, runs: RunsByCell::of(&stored.plan.study, &stored.runs) }
    }

    /// The set as a whole.
    pub fn summary(&self) -> SetSummary {
        let plan = &self.stored.plan;
        let runs = &self.stored.runs;
        SetSummary {
            results: name(&plan.study.name, plan.started_unix_ms),
            started_unix_ms: plan.started_unix_ms,
            linkrate_version: plan.linkrate_version.clone(),
            blocks: self.runs.complete_blocks(&plan.study),
            failed: number(runs.iter().filter(|run| run.failure().is_some()).count()),
            complete: self.stored.ended.as_ref().is_some_and(Ended::is_complete),
            facts: plan.facts.facts.clone(),
            directory: self.stored.directory.display().to_string(),
        }
    }

    /// A cell's figure by block; blocks without one are absent.
    pub fn by_block(&self, cell: usize, measure: Compared) -> BTreeMap<u32, f64> {
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        let runs = self.runs.cell(cell).iter();
        runs.filter_map(|run| Some((run.block, figure(measure, run).filter(usable)?))).collect()
    }

    /// The share by which a cell's figure may be too high, because it may be the work of other programs.
    pub fn unsure(&self, cell: usize, measure: Compared) -> f64 {
        match measure {
            Compared::ServiceDemand => unsure::of_cell(&self.runs, cell, Measure::ServiceDemand),
            _ => 0.0,
        }
    }

    /// Runs of a cell without figures.
    pub fn failed(&self, cell: usize) -> u32 {
        number(self.runs.cell(cell).iter().filter(|run| run.failure().is_some()).count())
    }
}

/// One figure of a run.
fn figure(measure: Compared, run: &StoredRun) -> Option<f64> {
    let latency = || measures::latency_of_run(run);
    match measure {
        Compared::Throughput => measures::figure(Measure::Throughput, run),
        Compared::Transactions => measures::figure(Measure::Transactions, run),
        Compared::ServiceDemand => measures::figure(Measure::ServiceDemand, run),
        Compared::LatencyP50 => latency()?.p50_ns.map(|ns| ns as f64),
        Compared::LatencyP99 => latency()?.p99_ns.map(|ns| ns as f64),
    }
}

/// The measures that are compared for a cell, with their units.
pub fn measures(transactional: bool) -> &'static [(Compared, Unit)] {
    if transactional {
        &[
            (Compared::Transactions, Unit::TransactionsPerSecond),
            (Compared::ServiceDemand, Unit::MicrosecondsPerTransaction),
            (Compared::LatencyP50, Unit::Nanoseconds),
            (Compared::LatencyP99, Unit::Nanoseconds),
        ]
    } else {
        &[
            (Compared::Throughput, Unit::BitsPerSecond),
            (Compared::ServiceDemand, Unit::MicrosecondsPerKb),
        ]
    }
}

/// The ratios of two cells by block.
pub fn ratios(runs: &RunsByCell<'_>, from: usize, to: usize, measure: Measure) -> Vec<f64> {
    let (from, to) = (runs.by_block(from, measure), runs.by_block(to, measure));
    from.iter().filter_map(|(block, from)| Some(to.get(block)? / from)).collect()
}

/// A count, or the largest number that there is.
pub fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
