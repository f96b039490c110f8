//! `linkrate serve`

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use linkrate_interop::serve::Network;
use linkrate_model::ByteSize;
use linkrate_model::units::parse_duration;

use super::metrics::MetricsArgs;

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
    /// Maximum number of concurrent tests of each program; further clients get "server busy"
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub sessions: u32,
    /// Maximum number of concurrent tests of one client: an address, or a /64 of IPv6
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub client_sessions: u32,
    /// Maximum memory of all tests together; further clients get "server busy"
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    pub max_memory: ByteSize,
    /// Maximum duration of a test, up to 24h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = seconds)]
    pub duration: u32,
    /// Maximum duration of a connection of netperf, which asks for tests one after another; the test that runs then ends as usual
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = seconds)]
    pub session_duration: u32,
    /// Maximum bytes of a test, both directions together, for example "10 GiB" [default: unlimited]
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<ByteSize>,
    /// Serve only clients of this network: 192.0.2.0/24, 2001:db8::/32, or an address; can be
    /// repeated
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
    /// Serve only those clients of iperf3 that log in as a user of this file. Each line has the
    /// name, a comma, and the SHA-256 of "{NAME}PASSWORD", as iperf3 has it
    #[arg(long, value_name = "FILE", requires = "rsa_private_key")]
    pub users: Option<PathBuf>,
    /// Private key for names and passwords of clients, in PEM form without a password
    #[arg(long, value_name = "FILE", requires = "users")]
    pub rsa_private_key: Option<PathBuf>,
    /// Expect names and passwords as iperf3 before 3.17 pads them
    #[arg(long, requires = "users")]
    pub pkcs1_padding: bool,
    /// Maximum clock skew of a user
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "users", value_parser = seconds)]
    pub time_skew: u32,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// A time in whole seconds.
fn seconds(text: &str) -> Result<u32, String> {
    let seconds = parse_duration(text).map_err(|error| error.to_string())?.as_secs();
    let valid = u32::try_from(seconds).ok().filter(|seconds| (1..=86_400).contains(seconds));
    valid.ok_or_else(|| format!("{text} is out of range; expected 1s to 24h"))
}
