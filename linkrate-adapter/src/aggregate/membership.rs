//! Which ports of an aggregate carry traffic, as one of its two ends decides: the host, or the switch.
//!
//! Without a protocol these are the ports whose link is up. With LACP they are the ports that both
//! ends have agreed on. With failover it is one port, which the host chooses alone. BFD comes on top:
//! a link whose session is not up carries nothing, and one whose session went down counts as a link
//! that is down. The ports have numbers from 0.

mod detection;
mod failover;
mod status;

use std::time::Duration;

use linkrate_model::BitRate;
use linkrate_model::knobs::{AggregateKnobs, AggregateMode, Balance, LacpRate};
use linkrate_wire::balance::{Balancer, PortIndex};
use linkrate_wire::control::Control;
use linkrate_wire::control::lacp::{Lacpdu, SystemId};
use linkrate_wire::control::slow::{Slow, Subtype};
use linkrate_wire::frame::{Headers, MacAddress};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lacp::{Action, Event, GroupSettings, Link, PortSettings, System};
pub(crate) use linkrate_wire::machine::lan_monitor::Address;

use detection::{Detection, Timing};
use failover::Group as FailoverGroup;
pub(crate) use status::{BfdState, FailoverState, PortState};

use super::decisions::DecisionLog;

/// How long a link that failed must be up before its port carries traffic again, while others do: a
/// link that flaps must not make the aggregate flap.
const WAIT_TO_RESTORE: Duration = Duration::from_secs(1);

/// How long frames are still taken from a port that was told to leave: until the other end knows it,
/// and what it has sent before has come. Nothing is lost then.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// What is added to the time for which frames wait: an interrupt and the turns of the threads.
const MARGIN_PS: u64 = 2_000_000_000;

/// The administrative key of the ports: an end has one aggregate.
const KEY: u16 = 1;

/// Priorities of a system and of its ports in LACP, if nobody set another (802.1AX-2020, 6.3.4).
const PRIORITY: u16 = 0x8000;
/// The priority of the preferred port.
const PREFERRED: u16 = 0x4000;

/// A set of one port.
pub(crate) fn bit(number: usize) -> u64 {
    u32::try_from(number).ok().and_then(|number| 1_u64.checked_shl(number)).unwrap_or(0)
}

/// A balancer for the most ports. Those of several queues begin at different ports.
pub(crate) fn fresh_balancer(balance: Balance, quiet_ps: u64, queue: usize) -> Balancer {
    Balancer::of_most(balance, quiet_ps).begun_at(queue)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The host, which may limit the active ports, and which alone has a failover group.
    Host,
    Switch,
}

/// A port, as its owner describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PortLink {
    pub(crate) up: bool,
    pub(crate) rate: Option<BitRate>,
}

/// A port.
#[derive(Debug, Clone, Copy)]
struct Watched {
    link: PortLink,
    /// The link is up, and its BFD session if there is one.
    usable: bool,
    /// It was usable before and then not, or came without a link.
    failed: bool,
    /// When it may carry traffic again, after a failure. LACP and failover have times of their own.
    restored_at: Option<Duration>,
    /// The link as the protocol of the mode was told last.
    told: Option<PortLink>,
}

/// The decisions of one end.
#[derive(Debug)]
pub(crate) struct Membership {
    role: Role,
    knobs: AggregateKnobs,
    lacp: System,
    failover: Option<FailoverGroup>,
    /// Moves of failover groups before this one.
    moves_before: u64,
    detection: Detection,
    address: MacAddress,
    /// The addresses of the host that are announced after a move.
    addresses: Vec<Address>,
    /// By number; `None` is no port.
    ports: Vec<Option<Watched>>,
    /// Ports that were told to leave, and until when frames are taken from them.
    leaving: Vec<(usize, Duration)>,
    collecting: Vec<usize>,
    distributing: Vec<usize>,
    /// Grows when one of the two changes.
    changes: u64,
    due: Option<Duration>,
    /// Where each change is written down with its time.
    log: DecisionLog,
    /// Markers that came to their end.
    ended_markers: Vec<u32>,
}

/// A frame to be sent by a port.
pub(crate) type Message = (usize, Vec<u8>);

fn number(port: usize) -> u16 {
    u16::try_from(port + 1).unwrap_or(u16::MAX)
}

fn port(number: u16) -> usize {
    usize::from(number.saturating_sub(1))
}

impl Membership {
    /// The decisions of the end with this address.
    pub(crate) fn new(role: Role, address: MacAddress, knobs: AggregateKnobs) -> Self {
        let lacp = System::new(SystemId { priority: PRIORITY, address });
        let mut membership = Self {
            role,
            detection: Detection::new(role, address, Timing::of(&knobs)),
            knobs,
            lacp,
            failover: None,
            moves_before: 0,
            address,
            addresses: Vec::new(),
            ports: Vec::new(),
            leaving: Vec::new(),
            collecting: Vec::new(),
            distributing: Vec::new(),
            changes: 1,
            due: None,
            log: DecisionLog::default(),
            ended_markers: Vec::new(),
        };
        membership.begin(Duration::ZERO, &mut Vec::new());
        membership
    }

    /// Writes its decisions to `log` from now on.
    pub(crate) fn log_to(&mut self, log: DecisionLog) {
        self.log = log;
    }

    fn speaks_lacp(&self) -> bool {
        self.knobs.mode == AggregateMode::Lacp
    }

    /// Takes the frames from the actions of LACP, and the markers that ended. The sets of ports are read
    /// from the group.
    fn carry_out(&mut self, actions: Vec<Action>, messages: &mut Vec<Message>) {
        for action in actions {
            match action {
                Action::Send { port: to, frame } => messages.push((port(to), frame)),
                Action::Marker { transaction, .. } => self.ended_markers.push(transaction),
                Action::Collecting { .. } | Action::Distributing { .. } | Action::Notice(_) => {}
            }
        }
    }

    /// Whether flows leave a port only when the partner has answered a marker.
    pub(crate) fn asks_partner(&self) -> bool {
        self.knobs.marker && self.speaks_lacp()
    }

    /// Asks the partner whether all frames have arrived that left by a port. The request ends in any
    /// case, also without an answer.
    pub(crate) fn request_marker(
        &mut self,
        now: Duration,
        at: usize,
        transaction: u32,
        messages: &mut Vec<Message>,
    ) {
        if !self.speaks_lacp() {
            return self.ended_markers.push(transaction);
        }
        let mut actions = Vec::new();
        let request = Event::RequestMarker { port: number(at), transaction, patience: GRACE };
        self.lacp.handle(now, request, &mut actions);
        self.carry_out(actions, messages);
        self.plan();
    }

    /// Takes the markers that were answered, or will not be.
    pub(crate) fn take_ended_markers(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended_markers)
    }

    pub(crate) fn knobs(&self) -> &AggregateKnobs {
        &self.knobs
    }

    pub(crate) fn collects(&self, port: usize) -> bool {
        self.collecting.contains(&port)
    }

    /// Ports that frames are taken from, ascending.
    pub(crate) fn collecting(&self) -> &[usize] {
        &self.collecting
    }

    /// Ports that frames go to, ascending.
    pub(crate) fn distributing(&self) -> &[usize] {
        &self.distributing
    }

    /// Ports that no frame to a group of stations is taken from: each port of a failover group gets a
    /// copy of its own.
    pub(crate) fn copies(&self) -> Vec<usize> {
        match self.knobs.mode {
            AggregateMode::Failover => {
                let others = (0..self.ports.len()).filter(|at| !self.distributing.contains(at));
                others.collect()
            }
            AggregateMode::Manual | AggregateMode::Lacp => Vec::new(),
        }
    }

    /// The same for a balancer.
    pub(crate) fn active(&self) -> Vec<PortIndex> {
        let places = self.distributing.iter().filter_map(|port| u8::try_from(*port).ok());
        places.map(PortIndex).collect()
    }

    /// How long frames of `bytes` octets together wait before the slowest port at most, and a little
    /// more. A flow that was silent for longer can change its port without reordering.
    pub(crate) fn quiet_ps(&self, bytes: u64) -> u64 {
        let rates = self.ports.iter().flatten().filter_map(|port| port.link.rate);
        let slowest = rates.map(|rate| rate.0).reduce(f64::min);
        MARGIN_PS + slowest.map_or(0, |rate| (bytes as f64 * 8e12 / rate) as u64)
    }

    /// Grows when a port begins or ends to carry traffic.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// How often a failover group moved to another port.
    pub(crate) fn moves(&self) -> u64 {
        self.moves_before + self.failover.as_ref().map_or(0, FailoverGroup::moves)
    }

    pub(crate) fn set_knobs(
        &mut self,
        now: Duration,
        knobs: AggregateKnobs,
        messages: &mut Vec<Message>,
    ) {
        let other_mode = knobs.mode != self.knobs.mode;
        let other_bfd = knobs.bfd != self.knobs.bfd;
        self.knobs = knobs;
        self.detection.set_timing(now, Timing::of(&self.knobs), messages);
        if other_bfd {
            self.begin_detection(now, messages);
        }
        if other_mode {
            self.begin(now, messages);
        } else if self.speaks_lacp() {
            let mut actions = Vec::new();
            self.set_system(now, &mut actions);
            for at in (0..self.ports.len()).filter(|at| self.ports[*at].is_some()) {
                self.lacp.handle(now, self.settings(at), &mut actions);
            }
            self.carry_out(actions, messages);
        } else if let Some(failover) = &mut self.failover {
            failover.set_knobs(now, &self.knobs, messages);
        }
        self.settle(now, messages);
    }

    /// Sets the addresses that a failover group announces after a move.
    pub(crate) fn set_addresses(&mut self, now: Duration, addresses: Vec<Address>) {
        if let Some(failover) = &mut self.failover {
            failover.set_addresses(now, addresses.clone());
        }
        self.addresses = addresses;
    }

    /// Begins the protocol of the mode again.
    fn begin(&mut self, now: Duration, messages: &mut Vec<Message>) {
        self.lacp = System::new(SystemId { priority: PRIORITY, address: self.address });
        self.moves_before = self.moves();
        self.failover = None;
        self.leaving.clear();
        for port in self.ports.iter_mut().flatten() {
            (port.restored_at, port.failed, port.told) = (None, false, None);
        }
        match self.knobs.mode {
            AggregateMode::Manual => {}
            AggregateMode::Lacp => {
                let mut actions = Vec::new();
                self.set_system(now, &mut actions);
                self.carry_out(actions, messages);
            }
            AggregateMode::Failover if self.role == Role::Host => {
                let mut group = FailoverGroup::new(self.address, &self.knobs);
                group.set_addresses(now, self.addresses.clone());
                self.failover = Some(group);
            }
            // the ports of a switch are single ports then
            AggregateMode::Failover => {}
        }
    }

    /// Lets a failover group forget all failures, and begin with the first port that is usable, or with
    /// the one that it would return to. Nothing happens in other modes.
    pub(crate) fn begin_anew(&mut self, now: Duration, messages: &mut Vec<Message>) {
        if self.failover.is_none() {
            return;
        }
        self.begin(now, messages);
        if self.knobs.revert {
            // the first port that the group knows is the active one
            self.observe(now, self.knobs.preferred_port as usize, messages);
        }
        self.settle(now, messages);
    }

    /// Begins or ends BFD on all ports. Sessions that come up now are no recovery.
    fn begin_detection(&mut self, now: Duration, messages: &mut Vec<Message>) {
        self.detection.end(now, messages);
        for (at, port) in self.ports.iter_mut().enumerate() {
            let Some(port) = port else { continue };
            (port.usable, port.failed, port.restored_at) = (false, !port.link.up, None);
            if self.knobs.bfd {
                self.detection.set_carrier(now, at, port.link.up, messages);
            }
        }
    }

    /// Sets the priority of the system, and how many of its ports are active at most. Both are the
    /// host's to choose.
    fn set_system(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let (priority, max_active) = match (self.role, self.knobs.max_active) {
            (Role::Host, 0) => (self.knobs.system_priority, u16::MAX),
            (Role::Host, most) => (self.knobs.system_priority, most as u16),
            (Role::Switch, _) => (PRIORITY, u16::MAX),
        };
        if self.lacp.id().priority != priority {
            self.lacp.handle(now, Event::SetSystemPriority { priority }, actions);
        }
        let fallback = self.knobs.lacp_fallback;
        let settings = GroupSettings { wait_to_restore: WAIT_TO_RESTORE, max_active, fallback };
        if self.lacp.group(KEY).is_none_or(|group| group.settings != settings) {
            self.lacp.handle(now, Event::SetGroup { key: KEY, settings }, actions);
        }
    }

    /// A port came, or its link has changed.
    pub(crate) fn set_link(
        &mut self,
        now: Duration,
        at: usize,
        link: PortLink,
        messages: &mut Vec<Message>,
    ) {
        if self.ports.len() <= at {
            self.ports.resize(at + 1, None);
        }
        self.leaving.retain(|(port, _)| *port != at);
        match &mut self.ports[at] {
            Some(port) => port.link = link,
            place => {
                let (usable, failed) = (false, !link.up);
                *place = Some(Watched { link, usable, failed, restored_at: None, told: None });
            }
        }
        if self.knobs.bfd {
            self.detection.set_carrier(now, at, link.up, messages);
        }
        self.settle(now, messages);
    }

    pub(crate) fn remove(&mut self, now: Duration, at: usize, messages: &mut Vec<Message>) {
        let Some(Some(_)) = self.ports.get_mut(at).map(Option::take) else { return };
        if self.collects(at) {
            self.leaving.push((at, now + GRACE));
        }
        let mut actions = Vec::new();
        self.lacp.handle(now, Event::RemovePort { port: number(at) }, &mut actions);
        self.carry_out(actions, messages);
        self.detection.remove(now, at, messages);
        if let Some(failover) = &mut self.failover {
            failover.remove(now, at, messages);
        }
        self.settle(now, messages);
    }

    /// Takes a frame that came by a port and is about the link, or about the failover group.
    pub(crate) fn receive(
        &mut self,
        now: Duration,
        at: usize,
        frame: &[u8],
        messages: &mut Vec<Message>,
    ) {
        let control = Headers::parse(frame).ok().map(|headers| Control::of(frame, &headers));
        match control {
            Some(Ok(Some(Control::Bfd(packet)))) => {
                if self.knobs.bfd && self.detection.receive(now, at, packet, messages) {
                    self.settle(now, messages);
                } else {
                    self.plan();
                }
            }
            Some(Ok(Some(Control::Poll(poll)))) => {
                if let Some(failover) = &mut self.failover {
                    failover.polled(now, at, poll, messages);
                    self.plan();
                }
            }
            Some(Ok(Some(Control::Slow(slow)))) if self.speaks_lacp() => {
                if self.knobs.bfd && self.detection.has_failed(at) && is_from_abandoned(&slow) {
                    self.detection.forget_failure(at);
                    self.settle(now, messages);
                }
                let mut actions = Vec::new();
                self.lacp.receive(now, number(at), frame, &mut actions);
                self.carry_out(actions, messages);
                self.settle(now, messages);
            }
            _ => {}
        }
    }

    /// Whether [`heard`](Self::heard) is worth a look at the counters now: a round of polls ends.
    pub(crate) fn asks_for_heard(&self, now: Duration) -> bool {
        self.failover.as_ref().and_then(FailoverGroup::due).is_some_and(|due| due <= now)
    }

    /// Frames of users came by a port since the last look.
    pub(crate) fn heard(&mut self, now: Duration, at: usize) {
        if let Some(failover) = &mut self.failover {
            failover.heard(now, at);
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.due
    }

    pub(crate) fn poll(&mut self, now: Duration, messages: &mut Vec<Message>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let mut changed = self.knobs.bfd && self.detection.poll(now, messages);
        for port in self.ports.iter_mut().flatten() {
            changed |= port.restored_at.take_if(|at| *at <= now).is_some();
        }
        changed |= self.leaving.iter().any(|(_, until)| *until <= now);
        if self.speaks_lacp() && self.lacp.due().is_some_and(|due| due <= now) {
            let mut actions = Vec::new();
            self.lacp.poll(now, &mut actions);
            self.carry_out(actions, messages);
            changed = true;
        }
        if let Some(failover) = &mut self.failover {
            changed |= failover.poll(now, messages);
        }
        match changed || self.detection.due().is_some_and(|due| due <= now) {
            true => self.settle(now, messages),
            false => self.plan(),
        }
    }

    /// The address of a port of this end, beside that of the aggregate.
    pub(crate) fn port_address(&self, port: usize) -> MacAddress {
        port_address(self.address, port)
    }

    fn settings(&self, at: usize) -> Event {
        let is_preferred = self.role == Role::Host && self.knobs.preferred_port as usize == at;
        let settings = PortSettings {
            short_timeout: self.knobs.lacp_rate == LacpRate::Fast,
            priority: if is_preferred { PREFERRED } else { PRIORITY },
            ..PortSettings::new(self.port_address(at), KEY)
        };
        Event::SetPort { port: number(at), settings }
    }

    /// Tells the protocol of the mode how the links are, and decides which ports carry traffic.
    fn settle(&mut self, now: Duration, messages: &mut Vec<Message>) {
        for at in 0..self.ports.len() {
            self.observe(now, at, messages);
        }
        self.share(now);
        self.plan();
    }

    /// Follows the link of a port and its session.
    fn observe(&mut self, now: Duration, at: usize, messages: &mut Vec<Message>) {
        let Some(Some(mut port)) = self.ports.get(at).copied() else { return };
        let (is_up, was_lost) = match self.knobs.bfd {
            true => (self.detection.is_up(at), self.detection.has_failed(at)),
            false => (true, false),
        };
        let usable = port.link.up && is_up;
        match (port.usable, usable) {
            (false, true) if port.failed => port.restored_at = Some(now + WAIT_TO_RESTORE),
            (true, false) => (port.failed, port.restored_at) = (true, None),
            _ => {}
        }
        port.usable = usable;
        // a partner may begin with BFD only once LACP is done: a session that was never up is no
        // failure (RFC 7130, 3, as remembered; FRRouting's sessions begin with the interface,
        // bfdd/bfd_lag.c). One that goes down takes the link out (RFC 7130, 5)
        let up = match self.knobs.mode {
            AggregateMode::Failover => usable,
            AggregateMode::Lacp | AggregateMode::Manual => port.link.up && !was_lost,
        };
        let link = PortLink { up, ..port.link };
        if port.told.replace(link) != Some(link) {
            let is_new = self.speaks_lacp() && self.lacp.port(number(at)).is_none();
            if self.speaks_lacp() {
                let mut actions = Vec::new();
                if is_new {
                    self.lacp.handle(now, self.settings(at), &mut actions);
                }
                self.lacp.handle(now, link_event(at, link), &mut actions);
                self.carry_out(actions, messages);
            }
            let address = self.port_address(at);
            if let Some(failover) = &mut self.failover {
                failover.set_link(now, at, address, up, messages);
            }
        }
        self.ports[at] = Some(port);
    }

    /// Decides which ports carry traffic.
    fn share(&mut self, now: Duration) {
        self.leaving.retain(|(_, until)| *until > now);
        let all = 0..self.ports.len();
        let hears = |at: &usize| !self.knobs.bfd || self.detection.hears(*at, now);
        let is_up = |at: &usize| self.ports[*at].is_some_and(|port| port.link.up);
        let (mut collecting, distributing): (Vec<usize>, Vec<usize>) = match self.knobs.mode {
            AggregateMode::Lacp => {
                let group = self.lacp.group(KEY);
                group.map_or_else(Default::default, |group| {
                    let collecting = group.collecting.into_iter().map(port).filter(hears);
                    let distributing = group.distributing.into_iter().map(port).collect();
                    (collecting.collect(), self.in_order(now, distributing))
                })
            }
            AggregateMode::Manual => {
                // the other end may use a link again a little earlier than this one
                let collecting = all.clone().filter(is_up).filter(hears).collect();
                (collecting, self.in_order(now, all.collect()))
            }
            AggregateMode::Failover => {
                let active = self.failover.as_ref().and_then(FailoverGroup::active);
                let active: Vec<usize> = active.into_iter().collect();
                (active.clone(), active)
            }
        };
        if self.knobs.mode == AggregateMode::Failover {
            // frames that are on their way to the port before
            let before = self.distributing.iter().filter(|at| !distributing.contains(at));
            let before = before.filter(|at| self.ports.get(**at).is_some_and(Option::is_some));
            self.leaving.extend(before.filter(|at| is_up(at)).map(|at| (*at, now + GRACE)));
            self.leaving.retain(|(at, _)| !distributing.contains(at));
        }
        collecting.extend(self.leaving.iter().map(|(port, _)| *port));
        collecting.sort_unstable();
        collecting.dedup();
        if (&self.collecting, &self.distributing) != (&collecting, &distributing) {
            (self.collecting, self.distributing) = (collecting, distributing);
            self.changes += 1;
            self.log.add(&self.collecting, &self.distributing);
        }
    }

    /// Those of these ports that are usable, and have been so for long enough if they failed before.
    /// If there are none, those that came back first.
    fn in_order(&self, now: Duration, mut ports: Vec<usize>) -> Vec<usize> {
        let watched = |at: usize| self.ports.get(at).copied().flatten();
        let restored = |at: usize| watched(at).and_then(|port| port.restored_at);
        ports.retain(|at| watched(*at).is_some_and(|port| port.usable));
        let in_order = |at: usize| restored(at).is_none_or(|at| at <= now);
        let first = ports.iter().filter_map(|at| restored(*at)).min();
        match ports.iter().any(|at| in_order(*at)) {
            true => ports.retain(|at| in_order(*at)),
            false => ports.retain(|at| restored(*at) == first),
        }
        ports
    }

    fn plan(&mut self) {
        let restored = self.ports.iter().flatten().filter_map(|port| port.restored_at).min();
        let lacp = self.lacp.due().filter(|_| self.speaks_lacp());
        let left = self.leaving.iter().map(|(_, until)| *until).min();
        let failover = self.failover.as_ref().and_then(FailoverGroup::due);
        let detection = self.detection.due();
        self.due = [restored, lacp, left, failover, detection].into_iter().flatten().min();
    }
}

/// The address of a port of the end with `address`.
fn port_address(mut address: MacAddress, port: usize) -> MacAddress {
    address.0[5] = address.0[5].wrapping_add(number(port) as u8);
    address.0[2] |= 1;
    address
}

fn link_event(at: usize, link: PortLink) -> Event {
    let port = number(at);
    let bits_per_second = link.rate.map(|rate| rate.0 as u64);
    match link.up {
        true => Event::LinkUp { port, link: Link { bits_per_second, full_duplex: true } },
        false => Event::LinkDown { port },
    }
}

/// Whether a partner says that LACP has lost this end. It then has no BFD session for the link, and has
/// one again once LACP works (RFC 7130, 3), so that LACP cannot wait for the session.
fn is_from_abandoned(slow: &Slow<'_>) -> bool {
    let pdu = (slow.subtype == Subtype::Lacp).then(|| Lacpdu::parse(slow.data).ok()).flatten();
    pdu.is_some_and(|pdu| pdu.actor.state.expired || pdu.actor.state.defaulted)
}

#[cfg(test)]
mod tests;
