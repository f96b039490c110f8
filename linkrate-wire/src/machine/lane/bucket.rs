//! A bounded rate.

use std::time::Duration;

/// Permits `most` at once, and one more after each `every`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    most: u32,
    every: Duration,
    left: u32,
    /// The time up to which `left` counts what was gained.
    since: Duration,
}

impl Bucket {
    /// A full one: `most` in `time`, at least one.
    pub(super) fn new(most: u32, time: Duration) -> Self {
        let most = most.max(1);
        let every = (time / most).max(Duration::from_nanos(1));
        Self { most, every, left: most, since: Duration::ZERO }
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since).as_nanos() / self.every.as_nanos();
        if passed >= u128::from(self.most - self.left) {
            (self.left, self.since) = (self.most, now);
        } else {
            self.left += passed as u32;
            self.since += self.every * passed as u32;
        }
    }

    /// Takes one, if one is left at `now`.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.refill(now);
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }

    /// When one is left; the time may be past.
    pub(super) fn free(&self) -> Duration {
        if self.left > 0 { self.since } else { self.since + self.every }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_its_rate_after_its_burst() {
        let ms = Duration::from_millis;
        let mut bucket = Bucket::new(4, ms(1000));
        let taken: Vec<u64> = (0..2000).step_by(50).filter(|at| bucket.take(ms(*at))).collect();
        assert_eq!(taken, [0, 50, 100, 150, 250, 500, 750, 1000, 1250, 1500, 1750]);
        assert_eq!(bucket.free(), ms(2000));
        // silence fills it, and not more
        let taken = (0..100).filter(|_| bucket.take(ms(60_000))).count();
        assert_eq!(taken, 4);
    }
}
