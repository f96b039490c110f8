//! Labs that stay up: foreign programs over virtual adapters, while these are looked at, changed,
//! added and taken away.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::processes::OwnCopy;
use common::{
    Finished, LINKRATE, Running, command, has_or_skips, is_root_or_skips, kill, linkrate, skip,
    wait_until,
};
use linkrate_sys::local_socket;
use rustix::process::{Signal, geteuid};
use serde_json::Value;

/// Address of the system under test on its first wire, and of the client there.
const SUT: &str = "198.18.0.1";
const CLIENT: &str = "198.18.0.2";

static LABS: AtomicU32 = AtomicU32::new(0);

/// A lab under a name that no other test has, up until the test is done with it.
struct Up {
    name: String,
    running: Running,
}

impl Up {
    fn start(options: &str) -> Self {
        Self::of(LINKRATE.as_ref(), options)
    }

    #[track_caller]
    fn of(program: &Path, options: &str) -> Self {
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let words = format!("lab up --wait --name {name} {options}");
        let running = Running::start(&mut command(program, &words));
        let shown = || linkrate(&format!("lab show --name {name}")).code() == Some(0);
        if !wait_until(Duration::from_secs(20), shown) {
            running.signal(Signal::TERM);
            panic!("not up: {}", running.wait().stderr);
        }
        Self { name, running }
    }

    /// `linkrate COMMAND ... --name NAME`, which must succeed.
    #[track_caller]
    fn linkrate(&self, words: &str) -> Finished {
        self.tried(words).expect_code(0)
    }

    fn tried(&self, words: &str) -> Finished {
        linkrate(&format!("{words} --name {}", self.name))
    }

    /// A program in a host.
    fn exec(&self, host: &str, words: &str) -> Command {
        command(LINKRATE, &format!("lab exec --name {} {host} -- {words}", self.name))
    }

    #[track_caller]
    fn run(&self, host: &str, words: &str) -> Finished {
        Running::start(&mut self.exec(host, words)).wait()
    }

    /// A program in a host that does nothing, and is there.
    #[track_caller]
    fn sleeper(&self, host: &str) -> Running {
        let sleeper = Running::start(&mut self.exec(host, "sleep 1000"));
        let name = || fs::read_to_string(format!("/proc/{}/comm", sleeper.pid()));
        let begun = || name().is_ok_and(|name| name == "sleep\n");
        assert!(wait_until(Duration::from_secs(10), begun), "no sleep in {host}");
        sleeper
    }

    /// What `adapter show` says of a port.
    #[track_caller]
    fn port(&self, port: &str) -> Value {
        self.linkrate(&format!("adapter show {port} --json")).json()["ports"][0].clone()
    }

    #[track_caller]
    fn counter(&self, port: &str, name: &str) -> u64 {
        let port = self.port(port);
        port["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {port}"))
    }

    /// An iperf3 server at the client, and a client of it in the system under test.
    fn iperf3(&self, options: &str) -> (Running, Running) {
        let server = Running::start(&mut self.exec("client-0", "iperf3 -s -1"));
        let listens = || self.run("client-0", "ss -Hltn sport = :5201").stdout.contains("5201");
        assert!(wait_until(Duration::from_secs(10), listens), "iperf3 does not listen");
        let words = format!("iperf3 -J -c {CLIENT} {options}");
        (server, Running::start(&mut self.exec("sut", &words)))
    }

    #[track_caller]
    fn down(self) -> Finished {
        let down = self.linkrate("lab down --json").json();
        assert_eq!(down["down"], self.name.as_str());
        self.running.wait()
    }
}

/// Whether this machine can do what most of these tests need; says so if not.
fn ready(test: &str, peers: &[&str]) -> bool {
    is_root_or_skips(test) && peers.iter().all(|peer| has_or_skips(test, peer, peer))
}

/// Bits per second that arrived, and those of each interval.
#[track_caller]
fn rates(iperf3: Finished) -> (f64, Vec<f64>) {
    let document = iperf3.expect_code(0).json();
    let rate = |value: &Value| value["bits_per_second"].as_f64().expect("a rate");
    let intervals = document["intervals"].as_array().expect("intervals");
    let each = intervals.iter().map(|interval| rate(&interval["sum"])).collect();
    (rate(&document["end"]["sum_received"]), each)
}

#[test]
fn foreign_programs_run_over_each_model() {
    let test = "foreign_programs_run_over_each_model";
    if !ready(test, &["iperf3"]) || !has_or_skips(test, "ping", "iputils-ping") {
        return;
    }
    // payload of full frames at MTU 1500, of the link's rate
    let share = 1448.0 / 1538.0;
    for (model, most) in [("gigabit", 1e9 * share), ("ten-gigabit", 10e9 * share)] {
        let lab = Up::start(&format!("--adapter {model}"));
        lab.run("client-0", &format!("ping -c 3 -i 0.2 {SUT}")).expect_code(0);
        let (server, client) = lab.iperf3("-t 2");
        let (rate, _) = rates(client.wait());
        server.wait();
        // a busy machine may be slow, no machine may be faster than the link
        assert!(rate > most / 20.0 && rate < most * 1.002, "{model}: {rate}");
        let port = lab.port("eth0");
        let counters = &port["counters"];
        let count = |name: &str| counters[name].as_f64().unwrap_or_else(|| panic!("{port}"));
        assert!(count("ifHCOutOctets") * 8.0 > rate * 1.5, "{port}");
        let cut = count("txSegments") / count("txSuperframes");
        assert!(cut > 3.0, "{model}: {cut} frames from a superframe");
        assert_eq!(count("txDropMalformed") + count("txDropOversized"), 0.0, "{port}");
        let ended = lab.down().expect_code(0);
        assert!(ended.stderr.contains("linkrate lab exec client-0"), "{}", ended.stderr);
    }
}

#[test]
fn a_program_is_in_the_host_and_on_its_cpus() {
    if !ready("a_program_is_in_the_host_and_on_its_cpus", &[]) {
        return;
    }
    let lab = Up::start("--ports 2");
    let shown = lab.linkrate("lab show --json").json();
    let hosts = shown["lab"]["hosts"].as_array().expect("hosts");
    let names: Vec<&str> = hosts.iter().filter_map(|host| host["name"].as_str()).collect();
    assert_eq!(names, ["sut", "client-0", "client-1"]);
    for host in hosts {
        let name = host["name"].as_str().expect("a name");
        let links = lab.run(name, "ls /sys/class/net").expect_code(0).stdout;
        let expected = if name == "sut" { "eth0\neth1\nlo\n" } else { "eth0\nlo\n" };
        assert_eq!(links, expected, "{name}");
        let status = lab.run(name, "cat /proc/self/status").expect_code(0).stdout;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        assert_eq!(allowed, host["cpus"].as_str(), "{name}");
    }
    assert!(lab.run("sut", "ip addr").stdout.contains("inet 198.18.0.1/24"));
    let here = std::env::current_dir().expect("a directory");
    assert_eq!(lab.run("client-1", "pwd").stdout.trim(), here.to_str().expect("text"));
    assert_eq!(lab.run("sut", "printenv LINKRATE_LAB").stdout.trim(), lab.name);
    assert_eq!(lab.run("sut", "false").code(), Some(1));
    // from inside the lab needs no name
    let inside = lab.run("sut", &format!("{LINKRATE} lab show --json")).expect_code(0).json();
    assert_eq!(inside["lab"], shown["lab"]);
    for (host, said) in [("client-9", "did you mean"), ("host", "no host \"host\"")] {
        let refused = lab.run(host, "true").expect_code(2).stderr;
        assert!(refused.contains(said), "{refused}");
    }
    let missing = lab.run("sut", "no-such-program").expect_code(1).stderr;
    assert!(missing.contains("start no-such-program in sut"), "{missing}");
}

#[test]
fn the_exit_code_of_the_program_is_that_of_the_lab() {
    if !ready("the_exit_code_of_the_program_is_that_of_the_lab", &[]) {
        return;
    }
    let own = OwnCopy::new();
    let run = |script: &str| {
        let name = format!("--name code-{}", std::process::id());
        let mut up = command(own.program(), &format!("lab up {name} -- sh -c"));
        Running::start(up.arg(script)).wait()
    };
    assert_eq!(run("exit 7").code(), Some(7));
    assert_eq!(run("kill -TERM $$").code(), Some(143));
    let daemon = run("sleep 1000 >/dev/null 2>&1 & cat /sys/class/net/eth0/carrier");
    assert_eq!(daemon.expect_code(0).stdout, "1\n");
    own.expect_nothing_left();
}

#[test]
fn settings_change_while_traffic_flows() {
    let test = "settings_change_while_traffic_flows";
    if !ready(test, &["iperf3"]) {
        return;
    }
    let lab = Up::start("--adapter ten-gigabit");
    let (server, client) = lab.iperf3("-t 5 -i 0.5");
    std::thread::sleep(Duration::from_millis(700));
    let set = |words: &str| lab.linkrate(&format!("adapter set eth0 {words} --json")).json();
    let document = set("lro=on rx-usecs=70 rx-frames=16 steering=rss queues=2");
    let settings = &document["set"]["settings"];
    for (key, value) in
        [("lro", "on"), ("rx-usecs", "70"), ("rx-frames", "16"), ("steering", "rss")]
    {
        assert_eq!(settings[key], value, "{document}");
    }
    let document = set("mtu=9000");
    assert_eq!(document["set"]["shared_with"][0], "client-0");
    assert_eq!(lab.run("client-0", "cat /sys/class/net/eth0/mtu").stdout, "9000\n");
    set("mtu=1500 offload=none");
    let before = lab.counter("eth0", "txSuperframes");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(lab.counter("eth0", "txSuperframes"), before, "superframes with offload none");
    let wanted = |on: bool| {
        let features = lab.run("sut", "ethtool -k eth0").expect_code(0).stdout;
        let wanted = format!("tx-tcp-segmentation: {}", if on { "on" } else { "off" });
        assert!(features.contains(&wanted), "{features}");
    };
    let ethtool = has_or_skips(&format!("{test}: ethtool"), "ethtool", "ethtool");
    if ethtool {
        wanted(false);
    }
    set("offload=tso gso-max-size=20000");
    if ethtool {
        wanted(true);
        // what a person sets behind our back is shown as it is
        lab.run("sut", "ethtool -K eth0 tso off").expect_code(0);
        assert_eq!(lab.port("eth0")["knobs"]["offload"], "gso");
    }
    assert_eq!(lab.port("eth0")["knobs"]["gso-max-size"], 20_000);
    for (words, said) in [
        ("lor=on", "did you mean \"lro\"?"),
        ("mtu=9600", "mtu 9600 is more than adapter ten-gigabit takes"),
        ("snap=on", "snap on cannot go with mtu 1500"),
    ] {
        let refused = lab.tried(&format!("adapter set eth0 {words}")).expect_code(2).stderr;
        assert!(refused.contains(said), "{refused}");
    }
    let refused = lab.tried("adapter set client-0 lro=off").expect_code(2).stderr;
    assert!(refused.contains("client's port"), "{refused}");
    let (rate, intervals) = rates(client.wait());
    server.wait();
    assert!(rate > 0.0 && intervals.iter().all(|rate| *rate > 0.0), "{intervals:?}");
    // tags and SNAP on both ends: hosts still reach each other
    lab.linkrate("adapter set eth0 vlan=7 snap=on mtu=1492");
    assert_eq!(lab.port("client-0")["knobs"]["port"]["vlan"], 7);
    lab.run("sut", &format!("ping -c 2 -i 0.2 -W 2 {CLIENT}")).expect_code(0);
}

#[test]
fn ports_come_and_go_without_disturbing_others() {
    let test = "ports_come_and_go_without_disturbing_others";
    if !ready(test, &["iperf3"]) || !has_or_skips(test, "ping", "iputils-ping") {
        return;
    }
    let lab = Up::start("--clients-per-port 2");
    let (server, client) = lab.iperf3("-t 6 -i 1");
    std::thread::sleep(Duration::from_millis(700));
    for _ in 0..2 {
        let added = lab.linkrate("adapter add --ports 2 --json").json();
        assert_eq!(added["added"]["ports"].to_string(), "[\"eth1\",\"eth2\"]");
        for address in ["198.18.1.2", "198.18.1.3", "198.18.2.3"] {
            lab.run("sut", &format!("ping -c 1 -W 2 {address}")).expect_code(0);
        }
        lab.linkrate("adapter remove eth1");
        // the others are still there, and keep their names
        lab.run("sut", "ping -c 1 -W 2 198.18.2.2").expect_code(0);
        lab.linkrate("adapter remove eth2");
        assert_eq!(lab.run("sut", "ls /sys/class/net").stdout, "eth0\nlo\n");
    }
    let refused = lab.tried("adapter remove client-0").expect_code(2).stderr;
    assert!(refused.contains("linkrate adapter remove eth0"), "{refused}");
    let (_, intervals) = rates(client.wait());
    server.wait();
    let least = intervals.iter().copied().fold(f64::INFINITY, f64::min);
    // a machine with two CPUs has the work of starting hosts to do beside, so not how fast
    assert!(least > 0.0, "{intervals:?}");
    // a link comes back on the number that is free
    lab.linkrate("adapter remove eth0");
    let added = lab.linkrate("adapter add --json").json();
    assert_eq!(added["added"]["ports"][0], "eth0");
    lab.run("sut", &format!("ping -c 1 -W 2 {CLIENT}")).expect_code(0);
}

#[test]
fn faults_and_the_link_do_what_they_say() {
    let test = "faults_and_the_link_do_what_they_say";
    if !ready(test, &[]) || !has_or_skips(test, "ping", "iputils-ping") {
        return;
    }
    let lab = Up::start("");
    let ping = || lab.run("sut", &format!("ping -c 3 -i 0.2 -W 1 {CLIENT}"));
    ping().expect_code(0);
    let faults = lab.linkrate("adapter faults eth0 loss=100% delay=20ms --json").json();
    assert_eq!(faults["faults"]["faults"]["loss"], "100 %", "{faults}");
    assert_eq!(ping().code(), Some(1));
    lab.linkrate("adapter faults client-0 delay=20ms");
    let slow = ping().expect_code(0).stdout;
    let times = slow.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' '));
    let times: Vec<f64> = times.filter_map(|(time, _)| time.parse().ok()).collect();
    assert!(times.len() == 3 && times.iter().all(|ms| *ms >= 40.0), "{slow}");
    assert_eq!(lab.linkrate("adapter faults eth0 none").stdout, "eth0: none\n");
    let refused = lab.tried("adapter faults eth0 los=1%").expect_code(2).stderr;
    assert!(refused.contains("did you mean \"loss\"?"), "{refused}");
    let carrier = |expected: &str| {
        let carrier = || lab.run("sut", "cat /sys/class/net/eth0/carrier").stdout;
        assert!(wait_until(Duration::from_secs(5), || carrier().trim() == expected), "{expected}");
    };
    carrier("1");
    lab.linkrate("adapter link eth0 down");
    carrier("0");
    assert_eq!(lab.port("eth0")["link_up"], false);
    lab.linkrate("adapter link eth0 up");
    carrier("1");
    ping().expect_code(0);
}

#[test]
fn tshark_finds_nothing_wrong_with_a_capture() {
    let test = "tshark_finds_nothing_wrong_with_a_capture";
    if !ready(test, &["iperf3", "tshark"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("a.pcapng");
    let lab = Up::start("");
    let path = file.to_str().expect("a path that is text");
    lab.linkrate(&format!("adapter capture eth0 {path}"));
    let again = lab.tried(&format!("adapter capture eth0 {path}.2")).expect_code(1).stderr;
    assert!(again.contains("is being captured to"), "{again}");
    let (server, client) = lab.iperf3("-n 2M");
    client.wait().expect_code(0);
    server.wait();
    let captured = lab.linkrate("adapter capture eth0 --stop --json").json();
    let packets = captured["captured"]["packets"].as_u64().expect("a number");
    assert!(packets > 1000, "{captured}");
    assert_eq!(lab.counter("eth0", "captureLost"), 0);
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&file);
    for option in ["tcp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        tshark.args(["-o", option]);
    }
    tshark.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields", "-E", "occurrence=f"]);
    for field in [
        "frame.interface_name",
        "frame.len",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.checksum",
        "tcp.checksum_calculated",
        "_ws.malformed",
    ] {
        tshark.args(["-e", field]);
    }
    let read = Running::start(&mut tshark).wait().expect_code(0).stdout;
    assert_eq!(read.lines().count() as u64, packets);
    let (mut superframes, mut frames) = (0, 0);
    for line in read.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [side, length, ip, tcp, written, calculated, malformed] = fields[..] else {
            panic!("{line:?}")
        };
        assert_eq!(malformed, "", "{line}");
        let length: u32 = length.parse().expect("a length");
        if side.contains("host") {
            superframes += u32::from(length > 1514);
            continue;
        }
        frames += 1;
        assert!(length <= 1514, "{line}");
        assert!(ip != "0" && ip != "Bad", "{line}");
        // 0xffff and 0x0000 are one number in ones' complement, and Linux writes the former
        let same = (written, calculated) == ("0xffff", "0x0000");
        assert!((tcp != "0" && tcp != "Bad") || same, "{line}");
    }
    assert!(superframes > 20 && frames > 1000, "{superframes} superframes, {frames} frames");
}

#[test]
fn nginx_serves_a_file_to_curl_unharmed() {
    let test = "nginx_serves_a_file_to_curl_unharmed";
    if !ready(test, &["nginx", "curl"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("make a temporary directory");
    common::processes::readable_by_all(directory.path());
    let at = directory.path().to_str().expect("a path that is text");
    // no two blocks alike: what is misplaced shows
    let content: Vec<u8> =
        (0..8u32 << 20).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(directory.path().join("file"), &content).expect("write a file");
    let configuration = format!(
        "daemon off; user root; pid {at}/pid; error_log stderr;\n\
         events {{}}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen 80; root {at}; }} }}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration).expect("write a file");
    let lab = Up::start("--adapter ten-gigabit");
    lab.linkrate("adapter set eth0 lro=on");
    // faults that the checksums must catch, and TCP must mend
    lab.linkrate("adapter faults eth0 corrupt=0.02% duplicate=0.05% reorder=0.05% fcs-error=0.02%");
    let server = Running::start(&mut lab.exec("sut", &format!("nginx -c {at}/nginx.conf")));
    let fetched = directory.path().join("fetched");
    let words = format!(
        "curl -sS --fail --retry 20 --retry-connrefused --retry-delay 1 -o {at}/fetched http://{SUT}/file"
    );
    lab.run("client-0", &words).expect_code(0);
    assert!(fs::read(&fetched).expect("a file") == content, "the file came out different");
    let bad = lab.counter("client-0", "rxChecksumBad");
    assert!(bad > 0, "no frame was corrupted");
    lab.down().expect_code(0);
    // it was in the lab, and ends with it
    server.wait();
}

#[test]
fn nothing_is_left_of_a_lab_that_is_killed() {
    if !ready("nothing_is_left_of_a_lab_that_is_killed", &[]) {
        return;
    }
    let own = OwnCopy::new();
    for options in ["", "--adapter veth"] {
        let lab = Up::of(&own.program(), options);
        let guest = lab.sleeper("sut");
        assert_eq!(own.agents().len(), 2);
        let in_host = format!("/proc/{}/ns/net", guest.pid());
        lab.running.signal(Signal::KILL);
        own.expect_nothing_left();
        let gone = || !linkrate("lab list").stdout.contains(&lab.name);
        assert!(wait_until(Duration::from_secs(5), gone));
        // whoever was in it is alone; the TAP went with the lab, the veth with the client
        let mut nsenter = command("nsenter", &format!("--net={in_host} ip -br link"));
        let alone = || Running::start(&mut nsenter).wait().stdout.lines().count() == 1;
        assert!(wait_until(Duration::from_secs(5), alone), "{options}");
    }
}

#[test]
fn a_lab_is_taken_down_with_all_that_runs_in_it() {
    if !ready("a_lab_is_taken_down_with_all_that_runs_in_it", &[]) {
        return;
    }
    let own = OwnCopy::new();
    let lab = Up::of(&own.program(), "");
    let again = linkrate(&format!("lab up --wait --name {}", lab.name)).expect_code(2).stderr;
    assert!(again.contains("is up already") && again.contains("lab down"), "{again}");
    assert!(linkrate("lab list").stdout.lines().any(|line| line == lab.name));
    let listed = linkrate("lab list --json").json();
    assert!(listed["labs"].as_array().expect("labs").contains(&lab.name.as_str().into()));
    let guest = lab.sleeper("client-0");
    let name = lab.name.clone();
    lab.down().expect_code(0);
    assert_eq!(guest.wait().signal(), Some(15));
    own.expect_nothing_left();
    let gone = linkrate(&format!("lab show --name {name}")).expect_code(1).stderr;
    assert!(gone.contains(&format!("no lab {name} is up here")), "{gone}");
    // by a signal
    let lab = Up::of(&own.program(), "");
    lab.running.signal(Signal::INT);
    lab.running.wait().expect_code(0);
    own.expect_nothing_left();
}

#[test]
fn a_lab_that_loses_a_host_ends_and_says_which() {
    if !ready("a_lab_that_loses_a_host_ends_and_says_which", &[]) {
        return;
    }
    let own = OwnCopy::new();
    for (options, agent) in [("", 0), ("--adapter veth", 1)] {
        let lab = Up::of(&own.program(), options);
        kill(own.agents()[agent], Signal::KILL);
        let said = lab.running.wait().expect_code(1).stderr;
        assert!(said.contains(" has died") || said.contains(" have ended"), "{said}");
        own.expect_nothing_left();
    }
}

#[test]
fn whoever_knocks_gets_an_answer_and_harms_nothing() {
    if !ready("whoever_knocks_gets_an_answer_and_harms_nothing", &[]) {
        return;
    }
    let lab = Up::start("");
    let socket = format!("linkrate-lab.{}.{}", geteuid().as_raw(), lab.name);
    let connect = || local_socket::connect(&socket).expect("connect");
    for frame in [&b"{}"[..], b"\xff\xff", b"{\"version\":1,\"request\":{\"add\":{\"ports\":0}}}"] {
        let mut stream = connect();
        stream.write_all(&(frame.len() as u32).to_be_bytes()).expect("send");
        stream.write_all(frame).expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let document: Value = serde_json::from_slice(&answer[4..]).expect("a document");
        assert_eq!(document["refused"]["wrong"], true, "{document}");
    }
    // a length that lies, a frame that never ends, one that has nothing to say
    connect().write_all(&[0xff; 64]).expect("send");
    let mut stalls = connect();
    stalls.write_all(&[0, 0, 0, 9, b'{']).expect("send");
    drop(connect());
    let started = Instant::now();
    lab.linkrate("lab show");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    drop(stalls);
}

#[test]
fn top_tells_what_flows() {
    let test = "top_tells_what_flows";
    if !ready(test, &["iperf3"]) {
        return;
    }
    let lab = Up::start("");
    let (server, client) = lab.iperf3("-t 4");
    std::thread::sleep(Duration::from_millis(800));
    let top = lab.linkrate("adapter top --interval 500ms --count 2 --json").stdout;
    let documents: Vec<Value> =
        top.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    assert_eq!(documents.len(), 2);
    for document in &documents {
        let port = &document["rates"]["ports"][0];
        let number = |name: &str| port[name].as_f64().unwrap_or_else(|| panic!("{port}"));
        assert_eq!(port["port"], "eth0");
        let rate = number("out_bits_per_second");
        assert!(rate > 0.05e9 && rate < 1.01e9, "{port}");
        // octets of a frame are all of the link's time but for preamble and gap
        let link = number("out_link_percent");
        assert!((link - rate / 1e7 * 1538.0 / 1518.0).abs() < 5.0, "{port}");
        assert!(number("segments_per_superframe") > 2.0, "{port}");
        assert!(number("device_cpu_percent") > 0.0 && number("driver_cpu_percent") > 0.0);
    }
    let text = lab.linkrate("adapter top --interval 200ms --count 3").stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("port ") && lines[1].starts_with("eth0 "), "{text}");
    let words = format!("adapter top --interval 100ms --name {}", lab.name);
    let endless = Running::start(&mut command(LINKRATE, &words));
    std::thread::sleep(Duration::from_millis(500));
    endless.signal(Signal::INT);
    endless.wait().expect_code(0);
    client.wait().expect_code(0);
    server.wait();
}

#[test]
fn an_ordinary_user_has_labs_of_their_own() {
    let test = "an_ordinary_user_has_labs_of_their_own";
    if !is_root_or_skips(test) || !has_or_skips(test, "setpriv", "util-linux") {
        return;
    }
    let own = OwnCopy::new();
    let user = |words: &str| {
        let mut command = command("setpriv", "--reuid 65534 --regid 65534 --clear-groups");
        command.arg(own.program()).args(words.split_whitespace());
        command
    };
    let name = format!("user-{}", std::process::id());
    let program = own.program();
    let inside = program.to_str().expect("a path that is text");
    let script = format!(
        "{inside} lab show && {inside} lab exec client-0 -- cat /sys/class/net/eth0/operstate && {inside} adapter show"
    );
    let finished =
        Running::start(user(&format!("lab up --name {name} -- sh -c")).arg(&script)).wait();
    if finished.code() == Some(3) || finished.stderr.contains("/dev/net/tun") {
        return skip(test, finished.stderr.lines().next().unwrap_or("not possible here"));
    }
    let finished = finished.expect_code(0);
    assert!(finished.stdout.contains("eth0  gigabit adapter 0"), "{}", finished.stdout);
    let up = Running::start(&mut user(&format!("lab up --wait --name {name}")));
    let shown = || Running::start(&mut user(&format!("lab show --name {name}"))).wait().code();
    assert!(wait_until(Duration::from_secs(10), || shown() == Some(0)));
    // another user's labs are not listed
    assert!(!linkrate("lab list").stdout.contains(&name));
    Running::start(&mut user(&format!("lab down --name {name}"))).wait().expect_code(0);
    up.wait().expect_code(0);
    own.expect_nothing_left();
}
