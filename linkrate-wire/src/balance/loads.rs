//! The recent load of each port, for adaptive balancing.

use super::{MAX_PORTS, PortIndex};

/// Loads are halved each 2³³ ps, that is 8.6 ms: long against the interrupts and windows that make
/// a flow's traffic come in bursts, short against the flow.
const PERIOD_BITS: u32 = 33;

/// Periods after which a load is halved that is looked at when ports come and go alone: 2 to the power of
/// this, 140 ms. A flow that stalls while TCP tries again is still told from one that is idle.
const SLOW_BITS: u32 = 4;

/// The number of a period of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Period(u64);

impl Period {
    pub(super) const fn of(now_ps: u64) -> Self {
        Self(now_ps >> PERIOD_BITS)
    }

    /// What is left in this period of a load of period `before`.
    pub(super) fn rest(self, load: u64, before: Self) -> u64 {
        let halvings = self.0.saturating_sub(before.0).min(63);
        load >> halvings
    }

    /// The same of a load that is halved more slowly.
    #[inline]
    pub(super) fn rest_slowly(self, load: u64, before: Self) -> u64 {
        Self(self.0 >> SLOW_BITS).rest(load, Self(before.0 >> SLOW_BITS))
    }
}

/// Bytes of each port, those of earlier periods halved for each period since.
#[derive(Debug, Clone)]
pub(super) struct Loads {
    period: Period,
    bytes: [u64; MAX_PORTS],
}

impl Default for Loads {
    fn default() -> Self {
        Self { period: Period::default(), bytes: [0; MAX_PORTS] }
    }
}

impl Loads {
    /// Comes to the period of `now_ps`, and says which one it is.
    #[inline]
    pub(super) fn advance(&mut self, now_ps: u64) -> Period {
        let period = Period::of(now_ps);
        if period.0 > self.period.0 {
            self.bytes = self.bytes.map(|load| period.rest(load, self.period));
            self.period = period;
        }
        self.period
    }

    #[inline]
    pub(super) fn of(&self, port: PortIndex) -> u64 {
        self.bytes[port.at() % MAX_PORTS]
    }

    #[inline]
    pub(super) fn add(&mut self, port: PortIndex, bytes: u64) {
        self.bytes[port.at() % MAX_PORTS] += bytes;
    }

    /// Takes `bytes` of a flow that changes to port `to`.
    pub(super) fn shift(&mut self, from: PortIndex, to: PortIndex, bytes: u64) {
        let load = &mut self.bytes[from.at() % MAX_PORTS];
        *load = load.saturating_sub(bytes);
        self.add(to, bytes);
    }

    pub(super) fn clear(&mut self, port: PortIndex) {
        self.bytes[port.at() % MAX_PORTS] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_for_decisions_is_halved_in_sixteen_periods() {
        let rest = |at| Period(at).rest_slowly(1000, Period(15));
        assert_eq!([rest(15), rest(16), rest(31), rest(32), rest(0)], [1000, 500, 500, 250, 1000]);
    }

    #[test]
    fn loads_are_halved_in_each_period() {
        let period_ps = 1 << PERIOD_BITS;
        let (a, b) = (PortIndex(0), PortIndex(63));
        let mut loads = Loads::default();
        loads.add(a, 1000);
        loads.add(b, 100);
        loads.advance(period_ps - 1);
        assert_eq!((loads.of(a), loads.of(b)), (1000, 100));
        loads.advance(2 * period_ps);
        assert_eq!((loads.of(a), loads.of(b)), (250, 25));
        // a clock that goes back changes nothing
        loads.advance(0);
        loads.shift(a, b, 300);
        assert_eq!((loads.of(a), loads.of(b)), (0, 325));
        loads.advance(u64::MAX);
        assert_eq!((loads.of(a), loads.of(b)), (0, 0));
    }
}
