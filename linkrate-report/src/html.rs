//! `report.html`: one file that needs no network, no script and no colour.
//!
//! The page is `templates/report.html` with `templates/report.css`; its content is
//! [`crate::paper`]. Charts whose rows have names are drawn twice, for wide and for narrow screens,
//! and the style sheet shows one: a chart that is only scaled down is not legible on a phone.

use linkrate_model::clean::is_harmful;
use linkrate_study::results::StudyResults;
use serde::Serialize;

use crate::ReportError;
use crate::paper::{Paper, render};

const TEMPLATE: &str = include_str!("../templates/report.html");

/// Everything on the page.
#[derive(Serialize)]
struct Page<'a> {
    css: &'static str,
    paper: Paper<'a>,
}

/// The page. The same results give the same bytes.
pub fn page(results: &StudyResults) -> Result<String, ReportError> {
    let css = include_str!("../templates/report.css");
    let page = render("report.html", TEMPLATE, &Page { css, paper: Paper::new(results)? })?;
    // HTML has no place for control characters, not even escaped
    Ok(page.replace(|c: char| is_harmful(c) && c != '\n', " "))
}
