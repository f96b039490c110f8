//! Points along positions, joined, with intervals and limits.

use super::{Canvas, LIMIT_DASHES, Series};
use crate::charts::style::{self, Drawn};

/// Pixels by which series stand apart, so that their intervals do not hide each other.
const APART: i32 = 4;

pub fn paint(canvas: &Canvas<'_, '_>, series: &[Series]) -> Drawn {
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
