//! The peak rate of a connection: the generic cell rate algorithm (ITU-T I.371, annex A) as a shaper.

use linkrate_model::BitRate;

use super::CELL;

/// When a connection may send its next cell. Times are picoseconds.
///
/// This is GCRA(T, 0): cells leave at least T apart, and time that passed without a cell gives no
/// credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// T, in units of 2^-16 ps.
    increment: u128,
    /// The theoretical arrival time of the next cell, in the same units.
    next: u128,
}

const FRACTION: u32 = 16;

impl Shaper {
    /// For cells at `rate` in bits per second of whole cells; `None` where no cell could ever leave.
    #[must_use]
    pub fn new(rate: BitRate) -> Option<Self> {
        let ps = (CELL * 8) as f64 * 1e12 / rate.0;
        let increment = ps * f64::from(1_u32 << FRACTION);
        let is_finite = rate.0 > 0.0 && increment < 2_f64.powi(100);
        is_finite.then_some(Self { increment: increment as u128, next: 0 })
    }

    /// When the next cell may leave if it is ready at `ready_ps`.
    #[must_use]
    pub fn earliest_ps(&self, ready_ps: u64) -> u64 {
        ready_ps.max(
            u64::try_from((self.next >> FRACTION) + u128::from(self.is_inexact()))
                .unwrap_or(u64::MAX),
        )
    }

    /// A cell leaves at `at_ps`.
    pub fn sent(&mut self, at_ps: u64) {
        self.next = self.next.max(u128::from(at_ps) << FRACTION) + self.increment;
    }

    fn is_inexact(&self) -> bool {
        self.next & ((1 << FRACTION) - 1) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_greedy_sender_gets_the_rate_and_no_more() {
        let rate = BitRate(149.76e6);
        let mut shaper = Shaper::new(rate).unwrap();
        let mut at = 0;
        const CELLS: u64 = 353_207;
        for _ in 0..CELLS {
            at = shaper.earliest_ps(at);
            shaper.sent(at);
        }
        // one second less the time of the last cell
        let expected = (CELLS - 1) as f64 * (CELL * 8) as f64 / rate.0 * 1e12;
        assert!((at as f64 / expected - 1.0).abs() < 1e-6, "{at} ps, expected {expected}");
    }

    #[test]
    fn silence_gives_no_credit() {
        let mut shaper = Shaper::new(BitRate(424e6)).unwrap();
        shaper.sent(0);
        assert_eq!(shaper.earliest_ps(0), 1_000_000);
        let late = 1_000_000_000;
        assert_eq!(shaper.earliest_ps(late), late);
        shaper.sent(late);
        assert_eq!(shaper.earliest_ps(late), late + 1_000_000);
    }

    #[test]
    fn a_rate_of_nothing_has_no_shaper() {
        for rate in [0.0, -1.0, f64::NAN, 1e-30] {
            assert_eq!(Shaper::new(BitRate(rate)), None, "{rate}");
        }
    }

    proptest! {
        #[test]
        fn cells_are_never_closer_than_the_rate_says(
            rate in 1e3..1e10_f64,
            waits in prop::collection::vec(0_u64..10_000_000, 1..100),
        ) {
            let mut shaper = Shaper::new(BitRate(rate)).unwrap();
            let least = (CELL * 8) as f64 * 1e12 / rate;
            let (mut ready, mut before) = (0, None);
            for wait in waits {
                ready += wait;
                let at = shaper.earliest_ps(ready);
                shaper.sent(at);
                if let Some(before) = before.replace(at) {
                    prop_assert!((at - before) as f64 >= least - 2.0, "{} ps", at - before);
                }
            }
        }
    }
}
