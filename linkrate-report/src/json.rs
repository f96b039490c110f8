//! The one JSON document of `--json`.
//!
//! Its shape is the one of [`StudyResults`]; `format` says which version of it. Keys are only ever
//! added within a version. A figure that does not exist is `null`.

use linkrate_study::results::StudyResults;

/// The document, indented, with a newline at its end.
///
/// # Panics
/// Never: every map in the results has strings for keys, and nothing else can fail in memory.
pub fn document(results: &StudyResults) -> String {
    let mut text =
        serde_json::to_string_pretty(results).expect("results have only string keys in maps");
    text.push('\n');
    text
}
