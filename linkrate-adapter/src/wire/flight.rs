//! Frames under way in one direction, in the order in which they arrive.

use std::collections::VecDeque;

use crate::frame::WireFrame;

/// Frames between two places, each with the time at which its last bit arrives.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    frames: VecDeque<(u64, WireFrame)>,
}

impl Flight {
    /// Adds a frame. Those that are to arrive at the same time keep their order.
    pub(crate) fn add(&mut self, at_ps: u64, frame: WireFrame) {
        match self.frames.back() {
            Some((last_ps, _)) if *last_ps > at_ps => {
                let place = self.frames.partition_point(|(other_ps, _)| *other_ps <= at_ps);
                self.frames.insert(place, (at_ps, frame));
            }
            _ => self.frames.push_back((at_ps, frame)),
        }
    }

    /// The next frame that has arrived by `now_ps`.
    pub(crate) fn arrived(&mut self, now_ps: u64) -> Option<(u64, WireFrame)> {
        if self.first_ps()? > now_ps {
            return None;
        }
        self.frames.pop_front()
    }

    /// When the next frame arrives.
    pub(crate) fn first_ps(&self) -> Option<u64> {
        self.frames.front().map(|(at_ps, _)| *at_ps)
    }

    /// When it pays to look: when frame number `batch` is there, but no later than `latest` says
    /// of the time of the first.
    pub(crate) fn worth_ps(&self, batch: usize, latest: impl Fn(u64) -> u64) -> Option<u64> {
        let latest_ps = latest(self.first_ps()?);
        let batch_ps = self.frames.get(batch.max(1) - 1).map(|(at_ps, _)| *at_ps);
        Some(batch_ps.map_or(latest_ps, |at_ps| at_ps.min(latest_ps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_the_order_of_their_times() {
        let mut flight = Flight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (5, b'c'), (1, b'd')] {
            flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        assert_eq!(flight.worth_ps(2, |first| first + 100), Some(5));
        assert_eq!(flight.worth_ps(9, |first| first + 3), Some(4));
        assert!(flight.arrived(0).is_none());
        let order: Vec<u8> =
            std::iter::from_fn(|| flight.arrived(6)).map(|(_, frame)| frame.to_vec()[0]).collect();
        assert_eq!(order, *b"dac");
        assert_eq!(flight.first_ps(), Some(7));
    }
}
