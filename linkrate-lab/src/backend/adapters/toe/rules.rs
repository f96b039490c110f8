//! Which connections are to be at the adapter, and why one returns to the host.

use std::time::{Duration, Instant};

use linkrate_adapter::Asks;
use linkrate_model::PortKnobs;
use linkrate_model::knobs::Toe;
use linkrate_protocol::toe::FlowConnection;

/// Retransmission time-outs in sequence after which a connection returns to the host: R1 of RFC 1122,
/// 4.2.3.5, after which IP is to look for another way.
const MAX_TIMEOUTS: u8 = 3;

/// How long a connection stays at the host after it came back for this reason.
const REST: Duration = Duration::from_secs(1);

/// How long a connection is at the adapter at least before another one may take its place.
const SETTLED: Duration = Duration::from_millis(200);

/// A connection takes the place of another one that carries less than this part of its bytes.
const LIVELIER: u64 = 2;

/// Why a connection returns to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The controller wants all connections at the host.
    Ordered,
    /// The port has lost its carrier.
    Carrier,
    /// A port of the aggregate carries traffic no more.
    PortLeft,
    /// Time-outs in sequence without an acknowledgement.
    Retransmission,
    /// No byte for the time of `toe-idle`.
    Idle,
    /// The MTU, the VLAN or the framing of the port changes.
    Setting,
    /// The port is removed.
    Removal,
    /// The knob `toe` is off now.
    Off,
    /// A busier connection takes its place in the table.
    TableFull,
    /// The peer has reset it.
    Reset,
    /// The peer has sent urgent data.
    Urgent,
    /// A segment of the peer came in fragments.
    Fragment,
}

impl Reason {
    /// The word in counters.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Carrier => "carrier",
            Self::PortLeft => "port-left",
            Self::Retransmission => "retransmission",
            Self::Idle => "idle",
            Self::Setting => "setting",
            Self::Removal => "removal",
            Self::Off => "toe-off",
            Self::TableFull => "table-full",
            Self::Reset => "reset",
            Self::Urgent => "urgent",
            Self::Fragment => "fragment",
        }
    }
}

impl From<Asks> for Reason {
    fn from(asks: Asks) -> Self {
        match asks {
            Asks::Reset => Self::Reset,
            Asks::Urgent => Self::Urgent,
            Asks::Fragment => Self::Fragment,
        }
    }
}

/// How a connection at the adapter is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// Bytes since it came.
    pub(super) carried: u64,
    /// Bytes between the last two polls.
    pub(super) lately: u64,
    pub(super) timeouts: u8,
    pub(super) ended: bool,
    /// When it came.
    pub(super) since: Instant,
    /// When it last carried bytes.
    pub(super) active: Instant,
}

impl Use {
    /// That of a connection that has just come.
    pub(super) fn new(now: Instant) -> Self {
        let (carried, lately, timeouts, ended) = (0, 0, 0, false);
        Self { carried, lately, timeouts, ended, since: now, active: now }
    }

    /// Notes that the engine has nothing to say of it: it is idle, and nothing of it is on its way.
    pub(super) fn is_idle(&mut self) {
        (self.lately, self.timeouts) = (0, 0);
    }

    /// Notes what the engine says of it.
    pub(super) fn looked_at(&mut self, carried: u64, timeouts: u8, ended: bool, now: Instant) {
        self.lately = carried.saturating_sub(self.carried);
        if self.lately > 0 {
            self.active = now;
        }
        (self.carried, self.timeouts, self.ended) = (carried, timeouts, ended);
    }
}

/// A connection that is at the host again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Back {
    pub(crate) reason: Reason,
    pub(crate) at: Instant,
    /// Bytes that it had carried at the first look afterwards.
    pub(crate) carried: Option<u64>,
}

/// Whether connections of a port may have to return that are idle, so that all of them must be looked at.
pub(super) fn concerns_idle(knobs: &PortKnobs, has_carrier: bool) -> bool {
    knobs.toe == Toe::Off || !has_carrier || knobs.toe_idle > 0
}

/// Why a connection returns whose outlet had the ports `then` in use when it came, and has `now`, a bit each.
/// A port that has come meanwhile is no reason.
pub(super) fn lost(then: u64, now: u64, has_all_carriers: bool) -> Option<Reason> {
    let reason = if has_all_carriers { Reason::PortLeft } else { Reason::Carrier };
    (then & !now != 0 || now == 0).then_some(reason)
}

/// Why a connection is to return to the host, if it is. `lost` is the reason that its ports are.
pub(super) fn returns(
    of: &Use,
    knobs: &PortKnobs,
    lost: Option<Reason>,
    now: Instant,
) -> Option<Reason> {
    if of.ended {
        return None;
    }
    if knobs.toe == Toe::Off {
        return Some(Reason::Off);
    }
    if lost.is_some() {
        return lost;
    }
    if of.timeouts >= MAX_TIMEOUTS {
        return Some(Reason::Retransmission);
    }
    let idle = Duration::from_millis(knobs.toe_idle.into());
    (!idle.is_zero() && now.saturating_duration_since(of.active) >= idle).then_some(Reason::Idle)
}

/// Whether a connection at the host is to go to the adapter. `back` is there if it came from there.
pub(super) fn goes(
    of: &FlowConnection,
    back: Option<&Back>,
    knobs: &PortKnobs,
    has_carrier: bool,
    now: Instant,
) -> bool {
    if knobs.toe == Toe::Off || !has_carrier {
        return false;
    }
    let after = u64::from(knobs.toe_after);
    if let Some(back) = back {
        // with `on`, an idle connection waits for its first byte
        let least = if knobs.toe == Toe::Auto { after.max(1) } else { 1 };
        let used = || back.carried.is_some_and(|then| of.carried.saturating_sub(then) >= least);
        return match back.reason {
            Reason::Reset
            | Reason::Urgent
            | Reason::Fragment
            | Reason::Ordered
            | Reason::Removal => false,
            Reason::Carrier | Reason::PortLeft | Reason::Setting | Reason::Off => true,
            Reason::Retransmission => now.saturating_duration_since(back.at) >= REST && used(),
            Reason::Idle | Reason::TableFull => used(),
        };
    }
    let old = knobs.toe_age > 0 && of.age_ms >= knobs.toe_age.into();
    knobs.toe == Toe::On || of.carried >= after || old
}

/// The connection whose place in a full table a busier one takes: one that has ended, or the one that
/// has carried least lately. `lately` are the bytes of the connection that wants the place.
pub(super) fn victim<'a>(
    table: impl Iterator<Item = (u32, &'a Use)>,
    lately: u64,
    now: Instant,
) -> Option<u32> {
    let (flow, least) = table.min_by_key(|(_, of)| (!of.ended, of.lately))?;
    let settled = now.saturating_duration_since(least.since) >= SETTLED;
    let livelier = least.lately.saturating_mul(LIVELIER) < lately;
    (least.ended || settled && livelier).then_some(flow)
}

/// Connections that may be at the adapter of a port whose table holds `holds`.
pub(super) fn most(knobs: &PortKnobs, holds: usize) -> usize {
    match knobs.toe_max as usize {
        0 => holds,
        most => most.min(holds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs(toe: Toe) -> PortKnobs {
        PortKnobs { toe, toe_after: 1000, toe_age: 500, toe_idle: 100, ..PortKnobs::default() }
    }

    fn connection(carried: u64, age_ms: u64) -> FlowConnection {
        let address = ([10, 0, 0, 1], 1).into();
        FlowConnection { flow: 0, own: address, far: address, carried, age_ms }
    }

    #[test]
    fn auto_waits_for_bytes_or_age_and_on_waits_for_nothing() {
        let now = Instant::now();
        for (toe, carried, age_ms, expected) in [
            (Toe::Auto, 999, 499, false),
            (Toe::Auto, 1000, 0, true),
            (Toe::Auto, 0, 500, true),
            (Toe::On, 0, 0, true),
            (Toe::Off, 5000, 5000, false),
        ] {
            let of = connection(carried, age_ms);
            assert_eq!(goes(&of, None, &knobs(toe), true, now), expected, "{toe} {of:?}");
            assert!(!goes(&of, None, &knobs(toe), false, now), "without a carrier");
        }
        // an age of 0 is never
        let ageless = PortKnobs { toe_age: 0, ..knobs(Toe::Auto) };
        assert!(!goes(&connection(0, u64::MAX), None, &ageless, true, now));
    }

    #[test]
    fn a_connection_returns_by_the_first_reason_that_applies() {
        let now = Instant::now();
        let later = now + Duration::from_millis(100);
        let of = Use::new(now);
        let on = knobs(Toe::On);
        let troubled = Use { timeouts: MAX_TIMEOUTS, ..of };
        let gone = Some(Reason::Carrier);
        for (of, knobs, lost, at, expected) in [
            (of, &on, None, now, None),
            (of, &on, None, later, Some(Reason::Idle)),
            (troubled, &on, None, later, Some(Reason::Retransmission)),
            (troubled, &on, gone, later, gone),
            (troubled, &knobs(Toe::Off), gone, later, Some(Reason::Off)),
            (Use { ended: true, ..troubled }, &on, gone, later, None),
        ] {
            assert_eq!(returns(&of, knobs, lost, at), expected, "{of:?}");
        }
        let mut busy = of;
        busy.looked_at(1, 0, false, later);
        assert_eq!(returns(&busy, &on, None, later), None);
        let patient = PortKnobs { toe_idle: 0, ..on };
        assert_eq!(returns(&of, &patient, None, now + Duration::from_secs(3600)), None);
    }

    #[test]
    fn a_port_that_connections_may_have_used_is_a_reason_and_a_new_one_is_not() {
        for (then, now, has_all_carriers, expected) in [
            (0b11, 0b11, true, None),
            (0b01, 0b11, true, None),
            (0b11, 0b10, false, Some(Reason::Carrier)),
            (0b11, 0b110, true, Some(Reason::PortLeft)),
            // there was none when it came
            (0, 0, false, Some(Reason::Carrier)),
        ] {
            assert_eq!(lost(then, now, has_all_carriers), expected, "{then:b} {now:b}");
        }
    }

    #[test]
    fn an_idle_connection_returns_only_where_idle_ones_are_looked_at() {
        let now = Instant::now();
        let idle = Use::new(now);
        let patient = PortKnobs { toe_idle: 0, ..knobs(Toe::On) };
        for (knobs, has_carrier) in [
            (patient.clone(), true),
            (patient.clone(), false),
            (PortKnobs { toe: Toe::Off, ..patient }, true),
            (knobs(Toe::Auto), true),
        ] {
            let later = now + Duration::from_secs(9);
            let lost = (!has_carrier).then_some(Reason::Carrier);
            let returned = returns(&idle, &knobs, lost, later).is_some();
            assert_eq!(concerns_idle(&knobs, has_carrier), returned, "{has_carrier} {knobs:?}");
        }
    }

    #[test]
    fn the_reason_says_when_a_connection_goes_again() {
        let now = Instant::now();
        let (quiet, used) = (connection(5000, 9999), connection(6000, 9999));
        let rested = now + REST;
        for (reason, of, at, expected) in [
            (Reason::Reset, used, rested, false),
            (Reason::Urgent, used, rested, false),
            (Reason::Fragment, used, rested, false),
            (Reason::Ordered, used, rested, false),
            (Reason::Carrier, quiet, now, true),
            (Reason::PortLeft, quiet, now, true),
            (Reason::Setting, quiet, now, true),
            (Reason::Idle, quiet, rested, false),
            (Reason::Idle, used, now, true),
            (Reason::Retransmission, used, now, false),
            (Reason::Retransmission, used, rested, true),
            (Reason::Retransmission, quiet, rested, false),
        ] {
            let back = Back { reason, at: now, carried: Some(5000) };
            let found = goes(&of, Some(&back), &knobs(Toe::Auto), true, at);
            assert_eq!(found, expected, "{reason:?} {of:?}");
        }
    }

    #[test]
    fn the_place_of_the_least_active_connection_is_given_away() {
        let now = Instant::now();
        let settled = now + SETTLED;
        let table = [5000, 10, 900].map(|lately| Use { lately, ..Use::new(now) });
        let numbered = || (0..).zip(&table);
        assert_eq!(victim(numbered(), 21, settled), Some(1));
        assert_eq!(victim(numbered(), 20, settled), None, "hardly livelier");
        assert_eq!(victim(numbered(), 5000, now), None, "it has just come");
        let ended = Use { ended: true, lately: 7, ..table[0] };
        assert_eq!(victim([(9, &ended), (1, &table[1])].into_iter(), 0, now), Some(9));
        assert_eq!(victim([].into_iter(), 5000, settled), None);
    }

    #[test]
    fn the_bound_is_that_of_the_knob_within_the_table() {
        let of = |toe_max| most(&PortKnobs { toe_max, ..PortKnobs::default() }, 8);
        assert_eq!([0, 3, 9].map(of), [8, 3, 8]);
    }
}
