//! Formatting, lints, dependencies, API documentation.

use std::io;
use std::process::Command;
use std::time::Duration;

use crate::cargo::cargo;
use crate::process;
use crate::runs::REAL;
use crate::summary::Outcome;
use crate::tools::CARGO_DENY;

/// Long enough for a build from nothing on two slow CPUs.
const LIMIT: Duration = Duration::from_secs(30 * 60);

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
    // --all-targets leaves out what `test = false` keeps from `cargo test`, also beside --test
    for targets in [["--workspace", "--all-targets"], ["--test", REAL]] {
        let mut command = cargo(["clippy", "--quiet", "--locked"]);
        let outcome = check(command.args(targets).args(["--", "--deny", "warnings"]))?;
        if outcome.failed > 0 {
            return Ok(outcome);
        }
    }
    Ok(Outcome::passed())
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
