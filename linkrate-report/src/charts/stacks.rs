//! Shares of a whole: a bar from 0 to 100 % for each row, in numbered parts.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::rows::Size;
use super::style::{self, Area, Drawn};
use super::{Drawing, on_area};
use crate::ReportError;

/// Height of a row.
const ROW: i32 = 34;
/// Height of a line of the legend.
const LEGEND: i32 = 22;
/// Height of the axis.
const AXIS: i32 = 26;
/// Width of a swatch in the legend, with room for a number.
const SWATCH: i32 = 28;

#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The text on its left.
    pub name: String,
    /// Shares in per cent, in the order of the names.
    pub shares: Vec<f64>,
}

/// Bars of parts called `names`. Each part has a number, a surface of its own and its place in the
/// order, so that no colour is needed to tell which it is.
pub fn shares(
    title: &str,
    names: &[String],
    stacks: &[Stack],
    size: Size,
) -> Result<Drawing, ReportError> {
    let width = size.width();
    let legend = super::legend(names, SWATCH, width);
    let lines = legend.last().map_or(0, |(line, _)| line + 1);
    let top = lines * LEGEND + 10;
    let bottom = top + ROW * stacks.len() as i32;
    let widest = stacks.iter().map(|s| style::text_width(&s.name, style::SMALL)).max().unwrap_or(0);
    let left = widest.min(width * 2 / 5) + 10;
    on_area(title, (width, bottom + AXIS), |area| {
        for (index, (name, (line, x))) in names.iter().zip(&legend).enumerate() {
            let y = line * LEGEND + LEGEND / 2;
            style::surface(area, [(*x, y - 8), (x + SWATCH, y + 8)], index)?;
            number(area, index, (x + SWATCH / 2, y))?;
            let style = style::text(style::INK, style::SMALL, HPos::Left);
            area.draw(&Text::new(name.as_str(), (x + SWATCH + 6, y), style))?;
        }
        let right = width - 20;
        let x = |percent: f64| left + (percent / 100.0 * f64::from(right - left)).round() as i32;
        for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
            let x = x(percent);
            area.draw(&PathElement::new([(x, top), (x, bottom + 4)], style::GRID.stroke_width(1)))?;
            let style = style::text(style::MUTED, style::SMALL, HPos::Center);
            area.draw(&Text::new(format!("{percent} %"), (x, bottom + 15), style))?;
        }
        for (row, stack) in stacks.iter().enumerate() {
            let y = top + ROW * row as i32;
            let name = style::shortened(&stack.name, style::SMALL, left - 8);
            let style = style::text(style::INK, style::SMALL, HPos::Right);
            area.draw(&Text::new(name, (left - 8, y + ROW / 2), style))?;
            let mut before = 0.0;
            for (index, share) in stack.shares.iter().enumerate() {
                let (from, to) = (x(before), x(before + share));
                before += share;
                if to <= from {
                    continue;
                }
                style::surface(area, [(from, y + 4), (to, y + ROW - 4)], index)?;
                if to - from >= 22 {
                    number(area, index, ((from + to) / 2, y + ROW / 2))?;
                }
            }
        }
        Ok(())
    })
}

/// The number of a part on a spot that keeps it legible on any pattern.
fn number(area: &Area<'_>, index: usize, (x, y): (i32, i32)) -> Drawn {
    area.draw(&Circle::new((x, y), 8, style::CARD.filled()))?;
    let style = style::text(style::INK, 11.0, HPos::Center);
    area.draw(&Text::new((index + 1).to_string(), (x, y), style))
}
