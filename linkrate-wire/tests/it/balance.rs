//! Ports of an aggregate: which one each policy takes, how evenly, and that no frame overtakes
//! another of its flow.

use std::collections::BTreeMap;

use crate::common::{Packet, bytes};
use linkrate_wire::balance::{
    AGE_PS, Balance, Balancer, BalancerError, ENTRIES, MAX_PORTS, PortIndex,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000_000;

/// Flows that differ in all that a policy looks at, but have an entry each.
struct Flow {
    frame: Vec<u8>,
    queue: u16,
}

fn flow(number: u16) -> Flow {
    let mut frame = Packet { ports: (10_000 + number, 80), ..Packet::tcp4(bytes(9)) }.frame();
    frame[5] = number as u8;
    // the last byte of the source address
    frame[14 + 15] = number as u8;
    Flow { frame, queue: number }
}

fn balancer(balance: Balance, ports: usize, quiet_ps: u64) -> Balancer {
    Balancer::new(balance, ports, quiet_ps).expect("a number of ports")
}

fn choose(balancer: &mut Balancer, now_ps: u64, flow: &Flow) -> u8 {
    let port = balancer.choose(now_ps, &flow.frame, flow.frame.len(), flow.queue);
    port.expect("an active port").0
}

fn set_active(balancer: &mut Balancer, now_ps: u64, ports: &[u8]) {
    let ports: Vec<PortIndex> = ports.iter().copied().map(PortIndex).collect();
    balancer.set_active(now_ps, &ports).expect("ports of the aggregate");
}

/// How many entries each port has.
fn entries(balancer: &Balancer) -> Vec<usize> {
    let mut counts = vec![0; balancer.shares().len()];
    balancer.entries().for_each(|entry| counts[entry.port.at()] += 1);
    counts
}

#[test]
fn flows_take_ports_in_turn_and_stay() {
    for balance in [Balance::Mac, Balance::Ip, Balance::Port, Balance::Cpu] {
        let mut balancer = balancer(balance, 3, MS);
        let flows: Vec<Flow> = (0..6).map(flow).collect();
        for now in 0..3 {
            let ports: Vec<u8> =
                flows.iter().map(|flow| choose(&mut balancer, now * MS, flow)).collect();
            assert_eq!(ports, [0, 1, 2, 0, 1, 2], "{balance}");
        }
        let length = flows[0].frame.len() as u64;
        for share in balancer.shares() {
            assert_eq!((share.frames, share.bytes), (6, 6 * length), "{balance}");
        }
    }
}

#[test]
fn round_robin_takes_the_next_port_for_each_frame() {
    let mut balancer = balancer(Balance::RoundRobin, 3, MS);
    let flow = flow(7);
    assert_eq!([0; 4].map(|_| choose(&mut balancer, 0, &flow)), [0, 1, 2, 0]);
    assert_eq!(balancer.entry_of(&flow.frame, flow.frame.len(), 0), None);
}

/// Several balancers of one aggregate do not all begin at the first port.
#[test]
fn a_balancer_begins_at_another_port() {
    let begun_at = |turn| choose(&mut balancer(Balance::Mac, 3, 0).begun_at(turn), 0, &flow(7));
    assert_eq!([0, 1, 2, 3, 4].map(begun_at), [0, 1, 2, 0, 1]);
}

#[test]
fn each_policy_looks_at_its_own_field() {
    let entry = |balance, packet: &Packet, mac: u8, source: u8, queue| {
        let mut frame = packet.frame();
        (frame[5], frame[11]) = (mac, 0);
        frame[14 + 15] = source;
        balancer(balance, 2, 0).entry_of(&frame, frame.len(), queue).expect("a table")
    };
    let packet = Packet::tcp4(bytes(9));
    let other = Packet { ports: (1501, 8000), ..packet.clone() };
    // which of MAC, IP, ports and queue change the entry
    for (balance, expected) in [
        (Balance::Mac, [true, false, false, false]),
        (Balance::Ip, [false, true, false, false]),
        (Balance::Port, [false, true, true, false]),
        (Balance::Adaptive, [false, true, true, false]),
        (Balance::Cpu, [false, false, false, true]),
    ] {
        let usual = entry(balance, &packet, 1, 1, 1);
        let changed = [
            entry(balance, &packet, 2, 1, 1),
            entry(balance, &packet, 1, 2, 1),
            entry(balance, &other, 1, 1, 1),
            entry(balance, &packet, 1, 1, 2),
        ];
        assert_eq!(changed.map(|entry| entry != usual), expected, "{balance}");
    }
    assert_eq!(entry(Balance::Mac, &packet, 0xab, 1, 1), 0xab);
    assert_eq!(entry(Balance::Cpu, &packet, 1, 1, 0x102), 2);
}

/// ARP requests must not take turns, which flows would then lack.
#[test]
fn frames_to_a_group_leave_by_the_first_port_and_take_no_turn() {
    let mut balancer = balancer(Balance::Mac, 3, MS);
    let mut request = flow(1);
    request.frame[..6].fill(0xff);
    assert_eq!(balancer.entry_of(&request.frame, request.frame.len(), 0), None);
    let order = [&flow(7), &request, &flow(8), &request, &flow(9)];
    assert_eq!(order.map(|flow| choose(&mut balancer, 0, flow)), [0, 0, 1, 0, 2]);
}

/// As the table of a switch, by frames that are no TCP.
#[test]
fn frames_without_ports_go_by_mac_and_fragments_by_ip() {
    let entry = |balance, frame: &[u8]| {
        balancer(balance, 2, 0).entry_of(frame, frame.len(), 0).expect("a table")
    };
    let whole = Packet::tcp4(bytes(9));
    let mut arp = whole.frame();
    (arp[5], arp[11]) = (77 ^ 4, 4);
    arp[12..14].copy_from_slice(&[8, 6]);
    for balance in [Balance::Mac, Balance::Ip, Balance::Port, Balance::Adaptive] {
        assert_eq!(entry(balance, &arp), 77, "{balance}");
        assert_eq!(entry(balance, &arp[..14]), 77, "{balance}");
        assert_eq!(entry(balance, &arp[..11]), 0, "{balance}");
        assert_eq!(entry(balance, &[]), 0, "{balance}");
    }
    // an IP protocol without ports
    let mut icmp = whole.frame();
    (icmp[5], icmp[11], icmp[14 + 9]) = (78, 0, 1);
    assert_eq!(entry(Balance::Port, &icmp), 78);
    assert_eq!(entry(Balance::Ip, &icmp), entry(Balance::Ip, &whole.frame()));
    // a first fragment has ports, which the others have not
    for fragment in [0x2000, 0x0010] {
        let piece = |ports| Packet { fragment, ports, ..whole.clone() }.frame();
        for ports in [(1, 2), (3, 4)] {
            let by_ip = entry(Balance::Ip, &whole.frame());
            assert_eq!(entry(Balance::Port, &piece(ports)), by_ip, "{fragment:#x}");
        }
    }
}

/// A superframe has the entry of its segments, of which the payload may lie elsewhere.
#[test]
fn a_frame_in_two_parts_has_the_same_entry() {
    let packet = Packet::tcp4(bytes(40_000));
    let frame = packet.frame();
    let segment = Packet { payload: bytes(1000), ..packet }.frame();
    for balance in [Balance::Ip, Balance::Port] {
        let balancer = balancer(balance, 2, 0);
        let whole = balancer.entry_of(&frame, frame.len(), 0);
        assert_eq!(balancer.entry_of(&frame[..54], frame.len(), 0), whole);
        assert_eq!(balancer.entry_of(&segment, segment.len(), 0), whole);
    }
}

#[test]
fn an_unused_entry_ages_after_30_seconds() {
    let mut balancer = balancer(Balance::Mac, 2, MS);
    let (a, b) = (flow(1), flow(2));
    assert_eq!([choose(&mut balancer, 0, &a), choose(&mut balancer, 0, &b)], [0, 1]);
    // in use: the port stays
    assert_eq!(choose(&mut balancer, AGE_PS, &b), 1);
    // unused: the next in turn, which is 0 and then 1
    assert_eq!(choose(&mut balancer, 2 * AGE_PS + 1, &b), 0);
    assert_eq!(choose(&mut balancer, 2 * AGE_PS + 1, &a), 1);
    let moves = balancer.moves();
    assert_eq!((moves.orderly, moves.forced), (0, 0), "an unused entry does not move");
}

#[test]
fn entries_of_a_port_that_leaves_move_at_once() {
    // adaptive balancing counts bytes, and some flows share an entry
    for (balance, tolerance) in [(Balance::Mac, 1), (Balance::Adaptive, 8)] {
        let mut balancer = balancer(balance, 4, MS);
        let flows: Vec<Flow> = (0..200).map(flow).collect();
        for flow in &flows {
            choose(&mut balancer, 0, flow);
        }
        let before = entries(&balancer);
        set_active(&mut balancer, 1, &[0, 2, 3]);
        assert_eq!(balancer.moves().forced, before[1] as u64, "{balance}");
        let after = entries(&balancer);
        let total: usize = before.iter().sum();
        assert_eq!((after[1], after.iter().sum()), (0, total), "{balance}");
        for port in [0, 2, 3] {
            assert!(after[port].abs_diff(total / 3) <= tolerance, "{balance}: {after:?}");
        }
        for flow in &flows {
            assert_ne!(choose(&mut balancer, 1, flow), 1, "{balance}");
        }
        assert_eq!(balancer.moves().orderly, 0, "{balance}");
    }
}

#[test]
fn a_port_that_joins_gets_its_entries_in_gaps_alone() {
    let mut balancer = balancer(Balance::Mac, 2, MS);
    let flows: Vec<Flow> = (0..256).map(flow).collect();
    set_active(&mut balancer, 0, &[0]);
    for flow in &flows {
        choose(&mut balancer, 0, flow);
    }
    set_active(&mut balancer, 0, &[0, 1]);
    assert_eq!(balancer.waiting(PortIndex(0)), 128);
    // a gap as long as the quiet time is too short
    for flow in &flows {
        assert_eq!(choose(&mut balancer, MS, flow), 0);
    }
    for flow in &flows {
        choose(&mut balancer, 2 * MS + 1, flow);
    }
    assert_eq!((entries(&balancer), balancer.moves().orderly), (vec![128, 128], 128));
    assert_eq!(balancer.waiting(PortIndex(0)), 0);
}

/// The connection that a program keeps beside its streams has an entry too, and has nothing to send.
#[test]
fn a_port_that_joins_gets_a_busy_flow_and_not_one_that_is_silent() {
    let quarter = MS / 4;
    // entries with lower numbers, and with higher ones
    for silent in [20, 90, 150, 220] {
        let mut balancer = balancer(Balance::Mac, 2, MS);
        let busy = [flow(100), flow(101)];
        let mut number = 0;
        let mut send = |balancer: &mut Balancer, rounds: u64| {
            let mut ports = [0; 2];
            for _ in 0..rounds {
                number += 1;
                ports = [0, 1].map(|at| choose(balancer, number * quarter, &busy[at]));
            }
            (number * quarter, ports)
        };
        set_active(&mut balancer, 0, &[0]);
        choose(&mut balancer, 0, &flow(silent));
        let (now, ports) = send(&mut balancer, 16_000);
        assert_eq!(ports, [0, 0]);
        // 4 s later, and not aged
        set_active(&mut balancer, now, &[0, 1]);
        balancer.marker_answered(PortIndex(0), now + 1);
        let (_, ports) = send(&mut balancer, 1);
        assert_ne!(ports[0], ports[1], "beside entry {silent}");
    }
}

/// Eight flows that carried nearly the same. However long nothing was sent before the number of ports changed,
/// each port gets its share of them.
#[test]
fn ports_that_join_after_a_silence_of_any_length_get_an_even_share() {
    let flows: Vec<Flow> = (0..8).map(flow).collect();
    for silence in (0..20_000).step_by(50) {
        let mut balancer = balancer(Balance::Mac, 8, MS);
        set_active(&mut balancer, 0, &[0, 1]);
        // each a little busier than the one before, and the last frames come in another order
        for round in 0..1000 {
            for (number, flow) in flows.iter().enumerate() {
                let bytes = 6000 + 200 * ((number * 5) % 8);
                balancer.choose(round * MS, &flow.frame, bytes, flow.queue).expect("a port");
            }
        }
        let mut now = (1000 + silence) * MS;
        for ports in [&[0, 1, 2, 3][..], &[0, 1, 2, 3, 4, 5, 6, 7], &[0, 1, 2, 3], &[0, 1]] {
            set_active(&mut balancer, now, ports);
            // a gap
            now += 10 * MS;
            flows.iter().for_each(|flow| _ = choose(&mut balancer, now, flow));
            let mut counts = entries(&balancer);
            counts.truncate(ports.len());
            assert_eq!(counts, vec![8 / ports.len(); ports.len()], "after {silence} ms");
        }
    }
}

#[test]
fn a_marker_moves_entries_without_a_later_frame() {
    let mut balancer = balancer(Balance::Mac, 2, MS);
    let (a, b) = (flow(1), flow(2));
    set_active(&mut balancer, 0, &[0]);
    for (now, flow) in [(10, &a), (20, &b)] {
        choose(&mut balancer, now, flow);
    }
    set_active(&mut balancer, 20, &[1]);
    set_active(&mut balancer, 20, &[0, 1]);
    // one of the two is to come back to port 0
    assert_eq!(entries(&balancer), [0, 2]);
    assert_eq!(balancer.waiting(PortIndex(1)), 1);
    let waiting = balancer.entries().find(|entry| entry.wanted != entry.port).expect("one");
    let flow = if waiting.entry == 1 { &a } else { &b };
    balancer.marker_answered(PortIndex(1), waiting.last_ps);
    assert_eq!(choose(&mut balancer, 30, flow), 1, "sent with the marker, perhaps behind it");
    balancer.marker_answered(PortIndex(0), 31);
    assert_eq!(choose(&mut balancer, 32, flow), 1, "a marker of the other port");
    balancer.marker_answered(PortIndex(1), 33);
    assert_eq!(choose(&mut balancer, 34, flow), 0);
}

#[test]
fn without_an_active_port_no_frame_leaves() {
    for balance in Balance::ALL {
        let mut balancer = balancer(balance, 2, MS);
        let flow = flow(1);
        choose(&mut balancer, 0, &flow);
        set_active(&mut balancer, 0, &[]);
        assert_eq!(balancer.choose(1, &flow.frame, flow.frame.len(), 0), None, "{balance}");
        assert_eq!(balancer.entries().count(), 0);
        set_active(&mut balancer, 2, &[1]);
        assert_eq!(choose(&mut balancer, 3, &flow), 1, "{balance}");
        assert_eq!(balancer.shares()[1].frames, 1, "{balance}");
    }
}

#[test]
fn refuses_ports_that_are_not_there() {
    for ports in [0, MAX_PORTS + 1] {
        let error = Balancer::new(Balance::Mac, ports, 0).expect_err("refused");
        assert_eq!(error.to_string(), format!("aggregate of {ports} ports, expected 1 to 64"));
    }
    let mut balancer = balancer(Balance::Mac, 2, 0);
    let error = balancer.set_active(0, &[PortIndex(0), PortIndex(2)]).expect_err("refused");
    assert_eq!(error, BalancerError::Port { port: 2, ports: 2 });
    assert_eq!(error.to_string(), "port 2 of the aggregate, expected less than 2");
    assert_eq!(balancer.active(), [PortIndex(0), PortIndex(1)], "nothing is changed");
}

/// One flow that grows until it has as many bytes as seven others: by turn it would share its port.
#[test]
fn adaptive_leaves_a_heavy_flow_a_port_of_its_own() {
    let mut balancer = balancer(Balance::Adaptive, 2, MS / 10);
    let flows: Vec<Flow> = (0..8).map(flow).collect();
    let mut round = 0;
    let mut send = |balancer: &mut Balancer, rounds: u64, heavy: usize| {
        let mut ports = [PortIndex(0); 8];
        for _ in 0..rounds {
            round += 1;
            for (at, (port, flow)) in ports.iter_mut().zip(&flows).enumerate() {
                let bytes = if at == 0 { heavy } else { 10_000 };
                let chosen = balancer.choose(round * MS, &flow.frame, bytes, flow.queue);
                *port = chosen.expect("a port");
            }
        }
        ports
    };
    let even = send(&mut balancer, 100, 10_000);
    assert_eq!(even.iter().filter(|port| **port == even[0]).count(), 4);
    assert_eq!(balancer.moves().orderly, 0, "equal flows stay");
    let uneven = send(&mut balancer, 100, 70_000);
    assert!(uneven[1..].iter().all(|port| *port != uneven[0]), "{uneven:?}");
    // it comes to rest: the loads are even
    let moves = balancer.moves().orderly;
    assert!((3..20).contains(&moves), "{moves}");
    assert_eq!(send(&mut balancer, 100, 70_000), uneven);
    assert_eq!(balancer.moves().orderly, moves);
}

#[test]
fn adaptive_does_not_move_a_flow_without_gaps() {
    let mut balancer = balancer(Balance::Adaptive, 2, MS);
    let flows: Vec<Flow> = (0..4).map(flow).collect();
    let first: Vec<u8> = flows.iter().map(|flow| choose(&mut balancer, 0, flow)).collect();
    set_active(&mut balancer, 0, &[0]);
    set_active(&mut balancer, 0, &[0, 1]);
    for now in 0..1000 {
        for flow in &flows {
            assert_eq!(choose(&mut balancer, now * MS, flow), 0);
        }
    }
    assert_eq!(first, [0, 1, 0, 1]);
    assert_eq!(balancer.moves().orderly, 0);
}

/// Two ports, of which flows that are never silent fill one: they even out by wishes alone.
#[test]
fn adaptive_evens_out_flows_that_are_never_silent() {
    let mut balancer = balancer(Balance::Adaptive, 2, MS);
    let flows: Vec<Flow> = (0..8).map(flow).collect();
    // (bytes of a frame, port) of each flow; flows of even numbers are on the first port
    let bytes = [60_000, 1000, 30_000, 500, 20_000, 1000, 10_000, 500];
    let mut now = 0;
    let mut send = |balancer: &mut Balancer, rounds: usize, proposals: bool| {
        let before = balancer.shares().to_vec();
        let mut changes = 0;
        for _ in 0..rounds {
            now += MS / 2;
            for (flow, bytes) in flows.iter().zip(bytes) {
                balancer.choose(now, &flow.frame, bytes, flow.queue).expect("a port");
            }
            if let Some(proposal) = balancer.proposal(now).filter(|_| proposals) {
                assert!(balancer.carry_out(now, proposal) && !balancer.carry_out(now, proposal));
                changes += 1;
            }
        }
        let sent = balancer.shares().iter().zip(before).map(|(now, old)| now.bytes - old.bytes);
        (sent.collect::<Vec<_>>(), changes)
    };
    flows.iter().for_each(|flow| _ = choose(&mut balancer, 0, flow));
    let (uneven, _) = send(&mut balancer, 200, false);
    assert_eq!([uneven[0] / 200, uneven[1] / 200], [120_000, 3000]);
    let (_, changes) = send(&mut balancer, 2000, true);
    assert!((1..20).contains(&changes), "{changes}");
    let (even, changes) = send(&mut balancer, 2000, true);
    assert_eq!(changes, 0, "it comes to rest");
    assert!(even[0].abs_diff(even[1]) <= even[0].max(even[1]) / 4, "{even:?}");
    assert_eq!((balancer.moves().forced, balancer.proposal(now)), (0, None));
}

#[test]
fn only_adaptive_balancing_has_wishes_and_once_in_each_period() {
    for balance in Balance::ALL {
        let mut balancer = balancer(balance, 2, MS);
        set_active(&mut balancer, 0, &[0]);
        for number in 0..4 {
            choose(&mut balancer, 10 * MS, &flow(number));
        }
        set_active(&mut balancer, 10 * MS, &[0, 1]);
        let proposals = [10, 11, 20].map(|ms| balancer.proposal(ms * MS).is_some());
        let expected = balance == Balance::Adaptive;
        assert_eq!(proposals, [expected, false, expected], "{balance}");
    }
}

/// A port that has left meanwhile, or an entry that has another port by now.
#[test]
fn a_wish_that_is_out_of_date_is_not_carried_out() {
    let mut balancer = balancer(Balance::Adaptive, 3, MS);
    set_active(&mut balancer, 0, &[0]);
    let flows: Vec<Flow> = (0..4).map(flow).collect();
    flows.iter().for_each(|flow| _ = choose(&mut balancer, 10 * MS, flow));
    set_active(&mut balancer, 10 * MS, &[0, 1]);
    let proposal = balancer.proposal(10 * MS).expect("a wish");
    assert_eq!((proposal.from, proposal.to), (PortIndex(0), PortIndex(1)));
    set_active(&mut balancer, 10 * MS, &[0, 2]);
    assert!(!balancer.carry_out(10 * MS, proposal));
    set_active(&mut balancer, 10 * MS, &[1, 2]);
    assert!(!balancer.carry_out(10 * MS, proposal));
    assert_eq!(balancer.moves().orderly, 0);
}

#[derive(Debug, Clone)]
enum Event {
    Frame {
        flow: usize,
        bytes: usize,
    },
    Pass {
        ps: u64,
    },
    /// The active ports, as bits.
    Ports(u8),
    Marker {
        port: u8,
    },
    /// Frames of an entry wait until those before have left, if loads are uneven.
    Even,
}

const PORTS: usize = 4;
const FLOWS: usize = 12;
const MAX_DELAY: u64 = 1000;

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..FLOWS, 60usize..70_000).prop_map(|(flow, bytes)| Event::Frame { flow, bytes }),
        6 => (0..300u64).prop_map(|ps| Event::Pass { ps }),
        2 => (0..3 * MAX_DELAY).prop_map(|ps| Event::Pass { ps }),
        1 => any::<u8>().prop_map(Event::Ports),
        1 => (0..PORTS as u8).prop_map(|port| Event::Marker { port }),
        2 => Just(Event::Even),
    ]
}

/// Paths of constant delay: each port keeps its order.
#[derive(Default)]
struct Paths {
    delay: [u64; PORTS],
    /// Port, flow, number and arrival of each frame under way.
    frames: Vec<(u8, usize, u64, u64)>,
    /// Port, time of sending and arrival of each marker under way.
    markers: Vec<(u8, u64, u64)>,
}

impl Paths {
    /// What happens up to `now`: the numbers of the frames of each flow, as they arrive.
    fn arrive(&mut self, now: u64, balancer: &mut Balancer, seen: &mut BTreeMap<usize, u64>) {
        for (port, sent, _) in self.markers.extract_if(.., |(_, _, at)| *at <= now) {
            balancer.marker_answered(PortIndex(port), sent);
        }
        let mut arrived: Vec<_> = self.frames.extract_if(.., |(_, _, _, at)| *at <= now).collect();
        arrived.sort_by_key(|(_, _, number, at)| (*at, *number));
        for (_, flow, number, _) in arrived {
            let last = seen.insert(flow, number).unwrap_or(0);
            assert!(last < number, "flow {flow}: frame {number} after frame {last}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_frame_overtakes_another_of_its_flow(
        events in prop::collection::vec(event(), 0..300),
        delay in prop::array::uniform4(0..=MAX_DELAY),
        balance in prop::sample::select(vec![
            Balance::Mac, Balance::Ip, Balance::Port, Balance::Cpu, Balance::Adaptive,
        ]),
    ) {
        let difference = delay.iter().max().unwrap() - delay.iter().min().unwrap();
        let mut balancer = balancer(balance, PORTS, difference);
        let flows: Vec<Flow> = (0..FLOWS as u16).map(flow).collect();
        let mut paths = Paths { delay, ..Paths::default() };
        let (mut seen, mut now, mut number) = (BTreeMap::new(), 0, 0);
        // the times of loads pass faster, or there would be one wish alone
        let mut period = 0;
        let mut active: Vec<u8> = (0..PORTS as u8).collect();
        for event in events {
            match event {
                Event::Frame { flow, bytes } => {
                    let Flow { frame, queue } = &flows[flow];
                    number += 1;
                    let port = balancer.choose(now, frame, bytes, *queue);
                    prop_assert_eq!(port.is_some(), !active.is_empty());
                    if let Some(PortIndex(port)) = port {
                        prop_assert!(active.contains(&port));
                        let at = now + paths.delay[usize::from(port)];
                        paths.frames.push((port, flow, number, at));
                    }
                }
                Event::Pass { ps } => {
                    now += ps;
                    paths.arrive(now, &mut balancer, &mut seen);
                }
                Event::Ports(mask) => {
                    active = (0..PORTS as u8).filter(|port| mask >> port & 1 == 1).collect();
                    set_active(&mut balancer, now, &active);
                    // a port that leaves loses the frames and markers on its path
                    paths.frames.retain(|(port, ..)| active.contains(port));
                    paths.markers.retain(|(port, ..)| active.contains(port));
                }
                Event::Even => {
                    period += 10 * MS;
                    if let Some(proposal) = balancer.proposal(now + period) {
                        // time goes by while the caller holds back what comes of the entry
                        let of = |(port, ..): &&(u8, usize, u64, u64)| *port == proposal.from.0;
                        now = paths.frames.iter().filter(of).map(|frame| frame.3).fold(now, u64::max);
                        paths.arrive(now, &mut balancer, &mut seen);
                        balancer.carry_out(now, proposal);
                    }
                }
                Event::Marker { port } => {
                    paths.markers.push((port, now, now + paths.delay[usize::from(port)]));
                }
            }
            for entry in balancer.entries() {
                prop_assert!(active.contains(&entry.port.0) && active.contains(&entry.wanted.0));
            }
        }
        paths.arrive(u64::MAX, &mut balancer, &mut seen);
        let (frames, counted) = balancer.shares().iter().fold((0, 0), |(frames, bytes), share| {
            (frames + share.frames, bytes + share.bytes)
        });
        prop_assert!(frames <= number && counted >= 60 * frames);
    }

    #[test]
    fn entries_are_even_after_a_quiet_time(
        masks in prop::collection::vec(1u16..1 << 8, 1..8),
        flows in 1u16..256,
        balance in prop::sample::select(vec![Balance::Mac, Balance::Cpu]),
    ) {
        let mut balancer = balancer(balance, 8, MS);
        let flows: Vec<Flow> = (0..flows).map(flow).collect();
        let mut now = 0;
        let mut last: Vec<u8> = Vec::new();
        for mask in masks {
            last = (0..8).filter(|port| mask >> port & 1 == 1).collect();
            set_active(&mut balancer, now, &last);
            for flow in &flows {
                choose(&mut balancer, now, flow);
            }
            now += MS / 2;
        }
        now += 2 * MS;
        let before = balancer.shares().to_vec();
        for flow in &flows {
            choose(&mut balancer, now, flow);
        }
        let counts = entries(&balancer);
        let used: Vec<usize> = last.iter().map(|port| counts[usize::from(*port)]).collect();
        prop_assert_eq!(used.iter().sum::<usize>(), flows.len());
        let (most, fewest) = (used.iter().max().unwrap(), used.iter().min().unwrap());
        prop_assert!(most - fewest <= 1, "{:?}", used);
        for ((share, before), count) in balancer.shares().iter().zip(before).zip(counts) {
            prop_assert_eq!(share.frames - before.frames, count as u64);
        }
    }

    /// Hashes spread flows that differ in one field over the whole table.
    #[test]
    fn hashes_spread_flows_over_the_table(
        seed: u64,
        first in 1024u16..60_000,
        balance in prop::sample::select(vec![Balance::Ip, Balance::Port]),
    ) {
        let balancer = balancer(balance, 2, 0);
        let mut packet = Packet::tcp4(bytes(9));
        let mut entries = std::collections::BTreeSet::new();
        for number in 0..ENTRIES as u16 {
            packet.ports = (first + number, seed as u16);
            let mut frame = packet.frame();
            frame[14 + 12..14 + 16].copy_from_slice(&(seed as u32).to_be_bytes());
            frame[14 + 15] = number as u8;
            entries.extend(balancer.entry_of(&frame, frame.len(), 0));
        }
        // 256 balls leave 94 of 256 boxes empty on average, and these flows are in sequence
        prop_assert!(entries.len() >= 128, "{}", entries.len());
    }
}
