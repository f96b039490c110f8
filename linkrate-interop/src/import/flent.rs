//! Data files of flent.
//!
//! Facts: versions 1 to 4 of the format, as flent 2.3.0 writes and reads them. A test starts several programs at
//! once, each a series of the file: streams of netperf one way and the other, UDP_RR of netperf, ping. Metadata
//! of a series has the command and its mean; before version 4, raw values of UDP_RR are transactions per second,
//! and version 1 may have no raw values. Averages and sums are series too, which flent computes from others.

use std::collections::BTreeMap;

use linkrate_model::imported::{Asked, Found, MAX_SAMPLES, MAX_SERIES, Series};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::{Direction, Imported, Protocol, SendPath};
use serde_json::value::RawValue;

use super::{ImportError, MAX_TEXT};
use crate::json::{Fields, items, number};

/// The newest version of the format that is known.
const NEWEST: u64 = 4;

/// The first version whose raw values have the unit of their series.
const CONVERTED: u64 = 4;

/// Most characters of a command.
const MAX_COMMAND: usize = 100_000;

/// The largest number of anything that is counted.
const MAX_COUNT: u64 = 1 << 53;

const NETPERF_RATES: &str = "Rates are those that netperf reported for each stream of the test, added up: their \
                             intervals need not be the same.";

/// Whether a document is one of flent.
pub fn is_flent(document: &Fields) -> bool {
    ["metadata", "results", "x_values"].iter().all(|key| document.get(key).is_some())
}

/// The runs of a file: one of its streams, and one of its UDP transactions.
pub fn read(file: &str, document: &Fields) -> Result<Vec<Imported>, ImportError> {
    let top = ImportError::at("");
    let version = document.whole("version", 1, MAX_COUNT).map_err(&top)?.unwrap_or(1);
    if version > NEWEST {
        let found = format!("field \"version\" is {version}");
        return Err(ImportError::of_file(found, format!("1 to {NEWEST}")));
    }
    let metadata = reported(document.object("metadata").map_err(&top)?);
    let at = ImportError::at("metadata");
    let name = metadata.text("NAME", MAX_TEXT).map_err(&at)?;
    let name = name.ok_or_else(|| ImportError::new("metadata", "no field \"NAME\"", "one"))?;
    let title = metadata.text("TITLE", 10 * MAX_TEXT).map_err(&at)?;
    let programs = programs(document, &metadata, version)?;

    let raw_times = programs.iter().flat_map(|program| &program.samples).map(|(time, _)| *time);
    // version 1 without raw values has times since the begin of the test
    let begin = raw_times.reduce(f64::min).filter(|begin| *begin > UNIX_TIME);
    let file = Source {
        file,
        flent: metadata
            .text("FLENT_VERSION", MAX_TEXT)
            .map_err(&at)?
            .map_or("flent".to_owned(), |version| format!("flent {version}")),
        test: match title.filter(|title| !title.is_empty()) {
            Some(title) => {
                linkrate_model::clean::short_line(&format!("{name} ({title})"), MAX_TEXT)
                    .into_owned()
            }
            None => name,
        },
        begin,
        facts: facts(&metadata)?,
        programs: &programs,
    };
    let runs: Vec<Imported> = file.streams().into_iter().chain(file.transactions()).collect();
    if runs.is_empty() {
        return Err(ImportError::new(
            "results",
            format!("no stream and no UDP_RR of netperf in test {:?}", super::shown(&file.test)),
            "a test such as tcp_download, tcp_upload or rrul",
        ));
    }
    Ok(runs)
}

/// Seconds that cannot have gone by since the begin of a test, so that they count since 1970.
const UNIX_TIME: f64 = 1e9;

/// The fields of an object that have a value; none where there is no object.
fn reported(fields: Option<Fields<'_>>) -> Fields<'_> {
    fields.unwrap_or_default().reported()
}

/// What a file reports on the host.
fn facts(metadata: &Fields) -> Result<BTreeMap<String, String>, ImportError> {
    let at = ImportError::at("metadata");
    let mut facts = BTreeMap::new();
    let system = metadata.text("KERNEL_NAME", MAX_TEXT).map_err(&at)?;
    if let Some(release) = metadata.text("KERNEL_RELEASE", MAX_TEXT).map_err(&at)?
        && system.as_deref() == Some("Linux")
    {
        facts.insert("kernel".to_owned(), release);
    }
    let interface = reported(metadata.object("EGRESS_INFO").map_err(&at)?);
    let at = ImportError::at("metadata.EGRESS_INFO");
    for (key, name) in [("iface", "interface"), ("driver", "driver")] {
        if let Some(text) = interface.text(key, MAX_TEXT).map_err(&at)? {
            facts.insert(name.to_owned(), text);
        }
    }
    for (name, on) in reported(interface.object("offloads").map_err(&at)?).all().take(MAX_SERIES) {
        let on = match on.get() {
            "true" => "on",
            "false" => "off",
            _ => continue,
        };
        facts.insert(super::shown(name), on.to_owned());
    }
    Ok(facts)
}

/// What a program of a test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A TCP stream of the host on which flent ran.
    Sends,
    /// A TCP stream to that host.
    Receives,
    /// UDP transactions, one at a time.
    Transactions,
    /// Anything else that is measured.
    Other,
}

/// One program of a test, which is a series of the file.
#[derive(Debug, Clone, PartialEq)]
struct Program {
    kind: Kind,
    name: String,
    /// The unit as flent writes it: `Mbits/s`, `ms`.
    unit: String,
    /// Seconds, since 1970 or since the begin of the test, with the values.
    samples: Vec<(f64, Option<f64>)>,
    mean: Option<f64>,
    seconds: Option<f64>,
    mss_bytes: Option<u64>,
    message: Option<u64>,
    congestion: Option<String>,
    retransmits: Option<u64>,
}

/// The programs of a file.
fn programs(
    document: &Fields,
    metadata: &Fields,
    version: u64,
) -> Result<Vec<Program>, ImportError> {
    let top = ImportError::at("");
    let all_meta = reported(metadata.object("SERIES_META").map_err(ImportError::at("metadata"))?);
    let raw = reported(document.object("raw_values").map_err(&top)?);
    let results = reported(document.object("results").map_err(&top)?);
    let mut moments = document.items("x_values").map_err(&top)?;
    let kept: Vec<Option<f64>> = moments.by_ref().take(MAX_SAMPLES).map(number).collect();
    let moments = kept.len() + moments.count();
    let mut programs = Vec::new();
    for (name, values) in results.all() {
        let place = format!("results.{}", super::shown(name));
        let meta_place = format!("metadata.SERIES_META.{}", super::shown(name));
        let meta = reported(all_meta.get(name).and_then(|meta| Fields::of(meta).ok()));
        let at = ImportError::at(&meta_place);
        let Some(kind) = kind(name, &meta).map_err(&at)? else { continue };
        if programs.len() == MAX_SERIES {
            let most = format!("at most {MAX_SERIES} that are measured");
            return Err(ImportError::new("results", "more series", most));
        }
        // version 1 has them elsewhere
        let raw = raw.get(name).or_else(|| meta.get("RAW_VALUES")).and_then(items);
        let mut raw = raw.into_iter().flatten().take(MAX_SAMPLES).peekable();
        let samples = if raw.peek().is_some() {
            let of_rate = version < CONVERTED && kind == Kind::Transactions;
            raw.filter_map(|value| raw_sample(value, of_rate)).collect()
        } else {
            if items(values).map(Iterator::count) != Some(moments) {
                let expected = format!("a list of {moments} values, as x_values");
                return Err(ImportError::new(place, super::shown(values.get()), expected));
            }
            let values = items(values).into_iter().flatten().map(number);
            let samples = kept.iter().zip(values);
            samples.filter_map(|(time, value)| Some(((*time)?, value))).collect()
        };
        let unit = meta.text("UNITS", MAX_TEXT).map_err(&at)?;
        programs.push(Program {
            kind,
            name: super::shown(name),
            unit: unit.unwrap_or_else(|| unit_of(kind, name).to_owned()),
            samples,
            mean: meta.number("MEAN_VALUE").map_err(&at)?,
            seconds: meta.number("ELAPSED_TIME").map_err(&at)?.filter(|seconds| *seconds > 0.0),
            mss_bytes: counted(&meta, "TCP_MSS").map_err(&at)?.filter(|mss| *mss > 0),
            message: counted(&meta, "SEND_SIZE").map_err(&at)?.filter(|size| *size > 0),
            congestion: meta.text("CONG_CONTROL", MAX_TEXT).map_err(&at)?,
            retransmits: counted(&meta, "TCP_RETRANSMIT").map_err(&at)?,
        });
    }
    Ok(programs)
}

/// What a series is of; `None` if flent computed it from others.
fn kind(name: &str, meta: &Fields) -> Result<Option<Kind>, crate::json::JsonError> {
    let runner = meta.text("RUNNER", MAX_TEXT)?;
    if let Some(runner) = &runner
        && ["Average", "Sum", "Fairness", "Diff", "Compute"].iter().any(|of| runner.starts_with(of))
    {
        return Ok(None);
    }
    if let Some(command) = meta.text("COMMAND", MAX_COMMAND)? {
        let mut words = command.split_whitespace();
        let is_netperf = words.clone().any(|word| word.rsplit('/').next() == Some("netperf"));
        let test = words.find(|word| *word == "-t").and_then(|_| words.next());
        return Ok(Some(match test.filter(|_| is_netperf) {
            Some("TCP_STREAM") => Kind::Sends,
            Some("TCP_MAERTS") => Kind::Receives,
            Some("UDP_RR") => Kind::Transactions,
            _ => Kind::Other,
        }));
    }
    // earlier versions tell no commands
    let lower = name.to_ascii_lowercase();
    let last = lower.rsplit([' ', ':']).next().unwrap_or_default();
    if runner.is_none() && matches!(last, "avg" | "sum" | "totals" | "fairness" | "diff") {
        return Ok(None);
    }
    Ok(Some(match () {
        () if lower.contains("udp") && lower.contains("ping") => Kind::Transactions,
        () if lower.starts_with("tcp") && lower.contains("upload") => Kind::Sends,
        () if lower.starts_with("tcp") && lower.contains("download") => Kind::Receives,
        () => Kind::Other,
    }))
}

/// The unit of a series that names none.
fn unit_of(kind: Kind, name: &str) -> &'static str {
    match kind {
        Kind::Sends | Kind::Receives => "Mbits/s",
        Kind::Transactions => "ms",
        Kind::Other if name.contains("(ms)") => "ms",
        Kind::Other => "unit unknown",
    }
}

/// A count, which flent writes as a number or as text. A negative one was not known to netperf.
fn counted(meta: &Fields, key: &'static str) -> Result<Option<u64>, crate::json::JsonError> {
    if let Ok(Some(text)) = meta.text(key, MAX_TEXT) {
        return Ok(text.parse().ok().filter(|count| *count <= MAX_COUNT));
    }
    if matches!(meta.number(key), Ok(Some(number)) if number < 0.0) {
        return Ok(None);
    }
    meta.whole(key, 0, MAX_COUNT)
}

/// A raw value with its time; of a rate of transactions, the milliseconds that each took.
fn raw_sample(value: &RawValue, of_rate: bool) -> Option<(f64, Option<f64>)> {
    let value = Fields::of(value).ok()?;
    let time = value.get("t").and_then(number)?;
    let reported = value.get("val").and_then(number);
    let reported = match of_rate {
        true => reported.filter(|rate| *rate > 0.0).map(|rate| 1e3 / rate),
        false => reported,
    };
    Some((time, reported))
}

impl Program {
    /// Bit/s of a stream; milliseconds of transactions.
    fn figure(&self) -> Option<f64> {
        let from_samples = || {
            let known: Vec<f64> = self.samples.iter().filter_map(|(_, value)| *value).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let figure = self
            .mean
            .or_else(from_samples)
            .filter(|figure| figure.is_finite() && *figure >= 0.0)?;
        match self.unit.as_str() {
            "Mbits/s" => Some(figure * 1e6),
            "bits/s" | "ms" => Some(figure),
            _ => None,
        }
    }

    fn series(&self, begin: Option<f64>) -> Series {
        let begin = begin.unwrap_or(0.0);
        let (unit, factor) = match self.unit.as_str() {
            "Mbits/s" => ("bit/s", 1e6),
            "bits/s" => ("bit/s", 1.0),
            other => (other, 1.0),
        };
        let samples = self.samples.iter();
        Series {
            name: self.name.clone(),
            unit: unit.to_owned(),
            samples: samples
                .map(|(time, value)| (time - begin, value.map(|value| value * factor)))
                .collect(),
        }
    }
}

/// What all runs of a file share.
struct Source<'a> {
    file: &'a str,
    flent: String,
    test: String,
    /// Seconds since 1970; `None` where times count since the begin of the test.
    begin: Option<f64>,
    facts: BTreeMap<String, String>,
    programs: &'a [Program],
}

/// The value that all have.
fn shared<T: PartialEq + Clone>(of: &[&Program], pick: fn(&Program) -> Option<T>) -> Option<T> {
    let first = pick(of.first()?)?;
    of.iter().all(|program| pick(program).as_ref() == Some(&first)).then_some(first)
}

/// The sum of what all have; `None` if one does not report it, or there is none.
fn sum(of: &[&Program], pick: fn(&Program) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = of.iter().map(|program| pick(program)).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

impl Source<'_> {
    fn of(&self, kinds: &[Kind]) -> Vec<&Program> {
        self.programs.iter().filter(|program| kinds.contains(&program.kind)).collect()
    }

    fn run(&self, place: &str, asked: Asked, found: Found, of: &[&Program]) -> Imported {
        let longest = of.iter().filter_map(|program| program.seconds).reduce(f64::max);
        let mut remarks = Vec::new();
        for program in of.iter().filter(|program| program.figure().is_none()) {
            remarks.push(format!("{} has no data.", program.name));
        }
        if !asked.kind.is_udp() {
            remarks.push(NETPERF_RATES.to_owned());
        }
        Imported {
            file: self.file.to_owned(),
            place: Some(place.to_owned()),
            program: self.flent.clone(),
            test: self.test.clone(),
            cookie: None,
            started_unix_ms: self.begin.map(|seconds| (seconds * 1e3) as u64),
            asked,
            found: Found { seconds: longest, ..found },
            // pings, CPU statistics and the like stand with the first run of a file
            series: self
                .programs
                .iter()
                .filter(|program| {
                    of.iter().any(|own| own.name == program.name) || self.is_beside(program, of)
                })
                .map(|program| program.series(self.begin))
                .collect(),
            facts: self.facts.clone(),
            remarks,
        }
    }

    /// Whether a program is in no run of its own, and stands with this one.
    fn is_beside(&self, program: &Program, of: &[&Program]) -> bool {
        let streams = self.of(&[Kind::Sends, Kind::Receives]);
        let is_first = streams.is_empty() || of.iter().any(|own| own.kind != Kind::Transactions);
        program.kind == Kind::Other && is_first
    }

    /// The TCP streams, all together.
    fn streams(&self) -> Option<Imported> {
        let (sends, receives) = (self.of(&[Kind::Sends]), self.of(&[Kind::Receives]));
        let all: Vec<&Program> = sends.iter().chain(&receives).copied().collect();
        let (direction, connections) = match (sends.len(), receives.len()) {
            (0, 0) => return None,
            (count, 0) => (Direction::Transmit, Some(count)),
            (0, count) => (Direction::Receive, Some(count)),
            (count, other) => (Direction::Bidirectional, Some(count).filter(|_| count == other)),
        };
        let asked = Asked {
            connections: connections.and_then(|count| u32::try_from(count).ok()),
            message: shared(&all, |program| program.message),
            congestion: shared(&all, |program| program.congestion.clone()),
            send_path: Some(SendPath::Plain),
            ..Asked::of(Protocol::Stream, direction)
        };
        let retransmits: Option<Vec<u64>> = all.iter().map(|program| program.retransmits).collect();
        let found = Found {
            transmit_bits_per_second: sum(&sends, Program::figure),
            receive_bits_per_second: sum(&receives, Program::figure),
            retransmits: retransmits.map(|all| all.into_iter().fold(0, u64::saturating_add)),
            mss_bytes: shared(&all, |program| program.mss_bytes)
                .and_then(|mss| mss.try_into().ok()),
            ..Found::default()
        };
        Some(self.run("TCP", asked, found, &all))
    }

    /// The UDP transactions, all together: each program has one outstanding at a time.
    fn transactions(&self) -> Option<Imported> {
        let all = self.of(&[Kind::Transactions]);
        let connections = u32::try_from(all.len()).ok().filter(|count| *count > 0)?;
        let per_second =
            |program: &Program| program.figure().filter(|ms| *ms > 0.0).map(|ms| 1e3 / ms);
        let rate = sum(&all, per_second);
        let mean_ns = rate.map(|rate| f64::from(connections) * 1e9 / rate);
        let asked = Asked {
            connections: Some(connections),
            burst: Some(1),
            ..Asked::of(Protocol::UdpRequestResponse, Direction::Transmit)
        };
        let found = Found {
            transactions_per_second: rate,
            latency: mean_ns
                .map(|mean| LatencyFigures { mean_ns: Some(mean), ..LatencyFigures::default() }),
            ..Found::default()
        };
        Some(self.run("UDP_RR", asked, found, &all))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{MAX_BYTES, plain, read as read_file};
    use super::*;

    const RRUL: &[u8] = include_bytes!("../../tests/recorded/flent_rrul.flent.gz");
    const NDOWN: &[u8] = include_bytes!("../../tests/recorded/flent_tcp_ndown.flent.gz");
    /// The same, which bzip2 1.0.8 compressed.
    const NDOWN_BZ2: &[u8] = include_bytes!("../../tests/recorded/flent_tcp_ndown.flent.bz2");

    fn document(file: &[u8]) -> Value {
        serde_json::from_slice(&plain(file, MAX_BYTES).unwrap()).unwrap()
    }

    fn imported(document: &Value) -> Result<Vec<Imported>, String> {
        read_file("f", document.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn streams_and_transactions_of_a_test_are_runs_of_their_own() {
        let runs = read_file("f", RRUL).unwrap();
        let [streams, transactions] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!(
            (streams.program.as_str(), streams.test.as_str()),
            ("flent 2.3.0", "rrul (small)")
        );
        assert_eq!(streams.asked.direction, Direction::Bidirectional);
        assert_eq!((streams.asked.connections, streams.asked.message), (Some(4), Some(16_384)));
        let mean = |name: &str| {
            let meta = &document(RRUL)["metadata"]["SERIES_META"];
            ["BE", "BK", "CS5", "EF"]
                .map(|class| meta[format!("{name} {class}")]["MEAN_VALUE"].as_f64())
        };
        let sum = |name| mean(name).into_iter().flatten().sum::<f64>() * 1e6;
        let transmit = streams.found.transmit_bits_per_second.unwrap();
        assert!((transmit / sum("TCP upload") - 1.0).abs() < 1e-12, "{transmit}");
        let receive = streams.found.receive_bits_per_second.unwrap();
        assert!((receive / sum("TCP download") - 1.0).abs() < 1e-12, "{receive}");
        assert_eq!(
            (streams.found.mss_bytes, streams.asked.congestion.as_deref()),
            (Some(1448), Some("bbr"))
        );
        assert!(streams.found.retransmits.is_some());
        // eight streams and ICMP, without the sums and averages that flent computes
        assert_eq!(streams.series.len(), 9);

        assert_eq!(transactions.asked.kind, Protocol::UdpRequestResponse);
        assert_eq!(transactions.asked.connections, Some(3));
        assert_eq!(transactions.series.len(), 3);
        let rate = transactions.found.transactions_per_second.unwrap();
        let mean_ns = transactions.found.latency.unwrap().mean_ns.unwrap();
        assert!((rate * mean_ns / 3e9 - 1.0).abs() < 1e-9);
        assert_eq!(transactions.place.as_deref(), Some("UDP_RR"));
    }

    #[test]
    fn times_of_series_count_from_the_begin_of_the_test() {
        let runs = read_file("f", NDOWN).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].asked.direction, Direction::Receive);
        let begin = runs[0].series.iter().flat_map(|series| &series.samples).map(|(time, _)| *time);
        assert_eq!(begin.clone().reduce(f64::min), Some(0.0));
        assert!(begin.reduce(f64::max).unwrap() < 20.0);
        // 2026-11-24
        assert_eq!(runs[0].started_unix_ms.unwrap() / 86_400_000, 20_781);
        assert_eq!(runs[0].facts["tcp-segmentation-offload"], "on");
        assert!(runs[0].facts["kernel"].starts_with("6."));
    }

    #[test]
    fn earlier_versions_have_other_units_and_no_commands() {
        let current = imported(&document(RRUL)).unwrap();
        let mut third = document(RRUL);
        third["version"] = json!(3);
        for (name, values) in third["raw_values"].as_object_mut().unwrap() {
            for value in values.as_array_mut().unwrap().iter_mut().filter(|_| name.contains("UDP"))
            {
                value["val"] = json!(1e3 / value["val"].as_f64().unwrap());
            }
        }
        for meta in third["metadata"]["SERIES_META"].as_object_mut().unwrap().values_mut() {
            meta.as_object_mut().unwrap().retain(|key, _| key == "MEAN_VALUE");
        }
        let third = imported(&third).unwrap();
        let of = |runs: &[Imported]| {
            let streams = runs[0].found.bits_per_second().unwrap();
            let samples = runs[1].series.iter().flat_map(|series| series.samples.clone());
            (
                streams,
                samples.filter_map(|(_, value)| value).sum::<f64>(),
                runs[0].asked.connections,
            )
        };
        let ((rate, latency, connections), expected) = (of(&third), of(&current));
        assert!((rate / expected.0 - 1.0).abs() < 1e-12);
        assert!((latency / expected.1 - 1.0).abs() < 1e-9, "{latency} {}", expected.1);
        assert_eq!(connections, expected.2);

        // the first version has values at common times alone
        let mut first = document(NDOWN);
        let file = first.as_object_mut().unwrap();
        file.remove("version");
        file.remove("raw_values");
        first["metadata"].as_object_mut().unwrap().remove("SERIES_META");
        let runs = imported(&first).unwrap();
        assert_eq!((runs[0].started_unix_ms, runs[0].asked.connections), (None, Some(2)));
        let rate = runs[0].found.receive_bits_per_second.unwrap();
        let reported =
            imported(&document(NDOWN)).unwrap()[0].found.receive_bits_per_second.unwrap();
        assert!((rate / reported - 1.0).abs() < 0.05, "{rate} {reported}");
    }

    #[test]
    fn what_does_not_fit_names_its_place() {
        let mut newer = document(NDOWN);
        newer["version"] = json!(5);
        assert_eq!(imported(&newer).unwrap_err(), "field \"version\" is 5, expected 1 to 4");
        let mut unnamed = document(NDOWN);
        unnamed["metadata"]["NAME"] = Value::Null;
        assert_eq!(imported(&unnamed).unwrap_err(), "metadata: no field \"NAME\", expected one");
        let mut ping = document(NDOWN);
        ping["results"].as_object_mut().unwrap().retain(|name, _| name.contains("ICMP"));
        assert!(imported(&ping).unwrap_err().starts_with("results: no stream and no UDP_RR"));
        let mut short = document(NDOWN);
        short["raw_values"] = json!({});
        short["x_values"].as_array_mut().unwrap().pop();
        assert!(imported(&short).unwrap_err().contains("as x_values"));
        assert_eq!(read_file("f", NDOWN_BZ2), read_file("f", NDOWN));
        for (packed, name) in [(NDOWN, "gzip"), (NDOWN_BZ2, "bzip2")] {
            let cut = read_file("f", &packed[..packed.len() / 2]).unwrap_err().to_string();
            assert!(cut.contains(name), "{cut}");
        }
        // gzip makes 2 MB of 2 GB of zeros
        let bomb = plain(NDOWN, 100).unwrap_err().to_string();
        assert_eq!(bomb, "more than 100 bytes when unpacked, expected at most 100");
    }

    #[test]
    fn a_value_that_is_not_a_number_is_not_known() {
        let whole = document(NDOWN).to_string();
        let text = whole.replace(":null", ":NaN");
        assert_ne!(text, whole);
        let runs = read_file("f", text.as_bytes()).unwrap();
        assert_eq!(runs[0].found, read_file("f", NDOWN).unwrap()[0].found);
        assert!(runs[0].remarks.last().unwrap().contains("\"nan\""), "{:?}", runs[0].remarks);
    }

    #[test]
    fn a_stream_without_data_is_not_zero() {
        let mut failed = document(RRUL);
        failed["metadata"]["SERIES_META"]["TCP upload BE"]
            .as_object_mut()
            .unwrap()
            .remove("MEAN_VALUE");
        failed["raw_values"]["TCP upload BE"] = json!([]);
        for value in failed["results"]["TCP upload BE"].as_array_mut().unwrap() {
            *value = Value::Null;
        }
        let runs = imported(&failed).unwrap();
        assert_eq!(runs[0].found.transmit_bits_per_second, None);
        assert!(runs[0].found.receive_bits_per_second.is_some());
        assert!(runs[0].remarks.contains(&"TCP upload BE has no data.".to_owned()));
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = plain(NDOWN, MAX_BYTES).unwrap().into_owned();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = read_file("f", &bytes);
        }
    }
}
