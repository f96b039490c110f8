//! Frames of control protocols as tshark decodes them.

use std::net::Ipv4Addr;

use crate::control::BFD;
use crate::judge::tshark;
use linkrate_wire::control::arp::{self, Arp, Station};
use linkrate_wire::control::bfd::{Bfd, Diagnostic, LOWEST_SOURCE_PORT, State};
use linkrate_wire::control::frame;
use linkrate_wire::control::nd::Advertisement;
use linkrate_wire::frame::{IpEnds, MacAddress};
use linkrate_wire::pcapng::{
    Direction, Interface, Packet, interface_description, packet, section_header,
};

const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// Fields that say that something is wrong.
const COMPLAINTS: [&str; 2] = ["_ws.expert.message", "_ws.malformed"];

/// The wanted fields of each frame. Versions of tshark write flags as numbers or as words.
#[track_caller]
fn decoded(frames: &[Vec<u8>], wanted: &[&str]) -> Option<Vec<String>> {
    let mut file = Vec::new();
    section_header("linkrate", &mut file);
    let interface = Interface { name: "sut0", link_type: 1, speed: None, snap_length: 0 };
    interface_description(&interface, &mut file);
    for frame in frames {
        let (parts, direction) = ([&frame[..], &[]], Direction::Outbound);
        let (interface, time_ns, snap_length, comment) = (0, 0, 0, None);
        let plain = Packet { interface, time_ns, parts: &parts, snap_length, direction, comment };
        packet(&plain, &mut file);
    }
    let mut arguments = vec!["-T", "fields", "-o", "udp.check_checksum:TRUE"];
    for field in COMPLAINTS.iter().chain(wanted) {
        arguments.extend(["-e", field]);
    }
    let text = tshark(&arguments, &file)?;
    let clean = |line: &str| {
        let fields = line.strip_prefix("\t\t").unwrap_or_else(|| panic!("a complaint: {line}"));
        fields.replace("True", "1").replace("False", "0")
    };
    Some(text.lines().map(clean).collect())
}

#[test]
fn tshark_decodes_micro_bfd() {
    let bfd = Bfd { diagnostic: Diagnostic::NeighborDown, ..BFD };
    let answer = Bfd { poll: false, is_final: true, state: State::Up, ..bfd };
    let ends = [("10.0.0.1", "10.0.0.2"), ("fe80::1", "fe80::2")].map(|(source, destination)| {
        let address = |text: &str| text.parse().expect("an address");
        IpEnds::new(address(source), address(destination)).expect("one version of IP")
    });
    let frames: Vec<Vec<u8>> = ends
        .into_iter()
        .flat_map(|ip| [bfd, answer].map(|packet| packet.frame(OWN, ip, LOWEST_SOURCE_PORT)))
        .collect();
    let wanted = [
        "eth.dst",
        "udp.dstport",
        "udp.checksum.status",
        "bfd.version",
        "bfd.diag",
        "bfd.sta",
        "bfd.flags.p",
        "bfd.flags.f",
        "bfd.detect_time_multiplier",
        "bfd.my_discriminator",
        "bfd.your_discriminator",
        "bfd.desired_min_tx_interval",
        "bfd.required_min_rx_interval",
    ];
    let Some(lines) = decoded(&frames, &wanted) else { return };
    let line = |state, poll, last| {
        format!(
            "01:00:5e:90:00:01\t6784\t1\t1\t0x03\t{state}\t{poll}\t{last}\t3\t0x01020304\t\
             0x05060708\t1000000\t50000"
        )
    };
    let each = [line("0x02", "1", "0"), line("0x03", "0", "1")];
    assert_eq!(lines, [each.clone(), each].concat());
}

#[test]
fn tshark_decodes_announcements() {
    let station = Station { hardware: OWN, ip: Ipv4Addr::new(10, 0, 0, 1) };
    let message = Arp::announcement(station).emit();
    let arp = frame(MacAddress::BROADCAST, OWN, arp::ETHER_TYPE, &message);
    let target = "fd00::1".parse().expect("an address");
    let advertisement = Advertisement::unsolicited(target, OWN).frame();
    let wanted = [
        "arp.isgratuitous",
        "icmpv6.type",
        "icmpv6.checksum.status",
        "icmpv6.nd.na.target_address",
        "icmpv6.nd.na.flag.o",
        "icmpv6.opt.linkaddr",
    ];
    let Some(lines) = decoded(&[arp, advertisement], &wanted) else { return };
    assert_eq!(lines, ["1\t\t\t\t\t", "\t136\t1\tfd00::1\t1\t02:00:00:00:00:01"]);
}
