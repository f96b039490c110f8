//! A study from its file to its report, interrupted and resumed.

use std::fs;
use std::os::unix::process::CommandExt;

use crate::common;
use crate::common::small::{BLOCKS, CELLS, RUNS, SmallStudy, planned, stored};
use crate::common::{Finished, Running, schema};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

/// What every document of a whole small study must say.
#[track_caller]
fn check_document(document: &Value) {
    schema::check("results", document);
    // the study and the minute in which it began, wherever it lies
    let name = document["results"].as_str().expect("a name");
    assert!(name.starts_with("small-20") && !name.contains('/'), "{name}");
    for (key, value) in [
        ("format", Value::from(1)),
        ("study", "small".into()),
        ("complete", true.into()),
        ("blocks", BLOCKS.into()),
        ("failures", Value::Array(Vec::new())),
    ] {
        assert_eq!(document[key], value, "{key}");
    }
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), CELLS);
    for (cell, offload) in cells.iter().zip(["none", "gso", "tso"]) {
        assert_eq!(cell["levels"]["offload"], offload);
        assert_eq!(cell["levels"]["direction"], "transmit");
        assert_eq!(cell["runs"], BLOCKS);
        for (figure, unit) in [("throughput", "bit/s"), ("service_demand", "us/KB"), ("cpu", "%")] {
            check_interval(&cell[figure]);
            assert_eq!(cell[figure]["unit"], unit);
        }
        assert!(cell["evidence"]["driver_packet_bytes"].as_f64().is_some(), "{cell}");
        assert!(cell["verdict"].as_str().is_some(), "{cell}");
    }
    // the physics of it: one pass through the stack for each frame, or for many at once
    let demand = |cell: usize| cells[cell]["service_demand"]["mean"].as_f64().expect("a demand");
    assert!(demand(0) > demand(2), "none {} and tso {}", demand(0), demand(2));
    let effects = document["effects"].as_array().expect("effects");
    assert!(!effects.is_empty());
    for effect in effects {
        assert_eq!(effect["factor"], "offload");
        assert_eq!(effect["at"]["direction"], "transmit");
        check_interval(&effect["ratio"]);
        assert!(effect["significant"].is_boolean());
        assert_eq!(effect["pairs"], BLOCKS);
    }
    for (from, to) in [("none", "gso"), ("none", "tso"), ("gso", "tso")] {
        for measure in ["throughput", "service_demand"] {
            let found = effects.iter().filter(|effect| {
                effect["from"] == from && effect["to"] == to && effect["measure"] == measure
            });
            assert_eq!(found.count(), 1, "{measure}, {from} to {to}");
        }
    }
    check_interval(&document["background_cpu"]);
}

#[track_caller]
fn check_interval(interval: &Value) {
    let end = |name: &str| interval[name].as_f64().unwrap_or_else(|| panic!("{name}: {interval}"));
    assert!(end("low") <= end("mean") && end("mean") <= end("high"), "{interval}");
}

/// Starts a command as the leader of a process group, as a shell does.
fn in_its_group(mut command: std::process::Command) -> Running {
    Running::start(command.process_group(0))
}

/// What Ctrl-C at a terminal does: every process of the group gets the signal.
fn press_ctrl_c(running: &Running) {
    let group = Pid::from_raw(running.pid() as i32).expect("a process id");
    kill_process_group(group, Signal::INT).expect("signal the group");
}

#[track_caller]
fn resumed(study: &SmallStudy) -> Finished {
    let finished = Running::start(&mut study.again("resume")).wait().expect_code(0);
    assert_eq!(study.slots(), planned(&study.results()), "exactly the runs of the plan, in order");
    check_document(&finished.json());
    study.own.expect_nothing_left();
    finished
}

#[test]
fn a_study_runs_to_its_report_and_the_report_can_be_made_again() {
    needs!(root);
    let study = SmallStudy::new();
    let finished = Running::start(&mut study.run()).wait().expect_code(0);
    let results = study.results();
    let document = finished.json();
    check_document(&document);
    assert_eq!(finished.stderr, format!("results  {}\n", results.display()));
    assert_eq!(study.slots(), planned(&results));
    assert_eq!(study.slots().len(), RUNS);
    assert!(stored(&results).iter().all(|run| run.measurement().is_some()));
    study.own.expect_nothing_left();

    let read = |name: &str| fs::read(results.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for name in ["plan.json", "study.toml", "runs.jsonl", "ended.json"] {
        assert!(!read(name).is_empty(), "{name}");
    }
    assert_eq!(read("results.json"), finished.stdout.as_bytes());
    let csv = String::from_utf8(read("runs.csv")).expect("CSV is text");
    assert_eq!(csv.lines().count(), 1 + RUNS, "{csv}");
    let page = String::from_utf8(read("report.html")).expect("the report is text");
    assert!(page.contains("<svg") && page.contains("A small study"));
    let loads = ["src=\"http", "href=\"http", "url(http", "<link "];
    assert!(!loads.iter().any(|load| page.contains(load)), "the report loads from elsewhere");

    let before = ["results.json", "runs.csv", "report.html"].map(|name| (name, read(name)));
    for (name, _) in &before {
        fs::remove_file(results.join(name)).expect("remove it");
    }
    let again = Running::start(&mut study.again("report")).wait().expect_code(0);
    assert_eq!(again.stdout, finished.stdout);
    let mut report = common::command(study.own.program(), "report");
    Running::start(report.arg(&results)).wait().expect_code(0);
    for (name, bytes) in before {
        assert_eq!(read(name), bytes, "{name} is another when made again");
    }
    // a study that has ended has nothing to resume, and does no harm
    resumed(&study);
}

#[test]
fn ctrl_c_keeps_finished_runs_and_resume_makes_the_others() {
    needs!(root);
    let study = SmallStudy::new();
    let running = in_its_group(study.run());
    study.await_runs(5);
    press_ctrl_c(&running);
    let finished = running.wait().expect_code(130);
    study.own.expect_nothing_left();
    let document = finished.json();
    assert_eq!(
        (&document["complete"], &document["stopped"]),
        (&false.into(), &"interrupted".into())
    );
    assert_eq!(document["failures"], Value::Array(Vec::new()), "an interruption is no failure");
    let hint = format!("hint: linkrate resume {}\n", study.results().display());
    assert!(finished.stderr.ends_with(&hint), "{}", finished.stderr);
    let (kept, plan) = (study.slots(), planned(&study.results()));
    assert!((5..RUNS).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept, plan[..kept.len()]);
    let measured = stored(&study.results());
    resumed(&study);
    assert_eq!(stored(&study.results())[..kept.len()], measured, "what was kept has changed");
}

#[test]
fn an_end_is_clean_before_anything_was_measured() {
    needs!(root);
    let study = SmallStudy::new();
    let running = in_its_group(study.run());
    study.await_plan();
    running.signal(Signal::TERM);
    running.wait().expect_code(143).json();
    study.own.expect_nothing_left();
    assert!(study.slots().len() < CELLS);
    resumed(&study);
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    needs!(root);
    let study = SmallStudy::new();
    let running = in_its_group(study.run());
    study.own.await_traffic(2);
    press_ctrl_c(&running);
    press_ctrl_c(&running);
    running.wait().expect_code(130);
    study.own.expect_nothing_left();
    stored(&study.results());
}

#[test]
#[ignore = "exhaustive: a study for what simulated ones show"]
fn another_seed_is_another_order_of_the_same_runs() {
    needs!(root);
    let study = SmallStudy::new();
    let mut run = study.run();
    Running::start(run.args(["--seed", "8"])).wait().expect_code(0);
    let slots = study.slots();
    assert_eq!(slots, planned(&study.results()));
    let sorted = |mut slots: Vec<(u32, Option<u32>)>| {
        slots.sort_unstable();
        slots
    };
    let mut all: Vec<(u32, Option<u32>)> = Vec::new();
    for block in 0..BLOCKS as u32 {
        all.push((block, None));
        all.extend((0..CELLS as u32).map(|cell| (block, Some(cell))));
    }
    assert_eq!(sorted(slots.iter().map(|(block, cell, _)| (*block, *cell)).collect()), all);
}

#[test]
#[ignore = "exhaustive: a built-in study, forty seconds"]
fn a_quick_run_claims_the_saving_of_tso() {
    needs!(root);
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("quick");
    let output = output.to_str().expect("a path");
    let words = format!("run tso --quick --json --output {output}");
    let document: Value = common::linkrate(&words).expect_code(0).json();
    let cells = document["cells"].as_array().expect("cells");
    let offloads: Vec<&str> =
        cells.iter().filter_map(|cell| cell["levels"]["offload"].as_str()).collect();
    assert_eq!(offloads, ["none", "gso", "tso"]);
    let end = |cell: &Value, end: &str| cell["service_demand"][end].as_f64().expect("an interval");
    for cell in cells {
        assert!(cell["runs"].as_u64().is_some_and(|runs| runs >= 5), "{cell}");
    }
    // on a noisy machine the rung between them may be anywhere
    let (low, high) = (end(&cells[0], "low"), end(&cells[2], "high"));
    assert!(low > high, "intervals overlap: {low} and {high}");
}

#[test]
fn a_study_is_a_test_of_the_kernel() {
    let study = SmallStudy::new();
    let mut run = common::command(study.own.program(), "run --format ktap --output");
    run.arg(study.results()).arg(study.file()).env_remove("NETIF");
    let finished = Running::start(&mut run).wait().expect_code(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let cases = lines.iter().filter(|line| line.starts_with("ok ")).count();
    assert_eq!((lines[0], lines[1]), ("KTAP version 1", &*format!("1..{cases}")));
    for (number, offload) in (1..).zip(["none", "gso", "tso"]) {
        let begin = format!("ok {number} cell offload={offload} direction=transmit # ");
        assert!(lines.iter().any(|line| line.starts_with(&begin)), "{}", finished.stdout);
    }
    study.own.expect_nothing_left();
}

#[test]
fn people_get_a_table_and_a_path() {
    needs!(root);
    let study = SmallStudy::new();
    let mut run = common::command(study.own.program(), "run");
    // without --output the results have a directory of their own below this one
    let home = study.own.beside("");
    let finished = Running::start(run.arg(study.file()).current_dir(&home)).wait().expect_code(0);
    for words in ["none", "GSO", "TSO", "service demand", "vs none", "Precision"] {
        assert!(finished.stdout.contains(words), "{words}: {}", finished.stdout);
    }
    assert!(finished.stderr.starts_with("note: small: 3 cells, about "), "{}", finished.stderr);
    let lines = finished.stdout.lines().map(str::trim_start);
    let path =
        lines.filter_map(|line| line.strip_prefix("Report")).next().expect("the report's path");
    // warnings may be counted behind it
    let path = path.trim().split("    ").next().unwrap_or_default();
    assert!(path.starts_with("results/small-") && path.ends_with("/report.html"), "{path}");
    assert!(home.join(path).is_file());
}
