//! Third-party programs at the peer: iperf3, netserver and `linkrate serve` in the place of a client. Two network
//! namespaces with a cable are the machines.

use crate::common::keys::{Keys, padding_of_iperf3};
use crate::common::machines::{ADDRESSES, Machine};
use crate::common::needs::has_or_skips;
use crate::common::{LINKRATE, Running, cases, command, wait_until};
use linkrate_model::CpuSet;
use linkrate_sys::sched;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Addresses of IPv6 of both machines.
const ADDRESSES_6: [&str; 2] = ["fd00::1", "fd00::2"];

/// Two machines with a cable, and the CPU of each.
struct Cable {
    here: Machine,
    there: Machine,
    cpus: [u32; 2],
    /// What its client pads passwords by.
    padding: &'static str,
}

impl Cable {
    fn new(cpus: [u32; 2]) -> Self {
        let (here, there) = (Machine::start(), Machine::start());
        here.sh(&format!("ip link add eth1 type veth peer name eth1 netns {}", there.pid()));
        for (machine, address) in [&here, &there].into_iter().zip(ADDRESSES) {
            machine.sh(&format!(
                "ip link set lo up; ip address add {address}/24 dev eth1; ip link set eth1 up"
            ));
        }
        Self { here, there, cpus, padding: "oaep" }
    }

    /// Gives both machines addresses of IPv6.
    fn add_ipv6(&self) {
        for (machine, address) in [&self.here, &self.there].into_iter().zip(ADDRESSES_6) {
            machine.sh(&format!("ip -6 address add {address}/64 dev eth1 nodad"));
        }
    }

    /// Starts a server on the far machine, and waits until it listens on `port`.
    fn server(&self, mut server: Command, port: u16) -> Running {
        self.there.on(&mut server);
        // what it starts is on the same CPU
        let cpu = CpuSet::from_iter([self.cpus[1]]);
        let running = {
            let home = sched::affinity(sched::current_thread()).expect("an affinity");
            sched::set_affinity(sched::current_thread(), &cpu).expect("one CPU");
            let running = Running::start(&mut server);
            sched::set_affinity(sched::current_thread(), &home).expect("as before");
            running
        };
        sched::set_affinity(running.pid() as i32, &cpu).expect("the CPU of the far machine");
        let listens = || {
            let ports = self.there.sh("cat /proc/net/tcp /proc/net/tcp6");
            ports.contains(&format!(":{port:04X} "))
        };
        assert!(wait_until(Duration::from_secs(10), listens), "nothing listens on port {port}");
        running
    }

    /// Measures with these words, and returns the results and the names of what is wrong.
    fn measure(&self, words: &str) -> Value {
        let times = match words.contains("--time") {
            true => "",
            false => "--time 500ms --warm-up 200ms",
        };
        let words = format!(
            "measure --json --purpose functions --interface eth1 --sut-cpus {} {times} --runs 1 {words}",
            self.cpus[0]
        );
        let mut measure = command(LINKRATE, &words);
        measure.env("IPERF3_PASSWORD", "rossi").env("IPERF3_PADDING", self.padding);
        self.here.on(&mut measure);
        let document = Running::start(&mut measure).wait().expect_code(0).json();
        assert_eq!(document["failures"], Value::Array(Vec::new()), "{words}: {document:#}");
        document
    }

    /// Measures streams in both directions and transactions, as far as the program has them.
    fn check(&self, end: &str, all: &[&str]) {
        for words in all {
            let document = self.measure(&format!("--client {end} {words}"));
            let cell = &document["cells"][0];
            let figure = |name: &str| cell[name]["mean"].as_f64().unwrap_or(0.0);
            match words.contains("request-response") {
                true => assert!(figure("transactions") > 100.0, "{words}: {cell:#}"),
                false => assert!(figure("throughput") > 1e8, "{words}: {cell:#}"),
            }
            let reported = document["warnings"].to_string();
            assert!(reported.contains(&format!("{end} counted ")), "{words}: {reported}");
            let is_taken = reported.contains("taken for the same part as in the whole test");
            assert_eq!(is_taken, words.contains("udp-"), "{words}: {reported}");
            if words.contains("udp-stream") {
                assert!(
                    reported.contains(" % to it lost") || reported.contains(" % from it lost"),
                    "{reported}"
                );
            }
        }
    }
}

const DATAGRAMS: [&str; 3] = [
    "--kind udp-stream --message 1400",
    "--kind udp-stream --message 1400 --direction receive --connections 2",
    "--kind udp-stream --message 1400 --direction bidirectional",
];
const STREAMS: [&str; 3] = ["--direction bidirectional --connections 2", "", "--direction receive"];

#[test]
fn a_server_of_iperf3_is_the_peer_of_streams() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", "iperf3", two_cpus));
    let server = cable.server(command("iperf3", "-s"), 5201);
    let end = format!("iperf3:{}", ADDRESSES[1]);
    cable.check(&end, &[cases(&STREAMS, 2), &DATAGRAMS[1..2]].concat());
    cable.check(&end, cases(&[DATAGRAMS[0], DATAGRAMS[2]], 0));
    drop(server);
}

#[test]
fn netserver_is_the_peer_of_streams_and_transactions() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", "netserver", two_cpus));
    let server = cable.server(command("netserver", "-D -4"), 12_865);
    let more = [
        "--kind request-response --burst 8 --connections 2",
        DATAGRAMS[0],
        "--kind request-response",
        "--kind connect-request-response",
        "--kind udp-request-response --connections 2",
    ];
    let end = format!("netperf:{}", ADDRESSES[1]);
    cable.check(&end, &[cases(&STREAMS, 1), cases(&more, 2)].concat());
    drop(server);
}

#[test]
fn the_server_of_linkrate_is_a_peer_by_both_protocols() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", two_cpus));
    let bind = format!("serve --bind {}", ADDRESSES[1]);
    let server = cable.server(command(LINKRATE, &bind), 12_865);
    let by_iperf3 = ["--direction receive", DATAGRAMS[1], ""];
    cable.check(&format!("iperf3:{}", ADDRESSES[1]), cases(&by_iperf3, 1));
    let kinds = [
        "--kind connect-request-response --connections 2",
        DATAGRAMS[0],
        "",
        "--kind request-response",
        "--kind udp-request-response",
    ];
    cable.check(&format!("netperf:{}", ADDRESSES[1]), cases(&kinds, 2));
    drop(server);
}

#[test]
#[ignore = "exhaustive: another address family"]
fn programs_are_peers_over_ipv6() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", ipv6, two_cpus));
    cable.add_ipv6();
    let there = ADDRESSES_6[1];
    let over = |words: &str| format!("--family ipv6 {words}");
    if has_or_skips("iperf3") {
        let server = cable.server(command("iperf3", "-s"), 5201);
        for words in cases(&["", DATAGRAMS[0]], 1) {
            cable.check(&format!("iperf3:[{there}]"), &[&over(words)]);
        }
        drop(server);
    }
    if has_or_skips("netserver") {
        let server = cable.server(command("netserver", "-D -p 12866"), 12_866);
        for words in cases(&["--kind connect-request-response", "--direction receive"], 1) {
            cable.check(&format!("netperf:[{there}]:12866"), &[&over(words)]);
        }
        drop(server);
    }
    let server = cable.server(command(LINKRATE, &format!("serve --bind {there}")), 12_865);
    cable.check(&format!("netperf:[{there}]"), &[&over("--kind request-response")]);
    cable.check(&format!("iperf3:[{there}]"), &[&over("")]);
    let mut measure = command(
        LINKRATE,
        &format!("measure --interface eth1 --runs 1 --time 500ms --client iperf3:[{there}]"),
    );
    cable.here.on(&mut measure);
    let reported = Running::start(&mut measure).wait().stderr;
    assert!(reported.contains("has no address of IPv4 that is reached"), "{reported}");
    assert!(reported.contains("use family ipv6"), "{reported}");
    drop(server);
}

#[test]
fn an_iperf3_leaves_out_the_warm_up() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", "iperf3", two_cpus));
    let server = cable.server(command("iperf3", "-s"), 5201);
    let kinds = ["--direction receive", "", "--kind udp-stream --message 1400"];
    for words in cases(&kinds, 1) {
        let document = cable.measure(&format!(
            "--client iperf3:{} --warm-up 1200ms --time 1s {words}",
            ADDRESSES[1]
        ));
        let reported = document["warnings"].to_string();
        assert!(reported.contains(" behind the first 1 s"), "{words}: {reported}");
        let seconds = reported.split(" B in ").nth(1).and_then(|rest| rest.split(' ').next());
        let seconds: f64 = seconds.and_then(|text| text.parse().ok()).expect("a time");
        assert!((1.0..2.2).contains(&seconds), "{words}: {reported}");
    }
    drop(server);
}

#[test]
fn a_server_that_asks_for_a_user_is_a_peer() {
    let mut cable = Cable::new(needs!(root, "ethtool", "ip", "iperf3", two_cpus));
    let keys = Keys::new();
    let [private, public, users] =
        ["private.pem", "public.pem", "users"].map(|name| keys.path(name));
    let end = format!("iperf3:mario@{},{public}", ADDRESSES[1]);
    // versions before 3.17 pad in another way than later ones, and linkrate as later ones unless it is told
    cable.padding = padding_of_iperf3();
    let words = format!("-s --rsa-private-key-path {private} --authorized-users-path {users}");
    let server = cable.server(command("iperf3", &words), 5201);
    cable.check(&end, &STREAMS[..1]);
    drop(server);
    let words = format!(
        "serve --bind {} --programs iperf3 --rsa-private-key {private} --users {users}",
        ADDRESSES[1]
    );
    let server = cable.server(command(LINKRATE, &words), 5201);
    cable.padding = "oaep";
    cable.check(&end, &STREAMS[1..2]);
    let said = |end: &str, password: &str| {
        let words = format!("measure --interface eth1 --runs 1 --time 500ms --client {end}");
        let mut measure = command(LINKRATE, &words);
        cable.here.on(measure.env("IPERF3_PASSWORD", password));
        Running::start(&mut measure).wait().stderr
    };
    let denied = "the server denied access; it asks for a user with a password";
    for (end, password) in [
        (end.clone(), "Rossi"),
        (end.replace("mario", "maria"), "rossi"),
        (format!("iperf3:{}", ADDRESSES[1]), "rossi"),
    ] {
        let reported = said(&end, password);
        assert!(reported.contains(denied), "{end}, {password}: {reported}");
    }
    let reported = said(&end.replace("public.pem", "users"), "rossi");
    assert!(reported.contains("no public key (RSA"), "{reported}");
    drop(server);
}

#[test]
fn what_a_program_cannot_do_is_refused_before_anything_runs() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", two_cpus));
    let said = |words: &str, code: i32| {
        let mut measure = command(LINKRATE, &format!("measure --interface eth1 {words}"));
        cable.here.on(&mut measure);
        Running::start(&mut measure).wait().expect_code(code).stderr
    };
    let reported = said("--client iperf3:198.51.100.2 --kind request-response", 2);
    assert!(reported.contains("a peer iperf3 has no transactions"), "{reported}");
    let reported = said("--client netperf:198.51.100.2 --kind udp-stream --direction receive", 2);
    assert!(reported.contains("stream of datagrams to the system under test"), "{reported}");
    let reported = said("--client iperf3:nowhere.invalid", 2);
    assert!(reported.contains("host nowhere.invalid has no address"), "{reported}");
}

#[test]
#[ignore = "exhaustive: waits for ten seconds"]
fn a_client_that_falls_silent_is_gone_from_a_server_of_linkrate() {
    let cable = Cable::new(needs!(root, "ethtool", "ip", "iperf3", "netperf", two_cpus));
    let there = ADDRESSES[1];
    let server = cable.server(command(LINKRATE, &format!("serve --bind {there}")), 12_865);
    let clients = [
        ("iperf3", format!("-c {there} -t 30 -b 10M")),
        ("netperf", format!("-H {there} -t TCP_RR -l 30")),
    ];
    let clients = clients.map(|(program, words)| {
        let mut client = command(program, &words);
        cable.here.on(&mut client);
        Running::start(&mut client)
    });
    let open = || {
        let ports = cable.there.connected_ports();
        ports.iter().filter(|port| [5201, 12_865].contains(*port)).count()
    };
    // two control connections and a stream
    assert!(wait_until(Duration::from_secs(10), || open() == 3), "no tests");
    std::thread::sleep(Duration::from_secs(1));
    cable.here.sh("ip link set eth1 down");
    assert!(wait_until(Duration::from_secs(15), || open() == 0), "the server waits on");
    drop(clients);
    server.signal(Signal::INT);
    let printed = server.wait().expect_code(0).stdout;
    let mut ended: Vec<(String, String)> = printed
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            assert!(line["received_bytes"].as_u64() > Some(0), "{line:#}");
            let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            (word("program"), word("ended"))
        })
        .collect();
    ended.sort();
    let left = ["iperf3", "netperf"].map(|program| (program.into(), "client-left".into()));
    assert_eq!(ended, left, "{printed}");
}
