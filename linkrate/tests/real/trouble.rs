//! Bad luck in the middle of a study: a killed controller, a killed host, a full disk, a torn
//! line, a second writer. Nothing measured is lost, nothing is left behind, and resuming ends with
//! the runs of the plan.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::processes::OwnCopy;
use crate::common::small::{RUNS, SmallStudy, planned, stored};
use crate::common::{Finished, Running, command, kill};
use linkrate_study::store::{ENDED_FILE, RUNS_FILE, StoredRun, TORN_FILE};
use rustix::process::Signal;
use serde_json::Value;

#[track_caller]
fn resume_completes(study: &SmallStudy) -> Finished {
    let finished = Running::start(&mut study.again("resume")).wait().expect_code(0);
    assert_eq!(finished.json()["complete"], true);
    assert_eq!(study.slots(), planned(&study.results()));
    study.own.expect_nothing_left();
    finished
}

#[test]
fn a_killed_controller_leaves_nothing_and_loses_only_the_run_in_flight() {
    needs!(root);
    let study = SmallStudy::new();
    let running = Running::start(&mut study.run());
    study.await_runs(2);
    let agents = study.own.await_traffic(2);
    assert_ne!(namespace_of(agents[0]), namespace_of(agents[1]), "hosts share a namespace");
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal(), Some(9));
    study.own.expect_nothing_left();

    let kept = study.slots();
    assert!((2..RUNS).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept, planned(&study.results())[..kept.len()]);
    let report = Running::start(&mut study.again("report")).wait().expect_code(0).json();
    assert_eq!(report["complete"], false);
    resume_completes(&study);
}

fn namespace_of(pid: u32) -> std::path::PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/net")).expect("read a namespace link")
}

#[test]
fn a_controller_can_be_killed_at_any_moment() {
    needs!(root);
    let own = OwnCopy::new();
    for milliseconds in [0, 2, 5, 10, 20, 35, 50, 75, 100, 150, 250, 400] {
        let words = "measure --json --purpose functions --runs 50 --time 100ms --warm-up 0s --adapter veth \
                     --clients 3";
        let running = Running::start(&mut command(own.program(), words));
        std::thread::sleep(Duration::from_millis(milliseconds));
        running.signal(Signal::KILL);
        assert_eq!(running.wait().signal(), Some(9), "after {milliseconds} ms");
        own.expect_nothing_left();
    }
}

/// Kills one host in the middle of a run of the second block.
#[track_caller]
fn kill_host(number: usize, name: &str) {
    let study = SmallStudy::new();
    let running = Running::start(&mut study.run());
    study.await_runs(4);
    let agents = study.own.await_traffic(2);
    kill(agents[number], Signal::KILL);
    let finished = running.wait().expect_code(4);
    let document = finished.json();
    assert_eq!(document["complete"], true, "the study goes on");
    let failures = document["failures"].as_array().expect("failures");
    let reason = |failure: &Value| failure["reason"].as_str().expect("a reason").to_owned();
    let has_died = |failure: &&Value| reason(failure).contains(&format!("agent of {name}: died"));
    let (died, others): (Vec<&Value>, Vec<&Value>) = failures.iter().partition(has_died);
    assert_eq!(died.len(), 1, "{failures:?}");
    // a machine with other work may lose the first segments of a run, and send them again behind its end
    let is_starved =
        |failure: &&Value| reason(failure).contains("no data received during the measurement");
    assert!(others.iter().all(is_starved), "{failures:?}");
    assert!(finished.stderr.contains(&reason(died[0])), "said at once: {}", finished.stderr);

    let runs = stored(&study.results());
    assert_eq!(study.slots(), planned(&study.results()), "and no run is left out");
    let failed: Vec<_> = runs.iter().filter(|run| run.failure().is_some()).collect();
    assert_eq!(failed.len(), failures.len());
    let offload = |run: &StoredRun| ["none", "gso", "tso"][run.cell.expect("no idle run") as usize];
    let of_stored: Vec<_> = failed.iter().map(|run| offload(run)).collect();
    let of_document: Vec<_> =
        failures.iter().map(|failure| &failure["levels"]["offload"]).collect();
    assert_eq!(of_document, of_stored);
    for cell in document["cells"].as_array().expect("cells") {
        let of_cell = of_stored.iter().filter(|offload| cell["levels"]["offload"] == **offload);
        let hit = of_cell.count() as u32;
        assert_eq!((&cell["runs"], &cell["failed"]), (&(3 - hit).into(), &hit.into()));
        assert!(cell["throughput"]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{cell}");
    }
    study.own.expect_nothing_left();
}

#[test]
fn a_killed_client_fails_its_run_alone() {
    needs!(root);
    kill_host(1, "client 0");
}

#[test]
fn a_killed_system_under_test_fails_its_run_alone() {
    needs!(root);
    kill_host(0, "sut");
}

/// Runs the small study with its results on a file system that has only `room` KiB left from the
/// moment when so many runs are stored, then resumes it with room enough, if a file system can be mounted.
fn on_a_small_disk(
    study: &SmallStudy,
    runs: usize,
    room_kib: u32,
) -> Result<[(i32, Finished); 2], String> {
    // in a mount namespace of its own; what is to be looked at is copied out of it; the size is
    // set late, because what a plan takes depends on the machine
    let script = r#"
        mount -t tmpfs -o size=64m none "$DISK" || exit 77
        attempt() { "$@" >"$OUT/$NAME.out" 2>"$OUT/$NAME.err"; echo $? >"$OUT/$NAME.code"; }
        NAME=first attempt "$PROGRAM" study run --json --output "$DISK/results" "$STUDY" &
        stored() { wc -l 2>/dev/null <"$DISK/results/runs.jsonl" || echo 0; }
        until [ "$(stored)" -ge "$RUNS" ] || ! kill -0 $!; do sleep 0.02; done
        used() { df -k --output=used "$DISK" | sed '1d; s/ //g'; }
        left() { expr "$(used)" + "$ROOM"; }
        until mount -o remount,size="$(left)"k none "$DISK"; do sleep 0.02; done
        wait
        cp "$DISK/results/runs.jsonl" "$OUT/kept.jsonl"
        mount -o remount,size=64m none "$DISK" || exit 77
        NAME=second attempt "$PROGRAM" study resume --json "$DISK/results"
        cp -r "$DISK/results" "$OUT/results""#;
    let out = study.own.beside("");
    let disk = study.own.beside("disk");
    fs::create_dir(&disk).expect("make a mount point");
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .env("RUNS", runs.to_string())
        .env("ROOM", room_kib.to_string())
        .env("DISK", &disk)
        .env("OUT", &out)
        .env("STUDY", study.file())
        .env("PROGRAM", study.own.program());
    let finished = Running::start(&mut unshare).wait();
    if finished.code() != Some(0) {
        let said = finished.stderr.trim().replace('\n', "; ");
        return Err(format!("cannot mount a file system in a namespace of its own: {said}"));
    }
    Ok(["first", "second"].map(|name| {
        let read = |ending: &str| {
            let path = out.join(format!("{name}.{ending}"));
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let code = read("code").trim().parse().expect("an exit code");
        (code, Finished { status: finished.status, stdout: read("out"), stderr: read("err") })
    }))
}

#[track_caller]
fn check_after_full_disk(study: &SmallStudy, second: &(i32, Finished)) {
    let (code, finished) = second;
    assert_eq!(*code, 0, "{}", finished.stderr);
    assert_eq!(finished.json()["complete"], true);
    assert_eq!(study.slots(), planned(&study.results()));
    let all = fs::read(study.results().join(RUNS_FILE)).expect("read the runs");
    let kept = fs::read(study.own.beside("kept.jsonl")).expect("read what was kept");
    assert!(all.starts_with(&kept), "what was kept has changed");
    study.own.expect_nothing_left();
}

#[test]
fn a_full_disk_ends_the_study_and_keeps_its_runs() {
    needs!(root);
    let study = SmallStudy::new();
    let [first, second] = or_skip!(on_a_small_disk(&study, 2, 0));
    let (code, finished) = first;
    assert_eq!(code, 1, "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
    for part in [
        "/disk/results/runs.jsonl: No space left on device",
        "hint: free some space; every finished run is kept",
    ] {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.stderr);
    }
    let kept = fs::read_to_string(study.own.beside("kept.jsonl")).expect("read what was kept");
    assert!((2..RUNS).contains(&kept.lines().count()), "{}", kept.lines().count());
    assert!(kept.ends_with('\n'), "a torn line was left");
    check_after_full_disk(&study, &second);
}

#[test]
fn a_full_disk_at_the_report_keeps_every_run() {
    needs!(root);
    let study = SmallStudy::new();
    let [first, second] = or_skip!(on_a_small_disk(&study, RUNS - 1, 16));
    let (code, finished) = first;
    assert_eq!(code, 1, "{}", finished.stderr);
    for part in ["No space left on device", "/disk/results/", "hint: the runs are kept"] {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.stderr);
    }
    let kept = fs::read_to_string(study.own.beside("kept.jsonl")).expect("read what was kept");
    assert_eq!(kept.lines().count(), RUNS);
    check_after_full_disk(&study, &second);
}

#[test]
fn moves_a_torn_line_away_and_repeats_its_run() {
    needs!(root);
    let study = SmallStudy::new();
    Running::start(&mut study.run()).wait().expect_code(0);
    let runs = study.results().join(RUNS_FILE);
    let whole = fs::read(&runs).expect("read the runs");
    fs::write(&runs, &whole[..whole.len() - 100]).expect("tear the last line");
    // whoever crashed while writing a run had no time to say why the session ended
    fs::remove_file(study.results().join(ENDED_FILE)).expect("remove it");
    let report = Running::start(&mut study.again("report")).wait().expect_code(0).json();
    assert_eq!(report["complete"], false, "a run is missing");

    let finished = resume_completes(&study);
    let torn = study.results().join(TORN_FILE);
    assert!(finished.stderr.starts_with("note: the last run was cut short"), "{}", finished.stderr);
    assert!(finished.stderr.contains(torn.to_str().expect("a plain path")));
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    let kept = fs::read(&torn).expect("read the torn line");
    assert_eq!(kept.strip_suffix(b"\n"), Some(&whole[last..whole.len() - 100]));
    assert!(fs::read(&runs).expect("read the runs").starts_with(&whole[..last]));
}

#[test]
fn refuses_damage_that_no_crash_explains() {
    needs!(root);
    let study = SmallStudy::new();
    let running = Running::start(&mut study.run());
    study.await_runs(3);
    running.signal(Signal::KILL);
    running.wait();
    let runs = study.results().join(RUNS_FILE);
    let mut bytes = fs::read(&runs).expect("read the runs");
    bytes[60] ^= 1;
    fs::write(&runs, &bytes).expect("damage the first line");
    for what in ["resume", "report"] {
        let finished = Running::start(&mut study.again(what)).wait().expect_code(1);
        assert!(finished.stderr.contains("runs.jsonl:1: damaged run"), "{}", finished.stderr);
        assert_eq!(finished.stdout, "");
    }
    assert_eq!(fs::read(&runs).expect("read the runs"), bytes);
}

#[test]
fn a_second_writer_is_refused() {
    needs!(root);
    let study = SmallStudy::new();
    let running = Running::start(&mut study.run());
    study.await_runs(1);
    let resume = Running::start(&mut study.again("resume")).wait().expect_code(1);
    assert!(resume.stderr.contains("is in use by another linkrate process"), "{}", resume.stderr);
    let run = Running::start(&mut study.run()).wait().expect_code(2);
    assert!(run.stderr.contains("is not empty"), "{}", run.stderr);
    running.wait().expect_code(0);
    assert_eq!(study.slots(), planned(&study.results()));
    assert!(!Path::new(&study.results().join(TORN_FILE)).exists());
}
