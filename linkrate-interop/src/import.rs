//! What iperf3, netperf and flent report on a run, as imported runs.
//!
//! A file is recognised by its content, and may be compressed by gzip. Either all runs of a file are read, or none: what does not fit is an
//! error with its place, its value, and what would be right. What a program does not report stays unknown.
//!
//! Whatever a file has in it, reading it takes time that grows with its size, and less than eight times its size of memory.
//!
//! - `netperf`: the classic tables of netperf
//! - `omni`: `-o` and `-k` of netperf's omni tests
//! - `iperf3`: documents of `iperf3 -J`, and the events of `--json-stream`
//! - `flent`: data files

mod banner;
mod flent;
mod iperf3;
mod netperf;
mod omni;

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use linkrate_model::Imported;
use linkrate_model::clean::short_line;

use crate::json::{Fields, JsonError, MAX_FIELDS};

/// Most bytes of a file, before and after decompression.
pub const MAX_BYTES: usize = 64 << 20;

/// Most runs of one file.
pub const MAX_RUNS: usize = 10_000;

/// Most characters of a name or a text that is kept.
const MAX_TEXT: usize = 200;

/// What a file may be.
const FORMATS: &str = "output of netperf with its banner, JSON of iperf3, or a data file of flent";

/// The first octets of a file that gzip compressed (RFC 1952, 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The first octets of a file that bzip2 compressed.
const BZIP2: &[u8] = b"BZh";

/// Most characters of a value in an error.
const SHOWN: usize = 64;

/// What does not fit in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{found}, expected {expected}", place.as_ref().map_or(String::new(), |place| format!("{place}: ")))]
pub struct ImportError {
    /// The line or the part of the document; `None` for the file as a whole.
    pub place: Option<String>,
    pub found: String,
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
                JsonError::Values { found, most } => {
                    (format!("{found} values"), format!("at most {most}"))
                }
                JsonError::Malformed(found) => (found, "a JSON object".to_owned()),
                JsonError::Fields => (
                    format!("an object of more than {MAX_FIELDS} fields"),
                    format!("at most {MAX_FIELDS}"),
                ),
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

/// The runs of a file. `file` is its name without directories. A test that moved nothing has failed, and is no run; no
/// more is one that took no time.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    let runs = all(file, bytes)?;
    let zero = |run: &Imported| {
        let found = &run.found;
        let rates = [found.transmit_bits_per_second, found.receive_bits_per_second];
        if rates.contains(&Some(0.0)) || found.transactions_per_second == Some(0.0) {
            return Some(("a rate of 0", "a test that moved something"));
        }
        (found.seconds == Some(0.0)).then_some(("a time of 0 s", "a test that took some time"))
    };
    match runs.iter().find_map(|run| Some((run, zero(run)?))) {
        None => Ok(runs),
        Some((run, (found, expected))) => Err(ImportError {
            place: run.place.clone(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        }),
    }
}

fn all(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    let bytes = &*plain(bytes, MAX_BYTES)?;
    let file = short_line(file, MAX_TEXT).into_owned();
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        // iperf3 may write several documents into one file
        return match Fields::parse(bytes) {
            Ok(document) if flent::is_flent(&document) => flent::read(&file, &document),
            _ => iperf3::read(&file, bytes),
        };
    }
    if bytes.starts_with(BZIP2) {
        return Err(ImportError::of_file("a file of bzip2", "the file as bunzip2 unpacks it"));
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

/// The content of a file that gzip may have compressed: `most` bytes at most, before and after.
fn plain(bytes: &[u8], most: usize) -> Result<Cow<'_, [u8]>, ImportError> {
    if !bytes.starts_with(GZIP) {
        return match bytes.len() <= most {
            true => Ok(Cow::Borrowed(bytes)),
            false => {
                let found = format!("{} bytes", bytes.len());
                Err(ImportError::of_file(found, format!("at most {most}")))
            }
        };
    }
    let mut content = Vec::new();
    let mut limited = MultiGzDecoder::new(bytes).take(most as u64 + 1);
    limited.read_to_end(&mut content).map_err(|error| {
        let found = format!("{error} within the gzip data");
        ImportError::of_file(found, "a whole file of gzip")
    })?;
    if content.len() > most {
        let found = format!("more than {most} bytes when unpacked");
        return Err(ImportError::of_file(found, format!("at most {most}")));
    }
    Ok(Cow::Owned(content))
}
