//! A bridge in virtual time: ATM ports and Ethernet ports on one fabric.

use linkrate_model::lab::LaneReport;
use linkrate_wire::control::lan_emulation::FrameSize;

use super::*;
use crate::device::atm::rig::{ALL, Ports, SECOND_PS, client, frame, limits, mac, read, station};
use crate::fabric::atm_switch::servers::ElanSpec;

/// ATM hosts 0 and 1, and two Ethernet ports behind them.
type World = Ports<Arc<BridgeShared>>;

const ETHERNET: [usize; 2] = [2, 3];

impl World {
    fn new() -> Self {
        let (mut fabric, bridge) = (Bridged::default(), Arc::<BridgeShared>::default());
        let elan = ElanSpec { name: "blue".to_owned(), size: FrameSize::Octets1516 };
        fabric.atm.emulate(vec![elan], Arc::default());
        fabric.bridge(&station(200), limits().link, Arc::clone(&bridge));
        let mut world = Self::on(fabric, bridge);
        [0, 1].into_iter().for_each(|host| world.attach(client(station(host))));
        let ethernet = LinkSpec { law: LinkLaw::Ethernet, rate: Some(BitRate(1e9)) };
        for port in ETHERNET {
            world.segment.fabric().attach(port, ethernet, 0);
        }
        world.run_for(SECOND_PS);
        assert_eq!(world.bridge().state, "operational", "{:?}", world.bridge());
        world
    }

    fn bridge(&self) -> LaneReport {
        self.server.lane.report()
    }

    fn behind(&self) -> Vec<String> {
        self.bridge().behind.unwrap()
    }

    fn of_bridge(&self, name: &str) -> u64 {
        let (lane, own) = (self.server.lane.counters.values(), self.server.counters.values());
        lane.chain(own).find(|(of, _)| *of == name).unwrap().1
    }

    /// A station at an Ethernet port sends a frame, and the world continues for a moment.
    fn station_sends(&mut self, port: usize, to: MacAddress, octets: usize) {
        let frame = WireFrame::copied(frame(to, mac(port), octets));
        let at_ps = self.now_ps;
        self.segment.fabric().enter(port, frame.into(), at_ps);
        self.run_for(SECOND_PS / 10);
    }

    fn host_sends(&mut self, host: usize, to: MacAddress, octets: usize) {
        self.send(host, to, octets);
        self.run_for(SECOND_PS / 10);
    }

    /// The senders and lengths of the frames that came to an Ethernet port.
    fn came(&mut self, port: usize) -> Vec<(MacAddress, usize)> {
        let now_ps = self.now_ps;
        let in_flight = self.segment.fabric().to(port).unwrap();
        let pdus = std::iter::from_fn(|| in_flight.arrived(now_ps));
        let bursts = pdus.filter_map(|(_, pdu)| pdu.into_frames());
        bursts
            .flat_map(|burst| burst.each().map(|frame| read(&frame.to_vec())).collect::<Vec<_>>())
            .collect()
    }

    /// Both sides know each other, and frames of host 0 take a connection to the bridge.
    fn acquainted() -> Self {
        let mut world = Self::new();
        world.station_sends(2, ALL, 60);
        world.host_sends(0, mac(2), 100);
        world.run_for(10 * SECOND_PS);
        world.host_sends(0, mac(2), 1514);
        world.run_for(10 * SECOND_PS);
        assert_eq!(world.came(2), [(mac(0), 100), (mac(0), 1514)]);
        assert_eq!((world.got(0), world.got(1)), (vec![(mac(2), 60)], vec![(mac(2), 60)]));
        world.came(3);
        world
    }
}

#[test]
fn a_proxy_answers_for_a_station_on_ethernet() {
    let mut world = World::acquainted();
    let cache = world.report(0).cache;
    assert_eq!(cache.len(), 1, "{cache:?}");
    let known = &cache[0];
    assert_eq!((&known.mac, known.remote, known.direct), (&mac(2).to_string(), true, true));
    assert_eq!(known.atm_address, Some(station(200).atm.to_string()));
    assert_eq!(world.behind(), [mac(2).to_string()]);
    // the answers take the same connection, in their order
    for octets in [60, 1514, 61] {
        world.station_sends(2, mac(0), octets);
    }
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.got(0), [60, 1514, 61].map(|octets| (mac(2), octets)));
    assert_eq!(world.got(1), []);
    assert!(world.of_bridge("laneTxDirect") > 0);
    assert_eq!(
        (world.of_bridge("dot1dTpPortInFrames"), world.of_bridge("dot1dTpPortOutFrames")),
        (4, 2)
    );
    assert_eq!((world.of_bridge("bridgeAal5Errors"), world.of_bridge("laneFellBack")), (0, 0));
}

#[test]
fn frames_to_all_and_to_unknown_stations_cross_the_bridge() {
    let mut world = World::new();
    world.host_sends(0, ALL, 60);
    for port in ETHERNET {
        assert_eq!(world.came(port), [(mac(0), 60)]);
    }
    assert_eq!(world.got(1), [(mac(0), 60)]);
    // nobody has heard of the station yet
    world.host_sends(1, mac(3), 70);
    assert_eq!((world.came(2), world.came(3)), (vec![(mac(1), 70)], vec![(mac(1), 70)]));
    // between stations on Ethernet no frame takes a cell
    world.station_sends(3, mac(1), 60);
    world.station_sends(2, mac(3), 60);
    assert_eq!(world.came(3), [(mac(2), 60)]);
    world.run_for(5 * SECOND_PS);
    assert_eq!((world.got(0), world.got(1)), (vec![], vec![(mac(3), 60)]));
    // and one that is longer than the ELAN's longest is not passed on
    let dropped = world.of_bridge("laneTxDropped");
    world.station_sends(2, mac(1), 1515);
    assert_eq!(world.of_bridge("laneTxDropped"), dropped + 1);
}

#[test]
fn a_station_that_is_silent_is_forgotten() {
    let mut world = World::acquainted();
    world.run_for(200 * SECOND_PS);
    world.station_sends(2, mac(0), 60);
    world.run_for(299 * SECOND_PS);
    assert_eq!(world.behind(), [mac(2).to_string()]);
    world.run_for(2 * SECOND_PS);
    assert_eq!(world.behind(), [] as [&str; 0]);
    // the host asks, nobody answers, and the frame crosses through the BUS
    world.run_for(400 * SECOND_PS);
    world.came(2);
    world.host_sends(0, mac(2), 80);
    assert_eq!(world.came(2), [(mac(0), 80)]);
    assert!(!world.report(0).cache[0].direct && world.report(0).cache[0].atm_address.is_none());
}

#[test]
fn a_port_that_fails_changes_the_topology() {
    let mut world = World::acquainted();
    world.station_sends(3, mac(0), 60);
    world.segment.fabric().set_link(2, None, false);
    world.run_for(SECOND_PS);
    assert_eq!(world.of_bridge("bridgeTopologyChanges"), 1);
    assert_eq!(world.behind(), [] as [&str; 0]);
    // an entry of 300 s that was told more than 15 s ago goes at once
    assert_eq!(world.report(0).cache, []);
    world.run_for(20 * SECOND_PS);
    // the station is at the other port now, and says so
    world.station_sends(3, ALL, 60);
    let moved = WireFrame::copied(frame(ALL, mac(2), 60));
    let at_ps = world.now_ps;
    world.segment.fabric().enter(3, moved.into(), at_ps);
    world.run_for(SECOND_PS);
    world.came(3);
    world.host_sends(0, mac(2), 90);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.came(3), [(mac(0), 90)]);
    assert_eq!(world.report(0).cache[0].atm_address, Some(station(200).atm.to_string()));
    // when the change is over, an entry holds as before
    world.run_for(30 * SECOND_PS);
    world.host_sends(0, mac(2), 90);
    world.run_for(60 * SECOND_PS);
    assert_eq!(world.report(0).cache.len(), 1);
}

#[test]
fn a_station_may_move_to_an_atm_port_and_back() {
    let mut world = World::acquainted();
    // host 1 now has the station's address: a machine behind it was plugged in there
    let moved = frame(ALL, mac(2), 64);
    world.post_frame(1, &moved);
    world.run_for(SECOND_PS);
    assert_eq!(world.behind(), [] as [&str; 0]);
    assert_eq!(world.came(3), [(mac(2), 64)]);
    world.station_sends(2, ALL, 60);
    assert_eq!(world.behind(), [mac(2).to_string()]);
}

#[test]
fn a_bridge_comes_back_with_its_switch() {
    let mut world = World::acquainted();
    world.set_switch_alive(false);
    world.station_sends(2, ALL, 60);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.behind(), [] as [&str; 0]);
    world.set_switch_alive(true);
    world.run_for(10 * SECOND_PS);
    assert_eq!(world.bridge().state, "operational", "{:?}", world.bridge());
    world.got(0);
    world.came(2);
    world.station_sends(2, ALL, 60);
    world.host_sends(0, mac(2), 100);
    world.run_for(10 * SECOND_PS);
    assert_eq!((world.got(0), world.came(2)), (vec![(mac(2), 60)], vec![(mac(0), 100)]));
}

/// Ethernet is six times as fast as the cells.
#[test]
fn the_queue_before_the_atm_link_is_bounded() {
    let mut world = World::acquainted();
    let start_ps = world.now_ps;
    // 12.3 us a frame at 1 Gb/s
    for number in 0..4000 {
        let frame = WireFrame::copied(frame(mac(0), mac(2), 1514));
        world.segment.fabric().enter(2, frame.into(), start_ps + number * 12_304_000);
    }
    world.run_for(10 * SECOND_PS);
    let (got, full) = (world.got(0).len() as u64, world.of_bridge("bridgeDropQueueFull"));
    let waited = world.of_bridge("laneTxDropped");
    assert_eq!(got + full + waited, 4000);
    assert!(full > 1000 && got > 1000, "{got} arrived, {full} dropped");
}

#[test]
fn it_learns_so_many_stations_and_no_more() {
    let mut world = World::new();
    for number in 0..MAX_STATIONS + 10 {
        let [.., high, low] = number.to_be_bytes();
        let from = MacAddress([2, 9, 9, 9, high, low]);
        let frame = WireFrame::copied(frame(ALL, from, 60));
        let at_ps = world.now_ps;
        world.segment.fabric().enter(2, frame.into(), at_ps);
        world.run_for(SECOND_PS / 1000);
    }
    assert_eq!(world.behind().len(), MAX_STATIONS);
    assert_eq!(world.of_bridge("dot1dTpLearnedEntryDiscards"), 10);
}
