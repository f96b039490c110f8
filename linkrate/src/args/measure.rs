//! Arguments of `linkrate measure`.

use clap::Args;
use linkrate_study::belief::Purpose;

use super::cpus::CpuArgs;
use super::existing::{DeployArgs, ExistingArgs};
use super::fabric::FabricArgs;
use super::settings::Settings;

/// `linkrate measure`
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Adapter between the system under test and its clients: a model, the file of a model, or veth
    /// [default: gigabit]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
    /// Clients behind each port of a model [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub clients_per_port: Option<u32>,
    /// Share of the model's rates at which links and bus run [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub scale: Option<f64>,
    #[command(flatten)]
    pub fabric: FabricArgs,
    #[command(flatten)]
    pub cpus: CpuArgs,
    /// Send by splice and receive with MSG_TRUNC: no copy at either end
    #[arg(long)]
    pub zero_copy: bool,
    /// Sample where the CPU time goes; sampling costs CPU time
    #[arg(long)]
    pub profile: bool,
    /// Number of runs
    #[arg(long, default_value_t = 3, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Length of the window of a run
    #[arg(long, default_value = "2 s", value_name = "TIME")]
    pub time: String,
    /// Length of the traffic before the window
    #[arg(long, default_value = "300 ms", value_name = "TIME")]
    pub warm_up: String,
    /// What the figures are for: costs, rates or functions. A run for functions counts whatever other
    /// programs do, and its figures say little
    #[arg(long, default_value = "costs", value_name = "PURPOSE")]
    pub purpose: Purpose,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub existing: ExistingArgs,
    #[command(flatten)]
    pub deploy: DeployArgs,
    #[command(flatten)]
    pub settings: Settings,
}
