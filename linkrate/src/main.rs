//! The command line of linkrate: arguments in, text out; no logic of its own.
//!
//! Data goes to stdout, talk to stderr. Exit codes are in [`exit`].

#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod commands;
mod exit;
mod interrupt;
mod lines;
mod output;
mod program;
mod progress;

use linkrate_sys::limits;

use crate::args::Command;
use crate::exit::{Exit, Failure};

fn main() -> std::process::ExitCode {
    limits::watch();
    let cli = args::read();
    // an agent's controller says what has ended it, and a program that takes the place of this one has no other child
    let has_witness = match &cli.command {
        Command::Agent(_) => false,
        Command::Lab(command) => !command.becomes_program(),
        _ => true,
    };
    let _witness = has_witness.then(limits::Witness::start).flatten();
    output::set_color(cli.color);
    let result = match cli.command {
        Command::Study(command) | Command::OfStudy(command) => commands::study::run(command),
        Command::Measure(arguments) => commands::measure::run(&arguments),
        // the exit code of the program, not one of linkrate's
        Command::Lab(command) => {
            return commands::lab::run(command)
                .unwrap_or_else(|failure| failure.at_limit().print().into());
        }
        Command::Adapter(command) => commands::adapter::run(command),
        Command::Models(arguments) => commands::adapter::models(&arguments),
        Command::Limit(command) => commands::limit::run(&command),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Restore(arguments) => commands::restore::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        // its words are read as netperf reads them
        Command::Netperf(_) => commands::netperf(),
        Command::Iperf3(arguments) => commands::iperf3::run(&arguments),
        Command::Completions(arguments) => commands::completions(&arguments),
        Command::Man(arguments) => commands::man(&arguments),
        Command::Agent(arguments) => commands::agent::run(&arguments),
    };
    result.unwrap_or_else(|failure: Failure| failure.at_limit().print()).into()
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Interrupted => Self::from(interrupt::exit_code()),
            other => Self::from(other as u8),
        }
    }
}
