//! Deploys the linkrate binary to a host that lacks this version, as an unlinked temporary file.
//!
//! What is sent are the segments alone, without symbols and debug information.
//!
//! A shell at the peer makes a directory that only its user may enter, opens a file in it, and removes
//! both. The copy lives as long as a process has it open: whatever is killed, at whichever end, nothing
//! is left to remove.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_model::shell;
use linkrate_protocol::cleaned;
use linkrate_sys::bounded::{Bound, Ended};
use linkrate_sys::socket::wait_ready;

use super::elf::{Elf, HEAD_BYTES};

/// Time for an answer of the shell, or for the next 64 KiB of the file to leave.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often a wait checks whether the user interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest line of the shell that is read.
const LINE_BYTES: usize = 256;

/// What the shell says once the file is open, before the machine's name.
const OPEN: &str = "linkrate-open ";

/// What it says once the file is there, right before it becomes the agent.
const WHOLE: &str = "linkrate-whole";

/// A program to bring along.
#[derive(Debug)]
pub(super) struct Program {
    file: File,
    path: PathBuf,
    elf: Elf,
    length: u64,
}

/// Why a program is not there.
#[derive(Debug)]
pub(super) enum DeployError {
    Interrupted,
    /// The machine is of another architecture, as `uname -m` names it.
    Machine(String),
    /// The shell said something else, or nothing in time.
    Answer(String),
    Ended,
}

impl From<io::Error> for DeployError {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

impl Program {
    /// Opens the file; `InvalidData` for what is no program of 64 bits, little-endian.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let whole = file.metadata()?.len();
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES).read_to_end(&mut head)?;
        file.rewind()?;
        let none = "it is not a program (ELF, 64 bits, little-endian)";
        let elf =
            Elf::read(&head).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, none))?;
        Ok(Self { file, path: path.to_owned(), elf, length: elf.loaded.min(whole) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn elf(&self) -> Elf {
        self.elf
    }

    /// Its length in MB, for people.
    pub(super) fn megabytes(&self) -> String {
        format!("{:.1} MB", self.length as f64 / 1e6)
    }

    /// The command that takes the file at the peer and becomes it, for whichever shell logs in.
    pub(super) fn command(&self) -> String {
        format!("exec /bin/sh -c {}", shell::word(&script(self.length)))
    }

    /// Sends the file through `socket` to [`command`](Self::command), which may take `timeout` to
    /// start. Afterwards, the agent reads.
    pub(super) fn send(
        &mut self,
        socket: &UnixStream,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<(), DeployError> {
        let line = read_line(socket, timeout, stop)?;
        let Some(machine) = line.strip_prefix(OPEN) else {
            return Err(DeployError::Answer(line));
        };
        if !self.elf.is_for(machine) {
            return Err(DeployError::Machine(machine.to_owned()));
        }
        let mut part = vec![0; 1 << 16];
        let mut file = (&self.file).take(self.length);
        let mut at_head = true;
        loop {
            let count = file.read(&mut part)?;
            if count == 0 {
                break;
            }
            if std::mem::take(&mut at_head) {
                Elf::strip(&mut part[..count]);
            }
            Bound::within(TIMEOUT, stop).write_all(socket, &part[..count]).map_err(|ended| {
                match ended {
                    Ended::Stopped => DeployError::Interrupted,
                    _ => DeployError::Ended,
                }
            })?;
        }
        match read_line(socket, TIMEOUT, stop)? {
            line if line == WHOLE => Ok(()),
            line => Err(DeployError::Answer(line)),
        }
    }
}

/// What the shell at the peer does with `length` bytes. `head` may read more than it passes on, so
/// nothing else is sent before [`WHOLE`].
fn script(length: u64) -> String {
    format!(
        "set -eu; umask 077; d=$(mktemp -d \"${{TMPDIR:-/tmp}}/linkrate.XXXXXXXXXX\"); \
         trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM; : >\"$d/linkrate\"; chmod 700 \"$d/linkrate\"; \
         exec 3>\"$d/linkrate\" 4<\"$d/linkrate\"; rm -rf \"$d\"; echo \"{OPEN}$(uname -m)\"; \
         head -c {length} >&3; exec 3>&-; [ \"$(wc -c </proc/self/fd/4)\" -eq {length} ]; echo {WHOLE}; \
         exec /proc/self/fd/4 agent --stdio"
    )
}

/// A line of the shell, cleaned.
fn read_line(
    mut socket: &UnixStream,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<String, DeployError> {
    let deadline = Instant::now() + timeout;
    let mut line = Vec::new();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(DeployError::Interrupted);
        }
        if Instant::now() >= deadline || line.len() > LINE_BYTES {
            return Err(DeployError::Answer(text(&line)));
        }
        if !wait_ready(socket, false, POLL_INTERVAL)? {
            continue;
        }
        // one at a time: what follows the line is for the agent's protocol
        let mut byte = [0];
        match socket.read(&mut byte)? {
            0 if line.is_empty() => return Err(DeployError::Ended),
            0 => return Err(DeployError::Answer(text(&line))),
            _ if byte[0] == b'\n' => return Ok(text(&line)),
            _ => line.push(byte[0]),
        }
    }
}

fn text(line: &[u8]) -> String {
    cleaned(String::from_utf8_lossy(line).trim_end())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A peer without `ssh`: the command in a shell, with a place for its files.
    struct There {
        place: tempfile::TempDir,
        shell: Child,
        socket: UnixStream,
    }

    impl There {
        fn start(command: &str) -> Self {
            let place = tempfile::tempdir().unwrap();
            let (socket, theirs) = UnixStream::pair().unwrap();
            let stdin = OwnedFd::from(theirs.try_clone().unwrap());
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", command]).env("TMPDIR", place.path());
            let shell = shell.stdin(Stdio::from(stdin)).stdout(Stdio::from(OwnedFd::from(theirs)));
            let shell = shell.stderr(Stdio::null()).spawn().unwrap();
            Self { place, shell, socket }
        }

        fn holds_nothing(&self) -> bool {
            self.place.path().read_dir().unwrap().next().is_none()
        }

        fn code(&mut self) -> Option<i32> {
            self.shell.wait().unwrap().code()
        }
    }

    /// A program of the length of `script`, which says that it is for this machine.
    fn program(directory: &Path, script: &str) -> Program {
        let path = directory.join("program");
        std::fs::write(&path, script).unwrap();
        let own = Program::open(&std::env::current_exe().unwrap()).unwrap();
        Program { file: File::open(&path).unwrap(), path, length: script.len() as u64, ..own }
    }

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn the_shell_becomes_the_program_and_no_file_has_a_name() {
        let here = tempfile::tempdir().unwrap();
        // longer than a pipe holds, and it reads what is sent after it
        let script = format!("#!/bin/sh\necho $*\ncat\nexit 7\n{}", "# filler\n".repeat(50_000));
        let mut program = program(here.path(), &script);
        let mut there = There::start(&program.command());
        program.send(&there.socket, TIMEOUT, &GO_ON).unwrap();
        assert!(there.holds_nothing());
        assert_eq!(read_line(&there.socket, TIMEOUT, &GO_ON).unwrap(), "agent --stdio");
        (&there.socket).write_all(b"protocol\n").unwrap();
        assert_eq!(read_line(&there.socket, TIMEOUT, &GO_ON).unwrap(), "protocol");
        there.socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(there.code(), Some(7));
    }

    #[test]
    fn a_copy_that_breaks_off_leaves_nothing_and_runs_nothing() {
        let here = tempfile::tempdir().unwrap();
        let program = program(here.path(), "#!/bin/sh\nexit 7\n");
        let mut there = There::start(&program.command());
        assert!(read_line(&there.socket, TIMEOUT, &GO_ON).unwrap().starts_with(OPEN));
        assert!(there.holds_nothing(), "the file has no name before the first byte");
        (&there.socket).write_all(b"#!/bin/sh\n").unwrap();
        there.socket.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(there.code(), Some(1));
        assert!(there.holds_nothing());
    }

    #[test]
    fn other_machines_and_other_answers_are_refused() {
        let here = tempfile::tempdir().unwrap();
        let mut program = program(here.path(), "#!/bin/sh\nexit 7\n");
        let answered = |program: &mut Program, command: &str| {
            let there = There::start(command);
            program.send(&there.socket, TIMEOUT, &GO_ON).unwrap_err()
        };
        let machine = answered(&mut program, "echo linkrate-open pdp11; cat");
        assert!(matches!(machine, DeployError::Machine(name) if name == "pdp11"));
        let banner = answered(&mut program, "printf 'Welcome \\033[1m\\n'; cat");
        assert!(matches!(banner, DeployError::Answer(line) if line == "Welcome \u{fffd}[1m"));
        assert!(matches!(answered(&mut program, "exit 0"), DeployError::Ended));
        let stopped = program.send(&There::start("cat").socket, TIMEOUT, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(DeployError::Interrupted)));
    }

    #[test]
    fn a_program_runs_without_its_sections() {
        let here = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let program = Program::open(&own).unwrap();
        assert!(program.length < own.metadata().unwrap().len());
        let mut bytes = std::fs::read(&own).unwrap();
        bytes.truncate(program.length as usize);
        Elf::strip(&mut bytes);
        let copy = here.path().join("copy");
        std::fs::write(&copy, bytes).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700)).unwrap();
        let ran = Command::new(&copy).args(["--list", "no-such-test"]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    #[test]
    fn a_file_that_is_no_program_is_refused() {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("text"), "linkrate\n").unwrap();
        let error = Program::open(&here.path().join("text")).unwrap_err();
        assert!(error.to_string().contains("not a program"), "{error}");
        assert!(Program::open(&here.path().join("none")).is_err());
    }
}
