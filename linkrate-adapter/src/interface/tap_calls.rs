//! The calls by which a driver thread reads and writes the TAPs of its queues, and its sleeps between them.

use linkrate_terms::tap::TapCalls;

use crate::counters::Counter;

/// The calls of one driver thread, which alone counts.
#[derive(Debug, Default)]
pub(crate) struct TapCounters {
    /// Packets that were read.
    pub(crate) reads: Counter,
    /// Reads that found no packet.
    pub(crate) empty_reads: Counter,
    /// Packets that were written.
    pub(crate) writes: Counter,
    /// How often the thread went to sleep.
    pub(crate) sleeps: Counter,
}

impl TapCounters {
    /// The calls so far.
    pub(crate) fn get(&self) -> TapCalls {
        TapCalls {
            reads: self.reads.get(),
            empty_reads: self.empty_reads.get(),
            writes: self.writes.get(),
            sleeps: self.sleeps.get(),
        }
    }
}
