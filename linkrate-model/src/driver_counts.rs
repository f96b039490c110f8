//! What the driver threads of virtual adapters count: packets of the TAPs, of which a driver of a real adapter knows
//! nothing, sleeps, and interrupts that ended them.

use serde::{Deserialize, Serialize};

/// Counts of driver threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DriverCounts {
    /// Packets that were read.
    pub reads: u64,
    /// Reads that found no packet.
    pub empty_reads: u64,
    /// Packets that were written.
    pub writes: u64,
    /// How often the threads went to sleep.
    pub sleeps: u64,
    /// Interrupts that ended a sleep.
    pub interrupts: u64,
    /// The time from those interrupts until the thread had its CPU, ns. An adapter interrupts at once, what the CPU
    /// does in the kernel included; a thread waits until the kernel may be preempted.
    pub interrupt_delay_ns: u64,
}

impl DriverCounts {
    /// Mean time from an interrupt until the thread had its CPU, µs; `None` without interrupts.
    pub fn mean_interrupt_delay_us(self) -> Option<f64> {
        (self.interrupts > 0).then(|| self.interrupt_delay_ns as f64 / self.interrupts as f64 / 1e3)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            reads: each(self.reads, other.reads),
            empty_reads: each(self.empty_reads, other.empty_reads),
            writes: each(self.writes, other.writes),
            sleeps: each(self.sleeps, other.sleeps),
            interrupts: each(self.interrupts, other.interrupts),
            interrupt_delay_ns: each(self.interrupt_delay_ns, other.interrupt_delay_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_separated() {
        let some = |calls| DriverCounts {
            reads: calls,
            empty_reads: 2 * calls,
            writes: 3 * calls,
            sleeps: 4 * calls,
            interrupts: 5 * calls,
            interrupt_delay_ns: 6 * calls,
        };
        assert_eq!(some(3).plus(some(4)), some(7));
        assert_eq!(some(7).since(some(4)), some(3));
        assert_eq!(some(1).since(some(4)), some(0));
    }
}
