//! A client of netserver with the options of netperf.
//!
//! - [`options`]: what is asked for
//! - `test`: one test, from its request to its results
//! - `flow`: its payload at this end
//! - `interim`: results while it lasts
//! - `confidence`: tests until an interval is narrow enough
//! - `report`: what a test has shown
//! - `selectors`: names of results
//! - `info_options`: what netperf answers without a test
//! - `print`: the texts that netperf prints

mod confidence;
mod flow;
mod info_options;
mod interim;
pub mod options;
mod print;
mod report;
mod selectors;
mod test;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_interop::client::ClientError;

pub use options::{Options, OptionsError};

/// Why a client has no results.
#[derive(Debug, thiserror::Error)]
pub enum NetperfError {
    /// No address of IPv4.
    #[error("host {0} has no IPv4 address")]
    Host(String),
    /// The figures cannot be right.
    #[error("no result: {0}")]
    NoResult(String),
    /// The control connection.
    #[error(transparent)]
    Control(#[from] ClientError),
    /// The payload.
    #[error("{during}: {reason}")]
    Payload {
        /// What was tried.
        during: String,
        reason: std::io::Error,
    },
    /// The peer is behind a router, which the test may not use.
    #[error("{during}: {reason} without a router; -R 1 behind -- permits routers")]
    Router { during: String, reason: std::io::Error },
    /// The CPU meter.
    #[error("CPU meter: {0}")]
    Cpu(#[from] linkrate_sys::error::SysError),
    #[error("interrupted")]
    Interrupted,
}

/// Runs what the options ask for. `print` takes what netperf prints, `note` what it gets wrong or does not say.
pub fn run(
    options: &Options,
    stop: &Arc<AtomicBool>,
    print: &(impl Fn(&str) + Sync),
    note: &impl Fn(&str),
) -> Result<(), NetperfError> {
    if let Some(question) = options.question {
        print(&info_options::answer(options, question, stop)?);
        return Ok(());
    }
    for name in selectors::unknown(&options.output) {
        note(&format!("selector {name} is not known here, and is left out"));
    }
    if options.banner {
        print(&print::banner(options));
    }
    let report = confidence::run(options, stop, print, note)?;
    for line in print::notes(options, &report) {
        note(&line);
    }
    print(&print::text(options, &report));
    Ok(())
}
