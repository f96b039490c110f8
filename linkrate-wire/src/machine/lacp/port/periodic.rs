//! The Periodic Transmission machine: PDUs that keep the partner from giving up
//! (IEEE 802.1AX-2014, 6.4.13).

use std::fmt;
use std::time::Duration;

use super::Port;

/// Fast_Periodic_Time (6.4.4).
pub(crate) const FAST: Duration = Duration::from_secs(1);
/// Slow_Periodic_Time (6.4.4).
pub(crate) const SLOW: Duration = Duration::from_secs(30);

/// A state of the Periodic Transmission machine. PERIODIC_TX, which it leaves at once, is not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// No PDUs: the link is down or in half duplex, or both ends are passive.
    NoPeriodic,
    /// A PDU every second, because the partner's time-out is short.
    FastPeriodic,
    /// A PDU every 30 s, because the partner's time-out is long.
    SlowPeriodic,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPeriodic => "NO_PERIODIC",
            Self::FastPeriodic => "FAST_PERIODIC",
            Self::SlowPeriodic => "SLOW_PERIODIC",
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Periodic {
    pub(crate) state: State,
    pub(crate) timer: Option<Duration>,
}

impl Periodic {
    pub(crate) const fn new() -> Self {
        Self { state: State::NoPeriodic, timer: None }
    }

    fn enter(&mut self, now: Duration, state: State) {
        let period = match state {
            State::NoPeriodic => None,
            State::FastPeriodic => Some(FAST),
            State::SlowPeriodic => Some(SLOW),
        };
        *self = Self { state, timer: period.map(|period| now.saturating_add(period)) };
    }
}

impl Port {
    /// The transitions that the variables cause.
    pub(crate) fn step_periodic(&mut self, now: Duration) {
        let silent =
            !self.lacp_enabled() || !(self.actor.state.activity || self.partner.state.activity);
        let short = self.partner.state.short_timeout;
        match self.periodic.state {
            State::NoPeriodic if silent => {}
            _ if silent => self.periodic.enter(now, State::NoPeriodic),
            State::NoPeriodic if short => self.periodic.enter(now, State::FastPeriodic),
            State::NoPeriodic => self.periodic.enter(now, State::SlowPeriodic),
            State::FastPeriodic if !short => self.periodic.enter(now, State::SlowPeriodic),
            State::SlowPeriodic if short => self.transmit_periodically(now),
            State::FastPeriodic | State::SlowPeriodic => {}
        }
    }

    pub(crate) fn expire_periodic(&mut self, now: Duration) {
        if self.periodic.timer.is_some_and(|end| end <= now) {
            self.transmit_periodically(now);
        }
    }

    /// PERIODIC_TX.
    fn transmit_periodically(&mut self, now: Duration) {
        self.ntt = true;
        let short = self.partner.state.short_timeout;
        let state = if short { State::FastPeriodic } else { State::SlowPeriodic };
        self.periodic.enter(now, state);
    }
}
