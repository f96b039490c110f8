//! The client of an emulated LAN in an ATM port (LANE 1.0): frames of its host take the connections
//! that its calls have.
//!
//! The client is a machine without I/O (`linkrate_wire::machine::lane`). [`Lane`] gives it the messages
//! about its calls and the units of its connections, and says what is to be sent by which connection.
//! Connections come and go: the switch names their VPI and VCI when a call is open. A port
//! (`device/atm/lane.rs`) has a client for its host, a bridge (`fabric/bridged.rs`) one for the stations
//! behind it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use linkrate_model::lab::{LaneReport, LaneStationReport};
use linkrate_model::model::Encapsulation;
use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::control::lan_emulation::{FrameSize, Name};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};
use linkrate_wire::machine::lane::{
    Cached, Client, ClientAction, ClientConfig, ClientEvent, Configuration, Path, Reason, State,
};

use super::assembly::Received;
use crate::cells::Unit;
use crate::clock::time;
use crate::counters::LaneCounters;
use crate::frame::WireFrame;
use crate::lane_unit::LaneUnit;
use crate::pdu::Signal;

/// The well-known address of the LECS (LANE 1.0, 5.2.1.2).
pub const LECS: AtmAddress =
    AtmAddress([0x47, 0, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa0, 0x3e, 0, 0, 1, 0]);

/// Time to the next attempt to register an ATM address that another port has.
const AGAIN: Duration = Duration::from_secs(5);

/// A port that is a client of an emulated LAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStation {
    pub atm: AtmAddress,
    /// The Ethernet address of its host's interface.
    pub mac: MacAddress,
    /// The largest data frame that it takes. An ELAN of another size refuses it.
    pub size: FrameSize,
    /// The name of its ELAN, up to 32 bytes; empty for the one that the LECS chooses.
    pub elan: String,
}

impl LaneStation {
    /// The client of a model's ports, whose addresses are still to be given; `None` with Classical IP.
    #[must_use]
    pub fn of(encapsulation: Encapsulation) -> Option<Self> {
        let size = FrameSize::of(encapsulation.emulated_octets()?)?;
        let (atm, mac, elan) = (AtmAddress::UNKNOWN, MacAddress::UNKNOWN, String::new());
        Some(Self { atm, mac, size, elan })
    }
}

#[derive(Debug, Default)]
pub(crate) struct LaneShared {
    pub(crate) counters: LaneCounters,
    report: Mutex<LaneReport>,
}

impl LaneShared {
    pub(crate) fn report(&self) -> LaneReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a message of the switch changes in the connections of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// A call for this use, to or from this end system, has a connection.
    Opened(Connection, Purpose, AtmAddress),
    Closed(Connection),
    /// All are no more.
    Cleared,
}

/// What a client wants sent, or handed to its host.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// By this connection; `None` where the call is over, and its client hears of it soon.
    Unit(Option<(Connection, Unit)>),
    /// The Ethernet frame in a data frame.
    Frame(LaneUnit),
}

/// A client, of a port or of a bridge.
#[derive(Debug)]
pub(crate) struct Lane {
    client: Client<LaneUnit>,
    /// The use and the other end of each call.
    calls: BTreeMap<Call, (Purpose, AtmAddress)>,
    /// The connections of open calls.
    open: BTreeMap<Call, Connection>,
    /// What the client wants, and that has to wait for the next turn to send.
    actions: Vec<ClientAction<LaneUnit>>,
    /// Messages to the switch that have to wait as well.
    signals: Vec<Signal>,
    /// When the switch is to hear the address; `None` once it has.
    register: Option<Duration>,
    fell_back: Option<String>,
    /// The latest time that the client has seen.
    now: Duration,
    /// Something is to be shown again.
    changed: bool,
}

impl Lane {
    pub(crate) fn new(station: &LaneStation) -> Self {
        Self::with(station, false)
    }

    /// The client of a bridge: a proxy for the stations behind it.
    pub(crate) fn bridging(station: &LaneStation) -> Self {
        Self::with(station, true)
    }

    fn with(station: &LaneStation, proxy: bool) -> Self {
        let LaneStation { atm, mac, size, elan } = station;
        let config = ClientConfig {
            size: *size,
            elan: Name::new(elan).unwrap_or_default(),
            proxy,
            ..ClientConfig::new(*atm, *mac, Configuration::Lecs(LECS))
        };
        Self {
            client: Client::new(config),
            calls: BTreeMap::new(),
            open: BTreeMap::new(),
            actions: Vec::new(),
            signals: Vec::new(),
            register: Some(Duration::ZERO),
            fell_back: None,
            now: Duration::ZERO,
            changed: true,
        }
    }

    pub(crate) fn address(&self) -> AtmAddress {
        self.client.config().atm
    }

    /// Octets of the longest unit that its connections carry.
    pub(crate) fn longest(&self) -> usize {
        usize::from(self.client.config().size.octets())
    }

    /// An event of the client at `at_ps`. What it wants waits.
    pub(crate) fn handle(&mut self, at_ps: u64, event: ClientEvent<LaneUnit>) {
        self.now = self.now.max(time(at_ps));
        self.changed |= matches!(event, ClientEvent::Behind(_) | ClientEvent::NotBehind(_));
        self.client.handle(self.now, event, &mut self.actions);
    }

    /// When it must be called again.
    pub(crate) fn due_ps(&self, has_carrier: bool) -> Option<u64> {
        if !self.actions.is_empty() || !self.signals.is_empty() {
            return Some(0);
        }
        let register = self.register.filter(|_| has_carrier);
        let due = self.client.due().into_iter().chain(register).min();
        due.map(|due| due.as_nanos() as u64 * 1000)
    }

    /// All calls are over, for a reason. The client begins again in `pause`.
    pub(crate) fn cleared(&mut self, at_ps: u64, why: &str, pause: Duration) {
        self.handle(at_ps, ClientEvent::Stop);
        // nobody is there to be told
        self.actions.clear();
        self.signals.clear();
        self.open.clear();
        self.calls.clear();
        self.register = Some(self.now + pause);
        self.fell_back = Some(why.to_owned());
        self.changed = true;
    }

    /// Notes a call that the client begins or ends.
    fn asks(&mut self, action: PartyAction) {
        match action {
            PartyAction::SetUp { call, to, purpose } => {
                self.calls.insert(call, (purpose, to));
            }
            PartyAction::Release { call, .. } => {
                self.calls.remove(&call);
                self.open.remove(&call);
            }
            PartyAction::Accept(_) => {}
        }
        let party = self.client.config().atm;
        self.signals.push(Signal::Asked { party, action });
    }

    /// Takes a message of the switch.
    pub(crate) fn signalled(&mut self, signal: Signal, at_ps: u64) -> Change {
        self.changed = true;
        match signal {
            Signal::NotRegistered(_) => {
                self.cleared(at_ps, "another port has this ATM address", AGAIN);
            }
            Signal::Opened { call, connection, .. } => {
                // one that was given up meanwhile is closed soon
                if let Some((purpose, peer)) = self.calls.get(&call).copied() {
                    self.open.insert(call, connection);
                    return Change::Opened(connection, purpose, peer);
                }
            }
            Signal::Closed(connection) => {
                self.open.retain(|_, open| *open != connection);
                return Change::Closed(connection);
            }
            Signal::Event { event, .. } => {
                match event {
                    PartyEvent::Offered { call, from, purpose } => {
                        self.calls.insert(call, (purpose, from));
                    }
                    PartyEvent::Released { call, .. } => {
                        self.calls.remove(&call);
                        self.open.remove(&call);
                    }
                    PartyEvent::Connected(_) => {}
                }
                self.handle(at_ps, ClientEvent::Call(event));
            }
            Signal::Restarted => {
                self.restart(at_ps);
                return Change::Cleared;
            }
            // a switch sends no others
            Signal::Register(_) | Signal::Asked { .. } => {}
        }
        Change::Nothing
    }

    /// The link has got or lost its carrier, or the switch begins again.
    pub(crate) fn restart(&mut self, at_ps: u64) {
        self.cleared(at_ps, "the link or the switch was down", Duration::ZERO);
    }

    /// Takes a unit that came by a connection. Returns the frames for the host, which do not wait for the
    /// turn to send.
    pub(crate) fn received(
        &mut self,
        connection: Connection,
        received: Received,
        at_ps: u64,
    ) -> Vec<LaneUnit> {
        let Some(call) = self.open.iter().find(|(_, open)| **open == connection) else {
            return Vec::new();
        };
        let (call, unit) = (*call.0, LaneUnit::of(received));
        self.handle(at_ps, ClientEvent::Received { call, unit });
        let mut frames = Vec::new();
        self.actions.retain_mut(|action| match action {
            ClientAction::Deliver(unit) => {
                frames.push(std::mem::replace(unit, LaneUnit::Octets(Vec::new())));
                false
            }
            _ => true,
        });
        // what is no frame may be an answer that changes the way to a station
        self.changed |= frames.is_empty() || !self.actions.is_empty();
        frames
    }

    /// Does what the client wants, in its order. What is to be sent or handed up goes to `out`.
    pub(crate) fn act(&mut self, shared: Option<&LaneShared>, mut out: impl FnMut(Outgoing)) {
        for action in std::mem::take(&mut self.actions) {
            let (call, unit) = match action {
                ClientAction::Transmit { call, frame } => {
                    (call, frame.data(self.client.lecid()).ok())
                }
                ClientAction::Send { call, frame } => {
                    shared.inspect(|shared| shared.counters.control_out.add(1));
                    self.changed = true;
                    (call, Unit::new(&[], WireFrame::copied(frame.emit())).ok())
                }
                ClientAction::Call(action) => {
                    self.changed = true;
                    self.asks(action);
                    continue;
                }
                ClientAction::Deliver(unit) => {
                    out(Outgoing::Frame(unit));
                    continue;
                }
                ClientAction::Changed { reason, .. } => {
                    self.changed = true;
                    self.fell_back = reason.map(why).or(self.fell_back.take());
                    continue;
                }
                ClientAction::NotRegistered { mac, status } => {
                    self.changed = true;
                    self.fell_back = Some(format!("Ethernet address {mac} was refused: {status}"));
                    continue;
                }
            };
            out(Outgoing::Unit(self.open.get(&call).copied().zip(unit)));
        }
    }

    /// Has the client do what is due by `now_ps`. Says whether anything was, or is to be sent.
    pub(crate) fn poll(&mut self, now_ps: u64, is_up: bool) -> bool {
        let now = time(now_ps).max(self.now);
        self.now = now;
        let mut any = !self.actions.is_empty() || !self.signals.is_empty();
        if is_up && self.register.is_some_and(|at| at <= now) {
            self.register = None;
            self.signals.push(Signal::Register(self.client.config().atm));
            // does nothing where it has begun already
            self.handle(now_ps, ClientEvent::Start);
            any = true;
        }
        if self.client.due().is_some_and(|due| due <= now) {
            self.client.poll(now, &mut self.actions);
            self.changed = true;
            any = true;
        }
        any
    }

    /// The messages for the switch since the last call. Without a carrier there is no switch, and a call
    /// that the client begins is refused.
    pub(crate) fn take_signals(
        &mut self,
        now_ps: u64,
        is_up: bool,
        shared: Option<&LaneShared>,
    ) -> Vec<Signal> {
        let signals = std::mem::take(&mut self.signals);
        shared.into_iter().for_each(|shared| self.show(shared));
        if is_up {
            return signals;
        }
        for signal in signals {
            if let Signal::Asked { action: PartyAction::SetUp { call, .. }, .. } = signal {
                self.calls.remove(&call);
                let cause = Cause::OutOfOrder;
                self.handle(now_ps, ClientEvent::Call(PartyEvent::Released { call, cause }));
            }
        }
        Vec::new()
    }

    /// Shows what has changed, and what was counted.
    pub(crate) fn show(&mut self, shared: &LaneShared) {
        let (of, into) = (self.client.counters(), &shared.counters);
        for (counter, count) in [
            (&into.control_in, of.control_in),
            (&into.asked, of.asked),
            (&into.asked_by_others, of.asked_by_others),
            (&into.answered, of.answered),
            (&into.answers, of.answers),
            (&into.calls_failed, of.calls_failed),
            (&into.direct, of.sent_direct),
            (&into.unknown, of.sent_unknown),
            (&into.groups, of.sent_to_groups),
            (&into.dropped, of.dropped),
            (&into.flushed, of.flushed),
            (&into.aged, of.aged),
            (&into.delivered, of.delivered),
            (&into.own, of.own),
            (&into.of_others, of.of_others),
            (&into.lies, of.malformed + of.unexpected),
            (&into.not_answered, of.not_answered),
            (&into.fell_back, of.fell_back),
        ] {
            counter.set(count);
        }
        if std::mem::take(&mut self.changed) {
            let report = self.report();
            *shared.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
        }
    }

    fn report(&self) -> LaneReport {
        let client = &self.client;
        let station = |one: Cached| LaneStationReport {
            mac: one.mac.to_string(),
            atm_address: one.atm.map(|atm| atm.to_string()),
            remote: one.is_remote,
            direct: matches!(one.path, Path::Direct(_)),
            waiting: one.held,
        };
        LaneReport {
            state: state(client.state()).to_owned(),
            fell_back: self.fell_back.clone(),
            elan: String::from_utf8_lossy(client.elan().octets()).into_owned(),
            size: client.size().octets(),
            lecid: client.lecid(),
            atm_address: client.config().atm.to_string(),
            cache: client.cache().map(station).collect(),
            behind: client
                .config()
                .proxy
                .then(|| client.behind().map(|mac| mac.to_string()).collect()),
        }
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Stopped => "stopped",
        State::Initial => "initial",
        State::Configuring => "configuring",
        State::Joining => "joining",
        State::Registering => "registering",
        State::Connecting => "connecting to the BUS",
        State::Operational => "operational",
    }
}

/// Why a client fell back, as a user reads it.
fn why(reason: Reason) -> String {
    match reason {
        Reason::Refused { operation, status } => format!("{operation:?} was refused: {status}"),
        Reason::Contradiction(operation) => {
            format!("the answer to {operation:?} contradicts the settings")
        }
        Reason::TimeOut => "no server answered in time".to_owned(),
        Reason::Call { purpose, cause } => format!("{} connection: {cause}", purpose.name()),
    }
}
