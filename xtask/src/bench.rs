//! Benchmarks: ratios to third-party peers, all contestants in turn in one run.

use std::io;
use std::process::ExitCode;

use crate::cargo::cargo;
use crate::peers;

/// Runs the benchmarks and lets them print as they go. They judge nothing: the ratios are for a
/// person, on a machine that does nothing else.
pub fn run(install: bool) -> io::Result<ExitCode> {
    // a peer that cannot be had is told by the benchmark, by name
    peers::provide(install)?;
    let status =
        cargo(["bench", "--locked", "--package", "linkrate", "--bench", "iperf3"]).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
