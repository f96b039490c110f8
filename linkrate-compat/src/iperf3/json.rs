//! The documents that iperf3 prints, with its keys. Each is valid JSON: a number that is none is left at zero.

use linkrate_interop::iperf3::Directions;
use linkrate_model::date::{civil_from_days, weekday};
use serde_json::{Map, Value, json};

use super::measure::Event;
use super::record::{Datagrams, End, Interval, Path, Start, StreamEnd, StreamInterval};

/// A document that grows with its test.
#[derive(Debug, Clone)]
pub struct Document {
    ways: Directions,
    is_udp: bool,
    title: Option<String>,
    extra_data: Option<String>,
    server_output: Option<Value>,
    start: Value,
    intervals: Vec<Value>,
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
        let (intervals, end) = (Vec::new(), json!({}));
        Self {
            ways: Directions::Forward,
            is_udp: false,
            title,
            extra_data: None,
            server_output: None,
            start,
            intervals,
            end,
        }
    }

    /// Takes a moment of the test. Returns its name in a stream, and its part of the document, if it
    /// has one.
    pub fn take(&mut self, event: &Event<'_>) -> Option<(&'static str, &Value)> {
        Some(match event {
            Event::Started | Event::Over => return None,
            Event::Start(start) => {
                (self.ways, self.is_udp) = (start.parameters.ways, start.is_udp());
                self.extra_data.clone_from(&start.parameters.extra_data);
                self.start = started(start);
                ("start", &self.start)
            }
            Event::Interval(interval) => {
                self.intervals.push(self.interval(interval));
                ("interval", self.intervals.last().unwrap_or(&Value::Null))
            }
            Event::End(end) => {
                self.end = self.ended(end);
                self.server_output.clone_from(&end.server_output);
                ("end", &self.end)
            }
        })
    }

    /// The whole document; with an error if the test has one.
    #[must_use]
    pub fn text(&self, error: Option<&str>) -> String {
        let mut all = json!({"start": self.start, "intervals": self.intervals, "end": self.end});
        if let Some(title) = &self.title {
            all["title"] = json!(title);
        }
        if let Some(extra_data) = &self.extra_data {
            all["extra_data"] = json!(extra_data);
        }
        if let Some(output) = &self.server_output {
            all[output_key(output)] = output.clone();
        }
        if let Some(error) = error {
            all["error"] = json!(error);
        }
        format!("{all:#}\n")
    }

    fn interval(&self, interval: &Interval) -> Value {
        let streams: Vec<Value> = interval
            .streams
            .iter()
            .map(|stream| {
                let mut fields = self.part(interval, &[stream]);
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
            all[format!("sum{key}")] = Value::Object(self.part(interval, &of_way));
        }
        all
    }

    /// The keys of this document for each direction, and whether this end sends.
    fn directions(&self) -> Vec<(&'static str, bool)> {
        match self.ways {
            Directions::Forward => vec![("", true)],
            Directions::Reverse => vec![("", false)],
            Directions::Both => vec![("", true), ("_bidir_reverse", false)],
        }
    }

    /// Streams of one direction in an interval.
    fn part(&self, interval: &Interval, streams: &[&StreamInterval]) -> Map<String, Value> {
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
            let [sender, receiver] = end.congestion(self.ways);
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
        let spread = stream.spread;
        for (key, value) in [
            ("max_snd_cwnd", spread.max_snd_cwnd),
            ("max_snd_wnd", spread.max_snd_wnd),
            ("max_rtt", spread.max_rtt_us.into()),
            ("min_rtt", spread.min_rtt_us.into()),
            ("mean_rtt", spread.mean_rtt_us.into()),
            ("reorder", spread.reordered.into()),
        ] {
            set(&mut sender, key, value);
        }
        receiver.remove("retransmits");
        json!({"sender": sender, "receiver": receiver})
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

pub(super) fn set(fields: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    fields.insert(key.to_owned(), value.into());
}

/// A time and its octets.
pub(super) fn span(start: f64, end: f64, bytes: u64) -> Map<String, Value> {
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

pub(super) fn set_datagrams(fields: &mut Map<String, Value>, datagrams: &Datagrams) {
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
        "connecting_to": {"host": start.host, "port": start.port},
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
        let text = Document::new(None).text(Some("unable to connect to server: refused"));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["error"], "unable to connect to server: refused");
        assert_eq!((&read["intervals"], &read["end"]), (&json!([]), &json!({})));
    }

    #[test]
    fn a_time_of_nothing_has_no_rate() {
        assert_eq!(span(1.0, 1.0, 5)["bits_per_second"], 0.0);
    }
}
