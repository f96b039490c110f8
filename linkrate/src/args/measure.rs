//! Arguments of `linkrate measure`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::VerbosityArgs;
use super::existing::{DeployArgs, ExistingArgs};
use super::settings::Settings;
use super::testbed::{CpuArgs, FabricArgs};
use linkrate_study::study::Purpose;

/// `linkrate measure`
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Emulated adapter: a model, its file, or veth [default: gigabit]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
    /// Clients behind each port of a model [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16), hide_short_help = true)]
    pub clients_per_port: Option<u32>,
    /// Share of the model's rates at which links and bus run [default: 1]
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    pub scale: Option<f64>,
    #[command(flatten)]
    pub fabric: FabricArgs,
    #[command(flatten)]
    pub cpus: CpuArgs,
    /// Receive at the system under test, instead of sending
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Send and receive at the same time
    #[arg(long)]
    pub bidir: bool,
    /// UDP in place of TCP
    #[arg(short, long, conflicts_with = "test")]
    pub udp: bool,
    /// netperf's name of the test, for example TCP_RR
    #[arg(
        long,
        value_name = "NAME",
        hide_possible_values = true,
        long_help = "netperf's name of the test: TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR, UDP_STREAM or UDP_RR"
    )]
    pub test: Option<NetperfTest>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6", hide_short_help = true)]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long, hide_short_help = true)]
    pub ipv6: bool,
    /// Zero copy: send by splice(2), receive with MSG_TRUNC
    #[arg(short = 'Z', long, hide_short_help = true)]
    pub zero_copy: bool,
    /// Sample where the CPU time goes; sampling costs CPU time
    #[arg(long, hide_short_help = true)]
    pub profile: bool,
    /// Number of runs
    #[arg(long, default_value_t = 3, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Duration of each run
    #[arg(short, long, alias = "duration", default_value = "2s", value_name = "TIME")]
    pub time: String,
    /// Warm-up before each run
    #[arg(
        long,
        alias = "warmup",
        default_value = "300ms",
        value_name = "TIME",
        hide_short_help = true
    )]
    pub warm_up: String,
    /// Purpose of the results: costs, rates or functions. With functions, a run counts even if
    /// other programs disturb it; its results then say little
    #[arg(long, default_value = "costs", value_name = "PURPOSE", hide_short_help = true)]
    pub purpose: Purpose,
    /// New directory for the result, for report, compare and resume [default: none]
    #[arg(long, value_name = "DIRECTORY", hide_short_help = true)]
    pub dir: Option<PathBuf>,
    /// Print one JSON document and nothing else on stdout
    #[arg(short = 'J', long)]
    pub json: bool,
    #[command(flatten)]
    pub existing: ExistingArgs,
    #[command(flatten)]
    pub deploy: DeployArgs,
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    pub verbosity: VerbosityArgs,
    /// Print the options of all adapters too: aggregates, ATM, TCP offload engines
    #[arg(long, action = clap::ArgAction::HelpLong, hide_short_help = true, help_heading = None::<&str>)]
    help_all: Option<bool>,
}

/// Options of iperf3, netperf and `run` that `measure` does not take, and what does their work.
pub const ELSEWHERE: [(&str, &str); 7] = [
    ("-c", "the peer of an existing interface: --interface NAME --client iperf3://HOST"),
    ("-H", "the peer of an existing interface: --interface NAME --client netperf://HOST"),
    ("-s", "to serve clients of iperf3 and netperf: linkrate serve"),
    ("-b", "streams send as fast as they can; requests at a given rate: --request-rate NUMBER"),
    ("-i", "each run is one interval; its time series is in the report: linkrate run"),
    ("--output", "a document in a file: --json > FILE"),
    ("-n", "each run ends by time: --time TIME"),
];

/// Tests by netperf's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NetperfTest {
    /// Send
    TcpStream,
    /// Receive
    TcpMaerts,
    /// Request/response on an open connection
    TcpRr,
    /// A connection for each request
    TcpCrr,
    /// Datagrams one way
    UdpStream,
    /// Request/response by datagrams
    UdpRr,
}

impl MeasureArgs {
    /// The settings: those by name, and those that letters and names of other programs stand for. Two of the same kind
    /// are refused later, as two options of one name are.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let mut given = self.settings.0.clone();
        let mut add = |key, word: &str| given.push((key, word.to_owned()));
        if self.reverse {
            add("direction", "receive");
        }
        if self.bidir {
            add("direction", "bidirectional");
        }
        if self.udp {
            add("kind", "udp-stream");
        }
        match self.test {
            None => {}
            Some(NetperfTest::TcpStream) => add("kind", "stream"),
            Some(NetperfTest::TcpMaerts) => {
                add("kind", "stream");
                add("direction", "receive");
            }
            Some(NetperfTest::TcpRr) => add("kind", "request-response"),
            Some(NetperfTest::TcpCrr) => add("kind", "connect-request-response"),
            Some(NetperfTest::UdpStream) => add("kind", "udp-stream"),
            Some(NetperfTest::UdpRr) => add("kind", "udp-request-response"),
        }
        if self.ipv4 {
            add("family", "ipv4");
        }
        if self.ipv6 {
            add("family", "ipv6");
        }
        given
    }
}
