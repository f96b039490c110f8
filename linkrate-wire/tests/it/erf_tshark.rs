//! Captures of ATM as tshark decodes them: cells, Classical IP and LAN Emulation.

use std::net::Ipv4Addr;

use crate::common::{Packet as Frame, bytes};
use crate::elan;
use crate::elan::{MS, SECOND, Wire, World, atm, mac};
use crate::judge::tshark;
use linkrate_wire::atm::{AtmAddress, Connection, Segmenter};
use linkrate_wire::control::arp::{self, Arp};
use linkrate_wire::control::atmarp::{Operation as Question, Station};
use linkrate_wire::control::lan_emulation::{
    Destination, Flags, FrameSize, LanType, LaneControl, Name, Operation, Status,
};
use linkrate_wire::control::{AtmArp, Data};
use linkrate_wire::erf::{self, Origin};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::call::{Call, PartyAction, Purpose};
use linkrate_wire::machine::lane::{ClientConfig, ClientEvent, State};
use linkrate_wire::pcapng::{
    Direction, Interface, Packet, interface_description, packet, section_header,
};

const CONNECTION: Connection = Connection { vpi: 3, vci: 77 };
const ORIGIN: Origin = Origin { time_ns: 1_700_000_000_250_000_000, interface: 0, lost: 0 };

/// The header of LLC and SNAP for an EtherType.
fn llc(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    [&[0xaa, 0xaa, 3, 0, 0, 0][..], &ether_type.to_be_bytes(), packet].concat()
}

fn unit(octets: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    erf::unit(ORIGIN, CONNECTION, 0, &[octets], &mut record);
    record
}

fn capture(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    section_header("linkrate", &mut file);
    let link_type = linkrate_wire::link::LINK_TYPE_ERF;
    let interface = Interface { name: "atm0", link_type, speed: None, snap_length: 0 };
    interface_description(&interface, &mut file);
    for record in records {
        let (parts, direction) = ([&record[..]], Direction::Outbound);
        let (interface, time_ns, snap_length, comment) = (0, 0, 0, None);
        let plain = Packet { interface, time_ns, parts: &parts, snap_length, direction, comment };
        packet(&plain, &mut file);
    }
    file
}

/// The wanted fields of each record, of which tshark must not complain.
#[track_caller]
fn decoded(records: &[Vec<u8>], wanted: &[&str]) -> Option<Vec<String>> {
    let mut arguments = vec!["-T", "fields"];
    for option in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
        arguments.extend(["-o", option]);
    }
    let complaints = ["_ws.expert.message", "_ws.malformed", "atm.reassembly_failed"];
    for field in complaints.iter().chain(wanted) {
        arguments.extend(["-e", field]);
    }
    let text = tshark(&arguments, &capture(records))?;
    let clean = |line: &str| {
        let fields = line.strip_prefix("\t\t\t").unwrap_or_else(|| panic!("a complaint: {line}"));
        fields.replace("True", "1").replace("False", "0")
    };
    Some(text.lines().map(clean).collect())
}

/// What tshark says about the CRC of each unit. It is a note in the text, and no field.
fn crcs(records: &[Vec<u8>]) -> Option<Vec<String>> {
    let text = tshark(&["-V"], &capture(records))?;
    let said = text.lines().filter_map(|line| line.trim().strip_prefix("AAL5 CRC: "));
    Some(said.map(|line| line.split_once(" (").expect("a judgement").1.to_owned()).collect())
}

#[track_caller]
fn all_crcs_are_right(records: &[Vec<u8>]) {
    let Some(said) = crcs(records) else { return };
    assert_eq!(said, vec!["correct)"; records.len()]);
}

#[test]
fn tshark_reads_cells() {
    let mut cells = Vec::new();
    Segmenter::new(CONNECTION).cut(&[&bytes(60)], 0, &mut cells).unwrap();
    let records: Vec<Vec<u8>> = cells
        .iter()
        .map(|cell| {
            let mut record = Vec::new();
            erf::cell(Origin { interface: 1, ..ORIGIN }, cell, &mut record);
            record
        })
        .collect();
    let wanted =
        ["erf.types.type", "erf.flags.cap", "erf.lctr", "erf.wlen", "atm.vpi", "atm.vci", "erf.ts"];
    let wanted = [&wanted[..], &["atm.payload_type", "data.len"]].concat();
    let Some(lines) = decoded(&records, &wanted) else { return };
    // 0.25 s is a quarter of 2^32
    let line = |kind| format!("3\t1\t0\t52\t3\t77\t0x6553f10040000000\t{kind}\t48");
    assert_eq!(lines, [line(0), line(1)]);
}

#[test]
fn tshark_tells_a_wrong_crc() {
    let mut wrong = unit(&llc(0x800, &Frame::tcp4(bytes(50)).frame()[14..]));
    wrong[40] ^= 1;
    let Some(said) = crcs(&[wrong]) else { return };
    assert!(said.len() == 1 && said[0].starts_with("incorrect"), "{said:?}");
}

#[test]
fn tshark_reads_classical_ip() {
    let packets = [Frame::tcp4(bytes(1)), Frame::tcp4(bytes(9140)), Frame::udp4(bytes(8))];
    let records: Vec<Vec<u8>> =
        packets.iter().map(|packet| unit(&llc(0x800, &packet.frame()[14..]))).collect();
    let wanted = ["erf.types.type", "atm.vpi", "atm.vci", "atm.aal5t_len", "ip.checksum.status"];
    let wanted =
        [&wanted[..], &["tcp.checksum.status", "udp.checksum.status", "data.len"]].concat();
    if let Some(lines) = decoded(&records, &wanted) {
        let expected =
            ["4\t3\t77\t49\t1\t1\t\t1", "4\t3\t77\t9188\t1\t1\t\t9140", "4\t3\t77\t44\t1\t\t1\t8"];
        assert_eq!(lines, expected);
    }
    all_crcs_are_right(&records);
}

#[test]
fn tshark_reads_atmarp() {
    let one = Station::new(atm(1), Ipv4Addr::new(10, 0, 0, 1));
    let other = Station::new(atm(2), Ipv4Addr::new(10, 0, 0, 2));
    let asked = Station::of_ip(Ipv4Addr::new(10, 0, 0, 2));
    let hex = |address: AtmAddress| address.0.map(|octet| format!("{octet:02x}")).concat();
    let (one_hex, other_hex) = (hex(atm(1)), hex(atm(2)));
    let known = format!("{other_hex}\t10.0.0.2\t{one_hex}\t10.0.0.1");
    let cases = [
        (Question::Request, one, asked, format!("1\t{one_hex}\t10.0.0.1\t\t10.0.0.2")),
        (Question::Reply, other, one, format!("2\t{known}")),
        (Question::InverseRequest, one, Station::default(), format!("8\t{one_hex}\t10.0.0.1\t\t")),
        (Question::InverseReply, other, one, format!("9\t{known}")),
        (Question::Refusal, one, asked, format!("10\t{one_hex}\t10.0.0.1\t\t10.0.0.2")),
    ];
    let records: Vec<Vec<u8>> = cases
        .iter()
        .map(|(operation, source, target, _)| {
            let message = AtmArp { operation: *operation, source: *source, target: *target };
            unit(&llc(0x806, &message.emit()))
        })
        .collect();
    let wanted = [
        "arp.opcode",
        "arp.src.atm_num_nsap",
        "arp.src.proto_ipv4",
        "arp.dst.atm_num_nsap",
        "arp.dst.proto_ipv4",
    ];
    if let Some(lines) = decoded(&records, &wanted) {
        assert_eq!(lines, cases.map(|(.., line)| line));
    }
    all_crcs_are_right(&records);
}

#[test]
fn tshark_reads_lane_control_frames() {
    let operations = [
        (Operation::Configure, 1, true),
        (Operation::Join, 2, true),
        (Operation::Ready, 3, true),
        (Operation::Register, 4, true),
        (Operation::Unregister, 5, true),
        (Operation::Arp, 6, true),
        (Operation::Flush, 7, true),
        (Operation::NegativeArp, 8, false),
        (Operation::Topology, 9, false),
    ];
    let mut frames = Vec::new();
    for (operation, number, is_answered) in operations {
        for is_response in [false, true].into_iter().take(1 + usize::from(is_answered)) {
            let frame = LaneControl {
                operation,
                is_response,
                status: if is_response { Status::DUPLICATE_ATM } else { Status::SUCCESS },
                transaction: 0x0102_0304,
                requester: 7,
                flags: Flags::default(),
                source: Destination::Mac(mac(1)),
                target: Destination::Mac(mac(2)),
                source_atm: atm(1),
                target_atm: atm(2),
                lan: LanType::Ethernet,
                size: FrameSize::Octets9234,
                elan: Name::new("blue").expect("a short name"),
            };
            frames.push((frame, number + if is_response { 0x100 } else { 0 }));
        }
    }
    let records: Vec<Vec<u8>> = frames.iter().map(|(frame, _)| unit(&frame.emit())).collect();
    let fields = |names: [&str; 4]| names.map(|name| format!("atm.le_control.{name}"));
    let fields = fields(["opcode", "status", "transaction_id", "requester_lecid"]);
    let wanted: Vec<&str> = fields.iter().map(String::as_str).collect();
    if let Some(lines) = decoded(&records, &wanted) {
        let expected = frames.iter().map(|(frame, number)| {
            // a request has no status, and a frame about readiness has the operation alone
            let status = if frame.is_response { "0x0005" } else { "" };
            match frame.operation {
                Operation::Ready => format!("0x{number:04x}\t\t\t"),
                _ => format!("0x{number:04x}\t{status}\t0x01020304\t0x0007"),
            }
        });
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }
    // the fields of those that configure and join, of which tshark shows more than of others
    let wanted = [
        "atm.lan_destination.mac",
        "atm.source_atm",
        "atm.target_atm",
        "atm.le_configure_join_frame.max_frame_size",
        "atm.le_configure_join_frame.elan_name",
    ];
    if let Some(lines) = decoded(&records[..4], &wanted) {
        let hex = |address: AtmAddress| address.0.map(|octet| format!("{octet:02x}")).concat();
        let macs = "02:00:00:00:01:01,02:00:00:00:01:02";
        let expected = format!("{macs}\t{}\t{}\t0x03\t626c7565", hex(atm(1)), hex(atm(2)));
        assert_eq!(lines, vec![expected; 4]);
    }
    all_crcs_are_right(&records);
}

#[test]
fn tshark_reads_lane_data_frames() {
    let own =
        arp::Station { hardware: MacAddress([2, 0, 0, 0, 0, 1]), ip: Ipv4Addr::new(10, 0, 0, 1) };
    let message = Arp::announcement(own).emit();
    let ether_type = arp::ETHER_TYPE;
    let short =
        linkrate_wire::control::frame(MacAddress::BROADCAST, own.hardware, ether_type, &message);
    let frames = [short, Frame::tcp4(bytes(9178)).frame(), Frame::udp4(bytes(30)).frame()];
    let records: Vec<Vec<u8>> =
        frames.iter().map(|frame| unit(&Data { lecid: 7, frame }.emit())).collect();
    let wanted = ["atm.le_client.client", "atm.aal5t_len", "eth.dst", "eth.type"];
    let wanted = [&wanted[..], &["tcp.checksum.status", "udp.checksum.status"]].concat();
    if let Some(lines) = decoded(&records, &wanted) {
        assert_eq!(
            lines,
            [
                "0x0007\t62\tff:ff:ff:ff:ff:ff\t0x0806\t\t",
                "0x0007\t9234\taa:00:00:00:00:01\t0x0800\t1\t",
                "0x0007\t74\taa:00:00:00:00:01\t0x0800\t\t1",
            ]
        );
    }
    all_crcs_are_right(&records);
}

/// Everything that clients, LECS, LES and BUS say to each other.
#[test]
fn tshark_follows_an_emulated_lan() {
    let proxy = ClientConfig { proxy: true, ..elan::config(2) };
    let mut world = World::new(&[elan::config(0), elan::config(1), proxy], Wire::good(MS), 1);
    world.units = Some(Vec::new());
    world.client(0, ClientEvent::Register(mac(50)));
    world.client(2, ClientEvent::Behind(mac(60)));
    world.run_for(SECOND);
    for to in [mac(1), mac(60), MacAddress::BROADCAST] {
        for _ in 0..5 {
            world.frame(0, mac(0), to);
            world.run_for(SECOND / 10);
        }
    }
    world.client(2, ClientEvent::Topology { changing: true });
    world.client(0, ClientEvent::Unregister(mac(50)));
    // READY_QUERY: one that calls and is never ready
    world.plug(50, atm(66));
    world.ask(
        atm(66),
        PartyAction::SetUp { call: Call::outgoing(0), to: atm(0), purpose: Purpose::DataDirect },
    );
    world.run_for(SECOND * 10);
    assert!(world.clients.iter().all(|client| client.state() == State::Operational));
    let records: Vec<Vec<u8>> =
        world.units.take().unwrap_or_default().iter().map(|one| unit(one)).collect();
    let fields = ["atm.le_control.opcode", "atm.le_client.client"];
    if let Some(lines) = decoded(&records, &fields) {
        let mut kinds: Vec<&str> =
            lines.iter().filter_map(|line| line.split('\t').next()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let control = [1, 0x101, 2, 0x102, 3, 0x103, 4, 0x104, 5, 0x105, 6, 0x106, 7, 0x107, 9];
        let mut expected: Vec<String> =
            control.iter().map(|number| format!("0x{number:04x}")).collect();
        expected.push(String::new());
        expected.sort_unstable();
        assert_eq!(kinds, expected);
        assert!(lines.iter().all(|line| line.len() > 2), "a frame of neither kind: {lines:?}");
    }
    all_crcs_are_right(&records);
}
