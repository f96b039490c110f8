//! Whether the occasions of a family of series depend on those before them.
//!
//! Change points are judged by permutations, which take occasions for exchangeable. They are not where each is like the one
//! before it: a neighbour that stays for some days is then a change of the level. Bartels' ratio
//! ([`autocorrelation`](crate::autocorrelation)) of one short series finds that seldom. Here it is summed over all series, and compared with the
//! sum in random orders of the occasions, which keep the dependence between the series.

use crate::autocorrelation::{neighbours, ranks};
use crate::random::{generator, shuffle};

/// Orders that are drawn beside the observed one.
const PERMUTATIONS: usize = 999;

/// Seed of the orders: the same series have the same probability.
const SEED: u64 = 0x6465_7065_6e64;

/// Fewest figures of a series that is looked at.
const MIN_VALUES: usize = 4;

/// The probability of series whose figures are as much alike their neighbours, if the order of the occasions were random.
/// Each series has a figure, or `None`, for each occasion; changes of their levels are taken out of them before. 1 where nothing
/// can be told.
pub fn chance(series: &[Vec<Option<f64>>]) -> f64 {
    let ranked: Vec<Vec<Option<f64>>> = series.iter().filter_map(|one| ranked(one)).collect();
    let occasions = ranked.iter().map(Vec::len).max().unwrap_or(0);
    if ranked.is_empty() {
        return 1.0;
    }
    let mut order: Vec<usize> = (0..occasions).collect();
    let ratio = |order: &[usize]| -> f64 {
        let of = |one: &Vec<Option<f64>>| {
            let values: Vec<f64> =
                order.iter().filter_map(|at| one.get(*at).copied().flatten()).collect();
            let (apart, spread) = neighbours(&values);
            apart / spread
        };
        ranked.iter().map(of).sum()
    };
    let observed = ratio(&order);
    let mut rng = generator(SEED, 0);
    let alike = (0..PERMUTATIONS).filter(|_| {
        shuffle(&mut order, &mut rng);
        ratio(&order) <= observed
    });
    (alike.count() + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// The ranks of a series; `None` where it is too short, or all of it is the same.
fn ranked(series: &[Option<f64>]) -> Option<Vec<Option<f64>>> {
    let values: Vec<f64> = series.iter().copied().flatten().collect();
    let mut ranks = ranks(&values).into_iter();
    let is_same = values.iter().all(|value| Some(value) == values.first());
    (values.len() >= MIN_VALUES && !is_same)
        .then(|| series.iter().map(|figure| figure.and_then(|_| ranks.next())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Simulator, share};

    /// Twelve series whose occasions depend on the one before by this correlation, half of it in common.
    fn series(seed: u64, occasions: usize, correlation: f64) -> Vec<Vec<Option<f64>>> {
        let mut simulator = Simulator::new(seed);
        let mut walk = || {
            let mut state = simulator.normal();
            let fresh = (1.0 - correlation * correlation).sqrt();
            let mut step = || {
                state = correlation * state + fresh * simulator.normal();
                state
            };
            (0..occasions).map(|_| step()).collect::<Vec<f64>>()
        };
        let common = walk();
        let of =
            |own: Vec<f64>| own.into_iter().zip(&common).map(|(own, common)| Some(own + common));
        (0..12).map(|_| of(walk()).collect()).collect()
    }

    #[test]
    fn independent_occasions_are_rarely_taken_for_dependent() {
        let mut seed = 0;
        let reported = share(300, || {
            seed += 1;
            chance(&series(seed, 12, 0.0)) <= 0.05
        });
        assert!((0.02..=0.09).contains(&reported), "{reported}");
    }

    #[test]
    fn dependent_occasions_are_found() {
        for (occasions, correlation, least) in [(20, 0.5, 0.6), (30, 0.5, 0.8), (30, 0.3, 0.35)] {
            let mut seed = 1000;
            let reported = share(100, || {
                seed += 1;
                chance(&series(seed, occasions, correlation)) <= 0.05
            });
            assert!(reported >= least, "{occasions} occasions, {correlation}: {reported}");
        }
    }

    #[test]
    fn series_that_tell_nothing_tell_nothing() {
        assert_eq!(chance(&[]), 1.0);
        assert_eq!(chance(&[vec![Some(1.0); 9], vec![Some(1.0), Some(2.0), None]]), 1.0);
    }
}
