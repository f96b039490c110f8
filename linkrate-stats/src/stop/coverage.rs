//! What looking costs, simulated: how often intervals cover the truth under the stop rule.

use std::time::Duration;

use super::*;
use crate::interval::{excludes, of_mean};
use crate::paired;
use crate::simulate::{Simulator, times};

/// How the runs of a figure scatter about a mean of 1.
#[derive(Debug, Clone, Copy)]
enum Scatter {
    Normal,
    Lognormal,
    /// The ratio of two lognormal figures, paired within blocks.
    Ratio,
}

impl Scatter {
    fn interval(self, runs: &[f64], level: f64) -> Interval {
        match self {
            Self::Normal | Self::Lognormal => of_mean(runs, level).unwrap(),
            Self::Ratio => {
                let pairs = runs.iter().map(|run| (Some(1.0), Some(*run)));
                paired::ratio(pairs, level).unwrap().ratio
            }
        }
    }

    fn run(self, simulator: &mut Simulator, deviation: f64) -> f64 {
        match self {
            Self::Normal => 1.0 + deviation * simulator.normal(),
            // the mean of a lognormal variate is not its median
            Self::Lognormal => {
                simulator.lognormal(deviation) * (-deviation * deviation / 2.0).exp()
            }
            Self::Ratio => simulator.lognormal(deviation) / simulator.lognormal(deviation),
        }
    }
}

/// What became of many studies: the share of intervals that cover the truth, and blocks run.
struct Found {
    covered: f64,
    blocks: f64,
}

/// Runs studies of `figures` figures each under the rule, at the level that `level` gives.
fn studies(
    rule: &Rule,
    scatter: Scatter,
    deviations: &[f64],
    repetitions: u32,
    level: impl Fn(u32) -> f64,
) -> Found {
    let mut simulator = Simulator::new(1_000 + u64::from(rule.max_blocks));
    let (mut covered, mut blocks) = (0u32, 0u32);
    for _ in 0..repetitions {
        let mut runs = vec![Vec::new(); deviations.len()];
        loop {
            for (runs, deviation) in runs.iter_mut().zip(deviations) {
                runs.push(scatter.run(&mut simulator, *deviation));
            }
            let so_far = runs[0].len() as u32;
            // before the first look it continues whatever the figures are
            if so_far < rule.first_look() {
                continue;
            }
            let figures: Vec<StopInput> = runs
                .iter()
                .map(|runs| scatter.interval(runs, level(so_far)))
                .map(|interval| StopInput { name: String::new(), interval, goal: 0.025 })
                .collect();
            let progress = Progress { blocks: so_far, elapsed: Duration::ZERO, block_time: None };
            if let Decision::Stop(_) = decide(rule, &progress, &figures) {
                let misses = figures.iter().filter(|figure| excludes(&figure.interval, 1.0));
                covered += deviations.len() as u32 - misses.count() as u32;
                blocks += so_far;
                break;
            }
        }
    }
    let n = f64::from(repetitions);
    Found {
        covered: f64::from(covered) / n / deviations.len() as f64,
        blocks: f64::from(blocks) / n,
    }
}

const CONFIDENCE: f64 = 0.95;

fn rule(min_blocks: u32, max_blocks: u32) -> Rule {
    Rule { min_blocks, max_blocks, budget: None }
}

/// As the rule would have it without a price.
fn without(rule: &Rule, scatter: Scatter, deviation: f64, repetitions: u32) -> Found {
    studies(rule, scatter, &[deviation], repetitions, |_| CONFIDENCE)
}

fn with(rule: &Rule, scatter: Scatter, deviations: &[f64], repetitions: u32) -> Found {
    let most = rule.max_blocks;
    studies(rule, scatter, deviations, repetitions, |blocks| level(CONFIDENCE, blocks, most))
}

/// Binomial standard errors of the smallest sample here are 0.35 percentage points.
const REPETITIONS: u32 = 4000;

#[test]
fn intervals_cover_the_truth_whatever_the_scatter() {
    for (min, max) in [(2, 30), (5, 7), (10, 30)].into_iter().take(times(1, 3) as usize) {
        let rule = rule(min, max);
        for scatter in [Scatter::Normal, Scatter::Lognormal, Scatter::Ratio] {
            let mut sum = 0.0;
            let deviations = [0.005, 0.01, 0.02, 0.03, 0.045, 0.07, 0.10];
            for deviation in deviations {
                let found = with(&rule, scatter, &[deviation], REPETITIONS);
                let place = format!("{min} to {max}, {scatter:?}, {deviation}");
                assert!((0.93..=0.98).contains(&found.covered), "{place}: {}", found.covered);
                sum += found.covered;
            }
            let mean = sum / deviations.len() as f64;
            assert!((0.945..=0.97).contains(&mean), "{min} to {max}, {scatter:?}: {mean}");
        }
    }
}

#[test]
fn of_many_figures_each_is_covered() {
    let rule = rule(5, 30);
    for deviation in [0.01, 0.03, 0.05] {
        // the widest decides when the others stop too
        let mixed: Vec<f64> = (0..12).map(|n| deviation * f64::from(1 + n % 3) / 3.0).collect();
        let found = with(&rule, Scatter::Normal, &mixed, 600);
        assert!((0.945..=0.98).contains(&found.covered), "{deviation}: {}", found.covered);
    }
}

/// Without the price the test above would fail, so that it is known to be able to.
#[test]
fn checking_without_a_cost_covers_too_little() {
    let found = without(&rule(5, 30), Scatter::Normal, 0.05, REPETITIONS);
    assert!(found.covered < 0.93, "{}", found.covered);
}

#[test]
fn the_cost_in_blocks_is_small() {
    let rule = rule(5, 30);
    for (deviation, most) in [(0.005, 1.0), (0.01, 1.02), (0.03, 1.25), (0.05, 1.25), (0.10, 1.02)]
    {
        let free = without(&rule, Scatter::Normal, deviation, 1000).blocks;
        let paid = with(&rule, Scatter::Normal, &[deviation], 1000).blocks;
        assert!(paid <= free * most, "{deviation}: {free} blocks, {paid} with the price");
    }
}
