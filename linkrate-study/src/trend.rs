//! Result sets of one study in order of time: figures of each cell and effect, and the points at which
//! their level changed.
//!
//! A pure function of results directories. A set is the unit: it has one figure for each cell and each
//! effect, the geometric mean over its blocks. So the difference between two sessions of the same thing, which
//! [`crate::comparison`] cannot know, is in the scatter here. [`linkrate_stats::change_point`] finds the
//! changes and says how sure they are. Conditions of the host may differ from set to set; a condition that
//! changed is told at the set in which it changed. Sets whose cells mean different things are refused.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::effects::{Comparison, comparisons};
use crate::analysis::uncertainty::{self, Reach};
use crate::comparison::conditions::{self, Difference, find};
use crate::comparison::set::{Set, align, measures, number};
use crate::comparison::{SetFigure, SetSummary};
use crate::levels::{Level, Levels};
use crate::quantity::{Interval, Measure, Unit};
use crate::store::StoredStudy;
use crate::verdict::Verdict;
use linkrate_stats::change_point::{self, changes};
use linkrate_stats::dependence;
use linkrate_stats::independent;
use linkrate_stats::interval::of_mean;
use linkrate_stats::paired;

/// Version of the trend's JSON document.
pub const TREND_FORMAT: u32 = 1;

/// Options of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Criteria {
    /// Smallest change that counts, as a fraction; that of the newest set unless given.
    pub minimum_effect: Option<f64>,
    /// Number of newest sets: changes that lie before them are history, and not counted as worse or better.
    pub recent: Option<usize>,
}

/// The document that trend prints with --json. A figure that does not exist is null, never zero. Later versions of a format
/// only add keys.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StudyTrend {
    /// Version of this document.
    #[schemars(extend("const" = TREND_FORMAT))]
    pub format: u32,
    /// Name of the study.
    pub study: String,
    /// Its title.
    pub title: String,
    /// The result sets in order of time.
    pub sets: Vec<TrendSet>,
    /// Confidence level of intervals and changes.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
    /// Smallest change that counts, as a fraction.
    #[schemars(range(min = 0))]
    pub minimum_effect: f64,
    /// Fewest sets in which a change can be shown.
    #[schemars(range(min = 2))]
    pub fewest_sets: u32,
    /// Each measure of each cell, in the order of the study.
    pub cells: Vec<Series>,
    /// Each measure of each effect.
    pub effects: Vec<Series>,
    /// Rows of cells whose newest change is for the worse, among the recent sets.
    pub worse: u32,
    /// The same for the better.
    pub better: u32,
    /// Warnings, as full sentences.
    pub warnings: Vec<String>,
}

impl StudyTrend {
    /// All series.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.cells.iter().chain(&self.effects)
    }
}

/// One result set.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrendSet {
    /// The set.
    #[serde(flatten)]
    pub summary: SetSummary,
    /// Conditions that differ from those of the set before.
    pub changed: Vec<Difference>,
}

/// The figures of one measure over time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// The cell or the effect.
    #[serde(flatten)]
    pub subject: Subject,
    /// The measure.
    pub measure: Measure,
    /// Unit of the figures; `ratio` for effects.
    pub unit: Unit,
    /// The figure of each set with the interval within it; null where a set has none.
    pub points: Vec<Option<SetFigure>>,
    /// Of each set, whether something other than the adapter limited the cell, or one of both cells of the effect; null
    /// where nothing is known of it.
    pub host_limited: Vec<Option<bool>>,
    /// Changes of the level, in order of time.
    pub changes: Vec<LevelChange>,
}

/// What a series is about.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Subject {
    /// A cell.
    Cell {
        /// Its levels.
        levels: Levels,
    },
    /// The ratio of two levels.
    Effect {
        /// The factor that changes.
        factor: String,
        /// The level in the denominator.
        from: Level,
        /// The level in the numerator.
        to: Level,
        /// The levels of the other factors.
        at: Levels,
    },
}

/// A change of the level.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LevelChange {
    /// The first set of the new level, from 0.
    #[schemars(range(min = 1))]
    pub set: usize,
    /// The new level to the one before, with the interval that the scatter of the sets gives.
    pub ratio: Interval,
    /// Probability that a study without changes shows so large a one in any row of its kind.
    #[schemars(range(min = 0, max = 1))]
    pub adjusted_p: f64,
    /// The direction; changed for effects.
    pub finding: Turn,
}

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// Faster or cheaper.
    Better,
    /// Slower or dearer.
    Worse,
    /// Of an effect, whose change is neither.
    Changed,
}

/// Why there is no trend.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrendError {
    /// One set, or none.
    #[error("a trend needs at least two result sets")]
    TooFew,
    /// Two sets are the same runs.
    #[error("{first} and {second} are the same results")]
    Same {
        /// The directory of the one.
        first: String,
        /// The directory of the other.
        second: String,
    },
    /// The cells of a set mean something else than those of the newest set.
    #[error(
        "{directory} and {newest} cannot stand in one trend: their cells mean different things"
    )]
    Different {
        /// The directory of the set.
        directory: String,
        /// The directory of the newest set.
        newest: String,
        /// The differences; the candidate is the newest set.
        differences: Vec<Difference>,
    },
    /// A set was imported, so that the time of its runs is not known.
    #[error("{directory} was imported: the time of its runs is not known")]
    Imported {
        /// The directory of the set.
        directory: String,
    },
}

/// The trend of result sets, in any order.
///
/// # Errors
/// [`TrendError`] where the sets do not belong into one trend.
pub fn trend(sets: &[StoredStudy], request: &Criteria) -> Result<StudyTrend, TrendError> {
    let mut ordered: Vec<&StoredStudy> = sets.iter().collect();
    ordered.sort_by_key(|set| set.plan.started_unix_ms);
    let [.., newest] = ordered[..] else { return Err(TrendError::TooFew) };
    check(&ordered, newest)?;
    let method = &newest.plan.study.method;
    let (confidence, alpha) = (method.confidence, 1.0 - method.confidence);
    let minimum_effect = request.minimum_effect.unwrap_or(method.minimum_effect);
    let mut by_set: Vec<Set<'_>> = ordered.iter().map(|set| Set::of(set)).collect();
    align(&mut by_set, &newest.plan.study);
    let judge = Judge { alpha, confidence, minimum_effect };
    let (cells, cells_depend) = judge.series(cell_figures(&by_set, newest));
    let (effects, effects_depend) = judge.series(effect_figures(&by_set, newest));
    let recent = ordered.len() - request.recent.unwrap_or(usize::MAX).min(ordered.len());
    let newly = |turn: Turn| {
        let last = cells.iter().filter_map(|series| series.changes.last());
        number(last.filter(|change| change.set >= recent && change.finding == turn).count())
    };
    let fewest_sets = number(change_point::fewest_occasions(alpha));
    Ok(StudyTrend {
        format: TREND_FORMAT,
        study: newest.plan.study.name.clone(),
        title: newest.plan.study.title.clone(),
        confidence,
        minimum_effect,
        fewest_sets,
        worse: newly(Turn::Worse),
        better: newly(Turn::Better),
        warnings: warnings(&by_set, fewest_sets, [cells_depend, effects_depend]),
        sets: summaries(&by_set),
        cells,
        effects,
    })
}

/// Refuses sets that do not belong into one trend.
fn check(ordered: &[&StoredStudy], newest: &StoredStudy) -> Result<(), TrendError> {
    let directory = |set: &StoredStudy| set.directory.display().to_string();
    if ordered.len() < 2 {
        return Err(TrendError::TooFew);
    }
    if let Some(imported) = ordered.iter().find(|set| set.plan.is_imported()) {
        return Err(TrendError::Imported { directory: directory(imported) });
    }
    for pair in ordered.windows(2) {
        let same = |a: &StoredStudy, b: &StoredStudy| {
            a.plan.started_unix_ms == b.plan.started_unix_ms && a.runs == b.runs
        };
        if same(pair[0], pair[1]) {
            let [first, second] = [pair[0], pair[1]].map(directory);
            return Err(TrendError::Same { first, second });
        }
    }
    for set in &ordered[..ordered.len() - 1] {
        let mut differences = conditions::between(set, newest);
        differences.retain(|one| one.meaning);
        if !differences.is_empty() {
            return Err(TrendError::Different {
                directory: directory(set),
                newest: directory(newest),
                differences,
            });
        }
    }
    Ok(())
}

fn summaries(sets: &[Set<'_>]) -> Vec<TrendSet> {
    let mut before: Option<&Set<'_>> = None;
    let mut found = Vec::with_capacity(sets.len());
    for set in sets {
        let changed = before.map_or_else(Vec::new, |before| {
            let mut differences = conditions::between(before.stored, set.stored);
            differences.retain(|one| !one.meaning);
            differences
        });
        found.push(TrendSet { summary: set.summary(), changed });
        before = Some(set);
    }
    found
}

/// The figures of a series before anything is said about them, by set.
struct Figures {
    subject: Subject,
    measure: Measure,
    unit: Unit,
    by_set: Vec<OfSet>,
}

/// The figures of a set.
#[derive(Debug, Clone, Default)]
struct OfSet {
    by_block: Vec<f64>,
    /// Whether something other than the adapter limited it; `None` where nothing is known of it.
    host_limited: Option<bool>,
    /// How far the figure may lie from what was measured.
    uncertainty: Reach,
}

/// Each measure of each cell of the newest set. Sets have the same cells; their order may differ.
fn cell_figures(sets: &[Set<'_>], newest: &StoredStudy) -> Vec<Figures> {
    let mut found = Vec::new();
    for cell in &newest.plan.study.cells {
        let of_cell = |set: &Set<'_>| find(&set.stored.plan.study, &cell.levels);
        let limited: Vec<Option<bool>> =
            sets.iter().map(|set| set.is_of_the_host(of_cell(set)?)).collect();
        for (measure, unit) in measures(&cell.spec) {
            let by_set = sets.iter().zip(&limited).map(|(set, host_limited)| {
                of_cell(set).map_or_else(OfSet::default, |index| OfSet {
                    by_block: set.by_block(index, measure).into_values().collect(),
                    host_limited: *host_limited,
                    uncertainty: set.uncertainty(index, measure),
                })
            });
            found.push(Figures {
                subject: Subject::Cell { levels: cell.levels.clone() },
                measure,
                unit,
                by_set: by_set.collect(),
            });
        }
    }
    found
}

/// Each measure of each effect of the newest set: ratios, paired within the blocks of each set.
fn effect_figures(sets: &[Set<'_>], newest: &StoredStudy) -> Vec<Figures> {
    let cells = &newest.plan.study.cells;
    let mut found = Vec::new();
    for comparison in comparisons(&newest.plan.study) {
        let ends = |set: &Set<'_>| {
            let index = |cell: usize| find(&set.stored.plan.study, &cells[cell].levels);
            index(comparison.from_cell).zip(index(comparison.to_cell))
        };
        let of_host = |set: &Set<'_>| {
            let (from, to) = ends(set)?;
            Verdict::any_of_the_host([from, to].map(|cell| set.is_of_the_host(cell)))
        };
        let limited: Vec<Option<bool>> = sets.iter().map(of_host).collect();
        for measure in comparison.measures.iter().copied().filter(|one| one.is_whole()) {
            let by_set = sets.iter().zip(&limited).map(|(set, host_limited)| {
                let Some((from, to)) = ends(set) else { return OfSet::default() };
                OfSet {
                    by_block: set.ratios(from, to, measure),
                    host_limited: *host_limited,
                    uncertainty: Reach::of_ratio(
                        [from, to].map(|cell| uncertainty::of_cell(&set.runs, cell, measure)),
                    ),
                }
            });
            let by_set = by_set.collect();
            let Comparison { factor, from, to, at, .. } = comparison.clone();
            found.push(Figures {
                subject: Subject::Effect { factor, from, to, at },
                measure,
                unit: Unit::Ratio,
                by_set,
            });
        }
    }
    found
}

/// What decides whether a level has changed.
#[derive(Debug, Clone, Copy)]
struct Judge {
    alpha: f64,
    confidence: f64,
    minimum_effect: f64,
}

impl Judge {
    /// The series of one family with their changes, and whether sets depend on those before them, so that no change is
    /// shown. Those without a figure in any set are left out.
    fn series(self, mut all: Vec<Figures>) -> (Vec<Series>, bool) {
        all.retain(|figures| figures.by_set.iter().any(|of_set| !of_set.by_block.is_empty()));
        let logarithms: Vec<Vec<Option<f64>>> = all
            .iter()
            .map(|figures| {
                figures.by_set.iter().map(|of_set| mean_logarithm(&of_set.by_block)).collect()
            })
            .collect();
        let large = |series: usize, before: &[(usize, f64)], after: &[(usize, f64)]| {
            self.is_large(&all[series], before, after)
        };
        let mut found = changes(&logarithms, self.alpha, large);
        let left: Vec<Vec<Option<f64>>> = logarithms
            .iter()
            .zip(&found)
            .map(|(one, changes)| beside_levels(one, changes))
            .collect();
        let depends = dependence::chance(&left) <= self.alpha;
        if depends {
            found.iter_mut().for_each(Vec::clear);
        }
        let judged = all.into_iter().zip(&logarithms).zip(found);
        let series = judged.map(|((figures, logarithms), found)| Series {
            changes: self.levels(&figures, logarithms, &found),
            points: figures
                .by_set
                .iter()
                .map(|of_set| figure(&figures.subject, of_set, self.confidence))
                .collect(),
            host_limited: figures.by_set.iter().map(|of_set| of_set.host_limited).collect(),
            subject: figures.subject,
            measure: figures.measure,
            unit: figures.unit,
        });
        (series.collect(), depends)
    }

    /// Whether the levels, logarithms of the figures of sets, are shown to differ by more than the smallest change that
    /// counts, wherever other programs ran.
    fn is_large(self, figures: &Figures, before: &[(usize, f64)], after: &[(usize, f64)]) -> bool {
        let mean = |level: &[f64]| level.iter().sum::<f64>() / level.len() as f64;
        let values = |level: &[(usize, f64)]| level.iter().map(|one| one.1).collect::<Vec<f64>>();
        let change = mean(&values(after)) - mean(&values(before));
        // the figures as near to each other as they may be in truth
        let nearer = |level: &[(usize, f64)], is_upper: bool| -> Vec<f64> {
            let figure = |(set, logarithm): &(usize, f64)| {
                let [low, high] = figures.by_set[*set].uncertainty.ends();
                logarithm.exp() * if is_upper { low } else { high }
            };
            level.iter().map(figure).collect()
        };
        let (before, after) = (nearer(before, change < 0.0), nearer(after, change > 0.0));
        let left = independent::ratio(&before, &after, self.confidence);
        left.and_then(|left| left.test).is_some_and(|left| {
            let p_beyond = Reach::NONE.p_beyond(left, self.minimum_effect);
            left.mean * change > 0.0 && p_beyond <= self.alpha
        })
    }

    /// The changes with the ratio of each level to the one before.
    fn levels(
        self,
        figures: &Figures,
        logarithms: &[Option<f64>],
        found: &[change_point::Change],
    ) -> Vec<LevelChange> {
        let level = |from: usize, to: usize| -> Vec<f64> {
            logarithms[from..to].iter().flatten().map(|value| value.exp()).collect()
        };
        let uncertainty = |from: usize, to: usize| {
            let sets = (from..to).filter(|set| logarithms[*set].is_some());
            Reach::of_mean(sets.map(|set| figures.by_set[set].uncertainty))
        };
        let starts = |index: usize| found.get(index).map_or(logarithms.len(), |change| change.at);
        let mut changes = Vec::with_capacity(found.len());
        for (index, change) in found.iter().enumerate() {
            let (start, end) = (if index == 0 { 0 } else { starts(index - 1) }, starts(index + 1));
            let (before, after) = (level(start, change.at), level(change.at, end));
            let Some(ratio) = independent::ratio(&before, &after, self.confidence) else {
                continue;
            };
            let levels = [uncertainty(start, change.at), uncertainty(change.at, end)];
            let ratio = Reach::of_ratio(levels).widen(ratio.ratio);
            let finding = match &figures.subject {
                Subject::Effect { .. } => Turn::Changed,
                Subject::Cell { .. } if (ratio.mean > 1.0) == figures.measure.more_is_better() => {
                    Turn::Better
                }
                Subject::Cell { .. } => Turn::Worse,
            };
            changes.push(LevelChange { set: change.at, ratio, adjusted_p: change.p, finding });
        }
        changes
    }
}

/// A series without its changes: each figure less the mean of its level.
fn beside_levels(series: &[Option<f64>], changes: &[change_point::Change]) -> Vec<Option<f64>> {
    let mut left = Vec::with_capacity(series.len());
    let starts = std::iter::once(0).chain(changes.iter().map(|change| change.at));
    let ends = changes.iter().map(|change| change.at).chain([series.len()]);
    for (start, end) in starts.zip(ends) {
        let level: Vec<f64> = series[start..end].iter().copied().flatten().collect();
        let mean = level.iter().sum::<f64>() / level.len().max(1) as f64;
        left.extend(series[start..end].iter().map(|figure| figure.map(|figure| figure - mean)));
    }
    left
}

/// The figure of a set: the mean of a cell, or the paired ratio of an effect.
fn figure(subject: &Subject, of_set: &OfSet, confidence: f64) -> Option<SetFigure> {
    let figures = &of_set.by_block;
    let interval = match subject {
        Subject::Cell { .. } => of_set.uncertainty.widen_mean(of_mean(figures, confidence)?),
        Subject::Effect { .. } => {
            let pairs = figures.iter().map(|ratio| (Some(1.0), Some(*ratio)));
            of_set.uncertainty.widen(paired::ratio(pairs, confidence)?.ratio)
        }
    };
    Some(SetFigure { interval, runs: number(figures.len()) })
}

/// The logarithm of the geometric mean; figures without a logarithm are left out.
fn mean_logarithm(values: &[f64]) -> Option<f64> {
    let usable = values.iter().filter(|value| value.is_finite() && **value > 0.0);
    let logarithms: Vec<f64> = usable.map(|value| value.ln()).collect();
    (!logarithms.is_empty()).then(|| logarithms.iter().sum::<f64>() / logarithms.len() as f64)
}

fn warnings(sets: &[Set<'_>], fewest_sets: u32, depend: [bool; 2]) -> Vec<String> {
    let mut found = Vec::new();
    for (what, depends) in ["cells", "effects"].into_iter().zip(depend) {
        if depends {
            found.push(format!(
                "No change of {what} is shown: each set is more like the one before it than by \
                 chance, so that its level may change without a cause."
            ));
        }
    }
    if number(sets.len()) < fewest_sets {
        found.push(format!(
            "No change can be shown in {} sets: in fewer than {fewest_sets}, chance explains any order of the figures.",
            sets.len()
        ));
    }
    let named = |of: &dyn Fn(&Set<'_>) -> bool| -> Vec<String> {
        sets.iter().filter(|set| of(set)).map(|set| set.summary().results).collect()
    };
    let torn = named(&|set| set.stored.ended.as_ref().is_none_or(|ended| !ended.is_complete()));
    if !torn.is_empty() {
        found.push(format!("Not complete: {}.", torn.join(", ")));
    }
    let failed = named(&|set| set.stored.runs.iter().any(|run| run.failure().is_some()));
    if !failed.is_empty() {
        found.push(format!("Runs failed in {}.", failed.join(", ")));
    }
    found
}

#[cfg(test)]
mod tests;
