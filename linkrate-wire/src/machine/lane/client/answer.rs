//! Control frames that a client receives.

use std::time::Duration;

use super::cache::Target;
use super::{Client, ClientAction, Registration, State};
use crate::control::LaneControl;
use crate::control::lan_emulation::{Destination, Flags, Operation, Status};
use crate::frame::MacAddress;
use crate::machine::call::{Call, Purpose};

impl<U: AsRef<[u8]>> Client<U> {
    pub(super) fn control(
        &mut self,
        now: Duration,
        (call, purpose): (Call, Purpose),
        frame: LaneControl,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let by_server = matches!(
            purpose,
            Purpose::ConfigurationDirect | Purpose::ControlDirect | Purpose::ControlDistribute
        );
        self.counters.control_in += 1;
        if by_server && frame.operation == Operation::Arp {
            let counter = match frame.is_response {
                true => &mut self.counters.answers,
                false => &mut self.counters.asked_by_others,
            };
            *counter += 1;
        }
        match frame.operation {
            // one that is ready was noted when it was heard
            Operation::Ready if purpose == Purpose::DataDirect => {
                if !frame.is_response && self.answers.take(now) {
                    Self::say_ready(call, actions);
                }
            }
            Operation::Flush if !frame.is_response => self.prove(now, &frame, actions),
            _ if !by_server => self.counters.unexpected += 1,
            _ if frame.is_response => self.answer(now, &frame, actions),
            _ if purpose == Purpose::ConfigurationDirect => self.counters.unexpected += 1,
            Operation::Arp => self.tell(now, &frame, actions),
            Operation::NegativeArp => self.moved(now, &frame, actions),
            Operation::Topology => self.topology(&frame),
            _ => self.counters.unexpected += 1,
        }
    }

    /// A server answers, or another client by way of it.
    fn answer(&mut self, now: Duration, frame: &LaneControl, actions: &mut Vec<ClientAction<U>>) {
        if self.answered(now, frame, actions) {
            return;
        }
        let is_own = frame.requester == self.joined.lecid && self.state == State::Operational;
        match (frame.operation, frame.target) {
            (Operation::Arp, Destination::Mac(mac))
                if is_own && frame.status == Status::SUCCESS =>
            {
                self.resolved(now, mac, frame, actions);
            }
            (Operation::Flush, _) if is_own => self.flushed(now, frame.transaction, actions),
            _ => self.counters.unexpected += 1,
        }
    }

    /// Another client asks whether its frames have arrived: those that came before have.
    fn prove(&mut self, now: Duration, frame: &LaneControl, actions: &mut Vec<ClientAction<U>>) {
        if frame.target_atm != self.config.atm || frame.requester == self.joined.lecid {
            return;
        }
        let Some(control) = self.links.control.filter(|control| control.is_open) else { return };
        if !self.answers.take(now) {
            self.counters.not_answered += 1;
            return;
        }
        let frame = LaneControl { is_response: true, status: Status::SUCCESS, ..*frame };
        actions.push(ClientAction::Send { call: control.call, frame });
    }

    /// Another client asks for the ATM address of a station.
    fn tell(&mut self, now: Duration, frame: &LaneControl, actions: &mut Vec<ClientAction<U>>) {
        let Destination::Mac(mac) = frame.target else { return };
        let is_own = self.stations.get(&mac) == Some(&Registration::Done);
        let is_behind = self.config.proxy && self.behind.contains(&mac);
        if frame.requester == self.joined.lecid || !is_own && !is_behind {
            return;
        }
        let Some(control) = self.links.control.filter(|control| control.is_open) else { return };
        if !self.answers.take(now) {
            self.counters.not_answered += 1;
            return;
        }
        let flags = Flags::REMOTE.when(!is_own);
        let target_atm = self.config.atm;
        let answer = LaneControl { flags, target_atm, ..frame.answered(Status::SUCCESS) };
        self.counters.answered += 1;
        actions.push(ClientAction::Send { call: control.call, frame: answer });
    }

    /// A station has moved: an entry with its old address is wrong.
    fn moved(&mut self, now: Duration, frame: &LaneControl, actions: &mut Vec<ClientAction<U>>) {
        let Destination::Mac(mac) = frame.target else { return };
        if let Some(one) = self.destinations.get_mut(&mac)
            && one.atm() == Some(frame.target_atm)
        {
            one.target = Target::Unknown;
            self.advance(now, mac, actions);
        }
    }

    /// Bridges change their topology, or no longer do. While they do, an entry holds for C18 since it was verified
    /// (LANE 1.0, 5.1.1), and not since they say so.
    fn topology(&mut self, frame: &LaneControl) {
        self.topology_changes = frame.flags.has(Flags::TOPOLOGY_CHANGE);
        if !self.topology_changes {
            return;
        }
        let age = self.age(true);
        for one in self.destinations.values_mut() {
            if let Target::Known { is_remote: true, verified, expires, .. } = &mut one.target {
                *expires = (*verified + age).min(*expires);
            }
        }
    }

    /// Tells all clients that the topology of the bridge behind this proxy changes.
    pub(super) fn tell_topology(&mut self, changing: bool, actions: &mut Vec<ClientAction<U>>) {
        let is_joined = self.config.proxy && self.state >= State::Registering;
        let Some(control) = self.links.control.filter(|_| is_joined) else { return };
        let flags = Flags::TOPOLOGY_CHANGE.when(changing);
        let source = Destination::Mac(self.config.mac);
        let frame = LaneControl { flags, source, ..self.ask(Operation::Topology) };
        actions.push(ClientAction::Send { call: control.call, frame });
    }

    /// Whether the host of this client has an Ethernet address, or the bridge behind it.
    #[must_use]
    pub fn has(&self, mac: MacAddress) -> bool {
        self.stations.contains_key(&mac) || self.behind.contains(&mac)
    }
}
