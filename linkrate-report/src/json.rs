//! The one JSON document of `--json`.
//!
//! Its shape is the one of the type: for results
//! [`StudyResults`](linkrate_study::results::StudyResults). `format` says which version of it. Keys are only ever
//! added within a version. A figure that does not exist is `null`.

use serde::Serialize;

/// JSON Schema (2020-12) of [`document`]. It has every key and refuses any other.
pub const RESULTS_SCHEMA: &str = include_str!("../../docs/src/reference/results.schema.json");

/// JSON Schema (2020-12) of [`crate::comparison::document`].
pub const COMPARISON_SCHEMA: &str = include_str!("../../docs/src/reference/comparison.schema.json");

/// JSON Schema (2020-12) of [`crate::trend::document`].
pub const TREND_SCHEMA: &str = include_str!("../../docs/src/reference/trend.schema.json");

/// A document, indented, with a newline at its end.
///
/// # Panics
/// Never: every map in a document has strings for keys, and nothing else can fail in memory.
pub fn document(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("only string keys in maps");
    text.push('\n');
    text
}
