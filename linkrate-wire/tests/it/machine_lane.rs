//! LAN Emulation: clients, LECS, LES and BUS over any connections.

use std::time::Duration;

use crate::elan::{MS, SECOND, Wire, World, atm, bus, config, les, mac};
use linkrate_wire::control::lan_emulation::{Operation, Status};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::lane::{ClientAction, ClientConfig, ClientEvent, Path, State};
use proptest::prelude::*;

const CLIENTS: usize = 4;
/// The client that is a bridge, and a station behind it.
const PROXY: usize = 3;
const BEHIND: u8 = 77;

fn configs() -> Vec<ClientConfig> {
    let one = |number: usize| ClientConfig { proxy: number == PROXY, ..config(number as u8) };
    (0..CLIENTS).map(one).collect()
}

fn world(wire: Wire, seed: u64) -> World {
    let mut world = World::new(&configs(), wire, seed);
    world.client(PROXY, ClientEvent::Behind(mac(BEHIND)));
    world
}

fn operational() -> World {
    let mut world = world(Wire::good(MS), 1);
    world.run_for(SECOND);
    world
}

fn states(world: &World) -> Vec<State> {
    world.clients.iter().map(|client| client.state()).collect()
}

fn sent(world: &World, operation: Operation, is_response: bool) -> usize {
    let is_it = |frame: &linkrate_wire::control::LaneControl| {
        frame.operation == operation && frame.is_response == is_response
    };
    world.control.iter().filter(|(_, _, frame)| is_it(frame)).count()
}

#[test]
fn clients_become_operational() {
    let world = operational();
    assert_eq!(states(&world), [State::Operational; CLIENTS]);
    let mut lecids: Vec<u16> = world.clients.iter().map(|client| client.lecid()).collect();
    lecids.sort_unstable();
    assert_eq!(lecids, [1, 2, 3, 4]);
    let expected: Vec<_> = (0..CLIENTS as u8).map(|number| (mac(number), atm(number))).collect();
    assert_eq!(world.les.stations().collect::<Vec<_>>(), expected);
    assert_eq!((world.bus.clients().count(), world.lecs.counters().configured), (4, 4));
    let steps: Vec<State> = world
        .told
        .iter()
        .filter_map(|(_, client, action)| match action {
            ClientAction::Changed { to, reason: None, .. } if *client == 0 => Some(*to),
            _ => None,
        })
        .collect();
    use State::{Configuring, Connecting, Joining, Operational, Registering};
    assert_eq!(steps, [Configuring, Joining, Registering, Connecting, Operational]);
}

#[test]
fn a_broadcast_reaches_all_others_once() {
    let mut world = operational();
    world.frame(0, mac(0), MacAddress::BROADCAST);
    world.run_for(SECOND);
    let counts = [0, 1, 2, 3].map(|at| world.count(mac(0), MacAddress::BROADCAST, at));
    assert_eq!(counts, [0, 1, 1, 1]);
    // the sender has filtered its own
    assert_eq!(world.clients[0].counters().own, 1);
}

#[test]
fn the_first_frame_goes_through_the_bus_and_a_flush_precedes_the_change() {
    let mut world = operational();
    for _ in 0..20 {
        world.frame(0, mac(0), mac(1));
        world.run_for(MS);
    }
    world.run_for(SECOND);
    assert_eq!(world.count(mac(0), mac(1), 1), 20);
    let counters = world.clients[0].counters();
    assert_eq!((counters.sent_unknown, counters.sent_direct), (1, 19));
    assert_eq!((counters.flushed, sent(&world, Operation::Flush, true)), (1, 2));
    assert!(matches!(world.clients[0].path(mac(1)), Some(Path::Direct(_))));
    // others have dropped what was not for them
    assert_eq!(world.clients[2].counters().of_others, 1);
    // the way back uses the same connection, without the BUS
    world.frame(1, mac(1), mac(0));
    world.run_for(SECOND);
    let counters = world.clients[1].counters();
    assert_eq!((counters.sent_unknown, counters.sent_direct), (1, 0));
    assert_eq!(world.clients[1].directs().count(), 1);
    world.frame(1, mac(1), mac(0));
    world.run_for(SECOND);
    assert_eq!((world.count(mac(1), mac(0), 0), world.clients[1].counters().sent_direct), (2, 1));
}

#[test]
fn unknown_frames_are_limited() {
    let mut world = operational();
    for _ in 0..1000 {
        world.frame(0, mac(0), mac(99));
        world.run_for(10 * MS);
    }
    // nobody answers: one frame and one question in a second
    let counters = world.clients[0].counters();
    assert!((9..=11).contains(&counters.sent_unknown), "{counters:?}");
    // and one for the BUS, when it joined
    assert!((10..=12).contains(&counters.asked), "{counters:?}");
    // the rest has waited in vain, or still does
    let held: usize = world.clients[0].cache().map(|one| one.held).sum();
    let total = counters.sent_unknown + counters.dropped + held as u64;
    assert_eq!((held <= 64, total), (true, 1000));
    world.run_for(30 * SECOND);
    assert_eq!(world.clients[0].cache().count(), 0, "an unknown station is forgotten");
    // the bridge has got all that was sent
    let counters = world.clients[0].counters();
    assert_eq!(world.count(mac(0), mac(99), PROXY), counters.sent_unknown);
    assert_eq!(counters.sent_unknown + counters.dropped, 1000);
}

#[test]
fn a_proxy_answers_for_the_station_behind_it() {
    let mut world = operational();
    for _ in 0..10 {
        world.frame(0, mac(0), mac(BEHIND));
        world.run_for(100 * MS);
    }
    assert_eq!(world.count(mac(0), mac(BEHIND), PROXY), 10);
    let entry = world.clients[0].cache().next().unwrap();
    assert_eq!((entry.atm, entry.is_remote), (Some(atm(PROXY as u8)), true));
    let [asks, tells] = [0, PROXY].map(|at| world.clients[at].counters());
    // each has asked for the BUS when it joined
    assert_eq!((asks.asked, asks.answers, asks.answered), (2, 2, 0));
    assert_eq!((tells.asked_by_others, tells.answered, tells.answers), (1, 1, 1));
    // those of joining come before those of the question
    assert!(asks.control_in >= 5 && tells.control_in >= 5, "{asks:?} {tells:?}");
    // a change of topology leaves it 15 s since it was told, 2 s ago, and the entry of a station that is registered as it was
    world.frame(0, mac(0), mac(1));
    world.run_for(SECOND);
    world.client(PROXY, ClientEvent::Topology { changing: true });
    world.run_for(MS * 10);
    let now = world.now;
    let left = |world: &World| {
        let entries = world.clients[0].cache().map(|one| one.expires.unwrap() - now);
        entries.map(|left| left.as_secs()).collect::<Vec<_>>()
    };
    assert_eq!(left(&world), [298, 12]);
    assert!(world.clients[0].topology_changes());
    // it was used, so it is verified once more
    world.run_for(14 * SECOND);
    assert_eq!(world.clients[0].cache().count(), 2);
    world.run_for(15 * SECOND);
    assert_eq!(world.clients[0].cache().count(), 1, "it was not used since and has aged");
    world.client(PROXY, ClientEvent::Topology { changing: false });
    world.run_for(SECOND);
    assert!(!world.clients[0].topology_changes());
    // an ordinary client cannot tell that topology changes
    world.client(1, ClientEvent::Topology { changing: true });
    world.run_for(SECOND);
    assert!(!world.clients[0].topology_changes());
}

#[test]
fn entries_in_use_are_verified_and_others_age() {
    let mut world = operational();
    world.frame(0, mac(0), mac(1));
    world.frame(0, mac(0), mac(2));
    for _ in 0..1300 {
        world.frame(0, mac(0), mac(1));
        world.run_for(SECOND);
    }
    let counters = world.clients[0].counters();
    assert_eq!(world.count(mac(0), mac(1), 1), 1301);
    // one frame to each through the BUS, nothing ever went back to it
    assert_eq!((counters.sent_unknown, counters.aged), (2, 1));
    assert!((6..=8).contains(&counters.asked), "{counters:?}");
    // the connection to the other one became idle: neither end has it
    assert_eq!(world.clients[0].directs().count(), 1);
    assert_eq!((world.clients[1].directs().count(), world.clients[2].directs().count()), (1, 0));
    world.run_for(21 * 60 * SECOND);
    assert_eq!((world.clients[0].directs().count(), world.clients[0].cache().count()), (0, 0));
    // it comes back when it is wanted
    world.frame(0, mac(0), mac(1));
    world.run_for(SECOND);
    world.frame(0, mac(0), mac(1));
    world.run_for(SECOND);
    assert_eq!(world.count(mac(0), mac(1), 1), 1303);
    assert_eq!(world.clients[0].directs().count(), 1);
}

#[test]
fn an_entry_in_use_is_asked_for_until_it_is_verified() {
    let mut world = operational();
    for _ in 0..288 {
        world.frame(0, mac(0), mac(1));
        world.run_for(SECOND);
    }
    let asked = world.clients[0].counters().asked;
    world.wire.lost = 1000;
    world.run_for(6 * SECOND);
    // once in each of config(0).times.arp
    let again = world.clients[0].counters().asked - asked;
    assert!((3..=5).contains(&again), "{again}");
    world.wire.lost = 0;
    world.run_for(20 * SECOND);
    assert_eq!((world.clients[0].cache().count(), world.clients[0].counters().aged), (1, 0));
}

#[test]
fn a_lost_server_is_joined_again() {
    let mut world = operational();
    for (is_bus, falls) in [(false, 1), (true, 2)] {
        world.frame(0, mac(0), mac(1));
        world.run_for(SECOND);
        world.flap_server(is_bus);
        world.run_for(100 * MS);
        assert_eq!(states(&world), [State::Initial; CLIENTS]);
        assert_eq!((world.les.members().count(), world.bus.clients().count()), (0, 0));
        assert_eq!(world.clients[0].directs().count(), 0);
        world.run_for(5 * SECOND);
        assert_eq!(states(&world), [State::Operational; CLIENTS]);
        assert_eq!(world.clients[0].counters().fell_back, falls);
    }
}

#[test]
fn a_server_that_is_away_is_tried_ever_more_rarely() {
    let mut world = World::new(&[config(0)], Wire::good(MS), 1);
    world.exchange(linkrate_wire::machine::call::ExchangeEvent::Unregister(les()));
    world.run_for(3600 * SECOND);
    let tries = world.clients[0].counters().fell_back;
    assert!((55..=70).contains(&tries), "{tries} in an hour");
    world.flap_server(false);
    world.run_for(61 * SECOND);
    assert_eq!(states(&world), [State::Operational]);
}

#[test]
fn more_stations_are_registered_and_unregistered() {
    let mut world = World::new(&configs()[..2], Wire::good(MS), 1);
    world.client(0, ClientEvent::Register(mac(50)));
    world.run_for(SECOND);
    world.client(0, ClientEvent::Register(mac(51)));
    world.client(1, ClientEvent::Register(mac(50)));
    world.run_for(SECOND);
    let stations = |world: &World| world.les.stations().collect::<Vec<_>>();
    let both = [(mac(0), atm(0)), (mac(1), atm(1)), (mac(50), atm(0)), (mac(51), atm(0))];
    assert_eq!(stations(&world), both);
    let refused =
        ClientAction::NotRegistered { mac: mac(50), status: Status::DUPLICATE_DESTINATION };
    assert!(world.told.iter().any(|(_, client, reported)| (*client, reported) == (1, &refused)));
    world.client(0, ClientEvent::Unregister(mac(50)));
    world.run_for(SECOND);
    assert_eq!(stations(&world).len(), 3);
    world.client(1, ClientEvent::Register(mac(50)));
    world.run_for(SECOND);
    assert!(stations(&world).contains(&(mac(50), atm(1))));
    world.client(1, ClientEvent::Stop);
    world.run_for(SECOND);
    assert_eq!(stations(&world), [(mac(0), atm(0)), (mac(51), atm(0))]);
    assert_eq!((world.bus.clients().count(), world.calls(atm(1)).len()), (1, 0));
}

/// Traffic between all stations for a while.
fn talk(world: &mut World, rounds: u32, pause: Duration) {
    for _ in 0..rounds {
        for from in 0..CLIENTS {
            for to in (0..CLIENTS as u8).filter(|to| usize::from(*to) != from) {
                world.frame(from, mac(from as u8), mac(to));
            }
            if from != PROXY {
                world.frame(from, mac(from as u8), mac(BEHIND));
            }
        }
        world.run_for(pause);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Frames stay in order and come once: [`World`] looks at each.
    #[test]
    fn all_are_operational_and_right_in_the_end(
        seed: u64, lost in 0_u64..300, doubled in 0_u64..300, longest in 1_u32..400,
        breaks in prop::collection::vec((0_usize..CLIENTS + 2, 0_u64..40), 0..6),
    ) {
        let wire = Wire { lost, doubled, delay: MS..=longest * MS };
        let mut world = world(wire, seed);
        world.run_for(20 * SECOND);
        talk(&mut world, 20, 300 * MS);
        for (which, seconds) in breaks {
            match which.checked_sub(CLIENTS) {
                None => world.flap(which),
                Some(server) => world.flap_server(server == 0),
            }
            talk(&mut world, 4, 100 * MS);
            world.run_for(seconds as u32 * SECOND);
            talk(&mut world, 10, 200 * MS);
        }
        world.wire = Wire::good(MS);
        world.run_for(300 * SECOND);
        prop_assert_eq!(states(&world), [State::Operational; CLIENTS]);
        let expected: Vec<_> =
            (0..CLIENTS as u8).map(|number| (mac(number), atm(number))).collect();
        prop_assert_eq!(world.les.stations().collect::<Vec<_>>(), expected);
        prop_assert_eq!(world.bus.clients().count(), CLIENTS);
        // a quarter of a minute is more than any hold-down and any flush
        talk(&mut world, 150, 100 * MS);
        let before = world.delivered.clone();
        talk(&mut world, 10, 100 * MS);
        for from in 0..CLIENTS {
            let others = (0..CLIENTS as u8).filter(|to| usize::from(*to) != from);
            let to: Vec<u8> = others.chain((from != PROXY).then_some(BEHIND)).collect();
            for to in to {
                let at = if to == BEHIND { PROXY } else { usize::from(to) };
                let cached = world.clients[from].cache().find(|one| one.mac == mac(to)).unwrap();
                prop_assert_eq!(cached.atm, Some(atm(at as u8)), "{} to {}", from, to);
                prop_assert_eq!(cached.is_remote, to == BEHIND);
                prop_assert!(matches!(cached.path, Path::Direct(_)), "{:?}", cached);
                let flow = (mac(from as u8), mac(to), at);
                prop_assert_eq!(world.delivered[&flow].0, before[&flow].0 + 10);
            }
        }
        // nothing is left of what was: only the calls of servers, and those between clients
        let known = |party| [les(), bus()].contains(&party) || (0..CLIENTS as u8).any(|one| atm(one) == party);
        for client in 0..CLIENTS as u8 {
            prop_assert!(world.calls(atm(client)).iter().all(|(_, other)| known(*other)));
            let servers = world.calls(atm(client));
            let of = |party| servers.iter().filter(|(_, other)| *other == party).count();
            prop_assert_eq!((of(les()), of(bus())), (2, 2));
        }
    }
}
