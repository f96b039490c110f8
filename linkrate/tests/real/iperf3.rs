//! iperf3 as the client of `linkrate serve`: it judges the server, and the server's lines are held against what
//! it measured.

use crate::common::ends::{Served, agree, await_connections};
use crate::common::keys::{Keys, padding_of_iperf3};
use crate::common::{Running, at_once, command};
use rustix::process::Signal;
use serde_json::Value;

/// iperf3 as a client of the server.
fn client(server: &Served, options: &str) -> Running {
    let words = format!("-c 127.0.0.1 -p {} -J {options}", server.port);
    Running::start(&mut command("iperf3", &words))
}

#[test]
fn iperf3_measures_to_and_from_the_server() {
    needs!("iperf3");
    let cases = ["", "-R", "--bidir", "-P 4", "-P 3 --bidir", "-R -P 2 -O 1", "-n 20M", "-l 1K"];
    at_once(4, &cases, |&options| {
        let server = Served::start("iperf3", "");
        let words =
            format!("-b 80M -l 16K {options} {}", if options.contains("-n") { "" } else { "-t 2" });
        let document = client(&server, &words).wait().expect_code(0).json();
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
        assert_eq!(line["interface"]["name"], "lo", "{line:#}");
        let of_tcp = |key: &str| line["tcp"][key].as_u64().expect("TCP_INFO");
        assert!(of_tcp("snd_mss") > 0, "{options}: {line:#}");
        // a sender with little to send may be busy for less than a tick
        let sends = options.contains("-R") || options.contains("--bidir");
        assert!(sends || of_tcp("busy_us") == 0, "{options}: {line:#}");
        if options.is_empty() || options == "-P 4" {
            assert_eq!(line["verdict"]["limited_by"], "rate-asked-for", "{options}: {line:#}");
        }
    });
}

#[test]
fn streams_have_the_options_that_iperf3_asks_for() {
    needs!("iperf3");
    let server = Served::start("iperf3", "");
    let document = client(&server, "-t 1 -R -N -C reno -w 60K").wait().expect_code(0).json();
    assert_eq!(document["end"]["sender_tcp_congestion"], "reno", "{document:#}");
    let document = client(&server, "-t 1 -w 400M").wait().json();
    let error = document["error"].as_str().expect("a reason");
    // where the client's own host grants as little, it says so itself
    assert!(error.contains("buffer") || error.contains("window"), "{error}");
    let lines = server.end();
    // a window of 60 KB fills at once where so much is in memory
    let bound = lines[0]["verdict"]["limited_by"].as_str().expect("a verdict");
    assert!(["receiver-window", "send-buffer", "server-cpu"].contains(&bound), "{lines:#?}");
}

#[test]
fn networks_and_bytes_are_limited() {
    needs!("iperf3");
    let server = Served::start("iperf3", "--allow 192.0.2.0/24 --allow 2001:db8::1");
    let document = client(&server, "-t 1").wait().json();
    assert!(document["error"].is_string(), "{document:#}");
    let lines = server.end();
    let reasons: Vec<_> = lines.iter().map(|line| &line["reason"]).collect();
    assert_eq!(reasons, ["clients at 127.0.0.1 are not admitted"], "{lines:#?}");

    let server =
        Served::start("iperf3", "--allow 192.0.2.0/24 --allow 127.0.0.0/8 --max-bytes 4MB");
    let document = client(&server, "-b 80M -t 5").wait().json();
    assert!(document["error"].is_string(), "{document:#}");
    let document = client(&server, "-b 80M -n 5M").wait().json();
    assert!(document["error"].is_string(), "{document:#}");
    let document = client(&server, "-b 80M -n 3M").wait().expect_code(0).json();
    assert!(document["error"].is_null(), "{document:#}");
    let lines = server.end();
    let ends: Vec<_> = lines.iter().map(|line| &line["ended"]).collect();
    assert_eq!(ends, ["refused", "refused", "complete"], "{lines:#?}");
    let carried = lines[0]["received_bytes"].as_u64().expect("octets");
    assert!((4_000_000..8_000_000).contains(&carried), "{carried} octets");
    let reason = lines[0]["reason"].as_str().expect("a reason");
    assert!(reason.ends_with("bytes, expected at most 4000000"), "{reason}");
}

#[test]
fn users_are_admitted_with_their_password() {
    needs!("iperf3");
    let keys = Keys::new();
    let padding = if padding_of_iperf3() == "pkcs1" { "--pkcs1-padding" } else { "" };
    let [users, private, public] =
        ["users", "private.pem", "public.pem"].map(|name| keys.path(name));
    let server =
        Served::start("iperf3", &format!("--users {users} --rsa-private-key {private} {padding}"));
    let mut ended = Vec::new();
    for (user, password) in [("mario", "rossi"), ("mario", "Rossi"), ("maria", "rossi")] {
        let words = format!(
            "-c 127.0.0.1 -p {} -J -t 1 -b 20M --username {user} --rsa-public-key-path {public}",
            server.port
        );
        let mut client = command("iperf3", &words);
        let document = Running::start(client.env("IPERF3_PASSWORD", password)).wait().json();
        ended.push(document["error"].is_null());
    }
    ended.push(client(&server, "-t 1").wait().json()["error"].is_null());
    assert_eq!(ended, [true, false, false, false]);
    let lines = server.end();
    assert_eq!(lines[0]["user"], "mario", "{lines:#?}");
    let ends: Vec<_> = lines.iter().map(|line| &line["ended"]).collect();
    assert_eq!(ends, ["complete", "refused", "refused", "refused"], "{lines:#?}");
}

/// Checks what both ends report on the datagrams of one way: octets and numbers, `sent` by one end as it
/// was `received` by the other.
fn datagrams_agree(options: &str, sent: [&Value; 2], received: [&Value; 2]) {
    agree(options, sent[0], received[0]);
    agree(options, sent[1], received[1]);
}

#[test]
fn datagrams_are_numbered_and_counted_at_both_ends() {
    needs!("iperf3");
    let cases = [
        "-t 2",
        "-t 2 -R",
        "-t 2 --bidir",
        "-t 2 -P 3 --bidir --udp-counters-64bit",
        "-t 2 -R -P 2 -O 1",
        "-t 2 -O 1",
        "-n 5M",
        "-t 1 -b 20M/10 -l 1448 -R",
        "-t 1 -l 16 -b 1M",
        "-t 1 -l 65507 -R",
    ];
    at_once(4, &cases, |options| datagrams_of_both_ends(options));
    // without a rate, it takes the CPUs from all others
    datagrams_of_both_ends("-t 1 -l 30000 -b 0 -R");
}

/// The kernel loses datagrams of a receiver that does not get the CPU; a count that is wrong is off by more.
#[track_caller]
fn expect_few_lost(options: &str, lost: &Value, packets: &Value) {
    let [lost, packets] = [lost, packets].map(|count| count.as_u64().expect("a count"));
    assert!(lost * 20 <= packets, "{options}: {lost} of {packets} datagrams lost");
}

/// One test with datagrams, of which both ends tell the same.
#[track_caller]
fn datagrams_of_both_ends(options: &str) {
    let server = Served::start("iperf3", "");
    let words = format!("-u -b 20M {options}");
    let document = client(&server, &words).wait().expect_code(0).json();
    assert!(document["error"].is_null(), "{options}: {document:#}");
    let [line] = &server.end()[..] else { panic!("{options}: one line for one test") };
    assert_eq!((&line["ended"], &line["transport"]), (&"complete".into(), &"udp".into()));
    let (end, datagrams) = (&document["end"], &line["datagrams"]);
    let (sum, back) = match options.contains("--bidir") {
        true => (&end["sum"], &end["sum_bidir_reverse"]),
        false => (&end["sum"], &end["sum"]),
    };
    assert!(sum["bytes"].is_number() && back["bytes"].is_number(), "{options}: {end:#}");
    let is_flood = options.contains("-b 0");
    if !options.contains("-R") {
        let here = [&line["received_bytes"], &datagrams["expected_packets"]];
        datagrams_agree(options, [&sum["bytes"], &sum["packets"]], here);
        assert_eq!(sum["lost_packets"], datagrams["lost_packets"], "{options}");
        expect_few_lost(options, &datagrams["lost_packets"], &sum["packets"]);
        let jitter_ms = sum["jitter_ms"].as_f64().expect("jitter");
        let here_ms = datagrams["jitter_seconds"].as_f64().expect("jitter") * 1e3;
        assert!((jitter_ms - here_ms).abs() < 0.001, "{options}: {jitter_ms} and {here_ms} ms");
    }
    if options.contains("-R") || options.contains("--bidir") {
        let here = [&line["sent_bytes"], &datagrams["sent_packets"]];
        if is_flood {
            agree(options, here[1], &back["packets"]);
        } else {
            datagrams_agree(options, here, [&back["bytes"], &back["packets"]]);
            expect_few_lost(options, &back["lost_packets"], &back["packets"]);
        }
    }
    // a rate is kept
    if options == "-t 2" || options == "-t 2 -R" {
        let rate = line["bits_per_second"].as_f64().expect("a rate");
        assert!((rate / 20e6 - 1.0).abs() < 0.02, "{options}: {rate} bit/s");
    }
}

#[test]
fn tests_of_one_host_share_the_udp_port() {
    needs!("iperf3");
    let server = Served::start("iperf3", "");
    let ways =
        ["-u -b 5M -P 4 -t 2", "-u -b 5M -R -P 3 -t 2", "-u -b 5M --bidir -t 2", "-b 5M -t 2"];
    let clients: Vec<Running> =
        ways.iter().cycle().take(8).map(|way| client(&server, way)).collect();
    for client in clients {
        let document = client.wait().expect_code(0).json();
        assert!(document["error"].is_null(), "{document:#}");
        let sum = &document["end"]["sum"];
        assert!(sum.is_null() || sum["lost_packets"] == 0, "{sum:#}");
    }
    let lines = server.end();
    assert_eq!(lines.len(), 8, "{lines:#?}");
    assert!(lines.iter().all(|line| line["ended"] == "complete"), "{lines:#?}");
    let streams: u64 = lines.iter().filter_map(|line| line["streams"].as_u64()).sum();
    assert_eq!(streams, 2 * (4 + 3 + 2 + 1));
}

#[test]
fn clients_are_served_side_by_side_and_one_too_many_is_busy() {
    needs!("iperf3");
    let server = Served::start("iperf3", "--sessions 4");
    let clients: Vec<Running> = (0..4).map(|_| client(&server, "-b 20M -t 3 -P 2")).collect();
    await_connections(server.port, 4 * 3);
    // some versions exit with 0 and some with 1 where they print JSON
    let refused = client(&server, "-t 1").wait().json();
    assert!(refused["error"].as_str().expect("a reason").contains("busy"), "{refused:#}");
    for client in clients {
        let document = client.wait().expect_code(0).json();
        assert!(document["error"].is_null(), "{document:#}");
    }
    let lines = server.end();
    let [busy, served @ ..] = &lines[..] else { panic!("no line") };
    let reason = "more than 4 sessions";
    assert_eq!((&busy["ended"], &busy["reason"]), (&"refused".into(), &reason.into()), "{busy:#}");
    assert_eq!(served.len(), 4, "{lines:#?}");
    assert!(served.iter().all(|line| line["ended"] == "complete" && line["streams"] == 2));
}

#[test]
fn clients_that_ask_for_too_much_or_vanish_cost_their_own_session() {
    needs!("iperf3");
    let server = Served::start("iperf3", "--duration 5s");
    for too_much in ["-t 6", "-u -R -O 3 -t 3"] {
        let document = client(&server, too_much).wait().json();
        assert!(document["error"].is_string(), "{too_much}: {document:#}");
    }
    let vanishes = client(&server, "-b 10M -t 5");
    await_connections(server.port, 2);
    vanishes.signal(Signal::KILL);
    drop(vanishes);
    let good = client(&server, "-b 10M -t 1").wait().expect_code(0).json();
    assert!(good["error"].is_null(), "{good:#}");
    let lines = server.end();
    let ended = |how: &str| lines.iter().filter(|line| line["ended"] == how).count();
    assert_eq!(
        [ended("refused"), ended("client-left"), ended("complete")],
        [2, 1, 1],
        "{lines:#?}"
    );
    let reasons: Vec<&str> = lines.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert_eq!(reasons, ["a test of 6 s, expected at most 5 s"; 2]);
}

/// A sender sends as much as the client asks for, and no faster than it asks for.
#[test]
fn the_server_sends_what_its_client_asks_for() {
    needs!("iperf3");
    let server = Served::start("iperf3", "");
    let document = |options: &str| {
        let words = format!("-J -c 127.0.0.1 -p {} {options}", server.port);
        Running::start(&mut command("iperf3", &words)).wait().expect_code(0).json()
    };
    let amounts = [
        ("-n 256K", 256 << 10),
        ("-n 40K", 40 << 10),
        ("-k 3 -l 64K", 192 << 10),
        ("-n 4M -P 8", 4 << 20),
    ];
    for (options, octets) in amounts {
        let end = &document(&format!("-R {options}"))["end"];
        assert_eq!(end["sum_sent"]["bytes"], octets, "{options}: {end:#}");
        let received = end["sum_received"]["bytes"].as_u64().expect("octets");
        // iperf3 takes each of its reads for a block, and may end before all have come
        let is_whole = received == octets || options.starts_with("-k") && received < octets;
        assert!(is_whole, "{options}: {received} {end:#}");
    }
    let end = &document("-R --fq-rate 100M -t 2 -O 1")["end"];
    let rate = end["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    assert!((50e6..115e6).contains(&rate), "{end:#}");
    let output = document("-R -t 1 -b 10M --repeating-payload --get-server-output");
    let served = &output["server_output_json"];
    assert_eq!(served["intervals"][0]["streams"][0]["sender"], true, "{output:#}");
    assert!(served["error"].is_null(), "{output:#}");
    let lines = server.end();
    for (line, (options, octets)) in lines.iter().zip(amounts) {
        assert_eq!(line["sent_bytes"], octets, "{options}: {line:#}");
        assert_eq!(
            (&line["ended"], &line["ignored"]),
            (&"complete".into(), &Value::Array(Vec::new()))
        );
    }
    let last = lines.last().expect("a line");
    assert_eq!(last["ignored"], serde_json::json!([]), "{last:#}");
}
