//! What iperf3 and netperf tell of a run, as imported runs.
//!
//! A file is recognised by its content. Either all runs of a file are read, or none: what does not fit is an
//! error with its place, its value, and what would be right. What a program does not tell stays unknown.
//!
//! - `netperf`: the classic tables of netperf
//! - `omni`: `-o` and `-k` of netperf's omni tests
//! - `iperf3`: documents of `iperf3 -J`, and the events of `--json-stream`

mod iperf3;
mod netperf;
mod omni;

use linkrate_terms::Imported;
use linkrate_terms::clean::short_line;

use crate::json::JsonError;

/// Most bytes of a file, before and after decompression.
pub const MOST_BYTES: usize = 64 << 20;

/// Most runs of one file.
pub const MOST_RUNS: usize = 10_000;

/// Most characters of a name or a text that is kept.
const MOST_TEXT: usize = 200;

/// What a file may be.
const FORMATS: &str = "output of netperf with its banner, or JSON of iperf3";

/// Most characters of a value in an error.
const SHOWN: usize = 64;

/// What does not fit in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{found}, expected {expected}", place.as_ref().map_or(String::new(), |place| format!("{place}: ")))]
pub struct ImportError {
    /// The line or the part of the document; `None` for the file as a whole.
    pub place: Option<String>,
    /// What is there.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl ImportError {
    fn new(
        place: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { place: Some(place.into()), found: found.into(), expected: expected.into() }
    }

    fn of_file(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { place: None, found: found.into(), expected: expected.into() }
    }

    /// An error of a document's part.
    fn at(place: &str) -> impl Fn(JsonError) -> Self + use<> {
        let place = (!place.is_empty()).then(|| place.to_owned());
        move |error| {
            let (found, expected) = match error {
                JsonError::Length { found, most } => {
                    (format!("{found} bytes"), format!("1 to {most}"))
                }
                JsonError::Malformed(found) => (found, "a JSON object".to_owned()),
                JsonError::Missing(key) => (format!("no field {key:?}"), "one".to_owned()),
                JsonError::Field { key, found, expected } => {
                    (format!("field {key:?} is {found}"), expected)
                }
            };
            Self { place: place.clone(), found: shown(&found), expected }
        }
    }
}

/// Text of the file as it stands in an error.
fn shown(text: &str) -> String {
    short_line(text, 3 * SHOWN).into_owned()
}

/// The runs of a file. `file` is its name without directories.
///
/// # Errors
/// [`ImportError`] for the first thing that does not fit.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    if bytes.len() > MOST_BYTES {
        let found = format!("{} bytes", bytes.len());
        return Err(ImportError::of_file(found, format!("at most {MOST_BYTES}")));
    }
    let file = short_line(file, MOST_TEXT).into_owned();
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return iperf3::read(&file, bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(ImportError::of_file("bytes that are no text", FORMATS));
    };
    if netperf::is_netperf(text) {
        return netperf::read(&file, text);
    }
    let found = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(ImportError::of_file(format!("{:?}", shown(found)), FORMATS))
}
