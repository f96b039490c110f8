//! Adaptive receive moderation: the traffic decides whether receive interrupts are delayed.
//!
//! A delayed interrupt saves the host work when many frames come. It also delays the single frame
//! that a request/response waits for. A port therefore starts without a delay. It delays interrupts
//! by `rx-usecs` while the link carries bulk traffic in either direction. Received frames alone do
//! not show bulk traffic: acknowledgements of a bulk transmission are as few and as small as
//! responses. Drivers with one interrupt for both directions decide the same way (`e1000_set_itr`,
//! drivers/net/ethernet/intel/e1000/e1000_main.c).
//!
//! A delay slows request/response down. Large responses therefore look like bulk traffic without a
//! delay, and like few frames with a delay. If bulk traffic ends soon after a delay began, the next
//! delay begins after twice as many periods. The kernel's moderation also withdraws a change that
//! made things worse (lib/dim/net_dim.c).
//!
//! No clock and no counter is read here: the caller passes both.

/// Octets in one interval, in one direction, that are bulk traffic: eight full frames of the
/// standard MTU. For 250 µs this is 384 Mb/s.
const BULK_OCTETS: u64 = 8 * 1500;

/// Received frames in one interval that are bulk traffic whatever their size.
const BULK_FRAMES: u64 = 64;

/// Bulk traffic has ended when less than this share of it is left.
const ENDED: u64 = 4;

/// Intervals of a period, the time over which traffic is counted.
const INTERVALS: u64 = 4;

/// Shortest period. A shorter one would find bulk traffic in two frames.
const MIN_PS: u64 = 200_000_000;

/// Periods of bulk traffic in a row before interrupts are delayed: at first, and at most.
const BULK_WINDOWS: (u32, u32) = (2, 64);

/// Periods with a delay after which the traffic counts as bulk traffic.
const PROVEN: u32 = 16;

/// Totals of a port, counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) frames_in: u64,
    pub(crate) octets_in: u64,
    pub(crate) octets_out: u64,
}

/// Decides whether the receive interrupts of a port are delayed.
#[derive(Debug)]
pub(crate) struct Adaptive {
    delays: bool,
    /// Start of the period, and the totals then.
    since_ps: u64,
    before: Traffic,
    /// Periods in a row with bulk traffic; with delay, all periods since it began.
    periods: u32,
    /// Periods in a row that it takes to begin a delay.
    patience: u32,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            delays: false,
            since_ps: 0,
            before: Traffic::default(),
            periods: 0,
            patience: BULK_WINDOWS.0,
        }
    }
}

impl Adaptive {
    /// Whether interrupts wait for their interval now.
    pub(crate) fn delays(&self) -> bool {
        self.delays
    }

    /// Looks at the totals at a time. `interval_ps` is the longest delay of an interrupt.
    pub(crate) fn observe(&mut self, now_ps: u64, interval_ps: u64, totals: Traffic) {
        let elapsed_ps = now_ps.saturating_sub(self.since_ps);
        if interval_ps == 0 || elapsed_ps < (INTERVALS * interval_ps).max(MIN_PS) {
            return;
        }
        let before = std::mem::replace(&mut self.before, totals);
        self.since_ps = now_ps;
        let each = |now: u64, before: u64| {
            let count = u128::from(now.wrapping_sub(before)) * u128::from(interval_ps);
            u64::try_from(count / u128::from(elapsed_ps)).unwrap_or(u64::MAX)
        };
        let frames = each(totals.frames_in, before.frames_in);
        let octets = each(totals.octets_in, before.octets_in)
            .max(each(totals.octets_out, before.octets_out));
        let more_than = |share: u64| octets >= BULK_OCTETS / share || frames >= BULK_FRAMES / share;
        match (self.delays, more_than(if self.delays { ENDED } else { 1 })) {
            (false, true) => {
                self.periods += 1;
                if self.periods >= self.patience {
                    (self.delays, self.periods) = (true, 0);
                }
            }
            (false, false) => self.periods = 0,
            (true, true) => {
                self.periods = self.periods.saturating_add(1);
                if self.periods >= PROVEN {
                    self.patience = BULK_WINDOWS.0;
                }
            }
            (true, false) => {
                if self.periods < PROVEN {
                    self.patience = (self.patience * 2).min(BULK_WINDOWS.1);
                }
                (self.delays, self.periods) = (false, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;
    const INTERVAL: u64 = 250 * US;

    /// Traffic in steps of 10 µs.
    struct Port {
        now_ps: u64,
        totals: Traffic,
        moderation: Adaptive,
    }

    impl Port {
        fn new() -> Self {
            Self { now_ps: 0, totals: Traffic::default(), moderation: Adaptive::default() }
        }

        /// Lets `frames` of `octets` come in and `out` octets go out in every 10 µs for `us`.
        /// Returns the share of the time with delay.
        fn carry(&mut self, us: u64, frames: f64, octets: u64, out: u64) -> f64 {
            let (mut delayed, mut due) = (0, 0.0);
            for _ in 0..us / 10 {
                due += frames;
                let whole = due as u64;
                due -= whole as f64;
                self.totals.frames_in += whole;
                self.totals.octets_in += whole * octets;
                self.totals.octets_out += out;
                self.now_ps += 10 * US;
                self.moderation.observe(self.now_ps, INTERVAL, self.totals);
                delayed += u64::from(self.moderation.delays());
            }
            delayed as f64 / (us / 10) as f64
        }

        /// One request after the other, `octets` each way: the round trip takes `fast` µs, and twice the
        /// interval with delay. Returns transactions per second.
        fn transact(&mut self, us: u64, octets: u64, fast: u64) -> f64 {
            let (end_ps, mut transactions) = (self.now_ps + us * US, 0u64);
            while self.now_ps < end_ps {
                let delay = if self.moderation.delays() { 2 * INTERVAL } else { fast * US };
                self.now_ps += delay;
                self.totals.frames_in += octets.div_ceil(1500);
                self.totals.octets_in += octets;
                self.totals.octets_out += octets;
                self.moderation.observe(self.now_ps, INTERVAL, self.totals);
                transactions += 1;
            }
            transactions as f64 * 1e6 / us as f64
        }
    }

    #[test]
    fn bulk_traffic_in_either_direction_is_delayed_after_two_periods() {
        // a full Gigabit link: 0.8 frames of 1518 octets in 10 µs
        for (frames, octets, out) in [(0.8, 1518, 50), (0.03, 66, 1230)] {
            let mut port = Port::new();
            assert!(port.carry(1900, frames, octets, out) < 0.001);
            assert!(port.carry(200, frames, octets, out) > 0.4);
            assert!(port.carry(1_000_000, frames, octets, out) > 0.999);
        }
        // small frames alone are bulk traffic by their number
        assert!(Port::new().carry(100_000, 4.0, 64, 0) > 0.9);
    }

    #[test]
    fn few_frames_are_never_delayed() {
        // 20,000 small transactions a second, and 30 Mb/s of full frames
        for (frames, octets, out) in [(0.2, 70, 14), (0.025, 1518, 2)] {
            let mut port = Port::new();
            assert!(port.carry(1_000_000, frames, octets, out) < 1e-9);
            assert!(!port.moderation.delays());
        }
    }

    #[test]
    fn the_end_of_bulk_traffic_ends_the_delay() {
        let mut port = Port::new();
        port.carry(100_000, 0.8, 1518, 50);
        assert!(port.moderation.delays());
        // a dip to half is still bulk traffic
        assert!(port.carry(100_000, 0.2, 1518, 10) > 0.999);
        port.carry(2100, 0.1, 70, 7);
        assert!(!port.moderation.delays());
        // after a pause, however long, the first frame is not delayed for more than a period
        port.carry(100_000, 0.8, 1518, 50);
        port.now_ps += 1_000_000 * US;
        port.carry(10, 1.0, 70, 0);
        assert!(!port.moderation.delays());
    }

    #[test]
    fn small_transactions_run_as_without_moderation() {
        assert!(Port::new().transact(1_000_000, 70, 50) > 19_990.0);
    }

    #[test]
    fn large_transactions_lose_little() {
        // 20,000 transactions a second of 4 KB are 640 Mb/s without delay, 64 Mb/s with it
        let mut port = Port::new();
        port.transact(300_000, 4096, 50);
        assert!(port.transact(1_000_000, 4096, 50) > 0.95 * 20_000.0);
        // bulk traffic afterwards waits for more periods, and then for as few as at first
        assert!(port.carry(1_000_000, 0.8, 1518, 50) > 0.9);
        assert_eq!(port.moderation.patience, BULK_WINDOWS.0);
    }

    #[test]
    fn without_an_interval_there_is_nothing_to_decide() {
        let mut moderation = Adaptive::default();
        let totals = Traffic { frames_in: 1 << 40, octets_in: 1 << 50, octets_out: 0 };
        moderation.observe(u64::MAX, 0, totals);
        assert!(!moderation.delays());
        for number in 0..1000_u64 {
            // totals that wrap around are no jump
            let octets_in = (number * 10).wrapping_sub(500);
            moderation.observe(number * INTERVAL, INTERVAL, Traffic { octets_in, ..totals });
        }
        assert!(!moderation.delays());
    }
}
