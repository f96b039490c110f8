//! What options choose among.

use std::fmt;

use linkrate_interop::netperf::Shape;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub shape: Shape,
    /// In datagrams.
    pub udp: bool,
    /// Out of a file by sendfile(2).
    pub sends_files: bool,
    /// Named `OMNI`: its results are those of selectors.
    pub omni: bool,
}

/// Options that print and exit (`-h`, `-V`, `-O ?`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The maximum segment size of a connection to the server (`TCP_MSS`).
    Mss,
    /// How fast the meter of the CPUs counts, here (`LOC_CPU`) or there (`REM_CPU`). Scripts give it back with `-c` and
    /// `-C`.
    CpuRate {
        /// At the peer.
        far: bool,
    },
    /// The version of the client (`-V`).
    Version,
    /// The options (`-h`).
    Help,
    /// A name of the test (`UUID`).
    Uuid,
}

/// What the options of `OMNI` say about the direction of its payload.
#[derive(Debug, Default)]
pub(super) struct Direction {
    pub(super) named: Option<Shape>,
    /// This end sends, or receives, because of a size that is named.
    pub(super) sends: bool,
    pub(super) receives: bool,
    /// A connection for each transaction.
    pub(super) connects: bool,
}

impl Direction {
    /// What flows in this test, which has its own shape where nothing is said; `None` where it cannot be.
    pub(super) fn shape(&self, test: Test) -> Option<Shape> {
        let shape = match (self.named, self.sends, self.receives) {
            (Some(shape), ..) => shape,
            (None, true, true) => Shape::RequestResponse,
            (None, false, true) => Shape::Maerts,
            (None, true, false) => Shape::Stream,
            (None, false, false) if test.omni && self.connects => Shape::Connect,
            (None, false, false) => test.shape,
        };
        match shape {
            shape if !self.connects => Some(shape),
            Shape::RequestResponse => Some(Shape::ConnectRequestResponse),
            Shape::Stream | Shape::Maerts => None,
            shape => Some(shape),
        }
    }
}

/// How long a test lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Seconds(u32),
    /// Octets of a stream, or transactions.
    Units(u64),
}

/// Which results are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// Those that netperf prints where none is named.
    Usual,
    All,
    /// Those with these names, in capitals.
    Named(Vec<String>),
}

/// What is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The classic lines.
    Classic,
    /// `NAME=VALUE` (`-k`).
    Pairs(Names),
    /// Names and values with commas (`-o`).
    Commas(Names),
    /// Columns (`-O`).
    Columns(Names),
}

impl Output {
    /// Whether the time of single calls is among the results.
    pub(super) fn names_latencies(&self) -> bool {
        let (Self::Pairs(names) | Self::Commas(names) | Self::Columns(names)) = self else {
            return false;
        };
        match names {
            Names::Usual => false,
            Names::All => true,
            Names::Named(names) => {
                names.iter().any(|name| name.ends_with("_LATENCY") && name != "RT_LATENCY")
            }
        }
    }
}

/// Tests until the interval is narrow enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// 0.95 or 0.99.
    pub level: f64,
    /// Full width of the interval, as a part of the mean.
    pub width: f64,
    /// Most tests.
    pub most: u32,
    /// Fewest tests.
    pub least: u32,
}

impl Confidence {
    /// As netperf has it.
    pub(super) const USUAL: Self = Self { level: 0.99, width: 0.05, most: 10, least: 3 };
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+/-{:.3}% @ {:.0}% conf. ", self.width * 50.0, self.level * 100.0)
    }
}
