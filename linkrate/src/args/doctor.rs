//! Arguments of `linkrate doctor`.

use clap::Args;

/// `linkrate doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "The doctor changes nothing, except with --restore. Each finding under \"How it could be tuned\" names the values and \
                        their source, the likely cost, and the command that changes the setting."
)]
pub struct DoctorArgs {
    /// Print only whether this host can measure
    #[arg(long, conflicts_with_all = ["tuning", "interface", "round_trip"])]
    pub measure: bool,
    /// Print only how this host could be tuned; faster, since it builds no testbed
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
    /// Restore the settings of existing interfaces that a killed linkrate process has left changed,
    /// and bring back those that it had lent to a client
    #[arg(long, conflicts_with_all = ["measure", "tuning", "interface", "round_trip", "self_test"])]
    pub restore: bool,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}
