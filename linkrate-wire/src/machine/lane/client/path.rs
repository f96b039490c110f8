//! Frames of the host, and the path that each takes.

use std::time::Duration;

use super::cache::{
    Asking, Destination, HELD_DOWN, MAX_DESTINATIONS, MAX_HELD, MAX_HELD_TOTAL, Path, Switching,
    Target,
};
use super::{Client, ClientAction, Registration, State};
use crate::atm::AtmAddress;
use crate::control::lan_emulation::{self, Operation};
use crate::control::{Data, LaneControl, lane_data};
use crate::frame::Cast;
use crate::frame::{MacAddress, link};
use crate::machine::call::{Call, Purpose};

impl<U: AsRef<[u8]>> Client<U> {
    /// The host sends a frame. Says whether more has changed than the use of its path.
    pub(super) fn frame(
        &mut self,
        now: Duration,
        frame: U,
        actions: &mut Vec<ClientAction<U>>,
    ) -> bool {
        let octets = frame.as_ref();
        let fits = lane_data::length(octets.len()) <= usize::from(self.joined.size.octets());
        let mac = link::destination(octets).filter(|_| octets.len() >= link::ETHERNET);
        let (Some(mac), State::Operational, true) = (mac, self.state, fits) else {
            self.counters.dropped += 1;
            return false;
        };
        if mac.cast() != Cast::Unicast {
            self.counters.sent_to_groups += 1;
            self.through_bus(frame, actions);
            return false;
        }
        if let Some(one) = self.destinations.get_mut(&mac)
            && let Path::Direct(call) = one.path
            && one.is_steady(now)
            && self.directs.sends(now, call)
        {
            one.sent = Some(now);
            self.counters.sent_direct += 1;
            actions.push(ClientAction::Transmit { call, frame });
            return false;
        }
        let is_known = self.destinations.contains_key(&mac);
        if !is_known && self.destinations.len() >= MAX_DESTINATIONS {
            self.counters.dropped += 1;
            return false;
        }
        let times = &self.config.times;
        let one = self.destinations.entry(mac).or_insert_with(|| Destination::new(times));
        if one.held.len() >= MAX_HELD || self.held >= MAX_HELD_TOTAL {
            self.counters.dropped += 1;
            return false;
        }
        one.is_used = true;
        one.held.push_back((now, frame));
        self.held += 1;
        self.advance(now, mac, actions);
        true
    }

    fn through_bus(&mut self, frame: U, actions: &mut Vec<ClientAction<U>>) {
        if let Some(send) = self.links.send {
            actions.push(ClientAction::Transmit { call: send.call, frame });
        }
    }

    /// Does for a station what can be done now: asks for its address, calls its client, changes the
    /// path, sends what waits.
    pub(super) fn advance(
        &mut self,
        now: Duration,
        mac: MacAddress,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let Some(mut one) = self.destinations.remove(&mac) else { return };
        self.resolve(now, mac, &mut one, actions);
        let wanted = self.wanted(now, &one, actions);
        self.switch(now, mac, &mut one, wanted, actions);
        self.drain(now, &mut one, actions);
        self.destinations.insert(mac, one);
    }

    pub(super) fn advance_all(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        let all: Vec<MacAddress> = self.destinations.keys().copied().collect();
        all.into_iter().for_each(|mac| self.advance(now, mac, actions));
    }

    fn resolve(
        &mut self,
        now: Duration,
        mac: MacAddress,
        one: &mut Destination<U>,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let verify = one.verify_at(&self.config.times).is_some_and(|at| at <= now);
        match &mut one.target {
            Target::Unknown if !one.held.is_empty() => {
                one.target = Target::Asked(self.ask_for(now, mac, actions));
            }
            Target::Known { asking, .. } if verify => {
                *asking = Some(self.ask_for(now, mac, actions));
            }
            _ => {}
        }
    }

    /// Asks for the ATM address of a station.
    fn ask_for(
        &mut self,
        now: Duration,
        mac: MacAddress,
        actions: &mut Vec<ClientAction<U>>,
    ) -> Asking {
        let source = lan_emulation::Destination::Mac(self.config.mac);
        let target = lan_emulation::Destination::Mac(mac);
        let frame = LaneControl { source, target, ..self.ask(Operation::Arp) };
        if let Some(control) = self.links.control {
            self.counters.asked += 1;
            actions.push(ClientAction::Send { call: control.call, frame });
        }
        Asking { transaction: frame.transaction, again: now + self.config.times.arp }
    }

    /// The path that frames should take. Calls the client of the station if none is open.
    fn wanted(
        &mut self,
        now: Duration,
        one: &Destination<U>,
        actions: &mut Vec<ClientAction<U>>,
    ) -> Path {
        let Some(atm) = one.atm() else { return Path::Bus };
        if let Some(call) = self.directs.best(self.config.atm, atm) {
            return Path::Direct(call);
        }
        let may_call = now >= one.call_again && self.directs.len() < self.config.most_directs;
        if !one.held.is_empty() && may_call && !self.directs.has(atm) {
            self.call_client(now, atm, actions);
        }
        Path::Bus
    }

    /// Changes the path, at once if the old one is empty, else when it is proved so.
    fn switch(
        &mut self,
        now: Duration,
        mac: MacAddress,
        one: &mut Destination<U>,
        wanted: Path,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        if one.path == wanted {
            one.switching = None;
            return;
        }
        let (by, remote) = match one.path {
            Path::Bus => (self.links.send.map(|send| send.call), one.atm()),
            // nothing is under way on a connection that is gone
            Path::Direct(call) => {
                (self.directs.carries(call).then_some(call), self.directs.remote(call))
            }
        };
        let (Some(call), Some(remote)) = (by, remote) else {
            (one.path, one.sent, one.switching) = (wanted, None, None);
            return;
        };
        if one.is_quiet(now, &self.config.times) {
            (one.path, one.sent, one.switching) = (wanted, None, None);
            return;
        }
        let frame = match one.switching {
            None => self.ask(Operation::Flush),
            Some(Switching { again, transaction }) if again <= now => {
                LaneControl { transaction, ..self.ask(Operation::Flush) }
            }
            Some(_) => return,
        };
        let (transaction, again) = (frame.transaction, now + self.config.times.flush);
        one.switching = Some(Switching { transaction, again });
        self.counters.flushed += 1;
        let (source, target_atm) = (lan_emulation::Destination::Mac(self.config.mac), remote);
        let target = lan_emulation::Destination::Mac(mac);
        let frame = LaneControl { source, target, target_atm, ..frame };
        actions.push(ClientAction::Send { call, frame });
    }

    /// Sends what waits, as far as the path takes it.
    fn drain(
        &mut self,
        now: Duration,
        one: &mut Destination<U>,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        while one.switching.is_none() && !one.held.is_empty() {
            let may = match one.path {
                Path::Direct(call) => self.directs.sends(now, call),
                Path::Bus => one.unknown.take(now),
            };
            let Some((_, frame)) = may.then(|| one.held.pop_front()).flatten() else { return };
            self.held -= 1;
            one.sent = Some(now);
            match one.path {
                Path::Direct(call) => {
                    self.counters.sent_direct += 1;
                    actions.push(ClientAction::Transmit { call, frame });
                }
                Path::Bus => {
                    self.counters.sent_unknown += 1;
                    self.through_bus(frame, actions);
                }
            }
        }
    }

    /// The server or a proxy has told the ATM address of a station.
    pub(super) fn resolved(
        &mut self,
        now: Duration,
        mac: MacAddress,
        answer: &LaneControl,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let is_remote = answer.flags.has(lan_emulation::Flags::REMOTE);
        let age = self.age(is_remote);
        let Some(one) = self.destinations.get_mut(&mac) else { return };
        let asking = match one.target {
            Target::Asked(asking) => Some(asking),
            Target::Known { asking, .. } => asking,
            Target::Unknown => None,
        };
        let is_asked = asking.is_some_and(|asking| asking.transaction == answer.transaction);
        let atm = answer.target_atm;
        let is_other = atm != AtmAddress::UNKNOWN && atm != self.config.atm;
        if !is_asked || !is_other {
            self.counters.unexpected += 1;
            return;
        }
        let (verified, expires) = (now, now + age);
        one.target = Target::Known { atm, is_remote, verified, expires, asking: None };
        // frames that wait count as use
        one.is_used = !one.held.is_empty();
        self.advance(now, mac, actions);
    }

    /// How long an entry holds.
    pub(super) fn age(&self, is_remote: bool) -> Duration {
        let times = &self.config.times;
        if is_remote && self.topology_changes {
            times.ageing.min(times.forward_delay)
        } else {
            times.ageing
        }
    }

    /// A path was proved empty.
    pub(super) fn flushed(
        &mut self,
        now: Duration,
        transaction: u32,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let is_it = |one: &Destination<U>| {
            one.switching.is_some_and(|switching| switching.transaction == transaction)
        };
        let found = self.destinations.iter_mut().find(|(_, one)| is_it(one));
        let Some((mac, one)) = found else {
            self.counters.unexpected += 1;
            return;
        };
        one.sent = None;
        let mac = *mac;
        self.advance(now, mac, actions);
    }

    /// A client has refused a call.
    pub(super) fn hold_down(&mut self, now: Duration, remote: AtmAddress) {
        for one in self.destinations.values_mut().filter(|one| one.atm() == Some(remote)) {
            one.call_again = now + HELD_DOWN;
        }
    }

    pub(super) fn poll_destinations(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        let times = self.config.times;
        let due = |one: &Destination<U>| one.due(&times).is_some_and(|due| due <= now);
        let due = self.destinations.iter().filter(|(_, one)| due(one));
        for mac in due.map(|(mac, _)| *mac).collect::<Vec<_>>() {
            let Some(one) = self.destinations.get_mut(&mac) else { continue };
            while one.stale_at().is_some_and(|at| at <= now) {
                one.held.pop_front();
                self.held -= 1;
                self.counters.dropped += 1;
            }
            let asks_again = match &mut one.target {
                Target::Asked(asking) if asking.again <= now => {
                    one.target = Target::Unknown;
                    false
                }
                Target::Known { expires, .. } if *expires <= now => {
                    one.target = Target::Unknown;
                    self.counters.aged += 1;
                    false
                }
                Target::Known { asking: Some(asking), .. } => asking.again <= now,
                _ => false,
            };
            if asks_again {
                let again = self.ask_for(now, mac, actions);
                if let Some(one) = self.destinations.get_mut(&mac)
                    && let Target::Known { asking, .. } = &mut one.target
                {
                    *asking = Some(again);
                }
            }
            self.advance(now, mac, actions);
            let gone = self.destinations.get(&mac).and_then(|one| one.gone_at(&times));
            if gone.is_some_and(|at| at <= now) {
                self.destinations.remove(&mac);
            }
        }
    }

    pub(super) fn data(&mut self, purpose: Purpose, unit: U, actions: &mut Vec<ClientAction<U>>) {
        let octets = unit.as_ref();
        let is_data = matches!(purpose, Purpose::MulticastForward | Purpose::DataDirect);
        let fits = octets.len() <= usize::from(self.joined.size.octets());
        let Ok(data) = Data::parse(octets) else {
            self.counters.malformed += 1;
            return;
        };
        if !is_data || !fits || self.state != State::Operational {
            self.counters.unexpected += 1;
            return;
        }
        // the BUS sends a frame to its sender too
        if purpose == Purpose::MulticastForward && data.lecid == self.joined.lecid {
            self.counters.own += 1;
            return;
        }
        let mac = data.destination();
        let is_own = self.stations.get(&mac).is_some_and(|one| *one != Registration::Unwanted);
        if !is_own && !self.config.proxy && mac.cast() == Cast::Unicast {
            self.counters.of_others += 1;
            return;
        }
        self.counters.delivered += 1;
        actions.push(ClientAction::Deliver(unit));
    }

    /// The path of frames to a station that is known.
    #[must_use]
    pub fn path(&self, mac: MacAddress) -> Option<Path> {
        self.destinations.get(&mac).map(|one| one.path)
    }

    /// The data-direct calls: the call, the client at its other end, and whether frames can be sent.
    pub fn directs(&self) -> impl Iterator<Item = (Call, AtmAddress, bool)> + '_ {
        self.directs.all()
    }
}
