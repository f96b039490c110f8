//! The options of netperf: those of all tests, and behind `--` those of one.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use linkrate_interop::netperf::{PORT, Shape};

use value::{Value, cpus, local, types_of_service};

mod value;

/// Options of all tests that take a value.
const WITH_VALUE: &str = "aAbBDfFHiIkKlLnoOpPtTvwWYZ";
/// Options of all tests that take none.
const WITHOUT_VALUE: &str = "cCdjNrV46";
/// Options of a test that take a value.
const TEST_WITH_VALUE: &str = "bdeHKLmMpPrRsStT";
/// Options of a test that take none.
const TEST_WITHOUT_VALUE: &str = "cCDj46";
/// Options of a test that name results, or none for the usual ones.
const SELECTORS: &str = "koO";

/// Maximum duration of a test, seconds, and most requests that are outstanding.
const MAX_QUANTITY: u32 = 86_400;
/// Most octets of a passphrase: what a message has room for.
const MAX_PASSPHRASE: usize = 647;
/// Most octets of a call.
const MAX_CALL: u32 = 64 << 20;

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
    /// Something that is no option.
    #[error("{0:?} is not an option")]
    Stray(String),
}

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

/// What a client is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The host of the server.
    pub host: String,
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
    /// Whether packets of the test may go by a router, where it is told.
    pub routed: Option<bool>,
    /// The host or address of the server that the data connection goes to; `None` for that of the control connection.
    pub data_host: Option<String>,
    /// The passphrase that the server waits for.
    pub passphrase: Option<String>,
    /// Calls that send at the beginning of each interval; `None` for as many as can be.
    pub interval_burst: Option<u32>,
    /// The interval; `None` for 1 ms.
    pub interval: Option<Duration>,
    /// The address of the data connection at this end.
    pub local: Option<Ipv4Addr>,
    /// How long a transaction of datagrams may take before another one takes its place.
    pub socket_timeout: Option<Duration>,
    /// Ports of the data connection here and there; 0 for any.
    pub data_ports: [u16; 2],
    /// Whether latencies are results.
    pub latencies: bool,
    pub output: Output,
    /// Options that were taken and change nothing.
    pub without_effect: Vec<char>,
    /// The words as they were given.
    pub command_line: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
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
            routed: None,
            data_host: None,
            passphrase: None,
            interval_burst: None,
            interval: None,
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
/// those of `selectors`.
fn split_options(
    words: &[String],
    with: &str,
    without: &str,
    selectors: &str,
    place: &'static str,
) -> Result<Vec<Given>, OptionsError> {
    let mut given = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        // scripts give the rate of the CPU behind -c and -C, which nothing needs
        let follows = matches!(given.last(), Some(('c' | 'C', None)));
        if follows && word.parse::<f64>().is_ok_and(|rate| rate >= 0.0) {
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(OptionsError::Stray(word.clone()));
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
    Ok(given)
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

    /// Reads the words behind the name of the program.
    pub fn parse(words: &[String]) -> Result<Self, OptionsError> {
        let mut options = Self { command_line: words.join(" "), ..Self::default() };
        let (global, own) = match words.iter().position(|word| word == "--") {
            Some(at) => (&words[..at], &words[at + 1..]),
            None => (words, &[][..]),
        };
        for (letter, value) in split_options(global, WITH_VALUE, WITHOUT_VALUE, "", "")? {
            options.take(letter, value.as_deref().unwrap_or_default())?;
        }
        let own = split_options(own, TEST_WITH_VALUE, TEST_WITHOUT_VALUE, SELECTORS, " behind --")?;
        for (letter, value) in own {
            options.take_own(letter, value.as_deref().unwrap_or_default(), value.as_deref())?;
        }
        if options.interval_burst.is_some() && options.test.shape == Shape::Maerts {
            return Value('b', "").wrong("a test in which this end sends");
        }
        if options.interval.is_some() && options.interval_burst.is_none() {
            options.without_effect.push('w');
        }
        if options.test.omni && options.output == Output::Classic {
            options.output = Output::Columns(Names::Usual);
        }
        Ok(options)
    }

    fn take(&mut self, letter: char, text: &str) -> Result<(), OptionsError> {
        let value = Value(letter, text);
        match letter {
            'H' => text.split(',').next().unwrap_or_default().clone_into(&mut self.host),
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
            'T' => self.on_cpu = cpus(&value)?,
            'Y' => self.tos = types_of_service(&value)?,
            // the control connection needs no address of its own
            'L' => self.local = self.local.or(local(&value)?),
            'j' => self.latencies = true,
            'V' => self.question = Some(Question::Version),
            'Z' if text.is_empty() || text.len() > MAX_PASSPHRASE => {
                return value.wrong("a passphrase of 1 to 647 octets");
            }
            'Z' => self.passphrase = Some(text.to_owned()),
            'b' => self.interval_burst = value.interval_burst()?,
            'w' => self.interval = Some(value.interval()?),
            '6' => return value.wrong("IPv4; data connections of IPv6 are not there yet"),
            // they choose what netperf does anyway here, or fill memory with something else
            '4' | 'd' => {}
            _ => self.without_effect.push(letter),
        }
        Ok(())
    }

    fn take_own(
        &mut self,
        letter: char,
        text: &str,
        selectors: Option<&str>,
    ) -> Result<(), OptionsError> {
        let value = Value(letter, text);
        match letter {
            's' => self.buffers[0] = value.sizes(u32::MAX)?,
            'S' => self.buffers[1] = value.sizes(u32::MAX)?,
            'm' => [self.message[0][0], self.message[1][0]] = value.split_sizes(MAX_CALL)?,
            'M' => [self.message[1][1], self.message[0][1]] = value.split_sizes(MAX_CALL)?,
            'H' => self.data_host = value.data_host()?.or(self.data_host.take()),
            'r' => {
                let sizes = value.sizes(MAX_CALL)?;
                self.transaction = sizes.map(|size| size.unwrap_or(1));
            }
            'D' => self.nodelay = true,
            'L' => self.local = local(&value)?,
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
                self.test.shape = match text.to_ascii_lowercase().as_str() {
                    "send" | "xmit" | "stream" | "transmit" | "2" => Shape::Stream,
                    "recv" | "receive" | "maerts" | "4" => Shape::Maerts,
                    "rr" | "6" => Shape::RequestResponse,
                    _ => return value.wrong("send, recv or rr"),
                };
            }
            'c' if self.test.shape == Shape::RequestResponse => {
                self.test.shape = Shape::ConnectRequestResponse;
            }
            'j' => self.latencies = true,
            'k' | 'o' | 'O' => self.select(letter, selectors)?,
            '6' => return value.wrong("IPv4; data connections of IPv6 are not there yet"),
            '4' => {}
            _ => self.without_effect.push(letter),
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
        let [most, least] = value.halves().map(|half| match half {
            "" => None,
            half => Some(half.parse::<u32>()),
        });
        let (Ok(most), Ok(least)) = (most.unwrap_or(Ok(1)), least.unwrap_or(Ok(1))) else {
            return value.wrong("most tests, and the fewest with a comma");
        };
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

impl Confidence {
    /// As netperf has it.
    const USUAL: Self = Self { level: 0.99, width: 0.05, most: 10, least: 3 };
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+/-{:.3}% @ {:.0}% conf. ", self.width * 50.0, self.level * 100.0)
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
        assert_eq!(options.local, Some(Ipv4Addr::new(127, 0, 0, 2)));
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
        let elsewhere = |line: &str| parsed(line).unwrap().data_host;
        assert_eq!(elsewhere("-H a -- -H 192.0.2.9/24,4").as_deref(), Some("192.0.2.9"));
        assert_eq!(elsewhere("-H a -- -H ,inet"), None);
        let paced = parsed("-b 3 -w 10 -Z secret").unwrap();
        assert_eq!(
            (paced.interval_burst, paced.interval),
            (Some(3), Some(Duration::from_millis(10)))
        );
        assert_eq!(paced.passphrase.as_deref(), Some("secret"));
        assert_eq!(parsed("-w 200u").unwrap().interval, Some(Duration::from_micros(200)));
        // in front of `--` they are alignments
        let offsets = parsed("-o 8,8 -k 1,1 -O 8").unwrap();
        assert_eq!(
            (offsets.output, offsets.without_effect),
            (Output::Classic, vec!['o', 'k', 'O'])
        );
        let question = |line: &str| parsed(line).unwrap().question;
        assert_eq!(question("-t REM_CPU"), Some(Question::CpuRate { far: true }));
        assert_eq!(question("-t tcp_mss -P 0"), Some(Question::Mss));
        assert_eq!(question("-V"), Some(Question::Version));
        assert_eq!(question("-t TCP_RR"), None);
        let omni = parsed("-t OMNI -- -d recv -T tcp -k THROUGHPUT,direction").unwrap();
        assert_eq!(omni.test.shape, Shape::Maerts);
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
            ("-- -q", "unsupported option -q behind --"),
            ("-t SCTP_STREAM", "option -t is \"SCTP_STREAM\", expected one of TCP_STREAM"),
            ("-l 0", "option -l is \"0\", expected seconds from 1 to 86400"),
            ("-l", "option -l is \"\", expected a value"),
            ("-p 0", "option -p is \"0\", expected a TCP port"),
            ("-I 90", "option -I is \"90\", expected 95 or 99"),
            ("-i x", "option -i is \"x\", expected most tests"),
            ("-b 1,1", "option -b is \"1,1\", expected a number of calls"),
            ("-t TCP_MAERTS -b 1", "option -b is \"\", expected a test in which this end sends"),
            ("-w 1,1", "option -w is \"1,1\", expected a time"),
            ("-- -H a,6", "option -H is \"a,6\", expected a host and a family of IPv4"),
            ("-f z", "option -f is \"z\", expected one of k"),
            ("-Y af44", "option -Y is \"af44\", expected a number up to 0xff"),
            ("-- -L here", "option -L is \"here\", expected an IPv4 address"),
            ("-6", "option -6 is \"\", expected IPv4"),
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
