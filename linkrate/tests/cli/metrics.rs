//! `--metrics` of `serve` and `watch`: figures for Prometheus, whatever other clients do, until the program ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{LINKRATE, command, kill, wait_until};
use crate::watch::{Growing, RUNS};
use rustix::process::Signal;

/// How long anything may take on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// The same of the end of the program, which takes less than a second on an idle one.
const END: Duration = Duration::from_secs(3);

/// A program that listens; killed when the test is done with it.
struct Listening {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
}

impl Listening {
    fn start(words: &str, more: &[&str]) -> Self {
        let mut command = command(LINKRATE, words);
        let command = command.args(more).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("start linkrate");
        let lines = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        Self { child, lines }
    }

    /// A connection to its next port, which must be for `what`.
    #[track_caller]
    fn connect(&mut self, what: &str) -> (String, TcpStream) {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        let place = line.strip_prefix("listening on ").and_then(|rest| rest.trim().split_once(' '));
        let (place, of) = place.unwrap_or_else(|| panic!("{line}"));
        assert_eq!(of, format!("for {what}"));
        (place.to_owned(), connect(place))
    }

    /// Ends it by SIGTERM.
    #[track_caller]
    fn end(mut self) {
        let asked = Instant::now();
        kill(self.child.id(), Signal::TERM);
        let ended = wait_until(LONG, || self.child.try_wait().is_ok_and(|found| found.is_some()));
        assert!(ended && asked.elapsed() < END, "{:?}", asked.elapsed());
        assert_eq!(self.child.wait().expect("it has ended").code(), Some(0));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // both fail for a process that has been waited for
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(place: &str) -> TcpStream {
    let stream = TcpStream::connect(place).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a time-out");
    stream
}

/// The figures at a port: the text behind the head of the answer.
#[track_caller]
fn figures(place: &str) -> String {
    let mut stream = connect(place);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let media_type = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(media_type), "{head}");
    assert!(body.ends_with("\n# EOF\n"), "{body}");
    body.to_owned()
}

#[test]
fn serve_tells_its_sessions_and_its_budget() {
    let words = "serve --iperf3-port 0 --netperf-port 0 --metrics 0 --max-memory 1MiB";
    let mut serving = Listening::start(words, &[]);
    let (_, mut iperf3) = serving.connect("iperf3");
    let (_, _netperf) = serving.connect("netperf");
    let (metrics, _silent) = serving.connect("metrics");
    let before = figures(&metrics);
    for line in [
        "linkrate_serve_sessions_total{program=\"iperf3\",ended=\"complete\"} 0\n",
        "# UNIT linkrate_serve_received_bytes bytes\n",
        "linkrate_serve_received_bytes_total{program=\"netperf\"} 0\n",
        "linkrate_serve_tests 0\n",
        "linkrate_serve_memory_bytes 0\n",
        "linkrate_serve_memory_limit_bytes 1048576\n",
    ] {
        assert!(before.contains(line), "{line}{before}");
    }
    // a client that begins a session and leaves
    iperf3.write_all(format!("{:036}\0", 7).as_bytes()).expect("a cookie");
    iperf3.read_exact(&mut [0]).expect("its answer");
    drop(iperf3);
    let left = "linkrate_serve_sessions_total{program=\"iperf3\",ended=\"client-left\"} 1\n";
    assert!(wait_until(LONG, || figures(&metrics).contains(left)), "{}", figures(&metrics));
    serving.end();
}

#[test]
fn watch_tells_how_far_the_study_is() {
    let mut growing = Growing::new();
    growing.block(0, RUNS);
    let path = growing.path.display().to_string();
    let mut watching = Listening::start("watch --metrics 127.0.0.1:0", &[&path]);
    let (metrics, _silent) = watching.connect("metrics");
    let found = figures(&metrics);
    for line in [
        "linkrate_study_blocks{study=\"a-a\"} 1\n",
        "linkrate_study_failed_runs{study=\"a-a\"} 13\n",
        "# UNIT linkrate_study_precision_ratio ratio\n",
    ] {
        assert!(found.contains(line), "{line}{found}");
    }
    growing.block(1, RUNS);
    let next = "linkrate_study_blocks{study=\"a-a\"} 2\n";
    assert!(wait_until(LONG, || figures(&metrics).contains(next)), "{}", figures(&metrics));
    watching.end();
}
