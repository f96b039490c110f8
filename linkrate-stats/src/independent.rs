//! The ratio of two sets of runs that were made at different times.
//!
//! There are no pairs: block 3 of one set and block 3 of the other have nothing in common. Each set
//! has its own mean and its own scatter, because a change that makes runs slower may also increase
//! their scatter. That is Welch's test (Biometrika 34, 1947), here on logarithms: a difference is then
//! a ratio, and exchanging the two sets inverts the result.
//!
//! A comparison has many ratios, so a verdict over all of them needs probabilities that are adjusted
//! for their number; [`holm`] does that.

use crate::interval::Interval;
use crate::mean_test::MeanTest;
use crate::sample::Sample;
use crate::student_t::critical_value;

/// The ratio of two independent sets of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndependentRatio {
    /// Ratio of the geometric means, second to first, with Welch's interval, exponentiated. No
    /// unit. Without ends when either set has a single figure.
    pub ratio: Interval,
    /// The test of the difference of the mean logarithms. `None` without ends.
    pub test: Option<MeanTest>,
}

/// The ratio of `second` to `first`; figures that are not positive and finite, and so have no
/// logarithm, are left out. `None` when nothing is left of either.
pub fn ratio(first: &[f64], second: &[f64], confidence: f64) -> Option<IndependentRatio> {
    let found = difference(&logarithms(first), &logarithms(second), confidence)?;
    Some(IndependentRatio {
        ratio: Interval {
            mean: found.ratio.mean.exp(),
            low: found.ratio.low.map(f64::exp),
            high: found.ratio.high.map(f64::exp),
        },
        test: found.test,
    })
}

/// The logarithms of those figures that have one.
fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|v| v.is_finite() && **v > 0.0).map(|v| v.ln()).collect()
}

/// The difference of the means, second less first, with Welch's interval in the unit of the
/// values; `ratio` holds the difference. `None` when either is empty.
fn difference(first: &[f64], second: &[f64], confidence: f64) -> Option<IndependentRatio> {
    let (first, second) = (Sample::of(first)?, Sample::of(second)?);
    let mean = second.mean() - first.mean();
    let (Some(a), Some(b)) = (variance_of_mean(&first), variance_of_mean(&second)) else {
        return Some(IndependentRatio {
            ratio: Interval { mean, low: None, high: None },
            test: None,
        });
    };
    let error = (a + b).sqrt();
    let (degrees, half) = if error == 0.0 {
        // figures without any scatter
        ((first.count() + second.count() - 2) as f64, 0.0)
    } else {
        let degrees = degrees_of_freedom(a, first.count(), b, second.count());
        (degrees, critical_value(confidence, degrees) * error)
    };
    Some(IndependentRatio {
        ratio: Interval { mean, low: Some(mean - half), high: Some(mean + half) },
        test: Some(MeanTest { mean, error, degrees }),
    })
}

fn variance_of_mean(sample: &Sample) -> Option<f64> {
    sample.variance().map(|variance| variance / sample.count() as f64)
}

/// Welch and Satterthwaite's approximation, from the variances of both means. Formed from their
/// shares, for squares of tiny variances would vanish.
fn degrees_of_freedom(a: f64, first: usize, b: f64, second: usize) -> f64 {
    let share = a / (a + b);
    let of = |share: f64, count: usize| share * share / (count - 1) as f64;
    1.0 / (of(share, first) + of(1.0 - share, second))
}

/// Probabilities adjusted for their number, in the same order, by Holm's method (Scandinavian
/// Journal of Statistics 6, 1979). If all values up to `alpha` count as differences, at least one of
/// them is false in at most a share `alpha` of cases, however the values depend on each other.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        // not smaller than the one before it, so that the order of claims stays
        largest = largest.max(p[index] * (p.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::excludes;
    use crate::simulate::{Simulator, share};
    use proptest::prelude::*;

    /// That there is a difference.
    fn p(found: &IndependentRatio) -> Option<f64> {
        Some(found.test?.outside(0.0, 0.0))
    }

    #[test]
    fn an_interval_worked_by_hand() {
        // means 3 and 5, variances of the means 1/3 · 1 and 1/5 · 2.5: error sqrt(5/6) = 0.91287;
        // degrees (5/6)² / ((1/3)²/2 + (1/2)²/4) = 5.88235; t 2.0 / 0.91287 = 2.19089
        let found = difference(&[2.0, 3.0, 4.0], &[3.0, 4.0, 5.0, 6.0, 7.0], 0.95).unwrap();
        assert_eq!(found.ratio.mean, 2.0);
        let degrees = degrees_of_freedom(1.0 / 3.0, 3, 0.5, 5);
        assert!((degrees - 5.882_352_9).abs() < 1e-6, "{degrees}");
        // t(0.95, 5.88235) = 2.45870, from a table of quantiles
        let half = (found.ratio.high.unwrap() - found.ratio.low.unwrap()) / 2.0;
        assert!((half - 2.458_70 * 0.912_871).abs() < 1e-3, "{half}");
        assert!((p(&found).unwrap() - 0.0718).abs() < 1e-3, "{:?}", found.test);
    }

    #[test]
    fn single_figures_have_a_ratio_and_no_interval() {
        let found = ratio(&[2.0], &[3.0, 3.1], 0.95).unwrap();
        assert_eq!((found.ratio.low, found.ratio.high, found.test), (None, None, None));
        assert_eq!(ratio(&[], &[3.0], 0.95), None);
        assert_eq!(ratio(&[1.0, 2.0], &[0.0, -1.0, f64::NAN], 0.95), None);
    }

    #[test]
    fn figures_without_scatter_have_probability_zero_or_one() {
        assert_eq!(p(&ratio(&[2.0; 3], &[2.0; 4], 0.95).unwrap()), Some(1.0));
        let found = ratio(&[2.0; 3], &[3.0; 3], 0.95).unwrap();
        assert_eq!(p(&found), Some(0.0));
        assert!(excludes(&found.ratio, 1.0));
    }

    #[test]
    fn intervals_of_unequal_samples_have_their_stated_coverage() {
        for (first, second, seed) in [
            ((5, 0.02), (5, 0.02), 21),
            ((4, 0.01), (10, 0.05), 22),
            ((10, 0.01), (4, 0.05), 23),
            ((7, 0.1), (7, 0.01), 24),
        ] {
            let mut simulator = Simulator::new(seed);
            let mut runs = |(count, scatter): (usize, f64), level: f64| -> Vec<f64> {
                (0..count).map(|_| level * simulator.lognormal(scatter)).collect()
            };
            let covered = share(4000, || {
                let (a, b) = (runs(first, 3.0), runs(second, 3.6));
                !excludes(&ratio(&a, &b, 0.95).unwrap().ratio, 1.2)
            });
            assert!((0.935..=0.972).contains(&covered), "{first:?} {second:?}: {covered}");
        }
    }

    #[test]
    fn holm_worked_by_hand() {
        // sorted 0.01·4, 0.02·3, 0.03·2, 0.04·1: the last two may not fall below the one before
        assert_eq!(holm(&[0.04, 0.01, 0.03, 0.02]), [0.06, 0.04, 0.06, 0.06]);
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn turning_the_question_round_turns_the_answer_round(
            a in proptest::collection::vec(0.01f64..100.0, 2..12),
            b in proptest::collection::vec(0.01f64..100.0, 2..12),
        ) {
            let forth = ratio(&a, &b, 0.95).unwrap();
            let back = ratio(&b, &a, 0.95).unwrap();
            prop_assert!((forth.ratio.mean * back.ratio.mean - 1.0).abs() < 1e-9);
            prop_assert!((forth.ratio.low.unwrap() * back.ratio.high.unwrap() - 1.0).abs() < 1e-9);
            prop_assert!((p(&forth).unwrap() - p(&back).unwrap()).abs() < 1e-12);
        }

        #[test]
        fn an_interval_excludes_1_just_when_p_is_small(
            a in proptest::collection::vec(0.9f64..1.1, 2..12),
            b in proptest::collection::vec(0.9f64..1.1, 2..12),
        ) {
            let found = ratio(&a, &b, 0.95).unwrap();
            let p = p(&found).unwrap();
            prop_assume!((p - 0.05).abs() > 1e-9);
            prop_assert_eq!(excludes(&found.ratio, 1.0), p < 0.05);
        }

        #[test]
        fn adjusting_never_helps_and_keeps_the_order(
            p in proptest::collection::vec(0.0f64..1.0, 0..40),
        ) {
            let adjusted = holm(&p);
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
