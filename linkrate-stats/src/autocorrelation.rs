//! Whether results drift: whether each is more like the one before it than chance explains.
//!
//! A machine may be fast for some minutes and slow for the next ones. Its figures show no trend, but they
//! are not independent: runs close in time carry less information than the same number of runs far
//! apart. The test is Bartels' (1982), von Neumann's ratio of the ranks: it assumes no distribution, and
//! an outlier changes it little.

use super::student_t;

/// Fewest figures for the test. With fewer the normal distribution of the ratio is not accurate enough
/// (Bartels 1982), and the test would find only correlations close to 1.
pub const MIN_VALUES: usize = 10;

/// Largest correlation that is taken for measured: one of so few figures is not known better.
const MAX_CORRELATION: f64 = 0.9;

/// How figures depend on the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Autocorrelation {
    /// Correlation of each figure with the next, free of the bias that an estimated mean brings into it
    /// (Kendall 1954); from 0 to 0.9.
    pub correlation: f64,
    /// Probability of figures as much alike their neighbours as these, where they do not depend on them.
    pub chance: f64,
}

impl Autocorrelation {
    /// By how much the true interval of a mean is wider than one that takes the figures for
    /// independent: √((1 + ρ) / (1 − ρ)) for a first-order autoregression with correlation ρ.
    pub fn widening(&self) -> f64 {
        ((1.0 + self.correlation) / (1.0 - self.correlation)).sqrt()
    }
}

/// How `values`, taken one after the other, depend on their neighbours; `None` for fewer than
/// [`MIN_VALUES`], and where all are equal.
pub fn of(values: &[f64]) -> Option<Autocorrelation> {
    if values.len() < MIN_VALUES {
        return None;
    }
    let n = values.len() as f64;
    let (apart, spread) = neighbours(&ranks(values));
    if spread == 0.0 {
        return None;
    }
    let variance =
        4.0 * (n - 2.0) * (5.0 * n * n - 2.0 * n - 9.0) / (5.0 * n * (n + 1.0) * (n - 1.0).powi(2));
    // of independent figures the ratio is 2, of figures that follow each other less
    let z = (apart / spread - 2.0) / variance.sqrt();
    let unbiased = (n * correlation(values) + 1.0) / (n - 4.0);
    Some(Autocorrelation {
        correlation: unbiased.clamp(0.0, MAX_CORRELATION),
        chance: student_t::normal_cumulative(z),
    })
}

/// Squares of the differences between neighbours, and of those from the mean, summed.
pub(crate) fn neighbours(values: &[f64]) -> (f64, f64) {
    let apart = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    (apart, deviations(values).iter().map(|deviation| deviation.powi(2)).sum())
}

fn correlation(values: &[f64]) -> f64 {
    let deviations = deviations(values);
    let together: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    together / deviations.iter().map(|deviation| deviation.powi(2)).sum::<f64>()
}

/// How far each value is from the mean of all.
fn deviations(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| value - mean).collect()
}

/// The rank of each value, equal ones sharing the mean of theirs.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval;
    use crate::simulate::{Machine, Noise, share};

    /// The logarithms of so many blocks' figures on a machine with this correlation.
    fn series(correlation: f64, blocks: usize, seed: u64) -> Vec<f64> {
        let mut machine = Machine::new(Noise::Correlated(0.02, correlation), seed, 1);
        (0..blocks).map(|_| machine.factor().ln()).collect()
    }

    fn reported(correlation: f64, blocks: usize) -> f64 {
        let mut seed = 1000 * blocks as u64;
        share(1000, || {
            seed += 1;
            of(&series(correlation, blocks, seed)).unwrap().chance < 0.01
        })
    }

    #[test]
    fn a_ratio_worked_by_hand() {
        // ranks 1 to 10 in order: 9 steps of 1 over 82.5
        let rising: Vec<f64> = (0..10).map(|n| f64::from(n).exp()).collect();
        assert_eq!(neighbours(&ranks(&rising)), (9.0, 82.5));
        assert!(of(&rising).unwrap().chance < 0.001);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(of(&rising[1..]), None);
        assert_eq!(of(&[3.0; 12]), None);
        // high and low in turn follow each other less than by chance, which is no autocorrelation
        let turns: Vec<f64> = (0..12).map(|n| f64::from(n % 2)).collect();
        let found = of(&turns).unwrap();
        assert!(found.chance > 0.99 && found.correlation == 0.0, "{found:?}");
        let half = Autocorrelation { correlation: 0.6, chance: 0.0 };
        assert!((half.widening() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn warns_of_strong_autocorrelation_and_rarely_without_it() {
        for (blocks, much) in [(10, 0.1), (20, 0.4), (30, 0.7)] {
            let found = (reported(0.0, blocks), reported(0.6, blocks));
            println!("{blocks} blocks: told {found:?}");
            assert!(found.0 <= 0.02 && found.1 >= much, "{blocks} blocks: {found:?}");
        }
    }

    /// What the book says of intervals that take blocks for independent, and of how wide they would have
    /// to be.
    #[test]
    fn autocorrelation_makes_intervals_too_narrow_by_the_reported_factor() {
        for correlation in [0.0, 0.3, 0.6, 0.8] {
            for blocks in [5, 10, 20, 30] {
                let mut seed = 7_000_000 + blocks as u64;
                let (mut widened, mut pooled) = (0u32, 0u32);
                let plain = share(2000, || {
                    seed += 1;
                    let values = series(correlation, blocks, seed);
                    let found = interval::of_mean(&values, 0.95).unwrap();
                    let half = interval::half_width(&found).unwrap();
                    let known = ((1.0 + correlation) / (1.0 - correlation)).sqrt();
                    pooled += u32::from(found.mean.abs() <= half * known);
                    let by = of(&values).map_or(1.0, |wander| wander.widening());
                    widened += u32::from(found.mean.abs() <= half * by);
                    !interval::excludes(&found, 0.0)
                });
                let (widened, known) = (f64::from(widened) / 2000.0, f64::from(pooled) / 2000.0);
                println!(
                    "correlation {correlation}, {blocks} blocks: {:.1} % as they are, {:.1} % widened \
                     by the estimate, {:.1} % by the truth",
                    plain * 100.0,
                    widened * 100.0,
                    known * 100.0
                );
                if correlation == 0.0 {
                    assert!((0.93..=0.97).contains(&plain), "{plain}");
                }
                if correlation >= 0.6 && blocks >= 10 {
                    assert!(plain < 0.85 && widened > plain, "{plain} {widened}");
                }
                if blocks == 30 {
                    assert!((0.91..=0.98).contains(&known), "{known}");
                }
            }
        }
    }
}
