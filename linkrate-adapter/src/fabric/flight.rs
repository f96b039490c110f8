//! Frames under way in one direction, in the order in which they arrive.

use std::collections::VecDeque;

use crate::frame::Burst;

/// Frames between two places, with the time at which their last bit arrives. Frames that arrive
/// at the same time may be one burst.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    bursts: VecDeque<(u64, Burst)>,
}

impl Flight {
    /// Adds frames. Those that are to arrive at the same time keep their order.
    pub(crate) fn add(&mut self, at_ps: u64, burst: Burst) {
        match self.bursts.back() {
            Some((last_ps, _)) if *last_ps > at_ps => {
                let place = self.bursts.partition_point(|(other_ps, _)| *other_ps <= at_ps);
                self.bursts.insert(place, (at_ps, burst));
            }
            _ => self.bursts.push_back((at_ps, burst)),
        }
    }

    /// The next frames that have arrived by `now_ps`.
    pub(crate) fn arrived(&mut self, now_ps: u64) -> Option<(u64, Burst)> {
        if self.first_ps()? > now_ps {
            return None;
        }
        self.bursts.pop_front()
    }

    /// When the next frame arrives.
    pub(crate) fn first_ps(&self) -> Option<u64> {
        self.bursts.front().map(|(at_ps, _)| *at_ps)
    }

    /// When frames must be taken: at the arrival of burst number `batch`, but no later than `latest`
    /// says for the arrival of the first.
    pub(crate) fn worth_ps(&self, batch: usize, latest: impl Fn(u64) -> u64) -> Option<u64> {
        let latest_ps = latest(self.first_ps()?);
        let batch_ps = self.bursts.get(batch.max(1) - 1).map(|(at_ps, _)| *at_ps);
        Some(batch_ps.map_or(latest_ps, |at_ps| at_ps.min(latest_ps)))
    }
}

#[cfg(test)]
mod tests {
    use linkrate_wire::lro::Parts;

    use super::*;
    use crate::frame::WireFrame;

    #[test]
    fn frames_come_in_the_order_of_their_times() {
        let mut flight = Flight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (5, b'c'), (1, b'd')] {
            flight.add(at_ps, WireFrame::copied(vec![name]).into());
        }
        assert_eq!(flight.worth_ps(2, |first| first + 100), Some(5));
        assert_eq!(flight.worth_ps(9, |first| first + 3), Some(4));
        assert!(flight.arrived(0).is_none());
        let order: Vec<u8> =
            std::iter::from_fn(|| flight.arrived(6)).map(|(_, burst)| burst.head()[0]).collect();
        assert_eq!(order, *b"dac");
        assert_eq!(flight.first_ps(), Some(7));
    }
}
