//! Points with intervals, a row each: measured changes beside published ones, around "no change".

use plotters::prelude::*;

use super::Drawing;
use super::rows::{self, ChartRow, Group, Layout, Size};
use super::scale::Axis;
use super::style::{self, Area, Drawn};
use crate::ReportError;

/// The name of the axis.
const AXIS: &str = "change, logarithmic scale";

/// Ratios on a logarithmic axis that is labelled with changes in per cent. Changes within
/// `minimum` of none lie on a band.
pub fn ratios(
    title: &str,
    groups: &[Group],
    size: Size,
    minimum: f64,
) -> Result<Drawing, ReportError> {
    let layout = Layout::new(groups, size);
    let ratios: Vec<f64> =
        values(groups).filter(|ratio| *ratio > 0.0 && ratio.is_finite()).collect();
    let axis = Axis::of_changes(&ratios, minimum, layout.most_ticks(6).min(9));
    let backdrop = |area: &Area<'_>, x: &dyn Fn(f64) -> i32| {
        let [near, far] = [1.0 - minimum.min(0.99), 1.0 + minimum].map(f64::ln).map(x);
        let bottom = layout.bottom();
        area.draw(&Rectangle::new([(near, 0), (far, bottom)], style::BAND.filled()))?;
        area.draw(&PathElement::new([(x(0.0), 0), (x(0.0), bottom)], style::MUTED.stroke_width(1)))
    };
    rows::draw(title, (groups, &layout), (&axis, AXIS), &backdrop, &|area, row, y, x| {
        point(area, row, y, size, &|ratio| x(ratio.ln()))
    })
}

/// Everything that must be on the axis.
fn values(groups: &[Group]) -> impl Iterator<Item = f64> {
    groups.iter().flat_map(|group| &group.rows).flat_map(|row| {
        let ends = row.ends.into_iter().flat_map(|(low, high)| [low, high]);
        [row.value, row.published].into_iter().chain(ends)
    })
}

/// The interval, its point, and the published figure.
fn point(area: &Area<'_>, row: &ChartRow, y: i32, size: Size, x: &dyn Fn(f64) -> i32) -> Drawn {
    // a ratio of nothing has no logarithm
    let possible = |ratio: f64| ratio > 0.0;
    // a small point leaves the interval visible where a pixel is more per cent
    let radius = if size == Size::Wide { 5 } else { 4 };
    if possible(row.value) {
        let color = style::ACCENT;
        if let Some((low, high)) = row.ends.filter(|ends| possible(ends.1)) {
            let (low, high, pen) = (x(low), x(high), color.stroke_width(2));
            area.draw(&PathElement::new([(low, y), (high, y)], pen))?;
            for end in [low, high] {
                area.draw(&PathElement::new([(end, y - 5), (end, y + 5)], pen))?;
            }
        }
        area.draw(&Circle::new((x(row.value), y), radius, color.filled()))?;
    }
    if possible(row.published) {
        let x = x(row.published);
        let diamond =
            |radius: i32| [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)];
        area.draw(&Polygon::new(diamond(7), style::INK.filled()))?;
        area.draw(&Polygon::new(diamond(4), style::CARD.filled()))?;
    }
    Ok(())
}
