//! Formats of other programs: data files of flent, logs of HdrHistogram, OpenMetrics, KTAP.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use linkrate_model::measurement::{Interval, PartMeasured};
use linkrate_model::mix::MixPart;
use linkrate_model::{Measurement, Protocol, Task};
use linkrate_report::{ReportError, flent, hdr_log, ktap, openmetrics};
use linkrate_study::results::StudyResults;
use linkrate_study::store::Outcome;
use linkrate_study::verdict::{Bottleneck, Verdict};
use serde_json::Value;

use crate::{fixture, simulated};

/// The results with a change of each measured run.
fn with(mut results: StudyResults, change: impl Fn(&mut Measurement)) -> StudyResults {
    for run in &mut results.runs {
        if let Outcome::Measured(measured) = &mut run.outcome {
            change(measured);
        }
    }
    results
}

/// The results as if each run had been one of transactions.
fn of_transactions() -> StudyResults {
    let mut results = fixture::stream();
    for run in &mut results.runs {
        if let Task::Workload(workload) = &mut run.spec.task {
            workload.kind = Protocol::RequestResponse;
        }
    }
    results
}

fn half_seconds(counts: &[(u64, u64, u64)]) -> Vec<Interval> {
    let ends = (1u64..).map(|number| number * 500_000_000);
    let of = |(end_ns, &(transmit_bytes, receive_bytes, transactions))| Interval {
        end_ns,
        transmit_bytes,
        receive_bytes,
        transactions,
    };
    ends.zip(counts).map(of).collect()
}

fn first_file(results: &StudyResults) -> (String, Value) {
    let file = flent::files(results).unwrap().swap_remove(0);
    let mut text = String::new();
    GzDecoder::new(&file.bytes[..]).read_to_string(&mut text).unwrap();
    (file.name, serde_json::from_str(&text).unwrap())
}

#[test]
fn streams_are_uploads_and_downloads_of_flent() {
    let intervals = half_seconds(&[(62_500_000, 0, 0), (125_000_000, 0, 0)]);
    let results = with(fixture::stream(), |measured| measured.intervals.clone_from(&intervals));
    let (name, file) = first_file(&results);
    assert!(name.starts_with("tso-run00") && name.ends_with(".flent.gz"), "{name}");
    assert_eq!(file["version"], 4);
    assert_eq!(file["x_values"], serde_json::json!([0.5, 1.0]));
    assert_eq!(file["results"]["TCP upload::all"], serde_json::json!([1000.0, 2000.0]));
    assert_eq!(file["results"]["TCP upload sum"], file["results"]["TCP upload::all"]);
    assert_eq!(file["results"]["TCP download::all"], Value::Null, "a way without traffic");
    assert_eq!(file["raw_values"]["TCP upload::all"][1]["val"], 2000.0);
    assert!(file["metadata"]["SERIES_META"]["TCP upload::all"]["MEAN_VALUE"].is_f64());
    let measured = results.runs.iter().filter(|run| run.cell.is_some() && run.is_good()).count();
    assert_eq!(flent::files(&results).unwrap().len(), measured, "no file of an idle run");
}

#[test]
fn transactions_are_pings_of_flent() {
    let intervals = half_seconds(&[(0, 0, 5000), (0, 0, 0), (0, 0, 10_000)]);
    let results = with(of_transactions(), |measured| measured.intervals.clone_from(&intervals));
    let (_, file) = first_file(&results);
    let pings = &file["results"]["Ping (ms)::UDP TCP_RR"];
    let (first, stalled, last) =
        (pings[0].as_f64().unwrap(), &pings[1], pings[2].as_f64().unwrap());
    assert!((first / last - 2.0).abs() < 1e-9, "{pings}");
    assert!(stalled.is_null(), "no transaction has no latency");
}

/// Little's law tells the latency of a closed loop, whose outstanding requests are known.
#[test]
fn transactions_of_an_open_loop_have_no_pings() {
    let intervals = half_seconds(&[(1000, 1000, 5000)]);
    let mut results = with(of_transactions(), |measured| measured.intervals.clone_from(&intervals));
    for run in &mut results.runs {
        if let Task::Workload(workload) = &mut run.spec.task {
            workload.request_rate_per_s = Some(10_000);
        }
    }
    let (_, file) = first_file(&results);
    assert_eq!(file["results"]["Ping (ms)::UDP TCP_RR"], Value::Null);
    assert!(file["results"]["TCP upload::TCP_RR"][0].is_f64(), "{file}");
}

#[test]
fn runs_without_figures_over_time_are_refused() {
    assert!(matches!(flent::files(&fixture::stream()), Err(ReportError::NoIntervals)));
    assert!(matches!(hdr_log::document(&fixture::stream()), Err(ReportError::NoLatencies)));
    let broken = with(fixture::stream(), |measured| measured.histogram = Some("AAAA".into()));
    assert!(matches!(hdr_log::document(&broken), Err(ReportError::Histogram { .. })));
}

/// Where several workloads of a mix have latencies, each has its own.
#[test]
fn a_log_has_the_workloads_of_a_mix() {
    let (text, _) = latencies();
    let mut results = with(fixture::stream(), |measured| {
        let timed = PartMeasured { histogram: Some(text.clone()), ..PartMeasured::default() };
        measured.parts = vec![timed.clone(), PartMeasured::default(), timed];
    });
    for run in &mut results.runs {
        if let Task::Workload(workload) = &mut run.spec.task {
            let part = |name: &str| MixPart {
                name: name.to_owned(),
                share: 1,
                workload: workload.clone(),
            };
            workload.mix = ["files", "streams", "small requests"].map(part).into();
        }
    }
    let log = String::from_utf8(hdr_log::document(&results).unwrap()).unwrap();
    let measured = results.runs.iter().filter(|run| run.cell.is_some() && run.is_good()).count();
    for (tag, count) in [("-files,", measured), ("-small-requests,", measured), ("-streams,", 0)] {
        assert_eq!(log.matches(tag).count(), count, "{tag}: {log}");
    }
}

/// Some latencies, and how they are stored.
fn latencies() -> (Box<str>, Histogram<u64>) {
    let mut latencies = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    latencies.record_n(75_000, 98).unwrap();
    latencies.record_n(4_000_000, 2).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&latencies, &mut bytes).unwrap();
    (STANDARD.encode(bytes).into(), latencies)
}

#[test]
fn a_log_has_each_latency_of_each_run() {
    let (text, latencies) = latencies();
    let results = with(of_transactions(), |measured| measured.histogram = Some(text.clone()));
    let log = hdr_log::document(&results).unwrap();
    let mut found = 0;
    for entry in IntervalLogIterator::new(&log) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        found += 1;
        assert!(interval.tag().is_some());
        assert!((interval.max() - 4.0).abs() < 0.01, "{} ms", interval.max());
        let encoded = STANDARD.decode(interval.encoded_histogram()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &encoded[..]).unwrap();
        assert_eq!(read, latencies);
    }
    let timed = results.runs.iter().filter(|run| run.is_good()).count();
    assert_eq!(found, timed);
    assert!(log.starts_with(b"#[Histogram log format version 1.3]\n"));
}

/// Checks OpenMetrics text: metadata before the samples of a family, which stand together, units at the end of names, no
/// sample twice, and the end.
#[track_caller]
fn check_openmetrics(text: &str) {
    let mut families: Vec<(&str, &str)> = Vec::new();
    let mut samples = Vec::new();
    let body = text.strip_suffix("# EOF\n").expect("the end");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(families.iter().all(|(other, _)| *other != name), "{line}");
            families.push((name, kind));
            continue;
        }
        let (name, kind) = *families.last().expect("a type");
        if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (of, unit) = rest.split_once(' ').unwrap();
            assert_eq!(of, name);
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&format!("{name} ")), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let suffix = if kind == "counter" { "_total" } else { "" };
            let of = sample.split('{').next().unwrap();
            assert_eq!(of, format!("{name}{suffix}"));
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(!samples.contains(&sample), "{line}");
            samples.push(sample);
        }
    }
}

#[test]
fn figures_are_openmetrics_text_in_base_units() {
    let stream = openmetrics::results(&fixture::stream());
    insta::assert_snapshot!(stream);
    for results in [fixture::request_response(), fixture::adapter(), fixture::failed()] {
        check_openmetrics(&openmetrics::results(&results));
    }
    check_openmetrics(&stream);
    for name in ["tso", "message-size", "request-response"] {
        check_openmetrics(&openmetrics::results(&simulated::study(name)));
    }
}

/// One cell at its link and the others at a CPU: each has its state, and an effect is the adapter's where both cells are.
#[test]
fn what_the_adapter_did_not_limit_is_marked() {
    let mut results = fixture::stream();
    results.adapter = "gigabit".to_owned();
    let of_link = Bottleneck::Link { percent: 99.8 };
    results.cells[0].verdict.directions[0].bottleneck = of_link;
    for (effect, host_limited) in results.effects.iter_mut().zip([false, true].into_iter().cycle())
    {
        effect.host_limited = Some(host_limited);
    }
    let text = openmetrics::results(&results);
    check_openmetrics(&text);
    let values = |name: &str| -> Vec<&str> {
        let samples = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        samples.filter_map(|line| Some(line.rsplit_once(' ')?.1)).collect()
    };
    assert_eq!(values("linkrate_host_limited"), ["0", "1", "1", "1", "1", "1"]);
    let effects = values("linkrate_effect_host_limited");
    assert_eq!(effects.len(), results.effects.len());
    assert_eq!(effects[..2], ["0", "1"]);
    let tests = ktap::document(&results, &[]).text;
    let lines: Vec<&str> = tests.lines().collect();
    let marked = |case: &str| {
        let at = lines.iter().position(|line| line.contains(case)).expect(case);
        lines[at - 1].ends_with(": not limited by the adapter")
    };
    assert!(!marked("ok 1 cell"), "{tests}");
    assert!(marked("ok 2 cell"), "{tests}");
    assert!(!marked("ok 7 effect") && marked("ok 8 effect"), "{tests}");
    // on veth nothing is an adapter's, which needs no mark at each
    let veth = ktap::document(&fixture::stream(), &[]).text;
    assert!(!veth.contains("not limited by the adapter"), "{veth}");
}

#[test]
fn nothing_is_known_of_what_limited_imported_runs() {
    let mut results = fixture::stream();
    results.imported = vec![crate::schema::imported_run()];
    results.cells.iter_mut().for_each(|cell| cell.verdict = Verdict::of_imported());
    assert!(!openmetrics::results(&results).contains("host_limited"));
}

#[test]
fn a_cell_an_effect_and_a_published_change_are_cases_of_a_kernel_test() {
    let environment = ["environment: NETIF=eth1".to_owned()];
    let found = ktap::document(&fixture::adapter(), &environment);
    insta::assert_snapshot!(found.text);
    let failed = ktap::document(&fixture::stream(), &[]);
    insta::assert_snapshot!(failed.text);
    assert!(failed.failed > 0);
    for results in [fixture::hostile(), simulated::study("tso"), simulated::study("a-a")] {
        let found = ktap::document(&results, &[]);
        let lines: Vec<&str> = found.text.lines().collect();
        let cases: Vec<&&str> = lines.iter().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(*cases[0], "KTAP version 1");
        assert_eq!(*cases[1], format!("1..{}", cases.len() - 2));
        let count = |begin: &str| cases.iter().filter(|line| line.starts_with(begin)).count();
        assert_eq!(count("not ok "), found.failed);
        assert_eq!(count("ok "), found.passed + found.skipped);
        for (number, line) in (1..).zip(&cases[2..]) {
            let rest = line.strip_prefix("not ").unwrap_or(line);
            assert!(rest.starts_with(&format!("ok {number} ")), "{line}");
        }
    }
    let skipped = "KTAP version 1\n# environment: NETIF=eth1\n1..0 # SKIP no tun\n";
    assert_eq!(ktap::skipped("no\ntun", &environment), skipped);
}
