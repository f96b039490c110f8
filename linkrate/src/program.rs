//! This program itself.

use std::path::PathBuf;

use crate::exit::{Exit, Failure};

/// The path of this program, which hosts run as their agent.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Failure, format!("find this program: {error}")))
}
