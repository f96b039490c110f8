//! netperf as the client of `linkrate serve`: it judges the server, and the server's lines are held against what it
//! measured.

use std::time::Duration;

use crate::common::ends::{Served, await_connections};
use crate::common::{Running, at_once, command};
use rustix::process::Signal;
use serde_json::Value;

/// netperf as a client of the server.
fn client(server: &Served, options: &str) -> Running {
    let words = format!("-4 -H 127.0.0.1 -p {} -P 0 {options}", server.port);
    Running::start(&mut command("netperf", &words))
}

/// Ends the server, and returns the lines of tests.
fn tests_of(server: Served) -> Vec<Value> {
    let mut lines = server.end();
    lines.retain(|line| !line["test"].is_null());
    lines
}

/// The figure that netperf prints for a selector of its `-k` output.
fn reported(output: &str, selector: &str) -> f64 {
    let found = output.lines().find_map(|line| line.strip_prefix(&format!("{selector}=")));
    let figure = found.unwrap_or_else(|| panic!("{selector} in {output}"));
    figure.trim().parse().expect("a number")
}

/// What the buffers of a sending and of a receiving TCP socket hold at most, octets.
fn largest_buffers() -> f64 {
    let largest = ["tcp_wmem", "tcp_rmem"].map(|name| {
        let text =
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("a setting");
        text.split_whitespace().last().and_then(|last| last.parse::<f64>().ok()).expect("a size")
    });
    largest.iter().sum()
}

#[test]
fn netperf_measures_streams_to_and_from_the_server() {
    needs!("netperf");
    const SELECTORS: &str = "THROUGHPUT,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD,REMOTE_CPU_UTIL";
    for (name, here, there, ours) in [
        ("TCP_STREAM", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD", "received_bytes"),
        ("TCP_MAERTS", "LOCAL_BYTES_RECVD", "REMOTE_BYTES_SENT", "sent_bytes"),
    ] {
        let server = Served::start("netperf", "");
        let words = format!("-t {name} -l 1 -c -C -- -k {SELECTORS}");
        let output = client(&server, &words).wait().expect_code(0).stdout;
        let [line] = &tests_of(server)[..] else { panic!("{name}: one line for one test") };
        assert_eq!((&line["test"], &line["ended"]), (&name.into(), &"complete".into()), "{line:#}");
        let counted = line[ours].as_f64().expect("octets");
        assert_eq!(counted, reported(&output, there), "netperf shows what the server counted");
        // a receiver whose time is up does not count what both sockets still have
        let allowed = if here == "LOCAL_BYTES_RECVD" { largest_buffers() } else { 0.005 * counted };
        let difference = (counted - reported(&output, here)).abs();
        assert!(difference <= allowed, "{name}: {output}\n{line:#}");
        assert!((1.0..=100.0).contains(&reported(&output, "REMOTE_CPU_UTIL")), "{output}");
    }
}

#[test]
fn netperf_makes_transactions_and_connections_with_the_server() {
    needs!("netperf");
    at_once(4, &["TCP_RR", "TCP_CRR", "TCP_CC", "UDP_RR"], |&name| {
        let server = Served::start("netperf", "");
        let output = client(&server, &format!("-t {name} -l 1")).wait().expect_code(0).stdout;
        let [line] = &tests_of(server)[..] else { panic!("{name}: one line for one test") };
        assert_eq!((&line["test"], &line["ended"]), (&name.into(), &"complete".into()), "{line:#}");
        let rate = output.split_whitespace().nth(5).and_then(|rate| rate.parse::<f64>().ok());
        let rate = rate.unwrap_or_else(|| panic!("{name}: {output}"));
        let counted = line["transactions"].as_f64().expect("transactions");
        let seconds = line["seconds"].as_f64().expect("a time");
        // each end has a clock of its own
        assert!((counted / seconds / rate - 1.0).abs() < 0.05, "{name}: {output}\n{line:#}");
    });
    let server = Served::start("netperf", "");
    client(&server, "-t UDP_STREAM -l 1 -- -m 1024").wait().expect_code(0);
    let [line] = &tests_of(server)[..] else { panic!("one line for one test") };
    assert_eq!((&line["test"], &line["ended"]), (&"UDP_STREAM".into(), &"complete".into()));
    assert!(line["received_bytes"].as_f64().expect("octets") > 1e6, "{line:#}");
}

#[test]
fn clients_of_netperf_are_served_side_by_side_and_one_that_vanishes_is_gone() {
    needs!("netperf");
    let server = Served::start("netperf", "--duration 30s");
    let clients: Vec<Running> = (0..4).map(|_| client(&server, "-t TCP_RR -l 2")).collect();
    let killed = client(&server, "-t TCP_STREAM -l 20");
    await_connections(server.port, 5);
    // it shall have begun its test, over a connection to a port of the server's choice
    std::thread::sleep(Duration::from_millis(500));
    killed.signal(Signal::KILL);
    killed.wait();
    for client in clients {
        client.wait().expect_code(0);
    }
    let lines = tests_of(server);
    let of = |name: &str, ended: &str| {
        lines.iter().filter(|line| line["test"] == name && line["ended"] == ended).count()
    };
    assert_eq!(of("TCP_RR", "complete"), 4, "{lines:#?}");
    assert_eq!(of("TCP_STREAM", "client-left"), 1, "{lines:#?}");
}

/// The data of a test may come from another address than its control connection, and have another family.
#[test]
#[ignore = "exhaustive: another route"]
fn data_may_take_another_way_than_the_control_connection() {
    needs!("netperf");
    let server = Served::start("netperf", "--bind :: --allow 127.0.0.0/8 --allow ::1");
    let mut tests = vec!["-t UDP_RR -l 1 -- -L 127.0.0.3", "-t UDP_RR -l 1 -- -H 127.0.0.2"];
    if std::path::Path::new("/proc/net/if_inet6").exists() {
        tests.extend(["-t TCP_RR -l 1 -- -H ::1,6", "-t UDP_RR -l 1 -- -H ::1,6"]);
    }
    for options in &tests {
        let output = client(&server, options).wait().expect_code(0).stdout;
        let rate = output.split_whitespace().nth(5).and_then(|rate| rate.parse::<f64>().ok());
        assert!(rate.is_some_and(|rate| rate > 100.0), "{options}: {output}");
    }
    // a false address could have others flooded
    let refused = client(&server, "-t UDP_RR -l 1 -- -L 127.0.0.3 -r 1,1000").wait();
    assert_ne!(refused.code(), Some(0), "{}", refused.stdout);
    let lines = tests_of(server);
    let (last, others) = lines.split_last().expect("lines");
    assert!(others.len() == tests.len(), "{lines:#?}");
    assert!(others.iter().all(|line| line["ended"] == "complete"), "{lines:#?}");
    assert_eq!(last["ended"], "refused", "{last:#}");
    let reason = last["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("requests from 127.0.0.3, whose responses are longer"), "{reason}");
}

#[test]
#[ignore = "exhaustive: waits for twelve seconds"]
fn the_wait_of_a_client_before_its_payload_is_no_time_of_the_test() {
    needs!("netperf");
    for name in ["TCP_STREAM", "TCP_MAERTS", "UDP_RR"] {
        let server = Served::start("netperf", "");
        client(&server, &format!("-s 2 -l 1 -t {name}")).wait().expect_code(0);
        let [line] = &tests_of(server)[..] else { panic!("{name}: one line for one test") };
        let seconds = line["seconds"].as_f64().expect("a time");
        assert!((0.9..1.9).contains(&seconds), "{name}: {line:#}");
    }
}
