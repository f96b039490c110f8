//! The documents that iperf3 prints, with its keys. Each is valid JSON: a number that is none is left at zero.

use std::io::{self, BufWriter, Write};

use linkrate_interop::iperf3::{Directions, Role};
use linkrate_interop::measured::{
    Datagrams, End, Interval, Path, Start, StreamEnd, StreamInterval,
};
use linkrate_model::date::{civil_from_days, weekday};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::measure::Event;

/// A document that grows with its test.
#[derive(Debug, Clone)]
pub struct Document {
    role: Role,
    ways: Directions,
    is_udp: bool,
    title: Option<String>,
    extra_data: Option<String>,
    server_output: Option<Value>,
    start: Value,
    /// Figures, which have a tenth of the octets that they take as JSON; `None` if they are not kept.
    intervals: Option<Vec<Interval>>,
    end: Value,
}

/// What a script reads as it happens, one object a line (`--json-stream`).
#[must_use]
pub fn event(name: &str, data: &Value) -> String {
    format!("{}\n", json!({"event": name, "data": data}))
}

/// The key of what the server has printed: a text or a document.
#[must_use]
pub fn output_key(output: &Value) -> &'static str {
    if output.is_string() { "server_output_text" } else { "server_output_json" }
}

impl Document {
    /// A document of a test that has not begun.
    #[must_use]
    pub fn new(title: Option<String>) -> Self {
        let start = json!({"connected": [], "version": super::version(), "system_info": system()});
        Self {
            role: Role::Client,
            ways: Directions::Forward,
            is_udp: false,
            title,
            extra_data: None,
            server_output: None,
            start,
            intervals: Some(Vec::new()),
            end: json!({}),
        }
    }

    /// The same for its parts alone: no interval is kept.
    #[must_use]
    pub fn in_parts(self) -> Self {
        Self { intervals: None, ..self }
    }

    /// Takes a moment of the test.
    pub fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Started | Event::Over => {}
            Event::Start(start) => self.begin(start),
            Event::Interval(interval) => {
                if let Some(intervals) = &mut self.intervals {
                    intervals.push((*interval).clone());
                }
            }
            Event::End(end) => self.finish(end),
        }
    }

    pub(super) fn begin(&mut self, start: &Start) {
        let asked = &start.parameters;
        (self.role, self.ways, self.is_udp) = (start.role, asked.ways, start.is_udp());
        self.extra_data.clone_from(&asked.extra_data);
        if start.role == Role::Server {
            self.title.clone_from(&asked.title);
        }
        self.start = started(start);
    }

    pub(super) fn finish(&mut self, end: &End) {
        self.end = self.ended(end);
        self.server_output.clone_from(&end.server_output);
    }

    /// The name of a moment that it has taken in a stream, and its part of the document, if it has one.
    #[must_use]
    pub fn part(&self, event: &Event<'_>) -> Option<(&'static str, Value)> {
        match event {
            Event::Started | Event::Over => None,
            Event::Start(_) => Some(("start", self.start.clone())),
            Event::Interval(interval) => Some(("interval", self.interval(interval))),
            Event::End(_) => Some(("end", self.end.clone())),
        }
    }

    /// Writes the whole document, interval by interval; with an error if the test has one.
    pub fn write(&self, to: impl Write, error: Option<&str>) -> io::Result<()> {
        let mut to = BufWriter::new(to);
        let intervals = self.intervals.as_deref().unwrap_or_default();
        serde_json::to_writer_pretty(&mut to, &self.with(intervals, error))?;
        to.write_all(b"\n")?;
        to.flush()
    }

    /// The whole document with these intervals.
    pub(super) fn with<'a>(
        &'a self,
        intervals: &'a [Interval],
        error: Option<&'a str>,
    ) -> Whole<'a> {
        Whole { document: self, intervals, error }
    }

    fn interval(&self, interval: &Interval) -> Value {
        let streams: Vec<Value> = interval
            .streams
            .iter()
            .map(|stream| {
                let mut fields = self.way(interval, &[stream]);
                set(&mut fields, "socket", stream.socket);
                if let Some(path) = &stream.path {
                    set_path(&mut fields, path);
                }
                Value::Object(fields)
            })
            .collect();
        let mut all = json!({"streams": streams});
        for (key, sends) in self.directions() {
            let of_way: Vec<_> =
                interval.streams.iter().filter(|stream| stream.sends == sends).collect();
            all[format!("sum{key}")] = Value::Object(self.way(interval, &of_way));
        }
        all
    }

    /// The keys of this document for each direction, and whether this end sends.
    fn directions(&self) -> Vec<(&'static str, bool)> {
        let is_client = self.role == Role::Client;
        match self.ways {
            Directions::Forward => vec![("", is_client)],
            Directions::Reverse => vec![("", !is_client)],
            Directions::Both => vec![("", is_client), ("_bidir_reverse", !is_client)],
        }
    }

    /// Streams of one direction in an interval.
    fn way(&self, interval: &Interval, streams: &[&StreamInterval]) -> Map<String, Value> {
        let bytes = streams.iter().map(|stream| stream.bytes).sum();
        let sends = streams.first().is_some_and(|stream| stream.sends);
        let mut fields = span(interval.start, interval.end, bytes);
        set(&mut fields, "omitted", interval.is_omitted);
        set(&mut fields, "sender", sends);
        if self.is_udp {
            let all = Datagrams::sum(streams.iter().filter_map(|stream| stream.datagrams));
            if sends {
                set(&mut fields, "packets", all.packets);
            } else {
                set_datagrams(&mut fields, &all);
            }
        } else if sends {
            let paths = streams.iter().filter_map(|stream| stream.path);
            set(&mut fields, "retransmits", paths.map(|path| path.retransmits).sum::<u64>());
        }
        fields
    }

    fn ended(&self, end: &End) -> Value {
        let streams = end.streams.iter().map(|stream| self.stream_end(stream));
        let mut all = json!({"streams": streams.collect::<Vec<_>>()});
        for (key, sends) in self.directions() {
            let of_way: Vec<_> =
                end.streams.iter().filter(|stream| stream.sends == sends).collect();
            if self.is_udp {
                let sent = end_part(&of_way, true, true);
                let received = end_part(&of_way, false, true);
                let mut sum = sent.clone();
                // octets of the sender, datagrams and time of the receiver, as iperf3 has it
                for field in
                    ["end", "seconds", "jitter_ms", "lost_packets", "packets", "lost_percent"]
                {
                    if let Some(value) = received.get(field) {
                        set(&mut sum, field, value.clone());
                    }
                }
                set(&mut sum, "sender", sends);
                all[format!("sum{key}")] = Value::Object(sum);
                all[format!("sum_sent{key}")] = Value::Object(sent);
                all[format!("sum_received{key}")] = Value::Object(received);
            } else {
                for (word, of_sender) in [("sent", true), ("received", false)] {
                    let mut part = end_part(&of_way, of_sender, false);
                    set(&mut part, "sender", sends);
                    all[format!("sum_{word}{key}")] = Value::Object(part);
                }
            }
        }
        let [host, remote] = [end.own_cpu_percent, end.remote_cpu_percent];
        all["cpu_utilization_percent"] = json!({
            "host_total": host[0], "host_user": host[1], "host_system": host[2],
            "remote_total": remote[0], "remote_user": remote[1], "remote_system": remote[2],
        });
        if !self.is_udp {
            let [sender, receiver] = end.congestion(self.role, self.ways);
            for (key, name) in
                [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)]
            {
                if let Some(name) = name {
                    all[key] = json!(name);
                }
            }
        }
        all
    }

    fn stream_end(&self, stream: &StreamEnd) -> Value {
        if self.is_udp {
            let mut fields = end_part(&[stream], true, true);
            set(&mut fields, "socket", stream.socket);
            set(&mut fields, "sender", stream.sends);
            let received = stream.received.unwrap_or_default();
            set_datagrams(&mut fields, &received);
            set(&mut fields, "out_of_order", received.out_of_order);
            return json!({"udp": fields});
        }
        let [mut sender, mut receiver] = [true, false].map(|of_sender| {
            let mut fields = end_part(&[stream], of_sender, false);
            set(&mut fields, "socket", stream.socket);
            set(&mut fields, "sender", stream.sends);
            fields
        });
        // a server tells of paths of its own alone
        let spread = (stream.sends || self.role == Role::Client).then_some(stream.spread);
        for (key, value) in spread.into_iter().flat_map(|spread| {
            [
                ("max_snd_cwnd", spread.max_snd_cwnd),
                ("max_snd_wnd", spread.max_snd_wnd),
                ("max_rtt", spread.max_rtt_us.into()),
                ("min_rtt", spread.min_rtt_us.into()),
                ("mean_rtt", spread.mean_rtt_us.into()),
                ("reorder", spread.reordered.into()),
            ]
        }) {
            set(&mut sender, key, value);
        }
        receiver.remove("retransmits");
        json!({"sender": sender, "receiver": receiver})
    }
}

/// A document with its intervals, of which one is JSON at a time.
pub(super) struct Whole<'a> {
    document: &'a Document,
    intervals: &'a [Interval],
    error: Option<&'a str>,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = self.document;
        let mut all = serializer.serialize_map(None)?;
        for (key, text) in [("title", &document.title), ("extra_data", &document.extra_data)] {
            if let Some(text) = text {
                all.serialize_entry(key, text)?;
            }
        }
        all.serialize_entry("start", &document.start)?;
        all.serialize_entry("intervals", &Intervals(self))?;
        all.serialize_entry("end", &document.end)?;
        if let Some(output) = &document.server_output {
            all.serialize_entry(output_key(output), output)?;
        }
        if let Some(error) = self.error {
            all.serialize_entry("error", error)?;
        }
        all.end()
    }
}

struct Intervals<'a>(&'a Whole<'a>);

impl Serialize for Intervals<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Whole { document, intervals, .. } = self.0;
        serializer.collect_seq(intervals.iter().map(|interval| document.interval(interval)))
    }
}

/// Streams of one direction at the end, as their senders or their receivers know them.
fn end_part(streams: &[&StreamEnd], of_sender: bool, is_udp: bool) -> Map<String, Value> {
    let (mut bytes, mut seconds) = (0, 0.0_f64);
    for stream in streams {
        let (more, time) = match of_sender {
            true => (stream.sent_bytes, stream.sent_seconds),
            false => (stream.received_bytes, stream.received_seconds),
        };
        (bytes, seconds) = (bytes + more, seconds.max(time));
    }
    let mut fields = span(0.0, seconds, bytes);
    if is_udp {
        let datagrams = match of_sender {
            true => Datagrams {
                packets: streams.iter().map(|stream| stream.sent_packets).sum(),
                ..Datagrams::default()
            },
            false => Datagrams::sum(streams.iter().filter_map(|stream| stream.received)),
        };
        set_datagrams(&mut fields, &datagrams);
        set(&mut fields, "sender", of_sender);
    } else if of_sender {
        let known = streams.iter().filter_map(|stream| stream.retransmits);
        if let Some(retransmits) = known.reduce(|sum, more| sum + more) {
            set(&mut fields, "retransmits", retransmits);
        }
    }
    fields
}

fn set(fields: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    fields.insert(key.to_owned(), value.into());
}

/// A time and its octets.
fn span(start: f64, end: f64, bytes: u64) -> Map<String, Value> {
    let seconds = end - start;
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    let mut fields = Map::new();
    set(&mut fields, "start", start);
    set(&mut fields, "end", end);
    set(&mut fields, "seconds", seconds);
    set(&mut fields, "bytes", bytes);
    set(&mut fields, "bits_per_second", rate);
    fields
}

fn set_datagrams(fields: &mut Map<String, Value>, datagrams: &Datagrams) {
    set(fields, "jitter_ms", datagrams.jitter_seconds * 1e3);
    set(fields, "lost_packets", datagrams.lost);
    set(fields, "packets", datagrams.packets);
    set(fields, "lost_percent", datagrams.lost_percent());
}

fn set_path(fields: &mut Map<String, Value>, path: &Path) {
    set(fields, "retransmits", path.retransmits);
    set(fields, "snd_cwnd", path.snd_cwnd);
    set(fields, "snd_wnd", path.snd_wnd);
    set(fields, "rtt", path.rtt_us);
    set(fields, "rttvar", path.rttvar_us);
    set(fields, "pmtu", path.path_mtu);
    set(fields, "reorder", path.reordered);
}

fn started(start: &Start) -> Value {
    let asked = &start.parameters;
    let connected = start.streams.iter().map(|stream| {
        json!({
            "socket": stream.socket,
            "local_host": stream.local.ip().to_string(), "local_port": stream.local.port(),
            "remote_host": stream.remote.ip().to_string(), "remote_port": stream.remote.port(),
        })
    });
    let mut all = json!({
        "connected": connected.collect::<Vec<_>>(),
        "version": super::version(),
        "system_info": system(),
        "timestamp": {
            "time": http_date(start.unix_milliseconds / 1000),
            "timesecs": start.unix_milliseconds / 1000,
            "timemillisecs": start.unix_milliseconds,
        },
        "cookie": start.cookie,
        "target_bitrate": asked.bandwidth,
        "fq_rate": asked.pacing_rate,
        "sock_bufsize": asked.window.unwrap_or(0),
        "sndbuf_actual": start.buffers.0,
        "rcvbuf_actual": start.buffers.1,
        "test_start": {
            "protocol": if start.is_udp() { "UDP" } else { "TCP" },
            "num_streams": asked.parallel,
            "blksize": asked.block,
            "omit": asked.omit_seconds,
            "duration": asked.seconds,
            "bytes": asked.bytes,
            "blocks": asked.blocks,
            "reverse": u8::from(asked.ways == Directions::Reverse),
            "bidir": u8::from(asked.ways == Directions::Both),
            "tos": asked.tos,
            "target_bitrate": asked.bandwidth,
            "fqrate": asked.pacing_rate,
            "interval": start.interval_seconds,
            "gso": u8::from(asked.segments),
            "gro": u8::from(asked.merges),
        },
    });
    let other = match start.role {
        Role::Client => "connecting_to",
        Role::Server => "accepted_connection",
    };
    all[other] = json!({"host": start.host, "port": start.port});
    if !start.is_udp() {
        match asked.mss {
            Some(mss) => all["tcp_mss"] = json!(mss),
            None => all["tcp_mss_default"] = json!(start.mss.unwrap_or(0)),
        }
    }
    all
}

/// The system as uname(1) tells it.
pub(super) fn system() -> String {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        // a system without /proc says less
        text.unwrap_or_default().trim().to_owned()
    };
    let [kind, host, release, version] = ["ostype", "hostname", "osrelease", "version"].map(read);
    format!("{kind} {host} {release} {version} {}", std::env::consts::ARCH)
}

/// `Tue, 24 Nov 2026 04:15:58 GMT`, RFC 9110, 5.6.7.
pub(super) fn http_date(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, of_day) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    let name = DAYS[weekday(days) as usize % 7];
    let month = MONTHS[(month as usize + 11) % 12];
    let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{name}, {day:02} {month} {year} {hours:02}:{minutes:02}:{seconds:02} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(1_795_493_758), "Tue, 24 Nov 2026 04:15:58 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_document_without_a_test_is_json() {
        let mut text = Vec::new();
        let error = "unable to connect to server: refused";
        Document::new(None).write(&mut text, Some(error)).unwrap();
        let read: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(read["error"], "unable to connect to server: refused");
        assert_eq!((&read["intervals"], &read["end"]), (&json!([]), &json!({})));
    }

    #[test]
    fn a_time_of_nothing_has_no_rate() {
        assert_eq!(span(1.0, 1.0, 5)["bits_per_second"], 0.0);
    }
}
