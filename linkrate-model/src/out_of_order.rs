//! Payload that waited behind a lost segment at the edges of a measurement.
//!
//! TCP counts payload as received when all bytes before it are there. Payload that arrived behind a gap before a
//! measurement opened counts within the measurement when the gap closes, although no line carried it then. The sender knows it
//! by selective acknowledgements.

use serde::{Deserialize, Serialize};

/// Payload that the peers had, and that waited behind a gap, all senders together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutOfOrder {
    /// When the measurement opened, bytes. It counts in the measurement, and does not belong there.
    pub opened_bytes: u64,
    /// When the measurement closed, bytes. It belongs to the measurement, and does not count.
    pub closed_bytes: u64,
}

impl OutOfOrder {
    /// Both together, number by number.
    #[must_use]
    pub fn with(self, other: Self, bytes: fn(u64, u64) -> u64) -> Self {
        Self {
            opened_bytes: bytes(self.opened_bytes, other.opened_bytes),
            closed_bytes: bytes(self.closed_bytes, other.closed_bytes),
        }
    }

    /// What a measurement counts too much by them, bytes; below zero if too little.
    pub fn excess_bytes(self) -> i64 {
        // no number of a peer overflows
        let [opened, closed] = [self.opened_bytes, self.closed_bytes]
            .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        opened - closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_has_a_sign_and_no_overflow() {
        let excess =
            |opened_bytes, closed_bytes| OutOfOrder { opened_bytes, closed_bytes }.excess_bytes();
        assert_eq!((excess(700, 200), excess(200, 700)), (500, -500));
        assert_eq!((excess(u64::MAX, 0), excess(0, u64::MAX)), (i64::MAX, -i64::MAX));
    }
}
