//! At most so many in any interval of time.

use std::time::Duration;

/// Permits at most `N` in any interval of one second, whose first end counts.
#[derive(Debug, Clone)]
pub(super) struct Limiter<const N: usize> {
    /// The last `N` times, the oldest at `next`.
    times: [Option<Duration>; N],
    next: usize,
}

impl<const N: usize> Limiter<N> {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) const fn new() -> Self {
        Self { times: [None; N], next: 0 }
    }

    /// When the next one is permitted; the time may be past.
    pub(super) fn free(&self) -> Duration {
        self.times[self.next].map_or(Duration::ZERO, |oldest| oldest.saturating_add(Self::INTERVAL))
    }

    /// Whether nothing was taken in the last second.
    pub(super) fn is_free(&self, now: Duration) -> bool {
        let is_past = |time: Duration| time.saturating_add(Self::INTERVAL) <= now;
        self.times.iter().flatten().all(|time| is_past(*time))
    }

    /// Takes one, if one is permitted at `now`.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let free = self.free() <= now;
        if free {
            self.times[self.next] = Some(now);
            self.next = (self.next + 1) % N;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_three_in_any_second() {
        let mut limiter = Limiter::<3>::new();
        let ms = Duration::from_millis;
        let taken: Vec<u64> =
            (0..3000).step_by(100).filter(|time| limiter.take(ms(*time))).collect();
        assert_eq!(taken, [0, 100, 200, 1000, 1100, 1200, 2000, 2100, 2200]);
        assert_eq!(limiter.free(), ms(3000));
    }
}
