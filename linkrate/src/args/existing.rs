//! Options that name existing interfaces.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use linkrate_lab::{Deploy, LabOptions};
use linkrate_model::{Interfaces, Peer};

use crate::exit::{Exit, Failure};

/// The forms of a peer.
const PEERS: &str = "\
Its peer; repeat the option for several clients:
  ssh://USER@HOST:PORT              linkrate there, over ssh
  slurm://NODE                      linkrate on a node of an allocation of Slurm
  interface://NAME                  another interface of this host
  netns://NAME                      linkrate in a namespace of this host (ip netns)
  pid://N                           linkrate in the network namespace of a process, for
                                    example of a container
  exec:COMMAND                      linkrate where COMMAND gives its last word to a shell:
                                    'exec:docker exec -i NAME sh -c', 'exec:kubectl exec
                                    -i POD -- sh -c'; never from a file
  netperf://HOST:PORT               a plain netserver
  iperf3://USER@HOST:PORT?key=FILE  a plain iperf3 server; user and key where it asks for
                                    them, the password in IPERF3_PASSWORD
USER and PORT may be left out. ?address=ADDRESS chooses among several addresses of a peer.
Short forms: ssh:HOST, ssh:HOST,ADDRESS, iperf3:USER@HOST:PORT,FILE.";

/// The heading of options about other machines.
const REMOTE: &str = "Clients on other machines";

/// Existing interfaces, instead of adapters that linkrate makes.
#[derive(Debug, Default, Args)]
pub struct ExistingArgs {
    /// Interface of this host to measure; repeat the option for several
    #[arg(long, value_name = "NAME", requires = "client")]
    pub interface: Vec<String>,
    /// Its peer, for example ssh://lab2 or iperf3://lab2
    #[arg(long, value_name = "CLIENT", requires = "interface", long_help = PEERS)]
    pub client: Vec<Peer>,
    /// Path of linkrate on the remote host; nothing is copied there then [default:
    /// linkrate; on nodes of Slurm this program, at the same path]
    #[arg(long, value_name = "PROGRAM", requires = "interface", hide_short_help = true, help_heading = REMOTE)]
    pub agent: Option<String>,
}

impl ExistingArgs {
    /// The interfaces, if any are named.
    pub fn interfaces(&self) -> Result<Option<Interfaces>, Failure> {
        if self.interface.is_empty() {
            return Ok(None);
        }
        Interfaces::new(self.interface.clone(), self.client.clone(), self.agent.clone())
            .map(Some)
            .map_err(|error| Failure::new(Exit::Usage, format!("--interface: {error}")))
    }
}

/// How clients on other machines get an agent.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = REMOTE)]
pub struct DeployArgs {
    /// Static binary to copy to remote hosts without a matching linkrate [default: this program]
    #[arg(long, value_name = "FILE", conflicts_with = "no_deploy", hide_short_help = true)]
    pub deploy: Option<PathBuf>,
    /// Copy nothing to remote hosts; refuse to run instead
    #[arg(long, hide_short_help = true)]
    pub no_deploy: bool,
    /// Extra options for srun, space-separated; srun starts the agents of slurm:NODE. With them, and
    /// outside of salloc and sbatch, each agent is a job of its own
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, hide_short_help = true)]
    pub slurm_options: Option<String>,
}

impl DeployArgs {
    /// The options of a lab whose hosts run `program`.
    pub fn lab(&self, program: PathBuf, stop: Arc<AtomicBool>) -> LabOptions {
        let deploy = match &self.deploy {
            _ if self.no_deploy => Deploy::Never,
            Some(file) => Deploy::File(file.clone()),
            None => Deploy::Own,
        };
        let words = |options: &String| options.split_whitespace().map(str::to_owned).collect();
        let slurm_options = self.slurm_options.as_ref().map(words);
        LabOptions { deploy, slurm_options, ..LabOptions::new(program, stop) }
    }
}
