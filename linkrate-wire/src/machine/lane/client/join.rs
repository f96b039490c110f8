//! The way of a client into its ELAN.

use std::time::Duration;

use super::{Client, ClientAction, Configuration, Link, MAX_STATIONS, Reason, Registration, State};
use crate::atm::AtmAddress;
use crate::control::LaneControl;
use crate::control::lan_emulation::{
    Destination, Flags, FrameSize, LanType, MARKER, Operation, Status,
};
use crate::frame::MacAddress;
use crate::machine::call::{Call, Cause, Purpose};

/// The first time in the initial state. It doubles until the client is operational.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A question to a server, which is asked again until it is answered.
#[derive(Debug, Clone)]
pub(super) struct Question {
    frame: LaneControl,
    call: Call,
    /// When it is to be asked again, or given up.
    pub(super) again: Duration,
    wait: Duration,
    deadline: Duration,
}

impl<U: AsRef<[u8]>> Client<U> {
    pub(super) fn start(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        if self.state == State::Stopped {
            self.pause = FIRST_PAUSE;
            self.configure(now, actions);
        }
    }

    pub(super) fn stop(&mut self, actions: &mut Vec<ClientAction<U>>) {
        self.leave(actions);
        self.change(State::Stopped, None, actions);
        self.deadline = None;
    }

    pub(super) fn change(
        &mut self,
        to: State,
        reason: Option<Reason>,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let from = std::mem::replace(&mut self.state, to);
        if from != to {
            actions.push(ClientAction::Changed { from, to, reason });
        }
    }

    /// Begins a state that a server must end in time.
    fn enter(&mut self, now: Duration, state: State, actions: &mut Vec<ClientAction<U>>) {
        self.deadline = Some(now + self.config.times.control);
        self.question = None;
        self.change(state, None, actions);
    }

    /// Releases all calls and forgets what others have told.
    fn leave(&mut self, actions: &mut Vec<ClientAction<U>>) {
        let calls: Vec<Call> = self
            .links
            .each()
            .into_iter()
            .filter_map(|(_, link)| link.take())
            .map(|link| link.call)
            .chain(self.directs.clear())
            .collect();
        calls.into_iter().for_each(|call| Self::release(call, Cause::Normal, actions));
        self.question = None;
        self.joined.lecid = 0;
        self.stations.retain(|_, registration| *registration != Registration::Unwanted);
        self.stations.values_mut().for_each(|registration| *registration = Registration::Wanted);
        self.topology_changes = false;
        self.counters.dropped += self.held as u64;
        self.held = 0;
        self.destinations.clear();
    }

    /// Goes back to the initial state.
    pub(super) fn fail(
        &mut self,
        now: Duration,
        reason: Reason,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        if self.state <= State::Initial {
            return;
        }
        self.leave(actions);
        self.counters.fell_back += 1;
        self.change(State::Initial, Some(reason), actions);
        self.deadline = Some(now + self.pause);
        self.pause = (self.pause * 2).min(MAX_PAUSE);
    }

    fn configure(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        (self.joined.elan, self.joined.size) = (self.config.elan, self.config.size);
        match self.config.configuration {
            Configuration::Lecs(lecs) => {
                self.enter(now, State::Configuring, actions);
                let call = self.begin(lecs, Purpose::ConfigurationDirect, actions);
                self.links.configuration = Some(Link { call, is_open: false });
            }
            Configuration::Les(les) => {
                self.joined.les = les;
                self.join(now, actions);
            }
        }
    }

    fn join(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        self.enter(now, State::Joining, actions);
        let call = self.begin(self.joined.les, Purpose::ControlDirect, actions);
        self.links.control = Some(Link { call, is_open: false });
    }

    /// A connection to a server is open.
    pub(super) fn connected(
        &mut self,
        now: Duration,
        purpose: Purpose,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let mut call = None;
        for (of, link) in self.links.each() {
            if let Some(link) = link.as_mut().filter(|link| of == purpose && !link.is_open) {
                link.is_open = true;
                call = Some(link.call);
            }
        }
        let Some(call) = call else { return };
        let operation = match purpose {
            Purpose::ConfigurationDirect => Operation::Configure,
            Purpose::ControlDirect => Operation::Join,
            _ => return self.is_connected(now, actions),
        };
        let flags = Flags::PROXY.when(self.config.proxy && operation == Operation::Join);
        let frame = LaneControl {
            flags,
            source: Destination::Mac(self.config.mac),
            lan: LanType::Ethernet,
            size: self.joined.size,
            elan: self.joined.elan,
            ..self.ask(operation)
        };
        self.question(now, call, frame, actions);
    }

    fn question(
        &mut self,
        now: Duration,
        call: Call,
        frame: LaneControl,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let times = &self.config.times;
        let (wait, deadline) = (times.retry, now + times.control);
        let again = deadline.min(now + wait);
        self.question = Some(Question { frame, call, again, wait, deadline });
        self.counters.asked += u64::from(frame.operation == Operation::Arp);
        actions.push(ClientAction::Send { call, frame });
    }

    /// A server answers. Says whether that was the answer to the question.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        answer: &LaneControl,
        actions: &mut Vec<ClientAction<U>>,
    ) -> bool {
        let Some(Question { frame: asked, .. }) = self.question.as_ref() else { return false };
        let asked = *asked;
        let is_it = asked.operation == answer.operation && asked.transaction == answer.transaction;
        if !is_it || asked.target != answer.target && asked.operation == Operation::Arp {
            return false;
        }
        self.question = None;
        let (operation, status) = (answer.operation, answer.status);
        let is_about_own_station = matches!(operation, Operation::Register | Operation::Unregister);
        if status != Status::SUCCESS && !is_about_own_station {
            self.fail(now, Reason::Refused { operation, status }, actions);
            return true;
        }
        let done = match operation {
            Operation::Configure => self.configured(now, answer, actions),
            Operation::Join => self.joined(now, answer, actions),
            Operation::Register | Operation::Unregister => {
                self.registered(now, &asked, status, actions);
                true
            }
            Operation::Arp => self.found_bus(answer, actions),
            _ => true,
        };
        if !done {
            self.fail(now, Reason::Contradiction(operation), actions);
        }
        true
    }

    /// Whether an ELAN with these parameters is the one that was asked for.
    fn suits(&self, answer: &LaneControl) -> bool {
        let FrameSize::Unspecified = self.config.size else {
            return answer.size == self.config.size && answer.lan != LanType::TokenRing;
        };
        answer.lan != LanType::TokenRing
    }

    fn configured(
        &mut self,
        now: Duration,
        answer: &LaneControl,
        actions: &mut Vec<ClientAction<U>>,
    ) -> bool {
        if !self.suits(answer) || answer.target_atm == AtmAddress::UNKNOWN {
            return false;
        }
        self.joined.les = answer.target_atm;
        (self.joined.elan, self.joined.size) = (answer.elan, answer.size);
        if let Some(link) = self.links.configuration.take() {
            Self::release(link.call, Cause::Normal, actions);
        }
        self.join(now, actions);
        true
    }

    fn joined(
        &mut self,
        now: Duration,
        answer: &LaneControl,
        actions: &mut Vec<ClientAction<U>>,
    ) -> bool {
        let has_lecid = (1..MARKER).contains(&answer.requester);
        if !self.suits(answer) || !has_lecid || answer.size == FrameSize::Unspecified {
            return false;
        }
        self.joined.lecid = answer.requester;
        (self.joined.elan, self.joined.size) = (answer.elan, answer.size);
        self.stations.insert(self.config.mac, Registration::Done);
        self.enter(now, State::Registering, actions);
        self.register_next(now, actions);
        true
    }

    /// Registers the next address, or continues to the BUS when all are.
    fn register_next(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        if self.state < State::Registering || self.question.is_some() {
            return;
        }
        let Some(control) = self.links.control else { return };
        let next = self.stations.iter().find(|(_, one)| **one != Registration::Done);
        let frame = match next.map(|(mac, registration)| (*mac, *registration)) {
            Some((mac, registration)) => {
                let operation = match registration {
                    Registration::Unwanted => Operation::Unregister,
                    _ => Operation::Register,
                };
                LaneControl { source: Destination::Mac(mac), ..self.ask(operation) }
            }
            None if self.state == State::Registering => {
                self.enter(now, State::Connecting, actions);
                let source = Destination::Mac(self.config.mac);
                let target = Destination::Mac(MacAddress::BROADCAST);
                LaneControl { source, target, ..self.ask(Operation::Arp) }
            }
            None => return,
        };
        self.question(now, control.call, frame, actions);
    }

    fn registered(
        &mut self,
        now: Duration,
        asked: &LaneControl,
        status: Status,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        if let Destination::Mac(mac) = asked.source {
            let registration = self.stations.get(&mac).copied();
            match (asked.operation, registration) {
                (Operation::Unregister, Some(Registration::Unwanted)) => {
                    self.stations.remove(&mac);
                }
                (Operation::Register, Some(_)) if status != Status::SUCCESS => {
                    self.stations.remove(&mac);
                    actions.push(ClientAction::NotRegistered { mac, status });
                }
                (Operation::Register, Some(Registration::Wanted)) => {
                    self.stations.insert(mac, Registration::Done);
                }
                // it is wanted otherwise by now
                _ => {}
            }
        }
        self.register_next(now, actions);
    }

    pub(super) fn register(
        &mut self,
        now: Duration,
        mac: MacAddress,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        if self.stations.len() >= MAX_STATIONS && !self.stations.contains_key(&mac) {
            let status = Status::RESOURCES;
            actions.push(ClientAction::NotRegistered { mac, status });
            return;
        }
        let registration = self.stations.entry(mac).or_insert(Registration::Wanted);
        if *registration == Registration::Unwanted {
            *registration = Registration::Wanted;
        }
        self.register_next(now, actions);
    }

    pub(super) fn unregister(
        &mut self,
        now: Duration,
        mac: MacAddress,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        // the first address is that of the client
        if mac == self.config.mac {
            return;
        }
        if self.state >= State::Registering {
            if let Some(registration) = self.stations.get_mut(&mac) {
                *registration = Registration::Unwanted;
            }
            self.register_next(now, actions);
        } else {
            self.stations.remove(&mac);
        }
    }

    /// The server has told the address of the BUS.
    fn found_bus(&mut self, answer: &LaneControl, actions: &mut Vec<ClientAction<U>>) -> bool {
        if answer.target_atm == AtmAddress::UNKNOWN || self.links.send.is_some() {
            return false;
        }
        self.joined.bus = answer.target_atm;
        let call = self.begin(answer.target_atm, Purpose::MulticastSend, actions);
        self.links.send = Some(Link { call, is_open: false });
        true
    }

    /// Is operational when both connections of the BUS are open.
    pub(super) fn is_connected(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        let is_open = |link: Option<Link>| link.is_some_and(|link| link.is_open);
        let both = is_open(self.links.send) && is_open(self.links.forward);
        if self.state == State::Connecting && both {
            self.deadline = None;
            self.pause = FIRST_PAUSE;
            self.change(State::Operational, None, actions);
            // those that came meanwhile
            self.register_next(now, actions);
        }
    }

    pub(super) fn poll_join(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            match self.state {
                State::Initial => self.configure(now, actions),
                _ => self.fail(now, Reason::TimeOut, actions),
            }
            return;
        }
        let Some(question) = self.question.as_mut().filter(|question| question.again <= now) else {
            return;
        };
        if question.deadline <= now {
            self.fail(now, Reason::TimeOut, actions);
            return;
        }
        question.wait *= 2;
        question.again = question.deadline.min(now + question.wait);
        let Question { call, frame, .. } = *question;
        self.counters.asked += u64::from(frame.operation == Operation::Arp);
        actions.push(ClientAction::Send { call, frame });
    }
}
