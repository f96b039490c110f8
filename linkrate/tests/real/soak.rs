//! A server and a lab that are up for long, with honest and hostile users, moves under traffic, and ports that come and go:
//! at the end they have what they had at the beginning.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::processes::OwnCopy;
use crate::common::up::{CLIENT, Up};
use crate::common::{Running, command, wait_until};
use crate::hostile_clients::{Figures, HostileClients, Server};
use crate::own_host::{in_a_host, ip};

/// How long, unless LINKRATE_SOAK_SECONDS says another time.
const SECONDS: u64 = 30 * 60;

/// What memory may grow by: the allocator keeps some of what was freed.
const SLACK: u64 = 24 << 20;

/// Rounds before the beginning: what is made at its first use stays.
const WARM_UP: usize = 5;

/// How long may pass until nothing is left of a round.
const GONE: Duration = Duration::from_secs(40);

/// What all processes of the program have together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct All {
    processes: usize,
    threads: usize,
    descriptors: usize,
    namespaces: usize,
    memory: u64,
}

impl All {
    fn of(own: &OwnCopy) -> Self {
        let processes = own.processes();
        let figures: Vec<Figures> = processes.iter().map(|(pid, _)| Figures::of(*pid)).collect();
        let namespaces: BTreeSet<_> = processes
            .iter()
            .filter_map(|(pid, _)| fs::read_link(format!("/proc/{pid}/ns/net")).ok())
            .collect();
        Self {
            processes: processes.len(),
            threads: figures.iter().map(|of| of.threads).sum(),
            descriptors: figures.iter().map(|of| of.descriptors).sum(),
            namespaces: namespaces.len(),
            memory: figures.iter().map(|of| of.memory).sum(),
        }
    }

    fn is_as(&self, other: &Self) -> bool {
        Self { memory: other.memory, ..self.clone() } == *other
    }
}

/// Traffic over the lab whose connections move, beside a port that comes and goes and a program that is killed.
fn use_lab(lab: &Up) {
    let (server, client) = lab.iperf3("-t 6 -P 2 -b 100M");
    let killed = lab.sleeper("client-0");
    for toe in ["on", "off", "auto", "on"] {
        lab.linkrate(&format!("adapter set eth0 toe={toe}"));
        std::thread::sleep(Duration::from_secs(1));
    }
    killed.signal(Signal::KILL);
    drop(killed);
    lab.linkrate("adapter add");
    lab.linkrate("adapter remove eth1");
    client.wait().expect_code(0);
    server.wait().expect_code(0);
}

/// Tests of each kind with the server, among hostile clients.
fn use_server(own: &OwnCopy) {
    let hostile = HostileClients::start(600, Duration::from_secs(3));
    let netperf = format!("{} netperf -P 0 -v 0 -H 127.0.0.1 -l 2 -t", own.program().display());
    let tests = [
        "iperf3 -c 127.0.0.1 -t 2 -b 100M -P 4".to_owned(),
        "iperf3 -c 127.0.0.1 -t 2 -b 100M -R".to_owned(),
        "iperf3 -c 127.0.0.1 -t 2 -b 100M -u".to_owned(),
        format!("{netperf} TCP_RR"),
        format!("{netperf} TCP_CRR"),
        format!("{netperf} TCP_STREAM"),
    ];
    let start = |words: &String| {
        let (program, words) = words.split_once(' ').expect("words");
        Running::start(&mut command(program, words))
    };
    let running: Vec<Running> = tests.iter().map(start).collect();
    // two that are ended in the middle
    let ended: Vec<Running> = tests[..2].iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(700));
    drop(ended);
    for (words, running) in tests.iter().zip(running) {
        let finished = running.wait();
        assert_eq!(finished.code(), Some(0), "{words}: {finished:?}");
    }
    drop(hostile);
}

#[test]
#[ignore = "exhaustive: half an hour"]
fn a_server_and_a_lab_have_after_half_an_hour_what_they_had_at_its_beginning() {
    in_a_host(|| {
        needs!("iperf3");
        ip("link set lo up");
        let asked = std::env::var("LINKRATE_SOAK_SECONDS");
        let seconds = asked.map_or(SECONDS, |text| text.parse().expect("seconds"));
        let own = OwnCopy::new();
        let program = own.program();
        let server = Server::start(program.to_str().expect("a path of text"), "");
        let lab = Up::of(&program, "--adapter toe");
        let until = Instant::now() + Duration::from_secs(seconds);
        for _ in 0..WARM_UP {
            use_lab(&lab);
            use_server(&own);
        }
        std::thread::sleep(GONE / 4);
        let first = All::of(&own);
        let mut rounds = 0;
        while rounds < 2 || Instant::now() < until {
            use_lab(&lab);
            use_server(&own);
            rounds += 1;
            let is_as_first = || All::of(&own).is_as(&first);
            let now = || All::of(&own);
            assert!(wait_until(GONE, is_as_first), "round {rounds}: {:?}, not {first:?}", now());
            let now = now();
            println!("round {rounds}: {now:?}");
            assert!(now.memory < first.memory + SLACK, "round {rounds}: {now:?}, not {first:?}");
        }
        let pinged = lab.run("sut", &format!("ping -c 1 {CLIENT}"));
        pinged.expect_code(0);
        lab.down().expect_code(0);
        server.end();
        own.expect_nothing_left();
    });
}
