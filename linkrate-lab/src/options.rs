//! Options of a lab that are not part of its testbed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_study::study::Purpose;

/// The program for other machines that have no linkrate of this version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Deploy {
    /// [`LabOptions::program`] is copied to them.
    #[default]
    Own,
    /// Another file is copied to them.
    File(PathBuf),
    /// Nothing is copied.
    Never,
}

#[derive(Debug, Clone)]
pub struct LabOptions {
    /// The linkrate program, whose `agent` command the hosts run.
    pub program: PathBuf,
    /// What other machines get that have no linkrate of this version.
    pub deploy: Deploy,
    /// Options for `srun`, with which nodes of Slurm can be reached outside of an allocation.
    pub slurm_options: Option<Vec<String>>,
    /// Set when the user interrupts; ends every wait.
    pub stop: Arc<AtomicBool>,
    /// Congestion control of the routes, for third-party programs in the lab. Runs leave it out,
    /// because the choice of a route overrides the choice of a socket.
    pub route_congestion: Option<String>,
    /// What runs are for: whether other programs may be at work meanwhile, and whether what the machine itself adds
    /// to costs is measured first.
    pub purpose: Purpose,
}

impl LabOptions {
    /// Those of a lab for runs.
    #[must_use]
    pub fn new(program: PathBuf, stop: Arc<AtomicBool>) -> Self {
        Self {
            program,
            deploy: Deploy::default(),
            slurm_options: None,
            stop,
            route_congestion: None,
            purpose: Purpose::default(),
        }
    }
}
