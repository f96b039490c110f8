//! The workloads of a mix, as rows that the terminal and the white paper share.

use linkrate_study::quantity::Quantity;
use linkrate_study::results::{CellResult, MixFigures, StudyResults};
use linkrate_terms::latency::LatencyFigures;

use crate::number;

/// The titles beside the cell's.
pub const TITLES: [&str; 7] =
    ["workload", "share", "throughput", "completed", "p50", "p99", "p99.99"];

/// What the table does not say by itself.
pub const NOTE: &str = "CPU time and service demand are of all workloads together; p50, p99 and p99.99 \
                        are percentiles of latency, or of the response time of transfers";

/// Every workload of every cell with a mix.
pub fn all(results: &StudyResults) -> impl Iterator<Item = (&CellResult, &MixFigures)> {
    results.cells.iter().flat_map(|cell| cell.mix.iter().map(move |figures| (cell, figures)))
}

/// The fields beside the cell's name.
pub fn fields(figures: &MixFigures) -> [String; 7] {
    let with_margin = |quantity: Option<Quantity>| {
        let Some(quantity) = quantity else { return number::ABSENT.to_owned() };
        let margin = number::margin(&quantity).map(|margin| format!(" {margin}"));
        format!("{}{}", number::brief_mean(&quantity), margin.unwrap_or_default())
    };
    let percentile = |pick: fn(&LatencyFigures) -> Option<u64>| {
        let ns = figures.latency.as_ref().and_then(pick).map(|ns| number::duration(ns as f64));
        ns.unwrap_or_else(|| number::ABSENT.to_owned())
    };
    [
        figures.name.clone(),
        figures.share.to_string(),
        with_margin(figures.throughput),
        with_margin(figures.completed),
        percentile(|latency| latency.p50_ns),
        percentile(|latency| latency.p99_ns),
        percentile(|latency| latency.p99_99_ns),
    ]
}
