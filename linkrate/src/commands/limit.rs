//! `linkrate limit`.

use crate::args::LimitArgs;
use crate::exit::{Exit, Failure};

/// Prints the limit.
pub fn run(_: &LimitArgs) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
