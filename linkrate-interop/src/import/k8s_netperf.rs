//! Results of k8s-netperf: its CSV, and the documents of its JSON.
//!
//! Facts: k8s-netperf of 2025 and 2026. Each row is a mean over samples of one of its drivers. Columns came and went between
//! versions, so they are read by their titles. The client, which is the system under test, sends.

use linkrate_model::imported::{Asked, Found};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::workload::Item;
use linkrate_model::{Direction, Imported, Protocol};

use super::banner::place;
use super::omni::fields;
use super::{ImportError, MAX_RUNS, MAX_TEXT, run_of, shown, too_many};
use crate::json::Fields;

/// The titles of the CSV that are read, in the order of [`Row`].
const TITLES: [&str; 12] = [
    "Driver",
    "Profile",
    "Same node",
    "Host Network",
    "Service",
    "Duration",
    "Parallelism",
    "# of Samples",
    "Message Size",
    "Avg Throughput",
    "Throughput Metric",
    "99%tile Observed Latency",
];

/// What a result says, as text.
#[derive(Default)]
struct Row {
    driver: String,
    profile: String,
    same_node: bool,
    host_network: bool,
    service: bool,
    seconds: Option<f64>,
    parallelism: Option<f64>,
    samples: Option<f64>,
    message: Option<f64>,
    throughput: Option<f64>,
    metric: String,
    p99_us: Option<f64>,
}

/// Whether a text is its CSV.
pub(super) fn is_csv(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first.starts_with("Driver,Profile,") && first.contains(",Throughput Metric")
}

/// Whether a document is one of its JSON.
pub(super) fn is_document(document: &Fields) -> bool {
    ["driver", "profile", "tputMetric"].iter().all(|key| document.get(key).is_some())
}

/// The runs of a CSV.
pub(super) fn read_csv(file: &str, text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let titles: Vec<&str> = lines.next().map(|(_, line)| fields(line)).unwrap_or_default();
    let at = TITLES.map(|title| titles.iter().position(|known| known.trim() == title));
    let mut runs = Vec::new();
    for (number, line) in lines {
        let values = fields(line);
        if values.len() != titles.len() {
            let found = format!("{} values", values.len());
            return Err(ImportError::new(place(number), found, format!("{}", titles.len())));
        }
        let of = |column: usize| at[column].and_then(|at| values.get(at)).map(|value| value.trim());
        let text = |column| shown(of(column).unwrap_or_default());
        let is_on = |column| of(column) == Some("true");
        let number_of = |column| of(column).and_then(|value| value.parse::<f64>().ok());
        let row = Row {
            driver: text(0),
            profile: text(1),
            same_node: is_on(2),
            host_network: is_on(3),
            service: is_on(4),
            seconds: number_of(5),
            parallelism: number_of(6),
            samples: number_of(7),
            message: number_of(8),
            throughput: number_of(9),
            metric: text(10),
            p99_us: number_of(11),
        };
        let run =
            row.run(file).map_err(|error| ImportError { place: Some(place(number)), ..error })?;
        runs.push(Imported { place: Some(place(number)), ..run });
        if runs.len() > MAX_RUNS {
            return Err(too_many());
        }
    }
    match runs.is_empty() {
        true => Err(ImportError::of_file("titles alone", "rows of results")),
        false => Ok(runs),
    }
}

/// The run of a document, which is one of a list.
pub(super) fn read_document(file: &str, document: &Fields) -> Result<Imported, ImportError> {
    let at = ImportError::at("");
    let text = |key| document.text(key, MAX_TEXT).map(Option::unwrap_or_default);
    let number = |key| document.number(key);
    let row = Row {
        driver: text("driver").map_err(&at)?,
        profile: text("profile").map_err(&at)?,
        same_node: document.switch("local"),
        host_network: document.switch("hostNetwork"),
        service: document.switch("service"),
        seconds: number("duration").map_err(&at)?,
        parallelism: number("parallelism").map_err(&at)?,
        samples: number("samples").map_err(&at)?,
        message: number("messageSize").map_err(&at)?,
        throughput: number("throughput").map_err(&at)?,
        metric: text("tputMetric").map_err(&at)?,
        p99_us: number("latency").map_err(&at)?,
    };
    row.run(file)
}

impl Row {
    fn run(self, file: &str) -> Result<Imported, ImportError> {
        let kind = match self.profile.as_str() {
            "TCP_STREAM" => Protocol::Stream,
            "UDP_STREAM" => Protocol::UdpStream,
            "TCP_RR" => Protocol::RequestResponse,
            "UDP_RR" => Protocol::UdpRequestResponse,
            "TCP_CRR" => Protocol::ConnectRequestResponse,
            other => {
                let found = format!("the profile {other:?}");
                let expected = "TCP_STREAM, UDP_STREAM, TCP_RR, UDP_RR or TCP_CRR";
                return Err(ImportError::of_file(found, expected));
            }
        };
        let rate = self.throughput.filter(|rate| rate.is_finite() && *rate >= 0.0);
        let rate = rate.ok_or_else(|| ImportError::of_file("no throughput", "a number from 0"))?;
        let transactional = kind.item() == Some(Item::Transaction);
        let metric = self.metric.as_str();
        let mut found = Found {
            seconds: self.seconds.filter(|seconds| (0.0..1e9).contains(seconds) && *seconds > 0.0),
            ..Found::default()
        };
        match (transactional, metric) {
            (true, "OP/s" | "Trans/s") => found.transactions_per_second = Some(rate),
            (false, "Mb/s" | "10^6bits/s") => found.transmit_bits_per_second = Some(rate * 1e6),
            _ => {
                let found = format!("a {} in {metric:?}", self.profile);
                return Err(ImportError::of_file(found, "Mb/s of a stream, or OP/s"));
            }
        }
        let samples = self.samples.unwrap_or_default();
        let mut remarks = vec![match samples > 1.0 {
            true => format!("The figures are k8s-netperf's means of {samples} samples."),
            false => "The figures are k8s-netperf's.".to_owned(),
        }];
        let connections = self.parallelism.filter(|count| (1.0..1e6).contains(count));
        let known = self.p99_us.filter(|us| (0.0..1e12).contains(us) && *us > 0.0);
        // of several netperf its sum has the latency of the last one
        if let Some(us) = known.filter(|_| transactional) {
            match connections {
                Some(1.0) => {
                    let p99_ns = Some((us * 1e3).round() as u64);
                    found.latency = Some(LatencyFigures { p99_ns, ..LatencyFigures::default() });
                }
                _ => remarks
                    .push("Its latency is that of one connection, and is not imported.".to_owned()),
            }
        }
        let message = self.message.filter(|size| (1.0..1e12).contains(size) && !transactional);
        let asked = Asked {
            connections: connections.map(|count| count as u32),
            message: message.map(|size| size as u64),
            ..Asked::of(kind, Direction::Transmit)
        };
        let network = if self.host_network { "host network" } else { "pod network" };
        let service = if self.service { ", service" } else { "" };
        let node = if self.same_node { ", same node" } else { "" };
        let test = format!("{} of {} ({network}{service}{node})", self.profile, self.driver);
        Ok(Imported { remarks, ..run_of(file, "k8s-netperf", &shown(&test), asked, found) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::changed;
    use super::*;

    const CSV: &str = "\
Driver,Profile,Same node,Host Network,Service,External Server,Duration,Parallelism,# of Samples,Message Size,\
Confidence metric - low,Confidence metric - high,Avg Throughput,Throughput Metric,99%tile Observed Latency,Latency Metric
netperf,TCP_STREAM,false,true,false,false,10,2,3,1024,861.9,885.2,873.6,Mb/s,3.3,usec
netperf,TCP_RR,true,false,true,false,10,1,3,1024,6582.5,12085.4,9333.9,OP/s,451.25,usec
";

    #[test]
    fn each_row_is_a_run_of_means() {
        assert!(is_csv(CSV));
        let runs = read_csv("f", CSV).unwrap();
        let [stream, transactions] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!(stream.test, "TCP_STREAM of netperf (host network)");
        assert_eq!(stream.found.transmit_bits_per_second, Some(873.6e6));
        assert_eq!((stream.asked.connections, stream.asked.message), (Some(2), Some(1024)));
        assert_eq!((stream.place.as_deref(), stream.found.seconds), (Some("line 2"), Some(10.0)));
        assert_eq!(transactions.test, "TCP_RR of netperf (pod network, service, same node)");
        assert_eq!(transactions.found.transactions_per_second, Some(9333.9));
        assert_eq!(transactions.found.latency.unwrap().p99_ns, Some(451_250));
        assert_eq!(transactions.remarks, ["The figures are k8s-netperf's means of 3 samples."]);
        let two = read_csv("f", &CSV.replace("10,1,3", "10,4,3")).unwrap().remove(1);
        assert_eq!((two.found.latency, two.remarks.len()), (None, 2));
    }

    #[test]
    fn documents_of_a_list_are_runs() {
        let document = serde_json::json!({
            "uuid": "k8s-netperf", "hostNetwork": false, "driver": "iperf3", "parallelism": 1,
            "profile": "UDP_STREAM", "duration": 30, "service": false, "local": true, "samples": 1,
            "messageSize": 1024, "throughput": 1202.5, "latency": 0.0, "tputMetric": "Mb/s",
        });
        let text = serde_json::json!([document, document]).to_string();
        let runs = super::super::read("f", text.as_bytes()).unwrap();
        assert_eq!((runs.len(), runs[1].asked.kind), (2, Protocol::UdpStream));
        assert_eq!(runs[1].found.transmit_bits_per_second, Some(1202.5e6));
        let bad = text.replacen("1202.5", "\"fast\"", 2).replacen("\"fast\"", "1.0", 1);
        let error = super::super::read("f", bad.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("document 2: field \"throughput\" is"), "{error}");
    }

    #[test]
    fn what_does_not_fit_names_its_line() {
        let error =
            |from: &str, to: &str| read_csv("f", &CSV.replace(from, to)).unwrap_err().to_string();
        assert!(error("TCP_RR", "SCTP_RR").starts_with("line 3: the profile \"SCTP_RR\""));
        assert!(error("OP/s", "Mb/s").starts_with("line 3: a TCP_RR in \"Mb/s\""));
        assert!(error("873.6", "").starts_with("line 2: no throughput"));
        assert!(error("netperf,TCP_RR,", "TCP_RR,").starts_with("line 3: 15 values, expected 16"));
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in any::<prop::sample::Index>(), c in any::<char>()) {
            let _ = read_csv("f", &changed(CSV, at, c));
        }
    }
}
