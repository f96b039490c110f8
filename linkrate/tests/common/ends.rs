//! What tests of servers and clients of other programs share.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::Value;

/// A port of the loopback interface that nothing listens on.
pub fn free_port() -> u16 {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    free.local_addr().expect("its address").port()
}

/// Whether two ends of a test of iperf3 with these options tell of the same number of octets, except for what is on its
/// way at the end.
#[track_caller]
pub fn agree(options: &str, here: &Value, there: &Value) {
    let [here, there] = [here, there].map(|octets| octets.as_f64().expect("octets"));
    // each end leaves the beginning out by a timer of its own
    let most = if options.contains("-O") { 0.02 } else { 0.005 };
    assert!((here / there - 1.0).abs() < most, "{options}: {here} and {there} octets");
    assert!(here > 0.0);
}
