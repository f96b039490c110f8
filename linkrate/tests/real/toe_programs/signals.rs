//! Programs under signals, and with threads that cannot stop, whose connections move; and options that need
//! privileges.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::common::up::CLIENT;
use super::common::{LINKRATE, Running, command, kill};
use super::{BYTES, Teller, far, lab, moves, port, program, stream};

#[test]
fn a_program_under_signals_moves_and_loses_nothing() {
    moves_under_signals(20, 60_000_000);
}

#[test]
#[ignore = "exhaustive: 500 moves instead of 20"]
fn a_program_under_signals_moves_500_times_and_loses_nothing() {
    moves_under_signals(500, 1_000_000_000);
}

/// Signals of another program to one that moves, and the time between two, µs.
const SIGNALS: u32 = 8000;
const SIGNAL_INTERVAL_US: u32 = 200;

/// A program under timers, preemption, nested handlers and signals of another program, with a thread that starts
/// programs, moves so often while it carries so many bytes.
fn moves_under_signals(count: u64, bytes: u64) {
    needs!(root, "c++");
    let lab = lab("off");
    let port = port();
    // a peer that is faster would fill the queues
    let words = format!("{} far {port} {bytes} 0", stream().display());
    let mut far = Teller::start(lab.exec("client-0", &words).env("STREAM_WAY", "slow"));
    assert_eq!(far.line(), "listens");
    let mut near = program(&lab, "sut", &format!("connect signals {CLIENT} {port} {bytes}"));
    let connected = near.line();
    let descriptor = connected.strip_prefix("connected ").expect("connected");
    let pid = near.child.id();
    // the handlers are there by then
    std::thread::sleep(Duration::from_millis(300));
    let words = format!("signal {pid} {SIGNALS} {SIGNAL_INTERVAL_US}");
    let signals = Teller::start(Command::new(stream()).args(words.split(' ')));
    let (mut tried, mut down) = (0, 0);
    while down * 2 < count {
        tried += 1;
        let said = lab.tried(&format!("adapter toe offload {pid}:{descriptor}"));
        if said.code() == Some(0) {
            down += 1;
        } else {
            // a child that has not executed its program yet, also at the return before
            let is_shared =
                said.stderr.contains("have the socket") || said.stderr.contains("already");
            assert!(is_shared && tried < count * 2, "{tried}: {}", said.stderr);
        }
        lab.linkrate("adapter set eth0 toe=off");
    }
    let up = moves(&lab, "up.toe-off");
    let sent = signals.expect_whole("signals");
    // the rest goes fast
    for pid in [pid, far.child.id()] {
        kill(pid, Signal::USR2);
    }
    let said = near.expect_whole("near");
    far.expect_whole("far");
    let number = |said: &str, before: &str| -> u32 {
        let line = said.lines().find_map(|line| line.strip_prefix(before));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    };
    assert_eq!(number(&said, "signals "), number(&sent, "sent "), "{said} {sent}");
    assert!(said.contains("whole, state 1"), "{said}");
    assert_eq!(lab.counter("eth0", "toeHostSegments"), 0);
    assert!(up + 1 >= down, "{up} of {down} have returned");
    println!("{} moves, {} refused", down + up, tried - down);
    lab.down().expect_code(0);
}

/// A thread of a program in vfork cannot stop. The others go on meanwhile, its child has its calls answered, and a move
/// that waits for it comes about.
#[test]
#[ignore = "exhaustive: another state of a program"]
fn a_program_with_a_thread_in_vfork_goes_on_and_moves_afterwards() {
    needs!(root, "c++");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("start mkfifo").success());
    let lab = lab("off");
    let port = port();
    let far = far(&lab, port, BYTES, 6000);
    let words = format!("{} connect spawn {CLIENT} {port} {BYTES}", stream().display());
    let mut near = Teller::start(lab.exec("sut", &words).env("STREAM_FIFO", &fifo));
    let connected = near.line();
    let descriptor = connected.strip_prefix("connected ").expect("connected");
    std::thread::sleep(Duration::from_millis(300));
    let offload = format!("adapter toe offload {}:{descriptor}", near.child.id());
    let said = lab.tried(&offload).expect_code(1).stderr;
    assert!(said.contains("a thread waits in vfork until its child executes a program"), "{said}");
    let mut offload = command(LINKRATE, &format!("{offload} --name {}", lab.name));
    let waiting = Running::start(&mut offload);
    std::thread::sleep(Duration::from_millis(300));
    drop(fs::File::options().write(true).open(&fifo).expect("open the FIFO"));
    waiting.wait().expect_code(0);
    let spawned = near.line();
    let longest = spawned.strip_prefix("spawned ").and_then(|ms| ms.parse::<u64>().ok());
    assert!(longest.is_some_and(|ms| ms < 500), "{spawned}");
    near.expect_whole("near");
    far.expect_whole("far");
    assert_eq!(moves(&lab, "down"), 1);
    lab.down().expect_code(0);
}

#[test]
fn no_privilege_of_the_lab_is_lent_to_a_program() {
    needs!(root, "c++", "setpriv");
    let lab = lab("on");
    for user in ["--reuid 0", "--reuid 65534 --regid 65534 --clear-groups"] {
        let port = port();
        let far = far(&lab, port, BYTES, 0);
        let stream = stream().display();
        let words = format!("setpriv {user} {stream} connect block {CLIENT} {port} {BYTES}");
        let near = Teller::start(lab.exec("sut", &words).env("STREAM_ASKS_MORE", "1"));
        near.expect_whole(user);
        far.expect_whole(user);
    }
    lab.down().expect_code(0);
}
