//! A port: the variables that its machines share (IEEE 802.1AX-2014, 6.4.7 and 6.4.8).

pub mod churn;
mod marker;
pub mod mux;
pub mod periodic;
pub mod receive;

use std::time::Duration;

use super::counters::Counters;
use super::event::{Action, Link, Notice, PortSettings, Reason, Selection};
use crate::control::lacp::{Information, PortId, State, SystemId, VERSION};
use crate::control::{Lacpdu, slow};
use churn::Churn;
use marker::Markers;
use mux::Mux;
use periodic::Periodic;
use receive::Receive;

/// Frames a second of one slow protocol that a port reads: as many as its partner may send. Each protocol has this bound
/// for itself (IEEE 802.3, 57A.2), so that no other one can starve LACP.
const MAX_READ: usize = slow::MAX_PER_SECOND as usize;

/// LACPDUs sent: at most three in a fast period (IEEE 802.1AX-2014, 6.4.16).
pub(super) type Sent = Limiter<3>;

#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) settings: PortSettings,
    pub(super) link: Option<Link>,
    /// Actor_Oper: the own end of the link.
    pub(super) actor: Information,
    /// Partner_Oper: the other end, from its last PDU.
    pub(super) partner: Information,
    /// The own end as the last PDU of the partner described it.
    pub(super) seen_as: Option<Information>,
    /// The version in the last PDU.
    pub(super) partner_version: Option<u8>,
    pub(super) last_rx: Option<Duration>,
    pub(super) selection: Selection,
    /// Need to transmit.
    pub(super) ntt: bool,
    pub(super) receive: Receive,
    pub(super) periodic: Periodic,
    pub(super) mux: Mux,
    pub(super) actor_churn: Churn,
    pub(super) partner_churn: Churn,
    pub(super) markers: Markers,
    pub(super) sent: Sent,
    read_lacpdus: Limiter<MAX_READ>,
    read_markers: Limiter<MAX_READ>,
    /// It failed after it was attached.
    pub(super) failed: bool,
    /// It failed and came back: until when it is to be in order before it is used again.
    pub(super) restored_at: Option<Duration>,
    /// What its owner was told last.
    pub(super) told_partner: Option<Information>,
    pub(super) told_selection: Selection,
    pub(super) counters: Counters,
}

impl Port {
    /// A port whose link is down. The machines begin.
    pub(super) fn new(system: SystemId, number: u16, settings: PortSettings) -> Self {
        let mut port = Self {
            settings,
            link: None,
            actor: Information {
                system,
                port: PortId { priority: settings.priority, number },
                ..Information::UNKNOWN
            },
            partner: Information::UNKNOWN,
            seen_as: None,
            partner_version: None,
            last_rx: None,
            selection: Selection::Unselected(Reason::LinkDown),
            ntt: false,
            receive: Receive::new(),
            periodic: Periodic::new(),
            mux: Mux::new(),
            actor_churn: Churn::new(),
            partner_churn: Churn::new(),
            markers: Markers::new(),
            sent: Sent::new(),
            read_lacpdus: Limiter::new(),
            read_markers: Limiter::new(),
            failed: false,
            restored_at: None,
            told_partner: None,
            told_selection: Selection::Unselected(Reason::LinkDown),
            counters: Counters::default(),
        };
        port.record_default();
        port.follow_settings();
        port
    }

    /// port_enabled: the link is up.
    pub(super) const fn enabled(&self) -> bool {
        self.link.is_some()
    }

    /// Whether it still reads a LACPDU at `now`.
    pub(super) fn reads_lacpdu(&mut self, now: Duration) -> bool {
        let reads = self.read_lacpdus.take(now);
        self.counters.too_fast_rx += u64::from(!reads);
        reads
    }

    /// The same of a marker.
    pub(super) fn reads_marker(&mut self, now: Duration) -> bool {
        let reads = self.read_markers.take(now);
        self.counters.too_fast_rx += u64::from(!reads);
        reads
    }

    /// LACP_Enabled: false on a link in half duplex.
    pub(super) fn lacp_enabled(&self) -> bool {
        self.link.is_some_and(|link| link.full_duplex)
    }

    pub(super) const fn number(&self) -> u16 {
        self.actor.port.number
    }

    /// The link is up. One that comes up with other values goes down first.
    pub(super) fn link_up(&mut self, now: Duration, link: Link, actions: &mut Vec<Action>) {
        if self.link.is_some_and(|before| before != link) {
            self.link_down(actions);
            self.follow_link(now);
            self.settle_mux(now, false, actions);
        }
        // the partner is to know at once, and not with the next periodic PDU
        self.ntt |= self.link.is_none();
        self.link = Some(link);
    }

    pub(super) fn link_down(&mut self, actions: &mut Vec<Action>) {
        self.link = None;
        self.lose_markers(actions);
    }

    /// What the settings say about the own end.
    pub(super) fn follow_settings(&mut self) {
        let PortSettings { key, priority, active, short_timeout, aggregatable, .. } = self.settings;
        self.actor.key = key;
        self.actor.port.priority = priority;
        let state = &mut self.actor.state;
        *state = State { activity: active, short_timeout, aggregation: aggregatable, ..*state };
    }

    pub(super) fn known_partner(&self) -> Option<Information> {
        (!self.actor.state.defaulted).then_some(self.partner)
    }

    /// Lets the Mux machine run until it rests.
    pub(super) fn settle_mux(&mut self, now: Duration, ready: bool, actions: &mut Vec<Action>) {
        while self.step_mux(now, ready, actions) {}
    }

    /// Leaves the aggregate at once, if it is attached.
    pub(super) fn detach(&mut self, now: Duration, reason: Reason, actions: &mut Vec<Action>) {
        self.unselect(reason);
        self.settle_mux(now, false, actions);
    }

    /// Takes what the selection logic decided. Says whether that changes what it would decide next.
    pub(super) fn follow_selection(&mut self, selection: Selection) -> bool {
        let before = (self.selection, self.failed);
        self.selection = selection;
        let selected = !matches!(selection, Selection::Unselected(_));
        if selected && self.receive.state == receive::State::Current {
            (self.failed, self.restored_at) = (false, None);
        }
        before != (self.selection, self.failed)
    }

    /// Runs the machines that follow the Mux machine, and tells what changed.
    pub(super) fn finish(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.step_periodic(now);
        self.step_churn(now, actions);
        self.transmit(now, actions);
        self.tell(actions);
    }

    /// Reports on another partner and of another selection.
    fn tell(&mut self, actions: &mut Vec<Action>) {
        let port = self.number();
        let (from, to) = (self.told_partner, self.known_partner());
        let who = |one: Information| (one.system, one.key, one.port, one.state.aggregation);
        if from.map(who) != to.map(who) {
            actions.push(Action::Notice(Notice::PartnerChanged { port, from, to }));
            self.told_partner = to;
        }
        let (from, to) = (self.told_selection, self.selection);
        if from != to {
            actions.push(Action::Notice(Notice::SelectionChanged { port, from, to }));
            self.told_selection = to;
        }
    }

    /// All that the selection, of this port and of others, and the Mux machine depend on.
    pub(super) fn picture(&self) -> (receive::State, Information, bool, Selection) {
        let is_known = self.is_known_to_partner();
        (self.receive.state, self.partner, is_known, self.selection)
    }

    /// Times at which others than this port may have to act, after `settled`. They are not timers:
    /// a wait that is over does not begin again.
    pub(super) fn waits(&self, settled: Duration) -> impl Iterator<Item = Duration> {
        let waits = [self.mux.ready_at(), self.mux.patient_until(), self.restored_at];
        waits.into_iter().flatten().filter(move |end| *end > settled)
    }

    /// When the port has something to do next, if all rested at `settled`.
    pub(super) fn due(&self, settled: Duration) -> Option<Duration> {
        let to_transmit = self.ntt.then(|| self.sent.free());
        let timers = [
            self.receive.current_while,
            self.periodic.timer,
            self.actor_churn.timer,
            self.partner_churn.timer,
            self.markers.due(),
            to_transmit,
        ];
        timers.into_iter().flatten().chain(self.waits(settled)).min()
    }

    /// The Transmit machine: sends a PDU if there is need to and the limit permits, at most three in a fast period
    /// (6.4.16). Otherwise the need remains.
    pub(super) fn transmit(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.periodic.state == periodic::State::NoPeriodic {
            self.ntt = false;
        }
        if !self.ntt || !self.sent.take(now) {
            return;
        }
        self.ntt = false;
        self.counters.lacpdus_tx += 1;
        let pdu = Lacpdu {
            version: VERSION,
            actor: self.actor,
            partner: self.partner,
            // frames are taken in as they come
            collector_max_delay: 0,
        };
        let frame = pdu.frame(self.settings.address);
        actions.push(Action::Send { port: self.number(), frame });
    }
}

/// Permits at most `N` in any interval of one second, whose first end counts.
#[derive(Debug, Clone)]
pub(super) struct Limiter<const N: usize> {
    /// The last `N` times, the oldest at `next`.
    times: [Option<Duration>; N],
    next: usize,
}

impl<const N: usize> Limiter<N> {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) const fn new() -> Self {
        Self { times: [None; N], next: 0 }
    }

    /// When the next one is permitted; the time may be past.
    pub(super) fn free(&self) -> Duration {
        self.times[self.next].map_or(Duration::ZERO, |oldest| oldest.saturating_add(Self::INTERVAL))
    }

    /// Whether nothing was taken in the last second.
    pub(super) fn is_free(&self, now: Duration) -> bool {
        let is_past = |time: Duration| time.saturating_add(Self::INTERVAL) <= now;
        self.times.iter().flatten().all(|time| is_past(*time))
    }

    /// Takes one, if one is permitted at `now`.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let free = self.free() <= now;
        if free {
            self.times[self.next] = Some(now);
            self.next = (self.next + 1) % N;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_three_in_any_second() {
        let mut limiter = Limiter::<3>::new();
        let ms = Duration::from_millis;
        let taken: Vec<u64> =
            (0..3000).step_by(100).filter(|time| limiter.take(ms(*time))).collect();
        assert_eq!(taken, [0, 100, 200, 1000, 1100, 1200, 2000, 2100, 2200]);
        assert_eq!(limiter.free(), ms(3000));
    }
}
