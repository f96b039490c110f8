//! Frames of the protocols of an aggregate, which pass the packets of its host.

use linkrate_wire::balance::PortIndex;
use linkrate_wire::control::lacp::{Information, PortId, State, SystemId, VERSION};
use linkrate_wire::control::marker::{Kind, Requester};
use linkrate_wire::control::{Lacpdu, Marker, Poll, bfd, is_marker};
use linkrate_wire::frame::{IpEnds, MacAddress, Route};
use linkrate_wire::lro::Parts;

use super::*;

const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

fn lacpdu() -> Vec<u8> {
    let end = Information {
        system: SystemId { priority: 1, address: SOURCE },
        key: 1,
        port: PortId { priority: 1, number: 1 },
        state: State::default(),
    };
    let pdu = Lacpdu { version: VERSION, actor: end, partner: end, collector_max_delay: 0 };
    pdu.frame(SOURCE)
}

fn marker() -> Vec<u8> {
    let requester = Requester { port: 1, system: SOURCE, transaction: 1 };
    Marker { kind: Kind::Information, requester }.frame(SOURCE)
}

fn poll() -> Vec<u8> {
    Poll { system: SOURCE, group: 1, port: PortIndex(1), sequence: 1 }.frame(SOURCE)
}

impl End {
    fn post_control(&mut self, frame: &[u8]) {
        let descriptor = self.descriptor(&[&[0; VNET_BYTES], frame].concat());
        self.control[0].tx.push(descriptor).unwrap();
    }

    /// Frames of the protocols that the host gets.
    fn popped_control(&mut self) -> Vec<Vec<u8>> {
        let all = std::iter::from_fn(|| self.control[0].rx.pop().ok());
        all.map(|descriptor| {
            let mut bytes = Vec::new();
            descriptor.for_each_piece(|piece| bytes.extend_from_slice(piece));
            bytes
        })
        .collect()
    }
}

#[test]
fn they_pass_a_full_transmit_ring_and_a_full_line() {
    let limits = NicLimits { link: at(Some(BitRate(1e8))), ..limits() };
    let mut end = End::new(limits, quiet(), 1, None);
    let vnet = VnetHeader::default();
    for _ in 0..64 {
        end.post(vnet, &packet(&payload(1400)));
    }
    // the FIFO is full by now, and packets are left in the ring
    let mut before = Vec::new();
    let now_ps = end.device.host.clock.at_ps(end.posted_ns) + 1_000_000;
    end.device.send_posted(now_ps, &mut |burst, at_ps| before.push((burst, at_ps)));
    assert!(end.device.host.interface.has_posted());
    end.post_control(&lacpdu());
    let mut after = Vec::new();
    end.device.send_posted(now_ps, &mut |burst, at_ps| after.push((burst, at_ps)));
    assert_eq!(after.len(), 1, "the line takes no packet now");
    assert!(after[0].0.head().starts_with(&lacpdu()[..14]));
    // behind one packet, and not behind those that have a time already
    assert!(after[0].1 < before[2].1 && before.len() > 10, "{}", before.len());
    // and it takes no place from the packets
    assert_eq!(end.queues[0].completed.load(Ordering::Relaxed), 0);
}

#[test]
fn they_reach_the_aggregate_past_the_packets_except_a_marker() {
    let mut end = End::new(limits(), quiet(), 1, None);
    let frames = [packet(&payload(100)), lacpdu(), marker(), poll()];
    let frames: Vec<_> = frames
        .into_iter()
        .map(|mut frame| {
            frame.resize(frame.len().max(60), 0);
            (WireFrame::copied(frame), 0)
        })
        .collect();
    let packets = end.received(frames);
    let control = end.popped_control();
    assert_eq!((packets.len(), control.len()), (2, 2));
    assert!(is_marker(&packets[1].1), "it follows the packets before it");
    assert!(control[0].starts_with(&lacpdu()) && control[1].starts_with(&poll()));
}

/// RFC 7130, 2.3: a session that is up may send to the address that its packets came from.
#[test]
fn micro_bfd_to_the_station_itself_reaches_the_aggregate() {
    let mut end = End::new(limits(), PortKnobs { vlan: 5, ..quiet() }, 1, None);
    let to = |hops, port, destination| {
        let ends = ["169.254.71.2", "169.254.71.1"].map(|address| address.parse().unwrap());
        let ip = IpEnds::new(ends[0], ends[1]).unwrap();
        let route = Route { source: SOURCE, destination, ip, hops, class: 0 };
        (WireFrame::copied(route.udp(49_152, port, &[0x20; 24]).unwrap()), 0)
    };
    let station = MacAddress([2, 0, 0, 0, 0, 1]);
    let is_of_a_host = [to(64, bfd::PORT, station), to(255, bfd::PORT + 1, station)];
    assert!(end.received(is_of_a_host.to_vec()).is_empty() && end.popped_control().is_empty());
    assert_eq!(end.counted("rxDropVlan"), 2);
    let sessions = vec![to(255, bfd::PORT, station), to(255, bfd::PORT, bfd::GROUP)];
    assert!(end.received(sessions).is_empty());
    assert_eq!(end.popped_control().len(), 2);
}

#[test]
fn those_of_the_link_have_no_tag_and_need_none() {
    let knobs = PortKnobs { vlan: 5, ..quiet() };
    let (mut from, mut to) =
        (End::new(limits(), knobs.clone(), 1, None), End::new(limits(), knobs, 1, None));
    from.post_control(&lacpdu());
    from.post_control(&poll());
    let sent = from.sent();
    let tagged: Vec<bool> =
        sent.iter().map(|(frame, _)| frame.to_vec()[12..14] == [0x81, 0]).collect();
    assert_eq!(tagged, [false, true]);
    assert!(to.received(sent).is_empty());
    assert_eq!(to.popped_control().len(), 2);
    // a poll of another VLAN is none of this group
    let other: Vec<_> = vec![(WireFrame::copied(poll()), 0)];
    assert!(to.received(other).is_empty() && to.popped_control().is_empty());
}
