//! This program itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};

/// The path of this program, which hosts run as their agent.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot locate the linkrate program: {error}"))
    })
}

/// Programs in whose place linkrate can be started by their name.
const OTHERS: [&str; 2] = ["iperf3", "netperf"];

/// The words of the command line: this program, the command, its options. Under the name of another program,
/// linkrate is that command.
pub fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(name) = started_as() {
        words.insert(1, name.into());
    }
    words
}

/// The other program that this one was started as.
fn started_as() -> Option<&'static str> {
    let first = std::env::args_os().next()?;
    let name = Path::new(&first).file_name()?;
    OTHERS.into_iter().find(|other| name == *other)
}
