//! The figures of published changes beside measured ones, and of where the CPU time went.

use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::results::{PublishedKind, PublishedResult, StudyResults};

use super::figure::{Figure, both};
use crate::charts::changes;
use crate::charts::rows::{ChartRow, Group};
use crate::charts::stacks::{self, Stack};
use crate::{ReportError, words};

/// Most rows of a figure: more do not fit a page. The table has the others.
const MAX_ROWS: usize = 12;

/// Whether a published figure is drawn: a change, which carries over from one machine to another as no absolute value does.
fn is_drawable(one: &PublishedResult) -> bool {
    one.kind == PublishedKind::Effect && one.measured.is_some()
}

/// The published figures that are drawn: those of cells, or means over cells where there are too many.
fn drawn(results: &StudyResults) -> Vec<&PublishedResult> {
    let changes = results.published.iter().filter(|one| is_drawable(one));
    let (singles, means): (Vec<_>, Vec<_>) = changes.partition(|one| one.combinations == 1);
    let enough = !singles.is_empty() && (singles.len() <= MAX_ROWS || means.is_empty());
    (if enough { singles } else { means }).into_iter().take(MAX_ROWS).collect()
}

/// Whether a published figure is the mean of others among `all`.
pub fn has_members(mean: &PublishedResult, all: &[&PublishedResult]) -> bool {
    let is_step = |one: &PublishedResult| {
        (one.measure, one.kind, &one.factor, &one.from, &one.to)
            == (mean.measure, mean.kind, &mean.factor, &mean.from, &mean.to)
    };
    let is_member = |one: &&PublishedResult| {
        let is_at = |(name, level): &(String, Level)| one.at.get(name) == Some(level);
        one.combinations == 1 && is_step(one) && mean.at.0.iter().all(is_at)
    };
    mean.combinations > 1 && all.iter().any(is_member)
}

/// The published figures that are in the table alone.
pub fn not_drawn(results: &StudyResults) -> Vec<&PublishedResult> {
    let drawn = drawn(results);
    let is_drawn = |one: &&PublishedResult| drawn.iter().any(|other| std::ptr::eq(*other, *one));
    results.published.iter().filter(|one| !is_drawn(one)).collect()
}

/// Published changes beside measured ones, the largest first; `None` without any.
pub fn published(results: &StudyResults) -> Result<Option<Figure>, ReportError> {
    let mut shown = drawn(results);
    if shown.is_empty() {
        return Ok(None);
    }
    let size = |one: &PublishedResult| one.measured.map_or(0.0, |of| of.mean.ln().abs());
    shown.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let mut groups: Vec<Group> = Vec::new();
    let mut sentences = Vec::new();
    for one in &shown {
        let [published, measured, ends] = words::beside(one);
        let marks = words::marks::of(results, one);
        let (step, at) = words::published_parts(one);
        let step = step.map_or_else(String::new, |step| format!(": {step}"));
        let group = words::capitalised(&format!("{}{step}", one.measure.word()));
        let name = format!("{at}{marks}");
        sentences
            .push(format!("{group}, {name}: published {published}, measured {measured} ({ends})"));
        let row = ChartRow {
            name,
            figure: format!("published {published}, here {measured}"),
            short_figure: measured,
            value: one.measured.map_or(f64::NAN, |measured| measured.mean),
            ends: one.measured.and_then(|measured| measured.low.zip(measured.high)),
            published: one.published,
        };
        match groups.iter_mut().find(|other| other.name == group) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name: group, rows: vec![row] }),
        }
    }
    let title = "Published and measured changes".to_owned();
    let picture = both(title.clone(), sentences.join("; "), |size| {
        changes::ratios(&title, &groups, size, results.minimum_effect)
    })?;
    let note = format!(
        "Diamond: published. Dot with interval: measured here.{}",
        words::marks::caption(results, shown)
    );
    Ok(Some(Figure { number: 0, title, note, panels: vec![picture] }))
}

/// Where the CPU time went; nothing where no run was profiled.
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
