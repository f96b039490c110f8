//! The way to a client through a command of the user, which runs, by a shell there, the line that it gets as its last word:
//! `kubectl exec -i POD -- sh -c`, `docker exec -i NAME sh -c`, `ssh -J JUMP HOST`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use linkrate_model::interfaces::PEER_SERVER;
use linkrate_model::shell;

use super::remote::Transport;
use crate::connection;
use crate::options::LabOptions;

/// A command and its words, without the last one.
#[derive(Debug)]
pub(crate) struct UserCommand<'a> {
    pub(crate) words: &'a [String],
}

impl Transport for UserCommand<'_> {
    fn carrier(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn arguments(&self, command: &str) -> Vec<OsString> {
        let words = self.words.iter().skip(1).map(String::as_str);
        words.chain([command]).map(OsString::from).collect()
    }

    fn timeout(&self) -> Duration {
        connection::TIMEOUT
    }

    fn usual_program<'a>(&self, _: &'a LabOptions) -> &'a Path {
        Path::new(PEER_SERVER)
    }

    fn trial(&self, command: &str) -> String {
        let words = self.words.iter().map(String::as_str).chain([command]);
        words.map(shell::word).collect::<Vec<_>>().join(" ")
    }

    fn failed(&self, _: i32) -> Option<&'static str> {
        None
    }

    fn needs(&self) -> &'static str {
        "it must give its last word to a shell"
    }

    fn talkers(&self) -> &'static str {
        "a command that does not give its last word to a shell, or that prints text,"
    }
}
