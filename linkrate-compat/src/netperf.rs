//! A client of netserver with the options of netperf.
//!
//! - [`options`]: what is asked for
//! - `test`: one test, from its request to its results
//! - `ends`: where it goes
//! - `flow`: its payload at this end
//! - `interim`: results while it lasts
//! - `confidence`: tests until an interval is narrow enough
//! - `report`: what a test has shown
//! - `selectors`: names of results
//! - `info_options`: what netperf answers without a test
//! - `print`: the texts that netperf prints
//! - `details`, `histogram`: those of `-v 2`

mod confidence;
mod details;
mod ends;
mod flow;
mod histogram;
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
use linkrate_sys::stderr;

use ends::Ends;

pub use options::{Options, OptionsError};

/// Why a client has no results.
#[derive(Debug, thiserror::Error)]
pub enum NetperfError {
    /// No address of the family that is asked for.
    #[error("host {host} has no {kind}")]
    Host { host: String, kind: &'static str },
    /// The server goes without what changes the figure.
    #[error("this netserver does not support {0}")]
    Unserved(&'static str),
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
        note(&format!("selector {name} is unknown, and is left out"));
    }
    let ends = Ends::of(options)?;
    if options.banner {
        print(&print::banner(options, ends.data));
    }
    let report = confidence::run(options, &ends, stop, print, note)?;
    // flent sets it, and reads what stands on standard error
    let dumped = report.tally.info.filter(|_| std::env::var_os("DUMP_TCP_INFO").is_some());
    if let Some(info) = dumped {
        stderr::line(print::tcp_info(&info));
    }
    for line in print::notes(options, &report) {
        note(&line);
    }
    print(&print::text(options, &report));
    Ok(())
}
