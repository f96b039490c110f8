//! The series of a panel, as bars or as curves, with intervals, figures and limits.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Canvas, LIMIT_DASHES, Series};
use crate::charts::style::{self, Drawn};
use crate::number;

/// Widest bar.
const WIDEST: i32 = 64;
/// Least air between groups.
const BETWEEN: i32 = 10;
/// Size of the figures in pixels.
const FIGURE: f64 = 11.0;
/// Least air between two figures.
const AIR: i32 = 6;
/// Height of a line of figures over the bars.
pub const LINE: i32 = 14;
/// How many significant digits a figure may have, the most first.
const DIGITS: [u32; 2] = [3, 2];

/// Bars from zero in groups by position.
pub fn bars(canvas: &Canvas<'_, '_>, series: &[Series]) -> Drawn {
    let count = series.len().max(1) as i32;
    let width = ((canvas.slot - BETWEEN) / count).clamp(4, WIDEST);
    let digits = digits(series, width);
    for (position, &middle) in canvas.middles.iter().enumerate() {
        let left = middle - width * count / 2;
        for (place, series) in series.iter().enumerate() {
            let Some(point) = series.points.get(position).copied().flatten() else { continue };
            let x = left + width * place as i32;
            let (top, end) = (canvas.y(point.value), x + width - 2);
            style::surface(canvas.area, [(x, top), (end, canvas.bottom)], point.kind)?;
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
                if (above - LINE - 2..above + 2).contains(&y) {
                    above = y - 1;
                }
            }
            let style = style::text(style::INK, FIGURE, HPos::Center);
            if let Some(digits) = digits {
                let figure = number::significant(point.value, digits);
                canvas.area.draw(&Text::new(
                    figure,
                    (centre, above - LINE / 2 - 1),
                    style.clone(),
                ))?;
                above -= LINE;
            }
            canvas.area.draw(&Text::new(point.mark, (centre, above - LINE / 2 - 1), style))?;
        }
    }
    Ok(())
}

/// How many significant digits fit over every bar; `None` where not even the fewest do.
fn digits(series: &[Series], width: i32) -> Option<u32> {
    let values = || series.iter().flat_map(|series| series.points.iter().flatten());
    DIGITS.into_iter().find(|digits| {
        let figure = |value: f64| style::text_width(&number::significant(value, *digits), FIGURE);
        values().all(|point| figure(point.value) + AIR <= width)
    })
}

/// Pixels by which series stand apart, so that their intervals do not hide each other.
const APART: i32 = 4;

/// Points along positions, joined.
pub fn curves(canvas: &Canvas<'_, '_>, series: &[Series]) -> Drawn {
    limits(canvas, series)?;
    let middle = series.len() as i32 - 1;
    for (place, series) in series.iter().enumerate() {
        let kind = series.kind;
        let shift = (2 * place as i32 - middle) * APART / 2;
        let at = |position: usize| canvas.middles.get(position).map(|x| x + shift);
        let points: Vec<(i32, i32)> = series
            .points
            .iter()
            .enumerate()
            .filter_map(|(position, point)| Some((at(position)?, canvas.y((*point)?.value))))
            .collect();
        if points.len() > 1 {
            style::dashed(canvas.area, &points, style::dashes(kind), style::line(kind), 2)?;
        }
        for (position, point) in series.points.iter().enumerate() {
            let (Some(x), Some(point)) = (at(position), point) else { continue };
            if let Some((low, high)) = point.ends {
                let ends = (canvas.y(low), canvas.y(high));
                style::whisker(canvas.area, x, ends, 4, style::line(kind))?;
            }
            style::marker(canvas.area, (x, canvas.y(point.value)), kind)?;
        }
    }
    Ok(())
}

/// Each limit once, however many series have it.
fn limits(canvas: &Canvas<'_, '_>, series: &[Series]) -> Drawn {
    let mut drawn: Vec<Vec<(i32, i32)>> = Vec::new();
    for series in series {
        let line: Vec<(i32, i32)> = series
            .points
            .iter()
            .zip(&canvas.middles)
            .filter_map(|(point, x)| Some((*x, canvas.y((*point)?.limit?))))
            .collect();
        if line.is_empty() || drawn.contains(&line) {
            continue;
        }
        let mut whole = line.clone();
        if let [(x, y)] = line[..] {
            whole = vec![(x - 20, y), (x + 20, y)];
        }
        style::dashed(canvas.area, &whole, LIMIT_DASHES, style::LIMIT, 2)?;
        drawn.push(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::charts::panel::Point;
    use crate::charts::panel::series::*;

    #[test]
    fn figures_over_bars_have_room_or_fewer_digits_or_are_not_there() {
        let point = |value| Some(Point { value, ends: None, limit: None, kind: 0, mark: "" });
        let points = [0.939, 1.88, 3.76].map(point).to_vec();
        let series = vec![Series { name: String::new(), kind: 0, points }];
        assert_eq!(digits(&series, 40), Some(3));
        assert_eq!(digits(&series, 34), Some(2), "0.94 instead of 0.939");
        assert_eq!(digits(&series, 20), None);
    }
}
