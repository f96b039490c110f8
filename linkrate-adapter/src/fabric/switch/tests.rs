mod order;

use linkrate_model::knobs::AggregateMode;
use linkrate_model::{AggregateKnobs, Balance};
use linkrate_wire::frame::{IpEnds, Route};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::segment::Cut;

use super::*;
use crate::fabric::GroupPort;
use crate::frame::Train;

fn frame(to: u8, from: u8, vlan: Option<u16>) -> Pdu {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
    if let Some(vlan) = vlan {
        bytes.extend([0x81, 0]);
        bytes.extend(vlan.to_be_bytes());
    }
    bytes.extend([8, 0]);
    bytes.resize(100, 0);
    WireFrame::copied(bytes).into()
}

fn switch(ports: usize, rate: Option<BitRate>) -> Switch {
    let mut switch = Switch::default();
    let link = LinkSpec { law: LinkLaw::Ethernet, rate };
    (0..ports).for_each(|number| switch.attach(number, link, 0));
    switch
}

/// A counter of all ports together.
fn total(switch: &Switch, name: &str) -> u64 {
    let all = switch.ports.iter().flat_map(|port| port.counters.values());
    all.filter(|(of, _)| *of == name).map(|(_, count)| count).sum()
}

fn configured(vlans: impl IntoIterator<Item = Vlans>) -> Switch {
    let vlans: Vec<Vlans> = vlans.into_iter().collect();
    let mut switch = switch(vlans.len(), None);
    for (number, vlans) in vlans.into_iter().enumerate() {
        switch.control(FabricCommand::SetVlans(number, vlans, Arc::default()));
    }
    switch
}

/// What is in the tag of the frame that has left by a port, if it has one.
fn tag_out(switch: &mut Switch, port: usize) -> Option<u16> {
    switch.forward(u64::MAX);
    let (_, pdu) = switch.to(port).unwrap().arrived(u64::MAX).expect("a frame");
    let frame = pdu.into_frames().unwrap().first();
    assert_eq!(frame.len(), 100 + if frame.head()[12..14] == [0x81, 0] { 4 } else { 0 });
    Addresses::of(frame.head()).unwrap().tag.map(|TagControl(tci)| tci)
}

#[test]
fn ports_of_other_vlans_are_out_of_reach() {
    let mut switch = configured([Vlans::Access(10), Vlans::Access(10), Vlans::Access(20)]);
    switch.enter(0, frame(9, 1, None), 10);
    assert_eq!(out(&mut switch), [0, 1, 0]);
    // a frame with the tag of a VLAN that its port is not in
    switch.enter(2, frame(1, 3, Some(10)), 20);
    assert_eq!(out(&mut switch), [0, 0, 0]);
    assert_eq!(total(&switch, "switchDropVlan"), 1);
    // no port has the address in this VLAN
    switch.enter(2, frame(1, 3, None), 30);
    assert_eq!(out(&mut switch), [0, 0, 0]);
    switch.control(FabricCommand::SetVlans(2, Vlans::Access(10), Arc::default()));
    switch.enter(2, frame(1, 3, None), 40);
    assert_eq!(out(&mut switch), [1, 0, 0]);
}

#[test]
fn tags_are_put_on_taken_off_and_kept() {
    let trunk = Vlans::Trunk { tagged: "10,20".parse().unwrap(), native: Some(5) };
    let mut switch = configured([trunk, Vlans::Access(10), Vlans::Access(5), Vlans::All]);
    let mut passes = |from: usize, to: usize, tag: Option<u16>| {
        let length = if tag.is_some() { 104 } else { 100 };
        let mut bytes =
            frame(to as u8, from as u8 + 100, tag).into_frames().unwrap().first().to_vec();
        bytes.resize(length, 0);
        switch.enter(from, WireFrame::copied(bytes).into(), 0);
        let left = tag_out(&mut switch, to);
        out(&mut switch);
        left
    };
    assert_eq!(passes(0, 1, Some(10)), None);
    assert_eq!(passes(1, 0, None), Some(10));
    assert_eq!(passes(0, 2, None), None);
    assert_eq!(passes(2, 0, Some(0)), None);
    assert_eq!(passes(0, 3, Some(20)), Some(20));
    assert_eq!(passes(1, 3, None), Some(10));
    // a priority, 3 in the upper bits, stays where there is a tag to keep it in
    assert_eq!(passes(1, 0, Some(0x6000)), Some(0x600a));
}

proptest::proptest! {
    /// No frame leaves by a port that is no member of its VLAN.
    #[test]
    fn no_vlan_leaks(
        entries in proptest::collection::vec((0usize..4, 0u8..6, proptest::option::of(0u16..5)), 1..40),
    ) {
        let trunk = Vlans::Trunk { tagged: "1-2".parse().unwrap(), native: None };
        let members = [trunk, Vlans::Access(1), Vlans::Access(2), Vlans::Access(3)];
        let mut switch = configured(members.clone());
        for (at_ps, (from, to, tag)) in entries.into_iter().enumerate() {
            let vlan = members[from].of_incoming(tag);
            switch.enter(from, frame(to, from as u8, tag), at_ps as u64);
            for (port, count) in out(&mut switch).into_iter().enumerate() {
                let may = vlan.is_some_and(|vlan| members[port].of_outgoing(vlan, tag).is_some());
                proptest::prop_assert!(count == 0 || (may && port != from));
            }
        }
    }
}

/// Where frames are by now.
fn out(switch: &mut Switch) -> Vec<usize> {
    out_by(switch, u64::MAX)
}

/// Where frames are that came by `now_ps`.
fn out_by(switch: &mut Switch, now_ps: u64) -> Vec<usize> {
    switch.forward(now_ps);
    let mut counts = Vec::new();
    for port in switch.ports.numbers() {
        let in_flight = switch.to(port);
        counts.push(
            in_flight
                .map_or(0, |in_flight| std::iter::from_fn(|| in_flight.arrived(u64::MAX)).count()),
        );
    }
    counts
}

#[test]
fn an_unknown_address_is_flooded_and_then_learnt() {
    let mut switch = switch(3, None);
    switch.enter(0, frame(2, 1, None), 10);
    assert_eq!(out(&mut switch), [0, 1, 1]);
    switch.enter(1, frame(1, 2, None), 20);
    assert_eq!(out(&mut switch), [1, 0, 0]);
    switch.enter(0, frame(2, 1, None), 30);
    assert_eq!(out(&mut switch), [0, 1, 0]);
    // a frame for an address behind its own port is not forwarded
    switch.enter(0, frame(1, 9, None), 40);
    assert_eq!(out(&mut switch), [0, 0, 0]);
    assert_eq!(total(&switch, "switchFlooded"), 1);
}

#[test]
fn vlans_do_not_know_each_others_addresses() {
    let mut switch = switch(3, None);
    switch.enter(1, frame(9, 2, Some(7)), 10);
    out(&mut switch);
    switch.enter(0, frame(2, 1, Some(7)), 20);
    assert_eq!(out(&mut switch), [0, 1, 0]);
    switch.enter(0, frame(2, 1, Some(8)), 30);
    assert_eq!(out(&mut switch), [0, 1, 1]);
}

#[test]
fn addresses_age_and_go_with_their_port() {
    let mut switch = switch(3, None);
    switch.enter(1, frame(9, 2, None), 0);
    out(&mut switch);
    switch.enter(0, frame(2, 1, None), AGEING_PS + 1);
    assert_eq!(out(&mut switch), [0, 1, 1]);
    switch.enter(1, frame(9, 2, None), AGEING_PS + 2);
    out(&mut switch);
    switch.detach(1);
    switch.enter(0, frame(2, 1, None), AGEING_PS + 3);
    assert_eq!(out(&mut switch), [0, 0, 1]);
}

#[test]
fn two_senders_share_the_line_out_and_the_queue_is_bounded() {
    let mut switch = switch(3, Some(BitRate(1e9)));
    switch.enter(2, frame(9, 3, None), 0);
    out(&mut switch);
    for number in 0..5000 {
        switch.enter(0, frame(3, 1, None), 1_000_000 + number);
        switch.enter(1, frame(3, 2, None), 1_000_000 + number);
    }
    switch.forward(u64::MAX);
    let in_flight = switch.to(2).unwrap();
    let times: Vec<u64> =
        std::iter::from_fn(|| in_flight.arrived(u64::MAX)).map(|(at_ps, _)| at_ps).collect();
    // 124 bytes on the line at 1 Gb/s
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 992_000));
    let kept = QUEUE_BYTES / 124 + 2;
    assert!(times.len().abs_diff(kept as usize) <= 1, "{} of {kept}", times.len());
    assert_eq!(total(&switch, "switchDropQueueFull") as usize, 10_000 - times.len());
}

#[test]
fn frames_that_are_long_under_way_are_bounded_and_counted() {
    let mut switch = switch(2, None);
    let jumbo = || WireFrame::copied(vec![0; 1 << 20]).into();
    (0..200).for_each(|number| switch.enter(0, jumbo(), 1_000_000 + number));
    let dropped = total(&switch, "switchDropInFlight");
    assert!((60..100).contains(&dropped), "{dropped}");
    switch.forward(u64::MAX);
    switch.enter(0, jumbo(), 2_000_000);
    assert_eq!(total(&switch, "switchDropInFlight"), dropped);
}

#[test]
fn a_frame_without_a_header_is_dropped() {
    let mut switch = switch(2, None);
    switch.enter(0, WireFrame::copied(vec![0; 13]).into(), 0);
    let mut tagged = vec![0; 15];
    tagged[12] = 0x81;
    switch.enter(0, WireFrame::copied(tagged).into(), 0);
    assert_eq!(out(&mut switch), [0, 0]);
    assert_eq!(total(&switch, "switchDropMalformed"), 2);
}

/// A switch with a static group of its first two ports, and three other ports.
fn grouped() -> Switch {
    let mut switch = switch(5, Some(BitRate(1e9)));
    let knobs = AggregateKnobs { aggregate: 2, ..AggregateKnobs::default() };
    switch.set_group(0, GroupSpec::of([0, 1], knobs));
    switch
}

#[test]
fn a_group_has_one_entry_and_gets_one_copy() {
    let mut switch = grouped();
    // to all: one copy for the group
    switch.enter(2, frame(9, 3, None), 0);
    let sent = out(&mut switch);
    assert_eq!((sent[0] + sent[1], &sent[2..]), (1, &[0, 1, 1][..]));
    // from the group: not back by its other port
    switch.enter(1, frame(9, 1, None), 10);
    assert_eq!(out(&mut switch), [0, 0, 1, 1, 1]);
    // the address is behind the group, whichever port brought it
    for (from, station) in [(2, 3), (3, 4), (4, 5)] {
        switch.enter(from, frame(1, station, None), 20);
        let sent = out(&mut switch);
        assert_eq!((sent[0] + sent[1], &sent[2..]), (1, &[0; 3][..]));
    }
    switch.enter(0, frame(3, 1, None), 30);
    assert_eq!(out(&mut switch), [0, 0, 1, 0, 0]);
}

#[test]
fn a_group_continues_by_its_other_port_when_a_link_fails() {
    let mut switch = grouped();
    switch.enter(0, frame(9, 1, None), 0);
    out(&mut switch);
    switch.set_link(0, Some(BitRate(1e9)), false);
    for station in 3..9 {
        switch.enter(2, frame(1, station, None), 10);
    }
    assert_eq!(out(&mut switch), [0, 6, 0, 0, 0]);
    // what still comes by the failed port is dropped
    switch.enter(0, frame(3, 1, None), 20);
    assert_eq!(out(&mut switch), [0; 5]);
    assert_eq!(total(&switch, "switchDropNotCollecting"), 1);
}

/// Without this, a host's frames under way would teach the switch a port that no frame leaves by.
#[test]
fn a_port_out_of_use_forwards_nothing_and_teaches_nothing() {
    let mut switch = grouped();
    let knobs = AggregateKnobs { aggregate: 1, ..AggregateKnobs::default() };
    switch.forward(1_000_000_000_000);
    switch.set_group(0, GroupSpec::of([0, 1], knobs));
    // after the time for which frames under way are still taken
    switch.forward(2_000_000_000_000);
    switch.enter(1, frame(9, 1, None), 2_000_000_000_001);
    assert_eq!(out(&mut switch), [0; 5]);
    switch.enter(2, frame(1, 3, None), 2_000_000_000_002);
    assert_eq!(out(&mut switch), [1, 0, 0, 1, 1], "flooded, and by the port in use alone");
}

/// A port that joins again is another port of the switch. Its place was another one's before.
#[test]
fn ports_leave_a_group_and_join_it_more_often_than_it_has_places() {
    let mut switch = grouped();
    let knobs = AggregateKnobs { aggregate: 2, ..AggregateKnobs::default() };
    for number in 5..5 + 2 * linkrate_wire::balance::MAX_PORTS {
        let group = |ports: &[usize], places: &[usize]| {
            let ports = ports.iter().zip(places);
            let ports =
                ports.map(|(port, place)| GroupPort { port: *port, place: *place, in_use: true });
            GroupSpec { ports: ports.collect(), ..GroupSpec::of([], knobs.clone()) }
        };
        switch.set_group(0, group(&[1], &[1]));
        let before = if number == 5 { 0 } else { number - 1 };
        switch.detach(before);
        let link = LinkSpec { law: LinkLaw::Ethernet, rate: Some(BitRate(1e9)) };
        switch.attach(number, link, 0);
        switch.set_group(0, group(&[number, 1], &[0, 1]));
    }
    switch.set_link(1, Some(BitRate(1e9)), false);
    let last = 4 + 2 * linkrate_wire::balance::MAX_PORTS;
    switch.enter(last, frame(9, 1, None), 10);
    out(&mut switch);
    switch.enter(2, frame(1, 3, None), 20);
    let sent = out(&mut switch);
    assert_eq!((sent[last], sent.iter().sum::<usize>()), (1, 1), "{sent:?}");
}

#[test]
fn frames_about_the_link_are_not_forwarded() {
    let mut switch = switch(3, None);
    let mut slow = frame(9, 1, None).into_frames().unwrap().first().to_vec();
    slow[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 2]);
    switch.enter(0, WireFrame::copied(slow).into(), 0);
    assert_eq!(out(&mut switch), [0, 0, 0]);
}

/// The switch with ports 0 and 1 to a failover group, with BFD.
fn failover() -> Switch {
    let mut switch = switch(5, Some(BitRate(1e9)));
    let mode = linkrate_model::knobs::AggregateMode::Failover;
    let knobs = AggregateKnobs { aggregate: 2, mode, bfd: true, ..AggregateKnobs::default() };
    switch.set_group(0, GroupSpec::of([0, 1], knobs));
    switch
}

/// A frame to this group of stations, long enough for any protocol.
fn to_group(group: MacAddress, from: u8) -> Pdu {
    let mut bytes = [&group.0[..], &[2, 0, 0, 0, 0, from], &[0x88, 0xb5]].concat();
    bytes.resize(100, 0);
    WireFrame::copied(bytes).into()
}

#[test]
fn the_ports_of_a_failover_group_are_single_ports() {
    let mut switch = failover();
    out_by(&mut switch, 1000);
    // the host is where it sent last
    switch.enter(0, frame(9, 1, None), 10);
    assert_eq!(out_by(&mut switch, 1000), [0, 1, 1, 1, 1]);
    switch.enter(3, frame(1, 4, None), 20);
    assert_eq!(out_by(&mut switch, 1000), [1, 0, 0, 0, 0]);
    switch.enter(1, frame(4, 1, None), 30);
    assert_eq!(out_by(&mut switch, 1000), [0, 0, 0, 1, 0]);
    switch.enter(3, frame(1, 4, None), 40);
    assert_eq!(out_by(&mut switch, 1000), [0, 1, 0, 0, 0]);
    // polls go from port to port
    switch.enter(0, to_group(linkrate_wire::control::lan_monitor::GROUP, 7), 50);
    assert_eq!(out_by(&mut switch, 1000), [0, 1, 1, 1, 1]);
}

#[test]
fn bfd_is_spoken_on_the_links_of_an_aggregate_alone() {
    let mut switch = failover();
    // each port sends its first packet by itself
    assert_eq!(out_by(&mut switch, 1000)[..2], [1, 1]);
    switch.enter(0, to_group(linkrate_wire::control::bfd::GROUP, 7), 10);
    assert_eq!(out_by(&mut switch, 1000)[1..], [0; 4], "a packet about the link goes no further");
    // another port has a group of stations there
    switch.enter(3, to_group(linkrate_wire::control::bfd::GROUP, 8), 20);
    assert_eq!(out_by(&mut switch, 1000)[4], 1);
    // a partner may send to the switch's end of the link (RFC 7130, 2.3), and other stations have the port too
    let own = MacAddress([2, 0, 0xff, 0xff, 0, 1]);
    for (destination, leaves) in [(own, 0), (MacAddress([2, 0, 0, 0, 0, 99]), 1)] {
        let ends = ["169.254.71.1", "169.254.71.2"].map(|address| address.parse().unwrap());
        let ip = IpEnds::new(ends[0], ends[1]).unwrap();
        let source = MacAddress([2, 0, 0, 0, 0, 7]);
        let route = Route { source, destination, ip, hops: 255, class: 0 };
        let frame = route.udp(49_152, linkrate_wire::control::bfd::PORT, &[0x20; 24]).unwrap();
        switch.enter(0, WireFrame::copied(frame).into(), 30);
        assert_eq!(out_by(&mut switch, 1000)[4], leaves, "{destination}");
    }
}

#[test]
fn frames_of_the_protocols_pass_the_queue_before_a_port() {
    let mut switch = failover();
    switch.forward(1_000);
    let drain = |switch: &mut Switch| {
        let in_flight = switch.to(0).unwrap();
        let mut frames = Vec::new();
        while let Some((at_ps, pdu)) = in_flight.arrived(u64::MAX) {
            frames.push((at_ps, pdu.into_frames().unwrap().head()[0]));
        }
        frames
    };
    drain(&mut switch);
    // the address is behind port 0, and 500 frames to it fill the queue before the port for 0.5 ms
    switch.enter(0, frame(9, 1, None), 2_000);
    for number in 0..500 {
        switch.enter(3, frame(1, 4, None), 3_000 + number);
    }
    let session_ps = 200_000_000;
    switch.forward(session_ps / 2);
    let due_ps = switch.groups.due_ps().expect("a packet of BFD each second");
    assert!(due_ps > session_ps);
    let last_ps = drain(&mut switch).last().unwrap().0;
    for number in 0..500 {
        switch.enter(3, frame(1, 4, None), due_ps - 1000 + number);
    }
    switch.forward(due_ps);
    let frames = drain(&mut switch);
    let (at_ps, _) = frames.iter().find(|(_, first)| *first == 1).expect("a packet of BFD");
    assert!(*at_ps < due_ps + 20_000_000, "{at_ps} after {due_ps}");
    assert!(frames.last().unwrap().0 > due_ps + 400_000_000, "{last_ps}");
}

#[test]
fn a_dead_switch_is_silent_and_begins_anew() {
    let (mut switch, mut now) = (grouped(), 1_000_000);
    let knobs = AggregateKnobs {
        aggregate: 2,
        mode: linkrate_model::knobs::AggregateMode::Lacp,
        ..AggregateKnobs::default()
    };
    switch.set_group(0, GroupSpec::of([0, 1], knobs));
    switch.enter(2, frame(9, 3, None), 10);
    assert!(out_by(&mut switch, now)[4] == 1);
    // held by it when it dies, and what comes and falls due afterwards
    switch.enter(2, frame(9, 3, None), 20);
    switch.set_alive(false);
    switch.enter(4, frame(3, 5, None), 30);
    switch.set_link(0, Some(BitRate(1e9)), false);
    switch.set_link(0, Some(BitRate(1e9)), true);
    assert_eq!(switch.due_ps(&|in_flight| in_flight.first_ps()), None);
    assert_eq!((out_by(&mut switch, now), total(&switch, "switchDropDead")), (vec![0; 5], 1));
    now += 2_000_000_000_000;
    switch.forward(now);
    switch.set_alive(true);
    // it asks for partners again, and has forgotten station 3
    let mut lacp = out_by(&mut switch, now);
    assert!(lacp[0] > 0 && lacp[1] > 0, "{lacp:?}");
    lacp.drain(..2);
    assert_eq!(lacp, [0; 3]);
    now += 1_000_000;
    switch.enter(4, frame(3, 5, None), now);
    assert_eq!(out_by(&mut switch, now)[2..], [1, 1, 0]);
}

#[test]
fn a_group_without_ports_is_no_more() {
    let mut switch = grouped();
    switch.enter(1, frame(9, 1, None), 0);
    out(&mut switch);
    switch.set_group(0, GroupSpec::of([], AggregateKnobs::default()));
    // both ports are ports like others, and what was learnt of the group is forgotten
    switch.enter(2, frame(1, 3, None), 10);
    assert_eq!(out(&mut switch), [1, 1, 0, 1, 1]);
    switch.enter(0, frame(9, 1, None), 20);
    assert_eq!(out(&mut switch), [0, 1, 1, 1, 1]);
}

/// Three frames between two stations, as segments of one superframe or each by itself.
fn train(to: u8, from: u8, vlan: Option<u16>, segments: bool) -> Pdu {
    let one = frame(to, from, vlan).into_frames().unwrap().first().to_vec();
    let cuts = (0..3).map(|index| {
        let start = index * one.len() as u32;
        Cut { header: start..start + one.len() as u32, payload: 0..0, sum: None }
    });
    let (headers, cuts) = (one.repeat(3), cuts.collect());
    let train = Train { headers, cuts, segments, ..Train::default() };
    Burst::of(&Arc::new(train), 0..3).into()
}

/// What has left by a port: the time and the octets of each frame.
fn left(switch: &mut Switch, port: usize) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((at_ps, pdu)) = switch.to(port).unwrap().arrived(u64::MAX) {
        frames.extend(pdu.into_frames().unwrap().each().map(|frame| (at_ps, frame.to_vec())));
    }
    frames
}

#[test]
fn segments_of_a_superframe_take_the_way_of_single_frames() {
    for rate in [None, Some(BitRate(1e9))] {
        for balance in [Balance::Mac, Balance::RoundRobin] {
            let passed = |segments: bool| {
                let mut switch = switch(4, rate);
                switch.control(FabricCommand::SetVlans(2, Vlans::Access(1), Arc::default()));
                let mode = AggregateMode::Manual;
                let knobs = AggregateKnobs { mode, balance, ..AggregateKnobs::default() };
                let spec = GroupSpec::of([0, 1], knobs);
                switch.set_group(0, spec);
                let mut all = Vec::new();
                // both ends become known, and the first train finds no decision of the one before it
                for (from, pdu) in [
                    (0, frame(9, 1, None)),
                    (2, frame(1, 2, None)),
                    (0, train(2, 1, None, segments)),
                    (0, train(2, 1, None, segments)),
                    // with a priority, which an access port takes off
                    (0, train(2, 1, Some(0), segments)),
                    (0, train(2, 1, Some(0), segments)),
                    (2, train(1, 2, None, segments)),
                    (2, train(1, 2, None, segments)),
                ] {
                    switch.enter(from, pdu, 1_000_000 * all.len() as u64);
                    switch.forward(u64::MAX / 2);
                    all.push((0..4).map(|port| left(&mut switch, port)).collect::<Vec<_>>());
                }
                all
            };
            let (one_by_one, together) = (passed(false), passed(true));
            assert_eq!(together, one_by_one, "{rate:?} {balance:?}");
            let to_group: usize = together[7][..2].iter().map(Vec::len).sum();
            assert_eq!((together[3][2].len(), to_group), (3, 3));
        }
    }
}
