//! Labs and ports as people see them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use insta::assert_snapshot;
use linkrate_model::lab::{
    AdapterReport, ConnectionReport, HostReport, InterfaceReport, LabReport, LaneReport,
    LaneStationReport, PortReport, SettingsReport,
};
use linkrate_model::measurement::ThreadTime;
use linkrate_model::{BitRate, InterfaceKnobs, Offload, model};
use linkrate_report::adapter::{settings_text, show, show_document};
use linkrate_report::lab;
use linkrate_report::terminal::Style;

fn hosts() -> LabReport {
    let interface = |name: &str, last: [u8; 2]| InterfaceReport {
        name: name.to_owned(),
        address: Ipv4Addr::new(198, 18, last[0], last[1]),
        prefix_length: 24,
        ipv6: None,
    };
    let host = |name: &str, pid, cpus: &str, interfaces| HostReport {
        name: name.to_owned(),
        pid,
        cpus: cpus.parse().unwrap(),
        interfaces,
    };
    LabReport {
        name: "lab".to_owned(),
        pid: 4711,
        adapter: "gigabit".to_owned(),
        scale: 0.1,
        ports: 2,
        fabric: Vec::new(),
        congestion: "cubic".to_owned(),
        offloads: false,
        hosts: vec![
            host("sut", 4712, "0", vec![interface("eth0", [0, 1]), interface("eth1", [1, 1])]),
            host("client-0", 4713, "1-3", vec![interface("eth0", [0, 2])]),
            host("client-1", 4714, "1-3", vec![interface("eth0", [1, 2])]),
        ],
    }
}

fn ports() -> AdapterReport {
    let counters = [
        ("ifHCOutOctets", 6_330_515_365),
        ("ifInErrors", 0),
        ("dot3HCStatsFCSErrors", 0),
        ("txSegments", 4_171_772),
        ("txSuperframes", 94_812),
        ("txDropLinkDown", 0),
        ("rxDropRingFull", 7),
    ];
    let thread = |name: &str, cpu: &str, cpu_ns| ThreadTime {
        name: name.to_owned(),
        affinity: cpu.parse().unwrap(),
        cpu_ns,
        user_ns: 0,
    };
    AdapterReport {
        aggregates: Vec::new(),
        lab: "lab".to_owned(),
        at_ns: 1,
        model: model::find("gigabit").unwrap(),
        buses_busy_ns: vec![5],
        drivers: vec![thread("drv 0", "0", 3_850_000_000)],
        devices: vec![thread("dev 1", "1", 6_570_000_000)],
        ports: vec![PortReport {
            name: "eth0".to_owned(),
            adapter: Some(0),
            fabric: "switch".to_owned(),
            reaches: vec!["client-0".to_owned(), "client-1".to_owned()],
            link_up: false,
            link_rate: Some(BitRate(1e9)),
            capture: Some("/tmp/eth0.pcapng".to_owned()),
            faults: BTreeMap::from([("loss".to_owned(), "1 %".to_owned())]),
            vlans: BTreeMap::from([("access".to_owned(), "10".to_owned())]),
            connections: Vec::new(),
            lane: None,
            atmarp: None,
            knobs: InterfaceKnobs {
                offload: Some(Offload::Tso),
                mtu: Some(9000),
                ..InterfaceKnobs::default()
            },
            counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
        }],
    }
}

#[test]
fn a_lab_is_a_table_of_its_hosts() {
    assert_snapshot!(lab::text(&hosts()));
    let document: serde_json::Value = serde_json::from_str(&lab::document(&hosts())).unwrap();
    assert_eq!((&document["format"], &document["lab"]["scale"]), (&1.into(), &0.1.into()));
    assert_eq!(document["lab"]["hosts"][2]["interfaces"][0]["address"], "198.18.1.2");
    assert_eq!(lab::list(["a", "b"]), "a\nb\n");
    assert_eq!(lab::list_document(["a"]), "{\"format\":1,\"labs\":[\"a\"]}\n");
}

#[test]
fn a_port_shows_what_is_set_and_counted() {
    let report = ports();
    let all: Vec<&PortReport> = report.ports.iter().collect();
    let text = show(&report, &all, Style::default());
    assert_snapshot!(text);
    assert!(
        !text.contains('\u{1b}')
            && show(&report, &all, Style { color: true }).contains("\u{1b}[1m")
    );
    let document: serde_json::Value = serde_json::from_str(&show_document(&report, &all)).unwrap();
    let port = &document["ports"][0];
    assert_eq!((&port["name"], &port["knobs"]["offload"]), (&"eth0".into(), &"tso".into()));
    // nothing is left out for a program
    assert_eq!(port["counters"]["txDropLinkDown"], 0);
}

/// The model has LAN Emulation: its client, the stations that it knows, and the use of each connection.
#[test]
fn a_client_of_an_emulated_lan_is_shown() {
    let mut report = ports();
    report.model = model::find("atm-622-lane-1516").unwrap();
    let port = &mut report.ports[0];
    let atm_address = |last: u8| format!("39000000000000000000000001.0200000000{last:02x}.00");
    let station = |last: u8| LaneStationReport {
        mac: format!("02:00:00:00:00:{last:02x}"),
        atm_address: None,
        remote: false,
        direct: false,
        waiting: 3,
    };
    let known = LaneStationReport {
        atm_address: Some(atm_address(2)),
        remote: true,
        direct: true,
        waiting: 0,
        ..station(2)
    };
    port.lane = Some(LaneReport {
        state: "operational".to_owned(),
        fell_back: Some("the link or the switch was down".to_owned()),
        elan: "elan-0".to_owned(),
        size: 1516,
        lecid: 2,
        atm_address: atm_address(1),
        cache: vec![known, station(3)],
        behind: Some(vec!["02:00:00:00:00:07".to_owned()]),
    });
    port.connections = vec![ConnectionReport {
        vpi: 0,
        vci: 40,
        purpose: Some("data direct".to_owned()),
        address: None,
        atm_address: Some(atm_address(2)),
        tx_cells: 32,
        rx_cells: 64,
        defects: BTreeMap::from([("aal5VccCrcErrors".to_owned(), 1234)]),
    }];
    port.counters = BTreeMap::new();
    let all: Vec<&PortReport> = report.ports.iter().collect();
    let text = show(&report, &all, Style::default());
    for line in [
        "LE client   operational in elan-0 as client 2, units of up to 1516 bytes; before: the link",
        "bridged     02:00:00:00:00:07",
        "LE_ARP      02:00:00:00:00:02 behind a bridge at 39000000000000000000000001.020000000002.00, \
         data direct",
        "02:00:00:00:00:03 at an address that is asked for, through the BUS, 3 frames wait",
        "VPI 0 VCI 40 to 39000000000000000000000001.020000000002.00 (data direct): 32 cells sent, \
         64 received, aal5VccCrcErrors 1234",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn names_the_other_ports_that_a_change_applies_to() {
    let report = SettingsReport {
        port: "eth0".to_owned(),
        settings: BTreeMap::from([("mtu".to_owned(), "9000".to_owned())]),
        shared: vec!["mtu".to_owned()],
        shared_with: vec!["client-0".to_owned(), "client-1".to_owned()],
    };
    assert_eq!(
        settings_text(&report),
        "eth0: mtu 9000\nclient-0, client-1: the same mtu, as at both ends of the link\n"
    );
}

#[test]
fn two_switches_are_drawn_below_the_hosts() {
    let fabric = ["switch 0: eth0", "  │ link", "switch 1: eth1, client-0"].map(str::to_owned);
    let lab = LabReport { fabric: fabric.to_vec(), ..hosts() };
    let text = linkrate_report::lab::text(&lab);
    assert!(text.ends_with("\n\nswitch 0: eth0\n  │ link\nswitch 1: eth1, client-0\n"), "{text}");
}
