//! Arguments of `linkrate lab`.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use linkrate_lab::control::LabName;
use linkrate_lab::control::client::{ControlError, LabClient};
use linkrate_lab::control::messages::Setting;
use linkrate_model::lab::LAB_VARIABLE;
use linkrate_study::adapter;

use super::testbed::FabricArgs;

/// `linkrate lab ...`
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Build a lab and run a shell, or a program, in its system under test
    ///
    /// Hosts are network namespaces on this machine, joined by virtual adapters. The lab ends when
    /// the program ends; its exit code becomes that of linkrate. The lab leaves nothing behind,
    /// however it ends.
    Up(Box<UpArgs>),
    /// Run a program in a host of a lab that is up
    Exec(ExecArgs),
    /// Show the hosts of a lab that is up
    Show {
        #[command(flatten)]
        which: Which,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// List your running labs
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Stop a lab and its programs
    Down {
        #[command(flatten)]
        which: Which,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

impl LabCommand {
    /// Whether a program takes the place of this one.
    pub const fn becomes_program(&self) -> bool {
        matches!(self, Self::Exec(_))
    }
}

/// The lab that a command is about.
#[derive(Debug, Args)]
pub struct Which {
    /// Name of the lab [default: the lab of this shell, or the only lab]
    #[arg(long)]
    pub name: Option<LabName>,
}

impl Which {
    /// Finds the lab.
    pub fn find(&self) -> Result<LabClient, ControlError> {
        let around = || std::env::var(LAB_VARIABLE).ok()?.parse().ok();
        LabClient::find(self.name.clone().or_else(around))
    }
}

/// `linkrate lab up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Adapter between the hosts: a model, the file of a model, or veth
    #[arg(long, default_value = adapter::DEFAULT, value_name = "ADAPTER")]
    pub adapter: String,
    /// Ports of the system under test; on veth the number of clients
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub ports: u32,
    /// Clients behind each port; a switch joins two or more [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub clients_per_port: Option<u32>,
    /// Let this number of ports act as one interface, with all clients on one switch
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["ports", "clients_per_port"], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub aggregate: Option<u32>,
    /// Clients of an aggregate [default: one for each port]
    #[arg(long, value_name = "NUMBER", requires = "aggregate", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: Option<u32>,
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// How the ports of an aggregate agree: manual, lacp or failover [default: manual]
    #[arg(long, value_name = "MODE", requires = "aggregate")]
    pub mode: Option<String>,
    /// How the host chooses a port of an aggregate: mac, ip, port, cpu, round-robin or adaptive
    /// [default: port]
    #[arg(long, value_name = "BALANCE", requires = "aggregate")]
    pub balance: Option<String>,
    /// Make each ATM port a client of these emulated LANs, each with an interface and clients of its own:
    /// with a model such as atm-155-lane-1516
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', conflicts_with_all = ["aggregate", "bridged_clients"])]
    pub elans: Vec<String>,
    /// Share of the model's rates at which links and bus run [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub scale: Option<f64>,
    /// The name of the lab in other commands
    #[arg(long, default_value_t)]
    pub name: LabName,
    /// CPUs of the system under test, for example 0 or 0-3
    #[arg(long, alias = "sut-cpu", value_name = "CPUS")]
    pub sut_cpus: Option<String>,
    /// CPUs of the clients, the adapters and linkrate itself
    #[arg(long, alias = "client-cpu", value_name = "CPUS")]
    pub client_cpus: Option<String>,
    /// Congestion control of programs that choose none
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    pub congestion: String,
    /// Run no program: the lab stays until Ctrl-C or `linkrate lab down`
    #[arg(long, conflicts_with = "program")]
    pub wait: bool,
    /// Program and its arguments instead of a shell
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

impl UpArgs {
    /// The knobs of the aggregate that were given.
    pub fn settings(&self) -> Vec<Setting> {
        let given = [("mode", &self.mode), ("balance", &self.balance)];
        let given = given.into_iter().filter_map(|(key, value)| Some((key, value.clone()?)));
        given.map(|(key, value)| Setting { key: key.to_owned(), value }).collect()
    }
}

/// `linkrate lab exec`
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Name of the host: sut, client-0, client-1, ...
    pub host: String,
    #[command(flatten)]
    pub which: Which,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
