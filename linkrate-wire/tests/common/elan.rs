//! An emulated LAN in virtual time: clients, LECS, LES and BUS on an exchange, over connections that
//! lose, delay and duplicate. The same seed gives the same run.
//!
//! Connections keep the order of units, as those of ATM do, and a released one loses what is under
//! way. Only control frames are duplicated. Each frame that a client delivers is held against the ones
//! before it: in order, and once.

use std::collections::BTreeMap;
use std::time::Duration;

use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::control::lan_emulation::{self, FrameSize, Name};
use linkrate_wire::control::{Data, LaneControl};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::{
    Call, Exchange, ExchangeAction, ExchangeConfig, ExchangeEvent, PartyAction, PartyEvent,
    PortCircuit,
};
use linkrate_wire::machine::lane::{
    Bus, BusAction, BusConfig, Client, ClientAction, ClientConfig, ClientEvent, Configuration,
    Elan, Lecs, LecsConfig, Les, LesConfig, ServerAction, ServerEvent,
};

pub use crate::lossy::{MS, SECOND, Wire};
use crate::lossy::{Random, handled, polled};

pub fn atm(end_system: u8) -> AtmAddress {
    AtmAddress::local(1, [2, 0, 0, 0, 0, end_system], 0)
}

pub fn mac(station: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 1, station])
}

const LECS: u8 = 200;
const LES: u8 = 201;
const BUS: u8 = 202;
/// Ports of servers.
const SERVERS: u16 = 100;

pub fn lecs() -> AtmAddress {
    atm(LECS)
}

pub fn les() -> AtmAddress {
    atm(LES)
}

pub fn bus() -> AtmAddress {
    atm(BUS)
}

pub fn config(number: u8) -> ClientConfig {
    ClientConfig::new(atm(number), mac(number), Configuration::Lecs(lecs()))
}

pub fn name() -> Name {
    Name::new("blue").expect("a short name")
}

/// Something under way.
#[derive(Debug, Clone)]
enum Item {
    Asked { party: AtmAddress, action: PartyAction },
    Told { party: AtmAddress, event: PartyEvent },
    Unit { connection: u64, party: AtmAddress, call: Call, unit: Vec<u8> },
}

/// An open connection: its number, and the name of the other end.
#[derive(Debug, Clone, Copy)]
struct Open {
    connection: u64,
    other: (AtmAddress, Call),
}

/// What was delivered of a flow: from a station, to a station or group, at a client.
type Flow = (MacAddress, MacAddress, usize);

pub struct World {
    pub exchange: Exchange,
    pub clients: Vec<Client<Vec<u8>>>,
    pub lecs: Lecs,
    pub les: Les,
    pub bus: Bus<Vec<u8>>,
    pub now: Duration,
    /// What connections do to units, and signalling to calls. Of units, only control frames are doubled.
    pub wire: Wire,
    /// What clients told their owners, and when.
    pub told: Vec<(Duration, usize, ClientAction<Vec<u8>>)>,
    /// What LECS and LES refused.
    pub refused: Vec<ServerAction>,
    /// Each frame that was delivered: how many of its flow, and the number of the last one.
    pub delivered: BTreeMap<Flow, (u64, u64)>,
    /// Units that were sent, where they are kept.
    pub units: Option<Vec<Vec<u8>>>,
    /// Control frames that were sent.
    pub control: Vec<(Duration, AtmAddress, LaneControl)>,
    random: Random,
    items: BTreeMap<(Duration, u64), Item>,
    /// The latest arrival of each channel: signalling of a party each way, units of a call.
    latest: BTreeMap<(AtmAddress, Option<Call>, bool), Duration>,
    open: BTreeMap<(AtmAddress, Call), Open>,
    circuits: BTreeMap<PortCircuit, [(AtmAddress, Call); 2]>,
    numbers: u64,
    sequence: u64,
}

impl World {
    /// Clients with these settings, on a port each. The ELAN has frames of up to 1516 octets.
    pub fn new(configs: &[ClientConfig], wire: Wire, seed: u64) -> Self {
        let size = FrameSize::Octets1516;
        let elan = Elan { name: name(), size, les: les() };
        let mut world = Self {
            exchange: Exchange::new(ExchangeConfig::default()),
            clients: configs.iter().map(|config| Client::new(*config)).collect(),
            lecs: Lecs::new(LecsConfig::new(vec![elan])),
            les: Les::new(LesConfig::new(name(), size, bus())),
            bus: Bus::new(BusConfig::new(size)),
            now: Duration::ZERO,
            wire,
            told: Vec::new(),
            refused: Vec::new(),
            delivered: BTreeMap::new(),
            units: None,
            control: Vec::new(),
            random: Random(seed),
            items: BTreeMap::new(),
            latest: BTreeMap::new(),
            open: BTreeMap::new(),
            circuits: BTreeMap::new(),
            numbers: 0,
            sequence: 0,
        };
        for server in [LECS, LES, BUS] {
            world.plug(u16::from(server) + SERVERS, atm(server));
        }
        for (number, config) in configs.iter().enumerate() {
            world.plug(number as u16, config.atm);
            world.client(number, ClientEvent::Start);
        }
        world
    }

    /// A party is at a port, after one that was there is gone.
    pub fn plug(&mut self, port: u16, address: AtmAddress) {
        let highest = Connection { vpi: 0, vci: 1023 };
        self.exchange(ExchangeEvent::AddPort { port, highest });
        self.exchange(ExchangeEvent::Register { port, address });
    }

    /// The port of a client is unplugged and plugged again.
    pub fn flap(&mut self, client: usize) {
        let address = self.clients[client].config().atm;
        self.plug(client as u16, address);
    }

    /// The same of LES or BUS.
    pub fn flap_server(&mut self, is_bus: bool) {
        let server = if is_bus { BUS } else { LES };
        self.plug(u16::from(server) + SERVERS, atm(server));
    }

    /// An event at the exchange.
    pub fn exchange(&mut self, event: ExchangeEvent) {
        let actions = handled(&mut self.exchange, self.now, event);
        self.exchanged(actions);
    }

    fn exchanged(&mut self, actions: Vec<ExchangeAction>) {
        for action in actions {
            match action {
                ExchangeAction::Tell { party, event } => {
                    let item = Item::Told { party, event };
                    self.send((party, None, false), item);
                }
                ExchangeAction::Open { caller, called } => {
                    self.numbers += 1;
                    let connection = self.numbers;
                    let (one, other) = ((caller.0, caller.1), (called.0, called.1));
                    self.open.insert(one, Open { connection, other });
                    self.open.insert(other, Open { connection, other: one });
                    assert_eq!(self.circuits.insert(caller.2, [one, other]), None);
                }
                ExchangeAction::Close { caller, .. } => {
                    let ends = self.circuits.remove(&caller).expect("it was open");
                    ends.iter().for_each(|end| _ = self.open.remove(end));
                }
                ExchangeAction::NotRegistered { .. } => {}
            }
        }
    }

    /// An event at a client.
    pub fn client(&mut self, client: usize, event: ClientEvent<Vec<u8>>) {
        let actions = handled(&mut self.clients[client], self.now, event);
        self.acted(client, actions);
    }

    fn acted(&mut self, client: usize, actions: Vec<ClientAction<Vec<u8>>>) {
        let party = self.clients[client].config().atm;
        for action in actions {
            match action {
                ClientAction::Call(action) => self.ask(party, action),
                ClientAction::Send { call, frame } => self.send_control(party, call, frame),
                ClientAction::Transmit { call, frame } => {
                    let lecid = self.clients[client].lecid();
                    let unit = Data { lecid, frame: &frame }.emit();
                    self.send_unit(party, call, unit);
                }
                ClientAction::Deliver(unit) => self.deliver(client, &unit),
                reported => self.told.push((self.now, client, reported)),
            }
        }
    }

    /// A frame arrives at the host of a client.
    fn deliver(&mut self, client: usize, unit: &[u8]) {
        let frame = Data::parse(unit).expect("a data frame").frame;
        let address = |at: usize| MacAddress(*frame[at..].first_chunk().expect("an address"));
        let number = u64::from_be_bytes(*frame[14..].first_chunk().expect("a number"));
        let flow = (address(6), address(0), client);
        let (count, last) = self.delivered.entry(flow).or_default();
        assert!(number > *last, "{number} after {last} of {flow:?} at {:?}", self.now);
        (*count, *last) = (*count + 1, number);
    }

    pub fn count(&self, from: MacAddress, to: MacAddress, client: usize) -> u64 {
        self.delivered.get(&(from, to, client)).map_or(0, |(count, _)| *count)
    }

    /// The host of a client sends a frame.
    pub fn frame(&mut self, client: usize, from: MacAddress, to: MacAddress) {
        self.sequence += 1;
        // an EtherType for experiments (IEEE 802, 9.2.3)
        let mut frame = [&to.0[..], &from.0, &[0x88, 0xb5], &self.sequence.to_be_bytes()].concat();
        frame.resize(100, 0);
        self.client(client, ClientEvent::Frame(frame));
    }

    pub fn ask(&mut self, party: AtmAddress, action: PartyAction) {
        self.send((party, None, true), Item::Asked { party, action });
    }

    fn send_control(&mut self, party: AtmAddress, call: Call, frame: LaneControl) {
        self.control.push((self.now, party, frame));
        let unit = frame.emit();
        assert!(LaneControl::parse(&unit).is_ok());
        self.send_unit(party, call, unit);
    }

    /// A unit enters a connection.
    pub fn send_unit(&mut self, party: AtmAddress, call: Call, unit: Vec<u8>) {
        let Some(Open { connection, other }) = self.open.get(&(party, call)).copied() else {
            return;
        };
        if let Some(units) = &mut self.units {
            units.push(unit.clone());
        }
        let copies = match self.random.below(1000) {
            at if at < self.wire.lost => 0,
            _ if lan_emulation::is_control(&unit)
                && self.random.below(1000) < self.wire.doubled =>
            {
                2
            }
            _ => 1,
        };
        let (party, call) = other;
        for _ in 0..copies {
            let unit = unit.clone();
            self.send((party, Some(call), false), Item::Unit { connection, party, call, unit });
        }
    }

    /// The name that the party at the other end of an open call has for it.
    pub fn other_end(&self, party: AtmAddress, call: Call) -> Option<(AtmAddress, Call)> {
        self.open.get(&(party, call)).map(|open| open.other)
    }

    /// The open calls of a party.
    pub fn calls(&self, party: AtmAddress) -> Vec<(Call, AtmAddress)> {
        let mine = self.open.iter().filter(|((of, _), _)| *of == party);
        mine.map(|((_, call), open)| (*call, open.other.0)).collect()
    }

    fn send(&mut self, channel: (AtmAddress, Option<Call>, bool), item: Item) {
        let delay = self.wire.delay(&mut self.random);
        let latest = self.latest.entry(channel).or_default();
        *latest = (*latest).max(self.now + delay);
        self.numbers += 1;
        self.items.insert((*latest, self.numbers), item);
    }

    fn arrive(&mut self, item: Item) {
        match item {
            Item::Asked { party, action } => self.exchange(ExchangeEvent::Asked { party, action }),
            Item::Told { party, event } => {
                self.at(party, ServerEvent::Call(event), ClientEvent::Call(event));
            }
            Item::Unit { connection, party, call, unit } => {
                let open = self.open.get(&(party, call));
                if open.is_some_and(|open| open.connection == connection) {
                    let for_client = ClientEvent::Received { call, unit: unit.clone() };
                    self.at(party, ServerEvent::Received { call, unit }, for_client);
                }
            }
        }
    }

    /// An event at the machine with an address.
    fn at(
        &mut self,
        party: AtmAddress,
        event: ServerEvent<Vec<u8>>,
        for_client: ClientEvent<Vec<u8>>,
    ) {
        let now = self.now;
        if party == bus() {
            for action in handled(&mut self.bus, now, event) {
                match action {
                    BusAction::Call(action) => self.ask(party, action),
                    BusAction::Forward(unit) => {
                        for call in self.bus.forwards().collect::<Vec<_>>() {
                            self.send_unit(party, call, unit.clone());
                        }
                    }
                }
            }
        } else if party == les() || party == lecs() {
            let actions = match party == les() {
                true => handled(&mut self.les, now, event),
                false => handled(&mut self.lecs, now, event),
            };
            self.served(party, actions);
        } else {
            let mut clients = self.clients.iter();
            if let Some(number) = clients.position(|client| client.config().atm == party) {
                self.client(number, for_client);
            }
        }
    }

    fn served(&mut self, party: AtmAddress, actions: Vec<ServerAction>) {
        for action in actions {
            match action {
                ServerAction::Call(action) => self.ask(party, action),
                ServerAction::Send { call, frame } => self.send_control(party, call, frame),
                refused @ ServerAction::Refused { .. } => self.refused.push(refused),
            }
        }
    }

    /// Runs up to `end`.
    pub fn run_until(&mut self, end: Duration) {
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.poll();
            if let Some(entry) = self.items.first_entry()
                && entry.key().0 <= self.now
            {
                let item = entry.remove();
                self.arrive(item);
            }
        }
        self.now = end;
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn next(&self) -> Option<Duration> {
        let clients = self.clients.iter().filter_map(Client::due);
        let servers = [self.exchange.due(), self.lecs.due(), self.les.due(), self.bus.due()];
        let arrival = self.items.keys().next().map(|(at, _)| *at);
        clients.chain(servers.into_iter().flatten()).chain(arrival).min()
    }

    /// Polls all machines, those too that are not due.
    fn poll(&mut self) {
        let now = self.now;
        let actions = polled(&mut self.exchange, now);
        self.exchanged(actions);
        let actions = polled(&mut self.lecs, now);
        self.served(lecs(), actions);
        let actions = polled(&mut self.les, now);
        self.served(les(), actions);
        for number in 0..self.clients.len() {
            let actions = polled(&mut self.clients[number], now);
            self.acted(number, actions);
        }
    }
}
