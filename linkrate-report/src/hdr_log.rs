//! The latencies of all runs as a log of HdrHistogram, one interval for each run.
//!
//! Format: version 1.3 of the log, as `HistogramLogProcessor` reads it. Values are nanoseconds, the maximum of
//! each interval is printed in milliseconds, and the tag is the cell.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use linkrate_study::names;
use linkrate_study::results::StudyResults;
use linkrate_study::store::StoredRun;

use crate::ReportError;

/// Nanoseconds in the unit of the printed maximum.
const MAX_DIVISOR: f64 = 1e6;

/// The log.
///
/// # Errors
/// [`ReportError::NoLatencies`] if no run has a histogram, [`ReportError::Histogram`] for one that does not read.
pub fn document(results: &StudyResults) -> Result<Vec<u8>, ReportError> {
    let mut runs: Vec<(&StoredRun, Histogram<u64>)> = Vec::new();
    for run in &results.runs {
        if let Some(text) = run.measurement().and_then(|measured| measured.histogram.as_deref()) {
            let histogram = read(text).ok_or(ReportError::Histogram { run: run.sequence })?;
            runs.push((run, histogram));
        }
    }
    let Some((first, _)) = runs.first() else { return Err(ReportError::NoLatencies) };
    let begun = SystemTime::UNIX_EPOCH + Duration::from_millis(first.started_unix_ms);
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("latencies of transactions in ns, study {}", results.study))
        .with_start_time(begun)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(&mut log, &mut serializer)
        .map_err(|_| ReportError::Histogram { run: first.sequence })?;
    for (run, histogram) in &runs {
        let tag = tag(results, run);
        // the window opened after the warm-up
        let opened = Duration::from_millis(run.started_unix_ms) + run.spec.warm_up;
        writer
            .write_histogram(histogram, opened, run.spec.window, Tag::new(&tag))
            .map_err(|_| ReportError::Histogram { run: run.sequence })?;
    }
    drop(writer);
    Ok(log)
}

/// The histogram of a stored run; `None` if the text is none.
fn read(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut &bytes[..]).ok()
}

/// The cell of a run as one word.
fn tag(results: &StudyResults, run: &StoredRun) -> String {
    let cell = run.cell.and_then(|cell| results.cells.get(cell as usize));
    let label = cell.map_or("idle".to_owned(), |cell| names::cell(&cell.levels));
    let words: Vec<&str> = label
        .split(|c: char| c.is_whitespace() || c.is_control() || c == ',')
        .filter(|word| !word.is_empty())
        .collect();
    match words.is_empty() {
        true => results.study.clone(),
        false => words.join("-"),
    }
}
