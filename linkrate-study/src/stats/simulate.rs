//! Random numbers with known distributions, for tests of the statistics.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A source of variates with a fixed seed.
pub(crate) struct Simulator {
    bits: ChaCha8Rng,
    spare: Option<f64>,
}

impl Simulator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { bits: ChaCha8Rng::seed_from_u64(seed), spare: None }
    }

    /// Uniform in (0, 1], so that its logarithm exists.
    fn uniform(&mut self) -> f64 {
        ((self.bits.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller's transform.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (2.0 * std::f64::consts::PI * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }

    /// Lognormal with median 1: e to the power of a normal variate with this deviation.
    pub(crate) fn lognormal(&mut self, deviation: f64) -> f64 {
        (deviation * self.normal()).exp()
    }
}

/// The share of `repetitions` in which `covered` says yes.
pub(crate) fn share(repetitions: u32, mut covered: impl FnMut() -> bool) -> f64 {
    let hits = (0..repetitions).filter(|_| covered()).count();
    hits as f64 / f64::from(repetitions)
}
