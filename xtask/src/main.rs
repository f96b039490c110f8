//! The workspace's tasks: `cargo xtask test`, `fuzz`, `bench`, `sessions`, `size`, `dist`.
//!
//! `test` runs everything that must pass, on a developer's machine and in continuous integration
//! alike, or some areas of it. A task is a sequence of steps; the next step runs even after one has failed.
//!
//! - [`summary`]: steps, their outcomes, the table at the end
//! - [`process`]: running a program with its output kept and its time bounded
//! - [`cargo`]: cargo, and what it knows of the workspace
//! - [`areas`]: the areas of `cargo xtask test`
//! - [`runs`]: the tests of all crates, and those of real traffic
//! - [`mutants`]: whether tests notice that code was changed
//! - [`git`]: the commit and its time
//! - [`last_run`]: the page about the last exhaustive runs
//! - [`room`]: whether the disk has room for a build
//! - [`fuzz`]: fuzz targets, built and run on the stable toolchain
//! - [`mod@bench`]: ratios to third-party peers, and sessions of one study
//! - [`book`]: the manual, and whether its links lead anywhere
//! - [`mod@package`]: the Debian package, made and tried
//! - [`dist`]: what a release hands out
//! - [`peers`]: third-party programs that tests measure against
//! - [`phrases`]: phrases that must not come back in the texts that people read
//! - [`python`]: third-party programs from PyPI
//! - [`size`]: how large the code is
//! - [`tools`]: Rust programs that checks use
//! - [`programs`]: the programs that tests can start

#![forbid(unsafe_code)]

mod areas;
mod bench;
mod book;
mod cargo;
mod dist;
mod fuzz;
mod git;
mod last_run;
mod mutants;
mod package;
mod peers;
mod phrases;
mod process;
mod programs;
mod python;
mod room;
mod runs;
mod size;
mod summary;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::areas::Area;
use crate::runs::Extent;
use crate::summary::Summary;

/// Tasks of the linkrate workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run everything that must pass, or some areas of it.
    Test {
        /// A crate (`wire`), `lint`, `real` (traffic), `docs`, `fuzz`, `package` or `mutants`; everything if none is named.
        areas: Vec<String>,
        /// Add what is exhaustive: hours.
        #[arg(long)]
        all: bool,
        /// Print how long each test and each call of the compiler took.
        #[arg(long)]
        times: bool,
        /// Install neither Debian packages nor cargo tools; skip what needs missing ones.
        #[arg(long)]
        no_install: bool,
    },
    /// Run fuzz targets.
    Fuzz {
        /// The targets; all if none is named.
        targets: Vec<String>,
        /// How long each may run, in seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Seed of the fuzzer; the same seed tries the same inputs first.
        #[arg(long, default_value_t = 1)]
        seed: u32,
    },
    /// Print how linkrate compares with iperf3, or with another commit, side by side in one run.
    Bench {
        /// Install no Debian packages; skip what needs missing ones.
        #[arg(long)]
        no_install: bool,
        /// Compare with this commit instead, which is built in target/against.
        #[arg(long, value_name = "COMMIT")]
        against: Option<String>,
    },
    /// Run one small study in several sessions with fresh labs, and fail if they differ much more than their intervals say.
    Sessions {
        /// Keep the sessions in this folder, and judge all that are there: in several pieces, or on several days.
        folder: Option<PathBuf>,
        /// Add at most so many sessions of 35 s; there are never more than five.
        #[arg(long, default_value_t = 5, requires = "folder")]
        add: u32,
    },
    /// Print the lines of source, tests and comments by crate.
    Size,
    /// Build what a release hands out, into target/artefacts.
    Dist {
        /// Build a clean clone too, and compare the bytes.
        #[arg(long)]
        again: bool,
    },
}

fn main() -> ExitCode {
    let mut summary = Summary::default();
    match Arguments::parse().task {
        Task::Test { areas, all, times, no_install } => {
            summary.with_times = times;
            let extent = if all { Extent::Exhaustive } else { Extent::Usual };
            match Area::chosen(&areas) {
                Ok(areas) => areas::test(&mut summary, &areas, extent, !no_install),
                Err(error) => {
                    eprintln!("error: {error}");
                    return ExitCode::from(2);
                }
            }
        }
        Task::Fuzz { targets, seconds, seed } => {
            fuzz::run(&mut summary, &targets, fuzz::Budget { seconds, seed });
        }
        Task::Size => {
            if let Err(error) = size::print() {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
            return ExitCode::SUCCESS;
        }
        Task::Dist { again } => {
            summary.step("tools", || tools::provide(tools::OF_RELEASES, true));
            dist::run(&mut summary, again);
        }
        Task::Sessions { folder, add } => {
            summary.step("sessions", || bench::sessions(folder.as_deref(), add));
        }
        Task::Bench { no_install, against } => {
            let done = match against {
                Some(commit) => bench::against(&commit),
                None => bench::run(!no_install),
            };
            return done.unwrap_or_else(|error| {
                eprintln!("error: bench: {error}");
                ExitCode::FAILURE
            });
        }
    }
    summary.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(words: &[&str]) -> Result<(Option<PathBuf>, u32), clap::Error> {
        let words = ["cargo xtask", "sessions"].iter().chain(words);
        match Arguments::try_parse_from(words)?.task {
            Task::Sessions { folder, add } => Ok((folder, add)),
            other => panic!("not sessions: {other:?}"),
        }
    }

    #[test]
    fn sessions_are_five_unless_a_folder_has_some() {
        assert_eq!(sessions(&[]).unwrap(), (None, 5));
        let kept = Some(PathBuf::from("days"));
        assert_eq!(sessions(&["days", "--add", "1"]).unwrap(), (kept, 1));
        // without a folder, nothing is there to be added to
        assert!(sessions(&["--add", "1"]).is_err());
    }
}
