//! Text of the peer: bounded and cleaned once, where it is decoded. A long string could fill a
//! results directory.

use linkrate_model::clean;
use serde_json::Value;

/// The most characters of one string of the peer.
const TEXT_CHARACTERS: usize = 1024;

/// `text` as one line without characters that act on a display ([`clean::line`]), of at most 1024
/// characters; a longer text is cut.
pub fn cleaned(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARACTERS) {
        None => clean::line(text).into_owned(),
        // with room for the dots, so that a text that was cut is not cut again
        Some(_) => clean::short_line(text, TEXT_CHARACTERS - 3).into_owned(),
    }
}

/// Cleans every string in a JSON value, and the keys of its objects.
pub(super) fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = cleaned(text),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(map) => {
            for (key, mut value) in std::mem::take(map) {
                clean(&mut value);
                map.insert(cleaned(&key), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cleaned_and_cut_once() {
        assert_eq!(cleaned("6.12.0 \u{4e2d}\u{1b}[2J"), "6.12.0 \u{4e2d}\u{fffd}[2J");
        for text in ["x".repeat(5000), "\u{4e2d}".repeat(5000), "\u{1b}".repeat(5000)] {
            let clean = cleaned(&text);
            assert_eq!(clean.chars().count(), TEXT_CHARACTERS);
            assert!(clean.ends_with("..."), "{clean}");
            assert_eq!(cleaned(&clean), clean);
        }
        assert_eq!(cleaned(&"x".repeat(TEXT_CHARACTERS)), "x".repeat(TEXT_CHARACTERS));
    }
}
