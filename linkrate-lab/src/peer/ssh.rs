//! The way to another machine through `ssh`.
//!
//! `ssh` only carries the protocol. linkrate passes [`OPTIONS`]; the user's own configuration of
//! `ssh` decides who may log in and how.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use linkrate_model::interfaces::PEER_SERVER;
use linkrate_model::shell;

use super::remote::Transport;
use crate::connection;
use crate::options::LabOptions;

/// No terminal, no questions, no forwarding; hosts that no longer answer are given up.
const OPTIONS: [&str; 11] = [
    "-T",
    "-a",
    "-x",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
];

/// Exit code of `ssh` when `ssh` itself failed, ssh(1).
const SSH_FAILED: i32 = 255;

/// A machine that `ssh` reaches.
#[derive(Debug)]
pub(crate) struct Ssh<'a> {
    /// The destination for `ssh`: `lab2`, `root@lab2`, `ssh://root@lab2:2222`.
    pub(crate) destination: &'a str,
}

impl Transport for Ssh<'_> {
    fn carrier(&self) -> &'static str {
        "ssh"
    }

    fn package(&self) -> Option<&'static str> {
        Some("openssh-client")
    }

    fn arguments(&self, command: &str) -> Vec<OsString> {
        let last = ["--", self.destination, command];
        OPTIONS.into_iter().chain(last).map(OsString::from).collect()
    }

    fn timeout(&self) -> Duration {
        connection::TIMEOUT
    }

    fn usual_program<'a>(&self, _: &'a LabOptions) -> &'a Path {
        Path::new(PEER_SERVER)
    }

    fn trial(&self, command: &str) -> String {
        format!("ssh -o BatchMode=yes {} {command}", shell::word(self.destination))
    }

    fn failed(&self, code: i32) -> Option<&'static str> {
        (code == SSH_FAILED).then_some("ssh made no connection")
    }

    fn needs(&self) -> &'static str {
        "ssh must log in without asking a question"
    }

    fn talkers(&self) -> &'static str {
        "a forced command of the key, or a shell that prints text when it starts,"
    }
}
