//! Latency of transactions, and that of which a part may not be known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observations that must lie beyond a percentile, so that it is more than one of the largest values.
pub const MIN_BEYOND: u64 = 10;

/// The percentiles that are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// Median.
    P50,
    /// 90th.
    P90,
    /// 99th.
    P99,
    /// 99.9th.
    P99_9,
    /// 99.99th.
    P99_99,
}

impl Percentile {
    /// All, the smallest first.
    pub const ALL: [Self; 5] = [Self::P50, Self::P90, Self::P99, Self::P99_9, Self::P99_99];

    /// Observations of 10,000 that are beyond it.
    fn beyond_of_10_000(self) -> u64 {
        match self {
            Self::P50 => 5000,
            Self::P90 => 1000,
            Self::P99 => 100,
            Self::P99_9 => 10,
            Self::P99_99 => 1,
        }
    }

    /// The share of observations that are not beyond it, 0 to 1.
    #[must_use]
    pub fn quantile(self) -> f64 {
        1.0 - self.beyond_of_10_000() as f64 / 10_000.0
    }

    /// Whether at least [`MIN_BEYOND`] of `count` observations are beyond it.
    #[must_use]
    pub fn is_reported(self, count: u64) -> bool {
        u128::from(count) * u128::from(self.beyond_of_10_000()) >= u128::from(MIN_BEYOND) * 10_000
    }

    /// Its value among some figures, ns.
    #[must_use]
    pub fn of(self, latency: &LatencyFigures) -> Option<u64> {
        match self {
            Self::P50 => latency.p50_ns,
            Self::P90 => latency.p90_ns,
            Self::P99 => latency.p99_ns,
            Self::P99_9 => latency.p99_9_ns,
            Self::P99_99 => latency.p99_99_ns,
        }
    }
}

/// Latency of transactions in nanoseconds. A percentile with fewer than [`MIN_BEYOND`] transactions beyond it is
/// absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of transactions.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Smallest.
    pub min_ns: u64,
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
    pub max_ns: u64,
    /// The share of what began, 0 to 1, that took longer than anything that ended: what was open when the measurement
    /// closed counts with its age. Percentiles in it are absent.
    #[serde(default, skip_serializing_if = "is_none")]
    pub open_share: f64,
}

/// Whether all that began has ended.
fn is_none(share: &f64) -> bool {
    *share == 0.0
}

impl Latency {
    /// The same where this share took longer than anything that ended.
    #[must_use]
    pub fn with_open_share(self, open_share: f64) -> Self {
        let known = LatencyFigures::from(&self).with_open_share(open_share);
        Self {
            p50_ns: known.p50_ns,
            p90_ns: known.p90_ns,
            p99_ns: known.p99_ns,
            p99_9_ns: known.p99_9_ns,
            p99_99_ns: known.p99_99_ns,
            open_share,
            ..self
        }
    }
}

/// Latency of transactions in nanoseconds, as far as it is known: other programs tell fewer percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct LatencyFigures {
    /// Transactions of all runs.
    pub count: Option<u64>,
    /// Mean over all transactions.
    pub mean_ns: Option<f64>,
    /// Smallest of all.
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
    /// Largest of all.
    pub max_ns: Option<u64>,
    /// The share of what began that took longer than anything that ended; absent where it is nothing. Percentiles in it
    /// are null, and so is the mean where the median is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub open_share: Option<f64>,
    /// What these percentiles are at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_ns: Option<u64>,
    /// Confidence intervals of the percentiles, by bootstrap over runs; absent for one run and for imported runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<LatencyIntervals>,
}

/// Confidence intervals of percentiles over runs: low and high end in nanoseconds. Absent where the percentile is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
pub struct LatencyIntervals {
    /// Of the median.
    pub p50_ns: Option<[u64; 2]>,
    /// Of the 90th percentile.
    pub p90_ns: Option<[u64; 2]>,
    /// Of the 99th percentile.
    pub p99_ns: Option<[u64; 2]>,
    /// Of the 99.9th percentile.
    pub p99_9_ns: Option<[u64; 2]>,
    /// Of the 99.99th percentile.
    pub p99_99_ns: Option<[u64; 2]>,
}

impl LatencyIntervals {
    /// The interval of each percentile by `of`.
    #[must_use]
    pub fn each(of: impl Fn(Percentile) -> Option<[u64; 2]>) -> Self {
        Self {
            p50_ns: of(Percentile::P50),
            p90_ns: of(Percentile::P90),
            p99_ns: of(Percentile::P99),
            p99_9_ns: of(Percentile::P99_9),
            p99_99_ns: of(Percentile::P99_99),
        }
    }

    /// The interval of `percentile`, ns.
    #[must_use]
    pub fn of(&self, percentile: Percentile) -> Option<[u64; 2]> {
        match percentile {
            Percentile::P50 => self.p50_ns,
            Percentile::P90 => self.p90_ns,
            Percentile::P99 => self.p99_ns,
            Percentile::P99_9 => self.p99_9_ns,
            Percentile::P99_99 => self.p99_99_ns,
        }
    }
}

impl LatencyFigures {
    /// Whether anything but the number is known.
    pub fn is_known(&self) -> bool {
        Self { count: None, ..*self } != Self::default()
    }

    /// The same with the percentiles that `of` knows, and no others.
    #[must_use]
    pub fn with_percentiles(self, of: impl Fn(Percentile) -> Option<u64>) -> Self {
        Self {
            p50_ns: of(Percentile::P50),
            p90_ns: of(Percentile::P90),
            p99_ns: of(Percentile::P99),
            p99_9_ns: of(Percentile::P99_9),
            p99_99_ns: of(Percentile::P99_99),
            ..self
        }
    }

    /// The same where this share took longer than anything that ended.
    #[must_use]
    pub fn with_open_share(self, share: f64) -> Self {
        let is_open = |percentile: Percentile| share > 1.0 - percentile.quantile() + 1e-9;
        let mut open = Percentile::ALL.into_iter().filter(|percentile| is_open(*percentile));
        let at_least_ns = open.find_map(|percentile| percentile.of(&self));
        let known = self
            .with_percentiles(|percentile| percentile.of(&self).filter(|_| !is_open(percentile)));
        Self {
            mean_ns: self.mean_ns.filter(|_| !is_open(Percentile::P50)),
            open_share: Some(share).filter(|share| *share > 0.0),
            at_least_ns,
            ..known
        }
    }

    /// The same without percentiles that too few observations are beyond; all of them where the number of
    /// observations is not known.
    #[must_use]
    pub fn reported(self) -> Self {
        let is_reported =
            |percentile: &Percentile| self.count.is_none_or(|count| percentile.is_reported(count));
        self.with_percentiles(|percentile| {
            Some(percentile).filter(is_reported).and_then(|percentile| percentile.of(&self))
        })
    }
}

impl From<&Latency> for LatencyFigures {
    fn from(latency: &Latency) -> Self {
        Self {
            count: Some(latency.count),
            mean_ns: Some(latency.mean_ns),
            min_ns: Some(latency.min_ns),
            p50_ns: latency.p50_ns,
            p90_ns: latency.p90_ns,
            p99_ns: latency.p99_ns,
            p99_9_ns: latency.p99_9_ns,
            p99_99_ns: latency.p99_99_ns,
            max_ns: Some(latency.max_ns),
            ..Self::default()
        }
        .with_open_share(latency.open_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_reported_with_ten_observations_beyond_it() {
        let reported = |count: u64| Percentile::ALL.map(|percentile| percentile.is_reported(count));
        assert_eq!(reported(0), [false; 5]);
        assert_eq!(reported(19), [false; 5]);
        assert_eq!(reported(20), [true, false, false, false, false]);
        assert_eq!(reported(999), [true, true, false, false, false]);
        // the largest or second largest value of 6,000 is no percentile
        assert_eq!(reported(6000), [true, true, true, false, false]);
        assert_eq!(reported(99_999), [true, true, true, true, false]);
        assert_eq!(reported(100_000), [true; 5]);
        assert_eq!(reported(u64::MAX), [true; 5]);
    }

    #[test]
    fn a_percentile_among_those_that_never_ended_is_a_bound() {
        let figures = LatencyFigures {
            p50_ns: Some(1),
            p90_ns: Some(2),
            p99_ns: Some(9),
            mean_ns: Some(1.5),
            ..LatencyFigures::default()
        };
        let of = |share| {
            let of = figures.with_open_share(share);
            ([of.p50_ns, of.p90_ns, of.p99_ns], of.at_least_ns, of.mean_ns)
        };
        assert_eq!(of(0.01), ([Some(1), Some(2), Some(9)], None, Some(1.5)));
        assert_eq!(of(0.05), ([Some(1), Some(2), None], Some(9), Some(1.5)));
        assert_eq!(of(1.0), ([None; 3], Some(1), None));
    }

    #[test]
    fn what_others_tell_of_few_observations_is_left_out() {
        let figures = |count| LatencyFigures {
            count,
            p50_ns: Some(1),
            p99_ns: Some(9),
            max_ns: Some(10),
            ..LatencyFigures::default()
        };
        let reported = |count| {
            let reported = figures(count).reported();
            (reported.p50_ns, reported.p99_ns, reported.max_ns)
        };
        assert_eq!(reported(Some(500)), (Some(1), None, Some(10)));
        assert_eq!(reported(None), (Some(1), Some(9), Some(10)));
    }
}
