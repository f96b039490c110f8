//! `report.html`: one file that needs no network, no script and no colour.
//!
//! - `charts`: bars and effects as SVG, drawn with plotters
//! - `pictures`: which charts a report has, and what is in each
//! - `plot`: rows, axis and text that all charts share
//! - `view`: results as the strings that the template puts in place
//!
//! The page itself is `templates/report.html` with `templates/report.css`. Charts are drawn twice,
//! for wide and for narrow screens, and the style sheet shows one: a chart that is only scaled
//! down is not legible on a phone.

mod charts;
mod pictures;
mod plot;
mod view;

use linkrate_study::results::StudyResults;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};

use crate::ReportError;

const TEMPLATE: &str = include_str!("../../templates/report.html");

/// The page. The same results give the same bytes.
///
/// # Errors
/// [`ReportError::Chart`] if a chart cannot be drawn, [`ReportError::Template`] if the template
/// does not fit; neither depends on what was measured.
pub fn page(results: &StudyResults) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()?,
    );
    // the name's ending turns on escaping: everything but the charts and the style sheet is text
    environment.add_template("report.html", TEMPLATE)?;
    let page = environment.get_template("report.html")?.render(Serde(view::View::new(results)?))?;
    // HTML has no place for control characters, not even escaped
    Ok(page.replace(|c: char| c.is_control() && c != '\n', " "))
}
