//! Reads the counters of the flows now and then while a measurement is open.

use linkrate_model::measurement::MAX_INTERVALS;
use linkrate_sys::clock::monotonic_ns;

use crate::flow::Flow;
use linkrate_protocol::{IntervalReport, PartReport};

/// The intervals of a measurement in the making.
#[derive(Debug)]
pub struct Sampler<'a> {
    flows: &'a [Flow],
    opened_ns: u64,
    every_ns: u64,
    next_ns: u64,
    before: PartReport,
    taken: Vec<IntervalReport>,
}

impl<'a> Sampler<'a> {
    /// For a measurement that opened at `opened_ns` and closes at `closes_ns`. Counters are read each `every_ns`,
    /// and more seldom in a measurement of many intervals.
    pub fn of(flows: &'a [Flow], opened_ns: u64, closes_ns: u64, every_ns: u64) -> Self {
        // the last one ends with the measurement
        let most = MAX_INTERVALS as u64 - 1;
        let every_ns = every_ns.max(closes_ns.saturating_sub(opened_ns) / most + 1);
        let next_ns = opened_ns + every_ns;
        Self { flows, opened_ns, every_ns, next_ns, before: counts(flows), taken: Vec::new() }
    }

    /// When the counters are due; `None` without flows.
    pub fn next_ns(&self) -> Option<u64> {
        (!self.flows.is_empty()).then_some(self.next_ns)
    }

    /// Ends an interval.
    pub fn take(&mut self) {
        if self.flows.is_empty() || self.taken.len() == MAX_INTERVALS {
            return;
        }
        let now_ns = monotonic_ns();
        let counts = counts(self.flows);
        self.taken.push(IntervalReport {
            end_ns: now_ns.saturating_sub(self.opened_ns),
            moved: counts.since(self.before),
        });
        self.before = counts;
        self.next_ns = (self.next_ns + self.every_ns).max(now_ns);
    }

    /// All intervals, the last of which ends now; empty without flows.
    pub fn finish(mut self) -> Vec<IntervalReport> {
        self.take();
        self.taken
    }
}

fn counts(flows: &[Flow]) -> PartReport {
    flows.iter().fold(PartReport::default(), |sum, flow| {
        sum.plus(PartReport {
            received_bytes: flow.counters.received(),
            sent_bytes: flow.counters.sent(),
            transactions: flow.counters.transactions(),
            timeouts: flow.counters.timeouts(),
        })
    })
}
