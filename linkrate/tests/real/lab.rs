//! Labs that stay up: third-party programs in them, requests to them, how they end.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::needs::has_or_skips;
use crate::common::processes::OwnCopy;
use crate::common::up::{SUT, Up, rates};
use crate::common::web::Web;
use crate::common::{LINKRATE, Running, command, kill, linkrate, skip, wait_until};
use linkrate_sys::local_socket;
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn third_party_programs_run_over_each_model() {
    needs!(root, "iperf3", "ping");
    // payload of full frames at MTU 1500, of the link's rate
    let share = 1448.0 / 1538.0;
    for (model, most) in [("gigabit", 1e9 * share), ("ten-gigabit", 10e9 * share)] {
        let lab = Up::start(&format!("--adapter {model}"));
        lab.run("client-0", &format!("ping -c 3 -i 0.2 {SUT}")).expect_code(0);
        let (server, client) = lab.iperf3("-t 1");
        let (rate, _) = rates(client.wait());
        server.wait();
        // a busy machine may be slow, no machine may be faster than the link
        assert!(rate > most / 20.0 && rate < most * 1.002, "{model}: {rate}");
        let port = lab.port("eth0");
        let counters = &port["counters"];
        let count = |name: &str| counters[name].as_f64().unwrap_or_else(|| panic!("{port}"));
        assert!(count("ifHCOutOctets") * 8.0 > rate * 0.75, "{port}");
        let cut = count("txSegments") / count("txSuperframes");
        assert!(cut > 3.0, "{model}: {cut} frames from a superframe");
        assert_eq!(count("txDropMalformed") + count("txDropOversized"), 0.0, "{port}");
        let ended = lab.down().expect_code(0);
        assert!(ended.stderr.contains("linkrate lab exec client-0"), "{}", ended.stderr);
    }
}

#[test]
fn a_program_is_in_the_host_and_on_its_cpus() {
    needs!(root);
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
    if has_or_skips("ip") {
        let addresses = lab.run("sut", "ip addr").expect_code(0).stdout;
        assert!(addresses.contains("eth0") && addresses.contains("inet 198.18.0.1/24"));
    }
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
    needs!(root);
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
fn nginx_serves_a_file_to_curl() {
    needs!(root, "nginx", "curl");
    let web = Web::with_file_of(32 << 20);
    let lab = Up::start("--adapter ten-gigabit");
    lab.linkrate("adapter set eth0 lro=on");
    // faults that the checksums must catch, and TCP must mend
    lab.linkrate("adapter faults eth0 corrupt=0.02% duplicate=0.05% reorder=0.05% fcs-error=0.02%");
    let server = web.serve(&lab);
    web.fetch(&lab, "client-0", SUT);
    let bad = lab.counter("client-0", "rxChecksumBad");
    assert!(bad > 0, "no frame was corrupted");
    lab.down().expect_code(0);
    // it was in the lab, and ends with it
    server.wait();
}

#[test]
fn a_killed_lab_leaves_nothing_behind() {
    needs!(root, "nsenter");
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
        let mut nsenter = command("nsenter", &format!("--net={in_host} cat /proc/net/dev"));
        let mut alone = || {
            let devices = Running::start(&mut nsenter).wait().expect_code(0).stdout;
            devices.contains("lo:") && !devices.contains("eth0:")
        };
        assert!(wait_until(Duration::from_secs(5), &mut alone), "{options}");
    }
}

#[test]
fn finds_own_mounted_namespaces_only() {
    needs!(root);
    /// A namespace mounted on a file, until the test is done with it.
    struct Mounted<'a>(&'a Path);
    impl<'a> Mounted<'a> {
        fn of(pid: u32, at: &'a Path) -> Self {
            fs::write(at, "").expect("make a mount point");
            let mut mount = command("mount", &format!("--bind /proc/{pid}/ns/net"));
            Running::start(mount.arg(at)).wait().expect_code(0);
            Self(at)
        }
    }
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            // fails only where the mount itself had failed
            let _ = command("umount", "").arg(self.0).status();
        }
    }
    let own = OwnCopy::new();
    let (of_lab, of_other) = (own.beside("mounted"), own.beside("other"));
    let other = common::machines::Machine::start();
    let lab = Up::of(&own.program(), "");
    let (left, others) =
        (Mounted::of(own.agents()[1], &of_lab), Mounted::of(other.pid(), &of_other));
    lab.down().expect_code(0);
    let found = std::panic::catch_unwind(|| own.expect_nothing_left()).expect_err("it is found");
    let said = found.downcast::<String>().expect("a message");
    assert!(said.starts_with("namespaces left mounted: [\"net:["), "{said}");
    drop(left);
    own.expect_nothing_left();
    drop(others);
}

#[test]
fn lab_down_ends_all_programs_of_the_lab() {
    needs!(root);
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
fn a_lab_that_loses_a_host_ends_and_names_it() {
    needs!(root);
    let own = OwnCopy::new();
    for (options, agent) in [("", 0), ("--adapter veth", 1)] {
        let lab = Up::of(&own.program(), options);
        kill(own.agents()[agent], Signal::KILL);
        let said = lab.running.wait().expect_code(1).stderr;
        assert!(said.contains(" has died") || said.contains("its interface is gone"), "{said}");
        own.expect_nothing_left();
    }
}

#[test]
fn a_lab_whose_engine_dies_or_whose_host_stood_still_ends_and_says_so() {
    needs!(root);
    let own = OwnCopy::new();
    let lab = Up::of(&own.program(), "--adapter toe");
    // those of the system under test, of the client and of the engine
    kill(own.agents()[2], Signal::KILL);
    let said = lab.running.wait().expect_code(1).stderr;
    assert!(said.contains("the agent of adapter has died"), "{said}");
    own.expect_nothing_left();
    let lab = Up::of(&own.program(), "");
    let agent = own.agents()[0];
    kill(agent, Signal::STOP);
    let said = lab.tried("adapter show").expect_code(1).stderr;
    assert!(said.contains("no answer within"), "{said}");
    kill(agent, Signal::CONT);
    let said = lab.running.wait().expect_code(1).stderr;
    assert!(said.contains("is lost: no answer within"), "{said}");
    own.expect_nothing_left();
}

#[test]
fn foreign_connections_are_answered_without_harm() {
    needs!(root);
    let lab = Up::start("");
    let socket = Path::new("/run/linkrate/labs").join(&lab.name);
    let connect = || local_socket::connect(&socket).expect("connect");
    for frame in [
        &b"{}"[..],
        b"\xff\xff",
        b"{\"version\":1,\"request\":{\"add\":{\"ports\":0}}}",
        // a path alone opens no file
        b"{\"version\":1,\"request\":{\"start-capture\":{\"port\":\"eth0\",\"file\":\"/run/linkrate/no\"}}}",
    ] {
        let mut stream = connect();
        stream.write_all(&(frame.len() as u32).to_be_bytes()).expect("send");
        stream.write_all(frame).expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let document: Value = serde_json::from_slice(&answer[4..]).expect("a document");
        assert_eq!(document["refused"]["wrong"], true, "{document}");
    }
    assert!(!Path::new("/run/linkrate/no").exists());
    // a length that lies, a frame that never ends, a caller without a request
    connect().write_all(&[0xff; 64]).expect("send");
    let mut stalls = connect();
    stalls.write_all(&[0, 0, 0, 9, b'{']).expect("send");
    drop(connect());
    let started = Instant::now();
    lab.linkrate("lab show");
    // the lab does not wait for the frame
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(stalls);
}

#[test]
fn an_ordinary_user_has_labs_of_their_own() {
    needs!(root, "setpriv");
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
        return skip(finished.stderr.lines().next().unwrap_or("not possible here"));
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
