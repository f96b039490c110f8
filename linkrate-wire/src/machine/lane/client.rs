//! A LAN Emulation client.
//!
//! ```text
//!  Stopped ─▶ Initial ─▶ Configuring ─▶ Joining ─▶ Registering ─▶ Connecting ─▶ Operational
//!                ▲       (LECS)         (LES)      (LES)          (BUS)             │
//!                └────────────── a server refuses, is silent, or is lost ◀──────────┘
//! ```

mod answer;
mod cache;
mod direct;
mod join;
mod path;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use cache::Path;
pub use status::{Cached, ClientCounters};

use super::{Bucket, Times};
use crate::atm::AtmAddress;
use crate::control::lan_emulation::{FrameSize, Lecid, Name, Operation, Status};
use crate::control::{LaneControl, lan_emulation};
use crate::frame::MacAddress;
use crate::machine::Machine;
use crate::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};
use cache::Destination;
use direct::Directs;
use join::Question;

/// Most Ethernet addresses that a client registers, or has behind its bridge.
const MAX_STATIONS: usize = 4096;

/// Frames that a client answers or that others make it send: so many in a second.
const ANSWERS: u32 = 500;

/// Where a client learns the server of its ELAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configuration {
    /// From the LECS with this address.
    Lecs(AtmAddress),
    /// It is set: the address of the LES.
    Les(AtmAddress),
}

/// The settings of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientConfig {
    /// Its ATM address.
    pub atm: AtmAddress,
    /// Its first Ethernet address.
    pub mac: MacAddress,
    /// Where it learns its server.
    pub configuration: Configuration,
    /// The name of its ELAN; empty where the LECS chooses by the ATM address.
    pub elan: Name,
    /// The largest data frame that it wants; [`FrameSize::Unspecified`] for that of the ELAN.
    pub size: FrameSize,
    /// It is a bridge, which answers for the stations behind it.
    pub proxy: bool,
    /// Its times.
    pub times: Times,
    /// Most data-direct connections.
    pub most_directs: usize,
}

impl ClientConfig {
    /// A client with the times of LANE 1.0 that takes the ELAN it is given.
    #[must_use]
    pub fn new(atm: AtmAddress, mac: MacAddress, configuration: Configuration) -> Self {
        let (elan, size) = (Name::default(), FrameSize::Unspecified);
        let (proxy, times, most_directs) = (false, Times::default(), 1024);
        Self { atm, mac, configuration, elan, size, proxy, times, most_directs }
    }
}

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It was not started, or was stopped.
    Stopped,
    /// It waits before it begins again.
    Initial,
    /// It asks the LECS.
    Configuring,
    /// It joins the ELAN.
    Joining,
    /// It registers its other addresses.
    Registering,
    /// It connects to the BUS.
    Connecting,
    /// It carries frames.
    Operational,
}

/// Why a client went back to its initial state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A server refused.
    Refused {
        /// What the client had asked for.
        operation: Operation,
        /// The status of the answer.
        status: Status,
    },
    /// An answer contradicts the question, or the settings.
    Contradiction(Operation),
    /// No server answered in time.
    TimeOut,
    /// A connection to a server did not come about, or was lost.
    Call {
        /// The connection.
        purpose: Purpose,
        /// Why.
        cause: Cause,
    },
}

/// What happens to a client. `U` is a frame or a unit, which the machine hands on as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent<U> {
    /// Join the ELAN, and again whenever it is lost.
    Start,
    /// Leave the ELAN.
    Stop,
    /// Something about its calls.
    Call(PartyEvent),
    /// An AAL5 unit came.
    Received {
        /// The call that it came by.
        call: Call,
        /// The unit.
        unit: U,
    },
    /// The host sends this Ethernet frame, without FCS.
    Frame(U),
    /// The host has one more Ethernet address.
    Register(MacAddress),
    /// The host has one less.
    Unregister(MacAddress),
    /// A station is behind the bridge of this proxy.
    Behind(MacAddress),
    /// It is there no longer.
    NotBehind(MacAddress),
    /// The topology of the bridge behind this proxy changes, or no longer does.
    Topology {
        /// It changes.
        changing: bool,
    },
}

/// What a client wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAction<U> {
    /// Something about its calls.
    Call(PartyAction),
    /// Send a control frame.
    Send {
        /// The call to send it by.
        call: Call,
        /// The frame.
        frame: LaneControl,
    },
    /// Send an Ethernet frame as a data frame with [`Client::lecid`]:
    /// [`lane_data`](crate::control::lane_data) has the octets before and behind it.
    Transmit {
        /// The call to send it by.
        call: Call,
        /// The Ethernet frame.
        frame: U,
    },
    /// This unit is a data frame for the host: hand over the Ethernet frame in it.
    Deliver(U),
    /// The state has changed.
    Changed {
        /// The state before.
        from: State,
        /// The state now.
        to: State,
        /// Why it fell back.
        reason: Option<Reason>,
    },
    /// The server has not taken an Ethernet address.
    NotRegistered {
        /// The address.
        mac: MacAddress,
        /// Why.
        status: Status,
    },
}

#[derive(Debug, Clone, Copy)]
struct Link {
    call: Call,
    is_open: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Links {
    configuration: Option<Link>,
    control: Option<Link>,
    distribute: Option<Link>,
    send: Option<Link>,
    forward: Option<Link>,
}

impl Links {
    fn each(&mut self) -> [(Purpose, &mut Option<Link>); 5] {
        [
            (Purpose::ConfigurationDirect, &mut self.configuration),
            (Purpose::ControlDirect, &mut self.control),
            (Purpose::ControlDistribute, &mut self.distribute),
            (Purpose::MulticastSend, &mut self.send),
            (Purpose::MulticastForward, &mut self.forward),
        ]
    }

    fn purpose(&mut self, call: Call) -> Option<Purpose> {
        let is_it = |link: &Option<Link>| link.is_some_and(|link| link.call == call);
        self.each().into_iter().find(|(_, link)| is_it(link)).map(|(purpose, _)| purpose)
    }
}

/// Whether the server has an Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    /// Not yet.
    Wanted,
    Done,
    /// It is to forget it.
    Unwanted,
}

/// What the servers have told.
#[derive(Debug, Clone, Copy)]
struct Joined {
    lecid: Lecid,
    elan: Name,
    size: FrameSize,
    les: AtmAddress,
    bus: AtmAddress,
}

/// A client.
#[derive(Debug, Clone)]
pub struct Client<U> {
    config: ClientConfig,
    state: State,
    /// When the state is given up, or in the initial state, when it ends.
    deadline: Option<Duration>,
    /// The time of the next initial state.
    pause: Duration,
    question: Option<Question>,
    joined: Joined,
    links: Links,
    /// Own Ethernet addresses.
    stations: BTreeMap<MacAddress, Registration>,
    behind: BTreeSet<MacAddress>,
    topology_changes: bool,
    directs: Directs,
    destinations: BTreeMap<MacAddress, Destination<U>>,
    /// Frames that wait, of all destinations.
    held: usize,
    answers: Bucket,
    next_call: u32,
    next_transaction: u32,
    counters: ClientCounters,
    /// When `poll` is due.
    wake: Option<Duration>,
}

impl<U: AsRef<[u8]>> Client<U> {
    /// A client that is stopped.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let joined = Joined {
            lecid: 0,
            elan: config.elan,
            size: config.size,
            les: AtmAddress::UNKNOWN,
            bus: AtmAddress::UNKNOWN,
        };
        Self {
            config,
            state: State::Stopped,
            deadline: None,
            pause: join::FIRST_PAUSE,
            question: None,
            joined,
            links: Links::default(),
            stations: BTreeMap::from([(config.mac, Registration::Wanted)]),
            behind: BTreeSet::new(),
            topology_changes: false,
            directs: Directs::default(),
            destinations: BTreeMap::new(),
            held: 0,
            answers: Bucket::new(ANSWERS, Duration::from_secs(1)),
            next_call: 0,
            next_transaction: 0,
            counters: ClientCounters::default(),
            wake: None,
        }
    }

    fn begin(
        &mut self,
        to: AtmAddress,
        purpose: Purpose,
        actions: &mut Vec<ClientAction<U>>,
    ) -> Call {
        let call = Call::outgoing(self.next_call);
        self.next_call = self.next_call.wrapping_add(1);
        actions.push(ClientAction::Call(PartyAction::SetUp { call, to, purpose }));
        call
    }

    fn release(call: Call, cause: Cause, actions: &mut Vec<ClientAction<U>>) {
        actions.push(ClientAction::Call(PartyAction::Release { call, cause }));
    }

    /// A control frame of this client: a request with a transaction of its own.
    fn ask(&mut self, operation: Operation) -> LaneControl {
        let transaction = self.next_transaction;
        self.next_transaction = transaction.wrapping_add(1);
        let (requester, source_atm) = (self.joined.lecid, self.config.atm);
        LaneControl { transaction, requester, source_atm, ..LaneControl::request(operation) }
    }

    fn called(&mut self, now: Duration, event: PartyEvent, actions: &mut Vec<ClientAction<U>>) {
        match event {
            PartyEvent::Connected(call) => match self.links.purpose(call) {
                Some(purpose) => self.connected(now, purpose, actions),
                None => self.direct_connected(now, call, actions),
            },
            PartyEvent::Offered { call, from, purpose } => {
                let answer = match self.offered(now, call, from, purpose) {
                    Ok(()) => PartyAction::Accept(call),
                    Err(cause) => PartyAction::Release { call, cause },
                };
                actions.push(ClientAction::Call(answer));
                self.is_connected(now, actions);
            }
            PartyEvent::Released { call, cause } => match self.links.purpose(call) {
                Some(purpose) => {
                    self.forget(purpose);
                    self.fail(now, Reason::Call { purpose, cause }, actions);
                }
                None => self.direct_released(now, call, actions),
            },
        }
    }

    /// Another party calls.
    fn offered(
        &mut self,
        now: Duration,
        call: Call,
        from: AtmAddress,
        purpose: Purpose,
    ) -> Result<(), Cause> {
        let Joined { les, bus, .. } = self.joined;
        let link = Some(Link { call, is_open: true });
        let may_join = self.state >= State::Joining && from == les;
        let may_connect = self.state >= State::Connecting && from == bus;
        match purpose {
            Purpose::ControlDistribute if may_join && self.links.distribute.is_none() => {
                self.links.distribute = link;
            }
            Purpose::MulticastForward if may_connect && self.links.forward.is_none() => {
                self.links.forward = link;
            }
            Purpose::DataDirect if self.state == State::Operational => {
                if self.directs.len() >= self.config.most_directs {
                    return Err(Cause::Busy);
                }
                self.directs.offered(now, call, from, &self.config.times);
            }
            _ => return Err(Cause::Rejected),
        }
        Ok(())
    }

    fn forget(&mut self, purpose: Purpose) {
        for (of, link) in self.links.each() {
            if of == purpose {
                *link = None;
            }
        }
    }

    fn received(&mut self, now: Duration, call: Call, unit: U, actions: &mut Vec<ClientAction<U>>) {
        let purpose = match self.links.purpose(call) {
            Some(purpose) => purpose,
            None if self.directs.heard(now, call) => Purpose::DataDirect,
            None => {
                self.counters.unexpected += 1;
                return;
            }
        };
        if !lan_emulation::is_control(unit.as_ref()) {
            self.data(purpose, unit, actions);
            return;
        }
        match LaneControl::parse(unit.as_ref()) {
            Ok(frame) => self.control(now, (call, purpose), frame, actions),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Something has happened that was not only a frame on its known path.
    fn settle(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        if self.directs.take_changed() {
            self.advance_all(now, actions);
        }
        self.set_wake();
    }

    fn set_wake(&mut self) {
        let question = self.question.as_ref().map(|question| question.again);
        let times = &self.config.times;
        let destinations = self.destinations.values().filter_map(|one| one.due(times));
        let directs = self.directs.due(times);
        let own = [self.deadline, question, directs].into_iter().flatten();
        self.wake = own.chain(destinations).min();
    }
}

impl<U: AsRef<[u8]>> Machine for Client<U> {
    type Event = ClientEvent<U>;
    type Action = ClientAction<U>;

    fn handle(&mut self, now: Duration, event: ClientEvent<U>, actions: &mut Vec<ClientAction<U>>) {
        match event {
            ClientEvent::Frame(frame) => {
                if self.frame(now, frame, actions) {
                    self.set_wake();
                }
                return;
            }
            ClientEvent::Received { call, unit } => {
                let is_control = lan_emulation::is_control(unit.as_ref());
                self.received(now, call, unit, actions);
                if !is_control && !self.directs.is_changed() {
                    return;
                }
            }
            ClientEvent::Call(event) => self.called(now, event, actions),
            ClientEvent::Start => self.start(now, actions),
            ClientEvent::Stop => self.stop(actions),
            ClientEvent::Register(mac) => self.register(now, mac, actions),
            ClientEvent::Unregister(mac) => self.unregister(now, mac, actions),
            ClientEvent::Behind(mac) => {
                if self.config.proxy && self.behind.len() < MAX_STATIONS {
                    self.behind.insert(mac);
                }
            }
            ClientEvent::NotBehind(mac) => {
                self.behind.remove(&mac);
            }
            ClientEvent::Topology { changing } => self.tell_topology(changing, actions),
        }
        self.settle(now, actions);
    }

    fn due(&self) -> Option<Duration> {
        self.wake
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        self.poll_join(now, actions);
        self.poll_directs(now, actions);
        self.poll_destinations(now, actions);
        self.settle(now, actions);
    }
}
