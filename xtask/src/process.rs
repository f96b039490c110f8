//! Running a program with its output kept and its time bounded.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::summary::Outcome;

/// What timeout(1) exits with when the time was up.
const TIMED_OUT: i32 = 124;

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output and standard error in the order they were written, with a closing line
    /// when the program did not end by itself.
    pub output: String,
}

/// Of a check. Long enough for a build from nothing on two slow CPUs.
const CHECK_LIMIT: Duration = Duration::from_secs(30 * 60);

/// One check: the program succeeds.
pub fn check(command: &Command) -> io::Result<Outcome> {
    let finished = run(command, CHECK_LIMIT)?;
    Ok(if finished.success { Outcome::passed() } else { Outcome::failed(finished.output) })
}

/// Runs `command` to its end, at most for `limit`, without standard input, and keeps what it writes.
pub fn run(command: &Command, limit: Duration) -> io::Result<Finished> {
    let mut bounded = bounded(command, limit);

    // one pipe for both, so that a diagnostic stands next to the line it belongs to
    let (mut reader, writer) = io::pipe()?;
    bounded.stdout(writer.try_clone()?).stderr(writer);
    let mut child = bounded.spawn()?;
    // `bounded` holds the writing ends; the pipe ends only once they are closed
    drop(bounded);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    let status = child.wait()?;

    let mut output = String::from_utf8_lossy(&bytes).into_owned();
    if status.code() == Some(TIMED_OUT) {
        output.push_str(&format!("\nstopped after {} s\n", limit.as_secs()));
    } else if status.code().is_none() {
        output.push_str(&format!("\nended by {status}\n"));
    }
    Ok(Finished { success: status.success(), output })
}

/// The same for a program that shows its progress: what it writes goes where this program writes. Tells whether it
/// exited with 0.
pub fn show(command: &Command, limit: Duration) -> io::Result<bool> {
    let status = bounded(command, limit).status()?;
    if status.code() == Some(TIMED_OUT) {
        println!("stopped after {} s", limit.as_secs());
    }
    Ok(status.success())
}

/// `command` with an end: a step that hangs must fail by itself, because whatever stops the whole task from outside
/// would take the summary with it. timeout(1) is used because it ends the program's children too.
fn bounded(command: &Command, limit: Duration) -> Command {
    // a shell starts background jobs with SIGINT ignored, and tests that send it would wait for ever
    let mut bounded = Command::new("env");
    bounded.args(["--default-signal=INT,HUP", "timeout", "--kill-after=10"]);
    if io::stdin().is_terminal() {
        // else timeout(1) leaves the terminal's process group, and Ctrl-C would miss the program
        bounded.arg("--foreground");
    }
    bounded.arg(limit.as_secs().to_string()).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        bounded.current_dir(directory);
    }
    bounded.stdin(Stdio::null());
    bounded
}

/// Where `program` is found by PATH, if anywhere.
pub fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(program.as_ref())).find(
        |path| {
            path.metadata()
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_errors_come_in_order() {
        let script = "echo one; echo two >&2; echo three; exit 3";
        let finished = run(&shell(script), Duration::from_secs(10)).unwrap();
        assert!(!finished.success);
        assert_eq!(finished.output, "one\ntwo\nthree\n");
    }

    #[test]
    fn stops_a_hanging_program_with_its_children() {
        let finished = run(&shell("sleep 60 & sleep 60; true"), Duration::from_secs(1)).unwrap();
        assert!(!finished.success);
        assert!(finished.output.contains("stopped after 1 s"), "{}", finished.output);
    }

    #[test]
    fn programs_are_found_by_path() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
