//! Machines that are network namespaces of this one, on one switch: a controller and the nodes of a
//! fleet, each with an OpenSSH server.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::machines::Machine;
use super::processes::readable_by_all;
use super::ssh::{SSHD, TIMEOUT, make_keys};
use super::{Running, command, wait_until};

/// A fleet whose nodes are called `n0`, `n1`, ... at both layers.
#[derive(Debug)]
pub struct Cluster {
    /// Where the controller runs; the switch is one of its bridges.
    pub here: Machine,
    pub nodes: Vec<Machine>,
    _servers: Vec<Running>,
    directory: tempfile::TempDir,
}

fn address(node: usize) -> String {
    format!("198.51.100.{}", node + 1)
}

impl Cluster {
    /// Starts `count` nodes. Each has an interface `eth1`.
    #[track_caller]
    pub fn start(count: usize) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        let here = Machine::start();
        here.sh("ip link set lo up; ip link add switch type bridge; ip link set switch up
                 ip address add 198.51.100.250/24 dev switch");
        make_keys(directory.path(), &address(0));
        let at = |name: &str| directory.path().join(name).display().to_string();
        let host_key = fs::read_to_string(at("host.pub")).expect("read the key");
        let (mut known, mut hosts) = (String::new(), String::new());
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (node, address) = (Machine::start(), address(number));
            here.sh(&format!(
                "ip link add n{number} type veth peer name eth1 netns {}
                 ip link set n{number} master switch up",
                node.pid()
            ));
            node.sh(&format!(
                "ip link set lo up; ip link set eth1 up; ip address add {address}/24 dev eth1"
            ));
            let configuration =
                fs::read_to_string(at("sshd_config")).expect("read the configuration");
            // a server whose client is cut off ends its agents only if it asks for signs of life
            let own = configuration.replace(&self::address(0), &address)
                + "ClientAliveInterval 5\nClientAliveCountMax 2\n";
            fs::write(at(&format!("sshd_config_{number}")), own).expect("write the configuration");
            let mut sshd = Command::new("/bin/sh");
            let script = format!(
                "mount -t tmpfs none /run && mkdir /run/sshd && exec {SSHD} -D -e -f '{}'",
                at(&format!("sshd_config_{number}"))
            );
            node.on(sshd.args(["-ec", &script]));
            servers.push(Running::start(&mut sshd));
            write!(known, "{address} {host_key}").expect("a text");
            writeln!(hosts, "Host n{number}\n  HostName {address}").expect("a text");
            nodes.push(node);
        }
        fs::write(at("known"), known).expect("write the known hosts");
        let client = fs::read_to_string(at("ssh_config")).expect("read the configuration");
        fs::write(at("ssh_config"), hosts + &client).expect("write the configuration");
        fs::create_dir(at("bin")).expect("make a directory");
        let wrapper = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", at("ssh_config"));
        fs::write(at("bin/ssh"), wrapper).expect("write the wrapper");
        fs::set_permissions(at("bin/ssh"), fs::Permissions::from_mode(0o755)).expect("its mode");
        let cluster = Self { here, nodes, _servers: servers, directory };
        for number in 0..count {
            let answers = wait_until(TIMEOUT, || {
                let words = format!("-o BatchMode=yes n{number} true");
                let ssh = cluster.beside("bin/ssh");
                Running::start(&mut cluster.command(&ssh, &words)).wait().code() == Some(0)
            });
            assert!(answers, "the server of n{number} does not answer");
        }
        cluster
    }

    /// A command of the controller, whose `ssh` has the keys.
    pub fn command(&self, program: &Path, words: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = command(program, words);
        command.env("PATH", format!("{}:{path}", self.beside("bin").display()));
        self.here.on(&mut command);
        command
    }

    /// A place for files.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the list of nodes, with racks of two nodes each.
    pub fn list(&self) -> PathBuf {
        let line = |number| format!("n{number} ssh:n{number} eth1 rack=r{}\n", number / 2);
        let list: String = (0..self.nodes.len()).map(line).collect();
        fs::write(self.beside("hosts.txt"), list).expect("write the list");
        self.beside("hosts.txt")
    }

    /// Takes a node off the switch, so that nothing reaches it any more.
    pub fn unplug(&self, node: usize) {
        self.here.sh(&format!("ip link set n{node} down"));
    }

    /// Makes the link of a node as slow as that, both ways.
    pub fn limit(&self, node: usize, rate: &str) {
        let slow = |interface: &str| {
            format!(
                "tc qdisc replace dev {interface} root tbf rate {rate} burst 256kb latency 30ms"
            )
        };
        self.here.sh(&slow(&format!("n{node}")));
        self.nodes[node].sh(&slow("eth1"));
    }
}
