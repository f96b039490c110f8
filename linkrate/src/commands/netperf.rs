//! `linkrate netperf`: a client of netserver with netperf's options.

use linkrate_compat::netperf::{self, NetperfError, Options};
use linkrate_sys::stderr;

use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;
use crate::program;

/// Runs what the words behind the name ask for, among which a `--` is one.
pub fn run() -> Result<Exit, Failure> {
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
