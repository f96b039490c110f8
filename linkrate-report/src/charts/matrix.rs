//! A figure of each pair of a fleet: a row for each sender, a column for each receiver.
//!
//! A field is the darker, the further its figure is on the wrong side of the median. Small matrices have the
//! figures in their fields; those of large ones are in the document and in the raw data.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style;
use super::{Drawing, on_area};
use crate::ReportError;

/// Most nodes whose fields have room for figures.
const MAX_WITH_FIGURES: usize = 14;

/// Sides of a field with a figure.
const FIELD: (i32, i32) = (56, 30);

/// Width of all fields without figures.
const ROOM: i32 = 760;

/// Height of the names of receivers.
const HEAD: i32 = 28;

/// The darkest shade that leaves a figure legible.
const DARKEST: f64 = 0.6;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Field {
    /// Its figure, or the reason for its absence; empty where the pair is none of the pattern.
    pub text: String,
    /// How bad it is, from 0 to 1.
    pub shade: f64,
    /// Whether it stands out, by itself or with its node.
    pub framed: bool,
}

/// The matrix of nodes called `names`, row by row.
pub fn matrix(title: &str, names: &[String], rows: &[Vec<Field>]) -> Result<Drawing, ReportError> {
    let count = names.len().max(1) as i32;
    let figures = names.len() <= MAX_WITH_FIGURES;
    let (wide, high) = match figures {
        true => FIELD,
        false => ((ROOM / count).max(2), (ROOM / count).max(2)),
    };
    let widest = names.iter().map(|name| style::text_width(name, style::SMALL)).max().unwrap_or(0);
    let left = widest.min(160) + 10;
    // names of large matrices would run into each other
    let named = figures || high >= 16;
    on_area(title, (left + wide * count + 8, HEAD + high * count + 8), |area| {
        for (row, (name, fields)) in names.iter().zip(rows).enumerate() {
            let y = HEAD + high * row as i32;
            if named {
                let style = style::text(style::INK, style::SMALL, HPos::Right);
                let name = style::shortened(name, style::SMALL, left - 8);
                area.draw(&Text::new(name, (left - 8, y + high / 2), style))?;
            }
            if figures {
                let style = style::text(style::MUTED, style::SMALL, HPos::Center);
                let name = style::shortened(name, style::SMALL, wide - 4);
                let x = left + wide * row as i32 + wide / 2;
                area.draw(&Text::new(name, (x, HEAD / 2), style))?;
            }
            for (column, field) in fields.iter().enumerate() {
                if field.text.is_empty() {
                    continue;
                }
                let x = left + wide * column as i32;
                let corners = [(x + 1, y + 1), (x + wide - 1, y + high - 1)];
                let shade = style::ACCENT.mix(field.shade.clamp(0.0, 1.0) * DARKEST);
                area.draw(&Rectangle::new(corners, shade.filled()))?;
                let (line, stroke) =
                    if field.framed { (style::LIMIT, 2) } else { (style::GRID, 1) };
                area.draw(&Rectangle::new(corners, line.stroke_width(stroke)))?;
                if figures {
                    let style = style::text(style::INK, style::SMALL, HPos::Center);
                    let text = style::shortened(&field.text, style::SMALL, wide - 4);
                    area.draw(&Text::new(text, (x + wide / 2, y + high / 2), style))?;
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> (Vec<String>, Vec<Vec<Field>>) {
        let field = |a: usize, b: usize| match a == b {
            true => Field::default(),
            false => Field { text: format!("{a}.{b}"), shade: 0.5, framed: a == 1 },
        };
        let names = (0..count).map(|node| format!("n{node}")).collect();
        (names, (0..count).map(|a| (0..count).map(|b| field(a, b)).collect()).collect())
    }

    #[test]
    fn a_small_matrix_has_its_figures_and_a_large_one_fits_a_page() {
        let (names, fields) = rows(4);
        let small = matrix("m", &names, &fields).unwrap();
        assert!(small.svg.contains("2.3") && !small.svg.contains("2.2"), "{}", small.svg);
        for count in [64, 256] {
            let (names, fields) = rows(count);
            let large = matrix("m", &names, &fields).unwrap();
            assert!(large.width < 1000 && large.height < 1000 && !large.svg.contains("2.3"));
        }
    }
}
