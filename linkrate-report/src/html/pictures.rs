//! Which charts a report has, and what is in each.

use linkrate_study::results::{CellResult, Levels, Measure, Quantity, StudyResults};
use linkrate_study::study::PART;
use serde::Serialize;

use super::charts::{self, Drawing, Group, Row, Size};
use crate::number::{self, Scale};
use crate::{ReportError, words};

/// A chart in both sizes, with its text alternative.
#[derive(Debug, Serialize)]
pub struct Picture {
    id: String,
    title: String,
    note: String,
    description: String,
    wide: Svg,
    narrow: Svg,
}

#[derive(Debug, Serialize)]
struct Svg {
    svg: String,
    width: u32,
    height: u32,
}

impl From<Drawing> for Svg {
    fn from(Drawing { svg, width, height }: Drawing) -> Self {
        Self { svg, width, height }
    }
}

/// A figure of a cell that gets a chart.
type Field = fn(&CellResult) -> Option<Quantity>;

/// Bars for each figure that more than one cell has, then effects for each measure.
///
/// # Errors
/// [`ReportError::Chart`] if a chart cannot be drawn.
pub fn all(results: &StudyResults) -> Result<Vec<Picture>, ReportError> {
    let mut all = Vec::new();
    let fields: [(&str, &str, Field, &[&str]); 3] = [
        (
            "Service demand",
            "less is better",
            |cell| cell.service_demand,
            &["us/KB", "us/transaction"],
        ),
        (
            "Throughput",
            "more is better",
            |cell| cell.throughput.filter(|_| cell.transactions.is_none()),
            &["bit/s"],
        ),
        ("Transactions", "more is better", |cell| cell.transactions, &["transaction/s"]),
    ];
    for (title, better, field, units) in fields {
        for &unit in units {
            let of_unit = |cell: &CellResult| field(cell).filter(|figure| figure.unit == unit);
            // a single bar compares nothing
            if results.cells.iter().filter(|cell| of_unit(cell).is_some()).count() > 1 {
                all.push(bar_chart(results, title, better, &of_unit, all.len())?);
            }
        }
    }
    for measure in words::measures(&results.effects) {
        all.push(effect_chart(results, measure, all.len())?);
    }
    Ok(all)
}

fn bar_chart(
    results: &StudyResults,
    title: &str,
    better: &str,
    field: &dyn Fn(&CellResult) -> Option<Quantity>,
    index: usize,
) -> Result<Picture, ReportError> {
    let figures = || results.cells.iter().filter_map(field);
    let largest = figures().map(|figure| figure.interval.mean).fold(0.0, f64::max);
    let scale = figures()
        .next()
        .map_or(Scale { divisor: 1.0, unit: "" }, |figure| Scale::of(figure.unit, largest));
    let mut groups: Vec<(Levels, Group)> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    let mut sentences = Vec::new();
    for cell in &results.cells {
        // the part is what all rows below a heading have in common, unless a cell has nothing else
        let own = cell.levels.0.iter().find(|(factor, _)| factor != PART);
        let Some((factor, level)) = own.or(cell.levels.0.first()) else { continue };
        let Some(figure) = field(cell) else { continue };
        let row_name = words::level(factor, level);
        let kind = kinds.iter().position(|kind| *kind == row_name).unwrap_or_else(|| {
            kinds.push(row_name.clone());
            kinds.len() - 1
        });
        sentences.push(format!("{}: {}", cell.levels, number::with_margin(&figure)));
        let row = Row {
            name: row_name,
            figure: number::with_margin(&figure),
            short_figure: number::brief_mean(&figure).replace(" each", ""),
            value: Some(figure.interval.mean / scale.divisor),
            ends: figure
                .interval
                .low
                .zip(figure.interval.high)
                .map(|(low, high)| (low / scale.divisor, high / scale.divisor)),
            kind,
        };
        let others = cell.levels.without(factor);
        match groups.iter_mut().find(|(levels, _)| *levels == others) {
            Some((_, group)) => group.rows.push(row),
            None => {
                let group = Group { name: others.to_string(), rows: vec![row] };
                groups.push((others, group));
            }
        }
    }
    let groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    Ok(Picture {
        id: format!("chart-{index}"),
        title: match scale.unit {
            "transactions/s" => "Transactions per second".to_owned(),
            unit => format!("{title}, {unit}"),
        },
        note: better.to_owned(),
        description: sentences.join("; "),
        wide: charts::bars(title, &groups, Size::Wide)?.into(),
        narrow: charts::bars(title, &groups, Size::Narrow)?.into(),
    })
}

fn effect_chart(
    results: &StudyResults,
    measure: Measure,
    index: usize,
) -> Result<Picture, ReportError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut sentences = Vec::new();
    for effect in results.effects.iter().filter(|effect| effect.measure == measure) {
        let change = number::change(&effect.ratio);
        let ends = change.ends.as_ref().map(|ends| format!(" ({ends})")).unwrap_or_default();
        let claimed = if effect.claimed { "" } else { ", not claimed" };
        sentences.push(format!("{}: {}{ends}{claimed}", words::step_at(effect), change.mean));
        let without_others = effect.at.0.is_empty();
        let row = Row {
            name: if without_others { words::step(effect) } else { effect.at.to_string() },
            figure: format!("{}{ends}", change.mean),
            short_figure: change.mean,
            value: Some(effect.ratio.mean),
            ends: effect.ratio.low.zip(effect.ratio.high),
            kind: usize::from(effect.claimed),
        };
        let heading = if without_others { String::new() } else { words::step(effect) };
        match groups.iter_mut().find(|group| group.name == heading) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name: heading, rows: vec![row] }),
        }
    }
    let title = format!("Change in {}", words::measure(measure));
    Ok(Picture {
        id: format!("chart-{index}"),
        note: format!(
            "{}; filled: claimed, hollow: not claimed; grey band: below the {} minimum",
            words::better(measure),
            number::percent(results.minimum_effect)
        ),
        description: sentences.join("; "),
        wide: charts::effects(&title, &groups, Size::Wide, results.minimum_effect)?.into(),
        narrow: charts::effects(&title, &groups, Size::Narrow, results.minimum_effect)?.into(),
        title,
    })
}
