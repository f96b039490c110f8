//! `linkrate measure` on real traffic: every workload, every send and receive path, and sizes and
//! counts at their edges. Each must give one whole cell; how fast it was is nobody's business here.

use std::process::Command;
use std::time::Duration;

use crate::common;
use crate::common::processes::OwnCopy;
use crate::common::{LINKRATE, READ_IN_TURN, Running, cases, command};
use rustix::process::Signal;
use serde_json::Value;

/// The shortest measurement that is still one.
const MEASURE: &str = "measure --adapter veth --json --runs 1 --time 300ms --warm-up 100ms \
                       --purpose functions";

fn measure(options: &str) -> Command {
    let mut command = command(LINKRATE, MEASURE);
    // sizes such as "128 B to 4 KiB" are written with underscores
    command.args(options.split_whitespace().map(|word| word.replace('_', " ")));
    command
}

/// The one cell of a measurement that went well, with everything that must hold of any.
#[track_caller]
fn cell_of(options: &str) -> Value {
    let document = Running::start(&mut measure(options)).wait().expect_code(0).json();
    common::schema::check("results", &document);
    assert_eq!(document["format"], 1, "{options}");
    assert_eq!(document["failures"], Value::Array(Vec::new()), "{options}");
    assert_eq!(document["complete"], true, "{options}");
    let cells = document["cells"].as_array().expect("cells are a list");
    assert_eq!(cells.len(), 1, "{options}");
    let cell = &cells[0];
    assert_eq!((&cell["runs"], &cell["failed"]), (&1.into(), &0.into()), "{options}");
    for (figure, unit) in [("service_demand", None), ("cpu", Some("%"))] {
        assert!(mean(cell, figure) > 0.0, "{options}: {figure}: {cell}");
        assert!(unit.is_none_or(|unit| cell[figure]["unit"] == unit), "{options}: {cell}");
    }
    assert!(mean(cell, "cpu") <= 100.0, "{options}: {cell}");
    // with one run there is no interval, and none is made up
    assert_eq!(cell["cpu"]["low"], Value::Null, "{options}");
    assert!(!cell["verdict"].as_str().expect("a verdict").is_empty(), "{options}");
    cell.clone()
}

fn mean(cell: &Value, figure: &str) -> f64 {
    cell[figure]["mean"].as_f64().unwrap_or_else(|| panic!("no {figure}: {cell}"))
}

/// A cell of bulk data.
#[track_caller]
fn stream(options: &str) -> Value {
    let cell = cell_of(options);
    assert!(mean(&cell, "throughput") > 0.0, "{options}: {cell}");
    assert_eq!(cell["service_demand"]["unit"], "us/KB", "{options}");
    assert_eq!(cell["latency"], Value::Null, "{options}");
    assert_eq!(cell["transactions"], Value::Null, "{options}");
    cell
}

/// A cell of transactions.
#[track_caller]
fn transactions(options: &str) -> Value {
    let cell = cell_of(options);
    assert!(mean(&cell, "transactions") > 0.0, "{options}: {cell}");
    assert_eq!(cell["service_demand"]["unit"], "us/transaction", "{options}");
    let latency = &cell["latency"];
    let figure = |name: &str| latency[name].as_f64().unwrap_or_else(|| panic!("{name}: {cell}"));
    // the highest percentiles take more transactions than a short run has
    let reported =
        ["p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns"].map(|p| latency[p].as_f64());
    let known = reported.iter().flatten().count();
    assert!(reported[..known].iter().all(Option::is_some) && known > 0, "{options}: {latency}");
    let mut ascending = vec![figure("min_ns")];
    ascending.extend(reported.into_iter().flatten().chain([figure("max_ns")]));
    assert!(ascending[0] > 0.0 && ascending.is_sorted(), "{options}: {latency}");
    assert!((figure("min_ns")..=figure("max_ns")).contains(&figure("mean_ns")), "{latency}");
    // every transaction that was counted was timed; a window's edge may cut one per connection
    let counted = mean(&cell, "transactions") * 0.3;
    assert!((figure("count") / counted - 1.0).abs() < 0.2, "{options}: {cell}");
    cell
}

#[test]
#[ignore = "exhaustive: more requests"]
fn requests_at_a_rate_are_answered_at_that_rate() {
    needs!(root);
    for options in ["--kind request-response --nodelay on", "--kind udp-request-response"] {
        let cell = transactions(&format!("{options} --request-rate 500 --connections 2"));
        assert_eq!(cell["loop"], "open", "{options}");
        // as many as were due; on a busy machine a little less, or more by those that waited at the opening edge
        let answered = mean(&cell, "transactions") / 1000.0;
        assert!((0.8..1.1).contains(&answered), "{options}: {cell}");
        let is_bound = cell["bottlenecks"][0]["resource"] == "request_rate";
        assert_eq!(is_bound, answered >= 0.99, "{options}: {cell}");
        assert_eq!(transactions(options)["loop"], "closed", "{options}");
    }
}

#[test]
fn streams_flow_in_every_direction() {
    needs!(root);
    for connections in cases(&["--clients 2 --connections 3", ""], 1) {
        for direction in ["transmit", "receive", "bidirectional"] {
            stream(&format!("--direction {direction} {connections}"));
        }
    }
}

#[test]
#[ignore = "exhaustive: more sizes"]
fn messages_are_of_one_size_or_of_a_range() {
    needs!(root);
    for message in cases(&["1", "1_B_to_64_MiB", "128_B_to_4_KiB", "64_MiB"], 2) {
        stream(&format!("--message {message}"));
    }
    stream("--direction bidirectional --message 128_B_to_4_KiB --connections 2");
    stream("--kind udp-stream --message 1_B_to_1472_B");
    transactions("--kind request-response --request 128_B_to_4_KiB --response 1_B_to_64_KiB");
}

#[test]
fn every_send_path_meets_every_receive_path() {
    needs!(root);
    for send in ["plain", "msg-zerocopy", "sendfile", "splice"] {
        for receive in cases(&["truncate", "plain"], 1) {
            stream(&format!("--send-path {send} --receive-path {receive}"));
        }
        // what is not a whole page, and the peer as the sender
        stream(&format!("--send-path {send} --message 1_B_to_10000_B --direction bidirectional"));
    }
    stream("--zero-copy");
}

#[test]
fn requests_are_answered() {
    needs!(root);
    let requests = [
        "",
        "--request 256_KiB --response 256_KiB --burst 8",
        "--clients 2 --connections 3 --burst 4",
        "--burst 16",
        "--nodelay on --burst 16 --request 100 --response 1000",
        "--request 1 --response 1_MiB",
    ];
    for options in cases(&requests, 3) {
        transactions(&format!("--kind request-response {options}"));
    }
}

#[test]
fn more_requests_outstanding_means_more_transactions() {
    needs!(root);
    let rate = |burst: u32| {
        let options = format!("--kind request-response --nodelay on --burst {burst}");
        mean(&transactions(&options), "transactions")
    };
    let (one, many) = (rate(1), rate(32));
    // a wake-up for each against a wake-up for many: several times, wherever it is run
    assert!(many > 1.5 * one, "{one} and {many}");
}

#[test]
fn connections_are_made_for_each_transaction() {
    needs!(root);
    for options in ["", "--connections 4", "--clients 2 --connections 3 --response 64_KiB"] {
        transactions(&format!("--kind connect-request-response {options}"));
    }
}

#[test]
fn datagrams_flow_and_are_answered() {
    needs!(root);
    for direction in cases(&["bidirectional", "transmit", "receive"], 1) {
        stream(&format!("--kind udp-stream --direction {direction}"));
    }
    // the kernel cuts below the stack what the stack passed as one
    let packet = |options: &str| {
        let cell = stream(&format!("--kind udp-stream {options}"));
        cell["evidence"]["stack_packet_bytes"].as_f64().expect("packets")
    };
    assert!(packet("--udp-segment 1472 --message 64768") > 3000.0);
    assert!(packet("--message 1472") <= 1500.0 * READ_IN_TURN);
    let streams = [
        "--udp-segment 1472 --message 64768 --udp-gro on",
        "--message 65507",
        "--clients 2 --connections 3",
        "--udp-gro on",
        "--message 1",
    ];
    for options in cases(&streams, 3) {
        stream(&format!("--kind udp-stream {options}"));
    }
    let requests =
        ["--request 1000 --response 65507", "--burst 16", "", "--clients 2 --connections 3"];
    for options in cases(&requests, 2) {
        transactions(&format!("--kind udp-request-response {options}"));
    }
}

#[test]
fn both_ends_can_share_a_cpu_with_a_warning() {
    needs!(root);
    let options = "--sut-cpus 0 --client-cpus 0";
    let document = Running::start(&mut measure(options)).wait().expect_code(0).json();
    let warnings = document["warnings"].to_string() + &document["facts"]["warnings"].to_string();
    assert!(warnings.contains("share CPU 0"), "{warnings}");
    assert!(mean(&document["cells"][0], "throughput") > 0.0);
}

#[test]
fn several_runs_have_an_interval() {
    needs!(root);
    let words = "measure --json --runs 3 --time 200ms --warm-up 100ms --purpose functions";
    let document = common::linkrate(words).expect_code(0).json();
    let cell = &document["cells"][0];
    assert_eq!(cell["runs"], 3);
    assert_eq!(document["facts"]["facts"]["adapter"], "gigabit", "the default");
    for figure in ["throughput", "service_demand", "cpu"] {
        let value = |end: &str| cell[figure][end].as_f64().expect("a number");
        assert!(value("low") <= value("mean") && value("mean") <= value("high"), "{cell}");
    }
}

#[test]
fn ctrl_c_keeps_the_finished_samples() {
    needs!(root);
    let own = OwnCopy::new();
    let words = "measure --json --runs 100 --time 200ms --warm-up 0s --purpose functions";
    let running = Running::start(&mut command(own.program(), words));
    own.await_traffic(2);
    std::thread::sleep(Duration::from_secs(1));
    running.signal(Signal::INT);
    let document = running.wait().expect_code(130).json();
    assert_eq!(
        (&document["complete"], &document["stopped"]),
        (&false.into(), &"interrupted".into())
    );
    let runs = document["cells"][0]["runs"].as_u64().expect("a count");
    assert!((1..100).contains(&runs), "{runs}");
    assert_eq!(document["failures"], Value::Array(Vec::new()));
    own.expect_nothing_left();
}

#[test]
fn people_get_a_table() {
    needs!(root);
    let finished =
        common::linkrate("measure --runs 2 --time 100ms --warm-up 0s --purpose functions")
            .expect_code(0);
    for word in ["throughput", "service demand", "verdict", "b/s", "µs/KB"] {
        assert!(finished.stdout.contains(word), "{word}: {}", finished.stdout);
    }
    // talk goes there, and there is none without a terminal
    assert_eq!(finished.stderr, "");
}

#[test]
fn refuses_an_unknown_congestion_control_before_any_run() {
    let options = "--congestion cubbic";
    let finished = Running::start(&mut measure(options)).wait().expect_code(2);
    assert_eq!(finished.stdout, "");
    assert!(finished.stderr.contains("no \"cubbic\""), "{}", finished.stderr);
}

#[test]
fn segmentation_offload_goes_off_with_checksum_offload() {
    needs!(root);
    let options = "--tx-checksum off";
    let document = Running::start(&mut measure(options)).wait().expect_code(0).json();
    let driver = document["cells"][0]["evidence"]["driver_packet_bytes"].as_f64().expect("bytes");
    assert!(driver <= 1514.0, "{driver}");
}

#[test]
#[ignore = "exhaustive: the options of a study"]
fn a_measurement_is_kept_where_a_directory_is_named() {
    needs!(root);
    let place = tempfile::tempdir().expect("a directory");
    let [before, after] = ["before", "after"].map(|name| place.path().join(name));
    let kept = |into: &std::path::Path| {
        let line = MEASURE.replace("--runs 1", "--runs 5");
        Running::start(command(LINKRATE, &line).arg("--dir").arg(into)).wait()
    };
    let printed = kept(&before).expect_code(0).json();
    let report = Running::start(command(LINKRATE, "report --format json").arg(&before)).wait();
    let read = report.expect_code(0).json();
    assert_eq!(read["cells"], printed["cells"]);
    let refused = kept(&before);
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
    kept(&after).expect_code(0);
    let mut compare = command(LINKRATE, "compare --json");
    let compared = Running::start(compare.args([&before, &after])).wait();
    assert!(matches!(compared.code(), Some(0 | 5)), "{}", compared.stderr);
    assert_eq!(compared.json()["cells"].as_array().map(Vec::len), Some(1), "{}", compared.stdout);
}
