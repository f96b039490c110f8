//! Names as a user gives them: cut for messages, and compared with those that are valid.

use linkrate_model::nearest::nearest;

/// The longest text that may be a value. Longer text is cut in messages. It is not compared with
/// valid names, because the cost of that grows with the length.
pub(crate) const MAX_TEXT: usize = 64;

/// The beginning of a text, short enough for a message.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The nearest of `candidates`, unless `given` is too long to be a mistyped name.
pub(crate) fn nearest_name<'a>(
    given: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if given.len() > MAX_TEXT { None } else { nearest(given, candidates) }
}
