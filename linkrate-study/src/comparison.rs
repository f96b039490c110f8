//! Two result sets of the same study: improvements, regressions, and their certainty.
//!
//! A pure function of two results directories. [`conditions`] first decides whether the two can be
//! compared, from the differences between them. Sets whose cells mean different things (levels,
//! workload, measurement, adapter) are never compared. Conditions that may be under test (kernel, CPU,
//! linkrate itself) may differ if the user allows them by name; any other difference would be a
//! second explanation for every change.
//!
//! Then [`rows`] holds every cell and every effect of the one against the other. Blocks are the
//! units, and the sets are independent: [`linkrate_stats::independent`] says how.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::interval_confidence;
use crate::levels::{Level, Levels};
use crate::quantity::{Interval, Measure, Unit};
use crate::results::Probabilities;
use crate::store::StoredStudy;
use linkrate_stats::order::level_of_effects;

pub mod conditions;
pub mod rows;
pub(crate) mod set;

pub use conditions::Difference;
use rows::SessionScatter;

/// Version of the comparison's JSON document.
pub const COMPARISON_FORMAT: u32 = 1;

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Criteria {
    /// Names of the differences that are under test.
    pub allow: Vec<String>,
    /// Smallest difference that counts, as a fraction; the baseline's own unless given.
    pub minimum_effect: Option<f64>,
    /// How far sessions scatter, as a fraction; as measured elsewhere unless given.
    pub session_scatter: Option<f64>,
}

/// The document that compare prints with --json. A figure that does not exist is null, never zero. Later versions of a format
/// only add keys.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StudyComparison {
    /// Version of this document.
    #[schemars(extend("const" = COMPARISON_FORMAT))]
    pub format: u32,
    /// Name of the baseline's study.
    pub study: String,
    /// Its title.
    pub title: String,
    /// The set in the denominator.
    pub baseline: SetSummary,
    /// The set in the numerator.
    pub candidate: SetSummary,
    /// Further sets of the side of the baseline, and of that of the candidate.
    pub further: [Vec<SetSummary>; 2],
    /// Standard deviation between sessions that is in the intervals of service demands, as a fraction; null with
    /// several sets on each side.
    #[schemars(range(min = 0))]
    pub session_scatter: Option<f64>,
    /// Confidence level of every interval.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
    /// Smallest difference that is better or worse, as a fraction.
    #[schemars(range(min = 0))]
    pub minimum_effect: f64,
    /// Conditions that differ between the sets and were allowed to.
    pub differences: Vec<Difference>,
    /// All cells together, a row for each measure; empty in a study of one cell.
    pub overall: Vec<MeasureRow>,
    /// Each cell by itself, in the order of the baseline.
    pub cells: Vec<CellComparison>,
    /// The rate of each pair of a fleet that has a figure in either set; absent in studies of one pair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairComparison>,
    /// How the effects differ.
    pub effects: Vec<EffectRow>,
    /// Rows that are worse, or have lost their figure.
    pub regressions: u32,
    /// Rows that are better.
    pub improvements: u32,
    /// Warnings, as full sentences.
    pub warnings: Vec<String>,
}

impl StudyComparison {
    /// Rows of `overall`, `cells` and `pairs`.
    pub fn rows(&self) -> impl Iterator<Item = &MeasureRow> {
        let of_cells = self.overall.iter().chain(self.cells.iter().flat_map(|cell| &cell.rows));
        of_cells.chain(self.pairs.iter().map(|pair| &pair.row))
    }

    /// Rows of `overall`, `cells` and `pairs` that are not judged.
    pub fn unjudged(&self) -> usize {
        self.rows().filter(|row| !row.verdict.is_judged()).count()
    }

    /// Whether any row is judged. Otherwise the comparison answers nothing.
    pub fn is_judged(&self) -> bool {
        self.rows().any(|row| row.verdict.is_judged())
    }
}

/// One of the two sets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SetSummary {
    /// Name of the results, independent of their place.
    pub results: String,
    /// Start of the study, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Version of linkrate that began the study.
    pub linkrate_version: String,
    /// Blocks of which every run is stored.
    pub blocks: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Whether the stop rule ended the study.
    pub complete: bool,
    /// Facts about its testbed.
    pub facts: BTreeMap<String, String>,
    /// The directory it was read from, for the terminal; in no document.
    #[serde(skip)]
    pub directory: String,
}

/// The figure of one cell in one set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SetFigure {
    /// Mean over the runs, with its interval.
    #[serde(flatten)]
    pub interval: Interval,
    /// Runs behind it.
    pub runs: u32,
}

/// One measure of one cell, or of all of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasureRow {
    /// The measure.
    pub measure: Measure,
    /// Unit of both figures.
    pub unit: Unit,
    /// The baseline's figure; null without a good run, and for all cells together.
    pub baseline: Option<SetFigure>,
    /// The candidate's.
    pub candidate: Option<SetFigure>,
    /// Candidate to baseline, ratio of the geometric means over the runs; 1 is no change.
    pub ratio: Option<Interval>,
    /// Those of the ratio, adjusted for the number of rows; absent if the row is not judged.
    #[serde(flatten)]
    pub probabilities: Probabilities,
    /// The verdict. worse and lost are regressions.
    pub verdict: Finding,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellComparison {
    /// Its levels.
    pub levels: Levels,
    /// Runs of the baseline that failed.
    pub baseline_failed: u32,
    /// Runs of the candidate that failed.
    pub candidate_failed: u32,
    /// Whether something other than the adapter limited the cell in the baseline. Beside cells that the adapter
    /// limited, overall leaves it out. Null where nothing is known of it, or there is no adapter.
    pub host_limited: Option<bool>,
    /// The same in the candidate.
    pub candidate_host_limited: Option<bool>,
    /// Its measures; measures that neither set has are left out.
    pub rows: Vec<MeasureRow>,
}

/// One cell between two nodes of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PairComparison {
    /// Name of the sender, or `all others`.
    pub sender: String,
    /// Name of the receiver, or `all others`.
    pub receiver: String,
    /// The levels of the cell.
    pub levels: Levels,
    /// Its rate.
    pub row: MeasureRow,
}

/// The verdict of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A difference that is shown to be larger than the minimum, in the wanted direction.
    Better,
    /// The same in the other direction.
    Worse,
    /// The whole interval lies within the minimum: a larger difference is excluded.
    BelowMinimum,
    /// A difference is shown, and may be smaller or larger than the minimum.
    Different,
    /// Open: no difference is shown, and one larger than the minimum is not excluded.
    NotShown,
    /// A set has a figure in fewer than five blocks, so the row is not judged.
    TooFew,
    /// How far sessions scatter in this measure is not known, and each side is one set, so the row is not judged.
    UnknownScatter,
    /// Runs of a set have too few transactions for the percentile, so the row is not judged.
    TooFewTransactions,
    /// The candidate has no figure where the baseline has one, and a run that failed for a reason of its own.
    Lost,
    /// The candidate has no figure and no such run: it was stopped, or disturbed, so the row is not judged.
    NotMeasured,
    /// The baseline has no figure where the candidate has one.
    Gained,
}

impl Finding {
    /// Whether the row is judged.
    pub fn is_judged(self) -> bool {
        !matches!(
            self,
            Self::TooFew | Self::UnknownScatter | Self::TooFewTransactions | Self::NotMeasured
        )
    }

    /// Whether it makes a candidate worse than its baseline.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::Worse | Self::Lost)
    }
}

/// One effect in both sets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EffectRow {
    /// The factor that changes.
    pub factor: String,
    /// The level in the denominator.
    pub from: Level,
    /// The level in the numerator.
    pub to: Level,
    /// The levels of the other factors.
    pub at: Levels,
    /// The measure.
    pub measure: Measure,
    /// The effect in the baseline, paired within its blocks.
    pub baseline: Interval,
    /// The effect in the candidate.
    pub candidate: Interval,
    /// Whether something other than the adapter limited one of the cells in either set. Null where nothing is known
    /// of it, or there is no adapter.
    pub host_limited: Option<bool>,
    /// The candidate's effect to the baseline's; 1 is the same effect.
    pub ratio: Interval,
    /// Those of the ratio, adjusted for the number of effects; absent if the row is not judged.
    #[serde(flatten)]
    pub probabilities: Probabilities,
    /// The verdict.
    pub verdict: EffectVerdict,
}

/// The verdict on the difference of an effect. It is never a regression: an offload also saves less
/// when traffic without it has become cheaper. The cells show which of the two is the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
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
    /// A difference is shown, and may be smaller or larger than the minimum.
    Different,
    /// Open: no difference is shown, and one larger than the minimum is not excluded.
    NotShown,
    /// A set has both runs in fewer than five blocks, so the row is not judged.
    TooFew,
    /// How far sessions scatter in this measure is not known, and each side is one set, so the row is not judged.
    UnknownScatter,
}

/// Why two sets are not compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ComparisonError {
    /// Both are the same runs.
    #[error("both directories are the same results")]
    Same,
    /// They differ in a condition that was not allowed to differ, or that never may.
    #[error("the result sets cannot be compared: {} differ{}", count(.0.len()), if .0.len() == 1 { "s" } else { "" })]
    Different(Vec<Difference>),
    /// A name that is not a difference.
    #[error("--allow: {given:?} is not an environment attribute of either result set; {known}")]
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
    /// One side has one set and the other several.
    #[error(
        "one set cannot be compared with several: sessions scatter, and one set does not show by \
         how much"
    )]
    OneAgainstSeveral,
    /// No row has enough runs in both sets.
    #[error("nothing can be compared: no cell has two good runs in both sets")]
    NothingToCompare,
}

fn count(differences: usize) -> String {
    if differences == 1 { "1 thing".to_owned() } else { format!("{differences} things") }
}

/// Compares the candidates with the baselines: one set each, or several each.
///
/// # Errors
/// [`ComparisonError`] where a comparison would answer another question than the one asked.
pub fn compare(
    baselines: &[&StoredStudy],
    candidates: &[&StoredStudy],
    request: &Criteria,
) -> Result<StudyComparison, ComparisonError> {
    let (&[baseline, ..], &[candidate, ..]) = (baselines, candidates) else {
        return Err(ComparisonError::NothingToCompare);
    };
    if (baselines.len() > 1) != (candidates.len() > 1) {
        return Err(ComparisonError::OneAgainstSeveral);
    }
    let all: Vec<&StoredStudy> = baselines.iter().chain(candidates).copied().collect();
    for (number, set) in all.iter().enumerate() {
        let is_it = |other: &&StoredStudy| {
            other.plan.started_unix_ms == set.plan.started_unix_ms && other.runs == set.runs
        };
        if all[..number].iter().any(is_it) {
            return Err(ComparisonError::Same);
        }
    }
    // sets of one side differ in nothing but what is under test
    for (first, others) in [(baseline, &baselines[1..]), (candidate, &candidates[1..])] {
        for other in others {
            let found = conditions::between(first, other);
            conditions::check(found, &request.allow, &conditions::names(baseline, candidate))?;
        }
    }
    let found = conditions::between(baseline, candidate);
    let (differences, idle_allowances) =
        conditions::check(found, &request.allow, &conditions::names(baseline, candidate))?;
    let study = &baseline.plan.study;
    let method = &study.method;
    let minimum_effect = request.minimum_effect.unwrap_or(method.minimum_effect);
    // the scatter of a set that stopped because it was precise looks smaller than it is
    let level = all.iter().map(|set| interval_confidence(set)).fold(0.0, f64::max);
    let levels = all.iter().map(|set| level_of_effects(set.plan.study.method.order, level));
    let effects_level = levels.fold(level, f64::max);
    let given = request.session_scatter.map(SessionScatter::of_all);
    let sessions = (all.len() == 2).then(|| given.unwrap_or_default());
    let mut rows = rows::Rows::new(baselines, candidates, level, minimum_effect, sessions);
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
    warnings.extend(rows::together(&overall, &cells));
    // sysctls and disciplines stand beside the facts where they differ
    let [before, after] = rows.summaries();
    let reported = |(mut summary, set): (SetSummary, &&StoredStudy)| {
        let host = conditions::host(set);
        let differing = differences.iter().map(|one| &one.name);
        let reported = differing.filter_map(|name| Some((name.clone(), host.get(name)?.clone())));
        summary.facts.extend(reported);
        summary
    };
    let mut baseline_sets = before.into_iter().zip(baselines).map(reported);
    let mut candidate_sets = after.into_iter().zip(candidates).map(reported);
    let (Some(of_baseline), Some(of_candidate)) = (baseline_sets.next(), candidate_sets.next())
    else {
        return Err(ComparisonError::NothingToCompare);
    };
    let further = [baseline_sets.collect(), candidate_sets.collect()];
    Ok(StudyComparison {
        format: COMPARISON_FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        baseline: of_baseline,
        candidate: of_candidate,
        further,
        session_scatter: sessions.map(|sessions| sessions.cost),
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
mod latencies;
#[cfg(test)]
mod tests;
