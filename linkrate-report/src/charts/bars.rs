//! Bars from zero in groups by position, with intervals, figures and limits.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::ink::{self, Drawn};
use super::panel::{Ground, LIMIT_DASHES, Series};
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
pub fn paint(ground: &Ground<'_, '_>, series: &[Series]) -> Drawn {
    let count = series.len().max(1) as i32;
    let width = ((ground.slot - BETWEEN) / count).clamp(4, WIDEST);
    for (position, &middle) in ground.middles.iter().enumerate() {
        let left = middle - width * count / 2;
        for (kind, series) in series.iter().enumerate() {
            let Some(point) = series.points.get(position).copied().flatten() else { continue };
            let x = left + width * kind as i32;
            let (top, end) = (ground.y(point.value), x + width - 2);
            ink::surface(ground.area, [(x, top), (end, ground.bottom)], kind)?;
            let centre = (x + end) / 2;
            let mut above = top;
            if let Some((low, high)) = point.ends {
                above = ground.y(high);
                let foot = (width / 4).min(6);
                // a light edge keeps it visible on a dark bar
                let ends = (ground.y(low), above);
                let edge = ink::CARD.stroke_width(4);
                ground.area.draw(&PathElement::new([(centre, ends.0), (centre, top)], edge))?;
                ink::whisker(ground.area, centre, ends, foot, ink::INK)?;
            }
            if let Some(limit) = point.limit {
                let y = ground.y(limit);
                let (from, to) = (x - 3, x + width + 1);
                ink::dashed(ground.area, &[(from, y), (to, y)], LIMIT_DASHES, ink::LIMIT, 2)?;
                // the figure does not stand on the line
                if (above - 16..above + 2).contains(&y) {
                    above = y - 1;
                }
            }
            let figure = number::significant(point.value, 3);
            if width >= WITH_FIGURE && ink::text_width(&figure, FIGURE) <= width + 4 {
                let style = ink::text(ink::INK, FIGURE, HPos::Center);
                ground.area.draw(&Text::new(figure, (centre, above - 9), style))?;
            }
        }
    }
    Ok(())
}
