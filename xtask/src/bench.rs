//! Benchmarks: ratios to third-party peers, all contestants in turn in one run.

use std::io;
use std::process::ExitCode;

use crate::cargo::cargo;
use crate::peers;

/// Runs the benchmarks and lets them print as they go. They judge nothing: the ratios are for a
/// person, on a machine that does nothing else.
pub fn run(install: bool) -> io::Result<ExitCode> {
    // a peer that cannot be had is told by the benchmark, by name
    peers::provide(peers::OF_BENCHMARKS, install)?;
    for package in ["linkrate-wire", "linkrate"] {
        if !cargo(["bench", "--locked", "--package", package, "--benches"]).status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
