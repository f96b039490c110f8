//! An emulated LAN in virtual time: ATM ports on a switch, without TAPs and without threads.

use std::sync::Arc;

use linkrate_model::model::Encapsulation;
use linkrate_wire::atm::Connection;
use linkrate_wire::atm::cell::Headers;
use linkrate_wire::control::LaneControl;
use linkrate_wire::control::lan_emulation::{FrameSize, Operation};
use linkrate_wire::frame::MacAddress;

use crate::atm::lane::LaneStation;
use crate::cells::{CellTrain, Run, Unit};
use crate::counters::ElanCounters;
use crate::device::atm::rig::{ALL, Ports, SECOND_PS, client, mac, station};
use crate::fabric::AtmSwitch;
use crate::fabric::atm_switch::servers::ElanSpec;
use crate::frame::WireFrame;

type World = Ports<Arc<ElanCounters>>;

fn elan(name: &str, size: FrameSize) -> ElanSpec {
    ElanSpec { name: name.to_owned(), size }
}

impl World {
    fn new(elans: Vec<ElanSpec>, stations: &[LaneStation]) -> Self {
        let (mut fabric, counters) = (AtmSwitch::default(), Arc::<ElanCounters>::default());
        fabric.emulate(elans, Arc::clone(&counters));
        let mut world = Self::on(fabric, counters);
        stations.iter().for_each(|station| world.attach(client(station.clone())));
        world
    }

    /// Hosts with an ELAN of 1516 octets, after they have joined.
    fn joined(hosts: usize) -> Self {
        let stations: Vec<LaneStation> = (0..hosts).map(station).collect();
        let mut world = Self::new(vec![elan("blue", FrameSize::Octets1516)], &stations);
        world.run_for(SECOND_PS);
        for host in 0..hosts {
            assert_eq!(world.report(host).state, "operational", "{:?}", world.report(host));
        }
        world
    }

    /// The uses of the open connections of a host.
    fn uses(&self, host: usize) -> Vec<String> {
        let channels = self.hosts[host].atm.channels();
        let mut uses: Vec<String> =
            channels.iter().filter_map(|channel| channel.report().purpose).collect();
        uses.sort();
        uses
    }

    fn served(&self, name: &str) -> u64 {
        self.server.values().find(|(of, _)| *of == name).unwrap().1
    }
}

/// With the connections to servers, and a data-direct connection.
const FIVE: [&str; 5] =
    ["control direct", "control distribute", "data direct", "multicast forward", "multicast send"];

#[test]
fn hosts_join_and_their_frames_take_connections_of_their_own() {
    let mut world = World::joined(3);
    let without: Vec<&str> = FIVE.into_iter().filter(|one| *one != "data direct").collect();
    assert_eq!(world.uses(0), without);
    let report = world.report(0);
    assert_eq!((report.elan.as_str(), report.size, report.lecid), ("blue", 1516, 1));
    assert_eq!((world.served("elanConfigured"), world.served("elanJoined")), (3, 3));
    // a broadcast goes to all others, padded to the shortest frame
    world.send(0, ALL, 42);
    world.run_for(SECOND_PS / 10);
    for host in [1, 2] {
        assert_eq!(world.got(host), [(mac(0), 60)]);
    }
    assert_eq!((world.got(0), world.counted(0, "laneRxOwn")), (vec![], 1));
    // the first frames to a station go through the BUS, at their rate; all arrive in their order
    for octets in [60, 61, 1514, 700] {
        world.send(1, mac(0), octets);
    }
    world.run_for(10 * SECOND_PS);
    let shown = world.report(1).cache.into_iter().find(|one| one.mac == mac(0).to_string());
    assert!(shown.is_some_and(|station| station.direct), "the way after the flush");
    let expected = [60, 61, 1514, 700].map(|octets| (mac(1), octets));
    assert_eq!(world.got(0), expected);
    assert_eq!(world.got(2), []);
    assert_eq!(world.counted(1, "laneTxUnknown") + world.counted(1, "laneTxDirect"), 4);
    assert!(world.counted(1, "laneTxDirect") > 0 && world.counted(1, "laneFlushes") > 0);
    assert_eq!(
        (world.uses(0), world.uses(1)),
        (FIVE.map(str::to_owned).to_vec(), FIVE.map(str::to_owned).to_vec())
    );
    let cache = world.report(1).cache;
    assert_eq!(cache.len(), 1);
    assert_eq!((cache[0].mac.as_str(), cache[0].direct), (mac(0).to_string().as_str(), true));
    assert_eq!(cache[0].atm_address, Some(station(0).atm.to_string()));
    // and the answers take the same connection
    world.send(0, mac(1), 1000);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.got(1), [(mac(0), 1000)]);
    for host in 0..3 {
        assert_eq!(world.counted(host, "aal5VccCrcErrors"), 0);
        assert_eq!(world.counted(host, "laneRxLies"), 0);
        assert_eq!(world.counted(host, "laneFellBack"), 0);
    }
}

#[test]
fn a_connection_that_nobody_uses_is_released_and_made_again() {
    let mut world = World::joined(2);
    for _ in 0..2 {
        world.send(0, mac(1), 100);
        world.run_for(10 * SECOND_PS);
        assert_eq!(world.got(1), [(mac(0), 100)]);
        world.send(0, mac(1), 100);
        world.run_for(10 * SECOND_PS);
        assert!(world.uses(0).contains(&"data direct".to_owned()));
        assert_eq!(world.got(1).len(), 1);
        world.run_for(25 * 60 * SECOND_PS);
        assert!(!world.uses(0).contains(&"data direct".to_owned()), "{:?}", world.uses(0));
        assert!(!world.uses(1).contains(&"data direct".to_owned()));
        assert_eq!(world.report(0).cache, []);
    }
    assert!(world.counted(0, "laneArpAged") > 0);
}

#[test]
fn the_sizes_of_elan_and_client_must_be_the_same() {
    let longer = LaneStation { size: FrameSize::Octets9234, ..station(1) };
    let mut world =
        World::new(vec![elan("blue", FrameSize::Octets1516)], &[station(0), longer.clone()]);
    world.run_for(5 * SECOND_PS);
    assert_eq!(world.report(0).state, "operational");
    let report = world.report(1);
    assert_eq!(report.lecid, 0);
    let why = "Configure was refused: the settings contradict those of the ELAN";
    assert_eq!(report.fell_back.as_deref(), Some(why));
    assert!(world.served("elanRefused") > 0 && world.counted(1, "laneFellBack") > 0);
    // an ELAN of its own has its size, beside the other one on the same switch
    let red = LaneStation { elan: "red".to_owned(), ..longer };
    let far = LaneStation { atm: station(2).atm, mac: mac(2), ..red.clone() };
    let both = vec![elan("blue", FrameSize::Octets1516), elan("red", FrameSize::Octets9234)];
    let mut world = World::new(both, &[station(0), red, far]);
    world.run_for(5 * SECOND_PS);
    world.send(1, ALL, 9232);
    world.send(1, ALL, 9233);
    world.run_for(SECOND_PS);
    // the ELANs do not hear each other, and the port does not send what is too long
    assert_eq!((world.got(0), world.got(2)), (vec![], vec![(mac(1), 9232)]));
    assert_eq!(world.counted(1, "txDropOversized"), 1);
}

#[test]
fn an_elan_that_nobody_has_is_refused() {
    let other = LaneStation { elan: "green".to_owned(), ..station(0) };
    let mut world = World::new(vec![elan("blue", FrameSize::Octets1516)], &[other]);
    world.run_for(5 * SECOND_PS);
    let why = "Configure was refused: there is no such ELAN";
    assert_eq!(world.report(0).fell_back.as_deref(), Some(why));
    // a client that names none gets the one that there is
    let any = LaneStation { elan: String::new(), ..station(0) };
    let mut world = World::new(vec![elan("blue", FrameSize::Octets1516)], &[any]);
    world.run_for(SECOND_PS);
    assert_eq!(world.report(0).elan, "blue");
}

#[test]
fn an_atm_address_or_an_ethernet_address_is_there_once() {
    let twice = LaneStation { atm: station(0).atm, ..station(1) };
    let mut world = World::new(vec![elan("blue", FrameSize::Octets1516)], &[station(0), twice]);
    world.run_for(20 * SECOND_PS);
    assert_eq!(world.report(0).state, "operational");
    let report = world.report(1);
    let why = "another port has this ATM address";
    assert_eq!((report.fell_back.as_deref(), report.lecid), (Some(why), 0));
    // until it is free
    world.hosts[0].shared.links[0].set_up(false);
    world.run_for(20 * SECOND_PS);
    assert_eq!(world.report(1).state, "operational", "{:?}", world.report(1));
    let twice = LaneStation { mac: mac(0), ..station(1) };
    let mut world = World::new(vec![elan("blue", FrameSize::Octets1516)], &[station(0), twice]);
    world.run_for(5 * SECOND_PS);
    assert_eq!(world.report(0).state, "operational");
    let why = "Join was refused: another client has the Ethernet address";
    assert_eq!(world.report(1).fell_back.as_deref(), Some(why));
}

#[test]
fn an_elan_comes_back_after_link_and_switch() {
    let mut world = World::joined(2);
    let exchange = |world: &mut World| {
        for (from, to) in [(0, 1), (1, 0)] {
            world.send(from, mac(to), 300);
            world.run_for(10 * SECOND_PS);
            assert_eq!(world.got(to), [(mac(from), 300)], "{:?}", world.report(from));
        }
    };
    exchange(&mut world);
    world.hosts[0].shared.links[0].set_up(false);
    world.run_for(10 * SECOND_PS);
    assert_ne!(world.report(0).state, "operational");
    assert_eq!(world.uses(0), [] as [&str; 0]);
    assert!(!world.uses(1).contains(&"data direct".to_owned()));
    world.send(0, mac(1), 300);
    world.run_for(SECOND_PS);
    assert_eq!(world.got(1), []);
    world.hosts[0].shared.links[0].set_up(true);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.report(0).state, "operational", "{:?}", world.report(0));
    exchange(&mut world);
    world.set_switch_alive(false);
    world.run_for(10 * SECOND_PS);
    world.set_switch_alive(true);
    world.run_for(10 * SECOND_PS);
    for host in 0..2 {
        assert_eq!(world.report(host).state, "operational", "{:?}", world.report(host));
    }
    exchange(&mut world);
    // the counters of the servers did not go back
    assert!(world.served("elanJoined") >= 3);
}

#[test]
fn a_flood_of_questions_is_bounded() {
    let mut world = World::joined(2);
    for station in 0..3000_u16 {
        let [high, low] = station.to_be_bytes();
        world.send(0, MacAddress([2, 9, 9, 9, high, low]), 60);
        if station % 256 == 0 {
            world.run_for(SECOND_PS / 100);
        }
    }
    world.run_for(SECOND_PS / 2);
    assert!(world.report(0).cache.len() <= 1024);
    assert!(world.counted(0, "laneTxDropped") > 0);
    assert!(world.served("elanControlDropped") > 0);
    // the other client is not hurt, and this one only as long as the flood lasts
    world.run_for(30 * SECOND_PS);
    world.got(1);
    world.send(0, mac(1), 400);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.got(1), [(mac(0), 400)]);
    assert!(world.report(0).cache.len() <= 2, "{}", world.report(0).cache.len());
}

/// Units on the control-direct connection of host 0, as a client that lies would send them.
#[test]
fn units_that_lie_are_counted_and_change_nothing() {
    let mut world = World::joined(2);
    let vci = {
        let channels = world.hosts[0].atm.channels();
        let reports = channels.iter().map(|channel| channel.report());
        let of = |report: &linkrate_model::lab::ConnectionReport| {
            report.purpose.as_deref() == Some("control direct")
        };
        reports.into_iter().find(of).unwrap().vci
    };
    let headers = Headers::of(Connection { vpi: 0, vci });
    let unit = |octets: Vec<u8>| Arc::new(Unit::new(&[], WireFrame::copied(octets)).unwrap());
    let send = |world: &mut World, octets: Vec<u8>, cells: usize| {
        let unit = unit(octets);
        let range = 0..(unit.cells() - cells as u32);
        let run = CellTrain::Run(Run { unit, headers, range, spacing_ps: 1 });
        let at_ps = world.now_ps;
        world.segment.fabric().enter(0, run.into(), at_ps);
        world.run_for(SECOND_PS / 10);
    };
    let lies = world.served("elanControlLies");
    send(&mut world, vec![7; 108], 0);
    let topology = LaneControl { requester: 99, ..LaneControl::request(Operation::Topology) };
    send(&mut world, topology.emit(), 0);
    assert_eq!(world.served("elanControlLies"), lies + 2);
    // longer than any control frame, and one without its end
    send(&mut world, vec![7; 4000], 0);
    assert_eq!(world.served("elanAal5Errors"), 1);
    send(&mut world, vec![7; 100], 1);
    world.run_for(2 * SECOND_PS);
    assert_eq!(world.served("elanAal5Errors"), 2);
    world.send(0, mac(1), 400);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.got(1), [(mac(0), 400)]);
}

#[test]
fn each_size_carries_its_longest_frame() {
    for (encapsulation, octets) in
        Encapsulation::EMULATED.into_iter().zip([1514, 4542, 9232, 18_188])
    {
        let of = LaneStation::of(encapsulation).unwrap();
        let stations = [0, 1].map(|host| LaneStation { size: of.size, ..station(host) });
        let mut world = World::new(vec![elan("blue", of.size)], &stations);
        world.run_for(SECOND_PS);
        world.send(0, mac(1), octets);
        world.run_for(10 * SECOND_PS);
        assert_eq!(world.got(1), [(mac(0), octets)]);
    }
}
