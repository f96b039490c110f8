//! Two emulated LANs on one port, in virtual time: clients 0 and 1 share it, hosts 2 and 3 are in one of
//! them each.

use std::sync::Arc;

use linkrate_wire::control::lan_emulation::FrameSize;

use crate::atm::lane::LaneStation;
use crate::device::atm::AtmLimits;
use crate::device::atm::rig::{ALL, Ports, SECOND_PS, client, mac, station};
use crate::device::tx_prefetch::FIFO_BYTES;
use crate::fabric::AtmSwitch;
use crate::fabric::atm_switch::servers::ElanSpec;

const ELANS: [&str; 2] = ["blue", "red"];

fn limits(host: usize) -> AtmLimits {
    client(LaneStation { elan: ELANS[host % 2].to_owned(), ..station(host) })
}

fn world() -> Ports {
    let mut fabric = AtmSwitch::default();
    let elan = |name: &str| ElanSpec { name: name.to_owned(), size: FrameSize::Octets1516 };
    fabric.emulate(ELANS.map(elan).to_vec(), Arc::default());
    let mut world = Ports::on(fabric, ());
    world.attach_clients([0, 1].map(limits));
    [2, 3].into_iter().for_each(|host| world.attach(limits(host)));
    world.run_for(SECOND_PS);
    all_operational(&world);
    world
}

fn all_operational(world: &Ports) {
    for host in 0..4 {
        let report = world.report(host);
        let expected = ("operational", ELANS[host % 2]);
        assert_eq!((report.state.as_str(), report.elan.as_str()), expected, "{host}: {report:?}");
    }
}

/// Each client and the host of its ELAN get frames of each other, and nobody else does.
fn exchange(world: &mut Ports) {
    for (from, to) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
        world.send(from, mac(to), 500);
        world.run_for(10 * SECOND_PS);
        for host in 0..4 {
            let expected = if host == to { vec![(mac(from), 500)] } else { vec![] };
            assert_eq!(world.got(host), expected, "{from} to {to}, at {host}");
        }
    }
}

#[test]
fn clients_of_one_port_are_in_elans_of_their_own() {
    let mut world = world();
    world.send(0, ALL, 60);
    world.run_for(SECOND_PS);
    let heard: Vec<usize> = (0..4).map(|host| world.got(host).len()).collect();
    assert_eq!(heard, [0, 0, 1, 0], "the other ELAN hears nothing");
    (0..3).for_each(|_| exchange(&mut world));
    let vcis = |host: usize| {
        let channels = world.hosts[host].atm.channels();
        channels.iter().map(|channel| channel.report().vci).collect::<Vec<_>>()
    };
    let (blue, red) = (vcis(0), vcis(1));
    assert!(blue.len() >= 5 && red.len() >= 5, "{blue:?} {red:?}");
    assert!(blue.iter().all(|vci| !red.contains(vci)), "{blue:?} {red:?}");
    for (client, broadcasts) in [(0, 1), (1, 0)] {
        assert_eq!(world.counted(client, "laneTxGroups"), broadcasts);
        assert!(world.counted(client, "laneTxDirect") >= 1);
        assert_eq!(world.counted(client, "laneRxFrames"), 3);
        assert_eq!(world.counted(client, "ifInUnknownProtos"), 0);
    }
    let cells: u64 = [0, 1].map(|client| world.counted(client, "atmTxCells")).iter().sum();
    assert_eq!(world.counted(0, "ifHCOutOctets"), cells * 53, "the link is that of both");
    assert_eq!(world.counted(1, "ifHCOutOctets"), cells * 53);
}

#[test]
fn clients_share_their_line_and_its_state() {
    let mut world = world();
    (0..3).for_each(|_| exchange(&mut world));
    for _ in 0..1000 {
        world.send(0, mac(2), 1514);
        world.send(1, mac(3), 1514);
    }
    // 32 cells a frame: 11 037 frames of 2000 a second
    let before = world.counted(0, "ifHCOutOctets");
    world.run_for(SECOND_PS / 20);
    let (blue, red) = (world.got(2).len(), world.got(3).len());
    assert!((530..560).contains(&(blue + red)), "{blue} and {red}");
    assert!(blue.abs_diff(red) < 60, "{blue} and {red}");
    let octets = world.counted(0, "ifHCOutOctets") - before;
    // counted when they enter the FIFO, which the last unit may fill over its end
    let most = 149.76e6 / 8.0 / 20.0 + FIFO_BYTES as f64 + 2.0 * 32.0 * 53.0;
    assert!((octets as f64) < most, "{octets} of {most}");
    world.run_for(SECOND_PS);
    assert_eq!((world.got(2).len() + blue, world.got(3).len() + red), (1000, 1000));
    world.hosts[1].shared.links[0].set_up(false);
    world.run_for(SECOND_PS);
    for client in 0..2 {
        assert_ne!(world.report(client).state, "operational");
    }
    world.hosts[0].shared.links[0].set_up(true);
    world.run_for(10 * SECOND_PS);
    all_operational(&world);
    exchange(&mut world);
    world.set_switch_alive(false);
    world.run_for(SECOND_PS);
    world.set_switch_alive(true);
    world.run_for(10 * SECOND_PS);
    all_operational(&world);
    exchange(&mut world);
}
