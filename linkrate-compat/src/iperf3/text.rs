//! The text that iperf3 prints.

use std::fmt::Write as _;

use linkrate_interop::iperf3::{Directions, Role, Transport};
use linkrate_interop::measured::{Datagrams, End, Interval, Start, StreamEnd};
use linkrate_sys::clock::local_time;
use serde_json::Value;

use super::measure::Event;
use super::units::{Format, percent, unit};

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
/// The place of the jitter, which a sender does not know.
const NO_JITTER: &str = "          ";

/// A writer of the text of one test.
#[derive(Debug, Clone)]
pub struct Text {
    format: Format,
    is_verbose: bool,
    title: Option<String>,
    timestamps: Option<String>,
    ways: Directions,
    parallel: u32,
    is_udp: bool,
    intervals: u32,
}

/// A line before it is text.
struct Line {
    name: String,
    sends: bool,
    start: f64,
    end: f64,
    bytes: u64,
    /// What stands behind the rate.
    rest: String,
}

impl Text {
    /// Text with rates in `format`; `title` stands before each line.
    #[must_use]
    pub fn new(format: Format, is_verbose: bool, title: Option<String>) -> Self {
        let ways = Directions::Forward;
        Self {
            format,
            is_verbose,
            title,
            timestamps: None,
            ways,
            parallel: 1,
            is_udp: false,
            intervals: 0,
        }
    }

    /// The same with the local time before each line, in a format of strftime(3); `None` for none.
    #[must_use]
    pub fn with_timestamps(self, timestamps: Option<String>) -> Self {
        Self { timestamps, ..self }
    }

    /// The text of a moment.
    pub fn lines(&mut self, event: &Event<'_>) -> String {
        let text = match event {
            Event::Start(start) => self.start(start),
            Event::Interval(interval) => self.interval(interval),
            Event::Started | Event::Over => String::new(),
            Event::End(end) => self.end(end),
        };
        let time = self.timestamps.as_deref().and_then(local_time).unwrap_or_default();
        let title = self.title.as_ref().map(|title| format!("{title}:  ")).unwrap_or_default();
        text.lines().map(|line| format!("{time}{title}{line}\n")).collect()
    }

    fn start(&mut self, start: &Start) -> String {
        let asked = &start.parameters;
        (self.ways, self.parallel) = (asked.ways, asked.parallel);
        self.is_udp = asked.transport == Transport::Udp;
        // writing to a String does not fail
        let mut text = String::new();
        if self.is_verbose {
            let _ = writeln!(text, "{}", super::version());
            let _ = writeln!(text, "{}", super::json::system());
            let _ = writeln!(text, "Control connection MSS {}", start.mss.unwrap_or(0));
            let _ =
                writeln!(text, "Time: {}", super::json::http_date(start.unix_milliseconds / 1000));
        }
        let _ = writeln!(text, "Connecting to host {}, port {}", start.host, start.port);
        if asked.ways == Directions::Reverse {
            let _ = writeln!(text, "Reverse mode, remote host {} is sending", start.host);
        }
        if self.is_verbose {
            let _ = writeln!(text, "      Cookie: {}", start.cookie);
            match (self.is_udp, start.mss, asked.mss) {
                (false, _, Some(mss)) => {
                    let _ = writeln!(text, "      TCP MSS: {mss}");
                }
                (false, Some(mss), None) => {
                    let _ = writeln!(text, "      TCP MSS: {mss} (default)");
                }
                _ => {}
            }
        }
        for stream in &start.streams {
            let (local, remote) = (stream.local, stream.remote);
            let _ = writeln!(
                text,
                "[{:3}] local {} port {} connected to {} port {}",
                stream.socket,
                local.ip(),
                local.port(),
                remote.ip(),
                remote.port()
            );
        }
        if self.is_verbose {
            let protocol = if self.is_udp { "UDP" } else { "TCP" };
            let (streams, block, omit, tos) =
                (asked.parallel, asked.block, asked.omit_seconds, asked.tos);
            let length = match (asked.bytes, asked.blocks) {
                (0, 0) => format!("{} second test", asked.seconds),
                (0, blocks) => format!("{blocks} blocks to send"),
                (bytes, _) => format!("{bytes} bytes to send"),
            };
            let _ = writeln!(
                text,
                "Starting Test: protocol: {protocol}, {streams} streams, {block} byte blocks, \
                 omitting {omit} seconds, {length}, tos {tos}"
            );
        }
        text
    }

    fn interval(&mut self, interval: &Interval) -> String {
        let mut text = String::new();
        if self.intervals == 0 {
            text.push_str(&self.header(false));
        } else if self.parallel > 1 {
            text.push_str(SEPARATOR);
        }
        self.intervals += 1;
        let omitted = if interval.is_omitted { "(omitted)" } else { "" };
        let line = |name: String, sends, bytes, rest: String| Line {
            name,
            sends,
            start: interval.start,
            end: interval.end,
            bytes,
            rest,
        };
        for stream in &interval.streams {
            let rest = match (stream.datagrams, stream.path) {
                (Some(datagrams), _) => self.datagrams(&datagrams, stream.sends, omitted),
                (None, Some(path)) => {
                    let window = unit(path.snd_cwnd as f64, Format::AdaptiveBytes);
                    format!("  {:3}   {window}s       {omitted}", path.retransmits)
                }
                (None, None) => format!("                  {omitted}"),
            };
            let name = format!("[{:3}]", stream.socket);
            text.push_str(&self.line(&line(name, stream.sends, stream.bytes, rest)));
        }
        for sends in self.summed() {
            let streams: Vec<_> =
                interval.streams.iter().filter(|stream| stream.sends == sends).collect();
            let bytes = streams.iter().map(|stream| stream.bytes).sum();
            let rest = if self.is_udp {
                let all = Datagrams::sum(streams.iter().filter_map(|stream| stream.datagrams));
                self.datagrams(&all, sends, omitted)
            } else if sends {
                let paths = streams.iter().filter_map(|stream| stream.path);
                let retransmits = paths.map(|path| path.retransmits).sum::<u64>();
                format!("  {retransmits:3}             {omitted}")
            } else {
                format!("                  {omitted}")
            };
            text.push_str(&self.line(&line("[SUM]".to_owned(), sends, bytes, rest)));
        }
        text
    }

    fn end(&self, end: &End) -> String {
        let mut text = SEPARATOR.to_owned();
        if self.is_verbose {
            text.push_str("Test Complete. Summary Results:\n");
        }
        text.push_str(&self.header(true));
        for stream in &end.streams {
            let name = format!("[{:3}]", stream.socket);
            text.push_str(&self.both_ends(&name, stream.sends, &[stream]));
        }
        for sends in self.summed() {
            let streams: Vec<_> =
                end.streams.iter().filter(|stream| stream.sends == sends).collect();
            text.push_str(&self.both_ends("[SUM]", sends, &streams));
        }
        if self.is_verbose {
            text.push_str(&self.verbose_end(end));
        }
        match &end.server_output {
            None => {}
            Some(Value::String(output)) => {
                // lines of the peer, without the power over a terminal
                let clean = |letter: char| letter.is_control() && letter != '\n';
                let _ = writeln!(text, "\nServer output:\n{}", output.replace(clean, " "));
            }
            Some(output) => {
                let _ = writeln!(text, "\nServer JSON output:\n{output:#}");
            }
        }
        if !end.is_interrupted {
            text.push_str("\niperf Done.\n");
        }
        text
    }

    fn verbose_end(&self, end: &End) -> String {
        let (here, there) = match self.ways {
            Directions::Reverse => ("local/receiver", "remote/sender"),
            Directions::Forward | Directions::Both => ("local/sender", "remote/receiver"),
        };
        let share =
            |[all, user, system]: [f64; 3]| format!("{all:.1}% ({user:.1}%u/{system:.1}%s)");
        let mut text = format!(
            "CPU Utilization: {here} {}, {there} {}\n",
            share(end.own_cpu_percent),
            share(end.remote_cpu_percent)
        );
        if !self.is_udp {
            let [sender, receiver] = end.congestion(Role::Client, self.ways);
            for (word, name) in [("snd", sender), ("rcv", receiver)] {
                if let Some(name) = name {
                    let _ = writeln!(text, "{word}_tcp_congestion {name}");
                }
            }
        }
        text
    }

    /// The two lines of streams at the end.
    fn both_ends(&self, name: &str, sends: bool, streams: &[&StreamEnd]) -> String {
        let sum = |bytes: fn(&StreamEnd) -> u64| streams.iter().map(|stream| bytes(stream)).sum();
        let longest = |seconds: fn(&StreamEnd) -> f64| {
            streams.iter().map(|stream| seconds(stream)).fold(0.0, f64::max)
        };
        let [sender, receiver] = if self.is_udp {
            let sent = Datagrams {
                packets: streams.iter().map(|stream| stream.sent_packets).sum(),
                ..Datagrams::default()
            };
            let received = Datagrams::sum(streams.iter().filter_map(|stream| stream.received));
            [(sent, "sender"), (received, "receiver")]
                .map(|(datagrams, end)| self.datagrams(&datagrams, false, end))
        } else {
            let known = streams.iter().filter_map(|stream| stream.retransmits);
            let sender = match known.reduce(|sum, more| sum + more) {
                Some(retransmits) => format!("  {retransmits:3}             sender"),
                None => "                  sender".to_owned(),
            };
            [sender, "                  receiver".to_owned()]
        };
        let line = |bytes, end, rest: String| {
            self.line(&Line { name: name.to_owned(), sends, start: 0.0, end, bytes, rest })
        };
        [
            line(sum(|stream| stream.sent_bytes), longest(|stream| stream.sent_seconds), sender),
            line(
                sum(|stream| stream.received_bytes),
                longest(|stream| stream.received_seconds),
                receiver,
            ),
        ]
        .concat()
    }

    /// Directions that have a line for all their streams.
    fn summed(&self) -> impl Iterator<Item = bool> {
        let directions: &[bool] = match (self.parallel, self.ways) {
            (0 | 1, _) => &[],
            (_, Directions::Forward) => &[true],
            (_, Directions::Reverse) => &[false],
            (_, Directions::Both) => &[true, false],
        };
        directions.iter().copied()
    }

    fn line(&self, line: &Line) -> String {
        let role = match (self.ways, line.sends) {
            (Directions::Both, true) => "[TX-C]",
            (Directions::Both, false) => "[RX-C]",
            _ => "",
        };
        let seconds = line.end - line.start;
        let rate = if seconds > 0.0 { line.bytes as f64 / seconds } else { 0.0 };
        let (size, rate) =
            (unit(line.bytes as f64, Format::AdaptiveBytes), unit(rate, self.format));
        let (name, start, end, rest) = (&line.name, line.start, line.end, &line.rest);
        format!("{name}{role} {start:6.2}-{end:<6.2} sec  {size}s  {rate}s/sec{rest}\n")
    }

    /// What stands behind the rate of datagrams.
    fn datagrams(&self, datagrams: &Datagrams, is_sender: bool, end: &str) -> String {
        let Datagrams { packets, lost, .. } = datagrams;
        if is_sender {
            let gap = if self.ways == Directions::Both { NO_JITTER } else { "" };
            return format!(" {gap} {packets}  {end}");
        }
        let jitter_ms = datagrams.jitter_seconds * 1e3;
        let share = percent(datagrams.lost_percent());
        format!("  {jitter_ms:5.3} ms  {lost}/{packets} ({share}%)  {end}")
    }

    fn header(&self, is_end: bool) -> String {
        let role = if self.ways == Directions::Both { "[ ID][Role]" } else { "[ ID]" };
        let rest = match (self.is_udp, is_end, self.ways) {
            (true, false, Directions::Forward) => "         Total Datagrams",
            (true, ..) => "         Jitter    Lost/Total Datagrams",
            (false, true, _) => "         Retr",
            (false, false, Directions::Reverse) => "",
            (false, false, _) => "         Retr  Cwnd",
        };
        format!("{role} Interval           Transfer     Bitrate{rest}\n")
    }
}

#[cfg(test)]
mod tests {
    use linkrate_interop::iperf3::Parameters;
    use linkrate_interop::measured::{Connection, Path, Spread, StreamInterval};

    use super::*;

    fn start(parameters: Parameters) -> Start {
        let address = |port| format!("127.0.0.1:{port}").parse().unwrap();
        Start {
            role: Role::Client,
            host: "127.0.0.1".to_owned(),
            port: 5999,
            parameters,
            cookie: "abc".to_owned(),
            mss: Some(32_768),
            buffers: (16_384, 131_072),
            streams: vec![Connection { socket: 5, local: address(47_408), remote: address(5999) }],
            unix_milliseconds: 0,
            interval_seconds: 1.0,
        }
    }

    fn stream(datagrams: Option<Datagrams>) -> StreamEnd {
        StreamEnd {
            socket: 5,
            sends: true,
            sent_bytes: 262_144,
            received_bytes: 262_144,
            sent_seconds: 2.0,
            received_seconds: 2.0,
            retransmits: datagrams.is_none().then_some(34),
            spread: Spread::default(),
            received: datagrams,
            sent_packets: 8,
        }
    }

    fn end(stream: StreamEnd) -> End {
        End {
            streams: vec![stream],
            own_cpu_percent: [3.0, 1.0, 2.0],
            own_congestion: Some("cubic".to_owned()),
            ..End::default()
        }
    }

    fn interval(datagrams: Option<Datagrams>, path: Option<Path>) -> Interval {
        let stream = StreamInterval { socket: 5, sends: true, bytes: 131_072, datagrams, path };
        Interval { start: 0.0, end: 1.0, is_omitted: false, streams: [stream].into() }
    }

    /// The text of a whole test. Lines keep the spaces at their ends, as those of iperf3.
    fn whole(parameters: Parameters, interval: &Interval, end: &End) -> Vec<String> {
        let mut text = Text::new(Format::Adaptive, false, None);
        let events = [Event::Start(&start(parameters)), Event::Interval(interval), Event::End(end)];
        let all: String = events.iter().map(|event| text.lines(event)).collect();
        all.lines().map(str::to_owned).collect()
    }

    #[test]
    fn text_of_tcp_is_that_of_iperf3() {
        let path = Path { retransmits: 32, snd_cwnd: 1023 * 1024, ..Path::default() };
        let lines = whole(Parameters::default(), &interval(None, Some(path)), &end(stream(None)));
        let expected = [
            "Connecting to host 127.0.0.1, port 5999",
            "[  5] local 127.0.0.1 port 47408 connected to 127.0.0.1 port 5999",
            "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
            "[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec   32   1023 KBytes       ",
            "- - - - - - - - - - - - - - - - - - - - - - - - -",
            "[ ID] Interval           Transfer     Bitrate         Retr",
            "[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec   34             sender",
            "[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec                  receiver",
            "",
            "iperf Done.",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn text_of_udp_is_that_of_iperf3() {
        let asked = Parameters { transport: Transport::Udp, ..Parameters::default() };
        let sent = Datagrams { packets: 4, ..Datagrams::default() };
        let received = Datagrams { packets: 8, lost: 8, out_of_order: 0, jitter_seconds: 4e-6 };
        let lines = whole(asked, &interval(Some(sent), None), &end(stream(Some(received))));
        let expected = [
            "[ ID] Interval           Transfer     Bitrate         Total Datagrams",
            "[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  4  ",
            "- - - - - - - - - - - - - - - - - - - - - - - - -",
            "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams",
            "[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec  0.000 ms  0/8 (0%)  sender",
            "[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec  0.004 ms  8/8 (100%)  receiver",
        ];
        assert_eq!(lines[2..8], expected);
    }

    #[test]
    fn a_title_stands_before_each_line() {
        let mut text = Text::new(Format::Adaptive, true, Some("run 7".to_owned()));
        let lines = text.lines(&Event::Start(&start(Parameters::default())));
        assert!(lines.lines().count() > 6);
        assert!(lines.lines().all(|line| line.starts_with("run 7:  ")), "{lines}");
        let mut timed = text.with_timestamps(Some("[%Y] ".to_owned()));
        let lines = timed.lines(&Event::Start(&start(Parameters::default())));
        let is_right = |line: &str| line.starts_with("[20") && line[6..].starts_with(" run 7:  ");
        assert!(lines.lines().all(is_right), "{lines}");
    }
}
