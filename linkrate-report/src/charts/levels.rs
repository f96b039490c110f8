//! Figures of result sets in order of time, the levels they keep, and the sets at which something changed.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::rows::Size;
use super::scale::Axis;
use super::style::{self, Drawn};
use super::{Drawing, on_area};
use crate::ReportError;

/// Height of the plot itself.
const PLOT: i32 = 170;
/// Height of the names of changes above the plot.
const NAMES: i32 = 24;
/// Height below the plot: labels, and the name of the axis.
const BELOW: i32 = 46;
/// Strokes and gaps of the line at a change of the level.
const CHANGE_DASHES: &[f64] = &[5.0, 3.0];

/// The figure of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// In the unit of the axis.
    pub value: f64,
    /// Ends of its interval.
    pub ends: Option<(f64, f64)>,
}

/// Consecutive sets on one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// The first set, from 0.
    pub from: usize,
    /// The set behind the last one.
    pub to: usize,
    /// The level, in the unit of the axis.
    pub level: f64,
    /// How it came about: `−10 %`. Empty for the first stretch.
    pub change: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The unit of the values.
    pub unit: String,
    /// A figure for each set, where there is one.
    pub points: Vec<Option<Point>>,
    /// The levels, in order of time.
    pub stretches: Vec<Stretch>,
    /// Sets at which a condition changed.
    pub conditions: Vec<usize>,
    pub labels: Vec<String>,
}

pub fn draw(title: &str, series: &Series, size: Size) -> Result<Drawing, ReportError> {
    let width = size.width();
    let known = || series.points.iter().flatten();
    let reach = known().flat_map(|point| {
        let ends = point.ends.unwrap_or((point.value, point.value));
        [point.value, ends.0, ends.1]
    });
    let axis = Axis::close_to(&reach.collect::<Vec<f64>>(), 6);
    let widest = axis.ticks.iter().map(|(_, label)| style::text_width(label, style::SMALL)).max();
    let plot = Plot {
        left: widest.unwrap_or(0) + 12,
        right: width - 12,
        top: NAMES,
        bottom: NAMES + PLOT,
        sets: series.points.len().max(1),
        axis,
    };
    on_area(title, (width, plot.bottom + BELOW), |area| {
        for (value, label) in &plot.axis.ticks {
            let y = plot.y(*value);
            area.draw(&PathElement::new(
                [(plot.left, y), (plot.right, y)],
                style::GRID.stroke_width(1),
            ))?;
            let style = style::text(style::MUTED, style::SMALL, HPos::Right);
            area.draw(&Text::new(label.as_str(), (plot.left - 6, y), style))?;
        }
        plot.time(area, &series.labels)?;
        for set in &series.conditions {
            // an upright triangle below the ground: something about the host is new
            let (x, y) = (plot.edge(*set), plot.bottom);
            let corners = vec![(x, y + 1), (x - 5, y + 9), (x + 5, y + 9)];
            area.draw(&Polygon::new(corners, style::MUTED.filled()))?;
        }
        for stretch in &series.stretches {
            let (from, to) = (plot.edge(stretch.from), plot.edge(stretch.to));
            let y = plot.y(stretch.level);
            area.draw(&PathElement::new([(from, y), (to, y)], style::ACCENT.stroke_width(2)))?;
            if !stretch.change.is_empty() {
                style::dashed(
                    area,
                    &[(from, plot.top), (from, plot.bottom)],
                    CHANGE_DASHES,
                    style::LIMIT,
                    2,
                )?;
                let half = style::text_width(&stretch.change, style::SMALL) / 2;
                let x = from.clamp(plot.left + half, (plot.right - half).max(plot.left + half));
                let style = style::text(style::LIMIT, style::SMALL, HPos::Center);
                area.draw(&Text::new(stretch.change.as_str(), (x, plot.top - 10), style))?;
            }
        }
        for (set, point) in series.points.iter().enumerate() {
            let Some(point) = point else { continue };
            let x = plot.middle(set);
            if let Some((low, high)) = point.ends {
                style::whisker(area, x, (plot.y(low), plot.y(high)), 3, style::MUTED)?;
            }
            style::marker(area, (x, plot.y(point.value)), 0)?;
        }
        let canvas = [(plot.left, plot.bottom), (plot.right, plot.bottom)];
        area.draw(&PathElement::new(canvas, style::MUTED.stroke_width(1)))?;
        let axes = format!("{} by result set", series.unit);
        let style = style::text(style::MUTED, style::SMALL, HPos::Center);
        area.draw(&Text::new(axes, ((plot.left + plot.right) / 2, plot.bottom + 36), style))
    })
}

/// From sets and values to pixels.
struct Plot {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    sets: usize,
    axis: Axis,
}

impl Plot {
    /// The boundary before a set.
    fn edge(&self, set: usize) -> i32 {
        let share = set as f64 / self.sets as f64;
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    fn middle(&self, set: usize) -> i32 {
        (self.edge(set) + self.edge(set + 1)) / 2
    }

    fn y(&self, value: f64) -> i32 {
        let share = (value - self.axis.low) / (self.axis.high - self.axis.low);
        self.bottom - (share.clamp(0.0, 1.0) * f64::from(self.bottom - self.top)).round() as i32
    }

    /// Labels of the sets, as many as there is room for, the last one among them.
    fn time(&self, area: &style::Area<'_>, labels: &[String]) -> Drawn {
        let widest =
            labels.iter().map(|label| style::text_width(label, style::SMALL)).max().unwrap_or(0);
        let mut right = self.right + 12;
        for (set, label) in labels.iter().enumerate().rev() {
            let half = widest / 2;
            let x = self.middle(set).clamp(half, (self.right + 12 - half).max(half));
            if x + half > right {
                continue;
            }
            let style = style::text(style::MUTED, style::SMALL, HPos::Center);
            area.draw(&Text::new(label.as_str(), (x, self.bottom + 18), style))?;
            right = x - half - 10;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_levels_and_changes_are_drawn() {
        let point = |value: f64| Some(Point { value, ends: Some((value - 1.0, value + 1.0)) });
        let series = Series {
            unit: "Mb/s".to_owned(),
            points: vec![point(940.0), None, point(941.0), point(850.0)],
            stretches: vec![
                Stretch { from: 0, to: 3, level: 940.5, change: String::new() },
                Stretch { from: 3, to: 4, level: 850.0, change: "−9.6 %".to_owned() },
            ],
            conditions: vec![3],
            labels: ["11-01", "11-02", "11-03", "11-04"].map(str::to_owned).to_vec(),
        };
        for size in [Size::Wide, Size::Narrow] {
            let drawing = draw("t", &series, size).unwrap();
            for text in ["−9.6 %", "Mb/s by result set", "11-04", "polygon"] {
                assert!(drawing.svg.contains(text), "{text}: {}", drawing.svg);
            }
            assert_eq!(drawing.width, size.width() as u32);
        }
        // nothing to draw is no reason to fail
        let empty = Series { points: Vec::new(), stretches: Vec::new(), ..series };
        assert!(draw("t", &empty, Size::Wide).is_ok());
    }
}
