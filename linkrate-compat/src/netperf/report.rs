//! What a test has shown, and the units that it is told in.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;

use hdrhistogram::Histogram;
use linkrate_interop::netperf::{OmniResponse, OmniResults, Shape};
use linkrate_sys::tcp_info::TcpInfo;

use super::options::Options;
use crate::cpu::HostCpuUse;

#[derive(Debug, Clone)]
pub(super) struct Report {
    /// The address of the server that the data connection went to.
    pub(super) data: IpAddr,
    pub(super) tally: Tally,
    pub(super) response: OmniResponse,
    pub(super) results: OmniResults,
    pub(super) cpu: Option<HostCpuUse>,
    /// Tests, and the full width of the interval of their throughput as a part of its mean.
    pub(super) tests: u32,
    pub(super) width: Option<f64>,
    /// The mean of all tests; units/s.
    pub(super) rate: f64,
}

impl Report {
    /// Octets of a stream that its receiver has, or transactions or their octets both ways, in a second.
    pub(super) fn rate_of(options: &Options, tally: &Tally, results: &OmniResults) -> f64 {
        let units = match options.test.shape {
            Shape::Stream => results.received_bytes,
            Shape::Maerts => tally.received_bytes,
            _ if Unit::of(options).is_transactions() => tally.transactions,
            // as far as the server has them
            _ => results.received_bytes.saturating_add(results.sent_bytes),
        };
        if tally.seconds > 0.0 { units as f64 / tally.seconds } else { 0.0 }
    }
}

/// What a test has moved here.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) send_calls: u64,
    pub(super) receive_calls: u64,
    pub(super) failed_calls: u64,
    pub(super) transactions: u64,
    pub(super) seconds: f64,
    /// Part of it in which the next interval was waited for.
    pub(super) paused_seconds: f64,
    /// This end of the data connection; of several, of the last one.
    pub(super) local: Option<SocketAddr>,
    /// Times of transactions, or of the calls of a stream, ns.
    pub(super) latencies: Option<Histogram<u64>>,
    /// SO_SNDBUF and SO_RCVBUF at the beginning, and at the end.
    pub(super) buffers: [(u64, u64); 2],
    /// Octets of a send call and of a receive call.
    pub(super) calls: [u32; 2],
    /// The buffers of each, used in turn.
    pub(super) widths: [usize; 2],
    pub(super) info: Option<TcpInfo>,
    pub(super) congestion: Option<String>,
}

/// What has been carried, for whoever looks while the test lasts: octets, or transactions.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) units: AtomicU64,
}

/// A unit of throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    letter: char,
}

impl Unit {
    /// Of these options: what the letter says, or 10^6 bit of streams and transactions of others.
    pub(super) fn of(options: &Options) -> Self {
        let letter = match options.test.shape {
            Shape::Stream | Shape::Maerts => {
                options.unit.filter(|letter| *letter != 'x').unwrap_or('m')
            }
            _ => options.unit.unwrap_or('x'),
        };
        Self { letter }
    }

    /// Of these options for octets: that of transactions is none.
    pub(super) fn of_octets(options: &Options) -> Self {
        let unit = Self::of(options);
        if unit.is_transactions() { Self { letter: 'm' } } else { unit }
    }

    pub(super) fn is_transactions(self) -> bool {
        self.letter == 'x'
    }

    /// A rate of octets, or of transactions, in this unit.
    pub(super) fn convert(self, rate: f64) -> f64 {
        match self.letter {
            'k' => rate * 8.0 / 1e3,
            'm' => rate * 8.0 / 1e6,
            'g' => rate * 8.0 / 1e9,
            'K' => rate / 1024.0,
            'M' => rate / 1024.0 / 1024.0,
            'G' => rate / 1024.0 / 1024.0 / 1024.0,
            _ => rate,
        }
    }

    /// Without its time.
    pub(super) fn name(self) -> &'static str {
        match self.letter {
            'k' => "10^3bits",
            'm' => "10^6bits",
            'g' => "10^9bits",
            'K' => "KBytes",
            'M' => "MBytes",
            'G' => "GBytes",
            _ => "Trans",
        }
    }

    /// In results of selectors and of intervals.
    pub(super) fn interim_name(self) -> String {
        format!("{}/s", self.name())
    }

    /// In headings of classic lines without CPU.
    pub(super) fn heading(self) -> String {
        format!("{}ec", self.interim_name())
    }
}
