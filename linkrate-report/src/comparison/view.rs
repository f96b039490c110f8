//! A comparison as strings, for table and Markdown alike.

use linkrate_study::comparison::rows::MIN_SETS;
use linkrate_study::comparison::{
    CellComparison, EffectRow, EffectVerdict, Finding, MeasureRow, PairComparison, SetFigure,
    SetSummary, StudyComparison,
};
use linkrate_study::labels;
use linkrate_study::quantity::{Interval, Measure, Quantity, Unit};
use linkrate_study::store::directory::minute_stamp;
use serde::Serialize;

use crate::layout::Note;
use crate::table::Group;
use crate::words::marks::{HOST_LIMITED, OF_THE_HOST};
use crate::{number, words};

/// Facts that are shown even where both sets have the same.
const ALWAYS: [&str; 2] = ["kernel", "cpu-model"];

#[derive(Debug, Serialize)]
pub struct View {
    pub title: String,
    /// What came out.
    pub result: String,
    pub facts: Vec<FactLine>,
    pub cells: Vec<Group<PrintedRow>>,
    /// Pairs of a fleet that stand out.
    pub pairs: Vec<Group<PrintedRow>>,
    pub effects: Vec<Group<PrintedRow>>,
    pub notes: Vec<Note>,
}

/// One fact of both sets.
#[derive(Debug, Serialize)]
pub struct FactLine {
    pub name: String,
    pub baseline: String,
    pub candidate: String,
    pub differs: bool,
}

#[derive(Debug, Serialize)]
pub struct PrintedRow {
    pub name: String,
    pub baseline: String,
    pub candidate: String,
    pub change: String,
    pub interval: String,
    pub verdict: String,
    pub mark: Mark,
}

/// Whether a row stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Better,
    Worse,
    Changed,
    None,
}

impl View {
    pub fn new(comparison: &StudyComparison) -> Self {
        Self {
            title: format!("{}: candidate against baseline", comparison.title),
            result: words::capitalised(&result(comparison)) + ".",
            facts: facts(comparison),
            cells: cells(comparison),
            pairs: pairs(comparison),
            effects: effects(comparison),
            notes: notes(comparison),
        }
    }
}

fn facts(comparison: &StudyComparison) -> Vec<FactLine> {
    let (a, b) = (&comparison.baseline, &comparison.candidate);
    let differs = |name: &str| comparison.differences.iter().any(|one| one.name == name);
    let line = |name: &str, value: &dyn Fn(&SetSummary) -> String| FactLine {
        name: name.to_owned(),
        baseline: value(a),
        candidate: value(b),
        differs: differs(name),
    };
    let fact = |name: &str, set: &SetSummary| {
        set.facts.get(name).cloned().unwrap_or_else(|| number::ABSENT.to_owned())
    };
    let mut lines = vec![
        line("results", &named),
        line("blocks", &|set| set.blocks.to_string()),
        line("linkrate", &|set| set.linkrate_version.clone()),
    ];
    lines.extend(ALWAYS.iter().map(|name| line(name, &|set| fact(name, set))));
    let reported = |name: &str| name == "linkrate" || ALWAYS.contains(&name);
    let more = comparison.differences.iter().filter(|one| !reported(&one.name));
    lines.extend(more.map(|one| line(&one.name, &|set| fact(&one.name, set))));
    lines
}

/// A set as it was typed.
fn named(set: &SetSummary) -> String {
    let name = if set.directory.is_empty() { &set.results } else { &set.directory };
    format!("{name} ({} UTC)", minute_stamp(set.started_unix_ms))
}

/// Measure by measure: all cells together, then each by itself.
fn cells(comparison: &StudyComparison) -> Vec<Group<PrintedRow>> {
    let mut rows: Vec<Row<'_>> =
        comparison.overall.iter().map(|row| together(comparison, row)).collect();
    for cell in &comparison.cells {
        let (name, of_host) = (labels::cell(&cell.levels), is_of_host(cell));
        rows.extend(cell.rows.iter().map(|row| Row { name: name.clone(), of_host, row }));
    }
    grouped(rows, comparison)
}

/// A row with its name.
struct Row<'c> {
    name: String,
    of_host: bool,
    row: &'c MeasureRow,
}

/// The row of all cells together.
fn together<'c>(comparison: &'c StudyComparison, row: &'c MeasureRow) -> Row<'c> {
    let has_it = |cell: &&CellComparison| {
        cell.rows.iter().any(|of| (of.measure, of.unit) == (row.measure, row.unit))
    };
    let (hosts, adapters): (Vec<_>, Vec<_>) =
        comparison.cells.iter().filter(has_it).partition(|cell| cell.host_limited != Some(false));
    let name = match hosts.is_empty() || adapters.is_empty() {
        true => "all cells",
        false => "cells that the adapter limits",
    };
    let behind = if adapters.is_empty() { hosts } else { adapters };
    let of_host = behind.into_iter().any(is_of_host);
    Row { name: name.to_owned(), of_host, row }
}

/// Whether something other than the adapter limited a cell in either set, where there is an adapter.
fn is_of_host(cell: &CellComparison) -> bool {
    [cell.host_limited, cell.candidate_host_limited].contains(&Some(true))
}

/// The pairs of a fleet that are better or worse, or that one set has alone.
fn pairs(comparison: &StudyComparison) -> Vec<Group<PrintedRow>> {
    grouped(apart(comparison).map(|pair| named_pair(comparison, pair)).collect(), comparison)
}

/// The row of a pair.
fn named_pair<'c>(comparison: &'c StudyComparison, pair: &'c PairComparison) -> Row<'c> {
    let ends = format!("{} → {}", pair.sender, pair.receiver);
    let name = match comparison.cells.len() {
        1 => ends,
        _ => format!("{ends}, {}", labels::cell(&pair.levels)),
    };
    let cell = comparison.cells.iter().find(|cell| cell.levels == pair.levels);
    let of_host = cell.is_some_and(is_of_host);
    Row { name, of_host, row: &pair.row }
}

/// The pairs that stand out.
fn apart(comparison: &StudyComparison) -> impl Iterator<Item = &PairComparison> {
    use Finding::{Better, Gained, Lost, Worse};
    let pairs = comparison.pairs.iter();
    pairs.filter(|pair| matches!(pair.row.verdict, Better | Gained | Lost | Worse))
}

/// The rows of each measure together.
fn grouped(rows: Vec<Row<'_>>, comparison: &StudyComparison) -> Vec<Group<PrintedRow>> {
    let mut groups: Vec<((Measure, Unit), Group<PrintedRow>)> = Vec::new();
    for of in rows {
        let row = of.row;
        let line = line(of, comparison);
        match groups.iter_mut().find(|(of, _)| *of == (row.measure, row.unit)) {
            Some((_, group)) => group.lines.push(line),
            None => {
                let group = Group { title: words::compared(row.measure), lines: vec![line] };
                groups.push(((row.measure, row.unit), group));
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn line(Row { name, of_host, row }: Row<'_>, comparison: &StudyComparison) -> PrintedRow {
    let figure = |figure: &Option<SetFigure>| match figure {
        Some(figure) if row.unit == Unit::Nanoseconds => number::duration(figure.interval.mean),
        Some(figure) => number::brief_mean(&Quantity { interval: figure.interval, unit: row.unit }),
        None => number::ABSENT.to_owned(),
    };
    let (change, interval) = change(row.ratio.as_ref(), of_host);
    let (verdict, mark) = verdict(row, comparison);
    PrintedRow {
        name,
        baseline: figure(&row.baseline),
        candidate: figure(&row.candidate),
        change,
        interval,
        verdict,
        mark,
    }
}

/// The change, with a mark where it is of the host, and the ends of its interval.
fn change(ratio: Option<&Interval>, of_host: bool) -> (String, String) {
    let absent = || number::ABSENT.to_owned();
    ratio.map_or_else(
        || (absent(), absent()),
        |ratio| {
            let (change, mark) = (number::change(ratio), if of_host { HOST_LIMITED } else { "" });
            (change.mean + mark, change.ends.unwrap_or_else(absent))
        },
    )
}

/// Why latency is not judged.
const UNKNOWN_SCATTER: &str = "one set each";

/// Why a row is not judged of which the candidate has no figure, and no failure of its own.
const NOT_MEASURED: &str = "not measured";

/// Why a row is not judged that a side has too seldom.
fn too_few(comparison: &StudyComparison) -> String {
    match comparison.further.iter().all(Vec::is_empty) {
        true => words::too_few(),
        false => format!("fewer than {MIN_SETS} sets of a side"),
    }
}

/// Why a percentile is not judged that a set does not have.
const TOO_FEW_TRANSACTIONS: &str = "too few transactions";

/// A row's verdict in words. A row that would be significant by itself says why it is not.
fn verdict(row: &MeasureRow, comparison: &StudyComparison) -> (String, Mark) {
    let alpha = 1.0 - comparison.confidence;
    let by_chance = row.probabilities.p.is_some_and(|p| p <= alpha);
    let (text, mark) = match row.verdict {
        Finding::Better => ("better", Mark::Better),
        Finding::Worse => ("worse", Mark::Worse),
        Finding::BelowMinimum => return (below(comparison), Mark::None),
        Finding::Different => (words::DIFFERENT, Mark::None),
        Finding::NotShown if by_chance => ("not significant", Mark::None),
        Finding::NotShown => ("inconclusive", Mark::None),
        Finding::TooFew => return (too_few(comparison), Mark::None),
        Finding::NotMeasured => (NOT_MEASURED, Mark::None),
        Finding::UnknownScatter => (UNKNOWN_SCATTER, Mark::None),
        Finding::TooFewTransactions => (TOO_FEW_TRANSACTIONS, Mark::None),
        Finding::Lost => ("result lost", Mark::Worse),
        Finding::Gained => ("new result", Mark::None),
    };
    (text.to_owned(), mark)
}

fn below(comparison: &StudyComparison) -> String {
    format!("no relevant change (< {})", number::percent(comparison.minimum_effect))
}

fn effects(comparison: &StudyComparison) -> Vec<Group<PrintedRow>> {
    let mut groups: Vec<Group<PrintedRow>> = Vec::new();
    for row in &comparison.effects {
        let of_host = row.host_limited == Some(true);
        let name = words::change_at(&row.factor, &row.from, &row.to, &row.at);
        let (change, interval) = change(Some(&row.ratio), of_host);
        let (verdict, mark) = effect_verdict(row, comparison);
        let line = PrintedRow {
            name,
            baseline: alone(&row.baseline),
            candidate: alone(&row.candidate),
            change,
            interval,
            verdict,
            mark,
        };
        Group::add(&mut groups, row.measure.word().to_owned(), line);
    }
    groups
}

/// An effect without its interval: two that stand side by side have the same digits.
fn alone(effect: &Interval) -> String {
    number::change(&Interval { low: None, high: None, ..*effect }).mean
}

fn effect_verdict(row: &EffectRow, comparison: &StudyComparison) -> (String, Mark) {
    let (text, mark) = match row.verdict {
        EffectVerdict::Stronger => ("stronger", Mark::Changed),
        EffectVerdict::Weaker => ("weaker", Mark::Changed),
        EffectVerdict::Changed => ("changed", Mark::Changed),
        EffectVerdict::Reversed => ("reversed", Mark::Changed),
        EffectVerdict::BelowMinimum => return (below(comparison), Mark::None),
        EffectVerdict::Different => (words::DIFFERENT, Mark::None),
        EffectVerdict::NotShown => ("inconclusive", Mark::None),
        EffectVerdict::TooFew => return (too_few(comparison), Mark::None),
        EffectVerdict::UnknownScatter => (UNKNOWN_SCATTER, Mark::None),
    };
    (text.to_owned(), mark)
}

fn notes(comparison: &StudyComparison) -> Vec<Note> {
    let confidence = number::percent(comparison.confidence);
    let note = |word, text| Note { word, text };
    let mut notes = vec![note(
        "interval",
        format!(
            "{confidence} of the change, for each row alone; verdicts are adjusted for the number of rows"
        ),
    )];
    if !comparison.pairs.is_empty() {
        let pairs = words::count(comparison.pairs.len(), "pair");
        let text = match apart(comparison).count() {
            0 => format!("no difference is shown of {pairs}"),
            shown => format!("{shown} of {pairs} are shown; of the others no difference is known"),
        };
        notes.push(note("pairs", text));
    }
    if comparison.cells.iter().any(is_of_host) {
        let text = format!("{OF_THE_HOST} in one of the sets");
        notes.push(note(HOST_LIMITED.trim(), text));
    }
    if comparison.differences.is_empty() {
        let text = "no recorded condition differs between the two sets";
        notes.push(note("tested", text.to_owned()));
    }
    let text = match comparison.session_scatter {
        Some(scatter) => format!(
            "one set of each side: intervals include the usual difference between two sessions, {} \
             of service demand (standard deviation)",
            number::percent(scatter)
        ),
        None => "each set is one observation, so that intervals include the scatter of sessions"
            .to_owned(),
    };
    notes.push(note("sessions", text));
    let [baselines, candidates] = &comparison.further;
    // the head of the table has the first set of each side
    for (side, further) in [("baseline", baselines), ("candidate", candidates)] {
        notes.extend(further.iter().map(|set| note(side, named(set))));
    }
    notes.extend(comparison.warnings.iter().map(|text| note("warning", text.clone())));
    notes
}

/// Why rows are not judged, each reason once.
pub fn unjudged(comparison: &StudyComparison) -> Vec<(Finding, String)> {
    let reasons = [
        (Finding::TooFew, too_few(comparison)),
        (
            Finding::UnknownScatter,
            format!("{UNKNOWN_SCATTER}, and how far sessions scatter is not known"),
        ),
        (Finding::TooFewTransactions, TOO_FEW_TRANSACTIONS.to_owned()),
        (Finding::NotMeasured, "the candidate was not measured".to_owned()),
    ];
    let reasons = reasons.into_iter().filter(|(of, _)| rows_of(comparison, *of) > 0);
    reasons.collect()
}

fn rows_of(comparison: &StudyComparison, verdict: Finding) -> usize {
    comparison.rows().filter(|row| row.verdict == verdict).count()
}

/// What came out, in one sentence.
pub fn result(comparison: &StudyComparison) -> String {
    let reasons = unjudged(comparison);
    let judged = words::count(comparison.rows().count() - comparison.unjudged(), "row");
    if !comparison.is_judged() {
        let reasons: Vec<String> = reasons.into_iter().map(|(_, reason)| reason).collect();
        return format!("no row is judged: {}", reasons.join("; "));
    }
    let found = match (comparison.regressions, comparison.improvements) {
        (0, 0) => format!("no regression and no improvement shown in {judged}"),
        (0, better) => format!("no regression; {better} of {judged} better"),
        (worse, 0) => format!("regression: {worse} of {judged} worse"),
        (worse, better) => format!("regression: {worse} of {judged} worse, {better} better"),
    };
    // what this machine limits may be no figure of the adapter
    let of_host = |cell: &&CellComparison| is_of_host(cell);
    let rows = comparison.cells.iter().filter(of_host).flat_map(|cell| &cell.rows);
    let found = match rows.filter(|row| row.verdict.is_regression()).count() {
        0 => found,
        all if all == comparison.regressions as usize => format!("{found} ({OF_THE_HOST})"),
        some => format!("{found} ({some} of the worse ones {OF_THE_HOST})"),
    };
    let found = match rows_of(comparison, Finding::Different) {
        0 => found,
        some => format!("{found}; {some} {}", words::DIFFERENT),
    };
    let found = match rows_of(comparison, Finding::NotShown) {
        0 => found,
        open => format!("{found}; {open} inconclusive"),
    };
    reasons.into_iter().fold(found, |found, (verdict, reason)| {
        let rows = words::count(rows_of(comparison, verdict), "row");
        format!("{found}; {rows} not judged: {reason}")
    })
}
