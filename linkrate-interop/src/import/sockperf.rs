//! What sockperf prints of a ping-pong test.
//!
//! Facts: sockperf 3.7 to 3.10. It prints counts and a time, and of latency the half of a round trip unless `--full-rtt` asks
//! for all of it. A line may have colours.

use linkrate_model::imported::{Asked, Found};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::{Direction, Family, Imported, Protocol};

use super::banner::place;
use super::{ImportError, MAX_RUNS, family_of, run_of, shown, too_many};

/// What is in the first of the lines that a run is of.
const BEGIN: &str = "[Valid Duration] RunTime=";

const COUNTED: &str =
    "sockperf reports counts and a time; the rate of transactions is computed from them.";

const HALVES: &str =
    "sockperf reports half of each round trip as its latency; here it is the whole.";

/// Whether a text is sockperf's.
pub(super) fn is_sockperf(text: &str) -> bool {
    text.contains("sockperf: ") && text.lines().any(|line| line.starts_with("sockperf: "))
}

/// What is known of a run.
struct Test {
    line: usize,
    protocol: Option<Protocol>,
    family: Option<Family>,
    version: Option<String>,
    seconds: f64,
    sent: f64,
    received: f64,
    /// µs, as printed.
    latency: LatencyFigures,
    is_whole: bool,
}

/// The runs of a file.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut tests: Vec<Test> = Vec::new();
    let (mut version, mut protocol, mut family) = (None, None, None);
    let mut failed = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(rest) = behind(line, "== version #") {
            version = rest.split_whitespace().next().map(shown);
        } else if let Some(address) = behind(line, "IP = ") {
            let ip = address.split_whitespace().next().and_then(|ip| ip.parse().ok());
            family = ip.map(family_of);
            protocol = match address.split_once("# ").map(|(_, protocol)| protocol.trim()) {
                Some("TCP") => Some(Protocol::RequestResponse),
                Some("UDP") => Some(Protocol::UdpRequestResponse),
                _ => None,
            };
        } else if line.contains(BEGIN) {
            let count = |name: &str| figure(number, line, name);
            tests.push(Test {
                line: number,
                protocol,
                family,
                version: version.clone(),
                seconds: count("RunTime=")?,
                sent: count("SentMessages=")?,
                received: count("ReceivedMessages=")?,
                latency: LatencyFigures::default(),
                is_whole: false,
            });
            if tests.len() > MAX_RUNS {
                return Err(too_many());
            }
        } else if line.contains("Summary: BandWidth is ") {
            let found = "a test that counts only what was sent";
            return Err(ImportError::new(place(number), found, "the output of sockperf ping-pong"));
        } else if line.contains("ERROR") || line.contains("No messages were received") {
            failed = Some((number, shown(line)));
        } else if let Some(test) = tests.last_mut() {
            test.latency(number, line)?;
        }
    }
    if tests.is_empty() {
        let (line, found) = failed
            .map_or((1, "no \"[Valid Duration]\"".to_owned()), |(line, said)| {
                (line, format!("the test failed: {said}"))
            });
        return Err(ImportError::new(place(line), found, "the end of a ping-pong test"));
    }
    let several = tests.len() > 1;
    let runs = tests.into_iter().map(|test| {
        let place = several.then(|| place(test.line));
        test.run(file).map(|run| Imported { place, ..run })
    });
    runs.collect()
}

/// What is behind a text in a line.
fn behind<'a>(line: &'a str, text: &str) -> Option<&'a str> {
    line.split_once(text).map(|(_, rest)| rest)
}

/// The number behind a name.
fn figure(number: usize, line: &str, name: &str) -> Result<f64, ImportError> {
    let rest = behind(line, name).unwrap_or_default().trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let figure = rest[..end].parse::<f64>().ok().filter(|figure| figure.is_finite());
    figure.ok_or_else(|| {
        let found = format!("{:?}", shown(line));
        ImportError::new(place(number), found, format!("a number behind {name:?}"))
    })
}

impl Test {
    /// A figure of latency, if the line has one.
    fn latency(&mut self, number: usize, line: &str) -> Result<(), ImportError> {
        let ns = |name: &str, factor: f64| {
            let us = figure(number, line, name)?;
            Ok::<_, ImportError>(Some((us * 1e3 * factor).round() as u64))
        };
        // half of a round trip, unless its mean is called otherwise
        let factor = if self.is_whole { 1.0 } else { 2.0 };
        let latency = &mut self.latency;
        if let Some(name) = ["avg-latency=", "avg-lat="].iter().find(|name| line.contains(**name)) {
            latency.mean_ns = Some(figure(number, line, name)? * 2e3);
        } else if let Some(name) =
            ["avg-rtt=", "avg-round-trip="].iter().find(|name| line.contains(**name))
        {
            self.is_whole = true;
            latency.mean_ns = Some(figure(number, line, name)? * 1e3);
        } else if line.contains("<MAX> observation =") {
            latency.max_ns = ns("observation =", factor)?;
        } else if line.contains("<MIN> observation =") {
            latency.min_ns = ns("observation =", factor)?;
        } else if let Some(rest) = behind(line, "---> percentile ") {
            let percentile = match rest.split('=').next().unwrap_or_default().trim() {
                "50.000" | "50.00" => &mut latency.p50_ns,
                "90.000" | "90.00" => &mut latency.p90_ns,
                "99.000" | "99.00" => &mut latency.p99_ns,
                "99.900" | "99.90" => &mut latency.p99_9_ns,
                "99.990" | "99.99" => &mut latency.p99_99_ns,
                _ => return Ok(()),
            };
            *percentile = ns("=", factor)?;
        }
        Ok(())
    }

    fn run(mut self, file: &str) -> Result<Imported, ImportError> {
        let error =
            |found: &str, expected: &str| ImportError::new(place(self.line), found, expected);
        let kind = self.protocol.ok_or_else(|| {
            error(
                "no line of the server's address",
                "\"IP = … PORT = … # TCP\" or \"# UDP\" before it",
            )
        })?;
        if self.received * 2.0 < self.sent {
            let found = format!("{} answers to {} messages", self.received, self.sent);
            return Err(error(&found, "an answer to each, as sockperf ping-pong has"));
        }
        if self.seconds <= 0.0 {
            return Err(error("a time of 0 s", "a test longer than 0 s"));
        }
        if self.latency.is_known() {
            self.latency.count = Some(self.received as u64);
        }
        let mut remarks = vec![COUNTED.to_owned()];
        if self.latency.is_known() && !self.is_whole {
            remarks.push(HALVES.to_owned());
        }
        let asked = Asked {
            family: self.family,
            connections: Some(1),
            ..Asked::of(kind, Direction::Transmit)
        };
        let found = Found {
            seconds: Some(self.seconds),
            transactions_per_second: Some(self.received / self.seconds),
            latency: Some(self.latency).filter(LatencyFigures::is_known),
            ..Found::default()
        };
        let program = match &self.version {
            Some(version) => format!("sockperf {version}"),
            None => "sockperf".to_owned(),
        };
        Ok(Imported { remarks, ..run_of(file, &program, "ping-pong", asked, found) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::changed;
    use super::*;

    const TEXT: &str = "\
sockperf: == version #3.10-no.git ==
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 192.0.2.7       PORT = 11111 # UDP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Test ended
sockperf: [Total Run] RunTime=2.000 sec; Warm up time=400 msec; SentMessages=50101; ReceivedMessages=50100
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=1.550 sec; SentMessages=38750; ReceivedMessages=38750
sockperf: \u{1b}[2;35m====> avg-latency=19.750 (std-dev=3.064, mean-ad=0.949)\u{1b}[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 19.750 usec
sockperf: ---> <MAX> observation =  151.690
sockperf: ---> percentile 99.999 =  150.066
sockperf: ---> percentile 99.990 =   71.764
sockperf: ---> percentile 99.000 =   24.549
sockperf: ---> percentile 50.000 =   16.493
sockperf: ---> <MIN> observation =   10.847
";

    #[test]
    fn a_round_trip_is_twice_what_is_printed() {
        let runs = read("f", TEXT).unwrap();
        let [run] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!(run.asked.kind, Protocol::UdpRequestResponse);
        assert_eq!(
            (run.asked.family, run.program.as_str()),
            (Some(Family::Ipv4), "sockperf 3.10-no.git")
        );
        assert_eq!(run.found.transactions_per_second, Some(38_750.0 / 1.55));
        let latency = run.found.latency.unwrap();
        assert_eq!((latency.mean_ns, latency.p50_ns), (Some(39_500.0), Some(32_986)));
        assert_eq!((latency.max_ns, latency.p99_99_ns), (Some(303_380), Some(143_528)));
        assert_eq!((latency.p90_ns, latency.count), (None, Some(38_750)));
        assert_eq!(run.remarks, [COUNTED, HALVES]);
        let whole = read("f", &TEXT.replace("avg-latency", "avg-rtt")).unwrap().remove(0);
        assert_eq!(whole.found.latency.unwrap().min_ns, Some(10_847));
        assert_eq!(whole.remarks, [COUNTED]);
        let two = read("f", &[TEXT, TEXT].concat()).unwrap();
        assert_eq!(two[1].place.as_deref(), Some("line 27"));
    }

    #[test]
    fn what_is_no_ping_pong_is_refused() {
        let error = |text: &str| read("f", text).unwrap_err().to_string();
        let few = TEXT.replace("ReceivedMessages=38750", "ReceivedMessages=387");
        assert!(error(&few).starts_with("line 9: 387 answers to 38750 messages"));
        assert!(error(&TEXT.replace("IP = ", "")).contains("no line of the server's address"));
        let sent = "sockperf: Summary: BandWidth is 14.850 MBps (118.803 Mbps)\n";
        assert!(error(sent).contains("only what was sent"));
        let failed = "sockperf: No messages were received from the server. Is the server down?\n";
        assert!(error(failed).starts_with("line 1: the test failed: sockperf: No messages"));
        assert!(error(&TEXT.replace("RunTime=1.550", "RunTime=x")).starts_with("line 9"));
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in any::<prop::sample::Index>(), c in any::<char>()) {
            let _ = read("f", &changed(TEXT, at, c));
        }
    }
}
