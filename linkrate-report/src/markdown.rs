//! `report.md`: the paper as Markdown that GitHub shows well, with its figures as SVG files beside
//! it. The text is `templates/report.md`; what it says is [`crate::paper`].

use linkrate_study::results::StudyResults;
use serde::Serialize;

use crate::ReportError;
use crate::paper::figures::{Figure, Picture};
use crate::paper::{Paper, render};

const TEMPLATE: &str = include_str!("../templates/report.md");
const FIGURE: &str = include_str!("../templates/figure.svg");

/// A document and the figures that it refers to by their relative names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markdown {
    /// The text.
    pub text: String,
    /// Name of the file and its SVG, to be written beside the text.
    pub figures: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Document<'a> {
    paper: Paper<'a>,
}

/// The document. The same results give the same bytes.
///
/// # Errors
/// [`ReportError::Chart`] if a figure cannot be drawn, [`ReportError::Template`] if the template
/// does not fit; neither depends on what was measured.
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

/// A drawing as a file of its own, on a white ground, since what lies around it is not known.
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

/// Text that says in Markdown, in a table's cell too, what it says: without markup, HTML or line
/// breaks of its own.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Text as a block of code, in a fence that is longer than any within it.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}toml\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("a|b *c* <d> `e`\nf"), "a\\|b \\*c\\* &lt;d&gt; \\`e\\` f");
        assert_eq!(escaped("rx_usecs [1]"), "rx\\_usecs \\[1\\]");
        assert_eq!(escaped("±2.5 %, 1.0 to 2.0"), "±2.5 %, 1.0 to 2.0");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("a"), "```toml\na\n```");
        assert!(fenced("a ```` b").starts_with("`````toml\n"));
    }

    #[test]
    fn empty_lines_are_not_heaped_up() {
        assert_eq!(settled("a\n\n\n\nb  \n"), "a\n\nb\n");
    }
}
