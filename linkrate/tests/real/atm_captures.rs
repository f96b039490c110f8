//! Captures of every kind of traffic of ATM adapters, judged by tshark: it reads each message, complains
//! of nothing, and finds the CRC of each unit of AAL5 right.

use std::time::Duration;

use crate::common::capture::Capture;
use crate::common::up::{CLIENT, Up, rates};
use crate::common::wait_until;

#[track_caller]
fn pings(lab: &Up, host: &str, options: &str) {
    let out = lab.run(host, &format!("ping -W 2 {options}")).expect_code(0);
    assert!(out.stdout.contains(" 0% packet loss"), "{host}: {}", out.stdout);
}

/// The first field of the packets that match a filter, each value once.
#[track_caller]
fn kinds(capture: &Capture<'_>, filter: &str, field: &str) -> Vec<String> {
    let mut all = capture.fields(filter, &[field]);
    all.sort_unstable();
    all.dedup();
    all
}

/// The link goes down and comes back, and the port makes its connections again.
fn flap(lab: &Up, port: &str) {
    lab.linkrate(&format!("adapter link {port} down"));
    lab.linkrate(&format!("adapter link {port} up"));
}

#[test]
fn classical_ip_over_permanent_connections() {
    needs!(root, "tshark", "ping", "iperf3");
    let lab = Up::start("--adapter atm-155 --clients-per-port 2");
    let capture = Capture::start(&lab, "eth0");
    pings(&lab, "sut", &format!("-c 2 -s 60000 {CLIENT}"));
    pings(&lab, "client-1", "-c 2 -s 1 198.18.0.1");
    for options in ["-n 300K -C cubic", "-n 300K -R -C cubic", "-n 300K -u -b 50M -l 9000"] {
        let (server, client) = lab.iperf3(options);
        client.wait().expect_code(0);
        server.wait().expect_code(0);
    }
    capture.stop();
    // each connection has its identifier; records of interfaces of the host have none
    assert_eq!(kinds(&capture, "atm.vci", "atm.vci"), ["101", "102"]);
    // ICMP in fragments, TCP, UDP
    for (protocol, least) in [(1, 30), (6, 80), (17, 33)] {
        let units = capture.fields(&format!("erf && ip.proto == {protocol}"), &["frame.len"]);
        assert!(units.len() >= least, "{protocol}: {units:?}");
    }
    capture.is_well_formed();
    assert!(capture.crcs_are_right() > 120);
}

#[test]
fn an_atmarp_server_and_its_clients() {
    needs!(root, "tshark", "ping");
    let lab = Up::start("--adapter atm-622-switched --clients-per-port 2");
    let capture = Capture::start(&lab, "eth0");
    flap(&lab, "eth0");
    let registered = || lab.counter("eth0", "ipoaArpClientInArpOutReplies") >= 2;
    assert!(wait_until(Duration::from_secs(10), registered), "{}", lab.port("eth0"));
    pings(&lab, "sut", &format!("-c 2 -s 9152 {CLIENT}"));
    lab.run("sut", "ping -c 1 -W 1 198.18.0.9").expect_code(1);
    capture.stop();
    // request, reply, question of the server (InATMARP) and its answer, refusal
    assert_eq!(kinds(&capture, "arp", "arp.opcode"), ["1", "10", "2", "8", "9"]);
    capture.is_well_formed();
    assert!(capture.crcs_are_right() >= 9);
}

#[test]
fn a_client_that_joins_its_elan_and_talks() {
    needs!(root, "tshark", "ping", "iperf3");
    let lab = Up::start("--adapter atm-155-lane-9234 --clients-per-port 2");
    let capture = Capture::start(&lab, "eth0");
    flap(&lab, "eth0");
    let joined = || lab.port("eth0")["lane"]["state"] == "operational";
    assert!(wait_until(Duration::from_secs(20), joined), "{}", lab.port("eth0")["lane"]);
    pings(&lab, "sut", &format!("-c 2 -s 9190 {CLIENT}"));
    pings(&lab, "client-1", "-c 2 -s 20000 198.18.0.1");
    let (server, client) = lab.iperf3("-n 300K -C cubic");
    client.wait().expect_code(0);
    server.wait().expect_code(0);
    capture.stop();
    let operations = kinds(&capture, "atm.le_control.opcode", "atm.le_control.opcode");
    // configure, join, ready, LE_ARP, flush
    for one in ["0x0001", "0x0101", "0x0002", "0x0102", "0x0103", "0x0006", "0x0106", "0x0007"] {
        assert!(operations.iter().any(|other| other == one), "{one}: {operations:?}");
    }
    // a broadcast goes through the BUS, a data frame has the identifier of its client
    let frames = "atm.le_client.client && eth.dst == ff:ff:ff:ff:ff:ff";
    assert!(!capture.fields(frames, &["eth.src"]).is_empty());
    assert!(kinds(&capture, "atm.le_client.client && icmp", "atm.le_client.client").len() >= 3);
    capture.is_well_formed();
    assert!(capture.crcs_are_right() > 60);
}

#[test]
#[ignore = "exhaustive: another capture"]
fn two_emulated_lans_on_one_port() {
    needs!(root, "tshark", "ping");
    let lab = Up::start("--adapter atm-155-lane-1516 --elans office,backup");
    let captures = ["eth0", "eth1"].map(|port| Capture::start(&lab, port));
    pings(&lab, "sut", &format!("-c 2 -s 1472 {CLIENT}"));
    pings(&lab, "sut", "-c 3 -s 1472 198.18.1.3");
    for (capture, requests) in captures.iter().zip([2, 3]) {
        capture.stop();
        // those that the port sent: the BUS sends a frame to its sender too
        let sent = "atm.le_client.client && icmp.type == 8 && erf.flags.cap == 0";
        let pinged = capture.fields(sent, &["ip.dst"]);
        assert_eq!(pinged.len(), requests, "{pinged:?}");
        capture.is_well_formed();
        assert!(capture.crcs_are_right() >= 2 * requests);
    }
}

#[test]
fn an_elan_with_a_bridge() {
    needs!(root, "tshark", "ping");
    const STATION: &str = "198.18.0.3";
    let lab = Up::start("--adapter atm-155-lane-1516 --clients-per-port 2 --bridged-clients 1");
    let capture = Capture::start(&lab, "eth0");
    pings(&lab, "sut", &format!("-c 2 -s 1472 {STATION}"));
    // the topology behind the bridge changes
    flap(&lab, "client-1");
    pings(&lab, "client-1", "-c 2 198.18.0.1");
    capture.stop();
    let operations = kinds(&capture, "atm.le_control.opcode", "atm.le_control.opcode");
    for one in ["0x0006", "0x0106", "0x0009"] {
        assert!(operations.iter().any(|other| other == one), "{one}: {operations:?}");
    }
    capture.is_well_formed();
    assert!(capture.crcs_are_right() >= 8);
}

/// Cells by themselves are in the capture as they came; units that did not come whole are not.
#[test]
fn cells_with_faults() {
    needs!(root, "tshark", "ping");
    let lab = Up::start("--adapter atm-622");
    let capture = Capture::start(&lab, "eth0");
    lab.linkrate("adapter faults eth0 payload-error=0.1% header-error=0.1%");
    lab.run("sut", &format!("ping -c 100 -i 0.01 -W 1 -s 9152 {CLIENT}"));
    lab.linkrate("adapter faults eth0 none");
    pings(&lab, "sut", &format!("-c 2 -s 9152 {CLIENT}"));
    capture.stop();
    let replies = capture.fields("erf && icmp.type == 0", &["frame.len"]).len();
    assert!((3..102).contains(&replies), "{replies}");
    let cells = capture.fields("erf.types.type == 3", &["atm.vci"]);
    assert!(!cells.is_empty());
    let port = lab.port("eth0");
    let wrong = port["counters"]["aal5VccCrcErrors"].as_u64().unwrap();
    assert!(wrong > 0 && port["counters"]["atmHecCorrected"].as_u64().unwrap() > 0, "{port}");
    assert_eq!(port["connections"][0]["defects"]["aal5VccCrcErrors"], wrong);
    let shown = lab.linkrate("adapter show eth0").stdout;
    assert!(shown.contains(&format!(" received, aal5VccCrcErrors {wrong}")), "{shown}");
    assert!(capture.crcs_are_right() > replies);
    let (server, client) = lab.iperf3("-n 100K -C cubic");
    rates(client.wait());
    server.wait().expect_code(0);
}
