//! Standard error that nobody reads, a terminal that goes away, and signals: a study and a
//! measurement end in order or continue, and nothing is left behind.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::processes::OwnCopy;
use crate::common::small::{SmallStudy, planned, stored};
use crate::common::{RUNS_FAILED, Running, command, kill, wait_until};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Waits for the end of a command whose output is not collected.
#[track_caller]
fn code_of(mut child: Child) -> Option<i32> {
    let limit = Duration::from_secs(60);
    let ended = wait_until(limit, || child.try_wait().expect("a child").is_some());
    if !ended {
        kill(child.id(), Signal::KILL);
    }
    let status = child.wait().expect("a child");
    assert!(ended, "it hangs");
    status.code()
}

/// Kills a client in the middle of a study, so that a warning is due, while standard error is the
/// given end of a pipe.
#[track_caller]
fn warned_at(study: &SmallStudy, stderr: OwnedFd) {
    let mut run = study.run();
    let child = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let child = child.spawn().expect("start it");
    // the command keeps its copy of the descriptor
    drop(run);
    study.await_runs(2);
    kill(study.own.await_traffic(2)[1], Signal::KILL);
    // a run has failed, and every other was made
    assert_eq!(code_of(child), Some(RUNS_FAILED));
    assert_eq!(study.slots(), planned(&study.results()));
    assert!(stored(&study.results()).iter().any(|run| run.failure().is_some()));
    study.own.expect_nothing_left();
}

#[test]
fn a_study_outlives_a_terminal_that_nobody_reads() {
    needs!(root);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("its rights");
    unlockpt(&master).expect("its lock");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let open = |more: OFlags| {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | more;
        rustix::fs::open(&name, flags, Mode::empty()).expect("open the terminal")
    };
    let filler = open(OFlags::NONBLOCK);
    while rustix::io::write(&filler, &[b'x'; 256]).is_ok() {}
    warned_at(&SmallStudy::new(), open(OFlags::empty()));
}

#[test]
fn a_study_outlives_the_reader_of_its_standard_error() {
    needs!(root);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    warned_at(&SmallStudy::new(), writer.into());
}

#[test]
#[ignore = "exhaustive: another output that nobody reads"]
fn a_study_outlives_a_standard_error_that_nobody_reads() {
    needs!(root);
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("do not block");
    while std::io::Write::write(&mut writer, &[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("block");
    warned_at(&SmallStudy::new(), writer.into());
}

/// The same as nohup(1) starts it.
fn under_nohup(run: &Command) -> Command {
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(run.get_program());
    nohup.args(run.get_args());
    nohup
}

#[test]
#[ignore = "exhaustive: another signal"]
fn a_hang_up_that_was_ignored_stays_ignored() {
    needs!(root);
    let study = SmallStudy::new();
    let running = Running::start(&mut under_nohup(&study.run()));
    study.await_runs(2);
    running.signal(Signal::HUP);
    running.wait().expect_end();
    assert_eq!(study.slots(), planned(&study.results()));
    study.own.expect_nothing_left();
}

#[test]
fn a_study_ends_in_order_on_each_signal() {
    needs!(root);
    for signal in [Signal::HUP, Signal::TERM] {
        let study = SmallStudy::new();
        let running = Running::start(&mut study.run());
        study.await_runs(2);
        running.signal(signal);
        let finished = running.wait().expect_code(128 + signal.as_raw());
        assert_eq!(finished.json()["complete"], false, "{signal:?}");
        assert!(finished.stderr.contains("hint: linkrate resume"), "{}", finished.stderr);
        study.own.expect_nothing_left();
    }
    // SIGPIPE is a write that fails, and never an end
    let study = SmallStudy::new();
    let running = Running::start(&mut study.run());
    study.await_runs(2);
    running.signal(Signal::PIPE);
    running.wait().expect_end();
    assert_eq!(study.slots(), planned(&study.results()));
}

#[test]
fn a_measurement_ends_in_order_on_each_signal() {
    needs!(root);
    let own = OwnCopy::new();
    let words =
        "measure --json --purpose functions --runs 8 --time 300ms --warm-up 0s --adapter veth";
    for signal in [Signal::HUP, Signal::TERM, Signal::PIPE] {
        let running = Running::start(&mut command(own.program(), words));
        own.await_traffic(2);
        running.signal(signal);
        let finished = running.wait();
        finished.json();
        match signal {
            Signal::PIPE => _ = finished.expect_end(),
            _ => assert_eq!(finished.code(), Some(128 + signal.as_raw()), "{}", finished.stderr),
        }
        own.expect_nothing_left();
    }
    let running = Running::start(&mut under_nohup(&command(own.program(), words)));
    own.await_traffic(2);
    running.signal(Signal::HUP);
    running.wait().expect_end();
    own.expect_nothing_left();
    // a reader that leaves is no failure of a measurement
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut measure = command(own.program(), words);
    let child = measure.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn();
    assert!(matches!(code_of(child.expect("start it")), Some(0 | RUNS_FAILED)));
    own.expect_nothing_left();
}
