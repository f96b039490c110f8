//! The JSON documents of a file, and what stands around them.
//!
//! Programs write warnings before a document and errors behind it, several documents into one file or into a list, and
//! numbers that JSON does not have.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{ImportError, MAX_TEXT};
use crate::json::items;

/// A part of a file.
pub(super) enum Part<'a> {
    Document(&'a RawValue),
    /// A line that is of no document.
    Line(Cow<'a, str>),
}

/// The parts of a file, one after the other.
pub(super) struct Parts<'a> {
    rest: &'a [u8],
    /// The documents of a list that are left.
    listed: Option<Box<dyn Iterator<Item = &'a RawValue> + 'a>>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        // writers in C may send the zero at the end of their string
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self { rest: &bytes[..end], listed: None }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.listed.as_mut().and_then(Iterator::next) {
                return Some(Ok(Part::Document(document)));
            }
            self.listed = None;
            let rest = self.rest.trim_ascii_start();
            if rest.is_empty() {
                return None;
            }
            if !is_document(rest) {
                let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                self.rest = &rest[end..];
                let shown = &rest[..end.min(4 * MAX_TEXT)];
                return Some(Ok(Part::Line(String::from_utf8_lossy(shown))));
            }
            let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
            match values.next()? {
                Ok(value) => {
                    self.rest = &rest[values.byte_offset()..];
                    match items(value) {
                        Some(items) => self.listed = Some(Box::new(items)),
                        None => return Some(Ok(Part::Document(value))),
                    }
                }
                Err(error) => {
                    self.rest = &[];
                    let expected = "JSON of iperf3, flent or k8s-netperf";
                    return Some(Err(ImportError::of_file(error.to_string(), expected)));
                }
            }
        }
    }
}

/// Whether an object or a list of objects begins. A bracket alone may begin a line of text: `[  5] local`.
pub(super) fn is_document(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((b'{', _)) => true,
        Some((b'[', rest)) => rest.trim_ascii_start().starts_with(b"{"),
        _ => false,
    }
}

/// What C and Python write for what is no number.
const NO_NUMBERS: [&[u8]; 3] = [b"nan", b"inf", b"infinity"];

/// The file with `null` for what is not a number, and with the sign of exponents that lost it (`5.9e 06`, of iperf 3.1.2);
/// and a sentence on each kind of change.
pub(super) fn mended(bytes: &[u8]) -> (Cow<'_, [u8]>, Vec<String>) {
    let mut mended = Vec::new();
    // what is before it is in `mended`
    let mut copied = 0;
    let (mut unknown, mut exponents) = (0u32, 0u32);
    let (mut quoted, mut before, mut at) = (false, b' ', 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            // no string of JSON has an end of line, but lines around documents may have one quotation mark
            b'\n' => quoted = false,
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            _ if quoted => {}
            b'n' | b'N' | b'i' | b'I' | b'-' | b'+' if matches!(before, b':' | b',' | b'[') => {
                let word = at + usize::from(matches!(byte, b'-' | b'+'));
                let letters = bytes[word..].iter().take_while(|byte| byte.is_ascii_alphabetic());
                let end = word + letters.count();
                if NO_NUMBERS.iter().any(|no| bytes[word..end].eq_ignore_ascii_case(no)) {
                    mended.extend_from_slice(&bytes[copied..at]);
                    mended.extend_from_slice(b"null");
                    (copied, at, before) = (end, end, b'l');
                    unknown = unknown.saturating_add(1);
                    continue;
                }
            }
            b' ' if at >= 2
                && matches!(bytes[at - 1], b'e' | b'E')
                && bytes[at - 2].is_ascii_digit()
                && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) =>
            {
                mended.extend_from_slice(&bytes[copied..at]);
                mended.push(b'+');
                copied = at + 1;
                exponents = exponents.saturating_add(1);
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
        at += 1;
    }
    let mut remarks = Vec::new();
    if unknown > 0 {
        remarks.push(format!(
            "The file has \"nan\" or \"inf\" for {unknown} values, which is not JSON: these are \
             not known."
        ));
    }
    if exponents > 0 {
        remarks.push(format!(
            "The file has a blank for the sign of {exponents} exponents, which is not JSON: it is \
             read as a plus."
        ));
    }
    if copied == 0 {
        return (Cow::Borrowed(bytes), remarks);
    }
    mended.extend_from_slice(&bytes[copied..]);
    (Cow::Owned(mended), remarks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> Vec<String> {
        let shown = |part: Result<Part<'_>, ImportError>| match part {
            Ok(Part::Document(document)) => document.get().to_owned(),
            Ok(Part::Line(line)) => format!("line {line}"),
            Err(error) => format!("error {error}"),
        };
        Parts::of(text.as_bytes()).map(shown).collect()
    }

    #[test]
    fn documents_stand_alone_in_lists_and_between_lines() {
        let found =
            parts("a \"warning\"\n{\"a\":[1]}\r\n[ {\"b\":2}, {} ]\n[  5] local\n{}\nfailed\0");
        assert_eq!(
            found,
            [
                "line a \"warning\"",
                "{\"a\":[1]}",
                "{\"b\":2}",
                "{}",
                "line [  5] local",
                "{}",
                "line failed"
            ]
        );
        assert!(parts("{\"a\":").remove(0).starts_with("error EOF"));
        assert!(parts(" \n\0").is_empty());
    }

    #[test]
    fn numbers_that_json_does_not_have_are_null() {
        let of = |text: &str| {
            let (mended, remarks) = mended(text.as_bytes());
            (String::from_utf8(mended.into_owned()).unwrap(), remarks.len())
        };
        let text =
            "{\"nan\": -nan, \"a\": [NaN,inf , -Infinity], \"b\\\"\": \"x: nan\", \"c\":nano}";
        let right = "{\"nan\": null, \"a\": [null,null , null], \"b\\\"\": \"x: nan\", \"c\":nano}";
        assert_eq!(of(text), (right.to_owned(), 1));
        assert_eq!(
            of("{\"a\":5.9e 06, \"b\":1e-05}"),
            ("{\"a\":5.9e+06, \"b\":1e-05}".to_owned(), 1)
        );
        assert_eq!(of("a \"b\n{\"a\":nan}").0, "a \"b\n{\"a\":null}");
        let (same, remarks) = mended(b"{\"a\":-1}");
        assert!(matches!(same, Cow::Borrowed(_)) && remarks.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_have_parts(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (bytes, _) = mended(&bytes);
            prop_assert!(Parts::of(&bytes).count() <= bytes.len());
        }

        #[test]
        fn json_is_not_changed(text in "\\PC{0,40}", number in any::<f64>()) {
            let document = serde_json::json!({text.clone(): [text, number, null, true]}).to_string();
            prop_assert!(matches!(mended(document.as_bytes()).0, Cow::Borrowed(_)));
        }
    }
}
