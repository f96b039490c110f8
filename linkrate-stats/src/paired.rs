//! The ratio of two levels, paired within blocks.
//!
//! Both runs of a pair were made in the same block, minutes apart. What makes a whole block slow,
//! a neighbour on the machine or a warm CPU, is in both and cancels in their ratio. Ratios are
//! averaged as logarithms: doubling and halving then weigh the same, and exchanging numerator and
//! denominator inverts the result.

use crate::interval::{Interval, of_mean};
use crate::mean_test::MeanTest;

/// An effect: a ratio and the pairs behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedRatio {
    /// Geometric mean of the ratios `to / from` with its interval: the t interval of the mean log
    /// ratio, exponentiated. No unit.
    pub ratio: Interval,
    /// The test of the mean logarithm. `None` with one block.
    pub test: Option<MeanTest>,
    /// Blocks with both figures.
    pub pairs: u32,
}

/// Compares `to` with `from`, one element per block as `(from, to)`.
///
/// A block in which either is absent, or is not a positive finite number and so has no logarithm,
/// is dropped. `None` when no block is left; with one block the ratio has no ends.
pub fn ratio(
    blocks: impl IntoIterator<Item = (Option<f64>, Option<f64>)>,
    confidence: f64,
) -> Option<PairedRatio> {
    let usable = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    let logs: Vec<f64> = blocks
        .into_iter()
        .filter_map(|(from, to)| Some(usable(to)?.ln() - usable(from)?.ln()))
        .collect();
    let log = of_mean(&logs, confidence)?;
    Some(PairedRatio {
        ratio: Interval {
            mean: log.mean.exp(),
            low: log.low.map(f64::exp),
            high: log.high.map(f64::exp),
        },
        test: MeanTest::of(&logs),
        pairs: u32::try_from(logs.len()).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{excludes, half_width};
    use crate::simulate::{Simulator, share};
    use crate::student_t::critical_value;
    use proptest::prelude::*;

    fn both(from: f64, to: f64) -> (Option<f64>, Option<f64>) {
        (Some(from), Some(to))
    }

    #[test]
    fn the_ratio_is_a_geometric_mean() {
        let found = ratio([both(1.0, 2.0), both(10.0, 80.0)], 0.95).unwrap();
        assert!((found.ratio.mean - 4.0).abs() < 1e-12);
        assert_eq!(found.pairs, 2);
        assert!(found.ratio.low.unwrap() < 4.0 && found.ratio.high.unwrap() > 4.0);
    }

    #[test]
    fn blocks_without_both_runs_are_dropped() {
        let blocks = [
            (Some(1.0), None),
            both(2.0, 3.0),
            (None, Some(5.0)),
            both(0.0, 1.0),
            both(1.0, f64::NAN),
            (None, None),
        ];
        let found = ratio(blocks, 0.95).unwrap();
        assert_eq!((found.pairs, found.ratio.low), (1, None));
        assert!((found.ratio.mean - 1.5).abs() < 1e-12);
        assert_eq!(ratio([(Some(1.0), None)], 0.95), None);
    }

    /// Blocks whose level drifts by `drift`, with run noise on both sides, both as deviations of
    /// the logarithm.
    fn drifting(
        simulator: &mut Simulator,
        n: u32,
        truth: f64,
        drift: f64,
        noise: f64,
    ) -> Vec<(f64, f64)> {
        (0..n)
            .map(|_| {
                let level = simulator.lognormal(drift);
                let from = level * simulator.lognormal(noise);
                (from, truth * level * simulator.lognormal(noise))
            })
            .collect()
    }

    #[test]
    fn intervals_have_their_stated_coverage() {
        for (n, seed) in [(5, 11), (7, 12), (10, 13)] {
            let mut simulator = Simulator::new(seed);
            let covered = share(4000, || {
                let blocks = drifting(&mut simulator, n, 2.13, 0.20, 0.03);
                let found = ratio(blocks.into_iter().map(|(f, t)| both(f, t)), 0.95).unwrap();
                !excludes(&found.ratio, 2.13)
            });
            assert!((0.93..=0.97).contains(&covered), "n {n}: {covered}");
        }
    }

    #[test]
    fn rarely_claims_an_effect_that_does_not_exist() {
        let mut simulator = Simulator::new(14);
        let mistaken = share(4000, || {
            let blocks = drifting(&mut simulator, 8, 1.0, 0.20, 0.03);
            let found = ratio(blocks.into_iter().map(|(f, t)| both(f, t)), 0.95).unwrap();
            excludes(&found.ratio, 1.0)
        });
        assert!((0.03..=0.07).contains(&mistaken), "{mistaken}");
    }

    /// The interval of the ratio if the runs were not known to share a block: Welch's, on logs.
    fn unpaired(blocks: &[(f64, f64)], confidence: f64) -> Interval {
        let sample = |pick: fn(&(f64, f64)) -> f64| {
            let logs: Vec<f64> = blocks.iter().map(|block| pick(block).ln()).collect();
            crate::sample::Sample::of(&logs).unwrap()
        };
        let (from, to) = (sample(|block| block.0), sample(|block| block.1));
        let n = blocks.len() as f64;
        let (a, b) = (from.variance().unwrap() / n, to.variance().unwrap() / n);
        let degrees = (a + b).powi(2) * (n - 1.0) / (a * a + b * b);
        let half = critical_value(confidence, degrees) * (a + b).sqrt();
        let log = to.mean() - from.mean();
        Interval { mean: log.exp(), low: Some((log - half).exp()), high: Some((log + half).exp()) }
    }

    #[test]
    fn pairing_cancels_the_drift_of_a_noisy_machine() {
        let mut simulator = Simulator::new(15);
        let (mut paired_width, mut unpaired_width) = (0.0, 0.0);
        let covered = share(4000, || {
            let blocks = drifting(&mut simulator, 8, 1.4, 0.20, 0.03);
            let found = ratio(blocks.iter().map(|(f, t)| both(*f, *t)), 0.95).unwrap();
            paired_width += half_width(&found.ratio).unwrap();
            unpaired_width += half_width(&unpaired(&blocks, 0.95)).unwrap();
            !excludes(&found.ratio, 1.4)
        });
        assert!(unpaired_width > 4.0 * paired_width, "{unpaired_width} against {paired_width}");
        assert!((0.93..=0.97).contains(&covered), "{covered}");
    }

    proptest! {
        #[test]
        fn turning_the_question_round_turns_the_answer_round(
            blocks in proptest::collection::vec((0.01f64..100.0, 0.01f64..100.0), 2..20),
        ) {
            let forth = ratio(blocks.iter().map(|(f, t)| both(*f, *t)), 0.95).unwrap().ratio;
            let back = ratio(blocks.iter().map(|(f, t)| both(*t, *f)), 0.95).unwrap().ratio;
            prop_assert!((forth.mean * back.mean - 1.0).abs() < 1e-9);
            prop_assert!((forth.low.unwrap() * back.high.unwrap() - 1.0).abs() < 1e-9);
        }
    }
}
