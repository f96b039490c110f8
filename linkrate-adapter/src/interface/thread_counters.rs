//! What a driver thread counts of its own work.

use linkrate_model::driver_counts::DriverCounts;

use crate::counters::Counter;

/// The counters of one driver thread, which alone counts.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    /// Packets that were read.
    pub(crate) reads: Counter,
    pub(crate) empty_reads: Counter,
    pub(crate) writes: Counter,
    pub(crate) sleeps: Counter,
    /// Interrupts that ended a sleep.
    pub(crate) interrupts: Counter,
    /// The time from those interrupts until the thread had its CPU, ns.
    pub(crate) interrupt_delay_ns: Counter,
}

impl ThreadCounters {
    pub(crate) fn get(&self) -> DriverCounts {
        DriverCounts {
            reads: self.reads.get(),
            empty_reads: self.empty_reads.get(),
            writes: self.writes.get(),
            sleeps: self.sleeps.get(),
            interrupts: self.interrupts.get(),
            interrupt_delay_ns: self.interrupt_delay_ns.get(),
        }
    }
}
