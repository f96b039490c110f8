//! PDUs of link aggregation: golden bytes, refusals by name, any bytes, and tshark.

use crate::judge::tshark;
use linkrate_wire::control::lacp::{self, Information, Lacpdu, PortId, State, SystemId};
use linkrate_wire::control::marker::{self, Kind, Marker, Requester};
use linkrate_wire::control::{Control, Slow};
use linkrate_wire::frame::{FrameError, Headers, MacAddress};
use linkrate_wire::pcapng::{
    Direction, Interface, Packet, interface_description, packet, section_header,
};
use proptest::prelude::*;

const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

const PDU: Lacpdu = Lacpdu {
    version: 1,
    actor: Information {
        system: SystemId { priority: 0x8001, address: MacAddress([2, 0, 0, 0, 0, 1]) },
        key: 0x0102,
        port: PortId { priority: 0x8003, number: 0x0405 },
        state: State::of(0x3d),
    },
    partner: Information {
        system: SystemId { priority: 0x7fff, address: MacAddress([2, 0, 0, 0, 0, 9]) },
        key: 0x1112,
        port: PortId { priority: 0x1314, number: 0x1516 },
        state: State::of(0xc2),
    },
    collector_max_delay: 0x1718,
};

#[rustfmt::skip]
const BYTES: [u8; 58] = [
    1, 1,
    1, 20, 0x80, 0x01, 2, 0, 0, 0, 0, 1, 0x01, 0x02, 0x80, 0x03, 0x04, 0x05, 0x3d, 0, 0, 0,
    2, 20, 0x7f, 0xff, 2, 0, 0, 0, 0, 9, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0xc2, 0, 0, 0,
    3, 16, 0x17, 0x18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

const MARKER: Marker = Marker {
    kind: Kind::Information,
    requester: Requester { port: 0x0102, system: STATION, transaction: 0x0304_0506 },
};

const MARKER_BYTES: [u8; 18] = [2, 1, 1, 16, 1, 2, 2, 0, 0, 0, 0, 1, 3, 4, 5, 6, 0, 0];

fn data(frame: &[u8]) -> &[u8] {
    let headers = Headers::parse(frame).expect("a frame");
    match Control::of(frame, &headers) {
        Ok(Some(Control::Slow(slow))) => slow.data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pdus_byte_by_byte() {
    let bytes = PDU.emit();
    assert_eq!((bytes.len(), &bytes[..58]), (lacp::LENGTH, &BYTES[..]));
    assert!(bytes[58..].iter().all(|byte| *byte == 0), "terminator and reserved");
    let bytes = MARKER.emit();
    assert_eq!((bytes.len(), &bytes[..18]), (marker::LENGTH, &MARKER_BYTES[..]));
    assert!(bytes[18..].iter().all(|byte| *byte == 0), "terminator and reserved");
    let answer = MARKER.answer().expect("a question");
    assert_eq!(answer.emit()[..5], [2, 1, 2, 16, 1]);
    assert_eq!(answer.answer(), None);

    let frame = PDU.frame(STATION);
    assert_eq!(frame[..16], [1, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0x09, 1, 1]);
    assert_eq!(frame.len(), 124);
    assert_eq!(Lacpdu::parse(data(&frame)), Ok(PDU));
    assert_eq!(Marker::parse(data(&answer.frame(STATION))), Ok(answer));
}

#[test]
fn each_bit_of_the_state() {
    for (place, name) in [
        "LACP_Activity",
        "LACP_Timeout",
        "Aggregation",
        "Synchronization",
        "Collecting",
        "Distributing",
        "Defaulted",
        "Expired",
    ]
    .into_iter()
    .enumerate()
    {
        let state = State::of(1 << place);
        assert_eq!((state.octet(), state.to_string()), (1 << place, name.to_owned()));
    }
    for octet in 0..=255 {
        assert_eq!(State::of(octet).octet(), octet);
    }
    assert_eq!(State::default().to_string(), "-");
    assert_eq!(PDU.actor.system.to_string(), "32769,02:00:00:00:00:01");
}

/// The lower value is the better one: first the priority, then the address or number.
#[test]
fn identifiers_in_their_order() {
    let id = |priority, last| SystemId { priority, address: MacAddress([0, 0, 0, 0, 0, last]) };
    assert!(id(1, 9) < id(2, 1) && id(1, 1) < id(1, 9));
    let port = |priority, number| PortId { priority, number };
    assert!(port(1, 9) < port(2, 1) && port(1, 1) < port(1, 9));
}

/// Versions, types of TLVs and reserved fields are not validated, lengths are.
#[test]
fn what_is_validated() {
    let good = PDU.emit();
    // places count from the version: version, types, reserved bytes, terminator
    for at in [0, 1, 18, 20, 21, 38, 40, 41, 45, 56, 57, 58, 100, 108] {
        let mut message = good[1..].to_vec();
        message[at] ^= 0xff;
        let read = Lacpdu::parse(&message).expect("not validated");
        assert_eq!(read, Lacpdu { version: message[0], ..PDU }, "byte {at}");
    }
    // fields
    for at in [3, 17, 23, 37, 43, 44] {
        let mut message = good[1..].to_vec();
        message[at] ^= 0xff;
        assert_ne!(Lacpdu::parse(&message), Ok(PDU), "byte {at}");
    }
    let refusal = |at: usize, value: u8| {
        let mut message = good[1..].to_vec();
        message[at] = value;
        Lacpdu::parse(&message).expect_err("refused").to_string()
    };
    assert_eq!(refusal(2, 19), "LACPDU actor information length at byte 2 is 19, expected 20");
    assert_eq!(refusal(22, 0), "LACPDU partner information length at byte 22 is 0, expected 20");
    assert_eq!(
        refusal(42, 20),
        "LACPDU collector information length at byte 42 is 20, expected 16"
    );
    // what follows the collector's TLV is not needed
    assert_eq!(Lacpdu::parse(&good[1..58]), Ok(PDU));
    let error = Lacpdu::parse(&good[1..57]).expect_err("cut off").to_string();
    assert_eq!(error, "bytes of LACPDU at byte 45 is 11, expected at least 12");

    let good = MARKER.emit();
    let refusal = |at: usize, value: u8| {
        let mut message = good[1..].to_vec();
        message[at] = value;
        Marker::parse(&message).expect_err("refused").to_string()
    };
    assert_eq!(refusal(1, 0), "Marker TLV type at byte 1 is 0, expected 1 to 2");
    assert_eq!(refusal(1, 3), "Marker TLV type at byte 1 is 3, expected 1 to 2");
    assert_eq!(refusal(2, 14), "Marker information length at byte 2 is 14, expected 16");
    let error = Marker::parse(&good[1..17]).expect_err("cut off").to_string();
    assert_eq!(error, "bytes of Marker PDU at byte 15 is 1, expected at least 2");
}

/// All values, and PDUs with random fields.
fn information() -> impl Strategy<Value = Information> {
    any::<(u16, [u8; 6], u16, u16, u16, u8)>().prop_map(
        |(priority, address, key, port_priority, number, state)| Information {
            system: SystemId { priority, address: MacAddress(address) },
            key,
            port: PortId { priority: port_priority, number },
            state: State::of(state),
        },
    )
}

proptest! {
    #[test]
    fn pdus_read_back(
        version: u8, actor in information(), partner in information(), collector_max_delay: u16,
        port: u16, system: [u8; 6], transaction: u32, response: bool,
    ) {
        let pdu = Lacpdu { version, actor, partner, collector_max_delay };
        prop_assert_eq!(Lacpdu::parse(data(&pdu.frame(STATION))), Ok(pdu));
        let kind = if response { Kind::Response } else { Kind::Information };
        let requester = Requester { port, system: MacAddress(system), transaction };
        let pdu = Marker { kind, requester };
        prop_assert_eq!(Marker::parse(data(&pdu.frame(STATION))), Ok(pdu));
    }

    #[test]
    fn any_bytes_are_a_pdu_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..120), good in 0usize..58,
    ) {
        let mut message = bytes;
        let length = good.min(message.len());
        message[..length].copy_from_slice(&BYTES[..length]);
        let named = |error: FrameError| {
            assert!(error.at <= message.len() && error.found != error.lowest, "{error}");
        };
        if let Ok(slow) = Slow::parse(&message) {
            Lacpdu::parse(slow.data).map_or_else(named, |pdu| {
                assert_eq!(Lacpdu::parse(&pdu.emit()[1..]), Ok(pdu));
            });
            Marker::parse(slow.data).map_or_else(named, |pdu| {
                assert_eq!(Marker::parse(&pdu.emit()[1..]), Ok(pdu));
            });
        }
    }
}

#[test]
fn tshark_decodes_each_pdu_without_complaint() {
    let answer = MARKER.answer().expect("a question");
    let frames = [PDU.frame(STATION), MARKER.frame(STATION), answer.frame(STATION)];
    let mut file = Vec::new();
    section_header("linkrate", &mut file);
    let interface = Interface { name: "sut0", link_type: 1, speed: None, snap_length: 0 };
    interface_description(&interface, &mut file);
    for frame in &frames {
        let (parts, direction) = ([&frame[..], &[]], Direction::Outbound);
        let plain = Packet {
            interface: 0,
            time_ns: 0,
            parts: &parts,
            snap_length: 0,
            direction,
            comment: None,
        };
        packet(&plain, &mut file);
    }
    let mut arguments = vec!["-T", "fields", "-E", "separator= "];
    for field in [
        "lacp.version",
        "lacp.actor.sys_priority",
        "lacp.actor.sysid",
        "lacp.actor.key",
        "lacp.actor.port_priority",
        "lacp.actor.port",
        "lacp.actor.state",
        "lacp.partner.sys_priority",
        "lacp.partner.sysid",
        "lacp.partner.key",
        "lacp.partner.port_priority",
        "lacp.partner.port",
        "lacp.partner.state",
        "lacp.collector.max_delay",
        "marker.tlvType",
        "marker.requesterPort",
        "marker.requesterSystem",
        "marker.requesterTransId",
        // complaints
        "_ws.expert.message",
        "_ws.malformed",
    ] {
        arguments.extend(["-e", field]);
    }
    let Some(decoded) = tshark(&arguments, &file) else { return };
    let lines: Vec<Vec<&str>> =
        decoded.lines().map(|line| line.split_whitespace().collect()).collect();
    let (a, b) = ("02:00:00:00:00:01", "02:00:00:00:00:09");
    assert_eq!(
        lines,
        [
            vec![
                "0x01", "32769", a, "258", "32771", "1029", "0x3d", "32767", b, "4370", "4884",
                "5398", "0xc2", "5912",
            ],
            vec!["0x01,0x00", "258", a, "50595078"],
            vec!["0x02,0x00", "258", a, "50595078"],
        ]
    );
}
