//! `linkrate completions` and `linkrate man`: texts made from the arguments, for shells and for
//! packages.

use std::fs;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::args::examples::with_examples;
use crate::args::package::{CompletionsArgs, ManArgs};
use crate::exit::{Exit, Failure};
use crate::output::print_bytes;

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
