//! A line that frames occupy one after the other, each for its own time.
//!
//! The line keeps the time at which it is free again. A frame begins when it is ready and the line
//! is free, and no time that passed unused is ever given back, so there is no burst above the
//! rate, not even of two frames. A device thread that was kept from its CPU loses nothing: what
//! was ready meanwhile still has its place on the line, one frame after the other.

use linkrate_terms::BitRate;
use linkrate_wire::link::{LinkLaw, Pace};

/// The law of every link so far.
pub const LAW: LinkLaw = LinkLaw::Ethernet;

/// Octets for which a frame of `frame` bytes without FCS occupies its link.
#[must_use]
pub const fn line_octets(frame: usize) -> u64 {
    LAW.line_octets(frame as u64)
}

/// Octets that the port's counters show for a frame of `frame` bytes without FCS.
#[must_use]
pub const fn counted_octets(frame: usize) -> u64 {
    LAW.counted_octets(frame as u64)
}

/// The time something takes on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied {
    /// When its first bit is on the line.
    pub start_ps: u64,
    /// When its last one has left it.
    pub end_ps: u64,
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct Line {
    pace: Pace,
    free_at_ps: u64,
    busy_ps: u64,
}

impl Line {
    /// A line of that rate; without one nothing takes any time.
    #[must_use]
    pub fn new(rate: Option<BitRate>) -> Self {
        Self { pace: LAW.pace(rate), free_at_ps: 0, busy_ps: 0 }
    }

    /// From now on frames take their time at another rate.
    pub fn set_rate(&mut self, rate: Option<BitRate>) {
        self.pace = LAW.pace(rate);
    }

    /// Puts `octets` on the line, as soon as they are ready and it is free.
    pub fn occupy(&mut self, ready_ps: u64, octets: u64) -> Occupied {
        let start_ps = ready_ps.max(self.free_at_ps);
        let time_ps = self.pace.time_ps(octets);
        self.free_at_ps = start_ps + time_ps;
        self.busy_ps += time_ps;
        Occupied { start_ps, end_ps: self.free_at_ps }
    }

    /// How long `octets` take.
    #[must_use]
    pub fn time_ps(&self, octets: u64) -> u64 {
        self.pace.time_ps(octets)
    }

    /// When it is free.
    #[must_use]
    pub fn free_at_ps(&self) -> u64 {
        self.free_at_ps
    }

    /// Time it was occupied so far.
    #[must_use]
    pub fn busy_ps(&self) -> u64 {
        self.busy_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn full_frames_at_a_gigabit_take_12_304_ns() {
        let mut line = Line::new(Some(BitRate(1e9)));
        // MTU 1500: 14 of header, and 24 more on the line
        let first = line.occupy(0, line_octets(1514));
        assert_eq!((first.start_ps, first.end_ps), (0, 12_304_000));
        assert_eq!(line.occupy(0, line_octets(1514)).start_ps, 12_304_000);
        assert_eq!(line_octets(42), line_octets(60));
        assert_eq!(line_octets(60), 84);
    }

    #[test]
    fn an_idle_line_earns_no_credit() {
        let mut line = Line::new(Some(BitRate(1e9)));
        line.occupy(0, 1000);
        let later = 1_000_000_000_000;
        assert_eq!(line.occupy(later, 1000).start_ps, later);
        assert_eq!(line.occupy(later, 1000).start_ps, later + 8_000_000);
        assert_eq!(line.busy_ps(), 24_000_000);
    }

    #[test]
    fn without_a_rate_nothing_takes_time() {
        let mut line = Line::new(None);
        assert_eq!(line.occupy(7, 1 << 20), Occupied { start_ps: 7, end_ps: 7 });
    }

    proptest! {
        /// Over any stretch of traffic, no more bits pass than the rate allows.
        #[test]
        fn a_line_never_exceeds_its_rate(
            frames in prop::collection::vec((0u64..50_000_000, 60usize..9014), 1..200),
            megabits in 1u32..40_000,
        ) {
            let rate = f64::from(megabits) * 1e6;
            let mut line = Line::new(Some(BitRate(rate)));
            let (mut ready, mut placed) = (0, Vec::new());
            for (pause, bytes) in frames {
                ready += pause;
                let at = line.occupy(ready, line_octets(bytes));
                prop_assert!(at.start_ps >= ready);
                placed.push((at, line_octets(bytes)));
            }
            for pair in placed.windows(2) {
                prop_assert!(pair[1].0.start_ps >= pair[0].0.end_ps);
            }
            for (at, bytes) in placed {
                let exact = bytes as f64 * 8e12 / rate;
                prop_assert!(((at.end_ps - at.start_ps) as f64 - exact).abs() <= 0.5);
            }
        }
    }
}
