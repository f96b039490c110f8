//! JSON documents behind their length, and fields that are read one by one.
//!
//! Writers differ in how they print a number (`5`, `5.0`, `1e+12`), and versions in the fields that they know. So a
//! reader takes the fields that it knows out of any object, and says which one is wrong.
//!
//! Values stay text until they are asked for: a document costs what its text does, whatever is in it.

use std::collections::BTreeMap;

use linkrate_model::clean::short_line;
use serde::Serialize;
use serde_json::value::RawValue;

/// Octets of the length before a document.
pub const LENGTH_BYTES: usize = 4;

/// The largest whole number that each JSON number up to it can tell apart: 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Most characters of a value of the peer in an error.
const SHOWN: usize = 64;

/// Most fields of one object.
pub const MAX_FIELDS: usize = 4096;

/// A document that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JsonError {
    /// It is longer than any honest one.
    #[error("a document of {found} bytes, expected 1 to {most}")]
    Length {
        found: u32,
        /// The most that is read.
        most: u32,
    },
    /// It has more values than any honest one.
    #[error("a document of {found} values, expected at most {most}")]
    Values {
        found: usize,
        /// The most that are read.
        most: usize,
    },
    /// It is no JSON, or no object.
    #[error("{0}, expected a JSON object")]
    Malformed(String),
    /// It has more fields than any honest one.
    #[error("more than {MAX_FIELDS} fields, expected at most {MAX_FIELDS} in an object")]
    Fields,
    /// A field is missing.
    #[error("no field {0:?}")]
    Missing(&'static str),
    /// A field has a value of another kind, or out of its range.
    #[error("field {key:?} is {found}, expected {expected}")]
    Field { key: &'static str, found: String, expected: String },
}

/// The document as it is sent: four octets with its length in network order, and its text. `None` if it is
/// longer than the length can say.
#[must_use]
pub fn framed(document: &impl Serialize) -> Option<Vec<u8>> {
    let mut text = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut text, document).ok()?;
    let length = u32::try_from(text.len() - LENGTH_BYTES).ok()?;
    text[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Some(text)
}

/// The length that is announced, if it is from 1 to `most`. Every other one is refused before anything of the document
/// is read.
pub fn length(announced: [u8; LENGTH_BYTES], most: u32) -> Result<usize, JsonError> {
    let found = u32::from_be_bytes(announced);
    match usize::try_from(found) {
        Ok(length) if (1..=most).contains(&found) => Ok(length),
        _ => Err(JsonError::Length { found, most }),
    }
}

/// The fields of a document, or of an object in it.
#[derive(Debug, Clone, Default)]
pub struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads a document without its length, which must be an object.
    pub fn parse(document: &'a [u8]) -> Result<Self, JsonError> {
        // writers in C may send the zero at the end of their string
        let end = document.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        match serde_json::from_slice(&document[..end]) {
            Ok(value) => Self::of(value),
            Err(error) => Err(JsonError::Malformed(error.to_string())),
        }
    }

    /// The fields of an object.
    pub fn of(value: &'a RawValue) -> Result<Self, JsonError> {
        let malformed = || JsonError::Malformed(shown(value));
        if !value.get().starts_with('{') {
            return Err(malformed());
        }
        let mut fields = BTreeMap::new();
        let mut parts = parts(value);
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            let key = serde_json::from_str(key.get()).map_err(|_| malformed())?;
            fields.insert(key, value);
            if fields.len() > MAX_FIELDS {
                return Err(JsonError::Fields);
            }
        }
        Ok(Self(fields))
    }

    /// The value of a field as its text; `None` if it is not there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.get(key).copied()
    }

    /// Gives a field a value, instead of one that it has.
    pub fn set(&mut self, key: &str, value: &'a RawValue) {
        self.0.insert(key.to_owned(), value);
    }

    /// The fields without those of these names.
    #[must_use]
    pub fn without(mut self, keys: &[&str]) -> Self {
        self.0.retain(|key, _| !keys.contains(&key.as_str()));
        self
    }

    /// The fields that have a value other than `null`.
    #[must_use]
    pub fn reported(mut self) -> Self {
        self.0.retain(|_, value| value.get() != "null");
        self
    }

    /// Whether a switch is on: `true`, or a number other than zero. A field that is not there is off.
    #[must_use]
    pub fn switch(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| {
            value.get() == "true" || number(value).is_some_and(|number| number != 0.0)
        })
    }

    /// A whole number from `low` to `high`; `None` if it is not there.
    pub fn whole(&self, key: &'static str, low: u64, high: u64) -> Result<Option<u64>, JsonError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = serde_json::from_str(value.get()).ok().or_else(|| {
            let float = number(value)?;
            let is_whole = float.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&float);
            is_whole.then_some(float as u64)
        });
        match number.filter(|number| (low..=high).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(JsonError::Field {
                key,
                found: shown(value),
                expected: format!("a whole number from {low} to {high}"),
            }),
        }
    }

    /// A finite number; `None` if it is not there.
    pub fn number(&self, key: &'static str) -> Result<Option<f64>, JsonError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match number(value) {
            Some(number) => Ok(Some(number)),
            None => {
                Err(JsonError::Field { key, found: shown(value), expected: "a number".to_owned() })
            }
        }
    }

    /// A text of at most `most` characters, as one harmless line; `None` if it is not there.
    pub fn text(&self, key: &'static str, most: usize) -> Result<Option<String>, JsonError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = serde_json::from_str::<String>(value.get()).ok();
        match text.filter(|text| text.chars().count() <= most) {
            Some(text) => Ok(Some(short_line(&text, most).into_owned())),
            None => Err(JsonError::Field {
                key,
                found: shown(value),
                expected: format!("a text of at most {most} characters"),
            }),
        }
    }

    /// The fields of an object; `None` if it is not there.
    pub fn object(&self, key: &'static str) -> Result<Option<Self>, JsonError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        Self::of(value).map(Some).map_err(|error| match error {
            JsonError::Malformed(found) => {
                JsonError::Field { key, found, expected: "an object".to_owned() }
            }
            other => other,
        })
    }

    /// The names and values of all fields, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// A list of at most `most` values; empty if it is not there.
    pub fn list(&self, key: &'static str, most: usize) -> Result<Vec<&'a RawValue>, JsonError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let listed = items(value).map(|items| items.take(most + 1).collect::<Vec<_>>());
        listed.filter(|listed| listed.len() <= most).ok_or_else(|| JsonError::Field {
            key,
            found: shown(value),
            expected: format!("a list of at most {most} values"),
        })
    }

    /// The values of a list of any length, one after the other; none if it is not there.
    pub fn items(
        &self,
        key: &'static str,
    ) -> Result<impl Iterator<Item = &'a RawValue> + use<'a>, JsonError> {
        let listed = self.get(key).map(|value| {
            items(value).ok_or_else(|| JsonError::Field {
                key,
                found: shown(value),
                expected: "a list".to_owned(),
            })
        });
        Ok(listed.transpose()?.into_iter().flatten())
    }
}

/// The values of a list, one after the other; `None` of what is no list.
pub fn items(value: &RawValue) -> Option<impl Iterator<Item = &RawValue>> {
    value.get().starts_with('[').then(|| parts(value))
}

/// A finite number; `None` of anything else.
#[must_use]
pub fn number(value: &RawValue) -> Option<f64> {
    serde_json::from_str(value.get()).ok().filter(|number: &f64| number.is_finite())
}

/// The values of a list, or the names and values of an object.
fn parts(value: &RawValue) -> impl Iterator<Item = &RawValue> {
    // the text is JSON, so no more than marks and blanks stands between its values
    let mut rest = &value.get()[1..];
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([',', ':', ' ', '\t', '\n', '\r']);
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let value = values.next()?.ok()?;
        rest = &rest[values.byte_offset()..];
        Some(value)
    })
}

fn shown(value: &RawValue) -> String {
    short_line(value.get(), SHOWN).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_as_writers_print_them() {
        let text = json!({"a": 5, "b": 5.0, "c": 1e12, "d": -1, "e": 0.5, "f": "5"}).to_string();
        let all = Fields::parse(text.as_bytes()).unwrap();
        assert_eq!(all.whole("a", 0, 9), Ok(Some(5)));
        assert_eq!(all.whole("b", 0, 9), Ok(Some(5)));
        assert_eq!(all.whole("c", 0, u64::MAX), Ok(Some(1_000_000_000_000)));
        assert_eq!(all.whole("z", 0, 9), Ok(None));
        for (key, found) in [("d", "-1"), ("e", "0.5"), ("f", "\"5\"")] {
            let error = all.whole(key, 0, 9).unwrap_err().to_string();
            let expected = "expected a whole number from 0 to 9";
            assert_eq!(error, format!("field {key:?} is {found}, {expected}"));
        }
        assert!(all.whole("c", 0, 9).is_err());
        assert_eq!(all.number("d"), Ok(Some(-1.0)));
    }

    #[test]
    fn a_switch_is_on_where_it_is_true_or_a_number() {
        let text = b"{\"a\":true,\"b\":1,\"c\":0,\"d\":false,\"e\":\"yes\",\"f\":null}";
        let all = Fields::parse(text).unwrap();
        let on = ["a", "b", "c", "d", "e", "f", "g"].map(|key| all.switch(key));
        assert_eq!(on, [true, true, false, false, false, false, false]);
    }

    #[test]
    fn what_is_no_object_or_too_long_is_refused() {
        assert!(Fields::parse(b"{\"a\":1}\0").is_ok());
        assert_eq!(Fields::parse(b"[1]").unwrap_err().to_string(), "[1], expected a JSON object");
        assert!(matches!(Fields::parse(b"{"), Err(JsonError::Malformed(_))));
        assert!(matches!(Fields::parse(b""), Err(JsonError::Malformed(_))));
        assert_eq!(length([0, 0, 1, 0], 256), Ok(256));
        for announced in [[0; 4], [0, 0, 1, 1], [0xff; 4]] {
            assert!(matches!(length(announced, 256), Err(JsonError::Length { most: 256, .. })));
        }
    }

    #[test]
    fn text_of_the_peer_is_one_harmless_line() {
        let text = json!({"a": "x\u{1b}[2Jy\nz"}).to_string();
        let all = Fields::parse(text.as_bytes()).unwrap();
        assert_eq!(all.text("a", 20).unwrap().unwrap(), "x\u{fffd}[2Jy z");
        assert!(all.text("a", 3).is_err());
        assert!(all.list("z", 3).unwrap().is_empty());
        assert!(all.list("a", 3).is_err());
    }

    #[test]
    fn values_are_those_between_the_marks() {
        let text = b"{ \"a\\u0062\" : [1 , {\"c\":[2,3]}, \"],\" ,null ] ,\"e\":[ ], \"f\": {} }\n";
        let all = Fields::parse(text).unwrap();
        assert_eq!(all.all().map(|(name, _)| name).collect::<Vec<_>>(), ["ab", "e", "f"]);
        let listed: Vec<&str> = all.items("ab").unwrap().map(RawValue::get).collect();
        assert_eq!(listed, ["1", "{\"c\":[2,3]}", "\"],\"", "null"]);
        assert_eq!((all.items("e").unwrap().count(), all.items("z").unwrap().count()), (0, 0));
        assert!(all.items("f").is_err() && all.object("f").unwrap().unwrap().0.is_empty());
        let list = all.list("ab", 4).unwrap();
        assert_eq!((list.len(), all.list("ab", 3).is_err()), (4, true));
        assert!(Fields::of(list[1]).unwrap().get("c").is_some());
    }

    #[test]
    fn an_object_has_so_many_fields_and_no_more() {
        let of = |count: usize| {
            let fields: Vec<String> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{\"a\":{{{}}}}}", fields.join(","))
        };
        let most = of(MAX_FIELDS);
        let most = Fields::parse(most.as_bytes()).unwrap();
        assert_eq!(most.object("a").unwrap().unwrap().all().count(), MAX_FIELDS);
        let more = of(MAX_FIELDS + 1);
        let error = Fields::parse(more.as_bytes()).unwrap().object("a").unwrap_err().to_string();
        assert_eq!(error, "more than 4096 fields, expected at most 4096 in an object");
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(all) = Fields::parse(&bytes) {
                let _ = (all.switch("a"), all.whole("a", 0, 1), all.text("a", 1));
            }
        }
    }
}
