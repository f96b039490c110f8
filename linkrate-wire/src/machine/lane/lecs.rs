//! The LAN Emulation configuration server: it tells a client the server of its ELAN.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Bucket, ServerAction, ServerEvent, TakenCalls};
use crate::atm::AtmAddress;
use crate::control::LaneControl;
use crate::control::lan_emulation::{FrameSize, LanType, Name, Operation, Status};
use crate::machine::Machine;
use crate::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};

/// An emulated LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elan {
    /// Its name, which no other ELAN has.
    pub name: Name,
    /// Its largest data frame.
    pub size: FrameSize,
    /// The address of its LES.
    pub les: AtmAddress,
}

/// The settings of a LECS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LecsConfig {
    /// The ELANs.
    pub elans: Vec<Elan>,
    /// The ELAN of clients that name none, by their ATM address.
    pub members: BTreeMap<AtmAddress, Name>,
    /// The ELAN of all others that name none.
    pub otherwise: Option<Name>,
    /// How long a call may stay (C7 of the client): 120 s.
    pub patience: Duration,
    /// Most calls at a time.
    pub most_calls: usize,
    /// Most answers in a second.
    pub most_answers: u32,
}

impl LecsConfig {
    /// For these ELANs. Clients must name one, or get the only one.
    #[must_use]
    pub fn new(elans: Vec<Elan>) -> Self {
        let otherwise = match elans[..] {
            [Elan { name, .. }] => Some(name),
            _ => None,
        };
        let patience = Duration::from_secs(120);
        let members = BTreeMap::new();
        Self { elans, members, otherwise, patience, most_calls: 1024, most_answers: 1000 }
    }
}

/// What a LECS counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LecsCounters {
    /// Requests that were granted.
    pub configured: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Units that are no requests to configure.
    pub malformed: u64,
    /// Requests that were dropped, because there were too many.
    pub dropped: u64,
}

/// The server.
#[derive(Debug, Clone)]
pub struct Lecs {
    config: LecsConfig,
    calls: TakenCalls,
    answers: Bucket,
    counters: LecsCounters,
}

impl Lecs {
    /// A server without calls.
    #[must_use]
    pub fn new(config: LecsConfig) -> Self {
        let calls = TakenCalls::new(Purpose::ConfigurationDirect, config.most_calls);
        let answers = Bucket::new(config.most_answers, Duration::from_secs(1));
        Self { config, calls, answers, counters: LecsCounters::default() }
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> LecsCounters {
        self.counters
    }

    /// The ELAN of a client, or why it has none.
    fn find(&self, from: AtmAddress, request: &LaneControl) -> Result<Elan, Status> {
        if request.source_atm != from {
            return Err(Status::ATM_ADDRESS);
        }
        let given = (!request.elan.octets().is_empty()).then_some(request.elan);
        let assigned = || self.config.members.get(&from).copied().or(self.config.otherwise);
        let name = given.or_else(assigned).ok_or(Status::NO_CONFIGURATION)?;
        let elan = self.config.elans.iter().find(|elan| elan.name == name);
        let elan = *elan.ok_or(Status::NO_CONFIGURATION)?;
        suits(request, elan.size).then_some(elan).ok_or(Status::PARAMETERS)
    }

    fn received(
        &mut self,
        now: Duration,
        call: Call,
        unit: &[u8],
        actions: &mut Vec<ServerAction>,
    ) {
        let Some(taken) = self.calls.get(call) else { return };
        let request = LaneControl::parse(unit)
            .ok()
            .filter(|frame| frame.operation == Operation::Configure && !frame.is_response);
        let Some(request) = request else {
            self.counters.malformed += 1;
            return;
        };
        if !self.answers.take(now) {
            self.counters.dropped += 1;
            return;
        }
        let frame = match self.find(taken.from, &request) {
            Ok(Elan { name, size, les }) => {
                self.counters.configured += 1;
                let lan = LanType::Ethernet;
                let answer = request.answered(Status::SUCCESS);
                LaneControl { lan, size, elan: name, target_atm: les, ..answer }
            }
            Err(status) => {
                self.counters.refused += 1;
                let (from, operation) = (taken.from, request.operation);
                actions.push(ServerAction::Refused { from, operation, status });
                request.answered(status)
            }
        };
        actions.push(ServerAction::Send { call, frame });
    }
}

/// Whether a client that asks so can be in an ELAN of this frame size.
pub(super) fn suits(request: &LaneControl, size: FrameSize) -> bool {
    let size_suits = request.size == FrameSize::Unspecified || request.size == size;
    size_suits && request.lan != LanType::TokenRing
}

impl Machine for Lecs {
    type Event = ServerEvent<Vec<u8>>;
    type Action = ServerAction;

    fn handle(&mut self, now: Duration, event: Self::Event, actions: &mut Vec<ServerAction>) {
        match event {
            ServerEvent::Call(PartyEvent::Offered { call, from, purpose }) => {
                let deadline = now + self.config.patience;
                let answer = self.calls.offered((call, from, purpose), deadline);
                actions.extend(answer.map(ServerAction::Call));
            }
            ServerEvent::Call(PartyEvent::Released { call, .. }) => {
                self.calls.remove(call);
            }
            ServerEvent::Call(PartyEvent::Connected(_)) => {}
            ServerEvent::Received { call, unit } => self.received(now, call, &unit, actions),
        }
    }

    fn due(&self) -> Option<Duration> {
        self.calls.due()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<ServerAction>) {
        for call in self.calls.expire(now) {
            let cause = Cause::Normal;
            actions.push(ServerAction::Call(PartyAction::Release { call, cause }));
        }
    }
}
