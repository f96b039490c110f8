//! Connections that move to a TCP offload engine and back, as captures of their port show them: on the wire
//! no move is to be seen, and tshark complains of nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::capture::Capture;
use crate::common::up::Up;
use crate::common::{tshark, wait_until};

/// How often the streams move: to the host, and to the adapter again.
const MOVES: u64 = 3;

/// Segments of the streams that tshark complains of, as its rule for "Bad TCP" has them. The end of iperf3 resets a
/// connection whose payload nobody reads. The first connection is the one that iperf3 talks over: its segments of
/// one byte are sent again when a busy machine answers late.
const BAD: &str = "tcp.analysis.flags && !tcp.analysis.window_update && !tcp.analysis.window_full \
                   && tcp.flags.reset == 0 && tcp.stream != 0";

/// A lab with the adapter at a small part of its rate: packets wait for the link, and captures are small.
fn lab() -> Up {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("slow.toml");
    let model = include_str!("../../../linkrate-model/models/toe.toml");
    let slow = model.replace("rate = \"1 Gbit/s\"", "rate = \"30 Mbit/s\"");
    assert_ne!(slow, model);
    fs::write(&file, slow.replace("name = \"toe\"", "name = \"slow\"")).expect("write a file");
    Up::start(&format!("--adapter {}", file.display()))
}

/// Moves of connections of programs in both directions so far.
fn moves(lab: &Up) -> u64 {
    let shown = lab.linkrate("adapter toe show --json").json();
    let moves = &shown["toe"]["moves"];
    ["down", "up.toe-off"].iter().map(|kind| moves[*kind].as_u64().unwrap_or(0)).sum()
}

#[test]
fn no_move_is_to_be_seen_on_the_wire() {
    needs!(root, "iperf3", "tshark");
    let lab = lab();
    lab.linkrate("adapter set eth0 toe=on");
    let capture = Capture::start(&lab, "eth0");
    let (server, client) = lab.iperf3("-t 4 --bidir -C cubic");
    // the stream of each direction, and the connection that iperf3 talks over
    let moved = |to: &str, expected: u64| {
        let have = || moves(&lab) >= expected;
        assert!(wait_until(Duration::from_secs(5), have), "{to}: {} moves", moves(&lab));
        std::thread::sleep(Duration::from_millis(250));
    };
    moved("on", 3);
    for number in 0..MOVES {
        let before = moves(&lab);
        let to = if number % 2 == 0 { "off" } else { "on" };
        lab.linkrate(&format!("adapter set eth0 toe={to}"));
        moved(to, before + 3);
    }
    client.wait().expect_code(0);
    server.wait().expect_code(0);
    capture.stop();
    assert_eq!(lab.counter("eth0", "toeHostSegments"), 0);
    // otherwise no packet waited when a connection moved
    assert!(lab.counter("eth0", "toeTakenBack") > 0);
    is_continuous(&capture.of_interface("wire"));
    has_timestamps_in_order(&capture.of_interface("host"));
    drop(capture);
    lab.down().expect_code(0);
}

/// Sequence numbers, acknowledgements and timestamps of each stream continue without a gap.
#[track_caller]
fn is_continuous(wire: &Path) {
    let complaints =
        tshark(wire, BAD, &["frame.number", "ip.src", "tcp.srcport", "_ws.expert.message"]);
    assert_eq!(complaints, "");
    has_timestamps_in_order(wire);
    // the end of a connection that is reset acknowledges nothing
    let filter = "tcp.len > 0 && ip.src == 198.18.0.1";
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    let mut segments = 0;
    for line in tshark(wire, filter, &["tcp.srcport", "tcp.seq", "tcp.len"]).lines() {
        let [port, sequence, length] = fields(line);
        let begin: u32 = sequence.parse().expect("a number");
        let length: u32 = length.parse().expect("a number");
        let expected = next.insert(port.to_owned(), begin + length).unwrap_or(begin);
        assert_eq!(begin, expected, "from port {port}");
        segments += 1;
    }
    assert!(segments > 5000, "{segments} segments");
}

/// No timestamp is older than one before it.
#[track_caller]
fn has_timestamps_in_order(file: &Path) {
    let mut last: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let all =
        ["ip.src", "tcp.srcport", "tcp.dstport", "tcp.options.timestamp.tsval", "tcp.ack_raw"];
    let filter = "tcp.options.timestamp.tsval && tcp.flags.syn == 0 && tcp.flags.reset == 0";
    for line in tshark(file, filter, &all).lines() {
        let [source, from, to, value, acknowledged] = fields(line);
        let now: (u32, u32) =
            (value.parse().expect("a number"), acknowledged.parse().expect("a number"));
        let before = last.insert(format!("{source} {from} {to}"), now).unwrap_or(now);
        let is_not_older = |one: u32, other: u32| one.wrapping_sub(other) as i32 >= 0;
        let in_order = is_not_older(now.0, before.0) && is_not_older(now.1, before.1);
        assert!(in_order, "{source} {from} {to}: {before:?}, then {now:?}");
    }
    assert!(last.len() >= 4, "{last:?}");
}

#[track_caller]
fn fields<const COUNT: usize>(line: &str) -> [&str; COUNT] {
    let all: Vec<&str> = line.split('\t').collect();
    all.try_into().unwrap_or_else(|all| panic!("{all:?}"))
}
