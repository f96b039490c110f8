//! A figure of the paper: a caption and its drawings, wide and narrow.

use serde::Serialize;

use crate::ReportError;
use crate::charts::Drawing;
use crate::charts::rows::Size;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Number in the paper, from 1; 0 until it has its place.
    pub number: usize,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// Its drawings, side by side where there is room.
    pub panels: Vec<Picture>,
}

/// A drawing with its text alternative.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Its title, which is also its text alternative.
    pub title: String,
    /// Its values in words.
    pub description: String,
    /// For a wide page, or for all.
    pub wide: Svg,
    /// For a phone, where the wide one is not legible.
    pub narrow: Option<Svg>,
}

/// A drawing for the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Svg {
    /// The `svg` element.
    pub svg: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
}

impl From<Drawing> for Svg {
    fn from(Drawing { svg, width, height }: Drawing) -> Self {
        Self { svg, width, height }
    }
}

/// A chart of rows in both sizes.
pub fn both(
    title: String,
    description: String,
    draw: impl Fn(Size) -> Result<Drawing, ReportError>,
) -> Result<Picture, ReportError> {
    let (wide, narrow) = (draw(Size::Wide)?.into(), Some(draw(Size::Narrow)?.into()));
    Ok(Picture { title, description, wide, narrow })
}
