//! How far figures of the same thing lie apart from one session to the next.
//!
//! Runs of a session share what it has: the layout of memory, a neighbour on the hypervisor, a warm room. Their scatter does not
//! contain it. So two sets of one session each are as uncertain of their difference as sessions scatter, which these two cannot tell.
//! It is taken from sessions of the same study on the same machine: five to ten of them on two machines (`cargo xtask sessions`; ten
//! sessions of `tso --quick` on 2026-11-29).

use crate::quantity::Measure;

/// Standard deviations between sessions, of logarithms, as fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionScatter {
    /// Of throughput.
    pub throughput: f64,
    /// Of service demand and transactions.
    pub cost: f64,
    /// Of effects on these.
    pub effect: f64,
    /// Of latency, and of effects on it; `None` where it is not known.
    pub latency: Option<f64>,
    /// Degrees of freedom with which they are known.
    pub degrees: f64,
}

impl Default for SessionScatter {
    /// What was measured: service demands 3.3 %, effects on them 2.4 %, throughput at most 0.2 %.
    fn default() -> Self {
        Self { throughput: 0.002, cost: 0.033, effect: 0.024, latency: None, degrees: 9.0 }
    }
}

impl SessionScatter {
    /// One for all measures, as a user knows it of a machine.
    pub fn of_all(scatter: f64) -> Self {
        Self {
            throughput: scatter,
            cost: scatter,
            effect: scatter,
            latency: Some(scatter),
            ..Self::default()
        }
    }

    /// That of a measure of cells, or of effects on it; `None` where it is not known.
    pub fn of(self, measure: Measure, of_effects: bool) -> Option<f64> {
        match measure {
            Measure::Throughput | Measure::Transmit | Measure::Receive => Some(self.throughput),
            Measure::LatencyP50 | Measure::LatencyP99 => self.latency,
            _ if of_effects => Some(self.effect),
            _ => Some(self.cost),
        }
    }
}
