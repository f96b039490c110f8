//! Third parties judge the instrument: tshark the frames it claims to send, iperf3 the counters it
//! calls evidence.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::lab::{
    CLIENT_INTERFACE, SUT_INTERFACE, inside, lab, measured, run_spec, run_undisturbed,
};
use crate::common::{Running, cases, kill, wait_until};
use linkrate_lab::Lab;
use linkrate_model::{InterfaceKnobs, Measurement, Offload, Protocol, Task, Workload};
use rustix::process::Signal;
use serde_json::Value;

/// Payload of a full frame: MTU 1500 less 20 of IP, 20 of TCP and 12 of its timestamps.
const SEGMENT: f64 = 1448.0;
/// The same frame with Ethernet's header.
const FRAME: f64 = 1514.0;

/// One frame as tshark reads it.
#[derive(Debug)]
struct Frame {
    bytes: u32,
    from_sut: bool,
    source_port: String,
    sequence: u32,
    syn: bool,
    ends: bool,
    tcp_checksum: Checksum,
    ip_checksum: Checksum,
    malformed: bool,
}

#[derive(Debug, PartialEq)]
enum Checksum {
    Bad,
    Good,
    Unverified,
}

impl Checksum {
    /// By tshark's numbers.
    fn read(field: &str) -> Self {
        match field {
            "0" | "Bad" => Self::Bad,
            "1" | "Good" => Self::Good,
            _ => Self::Unverified,
        }
    }

    /// TCP's. Where the sum comes out as 0x0000, Linux writes 0xffff (`CSUM_MANGLED_0` in its
    /// `skb_checksum_help`): the same number in ones' complement, which every receiver accepts
    /// and tshark calls bad. One frame in 65,536 meets it.
    fn read_tcp(field: &str, written: &str, calculated: &str) -> Self {
        match (written, calculated) {
            ("0xffff", "0x0000") => Self::Good,
            _ => Self::read(field),
        }
    }
}

const FIELDS: [&str; 13] = [
    "frame.len",
    "ip.src",
    "tcp.srcport",
    "tcp.seq_raw",
    "tcp.flags.syn",
    "tcp.flags.fin",
    "tcp.flags.reset",
    "tcp.checksum.status",
    "tcp.checksum",
    "tcp.checksum_calculated",
    "ip.checksum.status",
    "_ws.malformed",
    "frame.protocols",
];

fn frame(line: &str, sut: &str) -> Frame {
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!(fields.len(), FIELDS.len(), "{line:?}");
    let set = |field: &str| field == "1" || field == "True";
    Frame {
        bytes: fields[0].parse().expect("a length"),
        from_sut: fields[1] == sut,
        source_port: fields[2].to_owned(),
        sequence: fields[3].parse().unwrap_or(0),
        syn: set(fields[4]),
        ends: set(fields[5]) || set(fields[6]),
        tcp_checksum: Checksum::read_tcp(fields[7], fields[8], fields[9]),
        ip_checksum: Checksum::read(fields[10]),
        malformed: !fields[11].is_empty() || fields[12].contains("malformed"),
    }
}

/// tshark on the client's end of the wire.
struct Capture {
    tshark: Child,
    file: tempfile::NamedTempFile,
    sut: String,
}

impl Capture {
    /// Starts it and waits until it captures.
    fn start(lab: &mut Lab, filter: &str, most: u32) -> Self {
        let client = &lab.testbed().expect("the testbed is up").clients[0];
        let (pid, sut) = (client.host.pid(), client.sut_address.to_string());
        let file = tempfile::NamedTempFile::new().expect("make a temporary file");
        let mut tshark = inside(pid, "tshark")
            // a large buffer, or a fast stream overruns it
            .args(["-i", CLIENT_INTERFACE, "-B", "64", "-c", &most.to_string(), "-f", filter])
            .arg("-w")
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start tshark");
        let stderr = BufReader::new(tshark.stderr.take().expect("stderr is a pipe"));
        let (started, starts) = channel();
        std::thread::spawn(move || {
            // read to the end, or tshark would stop at a full pipe
            for line in stderr.lines().map_while(Result::ok) {
                if line.contains("Capturing on") {
                    // nobody listens after a time-out
                    let _ = started.send(());
                }
            }
        });
        starts.recv_timeout(Duration::from_secs(60)).expect("tshark begins to capture");
        // dumpcap writes the file's header once its socket is open
        let begun = || fs::metadata(file.path()).is_ok_and(|file| file.len() > 0);
        assert!(wait_until(Duration::from_secs(30), begun), "tshark captures nothing");
        Self { tshark, file, sut }
    }

    /// Ends it and reads what it caught, all checksums verified.
    fn frames(mut self) -> Vec<Frame> {
        // the last packets are on their way to the file
        let size = || fs::metadata(self.file.path()).map_or(0, |file| file.len());
        let mut last = 0;
        let has_all = || {
            std::thread::sleep(Duration::from_millis(400));
            std::mem::replace(&mut last, size()) == last
        };
        assert!(wait_until(Duration::from_secs(30), has_all), "frames come on and on");
        kill(self.tshark.id(), Signal::INT);
        assert!(
            wait_until(Duration::from_secs(30), || self
                .tshark
                .try_wait()
                .is_ok_and(|s| s.is_some())),
            "tshark hangs"
        );
        let mut tshark = reader(self.file.path());
        let read = Running::start(&mut tshark).wait().expect_code(0);
        read.stdout.lines().map(|line| frame(line, &self.sut)).collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // both fail for a process that has been waited for
        let _ = self.tshark.kill();
        let _ = self.tshark.wait();
    }
}

fn reader(file: &Path) -> Command {
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(file);
    for option in ["tcp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        tshark.args(["-o", option]);
    }
    // one value a field, and nothing reassembled
    tshark.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields", "-E", "occurrence=f"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    tshark
}

/// What tshark caught of a run, and what the instrument said of it.
fn judged(interface: InterfaceKnobs, workload: Workload) -> (Vec<Frame>, Measurement) {
    let mut lab = lab(None);
    let capture = Capture::start(&mut lab, "tcp or udp", 20_000);
    let measurement = measured(&mut lab, workload, interface, Duration::from_millis(500));
    (capture.frames(), measurement)
}

fn knobs(offload: Offload, tx_checksum: bool) -> InterfaceKnobs {
    InterfaceKnobs {
        offload: Some(offload),
        tx_checksum: Some(tx_checksum),
        ..InterfaceKnobs::default()
    }
}

#[track_caller]
fn check_sound(frames: &[Frame]) {
    assert!(frames.len() > 500, "{} frames", frames.len());
    assert!(frames.iter().any(|frame| frame.from_sut));
    let bad = frames.iter().find(|frame| frame.malformed || frame.ip_checksum == Checksum::Bad);
    assert!(bad.is_none(), "{bad:?}");
}

#[test]
fn at_rung_none_every_frame_is_whole_and_its_checksums_are_right() {
    needs!(root, "tshark", "nsenter");
    let (frames, measurement) = judged(knobs(Offload::None, false), Workload::default());
    check_sound(&frames);
    // what the client sends is not under test, and leaves its checksums to its own device
    for frame in frames.iter().filter(|frame| frame.from_sut) {
        assert!(frame.bytes <= FRAME as u32, "{frame:?}");
        assert_eq!(frame.tcp_checksum, Checksum::Good, "{frame:?}");
        assert_eq!(frame.ip_checksum, Checksum::Good, "{frame:?}");
    }
    let full = frames.iter().filter(|frame| frame.from_sut && frame.bytes == FRAME as u32).count();
    assert!(full > 500, "{full} full frames");
    assert!(measurement.evidence.mean_driver_packet_bytes().expect("traffic") <= FRAME);
}

#[test]
fn the_wire_shows_the_work_of_the_adapter_on_each_rung() {
    needs!(root, "tshark", "nsenter");
    // software GSO cuts, and writes every checksum itself when the adapter does not
    let (frames, _) = judged(knobs(Offload::Gso, false), Workload::default());
    check_sound(&frames);
    for frame in frames.iter().filter(|frame| frame.from_sut) {
        assert!(frame.bytes <= FRAME as u32, "{frame:?}");
        assert_eq!(frame.tcp_checksum, Checksum::Good, "{frame:?}");
    }
    // a veth pair hands superframes through, and leaves checksums out on the way
    let (frames, measurement) = judged(knobs(Offload::Tso, true), Workload::default());
    check_sound(&frames);
    let of_sut = || frames.iter().filter(|frame| frame.from_sut);
    assert!(of_sut().any(|frame| frame.bytes > 10_000), "no superframe");
    assert!(of_sut().any(|frame| frame.tcp_checksum == Checksum::Bad), "who wrote the checksums?");
    let mean = of_sut().map(|frame| f64::from(frame.bytes)).sum::<f64>() / of_sut().count() as f64;
    let claimed = measurement.evidence.mean_driver_packet_bytes().expect("traffic");
    assert!(claimed / mean < 4.0 && mean / claimed < 4.0, "claimed {claimed}, seen {mean}");
}

#[test]
#[ignore = "exhaustive: another judge"]
fn transactions_appear_on_the_wire() {
    needs!(root, "tshark", "nsenter");
    for kind in [Protocol::RequestResponse, Protocol::UdpRequestResponse] {
        let workload = Workload { kind, ..Workload::default() };
        let (frames, measurement) = judged(knobs(Offload::None, false), workload);
        check_sound(&frames);
        assert!(measurement.traffic.transactions > 100);
        assert!(frames.iter().all(|frame| frame.bytes < 200), "one byte each way");
    }
}

#[test]
fn payload_agrees_with_sequence_numbers() {
    needs!(root, "tshark", "nsenter");
    let mut lab = lab(None);
    let mut once = || {
        // first and last segments alone, so that none is missed however fast the rest goes by
        let filter = "tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0";
        let capture = Capture::start(&mut lab, filter, 1000);
        let knobs = knobs(Offload::None, true);
        let measurement = measured(&mut lab, Workload::default(), knobs, Duration::from_secs(1));
        let frames = capture.frames();
        let first = frames.iter().find(|frame| frame.from_sut && frame.syn).expect("a SYN");
        let of_it = |frame: &&Frame| frame.from_sut && frame.source_port == first.source_port;
        let Some(last) = frames.iter().filter(of_it).rfind(|frame| frame.ends) else {
            // the receiver closed first, and reset the connection
            let reset = frames.iter().any(|frame| !frame.from_sut && frame.ends);
            assert!(reset, "no FIN: {frames:?}");
            return None;
        };
        // RFC 9293: a SYN takes one sequence number, and numbers wrap
        let sent = f64::from(last.sequence.wrapping_sub(first.sequence).wrapping_sub(1));
        Some((sent, measurement.traffic.transmit_bytes as f64))
    };
    let (sent, counted) = (0..5).find_map(|_| once()).expect("a connection that ends in a FIN");
    // the connection lives a little longer than the window, never shorter
    assert!(counted > 0.0 && sent >= counted, "{sent} sent, {counted} counted");
    assert!(sent < 1.5 * counted, "{sent} sent, {counted} counted");
}

/// iperf3 sends `bytes` from the system under test to client 0 while the instrument watches an
/// idle lab.
fn watched_iperf3(lab: &mut Lab, offload: Offload, bytes: u64) -> (Measurement, Value) {
    let testbed = lab.testbed().expect("the testbed is up");
    let client = &testbed.clients[0];
    assert_eq!((&*client.sut_interface, &*client.interface), (SUT_INTERFACE, CLIENT_INTERFACE));
    let address = client.address.to_string();
    let server = Running::start(inside(client.host.pid(), "iperf3").args(["-s", "-1"]));
    let mut sender = inside(testbed.sut.pid(), "iperf3");
    sender.args(["-J", "-c", &address, "-n", &bytes.to_string(), "-l", "128K"]);
    let sending = std::thread::spawn(move || {
        // knobs are set and the window opens in far less
        std::thread::sleep(Duration::from_millis(700));
        Running::start(&mut sender).wait()
    });
    let interface = InterfaceKnobs { offload: Some(offload), ..InterfaceKnobs::default() };
    let spec = run_spec(Task::Idle, interface, Duration::from_secs(4));
    let measurement = run_undisturbed(lab, &spec);
    assert!(sending.is_finished(), "iperf3 took longer than the window");
    let document = sending.join().expect("iperf3 ran").expect_code(0).json();
    server.wait();
    (measurement, document)
}

#[test]
#[ignore = "exhaustive: another judge"]
fn interface_counters_agree_with_iperf3() {
    needs!(root, "iperf3", "nsenter");
    let mut lab = lab(Some("cubic"));
    let offloads =
        [(Offload::None, FRAME / SEGMENT), (Offload::Tso, 1.02), (Offload::Gso, FRAME / SEGMENT)];
    for &(offload, most_overhead) in cases(&offloads, 2) {
        let (measurement, document) = watched_iperf3(&mut lab, offload, 200 << 20);
        let sum = &document["end"]["sum_sent"];
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{document}"));
        // its receiver stops counting a little before the last bytes have come
        let payload = number(&document["end"]["sum_received"]["bytes"]);
        let bytes = f64::from(200 << 20);
        assert!((bytes * 0.9..=number(&sum["bytes"])).contains(&payload), "{payload}: {sum}");
        let sent = number(&sum["bytes"]) + number(&sum["retransmits"]) * 65536.0;
        let counted = measurement.evidence.interface.tx_bytes as f64;
        // headers, and some kilobytes of iperf3's control connection
        assert!(counted >= payload, "{offload:?}: {counted} counted, {payload} received");
        let most = sent * most_overhead * 1.005;
        assert!(counted <= most, "{offload:?}: {counted} counted, at most {most}");
        if offload != Offload::Tso {
            // every frame has its headers: none may be missing from the count
            let least = payload * FRAME / SEGMENT * 0.999;
            assert!(counted >= least, "{offload:?}: {counted} counted, at least {least}");
        }
        let segments = *measurement.evidence.protocol.get("Tcp.OutSegs").expect("segments") as f64;
        assert!(segments >= (payload / SEGMENT).floor(), "{offload:?}: {segments} segments");
    }
}
