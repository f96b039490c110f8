//! Calls between end systems of an ATM network.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::elan::atm;
use crate::lossy::{MS, handled, polled};
use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::{
    Call, Cause, CircuitError, Exchange, ExchangeAction, ExchangeConfig, ExchangeEvent,
    PartyAction, PartyEvent, PortCircuit, Purpose,
};
use proptest::prelude::*;

const PURPOSE: Purpose = Purpose::ClassicalIp;
const ONE: Call = Call::outgoing(1);
const OFFERED: Call = Call::incoming(0);

fn at(port: u16, vci: u16) -> PortCircuit {
    PortCircuit { port, circuit: Connection { vpi: 0, vci } }
}

/// An exchange with a party of the same number at each of `ports` ports, with `circuits` circuits.
fn exchange(ports: u8, circuits: u16) -> Exchange {
    let config = ExchangeConfig { most_calls: 8, most_addresses: 2, ..ExchangeConfig::default() };
    let mut exchange = Exchange::new(config);
    for port in 0..ports {
        let highest = Connection { vpi: 0, vci: 31 + circuits };
        handle(&mut exchange, ExchangeEvent::AddPort { port: port.into(), highest });
        handle(&mut exchange, ExchangeEvent::Register { port: port.into(), address: atm(port) });
    }
    exchange
}

fn handle(exchange: &mut Exchange, event: ExchangeEvent) -> Vec<ExchangeAction> {
    handled(exchange, Duration::ZERO, event)
}

fn ask(exchange: &mut Exchange, party: u8, action: PartyAction) -> Vec<ExchangeAction> {
    handle(exchange, ExchangeEvent::Asked { party: atm(party), action })
}

fn set_up(exchange: &mut Exchange, from: u8, call: Call, to: u8) -> Vec<ExchangeAction> {
    ask(exchange, from, PartyAction::SetUp { call, to: atm(to), purpose: PURPOSE })
}

fn tell(party: u8, event: PartyEvent) -> ExchangeAction {
    ExchangeAction::Tell { party: atm(party), event }
}

fn released(party: u8, call: Call, cause: Cause) -> ExchangeAction {
    tell(party, PartyEvent::Released { call, cause })
}

#[test]
fn a_call_is_set_up_and_released() {
    let mut exchange = exchange(2, 4);
    let offered = PartyEvent::Offered { call: OFFERED, from: atm(0), purpose: PURPOSE };
    assert_eq!(set_up(&mut exchange, 0, ONE, 1), [tell(1, offered)]);
    assert_eq!(exchange.open().count(), 0);
    let opened = ask(&mut exchange, 1, PartyAction::Accept(OFFERED));
    let (caller, called) = ((atm(0), ONE, at(0, 32)), (atm(1), OFFERED, at(1, 32)));
    let open = ExchangeAction::Open { caller, called };
    assert_eq!(opened, [open, tell(0, PartyEvent::Connected(ONE))]);
    assert_eq!(exchange.open().next(), Some([(atm(0), at(0, 32)), (atm(1), at(1, 32))]));
    let release = PartyAction::Release { call: OFFERED, cause: Cause::Normal };
    let close = ExchangeAction::Close { caller: at(0, 32), called: at(1, 32) };
    assert_eq!(ask(&mut exchange, 1, release), [close, released(0, ONE, Cause::Normal)]);
    // a release that crosses it is about nothing
    let release = PartyAction::Release { call: ONE, cause: Cause::Normal };
    assert_eq!(ask(&mut exchange, 0, release), []);
    let counters = exchange.counters();
    assert_eq!((counters.opened, counters.refused, counters.unknown), (1, 0, 1));
}

#[test]
fn calls_that_cannot_be_are_refused() {
    let mut exchange = exchange(3, 2);
    let two = Call::outgoing(2);
    let refused = |call, cause| [released(0, call, cause)];
    assert_eq!(set_up(&mut exchange, 0, ONE, 9), refused(ONE, Cause::NoSuchAddress));
    assert_eq!(set_up(&mut exchange, 0, ONE, 0), refused(ONE, Cause::Busy));
    assert_eq!(set_up(&mut exchange, 0, OFFERED, 1), refused(OFFERED, Cause::CallNumber));
    set_up(&mut exchange, 0, ONE, 1);
    assert_eq!(set_up(&mut exchange, 0, ONE, 1), refused(ONE, Cause::CallNumber));
    // all of the two circuits of port 1 are taken: the caller keeps none of its own
    set_up(&mut exchange, 2, ONE, 1);
    for _ in 0..5 {
        assert_eq!(set_up(&mut exchange, 0, two, 1), refused(two, Cause::NoCircuit));
    }
    let refuse = PartyAction::Release { call: OFFERED, cause: Cause::Busy };
    assert_eq!(ask(&mut exchange, 1, refuse), refused(ONE, Cause::Busy));
    assert_eq!(set_up(&mut exchange, 0, two, 1).len(), 1);
    assert_eq!(exchange.counters().refused, 10);
    // who is not registered cannot call
    assert_eq!(set_up(&mut exchange, 7, ONE, 0), [released(7, ONE, Cause::OutOfOrder)]);
}

#[test]
fn a_party_that_does_not_answer_is_given_up() {
    let mut exchange = exchange(2, 4);
    set_up(&mut exchange, 0, ONE, 1);
    let due = Duration::from_secs(10);
    assert_eq!(exchange.due(), Some(due));
    assert_eq!(polled(&mut exchange, due - MS), []);
    let cause = Cause::NoAnswer;
    assert_eq!(polled(&mut exchange, due), [released(0, ONE, cause), released(1, OFFERED, cause)]);
    assert_eq!(exchange.due(), None);
    // an answer that comes late opens nothing
    assert_eq!(ask(&mut exchange, 1, PartyAction::Accept(OFFERED)), []);
}

#[test]
fn an_address_is_at_one_port() {
    let mut exchange = exchange(2, 4);
    let twice = ExchangeEvent::Register { port: 1, address: atm(0) };
    let not = |port, address, holder| [ExchangeAction::NotRegistered { port, address, holder }];
    assert_eq!(handle(&mut exchange, twice), not(1, atm(0), Some(0)));
    // again at the same port is no fault
    let again = ExchangeEvent::Register { port: 0, address: atm(0) };
    assert_eq!(handle(&mut exchange, again), []);
    let nowhere = ExchangeEvent::Register { port: 5, address: atm(5) };
    assert_eq!(handle(&mut exchange, nowhere), not(5, atm(5), None));
    let more = |address| ExchangeEvent::Register { port: 1, address: atm(address) };
    assert_eq!(handle(&mut exchange, more(8)), []);
    assert_eq!(handle(&mut exchange, more(9)), not(1, atm(9), None), "two addresses a port");
    assert_eq!(exchange.parties().count(), 3);
}

#[test]
fn a_port_that_goes_takes_its_calls_with_it() {
    let mut exchange = exchange(2, 4);
    set_up(&mut exchange, 0, ONE, 1);
    ask(&mut exchange, 1, PartyAction::Accept(OFFERED));
    exchange.permanent([at(0, 34), at(1, 34)]).unwrap();
    let actions = handle(&mut exchange, ExchangeEvent::RemovePort(1));
    let close = ExchangeAction::Close { caller: at(0, 32), called: at(1, 32) };
    let cause = Cause::OutOfOrder;
    assert_eq!(actions, [close, released(0, ONE, cause), released(1, OFFERED, cause)]);
    assert_eq!(exchange.permanent([at(0, 34), at(1, 34)]), Err(None), "no port 1");
    assert_eq!(exchange.permanent([at(0, 34), at(0, 35)]), Ok(()), "its end is free again");
}

#[test]
fn a_circuit_in_use_is_refused() {
    let mut exchange = exchange(2, 2);
    exchange.permanent([at(0, 32), at(1, 33)]).unwrap();
    let used = CircuitError::InUse(at(1, 33).circuit);
    assert_eq!(exchange.permanent([at(0, 33), at(1, 33)]), Err(Some(used)));
    let reserved = CircuitError::Reserved(5);
    assert_eq!(exchange.permanent([at(0, 33), at(1, 5)]), Err(Some(reserved)));
    // neither has taken its first end, and calls go round the permanent one
    let offered = set_up(&mut exchange, 0, ONE, 1);
    assert_eq!(offered.len(), 1);
    let ExchangeAction::Open { caller, called } =
        ask(&mut exchange, 1, PartyAction::Accept(OFFERED))[0]
    else {
        panic!("not open")
    };
    assert_eq!((caller.2, called.2), (at(0, 33), at(1, 32)));
    assert!(!exchange.remove_permanent([at(0, 33), at(1, 32)]), "that one is no permanent one");
    assert!(exchange.remove_permanent([at(0, 32), at(1, 33)]));
    assert!(exchange.permanent([at(0, 32), at(1, 33)]).is_ok());
}

/// Notes what an exchange wants done: calls of parties, and whether they are offered or open.
#[track_caller]
fn reported(
    actions: Vec<ExchangeAction>,
    known: &mut BTreeMap<(AtmAddress, Call), bool>,
    open: &mut BTreeMap<PortCircuit, PortCircuit>,
) {
    for action in actions {
        match action {
            ExchangeAction::Open { caller, called } => {
                assert_eq!(open.insert(caller.2, called.2), None);
            }
            ExchangeAction::Close { caller, called } => {
                assert_eq!(open.remove(&caller), Some(called));
            }
            ExchangeAction::Tell { party, event } => match event {
                PartyEvent::Connected(call) => {
                    assert_eq!(known.insert((party, call), true), Some(false));
                }
                PartyEvent::Offered { call, .. } => {
                    assert_eq!(known.insert((party, call), true), None);
                }
                // the number of a call that is under way is refused, and the call stays
                PartyEvent::Released { cause: Cause::CallNumber, .. } => {}
                PartyEvent::Released { call, .. } => {
                    assert!(known.remove(&(party, call)).is_some(), "{call:?} of {party}");
                }
            },
            ExchangeAction::NotRegistered { .. } => panic!("it is not registered"),
        }
    }
}

proptest! {
    /// Whatever parties do, each open call has two circuits that no other call has, each open is
    /// closed once, and each party that began a call is told once that it is over.
    #[test]
    fn circuits_and_calls_are_kept_apart(
        steps in prop::collection::vec((0_u8..8, 0_u8..4, 0_u8..5, 0_u32..6), 0..200),
    ) {
        let mut exchange = exchange(4, 5);
        let (mut now, mut open) = (Duration::ZERO, BTreeMap::new());
        // the calls that each party has by what it was told
        let mut known: BTreeMap<(AtmAddress, Call), bool> = BTreeMap::new();
        for (what, party, other, number) in steps {
            let call = Call { is_incoming: number % 2 == 1, number };
            let mine: Vec<Call> =
                known.keys().filter(|(of, _)| *of == atm(party)).map(|(_, call)| *call).collect();
            let mine = mine.get(number as usize % mine.len().max(1)).copied().unwrap_or(call);
            let action = match what {
                0..3 => PartyAction::SetUp { call, to: atm(other), purpose: PURPOSE },
                3 | 4 => PartyAction::Accept(mine),
                _ => PartyAction::Release { call: mine, cause: Cause::Normal },
            };
            now += 500 * MS;
            reported(polled(&mut exchange, now), &mut known, &mut open);
            let event = match what {
                7 if number == 0 => {
                    let (port, highest) = (party.into(), Connection { vpi: 0, vci: 36 });
                    let added = ExchangeEvent::AddPort { port, highest };
                    reported(handled(&mut exchange, now, added), &mut known, &mut open);
                    ExchangeEvent::Register { port, address: atm(party) }
                }
                _ => {
                    match action {
                        PartyAction::SetUp { call, .. } if !call.is_incoming => {
                            known.entry((atm(party), call)).or_insert(false);
                        }
                        PartyAction::Release { call, .. } => _ = known.remove(&(atm(party), call)),
                        _ => {}
                    }
                    ExchangeEvent::Asked { party: atm(party), action }
                }
            };
            reported(handled(&mut exchange, now, event), &mut known, &mut open);
            let mut used: Vec<PortCircuit> = open.iter().flat_map(|(a, b)| [*a, *b]).collect();
            prop_assert_eq!(used.len(), 2 * exchange.open().count());
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), 2 * open.len(), "a circuit of two calls");
        }
    }
}
