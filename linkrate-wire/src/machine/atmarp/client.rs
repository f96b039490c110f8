//! An end system of a logical IP subnet (RFC 2225, 8.5).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::{Circuit, MAX_ENTRIES, Question};
use crate::atm::AtmAddress;
use crate::control::atmarp::{AtmArp, Operation, Station};
use crate::machine::Machine;

/// How long an entry holds without news of its end system (RFC 2225, 8.5.2).
pub const AGE: Duration = Duration::from_secs(15 * 60);

/// Questions about an address until it is given up.
const MAX_QUESTIONS: u32 = 5;

/// How long an address that was refused or given up is not asked for again.
const HELD_DOWN: Duration = Duration::from_secs(3);

/// The way to an IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// A permanent connection.
    Circuit(Circuit),
    /// An end system that is to be called.
    EndSystem(AtmAddress),
}

/// What happens to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// A permanent connection is there. Its other end is asked for its address.
    Permanent(Circuit),
    /// The connection to the server is open.
    Server(Circuit),
    /// A connection is gone.
    Closed(Circuit),
    /// A packet for this IP address has no route.
    Wanted(Ipv4Addr),
    /// A message came.
    Received {
        /// The connection that it came by.
        circuit: Circuit,
        /// The message.
        message: AtmArp,
    },
}

/// What a client wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAction {
    /// Send a message.
    Send {
        /// The connection to send it by.
        circuit: Circuit,
        /// The message.
        message: AtmArp,
    },
    /// An IP address has a route, or another one than before.
    Route(Ipv4Addr, Route),
    /// An IP address has no route any more, or none was found.
    NoRoute(Ipv4Addr),
}

/// An IP address that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The way to it.
    pub route: Route,
    /// When the entry ages.
    pub expires: Duration,
    /// It has aged, and is being asked for.
    checking: Option<Question>,
}

impl Known {
    /// When the address was learnt, or confirmed last.
    #[must_use]
    pub fn learnt(&self) -> Duration {
        self.expires.saturating_sub(AGE)
    }

    fn due(&self) -> Duration {
        self.checking.map_or(self.expires, |question| question.again)
    }
}

/// An IP address that is being asked for, or that was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Asked(Question),
    /// Not to be asked for before this time.
    HeldDown(Duration),
}

impl Unknown {
    fn due(&self) -> Duration {
        match self {
            Self::Asked(question) => question.again,
            Self::HeldDown(until) => *until,
        }
    }
}

/// A client.
#[derive(Debug, Clone)]
pub struct Client {
    own: Station,
    server: Option<Circuit>,
    /// Permanent connections, with the question for their other end until it is answered.
    permanent: BTreeMap<Circuit, Option<Question>>,
    known: BTreeMap<Ipv4Addr, Known>,
    unknown: BTreeMap<Ipv4Addr, Unknown>,
}

impl Client {
    /// A client with these addresses.
    #[must_use]
    pub fn new(atm: AtmAddress, ip: Ipv4Addr) -> Self {
        Self {
            own: Station::new(atm, ip),
            server: None,
            permanent: BTreeMap::new(),
            known: BTreeMap::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// The way to an IP address, if it is known.
    #[must_use]
    pub fn route(&self, ip: Ipv4Addr) -> Option<Route> {
        self.known.get(&ip).map(|known| known.route)
    }

    /// Everything that it knows.
    pub fn known(&self) -> impl Iterator<Item = (Ipv4Addr, Known)> + '_ {
        self.known.iter().map(|(ip, known)| (*ip, *known))
    }

    fn send(&self, circuit: Circuit, operation: Operation, target: Station) -> ClientAction {
        let message = AtmArp { operation, source: self.own, target };
        ClientAction::Send { circuit, message }
    }

    fn ask_server(&self, ip: Ipv4Addr) -> Option<ClientAction> {
        Some(self.send(self.server?, Operation::Request, Station::of_ip(ip)))
    }

    fn ask_other_end(&self, circuit: Circuit) -> ClientAction {
        self.send(circuit, Operation::InverseRequest, Station::default())
    }

    fn learn(
        &mut self,
        now: Duration,
        ip: Ipv4Addr,
        route: Route,
        actions: &mut Vec<ClientAction>,
    ) {
        if ip.is_unspecified() || self.own.ip == Some(ip) {
            return;
        }
        if self.known.len() >= MAX_ENTRIES && !self.known.contains_key(&ip) {
            return;
        }
        self.unknown.remove(&ip);
        let known = Known { route, expires: now + AGE, checking: None };
        if self.known.insert(ip, known).is_none_or(|before| before.route != route) {
            actions.push(ClientAction::Route(ip, route));
        }
    }

    fn give_up(&mut self, now: Duration, ip: Ipv4Addr, actions: &mut Vec<ClientAction>) {
        self.known.remove(&ip);
        self.unknown.insert(ip, Unknown::HeldDown(now + HELD_DOWN));
        actions.push(ClientAction::NoRoute(ip));
    }

    /// An end system that is known answers no longer.
    fn age(&mut self, now: Duration, ip: Ipv4Addr, route: Route, actions: &mut Vec<ClientAction>) {
        match route {
            Route::EndSystem(_) => self.give_up(now, ip, actions),
            // a permanent connection stays, and so does the question for its other end
            Route::Circuit(circuit) => {
                self.known.remove(&ip);
                actions.push(ClientAction::NoRoute(ip));
                if let Some(question) = self.permanent.get_mut(&circuit) {
                    *question = Some(Question::new(now));
                    actions.push(self.ask_other_end(circuit));
                }
            }
        }
    }

    fn wanted(&mut self, now: Duration, ip: Ipv4Addr, actions: &mut Vec<ClientAction>) {
        if let Some(route) = self.route(ip) {
            actions.push(ClientAction::Route(ip, route));
            return;
        }
        if self.unknown.contains_key(&ip) || self.unknown.len() >= MAX_ENTRIES {
            return;
        }
        self.unknown.insert(ip, Unknown::Asked(Question::new(now)));
        actions.extend(self.ask_server(ip));
    }

    fn received(
        &mut self,
        now: Duration,
        circuit: Circuit,
        message: AtmArp,
        actions: &mut Vec<ClientAction>,
    ) {
        let AtmArp { operation, source, target } = message;
        let from_server = self.server == Some(circuit);
        match operation {
            Operation::InverseRequest => {
                actions.push(self.send(circuit, Operation::InverseReply, source));
                self.other_end(now, circuit, source, actions);
            }
            Operation::InverseReply => self.other_end(now, circuit, source, actions),
            Operation::Reply if from_server => {
                if let Station { atm: Some(atm), ip: Some(ip) } = source
                    && self.is_asked(ip)
                {
                    self.learn(now, ip, Route::EndSystem(atm), actions);
                }
            }
            Operation::Refusal if from_server => {
                if let Some(ip) = target.ip.filter(|ip| self.is_asked(*ip)) {
                    self.give_up(now, ip, actions);
                }
            }
            // answers that nobody has asked for, and questions for a server
            Operation::Reply | Operation::Refusal | Operation::Request => {}
        }
    }

    /// Whether the server is being asked for an address: an answer that nobody waits for teaches
    /// nothing.
    fn is_asked(&self, ip: Ipv4Addr) -> bool {
        let checking = self.known.get(&ip).is_some_and(|known| known.checking.is_some());
        checking || matches!(self.unknown.get(&ip), Some(Unknown::Asked(_)))
    }

    /// The other end of a permanent connection has told its address.
    fn other_end(
        &mut self,
        now: Duration,
        circuit: Circuit,
        station: Station,
        actions: &mut Vec<ClientAction>,
    ) {
        let (Some(question), Some(ip)) = (self.permanent.get_mut(&circuit), station.ip) else {
            return;
        };
        *question = None;
        self.learn(now, ip, Route::Circuit(circuit), actions);
    }
}

impl Machine for Client {
    type Event = ClientEvent;
    type Action = ClientAction;

    fn handle(&mut self, now: Duration, event: ClientEvent, actions: &mut Vec<ClientAction>) {
        match event {
            ClientEvent::Permanent(circuit) => {
                self.permanent.insert(circuit, Some(Question::new(now)));
                actions.push(self.ask_other_end(circuit));
            }
            ClientEvent::Server(circuit) => {
                self.server = Some(circuit);
                // those that were wanted before
                for (ip, unknown) in self.unknown.clone() {
                    if let Unknown::Asked(_) = unknown {
                        self.unknown.insert(ip, Unknown::Asked(Question::new(now)));
                        actions.extend(self.ask_server(ip));
                    }
                }
            }
            ClientEvent::Closed(circuit) => {
                if self.server == Some(circuit) {
                    self.server = None;
                }
                self.permanent.remove(&circuit);
                let lost = |known: &Known| known.route == Route::Circuit(circuit);
                let gone: Vec<Ipv4Addr> =
                    self.known().filter(|(_, known)| lost(known)).map(|(ip, _)| ip).collect();
                for ip in gone {
                    self.known.remove(&ip);
                    actions.push(ClientAction::NoRoute(ip));
                }
            }
            ClientEvent::Wanted(ip) => self.wanted(now, ip, actions),
            ClientEvent::Received { circuit, message } => {
                self.received(now, circuit, message, actions);
            }
        }
    }

    fn due(&self) -> Option<Duration> {
        let questions = self.permanent.values().flatten().map(|question| question.again);
        let known = self.known.values().map(Known::due);
        let unknown = self.unknown.values().map(Unknown::due);
        questions.chain(known).chain(unknown).min()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<ClientAction>) {
        let asked = self.permanent.iter_mut();
        let asked = asked.filter_map(|(circuit, question)| Some((*circuit, question.as_mut()?)));
        let mut again = Vec::new();
        for (circuit, question) in asked.filter(|(_, question)| question.again <= now) {
            question.repeat(now);
            again.push(circuit);
        }
        actions.extend(again.into_iter().map(|circuit| self.ask_other_end(circuit)));
        let due: Vec<(Ipv4Addr, Known)> =
            self.known().filter(|(_, known)| known.due() <= now).collect();
        for (ip, known) in due {
            let mut question = known.checking.unwrap_or(Question { asked: 0, again: now });
            if question.asked >= MAX_QUESTIONS {
                self.age(now, ip, known.route, actions);
                continue;
            }
            question.repeat(now);
            self.known.insert(ip, Known { checking: Some(question), ..known });
            match known.route {
                Route::Circuit(circuit) => actions.push(self.ask_other_end(circuit)),
                Route::EndSystem(_) => actions.extend(self.ask_server(ip)),
            }
        }
        let due = self.unknown.iter().filter(|(_, unknown)| unknown.due() <= now);
        let due: Vec<(Ipv4Addr, Unknown)> = due.map(|(ip, unknown)| (*ip, *unknown)).collect();
        for (ip, unknown) in due {
            match unknown {
                Unknown::HeldDown(_) => drop(self.unknown.remove(&ip)),
                Unknown::Asked(question) if question.asked >= MAX_QUESTIONS => {
                    self.give_up(now, ip, actions);
                }
                Unknown::Asked(mut question) => {
                    question.repeat(now);
                    self.unknown.insert(ip, Unknown::Asked(question));
                    actions.extend(self.ask_server(ip));
                }
            }
        }
    }
}
