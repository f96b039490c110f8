//! The broadcast and unknown server: it sends each frame of a client to all clients.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use super::{ServerEvent, TakenCalls};
use crate::atm::AtmAddress;
use crate::control::lan_emulation::{self, FrameSize, Operation};
use crate::control::{Data, LaneControl};
use crate::machine::Machine;
use crate::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};

/// The settings of a BUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusConfig {
    /// The largest data frame of the ELAN.
    pub size: FrameSize,
    /// Most clients.
    pub most_clients: usize,
}

impl BusConfig {
    /// For an ELAN of this size.
    #[must_use]
    pub const fn new(size: FrameSize) -> Self {
        Self { size, most_clients: 1024 }
    }
}

/// What a BUS wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusAction<U> {
    /// Something about its calls.
    Call(PartyAction),
    /// Send this unit, as it came, by each of [`Bus::forwards`].
    Forward(U),
}

/// What a BUS counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusCounters {
    /// Data frames that it has sent on.
    pub frames: u64,
    /// Control frames that it has sent on: questions whether its path is empty.
    pub flushes: u64,
    /// Units that were dropped: too long, too short, or control frames that are not for a BUS.
    pub dropped: u64,
}

/// A client's connections.
#[derive(Debug, Clone, Copy)]
struct Forward {
    /// From the client.
    send: Call,
    remote: AtmAddress,
    is_open: bool,
}

/// The server.
#[derive(Debug, Clone)]
pub struct Bus<U> {
    config: BusConfig,
    sends: TakenCalls,
    forwards: BTreeMap<Call, Forward>,
    next_call: u32,
    counters: BusCounters,
    unit: PhantomData<fn(U)>,
}

impl<U: AsRef<[u8]>> Bus<U> {
    /// A server without clients.
    #[must_use]
    pub fn new(config: BusConfig) -> Self {
        let sends = TakenCalls::new(Purpose::MulticastSend, config.most_clients);
        let counters = BusCounters::default();
        let forwards = BTreeMap::new();
        Self { config, sends, forwards, next_call: 0, counters, unit: PhantomData }
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> &BusConfig {
        &self.config
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> BusCounters {
        self.counters
    }

    /// The calls to clients that are open.
    pub fn forwards(&self) -> impl Iterator<Item = Call> + '_ {
        self.forwards.iter().filter(|(_, forward)| forward.is_open).map(|(call, _)| *call)
    }

    /// The addresses of its clients.
    pub fn clients(&self) -> impl Iterator<Item = AtmAddress> + '_ {
        self.forwards.values().filter(|forward| forward.is_open).map(|forward| forward.remote)
    }

    fn called(&mut self, event: PartyEvent, actions: &mut Vec<BusAction<U>>) {
        match event {
            PartyEvent::Offered { call, from, purpose } => {
                let answer = self.sends.offered((call, from, purpose), Duration::ZERO);
                actions.extend(answer.map(BusAction::Call));
                if let Some(PartyAction::Accept(_)) = answer {
                    self.sends.keep(call);
                    let forward = Call::outgoing(self.next_call);
                    self.next_call = self.next_call.wrapping_add(1);
                    let entry = Forward { send: call, remote: from, is_open: false };
                    self.forwards.insert(forward, entry);
                    let (to, purpose) = (from, Purpose::MulticastForward);
                    let set_up = PartyAction::SetUp { call: forward, to, purpose };
                    actions.push(BusAction::Call(set_up));
                }
            }
            PartyEvent::Connected(call) => {
                if let Some(forward) = self.forwards.get_mut(&call) {
                    forward.is_open = true;
                }
            }
            PartyEvent::Released { call, .. } => self.released(call, actions),
        }
    }

    /// A client has one of its two connections no longer, so it loses the other one.
    fn released(&mut self, call: Call, actions: &mut Vec<BusAction<U>>) {
        let other = match self.forwards.remove(&call) {
            Some(forward) => self.sends.remove(forward.send).map(|_| forward.send),
            None => {
                self.sends.remove(call);
                let mut forwards = self.forwards.iter();
                let of_it = forwards.find(|(_, forward)| forward.send == call);
                let of_it = of_it.map(|(forward, _)| *forward);
                of_it.inspect(|forward| _ = self.forwards.remove(forward))
            }
        };
        if let Some(call) = other {
            let cause = Cause::Normal;
            actions.push(BusAction::Call(PartyAction::Release { call, cause }));
        }
    }

    fn received(&mut self, call: Call, unit: U, actions: &mut Vec<BusAction<U>>) {
        let octets = unit.as_ref();
        let is_client = self.sends.get(call).is_some();
        let is_flush = lan_emulation::is_control(octets)
            && LaneControl::parse(octets)
                .is_ok_and(|frame| frame.operation == Operation::Flush && !frame.is_response);
        let fits = octets.len() <= usize::from(self.config.size.octets());
        let is_data = !lan_emulation::is_control(octets) && fits && Data::parse(octets).is_ok();
        if !is_client || !is_flush && !is_data {
            self.counters.dropped += 1;
            return;
        }
        self.counters.frames += u64::from(is_data);
        self.counters.flushes += u64::from(is_flush);
        actions.push(BusAction::Forward(unit));
    }
}

impl<U: AsRef<[u8]>> Machine for Bus<U> {
    type Event = ServerEvent<U>;
    type Action = BusAction<U>;

    fn handle(&mut self, _now: Duration, event: ServerEvent<U>, actions: &mut Vec<BusAction<U>>) {
        match event {
            ServerEvent::Call(event) => self.called(event, actions),
            ServerEvent::Received { call, unit } => self.received(call, unit, actions),
        }
    }

    fn due(&self) -> Option<Duration> {
        None
    }

    fn poll(&mut self, _now: Duration, _actions: &mut Vec<BusAction<U>>) {}
}
