use linkrate_model::AggregateKnobs;
use linkrate_model::knobs::AggregateMode;
use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::control::{Control, Lacpdu};
use linkrate_wire::frame::Headers;
use linkrate_wire::lro::Parts;

use crate::aggregate::decisions::DecisionLog;
use crate::frame::WireFrame;

use super::*;

fn frame(to: u8, from: u8) -> Pdu {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    bytes.resize(100, 0);
    WireFrame::copied(bytes).into()
}

/// Ports 0 and 2 on the first switch, 1 and 3 on the second.
fn joined() -> Joined {
    let mut joined = Joined::by_a_link();
    let link = LinkSpec { law: LinkLaw::Ethernet, rate: Some(BitRate(1e9)) };
    (0..4).for_each(|number| joined.attach(number, link, number % 2));
    joined
}

/// Frames of data that have left by each port by a time.
fn out(joined: &mut Joined, now_ps: u64) -> [usize; 4] {
    joined.forward(now_ps);
    [0, 1, 2, 3].map(|port| {
        let in_flight = joined.to(port).unwrap();
        let mut count = 0;
        while let Some((_, pdu)) = in_flight.arrived(now_ps) {
            let burst = pdu.into_frames().unwrap();
            let data = |frame: WireFrame| !frame.head().starts_with(&[1, 0x80, 0xc2]);
            count += burst.each().filter(|frame| data(frame.clone())).count();
        }
        count
    })
}

#[test]
fn stations_on_two_switches_learn_each_other_and_no_frame_comes_twice() {
    let mut joined = joined();
    joined.enter(0, frame(9, 1), 0);
    assert_eq!(out(&mut joined, 1_000_000_000), [0, 1, 1, 1]);
    joined.enter(3, frame(1, 4), 1_000_000_000);
    assert_eq!(out(&mut joined, 2_000_000_000), [1, 0, 0, 0]);
    joined.enter(0, frame(4, 1), 2_000_000_000);
    assert_eq!(out(&mut joined, 3_000_000_000), [0, 0, 0, 1]);
    // at rest, nothing is due
    assert_eq!(joined.due_ps(&|in_flight| in_flight.first_ps()), None);
}

#[test]
fn a_frame_across_is_due_and_takes_the_time_of_three_lines() {
    let mut joined = joined();
    joined.enter(3, frame(9, 4), 0);
    out(&mut joined, 1_000_000_000);
    joined.enter(0, frame(4, 1), 1_000_000_000);
    // at the first switch now, then on the link between them, at 4 Gb/s for 124 bytes
    assert_eq!(joined.due_ps(&|in_flight| in_flight.first_ps()), Some(1_000_000_000));
    joined.forward(1_000_000_000);
    let across_ps = joined.due_ps(&|in_flight| in_flight.first_ps()).unwrap();
    assert_eq!(across_ps, 1_000_000_000 + 248_000);
    joined.forward(across_ps);
    assert_eq!(joined.to(3).unwrap().first_ps(), Some(across_ps + 992_000));
}

#[test]
fn a_dead_switch_cuts_off_its_ports_and_the_other_continues() {
    let mut joined = joined();
    joined.control(FabricCommand::SetSwitchAlive(0, false));
    joined.enter(1, frame(9, 2), 0);
    joined.enter(0, frame(9, 1), 0);
    assert_eq!(out(&mut joined, 1_000_000_000), [0, 0, 0, 1]);
    joined.control(FabricCommand::SetSwitchAlive(0, true));
    joined.enter(0, frame(9, 1), 1_000_000_000);
    assert_eq!(out(&mut joined, 2_000_000_000), [0, 1, 1, 1]);
}

/// Two switches do not know of each other, so that ports 0 and 1 have two partners.
#[test]
fn each_switch_is_a_partner_of_its_own() {
    let mut joined = joined();
    let knobs =
        AggregateKnobs { aggregate: 2, mode: AggregateMode::Lacp, ..AggregateKnobs::default() };
    joined.set_group(0, &GroupSpec::of([0, 1], knobs));
    joined.forward(2_000_000_000_000);
    let mut systems = Vec::new();
    for port in [0, 1] {
        let (_, pdu) = joined.to(port).unwrap().arrived(u64::MAX).expect("an LACPDU");
        let frame = pdu.into_frames().unwrap().first().to_vec();
        let headers = Headers::parse(&frame).unwrap();
        let Ok(Some(Control::Slow(slow))) = Control::of(&frame, &headers) else {
            panic!("no slow protocol: {frame:?}")
        };
        systems.push(Lacpdu::parse(slow.data).expect("an LACPDU").actor.system);
    }
    assert_ne!(systems[0], systems[1]);
}

/// Ports 0 and 2 are on the first switch, 1 and 3 on the second.
#[test]
fn a_switch_decides_about_its_own_ports_by_their_numbers_in_the_aggregate() {
    let mut joined = joined();
    let knobs = AggregateKnobs { aggregate: 4, ..AggregateKnobs::default() };
    let decisions = DecisionLog::default();
    let spec = GroupSpec { decisions: decisions.clone(), ..GroupSpec::of(0..4, knobs) };
    joined.set_group(0, &spec);
    let left_out = |from_ns: u64| {
        let since = decisions.since(from_ns);
        [0, 1, 2, 3].map(|port| since.iter().any(|decision| decision.leaves_out(port)))
    };
    let begun_ns = monotonic_ns();
    joined.set_link(3, Some(BitRate(1e9)), false);
    assert_eq!(left_out(begun_ns), [false, false, false, true]);
    let then_ns = monotonic_ns();
    joined.set_link(0, Some(BitRate(1e9)), false);
    assert_eq!(left_out(then_ns), [true, false, false, false]);
}
