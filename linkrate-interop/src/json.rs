//! JSON documents behind their length, and fields that are read one by one.
//!
//! Writers differ in how they print a number (`5`, `5.0`, `1e+12`), and versions in the fields that they know. So a
//! reader takes the fields that it knows out of any object, and says which one is wrong.

use linkrate_model::clean::short_line;
use serde_json::{Map, Value};

/// Octets of the length before a document.
pub const LENGTH_BYTES: usize = 4;

/// The largest whole number that each JSON number up to it can tell apart: 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Most characters of a value of the peer in an error.
const SHOWN: usize = 64;

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
pub fn framed(document: &Value) -> Option<Vec<u8>> {
    let text = document.to_string().into_bytes();
    let length = u32::try_from(text.len()).ok()?;
    Some([&length.to_be_bytes()[..], &text].concat())
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

/// The fields of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a document without its length, which must be an object.
    pub fn parse(document: &[u8]) -> Result<Self, JsonError> {
        // writers in C may send the zero at the end of their string
        let end = document.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        match serde_json::from_slice(&document[..end]) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(other) => Err(JsonError::Malformed(shown(&other))),
            Err(error) => Err(JsonError::Malformed(error.to_string())),
        }
    }

    /// The fields of an object.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        value.as_object().cloned().map(Self)
    }

    /// Whether a switch is on: `true`, or a number other than zero. A field that is not there is off.
    #[must_use]
    pub fn switch(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Value::Bool(on)) => *on,
            Some(Value::Number(number)) => number.as_f64().is_some_and(|number| number != 0.0),
            _ => false,
        }
    }

    /// A whole number from `low` to `high`; `None` if it is not there.
    pub fn whole(&self, key: &'static str, low: u64, high: u64) -> Result<Option<u64>, JsonError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| {
                let float = number.as_f64()?;
                let is_whole = float.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&float);
                is_whole.then_some(float as u64)
            }),
            _ => None,
        };
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
        let Some(value) = self.0.get(key) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => {
                Err(JsonError::Field { key, found: shown(value), expected: "a number".to_owned() })
            }
        }
    }

    /// A text of at most `most` characters, as one harmless line; `None` if it is not there.
    pub fn text(&self, key: &'static str, most: usize) -> Result<Option<String>, JsonError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        match value.as_str().filter(|text| text.chars().count() <= most) {
            Some(text) => Ok(Some(short_line(text, most).into_owned())),
            None => Err(JsonError::Field {
                key,
                found: shown(value),
                expected: format!("a text of at most {most} characters"),
            }),
        }
    }

    /// The fields of an object; `None` if it is not there.
    pub fn object(&self, key: &'static str) -> Result<Option<Self>, JsonError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        Self::of(value).map(Some).ok_or_else(|| JsonError::Field {
            key,
            found: shown(value),
            expected: "an object".to_owned(),
        })
    }

    /// The names and values of all fields, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// A list of at most `most` values; empty if it is not there.
    pub fn list(&self, key: &'static str, most: usize) -> Result<&[Value], JsonError> {
        let Some(value) = self.0.get(key) else { return Ok(&[]) };
        match value.as_array().filter(|list| list.len() <= most) {
            Some(list) => Ok(list),
            None => Err(JsonError::Field {
                key,
                found: shown(value),
                expected: format!("a list of at most {most} values"),
            }),
        }
    }
}

impl FromIterator<(String, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

fn shown(value: &Value) -> String {
    short_line(&value.to_string(), SHOWN).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> Fields {
        Fields::of(value).unwrap()
    }

    #[test]
    fn numbers_are_read_as_writers_print_them() {
        let all = fields(&json!({"a": 5, "b": 5.0, "c": 1e12, "d": -1, "e": 0.5, "f": "5"}));
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
        let all = fields(&json!({"a": true, "b": 1, "c": 0, "d": false, "e": "yes", "f": null}));
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
        let all = fields(&json!({"a": "x\u{1b}[2Jy\nz"}));
        assert_eq!(all.text("a", 20).unwrap().unwrap(), "x\u{fffd}[2Jy z");
        assert!(all.text("a", 3).is_err());
        assert_eq!(all.list("z", 3), Ok(&[][..]));
        assert!(all.list("a", 3).is_err());
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
