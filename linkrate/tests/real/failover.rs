//! Ports of an aggregate that fail under traffic: who finds it, and how soon.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::up::{SUT, SUT_IPV6, Up, intervals};
use crate::common::{linkrate, tshark, wait_until};
use serde_json::Value;

/// The state of the aggregate of a lab.
fn aggregate(lab: &Up) -> Value {
    lab.linkrate("adapter aggregate --json").json()["aggregates"][0].clone()
}

fn members(lab: &Up) -> Vec<Value> {
    aggregate(lab)["members"].as_array().expect("members").clone()
}

/// Which ports carry traffic.
fn distributing(lab: &Up) -> Vec<bool> {
    members(lab).iter().map(|member| member["distributing"] == true).collect()
}

#[track_caller]
fn comes(lab: &Up, expected: &[bool]) {
    let came = wait_until(Duration::from_secs(15), || distributing(lab) == expected);
    assert!(came, "not {expected:?}: {:#?}", aggregate(lab));
}

fn all_up(lab: &Up) -> bool {
    members(lab).iter().all(|member| member["bfd"]["state"] == "Up")
}

#[test]
fn a_failover_group_moves_under_traffic_and_returns() {
    needs!(root, "iperf3");
    let lab = Up::start("--aggregate 3 --clients 1");
    lab.linkrate("adapter set agg0 mode=failover poll-interval=100");
    comes(&lab, &[true, false, false]);
    // the ports that were active before give up 100 ms later
    let collecting = || {
        let members = members(&lab);
        members.iter().map(|member| member["collecting"] == true).collect::<Vec<_>>()
    };
    assert!(wait_until(Duration::from_secs(5), || collecting() == [true, false, false]));
    // every port hears the others: the switch floods the polls
    let heard = || {
        members(&lab).iter().all(|member| {
            let failover = &member["failover"];
            failover["hears"] == true && failover["is-heard"] == true
        })
    };
    assert!(wait_until(Duration::from_secs(5), heard), "{:#?}", aggregate(&lab));
    let (server, client) = lab.iperf3("-t 100 -i 1 -P 2 -b 50M");
    lab.await_traffic();
    let before = Instant::now();
    lab.linkrate("adapter link eth0 down");
    comes(&lab, &[false, true, false]);
    eprintln!("carrier lost, command to state: {:?}", before.elapsed());
    assert_eq!(members(&lab)[1]["failover"]["cause"], "the active port lost its carrier");
    lab.linkrate("adapter link eth0 up");
    std::thread::sleep(Duration::from_secs(3));
    // it stays, because nobody told it to return
    assert_eq!(distributing(&lab), [false, true, false]);
    lab.linkrate("adapter set agg0 revert=on");
    comes(&lab, &[true, false, false]);
    let intervals = intervals(client);
    server.wait();
    assert!(intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    assert_eq!(aggregate(&lab)["counters"]["aggMoves"], 2);
}

/// An aggregate that was made on a running lab knows the addresses that it has to announce.
#[test]
fn an_aggregate_made_later_announces_its_addresses_after_a_move() {
    needs!(root, "tshark");
    let lab = Up::start("--aggregate 2");
    lab.linkrate("adapter aggregate remove agg0");
    lab.linkrate("adapter aggregate create eth0 eth1");
    lab.linkrate("adapter set agg0 mode=failover");
    comes(&lab, &[true, false]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("move.pcapng");
    lab.linkrate(&format!("adapter capture eth1 {}", file.display()));
    lab.linkrate("adapter link eth0 down");
    comes(&lab, &[false, true]);
    lab.linkrate("adapter capture eth1 --stop");
    let announced = tshark(&file, "arp.isgratuitous == 1", &["arp.src.proto_ipv4"]);
    assert!(announced.lines().any(|address| address == SUT), "announced: {announced:?}");
    let advertised = tshark(&file, "icmpv6.type == 136", &["icmpv6.nd.na.target_address"]);
    assert!(advertised.lines().any(|address| address == SUT_IPV6), "advertised: {advertised:?}");
}

#[test]
#[ignore = "exhaustive: another mode"]
fn bfd_runs_on_every_link_in_each_mode() {
    needs!(root, "tshark");
    let lab = Up::start("--aggregate 2");
    lab.linkrate("adapter set agg0 bfd=on");
    for (mode, expected) in
        [("manual", [true, true]), ("lacp", [true, true]), ("failover", [true, false])]
    {
        lab.linkrate(&format!("adapter set agg0 mode={mode}"));
        assert!(wait_until(Duration::from_secs(10), || all_up(&lab)), "{:#?}", aggregate(&lab));
        comes(&lab, &expected);
    }
    let text = lab.linkrate("adapter aggregate").stdout;
    assert!(text.contains("BFD Up (no diagnostic), every 40 ms, detection 120 ms"), "{text}");
    assert!(text.contains("polls: hears others"), "{text}");
    // a judge reads the packets of both ends
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bfd.pcapng");
    lab.linkrate(&format!("adapter capture eth1 {} --duration 2s", file.display()));
    let read = |filter: &str| tshark(&file, filter, &["eth.src", "bfd.sta", "ip.ttl"]);
    let all = read("bfd");
    assert!(all.lines().count() > 60, "both ends send at least each 40 ms: {all}");
    let senders: std::collections::BTreeSet<&str> =
        all.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(senders.len(), 2, "{all}");
    assert_eq!(read("bfd && (_ws.malformed || _ws.expert.severity >= 0x400000)"), "");
    // slower and more patient, while the sessions stay up: a change that costs a session costs it each time, other
    // programs that take the CPU for the 120 ms of a detection do not
    let losses =
        || members(&lab).iter().map(|member| member["bfd"]["losses"].as_u64()).collect::<Vec<_>>();
    let stays_up = (0..3).any(|_| {
        lab.linkrate("adapter set agg0 bfd-interval=40 bfd-multiplier=3");
        assert!(wait_until(Duration::from_secs(10), || all_up(&lab)), "{:#?}", aggregate(&lab));
        let before = losses();
        lab.linkrate("adapter set agg0 bfd-interval=100 bfd-multiplier=5");
        let slower = "BFD Up (no diagnostic), every 100 ms, detection 500 ms";
        let is_slower = || lab.linkrate("adapter aggregate").stdout.matches(slower).count() == 2;
        assert!(wait_until(Duration::from_secs(5), is_slower), "{:#?}", aggregate(&lab));
        losses() == before
    });
    assert!(stays_up, "{:#?}", members(&lab));
    lab.linkrate("adapter set agg0 bfd=off mode=manual");
    comes(&lab, &[true, true]);
    assert!(members(&lab)[0]["bfd"].is_null());
}

#[test]
fn standby_ports_and_other_speeds_say_why_they_carry_nothing() {
    needs!(root);
    let lab = Up::start("--aggregate 3");
    lab.linkrate("adapter set agg0 mode=lacp max-active=1 preferred-port=1");
    comes(&lab, &[false, true, false]);
    assert_eq!(members(&lab)[0]["lacp"]["selection"], "standby");
    lab.linkrate("adapter set agg0 max-active=0");
    comes(&lab, &[true; 3]);
    lab.linkrate("adapter link eth2 100M");
    comes(&lab, &[true, true, false]);
    let says_why = || {
        let why = members(&lab)[2]["lacp"]["selection"].as_str().unwrap_or_default().to_owned();
        why.contains("speed")
    };
    assert!(wait_until(Duration::from_secs(5), says_why), "{:#?}", members(&lab)[2]);
    // counters by the names of the MIB, and of the aggregator in 802.1AX
    let aggregate = aggregate(&lab);
    let lacpdus = &aggregate["members"][0]["lacp"]["counters"]["dot3adAggPortStatsLACPDUsRx"];
    assert!(lacpdus.as_u64().is_some_and(|count| count > 0), "{aggregate:#?}");
    let counters = &aggregate["counters"];
    assert!(counters["aAggControlFramesTx"].as_u64().is_some_and(|count| count > 3), "{counters}");
    // nobody sends anything but the protocol, and the kernel a little
    assert!(counters["aAggFramesTxOK"].as_u64().is_some_and(|count| count < 60), "{counters}");
}

/// The time from a fault inside a run until each end of the aggregate stopped, ms: the longest of `count`
/// runs, or none if it did not stop in one of them.
fn detected(count: usize, event: &str, workload: &str) -> [Option<f64>; 2] {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("study.toml");
    let text = format!(
        "title = \"a fault\"\n[testbed]\nadapter = \"gigabit\"\naggregate = 3\nclients = 1\n\
         scale = 0.1\n[workload]\nkind = \"stream\"\ndirection = \"transmit\"\nconnections = 4\n\
         event-at = \"500 ms\"\n{workload}\n[factors]\nevent = [\"{event}\"]\n\
         [method]\nblocks = {{ min = {count}, max = {count} }}\nrun = \"1500 ms\"\n\
         warm-up = \"200 ms\"\nidle = \"0 s\"\nseed = 1\n\
         purpose = \"functions\"\n"
    );
    fs::write(&file, text).unwrap();
    let output = directory.path().join("out");
    linkrate(&format!("run {} --output {}", file.display(), output.display())).expect_code(0);
    let runs = fs::read_to_string(output.join("runs.jsonl")).unwrap();
    let runs: Vec<Value> = runs.lines().map(|run| serde_json::from_str(run).unwrap()).collect();
    let failures: Vec<&Value> = runs.iter().filter_map(|run| find(run, "failure")).collect();
    assert_eq!(failures.len(), count, "{runs:#?}");
    assert!(failures.iter().all(|failure| failure["wrong_bytes"] == 0));
    ["host_detected_ns", "switch_detected_ns"].map(|key| {
        let each: Option<Vec<f64>> = failures.iter().map(|one| one[key].as_f64()).collect();
        each?.into_iter().reduce(f64::max).map(|ns| ns / 1e6)
    })
}

/// The object under a key, wherever it is.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields
            .get(key)
            .filter(|found| found.is_object())
            .or_else(|| fields.values().find_map(|field| find(field, key))),
        Value::Array(items) => items.iter().find_map(|item| find(item, key)),
        _ => None,
    }
}

/// 120 ms of silence, and the turns of the threads. A machine that is busy takes longer.
const DETECTION_MS: f64 = 1000.0;

#[test]
fn bfd_finds_what_fails_in_silence() {
    needs!(root);
    for (mode, event) in
        [("manual", "silent-transmit"), ("lacp", "silent-receive"), ("failover", "silent")]
    {
        let found = detected(2, event, &format!("mode = \"{mode}\"\nbfd = true"));
        eprintln!("{mode}, {event}, BFD: host {:?} ms, switch {:?} ms", found[0], found[1]);
        let host = found[0].unwrap_or_else(|| panic!("{mode}: not found"));
        assert!(host < DETECTION_MS, "{mode}: {host} ms");
        if mode != "failover" {
            let switch = found[1].unwrap_or_else(|| panic!("{mode}: not found by the switch"));
            assert!(switch < DETECTION_MS, "{mode}: {switch} ms");
        }
    }
}

#[test]
fn polls_and_carrier_move_a_failover_group() {
    needs!(root);
    let knobs = "mode = \"failover\"\npoll-interval = 100\ndead-count = 3";
    // what failed in the runs before holds no port down
    for (count, event, limit) in [(4, "silent", 600.0), (2, "carrier", 100.0)] {
        let [host, _] = detected(count, event, knobs);
        eprintln!("failover, {event}: host {host:?} ms");
        assert!(host.is_some_and(|host| host < limit), "{event}: {host:?} ms");
    }
}
