//! The intervals of a test at its server, for what the server prints of it.

use std::time::Duration;

use crate::iperf3::Parameters;
use crate::measured::{Interval, OwnEnd, Sampler};

use super::SessionReport;

/// Most intervals of all streams of a test that are kept: one stream has them for nine hours at one a second. A longer
/// test has longer ones.
const MAX_RECORDS: usize = 1 << 15;
/// Memory of one of them, kept and as the JSON text of a document, octets.
const RECORD_BYTES: u64 = 1 << 10;
/// An interval that the end cuts short is kept from this part of its length on.
const MIN_PART: f64 = 0.1;
/// The shortest wait for the end of an interval.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// What a server prints of its tests, as `iperf3 -s -J` does.
#[derive(Clone, Copy)]
pub struct Printed<'a> {
    /// Seconds of an interval; 0 for one interval of the whole test.
    pub interval_seconds: f64,
    /// Prints each test; otherwise what a client asks for, who gets it.
    pub always: bool,
    /// The JSON text of a session.
    pub document: &'a (dyn Fn(&SessionReport) -> String + Sync),
}

impl Default for Printed<'_> {
    /// An empty document for those who ask for it.
    fn default() -> Self {
        Self { interval_seconds: 1.0, always: false, document: &|_| "{}".to_owned() }
    }
}

impl Printed<'_> {
    /// Whether a test is printed.
    pub(super) fn prints(&self, asked: &Parameters) -> bool {
        self.always || asked.wants_server_output
    }

    /// Seconds of an interval; `None` if the test is not printed.
    pub(super) fn step(&self, asked: &Parameters) -> Option<f64> {
        let step = if self.interval_seconds > 0.0 { self.interval_seconds } else { f64::INFINITY };
        self.prints(asked).then_some(step)
    }

    /// Memory of the intervals of a test, octets.
    pub(super) fn memory(&self, asked: &Parameters) -> u64 {
        let Some(step) = self.step(asked) else { return 0 };
        let seconds = match asked.seconds {
            // octets or its client end it
            0 => f64::INFINITY,
            seconds => f64::from(seconds) + f64::from(asked.omit_seconds),
        };
        // an infinite number of intervals of infinite length
        let intervals = if step.is_finite() { seconds / step + 2.0 } else { 2.0 };
        let streams = f64::from(asked.ways.streams(asked.parallel));
        let records =
            (intervals * streams).clamp(2.0 * streams, f64::max(MAX_RECORDS as f64, 2.0 * streams));
        records as u64 * RECORD_BYTES
    }
}

/// Takes the intervals of a test.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    sampler: Sampler<'a>,
    /// Seconds of an interval; `None` if none is kept.
    step: Option<f64>,
    /// When the last one ended, and when the next one ends, s.
    reported: f64,
    due: f64,
    /// Whether they are of the beginning that is left out.
    is_omitted: bool,
    kept: Kept,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(sampler: Sampler<'a>, step: Option<f64>, asked: &Parameters) -> Self {
        let streams = asked.ways.streams(asked.parallel) as usize;
        Self {
            sampler,
            step,
            reported: 0.0,
            due: step.unwrap_or(f64::INFINITY),
            is_omitted: asked.omit_seconds > 0,
            kept: Kept { intervals: Vec::new(), most: (MAX_RECORDS / streams.max(1)).max(2) },
        }
    }

    /// Takes the interval that has ended by `now`, seconds behind the beginning.
    pub(super) fn look(&mut self, now: f64) {
        let Some(step) = self.step.filter(|_| now >= self.due) else { return };
        let interval = self.sampler.interval(self.reported, now, self.is_omitted);
        let step = if self.kept.push(interval) { 2.0 * step } else { step };
        self.step = Some(step);
        self.reported = now;
        while self.due <= now {
            self.due += step;
        }
    }

    /// How long the next interval goes on.
    pub(super) fn until_next(&self, now: f64) -> Duration {
        // at most a day: there may be none
        Duration::from_secs_f64((self.due - now).clamp(0.0, 86_400.0)).max(MIN_WAIT)
    }

    /// Ends the beginning that is left out, `now` seconds behind it. Figures and intervals begin anew.
    pub(super) fn leave_out(&mut self, now: f64) {
        self.last(now);
        self.sampler.leave_out();
        (self.reported, self.is_omitted) = (0.0, false);
        self.due = self.step.unwrap_or(f64::INFINITY);
    }

    /// What there is at the end, `now` seconds behind the beginning.
    pub(super) fn end(mut self, now: f64) -> (Vec<OwnEnd>, Vec<Interval>) {
        self.last(now);
        (self.sampler.ends(), self.kept.intervals)
    }

    /// Takes the interval that `now` cuts short.
    fn last(&mut self, now: f64) {
        let interval = self.sampler.interval(self.reported, now, self.is_omitted);
        let is_long = |step: f64| now - self.reported >= MIN_PART * step;
        if self.step.is_some_and(|step| is_long(step) || (self.reported == 0.0 && now > 0.0)) {
            self.kept.push(interval);
        }
    }
}

/// Intervals, of which there are at most so many.
#[derive(Debug)]
struct Kept {
    intervals: Vec<Interval>,
    most: usize,
}

impl Kept {
    /// Keeps an interval. True if it made too many, so that each two have become one.
    fn push(&mut self, interval: Interval) -> bool {
        self.intervals.push(interval);
        if self.intervals.len() <= self.most {
            return false;
        }
        let mut halved: Vec<Interval> = Vec::with_capacity(self.intervals.len() / 2 + 2);
        let mut is_whole = true;
        for interval in self.intervals.drain(..) {
            match halved.last_mut() {
                Some(last) if !is_whole && last.is_omitted == interval.is_omitted => {
                    last.append(&interval);
                    is_whole = true;
                }
                _ => {
                    halved.push(interval);
                    is_whole = false;
                }
            }
        }
        self.intervals = halved;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::Directions;
    use crate::measured::StreamInterval;

    fn second(number: u32, is_omitted: bool) -> Interval {
        let stream =
            StreamInterval { socket: 5, sends: false, bytes: 10, datagrams: None, path: None };
        let start = f64::from(number);
        Interval { start, end: start + 1.0, is_omitted, streams: [stream].into() }
    }

    #[test]
    fn a_long_test_has_longer_intervals() {
        let mut kept = Kept { intervals: Vec::new(), most: 5 };
        assert!(!(0..5).any(|number| kept.push(second(number, number < 3))));
        assert!(kept.push(second(5, false)));
        let times: Vec<_> =
            kept.intervals.iter().map(|all| (all.start, all.end, all.streams[0].bytes)).collect();
        assert_eq!(times, [(0.0, 2.0, 20), (2.0, 3.0, 10), (3.0, 5.0, 20), (5.0, 6.0, 10)]);
    }

    #[test]
    fn a_test_pays_for_what_is_printed_of_it() {
        let asked = Parameters { seconds: 10, parallel: 4, ..Parameters::default() };
        let printed = Printed::default();
        assert_eq!(printed.memory(&asked), 0);
        let always = Printed { always: true, ..printed };
        assert_eq!(always.memory(&asked), 4 * 12 * RECORD_BYTES);
        assert_eq!(
            Printed { interval_seconds: 0.0, ..always }.memory(&asked),
            4 * 2 * RECORD_BYTES
        );
        let endless = Parameters { seconds: 0, ways: Directions::Both, ..asked };
        assert_eq!(always.memory(&endless), MAX_RECORDS as u64 * RECORD_BYTES);
        let wants = Parameters { wants_server_output: true, ..endless };
        assert_eq!(printed.memory(&wants), always.memory(&wants));
    }
}
