//! What the driver of a virtual adapter does with the TAP of its host: a system call for each packet, which no driver of a
//! real adapter makes.

use serde::{Deserialize, Serialize};

/// Calls of driver threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TapCalls {
    /// Packets that were read.
    pub reads: u64,
    /// Reads that found no packet.
    pub empty_reads: u64,
    /// Packets that were written.
    pub writes: u64,
    /// How often the threads went to sleep.
    pub sleeps: u64,
}

impl TapCalls {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    /// The calls since `earlier`.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_separated() {
        let some = |calls| TapCalls {
            reads: calls,
            empty_reads: 2 * calls,
            writes: 3 * calls,
            sleeps: 4 * calls,
        };
        assert_eq!(some(3).plus(some(4)), some(7));
        assert_eq!(some(7).since(some(4)), some(3));
        assert_eq!(some(1).since(some(4)), some(0));
    }
}
