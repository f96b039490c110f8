//! The options of netperf: those of all tests, and behind `--` those of one.

use std::time::Duration;

use linkrate_interop::netperf::{Intervals, PORT, Placement, Shape};
use linkrate_model::Family;

use kinds::Direction;
pub use kinds::{Confidence, Length, Names, Output, Question, Test};
use value::{Value, types_of_service};

mod kinds;
mod value;

/// Options of all tests that take a value.
pub(super) const WITH_VALUE: &str = "aAbBDfFHiIkKlLnoOpPstTvwWyYZ";
/// Options of all tests that take none.
pub(super) const WITHOUT_VALUE: &str = "cCdhjrSV46";
/// Options of a test that take a value.
pub(super) const TEST_WITH_VALUE: &str = "bdeGHijKLmMPqrRsStTuwW";
/// Options of a test that take none.
pub(super) const TEST_WITHOUT_VALUE: &str = "aBcCDghInNUV46";
/// Options of a test that name results, or none for the usual ones.
pub(super) const SELECTORS: &str = "koO";

/// Maximum duration of a test, seconds, and most requests that are outstanding.
const MAX_QUANTITY: u32 = 86_400;
/// Most octets of a passphrase: what a message has room for.
const MAX_PASSPHRASE: usize = 647;
/// Most octets of a call.
const MAX_CALL: u32 = 64 << 20;
/// Most buffers of a direction.
const MAX_WIDTH: u32 = 1 << 20;
const WIDTH: &str = "a number of buffers up to 1048576";
/// Where the options of one test are.
const BEHIND: &str = " behind --";
/// Options that change the figure and are not done here.
const UNSUPPORTED: [(&str, char, &str); 5] = [
    ("", 'N', "without a netserver nothing says what has arrived"),
    (BEHIND, 'f', "packets are fragmented as the kernel has it"),
    (BEHIND, 'F', "connections are made without TCP fast open"),
    (BEHIND, 'l', "there is no multicast"),
    (BEHIND, 'p', "the kernel chooses the ports of connections"),
];

/// 0 is netperf's word for its own choice.
fn some_positive(number: Option<u32>) -> Option<u32> {
    number.filter(|number| *number > 0)
}

/// An option is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// It is not taken here.
    #[error("unsupported option -{option}{place}; expected one of {expected}")]
    Unknown {
        option: char,
        /// Behind `--`, or nothing.
        place: &'static str,
        /// Those that are.
        expected: String,
    },
    /// It has no value, or a wrong one.
    #[error("option -{option} is {found:?}, expected {expected}")]
    Value { option: char, found: String, expected: &'static str },
    /// It changes the figure, and is not done here.
    #[error("option -{option}{place} is not supported: {reason}")]
    Unsupported { option: char, place: &'static str, reason: &'static str },
    /// Something that is no option.
    #[error("{0:?} is not an option")]
    Stray(String),
}

/// What a client is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The host of the server.
    pub host: String,
    /// The family of its control connection; `None` for IPv4 where it has an address of that.
    pub family: Option<Family>,
    /// How long to wait before the payload begins.
    pub wait: Duration,
    /// What is printed behind results that have no headings.
    pub brand: Option<String>,
    /// The port of its control connections.
    pub port: u16,
    pub test: Test,
    /// What is asked instead of a test.
    pub question: Option<Question>,
    pub length: Length,
    /// Whether to measure local (-c) and remote (-C) CPU utilization.
    pub cpu: [bool; 2],
    /// Whether to print headings.
    pub banner: bool,
    /// 0: one number; 1: lines; 2: more.
    pub verbosity: u32,
    /// The letter of the unit of throughput; `None` for the usual one.
    pub unit: Option<char>,
    /// Time between results while a test lasts.
    pub interim: Option<Duration>,
    /// Tests until the interval is narrow enough.
    pub confidence: Option<Confidence>,
    /// The CPUs of both programs.
    pub on_cpu: [Option<u32>; 2],
    /// Socket buffers of both ends, octets: send and receive of each.
    pub buffers: [[Option<u32>; 2]; 2],
    /// Octets of the calls of a stream, of both ends: send and receive of each.
    pub message: [[Option<u32>; 2]; 2],
    /// Octets of a request and of a response, where the test has them.
    pub transaction: [u32; 2],
    pub nodelay: bool,
    /// Requests that are outstanding beside the first.
    pub burst: u32,
    /// Congestion control of both ends.
    pub congestion: [Option<String>; 2],
    /// Type of service of the packets of both ends.
    pub tos: [Option<u8>; 2],
    /// SO_PRIORITY of both ends.
    pub priority: [Option<u32>; 2],
    /// Bound of the segments of this end, octets.
    pub mss: Option<u32>,
    /// Bound of the rate of this end by the kernel, bytes/s.
    pub pacing_rate: Option<u32>,
    /// TCP_CORK.
    pub cork: bool,
    /// Buffers of sends and of receives.
    pub width: [Option<u32>; 2],
    /// Where they begin, at both ends.
    pub placement: [[Placement; 2]; 2],
    /// Files that they are filled from, at both ends.
    pub fill: [Option<String>; 2],
    /// Whether a connection that fails is made again.
    pub retries: bool,
    /// A name of the test.
    pub uuid: Option<String>,
    /// Whether packets of the test may go by a router, where it is told.
    pub routed: Option<bool>,
    /// The host or address of the server that the data connection goes to; `None` for that of the control connection.
    pub data_host: Option<String>,
    /// The family of the data connection; `None` for that of the control connection.
    pub data_family: Option<Family>,
    /// The passphrase that the server waits for.
    pub passphrase: Option<String>,
    /// Calls of both ends in each interval; `None` for as many as can be.
    pub bursts: [Option<u32>; 2],
    /// The intervals of both ends; `None` for 1 ms.
    pub intervals: [Option<Duration>; 2],
    /// The host or address of this end of the control connection, which the data connection has too.
    pub control_local: Option<String>,
    /// The host or address of this end of the data connection.
    pub local: Option<String>,
    /// How long a transaction of datagrams may take before another one takes its place.
    pub socket_timeout: Option<Duration>,
    /// Ports of the data connection here and there; 0 for any.
    pub data_ports: [u16; 2],
    /// Whether latencies are results.
    pub latencies: bool,
    pub output: Output,
    /// Options that were taken and change nothing, and words behind `--` that are none.
    pub without_effect: Vec<String>,
    /// The words as they were given.
    pub command_line: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            family: None,
            wait: Duration::ZERO,
            brand: None,
            port: PORT,
            test: Test { shape: Shape::Stream, udp: false, sends_files: false, omni: false },
            question: None,
            length: Length::Seconds(10),
            cpu: [false; 2],
            banner: true,
            verbosity: 1,
            unit: None,
            interim: None,
            confidence: None,
            on_cpu: [None; 2],
            buffers: [[None; 2]; 2],
            message: [[None; 2]; 2],
            transaction: [1; 2],
            nodelay: false,
            burst: 0,
            congestion: [None, None],
            tos: [None; 2],
            priority: [None; 2],
            mss: None,
            pacing_rate: None,
            cork: false,
            width: [None; 2],
            placement: [[Placement::default(); 2]; 2],
            fill: [None, None],
            retries: false,
            uuid: None,
            routed: None,
            data_host: None,
            data_family: None,
            passphrase: None,
            bursts: [None; 2],
            intervals: [None; 2],
            control_local: None,
            local: None,
            socket_timeout: None,
            data_ports: [0; 2],
            latencies: false,
            output: Output::Classic,
            without_effect: Vec::new(),
            command_line: String::new(),
        }
    }
}

/// One letter and its value.
type Given = (char, Option<String>);

/// Takes options apart as getopt(3) does. Options that are in neither list may have a value behind them where they are
/// those of `selectors`. Behind `--` words that are no options are returned apart: netperf passes over them, and
/// k8s-netperf gives one.
fn split_options(
    words: &[String],
    with: &str,
    without: &str,
    selectors: &str,
    place: &'static str,
) -> Result<(Vec<Given>, Vec<String>), OptionsError> {
    let (mut given, mut strays) = (Vec::new(), Vec::new());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        // scripts give the rate of the CPU behind -c and -C, which nothing needs
        let follows = matches!(given.last(), Some(('c' | 'C', None)));
        if follows && word.parse::<f64>().is_ok_and(|rate| rate >= 0.0) {
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            if place != BEHIND {
                // such as a host without its -H
                return Err(OptionsError::Stray(word.clone()));
            }
            strays.push(word.clone());
            continue;
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            if selectors.contains(letter) {
                let rest = letters.as_str();
                let value = match rest.is_empty() {
                    false => Some(rest.to_owned()),
                    true => words.next_if(|next| !next.starts_with('-')).cloned(),
                };
                given.push((letter, value));
                break;
            }
            if without.contains(letter) {
                given.push((letter, None));
                continue;
            }
            if !with.contains(letter) {
                let of = |known: &&(&str, char, &str)| (known.0, known.1) == (place, letter);
                if let Some((_, option, reason)) = UNSUPPORTED.iter().find(of) {
                    return Err(OptionsError::Unsupported { option: *option, place, reason });
                }
                let mut expected: Vec<String> = without
                    .chars()
                    .chain(with.chars())
                    .map(|letter| format!("-{letter}"))
                    .collect();
                expected.sort();
                let expected = expected.join(" ");
                return Err(OptionsError::Unknown { option: letter, place, expected });
            }
            let rest = letters.as_str();
            let value = match rest.is_empty() {
                false => rest.to_owned(),
                true => words.next().cloned().ok_or(OptionsError::Value {
                    option: letter,
                    found: String::new(),
                    expected: "a value",
                })?,
            };
            given.push((letter, Some(value)));
            break;
        }
    }
    Ok((given, strays))
}

impl Options {
    /// Octets of a request and of a response; none in streams, and where connections are all that is counted.
    pub(super) fn sizes(&self) -> [u32; 2] {
        match self.test.shape {
            Shape::Stream | Shape::Maerts | Shape::Connect => [0; 2],
            Shape::RequestResponse | Shape::ConnectRequestResponse => self.transaction,
        }
    }

    /// Whether packets of the test may go by a router.
    pub(super) fn may_be_routed(&self) -> bool {
        self.routed.unwrap_or_else(|| self.test.shape.may_be_routed(self.test.udp))
    }

    /// The bound of the calls of this end (0) or the server's (1).
    pub(super) fn intervals_of(&self, end: usize) -> Option<Intervals> {
        let length = self.intervals[end].unwrap_or(Duration::from_millis(1));
        self.bursts[end].map(|calls| Intervals { calls, length })
    }

    /// Whether the time of each call, or of each transaction, is a result.
    pub(super) fn keeps_latencies(&self) -> bool {
        let transacts = !matches!(self.test.shape, Shape::Stream | Shape::Maerts);
        transacts || self.latencies || self.verbosity > 1 || self.output.names_latencies()
    }

    /// Reads the words behind the name of the program.
    pub fn parse(words: &[String]) -> Result<Self, OptionsError> {
        let mut options = Self { command_line: words.join(" "), ..Self::default() };
        let (global, own) = match words.iter().position(|word| word == "--") {
            Some(at) => (&words[..at], &words[at + 1..]),
            None => (words, &[][..]),
        };
        for (letter, value) in split_options(global, WITH_VALUE, WITHOUT_VALUE, "", "")?.0 {
            options.take(letter, value.as_deref().unwrap_or_default())?;
        }
        let (own, strays) =
            split_options(own, TEST_WITH_VALUE, TEST_WITHOUT_VALUE, SELECTORS, BEHIND)?;
        options.without_effect.extend(strays);
        let mut direction = Direction::default();
        for (letter, value) in own {
            options.take_own(letter, value.as_deref(), &mut direction)?;
        }
        options.test.shape = match direction.shape(options.test) {
            Some(shape) => shape,
            None => return Value('c', "").wrong("a test of transactions"),
        };
        if options.bursts[0].is_some() && options.test.shape == Shape::Maerts {
            return Value('b', "").wrong("a test in which this end sends");
        }
        for end in [0, 1] {
            if options.intervals[end].is_some() && options.bursts[end].is_none() {
                options.without_effect.push("-w".to_owned());
            }
        }
        if options.host == "localhost" && options.family == Some(Family::Ipv6) {
            // the name may be one of IPv4 alone
            "::1".clone_into(&mut options.host);
        }
        if options.test.omni && options.output == Output::Classic {
            options.output = Output::Columns(Names::Usual);
        }
        Ok(options)
    }

    fn take(&mut self, letter: char, text: &str) -> Result<(), OptionsError> {
        let value = Value(letter, text);
        match letter {
            'H' => {
                let (host, family) = value.host()?;
                self.host = host.unwrap_or_else(|| std::mem::take(&mut self.host));
                self.family = family.or(self.family);
            }
            'p' => {
                let port = value.halves()[0];
                self.port = match port.parse() {
                    Ok(port) if port > 0 => port,
                    _ => return value.wrong("a TCP port"),
                };
            }
            't' => {
                self.question = value.question();
                if self.question.is_none() {
                    self.test = value.test()?;
                }
            }
            'l' => self.length = value.length()?,
            'c' => self.cpu[0] = true,
            'C' => self.cpu[1] = true,
            'P' => self.banner = value.whole(0, 1, "0 or 1")? == 1,
            'v' => self.verbosity = value.whole(0, 9, "a number from 0 to 9")?,
            'f' => match text.chars().next() {
                Some(unit) if "kmgKMGx".contains(unit) => self.unit = Some(unit),
                _ => return value.wrong("one of k, m, g, K, M, G and x"),
            },
            'D' => self.interim = Some(value.seconds()?),
            'I' => self.width(&value)?,
            'i' => self.iterations(&value)?,
            'T' => {
                self.on_cpu =
                    value.numbers(u32::MAX, "the number of a CPU, or two with a comma")?;
            }
            'Y' => self.tos = types_of_service(&value)?,
            'y' => {
                self.priority =
                    value.numbers(1 << 30, "a priority of packets, or two with a comma")?;
            }
            'L' => self.control_local = value.host()?.0,
            's' => {
                let seconds = value.whole(0, MAX_QUANTITY, "seconds up to 86400")?;
                self.wait = Duration::from_secs(seconds.into());
            }
            'B' => self.brand = Some(text.to_owned()),
            'F' => self.fill = value.files()?,
            'W' => self.width = value.numbers(MAX_WIDTH, WIDTH)?.map(some_positive),
            'a' | 'A' => {
                let end = usize::from(letter == 'A');
                value.place(&mut self.placement[end], |place, to| (to, place.offset))?;
            }
            'o' | 'O' => {
                let end = usize::from(letter == 'O');
                value.place(&mut self.placement[end], |place, offset| (place.alignment, offset))?;
            }
            'j' => self.latencies = true,
            'V' => self.question = Some(Question::Version),
            'h' => self.question = Some(Question::Help),
            'Z' if text.is_empty() || text.len() > MAX_PASSPHRASE => {
                return value.wrong("a passphrase of 1 to 647 octets");
            }
            'Z' => self.passphrase = Some(text.to_owned()),
            'b' => self.bursts = value.bursts()?,
            'w' => self.intervals = value.intervals()?,
            '6' => self.family = Some(Family::Ipv6),
            '4' => self.family = Some(Family::Ipv4),
            'd' => {}
            // counts of CPUs, keepalive, and octets that are touched where netperf is built so: no package is
            _ => self.without_effect.push(format!("-{letter}")),
        }
        Ok(())
    }

    fn take_own(
        &mut self,
        letter: char,
        given: Option<&str>,
        direction: &mut Direction,
    ) -> Result<(), OptionsError> {
        let text = given.unwrap_or_default();
        let value = Value(letter, text);
        match letter {
            's' => self.buffers[0] = value.sizes(u32::MAX)?,
            'S' => self.buffers[1] = value.sizes(u32::MAX)?,
            'm' | 'M' => {
                let [first, second] = value.split_sizes(MAX_CALL)?;
                let end = usize::from(letter == 'M');
                // the calls that send are first, those of the sender's peer second
                self.message[end][end] = first.or(self.message[end][end]);
                self.message[1 - end][end] = second.or(self.message[1 - end][end]);
                if self.test.omni {
                    direction.sends |= first.is_some();
                    direction.receives |= second.is_some();
                }
            }
            'H' => {
                let (host, family) = value.host()?;
                self.data_host = host.or(self.data_host.take());
                self.data_family = family.or(self.data_family);
            }
            'r' => {
                let sizes = value.sizes(MAX_CALL)?;
                self.transaction = sizes.map(|size| size.unwrap_or(1));
                if self.test.omni {
                    (direction.sends, direction.receives) = (true, true);
                }
            }
            'D' => self.nodelay = true,
            'C' => self.cork = true,
            'U' => self.retries = true,
            'u' => self.uuid = Some(text.to_owned()),
            'G' => self.mss = Some(value.whole(1, 65_535, "octets of a segment up to 65535")?),
            'q' => {
                let rate = value.whole(0, u32::MAX, "bytes/s up to 4294967295")?;
                self.pacing_rate = some_positive(Some(rate));
            }
            'W' => {
                let width = value.whole(0, MAX_WIDTH, WIDTH)?;
                self.width[0] = some_positive(Some(width));
            }
            'L' => self.local = value.host()?.0,
            'R' => {
                let allowed = value.whole(0, 1, "0 or 1: whether packets may go by a router")?;
                self.routed = Some(allowed == 1);
            }
            'e' => {
                let seconds = value.whole(1, 3600, "seconds from 1 to 3600")?;
                self.socket_timeout = Some(Duration::from_secs(seconds.into()));
            }
            'b' => self.burst = value.whole(0, MAX_QUANTITY, "a number of requests up to 86400")?,
            'K' => {
                self.congestion = value
                    .halves()
                    .map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()));
            }
            'P' => {
                for (port, text) in self.data_ports.iter_mut().zip(value.halves()) {
                    *port = match text {
                        "" => 0,
                        text => match text.parse() {
                            Ok(port) => port,
                            Err(_) => return value.wrong("a port, or two with a comma"),
                        },
                    };
                }
            }
            'T' => {
                self.test.udp = match text.to_ascii_lowercase().as_str() {
                    "tcp" => false,
                    "udp" => true,
                    _ => return value.wrong("tcp or udp"),
                };
            }
            'd' => {
                let (named, connects) = match text.to_ascii_lowercase().as_str() {
                    "send" | "xmit" | "stream" | "transmit" | "2" => (Shape::Stream, false),
                    "recv" | "receive" | "maerts" | "4" => (Shape::Maerts, false),
                    "rr" | "6" => (Shape::RequestResponse, false),
                    // PerfKitBenchmarker's word: netperf does not know it, and sends a stream
                    "crr" => (Shape::RequestResponse, true),
                    _ => return value.wrong("send, recv, rr or crr"),
                };
                // other tests have their direction
                if self.test.omni {
                    direction.named = Some(named);
                    direction.connects |= connects;
                }
            }
            'c' => direction.connects = true,
            'k' | 'o' | 'O' => self.select(letter, given)?,
            'h' => self.question = Some(Question::Help),
            '6' => self.data_family = Some(Family::Ipv6),
            '4' => self.data_family = Some(Family::Ipv4),
            _ => self.without_effect.push(format!("-{letter}")),
        }
        Ok(())
    }

    fn width(&mut self, value: &Value<'_>) -> Result<(), OptionsError> {
        const EXPECTED: &str =
            "95 or 99, and the full width of the interval in per cent with a comma";
        let (level, width) = match value.1.split_once(',') {
            Some((level, width)) => (level, width.parse().ok()),
            None => (value.1, Some(5.0)),
        };
        let level = match level {
            "95" => 0.95,
            "99" => 0.99,
            _ => return value.wrong(EXPECTED),
        };
        match width {
            Some(width) if width > 0.0 && width < 1000.0 => {
                let before = self.confidence.unwrap_or(Confidence::USUAL);
                self.confidence = Some(Confidence { level, width: width / 100.0, ..before });
                Ok(())
            }
            _ => value.wrong(EXPECTED),
        }
    }

    /// `most,fewest`, where one value is both; from 3 to 30 tests, and never fewer than the fewest, as in netperf.
    fn iterations(&mut self, value: &Value<'_>) -> Result<(), OptionsError> {
        let before = self.confidence.unwrap_or(Confidence::USUAL);
        let tests = value
            .numbers(u32::MAX, "the maximum number of tests, and after a comma the minimum")?;
        let [most, least] = tests.map(|tests| tests.unwrap_or(1));
        let [most, least] = [most.max(least), least].map(|tests| tests.clamp(3, 30));
        self.confidence = Some(Confidence { most, least, ..before });
        Ok(())
    }

    fn select(&mut self, letter: char, names: Option<&str>) -> Result<(), OptionsError> {
        let names = match names {
            None => Names::Usual,
            Some(all) if all.trim().eq_ignore_ascii_case("all") => Names::All,
            Some(names) => {
                Names::Named(names.split(',').map(|name| name.trim().to_uppercase()).collect())
            }
        };
        self.output = match letter {
            'k' => Output::Pairs(names),
            'o' => Output::Commas(names),
            _ => Output::Columns(names),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read_as_netperf_reads_them() {
        let options = parsed(
            "-P0 -v 2 -H lab2,4 -p 12900,0 -t tcp_rr -l -500 -cC -fm -D -0.25,1 -I 95,10 -i 8,4 -T 1, -- -r 64,1K \
             -s 0 -S 128k,64K -D -b 8 -K reno,cubic -P ,5000 -e 2 -L 127.0.0.2,4",
        )
        .unwrap();
        assert_eq!((options.host.as_str(), options.port), ("lab2", 12_900));
        assert!(!options.banner && options.nodelay && options.cpu == [true; 2]);
        assert_eq!(options.length, Length::Units(500));
        assert_eq!(options.unit, Some('m'));
        assert_eq!(options.interim, Some(Duration::from_millis(250)));
        let confidence = Confidence { level: 0.95, width: 0.1, most: 8, least: 4 };
        for (tests, expected) in [
            ("10", (10, 10)),
            ("5,10", (10, 10)),
            ("1", (3, 3)),
            ("100", (30, 30)),
            ("12,", (12, 3)),
        ] {
            let asked = parsed(&format!("-i {tests}")).unwrap().confidence.unwrap();
            assert_eq!((asked.most, asked.least), expected, "-i {tests}");
        }
        assert_eq!(options.confidence, Some(confidence));
        assert_eq!(options.on_cpu, [Some(1), None]);
        assert_eq!(options.transaction, [64, 1024]);
        assert_eq!(options.buffers, [[None; 2], [Some(128_000), Some(65_536)]]);
        assert_eq!(options.congestion, [Some("reno".to_owned()), Some("cubic".to_owned())]);
        assert_eq!((options.burst, options.data_ports), (8, [0, 5000]));
        assert_eq!(options.socket_timeout, Some(Duration::from_secs(2)));
        assert_eq!(options.local.as_deref(), Some("127.0.0.2"));
        for (text, expected) in [
            ("0xb8,16", [Some(0xb8), Some(16)]),
            ("EF", [Some(0xb8); 2]),
            (",CS1", [None, Some(0x20)]),
            ("AF21,af43", [Some(0x48), Some(0x98)]),
        ] {
            assert_eq!(parsed(&format!("-Y {text}")).unwrap().tos, expected, "{text}");
        }
        let script = parsed("-c 100 -C 99.5 -l 5 -- -s -1 -S -1,-1 -m 4096").unwrap();
        assert_eq!((script.cpu, script.length), ([true; 2], Length::Seconds(5)));
        assert_eq!(
            (script.buffers, script.message),
            ([[None; 2]; 2], [[Some(4096), None], [None; 2]])
        );
        for (line, [here, there]) in [
            ("-m 1K", [[Some(1024), None], [None; 2]]),
            ("-m ,1K", [[None; 2], [Some(1024), None]]),
            ("-M 2K", [[None; 2], [None, Some(2048)]]),
            ("-m 1K,2K -M ,4K", [[Some(1024), Some(4096)], [Some(2048), None]]),
        ] {
            assert_eq!(parsed(&format!("-- {line}")).unwrap().message, [here, there], "{line}");
        }
        for (line, host, family) in [
            ("-H 192.0.2.9/24,4", Some("192.0.2.9"), Some(Family::Ipv4)),
            ("-H ,inet", None, Some(Family::Ipv4)),
            ("-H fd77::2/64,inet6", Some("fd77::2"), Some(Family::Ipv6)),
            ("-H fe80::2%eth0", Some("fe80::2%eth0"), None),
            ("-6", None, Some(Family::Ipv6)),
        ] {
            let options = parsed(&format!("-H a -- {line}")).unwrap();
            assert_eq!(
                (options.data_host.as_deref(), options.data_family),
                (host, family),
                "{line}"
            );
        }
        let control = parsed("-6 -L fe80::1%eth0").unwrap();
        assert_eq!((control.host.as_str(), control.family), ("::1", Some(Family::Ipv6)));
        assert_eq!(control.control_local.as_deref(), Some("fe80::1%eth0"));
        let paced = parsed("-b 3,2 -w 10,200us -Z secret").unwrap();
        let intervals = |calls, us| Some(Intervals { calls, length: Duration::from_micros(us) });
        assert_eq!(paced.intervals_of(0), intervals(3, 10_000));
        assert_eq!(paced.intervals_of(1), intervals(2, 200));
        assert_eq!(paced.passphrase.as_deref(), Some("secret"));
        let paced = parsed("-b ,4").unwrap();
        assert_eq!((paced.intervals_of(0), paced.intervals_of(1)), (None, intervals(4, 1000)));
        // in front of `--` they are offsets, and octets that no package touches
        let offsets = parsed("-o 8,4 -k 1,1 -O 16 -a 4K,").unwrap();
        assert_eq!(
            (offsets.output, offsets.without_effect),
            (Output::Classic, vec!["-k".to_owned()])
        );
        let placement = |alignment, offset| Placement::of(alignment, offset).unwrap();
        assert_eq!(
            offsets.placement,
            [[placement(4096, 8), placement(8, 4)], [placement(8, 16); 2]]
        );
        let sockets =
            parsed("-y 5,3 -W 4 -s 2 -B run1 -F fill -- -G 1400b -q 125000 -u name -C -U");
        let sockets = sockets.unwrap();
        assert_eq!((sockets.priority, sockets.width), ([Some(5), Some(3)], [Some(4); 2]));
        assert_eq!(
            (sockets.wait, sockets.brand.as_deref()),
            (Duration::from_secs(2), Some("run1"))
        );
        assert_eq!(sockets.fill, [Some("fill".to_owned()), None]);
        assert_eq!((sockets.mss, sockets.pacing_rate), (Some(1400), Some(125_000)));
        assert!(sockets.cork && sockets.retries && sockets.uuid.as_deref() == Some("name"));
        assert_eq!(parsed("-t TCP_RR -- -r80000:80000").unwrap().transaction, [80_000; 2]);
        assert!(parsed("-- -k P99_LATENCY").unwrap().keeps_latencies());
        assert!(!parsed("-- -k RT_LATENCY").unwrap().keeps_latencies());
        let question = |line: &str| parsed(line).unwrap().question;
        assert_eq!(question("-t REM_CPU"), Some(Question::CpuRate { far: true }));
        assert_eq!(question("-t tcp_mss -P 0"), Some(Question::Mss));
        assert_eq!(question("-V"), Some(Question::Version));
        assert_eq!(question("-- -h"), Some(Question::Help));
        assert_eq!(question("-t UUID"), Some(Question::Uuid));
        assert_eq!(question("-t TCP_RR"), None);
        let omni = parsed("-t OMNI -- -d recv -T tcp -k THROUGHPUT,direction").unwrap();
        assert_eq!(omni.test.shape, Shape::Maerts);
        for (line, shape) in [
            ("-t OMNI -- -r 1,1", Shape::RequestResponse),
            ("-t OMNI -- -c -d rr", Shape::ConnectRequestResponse),
            ("-t OMNI -- -T TCP -d CRR", Shape::ConnectRequestResponse),
            ("-t OMNI -- -c", Shape::Connect),
            ("-t OMNI -- -m ,1K", Shape::Maerts),
            ("-t OMNI -- -d stream -m 1K,1K", Shape::Stream),
            ("-t TCP_RR -- -c", Shape::ConnectRequestResponse),
            ("-t TCP_STREAM -- -d recv -r 1", Shape::Stream),
        ] {
            assert_eq!(parsed(line).unwrap().test.shape, shape, "{line}");
        }
        assert_eq!(parsed("-H a -l 1 -- 42424 -m 1K").unwrap().without_effect, ["42424"]);
        let names = ["THROUGHPUT", "DIRECTION"].map(str::to_owned).to_vec();
        assert_eq!(omni.output, Output::Pairs(Names::Named(names)));
        let selected = parsed("-- -k NOSUCH,throughput -D").unwrap().output;
        assert_eq!(crate::netperf::selectors::unknown(&selected), ["NOSUCH"]);
        assert!(matches!(parsed("-- -o -D").unwrap().output, Output::Commas(_)));
        for (line, routed) in [
            ("-t UDP_STREAM", false),
            ("-t OMNI -- -T udp -d send", false),
            ("-t UDP_STREAM -- -R 1", true),
            ("-t UDP_RR", true),
            ("-t TCP_STREAM", true),
            ("-t TCP_STREAM -- -R 0", false),
        ] {
            assert_eq!(parsed(line).unwrap().may_be_routed(), routed, "{line}");
        }
    }

    #[test]
    fn a_wrong_option_is_named_with_what_would_be_right() {
        for (line, said) in [
            ("-q", "unsupported option -q; expected one of -4 -6"),
            ("-- -X", "unsupported option -X behind --"),
            ("-N", "option -N is not supported: without a netserver"),
            (
                "-- -F",
                "option -F behind -- is not supported: connections are made without TCP fast",
            ),
            ("-t TCP_NBRR", "option -t is \"TCP_NBRR\", expected TCP_RR or TCP_CRR"),
            ("-- -c", "option -c is \"\", expected a test of transactions"),
            ("-a 12", "option -a is \"12\", expected an alignment that is a power of two"),
            ("-t SCTP_STREAM", "option -t is \"SCTP_STREAM\", expected one of TCP_STREAM"),
            ("-l 0", "option -l is \"0\", expected seconds from 1 to 86400"),
            ("-l", "option -l is \"\", expected a value"),
            ("-p 0", "option -p is \"0\", expected a TCP port"),
            ("-I 90", "option -I is \"90\", expected 95 or 99"),
            ("-i x", "option -i is \"x\", expected the maximum number of tests"),
            ("-b x", "option -b is \"x\", expected local calls"),
            ("-t TCP_MAERTS -b 1", "option -b is \"\", expected a test in which this end sends"),
            ("-w 0", "option -w is \"0\", expected a local time"),
            ("-- -H a,ipx", "option -H is \"a,ipx\", expected a host, and with a comma 4, 6"),
            ("-f z", "option -f is \"z\", expected one of k"),
            ("-Y af44", "option -Y is \"af44\", expected a number up to 0xff"),
            ("-- -m 1G", "option -m is \"1G\", expected a size"),
            ("-- -R yes", "option -R is \"yes\", expected 0 or 1"),
            ("lab2", "\"lab2\" is not an option"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.starts_with(said), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_options_or_an_error(words in prop::collection::vec("[ -~]{0,8}", 0..8)) {
            let _ = Options::parse(&words);
        }
    }
}
