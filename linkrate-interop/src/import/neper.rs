//! What neper prints: `key=value` lines of its options, and then of its results.
//!
//! Facts: neper of 2025. It does not print which of its programs ran, but each has options of its own. A stream's
//! `local_throughput` is what this end received in bit/s, `remote_throughput` what the other end did. Latency is in seconds.

use std::collections::BTreeMap;

use linkrate_model::imported::{Asked, Found};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::{Direction, Family, Imported, Protocol, SendPath};

use super::banner::place;
use super::{ImportError, run_of, shown};

/// Most keys of a file.
const MAX_KEYS: usize = 1024;

/// Whether a text is neper's.
pub(super) fn is_neper(text: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    has("num_flows=") && has("num_threads=")
}

/// The values of a file by key, each with its line.
struct Values<'a>(BTreeMap<&'a str, (usize, &'a str)>);

impl<'a> Values<'a> {
    fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A number from 0; `None` if it is not there.
    fn number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        let Some((line, text)) = self.0.get(key) else { return Ok(None) };
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse::<f64>().ok().filter(|number| (0.0..1e18).contains(number));
        number.map(Some).ok_or_else(|| {
            ImportError::new(place(*line), format!("{key} is {:?}", shown(text)), "a number from 0")
        })
    }

    fn whole(&self, key: &str) -> Result<Option<u64>, ImportError> {
        Ok(self.number(key)?.map(|number| number as u64))
    }

    fn is_on(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|(_, value)| *value == "1")
    }
}

/// The runs of a file, which is one.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut all = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((key, value)) = line.trim().split_once('=') else { continue };
        if key == "num_flows" && all.contains_key(key) {
            return Err(ImportError::new(place(number), "a second test", "one test in a file"));
        }
        all.insert(key, (number, value));
        if all.len() > MAX_KEYS {
            let expected = format!("at most {MAX_KEYS}");
            return Err(ImportError::new(place(number), "more keys", expected));
        }
    }
    run(file, &Values(all)).map(|run| vec![run])
}

/// The program whose options these are.
fn program(values: &Values) -> Result<(&'static str, Protocol), ImportError> {
    let is_tcp = values.has("tcp_fastopen") || values.has("num_ports");
    Ok(match () {
        () if values.has("enable_read") => ("tcp_stream", Protocol::Stream),
        () if !values.has("request_size") => {
            let found = "no request_size and no enable_read";
            let expected =
                "the options of tcp_rr, tcp_crr, udp_rr or tcp_stream, which neper prints first";
            return Err(ImportError::of_file(found, expected));
        }
        () if !is_tcp => ("udp_rr", Protocol::UdpRequestResponse),
        // only TCP_CRR cannot wait between its requests
        () if values.has("delay") => ("tcp_rr", Protocol::RequestResponse),
        () => ("tcp_crr", Protocol::ConnectRequestResponse),
    })
}

fn run(file: &str, values: &Values) -> Result<Imported, ImportError> {
    let (name, kind) = program(values)?;
    let known = |value: Option<f64>| value.filter(|rate| *rate > 0.0);
    let lacks =
        |key: &str| ImportError::of_file(format!("no {key}"), "the output of a test that ended");
    let mut asked = Asked::of(kind, Direction::Transmit);
    // a negative length is a number of transactions
    let seconds = known(values.number("test_length").ok().flatten());
    let mut found = Found { seconds, ..Found::default() };
    if kind == Protocol::Stream {
        let (local, remote) =
            (known(values.number("local_throughput")?), known(values.number("remote_throughput")?));
        asked.direction = match (local, remote) {
            (Some(_), Some(_)) => Direction::Bidirectional,
            (Some(_), None) => Direction::Receive,
            (None, Some(_)) => Direction::Transmit,
            (None, None) => return Err(lacks("local_throughput and no remote_throughput")),
        };
        (found.receive_bits_per_second, found.transmit_bits_per_second) = (local, remote);
        asked.message = values.whole("buffer_size")?.filter(|size| *size > 0);
        asked.send_path = Some(match values.is_on("zerocopy") {
            true => SendPath::MsgZerocopy,
            false => SendPath::Plain,
        });
    } else {
        let rate = values.number("throughput")?.ok_or_else(|| lacks("throughput"))?;
        found.transactions_per_second = Some(rate);
        asked.request = values.whole("request_size")?.filter(|size| *size > 0);
        asked.response = values.whole("response_size")?.filter(|size| *size > 0);
        asked.burst = Some(1);
        let ns = |key| Ok(values.number(key)?.map(|seconds: f64| (seconds * 1e9).round() as u64));
        let latency = LatencyFigures {
            mean_ns: values.number("latency_mean")?.map(|seconds| seconds * 1e9),
            min_ns: ns("latency_min")?,
            p50_ns: ns("latency_p50")?,
            p90_ns: ns("latency_p90")?,
            p99_ns: ns("latency_p99")?,
            p99_9_ns: ns("latency_p99.9")?,
            p99_99_ns: ns("latency_p99.99")?,
            max_ns: ns("latency_max")?,
            ..LatencyFigures::default()
        };
        // a server measures none, and prints zeros
        found.latency = Some(latency).filter(|latency| latency.max_ns > Some(0));
    }
    let flows = values.whole("num_flows")?.and_then(|flows| u32::try_from(flows).ok());
    asked.connections = flows.filter(|flows| *flows > 0);
    asked.family = match (values.is_on("ipv4"), values.is_on("ipv6")) {
        (true, false) => Some(Family::Ipv4),
        (false, true) => Some(Family::Ipv6),
        _ => None,
    };
    Ok(run_of(file, "neper", name, asked, found))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::changed;
    use super::*;

    const RR: &str = "percentiles=50,99\nnum_ports=1\ntcp_fastopen=0\ndelay=0\nrequest_size=64\n\
                      response_size=128\ntest_length=10\nipv6=1\nipv4=0\nnum_threads=2\nnum_flows=8\n\
                      total_run_time=10\nnum_transactions=330098\nlatency_min=0.000015000\n\
                      latency_max=0.004187000\nlatency_mean=0.000242000\nlatency_p50=0.000240000\n\
                      latency_p99=0.000410000\nthroughput=33009.84\ncorrelation_coefficient=1.00\n";

    const STREAM: &str = "enable_read=0\nenable_write=1\nzerocopy=0\nbuffer_size=16384\ntest_length=10\n\
                          num_threads=1\nnum_flows=1\nlocal_throughput=0\nremote_throughput=9412345678\n";

    fn one(text: &str) -> Imported {
        assert!(is_neper(text));
        read("f", text).unwrap().remove(0)
    }

    #[test]
    fn transactions_are_of_the_program_whose_options_stand_there() {
        let run = one(RR);
        assert_eq!((run.test.as_str(), run.asked.kind), ("tcp_rr", Protocol::RequestResponse));
        assert_eq!(run.found.transactions_per_second, Some(33_009.84));
        assert_eq!((run.asked.connections, run.asked.request), (Some(8), Some(64)));
        let latency = run.found.latency.unwrap();
        assert_eq!(
            (latency.p50_ns, latency.p99_ns, latency.p90_ns),
            (Some(240_000), Some(410_000), None)
        );
        assert_eq!((run.asked.family, run.asked.response), (Some(Family::Ipv6), Some(128)));
        assert_eq!(one(&RR.replace("delay=0\n", "")).test, "tcp_crr");
        let udp = RR.replace("num_ports=1\ntcp_fastopen=0\n", "");
        assert_eq!(one(&udp).asked.kind, Protocol::UdpRequestResponse);
    }

    #[test]
    fn a_stream_has_what_each_end_received() {
        let run = one(STREAM);
        assert_eq!(run.asked.direction, Direction::Transmit);
        assert_eq!(run.found.transmit_bits_per_second, Some(9_412_345_678.0));
        let both = one(&STREAM.replace("local_throughput=0", "local_throughput=1000000"));
        assert_eq!(both.asked.direction, Direction::Bidirectional);
        assert_eq!(both.found.receive_bits_per_second, Some(1e6));
    }

    #[test]
    fn what_does_not_fit_names_its_key() {
        let error = |text: &str| read("f", text).unwrap_err().to_string();
        assert!(error(&RR.replace("throughput=33009.84\n", "")).starts_with("no throughput"));
        assert!(error(&RR.replace("33009.84", "-1")).starts_with("line 19: throughput is \"-1\""));
        assert!(error("num_flows=1\nnum_threads=1\n").starts_with("no request_size"));
        assert!(error(&[RR, RR].concat()).contains("a second test"));
        assert!(error(&STREAM.replace("remote", "other")).starts_with("no local_throughput"));
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in any::<prop::sample::Index>(), c in any::<char>()) {
            for text in [RR, STREAM] {
                let _ = read("f", &changed(text, at, c));
            }
        }
    }
}
