//! Two switches, and a router between an aggregate and its clients, on real traffic.

use std::time::Duration;

use crate::common::up::Up;
use crate::common::{linkrate, wait_until};
use serde_json::Value;

/// The first client behind a router.
const BEHIND: &str = "198.19.255.2";

/// The same client over IPv6.
const BEHIND_IPV6: &str = "2001:2::c613:ff02";

/// The ports of the aggregate of a lab.
fn members(lab: &Up) -> Vec<Value> {
    let document = lab.linkrate("adapter aggregate --json").json();
    document["aggregates"][0]["members"].as_array().expect("members").clone()
}

/// Eight clients have one Ethernet address before the router, so that balancing by MAC gives all of them
/// one port in both directions; balancing by port spreads them.
#[test]
#[ignore = "exhaustive: four seconds alone on the machine"]
fn balancing_by_mac_sees_one_station_behind_a_router() {
    needs!(root);
    let measure = |balance: &str| {
        let words = "measure --aggregate 4 --clients 8 --router --scale 0.1 --direction bidirectional \
                     --runs 1 --time 500ms --json";
        let with = format!("{words} --balance {balance} --switch-balance {balance}");
        linkrate(&with).json()
    };
    let by_mac = measure("mac");
    let by_port = measure("port");
    for direction in [0, 1] {
        let predicted = |document: &Value| document["cells"][0]["predicted"][direction].clone();
        let first = |document: &Value, key: &str| {
            predicted(document)["ports"][0][key].as_f64().unwrap_or_else(|| panic!("{document}"))
        };
        assert_eq!(first(&by_mac, "flows"), 8.0, "{}", predicted(&by_mac));
        assert_eq!(first(&by_mac, "share_percent"), 100.0);
        assert!(first(&by_mac, "measured_percent") > 90.0, "{}", predicted(&by_mac));
        assert!(first(&by_port, "flows") < 8.0, "{}", predicted(&by_port));
        assert!(first(&by_port, "measured_percent") < 80.0, "{}", predicted(&by_port));
    }
    let rate = |document: &Value| document["cells"][0]["throughput"]["mean"].as_f64().unwrap();
    // one port at a tenth of a gigabit, both ways
    assert!(rate(&by_mac) < 200e6 && rate(&by_port) > 1.3 * rate(&by_mac), "{by_mac} {by_port}");
}

#[test]
fn a_router_forwards_with_one_hop_less() {
    needs!(root, "ping");
    let lab = Up::start("--aggregate 2 --clients 2 --router");
    let reached = lab.run("sut", &format!("ping -c 2 -W 2 {BEHIND}"));
    // 64 at the sender, one less at each way through the router
    assert!(reached.stdout.contains("ttl=63"), "{}", reached.stdout);
    let last = lab.run("sut", &format!("ping -c 1 -W 1 -t 1 {BEHIND}"));
    assert_ne!(last.code(), Some(0), "the router took the last hop: {}", last.stdout);
    let shown = lab.linkrate("lab show").stdout;
    assert!(shown.contains("router, 198.18.0.254 to the sut"), "{shown}");
    // traceroute shows the router, and it answers for itself
    assert!(last.stdout.contains("From 198.18.0.254"), "{}", last.stdout);
    assert_eq!(lab.run("sut", "ping -c 1 -W 2 198.18.0.254").code(), Some(0));
    let nowhere = lab.run("sut", "ping -c 1 -W 1 192.0.2.1");
    assert!(nowhere.stdout.contains("Destination Net Unreachable"), "{}", nowhere.stdout);
    let reached = lab.run("sut", &format!("ping -c 2 -W 2 {BEHIND_IPV6}"));
    assert!(reached.stdout.contains("ttl=63"), "{}", reached.stdout);
    let last = lab.run("sut", &format!("ping -c 1 -W 1 -t 1 {BEHIND_IPV6}"));
    assert!(last.stdout.contains("From 2001:2::c612:fe"), "{}", last.stdout);
    let large = lab.run("client-1", "ping -c 2 -W 2 -s 4000 198.18.0.1");
    assert_eq!(large.code(), Some(0), "fragments: {}", large.stdout);
}

/// Two switches are two partners: the ports on the second one stay out, and the state says why.
#[test]
fn ports_on_two_switches_have_two_partners() {
    needs!(root, "ping");
    let lab = Up::start("--aggregate 4 --clients 2 --switches 2");
    lab.linkrate("adapter set agg0 mode=lacp");
    let settled = || {
        let carry: Vec<bool> = members(&lab).iter().map(|m| m["distributing"] == true).collect();
        carry == [true, false, true, false] || carry == [false, true, false, true]
    };
    assert!(wait_until(Duration::from_secs(15), settled), "{:?}", members(&lab));
    let members = members(&lab);
    for member in members.iter().filter(|member| member["distributing"] != true) {
        assert_ne!(member["lacp"]["selection"], "selected", "{member}");
        assert!(member["lacp"]["selection"].as_str().is_some_and(|why| why.len() > 8), "{member}");
    }
    let partner = |at: usize| {
        let partner = members[at]["lacp"]["partner"].as_str().unwrap_or_default().to_owned();
        partner.split(", port").next().map(str::to_owned)
    };
    assert_eq!((partner(0), partner(1)), (partner(2), partner(3)));
    assert_ne!(partner(0), partner(1));
    // clients are on the second switch: over the link between the switches or not
    let reached = || lab.run("sut", "ping -c 1 -W 1 198.18.0.2").code() == Some(0);
    assert!(wait_until(Duration::from_secs(10), reached));
    let shown = lab.linkrate("lab show").stdout;
    assert!(shown.contains("switch 0: eth0, eth2\n"), "{shown}");
    assert!(shown.contains("switch 1: eth1, eth3, client-0, client-1\n"), "{shown}");
    // the same ports are made an aggregate again, over both switches
    lab.linkrate("adapter aggregate remove agg0");
    let refused = lab.tried("adapter aggregate create eth0 eth1").expect_code(2).stderr;
    assert!(refused.contains("port eth2 is on the same segment"), "{refused}");
    lab.linkrate("adapter aggregate create eth0 eth1 eth2 eth3");
    lab.linkrate("adapter set agg0 mode=failover preferred-port=1");
    assert!(wait_until(Duration::from_secs(10), reached));
}

#[test]
fn an_aggregate_is_taken_apart_and_made_again() {
    needs!(root, "ping");
    let lab = Up::start("--aggregate 2 --clients 2");
    let reaches = |address: &str| {
        let ping = format!("ping -c 1 -W 1 {address}");
        wait_until(Duration::from_secs(10), || lab.run("sut", &ping).code() == Some(0))
    };
    assert!(reaches("198.18.0.3"));
    let member = lab.tried("adapter aggregate create eth0 eth1");
    assert!(member.stderr.contains("port eth0 is a port of agg0 already"), "{}", member.stderr);
    lab.linkrate("adapter aggregate remove agg0");
    let interfaces = || {
        let names = lab.run("sut", "ls /sys/class/net").stdout;
        names.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(interfaces(), ["eth0", "eth1", "lo"]);
    // each port leads to its share of the clients
    assert!(reaches("198.18.0.2") && reaches("198.18.1.3"));
    let frames = lab.counter("eth1", "ifHCOutUcastPkts");
    assert!(frames > 0, "{frames}");
    for (ports, said) in [
        ("eth0", "port eth1 is on the same segment and not named"),
        ("eth0 eth0", "port eth0 is named twice"),
        ("eth0 eth9", "no port \"eth9\""),
    ] {
        let refused = lab.tried(&format!("adapter aggregate create {ports}"));
        assert!(refused.code() != Some(0) && refused.stderr.contains(said), "{}", refused.stderr);
    }
    lab.linkrate("adapter link eth1 100M");
    let slower = lab.tried("adapter aggregate create eth0 eth1");
    assert!(slower.stderr.contains("expected one rate"), "{}", slower.stderr);
    lab.linkrate("adapter link eth1 1G");
    let created = lab.linkrate("adapter aggregate create eth1 eth0 --json").json();
    assert_eq!(created["created"]["aggregate"], "agg0", "{created}");
    assert_eq!(interfaces(), ["agg0", "lo"]);
    assert!(reaches("198.18.0.2") && reaches("198.18.0.3"));
    lab.linkrate("adapter aggregate set agg0 mode=lacp");
    let settled = || members(&lab).iter().all(|member| member["distributing"] == true);
    assert!(wait_until(Duration::from_secs(15), settled), "{:?}", members(&lab));
    assert!(reaches("198.18.0.3"));
}
