//! Whether a mean is shown to lie outside bounds.
//!
//! That a difference exists is one question, and that it is larger than the smallest which counts is another: of a true
//! difference that is just the smallest, every second mean is larger. The test here is of an interval hypothesis
//! (Hodges and Lehmann, Journal of the Royal Statistical Society B 16, 1954): the probability of a mean at
//! least as far outside the bounds, on either side, if the truth were the nearer bound. With both bounds at 0
//! it is the two-sided t test.

use serde::Serialize;

use crate::interval::Interval;
use crate::sample::Sample;
use crate::student_t::{critical_value, two_sided_tail};

/// A mean with its standard error, ready for the question.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanTest {
    /// The mean, in the unit of the values.
    pub mean: f64,
    /// Its standard error; zero for values without scatter.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub degrees: f64,
}

impl MeanTest {
    /// That of the mean of `values`. `None` with fewer than two.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sample = Sample::of(values)?;
        let error = sample.standard_error()?;
        Some(Self { mean: sample.mean(), error, degrees: (values.len() - 1) as f64 })
    }

    /// This mean where something else scatters it too: a variance, in the square of the unit, that is known with so many
    /// degrees of freedom (Welch and Satterthwaite).
    #[must_use]
    pub fn beside(self, variance: f64, degrees: f64) -> Self {
        let own = self.error.powi(2);
        let all = own + variance;
        if variance <= 0.0 || all == 0.0 {
            return self;
        }
        let share = own / all;
        let of = |share: f64, degrees: f64| share * share / degrees;
        let degrees = 1.0 / (of(share, self.degrees) + of(1.0 - share, degrees));
        Self { error: all.sqrt(), degrees, ..self }
    }

    /// The interval of the mean with this confidence, in (0, 1).
    pub fn interval(self, confidence: f64) -> Interval {
        let half = match self.error > 0.0 {
            true => critical_value(confidence, self.degrees) * self.error,
            false => 0.0,
        };
        Interval { mean: self.mean, low: Some(self.mean - half), high: Some(self.mean + half) }
    }

    /// The probability of a mean as far below `low` or above `high`, if the truth were the nearer of the two;
    /// 1 for a mean between them.
    pub fn outside(self, low: f64, high: f64) -> f64 {
        let beyond =
            if self.mean > (low + high) / 2.0 { self.mean - high } else { low - self.mean };
        // values without any scatter are outside for certain or not at all
        match (beyond > 0.0, self.error > 0.0) {
            (false, _) => 1.0,
            (true, false) => 0.0,
            (true, true) => {
                let tail =
                    |distance: f64| two_sided_tail(distance / self.error, self.degrees) / 2.0;
                tail(beyond) + tail(beyond + (high - low))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Simulator, share};

    #[test]
    fn between_bounds_at_zero_it_is_the_t_test() {
        let test = MeanTest::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((test.mean, test.degrees), (2.5, 3.0));
        let t = 2.5 / (5.0f64 / 3.0 / 4.0).sqrt();
        assert!((test.outside(0.0, 0.0) - two_sided_tail(t, 3.0)).abs() < 1e-12);
        let mirrored = MeanTest { mean: -2.5, ..test };
        assert!((mirrored.outside(-1.0, 1.0) - test.outside(-1.0, 1.0)).abs() < 1e-12);
        assert!(test.outside(-1.0, 1.0) > test.outside(0.0, 0.0));
        assert_eq!(test.outside(-3.0, 3.0), 1.0);
        assert_eq!(MeanTest::of(&[1.0]), None);
    }

    #[test]
    fn a_second_scatter_widens_the_interval_by_what_is_known_of_it() {
        let test = MeanTest { mean: 1.0, error: 0.3, degrees: 7.0 };
        assert_eq!(test.beside(0.0, 9.0), test);
        let both = test.beside(0.16, 9.0);
        assert!((both.error - 0.5).abs() < 1e-12);
        // (0.09 + 0.16)² / (0.09²/7 + 0.16²/9)
        assert!((both.degrees - 15.618_8).abs() < 1e-3, "{both:?}");
        let interval = both.interval(0.95);
        let half = critical_value(0.95, both.degrees) * 0.5;
        assert!((interval.high.unwrap() - 1.0 - half).abs() < 1e-12, "{interval:?}");
        let exact = MeanTest { mean: 1.0, error: 0.0, degrees: 7.0 }.interval(0.95);
        assert_eq!((exact.low, exact.high), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn values_without_scatter_are_outside_or_not() {
        let test = MeanTest::of(&[0.5; 3]).unwrap();
        assert_eq!((test.outside(-0.4, 0.4), test.outside(-0.5, 0.5)), (0.0, 1.0));
        assert_eq!(MeanTest::of(&[0.0; 3]).unwrap().outside(0.0, 0.0), 1.0);
    }

    #[test]
    fn a_truth_at_a_bound_is_rarely_shown_to_be_outside() {
        for (scatter, bound, seed) in [(0.005, 0.02, 1), (0.02, 0.02, 2), (0.1, 0.02, 3)] {
            let mut simulator = Simulator::new(seed);
            let mut outside = |truth: f64| {
                share(4000, || {
                    let values: Vec<f64> =
                        (0..10).map(|_| truth + scatter * simulator.normal()).collect();
                    MeanTest::of(&values).unwrap().outside(-bound, bound) <= 0.05
                })
            };
            let (at, within) = (outside(bound), outside(0.75 * bound));
            // 5 %, where chance alone decides; a mean beyond the bound has every second of them
            assert!((0.04..=0.06).contains(&at), "{scatter}: {at}");
            assert!(within <= 0.05, "{scatter}: {within}");
        }
    }
}
