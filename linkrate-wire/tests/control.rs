//! Control formats: golden messages, refusals by name, and any bytes.

mod common;

use std::net::Ipv4Addr;

use common::{Packet, bytes};
use linkrate_wire::control::arp::{self, Arp, Operation, Purpose, Station};
use linkrate_wire::control::slow::{self, Slow, Subtype};
use linkrate_wire::control::{Control, frame};
use linkrate_wire::encapsulation::{Encapsulation, encapsulate};
use linkrate_wire::frame::{Cast, FrameError, Headers, MacAddress};
use proptest::prelude::*;

const OWN: Station =
    Station { hardware: MacAddress([2, 0, 0, 0, 0, 1]), ip: Ipv4Addr::new(10, 0, 0, 1) };
const OTHER: Station =
    Station { hardware: MacAddress([2, 0, 0, 0, 0, 2]), ip: Ipv4Addr::new(10, 0, 0, 2) };

#[rustfmt::skip]
const REQUEST: [u8; 28] = [
    0, 1, 8, 0, 6, 4, 0, 1,
    2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
    0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
];

#[rustfmt::skip]
const REPLY: [u8; 28] = [
    0, 1, 8, 0, 6, 4, 0, 2,
    2, 0, 0, 0, 0, 2, 10, 0, 0, 2,
    2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
];

fn control(frame: &[u8]) -> Result<Option<Control<'_>>, FrameError> {
    Control::of(frame, &Headers::parse(frame).expect("a frame"))
}

#[test]
fn a_question_and_its_answer_byte_by_byte() {
    let request = Arp::request(OWN, OTHER.ip);
    assert_eq!((request.emit(), request.purpose()), (REQUEST, Purpose::Request));
    let reply = request.answer(OTHER.hardware).expect("a question");
    assert_eq!((reply.emit(), reply.purpose()), (REPLY, Purpose::Reply));
    assert_eq!(reply, Arp { operation: Operation::Reply, sender: OTHER, target: OWN });
    assert_eq!((Arp::parse(&REQUEST), Arp::parse(&REPLY)), (Ok(request), Ok(reply)));
    assert_eq!(reply.answer(OWN.hardware), None);
}

/// RFC 5227, 2.3: a request whose sender and target have the same IP address.
#[test]
fn an_arp_announcement_needs_no_reply() {
    let announcement = Arp::announcement(OWN);
    let mut expected = REQUEST;
    expected[27] = 1;
    assert_eq!(announcement.emit(), expected);
    assert_eq!(announcement.purpose(), Purpose::Announcement);
    assert_eq!(announcement.answer(OTHER.hardware), None);
    let as_reply = Arp { operation: Operation::Reply, target: OWN, ..announcement };
    assert_eq!(as_reply.purpose(), Purpose::Announcement);
}

#[test]
fn a_probe_is_answered_by_the_station_that_uses_the_address() {
    let nobody = Station { ip: Ipv4Addr::UNSPECIFIED, ..OWN };
    let probe = Arp::request(nobody, OTHER.ip);
    assert_eq!(probe.purpose(), Purpose::Probe);
    let answer = probe.answer(OTHER.hardware).expect("a conflict");
    assert_eq!((answer.sender, answer.target), (OTHER, nobody));
    assert_eq!(Arp::request(nobody, Ipv4Addr::UNSPECIFIED).purpose(), Purpose::Probe);
}

#[test]
fn arp_that_is_not_ipv4_over_ethernet_is_refused_by_name() {
    let refusal = |at: usize, value: u8| {
        let mut message = REQUEST;
        message[at] = value;
        Arp::parse(&message).expect_err("refused").to_string()
    };
    assert_eq!(refusal(1, 6), "ARP hardware type at byte 0 is 6, expected 1");
    assert_eq!(refusal(2, 0x86), "ARP protocol type at byte 2 is 34304, expected 2048");
    assert_eq!(refusal(4, 8), "ARP hardware address length at byte 4 is 8, expected 6");
    assert_eq!(refusal(5, 16), "ARP protocol address length at byte 5 is 16, expected 4");
    assert_eq!(refusal(7, 0), "ARP operation at byte 6 is 0, expected 1 to 2");
    assert_eq!(refusal(7, 3), "ARP operation at byte 6 is 3, expected 1 to 2");
    for length in 0..28 {
        let error = Arp::parse(&REQUEST[..length]).expect_err("cut off");
        assert!(error.at <= length && error.lowest > error.found, "{error}");
    }
    let error = Arp::parse(&REQUEST[..27]).expect_err("cut off").to_string();
    assert_eq!(error, "bytes of ARP message at byte 24 is 3, expected at least 4");
}

#[test]
fn slow_protocols_by_their_subtype() {
    for (octet, subtype) in [
        (1, Subtype::Lacp),
        (2, Subtype::Marker),
        (3, Subtype::Oam),
        (4, Subtype::Reserved(4)),
        (9, Subtype::Reserved(9)),
        (10, Subtype::Organization),
    ] {
        let message = [octet, 1, 2, 3];
        let slow = Slow::parse(&message).expect("a slow protocol");
        assert_eq!((slow.subtype, slow.data), (subtype, &[1, 2, 3][..]));
        assert_eq!((slow.emit(), slow.subtype.octet()), (message.to_vec(), octet));
    }
    for octet in [0, 11, 255] {
        let error = Slow::parse(&[octet, 1]).expect_err("refused").to_string();
        assert_eq!(error, format!("slow protocol subtype at byte 0 is {octet}, expected 1 to 10"));
    }
    let error = Slow::parse(&[]).expect_err("refused").to_string();
    assert_eq!(error, "bytes of slow protocol message at byte 0 is 0, expected at least 1");
    assert_eq!(slow::GROUP.cast(), Cast::Multicast);
}

#[test]
fn frames_carry_control_messages() {
    let request = Arp::request(OWN, OTHER.ip);
    let arp = frame(MacAddress::BROADCAST, OWN.hardware, arp::ETHER_TYPE, &request.emit());
    assert_eq!(arp[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6]);
    assert_eq!(control(&arp), Ok(Some(Control::Arp(request))));
    // padded to the shortest frame, tagged, and behind LLC/SNAP
    let mut padded = arp.clone();
    padded.resize(60, 0);
    assert_eq!(control(&padded), Ok(Some(Control::Arp(request))));
    let wanted = Encapsulation { vlan: Some(7), snap: true };
    let headers = Headers::parse(&arp).expect("a frame");
    let link = encapsulate(&arp, &headers, wanted).expect("no tag yet");
    let snap = [&link, &arp[14..]].concat();
    assert_eq!(control(&snap), Ok(Some(Control::Arp(request))));
    // places count from the first byte of the frame
    let error = control(&arp[..40]).expect_err("cut off").to_string();
    assert_eq!(error, "bytes of ARP message at byte 38 is 2, expected at least 4");

    let lacp = frame(slow::GROUP, OWN.hardware, slow::ETHER_TYPE, &[1, 1, 1, 20]);
    let Ok(Some(Control::Slow(slow))) = control(&lacp) else { panic!("a slow protocol") };
    assert_eq!((slow.subtype, slow.data), (Subtype::Lacp, &[1, 1, 20][..]));
    let tagged = [&lacp[..12], &[0x81, 0, 0, 7], &lacp[12..]].concat();
    assert_eq!(control(&tagged), Ok(None));

    assert_eq!(control(&Packet::tcp4(bytes(9)).frame()), Ok(None));
}

fn stations() -> impl Strategy<Value = Station> {
    any::<([u8; 6], [u8; 4])>()
        .prop_map(|(hardware, ip)| Station { hardware: MacAddress(hardware), ip: ip.into() })
}

proptest! {
    #[test]
    fn messages_read_back(sender in stations(), target in stations(), reply: bool) {
        let operation = if reply { Operation::Reply } else { Operation::Request };
        let arp = Arp { operation, sender, target };
        prop_assert_eq!(Arp::parse(&arp.emit()), Ok(arp));
        if let Some(answer) = arp.answer(OWN.hardware) {
            prop_assert_eq!((answer.sender.ip, answer.target), (target.ip, sender));
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(
        message in prop::collection::vec(any::<u8>(), 0..60), good in 0usize..8,
    ) {
        // a good beginning, or few would come to the fields after it
        let mut message = message;
        let length = good.min(message.len());
        message[..length].copy_from_slice(&REQUEST[..length]);
        if let Ok(arp) = Arp::parse(&message) {
            prop_assert_eq!(&arp.emit()[..], &message[..28]);
        }
        if let Ok(slow) = Slow::parse(&message) {
            prop_assert_eq!(slow.emit(), message);
        }
    }

    #[test]
    fn headers_of_another_frame_do_no_harm(
        message in prop::collection::vec(any::<u8>(), 0..60), length in 0usize..80,
    ) {
        for kind in [arp::ETHER_TYPE, slow::ETHER_TYPE] {
            let whole = frame(slow::GROUP, OWN.hardware, kind, &message);
            let headers = Headers::parse(&whole).expect("a frame");
            let _ = Control::of(&whole[..length.min(whole.len())], &headers);
        }
    }
}
