//! `linkrate iperf3`: the options of iperf3, under its names.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use linkrate_compat::iperf3::Format;
use linkrate_sys::connect::Keepalive;

use values::{Bind, Rate, Seconds};

pub mod values;

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
    #[arg(short = '1', long, conflicts_with = "client")]
    pub one_off: bool,
    /// Server: run in the background once it listens, without output except for --logfile
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub daemon: bool,
    /// Write the number of the process to this file, which is removed at the end
    #[arg(short = 'I', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Whole seconds of the test; 0 and inf until Ctrl-C [default: 10]
    #[arg(short, long, value_name = "SECONDS", conflicts_with = "server", value_parser = values::time)]
    pub time: Option<Seconds>,
    /// Number of bytes to transmit, with K, M, G, T (powers of 1,024)
    #[arg(short = 'n', long, value_name = "BYTES", conflicts_with = "server", value_parser = values::octets)]
    pub bytes: Option<u64>,
    /// Messages that end the test, with K, M, G, T
    #[arg(short = 'k', long, value_name = "NUMBER", conflicts_with = "server", value_parser = values::octets)]
    pub blockcount: Option<u64>,
    /// Octets of a message or a datagram [default: 128K; UDP: as many as fit a packet]
    #[arg(short, long, value_name = "BYTES", conflicts_with = "server", value_parser = values::block)]
    pub length: Option<u32>,
    /// Number of parallel streams
    #[arg(short = 'P', long, value_name = "NUMBER", conflicts_with = "server", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "server"])]
    pub reverse: bool,
    /// Both ends send
    #[arg(long, conflicts_with = "server")]
    pub bidir: bool,
    /// UDP instead of TCP
    #[arg(short, long, conflicts_with = "server")]
    pub udp: bool,
    /// Bit/s of each stream, with K, M, G, T (powers of 1,000), and messages of a burst behind a
    /// slash; 0 is unlimited [default: UDP 1 Mbit/s, TCP 0]
    #[arg(
        short,
        long,
        alias = "bandwidth",
        value_name = "RATE[/BURST]",
        allow_negative_numbers = true,
        conflicts_with = "server",
        value_parser = values::bit_rate
    )]
    pub bitrate: Option<Rate>,
    /// Bit/s at which the kernel paces each stream (SO_MAX_PACING_RATE), with K, M, G, T
    #[arg(long, value_name = "RATE", conflicts_with = "server", value_parser = values::decimal)]
    pub fq_rate: Option<u64>,
    /// No --fq-rate
    #[arg(long, conflicts_with = "server", overrides_with = "fq_rate")]
    pub no_fq_socket_pacing: bool,
    /// Accepted: no timer paces the streams here
    #[arg(long, value_name = "US", conflicts_with = "server", value_parser = values::octets)]
    pub pacing_timer: Option<u64>,
    /// Socket buffers, bytes; 0 leaves them to the kernel
    #[arg(short, long, value_name = "BYTES", conflicts_with = "server", value_parser = values::window)]
    pub window: Option<u32>,
    /// Maximum segment size of TCP, bytes; 0 leaves it to the kernel
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with = "server", value_parser = clap::value_parser!(u32).range(0..=32_767))]
    pub set_mss: Option<u32>,
    /// TCP_NODELAY
    #[arg(short = 'N', long, conflicts_with = "server")]
    pub no_delay: bool,
    /// Congestion control of TCP
    #[arg(
        short = 'C',
        long,
        alias = "linux-congestion",
        value_name = "NAME",
        conflicts_with = "server"
    )]
    pub congestion: Option<String>,
    /// Send with sendfile(2), without a copy
    #[arg(short = 'Z', long, conflicts_with = "server")]
    pub zerocopy: bool,
    /// MPTCP instead of TCP, where the server has it
    #[arg(short = 'm', long, conflicts_with_all = ["server", "udp"])]
    pub mptcp: bool,
    /// Receivers leave the payload in the kernel (MSG_TRUNC)
    #[arg(long, conflicts_with = "server")]
    pub skip_rx_copy: bool,
    /// The kernel segments and coalesces datagrams (UDP_SEGMENT, UDP_GRO)
    #[arg(long, conflicts_with = "server")]
    pub gsro: bool,
    /// Repeated digits as payload, instead of octets that do not compress
    #[arg(long, conflicts_with = "server")]
    pub repeating_payload: bool,
    /// Datagrams of IPv4 are not fragmented
    #[arg(long, conflicts_with = "server")]
    pub dont_fragment: bool,
    /// Type of service of each packet
    #[arg(short = 'S', long, value_name = "NUMBER", conflicts_with = "server", value_parser = values::tos)]
    pub tos: Option<u8>,
    /// The same by its code point: 0 to 63, or a name such as ef, af11, cs1
    #[arg(long, value_name = "DSCP", conflicts_with = "server", overrides_with = "tos", value_parser = values::dscp)]
    pub dscp: Option<u8>,
    /// Flow label of IPv6
    #[arg(short = 'L', long, value_name = "NUMBER", conflicts_with = "server", value_parser = values::flow_label)]
    pub flowlabel: Option<u32>,
    /// Omit the first N whole seconds from the results
    #[arg(short = 'O', long, value_name = "SECONDS", conflicts_with = "server", value_parser = values::omit)]
    pub omit: Option<Seconds>,
    /// Seconds between two reports, 0.1 to 60; 0 for none
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// Unit of rates: k, m, g, t in bits, K, M, G, T in bytes
    #[arg(short, long, value_name = "UNIT", value_parser = values::format)]
    pub format: Option<Format>,
    /// Print one JSON document; a server prints one for each test
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Print one JSON object for each line: start, intervals, end
    #[arg(long, conflicts_with = "server")]
    pub json_stream: bool,
    /// With --json-stream: print the whole document after them, too
    #[arg(long, conflicts_with = "server")]
    pub json_stream_full_output: bool,
    /// Print the server's output, too
    #[arg(long, conflicts_with = "server")]
    pub get_server_output: bool,
    /// Text for the JSON document
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    pub extra_data: Option<String>,
    /// Verbose output
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// Text before each line, and in JSON
    #[arg(short = 'T', long, value_name = "TEXT", conflicts_with = "server")]
    pub title: Option<String>,
    /// Local time before each line outside of -J, in a format of strftime(3) [default: "%c "]
    #[arg(
        long,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "%c "
    )]
    pub timestamps: Option<String>,
    /// Append the output to this file
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// CPU of the client, and behind a comma that of the server
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = values::cpus)]
    pub affinity: Option<(u32, Option<u32>)>,
    /// Local address, and its interface after a %; a server takes only an address
    #[arg(short = 'B', long, value_name = "ADDRESS[%INTERFACE]", value_parser = values::bind)]
    pub bind: Option<Bind>,
    /// Bind to this interface (SO_BINDTODEVICE)
    #[arg(long, value_name = "INTERFACE", conflicts_with = "server")]
    pub bind_dev: Option<String>,
    /// Local port; further streams have the next ones
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub cport: u16,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6")]
    pub version4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub version6: bool,
    /// 64-bit packet counters in datagrams
    #[arg(long, conflicts_with = "server")]
    pub udp_counters_64bit: bool,
    /// Maximum time to connect, milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "server")]
    pub connect_timeout: Option<u32>,
    /// Maximum time that a receiver waits for octets, milliseconds [default: 120000]
    #[arg(long, value_name = "MS", conflicts_with = "server", value_parser = clap::value_parser!(u32).range(100..=86_400_000))]
    pub rcv_timeout: Option<u32>,
    /// Milliseconds that octets may wait for an acknowledgement (TCP_USER_TIMEOUT)
    #[arg(long, value_name = "MS", conflicts_with = "server", value_parser = clap::value_parser!(u32).range(0..=86_400_000))]
    pub snd_timeout: Option<u32>,
    /// Keepalive of the control connection: idle seconds before the first probe, seconds between
    /// probes, number of probes
    #[arg(
        long,
        value_name = "IDLE/INTERVAL/COUNT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "server",
        value_parser = values::keepalive
    )]
    pub cntl_ka: Option<Keepalive>,
    /// Accepted: each line is written at once
    #[arg(long)]
    pub forceflush: bool,
    /// Accepted: there is no output for debugging
    #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4")]
    pub debug: Option<u32>,
    /// Server: maximum bit/s of a test, with K, M, G, T, and the seconds over which the rate is
    /// averaged
    #[arg(long, value_name = "RATE[/SECONDS]", conflicts_with = "client", value_parser = values::limit)]
    pub server_bitrate_limit: Option<(u64, Duration)>,
    /// Server: longest test, seconds; 0 for any
    #[arg(long, value_name = "SECONDS", conflicts_with = "client", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub server_max_duration: Option<u32>,
    /// Server: with --one-off, seconds until it ends without a client
    #[arg(long, value_name = "SECONDS", conflicts_with = "client", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub idle_timeout: Option<u32>,
    /// Server: file of its private key, in PEM form without a password
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "client",
        requires = "authorized_users_path"
    )]
    pub rsa_private_key_path: Option<PathBuf>,
    /// Server: file of the users whom it serves
    #[arg(long, value_name = "FILE", conflicts_with = "client", requires = "rsa_private_key_path")]
    pub authorized_users_path: Option<PathBuf>,
    /// Server: maximum clock skew of a user, seconds [default: 10]
    #[arg(long, value_name = "SECONDS", conflicts_with = "client", requires = "authorized_users_path", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub time_skew_threshold: Option<u32>,
    /// User that the server asks for; its password is in IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key_path", conflicts_with = "server")]
    pub username: Option<String>,
    /// File of the server's public key, in PEM form
    #[arg(long, value_name = "FILE", requires = "username", conflicts_with = "server")]
    pub rsa_public_key_path: Option<PathBuf>,
    /// Pad the name as iperf3 before 3.17, and do not try both ways
    #[arg(long)]
    pub use_pkcs1_padding: bool,
}

/// Options of iperf3 that are not taken.
pub const NOT_TAKEN: [&str; 6] = ["-F", "--file", "-X", "--xbind", "--sctp", "--nstreams"];
