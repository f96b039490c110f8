//! A frame with axes and a legend, in which bars or curves stand over positions.

mod series;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::Axis;
use super::style::{self, Area, Drawn};
use super::{Drawing, on_area};
use crate::ReportError;

/// Width of a panel in pixels: two stand side by side on a wide page, one fills a phone.
pub const WIDTH: i32 = 400;
/// Height of the title.
const TITLE: i32 = 28;
/// Height of a line of the legend.
const LEGEND: i32 = 22;
/// Height of the labels below the plot.
const LABELS: i32 = 26;
/// Height of the name of the axis below them.
const NAME: i32 = 20;
/// Width of a swatch in the legend.
const SWATCH: i32 = 22;
/// Between entries of the legend.
const GAP: i32 = 12;
/// A limit so many times above every figure is given in words: drawn in, it would press the
/// figure flat.
const FAR: f64 = 4.0;

/// How values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A bar for each value from zero, in groups by position.
    Bars,
    /// A point for each value, joined along the positions.
    Curves,
}

/// Where the positions lie from left to right.
#[derive(Debug, Clone, PartialEq)]
pub enum Positions {
    /// One beside the other.
    Even,
    /// By their value.
    Linear(Vec<f64>),
    /// By the logarithm of their value.
    Logarithmic(Vec<f64>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The value, in the unit of the title.
    pub value: f64,
    /// Ends of its interval.
    pub ends: Option<(f64, f64)>,
    /// What theory allows.
    pub limit: Option<f64>,
    /// Which surface or line it has: one for each level, in all figures.
    pub kind: usize,
    /// The mark behind the figure; empty for none.
    pub mark: &'static str,
}

/// Values that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Which surface or line it has in the legend.
    pub kind: usize,
    /// A value for each position, where there is one.
    pub points: Vec<Option<Point>>,
}

#[derive(Debug, Clone)]
pub struct Panel {
    /// What is shown and its unit.
    pub title: String,
    /// The name of the horizontal axis; empty for none.
    pub axis: String,
    /// Height of the plot itself.
    pub height: i32,
    /// The label of each position.
    pub labels: Vec<String>,
    /// Where they lie.
    pub positions: Positions,
    pub series: Vec<Series>,
    pub shape: Shape,
    /// Labels of a logarithmic vertical axis; without them it is linear from zero.
    pub logarithmic: Option<fn(f64) -> String>,
    /// Lines to keep free for the legend, so that neighbours have their axes at one height; `None` for no legend.
    pub legend_lines: Option<i32>,
}

/// From values to pixels.
pub struct Canvas<'a, 'b> {
    pub area: &'a Area<'b>,
    /// Middle of each position.
    pub middles: Vec<i32>,
    /// Width of a position where they lie evenly.
    pub slot: i32,
    /// Upper edge of the plot.
    pub top: i32,
    /// Lower edge of the plot.
    pub bottom: i32,
    axis: Axis,
    logarithmic: bool,
}

impl Canvas<'_, '_> {
    /// The height of a value, kept within the plot.
    pub fn y(&self, value: f64) -> i32 {
        let value = match self.logarithmic {
            true => value.max(f64::MIN_POSITIVE).ln(),
            false => value,
        };
        let share = (value - self.axis.low) / (self.axis.high - self.axis.low);
        self.bottom - (share.clamp(0.0, 1.0) * f64::from(self.bottom - self.top)).round() as i32
    }
}

impl Panel {
    /// Every limit that is too far above the figures to be drawn in is taken out and returned.
    pub fn drop_far_limits(&mut self) -> Vec<f64> {
        let largest = self.values().fold(0.0, f64::max);
        let mut far = Vec::new();
        for point in self.series.iter_mut().flat_map(|series| series.points.iter_mut().flatten()) {
            if let Some(limit) = point.limit.filter(|limit| *limit > FAR * largest) {
                point.limit = None;
                far.push(limit);
            }
        }
        far
    }

    /// Every point of every series.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| series.points.iter().flatten())
    }

    /// Values and upper ends of intervals.
    fn values(&self) -> impl Iterator<Item = f64> {
        self.points()
            .flat_map(|point| [Some(point.value), point.ends.map(|ends| ends.1)])
            .flatten()
            .filter(|value| value.is_finite())
    }

    /// Lines that the legend takes.
    pub fn own_legend_lines(&self) -> i32 {
        lines(&self.legend())
    }

    pub fn draw(&self) -> Result<Drawing, ReportError> {
        let items = if self.legend_lines.is_some() { self.legend() } else { Vec::new() };
        let top = TITLE + self.legend_lines.unwrap_or(0).max(lines(&items)) * LEGEND + 6;
        let height = top + self.height + LABELS + if self.axis.is_empty() { 0 } else { NAME };
        on_area(&self.title, (WIDTH, height), |area| self.paint(area, top, &items))
    }

    fn axis(&self) -> Axis {
        match self.logarithmic {
            Some(label) => {
                let ends = self
                    .points()
                    .flat_map(|p| [Some(p.value), p.ends.map(|e| e.0), p.ends.map(|e| e.1)]);
                let values: Vec<f64> = ends.flatten().collect();
                Axis::logarithmic(&values, 9, label)
            }
            None => {
                let limits = self.points().filter_map(|point| point.limit);
                let largest = self.values().chain(limits).fold(0.0, f64::max);
                let mut axis = Axis::from_zero(largest, 5);
                // room for a figure over the highest bar, and for its mark over that
                let lines = if self.points().any(|point| !point.mark.is_empty()) { 2 } else { 1 };
                let room = f64::from(lines * series::LINE) / f64::from(self.height.max(1));
                axis.high = axis.high.max(largest / (1.0 - room));
                axis
            }
        }
    }

    /// The entries of the legend: what, and where, as line and pixels from the left.
    fn legend(&self) -> Vec<(Entry<'_>, i32, i32)> {
        let mut entries: Vec<Entry<'_>> = Vec::new();
        if self.series.len() > 1 {
            entries.extend(self.series.iter().map(|s| Entry::Series(s.kind, &s.name)));
        }
        if self.points().any(|point| point.limit.is_some()) {
            entries.push(Entry::Limit);
        }
        let (mut line, mut x) = (0, 0);
        let mut placed = Vec::new();
        for entry in entries {
            let width = SWATCH + 6 + style::text_width(entry.name(), style::SMALL) + GAP;
            if x > 0 && x + width - GAP > WIDTH {
                line += 1;
                x = 0;
            }
            placed.push((entry, line, x));
            x += width;
        }
        placed
    }

    fn paint(&self, area: &Area<'_>, top: i32, legend: &[(Entry<'_>, i32, i32)]) -> Drawn {
        area.draw(&Text::new(
            self.title.as_str(),
            (0, 11),
            style::bold(style::INK, style::TEXT, HPos::Left),
        ))?;
        for (entry, line, x) in legend {
            let y = TITLE + line * LEGEND + LEGEND / 2 - 2;
            self.swatch(area, *entry, (*x, y))?;
            let style = style::text(style::INK, style::SMALL, HPos::Left);
            area.draw(&Text::new(entry.name(), (x + SWATCH + 6, y), style))?;
        }
        let axis = self.axis();
        let widest =
            axis.ticks.iter().map(|(_, label)| style::text_width(label, style::SMALL)).max();
        let left = widest.unwrap_or(0) + 8;
        let (right, bottom) = (WIDTH - 6, top + self.height);
        let (middles, slot) = self.middles(left, right);
        let canvas = Canvas {
            area,
            middles,
            slot,
            top,
            bottom,
            axis,
            logarithmic: self.logarithmic.is_some(),
        };
        for (value, label) in &canvas.axis.ticks {
            let value = if canvas.logarithmic { value.exp() } else { *value };
            let y = canvas.y(value);
            area.draw(&PathElement::new([(left, y), (right, y)], style::GRID.stroke_width(1)))?;
            let style = style::text(style::MUTED, style::SMALL, HPos::Right);
            area.draw(&Text::new(label.as_str(), (left - 6, y), style))?;
        }
        match self.shape {
            Shape::Bars => series::bars(&canvas, &self.series)?,
            Shape::Curves => series::curves(&canvas, &self.series)?,
        }
        area.draw(&PathElement::new(
            [(left, bottom), (right, bottom)],
            style::MUTED.stroke_width(1),
        ))?;
        self.label(&canvas, left, right)
    }

    fn swatch(&self, area: &Area<'_>, entry: Entry<'_>, (x, y): (i32, i32)) -> Drawn {
        match (entry, self.shape) {
            (Entry::Limit, _) => {
                style::dashed(area, &[(x, y), (x + SWATCH, y)], LIMIT_DASHES, style::LIMIT, 2)
            }
            (Entry::Series(kind, _), Shape::Bars) => {
                style::surface(area, [(x, y - 7), (x + SWATCH, y + 7)], kind)
            }
            (Entry::Series(kind, _), Shape::Curves) => {
                style::dashed(
                    area,
                    &[(x, y), (x + SWATCH, y)],
                    style::dashes(kind),
                    style::line(kind),
                    2,
                )?;
                style::marker(area, (x + SWATCH / 2, y), kind)
            }
        }
    }

    /// The middle of each position, and the width of one where they lie evenly.
    fn middles(&self, left: i32, right: i32) -> (Vec<i32>, i32) {
        let count = self.labels.len().max(1) as i32;
        let slot = (right - left) / count;
        let spread = |values: Vec<f64>| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let room = f64::from(right - left - 60);
            let x = |value: f64| left + 30 + ((value - low) / (high - low).max(1e-9) * room) as i32;
            values.into_iter().map(x).collect()
        };
        let middles = match &self.positions {
            Positions::Even => (0..count).map(|index| left + slot * index + slot / 2).collect(),
            Positions::Linear(values) => spread(values.clone()),
            Positions::Logarithmic(values) => {
                spread(values.iter().map(|value| value.max(1.0).ln()).collect())
            }
        };
        (middles, slot)
    }

    /// Labels of the positions and the name of the axis.
    fn label(&self, canvas: &Canvas<'_, '_>, left: i32, right: i32) -> Drawn {
        let mut free = i32::MIN;
        for (label, &x) in self.labels.iter().zip(&canvas.middles) {
            let room = if self.positions == Positions::Even { canvas.slot - 4 } else { i32::MAX };
            let label = style::shortened(label, style::SMALL, room);
            let width = style::text_width(&label, style::SMALL);
            if self.positions != Positions::Even {
                let foot = [(x, canvas.bottom), (x, canvas.bottom + 4)];
                canvas.area.draw(&PathElement::new(foot, style::MUTED.stroke_width(1)))?;
            }
            if x - width / 2 < free {
                continue;
            }
            free = x + width / 2 + 6;
            let style = style::text(style::INK, style::SMALL, HPos::Center);
            canvas.area.draw(&Text::new(label, (x, canvas.bottom + 15), style))?;
        }
        if self.axis.is_empty() {
            return Ok(());
        }
        let style = style::text(style::MUTED, style::SMALL, HPos::Center);
        canvas.area.draw(&Text::new(
            self.axis.as_str(),
            ((left + right) / 2, canvas.bottom + LABELS + NAME / 2),
            style,
        ))
    }
}

fn lines(legend: &[(Entry<'_>, i32, i32)]) -> i32 {
    legend.last().map_or(0, |(_, line, _)| line + 1)
}

/// Strokes and gaps of a limit.
pub const LIMIT_DASHES: &[f64] = &[6.0, 4.0];

/// What the legend explains.
#[derive(Debug, Clone, Copy)]
enum Entry<'a> {
    /// A series by its place and name.
    Series(usize, &'a str),
    Limit,
}

impl<'a> Entry<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::Series(_, name) => name,
            Self::Limit => "maximum",
        }
    }
}
