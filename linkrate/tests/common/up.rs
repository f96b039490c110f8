//! A lab that stays up while other commands look at it and change it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{Finished, LINKRATE, Running, command, linkrate, wait_until};

/// Address of the system under test on its first wire.
pub const SUT: &str = "198.18.0.1";
/// Of its first client.
pub const CLIENT: &str = "198.18.0.2";
/// The same over IPv6.
pub const SUT_IPV6: &str = "2001:2::c612:1";
/// And its client.
pub const CLIENT_IPV6: &str = "2001:2::c612:2";

static LABS: AtomicU32 = AtomicU32::new(0);

/// A lab under a name that no other test has, up until the test is done with it.
#[derive(Debug)]
pub struct Up {
    pub name: String,
    /// The process that holds it.
    pub running: Running,
}

impl Up {
    /// `linkrate lab up --wait` with options, once it is up.
    pub fn start(options: &str) -> Self {
        Self::of(LINKRATE.as_ref(), options)
    }

    /// The same of a copy of the program.
    #[track_caller]
    pub fn of(program: &Path, options: &str) -> Self {
        Self::started(options, |words| command(program, words))
    }

    /// The same, by the command that is made of its words.
    #[track_caller]
    pub fn started(options: &str, command: impl Fn(&str) -> Command) -> Self {
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let running =
            Running::start(&mut command(&format!("lab up --wait --name {name} {options}")));
        let shown = || linkrate(&format!("lab show --name {name}")).code() == Some(0);
        if !wait_until(Duration::from_secs(20), shown) {
            running.signal(Signal::TERM);
            panic!("not up: {}", running.wait().stderr);
        }
        Self { name, running }
    }

    /// `linkrate COMMAND ... --name NAME`, which must succeed.
    #[track_caller]
    pub fn linkrate(&self, words: &str) -> Finished {
        self.tried(words).expect_code(0)
    }

    /// The same, which may fail.
    pub fn tried(&self, words: &str) -> Finished {
        linkrate(&format!("{words} --name {}", self.name))
    }

    /// A program in a host.
    pub fn exec(&self, host: &str, words: &str) -> Command {
        command(LINKRATE, &format!("lab exec --name {} {host} -- {words}", self.name))
    }

    /// Runs a program in a host to its end.
    #[track_caller]
    pub fn run(&self, host: &str, words: &str) -> Finished {
        Running::start(&mut self.exec(host, words)).wait()
    }

    /// A program in a host that does nothing, and is there.
    #[track_caller]
    pub fn sleeper(&self, host: &str) -> Running {
        let sleeper = Running::start(&mut self.exec(host, "sleep 1000"));
        let name = || fs::read_to_string(format!("/proc/{}/comm", sleeper.pid()));
        let begun = || name().is_ok_and(|name| name == "sleep\n");
        assert!(wait_until(Duration::from_secs(10), begun), "no sleep in {host}");
        sleeper
    }

    /// What `adapter show` says of a port.
    #[track_caller]
    pub fn port(&self, port: &str) -> Value {
        self.linkrate(&format!("adapter show {port} --json")).json()["ports"][0].clone()
    }

    #[track_caller]
    pub fn counter(&self, port: &str, name: &str) -> u64 {
        let port = self.port(port);
        port["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {port}"))
    }

    /// Waits until traffic has flowed through the ports of the system under test since now.
    #[track_caller]
    pub fn await_traffic(&self) {
        let octets = || -> u64 {
            let document = self.linkrate("adapter show --json").json();
            let ports = document["ports"].as_array().expect("ports").iter();
            let count = |port: &Value, name: &str| port["counters"][name].as_u64().unwrap_or(0);
            ports.map(|port| count(port, "ifHCOutOctets") + count(port, "ifHCInOctets")).sum()
        };
        let before = octets();
        let flows = || octets() > before + (1 << 20);
        assert!(wait_until(Duration::from_secs(10), flows), "no traffic in {}", self.name);
    }

    /// An iperf3 server at the client, and a client of it in the system under test.
    pub fn iperf3(&self, options: &str) -> (Running, Running) {
        self.iperf3_with("client-0", CLIENT, options)
    }

    /// The same with the server at `host`, which has this address.
    pub fn iperf3_with(&self, host: &str, address: &str, options: &str) -> (Running, Running) {
        let server = Running::start(&mut self.exec(host, "iperf3 -s -1"));
        // port 5201, in the state TCP_LISTEN
        let listening = |line: &str| line.contains(":1451 ") && line.contains(" 0A ");
        let listens = || {
            let tables = self.run(host, "cat /proc/net/tcp /proc/net/tcp6").stdout;
            tables.lines().any(listening)
        };
        assert!(wait_until(Duration::from_secs(10), listens), "iperf3 does not listen");
        let words = format!("iperf3 -J -c {address} {options}");
        (server, Running::start(&mut self.exec("sut", &words)))
    }

    /// Takes it down; how the process that held it ended.
    #[track_caller]
    pub fn down(self) -> Finished {
        let down = self.linkrate("lab down --json").json();
        assert_eq!(down["down"], self.name.as_str());
        self.running.wait()
    }
}

/// Ends an iperf3 that has served its purpose. Bits per second of each of its whole intervals.
#[track_caller]
pub fn intervals(iperf3: Running) -> Vec<f64> {
    iperf3.signal(Signal::INT);
    let finished = iperf3.wait();
    let document = finished.json();
    assert!(
        document["error"].as_str().is_some_and(|error| error.contains("interrupt")),
        "{document}"
    );
    let intervals = document["intervals"].as_array().expect("intervals");
    let whole = &intervals[..intervals.len().saturating_sub(1)];
    assert!(!whole.is_empty(), "{document}");
    let rate = |interval: &Value| interval["sum"]["bits_per_second"].as_f64().expect("a rate");
    whole.iter().map(rate).collect()
}

/// Bits per second that arrived, and those of each interval.
#[track_caller]
pub fn rates(iperf3: Finished) -> (f64, Vec<f64>) {
    let document = iperf3.expect_code(0).json();
    let rate = |value: &Value| value["bits_per_second"].as_f64().expect("a rate");
    let intervals = document["intervals"].as_array().expect("intervals");
    let each = intervals.iter().map(|interval| rate(&interval["sum"])).collect();
    (rate(&document["end"]["sum_received"]), each)
}
