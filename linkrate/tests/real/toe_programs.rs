//! Programs that know nothing of linkrate, and whose connections are at a TCP offload engine: whatever
//! way they wait, whatever they ask, and whatever ends them.

use crate::common;
mod signals;
mod user;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::common::ssh::Ssh;
use crate::common::up::{CLIENT, CLIENT_IPV6, SUT, SUT_IPV6, Up};
use crate::common::{Finished, Running, wait_until};
use linkrate_sys::processes::{self, ThreadPlace};
use linkrate_sys::sched;
use rustix::process::Signal;
use serde_json::Value;

/// Bytes of each direction: more than all buffers on the way hold.
const BYTES: u64 = 12_000_000;

/// Ways in which the program waits for its socket.
const WAYS: [&str; 8] = ["block", "timeout", "poll", "epoll", "edge", "threads", "fork", "dup"];

/// The program, linked statically.
fn stream() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/toe_programs/stream.cpp");
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let made = directory.join(format!("stream-{}", std::process::id()));
        let mut compiler = Command::new("c++");
        compiler.args(["-O1", "-static", "-pthread", "-o"]).arg(&made).arg(source);
        let output = compiler.output().expect("start c++");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        common::processes::readable_by_all(&made);
        made
    })
}

/// A lab with connections at the adapter, or those that are ordered to it.
fn lab(toe: &str) -> Up {
    let lab = Up::start("--adapter toe");
    lab.linkrate(&format!("adapter set eth0 toe={toe}"));
    lab
}

/// A port that no other test has.
fn port() -> u16 {
    static PORT: AtomicU16 = AtomicU16::new(7000);
    PORT.fetch_add(1, Ordering::Relaxed)
}

/// A program that tells what it does, line by line.
struct Teller {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Teller {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("start");
        let lines = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// What it says to the end, and its exit code.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().expect("kill");
                self.child.wait().expect("wait");
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut said).expect("text");
        if let Some(mut stderr) = self.child.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
        }
        (status.code(), said)
    }

    #[track_caller]
    fn expect_whole(self, context: &str) -> String {
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{context}: {said}");
        said
    }
}

/// The program with these words in a host of the lab.
fn program(lab: &Up, host: &str, words: &str) -> Teller {
    Teller::start(&mut lab.exec(host, &format!("{} {words}", stream().display())))
}

/// The peer of a stream, which listens, and waits before it carries bytes.
#[track_caller]
fn far(lab: &Up, port: u16, bytes: u64, wait_ms: u32) -> Teller {
    let mut far = program(lab, "client-0", &format!("far {port} {bytes} {wait_ms}"));
    assert_eq!(far.line(), "listens");
    far
}

fn counters(lab: &Up) -> impl Fn(&str) -> u64 + use<> {
    let port = lab.port("eth0");
    move |name| port["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {port}"))
}

/// Bytes that the peer may have sent before the connection moved: its first window.
const FIRST_WINDOW: u64 = 512 << 10;

/// Every byte went by the adapter since `before`, and the host sent no segment for a connection there.
#[track_caller]
fn expect_by_adapter(lab: &Up, before: impl Fn(&str) -> u64, bytes: u64, context: &str) {
    let now = counters(lab);
    let carried = |name| now(name) - before(name);
    assert!(carried("toeTxBytes") >= bytes, "{context}: {}", carried("toeTxBytes"));
    let received = carried("toeRxBytes");
    assert!(received + FIRST_WINDOW >= bytes, "{context}: {received}");
    assert_eq!(now("toeHostSegments"), 0, "{context}");
}

#[test]
fn a_program_that_connects_is_at_the_adapter_whatever_way_it_waits() {
    needs!(root, "c++");
    let lab = lab("on");
    for way in WAYS.into_iter().chain(["late"]) {
        let (port, before) = (port(), counters(&lab));
        let far = far(&lab, port, BYTES, 0);
        let said = program(&lab, "sut", &format!("connect {way} {CLIENT} {port} {BYTES}"))
            .expect_whole(way);
        assert!(said.contains("whole, state 1, mss 1448"), "{way}: {said}");
        far.expect_whole(way);
        expect_by_adapter(&lab, before, BYTES, way);
    }
    lab.down().expect_code(0);
}

#[test]
fn a_program_that_accepts_is_at_the_adapter_whatever_way_it_waits() {
    needs!(root, "c++");
    let lab = lab("on");
    for way in WAYS {
        let (port, before) = (port(), counters(&lab));
        let mut near = program(&lab, "sut", &format!("accept {way} {port} {BYTES}"));
        assert_eq!(near.line(), "listens");
        // the call waits by then
        std::thread::sleep(Duration::from_millis(50));
        let far = program(&lab, "client-0", &format!("join {SUT} {port} {BYTES}"));
        let said = near.expect_whole(way);
        assert!(said.contains("whole, state 1, mss 1448"), "{way}: {said}");
        far.expect_whole(way);
        expect_by_adapter(&lab, before, BYTES, way);
    }
    lab.down().expect_code(0);
}

/// Starts a program whose connection is at the host, and orders it to the adapter while it waits.
#[track_caller]
fn ordered(lab: &Up, way: &str, bytes: u64) -> (Teller, Teller, Finished) {
    let port = port();
    let far = far(lab, port, bytes, 1200);
    let words = format!("{} connect {way} {CLIENT} {port} {bytes}", stream().display());
    let mut near = Teller::start(lab.exec("sut", &words).env("STREAM_ASKS_LATER", "1"));
    let connected = near.line();
    let descriptor = connected.strip_prefix("connected ").expect("connected").to_owned();
    // all buffers are full, and it waits
    std::thread::sleep(Duration::from_millis(400));
    let process = near.child.id();
    let ordered = lab.tried(&format!("adapter toe offload {process}:{descriptor}"));
    (near, far, ordered)
}

#[test]
fn a_running_program_moves_whatever_call_it_waits_in() {
    needs!(root, "c++");
    let lab = lab("off");
    for way in ["block", "timeout", "poll", "epoll", "edge", "threads"] {
        let before = counters(&lab);
        let (near, far, ordered) = ordered(&lab, way, BYTES);
        ordered.expect_code(0);
        let shown = lab.linkrate("adapter toe show --json").json();
        let connections = shown["toe"]["connections"].as_array().expect("connections").clone();
        let of_near = |of: &&Value| of["process"] == near.child.id();
        let found = connections.iter().find(of_near).unwrap_or_else(|| panic!("{shown}"));
        assert_eq!((&found["at"], &found["moves"]), (&"adapter".into(), &1.into()), "{shown}");
        near.expect_whole(way);
        far.expect_whole(way);
        // what was in the host's buffers before went by the host
        let now = counters(&lab);
        assert!(now("toeRxBytes") - before("toeRxBytes") >= BYTES, "{way}");
        assert!(now("toeTxBytes") > before("toeTxBytes"), "{way}");
        assert_eq!(now("toeHostSegments"), 0, "{way}");
    }
    lab.down().expect_code(0);
}

/// Bytes of a stream that lasts for seconds at link rate.
const LONG: u64 = BYTES * 20;

/// Moves of connections of a lab by their kinds.
#[track_caller]
fn moves(lab: &Up, kind: &str) -> u64 {
    let shown = lab.linkrate("adapter toe show --json").json();
    shown["toe"]["moves"][kind].as_u64().unwrap_or(0)
}

/// A stream between a program of the system under test and its peer, which is connected.
#[track_caller]
fn streaming(lab: &Up, way: &str, bytes: u64) -> (Teller, Teller) {
    let port = port();
    let far = far(lab, port, bytes, 0);
    let mut near = program(lab, "sut", &format!("connect {way} {CLIENT} {port} {bytes}"));
    assert!(near.line().starts_with("connected"), "{way}");
    (near, far)
}

#[test]
#[ignore = "exhaustive: another way to move"]
fn auto_moves_a_program_while_it_runs() {
    needs!(root, "c++");
    let lab = lab("auto");
    for way in ["block", "epoll", "threads"] {
        let (before, down) = (counters(&lab), moves(&lab, "down"));
        let (near, far) = streaming(&lab, way, LONG / 3);
        let moved = || moves(&lab, "down") == down + 1;
        assert!(wait_until(Duration::from_secs(5), moved), "{way} stays at the host");
        near.expect_whole(way);
        far.expect_whole(way);
        let now = counters(&lab);
        assert!(now("toeTxBytes") > before("toeTxBytes"), "{way}");
        assert!(now("toeRxBytes") > before("toeRxBytes"), "{way}");
        assert_eq!(now("toeHostSegments"), 0, "{way}");
    }
    lab.down().expect_code(0);
}

#[test]
#[ignore = "exhaustive: another way to move"]
fn a_running_program_returns_to_the_host_when_toe_is_off_and_goes_again() {
    returns_and_goes_again(&["epoll", "threads"]);
}

#[test]
#[ignore = "exhaustive: the other ways to wait"]
fn a_running_program_returns_and_goes_again_whatever_call_it_waits_in() {
    returns_and_goes_again(&["block", "timeout", "poll", "edge"]);
}

fn returns_and_goes_again(ways: &[&str]) {
    needs!(root, "c++");
    let lab = lab("on");
    for way in ways {
        let (up, down) = (moves(&lab, "up.toe-off"), moves(&lab, "down"));
        let (near, far) = streaming(&lab, way, LONG);
        std::thread::sleep(Duration::from_millis(100));
        lab.linkrate("adapter set eth0 toe=off");
        // the command returns when the connection has
        assert_eq!(moves(&lab, "up.toe-off"), up + 1, "{way}");
        let by_adapter = lab.counter("eth0", "toeTxBytes");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(lab.counter("eth0", "toeTxBytes"), by_adapter, "{way}");
        lab.linkrate("adapter set eth0 toe=on");
        let again = || moves(&lab, "down") == down + 2;
        assert!(wait_until(Duration::from_secs(5), again), "{way} stays at the host");
        near.expect_whole(way);
        far.expect_whole(way);
        assert_eq!(lab.counter("eth0", "toeHostSegments"), 0, "{way}");
    }
    lab.down().expect_code(0);
}

#[test]
fn a_running_program_returns_to_the_host_when_its_port_is_removed() {
    needs!(root, "c++");
    let lab = lab("on");
    let (mut near, far) = streaming(&lab, "threads", LONG * 10);
    std::thread::sleep(Duration::from_millis(100));
    lab.linkrate("adapter remove eth0");
    assert_eq!(moves(&lab, "up.removal"), 1);
    // as without an engine, it waits for a peer that has gone, and has neither an error nor a wrong byte
    std::thread::sleep(Duration::from_millis(300));
    let ended = near.child.try_wait().expect("wait");
    near.child.kill().expect("kill");
    let (_, said) = near.end();
    assert!(ended.is_none(), "{ended:?} {said}");
    far.end();
    lab.down().expect_code(0);
}

#[test]
fn what_cannot_move_says_why_and_continues() {
    needs!(root, "c++");
    let lab = lab("off");
    // two processes have the socket
    let (near, far, refused) = ordered(&lab, "fork", BYTES);
    let said = refused.expect_code(2).stderr;
    assert!(said.contains("have the socket of descriptor"), "{said}");
    near.expect_whole("fork");
    far.expect_whole("fork");
    let sleeper = lab.sleeper("sut");
    let pid = sleeper.pid();
    for (what, code, reason) in [
        ("999999999:3".to_owned(), 2, "process 999999999 does not exist".to_owned()),
        (format!("{pid}:77"), 2, format!("process {pid} has no descriptor 77")),
        (
            format!("{pid}:1"),
            2,
            format!("descriptor 1 of process {pid} is not a socket, expected a TCP connection"),
        ),
        ("4711".to_owned(), 2, "expected the numbers PID:FD".to_owned()),
    ] {
        let said = lab.tried(&format!("adapter toe offload {what}")).expect_code(code).stderr;
        assert!(said.contains(&reason), "{what}: {said}");
    }
    sleeper.signal(Signal::KILL);
    sleeper.wait();
    // a connection over another interface, and one that only listens
    let port = port();
    let mut far = program(&lab, "sut", &format!("far {port} 1000000 1500"));
    assert_eq!(far.line(), "listens");
    let said = lab.tried(&format!("adapter toe offload {}:3", far.child.id())).expect_code(2);
    assert!(said.stderr.contains("is a TCP socket that is not connected"), "{}", said.stderr);
    let mut near = program(&lab, "sut", &format!("connect block {SUT} {port} 1000000"));
    assert_eq!(near.line(), "connected 3");
    let said = lab.tried(&format!("adapter toe offload {}:3", near.child.id()));
    let said = said.expect_code(1).stderr;
    assert!(said.contains("is not between a port with a TCP offload engine and one of"), "{said}");
    near.expect_whole("loopback");
    far.expect_whole("loopback");
    assert_eq!(lab.counter("eth0", "toeTxBytes"), 0);
    lab.down().expect_code(0);
}

/// A lab with connections at the adapter, whose engine takes so many.
fn lab_with_table(most: u32) -> Up {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("table.toml");
    let model = include_str!("../../../linkrate-model/models/toe.toml");
    let other = model.replace("toe-connections = 1024", &format!("toe-connections = {most}"));
    assert_ne!(other, model);
    fs::write(&file, other.replace("name = \"toe\"", "name = \"table\"")).expect("write a file");
    let lab = Up::start(&format!("--adapter {}", file.display()));
    lab.linkrate("adapter set eth0 toe=on");
    lab
}

#[test]
fn a_full_table_leaves_connections_at_the_host() {
    needs!(root, "c++");
    let lab = lab_with_table(1);
    let mut streams = Vec::new();
    for _ in 0..2 {
        let port = port();
        let far = far(&lab, port, BYTES, 800);
        let mut near = program(&lab, "sut", &format!("connect threads {CLIENT} {port} {BYTES}"));
        assert!(near.line().starts_with("connected"));
        streams.push((near, far));
    }
    let (second, _) = &streams[1];
    let said = lab.tried(&format!("adapter toe offload {}:3", second.child.id())).expect_code(1);
    assert!(said.stderr.contains("the table of eth0 is full"), "{}", said.stderr);
    let shown = lab.linkrate("adapter toe show --json").json();
    assert_eq!(shown["toe"]["stayed"]["table-full"], 2, "{shown}");
    for (near, far) in streams {
        near.expect_whole("near");
        far.expect_whole("far");
    }
    let carried = lab.counter("eth0", "toeTxBytes");
    assert!((BYTES..BYTES * 2).contains(&carried), "{carried}");
    lab.down().expect_code(0);
}

/// A program with so many connections at the adapter, and their peer, which resets them when it ends.
#[track_caller]
fn idle(lab: &Up, connections: usize) -> (Teller, Teller) {
    let port = port();
    let mut far = program(lab, "client-0", &format!("hold {port} {connections}"));
    assert_eq!(far.line(), "listens");
    let mut near = program(lab, "sut", &format!("idle {CLIENT} {port} {connections}"));
    assert_eq!((near.line(), far.line()), ("idle".to_owned(), "holds".to_owned()));
    (near, far)
}

#[test]
fn a_program_learns_at_once_that_the_peer_has_reset_its_connection() {
    needs!(root, "c++");
    let lab = lab("on");
    let mut all = Vec::new();
    for number in 1..=5 {
        let (mut near, mut far) = idle(&lab, 1);
        // the program waits in its call, and the lab for its next look
        std::thread::sleep(Duration::from_millis(100 + 77 * number));
        let began = Instant::now();
        far.child.kill().expect("kill");
        // an end of the stream instead would mean that the host's TCP has not seen the reset
        assert_eq!(near.line(), "Connection reset by peer");
        all.push(began.elapsed());
        near.expect_whole("reset");
        far.end();
        assert_eq!(moves(&lab, "up.reset"), number);
    }
    all.sort_unstable();
    println!("a reset reaches its program after {:?} at the median: {all:?}", all[2]);
    lab.down().expect_code(0);
}

/// CPU time so far: of the engine's thread, of its process, of the lab with its device threads, of the
/// program, ns.
fn spent(lab: &Up, program: u32) -> [u64; 4] {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        processes::stat_field(&stat, 4)?.parse().ok()
    };
    let of_lab = |pid: &u32| {
        std::iter::successors(Some(*pid), |pid| parent(*pid)).any(|of| of == lab.running.pid())
    };
    let engine_of = |pid: u32| {
        let is_engine = |thread: &ThreadPlace| {
            let name = fs::read_to_string(format!("/proc/{pid}/task/{}/comm", thread.id));
            name.is_ok_and(|name| name == "toe\n")
        };
        Some((processes::threads_of(pid).into_iter().find(is_engine)?.cpu_ns, pid))
    };
    let mut agents = processes::ids().expect("processes").into_iter().filter(of_lab);
    let engine = agents.find_map(engine_of);
    let (engine_ns, pid) = engine.expect("a thread of the engine");
    let of = |pid| sched::process_cpu_ns(pid).expect("a process");
    [engine_ns, of(pid), of(lab.running.pid()), of(program)]
}

/// How long idle connections are watched, and what all of them together may cost meanwhile.
const IDLE: Duration = Duration::from_secs(4);
const NOTHING: Duration = Duration::from_millis(50);

#[test]
#[ignore = "exhaustive: 300 connections"]
fn hundreds_of_idle_connections_cost_no_cpu_time() {
    idle_connections_cost_nothing(300);
}

/// Each call that opens one takes milliseconds on a busy machine. The adapter's agent has two files of each, so the
/// limit of open files is the bound.
#[test]
#[ignore = "exhaustive: 2,000 connections instead of 300"]
fn thousands_of_idle_connections_cost_no_cpu_time() {
    idle_connections_cost_nothing(2000);
}

fn idle_connections_cost_nothing(count: usize) {
    needs!(root, "c++");
    let lab = lab_with_table(10_000);
    let first = idle(&lab, 1);
    let measure = |program| {
        std::thread::sleep(Duration::from_secs(1));
        let before = spent(&lab, program);
        std::thread::sleep(IDLE);
        let after = spent(&lab, program);
        [0, 1, 2, 3].map(|of| Duration::from_nanos(after[of] - before[of]))
    };
    let of_one = measure(first.0.child.id());
    let began = Instant::now();
    let (near, far) = idle(&lab, count - 1);
    let took = began.elapsed();
    let there = at_adapter(&lab);
    let of_all = measure(near.child.id());
    println!(
        "{there} of {count} connections at the adapter (made in {took:?}), CPU time in {IDLE:?} of idleness: \
         engine thread, its process, lab with devices, program: {of_all:?}; of one connection {of_one:?}"
    );
    // a call that finds the lab busy leaves its connection at the host
    assert!(there * 100 >= count * 95, "{there} of {count}");
    for (all, one) in of_all.iter().zip(of_one) {
        assert!(*all < one + NOTHING, "{of_all:?} {of_one:?}");
    }
    for (near, far) in [first, (near, far)] {
        for mut end in [near, far] {
            end.child.kill().expect("kill");
            end.end();
        }
    }
    lab.down().expect_code(0);
}

/// Connections at the adapter, those that have ended included.
#[track_caller]
fn at_adapter(lab: &Up) -> usize {
    let shown = lab.linkrate("adapter toe show --json").json();
    let connections = shown["toe"]["connections"].as_array().expect("connections");
    connections.iter().filter(|of| of["at"] == "adapter").count()
}

#[test]
fn a_program_or_a_supervisor_that_dies_leaves_nothing() {
    needs!(root, "c++");
    let lab = lab("on");
    let port_of_first = port();
    let peer = far(&lab, port_of_first, BYTES * 100, 0);
    let mut near =
        program(&lab, "sut", &format!("connect threads {CLIENT} {port_of_first} {}", BYTES * 100));
    assert!(near.line().starts_with("connected"));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(at_adapter(&lab), 1);
    near.child.kill().expect("kill");
    near.child.wait().expect("wait");
    // the peer sees the end of the connection: the reset itself, or after a FIN (tcp_reset() in net/ipv4/tcp_input.c)
    let (code, said) = peer.end();
    let seen =
        ["Connection reset", "Broken pipe", "too early"].iter().any(|way| said.contains(way));
    assert!(code == Some(1) && seen, "{code:?}: {said}");
    let forgotten = || at_adapter(&lab) == 0;
    assert!(wait_until(Duration::from_secs(20), forgotten), "it is in the table still");
    // a call that waits for the supervisor, and one that comes later
    let waiting = port();
    let mut near = program(&lab, "sut", &format!("accept block {waiting} 1000"));
    assert_eq!(near.line(), "listens");
    std::thread::sleep(Duration::from_millis(100));
    lab.running.signal(Signal::KILL);
    lab.running.wait();
    let (code, said) = near.end();
    assert!(code == Some(1) && said.contains("Function not implemented"), "{said}");
}

#[test]
fn iperf3_in_both_roles_is_at_the_adapter() {
    needs!(root, "iperf3");
    let lab = lab("on");
    for (address, options) in [
        (CLIENT, "-t 1"),
        (CLIENT, "-t 1 -R"),
        (CLIENT, "-t 1 -P 3 --bidir"),
        (CLIENT_IPV6, "-t 1 --bidir"),
    ] {
        let before = counters(&lab);
        let (server, client) = lab.iperf3_with("client-0", address, options);
        let document = client.wait().expect_code(0).json();
        server.wait().expect_code(0);
        let sent = document["end"]["sum_sent"]["bytes"].as_u64().expect("bytes");
        // a program sees its own connection
        let rtt = &document["end"]["streams"][0]["sender"]["mean_rtt"];
        assert!(options.contains("-R") || rtt.as_u64() > Some(0), "{document}");
        let now = counters(&lab);
        let carried =
            now("toeTxBytes") + now("toeRxBytes") - before("toeTxBytes") - before("toeRxBytes");
        assert!(carried * 100 >= sent * 90, "{options}: {carried} of {sent}");
        assert_eq!(now("toeHostSegments"), 0);
    }
    // the server listens for both versions of IP
    for address in [SUT, SUT_IPV6] {
        let before = counters(&lab);
        let server = Running::start(&mut lab.exec("sut", "iperf3 -s -1"));
        let listens = || {
            let tables = lab.run("sut", "cat /proc/net/tcp /proc/net/tcp6").stdout;
            tables.lines().any(|line| line.contains(":1451 ") && line.contains(" 0A "))
        };
        assert!(wait_until(Duration::from_secs(10), listens), "iperf3 does not listen");
        lab.run("client-0", &format!("iperf3 -c {address} -t 1")).expect_code(0);
        server.wait().expect_code(0);
        let now = counters(&lab);
        assert!(now("toeRxBytes") - before("toeRxBytes") > 10_000_000, "{address}");
        assert_eq!(now("toeHostSegments"), 0, "{address}");
    }
    lab.down().expect_code(0);
}

/// Seconds of one test of netperf.
const NETPERF_SECONDS: f64 = 1.0;

/// Mb/s of payload that a link of 1 Gb/s carries at most in frames of 1500 bytes: 1460 of 1538.
const LINK_MBPS: f64 = 950.0;

/// Runs a test of netperf in `host` against the other end, and returns its figure: Mb/s, or transactions in a
/// second.
#[track_caller]
fn netperf(lab: &Up, host: &str, far: &str, port: u16, test: &str) -> f64 {
    let words = format!("netperf -4 -H {far} -p {port} -l {NETPERF_SECONDS} -P 0 -v 0 -t {test}");
    let said = lab.run(host, &words).expect_code(0).stdout;
    said.trim().parse().unwrap_or_else(|_| panic!("{test}: {said:?}"))
}

/// netperf and its server come as the package has them, in both roles. What netperf says of itself fits the
/// link and what the adapter has counted; ours on such an adapter stands beside it.
#[test]
#[ignore = "exhaustive: another program"]
fn netperf_in_both_roles_is_at_the_adapter() {
    needs!(root, "netperf", "netserver");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    common::processes::readable_by_all(directory.path());
    let file = directory.path().join("file");
    fs::write(&file, vec![7; 4 << 20]).expect("write a file");
    let sendfile = format!("TCP_SENDFILE -F {}", file.display());
    let lab = lab("on");
    let mut said = Vec::new();
    for (server, client, address) in [("client-0", "sut", CLIENT), ("sut", "client-0", SUT)] {
        let control = port();
        let listening = format!(":{control:04X} ");
        let words = format!("netserver -D -4 -p {control}");
        let netserver = Running::start(&mut lab.exec(server, &words));
        let listens = || {
            let table = lab.run(server, "cat /proc/net/tcp").stdout;
            table.lines().any(|line| line.contains(&listening) && line.contains(" 0A "))
        };
        assert!(wait_until(Duration::from_secs(10), listens), "netserver does not listen");
        for (words, sends) in [
            ("TCP_STREAM", true),
            ("TCP_MAERTS", false),
            (sendfile.as_str(), true),
            ("TCP_RR", true),
        ] {
            let before = counters(&lab);
            let figure = netperf(&lab, client, address, control, words);
            let now = counters(&lab);
            let carried = |name| (now(name) - before(name)) as f64;
            let (sent, received) = (carried("toeTxBytes"), carried("toeRxBytes"));
            let bytes = match words {
                // a byte each way
                "TCP_RR" => figure * NETPERF_SECONDS,
                _ => figure * 1e6 / 8.0 * NETPERF_SECONDS,
            };
            assert!(figure > 0.0 && (words == "TCP_RR" || figure < LINK_MBPS), "{words}: {figure}");
            // netperf's second may be a little longer than ours
            let by_adapter = if sends == (client == "sut") { sent } else { received };
            assert!(by_adapter >= bytes * 0.9, "{client} {words}: {by_adapter} of {bytes}");
            assert!(words != "TCP_RR" || sent.min(received) >= bytes * 0.9, "{client} {words}");
            assert_eq!(now("toeHostSegments"), 0, "{client} {words}");
            let name = words.split_whitespace().next().unwrap_or_default();
            said.push(format!("netperf {name} in {client}: {figure}"));
        }
        netserver.signal(Signal::TERM);
        netserver.wait();
    }
    lab.down().expect_code(0);
    said.extend(ours());
    println!("{}", said.join("\n"));
}

/// What linkrate measures on such an adapter, in words. A busy machine has no figure to compare.
fn ours() -> Vec<String> {
    let mut said = Vec::new();
    for (direction, kind) in
        [("transmit", "stream"), ("receive", "stream"), ("transmit", "request-response")]
    {
        let way = if kind == "stream" { format!("--direction {direction}") } else { String::new() };
        let words =
            format!("measure --adapter toe --toe on --kind {kind} {way} --time 1s --runs 1 --json");
        let ours = common::linkrate(&words);
        if ours.code() != Some(0) {
            said.push(format!("linkrate {kind} {direction}: {}", ours.stderr.trim()));
            continue;
        }
        let ours = ours.json();
        let cell = &ours["cells"][0];
        let rate = cell["throughput"]["mean"].as_f64().map(|rate| rate / 1e6);
        let rate = rate.filter(|_| kind == "stream").or(cell["transactions"]["mean"].as_f64());
        let rate = rate.unwrap_or_else(|| panic!("{ours}"));
        assert!(kind != "stream" || rate < LINK_MBPS, "{rate}");
        said.push(format!("linkrate {kind} {direction}: {rate:.1}"));
    }
    said
}

#[test]
fn nginx_serves_a_file_to_curl_from_the_adapter() {
    needs!(root, "nginx", "curl");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    common::processes::readable_by_all(directory.path());
    let at = directory.path().to_str().expect("a path that is text");
    let content: Vec<u8> =
        (0..8u32 << 20).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(directory.path().join("file"), &content).expect("write a file");
    let configuration = format!(
        "daemon off; user root; pid {at}/pid; error_log stderr; worker_processes 2;\n\
         events {{}}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen 80; root {at}; }} }}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration).expect("write a file");
    let lab = lab("on");
    let fetch = |host: &str, from: &str| {
        let words = format!(
            "curl -sS --fail --retry 20 --retry-connrefused --retry-delay 1 -o {at}/fetched http://{from}/file"
        );
        lab.run(host, &words).expect_code(0);
        let fetched = fs::read(directory.path().join("fetched")).expect("a file");
        assert!(fetched == content, "the file came out different");
    };
    for (server, client, from, counter) in
        [("sut", "client-0", SUT, "toeTxBytes"), ("client-0", "sut", CLIENT, "toeRxBytes")]
    {
        let before = counters(&lab);
        let nginx = Running::start(&mut lab.exec(server, &format!("nginx -c {at}/nginx.conf")));
        fetch(client, from);
        let now = counters(&lab);
        let carried = now(counter) - before(counter);
        assert!(carried >= content.len() as u64, "{server}: {carried}");
        assert_eq!(now("toeHostSegments"), 0);
        nginx.signal(Signal::QUIT);
        nginx.wait();
    }
    lab.down().expect_code(0);
}

#[test]
fn ssh_carries_a_file_at_the_adapter() {
    needs!(root, ssh);
    let lab = lab("on");
    let before = counters(&lab);
    Ssh::start(&lab, "client-0", CLIENT).carries_a_file_both_ways();
    let now = counters(&lab);
    for counter in ["toeTxBytes", "toeRxBytes"] {
        let carried = now(counter) - before(counter);
        assert!(carried >= 8 << 20, "{counter}: {carried}");
    }
    assert_eq!(now("toeHostSegments"), 0);
    lab.down().expect_code(0);
}
