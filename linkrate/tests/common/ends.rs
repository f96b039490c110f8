//! What tests of servers and clients of other programs share.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{LINKRATE, Running, command, wait_until};

/// A port of the loopback interface that nothing listens on, and no other test takes: below those that the kernel
/// gives to clients, and by process.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    const EACH: u32 = 64;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * EACH + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + number % COUNT).expect("below 32,768");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// `linkrate serve` for the clients of one program, on a free port of the loopback interface.
#[derive(Debug)]
pub struct Served {
    running: Running,
    pub port: u16,
}

impl Served {
    /// The server for clients of `program`, once it listens.
    #[track_caller]
    pub fn start(program: &str, options: &str) -> Self {
        let port = free_port();
        let words = format!("serve --programs {program} --{program}-port {port} {options}");
        let running = Running::start(&mut command(LINKRATE, &words));
        await_listener(port);
        Self { running, port }
    }

    /// Ends it, and returns its lines.
    #[track_caller]
    pub fn end(self) -> Vec<Value> {
        self.running.signal(Signal::INT);
        let finished = self.running.wait().expect_code(0);
        assert!(finished.stderr.contains("listening on "), "{}", finished.stderr);
        let lines = finished.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

/// Waits until a program of this host listens on a TCP port. It is not connected to: to many servers that would be a
/// test.
#[track_caller]
pub fn await_listener(port: u16) {
    let found = wait_until(Duration::from_secs(10), || sockets_at(port, LISTEN) > 0);
    assert!(found, "nothing listens on port {port}");
}

/// Waits until a server of this host has so many open connections at its TCP port.
#[track_caller]
pub fn await_connections(port: u16, count: usize) {
    let found = wait_until(Duration::from_secs(10), || sockets_at(port, ESTABLISHED) >= count);
    assert!(found, "port {port} has {} connections, not {count}", sockets_at(port, ESTABLISHED));
}

/// TCP_ESTABLISHED and TCP_LISTEN, include/net/tcp_states.h.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// The sockets of this host with that local TCP port in that state.
fn sockets_at(port: u16, state: &str) -> usize {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let of_table =
        |table: &String| ports_in(table, state).iter().filter(|one| **one == port).count();
    tables.iter().flatten().map(of_table).sum()
}

/// The ports on which programs listen, from the text of `/proc/net/tcp` or `/proc/net/tcp6`.
#[track_caller]
pub fn listening_ports(table: &str) -> Vec<u16> {
    ports_in(table, LISTEN)
}

/// The local ports of open connections, from the same text.
#[track_caller]
pub fn connected_ports(table: &str) -> Vec<u16> {
    ports_in(table, ESTABLISHED)
}

/// The local ports of the sockets in that state.
fn ports_in(table: &str, state: &str) -> Vec<u16> {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_state = rows.filter(|row| row.get(3) == Some(&state));
    let ports = of_state.filter_map(|row| Some(row[1].rsplit_once(':')?.1.to_owned()));
    ports.map(|port| u16::from_str_radix(&port, 16).expect("a port")).collect()
}

/// Whether two ends of a test of iperf3 with these options report on the same number of octets, except for what
/// the sender continues with until it has the CPU to hear of the end: 60 ms of 2 s.
#[track_caller]
pub fn agree(options: &str, here: &Value, there: &Value) {
    let [here, there] = [here, there].map(|octets| octets.as_f64().expect("octets"));
    let most = 0.03;
    assert!((here / there - 1.0).abs() < most, "{options}: {here} and {there} octets");
    assert!(here > 0.0);
}
