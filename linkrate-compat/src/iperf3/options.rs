//! What the client was asked for.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use linkrate_interop::iperf3::{CounterWidth, Directions, Parameters, Transport};
use linkrate_sys::connect;

use super::units::Format;

/// Bit/s of a UDP stream without `-b`.
const UDP_RATE: u64 = 1 << 20;
/// The smallest datagram, octets, which servers since 3.21 do not go below: times and a number of 64 bits.
const MIN_DATAGRAM: u32 = 16;
/// Octets of a datagram where the path does not say what fits.
const USUAL_DATAGRAM: u32 = 1460;
/// The largest datagram that IPv4 leaves, octets.
const MAX_DATAGRAM: u32 = 65_535 - 8 - 20;
/// How long a connection may take without `--connect-timeout`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a receiver waits for octets without `--rcv-timeout`.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(120);

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
    /// Length, s; 0 until the user ends it; `None` for ten, or where octets or blocks end the test.
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
    /// Keepalive of the control connection.
    pub keepalive: Option<connect::Keepalive>,
    pub connect_timeout: Option<Duration>,
    /// How long a receiver waits for octets before the test fails.
    pub receive_timeout: Option<Duration>,
    /// Payload is digits again and again.
    pub repeating: bool,
    /// Receivers leave the payload in the kernel; over TCP.
    pub discards: bool,
    /// The kernel cuts and merges datagrams.
    pub segments: bool,
    /// Asks the server for its output.
    pub wants_server_output: bool,
    /// What stands in the document as it is.
    pub extra_data: Option<String>,
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
            keepalive: None,
            connect_timeout: None,
            receive_timeout: None,
            repeating: false,
            discards: false,
            segments: false,
            wants_server_output: false,
            extra_data: None,
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

/// Checks the time between two reports, s.
pub fn check_interval(seconds: f64) -> Result<(), Wrong> {
    match seconds == 0.0 || (0.1..=60.0).contains(&seconds) {
        true => Ok(()),
        false => Err(Wrong {
            option: "--interval",
            found: seconds.to_string(),
            expected: "0, or 0.1 to 60 s",
        }),
    }
}

impl Options {
    /// Checks what the server would refuse, and what would mean nothing.
    pub fn check(&self) -> Result<(), Wrong> {
        let is_udp = self.transport == Transport::Udp;
        let ends = [self.seconds.is_some(), self.bytes > 0, self.blocks > 0];
        let block = self.block.unwrap_or(USUAL_DATAGRAM);
        let datagram = (MIN_DATAGRAM..=MAX_DATAGRAM).contains(&block);
        check_interval(self.interval_seconds)?;
        for (is_wrong, option, found, expected) in [
            (
                ends.iter().filter(|end| **end).count() > 1,
                "--time, --bytes and --blockcount",
                "several of them".to_owned(),
                "one end of the test",
            ),
            (is_udp && !datagram, "--length", block.to_string(), "16 to 65507 for UDP"),
            (is_udp && self.discards, "--skip-rx-copy", "with --udp".to_owned(), "TCP"),
            (is_udp && self.socket.multipath, "--mptcp", "with --udp".to_owned(), "TCP"),
            (
                self.receive_timeout.is_some() && self.ways == Directions::Forward,
                "--rcv-timeout",
                "for a client that only sends".to_owned(),
                "--reverse or --bidir",
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

    /// How long a receiver waits for octets.
    #[must_use]
    pub fn receive_timeout(&self) -> Duration {
        self.receive_timeout.unwrap_or(RECEIVE_TIMEOUT)
    }

    /// The address of this end, without the port that streams alone have.
    #[must_use]
    pub fn from(&self) -> Option<IpAddr> {
        self.socket.from
    }

    /// What the control connection has of the options of the streams, and its own.
    #[must_use]
    pub fn of_control(&self) -> connect::Options {
        connect::Options {
            from: self.socket.from,
            device: self.socket.device.clone(),
            user_timeout: self.socket.user_timeout,
            keepalive: self.keepalive,
            ..connect::Options::default()
        }
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
            pacing_rate: self.socket.pacing_rate.unwrap_or(0).saturating_mul(8),
            burst,
            zero_copy: self.zero_copy,
            mss: self.socket.mss,
            nodelay: self.socket.nodelay,
            congestion: self.socket.congestion.clone(),
            tos: self.socket.tos,
            server_cpu: self.server_cpu,
            counters: self.counters(),
            dont_fragment: self.socket.dont_fragment,
            flow_label: self.socket.flow_label,
            repeating: self.repeating,
            discards: self.discards,
            segments: is_udp && self.segments,
            merges: is_udp && self.segments,
            multipath: self.socket.multipath,
            wants_server_output: self.wants_server_output,
            title: self.title.clone(),
            extra_data: self.extra_data.clone(),
            authentication: None,
            client_version: Some(super::VERSION.to_owned()),
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
        let endless = Options { seconds: Some(0), ..Options::default() };
        assert_eq!(endless.check(), Ok(()));
        assert!(endless.parameters(None).is_endless());
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
            (
                Options { seconds: Some(0), bytes: 1, ..usual.clone() },
                "--time, --bytes and --blockcount",
            ),
            (Options { interval_seconds: 0.05, ..usual.clone() }, "--interval"),
            (Options { interval_seconds: f64::NAN, ..usual.clone() }, "--interval"),
            (Options { block: Some(15), ..udp.clone() }, "--length"),
            (Options { discards: true, ..udp.clone() }, "--skip-rx-copy"),
            (Options { receive_timeout: Some(TIMEOUT), ..usual.clone() }, "--rcv-timeout"),
        ] {
            assert_eq!(wrong.check().map_err(|wrong| wrong.option), Err(option));
        }
    }
}
