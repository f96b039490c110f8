//! As many real agents as a testbed may have clients, with traffic between all of them and the system
//! under test.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::processes::OwnCopy;
use crate::common::{Running, command};

/// Clients of the testbed: the most that there may be.
const CLIENTS: usize = 64;

/// The most memory of the controller for each agent, beside that of the program itself.
const MEMORY: u64 = 100 << 10;

/// The most memory of the program itself.
const PROGRAM: u64 = 48 << 20;

/// The longest time from the command to its end, on a machine with two CPUs.
const TIMEOUT: Duration = Duration::from_secs(40);

#[test]
#[ignore = "exhaustive: 64 agents"]
fn sixty_four_agents_in_namespaces_carry_traffic_at_once() {
    needs!(root);
    let own = OwnCopy::new();
    let begun = Instant::now();
    let words = format!(
        "measure --json --purpose functions --adapter veth --clients {CLIENTS} --runs 1 --time 1s"
    );
    let running = Running::start(&mut command(own.program(), &words));
    own.await_traffic(CLIENTS + 1);
    let up = begun.elapsed();
    let memory = most_memory(running.pid());
    let document = running.wait().expect_code(0).json();
    let took = begun.elapsed();
    println!(
        "{CLIENTS} clients: traffic after {up:.1?}, {took:.1?} in all, controller {memory} octets"
    );
    let throughput = document["cells"][0]["throughput"]["mean"].as_f64().expect("a throughput");
    assert!(throughput > 1e6, "{throughput}");
    assert_eq!(document["failures"], serde_json::Value::Array(Vec::new()));
    assert!(memory <= PROGRAM + CLIENTS as u64 * MEMORY, "{memory} octets");
    assert!(took < TIMEOUT, "{took:?}");
    own.expect_nothing_left();
}

/// The most memory that a process has had, octets: `VmHWM` of proc_pid_status(5), which is in KiB.
fn most_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}
