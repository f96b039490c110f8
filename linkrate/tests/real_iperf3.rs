//! iperf3 as the client of `linkrate serve`: it judges the server, and the server's lines are held against what
//! it measured.

mod common;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{LINKRATE, Running, command, has_or_skips};
use rustix::process::Signal;
use serde_json::Value;

/// A server on a free port of the loopback interface.
struct Server {
    running: Running,
    port: u16,
}

impl Server {
    fn start(options: &str) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let words = format!("serve --iperf3-port {port} {options}");
        let running = Running::start(&mut command(LINKRATE, &words));
        let begun = Instant::now();
        // a connection without a cookie begins no test
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "nothing listens on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { running, port }
    }

    fn client(&self, options: &str) -> Running {
        let words = format!("-c 127.0.0.1 -p {} -J {options}", self.port);
        Running::start(&mut command("iperf3", &words))
    }

    /// Ends it, and returns its lines.
    fn end(self) -> Vec<Value> {
        self.running.signal(Signal::INT);
        let finished = self.running.wait().expect_code(0);
        assert!(finished.stderr.contains("listening on 127.0.0.1:"), "{}", finished.stderr);
        let lines = finished.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

/// Whether two ends tell of the same number of octets, except for what is on its way at the end.
fn agree(options: &str, here: &Value, there: &Value) {
    let [here, there] = [here, there].map(|octets| octets.as_f64().expect("octets"));
    // each end leaves the beginning out by a timer of its own
    let most = if options.contains("-O") { 0.02 } else { 0.005 };
    assert!((here / there - 1.0).abs() < most, "{options}: {here} and {there} octets");
    assert!(here > 0.0);
}

#[test]
fn iperf3_measures_to_and_from_the_server() {
    let test = "iperf3_measures_to_and_from_the_server";
    if !has_or_skips(test, "iperf3", "iperf3") {
        return;
    }
    for options in ["", "-R", "--bidir", "-P 4", "-P 3 --bidir", "-R -P 2 -O 1", "-n 20M", "-l 1K"]
    {
        let server = Server::start("");
        let words =
            format!("-b 80M -l 16K {options} {}", if options.contains("-n") { "" } else { "-t 2" });
        let document = server.client(&words).wait().expect_code(0).json();
        assert!(document["error"].is_null(), "{options}: {document:#}");
        let [line] = &server.end()[..] else { panic!("{options}: one line for one test") };
        assert_eq!(line["ended"], "complete", "{options}: {line:#}");
        assert_eq!(line["program"], "iperf3");
        let end = &document["end"];
        match (options.contains("-R"), options.contains("--bidir")) {
            (true, _) => agree(options, &line["sent_bytes"], &end["sum_received"]["bytes"]),
            (false, false) => {
                // what iperf3 shows of its receiver is what the server told it
                assert_eq!(line["received_bytes"], end["sum_received"]["bytes"], "{options}");
                agree(options, &line["received_bytes"], &end["sum_sent"]["bytes"]);
            }
            (false, true) => {
                agree(options, &line["received_bytes"], &end["sum_sent"]["bytes"]);
                let back = &end["sum_received_bidir_reverse"]["bytes"];
                agree(options, &line["sent_bytes"], back);
            }
        }
        assert!(line["cpu_percent"].as_f64().expect("a share") > 0.0, "{line:#}");
    }
}

#[test]
fn clients_are_served_side_by_side_and_one_too_many_is_busy() {
    let test = "clients_are_served_side_by_side_and_one_too_many_is_busy";
    if !has_or_skips(test, "iperf3", "iperf3") {
        return;
    }
    let server = Server::start("--sessions 4");
    let clients: Vec<Running> = (0..4).map(|_| server.client("-b 20M -t 3 -P 2")).collect();
    std::thread::sleep(Duration::from_millis(1500));
    // some versions exit with 0 and some with 1 where they print JSON
    let refused = server.client("-t 1").wait().json();
    assert!(refused["error"].as_str().expect("a reason").contains("busy"), "{refused:#}");
    for client in clients {
        let document = client.wait().expect_code(0).json();
        assert!(document["error"].is_null(), "{document:#}");
    }
    let lines = server.end();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines.iter().all(|line| line["ended"] == "complete" && line["streams"] == 2));
}

#[test]
fn clients_that_ask_for_too_much_or_vanish_cost_their_own_session() {
    let test = "clients_that_ask_for_too_much_or_vanish_cost_their_own_session";
    if !has_or_skips(test, "iperf3", "iperf3") {
        return;
    }
    let server = Server::start("--seconds 5");
    for too_much in ["-t 6", "-u -t 1"] {
        let document = server.client(too_much).wait().json();
        assert!(document["error"].is_string(), "{too_much}: {document:#}");
    }
    let vanishes = server.client("-b 10M -t 5");
    std::thread::sleep(Duration::from_millis(800));
    vanishes.signal(Signal::KILL);
    drop(vanishes);
    let good = server.client("-b 10M -t 1").wait().expect_code(0).json();
    assert!(good["error"].is_null(), "{good:#}");
    let lines = server.end();
    let ended = |how: &str| lines.iter().filter(|line| line["ended"] == how).count();
    assert_eq!(
        [ended("refused"), ended("client-left"), ended("complete")],
        [2, 1, 1],
        "{lines:#?}"
    );
    let reasons: Vec<&str> = lines.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert_eq!(reasons, ["a test of 6 s, expected at most 5 s", "UDP, expected TCP"]);
}
