//! One system of LACP, whose partner is played by hand.

use std::time::Duration;

use linkrate_wire::control::Lacpdu;
use linkrate_wire::control::lacp::{Information, PortId, State, SystemId};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lacp::{
    Action, Event, GroupSettings, Link, Notice, PortSettings, PortStatus, Reason, Selection, System,
};

use crate::ends::{GIGABIT, KEY, id, lacpdu, ms, seconds, settings};
use crate::lossy::{handled, polled};

/// Sync, Collecting, Distributing.
pub const READY: u8 = 0x38;
/// Synchronization alone.
pub const SYNC: u8 = 0x08;

pub struct Lone {
    pub system: System,
    pub now: Duration,
    /// All actions, and when.
    pub actions: Vec<(Duration, Action)>,
}

/// A partner: its bits are active, short time-out and aggregation, and those given.
pub fn partner(system: SystemId, port: u16, bits: u8) -> Information {
    let state = State::of(0x07 | bits);
    Information { system, key: 50, port: PortId { priority: 9, number: 100 + port }, state }
}

impl Lone {
    /// A system with `ports` ports with short time-out, whose links are up.
    pub fn new(ports: u16, group: GroupSettings) -> Self {
        let mut lone =
            Self { system: System::new(id(200, 5)), now: Duration::ZERO, actions: Vec::new() };
        lone.event(Event::SetGroup { key: KEY, settings: group });
        for port in 1..=ports {
            lone.set(port, |_| {});
            lone.up(port, GIGABIT);
        }
        lone
    }

    pub fn event(&mut self, event: Event) {
        let actions = handled(&mut self.system, self.now, event);
        self.actions.extend(actions.into_iter().map(|action| (self.now, action)));
    }

    /// Sets a port up as usual, but for what `change` changes.
    pub fn set(&mut self, port: u16, change: impl FnOnce(&mut PortSettings)) {
        let mut settings = settings(5, port);
        settings.short_timeout = true;
        change(&mut settings);
        self.event(Event::SetPort { port, settings });
    }

    pub fn up(&mut self, port: u16, link: Link) {
        self.event(Event::LinkUp { port, link });
    }

    pub fn down(&mut self, port: u16) {
        self.event(Event::LinkDown { port });
    }

    /// Lets time pass, with all that is due up to `now`.
    pub fn at(&mut self, now: Duration) {
        while let Some(due) = self.system.due().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            let actions = polled(&mut self.system, self.now);
            self.actions.extend(actions.into_iter().map(|action| (self.now, action)));
        }
        self.now = now;
    }

    pub fn after(&mut self, time: Duration) {
        self.at(self.now + time);
    }

    pub fn status(&self, port: u16) -> PortStatus {
        self.system.port(port).expect("a port")
    }

    /// A PDU that knows this end.
    pub fn pdu(&self, port: u16, actor: Information) -> Lacpdu {
        let partner = self.status(port).actor;
        Lacpdu { version: 1, actor, partner, collector_max_delay: 0 }
    }

    pub fn hear(&mut self, port: u16, actor: Information) {
        let pdu = self.pdu(port, actor);
        self.event(Event::Lacpdu { port, pdu });
    }

    /// Hears partners on these ports each half second, for `time`, and lets time pass.
    pub fn hear_for(&mut self, time: Duration, partners: &[(u16, Information)]) {
        let end = self.now + time;
        while self.now < end {
            for (port, partner) in partners {
                self.hear(*port, *partner);
            }
            self.after(ms(500));
        }
    }

    /// The LACPDUs that a port sent, and when.
    pub fn sent(&self, port: u16) -> Vec<(Duration, Lacpdu)> {
        let sent = self.actions.iter().filter_map(|(at, action)| match action {
            Action::Send { port: by, frame } if *by == port => Some((*at, lacpdu(frame)?)),
            _ => None,
        });
        sent.collect()
    }

    pub fn selections(&self) -> Vec<Selection> {
        self.system.ports().map(|port| port.selection).collect()
    }

    pub fn reason(&self, port: u16) -> Option<Reason> {
        match self.status(port).selection {
            Selection::Unselected(reason) => Some(reason),
            _ => None,
        }
    }

    pub fn distributing(&self) -> Vec<u16> {
        self.system.group(KEY).expect("a group").distributing
    }

    pub fn notices(&self) -> Vec<(Duration, Notice)> {
        let notices = self.actions.iter().filter_map(|(at, action)| match action {
            Action::Notice(notice) => Some((*at, *notice)),
            _ => None,
        });
        notices.collect()
    }

    /// Ready, with a partner that is ready on each of these ports.
    pub fn with_partner(ports: u16, group: GroupSettings) -> Self {
        let mut lone = Self::new(ports, group);
        let partners = all_ready(ports);
        lone.hear_for(seconds(3), &partners);
        lone
    }
}

/// The same partner on ports 1 to `ports`.
pub fn all_ready(ports: u16) -> Vec<(u16, Information)> {
    (1..=ports).map(|port| (port, partner(id(100, 9), port, READY))).collect()
}
