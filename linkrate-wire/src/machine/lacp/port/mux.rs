//! The Mux machine: attaches a port to its aggregator, then lets frames in, then out
//! (IEEE 802.1AX-2014, 6.4.15).
//!
//! ```text
//! DETACHED ─ selected ─▶ WAITING ─ 2 s ─▶ ATTACHED ─ partner in sync ─▶ COLLECTING
//!                                                                          │
//!                                         partner collects ─▶ DISTRIBUTING ◀┘
//! ```
//!
//! It has independent control of collecting and distributing, for two reasons. Under coupled control
//! a port sends before its partner says that it takes frames in, so the first frames may be lost;
//! here a port never sends to a partner that does not collect. And both owners of this machine, host
//! and switch, can open the two directions one by one. Partners with coupled control notice no
//! difference.

use std::fmt;
use std::time::Duration;

use super::Port;
use crate::machine::lacp::event::{Action, Selection};

/// Aggregate_Wait_Time (6.4.4).
pub(crate) const AGGREGATE_WAIT: Duration = Duration::from_secs(2);

/// A state of the Mux machine with independent control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not attached to an aggregator.
    Detached,
    /// Waits, so that ports which come up together are attached together.
    Waiting,
    /// Attached, and not yet in use.
    Attached,
    /// Takes frames in.
    Collecting,
    /// Takes frames in and sends frames out.
    Distributing,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detached => "DETACHED",
            Self::Waiting => "WAITING",
            Self::Attached => "ATTACHED",
            Self::Collecting => "COLLECTING",
            Self::Distributing => "DISTRIBUTING",
        })
    }
}

/// Why the machine went where it is (dot3adAggPortDebugMuxReason).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It began there.
    Begin,
    /// The port was selected, or became standby.
    Selected,
    /// The port is no longer selected.
    Unselected,
    /// All ports that are to be attached have waited.
    Ready,
    /// The partner is in sync.
    PartnerInSync,
    /// The partner is no longer in sync.
    PartnerOutOfSync,
    /// The partner collects.
    PartnerCollects,
    /// The partner no longer collects.
    PartnerDoesNotCollect,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "begin",
            Self::Selected => "port selected",
            Self::Unselected => "port not selected",
            Self::Ready => "wait over",
            Self::PartnerInSync => "partner in sync",
            Self::PartnerOutOfSync => "partner not in sync",
            Self::PartnerCollects => "partner collects",
            Self::PartnerDoesNotCollect => "partner does not collect",
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Mux {
    pub(crate) state: State,
    pub(crate) cause: Cause,
    /// When the wait in WAITING ends.
    wait_while: Duration,
}

impl Mux {
    pub(crate) const fn new() -> Self {
        Self { state: State::Detached, cause: Cause::Begin, wait_while: Duration::ZERO }
    }

    /// Ready_N becomes true at this time.
    pub(crate) fn ready_at(&self) -> Option<Duration> {
        (self.state == State::Waiting).then_some(self.wait_while)
    }

    /// How long a port that is ready waits for others: not longer than it waited for itself. A
    /// partner that changes all the time, and so begins to wait again and again on one port, does
    /// not keep the other ports out.
    pub(crate) fn patient_until(&self) -> Option<Duration> {
        self.ready_at().map(|ready| ready.saturating_add(AGGREGATE_WAIT))
    }
}

impl Port {
    /// One transition, if there is one. `ready`: no port of the aggregator has to wait.
    pub(crate) fn step_mux(
        &mut self,
        now: Duration,
        ready: bool,
        actions: &mut Vec<Action>,
    ) -> bool {
        let selected = self.selection == Selection::Selected;
        let (sync, collects) = (self.partner.state.synchronization, self.partner.state.collecting);
        let unselected = matches!(self.selection, Selection::Unselected(_));
        let patient = self.mux.patient_until().is_some_and(|end| end > now);
        let (next, cause) = match self.mux.state {
            State::Detached if !unselected => (State::Waiting, Cause::Selected),
            State::Waiting if unselected => (State::Detached, Cause::Unselected),
            State::Waiting if selected && (ready || !patient) => (State::Attached, Cause::Ready),
            State::Attached if !selected => (State::Detached, Cause::Unselected),
            State::Attached if sync => (State::Collecting, Cause::PartnerInSync),
            State::Collecting if !selected => (State::Attached, Cause::Unselected),
            State::Collecting if !sync => (State::Attached, Cause::PartnerOutOfSync),
            State::Collecting if collects => (State::Distributing, Cause::PartnerCollects),
            State::Distributing if !selected => (State::Collecting, Cause::Unselected),
            State::Distributing if !sync => (State::Collecting, Cause::PartnerOutOfSync),
            State::Distributing if !collects => (State::Collecting, Cause::PartnerDoesNotCollect),
            _ => return false,
        };
        self.enter_mux(now, next, actions);
        self.mux.cause = cause;
        true
    }

    fn enter_mux(&mut self, now: Duration, state: State, actions: &mut Vec<Action>) {
        let (port, key) = (self.number(), self.actor.key);
        self.mux.state = state;
        if state == State::Waiting {
            self.mux.wait_while = now.saturating_add(AGGREGATE_WAIT);
            return;
        }
        let bits = &mut self.actor.state;
        let before = *bits;
        bits.synchronization = state != State::Detached;
        bits.collecting = matches!(state, State::Collecting | State::Distributing);
        bits.distributing = state == State::Distributing;
        let bits = *bits;
        if bits.synchronization && !before.synchronization {
            self.counters.actor_sync_transitions += 1;
        }
        if bits.collecting != before.collecting {
            actions.push(Action::Collecting { port, key, on: bits.collecting });
        }
        if bits.distributing != before.distributing {
            actions.push(Action::Distributing { port, key, on: bits.distributing });
        }
        // also on entry to DISTRIBUTING, where the standard does not: the partner would not know
        // for up to 30 s
        self.ntt = true;
    }
}
