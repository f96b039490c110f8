//! Superframes and the frames they must be cut into.

use std::cell::RefCell;

use crate::common::{Packet, bytes, strategy, timestamps};
use linkrate_wire::frame::{Headers, Verification, link};
use linkrate_wire::segment::{Cut, Cwr, Identification, Request, SegmentError};
use linkrate_wire::{tso, uso};
use proptest::prelude::*;

fn tcp(superframe: &[u8], request: &Request) -> Vec<Vec<u8>> {
    try_tcp(superframe, request).expect("a superframe")
}

fn try_tcp(superframe: &[u8], request: &Request) -> Result<Vec<Vec<u8>>, SegmentError> {
    cut(superframe, |headers, cuts| tso::cut_into(superframe, request, headers, cuts, |_| ()))
}

fn udp(superframe: &[u8], request: &Request) -> Vec<Vec<u8>> {
    try_udp(superframe, request).expect("a superframe")
}

fn try_udp(superframe: &[u8], request: &Request) -> Result<Vec<Vec<u8>>, SegmentError> {
    cut(superframe, |headers, cuts| uso::cut_into(superframe, request, headers, cuts, |_| ()))
}

/// The frames of a superframe. What the caller's memory holds already must stay as it is.
fn cut(
    superframe: &[u8],
    cut_into: impl Fn(&mut Vec<u8>, &mut Vec<Cut>) -> Result<(), SegmentError>,
) -> Result<Vec<Vec<u8>>, SegmentError> {
    let (mut headers, mut cuts) =
        (vec![0xee; 3], vec![Cut { header: 0..3, payload: 0..0, sum: None }]);
    if let Err(error) = cut_into(&mut headers, &mut cuts) {
        assert_eq!((headers.len(), cuts.len()), (3, 1));
        return Err(error);
    }
    assert_eq!((&headers[..3], cuts.remove(0).header), (&[0xee; 3][..], 0..3));
    Ok(cuts.iter().map(|cut| [cut.header(&headers), cut.payload(superframe)].concat()).collect())
}

fn refusal(packet: &Packet, size: u16) -> String {
    try_tcp(&packet.frame(), &Request::new(size)).expect_err("refused").to_string()
}

/// Written by hand, byte by byte: 5 bytes of payload in segments of 3, ECE, CWR, PSH and FIN.
#[test]
fn a_golden_superframe() {
    #[rustfmt::skip]
    let superframe = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00,
        0x45, 0x02, 0, 45, 0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 9, 0x50, 0xd9, 0x10, 0, 0xab, 0xcd, 0, 0,
        1, 2, 3, 4, 5,
    ];
    // IP: 4502+002b+ffff+4000+4006+0a00+0001+0a00+0002, carry added, is d936, complement 26c9
    // TCP: pseudo-header 0a00+0001+0a00+0002+0006+0017, header 0001+0002+ffff+fffe+0000+0009+50d0
    //   (ECE, CWR, ACK) +1000, payload 0102+0300, carries added, is 78fd, complement 8702
    #[rustfmt::skip]
    let first = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00,
        0x45, 0x02, 0, 43, 0xff, 0xff, 0x40, 0, 64, 6, 0x26, 0xc9, 10, 0, 0, 1, 10, 0, 0, 2,
        0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 9, 0x50, 0xd0, 0x10, 0, 0x87, 0x02, 0, 0,
        1, 2, 3,
    ];
    // the identification and the sequence number wrap; flags 5059: ECE, ACK, PSH, FIN
    #[rustfmt::skip]
    let second = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00,
        0x45, 0x02, 0, 42, 0, 0, 0x40, 0, 64, 6, 0x26, 0xca, 10, 0, 0, 1, 10, 0, 0, 2,
        0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9, 0x50, 0x59, 0x10, 0, 0x87, 0x75, 0, 0,
        4, 5,
    ];
    let cut = tcp(&superframe, &Request::new(3));
    assert_eq!(cut, [first.to_vec(), second.to_vec()]);
}

#[test]
fn cwr_is_on_the_first_only_unless_it_counts() {
    let frame = Packet { flags: 0x1d8, ..Packet::tcp6(bytes(30)) }.frame();
    let flags = |cwr| -> Vec<u8> {
        let request = Request { cwr, ..Request::new(10) };
        tcp(&frame, &request).iter().map(|frame| frame[54 + 13]).collect()
    };
    assert_eq!(flags(Cwr::FirstOnly), [0xd0, 0x50, 0x58]);
    assert_eq!(flags(Cwr::All), [0xd0, 0xd0, 0xd8]);
}

#[test]
fn the_identification_is_fixed_only_when_asked_and_df_is_set() {
    let identifications = |fragment, identification| -> Vec<u16> {
        let packet = Packet { fragment, identification: 7, ..Packet::tcp4(bytes(30)) };
        let request = Request { identification, ..Request::new(10) };
        let frames = tcp(&packet.frame(), &request);
        frames.iter().map(|frame| u16::from_be_bytes([frame[18], frame[19]])).collect()
    };
    assert_eq!(identifications(0x4000, Identification::Increments), [7, 8, 9]);
    assert_eq!(identifications(0x4000, Identification::Fixed), [7, 7, 7]);
    assert_eq!(identifications(0, Identification::Fixed), [7, 8, 9]);
}

#[test]
fn vlan_tags_and_snap_are_repeated_with_the_length_of_each() {
    let packet = Packet { tags: vec![(0x8100, 42)], snap: true, ..Packet::tcp4(bytes(25)) };
    let frames = tcp(&packet.frame(), &Request::new(10));
    assert_eq!(frames, packet.cut(10));
    let lengths: Vec<&[u8]> = frames.iter().map(|frame| &frame[12..18]).collect();
    assert_eq!(
        lengths,
        [[0x81, 0, 0, 42, 0, 58], [0x81, 0, 0, 42, 0, 58], [0x81, 0, 0, 42, 0, 53]]
    );
}

#[test]
fn cutting_can_add_snap() {
    let plain = Packet { tags: vec![(0x8100, 42)], ..Packet::tcp6(bytes(60_000)) };
    let request = Request { snap: true, ..Request::new(1432) };
    let frames = tcp(&plain.frame(), &request);
    let snap = Packet { snap: true, ..plain };
    // too long for one 802.3 frame, but not its segments
    assert_eq!(frames, snap.cut(1432));
    // longer segments, the short last one too, stay as they are
    let plain = Packet { snap: false, ..snap };
    let too_long = Request { snap: true, ..Request::new(1433) };
    assert_eq!(tcp(&plain.frame(), &too_long), plain.cut(1433));
}

#[test]
fn a_vlan_tag_is_inserted_before_all_others() {
    let plain = Packet { tags: vec![(0x88a8, 7)], ..Packet::tcp4(bytes(3000)) };
    let both = Packet { tags: vec![(0x8100, 0xa02a), (0x88a8, 7)], ..plain.clone() };
    for snap in [false, true] {
        let request = Request { vlan: Some(0xa02a), snap, ..Request::new(1400) };
        let expected = Packet { snap, ..both.clone() };
        assert_eq!(tcp(&plain.frame(), &request), expected.cut(1400));
    }
    let request = Request { vlan: Some(1), ..Request::new(1400) };
    let error = try_tcp(&both.frame(), &request).expect_err("refused");
    assert_eq!(error.to_string(), "frame has 2 VLAN tags, expected fewer where one is inserted");
}

#[test]
fn ipv6_extension_headers_and_tcp_options_are_repeated() {
    let packet = Packet {
        extensions: vec![
            (0, vec![1, 4, 0, 0, 0, 0]),
            (60, vec![1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ],
        options: timestamps(77),
        flags: 0x19,
        ..Packet::tcp6(bytes(5000))
    };
    assert_eq!(tcp(&packet.frame(), &Request::new(1400)), packet.cut(1400));
}

#[test]
fn a_packet_of_one_segment_gets_its_checksum() {
    let packet = Packet { flags: 0x19, ..Packet::tcp4(bytes(9)) };
    let mut frame = packet.frame();
    frame[50..52].fill(0);
    assert_eq!(tcp(&frame, &Request::new(9)), [packet.frame()]);
    let empty = Packet::tcp4(Vec::new()).frame();
    assert_eq!(tcp(&empty, &Request::new(9)), std::slice::from_ref(&empty));
}

#[test]
fn a_zero_udp_checksum_is_sent_as_ones() {
    // find the payload whose sum comes out as zero
    let frame = (0..=u16::MAX)
        .map(|value| Packet::udp4(value.to_be_bytes().to_vec()).frame())
        .find(|frame| frame[40..42] == [0xff, 0xff])
        .expect("one in 65536");
    assert_eq!(udp(&frame, &Request::new(2)), std::slice::from_ref(&frame));
}

#[test]
fn refuses_uncuttable_superframes_with_the_reason() {
    let good = Packet::tcp4(bytes(30));
    assert_eq!(refusal(&good, 0), "segment size is 0, expected at least 1");
    let fragment = Packet { fragment: 0x2000, ..good.clone() };
    assert_eq!(refusal(&fragment, 9), "superframe is an IP fragment, which has no segments");
    let not_tcp = Packet { udp: true, ..good.clone() };
    assert_eq!(refusal(&not_tcp, 9), "superframe is not TCP over IPv4 or IPv6");
    let padded = Packet { padding: 3, ..good.clone() };
    assert_eq!(refusal(&padded, 9), "superframe has 87 bytes, expected 84 from the length of IP");
    let extensions = vec![(60, vec![0; 22]); 8];
    let long = Packet { extensions, v6: true, ..good };
    assert_eq!(refusal(&long, 9), "superframe has 266 bytes of headers, expected at most 256");
}

#[test]
fn a_udp_length_other_than_that_of_ip_is_refused() {
    let mut frame = Packet::udp4(bytes(30)).frame();
    frame[39] -= 1;
    let error = try_udp(&frame, &Request::new(9)).expect_err("refused");
    assert_eq!(error, SegmentError::Length { found: 72, expected: 71, of: "UDP" });
}

#[test]
fn a_packet_with_segments_left_is_refused() {
    let extensions = vec![(43, vec![0, 1, 0, 0, 0, 0])];
    let packet = Packet { extensions, ..Packet::tcp6(bytes(30)) };
    let error = try_tcp(&packet.frame(), &Request::new(9)).expect_err("refused");
    assert_eq!(error, SegmentError::Routed);
}

proptest! {
    #[test]
    fn cutting_is_building_each_frame(
        packet in strategy::packet(1200), size in 1u16..1300, stale: u16,
    ) {
        let mut superframe = packet.frame();
        let headers = Headers::parse(&superframe).expect("a good frame");
        // whatever the checksum field holds
        let at = headers.payload - if packet.udp { 2 } else { 4 + packet.options.len() };
        superframe[at..at + 2].copy_from_slice(&stale.to_be_bytes());
        let request = Request::new(size);
        let cut = if packet.udp { udp(&superframe, &request) } else { tcp(&superframe, &request) };
        prop_assert_eq!(&cut, &packet.cut(usize::from(size)));

        let mut payload: Vec<u8> = Vec::new();
        for frame in &cut {
            let headers = Headers::parse(frame).expect("a good segment");
            prop_assert!(headers.network_checksum_verifies(frame));
            prop_assert_eq!(headers.transport_checksum_parts(frame, &[]), Verification::Right);
            prop_assert!(headers.payload_range().len() <= usize::from(size));
            payload.extend(&frame[headers.payload_range()]);
        }
        prop_assert_eq!(payload, packet.payload);
    }

    #[test]
    fn snap_while_cutting_is_snap_before_it(packet in strategy::packet(900), size in 1u16..900) {
        let plain = Packet { snap: false, udp: false, ..packet };
        let snap = Packet { snap: true, ..plain.clone() };
        let request = Request { snap: true, ..Request::new(size) };
        prop_assert_eq!(tcp(&plain.frame(), &request), tcp(&snap.frame(), &request));
    }

    #[test]
    fn anything_is_cut_or_refused(
        packet in strategy::packet(60),
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6),
        size: u16,
        snap: bool,
        vlan: Option<u16>,
    ) {
        let mut frame = packet.frame();
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        let request = Request { snap, vlan, ..Request::new(size) };
        let longest = frame.len() + link::SNAP + link::TAG;
        for frames in [try_tcp(&frame, &request), try_udp(&frame, &request)].into_iter().flatten() {
            prop_assert!(frames.iter().map(Vec::len).max() <= Some(longest));
        }
    }

    /// A batch holds the frames of several superframes, each as if it were cut alone.
    #[test]
    fn superframes_share_a_batch(
        packets in prop::collection::vec(strategy::packet(600), 1..5), size in 1u16..600,
        (snap, vlan) in any::<(bool, Option<u16>)>(),
    ) {
        let request = Request { snap, vlan, ..Request::new(size) };
        let (mut headers, mut cuts) = (Vec::new(), Vec::new());
        let (mut ends, mut superframes) = (Vec::new(), Vec::new());
        for packet in packets {
            let packet = Packet { udp: false, tags: Vec::new(), ..packet };
            let frame = packet.frame();
            tso::cut_into(&frame, &request, &mut headers, &mut cuts, |_| ()).expect("good");
            ends.push(cuts.len());
            superframes.push(frame);
        }
        let mut from = 0;
        for (frame, end) in superframes.iter().zip(ends) {
            let of = |cut: &Cut| [cut.header(&headers), cut.payload(frame)].concat();
            let frames: Vec<_> = cuts[from..end].iter().map(of).collect();
            prop_assert_eq!(frames, tcp(frame, &request));
            from = end;
        }
    }
}

#[test]
fn fetches_payload_once_and_in_order() {
    let request = Request::new(1000);
    for packet in [Packet::tcp4(bytes(4100)), Packet::udp4(bytes(4100))] {
        let (frame, asked) = (packet.frame(), RefCell::new(Vec::new()));
        let fetch = |bytes: &[u8]| asked.borrow_mut().extend_from_slice(bytes);
        let (mut headers, mut cuts) = (Vec::new(), Vec::new());
        match tso::cut_into(&frame, &request, &mut headers, &mut cuts, fetch) {
            Ok(()) => {}
            Err(_) => uso::cut_into(&frame, &request, &mut headers, &mut cuts, fetch)
                .expect("a good superframe"),
        }
        assert_eq!((cuts.len(), asked.into_inner()), (5, packet.payload));
    }
}
