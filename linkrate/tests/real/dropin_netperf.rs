//! `linkrate netperf` against netserver and against `linkrate serve`: what it prints is what netperf prints, by the
//! reader that imports netperf's output, and what both ends counted agrees.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::ends::{await_listener, free_port};
use crate::common::machines::Machine;
use crate::common::up::Up;
use crate::common::{
    Finished, LINKRATE, Running, at_once, cases, command, linkrate, skip, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// A server on a free port of the loopback interface.
struct Server {
    running: Running,
    port: u16,
}

impl Server {
    fn start(words: &dyn Fn(u16) -> (&'static str, String)) -> Self {
        let port = free_port();
        let (program, words) = words(port);
        let running = Running::start(&mut command(program, &words));
        await_listener(port);
        Self { running, port }
    }

    fn netserver() -> Self {
        Self::start(&|port| ("netserver", format!("-D -4 -p {port}")))
    }

    fn serve() -> Self {
        Self::start(&|port| (LINKRATE, format!("serve --programs netperf --netperf-port {port}")))
    }

    #[track_caller]
    fn client(&self, words: &str) -> Finished {
        linkrate(&format!("netperf -H 127.0.0.1 -p {} {words}", self.port)).expect_code(0)
    }

    /// Values of results by their names.
    #[track_caller]
    fn values(&self, words: &str, names: &str) -> Vec<f64> {
        let printed = self.client(&format!("-P 0 {words} -- -k {names}")).stdout;
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
            line.unwrap_or_else(|| panic!("no {name}: {printed}")).parse().expect("a number")
        };
        names.split(',').map(value).collect()
    }
}

/// The last line of numbers that is not empty.
fn numbers(text: &str) -> Vec<f64> {
    let lines = text.lines().map(|line| line.split_whitespace().map(str::parse).collect());
    let found: Vec<Vec<f64>> = lines.filter_map(|line: Result<Vec<f64>, _>| line.ok()).collect();
    found.into_iter().find(|line| line.len() > 2).expect("a line of numbers")
}

/// Tests, each with the least that it must reach.
const TESTS: [(&str, f64); 8] = [
    ("TCP_STREAM", 1000.0),
    ("TCP_MAERTS", 1000.0),
    ("TCP_SENDFILE", 1000.0),
    ("UDP_STREAM", 100.0),
    ("TCP_RR", 1000.0),
    ("TCP_CRR", 100.0),
    ("TCP_CC", 100.0),
    ("UDP_RR", 1000.0),
];

fn every_test(server: &Server) {
    at_once(4, &TESTS, |&(test, least)| {
        // with both CPUs, whose use is that of one host here, and without
        for cpus in cases(&["-c -C", ""], 1) {
            let Finished { stdout, stderr, .. } = server.client(&format!("-t {test} -l 1 {cpus}"));
            let line = numbers(&stdout);
            assert!(line.iter().copied().fold(0.0, f64::max) > least, "{test}: {stdout}");
            let banner = if test == "TCP_CC" { "TCP Connect/Close TEST " } else { "MIGRATED " };
            assert!(stdout.starts_with(banner), "{stdout}");
            if cpus.is_empty() {
                continue;
            }
            assert!(stderr.contains("note: both ends are on this host"), "{stderr}");
            let demands = &line[line.len() - 2..];
            let has_demands = demands.iter().all(|demand| *demand > 0.0);
            assert!(test == "UDP_STREAM" || has_demands, "{test}: {stdout}");
        }
    });
    at_once(2, &["TCP_STREAM", "TCP_RR"], |test| {
        let alone = server.client(&format!("-t {test} -l 1 -P 0 -v 0")).stdout;
        let rate: f64 = alone.trim().parse().expect("one number");
        assert!(rate > 1000.0, "{test}: {alone}");
    });
}

/// Octets that both ends counted.
fn both_counted(server: &Server) {
    let cases = [
        ("TCP_STREAM", "LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD"),
        ("TCP_MAERTS", "LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT"),
        ("TCP_RR", "LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD"),
        ("TCP_CRR", "LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT"),
    ];
    at_once(4, &cases, |&(test, names)| {
        let values = server.values(&format!("-t {test} -l 1"), names);
        assert!((values[0] / values[1] - 1.0).abs() < 0.005, "{test}: {names} {values:?}");
    });
    let counted = server.values("-t TCP_RR -l -500", "LOCAL_SEND_CALLS,P50_LATENCY,MAX_LATENCY");
    assert_eq!(counted[0], 500.0);
    assert!(counted[1] > 0.0 && counted[1] <= counted[2], "{counted:?}");
}

#[test]
fn netserver_serves_every_test() {
    needs!("netserver");
    let server = Server::netserver();
    every_test(&server);
    both_counted(&server);
}

#[test]
fn linkrate_serves_every_test() {
    let server = Server::serve();
    every_test(&server);
    both_counted(&server);
    server.running.signal(Signal::INT);
    let finished = server.running.wait().expect_code(0);
    for line in finished.stdout.lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        // a connection that asks whether the server listens asks for no test
        assert_eq!(line["ended"], "complete", "{line:#}");
    }
}

/// Streams of datagrams at any rate stay on the link unless they are permitted to leave it.
#[test]
#[ignore = "exhaustive: another option of netperf"]
fn datagrams_at_any_rate_go_by_a_router_only_if_that_is_permitted() {
    needs!(root);
    let lab = Up::start("--aggregate 2 --clients 1 --router");
    let behind = "198.19.255.2";
    let words = format!("{LINKRATE} serve --programs netperf --bind {behind}");
    let _server = Running::start(&mut lab.exec("client-0", &words));
    let client = |words: &str| {
        lab.run("sut", &format!("{LINKRATE} netperf -P 0 -v 0 -H {behind} -l 1 {words}"))
    };
    let listens = || client("-t TCP_RR").code() == Some(0);
    assert!(wait_until(Duration::from_secs(20), listens), "{}", client("-t TCP_RR").stderr);
    let refused = client("-t UDP_STREAM").stderr;
    assert!(refused.contains("without a router; -R 1 behind -- permits routers"), "{refused}");
    for words in ["-t UDP_STREAM -- -R 1", "-t UDP_RR", "-t TCP_MAERTS"] {
        client(words).expect_code(0);
    }
    let refused = client("-t TCP_CRR -- -R 0").stderr;
    assert!(refused.contains("without a router"), "{refused}");
}

#[test]
fn results_have_the_forms_that_scripts_read() {
    let server = Server::serve();
    let finished =
        server.client("-t TCP_STREAM -l 2 -D 0.5 -f k -- -k THROUGHPUT,THROUGHPUT_UNITS");
    let text = &finished.stdout;
    assert!(text.contains("\nTHROUGHPUT_UNITS=10^3bits/s\n"), "{text}");
    let interim = |name: &str| {
        let prefix = format!("NETPERF_{name}[");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        lines.filter_map(|line| line.split_once("]=")?.1.parse().ok()).collect::<Vec<f64>>()
    };
    let (rates, intervals) = (interim("INTERIM_RESULT"), interim("INTERVAL"));
    assert!((3..=4).contains(&rates.len()), "{text}");
    assert_eq!((rates.len(), rates.len()), (intervals.len(), interim("ENDING").len()));
    assert!(rates.iter().all(|rate| *rate > 1e5) && intervals[0] > 0.49, "{text}");
    let finished = server.client(
        "-t TCP_RR -l 1 -C -- -D -r 64,1K -o THROUGHPUT,NOSUCH,LOCAL_CPU_MODEL,P99_LATENCY,LOCAL_NODELAY,\
         REMOTE_NODELAY,REMOTE_CPU_PEAK_UTIL,REMOTE_CPU_PERCENT_SYSTEM,DEST_ADDR,LOCAL_BYTES_PER_SEND,\
         REMOTE_CPU_BIND",
    );
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(
        lines[1].starts_with("Throughput,Local CPU Model,99th Percentile Latency Microseconds,")
    );
    let values: Vec<&str> = lines[2].split(',').collect();
    let [rate, "", latency, "1", "1", peak, system, "127.0.0.1", "64.00", "-1"] = values[..] else {
        panic!("{values:?}");
    };
    for number in [rate, latency, peak, system] {
        assert!(number.parse::<f64>().is_ok_and(|number| number > 0.0), "{values:?}");
    }
    assert!(finished.stderr.contains("selector NOSUCH is unknown"), "{}", finished.stderr);
    let finished = server.client("-t TCP_RR -l 1 -I 99,0.001 -i 3,2");
    assert!(finished.stdout.contains("Desired confidence was not achieved"), "{}", finished.stdout);
    assert!(
        finished.stderr.contains("note: 3 tests: the interval of the mean"),
        "{}",
        finished.stderr
    );
    // no CPU of this number is here
    let finished = server.client("-t TCP_RR -l -10 -T 4095,");
    assert!(finished.stderr.contains("note: -T 4095 does not hold here: "), "{}", finished.stderr);
    let finished = server.client("-t OMNI -l 1 -- -d recv -O DIRECTION,THROUGHPUT");
    assert!(finished.stdout.contains("Recv"), "{}", finished.stdout);
}

#[test]
#[ignore = "exhaustive: more tests of netperf"]
fn the_import_reads_what_is_printed() {
    let server = Server::serve();
    let directory = tempfile::tempdir().expect("a directory");
    let mut files = Vec::new();
    for (name, words) in [
        ("classic", "-t TCP_STREAM -l 1"),
        ("with-cpu", "-t TCP_RR -l 1 -c -C"),
        ("pairs", "-t TCP_STREAM -l 1 -- -k"),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, server.client(words).stdout).expect("a file");
        files.push(file.display().to_string());
    }
    let store = directory.path().join("store");
    let words = format!("import -o {} {}", store.display(), files.join(" "));
    let finished = linkrate(&words);
    assert_eq!(finished.code(), Some(0), "{}{}", finished.stdout, finished.stderr);
}

#[test]
fn linkrate_is_netperf_under_its_name() {
    let server = Server::serve();
    let directory = tempfile::tempdir().expect("a directory");
    let netperf = directory.path().join("netperf");
    symlink(LINKRATE, &netperf).expect("a link");
    let words = format!("-P 0 -v 0 -H 127.0.0.1 -p {} -l 1", server.port);
    let netperf = netperf.display().to_string();
    let finished = Running::start(&mut command(&netperf, &words)).wait().expect_code(0);
    let rate: f64 = finished.stdout.trim().parse().expect("one number");
    assert!(rate > 1000.0, "{rate}");
    let finished = Running::start(&mut command(&netperf, "-q")).wait().expect_code(2);
    assert!(finished.stderr.contains("unsupported option -q"), "{}", finished.stderr);
    let finished = Running::start(&mut command(&netperf, "-- -h")).wait().expect_code(0);
    assert!(finished.stdout.contains("behind --:"), "{}", finished.stdout);
}

/// Stands for `netperf` in the scripts: each test lasts some thousand transactions or bytes and runs once, whatever
/// the script asks for.
const SHORTER: &str = r#"#!/bin/bash
words=()
while [ $# -gt 0 ]; do
    case $1 in
        -l) words+=(-l -4000); shift 2 ;;
        -i | -I) shift 2 ;;
        --) words+=("$@"); break ;;
        *) words+=("$1"); shift ;;
    esac
done
exec LINKRATE netperf "${words[@]}"
"#;

#[test]
fn scripts_that_come_with_netperf_run_as_they_are() {
    const EXAMPLES: &str = "/usr/share/doc/netperf/examples";
    // the scripts name the usual port
    needs!(root, "ip");
    if !Path::new(EXAMPLES).join("tcp_rr_script").exists() {
        return skip("the package netperf has no examples here");
    }
    let machine = Machine::start();
    machine.sh("ip link set lo up");
    let mut serve = command(LINKRATE, "serve --programs netperf");
    machine.on(&mut serve);
    let server = Running::start(&mut serve);
    let listens = || machine.listening_ports().contains(&12_865);
    assert!(wait_until(Duration::from_secs(10), listens), "nothing listens");
    let directory = tempfile::tempdir().expect("a directory");
    let netperf = directory.path().join("netperf");
    fs::write(&netperf, SHORTER.replace("LINKRATE", LINKRATE)).expect("a script");
    fs::set_permissions(&netperf, Permissions::from_mode(0o755)).expect("a mode");
    let scripts = [
        ("tcp_rr_script", "-t TCP_RR", 4),
        ("udp_stream_script", "-t UDP_STREAM", 3),
        ("snapshot_script", "-t UDP_STREAM", 7),
        ("udp_rr_script", "-t UDP_RR", 4),
        ("tcp_stream_script", "-t TCP_STREAM", 4),
        ("tcp_range_script", "-t TCP_STREAM", 9),
        ("packet_byte_script", "-t TCP_RR", 30),
    ];
    for &(script, heading, tests) in cases(&scripts, 3) {
        let here = directory.path().display();
        // the package compresses long ones
        let read = format!(
            "if [ -f {EXAMPLES}/{script} ]; then cat {EXAMPLES}/{script}; else gzip -dc {EXAMPLES}/{script}.gz; fi"
        );
        let mut run = command("sh", "-c");
        // a process that enters a machine loses its directory
        run.arg(format!("cd {here} && ({read}) > {script} && exec sh ./{script} 127.0.0.1 CPU"));
        run.envs([("NETPERF_CMD", "./netperf"), ("NETPERF_DIR", ".")]);
        if script == "packet_byte_script" {
            // its sizes double up to the segment size, so this one has three dozens of tests
            machine.sh("ip link set lo mtu 100");
        }
        machine.on(&mut run);
        let finished = Running::start(&mut run).wait().expect_code(0);
        let errors: Vec<&str> =
            finished.stderr.lines().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors, [""; 0], "{script}");
        let printed = &finished.stdout;
        assert!(printed.contains(heading), "{script}: {printed}");
        let is_result = |line: &&str| {
            let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
            numbers.is_ok_and(|numbers| numbers.len() >= 6)
        };
        let found = printed.lines().filter(is_result).count();
        assert!(found >= tests, "{script}: {found} results, expected {tests}: {printed}");
    }
    drop(server);
}

/// Of datagrams that were lost, netperf's throughput is that of the receiver.
#[test]
fn throughput_is_that_of_the_receiver() {
    needs!("netserver");
    const NAMES: &str = "THROUGHPUT,LOCAL_SEND_THROUGHPUT,REMOTE_RECV_THROUGHPUT";
    for server in [Server::netserver(), Server::serve()] {
        // a receive buffer of some datagrams, which overflows
        let begun = Instant::now();
        let words = "-P 0 -t UDP_STREAM -l 1 -- -m 1000 -S 4K";
        let printed = server.client(&format!("{words} -k {NAMES}")).stdout;
        // the server was told of the end
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
            line.expect("a value").parse::<f64>().expect("a number")
        };
        let [throughput, sent, received] =
            ["THROUGHPUT", "LOCAL_SEND_THROUGHPUT", "REMOTE_RECV_THROUGHPUT"].map(value);
        assert!(received < 0.99 * sent, "nothing is lost: {printed}");
        assert_eq!(throughput, received, "{printed}");
        // the number alone is netperf's too: what was sent
        let finished = server.client("-P 0 -v 0 -t UDP_STREAM -l 1 -- -m 1000 -S 4K");
        assert!(
            finished.stderr.contains("% of what was sent did not arrive"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn data_goes_to_the_address_that_is_named() {
    needs!("netserver");
    let server = Server::netserver();
    for kind in cases(&["TCP_MAERTS", "UDP_RR", "TCP_STREAM", "TCP_CRR"], 2) {
        let words = format!("-t {kind} -l 1 -- -H 127.0.0.2 -k DEST_ADDR,THROUGHPUT");
        let printed = server.client(&words).stdout;
        assert!(printed.contains("DEST_ADDR=127.0.0.2\n"), "{kind}: {printed}");
    }
    // that takes a client of --allow
    let server = Server::serve();
    let words = format!("netperf -H 127.0.0.1 -p {} -l 1 -- -H 127.0.0.2", server.port);
    let refused = linkrate(&words).expect_code(1);
    assert!(refused.stderr.contains("Operation not permitted"), "{}", refused.stderr);
}

#[test]
#[ignore = "exhaustive: another option of netperf"]
fn intervals_bound_the_calls_of_both_ends() {
    let server = Server::serve();
    let tests = [
        // 1,472 octets in 10 ms
        ("-t UDP_STREAM -l 2 -b 1 -w 10 -- -m 1472", "THROUGHPUT", 1.1776),
        ("-t TCP_CRR -l 2 -b ,1 -w ,10m", "TRANSACTION_RATE", 100.0),
        ("-t TCP_RR -l 2 -b 2 -w 10", "TRANSACTION_RATE", 200.0),
        ("-t TCP_MAERTS -l 2 -b ,1 -w ,10 -- -m ,1472", "THROUGHPUT", 1.1776),
        ("-t UDP_RR -l 2 -b ,2 -w ,10", "TRANSACTION_RATE", 200.0),
        ("-t TCP_CRR -l 2 -b 1 -w 10m", "TRANSACTION_RATE", 100.0),
    ];
    for &(words, names, most) in cases(&tests, 3) {
        let words = match words.contains(" -- ") {
            true => format!("-P 0 {words} -k {names}"),
            false => format!("-P 0 {words} -- -k {names}"),
        };
        let printed = server.client(&words).stdout;
        let rate: f64 =
            printed.split('=').nth(1).and_then(|rate| rate.trim().parse().ok()).expect("a rate");
        // a busy machine misses some intervals
        assert!((0.5 * most..1.02 * most).contains(&rate), "{words}: {printed}");
    }
}

#[test]
fn a_server_that_waits_for_a_passphrase_gets_it() {
    needs!("netserver");
    let server = Server::start(&|port| ("netserver", format!("-D -4 -p {port} -Z secret")));
    let said = |words: &str| {
        linkrate(&format!("netperf -H 127.0.0.1 -p {} -P 0 -v 0 -l 1 {words}", server.port))
    };
    let rate: f64 = said("-Z secret").expect_code(0).stdout.trim().parse().expect("one number");
    assert!(rate > 1000.0, "{rate}");
    said("-Z other").expect_code(1);
}

/// What changes the figure at the server is done there, or is an error.
#[test]
fn a_server_that_does_not_do_its_half_is_an_error() {
    needs!("netserver");
    let server = Server::netserver();
    let client = |words: &str| {
        linkrate(&format!("netperf -H 127.0.0.1 -p {} -P 0 -l 1 {words}", server.port))
    };
    // the package is built without intervals
    let refused = client("-t TCP_MAERTS -b ,1 -w ,10").expect_code(1).stderr;
    assert!(refused.contains("does not support the second value of -b and -w"), "{refused}");
    let values =
        "REMOTE_SEND_SIZE,REMOTE_SEND_WIDTH,LOCAL_RECV_WIDTH,LOCAL_SOCKET_PRIO,REMOTE_SOCKET_PRIO";
    let words = format!("-t TCP_MAERTS -W 6,4 -y 3,5 -- -m ,2K -k {values}");
    let printed = client(&words).expect_code(0).stdout;
    let found: Vec<&str> =
        printed.lines().filter_map(|line| Some(line.split_once('=')?.1)).collect();
    assert_eq!(found, ["2048", "6", "4", "3", "5"], "{printed}");
    let serve = Server::serve();
    let words = format!("netperf -H 127.0.0.1 -p {} -t TCP_MAERTS -F ,/etc/hostname", serve.port);
    let refused = linkrate(&words).expect_code(1).stderr;
    assert!(refused.contains("Operation not supported"), "{refused}");
}

/// Options of this end, as far as their effect can be seen on one host.
#[test]
fn options_of_this_end_are_in_effect() {
    needs!("netserver");
    let directory = tempfile::tempdir().expect("a directory");
    let fill = directory.path().join("fill");
    fs::write(&fill, "some payload").expect("a file");
    let servers: [fn() -> Server; 2] = [Server::netserver, Server::serve];
    for start in cases(&servers, 1) {
        let server = start();
        let mss = server.values("-t TCP_STREAM -l 1", "TRANSPORT_MSS")[0];
        let words = "-t TCP_STREAM -l 1 -- -G 1400b -k TRANSPORT_MSS";
        let bound = server.client(&format!("-P 0 {words}")).stdout;
        let bound: f64 =
            bound.split('=').nth(1).and_then(|mss| mss.trim().parse().ok()).expect("a size");
        // timestamps take 12 octets
        assert!((1380.0..=1400.0).contains(&bound) && mss > 10_000.0, "{bound} {mss}");
        let rate = server.client("-P 0 -v 0 -t TCP_STREAM -l 2 -- -q 1250000").stdout;
        let rate: f64 = rate.trim().parse().expect("one number");
        // bursts at the beginning are not paced
        assert!((5.0..30.0).contains(&rate), "10 Mb/s are asked for: {rate}");
        let begun = Instant::now();
        let branded = server.client("-P 0 -v 0 -t TCP_RR -l 1 -s 1 -B run1").stdout;
        assert!(branded.ends_with(" run1\n"), "{branded}");
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
        for kind in ["TCP_STREAM", "TCP_SENDFILE", "TCP_RR", "UDP_RR"] {
            server.client(&format!("-t {kind} -l 1 -F {} -a 4096 -o 64", fill.display()));
        }
        let units =
            server.client("-P 0 -t TCP_RR -f m -l 1 -- -r 64K,64K -k THROUGHPUT_UNITS,SD_UNITS");
        assert_eq!(units.stdout, "THROUGHPUT_UNITS=10^6bits/s\nSD_UNITS=usec/KB\n");
        let values = server.values("-t TCP_STREAM -l 1 -j", "P50_LATENCY,P99_LATENCY");
        assert!(values[0] > 0.0 && values[0] <= values[1], "times of send calls: {values:?}");
        let histogram = server.client("-t TCP_RR -l -1000 -v 2").stdout;
        assert!(histogram.ends_with(">100_SECS: 0\nHIST_TOTAL:      1000\n"), "{histogram}");
        assert_eq!(histogram.matches("_USEC").count(), 3, "{histogram}");
        assert!(histogram.contains("\nAlignment      Offset         RoundTrip"), "{histogram}");
        let details = server.client("-t TCP_MAERTS -l 1 -v 2").stdout;
        assert!(details.contains("\nMaximum\nSegment\nSize (bytes)\n"), "{details}");
    }
    let server = Server::serve();
    let missing =
        linkrate(&format!("netperf -p {} -F /nowhere/at-all", server.port)).expect_code(1);
    assert!(missing.stderr.contains("-F /nowhere/at-all: "), "{}", missing.stderr);
}

#[test]
#[ignore = "exhaustive: another address family"]
fn tests_run_over_ipv6() {
    needs!("netserver");
    if !Path::new("/proc/net/if_inet6").exists() {
        return skip("this host has no IPv6");
    }
    let servers = [
        Server::start(&|port| ("netserver", format!("-D -p {port}"))),
        Server::start(&|port| {
            (
                LINKRATE,
                format!(
                    "serve --programs netperf --bind :: --allow ::1 --allow 127.0.0.0/8 --netperf-port {port}"
                ),
            )
        }),
    ];
    for server in &servers {
        let port = server.port;
        let kinds = ["TCP_MAERTS", "TCP_CRR", "UDP_RR", "TCP_STREAM", "TCP_RR", "UDP_STREAM"];
        at_once(4, cases(&kinds, 3), |kind| {
            for words in [
                format!("-6 -p {port} -t {kind} -l 1 --"),
                format!("-H ::1 -p {port} -t {kind} -l 1 -- -L ::1,6"),
                format!("-H 127.0.0.1 -p {port} -t {kind} -l 1 -- -H ::1,6"),
            ] {
                let words = format!("netperf {words} -k DEST_ADDR,DEST_FAMILY,THROUGHPUT");
                let printed = linkrate(&words).expect_code(0).stdout;
                assert!(printed.contains("DEST_ADDR=::1\nDEST_FAMILY=10\n"), "{words}: {printed}");
                assert!(printed.contains("AF_INET6"), "{printed}");
            }
        });
    }
}
