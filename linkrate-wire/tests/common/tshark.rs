//! Frames decoded by tshark.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::skip::skip;

/// What tshark prints with these arguments when it reads `capture`. `None`, after a line that says
/// that the test was skipped, where there is no tshark.
pub fn tshark(arguments: &[&str], capture: &[u8]) -> Option<String> {
    let mut command = Command::new("tshark");
    command.args(["-r", "-"]).args(arguments);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tshark = match started.spawn() {
        Ok(tshark) => tshark,
        Err(error) => {
            skip(format!("tshark: {error}; apt-get install tshark"));
            return None;
        }
    };
    let mut input = tshark.stdin.take().expect("a pipe");
    input.write_all(capture).expect("tshark reads");
    drop(input);
    let output = tshark.wait_with_output().expect("tshark ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
