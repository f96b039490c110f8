//! What each end tells the other one at the end of a test.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::streams::stream_id;
use crate::json::{Fields, JsonError};

/// Most octets of the document that is read.
pub const MAX_RESULT_BYTES: u32 = 1 << 20;
/// The same where the output of the server was asked for.
pub const MAX_OUTPUT_BYTES: u32 = 64 << 20;

/// Most marks before a value of a document, and beside them those of each stream. Each may be a value that takes
/// [`MARK_BYTES`] of memory when it is read.
const MAX_MARKS: usize = 256;
const MAX_MARKS_OF_STREAM: usize = 64;
const MARK_BYTES: u64 = 256;

/// Most streams of a test with both ways.
const MAX_STREAMS: usize = 256;
/// The largest number that a document has exactly.
const MAX_NUMBER: u64 = 1 << 53;
/// Most characters of the name of a congestion control.
const MAX_TEXT: usize = 128;

/// The results of one end.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// CPU time of its process, per cent of the test: all, user, system.
    pub cpu_percent: [f64; 3],
    /// Whether it knows how many segments it sent again; `None` if it sends nothing.
    pub knows_retransmits: Option<bool>,
    /// The congestion control of its sockets.
    pub congestion: Option<String>,
    pub streams: Vec<StreamResult>,
    /// What a server that a client has asked for its output has printed, a text or a document.
    pub server_output: Option<Value>,
}

/// One stream, as one end of it knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamResult {
    /// Its number ([`stream_id`]).
    pub id: u32,
    /// Octets that this end sent or received, without those of the beginning that is left out.
    pub bytes: u64,
    /// Segments that it sent again; `None` where it does not know, and of a receiver.
    pub retransmits: Option<u64>,
    /// Interarrival jitter of datagrams, s.
    pub jitter_seconds: f64,
    /// Datagrams that did not arrive.
    pub lost: u64,
    /// Those of the beginning that is left out; versions before 3.14 do not report.
    pub omitted_lost: u64,
    /// The highest number of a datagram.
    pub packets: u64,
    /// That at the end of the beginning that is left out; versions before 3.14 do not report.
    pub omitted_packets: u64,
    /// Length of the stream, s.
    pub seconds: f64,
}

/// Most marks of the results of so many streams.
fn most_marks(streams: u32) -> usize {
    MAX_MARKS + MAX_MARKS_OF_STREAM * streams as usize
}

impl Results {
    /// Reads the document of the peer of a test with `streams` streams. One with more values than those have is refused
    /// before they cost any memory.
    pub fn read(document: &[u8], streams: u32) -> Result<Self, JsonError> {
        let marks = document.iter().filter(|octet| b"{[,:".contains(octet)).count();
        match most_marks(streams) {
            most if marks > most => Err(JsonError::Values { found: marks, most }),
            _ => Self::parse(&Fields::parse(document)?, streams),
        }
    }

    /// The same of a server that was asked for its output, whose document may be as long as a test.
    pub fn read_with_output(document: &[u8], streams: u32) -> Result<Self, JsonError> {
        let fields = Fields::parse(document)?;
        let keys = ["server_output_json", "server_output_text"];
        let output = keys.into_iter().find_map(|key| fields.get(key));
        let output = output.map(|value| serde_json::from_str(value.get()));
        let malformed = |error: serde_json::Error| JsonError::Malformed(error.to_string());
        let server_output = output.transpose().map_err(malformed)?;
        Ok(Self { server_output, ..Self::parse(&fields, streams)? })
    }

    /// The most memory that reading those of so many streams takes, octets.
    pub(crate) fn most_memory(streams: u32) -> u64 {
        u64::from(MAX_RESULT_BYTES) + most_marks(streams) as u64 * MARK_BYTES
    }

    /// Reads the results of the peer of a test with `streams` streams, which must be those of the test.
    pub fn parse(fields: &Fields, streams: u32) -> Result<Self, JsonError> {
        let percent =
            |key| Ok(fields.number(key)?.filter(|percent| *percent >= 0.0).unwrap_or(0.0));
        let listed = fields.list("streams", MAX_STREAMS)?;
        let mut found = Vec::with_capacity(listed.len());
        for stream in listed {
            let stream = Fields::of(stream).map_err(|_| JsonError::Missing("id"))?;
            found.push(StreamResult::parse(&stream)?);
        }
        let mut ids: Vec<u32> = found.iter().map(|stream| stream.id).collect();
        ids.sort_unstable();
        if !ids.iter().copied().eq((0..streams).map(stream_id)) {
            return Err(JsonError::Field {
                key: "streams",
                found: format!("{ids:?}"),
                expected: format!("the {streams} streams of the test"),
            });
        }
        Ok(Self {
            cpu_percent: [
                percent("cpu_util_total")?,
                percent("cpu_util_user")?,
                percent("cpu_util_system")?,
            ],
            knows_retransmits: match fields.number("sender_has_retransmits")? {
                Some(0.0) => Some(false),
                Some(known) if known > 0.0 => Some(true),
                _ => None,
            },
            congestion: fields.text("congestion_used", MAX_TEXT)?,
            streams: found,
            server_output: None,
        })
    }

    /// The document that is sent.
    #[must_use]
    pub fn document(&self) -> Value {
        let [total, user, system] = self.cpu_percent;
        let streams = self.streams.iter().map(StreamResult::document).collect::<Vec<_>>();
        let mut document = json!({
            "cpu_util_total": total,
            "cpu_util_user": user,
            "cpu_util_system": system,
            "sender_has_retransmits": self.knows_retransmits.map_or(-1, i32::from),
            "streams": streams,
        });
        if let Some(congestion) = &self.congestion {
            document["congestion_used"] = json!(congestion);
        }
        document
    }

    /// The same with the JSON of what this end, a server, has printed.
    pub fn with_output(&self, server_output_json: &RawValue) -> impl Serialize {
        WithOutput { results: self.document(), server_output_json }
    }
}

/// The results of a server with what it has printed.
#[derive(Serialize)]
struct WithOutput<'a> {
    #[serde(flatten)]
    results: Value,
    server_output_json: &'a RawValue,
}

impl StreamResult {
    fn parse(fields: &Fields) -> Result<Self, JsonError> {
        let needed = |key| fields.whole(key, 0, MAX_NUMBER)?.ok_or(JsonError::Missing(key));
        let reported = |key| Ok(fields.whole(key, 0, MAX_NUMBER)?.unwrap_or(0));
        let id = fields.whole("id", 1, MAX_STREAMS as u64 + 2)?.ok_or(JsonError::Missing("id"))?;
        // a receiver tells -1, or the largest number of 64 bits
        let retransmits = fields.number("retransmits")?;
        let retransmits = retransmits.filter(|count| (0.0..MAX_NUMBER as f64).contains(count));
        let seconds = |key| Ok(fields.number(key)?.filter(|time| *time >= 0.0).unwrap_or(0.0));
        // datagrams that come twice make less than nothing lost
        let lost = |key| Ok(fields.number(key)?.map_or(0, |lost| lost.max(0.0) as u64));
        Ok(Self {
            id: id as u32,
            bytes: needed("bytes")?,
            retransmits: retransmits.map(|count| count as u64),
            jitter_seconds: seconds("jitter")?,
            lost: lost("errors")?,
            omitted_lost: lost("omitted_errors")?,
            packets: reported("packets")?,
            omitted_packets: reported("omitted_packets")?,
            seconds: (seconds("end_time")? - seconds("start_time")?).max(0.0),
        })
    }

    fn document(&self) -> Value {
        json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmits.map_or(json!(-1), |count| json!(count)),
            "jitter": self.jitter_seconds,
            "errors": self.lost,
            "omitted_errors": self.omitted_lost,
            "packets": self.packets,
            "omitted_packets": self.omitted_packets,
            "start_time": 0,
            "end_time": self.seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(value: &Value, streams: u32) -> Result<Results, String> {
        let text = value.to_string();
        let fields = Fields::parse(text.as_bytes()).unwrap();
        Results::parse(&fields, streams).map_err(|error| error.to_string())
    }

    #[test]
    fn results_of_an_old_version_are_read() {
        // 3.1 tells neither of times nor of what it left out
        let old = json!({"cpu_util_total": 1.5, "cpu_util_user": 0.5, "cpu_util_system": 1.0,
            "sender_has_retransmits": -1, "streams": [
                {"id": 3, "bytes": 7, "retransmits": -1, "jitter": 0, "errors": 0, "packets": 0},
                {"id": 1, "bytes": 5, "retransmits": -1, "jitter": 0, "errors": -2, "packets": 0}]});
        let results = parsed(&old, 2).unwrap();
        assert_eq!((results.knows_retransmits, results.cpu_percent), (None, [1.5, 0.5, 1.0]));
        let [second, first] = results.streams[..] else { panic!("{results:?}") };
        assert_eq!((second.bytes, first.bytes, first.lost), (7, 5, 0));
        assert_eq!((first.retransmits, first.seconds), (None, 0.0));
    }

    #[test]
    fn output_of_a_server_is_read_where_it_was_asked_for() {
        let streams = (0..1).map(|index| json!({"id": stream_id(index), "bytes": 1}));
        let document = json!({"streams": streams.collect::<Vec<_>>()});
        let sent = parsed(&document, 1).unwrap();
        let with = |key: &str, output: &Value| {
            let mut text = sent.document();
            text[key] = output.clone();
            text.to_string()
        };
        let (text, output) = (json!("a\nb"), json!({"start": [1, 2]}));
        let raw = RawValue::from_string(output.to_string()).unwrap();
        let own = serde_json::to_string(&sent.with_output(&raw)).unwrap();
        for (document, output) in [(with("server_output_text", &text), text), (own, output)] {
            assert_eq!(Results::read(document.as_bytes(), 1).unwrap().server_output, None);
            let sent = Results { server_output: Some(output), ..sent.clone() };
            assert_eq!(Results::read_with_output(document.as_bytes(), 1), Ok(sent));
        }
    }

    #[test]
    fn results_that_are_not_of_this_test_are_refused() {
        let of = |streams: Value| json!({"streams": streams});
        let stream = |id: u64| json!({"id": id, "bytes": 1});
        for (wrong, said) in [
            (of(json!([])), "field \"streams\" is [], expected the 1 streams"),
            (of(json!([stream(3)])), "field \"streams\" is [3]"),
            (of(json!([stream(1), stream(1)])), "field \"streams\" is [1, 1]"),
            (of(json!([{"id": 1}])), "no field \"bytes\""),
            (of(json!([7])), "no field \"id\""),
            (of(json!([{"id": 1, "bytes": -5}])), "field \"bytes\" is -5"),
            (of(json!({})), "field \"streams\" is {}"),
        ] {
            let error = parsed(&wrong, 1).unwrap_err();
            assert!(error.starts_with(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_document_with_more_values_than_its_streams_have_is_refused() {
        let document = format!("{{\"streams\":[{}]}}", vec!["{\"\":0}"; 100_000].join(","));
        let error = Results::read(document.as_bytes(), 1).unwrap_err().to_string();
        assert_eq!(error, "a document of 300002 values, expected at most 320");
        let streams = (0..256).map(|index| json!({
            "id": stream_id(index), "bytes": 1, "retransmits": -1, "jitter": 0, "errors": 0,
            "omitted_errors": 0, "packets": 0, "omitted_packets": 0, "start_time": 0, "end_time": 10,
        }));
        let document = json!({"cpu_util_total": 1.5, "streams": streams.collect::<Vec<_>>()});
        Results::read(document.to_string().as_bytes(), 256).unwrap();
    }

    prop_compose! {
        fn stream(id: u32)(
            bytes in 0_u64..1 << 53, retransmits in prop::option::of(0_u64..1 << 40),
            jitter_seconds in 0.0_f64..1.0, lost in 0_u64..1 << 40, omitted_lost in 0_u64..1 << 40,
            packets in 0_u64..1 << 40, omitted_packets in 0_u64..1 << 40, seconds in 0.0_f64..1e5,
        ) -> StreamResult {
            StreamResult {
                id, bytes, retransmits, jitter_seconds, lost, omitted_lost, packets, omitted_packets,
                seconds,
            }
        }
    }

    proptest! {
        #[test]
        fn the_peer_reads_what_is_sent(
            cpu_percent in prop::array::uniform3(0.0_f64..100.0),
            knows_retransmits: Option<bool>, congestion in prop::option::of("[a-z]{1,9}"),
            streams in (stream(1), stream(3), stream(4)),
        ) {
            let streams = vec![streams.0, streams.1, streams.2];
            let server_output = None;
            let sent = Results { cpu_percent, knows_retransmits, congestion, streams, server_output };
            let text = sent.document().to_string();
            let read = Results::parse(&Fields::parse(text.as_bytes()).unwrap(), 3);
            prop_assert_eq!(read, Ok(sent));
        }
    }
}
