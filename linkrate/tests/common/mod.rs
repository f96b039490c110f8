//! What the integration tests share: running the program under a hang guard, finding the hosts it
//! started, and saying visibly what could not be tested.

#![allow(dead_code, unused_macros, reason = "every test binary uses a part of it")]

pub mod agent;
pub mod cable;
pub mod capture;
pub mod ends;
pub mod fleet;
pub mod flent;
pub mod keys;
pub mod lab;
pub mod machines;
#[macro_use]
pub mod needs;
pub mod processes;
pub mod schema;
pub mod simulated;
pub mod slurm;
pub mod small;
pub mod ssh;
pub mod up;
pub mod web;

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use linkrate_stats::simulate::times;
use linkrate_sys::host::network_namespace_of;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

pub use crate::skip::skip;

/// The program under test.
pub const LINKRATE: &str = env!("CARGO_BIN_EXE_linkrate");

/// What the mean size of packets may be off by: the kernel's counts of octets and of packets are in two
/// files, which are read one after the other.
pub const READ_IN_TURN: f64 = 1.005;

/// What a command exits with of which a run has failed.
pub const RUNS_FAILED: i32 = 4;

/// No command of these tests takes half as long on the slowest machine; one that does hangs.
const HANG: Duration = Duration::from_secs(120);

/// Moves this thread into the network namespace of process `pid`.
#[track_caller]
pub fn enter_namespace(pid: u32) {
    let namespace = network_namespace_of(pid).expect("open the namespace");
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), kind).expect("enter the namespace");
}

/// What a command left.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit code, unless a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The number of the signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The same, which must have ended with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        // the reason comes first: a log may be cut
        assert_eq!(self.code(), Some(code), "{}\n{}", self.stderr, self.stdout);
        self
    }

    /// The same, which must have run to its end. What else uses this machine may have failed runs.
    #[track_caller]
    pub fn expect_end(&self) -> &Self {
        let is_end = matches!(self.code(), Some(0 | RUNS_FAILED));
        assert!(is_end, "{:?}: {}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// Standard error of a command that is refused as wrong, with nothing on standard output.
    #[track_caller]
    pub fn refusal(self) -> String {
        let finished = self.expect_code(2);
        assert_eq!(finished.stdout, "");
        finished.stderr
    }

    /// The one JSON document on standard output; anything beside it fails the test.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// A command under way; killed when the test is done with it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    // locked, so that several threads may share what runs
    stdout: Mutex<Receiver<Vec<u8>>>,
    stderr: Mutex<Receiver<Vec<u8>>>,
}

impl Running {
    /// Starts `command` with nothing on its standard input.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // a file that this process has just written is busy while the child of another thread, between fork and
        // exec, still holds it
        let mut spawned = command.spawn();
        wait_until(HANG, || {
            let is_busy =
                matches!(&spawned, Err(error) if error.kind() == ErrorKind::ExecutableFileBusy);
            if is_busy {
                spawned = command.spawn();
            }
            !is_busy
        });
        let mut child = spawned.unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Self {
            child,
            stdout: collect(stdout.expect("stdout is a pipe")).into(),
            stderr: collect(stderr.expect("stderr is a pipe")).into(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits for its end, and for that of all who hold its output.
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        let deadline = Instant::now() + HANG;
        let status = loop {
            match self.child.try_wait().expect("the child is this process's own") {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("process {} hangs", self.pid()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let text = |receiver: &Mutex<Receiver<Vec<u8>>>| {
            let left = deadline.saturating_duration_since(Instant::now());
            let receiver = receiver.lock().expect("nothing panics while it is locked");
            let bytes = receiver.recv_timeout(left).expect("somebody still holds its output");
            String::from_utf8(bytes).expect("its output is text")
        };
        Finished { status, stdout: text(&self.stdout), stderr: text(&self.stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // both fail for a process that has been waited for
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, mut bytes) = (stream, Vec::new());
        // what was read before an error is what there is
        let _ = stream.read_to_end(&mut bytes);
        // a test that has failed no longer listens
        let _ = sender.send(bytes);
    });
    receiver
}

/// Sends a signal; the process may be gone already.
pub fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// A command line: words are split at spaces, so arguments with spaces are added by the caller.
pub fn command(program: impl AsRef<Path>, words: &str) -> Command {
    let mut command = Command::new(program.as_ref());
    // a terminal's width or colours would be in the output
    command.env_remove("COLUMNS").env("NO_COLOR", "1").args(words.split_whitespace());
    command
}

/// Runs linkrate to its end.
#[track_caller]
pub fn linkrate(words: &str) -> Finished {
    linkrate_with(words, &[])
}

/// Standard output of a command that succeeds without a word on standard error.
#[track_caller]
pub fn printed(words: &str) -> String {
    let finished = linkrate(words).expect_code(0);
    assert_eq!(finished.stderr, "", "{words}");
    finished.stdout
}

/// Runs linkrate with further arguments that may have spaces in them.
#[track_caller]
pub fn linkrate_with(words: &str, more: &[&str]) -> Finished {
    Running::start(command(LINKRATE, words).args(more)).wait()
}

/// tshark that reads a capture.
fn reader(file: &Path) -> Command {
    let mut tshark = Command::new("tshark");
    // it takes payload of iperf3 for Thrift, and is slow then
    tshark.args(["--disable-protocol", "thrift"]).arg("-r").arg(file);
    tshark
}

/// The given fields of the frames of a capture that match a filter of tshark: a line for each frame,
/// with tabs between fields.
#[track_caller]
pub fn tshark(file: &Path, filter: &str, fields: &[&str]) -> String {
    let mut tshark = reader(file);
    tshark.args(["-Y", filter, "-T", "fields"]);
    fields.iter().for_each(|field| _ = tshark.args(["-e", field]));
    Running::start(&mut tshark).wait().expect_code(0).stdout
}

/// Tries all cases, `width` at a time: for those that mostly wait.
pub fn at_once<T: Sync>(width: usize, cases: &[T], try_one: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..width {
            // a panic of a thread is one of the scope
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_one(case);
                }
            });
        }
    });
}

/// Cases of a table: the first `usual` ones in the usual run, all in an exhaustive one (`cargo xtask test --all`).
pub fn cases<T>(all: &[T], usual: usize) -> &[T] {
    &all[..times(usual as u32, all.len() as u32) as usize]
}

/// Waits until `condition` holds; false when it does not in `limit`.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    // a look may start a program, which takes the CPU from what is waited for
    let mut pause = Duration::from_millis(10);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    true
}
