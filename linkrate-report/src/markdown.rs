//! `report.md`: the paper as Markdown that GitHub shows well, with its figures as SVG files beside
//! it. The text is `templates/report.md`; its content is [`crate::paper`].

use linkrate_study::results::StudyResults;
use serde::Serialize;

use crate::ReportError;
use crate::paper::figure::{Figure, Picture};
use crate::paper::{Paper, render};

const TEMPLATE: &str = include_str!("../templates/report.md");
const FIGURE: &str = include_str!("../templates/figure.svg");

/// A document and the figures that it refers to by their relative names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markdown {
    pub text: String,
    /// Name of the file and its SVG, to be written beside the text.
    pub figures: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Document<'a> {
    paper: Paper<'a>,
}

/// The document. The same results give the same bytes.
pub fn document(results: &StudyResults) -> Result<Markdown, ReportError> {
    let mut paper = Paper::new(results)?;
    let mut files = Vec::new();
    for figure in paper.figures_mut() {
        for (index, picture) in figure.panels.iter().enumerate() {
            files.push((file_name(figure, index), file(picture)?));
        }
    }
    let text = render("report.md", TEMPLATE, &Document { paper })?;
    let text = text.replace(|c: char| c.is_control() && c != '\n', " ");
    Ok(Markdown { text: settled(&text), figures: files })
}

/// `figure-3-b.svg`; the template makes the same names.
fn file_name(figure: &Figure, index: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(index.min(25)).unwrap_or(25));
    format!("figure-{}-{letter}.svg", figure.number)
}

/// A drawing as a separate file, on white, since its background is not known.
fn file(picture: &Picture) -> Result<String, ReportError> {
    let svg = render("figure.svg", FIGURE, picture)?;
    Ok(svg.replace(|c: char| c.is_control() && c != '\n', " "))
}

/// The text with at most one empty line in a row.
fn settled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_no_repeated_empty_lines() {
        assert_eq!(settled("a\n\n\n\nb  \n"), "a\n\nb\n");
    }
}
