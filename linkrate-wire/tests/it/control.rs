//! Control formats: golden messages, refusals by name, and any bytes.

use std::net::Ipv4Addr;

use crate::common::{Packet, bytes};
use linkrate_wire::balance::PortIndex;
use linkrate_wire::control::arp::{self, Arp, Operation, Purpose, Station};
use linkrate_wire::control::bfd::{self, Bfd, Diagnostic, State};
use linkrate_wire::control::lan_monitor::{self, Poll};
use linkrate_wire::control::nd::Advertisement;
use linkrate_wire::control::slow::{self, Slow, Subtype};
use linkrate_wire::control::{Control, frame};
use linkrate_wire::encapsulation::{Encapsulation, encapsulate};
use linkrate_wire::frame::{Cast, FrameError, Headers, IpEnds, MacAddress, Verification};
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

pub const BFD: Bfd = Bfd {
    diagnostic: Diagnostic::DetectionTimeExpired,
    state: State::Init,
    poll: true,
    is_final: false,
    control_plane_independent: false,
    demand: false,
    detect_multiplier: 3,
    own: 0x0102_0304,
    other: 0x0506_0708,
    desired_min_tx_us: 1_000_000,
    required_min_rx_us: 50_000,
    required_min_echo_rx_us: 0,
};

#[rustfmt::skip]
const BFD_BYTES: [u8; 24] = [
    0x21, 0xa0, 3, 24,
    1, 2, 3, 4, 5, 6, 7, 8,
    0x00, 0x0f, 0x42, 0x40, 0x00, 0x00, 0xc3, 0x50, 0, 0, 0, 0,
];

#[test]
fn a_bfd_packet_byte_by_byte() {
    assert_eq!(BFD.emit(), BFD_BYTES);
    assert_eq!(Bfd::parse(&BFD_BYTES), Ok(BFD));
    let all = Bfd {
        diagnostic: Diagnostic::Reserved(31),
        state: State::Up,
        poll: false,
        is_final: true,
        control_plane_independent: true,
        demand: true,
        ..BFD
    };
    assert_eq!(all.emit()[..2], [0x3f, 0xda]);
    assert_eq!(Bfd::parse(&all.emit()), Ok(all));
}

/// What RFC 5880 (6.8.6) discards.
#[test]
fn a_wrong_bfd_packet_is_refused_by_name() {
    let refusal = |changes: &[(usize, u8)]| {
        let mut message = BFD_BYTES;
        changes.iter().for_each(|(at, value)| message[*at] = *value);
        Bfd::parse(&message).expect_err("refused").to_string()
    };
    assert_eq!(refusal(&[(0, 0x41)]), "BFD version at byte 0 is 2, expected 1");
    assert_eq!(refusal(&[(1, 0xa4)]), "BFD authentication flag at byte 1 is 4, expected 0");
    assert_eq!(refusal(&[(1, 0xa1)]), "BFD multipoint flag at byte 1 is 1, expected 0");
    assert_eq!(refusal(&[(2, 0)]), "BFD detect multiplier at byte 2 is 0, expected 1 to 255");
    assert_eq!(refusal(&[(3, 23)]), "BFD length at byte 3 is 23, expected 24");
    assert_eq!(refusal(&[(3, 25)]), "BFD length at byte 3 is 25, expected 24");
    let own = [4, 5, 6, 7].map(|at| (at, 0));
    assert_eq!(refusal(&own), "BFD my discriminator at byte 4 is 0, expected at least 1");
    let other = [8, 9, 10, 11].map(|at| (at, 0));
    assert_eq!(refusal(&other), "BFD your discriminator at byte 8 is 0, expected at least 1");
    for state in [State::Down, State::AdminDown] {
        let unknown = Bfd { state, other: 0, ..BFD };
        assert_eq!(Bfd::parse(&unknown.emit()), Ok(unknown));
    }
    for length in 0..24 {
        let error = Bfd::parse(&BFD_BYTES[..length]).expect_err("cut off");
        assert!(error.at <= length && error.lowest > error.found, "{error}");
    }
}

fn ends() -> [IpEnds; 2] {
    [("10.0.0.1", "10.0.0.2"), ("fe80::1", "fe80::2")].map(|(source, destination)| {
        let address = |text: &str| text.parse().expect("an address");
        IpEnds::new(address(source), address(destination)).expect("one version of IP")
    })
}

/// RFC 7130, 2.2 and 2.3; RFC 5881, 4 and 5.
#[test]
fn a_micro_bfd_frame_has_its_address_port_and_ttl() {
    for (ip, hops_at) in ends().into_iter().zip([14 + 8, 14 + 7]) {
        let frame = BFD.frame(OWN.hardware, ip, bfd::LOWEST_SOURCE_PORT);
        assert_eq!(frame[..6], [0x01, 0x00, 0x5e, 0x90, 0x00, 0x01]);
        assert_eq!(frame[6..12], OWN.hardware.0);
        let headers = Headers::parse(&frame).expect("a frame");
        assert_eq!(headers.ports(&frame), Some((49_152, 6784)));
        assert!(headers.network_checksum_verifies(&frame));
        assert_eq!(headers.transport_checksum_parts(&frame, &[]), Verification::Right);
        assert_eq!(control(&frame), Ok(Some(Control::Bfd(BFD))));
        // one that a router passed on, and one to another port
        let mut routed = frame.clone();
        routed[hops_at] = 254;
        let error = control(&routed).expect_err("refused").to_string();
        assert_eq!(error, format!("TTL of a BFD packet at byte {hops_at} is 254, expected 255"));
        let mut other = frame.clone();
        other[headers.payload - 5] = 0;
        assert_eq!(control(&other), Ok(None));
    }
    // TCP to the same port
    let tcp = Packet { ports: (49_152, 6784), ..Packet::tcp4(BFD_BYTES.to_vec()) };
    assert_eq!(control(&tcp.frame()), Ok(None));
    let udp = Packet { ports: (49_152, 6784), ttl: 255, ..Packet::udp4(BFD_BYTES.to_vec()) };
    assert_eq!(control(&udp.frame()), Ok(Some(Control::Bfd(BFD))));
}

const POLL: Poll =
    Poll { system: OWN.hardware, group: 0x0102_0304, port: PortIndex(5), sequence: 0x0a0b_0c0d };

#[rustfmt::skip]
const POLL_BYTES: [u8; 22] = [
    b'l', b'k', b'r', b't', 1, 0, 0, 5, 1, 2, 3, 4, 10, 11, 12, 13, 2, 0, 0, 0, 0, 1,
];

#[test]
fn a_lan_monitor_poll_byte_by_byte() {
    assert_eq!(POLL.emit(), POLL_BYTES);
    assert_eq!(Poll::parse(&POLL_BYTES), Ok(Some(POLL)));
    let mut frame = POLL.frame(OTHER.hardware);
    assert_eq!(frame[..14], [3, 0x6c, 0x6b, 0x72, 0x74, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    assert_eq!(lan_monitor::GROUP.cast(), Cast::Multicast);
    frame.resize(60, 0);
    assert_eq!(control(&frame), Ok(Some(Control::Poll(POLL))));
    // another experiment under the same EtherType
    frame[14] = b'L';
    assert_eq!(control(&frame), Ok(None));
    let refusal = |at: usize, value: u8| {
        let mut message = POLL_BYTES;
        message[at] = value;
        Poll::parse(&message).expect_err("refused").to_string()
    };
    assert_eq!(refusal(4, 2), "LAN monitor version at byte 4 is 2, expected 1");
    assert_eq!(refusal(6, 1), "LAN monitor port at byte 6 is 261, expected 0 to 255");
    for length in 4..22 {
        let error = Poll::parse(&POLL_BYTES[..length]).expect_err("cut off");
        assert!(error.at <= length && error.lowest > error.found, "{error}");
    }
}

/// RFC 4861, 4.4 and 7.2.6.
#[test]
fn an_unsolicited_advertisement_byte_by_byte() {
    let target = "fd00::1".parse().expect("an address");
    let message = Advertisement::unsolicited(target, OWN.hardware);
    let frame = message.frame();
    #[rustfmt::skip]
    assert_eq!(frame[..54], [
        0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
        0x60, 0, 0, 0, 0, 32, 58, 255,
        0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    ]);
    let (head, rest) = frame[54..].split_at(8);
    assert_eq!((head[..2].to_vec(), head[4..].to_vec()), (vec![136, 0], vec![0x20, 0, 0, 0]));
    assert_eq!(rest[16..], [2, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(Advertisement::parse(&frame[54..]), Ok(message));
    let headers = Headers::parse(&frame).expect("a frame");
    let sum = headers.pseudo_header(&frame, 58, 32).expect("IPv6");
    assert!(sum.and(&frame[54..]).verifies());
    let flags = Advertisement { router: true, solicited: true, replaces: false, ..message };
    assert_eq!(Advertisement::parse(&flags.emit()), Ok(flags));
    for (at, field) in [(0, "ICMPv6 type"), (1, "ICMPv6 code"), (24, "neighbour discovery option")]
    {
        let mut message = message.emit();
        message[at] = 9;
        let error = Advertisement::parse(&message).expect_err("refused");
        assert_eq!((error.field, error.at), (field, at));
    }
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
    fn any_bytes_are_a_bfd_packet_or_an_error(
        message in prop::collection::vec(any::<u8>(), 0..40), good in 0usize..20,
    ) {
        let mut message = message;
        let length = good.min(message.len());
        message[..length].copy_from_slice(&BFD_BYTES[..length]);
        if let Ok(packet) = Bfd::parse(&message) {
            prop_assert_eq!(Bfd::parse(&packet.emit()), Ok(packet));
        }
    }

    #[test]
    fn headers_of_another_frame_do_no_harm(
        message in prop::collection::vec(any::<u8>(), 0..60), length in 0usize..80,
    ) {
        for kind in [arp::ETHER_TYPE, slow::ETHER_TYPE, lan_monitor::ETHER_TYPE] {
            let whole = frame(slow::GROUP, OWN.hardware, kind, &message);
            let headers = Headers::parse(&whole).expect("a frame");
            let _ = Control::of(&whole[..length.min(whole.len())], &headers);
        }
    }
}
