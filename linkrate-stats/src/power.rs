//! What a test could have found.
//!
//! A test that finds nothing says little before one knows what it would have found. The answer is the smallest true change
//! whose t exceeds the critical value in [`POWER`] of all sessions with the scatter that was seen. That t has a noncentral
//! distribution. Its quantile is taken here as the sum of two central ones, the critical value and the quantile of the power
//! (Bland, An Introduction to Medical Statistics, section 18.2). From four degrees of freedom on this is within a few
//! hundredths of the power that was asked for (see the tests).

use crate::interval::Interval;
use crate::student_t::critical_value;

/// The share of sessions that find a detectable change.
pub const POWER: f64 = 0.9;

/// A detectable change in units of the half-width of an interval with confidence `level` and so many `degrees` of freedom,
/// where the test is one of `tests` that share the permitted error.
pub fn in_half_widths(level: f64, tests: usize, degrees: f64) -> f64 {
    let adjusted = 1.0 - (1.0 - level) / tests.max(1) as f64;
    let critical = |confidence| critical_value(confidence, degrees);
    // the one-sided quantile of the power is the two-sided one of twice its distance from the middle
    (critical(adjusted) + critical(2.0 * POWER - 1.0)) / critical(level)
}

/// The smallest change of a ratio, as a fraction, that sessions of the same scatter find. `ratio` is the t interval of a mean
/// logarithm over `pairs` pairs, exponentiated, with confidence `level`. `None` without an interval.
pub fn detectable(ratio: &Interval, pairs: u32, level: f64, tests: usize) -> Option<f64> {
    let (low, high) = ratio.low.zip(ratio.high)?;
    let degrees = f64::from(pairs.checked_sub(1).filter(|degrees| *degrees > 0)?);
    let half_width = (high / low).ln() / 2.0;
    let change = (half_width * in_half_widths(level, tests, degrees)).exp_m1();
    change.is_finite().then_some(change)
}

/// The relative half-width at which a change of `find`, a fraction, is detectable.
pub fn half_width(find: f64, pairs: u32, level: f64, tests: usize) -> f64 {
    let degrees = f64::from(pairs.saturating_sub(1).max(1));
    find.ln_1p() / in_half_widths(level, tests, degrees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::independent::holm;
    use crate::paired;
    use crate::simulate::{Simulator, share, times};

    #[test]
    fn nine_of_ten_sessions_find_a_detectable_change() {
        for (blocks, tests, seed) in [(5, 1, 1), (10, 1, 2), (10, 12, 3), (30, 36, 4)] {
            const SCATTER: f64 = 0.02;
            let mut simulator = Simulator::new(seed);
            let degrees = f64::from(blocks - 1);
            // the interval of a session with exactly this scatter
            let error = SCATTER * (2.0 / f64::from(blocks)).sqrt();
            let change =
                error * critical_value(0.95, degrees) * in_half_widths(0.95, tests, degrees);
            let mut p = |change: f64| {
                let pair = |simulator: &mut Simulator| {
                    let from = simulator.lognormal(SCATTER);
                    (Some(from), Some(change.exp() * simulator.lognormal(SCATTER)))
                };
                let pairs: Vec<_> = (0..blocks).map(|_| pair(&mut simulator)).collect();
                paired::ratio(pairs, 0.95).unwrap().test.unwrap().outside(0.0, 0.0)
            };
            let found = share(times(400, 4000), || {
                let mut all = vec![p(change)];
                all.extend((1..tests).map(|_| p(0.0)));
                holm(&all)[0] <= 0.05
            });
            assert!((0.84..=0.95).contains(&found), "{blocks} blocks, {tests} tests: {found}");
        }
    }

    #[test]
    fn a_change_is_detectable_at_the_half_width_that_it_asks_for() {
        for (pairs, tests) in [(5, 1), (12, 36)] {
            let half = half_width(0.01, pairs, 0.95, tests);
            let ratio = Interval {
                mean: 0.5,
                low: Some(0.5 * (-half).exp()),
                high: Some(0.5 * half.exp()),
            };
            let found = detectable(&ratio, pairs, 0.95, tests).unwrap();
            assert!((found - 0.01).abs() < 1e-9, "{found}");
        }
    }

    #[test]
    fn without_an_interval_nothing_is_detectable() {
        let alone = Interval { mean: 1.0, low: None, high: None };
        assert_eq!(detectable(&alone, 1, 0.95, 1), None);
        let ratio = Interval { low: Some(0.9), high: Some(1.1), ..alone };
        assert_eq!(detectable(&ratio, 1, 0.95, 1), None);
        assert_eq!(detectable(&Interval { low: Some(0.0), ..ratio }, 5, 0.95, 1), None);
    }

    #[test]
    fn more_tests_find_less_and_more_blocks_find_more() {
        assert!(in_half_widths(0.95, 36, 9.0) > in_half_widths(0.95, 1, 9.0));
        // t of 2.262 and 1.383 with 9 degrees of freedom
        assert!((in_half_widths(0.95, 1, 9.0) - (2.262 + 1.383) / 2.262).abs() < 1e-3);
    }
}
