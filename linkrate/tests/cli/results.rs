//! What is made of stored results: reports in every format, and comparisons. The sets are
//! simulated, so nothing is measured and no privilege is needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::schema;
use crate::common::simulated::{Set, TRANSACTIONS};
use crate::common::{Finished, LINKRATE, command, linkrate_with};
use insta::assert_snapshot;
use linkrate_report::terminal::Style;
use linkrate_study::comparison::{Criteria, compare};
use linkrate_study::store::Store;
use serde_json::{Value, json};

/// A directory with sets in it.
struct Sets(tempfile::TempDir);

impl Sets {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Stores a set under a name.
    fn with(self, name: &str, set: &Set<'_>) -> Self {
        set.store(&self.path(name));
        self
    }

    /// Runs linkrate beside the sets.
    fn linkrate(&self, words: &str) -> Finished {
        common::Running::start(command(LINKRATE, words).current_dir(self.0.path())).wait()
    }

    fn text(&self, words: &str) -> String {
        self.linkrate(words).expect_code(0).stdout
    }
}

fn one_set() -> Sets {
    Sets::new().with("set", &Set::default())
}

/// A set like the default one, measured a day later.
fn later() -> Set<'static> {
    Set { seed: 2, started_unix_ms: 1_795_360_320_000, ..Set::default() }
}

const FORMATS: [&str; 6] = ["html", "md", "csv", "json", "openmetrics", "ktap"];

#[test]
fn a_format_goes_to_standard_output_or_to_a_file_and_nowhere_else() {
    let sets = one_set();
    let before = listing(&sets.path("set"));
    for format in FORMATS {
        let printed = sets.text(&format!("report set --format {format}"));
        assert!(!printed.is_empty());
        if format == "md" {
            continue;
        }
        let words = format!("report set --format {format} -o out.{format}");
        assert_eq!(sets.text(&words), "");
        assert_eq!(fs::read_to_string(sets.path(&format!("out.{format}"))).unwrap(), printed);
        if ["openmetrics", "ktap"].contains(&format) {
            continue;
        }
        // the ending says the format, and what was there is replaced
        fs::write(sets.path(&format!("out.{format}")), "old").unwrap();
        sets.text(&format!("report set -o out.{format}"));
        assert_eq!(fs::read_to_string(sets.path(&format!("out.{format}"))).unwrap(), printed);
        assert!(!sets.path(&format!("out.{format}.new")).exists());
    }
    assert_eq!(sets.text("report set --json"), sets.text("report set --format json"));
    assert_eq!(listing(&sets.path("set")), before, "a document was asked for, not new files");
}

#[test]
fn flent_gets_a_data_file_for_each_run() {
    let sets = one_set();
    let finished = sets.linkrate("report set --format flent -o flent").expect_code(0);
    assert_eq!(finished.stdout, "");
    let files = listing(&sets.path("flent"));
    let wanted = format!("note: {} data files of flent in flent\n", files.len());
    assert_eq!(finished.stderr, wanted);
    assert!(files.len() > 3, "{files:?}");
    // what is written reads back
    let imported = sets.path("flent").read_dir().unwrap().map(|file| file.unwrap().path());
    let words: Vec<String> = imported.map(|path| path.display().to_string()).collect();
    let text = sets.text(&format!("import {} -o back", words.join(" ")));
    assert!(text.contains("rrul_var"), "{text}");
    // the same runs are the same bytes
    sets.linkrate("report set --format flent -o again").expect_code(0);
    assert_eq!(listing(&sets.path("again")), files);
}

#[test]
fn what_a_format_needs_is_said() {
    let sets = one_set();
    let refused = sets.linkrate("report set --format flent").expect_code(2);
    assert!(refused.stderr.contains("expected --output DIRECTORY"), "{}", refused.stderr);
    let refused = sets.linkrate("report set --format hdr-log").expect_code(2);
    assert!(refused.stderr.starts_with("error: no run has latencies\n"), "{}", refused.stderr);
}

#[test]
fn a_report_without_a_format_renews_the_files_of_the_directory() {
    let sets = one_set();
    let finished = sets.linkrate("report set").expect_code(0);
    assert!(finished.stdout.contains("Simulated streams"), "{}", finished.stdout);
    assert!(finished.stdout.contains("Report      set/report.html"), "{}", finished.stdout);
    assert_eq!(finished.stderr, "");
    for (name, format) in [("results.json", "json"), ("runs.csv", "csv"), ("report.html", "html")] {
        let kept = fs::read_to_string(sets.path("set").join(name)).unwrap();
        assert_eq!(kept, sets.text(&format!("report set --format {format}")));
    }
}

#[test]
fn a_redacted_report_leaves_the_directory_as_it_is() {
    let sets = one_set();
    sets.text("report set");
    let before = fs::read(sets.path("set/report.html")).unwrap();
    let answer = sets.text("report set --redact");
    assert!(answer.contains("Precision") && !answer.contains("report.html"), "{answer}");
    let page = sets.text("report set --redact --format html");
    assert!(page.contains("Example") && !page.contains("<dt>kernel-command-line"), "{page}");
    sets.text("report set --redact -o less.md");
    assert_eq!(fs::read(sets.path("set/report.html")).unwrap(), before);
}

#[test]
fn the_same_runs_give_the_same_bytes_wherever_they_lie() {
    let sets = one_set();
    let absolute = sets.path("set").display().to_string();
    for format in FORMATS {
        let first = sets.text(&format!("report set --format {format}"));
        assert_eq!(sets.text(&format!("report ./set/ --format {format}")), first);
        assert_eq!(sets.text(&format!("report {absolute} --format {format}")), first);
        assert!(!first.contains(&absolute));
        fs::create_dir_all(sets.path("elsewhere")).unwrap();
        fs::rename(sets.path("set"), sets.path("elsewhere/moved")).unwrap();
        assert_eq!(sets.text(&format!("report elsewhere/moved --format {format}")), first);
        fs::rename(sets.path("elsewhere/moved"), sets.path("set")).unwrap();
    }
}

#[test]
fn markdown_has_its_figures_beside_it() {
    let sets = one_set();
    fs::create_dir(sets.path("my notes")).unwrap();
    let file = sets.path("my notes/the report.md");
    let words = ["set", "--format", "md", "--output"].map(str::to_owned);
    let mut report = command(LINKRATE, "report");
    let report = report.args(words).arg(&file).current_dir(sets.0.path());
    common::Running::start(report).wait().expect_code(0);
    let text = fs::read_to_string(&file).unwrap();
    let figures = sets.path("my notes/the report_figures");
    let names = listing(&figures);
    for name in &names {
        assert!(text.contains(&format!("the%20report_figures/{name}")), "{name}: {text}");
        assert!(fs::read_to_string(figures.join(name)).unwrap().contains("<svg"), "{name}");
    }
    assert_eq!(text.matches("the%20report_figures/").count(), names.len());
    // without a file there is no beside, and one line says so
    let printed = sets.linkrate("report set --format md").expect_code(0);
    assert_eq!(printed.stderr.contains("hint: --output report.md"), !names.is_empty());
    sets.text("report set -o report.md");
    assert_eq!(fs::read_to_string(sets.path("report.md")).unwrap(), printed.stdout);
}

#[test]
fn a_failed_write_is_reported_and_keeps_the_old_file() {
    let sets = one_set();
    let said = |words: &str, code: i32| sets.linkrate(words).expect_code(code).stderr;
    let nearest = said("report set --format htlm", 2);
    assert!(nearest.contains("a similar value exists: 'html'"), "{nearest}");
    let ending = said("report set -o report.txt", 2);
    assert!(ending.contains("names no format") && ending.contains("hint: "), "{ending}");
    let missing = said("report set -o absent/x.csv", 2);
    assert!(missing.contains("hint: mkdir -p absent"), "{missing}");
    assert!(!sets.path("absent").exists());
    let own = said("report set --format json -o set/plan.json", 2);
    assert!(own.contains("set/plan.json is a file of the store"), "{own}");
    sets.text("report set --format json -o set/mine.json");
    let directory = said("report set --format json -o set", 2);
    assert!(directory.contains("write set: "), "{directory}");
    // a device that is always full
    let full = said("report set --format csv -o /dev/full", 1);
    assert!(full.contains("write /dev/full: No space left"), "{full}");
    assert!(Path::new("/dev/full").exists());
    let both = said("report set --json --format csv", 2);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let sets = one_set();
    for format in FORMATS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut report = command(LINKRATE, &format!("report set --format {format}"));
        let status =
            report.current_dir(sets.0.path()).stdout(writer).stderr(std::process::Stdio::null());
        assert_eq!(status.status().unwrap().code(), Some(0), "{format}");
    }
}

#[test]
fn the_csv_is_sufficient_for_the_statistics() {
    let sets = Sets::new().with(
        "set",
        // one run has failed: its block has no pair
        &Set {
            fails: |block, levels| block == 2 && levels.to_string() == "tso, transmit",
            ..Set::default()
        },
    );
    let text = sets.text("report set --format csv");
    let document: Value = serde_json::from_str(&sets.text("report set --json")).unwrap();
    let rows: Vec<BTreeMap<String, String>> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect();
    let number = |row: &BTreeMap<String, String>, name: &str| row[name].parse::<f64>().unwrap();
    // throughput from bytes and seconds, service demand from busy nanoseconds and bytes
    let of = |offload: &str| -> BTreeMap<u32, (f64, f64)> {
        let mine = rows.iter().filter(|row| {
            row["kind"] == "workload"
                && row["status"] == "measured"
                && row["offload"] == offload
                && row["direction"] == "transmit"
        });
        mine.map(|row| {
            let throughput = number(row, "transmit_bytes") * 8.0 / number(row, "transmit_s");
            let own_ns = number(row, "sut_busy_ns") - number(row, "sut_background_removed_ns");
            let cpus = own_ns / (number(row, "sut_interval_ns") / number(row, "sut_cpus"));
            (row["block"].parse().unwrap(), (throughput, cpus * 1e6 / (throughput / 8.0 / 1024.0)))
        })
        .collect()
    };
    let (none, tso) = (of("none"), of("tso"));
    assert_eq!((none.len(), tso.len()), (5, 4));
    // t(0.95) with 4 and, for an effect, t(0.96) with 3 degrees of freedom, from a table
    assert_eq!(document["effect_interval_confidence"], 0.96);
    let (t4, t3) = (2.776_445, 3.481_909);
    let interval = |values: &[f64], t: f64| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        [mean, mean - t * (variance / n).sqrt(), mean + t * (variance / n).sqrt()]
    };
    let close = |found: &Value, expected: [f64; 3]| {
        for (key, expected) in ["mean", "low", "high"].into_iter().zip(expected) {
            let found = found[key].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 1e-6, "{key}: {found}, {expected}");
        }
    };
    let cell = &document["cells"][0];
    assert_eq!(cell["levels"], json!({"offload": "none", "direction": "transmit"}));
    let values: Vec<f64> = none.values().map(|run| run.0).collect();
    // no interval reaches beyond what the links carry
    let [mean, low, high] = interval(&values, t4);
    let limit = cell["limit"]["mean"].as_f64().unwrap();
    close(&cell["throughput"], [mean, low, high.min(limit)]);
    let values: Vec<f64> = none.values().map(|run| run.1).collect();
    close(&cell["service_demand"], interval(&values, t4));
    let effect = document["effects"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| {
            e["measure"] == "service_demand"
                && e["at"]["direction"] == "transmit"
                && e["to"] == "tso"
        })
        .unwrap();
    let logs: Vec<f64> = tso.iter().map(|(block, run)| (run.1 / none[block].1).ln()).collect();
    close(&effect["ratio"], interval(&logs, t3).map(f64::exp));
    assert_eq!(effect["pairs"], 4);
    let failed: Vec<_> = rows.iter().filter(|row| row["status"] == "failed").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure_stage"], "knob");
    assert_eq!((failed[0]["transmit_bytes"].as_str(), failed[0]["sut_busy_ns"].as_str()), ("", ""));
    for row in &rows {
        assert_eq!(row["results"], document["results"].as_str().unwrap());
    }
}

#[test]
fn documents_match_their_schemas() {
    let sets = one_set()
        .with("later", &later())
        .with("rr", &Set { study: TRANSACTIONS, ..Set::default() })
        .with("rr-later", &Set { study: TRANSACTIONS, ..later() })
        .with("single", &Set { blocks: 1, ..Set::default() });
    let mut document = Value::Null;
    for set in ["set", "rr", "single"] {
        document = serde_json::from_str(&sets.text(&format!("report {set} --json"))).unwrap();
        schema::check("results", &document);
    }
    for words in ["set later", "rr rr-later"] {
        let found = sets.linkrate(&format!("compare {words} --json"));
        schema::check("comparison", &found.json());
    }
    // and nothing but that
    document["surprise"] = json!(1);
    let reason = schema::validate("results", &document).unwrap_err();
    assert!(reason.contains("surprise"), "{reason}");
}

fn listing(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn two_sets(later: &Set<'_>) -> Sets {
    one_set().with("later", later)
}

#[test]
fn equal_sets_have_no_regression() {
    let sets = two_sets(&later());
    assert_snapshot!("compare_same", sets.text("compare set later"));
}

#[test]
fn a_regression_has_an_exit_code_of_its_own() {
    let slower = |levels: &linkrate_study::levels::Levels| {
        if levels.to_string() == "tso, transmit" { 0.8 } else { 1.0 }
    };
    let sets = two_sets(&Set { rate: slower, ..later() });
    let finished = sets.linkrate("compare set later").expect_code(5);
    assert_snapshot!("compare_regression", finished.stdout);
    assert_eq!(finished.stderr, "");
    let markdown = sets.linkrate("compare set later --format md").expect_code(5).stdout;
    assert_snapshot!("compare_regression_md", markdown);
    let finished = sets.linkrate("compare set later --format md -o pr.md").expect_code(5);
    assert_eq!(
        (finished.stdout.as_str(), fs::read_to_string(sets.path("pr.md")).unwrap()),
        ("", markdown)
    );
    let document = sets.linkrate("compare set later --json").expect_code(5).json();
    assert_eq!(document["baseline"]["results"], "simulated-20261121-151200");
    assert_eq!(document["candidate"]["results"], "simulated-20261122-151200");
    // the other way round it is an improvement, and a large enough minimum forgives it
    sets.linkrate("compare later set").expect_code(0);
    let forgiven = ["set", "later", "--minimum-effect", "40 %"];
    let forgiven = linkrate_with(
        "compare",
        &forgiven
            .map(|word| {
                if ["set", "later"].contains(&word) {
                    sets.path(word).display().to_string()
                } else {
                    word.to_owned()
                }
            })
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    forgiven.expect_code(0);
}

/// The figures are shown, and the exit code says that nothing is known of them.
#[test]
fn fewer_than_five_blocks_are_shown_without_a_verdict() {
    let sets = two_sets(&Set { blocks: 4, ..later() });
    let finished = sets.linkrate("compare set later").expect_code(2);
    assert_eq!(
        finished.stderr,
        "error: no row is judged: fewer than 5 blocks\n\
         hint: measure at least 5 blocks of both sets\n"
    );
    assert!(finished.stdout.contains(" Mb/s"), "{}", finished.stdout);
    let verdicts = finished.stdout.matches("fewer than 5 blocks").count();
    // ten rows of cells, eight of effects, the result
    assert_eq!(verdicts, 19, "{}", finished.stdout);
    let document = sets.linkrate("compare set later --json").expect_code(2).json();
    schema::check("comparison", &document);
    assert_eq!(document["cells"][0]["rows"][0]["verdict"], "too_few");
}

#[test]
fn transactions_are_compared_by_rate_cost_and_latency() {
    let sets = Sets::new()
        .with("rr", &Set { study: TRANSACTIONS, ..Set::default() })
        .with("rr-later", &Set { study: TRANSACTIONS, ..later() });
    assert_snapshot!("compare_transactions", sets.text("compare rr rr-later"));
}

#[test]
fn fits_into_a_narrow_terminal() {
    let sets = two_sets(&later());
    let [a, b] = ["set", "later"].map(|name| Store::read(&sets.path(name)).unwrap());
    let mut found = compare(&[&a], &[&b], &Criteria::default()).unwrap();
    // where the sets lie is another place in each test
    found.baseline.directory = "set".to_owned();
    found.candidate.directory = "later".to_owned();
    let plain = linkrate_report::comparison::table(&found, Some(80), Style { color: false });
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    assert_snapshot!("compare_narrow", plain);
    let colored = linkrate_report::comparison::table(&found, Some(80), Style { color: true });
    assert!(colored.contains("\u{1b}[1m"));
}

#[test]
fn refuses_incomparable_sets_with_the_reason() {
    let sets = two_sets(&Set { kernel: "6.18.1", ..later() })
        .with("rr", &Set { study: TRANSACTIONS, ..later() })
        .with("single", &Set { blocks: 1, ..later() })
        .with(
            "short",
            &Set { study: &common::simulated::STREAMS.replace("1 s", "2 s"), ..later() },
        );
    let refusals: String = [
        "set later",
        "set later --allow cpu-model",
        "set later --allow kernl",
        "set later --allow run",
        "set short",
        "set short --allow run",
        "set rr",
        "set set",
        "set single",
        "set later --minimum-effect 3",
        "set later --allow kernel --minimum-effect 100%",
        "set absent",
    ]
    .map(|words| {
        let finished = sets.linkrate(&format!("compare {words}")).expect_code(2);
        assert_eq!(finished.stdout, "", "{words}");
        format!("{words}\n{}\n", finished.stderr)
    })
    .concat();
    assert_snapshot!("compare_refusals", refusals);
    let allowed = sets.text("compare set later --allow kernel");
    assert!(allowed.contains("6.18.1") && allowed.contains("← under test"), "{allowed}");
}

/// An output of another program: as it was recorded, or of `imports`, with a fault that it is known for.
fn recorded(name: &str) -> String {
    let directory = if name.contains('/') { "" } else { "recorded/" };
    format!("{}/../linkrate-interop/tests/{directory}{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn output_of_other_programs_becomes_a_result_set_that_names_what_it_lacks() {
    let sets = Sets::new();
    let files = ["tcp_stream.txt", "tcp_stream_cpu.txt", "omni_rr_all.keyval", "iperf3_tcp.json"];
    let files = files.map(recorded).join(" ");
    let document = sets.text(&format!("import {files} --dir old --json"));
    let document: Value = serde_json::from_str(&document).unwrap();
    schema::check("results", &document);
    let cells = document["cells"].as_array().unwrap();
    // both classic outputs are of one cell, whose cost one of them tells
    assert_eq!(
        cells.iter().map(|cell| cell["runs"].as_u64()).collect::<Vec<_>>(),
        [2, 1, 1].map(Some)
    );
    assert_eq!(cells[0]["service_demand"]["mean"], json!(0.96));
    assert_eq!(cells[1]["latency"]["p99_9_ns"], Value::Null);
    assert_eq!((&document["seed"], &document["effects"]), (&Value::Null, &json!([])));
    let page = sets.text("report old --format md");
    for name in
        ["iperf3\\_tcp.json", "omni\\_rr\\_all.keyval", "service demand", "nothing is claimed"]
    {
        assert!(page.contains(name), "{name}: {page}");
    }
    // no study has cells of several programs
    assert!(!sets.path("old/study.toml").exists());
    let csv = sets.text("report old --format csv");
    assert!(csv.contains("tcp_stream_cpu.txt") && csv.contains(",imported,"), "{csv}");
}

#[test]
fn a_file_that_does_not_fit_is_named_and_nothing_is_imported() {
    let sets = Sets::new();
    let good = recorded("tcp_stream.txt");
    let copy = sets.path("copy.txt").display().to_string();
    fs::write(&copy, format!("{}\n", fs::read_to_string(&good).unwrap())).unwrap();
    for (bad, said) in [
        (recorded("iperf3_refused.json"), "field \"error\" is"),
        (recorded("omni_recv_default.csv"), "line 1: no PROTOCOL"),
        (good.clone(), "the same content as"),
        (copy, "the same content as"),
    ] {
        let refused = sets.linkrate(&format!("import {good} {bad} --dir new"));
        let refused = refused.expect_code(2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert!(refused.stderr.contains("nothing was imported"), "{}", refused.stderr);
        assert!(!sets.path("new").exists());
    }
}

#[test]
fn outputs_of_one_test_are_one_run() {
    let sets = Sets::new();
    for (files, said) in [
        (
            ["imports/client.json", "imports/server.json"],
            "server.json is this test as its other end",
        ),
        (["imports/copy.json", "imports/copy.json"], "copy.json is a copy of this test"),
        (["imports/list.json", "imports/full_stream.json"], "document 2 is a copy of this test"),
    ] {
        let name = files[1].trim_start_matches("imports/");
        let files = files.map(recorded).join(" ");
        let document = sets.text(&format!("import {files} --dir {name} --json"));
        let document: Value = serde_json::from_str(&document).unwrap();
        schema::check("results", &document);
        for cell in document["cells"].as_array().unwrap() {
            assert_eq!(cell["runs"], 1, "{name}");
        }
        assert!(document["warnings"].to_string().contains(said), "{document}");
    }
}

#[test]
fn an_imported_test_can_be_measured_again() {
    let sets = Sets::new();
    sets.text(&format!("import {} --dir one", recorded("iperf3_tcp.json")));
    let again = sets.text("show one/study.toml");
    assert!(again.contains("cells      1\n"), "{again}");
    sets.text(&format!("import {} --dir other", recorded("tcp_stream.txt")));
    let few = sets.linkrate("compare one other --allow imported").expect_code(2).stderr;
    assert!(few.contains("hint: measure the imported test again: linkrate run"), "{few}");
}

#[test]
fn commands_in_hints_can_be_pasted() {
    let sets = Sets::new().with("two  words", &Set::default());
    let mut report = command(LINKRATE, "report");
    report.arg("two  words").current_dir(sets.0.path());
    let printed = common::Running::start(&mut report).wait().expect_code(0).stdout;
    assert!(printed.contains("linkrate report 'two  words' --details"), "{printed}");
}

/// Sets of twelve days; from the ninth on another kernel, with one cell a tenth slower.
fn days() -> Sets {
    const DAY: u64 = 86_400_000;
    let slower = |levels: &linkrate_study::levels::Levels| {
        if levels.to_string() == "tso, transmit" { 0.9 } else { 1.0 }
    };
    (0..12).fold(Sets::new(), |sets, day| {
        let usual = Set {
            seed: 100 + day,
            started_unix_ms: Set::default().started_unix_ms + day * DAY,
            ..Set::default()
        };
        let set = if day < 8 { usual } else { Set { kernel: "6.18.1", rate: slower, ..usual } };
        sets.with(&format!("day-{day}"), &set)
    })
}

#[test]
fn a_trend_tells_the_change_its_set_and_the_condition_that_changed_there() {
    let sets = days();
    let all: Vec<String> = (0..12).rev().map(|day| format!("day-{day}")).collect();
    let all = all.join(" ");
    let finished = sets.linkrate(&format!("trend {all}")).expect_code(5);
    assert_snapshot!("trend", finished.stdout);
    assert_eq!(finished.stderr, "");
    let markdown = sets.linkrate(&format!("trend {all} -o trend.md")).expect_code(5);
    assert_eq!(markdown.stdout, "");
    assert_snapshot!("trend_md", fs::read_to_string(sets.path("trend.md")).unwrap());
    // history does not fail a job for ever, and a large enough minimum forgives
    sets.linkrate(&format!("trend {all} --recent 3")).expect_code(0);
    sets.linkrate(&format!("trend {all} --minimum-effect 20%")).expect_code(0);
    let document = sets.linkrate(&format!("trend {all} --json")).expect_code(5).json();
    schema::check("trend", &document);
    assert_eq!(document["worse"], 2);
    assert_eq!(document["sets"][8]["changed"][0]["name"], "kernel");
    let page = sets.linkrate(&format!("trend {all} -o trend.html")).expect_code(5);
    assert_eq!(page.stdout, "");
    let page = fs::read_to_string(sets.path("trend.html")).unwrap();
    let charts = page.matches("<svg class=\"wide\"").count();
    let series = document["cells"].as_array().unwrap().len();
    let effects = document["effects"].as_array().unwrap().len();
    assert_eq!(charts, series + effects);
    assert!(page.contains("▼ "), "the change is not told");
    // for Otava: a row for each set, a column for each series, and the names of the columns beside it
    let table = sets.linkrate(&format!("trend {all} -o trend.csv")).expect_code(5);
    assert_eq!((&*table.stdout, &*table.stderr), ("", ""));
    let table = fs::read_to_string(sets.path("trend.csv")).unwrap();
    assert_eq!(sets.linkrate(&format!("trend {all} --format otava")).expect_code(5).stdout, table);
    let rows: Vec<&str> = table.lines().collect();
    let attributes = "time,results,linkrate_version,kernel,changed_conditions,host_limited,";
    let names: Vec<&str> = rows[0].strip_prefix(attributes).unwrap().split(',').collect();
    assert_eq!((rows.len(), names.len()), (13, series + effects));
    assert!(
        rows[9].starts_with("2026-11-29T15:12:00.000000Z,simulated-20261129-151200,"),
        "{table}"
    );
    // since the change its links are not full
    let limited = " offload=tso:direction=transmit ";
    assert!(!rows[8].contains(limited) && rows[9].contains(limited), "{table}");
    let configuration = fs::read_to_string(sets.path("trend.yaml")).unwrap();
    // an effect is better in no direction
    for name in names {
        let is_metric = configuration.contains(&format!("{name:?}: {{direction: "));
        assert_eq!(is_metric, !name.starts_with("effect_on_"), "{name}: {configuration}");
    }
}

#[test]
fn what_is_no_trend_is_said() {
    let sets = one_set().with("rr", &Set { study: TRANSACTIONS, ..later() });
    let refused = |words: &str| sets.linkrate(&format!("trend {words}")).expect_code(2).stderr;
    assert_snapshot!(
        "trend_refused",
        [
            refused("set"),
            refused("set set"),
            refused("set rr").lines().take(3).collect::<Vec<_>>().join("\n"),
            refused("set rr -o trend.pdf"),
            refused("set rr --minimum-effect many"),
        ]
        .join("\n")
    );
}
