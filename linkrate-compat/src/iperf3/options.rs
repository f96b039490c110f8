//! What the client was asked for.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use linkrate_interop::iperf3::{CounterWidth, Directions, Parameters, Transport};
use linkrate_sys::connect;

use super::units::Format;

/// Bit/s of a UDP stream without `-b`.
const UDP_RATE: u64 = 1 << 20;
/// Octets of a datagram where the path does not say what fits.
const USUAL_DATAGRAM: u32 = 1460;
/// The largest datagram that IPv4 leaves, octets.
const MAX_DATAGRAM: u32 = 65_535 - 8 - 20;
/// How long a connection may take without `--connect-timeout`.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The server, by name or address.
    pub host: String,
    pub port: u16,
    /// Addresses of IPv6 only, or of IPv4 only; `None` takes either.
    pub wants_ipv6: Option<bool>,
    pub transport: Transport,
    /// Which way they flow.
    pub ways: Directions,
    /// Streams each way.
    pub parallel: u32,
    /// Length, s; `None` for ten, or where octets or blocks end the test.
    pub seconds: Option<u32>,
    /// Octets that end it; 0 for none.
    pub bytes: u64,
    /// Messages that end it; 0 for none.
    pub blocks: u64,
    /// Omit the first N seconds from the results.
    pub omit_seconds: u32,
    /// Seconds between two reports; 0 for none.
    pub interval_seconds: f64,
    /// Octets of a message; `None` for iperf3's usual ones.
    pub block: Option<u32>,
    /// Bit/s of each stream, 0 without a bound, and messages of a burst; `None` for iperf3's usual ones.
    pub rate: Option<(u64, u32)>,
    /// Sends out of a file with sendfile(2).
    pub zero_copy: bool,
    /// The CPU that the client runs on.
    pub cpu: Option<u32>,
    /// The CPU that the server runs on.
    pub server_cpu: Option<u32>,
    pub socket: connect::Options,
    pub connect_timeout: Option<Duration>,
    /// Datagrams with numbers of 64 bits.
    pub wide_counters: bool,
    /// The user that the server asks for, and the file of its public key.
    pub user: Option<(String, PathBuf)>,
    /// Names are padded as before iperf 3.17, and in no other way.
    pub pkcs1_padding: bool,
    /// A title, which each line begins with.
    pub title: Option<String>,
    /// The unit of rates.
    pub format: Format,
    /// Says more.
    pub verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: linkrate_interop::iperf3::PORT,
            wants_ipv6: None,
            transport: Transport::Tcp,
            ways: Directions::Forward,
            parallel: 1,
            seconds: None,
            bytes: 0,
            blocks: 0,
            omit_seconds: 0,
            interval_seconds: 1.0,
            block: None,
            rate: None,
            zero_copy: false,
            cpu: None,
            server_cpu: None,
            socket: connect::Options::default(),
            connect_timeout: None,
            wide_counters: false,
            user: None,
            pkcs1_padding: false,
            title: None,
            format: Format::default(),
            verbose: false,
        }
    }
}

/// Options that do not go together, or are out of their range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {found}, expected {expected}")]
pub struct Wrong {
    pub option: &'static str,
    pub found: String,
    pub expected: &'static str,
}

impl Options {
    /// Checks what the server would refuse, and what would mean nothing.
    pub fn check(&self) -> Result<(), Wrong> {
        let is_udp = self.transport == Transport::Udp;
        let ends =
            [self.seconds.is_some_and(|seconds| seconds > 0), self.bytes > 0, self.blocks > 0];
        let least_datagram = self.counters().header_bytes() as u32;
        let block = self.block.unwrap_or(USUAL_DATAGRAM);
        let datagram = (least_datagram..=MAX_DATAGRAM).contains(&block);
        let interval = self.interval_seconds;
        for (is_wrong, option, found, expected) in [
            (
                ends.iter().filter(|end| **end).count() > 1,
                "--time, --bytes and --blockcount",
                "several of them".to_owned(),
                "one end of the test",
            ),
            (
                self.seconds == Some(0) && self.bytes == 0 && self.blocks == 0,
                "--time",
                "0 alone, which has no end".to_owned(),
                "a time, or --bytes or --blockcount",
            ),
            (
                !(interval == 0.0 || (0.1..=60.0).contains(&interval)),
                "--interval",
                interval.to_string(),
                "0, or 0.1 to 60 s",
            ),
            (
                is_udp && !datagram,
                "--length",
                block.to_string(),
                "12 (16 with 64 bits) to 65507 for UDP",
            ),
            (is_udp && self.zero_copy, "--zerocopy", "with --udp".to_owned(), "TCP"),
            (
                is_udp && self.socket.congestion.is_some(),
                "--congestion",
                "with --udp".to_owned(),
                "TCP",
            ),
        ] {
            if is_wrong {
                return Err(Wrong { option, found, expected });
            }
        }
        Ok(())
    }

    fn counters(&self) -> CounterWidth {
        if self.wide_counters { CounterWidth::Wide } else { CounterWidth::Narrow }
    }

    /// How long a connection may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(TIMEOUT)
    }

    /// The address of this end, without the port that streams alone have.
    #[must_use]
    pub fn from(&self) -> Option<IpAddr> {
        self.socket.from
    }

    /// What the server is asked for over a control connection with a maximum segment of `mss` octets: a datagram
    /// without `-l` fits a packet.
    #[must_use]
    pub fn parameters(&self, mss: Option<u32>) -> Parameters {
        let is_udp = self.transport == Transport::Udp;
        let usual = Parameters::default();
        let fits = mss.filter(|mss| (1..=MAX_DATAGRAM).contains(mss)).unwrap_or(USUAL_DATAGRAM);
        let (bandwidth, burst) = self.rate.unwrap_or((if is_udp { UDP_RATE } else { 0 }, 1));
        let has_end = self.bytes > 0 || self.blocks > 0;
        Parameters {
            transport: self.transport,
            seconds: if has_end { 0 } else { self.seconds.unwrap_or(usual.seconds) },
            omit_seconds: self.omit_seconds,
            bytes: self.bytes,
            blocks: self.blocks,
            parallel: self.parallel,
            ways: self.ways,
            window: self.socket.buffers.map(|octets| octets as u32),
            block: self.block.unwrap_or(if is_udp { fits } else { usual.block }),
            bandwidth,
            pacing_rate: 0,
            burst,
            zero_copy: self.zero_copy,
            mss: self.socket.mss,
            nodelay: self.socket.nodelay,
            congestion: self.socket.congestion.clone(),
            tos: self.socket.tos,
            server_cpu: self.server_cpu,
            counters: self.counters(),
            wants_server_output: false,
            title: self.title.clone(),
            authentication: None,
            client_version: Some("3.12".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_values_are_those_of_iperf3() {
        let tcp = Options::default().parameters(Some(32_768));
        assert_eq!((tcp.seconds, tcp.block, tcp.bandwidth), (10, 131_072, 0));
        let udp = Options { transport: Transport::Udp, ..Options::default() };
        let asked = udp.parameters(Some(1448));
        assert_eq!((asked.block, asked.bandwidth), (1448, 1_048_576));
        assert_eq!(udp.parameters(None).block, 1460);
        let bytes = Options { bytes: 5, ..Options::default() }.parameters(None);
        assert_eq!((bytes.seconds, bytes.bytes), (0, 5));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let usual = Options::default();
        let udp = Options { transport: Transport::Udp, ..usual.clone() };
        assert_eq!(usual.check(), Ok(()));
        for (wrong, option) in [
            (
                Options { seconds: Some(2), bytes: 1, ..usual.clone() },
                "--time, --bytes and --blockcount",
            ),
            (Options { seconds: Some(0), ..usual.clone() }, "--time"),
            (Options { interval_seconds: 0.05, ..usual.clone() }, "--interval"),
            (Options { interval_seconds: f64::NAN, ..usual.clone() }, "--interval"),
            (Options { block: Some(11), ..udp.clone() }, "--length"),
            (Options { block: Some(12), wide_counters: true, ..udp.clone() }, "--length"),
            (Options { zero_copy: true, ..udp.clone() }, "--zerocopy"),
        ] {
            assert_eq!(wrong.check().map_err(|wrong| wrong.option), Err(option));
        }
    }
}
