//! Ports of virtual adapters, looked at and changed while third-party programs' traffic flows over
//! them.

use std::process::Command;
use std::time::Duration;

use crate::common::needs::has_or_skips;
use crate::common::up::{CLIENT, SUT, Up, intervals};
use crate::common::{LINKRATE, Running, command, wait_until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn settings_change_while_traffic_flows() {
    needs!(root, "iperf3", "ping");
    let lab = Up::start("--adapter ten-gigabit");
    let (server, client) = lab.iperf3("-t 100 -i 0.5");
    lab.await_traffic();
    let set = |words: &str| lab.linkrate(&format!("adapter set eth0 {words} --json")).json();
    let document = set("lro=on rx-usecs=70 rx-frames=16 steering=rss queues=2");
    let settings = &document["set"]["settings"];
    for (key, value) in
        [("lro", "on"), ("rx-usecs", "70"), ("rx-frames", "16"), ("steering", "rss")]
    {
        assert_eq!(settings[key], value, "{document}");
    }
    let document = set("mtu=9000");
    assert_eq!(document["set"]["shared_with"][0], "client-0");
    assert_eq!(lab.run("client-0", "cat /sys/class/net/eth0/mtu").stdout, "9000\n");
    set("mtu=1500 offload=none");
    let before = lab.counter("eth0", "txSuperframes");
    lab.await_traffic();
    assert_eq!(lab.counter("eth0", "txSuperframes"), before, "superframes with offload none");
    let wanted = |on: bool| {
        let features = lab.run("sut", "ethtool -k eth0").expect_code(0).stdout;
        let wanted = format!("tx-tcp-segmentation: {}", if on { "on" } else { "off" });
        assert!(features.contains(&wanted), "{features}");
    };
    let ethtool = has_or_skips("ethtool");
    if ethtool {
        wanted(false);
    }
    set("offload=tso gso-max-size=20000");
    if ethtool {
        wanted(true);
        // what a user sets behind our back is shown as it is
        lab.run("sut", "ethtool -K eth0 tso off").expect_code(0);
        assert_eq!(lab.port("eth0")["knobs"]["offload"], "gso");
    }
    assert_eq!(lab.port("eth0")["knobs"]["gso-max-size"], 20_000);
    for (words, said) in [
        ("lor=on", "did you mean \"lro\"?"),
        ("mtu=9600", "mtu 9600 is above the maximum of adapter ten-gigabit"),
        ("snap=on", "snap on cannot be combined with mtu 1500"),
    ] {
        let refused = lab.tried(&format!("adapter set eth0 {words}")).expect_code(2).stderr;
        assert!(refused.contains(said), "{refused}");
    }
    let refused = lab.tried("adapter set client-0 lro=off").expect_code(2).stderr;
    assert!(refused.contains("client's port"), "{refused}");
    let intervals = intervals(client);
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    // tags and SNAP on both ends: hosts still reach each other
    lab.linkrate("adapter set eth0 vlan=7 snap=on mtu=1492");
    assert_eq!(lab.port("client-0")["knobs"]["port"]["vlan"], 7);
    lab.run("sut", &format!("ping -c 2 -i 0.2 -W 2 {CLIENT}")).expect_code(0);
}

#[test]
fn ports_come_and_go_without_disturbing_others() {
    needs!(root, "iperf3", "ping");
    let lab = Up::start("--clients-per-port 2");
    let (server, client) = lab.iperf3("-t 100 -i 1 -b 50M");
    lab.await_traffic();
    for _ in 0..2 {
        let added = lab.linkrate("adapter add --ports 2 --json").json();
        assert_eq!(added["added"]["ports"].to_string(), "[\"eth1\",\"eth2\"]");
        for address in ["198.18.1.2", "198.18.1.3", "198.18.2.3"] {
            lab.run("sut", &format!("ping -c 1 -W 2 {address}")).expect_code(0);
        }
        lab.linkrate("adapter remove eth1");
        // the others are still there, and keep their names
        lab.run("sut", "ping -c 1 -W 2 198.18.2.2").expect_code(0);
        lab.linkrate("adapter remove eth2");
        assert_eq!(lab.run("sut", "ls /sys/class/net").stdout, "eth0\nlo\n");
    }
    let refused = lab.tried("adapter remove client-0").expect_code(2).stderr;
    assert!(refused.contains("linkrate adapter remove eth0"), "{refused}");
    let intervals = intervals(client);
    server.wait();
    let least = intervals.iter().copied().fold(f64::INFINITY, f64::min);
    // a machine with two CPUs has the work of starting hosts to do beside, so not how fast
    assert!(least > 0.0, "{intervals:?}");
    // a link comes back on the number that is free
    lab.linkrate("adapter remove eth0");
    let added = lab.linkrate("adapter add --json").json();
    assert_eq!(added["added"]["ports"][0], "eth0");
    lab.run("sut", &format!("ping -c 1 -W 2 {CLIENT}")).expect_code(0);
}

#[test]
fn faults_and_link_states_have_their_effect() {
    needs!(root, "ping");
    let lab = Up::start("");
    let ping = || lab.run("sut", &format!("ping -c 3 -i 0.2 -W 1 {CLIENT}"));
    ping().expect_code(0);
    let faults = lab.linkrate("adapter faults eth0 loss=100% delay=20ms --json").json();
    assert_eq!(faults["faults"]["faults"]["loss"], "100 %", "{faults}");
    assert_eq!(ping().code(), Some(1));
    lab.linkrate("adapter faults client-0 delay=20ms");
    let slow = ping().expect_code(0).stdout;
    let times = slow.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' '));
    let times: Vec<f64> = times.filter_map(|(time, _)| time.parse().ok()).collect();
    assert!(times.len() == 3 && times.iter().all(|ms| *ms >= 40.0), "{slow}");
    assert_eq!(lab.linkrate("adapter faults eth0 none").stdout, "eth0: none\n");
    let refused = lab.tried("adapter faults eth0 los=1%").expect_code(2).stderr;
    assert!(refused.contains("did you mean \"loss\"?"), "{refused}");
    let carrier = |expected: &str| {
        let carrier = || lab.run("sut", "cat /sys/class/net/eth0/carrier").stdout;
        assert!(wait_until(Duration::from_secs(5), || carrier().trim() == expected), "{expected}");
    };
    carrier("1");
    lab.linkrate("adapter link eth0 down");
    carrier("0");
    assert_eq!(lab.port("eth0")["link_up"], false);
    lab.linkrate("adapter link eth0 up");
    carrier("1");
    ping().expect_code(0);
}

#[test]
fn clients_reach_each_other_in_the_same_vlan_only() {
    needs!(root, "ping");
    let lab = Up::start("--adapter gigabit --clients-per-port 2");
    const OTHER: &str = "198.18.0.3";
    let ping = |from: &str, to: &str| {
        lab.run(from, &format!("ping -c 1 -W 1 {to}")).code().expect("an exit code") == 0
    };
    assert!(ping("client-0", OTHER) && ping("client-0", SUT), "before anything is set");
    let said = lab.linkrate("adapter vlan client-0 access=10").stdout;
    assert_eq!(said, "client-0: access 10\n");
    lab.linkrate("adapter vlan client-1 access=20");
    assert_eq!(lab.port("client-1")["vlans"]["access"], "20");
    assert!(!ping("client-0", OTHER) && !ping("client-1", CLIENT), "in different VLANs");
    assert!(!ping("client-0", SUT), "the port of the SUT has no tags");
    assert_eq!(lab.counter("client-0", "switchDropVlan"), 0, "they speak in their own VLANs");
    // the SUT is in the one, and then in the other
    lab.linkrate("adapter vlan eth0 access=10");
    assert!(ping("client-0", SUT) && !ping("client-1", SUT));
    lab.linkrate("adapter vlan eth0 access=20");
    assert!(!ping("client-0", SUT) && ping("client-1", SUT));
    // tagged by the SUT's adapter, a frame of another VLAN is filtered as it comes in
    lab.linkrate("adapter vlan eth0 trunk=30-40 native=20");
    assert!(ping("client-1", SUT));
    lab.linkrate("adapter vlan client-0 access=20");
    assert!(ping("client-0", OTHER) && ping("client-1", CLIENT), "in the same VLAN");
    lab.linkrate("adapter set eth0 vlan=7");
    assert!(!ping("sut", CLIENT));
    assert!(lab.counter("eth0", "switchDropVlan") > 0, "{}", lab.port("eth0"));
    for port in ["eth0", "client-0", "client-1"] {
        assert_eq!(
            lab.linkrate(&format!("adapter vlan {port} all")).stdout,
            format!("{port}: all\n")
        );
    }
    assert!(ping("sut", CLIENT) && ping("client-0", OTHER), "all of them tag with VLAN 7");
    for (words, said) in [
        ("vlan eth0 access=0", "access: invalid VLAN list \"0\""),
        ("vlan eth0 native=1", "native without trunk"),
        ("vlan eth0 all access=1", "all cannot be combined with VLANs"),
    ] {
        let refused = lab.tried(&format!("adapter {words}")).expect_code(2).stderr;
        assert!(refused.contains(said), "{refused}");
    }
    let cable = Up::start("--adapter gigabit");
    let refused = cable.tried("adapter vlan eth0 access=1").expect_code(2).stderr;
    assert!(refused.contains("only a switch has VLANs"), "{refused}");
}

#[test]
fn tshark_finds_nothing_wrong_with_a_capture() {
    needs!(root, "iperf3", "tshark");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("a.pcapng");
    let lab = Up::start("");
    let path = file.to_str().expect("a path that is text");
    lab.linkrate(&format!("adapter capture eth0 {path}"));
    let again = lab.tried(&format!("adapter capture eth0 {path}.2")).expect_code(1).stderr;
    assert!(again.contains("is being captured to"), "{again}");
    let (server, client) = lab.iperf3("-n 2M");
    client.wait().expect_code(0);
    server.wait();
    let captured = lab.linkrate("adapter capture eth0 --stop --json").json();
    let packets = captured["captured"]["packets"].as_u64().expect("a number");
    assert!(packets > 1000, "{captured}");
    assert_eq!(lab.counter("eth0", "captureLost"), 0);
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&file);
    for option in ["tcp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        tshark.args(["-o", option]);
    }
    tshark.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields", "-E", "occurrence=f"]);
    for field in [
        "frame.interface_name",
        "frame.len",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.checksum",
        "tcp.checksum_calculated",
        "_ws.malformed",
    ] {
        tshark.args(["-e", field]);
    }
    let read = Running::start(&mut tshark).wait().expect_code(0).stdout;
    assert_eq!(read.lines().count() as u64, packets);
    let (mut superframes, mut frames) = (0, 0);
    for line in read.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [side, length, ip, tcp, written, calculated, malformed] = fields[..] else {
            panic!("{line:?}")
        };
        assert_eq!(malformed, "", "{line}");
        let length: u32 = length.parse().expect("a length");
        if side.contains("host") {
            superframes += u32::from(length > 1514);
            continue;
        }
        frames += 1;
        assert!(length <= 1514, "{line}");
        assert!(ip != "0" && ip != "Bad", "{line}");
        // 0xffff and 0x0000 are one number in ones' complement, and Linux writes the former
        let same = (written, calculated) == ("0xffff", "0x0000");
        assert!((tcp != "0" && tcp != "Bad") || same, "{line}");
    }
    assert!(superframes > 20 && frames > 1000, "{superframes} superframes, {frames} frames");
}

#[test]
fn top_shows_the_traffic() {
    needs!(root, "iperf3");
    let lab = Up::start("");
    let (server, client) = lab.iperf3("-t 100");
    lab.await_traffic();
    let top = lab.linkrate("adapter top --interval 500ms --count 2 --json").stdout;
    let documents: Vec<Value> =
        top.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    assert_eq!(documents.len(), 2);
    for document in &documents {
        let port = &document["rates"]["ports"][0];
        let number = |name: &str| port[name].as_f64().unwrap_or_else(|| panic!("{port}"));
        assert_eq!(port["port"], "eth0");
        let rate = number("out_bits_per_second");
        assert!(rate > 0.05e9 && rate < 1.01e9, "{port}");
        // octets of a frame are all of the link's time but for preamble and gap
        let link = number("out_link_percent");
        assert!((link - rate / 1e7 * 1538.0 / 1518.0).abs() < 5.0, "{port}");
        assert!(number("segments_per_superframe") > 2.0, "{port}");
        for threads in ["driver_cpu_percent", "device_cpu_percent"] {
            assert!(document["rates"][threads].as_f64().is_some_and(|cpu| cpu > 0.0), "{document}");
        }
    }
    let text = lab.linkrate("adapter top --interval 200ms --count 3").stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("port ") && lines[1].starts_with("eth0 "), "{text}");
    let words = format!("adapter top --interval 100ms --name {}", lab.name);
    let endless = Running::start(&mut command(LINKRATE, &words));
    std::thread::sleep(Duration::from_millis(500));
    endless.signal(Signal::INT);
    endless.wait().expect_code(0);
    intervals(client);
    server.wait();
}
