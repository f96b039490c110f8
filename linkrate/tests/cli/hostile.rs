//! Results directories that other people made: whatever lies in them, every command ends within
//! seconds, says why, writes nowhere else and passes nothing harmful on.

use crate::common;
mod imports;
mod plants;
mod values;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::simulated::Set;
use crate::common::{Finished, LINKRATE, Running};
use linkrate_model::clean;

/// No command on a directory of this size takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(10);

/// Address space that a command may have, KiB: a command that reads without end is stopped by it.
const MEMORY_KIB: u32 = 4 << 20;

/// Runs linkrate with bounded memory and time in `directory`.
#[track_caller]
fn bounded(directory: &Path, words: &str) -> Finished {
    bounded_by(directory, words, MEMORY_KIB)
}

/// The same with at most so many KiB of address space.
#[track_caller]
fn bounded_by(directory: &Path, words: &str, memory_kib: u32) -> Finished {
    let script = format!("ulimit -v {memory_kib}; exec \"$@\"");
    let mut sh = Command::new("sh");
    sh.args(["-c", &script, "sh", LINKRATE]).args(words.split_whitespace());
    let began = Instant::now();
    let running = Running::start(sh.current_dir(directory).env("NO_COLOR", "1"));
    let pid = running.pid();
    let guard = std::thread::spawn(move || {
        std::thread::sleep(LIMIT);
        common::kill(pid, rustix::process::Signal::KILL);
    });
    let finished = running.wait();
    assert!(began.elapsed() < LIMIT, "{words}: still running after {LIMIT:?}");
    drop(guard);
    assert_eq!(finished.signal(), None, "{words}: {}", finished.stderr);
    assert_ne!(finished.code(), Some(101), "{words}: {}", finished.stderr);
    // 5 is a regression, which a comparison tells on standard output
    if !matches!(finished.code(), Some(0 | 5)) {
        let said = finished.stderr.lines().any(|line| line.starts_with("error: "));
        assert!(said, "{words}: {}", finished.stderr);
    }
    let harmful = |c: char| clean::is_harmful(c) && c != '\n';
    for said in [&finished.stdout, &finished.stderr] {
        assert!(!said.contains(harmful), "{words}: {said:?}");
    }
    finished
}

/// A directory with a good set `good` and a set `bad` to be changed.
fn two_sets() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    Set::default().store(&home.path().join("good"));
    Set { seed: 2, started_unix_ms: 1_795_360_320_000, ..Set::default() }
        .store(&home.path().join("bad"));
    home
}

/// Every command that reads a results directory and runs nothing.
const READERS: [&str; 7] = [
    "report bad",
    "report bad --json",
    "report bad --format csv",
    "compare good bad",
    "compare bad good --json",
    "watch bad",
    "show bad/study.toml",
];

#[test]
fn planted_links_are_not_written_through() {
    let home = two_sets();
    let victim = home.path().join("victim");
    let bad = home.path().join("bad");
    for name in ["results.json", "runs.csv", "report.html"] {
        for planted in [name.to_owned(), format!("{name}.new")] {
            fs::write(&victim, "precious").expect("write");
            let at = bad.join(&planted);
            // a link from the round before was replaced by a file
            let _ = fs::remove_file(&at);
            symlink(&victim, &at).expect("plant a link");
            bounded(home.path(), "report bad");
            let kept = fs::read_to_string(&victim).expect("read");
            assert_eq!(kept, "precious", "written through {planted}");
            let written = fs::symlink_metadata(bad.join(name)).expect("a file");
            assert!(written.is_file(), "{name}");
        }
    }
    // the same for a document that a user asked for
    for planted in ["out.csv", "out.csv.new"] {
        fs::write(&victim, "precious").expect("write");
        symlink(&victim, bad.join(planted)).expect("plant a link");
        bounded(home.path(), "report bad -o bad/out.csv");
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious", "{planted}");
        let _ = fs::remove_file(bad.join(planted));
    }
    // and for the figures beside a Markdown report
    let outside = home.path().join("outside");
    fs::create_dir(&outside).expect("a directory");
    symlink(&outside, bad.join("out_figures")).expect("plant a link");
    bounded(home.path(), "report bad -o bad/out.md");
    assert_eq!(fs::read_dir(&outside).expect("list").count(), 0, "figures left the directory");
}

#[test]
fn endless_files_and_pipes_are_refused_with_a_reason() {
    for (name, reason) in [("plan.json", ""), ("runs.jsonl", ""), ("ended.json", "")] {
        for (plant, said) in [
            (plants::Plant::Fifo, "named pipe"),
            (plants::Plant::LinkTo(PathBuf::from("/dev/zero")), "symbolic link"),
            (plants::Plant::Socket, "socket"),
            (plants::Plant::Directory, "directory"),
            (plants::Plant::Sparse, ""),
        ] {
            let home = two_sets();
            plant.put(&home.path().join("bad").join(name));
            for words in &READERS[..6] {
                let finished = bounded(home.path(), words);
                assert_ne!(finished.code(), Some(0), "{words} with {plant:?} as {name}");
                assert!(
                    finished.stderr.contains(said) && finished.stderr.contains(reason),
                    "{words} with {plant:?} as {name}: {}",
                    finished.stderr
                );
            }
        }
    }
}

#[test]
fn a_study_file_and_a_model_must_be_regular_files() {
    let home = tempfile::tempdir().expect("a directory");
    let study = "title = \"t\"\n[testbed]\nadapter = \"model.toml\"\n[factors]\n\
                 offload = [\"none\", \"tso\"]\n";
    fs::write(home.path().join("good.toml"), study).expect("write");
    for plant in [
        plants::Plant::Fifo,
        plants::Plant::LinkTo(PathBuf::from("/dev/zero")),
        plants::Plant::Socket,
        plants::Plant::Directory,
        plants::Plant::Sparse,
    ] {
        for (name, words) in
            [("study.toml", "show ./study.toml"), ("model.toml", "show ./good.toml")]
        {
            let at = home.path().join(name);
            plant.put(&at);
            let finished = bounded(home.path(), words).expect_code(2);
            assert!(finished.stderr.contains("expected a"), "{plant:?}: {}", finished.stderr);
            plants::remove(&at);
        }
    }
}

#[test]
fn plans_beyond_what_a_study_file_may_ask_are_refused_before_anything_is_run() {
    for (name, change) in values::BEYOND {
        let home = two_sets();
        values::edit_plan(&home.path().join("bad"), *change);
        for words in ["report bad", "watch bad", "resume bad"] {
            let finished = bounded(home.path(), words).expect_code(1);
            assert!(finished.stderr.contains("plan.json is damaged: "), "{name}: {words}");
        }
    }
}

#[test]
fn blocks_and_counts_beyond_the_plan_are_damage() {
    for (name, change) in values::RUNS_BEYOND {
        let home = two_sets();
        values::edit_first_run(&home.path().join("bad"), *change);
        for words in ["report bad", "watch bad"] {
            let finished = bounded(home.path(), words).expect_code(1);
            assert!(finished.stderr.contains("runs.jsonl:1: damaged run"), "{name}: {words}");
        }
    }
}

#[test]
fn what_a_peer_says_reaches_terminal_csv_and_page_only_cleaned() {
    let home = two_sets();
    let bad = home.path().join("bad");
    let evil = "=HYPERLINK(\"http://evil\")\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\nerror: forged";
    values::edit_plan(&bad, |plan| {
        let facts = &mut plan["facts"];
        facts["facts"]["kernel"] = evil.into();
        facts["facts"]["\u{1b}[31mname"] = evil.into();
        facts["warnings"] = serde_json::json!([evil]);
        plan["study"]["title"] = "x\u{1b}[2J".into();
        plan["linkrate_version"] = evil.into();
    });
    values::edit_first_run(&bad, |run| {
        run["outcome"] = serde_json::json!({"failed": {"stage": "agent", "reason": evil,
            "fatal": false}});
    });
    for words in READERS {
        bounded(home.path(), words);
    }
    for format in ["html", "md", "csv", "json"] {
        bounded(home.path(), &format!("report bad --format {format}"));
    }
    let text = bounded(home.path(), "report bad --format csv").expect_code(0).stdout;
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    for row in rows.records() {
        for field in row.expect("a row").iter() {
            let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
            assert!(!formula || field.parse::<f64>().is_ok(), "{field:?} is a formula");
        }
    }
    assert!(text.contains("'=HYPERLINK"), "the reason is kept");
}

#[test]
fn a_pipe_named_as_output_without_a_reader_is_refused() {
    let home = two_sets();
    plants::Plant::Fifo.put(&home.path().join("out.csv"));
    bounded(home.path(), "report good -o out.csv").expect_code(1);
    // standard output by its other name is still a place to write to
    let mut report = Command::new(LINKRATE);
    report.args(["study", "report", "good", "--format", "csv", "-o", "/dev/stdout"]);
    let output = report.current_dir(home.path()).stdin(Stdio::null()).output().expect("start");
    assert!(output.status.success() && output.stdout.starts_with(b"sequence,"));
}
