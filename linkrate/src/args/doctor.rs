//! Arguments of `linkrate doctor`.

use clap::Args;

/// `linkrate doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "The doctor changes nothing. Each finding under \"How it could be tuned\" names the values and \
                        their source, the likely cost, and the command that changes the setting."
)]
pub struct DoctorArgs {
    /// Run only the capability checks
    #[arg(long, conflicts_with_all = ["tuning", "interface", "round_trip"])]
    pub measure: bool,
    /// Print only the tuning advice; builds no testbed
    #[arg(long)]
    pub tuning: bool,
    /// Tuning: examine this interface only [default: all that are up]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Tuning: compute with this round trip [default: that of the busiest connection, else 1 ms]
    #[arg(long, value_name = "TIME")]
    pub round_trip: Option<String>,
    /// Run loads of known size on the CPUs of the system under test and print the error of each CPU
    /// meter; takes half a minute
    #[arg(long, conflicts_with_all = ["measure", "tuning", "interface", "round_trip"])]
    pub self_test: bool,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
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
