//! `linkrate doctor`.

use crate::args::DoctorArgs;
use crate::exit::{Exit, Failure};

/// Prints what this host can and cannot measure.
pub fn run(_: &DoctorArgs) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
