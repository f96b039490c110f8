//! The device's time: picoseconds since the device threads were made.
//!
//! A byte at 10 Gb/s takes 800 ps, so nanoseconds would not do. 64 bits last 213 days.

use std::time::Duration;

use linkrate_sys::clock::monotonic_ns;

pub(crate) const PS_PER_NS: u64 = 1000;

pub const PS_PER_US: u64 = 1_000_000;

/// Reads the device's time.
#[derive(Debug, Clone, Copy)]
pub struct DeviceClock {
    epoch_ns: u64,
}

impl DeviceClock {
    #[must_use]
    pub fn start() -> Self {
        Self { epoch_ns: monotonic_ns() }
    }

    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.at_ps(monotonic_ns())
    }

    /// A time of CLOCK_MONOTONIC in ns as the device's time; 0 for a time before the device's
    /// beginning.
    #[must_use]
    pub fn at_ps(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.epoch_ns).saturating_mul(PS_PER_NS)
    }

    /// Nanoseconds from `now_ps` until `then_ps`, rounded up.
    #[must_use]
    pub fn ns_until(now_ps: u64, then_ps: u64) -> u64 {
        then_ps.saturating_sub(now_ps).div_ceil(PS_PER_NS)
    }

    /// A time of the device as CLOCK_MONOTONIC, ns.
    #[must_use]
    pub fn monotonic_ns(&self, at_ps: u64) -> u64 {
        self.epoch_ns + at_ps / PS_PER_NS
    }
}

pub(crate) fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A time of the device, without the picoseconds.
pub(crate) fn time(at_ps: u64) -> Duration {
    Duration::from_nanos(at_ps / 1000)
}
