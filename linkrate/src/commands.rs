//! One file per command; short ones are in this file.

pub mod adapter;
pub mod agent;
pub mod doctor;
pub mod iperf3;
pub mod lab;
pub mod limit;
pub mod measure;
mod metrics;
pub mod restore;
pub mod serve;
pub mod study;

use std::fs;

use clap::CommandFactory;
use clap_complete::Shell;
use linkrate_compat::netperf::{self, NetperfError, Options};
use linkrate_sys::stderr;

use crate::args::examples::with_examples;
use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::{Exit, Failure};
use crate::output::{print, print_bytes};
use crate::{interrupt, program};

/// `linkrate netperf`: a client of netserver with netperf's options. Runs what the words behind the name ask for, among which a `--` is one.
pub fn netperf() -> Result<Exit, Failure> {
    let words = program::words().into_iter().skip(2).map(|word| {
        word.into_string().map_err(|word| {
            let message = format!("{}: not UTF-8, expected text", word.display());
            Failure::new(Exit::Usage, message)
        })
    });
    let words: Vec<String> = words.collect::<Result<_, _>>()?;
    let options = Options::parse(&words).map_err(|error| {
        Failure::new(Exit::Usage, error.to_string()).with_hint(Some("linkrate netperf --help"))
    })?;
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    // a reader that has gone away does not want the rest
    let printed = |text: &str| drop(print(text));
    let note = |text: &str| stderr::line(format!("note: {text}"));
    match netperf::run(&options, &stop, &printed, &note) {
        Ok(()) => Ok(Exit::Success),
        Err(NetperfError::Interrupted) => Ok(Exit::Interrupted),
        Err(error) => Err(Failure::new(Exit::Failure, error.to_string())),
    }
}

/// Prints the completions of a shell.
pub fn completions(arguments: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(
        Shell::from(arguments.shell),
        &mut with_examples(Cli::command()),
        "linkrate",
        &mut text,
    );
    print_bytes(&text)?;
    Ok(Exit::Success)
}

/// Writes a manual page for each command: `linkrate.1`, `linkrate-study.1`, `linkrate-study-run.1`.
pub fn man(arguments: &ManArgs) -> Result<Exit, Failure> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(with_examples(Cli::command()), directory))
        .map_err(|error| {
            Failure::new(Exit::Failure, format!("write {}: {error}", directory.display()))
        })?;
    Ok(Exit::Success)
}
