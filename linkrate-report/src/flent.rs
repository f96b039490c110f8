//! Runs as data files of flent, one for each run.
//!
//! Format: version 4, as flent 2.3.0 reads it. The name of the test is that of flent with a variable number of
//! streams and pings, so that its plots apply: `all`, `upload`, `download`, `ping`.
//! The rates are those at the sockets of the system under test: an *upload* is what it transmits. Latency of
//! transactions in a closed loop is their mean in each interval, as flent has it for UDP_RR.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use linkrate_model::date::civil_from_days;
use linkrate_model::measurement::{Interval, rates};
use linkrate_model::workload::Loop;
use linkrate_model::{Measurement, Protocol, Task, Workload};
use linkrate_study::labels;
use linkrate_study::results::StudyResults;
use linkrate_study::store::StoredRun;
use serde_json::{Map, Value, json};

use crate::ReportError;

/// Version of the format.
const FORMAT: u32 = 4;

/// The test of flent whose plots apply.
const TEST: &str = "rrul_var";

/// Most characters of a cell in the name of a file.
const MAX_NAME: usize = 120;

#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// Its name, which says study, run and cell.
    pub name: String,
    /// Its content: JSON, compressed by gzip.
    pub bytes: Vec<u8>,
}

/// The data files of all runs that have intervals, in the order of the runs; an error if no run has any.
pub fn files(results: &StudyResults) -> Result<Vec<DataFile>, ReportError> {
    let mut files = Vec::new();
    for run in &results.runs {
        let Some(measured) = run.measurement() else { continue };
        let Task::Workload(workload) = &run.spec.task else { continue };
        if measured.intervals.is_empty() {
            continue;
        }
        let document = document(results, run, workload, measured);
        let mut bytes = GzEncoder::new(Vec::new(), Compression::default());
        bytes.write_all(document.to_string().as_bytes()).map_err(ReportError::Compression)?;
        let bytes = bytes.finish().map_err(ReportError::Compression)?;
        files.push(DataFile { name: name(results, run), bytes });
    }
    if files.is_empty() {
        return Err(ReportError::NoIntervals);
    }
    Ok(files)
}

fn title(results: &StudyResults, run: &StoredRun) -> String {
    let cell = results.cell_of(run);
    cell.map_or(String::new(), |cell| labels::cell(&cell.levels))
}

fn name(results: &StudyResults, run: &StoredRun) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let title: String = title(results, run).chars().map(plain).take(MAX_NAME).collect();
    let run = format!("{}-run{:04}", results.study, run.sequence);
    match title.is_empty() {
        true => format!("{run}.flent.gz"),
        false => format!("{run}.{title}.flent.gz"),
    }
}

/// A figure of each interval.
struct Figures {
    name: String,
    units: &'static str,
    /// Seconds since the window opened, with the value.
    values: Vec<(f64, f64)>,
    mean: Option<f64>,
    /// The name of what flent computes from all series of its kind.
    sum: Option<&'static str>,
}

/// A way of a stream, the series that flent computes from all its streams, and its bytes.
type Way = (&'static str, &'static str, fn(&Interval) -> u64);

const DIRECTIONS: [Way; 2] = [
    ("upload", "TCP upload sum", |interval| interval.transmit_bytes),
    ("download", "TCP download sum", |interval| interval.receive_bytes),
];

/// The label of the only stream, or the only ping, in the names of flent.
fn label(workload: &Workload) -> &'static str {
    match workload.kind {
        Protocol::RequestResponse => "TCP_RR",
        Protocol::ConnectRequestResponse => "TCP_CRR",
        Protocol::UdpRequestResponse => "UDP_RR",
        Protocol::Stream | Protocol::UdpStream | Protocol::Transfer | Protocol::Backup => "all",
    }
}

fn figures(workload: &Workload, measured: &Measurement) -> Vec<Figures> {
    let (intervals, label) = (&measured.intervals, label(workload));
    // how many an open loop has outstanding in an interval is not known, and with it their latency
    let closed = workload.loop_of_items() == Some(Loop::Closed);
    if workload.kind.is_transactional() && workload.mix.is_empty() && closed {
        let outstanding = f64::from(workload.connections) * f64::from(workload.burst.max(1));
        let in_ms = |(at, rate): (f64, f64)| (rate > 0.0).then_some((at, outstanding * 1e3 / rate));
        let rates = rates(intervals, |interval| interval.transactions);
        return vec![Figures {
            // pings of this test are UDP to flent
            name: format!("Ping (ms)::UDP {label}"),
            units: "ms",
            values: rates.into_iter().filter_map(in_ms).collect(),
            mean: measured.latency.map(|latency| latency.mean_ns / 1e6),
            sum: None,
        }];
    }
    let means = measured.traffic.bits_per_second_each_direction();
    let protocol = if workload.kind.is_udp() { "UDP" } else { "TCP" };
    let mut figures = Vec::new();
    for ((way, sum, bytes), mean) in DIRECTIONS.into_iter().zip(means) {
        if intervals.iter().all(|interval| bytes(interval) == 0) {
            continue;
        }
        let in_mbits = |(at, rate): (f64, f64)| (at, rate * 8.0 / 1e6);
        figures.push(Figures {
            name: format!("{protocol} {way}::{label}"),
            units: "Mbits/s",
            values: rates(intervals, bytes).into_iter().map(in_mbits).collect(),
            mean: Some(mean / 1e6),
            sum: (protocol == "TCP").then_some(sum),
        });
    }
    figures
}

fn document(
    results: &StudyResults,
    run: &StoredRun,
    workload: &Workload,
    measured: &Measurement,
) -> Value {
    let figures = figures(workload, measured);
    let ends = measured.intervals.iter().map(|interval| interval.end_ns as f64 / 1e9);
    let moments: Vec<f64> = ends.collect();
    let opened_ms = run.started_unix_ms + run.spec.warm_up.as_millis() as u64;
    let opened = opened_ms as f64 / 1e3;
    let (mut meta, mut series, mut raw) = (Map::new(), Map::new(), Map::new());
    for figure in &figures {
        let values: Vec<Option<f64>> = moments
            .iter()
            .map(|moment| {
                figure.values.iter().find(|(at, _)| at == moment).map(|(_, value)| *value)
            })
            .collect();
        let samples: Vec<Value> = figure
            .values
            .iter()
            .map(|(at, value)| json!({"t": opened + at, "val": value}))
            .collect();
        for name in std::iter::once(figure.name.as_str()).chain(figure.sum) {
            series.insert(name.to_owned(), json!(values));
            let is_raw = name == figure.name;
            raw.insert(name.to_owned(), if is_raw { json!(samples) } else { json!([]) });
            let runner = if is_raw { "linkrate" } else { "SumRunner" };
            meta.insert(
                name.to_owned(),
                json!({"UNITS": figure.units, "MEAN_VALUE": figure.mean, "RUNNER": runner}),
            );
        }
    }
    let (length, step) = (moments.last().copied().unwrap_or(0.0), moments.first().copied());
    let fact = |name: &str| results.facts.facts.get(name).cloned();
    json!({
        "version": FORMAT,
        "metadata": {
            "NAME": TEST,
            "TITLE": title(results, run),
            "NOTE": format!("linkrate: study {}, run {}, block {}", results.study, run.sequence, run.block),
            "DATA_FILENAME": name(results, run),
            "TIME": iso(run.started_unix_ms),
            "T0": iso(opened_ms),
            "HOST": "clients",
            "HOSTS": ["clients"],
            "LOCAL_HOST": "system under test",
            "IP_VERSION": 4,
            "LENGTH": length.round() as u64,
            "TOTAL_LENGTH": length,
            "STEP_SIZE": step.unwrap_or(1.0),
            "TEST_PARAMETERS": {"bidir_streams": "1", "labels": label(workload)},
            "FLENT_VERSION": null,
            "KERNEL_NAME": "Linux",
            "KERNEL_RELEASE": fact("kernel"),
            "BATCH_NAME": results.study,
            "BATCH_TITLE": null,
            "BATCH_TIME": null,
            "BATCH_UUID": null,
            "SERIES_META": meta,
        },
        "x_values": moments,
        "results": series,
        "raw_values": raw,
    })
}

/// A moment as ISO 8601 has it, in UTC.
pub(crate) fn iso(unix_ms: u64) -> String {
    let (days, of_day) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = civil_from_days(days);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}000Z")
}
