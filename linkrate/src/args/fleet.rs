//! Options that name the nodes of a fleet.

use std::path::PathBuf;

use clap::Args;
use linkrate_study::fleet::{Node, hosts};

use crate::exit::{Exit, Failure};
use crate::input::read;

/// Nodes, instead of the testbed and the nodes of the study file.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Many hosts")]
pub struct FleetArgs {
    /// List of nodes, each pair of which is measured: a line for each, NAME ssh:HOST INTERFACE, with
    /// rack=NAME and switch=NAME after it if known; section "fleet" of the study file may choose other pairs
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    pub fleet: Option<PathBuf>,
}

impl FleetArgs {
    /// The nodes, if a list is named.
    pub fn nodes(&self) -> Result<Option<Vec<Node>>, Failure> {
        let Some(path) = &self.fleet else { return Ok(None) };
        let refused = |reason: String| {
            Failure::new(Exit::Usage, format!("--fleet: {}: {reason}", path.display()))
        };
        let text = read(path, hosts::MAX_LIST_BYTES as u64, "list of nodes").map_err(refused)?;
        hosts::parse(&text).map(Some).map_err(|error| refused(error.to_string()))
    }
}
