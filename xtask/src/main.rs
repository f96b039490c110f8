//! The workspace's tasks: `cargo xtask test`, `lint`, `fuzz`, `docs`, `bench`, `sessions`, `package`, `dist`.
//!
//! `test` runs everything that must pass, on a developer's machine and in continuous integration
//! alike. A task is a sequence of steps; the next step runs even after one has failed.
//!
//! - [`summary`]: steps, their outcomes, the table at the end
//! - [`process`]: running a program with its output kept and its time bounded
//! - [`cargo`]: cargo, and what it knows of the workspace
//! - [`checks`]: formatting, lints, dependencies, tests, documentation
//! - [`real`]: tests that measure real traffic
//! - [`git`]: the commit and its time
//! - [`room`]: whether the disk has room for a build
//! - [`fuzz`]: fuzz targets, built and run on the stable toolchain
//! - [`mod@bench`]: ratios to third-party peers, and sessions of one study
//! - [`book`]: the manual, and whether its links lead anywhere
//! - [`mod@package`]: the Debian package, made and tried
//! - [`dist`]: what a release hands out
//! - [`peers`]: third-party programs that tests measure against
//! - [`phrases`]: phrases that must not come back in the texts that people read
//! - [`python`]: third-party programs from PyPI
//! - [`tools`]: Rust programs that checks use
//! - [`programs`]: holds the programs that tests start against the list of peers

#![forbid(unsafe_code)]

mod bench;
mod book;
mod cargo;
mod checks;
mod dist;
mod fuzz;
mod git;
mod package;
mod peers;
mod phrases;
mod process;
mod programs;
mod python;
mod real;
mod room;
mod summary;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Run everything that must pass.
    Test {
        /// Install neither Debian packages nor cargo tools; skip what needs missing ones.
        #[arg(long)]
        no_install: bool,
    },
    /// Check formatting, clippy, the programs that tests start, texts, dependencies, and API documentation.
    Lint,
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
    /// Print how linkrate compares with iperf3, side by side in one run.
    Bench {
        /// Install no Debian packages; skip what needs missing ones.
        #[arg(long)]
        no_install: bool,
    },
    /// Run one small study in several sessions with fresh labs, and fail if they differ much more than their intervals say.
    Sessions {
        /// Keep the sessions in this folder, and judge all that are there: in several pieces, or on several days.
        folder: Option<PathBuf>,
        /// Add at most so many sessions of 35 s; there are never more than five.
        #[arg(long, default_value_t = 5, requires = "folder")]
        add: u32,
    },
    /// Make the Debian package, and install, use, remove and purge it on a copy of this machine's files.
    Package,
    /// Build what a release hands out, into target/artefacts.
    Dist {
        /// Build a clean clone too, and compare the bytes.
        #[arg(long)]
        again: bool,
    },
    /// Build the API documentation and the manual, and check the manual's links.
    Docs,
}

fn main() -> ExitCode {
    let mut summary = Summary::default();
    match Arguments::parse().task {
        Task::Test { no_install } => {
            summary.step("disk", room::check);
            if summary.has_failed() {
                return summary.finish();
            }
            summary.step("peers", || peers::provide(peers::OF_TESTS, !no_install));
            summary.step("python", || python::provide(python::ALL, !no_install));
            summary.step("tools", || tools::provide(tools::ALL, !no_install));
            lint(&mut summary);
            checks::tests(&mut summary);
            docs(&mut summary);
            fuzz::run(&mut summary, &[], fuzz::Budget { seconds: 10, seed: 1 });
            // last and alone: these measure traffic, and a neighbour would disturb them
            real::tests(&mut summary);
            // measures too; the program of the real tests is there now
            summary.step("package", package::test);
        }
        Task::Lint => {
            lint(&mut summary);
            // a link to a private item is found by rustdoc alone
            api_documentation(&mut summary);
        }
        Task::Fuzz { targets, seconds, seed } => {
            fuzz::run(&mut summary, &targets, fuzz::Budget { seconds, seed });
        }
        Task::Docs => docs(&mut summary),
        Task::Package => {
            summary.step("tools", || tools::provide(tools::OF_RELEASES, true));
            summary.step("package", package::test);
        }
        Task::Dist { again } => {
            summary.step("tools", || tools::provide(tools::OF_RELEASES, true));
            dist::run(&mut summary, again);
        }
        Task::Sessions { folder, add } => {
            summary.step("sessions", || bench::sessions(folder.as_deref(), add));
        }
        Task::Bench { no_install } => {
            return bench::run(!no_install).unwrap_or_else(|error| {
                eprintln!("error: bench: {error}");
                ExitCode::FAILURE
            });
        }
    }
    summary.finish()
}

fn lint(summary: &mut Summary) {
    summary.step("format", checks::format);
    summary.step("clippy", checks::clippy);
    summary.step("programs", programs::lint);
    summary.step("phrases", phrases::lint);
    summary.step("dependencies", checks::dependencies);
}

fn api_documentation(summary: &mut Summary) {
    summary.step("API documentation", checks::api_documentation);
}

fn docs(summary: &mut Summary) {
    api_documentation(summary);
    summary.step("manual", book::build);
    summary.step("manual links", book::links);
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
