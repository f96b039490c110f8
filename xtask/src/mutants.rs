//! Mutation testing: a sample of small changes to the code, each of which some test should notice.
//!
//! The sample is drawn again each time. What no test noticed is listed by name: it becomes a test, or is
//! explained.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use crate::cargo::{cargo, target_directory};
use crate::process;
use crate::summary::Outcome;
use crate::tools::CARGO_MUTANTS;

/// The code that is changed: formats and machines, the model, statistics, verdicts.
const FILES: [&str; 4] = [
    "linkrate-wire/src/**",
    "linkrate-model/src/**",
    "linkrate-stats/src/**",
    "linkrate-study/src/verdict{.rs,/**}",
];

/// About as many changes are tried.
const SAMPLE: usize = 100;

/// Of a hundred changes, tests must notice so many.
const MIN_CAUGHT: usize = 85;

/// Listing them takes a second.
const LIST: Duration = Duration::from_secs(60);

/// Each builds a crate and runs its tests.
const LIMIT: Duration = Duration::from_secs(5 * 60 * 60);

/// Tries a sample of changes, and fails if too many go unnoticed.
pub fn run() -> io::Result<Outcome> {
    if CARGO_MUTANTS.find().is_none() {
        let reason = format!("cargo-mutants is not installed; {}", CARGO_MUTANTS.remedy());
        return Ok(Outcome::skipped("mutants", reason));
    }
    let listed = process::run(mutants().args(["--list", "--json"]), LIST)?;
    let all: Vec<serde_json::Value> = match serde_json::from_str(&listed.output) {
        Ok(all) if listed.success => all,
        _ => return Ok(Outcome::failed(listed.output)),
    };
    let shards = (all.len() / SAMPLE).max(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let shard = format!("{}/{shards}", now as usize % shards);
    println!("   shard {shard} of {} mutants", all.len());
    let mut command = mutants();
    command.args(["--shard", &shard, "--sharding", "round-robin"]);
    process::show(&command, LIMIT)?;
    let written = fs::read_to_string(directory().join("mutants.out/outcomes.json"))?;
    Ok(judge(&shard, &serde_json::from_str(&written)?))
}

/// cargo-mutants on those files. The tests of a crate judge the changes to it.
fn mutants() -> Command {
    let mut command = cargo(["mutants", "--workspace", "--test-tool", "nextest", "--no-shuffle"]);
    command.args(["--profile", "mutants", "--timeout", "120"]);
    command.args(FILES.iter().flat_map(|file| ["--file", file]));
    command.arg("--output").arg(directory());
    command
}

fn directory() -> PathBuf {
    target_directory().join("mutants")
}

/// What cargo-mutants writes at its end.
#[derive(Debug, Deserialize)]
struct Written {
    /// Changes that a test noticed.
    caught: usize,
    /// Changes that no test noticed.
    missed: usize,
    /// Changes after which the tests did not end.
    timeout: usize,
    outcomes: Vec<Tried>,
}

#[derive(Debug, Deserialize)]
struct Tried {
    /// The change; the first build has none.
    scenario: Scenario,
    /// `CaughtMutant`, `MissedMutant` and others.
    summary: String,
}

#[derive(Debug, Deserialize)]
enum Scenario {
    Baseline,
    Mutant { name: String },
}

fn judge(shard: &str, written: &Written) -> Outcome {
    let noticed = written.caught + written.timeout;
    let tried = noticed + written.missed;
    let missed = written.outcomes.iter().filter(|tried| tried.summary == "MissedMutant");
    let names: Vec<&str> = missed
        .filter_map(|tried| match &tried.scenario {
            Scenario::Mutant { name } => Some(name.as_str()),
            Scenario::Baseline => None,
        })
        .collect();
    let remark = format!("shard {shard}: {noticed} of {tried} noticed");
    let enough = tried > 0 && noticed * 100 >= MIN_CAUGHT * tried;
    println!("   not noticed:\n{}", names.join("\n"));
    match enough {
        true => Outcome::passed().remark(remark),
        false => Outcome::failed(format!("{remark}\n{}\n", names.join("\n"))).remark(remark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(caught: usize) -> Outcome {
        let written = format!(
            r#"{{"caught": {caught}, "missed": 1, "timeout": 1, "unviable": 3, "outcomes": [
                {{"scenario": "Baseline", "summary": "Success"}},
                {{"scenario": {{"Mutant": {{"name": "a.rs:1: replace f -> 0", "package": "p"}}}},
                 "summary": "MissedMutant"}}]}}"#
        );
        judge("3/9", &serde_json::from_str(&written).unwrap())
    }

    #[test]
    fn the_share_of_noticed_changes_decides() {
        let enough = judged(98);
        assert_eq!((enough.failed, enough.remark.as_str()), (0, "shard 3/9: 99 of 100 noticed"));
        let few = judged(4);
        assert_eq!(few.failed, 1);
        assert!(few.output.contains("a.rs:1: replace f -> 0"), "{}", few.output);
    }
}
