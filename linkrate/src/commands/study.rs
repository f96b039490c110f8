//! `linkrate study`.

use crate::args::StudyCommand;
use crate::exit::{Exit, Failure};

/// Carries out a study command.
pub fn run(_: StudyCommand) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
