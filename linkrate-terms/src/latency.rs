//! Latency of transactions, and that of which a part may not be known.

use serde::{Deserialize, Serialize};

/// Latency of transactions in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of transactions.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// Latency of transactions in nanoseconds, as far as it is known: other programs tell fewer percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Number of transactions.
    pub count: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Smallest.
    pub min_ns: Option<u64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// 99.99th percentile.
    pub p99_99_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
}

impl LatencyFigures {
    /// Whether anything but the number is known.
    pub fn is_known(&self) -> bool {
        Self { count: None, ..*self } != Self::default()
    }
}

impl From<&Latency> for LatencyFigures {
    fn from(latency: &Latency) -> Self {
        Self {
            count: Some(latency.count),
            mean_ns: Some(latency.mean_ns),
            min_ns: Some(latency.min_ns),
            p50_ns: Some(latency.p50_ns),
            p90_ns: Some(latency.p90_ns),
            p99_ns: Some(latency.p99_ns),
            p99_9_ns: Some(latency.p99_9_ns),
            p99_99_ns: Some(latency.p99_99_ns),
            max_ns: Some(latency.max_ns),
        }
    }
}
