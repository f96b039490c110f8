//! What charts that lie on their sides share: rows with names before and figures behind, an axis
//! below. Names of cells are words, and words are read from left to right.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::Axis;
use super::style::{self, Area, Drawn};
use super::{Drawing, on_area};
use crate::ReportError;

/// Height of a row.
pub const ROW: i32 = 26;
/// Height of a group's name with the air around it.
const HEADING: i32 = 32;
/// Height of the labels below the plot, and of the name of the axis below them.
const AXIS: i32 = 48;

/// How wide a chart is drawn. Rows with names and figures are not legible on a phone when they are
/// only scaled down, so such charts are drawn twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// For a page of 700 pixels and more.
    Wide,
    /// For a phone.
    Narrow,
}

impl Size {
    /// Width of the drawing in pixels.
    pub fn width(self) -> i32 {
        match self {
            Self::Wide => 760,
            Self::Narrow => 340,
        }
    }

    /// Size of names and figures in pixels.
    fn text(self) -> f64 {
        match self {
            Self::Wide => style::TEXT,
            Self::Narrow => style::SMALL - 1.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChartRow {
    /// The text on its left.
    pub name: String,
    /// The text on its right in a wide chart.
    pub figure: String,
    /// The text on its right in a narrow chart.
    pub short_figure: String,
    /// Where the point is.
    pub value: f64,
    /// Ends of the interval.
    pub ends: Option<(f64, f64)>,
    /// What was published.
    pub published: f64,
}

/// Rows under a common name.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The name; empty for none.
    pub name: String,
    pub rows: Vec<ChartRow>,
}

/// Draws the background of all rows; takes the map from values to pixels.
pub type Backdrop<'a> = dyn Fn(&Area<'_>, &dyn Fn(f64) -> i32) -> Drawn + 'a;
/// Draws the mark of one row at a height; takes the way from values to pixels.
pub type Mark<'a> = dyn Fn(&Area<'_>, &ChartRow, i32, &dyn Fn(f64) -> i32) -> Drawn + 'a;

/// Where things are, in pixels.
pub struct Layout {
    size: Size,
    height: i32,
    left: i32,
    right: i32,
    items: Vec<(i32, Item)>,
}

/// The content of one line of the chart.
enum Item {
    /// A group's name, by index.
    Heading(usize),
    /// A row, by indices of group and row.
    ChartRow(usize, usize),
}

impl Layout {
    /// Room for every row of `groups`.
    pub fn new(groups: &[Group], size: Size) -> Self {
        let width = size.width();
        let rows = || groups.iter().flat_map(|group| &group.rows);
        let widest = |text: &dyn Fn(&ChartRow) -> String, most: f64| {
            let widest =
                rows().map(|row| style::text_width(&text(row), size.text())).max().unwrap_or(0);
            widest.min((most * f64::from(width)) as i32) + 14
        };
        let most = if size == Size::Narrow { 0.55 } else { 0.46 };
        let left = widest(&|row| row.name.clone(), most);
        let right = widest(&|row| figure(row, size).to_owned(), 0.4);
        let mut y = 2;
        let mut items = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            if !group.name.is_empty() {
                items.push((y + HEADING / 2 + 2, Item::Heading(index)));
                y += HEADING;
            }
            for row in 0..group.rows.len() {
                items.push((y + ROW / 2, Item::ChartRow(index, row)));
                y += ROW;
            }
        }
        Self { size, height: y + 4 + AXIS, left, right, items }
    }

    /// How many labels of that many characters fit below the plot.
    pub fn most_ticks(&self, characters: usize) -> usize {
        let plot = f64::from(self.size.width() - self.left - self.right);
        ((plot / (characters as f64 * style::SMALL * style::CHARACTER + 12.0)) as usize).max(2)
    }

    pub fn bottom(&self) -> i32 {
        self.height - AXIS
    }
}

fn figure(row: &ChartRow, size: Size) -> &str {
    match size {
        Size::Wide => &row.figure,
        Size::Narrow => &row.short_figure,
    }
}

/// Draws axis, backdrop, names, marks and figures, in this order.
pub fn draw(
    title: &str,
    (groups, layout): (&[Group], &Layout),
    (axis, name): (&Axis, &str),
    backdrop: &Backdrop<'_>,
    mark: &Mark<'_>,
) -> Result<Drawing, ReportError> {
    let width = layout.size.width();
    on_area(title, (width, layout.height), |area| {
        let (left, right) = (f64::from(layout.left + 6), f64::from(width - layout.right - 6));
        let x = |value: f64| {
            let share = ((value - axis.low) / (axis.high - axis.low)).clamp(0.0, 1.0);
            (left + share * (right - left)).round() as i32
        };
        let bottom = layout.bottom();
        for (value, label) in &axis.ticks {
            let x = x(*value);
            area.draw(&PathElement::new([(x, 0), (x, bottom + 4)], style::GRID.stroke_width(1)))?;
            let style = style::text(style::MUTED, style::SMALL, HPos::Center);
            area.draw(&Text::new(label.as_str(), (x, bottom + 17), style))?;
        }
        let middle = (layout.left + width - layout.right) / 2;
        let style = style::text(style::MUTED, style::SMALL, HPos::Center);
        area.draw(&Text::new(name, (middle, bottom + 37), style))?;
        backdrop(area, &x)?;
        for (y, item) in &layout.items {
            match item {
                Item::Heading(group) => {
                    // the grid makes room for the words
                    let corners = [(0, y - HEADING / 2 - 4), (width, y + HEADING / 2 - 4)];
                    area.draw(&Rectangle::new(corners, style::CARD.filled()))?;
                    let size = layout.size.text();
                    let style = style::bold(style::MUTED, size, HPos::Left);
                    let name = style::shortened(&groups[*group].name, size, width);
                    area.draw(&Text::new(name, (0, *y), style))?;
                }
                Item::ChartRow(group, row) => {
                    let row = &groups[*group].rows[*row];
                    let size = layout.size.text();
                    let name = style::shortened(&row.name, size, layout.left - 8);
                    let style = |anchor| style::text(style::INK, size, anchor);
                    area.draw(&Text::new(name, (layout.left - 8, *y), style(HPos::Right)))?;
                    mark(area, row, *y, &x)?;
                    let figure = figure(row, layout.size).to_owned();
                    area.draw(&Text::new(figure, (width, *y), style(HPos::Right)))?;
                }
            }
        }
        Ok(())
    })
}
