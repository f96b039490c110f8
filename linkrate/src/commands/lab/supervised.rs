//! Programs whose calls a lab answers, so that their connections can move to the adapter.

use std::os::fd::OwnedFd;
use std::process::Command;

use linkrate_sys::{seccomp, stderr};

/// Makes the calls of a program wait for the lab behind `to`, which gets them with `message`.
pub fn supervise(command: &mut Command, to: OwnedFd, message: Vec<u8>) {
    if seccomp::is_supported() {
        seccomp::supervise(command, to, message);
    } else {
        stderr::line(
            "warning: this kernel has no seccomp user notification: connections of programs stay at the \
             host\nhint: use Linux 5.14 or later",
        );
    }
}
