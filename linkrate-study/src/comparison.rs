//! Two result sets of the same study: improvements, regressions, and their certainty.
//!
//! A pure function of two results directories. [`conditions`] first decides whether the two can be
//! compared, from the differences between them. Sets whose cells mean different things (levels,
//! workload, window, adapter) are never compared. Conditions that may be under test (kernel, CPU,
//! linkrate itself) may differ if the user allows them by name; any other difference would be a
//! second explanation for every change.
//!
//! Then [`rows`] holds every cell and every effect of the one against the other. Blocks are the
//! units, and the sets are independent: [`linkrate_stats::independent`] says how.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::interval_confidence;
use crate::levels::{Level, Levels};
use crate::quantity::{Interval, Measure, Unit};
use crate::store::StoredStudy;
use linkrate_stats::mirroring::level_of_effects;

pub mod conditions;
pub mod rows;
pub(crate) mod set;

pub use conditions::Difference;

/// Version of the comparison's JSON document.
pub const COMPARISON_FORMAT: u32 = 1;

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Criteria {
    /// Names of the differences that are under test.
    pub allow: Vec<String>,
    /// Smallest difference that counts, as a fraction; the baseline's own unless given.
    pub minimum_effect: Option<f64>,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyComparison {
    /// [`COMPARISON_FORMAT`].
    pub format: u32,
    /// Name of the baseline's study.
    pub study: String,
    /// Its title.
    pub title: String,
    /// The set in the denominator.
    pub baseline: SetSummary,
    /// The set in the numerator.
    pub candidate: SetSummary,
    /// Confidence level of every interval, for example 0.95.
    pub confidence: f64,
    /// Smallest difference that is better or worse, as a fraction.
    pub minimum_effect: f64,
    /// Conditions that differ between the sets and were allowed to.
    pub differences: Vec<Difference>,
    /// All cells together, a row for each measure; empty in a study of one cell.
    pub overall: Vec<MeasureRow>,
    /// Each cell by itself, in the order of the baseline.
    pub cells: Vec<CellComparison>,
    /// The rate of each pair of a fleet; empty in studies of one pair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairComparison>,
    /// How the effects differ.
    pub effects: Vec<EffectRow>,
    /// Rows of `overall`, `cells` and `pairs` that are worse, or have lost their figure.
    pub regressions: u32,
    /// Rows of `overall`, `cells` and `pairs` that are better.
    pub improvements: u32,
    /// Things a reader must know, as full sentences.
    pub warnings: Vec<String>,
}

impl StudyComparison {
    /// Rows of `overall`, `cells` and `pairs`.
    pub fn rows(&self) -> impl Iterator<Item = &MeasureRow> {
        let of_cells = self.overall.iter().chain(self.cells.iter().flat_map(|cell| &cell.rows));
        of_cells.chain(self.pairs.iter().map(|pair| &pair.row))
    }

    /// Rows of `overall`, `cells` and `pairs` that are not judged, because a set has fewer than five blocks.
    pub fn unjudged(&self) -> usize {
        self.rows().filter(|row| row.verdict == Finding::TooFew).count()
    }

    /// Whether any row is judged. Otherwise the comparison answers nothing.
    pub fn is_judged(&self) -> bool {
        self.rows().any(|row| row.verdict != Finding::TooFew)
    }
}

/// One of the two sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetSummary {
    /// What it is called, wherever it lies: `tso-20261121-1512`.
    pub results: String,
    /// When it began, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// The linkrate that began it.
    pub linkrate_version: String,
    /// Blocks of which every run is stored.
    pub blocks: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Whether it ran to its stop rule.
    pub complete: bool,
    /// Facts about its testbed.
    pub facts: BTreeMap<String, String>,
    /// The directory it was read from, for the terminal; in no document.
    #[serde(skip)]
    pub directory: String,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Received payload, `bit/s`.
    Throughput,
    /// Completed transactions, `transaction/s`.
    Transactions,
    /// SUT CPU time, `us/KB` or `us/transaction`.
    ServiceDemand,
    /// Median latency of a run's transactions, `ns`.
    LatencyP50,
    /// 99th percentile of a run's transactions, `ns`.
    LatencyP99,
}

impl Compared {
    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Transactions)
    }
}

/// The figure of one cell in one set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SetFigure {
    /// Mean over the runs, with its interval.
    #[serde(flatten)]
    pub interval: Interval,
    /// Runs behind it.
    pub runs: u32,
}

/// One measure of one cell, or of all of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasureRow {
    /// What is compared.
    pub measure: Compared,
    /// Unit of both figures.
    pub unit: Unit,
    /// The baseline's figure; absent without a good run, and for all cells together, whose mean
    /// over different rates would say nothing.
    pub baseline: Option<SetFigure>,
    /// The candidate's.
    pub candidate: Option<SetFigure>,
    /// Candidate to baseline, ratio of the geometric means over the runs; 1 is no change.
    pub ratio: Option<Interval>,
    /// Probability of such a ratio without any difference; absent if the row is not judged.
    pub p: Option<f64>,
    /// The same, adjusted for the number of rows by Holm's method.
    pub adjusted_p: Option<f64>,
    /// The verdict.
    pub verdict: Finding,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellComparison {
    /// Its levels.
    pub levels: Levels,
    /// Runs of the baseline that failed.
    pub baseline_failed: u32,
    /// Runs of the candidate that failed.
    pub candidate_failed: u32,
    /// Its measures; those that neither set has are left out.
    pub rows: Vec<MeasureRow>,
}

/// One cell between two nodes of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairComparison {
    /// Name of the sender, or of all others.
    pub sender: String,
    /// Name of the receiver, or of all others.
    pub receiver: String,
    /// The levels of the cell.
    pub levels: Levels,
    /// Its rate.
    pub row: MeasureRow,
}

/// The verdict of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A difference beyond chance and larger than the minimum, in the wanted direction.
    Better,
    /// The same in the other direction.
    Worse,
    /// The whole interval lies within the minimum: a larger difference is excluded.
    BelowMinimum,
    /// Open: a difference larger than the minimum is neither shown nor excluded.
    NotShown,
    /// A set has a figure in fewer than five blocks, so the row is not judged.
    TooFew,
    /// The candidate has no figure where the baseline has one.
    Lost,
    /// The baseline has no figure where the candidate has one.
    Gained,
}

impl Finding {
    /// Whether it makes a candidate worse than its baseline.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::Worse | Self::Lost)
    }
}

/// One effect in both sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectRow {
    /// The factor that changes.
    pub factor: String,
    /// The level in the denominator.
    pub from: Level,
    /// The level in the numerator.
    pub to: Level,
    /// The levels of the other factors.
    pub at: Levels,
    /// What is compared.
    pub measure: Measure,
    /// The effect in the baseline: the ratio of the levels, paired within its blocks.
    pub baseline: Interval,
    /// The effect in the candidate.
    pub candidate: Interval,
    /// The candidate's effect to the baseline's; 1 is the same effect.
    pub ratio: Interval,
    /// Probability of such a ratio if the effects were the same; absent if the row is not judged.
    pub p: Option<f64>,
    /// The same, adjusted for the number of effects.
    pub adjusted_p: Option<f64>,
    /// The verdict.
    pub verdict: EffectVerdict,
}

/// The verdict on the difference of an effect. It is never a regression: an offload also saves less
/// when traffic without it has become cheaper. The cells show which of the two is the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectVerdict {
    /// In the same direction and further from no change.
    Stronger,
    /// In the same direction and nearer to it.
    Weaker,
    /// In the other direction.
    Reversed,
    /// Different, where one of the two may be no effect at all.
    Changed,
    /// The whole interval lies within the minimum: a larger difference is excluded.
    BelowMinimum,
    /// Open: a difference larger than the minimum is neither shown nor excluded.
    NotShown,
    /// A set has both runs in fewer than five blocks, so the row is not judged.
    TooFew,
}

/// Why two sets are not compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ComparisonError {
    /// Both are the same runs.
    #[error("both directories hold the same runs")]
    Same,
    /// They differ in a condition that was not allowed to differ, or that never may.
    #[error("the result sets cannot be compared: {} differ{}", count(.0.len()), if .0.len() == 1 { "s" } else { "" })]
    Different(Vec<Difference>),
    /// A name that is not a difference.
    #[error("--allow: {given:?} is not a fact of either result set; {known}")]
    UnknownAllowance {
        /// What was given.
        given: String,
        /// The nearest name, or all of them.
        known: String,
    },
    /// A difference that cannot be allowed.
    #[error(
        "--allow: {given:?} is part of a cell's meaning; cells that differ in it cannot be compared"
    )]
    NeverAllowed {
        /// What was given.
        given: String,
    },
    /// No row has enough runs in both sets.
    #[error("nothing can be compared: no cell has two good runs in both sets")]
    NothingToCompare,
}

fn count(differences: usize) -> String {
    if differences == 1 { "1 thing".to_owned() } else { format!("{differences} things") }
}

/// Compares `candidate` with `baseline`.
///
/// # Errors
/// [`ComparisonError`] where a comparison would answer another question than the one asked.
pub fn compare(
    baseline: &StoredStudy,
    candidate: &StoredStudy,
    request: &Criteria,
) -> Result<StudyComparison, ComparisonError> {
    if baseline.plan.started_unix_ms == candidate.plan.started_unix_ms
        && baseline.runs == candidate.runs
    {
        return Err(ComparisonError::Same);
    }
    let found = conditions::between(baseline, candidate);
    let (differences, idle_allowances) =
        conditions::check(found, &request.allow, &conditions::names(baseline, candidate))?;
    let study = &baseline.plan.study;
    let method = &study.method;
    let minimum_effect = request.minimum_effect.unwrap_or(method.minimum_effect);
    // the scatter of a set that stopped because it was precise looks smaller than it is
    let level = interval_confidence(baseline).max(interval_confidence(candidate));
    let effects_level = [baseline, candidate]
        .map(|set| level_of_effects(set.plan.study.method.order, level))
        .into_iter()
        .fold(level, f64::max);
    let mut rows = rows::Rows::new(baseline, candidate, level, minimum_effect);
    let mut cells = rows.cells();
    let mut overall = rows.overall();
    let mut pairs = rows.of_pairs();
    rows::judge(&mut overall, &mut cells, &mut pairs, level, minimum_effect);
    let of_cells = || overall.iter().chain(cells.iter().flat_map(|cell| &cell.rows));
    let all = || of_cells().chain(pairs.iter().map(|pair| &pair.row));
    let lost = all().any(|row| row.verdict == Finding::Lost);
    let has_interval = |row: &MeasureRow| row.ratio.is_some_and(|ratio| ratio.low.is_some());
    if !lost && !all().any(has_interval) {
        return Err(ComparisonError::NothingToCompare);
    }
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let regressions = number(all().filter(|row| row.verdict.is_regression()).count());
    let improvements = number(all().filter(|row| row.verdict == Finding::Better).count());
    let mut warnings = conditions::warnings(baseline, candidate, &differences, &idle_allowances);
    if request.minimum_effect.is_none()
        && candidate.plan.study.method.minimum_effect != minimum_effect
    {
        warnings
            .push("The sets have different minimum effects; the baseline's is used.".to_owned());
    }
    warnings.extend(rows::together(&overall));
    // sysctls and disciplines stand beside the facts where they differ
    let summary = |set: &StoredStudy| {
        let mut summary = rows.summary(set);
        let host = conditions::host(set);
        let differing = differences.iter().map(|one| &one.name);
        let told = differing.filter_map(|name| Some((name.clone(), host.get(name)?.clone())));
        summary.facts.extend(told);
        summary
    };
    let (of_baseline, of_candidate) = (summary(baseline), summary(candidate));
    Ok(StudyComparison {
        format: COMPARISON_FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        baseline: of_baseline,
        candidate: of_candidate,
        confidence: method.confidence,
        minimum_effect,
        differences,
        overall,
        cells,
        pairs,
        effects: rows.effects(effects_level),
        regressions,
        improvements,
        warnings,
    })
}

#[cfg(test)]
mod fleets;
#[cfg(test)]
mod tests;
