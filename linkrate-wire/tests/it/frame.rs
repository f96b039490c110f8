//! Where headers are found, and what is refused.

use std::net::{IpAddr, SocketAddr};

use crate::common::{Packet, bytes, strategy};
use linkrate_wire::frame::{
    Headers, IpEnds, MacAddress, Network, Route, Transport, Verification, tcp,
};
use proptest::prelude::*;

fn refusal(frame: &[u8]) -> String {
    Headers::parse(frame).expect_err("a frame that is wrong").to_string()
}

#[test]
fn the_plainest_frame() {
    let frame = Packet::tcp4(bytes(100)).frame();
    let headers = Headers::parse(&frame).expect("a good frame");
    assert_eq!(headers.transport, Transport::Tcp { at: 34 });
    assert_eq!(headers.payload_range(), 54..154);
    assert!(headers.network_checksum_verifies(&frame));
    assert_eq!(headers.transport_checksum_parts(&frame, &[]), Verification::Right);
}

#[test]
fn tags_snap_and_ipv6_extensions_move_what_follows() {
    let packet = Packet {
        tags: vec![(0x88a8, 7), (0x8100, 8)],
        snap: true,
        extensions: vec![(0, vec![0; 6]), (60, vec![0; 14])],
        ..Packet::tcp6(bytes(10))
    };
    let frame = packet.frame();
    let headers = Headers::parse(&frame).expect("a good frame");
    assert_eq!((headers.link.tags, headers.link.snap, headers.link.length), (2, true, 30));
    assert_eq!(headers.transport, Transport::Tcp { at: 30 + 40 + 8 + 16 });
    assert_eq!(headers.payload_range().len(), 10);
    assert_eq!(headers.transport_checksum_parts(&frame, &[]), Verification::Right);
}

#[test]
fn a_segment_is_named_by_its_ends_and_its_place() {
    for packet in [Packet::tcp4(bytes(100)), Packet::tcp6(bytes(100))] {
        let frame = Packet { sequence: u32::MAX - 49, flags: 0x11, ..packet }.frame();
        let headers = Headers::parse(&frame).expect("a good frame");
        let segment = headers.tcp_segment(&frame).expect("a segment");
        assert_eq!((segment.source.port(), segment.destination.port()), (1500, 8000));
        assert_ne!(segment.source.ip(), segment.destination.ip());
        assert_eq!((segment.length, segment.flags), (100, tcp::FIN | tcp::ACK));
        // sequence numbers go round, and FIN takes one
        assert_eq!(segment.end(), 51);
        assert!(segment.is_before(51) && !segment.is_before(50));
    }
    let datagram = Packet::udp4(bytes(10)).frame();
    let headers = Headers::parse(&datagram).expect("a good frame");
    assert_eq!(headers.tcp_segment(&datagram), None);
}

/// RFC 4443: errors over IPv6 quote as much as fits, and their type is below 128.
#[test]
fn errors_of_ipv6_tell_the_segment_that_they_are_about() {
    let sent = Packet::tcp6(bytes(100)).frame();
    let segment = Headers::parse(&sent).expect("a good frame").tcp_segment(&sent);
    let segment = segment.expect("a segment");
    let IpAddr::V6(source) = segment.destination.ip() else { panic!("IPv6") };
    let IpAddr::V6(destination) = segment.source.ip() else { panic!("IPv6") };
    let of = |kind: u8, quoted: &[u8]| {
        let (from, to) = (MacAddress([2; 6]), MacAddress([4; 6]));
        let ip = IpEnds::V6 { source, destination };
        let route = Route { source: from, destination: to, ip, hops: 64, class: 0 };
        let error = route.icmpv6(&[&[kind, 0, 0, 0, 0, 0, 5, 0], quoted].concat());
        let error = error.expect("it fits");
        let headers = Headers::parse(&error).expect("a good frame");
        let split = headers.payload;
        let parts = headers.quoted_ends(&(&error[..split], &error[split..]));
        assert_eq!(headers.quoted_ends(&error), parts);
        parts
    };
    let ends = Some((segment.source, segment.destination));
    assert_eq!([1, 2, 3, 4].map(|kind| of(kind, &sent[14..])), [ends; 4]);
    assert_eq!((of(128, &sent[14..]), of(2, &sent[14..14 + 43])), (None, None));
    let datagram = Packet::udp4(bytes(9)).frame();
    assert_eq!(of(1, &datagram[14..]), None);
}

/// RFC 792: errors over IPv4 quote the header and 64 bits at least.
#[test]
fn errors_of_ipv4_tell_the_segment_that_they_are_about() {
    let of = |quoted: Packet| {
        let mut error = Packet::udp4(quoted.frame()[14..].to_vec()).frame();
        // the header of UDP is as long as that of ICMP
        (error[14 + 9], error[14 + 20]) = (1, 3);
        let ends = Headers::parse(&error).expect("a good frame").quoted_ends(&error);
        ends.map(|(source, destination)| (source.port(), destination.port()))
    };
    assert_eq!(of(Packet::tcp4(bytes(100))), Some((1500, 8000)));
    assert_eq!(of(Packet { fragment: 0x2000, ..Packet::tcp4(bytes(100)) }), Some((1500, 8000)));
    // neither has the ports of a segment
    assert_eq!(of(Packet { fragment: 0x2001, ..Packet::tcp4(bytes(100)) }), None);
    assert_eq!(of(Packet::udp4(bytes(9))), None);
}

#[test]
fn the_first_fragment_tells_its_segment() {
    let of = |packet: Packet| {
        let frame = packet.frame();
        Headers::parse(&frame).expect("a good frame").fragment_ends(&frame)
    };
    let ports = |ends: Option<(SocketAddr, SocketAddr)>| {
        ends.map(|(source, destination)| (source.port(), destination.port()))
    };
    let first = of(Packet { fragment: 0x2000, ..Packet::tcp4(bytes(90)) });
    assert_eq!(ports(first), Some((1500, 8000)));
    assert_eq!(of(Packet { fragment: 0x2001, ..Packet::tcp4(bytes(90)) }), None);
    assert_eq!(of(Packet { fragment: 0x2000, ..Packet::udp4(bytes(90)) }), None);
    assert_eq!(of(Packet::tcp4(bytes(90))), None);
    let of_ipv6 = |offset: u8| {
        of(Packet {
            extensions: vec![(44, vec![0, offset, 0, 0, 0, 9])],
            ..Packet::tcp6(bytes(90))
        })
    };
    assert_eq!((ports(of_ipv6(1)), of_ipv6(9)), (Some((1500, 8000)), None));
}

#[test]
fn ethernet_padding_is_not_payload() {
    let frame = Packet { padding: 5, ..Packet::tcp4(vec![7]) }.frame();
    let headers = Headers::parse(&frame).expect("a good frame");
    assert_eq!((headers.payload_range(), frame.len()), (54..55, 60));
    assert_eq!(headers.transport_checksum_parts(&frame, &[]), Verification::Right);
}

#[test]
fn the_802_3_length_ends_the_packet() {
    let mut frame = Packet { snap: true, ..Packet::tcp4(bytes(10)) }.frame();
    assert_eq!(frame[12..14], [0, 58]);
    frame[13] = 57;
    assert_eq!(refusal(&frame), "IPv4 total length at byte 24 is 50, expected 20 to 49");
    frame[13] = 59;
    assert_eq!(refusal(&frame), "802.3 length at byte 12 is 59, expected 0 to 58");
}

/// Of a frame that contradicts itself the link header alone is read, and of one that has none nothing.
#[test]
fn a_link_header_is_read_whatever_is_behind_it() {
    let mut frame = Packet { tags: vec![(0x8100, 8)], ..Packet::tcp4(bytes(10)) }.frame();
    frame[18] = 0x44;
    assert!(Headers::parse(&frame).is_err());
    let headers = Headers::of_link(&frame, 0).expect("a link header");
    let link = headers.link;
    assert_eq!((link.tags, link.ether_type, link.length), (1, 0x0800, 18));
    assert_eq!((headers.transport, headers.end), (Transport::Other, frame.len()));
    assert_eq!((headers.ports(&frame), headers.tcp_segment(&frame)), (None, None));
    // 802.3: a SNAP header stays known, lengths that cannot be are not read
    let mut frame = Packet { snap: true, ..Packet::tcp4(bytes(10)) }.frame();
    frame[22] = 0x44;
    assert!(Headers::of_link(&frame, 0).is_ok_and(|headers| headers.link.snap));
    for length in [0x05dd_u16, 0x05ff, 1000] {
        frame[12..14].copy_from_slice(&length.to_be_bytes());
        let headers = Headers::of_link(&frame, 0).expect("a link header");
        assert_eq!(
            (headers.link.ether_type, headers.link.length, headers.link.snap),
            (0, 14, false)
        );
    }
    assert!(Headers::of_link(&frame[..13], 40).is_err());
}

/// RFC 768 lets bytes follow a datagram within its packet, which its checksum does not cover.
#[test]
fn a_checksum_covers_the_rest_only_where_the_datagram_ends_with_the_frame() {
    let covers = |frame: &[u8]| {
        let headers = Headers::parse(frame).expect("a good frame");
        let verified = headers.transport_checksum_parts(frame, &[]);
        assert_eq!(verified, Verification::Right);
        let split = headers.payload;
        let whole = headers.checksum_covers_rest(&frame);
        assert_eq!(headers.checksum_covers_rest(&(&frame[..split], &frame[split..])), whole);
        whole
    };
    for packet in [Packet::tcp4(bytes(9)), Packet::udp4(bytes(9)), Packet::tcp6(bytes(9))] {
        let mut frame = packet.frame();
        assert!(covers(&frame));
        frame.extend([0; 7]);
        assert!(covers(&frame), "padding of zeros");
        frame.push(3);
        assert!(!covers(&frame), "other padding");
    }
    // a shorter length of UDP, with the checksum of that
    let mut frame = Packet::udp4(bytes(4)).frame();
    frame.extend(*b"trailer!");
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    assert!(!covers(&frame));
}

#[test]
fn other_protocols_are_no_error() {
    let mut arp = vec![0xff; 12];
    arp.extend([0x08, 0x06, 0, 1]);
    assert_eq!(Headers::parse(&arp).expect("ARP").network, Network::Other);
    let mut spanning_tree = vec![1; 12];
    spanning_tree.extend([0, 3, 0x42, 0x42, 3]);
    let headers = Headers::parse(&spanning_tree).expect("LLC");
    assert_eq!((headers.link.ether_type, headers.network), (0, Network::Other));
}

#[test]
fn fragments_are_recognised() {
    for fragment in [0x2000, 0x6000, 0x0001, 0x1fff] {
        let frame = Packet { fragment, ..Packet::tcp4(bytes(9)) }.frame();
        assert_eq!(Headers::parse(&frame).expect("a fragment").transport, Transport::Fragment);
    }
    let extensions = vec![(60, vec![0; 6]), (44, vec![0; 6])];
    let frame = Packet { extensions, ..Packet::tcp6(bytes(9)) }.frame();
    assert_eq!(Headers::parse(&frame).expect("a fragment").transport, Transport::Fragment);
}

#[test]
fn a_routed_packet_has_no_checksum_to_verify() {
    let mut body = vec![0; 6];
    body[1] = 1;
    let frame = Packet { extensions: vec![(43, body)], ..Packet::tcp6(bytes(9)) }.frame();
    let headers = Headers::parse(&frame).expect("a routed packet");
    assert_eq!(headers.transport_checksum_parts(&frame, &[]), Verification::None);
}

#[test]
fn udp_without_a_checksum_is_right_only_over_ipv4() {
    for (v6, expected) in [(false, Verification::None), (true, Verification::Wrong)] {
        let mut frame = Packet { v6, ..Packet::udp4(bytes(9)) }.frame();
        let headers = Headers::parse(&frame).expect("a good frame");
        let Transport::Udp { at } = headers.transport else { panic!("UDP") };
        frame[at + 6..at + 8].fill(0);
        assert_eq!(headers.transport_checksum_parts(&frame, &[]), expected);
    }
}

#[test]
fn refuses_contradicting_lengths_by_name() {
    let good = Packet::tcp4(bytes(10)).frame();
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        refusal(&frame)
    };
    assert_eq!(
        refusal(&good[..13]),
        "bytes of Ethernet header at byte 0 is 13, expected at least 14"
    );
    assert_eq!(with(14, 0x65), "IP version at byte 14 is 6, expected 4");
    assert_eq!(with(14, 0x44), "IPv4 header length at byte 14 is 16, expected 20 to 50");
    assert_eq!(with(17, 51), "IPv4 total length at byte 16 is 51, expected 20 to 50");
    assert_eq!(with(17, 39), "bytes of TCP header at byte 34 is 19, expected at least 20");
    assert_eq!(with(46, 0x40), "TCP header length at byte 46 is 16, expected 20 to 30");
    assert_eq!(with(46, 0x80), "TCP header length at byte 46 is 32, expected 20 to 30");
    let mut udp = Packet::udp4(bytes(10)).frame();
    udp[39] = 7;
    assert_eq!(refusal(&udp), "UDP length at byte 38 is 7, expected 8 to 18");
    udp[39] = 19;
    assert_eq!(refusal(&udp), "UDP length at byte 38 is 19, expected 8 to 18");
    let mut six = Packet::tcp6(bytes(10)).frame();
    six[19] = 31;
    assert_eq!(refusal(&six), "IPv6 payload length at byte 18 is 31, expected 0 to 30");
}

#[test]
fn extension_headers_are_bounded() {
    let many =
        |count| Packet { extensions: vec![(60, vec![0; 6]); count], ..Packet::tcp6(bytes(10)) };
    assert!(Headers::parse(&many(8).frame()).is_ok());
    let error = refusal(&many(9).frame());
    assert!(error.contains("number of IPv6 extension headers"), "{error}");
    let mut frame = many(1).frame();
    frame[55] = 200;
    let error = refusal(&frame);
    assert!(
        error.contains("extension header length at byte 55 is 1608, expected 8 to 38"),
        "{error}"
    );
}

#[test]
fn transport_fields_by_name() {
    let tcp = Packet { tags: vec![(0x8100, 3)], flags: 0x102, ..Packet::tcp6(bytes(9)) };
    let frame = tcp.frame();
    let headers = Headers::parse(&frame).expect("a good frame");
    assert_eq!(headers.tcp_flags(&frame), Some(tcp::SYN | 0x100));
    assert_eq!(headers.tcp_flags(&frame[..headers.payload - 1]), None, "of another frame");
    assert_eq!(headers.ports(&frame), Some(tcp.ports));
    let place = headers.checksum_place().expect("TCP");
    assert_eq!((place.at, place.offset, place.protocol), (58, 16, 6));

    let frame = Packet::udp4(bytes(9)).frame();
    let headers = Headers::parse(&frame).expect("a good frame");
    let place = headers.checksum_place().expect("UDP");
    assert_eq!((place.at, place.offset, place.protocol), (34, 6, 17));
    assert_eq!(headers.tcp_flags(&frame), None);

    let fragment = Packet { fragment: 0x2000, ..Packet::tcp4(bytes(9)) }.frame();
    let headers = Headers::parse(&fragment).expect("a fragment");
    assert_eq!((headers.checksum_place(), headers.tcp_flags(&fragment)), (None, None));
}

proptest! {
    #[test]
    fn any_bytes_are_headers_or_an_error(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Headers::parse(&frame);
    }

    #[test]
    fn a_good_frame_is_found_whole(packet in strategy::packet(200)) {
        let frame = packet.frame();
        let headers = Headers::parse(&frame).expect("a good frame");
        prop_assert_eq!(&frame[headers.payload_range()], &packet.payload);
        prop_assert!(headers.network_checksum_verifies(&frame));
        prop_assert_eq!(headers.transport_checksum_parts(&frame, &[]), Verification::Right);
    }

    #[test]
    fn a_frame_in_two_parts_is_the_same_frame(
        packet in strategy::packet(60),
        padding in 0usize..9,
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..3),
        length: prop::sample::Index,
    ) {
        let mut frame = Packet { padding, ..packet }.frame();
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        frame.truncate(length.index(frame.len()) + 1);
        let whole = Headers::parse(&frame);
        for split in 0..=frame.len() {
            let (head, tail) = frame.split_at(split);
            let parts = Headers::parse_parts(head, tail.len());
            let Ok(headers) = whole else {
                prop_assert!(parts.is_err());
                continue;
            };
            // eight bytes more: LLC that could be SNAP, or the fragment header
            prop_assert!(parts.is_ok() || split < frame.len().min(headers.payload + 8));
            if let Ok(parts) = parts {
                prop_assert_eq!(parts, headers);
                prop_assert!(split >= headers.payload);
                prop_assert_eq!(
                    headers.transport_checksum_parts(head, tail),
                    headers.transport_checksum_parts(&frame, &[])
                );
                prop_assert_eq!(
                    headers.network_checksum_verifies(head),
                    headers.network_checksum_verifies(&frame)
                );
            } else {
                // headers of other bytes give an answer, but no panic
                let _ = headers.transport_checksum_parts(head, tail);
            }
        }
    }

    #[test]
    fn a_changed_or_shortened_frame_never_lies(
        packet in strategy::packet(60),
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6),
        length: prop::sample::Index,
    ) {
        let mut frame = packet.frame();
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        frame.truncate(length.index(frame.len()) + 1);
        if let Ok(headers) = Headers::parse(&frame) {
            prop_assert!(headers.payload <= headers.end && headers.end <= frame.len());
            let _ = headers.network_checksum_verifies(&frame);
            let _ = headers.transport_checksum_parts(&frame, &[]);
        }
    }
}
