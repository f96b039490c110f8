//! Requests without a response, and when the next one begins.

use std::collections::VecDeque;
use std::time::Duration;

use linkrate_model::Workload;

/// Most requests that an open loop has outstanding on a connection. Further ones that are due wait at the client, and
/// their latency counts from the time that they were due.
const MAX_OUTSTANDING: usize = 4096;

/// Requests that did not begin, up to which each is told by itself.
const OVERDUE_EACH: u64 = 1_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// One request, transfer or file that has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Its number, where responses tell one.
    pub number: u32,
    /// When it began, from where its latency counts.
    pub begun_ns: u64,
    /// When it was sent, in an open loop perhaps later.
    pub sent_ns: u64,
}

/// When the requests of a flow begin.
#[derive(Debug, Clone)]
pub enum Pace {
    /// Closed loop: at once, as long as fewer than so many are outstanding.
    Closed(u32),
    /// Open loop: at fixed times, however many are outstanding.
    Open(Schedule),
}

/// Times at equal distances.
#[derive(Debug, Clone)]
pub struct Schedule {
    rate_per_s: u64,
    /// The first time; `None` before it was asked for.
    first_ns: Option<u64>,
    /// From the first question to the first time, so that flows do not send all at once.
    phase_ns: u64,
    /// Times that have passed.
    taken: u64,
    /// Most outstanding.
    most: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self::Closed(1)
    }
}

impl Pace {
    /// That of a workload; `seed` is that of the flow.
    pub fn of(workload: &Workload, seed: u64) -> Self {
        let Some(rate) = workload.request_rate_per_s else { return Self::Closed(workload.burst) };
        let rate_per_s = u64::from(rate.max(1));
        let phase_ns = seed % (SECOND_NS / rate_per_s).max(1);
        let most = MAX_OUTSTANDING;
        Self::Open(Schedule { rate_per_s, first_ns: None, phase_ns, taken: 0, most })
    }

    /// Bounds what an open loop has outstanding.
    pub fn bound(&mut self, most: usize) {
        if let Self::Open(schedule) = self {
            schedule.most = schedule.most.min(most);
        }
    }

    /// Whether requests begin at fixed times.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// When the next request begins or should have begun; `None` if it is not to begin yet.
    pub fn next(&mut self, now_ns: u64, outstanding: usize) -> Option<u64> {
        match self {
            Self::Closed(most) => (outstanding < *most as usize).then_some(now_ns),
            Self::Open(schedule) => {
                let may_begin = outstanding < schedule.most;
                may_begin.then(|| schedule.take(now_ns)).flatten()
            }
        }
    }

    /// Time until a further request is due; `None` in a closed loop, and where so many are outstanding that one
    /// must end first.
    pub fn due_in(&mut self, now_ns: u64, outstanding: usize) -> Option<Duration> {
        let Self::Open(schedule) = self else { return None };
        let due_ns = schedule.due_ns(now_ns);
        (outstanding < schedule.most).then(|| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
    }

    /// When requests should have begun that did not, until `until_ns`, and how many: one each, and of very many those
    /// that follow each other closely as one.
    pub fn overdue(&mut self, until_ns: u64) -> Option<(u64, u64)> {
        let Self::Open(schedule) = self else { return None };
        schedule.first_ns?;
        let due_ns = schedule.due_ns(until_ns);
        let since = u128::from(until_ns.checked_sub(due_ns)?);
        let left = since * u128::from(schedule.rate_per_s) / u128::from(SECOND_NS) + 1;
        let count = (u64::try_from(left).unwrap_or(u64::MAX) / OVERDUE_EACH).max(1);
        schedule.taken += count;
        Some((due_ns, count))
    }
}

impl Schedule {
    fn due_ns(&mut self, now_ns: u64) -> u64 {
        let first_ns = *self.first_ns.get_or_insert(now_ns.saturating_add(self.phase_ns));
        // no error adds up, whatever the rate
        let since = u128::from(self.taken) * u128::from(SECOND_NS) / u128::from(self.rate_per_s);
        first_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns(now_ns);
        (due_ns <= now_ns).then(|| {
            self.taken += 1;
            due_ns
        })
    }
}

/// What has begun and not ended, the oldest first.
#[derive(Debug, Default)]
pub struct Outstanding {
    begun: VecDeque<Pending>,
}

impl Outstanding {
    pub fn len(&self) -> usize {
        self.begun.len()
    }

    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.begun.iter()
    }

    pub fn oldest(&self) -> Option<&Pending> {
        self.begun.front()
    }

    /// One more has begun.
    pub fn begin(&mut self, begun: Pending) {
        self.begun.push_back(begun);
    }

    /// The oldest has ended. Returns when it began.
    pub fn end_oldest(&mut self) -> Option<u64> {
        self.begun.pop_front().map(|begun| begun.begun_ns)
    }

    /// The first that `is_it` knows has ended. Returns when it began.
    pub fn end(&mut self, is_it: impl FnMut(&Pending) -> bool) -> Option<u64> {
        let at = self.begun.iter().position(is_it)?;
        self.begun.remove(at).map(|begun| begun.begun_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rate: u32, seed: u64) -> Pace {
        Pace::of(&Workload { request_rate_per_s: Some(rate), ..Workload::default() }, seed)
    }

    #[test]
    fn an_open_loop_keeps_its_rate_whatever_is_outstanding() {
        for rate in [1, 3, 999, 6_667, 100_000] {
            let mut pace = open(rate, 0);
            let begins: Vec<u64> = (0..=10 * SECOND_NS)
                .step_by(7_000_000)
                .flat_map(|now_ns| std::iter::from_fn(|| pace.next(now_ns, 17)).collect::<Vec<_>>())
                .collect();
            let expected =
                (10 * SECOND_NS - 10 * SECOND_NS % 7_000_000) * u64::from(rate) / SECOND_NS + 1;
            assert_eq!(begins.len() as u64, expected, "{rate}");
            // the 3,000th is due at a third of 3,000 s, and not at 3,000 times a rounded third
            let last = begins.len() as u64 - 1;
            assert_eq!(begins.last(), Some(&(last * SECOND_NS / u64::from(rate))), "{rate}");
        }
    }

    #[test]
    fn a_closed_loop_begins_at_once_where_a_response_came() {
        let mut pace = Pace::of(&Workload { burst: 2, ..Workload::default() }, 5);
        assert_eq!((pace.next(100, 1), pace.next(100, 2)), (Some(100), None));
        assert_eq!((pace.due_in(100, 1), pace.overdue(u64::MAX)), (None, None));
    }

    #[test]
    fn flows_with_one_rate_begin_at_times_of_their_own() {
        let first = |seed| {
            let mut pace = open(1000, seed);
            pace.due_in(0, 0).unwrap()
        };
        assert_eq!(first(1_500_000), Duration::from_micros(500));
        assert_eq!(first(999_999), Duration::from_nanos(999_999));
    }

    #[test]
    fn requests_beyond_the_bound_wait_and_are_overdue() {
        let mut pace = open(1000, 0);
        pace.bound(2);
        assert_eq!(pace.next(0, 0), Some(0));
        assert_eq!(pace.next(10_000_000, 1), Some(1_000_000));
        assert_eq!((pace.next(10_000_000, 2), pace.due_in(10_000_000, 2)), (None, None));
        let overdue: Vec<_> = std::iter::from_fn(|| pace.overdue(4_999_999)).collect();
        assert_eq!(overdue, [2_000_000, 3_000_000, 4_000_000].map(|due_ns| (due_ns, 1)));
        // a day in which nothing was sent does not take long to tell
        let mut pace = open(100_000, 0);
        assert_eq!(pace.next(0, 0), Some(0));
        let day_ns = 24 * 3600 * SECOND_NS;
        let reported = std::iter::from_fn(|| pace.overdue(day_ns)).map(|(_, count)| count);
        assert_eq!(reported.sum::<u64>(), 24 * 3600 * 100_000);
    }
}
