//! Results to terminal table, HTML, Markdown, CSV and JSON.
//!
//! Everything here is a pure function of
//! [`StudyResults`](linkrate_study::results::StudyResults): no clock, no randomness, no files. The
//! same results give the same bytes, whichever day the report is made.
//!
//! - [`answer`]: what a study found and how far to trust it, for terminal and report alike
//! - [`terminal`]: the table that a user reads at a glance, for 80 columns and wider
//! - [`json`]: the one document of `--json`
//! - [`csv`]: `runs.csv`, one row a run, for other people's statistics
//! - [`paper`]: the white paper: sentences, figures and tables, for HTML and Markdown alike
//! - [`html`]: `report.html`, one file that needs no network
//! - [`markdown`]: the same story with its figures as files beside it
//! - [`redact`]: a study without what names its hosts and people
//! - [`charts`]: charts as papers draw them
//! - [`comparison`]: two result sets, as a table, Markdown and a document
//! - [`flent`]: data files of flent, one for each run
//! - [`hdr_log`]: latencies as a log of HdrHistogram
//! - [`ktap`]: results as a test of the kernel
//! - [`lab`], [`adapter`]: a lab that is up, models of adapters, ports and their counters
//! - [`number`]: figures with significant digits, units and intervals; the only place that formats them
//! - [`openmetrics`]: figures for Prometheus and its relatives
//! - [`otava`]: result sets over time for Apache Otava
//! - [`table`]: one table for paper and terminal
//! - [`trend`]: result sets over time
//! - [`live_view`]: a study while it runs
//! - [`words`]: effects, reasons and counts in words, shared by terminal and paper
//!
//! A figure that does not exist is absent in every output: a dash for people, `null` in JSON, an
//! empty field in CSV. It is never a zero.

// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]
#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod adapter;
pub mod answer;
pub mod charts;
pub mod comparison;
pub mod csv;
pub mod demand;
pub mod directions;
mod escape;
pub mod flent;
pub mod hdr_log;
pub mod html;
pub mod json;
pub mod ktap;
pub mod lab;
mod layout;
pub mod limit;
pub mod live_view;
pub mod markdown;
pub mod mix;
pub mod number;
pub mod openmetrics;
pub mod otava;
pub mod paper;
pub mod predicted;
pub mod preview;
pub mod redact;
pub mod round_trip;
pub mod table;
pub mod terminal;
pub mod trend;
#[cfg(test)]
mod unmeasured;
pub mod words;

/// Why an output could not be made. None of these depends on the figures.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The CSV writer refused a row.
    #[error("runs.csv could not be written")]
    Csv(#[from] ::csv::Error),
    /// No run has a histogram of latencies.
    #[error("no run has latencies")]
    NoLatencies,
    /// A stored histogram does not read.
    #[error("run {run}: the latency histogram is corrupt")]
    Histogram {
        /// Number of the run.
        run: u32,
    },
    /// No run has results over time.
    #[error("no run has results over time")]
    NoIntervals,
    /// A data file could not be compressed.
    #[error("data file of flent could not be compressed")]
    Compression(#[source] std::io::Error),
    /// A redacted value is none that a study could have.
    #[error("study cannot be redacted")]
    Redaction(#[source] serde_json::Error),
    /// The page's template does not fit its values.
    #[error("template of the report could not be filled")]
    Template(#[from] minijinja::Error),
    /// The drawing library refused a chart.
    #[error("chart \"{chart}\" could not be drawn: {reason}")]
    Chart {
        /// Which chart.
        chart: String,
        /// What the drawing library said; its error type is generic over the backend.
        reason: String,
    },
}
