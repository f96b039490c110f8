//! Two hosts with a cable, on the first of which programs run that know netperf and iperf3 by their names alone. Each
//! pair has all ports to itself, so that command lines of other projects run with the ports that they name.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::ends::listening_ports;
use super::machines::Machine;
use super::{LINKRATE, Running, command, wait_until};

/// The address of each host.
pub const HERE: &str = "192.0.2.1";
pub const THERE: &str = "192.0.2.2";

/// The names under which linkrate takes the options of others.
const NAMES: [&str; 2] = ["netperf", "iperf3"];

/// The two hosts, `eth1` at both ends of the cable.
#[derive(Debug)]
pub struct Cable {
    pub here: Machine,
    pub there: Machine,
    programs: tempfile::TempDir,
}

impl Cable {
    #[track_caller]
    pub fn start() -> Self {
        let (here, there) = (Machine::start(), Machine::start());
        here.sh(&format!("ip link add eth1 type veth peer name eth1 netns {}", there.pid()));
        for (machine, address) in [(&here, HERE), (&there, THERE)] {
            machine.sh(&format!(
                "ip link set lo up
                 ip address add {address}/24 dev eth1
                 ip link set eth1 up"
            ));
        }
        let programs = tempfile::tempdir().expect("a directory");
        for name in NAMES {
            symlink(LINKRATE, programs.path().join(name)).expect("a link");
        }
        Self { here, there, programs }
    }

    /// A file of the first host.
    pub fn file(&self, name: &str) -> String {
        self.programs.path().join(name).display().to_string()
    }

    /// linkrate on the second host, once it listens at this port.
    #[track_caller]
    pub fn there(&self, words: &str, port: u16) -> Running {
        self.server(LINKRATE, words, port)
    }

    /// Another program there.
    #[track_caller]
    pub fn server(&self, program: &str, words: &str, port: u16) -> Running {
        let mut server = command(program, words);
        self.there.on(&mut server);
        let running = Running::start(&mut server);
        let tables = "cat /proc/net/tcp; cat /proc/net/tcp6 2> /dev/null || true";
        let listens = || listening_ports(&self.there.sh(tables)).contains(&port);
        assert!(wait_until(Duration::from_secs(10), listens), "{words}: nothing listens");
        running
    }

    /// A script of the first host, for which netperf and iperf3 are linkrate.
    pub fn run(&self, script: &str) -> Running {
        let own = self.programs.path().as_os_str();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path: OsString = [own, ":".as_ref(), &path].into_iter().collect();
        let mut shell = command("sh", "-c");
        shell.arg(script).env("PATH", path);
        self.here.on(&mut shell);
        Running::start(&mut shell)
    }

    /// What it prints, if it succeeds.
    #[track_caller]
    pub fn printed(&self, script: &str) -> String {
        self.run(script).wait().expect_code(0).stdout
    }
}
