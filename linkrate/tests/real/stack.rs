//! What the network stacks of the hosts are made of changes while a run is measured, or between two runs: the run is refused,
//! and what has changed is named.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::lab::{SUT_INTERFACE, inside, lab_for, run_spec, run_undisturbed};
use crate::common::{cases, kill};
use linkrate_lab::Lab;
use linkrate_model::{InterfaceKnobs, RunSpec, Task, TestbedSpec, Workload};
use linkrate_study::executor::{Executor, Stage};
use linkrate_study::study::Purpose;
use rustix::process::Signal;

const WINDOW: Duration = Duration::from_millis(800);

fn spec() -> RunSpec {
    run_spec(Task::Workload(Workload::default()), InterfaceKnobs::default(), WINDOW)
}

/// A shell with these words in the namespaces of a host, with its sysfs.
fn shell(pid: u32, words: &str) -> Command {
    let mut command = Command::new("nsenter");
    let pid = pid.to_string();
    command.args(["--target", &pid, "--net", "--mount", "sh", "-ec", words]).stdin(Stdio::null());
    command
}

fn change(pid: u32, words: &str) {
    assert!(shell(pid, words).status().expect("run nsenter").success(), "{words}");
}

/// A lab whose runs are for figures: of those for functions the stack may change.
fn figures() -> Lab {
    lab_for(Purpose::Rates, &TestbedSpec::default(), None)
}

fn pid_of_sut(lab: &mut Lab) -> u32 {
    lab.testbed().expect("a testbed").sut.pid()
}

#[track_caller]
fn validated(lab: &mut Lab) {
    run_undisturbed(lab, &spec());
}

/// The reason why a run is refused in whose window `sabotage` is called.
#[track_caller]
fn refused(lab: &mut Lab, sabotage: impl FnOnce() + Send) -> String {
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(WINDOW / 2);
            sabotage();
        });
        lab.run(&spec())
    });
    let failure = outcome.expect_err("a spoiled run was believed");
    assert_eq!(failure.stage, Stage::Testbed, "{failure}");
    failure.reason
}

#[test]
fn a_change_of_the_stack_refuses_the_run_by_name() {
    needs!(root, "tc");
    let of_sut = " of the system under test: ";
    let mut lab = figures();
    validated(&mut lab);
    let changes = [
        (
            "echo 4096 16384 16384 > /proc/sys/net/ipv4/tcp_rmem",
            "net.ipv4.tcp_rmem",
            "4096 16384 16384",
        ),
        ("echo 2 > /sys/class/net/eth0/queues/rx-0/rps_cpus", "rps_cpus, queue rx-0 of eth0", "2"),
        (
            "ip route change $(ip route show dev eth0) dev eth0 initcwnd 2",
            "route to ",
            "initcwnd 2",
        ),
        (
            "echo 4096 16384 16384 > /proc/sys/net/ipv4/tcp_wmem",
            "net.ipv4.tcp_wmem",
            "4096 16384 16384",
        ),
        ("echo 0 > /proc/sys/net/ipv4/tcp_sack", "net.ipv4.tcp_sack", "0"),
        ("echo 2 > /proc/sys/net/ipv4/conf/eth0/rp_filter", "net.ipv4.conf.eth0.rp_filter", "2"),
        (
            "echo 64 > /sys/class/net/eth0/queues/rx-0/rps_flow_cnt",
            "rps_flow_cnt, queue rx-0 of eth0",
            "64",
        ),
        ("ip link set eth0 promisc on", "promiscuity of eth0", "1"),
        ("ethtool -K eth0 tx-nocache-copy on", "features of eth0", "tx-nocache-copy"),
    ];
    for (words, named, after) in cases(&changes, 3) {
        let pid = pid_of_sut(&mut lab);
        let reason = refused(&mut lab, || change(pid, words));
        assert!(reason.starts_with(*named) && reason.contains(of_sut), "{words}: {reason}");
        let ended = format!("{after} when it ended: another program changed it");
        assert!(reason.ends_with(&ended) || reason.contains(*after), "{words}: {reason}");
        // the lab is built again
        validated(&mut lab);
    }
}

#[test]
#[ignore = "exhaustive: another change of the stack"]
fn a_change_of_a_clients_stack_is_named_with_the_client() {
    needs!(root);
    let mut lab = figures();
    validated(&mut lab);
    let pid = lab.testbed().expect("a testbed").clients[0].host.pid();
    let reason =
        refused(&mut lab, || change(pid, "echo 4096 16384 16384 > /proc/sys/net/ipv4/tcp_rmem"));
    assert!(reason.starts_with("net.ipv4.tcp_rmem of client 0: "), "{reason}");
    validated(&mut lab);
}

#[test]
#[ignore = "exhaustive: another change of the stack"]
fn a_filter_that_is_added_meanwhile_is_named() {
    needs!(root, "tc");
    let mut lab = figures();
    let pid = pid_of_sut(&mut lab);
    // a place for filters alone changes nothing
    change(pid, "tc qdisc add dev eth0 clsact");
    validated(&mut lab);
    let filter = "tc filter add dev eth0 ingress protocol ip prio 7 u32 match u32 0 0 flowid :1";
    let reason = refused(&mut lab, || change(pid, filter));
    let named = "tc filters at ingress of eth0 of the system under test: absent when the run began, u32, preference 7";
    assert!(reason.starts_with(named), "{reason}");
}

/// The capture begins in the window, and continues until the run has ended.
#[test]
fn a_capture_is_named_with_its_program() {
    needs!(root, "dumpcap");
    let mut lab = figures();
    validated(&mut lab);
    let mut dumpcap = inside(pid_of_sut(&mut lab), "dumpcap");
    // it removes a file in which it has written no packet
    let file = tempfile::NamedTempFile::new().expect("make a temporary file");
    dumpcap.args(["-q", "-i", SUT_INTERFACE, "-w"]).arg(file.path());
    dumpcap.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut capture = None;
    let reason = refused(&mut lab, || {
        let mut child = dumpcap.spawn().expect("start dumpcap");
        let mut reported = BufReader::new(child.stderr.take().expect("stderr is a pipe")).lines();
        // the next line is told once the socket is open
        let begins = reported.by_ref().map_while(Result::ok).any(|line| line.contains("File: "));
        assert!(begins, "dumpcap captures nothing");
        // a pipe that nobody reads would end it
        capture = Some((child, reported));
    });
    let (mut capture, reported) = capture.expect("a capture");
    kill(capture.id(), Signal::INT);
    capture.wait().expect("its end");
    drop(reported);
    assert!(reason.starts_with("packet sockets of the system under test: absent"), "{reason}");
    assert!(reason.contains("\"dumpcap\" (process "), "{reason}");
    validated(&mut lab);
}

#[test]
#[ignore = "exhaustive: another change of the stack"]
fn rules_of_netfilter_are_named() {
    needs!(root, "nft");
    let mut lab = figures();
    validated(&mut lab);
    let pid = pid_of_sut(&mut lab);
    let rules =
        "nft 'table ip t { chain c { type filter hook input priority 0; tcp dport 1 drop; }; }'";
    let reason = refused(&mut lab, || change(pid, rules));
    let named = "netfilter rules of nf_tables of the system under test: generation ";
    assert!(reason.starts_with(named), "{reason}");
    validated(&mut lab);
}

/// What is changed between two runs would be in all runs from then on.
#[test]
fn a_change_between_two_runs_refuses_those_behind_it() {
    needs!(root);
    let mut lab = figures();
    validated(&mut lab);
    let pid = pid_of_sut(&mut lab);
    change(pid, "echo 4096 16384 16384 > /proc/sys/net/ipv4/tcp_rmem");
    let failure = lab.run(&spec()).expect_err("a changed stack was believed");
    assert!(
        failure.reason.starts_with("net.ipv4.tcp_rmem of the system under test: "),
        "{failure}"
    );
    let ended = "in the first run, 4096 16384 16384 in this one: another program changed it";
    assert!(failure.reason.ends_with(ended), "{failure}");
    validated(&mut lab);
}

/// The readings are taken in namespaces of their own, and no program is started for them: they cost little.
#[test]
#[ignore = "exhaustive: another change of the stack"]
fn a_host_that_nobody_changes_is_valid_in_each_run() {
    needs!(root);
    let mut lab = figures();
    for run in 0..3 {
        let mtu = if run == 1 { Some(1400) } else { None };
        let interface = InterfaceKnobs { mtu, ..InterfaceKnobs::default() };
        let spec = RunSpec { interface, ..spec() };
        lab.run(&spec).unwrap_or_else(|failure| panic!("run {run}: {failure}"));
    }
}
