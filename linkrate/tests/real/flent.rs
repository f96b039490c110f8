//! flent as the judge: its own test definitions, with linkrate as netperf and as its server, and its plots.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::common::ends::{await_listener, free_port};
use crate::common::flent::Flent;
use crate::common::{LINKRATE, Running, command, linkrate};
use rustix::process::Signal;
use serde_json::Value;

/// The data files in flent's directory, by name.
fn data_files(flent: &Flent) -> Vec<PathBuf> {
    let entries = fs::read_dir(flent.directory()).expect("list the directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.to_string_lossy().ends_with(".flent.gz")).collect();
    found.sort();
    found
}

/// Draws a plot, and returns the size of its file.
#[track_caller]
fn plot(flent: &Flent, file: &str, plot: &str) -> u64 {
    let picture = format!("{plot}.png");
    let finished = flent.with(&format!("-i {file} -p {plot} -o {picture}"));
    assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
    let bytes = fs::read(flent.directory().join(&picture))
        .unwrap_or_else(|error| panic!("{picture}: {error}\n{}", finished.stderr));
    assert!(bytes.starts_with(b"\x89PNG"), "{plot} is no PNG");
    bytes.len() as u64
}

/// The lines of flent's summary that have a mean: the name of the series and the mean.
fn summary(text: &str) -> Vec<(String, f64)> {
    let of_line = |line: &str| {
        let (name, figures) = line.split_once(" : ")?;
        let mean = figures.split_whitespace().next()?.parse().ok()?;
        Some((name.trim().to_owned(), mean))
    };
    text.lines().filter_map(of_line).collect()
}

/// A test of flent, the series that must have data, a plot of it, and how many measurements it makes.
type Case = (&'static str, &'static [&'static str], &'static str, usize);

const TESTS: &[Case] = &[
    ("tcp_download", &["TCP download", "Ping (ms) ICMP"], "totals", 1),
    (
        "rrul",
        &[
            "TCP upload BE",
            "TCP upload BK",
            "TCP upload CS5",
            "TCP upload EF",
            "TCP download BE",
            "TCP download BK",
            "TCP download CS5",
            "TCP download EF",
            "Ping (ms) UDP BE",
            "Ping (ms) UDP BK",
            "Ping (ms) UDP EF",
            "Ping (ms) ICMP",
        ],
        "all",
        11,
    ),
];

const MORE_TESTS: &[Case] = &[
    ("tcp_upload", &["TCP upload", "Ping (ms) ICMP"], "totals", 1),
    (
        "tcp_ndown --test-parameter download_streams=3",
        &["TCP download::1", "TCP download::2", "TCP download::3", "TCP download sum"],
        "download",
        3,
    ),
    (
        "rtt_fair -H 127.0.0.2 -H 127.0.0.3 -H 127.0.0.4",
        &["TCP upload sum", "TCP download sum", "TCP upload BE1 127.0.0.2", "Ping (ms) avg"],
        "all",
        8,
    ),
];

const IPV6_TESTS: &[Case] = &[(
    "tcp_ndown --test-parameter download_streams=2 -6 --local-bind ::1",
    &["TCP download::1", "TCP download::2", "TCP download sum"],
    "download",
    2,
)];

#[test]
fn flent_measures_its_own_tests_with_linkrate_and_draws_them() {
    measures(&or_skip!(Flent::find()), "0.0.0.0", "127.0.0.1", TESTS);
}

#[test]
#[ignore = "exhaustive: another address family"]
fn flent_measures_over_ipv6_from_an_address_that_is_named() {
    needs!(ipv6);
    let flent = or_skip!(Flent::find());
    // it tries ping6 with the name, which may be one of IPv4 alone
    let ping6 = flent.directory().join("ping6");
    fs::write(&ping6, "#!/bin/sh\nexec ping -6 $(echo \"$*\" | sed s/localhost/::1/)\n")
        .expect("a script");
    fs::set_permissions(&ping6, Permissions::from_mode(0o755)).expect("a mode");
    measures(&flent, "::", "::1", IPV6_TESTS);
}

#[test]
#[ignore = "exhaustive: more tests of flent"]
fn flent_measures_more_of_its_tests_with_linkrate_and_draws_them() {
    measures(&or_skip!(Flent::find()), "0.0.0.0", "127.0.0.1", MORE_TESTS);
}

/// Runs tests of flent with a server that listens on `bind`, and that is `host` for flent.
fn measures(flent: &Flent, bind: &str, host: &str, cases: &[Case]) {
    needs!("ping");
    let port = free_port();
    let words = format!("serve --bind {bind} --programs netperf --netperf-port {port}");
    let server = Running::start(&mut command(LINKRATE, &words));
    await_listener(port);
    for (number, (words, series, picture, _)) in cases.iter().enumerate() {
        let finished =
            flent.with(&format!("{words} -H {host} -l 2 -d 1 --netperf-control-port {port}"));
        let text = format!("{}{}", finished.stdout, finished.stderr);
        assert_eq!(finished.status.code(), Some(0), "{words}: {text}");
        assert!(!text.contains("WARNING"), "{words}: {text}");
        let reported = summary(&text);
        for name in *series {
            let found = reported.iter().find(|(reported, _)| reported.starts_with(name));
            assert!(found.is_some_and(|(_, mean)| *mean > 0.0), "{words}: no {name} in {text}");
        }
        let files = data_files(flent);
        assert_eq!(files.len(), number + 1, "{files:?}");
        let of_test = words.split_whitespace().next().unwrap_or_default();
        let file = files.iter().find(|file| {
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(of_test))
        });
        let file = file.unwrap_or_else(|| panic!("no file of {of_test} in {files:?}"));
        // a picture without curves is smaller
        let size = plot(flent, &file.display().to_string(), picture);
        assert!(size > 20_000, "{words}: {picture} has {size} bytes");
    }
    server.signal(Signal::INT);
    let lines = server.wait().expect_code(0).stdout;
    let tests = lines.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
    let tests: Vec<Value> = tests.filter(|line: &Value| !line["test"].is_null()).collect();
    let ended = tests.iter().filter(|line| line["ended"] == "complete").count();
    let least: usize = cases.iter().map(|(_, _, _, measurements)| measurements).sum();
    assert!(ended >= least, "{ended} of {} tests are complete", tests.len());

    // what flent wrote stands in a result set
    let files: Vec<String> =
        data_files(flent).iter().map(|file| file.display().to_string()).collect();
    let set = flent.directory().join("set");
    let words = format!("import {} --output {}", files.join(" "), set.display());
    let imported = linkrate(&words).expect_code(0).stdout;
    for (words, ..) in cases {
        let test = words.split_whitespace().next().unwrap_or_default();
        assert!(imported.contains(test), "no {test} in {imported}");
    }
}

/// Streams and transactions over a veth pair.
const STUDY: &str = r#"
title = "Streams and transactions"

[testbed]
adapter = "veth"

[factors]
kind = ["stream", "request-response"]

[method]
run = "1 s"
idle = "0 s"
purpose = "functions"
blocks = { min = 2, max = 2 }
"#;

#[test]
fn flent_draws_the_runs_of_a_study() {
    let flent = or_skip!(Flent::find());
    let study = flent.directory().join("study.toml");
    fs::write(&study, STUDY).expect("write the study");
    let set = flent.directory().join("set");
    let (study, set) = (study.display().to_string(), set.display().to_string());
    linkrate(&format!("run {study} --output {set}")).expect_code(0);
    let files = flent.directory().join("files").display().to_string();
    linkrate(&format!("report {set} --format flent --output {files}")).expect_code(0);
    let entries = fs::read_dir(&files).expect("list the files");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").path().display().to_string()).collect();
    names.sort();
    let (streams, transactions): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.ends_with(".stream.flent.gz"));
    assert!(!streams.is_empty() && !transactions.is_empty(), "{names:?}");
    let results = linkrate(&format!("report {set} --json")).expect_code(0).json();
    let cell = |at: usize| results["cells"][at].clone();
    let upload = |file: &&String| {
        let printed = flent.with(&format!("-i {file} -f summary")).stdout;
        let series = summary(&printed).into_iter().find(|(name, _)| name == "TCP upload::all");
        series.expect("an upload").1
    };
    let uploads: Vec<f64> = streams.iter().map(upload).collect();
    let upload = uploads.iter().sum::<f64>() / uploads.len() as f64;
    let mean = cell(0)["throughput"]["mean"].as_f64().expect("a mean") / 1e6;
    assert!((upload / mean - 1.0).abs() < 0.5, "{uploads:?} Mbit/s, of all runs {mean}");
    assert!(plot(&flent, streams[0], "upload") > 20_000);
    assert!(plot(&flent, transactions[0], "ping") > 20_000);
    let log = linkrate(&format!("report {set} --format hdr-log")).expect_code(0).stdout;
    assert_eq!(log.matches("Tag=request-response,").count(), transactions.len(), "{log}");
}
