//! A host of a test's own: the test runs in namespaces where no other test is.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use linkrate_sys::host;
use linkrate_sys::netlink::RouteSocket;

use crate::skip::{skip, test_path};

/// Tells a test that it runs in a host of its own. To the harness it is one more name to run.
const MARKER: &str = "in-a-host";

/// Runs `test` in a host of its own, or says why it cannot.
pub fn in_a_host(test: impl FnOnce()) {
    if std::env::args().any(|argument| argument == MARKER) {
        test();
        return;
    }
    let isolation = or_skip!(host::can_isolate()).isolation();
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return skip(format!("/dev/net/tun: {error}; run the tests as root"));
    }
    needs!("ip");
    let program = std::env::current_exe().expect("a test binary");
    let path = test_path();
    let words = ["--exact", "--include-ignored", "--nocapture", "--test-threads=1", &path, MARKER];
    let arguments = words.map(OsStr::new);
    let mut host = host::spawn(&program, &arguments, isolation).expect("a host");
    let mut output = String::new();
    host.socket().read_to_string(&mut output).expect("its output");
    let status = host.end(Duration::from_secs(10)).expect("its end");
    for line in output.lines() {
        match line.find("SKIPPED ") {
            // libtest has begun the line with the name of the test
            Some(at) => println!("{}", &line[at..]),
            // indented behind a bar: its result is not one of this run's
            None => println!("  | {line}"),
        }
    }
    assert!(status.success() && output.contains("1 passed"), "{path}: {status}");
}

/// Runs ip(8) in the test's host.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Takes an interface up and waits until it runs.
pub fn up(name: &str) {
    let mut route = RouteSocket::open().expect("netlink");
    route.set_up(name).expect("up");
    route.wait_running(name, Duration::from_secs(5)).expect("running");
}
