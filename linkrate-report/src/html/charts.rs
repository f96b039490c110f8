//! Charts of a report: bars and effects, each a few lines on top of [`plot`](super::plot).
//!
//! Bars lie on their sides: names of cells are words, and words are read from left to right. Each
//! bar has its name before it and its figure behind it, so colour carries nothing that is not
//! also written. Whiskers are confidence intervals.

use plotters::prelude::*;

use super::plot::{Area, Axis, CARD, Drawn, Layout, MUTED, ROW, draw, text_style};
use crate::ReportError;

/// Where an effect is too small to be claimed.
const BAND: RGBColor = RGBColor(0xE6, 0xEB, 0xF1);
/// A claimed effect.
const CLAIMED: RGBColor = RGBColor(0x1D, 0x5F, 0xA8);
/// Bars, by level of the first factor, over and over.
const BARS: [RGBColor; 4] = [
    RGBColor(0x9A, 0xAE, 0xC4),
    RGBColor(0x5F, 0x93, 0xC9),
    RGBColor(0x2A, 0x6F, 0xB8),
    RGBColor(0x4B, 0x9B, 0x8E),
];
/// Half of a bar's height.
const HALF_BAR: i32 = ROW / 2 - 6;

/// How wide a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// For a page of 700 pixels and more.
    Wide,
    /// For a phone.
    Narrow,
}

impl Size {
    /// Width of the drawing in pixels.
    pub fn width(self) -> i32 {
        match self {
            Self::Wide => 760,
            Self::Narrow => 360,
        }
    }
}

/// A drawing: the SVG element and its size in pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// The `svg` element.
    pub svg: String,
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

/// One row of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What stands before it.
    pub name: String,
    /// What stands behind it on a wide chart.
    pub figure: String,
    /// What stands behind it on a narrow chart.
    pub short_figure: String,
    /// Where the bar ends or the point is; `None` leaves the row empty.
    pub value: Option<f64>,
    /// Ends of the interval.
    pub ends: Option<(f64, f64)>,
    /// Bars: which colour. Effects: 0 for unclaimed, else claimed.
    pub kind: usize,
}

/// Rows under a common name.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The name; empty for none.
    pub name: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Bars from zero with whiskers.
///
/// # Errors
/// [`ReportError::Chart`] when the drawing library refuses.
pub fn bars(title: &str, groups: &[Group], size: Size) -> Result<Drawing, ReportError> {
    let layout = Layout::new(groups, size);
    let rows = groups.iter().flat_map(|group| &group.rows);
    let largest = rows
        .flat_map(|row| [row.value, row.ends.map(|(_, high)| high)])
        .flatten()
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    let axis = Axis::from_zero(largest, layout.most_ticks(7).min(6));
    draw(title, groups, size, &layout, &axis, &|_, _| Ok(()), &|area, row, y, x| {
        let Some(value) = row.value else { return Ok(()) };
        let color = BARS[row.kind % BARS.len()];
        let corners = [(x(0.0), y - HALF_BAR), (x(value), y + HALF_BAR)];
        area.draw(&Rectangle::new(corners, color.filled()))?;
        whisker(area, row, y, x, text_style::INK)
    })
}

/// Points with intervals around "no change", on a logarithmic axis that is labelled with changes
/// in per cent. Values are ratios. Changes within `minimum` of none lie on a band.
///
/// # Errors
/// [`ReportError::Chart`] when the drawing library refuses.
pub fn effects(
    title: &str,
    groups: &[Group],
    size: Size,
    minimum: f64,
) -> Result<Drawing, ReportError> {
    let layout = Layout::new(groups, size);
    let rows = groups.iter().flat_map(|group| &group.rows);
    let ratios: Vec<f64> = rows
        .flat_map(|row| [row.value, row.ends.map(|ends| ends.0), row.ends.map(|ends| ends.1)])
        .flatten()
        .filter(|ratio| *ratio > 0.0 && ratio.is_finite())
        .collect();
    let axis = Axis::of_changes(&ratios, minimum, layout.most_ticks(7).min(7));
    // a small point leaves the interval visible where a pixel is more per cent
    let radius = if size == Size::Wide { 6 } else { 4 };
    let backdrop = |area: &Area<'_>, x: &dyn Fn(f64) -> i32| {
        let [near, far] = [1.0 - minimum.min(0.99), 1.0 + minimum].map(f64::ln).map(x);
        let bottom = layout.bottom();
        area.draw(&Rectangle::new([(near, 0), (far, bottom)], BAND.filled()))?;
        area.draw(&PathElement::new([(x(0.0), 0), (x(0.0), bottom)], MUTED.stroke_width(1)))
    };
    draw(title, groups, size, &layout, &axis, &backdrop, &|area, row, y, x| {
        let Some(value) = row.value.filter(|ratio| *ratio > 0.0) else { return Ok(()) };
        let color = if row.kind == 0 { MUTED } else { CLAIMED };
        let log = |ratio: f64| x(ratio.ln());
        whisker(area, row, y, &log, color)?;
        area.draw(&Circle::new((log(value), y), radius, color.filled()))?;
        if row.kind == 0 {
            // hollow, so that it differs in shape and not only in colour
            area.draw(&Circle::new((log(value), y), radius - 2, CARD.filled()))?;
        }
        Ok(())
    })
}

/// The interval as a line with a foot at each end.
fn whisker(area: &Area<'_>, row: &Row, y: i32, x: &dyn Fn(f64) -> i32, color: RGBColor) -> Drawn {
    let Some((low, high)) = row.ends else { return Ok(()) };
    let (low, high, pen) = (x(low), x(high), color.stroke_width(2));
    area.draw(&PathElement::new([(low, y), (high, y)], pen))?;
    for end in [low, high] {
        area.draw(&PathElement::new([(end, y - 5), (end, y + 5)], pen))?;
    }
    Ok(())
}
