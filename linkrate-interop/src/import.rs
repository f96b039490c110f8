//! What other programs report on a run, as imported runs.
//!
//! A file is recognised by its content, and may be compressed. Either all runs of a file are read, or none: what does not fit is an
//! error with its place, its value, and what would be right. What a program does not report stays unknown. What programs are
//! known to get wrong (a loss below 0, `nan`, a warning before a document) is not known either, and a remark of the run says so.
//!
//! Whatever a file has in it, reading it takes time that grows with its size, and less than eight times its size of memory.
//!
//! - `netperf`: the classic tables of netperf
//! - `omni`: `-o`, `-O` and `-k` of netperf's omni tests
//! - `iperf3`: documents of `iperf3 -J`, and the events of `--json-stream`; `iperf3_text` without either
//! - `iperf2`: `-y C` of iperf 2
//! - `flent`: data files
//! - `sockperf`, `neper`: what they print
//! - `k8s_netperf`: its CSV and JSON
//!
//! `documents` finds the JSON of a file.

mod banner;
mod documents;
mod flent;
mod iperf2;
mod iperf3;
mod iperf3_text;
mod k8s_netperf;
mod neper;
mod netperf;
mod omni;
mod sockperf;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::IpAddr;

use bzip2::bufread::BzDecoder;
use flate2::read::MultiGzDecoder;
use linkrate_model::clean::short_line;
use linkrate_model::imported::{Asked, Found};
use linkrate_model::{Family, Imported};

use self::documents::{Part, Parts};
use crate::json::{Fields, JsonError, MAX_FIELDS};

/// Most bytes of a file, before and after decompression.
pub const MAX_BYTES: usize = 64 << 20;

/// Most runs of one file.
pub const MAX_RUNS: usize = 10_000;

/// Most characters of a name or a text that is kept.
const MAX_TEXT: usize = 200;

/// What a file may be.
const FORMATS: &str = "output of netperf with its banner, of iperf3, iperf -y C, flent, sockperf, neper or k8s-netperf";

/// Most lines beside its output that are named for one run.
const MAX_LINES_BESIDE: usize = 4;

/// The first octets of a file that gzip compressed (RFC 1952, 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The first octets of a file that bzip2 compressed.
const BZIP2: &[u8] = b"BZh";

/// Most parts of a file of bzip2, of at most 900,000 octets each where several threads compressed it. Each takes the
/// memory of a block anew.
const MAX_BZIP2_PARTS: usize = 1000;

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

/// A run of which nothing else is known.
fn run_of(file: &str, program: &str, test: &str, asked: Asked, found: Found) -> Imported {
    Imported {
        file: file.to_owned(),
        place: None,
        program: program.to_owned(),
        test: test.to_owned(),
        cookie: None,
        started_unix_ms: None,
        asked,
        found,
        series: Vec::new(),
        facts: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

/// The family of an address, as the wire has it.
fn family_of(address: IpAddr) -> Family {
    match address.to_canonical().is_ipv4() {
        true => Family::Ipv4,
        false => Family::Ipv6,
    }
}

/// Lines that stand beside a program's output: warnings and errors, as they are in the file.
#[derive(Debug, Default)]
struct Beside {
    named: Vec<String>,
    more: usize,
}

impl Beside {
    fn add(&mut self, line: &str) {
        match self.named.len() < MAX_LINES_BESIDE {
            true => self.named.push(shown(line.trim())),
            false => self.more += 1,
        }
    }

    /// A sentence on each, and on those that are not named.
    fn remarks(self) -> Vec<String> {
        let mut remarks: Vec<String> =
            self.named.iter().map(|line| format!("The file also has the line {line:?}.")).collect();
        if self.more > 0 {
            remarks.push(format!("The file also has {} more lines beside the output.", self.more));
        }
        remarks
    }
}

/// The error of a file that has more runs than are read.
fn too_many() -> ImportError {
    ImportError::of_file("more runs", format!("at most {MAX_RUNS} in a file"))
}

/// The runs of a file. `file` is its name without directories. A test that moved nothing has failed, and is no run; no
/// more is one that took no time.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    let runs = all(file, bytes)?;
    let zero = |run: &Imported| {
        let found = &run.found;
        let rates = [found.transmit_bits_per_second, found.receive_bits_per_second];
        if rates.contains(&Some(0.0)) || found.transactions_per_second == Some(0.0) {
            return Some(("a rate of 0", "a test that transferred data"));
        }
        (found.seconds == Some(0.0)).then_some(("a time of 0 s", "a test longer than 0 s"))
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

/// Whether a text is a program's, and how it is read.
type Reader = (fn(&str) -> bool, fn(&str, &str) -> Result<Vec<Imported>, ImportError>);

/// The programs that write text.
const READERS: [Reader; 6] = [
    (netperf::is_netperf, netperf::read),
    (iperf3_text::is_iperf3, iperf3_text::read),
    (sockperf::is_sockperf, sockperf::read),
    (neper::is_neper, neper::read),
    (k8s_netperf::is_csv, k8s_netperf::read_csv),
    (iperf2::is_iperf2, iperf2::read),
];

fn all(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    let bytes = plain(bytes, MAX_BYTES)?;
    let bytes = &*in_utf8(&bytes);
    let file = short_line(file, MAX_TEXT).into_owned();
    if documents::is_document(bytes.trim_ascii_start()) {
        return read_json(&file, bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(ImportError::of_file("bytes that are not text", FORMATS));
    };
    if let Some((_, read)) = READERS.iter().find(|(is_it, _)| is_it(text)) {
        return read(&file, text);
    }
    // a document behind warnings
    if text.lines().any(|line| documents::is_document(line.trim_start().as_bytes())) {
        return read_json(&file, bytes);
    }
    let found = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(ImportError::of_file(format!("{:?}", shown(found)), FORMATS))
}

/// The runs of a file of JSON documents, which are all of one program.
fn read_json(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    let (bytes, mended) = documents::mended(bytes);
    let first = Parts::of(&bytes).find_map(|part| match part {
        Ok(Part::Document(document)) => Fields::of(document).ok(),
        _ => None,
    });
    let first = first.unwrap_or_default();
    let runs = if flent::is_flent(&first) {
        each_document(&bytes, |document| flent::read(file, &document))
    } else if k8s_netperf::is_document(&first) {
        each_document(&bytes, |document| {
            k8s_netperf::read_document(file, &document).map(|run| vec![run])
        })
    } else {
        iperf3::read(file, Parts::of(&bytes))
    };
    let mut runs = runs?;
    for run in &mut runs {
        run.remarks.extend_from_slice(&mended);
    }
    Ok(runs)
}

/// The runs of each document of a file.
fn each_document<'a>(
    bytes: &'a [u8],
    read: impl Fn(Fields<'a>) -> Result<Vec<Imported>, ImportError>,
) -> Result<Vec<Imported>, ImportError> {
    let mut runs: Vec<Imported> = Vec::new();
    let (mut number, mut beside) = (0, Beside::default());
    for part in Parts::of(bytes) {
        match part? {
            Part::Line(line) => beside.add(&line),
            Part::Document(document) => {
                number += 1;
                let place = format!("document {number}");
                let fields = Fields::of(document).map_err(ImportError::at(&place))?;
                let of_document = read(fields).map_err(|error| match (number, &error.place) {
                    (1, _) => error,
                    (_, None) => ImportError { place: Some(place.clone()), ..error },
                    (_, Some(part)) => {
                        ImportError { place: Some(format!("{place}, {part}")), ..error }
                    }
                })?;
                runs.extend(of_document.into_iter().map(|run| {
                    let place = match run.place {
                        Some(part) if number == 1 => part,
                        Some(part) => format!("{place}, {part}"),
                        None => place.clone(),
                    };
                    Imported { place: Some(place), ..run }
                }));
            }
        }
        if runs.len() > MAX_RUNS {
            return Err(too_many());
        }
    }
    if let [only] = &mut runs[..] {
        only.place = None;
    }
    if let Some(first) = runs.first_mut() {
        first.remarks.extend(beside.remarks());
    }
    Ok(runs)
}

/// A text as UTF-8, without a mark of the byte order. Some systems redirect output as UTF-16.
fn in_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let units = |of: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(move |unit| of([unit[0], unit[1]]));
        char::decode_utf16(units)
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect::<String>()
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => Cow::Borrowed(rest),
        [0xff, 0xfe, ..] => Cow::Owned(units(u16::from_le_bytes).into_bytes()),
        [0xfe, 0xff, ..] => Cow::Owned(units(u16::from_be_bytes).into_bytes()),
        _ => Cow::Borrowed(bytes),
    }
}

/// The content of a file that gzip or bzip2 may have compressed: `most` bytes at most, before and after.
fn plain(bytes: &[u8], most: usize) -> Result<Cow<'_, [u8]>, ImportError> {
    let (name, content) = if bytes.starts_with(GZIP) {
        ("gzip", gunzip(bytes, most as u64 + 1))
    } else if bytes.starts_with(BZIP2) {
        ("bzip2", bunzip2(bytes, most as u64 + 1))
    } else {
        return match bytes.len() <= most {
            true => Ok(Cow::Borrowed(bytes)),
            false => {
                let found = format!("{} bytes", bytes.len());
                Err(ImportError::of_file(found, format!("at most {most}")))
            }
        };
    };
    let content = content.map_err(|error| {
        let found = format!("{error} within the {name} data");
        ImportError::of_file(found, format!("a whole file of {name}"))
    })?;
    if content.len() > most {
        let found = format!("more than {most} bytes when unpacked");
        return Err(ImportError::of_file(found, format!("at most {most}")));
    }
    Ok(Cow::Owned(content))
}

/// The first `most` bytes of what gzip compressed, in any number of parts.
fn gunzip(bytes: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    MultiGzDecoder::new(bytes).take(most).read_to_end(&mut content)?;
    Ok(content)
}

/// The same of bzip2.
fn bunzip2(bytes: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let (mut content, mut rest) = (Vec::new(), bytes);
    for _ in 0..MAX_BZIP2_PARTS {
        let mut part = BzDecoder::new(rest).take(most - content.len() as u64);
        part.read_to_end(&mut content)?;
        rest = part.into_inner().into_inner();
        if rest.is_empty() || content.len() as u64 == most {
            return Ok(content);
        }
    }
    Err(io::Error::other(format!("more than {MAX_BZIP2_PARTS} parts")))
}

/// A text with another character somewhere.
#[cfg(test)]
fn changed(text: &str, at: proptest::sample::Index, c: char) -> String {
    let mut text: Vec<char> = text.chars().collect();
    let at = at.index(text.len());
    text[at] = c;
    text.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use bzip2::Compression;
    use bzip2::bufread::BzEncoder;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    #[test]
    fn what_is_of_no_program_is_refused() {
        let error = |bytes: &[u8]| read("f", bytes).unwrap_err().to_string();
        assert!(error(b"\nhello\n").starts_with("\"hello\", expected output of netperf"));
        assert!(error(b"").starts_with("\"\", expected"));
        assert!(error(b"\xff\xfe").starts_with("\"\", expected"));
        assert!(error(b"[  5] local").starts_with("\"[  5] local\""));
        let packed = error(b"BZh91AY&SY\0");
        assert!(
            packed.ends_with(" within the bzip2 data, expected a whole file of bzip2"),
            "{packed}"
        );
    }

    /// What bzip2 makes of it.
    fn bzip2(content: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        BzEncoder::new(content, Compression::best()).read_to_end(&mut packed).unwrap();
        packed
    }

    #[test]
    fn what_bzip2_compressed_is_unpacked_within_its_bound() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let packed = bzip2(&text);
        assert_eq!(plain(&packed, text.len()).unwrap(), text);
        let [first, second] = [&text[..123_456], &text[123_456..]].map(bzip2);
        assert_eq!(plain(&[first, second].concat(), text.len()).unwrap(), text);
        let error = |bytes: &[u8], most| plain(bytes, most).unwrap_err().to_string();
        let more = "more than 399999 bytes when unpacked, expected at most 399999";
        assert_eq!(error(&packed, text.len() - 1), more);
        for end in (4..packed.len()).step_by(packed.len() / 16) {
            assert!(plain(&packed[..end], text.len()).is_err(), "{end} of {}", packed.len());
        }
        // 64 MiB of zeroes are some 50 octets
        let bomb = bzip2(&vec![0; MAX_BYTES + 1]);
        assert!(
            bomb.len() < 200 && error(&bomb, MAX_BYTES).starts_with("more than 67108864 bytes")
        );
        let parts = bzip2(b"").repeat(MAX_BZIP2_PARTS + 1);
        assert!(error(&parts, 10).starts_with("more than 1000 parts within the bzip2 data"));
        assert!(error(&[&packed[..], b"rest"].concat(), text.len()).contains("bzip2 data"));
    }

    proptest! {
        #[test]
        fn a_changed_file_of_bzip2_ends(at: Index, octet: u8, from: Index) {
            let mut packed = bzip2(&b"{\"start\":{}}".repeat(300));
            let at = at.index(packed.len());
            packed[at] = octet;
            let from = from.index(packed.len());
            let _ = (read("f", &packed), read("f", &[b"BZh9", &packed[from..]].concat()));
        }
    }
}
