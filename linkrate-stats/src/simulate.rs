//! Random numbers with known distributions, and noise as machines make it, for tests of statistics and of what
//! is built on them.

use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How often a simulation is done: `usual` times in the usual run of tests, `all` in an exhaustive one
/// (`cargo xtask test --all`).
pub fn times(usual: u32, all: u32) -> u32 {
    match std::env::var_os("LINKRATE_ALL_CASES") {
        Some(_) => all,
        None => usual,
    }
}

/// A source of variates with a fixed seed.
pub struct Simulator {
    bits: ChaCha8Rng,
    spare: Option<f64>,
}

impl Simulator {
    /// The source with this seed.
    pub fn new(seed: u64) -> Self {
        Self { bits: ChaCha8Rng::seed_from_u64(seed), spare: None }
    }

    /// Uniform in (0, 1], so that its logarithm exists.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller's transform.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }

    /// Lognormal with median 1: e to the power of a normal variate with this deviation.
    pub fn lognormal(&mut self, deviation: f64) -> f64 {
        (deviation * self.normal()).exp()
    }

    /// Student's t with three degrees of freedom: extremes are common, the fourth moment infinite.
    pub fn heavy(&mut self) -> f64 {
        let normal = self.normal();
        let square: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        normal / (square / 3.0).sqrt()
    }
}

/// The share of `repetitions` in which `covered` says yes.
pub fn share(repetitions: u32, mut covered: impl FnMut() -> bool) -> f64 {
    let hits = (0..repetitions).filter(|_| covered()).count();
    hits as f64 / f64::from(repetitions)
}

/// What disturbs the runs of a study, one after the other. Deviations are fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// Every run by itself, normal.
    Independent(f64),
    /// The machine slows down by this much with every run.
    Linear(f64),
    /// Each run starts from where the last one was.
    RandomWalk(f64),
    /// From one moment on everything is a third faster; the moment is any.
    Step,
    /// First-order autoregression: deviation of a run, and correlation with the one before.
    Correlated(f64, f64),
    /// One run in twenty is 10 to 30 % too slow.
    Outliers,
    /// Student's t with three degrees of freedom.
    HeavyTails(f64),
    /// The first runs of a block are slow, as after a pause; the period is that of the blocks.
    Sawtooth(f64),
    /// A third slower at first, as before a machine is warm; what is left of that falls to 1/e in
    /// this many runs.
    Settling(f64),
    /// 5 % slower and faster in turn, with a period of this many runs, in any phase.
    Rhythm(f64),
}

/// The factors by which one study's runs differ from the truth, in the order of execution.
pub struct Machine {
    noise: Noise,
    simulator: Simulator,
    runs: u32,
    per_block: u32,
    state: f64,
    step_at: u32,
}

/// What every machine has beside its own trouble.
const GROUND: f64 = 0.01;

impl Machine {
    /// A machine on which blocks take `per_block` runs.
    pub fn new(noise: Noise, seed: u64, per_block: u32) -> Self {
        let mut simulator = Simulator::new(seed);
        let state = match noise {
            Noise::Correlated(deviation, _) => deviation * simulator.normal(),
            Noise::Rhythm(_) => TAU * simulator.uniform(),
            _ => 0.0,
        };
        let step_at = (simulator.uniform() * 6.0 * f64::from(per_block)) as u32;
        Self { noise, simulator, runs: 0, per_block, state, step_at }
    }

    /// The factor of the next run; above 1 is faster.
    pub fn factor(&mut self) -> f64 {
        let at = f64::from(self.runs);
        self.runs += 1;
        let one = &mut self.simulator;
        let ground = one.lognormal(GROUND);
        match self.noise {
            Noise::Independent(deviation) => one.lognormal(deviation),
            Noise::Linear(slope) => ground * (-slope * at).exp(),
            Noise::RandomWalk(step) => {
                self.state += step * one.normal();
                ground * self.state.exp()
            }
            Noise::Step => ground * if self.runs > self.step_at { 4.0 / 3.0 } else { 1.0 },
            Noise::Correlated(deviation, rho) => {
                let fresh = deviation * (1.0 - rho * rho).sqrt() * one.normal();
                self.state = rho * self.state + fresh;
                self.state.exp()
            }
            Noise::Outliers => {
                let slow = one.uniform() < 0.05;
                let loss = 0.1 + 0.2 * one.uniform();
                if slow { ground * (1.0 - loss) } else { ground }
            }
            Noise::HeavyTails(scale) => (scale * one.heavy()).exp(),
            Noise::Sawtooth(depth) => {
                let position = f64::from((self.runs - 1) % self.per_block);
                ground * (1.0 - depth * (-position / 3.0).exp())
            }
            Noise::Settling(runs) => ground * (1.0 - (-at / runs).exp() / 3.0),
            Noise::Rhythm(period) => ground * (1.0 + 0.05 * (TAU * at / period + self.state).sin()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlated_noise_has_its_deviation_and_its_correlation() {
        for rho in [0.5, 0.9] {
            let mut machine = Machine::new(Noise::Correlated(0.03, rho), 1, 4);
            let logarithms: Vec<f64> = (0..100_000).map(|_| machine.factor().ln()).collect();
            let product = |lag: usize| {
                let pairs = logarithms.iter().zip(&logarithms[lag..]);
                pairs.map(|(one, other)| one * other).sum::<f64>() / logarithms.len() as f64
            };
            let (variance, covariance) = (product(0), product(1));
            assert!((variance.sqrt() / 0.03 - 1.0).abs() < 0.05, "{rho}: {variance}");
            assert!((covariance / variance - rho).abs() < 0.02, "{rho}: {covariance}");
        }
    }
}
