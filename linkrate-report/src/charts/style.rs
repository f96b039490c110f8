//! Colours, patterns, markers and text.
//!
//! Colours are fixed and exchanged by the style sheet for the dark scheme, which selects them by
//! their value; `tests/report/html.rs` holds the two together. There are no font metrics without
//! a font system, so widths of text are estimated generously and text is anchored, not measured.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What drawing returns.
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
/// The drawing area of the whole chart, in pixels.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Names, figures and whiskers.
pub const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
/// Axis labels and names of groups.
pub const MUTED: RGBColor = RGBColor(0x5A, 0x67, 0x75);
/// What the chart lies on; also the inside of hollow points.
pub const CARD: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Grid lines.
pub const GRID: RGBColor = RGBColor(0xDC, 0xE1, 0xE7);
/// Where an effect is too small to be claimed.
pub const BAND: RGBColor = RGBColor(0xE6, 0xEB, 0xF1);
/// A claimed effect.
pub const ACCENT: RGBColor = RGBColor(0x1D, 0x5F, 0xA8);
/// What theory allows.
pub const LIMIT: RGBColor = RGBColor(0xB0, 0x3A, 0x2E);

/// Lines of series, over and over. A kind has one hue, as a line and as a [surface](SURFACES).
const LINES: [RGBColor; 6] = [
    MUTED,
    RGBColor(0xB4, 0x5F, 0x06),
    ACCENT,
    RGBColor(0x6B, 0x4C, 0x9A),
    RGBColor(0x2F, 0x7D, 0x70),
    INK,
];

/// Dashes of series: lengths of strokes and gaps, over and over.
const DASHES: [&[f64]; 6] =
    [&[], &[9.0, 4.0], &[2.0, 4.0], &[10.0, 4.0, 2.0, 4.0], &[5.0, 3.0], &[1.0, 2.0]];

/// Size of text in pixels.
pub const TEXT: f64 = 14.0;
/// Size of small text in pixels.
pub const SMALL: f64 = 13.0;
/// A generous mean width of a character, as a share of its size: fonts that browsers fall back to
/// are wide.
pub const CHARACTER: f64 = 0.6;
/// The SVG backend divides sizes by this.
const BACKEND: f64 = 1.24;

/// A generous width of text of `size`, in pixels.
pub fn text_width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * size * CHARACTER).ceil() as i32
}

/// Text of a colour whose `anchor` lies at the point where it is drawn, centred on its line.
pub fn text(color: RGBColor, size: f64, anchor: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", size * BACKEND).into_font();
    font.color(&color).pos(Pos::new(anchor, VPos::Center))
}

/// The same in bold.
pub fn bold(color: RGBColor, size: f64, anchor: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", size * BACKEND, FontStyle::Bold).into_font();
    font.color(&color).pos(Pos::new(anchor, VPos::Center))
}

/// The text, cut where it would run out of `room` pixels; the tables have it whole.
pub fn shortened(text: &str, size: f64, room: i32) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let most = (f64::from(room) / (size * CHARACTER)) as usize;
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The line of a series.
pub fn line(kind: usize) -> RGBColor {
    LINES[kind % LINES.len()]
}

pub fn dashes(kind: usize) -> &'static [f64] {
    DASHES[kind % DASHES.len()]
}

/// What lies over the colour of a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Plain,
    Rising,
    Falling,
    Level,
    Dots,
    Cross,
}

/// Surfaces, which differ without their colours too.
const SURFACES: [(RGBColor, Pattern); 12] = [
    (RGBColor(0xE4, 0xEA, 0xF1), Pattern::Plain),
    (RGBColor(0xF3, 0xE3, 0xC7), Pattern::Rising),
    (RGBColor(0x2A, 0x6F, 0xB8), Pattern::Plain),
    (RGBColor(0xD9, 0xCF, 0xE8), Pattern::Falling),
    (RGBColor(0xBF, 0xE0, 0xD9), Pattern::Cross),
    (RGBColor(0xE4, 0xEA, 0xF1), Pattern::Dots),
    (RGBColor(0xA9, 0xC4, 0xE2), Pattern::Level),
    (RGBColor(0x4B, 0x9B, 0x8E), Pattern::Rising),
    (RGBColor(0xF3, 0xE3, 0xC7), Pattern::Dots),
    (RGBColor(0x2A, 0x6F, 0xB8), Pattern::Level),
    (RGBColor(0xBF, 0xE0, 0xD9), Pattern::Plain),
    (RGBColor(0xD9, 0xCF, 0xE8), Pattern::Cross),
];

/// Pixels between the lines of a pattern.
const HATCH: i32 = 6;

/// Fills a rectangle, from its upper left to its lower right corner, with the surface of a kind.
pub fn surface(area: &Area<'_>, corners: [(i32, i32); 2], kind: usize) -> Drawn {
    let [(left, top), (right, bottom)] = corners;
    let (color, pattern) = SURFACES[kind % SURFACES.len()];
    area.draw(&Rectangle::new(corners, color.filled()))?;
    let pen = INK.stroke_width(1);
    let slanted = |rising: bool| -> Drawn {
        let (width, height) = (right - left, bottom - top);
        for start in (HATCH / 2..width + height).step_by(HATCH as usize) {
            // along x + y = start from the corner, cut at the four edges
            let (x0, y0) = if start <= height { (0, start) } else { (start - height, height) };
            let (x1, y1) = if start <= width { (start, 0) } else { (width, start - width) };
            let x = |x: i32| if rising { left + x } else { right - x };
            area.draw(&PathElement::new([(x(x0), top + y0), (x(x1), top + y1)], pen))?;
        }
        Ok(())
    };
    match pattern {
        Pattern::Plain => {}
        Pattern::Rising => slanted(true)?,
        Pattern::Falling => slanted(false)?,
        Pattern::Cross => {
            slanted(true)?;
            slanted(false)?;
        }
        Pattern::Level => {
            for y in (top + HATCH / 2..bottom).step_by(HATCH as usize) {
                area.draw(&PathElement::new([(left, y), (right, y)], pen))?;
            }
        }
        Pattern::Dots => {
            for (row, y) in (top + 4..bottom - 1).step_by(HATCH as usize).enumerate() {
                let shift = if row % 2 == 0 { 0 } else { HATCH / 2 };
                for x in (left + 3 + shift..right - 1).step_by(HATCH as usize) {
                    area.draw(&Circle::new((x, y), 1, INK.filled()))?;
                }
            }
        }
    }
    area.draw(&Rectangle::new(corners, pen))
}

pub fn marker(area: &Area<'_>, (x, y): (i32, i32), kind: usize) -> Drawn {
    let color = line(kind);
    let around = |radius: i32| -> [(i32, i32); 4] {
        [
            (x - radius, y - radius),
            (x + radius, y - radius),
            (x + radius, y + radius),
            (x - radius, y + radius),
        ]
    };
    let diamond =
        |radius: i32| [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)];
    match kind % 6 {
        0 => area.draw(&Circle::new((x, y), 5, color.filled())),
        1 => {
            area.draw(&Polygon::new(around(5), color.filled()))?;
            area.draw(&Polygon::new(around(3), CARD.filled()))
        }
        2 => area.draw(&Polygon::new([(x, y - 6), (x + 6, y + 5), (x - 6, y + 5)], color.filled())),
        3 => {
            area.draw(&Polygon::new(diamond(7), color.filled()))?;
            area.draw(&Polygon::new(diamond(4), CARD.filled()))
        }
        4 => {
            area.draw(&PathElement::new([(x - 5, y - 5), (x + 5, y + 5)], color.stroke_width(2)))?;
            area.draw(&PathElement::new([(x - 5, y + 5), (x + 5, y - 5)], color.stroke_width(2)))
        }
        _ => {
            area.draw(&Circle::new((x, y), 5, color.filled()))?;
            area.draw(&Circle::new((x, y), 3, CARD.filled()))
        }
    }
}

/// A line through points, in strokes and gaps of those lengths; without any it is whole.
pub fn dashed(
    area: &Area<'_>,
    points: &[(i32, i32)],
    pattern: &[f64],
    color: RGBColor,
    width: u32,
) -> Drawn {
    let pen = color.stroke_width(width);
    if pattern.is_empty() {
        return area.draw(&PathElement::new(points.to_vec(), pen));
    }
    // how far along the line the piece begins; every piece has some length, so it always moves on
    let (mut piece, mut begin) = (0, 0.0);
    let mut base = 0.0;
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (x1 - x0).hypot(y1 - y0);
        if length == 0.0 {
            continue;
        }
        let at = |way: f64| {
            let share = ((way - base) / length).clamp(0.0, 1.0);
            ((x0 + (x1 - x0) * share).round() as i32, (y0 + (y1 - y0) * share).round() as i32)
        };
        while begin < base + length {
            let end = begin + pattern[piece % pattern.len()];
            if piece % 2 == 0 {
                area.draw(&PathElement::new([at(begin), at(end)], pen))?;
            }
            if end > base + length {
                break;
            }
            begin = end;
            piece += 1;
        }
        base += length;
    }
    Ok(())
}

/// An upright interval with a foot at each end.
pub fn whisker(
    area: &Area<'_>,
    x: i32,
    (low, high): (i32, i32),
    foot: i32,
    color: RGBColor,
) -> Drawn {
    let pen = color.stroke_width(2);
    area.draw(&PathElement::new([(x, low), (x, high)], pen))?;
    for y in [low, high] {
        area.draw(&PathElement::new([(x - foot, y), (x + foot, y)], pen))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("transmit", 14.0, 68), "transmit");
        assert_eq!(shortened("transmitted", 14.0, 68), "transmi…");
    }

    /// Dashes end where the line ends, whatever is left of a piece at a corner.
    #[test]
    fn dashes_come_to_an_end() {
        let drawing = super::super::on_area("dashes", (400, 400), |area| {
            for kind in 0..DASHES.len() {
                for x in 0..400 {
                    let line = [(0, 0), (x, x / 3), (x, x / 3), (x / 2, 399)];
                    dashed(area, &line, dashes(kind), INK, 1)?;
                }
            }
            Ok(())
        });
        let svg = drawing.unwrap().svg;
        assert!(svg.matches("<polyline").count() > 10_000, "{}", svg.len());
    }

    /// What is warm, blue or green as a line is so as a bar.
    #[test]
    fn a_kind_has_one_hue_as_line_and_as_surface() {
        let hue = |RGBColor(red, green, blue): RGBColor| {
            let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
            match i32::from(most - least) * 100 / i32::from(most) {
                // ink and greys have none
                ..40 if most < 0x80 => "none",
                ..8 => "none",
                _ if red == most && blue == least => "warm",
                _ if blue == most && red > green => "violet",
                _ if blue == most => "blue",
                _ => "green",
            }
        };
        for (kind, (surface, _)) in SURFACES.iter().enumerate().take(LINES.len()) {
            assert_eq!(hue(line(kind)), hue(*surface), "{kind}");
        }
    }

    #[test]
    fn surfaces_differ_without_colour() {
        let is_dark = |color: RGBColor| {
            u32::from(color.0) + u32::from(color.1) + u32::from(color.2) < 3 * 128
        };
        let first: Vec<_> =
            SURFACES[..7].iter().map(|(color, pattern)| (is_dark(*color), *pattern)).collect();
        for (index, surface) in first.iter().enumerate() {
            assert!(!first[..index].contains(surface), "{index}");
        }
    }
}
