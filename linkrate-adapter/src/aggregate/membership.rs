//! Which ports of an aggregate carry traffic, as one of its two ends decides: the host, or the switch.
//!
//! Without a protocol these are the ports whose link is up. With LACP they are the ports that both
//! ends have agreed on. The ports have numbers from 0.

use std::time::Duration;

use linkrate_terms::BitRate;
use linkrate_terms::knobs::{AggregateKnobs, AggregateMode, LacpRate};
use linkrate_wire::balance::PortIndex;
use linkrate_wire::control::lacp::SystemId;
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lacp::{
    Action, Event, GroupSettings, Link, PortSettings, PortStatus, System,
};

use super::decisions::DecisionLog;

/// How long a link that failed must be up before its port carries traffic again, while others do: a
/// link that flaps must not make the aggregate flap.
const WAIT_TO_RESTORE: Duration = Duration::from_secs(1);

/// How long frames are still taken from a port that was told to leave: until the other end knows it,
/// and what it has sent before has come. Nothing is lost then.
const GRACE: Duration = Duration::from_millis(100);

/// What is added to the time for which frames wait: an interrupt and the turns of the threads.
const MARGIN_PS: u64 = 2_000_000_000;

/// The administrative key of the ports: an end has one aggregate.
const KEY: u16 = 1;

/// A port, as its owner describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PortLink {
    /// The link is up.
    pub(crate) up: bool,
    /// Its rate.
    pub(crate) rate: Option<BitRate>,
}

/// A port.
#[derive(Debug, Clone, Copy)]
struct Watched {
    link: PortLink,
    /// When it may carry traffic again, after a failure. LACP has a time of its own.
    restored_at: Option<Duration>,
}

/// The decisions of one end.
#[derive(Debug)]
pub(crate) struct Membership {
    knobs: AggregateKnobs,
    lacp: System,
    address: MacAddress,
    /// By number; `None` is no port.
    ports: Vec<Option<Watched>>,
    /// Ports that were told to leave, and until when frames are taken from them.
    leaving: Vec<(usize, Duration)>,
    collecting: Vec<usize>,
    distributing: Vec<usize>,
    /// Grows when one of the two changes.
    changes: u64,
    /// Where each change is written down with its time.
    log: DecisionLog,
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
    pub(crate) fn new(address: MacAddress, knobs: AggregateKnobs) -> Self {
        let lacp = System::new(SystemId { priority: 0x8000, address });
        let mut membership = Self {
            knobs,
            lacp,
            address,
            ports: Vec::new(),
            leaving: Vec::new(),
            collecting: Vec::new(),
            distributing: Vec::new(),
            changes: 1,
            log: DecisionLog::default(),
        };
        membership.begin_lacp(Duration::ZERO);
        membership
    }

    /// Writes its decisions to `log` from now on.
    pub(crate) fn log_to(&mut self, log: DecisionLog) {
        self.log = log;
    }

    fn speaks_lacp(&self) -> bool {
        self.knobs.mode == AggregateMode::Lacp
    }

    /// Its settings.
    pub(crate) fn knobs(&self) -> &AggregateKnobs {
        &self.knobs
    }

    /// Ports that frames are taken from.
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

    /// The state of a port in LACP; `None` without LACP.
    pub(crate) fn status(&self, port: usize) -> Option<PortStatus> {
        self.speaks_lacp().then(|| self.lacp.port(number(port)))?
    }

    /// Changes the settings.
    pub(crate) fn set_knobs(
        &mut self,
        now: Duration,
        knobs: AggregateKnobs,
        messages: &mut Vec<Message>,
    ) {
        let other_mode = knobs.mode != self.knobs.mode;
        self.knobs = knobs;
        if other_mode {
            self.ports.iter_mut().flatten().for_each(|port| port.restored_at = None);
            messages.extend(self.begin_lacp(now));
        } else if self.speaks_lacp() {
            let mut actions = Vec::new();
            for at in (0..self.ports.len()).filter(|at| self.ports[*at].is_some()) {
                self.lacp.handle(now, self.settings(at), &mut actions);
            }
            messages.extend(to_send(actions));
        }
        self.share(now);
    }

    /// Begins LACP anew, if the mode has it.
    fn begin_lacp(&mut self, now: Duration) -> Vec<Message> {
        self.lacp = System::new(self.lacp.id());
        if !self.speaks_lacp() {
            return Vec::new();
        }
        let mut actions = Vec::new();
        let settings =
            GroupSettings { wait_to_restore: WAIT_TO_RESTORE, ..GroupSettings::default() };
        self.lacp.handle(now, Event::SetGroup { key: KEY, settings }, &mut actions);
        for (at, port) in self.ports.clone().into_iter().enumerate() {
            let Some(port) = port else { continue };
            self.lacp.handle(now, self.settings(at), &mut actions);
            self.lacp.handle(now, link_event(at, port.link), &mut actions);
        }
        to_send(actions).collect()
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
        let had = self.ports[at].map(|port| port.link.up);
        let restored_at = match (had, link.up) {
            (Some(false), true) => Some(now + WAIT_TO_RESTORE),
            (Some(true), true) => self.ports[at].and_then(|port| port.restored_at),
            (None, _) | (_, false) => None,
        };
        self.ports[at] = Some(Watched { link, restored_at });
        if self.speaks_lacp() {
            let mut actions = Vec::new();
            if had.is_none() {
                self.lacp.handle(now, self.settings(at), &mut actions);
            }
            self.lacp.handle(now, link_event(at, link), &mut actions);
            messages.extend(to_send(actions));
        }
        self.share(now);
    }

    /// A port is gone.
    pub(crate) fn remove(&mut self, now: Duration, at: usize, messages: &mut Vec<Message>) {
        let Some(Some(_)) = self.ports.get_mut(at).map(Option::take) else { return };
        if self.collects(at) {
            self.leaving.push((at, now + GRACE));
        }
        let mut actions = Vec::new();
        self.lacp.handle(now, Event::RemovePort { port: number(at) }, &mut actions);
        messages.extend(to_send(actions));
        self.share(now);
    }

    /// Takes a frame that came by a port and is about the link.
    pub(crate) fn receive(
        &mut self,
        now: Duration,
        at: usize,
        frame: &[u8],
        messages: &mut Vec<Message>,
    ) {
        if self.speaks_lacp() {
            let mut actions = Vec::new();
            self.lacp.receive(now, number(at), frame, &mut actions);
            messages.extend(to_send(actions));
            self.share(now);
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub(crate) fn due(&self) -> Option<Duration> {
        let restored = self.ports.iter().flatten().filter_map(|port| port.restored_at).min();
        let lacp = self.lacp.due().filter(|_| self.speaks_lacp());
        let left = self.leaving.iter().map(|(_, until)| *until).min();
        [restored, lacp, left].into_iter().flatten().min()
    }

    /// Does the work that is due.
    pub(crate) fn poll(&mut self, now: Duration, messages: &mut Vec<Message>) {
        for port in self.ports.iter_mut().flatten() {
            port.restored_at.take_if(|at| *at <= now);
        }
        if self.speaks_lacp() {
            let mut actions = Vec::new();
            self.lacp.poll(now, &mut actions);
            messages.extend(to_send(actions));
        }
        self.share(now);
    }

    fn settings(&self, port: usize) -> Event {
        let mut address = self.address;
        // each port has an address of its own, beside that of the aggregate
        address.0[5] = address.0[5].wrapping_add(number(port) as u8);
        address.0[2] |= 1;
        let settings = PortSettings {
            short_timeout: self.knobs.lacp_rate == LacpRate::Fast,
            ..PortSettings::new(address, KEY)
        };
        Event::SetPort { port: number(port), settings }
    }

    /// Decides which ports carry traffic.
    fn share(&mut self, now: Duration) {
        self.leaving.retain(|(_, until)| *until > now);
        let (mut collecting, distributing) = match self.knobs.mode {
            AggregateMode::Lacp => {
                let group = self.lacp.group(KEY);
                group.map_or_else(Default::default, |group| {
                    let ports = |numbers: Vec<u16>| numbers.into_iter().map(port).collect();
                    (ports(group.collecting), ports(group.distributing))
                })
            }
            AggregateMode::Manual | AggregateMode::Failover => {
                let up = self.up(now);
                (up.clone(), up)
            }
        };
        collecting.extend(self.leaving.iter().map(|(port, _)| *port));
        collecting.sort_unstable();
        collecting.dedup();
        if (&self.collecting, &self.distributing) != (&collecting, &distributing) {
            (self.collecting, self.distributing) = (collecting, distributing);
            self.changes += 1;
            self.log.add(&self.collecting, &self.distributing);
        }
    }

    /// The ports whose link is up, and has been so for long enough if it failed before. If there are
    /// none, those whose link came back first.
    fn up(&self, now: Duration) -> Vec<usize> {
        let ports = self.ports.iter().enumerate();
        let up = ports.filter_map(|(number, port)| Some((number, (*port)?)));
        let up: Vec<(usize, Watched)> = up.filter(|(_, port)| port.link.up).collect();
        let in_order = |port: &Watched| port.restored_at.is_none_or(|at| at <= now);
        let first = up.iter().filter_map(|(_, port)| port.restored_at).min();
        let any = up.iter().any(|(_, port)| in_order(port));
        let is_used = |port: &Watched| if any { in_order(port) } else { port.restored_at == first };
        up.iter().filter(|(_, port)| is_used(port)).map(|(number, _)| *number).collect()
    }
}

/// The event of a link in its present state.
fn link_event(at: usize, link: PortLink) -> Event {
    let port = number(at);
    let bits_per_second = link.rate.map(|rate| rate.0 as u64);
    match link.up {
        true => Event::LinkUp { port, link: Link { bits_per_second, full_duplex: true } },
        false => Event::LinkDown { port },
    }
}

/// The frames among the actions. The sets of ports are read from the group.
fn to_send(actions: Vec<Action>) -> impl Iterator<Item = Message> {
    actions.into_iter().filter_map(|action| match action {
        Action::Send { port: to, frame } => Some((port(to), frame)),
        Action::Collecting { .. }
        | Action::Distributing { .. }
        | Action::Marker { .. }
        | Action::Notice(_) => None,
    })
}

#[cfg(test)]
mod tests;
