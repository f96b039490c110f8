//! Documents of `iperf3 -J`, one or several after each other, and the events of `--json-stream`.
//!
//! Facts: the documents of iperf 3.12, and of older versions as far as they differ. The client's document is the
//! same at a reversed test: `reverse` says that the server sends. A server writes the same document, with
//! `accepted_connection` in place of `connecting_to`.

use std::collections::BTreeMap;

use linkrate_model::imported::{Asked, Found, MAX_SAMPLES, MAX_SERIES, Series};
use linkrate_model::{Direction, Family, Imported, Protocol};
use serde_json::value::RawValue;

use super::documents::{Part, Parts};
use super::{Beside, ImportError, MAX_RUNS, MAX_TEXT, family_of, run_of, too_many};
use crate::json::{Fields, JsonError, number};

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
pub(super) fn read(file: &str, parts: Parts<'_>) -> Result<Vec<Imported>, ImportError> {
    let tests = tests(parts)?;
    let several = tests.len() > 1;
    let runs = tests.into_iter().zip(1..).map(|(test, number)| {
        let place = several.then(|| format!("document {number}"));
        let mut run = run(file, place, &test.document)?;
        run.remarks.extend(test.beside.remarks());
        Ok(run)
    });
    runs.collect()
}

/// What a file has of one test.
struct Test<'a> {
    document: Document<'a>,
    /// Lines behind it; of the first test, those before it too.
    beside: Beside,
}

/// What one test reported.
enum Document<'a> {
    /// One document of `-J`.
    Whole(&'a RawValue),
    /// The events of `--json-stream`: what a document would have besides its intervals, and each of these.
    Events { fields: Fields<'a>, intervals: Vec<&'a RawValue> },
}

/// The name of the test of a document.
fn cookie(fields: &Fields) -> Option<String> {
    fields.object("start").ok()??.text("cookie", MAX_TEXT).ok()?
}

/// The tests of a file.
fn tests(parts: Parts<'_>) -> Result<Vec<Test<'_>>, ImportError> {
    let mut found: Vec<Test<'_>> = Vec::new();
    let mut before = Beside::default();
    let mut events = false;
    let mut number = 0;
    for part in parts {
        let value = match (part?, found.last_mut()) {
            (Part::Document(value), _) => value,
            (Part::Line(line), Some(last)) => {
                last.beside.add(&line);
                continue;
            }
            (Part::Line(line), None) => {
                before.add(&line);
                continue;
            }
        };
        number += 1;
        let place = format!("document {number}");
        let object = Fields::of(value).map_err(ImportError::at(&place))?;
        let mut begin =
            |document| found.push(Test { document, beside: std::mem::take(&mut before) });
        match (object.text("event", MAX_TEXT).ok().flatten(), object.get("data")) {
            (Some(event), Some(data)) => {
                events = true;
                if event == "start" {
                    begin(Document::Events { fields: Fields::default(), intervals: Vec::new() });
                }
                let Some(Document::Events { fields, intervals }) =
                    found.last_mut().map(|test| &mut test.document)
                else {
                    let found = format!("event {event:?}");
                    return Err(ImportError::new(place, found, "event \"start\" first"));
                };
                match event.as_str() {
                    "interval" => intervals.push(data),
                    "start" | "end" | "error" => fields.set(&event, data),
                    _ => {}
                }
            }
            _ if events => {
                // --json-stream-full-output writes the document of its events too
                let name = cookie(&object);
                let is_same = |test: &&mut Test<'_>| match &test.document {
                    Document::Events { fields, .. } => name.is_some() && cookie(fields) == name,
                    Document::Whole(_) => false,
                };
                let Some(last) = found.last_mut().filter(is_same) else {
                    let expected = "an event of iperf3 --json-stream";
                    return Err(ImportError::new(place, "no event", expected));
                };
                last.document = Document::Whole(value);
            }
            _ => begin(Document::Whole(value)),
        }
        if found.len() > MAX_RUNS {
            return Err(too_many());
        }
    }
    if found.is_empty() {
        return Err(ImportError::of_file("no document", "the JSON of iperf3 -J"));
    }
    Ok(found)
}

/// Sentences on what a document has and cannot be. It is not known then: iperf3 is known to get some figures wrong.
#[derive(Default)]
struct Doubts(Vec<String>);

impl Doubts {
    /// The value, if it can be.
    fn known<T>(&mut self, place: &str, read: Result<Option<T>, JsonError>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.add(place, &error);
            None
        })
    }

    fn add(&mut self, place: &str, what: &dyn std::fmt::Display) {
        self.0.push(format!("{place}: {what}; it is not known."));
    }
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
    let mut doubts = Doubts::default();
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
    let forward = sums(&end, false, is_udp, &part("end"), &mut doubts)?;
    let backward = sums(&end, true, is_udp, &part("end"), &mut doubts)?;
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
    let known = |rate: Option<f64>| rate.filter(|rate| !is_server || *rate > 0.0);
    let (of_start, of_test) = (part("start"), part("start.test_start"));
    let duration = doubts.known(&of_test, test.number("duration"));
    let duration = duration.filter(|seconds| *seconds > 0.0);
    let mut count = |key| doubts.known(&of_start, start.whole(key, 0, MAX_COUNT));
    let found = Found {
        seconds: duration.or(forward.seconds),
        transmit_bits_per_second: transmit.and_then(|sums| known(sums.bits_per_second)),
        receive_bits_per_second: receive.and_then(|sums| known(sums.bits_per_second)),
        sent_datagrams: both(|sums| sums.packets).filter(|_| is_udp),
        lost_datagrams: both(|sums| sums.lost).filter(|_| is_udp),
        retransmits: both(|sums| sums.retransmits).filter(|_| !is_udp),
        granted_send_buffer_bytes: count("sndbuf_actual"),
        granted_receive_buffer_bytes: count("rcvbuf_actual"),
        ..Found::default()
    };
    let socket = count("sock_bufsize");
    let connections = doubts.known(&of_test, test.whole("num_streams", 1, MAX_STREAMS));
    let asked = Asked {
        family: family(&start).map_err(&in_start)?,
        connections: connections.and_then(|count| u32::try_from(count).ok()),
        message: doubts.known(&of_test, test.whole("blksize", 1, MAX_BLOCK)),
        socket,
        congestion: end
            .text("sender_tcp_congestion", MAX_TEXT)
            .map_err(&in_end)?
            .filter(|_| !is_udp),
        rate: doubts.known(&of_test, test.whole("target_bitrate", 0, MAX_COUNT)),
        warm_up_seconds: doubts.known(&of_test, test.number("omit")),
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
    // `iperf 3.12`: the factor of cells is the word before the number
    let program =
        version.map_or("iperf3".to_owned(), |version| version.replacen("iperf ", "iperf3 ", 1));
    let test = match bidirectional {
        true => format!("{protocol} both ways"),
        false => protocol,
    };
    let mut remarks = doubts.0;
    if has_cpu {
        remarks.insert(0, OWN_CPU.to_owned());
    }
    Ok(Imported {
        cookie: start.text("cookie", MAX_TEXT).map_err(&in_start)?,
        started_unix_ms: began.map_err(&in_start)?.flatten().map(|seconds| seconds * 1000),
        series,
        facts,
        remarks,
        place,
        ..run_of(file, &program, &test, asked, found)
    })
}

/// The IP of the first stream.
fn family(start: &Fields) -> Result<Option<Family>, JsonError> {
    let first = start.items("connected")?.next().and_then(|first| Fields::of(first).ok());
    let host = first.map(|first| first.text("local_host", MAX_TEXT)).transpose()?.flatten();
    Ok(host.and_then(|host| host.parse().ok()).map(family_of))
}

/// The sums of one way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sums {
    /// Payload that was received.
    bits_per_second: Option<f64>,
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
    doubts: &mut Doubts,
) -> Result<Option<Sums>, ImportError> {
    let keys: [&'static str; 3] = match backward {
        false => ["sum_received", "sum_sent", "sum"],
        true => ["sum_received_bidir_reverse", "sum_sent_bidir_reverse", "sum_bidir_reverse"],
    };
    let [received, sent, sum] = keys;
    let fields = |key| end.object(key).map_err(ImportError::at(place));
    let (of_receiver, of_sender, of_both) = (fields(received)?, fields(sent)?, fields(sum)?);
    let part = |key: &str| format!("{place}.{key}");
    let counts = of_both.clone().unwrap_or_default();
    let packets = doubts.known(&part(sum), counts.whole("packets", 0, MAX_COUNT));
    let mut lost = doubts.known(&part(sum), counts.whole("lost_packets", 0, MAX_COUNT));
    if let (Some(many), Some(all)) = (lost, packets)
        && many > all
    {
        doubts.add(&part(sum), &format!("field \"lost_packets\" is {many} of {all} packets"));
        lost = None;
    }
    let (fields, key) = match (&of_receiver, &of_both) {
        (Some(fields), _) => (fields, received),
        // versions before 3.7 report on UDP what was sent, and how many datagrams of one size were lost
        (None, Some(fields)) if is_udp => (fields, sum),
        _ => return Ok(None),
    };
    if fields.get("bits_per_second").is_none() {
        let expected = "a number from 0";
        return Err(ImportError::new(part(key), "no field \"bits_per_second\"", expected));
    }
    let mut rate = doubts.known(&part(key), fields.number("bits_per_second"));
    if let Some(below) = rate.filter(|rate| *rate < 0.0) {
        doubts.add(&part(key), &format!("field \"bits_per_second\" is {below}"));
        rate = None;
    }
    let arrived = match (of_receiver.is_some(), packets, lost) {
        (true, ..) => Some(1.0),
        (false, Some(packets), Some(lost)) if packets > 0 => {
            Some(packets.saturating_sub(lost) as f64 / packets as f64)
        }
        // without a count of losses, what was sent is what is known
        (false, ..) if counts.get("lost_packets").is_none() => Some(1.0),
        (false, ..) => None,
    };
    let seconds = doubts.known(&part(key), fields.number("seconds"));
    Ok(Some(Sums {
        bits_per_second: rate.zip(arrived).map(|(rate, arrived)| rate * arrived),
        seconds: seconds.filter(|seconds| *seconds > 0.0),
        packets,
        lost,
        retransmits: of_sender.and_then(|fields| retransmits(&fields, &part(sent), doubts)),
    }))
}

/// Segments that were sent again. iperf3 has −1 for each stream where it does not know, and prints the sum also as a number
/// without a sign, of 32 or 64 bits.
fn retransmits(fields: &Fields, place: &str, doubts: &mut Doubts) -> Option<u64> {
    let is_unknown = |count: f64| {
        let below = |bits: i32| {
            let end = 2_f64.powi(bits);
            (end - MAX_STREAMS as f64..=end).contains(&count)
        };
        count < 0.0 || below(32) || below(64)
    };
    match fields.get("retransmits").map(|count| (count.get(), number(count))) {
        Some((text, Some(count))) if is_unknown(count) => {
            let text = super::shown(text);
            doubts.add(
                place,
                &format!("field \"retransmits\" is {text}, a sum of -1 for each stream"),
            );
            None
        }
        _ => doubts.known(place, fields.whole("retransmits", 0, MAX_COUNT)),
    }
}

/// The rate of each stream over time, without the intervals that the test omitted.
fn series<'a>(
    intervals: impl Iterator<Item = &'a RawValue>,
    place: &str,
) -> Result<Vec<Series>, ImportError> {
    let mut all: Vec<Series> = Vec::new();
    let mut by_socket = BTreeMap::new();
    for (interval, index) in intervals.zip(1..) {
        let at = ImportError::at(&format!("{place}[{index}]"));
        let interval = Fields::of(interval).map_err(&at)?;
        for stream in interval.items("streams").map_err(&at)? {
            let stream = Fields::of(stream).map_err(&at)?;
            if stream.switch("omitted") {
                continue;
            }
            let socket = stream.whole("socket", 0, MAX_COUNT).map_err(&at)?;
            let end = stream.get("end").and_then(number);
            let rate = stream.get("bits_per_second").and_then(number);
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

    fn read(file: &str, bytes: &[u8]) -> Result<Vec<Imported>, ImportError> {
        super::read(file, Parts::of(bytes))
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
            let run = one(text.as_bytes());
            assert_eq!(run.found.retransmits, None, "{count}");
            let remark = run.remarks.last().unwrap();
            assert!(remark.starts_with("end.sum_sent: field \"retransmits\" is"), "{remark}");
        }
    }

    #[test]
    fn what_cannot_be_is_not_known_and_said() {
        let mut document: Value = serde_json::from_slice(recorded!("udp")).unwrap();
        let changed = |place: &str, value: Value, said: &str| {
            let mut document = document.clone();
            *document.pointer_mut(place).unwrap() = value;
            let run = one(document.to_string().as_bytes());
            assert!(run.remarks.iter().any(|remark| remark.contains(said)), "{:?}", run.remarks);
            (run.found, run.asked)
        };
        for (lost, said) in [
            ((-3).into(), "end.sum: field \"lost_packets\" is -3, expected"),
            (383.into(), "end.sum: field \"lost_packets\" is 383 of 382 packets; it is not known."),
            (Value::Null, "is null, expected"),
        ] {
            let (found, _) = changed("/end/sum/lost_packets", lost, said);
            assert_eq!((found.sent_datagrams, found.lost_datagrams), (Some(382), None));
            assert!(found.bits_per_second().is_some());
        }
        let (_, asked) = changed("/start/test_start/blksize", Value::Null, "\"blksize\" is null");
        assert_eq!(asked.message, None);
        let (found, _) = changed(
            "/end/sum_received/bits_per_second",
            (-1).into(),
            "\"bits_per_second\" is -1; it is not known",
        );
        assert_eq!(found.bits_per_second(), None);
        // before 3.7 what arrived comes from what was lost
        let end = document["end"].as_object_mut().unwrap();
        end.remove("sum_received");
        end["sum"]["lost_packets"] = (-1).into();
        let run = one(document.to_string().as_bytes());
        assert_eq!(run.found.bits_per_second(), None);
    }

    #[test]
    fn lines_around_documents_are_said_and_numbers_that_are_none_are_not_known() {
        let text = String::from_utf8_lossy(recorded!("udp")).into_owned();
        let whole = |text: String| super::super::read("f", text.as_bytes()).unwrap();
        let run =
            whole(format!("warning: a \"large\" block\n{text}\niperf3: error - broken pipe\n"));
        let expected = [
            "The file also has the line \"warning: a \\\"large\\\" block\".",
            "The file also has the line \"iperf3: error - broken pipe\".",
        ];
        assert_eq!(run[0].remarks[1..], expected);
        let run = whole(text.replacen("\"lost_percent\":\t0", "\"lost_percent\":\t-nan", 9));
        assert!(run[0].remarks.last().unwrap().contains("\"nan\""), "{:?}", run[0].remarks);
        // a list of documents, as some write that keep them
        let runs = whole(format!("\u{feff}[{text},{text}]"));
        assert_eq!((runs.len(), runs[1].place.as_deref()), (2, Some("document 2")));
        let utf16: Vec<u8> =
            format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(super::super::read("f", &utf16).unwrap(), whole(text));
    }

    #[test]
    fn a_test_that_moved_nothing_is_no_run() {
        let mut document: Value = serde_json::from_slice(recorded!("tcp")).unwrap();
        document["end"]["sum_received"]["bits_per_second"] = 0.into();
        let error = super::super::read("f", document.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "a rate of 0, expected a test that transferred data");
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
        // --json-stream-full-output has the document behind its events
        let both = [events.as_bytes(), recorded!("tcp")].concat();
        assert_eq!(one(&both), one(recorded!("tcp")));
        let other = [events.as_bytes(), recorded!("udp")].concat();
        assert!(read("f", &other).unwrap_err().to_string().contains("no event"));
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
