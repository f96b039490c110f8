//! Points along positions, joined, with intervals and limits.

use super::ink::{self, Drawn};
use super::panel::{Ground, LIMIT_DASHES, Series};

/// Pixels by which series stand apart, so that their intervals do not hide each other.
const APART: i32 = 4;

/// Draws all series.
pub fn paint(ground: &Ground<'_, '_>, series: &[Series]) -> Drawn {
    limits(ground, series)?;
    let middle = series.len() as i32 - 1;
    for (kind, series) in series.iter().enumerate() {
        let shift = (2 * kind as i32 - middle) * APART / 2;
        let at = |position: usize| ground.middles.get(position).map(|x| x + shift);
        let points: Vec<(i32, i32)> = series
            .points
            .iter()
            .enumerate()
            .filter_map(|(position, point)| Some((at(position)?, ground.y((*point)?.value))))
            .collect();
        if points.len() > 1 {
            ink::dashed(ground.area, &points, ink::dashes(kind), ink::line(kind), 2)?;
        }
        for (position, point) in series.points.iter().enumerate() {
            let (Some(x), Some(point)) = (at(position), point) else { continue };
            if let Some((low, high)) = point.ends {
                let ends = (ground.y(low), ground.y(high));
                ink::whisker(ground.area, x, ends, 4, ink::line(kind))?;
            }
            ink::marker(ground.area, (x, ground.y(point.value)), kind)?;
        }
    }
    Ok(())
}

/// Each limit once, however many series have it.
fn limits(ground: &Ground<'_, '_>, series: &[Series]) -> Drawn {
    let mut drawn: Vec<Vec<(i32, i32)>> = Vec::new();
    for series in series {
        let line: Vec<(i32, i32)> = series
            .points
            .iter()
            .zip(&ground.middles)
            .filter_map(|(point, x)| Some((*x, ground.y((*point)?.limit?))))
            .collect();
        if line.is_empty() || drawn.contains(&line) {
            continue;
        }
        let mut whole = line.clone();
        if let [(x, y)] = line[..] {
            whole = vec![(x - 20, y), (x + 20, y)];
        }
        ink::dashed(ground.area, &whole, LIMIT_DASHES, ink::LIMIT, 2)?;
        drawn.push(line);
    }
    Ok(())
}
