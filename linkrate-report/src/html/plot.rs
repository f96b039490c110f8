//! What all charts share: rows with names and figures, an axis below, and the drawing of both.
//!
//! Colours are fixed and exchanged by the style sheet for the dark scheme, which selects them by
//! their value; `tests/report/html.rs` holds the two together. There are no font metrics without
//! a font system, so widths of text are estimated generously and text is anchored, not measured.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::charts::{Drawing, Group, Row, Size};
use crate::{ReportError, number};

/// Axis labels and names of groups.
pub const MUTED: RGBColor = RGBColor(0x5A, 0x67, 0x75);
/// What the chart lies on; also the inside of hollow points.
pub const CARD: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Grid lines.
const GRID: RGBColor = RGBColor(0xDC, 0xE1, 0xE7);

/// Height of a row.
pub const ROW: i32 = 30;
/// Height of a group's name with the air around it.
const HEADING: i32 = 36;
/// Height of the labels below the plot.
const AXIS: i32 = 30;
/// A generous mean width of a character.
const CHARACTER: f64 = 7.3;

/// What drawing returns.
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
/// What is drawn on: the whole chart, in pixels.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Draws what lies below all rows; takes the way from values to pixels.
pub type Backdrop<'a> = dyn Fn(&Area<'_>, &dyn Fn(f64) -> i32) -> Drawn + 'a;
/// Draws the mark of one row at a height; takes the way from values to pixels.
pub type Mark<'a> = dyn Fn(&Area<'_>, &Row, i32, &dyn Fn(f64) -> i32) -> Drawn + 'a;

/// Text in charts.
pub mod text_style {
    use plotters::prelude::*;
    use plotters::style::text_anchor::{HPos, Pos, VPos};

    /// Names, figures and whiskers of bars.
    pub const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
    /// Size in pixels.
    const TEXT: f64 = 14.0;
    /// The SVG backend divides sizes by this.
    const BACKEND: f64 = 1.24;

    /// Text of `color` whose `anchor` lies at the point where it is drawn.
    pub fn of(color: RGBColor, anchor: HPos) -> TextStyle<'static> {
        let font = ("sans-serif", TEXT * BACKEND).into_font();
        font.color(&color).pos(Pos::new(anchor, VPos::Center))
    }

    /// The same in bold.
    pub fn bold(color: RGBColor, anchor: HPos) -> TextStyle<'static> {
        let font = ("sans-serif", TEXT * BACKEND, FontStyle::Bold).into_font();
        font.color(&color).pos(Pos::new(anchor, VPos::Center))
    }
}

/// The horizontal axis, from `low` to `high`, with labelled marks.
pub struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero past `largest`, with at most about `most` marks at round values.
    pub fn from_zero(largest: f64, most: usize) -> Self {
        if largest <= 0.0 {
            return Self { low: 0.0, high: 1.0, ticks: vec![(0.0, "0".to_owned())] };
        }
        let step = round_step(largest / most as f64);
        let count = (largest / step).floor() as usize;
        // all labels with the decimals of the step, whatever the value
        let places = (-step.log10().floor()).max(0.0) as usize;
        let label = |value: f64| match places {
            0 => number::grouped(value),
            places => format!("{value:.places$}"),
        };
        let values = (0..=count).map(|index| index as f64 * step);
        let ticks = values.map(|value| (value, label(value))).collect();
        Self { low: 0.0, high: largest * 1.02, ticks }
    }

    /// Logarithms of `ratios` around no change, marked with changes in per cent.
    pub fn of_changes(ratios: &[f64], minimum: f64, most: usize) -> Self {
        // the band of unclaimable changes is always seen whole
        let least = (1.0 + 2.0 * minimum).ln().max(0.02);
        let low = ratios.iter().map(|ratio| ratio.ln()).fold(-least, f64::min);
        let high = ratios.iter().map(|ratio| ratio.ln()).fold(least, f64::max);
        let air = (high - low) * 0.05;
        let (low, high) = (low - air, high + air);
        let ticks = change_ticks(low, high, most).into_iter();
        let label = |percent: f64| match percent {
            0.0 => "0 %".to_owned(),
            p if p < 0.0 => format!("−{} %", -p),
            p => format!("+{} %", number::grouped(p)),
        };
        let ticks = ticks.map(|percent| ((1.0 + percent / 100.0).ln(), label(percent))).collect();
        Self { low, high, ticks }
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= least).unwrap_or(power)
}

/// Changes in per cent to mark between the logarithms `low` and `high`: no change, then from it
/// outward on each side, where there is room.
fn change_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    const CHANGES: [f64; 24] = [
        1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 2000.0, 5000.0,
        10000.0, -1.0, -2.0, -5.0, -10.0, -20.0, -50.0, -75.0, -90.0, -95.0, -99.0,
    ];
    let room = (high - low) / most as f64;
    let at = |percent: f64| (1.0 + percent / 100.0).ln();
    let mut ticks: Vec<f64> = vec![0.0];
    for percent in CHANGES {
        let inside = at(percent) > low && at(percent) < high;
        if inside && ticks.iter().all(|tick| (at(*tick) - at(percent)).abs() >= room) {
            ticks.push(percent);
        }
    }
    ticks
}

/// Where things are, in pixels.
pub struct Layout {
    height: i32,
    left: i32,
    right: i32,
    width: i32,
    items: Vec<(i32, Item)>,
}

/// What stands on a line of the chart.
enum Item {
    /// A group's name, by index.
    Heading(usize),
    /// A row, by indices of group and row.
    Row(usize, usize),
}

impl Layout {
    /// Room for every row of `groups`.
    pub fn new(groups: &[Group], size: Size) -> Self {
        let width = size.width();
        let rows = || groups.iter().flat_map(|group| &group.rows);
        let widest = |text: &dyn Fn(&Row) -> usize, most: f64| {
            let characters = rows().map(text).max().unwrap_or(0);
            (characters as f64 * CHARACTER).min(most * f64::from(width)) as i32 + 14
        };
        let left = widest(&|row| row.name.chars().count(), 0.4);
        let right = widest(&|row| figure(row, size).chars().count(), 0.36);
        let mut y = 2;
        let mut items = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            if !group.name.is_empty() {
                items.push((y + HEADING / 2 + 2, Item::Heading(index)));
                y += HEADING;
            }
            for row in 0..group.rows.len() {
                items.push((y + ROW / 2, Item::Row(index, row)));
                y += ROW;
            }
        }
        Self { width, height: y + 4 + AXIS, left, right, items }
    }

    /// How many labels of that many characters fit below the plot.
    pub fn most_ticks(&self, characters: usize) -> usize {
        let plot = f64::from(self.width - self.left - self.right);
        ((plot / (characters as f64 * CHARACTER + 12.0)) as usize).max(2)
    }

    /// The lower edge of the plot.
    pub fn bottom(&self) -> i32 {
        self.height - AXIS
    }
}

fn figure(row: &Row, size: Size) -> &str {
    match size {
        Size::Wide => &row.figure,
        Size::Narrow => &row.short_figure,
    }
}

/// Draws axis, backdrop, names, marks and figures, in this order.
///
/// # Errors
/// [`ReportError::Chart`] with `title` when the drawing library refuses.
pub fn draw(
    title: &str,
    groups: &[Group],
    size: Size,
    layout: &Layout,
    axis: &Axis,
    backdrop: &Backdrop<'_>,
    mark: &Mark<'_>,
) -> Result<Drawing, ReportError> {
    let mut svg = String::new();
    let (width, height) = (layout.width as u32, layout.height as u32);
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        paint(&area, groups, size, layout, axis, backdrop, mark)
            .and_then(|()| area.present())
            .map_err(|error| ReportError::Chart {
                chart: title.to_owned(),
                reason: error.to_string(),
            })?;
    }
    Ok(Drawing { svg, width, height })
}

fn paint(
    area: &Area<'_>,
    groups: &[Group],
    size: Size,
    layout: &Layout,
    axis: &Axis,
    backdrop: &Backdrop<'_>,
    mark: &Mark<'_>,
) -> Drawn {
    let chart = ChartBuilder::on(area)
        .margin_left(layout.left)
        .margin_right(layout.right)
        .x_label_area_size(AXIS)
        .build_cartesian_2d(axis.low..axis.high, 0.0..1.0)?;
    let x = |value: f64| chart.plotting_area().map_coordinate(&(value, 0.0)).0;
    let bottom = layout.bottom();
    for (value, label) in &axis.ticks {
        let x = x(*value);
        area.draw(&PathElement::new([(x, 0), (x, bottom + 4)], GRID.stroke_width(1)))?;
        let style = text_style::of(MUTED, HPos::Center);
        area.draw(&Text::new(label.as_str(), (x, bottom + 17), style))?;
    }
    backdrop(area, &x)?;
    for (y, item) in &layout.items {
        match item {
            Item::Heading(group) => {
                // the grid makes room for the words
                let corners = [(0, y - HEADING / 2), (layout.width, y + HEADING / 2 - 4)];
                area.draw(&Rectangle::new(corners, CARD.filled()))?;
                let style = text_style::bold(MUTED, HPos::Left);
                area.draw(&Text::new(groups[*group].name.as_str(), (0, *y), style))?;
            }
            Item::Row(group, row) => {
                let row = &groups[*group].rows[*row];
                let most = (f64::from(layout.left) / CHARACTER) as usize;
                let name = shortened(&row.name, most);
                let ink = |anchor| text_style::of(text_style::INK, anchor);
                area.draw(&Text::new(name, (layout.left - 8, *y), ink(HPos::Right)))?;
                mark(area, row, *y, &x)?;
                let figure = figure(row, size).to_owned();
                area.draw(&Text::new(figure, (layout.width, *y), ink(HPos::Right)))?;
            }
        }
    }
    Ok(())
}

/// The text, cut where it would run out of its room; the tables have it whole.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0.21, 0.5), (3.0, 5.0), (5.1, 10.0), (1.0, 1.0)] {
            assert!((round_step(least) - step).abs() < 1e-9, "{least}");
        }
    }

    #[test]
    fn changes_are_marked_on_both_sides_of_none() {
        let ticks = change_ticks((0.15f64).ln(), (4.5f64).ln(), 7);
        assert!(ticks.contains(&0.0));
        assert!(ticks.iter().any(|t| *t < 0.0) && ticks.iter().any(|t| *t > 0.0));
        assert!(ticks.len() <= 8, "{ticks:?}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("transmit", 8), "transmit");
        assert_eq!(shortened("transmitted", 8), "transmi…");
    }
}
