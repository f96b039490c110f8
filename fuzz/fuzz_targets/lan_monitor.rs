//! Whatever ports, polls and addresses come, a failover group keeps to the contract of machines, has
//! an active port exactly while a port has carrier, and sends frames that read back, on ports with
//! carrier and not too many.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linkrate_wire::balance::PortIndex;
use linkrate_wire::control::{Control, Poll};
use linkrate_wire::frame::{Headers, MacAddress};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lan_monitor::{Action, Address, Config, Event, Failover};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const PORTS: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let Some(([preferred, millis], mut rest)) = bytes.split_first_chunk() else { return };
    let mut group = Failover::new(Config {
        interval: Duration::from_millis((*millis).into()),
        preferred: (*preferred < 8).then_some(PortIndex(*preferred)),
        ..Config::new(MAC, 1)
    });
    // the carrier of each port that is there
    let mut ports = [None; PORTS];
    let (mut now, mut actions, mut sequence) = (Duration::ZERO, Vec::new(), 0u32);
    // what happens, to whom, and how much time passes before
    while let Some(([kind, a, pass], after)) = rest.split_first_chunk() {
        rest = after;
        let end = now + Duration::from_millis(u64::from(*pass));
        let mut polls = 0;
        while let Some(due) = group.due().filter(|due| *due <= end) {
            now = now.max(due);
            group.poll(now, &mut actions);
            assert!(group.due().is_none_or(|due| due > now), "due again after its poll");
            polls += 1;
            assert!(polls < 1000, "polls without end");
        }
        now = end;
        check(&mut actions, &group, &ports, &mut sequence, polls);
        let (port, other) = (a % PORTS as u8, a / 4 % PORTS as u8);
        let known = &mut ports[usize::from(port)];
        let (on, up) = (PortIndex(port), a & 0x80 != 0);
        let event = match kind % 8 {
            0 => {
                *known = Some(up);
                let mac = MacAddress([2, 0, 0, 0, 1, port]);
                Event::Join { port: on, mac, carrier: up }
            }
            1 => {
                *known = None;
                Event::Leave(on)
            }
            2 => {
                *known = known.map(|_| up);
                Event::Carrier { port: on, up }
            }
            3 => Event::Heard(on),
            4 => {
                let v4 = Address { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, *a)), vlan: port.into() };
                Event::Addresses(vec![v4, Address { ip: Ipv6Addr::LOCALHOST.into(), vlan: 0 }])
            }
            5 => {
                let Some((poll, after)) = rest.split_first_chunk::<22>() else { break };
                rest = after;
                let Ok(Some(poll)) = Poll::parse(poll) else { continue };
                assert_eq!(Poll::parse(&poll.emit()), Ok(Some(poll)));
                Event::Polled { on, poll }
            }
            _ => {
                let poll = Poll { system: MAC, group: 1, port: PortIndex(other), sequence };
                Event::Polled { on, poll }
            }
        };
        group.handle(now, event, &mut actions);
        check(&mut actions, &group, &ports, &mut sequence, 0);
    }
});

fn check(
    actions: &mut Vec<Action>,
    group: &Failover,
    ports: &[Option<bool>; PORTS],
    sequence: &mut u32,
    polls: usize,
) {
    let carries = |port: PortIndex| ports.get(port.at()) == Some(&Some(true));
    assert_eq!(group.active().is_some(), ports.contains(&Some(true)));
    assert!(group.active().is_none_or(carries));
    // each poll of the machine sends at most a poll on each port and two announcements
    assert!(actions.len() <= (polls + 1) * (PORTS + 3), "{} actions", actions.len());
    for action in actions.drain(..) {
        let Action::Send { port, frame } = action else { continue };
        assert!(carries(port));
        let headers = Headers::parse(&frame).expect("a frame");
        match Control::of(&frame, &headers) {
            Ok(Some(Control::Poll(poll))) => *sequence = poll.sequence,
            Ok(Some(Control::Arp(arp))) => assert_eq!(arp.sender.hardware, MAC),
            other => assert!(frame[12] == 0x86 && other == Ok(None), "{other:?}"),
        }
    }
}
