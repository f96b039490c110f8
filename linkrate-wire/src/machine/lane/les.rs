//! The server of an ELAN: clients join it, and it knows the ATM address of each station.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lecs::suits;
use super::{Bucket, ServerAction, ServerEvent, TakenCalls};
use crate::atm::AtmAddress;
use crate::control::LaneControl;
use crate::control::lan_emulation::{
    Destination, Flags, FrameSize, LanType, Lecid, MARKER, Name, Operation, Status,
};
use crate::frame::Cast;
use crate::frame::MacAddress;
use crate::machine::Machine;
use crate::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};

/// The settings of a LES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LesConfig {
    /// The name of the ELAN.
    pub elan: Name,
    /// Its largest data frame.
    pub size: FrameSize,
    /// The address of its BUS.
    pub bus: AtmAddress,
    /// How long a party may take to join (C7 of the client): 120 s.
    pub patience: Duration,
    /// Most clients.
    pub most_clients: usize,
    /// Most stations of a client.
    pub most_stations: usize,
    /// Most frames of a client in a second that the server answers or sends on.
    pub most_frames: u32,
}

impl LesConfig {
    /// For an ELAN with this BUS.
    #[must_use]
    pub const fn new(elan: Name, size: FrameSize, bus: AtmAddress) -> Self {
        let patience = Duration::from_secs(120);
        let (most_clients, most_stations, most_frames) = (1024, 4096, 500);
        Self { elan, size, bus, patience, most_clients, most_stations, most_frames }
    }
}

/// What a LES counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LesCounters {
    /// Clients that joined.
    pub joined: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Questions for an address that the server answered.
    pub answered: u64,
    /// Questions that it sent on to the proxies.
    pub asked_proxies: u64,
    /// Other frames that it sent on to clients.
    pub forwarded: u64,
    /// Frames that were dropped, because a client sent too many.
    pub dropped: u64,
    /// Units that are no control frames.
    pub malformed: u64,
    /// Frames that contradict their sender, or that no client sends to a server.
    pub unexpected: u64,
}

/// A client of the ELAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its identifier.
    pub lecid: Lecid,
    /// Its ATM address.
    pub atm: AtmAddress,
    /// It answers for the stations behind it.
    pub is_proxy: bool,
    /// The stations that it has registered.
    pub stations: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    member: Member,
    control: Call,
    distribute: Call,
    /// The answer to its request to join, until what is distributed reaches it.
    joining: Option<LaneControl>,
    frames: Bucket,
}

/// The server.
#[derive(Debug, Clone)]
pub struct Les {
    config: LesConfig,
    calls: TakenCalls,
    clients: BTreeMap<Lecid, Entry>,
    stations: BTreeMap<MacAddress, Lecid>,
    next_lecid: Lecid,
    next_call: u32,
    counters: LesCounters,
}

impl Les {
    /// A server without clients.
    #[must_use]
    pub fn new(config: LesConfig) -> Self {
        Self {
            config,
            calls: TakenCalls::new(Purpose::ControlDirect, config.most_clients),
            clients: BTreeMap::new(),
            stations: BTreeMap::new(),
            next_lecid: 1,
            next_call: 0,
            counters: LesCounters::default(),
        }
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> &LesConfig {
        &self.config
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> LesCounters {
        self.counters
    }

    /// The clients that have joined.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.clients.values().map(|entry| entry.member)
    }

    /// The stations, with the ATM addresses of their clients.
    pub fn stations(&self) -> impl Iterator<Item = (MacAddress, AtmAddress)> + '_ {
        self.stations.iter().filter_map(|(mac, lecid)| {
            self.clients.get(lecid).map(|entry| (*mac, entry.member.atm))
        })
    }

    fn client_at(&self, control: Call) -> Option<Lecid> {
        let mut clients = self.clients.iter();
        clients.find(|(_, entry)| entry.control == control).map(|(lecid, _)| *lecid)
    }

    fn remove(&mut self, lecid: Lecid) -> Option<Entry> {
        self.stations.retain(|_, of| *of != lecid);
        self.clients.remove(&lecid)
    }

    fn release(call: Call, actions: &mut Vec<ServerAction>) {
        let cause = Cause::Normal;
        actions.push(ServerAction::Call(PartyAction::Release { call, cause }));
    }

    fn called(&mut self, now: Duration, event: PartyEvent, actions: &mut Vec<ServerAction>) {
        match event {
            PartyEvent::Offered { call, from, purpose } => {
                let deadline = now + self.config.patience;
                let answer = self.calls.offered((call, from, purpose), deadline);
                actions.extend(answer.map(ServerAction::Call));
            }
            PartyEvent::Connected(call) => {
                let mut clients = self.clients.values_mut();
                let Some(entry) = clients.find(|entry| entry.distribute == call) else { return };
                if let Some(frame) = entry.joining.take() {
                    let call = entry.control;
                    self.calls.keep(call);
                    self.counters.joined += 1;
                    actions.push(ServerAction::Send { call, frame });
                }
            }
            PartyEvent::Released { call, .. } => {
                self.calls.remove(call);
                let mut clients = self.clients.iter();
                let of = clients.find(|(_, one)| one.control == call || one.distribute == call);
                let Some(entry) = of.map(|(lecid, _)| *lecid).and_then(|one| self.remove(one))
                else {
                    return;
                };
                for other in [entry.control, entry.distribute] {
                    self.calls.remove(other);
                    if other != call {
                        Self::release(other, actions);
                    }
                }
            }
        }
    }

    fn received(
        &mut self,
        now: Duration,
        call: Call,
        unit: &[u8],
        actions: &mut Vec<ServerAction>,
    ) {
        let Some(taken) = self.calls.get(call) else { return };
        let Ok(frame) = LaneControl::parse(unit) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(lecid) = self.client_at(call) else {
            return self.join((call, taken.from), &frame, actions);
        };
        let Some(entry) = self.clients.get_mut(&lecid) else { return };
        if !entry.frames.take(now) {
            self.counters.dropped += 1;
            return;
        }
        let from = (call, lecid);
        match (frame.operation, frame.is_response) {
            (Operation::Join, false) => self.join_again(from, &frame, actions),
            (Operation::Register | Operation::Unregister, false) => {
                let status = self.stations_change(lecid, &frame).err();
                self.answer((call, taken.from), frame, status, actions);
            }
            (Operation::Arp, false) => self.asked(from, &frame, actions),
            (Operation::NegativeArp | Operation::Topology, false) => {
                self.tell_all(lecid, &frame, actions);
            }
            (Operation::Arp | Operation::Flush, true) => self.pass_on(lecid, &frame, actions),
            _ => self.counters.unexpected += 1,
        }
    }

    fn answer(
        &mut self,
        (call, from): (Call, AtmAddress),
        request: LaneControl,
        refused: Option<Status>,
        actions: &mut Vec<ServerAction>,
    ) {
        let status = refused.unwrap_or(Status::SUCCESS);
        if refused.is_some() {
            self.counters.refused += 1;
            let operation = request.operation;
            actions.push(ServerAction::Refused { from, operation, status });
        }
        let frame = request.answered(status);
        actions.push(ServerAction::Send { call, frame });
    }

    /// A party that is no client yet asks for something.
    fn join(
        &mut self,
        (control, from): (Call, AtmAddress),
        request: &LaneControl,
        actions: &mut Vec<ServerAction>,
    ) {
        if request.operation != Operation::Join || request.is_response {
            self.counters.unexpected += 1;
            return;
        }
        let (lecid, mac) = match self.admit(from, request) {
            Ok(admitted) => admitted,
            Err(status) => {
                return self.answer((control, from), *request, Some(status), actions);
            }
        };
        self.next_lecid = lecid + 1;
        let distribute = Call::outgoing(self.next_call);
        self.next_call = self.next_call.wrapping_add(1);
        let is_proxy = request.flags.has(Flags::PROXY);
        let stations = usize::from(mac.is_some());
        let entry = Entry {
            member: Member { lecid, atm: from, is_proxy, stations },
            control,
            distribute,
            joining: Some(self.joined(lecid, request)),
            frames: Bucket::new(self.config.most_frames, Duration::from_secs(1)),
        };
        self.clients.insert(lecid, entry);
        if let Some(mac) = mac {
            self.stations.insert(mac, lecid);
        }
        let (call, to, purpose) = (distribute, from, Purpose::ControlDistribute);
        actions.push(ServerAction::Call(PartyAction::SetUp { call, to, purpose }));
    }

    /// The identifier and first station of a party that joins, or why it may not.
    fn admit(
        &self,
        from: AtmAddress,
        request: &LaneControl,
    ) -> Result<(Lecid, Option<MacAddress>), Status> {
        if request.source_atm != from {
            return Err(Status::ATM_ADDRESS);
        }
        let named = !request.elan.octets().is_empty();
        if !suits(request, self.config.size) || named && request.elan != self.config.elan {
            return Err(Status::PARAMETERS);
        }
        if self.clients.values().any(|entry| entry.member.atm == from) {
            return Err(Status::DUPLICATE_ATM);
        }
        let mac = match request.source {
            Destination::Absent => None,
            Destination::Mac(mac) => Some(self.may_have(mac)?),
            Destination::Route(_) => return Err(Status::DESTINATION),
        };
        if self.clients.len() >= self.config.most_clients {
            return Err(Status::RESOURCES);
        }
        let free = |lecid: &Lecid| (1..MARKER).contains(lecid) && !self.clients.contains_key(lecid);
        let lecid = (self.next_lecid..MARKER).chain(1..self.next_lecid).find(free);
        Ok((lecid.ok_or(Status::RESOURCES)?, mac))
    }

    /// A station that no client has.
    fn may_have(&self, mac: MacAddress) -> Result<MacAddress, Status> {
        if mac.cast() != Cast::Unicast || mac == MacAddress::UNKNOWN {
            return Err(Status::DESTINATION);
        }
        if self.stations.contains_key(&mac) {
            return Err(Status::DUPLICATE_DESTINATION);
        }
        Ok(mac)
    }

    fn joined(&self, lecid: Lecid, request: &LaneControl) -> LaneControl {
        let LesConfig { elan, size, .. } = self.config;
        let lan = LanType::Ethernet;
        LaneControl { requester: lecid, elan, size, lan, ..request.answered(Status::SUCCESS) }
    }

    /// A client has not heard the answer.
    fn join_again(
        &mut self,
        (call, lecid): (Call, Lecid),
        request: &LaneControl,
        actions: &mut Vec<ServerAction>,
    ) {
        let frame = self.joined(lecid, request);
        let Some(entry) = self.clients.get_mut(&lecid) else { return };
        if entry.joining.is_some() {
            entry.joining = Some(frame);
        } else {
            actions.push(ServerAction::Send { call, frame });
        }
    }

    fn stations_change(&mut self, lecid: Lecid, request: &LaneControl) -> Result<(), Status> {
        let Destination::Mac(mac) = request.source else { return Err(Status::DESTINATION) };
        let Some(entry) = self.clients.get(&lecid) else { return Err(Status::REQUESTER) };
        if request.requester != lecid {
            return Err(Status::REQUESTER);
        }
        if request.source_atm != entry.member.atm {
            return Err(Status::ATM_ADDRESS);
        }
        let holder = self.stations.get(&mac).copied();
        if request.operation == Operation::Unregister {
            // one that is not registered is as wanted
            match holder {
                Some(of) if of != lecid => return Err(Status::DUPLICATE_DESTINATION),
                Some(_) => _ = self.stations.remove(&mac),
                None => {}
            }
        } else if holder != Some(lecid) {
            if entry.member.stations >= self.config.most_stations {
                return Err(Status::RESOURCES);
            }
            self.stations.insert(self.may_have(mac)?, lecid);
        }
        let stations = self.stations.values().filter(|of| **of == lecid).count();
        if let Some(entry) = self.clients.get_mut(&lecid) {
            entry.member.stations = stations;
        }
        Ok(())
    }

    /// A client asks for the ATM address of a station.
    fn asked(
        &mut self,
        (call, lecid): (Call, Lecid),
        request: &LaneControl,
        actions: &mut Vec<ServerAction>,
    ) {
        let Some(entry) = self.clients.get(&lecid) else { return };
        let is_honest = request.requester == lecid && request.source_atm == entry.member.atm;
        let (Destination::Mac(mac), true) = (request.target, is_honest) else {
            self.counters.unexpected += 1;
            return;
        };
        let known = match mac.cast() {
            Cast::Unicast => self.stations.get(&mac).and_then(|of| self.clients.get(of)),
            _ => {
                return self.tell(call, request, self.config.bus, actions);
            }
        };
        if let Some(atm) = known.map(|entry| entry.member.atm) {
            return self.tell(call, request, atm, actions);
        }
        self.counters.asked_proxies += 1;
        let others = self.clients.values().filter(|other| other.member.lecid != lecid);
        let proxies = others.filter(|other| other.member.is_proxy && other.joining.is_none());
        let frame = *request;
        actions.extend(proxies.map(|other| ServerAction::Send { call: other.distribute, frame }));
    }

    fn tell(
        &mut self,
        call: Call,
        request: &LaneControl,
        target_atm: AtmAddress,
        actions: &mut Vec<ServerAction>,
    ) {
        self.counters.answered += 1;
        let frame = LaneControl { target_atm, ..request.answered(Status::SUCCESS) };
        actions.push(ServerAction::Send { call, frame });
    }

    /// A client tells all others that a station has moved, as any client may (LE_NARP_REQUEST of LANE 1.0), or that its topology
    /// changes, as bridges do.
    fn tell_all(&mut self, lecid: Lecid, frame: &LaneControl, actions: &mut Vec<ServerAction>) {
        let Some(entry) = self.clients.get(&lecid) else { return };
        let is_honest = frame.requester == lecid && frame.source_atm == entry.member.atm;
        let may_tell = entry.member.is_proxy || frame.operation == Operation::NegativeArp;
        if !is_honest || !may_tell {
            self.counters.unexpected += 1;
            return;
        }
        self.counters.forwarded += 1;
        let others = self.clients.values().filter(|other| other.member.lecid != lecid);
        let ready = others.filter(|other| other.joining.is_none());
        let sent = ready.map(|other| ServerAction::Send { call: other.distribute, frame: *frame });
        actions.extend(sent);
    }

    /// A client answers another one, which asked by way of the server or of the BUS.
    fn pass_on(&mut self, lecid: Lecid, frame: &LaneControl, actions: &mut Vec<ServerAction>) {
        let Some(entry) = self.clients.get(&lecid) else { return };
        // a client answers for itself, and only a proxy for stations that are not registered
        let is_own = frame.target_atm == entry.member.atm;
        let is_honest = match (frame.operation, frame.target) {
            (Operation::Arp, Destination::Mac(mac)) => match self.stations.get(&mac) {
                Some(of) => *of == lecid,
                // the server alone tells the address of the BUS
                None => entry.member.is_proxy && mac.cast() == Cast::Unicast,
            },
            (operation, _) => operation == Operation::Flush,
        };
        let asker = self
            .clients
            .get(&frame.requester)
            .filter(|asker| asker.joining.is_none() && asker.member.atm == frame.source_atm);
        let Some(asker) = asker.filter(|_| is_own && is_honest) else {
            self.counters.unexpected += 1;
            return;
        };
        self.counters.forwarded += 1;
        actions.push(ServerAction::Send { call: asker.control, frame: *frame });
    }
}

impl Machine for Les {
    type Event = ServerEvent<Vec<u8>>;
    type Action = ServerAction;

    fn handle(&mut self, now: Duration, event: Self::Event, actions: &mut Vec<ServerAction>) {
        match event {
            ServerEvent::Call(event) => self.called(now, event, actions),
            ServerEvent::Received { call, unit } => self.received(now, call, &unit, actions),
        }
    }

    fn due(&self) -> Option<Duration> {
        self.calls.due()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<ServerAction>) {
        for call in self.calls.expire(now) {
            Self::release(call, actions);
            // one whose connection for what is distributed never came
            if let Some(entry) = self.client_at(call).and_then(|lecid| self.remove(lecid)) {
                Self::release(entry.distribute, actions);
            }
        }
    }
}
