//! How far to trust an answer: precision, what carries over to hardware, published figures. One line each.

use linkrate_stats::interval::{MIN_TO_CLAIM, relative_half_width};
use linkrate_study::labels;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::published::Basis;
use linkrate_study::quantity::{Interval, Measure};
use linkrate_study::results::{
    CellResult, Effect, PublishedKind, PublishedResult, StudyResults, figures,
};
use serde::Serialize;

use crate::number;
use crate::paper::change_figures;
use crate::words::{self, marks};

#[derive(Debug, Serialize)]
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// What was found.
    pub text: String,
    /// Whether it needs attention.
    pub is_bad: bool,
}

/// The check against published figures.
pub const PUBLISHED: &str = "Published";

/// The checks of these results that the terminal has no mark for, in the order of their weight.
pub fn all(results: &StudyResults) -> Vec<Check> {
    let all = [
        incomplete(results),
        two_groups(results),
        precision(results).or_else(|| power(results)),
        hardware(results),
        published(results),
    ];
    all.into_iter().flatten().collect()
}

/// Figures that are the mean of two groups of runs, and so of none.
fn two_groups(results: &StudyResults) -> Option<Check> {
    let found = results.cells.iter().map(|cell| cell.two_groups.len()).sum();
    let (has, its) =
        if found == 1 { ("has", "its mean describes") } else { ("have", "means describe") };
    let text = format!(
        "{} {has} two groups of runs; {its} neither (--details warnings)",
        words::count(found, "result")
    );
    (found > 0).then_some(Check { name: "Groups", text, is_bad: true })
}

/// What has an interval that the stop rule looks at.
enum Subject<'r> {
    Cell(&'r CellResult),
    Effect(&'r Effect),
}

/// The half-width of the widest interval that the stop rule looks at, as a fraction of its mean, and what it is of;
/// empty where there is a single cell.
fn widest(results: &StudyResults) -> Option<(f64, String)> {
    let half = relative_half_width;
    let of_cells = results.cells.iter().flat_map(|cell| {
        let figures = [cell.service_demand, cell.rate()].into_iter().flatten();
        figures.filter_map(move |figure| Some((half(&figure.interval)?, Subject::Cell(cell))))
    });
    let is_asked = |effect: &&Effect| effect.measure.is_stop_input();
    let of_effects = results.effects.iter().filter(is_asked);
    let of_effects =
        of_effects.filter_map(|effect| Some((half(&effect.ratio)?, Subject::Effect(effect))));
    let (half, of) = of_cells.chain(of_effects).max_by(|a, b| a.0.total_cmp(&b.0))?;
    // a level that all cells have tells none of them apart
    let varied = |levels: &Levels| {
        let varies = |(name, level): &&(String, Level)| {
            results.cells.iter().any(|cell| cell.levels.get(name) != Some(level))
        };
        Levels(levels.0.iter().filter(varies).cloned().collect())
    };
    let of = match of {
        Subject::Cell(cell) => labels::cell(&varied(&cell.levels)),
        Subject::Effect(effect) => {
            words::step_at(&Effect { at: varied(&effect.at), ..effect.clone() })
        }
    };
    Some((half, of))
}

/// Whether the precision that was asked for was reached.
fn precision(results: &StudyResults) -> Option<Check> {
    // of runs of other programs no precision was asked
    let study =
        results.plan.as_ref().map(|plan| &plan.study).filter(|_| results.imported.is_empty())?;
    // where a change is to be found, precision is not asked for
    let wanted = study.method.find.is_none().then_some(study.method.precision)?;
    let (worst, of) = widest(results)?;
    let goal = number::percent(wanted);
    let is_bad = worst > wanted;
    let text = match is_bad {
        false => format!("±{goal} reached"),
        true => {
            let size = match worst > 10.0 {
                true => ">1000 %".to_owned(),
                // rounded up: it is more than the goal
                false => number::percent((worst * 1000.0 - 1e-6).ceil() / 1000.0),
            };
            let of = if of.is_empty() { of } else { format!(" ({of})") };
            // another line says why a study is not complete
            let why =
                if results.complete { format!("; {}", results.stopped) } else { String::new() };
            format!("worst ±{size}{of}, goal ±{goal}{why}")
        }
    };
    Some(Check { name: "Precision", text, is_bad })
}

/// Which change would have been found: of each measure the largest of the smallest ones. At a terminal it takes the place of
/// a precision that was not asked for.
pub fn power(results: &StudyResults) -> Option<Check> {
    let detectable = |measure: Measure| {
        let of_measure = results.effects.iter().filter(|effect| effect.measure == measure);
        let found = of_measure.filter_map(|effect| effect.detectable).reduce(f64::max)?;
        Some((found, measure))
    };
    let asked = [Measure::ServiceDemand, Measure::Throughput, Measure::Transactions];
    let found: Vec<_> = asked.into_iter().filter_map(detectable).collect();
    let worst = found.iter().map(|(change, _)| *change).reduce(f64::max)?;
    let shown = |change: f64| match change > 1.0 {
        true => "over 100 %".to_owned(),
        // rounded up: a smaller one would not be found
        false => number::percent((change * 1000.0 - 1e-6).ceil() / 1000.0),
    };
    let changes =
        found.iter().map(|(change, measure)| format!("{} ({})", shown(*change), measure.word()));
    let changes = changes.collect::<Vec<_>>().join(", ");
    let mut text = format!("9 of 10 such sessions find a change of {changes}");
    let plan = results.plan.as_ref();
    let asked = plan.and_then(|plan| plan.study.method.find);
    let is_bad = asked.is_some_and(|asked| worst > asked);
    if let Some(asked) = asked.filter(|_| is_bad) {
        text.push_str(&format!("; goal {}", number::percent(asked)));
    }
    Some(Check { name: "Power", text, is_bad })
}

/// What carries over from an emulated adapter to hardware.
fn hardware(results: &StudyResults) -> Option<Check> {
    let shares = results.cells.iter().filter_map(|cell: &CellResult| {
        let (whole, parts) = (cell.service_demand?, cell.service_demand_parts?);
        Some(parts.driver?.mean * 100.0 / whole.interval.mean)
    });
    let shares: Vec<f64> = shares.collect();
    let low = shares.iter().copied().reduce(f64::min)?;
    let high = shares.iter().copied().reduce(f64::max)?;
    let share = match high - low < 1.0 {
        true => format!("{high:.0} %"),
        false => format!("{low:.0} to {high:.0} %"),
    };
    let mut text = format!("{}: {share} of CPU time", words::driver_of(results));
    let claimed: Vec<(&Effect, Interval)> = results
        .effects
        .iter()
        .filter(|effect| effect.significant)
        .filter_map(|effect| Some((effect, effect.without_driver?)))
        .collect();
    let kept = claimed.iter().filter(|(effect, without)| effect.agrees_with(without)).count();
    // what this host limits is no figure of the adapter
    let (of_host, of_adapter): (Vec<_>, Vec<_>) =
        claimed.iter().copied().partition(|(effect, _)| !marks::of_effect(effect).is_empty());
    match claimed.len() {
        0 => {}
        all if kept == all && of_adapter.is_empty() => {
            text.push_str(&format!("; without it, on this host, {}", without_driver(&of_host)));
        }
        all if kept == all => {
            text.push_str(&format!("; without it {}", without_driver(&of_adapter)));
        }
        all => text.push_str(&match kept {
            0 => format!("; without it none of {all} changes keeps its sign"),
            1 => format!("; without it 1 of {all} changes keeps its sign"),
            kept => format!("; without it {kept} of {all} changes keep their sign"),
        }),
    }
    Some(Check { name: "Hardware", text, is_bad: kept < claimed.len() })
}

/// What the largest of the changes is without the emulated driver: over all cases, if there are several.
fn without_driver(claimed: &[(&Effect, Interval)]) -> String {
    let largest = claimed.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let Some((effect, without)) = largest else { return String::new() };
    let is_same = |(other, _): &&(&Effect, Interval)| {
        (other.measure, &other.factor, &other.from, &other.to)
            == (effect.measure, &effect.factor, &effect.from, &effect.to)
    };
    let means: Vec<f64> = claimed.iter().filter(is_same).map(|(_, of)| of.mean).collect();
    let step = labels::level(&effect.factor, &effect.to);
    let (change, ends) = number::brief_change(without);
    match means[..] {
        [_] => format!("{step}: {change}{ends}"),
        _ => {
            let least = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = Interval { mean: least, low: None, high: None };
            format!("{step}: {change} to {}", number::brief_change(&least).0)
        }
    }
}

/// How many cells something else than the adapter limited: their rates are those of this host.
pub fn limited(results: &StudyResults) -> Option<Check> {
    let cells = results.cells.iter().filter(|cell| !marks::of_cell(results, cell).is_empty());
    let by = words::occurrences(cells.map(|cell| cell.verdict.limited_by()));
    let (count, all) = (by.iter().map(|(_, cells)| cells).sum::<usize>(), results.cells.len());
    let by: Vec<String> = by.iter().map(|(name, cells)| format!("{name} {cells}")).collect();
    let are = if count == 1 { "is" } else { "are" };
    let text = format!("{count} of {all} cells {are} {} ({})", marks::OF_THE_HOST, by.join(", "));
    (count > 0).then_some(Check { name: "Limits", text, is_bad: true })
}

/// Why a published change may not be judged.
const DOUBTS: [&str; 3] = ["with the driver on one side", "host-limited", "of fewer than 5 blocks"];

/// The published changes that can be compared, without those that the model was made from.
pub fn changes(results: &StudyResults) -> Vec<&PublishedResult> {
    let is_change = |one: &&PublishedResult| {
        one.kind != PublishedKind::Value && one.basis != Basis::Parameter && one.measured.is_some()
    };
    let changes: Vec<&PublishedResult> = results.published.iter().filter(is_change).collect();
    // a mean beside those that it is made of would count them twice
    let is_own = |one: &&PublishedResult| !change_figures::has_members(one, &changes);
    changes.iter().copied().filter(is_own).collect()
}

/// Why a published change is not judged; none where it is. What other things than the adapter limited, and what has an
/// emulated driver on one side, agrees with nothing.
pub fn doubts(results: &StudyResults, one: &PublishedResult) -> Vec<&'static str> {
    let holds = [
        one.factor.as_deref() == Some(figures::TOE_FACTOR),
        marks::is_host_limited(results, one),
        marks::runs_behind(results, one) < MIN_TO_CLAIM,
    ];
    let found = DOUBTS.into_iter().zip(holds).filter(|(_, holds)| *holds);
    found.map(|(doubt, _)| doubt).collect()
}

/// Whether a change has the sign and the size that are published; `None` where its interval has no change in it: a wide
/// one agrees with everything, which says nothing.
pub fn agreement(one: &PublishedResult) -> Option<(bool, bool)> {
    // a change is a ratio and a difference a sum
    let none = if one.kind == PublishedKind::Effect { 1.0 } else { 0.0 };
    let ends = one.measured.and_then(|ends| ends.low.zip(ends.high));
    let has = |value: f64| ends.is_some_and(|(low, high)| (low..=high).contains(&value));
    if one.published != none && (ends.is_none() || has(none)) {
        return None;
    }
    let mean = one.measured.map_or(f64::NAN, |interval| interval.mean);
    let same = (mean - none) * (one.published - none) > 0.0 || one.published == none;
    Some((same, has(one.published)))
}

/// Agreement with published figures.
fn published(results: &StudyResults) -> Option<Check> {
    let (judged, unjudged): (Vec<_>, Vec<_>) =
        changes(results).into_iter().partition(|one| doubts(results, one).is_empty());
    let reasons = DOUBTS.map(|doubt| {
        (unjudged.iter().filter(|one| doubts(results, one).contains(&doubt)).count(), doubt)
    });
    let reasons: Vec<(usize, &str)> = reasons.into_iter().filter(|(count, _)| *count > 0).collect();
    let reasons = match reasons[..] {
        [(_, only)] => only.to_owned(),
        _ => {
            let each = reasons.iter().map(|(count, reason)| format!("{count} {reason}"));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    if judged.is_empty() && !unjudged.is_empty() {
        let changes = words::count(unjudged.len(), "change");
        let text = format!("{changes} not judged: {reasons}");
        return Some(Check { name: PUBLISHED, text, is_bad: false });
    }
    if judged.is_empty() {
        let compared = results.published.iter().any(|one| one.measured.is_some());
        let text = "rates and costs of another machine; see --details published";
        return compared.then(|| Check { name: PUBLISHED, text: text.to_owned(), is_bad: false });
    }
    let shown: Vec<(bool, bool)> = judged.iter().filter_map(|one| agreement(one)).collect();
    let (all, open) = (judged.len(), judged.len() - shown.len());
    let same = shown.iter().filter(|(same, _)| *same).count();
    let inside = shown.iter().filter(|(_, inside)| *inside).count();
    let mut text = match judged[..] {
        [only] => alone(only, shown.first().copied()),
        _ => {
            format!("{same} of {all} changes have the published sign, {inside} the size")
        }
    };
    if open > 0 && all > 1 {
        text.push_str(&format!("; {open} inconclusive"));
    }
    if !unjudged.is_empty() {
        text.push_str(&format!("; {} not judged: {reasons}", unjudged.len()));
    }
    Some(Check { name: PUBLISHED, text, is_bad: same + open < all })
}

/// `Service demand −47 % in the paper, −67 % here: same sign, larger`. `same` is whether sign and size are those of the
/// paper, where the interval tells.
fn alone(only: &PublishedResult, same: Option<(bool, bool)>) -> String {
    let [published, measured, _] = words::beside(only);
    let measure = words::capitalised(only.measure.word());
    let none = if only.kind == PublishedKind::Effect { 1.0 } else { 0.0 };
    let far = |value: f64| match only.kind {
        PublishedKind::Effect => value.ln().abs(),
        _ => (value - none).abs(),
    };
    let larger = only.measured.is_some_and(|of| far(of.mean) > far(only.published));
    let verdict = match same {
        None => "inconclusive",
        Some((false, _)) => "the opposite sign",
        Some((true, true)) => "same sign, same size",
        Some((true, false)) if larger => "same sign, larger",
        Some((true, false)) => "same sign, smaller",
    };
    let place = if only.source.is_some() { "published" } else { "in the paper" };
    format!("{measure} {published} {place}, {measured} here: {verdict}")
}

/// Warnings and failed runs in a few words; `None` without any.
pub fn warnings(results: &StudyResults) -> Option<String> {
    let (found, failed) = (words::warnings(results).len(), results.failures.len());
    let mut parts = Vec::new();
    if found > 0 {
        parts.push(words::count(found, "warning"));
    }
    if failed > 0 {
        parts.push(words::count(failed, "failed run"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What a study that is not complete lacks.
fn incomplete(results: &StudyResults) -> Option<Check> {
    let text = results.stopped.clone();
    (!results.complete).then_some(Check { name: "Incomplete", text, is_bad: true })
}
