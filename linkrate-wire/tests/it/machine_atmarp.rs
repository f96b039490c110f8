//! Address resolution of Classical IP: a server and its clients over any wire.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::elan::atm;
use crate::lossy::{MS, SECOND, handled};
use crate::pair::{End, Pair, Wire};
use linkrate_wire::control::AtmArp;
use linkrate_wire::control::atmarp::{Operation, Station};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::atmarp::{
    Circuit, Client, ClientAction, ClientEvent, Route, Server, ServerAction, ServerEvent,
};
use proptest::prelude::*;

const CLIENTS: u8 = 3;
const MINUTE: Duration = Duration::from_secs(60);

fn ip(client: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, client)
}

/// The clients, each with a connection to the server that has its number.
struct Clients(Vec<Client>);

impl Machine for Clients {
    type Event = (u8, ClientEvent);
    type Action = (u8, ClientAction);

    fn handle(&mut self, now: Duration, (client, event): Self::Event, out: &mut Vec<Self::Action>) {
        let actions = handled(&mut self.0[usize::from(client)], now, event);
        out.extend(actions.into_iter().map(|action| (client, action)));
    }

    fn due(&self) -> Option<Duration> {
        self.0.iter().filter_map(Client::due).min()
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<Self::Action>) {
        for (client, number) in self.0.iter_mut().zip(0..) {
            let mut actions = Vec::new();
            client.poll(now, &mut actions);
            out.extend(actions.into_iter().map(|action| (number, action)));
        }
    }
}

impl End for Clients {
    type Message = (u8, Vec<u8>);

    fn message((client, action): Self::Action) -> Result<Self::Message, Self::Action> {
        match action {
            ClientAction::Send { message, .. } => Ok((client, message.emit())),
            action => Err((client, action)),
        }
    }

    fn arrival((client, message): Self::Message) -> Self::Event {
        let message = AtmArp::parse(&message).expect("a message");
        (client, ClientEvent::Received { circuit: Circuit(client.into()), message })
    }
}

impl End for Server {
    type Message = (u8, Vec<u8>);

    fn message(action: ServerAction) -> Result<Self::Message, ServerAction> {
        match action {
            ServerAction::Send { circuit, message } => Ok((circuit.0 as u8, message.emit())),
            action => Err(action),
        }
    }

    fn arrival((client, message): Self::Message) -> ServerEvent {
        let message = AtmArp::parse(&message).expect("a message");
        ServerEvent::Received { circuit: Circuit(client.into()), message }
    }
}

fn server() -> Server {
    Server::new(Station { atm: Some(atm(99)), ip: None })
}

fn joined(wire: Wire, seed: u64) -> Pair<Clients, Server> {
    let clients = (0..CLIENTS).map(|client| Client::new(atm(client), ip(client))).collect();
    let mut pair = Pair::new(Clients(clients), server(), wire, seed);
    for client in 0..CLIENTS {
        let circuit = Circuit(client.into());
        pair.handle_a((client, ClientEvent::Server(circuit)));
        pair.handle_b(ServerEvent::Opened(circuit));
    }
    pair
}

fn all_known(pair: &Pair<Clients, Server>) -> bool {
    let expected: Vec<_> = (0..CLIENTS).map(|client| (ip(client), atm(client))).collect();
    pair.b.entries().collect::<Vec<_>>() == expected
}

#[test]
fn clients_register_and_find_each_other() {
    let mut pair = joined(Wire::good(MS), 1);
    pair.run_until(10 * MS);
    assert!(all_known(&pair));
    pair.handle_a((0, ClientEvent::Wanted(ip(2))));
    pair.run_until(20 * MS);
    assert_eq!(pair.a.0[0].route(ip(2)), Some(Route::EndSystem(atm(2))));
    let reported = (0, ClientAction::Route(ip(2), Route::EndSystem(atm(2))));
    assert_eq!(pair.reported_a.last().map(|(_, action)| action), Some(&reported));
}

#[test]
fn an_unknown_address_is_refused_and_asked_for_again_later() {
    let mut pair = joined(Wire::good(MS), 1);
    pair.run_until(10 * MS);
    let sent = pair.counts.sent;
    for _ in 0..1000 {
        pair.handle_a((0, ClientEvent::Wanted(ip(77))));
    }
    pair.run_until(20 * MS);
    assert_eq!(
        pair.reported_a.last().map(|(_, action)| action),
        Some(&(0, ClientAction::NoRoute(ip(77))))
    );
    assert_eq!(pair.counts.sent, sent + 2, "a thousand packets ask once");
    pair.handle_a((0, ClientEvent::Wanted(ip(77))));
    assert_eq!(pair.counts.sent, sent + 2, "an address that was refused is held down");
    pair.run_until(4000 * MS);
    pair.handle_a((0, ClientEvent::Wanted(ip(77))));
    assert_eq!(pair.counts.sent, sent + 3);
}

#[test]
fn entries_age_and_are_asked_for_again() {
    let mut pair = joined(Wire::good(MS), 1);
    pair.run_until(10 * MS);
    pair.handle_a((0, ClientEvent::Wanted(ip(1))));
    // an hour later each entry was asked for several times, and all are still there
    pair.run_until(60 * MINUTE);
    assert!(all_known(&pair) && pair.a.0[0].route(ip(1)).is_some());
    assert_eq!(pair.reported_a.len(), 1, "{:?}", pair.reported_a);
    // a client that is gone is forgotten: by the server after 20 minutes, by others after 15 more
    let nobody = Wire { lost: 1000, ..Wire::good(MS) };
    pair.set_wire(nobody);
    pair.run_until(60 * MINUTE + 21 * MINUTE);
    assert_eq!(pair.b.entries().count(), 0);
    pair.run_until(60 * MINUTE + 40 * MINUTE);
    assert_eq!(pair.a.0[0].route(ip(1)), None);
}

#[test]
fn two_end_systems_with_one_ip_address_are_reported() {
    let clients = vec![Client::new(atm(0), ip(0)), Client::new(atm(1), ip(0))];
    let mut pair = Pair::new(Clients(clients), server(), Wire::good(MS), 1);
    for circuit in [Circuit(0), Circuit(1)] {
        pair.handle_b(ServerEvent::Opened(circuit));
        pair.run_until(pair.now() + 10 * MS);
    }
    assert_eq!(pair.b.entries().collect::<Vec<_>>(), [(ip(0), atm(0))]);
    let conflict = ServerAction::Conflict { ip: ip(0), holder: atm(0), other: atm(1) };
    assert_eq!(pair.reported_b.last().map(|(_, action)| action), Some(&conflict));
    // the second one takes over when the connection of the first is gone
    pair.handle_b(ServerEvent::Closed(Circuit(0)));
    pair.run_until(pair.now() + MINUTE);
    assert_eq!(pair.b.entries().collect::<Vec<_>>(), [(ip(0), atm(1))]);
}

/// The two ends of a permanent connection.
impl End for Client {
    type Message = Vec<u8>;

    fn message(action: ClientAction) -> Result<Self::Message, ClientAction> {
        match action {
            ClientAction::Send { message, .. } => Ok(message.emit()),
            action => Err(action),
        }
    }

    fn arrival(message: Self::Message) -> ClientEvent {
        let message = AtmArp::parse(&message).expect("a message");
        ClientEvent::Received { circuit: Circuit(0), message }
    }
}

#[test]
fn an_answer_that_nobody_waits_for_teaches_nothing() {
    let mut client = Client::new(atm(0), ip(0));
    let mut actions = Vec::new();
    client.handle(Duration::ZERO, ClientEvent::Server(Circuit(0)), &mut actions);
    let lie = |operation| AtmArp {
        operation,
        source: Station::new(atm(66), ip(1)),
        target: Station::new(atm(0), ip(0)),
    };
    for operation in [Operation::Reply, Operation::InverseReply, Operation::Refusal] {
        let message = lie(operation);
        let received = ClientEvent::Received { circuit: Circuit(0), message };
        client.handle(Duration::ZERO, received, &mut actions);
        // nor does an answer by another connection than the server's, while one waits
        client.handle(Duration::ZERO, ClientEvent::Wanted(ip(1)), &mut actions);
        let received = ClientEvent::Received { circuit: Circuit(5), message };
        client.handle(Duration::ZERO, received, &mut actions);
        assert_eq!(client.route(ip(1)), None, "{operation:?}");
    }
}

#[test]
fn tables_are_bounded() {
    let mut server = server();
    let mut actions = Vec::new();
    server.handle(Duration::ZERO, ServerEvent::Opened(Circuit(0)), &mut actions);
    for number in 0..10_000_u32 {
        let source = Station::new(atm(1), Ipv4Addr::from(number + 1));
        let message =
            AtmArp { operation: Operation::InverseReply, source, target: Station::default() };
        let received = ServerEvent::Received { circuit: Circuit(0), message };
        server.handle(Duration::ZERO, received, &mut actions);
    }
    assert_eq!(server.entries().count(), 4096);
    assert!(actions.iter().any(|action| matches!(action, ServerAction::Full(_))));
    let mut client = Client::new(atm(0), ip(0));
    for number in 0..10_000_u32 {
        let wanted = ClientEvent::Wanted(Ipv4Addr::from(number + 1));
        client.handle(Duration::ZERO, wanted, &mut Vec::new());
    }
    let asked = handled(&mut client, Duration::ZERO, ClientEvent::Server(Circuit(0)));
    assert_eq!(asked.len(), 4096);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_agree_in_the_end(
        seed: u64, lost in 0_u64..400, doubled in 0_u64..300, longest in 1_u32..500,
    ) {
        let wire = Wire { lost, doubled, delay: MS..=longest * MS };
        let mut pair = joined(wire, seed);
        for from in 0..CLIENTS {
            for to in 0..CLIENTS {
                pair.handle_a((from, ClientEvent::Wanted(ip(to))));
            }
        }
        pair.run_until(2 * MINUTE);
        pair.set_wire(Wire::good(MS));
        // packets continue to want their routes
        for second in 0..70 {
            for from in 0..CLIENTS {
                for to in (0..CLIENTS).filter(|to| *to != from) {
                    pair.handle_a((from, ClientEvent::Wanted(ip(to))));
                }
            }
            pair.run_until(2 * MINUTE + second * 2 * SECOND);
        }
        prop_assert!(all_known(&pair), "{:?}", pair.b);
        for from in 0..CLIENTS {
            for to in (0..CLIENTS).filter(|to| *to != from) {
                let route = pair.a.0[usize::from(from)].route(ip(to));
                prop_assert_eq!(route, Some(Route::EndSystem(atm(to))));
            }
        }
    }

    #[test]
    fn the_ends_of_a_permanent_connection_learn_each_other(
        seed: u64, lost in 0_u64..500, doubled in 0_u64..300, longest in 1_u32..500,
    ) {
        let wire = Wire { lost, doubled, delay: MS..=longest * MS };
        let (a, b) = (Client::new(atm(0), ip(0)), Client::new(atm(1), ip(1)));
        let mut pair = Pair::new(a, b, wire, seed);
        pair.handle_a(ClientEvent::Permanent(Circuit(0)));
        pair.handle_b(ClientEvent::Permanent(Circuit(0)));
        pair.run_until(50 * MINUTE);
        pair.set_wire(Wire::good(MS));
        pair.run_until(52 * MINUTE);
        prop_assert_eq!(pair.a.route(ip(1)), Some(Route::Circuit(Circuit(0))));
        prop_assert_eq!(pair.b.route(ip(0)), Some(Route::Circuit(Circuit(0))));
    }
}
