//! `linkrate serve`

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use linkrate_interop::serve::Network;
use linkrate_terms::ByteSize;

/// A program whose clients can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// iperf 3
    Iperf3,
    /// netperf
    Netperf,
}

/// `linkrate serve`
#[derive(Debug, Args)]
#[command(
    after_help = "Prints one JSON line for each test that has ended. Ctrl-C ends the server."
)]
pub struct ServeArgs {
    /// Address to listen on; 0.0.0.0 and :: stand for all addresses of this host
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Port for clients of iperf3; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = linkrate_interop::iperf3::PORT)]
    pub iperf3_port: u16,
    /// Port for clients of netperf; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = linkrate_interop::netperf::PORT)]
    pub netperf_port: u16,
    /// Programs whose clients are served: iperf3, netperf, or both
    #[arg(
        long,
        value_name = "PROGRAMS",
        value_delimiter = ',',
        default_value = "iperf3,netperf",
        hide_possible_values = true
    )]
    pub programs: Vec<Program>,
    /// Most tests at once of each program; a client beyond them is told that the server is busy
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub sessions: u32,
    /// Most seconds of a test
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// Most bytes of a test, both directions together, for example "10 GiB"; without it there is no bound
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<ByteSize>,
    /// Serve clients of this network alone: 192.0.2.0/24, 2001:db8::/32, or an address; can be repeated
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
}
