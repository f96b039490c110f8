//! The quotient of two figures that are paired within blocks, such as the cost of a step and what it
//! saves each time.
//!
//! The interval is that of Fieller (1954): the quotients `q` for which a paired t test does not tell the
//! mean of `a − q · b` from 0. It needs no approximation of the quotient, and it has no end where the
//! denominator may be 0.

use crate::interval::Interval;
use crate::sample::{Sample, mean};
use crate::student_t::critical_value;

/// A quotient and the pairs behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedQuotient {
    /// The quotient of the means. Without ends where there is one pair, or where 0 cannot be excluded as
    /// the denominator.
    pub quotient: Interval,
    /// Blocks with both figures.
    pub pairs: u32,
}

/// Divides the mean of `a` by that of `b`, one element for each block as `(a, b)`; blocks without both
/// are dropped. `None` when no block is left, or the mean of `b` is 0.
pub fn of_pairs(
    blocks: impl IntoIterator<Item = (Option<f64>, Option<f64>)>,
    confidence: f64,
) -> Option<PairedQuotient> {
    let usable = |value: Option<f64>| value.filter(|value| value.is_finite());
    let pairs: Vec<(f64, f64)> =
        blocks.into_iter().filter_map(|(a, b)| usable(a).zip(usable(b))).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (mean_a, mean_b) = (mean(&a)?, mean(&b)?);
    if mean_b == 0.0 {
        return None;
    }
    let ends = ends(&pairs, (mean_a, mean_b), confidence);
    Some(PairedQuotient {
        quotient: Interval {
            mean: mean_a / mean_b,
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
        },
        pairs: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
    })
}

/// The roots of `(ā − q·b̄)² = t² · (s_aa − 2·q·s_ab + q²·s_bb) / n`; `None` where they enclose no interval.
fn ends(pairs: &[(f64, f64)], (a, b): (f64, f64), confidence: f64) -> Option<(f64, f64)> {
    let n = pairs.len() as f64;
    let variance = |pick: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = pairs.iter().map(pick).collect();
        Sample::of(&values)?.variance()
    };
    let (s_aa, s_bb) = (variance(|pair| pair.0)?, variance(|pair| pair.1)?);
    let products = pairs.iter().map(|pair| (pair.0 - a) * (pair.1 - b));
    let s_ab = products.sum::<f64>() / (n - 1.0);
    let t = critical_value(confidence, n - 1.0);
    let scale = t * t / n;
    let (square, half, rest) = (b * b - scale * s_bb, a * b - scale * s_ab, a * a - scale * s_aa);
    if square <= 0.0 {
        return None;
    }
    // not negative where `square` is positive, except for rounding
    let root = (half * half - square * rest).max(0.0).sqrt();
    Some(((half - root) / square, (half + root) / square))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interval::excludes;
    use crate::simulate::{Simulator, share};

    fn of(pairs: &[(f64, f64)]) -> Option<PairedQuotient> {
        of_pairs(pairs.iter().map(|(a, b)| (Some(*a), Some(*b))), 0.95)
    }

    #[test]
    fn exact_figures_have_an_exact_quotient() {
        let found = of(&[(300.0, 1.5); 5]).unwrap();
        let exact = Interval { mean: 200.0, low: Some(200.0), high: Some(200.0) };
        assert_eq!((found.quotient, found.pairs), (exact, 5));
    }

    #[test]
    fn blocks_without_both_figures_are_dropped() {
        let blocks = [(Some(1.0), None), (Some(6.0), Some(2.0)), (None, Some(1.0))];
        let found = of_pairs(blocks, 0.95).unwrap();
        assert_eq!((found.quotient.mean, found.quotient.low, found.pairs), (3.0, None, 1));
        assert_eq!(of_pairs([(Some(f64::NAN), Some(1.0))], 0.95), None);
        assert_eq!(of(&[(1.0, 1.0), (1.0, -1.0)]), None);
    }

    #[test]
    fn a_denominator_that_may_be_nothing_gives_no_ends() {
        let found = of(&[(5.0, 1.0), (5.0, -0.5), (5.0, 0.2), (5.0, -0.3), (5.0, 0.1)]).unwrap();
        assert_eq!((found.quotient.low, found.quotient.high), (None, None));
    }

    /// Both figures share the noise of their block, and have noise of their own.
    #[test]
    fn intervals_have_their_stated_coverage() {
        for (n, seed) in [(5, 21), (10, 22)] {
            let mut simulator = Simulator::new(seed);
            let covered = share(4000, || {
                let blocks: Vec<(f64, f64)> = (0..n)
                    .map(|_| {
                        let block = 1.0 + 0.1 * simulator.normal();
                        let a = 300.0 * block + 20.0 * simulator.normal();
                        (a, 1.5 * block + 0.1 * simulator.normal())
                    })
                    .collect();
                !excludes(&of(&blocks).unwrap().quotient, 200.0)
            });
            assert!((0.93..=0.97).contains(&covered), "n {n}: {covered}");
        }
    }

    proptest! {
        #[test]
        fn the_ends_enclose_the_quotient_and_follow_the_unit(
            pairs in proptest::collection::vec((0.1f64..1000.0, 0.1f64..10.0), 2..12),
            unit in 0.01f64..100.0,
        ) {
            let Some(found) = of(&pairs) else { return Ok(()) };
            let (Some(low), Some(high)) = (found.quotient.low, found.quotient.high) else {
                return Ok(());
            };
            let mean = found.quotient.mean;
            prop_assert!(low <= mean * (1.0 + 1e-9) && mean <= high * (1.0 + 1e-9) + 1e-9);
            let scaled: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a * unit, *b)).collect();
            let other = of(&scaled).unwrap().quotient;
            let near = |one: f64, other: f64| (one - other).abs() <= 1e-6 * (one.abs() + other.abs() + 1.0);
            prop_assert!(near(other.mean, mean * unit));
            prop_assert!(near(other.high.unwrap(), high * unit));
        }
    }
}
