//! What tests need of the machine.

use std::path::Path;
use std::process::{Command, Stdio};

use linkrate_model::CpuSet;
use linkrate_sys::sched;
use rustix::process::geteuid;

use super::slurm::DAEMONS;
use super::ssh::SSHD;
use crate::skip::skip;

/// Ends the test, which says why, unless the machine has all of this: programs by their names, and what functions of
/// this module look for. It is what the last one has found.
macro_rules! needs {
    ($program:literal) => {
        or_skip!($crate::common::needs::program($program))
    };
    ($need:ident) => {
        or_skip!($crate::common::needs::$need())
    };
    ($first:tt, $($more:tt),+) => {{
        needs!($first);
        needs!($($more),+)
    }};
}

/// What is there, or what to do about it.
type Found<T = ()> = Result<T, String>;

fn is(there: bool, otherwise: &str) -> Found {
    if there { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// What the tests with privilege need.
pub fn root() -> Found {
    is(geteuid().is_root(), "needs root; run the tests as root")
}

pub fn program(program: &str) -> Found {
    let started = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    match started {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{program} is not installed; apt-get install {}", package(program))),
    }
}

/// Whether a part of a test has its program; says so if not.
pub fn has_or_skips(program: &str) -> bool {
    self::program(program).inspect_err(|reason| skip(reason)).is_ok()
}

/// The Debian package that has a program.
fn package(program: &str) -> &str {
    match program {
        "c++" => "g++",
        "dumpcap" => "tshark",
        "ip" | "tc" => "iproute2",
        "netserver" => "netperf",
        "nft" => "nftables",
        "nsenter" | "setpriv" | "taskset" | "unshare" => "util-linux",
        "ovs-vswitchd" => "openvswitch-switch",
        "ping" => "iputils-ping",
        "renice" => "bsdutils",
        "strip" => "binutils",
        "/usr/bin/ssh" => "openssh-client",
        SSHD => "openssh-server",
        _ => program,
    }
}

/// OpenSSH, client and server.
pub fn ssh() -> Found {
    ["/usr/bin/ssh", SSHD].into_iter().try_for_each(program)
}

/// What a cluster is made of.
pub fn slurm() -> Found {
    match DAEMONS.into_iter().find(|daemon| !Path::new(daemon).exists()) {
        Some(daemon) => Err(format!("{daemon} is not installed; apt-get install slurm-wlm munge")),
        None => Ok(()),
    }
}

pub fn ipv6() -> Found {
    is(Path::new("/proc/net/if_inet6").exists(), "the kernel has no IPv6")
}

/// Two CPUs of this machine, one for each side.
pub fn two_cpus() -> Found<[u32; 2]> {
    let cpus: CpuSet = sched::affinity(sched::current_thread()).unwrap_or_default();
    let cpus: Vec<u32> = cpus.iter().take(2).collect();
    cpus.try_into().map_err(|_| "needs two CPUs".to_owned())
}
