//! The options of iperf3, beside the installed one: what it takes, `linkrate iperf3` takes, and what it refuses, linkrate
//! refuses. Those of versions up to 3.21 are tried at linkrate alone.

use std::fs;
use std::time::Duration;

use crate::common::ends::{Served, await_connections, await_listener, free_port};
use crate::common::{Finished, LINKRATE, Running, at_once, command, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Options of a client that 3.12 has.
const OF_BOTH: [&str; 77] = [
    "--timestamps",
    "--timestamps=%s",
    "-t 0",
    "-t 5",
    "-t 1.5",
    "-t inf",
    "-t 86401",
    "-t 5 -n 1K",
    "-n 1K -k 5",
    "-n 0",
    "-n 1K",
    "-k 5",
    "-O 1.0",
    "-O 601",
    "-w 0",
    "-w 256K",
    "-w 1G",
    "-l 0",
    "-l 2M",
    "-u -l 16",
    "-u -l 65508",
    "-b 0",
    "-b -1",
    "-b 10M/5",
    "-b 10M/0",
    "-b 10M/1001",
    "-P 128",
    "-P 129",
    "-M 0",
    "-M 1460",
    "-M 40000",
    "-N",
    "-C reno",
    "-u -C reno",
    "-Z",
    "-u -Z",
    "-R",
    "--bidir",
    "-R --bidir",
    "-S 0x10",
    "-S 256",
    "--dscp ef",
    "--dscp 64",
    "-L 5",
    "-L 0",
    "--repeating-payload",
    "--fq-rate 100M",
    "--no-fq-socket-pacing",
    "--pacing-timer 500",
    "--dont-fragment",
    "-u --dont-fragment",
    "--get-server-output",
    "--extra-data x",
    "-T x",
    "-V",
    "-d",
    "-R --rcv-timeout 1000",
    "-R --rcv-timeout 50",
    "--rcv-timeout 1000",
    "--snd-timeout 1000",
    "--bind-dev lo",
    "-B 127.0.0.1",
    "-B 127.0.0.1%lo",
    "--cport 40000",
    "-A 0",
    "-A 0,0",
    "-A 1025",
    "-f K",
    "-f Kbits",
    "-f x",
    "-i 0",
    "-i 0.05",
    "-i 61",
    "-1",
    "-D",
    "--server-bitrate-limit 1G",
    "--idle-timeout 5",
];

/// Options of later versions.
const OF_LATER: [&str; 8] = [
    "-u --gsro",
    "-m",
    "--skip-rx-copy",
    "--cntl-ka",
    "--cntl-ka=60/5/4",
    "--json-stream --json-stream-full-output",
    "--use-pkcs1-padding",
    "--debug=2",
];

/// What later versions refuse.
const REFUSED: [&str; 4] = ["-P 0", "-A 1025", "-u -l 15", "--cntl-ka=20/5/4"];

/// Options that are refused by their names: files, and SCTP.
const LEFT_OUT: [&str; 4] = ["--sctp", "--nstreams 2", "-X 127.0.0.1", "-F /etc/hostname"];

fn ours(words: &str) -> Running {
    Running::start(&mut command(LINKRATE, &format!("iperf3 {words}")))
}

/// A client of a port that nobody listens at: one whose options are taken says so.
fn at_nobody(program: &str, options: &str) -> Finished {
    let words = format!("-c 127.0.0.1 -p {} {options}", free_port());
    match program {
        "iperf3" => Running::start(&mut command("iperf3", &words)),
        _ => ours(&words),
    }
    .wait()
    .expect_code(1)
}

fn is_taken(finished: &Finished) -> bool {
    // documents tell it too
    [&finished.stderr, &finished.stdout].iter().any(|text| text.contains("unable to connect"))
}

#[test]
fn options_are_taken_and_refused_as_iperf3_does() {
    needs!("iperf3");
    at_once(8, &OF_BOTH, |options| {
        let [theirs, ours] = ["iperf3", "linkrate"].map(|program| at_nobody(program, options));
        let [says, said] = [&theirs.stderr, &ours.stderr];
        assert_eq!(is_taken(&theirs), is_taken(&ours), "{options}: {says} {said}");
    });
    at_once(8, &OF_LATER, |options| {
        let ours = at_nobody("linkrate", options);
        assert!(is_taken(&ours), "{options}: {ours:?}");
    });
    at_once(8, &REFUSED, |options| {
        let ours = at_nobody("linkrate", options);
        assert!(!is_taken(&ours), "{options}: {ours:?}");
    });
    at_once(8, &LEFT_OUT, |options| {
        let ours = at_nobody("linkrate", options);
        let name = options.split_whitespace().next().expect("an option");
        let said = format!("does not take iperf3's option {name}");
        assert!(ours.stderr.contains(&said), "{options}: {ours:?}");
    });
    // a server takes no options of clients
    at_once(4, &["-t 5", "-R", "-P 2", "-u", "-b 1M", "-w 64K", "-Z"], |options| {
        let port = free_port();
        let words = format!("-s -1 -p {port} {options}");
        Running::start(&mut command("iperf3", &words)).wait().expect_code(1);
        ours(&words).wait().expect_code(1);
    });
}

#[test]
fn values_mean_what_they_mean_to_iperf3() {
    needs!("iperf3");
    let server = Served::start("iperf3", "");
    let cases = ["-t 1.5", "-t 1 -O 1.0", "-t 1 -w 0", "-t 1 -l 0", "-t 1 -b -1", "-u -t 1 -l 0"];
    at_once(4, &cases, |options| {
        let words = format!("-c 127.0.0.1 -p {} -J {options}", server.port);
        let theirs = Running::start(&mut command("iperf3", &words)).wait().expect_code(0).json();
        let ours = ours(&words).wait().expect_code(0).json();
        for key in ["protocol", "duration", "omit", "blksize", "bytes", "num_streams"] {
            // a datagram is as long as a segment, which grows in the first packets on loopback
            if key == "blksize" && options.contains("-u") {
                continue;
            }
            let [theirs, ours] = [&theirs, &ours].map(|all| &all["start"]["test_start"][key]);
            assert_eq!(theirs, ours, "{options}: {key}");
        }
        let seconds = |all: &Value| {
            let sums = ["sum_sent", "sum"].map(|sum| all["end"][sum]["seconds"].as_f64());
            sums.into_iter().flatten().next().expect("a time")
        };
        assert!((seconds(&theirs) - seconds(&ours)).abs() < 0.3, "{options}: {ours:#}");
    });
    let lines = server.end();
    assert_eq!(lines.len(), cases.len() * 2);
    assert!(lines.iter().all(|line| line["ended"] == "complete"), "{lines:#?}");
}

#[test]
fn a_signal_ends_a_test_without_end_with_its_results_and_exit_code_0() {
    at_once(3, &[Signal::INT, Signal::TERM, Signal::HUP], |signal| {
        let port = free_port();
        let server = ours(&format!("-s -1 -p {port}"));
        await_listener(port);
        let client = ours(&format!("-c 127.0.0.1 -p {port} -J -t 0 -b 40M"));
        await_connections(port, 2);
        std::thread::sleep(Duration::from_millis(1200));
        client.signal(*signal);
        let document = client.wait().expect_code(0).json();
        let error = document["error"].as_str().expect("an error");
        assert!(error.starts_with("interrupt - the client has terminated by signal "), "{error}");
        assert!(document["end"]["sum_received"]["bytes"].as_u64() > Some(1 << 20), "{document:#}");
        let line = server.wait().expect_code(0).stdout;
        assert!(line.contains("\"ended\":\"complete\""), "{line}");
    });
}

#[test]
fn options_of_later_versions_have_their_effect() {
    let server = Served::start("iperf3", "");
    let client = |options: &str| {
        let words = format!("-c 127.0.0.1 -p {} {options}", server.port);
        ours(&words).wait().expect_code(0)
    };
    let paced = client("-J -R -t 2 -O 1 --fq-rate 100M").json();
    let rate = paced["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    assert!((50e6..115e6).contains(&rate), "{paced:#}");
    assert_eq!(paced["start"]["test_start"]["fqrate"], 100_000_000);
    let sends = client("-J -t 2 -O 1 --fq-rate 100M").json();
    let rate = sends["end"]["sum_sent"]["bits_per_second"].as_f64().expect("a rate");
    assert!((50e6..115e6).contains(&rate), "{sends:#}");
    let cases = [
        "-J -R -t 1 -b 40M --skip-rx-copy --repeating-payload",
        "-J -t 1 -b 40M --skip-rx-copy --repeating-payload --cntl-ka=60/5/4 --snd-timeout 5000",
        "-J -u -t 1 -b 4M --dont-fragment --dscp ef -B 127.0.0.1%lo --bind-dev lo",
        "-J -R -u -t 1 -b 4M --dont-fragment --dscp ef --rcv-timeout 500",
        "-J --bidir -u -t 1 -b 100M -l 1400 --gsro",
    ];
    at_once(4, &cases, |options| {
        let document = client(options).json();
        let bytes = document["end"]["sum_received"]["bytes"].as_u64();
        assert!(document["error"].is_null() && bytes > Some(400_000), "{options}: {document:#}");
    });
    let document = client("-J -t 1 -b 40M --get-server-output --extra-data seen").json();
    let output = &document["server_output_json"];
    assert_eq!([&document["extra_data"], &output["extra_data"]], [&json!("seen"); 2]);
    let received = |document: &Value| document["end"]["streams"][0]["receiver"]["bytes"].clone();
    assert_eq!(received(output), received(&document), "{output:#}");
    let text = client("-t 1 -b 40M --get-server-output").stdout;
    assert!(text.contains("\nServer JSON output:\n{"), "{text}");
    let stream = client("--json-stream --json-stream-full-output -t 1 -b 40M").stdout;
    let whole = stream.find("\n{\n").map(|at| serde_json::from_str::<Value>(&stream[at..]));
    let whole = whole.expect("a document behind the events").expect("JSON");
    assert!(whole["end"]["sum_sent"]["bytes"].as_u64() > Some(0), "{stream}");
    let lines = server.end();
    for line in &lines {
        let expected = (&json!("complete"), &json!([]));
        assert_eq!((&line["ended"], &line["ignored"]), expected, "{line:#}");
    }
}

#[test]
fn a_server_in_the_background_listens_when_its_command_has_ended() {
    let port = free_port();
    let directory = tempfile::tempdir().expect("a directory");
    let [pid, log] = ["pid", "log"].map(|name| directory.path().join(name));
    let words = format!("-s -1 -D -p {port} -I {} --logfile {}", pid.display(), log.display());
    let started = ours(&words).wait().expect_code(0);
    assert!(started.stderr.contains("listening on "), "{}", started.stderr);
    let number = fs::read_to_string(&pid).expect("a file with its number");
    assert!(number.trim().parse::<u32>().is_ok(), "{number}");
    // the port is taken
    ours(&format!("-s -D -p {port}")).wait().expect_code(1);
    ours(&format!("-c 127.0.0.1 -p {port} -t 1 -b 10M")).wait().expect_code(0);
    assert!(wait_until(Duration::from_secs(10), || !pid.exists()), "it goes on");
    let log = fs::read_to_string(log).expect("its lines");
    assert!(log.contains("\"ended\":\"complete\""), "{log}");
}

#[test]
fn a_server_keeps_its_limits() {
    let port = free_port();
    let words = "--server-max-duration 5 --server-bitrate-limit 50M/0.3";
    let server = ours(&format!("-s -p {port} {words}"));
    await_listener(port);
    for (options, number) in
        [("-t 6", 37), ("-t 0", 37), ("-t 1 -b 60M", 27), ("-t 1 -P 2 -b 30M", 27), ("-t 4", 27)]
    {
        let refused = ours(&format!("-c 127.0.0.1 -p {port} {options}")).wait().expect_code(1);
        let said = format!("iperf3's error {number}");
        assert!(refused.stderr.contains(&said), "{options}: {}", refused.stderr);
    }
    ours(&format!("-c 127.0.0.1 -p {port} -t 1 -b 20M")).wait().expect_code(0);
    server.signal(Signal::INT);
    server.wait().expect_code(0);
    ours(&format!("-s -1 -p {} --idle-timeout 1", free_port())).wait().expect_code(0);
}

#[test]
fn a_server_has_the_time_before_its_lines_and_not_in_its_documents() {
    for (options, is_document) in [("--timestamps=at%Y:", false), ("--timestamps=at%Y: -J", true)] {
        let port = free_port();
        let server = ours(&format!("-s -1 -p {port} {options}"));
        await_listener(port);
        ours(&format!("-c 127.0.0.1 -p {port} -t 1 -b 20M")).wait().expect_code(0);
        let text = server.wait().expect_code(0).stdout;
        let line = text.strip_prefix("at20").and_then(|rest| rest.split_once(':'));
        let document: Value = match (line, is_document) {
            (Some((_, line)), false) => serde_json::from_str(line),
            (None, true) => serde_json::from_str(&text),
            _ => panic!("{options}: {text}"),
        }
        .expect("JSON");
        assert_eq!(document["ended"].is_null(), is_document, "{options}: {document:#}");
    }
}
