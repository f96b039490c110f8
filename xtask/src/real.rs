//! Tests that measure real traffic, one at a time.
//!
//! They depend on time, and a shared machine may take the CPU away from them. A test that fails is
//! repeated alone, after all others, [`REPEATS`] times at most. One that passes then counts as passed,
//! and the summary names it with its first failure: a defect that shows itself sometimes stays visible.
//! A repetition that is skipped, because the machine is too busy to judge, is no repetition; there are
//! [`TRIES`] at most.
//! More than [`MOST`] failures are no coincidence, and are not repeated.
//!
//! They are built as all other tests are, which saves a second build of everything: in the profile `dev`
//! code that a measured octet passes is optimised as in a release.

use std::fmt;
use std::io;
use std::process::Command;
use std::time::Duration;

use crate::cargo::{Target, cargo, root, targets};
use crate::checks::{Runner, run_tests};
use crate::summary::{Note, Outcome, Summary};

/// Their names begin so.
const REAL: &str = "real_";

/// The most failures that are repeated.
const MOST: usize = 6;

/// How often one is repeated.
const REPEATS: u32 = 2;

/// How often one is started again, also if it is skipped.
const TRIES: u32 = 5;

/// Time before the repetition, in which the machine may become quiet.
const PAUSE: Duration = Duration::from_secs(5);

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    /// The name of its target.
    target: String,
    /// Its path within the target.
    name: String,
    /// Its output.
    output: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.target, self.name, self.output.trim_end())
    }
}

/// Runs them.
///
/// They are found by their names. `test = false` must keep them out of a plain `cargo test`,
/// where other tests would run beside them.
pub fn tests(summary: &mut Summary) {
    summary.step("real traffic", || {
        let real = real_targets()?;
        if real.is_empty() {
            let reason = format!("the workspace has no test target named {REAL}*");
            return Ok(Outcome::skipped("real traffic", reason));
        }
        let stray: Vec<&str> =
            real.iter().filter(|target| target.test).map(|target| target.name.as_str()).collect();
        if !stray.is_empty() {
            return Ok(Outcome::failed(format!(
                "not marked `test = false`: {}\nhint: list each as [[test]] in its package's \
                 Cargo.toml with test = false, so that a plain cargo test leaves it alone\n",
                stray.join(", ")
            )));
        }
        let mut outcome = run(&real, None)?;
        let failures = failures(&outcome.output);
        if failures.len() as u64 != outcome.failed {
            // a target that did not build, or that ended in the middle
            return Ok(outcome);
        }
        outcome.output = failures.iter().map(|failure| format!("{failure}\n")).collect();
        if failures.len() <= MOST {
            failures.iter().try_for_each(|failure| repeat(&mut outcome, &real, failure))?;
        }
        Ok(outcome)
    });
}

/// Runs the tests of these targets, or the one with this name.
fn run(targets: &[Target], only: Option<&str>) -> io::Result<Outcome> {
    let mut command = cargo(["test", "--locked", "--no-fail-fast"]);
    command.args(selection(targets)).args(["--", "--test-threads=1", "--nocapture"]);
    command.args(only.iter().flat_map(|name| ["--exact", name]));
    run_tests(&command, Runner::Libtest)
}

/// Repeats a test that failed, and takes back its failure if it passes now.
fn repeat(outcome: &mut Outcome, real: &[Target], failure: &Failure) -> io::Result<()> {
    let Some(target) = real.iter().find(|target| target.name == failure.target) else {
        return Ok(());
    };
    println!("   is repeated: {failure}");
    let mut judged = 0;
    for _ in 0..TRIES {
        if judged == REPEATS {
            break;
        }
        std::thread::sleep(PAUSE);
        let again = run(std::slice::from_ref(target), Some(&failure.name))?;
        if again.failed == 0 && again.passed == 1 {
            outcome.failed -= 1;
            outcome.passed += 1;
            let name = failure.name.clone();
            outcome.repeated.push(Note { name, reason: reason(&failure.output) });
            break;
        }
        judged += u32::from(again.failed > 0);
        println!("{}", again.output.trim_end());
    }
    Ok(())
}

/// The message of a panic, on one line.
fn reason(output: &str) -> String {
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at "));
    let place = lines.next().and_then(|line| line.split_once("panicked at "));
    let message = lines.next().unwrap_or_default().chars().take(200).collect::<String>();
    match place {
        Some((_, place)) => format!("{place} {message}"),
        None => "the first time failed without a panic".to_owned(),
    }
}

/// The tests that failed, from the output of their runner.
fn failures(output: &str) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    let (mut target, mut names, mut begun) = (String::new(), None, 0);
    let lines: Vec<&str> = output.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(path) = line.trim_start().strip_prefix("Running tests/") {
            target = path.split_once(".rs ").map_or(path, |(name, _)| name).to_owned();
            begun = at;
        } else if *line == "failures:" {
            // of two lists, the last one has nothing but names
            names = Some(Vec::new());
        } else if line.starts_with("test result:") {
            for name in names.take().unwrap_or_default() {
                let output = output_of(&lines[begun..at], name);
                failures.push(Failure { target: target.clone(), name: name.to_owned(), output });
            }
        } else if let Some(names) = &mut names {
            names.extend(line.strip_prefix("    ").filter(|name| !name.contains(' ')));
        }
    }
    failures
}

/// The lines between the name of a test and the name of the next one.
fn output_of(lines: &[&str], name: &str) -> String {
    let start = format!("test {name} ... ");
    let mut own = lines.iter().skip_while(|line| !line.starts_with(&start));
    let first = own.next().copied().unwrap_or_default();
    let rest = own.take_while(|line| !line.starts_with("test ") && **line != "failures:");
    std::iter::once(first).chain(rest.copied()).collect::<Vec<_>>().join("\n")
}

/// Builds the program that these tests start. `cargo build` would build nearly all of it again, because what tests
/// depend on asks for other features of shared dependencies.
pub fn build_of_program() -> io::Result<Command> {
    let real = real_targets()?;
    let mut command = cargo(["test", "--locked", "--no-run"]);
    command.args(selection(&real[..real.len().min(1)]));
    Ok(command)
}

/// The targets.
pub fn real_targets() -> io::Result<Vec<Target>> {
    let mut all = targets(&root().join("Cargo.toml"))?;
    all.retain(|target| target.kind == "test" && target.name.starts_with(REAL));
    Ok(all)
}

/// The arguments that select these test targets and nothing else. Other packages do not change, with the
/// features that they ask for, what dependencies are made of: nothing is built again.
pub fn selection(targets: &[Target]) -> Vec<&str> {
    let names = targets.iter().flat_map(|target| ["--test", target.name.as_str()]);
    std::iter::once("--workspace").chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_selected_by_name() {
        let target = |name: &str| Target {
            package: "linkrate".to_owned(),
            name: name.to_owned(),
            kind: "test".to_owned(),
            test: false,
        };
        let targets = [target("real_a"), target("real_b")];
        let expected = ["--workspace", "--test", "real_a", "--test", "real_b"];
        assert_eq!(selection(&targets), expected);
    }

    #[test]
    fn failures_have_their_target_and_their_output() {
        let output = "     Running tests/real_a.rs (target/release/deps/real_a-1)\n\
                      test one ... ok\n\
                      test two::deep ... \n\
                      thread 'two::deep' (7) panicked at tests/real_a.rs:9:5:\n\
                      expected 3 frames\n\
                      FAILED\n\
                      test three ... ok\n\n\
                      failures:\n\nfailures:\n    two::deep\n\n\
                      test result: FAILED. 2 passed; 1 failed; 0 ignored\n\
                      \u{20}    Running tests/real_b.rs (target/release/deps/real_b-1)\n\
                      test one ... ok\n\n\
                      test result: ok. 1 passed; 0 failed\n";
        let [failure] = &failures(output)[..] else { panic!("{:?}", failures(output)) };
        assert_eq!((failure.target.as_str(), failure.name.as_str()), ("real_a", "two::deep"));
        assert_eq!(reason(&failure.output), "tests/real_a.rs:9:5: expected 3 frames");
        assert!(!failure.output.contains("three"), "{failure:?}");
    }

    #[test]
    fn a_list_of_outputs_names_no_test() {
        let output = "     Running tests/real_a.rs (x)\nfailures:\n\n---- one stdout ----\n    word\n\n\
                      failures:\n    one\n\ntest result: FAILED. 0 passed; 1 failed\n";
        assert_eq!(failures(output).len(), 1);
    }

    #[test]
    fn output_without_failures_has_none() {
        assert_eq!(failures("error: could not compile\n    word\n"), []);
    }
}
