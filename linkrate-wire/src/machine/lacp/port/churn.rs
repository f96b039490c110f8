//! The Churn Detection machines, one for each end: a link that is up and does not come into
//! operation (IEEE 802.1AX-2014, 6.4.17).
use std::fmt;
use std::time::Duration;

use super::Port;
use crate::machine::lacp::event::{Action, End, Notice};

/// Churn_Detection_Time (6.4.4).
pub(crate) const CHURN_TIME: Duration = Duration::from_secs(60);

/// A state of a Churn Detection machine, with the name that the one of the actor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// In sync.
    NoChurn,
    /// Not in sync, for less than 60 s.
    Monitor,
    /// Not in sync for 60 s.
    Churn,
}

impl State {
    /// Its name in the standard, which says the end of the link.
    #[must_use]
    pub const fn name(self, end: End) -> &'static str {
        match (self, end) {
            (Self::NoChurn, End::Actor) => "NO_ACTOR_CHURN",
            (Self::Monitor, End::Actor) => "ACTOR_CHURN_MONITOR",
            (Self::Churn, End::Actor) => "ACTOR_CHURN",
            (Self::NoChurn, End::Partner) => "NO_PARTNER_CHURN",
            (Self::Monitor, End::Partner) => "PARTNER_CHURN_MONITOR",
            (Self::Churn, End::Partner) => "PARTNER_CHURN",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Actor => "actor",
            Self::Partner => "partner",
        })
    }
}

/// The machine of one end.
#[derive(Debug, Clone)]
pub(crate) struct Churn {
    pub(crate) state: State,
    pub(crate) timer: Option<Duration>,
}

impl Churn {
    pub(crate) const fn new() -> Self {
        Self { state: State::Monitor, timer: None }
    }

    /// Goes to where the variables lead, also because the time is over. A notice if churn begins
    /// or ends.
    pub(crate) fn step(
        &mut self,
        now: Duration,
        enabled: bool,
        in_sync: bool,
        end: End,
        port: u16,
    ) -> Option<Notice> {
        let before = self.state;
        let monitor =
            || Self { state: State::Monitor, timer: Some(now.saturating_add(CHURN_TIME)) };
        if !enabled {
            *self = Self::new();
        } else if in_sync {
            *self = Self { state: State::NoChurn, timer: None };
        } else {
            match (self.state, self.timer) {
                (State::NoChurn, _) | (State::Monitor, None) => *self = monitor(),
                (State::Monitor, Some(timer)) if timer <= now => {
                    *self = Self { state: State::Churn, timer: None };
                }
                (State::Monitor | State::Churn, _) => {}
            }
        }
        match (before, self.state) {
            (State::Churn, State::Churn) => None,
            (State::Churn, _) => Some(Notice::ChurnEnded { port, end }),
            (_, State::Churn) => Some(Notice::ChurnDetected { port, end }),
            _ => None,
        }
    }
}

impl Port {
    /// Runs the machines of both ends.
    pub(crate) fn step_churn(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let (port, enabled) = (self.number(), self.lacp_enabled());
        let (actor, partner) =
            (self.actor.state.synchronization, self.partner.state.synchronization);
        let actor = self.actor_churn.step(now, enabled, actor, End::Actor, port);
        let partner = self.partner_churn.step(now, enabled, partner, End::Partner, port);
        let begins = |notice| matches!(notice, Some(Notice::ChurnDetected { .. }));
        self.counters.actor_churn += u64::from(begins(actor));
        self.counters.partner_churn += u64::from(begins(partner));
        actions.extend([actor, partner].into_iter().flatten().map(Action::Notice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn churn_begins_after_a_minute_and_ends_in_sync() {
        let seconds = Duration::from_secs;
        let mut churn = Churn::new();
        let mut step = |now, enabled, in_sync| {
            let notice = churn.step(seconds(now), enabled, in_sync, End::Actor, 7);
            (churn.state, churn.timer, notice)
        };
        let detected = Some(Notice::ChurnDetected { port: 7, end: End::Actor });
        let ended = Some(Notice::ChurnEnded { port: 7, end: End::Actor });
        assert_eq!(step(0, false, false), (State::Monitor, None, None));
        assert_eq!(step(5, true, false), (State::Monitor, Some(seconds(65)), None));
        assert_eq!(step(64, true, false), (State::Monitor, Some(seconds(65)), None));
        assert_eq!(step(65, true, false), (State::Churn, None, detected));
        assert_eq!(step(99, true, false), (State::Churn, None, None));
        assert_eq!(step(100, true, true), (State::NoChurn, None, ended));
        assert_eq!(step(200, true, false), (State::Monitor, Some(seconds(260)), None));
        // while the link is down, time does not run
        assert_eq!(step(250, false, false), (State::Monitor, None, None));
        assert_eq!(step(261, true, false), (State::Monitor, Some(seconds(321)), None));
        assert_eq!(step(321, true, false).2, detected);
        assert_eq!(step(322, false, false), (State::Monitor, None, ended));
    }
}
