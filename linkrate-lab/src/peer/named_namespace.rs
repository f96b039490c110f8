//! The way into a network namespace of this machine, through `ip netns exec`, which brings the namespace's own /sys along.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use linkrate_model::shell;

use super::remote::Transport;
use crate::connection;
use crate::options::LabOptions;

/// Exit codes of `ip netns exec` that has entered no namespace: `exit(-1)` of netns_switch, and EXIT_FAILURE.
const NOT_ENTERED: [i32; 2] = [255, 1];

/// A network namespace that ip-netns(8) has named.
#[derive(Debug)]
pub(crate) struct NamedNamespace<'a> {
    pub(crate) name: &'a str,
}

impl Transport for NamedNamespace<'_> {
    fn carrier(&self) -> &'static str {
        "ip"
    }

    fn package(&self) -> Option<&'static str> {
        Some("iproute2")
    }

    fn arguments(&self, command: &str) -> Vec<OsString> {
        ["netns", "exec", self.name, "sh", "-c", command].map(OsString::from).into()
    }

    fn timeout(&self) -> Duration {
        connection::TIMEOUT
    }

    fn usual_program<'a>(&self, options: &'a LabOptions) -> &'a Path {
        &options.program
    }

    fn trial(&self, command: &str) -> String {
        format!("ip netns exec {} {command}", shell::word(self.name))
    }

    fn failed(&self, code: i32) -> Option<&'static str> {
        NOT_ENTERED.contains(&code).then_some("ip entered no such namespace")
    }

    fn needs(&self) -> &'static str {
        "it takes root, and a namespace that ip netns list shows"
    }

    fn talkers(&self) -> &'static str {
        "another program in the place of ip"
    }
}
