//! Aggregates on real traffic: ports that act as one, with the switch as partner.

use std::time::Duration;

use crate::common::up::{CLIENT, Up, intervals, rates};
use crate::common::{linkrate, tshark, wait_until};
use serde_json::Value;

/// The ports of the aggregate of a lab.
fn members(lab: &Up) -> Vec<Value> {
    let document = lab.linkrate("adapter aggregate --json").json();
    document["aggregates"][0]["members"].as_array().expect("members").clone()
}

/// Which ports carry traffic.
fn distributing(lab: &Up) -> Vec<bool> {
    members(lab).iter().map(|member| member["distributing"] == true).collect()
}

fn comes(lab: &Up, expected: &[bool]) -> bool {
    wait_until(Duration::from_secs(15), || distributing(lab) == expected)
}

#[test]
fn ports_agree_by_lacp_fail_and_come_back_under_traffic() {
    needs!(root, "iperf3", "ping");
    let lab = Up::start("--aggregate 3 --clients 2");
    let set = lab.linkrate("adapter set agg0 mode=lacp balance=port --json").json();
    assert_eq!(set["set"]["settings"]["mode"], "lacp", "{set}");
    assert!(comes(&lab, &[true; 3]), "{:?}", members(&lab));
    for member in members(&lab) {
        let lacp = &member["lacp"];
        assert_eq!(lacp["selection"], "selected", "{lacp}");
        assert_eq!(lacp["mux"], "DISTRIBUTING", "{lacp}");
        assert_eq!(lacp["receive"], "CURRENT", "{lacp}");
        assert!(lacp["partner"].as_str().is_some_and(|partner| partner.contains("key")), "{lacp}");
        assert_eq!(lacp["counters"]["dot3adAggPortStatsIllegalRx"], 0, "{lacp}");
    }
    for words in ["adapter show", "adapter show agg0"] {
        let shown = lab.linkrate(words).stdout;
        assert!(shown.contains("mux DISTRIBUTING") && shown.contains("partner system"), "{shown}");
    }
    // the partner that a port meets is the same on all
    let partner = |member: &Value| member["lacp"]["partner"].as_str().map(str::to_owned);
    let of_port = |member: Value| partner(&member)?.split(", port").next().map(str::to_owned);
    let partners: Vec<_> = members(&lab).into_iter().map(of_port).collect();
    assert!(partners.iter().all(|one| one.is_some() && *one == partners[0]), "{partners:?}");
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 6 -b 20M");
    lab.await_traffic();
    lab.linkrate("adapter link eth1 down");
    assert!(comes(&lab, &[true, false, true]), "{:?}", members(&lab));
    lab.linkrate("adapter link eth1 up");
    assert!(comes(&lab, &[true; 3]), "{:?}", members(&lab));
    // a port leaves, and joins
    lab.linkrate("adapter set agg0 aggregate=2");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    lab.linkrate("adapter set agg0 aggregate=3");
    assert!(comes(&lab, &[true; 3]), "{:?}", members(&lab));
    let intervals = intervals(client);
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    for port in ["eth0", "eth1", "eth2"] {
        assert!(lab.counter(port, "ifHCOutUcastPkts") > 100, "{port}");
    }
    // with every link down the interface has no carrier, and with one it has
    let carrier = || lab.run("sut", "cat /sys/class/net/agg0/carrier").stdout.trim().to_owned();
    for port in ["eth0", "eth1", "eth2"] {
        lab.linkrate(&format!("adapter link {port} down"));
    }
    assert!(wait_until(Duration::from_secs(5), || carrier() == "0"), "a carrier without a link");
    lab.linkrate("adapter link eth2 up");
    assert!(wait_until(Duration::from_secs(15), || carrier() == "1"), "{:?}", members(&lab));
    let reached = || lab.run("sut", &format!("ping -c 1 -W 1 {CLIENT}")).code() == Some(0);
    assert!(wait_until(Duration::from_secs(10), reached), "{:?}", members(&lab));
}

#[test]
fn tshark_reads_what_both_partners_send() {
    needs!(root, "tshark");
    let lab = Up::start("--aggregate 2");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lacp.pcapng");
    lab.linkrate("adapter set agg0 mode=lacp");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    lab.linkrate(&format!("adapter capture eth0 {} --duration 4s", file.display()));
    let read = |filter: &str| tshark(&file, filter, &["eth.src", "lacp.actor.state.distributing"]);
    let all = read("lacp");
    let senders: std::collections::BTreeSet<&str> =
        all.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(senders.len(), 2, "{all}");
    assert!(all.lines().all(|line| line.ends_with("True") || line.ends_with('1')), "{all}");
    assert_eq!(read("slow && (_ws.malformed || lacp.version != 1)"), "");
}

#[test]
fn an_aggregate_has_no_tso_unless_it_is_lifted() {
    needs!(root, "ethtool");
    let lab = Up::start("--aggregate 2");
    let tso = || {
        let features = lab.run("sut", "ethtool -k agg0").expect_code(0).stdout;
        features.contains("tcp-segmentation-offload: on")
    };
    assert!(!tso());
    let refused = lab.tried("adapter set agg0 offload=tso").expect_code(2).stderr;
    assert!(refused.contains("aggregate-tso"), "{refused}");
    lab.linkrate("adapter set agg0 aggregate-tso=on");
    assert!(tso());
    lab.linkrate("adapter set agg0 aggregate-tso=off");
    assert!(!tso());
    for (words, said) in [
        ("eth0 lro=on", "linkrate adapter set agg0"),
        ("agg0 aggregate=3", "aggregate 3 is above that of the testbed"),
        ("agg0 mode=bonding", "expected one of manual, lacp, failover"),
    ] {
        let refused = lab.tried(&format!("adapter set {words}")).expect_code(2).stderr;
        assert!(refused.contains(said), "{refused}");
    }
    let refused = lab.tried("adapter aggregate agg1").expect_code(2).stderr;
    assert!(refused.contains("no aggregate \"agg1\""), "{refused}");
}

#[test]
fn eight_clients_use_every_port_in_each_direction() {
    needs!(root);
    for direction in ["transmit", "receive"] {
        let words = format!(
            "measure --aggregate 4 --clients 8 --mode lacp --balance mac --switch-balance mac \
             --direction {direction} --scale 0.1 --time 500ms --runs 1 --json --purpose functions"
        );
        let document = linkrate(&words).expect_code(0).json();
        let cell = &document["cells"][0];
        // each port of the aggregate is in the evidence, and none was idle
        let ports = cell["evidence"]["adapter"]["ports"].as_array().expect("ports");
        let busy = if direction == "transmit" { "tx_link_percent" } else { "rx_link_percent" };
        let busy: Vec<f64> = ports.iter().filter_map(|port| port[busy].as_f64()).collect();
        assert!(busy.len() == 4 && busy.iter().all(|percent| *percent > 50.0), "{busy:?}");
        let limit = 4.0 * 94.148e6;
        let rate = cell["throughput"]["mean"].as_f64().expect("a rate");
        // two clients share each port; a machine that is busy reaches less, or has payload of the time before in the window
        assert!((0.6 * limit..=1.04 * limit).contains(&rate), "{direction}: {rate}");
    }
}

#[test]
fn frames_that_round_robin_reorders_are_counted() {
    needs!(root);
    let measured = |balance: &str| {
        let words = format!(
            "measure --aggregate 4 --clients 4 --balance {balance} --direction bidirectional \
             --scale 0.1 --time 500ms --runs 1 --json --purpose functions"
        );
        linkrate(&words).expect_code(0).json()
    };
    // acknowledgements between the data make one port's queue longer than the other one's
    let counted =
        |document: &Value| document["cells"][0]["evidence"]["adapter"]["frames_overtaken"].as_f64();
    let round_robin = measured("round-robin");
    assert!(counted(&round_robin).is_some_and(|frames| frames > 10.0), "{round_robin}");
    assert_eq!(counted(&measured("port")), None, "nothing is to be counted");
}

/// Both ends put the tag on their packets. Frames of the protocols have none, and pass.
#[test]
fn an_aggregate_in_a_vlan_carries_traffic_and_keeps_its_partner() {
    needs!(root, "iperf3", "tshark", "ping");
    let lab = Up::start("--aggregate 2 --clients 2");
    lab.linkrate("adapter set agg0 mode=lacp balance=port switch-balance=port vlan=100");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    for port in ["eth0", "eth1", "client-0", "client-1"] {
        assert_eq!(lab.port(port)["knobs"]["port"]["vlan"], 100, "{port}");
    }
    let reaches = |address: &str| {
        let ping = format!("ping -c 1 -W 1 {address}");
        wait_until(Duration::from_secs(10), || lab.run("sut", &ping).code() == Some(0))
    };
    assert!(reaches(CLIENT) && reaches("198.18.0.3"));
    let directory = tempfile::tempdir().unwrap();
    let files = ["eth0", "eth1"].map(|port| (port, directory.path().join(port)));
    for (port, file) in &files {
        lab.linkrate(&format!("adapter capture {port} {}", file.display()));
    }
    let (server, client) = lab.iperf3("-t 3 -i 1 -P 6 -b 20M");
    let (_, intervals) = rates(client.wait());
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    for (port, file) in &files {
        lab.linkrate(&format!("adapter capture {port} --stop"));
        let on_link = "!(frame.interface_name contains \"host\")";
        let tags = tshark(file, &format!("tcp && {on_link}"), &["vlan.id"]);
        assert!(tags.lines().count() > 100, "{port} carries its part");
        assert!(tags.lines().all(|tag| tag == "100"), "{port}: {tags}");
        let lacp = tshark(file, "lacp", &["vlan.id"]);
        assert!(lacp.lines().count() > 1 && lacp.lines().all(str::is_empty), "{port}: {lacp}");
    }
    // the ports of the switch are members of that VLAN, and one of another
    for port in ["eth0", "eth1", "client-0"] {
        lab.linkrate(&format!("adapter vlan {port} trunk=100"));
    }
    lab.linkrate("adapter vlan client-1 trunk=200");
    assert!(reaches(CLIENT));
    let other = lab.run("sut", "ping -c 1 -W 1 198.18.0.3");
    assert_ne!(other.code(), Some(0), "across VLANs: {}", other.stdout);
    assert_eq!(distributing(&lab), [true; 2]);
    // a failover group announces itself in its VLAN
    lab.linkrate("adapter set agg0 mode=failover");
    assert!(comes(&lab, &[true, false]), "{:?}", members(&lab));
    lab.linkrate("adapter link eth0 down");
    assert!(comes(&lab, &[false, true]), "{:?}", members(&lab));
    assert!(reaches(CLIENT));
}

/// Drivers on several CPUs have a queue each, and the first one decides for all.
#[test]
#[ignore = "exhaustive: several CPUs"]
fn drivers_on_several_cpus_follow_one_decision() {
    needs!(root, "iperf3");
    let lab = Up::start(
        "--adapter ten-gigabit --aggregate 3 --clients 1 --scale 0.05 --sut-cpus 0-1 --client-cpus 0-1",
    );
    lab.linkrate("adapter set agg0 mode=lacp balance=port switch-balance=port");
    assert!(comes(&lab, &[true; 3]), "{:?}", members(&lab));
    let queues = lab.run("sut", "ls /sys/class/net/agg0/queues").stdout;
    assert!(queues.matches("tx-").count() > 1, "one queue: {queues}");
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 12 --bidir");
    lab.await_traffic();
    lab.linkrate("adapter link eth0 down");
    assert!(comes(&lab, &[false, true, true]), "{:?}", members(&lab));
    let before = lab.counter("eth0", "txDropLinkDown");
    lab.await_traffic();
    // every driver has left the port, and not the one alone that decides
    assert_eq!(lab.counter("eth0", "txDropLinkDown"), before);
    lab.linkrate("adapter link eth0 up");
    assert!(comes(&lab, &[true; 3]), "{:?}", members(&lab));
    intervals(client);
    server.wait();
    for port in ["eth0", "eth1", "eth2"] {
        assert!(lab.counter(port, "ifHCOutUcastPkts") > 100, "{port}");
    }
}

#[test]
#[ignore = "exhaustive: a quarter of a minute beside one other"]
fn ports_are_removed_and_added_under_traffic() {
    needs!(root, "iperf3");
    let lab = Up::start("--aggregate 3 --clients 2 --scale 0.2 --mode lacp --balance port");
    // they have agreed before the lab is there
    assert_eq!(distributing(&lab), [true; 3], "{:?}", members(&lab));
    lab.linkrate("adapter faults eth0 delay=100us");
    // windows that drain from a port within the 80 ms that packets wait for that
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 6 -b 20M -w 64K");
    lab.await_traffic();
    let names = || -> Vec<String> {
        members(&lab).iter().filter_map(|of| Some(of["port"].as_str()?.to_owned())).collect()
    };
    // (system of the partner, its port number) of each port
    let partners = || -> Vec<String> {
        let partner = |of: &Value| Some(of["lacp"]["partner"].as_str()?.to_owned());
        members(&lab).iter().filter_map(partner).collect()
    };
    let port_number =
        |partner: &String| partner.split("port ").nth(1)?.split(',').next()?.parse().ok();
    // the last one, one between others, the first one, and two at once
    for (gone, left) in [
        (&["eth2"][..], &["eth0", "eth1"][..]),
        (&["eth1"], &["eth0", "eth2"]),
        (&["eth0"], &["eth1", "eth2"]),
        (&["eth0", "eth1"], &["eth2"]),
    ] {
        for port in gone {
            lab.linkrate(&format!("adapter remove {port}"));
        }
        assert!(comes(&lab, &vec![true; left.len()]), "{:?}", members(&lab));
        assert_eq!(names(), left);
        // the faults of a segment do not depend on its ports
        assert_eq!(lab.port(left[0])["faults"]["delay"], "100 us", "{:?}", lab.port(left[0]));
        let words = format!("adapter add --ports {} --json", gone.len());
        let added = lab.linkrate(&words).json();
        let expected = serde_json::to_value(gone).unwrap();
        assert_eq!(added["added"]["ports"], expected, "{added}");
        assert!(comes(&lab, &[true; 3]), "{:?}", members(&lab));
        assert_eq!(names(), ["eth0", "eth1", "eth2"]);
        let numbers: Vec<u32> = partners().iter().filter_map(port_number).collect();
        assert_eq!(numbers, [1, 2, 3], "{:?}", partners());
        // flows of the host come to it although they are never silent, and not the silent one of iperf3 alone
        for port in gone {
            let is_used = || lab.counter(port, "ifHCOutUcastPkts") > 100;
            assert!(wait_until(Duration::from_secs(5), is_used), "{port} carries nothing");
        }
    }
    let intervals = intervals(client);
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    // the one that joined first carried all while the others were away
    assert!(lab.counter("eth2", "ifHCOutUcastPkts") > 100);
    // neither end dropped a frame
    let shown = lab.linkrate("adapter aggregate --json").json();
    let counters = &shown["aggregates"][0]["counters"];
    for counter in ["aggDropNoPort", "aggDropNotCollecting", "aggDropQueueFull"] {
        assert_eq!(counters[counter], 0, "{counters}");
    }
    for port in ["eth0", "eth1", "eth2"] {
        assert_eq!(lab.counter(port, "switchDropNotCollecting"), 0, "{port}");
    }
    // the only port takes the aggregate with it
    lab.linkrate("adapter remove agg0");
    assert!(lab.linkrate("adapter show --json").json()["ports"].as_array().unwrap().is_empty());
}

#[test]
#[ignore = "exhaustive: the same by a program of a user"]
fn connections_of_a_program_return_from_a_toe_and_go_there_again_as_ports_fail_leave_and_join() {
    needs!(root, "iperf3");
    let lab = Up::start("--adapter toe --aggregate 2 --clients 1 --mode lacp --balance port");
    lab.linkrate("adapter set agg0 toe=on");
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 2 -b 50M");
    let moves = |kind: &str| -> u64 {
        let document = lab.linkrate("adapter toe show --json").json();
        document["toe"]["moves"][kind].as_u64().unwrap_or(0)
    };
    // one for its own messages, and two streams
    let come = |kind: &str, count| wait_until(Duration::from_secs(10), || moves(kind) >= count);
    assert!(come("down", 3), "{:?}", lab.linkrate("adapter toe show").stdout);
    lab.linkrate("adapter link eth0 down");
    assert!(come("up.carrier", 3) && come("down", 6));
    lab.linkrate("adapter link eth0 up");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    lab.linkrate("adapter remove eth1");
    assert!(come("up.port-left", 3) && come("down", 9));
    lab.linkrate("adapter add");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    let intervals = intervals(client);
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    assert_eq!(lab.counter("eth0", "toeHostSegments"), 0);
}

#[test]
fn flows_leave_a_port_after_the_partner_has_answered_a_marker() {
    needs!(root, "iperf3");
    let lab = Up::start("--aggregate 2 --clients 1");
    lab.linkrate("adapter set agg0 mode=lacp marker=on");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 6 -b 20M");
    lab.linkrate("adapter link eth1 down");
    assert!(comes(&lab, &[true, false]), "{:?}", members(&lab));
    let markers = |counter: &str| -> u64 {
        let count = |member: &Value| {
            member["lacp"]["counters"][format!("dot3adAggPortStats{counter}")].as_u64()
        };
        members(&lab).iter().filter_map(count).sum()
    };
    let before = markers("MarkerPDUsTx");
    // flows leave eth0 for the port that comes back
    lab.linkrate("adapter link eth1 up");
    assert!(comes(&lab, &[true; 2]), "{:?}", members(&lab));
    let answered = || markers("MarkerResponsePDUsRx") > before;
    assert!(wait_until(Duration::from_secs(5), answered), "{:?}", members(&lab));
    assert_eq!(markers("MarkerPDUsTx"), markers("MarkerResponsePDUsRx"));
    let intervals = intervals(client);
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
}

/// Drivers tell the devices of all ports the queue of a flow: the switch may bring it by any of them.
#[test]
fn each_port_steers_and_merges_what_it_receives() {
    needs!(root, "iperf3");
    let lab = Up::start(
        "--adapter ten-gigabit --aggregate 2 --clients 1 --scale 0.05 --sut-cpus 0-1 --client-cpus 0-1",
    );
    lab.linkrate(
        "adapter set agg0 balance=port switch-balance=port lro=on steering=destination-port",
    );
    let (server, client) = lab.iperf3("-t 3 -P 8 -R");
    client.wait().expect_code(0);
    server.wait();
    for port in ["eth0", "eth1"] {
        let count = |counter| lab.counter(port, counter);
        assert!(count("rxMergedFrames") > 100, "{port}: {}", count("rxMergedFrames"));
        assert!(count("steeringHits") > 100, "{port}: {}", count("steeringHits"));
        assert!(count("steeringUpdates") > 0, "{port}");
    }
}

/// The frames of the protocols are not behind the packets: a session lives on one LACPDU in three
/// seconds, which has to come through while every CPU is busy.
#[test]
#[ignore = "exhaustive: 64 ports"]
fn sixty_four_ports_keep_their_sessions_while_traffic_fills_the_cpus() {
    needs!(root, "iperf3");
    let lab = Up::start("--aggregate 64 --clients 1");
    lab.linkrate("adapter set agg0 mode=lacp balance=port switch-balance=port");
    assert!(comes(&lab, &[true; 64]), "{:?}", distributing(&lab));
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 16 --bidir");
    for _ in 0..5 {
        std::thread::sleep(Duration::from_secs(1));
        for member in members(&lab) {
            assert_eq!(member["distributing"], true, "{member}");
            assert_eq!(member["lacp"]["receive"], "CURRENT", "{member}");
        }
    }
    intervals(client);
    server.wait();
    for member in members(&lab) {
        // it was never renewed in between
        let counters = &member["lacp"]["counters"];
        assert_eq!(counters["dot3adAggPortDebugActorSyncTransitionCount"], 1, "{counters}");
    }
}
