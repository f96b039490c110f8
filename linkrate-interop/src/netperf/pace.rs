//! Calls in intervals (`-b`, `-w`).

use std::time::{Duration, Instant};

/// At most so many calls in each interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    pub calls: u32,
    pub length: Duration,
}

impl Intervals {
    /// Those of a message; `None` without a bound.
    pub(super) fn of(calls: u32, microseconds: u32) -> Option<Self> {
        let length = Duration::from_micros(microseconds.max(1).into());
        Some(Self { calls, length }).filter(|intervals| intervals.calls > 0)
    }

    /// The words of a message.
    pub(super) fn words(intervals: Option<Self>) -> [u32; 2] {
        intervals.map_or([0; 2], |Self { calls, length }| {
            [calls, u32::try_from(length.as_micros()).unwrap_or(u32::MAX)]
        })
    }
}

/// The calls of an end that has such a bound.
#[derive(Debug)]
pub struct Pace {
    intervals: Intervals,
    /// Calls that are left in this one.
    left: u32,
    /// When the next one begins.
    next: Instant,
}

impl Pace {
    #[must_use]
    pub fn of(intervals: Intervals) -> Self {
        Self { intervals, left: intervals.calls, next: Instant::now() + intervals.length }
    }

    /// Takes a call. Where it was the last one of its interval, this is how long the next one is to be waited for. An
    /// interval that the calls outlast is left out, as by a timer that fires meanwhile.
    pub fn take(&mut self) -> Duration {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return Duration::ZERO;
        }
        let Intervals { calls, length } = self.intervals;
        self.left = calls;
        let now = Instant::now();
        if let Some(late) = now.checked_duration_since(self.next) {
            // as many intervals as have passed, however short they are
            let into = late.as_nanos() % length.as_nanos().max(1);
            self.next = now + length - Duration::from_nanos(u64::try_from(into).unwrap_or(0));
        }
        let pause = self.next - now;
        self.next += length;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_of_an_interval_waits_for_the_next_one() {
        let length = Duration::from_secs(60);
        let mut pace = Pace::of(Intervals { calls: 3, length });
        assert_eq!([(); 2].map(|()| pace.take()), [Duration::ZERO; 2]);
        let pause = pace.take();
        assert!(pause > length / 2 && pause <= length, "{pause:?}");
    }

    #[test]
    fn a_late_call_waits_for_the_next_interval_however_many_have_passed() {
        for (length, least, most) in
            [(Duration::from_secs(7), 3.0, 4.0), (Duration::from_micros(1), 0.0, 1e-6)]
        {
            let intervals = Intervals { calls: 1, length };
            let next = Instant::now() - Duration::from_secs(10);
            let pause = Pace { intervals, left: 1, next }.take().as_secs_f64();
            assert!((least..=most).contains(&pause), "{length:?}: {pause}");
        }
    }

    #[test]
    fn words_read_back() {
        let intervals = Intervals { calls: 4, length: Duration::from_micros(250) };
        let [calls, microseconds] = Intervals::words(Some(intervals));
        assert_eq!(Intervals::of(calls, microseconds), Some(intervals));
        assert_eq!(Intervals::words(None), [0; 2]);
        assert_eq!(Intervals::of(0, 1000), None);
    }
}
