//! Fuzz targets, built and run on the stable toolchain.
//!
//! The layout in `fuzz/` is that of cargo-fuzz, which can be used on it. It is not needed: libFuzzer
//! comes with the libfuzzer-sys crate, and the coverage it steers by is an LLVM pass that stable
//! rustc has too. Only the sanitizers need a nightly toolchain, and they look for memory errors
//! that code without `unsafe` does not have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cargo::{cargo, host, root, target_directory, targets};
use crate::process;
use crate::summary::{Outcome, Summary};

/// What cargo-fuzz passes to rustc, less the sanitizer.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
     -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Replaying all inputs takes seconds.
const REPLAY_LIMIT: Duration = Duration::from_secs(120);
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long after its time a fuzzer may still be busy with the corpus.
const GRACE: u64 = 120;
/// One input may take this long in seconds, and the whole fuzzer this much memory in MiB.
const INPUT_SECONDS: u32 = 10;
const MEMORY_MIB: u32 = 2048;

#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Seconds for each target.
    pub seconds: u32,
    /// Seed of libFuzzer's own random numbers.
    pub seed: u32,
}

/// Builds all targets, then runs those in `wanted`, or all when it is empty.
pub fn run(summary: &mut Summary, wanted: &[String], budget: Budget) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if process::find(&compiler).is_none() {
        summary.step("fuzz", || {
            let reason = format!("no {compiler}; libFuzzer is C++, install g++ or set CXX");
            Ok(Outcome::skipped("fuzz targets", reason))
        });
        return;
    }
    let mut built = Vec::new();
    summary.step("fuzz build", || {
        let names = names(wanted)?;
        let outcome = build()?;
        if outcome.failed == 0 {
            built = names;
        }
        Ok(outcome)
    });
    summary.steps("fuzz", &built, |name| run_target(name, budget));
}

fn directory() -> PathBuf {
    root().join("fuzz")
}

/// The targets to run. Any other name is an error that lists them.
fn names(wanted: &[String]) -> io::Result<Vec<String>> {
    let mut known: Vec<String> = targets(&directory().join("Cargo.toml"))?
        .into_iter()
        .filter(|target| target.kind == "bin")
        .map(|target| target.name)
        .collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(io::Error::other(format!("no fuzz target \"{unknown}\"; there are {known}")));
    }
    if !wanted.is_empty() {
        known.retain(|name| wanted.contains(name));
    }
    Ok(known)
}

fn build() -> io::Result<Outcome> {
    let mut command = cargo(["build", "--release", "--locked", "--manifest-path"]);
    command
        .arg(directory().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(build_directory())
        // with --target, the flags are kept from build scripts and macros
        .args(["--target", &host()?])
        .env("RUSTFLAGS", COVERAGE)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let finished = process::run(&command, BUILD_LIMIT)?;
    Ok(if finished.success { Outcome::passed() } else { Outcome::failed(finished.output) })
}

fn build_directory() -> PathBuf {
    target_directory().join("fuzz")
}

/// Replays all inputs that are kept, then looks for new ones.
fn run_target(name: &str, budget: Budget) -> io::Result<Outcome> {
    let kept = process::run(&fuzzer(name, budget.seed, &["-runs=0"])?, REPLAY_LIMIT)?;
    if !kept.success {
        return Ok(Outcome::failed(kept.output));
    }
    let time = format!("-max_total_time={}", budget.seconds);
    let limit = Duration::from_secs(u64::from(budget.seconds) + GRACE);
    let finished = process::run(&fuzzer(name, budget.seed, &[&time])?, limit)?;
    Ok(judge(finished.success, finished.output))
}

/// libFuzzer on the inputs that are kept, and on those that it has found here.
fn fuzzer(name: &str, seed: u32, options: &[&str]) -> io::Result<Command> {
    let (corpus, artifacts) = (directory().join("corpus"), directory().join("artifacts"));
    let (corpus, artifacts) = (corpus.join(name), artifacts.join(name));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;

    let mut command = Command::new(build_directory().join(host()?).join("release").join(name));
    command
        .args(options)
        .arg(format!("-seed={seed}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        // the trailing slash makes it a directory
        .arg(format!("-artifact_prefix={}/", artifacts.display()));
    let dictionary = directory().join("dictionaries").join(format!("{name}.dict"));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    // libFuzzer writes into the first directory and only reads the others
    command.arg(&corpus).args(seeds(name)).current_dir(root());
    Ok(command)
}

/// Directories with inputs to begin with.
fn seeds(name: &str) -> Vec<PathBuf> {
    let mut directories = vec![directory().join("seeds").join(name)];
    // the best study files, models and outputs of other programs there are
    match name {
        "import" => {
            let tests = root().join("linkrate-interop").join("tests");
            directories.extend([tests.join("recorded"), tests.join("imports")]);
        }
        "study_file" => directories.push(root().join("studies")),
        "model" => directories.push(root().join("linkrate-model").join("models")),
        _ => {}
    }
    directories.retain(|path: &PathBuf| Path::is_dir(path));
    directories
}

/// A fuzzer that saw no coverage has proved nothing, however long it ran.
fn judge(success: bool, output: String) -> Outcome {
    if !success {
        return Outcome::failed(output);
    }
    let counters = output
        .lines()
        .find(|line| line.starts_with("INFO: Loaded") && line.contains("inline 8-bit counters"));
    if counters.is_none() {
        return Outcome::failed(format!("{output}\nerror: the target has no coverage counters\n"));
    }
    let runs = output
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Done ")?.split_once(" runs"))
        .map(|(runs, _)| format!("{runs} inputs"));
    Outcome::passed().remark(runs.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: &str = "INFO: Loaded 1 modules   (164 inline 8-bit counters): 164 [0x1, 0x2), \n";

    #[test]
    fn coverage_is_demanded() {
        let done = "#5 DONE\nDone 1234 runs in 11 second(s)\n";
        let outcome = judge(true, format!("{LOADED}{done}"));
        assert_eq!((outcome.passed, outcome.remark.as_str()), (1, "1234 inputs"));
        assert_eq!(judge(true, done.to_owned()).failed, 1);
        assert_eq!(judge(false, format!("{LOADED}{done}")).failed, 1);
    }

    #[test]
    fn refuses_an_unknown_target_and_lists_the_targets() {
        let error = names(&["study_fle".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no fuzz target \"study_fle\"; there are "), "{error}");
        assert!(error.contains("study_file"), "{error}");
    }
}
