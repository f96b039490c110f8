//! Arguments of `linkrate doctor`.

use clap::{Args, Subcommand};

/// `linkrate doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "The doctor changes nothing. Each finding under \"How it could be tuned\" names the values and \
                        their source, the likely cost, and the command that changes the setting."
)]
pub struct DoctorArgs {
    /// One of its jobs; without it, check and tune
    #[command(subcommand)]
    pub job: Option<DoctorJob>,
    /// Print one JSON document and nothing else on stdout
    #[arg(long, global = true)]
    pub json: bool,
}

/// The jobs of the doctor.
#[derive(Debug, Subcommand)]
pub enum DoctorJob {
    /// Check what this host can measure
    Check,
    /// Suggest settings that raise throughput or lower CPU cost; builds no testbed
    Tune(TuneArgs),
    /// Run loads of known size on the CPUs of the system under test and print the error of each CPU meter
    SelfTest,
}

/// `linkrate doctor tune`
#[derive(Debug, Default, Args)]
pub struct TuneArgs {
    /// Examine this interface only [default: all that are up]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Compute with this round trip [default: that of the busiest connection, else 1 ms]
    #[arg(long, value_name = "TIME")]
    pub round_trip: Option<String>,
}

/// `linkrate restore`
#[derive(Debug, Args)]
#[command(
    after_help = "Restores the settings of existing interfaces that a killed linkrate process has left changed, and brings \
                  back those that it had moved into a client's namespace."
)]
pub struct RestoreArgs {
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}
