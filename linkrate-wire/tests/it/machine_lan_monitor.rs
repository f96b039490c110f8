//! Failover groups on a simulated LAN: how fast they move, what they announce, and that the active
//! port works in the end.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::lossy::{MS, SECOND, handled, polled};
use linkrate_wire::balance::PortIndex;
use linkrate_wire::control::arp::{Arp, Purpose};
use linkrate_wire::control::lan_monitor::{self, Poll};
use linkrate_wire::control::nd::Advertisement;
use linkrate_wire::control::{Control, arp};
use linkrate_wire::frame::link::Addresses;
use linkrate_wire::frame::{Headers, MacAddress};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lan_monitor::{Action, Address, Config, Event, Failover, Reason};
use proptest::prelude::*;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);
/// The time that a frame takes through the LAN.
const DELAY: Duration = Duration::from_micros(50);

fn mac(port: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 1, port])
}

fn config() -> Config {
    Config { interval: 10 * MS, ..Config::new(MAC, 7) }
}

#[derive(Debug, Clone, Copy)]
struct Cable {
    carrier: bool,
    sends: bool,
    receives: bool,
}

const GOOD: Cable = Cable { carrier: true, sends: true, receives: true };
const DEAF: Cable = Cable { receives: false, ..GOOD };
const MUTE: Cable = Cable { sends: false, ..GOOD };
const SILENT: Cable = Cable { carrier: true, sends: false, receives: false };

/// A group whose ports are all on one LAN, which also carries other frames.
struct Lan {
    group: Failover,
    cables: Vec<Cable>,
    now: Duration,
    /// By arrival: port and poll.
    flights: BTreeMap<(Duration, u64), (PortIndex, Poll)>,
    sent: u64,
    /// The host talks over its active port, and is answered there.
    talks: bool,
    moves: Vec<(Duration, Option<u8>, Reason)>,
    /// Other frames than polls: time, port, frame.
    announced: Vec<(Duration, u8, Vec<u8>)>,
}

impl Lan {
    fn new(config: Config, ports: u8) -> Self {
        let mut lan = Self {
            group: Failover::new(config),
            cables: vec![GOOD; ports.into()],
            now: Duration::ZERO,
            flights: BTreeMap::new(),
            sent: 0,
            talks: true,
            moves: Vec::new(),
            announced: Vec::new(),
        };
        for port in 0..ports {
            lan.handle(Event::Join { port: PortIndex(port), mac: mac(port), carrier: true });
        }
        lan
    }

    fn handle(&mut self, event: Event) {
        let actions = handled(&mut self.group, self.now, event);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Activate { port, reason } => {
                    assert_eq!(port, self.group.active());
                    self.moves.push((self.now, port.map(|port| port.0), reason));
                }
                Action::Send { port, frame } => self.send(port, frame),
            }
        }
    }

    fn send(&mut self, from: PortIndex, frame: Vec<u8>) {
        let headers = Headers::parse(&frame).expect("a frame");
        let Ok(Some(Control::Poll(poll))) = Control::of(&frame, &headers) else {
            assert_eq!(Some(from), self.group.active(), "announced on the active port");
            self.announced.push((self.now, from.0, frame));
            return;
        };
        let addresses = Addresses::of(&frame).expect("a frame");
        assert_eq!((addresses.source, addresses.destination), (mac(from.0), lan_monitor::GROUP));
        let cable = self.cables[from.at()];
        assert!(cable.carrier, "a poll without carrier");
        for to in (0..self.cables.len()).filter(|to| *to != from.at() && cable.sends) {
            self.sent += 1;
            self.flights.insert((self.now + DELAY, self.sent), (PortIndex(to as u8), poll));
        }
    }

    fn set(&mut self, port: u8, cable: Cable) {
        let before = std::mem::replace(&mut self.cables[usize::from(port)], cable);
        if before.carrier != cable.carrier {
            self.handle(Event::Carrier { port: PortIndex(port), up: cable.carrier });
        }
    }

    /// A frame of the host is answered, if the active port works both ways.
    fn talk(&mut self) {
        let works = |cable: Cable| cable.carrier && cable.sends && cable.receives;
        let active = self.group.active().filter(|port| works(self.cables[port.at()]));
        if let Some(active) = active.filter(|_| self.talks) {
            self.handle(Event::Heard(active));
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.flights.keys().next().map(|(at, _)| *at);
            let next = [arrival, self.group.due()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if arrival.is_some_and(|at| at <= self.now) {
                let Some((_, (on, poll))) = self.flights.pop_first() else { break };
                let Cable { carrier, receives, .. } = self.cables[on.at()];
                if carrier && receives {
                    self.handle(Event::Polled { on, poll });
                }
                continue;
            }
            self.talk();
            let actions = polled(&mut self.group, self.now);
            self.carry_out(actions);
        }
        self.now = end;
    }

    fn active(&self) -> Option<u8> {
        self.group.active().map(|port| port.0)
    }
}

#[test]
fn the_first_port_is_active_and_stays() {
    for talks in [true, false] {
        for ports in 1..5 {
            let mut lan = Lan { talks, ..Lan::new(config(), ports) };
            lan.run(10 * SECOND);
            assert_eq!(lan.moves, [(Duration::ZERO, Some(0), Reason::First)], "{ports}");
            assert_eq!(lan.group.moves(), 0);
            let health = lan.group.health(PortIndex(ports - 1));
            assert_eq!(health, Some((ports > 1 || talks, ports > 1)), "{ports}");
        }
    }
}

#[test]
fn lost_carrier_moves_the_group_at_once() {
    let mut lan = Lan::new(config(), 3);
    lan.run(SECOND);
    lan.set(0, Cable { carrier: false, ..GOOD });
    assert_eq!(lan.moves[1..], [(SECOND, Some(1), Reason::CarrierLost)]);
    // one that stands by makes no difference
    lan.set(2, Cable { carrier: false, ..GOOD });
    assert_eq!(lan.moves.len(), 2);
    lan.set(1, Cable { carrier: false, ..GOOD });
    assert_eq!(lan.moves[2..], [(SECOND, None, Reason::CarrierLost)]);
    // held down, but the only one
    lan.set(2, GOOD);
    assert_eq!(lan.moves[3..], [(SECOND, Some(2), Reason::First)]);
}

/// Silence of the active port, both ways or one way, with two ports and more, while the host talks.
#[test]
fn silent_loss_moves_the_group_after_the_dead_count() {
    for ports in 2..5 {
        for cable in [SILENT, DEAF, MUTE] {
            let mut lan = Lan::new(config(), ports);
            lan.run(SECOND);
            lan.set(0, cable);
            lan.run(SECOND);
            let (at, to, reason) = lan.moves[1];
            assert_eq!((to, reason), (Some(1), Reason::PollsMissed), "{ports} {cable:?}");
            let after = at - SECOND;
            // the last polls are of 1 s, and are counted with those that are missing
            assert!(after >= 30 * MS && after <= 40 * MS, "{after:?}");
            lan.run(5 * SECOND);
            assert_eq!(lan.moves.len(), 2, "{ports} {cable:?}: {:?}", lan.moves);
        }
    }
}

#[test]
fn other_settings_hold_at_once_and_move_nothing() {
    let slow = Config { interval: 10 * SECOND, ..config() };
    let mut lan = Lan::new(slow.clone(), 3);
    lan.run(15 * SECOND);
    // a shorter interval does not wait for the end of the long round
    lan.handle(Event::Configure(Config { mac: mac(9), group: 9, ..config() }));
    lan.set(0, SILENT);
    lan.run(100 * MS);
    assert_ne!(lan.active(), Some(0));
    // the address and the number of the group are still those that its ports know
    lan.set(0, GOOD);
    lan.run(SECOND);
    assert_eq!(lan.group.health(PortIndex(1)), Some((true, true)));
    let moves = lan.group.moves();
    lan.handle(Event::Configure(slow));
    lan.run(60 * SECOND);
    assert_eq!(lan.group.moves(), moves);
}

/// Of two ports, the one that stands by is broken: the active one still has traffic.
#[test]
fn a_broken_standby_port_moves_nothing() {
    for ports in 2..5 {
        for cable in [SILENT, DEAF, MUTE] {
            let mut lan = Lan::new(config(), ports);
            lan.run(SECOND);
            lan.set(1, cable);
            lan.run(10 * SECOND);
            assert_eq!(lan.moves.len(), 1, "{ports} {cable:?}: {:?}", lan.moves);
        }
    }
}

#[test]
fn the_default_is_ten_seconds_and_three_polls() {
    let mut lan = Lan::new(Config::new(MAC, 7), 2);
    lan.run(105 * SECOND);
    lan.set(0, SILENT);
    lan.run(60 * SECOND);
    assert_eq!(lan.moves[1..], [(140 * SECOND, Some(1), Reason::PollsMissed)]);
}

#[test]
fn the_group_returns_to_the_preferred_port_only_if_it_should() {
    for preferred in [None, Some(PortIndex(0))] {
        let mut lan = Lan::new(Config { preferred, ..config() }, 2);
        lan.run(SECOND);
        lan.set(0, Cable { carrier: false, ..GOOD });
        lan.run(SECOND / 2);
        lan.set(0, GOOD);
        lan.run(10 * SECOND);
        match preferred {
            None => assert_eq!((lan.active(), lan.moves.len()), (Some(1), 2)),
            Some(_) => {
                let (at, to, reason) = lan.moves[2];
                assert_eq!((to, reason, lan.moves.len()), (Some(0), Reason::Return, 3));
                // held down for 2 s from the failure on
                assert!(at >= 3 * SECOND && at <= 3 * SECOND + 10 * MS, "{at:?}");
            }
        }
    }
}

/// A preferred port with carrier that carries nothing is not returned to.
#[test]
fn the_group_does_not_return_to_a_silent_port() {
    for ports in 2..4 {
        let mut lan = Lan::new(Config { preferred: Some(PortIndex(0)), ..config() }, ports);
        lan.run(SECOND);
        lan.set(0, Cable { carrier: false, ..GOOD });
        lan.set(0, SILENT);
        lan.run(60 * SECOND);
        assert_eq!((lan.active(), lan.moves.len()), (Some(1), 2), "{ports}");
        assert_eq!(lan.group.health(PortIndex(0)), Some((false, false)));
    }
}

/// Ten flaps a second for an hour: the group goes back and forth a few times only.
#[test]
fn a_flapping_link_does_not_flap_the_group() {
    let mut lan = Lan::new(Config { preferred: Some(PortIndex(0)), ..config() }, 2);
    for _ in 0..36_000 {
        lan.set(0, Cable { carrier: false, ..GOOD });
        lan.run(30 * MS);
        lan.set(0, GOOD);
        lan.run(70 * MS);
    }
    assert!(lan.moves.len() < 10, "{} moves", lan.moves.len());
    // it is quiet for long enough: the port is used again
    lan.run(301 * SECOND);
    assert_eq!(lan.active(), Some(0));
    assert_eq!(lan.group.held_until(lan.now, PortIndex(0)), None);
}

/// A port that comes and goes slowly is held down longer each time, and after a calm time no longer.
#[test]
fn hold_down_doubles_and_is_forgotten() {
    let mut lan = Lan::new(config(), 2);
    let held = |lan: &mut Lan, pause: Duration| {
        lan.run(pause);
        lan.set(0, Cable { carrier: false, ..GOOD });
        lan.set(0, GOOD);
        lan.group.held_until(lan.now, PortIndex(0)).expect("held down") - lan.now
    };
    let holds: Vec<u64> = (0..10).map(|_| held(&mut lan, 350 * SECOND).as_secs()).collect();
    assert_eq!(holds, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(held(&mut lan, 601 * SECOND), 2 * SECOND);
}

fn addresses() -> Vec<Address> {
    vec![
        Address { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), vlan: 0 },
        Address { ip: IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), vlan: 12 },
        Address { ip: IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)), vlan: 0 },
    ]
}

/// At once, each second ten times, then each 5 s for a minute.
#[test]
fn a_move_is_announced_23_times() {
    let mut lan = Lan::new(config(), 2);
    lan.handle(Event::Addresses(addresses()));
    lan.run(200 * SECOND);
    lan.announced.clear();
    lan.set(0, Cable { carrier: false, ..GOOD });
    lan.run(200 * SECOND);
    assert!(lan.announced.iter().all(|(_, port, _)| *port == 1));
    let times: Vec<u64> =
        lan.announced.chunks(3).map(|chunk| (chunk[0].0 - 200 * SECOND).as_secs()).collect();
    let expected: Vec<u64> = (0..=10).chain((15..=70).step_by(5)).collect();
    assert_eq!(times, expected);

    let frames: Vec<&[u8]> = lan.announced[..3].iter().map(|(_, _, frame)| &frame[..]).collect();
    for (frame, tag, last) in [(frames[0], None, 0), (frames[1], Some(12), 1)] {
        let link = Addresses::of(frame).expect("a frame");
        assert_eq!((link.source, link.destination), (MAC, MacAddress::BROADCAST));
        assert_eq!(link.tag.map(|tag| tag.vlan()), tag);
        let headers = Headers::parse(frame).expect("a frame");
        assert_eq!(headers.link.ether_type, arp::ETHER_TYPE);
        let arp = Arp::parse(&frame[headers.payload..]).expect("a message");
        assert_eq!((arp.purpose(), arp.sender.hardware), (Purpose::Announcement, MAC));
        assert_eq!(arp.sender.ip, Ipv4Addr::new(10, last, 0, 1));
    }
    let link = Addresses::of(frames[2]).expect("a frame");
    assert_eq!((link.source, link.destination.0), (MAC, [0x33, 0x33, 0, 0, 0, 1]));
    let message = Advertisement::parse(&frames[2][14 + 40..]).expect("an advertisement");
    let target = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    assert_eq!(message, Advertisement::unsolicited(target, MAC));
}

/// A second move begins the announcements again, on the new port.
#[test]
fn a_move_ends_the_announcements_of_the_last_one() {
    let mut lan = Lan::new(config(), 3);
    lan.handle(Event::Addresses(addresses()[..1].to_vec()));
    lan.run(100 * SECOND);
    lan.announced.clear();
    lan.set(0, Cable { carrier: false, ..GOOD });
    lan.run(5 * SECOND / 2);
    lan.set(1, Cable { carrier: false, ..GOOD });
    lan.run(200 * SECOND);
    let ports: Vec<u8> = lan.announced.iter().map(|(_, port, _)| *port).collect();
    assert_eq!(ports, [vec![1; 3], vec![2; 23]].concat());
    // without an active port there is nobody to announce
    lan.announced.clear();
    lan.set(2, Cable { carrier: false, ..GOOD });
    lan.run(200 * SECOND);
    assert!(lan.announced.is_empty());
}

#[test]
fn ports_join_and_leave() {
    let mut lan = Lan::new(config(), 2);
    lan.run(SECOND);
    lan.handle(Event::Leave(PortIndex(0)));
    assert_eq!(lan.moves[1..], [(SECOND, Some(1), Reason::PortLeft)]);
    assert_eq!(lan.group.health(PortIndex(0)), None);
    lan.handle(Event::Leave(PortIndex(1)));
    assert_eq!((lan.active(), lan.group.due()), (None, None));
    lan.handle(Event::Leave(PortIndex(200)));
    lan.handle(Event::Carrier { port: PortIndex(200), up: true });
    lan.handle(Event::Join { port: PortIndex(200), mac: mac(1), carrier: true });
    assert_eq!(lan.active(), None);
    lan.handle(Event::Join { port: PortIndex(0), mac: mac(0), carrier: false });
    assert_eq!(lan.active(), None);
    lan.handle(Event::Carrier { port: PortIndex(0), up: true });
    assert_eq!(lan.active(), Some(0));
}

/// Polls of another host or group, old ones and a port's own count for nothing.
#[test]
fn foreign_and_repeated_polls_are_ignored() {
    let mut lan = Lan::new(config(), 2);
    lan.run(SECOND);
    lan.set(1, SILENT);
    lan.run(SECOND);
    // both directions of the port that stands by
    let polled = |lan: &mut Lan, from: u8, poll: &dyn Fn(Poll) -> Poll| {
        // the round of 2 s has number 200
        let sequence = 200 + ((lan.now - 2 * SECOND).as_millis() / 10) as u32;
        let good = Poll { system: MAC, group: 7, port: PortIndex(from), sequence };
        lan.handle(Event::Polled { on: PortIndex(1 - from), poll: poll(good) });
    };
    for _ in 0..50 {
        for from in [0, 1] {
            polled(&mut lan, from, &|poll| Poll { system: mac(9), ..poll });
            polled(&mut lan, from, &|poll| Poll { group: 8, ..poll });
            polled(&mut lan, from, &|poll| Poll { sequence: poll.sequence - 3, ..poll });
            polled(&mut lan, from, &|poll| Poll { sequence: poll.sequence + 1, ..poll });
            polled(&mut lan, from, &|poll| Poll { port: PortIndex(1 - from), ..poll });
            polled(&mut lan, from, &|poll| Poll { port: PortIndex(77), ..poll });
        }
        lan.run(10 * MS);
        assert_eq!(lan.group.health(PortIndex(1)), Some((false, false)));
    }
    for (from, health) in [(0, (true, false)), (1, (true, true))] {
        polled(&mut lan, from, &|poll| Poll { sequence: poll.sequence - 2, ..poll });
        lan.run(10 * MS);
        assert_eq!(lan.group.health(PortIndex(1)), Some(health));
    }
    assert_eq!(lan.moves.len(), 1);
}

fn cable() -> impl Strategy<Value = Cable> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(carrier, sends, receives)| Cable {
        carrier,
        sends,
        receives,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever failed before: if two or more of the ports work, one of those is active in the end,
    /// and it stays.
    #[test]
    fn the_active_port_works_in_the_end(
        ports in 2u8..6,
        preferred in prop::option::of(0u8..6),
        talks: bool,
        faults in prop::collection::vec((0u8..6, cable(), 0u32..2000), 0..30),
        last in prop::collection::vec(cable(), 6),
    ) {
        let preferred = preferred.map(PortIndex);
        let slow = Config { preferred, interval: 100 * MS, ..config() };
        let mut lan = Lan { talks, ..Lan::new(slow, ports) };
        for (port, cable, pause) in faults {
            lan.set(port % ports, cable);
            if let Some(active) = lan.active() {
                prop_assert!(lan.cables[usize::from(active)].carrier);
            } else {
                prop_assert!(lan.cables.iter().all(|cable| !cable.carrier));
            }
            lan.run(pause * MS);
        }
        for (port, cable) in (0..ports).zip(last) {
            lan.set(port, cable);
        }
        // longer than any hold-down
        lan.run(700 * SECOND);
        let works = |cable: &Cable| cable.carrier && cable.sends && cable.receives;
        let working = lan.cables.iter().filter(|cable| works(cable)).count();
        if working >= 2 {
            let active = lan.active().expect("a port with carrier");
            prop_assert!(works(&lan.cables[usize::from(active)]), "{active} {:?}", lan.cables);
            let moves = lan.moves.len();
            lan.run(700 * SECOND);
            prop_assert_eq!(lan.moves.len(), moves);
        }
    }
}
