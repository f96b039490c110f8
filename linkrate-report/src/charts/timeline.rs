//! Rates over time, one curve a port, with moments as upright lines.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::rows::Size;
use super::scale::Axis;
use super::style::{self, Area, Drawn};
use super::{Drawing, on_area};
use crate::ReportError;

/// Height of the plot itself.
const PLOT: i32 = 210;
/// Height of the names of the moments above the plot.
const MOMENTS: i32 = 20;
/// Height of a line of the legend.
const LEGEND: i32 = 22;
/// Height below the plot.
const BELOW: i32 = 44;
/// Width of a swatch in the legend.
const SWATCH: i32 = 26;
/// Strokes and gaps of a moment's line.
const MOMENT_DASHES: &[f64] = &[5.0, 3.0];

/// Values in slots of equal length.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// A value for each slot, in the unit of the vertical axis.
    pub values: Vec<f64>,
}

/// A moment that is drawn in.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// What happened.
    pub name: String,
    /// When, in seconds from the beginning.
    pub at: f64,
}

/// Curves over `slot` seconds a value. `unit` is that of the values.
pub fn rates(
    title: &str,
    unit: &str,
    slot: f64,
    curves: &[Curve],
    moments: &[Moment],
    size: Size,
) -> Result<Drawing, ReportError> {
    let width = size.width();
    let legend = super::legend(curves.iter().map(|curve| &curve.name), SWATCH, width);
    let lines = legend.last().map_or(0, |(line, _)| line + 1);
    let top = lines * LEGEND + MOMENTS + 8;
    let values = || curves.iter().flat_map(|curve| &curve.values).copied();
    let largest = values().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let slots = curves.iter().map(|curve| curve.values.len()).max().unwrap_or(0);
    let axis = Axis::from_zero(largest, 5);
    let mut time = Axis::from_zero(slots as f64 * slot, if size == Size::Wide { 10 } else { 5 });
    // the curves end where the measurement does, which is no round time
    time.ticks.retain(|(seconds, _)| *seconds <= slots as f64 * slot);
    let widest = axis.ticks.iter().map(|(_, label)| style::text_width(label, style::SMALL)).max();
    let plot = Plot {
        left: widest.unwrap_or(0) + 10,
        right: width - 10,
        top,
        bottom: top + PLOT,
        seconds: (slots as f64 * slot).max(1e-9),
        highest: axis.high,
    };
    on_area(title, (width, top + PLOT + BELOW), |area| {
        for (kind, (curve, (line, x))) in curves.iter().zip(&legend).enumerate() {
            let y = line * LEGEND + LEGEND / 2;
            let swatch = [(*x, y), (x + SWATCH, y)];
            style::dashed(area, &swatch, style::dashes(kind), style::line(kind), 2)?;
            let style = style::text(style::INK, style::SMALL, HPos::Left);
            area.draw(&Text::new(curve.name.as_str(), (x + SWATCH + 6, y), style))?;
        }
        for (value, label) in &axis.ticks {
            let y = plot.y(*value);
            let line = [(plot.left, y), (plot.right, y)];
            area.draw(&PathElement::new(line, style::GRID.stroke_width(1)))?;
            let style = style::text(style::MUTED, style::SMALL, HPos::Right);
            area.draw(&Text::new(label.as_str(), (plot.left - 6, y), style))?;
        }
        for (seconds, label) in &time.ticks {
            let x = plot.x(*seconds);
            let foot = [(x, plot.bottom), (x, plot.bottom + 4)];
            area.draw(&PathElement::new(foot, style::MUTED.stroke_width(1)))?;
            let style = style::text(style::MUTED, style::SMALL, HPos::Center);
            area.draw(&Text::new(label.as_str(), (x, plot.bottom + 14), style))?;
        }
        for (kind, curve) in curves.iter().enumerate() {
            let points: Vec<(i32, i32)> = curve
                .values
                .iter()
                .enumerate()
                // the middle of the slot
                .map(|(at, value)| (plot.x((at as f64 + 0.5) * slot), plot.y(*value)))
                .collect();
            style::dashed(area, &points, style::dashes(kind), style::line(kind), 2)?;
        }
        for moment in moments {
            plot.moment(area, moment)?;
        }
        let canvas = [(plot.left, plot.bottom), (plot.right, plot.bottom)];
        area.draw(&PathElement::new(canvas, style::MUTED.stroke_width(1)))?;
        let style = style::text(style::MUTED, style::SMALL, HPos::Center);
        let middle = (plot.left + plot.right) / 2;
        let axes = format!("{unit} over seconds from the beginning of the measurement");
        area.draw(&Text::new(axes, (middle, plot.bottom + 34), style))
    })
}

/// From values to pixels.
struct Plot {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    seconds: f64,
    highest: f64,
}

impl Plot {
    fn x(&self, seconds: f64) -> i32 {
        let share = (seconds / self.seconds).clamp(0.0, 1.0);
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    fn y(&self, value: f64) -> i32 {
        let share = (value / self.highest).clamp(0.0, 1.0);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }

    /// An upright line with its name above, on the side where there is room.
    fn moment(&self, area: &Area<'_>, moment: &Moment) -> Drawn {
        let x = self.x(moment.at);
        style::dashed(area, &[(x, self.top), (x, self.bottom)], MOMENT_DASHES, style::LIMIT, 2)?;
        let width = style::text_width(&moment.name, style::SMALL);
        let anchor = match x + width / 2 > self.right {
            true => (HPos::Right, self.right),
            false if x - width / 2 < self.left => (HPos::Left, self.left),
            false => (HPos::Center, x),
        };
        let style = style::text(style::LIMIT, style::SMALL, anchor.0);
        area.draw(&Text::new(moment.name.as_str(), (anchor.1, self.top - 10), style))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_and_every_moment_is_drawn() {
        let curve = |name: &str, value: f64| Curve {
            name: name.to_owned(),
            values: vec![value, 0.0, value],
        };
        let curves = [curve("eth0", 3.0), curve("eth1", 5.0)];
        let moments = [Moment { name: "carrier lost".to_owned(), at: 0.01 }];
        for size in [Size::Wide, Size::Narrow] {
            let drawing = rates("t", "Mb/s", 0.01, &curves, &moments, size).unwrap();
            for text in ["eth0", "eth1", "carrier lost", "Mb/s over seconds"] {
                assert!(drawing.svg.contains(text), "{text}: {}", drawing.svg);
            }
            assert_eq!(drawing.width, size.width() as u32);
        }
        // nothing to draw is no reason to fail
        assert!(rates("t", "Mb/s", 0.01, &[], &[], Size::Wide).is_ok());
    }
}
