//! The output of netperf's omni tests that was asked for by `-o` (CSV), `-O` (columns) or `-k` (keyword=value).
//!
//! Facts: netperf 2.7. Values that were not measured are -1, `-nan` or `Deprecated`.

use std::collections::BTreeMap;

use linkrate_model::imported::{Asked, Found};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::workload::Item;
use linkrate_model::{Direction, Imported, Protocol};

use super::banner::{Lines, TESTS, asked_by, bits_per_unit, place, title};
use super::{ImportError, run_of};

/// The keys that are read: the keyword of `-k`, and the title of `-o`.
const KEYS: &[(&str, &str)] = &[
    ("PROTOCOL", "Protocol"),
    ("DIRECTION", "Direction"),
    ("ELAPSED_TIME", "Elapsed Time (sec)"),
    ("THROUGHPUT", "Throughput"),
    ("THROUGHPUT_UNITS", "Throughput Units"),
    ("LSS_SIZE_REQ", "Local Send Socket Size Requested"),
    ("LSS_SIZE_END", "Local Send Socket Size Final"),
    ("LSR_SIZE_END", "Local Recv Socket Size Final"),
    ("LOCAL_SEND_SIZE", "Local Send Size"),
    ("REMOTE_SEND_SIZE", "Remote Send Size"),
    ("REQUEST_SIZE", "Request Size Bytes"),
    ("RESPONSE_SIZE", "Response Size Bytes"),
    ("LOCAL_CPU_UTIL", "Local CPU Util %"),
    ("REMOTE_CPU_UTIL", "Remote CPU Util %"),
    ("LOCAL_SD", "Local Service Demand"),
    ("BURST_SIZE", "Initial Burst Requests"),
    ("LOCAL_TRANSPORT_RETRANS", "Local Transport Retransmissions"),
    ("REMOTE_TRANSPORT_RETRANS", "Remote Transport Retransmissions"),
    ("TRANSPORT_MSS", "Transport MSS bytes"),
    ("LOCAL_NODELAY", "Local NODELAY"),
    ("MIN_LATENCY", "Minimum Latency Microseconds"),
    ("MAX_LATENCY", "Maximum Latency Microseconds"),
    ("P50_LATENCY", "50th Percentile Latency Microseconds"),
    ("P90_LATENCY", "90th Percentile Latency Microseconds"),
    ("P99_LATENCY", "99th Percentile Latency Microseconds"),
    ("MEAN_LATENCY", "Mean Latency Microseconds"),
    ("LOCAL_CONG_CONTROL", "Local Congestion Control Algorithm"),
    ("REMOTE_CONG_CONTROL", "Remote Congestion Control Algorithm"),
];

/// Most fields of a line of CSV.
const MAX_FIELDS: usize = 1024;

/// Most lines of the titles of columns.
const MAX_TITLE_LINES: usize = 8;

/// Most bytes of a line of columns.
const MAX_COLUMNS: usize = 1 << 16;

const MAY_BE_SUM: &str = "The output has no ELAPSED_TIME, so that it may be the sum of several netperf (super-netperf): \
                          its connections and latency are not known.";

const OF_TCP: &str =
    "The output has no PROTOCOL. It has retransmissions or an MSS, so that it is of TCP.";

const NO_UNITS: &str = "The output has no THROUGHPUT_UNITS: its THROUGHPUT is taken as transactions per second, which \
                        netperf reports of this test without -f.";

/// The values of one run by keyword, each with its line.
struct Values<'a> {
    line: usize,
    all: BTreeMap<&'static str, (usize, &'a str)>,
    /// Whether it is an output that scripts make of those of several netperf.
    may_be_sum: bool,
}

impl<'a> Values<'a> {
    /// A text; `None` where it is not there or says nothing.
    fn text(&self, key: &str) -> Option<&'a str> {
        let (_, text) = self.all.get(key)?;
        Some(text.trim()).filter(|text| !text.is_empty() && *text != "Deprecated")
    }

    /// A number from 0; `None` where it is not there or was not measured.
    fn number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        let (Some(text), Some((line, _))) = (self.text(key), self.all.get(key)) else {
            return Ok(None);
        };
        if matches!(text, "nan" | "-nan") {
            return Ok(None);
        }
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| {
            let found = format!("{key} is {:?}", super::shown(text));
            ImportError::new(place(*line), found, "a number")
        })?;
        Ok(Some(number).filter(|number| *number >= 0.0))
    }

    fn whole(&self, key: &str) -> Result<Option<u64>, ImportError> {
        Ok(self.number(key)?.map(|number| number as u64))
    }

    fn lacks(&self, key: &str) -> ImportError {
        ImportError::new(place(self.line), format!("no {key}"), format!("{key} among the outputs"))
    }
}

/// The run behind a banner; `None` where it is a classic table.
pub(super) fn of(
    file: &str,
    (line, banner): (usize, &str),
    body: &Lines,
) -> Result<Option<Imported>, ImportError> {
    let mut rows = body.iter().filter(|(_, row)| !row.trim().is_empty());
    let Some((first, head)) = rows.next() else { return Ok(None) };
    let mut all = BTreeMap::new();
    let titled = |title: &str| KEYS.iter().find(|(_, known)| *known == title).map(|(key, _)| *key);
    let keyed = is_keyed(head);
    let keyword = |key: &str| KEYS.iter().map(|(keyword, _)| *keyword).find(|known| *known == key);
    if keyed {
        for (number, row) in std::iter::once(&(*first, *head)).chain(rows) {
            let Some((key, value)) = row.split_once('=') else {
                let found = super::shown(row);
                return Err(ImportError::new(place(*number), found, "KEYWORD=value"));
            };
            if let Some(key) = keyword(key) {
                all.insert(key, (*number, value));
            }
        }
    } else if head.split(',').any(|title| titled(title.trim()).is_some()) {
        let Some((number, row)) = rows.next() else {
            return Err(ImportError::new(place(*first), "titles alone", "a row of values"));
        };
        let (titles, values) = (fields(head), fields(row));
        if titles.len() != values.len() {
            let found = format!("{} values", values.len());
            return Err(ImportError::new(place(*number), found, format!("{}", titles.len())));
        }
        if let Some((number, row)) = rows.next() {
            return Err(ImportError::new(
                place(*number),
                super::shown(row),
                "one row for a banner",
            ));
        }
        for (title, value) in titles.into_iter().zip(values) {
            if let Some(key) = titled(title.trim()) {
                all.insert(key, (*number, value));
            }
        }
    } else {
        let known = columns(body).into_iter().flatten();
        all.extend(known.filter_map(|(title, value)| Some((titled(&title)?, value))));
        if all.is_empty() {
            return Ok(None);
        }
    }
    let may_be_sum = keyed && !all.contains_key("ELAPSED_TIME");
    run(file, banner, &Values { line, all, may_be_sum }).map(Some)
}

/// The titles of columns, which are words below each other, and the values in the line below, each with its line; `None`
/// of anything else.
fn columns<'a>(body: &Lines<'a>) -> Option<Vec<(String, (usize, &'a str))>> {
    let is_blank = |(_, line): &&(usize, &str)| line.trim().is_empty();
    let table: Vec<_> = body.iter().skip_while(is_blank).take_while(|row| !is_blank(row)).collect();
    let ((number, row), titles) = table.split_last()?;
    // a classic table has its figures behind a blank line
    let is_all = body.iter().filter(|row| !is_blank(row)).count() == table.len();
    let fits = table.iter().all(|(_, line)| line.len() <= MAX_COLUMNS);
    if !is_all || !fits || !(1..=MAX_TITLE_LINES).contains(&titles.len()) {
        return None;
    }
    let width = table.iter().map(|(_, line)| line.len()).max()?;
    let is_gap = |at: usize| {
        table.iter().all(|(_, line)| matches!(line.as_bytes().get(at), None | Some(b' ' | b'\r')))
    };
    let part = |line: &'a str, from: usize, to: usize| {
        line.get(from..to.min(line.len())).unwrap_or_default().trim()
    };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = (at..width).find(|at| !is_gap(*at)) {
        let to = (from..width).find(|at| is_gap(*at)).unwrap_or(width);
        let words: Vec<&str> = titles.iter().map(|(_, line)| part(line, from, to)).collect();
        found.push((words.join(" ").trim().to_owned(), (*number, part(row, from, to))));
        at = to;
    }
    Some(found)
}

/// Whether a line is `KEYWORD=value`.
fn is_keyed(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| {
        !key.is_empty()
            && key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}

/// The fields of a line of CSV; a field in quotes may have commas. Behind [`MAX_FIELDS`], the rest is one.
pub(super) fn fields(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut begin, mut quoted) = (0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted && found.len() < MAX_FIELDS => {
                found.push(&line[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&line[begin..]);
    found
}

fn run(file: &str, banner: &str, values: &Values) -> Result<Imported, ImportError> {
    let mut remarks = Vec::new();
    let title = title(banner);
    let named = TESTS.iter().find(|(name, ..)| *name == title);
    let units = match (values.text("THROUGHPUT_UNITS"), named) {
        (Some(units), _) => units,
        (None, Some((_, _, kind, _))) if kind.item() == Some(Item::Transaction) => {
            remarks.push(NO_UNITS.to_owned());
            "Trans/s"
        }
        (None, _) => return Err(values.lacks("THROUGHPUT_UNITS")),
    };
    let rate = values.number("THROUGHPUT")?.ok_or_else(|| values.lacks("THROUGHPUT"))?;
    let transactional = units == "Trans/s";
    let (test, kind, direction) = match named {
        Some((_, test, kind, direction)) => (*test, *kind, *direction),
        None => {
            let of_tcp = ["LOCAL_TRANSPORT_RETRANS", "REMOTE_TRANSPORT_RETRANS", "TRANSPORT_MSS"];
            let is_of_tcp = of_tcp.iter().any(|key| {
                let known = values.number(key).ok().flatten();
                known.is_some_and(|count| count > 0.0 || *key != "TRANSPORT_MSS")
            });
            let protocol = match values.text("PROTOCOL") {
                Some(protocol) => protocol,
                None if is_of_tcp => {
                    remarks.push(OF_TCP.to_owned());
                    "TCP"
                }
                None => return Err(values.lacks("PROTOCOL")),
            };
            let way = values.text("DIRECTION").or(title.strip_prefix("OMNI ")).unwrap_or_default();
            let kind = match (protocol, transactional) {
                ("TCP", false) => Protocol::Stream,
                ("UDP", false) => Protocol::UdpStream,
                ("TCP", true) if way.starts_with("Connection") => Protocol::ConnectRequestResponse,
                ("TCP", true) => Protocol::RequestResponse,
                ("UDP", true) => Protocol::UdpRequestResponse,
                (other, _) => {
                    let found = format!("PROTOCOL is {:?}", super::shown(other));
                    return Err(ImportError::new(place(values.line), found, "TCP or UDP"));
                }
            };
            let direction = match way {
                "Send" => Direction::Transmit,
                "Receive" | "Recv" => Direction::Receive,
                _ if transactional => Direction::Transmit,
                other => {
                    let found = format!("DIRECTION is {:?}", super::shown(other));
                    return Err(ImportError::new(place(values.line), found, "Send or Receive"));
                }
            };
            ("omni", kind, direction)
        }
    };
    let mut asked = asked_by(banner, Asked::of(kind, direction));
    if values.may_be_sum {
        asked.connections = None;
        remarks.push(MAY_BE_SUM.to_owned());
    }
    if let Some(nodelay) = values.number("LOCAL_NODELAY")?.filter(|_| !kind.is_udp()) {
        asked.nodelay = Some(nodelay > 0.0);
    }
    asked.socket = match values.text("LSS_SIZE_REQ") {
        Some("-1") => Some(0),
        _ => values.whole("LSS_SIZE_REQ")?,
    };
    let mut found = Found {
        seconds: values.number("ELAPSED_TIME")?,
        cpu_percent: values.number("LOCAL_CPU_UTIL")?,
        client_cpu_percent: values.number("REMOTE_CPU_UTIL")?,
        service_demand_us: values.number("LOCAL_SD")?,
        granted_send_buffer_bytes: values.whole("LSS_SIZE_END")?,
        granted_receive_buffer_bytes: values.whole("LSR_SIZE_END")?,
        mss_bytes: values
            .whole("TRANSPORT_MSS")?
            .filter(|mss| *mss > 0)
            .and_then(|mss| mss.try_into().ok()),
        ..Found::default()
    };
    let receives = direction == Direction::Receive;
    if !kind.is_udp() {
        let key = if receives { "REMOTE_TRANSPORT_RETRANS" } else { "LOCAL_TRANSPORT_RETRANS" };
        found.retransmits = values.whole(key)?;
        let key = if receives { "REMOTE_CONG_CONTROL" } else { "LOCAL_CONG_CONTROL" };
        asked.congestion = values.text(key).map(super::shown);
    } else {
        found.mss_bytes = None;
    }
    if transactional {
        found.transactions_per_second = Some(rate);
        asked.request = values.whole("REQUEST_SIZE")?.filter(|size| *size > 0);
        asked.response = values.whole("RESPONSE_SIZE")?.filter(|size| *size > 0);
        if let Some(more) = values.whole("BURST_SIZE")?.and_then(|more| u32::try_from(more).ok()) {
            asked.burst = more.checked_add(1);
        }
        let ns = |key| Ok(values.number(key)?.map(|us: f64| (us * 1e3).round() as u64));
        let latency = LatencyFigures {
            mean_ns: values.number("MEAN_LATENCY")?.map(|us| us * 1e3),
            min_ns: ns("MIN_LATENCY")?,
            p50_ns: ns("P50_LATENCY")?,
            p90_ns: ns("P90_LATENCY")?,
            p99_ns: ns("P99_LATENCY")?,
            max_ns: ns("MAX_LATENCY")?,
            ..LatencyFigures::default()
        };
        found.latency = Some(latency).filter(|latency| latency.is_known() && !values.may_be_sum);
    } else {
        let unit = bits_per_unit(units).ok_or_else(|| {
            let found = format!("THROUGHPUT_UNITS is {:?}", super::shown(units));
            ImportError::new(place(values.line), found, "a unit such as 10^6bits/s or MBytes/s")
        })?;
        let key = if receives { "REMOTE_SEND_SIZE" } else { "LOCAL_SEND_SIZE" };
        asked.message = values.whole(key)?.filter(|size| *size > 0);
        // of datagrams too it is what the receiver had
        match receives {
            true => found.receive_bits_per_second = Some(rate * unit),
            false => found.transmit_bits_per_second = Some(rate * unit),
        }
    }
    Ok(Imported { remarks, ..run_of(file, "netperf", test, asked, found) })
}

#[cfg(test)]
mod tests {
    use super::super::netperf::read;
    use super::*;

    macro_rules! recorded {
        ($name:literal) => {
            read("f", include_str!(concat!("../../tests/recorded/", $name)))
        };
    }

    #[test]
    fn csv_and_keywords_are_read() {
        let csv = recorded!("omni_all.csv").unwrap().remove(0);
        assert_eq!(csv.found.transmit_bits_per_second, Some(9057.54e6));
        assert_eq!((csv.found.cpu_percent, csv.found.mss_bytes), (None, Some(65_483)));
        assert_eq!((csv.asked.congestion.as_deref(), csv.asked.socket), (Some("bbr"), Some(0)));
        let keyed = recorded!("omni_rr_all.keyval").unwrap().remove(0);
        assert_eq!(keyed.asked.kind, Protocol::RequestResponse);
        let latency = keyed.found.latency.unwrap();
        assert_eq!((latency.p99_ns, latency.mean_ns), (Some(146_000), Some(86_920.0)));
        assert_eq!((latency.p99_9_ns, keyed.found.service_demand_us), (None, None));
        let few = recorded!("tcp_rr_o.csv").unwrap().remove(0);
        assert_eq!(
            (few.test.as_str(), few.found.transactions_per_second),
            ("TCP_RR", Some(10_699.34))
        );
        let datagrams = recorded!("udp_stream.keyval").unwrap().remove(0);
        assert_eq!(datagrams.asked.kind, Protocol::UdpStream);
        // what the client had sent were 5,111.06
        assert_eq!(datagrams.found.transmit_bits_per_second, Some(5094.83e6));
    }

    #[test]
    fn columns_are_read_by_their_titles() {
        let table = "\
            MIGRATED TCP REQUEST/RESPONSE TEST from 192.0.2.1 () port 0 AF_INET to 192.0.2.7 ()\n\
            Minimum      Elapsed Mean         Throughput \n\
            Latency      Time    Latency                 \n\
            Microseconds (sec)   Microseconds            \n\
            26           10.00   59.52        16597.51   \n";
        let run = read("f", table).unwrap().remove(0);
        assert_eq!(run.found.transactions_per_second, Some(16_597.51));
        let latency = run.found.latency.unwrap();
        assert_eq!((latency.min_ns, latency.mean_ns), (Some(26_000), Some(59_520.0)));
        assert_eq!((run.found.seconds, run.remarks), (Some(10.0), vec![NO_UNITS.to_owned()]));
        // the unit of a stream's rate is not guessed
        let error = read("f", &table.replace("REQUEST/RESPONSE", "STREAM")).unwrap_err();
        assert!(error.to_string().contains("no THROUGHPUT_UNITS"), "{error}");
        let error = read("f", &table.replace("Throughput", "Goodput   ")).unwrap_err().to_string();
        assert!(error.contains("no THROUGHPUT, expected"), "{error}");
    }

    #[test]
    fn a_sum_has_no_number_of_connections() {
        let text = "TCP REQUEST/RESPONSE TEST from a () port 0 AF_INET to b () port 0 AF_INET\n\
                    P99_LATENCY=34\nTHROUGHPUT=18424.37\nTHROUGHPUT_UNITS=Trans/s\n";
        let sum = read("f", text).unwrap().remove(0);
        assert_eq!((sum.asked.connections, sum.found.latency), (None, None));
        assert_eq!(sum.remarks, [MAY_BE_SUM]);
        let one = read("f", &format!("{text}ELAPSED_TIME=10.0\n")).unwrap().remove(0);
        assert_eq!((one.asked.connections, one.remarks.len()), (Some(1), 0));
        assert_eq!(one.found.latency.unwrap().p99_ns, Some(34_000));
    }

    #[test]
    fn what_only_tcp_has_names_the_protocol() {
        let text = "OMNI Send TEST from a () port 20001 AF_INET6 to b () port 20001 AF_INET6\n\
                    Throughput,Throughput Units,Elapsed Time (sec),Local Transport Retransmissions\n\
                    9078.01,10^6bits/s,30.00,4852\n";
        let run = read("f", text).unwrap().remove(0);
        assert_eq!((run.asked.kind, run.found.retransmits), (Protocol::Stream, Some(4852)));
        assert_eq!(run.asked.family, Some(linkrate_model::Family::Ipv6));
        assert_eq!(run.remarks, [OF_TCP]);
        let error = read("f", &text.replace("4852", "-1")).unwrap_err().to_string();
        assert!(error.contains("no PROTOCOL"), "{error}");
    }

    #[test]
    fn a_test_of_no_known_protocol_is_refused() {
        let error = recorded!("omni_recv_default.csv").unwrap_err().to_string();
        assert_eq!(error, "line 1: no PROTOCOL, expected PROTOCOL among the outputs");
    }
}
