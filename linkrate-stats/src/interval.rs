//! The confidence interval of a mean over runs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sample::Sample;
use crate::student_t::critical_value;
use crate::trend::median;

/// Fewest pairs of blocks for a claim or a verdict. The scatter of fewer is often far too small by
/// chance, and their intervals then exclude "no change" although nothing changed.
pub const MIN_TO_CLAIM: u32 = 5;

/// A mean with its confidence interval. With a single run there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Interval {
    /// That of an amount, which is not negative and at most `limit`: an end beyond lies there, or at the mean where that
    /// is beyond too.
    #[must_use]
    pub fn within(self, limit: Option<f64>) -> Self {
        let (least, most) = (self.mean.min(0.0), self.mean.max(limit.unwrap_or(f64::INFINITY)));
        Self {
            low: self.low.map(|low| low.max(least)),
            high: self.high.map(|high| high.min(most)),
            ..self
        }
    }
}

/// The mean of `values` with its two-sided t interval (mean ± t · s / √n), in the unit of the
/// values. `None` without values; with one value the mean alone, for one run says nothing about
/// how runs differ.
///
/// `confidence` is in (0, 1), for example 0.95.
pub fn of_mean(values: &[f64], confidence: f64) -> Option<Interval> {
    let sample = Sample::of(values)?;
    let mean = sample.mean();
    Some(match sample.standard_error() {
        Some(error) => {
            let half = critical_value(confidence, (sample.count() - 1) as f64) * error;
            Interval { mean, low: Some(mean - half), high: Some(mean + half) }
        }
        None => Interval { mean, low: None, high: None },
    })
}

/// The median of `values` with the interval between order statistics, which assumes no distribution (David and Nagaraja,
/// Order Statistics, section 7.1): the narrowest one that holds the true median with at least this confidence, or the
/// whole range of five values (93.75 %). Fewer have no interval. `None` without values.
pub fn of_median(values: &[f64], confidence: f64) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mean = median(&mut sorted)?;
    let n = sorted.len();
    if n < MIN_TO_CLAIM as usize {
        return Some(Interval { mean, low: None, high: None });
    }
    // the chance that so few of the values are below the true median
    let mut below = 0.0;
    let mut inner = 0;
    for cut in 0..n / 2 {
        below += (0..cut).map(|at| (n - at) as f64 / (at + 1) as f64).product::<f64>()
            / 2f64.powi(n as i32);
        if 1.0 - 2.0 * below < confidence {
            break;
        }
        inner = cut;
    }
    Some(Interval { mean, low: Some(sorted[inner]), high: Some(sorted[n - 1 - inner]) })
}

/// Half the distance between the ends, in the unit of the mean. `None` without ends.
pub fn half_width(interval: &Interval) -> Option<f64> {
    Some((interval.high? - interval.low?) / 2.0)
}

/// The half-width as a fraction of the mean. `None` without ends; zero when both are zero;
/// infinite when only the mean is.
pub fn relative_half_width(interval: &Interval) -> Option<f64> {
    let half = half_width(interval)?;
    Some(if half == 0.0 { 0.0 } else { half / interval.mean.abs() })
}

/// Whether `value` lies outside the interval; without ends nothing is excluded.
pub fn excludes(interval: &Interval, value: f64) -> bool {
    matches!((interval.low, interval.high), (Some(low), Some(high)) if value < low || value > high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Simulator, share};

    #[test]
    fn an_amount_is_neither_negative_nor_beyond_its_limit() {
        let of = |low, mean, high| Interval { mean, low: Some(low), high: Some(high) };
        assert_eq!(of(-1.0, 2.0, 5.0).within(Some(4.0)), of(0.0, 2.0, 4.0));
        assert_eq!(of(-1.0, 2.0, 5.0).within(None), of(0.0, 2.0, 5.0));
        assert_eq!(of(3.0, 4.5, 6.0).within(Some(4.0)), of(3.0, 4.5, 4.5));
        assert_eq!(of(-2.0, -1.0, 0.5).within(None), of(-1.0, -1.0, 0.5));
        let one = Interval { mean: 1.0, low: None, high: None };
        assert_eq!(one.within(Some(0.5)), one);
    }

    #[test]
    fn the_interval_of_a_median_is_between_order_statistics() {
        let to = |n: u32| (1..=n).map(f64::from).collect::<Vec<f64>>();
        let ends = |n: u32| {
            let found = of_median(&to(n), 0.95).unwrap();
            (found.low.unwrap(), found.mean, found.high.unwrap())
        };
        // P(0 of 5 below) = 1/32: the range has 93.75 %
        assert_eq!(ends(5), (1.0, 3.0, 5.0));
        // 97.9 %, where the second and the ninth of ten have 97.9 and the third and the eighth 89.1 %
        assert_eq!(ends(10), (2.0, 5.5, 9.0));
        assert_eq!(ends(20), (6.0, 10.5, 15.0));
        // the range of four has 87.5 %
        let alone = |mean| Some(Interval { mean, low: None, high: None });
        assert_eq!([of_median(&to(4), 0.95), of_median(&[7.0], 0.95)], [alone(2.5), alone(7.0)]);
        assert_eq!(of_median(&[], 0.95), None);
    }

    #[test]
    fn the_interval_of_a_median_covers_it_whatever_the_distribution() {
        let mut simulator = Simulator::new(31);
        for n in [6, 10, 25] {
            let covered = share(4000, || {
                // median 1, with a tail that a t interval does not like
                let values: Vec<f64> = (0..n).map(|_| simulator.lognormal(1.5)).collect();
                !excludes(&of_median(&values, 0.95).unwrap(), 1.0)
            });
            assert!((0.94..=0.99).contains(&covered), "{n}: {covered}");
        }
    }

    fn covers(interval: &Interval, truth: f64) -> bool {
        interval.low.is_some() && !excludes(interval, truth)
    }

    #[test]
    fn an_interval_worked_by_hand() {
        // mean 3, s² = 2.5, t(4) = 2.7764: 2.7764 · sqrt(0.5) = 1.96324
        let interval = of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        assert_eq!(interval.mean, 3.0);
        assert!((half_width(&interval).unwrap() - 1.963_24).abs() < 1e-5);
        assert!((relative_half_width(&interval).unwrap() - 0.654_41).abs() < 1e-5);
        assert!(excludes(&interval, 1.0) && excludes(&interval, 5.0) && !excludes(&interval, 4.9));
    }

    #[test]
    fn one_run_has_no_interval_and_no_run_has_no_mean() {
        let one = of_mean(&[7.0], 0.95).unwrap();
        assert_eq!(one, Interval { mean: 7.0, low: None, high: None });
        assert_eq!(half_width(&one), None);
        assert!(!excludes(&one, 100.0));
        assert_eq!(of_mean(&[], 0.95), None);
    }

    #[test]
    fn runs_that_agree_exactly_are_exact_even_at_zero() {
        assert_eq!(relative_half_width(&of_mean(&[0.0; 4], 0.95).unwrap()), Some(0.0));
        assert_eq!(relative_half_width(&of_mean(&[-1.0, 1.0], 0.95).unwrap()), Some(f64::INFINITY));
    }

    #[test]
    fn normal_runs_are_covered_as_often_as_promised() {
        for (n, seed) in [(5, 1), (7, 2), (10, 3)] {
            for (confidence, low, high) in [(0.95, 0.93, 0.97), (0.90, 0.88, 0.92)] {
                let mut simulator = Simulator::new(seed);
                let covered = share(4000, || {
                    let runs: Vec<f64> = (0..n).map(|_| 9.4e9 + 2e8 * simulator.normal()).collect();
                    covers(&of_mean(&runs, confidence).unwrap(), 9.4e9)
                });
                assert!((low..=high).contains(&covered), "n {n}, {confidence}: {covered}");
            }
        }
    }

    #[test]
    fn mildly_skewed_runs_are_covered_as_often_as_promised() {
        let deviation: f64 = 0.25;
        let truth = (deviation * deviation / 2.0).exp();
        for (n, seed) in [(5, 4), (8, 5), (10, 6)] {
            let mut simulator = Simulator::new(seed);
            let covered = share(4000, || {
                let runs: Vec<f64> = (0..n).map(|_| simulator.lognormal(deviation)).collect();
                covers(&of_mean(&runs, 0.95).unwrap(), truth)
            });
            assert!((0.93..=0.97).contains(&covered), "n {n}: {covered}");
        }
    }
}
