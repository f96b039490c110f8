//! Advice that is followed: in a network namespace of its own, what is badly tuned is found, and
//! running the very command that the doctor prints makes the finding go away.

use std::process::{Command, Stdio};

use crate::common::LINKRATE;
use crate::common::needs::{program, root};
use serde_json::Value;

/// A network namespace with a sysfs of its own, held by a process that sleeps in it.
struct Namespace(std::process::Child);

impl Namespace {
    /// Makes one in which `script` has run, if there is what it takes.
    fn with(script: &str) -> Result<Self, String> {
        root()?;
        ["ip", "ethtool", "nsenter"].into_iter().try_for_each(program)?;
        // `exec` keeps the process id, and with its end the namespace ends
        let hold =
            "mount -t sysfs sysfs /sys && ip link set dev lo up && echo ready && exec sleep 300";
        let mut child = Command::new("unshare")
            .args(["--net", "--mount", "--kill-child", "sh", "-c", hold])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut ready = [0; 6];
        let stdout = child.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(stdout, &mut ready).expect("the namespace is ready");
        let namespace = Self(child);
        namespace.run(script);
        Ok(namespace)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.0.id().to_string(), "--", program]);
        command
    }

    /// Runs a line of shell, which must succeed.
    #[track_caller]
    fn run(&self, script: &str) {
        let output = self.command("bash").args(["-ec", script]).output().expect("nsenter starts");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What the doctor finds.
    #[track_caller]
    fn advice(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self
            .command(LINKRATE)
            .args(["doctor", "tune", "--json"])
            .args(arguments)
            .output()
            .expect("nsenter starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(document["findings"], Value::Null);
        document["tuning"].as_array().expect("a list").clone()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // the only process of ours in it; it has nothing to lose
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The finding `name` about `interface`, if it asks for something.
fn asks<'a>(all: &'a [Value], name: &str, interface: &str) -> Option<&'a Value> {
    all.iter().find(|advice| {
        advice["name"] == name
            && advice["interface"] == interface
            && (advice["state"] == "improve" || advice["state"] == "consider")
    })
}

/// Runs the commands of the finding, which must then be gone.
#[track_caller]
fn followed(namespace: &Namespace, name: &str, interface: &str) -> Vec<String> {
    let all = namespace.advice(&[]);
    let advice = asks(&all, name, interface)
        .unwrap_or_else(|| panic!("no {name} of {interface} in {all:#?}"));
    let commands: Vec<String> = advice["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c.as_str().unwrap().to_owned())
        .collect();
    assert!(!commands.is_empty(), "{advice:#}");
    assert!(!advice["evidence"].as_array().unwrap().is_empty(), "{advice:#}");
    for command in &commands {
        namespace.run(command);
    }
    let after = namespace.advice(&[]);
    let left = asks(&after, name, interface);
    assert!(left.is_none(), "after {commands:?}: {left:#?}");
    commands
}

const PAIR: &str =
    "ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up";

#[test]
fn segmentation_that_was_switched_off_is_switched_on_by_the_printed_command() {
    let namespace = or_skip!(Namespace::with(PAIR));
    assert!(asks(&namespace.advice(&[]), "tso", "v0").is_none(), "a fresh veth has it on");
    namespace.run("ethtool -K v0 tso off");
    assert!(asks(&namespace.advice(&[]), "tso", "v1").is_none(), "only v0 was changed");
    assert_eq!(followed(&namespace, "tso", "v0"), ["ethtool -K v0 tso on"]);
}

#[test]
fn checksum_and_dependent_offloads_are_enabled_together() {
    let namespace = or_skip!(Namespace::with(PAIR));
    // the kernel takes TSO away with it
    namespace.run("ethtool -K v0 tx off");
    let command = followed(&namespace, "tso", "v0");
    assert_eq!(command, ["ethtool -K v0 tx on tso on"]);
    let all = namespace.advice(&["--interface", "v0"]);
    assert!(asks(&all, "tx-checksum", "v0").is_none(), "{all:#?}");
}

#[test]
fn the_printed_command_allows_superframes_again() {
    let namespace = or_skip!(Namespace::with(PAIR));
    namespace.run("ip link set dev v0 gso_max_segs 1");
    followed(&namespace, "superframes", "v0");
}

#[test]
fn finds_and_repairs_different_mtus_of_a_pair_and_a_bridge() {
    let script = format!(
        "{PAIR} && ip link set v0 mtu 9000 && ip link add br0 type bridge && ip link set br0 up && \
         ip link add w0 type veth peer name w1 && ip link set w0 up && ip link set w1 up && \
         ip link add x0 type veth peer name x1 && ip link set x0 up && ip link set x1 up && \
         ip link set w0 mtu 4000 && ip link set w1 mtu 4000 && \
         ip link set w0 master br0 && ip link set x0 master br0"
    );
    let namespace = or_skip!(Namespace::with(&script));
    assert_eq!(followed(&namespace, "mtu", "v0"), ["ip link set dev v1 mtu 9000"]);
    assert_eq!(followed(&namespace, "mtu", "br0"), ["ip link set dev x0 mtu 4000"]);
}

#[test]
fn finds_routes_and_paths_with_a_smaller_mtu() {
    let script = format!(
        "{PAIR} && ip addr add 192.0.2.1/24 dev v0 && ip route add 198.51.100.0/24 dev v0 mtu 1200"
    );
    let namespace = or_skip!(Namespace::with(&script));
    let all = namespace.advice(&[]);
    let route = asks(&all, "route-mtu", "v0").unwrap_or_else(|| panic!("not in {all:#?}"));
    assert!(route["detail"].as_str().unwrap().contains("198.51.100.0/24 mtu 1200"), "{route:#}");
    namespace.run("ip route del 198.51.100.0/24");
    assert!(asks(&namespace.advice(&[]), "route-mtu", "v0").is_none());
}

#[test]
fn finds_a_learned_path_mtu_and_the_printed_command_clears_it() {
    let router = or_skip!(Namespace::with("true"));
    let script = format!(
        "ip link add v0 type veth peer name v1 netns {} && ip link set v0 up && \
         ip addr add 192.0.2.1/24 dev v0",
        router.0.id()
    );
    let host = or_skip!(Namespace::with(&script));
    // what is behind it takes 1200 bytes, and the router says so to who sends more
    router.run(
        "ip link set v1 up && ip addr add 192.0.2.2/24 dev v1 && \
         ip link add w0 type veth peer name w1 && ip link set w0 mtu 1200 up && ip link set w1 up && \
         ip addr add 198.51.100.1/24 dev w0 && echo 1 > /proc/sys/net/ipv4/ip_forward",
    );
    host.run("ip route add default via 192.0.2.2");
    host.run(
        "for try in 1 2 3; do head -c 1400 /dev/zero > /dev/udp/198.51.100.9/9; sleep 0.2; done",
    );
    assert_eq!(followed(&host, "path-mtu", "v0"), ["ip route flush cache"]);
}

#[test]
fn quotes_a_hostile_interface_name_for_the_shell() {
    let script = "ip link add 'a;touch$x' type veth peer name v1 && ip link set 'a;touch$x' up && \
                  ethtool -K 'a;touch$x' tso off";
    let namespace = or_skip!(Namespace::with(script));
    assert_eq!(followed(&namespace, "tso", "a;touch$x"), ["ethtool -K 'a;touch$x' tso on"]);
}

#[test]
fn names_facts_that_are_hidden_without_an_adapter_or_sysfs() {
    let namespace = or_skip!(Namespace::with(PAIR));
    let unseen = |all: &[Value], name: &str| {
        all.iter().any(|advice| advice["name"] == name && advice["state"] == "unseen")
    };
    let all = namespace.advice(&[]);
    assert!(unseen(&all, "adapter") && !unseen(&all, "interfaces"), "{all:#?}");
    // the network of one namespace, the sysfs of another
    namespace.run("umount /sys");
    let all = namespace.advice(&[]);
    assert!(unseen(&all, "interfaces"), "{all:#?}");
    assert!(all.iter().all(|advice| advice["interface"] != "eth0"), "not ours: {all:#?}");
    namespace.run("ethtool -K v0 tso off");
    followed(&namespace, "tso", "v0");
}
