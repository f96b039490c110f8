//! Bars from zero in groups by position, with intervals, figures and limits.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::panel::{Canvas, LIMIT_DASHES, Series};
use super::style::{self, Drawn};
use crate::number;

/// Widest bar.
const WIDEST: i32 = 64;
/// Least air between groups.
const BETWEEN: i32 = 16;
/// Size of the figures in pixels.
const FIGURE: f64 = 12.0;
/// Narrowest bar that has its figure over it.
const WITH_FIGURE: i32 = 25;

/// Draws all series.
pub fn paint(canvas: &Canvas<'_, '_>, series: &[Series]) -> Drawn {
    let count = series.len().max(1) as i32;
    let width = ((canvas.slot - BETWEEN) / count).clamp(4, WIDEST);
    for (position, &middle) in canvas.middles.iter().enumerate() {
        let left = middle - width * count / 2;
        for (kind, series) in series.iter().enumerate() {
            let Some(point) = series.points.get(position).copied().flatten() else { continue };
            let x = left + width * kind as i32;
            let (top, end) = (canvas.y(point.value), x + width - 2);
            style::surface(canvas.area, [(x, top), (end, canvas.bottom)], kind)?;
            let centre = (x + end) / 2;
            let mut above = top;
            if let Some((low, high)) = point.ends {
                above = canvas.y(high);
                let foot = (width / 4).min(6);
                // a light edge keeps it visible on a dark bar
                let ends = (canvas.y(low), above);
                let edge = style::CARD.stroke_width(4);
                canvas.area.draw(&PathElement::new([(centre, ends.0), (centre, top)], edge))?;
                style::whisker(canvas.area, centre, ends, foot, style::INK)?;
            }
            if let Some(limit) = point.limit {
                let y = canvas.y(limit);
                let (from, to) = (x - 3, x + width + 1);
                style::dashed(canvas.area, &[(from, y), (to, y)], LIMIT_DASHES, style::LIMIT, 2)?;
                // the figure does not stand on the line
                if (above - 16..above + 2).contains(&y) {
                    above = y - 1;
                }
            }
            let figure = number::significant(point.value, 3);
            if width >= WITH_FIGURE && style::text_width(&figure, FIGURE) <= width + 4 {
                let style = style::text(style::INK, FIGURE, HPos::Center);
                canvas.area.draw(&Text::new(figure, (centre, above - 9), style))?;
            }
        }
    }
    Ok(())
}
