//! What is put around single frames and taken off again.

use crate::common::{Packet, bytes, strategy};
use linkrate_wire::encapsulation::{
    Encapsulation, EncapsulationError, Tag, decapsulate, encapsulate,
};
use linkrate_wire::frame::Headers;
use proptest::prelude::*;

fn parsed(frame: &[u8]) -> Headers {
    Headers::parse(frame).expect("a good frame")
}

fn put_on(frame: &[u8], wanted: Encapsulation) -> Result<Vec<u8>, EncapsulationError> {
    let headers = parsed(frame);
    let link = encapsulate(frame, &headers, wanted)?;
    Ok([&link, &frame[headers.link.length..headers.end]].concat())
}

fn taken_off(frame: &[u8], tag: Tag) -> (Vec<u8>, Option<u16>) {
    let headers = parsed(frame);
    let decapsulated = decapsulate(frame, &headers, tag).expect("its own headers");
    let rest = &frame[headers.link.length..headers.end];
    ([&decapsulated.link, rest].concat(), decapsulated.vlan)
}

const SNAP: Encapsulation = Encapsulation { vlan: None, snap: true };

#[test]
fn an_arp_request_byte_by_byte() {
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 1, 0x08, 0x06]);
    arp.extend([
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ]);
    let wanted = Encapsulation { vlan: Some(0x2003), snap: true };
    let frame = put_on(&arp, wanted).expect("room");
    assert_eq!(frame[12..16], [0x81, 0x00, 0x20, 0x03]);
    assert_eq!(frame[16..18], [0, 36]);
    assert_eq!(frame[18..26], [0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x06]);
    assert_eq!(frame[26..], arp[14..]);
    assert_eq!(taken_off(&frame, Tag::Strip), (arp.clone(), Some(0x2003)));
    let (kept, vlan) = taken_off(&frame, Tag::Keep);
    assert_eq!((kept.len(), &kept[12..18], vlan), (46, &[0x81, 0, 0x20, 3, 8, 6][..], None));
}

#[test]
fn adds_snap_up_to_the_largest_length() {
    let largest = Packet::tcp4(bytes(1452));
    let expected = Packet { snap: true, ..largest.clone() }.frame();
    assert_eq!(put_on(&largest.frame(), SNAP).expect("no tag"), expected);
    let jumbo = Packet::tcp4(bytes(1453)).frame();
    assert_eq!(put_on(&jumbo, SNAP).expect("no tag"), jumbo);
    // padding is not part of the length
    let padded = Packet { padding: 5, ..Packet::tcp4(vec![1]) };
    let expected = Packet { snap: true, ..Packet::tcp4(vec![1]) }.frame();
    assert_eq!(put_on(&padded.frame(), SNAP).expect("no tag"), expected);
}

/// Found by fuzzing: the length counted padding that was left behind.
#[test]
fn reads_the_length_of_a_snap_frame_without_padding() {
    let packet = Packet { snap: true, ..Packet::tcp4(vec![1]) };
    let mut padded = Packet { padding: 30, ..packet.clone() }.frame();
    padded[13] += 30;
    assert_eq!(parsed(&padded).end, padded.len() - 30);
    for wanted in [SNAP, Encapsulation::default()] {
        assert_eq!(put_on(&padded, wanted).expect("no tag"), packet.frame());
    }
}

#[test]
fn link_protocols_keep_their_type() {
    let mut lacp = vec![1, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0x09];
    lacp.resize(60, 1);
    assert_eq!(put_on(&lacp, SNAP).expect("no tag"), lacp);
    let mut spanning_tree = vec![1; 12];
    spanning_tree.extend([0, 3, 0x42, 0x42, 3]);
    assert_eq!(put_on(&spanning_tree, SNAP).expect("no tag"), spanning_tree);
    assert_eq!(taken_off(&spanning_tree, Tag::Strip), (spanning_tree, None));
}

#[test]
fn keeps_snap_where_ethernet_ii_would_be_ambiguous() {
    for kind in [0x0003u16, 0x05ff, 0x8100, 0x88a8] {
        let mut frame = vec![1; 12];
        frame.extend([0, 12, 0xaa, 0xaa, 3, 0, 0, 0]);
        frame.extend(kind.to_be_bytes());
        frame.extend([0, 5, 8, 0]);
        assert_eq!(taken_off(&frame, Tag::Strip), (frame, None));
    }
}

#[test]
fn a_service_tag_is_not_taken_for_a_vlan() {
    let packet = Packet { tags: vec![(0x88a8, 7), (0x8100, 8)], ..Packet::tcp4(bytes(9)) };
    assert_eq!(taken_off(&packet.frame(), Tag::Strip), (packet.frame(), None));
    let wanted = Encapsulation { vlan: Some(1), snap: false };
    assert_eq!(put_on(&packet.frame(), wanted), Err(EncapsulationError::Tags));
}

#[test]
fn headers_of_another_frame_are_refused() {
    let packet = Packet { snap: true, ..Packet::tcp4(bytes(9)) };
    let headers = parsed(&packet.frame());
    let error = encapsulate(&[0; 20], &headers, SNAP).expect_err("refused");
    assert_eq!(error.to_string(), "frame begins with 20 bytes, expected the 22 of its link header");
    assert!(decapsulate(&[0; 20], &headers, Tag::Keep).is_err());
}

proptest! {
    #[test]
    fn what_is_put_on_comes_off(packet in strategy::packet(1600), vlan: Option<u16>, snap: bool) {
        let packet = Packet { snap: false, ..packet };
        prop_assume!(packet.tags.len() < 2);
        let frame = packet.frame();
        let encapsulated = put_on(&frame, Encapsulation { vlan, snap }).expect("room for a tag");
        let mut tags = packet.tags.clone();
        tags.splice(0..0, vlan.map(|tci| (0x8100, tci)));
        let fits = frame.len() - 14 - 4 * packet.tags.len() + 8 <= 1500;
        let expected = Packet { tags, snap: snap && fits, ..packet.clone() };
        prop_assert_eq!(&encapsulated, &expected.frame());

        let tag = if vlan.is_some() { Tag::Strip } else { Tag::Keep };
        prop_assert_eq!(taken_off(&encapsulated, tag), (frame, vlan));
    }
}
