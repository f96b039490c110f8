//! Figures as papers draw them, on top of plotters.
//!
//! - [`panel`]: a frame with axes and a legend, which bars or curves fill
//! - [`rows`]: charts of rows: names on the left, figures on the right
//! - [`changes`]: measured and published changes as points with intervals, one row each
//! - [`stacks`]: shares of a whole, one bar a row
//! - [`timeline`]: rates over time, with moments
//! - [`levels`]: figures of result sets in order of time, with the levels they keep
//! - [`matrix`]: a figure of each pair of a fleet
//! - [`scale`]: ticks at round values, on linear and logarithmic axes
//! - [`style`]: colours, patterns, markers and text
//!
//! Colour never carries information alone: text, patterns, markers or dashes have it too, for grey
//! prints and for people who see no colours. Each has its values in words beside
//! it, as the text alternative. All are functions of their data alone.

use crate::ReportError;

pub mod changes;
pub mod levels;
pub mod matrix;
pub mod panel;
pub mod rows;
pub mod scale;
pub mod stacks;
pub mod style;
pub mod timeline;

/// A drawing: the SVG element and its size in pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// The `svg` element.
    pub svg: String,
    pub width: u32,
    pub height: u32,
}

/// Draws on an area of that size.
fn on_area(
    title: &str,
    (width, height): (i32, i32),
    paint: impl FnOnce(&style::Area<'_>) -> style::Drawn,
) -> Result<Drawing, ReportError> {
    use plotters::prelude::{IntoDrawingArea, SVGBackend};

    let size = (width.unsigned_abs(), height.unsigned_abs());
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        paint(&area).and_then(|()| area.present()).map_err(|error| ReportError::Chart {
            chart: title.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(Drawing { svg, width: size.0, height: size.1 })
}

/// Line and left edge of each entry of a legend: a swatch of width `swatch`, and the name. Entries
/// that do not fit into `width` begin another line.
fn legend(
    names: impl IntoIterator<Item = impl AsRef<str>>,
    swatch: i32,
    width: i32,
) -> Vec<(i32, i32)> {
    let (mut line, mut x) = (0, 0);
    let mut placed = Vec::new();
    for name in names {
        let entry = swatch + 6 + style::text_width(name.as_ref(), style::SMALL) + 14;
        if x > 0 && x + entry > width {
            line += 1;
            x = 0;
        }
        placed.push((line, x));
        x += entry;
    }
    placed
}
