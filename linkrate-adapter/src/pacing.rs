//! A line that units (Ethernet frames without FCS, AAL5 service data units) occupy one after the
//! other, each for its own time. The law of the link says how long ([`LinkLaw`]).
//!
//! The line keeps the time at which it is free again. A unit begins when it is ready and the line
//! is free. Time that passed unused is lost, so no burst exceeds the rate, not even one of two
//! frames. A device thread that comes late changes nothing: each unit that was ready in the meantime
//! gets its own time on the line.

use linkrate_model::BitRate;
use linkrate_wire::link::{LinkLaw, Pace};

/// A full Ethernet frame without jumbo frames, without FCS.
const ORDINARY: usize = 1514;

/// The time that a unit occupies a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied {
    /// When its first bit is on the line.
    pub start_ps: u64,
    /// When its last bit has left the line.
    pub end_ps: u64,
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct Line {
    law: LinkLaw,
    pace: Pace,
    free_at_ps: u64,
    busy_ps: u64,
}

impl Line {
    /// A line under a law, with a line rate in bit/s; without a rate nothing takes any time.
    #[must_use]
    pub fn new(law: LinkLaw, rate: Option<BitRate>) -> Self {
        Self { law, pace: law.pace(rate), free_at_ps: 0, busy_ps: 0 }
    }

    /// Changes the rate. Units that are on the line keep their times.
    pub fn set_rate(&mut self, rate: Option<BitRate>) {
        self.pace = self.law.pace(rate);
    }

    /// Puts a unit of `unit` octets on the line, as soon as it is ready and the line is free.
    #[inline]
    pub fn occupy(&mut self, ready_ps: u64, unit: usize) -> Occupied {
        self.occupy_octets(ready_ps, self.law.line_octets(unit as u64))
    }

    /// Puts `octets` on the line as they are, as soon as they are ready and the line is free.
    #[inline]
    pub fn occupy_octets(&mut self, ready_ps: u64, octets: u64) -> Occupied {
        let start_ps = ready_ps.max(self.free_at_ps);
        let time_ps = self.pace.time_ps(octets);
        self.free_at_ps = start_ps + time_ps;
        self.busy_ps += time_ps;
        Occupied { start_ps, end_ps: self.free_at_ps }
    }

    /// The same for a unit that goes before those that wait: behind the longest ordinary unit, which may
    /// be on the line already. Units that are on the line keep their times, and later ones wait for its
    /// time, so that the rate holds.
    pub fn occupy_first(&mut self, ready_ps: u64, unit: usize) -> Occupied {
        let in_turn = self.occupy(ready_ps, unit);
        let time_ps = in_turn.end_ps - in_turn.start_ps;
        let start_ps = in_turn.start_ps.min(ready_ps + self.unit_ps(ORDINARY));
        Occupied { start_ps, end_ps: start_ps + time_ps }
    }

    /// How long a unit of `unit` octets occupies the line.
    #[inline]
    #[must_use]
    pub fn unit_ps(&self, unit: usize) -> u64 {
        self.pace.time_ps(self.law.line_octets(unit as u64))
    }

    /// Octets that counters show for a unit of `unit` octets.
    #[inline]
    #[must_use]
    pub fn counted_octets(&self, unit: usize) -> u64 {
        self.law.counted_octets(unit as u64)
    }

    /// Whether it has a rate, so that what is on it takes time.
    #[must_use]
    pub fn takes_time(&self) -> bool {
        self.pace.time_ps(1) > 0
    }

    /// How long `octets` on the line take.
    #[must_use]
    pub fn time_ps(&self, octets: u64) -> u64 {
        self.pace.time_ps(octets)
    }

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
    use linkrate_wire::link::atm::OC3C;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn full_frames_at_a_gigabit_take_12_304_ns() {
        let mut line = Line::new(LinkLaw::Ethernet, Some(BitRate(1e9)));
        // MTU 1500: 14 of header, and 24 more on the line
        let first = line.occupy(0, 1514);
        assert_eq!((first.start_ps, first.end_ps), (0, 12_304_000));
        assert_eq!(line.occupy(0, 1514).start_ps, 12_304_000);
        assert_eq!(line.unit_ps(42), line.unit_ps(60));
        assert_eq!(line.unit_ps(60), line.time_ps(84));
        assert_eq!(line.counted_octets(1514), 1518);
    }

    #[test]
    fn a_unit_that_goes_first_waits_for_one_unit_alone_and_takes_its_time() {
        let mut line = Line::new(LinkLaw::Ethernet, Some(BitRate(1e9)));
        (0..100).for_each(|_| _ = line.occupy(0, 1514));
        let first = line.occupy_first(1_000_000, 110);
        assert_eq!(first.start_ps, 1_000_000 + 12_304_000);
        assert_eq!(first.end_ps - first.start_ps, line.unit_ps(110));
        // the rate holds: what comes next is later by its time
        assert_eq!(line.occupy(0, 1514).start_ps, 100 * 12_304_000 + line.unit_ps(110));
        let mut idle = Line::new(LinkLaw::Ethernet, Some(BitRate(1e9)));
        assert_eq!(idle.occupy_first(5, 110).start_ps, 5);
    }

    /// 9188 octets of Classical IP are 192 cells of 2.831 µs.
    #[test]
    fn an_atm_line_carries_whole_cells_in_26_of_27_columns() {
        let mut line = Line::new(LinkLaw::Atm, Some(OC3C));
        let unit = line.occupy(0, 9188);
        assert_eq!(unit.end_ps, line.time_ps(192 * 53));
        assert!((unit.end_ps as f64 - 192.0 * 424e12 / 149.76e6).abs() < 1.0);
        assert_eq!(line.counted_octets(9188), 192 * 53);
        line.set_rate(Some(BitRate(2.0 * OC3C.0)));
        assert_eq!(line.unit_ps(9188), unit.end_ps / 2);
    }

    #[test]
    fn an_idle_line_earns_no_credit() {
        let mut line = Line::new(LinkLaw::Ethernet, Some(BitRate(1e9)));
        line.occupy(0, 976);
        let later = 1_000_000_000_000;
        assert_eq!(line.occupy(later, 976).start_ps, later);
        assert_eq!(line.occupy(later, 976).start_ps, later + 8_000_000);
        assert_eq!(line.busy_ps(), 24_000_000);
    }

    #[test]
    fn without_a_rate_nothing_takes_time() {
        let mut line = Line::new(LinkLaw::Ethernet, None);
        assert_eq!(line.occupy(7, 1 << 20), Occupied { start_ps: 7, end_ps: 7 });
    }

    proptest! {
        /// Over any stretch of traffic, no more bits pass than the rate allows.
        #[test]
        fn a_line_never_exceeds_its_rate(
            frames in prop::collection::vec((0u64..50_000_000, 60usize..9014), 1..200),
            megabits in 1u32..40_000,
            law in prop_oneof![Just(LinkLaw::Ethernet), Just(LinkLaw::Atm)],
        ) {
            let rate = BitRate(f64::from(megabits) * 1e6);
            let mut line = Line::new(law, Some(rate));
            let (mut ready, mut placed) = (0, Vec::new());
            for (pause, bytes) in frames {
                ready += pause;
                let at = line.occupy(ready, bytes);
                prop_assert!(at.start_ps >= ready);
                placed.push((at, law.line_octets(bytes as u64)));
            }
            for pair in placed.windows(2) {
                prop_assert!(pair[1].0.start_ps >= pair[0].0.end_ps);
            }
            for (at, octets) in placed {
                let exact = octets as f64 * 8e12 / law.payload_rate(rate).0;
                prop_assert!(((at.end_ps - at.start_ps) as f64 - exact).abs() <= 0.51);
            }
        }
    }
}
