//! `linkrate iperf3` as the client of iperf3 and of `linkrate serve`: its documents have the keys of iperf3's, and
//! both ends report on the same octets.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::ends::{agree, await_connections, await_listener, free_port};
use crate::common::keys::{Keys, padding_of_iperf3};
use crate::common::{LINKRATE, Running, at_once, command};
use rustix::process::Signal;
use serde_json::Value;

/// A server of iperf3 for one test, which prints its document at the end.
fn iperf3_server() -> (Running, u16) {
    let port = free_port();
    let running = Running::start(&mut command("iperf3", &format!("-s -J -1 -p {port}")));
    await_listener(port);
    (running, port)
}

fn client(port: u16, options: &str) -> Running {
    let words = format!("iperf3 -c 127.0.0.1 -p {port} {options}");
    Running::start(&mut command(LINKRATE, &words))
}

/// The keys of a document with the types of their values, those of all entries of a list together.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<(String, &'static str)>) {
    let kind = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                keys(value, &format!("{path}.{key}"), found);
            }
            return;
        }
        Value::Array(values) => {
            for value in values {
                keys(value, &format!("{path}[]"), found);
            }
            return;
        }
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Bool(_) => "switch",
        Value::Null => "null",
    };
    found.insert((path.to_owned(), kind));
}

/// Keys of documents of a server that 3.12 does not have, and those of what the client has reported.
const MORE: [&str; 14] = [
    ".end.receiver_tcp_congestion",
    ".end.sender_tcp_congestion",
    ".end.streams[].sender.reorder",
    ".end.streams[].sender.retransmits",
    ".end.sum_sent.retransmits",
    ".intervals[].streams[].reorder",
    ".start.fq_rate",
    ".start.test_start.bidir",
    ".start.test_start.fqrate",
    ".start.test_start.gro",
    ".start.test_start.gso",
    ".start.test_start.interval",
    ".start.timestamp.timemillisecs",
    ".title",
];

#[test]
fn documents_have_the_keys_of_iperf3() {
    needs!("iperf3");
    let cases = ["", "-R", "--bidir -P 2", "-u", "-u -R -P 2", "-u --bidir", "-P 4"];
    at_once(4, &cases, |options| {
        let options = format!("-J -t 1 -b 40M {options}");
        let (server, port) = iperf3_server();
        let ours = client(port, &options).wait().expect_code(0).json();
        drop(server);
        let (server, port) = iperf3_server();
        let words = format!("-c 127.0.0.1 -p {port} {options}");
        let theirs = Running::start(&mut command("iperf3", &words)).wait().expect_code(0).json();
        drop(server);
        let mut found = [BTreeSet::new(), BTreeSet::new()];
        keys(&ours, "", &mut found[0]);
        keys(&theirs, "", &mut found[1]);
        let missing: Vec<_> = found[1].difference(&found[0]).collect();
        assert!(missing.is_empty(), "{options}: {missing:#?}");
    });
}

/// A document of the server, as it prints it and as its client gets it.
#[test]
fn documents_of_the_server_have_the_keys_of_iperf3() {
    needs!("iperf3");
    let cases = ["", "-R -T title", "--bidir -P 2", "-u", "-u -R -P 2", "-u --bidir", "-P 4 -O 1"];
    at_once(4, &cases, |options| {
        let documents = ["iperf3", LINKRATE].map(|server| {
            let port = free_port();
            let words = if server == LINKRATE { "iperf3 -s" } else { "-s" };
            let words = format!("{words} -J -1 -i 0.5 -p {port}");
            let served = Running::start(&mut command(server, &words));
            await_listener(port);
            let words =
                format!("-c 127.0.0.1 -p {port} -J --get-server-output -t 1 -b 40M {options}");
            let client = Running::start(&mut command("iperf3", &words)).wait().expect_code(0);
            [served.wait().expect_code(0).json(), client.json()["server_output_json"].clone()]
        });
        let [theirs, ours] = &documents;
        for (theirs, ours) in theirs.iter().zip(ours) {
            let mut found = [BTreeSet::new(), BTreeSet::new()];
            keys(ours, "", &mut found[0]);
            keys(theirs, "", &mut found[1]);
            let missing: Vec<_> = found[1].difference(&found[0]).collect();
            assert!(missing.is_empty(), "{options}: {missing:#?}");
            let more: Vec<_> = found[0].difference(&found[1]).map(|(key, _)| &key[..]).collect();
            let is_known = |key: &&str| MORE.contains(key);
            assert!(more.iter().all(is_known), "{options}: {more:?}");
            let streams = [theirs, ours].map(|all| {
                let streams = [&all["end"]["streams"], &all["intervals"][0]["streams"]];
                streams.map(|streams| streams.as_array().map(Vec::len))
            });
            assert_eq!(streams[0], streams[1], "{options}");
            let senders = |all: &Value| {
                ["sum_sent", "sum_received", "sum_sent_bidir_reverse"]
                    .map(|sum| all["end"][sum]["sender"].clone())
            };
            assert_eq!(senders(theirs), senders(ours), "{options}");
            let intervals = ours["intervals"].as_array().map_or(0, Vec::len);
            assert!((2..=5).contains(&intervals), "{options}: {ours:#}");
        }
    });
}

#[test]
fn both_ends_tell_of_the_same_octets() {
    needs!("iperf3");
    let cases = [
        "-t 2",
        "-t 2 -R",
        "-t 2 --bidir",
        "-t 2 -P 4",
        "-t 2 -O 1",
        "-n 20M",
        "-n 20M -R",
        "-n 20M -P 4",
        "-k 200 -l 64K",
        "-t 1 -Z -w 256K -C reno -N",
        "-u -t 2",
        "-u -t 2 -R",
        "-u -t 2 -O 1 -P 2",
    ];
    at_once(4, &cases, |&options| {
        let (server, port) = iperf3_server();
        let finished = client(port, &format!("-J -b 80M -l 16K {options}")).wait().expect_code(0);
        assert!(finished.stderr.contains("the server is on this host"), "{}", finished.stderr);
        let ours = finished.json();
        assert!(ours["error"].is_null(), "{options}: {ours:#}");
        let theirs = server.wait().expect_code(0).json();
        let (ours, theirs) = (&ours["end"], &theirs["end"]);
        let is_udp = options.contains("-u");
        // an amount is told to the octet, except by a receiver that ends the test once it has so much
        if options.starts_with("-n") && !options.contains("-R") {
            let sums = [ours, theirs].map(|end| &end["sum_received"]["bytes"]);
            assert_eq!(sums, [&Value::from(20 << 20); 2], "{options}: {ours:#} {theirs:#}");
        }
        if options.contains("-R") {
            agree(options, &ours["sum_received"]["bytes"], &ours["sum_sent"]["bytes"]);
            agree(options, &ours["sum_received"]["bytes"], &theirs["sum_sent"]["bytes"]);
        } else {
            agree(options, &ours["sum_sent"]["bytes"], &ours["sum_received"]["bytes"]);
            if !is_udp {
                assert_eq!(
                    ours["sum_received"]["bytes"], theirs["sum_received"]["bytes"],
                    "{options}"
                );
            }
        }
        if options.contains("--bidir") {
            let [sent, received] = ["sum_sent_bidir_reverse", "sum_received_bidir_reverse"];
            agree(options, &ours[sent]["bytes"], &ours[received]["bytes"]);
        }
        if is_udp {
            // the kernel loses datagrams of a receiver that does not get the CPU
            let lost = ours["sum"]["lost_percent"].as_f64().expect("a part");
            assert!((0.0..5.0).contains(&lost), "{options}: {ours:#}");
        }
        if options == "-t 2" {
            let rate = ours["sum_sent"]["bits_per_second"].as_f64().expect("a rate");
            assert!((rate / 80e6 - 1.0).abs() < 0.02, "{rate} bit/s");
        }
    });
}

/// The time of a small amount is that in which it can have moved: octets that are there before the client hears of the
/// beginning are no reason for a rate of terabits.
#[test]
fn a_small_amount_has_a_rate_that_can_be() {
    needs!("iperf3");
    // more than memory copies
    const MAX: f64 = 150e9;
    let cases =
        ["-R -n 256K", "-R -k 2", "-R -n 40K", "-n 256K", "--bidir -n 200M", "-R -n 4M -P 8"];
    for is_ours in [true, false] {
        for options in cases {
            let (server, port) = match is_ours {
                false => iperf3_server(),
                true => {
                    let port = free_port();
                    let words = format!("iperf3 -s -1 -p {port}");
                    (Running::start(&mut command(LINKRATE, &words)), port)
                }
            };
            await_listener(port);
            let document = client(port, &format!("-J {options}")).wait().expect_code(0).json();
            server.wait().expect_code(0);
            let sums = document["end"].as_object().expect("sums");
            let rates = sums.iter().filter(|(name, _)| name.starts_with("sum_"));
            for (name, sum) in rates {
                let rate = sum["bits_per_second"].as_f64().expect("a rate");
                assert!(rate > 0.0 && rate < MAX, "{options}: {name} {sum:#}");
                if is_ours && options.starts_with("-R -n 256K") {
                    assert_eq!(sum["bytes"], 262_144, "{options}: {name} {sum:#}");
                }
            }
            for interval in document["intervals"].as_array().expect("intervals") {
                let rate = interval["sum"]["bits_per_second"].as_f64().expect("a rate");
                assert!(rate < MAX, "{options}: {interval:#}");
            }
        }
    }
}

#[test]
#[ignore = "exhaustive: both ends are the ones of other tests"]
fn linkrate_serves_its_own_client() {
    let port = free_port();
    let server = Running::start(&mut command(LINKRATE, &format!("iperf3 -s -p {port}")));
    await_listener(port);
    // a receiver ends by its own clock, so a sender may be ahead by some datagrams: small ones are no part of the sum to speak of
    // the server has one test at a time
    for options in ["", "-R", "--bidir", "-u", "-u -R -l 4K", "-P 4"] {
        let finished = client(port, &format!("-J -t 1 -b 40M {options}")).wait().expect_code(0);
        let end = &finished.json()["end"];
        // two datagrams that a busy machine loses are 0.6 % of a second
        let lost = end["sum"]["lost_percent"].as_f64().unwrap_or_default();
        let arrived = end["sum_sent"]["bytes"].as_f64().expect("octets") * (1.0 - lost / 100.0);
        agree(options, &arrived.into(), &end["sum_received"]["bytes"]);
    }
    // text, with one line for each interval
    let text = client(port, "-t 3 -b 40M").wait().expect_code(0);
    assert_eq!(text.stdout.matches("/sec    0").count(), 4, "{}", text.stdout);
    assert!(text.stdout.ends_with("receiver\n\niperf Done.\n"), "{}", text.stdout);
    assert!(text.stderr.contains("note: 3 intervals: mean "), "{}", text.stderr);
    server.signal(Signal::INT);
    let finished = server.wait().expect_code(0);
    assert!(finished.stderr.contains("listening on [::]:"), "{}", finished.stderr);
    assert!(finished.stderr.contains("without any authentication"), "{}", finished.stderr);
    assert!(finished.stdout.contains("\"client\":\"127.0.0.1:"), "{}", finished.stdout);
    assert_eq!(finished.stdout.lines().count(), 7);
}

#[test]
fn a_stream_of_documents_has_one_on_each_line() {
    let port = free_port();
    let server = Running::start(&mut command(LINKRATE, &format!("iperf3 -s -1 -p {port}")));
    await_listener(port);
    let finished = client(port, "--json-stream -t 2 -b 40M").wait().expect_code(0);
    let events: Vec<String> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"))
        .map(|line| line["event"].as_str().expect("an event").to_owned())
        .collect();
    assert_eq!(events, ["start", "interval", "interval", "end"]);
    server.wait().expect_code(0);
}

#[test]
fn an_interruption_ends_the_test_properly() {
    let port = free_port();
    let server = Running::start(&mut command(LINKRATE, &format!("iperf3 -s -p {port}")));
    await_listener(port);
    let running = client(port, "-J -t 30 -b 40M");
    await_connections(port, 2);
    // it shall have sent something
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::INT);
    let document = running.wait().expect_code(0).json();
    assert!(document["error"].as_str().expect("an error").contains("interrupt"));
    let end = &document["end"];
    agree("an interruption", &end["sum_sent"]["bytes"], &end["sum_received"]["bytes"]);
    server.signal(Signal::INT);
    let finished = server.wait().expect_code(0);
    assert!(finished.stdout.contains("\"ended\":\"complete\""), "{}", finished.stdout);
}

#[test]
fn what_cannot_be_is_reported_as_iperf3_tells_it() {
    let port = free_port();
    let refused = client(port, "-J").wait().expect_code(1);
    let error = &refused.json()["error"];
    assert_eq!(error, "unable to connect to server: Connection refused");
    for (options, said) in [
        ("--sctp", "does not take iperf3's option --sctp"),
        ("-F x", "does not take iperf3's option -F"),
        ("-t 1 -n 5", "--time, --bytes and --blockcount"),
        ("-A 0,", "two of them with a comma"),
        ("-R --bidir", "cannot be used with"),
    ] {
        let refused = client(port, options).wait().expect_code(1);
        assert!(refused.stderr.contains(said), "{options}: {}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn a_user_is_admitted_by_servers_of_either_padding() {
    needs!("iperf3");
    let keys = Keys::new();
    let [private, public, users] =
        ["private.pem", "public.pem", "users"].map(|name| keys.path(name));
    let measured = |port: u16, user: &str, password: &str, padding: &str| {
        let words = format!(
            "iperf3 -c 127.0.0.1 -p {port} -J -t 1 -b 20M --username {user} --rsa-public-key-path {public}"
        );
        let mut client = command(LINKRATE, &words);
        client.env("IPERF3_PASSWORD", password).env("IPERF3_PADDING", padding);
        Running::start(&mut client).wait().json()
    };
    // versions before 3.17 expect another padding than later ones
    let port = free_port();
    let words =
        format!("-s -p {port} --rsa-private-key-path {private} --authorized-users-path {users}");
    let theirs = Running::start(&mut command("iperf3", &words));
    await_listener(port);
    let document = measured(port, "mario", "rossi", padding_of_iperf3());
    assert!(document["error"].is_null(), "{document:#}");
    drop(theirs);
    let port = free_port();
    let words = format!(
        "serve --programs iperf3 --iperf3-port {port} --users {users} --rsa-private-key {private}"
    );
    let ours = Running::start(&mut command(LINKRATE, &words));
    await_listener(port);
    let document = measured(port, "mario", "rossi", "oaep");
    assert!(document["error"].is_null(), "{document:#}");
    for (user, password) in [("mario", "Rossi"), ("maria", "rossi")] {
        let document = measured(port, user, password, "oaep");
        assert_eq!(document["error"], "test authorization failed", "{document:#}");
    }
    ours.signal(Signal::INT);
    let lines = ours.wait().expect_code(0).stdout;
    assert!(
        lines.lines().next().is_some_and(|line| line.contains("\"user\":\"mario\"")),
        "{lines}"
    );
}
