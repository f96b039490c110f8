//! A session of Bidirectional Forwarding Detection in asynchronous mode (RFC 5880, 6), for one
//! member link of an aggregate (RFC 7130).
//!
//! Both ends send packets in an interval that they agree on. An end that misses as many as the
//! other's multiplier says declares the session down. With the default of 50 ms and 3 that is 150 ms
//! after the last packet. While a session is not up, packets go out once in a second.
//!
//! Echo, demand mode of this end, and authentication are not supported. Demand mode of the other
//! end is obeyed.

use std::num::NonZeroU32;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Machine;
use crate::control::bfd::{Bfd, Diagnostic, State, time};

/// The shortest interval of a session that is not up (RFC 5880, 6.8.3), µs.
const SLOW_US: u32 = 1_000_000;
/// Packets out of turn in one interval: changes of state and answers to polls. A faster partner is
/// answered in turn.
const MAX_URGENT: u8 = 8;

/// The numbers of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// This end's number of the session, unique at this end.
    pub discriminator: NonZeroU32,
    /// The intervals.
    pub intervals: Intervals,
    /// Packets in sequence that the other end may miss; not 0.
    pub detect_multiplier: u8,
}

/// The intervals that an end asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// The shortest in which it sends while the session is up, µs; at least 1 ms is meant.
    pub desired_min_tx_us: u32,
    /// The shortest in which it can receive, µs.
    pub required_min_rx_us: u32,
}

impl Intervals {
    /// The shortest interval that a session sends in, µs.
    pub const MIN_US: u32 = 1000;

    /// The same both ways.
    #[must_use]
    pub const fn both(us: u32) -> Self {
        Self { desired_min_tx_us: us, required_min_rx_us: us }
    }

    fn clamped(self) -> Self {
        let least = |us: u32| us.max(Self::MIN_US);
        Self {
            desired_min_tx_us: least(self.desired_min_tx_us),
            required_min_rx_us: least(self.required_min_rx_us),
        }
    }
}

impl Config {
    /// Detection within 150 ms: packets each 50 ms, of which three may be missed.
    #[must_use]
    pub const fn new(discriminator: NonZeroU32) -> Self {
        Self { discriminator, intervals: Intervals::both(50_000), detect_multiplier: 3 }
    }
}

/// What happens to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A packet came over the link.
    Received(Bfd),
    /// The owner switches the session on. A new session is on.
    Enable,
    /// The owner switches it off, and the other end is told so.
    Disable,
    /// The link has lost its carrier, so nothing comes any more.
    PathDown,
    /// The owner itself was late by this time, and took no packets meanwhile. That is no silence of
    /// the other end.
    Delayed(Duration),
    /// The owner wants other intervals. Those of a session that is up are agreed on by a poll.
    Set(Intervals),
    /// The other end may miss as many packets as this. The next packet tells it (RFC 5880, 6.8.12).
    SetMultiplier(u8),
}

/// What a session wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send this packet over the link.
    Send(Bfd),
    /// The session has another state. The link forwards only while it is [`State::Up`].
    Changed {
        /// The state before.
        from: State,
        /// The state now.
        to: State,
        /// Why.
        diagnostic: Diagnostic,
    },
}

/// One end of a session.
#[derive(Debug, Clone)]
pub struct Session {
    config: Config,
    random: ChaCha8Rng,
    state: State,
    diagnostic: Diagnostic,
    /// The other end, as its last packet told it.
    remote: Remote,
    /// The intervals that count. Those of a session that is up follow the wanted ones when the
    /// other end has answered the poll, where they would otherwise break its detection.
    used: Intervals,
    /// The poll that is under way: at most one (RFC 5880, 6.5).
    poll: Option<Poll>,
    /// When a packet was last sent in turn, and when the next one is due.
    sent: Option<Duration>,
    next: Option<Duration>,
    /// Packets out of turn, and since when they are counted.
    urgent: u8,
    urgent_since: Duration,
    /// When the other end counts as lost.
    deadline: Option<Duration>,
}

/// A poll. All of its packets tell the same intervals, so that its answer is known to be for these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Poll {
    intervals: Intervals,
    /// A packet has told them.
    is_sent: bool,
}

impl Poll {
    const fn of(intervals: Intervals) -> Self {
        Self { intervals, is_sent: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remote {
    discriminator: u32,
    state: State,
    min_rx_us: u32,
    min_tx_us: u32,
    multiplier: u8,
    demand: bool,
}

impl Remote {
    /// RFC 5880, 6.8.1.
    const UNKNOWN: Self = Self {
        discriminator: 0,
        state: State::Down,
        min_rx_us: 1,
        min_tx_us: 0,
        multiplier: 0,
        demand: false,
    };
}

impl Session {
    /// A session that is down and sends its first packet at the first poll. `seed` is a random
    /// number, different for each session: the intervals between packets vary by it, so that
    /// sessions do not fall into step.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        let config = Config {
            intervals: config.intervals.clamped(),
            detect_multiplier: config.detect_multiplier.max(1),
            ..config
        };
        Self {
            config,
            random: ChaCha8Rng::seed_from_u64(seed),
            state: State::Down,
            diagnostic: Diagnostic::None,
            remote: Remote::UNKNOWN,
            used: config.intervals,
            poll: None,
            sent: None,
            next: Some(Duration::ZERO),
            urgent: 0,
            urgent_since: Duration::ZERO,
            deadline: None,
        }
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it is in its state.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// The other end's number of the session; `None` while it is not heard.
    #[must_use]
    pub fn remote(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.remote.discriminator)
    }

    /// Whether the other end says that it has switched the session off. That tells nothing of the link
    /// (RFC 5880, 6.2).
    #[must_use]
    pub fn is_switched_off(&self) -> bool {
        self.remote.state == State::AdminDown
    }

    /// The interval in which it sends, before it is varied (RFC 5880, 6.8.2).
    #[must_use]
    pub fn interval(&self) -> Duration {
        time(self.desired_min_tx_us().max(self.remote.min_rx_us))
    }

    /// How long after the last packet the session goes down (RFC 5880, 6.8.4); `None` while the
    /// other end is not heard.
    #[must_use]
    pub fn detection_time(&self) -> Option<Duration> {
        let Remote { multiplier, min_tx_us, .. } = self.remote;
        let interval = time(self.used.required_min_rx_us.max(min_tx_us));
        (multiplier > 0).then(|| interval * multiplier.into())
    }

    /// RFC 5880, 6.8.3: at least a second while not up.
    fn desired_min_tx_us(&self) -> u32 {
        let us = self.used.desired_min_tx_us;
        if self.state == State::Up { us } else { us.max(SLOW_US) }
    }

    /// The packet that tells the present state. It also tells intervals that only a poll will make
    /// used ones.
    fn packet(&self) -> Bfd {
        let told = self.poll.map_or(self.config.intervals, |poll| poll.intervals);
        let desired = told.desired_min_tx_us;
        Bfd {
            diagnostic: self.diagnostic,
            state: self.state,
            poll: false,
            is_final: false,
            control_plane_independent: false,
            demand: false,
            detect_multiplier: self.config.detect_multiplier,
            own: self.config.discriminator.get(),
            other: self.remote.discriminator,
            desired_min_tx_us: if self.state == State::Up { desired } else { desired.max(SLOW_US) },
            required_min_rx_us: told.required_min_rx_us,
            required_min_echo_rx_us: 0,
        }
    }

    /// The same, which asks for an answer while a poll is under way.
    fn polling_packet(&self) -> Bfd {
        Bfd { poll: self.poll.is_some(), ..self.packet() }
    }

    fn send(&mut self, packet: Bfd, actions: &mut Vec<Action>) {
        if let Some(poll) = self.poll.as_mut().filter(|_| packet.poll) {
            poll.is_sent = true;
        }
        actions.push(Action::Send(packet));
    }

    /// Whether packets go out in turn (RFC 5880, 6.8.7).
    fn is_periodic(&self) -> bool {
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        self.remote.min_rx_us > 0 && (self.poll.is_some() || !(self.remote.demand && both_up))
    }

    /// Sends a packet in turn and plans the next.
    fn send_in_turn(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let packet = self.polling_packet();
        self.send(packet, actions);
        self.sent = Some(now);
        self.next = Some(now + self.varied());
    }

    /// Sends a packet out of turn, unless there were too many of them.
    fn send_urgent(&mut self, now: Duration, packet: Bfd, actions: &mut Vec<Action>) {
        if now >= self.urgent_since + self.interval() {
            (self.urgent, self.urgent_since) = (0, now);
        }
        if self.urgent < MAX_URGENT {
            self.urgent += 1;
            self.send(packet, actions);
        }
    }

    /// The interval less a random part: up to a quarter, and at least a tenth if one missed packet
    /// already takes the session down (RFC 5880, 6.8.7).
    fn varied(&mut self) -> Duration {
        let (least, most) = if self.config.detect_multiplier == 1 { (100, 250) } else { (0, 250) };
        let less = least + self.random.next_u32() % (most - least + 1);
        self.interval() * (1000 - less) / 1000
    }

    /// Plans the next packet in turn again, after the interval has changed.
    fn plan(&mut self, now: Duration) {
        let varied = self.varied();
        self.next = Some(self.sent.map_or(now, |sent| (sent + varied).max(now)));
    }

    /// Takes another state and tells it, to the owner and to the other end.
    fn change(
        &mut self,
        now: Duration,
        to: State,
        diagnostic: Diagnostic,
        actions: &mut Vec<Action>,
    ) {
        let from = self.state;
        (self.state, self.diagnostic) = (to, diagnostic);
        actions.push(Action::Changed { from, to, diagnostic });
        self.used = self.config.intervals;
        // a second becomes the wanted interval, which the other end is to know
        self.poll = (to == State::Up).then_some(Poll::of(self.config.intervals));
        self.plan(now);
        if self.remote.min_rx_us > 0 {
            let packet = self.polling_packet();
            self.send_urgent(now, packet, actions);
        }
    }

    /// RFC 5880, 6.8.6, behind the checks of the format.
    fn receive(&mut self, now: Duration, packet: &Bfd, actions: &mut Vec<Action>) {
        if packet.other != 0 && packet.other != self.config.discriminator.get() {
            return;
        }
        let interval = self.interval();
        self.remote = Remote {
            discriminator: packet.own,
            state: packet.state,
            min_rx_us: packet.required_min_rx_us,
            min_tx_us: packet.desired_min_tx_us,
            multiplier: packet.detect_multiplier,
            demand: packet.demand,
        };
        if packet.is_final {
            self.take_final();
        }
        self.deadline = self.detection_time().map(|time| now + time);
        if self.interval() != interval {
            self.plan(now);
        }
        let neighbor_down = Diagnostic::NeighborDown;
        match (self.state, packet.state) {
            (State::AdminDown, _) => return,
            (State::Init | State::Up, State::AdminDown) => {
                self.change(now, State::Down, neighbor_down, actions);
            }
            (State::Down, State::Down) => {
                self.change(now, State::Init, self.diagnostic, actions);
            }
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.change(now, State::Up, Diagnostic::None, actions);
            }
            (State::Up, State::Down) => self.change(now, State::Down, neighbor_down, actions),
            (State::Down, State::AdminDown | State::Up)
            | (State::Init, State::Down)
            | (State::Up, State::Init | State::Up) => {}
        }
        if packet.poll {
            let answer = Bfd { is_final: true, ..self.packet() };
            self.send_urgent(now, answer, actions);
        }
    }

    fn lose(&mut self, now: Duration, diagnostic: Diagnostic, actions: &mut Vec<Action>) {
        self.deadline = None;
        self.remote = Remote::UNKNOWN;
        if matches!(self.state, State::Init | State::Up) {
            self.change(now, State::Down, diagnostic, actions);
        } else {
            self.plan(now);
        }
    }

    /// The other end has the intervals of the poll (RFC 5880, 6.8.3), and not those that were set since its packets
    /// went out: they are told by a poll of their own.
    fn take_final(&mut self) {
        let Some(Poll { intervals, .. }) = self.poll.take_if(|poll| poll.is_sent) else { return };
        let wanted = self.config.intervals;
        self.used = Intervals {
            desired_min_tx_us: intervals.desired_min_tx_us.min(wanted.desired_min_tx_us),
            required_min_rx_us: intervals.required_min_rx_us.max(wanted.required_min_rx_us),
        };
        self.poll = (intervals != wanted).then_some(Poll::of(wanted));
    }

    /// RFC 5880, 6.8.3: an interval that grows, and a requirement that shrinks, wait for the end of
    /// the poll.
    fn set(&mut self, now: Duration, intervals: Intervals) {
        let wanted = intervals.clamped();
        if wanted == self.config.intervals {
            return;
        }
        self.config.intervals = wanted;
        let up = self.state == State::Up;
        if !up || wanted.desired_min_tx_us < self.used.desired_min_tx_us {
            self.used.desired_min_tx_us = wanted.desired_min_tx_us;
        }
        if !up || wanted.required_min_rx_us > self.used.required_min_rx_us {
            self.used.required_min_rx_us = wanted.required_min_rx_us;
        }
        self.poll = match self.poll {
            Some(poll) if up && poll.is_sent => Some(poll),
            _ => up.then_some(Poll::of(wanted)),
        };
        self.plan(now);
    }
}

impl Machine for Session {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Duration, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Received(packet) => self.receive(now, &packet, actions),
            Event::Enable if self.state == State::AdminDown => {
                self.change(now, State::Down, Diagnostic::None, actions);
            }
            Event::Disable if self.state != State::AdminDown => {
                let why = Diagnostic::AdministrativelyDown;
                self.change(now, State::AdminDown, why, actions);
            }
            Event::PathDown => self.lose(now, Diagnostic::PathDown, actions),
            Event::Delayed(time) => {
                self.deadline = self.deadline.map(|deadline| deadline.saturating_add(time));
            }
            Event::Set(intervals) => self.set(now, intervals),
            Event::SetMultiplier(multiplier) => self.config.detect_multiplier = multiplier.max(1),
            Event::Enable | Event::Disable => {}
        }
    }

    fn due(&self) -> Option<Duration> {
        let next = self.next.filter(|_| self.is_periodic());
        [next, self.deadline].into_iter().flatten().min()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.lose(now, Diagnostic::DetectionTimeExpired, actions);
        }
        if self.is_periodic() && self.next.is_some_and(|next| next <= now) {
            self.send_in_turn(now, actions);
        }
    }
}
