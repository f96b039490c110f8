//! The Receive machine: what is known of the partner, and for how long (IEEE 802.1AX-2014, 6.4.12).
//!
//! ```text
//! INITIALIZE ─▶ PORT_DISABLED ─ link up ─▶ EXPIRED ─ 3 s ─▶ DEFAULTED
//!                     ▲                     │   ▲               │
//!                     │                    PDU  3 or 90 s      PDU
//!                 link down                 ▼   │               │
//!                                          CURRENT ◀────────────┘
//! ```

use std::fmt;
use std::time::Duration;

use super::Port;
use crate::control::Lacpdu;
use crate::control::lacp::{Information, State as Bits};
use crate::machine::lacp::event::{Reason, Selection};

/// Short_Timeout_Time (6.4.4).
pub(crate) const SHORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Long_Timeout_Time (6.4.4).
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(90);

/// A state of the Receive machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The machine begins.
    Initialize,
    /// The link is down. What was known of the partner is kept: it may come back.
    PortDisabled,
    /// The partner was not heard for too long, or the link just came up.
    Expired,
    /// The link is in half duplex, which LACP does not work on.
    LacpDisabled,
    /// No partner is known, and default values are in its place.
    Defaulted,
    /// The partner is heard in time.
    Current,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialize => "INITIALIZE",
            Self::PortDisabled => "PORT_DISABLED",
            Self::Expired => "EXPIRED",
            Self::LacpDisabled => "LACP_DISABLED",
            Self::Defaulted => "DEFAULTED",
            Self::Current => "CURRENT",
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Receive {
    pub(crate) state: State,
    pub(crate) current_while: Option<Duration>,
}

impl Receive {
    pub(crate) const fn new() -> Self {
        Self { state: State::Initialize, current_while: None }
    }
}

/// Partner_Admin: the partner of a port that heard none. It wants a PDU every second, so that a
/// passive one which begins later is found soon. It is in sync only where the group [says so](Port::follow_partner_admin).
const PARTNER_ADMIN: Information =
    Information { state: Bits { short_timeout: true, ..Bits::of(0) }, ..Information::UNKNOWN };

impl Port {
    /// The transitions that the link causes.
    pub(crate) fn follow_link(&mut self, now: Duration) {
        let state = self.receive.state;
        if !self.enabled() {
            if state != State::PortDisabled {
                self.fail();
                self.receive = Receive { state: State::PortDisabled, current_while: None };
                self.set_partner_sync(false);
                self.unselect(Reason::LinkDown);
            }
        } else if !self.lacp_enabled() {
            if state != State::LacpDisabled {
                self.receive = Receive { state: State::LacpDisabled, current_while: None };
                self.unselect(Reason::HalfDuplex);
                self.record_default();
                self.actor.state.expired = false;
            }
        } else if matches!(state, State::PortDisabled | State::LacpDisabled | State::Initialize) {
            self.expire(now);
        }
    }

    /// What is due at `now`. Says whether something was.
    pub(crate) fn expire_receive(&mut self, now: Duration) -> bool {
        if self.receive.current_while.is_none_or(|end| end > now) {
            return false;
        }
        if self.receive.state == State::Current {
            self.expire(now);
        } else {
            self.receive = Receive { state: State::Defaulted, current_while: None };
            self.update_default_selected();
            self.record_default();
            self.actor.state.expired = false;
        }
        true
    }

    /// Enters EXPIRED.
    fn expire(&mut self, now: Duration) {
        self.fail();
        let end = now.saturating_add(SHORT_TIMEOUT);
        self.receive = Receive { state: State::Expired, current_while: Some(end) };
        self.set_partner_sync(false);
        self.partner.state.short_timeout = true;
        self.actor.state.expired = true;
    }

    /// Takes a PDU: enters CURRENT.
    pub(crate) fn receive_lacpdu(&mut self, now: Duration, pdu: &Lacpdu) {
        if matches!(
            self.receive.state,
            State::Initialize | State::PortDisabled | State::LacpDisabled
        ) {
            return;
        }
        self.count_changes(pdu);
        self.update_selected(pdu);
        self.update_ntt(pdu);
        self.record_pdu(pdu);
        self.last_rx = Some(now);
        self.actor.state.expired = false;
        self.receive = Receive { state: State::Current, current_while: None };
        self.restart_current_while(now);
    }

    /// Waits for the next PDU from now on, as long as the actor's time-out says.
    pub(crate) fn restart_current_while(&mut self, now: Duration) {
        if self.receive.state == State::Current {
            let short = self.actor.state.short_timeout;
            let timeout = if short { SHORT_TIMEOUT } else { LONG_TIMEOUT };
            self.receive.current_while = Some(now.saturating_add(timeout));
        }
    }

    /// PORT_DISABLED to INITIALIZE and back: the partner was heard on another port (port_moved).
    /// Says whether it is so.
    pub(crate) fn forget_moved_partner(&mut self) -> bool {
        let is_disabled = self.receive.state == State::PortDisabled;
        if is_disabled {
            self.record_default();
            self.actor.state.expired = false;
        }
        is_disabled
    }

    pub(crate) fn record_default(&mut self) {
        self.partner = PARTNER_ADMIN;
        self.partner_version = None;
        self.seen_as = None;
        self.actor.state.defaulted = true;
    }

    /// Takes up whether the partner that stands for one that was not heard is in sync, and takes and sends frames.
    pub(crate) fn follow_partner_admin(&mut self, in_sync: bool) {
        if self.receive.state == State::Defaulted {
            let state = &mut self.partner.state;
            (state.synchronization, state.collecting, state.distributing) =
                (in_sync, in_sync, in_sync);
        }
    }

    fn record_pdu(&mut self, pdu: &Lacpdu) {
        let before = self.partner.state.synchronization;
        let matches = self.is_described_by(&pdu.partner);
        let individual = !pdu.actor.state.aggregation;
        // LACP actively maintains the link
        let maintained =
            pdu.actor.state.activity || (self.actor.state.activity && pdu.partner.state.activity);
        self.partner = pdu.actor;
        self.partner.state.synchronization = before;
        self.set_partner_sync(
            (matches || individual) && pdu.actor.state.synchronization && maintained,
        );
        self.seen_as = Some(pdu.partner);
        self.partner_version = Some(pdu.version);
        self.actor.state.defaulted = false;
    }

    /// Whether `partner`, of a PDU, is this end: all that the Mux machine of the partner depends on.
    fn is_described_by(&self, partner: &Information) -> bool {
        (partner.system, partner.key, partner.port, partner.state.aggregation)
            == (self.actor.system, self.actor.key, self.actor.port, self.actor.state.aggregation)
    }

    pub(crate) fn is_known_to_partner(&self) -> bool {
        self.seen_as.is_some_and(|partner| self.is_described_by(&partner))
    }

    fn update_selected(&mut self, pdu: &Lacpdu) {
        self.unselect_unless(&pdu.actor);
    }

    fn update_default_selected(&mut self) {
        self.unselect_unless(&PARTNER_ADMIN);
    }

    /// Another partner, or other values of it, may belong to another aggregate.
    fn unselect_unless(&mut self, partner: &Information) {
        let what = |of: &Information| (of.system, of.key, of.port, of.state.aggregation);
        if what(partner) != what(&self.partner) {
            self.unselect(Reason::NoPartner);
        }
    }

    fn update_ntt(&mut self, pdu: &Lacpdu) {
        let relevant = |state: Bits| {
            (state.activity, state.short_timeout, state.synchronization, state.aggregation)
        };
        if !self.is_described_by(&pdu.partner)
            || relevant(pdu.partner.state) != relevant(self.actor.state)
        {
            self.ntt = true;
            self.counters.stale_rx += 1;
        }
    }

    fn count_changes(&mut self, pdu: &Lacpdu) {
        let group = |of: &Information| (of.system, of.key, of.state.aggregation);
        if group(&pdu.actor) != group(&self.partner) {
            self.counters.actor_changes += 1;
        }
        if self.seen_as.is_none_or(|before| group(&before) != group(&pdu.partner)) {
            self.counters.partner_changes += 1;
        }
    }

    fn set_partner_sync(&mut self, sync: bool) {
        let before = std::mem::replace(&mut self.partner.state.synchronization, sync);
        self.counters.partner_sync_transitions += u64::from(sync && !before);
    }

    /// Selected := UNSELECTED.
    pub(crate) fn unselect(&mut self, reason: Reason) {
        self.selection = Selection::Unselected(reason);
    }

    /// The port fails: if it was of use, it has to prove itself before it is of use again.
    pub(crate) fn fail(&mut self) {
        self.failed |= self.actor.state.collecting;
        self.restored_at = None;
    }
}
