//! The latencies of all runs as a log of HdrHistogram, one interval for each run.
//!
//! Format: version 1.3 of the log, as `HistogramLogProcessor` reads it. Values are nanoseconds, the maximum of
//! each interval is printed in milliseconds, and the tag is the cell, with the workload where several of a mix have
//! latencies.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use linkrate_model::Task;
use linkrate_model::measurement::PartMeasured;
use linkrate_model::mix::MixPart;
use linkrate_study::labels;
use linkrate_study::latencies::decoded;
use linkrate_study::results::StudyResults;
use linkrate_study::store::StoredRun;

use crate::ReportError;

/// Nanoseconds in the unit of the printed maximum.
const MAX_DIVISOR: f64 = 1e6;

/// The log; an error if no run has a histogram, or one does not read.
pub fn document(results: &StudyResults) -> Result<Vec<u8>, ReportError> {
    let mut runs: Vec<(&StoredRun, String, Histogram<u64>)> = Vec::new();
    for run in &results.runs {
        for (tag, text) in histograms(results, run) {
            let histogram = decoded(text).ok_or(ReportError::Histogram { run: run.sequence })?;
            runs.push((run, tag, histogram));
        }
    }
    let Some((first, ..)) = runs.first() else { return Err(ReportError::NoLatencies) };
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
    for (run, tag, histogram) in &runs {
        // the window opened after the warm-up
        let opened = Duration::from_millis(run.started_unix_ms) + run.spec.warm_up;
        writer
            .write_histogram(histogram, opened, run.spec.duration, Tag::new(tag))
            .map_err(|_| ReportError::Histogram { run: run.sequence })?;
    }
    drop(writer);
    Ok(log)
}

/// The histograms of a run, each with its tag: that of all transactions, or of each workload of a mix.
fn histograms<'a>(results: &StudyResults, run: &'a StoredRun) -> Vec<(String, &'a str)> {
    let Some(measured) = run.measurement() else { return Vec::new() };
    if let Some(all) = &measured.histogram {
        return vec![(tag(results, run, ""), all)];
    }
    let names: &[MixPart] = match &run.spec.task {
        Task::Workload(workload) => &workload.mix,
        Task::Idle => &[],
    };
    let parts = names.iter().zip(&measured.parts);
    let tagged = |(of, part): (&MixPart, &'a PartMeasured)| {
        Some((tag(results, run, &of.name), part.histogram.as_deref()?))
    };
    parts.filter_map(tagged).collect()
}

/// The cell of a run and the name of a workload as one word.
fn tag(results: &StudyResults, run: &StoredRun, workload: &str) -> String {
    let cell = results.cell_of(run);
    let label = cell.map_or("idle".to_owned(), |cell| labels::cell(&cell.levels));
    let label = format!("{label} {workload}");
    let words: Vec<&str> = label
        .split(|c: char| c.is_whitespace() || c.is_control() || c == ',')
        .filter(|word| !word.is_empty())
        .collect();
    match words.is_empty() {
        true => results.study.clone(),
        false => words.join("-"),
    }
}
