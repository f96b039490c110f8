//! Whether figures drift: Mann and Kendall's test (Mann 1945; Kendall 1975).
//!
//! It counts in how many pairs the later figure is the larger one. Without a drift every order of
//! the figures is equally likely, whatever their distribution, so that its probabilities are known
//! exactly even for five of them.

/// Longest series whose probabilities are counted out; beyond it the normal distribution does.
const MAX_EXACT: usize = 60;

/// A drift through a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Change from one figure to the next, in the unit of the figures: the median of the slopes of
    /// all pairs (Theil 1950; Sen 1968), which a few outliers do not move.
    pub slope: f64,
    /// Probability of an order as much like a drift as this one, either way, where there is none.
    pub chance: f64,
}

/// The drift through `values`, taken at equal distances; `None` for fewer than three.
pub fn of(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < 3 {
        return None;
    }
    let (mut score, mut slopes) = (0i64, Vec::with_capacity(n * (n - 1) / 2));
    for (index, from) in values.iter().enumerate() {
        for (distance, to) in (1u32..).zip(&values[index + 1..]) {
            // figures that are equal speak for neither side
            score += i64::from(to > from) - i64::from(to < from);
            slopes.push((to - from) / f64::from(distance));
        }
    }
    Some(Trend { slope: median(&mut slopes)?, chance: chance(n, score.unsigned_abs()) })
}

/// The middle value, or the mean of the two in the middle; `None` without values. Sorts them.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values[middle - 1] + upper) / 2.0)
}

/// The probability that `n` figures in random order have a score of at least `score`, either way.
fn chance(n: usize, score: u64) -> f64 {
    let pairs = n * (n - 1) / 2;
    let one_side = if n <= MAX_EXACT {
        // a score of s is one of pairs - s over 2 inversions, whose distribution is that of a sum
        // of independent uniform numbers from 0 to i for i below n
        let mut inversions = vec![1.0];
        for choices in 2..=n {
            let mut next = vec![0.0; inversions.len() + choices - 1];
            for (at, probability) in inversions.iter().enumerate() {
                for place in &mut next[at..at + choices] {
                    *place += probability / choices as f64;
                }
            }
            inversions = next;
        }
        let most = (pairs as u64).saturating_sub(score) / 2;
        inversions.iter().take(most as usize + 1).sum::<f64>()
    } else {
        let n = n as f64;
        let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        // the score moves in steps of two
        let z = (score as f64 - 1.0).max(0.0) / deviation;
        1.0 - super::student_t::normal_cumulative(z)
    };
    (2.0 * one_side).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Simulator, share};

    #[test]
    fn probabilities_are_those_of_kendalls_table() {
        // Kendall, Rank Correlation Methods, appendix table 1: one side
        for (n, score, table) in [
            (4, 6, 0.042),
            (5, 10, 0.0083),
            (5, 8, 0.042),
            (6, 11, 0.028),
            (8, 18, 0.016),
            (10, 21, 0.036),
        ] {
            let found = chance(n, score) / 2.0;
            assert!((found - table).abs() < 0.0005, "n {n}, score {score}: {found}");
        }
        assert_eq!(chance(5, 0), 1.0);
        // where counting ends and the normal distribution begins they agree
        let (counted, normal) = (chance(60, 400), chance(61, 410));
        assert!((counted / normal - 1.0).abs() < 0.1, "{counted} {normal}");
    }

    #[test]
    fn outliers_do_not_change_the_measured_drift() {
        let rising: Vec<f64> = (0..9).map(|n| 3.0 + 0.5 * f64::from(n)).collect();
        let trend = of(&rising).unwrap();
        assert_eq!(trend.slope, 0.5);
        assert!((trend.chance - 2.0 / 362_880.0).abs() < 1e-12);
        let mut struck = rising.clone();
        struck[4] = 100.0;
        let trend = of(&struck).unwrap();
        assert!((0.4..0.6).contains(&trend.slope) && trend.chance < 0.02, "{trend:?}");
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert_eq!(of(&falling).unwrap().slope, -0.5);
        assert_eq!(of(&rising[..2]), None);
    }

    #[test]
    fn rarely_reports_a_drift_that_does_not_exist() {
        let mut simulator = Simulator::new(41);
        let mistaken = share(4000, || {
            let values: Vec<f64> = (0..8).map(|_| simulator.heavy()).collect();
            of(&values).unwrap().chance < 0.05
        });
        assert!((0.02..=0.06).contains(&mistaken), "{mistaken}");
    }

    #[test]
    fn the_middle_of_even_and_odd() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}
