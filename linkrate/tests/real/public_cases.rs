//! What users of netperf and iperf3 reported in public of lines that failed, or of figures that could not be, each with
//! the number of the thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::common::ends::{Served, await_listener, free_port};
use crate::common::machines::Machine;
use crate::common::{LINKRATE, Running, at_once, command, linkrate};
use serde_json::Value;

/// iperf3 as a client of `linkrate serve`: its document.
#[track_caller]
fn asked(server: &Served, options: &str) -> Value {
    let words = format!("-p {} -J {options}", server.port);
    let finished = Running::start(&mut command("iperf3", &words)).wait().expect_code(0);
    let document = finished.json();
    assert!(document["error"].is_null(), "{options}: {document:#}");
    document
}

/// cilium/cilium#28705: sizes as atoi(3) reads them; HewlettPackard/netperf#47 and #50: a test that takes no time.
#[test]
fn sizes_and_times_of_netperf_are_read_and_told_to_their_ends() {
    let server = Served::start("netperf", "");
    let client = |words: &str| {
        linkrate(&format!("netperf -H 127.0.0.1 -p {} {words}", server.port)).expect_code(0).stdout
    };
    let printed = client(
        "-t TCP_RR -l 1 -- -r80000:80000 -O MIN_LATENCY,P90_LATENCY,P99_LATENCY,THROUGHPUT,REQUEST_SIZE,RESPONSE_SIZE",
    );
    let values: Vec<&str> = printed.lines().last().expect("a line").split_whitespace().collect();
    assert_eq!(values[4..], ["80000"; 2], "{printed}");
    assert!(
        values.iter().all(|value| value.parse::<f64>().is_ok_and(|value| value > 0.0)),
        "{printed}"
    );
    const NAMES: &str =
        "ELAPSED_TIME,THROUGHPUT,RT_LATENCY,MIN_LATENCY,P50_LATENCY,STDDEV_LATENCY,LOCAL_SD";
    for words in [
        "-t TCP_RR -l -1 -c",
        "-t UDP_RR -l -1 -c",
        "-t TCP_STREAM -l -1 -c",
        "-t TCP_CRR -l -1 -c",
    ] {
        let printed = client(&format!("{words} -P 0 -- -k {NAMES}"));
        for (name, value) in printed.lines().filter_map(|line| line.split_once('=')) {
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{words}: {name}={value}");
        }
        assert_eq!(printed.lines().count(), 7, "{printed}");
    }
}

/// esnet/iperf#1766 (all streams both ways with `--len 0`, twice), #1776 (the server's output with six streams), #1786
/// (results of more than 8 KiB), iperf3-python#74 (23 streams), and what riperf3#414 and pScheduler ask of a sender.
#[test]
fn iperf3_runs_at_the_server_whatever_it_asks_for() {
    needs!("iperf3");
    let cases = [
        (
            "--get-server-output --bitrate 1M --interval 1 --time 1 --len 0 --parallel 4 --bidir",
            vec![],
        ),
        ("--get-server-output -P 6 -t 1 -b 2M", vec![]),
        ("-P 128 -t 1 -b 100K -l 1K", vec![]),
        ("-P 55 -t 1 -b 200K -l 1K", vec![]),
        ("-P 23 -t 1 -b 500K -l 1K -R", vec![]),
        ("-u -R --dont-fragment -t 1 -b 5M", vec![]),
        ("-R -Z -t 1 -b 5M", vec![]),
        ("-6 -R -L 7 -t 1 -b 5M", vec!["flowlabel"]),
        ("-R --repeating-payload -t 1 -b 5M", vec![]),
        ("-u -b 20M -P 2 -l 20k -t 1", vec![]),
    ];
    at_once(4, &cases, |(options, ignored)| {
        let server = Served::start("iperf3", "--bind :: --allow ::1 --allow 127.0.0.0/8");
        let host = if options.starts_with("-6") { "::1" } else { "127.0.0.1" };
        let times = if options.contains("--len 0") { 2 } else { 1 };
        for _ in 0..times {
            asked(&server, &format!("-c {host} {options}"));
        }
        let lines = server.end();
        assert_eq!(lines.len(), times, "{options}: {lines:#?}");
        for line in lines {
            assert_eq!(line["ended"], "complete", "{options}: {line:#}");
            // what is not done is told
            let told = line["ignored"].as_array().expect("a list");
            assert!(told.iter().all(|name| ignored.iter().any(|known| name == known)), "{line:#}");
        }
    });
}

/// esnet/iperf#1808, #407, #530 and #710: a browser, TLS, and iperf 2 at the port of iperf3.
#[test]
fn clients_of_other_programs_are_told_of_and_harm_nobody() {
    let server = Served::start("iperf3", "");
    let hello = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(), &[7; 64]].concat();
    let iperf2 =
        [b"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x13\x89".as_slice(), &[0; 64]].concat();
    for octets in
        [b"GET / HTTP/1.1\r\nHost: 127.0.0.1:5201\r\nAccept: */*\r\n\r\n".to_vec(), hello, iperf2]
    {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
        stream.write_all(&octets).expect("it reads");
        // an end, or a reset
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
    let words = format!("iperf3 -J -c 127.0.0.1 -p {} -n 1M", server.port);
    linkrate(&words).expect_code(0);
    let lines = server.end();
    let refused = lines.iter().find(|line| line["ended"] == "refused").expect("a line");
    let reason = refused["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("the first octets are not those of iperf3"), "{lines:#?}");
    assert!(lines.iter().any(|line| line["ended"] == "complete"), "{lines:#?}");
}

/// esnet/iperf#428 (ports of this end), #60 and riperf3#117 (amounts), #236 and #443 (both ways behind a beginning that
/// is left out), #1367 (large datagrams keep their rate), #545 (no route), and decimal points in every language.
#[test]
fn the_client_of_iperf3_does_what_it_is_asked_for() {
    needs!(root, "iperf3");
    let client = |port: u16, options: &str| {
        let mut client = command(LINKRATE, &format!("iperf3 -J -c 127.0.0.1 -p {port} {options}"));
        let finished = Running::start(client.env("LC_ALL", "de_DE.UTF-8")).wait().expect_code(0);
        finished.json()
    };
    // each stream has the next one
    let [cport, ..] = [(); 4].map(|()| free_port());
    let cases = [
        format!("-P 2 --cport {cport} -t 1 -b 10M"),
        "-n 512K".to_owned(),
        "-R -n 10M".to_owned(),
        "--bidir -O 1 -t 1 -b 20M -l 8K".to_owned(),
        "-u -b 50M -l 9000 -t 1".to_owned(),
    ];
    let all: Vec<_> = cases.iter().flat_map(|case| [(case, false), (case, true)]).collect();
    at_once(4, &all, |(options, is_ours)| {
        // ports of this end are those of one test
        let options = match is_ours {
            true => options.replace(&cport.to_string(), &(cport + 2).to_string()),
            false => (*options).clone(),
        };
        let (ours, port) = match is_ours {
            true => {
                let served = Served::start("iperf3", "");
                let port = served.port;
                (Some(served), port)
            }
            false => (None, free_port()),
        };
        let theirs = ours.is_none().then(|| {
            let server = Running::start(&mut command("iperf3", &format!("-s -1 -p {port}")));
            await_listener(port);
            server
        });
        let document = client(port, &options);
        let end = &document["end"];
        let rate = |sum: &str| end[sum]["bits_per_second"].as_f64().expect("a rate");
        if options.contains("--cport") {
            let ports: Vec<u64> = document["start"]["connected"]
                .as_array()
                .expect("streams")
                .iter()
                .map(|stream| stream["local_port"].as_u64().expect("a port"))
                .collect();
            assert_eq!(ports[1], ports[0] + 1, "{document:#}");
        } else if options == "-n 512K" {
            for sum in ["sum_sent", "sum_received"] {
                assert_eq!(end[sum]["bytes"], 512 << 10, "{end:#}");
            }
        } else if options.contains("--bidir") {
            for sum in
                ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"]
            {
                assert!((rate(sum) / 20e6 - 1.0).abs() < 0.15, "{sum}: {end:#}");
            }
        } else if options.contains("-u") {
            let packets = end["sum"]["packets"].as_f64().expect("datagrams");
            assert!((packets / (50e6 / 72e3) - 1.0).abs() < 0.1, "{end:#}");
        } else {
            assert!(rate("sum_received") > 0.0, "{end:#}");
        }
        drop((ours, theirs));
    });
    let machine = Machine::start();
    let mut nowhere = command(LINKRATE, "iperf3 -J -c 203.0.113.1");
    machine.on(&mut nowhere);
    let document = Running::start(&mut nowhere).wait().expect_code(1).json();
    assert_eq!(document["error"], "unable to connect to server: Network is unreachable");
}
