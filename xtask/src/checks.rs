//! Formatting, lints, dependencies, tests that need no quiet machine, API documentation.

use std::io;
use std::process::Command;
use std::time::Duration;

use crate::cargo::{cargo, has_subcommand};
use crate::process;
use crate::real::{real_targets, selection};
use crate::summary::{Note, Outcome, Summary};
use crate::tools::CARGO_DENY;

/// Long enough for a build from nothing on two slow CPUs, and the tests of real traffic after it.
const LIMIT: Duration = Duration::from_secs(55 * 60);

/// One check: the program succeeds.
pub fn check(command: &Command) -> io::Result<Outcome> {
    let finished = process::run(command, LIMIT)?;
    Ok(if finished.success { Outcome::passed() } else { Outcome::failed(finished.output) })
}

/// `cargo fmt`.
pub fn format() -> io::Result<Outcome> {
    check(&cargo(["fmt", "--all", "--check"]))
}

/// `cargo clippy` over everything.
pub fn clippy() -> io::Result<Outcome> {
    let everywhere = check(&clippy_of(["--workspace", "--all-targets"]))?;
    let real = real_targets()?;
    if everywhere.failed > 0 || real.is_empty() {
        return Ok(everywhere);
    }
    // --all-targets leaves out what `test = false` keeps from `cargo test`
    check(&clippy_of(selection(&real)))
}

fn clippy_of<'a>(selection: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = cargo(["clippy", "--quiet", "--locked"]);
    command.args(selection).args(["--", "--deny", "warnings"]);
    command
}

/// `cargo deny`. Known vulnerabilities (`advisories`) are left out: the list of them comes from the
/// network, so that the same commit would pass today and fail tomorrow.
pub fn dependencies() -> io::Result<Outcome> {
    if CARGO_DENY.find().is_none() {
        let reason = format!("cargo-deny is not installed; {}", CARGO_DENY.remedy());
        return Ok(Outcome::skipped("dependencies", reason));
    }
    check(&cargo(["deny", "--locked", "check", "licenses", "bans", "sources"]))
}

/// `cargo doc`, where a broken link is an error.
pub fn api_documentation() -> io::Result<Outcome> {
    let mut command = cargo(["doc", "--quiet", "--workspace", "--no-deps", "--locked"]);
    check(command.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Unit, integration and documentation tests, without those that measure real traffic.
pub fn tests(summary: &mut Summary) {
    let nextest = has_subcommand("nextest");
    summary.step("tests", || if nextest { with_nextest() } else { with_cargo_test() });
    if nextest {
        // nextest does not know them
        summary.step("documentation tests", || {
            let command = cargo(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"]);
            run_tests(&command, Runner::Libtest)
        });
    }
}

fn with_nextest() -> io::Result<Outcome> {
    let mut command = cargo(["nextest", "run", "--workspace", "--locked", "--no-tests=pass"]);
    command.args(["--no-fail-fast", "--color=never", "--cargo-quiet"]);
    // passing tests may have printed that they skipped themselves; failures go below all that
    command.args(["--success-output=immediate", "--failure-output=final"]);
    run_tests(&command, Runner::Nextest)
}

fn with_cargo_test() -> io::Result<Outcome> {
    let command =
        cargo(["test", "--workspace", "--locked", "--no-fail-fast", "--", "--show-output"]);
    run_tests(&command, Runner::Libtest)
}

/// Who wrote the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// One summary line; each test's own libtest output is in between and does not count.
    Nextest,
    /// A result line for each test binary.
    Libtest,
}

/// Runs tests and counts each of them.
pub fn run_tests(command: &Command, runner: Runner) -> io::Result<Outcome> {
    let finished = process::run(command, LIMIT)?;
    let mut outcome = count(&finished.output, runner);
    if !finished.success {
        // what does not build has no counts
        outcome.failed = outcome.failed.max(1);
    }
    outcome.output = match runner {
        Runner::Nextest => from_summary(&finished.output).to_owned(),
        Runner::Libtest => finished.output,
    };
    Ok(outcome)
}

/// The part of nextest's output that shows failures: from the summary on. What does not build has none.
fn from_summary(output: &str) -> &str {
    let at = output.find(NEXTEST_SUMMARY).unwrap_or(0);
    &output[output[..at].rfind('\n').map_or(0, |end| end + 1)..]
}

/// How the line of nextest's summary begins.
const NEXTEST_SUMMARY: &str = "Summary [";

fn count(output: &str, runner: Runner) -> Outcome {
    let start = match runner {
        Runner::Nextest => NEXTEST_SUMMARY,
        Runner::Libtest => "test result:",
    };
    let mut outcome = Outcome::default();
    let mut ignored = 0;
    for line in output.lines().map(str::trim_start).filter(|line| line.starts_with(start)) {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| word.trim_matches([',', ';', ':', '('])).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => outcome.passed += number,
                "failed" | "timed" | "exec" => outcome.failed += number,
                "ignored" | "skipped" => ignored += number,
                _ => {}
            }
        }
    }
    outcome.skipped.extend(output.lines().filter_map(skip));
    // a test that skips itself returns, and its runner takes that for passing
    outcome.passed = outcome.passed.saturating_sub(outcome.skipped.len() as u64);
    outcome.skipped.extend((0..ignored).map(|_| Note {
        name: "a test".to_owned(),
        reason: "marked #[ignore]; cargo test -- --ignored runs it".to_owned(),
    }));
    outcome
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_is_counted_by_its_summary() {
        let output = "  stdout ───\n\n    running 1 test\n    SKIPPED peer: no iperf3; install it\n    \
                      test peer ... ok\n\n    test result: ok. 1 passed; 0 failed; 0 ignored;\n\
                      \n     Summary [   1.019s] 9 tests run: 6 passed (1 slow), 1 failed, 1 exec \
                      failed, 1 timed out, 2 skipped\n";
        let outcome = count(output, Runner::Nextest);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped.len()), (5, 3, 3));
        assert_eq!(outcome.skipped[0].name, "peer");
        assert_eq!(outcome.skipped[0].reason, "no iperf3; install it");
    }

    #[test]
    fn libtest_is_counted_by_binary() {
        let output = "test a ... SKIPPED a: needs root\nok\n\n\
                      test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                      test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n";
        let outcome = count(output, Runner::Libtest);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped.len()), (4, 1, 2));
    }

    #[test]
    fn passing_tests_are_not_shown_with_failures() {
        let output =
            "PASS one\n   SKIPPED two: why\n     Summary [   1.0s] 2 tests run\n  FAIL three\n";
        assert_eq!(from_summary(output), "     Summary [   1.0s] 2 tests run\n  FAIL three\n");
        assert_eq!(from_summary("error: could not compile\n"), "error: could not compile\n");
    }

    #[test]
    fn counts_a_failed_build_as_a_failure() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'error: could not compile'; exit 101"]);
        let outcome = run_tests(&command, Runner::Nextest).unwrap();
        assert_eq!((outcome.passed, outcome.failed), (0, 1));
        assert!(outcome.output.contains("could not compile"));
    }

    #[test]
    fn other_lines_are_no_skips() {
        assert_eq!(skip("the run was SKIPPED for: reasons"), None);
        assert_eq!(skip("test skip ... ok"), None);
    }
}
