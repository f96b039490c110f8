//! An IP subnet with switched connections in virtual time: ATM ports on a switch with an ATMARP server,
//! without TUNs and without threads.

use linkrate_model::lab::AtmArpEntry;
use linkrate_wire::vnet::{Form, VnetHeader};

use super::*;
use crate::atm::ArpShared;
use crate::device::atm::AtmLimits;
use crate::device::atm::rig::{Ports, SECOND_PS, limits};
use crate::fabric::{AtmSwitch, Fabric, FabricCommand};

const MINUTE_PS: u64 = 60 * SECOND_PS;

type World = Ports<Arc<ArpShared>>;

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, last)
}

fn atm(last: u8) -> AtmAddress {
    AtmAddress::local(1, [2, 0, 0, 0, 0, last], 0)
}

impl World {
    /// Hosts with these last octets of their ATM and IP addresses.
    fn new(stations: &[(u8, u8)]) -> Self {
        let (mut fabric, server) = (AtmSwitch::default(), Arc::<ArpShared>::default());
        fabric.control(FabricCommand::ServeAddresses(Arc::clone(&server)));
        let mut world = Self::on(fabric, server);
        stations.iter().for_each(|station| world.join(*station));
        world.run_for(SECOND_PS);
        world
    }

    fn join(&mut self, (of_atm, of_ip): (u8, u8)) {
        self.attach(AtmLimits {
            largest_packet: 9180,
            station: Some((atm(of_atm), ip(of_ip))),
            switched: true,
            ..limits()
        });
    }

    /// The host sends a packet of `length` octets to an IP address.
    fn send_packet(&mut self, host: usize, to: Ipv4Addr, length: usize) {
        let mut packet = vec![host as u8; length];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[16..20].copy_from_slice(&to.octets());
        let bytes = [&VnetHeader::default().emit()[..Form::Plain.length()], &packet].concat();
        self.post(host, &bytes);
    }

    /// The lengths of the packets that the host has got.
    fn packets(&mut self, host: usize) -> Vec<usize> {
        self.hosts[host].got().iter().map(Vec::len).collect()
    }

    /// Packets there and back arrive.
    fn talks(&mut self, one: (usize, u8), other: (usize, u8)) {
        self.send_packet(one.0, ip(other.1), 1000);
        self.run_for(10 * SECOND_PS);
        assert_eq!(self.packets(other.0), [1000]);
        self.send_packet(other.0, ip(one.1), 9180);
        self.run_for(10 * SECOND_PS);
        assert_eq!(self.packets(one.0), [9180]);
    }

    fn served(&self, name: &str) -> u64 {
        self.server.counters.values().find(|(of, _)| *of == name).unwrap().1
    }

    fn connections(&self, host: usize) -> usize {
        self.hosts[host].atm.channels().len()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ps / 1000)
    }

    fn cache(&self, host: usize) -> Vec<AtmArpEntry> {
        self.hosts[host].atm.atmarp.get().unwrap().entries(self.now())
    }
}

#[test]
fn hosts_register_ask_call_and_talk() {
    let mut world = World::new(&[(1, 1), (2, 2), (3, 3)]);
    // each has a connection to the server, which has asked for its addresses
    assert_eq!((0..3).map(|host| world.connections(host)).collect::<Vec<_>>(), [1, 1, 1]);
    let known: Vec<Ipv4Addr> =
        world.server.entries(world.now()).iter().map(|entry| entry.address).collect();
    assert_eq!(known, [ip(1), ip(2), ip(3)]);
    assert_eq!(world.served("ipoaArpSrvrInArpInReplies"), 3);
    world.talks((0, 1), (1, 2));
    // the answers take the connection that the other end has made
    assert_eq!((world.connections(0), world.connections(1), world.connections(2)), (2, 2, 1));
    assert_eq!(world.counted(0, "ipoaArpClientArpOutReqs"), 1);
    assert_eq!(world.counted(1, "ipoaArpClientArpInReplies"), 1);
    let cache = world.cache(0);
    assert_eq!((cache.len(), cache[0].address), (1, ip(2)));
    assert_eq!(cache[0].atm_address, atm(2).to_string());
    assert_eq!(world.counted(0, "txDropNoConnection"), 0);
}

#[test]
fn packets_wait_for_their_connection_and_come_in_their_order() {
    let mut world = World::new(&[(1, 1), (2, 2)]);
    for length in [100, 200, 300] {
        world.send_packet(0, ip(2), length);
    }
    world.run_for(SECOND_PS);
    assert_eq!(world.packets(1), [100, 200, 300]);
    // a flood for an address that nobody has is bounded, and gives way
    for _ in 0..MAX_HELD + 10 {
        world.send_packet(0, ip(77), 500);
    }
    world.send_packet(0, ip(2), 400);
    world.run_for(SECOND_PS);
    assert_eq!(world.packets(1), [400]);
    assert_eq!(world.counted(0, "txDropNoConnection"), (MAX_HELD + 10) as u64);
    assert_eq!(world.counted(0, "ipoaArpClientArpInNaks"), 1);
    assert_eq!(world.served("ipoaArpSrvrArpOutNaks"), 1);
}

/// 15 minutes at the client, 20 at the server.
#[test]
fn entries_age_and_are_confirmed() {
    // the third one never talks
    let mut world = World::new(&[(1, 1), (2, 2), (3, 3)]);
    world.talks((0, 1), (1, 2));
    let asked = world.counted(0, "ipoaArpClientArpOutReqs");
    world.run_for(14 * MINUTE_PS);
    assert!(world.cache(0)[0].age_seconds >= 14 * 60);
    assert_eq!(world.counted(0, "ipoaArpClientArpOutReqs"), asked);
    world.run_for(2 * MINUTE_PS);
    assert_eq!(world.counted(0, "ipoaArpClientArpOutReqs"), asked + 1);
    assert!(world.cache(0)[0].age_seconds < 2 * 60);
    let asked = world.served("ipoaArpSrvrInArpOutReqs");
    world.run_for(9 * MINUTE_PS);
    // a question of a client tells the server that it is still there
    assert_eq!(world.served("ipoaArpSrvrInArpOutReqs"), asked + 1);
    assert_eq!(world.server.entries(world.now()).len(), 3);
    assert!(world.server.entries(world.now()).iter().all(|entry| entry.age_seconds < 20 * 60));
}

#[test]
fn a_connection_that_nobody_uses_is_released_and_made_again() {
    let mut world = World::new(&[(1, 1), (2, 2)]);
    for _ in 0..2 {
        world.talks((0, 1), (1, 2));
        assert_eq!((world.connections(0), world.connections(1)), (2, 2));
        world.run_for(30 * MINUTE_PS);
        // those to the server stay
        assert_eq!((world.connections(0), world.connections(1)), (1, 1));
    }
}

#[test]
fn who_comes_second_with_an_address_is_counted_and_changes_nothing() {
    // an IP address twice: the first one keeps it
    let mut world = World::new(&[(1, 1), (2, 2), (3, 2)]);
    assert!(world.served("ipoaArpSrvrArpDupIpAddr") > 0);
    let known = world.server.entries(world.now());
    assert_eq!((known.len(), &known[1].atm_address), (2, &atm(2).to_string()));
    world.talks((0, 1), (1, 2));
    assert_eq!(world.packets(2), [0; 0]);
    // an ATM address twice: the port is told, asks again, and is no end system
    let mut world = World::new(&[(1, 1), (2, 2), (2, 3)]);
    world.run_for(20 * SECOND_PS);
    assert!(world.counted(2, "atmAddressInUse") >= 3);
    let trouble = world.hosts[2].atm.atmarp.get().unwrap().trouble();
    assert_eq!(trouble.as_deref(), Some("another port has this ATM address"));
    assert_eq!(world.connections(2), 0);
    world.talks((0, 1), (1, 2));
}

#[test]
fn a_switch_that_was_dead_and_a_link_that_was_down_cost_calls_alone() {
    let mut world = World::new(&[(1, 1), (2, 2)]);
    world.talks((0, 1), (1, 2));
    world.set_switch_alive(false);
    world.run_for(SECOND_PS);
    world.set_switch_alive(true);
    world.run_for(10 * SECOND_PS);
    world.talks((0, 1), (1, 2));
    world.hosts[1].shared.first_link().set_up(false);
    world.run_for(SECOND_PS);
    assert_eq!((world.connections(0), world.connections(1)), (1, 0));
    world.hosts[1].shared.first_link().set_up(true);
    world.run_for(10 * SECOND_PS);
    world.talks((0, 1), (1, 2));
    assert!(world.counted(0, "atmCallsCleared") > 0);
}
