//! BFD on each link of an aggregate (RFC 7130): a session for each port, at the host and at the
//! switch.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use linkrate_model::AggregateKnobs;
use linkrate_wire::control::Bfd;
use linkrate_wire::control::bfd::{LOWEST_SOURCE_PORT, State};
use linkrate_wire::frame::{IpEnds, MacAddress};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::bfd::{Action, Config, Event, Intervals, Session};

use super::{GRACE, Message, Role, number, port_address};

/// How often packets go out, and how many may be missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    interval_ms: u32,
    multiplier: u8,
}

impl Timing {
    pub(super) fn of(knobs: &AggregateKnobs) -> Self {
        let multiplier = u8::try_from(knobs.bfd_multiplier).unwrap_or(u8::MAX);
        Self { interval_ms: knobs.bfd_interval, multiplier }
    }

    /// The same interval both ways.
    fn intervals(self) -> Intervals {
        Intervals::both(self.interval_ms.saturating_mul(1000))
    }

    /// The time that a poll may be late before it counts as the delay of this end: a fifth of the
    /// interval.
    fn late(self) -> Duration {
        Duration::from_millis(self.interval_ms.into()) / 5
    }
}

/// Addresses of the packets. An aggregate need not have any, so the ends have addresses that no router
/// passes on (RFC 3927).
const HOST: Ipv4Addr = Ipv4Addr::new(169, 254, 71, 1);
const SWITCH: Ipv4Addr = Ipv4Addr::new(169, 254, 71, 2);

/// The session of a port.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) session: Session,
    carrier: bool,
    /// It was up since the link came, and the other end has not switched it off.
    was_up: bool,
    /// When it went down.
    lost: Option<Duration>,
    /// Packets sent and received, and times that it went down.
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) losses: u64,
}

/// The sessions of one end.
#[derive(Debug)]
pub(super) struct Detection {
    role: Role,
    address: MacAddress,
    timing: Timing,
    /// By port.
    watches: Vec<Option<Watch>>,
}

impl Detection {
    pub(super) fn new(role: Role, address: MacAddress, timing: Timing) -> Self {
        Self { role, address, timing, watches: Vec::new() }
    }

    /// Lets the sessions continue with another timing, without a failure.
    pub(super) fn set_timing(
        &mut self,
        now: Duration,
        timing: Timing,
        messages: &mut Vec<Message>,
    ) {
        if timing == self.timing {
            return;
        }
        self.timing = timing;
        for at in 0..self.watches.len() {
            self.handle(now, at, Event::SetMultiplier(timing.multiplier), messages);
            self.handle(now, at, Event::Set(timing.intervals()), messages);
        }
    }

    pub(super) fn watch(&self, at: usize) -> Option<&Watch> {
        self.watches.get(at)?.as_ref()
    }

    pub(super) fn is_up(&self, at: usize) -> bool {
        self.watch(at).is_some_and(|watch| watch.session.state() == State::Up)
    }

    /// Whether the session of a port was up and is not any more.
    pub(super) fn has_failed(&self, at: usize) -> bool {
        self.watch(at).is_some_and(|watch| watch.was_up) && !self.is_up(at)
    }

    /// The session of a port counts as one that was never up.
    pub(super) fn forget_failure(&mut self, at: usize) {
        if let Some(Some(watch)) = self.watches.get_mut(at) {
            watch.was_up = false;
        }
    }

    /// Whether the other end may send on a port: it is heard, and its session may be up before this
    /// one is; or this one went down a moment ago, and the other end does not know it yet.
    pub(super) fn hears(&self, at: usize, now: Duration) -> bool {
        self.watch(at).is_some_and(|watch| {
            matches!(watch.session.state(), State::Init | State::Up)
                || watch.lost.is_some_and(|lost| now < lost + GRACE)
        })
    }

    /// Ends all sessions, and tells the other end.
    pub(super) fn end(&mut self, now: Duration, messages: &mut Vec<Message>) {
        for at in 0..self.watches.len() {
            self.handle(now, at, Event::Disable, messages);
        }
        self.watches.clear();
    }

    /// The link of a port came or went.
    pub(super) fn set_carrier(
        &mut self,
        now: Duration,
        at: usize,
        up: bool,
        messages: &mut Vec<Message>,
    ) {
        if self.watches.len() <= at {
            self.watches.resize_with(at + 1, || None);
        }
        let begun = self.begin(at);
        let watch = self.watches[at].get_or_insert(begun);
        watch.carrier = up;
        if !up {
            self.handle(now, at, Event::PathDown, messages);
            if let Some(Some(watch)) = self.watches.get_mut(at) {
                // a link without carrier is down by itself
                watch.was_up = false;
            }
        }
    }

    pub(super) fn remove(&mut self, now: Duration, at: usize, messages: &mut Vec<Message>) {
        self.handle(now, at, Event::Disable, messages);
        if let Some(place) = self.watches.get_mut(at) {
            *place = None;
        }
    }

    /// Takes a packet. Says whether the session changed its state.
    pub(super) fn receive(
        &mut self,
        now: Duration,
        at: usize,
        packet: Bfd,
        messages: &mut Vec<Message>,
    ) -> bool {
        let Some(Some(watch)) = self.watches.get_mut(at) else { return false };
        watch.received += 1;
        let before = watch.session.state();
        self.handle(now, at, Event::Received(packet), messages);
        self.watch(at).is_some_and(|watch| watch.session.state() != before)
    }

    pub(super) fn due(&self) -> Option<Duration> {
        let ends = |watch: &Watch| watch.lost.map(|lost| lost + GRACE);
        let sessions = self.watches.iter().flatten().filter(|watch| watch.carrier);
        let due = sessions.clone().filter_map(|watch| watch.session.due());
        due.chain(self.watches.iter().flatten().filter_map(ends)).min()
    }

    /// Does the work that is due. Says whether a session changed its state, or the time after its end
    /// is over.
    pub(super) fn poll(&mut self, now: Duration, messages: &mut Vec<Message>) -> bool {
        let mut changed = false;
        for at in 0..self.watches.len() {
            let Some(Some(watch)) = self.watches.get_mut(at) else { continue };
            changed |= watch.lost.take_if(|lost| *lost + GRACE <= now).is_some();
            let Some(due) = watch.session.due().filter(|due| *due <= now) else { continue };
            if !watch.carrier {
                continue;
            }
            let before = watch.session.state();
            let late = now - due;
            if late > self.timing.late() {
                // the thread did not run: that is no silence of the other end
                self.handle(now, at, Event::Delayed(late), messages);
            }
            let Some(Some(watch)) = self.watches.get_mut(at) else { continue };
            let mut actions = Vec::new();
            watch.session.poll(now, &mut actions);
            self.carry_out(now, at, actions, messages);
            changed |= self.watch(at).is_some_and(|watch| watch.session.state() != before);
        }
        changed
    }

    fn begin(&self, at: usize) -> Watch {
        let number = u32::from(number(at));
        let config = Config {
            discriminator: NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN),
            intervals: self.timing.intervals(),
            detect_multiplier: self.timing.multiplier,
        };
        let seed = self.address.0.iter().fold(number.into(), |seed: u64, byte| {
            seed.wrapping_mul(257).wrapping_add((*byte).into())
        });
        Watch {
            session: Session::new(config, seed),
            carrier: true,
            was_up: false,
            lost: None,
            sent: 0,
            received: 0,
            losses: 0,
        }
    }

    fn handle(&mut self, now: Duration, at: usize, event: Event, messages: &mut Vec<Message>) {
        let Some(Some(watch)) = self.watches.get_mut(at) else { return };
        let mut actions = Vec::new();
        watch.session.handle(now, event, &mut actions);
        self.carry_out(now, at, actions, messages);
    }

    fn carry_out(
        &mut self,
        now: Duration,
        at: usize,
        actions: Vec<Action>,
        messages: &mut Vec<Message>,
    ) {
        let source = port_address(self.address, at);
        let ip = match self.role {
            Role::Host => IpEnds::V4 { source: HOST, destination: SWITCH },
            Role::Switch => IpEnds::V4 { source: SWITCH, destination: HOST },
        };
        let Some(Some(watch)) = self.watches.get_mut(at) else { return };
        for action in actions {
            match action {
                Action::Send(packet) if watch.carrier => {
                    watch.sent += 1;
                    let source_port = LOWEST_SOURCE_PORT + number(at) % 0x4000;
                    messages.push((at, packet.frame(source, ip, source_port)));
                }
                Action::Changed { to: State::Up, .. } => {
                    (watch.was_up, watch.lost) = (true, None);
                }
                Action::Changed { from: State::Up, .. } => {
                    watch.lost = Some(now);
                    watch.losses += 1;
                    // the link of a partner that switched its session off has not failed
                    watch.was_up &= !watch.session.is_switched_off();
                }
                Action::Send(_) | Action::Changed { .. } => {}
            }
        }
    }
}
