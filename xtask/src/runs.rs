//! The tests of all crates, run by cargo-nextest.
//!
//! Everything is built once, in the profile `dev`: code that a measured octet passes is optimised there.
//! `.config/nextest.toml` says which tests need the machine for themselves, and which are repeated when they fail.
//! nextest shows its progress as it goes; what it counted is read from the report that it leaves (JUnit).

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus};

use crate::cargo::{cargo, host, target_directory};
use crate::peers::{OF_TESTS, is_root};
use crate::process;
use crate::programs;
use crate::summary::{Note, Outcome, Took};
use crate::tools::CARGO_NEXTEST;

/// The target that measures real traffic. `test = false` keeps it out of a plain `cargo test`, where its tests would
/// run beside others.
const REAL: &str = "real";

/// Long enough for everything on two slow CPUs.
const LIMIT: Duration = Duration::from_secs(50 * 60);

/// The same with what is exhaustive.
const LIMIT_OF_ALL: Duration = Duration::from_secs(6 * 60 * 60);

/// What only [`Extent::Exhaustive`] runs is marked `#[ignore]`. Tests of a module `inside` are run by other tests, in
/// a host of their own.
const NOT_INSIDE: &str = "not test(/(^|::)inside::/)";

/// How often connections move in an exhaustive run (`linkrate-toe/tests/it/moves.rs`).
const MOVES: &str = "1000";

/// Cases of each property in the usual run, and in an exhaustive one.
const CASES: &str = "128";
const ALL_CASES: &str = "4096";

/// Which tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection<'a> {
    /// Of all crates, and those of real traffic.
    Everything,
    /// Those of real traffic.
    Real,
    /// Of one crate, without those of real traffic.
    Crate(&'a str),
}

/// How thoroughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What a user waits for.
    Usual,
    /// Twenty tries, thousands of moves, long sweeps.
    Exhaustive,
}

/// What is built of the workspace, always as a whole: for fewer targets, cargo gives dependencies other features, and
/// builds all that depends on them again.
pub const TARGETS: [&str; 4] = ["--lib", "--bins", "--test", "*"];

impl<'a> Selection<'a> {
    /// The arguments of cargo that select the test binaries.
    fn binaries(self) -> Vec<&'a str> {
        match self {
            Self::Everything | Self::Real => [&["--workspace"][..], &TARGETS].concat(),
            Self::Crate(name) => vec!["--package", name],
        }
    }

    /// The tests of these binaries, as an expression of nextest.
    fn tests(self) -> String {
        match self {
            Self::Real => format!("{NOT_INSIDE} & binary({REAL})"),
            Self::Everything | Self::Crate(_) => NOT_INSIDE.to_owned(),
        }
    }
}

/// Builds these tests.
pub fn build(selection: Selection<'_>, timings: bool) -> io::Result<Outcome> {
    let mut command = cargo(["test", "--locked", "--no-run"]);
    command.args(selection.binaries());
    if timings {
        command.arg("--timings");
    }
    let finished = process::run(&command, LIMIT)?;
    if !finished.success {
        return Ok(Outcome::failed(finished.output));
    }
    let times = if timings { units()? } else { Vec::new() };
    Ok(Outcome { times, ..Outcome::passed() })
}

/// Runs these tests.
pub fn run(selection: Selection<'_>, extent: Extent) -> io::Result<Outcome> {
    if CARGO_NEXTEST.find().is_none() {
        let said = format!("error: no cargo-nextest\nhint: {}\n", CARGO_NEXTEST.remedy());
        return Ok(Outcome::failed(said));
    }
    let report = target_directory().join("nextest/default/junit.xml");
    if report.exists() {
        fs::remove_file(&report)?;
    }
    let limit = if extent == Extent::Exhaustive { LIMIT_OF_ALL } else { LIMIT };
    let path = programs::directory(OF_TESTS)?;
    let finished = process::show(&with_open_tun(nextest(selection, extent, &path)?), limit)?;
    let Ok(text) = fs::read_to_string(&report) else {
        // what does not build has no report
        return Ok(Outcome::failed("error: the tests did not run\n"));
    };
    let mut outcome = outcome(&text).map_err(io::Error::other)?;
    if !finished {
        outcome.failed = outcome.failed.max(1);
    }
    Ok(outcome)
}

/// Gives `$2` and what follows mounts of their own, in which all users may open `/dev/net/tun`, as most distributions
/// have it; `$1` is a directory for its node. What may not be done is left out, and tests say so.
const WITH_OPEN_TUN: &str = "node=$1/tun; shift; rm -f \"$node\"; \
    mknod -m 666 \"$node\" c 10 200 && mount --bind \"$node\" /dev/net/tun; exec \"$@\"";

/// `command`, with TAPs for ordinary users where only root has them: some tests are theirs.
fn with_open_tun(command: Command) -> Command {
    let mode = fs::metadata("/dev/net/tun").map(|node| node.permissions().mode());
    if !is_root() || mode.is_ok_and(|mode| mode & 0o006 == 0o006) {
        return command;
    }
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "sh", "-c", WITH_OPEN_TUN, "sh"]).arg(target_directory());
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// Each test has a PATH of its own, which the build does not have.
fn nextest(selection: Selection<'_>, extent: Extent, path: &Path) -> io::Result<Command> {
    let mut command = cargo(["nextest", "run", "--locked", "--no-fail-fast", "--no-tests=pass"]);
    command.args(selection.binaries()).args(["--filterset", &selection.tests()]);
    let runner = serde_json::to_string(&["env", &format!("PATH={}", path.display())])?;
    command.arg(format!("--config=target.{}.runner={runner}", host()?));
    command.env("PROPTEST_CASES", CASES);
    if extent == Extent::Exhaustive {
        command.args(["--run-ignored", "all"]);
        command.env("LINKRATE_TOE_MOVES", MOVES).env("PROPTEST_CASES", ALL_CASES);
        command.env("LINKRATE_ALL_CASES", "");
    }
    Ok(command)
}

/// Counts what a report of nextest has.
fn outcome(report: &str) -> Result<Outcome, String> {
    let report = Report::deserialize_from_str(report).map_err(|error| error.to_string())?;
    let mut outcome = Outcome::default();
    for suite in &report.test_suites {
        for case in &suite.test_cases {
            // nextest names a suite by its package and its binary
            count(&mut outcome, suite.name.as_str(), case);
        }
    }
    Ok(outcome)
}

fn count(outcome: &mut Outcome, binary: &str, case: &TestCase) {
    let name = || format!("{binary} {}", case.name.as_str());
    match &case.status {
        TestCaseStatus::Skipped { .. } => return,
        TestCaseStatus::NonSuccess { kind, .. } => {
            outcome.failed += 1;
            let ended = match kind {
                NonSuccessKind::Failure => "failed",
                NonSuccessKind::Error => "could not be run",
            };
            let said = case.system_out.iter().chain(&case.system_err).map(|text| text.as_str());
            let said = said.map(str::trim_end).collect::<Vec<_>>().join("\n");
            outcome.output.push_str(&format!("{} {ended}:\n{said}\n", name()));
        }
        TestCaseStatus::Success { flaky_runs } => {
            let skips: Vec<Note> = case
                .system_out
                .iter()
                .flat_map(|text| text.as_str().lines())
                .filter_map(skip)
                .collect();
            // a test that skips itself returns, and its runner takes that for passing
            outcome.passed += u64::from(skips.is_empty());
            outcome.skipped.extend(skips);
            if let Some(first) = flaky_runs.first() {
                let said = first.description.as_ref().or(first.message.as_ref());
                let reason = reason(said.map_or("", |text| text.as_str()));
                outcome.repeated.push(Note { name: name(), reason });
            }
        }
    }
    if let Some(time) = case.time {
        outcome.times.push(Took { name: name(), time });
    }
}

/// The place and the message of a panic, on one line.
fn reason(output: &str) -> String {
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at "));
    let place = lines.next().and_then(|line| line.split_once("panicked at "));
    let message = lines.next().unwrap_or_default().chars().take(800).collect::<String>();
    match place {
        Some((_, place)) => format!("{place} {message}"),
        None => "the first time failed without a panic".to_owned(),
    }
}

/// Reads `SKIPPED name: reason`. With one thread libtest has already begun the line with the
/// test's name.
fn skip(line: &str) -> Option<Note> {
    let line = line.trim_start();
    let line = match line.strip_prefix("test ") {
        Some(rest) => rest.split_once(" ... ")?.1,
        None => line,
    };
    let (name, reason) = line.strip_prefix("SKIPPED ")?.split_once(": ")?;
    Some(Note { name: name.to_owned(), reason: reason.to_owned() })
}

/// What `cargo --timings` wrote of each unit: its page has the data as JSON.
fn units() -> io::Result<Vec<Took>> {
    const DATA: &str = "const UNIT_DATA = ";
    let page = target_directory().join("cargo-timings/cargo-timing.html");
    let page = fs::read_to_string(page)?;
    let Some((_, text)) = page.split_once(DATA) else {
        return Err(io::Error::other("cargo --timings wrote no data of units"));
    };
    // more of the page follows
    let mut units = serde_json::Deserializer::from_str(text).into_iter::<Vec<Unit>>();
    let units = units.next().transpose()?.unwrap_or_default();
    Ok(units.into_iter().map(Unit::took).collect())
}

/// One call of the compiler.
#[derive(Debug, serde::Deserialize)]
struct Unit {
    name: String,
    #[serde(default)]
    target: String,
    /// Seconds.
    duration: f64,
}

impl Unit {
    fn took(self) -> Took {
        let name = format!("{}{}", self.name, self.target);
        Took { name, time: Duration::from_secs_f64(self.duration.max(0.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0">
    <testsuite name="linkrate::real" tests="4" disabled="0" errors="0" failures="1">
        <testcase name="lab::one" classname="linkrate::real" time="1.500">
            <system-out>running 1 test
test lab::one ... ok
</system-out>
        </testcase>
        <testcase name="peer" classname="linkrate::real" time="0.1">
            <system-out>SKIPPED peer: no iperf3; apt-get install iperf3
</system-out>
        </testcase>
        <testcase name="now_and_then" classname="linkrate::real" time="0.2">
            <flakyFailure time="0.3" type="test failure" message="thread panicked">thread 'now_and_then' panicked at tests/a.rs:9:5:
expected 3 frames
</flakyFailure>
        </testcase>
        <testcase name="wrong" classname="linkrate::real" time="0.4">
            <failure type="test failure">panicked</failure>
            <system-out>what it said</system-out>
        </testcase>
    </testsuite>
</testsuites>"#;

    #[test]
    fn a_report_is_counted_by_test() {
        let outcome = outcome(REPORT).unwrap();
        assert_eq!((outcome.passed, outcome.failed), (2, 1));
        let skipped = Note {
            name: "peer".to_owned(),
            reason: "no iperf3; apt-get install iperf3".to_owned(),
        };
        assert_eq!(outcome.skipped, [skipped]);
        let repeated = Note {
            name: "linkrate::real now_and_then".to_owned(),
            reason: "tests/a.rs:9:5: expected 3 frames".to_owned(),
        };
        assert_eq!(outcome.repeated, [repeated]);
        assert_eq!(outcome.output, "linkrate::real wrong failed:\nwhat it said\n");
        let first =
            Took { name: "linkrate::real lab::one".to_owned(), time: Duration::from_millis(1500) };
        assert_eq!((outcome.times.len(), &outcome.times[0]), (4, &first));
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(outcome("<testsuites").is_err());
    }

    #[test]
    fn other_lines_are_no_skips() {
        assert_eq!(skip("the run was SKIPPED for: reasons"), None);
        assert_eq!(skip("test skip ... ok"), None);
        let note = skip("test a ... SKIPPED a: needs root").unwrap();
        assert_eq!((note.name.as_str(), note.reason.as_str()), ("a", "needs root"));
    }

    #[test]
    fn only_an_exhaustive_run_takes_what_is_ignored() {
        let words = |extent| {
            let command = nextest(Selection::Everything, extent, Path::new("programs")).unwrap();
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert!(!words(Extent::Usual).contains(&"--run-ignored".to_owned()));
        assert!(words(Extent::Exhaustive).contains(&"--run-ignored".to_owned()));
    }
}
