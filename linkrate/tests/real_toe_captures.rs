//! Connections that move to a TCP offload engine and back, as a capture of their port shows them: on the
//! wire no move is to be seen, and tshark complains of nothing.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use common::capture::Capture;
use common::up::{Up, ready};
use common::{tshark, wait_until};

/// Moves to the adapter and back.
const MOVES: u64 = 6;

/// A lab with the adapter at a tenth of its rate, so that streams are busy and captures are small.
fn lab() -> Up {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("slow.toml");
    let model = include_str!("../../linkrate-terms/models/toe.toml");
    let slow = model.replace("rate = \"1 Gbit/s\"", "rate = \"100 Mbit/s\"");
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
    if !ready("no_move_is_to_be_seen_on_the_wire", &["iperf3", "tshark"]) {
        return;
    }
    let lab = lab();
    let capture = Capture::start(&lab, "eth0");
    let (server, client) = lab.iperf3("-t 4 --bidir -C cubic");
    std::thread::sleep(Duration::from_millis(300));
    for number in 0..MOVES {
        let before = moves(&lab);
        let to = if number % 2 == 0 { "on" } else { "off" };
        lab.linkrate(&format!("adapter set eth0 toe={to}"));
        // a stream in each direction, beside the connection that iperf3 talks over
        let moved = || moves(&lab) >= before + 2;
        assert!(wait_until(Duration::from_secs(5), moved), "{to}: {} moves", moves(&lab) - before);
        std::thread::sleep(Duration::from_millis(250));
    }
    client.wait().expect_code(0);
    server.wait().expect_code(0);
    capture.stop();
    assert_eq!(lab.counter("eth0", "toeHostSegments"), 0);
    let wire = capture.of_interface("wire");
    is_continuous(&wire);
    lab.down().expect_code(0);
}

/// Sequence numbers, acknowledgements and timestamps of each stream go on without a gap.
#[track_caller]
fn is_continuous(file: &Path) {
    let complaints = tshark(
        file,
        "_ws.expert.severity >= 4194304",
        &["frame.number", "ip.src", "tcp.srcport", "tcp.dstport", "_ws.expert.message"],
    );
    assert_eq!(complaints, "");
    let fields = ["ip.src", "tcp.srcport", "tcp.dstport", "tcp.options.timestamp.tsval"];
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    let mut segments = 0;
    for line in tshark(file, "tcp.options.timestamp.tsval", &fields).lines() {
        let (way, value) = line.rsplit_once('\t').expect("four fields");
        let value: u32 = value.parse().expect("a number");
        let before = last.insert(way.to_owned(), value).unwrap_or(value);
        assert!(value.wrapping_sub(before) < 1 << 31, "{way}: {before}, then {value}");
        segments += 1;
    }
    assert!(segments > 5000, "{segments} segments");
}
