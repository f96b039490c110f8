//! A trend as strings and drawings, for table, Markdown and page alike.

use linkrate_study::labels;
use linkrate_study::quantity::{Interval, Quantity, Unit};
use linkrate_study::store::directory::minute_stamp;
use linkrate_study::trend::{LevelChange, Series, StudyTrend, Subject, TrendSet, Turn};
use serde::Serialize;

use crate::charts::levels::{self, Point, Stretch};
use crate::layout::Note;
use crate::number::{self, Scale};
use crate::paper::figure::{Picture, both};
use crate::table::Group;
use crate::words::marks::{HOST_LIMITED, OF_THE_HOST};
use crate::{ReportError, words};

/// Bars of a history, from the lowest to the highest figure.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A set without a figure.
const GAP: char = '·';
/// Most sets in a history: the newest ones.
const COURSE: usize = 40;

#[derive(Debug, Serialize)]
pub struct View {
    pub title: String,
    pub cells: Vec<Group<Line>>,
    pub effects: Vec<Group<Line>>,
    pub conditions: Vec<Condition>,
    pub notes: Vec<Note>,
}

#[derive(Debug, Serialize)]
pub struct Line {
    pub name: String,
    /// The figures as bars, the oldest first.
    pub history: String,
    /// The figure of the newest set.
    pub newest: String,
    pub changes: Vec<ReportedChange>,
}

#[derive(Debug, Serialize)]
pub struct ReportedChange {
    /// `▼ −10 % (−11 to −9 %) since tso-20261121-1512`.
    pub text: String,
    /// Whether it stands out.
    pub bold: bool,
}

#[derive(Debug, Serialize)]
pub struct Condition {
    pub set: String,
    pub name: String,
    pub before: String,
    pub after: String,
}

impl View {
    pub fn new(trend: &StudyTrend) -> Self {
        Self {
            title: format!("{}: {} result sets over time", trend.title, trend.sets.len()),
            cells: groups(trend, &trend.cells),
            effects: groups(trend, &trend.effects),
            conditions: conditions(trend),
            notes: notes(trend),
        }
    }
}

/// The page: the words, and a drawing of each series.
#[derive(Debug, Serialize)]
pub struct Charts {
    css: &'static str,
    study: String,
    view: View,
    cells: Vec<Group<Picture>>,
    effects: Vec<Group<Picture>>,
}

impl Charts {
    pub fn new(trend: &StudyTrend) -> Result<Self, ReportError> {
        Ok(Self {
            css: include_str!("../../templates/report.css"),
            study: trend.study.clone(),
            view: View::new(trend),
            cells: by_measure(&trend.cells, |series| picture(trend, series))?,
            effects: by_measure(&trend.effects, |series| picture(trend, series))?,
        })
    }
}

/// Whether something other than the adapter limited a series in a set.
fn is_of_host(series: &Series) -> bool {
    series.host_limited.contains(&Some(true))
}

/// The mark of a series.
fn mark(series: &Series) -> &'static str {
    if is_of_host(series) { HOST_LIMITED } else { "" }
}

fn name(series: &Series) -> String {
    match &series.subject {
        Subject::Cell { levels } => labels::cell(levels),
        Subject::Effect { factor, from, to, at } => words::change_at(factor, from, to, at),
    }
}

fn title(series: &Series) -> String {
    match series.subject {
        Subject::Cell { .. } => words::compared(series.measure),
        // an effect is neither better nor worse
        Subject::Effect { .. } => {
            format!("effect on {}", series.measure.word())
        }
    }
}

/// Series by measure, in the order in which measures come.
fn by_measure<'a, T>(
    all: &'a [Series],
    mut of: impl FnMut(&'a Series) -> Result<T, ReportError>,
) -> Result<Vec<Group<T>>, ReportError> {
    let mut groups = Vec::new();
    for series in all {
        Group::add(&mut groups, title(series), of(series)?);
    }
    Ok(groups)
}

fn groups(trend: &StudyTrend, all: &[Series]) -> Vec<Group<Line>> {
    let line = |series: &Series| {
        Ok(Line {
            name: name(series),
            history: history(series),
            newest: series.points.iter().rev().flatten().next().map_or_else(
                || number::ABSENT.to_owned(),
                |point| {
                    let alone = Interval { low: None, high: None, ..point.interval };
                    printed(series.unit, &alone) + mark(series)
                },
            ),
            changes: series.changes.iter().map(|change| reported(trend, change)).collect(),
        })
    };
    by_measure(all, line).unwrap_or_default()
}

/// A figure with its unit; an effect as the change that it is.
fn printed(unit: Unit, interval: &Interval) -> String {
    match unit {
        Unit::Ratio => number::change(interval).mean,
        Unit::Nanoseconds => number::duration(interval.mean),
        unit => number::brief_mean(&Quantity { interval: *interval, unit }),
    }
}

/// The newest figures as bars between the lowest and the highest of them.
fn history(series: &Series) -> String {
    let newest = series.points.len().saturating_sub(COURSE);
    let shown = &series.points[newest..];
    let means = || shown.iter().flatten().map(|point| point.interval.mean);
    let (low, high) =
        (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
    // figures that hardly differ look alike
    let reach = (high - low).max(high.abs() * 0.05);
    let bar = |mean: f64| {
        let share = ((mean - (high + low) / 2.0) / reach + 0.5).clamp(0.0, 1.0);
        BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    shown.iter().map(|point| point.map_or(GAP, |point| bar(point.interval.mean))).collect()
}

fn reported(trend: &StudyTrend, change: &LevelChange) -> ReportedChange {
    let mark = match change.finding {
        Turn::Worse => "▼",
        Turn::Better => "▲",
        Turn::Changed => "◆",
    };
    let found = number::change(&change.ratio);
    let ends = found.ends.map_or(String::new(), |ends| format!(" ({ends})"));
    let since = trend.sets.get(change.set).map_or("", |set| &set.summary.results);
    ReportedChange {
        text: format!("{mark} {}{ends} since {since}", found.mean),
        bold: change.finding == Turn::Worse,
    }
}

fn conditions(trend: &StudyTrend) -> Vec<Condition> {
    let of_set = |set: &TrendSet| {
        let results = set.summary.results.clone();
        let changed = set.changed.iter().map(move |one| Condition {
            set: results.clone(),
            name: one.name.clone(),
            before: one.baseline.clone(),
            after: one.candidate.clone(),
        });
        changed.collect::<Vec<_>>()
    };
    trend.sets.iter().flat_map(of_set).collect()
}

fn notes(trend: &StudyTrend) -> Vec<Note> {
    let note = |word, text| Note { word, text };
    let confidence = number::percent(trend.confidence);
    let chance = number::percent(1.0 - trend.confidence);
    let mut notes = vec![
        note(
            "change",
            format!(
                "larger than {}, with its {confidence} interval from the scatter of the sets; \
                 without a real change, the probability that any cell shows one is at most \
                 {chance}, and the same for effects",
                number::percent(trend.minimum_effect)
            ),
        ),
        note(
            "history",
            format!("the newest {COURSE} sets at most, from the lowest to the highest figure"),
        ),
    ];
    if let [first, .., last] = &trend.sets[..] {
        let stamp = |set: &TrendSet| minute_stamp(set.summary.started_unix_ms);
        notes.push(note("sets", format!("{} to {} UTC", stamp(first), stamp(last))));
    }
    if trend.series().any(is_of_host) {
        notes.push(note(HOST_LIMITED.trim(), format!("{OF_THE_HOST} in one set at least")));
    }
    notes.extend(trend.warnings.iter().map(|text| note("warning", text.clone())));
    notes.push(note("result", result(trend)));
    notes
}

/// What came out, in one sentence.
fn result(trend: &StudyTrend) -> String {
    let rows = words::count(trend.cells.len(), "row");
    let fewest = trend.fewest_sets as usize;
    if trend.sets.len() < fewest {
        return format!("no row is judged: fewer than {fewest} sets");
    }
    match (trend.worse, trend.better) {
        (0, 0) => format!("no change for the worse or the better shown in {rows}"),
        (0, better) => format!("no change for the worse; {better} of {rows} better"),
        (worse, 0) => format!("regression: {worse} of {rows} worse than before the newest change"),
        (worse, better) => {
            format!(
                "regression: {worse} of {rows} worse than before the newest change, {better} better"
            )
        }
    }
}

/// The drawing of a series. Effects are drawn as changes in per cent, with which a reader thinks of them.
fn picture(trend: &StudyTrend, series: &Series) -> Result<Picture, ReportError> {
    let largest =
        series.points.iter().flatten().map(|point| point.interval.mean).fold(0.0, f64::max);
    let (divisor, unit) = match series.unit {
        Unit::Ratio => (1.0, "ratio".to_owned()),
        unit => {
            let scale = Scale::of(unit, largest);
            (scale.divisor, scale.unit.to_owned())
        }
    };
    let scaled = |interval: &Interval| Point {
        value: interval.mean / divisor,
        ends: interval.low.zip(interval.high).map(|(low, high)| (low / divisor, high / divisor)),
    };
    let points: Vec<Option<Point>> =
        series.points.iter().map(|point| point.map(|point| scaled(&point.interval))).collect();
    let starts: Vec<usize> =
        std::iter::once(0).chain(series.changes.iter().map(|change| change.set)).collect();
    let stretches = starts.iter().enumerate().filter_map(|(index, from)| {
        let to = starts.get(index + 1).copied().unwrap_or(points.len());
        let known: Vec<f64> = points[*from..to].iter().flatten().map(|point| point.value).collect();
        let change = index.checked_sub(1).and_then(|before| series.changes.get(before));
        (!known.is_empty()).then(|| Stretch {
            from: *from,
            to,
            level: known.iter().sum::<f64>() / known.len() as f64,
            change: change.map_or(String::new(), |change| number::change(&change.ratio).mean),
        })
    });
    let conditions = trend.sets.iter().enumerate().filter(|(_, set)| !set.changed.is_empty());
    let chart = levels::Series {
        unit,
        stretches: stretches.collect(),
        conditions: conditions.map(|(at, _)| at).collect(),
        labels: trend.sets.iter().map(label).collect(),
        points,
    };
    let changes: Vec<String> =
        series.changes.iter().map(|change| reported(trend, change).text).collect();
    let changes =
        if changes.is_empty() { "no change shown".to_owned() } else { changes.join("; ") };
    let figures: Vec<String> = trend
        .sets
        .iter()
        .zip(&series.points)
        .map(|(set, point)| {
            let figure = point
                .map_or(number::ABSENT.to_owned(), |point| printed(series.unit, &point.interval));
            format!("{} {figure}", set.summary.results)
        })
        .collect();
    let name = format!("{}{}", name(series), mark(series));
    both(name.clone(), format!("{changes}. {}", figures.join("; ")), |size| {
        levels::draw(&name, &chart, size)
    })
}

/// The day of a set: `11-21`.
fn label(set: &TrendSet) -> String {
    let stamp = minute_stamp(set.summary.started_unix_ms);
    match (stamp.get(4..6), stamp.get(6..8)) {
        (Some(month), Some(day)) => format!("{month}-{day}"),
        _ => stamp,
    }
}
