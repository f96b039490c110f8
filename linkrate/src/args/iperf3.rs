//! `linkrate iperf3`: the options of iperf3, under its names.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use linkrate_compat::iperf3::Format;
use linkrate_compat::iperf3::quantity::{Base, quantity, rate};
use linkrate_interop::iperf3::MAX_CPU;

/// `linkrate iperf3`
#[derive(Debug, Args)]
#[command(
    infer_long_args = true,
    args_override_self = true,
    disable_version_flag = true,
    after_help = "Prints what iperf3 prints; notes go to standard error. Exit codes are those of iperf3: \
        0 success, 1 error. Options of iperf3 that are not listed here are refused by name."
)]
pub struct Iperf3Args {
    /// Measure with the server at this host
    #[arg(short, long, value_name = "HOST", required_unless_present_any = ["server", "version"])]
    pub client: Option<String>,
    /// Serve, as `linkrate serve` does, on all addresses unless --bind names one
    #[arg(short, long, conflicts_with = "client")]
    pub server: bool,
    /// Print the version
    #[arg(short, long)]
    pub version: bool,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = linkrate_interop::iperf3::PORT)]
    pub port: u16,
    /// Server: end after one test
    #[arg(short = '1', long, requires = "server")]
    pub one_off: bool,
    /// Seconds of the test [default: 10]
    #[arg(short, long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub time: Option<u32>,
    /// Number of bytes to transmit, with K, M, G, T (powers of 1,024)
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = octets)]
    pub bytes: Option<u64>,
    /// Messages that end the test, with K, M, G, T
    #[arg(short = 'k', long, value_name = "NUMBER", value_parser = octets)]
    pub blockcount: Option<u64>,
    /// Octets of a message or a datagram [default: 128K; UDP: as many as fit a packet]
    #[arg(short, long, value_name = "BYTES", value_parser = block)]
    pub length: Option<u32>,
    /// Streams at once
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both ends send
    #[arg(long)]
    pub bidir: bool,
    /// UDP instead of TCP
    #[arg(short, long)]
    pub udp: bool,
    /// Bit/s of each stream, with K, M, G, T (powers of 1,000), and messages of a burst behind a
    /// slash; 0 is unlimited [default: UDP 1 Mbit/s, TCP 0]
    #[arg(short, long, alias = "bandwidth", value_name = "RATE[/BURST]", value_parser = bit_rate)]
    pub bitrate: Option<(u64, u32)>,
    /// Socket buffers, bytes
    #[arg(short, long, value_name = "BYTES", value_parser = window)]
    pub window: Option<u32>,
    /// Maximum segment size of TCP, bytes
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=32_767))]
    pub set_mss: Option<u32>,
    /// TCP_NODELAY
    #[arg(short = 'N', long)]
    pub no_delay: bool,
    /// Congestion control of TCP
    #[arg(short = 'C', long, alias = "linux-congestion", value_name = "NAME")]
    pub congestion: Option<String>,
    /// Send with sendfile(2), without a copy
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Type of service of each packet
    #[arg(short = 'S', long, value_name = "NUMBER", value_parser = tos)]
    pub tos: Option<u8>,
    /// Omit the first N seconds from the results
    #[arg(short = 'O', long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=600))]
    pub omit: u32,
    /// Seconds between two reports, 0.1 to 60; 0 for none
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// Unit of rates: k, m, g, t in bits, K, M, G, T in bytes
    #[arg(short, long, value_name = "UNIT", value_parser = format)]
    pub format: Option<Format>,
    /// Print one JSON document; a server prints one for each test, with its sums
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Print one JSON object for each line: start, intervals, end
    #[arg(long, conflicts_with = "server")]
    pub json_stream: bool,
    /// Verbose output
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// Text before each line, and in JSON
    #[arg(short = 'T', long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Append the output to this file
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// CPU of the client, and behind a comma that of the server
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = cpus)]
    pub affinity: Option<(u32, Option<u32>)>,
    /// Address of this end
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// Port of this end; more streams have the next ones
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub cport: u16,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6")]
    pub version4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub version6: bool,
    /// Numbers of 64 bits in datagrams
    #[arg(long)]
    pub udp_counters_64bit: bool,
    /// Milliseconds that a connection may take
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    pub connect_timeout: Option<u32>,
    /// Accepted: each line is written at once
    #[arg(long)]
    pub forceflush: bool,
    /// User that the server asks for; its password is in IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key_path")]
    pub username: Option<String>,
    /// File of the server's public key, in PEM form
    #[arg(long, value_name = "FILE", requires = "username")]
    pub rsa_public_key_path: Option<PathBuf>,
    /// Pad the name as iperf3 before 3.17, and do not try both ways
    #[arg(long, requires = "username")]
    pub use_pkcs1_padding: bool,
}

/// Options of iperf3 that are not taken.
pub const NOT_TAKEN: [&str; 36] = [
    "-D",
    "--daemon",
    "-I",
    "--pidfile",
    "-F",
    "--file",
    "-L",
    "--flowlabel",
    "-X",
    "--xbind",
    "-d",
    "--debug",
    "-m",
    "--mptcp",
    "--sctp",
    "--nstreams",
    "--bind-dev",
    "--dscp",
    "--extra-data",
    "--repeating-payload",
    "--timestamps",
    "--get-server-output",
    "--no-fq-socket-pacing",
    "--dont-fragment",
    "--skip-rx-copy",
    "--rsa-private-key-path",
    "--authorized-users-path",
    "--time-skew-threshold",
    "--fq-rate",
    "--pacing-timer",
    "--idle-timeout",
    "--rcv-timeout",
    "--snd-timeout",
    "--server-bitrate-limit",
    "--server-max-duration",
    "--gsro",
];

fn octets(text: &str) -> Result<u64, String> {
    quantity(text, Base::Binary).map_err(|error| error.to_string())
}

fn up_to(text: &str, most: u64, what: &str) -> Result<u32, String> {
    let found = octets(text)?;
    match u32::try_from(found) {
        Ok(number) if (1..=most).contains(&found) => Ok(number),
        _ => Err(format!("{found}, expected 1 to {most} {what}")),
    }
}

fn block(text: &str) -> Result<u32, String> {
    up_to(text, 1 << 20, "octets")
}

fn window(text: &str) -> Result<u32, String> {
    up_to(text, 512 << 20, "octets")
}

fn bit_rate(text: &str) -> Result<(u64, u32), String> {
    rate(text).map_err(|error| error.to_string())
}

fn tos(text: &str) -> Result<u8, String> {
    let parsed = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u8::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => u8::from_str_radix(digits, 8),
        _ => text.parse(),
    };
    parsed.map_err(|_| "expected 0 to 255, also as 0x10 or 020".to_owned())
}

fn format(text: &str) -> Result<Format, String> {
    let mut letters = text.chars();
    let found = letters.next().filter(|_| letters.next().is_none()).and_then(Format::of);
    found.ok_or_else(|| "expected one of k, m, g, t, K, M, G, T".to_owned())
}

/// The CPU of the client, and behind a comma that of the server.
fn cpus(text: &str) -> Result<(u32, Option<u32>), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu <= MAX_CPU);
    let read = match text.split_once(',') {
        None => number(text).map(|own| (own, None)),
        Some((own, server)) => {
            number(own).zip(number(server)).map(|(own, server)| (own, Some(server)))
        }
    };
    read.ok_or_else(|| "expected the number of a CPU, or two of them with a comma".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_iperf3_reads_them() {
        assert_eq!(
            [tos("16"), tos("0x10"), tos("020"), tos("0")].map(Result::ok),
            [Some(16), Some(16), Some(16), Some(0)]
        );
        assert!(tos("256").is_err());
        assert_eq!(cpus("1"), Ok((1, None)));
        assert_eq!(cpus("1,0"), Ok((1, Some(0))));
        assert!(
            ["", ",1", "1,", "1,2,3", "-1", "9000"].into_iter().all(|text| cpus(text).is_err())
        );
        assert_eq!(block("128K"), Ok(131_072));
        assert!(block("2M").is_err() && block("0").is_err() && window("1G").is_err());
        assert!(format("m").is_ok() && format("mm").is_err() && format("x").is_err());
    }
}
