//! A failover group: one port is active, the others stand by, as in HP LAN Monitor.
//!
//! All ports belong to one host and lie in one broadcast domain. In each poll interval each port with
//! carrier sends a poll, and every other port should hear it. So the host knows of each port whether
//! it *hears* (polls of others, or any other frame) and whether it *is heard* (by another port). Each
//! missing one costs a port a point. A direction is missing after `dead_count` intervals.
//!
//! - Lost carrier moves the group at once.
//! - The active port gives way to a port with more points.
//! - With equal points, of two ports where one does not hear the other, the polls do not say which
//!   one is broken. Then the active port stays if it still receives other frames than polls, and gives
//!   way if it does not.
//! - A port that failed is held down for a while, twice as long after each failure, and is used in
//!   that time only if the active port loses its carrier and no other port has one. So a flapping link
//!   does not flap the group.
//!
//! After a move the host's addresses are announced on the new port: at once, each second ten times,
//! and each 5 s for a minute (rapid ARP). Switches and neighbours thus learn the new place even if
//! frames are lost.

mod port;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::Machine;
use crate::balance::{MAX_PORTS, PortIndex};
use crate::control::arp::{self, Arp, Station};
use crate::control::lan_monitor::Poll;
use crate::control::nd::Advertisement;
use crate::frame::MacAddress;
use crate::frame::link::{TagControl, retagged};
use port::Port;

/// The settings of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The Ethernet address of the group, which its frames have as source.
    pub mac: MacAddress,
    /// The number of the group at this host.
    pub group: u32,
    /// Time between two polls of a port; at least [`MIN_INTERVAL`].
    pub interval: Duration,
    /// Intervals without a poll after which a direction is missing; at least 1.
    pub dead_count: u32,
    /// The port to return to when it works again.
    pub preferred: Option<PortIndex>,
    /// How long a port is held down after its first failure, and at most.
    pub hold_down: Duration,
    /// The longest hold-down. A port that did not fail for twice as long begins again.
    pub longest_hold_down: Duration,
}

/// The shortest poll interval.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

impl Config {
    const fn bounded(self) -> Self {
        let too_short = self.interval.as_nanos() < MIN_INTERVAL.as_nanos();
        let interval = if too_short { MIN_INTERVAL } else { self.interval };
        let dead_count = if self.dead_count == 0 { 1 } else { self.dead_count };
        Self { interval, dead_count, ..self }
    }

    /// The defaults of LAN Monitor: polls each 10 s, dead count 3, no return. The first hold-down is
    /// 2 s, the longest 5 min.
    #[must_use]
    pub const fn new(mac: MacAddress, group: u32) -> Self {
        Self {
            mac,
            group,
            interval: Duration::from_secs(10),
            dead_count: 3,
            preferred: None,
            hold_down: Duration::from_secs(2),
            longest_hold_down: Duration::from_secs(300),
        }
    }
}

/// An address of the group that is announced after a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Its VLAN; 0 for frames without a tag.
    pub vlan: u16,
}

/// What happens to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A port joins, or one that is there has changed. `mac` is its own address, not the group's.
    Join {
        /// Its number, less than [`MAX_PORTS`]. Others are ignored.
        port: PortIndex,
        /// Its own Ethernet address.
        mac: MacAddress,
        /// Whether it has carrier.
        carrier: bool,
    },
    /// A port leaves.
    Leave(PortIndex),
    /// Carrier came or went.
    Carrier {
        /// The port.
        port: PortIndex,
        /// Whether it has carrier now.
        up: bool,
    },
    /// A poll came.
    Polled {
        /// The port that received it.
        on: PortIndex,
        /// The poll.
        poll: Poll,
    },
    /// Another frame came. Once in a poll interval is enough.
    Heard(PortIndex),
    /// Other settings. The address and the number of the group stay as they are.
    Configure(Config),
    /// The addresses to announce after the next move.
    Addresses(Vec<Address>),
}

/// What a group wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this frame on this port; it has neither padding nor FCS.
    Send {
        /// The port.
        port: PortIndex,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Use this port alone from now on. Frames that wait on another may be moved to it.
    Activate {
        /// The port; `None` when no port has carrier.
        port: Option<PortIndex>,
        /// Why.
        reason: Reason,
    },
}

/// Why a group moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is the first port with carrier.
    First,
    /// The active port has lost its carrier.
    CarrierLost,
    /// The active port has left.
    PortLeft,
    /// The polls show that another port works better.
    PollsMissed,
    /// The preferred port works again.
    Return,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "the first port with carrier",
            Self::CarrierLost => "the active port lost its carrier",
            Self::PortLeft => "the active port left",
            Self::PollsMissed => "polls were missed at the active port",
            Self::Return => "the preferred port works again",
        })
    }
}

/// A failover group.
#[derive(Debug, Clone)]
pub struct Failover {
    config: Config,
    /// By their numbers.
    ports: Vec<Option<Port>>,
    active: Option<PortIndex>,
    /// The number of the next round of polls, and when it is due; `None` without a port.
    round: u32,
    next_round: Option<Duration>,
    addresses: Vec<Address>,
    announcements: Announcements,
    moves: u64,
}

impl Failover {
    /// A group without ports.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config: config.bounded(),
            ports: Vec::new(),
            active: None,
            round: 0,
            next_round: None,
            addresses: Vec::new(),
            announcements: Announcements::default(),
            moves: 0,
        }
    }

    /// The active port.
    #[must_use]
    pub fn active(&self) -> Option<PortIndex> {
        self.active
    }

    /// How often another port than before became active, the first one not counted.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Whether `port` hears others, and whether others hear it; `None` if it is not in the group.
    #[must_use]
    pub fn health(&self, port: PortIndex) -> Option<(bool, bool)> {
        self.port(port).map(|port| port.health(self.config.dead_count))
    }

    /// Until when `port` is held down; `None` if it is not.
    #[must_use]
    pub fn held_until(&self, now: Duration, port: PortIndex) -> Option<Duration> {
        self.port(port).map(|port| port.held_until).filter(|until| *until > now)
    }

    fn port(&self, port: PortIndex) -> Option<&Port> {
        self.ports.get(port.at())?.as_ref()
    }

    fn port_mut(&mut self, port: PortIndex) -> Option<&mut Port> {
        self.ports.get_mut(port.at())?.as_mut()
    }

    fn all(&self) -> impl Iterator<Item = (PortIndex, &Port)> + Clone {
        (0..).map(PortIndex).zip(&self.ports).filter_map(|(at, port)| Some((at, port.as_ref()?)))
    }

    fn join(&mut self, now: Duration, at: PortIndex, mac: MacAddress, carrier: bool) {
        if at.at() >= MAX_PORTS {
            return;
        }
        if self.ports.len() <= at.at() {
            self.ports.resize_with(at.at() + 1, || None);
        }
        match &mut self.ports[at.at()] {
            Some(port) => port.mac = mac,
            place => *place = Some(Port::new(mac, self.config.dead_count)),
        }
        self.next_round.get_or_insert(now);
        self.carrier(now, at, carrier);
    }

    fn carrier(&mut self, now: Duration, at: PortIndex, up: bool) {
        let Self { config, ports, .. } = self;
        let Some(Some(port)) = ports.get_mut(at.at()) else { return };
        if port.carrier && !up {
            port.fail(now, config);
        }
        if port.carrier != up {
            port.silence(config.dead_count);
            port.carrier = up;
        }
    }

    /// A poll of this group that another port has sent in the last rounds. The round may be late by
    /// the dead count, as the polls may.
    fn polled(&mut self, on: PortIndex, poll: &Poll) {
        let own = (poll.system, poll.group) == (self.config.mac, self.config.group);
        let age = self.round.wrapping_sub(poll.sequence);
        if !own || on == poll.port || !(1..=self.config.dead_count).contains(&age) {
            return;
        }
        let carries = |port: Option<&Port>| port.is_some_and(|port| port.carrier);
        if !carries(self.port(on)) || !carries(self.port(poll.port)) {
            return;
        }
        if let Some(port) = self.port_mut(on) {
            port.hears.came = true;
        }
        if let Some(port) = self.port_mut(poll.port) {
            port.is_heard.came = true;
        }
    }

    /// Which port should be active, and why, if it is another one.
    fn choice(&self, now: Duration) -> Option<(Option<PortIndex>, Reason)> {
        let dead = self.config.dead_count;
        let (preferred, active) = (self.config.preferred, self.active);
        let others = self.all().filter(|(at, port)| Some(*at) != active && port.carrier);
        // of equal ports the first
        let rank = |(at, port): &(PortIndex, &Port)| {
            (port.points(dead), Some(*at) == preferred, std::cmp::Reverse(*at))
        };
        let best = |free_only: bool| {
            let free = |port: &Port| !free_only || port.held_until <= now;
            others.clone().filter(|(_, port)| free(port)).max_by_key(rank)
        };
        let free = best(true);
        let any = free.or_else(|| best(false)).map(|(at, _)| at);
        let Some(at) = active else {
            return any.map(|at| (Some(at), Reason::First));
        };
        let Some(port) = self.port(at) else {
            return Some((any, Reason::PortLeft));
        };
        if !port.carrier {
            return Some((any, Reason::CarrierLost));
        }
        let (best_at, best) = free?;
        let (own, points) = (port.points(dead), best.points(dead));
        let unsure = own == points && own < Port::MAX_POINTS && !port.carries(dead);
        if points > own || unsure {
            return Some((Some(best_at), Reason::PollsMissed));
        }
        let returns = Some(best_at) == preferred && points == Port::MAX_POINTS;
        returns.then_some((Some(best_at), Reason::Return))
    }

    /// Moves to another port if one should be active.
    fn decide(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some((to, reason)) = self.choice(now).filter(|(to, _)| *to != self.active) else {
            return;
        };
        let before = self.active;
        if reason == Reason::PollsMissed {
            let Self { config, ports, .. } = self;
            let port = before.and_then(|before| ports.get_mut(before.at())?.as_mut());
            port.into_iter().for_each(|port| port.fail(now, config));
        }
        self.active = to;
        self.moves += u64::from(before.is_some() && to.is_some());
        actions.push(Action::Activate { port: to, reason });
        self.announcements.stop();
        if let Some(to) = to {
            // it has as long to be heard as any other
            self.port_mut(to).into_iter().for_each(Port::trust);
            self.announcements.begin(now);
            self.announce(now, actions);
        }
    }

    fn announce(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(port) = self.active else { return };
        if self.announcements.take(now) {
            for address in &self.addresses {
                let frame = announcement(self.config.mac, *address);
                actions.push(Action::Send { port, frame });
            }
        }
    }

    /// Counts the polls of the last round, and sends those of the next.
    fn begin_round(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let calm = self.config.longest_hold_down.saturating_mul(2);
        for port in self.ports.iter_mut().flatten() {
            port.count(now, calm);
        }
        self.decide(now, actions);
        let Config { mac: system, group, interval, .. } = self.config;
        let sequence = self.round;
        self.round = self.round.wrapping_add(1);
        for (port, state) in self.all().filter(|(_, port)| port.carrier) {
            let frame = Poll { system, group, port, sequence }.frame(state.mac);
            actions.push(Action::Send { port, frame });
        }
        self.next_round = Some(now + interval);
    }
}

impl Machine for Failover {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Duration, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Join { port, mac, carrier } => self.join(now, port, mac, carrier),
            Event::Leave(port) => {
                if let Some(port) = self.ports.get_mut(port.at()) {
                    *port = None;
                }
                if self.ports.iter().all(Option::is_none) {
                    self.next_round = None;
                }
            }
            Event::Carrier { port, up } => self.carrier(now, port, up),
            Event::Polled { on, poll } => return self.polled(on, &poll),
            Event::Heard(port) => {
                let port = self.port_mut(port).filter(|port| port.carrier);
                return port.into_iter().for_each(Port::hear_other);
            }
            Event::Configure(config) => {
                let Config { mac, group, .. } = self.config;
                self.config = Config { mac, group, ..config.bounded() };
                // a round that is shorter now ends sooner
                let soonest = now.saturating_add(self.config.interval);
                self.next_round = self.next_round.map(|next| next.min(soonest));
                return;
            }
            Event::Addresses(addresses) => {
                self.addresses = addresses;
                return;
            }
        }
        // the polls decide at the end of a round alone
        if self.active.and_then(|active| self.port(active)).is_none_or(|port| !port.carrier) {
            self.decide(now, actions);
        }
    }

    fn due(&self) -> Option<Duration> {
        [self.next_round, self.announcements.due()].into_iter().flatten().min()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.next_round.is_some_and(|next| next <= now) {
            self.begin_round(now, actions);
        }
        self.announce(now, actions);
    }
}

/// Announcements in short intervals, then in long ones.
const RAPID: u32 = 10;
const RAPID_INTERVAL: Duration = Duration::from_secs(1);
const SLOW: u32 = 12;
const SLOW_INTERVAL: Duration = Duration::from_secs(5);

/// When to announce the addresses of the group (rapid ARP): at a move, each second ten times, then each 5 s for a minute.
#[derive(Debug, Clone, Copy, Default)]
struct Announcements {
    made: u32,
    next: Option<Duration>,
}

impl Announcements {
    /// Begins again, with one at once.
    fn begin(&mut self, now: Duration) {
        *self = Self { made: 0, next: Some(now) };
    }

    fn stop(&mut self) {
        self.next = None;
    }

    fn due(&self) -> Option<Duration> {
        self.next
    }

    /// Whether one is due. It then counts as made.
    fn take(&mut self, now: Duration) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.made += 1;
        let interval = if self.made <= RAPID { RAPID_INTERVAL } else { SLOW_INTERVAL };
        self.next = (self.made <= RAPID + SLOW).then_some(now + interval);
        true
    }
}

/// The frame that tells all stations that `address` is at `mac`: an ARP announcement, or an
/// unsolicited neighbour advertisement.
fn announcement(mac: MacAddress, address: Address) -> Vec<u8> {
    let frame = match address.ip {
        IpAddr::V4(ip) => {
            let message = Arp::announcement(Station { hardware: mac, ip }).emit();
            crate::control::frame(MacAddress::BROADCAST, mac, arp::ETHER_TYPE, &message)
        }
        IpAddr::V6(ip) => Advertisement::unsolicited(ip, mac).frame(),
    };
    match address.vlan {
        0 => frame,
        vlan => retagged(&frame, Some(TagControl(0).with_vlan(vlan))).unwrap_or(frame),
    }
}
