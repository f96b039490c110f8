//! `report.html`: one file that needs no network, no script and no colour.
//!
//! - [`charts`]: bars and effects as SVG, drawn with plotters
//! - `plot`: rows, axis and text that all charts share
//! - [`view`]: results as the strings that the template puts in place
//!
//! The page itself is `templates/report.html` with `templates/report.css`. Charts are drawn twice,
//! for wide and for narrow screens, and the style sheet shows one: a chart that is only scaled
//! down is not legible on a phone.

pub mod charts;
mod plot;
pub mod view;

use linkrate_study::results::StudyResults;
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
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(true);
    // the name's ending turns on escaping: everything but the charts and the style sheet is text
    environment.add_template("report.html", TEMPLATE)?;
    Ok(environment.get_template("report.html")?.render(view::View::new(results)?)?)
}
