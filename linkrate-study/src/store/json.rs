//! Sanitises untrusted JSON before parsing.
//!
//! A results directory may come from anywhere, and what it holds reaches terminals, pages and
//! tables. So every text is cleaned here ([`linkrate_model::clean`]), whichever type it is read into
//! later. Counts are bounded, so that no sum of them overflows. What linkrate wrote itself stays as
//! it is.

use linkrate_model::clean::{REPLACEMENT, is_harmful};

/// Largest whole number that is read: the largest that a float holds with all its digits
/// (IEEE 754, 53 bits). A sum of two thousand such counts fits 64 bits.
pub const MAX_COUNT: u64 = 1 << 53;

/// The key of a value that takes every number: seeds are random.
const SEED: &str = "seed";

/// The key of values that have lines: study files.
const SOURCE: &str = "source";

/// The document with its texts cleaned. The same texts as before may be written otherwise. A number above [`MAX_COUNT`]
/// is an error. Text that is not JSON comes back as it was, or cut into other text that is not JSON.
pub(super) fn harmless(document: &[u8]) -> Result<Vec<u8>, String> {
    // whoever parses it says what is wrong
    let Ok(text) = std::str::from_utf8(document) else { return Ok(document.to_vec()) };
    let mut clean = String::with_capacity(text.len());
    let mut key = "";
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let end = end_of_text(rest);
                let is_key = rest[end..].trim_ascii_start().starts_with(':');
                if is_key {
                    key = rest[..end].trim_matches('"');
                }
                clean_text(&rest[..end], key == SOURCE && !is_key, &mut clean);
                end
            }
            '-' | '0'..='9' => {
                let in_number =
                    |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
                let end = rest.find(|c| !in_number(c)).unwrap_or(rest.len());
                check_number(&rest[..end], key)?;
                clean.push_str(&rest[..end]);
                end
            }
            _ => {
                let stops = |c: char| matches!(c, '"' | '-' | '0'..='9');
                let end = rest.find(stops).unwrap_or(rest.len());
                clean.push_str(&rest[..end]);
                end
            }
        };
        rest = &rest[length..];
    }
    Ok(clean.into_bytes())
}

/// The length of a text with its quotation marks; of everything if it has no end.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Adds a text with its quotation marks, every harmful character of it replaced.
fn clean_text(text: &str, has_lines: bool, clean: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(|c| c == '\\' || is_harmful(c)) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, c) = character(rest);
        match c {
            Some('\n' | '\t') if has_lines => clean.push_str(&rest[..length]),
            Some('\n' | '\t' | '\r') => clean.push(' '),
            Some(c) if is_harmful(c) => clean.push(REPLACEMENT),
            _ => clean.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    clean.push_str(rest);
}

/// The first character, with the length that it is written in. Half a surrogate pair is `None`, and
/// so is an escape that JSON does not have.
fn character(text: &str) -> (usize, Option<char>) {
    let mut chars = text.chars();
    let first = chars.next();
    if first != Some('\\') {
        return (first.map_or(0, char::len_utf8), first);
    }
    let Some(kind) = chars.next() else { return (1, None) };
    let escaped = match kind {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'u' => {
            let unit = text.get(2..6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
            return match unit {
                Some(unit) => (6, char::from_u32(unit)),
                None => (2, None),
            };
        }
        _ => None,
    };
    (1 + kind.len_utf8(), escaped)
}

fn check_number(number: &str, key: &str) -> Result<(), String> {
    let digits = number.trim_start_matches('-');
    let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    // a number that does not fit is above it too
    let fits = digits.parse::<u64>().is_ok_and(|number| number <= MAX_COUNT);
    if whole && !fits && key != SEED {
        let key = linkrate_model::clean::short_line(key, 64);
        let number = linkrate_model::clean::short_line(number, 64);
        return Err(format!("{key} is {number}, expected at most {MAX_COUNT}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn cleaned(text: &str) -> String {
        String::from_utf8(harmless(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn texts_are_cleaned_however_they_are_written() {
        for (text, expected) in [
            (r#"{"a":"\u001b[2J\n\tx\"\\n"}"#, "{\"a\":\"\u{fffd}[2J  x\\\"\\\\n\"}"),
            (r#"{"\u009bk": ["\u202e", "\b"]}"#, "{\"\u{fffd}k\": [\"\u{fffd}\", \"\u{fffd}\"]}"),
            ("[\"\u{9b}1\u{7f}\"]", "[\"\u{fffd}1\u{fffd}\"]"),
            (r#"{"source":"a\n\tb\r","x":"a\n"}"#, "{\"source\":\"a\\n\\tb \",\"x\":\"a \"}"),
            (r#"["\ud83d\ude00é"]"#, r#"["\ud83d\ude00é"]"#),
        ] {
            assert_eq!(cleaned(text), expected);
        }
    }

    #[test]
    fn counts_are_bounded_and_seeds_and_fractions_are_not() {
        let refused = |text: &str| harmless(text.as_bytes()).unwrap_err();
        assert_eq!(
            refused(r#"{"busy_ns": 9007199254740993}"#),
            "busy_ns is 9007199254740993, expected at most 9007199254740992"
        );
        assert!(refused("[99999999999999999999999]").contains("expected at most"));
        for text in [
            r#"{"seed":18446744073709551615,"a":9007199254740992}"#,
            r#"{"a":0.12345678901234567,"b":1e300,"c":-12,"d":"99999999999999999999"}"#,
        ] {
            assert_eq!(cleaned(text), text);
        }
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..=MAX_COUNT).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z\\PC]{0,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn has_harmful(value: &Value) -> bool {
        let harmful = |text: &str| text.contains(is_harmful);
        match value {
            Value::String(text) => harmful(text),
            Value::Array(list) => list.iter().any(has_harmful),
            Value::Object(map) => map.iter().any(|(k, v)| harmful(k) || has_harmful(v)),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_document_keeps_everything_but_its_harmful_characters(value in documents()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            let read: Value = serde_json::from_str(&cleaned(&text)).unwrap();
            prop_assert!(!has_harmful(&read), "{read:?}");
            if !has_harmful(&value) {
                prop_assert_eq!(read, value);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60),
                                  text in "[\"\\\\u0-9a-f{}:,é-]{0,40}") {
            let _ = harmless(&bytes);
            let _ = harmless(text.as_bytes());
        }
    }

    #[test]
    fn what_is_written_by_linkrate_stays_as_it_is() {
        let text =
            serde_json::to_string(&json!({"a": [1, 2.5, "TSO ±2 %", null], "b": {}})).unwrap();
        assert_eq!(cleaned(&text), text);
    }
}
