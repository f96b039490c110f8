//! The figures of cells: service demand beside throughput, sweeps and latency.
//!
//! Which factor goes along the axis and which one makes the series is decided as a hand would: a
//! scale (ports, message sizes) goes along the axis, the factor that is asked about makes the
//! series, and each combination of the rest has a row of its own. A level has one colour in all figures.

use linkrate_model::latency::Percentile;
use linkrate_study::labels;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::quantity::{Quantity, Unit};
use linkrate_study::results::{CellResult, StudyResults};
use linkrate_study::study::PART;

use super::figure::{Figure, Picture};
use super::steps::{self, is_scale};
use crate::charts::panel::{Panel, Point, Positions, Series, Shape};
use crate::number::{self, Scale};
use crate::words::marks;
use crate::{ReportError, words};

/// Levels of a scale from which it is drawn as curves.
const CURVES: usize = 4;
/// Most curves of latency in one panel.
const MAX_CURVES: usize = 6;
/// Most rows of panels in a figure: with more it has no place on a page beside the answer.
const MAX_ROWS: usize = 3;
/// Height of a plot, where its figure has one row and where it has several.
const HEIGHTS: [i32; 2] = [190, 116];

/// A figure of a cell.
type Field = fn(&CellResult) -> Option<Quantity>;

/// Cells that are compared with each other: of one part, and all streams or all transactions.
struct Family<'a> {
    results: &'a StudyResults,
    part: Option<&'a Level>,
    cells: Vec<&'a CellResult>,
    transactional: bool,
    /// The factor along the axis.
    along: Option<String>,
    /// The factor of the series.
    series: Option<String>,
}

/// All figures of cells; the first one belongs to the answer.
pub fn figures(results: &StudyResults) -> Result<Vec<Figure>, ReportError> {
    let mut all = Vec::new();
    for family in families(results) {
        for facets in family.facets().chunks(MAX_ROWS) {
            all.extend(family.side_by_side(facets)?);
        }
        if family.transactional {
            all.extend(family.latency()?);
        }
    }
    Ok(all)
}

fn families(results: &StudyResults) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for cell in &results.cells {
        let part = cell.levels.get(PART);
        let transactional = cell.is_transactional();
        if cell.throughput.is_none() && cell.transactions.is_none() {
            continue;
        }
        let same =
            |family: &&mut Family<'_>| family.part == part && family.transactional == transactional;
        match families.iter_mut().find(same) {
            Some(family) => family.cells.push(cell),
            None => families.push(Family {
                results,
                part,
                cells: vec![cell],
                transactional,
                along: None,
                series: None,
            }),
        }
    }
    // a single bar compares nothing
    families.retain(|family| family.cells.len() > 1);
    for family in &mut families {
        family.choose();
    }
    families
}

impl<'a> Family<'a> {
    /// Factors of which the family has more than one level.
    fn varied(&self) -> Vec<String> {
        let Some(first) = self.cells.first() else { return Vec::new() };
        let names = first.levels.0.iter().map(|(name, _)| name.clone());
        names.filter(|name| name != PART && self.levels(name).len() > 1).collect()
    }

    fn levels(&self, factor: &str) -> Vec<&'a Level> {
        let mut levels: Vec<&Level> = Vec::new();
        for cell in &self.cells {
            levels.extend(cell.levels.get(factor).filter(|level| !levels.contains(level)));
        }
        levels
    }

    fn choose(&mut self) {
        let mut rest = self.varied();
        let scales = rest.iter().filter(|name| is_scale(&self.levels(name)));
        let longest = scales.max_by_key(|name| self.levels(name).len()).cloned();
        let asked = |name: &&String| self.results.effects.iter().any(|e| e.factor == **name);
        if let Some(scale) = longest {
            rest.retain(|name| *name != scale);
            self.series = rest.iter().find(asked).or(rest.first()).cloned();
            self.along = Some(scale);
            return;
        }
        self.series = rest.iter().find(asked).or(rest.first()).cloned();
        rest.retain(|name| Some(name) != self.series.as_ref());
        self.along = rest.iter().max_by_key(|name| self.levels(name).len()).cloned();
        if self.along.is_none() {
            // a single factor stands along the axis
            self.along = self.series.take();
        }
    }

    /// The combinations of the other factors, each with a row of its own.
    fn facets(&self) -> Vec<Levels> {
        let mut facets: Vec<Levels> = Vec::new();
        for cell in &self.cells {
            let facet = self.facet_of(cell);
            if !facets.contains(&facet) {
                facets.push(facet);
            }
        }
        facets
    }

    fn facet_of(&self, cell: &CellResult) -> Levels {
        let varied = self.varied();
        let other = |(name, _): &&(String, Level)| {
            varied.contains(name)
                && Some(name) != self.along.as_ref()
                && Some(name) != self.series.as_ref()
        };
        Levels(cell.levels.0.iter().filter(other).cloned().collect())
    }

    /// Bars for few levels, curves along a long scale.
    fn shape(&self) -> Shape {
        let along = self.along.as_ref().map(|name| self.levels(name)).unwrap_or_default();
        let sizes = along.iter().all(|level| labels::is_size(level));
        match is_scale(&along) && (sizes || along.len() >= CURVES) {
            true => Shape::Curves,
            false => Shape::Bars,
        }
    }

    /// `ports and offload`.
    fn factors(&self) -> String {
        let factors: Vec<String> =
            self.along.iter().chain(&self.series).map(|name| labels::factor(name)).collect();
        labels::listed(&factors)
    }

    /// Service demand and rate, a row for each facet.
    fn side_by_side(&self, facets: &[Levels]) -> Result<Option<Figure>, ReportError> {
        let rate: (&str, Field) = if self.transactional {
            ("transactions", |cell| cell.transactions)
        } else {
            ("throughput", |cell| cell.throughput)
        };
        let demand: (&str, Field) = ("service demand", |cell| cell.service_demand);
        let height = HEIGHTS[usize::from(facets.len() > 1)];
        let mut panels = Vec::new();
        let mut far: Vec<String> = Vec::new();
        for (row, facet) in facets.iter().enumerate() {
            let mut of_row = Vec::new();
            for (name, field) in [demand, rate] {
                let name = match facet.0.is_empty() {
                    true => name.to_owned(),
                    false => format!("{}: {name}", labels::cell(facet)),
                };
                let name = words::capitalised(&name);
                let Some(mut panel) = self.panel(facet, &name, field, self.shape()) else {
                    continue;
                };
                far.extend(far_limits(&mut panel));
                panel.height = height;
                if row + 1 < facets.len() {
                    panel.axis.clear();
                }
                of_row.push(panel);
            }
            // the first row explains the levels for all
            let lines = of_row.iter().map(Panel::own_legend_lines).max().unwrap_or(0);
            of_row.iter_mut().for_each(|panel| panel.legend_lines = (row == 0).then_some(lines));
            panels.extend(of_row);
        }
        let points = || panels.iter().flat_map(Panel::points);
        let limited = points().any(|point| point.limit.is_some());
        let marked = points().any(|point| !point.mark.is_empty());
        let pictures: Vec<Picture> =
            panels.iter().map(|panel| self.picture(panel)).collect::<Result<_, _>>()?;
        if pictures.is_empty() {
            return Ok(None);
        }
        let what = if self.transactional { "transactions per second" } else { "throughput" };
        let part = self.part.map_or_else(String::new, |part| format!("{part}: "));
        let title = format!("{part}service demand and {what} by {}", self.factors());
        let mut note = format!(
            "Service demand: less is better. {}: more is better.",
            words::capitalised(rate.0)
        );
        note.push_str(&self.whiskers());
        if limited {
            note.push_str(" Red dashes: theoretical maximum.");
        }
        if marked {
            let mark = marks::HOST_LIMITED.trim_start();
            note.push_str(&format!(" {mark}: {}.", marks::OF_THE_HOST));
        }
        note.push_str(&not_drawn(&far));
        Ok(Some(Figure { number: 0, title: words::capitalised(&title), note, panels: pictures }))
    }

    fn whiskers(&self) -> String {
        match words::has_intervals(self.results) {
            true => format!(" Whiskers: {} intervals.", number::percent(self.results.confidence)),
            false => String::new(),
        }
    }

    /// One figure of the cells of a facet; `None` where no cell has it.
    fn panel(&self, facet: &Levels, name: &str, field: Field, shape: Shape) -> Option<Panel> {
        let along = self.along.as_ref()?;
        let levels = self.levels(along);
        let in_facet: Vec<&CellResult> =
            self.cells.iter().copied().filter(|cell| self.facet_of(cell) == *facet).collect();
        let first = in_facet.iter().find_map(|cell| field(cell))?;
        let largest =
            in_facet.iter().filter_map(|c| field(c)).map(|q| q.interval.mean).fold(0.0, f64::max);
        let scale = Scale::of(first.unit, largest);
        // a single factor has a colour for each of its levels, as it would have as a series
        let compared = self.series.as_ref().unwrap_or(along);
        let kind_of = |level: Option<&Level>| {
            let place =
                |level| steps::all_levels(self.results, compared).iter().position(|l| *l == level);
            level.and_then(place).unwrap_or(0)
        };
        let point = |cell: &CellResult| {
            let Quantity { interval, unit } = field(cell)?;
            let ends = interval.low.zip(interval.high);
            Some(Point {
                value: interval.mean / scale.divisor,
                ends: ends.map(|(low, high)| (low / scale.divisor, high / scale.divisor)),
                limit: cell
                    .limit
                    .filter(|limit| limit.unit == unit && !self.transactional)
                    .map(|limit| limit.interval.mean / scale.divisor),
                kind: kind_of(cell.levels.get(compared)),
                mark: marks::of_cell(self.results, cell).trim_start(),
            })
        };
        let of = |kind: Option<&Level>| -> Vec<Option<Point>> {
            let at = |level: &&Level| {
                let is_it = |cell: &&&CellResult| {
                    cell.levels.get(along) == Some(level)
                        && self.series.as_ref().is_none_or(|series| cell.levels.get(series) == kind)
                };
                in_facet.iter().find(is_it).and_then(|cell| point(cell))
            };
            levels.iter().map(at).collect()
        };
        let series = match &self.series {
            Some(factor) => self
                .levels(factor)
                .into_iter()
                .map(|level| Series {
                    name: labels::level(factor, level),
                    kind: kind_of(Some(level)),
                    points: of(Some(level)),
                })
                .collect(),
            None => vec![Series { name: String::new(), kind: 0, points: of(None) }],
        };
        let unit = match first.unit {
            Unit::TransactionsPerSecond => "1/s",
            Unit::MicrosecondsPerTransaction => "µs per transaction",
            _ => scale.unit,
        };
        Some(Panel {
            title: format!("{name}, {unit}"),
            axis: labels::factor(along),
            height: HEIGHTS[0],
            labels: levels.iter().map(|level| labels::on_axis(along, level)).collect(),
            positions: positions(&levels, shape),
            series,
            shape,
            logarithmic: None,
            legend_lines: None,
        })
    }

    fn picture(&self, panel: &Panel) -> Result<Picture, ReportError> {
        let mut reported = Vec::new();
        for series in &panel.series {
            let points = panel.labels.iter().zip(&series.points).filter_map(|(label, point)| {
                let point = (*point)?;
                let figure = |value: f64| match panel.logarithmic {
                    Some(label) => label(value),
                    None => number::significant(value, 3),
                };
                let ends =
                    point.ends.map(|(low, high)| format!(" ({} to {})", figure(low), figure(high)));
                let limit = point.limit.map(|limit| format!(", maximum {}", figure(limit)));
                Some(format!(
                    "{label}: {}{}{}{}",
                    figure(point.value),
                    point.mark,
                    ends.unwrap_or_default(),
                    limit.unwrap_or_default()
                ))
            });
            let points: Vec<String> = points.collect();
            let name =
                if series.name.is_empty() { String::new() } else { format!("{}: ", series.name) };
            reported.push(format!("{name}{}", points.join("; ")));
        }
        Ok(Picture {
            title: panel.title.clone(),
            description: format!("{}.", reported.join(". ")),
            wide: panel.draw()?.into(),
            narrow: None,
        })
    }

    /// Percentiles of latency, a panel for each combination of the other factors.
    fn latency(&self) -> Result<Option<Figure>, ReportError> {
        let Some(along) = &self.along else { return Ok(None) };
        let mut keys: Vec<Levels> = Vec::new();
        let key_of = |cell: &CellResult| {
            let varied = self.varied();
            let other = |(name, _): &&(String, Level)| varied.contains(name) && name != along;
            Levels(cell.levels.0.iter().filter(other).cloned().collect())
        };
        for cell in &self.cells {
            let key = key_of(cell);
            if cell.latency.is_some() && !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut panels = Vec::new();
        for key in &keys {
            let cells =
                self.cells.iter().filter(|cell| key_of(cell) == *key && cell.latency.is_some());
            let all = steps::all_levels(self.results, along);
            let series = cells.take(MAX_CURVES).filter_map(|cell| {
                let level = cell.levels.get(along)?;
                let kind = all.iter().position(|other| *other == level).unwrap_or(0);
                let name = labels::level(along, level);
                Some(Series { name, kind, points: percentiles(cell, kind) })
            });
            let series: Vec<Series> = series.collect();
            let title = match key.0.is_empty() {
                true => "Latency".to_owned(),
                false => words::capitalised(&labels::cell(key)),
            };
            let panel = Panel {
                title,
                axis: "percentile of all transactions".to_owned(),
                height: HEIGHTS[0],
                labels: ["50", "90", "99", "99.9", "99.99"].map(str::to_owned).into(),
                positions: Positions::Even,
                series,
                shape: Shape::Curves,
                logarithmic: Some(number::duration_label),
                legend_lines: None,
            };
            panels.push(panel);
        }
        let lines = panels.iter().map(Panel::own_legend_lines).max().unwrap_or(0);
        panels.iter_mut().for_each(|panel| panel.legend_lines = Some(lines));
        let panels: Vec<Picture> =
            panels.iter().map(|panel| self.picture(panel)).collect::<Result<_, _>>()?;
        if panels.is_empty() {
            return Ok(None);
        }
        let part = self.part.map_or_else(String::new, |part| format!(" ({part})"));
        Ok(Some(Figure {
            number: 0,
            title: words::in_loop(
                &format!("Latency of transactions by percentile{part}"),
                self.cells.iter().map(|cell| cell.of_loop),
            ),
            note: format!("Less is better. The vertical axis is logarithmic.{}", self.whiskers()),
            panels,
        }))
    }
}

/// Takes limits that are too far up out of a panel: their range with its unit.
fn far_limits(panel: &mut Panel) -> Option<String> {
    let far = panel.drop_far_limits();
    let low = far.iter().copied().reduce(f64::min)?;
    let high = far.iter().copied().reduce(f64::max)?;
    let unit = panel.title.rsplit(", ").next().unwrap_or_default();
    let (low, high) = (number::significant(low, 3), number::significant(high, 3));
    Some(if low == high { format!("{low} {unit}") } else { format!("{low} to {high} {unit}") })
}

/// The sentence about limits that are not drawn.
fn not_drawn(far: &[String]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for limits in far {
        if !all.contains(&limits.as_str()) {
            all.push(limits);
        }
    }
    match all.is_empty() {
        true => String::new(),
        false => {
            format!(" Maxima far above the values are not drawn ({}).", all.join("; "))
        }
    }
}

/// Where the levels lie along the axis.
fn positions(levels: &[&Level], shape: Shape) -> Positions {
    let values: Option<Vec<f64>> = levels.iter().map(|level| labels::number(level)).collect();
    let (Some(values), Shape::Curves) = (values, shape) else { return Positions::Even };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    match low > 0.0 && high / low > 8.0 {
        true => Positions::Logarithmic(values),
        false => Positions::Linear(values),
    }
}

/// Percentiles of a cell in ns, each with its interval over the runs.
fn percentiles(cell: &CellResult, kind: usize) -> Vec<Option<Point>> {
    let point = |percentile: Percentile| {
        let latency = cell.latency?;
        let ends = latency.intervals.and_then(|intervals| intervals.of(percentile));
        let ends = ends.map(|[low, high]| (low as f64, high as f64));
        Some(Point { value: percentile.of(&latency)? as f64, ends, limit: None, kind, mark: "" })
    };
    Percentile::ALL.into_iter().map(point).collect()
}
