//! An agent as the peer of a connection sees it.

use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use linkrate_protocol::framing::read_frame;
use linkrate_protocol::{HELLO_NUMBER, Reply, decode_reply, write_message};

use super::{LINKRATE, command, wait_until};

/// An agent over plain pipes, as `ssh` would carry it.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    requests: Option<ChildStdin>,
    replies: Receiver<(u64, Reply)>,
    /// The number of the latest request.
    asked: u64,
}

impl Agent {
    /// Starts one as ssh does.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts one with more options.
    pub fn start_with(options: &str) -> Self {
        let mut child = command(LINKRATE, &format!("agent --stdio {options}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the program");
        let requests = child.stdin.take();
        let mut stdout = child.stdout.take().expect("stdout is a pipe");
        let (sender, replies) = channel();
        std::thread::spawn(move || {
            while let Ok(Some(frame)) = read_frame(&mut stdout) {
                if sender.send(decode_reply(&frame).expect("a reply")).is_err() {
                    return;
                }
            }
        });
        Self { child, requests, replies, asked: HELLO_NUMBER }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.requests.as_mut().expect("its input is open").write_all(bytes).expect("it reads");
    }

    /// What it answers; a test in which it does not answer fails rather than hangs.
    #[track_caller]
    pub fn answer(&mut self) -> Reply {
        self.replies.recv_timeout(Duration::from_secs(20)).expect("an answer").1
    }

    /// Sends it a message and waits for its answer.
    #[track_caller]
    pub fn ask(&mut self, message: &impl serde::Serialize) -> Reply {
        let value = serde_json::to_value(message).expect("a message is JSON");
        let number = if value.get("hello").is_some() {
            HELLO_NUMBER
        } else {
            self.asked += 1;
            self.asked
        };
        let requests = self.requests.as_mut().expect("its input is open");
        write_message(requests, number, &value).expect("it reads");
        let (answered, reply) =
            self.replies.recv_timeout(Duration::from_secs(20)).expect("an answer");
        assert_eq!(answered, number, "{reply:?}");
        reply
    }

    /// Sends it a message and does not wait.
    pub fn post(&mut self, message: &impl serde::Serialize) {
        self.asked += 1;
        let requests = self.requests.as_mut().expect("its input is open");
        write_message(requests, self.asked, message).expect("it reads");
    }

    /// Its exit code, once it has ended by itself within `limit`.
    #[track_caller]
    pub fn ended(mut self, limit: Duration) -> Option<i32> {
        let ended = wait_until(limit, || {
            self.child.try_wait().expect("the child is this process's own").is_some()
        });
        // it must not outlive the test either way
        let _ = self.child.kill();
        let status = self.child.wait().expect("the child is this process's own");
        assert!(ended, "the agent hangs");
        status.code()
    }

    /// Why it refuses a message, which it must.
    #[track_caller]
    pub fn refuses(&mut self, message: &impl serde::Serialize) -> String {
        match self.ask(message) {
            Reply::Refused(refusal) => refusal.reason,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Ends its input; its exit code and what it said on standard error.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String) {
        self.requests = None;
        let ended = wait_until(Duration::from_secs(20), || {
            self.child.try_wait().expect("the child is this process's own").is_some()
        });
        // it must not outlive the test either way
        let _ = self.child.kill();
        assert!(ended, "the agent hangs");
        let output = self.child.wait_with_output().expect("read its output");
        (output.status.code(), String::from_utf8(output.stderr).expect("its words are text"))
    }
}
