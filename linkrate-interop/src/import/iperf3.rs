//! Documents of `iperf3 -J`, one or several after each other, and the events of `--json-stream`.
//!
//! Facts: the documents of iperf 3.12, and of older versions as far as they differ. The client's document is the
//! same at a reversed test: `reverse` says that the server sends. A server writes the same document, with
//! `accepted_connection` in place of `connecting_to`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linkrate_model::imported::{Asked, Found, MAX_SAMPLES, MAX_SERIES, Series};
use linkrate_model::{Direction, Family, Imported, Protocol};
use serde_json::value::RawValue;

use super::{ImportError, MAX_RUNS, MAX_TEXT};
use crate::json::{Fields, JsonError};

/// Most streams of one test: iperf3 allows 128.
const MAX_STREAMS: u64 = 1024;

/// Most bytes of a block.
const MAX_BLOCK: u64 = 1 << 40;

/// The largest number of anything that is counted.
const MAX_COUNT: u64 = 1 << 53;

/// What a reader must know of the CPU figures, which are not imported.
const OWN_CPU: &str = "iperf3 reports the CPU time of its own processes, and not that of a host with its \
                       interrupts; it does not count as the CPU use of the system under test.";

/// The runs of a file.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
    let documents = documents(bytes)?;
    let several = documents.len() > 1;
    let runs = documents.iter().zip(1..).map(|(document, number)| {
        let place = several.then(|| format!("document {number}"));
        run(file, place, document)
    });
    runs.collect()
}

/// What one test reported.
enum Document<'a> {
    /// One document of `-J`.
    Whole(&'a RawValue),
    /// The events of `--json-stream`: what a document would have besides its intervals, and each of these.
    Events { fields: Fields<'a>, intervals: Vec<&'a RawValue> },
}

/// The documents of a file.
fn documents(bytes: &[u8]) -> Result<Vec<Document<'_>>, ImportError> {
    let mut found = Vec::new();
    let mut events = false;
    for (value, number) in serde_json::Deserializer::from_slice(bytes).into_iter().zip(1..) {
        let place = format!("document {number}");
        let value: &RawValue = value.map_err(|error: serde_json::Error| {
            ImportError::of_file(error.to_string(), "the JSON of iperf3 -J")
        })?;
        let object = Fields::of(value).map_err(ImportError::at(&place))?;
        match (object.text("event", MAX_TEXT).ok().flatten(), object.get("data")) {
            (Some(event), Some(data)) => {
                events = true;
                if event == "start" {
                    found.push(Document::Events {
                        fields: Fields::default(),
                        intervals: Vec::new(),
                    });
                }
                let Some(Document::Events { fields, intervals }) = found.last_mut() else {
                    return Err(ImportError::new(
                        place,
                        format!("event {event:?}"),
                        "event \"start\" first",
                    ));
                };
                match event.as_str() {
                    "interval" => intervals.push(data),
                    "start" | "end" | "error" => fields.set(&event, data),
                    _ => {}
                }
            }
            _ if events => {
                return Err(ImportError::new(
                    place,
                    "no event",
                    "an event of iperf3 --json-stream",
                ));
            }
            _ => found.push(Document::Whole(value)),
        }
        if found.len() > MAX_RUNS {
            return Err(ImportError::of_file("more runs", format!("at most {MAX_RUNS} in a file")));
        }
    }
    if found.is_empty() {
        return Err(ImportError::of_file("no document", "the JSON of iperf3 -J"));
    }
    Ok(found)
}

fn run<'a>(
    file: &str,
    place: Option<String>,
    document: &Document<'a>,
) -> Result<Imported, ImportError> {
    let part = |name: &str| match &place {
        Some(place) => format!("{place}, {name}"),
        None => name.to_owned(),
    };
    let whole = place.clone().unwrap_or_default();
    let at = ImportError::at(&whole);
    let (document, intervals) = match document {
        Document::Whole(value) => (Fields::of(value).map_err(&at)?, None),
        Document::Events { fields, intervals } => (fields.clone(), Some(intervals)),
    };
    if let Some(error) = document.text("error", 10 * MAX_TEXT).map_err(&at)? {
        return Err(ImportError {
            place: place.clone(),
            found: format!("field \"error\" is {:?}", super::shown(&error)),
            expected: "a test that ended without an error".to_owned(),
        });
    }
    let section = |fields: &Fields<'a>, path: &str, key: &'static str| {
        let found = fields.object(key).map_err(ImportError::at(&part(path)))?;
        found.ok_or_else(|| ImportError {
            place: Some(part(path)),
            found: format!("no {key:?}"),
            expected: "the JSON of iperf3 -J".to_owned(),
        })
    };
    let start = section(&document, "top level", "start")?;
    let end = section(&document, "top level", "end")?;
    let test = section(&start, "start", "test_start")?;
    let in_start = ImportError::at(&part("start"));
    let in_test = ImportError::at(&part("start.test_start"));
    let in_end = ImportError::at(&part("end"));

    let protocol = test.text("protocol", MAX_TEXT).map_err(&in_test)?.unwrap_or_default();
    let kind = match protocol.as_str() {
        "TCP" => Protocol::Stream,
        "UDP" => Protocol::UdpStream,
        other => {
            return Err(ImportError::new(
                part("start.test_start"),
                format!("field \"protocol\" is {other:?}"),
                "\"TCP\" or \"UDP\"",
            ));
        }
    };
    let is_server = start.object("accepted_connection").map_err(&in_start)?.is_some();
    let is_udp = kind == Protocol::UdpStream;
    let forward = sums(&end, false, is_udp, &part("end"))?;
    let backward = sums(&end, true, is_udp, &part("end"))?;
    let bidirectional = backward.is_some() || test.switch("bidir");
    // the client sends unless the test is reversed; "forward" is the client's way in a test of both
    let client_sends = bidirectional || !test.switch("reverse");
    let direction = match (bidirectional, client_sends != is_server) {
        (true, _) => Direction::Bidirectional,
        (false, true) => Direction::Transmit,
        (false, false) => Direction::Receive,
    };
    let forward = forward.ok_or_else(|| ImportError {
        place: Some(part("end")),
        found: "no \"sum_received\" and no \"sum\"".to_owned(),
        expected: "the sums of a test that ended".to_owned(),
    })?;
    let (transmit, receive) = match (direction, &backward) {
        (Direction::Transmit, _) => (Some(&forward), None),
        (Direction::Receive, _) => (None, Some(&forward)),
        // a server calls the way of its own client forward too
        (Direction::Bidirectional, backward) if is_server => (backward.as_ref(), Some(&forward)),
        (Direction::Bidirectional, backward) => (Some(&forward), backward.as_ref()),
    };
    let both = |pick: fn(&Sums) -> Option<u64>| {
        let all = [Some(&forward), backward.as_ref()].into_iter().flatten().map(pick);
        all.collect::<Option<Vec<u64>>>().map(|all| all.into_iter().fold(0, u64::saturating_add))
    };
    // a server that the client told nothing of its end writes 0
    let known = |rate: f64| Some(rate).filter(|rate| !is_server || *rate > 0.0);
    let duration = test.number("duration").map_err(&in_test)?.filter(|seconds| *seconds > 0.0);
    let found = Found {
        seconds: duration.or(forward.seconds),
        transmit_bits_per_second: transmit.and_then(|sums| known(sums.bits_per_second)),
        receive_bits_per_second: receive.and_then(|sums| known(sums.bits_per_second)),
        sent_datagrams: both(|sums| sums.packets).filter(|_| is_udp),
        lost_datagrams: both(|sums| sums.lost).filter(|_| is_udp),
        retransmits: both(|sums| sums.retransmits).filter(|_| !is_udp),
        granted_send_buffer_bytes: start.whole("sndbuf_actual", 0, MAX_COUNT).map_err(&in_start)?,
        granted_receive_buffer_bytes: start
            .whole("rcvbuf_actual", 0, MAX_COUNT)
            .map_err(&in_start)?,
        ..Found::default()
    };
    let connections = test.whole("num_streams", 1, MAX_STREAMS).map_err(&in_test)?;
    let asked = Asked {
        family: family(&start).map_err(&in_start)?,
        connections: connections.and_then(|count| u32::try_from(count).ok()),
        message: test.whole("blksize", 1, MAX_BLOCK).map_err(&in_test)?,
        socket: start.whole("sock_bufsize", 0, MAX_COUNT).map_err(&in_start)?,
        congestion: end
            .text("sender_tcp_congestion", MAX_TEXT)
            .map_err(&in_end)?
            .filter(|_| !is_udp),
        rate: test.whole("target_bitrate", 0, MAX_COUNT).map_err(&in_test)?,
        warm_up_seconds: test.number("omit").map_err(&in_test)?,
        ..Asked::of(kind, direction)
    };
    let version = start.text("version", MAX_TEXT).map_err(&in_start)?;
    let began = start.object("timestamp").map_err(&in_start)?;
    let began = began.map(|time| time.whole("timesecs", 0, MAX_COUNT / 1000)).transpose();
    let mut facts = BTreeMap::new();
    if let Some(system) = start.text("system_info", 10 * MAX_TEXT).map_err(&in_start)? {
        // the words of uname(1): system, host, release
        let mut words = system.split_whitespace();
        if let (Some("Linux"), Some(release)) = (words.next(), words.nth(1)) {
            facts.insert("kernel".to_owned(), release.to_owned());
        }
    }
    let in_intervals = part("intervals");
    let series = match intervals {
        Some(all) => series(all.iter().copied(), &in_intervals)?,
        None => {
            let all = document.items("intervals").map_err(ImportError::at(&in_intervals))?;
            series(all, &in_intervals)?
        }
    };
    let has_cpu = end.object("cpu_utilization_percent").map_err(&in_end)?.is_some();
    Ok(Imported {
        file: file.to_owned(),
        program: version.map_or("iperf3".to_owned(), |version| {
            // `iperf 3.12`: the factor of cells is the word before the number
            version.replacen("iperf ", "iperf3 ", 1)
        }),
        test: match bidirectional {
            true => format!("{protocol} both ways"),
            false => protocol,
        },
        cookie: start.text("cookie", MAX_TEXT).map_err(&in_start)?,
        started_unix_ms: began.map_err(&in_start)?.flatten().map(|seconds| seconds * 1000),
        asked,
        found,
        series,
        facts,
        remarks: if has_cpu { vec![OWN_CPU.to_owned()] } else { Vec::new() },
        place,
    })
}

/// The IP of the first stream.
fn family(start: &Fields) -> Result<Option<Family>, JsonError> {
    let first = start.items("connected")?.next().and_then(|first| Fields::of(first).ok());
    let host = first.map(|first| first.text("local_host", MAX_TEXT)).transpose()?.flatten();
    let address = host.and_then(|host| host.parse::<IpAddr>().ok());
    Ok(address.map(|address| match address.to_canonical().is_ipv4() {
        true => Family::Ipv4,
        false => Family::Ipv6,
    }))
}

/// The sums of one way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sums {
    /// Payload that was received.
    bits_per_second: f64,
    seconds: Option<f64>,
    packets: Option<u64>,
    lost: Option<u64>,
    retransmits: Option<u64>,
}

/// The sums of the client's way, or of the other one in a test of both; `None` where there are none.
fn sums(
    end: &Fields,
    backward: bool,
    is_udp: bool,
    place: &str,
) -> Result<Option<Sums>, ImportError> {
    let keys: [&'static str; 3] = match backward {
        false => ["sum_received", "sum_sent", "sum"],
        true => ["sum_received_bidir_reverse", "sum_sent_bidir_reverse", "sum_bidir_reverse"],
    };
    let [received, sent, sum] = keys;
    let fields = |key| end.object(key).map_err(ImportError::at(place));
    let (of_receiver, of_sender, of_both) = (fields(received)?, fields(sent)?, fields(sum)?);
    let at = |key: &str| ImportError::at(&format!("{place}.{key}"));
    let count = |fields: &Option<Fields>, key: &str, name: &'static str| match fields {
        Some(fields) => fields.whole(name, 0, MAX_COUNT).map_err(at(key)),
        None => Ok(None),
    };
    let packets = count(&of_both, sum, "packets")?;
    let lost = count(&of_both, sum, "lost_packets")?;
    let (fields, key) = match (&of_receiver, &of_both) {
        (Some(fields), _) => (fields, received),
        // versions before 3.7 report on UDP what was sent, and how many datagrams of one size were lost
        (None, Some(fields)) if is_udp => (fields, sum),
        _ => return Ok(None),
    };
    let rate = fields.number("bits_per_second").map_err(at(key))?;
    let rate = rate.filter(|rate| *rate >= 0.0).ok_or_else(|| {
        ImportError::new(
            format!("{place}.{key}"),
            "no rate in field \"bits_per_second\"",
            "a number from 0",
        )
    })?;
    let arrived = match (of_receiver.is_some(), packets, lost) {
        (false, Some(packets), Some(lost)) if packets > 0 => {
            packets.saturating_sub(lost) as f64 / packets as f64
        }
        _ => 1.0,
    };
    Ok(Some(Sums {
        bits_per_second: rate * arrived,
        seconds: fields.number("seconds").map_err(at(key))?.filter(|seconds| *seconds > 0.0),
        packets,
        lost,
        retransmits: retransmits(&of_sender, at(sent))?,
    }))
}

/// Segments that were sent again. iperf3 has −1 for each stream where it does not know, and prints the sum also as a number
/// without a sign, of 32 or 64 bits.
fn retransmits(
    of_sender: &Option<Fields>,
    at: impl Fn(JsonError) -> ImportError,
) -> Result<Option<u64>, ImportError> {
    let Some(fields) = of_sender else { return Ok(None) };
    let is_unknown = |count: f64| {
        let below = |bits: i32| {
            let end = 2_f64.powi(bits);
            (end - MAX_STREAMS as f64..=end).contains(&count)
        };
        count < 0.0 || below(32) || below(64)
    };
    match fields.number("retransmits").map_err(&at)? {
        Some(count) if is_unknown(count) => Ok(None),
        _ => fields.whole("retransmits", 0, MAX_COUNT).map_err(at),
    }
}

/// The rate of each stream over time, without the intervals that the test omitted.
fn series<'a>(
    intervals: impl Iterator<Item = &'a RawValue>,
    place: &str,
) -> Result<Vec<Series>, ImportError> {
    let mut all: Vec<Series> = Vec::new();
    let mut by_socket = BTreeMap::new();
    for (interval, number) in intervals.zip(1..) {
        let at = ImportError::at(&format!("{place}[{number}]"));
        let interval = Fields::of(interval).map_err(&at)?;
        for stream in interval.items("streams").map_err(&at)? {
            let stream = Fields::of(stream).map_err(&at)?;
            if stream.switch("omitted") {
                continue;
            }
            let socket = stream.whole("socket", 0, MAX_COUNT).map_err(&at)?;
            let end = stream.number("end").map_err(&at)?;
            let rate = stream.number("bits_per_second").map_err(&at)?;
            let (Some(socket), Some(end)) = (socket, end) else { continue };
            let index = match by_socket.get(&socket) {
                Some(index) => *index,
                None if all.len() < MAX_SERIES => {
                    let sends = stream.switch("sender");
                    let way = if sends { "transmit" } else { "receive" };
                    let name = format!("{way} {}", all.len() + 1);
                    by_socket.insert(socket, all.len());
                    all.push(Series { name, unit: "bit/s".to_owned(), samples: Vec::new() });
                    all.len() - 1
                }
                None => continue,
            };
            let samples = &mut all[index].samples;
            if samples.len() < MAX_SAMPLES {
                samples.push((end, rate));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    macro_rules! recorded {
        ($name:literal) => {
            include_bytes!(concat!("../../tests/recorded/iperf3_", $name, ".json"))
        };
    }

    fn one(bytes: &[u8]) -> Imported {
        let mut runs = read("f", bytes).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    #[test]
    fn a_test_has_its_name_and_the_family_of_its_streams() {
        let text = String::from_utf8_lossy(recorded!("tcp")).into_owned();
        let run = one(text.as_bytes());
        let cookie = run.cookie.unwrap();
        assert!(cookie.len() == 36 && text.contains(&cookie), "{cookie}");
        assert_eq!(run.asked.family, Some(Family::Ipv4));
        let over = |address: &str| one(text.replace("127.0.0.1", address).as_bytes()).asked.family;
        assert_eq!(over("fd00::1"), Some(Family::Ipv6));
        assert_eq!(over("::ffff:127.0.0.1"), Some(Family::Ipv4));
    }

    #[test]
    fn a_sum_of_minus_ones_is_not_known() {
        let text = String::from_utf8_lossy(recorded!("tcp")).into_owned();
        assert!(text.contains("\"retransmits\":\t23"), "{text}");
        for count in ["-1", "4294967295", "4294967294", "18446744073709551615"] {
            let text = text.replace("\"retransmits\":\t23", &format!("\"retransmits\":\t{count}"));
            assert_eq!(one(text.as_bytes()).found.retransmits, None, "{count}");
        }
    }

    #[test]
    fn a_test_that_moved_nothing_is_no_run() {
        let mut document: Value = serde_json::from_slice(recorded!("tcp")).unwrap();
        document["end"]["sum_received"]["bits_per_second"] = 0.into();
        let error = super::super::read("f", document.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "a rate of 0, expected a test that moved something");
    }

    #[test]
    fn directions_are_those_of_the_machine_that_wrote_the_file() {
        let sent = one(recorded!("tcp"));
        assert_eq!(sent.asked.direction, Direction::Transmit);
        assert_eq!(sent.found.transmit_bits_per_second, Some(18_818_523_332.563_858));
        assert_eq!((sent.found.retransmits, sent.found.receive_bits_per_second), (Some(23), None));
        assert_eq!((sent.program.as_str(), sent.found.cpu_percent), ("iperf3 3.12", None));
        let received = one(recorded!("reverse"));
        assert_eq!(received.asked.direction, Direction::Receive);
        assert!(received.found.receive_bits_per_second.is_some());
        let server = String::from_utf8_lossy(recorded!("tcp"))
            .replace("connecting_to", "accepted_connection");
        assert_eq!(one(server.as_bytes()).asked.direction, Direction::Receive);
        let both = one(recorded!("bidir"));
        assert_eq!(both.asked.direction, Direction::Bidirectional);
        assert_eq!(both.found.receive_bits_per_second, Some(1_859_739_788.006_203_4));
    }

    #[test]
    fn datagrams_have_losses_and_omitted_intervals_are_left_out() {
        let datagrams = one(recorded!("udp"));
        assert_eq!(datagrams.asked.kind, Protocol::UdpStream);
        assert_eq!(datagrams.found.sent_datagrams, Some(382));
        assert_eq!((datagrams.found.lost_datagrams, datagrams.found.retransmits), (Some(0), None));
        assert_eq!(datagrams.asked.rate, Some(100_000_000));
        let parallel = one(recorded!("parallel"));
        assert_eq!((parallel.asked.connections, parallel.series.len()), (Some(3), 3));
        assert_eq!(parallel.asked.warm_up_seconds, Some(1.0));
        assert!(
            parallel.series.iter().all(|series| series.samples.len() == 2),
            "{:?}",
            parallel.series
        );
    }

    #[test]
    fn events_are_put_together_and_documents_follow_each_other() {
        let whole: Value = serde_json::from_slice(recorded!("tcp")).unwrap();
        let mut events =
            format!("{}\n", serde_json::json!({"event": "start", "data": whole["start"]}));
        for interval in whole["intervals"].as_array().unwrap() {
            events += &format!("{}\n", serde_json::json!({"event": "interval", "data": interval}));
        }
        events += &serde_json::json!({"event": "end", "data": whole["end"]}).to_string();
        assert_eq!(one(events.as_bytes()), one(recorded!("tcp")));
        let two = [&recorded!("tcp")[..], &recorded!("udp")[..]].concat();
        let runs = read("f", &two).unwrap();
        assert_eq!(runs[1].place.as_deref(), Some("document 2"));
    }

    #[test]
    fn what_does_not_fit_names_its_field() {
        let error = |bytes: &[u8]| read("f", bytes).unwrap_err().to_string();
        assert!(error(recorded!("refused")).starts_with("field \"error\" is"));
        let text = String::from_utf8_lossy(recorded!("tcp"));
        let sctp = text.replace("\"TCP\"", "\"SCTP\"");
        assert_eq!(
            error(sctp.as_bytes()),
            "start.test_start: field \"protocol\" is \"SCTP\", expected \"TCP\" or \"UDP\""
        );
        assert!(error(b"{}").contains("no \"start\""));
        assert!(error(b"{\"start\":3}").contains("expected an object"));
        assert!(error(text[..900].as_bytes()).contains("EOF"));
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in 0usize..2600, byte in any::<u8>()) {
            let mut bytes = recorded!("tcp").to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = read("f", &bytes);
        }
    }
}
