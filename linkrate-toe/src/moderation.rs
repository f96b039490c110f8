//! When bytes that have arrived go to the program: each time wakes it.
//!
//! An engine completes a receive when the buffer is full or the data pause, and not for each segment. Bytes of
//! a busy stream wait here for more, at most for [`MAX_WAITS`] turns. What comes after a pause never waits,
//! so neither a short message nor an answer comes later.

/// Bytes that are worth a wake-up.
const WORTH: usize = 64 << 10;

/// Turns for which fewer may wait.
const MAX_WAITS: u32 = 4;

/// Bytes within one turn from which on a stream is busy: 300 Mb/s.
const BUSY: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moderation {
    /// The last turn found a busy stream.
    is_busy: bool,
    /// Bytes that it left where they were, and turns since the first of them.
    left: usize,
    waits: u32,
}

impl Moderation {
    /// Whether bytes wait for more, of which there are `waiting` in this turn.
    pub(crate) fn waits(&mut self, waiting: usize) -> bool {
        let was_busy = std::mem::replace(&mut self.is_busy, waiting >= self.left + BUSY);
        let waits = was_busy && self.is_busy && waiting < WORTH && self.waits < MAX_WAITS;
        (self.left, self.waits) = if waits { (waiting, self.waits + 1) } else { (0, 0) };
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets so many bytes come in each turn, and says how many go to the program in each.
    fn given(come: &[usize]) -> Vec<usize> {
        let (mut moderation, mut waiting) = (Moderation::default(), 0);
        let turn = |come: &usize| {
            waiting += come;
            if moderation.waits(waiting) { 0 } else { std::mem::take(&mut waiting) }
        };
        come.iter().map(turn).collect()
    }

    #[test]
    fn a_busy_stream_wakes_its_program_once_for_several_turns() {
        // 1 Gb/s
        let slow = given(&[12_500; 16]);
        assert_eq!(slow[..7], [12_500, 0, 0, 0, 0, 62_500, 0]);
        assert_eq!(slow.iter().filter(|bytes| **bytes > 0).count(), 4);
        // 10 Gb/s
        assert_eq!(given(&[125_000; 3]), [125_000; 3]);
    }

    #[test]
    fn what_comes_after_a_pause_or_before_one_does_not_wait_for_more() {
        assert_eq!(given(&[60_000, 0, 8_000, 0]), [60_000, 0, 8_000, 0]);
        assert_eq!(given(&[12_500, 12_500, 0, 0]), [12_500, 0, 12_500, 0]);
        // a slow stream
        assert_eq!(given(&[3_000; 4]), [3_000; 4]);
    }
}
