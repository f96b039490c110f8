//! The figures of effects, of published figures, and of where the CPU time went.

use linkrate_study::labels;
use linkrate_study::quantity::{Measure, Unit};
use linkrate_study::results::{Effect, PublishedKind, PublishedResult, StudyResults};

use super::figure::{Figure, both};
use crate::charts::changes;
use crate::charts::rows::{ChartRow, Group};
use crate::charts::stacks::{self, Stack};
use crate::number::{self, Scale};
use crate::{ReportError, words};

/// Most rows of a figure of effects: more do not fit a page. The table has all of them.
const MAX_ROWS: usize = 24;

/// The effects, a figure for each measure.
///
/// # Errors
/// [`ReportError::Chart`] if a chart cannot be drawn.
pub fn effects(results: &StudyResults) -> Result<Vec<Figure>, ReportError> {
    let measures = words::measures(&results.effects);
    // the table has the others too
    let drawn = measures.into_iter().filter(|one| one.is_whole() && *one != Measure::LatencyP50);
    drawn.map(|measure| of_effects(results, measure)).collect()
}

fn of_effects(results: &StudyResults, measure: Measure) -> Result<Figure, ReportError> {
    let all: Vec<&Effect> =
        results.effects.iter().filter(|effect| effect.measure == measure).collect();
    let only_claimed = all.len() > MAX_ROWS && all.iter().any(|effect| effect.significant);
    let shown: Vec<&Effect> =
        all.iter().copied().filter(|e| e.significant || !only_claimed).take(MAX_ROWS).collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut sentences = Vec::new();
    for effect in &shown {
        let change = number::change(&effect.ratio);
        let ends = change.ends.as_ref().map(|ends| format!(" ({ends})")).unwrap_or_default();
        let mark = words::marks::of_effect(results, effect);
        let claimed = if effect.significant { "" } else { ", not significant" };
        sentences.push(format!("{}: {}{ends}{claimed}", step_at(effect), change.mean));
        let without_others = effect.at.0.is_empty();
        let row = ChartRow {
            name: if without_others { step(effect) } else { labels::cell(&effect.at) },
            figure: format!("{}{mark}{ends}", change.mean),
            short_figure: format!("{}{mark}", change.mean),
            value: Some(effect.ratio.mean),
            ends: effect.ratio.low.zip(effect.ratio.high),
            published: None,
            filled: effect.significant,
        };
        push(&mut groups, if without_others { String::new() } else { step(effect) }, row);
    }
    let title = format!("Change in {}", measure.word());
    let left_out = match all.len() - shown.len() {
        0 => String::new(),
        rest => format!(" {rest} more are in the table of all effects."),
    };
    let note = format!(
        "{}. Filled: significant; hollow: not significant. Grey band: below the {} minimum.{left_out}",
        words::capitalised(words::better(measure)),
        number::percent(results.minimum_effect)
    );
    let picture = both(title.clone(), sentences.join("; "), |size| {
        changes::ratios(&title, &groups, size, results.minimum_effect)
    })?;
    Ok(Figure { number: 0, title, note, panels: vec![picture] })
}

/// `no offload → TSO`.
pub fn step(effect: &Effect) -> String {
    let to = labels::short_level(&effect.factor, &effect.to);
    format!("{} → {to}", labels::level(&effect.factor, &effect.from))
}

/// `no offload → TSO, transmit, 2 ports`.
pub fn step_at(effect: &Effect) -> String {
    match effect.at.0.is_empty() {
        true => step(effect),
        false => format!("{}, {}", step(effect), labels::cell(&effect.at)),
    }
}

fn push(groups: &mut Vec<Group>, name: String, row: ChartRow) {
    match groups.iter_mut().find(|group| group.name == name) {
        Some(group) => group.rows.push(row),
        None => groups.push(Group { name, rows: vec![row] }),
    }
}

/// What a published figure is about.
pub fn published_at(published: &PublishedResult) -> String {
    let mean = (published.combinations > 1).then(|| format!("mean of {}", published.combinations));
    let step = match (&published.factor, &published.from, &published.to) {
        (Some(factor), Some(from), Some(to)) => {
            Some(format!("{} → {}", labels::level(factor, from), labels::short_level(factor, to)))
        }
        _ => None,
    };
    let at = (!published.at.0.is_empty()).then(|| labels::cell(&published.at));
    let parts: Vec<String> = step.into_iter().chain(at).chain(mean).collect();
    if parts.is_empty() { "the only cell".to_owned() } else { parts.join(", ") }
}

/// Published figures beside measured ones, a drawing for each kind and measure.
///
/// # Errors
/// [`ReportError::Chart`] if a chart cannot be drawn.
pub fn published(results: &StudyResults) -> Result<Vec<Figure>, ReportError> {
    let mut kinds: Vec<(Measure, PublishedKind, Unit)> = Vec::new();
    for one in &results.published {
        let kind = (one.measure, one.kind, one.unit);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut figures = Vec::new();
    for (measure, kind, unit) in kinds {
        let of_kind =
            |one: &&PublishedResult| (one.measure, one.kind, one.unit) == (measure, kind, unit);
        let all: Vec<&PublishedResult> = results.published.iter().filter(of_kind).collect();
        figures.push(of_published(results, &all, measure, kind, unit)?);
    }
    Ok(figures)
}

fn of_published(
    results: &StudyResults,
    all: &[&PublishedResult],
    measure: Measure,
    kind: PublishedKind,
    unit: Unit,
) -> Result<Figure, ReportError> {
    let largest = all
        .iter()
        .flat_map(|one| [Some(one.published), one.measured.map(|measured| measured.mean)])
        .flatten()
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let scale = match kind {
        PublishedKind::Effect => Scale { divisor: 1.0, unit: "" },
        _ => Scale::of(unit, largest),
    };
    let mut groups: Vec<Group> = Vec::new();
    let mut sentences = Vec::new();
    for one in all {
        let [published, measured, ends] = words::beside(one);
        let marks = words::marks::of(results, one);
        let name = published_at(one) + &marks;
        sentences.push(format!("{name}: published {published}, measured {measured} ({ends})"));
        let row = ChartRow {
            figure: format!("paper {published}, here {measured}"),
            short_figure: measured,
            value: one.measured.map(|measured| measured.mean / scale.divisor),
            ends: one
                .measured
                .and_then(|measured| measured.low.zip(measured.high))
                .map(|(low, high)| (low / scale.divisor, high / scale.divisor)),
            published: Some(one.published / scale.divisor),
            filled: true,
            name: String::new(),
        };
        // the step is a heading, the place a name
        let (group, name) = match (&one.factor, &one.from, &one.to, one.at.0.is_empty()) {
            (Some(factor), Some(from), Some(to), false) => {
                let step = format!(
                    "{} → {}",
                    labels::level(factor, from),
                    labels::short_level(factor, to)
                );
                let mean = if one.combinations > 1 {
                    format!(", mean of {}", one.combinations)
                } else {
                    String::new()
                };
                (step, format!("{}{mean}{marks}", labels::cell(&one.at)))
            }
            _ => (String::new(), name),
        };
        push(&mut groups, group, ChartRow { name, ..row });
    }
    let what = measure.word();
    let title = match kind {
        PublishedKind::Effect => format!("Published and measured change in {what}"),
        PublishedKind::Difference => {
            format!("Published and measured difference in {what}, {}", scale.unit)
        }
        PublishedKind::Value => format!("Published and measured {what}, {}", scale.unit),
    };
    let picture = both(title.clone(), sentences.join("; "), |size| match kind {
        PublishedKind::Effect => changes::ratios(&title, &groups, size, results.minimum_effect),
        _ => changes::amounts(&title, &groups, size),
    })?;
    let note = format!(
        "Diamond: published; dot with interval: measured here.{}",
        words::marks::caption(results, all.iter().copied())
    );
    Ok(Figure { number: 0, title, note, panels: vec![picture] })
}

/// Where the CPU time went; nothing where no run was profiled.
///
/// # Errors
/// [`ReportError::Chart`] if the chart cannot be drawn.
pub fn attribution(results: &StudyResults) -> Result<Option<Figure>, ReportError> {
    let mut titles: Vec<String> = Vec::new();
    for attribution in results.cells.iter().filter_map(|cell| cell.attribution.as_ref()) {
        for share in &attribution.shares {
            if !titles.contains(&share.title) {
                titles.push(share.title.clone());
            }
        }
    }
    if titles.is_empty() {
        return Ok(None);
    }
    let mut stacks = Vec::new();
    let mut sentences = Vec::new();
    for cell in &results.cells {
        let Some(attribution) = &cell.attribution else { continue };
        let share = |title: &String| {
            let shares = attribution.shares.iter().filter(|share| share.title == *title);
            shares.map(|share| share.percent).sum::<f64>()
        };
        let shares: Vec<f64> = titles.iter().map(share).collect();
        let reported: Vec<String> = titles
            .iter()
            .zip(&shares)
            .map(|(title, share)| format!("{title} {share:.1} %"))
            .collect();
        let name = labels::cell(&cell.levels);
        sentences.push(format!("{name}: {}", reported.join(", ")));
        stacks.push(Stack { name, shares });
    }
    let title = "Where the CPU time of the system under test went".to_owned();
    let picture = both(title.clone(), sentences.join("; "), |size| {
        stacks::shares(&title, &titles, &stacks, size)
    })?;
    let note =
        "Per cent of the CPUs of the system under test, idle time included; the numbers are \
                those of the legend, from left to right."
            .to_owned();
    Ok(Some(Figure { number: 0, title, note, panels: vec![picture] }))
}
