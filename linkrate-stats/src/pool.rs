//! Quantiles of what all runs observed together, with intervals by bootstrap over runs.
//!
//! Observations within a run depend on each other: a stall meets many requests in a row. So runs are drawn, and
//! never observations.

use rand_chacha::ChaCha8Rng;

use crate::interval::MIN_TO_CLAIM;
use crate::random::{below, generator};
use crate::student_t;

/// Bootstrap samples for an interval. The level that five runs take is at the fourth of them.
const SAMPLES: usize = 4000;

/// The observations of several runs, as how often each value occurred.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Distinct values of all runs, ascending.
    values: Vec<u64>,
    /// For each run: how many of its observations are at most the value of that place.
    cumulative: Vec<Vec<u64>>,
}

impl Pool {
    /// Pools runs, each given as values and how often they occurred, in any order.
    pub fn of(runs: &[Vec<(u64, u64)>]) -> Self {
        let mut values: Vec<u64> = runs.iter().flatten().map(|(value, _)| *value).collect();
        values.sort_unstable();
        values.dedup();
        let cumulative = |run: &Vec<(u64, u64)>| {
            let mut counts = vec![0_u64; values.len()];
            for (value, count) in run {
                let at = values.partition_point(|other| other < value);
                counts[at] = counts[at].saturating_add(*count);
            }
            let mut sum = 0_u64;
            for count in &mut counts {
                sum = sum.saturating_add(*count);
                *count = sum;
            }
            counts
        };
        let cumulative = runs.iter().map(cumulative).collect();
        Self { values, cumulative }
    }

    /// Observations of all runs.
    pub fn count(&self) -> u64 {
        self.count_of(&vec![1; self.cumulative.len()])
    }

    /// The smallest value that at least the share `quantile` (0 to 1) of the observations is at most; `None` without
    /// observations.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        self.quantile_of(&vec![1; self.cumulative.len()], quantile)
    }

    /// The two-sided interval of each of `quantiles` at `confidence`, low and high end; `None` of fewer than
    /// [`MIN_TO_CLAIM`] runs, of which there are too few samples. The same seed gives the same interval.
    ///
    /// It is the bootstrap percentile interval, at a level that makes up for few runs: plain percentiles cover too
    /// little, by the factor √((n − 1) / n) and by the normal distribution in place of t (Hesterberg, "What Teachers
    /// Should Know About the Bootstrap", 2015, expanded percentile intervals).
    pub fn intervals(
        &self,
        quantiles: &[f64],
        confidence: f64,
        seed: u64,
    ) -> Vec<Option<[u64; 2]>> {
        let runs = self.cumulative.len();
        if runs < MIN_TO_CLAIM as usize || self.count() == 0 {
            return vec![None; quantiles.len()];
        }
        let degrees = (runs - 1) as f64;
        let t = student_t::critical_value(confidence, degrees);
        let beyond = student_t::normal_cumulative(-t * (runs as f64 / degrees).sqrt());
        let mut random = generator(seed, 0);
        let mut sampled: Vec<Vec<u64>> = vec![Vec::with_capacity(SAMPLES); quantiles.len()];
        for _ in 0..SAMPLES {
            let weights = drawn(&mut random, runs);
            for (sampled, quantile) in sampled.iter_mut().zip(quantiles) {
                // a sample of runs without observations has no quantiles
                sampled.extend(self.quantile_of(&weights, *quantile));
            }
        }
        let interval = |mut values: Vec<u64>| {
            values.sort_unstable();
            let skipped = ((values.len() as f64 * beyond) as usize).min(values.len() / 2);
            Some([*values.get(skipped)?, *values.get(values.len().checked_sub(1 + skipped)?)?])
        };
        sampled.into_iter().map(interval).collect()
    }

    /// Observations, where each run occurs as often as its weight says.
    fn count_of(&self, weights: &[u64]) -> u64 {
        self.up_to(weights, self.values.len().saturating_sub(1))
    }

    /// Observations up to the value at a place.
    fn up_to(&self, weights: &[u64], place: usize) -> u64 {
        let counts = self.cumulative.iter().zip(weights);
        let counts = counts
            .map(|(run, weight)| run.get(place).copied().unwrap_or(0).saturating_mul(*weight));
        counts.fold(0, u64::saturating_add)
    }

    fn quantile_of(&self, weights: &[u64], quantile: f64) -> Option<u64> {
        let count = self.count_of(weights);
        // those beyond are rounded down, and with them the error of the binary fraction
        let beyond = (count as f64 * (1.0 - quantile) * (1.0 + 1e-12)).floor() as u64;
        let rank = count.saturating_sub(beyond).max(1);
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.up_to(weights, middle) >= rank {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        self.values.get(low).copied()
    }
}

/// How often each run is among as many as there are, drawn with replacement.
fn drawn(random: &mut ChaCha8Rng, runs: usize) -> Vec<u64> {
    let mut weights = vec![0; runs];
    for _ in 0..runs {
        weights[below(random, runs as u64) as usize] += 1;
    }
    weights
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simulate::{Simulator, share};

    /// A stall of 100 ms in 1 s at 150 µs, as a closed loop and as an open loop at 80 % of its rate see it: latencies
    /// in µs.
    fn with_a_stall(open: bool) -> Vec<(u64, u64)> {
        let (service_us, stall_at_us, stall_us, interval_us) = (150, 400_000, 100_000, 1_000_000);
        let gap_us = if open { service_us * 100 / 80 } else { 0 };
        let (mut free_at, mut due, mut seen) = (0, 0, Vec::new());
        while due < interval_us {
            let starts = due.max(free_at);
            let stall = (starts..starts + service_us).contains(&stall_at_us);
            free_at = starts + service_us + if stall { stall_us } else { 0 };
            seen.push((free_at - due, 1));
            due = if open { due + gap_us } else { free_at };
        }
        seen
    }

    #[test]
    fn an_open_loop_sees_a_stall_that_a_closed_loop_does_not() {
        let quantiles = |open| {
            let pool = Pool::of(&[with_a_stall(open)]);
            [0.5, 0.9, 0.99, 0.999].map(|quantile| pool.quantile(quantile).unwrap())
        };
        assert_eq!(quantiles(false), [150; 4]);
        let [p50, p90, p99, _] = quantiles(true);
        // the stall holds up a tenth of the requests, and its backlog another 40 %
        assert!(
            p50 <= 10_000 && p90.abs_diff(80_000) < 2_000 && p99.abs_diff(98_000) < 1_000,
            "{p50} {p90} {p99}"
        );
    }

    #[test]
    fn a_quantile_is_that_of_all_observations_together() {
        // the mean of the medians would be 15
        let pool = Pool::of(&[vec![(10, 300)], vec![(20, 100)]]);
        assert_eq!(
            (pool.count(), pool.quantile(0.5), pool.quantile(0.9)),
            (400, Some(10), Some(20))
        );
        assert_eq!(Pool::of(&[]).quantile(0.5), None);
        assert_eq!(Pool::of(&[vec![], vec![]]).intervals(&[0.5], 0.95, 1), [None]);
        // 1 of 10,000 is beyond, and not 2
        let pool = Pool::of(&[(1..=10_000).map(|value| (value, 1)).collect()]);
        assert_eq!(pool.quantile(0.9999), Some(9999));
    }

    #[test]
    fn an_interval_is_the_same_for_the_same_seed_and_needs_five_runs() {
        let runs: Vec<Vec<(u64, u64)>> =
            (0..8).map(|run| vec![(100 + run, 50), (200 + 3 * run, 50)]).collect();
        let of = |runs: &[Vec<(u64, u64)>], seed| Pool::of(runs).intervals(&[0.5, 0.9], 0.95, seed);
        assert_eq!(of(&runs, 7), of(&runs, 7));
        assert_eq!(of(&runs[..4], 7), [None, None]);
        assert_ne!(of(&runs[..5], 7), [None, None]);
        let [Some([low, high]), _] = of(&runs, 7)[..] else { panic!("no interval") };
        assert!(low < high && (100..108).contains(&low), "{low} to {high}");
    }

    /// Runs whose level differs, as those of real hosts do: the interval of the median covers the median of all runs
    /// that could be.
    #[test]
    fn intervals_over_few_runs_cover_the_truth() {
        let mut simulator = Simulator::new(11);
        for (runs, least) in [(5, 0.92), (10, 0.92), (20, 0.92)] {
            let covered = share(300, || {
                let runs: Vec<Vec<(u64, u64)>> = (0..runs)
                    .map(|_| {
                        let level = 1e6 * (0.05 * simulator.normal()).exp();
                        let value = |simulator: &mut Simulator| {
                            ((level * (0.3 * simulator.normal()).exp()) as u64, 1)
                        };
                        (0..200).map(|_| value(&mut simulator)).collect()
                    })
                    .collect();
                let interval = Pool::of(&runs).intervals(&[0.5], 0.95, 3)[0].unwrap();
                (interval[0]..=interval[1]).contains(&1_000_000)
            });
            assert!((least..=0.99).contains(&covered), "{runs} runs: {covered}");
        }
    }

    proptest! {
        #[test]
        fn a_quantile_is_the_value_at_its_rank(
            runs in prop::collection::vec(prop::collection::vec((0_u64..50, 1_u64..4), 0..20), 1..5),
            percent in 0_u32..100,
        ) {
            let mut all: Vec<u64> = Vec::new();
            for (value, count) in runs.iter().flatten() {
                all.extend(std::iter::repeat_n(*value, *count as usize));
            }
            all.sort_unstable();
            let beyond = all.len() * (100 - percent as usize) / 100;
            let expected = (!all.is_empty()).then(|| all[(all.len() - beyond).max(1) - 1]);
            prop_assert_eq!(Pool::of(&runs).quantile(f64::from(percent) / 100.0), expected);
        }
    }
}
