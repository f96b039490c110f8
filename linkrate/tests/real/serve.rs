//! `linkrate serve` on a host of a lab, behind a link whose rate is kept: both ends tell the same throughput, and
//! tshark finds nothing wrong with what they say to each other.

use std::time::Duration;

use crate::common::capture::Capture;
use crate::common::needs::has_or_skips;
use crate::common::up::{CLIENT, Up};
use crate::common::{LINKRATE, Running, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Both counts of a throughput agree within this share.
const AGREE: f64 = 0.005;

/// What a Gigabit link carries of TCP in full frames with timestamps, bit/s.
const LIMIT: f64 = 1e9 * 1448.0 / 1538.0;

/// A lab of one Gigabit port with the server on its client.
struct Served {
    lab: Up,
    server: Running,
}

impl Served {
    fn start() -> Self {
        let lab = Up::start("--adapter gigabit");
        let words = format!("{LINKRATE} serve --bind {CLIENT}");
        let server = Running::start(&mut lab.exec("client-0", &words));
        let listens = || {
            let table = lab.run("client-0", "cat /proc/net/tcp").stdout;
            // 5201 and 12865, in the state TCP_LISTEN
            let has =
                |port: &str| table.lines().any(|line| line.contains(port) && line.contains(" 0A "));
            has(":1451 ") && has(":3241 ")
        };
        assert!(wait_until(Duration::from_secs(10), listens), "serve does not listen");
        Self { lab, server }
    }

    /// What a program in the system under test prints.
    #[track_caller]
    fn client(&self, words: &str) -> String {
        self.lab.run("sut", words).expect_code(0).stdout
    }

    /// Ends the server, and returns its lines.
    fn end(self) -> Vec<Value> {
        self.server.signal(Signal::INT);
        let finished = self.server.wait().expect_code(0);
        self.lab.down();
        let lines = finished.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

/// Bit/s of a line.
fn rate(line: &Value) -> f64 {
    assert_eq!(line["ended"], "complete", "{line:#}");
    line["bits_per_second"].as_f64().expect("a rate")
}

#[track_caller]
fn agree(what: &str, here: f64, there: f64) {
    assert!((here / there - 1.0).abs() < AGREE, "{what}: {here} and {there} bit/s");
}

#[test]
fn both_ends_tell_the_same_throughput_of_a_paced_link() {
    needs!(root, "iperf3");
    let served = Served::start();
    let mut theirs = Vec::new();
    for options in ["", "-R", "-u -b 300M", "-u -b 300M -R"] {
        let document = served.client(&format!("iperf3 -J -c {CLIENT} -t 2 {options}"));
        let document: Value = serde_json::from_str(&document).expect("JSON");
        assert!(document["error"].is_null(), "{options}: {document:#}");
        let rate = |sum: &str| document["end"][sum]["bits_per_second"].as_f64().expect("a rate");
        if options.contains("-u") {
            agree(options, rate("sum_sent"), 300e6);
        }
        // a busy machine may lose datagrams, so both report on those that arrived
        theirs.push((options.to_owned(), rate("sum_received")));
    }
    if has_or_skips("netperf") {
        for kind in ["TCP_STREAM", "TCP_MAERTS"] {
            let words = format!("netperf -P 0 -v 0 -H {CLIENT} -t {kind} -l 2");
            let megabits: f64 = served.client(&words).trim().parse().expect("a number");
            theirs.push((kind.to_owned(), megabits * 1e6));
        }
    }
    let lines = served.end();
    assert_eq!(lines.len(), theirs.len(), "{lines:#?}");
    for ((what, there), line) in theirs.iter().zip(&lines) {
        let here = rate(line);
        agree(what, here, *there);
        assert!(here <= LIMIT * 1.001, "{what}: {here} bit/s of {LIMIT}");
    }
}

#[test]
fn tshark_finds_nothing_wrong_with_a_session() {
    needs!(root, "iperf3", "tshark");
    let served = Served::start();
    let capture = Capture::start(&served.lab, "eth0");
    let mut sessions = 0;
    for options in ["-n 200K", "-n 200K -R", "-n 100K --bidir", "-u -n 100K", "-u -n 100K -R"] {
        served.client(&format!("iperf3 -c {CLIENT} -b 5M {options}"));
        sessions += 1;
    }
    if has_or_skips("netperf") {
        for kind in ["TCP_RR", "TCP_CRR", "UDP_RR"] {
            served.client(&format!("netperf -H {CLIENT} -t {kind} -l -50"));
            sessions += 1;
        }
    }
    capture.stop();
    // not checksums, which the port computes behind the place where it captures what the host sends
    let malformed = capture.fields("_ws.malformed", &["frame.number", "_ws.col.Info"]);
    assert!(malformed.is_empty(), "{malformed:?}");
    // the control connection of each session, from its beginning to its end
    let control = "tcp.dstport == 5201 || tcp.dstport == 12865";
    let syns = capture.fields(&format!("({control}) && tcp.flags.syn == 1"), &["tcp.srcport"]);
    assert!(syns.len() >= sessions, "{syns:?}");
    let resets = capture.fields("tcp.flags.reset == 1 && tcp.srcport == 12865", &["tcp.dstport"]);
    assert!(resets.is_empty(), "{resets:?}");
    drop(capture);
    let lines = served.end();
    assert_eq!(lines.len(), sessions, "{lines:#?}");
    assert!(lines.iter().all(|line| line["ended"] == "complete"), "{lines:#?}");
}
