//! How a test says that it did not run, or not as a whole.

#![allow(dead_code, unused_macros, reason = "every crate uses a part of it")]

use std::fmt::Display;

/// The test that runs here, with its modules, as libtest names its thread. Other threads of a test have no name: there
/// it is the test that cargo-nextest has named on the command line.
pub fn test_path() -> String {
    let thread = std::thread::current();
    let of_thread = thread.name().filter(|name| *name != "main").map(str::to_owned);
    let of_process = || std::env::args().skip(1).find(|word| !word.starts_with('-'));
    of_thread.or_else(of_process).unwrap_or_else(|| "a test".to_owned())
}

/// Says that this test did not run, in the form that `cargo xtask test` counts.
pub fn skip(reason: impl Display) {
    let path = test_path();
    println!("SKIPPED {}: {reason}", path.rsplit("::").next().unwrap_or(&path));
}

/// What is found, or the end of the test, which says the error as its reason.
macro_rules! or_skip {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(reason) => return $crate::skip::skip(reason),
        }
    };
}
