//! Text of the far end: bounded and cleaned once, where it is decoded.
//!
//! Strings of another machine reach terminals, reports and logs. A control character could drive a
//! terminal, a change of the writing direction could disguise a name, and a long string could fill
//! a results directory.

use serde_json::Value;

/// The most bytes of one string of the far end.
pub(super) const TEXT_BYTES: usize = 1024;

/// The end of a string that was cut.
const CUT: &str = "\u{2026}";

/// `text` with each character that is not printed as itself replaced by its escape (`\u{1b}`), and
/// cut to 1024 bytes.
pub fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(TEXT_BYTES));
    for character in text.chars() {
        if is_printable(character) {
            clean.push(character);
        } else {
            clean.extend(character.escape_unicode());
        }
        if clean.len() > TEXT_BYTES {
            let mut end = TEXT_BYTES - CUT.len();
            while !clean.is_char_boundary(end) {
                end -= 1;
            }
            clean.truncate(end);
            clean.push_str(CUT);
            break;
        }
    }
    clean
}

/// Neither a control character, nor a line separator, nor invisible, nor one that changes the
/// direction of text (Unicode Standard Annex 9, section 2).
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        )
}

/// Cleans every string in a JSON value, and the keys of its objects.
pub(super) fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            if text.len() > TEXT_BYTES || !text.chars().all(is_printable) {
                *text = cleaned(text);
            }
        }
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
    fn nothing_drives_a_terminal_or_changes_direction() {
        for (text, clean) in [
            ("6.12.0-amd64 \u{e9}\u{4e2d}", "6.12.0-amd64 \u{e9}\u{4e2d}"),
            ("\u{1b}[31mred\u{7}", r"\u{1b}[31mred\u{7}"),
            ("\u{9b}2J", r"\u{9b}2J"),
            ("a\nb\u{2028}c", r"a\u{a}b\u{2028}c"),
            ("\u{202e}txt", r"\u{202e}txt"),
        ] {
            assert_eq!(cleaned(text), clean);
            assert_eq!(cleaned(clean), clean);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for text in ["x".repeat(5000), "\u{4e2d}".repeat(5000), "\u{1b}".repeat(5000)] {
            let clean = cleaned(&text);
            assert!(clean.len() <= TEXT_BYTES && clean.ends_with(CUT), "{clean}");
            assert_eq!(cleaned(&clean), clean);
        }
        assert_eq!(cleaned(&"x".repeat(TEXT_BYTES)), "x".repeat(TEXT_BYTES));
    }
}
