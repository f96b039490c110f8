//! LAN Emulation on real hosts: an Ethernet interface over the cells of an ATM adapter.

use std::time::Duration;

use crate::common::capture::Capture;
use crate::common::lab::{lab_of, measured};
use crate::common::ssh::Ssh;
use crate::common::up::{CLIENT, SUT, Up, rates};
use crate::common::web::Web;
use crate::common::{linkrate, tshark};
use linkrate_model::spec::Adapter;
use linkrate_model::{Direction, InterfaceKnobs, TestbedSpec, Workload, model};

/// TCP payload of a full packet, and the cells that it takes with the 16 octets of LAN Emulation and the
/// 8 of AAL5: units of 1516 and of 9234 octets.
const PACKETS: [(&str, f64, f64); 2] =
    [("atm-155-lane-1516", 1448.0, 32.0), ("atm-155-lane-9234", 9166.0, 193.0)];

/// Mb/s in cells on OC-3c.
const CELLS: f64 = 149.76;

#[test]
#[ignore = "exhaustive: more rates"]
fn each_elan_reaches_its_limit_in_each_direction() {
    needs!(root);
    for (name, payload, cells) in PACKETS {
        let adapter = Adapter::Model(Box::new(model::find(name).unwrap()));
        let mut lab = lab_of(&TestbedSpec { adapter, ..TestbedSpec::default() }, Some("cubic"));
        let limit = CELLS * payload * 8.0 / (cells * 424.0);
        for direction in [Direction::Transmit, Direction::Receive] {
            let workload = Workload { direction, ..Workload::default() };
            let second = Duration::from_secs(1);
            let run = measured(&mut lab, workload, InterfaceKnobs::default(), second);
            let traffic = &run.traffic;
            let bytes = traffic.transmit_bytes + traffic.receive_bytes;
            let seconds = traffic.transmit_seconds.max(traffic.receive_seconds);
            let share = bytes as f64 * 8e-6 / seconds / limit;
            // As in the test of Classical IP: the benchmark says whether the line is full. Here a
            // busy machine may leave it idle for a while, and nothing may make it faster.
            assert!((0.9..1.002).contains(&share), "{name}, {direction:?}: {share:.4}");
            let counters = &run.evidence.adapter.as_ref().unwrap().ports[0].counters;
            assert_eq!((counters["laneTxDropped"], counters["aal5VccCrcErrors"]), (0, 0));
        }
    }
}

#[test]
fn stock_programs_work_over_an_elan_and_the_lab_tells_of_it() {
    needs!(root, "iperf3", "ping");
    let lab = Up::start("--adapter atm-155-lane-9234 --clients-per-port 2");
    // as long as the MTU, and in fragments
    for size in [9190, 60_000] {
        let out = lab.run("sut", &format!("ping -c 3 -W 2 -s {size} {CLIENT}")).expect_code(0);
        assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    }
    let out = lab.run("client-0", "ping -c 2 -W 2 198.18.0.3").expect_code(0);
    assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    for options in ["-t 1 -C cubic", "-t 1 -R -C cubic"] {
        let (server, client) = lab.iperf3(options);
        let (rate, _) = rates(client.wait());
        server.wait().expect_code(0);
        assert!((1.1e8..1.36e8).contains(&rate), "{options}: {rate}");
    }
    let shown = lab.linkrate("adapter show eth0").stdout;
    for part in [
        "operational in elan-0",
        "9234 bytes",
        "data direct",
        "(multicast send)",
        "lecArpRequestsOut",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let port = lab.port("eth0");
    assert_eq!(port["lane"]["state"], "operational");
    assert_eq!(port["lane"]["cache"][0]["direct"], true, "{port}");
    assert_eq!(port["knobs"]["mtu"], 9218);
    for name in ["lecControlFramesIn", "lecControlFramesOut", "lecArpRepliesIn"] {
        assert!(port["counters"][name].as_u64().is_some_and(|count| count > 0), "{name}: {port}");
    }
    let refused = lab.tried("adapter set eth0 mtu=9219").expect_code(2);
    assert!(refused.stderr.contains("9218"), "{}", refused.stderr);
}

/// nginx serves a file to the clients of an emulated LAN.
#[test]
#[ignore = "exhaustive: another program"]
fn a_web_server_works_over_an_elan() {
    needs!(root, "nginx", "curl");
    let web = Web::with_file_of(4 << 20);
    let lab = Up::start("--adapter atm-155-lane-1516 --clients-per-port 2");
    let serves = web.serve(&lab);
    ["client-0", "client-1"].iter().for_each(|client| web.fetch(&lab, client, SUT));
    assert!(lab.counter("eth0", "laneTxDirect") > 5000, "data-direct connections carry it");
    lab.down().expect_code(0);
    serves.wait();
}

/// tshark reads the frames of the client and its host, and finds each CRC right.
#[test]
fn a_capture_of_an_elan_is_read_by_others() {
    needs!(root, "tshark", "ping");
    let lab = Up::start("--adapter atm-622-lane-1516");
    let capture = Capture::start(&lab, "eth0");
    let out = lab.run("sut", &format!("ping -c 3 -W 2 -s 4000 {CLIENT}")).expect_code(0);
    assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    capture.stop();
    assert_eq!(capture.fields("icmp.type == 0", &["ip.len"]).len(), 3);
    // the interface was quiet before: its host asks for the client, and its port for the station
    let opcodes = capture.fields("atm.le_control.opcode", &["atm.le_control.opcode"]);
    for opcode in ["0x0006", "0x0106", "0x0007", "0x0107"] {
        assert!(opcodes.iter().any(|one| one == opcode), "{opcode}: {opcodes:?}");
    }
    assert!(capture.fields("_ws.malformed || _ws.expert", &["_ws.expert.message"]).is_empty());
    assert!(capture.crcs_are_right() >= 6);
}

/// Logs in at a client over LAN Emulation, and sends it a file of 8 MiB.
#[test]
#[ignore = "exhaustive: another program"]
fn ssh_carries_a_file_over_an_elan() {
    needs!(root, ssh);
    let lab = Up::start("--adapter atm-155-lane-9234");
    Ssh::start(&lab, "client-0", CLIENT).carries_a_file_both_ways();
    assert!(lab.counter("eth0", "laneTxDirect") > 900, "data-direct connections carry it");
}

/// A client of the ELAN and a station on Ethernet behind a bridge reach each other, and the frames of
/// the station are Ethernet.
#[test]
#[ignore = "exhaustive: eleven seconds beside one other"]
fn a_station_on_ethernet_is_bridged_into_an_elan() {
    needs!(root, "iperf3", "tshark", "ping");
    const STATION: &str = "198.18.0.3";
    let lab = Up::start("--adapter atm-155-lane-1516 --clients-per-port 2 --bridged-clients 1");
    let file = std::env::temp_dir().join(format!("bridged-{}.pcapng", std::process::id()));
    lab.linkrate(&format!("adapter capture client-1 {}", file.display()));
    for (host, size) in [("sut", 1472), ("sut", 20_000), ("client-0", 56)] {
        let out = lab.run(host, &format!("ping -c 3 -W 2 -s {size} {STATION}")).expect_code(0);
        assert!(out.stdout.contains(" 0% packet loss"), "{host}, {size}: {}", out.stdout);
    }
    lab.linkrate("adapter capture client-1 --stop");
    let requests = tshark(&file, "icmp.type == 8", &["frame.protocols", "eth.dst"]);
    let lines: Vec<&str> = requests.lines().collect();
    // what the host sees and what the link carries, and fragments once
    assert!(lines.len() >= 9, "{requests}");
    assert!(lines.iter().all(|line| line.starts_with("eth:ethertype:ip:")), "{requests}");
    std::fs::remove_file(&file).unwrap();

    for options in ["-t 1 -C cubic", "-t 1 -R -C cubic"] {
        let (server, client) = lab.iperf3_with("client-1", STATION, options);
        let (rate, _) = rates(client.wait());
        server.wait().expect_code(0);
        // what the cells of the ATM link carry, and not what Ethernet does
        assert!((1.0e8..1.28e8).contains(&rate), "{options}: {rate}");
    }
    let station = lab.port("client-1");
    let counters = &station["counters"];
    assert_eq!(station["lane"]["behind"].as_array().map(Vec::len), Some(1), "{station}");
    assert_eq!(station["lane"]["state"], "operational");
    for name in ["ifHCInUcastPkts", "ifHCOutUcastPkts", "dot1dTpPortInFrames", "laneTxDirect"] {
        assert!(counters[name].as_u64().is_some_and(|count| count > 1000), "{name}: {counters}");
    }
    assert_eq!(counters["dot3HCStatsFCSErrors"], 0);
    assert!(counters["atmTxCells"].is_null(), "Ethernet has no cells: {counters}");
    let cache = lab.port("eth0")["lane"]["cache"].clone();
    let all = cache.as_array().expect("a cache");
    assert!(all.iter().any(|one| one["remote"] == true && one["direct"] == true), "{cache}");
    let shown = lab.linkrate("adapter show eth0").stdout;
    assert!(shown.contains("behind a bridge") && shown.contains("switch with a bridge"), "{shown}");
    let shown = lab.linkrate("adapter show client-1").stdout;
    assert!(shown.contains("bridged     02:00:00:00:00:03"), "{shown}");
}

#[test]
fn clients_are_bridged_into_an_elan_with_the_frames_of_ethernet() {
    for (options, said) in [
        (
            "--adapter atm-155-lane-9234 --bridged-clients 1",
            "atm-155-lane-9234 has no emulated LAN",
        ),
        ("--adapter gigabit --bridged-clients 1", "atm-155-lane-1516"),
        ("--adapter atm-155-lane-1516 --bridged-clients 2", "2 clients of each port, which has 1"),
    ] {
        for command in ["lab up --wait", "measure"] {
            let refused = linkrate(&format!("{command} {options}")).refusal();
            assert!(refused.contains(said) && refused.contains("--bridged-clients"), "{refused}");
        }
    }
}

/// One ATM port is a client of two emulated LANs, with an interface for each.
#[test]
fn two_elans_share_an_adapter() {
    needs!(root, "iperf3", "ping");
    let lab = Up::start("--adapter atm-155-lane-1516 --elans office,backup --clients-per-port 2");
    // each ELAN has an IP network of its own
    for (host, station) in [
        ("sut", CLIENT),
        ("sut", "198.18.1.4"),
        ("client-0", "198.18.0.3"),
        ("client-3", "198.18.1.4"),
    ] {
        let out = lab.run(host, &format!("ping -c 3 -W 2 -s 1472 {station}")).expect_code(0);
        assert!(out.stdout.contains(" 0% packet loss"), "{host}, {station}: {}", out.stdout);
    }
    let (server, client) = lab.iperf3_with("client-2", "198.18.1.4", "-t 1 -C cubic");
    let (rate, _) = rates(client.wait());
    server.wait().expect_code(0);
    // how much flows beside other tests is not the question, and no more than the cells carry
    assert!((2e7..1.28e8).contains(&rate), "{rate}");
    let ports = ["eth0", "eth1"].map(|port| lab.port(port));
    let of = |port: usize, name: &str| ports[port]["counters"][name].as_u64().unwrap();
    for (port, elan) in ports.iter().zip(["office", "backup"]) {
        let lane = &port["lane"];
        assert_eq!((&lane["elan"], &lane["state"]), (&elan.into(), &"operational".into()));
        assert_eq!(port["adapter"], 0, "one adapter");
        assert_eq!(port["reaches"].as_array().map(Vec::len), Some(2), "{port}");
        assert_eq!(port["counters"]["laneRxLies"], 0);
    }
    // the traffic is that of the second client, and the link that of both
    assert!(of(1, "laneTxDirect") > 1000 && of(0, "laneTxDirect") < 100, "{ports:?}");
    let cells = of(0, "atmTxCells") + of(1, "atmTxCells");
    assert!(of(1, "ifHCOutOctets") >= cells * 53, "{cells} cells");
    lab.linkrate("adapter link eth0 down");
    for port in ["eth0", "eth1"] {
        assert_eq!(lab.port(port)["link_up"], false, "{port}");
    }
}

#[test]
fn emulated_lans_of_an_adapter_have_names_of_their_own_and_one_size() {
    for (options, said) in [
        ("--adapter atm-155-lane-1516 --elans blue,blue", "\"blue\" is named twice on one adapter"),
        ("--adapter atm-155-lane-1516 --elans blue,red:9234", "leave the size out, or write 1516"),
        ("--adapter atm-155 --elans blue,red", "atm-155 has no LAN Emulation"),
    ] {
        let refused = linkrate(&format!("lab up --wait {options}")).refusal();
        assert!(refused.contains(said) && refused.contains("--elans"), "{refused}");
    }
}
